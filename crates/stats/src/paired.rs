//! Pairs: the differences of adjacent measurements, their shift, and the interval that inverts the signed-rank test.

use crate::samples::{SampleError, Samples};
use crate::signed_rank::{SignedRankMethod, critical_value};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// The most pairs whose averages are formed: there are n (n + 1) / 2 of them, and a thousand pairs are more than any design
/// plans.
pub const MAX_PAIRS: usize = 1_000;

/// The most pairs whose sign flips are all counted: two to the twentieth.
pub const MAX_FLIPS: usize = 20;

/// The number of assignments of signs that are drawn beyond [`MAX_FLIPS`].
const DRAWN_FLIPS: u32 = 99_999;

/// The side of zero that is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Differences above zero.
    Above,
    /// Differences below zero.
    Below,
}

impl Side {
    pub(crate) fn contains(self, difference: f64) -> bool {
        match self {
            Self::Above => difference > 0.0,
            Self::Below => difference < 0.0,
        }
    }

    fn orient(self, value: f64) -> f64 {
        match self {
            Self::Above => value,
            Self::Below => -value,
        }
    }
}

/// The reason why there are no differences to test.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum PairError {
    /// A value is not finite, or there is none.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// There are more than [`MAX_PAIRS`].
    #[error("{0} pairs are more than the limit of {MAX_PAIRS}")]
    TooMany(usize),
}

/// The differences of pairs, such as logarithms of candidate over baseline; at least one, all finite.
#[derive(Debug, Clone, PartialEq)]
pub struct Differences {
    by_magnitude: Vec<f64>,
    samples: Samples,
}

impl Differences {
    /// Checks `values`, one for each pair, in the order of the pairs.
    ///
    /// # Errors
    /// [`PairError`] for no value, one that is not finite, or more than [`MAX_PAIRS`].
    pub fn new(values: &[f64]) -> Result<Self, PairError> {
        if values.len() > MAX_PAIRS {
            return Err(PairError::TooMany(values.len()));
        }
        let samples = Samples::new(values)?;
        let mut by_magnitude = samples.observed().to_vec();
        by_magnitude.sort_unstable_by(|left, right| left.abs().total_cmp(&right.abs()).then(left.total_cmp(right)));
        Ok(Self { by_magnitude, samples })
    }

    /// The differences in order of magnitude.
    pub(crate) fn by_magnitude(&self) -> &[f64] {
        &self.by_magnitude
    }

    /// The differences as samples, in the order of the pairs.
    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    /// The number of pairs, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "differences are never empty")]
    pub fn len(&self) -> usize {
        self.by_magnitude.len()
    }

    /// The number of differences that are exactly zero.
    pub fn zeros(&self) -> usize {
        self.by_magnitude.iter().filter(|d| **d == 0.0).count()
    }
}

/// The averages of all pairs of differences, including each with itself (Walsh, "Some significance tests for the median which are
/// valid under very general conditions", Annals of Mathematical Statistics 20, 1949).
#[derive(Debug, Clone)]
pub struct Averages {
    averages: Vec<f64>,
    n: usize,
}

impl Averages {
    /// Computes the averages of `differences`.
    pub fn new(differences: &Differences) -> Self {
        let mut averages = Vec::new();
        fill_walsh_averages(differences.samples.sorted(), &mut averages);
        Self { averages: ascending(&averages), n: differences.len() }
    }

    /// The Hodges-Lehmann shift: the median of the averages ("Estimates of location based on rank tests", Annals of Mathematical
    /// Statistics 34, 1963).
    pub fn shift(&self) -> f64 {
        crate::quantile::quantile(&self.averages, 0.5).unwrap_or_default()
    }

    /// The largest bound that the shift exceeds with a confidence of `1 - alpha`: the point at which the one-sided signed-rank
    /// test at `alpha` stops rejecting. `None` if the pairs are too few for a bound.
    pub fn lower(&self, alpha: f64) -> Option<f64> {
        self.averages.get(critical_value(self.n, alpha)?).copied()
    }

    /// The smallest bound that the shift stays below with a confidence of `1 - alpha`.
    pub fn upper(&self, alpha: f64) -> Option<f64> {
        let from_above = critical_value(self.n, alpha)?;
        self.averages.len().checked_sub(from_above + 1).and_then(|rank| self.averages.get(rank)).copied()
    }
}

/// Sorts the values in the order of `f64::total_cmp`, by integers of the same order: a gate sorts hundreds of averages for every
/// metric.
fn ascending(values: &[f64]) -> Vec<f64> {
    // All bits of a negative number are flipped, and the sign bit of a positive one, so that both ascend.
    let sign = 1_u64 << 63;
    let turn = |value: &f64| {
        let bits = value.to_bits();
        if bits & sign == 0 { bits | sign } else { !bits }
    };
    let mut keys: Vec<u64> = values.iter().map(turn).collect();
    keys.sort_unstable();
    keys.into_iter().map(|key| f64::from_bits(if key & sign == 0 { !key } else { key ^ sign })).collect()
}

/// Replaces the content of `averages` by the averages of all pairs of `values`.
pub(crate) fn fill_walsh_averages(values: &[f64], averages: &mut Vec<f64>) {
    averages.clear();
    for (place, &left) in values.iter().enumerate() {
        averages.extend(values.iter().skip(place).map(|&right| 0.5 * (left + right)));
    }
}

/// The probability of a sum of the differences at least as far on `side` if either sign of every difference is equally likely
/// (Fisher, "The Design of Experiments", 1935, section 21). Up to [`MAX_FLIPS`] nonzero differences every assignment is counted;
/// beyond that 99,999 are drawn by `seed`, and the probability is `(1 + reached) / (1 + drawn)`, which is never too small.
pub fn sign_flip(differences: &Differences, side: Side, seed: [u8; 32]) -> (f64, SignedRankMethod) {
    let values: Vec<f64> = differences.by_magnitude.iter().filter(|d| **d != 0.0).map(|d| side.orient(*d)).collect();
    let sum = |flipped: &mut dyn FnMut(usize) -> bool| {
        values.iter().enumerate().fold(0.0, |total, (place, value)| if flipped(place) { total - value } else { total + value })
    };
    let observed = sum(&mut |_| false);
    // Sums of the same magnitudes in different orders differ by rounding.
    let slack = 1e-12 * values.iter().fold(0.0, |total, value| total + value.abs());
    let reaches = |total: f64| total >= observed - slack;
    if values.len() <= MAX_FLIPS {
        let all = 1_u32 << values.len();
        let reached = (0..all).filter(|signs| reaches(sum(&mut |place| signs >> place & 1 == 1))).count();
        return (reached as f64 / f64::from(all), SignedRankMethod::Exact);
    }
    let mut rng = ChaCha8Rng::from_seed(seed);
    let mut draw = || {
        let mut word = 0;
        sum(&mut |place| {
            if place.is_multiple_of(32) {
                word = rng.next_u32();
            }
            word >> (place % 32) & 1 == 1
        })
    };
    let reached = (0..DRAWN_FLIPS).filter(|_| reaches(draw())).count();
    ((1 + reached) as f64 / f64::from(1 + DRAWN_FLIPS), SignedRankMethod::Sampled)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::signed_rank::signed_rank;

    fn differences(values: &[f64]) -> Differences {
        Differences::new(values).expect("differences")
    }

    #[test]
    fn whole_numbers_sort_as_the_values_do() {
        let values = [0.5, -0.0, 3e-300, -2.5, 0.0, f64::MAX, -1e-310, 7.0, -2.5, f64::MIN];
        let mut sorted = values;
        sorted.sort_by(f64::total_cmp);
        assert_eq!(ascending(&values).iter().map(|value| value.to_bits()).collect::<Vec<_>>(), sorted.map(f64::to_bits));
    }

    #[test]
    fn hostile_numbers_are_refused() {
        insta::assert_snapshot!(Differences::new(&[]).expect_err("refused"), @"no samples");
        insta::assert_snapshot!(Differences::new(&[f64::NAN]).expect_err("refused"), @"sample 0 is NaN, not a finite number");
        insta::assert_snapshot!(Differences::new(&[0.0; 1_001]).expect_err("refused"), @"1001 pairs are more than the limit of 1000");
    }

    #[test]
    fn the_shift_is_the_median_of_the_averages() {
        let averages = Averages::new(&differences(&[1.0, 2.0, 6.0]));
        // 1, 1.5, 2, 3.5, 4, 6
        assert_eq!(averages.shift().to_bits(), 2.75_f64.to_bits());
        assert_eq!((averages.lower(0.125), averages.upper(0.125)), (Some(1.0), Some(6.0)));
        assert_eq!(averages.lower(0.05), None, "three pairs bound nothing at 5 %");
    }

    #[test]
    fn flips_of_a_few_are_counted() {
        let (p, rule) = sign_flip(&differences(&[1.0, 2.0, 3.0]), Side::Above, [0; 32]);
        assert_eq!((p, rule), (0.125, SignedRankMethod::Exact));
        assert_eq!(sign_flip(&differences(&[1.0, -1.0]), Side::Above, [0; 32]).0.to_bits(), 0.75_f64.to_bits());
        assert_eq!(sign_flip(&differences(&[0.0]), Side::Above, [0; 32]).0.to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn flips_of_many_are_drawn_and_say_so() {
        let values: Vec<f64> = (0..30).map(|i| if i % 4 == 0 { -1.0 } else { 1.0 }).collect();
        let (p, rule) = sign_flip(&differences(&values), Side::Above, [1; 32]);
        assert_eq!(rule, SignedRankMethod::Sampled);
        // 22 of 30 heads: 0.00806 by the binomial distribution; the standard error is 0.0003.
        assert!((p - 0.008_06).abs() < 0.001, "{p}");
    }

    /// The share of all sign assignments of whole numbers whose sum is at least the observed one, one by one and without
    /// rounding.
    fn every_flip(values: &[i32]) -> f64 {
        let flipped = |signs: u32| -> i32 {
            values.iter().enumerate().map(|(place, value)| if signs >> place & 1 == 1 { -value } else { *value }).sum()
        };
        let all = 1_u32 << values.len();
        (0..all).filter(|signs| flipped(*signs) >= flipped(0)).count() as f64 / f64::from(all)
    }

    proptest! {
        #[test]
        fn exact_flips_are_all_flips(whole in prop::collection::vec(-9_i32..10, 1..12), unit in prop::sample::select(vec![1.0, 0.1, 3e-7])) {
            let values: Vec<f64> = whole.iter().map(|value| f64::from(*value) * unit).collect();
            let mirrored: Vec<i32> = whole.iter().map(|value| -value).collect();
            let found = |side: Side| sign_flip(&differences(&values), side, [0; 32]);
            prop_assert_eq!(found(Side::Above), (every_flip(&whole), SignedRankMethod::Exact));
            prop_assert_eq!(found(Side::Below), (every_flip(&mirrored), SignedRankMethod::Exact));
        }

        #[test]
        fn the_interval_inverts_the_test(values in prop::collection::vec(-1e3..1e3_f64, 5..25), alpha in 0.001..0.2_f64) {
            let averages = Averages::new(&differences(&values));
            if let Some(bound) = averages.lower(alpha) {
                let rejects = |at: f64| {
                    let shifted: Vec<f64> = values.iter().map(|value| value - at).collect();
                    signed_rank(&differences(&shifted), Side::Above).p <= alpha
                };
                let step = 1e-7 * (1.0 + bound.abs());
                prop_assert!(rejects(bound - step) && !rejects(bound + step));
                prop_assert!(bound <= averages.shift());
            }
        }

        #[test]
        fn bounds_mirror(values in prop::collection::vec(-1e3..1e3_f64, 5..25), alpha in 0.03..0.2_f64) {
            let mirrored: Vec<f64> = values.iter().map(|value| -value).collect();
            let (one, other) = (Averages::new(&differences(&values)), Averages::new(&differences(&mirrored)));
            prop_assert_eq!(one.upper(alpha), other.lower(alpha).map(|bound| -bound));
        }
    }
}
