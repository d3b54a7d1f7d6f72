//! ShareGPT: conversations. The first turn is the request, as in the benchmarks of vLLM and SGLang, unless whole conversations are sent.

use serde_json::{Value, json};

use super::object::with_system;
use crate::conversation::ASSISTANT;
use crate::{Conversation, DatasetError, LeftOut, Row, RowContent};

/// The roles of the person who asks, in the releases of ShareGPT and their successors.
const PERSON: [&str; 2] = ["human", "user"];

/// The roles of the system message.
const SYSTEM: &str = "system";

/// The roles of the results of tools, in successors of ShareGPT.
const TOOL: [&str; 4] = ["tool", "observation", "function_response", "function"];

/// Reads the first turn of a conversation. One that does not begin with a text of a person has no prompt.
pub(super) fn row(row: u64, value: &Value) -> Result<Result<Row, LeftOut>, DatasetError> {
    let mut turns = entries(row, value)?.iter().map(role_and_text).peekable();
    let system = turns.next_if(|turn| matches!(turn, Some((SYSTEM, _)))).flatten().map(|(_, text)| text);
    let Some(Some((role, prompt))) = turns.next() else { return Ok(Err(LeftOut::NO_PROMPT)) };
    if !PERSON.contains(&role) || prompt.trim().is_empty() {
        return Ok(Err(LeftOut::NO_PROMPT));
    }
    let output = turns.next().flatten().filter(|(role, _)| !PERSON.contains(role) && *role != SYSTEM);
    let content = RowContent::Prompt(prompt.to_owned());
    let content = match system.filter(|system| !system.is_empty()) {
        Some(system) => with_system(content, system.to_owned()),
        None => content,
    };
    Ok(Ok(Row { output: output.map(|(_, text)| text.to_owned()), ..Row::new(content) }))
}

/// Reads a whole conversation. Its messages are made from the roles and the texts; an empty system message is none.
pub(super) fn conversation(row: u64, value: &Value) -> Result<Result<Conversation, LeftOut>, DatasetError> {
    let mut messages = Vec::new();
    for (place, entry) in (1..).zip(entries(row, value)?) {
        let (role, text) = role_and_text(entry)
            .ok_or_else(|| DatasetError::row(row, format!("has a message without a role and a text: its message {place}")))?;
        if role != SYSTEM || !text.is_empty() {
            messages.push(json!({"role": role_of_message(role), "content": text}));
        }
    }
    Ok(Conversation::divide(messages))
}

fn entries(row: u64, value: &Value) -> Result<&Vec<Value>, DatasetError> {
    let entries = value.get("conversations").or_else(|| value.get("conversation")).and_then(Value::as_array);
    entries.ok_or_else(|| DatasetError::row(row, "has no list `conversations`"))
}

/// Returns the role and the text of a message.
fn role_and_text(message: &Value) -> Option<(&str, &str)> {
    let role = message.get("from").or_else(|| message.get("role"))?.as_str()?;
    let text = message.get("value").or_else(|| message.get("content"))?.as_str()?;
    Some((role, text))
}

/// Returns the role that an API of chats has for a role of ShareGPT. Models have many names there: `gpt`, `chatgpt`, `bing` and others.
fn role_of_message(role: &str) -> &'static str {
    match role {
        SYSTEM => SYSTEM,
        role if PERSON.contains(&role) => "user",
        role if TOOL.contains(&role) => "tool",
        _ => ASSISTANT,
    }
}
