//! All randomness: draws are keyed by a seed and a request, and indexed by their concern and position. They depend on no order.
//!
//! The key of a request is the first eight bytes of `SHA-256("assay.dev/simulator/v1" || seed || kind || bytes)`. A draw is the
//! output function of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014) at a counter.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// Separates these keys from every other use of SHA-256.
const DOMAIN: &[u8] = b"assay.dev/simulator/v1";

/// The increment of SplitMix64: 2^64 over the golden ratio, made odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The seed of every draw of a simulator: 32 bytes, written as hexadecimal digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seed([u8; 32]);

impl Seed {
    /// Returns the seed of these bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Derives a seed from this one and a text: a different one for each text.
    #[must_use]
    pub fn mixed_with(&self, text: &str) -> Self {
        Self(keyed(self, *b"se", text.as_bytes()))
    }
}

/// The error for a text that is not a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a seed is 1 to 64 hexadecimal digits, such as `2a`")]
pub struct SeedError;

impl FromStr for Seed {
    type Err = SeedError;

    /// Parses a seed; fewer than 64 digits are the low ones.
    fn from_str(text: &str) -> Result<Self, SeedError> {
        if text.is_empty() || text.len() > 64 {
            return Err(SeedError);
        }
        let mut bytes = [0_u8; 32];
        for (place, digit) in text.bytes().rev().enumerate() {
            let value = char::from(digit).to_digit(16).ok_or(SeedError)? as u8;
            bytes[31 - place / 2] |= value << (4 * (place % 2));
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The purpose of a draw. Draws for different concerns are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concern {
    /// The length of a response, if the request leaves it open.
    Length = 1,
    /// The jitter of the first token.
    Ttft = 2,
    /// The jitter of each later token.
    Itl = 3,
    /// The word of each token.
    Word = 4,
    /// The number of tokens of a chunk.
    ChunkTokens = 5,
    /// The presence of a fault, and which one.
    Fault = 6,
    /// The numbers of an embedding, or the scores of documents.
    Embedding = 7,
    /// The slowness of a request.
    Slow = 8,
    /// The presence of a co-tenant in an episode.
    CoTenant = 9,
    /// The gap before an arrival of a load.
    Arrival = 10,
    /// The turns that are left of the first sessions of a load's users.
    Age = 11,
    /// The jitter of each step of a batch.
    Step = 12,
    /// The acceptance of each draft.
    Draft = 13,
}

/// The key of a request's draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestKey(u64);

impl RequestKey {
    /// Returns the key of a request with an id.
    pub fn from_id(seed: &Seed, id: &str) -> Self {
        Self::derive(seed, *b"id", id.as_bytes())
    }

    /// Returns the key of a request without an id, from its content and the number of earlier requests with the same content.
    pub fn from_content(seed: &Seed, content: &[u8; 32], before: u32) -> Self {
        let mut bytes = [0_u8; 36];
        bytes[..32].copy_from_slice(content);
        bytes[32..].copy_from_slice(&before.to_le_bytes());
        Self::derive(seed, *b"co", &bytes)
    }

    /// Returns the key of draws that belong to no single request: to an engine, or to a load.
    pub fn from_seed(seed: &Seed) -> Self {
        Self::derive(seed, *b"en", &[])
    }

    fn derive(seed: &Seed, kind: [u8; 2], bytes: &[u8]) -> Self {
        Self(keyed(seed, kind, bytes).iter().take(8).fold(0, |key, byte| key << 8 | u64::from(*byte)))
    }

    /// Draws 64 random bits.
    pub fn bits(self, concern: Concern, index: u64) -> u64 {
        let key = mix(self.0 ^ mix(concern as u64));
        mix(key.wrapping_add(GOLDEN.wrapping_mul(index.wrapping_add(1))))
    }

    /// Draws a value in `[0, 1)`, one of 2^53.
    pub fn unit(self, concern: Concern, index: u64) -> f64 {
        const SPACING: f64 = 1.0 / (1_u64 << 53) as f64;
        (self.bits(concern, index) >> 11) as f64 * SPACING
    }

    /// Draws a value below `bound`, which is at least 1; the bias of at most `bound` / 2^64 is negligible here.
    pub fn below(self, concern: Concern, index: u64, bound: u32) -> u32 {
        ((u128::from(self.bits(concern, index)) * u128::from(bound.max(1))) >> 64) as u32
    }

    /// Draws a standard normal value, by Box and Muller's formula; it takes two draws.
    pub fn normal(self, concern: Concern, index: u64) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.unit(concern, 2 * index)));
        radius * libm::cos(std::f64::consts::TAU * self.unit(concern, 2 * index + 1))
    }
}

fn keyed(seed: &Seed, kind: [u8; 2], bytes: &[u8]) -> [u8; 32] {
    Sha256::new_with_prefix(DOMAIN).chain_update(seed.0).chain_update(kind).chain_update(bytes).finalize().into()
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_its_digits_from_the_right() {
        let seed: Seed = "1a2".parse().expect("a seed");
        assert_eq!(seed.0[30..], [0x01, 0xa2]);
        assert!(seed.to_string().ends_with("0001a2"));
        assert_eq!("0".repeat(64).parse(), Ok(Seed::default()));
        for text in ["", "xy", "é", &"0".repeat(65)] {
            assert_eq!(text.parse::<Seed>(), Err(SeedError), "{text}");
        }
    }

    #[test]
    fn draws_differ_by_seed_request_concern_and_place_and_by_nothing_else() {
        let [one, two] = ["1", "2"].map(|seed| seed.parse::<Seed>().expect("a seed"));
        let key = RequestKey::from_id(&one, "a");
        let draw = key.bits(Concern::Itl, 3);
        assert_eq!(draw, RequestKey::from_id(&one, "a").bits(Concern::Itl, 3));
        let others = [
            RequestKey::from_id(&two, "a").bits(Concern::Itl, 3),
            RequestKey::from_id(&one, "b").bits(Concern::Itl, 3),
            RequestKey::from_content(&one, &[0; 32], 0).bits(Concern::Itl, 3),
            RequestKey::from_content(&one, &[0; 32], 1).bits(Concern::Itl, 3),
            RequestKey::from_seed(&one).bits(Concern::Itl, 3),
            RequestKey::from_id(&one.mixed_with(""), "a").bits(Concern::Itl, 3),
            key.bits(Concern::Ttft, 3),
            key.bits(Concern::Itl, 4),
        ];
        assert!(others.iter().all(|other| *other != draw));
        assert_ne!(others[2], others[3]);
    }

    #[test]
    fn a_seed_and_a_text_make_a_seed_that_is_neither_s_alone() {
        let [one, two] = ["1", "2"].map(|seed| seed.parse::<Seed>().expect("a seed"));
        let mixed = one.mixed_with("trial 1");
        assert_eq!(mixed, one.mixed_with("trial 1"));
        assert!(
            [one, two.mixed_with("trial 1"), one.mixed_with("trial 2"), one.mixed_with("")].iter().all(|seed| *seed != mixed)
        );
    }

    #[test]
    fn normal_draws_have_mean_0_and_variance_1() {
        let key = RequestKey::from_id(&Seed::default(), "moments");
        let draws: Vec<f64> = (0..20_000).map(|index| key.normal(Concern::Itl, index)).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        // Five standard errors: 1 / sqrt(n) of the mean, sqrt(2 / n) of the variance. The draws are fixed by the seed.
        assert!(mean.abs() < 5.0 / 20_000_f64.sqrt(), "{mean}");
        assert!((variance - 1.0).abs() < 5.0 * (2.0 / 20_000_f64).sqrt(), "{variance}");
    }

    #[test]
    fn what_is_below_a_bound_reaches_every_value() {
        let key = RequestKey::from_id(&Seed::default(), "bound");
        let mut seen = [0_u32; 5];
        (0..1_000).for_each(|index| seen[key.below(Concern::Word, index, 5) as usize] += 1);
        assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
    }
}
