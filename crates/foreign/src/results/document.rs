//! The documents of a file: one, or one a line, so that a file of many requests is never held whole as a tree.

use serde_json::Value;

use super::error::ResultsError;
use crate::repeated_key;
use crate::value::shown_name;

/// The largest document. A tree takes about ten times as much memory.
pub(crate) const MAX_DOCUMENT_BYTES: usize = 64 << 20;

/// Returns the first document of a JSON file; `None` if the file is none.
pub(crate) fn first(bytes: &[u8]) -> Option<Value> {
    let is_document = |value: &Value| value.is_object() || value.is_array();
    parse(first_line(bytes)).or_else(|_| parse(bytes)).ok().filter(is_document)
}

/// Calls `visit` with the number, from 1, of each document of a JSON file and with the document.
///
/// # Errors
/// Fails if a document is damaged or too large, if an object of it has a key twice, and with the first error of `visit`.
pub(crate) fn for_each(
    file: &str,
    bytes: &[u8],
    mut visit: impl FnMut(u64, &Value) -> Result<(), ResultsError>,
) -> Result<(), ResultsError> {
    let is_lines = parse(first_line(bytes)).is_ok();
    let whole = (!is_lines).then_some(bytes);
    let lines = is_lines.then(|| bytes.split(|byte| *byte == b'\n')).into_iter().flatten();
    let documents = lines.chain(whole).filter(|line| !line.trim_ascii().is_empty());
    for (number, document) in (1..).zip(documents) {
        if document.len() > MAX_DOCUMENT_BYTES {
            return Err(ResultsError::TooLarge(format!("{} MiB in one document of `{file}`", MAX_DOCUMENT_BYTES >> 20)));
        }
        let parsed = parse(document).map_err(|error| damaged(file, number, &error))?;
        if let Some(key) = repeated_key::find(document) {
            return Err(ResultsError::DuplicateKey { file: file.to_owned(), document: number, key: shown_name(&key) });
        }
        visit(number, &parsed)?;
    }
    Ok(())
}

/// Parses a document. Programs in Python write `NaN` and `Infinity`, which JSON does not have: they become texts, which are no numbers where
/// one is expected.
fn parse(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_slice(bytes).or_else(|error| match spell_out(bytes) {
        Some(spelled) if bytes.len() <= MAX_DOCUMENT_BYTES => serde_json::from_slice(&spelled),
        _ => Err(error),
    })
}

/// Returns a document with each `NaN` and `Infinity` outside of texts in quotes; `None` without any.
fn spell_out(bytes: &[u8]) -> Option<Vec<u8>> {
    const WORDS: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];
    let (mut spelled, mut rest, mut in_text, mut found) = (Vec::with_capacity(bytes.len()), bytes, false, false);
    while let Some((first, after)) = rest.split_first() {
        let word = WORDS.iter().find(|word| !in_text && rest.starts_with(word));
        if let Some(word) = word {
            spelled.push(b'"');
            spelled.extend_from_slice(word);
            spelled.push(b'"');
            rest = rest.get(word.len()..).unwrap_or_default();
            found = true;
            continue;
        }
        spelled.push(*first);
        rest = after;
        match first {
            b'"' => in_text = !in_text,
            b'\\' if in_text => {
                spelled.extend(rest.first());
                rest = rest.get(1..).unwrap_or_default();
            }
            _ => {}
        }
    }
    found.then_some(spelled)
}

fn damaged(file: &str, document: u64, error: &serde_json::Error) -> ResultsError {
    let place = format!("line {}, column {}", error.line(), error.column());
    let what = if error.is_eof() { format!("it ends too early, at {place}") } else { format!("it is not JSON at {place}") };
    ResultsError::Damaged { file: file.to_owned(), document, what }
}

fn first_line(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii_start().split(|byte| *byte == b'\n').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(bytes: &[u8]) -> Result<u64, ResultsError> {
        let mut count = 0;
        for_each("f", bytes, |number, _| {
            count = number;
            Ok(())
        })?;
        Ok(count)
    }

    #[test]
    fn words_for_what_is_no_number_become_texts() {
        let parsed = first(br#"{"a": NaN, "b": [-Infinity, Infinity], "c": "NaN \" NaN", "d": "\\\\"}"#).expect("a document");
        assert_eq!(parsed, serde_json::json!({"a": "NaN", "b": ["-Infinity", "Infinity"], "c": "NaN \" NaN", "d": "\\\\"}));
        assert_eq!(spell_out(br#"{"c": "NaN"}"#), None);
    }

    #[test]
    fn a_key_that_is_twice_in_one_object_is_refused_by_name() {
        let refused = |text: &str| count(text.as_bytes()).expect_err("refused").to_string();
        assert_eq!(refused("{}\n{\"mean\": 1, \"mean\": 2}"), "`f` has the key `mean` twice in one object of document 2");
        assert_eq!(refused(r#"{"x": [{"m": NaN, "m": 2}]}"#), "`f` has the key `m` twice in one object of document 1");
        let key = "sk-abcdefghijklmnopqrstuvwx0123";
        let hidden = refused(&format!(r#"{{"{key}": 1, "{key}": 2}}"#));
        assert_eq!(hidden, "`f` has the key `(a name that is not shown)` twice in one object of document 1");
    }

    #[test]
    fn a_file_is_one_document_or_one_a_line() {
        for (text, documents) in [("{\n}\n", 1), ("{}\n\n{}\n", 2), ("[1]", 1), ("  {}", 1)] {
            assert_eq!(count(text.as_bytes()), Ok(documents), "{text}");
            assert!(first(text.as_bytes()).is_some());
        }
        assert_eq!((first(b"7"), first(b""), first(b"text")), (None, None, None));
        let damaged = |text: &str| count(text.as_bytes()).expect_err("damaged").to_string();
        assert_eq!(damaged("{}\n{"), "`f` is damaged in document 2: it ends too early, at line 1, column 1");
        assert_eq!(damaged("{\n\"a\": sk-canary}"), "`f` is damaged in document 1: it is not JSON at line 2, column 6");
    }
}
