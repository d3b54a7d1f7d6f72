//! Credentials in results of other tools. Files are frozen as they are, and tools write their command lines and headers into them, so a file
//! with a credential is refused.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::document::has_more_objects;
use super::path::join;
use crate::value::is_credential;
use assay_spec::{SCHEMES, carries_key, carries_password, looks_secret, looks_secret_header};

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
const SERVICES: [&str; 20] = [
    "account",
    "anthropic",
    "api",
    "aws",
    "azure",
    "cohere",
    "encryption",
    "google",
    "groq",
    "hf",
    "huggingface",
    "license",
    "master",
    "mistral",
    "nvidia",
    "openai",
    "sharedaccess",
    "ssh",
    "subscription",
    "together",
];

/// Programs with an option of one letter whose value, in the next word, is a password. `login` is a subcommand of many programs.
const PASSWORD_OPTIONS: [(&str, &str); 14] = [
    ("bcp", "-P"),
    ("cqlsh", "-p"),
    ("ldapsearch", "-w"),
    (LOGIN, "-p"),
    ("mongo", "-p"),
    ("mongosh", "-p"),
    ("redis-benchmark", "-a"),
    ("redis-cli", "-a"),
    ("sqlcmd", "-P"),
    ("sshpass", "-p"),
    ("twine", "-p"),
    ("unzip", "-P"),
    ("valkey-cli", "-a"),
    ("zip", "-P"),
];

/// The subcommand with which programs such as docker, podman, helm and az take a password.
const LOGIN: &str = "login";

/// Programs whose `login` takes a key as the word behind it, by itself.
const KEY_LOGINS: [&str; 3] = ["bao", "vault", "wandb"];

/// Programs with a subcommand, `set` or `config`, behind which are the name of a setting and its value.
const SETTERS: [&str; 9] = ["aws", "bundle", "conda", "git", "npm", "pip", "pnpm", "poetry", "yarn"];

/// A setting of git that names a public key, although the names of private ones end like it.
const SIGNING_KEY_ID: &str = "user.signingkey";

/// The most digits of a number behind `-p` that is the port of a host `login`, and no password.
const MAX_PORT_DIGITS: usize = 5;

/// Programs with an option of one letter whose value is `user:password`. Elsewhere it may be a host and a file, as of `rsync -a`.
const USER_OPTIONS: [(&str, &str); 7] =
    [("ab", "-A"), ("ab", "-P"), ("hey", "-a"), ("http", "-a"), ("https", "-a"), ("oha", "-a"), ("xh", "-a")];

/// The last words of the names of options whose value may be `user:password`.
const USER_WORDS: [&str; 7] = ["account", "auth", "creds", "login", "user", "username", "userpwd"];

/// Words of names that are about who a client is. Together with one of [`CARRIER_WORDS`] at the end, the name is that of a credential, as in
/// `--session-id` and `--auth-header`; `--auth-type` and `--session-turns` are settings.
const AUTHENTICATION_WORDS: [&str; 10] =
    ["auth", "authentication", "authorization", "bearer", "csrf", "jwt", "saml", "session", "sso", "xsrf"];

/// The last words of such names.
const CARRIER_WORDS: [&str; 9] = ["code", "cookie", "data", "header", "headers", "id", "key", "string", "value"];

/// The names of options that are a credential by themselves, unless the value is a kind of authentication.
const AUTHENTICATION_NAMES: [&str; 7] = ["auth", "bearer", "jwt", "otp", "pat", "pw", "sas"];

/// The names of options that are a credential if the value is as long as one: else it is the name of a session.
const SESSION_OPTIONS: [&str; 2] = ["session", "sid"];

/// Programs with such an option whose value is in the same word: in the next one, there is a name of a database.
const ATTACHED_PASSWORD_OPTIONS: [(&str, &str); 9] = [
    ("7z", "-p"),
    ("7za", "-p"),
    ("mariadb", "-p"),
    ("mysql", "-p"),
    ("mysqladmin", "-p"),
    ("mysqldump", "-p"),
    ("mysqlslap", "-p"),
    ("redis-cli", "-a"),
    ("sshpass", "-p"),
];

/// The signs between the name of a variable or member and its value in quotes, which are as good as `=`.
const ASSIGNMENTS: [&str; 7] = ["'] = '", "']='", "\"] = \"", "\"]=\"", "=\\\"", "=\"", "='"];

/// The words between two commands of a line.
const COMMAND_ENDS: [&str; 4] = ["&&", "||", "|", "&"];

/// The most words of a command behind its program in which its options are looked for.
const MAX_OPTIONS: usize = 64;

/// The most `=` of a word that are taken for assignments inside one another.
const MAX_ASSIGNMENTS: usize = 8;

/// The shortest word behind `the password is` that is taken for a credential.
const MIN_SAID: usize = 6;

/// The kinds of authentication that `auth` may name, which are no credentials.
const AUTH_KINDS: [&str; 51] = [
    "always",
    "anonymous",
    "any",
    "api-key",
    "api_key",
    "apikey",
    "auto",
    "basic",
    "bearer",
    "cert",
    "default",
    "digest",
    "disabled",
    "enabled",
    "gssapi",
    "iam",
    "ident",
    "instance_obo_user",
    "instance_principal",
    "jwt",
    "kerberos",
    "ldap",
    "md5",
    "mtls",
    "native",
    "negotiate",
    "never",
    "ntlm",
    "oauth",
    "oauth2",
    "oidc",
    "optional",
    "pam",
    "password",
    "peer",
    "plain",
    "reject",
    "required",
    "resource_principal",
    "saml",
    "scram",
    "scram-sha-256",
    "scram-sha-512",
    "security_token",
    "spnego",
    "sso",
    "sspi",
    "tls",
    "token",
    "trust",
    "user_principal",
];

/// The shortest id of a session that is a credential.
const MIN_SESSION: usize = 16;

/// The ends of the names of variables, such as `SSHPASS`, whose value is a credential.
const VARIABLE_ENDS: [&str; 4] = ["AUTH", "PASS", "PW", "PWD"];

/// The shortest word behind `Bearer` in a sentence that is taken for a credential if it has letters of one case only.
const MIN_LETTERS: usize = 16;

/// The shortest word behind `Basic` in a sentence that is taken for a credential.
const MIN_BASIC: usize = 8;

/// Words behind `Bearer` and `Basic` that name the kind of authentication.
const SCHEME_WORDS: [&str; 6] = ["auth", "authentication", "authorization", "scheme", "token", "tokens"];

/// The names of members that hold the name of a variable or header whose value is in the member `value` beside it.
const NAME_MEMBERS: [&str; 4] = ["header", "k", "key", "name"];

/// The names of members that hold the value beside such a name.
const VALUE_MEMBERS: [&str; 4] = ["content", "v", "val", "value"];

/// The names of members whose own members are all credentials.
const CREDENTIAL_LISTS: [&str; 2] = ["credentials", "secrets"];

/// The schemes of object stores, whose addresses have no user.
const STORES: [&str; 5] = ["az", "gs", "oci", "pvc", "s3"];

/// The most objects of a text in a document that is searched as JSON. Braces may be written as escapes in the document, so they are counted again. The text
/// itself is searched however many it has.
const MAX_INNER_OBJECTS: usize = 100_000;

/// The name in a path of a member whose name itself is, or holds, a credential.
const HIDDEN: &str = "(a name)";

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
        Value::Object(members) => {
            if let Some(value) = find_in_pair(name, members).or_else(|| find_under(name, members)) {
                return Some(join(path, value));
            }
            members.iter().find_map(|(name, value)| {
                let is_secret = is_secret_name(name);
                if is_secret { Some(join(path, HIDDEN)) } else { find_in(&join(path, name), name, value) }
            })
        }
        Value::Number(number) => is_secret_number(name, &number.to_string()).then(|| path.to_owned()),
        Value::Null | Value::Bool(_) => None,
    }
}

/// Returns the member with the value if an object, itself the member `own`, has the name of a variable or header and its value, which is a credential.
fn find_in_pair<'a>(own: &str, members: &'a Map<String, Value>) -> Option<&'a str> {
    let of = |names: &[&str], member: &str| names.iter().any(|name| member.eq_ignore_ascii_case(name));
    let names =
        || members.iter().filter(|(member, _)| of(&NAME_MEMBERS, member)).filter_map(|(_, name)| name.as_str()).chain([own]);
    let mut values = members.iter().filter(|(member, _)| of(&VALUE_MEMBERS, member));
    let (found, _) = values.find(|(_, value)| {
        let text = crate::value::text(value);
        text.is_some_and(|text| names().any(|name| is_named(name, &text) || is_secret_member(name, &text)))
    })?;
    Some(found)
}

/// Returns a member whose value is a credential by the name of the object that it is in: `secrets`, or one like `api_key`.
fn find_under<'a>(own: &str, members: &'a Map<String, Value>) -> Option<&'a str> {
    let plain = plain_name(own);
    if !CREDENTIAL_LISTS.contains(&plain.as_str()) && !PASSWORD_ENDS.iter().any(|end| plain.ends_with(end)) {
        return None;
    }
    let is_reference =
        |member: &str| ["from", "name", "ref", "key"].iter().any(|part| member.to_ascii_lowercase().contains(part));
    let is_value = |text: &str| !is_plain_value(text);
    let (found, _) = members.iter().find(|(member, value)| !is_reference(member) && value.as_str().is_some_and(is_value))?;
    Some(found)
}

/// Returns true if the name of a member is a credential, or has one in it.
fn is_secret_name(name: &str) -> bool {
    let is_text = name.len() >= MIN_WORD || name.contains([':', '=', ' ']);
    is_text && ((name.len() >= MIN_WORD && is_credential("", name)) || find_in_text(name))
}

/// Returns true if two values are texts that together hold a credential.
fn is_pair_of_texts(is_pair: fn(&str, &str) -> bool, first: &Value, second: &Value) -> bool {
    matches!((first.as_str(), second.as_str()), (Some(first), Some(second)) if is_pair(first, second))
}

fn is_secret_text(name: &str, text: &str) -> bool {
    // Tools write the body and the headers of a request as a text, too.
    is_named(name, text)
        || is_secret_member(name, text)
        || is_scheme_and_value(text)
        || find_in_text(text)
        || inner_document(text).is_some_and(|inner| find(&inner).is_some())
}

/// Returns the JSON document that a text is; `None` if it is none, or a large one.
fn inner_document(text: &str) -> Option<Value> {
    let is_small = text.trim_start().starts_with(['{', '[']) && !has_more_objects(text.as_bytes(), MAX_INNER_OBJECTS);
    is_small.then(|| serde_json::from_str(text).ok()).flatten()
}

/// Returns true if a value only stands for a credential.
pub(crate) fn is_placeholder(value: &str) -> bool {
    PLACEHOLDERS.iter().any(|placeholder| value.trim().eq_ignore_ascii_case(placeholder))
}

/// Returns true if a value only stands for a credential, or is a number or one of two states.
fn is_plain_value(value: &str) -> bool {
    is_placeholder(value) || ["true", "false"].contains(&value) || value.parse::<f64>().is_ok()
}

/// Returns true if the name of a value marks it as a credential.
fn is_named(name: &str, value: &str) -> bool {
    let value = without_scheme(value.trim());
    let by_name = looks_secret(name, "x") || looks_secret_header(name, "x");
    let by_length = !value.contains(char::is_whitespace) && looks_secret_header(name, value) && !is_credential("", value);
    !is_auth_kind(name, value)
        && !name.is_empty()
        && !is_working_folder(name, value)
        && (is_secret_number(name, value)
            || (!is_plain_value(value) && (by_name || by_length || is_option(name) || is_variable(name, value))))
}

/// Returns the value of a header without the authentication scheme before it.
fn without_scheme(value: &str) -> &str {
    let split = value.split_once(char::is_whitespace).filter(|(scheme, _)| is_scheme(scheme));
    split.map_or(value, |(_, value)| value.trim_start())
}

fn is_scheme(word: &str) -> bool {
    SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

/// Returns true for `PWD`, which shells set to a path.
fn is_working_folder(name: &str, value: &str) -> bool {
    ["PWD", "OLDPWD"].contains(&name) && value.starts_with('/')
}

/// Returns true for the name of a variable, in capitals, whose end marks its value as a credential.
fn is_variable(name: &str, value: &str) -> bool {
    let is_capital = |letter: u8| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == b'_';
    let is_kind = AUTH_KINDS.iter().any(|kind| value.eq_ignore_ascii_case(kind));
    let has_end = VARIABLE_ENDS.iter().any(|end| name.ends_with(end)) && !name.ends_with("BYPASS");
    name.bytes().all(is_capital) && has_end && !is_kind
}

/// Returns true for the names of options and variables of well-known tools that hold a credential.
fn is_option(name: &str) -> bool {
    let plain = plain_name(name);
    let is_service_key = || plain.strip_suffix("key").is_some_and(|service| SERVICES.contains(&service));
    let is_pass = name.rsplit(['-', '_', '.']).next().is_some_and(|last| last.eq_ignore_ascii_case("pass"))
        || ["dbpass", "keypass", "keystorepass", "storepass", "userpass"].contains(&plain.as_str());
    is_pass || plain == "oauth2bearer" || plain.ends_with("password") || is_service_key()
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

/// Returns true for a text that is an authentication scheme and a credential, and nothing else.
fn is_scheme_and_value(text: &str) -> bool {
    let mut words = text.split_ascii_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some(scheme), Some(value), None) if scheme.eq_ignore_ascii_case("bearer") => !is_scheme_word(value),
        (Some(scheme), Some(value), None) => is_secret_of_scheme(scheme, value),
        _ => false,
    }
}

/// Returns true if a word behind `Bearer` or `Basic` is no credential.
fn is_scheme_word(value: &str) -> bool {
    is_placeholder(value) || SCHEME_WORDS.contains(&value)
}

/// Returns true for a scheme in a sentence and a word behind it that is no word of a language.
fn is_secret_of_scheme(scheme: &str, value: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| value.as_bytes().iter().any(kind);
    let is_mixed = value.bytes().skip(1).any(|letter| letter.is_ascii_uppercase()) && has(u8::is_ascii_lowercase);
    let has_digit = has(u8::is_ascii_digit);
    let is_base64 = |letter: u8| letter.is_ascii_alphanumeric() || b"+/=".contains(&letter);
    let is_secret = match scheme.to_ascii_lowercase().as_str() {
        "bearer" => has_digit || is_mixed || value.len() >= MIN_LETTERS,
        "basic" => value.len() >= MIN_BASIC && value.bytes().all(is_base64) && (value.ends_with('=') || (has_digit && is_mixed)),
        _ => false,
    };
    is_secret && !is_scheme_word(value)
}

/// Returns true if a text, such as a command line, has an option, header, variable or address with a credential.
pub(crate) fn find_in_text(text: &str) -> bool {
    // Decoded once only: a hostile text may be encoded any number of times.
    find_in_plain_text(text) || decoded(text).is_some_and(|decoded| find_in_plain_text(&decoded))
}

fn find_in_plain_text(text: &str) -> bool {
    let is_separator = |c: char| c.is_whitespace() || "\"'`,;{}<>()[]\\".contains(c);
    // A value in quotes belongs to the name in front of it.
    let text = &with_plain_assignments(text);
    let words = joined_words(text.split(is_separator).filter(|word| !word.is_empty()));
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let has_option = |command: &str| {
        password_option(&command.split(is_separator).filter(|word| !word.is_empty()).collect::<Vec<_>>()).is_some()
    };
    has_private_key(text)
        || (0..words.len()).any(|first| words.get(first..).is_some_and(begin_with_credential))
        || text.replace("\\\n", " ").split([';', '\n']).any(has_option)
}

/// Returns a text with `=` alone for each of [`ASSIGNMENTS`].
fn with_plain_assignments(text: &str) -> Cow<'_, str> {
    // Every text of a document comes here, and most have no sign of an assignment.
    let assignments = if text.contains('=') { &ASSIGNMENTS[..] } else { &[] };
    assignments.iter().fold(Cow::Borrowed(text), |text, assignment| {
        if text.contains(assignment) { Cow::Owned(text.replace(assignment, "=")) } else { text }
    })
}

/// Returns a text with its percent-encoded characters as they are meant; `None` if it has none.
fn decoded(text: &str) -> Option<String> {
    let decoded = text.contains('%').then(|| percent_encoding::percent_decode_str(text).decode_utf8_lossy())?;
    (decoded != text).then(|| decoded.into_owned())
}

/// Joins a `:` or `=` that stands alone to the word in front of it: the quotes around a member's name were separators.
fn joined_words<'a>(words: impl Iterator<Item = &'a str>) -> Vec<Cow<'a, str>> {
    let mut joined: Vec<Cow<'a, str>> = Vec::new();
    for word in words {
        match joined.last_mut() {
            Some(last) if [":", "="].contains(&word) && !last.ends_with([':', '=']) => last.to_mut().push_str(word),
            _ => joined.push(Cow::Borrowed(word)),
        }
    }
    joined
}

/// Returns true if the first of some words holds a credential, by itself or with the words behind it.
fn begin_with_credential(words: &[&str]) -> bool {
    let Some((first, rest)) = words.split_first() else { return false };
    is_secret_word(first)
        || match rest {
            [] => false,
            // The name of a variable and its value, as two members.
            [name, member, value, ..] if is_member(&NAME_MEMBERS, first) && is_member(&VALUE_MEMBERS, member) => {
                is_header(name, value) || is_secret_member(name, value)
            }
            [next, ..] if first.starts_with('-') && is_secret_option(first, next) => true,
            [next, ..] if is_secret_of_scheme(first, next) => true,
            ["is" | "was", value, ..] if is_said(first, value) => true,
            [scheme, value, ..] if first.ends_with([':', '=']) && is_scheme(scheme) => is_header(first, value),
            // In YAML, a name with members is followed by another name.
            [next, ..] if first.ends_with(':') => !next.ends_with(':') && is_header(first, next),
            // The value of `Authorization:Bearer` is the next word.
            [next, ..] => {
                let split = first.rsplit_once([':', '=']).filter(|(_, scheme)| is_scheme(scheme));
                split.is_some_and(|(name, _)| is_header(name, next))
            }
        }
}

/// Returns true for `password is VALUE`, if the value is no word of a language.
fn is_said(name: &str, value: &str) -> bool {
    let name = plain_name(name);
    let is_name = ["key", "token"].contains(&name.as_str()) || PASSWORD_ENDS.iter().any(|end| name.ends_with(end));
    is_name && is_no_word(value)
}

/// Returns the place of the first program among some words behind which is an option with a password.
fn password_option(words: &[&str]) -> Option<usize> {
    (0..words.len()).find(|at| matches!(words.get(*at..), Some([program, rest @ ..]) if has_password_option(program, rest)))
}

/// Returns true if a program is one with an option of one letter for a password, and the option is behind it with a value.
fn has_password_option(program: &str, rest: &[&str]) -> bool {
    let program = program.rsplit('/').next().unwrap_or(program);
    let options =
        |known: &'static [(&str, &str)]| known.iter().filter(move |(name, _)| *name == program).map(|(_, option)| *option);
    let is_value = |value: &str| !(value.starts_with('-') || is_placeholder(value) || program == LOGIN && is_port(value));
    let end = rest.iter().take(MAX_OPTIONS).position(|word| COMMAND_ENDS.contains(word)).unwrap_or(rest.len().min(MAX_OPTIONS));
    let words = rest.get(..end).unwrap_or_default();
    let is_next = |option: &str| words.windows(2).any(|two| matches!(two, [first, value] if *first == option && is_value(value)));
    let is_attached = |option: &str| words.iter().any(|word| word.strip_prefix(option).is_some_and(is_value));
    let is_user = |option: &str| {
        words.windows(2).any(|two| matches!(two, [first, value] if *first == option && is_user_with_password(value)))
    };
    options(&PASSWORD_OPTIONS).any(is_next)
        || options(&ATTACHED_PASSWORD_OPTIONS).any(is_attached)
        || options(&USER_OPTIONS).any(is_user)
        || (KEY_LOGINS.contains(&program) && has_key_behind_login(words))
        || (SETTERS.contains(&program) && sets_credential(words))
        || (program == LOGIN && words.iter().any(|word| is_attached_password(word)))
}

/// Returns true for `login VALUE`, if the value is no word of a language, no address and no file.
fn has_key_behind_login(words: &[&str]) -> bool {
    let is_key = |value: &str| is_no_word(value) && !value.contains(['/', ':']);
    let arguments: Vec<&str> = words.iter().copied().filter(|word| !word.starts_with('-')).collect();
    arguments.windows(2).any(|two| matches!(two, [LOGIN, value] if is_key(value)))
}

/// Returns true for `set NAME VALUE`, `--set NAME VALUE` and `config NAME VALUE`, with options between.
fn sets_credential(words: &[&str]) -> bool {
    let sets = |name: &str, value: &str| name != SIGNING_KEY_ID && (is_header(name, value) || is_secret_member(name, value));
    let arguments: Vec<&str> = words.iter().copied().filter(|word| *word == "--set" || !word.starts_with('-')).collect();
    arguments.windows(3).any(|three| matches!(three, ["set" | "--set" | "config", name, value] if sets(name, value)))
}

/// Returns true for a text with letters and digits as long as a password.
fn is_no_word(value: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| value.as_bytes().iter().any(kind);
    value.len() >= MIN_SAID && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic) && !is_placeholder(value)
}

/// Returns true for a number that may be the port of a host.
fn is_port(value: &str) -> bool {
    value.len() <= MAX_PORT_DIGITS && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns true for `-p=VALUE` and `-pVALUE`, if it is no word of letters, such as `-print`.
fn is_attached_password(word: &str) -> bool {
    word.strip_prefix("-p").is_some_and(|value| {
        let value = value.strip_prefix('=').unwrap_or(value);
        !is_placeholder(value)
            && !is_port(value)
            && (word.starts_with("-p=") || value.bytes().any(|byte| !byte.is_ascii_lowercase()))
    })
}

/// Returns true for one of these names of members with the colon behind it.
fn is_member(names: &[&str], word: &str) -> bool {
    word.strip_suffix(':').is_some_and(|word| names.iter().any(|name| word.eq_ignore_ascii_case(name)))
}

/// Returns true if a word holds a credential by itself.
fn is_secret_word(word: &str) -> bool {
    (word.len() >= MIN_WORD && is_credential("", word))
        || is_secret_address(word)
        || is_assignment(word)
        || is_attached_user(word)
}

/// Returns true if the name of a header or variable marks its value as a credential. The name may stand behind an option.
fn is_header(name: &str, value: &str) -> bool {
    let name = name.trim_end_matches([':', '=']);
    let name = name.rsplit_once('=').map_or(name, |(_, name)| name);
    names_of(name).any(|name| is_named(name, value) || is_session_header(name, value))
}

/// Returns true for a header such as `X-Team-Session`, unless its value is a number.
fn is_session_header(name: &str, value: &str) -> bool {
    let words = words_of(name);
    let is_own = words.first().is_some_and(|first| first == "x");
    let is_last = words.last().is_some_and(|last| AUTHENTICATION_WORDS.contains(&last.as_str()));
    is_own && is_last && !is_plain_value(value)
}

/// Returns the names that a word may give to its value: its own without hyphens, and behind one or two options of one letter, such as
/// `-HX-Api-Key`, `-Dtoken` and `-J-Dtoken`, the name that is attached to them; of `aws.secretAccessKey` also its last part.
fn names_of(word: &str) -> impl Iterator<Item = &str> {
    let names = std::iter::successors(Some(word), |word| attached_name(word)).take(3).map(|name| name.trim_start_matches('-'));
    names.flat_map(|name| [Some(name), name.rsplit_once('.').map(|(_, last)| last)].into_iter().flatten())
}

fn attached_name(word: &str) -> Option<&str> {
    word.strip_prefix('-')?.strip_prefix(|letter: char| letter.is_ascii_alphabetic()).filter(|name| !name.is_empty())
}

/// Returns true for an option of a command whose value is a credential.
fn is_secret_option(option: &str, value: &str) -> bool {
    match option {
        "-u" | "-U" if is_user_with_password(value) => true,
        "-b" | "--cookie" if is_session(value) => true,
        _ => {
            option.starts_with('-')
                && (names_of(option).any(|name| is_named(name, value) || is_authentication(name, value))
                    || (names_user(option) && is_user_with_password(value)))
        }
    }
}

/// Returns true for an option whose value may be `user:password`.
fn names_user(option: &str) -> bool {
    words_of(option).last().is_some_and(|last| USER_WORDS.contains(&last.as_str()))
}

/// Returns true if the name of an option marks its value as a credential of a client or of a session.
fn is_authentication(name: &str, value: &str) -> bool {
    let is_kind = AUTH_KINDS.iter().any(|kind| value.eq_ignore_ascii_case(kind));
    let is_session =
        || SESSION_OPTIONS.contains(&name) && is_no_word(value) && value.len() >= MIN_SESSION && !value.contains('-');
    (names_authentication(name) || AUTHENTICATION_NAMES.contains(&name) || is_session())
        && !(is_kind || is_plain_value(value) || value.starts_with('-'))
}

/// Returns true for the name of an option or variable that holds a credential of a client or of a session, such as `session-id` and `AUTH_HEADER`.
pub fn names_authentication(name: &str) -> bool {
    let words = words_of(name);
    let Some((last, others)) = words.split_last() else { return false };
    CARRIER_WORDS.contains(&last.as_str()) && others.iter().any(|word| AUTHENTICATION_WORDS.contains(&word.as_str()))
}

/// Returns the words of a name in lower case: they are separated by a sign or by a capital.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for letter in name.chars() {
        if !letter.is_ascii_alphanumeric() || (before.is_ascii_lowercase() && letter.is_ascii_uppercase()) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_ascii_alphanumeric()) {
            word.push(letter.to_ascii_lowercase());
        }
        before = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns true for `user:password`. Numbers are the ids of a user and a group, and an address or a path is no user.
fn is_user_with_password(value: &str) -> bool {
    value.split_once(':').is_some_and(|(user, password)| {
        let is_id = password.bytes().all(|byte| byte.is_ascii_digit()) && user.bytes().all(|byte| byte.is_ascii_digit());
        let is_other = password.is_empty() || password.starts_with('/') || password.contains("://");
        !user.is_empty() && !is_other && !is_id && !is_placeholder(password)
    })
}

/// Returns true for `-uUSER:PASSWORD` and `--user=USER:PASSWORD`.
fn is_attached_user(word: &str) -> bool {
    let of_option = word.split_once('=').filter(|(name, _)| name.starts_with('-') && names_user(name)).map(|(_, value)| value);
    let attached = || ["-u", "-U"].iter().find_map(|prefix| word.strip_prefix(prefix));
    of_option.or_else(attached).is_some_and(is_user_with_password)
}

/// Returns true for a cookie, `name=value`, whose name is that of a session.
fn is_session(value: &str) -> bool {
    value.split_once('=').is_some_and(|(name, value)| {
        let name = name.to_ascii_lowercase();
        !value.is_empty() && !is_placeholder(value) && SESSION_NAMES.iter().any(|part| name.contains(part))
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
    let texts: Vec<&str> = words.iter().map(String::as_str).collect();
    let of_two = || words.windows(2).position(is_pair);
    words.iter().position(is_alone).or_else(of_two).or_else(|| password_option(&texts))
}

/// Returns true for `--api-key=value`, `API_KEY=value`, `X-Api-Key:value`, `--header=X-Api-Key:value` and `--jvm=-Dtoken=value`.
fn is_assignment(word: &str) -> bool {
    let is_option = |(name, value): (&str, &str)| {
        name.starts_with('-') && !is_scheme(value) && names_of(name).any(|name| is_authentication(name, value))
    };
    if word.split_once('=').is_some_and(is_option) {
        return true;
    }
    let is_secret = |(name, value): (&str, &str)| !is_scheme(value) && is_header(name, value);
    let sets = |part: &str| part.match_indices('=').take(MAX_ASSIGNMENTS).any(|(at, _)| is_secret(split_behind(part, at)));
    word.split(['?', '&']).any(|part| sets(part) || part.split_once(':').is_some_and(is_secret))
}

/// Returns the parts of a text around the ASCII character at this place.
fn split_behind(text: &str, at: usize) -> (&str, &str) {
    (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default())
}

/// Returns true for an address, or a path with a query, that has a key, a user or a password in it.
fn is_secret_address(word: &str) -> bool {
    if !word.contains("://") && !word.contains('?') {
        return false;
    }
    let address = without_placeholders(word);
    carries_password(&address) || carries_key(&address)
}

/// Returns an address without the parameters and the user that are no credentials: placeholders, and the user `git` of any host.
fn without_placeholders(address: &str) -> String {
    let (place, query) = address.split_once('?').unwrap_or((address, ""));
    let is_kept = |parameter: &&str| parameter.split_once('=').is_none_or(|(_, value)| !is_placeholder(value));
    let query: Vec<&str> = query.split('&').filter(is_kept).collect();
    let place = match place.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.split_once('@')?))) {
        Some((scheme, (user, rest))) if is_plain_user(user) || is_bucket(scheme, user) => format!("{scheme}://{rest}"),
        _ => place.to_owned(),
    };
    format!("{place}?{}", query.join("&"))
}

/// Returns true if the part of an address in front of `@` is a bucket, whose region is behind it.
fn is_bucket(scheme: &str, user: &str) -> bool {
    STORES.contains(&scheme) && !user.contains(':')
}

fn is_plain_user(user: &str) -> bool {
    let last = user.rsplit_once(':').map_or(user, |(_, password)| password);
    user == "git" || is_placeholder(last)
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
            (json!({"cmd": "curl -H X-Api-Key:canary http://h"}), "cmd"),
            (json!({"cmd": "curl -HX-Api-Key:canary http://h"}), "cmd"),
            (json!({"cmd": "tool --header=X-Api-Key:canary"}), "cmd"),
            (json!({"cmd": "curl -H 'Authorization:Bearer canary' http://h"}), "cmd"),
            (json!({"cmd": "tool --header=Authorization:Bearer canary"}), "cmd"),
            (json!({"cmd": "curl -U me:canary http://h"}), "cmd"),
            (json!({"cmd": "curl -ume:canary http://h"}), "cmd"),
            (json!({"cmd": "curl --user=me:canary http://h"}), "cmd"),
            (json!({"args": ["curl", "-U", "me:canary"]}), "args"),
            (json!({"url": "http://h/v1?sv=1&sig=canary"}), "url"),
            (json!({"url": "/v1?code=canary"}), "url"),
            (json!({"cmd": "curl 'http://h/v1?key=abc'"}), "cmd"),
            (json!({"env": [{"name": "PGPASSWORD", "value": "canary"}]}), "env[]/value"),
            (json!({"env": [{"name": "PGPASSWORD", "value": 48_151_623}]}), "env[]/value"),
            (json!({"headers": [{"name": "Authorization", "value": "Basic Y2FuYXJ5"}]}), "headers[]/value"),
            (json!({"headers": [{"key": "Cookie", "value": "session=canary"}]}), "headers[]/value"),
            (json!({"remote": "https://canary@github.com/x"}), "remote"),
            (json!({"remote": "clone https://canary:x@github.com/x"}), "remote"),
            (json!({"header": "Bearer canary"}), "header"),
            (json!({"note": "it sent Bearer canaryCanary to h"}), "note"),
            (json!({"note": "it sent Bearer canarycanarycanary to h"}), "note"),
            (json!({"note": "it sent Basic Y2FuYXJ5Om1l to h"}), "note"),
            (json!({"keys": {KEY: 1}}), "keys/(a name)"),
            (json!({"seen": {"curl -H X-Api-Key:canary": 1}}), "seen/(a name)"),
            (json!({"env": "DB_PWD=canary"}), "env"),
            (json!({"cmd": "API_KEY=\"canary\" tool"}), "cmd"),
            (json!({"cmd": "export OPENAI_API_KEY='canary'; tool"}), "cmd"),
            (json!({"cmd": "sh -c \"API_KEY=\\\"canary\\\" tool\""}), "cmd"),
            (json!({"cmd": "curl -d '{\"n\": 1, \"api_key\": \"canary\"}' http://h"}), "cmd"),
            (json!({"OPENAI_API_KEY": {"value": "canary"}}), "OPENAI_API_KEY/value"),
            (json!({"env": [{"Name": "MY_PASSWORD", "Value": "canary"}]}), "env[]/Value"),
            (json!({"headers": [{"header": "x-api-key", "content": "canary"}]}), "headers[]/content"),
            (json!({"secrets": {"llama": "canary"}}), "secrets/llama"),
            (json!({"apiKey": {"plain": "canary"}}), "apiKey/plain"),
            (json!({"env": "- name: API_KEY\n  value: canary"}), "env"),
            (json!({"env": "cfg=[{\"name\":\"API_KEY\",\"value\":\"canary\"}]"}), "env"),
            (json!({"env": {"SSHPASS": "canary"}}), "env/SSHPASS"),
            (json!({"cmd": "sshpass -p canary ssh h"}), "cmd"),
            (json!({"cmd": "/usr/bin/sshpass -pcanary ssh h"}), "cmd"),
            (json!({"cmd": "redis-cli -h 127.0.0.1 -a canary ping"}), "cmd"),
            (json!({"cmd": "mysql -u me -pcanary db"}), "cmd"),
            (json!({"cmd": "sysbench --mysql-password=canary run"}), "cmd"),
            (json!({"note": "# the password is canary-4f2b"}), "note"),
            (json!({"to": "AccountName=a;AccountKey=Y2FuYXJ5;Endpoint=h"}), "to"),
            (json!({"body": "model=m&api%5Fkey=canary-4f2b"}), "body"),
            (json!({"body": "%7B%22api_key%22%3A%20%22canary-4f2b%22%7D"}), "body"),
            (json!({"env": {"REGISTRY_AUTH": "canary"}}), "env/REGISTRY_AUTH"),
            (json!({"env": {"MYPW": "canary"}}), "env/MYPW"),
            (json!({"code": "import os; os.environ['API_KEY']='canary'; main()"}), "code"),
            (json!({"code": "os.environ[\"API_KEY\"] = \"canary\""}), "code"),
            (json!({"cmd": "docker login -u me \\\n  -p canary h"}), "cmd"),
            (json!({"note": "the secret key is wJalr/K7MDENG4f2b"}), "note"),
            (json!({"cmd": "curl -H 'X-Foo-Session: canary' http://h"}), "cmd"),
            (json!({"request_args": format!("{{\"headers\":{{\"Authorization\":\"Bearer {KEY}\"}}}}")}), "request_args"),
        ];
        for (document, place) in cases {
            assert_eq!(find(&document).as_deref(), Some(place), "{document}");
        }
    }

    /// The braces of a text may be escapes in the file, which the limit of the file does not count.
    #[test]
    fn a_text_of_many_objects_is_not_parsed() {
        let text = |objects: usize| format!("[{}{{\"apiKey\": {{\"plain\": \"canary\"}}}}]", "{},".repeat(objects - 2));
        assert_eq!(find(&json!({"body": text(MAX_INNER_OBJECTS)})).as_deref(), Some("body"));
        assert_eq!(inner_document(&text(MAX_INNER_OBJECTS + 1)), None);
    }

    #[test]
    fn credentials_are_found_in_the_words_of_a_command() {
        let place = |words: &[&str]| credential_in_words(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(place(&["tool", "a", "--token", "canary-4f2b"]), Some(2));
        assert_eq!(place(&["tool", "--token=canary-4f2b"]), Some(1));
        for word in [
            "-Dtoken=canary",
            "-Dapi.token=canary",
            "-Dspring.datasource.token=canary",
            "-DgithubToken=canary",
            "-DapiToken=canary",
            "-DAPI_TOKEN=canary",
            "-Daws.secretAccessKey=canary",
            "-J-Dtoken=canary",
            "-Ptoken=canary",
            "-eHF_TOKEN=canary",
            "-token=canary",
            "-api-key=canary",
            "-client_secret=canary",
            "--client.secret=canary",
            "--jvm-args=-Dtoken=canary",
            "--env=HF_TOKEN=canary",
            "--db-pass=canary",
            "--http-pass=canary",
            "--storepass=canary",
            "--encryption-key=canary",
            "-HX-Api-Key:canary",
        ] {
            assert_eq!(place(&["java", word]), Some(1), "{word}");
        }
        for words in [
            ["-token", "canary"],
            ["-D", "token=canary"],
            ["-e", "HF_TOKEN=canary"],
            ["--github.token", "canary"],
            ["--db-pass", "canary"],
            ["--master-key", "canary"],
        ] {
            assert!(place(&["tool", words[0], words[1]]).is_some(), "{words:?}");
        }
        for words in [
            &["--auth-header", "canary"][..],
            &["--auth-header=canary"],
            &["--authHeader", "canary"],
            &["-auth-header", "canary"],
            &["--session-id", "canary"],
            &["--session_id=canary"],
            &["-Dsession.id=canary"],
            &["--x-session-cookie", "canary"],
            &["--auth", "canary"],
            &["--jwt", "canary"],
            &["--otp=canary"],
            &["--login", "a:canary"],
            &["--login=a:canary"],
            &["--db-user", "a:canary"],
            &["--basic-auth", "a:canary"],
            &["--creds", "a:canary"],
            &["-user", "a:canary"],
            &["login", "-p", "canary"],
            &["login", "-u", "me", "-p", "canary", "registry.example.org"],
            &["login", "-p=canary"],
            &["login", "-pcanary-4f2b"],
            &["--session", "canary4f2bcanary4f2b"],
            &["--sid=canary4f2bcanary4f2b"],
            &["--pw", "canary"],
            &["--pat", "canary"],
            &["--sas=canary"],
            &["aws", "configure", "set", "aws_secret_access_key", "canary"],
            &["npm", "config", "set", "_auth", "canary"],
            &["vault", "login", "canary-4f2b"],
            &["wandb", "login", "--relogin", "canary-4f2b"],
            &["git", "config", "--global", "github.token", "canary"],
            &["conda", "config", "--set", "api_key", "canary"],
            &["twine", "upload", "-u", "me", "-p", "canary"],
            &["sh", "-c", "docker login -u me -p canary"],
            &["sh", "-c", "helm registry login h -p canary && true"],
        ] {
            assert!(place(&[&["tool"], words].concat()).is_some(), "{words:?}");
        }
        for words in [
            ["hey", "-a", "a:canary", "http://h"],
            ["ab", "-A", "a:canary", "http://h"],
            ["unzip", "-P", "canary", "a.zip"],
            ["sqlcmd", "-P", "canary", "-Q"],
            ["7z", "a", "-pcanary", "a.7z"],
        ] {
            assert!(place(&words).is_some(), "{words:?}");
        }
        for words in [
            &["server", "-p", "8080"][..],
            &["mkdir", "-p", "x"],
            &["cp", "-p", "a", "b"],
            &["nc", "-p", "80", "h"],
            &["python", "-c", "print(1)"],
            &["node", "-p", "1+1"],
            &["docker", "run", "-p", "8080:80", "-u", "1000:1000", "image"],
            &["docker", "login", "--help"],
            &["ssh", "login", "-p", "2222"],
            &[
                "docker",
                "login",
                "h",
                "&&",
                "docker",
                "build",
                "-t",
                "image-4f2b",
                ".",
                "&&",
                "docker",
                "run",
                "-p",
                "8080:80",
                "image-4f2b",
            ],
            &["sh", "-c", "docker login h; docker build -t image-4f2b . ; docker run -p 8080:80 image"],
            &["sh", "-c", "docker login h\ndocker run -p 8080:80 image"],
            &["git", "config", "user.signingkey", "ABCD1234"],
            &["vault", "login", "https://vault.example.org:8200"],
            &["nsys", "stop", "--session=profile-8834-python3", "--sid", "ORCL19"],
            &["sh", "-c", "[[ $password =~ ^x ]] && grep token '=foo' file"],
            &["find", "login", "-print"],
            &["patch", "-p1"],
            &["pytest", "-p", "no:cacheprovider"],
            &["rsync", "-a", "host:folder", "."],
            &["tool", "--auth-type", "basic", "--auth", "kerberos", "--auth=none", "--no-auth", "x"],
            &["initdb", "--auth", "trust"],
            &["tool", "--author", "me", "--oauth-url", "http://h", "--login-timeout", "5s"],
            &["tool", "--session-turns", "2", "--session-id", "7", "--session-timeout=5m"],
            &["tool", "--user-agent", "a:b", "--user", "1000:1000", "--login", "me"],
            &["tool", "--auth-file", "a:b", "--account-id", "arn:aws:iam"],
            &["tool", "--session", "nightly", "--sid", "7", "--pin", "0-3", "--patience", "3"],
            &[
                "git",
                "config",
                "user.name",
                "me",
                "&&",
                "npm",
                "config",
                "set",
                "fund",
                "false",
                "&&",
                "vault",
                "login",
                "-method=oidc",
            ],
            &["wandb", "login", "&&", "python3", "train.py"],
            &["curl", "-H", "X-Trace-Id: 4f2b4f2b", "-H", "X-Session: 7", "http://h"],
            &["python3", "-c", "assert found['token'] == 'eos'"],
        ] {
            assert_eq!(place(words), None, "{words:?}");
        }
        for word in [
            "-Dtokens=8",
            "-Dmax.token=8",
            "-Dtokenizer=gpt2",
            "-Dtoken=",
            "-Dtoken=REDACTED",
            "-Dgen_ai.token.type=input",
            "-Xmx4g",
            "--bypass=host",
            "--two-pass=true",
            "--sort-key=name",
        ] {
            assert_eq!(place(&["java", word]), None, "{word}");
        }
        assert_eq!(place(&["tool", "Authorization:", "canary-4f2b"]), Some(1));
        assert_eq!(place(&["tool", r#"{"api_key": "canary-4f2b"}"#]), Some(1));
        assert_eq!(place(&["env", "sshpass", "-v", "-p", "canary", "ssh"]), Some(1));
        assert_eq!(place(&["gen-token", "x"]), None, "the name of a program is no option");
        assert_eq!(place(&["tool", "--token"]), None);
        assert_eq!(place(&[]), None);
    }

    #[test]
    fn names_counts_and_placeholders_are_no_credentials() {
        let documents = [
            json!({"secrets": {"secretKeyRef": "llm", "name": "llm", "count": "3"}, "time_to_first_token": {"unit": "ms", "value": 3.5}}),
            json!({"storageUri": "s3://benchmarks@eu-central-1/llama"}),
            json!({"api_key": null, "other_api_key": "none", "password": "", "auth_type": "api_key", "has_api_key": true}),
            json!({"cmd": "tool --api-key none --max-tokens 128 --tokenizer gpt2"}),
            json!({"tag": "time_to_first_token", "unit": "ms", "tokenizer": "gpt2", "token_count": 7}),
            json!({"text": "sk-learn and hf_transformers are names; basic research is none; a bearer of news"}),
            json!({"text": "time_to_first_token: {units: s, mean: 0.061}"}),
            json!({"cmd": "tool --url http://127.0.0.1:8000/v1?model=m --request-rate=4"}),
            json!({"cmd": "docker run -u 1000:1000 -b size=32 --sort-key name --pass 3 --bypass cache"}),
            json!({"auth": "bearer", "bearer": null, "credentials": "none", "max_tokens": 4096, "secret": 3, "n": 48_151_623}),
            json!({"cmd": "tool a:b sums:10 --image=host/x:latest -u 1000:1000 -u1000:1000 -url:http://h --user=1000:1000"}),
            json!({"cmd": "curl -H 'Authorization: Bearer REDACTED' -H X-Api-Key:REDACTED -H Authorization:Bearer REDACTED http://h"}),
            json!({"cmd": "curl -u me:REDACTED 'http://h/v1?key=REDACTED&code=200' https://REDACTED@h/x https://me:REDACTED@h/x"}),
            json!({"env": [{"name": "MODEL", "value": "m"}, {"name": "HF_TOKEN", "value": "redacted"}, {"name": "HF_TOKEN"}]}),
            json!({"headers": [{"name": "Authorization", "value": "Bearer REDACTED"}], "header": "Bearer ***"}),
            json!({"text": "Bearer authentication", "more": "a basic question about Basic auth, and bearer tokens: none"}),
            json!({"packages": "git+https://git@github.com/x/y ssh://git@github.com/x", "PWD": "/home/me", "GPU_BYPASS": "cache"}),
            json!({"env": {"HTTP_AUTH": "basic", "COMPASS": "", "TEST_PASSES": "three"}, "time_to_first_token:50": 1}),
            json!({"cmd": ["mysql -p db", "redis-cli -a none", "sshpass -p REDACTED ssh h", "mysqld -pid", "mongo -p --quiet"]}),
            json!({"cmd": "ssh -p 2222 h 'tool -a all -w 4'"}),
            json!({"text": "the password is required, the token is missing: 100% of 4%20 requests, key is 12345678"}),
            json!({"note": "-----BEGIN CERTIFICATE-----", "first_token": 12_345, "passes": "three", "author": "somebody"}),
        ];
        for document in documents {
            assert_eq!(find(&document), None, "{document}");
        }
    }
}
