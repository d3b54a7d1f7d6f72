//! Endpoints whose `usage` cannot be a count of what they sent: no number rests on it, and the result says so.

use assay_record::{Outcome, TokenSource, UsageFault};
use serde_json::{Value, json};

use crate::pipeline::list;
use crate::server::{AfterResponse, Server, json_response, open_stream};
use crate::serving::{MODEL, RETRY_BUDGET, endpoint, pipeline, workload};
use crate::support::{Fixture, PIPELINE};
use crate::traces::{metric, records};

/// The tokens that each response has, and that each request asks for.
const TOKENS: usize = 16;

/// Measures an endpoint that sends as many tokens as each request asks for and states this count of them. Returns the printed result.
fn measure(fixture: &Fixture, run_id: &str, count: &'static str, streaming: bool) -> String {
    let server = Server::start_with_test_requests(MODEL, move |_| {
        let usage = format!(r#""usage":{{"prompt_tokens":20,"completion_tokens":{count}}}"#);
        let response = if streaming {
            let event = r#"{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}"#;
            let last = format!(r#"{{"choices":[{{"index":0,"delta":{{}},"finish_reason":"length"}}],{usage}}}"#);
            let events = [vec![event; TOKENS], vec![last.as_str(), "[DONE]"]].concat();
            [open_stream(&events).as_slice(), b"0\r\n\r\n"].concat()
        } else {
            let body = format!(r#"{{"choices":[{{"message":{{"content":"a b"}},"finish_reason":"length"}}],{usage}}}"#);
            json_response("200 OK", &body)
        };
        (response, AfterResponse::KeepAlive)
    });
    let fields = format!("  streaming: {streaming}\n");
    workload(fixture, "chat", "mode: closed, concurrency: [1], requests: 10", &format!("D(20,{TOKENS})"), &fields);
    fixture.write(PIPELINE, &pipeline(&["chat"], &[&endpoint("liar", &server, "")], 1, RETRY_BUDGET, ""));
    fixture.commit(run_id);
    let ran = fixture.run(run_id).success();
    fixture.verify_recomputed(run_id);
    ran.stdout
}

fn serving(fixture: &Fixture, run_id: &str) -> Value {
    list(&fixture.manifest(run_id, "reduce")["body"]["points"])[0]["serving"].clone()
}

#[test]
fn no_number_rests_on_an_absurd_count() {
    let fixture = Fixture::bare();
    let honest = measure(&fixture, "honest", "16", true);
    assert!(!honest.contains("the endpoint states"), "{honest}");
    assert_eq!(serving(&fixture, "honest")["usage_faults"], Value::Null);

    let absurd = measure(&fixture, "absurd", "4000000000", true);
    let remark = absurd.split_whitespace().collect::<Vec<_>>().join(" ");
    let stated = "the endpoint states more output tokens than its requests allow: token events are counted instead; \
                  `output_exceeds_limit` in 10 of 10 successful responses";
    assert!(remark.contains(stated), "{absurd}");
    let found = serving(&fixture, "absurd");
    assert_eq!(
        (&found["usage_faults"], &found["token_sources"]),
        (&json!({"output_exceeds_limit": "10"}), &json!({"chunks": "10"}))
    );
    for run_id in ["honest", "absurd"] {
        assert!((metric(&fixture, run_id, "concurrency-1", "osl_tokens_mean") - 16.0).abs() < 1e-9, "{run_id}");
        let (rate, requests) = ("output_tokens_per_s", "request_throughput_per_s");
        let [rate, requests] = [rate, requests].map(|name| metric(&fixture, run_id, "concurrency-1", name));
        assert!((rate / requests - 16.0).abs() < 1e-6, "{run_id}: {rate} {requests}");
    }
    for record in records(&fixture, "absurd").pop().expect("an attempt") {
        assert_eq!((record.outcome, record.output_source), (Outcome::Ok, TokenSource::Chunks));
        assert_eq!((record.output_tokens_claimed, record.usage_fault), (Some(4_000_000_000), UsageFault::OutputExceedsLimit));
    }
}

#[test]
fn a_whole_response_with_an_absurd_count_has_no_output_rate() {
    let fixture = Fixture::bare();
    let shown = measure(&fixture, "whole", r#""sixteen""#, false);
    let remark = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let stated =
        "output tokens that are no whole number of 32 bits: the number of output tokens is not known; `output_not_a_count` in 10";
    assert!(remark.contains(stated), "{shown}");
    let found = serving(&fixture, "whole");
    assert_eq!((&found["outcomes"], &found["token_sources"]), (&json!({"ok": "10"}), &json!({"unknown": "10"})));
    assert!(found["absent"]["output_tokens_per_s"].is_string(), "{found:#}");
}
