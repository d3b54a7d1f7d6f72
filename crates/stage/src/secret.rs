//! Secrets that a definition names and never holds, and masking of secrets in foreign output.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::Read as _;

use assay_manifest::EnvVar;

/// The largest secret that is read from a file, in bytes: as large as one environment variable may be on Linux.
const MAX_SECRET_BYTES: u64 = 128 << 10;

/// The shortest value that is masked as a secret, in bytes: shorter ones occur in ordinary output by chance.
const MIN_SECRET_BYTES: usize = 6;

/// The replacement of a secret.
const MASK: &[u8] = b"[secret]";

/// The prefix of all variables that a definition may read if Assay runs in a pod. All other variables there are Assay's own,
/// credentials among them, and a definition is not trusted with them.
pub const ENDPOINT_PREFIX: &str = "ENDPOINT_";

/// Reads the text of a file without the trailing line end that editors add.
pub fn read_secret(path: &str) -> std::io::Result<OsString> {
    let mut text = String::new();
    let read = File::open(path)?.take(MAX_SECRET_BYTES + 1).read_to_string(&mut text)?;
    if read as u64 > MAX_SECRET_BYTES {
        return Err(std::io::Error::other(format!("it is larger than the limit of {MAX_SECRET_BYTES} bytes")));
    }
    Ok(text.trim_end_matches('\n').into())
}

/// The reason why a variable or header has no value.
#[derive(Debug)]
pub enum MissingValue {
    /// This variable of the environment is not set.
    Env(String),
    /// This file cannot be read.
    File(String, std::io::Error),
    /// Its definition names neither a value nor a source of one.
    Undefined,
}

/// Returns the value of a variable or header: the one in its definition, or the one at the source that the definition names.
pub fn read_value(variable: &EnvVar) -> Result<OsString, MissingValue> {
    let in_pod = std::env::var_os(crate::pod::POD).is_some();
    match (&variable.value, &variable.from_env, &variable.from_file) {
        (Some(value), _, _) => Ok(value.into()),
        (None, Some(name), _) => {
            let asked = if in_pod { format!("{ENDPOINT_PREFIX}{name}") } else { name.clone() };
            std::env::var_os(asked).ok_or_else(|| MissingValue::Env(name.clone()))
        }
        (None, None, Some(path)) if in_pod => {
            let why = "no definition reads a file of a pod: name a member of the Secret `assay-endpoints` with `from_env`";
            Err(MissingValue::File(path.clone(), std::io::Error::other(why)))
        }
        (None, None, Some(path)) => read_secret(path).map_err(|error| MissingValue::File(path.clone(), error)),
        (None, None, None) => Err(MissingValue::Undefined),
    }
}

/// Secrets that were passed to another program, which may repeat them in its output. They are never printed.
#[derive(Clone, Default)]
pub struct Secrets(Vec<Vec<u8>>);

impl Secrets {
    /// Takes these values, except those that are too short to be distinguished from ordinary output.
    pub fn new<V: Into<Vec<u8>>>(values: impl IntoIterator<Item = V>) -> Self {
        let values = values.into_iter().map(Into::into);
        Self(values.filter(|value| value.len() >= MIN_SECRET_BYTES).collect())
    }

    /// Returns true if there is no secret to mask.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the bytes with every secret masked; `None` if they contain none.
    pub fn mask(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.masked(bytes, |rest| self.longest_prefix(rest))
    }

    /// Masks a text that was cut at some length: at its end, the beginning of a secret is masked too.
    pub fn mask_truncated(&self, text: &str) -> Option<String> {
        let masked = self.masked(text.as_bytes(), |rest| {
            let is_begun = rest.len() >= MIN_SECRET_BYTES && self.0.iter().any(|secret| secret.starts_with(rest));
            self.longest_prefix(rest).or(is_begun.then_some(rest.len()))
        });
        masked.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the length of the longest secret that `rest` begins with.
    fn longest_prefix(&self, rest: &[u8]) -> Option<usize> {
        self.0.iter().filter(|secret| rest.starts_with(secret)).map(Vec::len).max()
    }

    fn masked(&self, bytes: &[u8], secret_at: impl Fn(&[u8]) -> Option<usize>) -> Option<Vec<u8>> {
        if self.is_empty() {
            return None;
        }
        let (mut masked, mut rest, mut held) = (Vec::new(), bytes, false);
        while let Some((first, after)) = rest.split_first() {
            rest = if let Some(length) = secret_at(rest) {
                held = true;
                masked.extend_from_slice(MASK);
                rest.get(length..).unwrap_or_default()
            } else {
                masked.push(*first);
                after
            };
        }
        held.then_some(masked)
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} secrets", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> std::io::Result<OsString> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), bytes).expect("written");
        read_secret(file.path().to_str().expect("UTF-8"))
    }

    #[test]
    fn a_secret_is_what_stands_in_the_file_without_the_line_end() {
        assert_eq!(read(b"token").expect("read"), "token");
        assert_eq!(read(b" to ken \n\n").expect("read"), " to ken ");
        assert_eq!(read(b"").expect("read"), "");
    }

    #[test]
    fn what_is_no_secret_is_refused() {
        assert!(read(b"\xff").is_err(), "no text");
        let limit = usize::try_from(MAX_SECRET_BYTES).expect("it fits");
        assert!(read(&vec![b'x'; limit]).is_ok());
        assert!(read(&vec![b'x'; limit + 1]).is_err());
        assert!(read_secret("/nonexistent/token").is_err());
    }

    /// Returns the text with these secrets masked; `-` if it contains none.
    fn masked(text: &str, secrets: &[&str]) -> String {
        let masked = Secrets::new(secrets.iter().copied()).mask(text.as_bytes());
        masked.map_or_else(|| "-".to_owned(), |bytes| String::from_utf8(bytes).expect("text"))
    }

    #[test]
    fn secrets_are_masked_wherever_they_stand() {
        assert_eq!(masked("token hunter22!", &["hunter22"]), "token [secret]!");
        assert_eq!(masked("hunter22hunter22", &["hunter22"]), "[secret][secret]");
        assert_eq!(masked("abcdefgh", &["abcdef", "abcdefgh"]), "[secret]", "the longest wins");
        assert_eq!(masked("nothing here", &["hunter22"]), "-");
        assert_eq!(masked("yes yes", &["yes"]), "-", "short values stand in ordinary output");
        assert_eq!(masked("", &["hunter22"]), "-");
        assert_eq!(masked("a hunter2", &["hunter22"]), "-", "a part of it is not it");
    }

    #[test]
    fn a_cut_text_may_end_in_the_middle_of_a_secret() {
        let masked = |text| Secrets::new(["hunter22"]).mask_truncated(text).unwrap_or_else(|| "-".to_owned());
        assert_eq!(masked("it is hunter2"), "it is [secret]");
        assert_eq!(masked("hunter22 is hunter"), "[secret] is [secret]");
        assert_eq!(masked("it is hunte"), "-", "too little of it");
        assert_eq!(masked("hunter2 it is"), "-", "not at the end");
        assert_eq!(masked("müde hunter22"), "müde [secret]");
    }

    #[test]
    fn nothing_prints_a_secret() {
        assert_eq!(format!("{:?}", Secrets::new(["hunter22", "short"])), "1 secrets");
    }
}
