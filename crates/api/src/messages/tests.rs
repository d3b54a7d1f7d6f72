//! Requests of messages: what the messages of a chat become.

use serde_json::{Value, json};

use crate::request::body_of;
use crate::{RequestInput, ServingApi};

/// Returns the body of a request with this input for 32 tokens.
fn body(input: RequestInput<'_>) -> Value {
    body_of(ServingApi::Messages, input, false)
}

#[test]
fn a_request_has_the_members_of_this_api() {
    let inputs = ["a \"b\"".to_owned()];
    assert_eq!(
        body(RequestInput::Texts { query: None, inputs: &inputs }),
        json!({"model": "m", "messages": [{"role": "user", "content": "a \"b\""}], "max_tokens": 32, "stream": true, "temperature": 0})
    );
}

#[test]
fn messages_of_a_chat_become_blocks_and_a_system_prompt() {
    let call = json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}});
    let broken = json!({"id": "d", "type": "function", "function": {"name": "g", "arguments": "x"}});
    let messages = [
        json!({"role": "system", "content": "be brief"}),
        json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}]}),
        json!({"role": "assistant", "content": null, "tool_calls": [call, broken]}),
        json!({"role": "tool", "tool_call_id": "c", "content": "r"}),
        json!({"role": "assistant", "content": "b"}),
    ];
    let sent = body(RequestInput::Messages(&messages));
    assert_eq!(sent["system"], json!("be brief"));
    assert_eq!(
        sent["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "a"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {"x": 1}},
                {"type": "tool_use", "id": "d", "name": "g", "input": {"arguments": "x"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "r"}]},
            {"role": "assistant", "content": "b"},
        ])
    );
    let two = [
        json!({"role": "system", "content": "a"}),
        json!({"role": "developer", "content": "b"}),
        json!({"role": "user", "content": "c"}),
    ];
    assert_eq!(
        body(RequestInput::Messages(&two))["system"],
        json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
    );
}
