//! SHA-256 digests. All evidence is named by them.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest::{Context, SHA256, SHA256_OUTPUT_LEN, digest};
use serde::{Deserialize, Serialize};

/// The SHA-256 of some bytes. Written `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

/// The error of parsing a [`Digest`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a digest: expected `sha256:` and 64 lower-case hexadecimal digits")]
pub struct DigestError(String);

impl Digest {
    /// Computes the digest of `bytes`.
    pub fn compute(bytes: &[u8]) -> Self {
        Self(array(&digest(&SHA256, bytes)))
    }

    /// Wraps a digest that was computed elsewhere, as raw bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The raw 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 hexadecimal digits, without the algorithm.
    pub fn hex(&self) -> String {
        let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble & 0xf)]);
        let mut text = String::with_capacity(2 * SHA256_OUTPUT_LEN);
        for byte in self.0 {
            text.push(digit(byte >> 4));
            text.push(digit(byte));
        }
        text
    }

    /// Parses the 64 hexadecimal digits that [`Digest::hex`] writes.
    pub fn from_hex(hex: &str) -> Result<Self, DigestError> {
        let refuse = || DigestError(hex.chars().take(80).collect());
        let digits = hex.as_bytes();
        if digits.len() != 64 {
            return Err(refuse());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = nibble(pair[0]).ok_or_else(refuse)? << 4 | nibble(pair[1]).ok_or_else(refuse)?;
        }
        Ok(Self(bytes))
    }

    /// The first twelve digits, enough to recognise a digest in a table.
    pub fn short(&self) -> String {
        self.hex()[..12].to_owned()
    }
}

fn array(digest: &aws_lc_rs::digest::Digest) -> [u8; SHA256_OUTPUT_LEN] {
    let mut bytes = [0; SHA256_OUTPUT_LEN];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Self, DigestError> {
        text.strip_prefix("sha256:")
            .and_then(|hex| Self::from_hex(hex).ok())
            .ok_or_else(|| DigestError(text.chars().take(80).collect()))
    }
}

impl TryFrom<String> for Digest {
    type Error = DigestError;

    fn try_from(text: String) -> Result<Self, DigestError> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl schemars::JsonSchema for Digest {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Digest".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^sha256:[0-9a-f]{64}$",
            "description": "The SHA-256 of some bytes."
        })
    }
}

/// Computes a [`Digest`] over bytes that arrive in pieces.
///
/// The library is the one that TLS needs anyway: on processors without SHA-256 instructions it takes half the time of portable
/// code, and every stage hashes its evidence and its own binary.
#[derive(Clone)]
pub struct Hasher(Context);

impl Default for Hasher {
    fn default() -> Self {
        Self(Context::new(&SHA256))
    }
}

impl Hasher {
    /// Creates a hasher over no bytes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the digest of all bytes added.
    pub fn finish(self) -> Digest {
        Digest(array(&self.0.finish()))
    }
}

impl std::io::Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_reads_what_it_writes() {
        let digest = Digest::compute(b"");
        assert_eq!(digest.to_string(), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(digest.to_string().parse(), Ok(digest));
    }

    #[test]
    fn other_spellings_are_refused() {
        let good = Digest::compute(b"x").to_string();
        for bad in ["", "sha256:", &good.to_uppercase(), &good[7..], &format!("{good}0"), &good.replace("sha256", "sha512")] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }
}
