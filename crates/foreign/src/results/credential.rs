//! Credentials in results of other tools. Files are frozen as they are, and tools write their command lines and headers into them, so a file
//! with a credential is refused.

use serde_json::Value;

use super::path::join;
use crate::value::is_credential;
use assay_spec::{looks_secret, looks_secret_header};

/// The shortest word of a text that is taken for a credential by its first letters: shorter ones are names, such as `sk-learn`.
const MIN_WORD: usize = 20;

/// Texts that stand for a credential that was left out.
const PLACEHOLDERS: [&str; 10] = ["", "none", "null", "empty", "redacted", "<redacted>", "[redacted]", "***", "********", "n/a"];

/// The ends of names whose value is a credential even if it is a number, in lower case and without separators.
const PASSWORD_ENDS: [&str; 10] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "apikey",
    "accesstoken",
    "authtoken",
    "secretkey",
    "privatekey",
    "bearertoken",
];

/// The fewest digits of a number that is taken for a credential: a shorter one counts something.
const MIN_DIGITS: usize = 4;

/// The names of services whose `--NAME-key` is a credential, unlike `--sort-key`.
const SERVICES: [&str; 13] = [
    "anthropic",
    "api",
    "aws",
    "azure",
    "cohere",
    "google",
    "groq",
    "hf",
    "huggingface",
    "mistral",
    "nvidia",
    "openai",
    "together",
];

/// The kinds of authentication that `auth` may name, which are no credentials.
const AUTH_KINDS: [&str; 22] = [
    "api-key",
    "api_key",
    "apikey",
    "basic",
    "bearer",
    "default",
    "digest",
    "disabled",
    "enabled",
    "iam",
    "instance_obo_user",
    "instance_principal",
    "kerberos",
    "mtls",
    "ntlm",
    "oauth",
    "oauth2",
    "optional",
    "required",
    "resource_principal",
    "security_token",
    "user_principal",
];

/// Parts of the names of cookies that hold a session.
const SESSION_NAMES: [&str; 6] = ["auth", "csrf", "jwt", "session", "sid", "token"];

/// The beginning and the end of the first line of a private key in PEM. Between them is its kind.
const PEM: [&str; 2] = ["-----BEGIN ", "PRIVATE KEY-----"];

/// Returns the path of the first value of a document that looks like a credential.
pub(crate) fn find(document: &Value) -> Option<String> {
    find_in("", "", document)
}

fn find_in(path: &str, name: &str, value: &Value) -> Option<String> {
    match value {
        Value::String(text) => is_secret_text(name, text).then(|| path.to_owned()),
        Value::Array(items) => {
            let has_option =
                items.windows(2).any(|two| matches!(two, [first, second] if is_pair_of_texts(is_secret_option, first, second)));
            // A header is written as its name and its value.
            if has_option || matches!(items.as_slice(), [first, second] if is_pair_of_texts(is_named, first, second)) {
                return Some(path.to_owned());
            }
            items.iter().find_map(|item| find_in(&join(path, "[]"), name, item))
        }
        Value::Object(members) => members.iter().find_map(|(name, value)| find_in(&join(path, name), name, value)),
        Value::Number(number) => is_secret_number(name, &number.to_string()).then(|| path.to_owned()),
        Value::Null | Value::Bool(_) => None,
    }
}

/// Returns true if two values are texts that together hold a credential.
fn is_pair_of_texts(is_pair: fn(&str, &str) -> bool, first: &Value, second: &Value) -> bool {
    matches!((first.as_str(), second.as_str()), (Some(first), Some(second)) if is_pair(first, second))
}

fn is_secret_text(name: &str, text: &str) -> bool {
    // Tools write the body and the headers of a request as a text, too.
    let inner = || serde_json::from_str::<Value>(text).ok().is_some_and(|inner| find(&inner).is_some());
    is_named(name, text)
        || is_secret_member(name, text)
        || find_in_text(text)
        || (text.trim_start().starts_with(['{', '[']) && inner())
}

/// Returns true if a value only stands for a credential.
pub(crate) fn is_placeholder(value: &str) -> bool {
    PLACEHOLDERS.iter().any(|placeholder| value.trim().eq_ignore_ascii_case(placeholder))
}

/// Returns true if the name of a value marks it as a credential.
fn is_named(name: &str, value: &str) -> bool {
    let value = value.trim();
    let is_plain = value.is_empty() || value == "true" || value == "false" || value.parse::<f64>().is_ok();
    let by_name = looks_secret(name, "x") || looks_secret_header(name, "x");
    let by_length = !value.contains(char::is_whitespace) && looks_secret_header(name, value) && !is_credential("", value);
    !is_placeholder(value)
        && !is_auth_kind(name, value)
        && !name.is_empty()
        && (is_secret_number(name, value) || (!is_plain && (by_name || by_length || is_option(name))))
}

/// Returns true for the names of options and variables of well-known tools that hold a credential.
fn is_option(name: &str) -> bool {
    let plain = plain_name(name);
    let is_service_key = || plain.strip_suffix("key").is_some_and(|service| SERVICES.contains(&service));
    ["pass", "oauth2bearer"].contains(&plain.as_str()) || plain.ends_with("password") || is_service_key()
}

/// Returns true if a number is the value of a name that is a password's or a key's.
fn is_secret_number(name: &str, value: &str) -> bool {
    let is_number = value.parse::<f64>().is_ok() && value.bytes().filter(u8::is_ascii_digit).count() >= MIN_DIGITS;
    let plain = plain_name(name);
    is_number && PASSWORD_ENDS.iter().any(|end| plain.ends_with(end))
}

/// Returns true if the value of a name is a kind of authentication.
fn is_auth_kind(name: &str, value: &str) -> bool {
    plain_name(name) == "auth" && AUTH_KINDS.iter().any(|kind| value.trim().eq_ignore_ascii_case(kind))
}

/// Returns true if a text is the value of a member `bearer`, or of a member `auth` that does not name a kind of authentication.
fn is_secret_member(name: &str, text: &str) -> bool {
    let text = text.trim();
    let is_word = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    let is_empty = text.is_empty() || ["true", "false"].contains(&text) || is_word(&PLACEHOLDERS) || is_word(&AUTH_KINDS);
    ["auth", "bearer"].contains(&plain_name(name).as_str()) && !is_empty
}

fn plain_name(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

/// Returns true if a text, such as a command line, has an option, header, variable or address with a credential.
pub(crate) fn find_in_text(text: &str) -> bool {
    let is_separator = |c: char| c.is_whitespace() || "\"'`,;{}<>()[]\\".contains(c);
    let words: Vec<&str> = text.split(is_separator).filter(|word| !word.is_empty()).collect();
    let is_key = |word: &str| word.len() >= MIN_WORD && is_credential("", word);
    let is_alone = |word: &&str| is_key(word) || has_user_information(word) || is_assignment(word);
    let is_pair = |pair: &[&str]| match pair {
        [option, value] if option.starts_with('-') => is_secret_option(option, value),
        // In YAML, a name with members is followed by another name.
        [header, value] if header.ends_with(':') => !value.ends_with(':') && is_named(header.trim_end_matches(':'), value),
        [scheme, value] if scheme.eq_ignore_ascii_case("bearer") => value.bytes().any(|byte| byte.is_ascii_digit()),
        _ => false,
    };
    has_private_key(text) || words.iter().any(is_alone) || words.windows(2).any(is_pair)
}

/// Returns true for an option of a command whose value is a credential.
fn is_secret_option(option: &str, value: &str) -> bool {
    match option {
        "-u" | "--user" | "--proxy-user" if is_user_with_password(value) => true,
        "-b" | "--cookie" if is_session(value) => true,
        _ => option.starts_with('-') && is_named(option.trim_start_matches('-'), value),
    }
}

/// Returns true for `user:password`. Numbers are the ids of a user and a group, and an address or a path is no user.
fn is_user_with_password(value: &str) -> bool {
    value.split_once(':').is_some_and(|(user, password)| {
        let is_id = password.bytes().all(|byte| byte.is_ascii_digit()) && user.bytes().all(|byte| byte.is_ascii_digit());
        let is_placeholder = PLACEHOLDERS.iter().any(|placeholder| password.eq_ignore_ascii_case(placeholder));
        !user.is_empty() && !password.is_empty() && !password.starts_with('/') && !is_id && !is_placeholder
    })
}

/// Returns true for a cookie, `name=value`, whose name is that of a session.
fn is_session(value: &str) -> bool {
    value.split_once('=').is_some_and(|(name, value)| {
        let name = name.to_ascii_lowercase();
        let is_placeholder = PLACEHOLDERS.iter().any(|placeholder| value.eq_ignore_ascii_case(placeholder));
        !value.is_empty() && !is_placeholder && SESSION_NAMES.iter().any(|part| name.contains(part))
    })
}

fn has_private_key(text: &str) -> bool {
    let [begin, end] = PEM;
    text.lines().any(|line| line.contains(begin) && line.contains(end))
}

/// Returns the place of the first word of a command that holds a credential, or that names one which the next word holds.
pub fn credential_in_words(words: &[String]) -> Option<usize> {
    let is_alone = |word: &String| is_secret_text("", word);
    let is_pair = |pair: &[String]| find_in_text(&pair.join(" "));
    words.iter().position(is_alone).or_else(|| words.windows(2).position(is_pair))
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
            (json!({"cmd": "curl -u user:canary http://h"}), "cmd"),
            (json!({"cmd": "curl --user user:canary http://h"}), "cmd"),
            (json!({"args": ["curl", "-u", "user:canary"]}), "args"),
            (json!({"cmd": "curl -b 'session=canary' http://h"}), "cmd"),
            (json!({"cmd": "curl --oauth2-bearer canary http://h"}), "cmd"),
            (json!({"cmd": "tool --pass canary"}), "cmd"),
            (json!({"cmd": "tool --openai-key canary"}), "cmd"),
            (json!({"cmd": "tool --password 48151623"}), "cmd"),
            (json!({"cmd": "PGPASSWORD=canary psql"}), "cmd"),
            (json!({"note": "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----"}), "note"),
            (json!({"note": "key: -----BEGIN RSA PRIVATE KEY-----\nMIIE"}), "note"),
            (json!({"note": "-----BEGIN CERTIFICATE-----\n-----BEGIN EC PRIVATE KEY-----\nMIIE"}), "note"),
            (json!({"bearer": "canary"}), "bearer"),
            (json!({"credentials": "canary"}), "credentials"),
            (json!({"auth": "canary"}), "auth"),
            (json!({"auth": ["user", "canary"]}), "auth[]"),
            (json!({"db": {"password": 48_151_623}}), "db/password"),
            (json!({"cmd": "curl -H 'X-Team-Token: canary-4f2b'"}), "cmd"),
            (json!({"request_args": format!("{{\"headers\":{{\"Authorization\":\"Bearer {KEY}\"}}}}")}), "request_args"),
        ];
        for (document, place) in cases {
            assert_eq!(find(&document).as_deref(), Some(place), "{document}");
        }
    }

    #[test]
    fn credentials_are_found_in_the_words_of_a_command() {
        let place = |words: &[&str]| credential_in_words(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(place(&["tool", "a", "--token", "canary-4f2b"]), Some(2));
        assert_eq!(place(&["tool", "--token=canary-4f2b"]), Some(1));
        assert_eq!(place(&["tool", "Authorization:", "canary-4f2b"]), Some(1));
        assert_eq!(place(&["tool", r#"{"api_key": "canary-4f2b"}"#]), Some(1));
        assert_eq!(place(&["gen-token", "x"]), None, "the name of a program is no option");
        assert_eq!(place(&["tool", "--token"]), None);
        assert_eq!(place(&[]), None);
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
            json!({"cmd": "docker run -u 1000:1000 -b size=32 --sort-key name --pass 3 --bypass cache"}),
            json!({"auth": "bearer", "bearer": null, "credentials": "none", "max_tokens": 4096, "secret": 3, "n": 48_151_623}),
            json!({"note": "-----BEGIN CERTIFICATE-----", "first_token": 12_345, "passes": "three", "author": "somebody"}),
        ];
        for document in documents {
            assert_eq!(find(&document), None, "{document}");
        }
    }
}
