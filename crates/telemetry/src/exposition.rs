//! A parser of Prometheus's text format, line by line.
//!
//! No library fits: `prometheus-parse` does not accept a colon in a name, which every counter of vLLM and SGLang has;
//! `openmetrics-parser` is LGPL, refuses a whole response for one odd line and can panic; the others are unmaintained first
//! versions. A malformed line is reported and the next one is read, so one odd metric of a server does not hide its counters. The
//! caller bounds the size of the text.

use std::borrow::Cow;

/// One sample of one metric.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample<'a> {
    /// The metric, with its suffix if it has one (`_bucket`, `_sum`, `_count`).
    pub(crate) name: Cow<'a, str>,
    /// The labels, in their order, unescaped.
    pub(crate) labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// The value; NaN and infinities are valid values.
    pub(crate) value: f64,
}

/// A line that is neither a sample nor a comment nor blank.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is no sample: {what}")]
pub(crate) struct Malformed {
    /// Its number, from 1.
    pub(crate) line: usize,
    /// The error.
    pub(crate) what: &'static str,
}

/// Parses the samples of a scrape, line by line. Comments, help texts and types are skipped, and so are timestamps and exemplars.
pub(crate) fn samples(text: &str) -> impl Iterator<Item = Result<Sample<'_>, Malformed>> {
    let lines = text.lines().map(trimmed).enumerate();
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines.map(|(index, line)| sample(line).map_err(|what| Malformed { line: index + 1, what }))
}

fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r'])
}

fn sample(line: &str) -> Result<Sample<'_>, &'static str> {
    let (name, rest) = line.split_at(line.find(|c: char| !is_name_char(c)).unwrap_or(line.len()));
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err("a name begins with a digit");
    }
    let rest = trimmed(rest);
    let (quoted, labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => braces(inside)?,
        None => (None, Vec::new(), rest),
    };
    let name = match (name, quoted) {
        ("", Some(quoted)) => quoted,
        ("", None) => return Err("it has no name"),
        (_, Some(_)) => return Err("it has two names"),
        (name, None) => Cow::Borrowed(name),
    };
    Ok(Sample { name, labels, value: value(rest)? })
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// The quoted name of a metric, the labels, and the rest after the closing brace.
type Braces<'a> = (Option<Cow<'a, str>>, Vec<(Cow<'a, str>, Cow<'a, str>)>, &'a str);

/// Parses the content of braces. A quoted name without a value is the metric's (Prometheus 3 writes names that are not plain in
/// this way).
fn braces(mut rest: &str) -> Result<Braces<'_>, &'static str> {
    let (mut name, mut labels) = (None, Vec::new());
    loop {
        rest = trimmed(rest);
        if let Some(after) = rest.strip_prefix('}') {
            return Ok((name, labels, trimmed(after)));
        }
        let (key, after) = key(rest)?;
        let after = trimmed(after);
        rest = match (after.strip_prefix('='), rest.starts_with('"') && name.is_none() && labels.is_empty()) {
            (Some(after), _) => {
                let text = trimmed(after).strip_prefix('"').ok_or("a label's value has no quotes")?;
                let (value, after) = quoted(text)?;
                labels.push((key, value));
                after
            }
            (None, true) => {
                name = Some(key);
                after
            }
            (None, false) => return Err("a label has no value"),
        };
        rest = trimmed(rest);
        match rest.strip_prefix(',') {
            Some(after) => rest = after,
            None if rest.starts_with('}') => {}
            None => return Err("labels are not parted by commas"),
        }
    }
}

fn key(text: &str) -> Result<(Cow<'_, str>, &str), &'static str> {
    if let Some(inside) = text.strip_prefix('"') {
        return quoted(inside);
    }
    let (key, rest) = text.split_at(text.find(|c: char| !is_name_char(c)).unwrap_or(text.len()));
    if key.is_empty() { Err("the braces are not closed, or a label has no name") } else { Ok((Cow::Borrowed(key), rest)) }
}

/// Parses the text up to the closing quote, unescaped; returns it with the rest.
fn quoted(text: &str) -> Result<(Cow<'_, str>, &str), &'static str> {
    let mut end = None;
    let mut escaped = false;
    let mut has_escapes = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => (escaped, has_escapes) = (true, true),
            b'"' => {
                end = Some(at);
                break;
            }
            _ => {}
        }
    }
    let end = end.ok_or("a quote is not closed")?;
    let (inside, rest) = text.split_at(end);
    let inside = if has_escapes { Cow::Owned(unescaped(inside)?) } else { Cow::Borrowed(inside) };
    Ok((inside, rest.get(1..).unwrap_or_default()))
}

fn unescaped(text: &str) -> Result<String, &'static str> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some(c @ ('\\' | '"')) => c,
                _ => return Err("an escape is none of \\\\, \\\" and \\n"),
            },
            c => c,
        });
    }
    Ok(out)
}

/// Parses the value; a timestamp and an exemplar may follow it.
fn value(rest: &str) -> Result<f64, &'static str> {
    let mut words = rest.split([' ', '\t']).filter(|word| !word.is_empty());
    let value = words.next().and_then(|word| word.parse().ok()).ok_or("its value is no number")?;
    match words.next() {
        None => Ok(value),
        Some(word) if word.starts_with('#') => Ok(value),
        Some(word) if word.parse::<f64>().is_err() => Err("its timestamp is no number"),
        Some(_) => match words.next() {
            Some(word) if !word.starts_with('#') => Err("something follows its timestamp"),
            _ => Ok(value),
        },
    }
}

#[cfg(test)]
mod tests;
