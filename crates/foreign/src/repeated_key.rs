//! Keys that one object of a JSON document has twice: general readers keep the last value and hide the first.

use std::borrow::Cow;
use std::collections::HashSet;

/// Returns the first key that an object of a document has twice. The document is one that a parser has accepted.
pub(crate) fn find(document: &[u8]) -> Option<String> {
    let (mut open, mut rest) = (Vec::new(), document);
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'{' | b'[' => open.push(HashSet::new()),
            b'}' | b']' => {
                open.pop();
            }
            b'"' => {
                let (text, behind) = split_text(after);
                rest = behind;
                // Only a key has a colon behind it.
                if behind.trim_ascii_start().starts_with(b":")
                    && let Some(keys) = open.last_mut()
                    && !keys.insert(decoded(text))
                {
                    return Some(String::from_utf8_lossy(&decoded(text)).into_owned());
                }
            }
            _ => {}
        }
    }
    None
}

/// Splits what follows an opening quote into the text up to its closing quote and what is behind that.
fn split_text(bytes: &[u8]) -> (&[u8], &[u8]) {
    let mut is_escaped = false;
    let end = bytes.iter().position(|byte| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    });
    let text = end.and_then(|end| bytes.get(..end)).unwrap_or(bytes);
    (text, end.and_then(|end| bytes.get(end + 1..)).unwrap_or_default())
}

/// Returns a text without its escapes: two spellings of one key are one key.
fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'\\') {
        return Cow::Borrowed(text);
    }
    let quoted = [b"\"", text, b"\""].concat();
    serde_json::from_slice::<String>(&quoted).map_or(Cow::Borrowed(text), |plain| Cow::Owned(plain.into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_twice_in_one_object_is_found() {
        for twice in [
            r#"{"a": 1, "a": 1}"#,
            r#"{"x": [{"a" : 1, "b": {}, "a": 2}]}"#,
            r#"{"b": {"c": 1}, "a": [], "a": 1}"#,
            r#"{"a": 1, "\u0061": 2}"#,
            r#"{"q": "\\", "a": "\"", "a": 2}"#,
        ] {
            assert_eq!(find(twice.as_bytes()).as_deref(), Some("a"), "{twice}");
        }
    }

    #[test]
    fn keys_of_different_objects_and_values_are_no_keys_that_are_twice() {
        for once in [
            r#"{"a": {"a": 1}, "b": {"a": 2}}"#,
            r#"[{"a": 1}, {"a": 2}]"#,
            r#"{"a": "b", "b": "a", "c": "a"}"#,
            r#"{"a": "x\": 1, \"a\": ", "b": NaN}"#,
            r#"{"A": 1, "a": 2}"#,
            "\"",
            "",
        ] {
            assert_eq!(find(once.as_bytes()), None, "{once}");
        }
    }
}
