//! A Pipfile, which specifications hold as JSON, in TOML.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Returns the text of a Pipfile; `None` if the value is none.
pub(super) fn pipfile(requirements: &Value) -> Option<String> {
    let members = requirements.as_object()?;
    let (tables, keys): (Vec<_>, Vec<_>) = members.iter().partition(|(_, value)| is_table(value));
    let mut text = pairs(keys.into_iter());
    for (name, value) in tables {
        for table in value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice) {
            let (open, close) = if value.is_array() { ("[[", "]]") } else { ("[", "]") };
            let pairs = pairs(table.as_object().into_iter().flatten());
            let _ = write!(text, "\n{open}{}{close}\n{pairs}", key(name));
        }
    }
    Some(text.trim_start().to_owned())
}

fn is_table(value: &Value) -> bool {
    value.is_object() || value.as_array().is_some_and(|items| !items.is_empty() && items.iter().all(Value::is_object))
}

fn pairs<'a>(members: impl Iterator<Item = (&'a String, &'a Value)>) -> String {
    let pairs = members.filter(|(_, value)| !value.is_null()).map(|(name, value)| format!("{} = {}\n", key(name), inline(value)));
    pairs.collect::<Vec<_>>().concat()
}

fn key(name: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    if !name.is_empty() && name.bytes().all(is_bare) { name.to_owned() } else { text(name) }
}

/// Returns a text in quotes: those of JSON are those of TOML, but for DEL.
fn text(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// Returns a value on one line. TOML has no null, so a member that is null is left out.
fn inline(value: &Value) -> String {
    match value {
        Value::Null => text(""),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(value) => text(value),
        Value::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => format!("{{{}}}", inline_members(members)),
    }
}

fn inline_members(members: &Map<String, Value>) -> String {
    let given = members.iter().filter(|(_, value)| !value.is_null());
    given.map(|(name, value)| format!("{} = {}", key(name), inline(value))).collect::<Vec<_>>().join(", ")
}
