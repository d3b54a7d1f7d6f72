//! The names of stores: a folder, `file://`, `memory:`, or an object store's URI.

use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use url::Url;

use crate::{Error, Result, layout};

/// Schemes of object stores that this build has no backend for.
const KNOWN_SCHEMES: [&str; 7] = ["s3a", "gs", "az", "azure", "abfs", "abfss", "https"];

/// The location that a URI names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// A folder of this machine.
    Folder(PathBuf),
    /// The memory of this process.
    Memory,
    /// A bucket of a service that speaks S3.
    Bucket(Bucket),
}

/// A bucket, or a part of it, of a service that speaks S3. Nothing of it is secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// The bucket's name.
    pub(crate) name: String,
    /// The prefix of the objects in the bucket; empty for the whole bucket.
    pub(crate) prefix: String,
    /// The address of the service, unless the environment gives it or it is Amazon's.
    pub(crate) endpoint: Option<String>,
    /// The bucket's region, unless the environment gives it.
    pub(crate) region: Option<String>,
}

impl std::fmt::Display for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "s3://{}", self.name)?;
        if !self.prefix.is_empty() {
            write!(f, "/{}", self.prefix)?;
        }
        let options = [("endpoint", &self.endpoint), ("region", &self.region)];
        let given = options.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        for (separator, (name, value)) in ["?", "&"].into_iter().zip(given) {
            write!(f, "{separator}{name}={value}")?;
        }
        Ok(())
    }
}

/// Parses a URI or a plain path.
pub(crate) fn parse(uri: &str) -> Result<Location> {
    let bad = |problem| Error::BadUri { uri: redact(uri), problem };
    if uri.is_empty() {
        return Err(bad("it is empty"));
    }
    if uri.contains('\0') {
        return Err(bad("it contains a NUL byte"));
    }
    if let Some(rest) = uri.strip_prefix("memory:") {
        return if rest.is_empty() { Ok(Location::Memory) } else { Err(bad("nothing may follow `memory:`")) };
    }
    match uri.split_once("://") {
        None if ["s3:", "file:", "gs:", "az:", "http:", "https:"].iter().any(|scheme| uri.starts_with(scheme)) => {
            Err(bad("two slashes follow a scheme: `s3://bucket/prefix`, `file:///absolute/path`"))
        }
        None => Ok(Location::Folder(uri.into())),
        Some(("file", path)) if path.contains(['?', '#']) => {
            Err(bad("a file URI has no query; in a path, `?` is written as `%3F` and `#` as `%23`"))
        }
        Some(("file", path)) if path.starts_with('/') => {
            decode(path).map(Location::Folder).ok_or_else(|| bad("its percent-encoding is broken"))
        }
        Some(("file", _)) => Err(bad("a file URI needs an absolute path and no host: `file:///absolute/path`")),
        Some(("s3", _)) => parse_bucket(uri).map(Location::Bucket).map_err(bad),
        Some((scheme, _)) if KNOWN_SCHEMES.contains(&scheme) => {
            Err(Error::NoBackend { uri: redact(uri), scheme: scheme.to_owned() })
        }
        Some(_) => Err(bad("its scheme is unknown; expected `file`, `memory`, `s3`, `gs`, `az` or a plain path")),
    }
}

/// The most characters of a URI in a message.
const MAX_SHOWN: usize = 200;

/// Returns a URI as a message may show it: without user, password, query and fragment, because any of them may be a secret. If it cannot be
/// divided into its parts, only its scheme is shown.
fn redact(uri: &str) -> String {
    let holds_more = uri.contains(['@', '?', '#']) || uri.contains("%40");
    let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
    let shown = match Url::parse(uri).ok().filter(Url::has_authority) {
        Some(url) if holds_more => without_secrets(url),
        Some(_) => Some(uri.to_owned()),
        None => Some(uri.to_owned()).filter(|_| !holds_more && !uri.contains("://")),
    };
    shown.unwrap_or_else(|| format!("{scheme}:…")).chars().take(MAX_SHOWN).collect()
}

/// Returns an address without the parts that may be secret; `None` if its host may be a user, too.
fn without_secrets(mut url: Url) -> Option<String> {
    // `user%40host` is a host, and `user:1/2@host` a host with a port and a path.
    if url.host_str().is_some_and(|host| host.contains('%')) || (url.port().is_some() && url.path().contains('@')) {
        return None;
    }
    if !url.username().is_empty() || url.password().is_some() {
        url.set_username("").and_then(|()| url.set_password(None)).ok()?;
    }
    let behind = url.query().map(|_| "?…").or(url.fragment().map(|_| "#…")).unwrap_or_default();
    url.set_query(None);
    url.set_fragment(None);
    Some(format!("{url}{behind}"))
}

fn parse_bucket(uri: &str) -> Result<Bucket, &'static str> {
    let parsed = Url::parse(uri).map_err(|_| "it is no URI; expected `s3://bucket/prefix`")?;
    let name = parsed.host_str().filter(|name| is_bucket(name));
    let name = name.ok_or("a bucket's name has 3 to 63 of `a-z0-9.-`: `s3://bucket/prefix`")?.to_owned();
    if !parsed.username().is_empty() || parsed.password().is_some() {
        return Err("credentials are never part of a URI; they come from the environment, such as AWS_ACCESS_KEY_ID");
    }
    if parsed.fragment().is_some() {
        return Err("nothing may follow a `#`");
    }
    if parsed.port().is_some() {
        return Err("a port belongs to the endpoint: `s3://bucket/prefix?endpoint=http://host:port`");
    }
    let prefix = parsed.path().trim_matches('/').to_owned();
    if !prefix.is_empty() && layout::find_problem(&prefix).is_some() {
        return Err("its prefix may have ASCII letters, digits, `/` and `._-=+@`, and not begin with `blobs` or `staging`");
    }
    let mut bucket = Bucket { name, prefix, endpoint: None, region: None };
    for (name, value) in parsed.query_pairs() {
        let place = match &*name {
            "endpoint" if is_endpoint(&value) => &mut bucket.endpoint,
            "endpoint" => return Err("its endpoint is none: expected `http://host:port` or `https://host`, without credentials"),
            "region" if is_region(&value) => &mut bucket.region,
            "region" => return Err("its region is none: expected letters, digits and `-`"),
            _ => return Err("only `endpoint` and `region` may be given after `?`; everything else comes from the environment"),
        };
        if place.replace(value.into_owned()).is_some() {
            return Err("an option is given twice");
        }
    }
    Ok(bucket)
}

fn is_bucket(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte);
    (3..=63).contains(&name.len()) && name.bytes().all(plain)
}

/// Returns true if `value` is an endpoint. An endpoint is written back as given, so it may hold no character that needs encoding.
pub(crate) fn is_endpoint(value: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._:[]".contains(&byte);
    let Ok(url) = Url::parse(value) else { return false };
    matches!(url.scheme(), "http" | "https") && url.has_host() && value.bytes().all(plain)
}

fn is_region(value: &str) -> bool {
    !value.is_empty() && value.len() <= 64 && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Returns the URI of an absolute folder: RFC 8089, with everything outside RFC 3986's unreserved characters encoded.
pub(crate) fn folder_uri(folder: &Path) -> String {
    const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    let path = percent_encode(folder.as_os_str().as_encoded_bytes(), RESERVED);
    format!("file://{path}")
}

fn decode(path: &str) -> Option<PathBuf> {
    let mut bytes = path.bytes();
    let mut decoded = Vec::with_capacity(path.len());
    while let Some(byte) = bytes.next() {
        decoded.push(if byte == b'%' { hex_digit(bytes.next()?)? << 4 | hex_digit(bytes.next()?)? } else { byte });
    }
    let decoded = String::from_utf8(decoded).ok()?;
    (!decoded.contains('\0')).then(|| decoded.into())
}

fn hex_digit(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn folder(path: &str) -> Location {
        Location::Folder(path.into())
    }

    fn refusal(uri: &str) -> String {
        parse(uri).expect_err("a URI that is refused").to_string()
    }

    #[test]
    fn folders_and_memory_are_read() {
        assert_eq!(parse("file:///tmp/a%20b").expect("read"), folder("/tmp/a b"));
        assert_eq!(parse("/tmp/a b%20").expect("read"), folder("/tmp/a b%20"));
        assert_eq!(parse(".assay").expect("read"), folder(".assay"));
        assert_eq!(parse("memory:").expect("read"), Location::Memory);
    }

    #[test]
    fn no_refusal_shows_a_secret() {
        for uri in [
            "s3://k:hunter2secret@bucket/x",
            "s3://hunter2secret@bucket/x",
            "s3://k:hunter2secret/y@bucket/x",
            "s3://k:1/hunter2secret@bucket/x",
            "s3://k:p?hunter2secret@bucket/x",
            "s3://k:p#hunter2secret@bucket/x",
            "s3://k%3Ahunter2secret%40bucket/x",
            "s3:/k:hunter2secret@bucket/x",
            "s3:k:hunter2secret@bucket/x",
            "s3://k:hunter2secret/x",
            "s3://bucket/x?endpoint=http://u:hunter2secret@127.0.0.1:1",
            "s3://bucket/x?secret=hunter2secret",
            "s3://bucket/x?region=hunter2_secret&hunter2secret",
            "s3://bucket/x#hunter2secret",
            "S3://k:hunter2secret@bucket/x",
            "gs://k:hunter2secret@bucket/x",
            "https://bucket/x?sig=hunter2secret",
            "http://u:hunter2secret@h/x",
            "http:/u:hunter2secret@h/x",
            "k:hunter2secret@s3://bucket",
            "file://u:hunter2secret@h/x",
            "file:///tmp/x?token=hunter2secret",
            "memory://u:hunter2secret@h",
        ] {
            let refused = parse(uri).expect_err("a URI that is refused");
            let shown = format!("{refused} {refused:?} {:?}", refused.hint());
            assert!(!shown.contains("hunter2"), "{uri}: {shown}");
        }
        insta::assert_snapshot!(refusal("s3://k:hunter2secret@bucket/x"), @"`s3://bucket/x` does not name a store: credentials are never part of a URI; they come from the environment, such as AWS_ACCESS_KEY_ID");
        insta::assert_snapshot!(refusal("s3://bucket/x?secret=hunter2secret"), @"`s3://bucket/x?…` does not name a store: only `endpoint` and `region` may be given after `?`; everything else comes from the environment");
        insta::assert_snapshot!(refusal("s3://k:hunter2secret/y@bucket"), @"`s3:…` does not name a store: it is no URI; expected `s3://bucket/prefix`");
    }

    #[test]
    fn what_this_build_cannot_reach_is_named() {
        for (uri, scheme) in [("gs://bucket", "gs"), ("az://container", "az")] {
            assert!(matches!(parse(uri), Err(Error::NoBackend { scheme: found, .. }) if found == scheme), "{uri}");
        }
        insta::assert_snapshot!(
            refusal("gs://bucket/x"),
            @"this build has no backend for `gs` stores, so `gs://bucket/x` cannot be opened"
        );
    }

    #[test]
    fn buckets_are_read_and_written_back() {
        for uri in [
            "s3://bucket",
            "s3://my.bucket-1/a/b_c=1",
            "s3://assay?endpoint=http://127.0.0.1:8420",
            "s3://assay/x?endpoint=https://[::1]:9000/s3&region=eu-central-1",
        ] {
            let Location::Bucket(bucket) = parse(uri).expect("read") else { panic!("{uri} is a bucket") };
            assert_eq!(bucket.to_string(), uri);
        }
        let Ok(Location::Bucket(bucket)) = parse("s3://assay/x/?region=us-east-1&endpoint=http%3A%2F%2Fa%3A1") else {
            panic!("it is a bucket")
        };
        assert_eq!(bucket.to_string(), "s3://assay/x?endpoint=http://a:1&region=us-east-1");
    }

    #[test]
    fn what_is_no_bucket_is_refused() {
        let told = |uri: &str| refusal(uri).split_once("store: ").map(|(_, why)| why.to_owned()).expect("a reason");
        insta::assert_snapshot!(told("s3://key:secret@bucket"), @"credentials are never part of a URI; they come from the environment, such as AWS_ACCESS_KEY_ID");
        insta::assert_snapshot!(told("s3://b"), @"a bucket's name has 3 to 63 of `a-z0-9.-`: `s3://bucket/prefix`");
        insta::assert_snapshot!(told("s3://bucket:9000/x"), @"a port belongs to the endpoint: `s3://bucket/prefix?endpoint=http://host:port`");
        insta::assert_snapshot!(told("s3://bucket#x"), @"nothing may follow a `#`");
        insta::assert_snapshot!(told("s3:/bucket"), @"two slashes follow a scheme: `s3://bucket/prefix`, `file:///absolute/path`");
        insta::assert_snapshot!(told("s3://bucket/blobs/x"), @"its prefix may have ASCII letters, digits, `/` and `._-=+@`, and not begin with `blobs` or `staging`");
        insta::assert_snapshot!(told("s3://bucket?endpoint=ftp://x"), @"its endpoint is none: expected `http://host:port` or `https://host`, without credentials");
        insta::assert_snapshot!(told("s3://bucket?endpoint=http://u:p@x"), @"its endpoint is none: expected `http://host:port` or `https://host`, without credentials");
        insta::assert_snapshot!(told("s3://bucket?region="), @"its region is none: expected letters, digits and `-`");
        insta::assert_snapshot!(told("s3://bucket?secret=x"), @"only `endpoint` and `region` may be given after `?`; everything else comes from the environment");
        insta::assert_snapshot!(told("s3://bucket?region=a&region=b"), @"an option is given twice");
    }

    #[test]
    fn what_is_no_store_is_refused() {
        insta::assert_snapshot!(refusal(""), @"`` does not name a store: it is empty");
        insta::assert_snapshot!(refusal("memory:x"), @"`memory:x` does not name a store: nothing may follow `memory:`");
        insta::assert_snapshot!(refusal("file://host/x"), @"`file://host/x` does not name a store: a file URI needs an absolute path and no host: `file:///absolute/path`");
        insta::assert_snapshot!(refusal("file:///a%2"), @"`file:///a%2` does not name a store: its percent-encoding is broken");
        insta::assert_snapshot!(refusal("file:///a%00"), @"`file:///a%00` does not name a store: its percent-encoding is broken");
        insta::assert_snapshot!(refusal("ftp://x"), @"`ftp://x` does not name a store: its scheme is unknown; expected `file`, `memory`, `s3`, `gs`, `az` or a plain path");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(text in "s3://.{0,40}") {
            let _ = parse(&text);
        }

        #[test]
        fn a_folder_s_uri_names_that_folder(path in "/[^\0]{0,40}") {
            prop_assert_eq!(parse(&folder_uri(Path::new(&path))).expect("its own URI"), folder(&path));
        }
    }
}
