//! The difference of two samples: the Hodges-Lehmann shift ("Estimates of location based on rank tests", Annals of Mathematical
//! Statistics 34, 1963) with the interval that the Mann-Whitney test implies, the same as a ratio, and Cliff's delta.
//!
//! The shift is the median of all differences between a value of one sample and a value of the other. Unlike the difference of
//! medians it is stable if noise has two modes, and it estimates exactly the quantity that the rank test tests.

use crate::hypothesis::{NoTest, check_sizes};
use crate::interval::{Interval, Method, NoInterval, check_level};
use crate::mann_whitney::{self, CountDistribution, MAX_EXACT_PAIRS};
use crate::normal;
use crate::order_statistic::MIN_COVERAGE;
use crate::quantile::quantile;
use crate::ranks;
use crate::samples::{SampleError, Samples};

/// The most pairs (the product of the two sizes): each is a difference to be kept and sorted, 8 MB in all.
pub const MAX_PAIRS: usize = 1_000_000;

/// The reason why there is no shift.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum NoShift {
    /// There are more pairs than the limit.
    #[error("{first} and {second} samples make too many pairs: the limit is {MAX_PAIRS}")]
    TooMany {
        /// The number of samples on one side.
        first: usize,
        /// The number on the other.
        second: usize,
    },
    /// A value has no logarithm, or a ratio is not a number.
    #[error(transparent)]
    Samples(#[from] SampleError),
    /// The ratio is too large or too small for a number.
    #[error("the ratio lies beyond every number")]
    Unbounded,
}

/// The shift from `first` to `second`, as a difference or as a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// The estimate: a difference in the samples' unit, or a ratio.
    pub estimate: f64,
    /// The values that a two-sided Mann-Whitney test does not reject, or the reason why there is no interval.
    pub interval: Result<Interval, NoInterval>,
}

/// The Hodges-Lehmann shift from `first` to `second`: the median (type 7) of all differences `second - first`, with the interval
/// from the c-th smallest to the c-th largest of them (Hollander, Wolfe and Chicken, "Nonparametric Statistical Methods", 2014,
/// 4.3).
///
/// c is the largest number with `P(U <= c - 1) <= (1 - level) / 2`. Up to [`MAX_EXACT_PAIRS`] pairs it is counted, and the
/// interval has its exact coverage; beyond, it is normal with a continuity correction. The distribution is that of samples
/// without ties; ties make the interval wider than needed. If even the interval from smallest to largest falls short of `level`,
/// it is given if it covers [`MIN_COVERAGE`] (or `level`, if lower).
///
/// # Errors
/// [`NoShift::TooMany`] beyond [`MAX_PAIRS`]. The interval's own errors are in [`Shift::interval`].
pub fn shift(first: &Samples, second: &Samples, level: f64) -> Result<Shift, NoShift> {
    let differences = differences(first, second)?;
    let estimate = quantile(&differences, 0.5).unwrap_or_default();
    let interval = rank(first.len(), second.len(), level).and_then(|found| interval_between(&differences, &found));
    Ok(Shift { estimate, interval })
}

/// The ratio of `second` to `first`: exp of the [`shift`] of the logarithms, and of its interval.
///
/// # Errors
/// As [`shift`]; [`NoShift::Samples`] for a value that is not above 0, [`NoShift::Unbounded`] if the ratio is not a finite number
/// above 0.
pub fn ratio(first: &Samples, second: &Samples, level: f64) -> Result<Shift, NoShift> {
    let logs = shift(&first.logs()?, &second.logs()?, level)?;
    let estimate = libm::exp(logs.estimate);
    if !is_ratio(estimate) {
        return Err(NoShift::Unbounded);
    }
    let interval = logs.interval.and_then(|interval| {
        let (low, high) = (libm::exp(interval.low), libm::exp(interval.high));
        let bounded = is_ratio(low) && is_ratio(high);
        bounded.then_some(Interval { low, high, ..interval }).ok_or(NoInterval::Unbounded)
    });
    Ok(Shift { estimate, interval })
}

fn is_ratio(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// Cliff's delta: the share of pairs in which the value of `second` is larger, less the share in which it is smaller, from -1 to 1
/// (Cliff, "Dominance statistics", Psychological Bulletin 114, 1993). It is `1 - 2 U / (n m)` of the Mann-Whitney U of `first`.
///
/// # Errors
/// [`NoTest::TooMany`] beyond [`hypothesis::MAX_SAMPLES`](crate::hypothesis::MAX_SAMPLES).
pub fn cliffs_delta(first: &Samples, second: &Samples) -> Result<f64, NoTest> {
    check_sizes(first.len(), second.len())?;
    let pairs = (first.len() * second.len()) as u64;
    let doubled_u = ranks::doubled_u(&ranks::groups(first, second));
    // Subtracted as whole numbers: a swap changes the sign and nothing else.
    Ok((pairs.cast_signed() - doubled_u.cast_signed()) as f64 / pairs as f64)
}

/// All differences `second - first`, ascending.
fn differences(first: &Samples, second: &Samples) -> Result<Vec<f64>, NoShift> {
    let (n, m) = (first.len(), second.len());
    if n.saturating_mul(m) > MAX_PAIRS {
        return Err(NoShift::TooMany { first: n, second: m });
    }
    let from = |&a: &f64| second.sorted().iter().map(move |&b| b - a + 0.0);
    let mut differences: Vec<f64> = first.sorted().iter().flat_map(from).collect();
    differences.sort_unstable_by(f64::total_cmp);
    Ok(differences)
}

/// The zero-based rank of the lower end, which the upper end mirrors, and the coverage of the interval between them.
struct IntervalEnds {
    rank: usize,
    coverage: f64,
    method: Method,
}

fn rank(n: usize, m: usize, level: f64) -> Result<IntervalEnds, NoInterval> {
    check_level(level)?;
    let limit = (1.0 - level) / 2.0;
    let found = if n * m <= MAX_EXACT_PAIRS { counted_rank(n, m, limit) } else { normal_rank(n, m, limit) };
    let floor = MIN_COVERAGE.min(level);
    if found.coverage < floor {
        return Err(NoInterval::TooFewForShift { first: n, second: m, best: found.coverage.max(0.0), floor });
    }
    Ok(found)
}

fn counted_rank(n: usize, m: usize, limit: f64) -> IntervalEnds {
    let counted = CountDistribution::without_ties(n, m);
    highest_rank(n * m, limit, Method::MannWhitney, |u| counted.tails(u).lower)
}

fn normal_rank(n: usize, m: usize, limit: f64) -> IntervalEnds {
    let (mean, sd) = ((n * m) as f64 / 2.0, mann_whitney::untied_variance(n, m).sqrt());
    highest_rank(n * m, limit, Method::MannWhitneyNormal, |u| normal::cdf((u as f64 + 0.5 - mean) / sd))
}

/// The highest rank below the middle whose `lower` probability is at most `limit`; 0 with its probability if there is none.
fn highest_rank(pairs: usize, limit: f64, method: Method, lower: impl Fn(usize) -> f64) -> IntervalEnds {
    let (mut rank, mut beyond) = (0, pairs.div_ceil(2));
    while rank + 1 < beyond {
        let middle = usize::midpoint(rank, beyond);
        if lower(middle) <= limit { rank = middle } else { beyond = middle }
    }
    IntervalEnds { rank, coverage: 1.0 - 2.0 * lower(rank), method }
}

fn interval_between(differences: &[f64], found: &IntervalEnds) -> Result<Interval, NoInterval> {
    let at = |rank: usize| differences.get(rank).copied().ok_or(NoInterval::Unbounded);
    let (low, high) = (at(found.rank)?, at(differences.len() - 1 - found.rank)?);
    Ok(Interval { low, high, level: found.coverage, method: found.method })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hypothesis::Alternative;
    use crate::mann_whitney::mann_whitney;
    use proptest::prelude::*;

    fn samples(values: &[f64]) -> Samples {
        Samples::new(values).expect("samples")
    }

    fn shift_between(first: &[f64], second: &[f64], level: f64) -> Shift {
        shift(&samples(first), &samples(second), level).expect("a shift")
    }

    #[test]
    fn a_constant_shift_is_found() {
        let found = shift_between(&[1.0, 2.0, 4.0, 8.0, 16.0], &[4.0, 5.0, 7.0, 11.0, 19.0], 0.95);
        let interval = found.interval.expect("an interval");
        assert_eq!((found.estimate, interval.method), (3.0, Method::MannWhitney));
        assert!(interval.contains(3.0));
    }

    #[test]
    fn the_coverage_is_that_of_the_ranks() {
        // 4 against 4: P(U = 0) is 1/70 on either side.
        let found = shift_between(&[1.0, 2.0, 3.0, 4.0], &[11.0, 12.0, 13.0, 14.0], 0.95).interval.expect("an interval");
        assert!((found.level - 68.0 / 70.0).abs() < 1e-15);
        assert_eq!((found.low, found.high), (7.0, 13.0));
    }

    #[test]
    fn too_few_samples_have_an_estimate_and_no_interval() {
        let refusal = shift_between(&[1.0, 2.0], &[5.0, 6.0, 7.0], 0.95).interval.expect_err("refused").to_string();
        insta::assert_snapshot!(refusal, @"2 and 3 samples bound their shift with 80.0 % confidence at most, and 90.0 % are needed: add samples");
        assert!(matches!(
            shift_between(&[1.0], &[5.0], 0.95).interval,
            Err(NoInterval::TooFewForShift { first: 1, second: 1, .. })
        ));
        assert!(matches!(shift_between(&[1.0], &[5.0], 1.0).interval, Err(NoInterval::Level { .. })));
        // 3 against 3 reach 90 %, and the interval has that level.
        assert!(
            (shift_between(&[1.0, 2.0, 3.0], &[5.0, 6.0, 7.0], 0.95).interval.expect("an interval").level - 0.9).abs() < 1e-15
        );
    }

    #[test]
    fn a_ratio_is_a_shift_of_logarithms() {
        let found = ratio(&samples(&[1.0, 2.0, 4.0, 8.0]), &samples(&[2.0, 4.0, 8.0, 16.0]), 0.95).expect("a ratio");
        assert!((found.estimate - 2.0).abs() < 1e-14);
        let refusal =
            |first: &[f64], second: &[f64]| ratio(&samples(first), &samples(second), 0.95).expect_err("refused").to_string();
        insta::assert_snapshot!(refusal(&[1.0, -2.0], &[1.0]), @"sample 1 is -2, which has no logarithm: only values above 0 have one");
        insta::assert_snapshot!(refusal(&[1e-320], &[1e150]), @"the ratio lies beyond every number");
    }

    #[test]
    fn too_many_pairs_are_refused() {
        let many = samples(&vec![1.0; 1001]);
        let refusal = shift(&many, &samples(&vec![1.0; 1000]), 0.95).expect_err("refused").to_string();
        insta::assert_snapshot!(refusal, @"1001 and 1000 samples make too many pairs: the limit is 1000000");
    }

    #[test]
    fn cliffs_delta_counts_pairs() {
        let delta = |first: &[f64], second: &[f64]| cliffs_delta(&samples(first), &samples(second)).expect("a delta");
        assert_eq!((delta(&[1.0, 2.0], &[3.0, 4.0]), delta(&[3.0, 4.0], &[1.0, 2.0]), delta(&[1.0], &[1.0])), (1.0, -1.0, 0.0));
        assert_eq!(delta(&[1.0, 2.0, 3.0], &[2.0]).to_bits(), 0.0_f64.to_bits());
    }

    /// Values that never repeat, nor their differences.
    fn distinct_samples() -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
        let values = || prop::collection::vec(0.0_f64..100.0, 3..60);
        (values(), values())
    }

    proptest! {
        #[test]
        fn the_interval_holds_what_the_test_does_not_reject((first, second) in distinct_samples(), step in 0.0_f64..=1.0) {
            let found = shift_between(&first, &second, 0.95);
            let Ok(interval) = found.interval else { return Ok(()) };
            prop_assert!(interval.contains(found.estimate));
            let p = |by: f64| {
                let moved: Vec<f64> = second.iter().map(|value| value - by).collect();
                mann_whitney(&samples(&first), &samples(&moved), Alternative::TwoSided).expect("a test").p
            };
            let width = interval.high - interval.low;
            let miss = 1.0 - interval.level;
            prop_assert!(p(interval.low - 1e-6 - width * step) <= miss * (1.0 + 1e-9));
            prop_assert!(p(interval.high + 1e-6 + width * step) <= miss * (1.0 + 1e-9));
            let inside = interval.low + width * (0.001 + 0.998 * step);
            prop_assert!(p(inside) > miss * (1.0 + 1e-9));
        }

        #[test]
        fn swapped_samples_mirror_the_shift(first in prop::collection::vec(-50_i32..50, 1..60), second in prop::collection::vec(-50_i32..50, 1..60)) {
            let [first, second] = [first, second].map(|side| side.into_iter().map(f64::from).collect::<Vec<_>>());
            let (there, back) = (shift_between(&first, &second, 0.9), shift_between(&second, &first, 0.9));
            prop_assert_eq!(Some(there.estimate), Some(-back.estimate));
            match (there.interval, back.interval) {
                (Ok(there), Ok(back)) => prop_assert_eq!((there.low, there.high, there.level), (-back.high, -back.low, back.level)),
                (there, back) => prop_assert!(there.is_err() && back.is_err()),
            }
            let delta = |a: &[f64], b: &[f64]| cliffs_delta(&samples(a), &samples(b)).expect("a delta");
            prop_assert_eq!(Some(delta(&first, &second)), Some(-delta(&second, &first)));
        }
    }
}
