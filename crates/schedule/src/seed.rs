//! The seed, the one number that all randomness derives from.

use std::fmt;
use std::str::FromStr;

use assay_manifest::Digest;

/// A seed of 32 bytes, from which all randomness derives. Written as 64 lower-case hexadecimal digits, as in plans.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed([u8; 32]);

/// The error of a text that is not a seed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a seed: expected 64 lower-case hexadecimal digits")]
pub struct SeedError(String);

/// The most characters of an invalid seed that its error repeats.
const MAX_QUOTED: usize = 80;

impl Seed {
    /// Creates a seed from its bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl FromStr for Seed {
    type Err = SeedError;

    fn from_str(text: &str) -> Result<Self, SeedError> {
        // A seed and a digest share their spelling: 32 bytes in lower-case hexadecimal.
        let bytes = Digest::from_hex(text).map_err(|_| SeedError(text.chars().take(MAX_QUOTED).collect()))?;
        Ok(Self(*bytes.as_bytes()))
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Digest::from_bytes(self.0).hex())
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_reads_what_it_writes() {
        let seed = Seed::new(std::array::from_fn(|index| index as u8));
        assert_eq!(seed.to_string(), "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
        assert_eq!(seed.to_string().parse(), Ok(seed));
    }

    #[test]
    fn other_spellings_are_refused() {
        for bad in ["", "42", &"0".repeat(63), &"0".repeat(65), &"A".repeat(64), &"g".repeat(64), &"é".repeat(32)] {
            assert_eq!(bad.parse::<Seed>(), Err(SeedError(bad.to_owned())));
        }
    }
}
