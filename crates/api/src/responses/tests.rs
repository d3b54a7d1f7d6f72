//! Requests of responses: the items that the messages of a chat become.

use super::*;
use crate::request::body_of;
use crate::{RequestInput, ServingApi};

/// Returns the body of a request with this input for 32 tokens.
fn body(input: RequestInput<'_>, exact_output: bool) -> Value {
    body_of(ServingApi::Responses, input, exact_output)
}

#[test]
fn a_request_has_the_members_of_this_api() {
    let inputs = ["a \"b\"".to_owned()];
    let texts = RequestInput::Texts { query: None, inputs: &inputs };
    let expected =
        json!({"model": "m", "input": "a \"b\"", "max_output_tokens": 32, "stream": true, "temperature": 0, "store": false});
    assert_eq!(body(texts, false), expected);
    let exact = body(texts, true);
    assert_eq!((&exact["ignore_eos"], &exact["min_tokens"]), (&json!(true), &json!(32)));
    let row = json!({"input": "x", "max_output_tokens": 9, "stream": false, "store": true, "temperature": 1});
    let row = body(RequestInput::Body(row.as_object().expect("an object")), false);
    assert_eq!(
        row,
        json!({"model": "m", "input": "x", "max_output_tokens": 32, "stream": true, "store": true, "temperature": 1})
    );
    for stated in ["model", "input", "max_output_tokens", "stream", "ignore_eos", "min_tokens"] {
        assert!(ServingApi::Responses.is_stated(stated), "{stated}");
    }
    for free in ["max_tokens", "stream_options", "store", "temperature", "reasoning"] {
        assert!(!ServingApi::Responses.is_stated(free), "{free}");
    }
}

#[test]
fn messages_of_a_chat_become_items() {
    let messages = [
        json!({"role": "system", "content": "be brief"}),
        json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:x"}}]}),
        json!({"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}),
        json!({"role": "tool", "tool_call_id": "c", "content": "r"}),
        json!({"role": "assistant", "content": [{"type": "text", "text": "b"}]}),
    ];
    assert_eq!(
        body(RequestInput::Messages(&messages), false)["input"],
        json!([
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "data:x"}]},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "r"},
            {"role": "assistant", "content": [{"type": "output_text", "text": "b"}]},
        ])
    );
}
