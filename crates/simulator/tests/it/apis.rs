//! Tests the APIs whose streams have events of several types: OpenAI's responses and Anthropic's messages.

use serde_json::{Value, json};

use crate::client::{Client, Reply, requests, serve};

/// Half of each response is reasoning.
const REASONING: &str = r#"{"model": "m", "seed": "1", "reasoning_share": 0.5}"#;

/// Returns the events of a stream, whose types stand in their data, too.
fn events(reply: &Reply) -> Vec<(String, Value)> {
    assert_eq!((reply.status, reply.whole), (200, true));
    assert_eq!(reply.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let event = |event: &crate::client::Event| {
        let data: Value = serde_json::from_slice(&event.data).expect("JSON");
        let kind = event.kind.clone().expect("a type");
        assert_eq!(data["type"], kind.as_str());
        (kind, data)
    };
    reply.events.iter().map(event).collect()
}

/// Returns the types of events in their order, each repeated one once.
fn kinds(events: &[(String, Value)]) -> Vec<&str> {
    let mut kinds: Vec<&str> = events.iter().map(|(kind, _)| kind.as_str()).collect();
    kinds.dedup();
    kinds
}

/// Joins the texts of the events of a type.
fn joined(events: &[(String, Value)], kind: &str, text: impl Fn(&Value) -> &Value) -> String {
    events.iter().filter(|(found, _)| found == kind).filter_map(|(_, data)| text(data).as_str()).collect()
}

fn responses(fields: &str) -> String {
    format!(r#"{{"model": "m", "input": "one two", "max_output_tokens": 8, "ignore_eos": true{fields}}}"#)
}

fn messages(fields: &str) -> String {
    format!(
        r#"{{"model": "m", "messages": [{{"role": "user", "content": "one two"}}], "max_tokens": 8, "ignore_eos": true{fields}}}"#
    )
}

const STREAM: &str = r#", "stream": true"#;
const SAME: [(&str, &str); 1] = [("x-request-id", "same")];

#[test]
fn a_stream_of_responses_builds_its_response_item_by_item() {
    let server = serve(REASONING);
    let mut client = Client::new(server.address());
    let events = events(&client.call("POST", "/v1/responses", &SAME, &responses(STREAM)));
    assert_eq!(
        kinds(&events),
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.reasoning_text.delta",
            "response.reasoning_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.incomplete",
        ]
    );
    assert!(events.iter().zip(0_u64..).all(|((_, data), number)| data["sequence_number"] == number));
    let whole = client.call("POST", "/v1/responses", &SAME, &responses("")).json();
    let complete = &events.last().expect("events").1["response"];
    let usage = |cached: u32| {
        json!({"input_tokens": 2, "input_tokens_details": {"cached_tokens": cached}, "output_tokens": 8,
            "output_tokens_details": {"reasoning_tokens": 4}, "total_tokens": 10})
    };
    assert_eq!(complete["usage"], usage(0));
    assert_eq!(&whole, complete, "the stream ends with the response that is not streamed");
    assert_eq!((&whole["object"], &whole["status"]), (&json!("response"), &json!("incomplete")));
    assert_eq!(whole["incomplete_details"]["reason"], "max_output_tokens");
    let reasoning = joined(&events, "response.reasoning_text.delta", |data| &data["delta"]);
    let content = joined(&events, "response.output_text.delta", |data| &data["delta"]);
    assert_eq!((reasoning.split(' ').count(), content.split(' ').count()), (4, 4));
    assert_eq!(whole["output"][0]["content"][0], json!({"type": "reasoning_text", "text": reasoning}));
    assert_eq!(whole["output"][1]["content"][0], json!({"type": "output_text", "text": content, "annotations": []}));
    for (kind, data) in &events {
        let text = match kind.as_str() {
            "response.reasoning_text.done" => &reasoning,
            "response.output_text.done" => &content,
            _ => continue,
        };
        assert_eq!(data["text"], text.as_str());
    }
}

#[test]
fn a_stream_of_messages_is_a_start_blocks_and_a_stop() {
    let server = serve(REASONING);
    let mut client = Client::new(server.address());
    let events = events(&client.call("POST", "/v1/messages", &SAME, &messages(STREAM)));
    assert_eq!(
        kinds(&events),
        [
            "message_start",
            "ping",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    let start = &events[0].1["message"];
    let usage = |output: u32| json!({"input_tokens": 2, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": output});
    assert_eq!((&start["usage"], &start["content"]), (&usage(0), &json!([])));
    let delta = &events[events.len() - 2].1;
    assert_eq!(delta["delta"], json!({"stop_reason": "max_tokens", "stop_sequence": null}));
    assert_eq!(delta["usage"], json!({"output_tokens": 8}));
    let thinking = joined(&events, "content_block_delta", |data| &data["delta"]["thinking"]);
    let text = joined(&events, "content_block_delta", |data| &data["delta"]["text"]);
    assert_eq!((thinking.split(' ').count(), text.split(' ').count()), (4, 4));
    let whole = client.call("POST", "/v1/messages", &SAME, &messages("")).json();
    assert_eq!(
        whole["content"],
        json!([{"type": "thinking", "thinking": thinking, "signature": ""}, {"type": "text", "text": text}])
    );
    assert_eq!((&whole["type"], &whole["stop_reason"], &whole["usage"]), (&json!("message"), &json!("max_tokens"), &usage(8)));
}

#[test]
fn cached_tokens_are_a_part_of_the_input() {
    let server = serve(r#"{"model": "m"}"#);
    let mut client = Client::new(server.address());
    let prompt = "word ".repeat(40);
    let input = json!({"model": "m", "input": prompt, "max_output_tokens": 1}).to_string();
    let message = json!({"model": "m", "messages": [{"role": "user", "content": prompt}], "max_tokens": 1}).to_string();
    let cached = |reply: Value| reply["usage"]["input_tokens_details"]["cached_tokens"].as_u64();
    assert_eq!(cached(client.post("/v1/responses", &input).json()), Some(0));
    assert_eq!(cached(client.post("/v1/responses", &input).json()), Some(32));
    // Two blocks of 16 tokens were cached, and 8 are new.
    let usage = client.post("/v1/messages", &message).json()["usage"].clone();
    assert_eq!((&usage["input_tokens"], &usage["cache_read_input_tokens"]), (&json!(8), &json!(32)));
}

#[test]
fn the_plan_of_a_response_does_not_depend_on_its_api() {
    let server = serve(r#"{"model": "m", "profile": "h100-8b", "reasoning_share": 0.25, "ttft_ms": 2, "itl_ms": 1}"#);
    let mut client = Client::new(server.address());
    let chat = r#"{"model": "m", "messages": [{"role": "user", "content": "one two"}], "max_tokens": 8, "ignore_eos": true, "stream": true}"#;
    for (path, body) in
        [("/v1/chat/completions", chat), ("/v1/responses", &responses(STREAM)), ("/v1/messages", &messages(STREAM))]
    {
        assert_eq!(client.call("POST", path, &SAME, body).status, 200);
    }
    let planned: Vec<Vec<_>> = requests(server.address())
        .iter()
        .map(|truth| {
            let since = |at_ns: i64| at_ns - truth.arrived_ns;
            truth.chunks.iter().map(|chunk| (since(chunk.planned_ns), chunk.tokens, chunk.channel)).collect()
        })
        .collect();
    assert_eq!((planned.len(), planned[0].len()), (3, 8));
    assert!(planned.iter().all(|chunks| *chunks == planned[0]), "{planned:?}");
}

#[test]
fn faults_have_the_shape_of_the_api() {
    let server = serve(r#"{"model": "m"}"#);
    let mut client = Client::new(server.address());
    let mut fault = |path: &str, body: &str, fault: &str| {
        events(&client.call("POST", path, &[("x-assay-fault", fault), ("x-request-id", "a")], body))
    };
    let cut = fault("/v1/responses", &responses(STREAM), "no-done");
    assert_eq!(kinds(&cut).last(), Some(&"response.output_item.done"));
    let failed = fault("/v1/responses", &responses(STREAM), "stream-error:2");
    let error = json!({"type": "error", "code": "server_error", "message": "this error was asked for", "param": null});
    assert_eq!(failed.last().map(|(kind, data)| (kind.as_str(), data)), Some(("error", &error)));
    let cut = fault("/v1/messages", &messages(STREAM), "no-done");
    assert_eq!(kinds(&cut).last(), Some(&"content_block_stop"));
    let failed = fault("/v1/messages", &messages(STREAM), "stream-error:2");
    let error = json!({"type": "error", "error": {"type": "api_error", "message": "this error was asked for"}});
    assert_eq!(failed.last().map(|(kind, data)| (kind.as_str(), data)), Some(("error", &error)));
}

#[test]
fn conversations_are_read_and_what_is_none_is_refused() {
    let server = serve(r#"{"model": "m"}"#);
    let mut client = Client::new(server.address());
    let items = json!({"model": "m", "instructions": "be brief", "max_output_tokens": 1, "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "a b"}]},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "c"}]},
        {"type": "function_call", "call_id": "x", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "x", "output": "d"}]});
    let usage = client.post("/v1/responses", &items.to_string()).json()["usage"].clone();
    assert_eq!(usage["input_tokens"], 8);
    let blocks = json!({"model": "m", "system": [{"type": "text", "text": "be brief"}], "max_tokens": 1, "messages": [
        {"role": "user", "content": "a b"},
        {"role": "assistant", "content": [{"type": "text", "text": "c"}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": [{"type": "text", "text": "d"}]}]}]});
    let usage = client.post("/v1/messages", &blocks.to_string()).json()["usage"].clone();
    assert_eq!(usage["input_tokens"], 6);
    for (path, body, says) in [
        ("/v1/responses", r#"{"model": "m"}"#, "`input` is missing"),
        ("/v1/responses", r#"{"model": "m", "input": []}"#, "`input` is empty"),
        ("/v1/responses", r#"{"model": "m", "input": 5}"#, "`input` is a text or a list of items"),
        (
            "/v1/responses",
            r#"{"model": "m", "input": [{"role": "user", "content": 5}]}"#,
            "`content` is a text or a list of parts",
        ),
        ("/v1/messages", r#"{"model": "m", "messages": [{"role": "user", "content": "a"}]}"#, "`max_tokens` is missing"),
        ("/v1/messages", r#"{"model": "m", "max_tokens": 1}"#, "`messages` is missing"),
        ("/v1/messages", r#"{"model": "m", "max_tokens": 1, "messages": []}"#, "`messages` is empty"),
        (
            "/v1/messages",
            r#"{"model": "m", "max_tokens": 1, "messages": [{"role": "system", "content": "a"}]}"#,
            "the `role` of a message is `user` or `assistant`; the system prompt is `system`",
        ),
    ] {
        let reply = client.post(path, body);
        assert_eq!((reply.status, reply.json()["error"]["message"].as_str()), (400, Some(says)), "{body}");
    }
}
