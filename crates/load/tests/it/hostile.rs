//! Faults of servers, and the outcome of each.

use std::io::Write;
use std::net::TcpListener;

use assay_load::{MeasuredLimits, ServingApi, Trial};
use assay_record::{Outcome, Record};

use crate::server::{AfterResponse, Server, event_stream, good_stream};
use crate::support::{CLOSED_URL, LONG, MS, numbered, run_trial, trial};

/// Returns the only record of a request to a server that sends these bytes and closes.
fn record_response(bytes: &[u8]) -> Record {
    record_of(true, bytes)
}

fn record_of(streaming: bool, bytes: &[u8]) -> Record {
    let bytes = bytes.to_vec();
    let server = Server::start(move |_, stream| {
        let _ = stream.write_all(&bytes);
        AfterResponse::Close
    });
    let trial = Trial { streaming, ..trial(&server.url()) };
    let (_, kept) = run_trial(&trial, &mut numbered(1));
    let [record] = kept.records.try_into().expect("one record");
    record
}

/// Formats outcome and reason.
fn describe(record: &Record) -> String {
    format!("{}: {}", record.outcome, record.error.as_deref().unwrap_or("-"))
}

fn streamed(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n{body}").into_bytes()
}

const TOKEN: &str = r#"data: {"choices":[{"delta":{"content":"a"}}]}"#;

#[test]
fn refusals_keep_their_status_and_message() {
    let body = r#"{"error":{"message":"slow down","type":"rate_limit"}}"#;
    let record = record_response(format!("HTTP/1.1 429 Too Many\r\ncontent-length: {}\r\n\r\n{body}", body.len()).as_bytes());
    assert_eq!((describe(&record).as_str(), record.http_status), ("http_error: slow down", Some(429)));
    let record = record_response(b"HTTP/1.1 500 Oops\r\n\r\nInternal\nServer Error");
    assert_eq!((describe(&record).as_str(), record.http_status), ("http_error: Internal Server Error", Some(500)));
    let record = record_response(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
    assert_eq!(record.http_status, Some(404));
    assert_eq!(record.outcome, Outcome::HttpError);
    let record = record_response(format!("HTTP/1.1 503 No\r\n\r\n{}", "x".repeat(3 << 20)).as_bytes());
    assert_eq!(record.outcome, Outcome::HttpError);
    assert_eq!(record.error.map(|error| error.len()), Some(200));
}

#[test]
fn what_is_no_response_is_malformed() {
    let cases: &[(Vec<u8>, &str)] = &[
        (b"SSH-2.0-OpenSSH\r\n".to_vec(), "malformed: the response is not HTTP"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<html>".to_vec(),
            "malformed: the response's content type is not text/event-stream: `<html>`",
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"choices\":[{\"message\":{\"content\":\"a\"}}]}"
                .to_vec(),
            "malformed: the response's content type is not text/event-stream",
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\nx".to_vec(),
            "malformed: the response is compressed, which was not requested",
        ),
        (streamed("data: hello\n\n"), "malformed: the response is not in the API's format: an object is missing: `hello`"),
        (streamed("data: {\"choices\":[\n\n"), "malformed: the response is not in the API's format: it ends too early"),
        (
            streamed("data: {\"choices\":[{\"delta\":{\"content\":5}}]}\n\n"),
            "malformed: the response is not in the API's format: the text of the response is not a string",
        ),
        (
            [streamed("data: {\"choices\":[{\"delta\":{\"content\":\""), b"\xff\"}}]}\n\n".to_vec()].concat(),
            "malformed: the response is not in the API's format: it is not UTF-8",
        ),
        (
            streamed(&format!("data: {}", "x".repeat(2 << 20))),
            "event_too_large: an event of the stream is larger than this client's limit of 1048576 bytes",
        ),
        (
            streamed(&format!("data: {}\n\n", "[".repeat(1000))),
            "malformed: the response is not in the API's format: an object is missing",
        ),
        (
            format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(100_000)).into_bytes(),
            "malformed: the head of the response is too long",
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n".to_vec(),
            "malformed: a chunk of the response has no size",
        ),
    ];
    for (bytes, expected) in cases {
        assert_eq!(describe(&record_response(bytes)), *expected);
    }
    let json = |body: &str| {
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    };
    assert_eq!(
        describe(&record_of(false, &json("not json"))),
        "malformed: the response is not in the API's format: an object is missing: `not json`"
    );
    assert_eq!(describe(&record_of(false, &json(""))), "malformed: the response is not in the API's format: it ends too early");
    assert_eq!(describe(&record_of(false, &streamed(""))), "malformed: the response's content type is not application/json");
}

#[test]
fn errors_in_a_stream_end_it() {
    for event in [
        r#"data: {"error":{"message":"out of memory","code":500}}"#,
        r#"data: {"object":"error","message":"out of memory"}"#,
        r#"data: {"error":"out of memory"}"#,
        "event: error\ndata: {\"message\":\"out of memory\"}",
        "event: error\ndata: out of memory",
    ] {
        let record = record_response(&streamed(&format!("{TOKEN}\n\n{event}\n\ndata: [DONE]\n\n")));
        assert_eq!((describe(&record).as_str(), record.token_events), ("stream_error: out of memory", 1), "{event}");
        assert_eq!(record.http_status, Some(200));
    }
}

#[test]
fn an_error_with_a_status_of_success_keeps_the_endpoint_s_words() {
    let json = |body: &str| {
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    };
    for body in [
        r#"{"error":{"message":"out of memory"}}"#,
        r#"{"object":"error","message":"out of memory"}"#,
        r#"{"message":"out of memory"}"#,
        r#"{"detail":"out of memory"}"#,
    ] {
        for streaming in [true, false] {
            let record = record_of(streaming, &json(body));
            assert_eq!(
                (describe(&record).as_str(), record.http_status),
                ("stream_error: out of memory", Some(200)),
                "{streaming} {body}"
            );
        }
        let event = record_response(&streamed(&format!("data: {body}\n\ndata: [DONE]\n\n")));
        assert_eq!(describe(&event), "stream_error: out of memory", "{body}");
    }
    let long = record_of(true, &json(&format!(r#"{{"error":{{"message":"out\u001b[31m of\n{}"}}}}"#, "memory ".repeat(1_000))));
    let words = long.error.expect("words");
    assert!(words.starts_with("out [31m of memory") && words.len() <= 200, "{words}");
}

#[test]
fn a_request_that_the_endpoint_aborts_did_not_end_well() {
    let ended = |reason: &str| {
        format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"a\"}},\"finish_reason\":{reason}}}]}}\n\ndata: [DONE]\n\n")
    };
    for (reason, expected) in [
        (r#""abort""#, "stream_error: the endpoint ended the response with finish_reason `abort`"),
        (r#""error""#, "stream_error: the endpoint ended the response with finish_reason `error`"),
        (
            r#"{"type":"abort","message":"out of memory"}"#,
            "stream_error: the endpoint ended the response with finish_reason `abort`: out of memory",
        ),
    ] {
        let record = record_response(&streamed(&ended(reason)));
        assert_eq!((describe(&record).as_str(), record.token_events), (expected, 1));
        let whole = format!(r#"{{"choices":[{{"message":{{"content":"a"}},"finish_reason":{reason}}}]}}"#);
        let whole = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{whole}", whole.len());
        assert_eq!(describe(&record_of(false, whole.as_bytes())), expected);
    }
    for reason in [r#""stop""#, r#""length""#, r#""tool_calls""#, r#""content_filter""#, r#"{"type":"length","length":5}"#] {
        assert_eq!(record_response(&streamed(&ended(reason))).outcome, Outcome::Ok, "{reason}");
    }
}

#[test]
fn a_stream_is_whole_only_if_it_says_so() {
    let done = record_response(&streamed(&format!("{TOKEN}\n\ndata: [DONE]\n\n")));
    assert_eq!(done.outcome, Outcome::Ok);
    let finished =
        record_response(&streamed("data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n"));
    assert_eq!((finished.outcome, finished.finish_reason.as_deref()), (Outcome::Ok, Some("stop")));
    let neither = record_response(&streamed(&format!("{TOKEN}\n\n")));
    assert_eq!(describe(&neither), "truncated: the stream ended without `[DONE]` and without a finish reason");
    let cut = record_response(&good_stream()[..150]);
    assert_eq!(describe(&cut), "truncated: the connection was closed before the response was complete");
    let head = record_response(b"HTTP/1.1 200 OK\r\ncont");
    assert_eq!(describe(&head), "truncated: the connection was closed in the head of the response");
    let short =
        record_of(false, b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{\"choices\":[]}");
    assert_eq!(describe(&short), "truncated: the connection was closed before the response was complete");
}

#[test]
fn a_complete_response_without_text_is_empty() {
    let record = record_response(&event_stream(&[
        r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#,
        r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
        "[DONE]",
    ]));
    assert_eq!((record.token_events, record.first_token_ns), (0, None));
    assert_eq!(describe(&record), "empty: the stream ended without text");
    let record = record_of(false, b"HTTP/1.1 200 OK\r\n\r\n{\"choices\":[]}");
    assert_eq!(describe(&record), "empty: the response has no text; its members are `choices`");
}

#[test]
fn a_server_that_closes_without_a_word_has_closed_the_connection() {
    let record = record_response(b"");
    assert_eq!(describe(&record), "connection_closed: the connection was closed before a response began");
    assert!(record.sent_ns.is_some() && record.first_byte_ns.is_none());
}

#[test]
fn a_port_that_nobody_listens_on_is_a_connect_error() {
    let (finished, kept) = run_trial(&trial(CLOSED_URL), &mut numbered(3));
    assert_eq!(finished.counts.count(assay_record::Phase::Measured, Outcome::ConnectError), 3);
    for record in &kept.records {
        assert!(describe(record).starts_with("connect_error: failed to connect: "), "{record:?}");
        assert!(record.connect_start_ns.is_some() && record.connect_end_ns.is_none() && record.sent_ns.is_none());
    }
}

#[test]
fn a_drip_is_a_response() {
    let server = Server::start(|_, stream| {
        for byte in good_stream() {
            let _ = stream.write_all(&[byte]);
            let _ = stream.flush();
        }
        AfterResponse::KeepAlive
    });
    let (_, kept) = run_trial(&trial(&server.url()), &mut numbered(2));
    assert!(kept.records.iter().all(|record| record.outcome == Outcome::Ok && record.token_events == 2));
    assert_eq!(kept.responses, [Some("ab".to_owned()), Some("ab".to_owned())]);
}

#[test]
fn a_server_that_hangs_runs_into_the_time_limit() {
    for part in [b"".as_slice(), b"HTTP/1.1 200 OK\r\n", &good_stream()[..150]] {
        let part = part.to_vec();
        let hung = crate::server::Gate::default();
        let gate = hung.clone();
        let server = Server::start(move |_, stream| {
            let _ = stream.write_all(&part);
            let _ = stream.flush();
            gate.pass();
            AfterResponse::Close
        });
        let trial = Trial { timeout_ns: 100 * MS, ..trial(&server.url()) };
        let (_, kept) = run_trial(&trial, &mut numbered(1));
        let record = &kept.records[0];
        assert_eq!(record.outcome, Outcome::Timeout);
        assert!(describe(record).ends_with("response before its time limit"), "{record:?}");
        assert!(record.end_ns.expect("an end") - record.dequeued_ns.expect("a beginning") >= 100 * MS);
        hung.open();
    }
}

#[test]
fn what_is_under_way_at_the_end_may_drain_and_is_cancelled_then() {
    let hung = crate::server::Gate::default();
    let gate = hung.clone();
    let server = Server::start(move |request, stream| {
        if request.number > 0 {
            gate.pass();
        }
        let _ = stream.write_all(&good_stream());
        AfterResponse::KeepAlive
    });
    let trial = Trial {
        measured: MeasuredLimits { duration_ns: Some(50 * MS), requests: None },
        drain_ns: 20 * MS,
        ..trial(&server.url())
    };
    let (finished, kept) = run_trial(&trial, &mut numbered(1_000_000));
    assert_eq!(kept.records.len(), 2);
    assert_eq!(describe(&kept.records[1]), "cancelled_at_end: no response before the trial's end");
    assert_eq!((finished.measured_to_ns, finished.cancelled), (50 * MS, false));
    assert!(finished.ended_ns >= 70 * MS);
    hung.open();
}

#[test]
fn the_bytes_of_responses_beyond_a_limit_are_counted() {
    let large = streamed(&format!("data: {}", "x".repeat(2 << 20)));
    let server = Server::start(move |request, stream| {
        let bytes = if request.number == 0 { large.clone() } else { good_stream() };
        let _ = stream.write_all(&bytes);
        AfterResponse::Close
    });
    let (finished, kept) = run_trial(&trial(&server.url()), &mut numbered(2));
    let bytes: Vec<u64> = kept.records.iter().map(|record| record.response_bytes).collect();
    let outcomes: Vec<Outcome> = kept.records.iter().map(|record| record.outcome).collect();
    assert_eq!(outcomes, [Outcome::EventTooLarge, Outcome::Ok]);
    assert_eq!((finished.client.read_bytes, finished.client.excess_bytes), (bytes.iter().sum(), bytes[0]));
    assert!(finished.client.full_read_bytes <= finished.client.read_bytes);
    assert_eq!(finished.client.explain_flood(), None, "they are few");
}

#[test]
fn a_large_request_that_is_refused_before_it_was_read_is_a_refusal() {
    struct LargeRequest(bool);
    impl assay_load::Requests for LargeRequest {
        fn next(&mut self, _: assay_record::Phase) -> Result<Option<assay_load::PlannedRequest>, assay_load::Cause> {
            let first = !std::mem::replace(&mut self.0, true);
            Ok(first.then(|| assay_load::PlannedRequest {
                body: vec![b' '; 32 << 20],
                request_id: 1,
                ..assay_load::PlannedRequest::default()
            }))
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let refusing = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        stream.write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 5\r\n\r\nlarge").expect("written");
        // Held until the client has gone: closing at once could discard the response with it.
        let mut rest = Vec::new();
        let _ = std::io::Read::read_to_end(&mut stream, &mut rest);
        rest.len()
    });
    let trial = Trial { api: ServingApi::Completions, timeout_ns: LONG, ..trial(&url) };
    let (_, kept) = run_trial(&trial, &mut LargeRequest(false));
    assert_eq!((describe(&kept.records[0]).as_str(), kept.records[0].http_status), ("http_error: large", Some(413)));
    refusing.join().expect("no panic");
}
