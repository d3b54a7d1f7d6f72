//! Simple readers of streams and of their documents. They hold the whole input and are written from the specifications, so that the fast
//! readers of the load generator are compared with code that shares nothing with them.

use std::sync::LazyLock;

use assay_api::InvalidCount;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

/// One event of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SimpleEvent {
    pub(crate) data: Vec<u8>,
    pub(crate) is_error: bool,
}

/// The events of a stream, up to its end or to the first line or event that is too long.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SimpleStream {
    pub(crate) events: Vec<SimpleEvent>,
    pub(crate) is_too_long: bool,
}

/// Reads a whole stream by "Interpreting an event stream" of <https://html.spec.whatwg.org/multipage/server-sent-events.html>. A line, and the
/// data of an event, have at most `limit` bytes.
pub(crate) fn read_stream(stream: &[u8], limit: usize) -> SimpleStream {
    let mut read = SimpleStream::default();
    // The buffers of the specification. The last line feed of the data is not there yet, so that no data and empty data differ.
    let (mut data, mut kind): (Option<Vec<u8>>, Vec<u8>) = (None, Vec::new());
    let (lines, rest) = split_lines(stream);
    for (number, line) in lines.into_iter().enumerate() {
        if line.len() > limit {
            return SimpleStream { is_too_long: true, ..read };
        }
        let line = if number == 0 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line) } else { line };
        if line.is_empty() {
            let is_error = std::mem::take(&mut kind) == b"error";
            read.events.extend(data.take().map(|data| SimpleEvent { data, is_error }));
            continue;
        }
        // A comment is a line of the field with the empty name, which has no meaning either.
        let (field, value) = match line.iter().position(|byte| *byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"event" => kind = value.to_vec(),
            b"data" => {
                if let Some(data) = &mut data {
                    data.push(b'\n');
                }
                data.get_or_insert_default().extend_from_slice(value);
            }
            _ => {}
        }
        if data.as_ref().is_some_and(|data| data.len() > limit) {
            return SimpleStream { is_too_long: true, ..read };
        }
    }
    SimpleStream { is_too_long: rest.len() > limit, ..read }
}

/// Splits a stream into its lines, which end with a carriage return, a line feed or both, and the bytes after the last of them.
fn split_lines(stream: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let (mut lines, mut rest) = (Vec::new(), stream);
    while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        lines.push(&rest[..end]);
        rest = rest[end..].strip_prefix(b"\r\n").unwrap_or(&rest[end + 1..]);
    }
    (lines, rest)
}

/// The content of a document of a response.
#[derive(Debug)]
pub(crate) enum SimpleDocument {
    /// It is not JSON, or not a response of the API.
    Refused,
    /// It has more than one meaning, or holds what `serde_json` does not represent: a key that is repeated in an object, two texts of one choice
    /// in the order of its members, half of a surrogate pair, a number beyond the range of doubles, or `-0`.
    Ambiguous,
    /// A response.
    Response(SimpleResponse),
}

/// The fields of a response.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SimpleResponse {
    pub(crate) content: String,
    pub(crate) reasoning: String,
    /// Bytes of the names and arguments of tool calls; none if arguments are an object, whose white space counts.
    pub(crate) tool: Option<usize>,
    pub(crate) finish: Option<String>,
    pub(crate) has_error: bool,
    pub(crate) usage: SimpleUsage,
}

/// The token counts of a response.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SimpleUsage {
    pub(crate) prompt: Option<u32>,
    pub(crate) completion: Option<u32>,
    pub(crate) cached: Option<u32>,
    pub(crate) reasoning: Option<u32>,
    pub(crate) accepted: Option<u32>,
    pub(crate) invalid: Option<InvalidCount>,
    pub(crate) claimed: Option<i64>,
}

/// The maximum nesting of a document that the load generator reads.
const MAX_DEPTH: usize = 128;

/// Reads a document of a response to a chat or a completion.
pub(crate) fn read_document(document: &[u8]) -> SimpleDocument {
    let Ok(text) = std::str::from_utf8(document) else { return SimpleDocument::Refused };
    // `IgnoredAny` accepts every JSON text; a value needs strings, numbers and a nesting that can be represented.
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        return SimpleDocument::Refused;
    }
    let (depth, members) = measure(text);
    if depth > MAX_DEPTH {
        return SimpleDocument::Refused;
    }
    match serde_json::from_str::<Value>(text) {
        Ok(value) if count_members(&value) == members && !is_ambiguous(&value) => {
            read_response(&value).map_or(SimpleDocument::Refused, SimpleDocument::Response)
        }
        _ => SimpleDocument::Ambiguous,
    }
}

/// Returns the nesting of a JSON text, and the number of members of all its objects, which are its colons outside of strings.
fn measure(text: &str) -> (usize, usize) {
    let (mut depth, mut deepest, mut members, mut is_in_string) = (0_usize, 0, 0, false);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => is_in_string = !is_in_string,
            b'\\' => drop(bytes.next()),
            _ if is_in_string => {}
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b':' => members += 1,
            _ => {}
        }
    }
    (deepest, members)
}

/// Returns the number of members of all objects of a value.
fn count_members(value: &Value) -> usize {
    match value {
        Value::Object(members) => members.len() + members.values().map(count_members).sum::<usize>(),
        Value::Array(elements) => elements.iter().map(count_members).sum(),
        _ => 0,
    }
}

fn is_ambiguous(value: &Value) -> bool {
    match value {
        Value::Object(members) => {
            let texts = ["delta", "message", "text"].iter().filter(|name| members.contains_key(**name)).count();
            texts > 1 || members.values().any(is_ambiguous)
        }
        Value::Array(elements) => elements.iter().any(is_ambiguous),
        Value::Number(number) => number.as_f64().is_some_and(|number| number == 0.0 && number.is_sign_negative()),
        _ => false,
    }
}

/// Reads a response; none if a member has a type that the API does not allow.
fn read_response(value: &Value) -> Option<SimpleResponse> {
    let document = value.as_object()?;
    let mut response = SimpleResponse { tool: Some(0), ..SimpleResponse::default() };
    for choice in list(document.get("choices"))? {
        read_choice(choice.as_object()?, &mut response)?;
    }
    let states_error = |error: &Value| !matches!(error, Value::Null | Value::Bool(false));
    let only_message = !document.contains_key("choices")
        && ["message", "detail"].iter().any(|name| document.get(*name).is_some_and(Value::is_string));
    response.has_error = document.get("error").is_some_and(states_error)
        || document.get("object").is_some_and(|object| object == "error")
        || only_message;
    response.usage = read_usage(document.get("usage"));
    Some(response)
}

fn read_choice(choice: &Map<String, Value>, response: &mut SimpleResponse) -> Option<()> {
    for name in ["delta", "message"] {
        read_delta(object(choice.get(name))?, response)?;
    }
    response.content += text(choice.get("text"))?;
    let finish = match choice.get("finish_reason") {
        Some(Value::Object(finish)) => finish.get("type"),
        other => other,
    };
    let finish = finish.and_then(Value::as_str).filter(|reason| !reason.is_empty());
    response.finish = finish.map(str::to_owned).or(response.finish.take());
    Some(())
}

fn read_delta(delta: &Map<String, Value>, response: &mut SimpleResponse) -> Option<()> {
    let (reasoning, reasoning_content) = (text(delta.get("reasoning"))?, text(delta.get("reasoning_content"))?);
    response.reasoning += if reasoning.is_empty() { reasoning_content } else { reasoning };
    response.content += text(delta.get("content"))?;
    response.content += text(delta.get("refusal"))?;
    for call in list(delta.get("tool_calls"))? {
        read_function(call.as_object()?.get("function"), response)?;
    }
    read_function(delta.get("function_call"), response)
}

fn read_function(function: Option<&Value>, response: &mut SimpleResponse) -> Option<()> {
    let function = object(function)?;
    let arguments = match function.get("arguments") {
        Some(Value::Object(_)) => None,
        other => Some(text(other)?.len()),
    };
    let name = text(function.get("name"))?.len();
    response.tool = response.tool.zip(arguments).map(|(before, arguments)| before + name + arguments);
    Some(())
}

fn read_usage(usage: Option<&Value>) -> SimpleUsage {
    let mut read = SimpleUsage::default();
    let Some(members) = counts(usage, InvalidCount::Usage, &mut read) else { return read };
    read.prompt = count(members.get("prompt_tokens"), InvalidCount::Input, &mut read);
    read.completion = count(members.get("completion_tokens"), InvalidCount::Output, &mut read);
    if let Some(details) = counts(members.get("prompt_tokens_details"), InvalidCount::Part, &mut read) {
        read.cached = count(details.get("cached_tokens"), InvalidCount::Part, &mut read);
    }
    let alone = count(members.get("reasoning_tokens"), InvalidCount::Part, &mut read);
    if let Some(details) = counts(members.get("completion_tokens_details"), InvalidCount::Part, &mut read) {
        read.reasoning = count(details.get("reasoning_tokens"), InvalidCount::Part, &mut read);
        read.accepted = count(details.get("accepted_prediction_tokens"), InvalidCount::Part, &mut read);
    }
    read.reasoning = read.reasoning.or(alone);
    read
}

/// Returns an object with counts; any other value but `null` is an invalid count.
fn counts<'a>(value: Option<&'a Value>, kind: InvalidCount, usage: &mut SimpleUsage) -> Option<&'a Map<String, Value>> {
    match value {
        None | Some(Value::Null) => None,
        Some(Value::Object(members)) => Some(members),
        Some(_) => {
            usage.invalid = InvalidCount::first(usage.invalid, Some(kind));
            None
        }
    }
}

fn count(value: Option<&Value>, kind: InvalidCount, usage: &mut SimpleUsage) -> Option<u32> {
    let value = value.filter(|value| !value.is_null())?;
    let tokens = value.as_u64().and_then(|tokens| u32::try_from(tokens).ok());
    if tokens.is_none() {
        usage.invalid = InvalidCount::first(usage.invalid, Some(kind));
        if kind == InvalidCount::Output {
            usage.claimed = value.as_i64();
        }
    }
    tokens
}

/// Returns the elements of a list, of which an absent one and `null` have none; `None` for a value of another type, here and below.
fn list(value: Option<&Value>) -> Option<&[Value]> {
    match value {
        None | Some(Value::Null) => Some(&[]),
        Some(value) => value.as_array().map(Vec::as_slice),
    }
}

fn object(value: Option<&Value>) -> Option<&Map<String, Value>> {
    static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    match value {
        None | Some(Value::Null) => Some(&EMPTY),
        Some(value) => value.as_object(),
    }
}

fn text(value: Option<&Value>) -> Option<&str> {
    match value {
        None | Some(Value::Null) => Some(""),
        Some(value) => value.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the data of the events, those of type `error` marked, and a mark for a stream that is too long.
    fn events(stream: &str, limit: usize) -> Vec<String> {
        let read = read_stream(stream.as_bytes(), limit);
        let event =
            |event: &SimpleEvent| format!("{}{}", if event.is_error { "!" } else { "" }, String::from_utf8_lossy(&event.data));
        read.events.iter().map(event).chain(read.is_too_long.then(|| "too long".to_owned())).collect()
    }

    #[test]
    fn a_stream_is_read_by_the_examples_of_the_specification() {
        assert_eq!(events("data: YHOO\ndata: +2\ndata: 10\n\n", 99), ["YHOO\n+2\n10"]);
        assert_eq!(
            events(": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n", 99),
            ["first event", "second event"]
        );
        assert_eq!(events("data\n\ndata\ndata\n\ndata:", 99), ["", "\n"]);
        assert_eq!(events("data:test\r\rdata: test\r\n\r\n", 99), ["test", "test"]);
        assert_eq!(events("\u{feff}event: error\ndata: a\n\nevent:error\n\ndata: b\n\n", 99), ["!a", "b"]);
    }

    #[test]
    fn a_stream_ends_at_what_is_too_long() {
        assert_eq!(events("data: a\n\ndata: b\n\n", 7), ["a", "b"]);
        assert_eq!(events("data: a\n\ndata: b\n\n", 6), ["too long"]);
        assert_eq!(events("data:a\n\ndata:b\n\n:unfinished", 6), ["a", "b", "too long"]);
        assert_eq!(events("data:a\n\ndata:b\ndata:c\ndata:d\ndata:e\n\n", 6), ["a", "too long"]);
    }

    #[test]
    fn a_document_is_read_refused_or_ambiguous() {
        let read = |document: &str| read_document(document.as_bytes());
        let whole = r#"{"choices":[{"delta":{"content":"ab","reasoning":"c"},"finish_reason":"stop"}],
            "usage":{"prompt_tokens":3,"completion_tokens":-1,"reasoning_tokens":2}}"#;
        let SimpleDocument::Response(response) = read(whole) else { panic!("a response") };
        let usage = SimpleUsage {
            prompt: Some(3),
            reasoning: Some(2),
            invalid: Some(InvalidCount::Output),
            claimed: Some(-1),
            ..SimpleUsage::default()
        };
        let expected = SimpleResponse {
            content: "ab".to_owned(),
            reasoning: "c".to_owned(),
            tool: Some(0),
            finish: Some("stop".to_owned()),
            has_error: false,
            usage,
        };
        assert_eq!(response, expected);
        for refused in
            ["", "{", "[]", r#"{"choices":{}}"#, r#"{"choices":[{"delta":{"content":1}}]}"#, r#"{"choices":[{"delta":[]}]}"#]
        {
            assert!(matches!(read(refused), SimpleDocument::Refused), "{refused}");
        }
        for ambiguous in [
            r#"{"a":1,"a":2}"#,
            r#"{"choices":[{"text":"a","delta":null}]}"#,
            r#"{"a":"\ud800"}"#,
            r#"{"a":1e999}"#,
            r#"{"a":-0}"#,
        ] {
            assert!(matches!(read(ambiguous), SimpleDocument::Ambiguous), "{ambiguous}");
        }
    }

    #[test]
    fn a_text_is_measured_outside_of_its_strings() {
        assert_eq!(measure(r#"{"a:{":[1,{"\"":"{\\"}],"b":{}}"#), (3, 3));
    }
}
