//! The prompt of a whole body: the members that an endpoint reads it from, in the order in which a model does.

use serde_json::{Map, Value, json};

/// Members with a system prompt beside the conversation: Anthropic's messages, and OpenAI's responses.
const SYSTEM: [&str; 2] = ["system", "instructions"];

/// Members with the prompt: of chats and messages, of responses, of completions. The first one that is there is read.
const PROMPT: [&str; 3] = ["messages", "input", "prompt"];

/// Returns the name of the member with the prompt.
fn prompt_member(body: &Map<String, Value>) -> Option<&'static str> {
    PROMPT.into_iter().find(|name| matches!(body.get(*name), Some(Value::String(_) | Value::Array(_))))
}

/// Returns all texts of the prompt, in order.
pub(crate) fn texts(body: &Map<String, Value>) -> Vec<&str> {
    let mut texts = Vec::new();
    for name in SYSTEM.into_iter().chain(prompt_member(body)) {
        match (name, body.get(name)) {
            ("messages" | "input", Some(Value::Array(items))) => items.iter().for_each(|item| push_item(item, &mut texts)),
            // A list under `prompt` holds token ids.
            ("prompt", Some(Value::Array(_))) | (_, None) => {}
            (_, Some(value)) => push_texts(value, &mut texts),
        }
    }
    texts
}

/// Adds the texts of a message or of another item of a conversation: its content, or the output of a tool.
fn push_item<'a>(item: &'a Value, texts: &mut Vec<&'a str>) {
    for name in ["content", "output"] {
        item.get(name).into_iter().for_each(|value| push_texts(value, texts));
    }
}

/// Adds a text, or the texts of a list of parts. A part has a `text`, or holds the result of a tool as its `content`.
fn push_texts<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(parts) => {
            for part in parts {
                match part.get("text") {
                    Some(text) => texts.extend(text.as_str()),
                    None => part.get("content").into_iter().for_each(|content| push_texts(content, texts)),
                }
            }
        }
        _ => {}
    }
}

/// Returns the last text of the conversation for a change.
pub(crate) fn last_text(body: &mut Map<String, Value>, of_message: fn(&mut Value) -> Option<&mut String>) -> Option<&mut String> {
    match body.get_mut(prompt_member(body)?)? {
        Value::String(prompt) => Some(prompt),
        Value::Array(messages) => messages.iter_mut().rev().find_map(of_message),
        _ => None,
    }
}

/// Puts a text in front of the prompt, followed by a line break: of the system prompt if there is one beside the conversation.
pub(crate) fn mark(body: &mut Map<String, Value>, marker: &str, mark_first: fn(&mut [Value], &str)) {
    let system = SYSTEM.into_iter().find(|name| matches!(body.get(*name), Some(Value::String(_) | Value::Array(_))));
    let Some(name) = system.or_else(|| prompt_member(body)) else { return };
    match body.get_mut(name) {
        Some(Value::String(text)) => text.insert_str(0, &format!("{marker}\n")),
        Some(Value::Array(blocks)) if name == "system" => {
            blocks.insert(0, json!({"type": "text", "text": format!("{marker}\n")}));
        }
        Some(Value::Array(items)) if matches!(name, "input" | "instructions") => mark_items(items, marker),
        Some(Value::Array(messages)) if name == "messages" => mark_first(messages, marker),
        _ => {}
    }
}

/// Puts a marker in front of the first item of an input, or before it if it is no message.
fn mark_items(items: &mut Vec<Value>, marker: &str) {
    let marker = format!("{marker}\n");
    match items.first_mut().and_then(|first| first.get_mut("content")) {
        Some(Value::String(text)) => text.insert_str(0, &marker),
        Some(Value::Array(parts)) => parts.insert(0, json!({"type": "input_text", "text": marker})),
        _ => items.insert(0, json!({"role": "user", "content": marker})),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts_of(body: &Value) -> Vec<&str> {
        texts(body.as_object().expect("an object"))
    }

    #[test]
    fn the_texts_of_a_body_are_those_that_its_api_reads() {
        let messages = json!({"system": [{"type": "text", "text": "s"}], "messages": [
            {"role": "user", "content": "a"},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "r"}]}]}]});
        assert_eq!(texts_of(&messages), ["s", "a", "r"]);
        let responses = json!({"instructions": "s", "input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]},
            {"type": "function_call_output", "call_id": "c", "output": "r"}]});
        assert_eq!(texts_of(&responses), ["s", "a", "r"]);
        assert_eq!(texts_of(&json!({"input": "a"})), ["a"]);
        assert_eq!(texts_of(&json!({"prompt": "a", "input": 5})), ["a"]);
        assert!(texts_of(&json!({"prompt": [1, 2], "system": null})).is_empty());
    }

    #[test]
    fn a_marker_stands_before_all_that_a_model_reads() {
        let marked = |mut body: Value| {
            mark(body.as_object_mut().expect("an object"), "m", |_, _| ());
            body
        };
        assert_eq!(marked(json!({"system": "s", "messages": []})), json!({"system": "m\ns", "messages": []}));
        assert_eq!(
            marked(json!({"system": [{"type": "text", "text": "s"}]})),
            json!({"system": [{"type": "text", "text": "m\n"}, {"type": "text", "text": "s"}]})
        );
        assert_eq!(marked(json!({"input": "a"})), json!({"input": "m\na"}));
        let parts = |text: &[&str]| text.iter().map(|text| json!({"type": "input_text", "text": text})).collect::<Vec<_>>();
        assert_eq!(
            marked(json!({"input": [{"role": "user", "content": parts(&["a"])}]})),
            json!({"input": [{"role": "user", "content": parts(&["m\n", "a"])}]})
        );
        assert_eq!(
            marked(json!({"input": [{"type": "reasoning"}]})),
            json!({"input": [{"role": "user", "content": "m\n"}, {"type": "reasoning"}]})
        );
    }
}
