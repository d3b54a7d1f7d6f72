//! How a store is named: a folder, `file://`, `memory:`, or an object store's URI.

use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Object stores that DESIGN knows and that this build has no backend for.
const KNOWN_SCHEMES: [&str; 8] = ["s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "https"];

/// What a URI asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// A folder of this machine.
    Folder(PathBuf),
    /// The memory of this process.
    Memory,
}

/// Reads a URI or a plain path.
pub(crate) fn parse(uri: &str) -> Result<Location> {
    let bad = |problem| Error::BadUri { uri: uri.chars().take(200).collect(), problem };
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
        None => Ok(Location::Folder(uri.into())),
        Some(("file", path)) if path.starts_with('/') => {
            decode(path).map(Location::Folder).ok_or_else(|| bad("its percent-encoding is broken"))
        }
        Some(("file", _)) => Err(bad("a file URI needs an absolute path and no host: `file:///absolute/path`")),
        Some((scheme, _)) if KNOWN_SCHEMES.contains(&scheme) => {
            Err(Error::NoBackend { uri: uri.to_owned(), scheme: scheme.to_owned() })
        }
        Some(_) => Err(bad("its scheme is unknown; expected `file`, `memory`, `s3`, `gs`, `az` or a plain path")),
    }
}

/// The URI of an absolute folder: RFC 8089, with everything outside RFC 3986's unreserved characters encoded.
pub(crate) fn of_folder(folder: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let encode = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    let path: String = folder.as_os_str().as_encoded_bytes().iter().copied().map(encode).collect();
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
    fn what_this_build_cannot_reach_is_named() {
        for (uri, scheme) in [("s3://bucket/x", "s3"), ("gs://bucket", "gs"), ("az://container", "az")] {
            assert!(matches!(parse(uri), Err(Error::NoBackend { scheme: found, .. }) if found == scheme), "{uri}");
        }
        insta::assert_snapshot!(
            refusal("s3://bucket/x"),
            @"this build has no backend for `s3` stores, so `s3://bucket/x` cannot be opened"
        );
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
        fn a_folder_s_uri_names_that_folder(path in "/[^\0]{0,40}") {
            prop_assert_eq!(parse(&of_folder(Path::new(&path))).expect("its own URI"), folder(&path));
        }
    }
}
