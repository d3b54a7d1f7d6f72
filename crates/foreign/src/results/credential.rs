//! Credentials in results of other tools. Files are frozen as they are, and tools write their command lines and headers into them, so a file
//! with a credential is refused.

use serde_json::Value;

use super::path::join;
use crate::value::is_credential;
use assay_spec::{looks_secret, looks_secret_header};

/// The shortest word of a text that is taken for a credential by its first letters: shorter ones are names, such as `sk-learn`.
const MIN_WORD: usize = 20;

/// Texts that stand for a credential that was left out.
const PLACEHOLDERS: [&str; 9] = ["none", "null", "empty", "redacted", "<redacted>", "[redacted]", "***", "********", "n/a"];

/// Returns the path of the first value of a document that looks like a credential.
pub(crate) fn find(document: &Value) -> Option<String> {
    find_in("", "", document)
}

fn find_in(path: &str, name: &str, value: &Value) -> Option<String> {
    match value {
        Value::String(text) => is_secret_text(name, text).then(|| path.to_owned()),
        Value::Array(items) => {
            let is_pair = |first: &Value, second: &Value| {
                let names = (first.as_str(), second.as_str());
                matches!(names, (Some(option), Some(value)) if is_named(option.trim_start_matches('-'), value))
            };
            let has_option = items.windows(2).any(|pair| match pair {
                [first, second] => first.as_str().is_some_and(|text| text.starts_with('-')) && is_pair(first, second),
                _ => false,
            });
            if has_option || matches!(items.as_slice(), [first, second] if is_pair(first, second)) {
                return Some(path.to_owned());
            }
            items.iter().find_map(|item| find_in(&join(path, "[]"), name, item))
        }
        Value::Object(members) => members.iter().find_map(|(name, value)| find_in(&join(path, name), name, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn is_secret_text(name: &str, text: &str) -> bool {
    // Tools write the body and the headers of a request as a text, too.
    let inner = || serde_json::from_str::<Value>(text).ok().is_some_and(|inner| find(&inner).is_some());
    is_named(name, text) || find_in_text(text) || (text.trim_start().starts_with(['{', '[']) && inner())
}

/// Returns true if the name of a value marks it as a credential.
fn is_named(name: &str, value: &str) -> bool {
    let value = value.trim();
    let is_placeholder = PLACEHOLDERS.iter().any(|placeholder| value.eq_ignore_ascii_case(placeholder));
    let is_plain = value.is_empty() || value == "true" || value == "false" || value.parse::<f64>().is_ok();
    let by_name = looks_secret(name, "x") || looks_secret_header(name, "x");
    let by_length = !value.contains(char::is_whitespace) && looks_secret_header(name, value) && !is_credential("", value);
    !is_placeholder && !is_plain && !name.is_empty() && (by_name || by_length)
}

/// Returns true if a text, such as a command line, has an option, header, variable or address with a credential.
pub(crate) fn find_in_text(text: &str) -> bool {
    let is_separator = |c: char| c.is_whitespace() || "\"'`,;{}<>()[]\\".contains(c);
    let words: Vec<&str> = text.split(is_separator).filter(|word| !word.is_empty()).collect();
    let is_key = |word: &str| word.len() >= MIN_WORD && is_credential("", word);
    let is_alone = |word: &&str| is_key(word) || has_user_information(word) || is_assignment(word);
    let is_pair = |pair: &[&str]| match pair {
        [option, value] if option.starts_with('-') => is_named(option.trim_start_matches('-'), value),
        // In YAML, a name with members is followed by another name.
        [header, value] if header.ends_with(':') => !value.ends_with(':') && is_named(header.trim_end_matches(':'), value),
        [scheme, value] if scheme.eq_ignore_ascii_case("bearer") => value.bytes().any(|byte| byte.is_ascii_digit()),
        _ => false,
    };
    words.iter().any(is_alone) || words.windows(2).any(is_pair)
}

/// Returns true for `--api-key=value`, `API_KEY=value` and `...?sig=value&...`.
fn is_assignment(word: &str) -> bool {
    word.split(['?', '&'])
        .filter_map(|part| part.split_once('='))
        .any(|(name, value)| is_named(name.trim_start_matches('-'), value))
}

/// Returns true for an address with a password.
fn has_user_information(word: &str) -> bool {
    let Some((_, rest)) = word.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const KEY: &str = "sk-abcdefghijklmnopqrstuvwx0123";

    #[test]
    fn credentials_are_found_wherever_tools_write_them() {
        let cases = [
            (json!({"a": {"api_key": "canary-4f2b"}}), "a/api_key"),
            (json!({"headers": [["Authorization", "Bearer abc"]]}), "headers[]"),
            (json!({"headers": {"X-Api-Key": "abc"}}), "headers/X-Api-Key"),
            (json!({"cmd": format!("tool --api-key {KEY} --url http://h")}), "cmd"),
            (json!({"cmd": "tool --api-key canary-4f2b"}), "cmd"),
            (json!({"cmd": "tool --api-key=canary-4f2b"}), "cmd"),
            (json!({"cmd": "curl -H 'Authorization: Bearer canary-4f2b' http://h"}), "cmd"),
            (json!({"args": ["--token", "canary-4f2b"]}), "args"),
            (json!({"url": "http://user:canary@h/v1"}), "url"),
            (json!({"url": "http://h/v1?api_key=canary-4f2b"}), "url"),
            (json!({"env": ["HF_TOKEN=canary-4f2b"]}), "env[]"),
            (json!({"text": format!("the key {KEY} is here")}), "text"),
            (json!({"cmd": "curl -H 'X-Team-Token: canary-4f2b'"}), "cmd"),
            (json!({"request_args": format!("{{\"headers\":{{\"Authorization\":\"Bearer {KEY}\"}}}}")}), "request_args"),
        ];
        for (document, place) in cases {
            assert_eq!(find(&document).as_deref(), Some(place), "{document}");
        }
    }

    #[test]
    fn names_counts_and_placeholders_are_no_credentials() {
        let documents = [
            json!({"api_key": null, "other_api_key": "none", "password": "", "auth_type": "api_key", "has_api_key": true}),
            json!({"cmd": "tool --api-key none --max-tokens 128 --tokenizer gpt2"}),
            json!({"tag": "time_to_first_token", "unit": "ms", "tokenizer": "gpt2", "token_count": 7}),
            json!({"text": "sk-learn and hf_transformers are names; basic research is none; a bearer of news"}),
            json!({"text": "time_to_first_token: {units: s, mean: 0.061}"}),
            json!({"cmd": "tool --url http://127.0.0.1:8000/v1?model=m --request-rate=4"}),
        ];
        for document in documents {
            assert_eq!(find(&document), None, "{document}");
        }
    }
}
