//! ShareGPT: conversations, of which the first turn is the request, as in the benchmarks of vLLM and SGLang.

use serde_json::Value;

use super::object::with_system;
use crate::{DatasetError, LeftOut, Row, RowContent};

/// The roles of the person who asks, in the releases of ShareGPT and their successors.
const PERSON: [&str; 2] = ["human", "user"];

/// The roles of the system message.
const SYSTEM: &str = "system";

/// Reads a conversation. One that does not begin with a text of a person has no prompt.
pub(super) fn row(row: u64, value: &Value) -> Result<Result<Row, LeftOut>, DatasetError> {
    let turns = value.get("conversations").or_else(|| value.get("conversation")).and_then(Value::as_array);
    let turns = turns.ok_or_else(|| DatasetError::row(row, "has no list `conversations`"))?;
    let mut turns = turns.iter().map(turn).peekable();
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

/// Returns the role and the text of a turn.
fn turn(turn: &Value) -> Option<(&str, &str)> {
    let role = turn.get("from").or_else(|| turn.get("role"))?.as_str()?;
    let text = turn.get("value").or_else(|| turn.get("content"))?.as_str()?;
    Some((role, text))
}
