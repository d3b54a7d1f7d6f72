//! A counter-based generator: the value at an index depends on the key and the index alone, not on earlier draws.
//!
//! So a trial offers the same load from one shard or from a hundred, and a reader of its plan can derive that load again.
//!
//! The format is stable, because a plan that was signed long ago must still mean the same load. Golden values in the tests pin
//! it:
//!
//! - The key is `SHA-256("assay.dev/schedule/v1" || seed || parts || (length || bytes) of every part)`: the seed has 32 bytes,
//!   the number of parts and each length are 64-bit little-endian integers.
//! - ChaCha8 in Bernstein's original layout (64-bit counter, 64-bit nonce) turns the key into one key stream for each nonce.
//! - The value at index `i` is the 64-bit little-endian integer at byte `8 i` of the stream of nonce 0. If it has to be rejected,
//!   the streams of nonce 1, 2 and so on hold its replacements at the same place.

use std::fmt;
use std::num::NonZeroU64;

use assay_manifest::{Digest, PointId, RunId, TrialId};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore as _, SeedableRng as _};
use sha2::{Digest as _, Sha256};

use crate::Seed;

/// The format that this module describes. It also separates these keys from every other use of SHA-256.
pub const GENERATOR_FORMAT: &str = "assay.dev/schedule/v1";

/// The longest distance that is covered by drawing and dropping values. Beyond it, the stream seeks, which computes four blocks
/// of ChaCha, 32 values, anew.
const SKIP: u64 = 32;

/// The first part of the path of every generator of load; the order of trials has its own.
const LOAD: &str = "load";

/// Random values by index.
///
/// A generator remembers its last position, so that reading on is cheap. The values do not depend on that position.
#[derive(Clone)]
pub struct Generator {
    key: [u8; 32],
    stream: ChaCha8Rng,
    /// The index of the stream's next value; `None` past the last one.
    next: Option<u64>,
}

/// The key of one random sequence of one trial's load.
///
/// Target and variant are absent, so the two sides of a pair see the same load. The workload is named by its digest, so renaming
/// a workload changes neither its load nor the comparability of its results.
#[derive(Clone, Copy, Debug)]
pub struct LoadKey<'a> {
    /// The seed of the workload.
    pub seed: &'a Seed,
    /// The workload's `workload_spec_digest`.
    pub workload: &'a Digest,
    /// The point.
    pub point: &'a PointId,
    /// The trial's number within the point, from 0.
    pub trial: u32,
    /// The phase of the trial, such as its warm-up.
    pub phase: &'a str,
    /// The purpose of the values, such as arrivals or lengths.
    pub concern: &'a str,
}

impl LoadKey<'_> {
    /// Returns the generator of this sequence, to be read at global indices: those of the whole trial, never of one shard.
    pub fn generator(&self) -> Generator {
        let (workload, trial) = (self.workload.to_string(), self.trial.to_string());
        Generator::new(self.seed, &[LOAD, &workload, self.point.as_str(), &trial, self.phase, self.concern])
    }

    /// Returns the generator of values that must not repeat if the same trial runs again: the nonce is one more word of the path.
    pub fn generator_with_nonce(&self, nonce: Nonce) -> Generator {
        let (workload, trial) = (self.workload.to_string(), self.trial.to_string());
        let path = [LOAD, &workload, self.point.as_str(), &trial, self.phase, self.concern, &nonce.to_string()];
        Generator::new(self.seed, &path)
    }
}

/// Distinguishes one execution of a trial from every other, by its run, its case and its attempt. 128 bits.
///
/// A seed derives from the workload, so every run repeats the same load. That is intended, except for values that must never
/// repeat: identifiers of requests, and the salt that keeps prompts out of a cache that an earlier execution filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Nonce(u128);

impl Nonce {
    /// Creates a nonce from any bits.
    pub const fn new(bits: u128) -> Self {
        Self(bits)
    }

    /// Returns the nonce of an attempt: the first 16 bytes, big-endian, of
    /// `SHA-256("assay.dev/nonce/v1" || (length || bytes) of run, trial id and attempt)`, lengths as 64-bit little-endian
    /// integers and the attempt in decimal digits. So a reader of the manifests can derive the identifiers of the requests again.
    pub fn for_attempt(run: &RunId, trial: &TrialId, attempt: u32) -> Self {
        let mut hasher = Sha256::new_with_prefix(b"assay.dev/nonce/v1");
        for part in [run.as_str(), trial.as_str(), &attempt.to_string()] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(hasher.finalize().iter().take(16).fold(0, |bits, byte| bits << 8 | u128::from(*byte)))
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Generator {
    /// Creates the generator of a seed and a path of words. Different paths give independent sequences.
    pub fn new(seed: &Seed, path: &[&str]) -> Self {
        let key = derive_key(seed, path);
        Self { key, stream: ChaCha8Rng::from_seed(key), next: Some(0) }
    }

    /// Returns the value at `index`: 64 random bits.
    pub fn at(&mut self, index: u64) -> u64 {
        match self.next.and_then(|next| index.checked_sub(next)) {
            Some(ahead) if ahead <= SKIP => (0..ahead).for_each(|_| drop_value(&mut self.stream)),
            _ => self.stream.set_word_pos(word_position(index)),
        }
        self.next = index.checked_add(1);
        self.stream.next_u64()
    }

    /// Returns a value below `bound` at `index`, each equally likely.
    ///
    /// Lemire, "Fast random integer generation in an interval" (2019), algorithm 5: the high half of a product, with the few
    /// values rejected that would make some results likelier than others.
    pub fn below(&mut self, index: u64, bound: NonZeroU64) -> u64 {
        let bound = bound.get();
        let surplus = bound.wrapping_neg() % bound;
        let mut value = self.at(index);
        let mut nonce: u64 = 0;
        loop {
            let product = u128::from(value) * u128::from(bound);
            if product as u64 >= surplus {
                return (product >> 64) as u64;
            }
            nonce = nonce.wrapping_add(1);
            value = self.replacement(index, nonce);
        }
    }

    /// Returns a value in `[0, 1)` at `index`: one of the 2^53 equally spaced doubles, each equally likely.
    pub fn unit_f64(&mut self, index: u64) -> f64 {
        const SPACING: f64 = 1.0 / (1_u64 << 53) as f64;
        (self.at(index) >> 11) as f64 * SPACING
    }

    /// Returns a value strictly between 0 and 1 at `index`, on the stream of `nonce`: the middle of one of 2^52 equal parts, each
    /// equally likely.
    pub(crate) fn open_unit_f64(&mut self, index: u64, nonce: u64) -> f64 {
        const PART: f64 = 1.0 / (1_u64 << 52) as f64;
        let value = if nonce == 0 { self.at(index) } else { self.replacement(index, nonce) };
        ((value >> 12) as f64 + 0.5) * PART
    }

    /// Returns a standard normal value at `index`, on the stream of `nonce`: the quantile of [`Generator::open_unit_f64`].
    pub(crate) fn normal(&mut self, index: u64, nonce: u64) -> f64 {
        assay_stats::normal::quantile(self.open_unit_f64(index, nonce))
    }

    /// Returns `items` in random order. Draws the indices from 0 to one less than their number.
    ///
    /// Fisher and Yates' shuffle in Durstenfeld's form, from the front.
    pub fn shuffle<T>(&mut self, mut items: Vec<T>) -> Vec<T> {
        for index in 0..items.len() {
            if let Some(left) = NonZeroU64::new((items.len() - index) as u64) {
                items.swap(index, index + self.below(index as u64, left) as usize);
            }
        }
        items
    }

    /// Returns the replacement of the value at `index` after `nonce` rejections.
    fn replacement(&self, index: u64, nonce: u64) -> u64 {
        let mut stream = ChaCha8Rng::from_seed(self.key);
        stream.set_stream(nonce);
        stream.set_word_pos(word_position(index));
        stream.next_u64()
    }
}

fn drop_value(stream: &mut ChaCha8Rng) {
    stream.next_u64();
}

/// Returns the position of the value at `index`, in words of 32 bits.
fn word_position(index: u64) -> u128 {
    u128::from(index) * 2
}

fn derive_key(seed: &Seed, path: &[&str]) -> [u8; 32] {
    let length = |length: usize| (length as u64).to_le_bytes();
    let mut hasher = Sha256::new_with_prefix(GENERATOR_FORMAT);
    hasher.update(seed.as_bytes());
    hasher.update(length(path.len()));
    for part in path {
        hasher.update(length(part.len()));
        hasher.update(part);
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn generator() -> Generator {
        keyed(&["a", "path"])
    }

    fn keyed(path: &[&str]) -> Generator {
        Generator::new(&Seed::new([7; 32]), path)
    }

    fn bound(bound: u64) -> NonZeroU64 {
        NonZeroU64::new(bound).expect("not zero")
    }

    #[test]
    fn the_format_is_stable() {
        // Derived from the format's description by `tests/golden.py`, not by this code.
        let mut generator = generator();
        let indices = [0, 1, 31, 32, 1_000_000_007, u64::MAX];
        let values = [
            16_687_295_751_524_823_182,
            14_348_578_498_905_373_374,
            4_126_429_161_105_331_116,
            17_339_806_826_770_744_587,
            14_475_565_238_922_435_554,
            6_226_034_321_639_881_986,
        ];
        assert_eq!(indices.map(|index| generator.at(index)), values);
        // This bound rejects every other value: here those at the indices 2 and 4.
        let half = bound((1 << 63) + 1);
        let values = [
            8_343_647_875_762_411_591,
            7_174_289_249_452_686_687,
            2_734_221_045_167_594_240,
            8_012_609_163_354_615_349,
            8_274_957_322_996_223_415,
            6_415_628_603_357_773_876,
        ];
        assert_eq!([0, 1, 2, 3, 4, 5].map(|index| generator.below(index, half)), values);
        let bits = [0.904_620_115_335_567_1_f64, 0.777_837_999_029_600_2, 0.834_206_579_772_645_7].map(f64::to_bits);
        assert_eq!([0, 1, 2].map(|index| generator.unit_f64(index).to_bits()), bits);
    }

    #[test]
    fn the_key_of_a_load_is_stable() {
        let (seed, workload, point) = (Seed::new([7; 32]), Digest::compute(b"workload"), PointId::new("c8").expect("an id"));
        let key = LoadKey { seed: &seed, workload: &workload, point: &point, trial: 3, phase: "measure", concern: "arrivals" };
        assert_eq!(key.generator().at(0), 8_315_725_841_181_904_786);
    }

    #[test]
    fn every_part_of_a_load_key_counts() {
        let seeds = [Seed::new([7; 32]), Seed::new([8; 32])];
        let digests = [Digest::compute(b"a"), Digest::compute(b"b")];
        let points = ["c1", "c2"].map(|point| PointId::new(point).expect("an id"));
        let key = LoadKey {
            seed: &seeds[0],
            workload: &digests[0],
            point: &points[0],
            trial: 0,
            phase: "measure",
            concern: "arrivals",
        };
        let keys = [
            key,
            LoadKey { seed: &seeds[1], ..key },
            LoadKey { workload: &digests[1], ..key },
            LoadKey { point: &points[1], ..key },
            LoadKey { trial: 1, ..key },
            LoadKey { phase: "warm-up", ..key },
            LoadKey { concern: "lengths", ..key },
        ];
        let values: std::collections::BTreeSet<u64> = keys.iter().map(|key| key.generator().at(0)).collect();
        assert_eq!(values.len(), keys.len());
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let paths: [&[&str]; 6] = [&[], &[""], &["ab"], &["a", "b"], &["", "ab"], &["ab", ""]];
        let values: std::collections::BTreeSet<u64> = paths.iter().map(|path| keyed(path).at(0)).collect();
        assert_eq!(values.len(), paths.len());
    }

    #[test]
    fn values_below_a_bound_are_equally_likely() {
        // Chi-square over 6 cells: one key in a thousand exceeds 20.5 by chance, and this key is fixed.
        let mut counts = [0_u32; 6];
        let mut generator = generator();
        for index in 0..60_000 {
            counts[generator.below(index, bound(6)) as usize] += 1;
        }
        let chi_square: f64 = counts.iter().map(|count| (f64::from(*count) - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi_square < 20.5, "{counts:?}");
    }

    #[test]
    fn a_shuffle_reaches_every_order() {
        let orders: std::collections::BTreeSet<Vec<u8>> =
            (0..200).map(|round: u32| keyed(&[&round.to_string()]).shuffle(vec![1, 2, 3, 4])).collect();
        assert_eq!(orders.len(), 24);
    }

    proptest! {
        #[test]
        fn the_order_of_asking_does_not_matter(indices in prop::collection::vec(prop_oneof![0..100_u64, any::<u64>()], 1..50)) {
            let mut remembering = generator();
            for index in indices {
                prop_assert_eq!(remembering.at(index), generator().at(index));
            }
        }

        #[test]
        fn a_hundred_shards_see_what_one_sees(shards in 1..100_u64) {
            let mut one = generator();
            let whole: Vec<u64> = (0..200).map(|index| one.at(index)).collect();
            let mut striped = vec![0; 200];
            for shard in 0..shards {
                let mut own = generator();
                for index in (shard..200).step_by(shards as usize) {
                    striped[index as usize] = own.at(index);
                }
            }
            prop_assert_eq!(striped, whole);
        }

        #[test]
        fn a_bound_is_kept(index in any::<u64>(), limit in 1..=u64::MAX) {
            prop_assert!(generator().below(index, bound(limit)) < limit);
        }

        #[test]
        fn a_unit_value_stays_below_one(index in any::<u64>()) {
            prop_assert!((0.0..1.0).contains(&generator().unit_f64(index)));
        }

        #[test]
        fn a_shuffle_keeps_every_item(items in prop::collection::vec(any::<u8>(), 0..50)) {
            let (mut before, mut after) = (items.clone(), generator().shuffle(items));
            before.sort_unstable();
            after.sort_unstable();
            prop_assert_eq!(after, before);
        }
    }
}
