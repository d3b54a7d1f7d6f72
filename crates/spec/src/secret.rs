//! Detection of plain values that look like secrets. A definition is public, so a secret in it is none any more: only references
//! belong there. A secret that was written by accident is found; one that was hidden on purpose may not be.

use percent_encoding::percent_decode_str;
use serde_json::Value as Json;

use crate::checked_value::CheckedValue;
use crate::problem::Problems;

/// Words in a variable's name that mark its value as a secret.
const SECRET_WORDS: [&str; 8] = ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDENTIALS", "APIKEY", "PASSPHRASE"];

/// The prefixes of secrets of well-known services, with the least number of letters and digits behind a prefix that other texts have too:
/// `pplx-70b-online` is a model.
const SECRET_PREFIXES: [(&str, usize); 50] = [
    ("-----BEGIN", 0),
    ("ABSK", 16),
    ("AIza", 0),
    ("AKIA", 0),
    ("ASIA", 16),
    ("SG.", 16),
    ("dapi", 16),
    ("dckr_pat_", 0),
    ("dop_v1_", 0),
    ("eyJ0eXAi", 0),
    ("eyJ4NXQi", 0),
    ("eyJhbGci", 0),
    ("eyJjdHki", 0),
    ("eyJlbmMi", 0),
    ("eyJraWQi", 0),
    ("fw_", 16),
    ("gho_", 0),
    ("ghp_", 0),
    ("ghr_", 0),
    ("ghs_", 0),
    ("ghu_", 0),
    ("github_pat_", 0),
    ("glpat-", 0),
    ("gsk_", 8),
    ("hf_", 0),
    ("hvb.", 0),
    ("hvr.", 0),
    ("hvs.", 0),
    ("lsv2_", 0),
    ("npm_", 16),
    ("nvapi-", 0),
    ("pplx-", 16),
    ("pypi-", 16),
    ("r8_", 8),
    ("rk_live_", 0),
    ("rpa_", 16),
    ("sk-", 0),
    ("sk_live_", 0),
    ("sk_test_", 0),
    ("tgp_v1_", 0),
    ("xai-", 16),
    ("xapp-", 0),
    ("xoxa-", 0),
    ("xoxb-", 0),
    ("xoxe-", 0),
    ("xoxe.", 0),
    ("xoxp-", 0),
    ("xoxr-", 0),
    ("xoxs-", 0),
    ("ya29.", 0),
];

/// The names of credentials in headers, queries and bodies, in lower case, without separators and without `x-`.
const CREDENTIALS: [&str; 46] = [
    "accesskey",
    "accesskeyid",
    "accesstoken",
    "amzcredential",
    "amzsecuritytoken",
    "amzsignature",
    "apikey",
    "apitoken",
    "appkey",
    "appsecret",
    "authkey",
    "authorization",
    "authtoken",
    "awsaccesskeyid",
    "bearertoken",
    "clientsecret",
    "cookie",
    "credential",
    "credentials",
    "functionskey",
    "googapikey",
    "googcredential",
    "googsignature",
    "googleaccessid",
    "idtoken",
    "jwt",
    "mastertoken",
    "ocpapimsubscriptionkey",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "proxyauthorization",
    "pwd",
    "refreshtoken",
    "secret",
    "secretaccesskey",
    "secretkey",
    "securitytoken",
    "servicekey",
    "sessiontoken",
    "setcookie",
    "sharedaccesssignature",
    "signingkey",
    "subscriptionkey",
    "userkey",
];

/// Names that are credentials in the query of an address. Headers and bodies use them for other things as well.
const QUERY_CREDENTIALS: [&str; 9] = ["auth", "bearer", "code", "hmac", "key", "pass", "sig", "signature", "token"];

/// Names that are credentials in a header or a body if their value is as long as a key.
const LONG_CREDENTIALS: [&str; 4] = ["auth", "bearer", "key", "token"];

/// The shortest value of one of [`LONG_CREDENTIALS`] that is taken for a key.
const MIN_KEY_CHARS: usize = 16;

/// The shortest one of letters and digits, such as `hunter2secret`. The value of `key` may be such a name of something else.
const MIN_MIXED_CHARS: usize = 8;

/// The shortest run of letters and digits in a part of a path that begins as a key does: `sk-learn` and `hf_transformers` are names.
const MIN_KEY_RUN: usize = 16;

/// The shortest part of a path that is taken for a key with `-` and `_` in it, if it has digits and letters of both cases.
const MIN_PATH_KEY: usize = 20;

/// The times that an address is decoded: a proxy may decode it before a server does.
const MAX_DECODINGS: usize = 4;

/// Reports plain values of an environment that look like secrets, without showing them.
pub(crate) fn refuse_secrets(env: &CheckedValue, reason: &str, problems: &mut Problems<'_>) {
    for (name, value) in env.members() {
        let items = if value.text().is_some() { std::slice::from_ref(value) } else { value.items() };
        for item in items {
            let hint = "give its place, `{from_env: NAME}` or `{from_file: PATH}`, in a target's `env`";
            refuse_secret(name, item, reason, hint, problems);
        }
    }
}

/// Reports the plain value of a variable if it looks like a secret, without showing it.
pub(crate) fn refuse_secret(name: &str, value: &CheckedValue, reason: &str, hint: &str, problems: &mut Problems<'_>) {
    if looks_secret(name, value.text().unwrap_or_default()) {
        problems.add_redacted(value.span, format!("`{name}` looks like a secret; {reason}"), hint);
    }
}

/// Returns true if the value of a variable, option, property or parameter looks like a secret. The words of the name may be in either case,
/// separated by `_`, by `-` or by a capital.
pub fn looks_secret(name: &str, value: &str) -> bool {
    // Of `spring.datasource.token` the last part is the name; `gen_ai.token.type` is a kind.
    let last = name.rsplit('.').next().unwrap_or(name);
    let named = has_secret_word(name) || has_secret_word(last) || has_secret_end(&with_separated_capitals(last));
    // `MAX_TOKEN: 8` counts something and `PASSWORD: ""` hides nothing.
    let plain = value.is_empty() || value == "true" || value == "false" || value.parse::<f64>().is_ok();
    has_secret_prefix(value) || (named && !plain)
}

fn has_secret_word(name: &str) -> bool {
    let name = name.to_ascii_uppercase().replace('-', "_");
    name.split('_').any(|word| SECRET_WORDS.contains(&word)) || name.ends_with("API_KEY") || name.ends_with("PRIVATE_KEY")
}

/// Returns true if a name ends in a word of a secret: `secretKeyRef` and `tokenType` do not.
fn has_secret_end(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let last = name.rsplit(['_', '-']).next().unwrap_or_default();
    SECRET_WORDS.contains(&last) || name.ends_with("API_KEY") || name.ends_with("PRIVATE_KEY")
}

/// Returns `githubToken` as `github_Token`.
fn with_separated_capitals(name: &str) -> String {
    let mut separated = String::with_capacity(name.len());
    let mut before = ' ';
    for letter in name.chars() {
        if before.is_ascii_lowercase() && letter.is_ascii_uppercase() {
            separated.push('_');
        }
        separated.push(letter);
        before = letter;
    }
    separated
}

/// Returns true if a value begins as the secrets of a well-known service do.
fn has_secret_prefix(value: &str) -> bool {
    SECRET_PREFIXES.iter().any(|(prefix, least)| {
        let rest = value.trim_start().strip_prefix(prefix);
        rest.is_some_and(|rest| rest.bytes().take_while(u8::is_ascii_alphanumeric).take(*least).count() == *least)
    })
}

/// Returns a name as the lists of credentials spell it.
fn plain_name(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    name.strip_prefix("x-").unwrap_or(&name).chars().filter(char::is_ascii_alphanumeric).collect()
}

/// The authentication schemes of a header's value, in lower case.
pub const SCHEMES: [&str; 3] = ["bearer", "basic", "token"];

/// Returns true if the value of a header looks like a secret: by the header's name, by the value's scheme, or by its prefix.
pub fn looks_secret_header(name: &str, value: &str) -> bool {
    let first = value.split_ascii_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    let has_scheme = SCHEMES.contains(&first.as_str()) && value.trim().len() > first.len();
    let plain = plain_name(name);
    CREDENTIALS.contains(&plain.as_str()) || is_long_key(&plain, value) || has_scheme || looks_secret(name, value)
}

/// Returns true if the value of a name that has several uses is as long as a key.
fn is_long_key(plain_name: &str, value: &str) -> bool {
    let is_long = value.len() >= MIN_KEY_CHARS && !value.contains(' ');
    let is_mixed = || {
        let has = |kind: fn(&u8) -> bool| value.as_bytes().iter().any(kind);
        let is_plain = value.bytes().all(|byte| byte.is_ascii_alphanumeric());
        value.len() >= MIN_MIXED_CHARS && is_plain && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
    };
    LONG_CREDENTIALS.contains(&plain_name) && (is_long || (plain_name != "key" && is_mixed()))
}

/// Returns true if a member of a request's body looks like a secret, or holds one at any depth. A text beside a name such as `eos_token` or
/// `key` may be an ordinary word; an address may hold a password or a key.
pub(crate) fn looks_secret_member(name: &str, value: &Json) -> bool {
    match value {
        Json::String(text) => {
            let name = plain_name(name);
            let has_end =
                ["apikey", "accesstoken", "authtoken", "hftoken", "password", "privatekey", "secretkey", "clientsecret"];
            let is_named = CREDENTIALS.contains(&name.as_str()) || has_end.iter().any(|end| name.ends_with(end));
            let is_address = text.contains("://") && !text.contains(char::is_whitespace);
            (is_named && !text.is_empty())
                || is_long_key(&name, text)
                || has_secret_prefix(text)
                || (is_address && (carries_password(text) || carries_key(text)))
        }
        Json::Array(items) => items.iter().any(|item| looks_secret_member(name, item)),
        Json::Object(members) => members.iter().any(|(name, value)| looks_secret_member(name, value)),
        Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}

/// Returns true if a text is an address with a user or password in it, as they are or percent-encoded. The user of an ssh address is no
/// secret.
pub fn carries_password(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let has_user = |authority: String| authority.rsplit_once('@').is_some_and(|(user, _)| scheme != "ssh" || user.contains(':'));
    decodings(authority).any(has_user)
}

/// Returns true if an address, or a path, has a key in its path, or a parameter that looks like a secret, as it is or percent-encoded.
pub fn carries_key(address: &str) -> bool {
    decodings(address).any(|address| has_key(&address))
}

/// Returns a text as it is, and with its percent-encoded bytes decoded once, twice and so on.
pub(crate) fn decodings(text: &str) -> impl Iterator<Item = String> {
    let decoded = std::iter::successors(Some(text.to_owned()), |text| Some(decode(text)).filter(|decoded| decoded != text));
    decoded.take(MAX_DECODINGS)
}

/// Returns true if an address has a key, without decoding anything.
fn has_key(address: &str) -> bool {
    let (place, query) = address.split_at(address.find(['?', '#']).unwrap_or(address.len()));
    let path = place.split_once("://").map_or(place, |(_, rest)| rest.split_once('/').map_or("", |(_, path)| path));
    query.split(['?', '&', ';', '#']).any(is_secret_parameter) || path.split('/').any(is_key_segment)
}

/// Returns true if a part of a path is a key, or has a parameter behind a `;` that looks like a secret.
fn is_key_segment(segment: &str) -> bool {
    segment.split([';', '=', ',', ':']).any(is_path_key) || segment.split(';').skip(1).any(is_secret_parameter)
}

/// Returns true if a text of a path begins as a key does and is as long as one. Names of files and repositories may begin so, too.
fn is_path_key(text: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| text.as_bytes().iter().any(kind);
    let has_run = text.split(|letter: char| !letter.is_ascii_alphanumeric()).any(|run| run.len() >= MIN_KEY_RUN);
    let is_mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    has_secret_prefix(text) && (has_run || (text.len() >= MIN_PATH_KEY && is_mixed))
}

/// Returns a text with its percent-encoded bytes decoded once. What is no escape stays.
fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Returns true if a parameter, `name=value`, looks like a secret.
fn is_secret_parameter(parameter: &str) -> bool {
    parameter.split_once('=').is_some_and(|(name, value)| looks_secret_parameter(name, value.trim_start_matches('+')))
}

/// Returns true if a parameter of a query looks like a secret: by its name or by its value's prefix.
fn looks_secret_parameter(name: &str, value: &str) -> bool {
    let plain = plain_name(name);
    let is_credential = CREDENTIALS.contains(&plain.as_str()) || QUERY_CREDENTIALS.contains(&plain.as_str());
    // `token=8` counts something, and `auth=false` hides nothing; a longer number may well be a password.
    let is_short_number = value.len() <= 5 && value.parse::<f64>().is_ok();
    let hides = !(value.is_empty() || value == "true" || value == "false" || is_short_number);
    (is_credential && hides) || looks_secret(name, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_prefixes_give_secrets_away() {
        for (name, value) in [
            ("HF_TOKEN", "abc"),
            ("hf_token", "abc"),
            ("DB_PASSWORD", "x"),
            ("db-password", "x"),
            ("OPENAI_API_KEY", "x"),
            ("A", "hf_abc"),
            ("B", "sk-123"),
            ("C", "hvs.CAESIJ"),
            ("D", "AIzaSyA1234"),
            ("E", "nvapi-abc"),
            ("F", "gsk_abcdefgh1234"),
            ("G", "r8_abcdefgh1234"),
            ("H", "pplx-0123456789abcdef"),
            ("I", "eyJhbGciOi"),
            ("J", "eyJraWQiOiJ"),
            ("K", "xoxp-1-2"),
            ("L", "AKIAIOSFODNN7EXAMPLE"),
            ("M", " sk-123"),
            ("api.token", "abc"),
            ("spring.datasource.token", "abc"),
            ("githubToken", "abc"),
            ("my.clientSecret", "abc"),
        ] {
            assert!(looks_secret(name, value), "{name}: {value}");
        }
        for (name, value) in [
            ("MAX_TOKEN", "8"),
            ("TOKENS", "many"),
            ("SORT_KEY", "name"),
            ("gen_ai.token.type", "input"),
            ("tokenizerName", "gpt2"),
            ("secretKeyRef", "llm"),
            ("tokenType", "input"),
            ("password", ""),
            ("A", "text"),
            ("MODEL", "pplx-70b-online"),
            ("REGION", "ASIA-east"),
            ("B", "r8_tiny"),
            ("C", "xoxo"),
            ("CONFIG", "eyJhIjoxLCJiIjoyfQ"),
        ] {
            assert!(!looks_secret(name, value), "{name}: {value}");
        }
    }

    #[test]
    fn a_header_may_hold_a_key() {
        for (name, value) in [
            ("Authorization", "x"),
            ("X-Api-Key", "x"),
            ("cookie", "a=b"),
            ("x-org", "Bearer x"),
            ("x", "hf_x"),
            ("my-token", "x"),
            ("X-Vault", "hvs.CAESIJ"),
            ("Subscription-Key", "x"),
            ("x-functions-key", "x"),
            ("X-Auth-Key", "x"),
            ("x-key", "0123456789abcdef"),
            ("X-Amz-Security-Token", "x"),
        ] {
            assert!(looks_secret_header(name, value), "{name}: {value}");
        }
        for (name, value) in
            [("x-org", "acme"), ("x-mode", "bearer"), ("x-max-token", "8"), ("idempotency-key", "x"), ("x-code", "x")]
        {
            assert!(!looks_secret_header(name, value), "{name}: {value}");
        }
    }

    #[test]
    fn a_query_may_hold_a_key() {
        for parameter in [
            "api_key=x",
            "a=1&access-token=x",
            "k=sk-1",
            "a=b;Password=x",
            "key=AIzaSyA1234",
            "key=abc",
            "apikey=x",
            "api-key=x",
            "X-Api-Key=x",
            "subscription-key=x",
            "sv=2024-01-01&sig=x%2By%3D",
            "signature=x",
            "code=abc==",
            "token=x",
            "token=1234567890",
            "access_token=x",
            "accessToken=x",
            "auth=x",
            "password=123456",
            "client_secret=x",
            "X-Amz-Credential=x&X-Amz-Signature=x",
            "X-Goog-Signature=x",
            "x=gsk_abcdefgh1234",
            "jwt=x",
            "a#access_token=x",
            "%74oken=x",
            "%2574oken=x",
            "access%5Ftoken=x",
            "api%2Dkey=x",
            "x=%73k-proj-x",
            "x=+sk-proj-x",
            "x%3Dsk-proj-x",
            "%zz%&%74oken=x",
        ] {
            assert!(carries_key(&format!("http://h/v1?{parameter}")), "{parameter}");
        }
        for path in [
            "sk-proj-abcdefghijklmnop/v1",
            "v1/sk-ant-api03-Ab_cDe-fGh1_x",
            "ghp_0123456789abcdefABCDEF/v1",
            "%67hp_0123456789abcdefABCDEF/v1",
            "a;b=hf_abcdefghijklmnopqrst/v1",
            ";token=x/v1",
            "v1;a=b;api%2Dkey=x",
            "%3Btoken%3Dx/v1",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.x",
            "AKIAIOSFODNN7EXAMPLE",
        ] {
            for address in [format!("http://h/{path}"), format!("/{path}"), format!("http://h/v1/{path}?x=y#z")] {
                assert!(carries_key(&address), "{address}");
            }
        }
        for address in [
            "http://h/v1",
            "https://a.b/c?d=e",
            "http://h/?max_token=8",
            "http://h/?max_tokens=many&tokens=some",
            "http://h/?token=8&code=200",
            "http://h/api_key=x",
            "http://h/code/token/key?d=e",
            "http://h/?token",
            "http://h/?key=&auth=false",
            "http://h/?model=pplx-70b-online&sort_key=name&keyboard=de&author=me&design=a&encode=b",
            "http://h/?api-version=2024-06-01&deployment=sketch",
            "s3://b?endpoint=http://h:1&region=us-east-1",
            "http://h/sk-learn/hf_transformers-datasets/v1",
            "https://huggingface.co/datasets/hf-internal/hf_tests/resolve/0123456789abcdef0123456789abcdef01234567/sk-2024.jsonl",
            "http://h/a%20b;c=d/100%/v1?e=%26%",
            "http://sk-learn.example.org",
        ] {
            assert!(!carries_key(address), "{address}");
        }
    }

    #[test]
    fn a_body_may_hold_a_key() {
        use serde_json::json;
        for (name, value) in [
            ("api_key", json!("abc")),
            ("apiKey", json!("abc")),
            ("openai_api_key", json!("abc")),
            ("hf_token", json!("abc")),
            ("access_token", json!("abc")),
            ("db_password", json!("abc")),
            ("key", json!("0123456789abcdef")),
            ("token", json!("0123456789abcdef")),
            ("user", json!("sk-123")),
            ("list", json!(["a", "hvs.CAESIJ"])),
            ("extra_headers", json!({"Authorization": "Bearer x"})),
            ("a", json!({"b": [{"client_secret": "x"}]})),
            ("user", json!({"token": "hunter2secret"})),
            ("user", json!([{"a": {"token": "0123456789abcdef"}}])),
            ("token", json!("hunter2secret")),
            ("auth", json!("a1b2c3d4")),
            ("callback", json!("https://user:pass@h/x")),
            ("a", json!({"callback": "https://h/x?%74oken=x"})),
        ] {
            assert!(looks_secret_member(name, &value), "{name}: {value}");
        }
        for (name, value) in [
            ("max_tokens", json!(8)),
            ("token", json!(8)),
            ("tokens", json!("many")),
            ("eos_token", json!("</s>")),
            ("stop_token", json!("<end>")),
            ("key", json!("color")),
            ("key", json!("created2024")),
            ("token", json!("<eos_token_1>")),
            ("system", json!("Call http://h/?token=x and say so")),
            ("image", json!("https://h/a.png?width=8")),
            ("code", json!("print(1)")),
            ("api_key", json!("")),
            ("return_token_ids", json!(true)),
            ("system", json!("Token by token, a basic assistant")),
            ("chat_template_kwargs", json!({"enable_thinking": false})),
            ("filters", json!({"type": "eq", "key": "region", "value": "us"})),
            (
                "schema",
                json!({"properties": {"password": {"type": "string"}, "token": {"type": "string"}}, "required": ["token"]}),
            ),
        ] {
            assert!(!looks_secret_member(name, &value), "{name}: {value}");
        }
    }

    #[test]
    fn a_user_of_ssh_is_no_secret() {
        for address in [
            "https://me@example.org/a",
            "http://me:pw@example.org",
            "ssh://git:pw@example.org/a",
            "ftp://a@b@c",
            "http://me%3Apw%40example.org/a",
            "http://me%253Apw%2540example.org",
        ] {
            assert!(carries_password(address), "{address}");
        }
        for address in
            ["ssh://git@example.org/a", "ssh://git%40example.org/a", "git@example.org:a", "https://example.org/@a", "a@b"]
        {
            assert!(!carries_password(address), "{address}");
        }
    }
}
