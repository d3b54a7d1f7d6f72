//! The headers of a target: a definition names them and never holds their secrets.

use std::fmt;

use assay_manifest::EnvVar;
use assay_stage::{MissingValue, Secrets};
use ureq::http::{HeaderName, HeaderValue};

/// Headers with their values, which are treated as secrets: they are never printed.
#[derive(Clone, Default)]
pub struct Headers {
    list: Vec<(HeaderName, HeaderValue)>,
    secrets: Secrets,
}

/// A header that cannot be sent.
#[derive(Debug, thiserror::Error)]
pub enum HeaderError {
    /// The secret cannot be read.
    #[error("the header `{name}` comes from {place}")]
    Absent {
        /// The header.
        name: String,
        /// The source of its value.
        place: String,
        /// The error of the source, if it adds anything.
        source: Option<std::io::Error>,
    },
    /// The name is not a valid HTTP header name.
    #[error("`{0}` is no name of a header")]
    Name(String),
    /// The value is not a valid header value. It is not shown.
    #[error("the value of the header `{0}` holds characters that no header may hold, such as a line end")]
    Value(String),
}

impl Headers {
    /// Reads the values of headers from their sources.
    pub fn read(headers: &[EnvVar]) -> Result<Self, HeaderError> {
        let list = headers.iter().map(read_header).collect::<Result<Vec<_>, _>>()?;
        let referred = headers.iter().zip(&list).filter(|(header, _)| header.value.is_none());
        let secrets = Secrets::new(referred.flat_map(|(_, (_, value))| secret_parts(value.as_bytes())));
        Ok(Self { list, secrets })
    }

    /// Returns the secrets among the values, which an endpoint that received them may repeat.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Returns the headers with their secret values, for sending.
    pub fn iter(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.list.iter().map(|(name, value)| (name, value))
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list.iter().map(|(name, _)| name.as_str())).finish()
    }
}

/// Authentication schemes, which are no secrets: an error may well contain `expected: Bearer`.
const SCHEMES: [&[u8]; 6] = [b"bearer", b"basic", b"token", b"apikey", b"api-key", b"key"];

/// Returns the secret parts of a value, in the forms in which an endpoint may repeat them: the credential after a known scheme,
/// else the whole value, and the part after its first word, which may be a custom scheme; and the credential of `Basic` decoded, as
/// `user:password` and as the password alone.
fn secret_parts(value: &[u8]) -> Vec<Vec<u8>> {
    let mut words = value.splitn(2, |byte| *byte == b' ');
    let (first, rest) = (words.next().unwrap_or_default(), words.next().map(<[u8]>::trim_ascii));
    let is_scheme = SCHEMES.iter().any(|scheme| first.eq_ignore_ascii_case(scheme));
    let whole = (!is_scheme || rest.is_none()).then_some(value);
    let decoded = rest.filter(|_| first.eq_ignore_ascii_case(b"basic")).and_then(decode_base64);
    let password = decoded.as_deref().and_then(|pair| pair.splitn(2, |byte| *byte == b':').nth(1)).map(<[u8]>::to_vec);
    whole.into_iter().chain(rest).map(<[u8]>::to_vec).chain(decoded).chain(password).collect()
}

/// Decodes base64 of either alphabet, with or without padding.
fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for digit in text.trim_ascii_end().split(|byte| *byte == b'=').next()? {
        let sextet = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        (bits, count) = ((bits << 6) | u32::from(sextet), count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

fn read_header(header: &EnvVar) -> Result<(HeaderName, HeaderValue), HeaderError> {
    let name = HeaderName::from_bytes(header.name.as_bytes())
        .map_err(|_| HeaderError::Name(header.name.escape_debug().take(100).collect()))?;
    let read = read_header_value(header)?;
    // White space at either end is never part of a header's value (RFC 9110, section 5.5).
    let trimmed = read.trim_ascii();
    if header.value.is_none() && trimmed.is_empty() {
        let place = header.from_env.as_ref().map(|name| format!("the environment variable `{name}`, which is empty"));
        let place = place.or_else(|| header.from_file.as_ref().map(|path| format!("the file `{path}`, which is empty")));
        return Err(HeaderError::Absent { name: header.name.clone(), place: place.unwrap_or_default(), source: None });
    }
    let bytes = header.scheme.as_ref().map_or_else(|| trimmed.to_vec(), |scheme| [scheme.as_bytes(), b" ", trimmed].concat());
    // The load generator writes headers as text, which other bytes than those of ASCII are not.
    let value = HeaderValue::from_bytes(&bytes).ok().filter(|value| value.to_str().is_ok());
    let mut value = value.ok_or_else(|| HeaderError::Value(name.to_string()))?;
    value.set_sensitive(true);
    Ok((name, value))
}

fn read_header_value(header: &EnvVar) -> Result<Vec<u8>, HeaderError> {
    use std::os::unix::ffi::OsStringExt;

    let absent = |(place, source)| HeaderError::Absent { name: header.name.clone(), place, source };
    assay_stage::read_value(header).map(OsStringExt::into_vec).map_err(|why| absent(missing_place(why)))
}

/// Returns the place of a value that is missing, with what is wrong with it, and the error of the place.
pub(crate) fn missing_place(why: MissingValue) -> (String, Option<std::io::Error>) {
    match why {
        MissingValue::Env(variable) => (format!("the environment variable `{variable}`, which is not set"), None),
        MissingValue::File(path, error) => (format!("the file `{path}`, which cannot be read"), Some(error)),
        MissingValue::Undefined => ("nowhere".to_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(name: &str, value: Option<&str>, from_env: Option<&str>, from_file: Option<&str>) -> EnvVar {
        let text = |text: Option<&str>| text.map(str::to_owned);
        EnvVar { name: name.to_owned(), value: text(value), from_env: text(from_env), from_file: text(from_file), scheme: None }
    }

    fn refused(header: EnvVar) -> String {
        Headers::read(&[header]).expect_err("refused").to_string()
    }

    #[test]
    fn values_come_from_where_they_are_kept() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "Bearer t\n").expect("written");
        let wanted = [header("authorization", None, None, file.path().to_str()), header("X-Org", Some("a b"), None, None)];
        let headers = Headers::read(&wanted).expect("readable");
        let found: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        assert_eq!(found, [("authorization", b"Bearer t".as_slice()), ("x-org", b"a b".as_slice())]);
        // PATH is the one variable that exists on every machine.
        assert_eq!(Headers::read(&[header("a", None, Some("PATH"), None)]).expect("readable").iter().count(), 1);
    }

    #[test]
    fn an_empty_secret_is_none() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), " \n").expect("written");
        let empty = header("authorization", None, None, file.path().to_str());
        assert!(refused(empty).contains("which is empty"));
        assert_eq!(Headers::read(&[header("x-org", Some(""), None, None)]).expect("no secret").iter().count(), 1);
    }

    #[test]
    fn what_is_kept_in_a_secret_place_is_a_secret_whole_and_without_its_scheme() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "Bearer hunter22\n").expect("written");
        let wanted = [header("authorization", None, None, file.path().to_str()), header("x-org", Some("example"), None, None)];
        let headers = Headers::read(&wanted).expect("readable");
        let masked = |text: &str| headers.secrets().mask(text.as_bytes()).map(|bytes| String::from_utf8(bytes).expect("text"));
        assert_eq!(masked("no key hunter22 here").as_deref(), Some("no key [secret] here"));
        assert_eq!(masked("sent: Bearer hunter22").as_deref(), Some("sent: Bearer [secret]"));
        assert_eq!(
            headers.secrets().mask_truncated("a key must follow Bearer"),
            None,
            "a scheme alone is no beginning of a secret"
        );
        assert_eq!(masked("Bearer example"), None, "neither the scheme nor what a definition holds is a secret");
    }

    #[test]
    fn a_scheme_is_put_before_the_secret_and_is_none() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "hunter22\n").expect("written");
        let key = EnvVar { scheme: Some("Bearer".to_owned()), ..header("authorization", None, None, file.path().to_str()) };
        let headers = Headers::read(&[key]).expect("readable");
        assert_eq!(headers.iter().map(|(_, value)| value.as_bytes()).collect::<Vec<_>>(), [b"Bearer hunter22"]);
        assert_eq!(headers.secrets().mask(b"Bearer hunter22").as_deref(), Some(b"Bearer [secret]".as_slice()));
    }

    #[test]
    fn white_space_around_a_value_is_neither_sent_nor_part_of_the_secret() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "\tSECRETtrailing77 \r\n").expect("written");
        let headers = [header("x-key", None, None, file.path().to_str()), header("x-org", Some(" a b "), None, None)];
        let headers = Headers::read(&headers).expect("readable");
        let sent: Vec<_> = headers.iter().map(|(_, value)| value.as_bytes()).collect();
        assert_eq!(sent, [b"SECRETtrailing77".as_slice(), b"a b"]);
        assert_eq!(headers.secrets().mask(b"key=SECRETtrailing77;").as_deref(), Some(b"key=[secret];".as_slice()));
    }

    #[test]
    fn a_scheme_that_nobody_knows_is_taken_for_a_part_of_the_secret() {
        let parts = |value: &str| {
            let parts = secret_parts(value.as_bytes()).into_iter().map(|part| String::from_utf8_lossy(&part).into_owned());
            parts.collect::<Vec<_>>()
        };
        assert_eq!(parts("Hawk hunter22"), ["Hawk hunter22", "hunter22"]);
        assert_eq!(parts("bearer  hunter22"), ["hunter22"]);
        assert_eq!(parts("hunter22"), ["hunter22"]);
        assert_eq!(parts("token"), ["token"], "there is nothing behind it");
        assert_eq!(parts("Basic bWU6aHVudGVyOjIy"), ["bWU6aHVudGVyOjIy", "me:hunter:22", "hunter:22"]);
        assert_eq!(parts("basic Pj4_Og=="), ["Pj4_Og==", ">>?:", ""], "of either alphabet");
        assert_eq!(parts("Basic no base64"), ["no base64"]);
    }

    #[test]
    fn nothing_prints_a_value() {
        let headers = Headers::read(&[header("authorization", Some("Bearer hidden"), None, None)]).expect("readable");
        assert_eq!(format!("{headers:?}"), r#"["authorization"]"#);
        assert!(!format!("{:?}", crate::Client::new(headers)).contains("hidden"));
    }

    #[test]
    fn what_cannot_be_sent_is_named_without_its_value() {
        insta::assert_snapshot!(refused(header("a", None, Some("ASSAY_TEST_NO_SUCH_VARIABLE"), None)), @"the header `a` comes from the environment variable `ASSAY_TEST_NO_SUCH_VARIABLE`, which is not set");
        insta::assert_snapshot!(refused(header("a", None, None, Some("/nonexistent"))), @"the header `a` comes from the file `/nonexistent`, which cannot be read");
        insta::assert_snapshot!(refused(header("a", None, None, None)), @"the header `a` comes from nowhere");
        insta::assert_snapshot!(refused(header("a", Some("one\r\nevil: 1"), None, None)), @"the value of the header `a` holds characters that no header may hold, such as a line end");
        insta::assert_snapshot!(refused(header("a\nb", Some("1"), None, None)), @r"`a\nb` is no name of a header");
    }
}
