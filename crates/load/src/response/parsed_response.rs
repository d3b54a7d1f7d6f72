//! Parses the JSON documents of a response: text by kind, token counts, finish reason, errors.

use sha2::{Digest as _, Sha256};

use super::json::{Scan, Scanner, Text};

/// The content of one document. Sizes are bytes of the decoded text.
#[derive(Debug, Default)]
pub(crate) struct ParsedResponse<'a> {
    /// Bytes of content.
    pub(crate) content: usize,
    /// Bytes of reasoning.
    pub(crate) reasoning: usize,
    /// Bytes of the names and arguments of tool calls.
    pub(crate) tool: usize,
    /// The token counts, if it has any.
    pub(crate) usage: Usage,
    /// The finish reason, if it has one.
    pub(crate) finish: Option<Text<'a>>,
    /// The message of a finish reason that is an object (SGLang).
    pub(crate) finish_message: Option<Text<'a>>,
    /// True if it has a list of choices.
    has_choices: bool,
    /// The error message, if it holds an error.
    pub(crate) error: Option<String>,
    /// The number of embeddings.
    pub(crate) embeddings: usize,
    /// True if its `object` is `error`.
    is_error: bool,
    /// The `message` or `detail` of the document.
    message: Option<Text<'a>>,
}

/// Token counts, by the endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) prompt: Option<u32>,
    pub(crate) completion: Option<u32>,
    pub(crate) cached: Option<u32>,
    pub(crate) reasoning: Option<u32>,
}

/// The destination of the text.
pub(crate) enum TextSink<'k> {
    Discard,
    Digest(&'k mut Sha256),
    Text(&'k mut Vec<u8>),
}

impl TextSink<'_> {
    #[inline]
    fn text(&mut self, text: Text<'_>) {
        match self {
            Self::Discard => {}
            Self::Digest(hasher) => text.pieces(|piece| hasher.update(piece)),
            Self::Text(kept) => text.pieces(|piece| kept.extend_from_slice(piece)),
        }
    }
}

impl ParsedResponse<'_> {
    /// Returns the bytes of text of all kinds.
    pub(crate) fn bytes(&self) -> usize {
        self.content + self.reasoning + self.tool
    }
}

/// Parses a document. A document that is not a JSON object, and text that is not a string, are errors; unknown keys are validated
/// and skipped.
#[inline]
pub(crate) fn parse_document<'a>(document: &'a [u8], keep: &mut TextSink<'_>) -> Scan<ParsedResponse<'a>> {
    let mut said = ParsedResponse::default();
    let mut scanner = Scanner::new(document)?;
    scanner.object(|scanner, key| match key {
        b"choices" => {
            said.has_choices = true;
            array_or_null(scanner, |scanner| choice(scanner, &mut said, keep))
        }
        b"usage" => usage(scanner, &mut said.usage),
        b"error" => error(scanner, &mut said.error),
        b"data" => embeddings(scanner, &mut said.embeddings),
        b"object" => {
            said.is_error = optional_string(scanner)?.is_some_and(|object| &*object.decoded() == b"error");
            Ok(())
        }
        b"message" | b"detail" => {
            said.message = optional_string(scanner)?.or(said.message);
            Ok(())
        }
        _ => scanner.skip(),
    })?;
    scanner.end()?;
    // A message, or FastAPI's `detail`, in place of choices or embeddings is an error, too.
    let only_message = said.message.is_some() && !said.has_choices && said.embeddings == 0;
    if (said.is_error || only_message) && said.error.is_none() {
        said.error = Some(said.message.map_or_else(|| "no message".to_owned(), to_text));
    }
    Ok(said)
}

/// Returns the message of an error's body, if it is JSON with a message.
pub(crate) fn error_message(document: &[u8]) -> Option<String> {
    let said = parse_document(document, &mut TextSink::Discard).ok()?;
    said.error.or_else(|| said.message.map(to_text))
}

fn choice<'a>(scanner: &mut Scanner<'a>, said: &mut ParsedResponse<'a>, keep: &mut TextSink<'_>) -> Scan<()> {
    scanner.object(|scanner, key| match key {
        b"delta" | b"message" => delta(scanner, said, keep),
        b"text" => {
            let text = text(scanner)?;
            said.content += text.len();
            keep.text(text);
            Ok(())
        }
        b"finish_reason" => {
            let reason =
                if scanner.peek()? == b'{' { finish(scanner, &mut said.finish_message)? } else { optional_string(scanner)? };
            said.finish = reason.filter(|reason| !reason.is_empty()).or(said.finish);
            Ok(())
        }
        _ => scanner.skip(),
    })
}

/// Parses a finish reason that is an object: its type and its message.
fn finish<'a>(scanner: &mut Scanner<'a>, message: &mut Option<Text<'a>>) -> Scan<Option<Text<'a>>> {
    let mut kind = None;
    scanner.object(|scanner, key| {
        match key {
            b"type" => kind = optional_string(scanner)?,
            b"message" => *message = optional_string(scanner)?,
            _ => scanner.skip()?,
        }
        Ok(())
    })?;
    Ok(kind)
}

/// Parses the delta of a stream, or the message of a complete response. A provider may send its reasoning under either of two
/// names, or under both: it is counted once.
fn delta<'a>(scanner: &mut Scanner<'a>, said: &mut ParsedResponse<'a>, keep: &mut TextSink<'_>) -> Scan<()> {
    if scanner.null()? {
        return Ok(());
    }
    let (mut content, mut refusal) = (Text::default(), Text::default());
    let (mut reasoning, mut reasoning_content) = (Text::default(), Text::default());
    let mut tool = 0;
    scanner.object(|scanner, key| {
        match key {
            b"content" => content = text(scanner)?,
            b"refusal" => refusal = text(scanner)?,
            b"reasoning" => reasoning = text(scanner)?,
            b"reasoning_content" => reasoning_content = text(scanner)?,
            b"tool_calls" => array_or_null(scanner, |scanner| tool_call(scanner, &mut tool, keep))?,
            b"function_call" => function(scanner, &mut tool, keep)?,
            _ => scanner.skip()?,
        }
        Ok(())
    })?;
    let reasoning = if reasoning.is_empty() { reasoning_content } else { reasoning };
    for text in [reasoning, content, refusal] {
        keep.text(text);
    }
    said.reasoning += reasoning.len();
    said.content += content.len() + refusal.len();
    said.tool += tool;
    Ok(())
}

fn tool_call(scanner: &mut Scanner<'_>, tool: &mut usize, keep: &mut TextSink<'_>) -> Scan<()> {
    scanner.object(|scanner, key| if key == b"function" { function(scanner, tool, keep) } else { scanner.skip() })
}

/// Parses a function call: the model writes both its name and its arguments. Some servers send the arguments as JSON rather than
/// as text of it.
fn function(scanner: &mut Scanner<'_>, tool: &mut usize, keep: &mut TextSink<'_>) -> Scan<()> {
    if scanner.null()? {
        return Ok(());
    }
    scanner.object(|scanner, key| {
        let text = match key {
            b"arguments" if scanner.peek()? == b'{' => Text::verbatim(scanner.raw()?),
            b"name" | b"arguments" => text(scanner)?,
            _ => return scanner.skip(),
        };
        *tool += text.len();
        keep.text(text);
        Ok(())
    })
}

fn usage(scanner: &mut Scanner<'_>, usage: &mut Usage) -> Scan<()> {
    if scanner.null()? {
        return Ok(());
    }
    scanner.object(|scanner, key| {
        match key {
            b"prompt_tokens" => usage.prompt = scanner.count()?,
            b"completion_tokens" => usage.completion = scanner.count()?,
            b"prompt_tokens_details" => detail(scanner, b"cached_tokens", &mut usage.cached)?,
            b"completion_tokens_details" => detail(scanner, b"reasoning_tokens", &mut usage.reasoning)?,
            // SGLang sends the count without the details.
            b"reasoning_tokens" => usage.reasoning = scanner.count()?.or(usage.reasoning),
            _ => scanner.skip()?,
        }
        Ok(())
    })
}

fn detail(scanner: &mut Scanner<'_>, name: &[u8], count: &mut Option<u32>) -> Scan<()> {
    if scanner.null()? {
        return Ok(());
    }
    scanner.object(|scanner, key| {
        if key == name {
            *count = scanner.count()?;
            return Ok(());
        }
        scanner.skip()
    })
}

/// Parses an error: an object with a message, or a text. `null` and `false` are no error.
fn error(scanner: &mut Scanner<'_>, error: &mut Option<String>) -> Scan<()> {
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

fn embeddings(scanner: &mut Scanner<'_>, count: &mut usize) -> Scan<()> {
    if scanner.peek()? != b'[' {
        return scanner.skip();
    }
    scanner.array(|scanner| {
        *count += 1;
        scanner.skip()
    })
}

/// Scans an array; `null` is an empty one.
#[inline]
fn array_or_null<'a>(scanner: &mut Scanner<'a>, element: impl FnMut(&mut Scanner<'a>) -> Scan<()>) -> Scan<()> {
    if scanner.null()? { Ok(()) } else { scanner.array(element) }
}

/// Scans text of a response: a string, or `null` for none.
#[inline]
fn text<'a>(scanner: &mut Scanner<'a>) -> Scan<Text<'a>> {
    match scanner.peek()? {
        b'"' => scanner.string(),
        b'n' => scanner.skip().map(|()| Text::default()),
        _ => Err("text of the answer is no string"),
    }
}

/// Scans a string; a value of another kind is skipped.
#[inline]
fn optional_string<'a>(scanner: &mut Scanner<'a>) -> Scan<Option<Text<'a>>> {
    if scanner.peek()? == b'"' { scanner.string().map(Some) } else { scanner.skip().map(|()| None) }
}

fn to_text(text: Text<'_>) -> String {
    String::from_utf8_lossy(&text.decoded()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `content/reasoning/tool` and the text in its order.
    fn parse_text(document: &str) -> (String, String) {
        let mut kept = Vec::new();
        let said = parse_document(document.as_bytes(), &mut TextSink::Text(&mut kept)).expect("a document");
        assert_eq!(said.bytes(), kept.len());
        (format!("{}/{}/{}", said.content, said.reasoning, said.tool), String::from_utf8(kept).expect("UTF-8"))
    }

    fn counts(document: &str) -> Usage {
        parse_document(document.as_bytes(), &mut TextSink::Discard).expect("a document").usage
    }

    fn parse_error(document: &str) -> Option<String> {
        parse_document(document.as_bytes(), &mut TextSink::Discard).expect("a document").error
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
    fn only_the_right_places_count() {
        let none = r#"{"content":"x","delta":{"content":"x"},"x":{"choices":[{"delta":{"content":"x"}}]},"choices":[{"logprobs":{"content":[{"token":"x"}]}}]}"#;
        assert_eq!(parse_text(none).0, "0/0/0");
        // A key may contain escapes.
        assert_eq!(parse_text(r#"{"\u0063hoices":[{"delta":{"c\u006fntent":"x"}}]}"#).0, "1/0/0");
    }

    #[test]
    fn counts_are_read_where_they_stand() {
        let all = r#"{"usage":{"completion_tokens_details":{"reasoning_tokens":3,"x":[]},"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":8},"completion_tokens":7,"total_tokens":17}}"#;
        assert_eq!(counts(all), Usage { prompt: Some(10), completion: Some(7), cached: Some(8), reasoning: Some(3) });
        assert_eq!(
            counts(r#"{"usage":{"prompt_tokens":1,"completion_tokens":0,"prompt_tokens_details":null,"reasoning_tokens":2}}"#),
            Usage { prompt: Some(1), completion: Some(0), cached: None, reasoning: Some(2) }
        );
        assert_eq!(counts(r#"{"prompt_tokens":1}"#), Usage::default());
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
    fn what_is_no_answer_is_refused() {
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
            assert!(parse_document(document.as_bytes(), &mut TextSink::Discard).is_err(), "{document}");
        }
    }

    #[test]
    fn embeddings_are_counted() {
        let said = parse_document(
            br#"{"object":"list","data":[{"embedding":[0.1,-2e-3],"index":0},{"embedding":"AAAA"}],"usage":{"prompt_tokens":4}}"#,
            &mut TextSink::Discard,
        );
        let said = said.expect("a document");
        assert_eq!((said.embeddings, said.usage.prompt), (2, Some(4)));
    }
}
