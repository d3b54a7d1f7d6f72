//! Rows that are objects with named members: JSON Lines and CSV.

use std::collections::BTreeSet;

use assay_manifest::{MAX_DATASET_TOKENS, UnreadMembers};
use serde_json::{Map, Value, json};

use super::Fields;
use crate::{Conversation, DatasetError, LeftOut, Row, RowContent};

/// The names of members that an error lists.
const LISTED: usize = 8;

/// The characters of a member's name that an error quotes.
const QUOTED: usize = 40;

/// The most digits of a name.
const MAX_DIGITS: usize = 3;

/// Reads a row. A text is a prompt.
pub(super) fn row(row: u64, value: &Value, fields: &Fields) -> Result<Row, DatasetError> {
    if let Value::String(prompt) = value {
        return finish(row, RowContent::Prompt(prompt.clone()), None, None);
    }
    if !value.is_object() {
        return Err(DatasetError::row(row, "is neither an object nor a text"));
    }
    let named = |named: &Option<String>, own| member(row, value, named.as_deref(), own);
    // A named one is meant, whatever else a row has.
    let prompt = if fields.messages.is_some() && fields.prompt.is_none() { None } else { named(&fields.prompt, "prompt")? };
    let messages = if fields.prompt.is_some() && fields.messages.is_none() { None } else { named(&fields.messages, "messages")? };
    let mut content = match (prompt, messages) {
        (Some(prompt), None) => RowContent::Prompt(text(row, prompt, "prompt")?),
        (None, Some(Value::Array(messages))) => RowContent::Messages(messages.clone()),
        (None, Some(_)) => return Err(DatasetError::row(row, "has messages that are not a list")),
        (Some(_), Some(_)) => return Err(DatasetError::row(row, "has a prompt and messages: name one of them in `fields`")),
        (None, None) => {
            let is_batch = ["url", "body"].iter().all(|member| value.get(member).is_some());
            let hint = if is_batch {
                "a line of an OpenAI batch is read with `format: openai_batch`"
            } else {
                "name the one with the prompt: `fields: {prompt: NAME}`"
            };
            return Err(DatasetError::row(row, format!("has neither `prompt` nor `messages`; {}: {hint}", listed(value))));
        }
    };
    let mut output = named(&fields.output, "output")?.map(|output| text(row, output, "output")).transpose()?;
    let output_tokens = output_tokens(row, value, fields)?;
    if let RowContent::Messages(messages) = &mut content {
        check_messages(row, messages)?;
        if let Some(recorded) = take_response(messages) {
            output = output.or(Some(recorded));
        }
    }
    if let Some(system) = named(&fields.system, "system")? {
        content = with_system(content, text(row, system, "system")?);
    }
    finish(row, content, output, output_tokens)
}

/// Reads a row as a whole conversation. A `prompt` beside its messages is not read, because it is often the first of them.
pub(super) fn conversation(row: u64, value: &Value, fields: &Fields) -> Result<Result<Conversation, LeftOut>, DatasetError> {
    if fields.prompt.is_some() {
        return Err(DatasetError::row(row, "is read as a conversation, and `fields` names a `prompt`: name `messages` instead"));
    }
    let mut messages = match member(row, value, fields.messages.as_deref(), "messages")? {
        Some(Value::Array(messages)) => messages.clone(),
        Some(_) => return Err(DatasetError::row(row, "has messages that are not a list")),
        None => {
            let hint = "with `sessions`, each row is a whole conversation";
            return Err(DatasetError::row(row, format!("has no `messages`; {}: {hint}", listed(value))));
        }
    };
    check_messages(row, &messages)?;
    let named =
        |named: &Option<String>, own| member(row, value, named.as_deref(), own)?.map(|value| text(row, value, own)).transpose();
    if let Some(system) = named(&fields.system, "system")? {
        messages.insert(0, system_message(&system));
    }
    let (output, output_tokens) = (named(&fields.output, "output")?, output_tokens(row, value, fields)?);
    Ok(Conversation::divide(messages).map(|conversation| conversation.with_last_response(output, output_tokens)))
}

/// Returns the recorded number of tokens of the response, if the row has one.
pub(super) fn output_tokens(row: u64, value: &Value, fields: &Fields) -> Result<Option<u32>, DatasetError> {
    let found = member(row, value, fields.output_tokens.as_deref(), "output_tokens")?;
    found.map(|count| tokens(row, count)).transpose()
}

/// Returns the member of the format's own name, or the one that `fields` names, which has to be there.
fn member<'a>(row: u64, value: &'a Value, named: Option<&str>, own: &str) -> Result<Option<&'a Value>, DatasetError> {
    let found = lookup(value, named.unwrap_or(own));
    match (found, named) {
        (None, Some(name)) => {
            Err(DatasetError::row(row, format!("lacks `{}`, which `fields` names; {}", quoted(name), listed(value))))
        }
        _ => Ok(found),
    }
}

/// Returns the row, if its prompt has any text.
fn finish(row: u64, content: RowContent, output: Option<String>, output_tokens: Option<u32>) -> Result<Row, DatasetError> {
    if content.is_blank() {
        return Err(DatasetError::row(row, "has an empty prompt"));
    }
    Ok(Row { output, output_tokens, ..Row::new(content) })
}

/// Checks that each message is an object with a role, as every API of chats requires, and that its content is a text, a list of parts, or
/// absent.
pub(super) fn check_messages(row: u64, messages: &[Value]) -> Result<(), DatasetError> {
    let is_message = |message: &Value| message.get("role").is_some_and(Value::is_string);
    let has_content =
        |message: &Value| matches!(message.get("content"), None | Some(Value::Null | Value::String(_) | Value::Array(_)));
    let at = |place: usize| format!("its message {}", place + 1);
    if let Some(place) = messages.iter().position(|message| is_message(message) && !has_content(message)) {
        let problem = format!("has a message whose `content` is neither a text nor a list of parts: {}", at(place));
        return Err(DatasetError::row(row, problem));
    }
    match messages.iter().position(|message| !is_message(message)) {
        Some(place) => Err(DatasetError::row(row, format!("has a message without a `role`: {}", at(place)))),
        None if messages.is_empty() => Err(DatasetError::row(row, "has no messages")),
        None => Ok(()),
    }
}

/// Takes a last message of the assistant out: it is the recorded response. A conversation of it alone stays.
fn take_response(messages: &mut Vec<Value>) -> Option<String> {
    let last = messages.last()?;
    let is_response = messages.len() > 1 && last["role"] == "assistant";
    let text = last.get("content").and_then(Value::as_str).filter(|_| is_response)?.to_owned();
    messages.pop();
    Some(text)
}

pub(super) fn with_system(content: RowContent, system: String) -> RowContent {
    let system = system_message(&system);
    match content {
        RowContent::Prompt(prompt) => RowContent::Messages(vec![system, json!({"role": "user", "content": prompt})]),
        RowContent::Messages(mut messages) => {
            messages.insert(0, system);
            RowContent::Messages(messages)
        }
        RowContent::Body(_) | RowContent::Blocks(_) | RowContent::Turn(_) => content,
    }
}

pub(super) fn system_message(text: &str) -> Value {
    json!({"role": "system", "content": text})
}

/// Returns the member of this name, or at this path of names; null is absent.
fn lookup<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let whole = value.get(name);
    let found = whole.or_else(|| name.split('.').try_fold(value, |value, part| value.get(part)));
    found.filter(|value| !value.is_null())
}

fn text(row: u64, value: &Value, what: &str) -> Result<String, DatasetError> {
    value
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| DatasetError::row(row, format!("has a value that is not a text as its {what}")))
}

/// Reads a number of tokens; a number in a text too, as CSV has it.
fn tokens(row: u64, value: &Value) -> Result<u32, DatasetError> {
    let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
    let valid = number.and_then(|number| u32::try_from(number).ok()).filter(|number| (1..=MAX_DATASET_TOKENS).contains(number));
    valid.ok_or_else(|| {
        DatasetError::row(row, format!("has output tokens that are not a whole number from 1 to {MAX_DATASET_TOKENS}"))
    })
}

/// Returns the names of a row's members, for an error. They are text of the row themselves if a CSV file has no line of names, so they are
/// shown only if all look like names.
pub(super) fn listed(value: &Value) -> String {
    let names: Vec<&str> =
        value.as_object().into_iter().flat_map(|object| object.keys()).take(LISTED).map(String::as_str).collect();
    if names.is_empty() {
        "it has none".to_owned()
    } else if names.iter().all(|name| looks_like_name(name)) {
        format!("it has `{}`", names.join("`, `"))
    } else {
        "its members have names that look like texts; a CSV file begins with a line of column names".to_owned()
    }
}

/// Returns true if a value that is read from the member or the path `read` is in the member of this name.
pub(super) fn is_member(name: &str, read: &str) -> bool {
    name == read || read.split('.').next() == Some(name)
}

/// The members of a row that its format does not have.
#[derive(Default)]
pub(super) struct Others {
    has_any: bool,
    names: BTreeSet<String>,
}

impl Others {
    /// Adds those of an object within the row that are not known.
    pub(super) fn add(&mut self, members: Option<&Map<String, Value>>, is_known: impl Fn(&str) -> bool) {
        for name in members.into_iter().flat_map(Map::keys).filter(|name| !is_known(name)) {
            self.has_any = true;
            if looks_like_name(name) && self.names.len() < UnreadMembers::MAX_NAMES {
                self.names.insert(name.clone());
            }
        }
    }

    /// Returns their names, at most as many as are listed, without those that look like texts; `None` if there are no such members.
    pub(super) fn names(self) -> Option<Vec<String>> {
        self.has_any.then(|| self.names.into_iter().collect())
    }
}

/// Returns true for a word such as `output_tokens` or `Log Type`: letters with few digits, in at most three parts.
fn looks_like_name(name: &str) -> bool {
    let digits = name.bytes().filter(u8::is_ascii_digit).count();
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-. ".contains(&byte);
    name.len() <= QUOTED && digits <= MAX_DIGITS && name.bytes().all(is_word) && name.split([' ', '-']).count() <= 3
}

fn quoted(name: &str) -> String {
    name.escape_debug().take(QUOTED).collect()
}
