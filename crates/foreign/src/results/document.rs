//! The documents of a file: one, or one a line, so that a file of many requests is never held whole as a tree.

use serde_json::Value;

use super::error::ResultsError;
use crate::repeated_key;
use crate::value::shown_name;

/// The largest document. A tree takes about ten times as much memory.
pub(crate) const MAX_DOCUMENT_BYTES: usize = 64 << 20;

/// The documents of a JSON file.
#[derive(Debug)]
pub(crate) enum Documents<'a> {
    /// The file is one document.
    One(Value, &'a [u8]),
    /// Each line of the file is one, of which the first is parsed.
    Lines(Value, &'a [u8]),
}

impl<'a> Documents<'a> {
    /// Parses the first document of a JSON file; `None` if the file is none.
    ///
    /// # Errors
    /// Fails if the document is too large, before it is parsed.
    pub(crate) fn open(file: &str, bytes: &'a [u8]) -> Result<Option<Self>, ResultsError> {
        if !bytes.trim_ascii_start().starts_with(b"{") && !bytes.trim_ascii_start().starts_with(b"[") {
            return Ok(None);
        }
        let line = first_line(bytes);
        check_size(file, line)?;
        if let Ok(first) = parse(line) {
            return Ok(Some(Self::Lines(first, bytes)));
        }
        check_size(file, bytes)?;
        Ok(parse(bytes).ok().map(|document| Self::One(document, bytes)))
    }

    /// Returns the first document.
    pub(crate) fn first(&self) -> &Value {
        let (Self::One(first, _) | Self::Lines(first, _)) = self;
        first
    }

    /// Calls `visit` with the number, from 1, of each document and with the document.
    ///
    /// # Errors
    /// Fails if a document is damaged or too large, if an object of it has a key twice, and with the first error of `visit`.
    pub(crate) fn for_each(
        self,
        file: &str,
        mut visit: impl FnMut(u64, Value) -> Result<(), ResultsError>,
    ) -> Result<(), ResultsError> {
        match self {
            Self::One(document, bytes) => {
                check_keys(file, 1, bytes)?;
                visit(1, document)
            }
            Self::Lines(first, bytes) => {
                let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
                let mut parsed = Some(first);
                for (number, line) in (1..).zip(lines) {
                    check_size(file, line)?;
                    let document = match parsed.take() {
                        Some(first) => first,
                        None => parse(line).map_err(|error| damaged(file, number, &error))?,
                    };
                    check_keys(file, number, line)?;
                    visit(number, document)?;
                }
                Ok(())
            }
        }
    }
}

/// The most objects of a document: each takes about a kilobyte as a part of a tree, however short it is in the file.
const MAX_OBJECTS: usize = 1_000_000;

fn check_size(file: &str, document: &[u8]) -> Result<(), ResultsError> {
    if document.len() > MAX_DOCUMENT_BYTES {
        return Err(too_large(file));
    }
    // Braces in texts count, too: a scan that tells them apart would cost as much as the parser.
    if has_more_objects(document, MAX_OBJECTS) {
        return Err(ResultsError::TooLarge(format!("{MAX_OBJECTS} objects in one document of `{file}`")));
    }
    Ok(())
}

/// Returns the error of a file with a document that is too large.
pub(super) fn too_large(file: &str) -> ResultsError {
    ResultsError::TooLarge(format!("{} MiB in one document of `{file}`", MAX_DOCUMENT_BYTES >> 20))
}

/// Returns true if a document may have more objects than this many, before it is parsed.
pub(super) fn has_more_objects(document: &[u8], most: usize) -> bool {
    document.iter().filter(|byte| **byte == b'{').take(most + 1).count() > most
}

fn check_keys(file: &str, number: u64, document: &[u8]) -> Result<(), ResultsError> {
    let twice = |key: String| ResultsError::DuplicateKey { file: file.to_owned(), document: number, key: shown_name(&key) };
    repeated_key::find(document).map_or(Ok(()), |key| Err(twice(key)))
}

/// Parses a document. Programs in Python write `NaN` and `Infinity`, which JSON does not have: they become texts, which are no numbers where
/// one is expected.
fn parse(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_slice(bytes).or_else(|error| match spell_out(bytes) {
        Some(spelled) => serde_json::from_slice(&spelled),
        None => Err(error),
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

/// Returns the problem of a file that is JSON by its name and not by its content.
pub(super) fn broken_json(file: &str, bytes: &[u8]) -> Option<ResultsError> {
    let is_named_json = [".json", ".jsonl"].iter().any(|end| file.ends_with(end));
    let is_json = !matches!(Documents::open(file, bytes), Ok(None));
    if is_json || !is_named_json { None } else { Some(damaged(file, 1, &parse(bytes).err()?)) }
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
        let Some(documents) = Documents::open("f", bytes)? else { return Ok(0) };
        documents.for_each("f", |number, _| {
            count = number;
            Ok(())
        })?;
        Ok(count)
    }

    #[test]
    fn words_for_what_is_no_number_become_texts() {
        let text = br#"{"a": NaN, "b": [-Infinity, Infinity], "c": "NaN \" NaN", "d": "\\\\"}"#;
        let documents = Documents::open("f", text).expect("small").expect("a document");
        assert_eq!(
            *documents.first(),
            serde_json::json!({"a": "NaN", "b": ["-Infinity", "Infinity"], "c": "NaN \" NaN", "d": "\\\\"})
        );
        assert_eq!(spell_out(br#"{"c": "NaN"}"#), None);
    }

    #[test]
    fn a_document_of_many_small_objects_is_refused_before_it_is_parsed() {
        let objects = |count: usize| format!("[{}{{}}]", "{},".repeat(count - 1));
        assert_eq!(count(objects(MAX_OBJECTS).as_bytes()), Ok(1));
        let refused = count(objects(MAX_OBJECTS + 1).as_bytes()).expect_err("refused").to_string();
        assert_eq!(refused, "more than 1000000 objects in one document of `f`");
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
        }
        for text in ["7", "", "text", "{", "{\n\"a\": x}"] {
            assert_eq!(count(text.as_bytes()), Ok(0), "{text}");
        }
        let damaged = |text: &str| count(text.as_bytes()).expect_err("damaged").to_string();
        assert_eq!(damaged("{}\n{"), "`f` is damaged in document 2: it ends too early, at line 1, column 1");
        assert_eq!(damaged("{}\n{\"a\": sk-canary}"), "`f` is damaged in document 2: it is not JSON at line 1, column 7");
    }

    /// Neither document is JSON, so the error shows that neither was parsed.
    #[test]
    fn a_document_above_the_limit_is_refused_before_it_is_parsed() {
        let large = format!("{{{}", "x".repeat(MAX_DOCUMENT_BYTES));
        for text in [large.clone(), format!("{{\n{large}"), format!("{{}}\n{large}")] {
            let refused = count(text.as_bytes()).expect_err("too large");
            assert_eq!(refused.to_string(), "more than 64 MiB in one document of `f`");
        }
        assert_eq!(count(format!("text {large}").as_bytes()), Ok(0), "a text is no document");
    }
}
