//! Members of a parsed JSON document, each with a place for messages.

use serde_json::Value;

use super::HarnessError;
use super::error::shortened;
use crate::repeated_key;

/// Parses a document. Its nesting is limited by the parser.
pub(super) fn document(text: &str) -> Result<Value, HarnessError> {
    let document = serde_json::from_str(text).map_err(|error| unreadable(text, &error))?;
    match repeated_key::find(text.as_bytes()) {
        Some(key) => Err(HarnessError::DuplicateKey(shortened(&key))),
        None => Ok(document),
    }
}

fn unreadable(text: &str, error: &serde_json::Error) -> HarnessError {
    let problem = error.to_string();
    if error.is_eof() {
        return HarnessError::CutJson(problem);
    }
    HarnessError::NotJson { problem, beginning: shortened(text.trim_start().lines().next().unwrap_or_default()) }
}

pub(super) fn absent(member: &str, expected: &'static str, place: &str) -> HarnessError {
    HarnessError::Member { member: member.to_owned(), expected, place: place.to_owned() }
}

pub(super) fn list<'a>(value: &'a Value, member: &str, place: &str) -> Result<&'a [Value], HarnessError> {
    value.get(member).and_then(Value::as_array).map(Vec::as_slice).ok_or_else(|| absent(member, "a list", place))
}

pub(super) fn text<'a>(value: &'a Value, member: &str, place: &str) -> Result<&'a str, HarnessError> {
    value.get(member).and_then(Value::as_str).ok_or_else(|| absent(member, "a text", place))
}

/// Returns a number that may be left out; `None` if the member is missing or null.
pub(super) fn optional_number(value: &Value, member: &str, place: &str) -> Result<Option<f64>, HarnessError> {
    match value.get(member) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => number(value, member, place).map(Some),
    }
}

pub(super) fn number(value: &Value, member: &str, place: &str) -> Result<f64, HarnessError> {
    value.get(member).and_then(Value::as_f64).ok_or_else(|| absent(member, "a number", place))
}

/// Returns a list of numbers; `None` if the member is missing or null.
pub(super) fn numbers(value: &Value, member: &str, place: &str) -> Result<Option<Vec<f64>>, HarnessError> {
    match value.get(member) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(items)) => {
            let numbers = items.iter().map(Value::as_f64).collect::<Option<Vec<_>>>();
            numbers.map(Some).ok_or_else(|| absent(member, "a list of numbers", place))
        }
        Some(_) => Err(absent(member, "a list of numbers", place)),
    }
}

/// Returns the failure of a benchmark, with the reason that the harness gives.
pub(super) fn failed(benchmark: &str, reason: &str) -> HarnessError {
    HarnessError::Failed { benchmark: shortened(benchmark), reason: shortened(reason) }
}
