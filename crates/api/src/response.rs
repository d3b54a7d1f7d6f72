//! The JSON documents of responses: the members that all APIs have, and their errors.

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use sha2::{Digest as _, Sha256};

use crate::api_format::ApiFormat;
use crate::json::{Scan, ScannedCount, Scanner, Text};

/// The content of one document. Sizes are bytes of the decoded text.
#[derive(Debug, Default)]
pub struct ParsedResponse<'a> {
    /// Bytes of content.
    pub content: usize,
    /// Bytes of reasoning.
    pub reasoning: usize,
    /// Bytes of the names and arguments of tool calls.
    pub tool: usize,
    /// The token counts, if it has any.
    pub usage: Usage,
    /// The finish reason, if it has one.
    pub finish: Option<Text<'a>>,
    /// The message of a finish reason that is an object (SGLang).
    pub finish_message: Option<Text<'a>>,
    /// True if it is the event that ends a stream, in place of `[DONE]`.
    pub is_last: bool,
    /// True if it has a list of choices.
    pub(crate) has_choices: bool,
    /// The error message, if it holds an error.
    pub error: Option<String>,
    /// The number of results: embeddings or scores.
    pub results: usize,
    /// True if its `object` or `type` is `error`.
    pub(crate) is_error: bool,
    /// The `message` or `detail` of the document.
    message: Option<Text<'a>>,
}

/// Token counts of a document, by the endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the input.
    pub prompt: Option<u32>,
    /// Tokens of the response.
    pub completion: Option<u32>,
    /// Tokens of the input that were in the prefix cache.
    pub cached: Option<u32>,
    /// Tokens of the response that are reasoning.
    pub reasoning: Option<u32>,
    /// Tokens of the response that a prediction of the request had.
    pub accepted: Option<u32>,
    /// The input in parts, if the endpoint does not count it as a whole.
    pub parts: InputParts,
    /// The count that is no count of tokens; of several, the first in the order of the type.
    pub invalid: Option<InvalidCount>,
    /// The invalid count of the tokens of the response, if it is a whole number of 64 bits.
    pub claimed: Option<i64>,
}

/// A count of a `usage` that is no whole number from 0 to 2^32 - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InvalidCount {
    /// The tokens of the response.
    Output,
    /// All of them: `usage` is no object.
    Usage,
    /// The tokens of the input.
    Input,
    /// The tokens of a part of either.
    Part,
}

impl InvalidCount {
    /// Returns the invalid count to keep of two.
    pub fn first(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        one.into_iter().chain(other).min()
    }
}

impl Usage {
    /// Notes that a count is invalid.
    pub(crate) fn set_invalid(&mut self, found: InvalidCount) {
        self.invalid = InvalidCount::first(self.invalid, Some(found));
    }

    /// Reads a count, and notes it if it is invalid.
    pub(crate) fn read(&mut self, scanner: &mut Scanner<'_>, kind: InvalidCount) -> Scan<Option<u32>> {
        match scanner.count()? {
            ScannedCount::Absent => Ok(None),
            ScannedCount::Tokens(tokens) => Ok(Some(tokens)),
            ScannedCount::Invalid(number) => {
                self.set_invalid(kind);
                if kind == InvalidCount::Output {
                    self.claimed = number;
                }
                Ok(None)
            }
        }
    }

    /// Reads one count of an object.
    pub(crate) fn read_detail(&mut self, scanner: &mut Scanner<'_>, name: &[u8], kind: InvalidCount) -> Scan<Option<u32>> {
        let mut count = None;
        self.read_details(scanner, kind, |usage, scanner, key| {
            if key == name {
                count = usage.read(scanner, kind)?;
                return Ok(());
            }
            scanner.skip()
        })?;
        Ok(count)
    }

    /// Reads an object with counts; `null` has none, and any other value is noted as invalid.
    fn read_details(
        &mut self,
        scanner: &mut Scanner<'_>,
        kind: InvalidCount,
        mut member: impl FnMut(&mut Self, &mut Scanner<'_>, &[u8]) -> Scan<()>,
    ) -> Scan<()> {
        match scanner.peek()? {
            b'{' => scanner.object(|scanner, key| member(self, scanner, key)),
            b'n' => scanner.skip(),
            _ => {
                self.set_invalid(kind);
                scanner.skip()
            }
        }
    }
}

/// Parts of the input that have no token in common. Each usage of a stream may state only some of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputParts {
    /// Tokens that the prefix cache neither held nor took.
    pub uncached: Option<u32>,
    /// Tokens that were in the prefix cache.
    pub read: Option<u32>,
    /// Tokens that were written into the prefix cache.
    pub written: Option<u32>,
}

impl InputParts {
    /// Returns the parts after a later usage, which replaces those that it states.
    #[must_use]
    pub fn updated(self, later: Self) -> Self {
        Self {
            uncached: later.uncached.or(self.uncached),
            read: later.read.or(self.read),
            written: later.written.or(self.written),
        }
    }

    /// Returns the tokens of the whole input, if the part is known that every input has.
    pub fn total(self) -> Option<u32> {
        self.uncached?.checked_add(self.read.unwrap_or(0))?.checked_add(self.written.unwrap_or(0))
    }
}

/// The destination of the text.
#[derive(Debug)]
pub enum TextSink<'k> {
    /// None.
    Discard,
    /// A digest of it.
    Digest(&'k mut Sha256),
    /// A buffer.
    Text(&'k mut Vec<u8>),
    /// Content and reasoning in a buffer each, and the text of all kinds in a further sink.
    Apart {
        /// The content.
        content: &'k mut Vec<u8>,
        /// The reasoning.
        reasoning: &'k mut Vec<u8>,
        /// The sink of all text.
        all: &'k mut TextSink<'k>,
    },
}

/// The kind of a text of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextKind {
    Content,
    Reasoning,
    /// The name or the arguments of a tool call.
    Tool,
}

impl TextSink<'_> {
    #[inline]
    pub(crate) fn text(&mut self, kind: TextKind, text: Text<'_>) {
        match self {
            Self::Discard => {}
            Self::Digest(hasher) => text.pieces(|piece| hasher.update(piece)),
            Self::Text(kept) => text.pieces(|piece| kept.extend_from_slice(piece)),
            Self::Apart { .. } => self.text_apart(kind, text),
        }
    }

    /// Keeps a text by its kind. A function of its own, so that the other sinks stay inline.
    #[inline(never)]
    fn text_apart(&mut self, kind: TextKind, text: Text<'_>) {
        let Self::Apart { content, reasoning, all } = self else { return };
        match kind {
            TextKind::Content => text.pieces(|piece| content.extend_from_slice(piece)),
            TextKind::Reasoning => text.pieces(|piece| reasoning.extend_from_slice(piece)),
            TextKind::Tool => {}
        }
        all.text(kind, text);
    }
}

impl ParsedResponse<'_> {
    /// Returns the bytes of text of all kinds.
    pub fn bytes(&self) -> usize {
        self.content + self.reasoning + self.tool
    }

    /// Adds a text of the model.
    #[inline]
    pub(crate) fn add_text(&mut self, kind: TextKind, text: Text<'_>, keep: &mut TextSink<'_>) {
        let bytes = match kind {
            TextKind::Content => &mut self.content,
            TextKind::Reasoning => &mut self.reasoning,
            TextKind::Tool => &mut self.tool,
        };
        *bytes += text.len();
        keep.text(kind, text);
    }

    /// Returns the message of an error's body, if it has one.
    pub(crate) fn into_error_message(self) -> Option<String> {
        let message = self.message;
        self.error.or_else(|| message.map(to_text))
    }

    /// Finds the error of a document that says so in another way than by `error`: a message, or FastAPI's `detail`, in place of
    /// choices or results is one, too.
    fn find_error(&mut self) {
        let only_message = self.message.is_some() && !self.has_choices && self.results == 0;
        if (self.is_error || only_message) && self.error.is_none() {
            self.error = Some(self.message.map_or_else(|| "no message".to_owned(), to_text));
        }
    }
}

/// Returns the names of the members of a JSON object, sorted; none of another document.
#[expect(clippy::zero_sized_map_values, reason = "the values are skipped as they are read, however large they are")]
pub fn member_names(document: &[u8]) -> Vec<String> {
    let members: BTreeMap<String, IgnoredAny> = serde_json::from_slice(document).unwrap_or_default();
    members.into_keys().collect()
}

/// Parses a document of an API.
#[inline]
pub(crate) fn parse<'a, I: ApiFormat>(document: &'a [u8], keep: &mut TextSink<'_>) -> Scan<ParsedResponse<'a>> {
    let mut response = ParsedResponse::default();
    let mut scanner = Scanner::new(document)?;
    I::read_document(&mut scanner, &mut response, keep)?;
    scanner.end()?;
    response.find_error();
    Ok(response)
}

/// Reads an object with the members of a response.
#[inline]
pub(crate) fn read_object<'a, I: ApiFormat>(
    scanner: &mut Scanner<'a>,
    response: &mut ParsedResponse<'a>,
    keep: &mut TextSink<'_>,
) -> Scan<()> {
    scanner.object(|scanner, key| read_member::<I>(scanner, key, response, keep))
}

/// Reads a member: those that all APIs have here, the others by the API.
#[inline]
pub(crate) fn read_member<'a, I: ApiFormat>(
    scanner: &mut Scanner<'a>,
    key: &[u8],
    response: &mut ParsedResponse<'a>,
    keep: &mut TextSink<'_>,
) -> Scan<()> {
    match key {
        b"usage" => usage::<I>(scanner, &mut response.usage),
        b"error" => error(scanner, &mut response.error),
        b"object" => {
            response.is_error = optional_string(scanner)?.is_some_and(|object| &*object.decoded() == b"error");
            Ok(())
        }
        b"message" | b"detail" if scanner.peek()? == b'"' => {
            response.message = optional_string(scanner)?.or(response.message);
            Ok(())
        }
        _ => I::read_member(scanner, key, response, keep),
    }
}

pub(crate) fn usage<I: ApiFormat>(scanner: &mut Scanner<'_>, usage: &mut Usage) -> Scan<()> {
    usage.read_details(scanner, InvalidCount::Usage, |usage, scanner, key| {
        match key {
            b"prompt_tokens" => usage.prompt = usage.read(scanner, InvalidCount::Input)?,
            b"completion_tokens" => usage.completion = usage.read(scanner, InvalidCount::Output)?,
            b"prompt_tokens_details" => usage.cached = usage.read_detail(scanner, b"cached_tokens", InvalidCount::Part)?,
            b"completion_tokens_details" => output_details(scanner, usage)?,
            // SGLang sends the count without the details. If there are both, the details have it, in whatever order they come.
            b"reasoning_tokens" => {
                let alone = usage.read(scanner, InvalidCount::Part)?;
                usage.reasoning = usage.reasoning.or(alone);
            }
            _ => I::read_usage_member(scanner, key, usage)?,
        }
        Ok(())
    })
}

/// Reads the counts of parts of the output.
pub(crate) fn output_details(scanner: &mut Scanner<'_>, usage: &mut Usage) -> Scan<()> {
    usage.read_details(scanner, InvalidCount::Part, |usage, scanner, key| {
        match key {
            b"reasoning_tokens" => usage.reasoning = usage.read(scanner, InvalidCount::Part)?.or(usage.reasoning),
            b"accepted_prediction_tokens" => usage.accepted = usage.read(scanner, InvalidCount::Part)?,
            _ => scanner.skip()?,
        }
        Ok(())
    })
}

/// Parses an error: an object with a message, or a text. `null` and `false` are no error.
pub(crate) fn error(scanner: &mut Scanner<'_>, error: &mut Option<String>) -> Scan<()> {
    *error = match scanner.peek()? {
        b'n' | b'f' => {
            scanner.skip()?;
            None
        }
        b'"' => Some(to_text(scanner.string()?)),
        b'{' => {
            let (mut message, mut kind) = (None, None);
            scanner.object(|scanner, key| {
                match key {
                    b"message" => message = optional_string(scanner)?,
                    b"type" => kind = optional_string(scanner)?,
                    _ => scanner.skip()?,
                }
                Ok(())
            })?;
            Some(message.or(kind).map_or_else(|| "no message".to_owned(), to_text))
        }
        _ => Some(String::from_utf8_lossy(scanner.raw()?).into_owned()),
    };
    Ok(())
}

/// Counts the elements of a list as results; a value of another kind is skipped.
pub(crate) fn count_results(scanner: &mut Scanner<'_>, response: &mut ParsedResponse<'_>) -> Scan<()> {
    if scanner.peek()? != b'[' {
        return scanner.skip();
    }
    scanner.array(|scanner| {
        response.results += 1;
        scanner.skip()
    })
}

/// Scans an array; `null` is an empty one.
#[inline]
pub(crate) fn array_or_null<'a>(scanner: &mut Scanner<'a>, element: impl FnMut(&mut Scanner<'a>) -> Scan<()>) -> Scan<()> {
    if scanner.null()? { Ok(()) } else { scanner.array(element) }
}

/// Scans text of a response: a string, or `null` for none.
#[inline]
pub(crate) fn text<'a>(scanner: &mut Scanner<'a>) -> Scan<Text<'a>> {
    match scanner.peek()? {
        b'"' => scanner.string(),
        b'n' => scanner.skip().map(|()| Text::default()),
        _ => Err("the text of the response is not a string"),
    }
}

/// Scans a string; a value of another kind is skipped.
#[inline]
pub(crate) fn optional_string<'a>(scanner: &mut Scanner<'a>) -> Scan<Option<Text<'a>>> {
    if scanner.peek()? == b'"' { scanner.string().map(Some) } else { scanner.skip().map(|()| None) }
}

pub(crate) fn to_text(text: Text<'_>) -> String {
    String::from_utf8_lossy(&text.decoded()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServingApi;

    /// Returns `content/reasoning/tool` and the text in its order.
    fn parse_text(document: &str) -> (String, String) {
        let mut kept = Vec::new();
        let parsed = ServingApi::Chat.parse_response(document.as_bytes(), &mut TextSink::Text(&mut kept)).expect("a document");
        assert_eq!(parsed.bytes(), kept.len());
        (format!("{}/{}/{}", parsed.content, parsed.reasoning, parsed.tool), String::from_utf8(kept).expect("UTF-8"))
    }

    fn counts(document: &str) -> Usage {
        ServingApi::Chat.parse_response(document.as_bytes(), &mut TextSink::Discard).expect("a document").usage
    }

    fn parse_error(document: &str) -> Option<String> {
        ServingApi::Chat.parse_response(document.as_bytes(), &mut TextSink::Discard).expect("a document").error
    }

    #[test]
    fn text_is_told_by_its_kind() {
        let is = |document: &str, sizes: &str, text: &str| {
            assert_eq!(parse_text(document), (sizes.to_owned(), text.to_owned()), "{document}");
        };
        is(r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#, "0/0/0", "");
        is(r#"{"choices":[{"delta":{"content":" caf\u00e9\n"}}]}"#, "7/0/0", " caf\u{e9}\n");
        is(r#"{"choices":[{"text":"ab","index":0}]}"#, "2/0/0", "ab");
        is(r#"{"choices":[{"delta":{"reasoning":"ab"}}]}"#, "0/2/0", "ab");
        is(r#"{"choices":[{"delta":{"content":null,"reasoning_content":"ab"}}]}"#, "0/2/0", "ab");
        is(r#"{"choices":[{"delta":{"reasoning_content":"ab","reasoning":"ab"}}]}"#, "0/2/0", "ab");
        is(r#"{"choices":[{"delta":{"content":"c","reasoning":"","reasoning_content":"r"}}]}"#, "1/1/0", "rc");
        is(
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x","function":{"name":"f","arguments":""}}]}}]}"#,
            "0/0/1",
            "f",
        );
        is(r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{\"a\":"}}]}}]}"#, "0/0/5", "{\"a\":");
        is(r#"{"choices":[{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]}}]}"#, "0/0/8", "f{\"a\":1}");
        is(r#"{"choices":[{"delta":{"refusal":"no"}}]}"#, "2/0/0", "no");
        is(r#"{"choices":[{"message":{"role":"assistant","content":"ab"}},{"message":{"content":"c"}}]}"#, "3/0/0", "abc");
        is(r#"{"choices":[],"usage":null}"#, "0/0/0", "");
        is("{\"choices\":null}", "0/0/0", "");
        is(r#"{"choices":[{"delta":null}]}"#, "0/0/0", "");
    }

    #[test]
    fn content_and_reasoning_are_kept_apart() {
        let document = r#"{"choices":[{"message":{"tool_calls":[{"function":{"name":"f","arguments":"{}"}}],
            "content":"caf\u00e9","reasoning_content":"r","refusal":"no"}}]}"#;
        let (mut content, mut reasoning, mut all) = (Vec::new(), Vec::new(), Vec::new());
        let mut keep = TextSink::Apart { content: &mut content, reasoning: &mut reasoning, all: &mut TextSink::Text(&mut all) };
        ServingApi::Chat.parse_response(document.as_bytes(), &mut keep).expect("a document");
        let [content, reasoning, all] = [content, reasoning, all].map(|text| String::from_utf8(text).expect("UTF-8"));
        assert_eq!([content.as_str(), &reasoning, &all], ["caf\u{e9}no", "r", "f{}rcaf\u{e9}no"]);
    }

    #[test]
    fn only_the_right_places_count() {
        let none = r#"{"content":"x","delta":{"content":"x"},"x":{"choices":[{"delta":{"content":"x"}}]},"choices":[{"logprobs":{"content":[{"token":"x"}]}}]}"#;
        assert_eq!(parse_text(none).0, "0/0/0");
        // A key may contain escapes.
        assert_eq!(parse_text(r#"{"\u0063hoices":[{"delta":{"c\u006fntent":"x"}}]}"#).0, "1/0/0");
    }

    #[test]
    fn counts_are_read_where_they_stand() {
        let all = r#"{"usage":{"completion_tokens_details":{"reasoning_tokens":3,"x":[]},"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":8},"completion_tokens":7,"total_tokens":17}}"#;
        assert_eq!(
            counts(all),
            Usage { prompt: Some(10), completion: Some(7), cached: Some(8), reasoning: Some(3), ..Usage::default() }
        );
        assert_eq!(
            counts(r#"{"usage":{"prompt_tokens":1,"completion_tokens":0,"prompt_tokens_details":null,"reasoning_tokens":2}}"#),
            Usage { prompt: Some(1), completion: Some(0), reasoning: Some(2), ..Usage::default() }
        );
        assert_eq!(counts(r#"{"prompt_tokens":1}"#), Usage::default());
        for (details, expected) in [("3", 3), ("null", 2)] {
            let details = format!(r#""completion_tokens_details":{{"reasoning_tokens":{details}}}"#);
            for both in [format!(r#"{details},"reasoning_tokens":2"#), format!(r#""reasoning_tokens":2,{details}"#)] {
                assert_eq!(counts(&format!(r#"{{"usage":{{{both}}}}}"#)).reasoning, Some(expected), "{both}");
            }
        }
    }

    #[test]
    fn a_count_that_is_none_is_noted_and_the_others_are_read() {
        let is = |usage: &str, expected: Usage| assert_eq!(counts(&format!(r#"{{"usage":{usage}}}"#)), expected, "{usage}");
        let invalid = |of| Usage { invalid: Some(of), ..Usage::default() };
        let prompt = |usage| Usage { prompt: Some(3), ..usage };
        let claimed = |claimed| Usage { claimed: Some(claimed), ..invalid(InvalidCount::Output) };
        is(r#"{"prompt_tokens":3,"completion_tokens":-7}"#, prompt(claimed(-7)));
        is(r#"{"completion_tokens":5000000000,"prompt_tokens":3}"#, prompt(claimed(5_000_000_000)));
        for other in ["1.5", "\"7\"", "[7]", "{}", "true"] {
            is(&format!(r#"{{"prompt_tokens":3,"completion_tokens":{other}}}"#), prompt(invalid(InvalidCount::Output)));
        }
        is(r#"{"prompt_tokens":"3"}"#, invalid(InvalidCount::Input));
        is(r#"{"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":-1}}"#, prompt(invalid(InvalidCount::Part)));
        is(r#"{"prompt_tokens":3,"completion_tokens_details":[1]}"#, prompt(invalid(InvalidCount::Part)));
        for other in ["7", "\"7\"", "[]", "false"] {
            is(other, invalid(InvalidCount::Usage));
        }
        is("null", Usage::default());
        is(r#"{"prompt_tokens":-1,"completion_tokens":-1,"reasoning_tokens":-1}"#, claimed(-1));
    }

    #[test]
    fn errors_come_in_several_shapes() {
        assert_eq!(
            parse_error(r#"{"error":{"message":"out of \"memory\"","type":"x","code":500}}"#),
            Some("out of \"memory\"".into())
        );
        assert_eq!(parse_error(r#"{"error":"overloaded","error_type":"overloaded"}"#), Some("overloaded".into()));
        assert_eq!(parse_error(r#"{"object":"error","message":"too long","code":400}"#), Some("too long".into()));
        assert_eq!(parse_error(r#"{"message":"too long","object":"error"}"#), Some("too long".into()));
        assert_eq!(parse_error(r#"{"error":{"type":"x"}}"#), Some("x".into()));
        assert_eq!(parse_error(r#"{"error":{}}"#), Some("no message".into()));
        assert_eq!(parse_error(r#"{"error":null,"choices":[]}"#), None);
        assert_eq!(parse_error(r#"{"object":"chat.completion.chunk"}"#), None);
    }

    #[test]
    fn other_documents_are_refused() {
        for document in [
            "",
            "5",
            "[]",
            "null",
            "{",
            "{}x",
            r#"{"choices":{}}"#,
            r#"{"choices":[{"delta":{"content":5}}]}"#,
            r#"{"choices":[{"delta":{"content":["x"]}}]}"#,
        ] {
            assert!(ServingApi::Chat.parse_response(document.as_bytes(), &mut TextSink::Discard).is_err(), "{document}");
        }
    }
}
