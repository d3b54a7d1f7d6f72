//! Spans of a server: sent as OTLP to the recorder while trials run, joined with the requests of the client, and shown as rows.
//!
//! The server is scripted: it takes the trace id of `traceparent`, as an instrumented server does, and sends its spans as JSON.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};

use assay_warehouse::Row;
use serde_json::json;

use crate::exporters::{count, float, issue, rows};
use crate::server::{AfterResponse, Server, header, json_response};
use crate::serving::{MODEL, RETRY_BUDGET, endpoint, pipeline, workload};
use crate::support::{Fixture, PIPELINE};

/// Sends a span of 5 ms to a receiver, and returns the status line of the response.
fn send_span(receiver: SocketAddr, trace_id: &str) -> String {
    let span = json!({
        "traceId": trace_id, "spanId": "00000000000000aa", "name": "llm \"queue\"", "kind": 2,
        "startTimeUnixNano": "1000000000", "endTimeUnixNano": "1005000000",
        "attributes": [{"key": "gen_ai.prompt", "value": {"stringValue": "a prompt that is not kept"}}],
    });
    let body = json!({"resourceSpans": [{"resource": {}, "scopeSpans": [{"spans": [span]}]}]}).to_string();
    let head = "POST /v1/traces HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\nconnection: close";
    let mut stream = TcpStream::connect(receiver).expect("the recorder listens");
    write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).expect("written");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    response.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn spans_of_a_server_are_joined_with_its_requests() {
    // The receiver cannot report a port that it chose itself, so a port that was free a moment ago has to do.
    let receiver = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    // The test request, which is the first one, has to get a document, too.
    let server = Server::start_with_test_requests(MODEL, move |request| {
        let body = r#"{"choices":[{"message":{"content":"a b"},"finish_reason":"length"}],"usage":{"prompt_tokens":20,"completion_tokens":2}}"#;
        let response = (json_response("200 OK", body), AfterResponse::KeepAlive);
        if request.number == 0 {
            return response;
        }
        let trace_id = header(&request.head, "traceparent").and_then(|value| value.split('-').nth(1)).expect("a trace id");
        // One request in five has no spans, and one span has no request.
        if request.number % 5 != 4 {
            assert_eq!(send_span(receiver, trace_id), "HTTP/1.1 200 OK");
        }
        if request.number == 1 {
            send_span(receiver, "000000000000000000000000000000ab");
        }
        response
    });
    let fixture = Fixture::bare();
    workload(&fixture, "chat", "mode: closed, concurrency: [1], requests: 10", "D(20,2)", "  streaming: false\n");
    let telemetry = format!("  telemetry: [{{name: traces, otlp: '{receiver}'}}]\n");
    fixture.write(PIPELINE, &pipeline(&["chat"], &[&endpoint("server", &server, "")], 1, RETRY_BUDGET, &telemetry));
    fixture.commit("a server with spans");
    let shown = fixture.assay(&["sources", PIPELINE]).success().stdout;
    assert!(shown.contains(&format!("point the servers' exporters at http://{receiver}/v1/traces")), "{shown}");
    fixture.run("one").success();

    let rows = rows(&fixture, "one");
    let of = |metric: &str| -> Vec<&Row> {
        let is_it = |row: &&Row| row.text("source") == Some("otlp/traces") && row.text("metric") == Some(metric);
        rows.iter().filter(is_it).collect()
    };
    let durations = of(r#"span_duration_seconds{span="llm \"queue\""}"#);
    let last = durations.last().unwrap_or_else(|| panic!("a row of spans: {rows:#?}"));
    assert!((float(last, "mean") - 0.005).abs() < 1e-9 && count(last, "n") == 8, "{last:?}");
    assert_eq!(
        (last.text("scope_kind"), last.text("scope_id"), last.text("unit")),
        (Some("endpoint"), Some("server"), Some("s"))
    );
    let shares = of(r#"span_share_of_request{span="llm \"queue\""}"#);
    assert!(shares.iter().all(|row| float(row, "min") > 0.0), "{shares:?}");
    let unjoined = issue(&fixture, "one", "spans_unjoined");
    assert!(unjoined.contains("requests have no spans, 1 spans are of no request"), "{unjoined}");
    fixture.verify_recomputed("one");
    // Attributes may hold prompts: none is kept.
    for file in crate::support::files_under(&fixture.store()) {
        let bytes = std::fs::read(&file).expect("a file of the store");
        let plain = zstd::decode_all(bytes.as_slice()).unwrap_or(bytes);
        assert!(!String::from_utf8_lossy(&plain).contains("a prompt that is not kept"), "{}", file.display());
    }
}

#[test]
fn a_port_that_is_taken_fails_no_run() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address");
    let telemetry = format!("  telemetry: [{{name: traces, otlp: '{address}'}}]\n");
    let fixture = Fixture::with_pipeline(
        &crate::support::steady_script("only"),
        &crate::support::pipeline("exploratory", &["only"], 1, &telemetry),
    );
    fixture.run("one").success();
    let gaps = issue(&fixture, "one", "recording_gaps");
    assert!(gaps.contains("`otlp/traces` for ") && gaps.contains(&format!("cannot listen at `{address}`")), "{gaps}");
    let refused = fixture.assay(&["sources", PIPELINE]).refuses(30, "telemetry_unreachable");
    assert!(refused.stdout.contains("cannot be asked now: cannot listen there"), "{}", refused.stdout);
}
