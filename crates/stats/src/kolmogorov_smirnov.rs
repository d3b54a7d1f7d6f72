//! The Kolmogorov-Smirnov test: whether two samples come from one distribution, in whatever way they differ. It takes the largest
//! distance between the two empirical distributions, so it detects a changed spread or a second mode even if the centres agree.

use std::f64::consts::PI;

use crate::hypothesis::{NoTest, check_sizes};
use crate::ranks::{Group, groups};
use crate::samples::Samples;

/// The number of pairs (the product of the two sizes) up to which the p-value is exact: 100 against 100. Every pair costs one
/// step.
pub const MAX_EXACT_PAIRS: usize = 10_000;

/// The test's result; two-sided.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KolmogorovSmirnov {
    /// D: the largest distance between the two empirical distribution functions, 0 to 1.
    pub distance: f64,
    /// The p-value: the probability of a D at least as large if both samples came from one distribution.
    pub p: f64,
    /// True if `p` is exact given the ties; false if it is Kolmogorov's limit for large samples, which ties make too large.
    pub exact: bool,
}

/// Tests `first` against `second`, two-sided. Swapping the samples changes nothing.
///
/// # Errors
/// [`NoTest::AllEqual`] if nothing varies, [`NoTest::TooMany`] beyond
/// [`hypothesis::MAX_SAMPLES`](crate::hypothesis::MAX_SAMPLES).
pub fn kolmogorov_smirnov(first: &Samples, second: &Samples) -> Result<KolmogorovSmirnov, NoTest> {
    let (n, m) = (first.len(), second.len());
    check_sizes(n, m)?;
    let groups = groups(first, second);
    if groups.len() == 1 {
        return Err(NoTest::AllEqual);
    }
    let scaled = scaled_distance(n, m, &groups);
    let distance = scaled as f64 / (n as f64 * m as f64);
    let exact = n * m <= MAX_EXACT_PAIRS;
    let p = if exact {
        // Longer rows are fewer, and the bytes are the same in either order of the samples.
        let (rows, columns) = (n.min(m), n.max(m));
        exact_p(rows, columns, &ends_of_ties(&groups), scaled)
    } else {
        kolmogorov((n as f64 * m as f64 / (n + m) as f64).sqrt() * distance)
    };
    Ok(KolmogorovSmirnov { distance, p, exact })
}

/// D times both sizes, which is a whole number: the largest `|i m - j n|` with i values of the first and j of the second sample
/// at most x.
fn scaled_distance(n: usize, m: usize, groups: &[Group]) -> u64 {
    let through = |counts: &mut (usize, usize), group: &Group| {
        *counts = (counts.0 + group.first, counts.1 + group.second);
        Some(*counts)
    };
    groups.iter().scan((0, 0), through).map(|(i, j)| scaled_gap(i, j, n, m)).max().unwrap_or_default()
}

fn scaled_gap(i: usize, j: usize, n: usize, m: usize) -> u64 {
    (i as u64 * m as u64).abs_diff(j as u64 * n as u64)
}

/// For each number of values of the joint order, true if a group of equal ones has ended there. Within a group there is no
/// distance to compute.
fn ends_of_ties(groups: &[Group]) -> Vec<bool> {
    let ends = groups.iter().flat_map(|group| std::iter::repeat_n(false, group.size() - 1).chain([true]));
    std::iter::once(false).chain(ends).collect()
}

/// The share of all lattice paths from (0, 0) to (n, m) that are somewhere at least `scaled` away from the diagonal.
///
/// `reached[j]` is, for paths through (i, j), the probability of having reached that distance already; the step before came from
/// the left with probability `i / (i + j)`. All sums have positive terms only, so that small probabilities keep their digits
/// (Hodges, "The significance probability of the Smirnov two-sample test", Arkiv för Matematik 3, 1957; with ties Schröer and
/// Trenkler, Computational Statistics and Data Analysis 20, 1995).
fn exact_p(n: usize, m: usize, ends: &[bool], scaled: u64) -> f64 {
    let far = |i: usize, j: usize| ends.get(i + j).is_some_and(|end| *end) && scaled_gap(i, j, n, m) >= scaled;
    let mut reached = vec![0.0; m + 1];
    for i in 0..=n {
        let mut below = 0.0;
        for (j, cell) in reached.iter_mut().enumerate() {
            let from_left = i as f64 * *cell;
            let from_below = j as f64 * below;
            let before = if i + j == 0 { 0.0 } else { (from_left + from_below) / (i + j) as f64 };
            *cell = if far(i, j) { 1.0 } else { before };
            below = *cell;
        }
    }
    reached.last().copied().unwrap_or_default()
}

/// The probability that the limit of the scaled distance exceeds `x`: `2 sum (-1)^(k-1) exp(-2 k^2 x^2)` (Kolmogorov, 1933;
/// Smirnov, Annals of Mathematical Statistics 19, 1948). Below 1 that series alternates too long, and its theta transform `1 -
/// sqrt(2 pi) / x sum exp(-(2k - 1)^2 pi^2 / (8 x^2))` is used.
pub fn kolmogorov(x: f64) -> f64 {
    /// The term after the last is below 1e-16 of the first on either side of 1.
    const TERMS: u32 = 6;
    if x.is_nan() || x <= 0.0 {
        return if x.is_nan() { f64::NAN } else { 1.0 };
    }
    if x < 1.0 {
        let term = |k: u32| libm::exp(-f64::from((2 * k - 1) * (2 * k - 1)) * (PI / x) * (PI / x) / 8.0);
        return (1.0 - (2.0 * PI).sqrt() / x * (1..=TERMS).map(term).sum::<f64>()).clamp(0.0, 1.0);
    }
    let term = |k: u32| libm::exp(-2.0 * f64::from(k * k) * x * x).copysign(if k.is_multiple_of(2) { -1.0 } else { 1.0 });
    2.0 * (1..=TERMS).map(term).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::redistribute;
    use proptest::prelude::*;

    fn samples(values: &[f64]) -> Samples {
        Samples::new(values).expect("samples")
    }

    fn run_test(first: &[f64], second: &[f64]) -> KolmogorovSmirnov {
        kolmogorov_smirnov(&samples(first), &samples(second)).expect("a test")
    }

    #[test]
    fn samples_apart_have_the_smallest_p() {
        let found = run_test(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]);
        assert!(found.exact && (found.p - 0.1).abs() < 1e-15 && (found.distance - 1.0).abs() < 1e-15);
    }

    #[test]
    fn equal_samples_have_no_test_and_like_ones_no_difference() {
        assert_eq!(kolmogorov_smirnov(&samples(&[2.0; 3]), &samples(&[2.0; 5])), Err(NoTest::AllEqual));
        let same = run_test(&[1.0, 2.0], &[1.0, 2.0]);
        assert_eq!((same.distance, same.p), (0.0, 1.0));
    }

    #[test]
    fn many_pairs_are_judged_by_the_limit() {
        let ramp = |n: u32, from: f64| (0..n).map(|i| f64::from(i) + from).collect::<Vec<_>>();
        assert!(run_test(&ramp(100, 0.0), &ramp(100, 0.5)).exact && !run_test(&ramp(100, 0.0), &ramp(101, 0.5)).exact);
        let apart = run_test(&ramp(1000, 0.0), &ramp(1000, 5000.0));
        assert!(apart.p >= 0.0 && apart.p < 1e-300);
    }

    #[test]
    fn the_two_series_of_the_limit_meet() {
        assert!((kolmogorov(1.0 - 1e-12) - kolmogorov(1.0)).abs() < 1e-11);
        assert_eq!((kolmogorov(0.0), kolmogorov(-1.0), kolmogorov(0.01)), (1.0, 1.0, 1.0));
        assert!(kolmogorov(f64::NAN).is_nan() && kolmogorov(f64::INFINITY).abs() < 1e-300);
    }

    /// All choices of the first sample, one by one.
    fn enumerated(first: &[f64], second: &[f64]) -> f64 {
        let distance = |first: &[f64], second: &[f64]| {
            scaled_distance(first.len(), second.len(), &groups(&samples(first), &samples(second)))
        };
        let seen = distance(first, second);
        let (mut far, mut total) = (0_u32, 0_u32);
        for (first, second) in redistribute(first, second) {
            total += 1;
            far += u32::from(distance(&first, &second) >= seen);
        }
        f64::from(far) / f64::from(total)
    }

    fn drawn(values: std::ops::Range<i32>) -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(values.prop_map(f64::from), 1..6)
    }

    proptest! {
        #[test]
        fn the_exact_p_counts_every_choice(
            (first, second) in prop_oneof![(drawn(0..4), drawn(0..4)), (drawn(0..1000), drawn(0..1000))],
        ) {
            let ours = kolmogorov_smirnov(&samples(&first), &samples(&second));
            prop_assume!(ours.is_ok());
            prop_assert!((ours.expect("a test").p - enumerated(&first, &second)).abs() < 1e-13);
        }

        #[test]
        fn swapped_samples_say_the_same(first in prop::collection::vec(0_i32..60, 1..130), second in prop::collection::vec(0_i32..60, 1..130)) {
            let [first, second] = [first, second].map(|side| samples(&side.into_iter().map(f64::from).collect::<Vec<_>>()));
            let (there, back) = (kolmogorov_smirnov(&first, &second), kolmogorov_smirnov(&second, &first));
            prop_assert_eq!(there.map(|found| (found.p.to_bits(), found.exact)), back.map(|found| (found.p.to_bits(), found.exact)));
        }
    }
}
