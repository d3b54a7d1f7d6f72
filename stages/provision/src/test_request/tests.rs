use assay_manifest::Fact;
use assay_probe::testing::{Reply, Server};
use assay_probe::{Headers, Presence};
use serde_json::json;

use super::*;

fn target() -> Target {
    let target = json!({"name": "t", "kind": "endpoint", "command": [], "env": [], "ready_timeout_ns": "1", "hardware": {}});
    serde_json::from_value(target).expect("a target")
}

fn work(streaming: bool) -> ServingWork {
    let work = json!({
        "api": "chat", "model": "m", "arrival": {"law": "closed"}, "prompts": {"from": "synthetic", "input": {"law": "fixed", "tokens": 10}},
        "output": {"law": "fixed", "tokens": 100}, "exact_output": true, "batch": 1, "body": {"user": "x"}, "warmup_ns": "0",
        "timeout_ns": "1000000000", "time_limit_ns": "1", "cache": "cold_salt", "streaming": streaming, "continuous_usage": false,
        "capture": "none", "slos": [], "tokenizer": {"name": "t", "digest": assay_manifest::Digest::compute(b"")},
    });
    serde_json::from_value(work).expect("a workload")
}

/// Returns the verdict on a response, with the server's address replaced.
fn verdict_on(streaming: bool, reply: Reply) -> String {
    verdict_within(Duration::from_secs(10), &work(streaming), reply)
}

fn verdict_within(time: Duration, work: &ServingWork, reply: Reply) -> String {
    let streaming = work.streaming;
    let server = Server::start(move |_| reply.clone());
    let target = target();
    let request = TestRequest::new(&target, work, "m", &server.url());
    let identity = Identity {
        missing: assay_probe::MissingFacts::default(),
        presence: Presence::Responded,
        version: Fact::unknown("a test"),
        server: Fact::unknown("a test"),
        process_start_s: None,
        cache_block_tokens: None,
        pods: None,
        models: Ok(vec!["llama".to_owned()]),
    };
    let json = JsonRequest { is_streamed: streaming, request_id: REQUEST_ID, headers: &[], body: &request.body };
    let response = Client::new(Headers::default()).post_json(&request.url, &json, time);
    let text = match request.judge(response, &identity) {
        Verdict::Accepted(response) => format!("accepted: {response}"),
        Verdict::Unavailable(why) => format!("unavailable: {why}"),
        Verdict::Refused(failure) => {
            assert!(failure.lasting && failure.exit == assay_stage::Exit::Environment, "{failure}");
            failure.to_string()
        }
    };
    text.replace(&server.url(), "http://h")
}

fn with_type(kind: &str, body: &str) -> Reply {
    Reply::with_body("200 OK", &[&format!("content-type: {kind}")], body)
}

#[test]
fn a_response_without_a_text_where_the_workload_says_is_refused() {
    let custom = json!({"path": "/generate", "body": {"inputs": "${prompt}"}, "text": "choices.1.text"});
    let custom = Some(serde_json::from_value(custom).expect("a description"));
    let work = ServingWork { api: ServingApi::Custom, custom, ..work(false) };
    let verdict = |body: &str| verdict_within(Duration::from_secs(10), &work, with_type("application/json", body));
    // A text may be empty: the only token of a response may be its end.
    assert_eq!(verdict(r#"{"choices": [{}, {"text": ""}]}"#), "accepted: 200 OK, a JSON document");
    for body in [r#"{"choices": [{"text": "a"}]}"#, r#"{"choices": [{}, {"text": 1}]}"#, r#"{"text": "a"}"#] {
        let refused = verdict(body);
        assert!(
            refused.contains("responds to POST http://h/generate with a document that has no text at `choices.1.text`: {"),
            "{refused}"
        );
        assert!(refused.contains("`--api-response text=PLACE`"), "{refused}");
    }
    // The first event of a stream may have none, which is reported.
    let event = |data: &str| {
        let body = format!("data: {data}\n\n");
        let server = Server::start(move |_| with_type("text/event-stream", &body));
        let (target, work) = (target(), ServingWork { streaming: true, ..work.clone() });
        let request = TestRequest::new(&target, &work, "m", &server.url());
        let json = JsonRequest { is_streamed: true, request_id: REQUEST_ID, headers: &[], body: &request.body };
        let response =
            Client::new(Headers::default()).post_json(&request.url, &json, Duration::from_secs(10)).expect("a response");
        request.silent_place(&response).map(|place| request.silence(place))
    };
    assert_eq!(event(r#"{"choices": [{}, {"text": "a"}]}"#), None);
    let told = event(r#"{"choices": []}"#).expect("no text");
    assert!(told.contains("the first event of a stream has no text at `choices.1.text`"), "{told}");
}

#[test]
fn a_request_is_one_that_the_run_sends_but_for_its_length() {
    let target = target();
    let request = TestRequest::new(&target, &work(true), "m", "http://h/openai/v1");
    assert_eq!(request.url, "http://h/openai/v1/chat/completions");
    assert_eq!(request.time, Duration::from_secs(1), "the workload's own timeout is shorter");
    assert_eq!(
        serde_json::from_slice::<serde_json::Value>(&request.body).expect("JSON"),
        json!({
            "model": "m", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1, "min_tokens": 1, "ignore_eos": true,
            "temperature": 0, "stream": true, "stream_options": {"include_usage": true}, "user": "x",
        })
    );
}

/// Returns a dataset of 2 rows of which this many record the length of the response; those of a batch are whole bodies.
fn dataset(format: &str, recorded: u64) -> assay_manifest::PromptSource {
    let artifact = json!({"name": "a", "digest": assay_manifest::Digest::compute(b""), "size": "1", "media_type": "a/b"});
    let whole_bodies = (format == "openai_batch").then_some("2");
    serde_json::from_value(json!({
        "from": "dataset", "format": format, "rows": artifact, "index": artifact, "summary": {
            "read": "2", "rows": "2", "without_prompt": "0", "too_long": "0", "truncated": "0", "recorded_outputs": recorded.to_string(),
            "whole_bodies": whole_bodies, "input_tokens": {"least": 1, "most": 1, "sum": "2"},
        },
        "file": {"path": "rows", "origin": "rows", "executable": false, "artifact": artifact},
    }))
    .expect("a dataset")
}

/// Returns the body of the test request of a work.
fn test_body(work: &ServingWork) -> serde_json::Value {
    let target = target();
    let request = TestRequest::new(&target, work, "m", "http://h");
    serde_json::from_slice(&request.body).expect("JSON")
}

#[test]
fn a_request_has_the_members_of_an_exact_length_if_any_of_the_run_has() {
    let has = |prompts: assay_manifest::PromptSource, output: Option<assay_manifest::LengthLaw>| {
        let body = test_body(&ServingWork { prompts, output, ..work(true) });
        let has = ["ignore_eos", "min_tokens"].map(|member| body.get(member).is_some());
        assert_eq!((has[0], &body["max_tokens"]), (has[1], &json!(1)), "a response is short all the same");
        has[0]
    };
    let ServingWork { prompts: drawn, output: length, .. } = work(true);
    assert!(has(drawn.clone(), length.clone()));
    assert!(!has(drawn, None), "the endpoint decides");
    assert!(!has(dataset("openai_batch", 0), None) && !has(dataset("jsonl", 0), None));
    assert!(has(dataset("jsonl", 1), None) && has(dataset("timed_jsonl", 1), None), "one row of two");
    assert!(has(dataset("openai_batch", 0), length), "a length of the workload replaces those of bodies");
}

#[test]
fn a_request_for_rows_that_are_whole_bodies_has_no_temperature_of_its_own() {
    let body = |format: &str, extra: serde_json::Value| {
        let extra_body = extra.as_object().expect("an object").clone();
        test_body(&ServingWork { prompts: dataset(format, 0), extra_body, ..work(true) })
    };
    assert_eq!(body("openai_batch", json!({})).get("temperature"), None);
    assert_eq!(body("openai_batch", json!({"temperature": 0.5}))["temperature"], json!(0.5));
    assert_eq!(body("jsonl", json!({}))["temperature"], json!(0));
}

#[test]
fn token_ids_are_tested_by_one_of_them() {
    let target = target();
    let prompt = |token_ids: TokenIds| {
        let work = ServingWork { api: ServingApi::Completions, token_ids: Some(token_ids), ..work(true) };
        let request = TestRequest::new(&target, &work, "m", "http://h");
        serde_json::from_slice::<serde_json::Value>(&request.body).expect("JSON")["prompt"].clone()
    };
    assert_eq!(prompt(TokenIds::Range { least: 1_000, most: 2_000 }), json!([1_000]));
    assert_eq!(prompt(TokenIds::Tokenizer), json!([63]));
}

#[test]
fn a_response_in_the_format_of_the_api_is_accepted() {
    let token = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
    insta::assert_snapshot!(verdict_on(true, with_type("text/event-stream; charset=utf-8", token)), @"accepted: 200 OK, an event stream");
    insta::assert_snapshot!(verdict_on(true, with_type("text/event-stream", "data: no JSON\n\n")), @"accepted: 200 OK, an event stream");
    insta::assert_snapshot!(verdict_on(false, with_type("application/json", "{}")), @"accepted: 200 OK, a JSON document");
    insta::assert_snapshot!(verdict_on(false, Reply::ok("[]")), @"accepted: 200 OK, a JSON document");
}

#[test]
fn a_response_that_names_another_model_is_accepted_and_told() {
    let stream = |model: &str| with_type("text/event-stream", &format!("data: {{\"model\":\"{model}\",\"choices\":[]}}\n\n"));
    let document = |body: &str| verdict_on(false, with_type("application/json", body));
    assert_eq!(verdict_on(true, stream("m")), "accepted: 200 OK, an event stream");
    assert_eq!(verdict_on(true, stream("m-1")), "accepted: 200 OK, an event stream, which names the model `m-1`");
    assert_eq!(document(r#"{"model": "x"}"#), "accepted: 200 OK, a JSON document, which names the model `x`");
    for silent in [r#"{"model": 1}"#, r#"{"model": null}"#, r#"{"models": "x"}"#] {
        assert_eq!(document(silent), "accepted: 200 OK, a JSON document", "{silent}");
    }
    let told = |model: &str| {
        let reply = stream(model);
        let server = Server::start(move |_| reply.clone());
        let (target, work) = (target(), work(true));
        let request = TestRequest::new(&target, &work, "m", &server.url());
        let json = JsonRequest { is_streamed: true, request_id: REQUEST_ID, headers: &[], body: &request.body };
        let response = Client::new(Headers::default()).post_json(&request.url, &json, Duration::from_secs(10));
        request.notes(&response.expect("a response"))
    };
    assert_eq!(told("m"), Vec::<String>::new());
    assert_eq!(
        told("m-1"),
        ["target `t` was asked for the model `m`, and its response names `m-1`: is one another name of the other?"]
    );
}

#[test]
fn a_server_of_http_2_is_refused_by_name() {
    // Its settings, and GOAWAY with the error PROTOCOL_ERROR.
    let frames = [0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    insta::assert_snapshot!(verdict_on(true, Reply::raw(frames)), @r"
    error[endpoint_protocol]: target `t` speaks HTTP/2 and not HTTP/1.1, over which load is sent: POST http://h/v1/chat/completions: it responded to a request of HTTP/1.1 with HTTP/2

    hint: use an address of the server that speaks HTTP/1.1: most servers have one, or a setting for it. A proxy in front of it that speaks HTTP/1.1 is measured together with it
    ");
}

#[test]
fn what_refuses_one_request_refuses_all() {
    let error = r#"{"error":{"message":"Incorrect API key\nprovided"}}"#;
    insta::assert_snapshot!(verdict_on(true, Reply::with_body("401 Unauthorized", &[], error)), @r"
    error[endpoint_unauthorized]: target `t` refuses a test request: POST http://h/v1/chat/completions returned `401 Unauthorized`: Incorrect API key provided

    hint: with `assay bench`: `--api-key` or `--header`; in a pipeline: the target's `headers`, such as `authorization: {from_env: NAME, scheme: Bearer}`
    ");
    insta::assert_snapshot!(verdict_on(true, Reply::status("403 Forbidden")), @r"
    error[endpoint_unauthorized]: target `t` refuses a test request: POST http://h/v1/chat/completions returned `403 Forbidden`: an empty body

    hint: with `assay bench`: `--api-key` or `--header`; in a pipeline: the target's `headers`, such as `authorization: {from_env: NAME, scheme: Bearer}`
    ");
    insta::assert_snapshot!(verdict_on(true, Reply::with_body("404 Not Found", &[], "<html>\n")), @r"
    error[endpoint_path]: target `t` refuses a test request: POST http://h/v1/chat/completions returned `404 Not Found`: <html>; it lists `llama`

    hint: does the endpoint serve `/v1/chat/completions` below another path, or another model? The path is that of `url`, and `/v1` if it names no version
    ");
    insta::assert_snapshot!(verdict_on(true, Reply::with_body("501 Unsupported method ('POST')", &[], "<html>\n")), @r"
    error[endpoint_path]: target `t` refuses a test request: POST http://h/v1/chat/completions returned `501 Not Implemented`: <html>; it lists `llama`

    hint: does the endpoint serve `/v1/chat/completions` below another path, or another model? The path is that of `url`, and `/v1` if it names no version
    ");
    let unknown = r#"{"error":{"message":"Unrecognized request argument supplied: ignore_eos"}}"#;
    insta::assert_snapshot!(verdict_on(true, Reply::with_body("400 Bad Request", &[], unknown)), @r"
    error[endpoint_rejects]: target `t` refuses a test request: POST http://h/v1/chat/completions returned `400 Bad Request`: Unrecognized request argument supplied: ignore_eos

    hint: the endpoint does not know `ignore_eos` or `min_tokens`: `exact_output: false` in the workload, or `assay bench --no-exact-output`, leaves them out
    ");
    insta::assert_snapshot!(verdict_on(true, Reply::with_body("422 Unprocessable Entity", &[], "no\u{1b}[31m user")), @r"
    error[endpoint_rejects]: target `t` refuses a test request: POST http://h/v1/chat/completions returned `422 Unprocessable Entity`: no [31m user

    hint: the message is the endpoint's own; a setting of the workload makes the request invalid for it
    ");
    insta::assert_snapshot!(verdict_on(true, Reply::with_body("307 Temporary Redirect", &["location: https://h/v1"], "")), @r"
    error[endpoint_redirects]: target `t` redirects POST http://h/v1/chat/completions to `https://h/v1` (`307 Temporary Redirect`)

    hint: if that address is the endpoint's, use it as `url`; redirects are not followed, because headers may hold secrets
    ");
}

#[test]
fn a_body_in_another_format_is_shown_by_its_first_line() {
    let page = format!("\n<!DOCTYPE html><title>{}\n<body>", "x".repeat(300));
    insta::assert_snapshot!(verdict_on(true, with_type("text/html", &page)), @r"
    error[endpoint_protocol]: target `t` responds to POST http://h/v1/chat/completions with a body of the type `text/html` that is no event stream: <!DOCTYPE html><title>xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…

    hint: is this the address of the API, and not of a web page or a gateway? A path prefix belongs to it, such as `/openai/v1`
    ");
    insta::assert_snapshot!(verdict_on(false, with_type("text/html", "<html>")), @r"
    error[endpoint_protocol]: target `t` responds to POST http://h/v1/chat/completions with a body of the type `text/html` that is no JSON document: <html>

    hint: is this the address of the API, and not of a web page or a gateway? A path prefix belongs to it, such as `/openai/v1`
    ");
    insta::assert_snapshot!(verdict_on(true, with_type("application/json", r#"{"choices":[]}"#)), @r#"
    error[endpoint_protocol]: target `t` responds to POST http://h/v1/chat/completions with a body of the type `application/json` that is no event stream: {"choices":[]}

    hint: if the endpoint cannot stream: `streaming: false` in the workload, or `assay bench --no-streaming`
    "#);
    insta::assert_snapshot!(verdict_on(true, Reply::ok("hello")), @r"
    error[endpoint_protocol]: target `t` responds to POST http://h/v1/chat/completions with a body that is no event stream: hello

    hint: is this the address of the API, and not of a web page or a gateway? A path prefix belongs to it, such as `/openai/v1`
    ");
}

#[test]
fn an_endpoint_that_fails_now_may_not_fail_later() {
    insta::assert_snapshot!(verdict_on(true, Reply::with_body("429 Too Many Requests", &[], "slow down\nplease")), @"unavailable: POST http://h/v1/chat/completions returned `429 Too Many Requests`: slow down");
    insta::assert_snapshot!(verdict_on(true, Reply::with_body("503 Service Unavailable", &[], "<html>busy</html>")), @"unavailable: POST http://h/v1/chat/completions returned `503 Service Unavailable`: <html>busy</html>");
    insta::assert_snapshot!(verdict_on(true, Reply::ok("")), @"unavailable: POST http://h/v1/chat/completions returned `200 OK` with an empty body");
    insta::assert_snapshot!(verdict_on(true, Reply::raw("")), @"unavailable: POST http://h/v1/chat/completions: Peer disconnected");
    let error = "event: error\ndata: {\"error\":{\"message\":\"out of memory\"}}\n\n";
    insta::assert_snapshot!(verdict_on(true, with_type("text/event-stream", error)), @"unavailable: POST http://h/v1/chat/completions returned `200 OK` with an error: out of memory");
}

#[test]
fn the_reason_is_true_whatever_a_body_is() {
    let stream = |body: &str| verdict_on(true, with_type("text/event-stream", body));
    let token = |size: usize| format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n", "a".repeat(size));
    insta::assert_snapshot!(stream(&token(900_000)), @"accepted: 200 OK, an event stream");
    insta::assert_snapshot!(stream(&(": ping\n\n".repeat(50_000) + &token(1))), @"accepted: 200 OK, an event stream");
    insta::assert_snapshot!(stream(&token(2 << 20)), @r"
    error[endpoint_protocol]: target `t` cannot be measured: POST http://h/v1/chat/completions returned `200 OK`, and an event of the response is larger than the limit of 1048576 bytes

    hint: it is a limit of the load generator, which records such a response as `event_too_large`; does the endpoint return more than was requested?
    ");
    insta::assert_snapshot!(stream(": ping\n\n"), @"unavailable: POST http://h/v1/chat/completions returned `200 OK` with an event stream that ended before an event with data was complete");
    insta::assert_snapshot!(stream("data: {\"choices\""), @"unavailable: POST http://h/v1/chat/completions returned `200 OK` with an event stream that ended before an event with data was complete");
    let encoded = Reply::with_body("200 OK", &["content-type: text/event-stream", "content-encoding: gzip"], [0x1f, 0x8b, 8]);
    insta::assert_snapshot!(verdict_on(true, encoded), @r"
    error[endpoint_protocol]: target `t` responds to POST http://h/v1/chat/completions with a body of the content encoding `gzip`, which was not requested

    hint: requests carry `accept-encoding: identity`, because decoding would be part of the measured times: does a proxy in front of the endpoint compress all the same?
    ");
    let encoded = Reply::with_body("503 Service Unavailable", &["content-encoding: gzip"], [0x1f, 0x8b, 8]);
    insta::assert_snapshot!(verdict_on(true, encoded), @"unavailable: POST http://h/v1/chat/completions returned `503 Service Unavailable`: a body of the content encoding `gzip`");
    insta::assert_snapshot!(verdict_on(true, Reply::raw("HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\ndata")), @"unavailable: POST http://h/v1/chat/completions returned `200 OK`, and its body broke off after 4 bytes: Peer disconnected");
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: ping\n\n";
    insta::assert_snapshot!(verdict_within(Duration::from_millis(100), &work(true), Reply::raw(head).and_hang()), @"unavailable: POST http://h/v1/chat/completions returned `200 OK` and no event with data within 100ms; 8 bytes of the body came");
}

#[test]
fn an_error_under_a_status_of_success_is_quoted_in_brief() {
    let error = format!(r#"{{"error":{{"message":"out of\nmemory\u202e {}"}}}}"#, "x".repeat(300));
    insta::assert_snapshot!(verdict_on(true, with_type("application/json", &error)), @"unavailable: POST http://h/v1/chat/completions returned `200 OK` with an error: out of memory xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…");
    insta::assert_snapshot!(verdict_on(false, with_type("application/json", &error)), @"unavailable: POST http://h/v1/chat/completions returned `200 OK` with an error: out of memory xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…");
    let plain = "event: error\ndata: overloaded\n\n";
    insta::assert_snapshot!(verdict_on(true, with_type("text/event-stream", plain)), @"unavailable: POST http://h/v1/chat/completions returned `200 OK` with an error: overloaded");
    let lines = "data: {\"error\":\ndata: \"two lines\"}\n\n";
    insta::assert_snapshot!(verdict_on(true, with_type("text/event-stream", lines)), @"unavailable: POST http://h/v1/chat/completions returned `200 OK` with an error: two lines");
    insta::assert_snapshot!(verdict_on(false, with_type("application/json", r#"{"detail":"no such deployment"}"#)), @"unavailable: POST http://h/v1/chat/completions returned `200 OK` with an error: no such deployment");
}

proptest::proptest! {
    #[test]
    fn a_text_of_an_endpoint_is_one_short_line(text in "\\PC{0,300}|[\\x00-\\x1f]{0,20}") {
        let clean = clean(&text);
        assert!(clean.chars().count() <= MAX_TEXT + 1 && !clean.chars().any(char::is_control), "{clean}");
    }
}
