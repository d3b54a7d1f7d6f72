//! Detection of plain values that look like secrets. A definition is public, so a secret in it is none any more: only references
//! belong there.

use crate::checked_value::CheckedValue;
use crate::problem::Problems;

/// Words in a variable's name that mark its value as a secret.
const SECRET_WORDS: [&str; 8] = ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "CREDENTIALS", "APIKEY", "PASSPHRASE"];
/// The prefixes of secrets of well-known services.
const SECRET_PREFIXES: [&str; 10] =
    ["hf_", "sk-", "ghp_", "gho_", "github_pat_", "glpat-", "xoxb-", "AKIA", "eyJhbGci", "-----BEGIN"];

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

/// Returns true if the value of a variable, option or parameter looks like a secret. The words of the name may be in either case,
/// separated by `_` or `-`.
pub fn looks_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase().replace('-', "_");
    let named =
        name.split('_').any(|word| SECRET_WORDS.contains(&word)) || name.ends_with("API_KEY") || name.ends_with("PRIVATE_KEY");
    // `MAX_TOKEN: 8` counts something and `PASSWORD: ""` hides nothing.
    let plain = value.is_empty() || value == "true" || value == "false" || value.parse::<f64>().is_ok();
    SECRET_PREFIXES.iter().any(|prefix| value.starts_with(prefix)) || (named && !plain)
}

/// Headers that carry credentials.
const SECRET_HEADERS: [&str; 7] =
    ["authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-auth-token", "ocp-apim-subscription-key"];

/// The authentication schemes of a header's value, in lower case.
const SCHEMES: [&str; 3] = ["bearer", "basic", "token"];

/// Returns true if the value of a header looks like a secret: by the header's name, by the value's scheme, or by its prefix.
pub fn looks_secret_header(name: &str, value: &str) -> bool {
    let first = value.split_ascii_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    let has_scheme = SCHEMES.contains(&first.as_str()) && value.trim().len() > first.len();
    SECRET_HEADERS.contains(&name.to_ascii_lowercase().as_str()) || has_scheme || looks_secret(name, value)
}

/// Returns true if a text is an address with a user or password in it. The user of an ssh address is no secret.
pub(crate) fn carries_password(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit_once('@').is_some_and(|(user, _)| scheme != "ssh" || user.contains(':'))
}

/// Returns true if the query of an address has a parameter that looks like a secret.
pub(crate) fn carries_key(address: &str) -> bool {
    let query = address.split_once('?').map_or("", |(_, query)| query);
    let mut parameters = query.split(['&', ';']).filter_map(|parameter| parameter.split_once('='));
    parameters.any(|(name, value)| looks_secret(name, value))
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
        ] {
            assert!(looks_secret(name, value), "{name}: {value}");
        }
        for (name, value) in [("MAX_TOKEN", "8"), ("TOKENS", "many"), ("SORT_KEY", "name"), ("password", ""), ("A", "text")] {
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
        ] {
            assert!(looks_secret_header(name, value), "{name}: {value}");
        }
        for (name, value) in [("x-org", "acme"), ("x-mode", "bearer"), ("x-max-token", "8")] {
            assert!(!looks_secret_header(name, value), "{name}: {value}");
        }
    }

    #[test]
    fn a_query_may_hold_a_key() {
        for address in ["http://h/v1?api_key=x", "http://h?a=1&access-token=x", "http://h/?k=sk-1", "http://h/?a=b;Password=x"] {
            assert!(carries_key(address), "{address}");
        }
        for address in ["http://h/v1", "https://a.b/c?d=e", "http://h/?max_token=8", "http://h/api_key=x", "http://h/?token"] {
            assert!(!carries_key(address), "{address}");
        }
    }

    #[test]
    fn a_user_of_ssh_is_no_secret() {
        for address in ["https://me@example.org/a", "http://me:pw@example.org", "ssh://git:pw@example.org/a", "ftp://a@b@c"] {
            assert!(carries_password(address), "{address}");
        }
        for address in ["ssh://git@example.org/a", "git@example.org:a", "https://example.org/@a", "a@b"] {
            assert!(!carries_password(address), "{address}");
        }
    }
}
