//! Responses with generated text, which chats and completions have: a list of choices, each a delta, a message or a text.
//!
//! Some servers respond to one of the two APIs in the format of the other, so both read all of them.

use crate::json::{Scan, Scanner, Text};
use crate::response::{ParsedResponse, TextKind, TextSink, array_or_null, optional_string, text};

/// Reads the choices; any other member is skipped.
#[inline]
pub(crate) fn read_member<'a>(
    scanner: &mut Scanner<'a>,
    key: &[u8],
    response: &mut ParsedResponse<'a>,
    keep: &mut TextSink<'_>,
) -> Scan<()> {
    if key != b"choices" {
        return scanner.skip();
    }
    response.has_choices = true;
    array_or_null(scanner, |scanner| choice(scanner, response, keep))
}

fn choice<'a>(scanner: &mut Scanner<'a>, response: &mut ParsedResponse<'a>, keep: &mut TextSink<'_>) -> Scan<()> {
    scanner.object(|scanner, key| match key {
        b"delta" | b"message" => delta(scanner, response, keep),
        b"text" => {
            let text = text(scanner)?;
            response.content += text.len();
            keep.text(TextKind::Content, text);
            Ok(())
        }
        b"finish_reason" => {
            let reason =
                if scanner.peek()? == b'{' { finish(scanner, &mut response.finish_message)? } else { optional_string(scanner)? };
            response.finish = reason.filter(|reason| !reason.is_empty()).or(response.finish);
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
fn delta<'a>(scanner: &mut Scanner<'a>, response: &mut ParsedResponse<'a>, keep: &mut TextSink<'_>) -> Scan<()> {
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
    keep.text(TextKind::Reasoning, reasoning);
    keep.text(TextKind::Content, content);
    keep.text(TextKind::Content, refusal);
    response.reasoning += reasoning.len();
    response.content += content.len() + refusal.len();
    response.tool += tool;
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
        keep.text(TextKind::Tool, text);
        Ok(())
    })
}
