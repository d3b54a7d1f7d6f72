//! OpenAI's responses and Anthropic's messages over the real binaries: runs against the simulator, conversations, headers and broken streams.

use std::sync::{Arc, Mutex};

use assay_record::{Outcome, Record, TokenSource};
use serde_json::{Value, json};

use crate::pipeline::{list, text};
use crate::server::{AfterResponse, Request, Server, header, json_response, open_stream};
use crate::serving::{self, MODEL, RETRY_BUDGET};
use crate::support::{Fixture, PIPELINE};
use crate::traces::{metric, records};

/// A quarter of each response is reasoning.
const REASONING: &str = "{name: sim, kind: simulator, config: {profile: fast, reasoning_share: 0.25}}";

/// Measures one workload of an API with these fields, and returns the records of the attempt that counts.
fn measure(fixture: &Fixture, run_id: &str, api: &str, fields: &str) -> Vec<Record> {
    serving::workload_of(fixture, "calls", &format!("  batching_policy: none\n  api: {api}\n{fields}"));
    fixture.write(PIPELINE, &serving::pipeline(&["calls"], &[REASONING], 1, RETRY_BUDGET, ""));
    fixture.commit(run_id);
    fixture.run(run_id).success();
    fixture.verify_recomputed(run_id);
    records(fixture, run_id).pop().expect("an attempt")
}

#[test]
fn responses_and_messages_are_measured_like_chats() {
    let fixture = Fixture::bare();
    let fields = "  load: {mode: closed, concurrency: [2], requests: 20, timeout: 60s}\n  lengths: D(40,8)\n  cache: shared\n";
    let unstreamed = format!("{fields}  streaming: false\n");
    for (api, finish) in [("chat", "length"), ("responses", "max_output_tokens"), ("messages", "max_tokens")] {
        let all = measure(&fixture, api, api, fields);
        assert_eq!(all.len(), 20);
        for record in &all {
            assert_eq!((record.outcome, record.finish_reason.as_deref()), (Outcome::Ok, Some(finish)), "{record:?}");
            assert_eq!((record.input_tokens, record.input_tokens_endpoint), (40, Some(40)), "{api}");
            assert_eq!((record.output_tokens, record.token_events), (Some(8), 8), "{api}");
            // Two tokens of reasoning come first; a busy client may read them with the content.
            assert!(record.first_token_ns.is_some() && record.first_token_ns <= record.first_content_ns, "{api}: {record:?}");
            assert_eq!(record.cached_tokens, Some(0), "{api}");
        }
        // Only chats count tokens chunk by chunk; messages have no count of reasoning.
        let source = if api == "chat" { TokenSource::ContinuousUsage } else { TokenSource::Usage };
        assert!(all.iter().all(|record| record.output_source == source), "{api}");
        let reasoning = (api != "messages").then_some(2);
        assert!(all.iter().all(|record| record.reasoning_tokens == reasoning), "{api}");
        for (name, value) in [("osl_tokens_mean", 8.0), ("isl_tokens_endpoint_mean", 40.0), ("osl_mismatch_rate", 0.0)] {
            assert!((metric(&fixture, api, "concurrency-2", name) - value).abs() < 1e-9, "{api}: {name}");
        }
        // 5 ms to the first token, 2 ms more to the first of the content, 1 ms between tokens.
        let ms = |name: &str| metric(&fixture, api, "concurrency-2", name);
        assert!(ms("ttft_ms_p50") >= 5.0 && ms("ttfo_ms_p50") >= 7.0 && ms("e2e_ms_p50") >= 12.0, "{api}");

        let run_id = format!("{api}-whole");
        let all = measure(&fixture, &run_id, api, &unstreamed);
        for record in &all {
            assert_eq!((record.outcome, record.finish_reason.as_deref()), (Outcome::Ok, Some(finish)), "{record:?}");
            assert_eq!((record.output_tokens, record.token_events, record.first_token_ns), (Some(8), 0, None), "{api}");
            assert_eq!((record.input_tokens_endpoint, record.reasoning_tokens), (Some(40), reasoning), "{api}");
        }
    }
}

#[test]
fn conversations_repeat_what_was_said_in_every_api_of_messages() {
    let fixture = Fixture::bare();
    let sessions = "turns: 3, think_time: 5ms, history: live";
    let fields =
        format!("  load: {{mode: closed, concurrency: [2], sessions: 6}}\n  lengths: D(40,8)\n  sessions: {{{sessions}}}\n");
    for api in ["responses", "messages"] {
        let mut turns = measure(&fixture, api, api, &fields);
        turns.sort_by_key(|turn| (turn.session, turn.turn));
        assert_eq!(turns.len(), 18);
        for session in turns.chunks(3) {
            for pair in session.windows(2) {
                // Reasoning, two of the eight tokens, is left out.
                let said = pair[0].input_tokens_endpoint.map(|tokens| tokens + 6 + 40);
                assert_eq!(pair[1].input_tokens_endpoint, said, "{api}");
                assert!(pair[1].cached_tokens >= Some(pair[0].input_tokens / 16 * 16), "{api}: {pair:?}");
            }
        }
    }
}

/// Text Generation Inference's own API as options of `assay bench`.
const GENERATE: [&str; 6] = [
    "--api-path",
    "/generate_stream",
    "--api-body",
    r#"{"inputs":"${prompt}","parameters":{"max_new_tokens":"${output_tokens}"},"stream":"${stream}"}"#,
    "--api-response",
    "text=token.text,input_tokens=details.prefill_tokens,output_tokens=details.generated_tokens,finish=details.finish_reason",
];

#[test]
fn an_api_of_the_endpoints_own_is_measured_by_its_description() {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    let first = r#"{"index":1,"token":{"id":1,"text":"one"},"generated_text":null,"details":null}"#;
    let last = r#"{"index":2,"token":{"id":2,"text":" two"},"generated_text":"one two","details":{"finish_reason":"length","generated_tokens":2,"prefill_tokens":23}}"#;
    let server = Server::start_with_test_requests(MODEL, move |request: &Request| {
        seen.lock().expect("no panic").push((request.head.clone(), request.body.clone()));
        (stream(&[first, last]), AfterResponse::KeepAlive)
    });
    let fixture = Fixture::bare();
    let more = [&GENERATE[..], &["--output-tokens", "2", "--cache", "shared"]].concat();
    let url = server.url();
    let load = ["bench", "--url", &url, "--model", MODEL, "--api", "custom", "--concurrency", "1", "--trials", "1"];
    let short = ["--requests", "10", "--warmup", "0s", "--input-tokens", "20", "--run-id", "described"];
    fixture.assay(&[&load[..], &short, &more].concat()).success();
    let requests = requests.lock().expect("no panic");
    assert_eq!(requests.len(), 11, "a test request, and ten");
    for (head, body) in requests.iter().skip(1) {
        assert!(head.starts_with("POST /generate_stream HTTP/1.1\r\n"), "{head}");
        let body: Value = serde_json::from_slice(body).expect("JSON");
        assert_eq!(text(&body["inputs"]).split(' ').count(), 20);
        let rest = json!({"inputs": body["inputs"], "parameters": {"max_new_tokens": 2}, "stream": true});
        assert_eq!(body, rest, "nothing is added to it");
    }
    let all = records(&fixture, "described").pop().expect("an attempt");
    assert_eq!(all.len(), 10);
    for record in &all {
        assert_eq!((record.outcome, record.finish_reason.as_deref()), (Outcome::Ok, Some("length")), "{record:?}");
        assert_eq!((record.input_tokens, record.input_tokens_endpoint), (20, Some(23)));
        assert_eq!((record.output_tokens, record.output_source, record.token_events), (Some(2), TokenSource::Usage, 2));
    }
    fixture.assay(&["verify", "described", "--recompute"]).success();
}

#[test]
fn a_described_api_of_the_simulator_is_measured_like_the_known_one() {
    let fixture = Fixture::bare();
    let body = r#"{"model": "${model}", "prompt": "${prompt}", "max_tokens": "${output_tokens}", "ignore_eos": true, "stream": "${stream}"}"#;
    let places = "text: choices.0.text, input_tokens: usage.prompt_tokens, output_tokens: usage.completion_tokens, finish: choices.0.finish_reason";
    for (run_id, streaming, first) in [("streamed", true, true), ("whole", false, false)] {
        let fields = format!(
            "  load: {{mode: closed, concurrency: [2], requests: 20, timeout: 60s}}\n  lengths: D(40,8)\n  cache: shared\n  \
             streaming: {streaming}\n  custom: {{path: /v1/completions, body: '{body}', response: {{{places}}}}}\n"
        );
        let all = measure(&fixture, run_id, "custom", &fields);
        assert_eq!(all.len(), 20);
        for record in &all {
            assert_eq!((record.outcome, record.finish_reason.as_deref()), (Outcome::Ok, Some("length")), "{record:?}");
            assert_eq!((record.input_tokens, record.output_tokens), (40, Some(8)), "{record:?}");
            assert_eq!(record.first_token_ns.is_some(), first, "{record:?}");
        }
        // 5 ms to the first token, and 1 ms between tokens.
        assert!(metric(&fixture, run_id, "concurrency-2", "e2e_ms_p50") >= 12.0);
    }
}

#[test]
fn a_description_without_what_a_workload_needs_is_refused_in_options() {
    let fixture = Fixture::bare();
    let refused = |more: &[&str]| {
        let load = ["bench", "--url", "http://127.0.0.1:9", "--model", "m", "--concurrency", "1"];
        fixture.assay(&[&load[..], more].concat()).refuses(2, "option").stderr
    };
    let described = |body: &'static str| ["--api-path", "/g", "--api-body", body, "--api-response", "text=a"];
    let alone = refused(&["--api", "custom"]);
    assert!(alone.contains("`--api custom` needs `--api-path`, `--api-body` and `--api-response`"), "{alone}");
    let other = refused(&described(r#"{"a":"${prompt}","n":"${output_tokens}"}"#));
    assert!(other.contains("`--api-body` belongs to `--api custom`"), "{other}");
    let lengthless = refused(&[&["--api", "custom"][..], &described(r#"{"a":"${prompt}"}"#)].concat());
    assert!(
        lengthless.contains("`--api-body` has no `${output_tokens}`, so that no request can ask for its length"),
        "{lengthless}"
    );
    assert!(lengthless.contains("or write `--no-exact-output`"), "{lengthless}");
    let promptless = refused(&[&["--api", "custom"][..], &described(r#"{"n":"${output_tokens}"}"#)].concat());
    assert!(
        promptless.contains("`--api-body` cannot be used: the body has neither `${prompt}` nor `${messages}`"),
        "{promptless}"
    );
    let unread = refused(&[&["--api", "custom"][..], &described("inputs=${prompt}")].concat());
    assert!(unread.contains("`--api-body` is not a JSON object: `inputs=${prompt}`"), "{unread}");
    let example = r#"such as `{"inputs":"${prompt}","max_new_tokens":"${output_tokens}","stream":"${stream}"}`"#;
    assert!(unread.contains(example) && !unread.contains("top_k"), "{unread}");
}

const START: &str = r#"{"type":"message_start","message":{"usage":{"input_tokens":20,"output_tokens":1}}}"#;
const DELTA: &str = r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"word"}}"#;
const END: &str = r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":1}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

/// Returns a stream of these events that ends as HTTP does.
fn stream(events: &[&str]) -> Vec<u8> {
    [open_stream(events).as_slice(), b"0\r\n\r\n"].concat()
}

/// Benchmarks a server by `assay bench` with ten requests. On a busy machine no attempt may count; each has sent its requests all the same.
fn bench(fixture: &Fixture, server: &Server, api: &str, run_id: &str, more: &[&str]) {
    let url = server.url();
    let load = ["bench", "--url", &url, "--model", MODEL, "--api", api, "--concurrency", "1", "--trials", "1"];
    let short = ["--requests", "10", "--input-tokens", "20", "--output-tokens", "1", "--run-id", run_id];
    let ran = fixture.assay(&[&load[..], &short, more].concat());
    assert!([0, 30].contains(&ran.code), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn requests_of_messages_have_the_headers_of_their_api() {
    const KEY: &str = "sk-a-key-of-this-test";
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    let server = Server::start_with_test_requests(MODEL, move |request: &Request| {
        let body: Value = serde_json::from_slice(&request.body).expect("JSON");
        seen.lock().expect("a lock").push((request.head.clone(), body));
        let is_known = header(&request.head, "x-api-key") == Some(KEY);
        let refusal =
            json_response("401 Unauthorized", r#"{"type":"error","error":{"type":"authentication_error","message":"no"}}"#);
        (if is_known { stream(&[START, DELTA, END, STOP]) } else { refusal }, AfterResponse::KeepAlive)
    });
    let mut fixture = Fixture::bare();
    fixture.set("ANTHROPIC_API_KEY", KEY);
    let key = ["--api-key", "ANTHROPIC_API_KEY", "--no-exact-output"];
    bench(&fixture, &server, "messages", "one", &key);
    bench(&fixture, &server, "messages", "two", &[&key[..], &["--header", "Anthropic-Version: 2099-01-01"]].concat());
    let requests = requests.lock().expect("a lock");
    assert!(requests.len() >= 22, "a test request and ten others in each run");
    for (place, (head, body)) in requests.iter().enumerate() {
        assert!(head.starts_with("POST /v1/messages HTTP/1.1\r\n"), "{head}");
        let versions: Vec<_> = head.lines().filter(|line| line.to_ascii_lowercase().starts_with("anthropic-version")).collect();
        // A busy machine may repeat an attempt, so the second run begins somewhere later.
        let of_user = versions.first().is_some_and(|version| version.ends_with("2099-01-01"));
        let of_api = versions.first().is_some_and(|version| version.ends_with("2023-06-01"));
        assert!(versions.len() == 1 && (of_api && place < requests.len() - 11 || of_user && place >= 11), "{place}: {head}");
        let mut members: Vec<&str> = body.as_object().expect("an object").keys().map(String::as_str).collect();
        members.sort_unstable();
        assert_eq!(members, ["max_tokens", "messages", "model", "stream", "temperature"]);
        assert_eq!(body["max_tokens"], 1);
    }
}

#[test]
fn a_test_request_asks_for_as_many_tokens_as_the_api_allows() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let server = Server::start_with_test_requests(MODEL, move |request: &Request| {
        let body: Value = serde_json::from_slice(&request.body).expect("JSON");
        seen.lock().expect("a lock").push(body["max_output_tokens"].clone());
        let delta = r#"{"type":"response.output_text.delta","delta":"word"}"#;
        let end =
            r#"{"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":20,"output_tokens":1}}}"#;
        (stream(&[delta, end]), AfterResponse::KeepAlive)
    });
    bench(&Fixture::bare(), &server, "responses", "one", &[]);
    let asked = asked.lock().expect("a lock");
    // OpenAI refuses fewer than 16 tokens; the load asks for what the workload says.
    assert_eq!(asked[0], 16);
    assert!(asked[1..].iter().all(|tokens| *tokens == 1), "{asked:?}");
}

#[test]
fn broken_streams_are_failed_requests_with_their_reason() {
    let server = Server::start(MODEL, |request: &Request| {
        let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
        let events: &[&str] = match request.number % 10 {
            1 => &[START, DELTA],
            3 => &[START, DELTA, error],
            5 => &[START, DELTA, r#"{"type":"content_block_delta","delta":5"#],
            7 => &[START, END, STOP],
            _ => &[START, DELTA, END, STOP],
        };
        (stream(events), AfterResponse::KeepAlive)
    });
    let fixture = Fixture::bare();
    let fields =
        "  batching_policy: none\n  api: messages\n  load: {mode: closed, concurrency: [1], requests: 10}\n  lengths: D(20,1)\n";
    serving::workload_of(&fixture, "broken", fields);
    let target = serving::endpoint("server", &server, "");
    fixture.write(PIPELINE, &serving::pipeline(&["broken"], &[&target], 1, serving::RETRY_BUDGET, ""));
    fixture.commit("broken streams");
    fixture.run("broken").success();
    let summary = fixture.manifest("broken", "reduce");
    let serving = &list(&summary["body"]["points"])[0]["serving"];
    let outcomes = json!({"ok": "6", "truncated": "1", "stream_error": "1", "malformed": "1", "empty": "1"});
    assert_eq!(serving["outcomes"], outcomes);
    let failures = list(&serving["failures"]);
    let message = |outcome: &str| {
        let failure = failures.iter().find(|failure| failure["outcome"] == outcome).expect(outcome);
        text(&failure["message"]).to_owned()
    };
    assert_eq!(message("truncated"), "the stream ended without `message_stop` and without a finish reason");
    assert_eq!(message("stream_error"), "Overloaded");
    assert_eq!(message("malformed"), "the response is not in the API's format: it ends too early");
    assert_eq!(message("empty"), "the stream ended without text");
    fixture.assay(&["verify", "broken", "--recompute"]).success();
}
