use std::fs::File;
use std::io::Cursor;

use assay_manifest::{Count, Series};
use assay_stage::Clock;
use assay_telemetry::{LineFormat, each_reading};

use super::*;

const SPANS: &str = r#"{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "000000000000000000000000000000ab",
    "spanId": "0000000000000001", "name": "queue", "startTimeUnixNano": "1", "endTimeUnixNano": "3"}, {"name": "without ids"}]}]}]}"#;

fn request(head: &str, body: &str) -> String {
    format!("POST /v1/traces HTTP/1.1\r\ncontent-length: {}\r\n{head}\r\n\r\n{body}", body.len())
}

/// Reads the first request in these bytes.
fn read(bytes: &str) -> Result<Option<usize>, Refusal> {
    read_request(Cursor::new(bytes.as_bytes()), &mut Vec::new()).map(|found| found.map(|request| request.body.len()))
}

fn refusal(bytes: &str) -> String {
    let Refusal { status, why } = read(bytes).expect_err("refused");
    format!("{status}: {why}")
}

#[test]
fn a_request_is_read_to_its_end() {
    assert_eq!(read(&request("content-type: application/json", SPANS)), Ok(Some(SPANS.len())));
    assert_eq!(read(&request("Content-Type: application/x-protobuf", "")), Ok(Some(0)));
    assert_eq!(read(""), Ok(None));
    let both = format!("{0}{0}", request("content-type: application/json", "{}"));
    let (mut stream, mut bytes) = (Cursor::new(both.as_bytes()), Vec::new());
    for _ in 0..2 {
        let found = read_request(&mut stream, &mut bytes).expect("a request").expect("a request");
        assert_eq!((found.body.as_slice(), found.keeps_alive), (&b"{}"[..], true));
    }
    assert!(read_request(&mut stream, &mut bytes).expect("the end").is_none());
}

#[test]
fn what_is_no_request_for_spans_is_refused() {
    let json = "content-type: application/json";
    insta::assert_snapshot!(refusal("SSH-2.0\r\n\r\n"), @"400 Bad Request: a request is not HTTP/1.1: invalid token");
    insta::assert_snapshot!(refusal("POST /v1/metrics HTTP/1.1\r\n\r\n"), @"404 Not Found: a request is for another path than `/v1/traces`");
    insta::assert_snapshot!(refusal("GET /v1/traces HTTP/1.1\r\n\r\n"), @"405 Method Not Allowed: a request is no POST");
    insta::assert_snapshot!(refusal("POST /v1/traces HTTP/1.1\r\ncontent-type: text/plain\r\n\r\n"), @"415 Unsupported Media Type: a request is neither `application/x-protobuf` nor `application/json`");
    insta::assert_snapshot!(refusal(&request(&format!("{json}\r\ncontent-encoding: gzip"), "")), @"415 Unsupported Media Type: a request is compressed; set `OTEL_EXPORTER_OTLP_COMPRESSION=none`");
    insta::assert_snapshot!(refusal(&format!("POST /v1/traces HTTP/1.1\r\n{json}\r\ntransfer-encoding: chunked\r\n\r\n")), @"411 Length Required: a request has no `content-length`");
    insta::assert_snapshot!(refusal(&format!("POST /v1/traces HTTP/1.1\r\n{json}\r\ncontent-length: 99999999\r\n\r\n")), @"413 Content Too Large: a body has more than 8388608 bytes");
    insta::assert_snapshot!(refusal(&format!("POST /v1/traces HTTP/1.1\r\n{json}\r\ncontent-length: 9\r\n\r\n{{}}")), @"408 Request Timeout: a body was cut");
    insta::assert_snapshot!(refusal("POST /v1/traces HTTP/1.1\r\n"), @"408 Request Timeout: a head was cut");
    insta::assert_snapshot!(refusal(&format!("POST /v1/traces HTTP/1.1\r\n{}", "x".repeat(MAX_HEAD_BYTES))), @"431 Request Header Fields Too Large: a head has more than 16384 bytes");
}

/// Returns the bodies and the reasons of a recording.
fn lines(recorded: &RecordedSource) -> Vec<String> {
    let artifact = serde_json::json!({
        "name": "t", "digest": assay_manifest::Digest::compute(b""), "size": "0", "media_type": "application/jsonl+zstd",
    });
    let artifact = serde_json::from_value(artifact).expect("an artifact");
    let series = Series { source: "otlp/traces".to_owned(), samples: Count(recorded.samples), artifact };
    let mut found = Vec::new();
    each_reading(&series, LineFormat::Scrapes, File::open(&recorded.path).expect("there"), |line: ScrapeLine| {
        found.push(line.body.or(line.error).unwrap_or_default());
        Ok::<_, assay_telemetry::Error>(())
    })
    .expect("readable");
    found
}

#[test]
fn spans_are_received_until_the_recorder_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = Source::traces(&"traces".parse().expect("a name"));
    let file = ReadingFile::create(&source, READING, &folder.path().join("spans"), Clock.start()).expect("a file");
    let (sender, received) = sync_channel(MAX_WAITING);
    let open = listen("127.0.0.1:0", sender).expect("a free port");
    let address = open.address;
    let mut kept_open = TcpStream::connect(address).expect("a connection");
    let exchange = |stream: &mut TcpStream, bytes: &str| {
        stream.write_all(bytes.as_bytes()).expect("written");
        let mut response = [0; 512];
        let read = stream.read(&mut response).expect("a response");
        String::from_utf8_lossy(&response[..read]).lines().next().unwrap_or_default().to_owned()
    };
    let good = request("content-type: application/json", SPANS);
    assert_eq!(exchange(&mut kept_open, &good), "HTTP/1.1 200 OK");
    assert_eq!(exchange(&mut kept_open, &good), "HTTP/1.1 200 OK");
    let mut other = TcpStream::connect(address).expect("a connection");
    assert_eq!(exchange(&mut other, &request("content-type: application/json", "no json")), "HTTP/1.1 400 Bad Request");
    // The first connection is open still.
    drop(open);
    let recorded = write(file, &received, None, &Messages::channel().0).expect("written");
    let lines = lines(&recorded);
    let span = "000000000000000000000000000000ab 0000000000000001 0000000000000000 1 3 queue\n# 1 spans have no usable ids";
    assert_eq!(lines[..2], [span; 2]);
    assert!(lines[2].starts_with("# the request is no `ExportTraceServiceRequest` in JSON"), "{lines:?}");
    assert_eq!(recorded.gaps, []);
}

#[test]
fn a_port_that_is_taken_is_a_gap_of_the_whole_recording() {
    let folder = tempfile::tempdir().expect("a folder");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let (sender, received) = sync_channel(MAX_WAITING);
    let why = listen(&address, sender).err().expect("it is taken");
    let source = Source::traces(&"traces".parse().expect("a name"));
    let file = ReadingFile::create(&source, READING, &folder.path().join("spans"), Clock.start()).expect("a file");
    let recorded = write(file, &received, Some(why), &Messages::channel().0).expect("written");
    assert!(
        recorded.gaps[0].reason.starts_with(&format!("a request failed: cannot listen at `{address}`")),
        "{:?}",
        recorded.gaps
    );
}
