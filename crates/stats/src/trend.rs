//! The trend of a number over the order of the trials: the Mann-Kendall test with the Theil-Sen slope.
//!
//! Both use only which of two trials was later and larger, so neither a wild value nor the shape of the distribution misleads
//! them (Mann, Econometrica 13, 1945; Kendall, "Rank Correlation Methods", 1975; Sen, JASA 63, 1968).

use crate::normal;
use crate::samples::{Samples, ratio};

/// The number of samples up to which the p-value is exact, ties included; above, it is normal with corrections. Every count of
/// orderings in the exact computation fits into 63 bits up to here: the largest is C(50, 25), about 1.3e14.
pub const MAX_EXACT: usize = 50;

/// The most samples: the slope needs every pair, and a thousand samples have half a million.
pub const MAX_SAMPLES: usize = 1_000;

/// A monotone trend over the order of observation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// Mann-Kendall's S: the number of rising pairs less that of falling pairs.
    pub s: i64,
    /// The two-sided p-value under exchangeable samples.
    pub p: f64,
    /// True if `p` comes from the exact distribution given the ties; false if from the normal approximation with tie and
    /// continuity correction.
    pub exact: bool,
    /// The Theil-Sen slope: the median change from one sample to the next, in the samples' unit.
    pub slope: f64,
    /// The slope over all steps from first to last, relative to the median; `None` if the median is 0.
    pub change: Option<f64>,
}

/// Tests for a trend; `None` for fewer than two or more than [`MAX_SAMPLES`] samples.
pub fn trend(samples: &Samples) -> Option<Trend> {
    let n = samples.len();
    if !(2..=MAX_SAMPLES).contains(&n) {
        return None;
    }
    let s = rising_less_falling(samples.observed());
    let ties = tie_sizes(samples.sorted());
    let exact = n <= MAX_EXACT;
    let p = if exact { exact_p(&ties, s) } else { normal_p(n, &ties, s) };
    let slope = theil_sen(samples.observed());
    let total = slope * (n - 1) as f64;
    Some(Trend { s, p, exact, slope, change: ratio(total, samples.median()).map(|size| size.copysign(total)) })
}

fn rising_less_falling(observed: &[f64]) -> i64 {
    let sign = |earlier: f64, later: f64| i64::from(later > earlier) - i64::from(later < earlier);
    pairs(observed).map(|(_, earlier, later)| sign(earlier, later)).sum()
}

/// The median of all slopes between two samples.
fn theil_sen(observed: &[f64]) -> f64 {
    let mut slopes: Vec<f64> = pairs(observed).map(|(steps, earlier, later)| (later - earlier) / steps as f64).collect();
    slopes.sort_unstable_by(f64::total_cmp);
    // A slope of -0.0 becomes 0.0.
    crate::quantile(&slopes, 0.5).unwrap_or_default() + 0.0
}

/// Returns every pair as (steps apart, earlier, later).
fn pairs(observed: &[f64]) -> impl Iterator<Item = (usize, f64, f64)> {
    let from = |(place, &earlier): (usize, &f64)| (place, earlier);
    observed.iter().enumerate().map(from).flat_map(move |(place, earlier)| {
        observed.iter().skip(place + 1).enumerate().map(move |(gap, &later)| (gap + 1, earlier, later))
    })
}

/// The number of occurrences of each value, in ascending order of the values.
fn tie_sizes(sorted: &[f64]) -> Vec<usize> {
    sorted.chunk_by(|a, b| a.total_cmp(b).is_eq()).map(<[f64]>::len).collect()
}

/// The probability of an |S| at least as large if every ordering of the samples, ties included, is equally likely.
///
/// Orderings are built by merging one group of equal values after the other into the smaller ones. Merging `t` into `m` adds
/// inversions as a Gaussian binomial coefficient counts them, independently of the groups before, so the distribution of all
/// inversions is the convolution of those. With P untied pairs, S = P - 2 * inversions.
fn exact_p(ties: &[usize], s: i64) -> f64 {
    let mut merged = 0;
    let mut inversions = vec![1.0];
    for &size in ties {
        inversions = convolve(&inversions, &merge_distribution(merged, size));
        merged += size;
    }
    let untied = inversions.len() - 1;
    let extreme = |count: &usize| untied.abs_diff(2 * count) as u64 >= s.unsigned_abs();
    let p: f64 = (0..inversions.len()).filter(extreme).filter_map(|count| inversions.get(count)).sum();
    p.min(1.0)
}

/// The probability of each number of inversions between `t` equal values and `m` smaller ones: the coefficients of the Gaussian
/// binomial, which are Mann-Whitney counts, over their sum. Whole numbers throughout, exact up to [`MAX_EXACT`] values.
fn merge_distribution(m: usize, t: usize) -> Vec<f64> {
    let size = m * t + 1;
    let mut counts = vec![0_i64; size];
    if let Some(first) = counts.first_mut() {
        *first = 1;
    }
    for j in 1..=t {
        multiply_by_one_minus_power(&mut counts, m + j);
        divide_by_one_minus_power(&mut counts, j);
    }
    let total: i64 = counts.iter().sum();
    counts.into_iter().map(|count| count as f64 / total as f64).collect()
}

/// Multiplies a power series by `1 - q^power`, keeping its length.
fn multiply_by_one_minus_power(series: &mut [i64], power: usize) {
    for place in (power..series.len()).rev() {
        series[place] -= series[place - power];
    }
}

/// Divides a power series by `1 - q^power`, keeping its length.
fn divide_by_one_minus_power(series: &mut [i64], power: usize) {
    for place in power..series.len() {
        series[place] += series[place - power];
    }
}

fn convolve(left: &[f64], right: &[f64]) -> Vec<f64> {
    let mut product = vec![0.0; left.len() + right.len() - 1];
    for (i, a) in left.iter().enumerate() {
        for (cell, b) in product.iter_mut().skip(i).zip(right) {
            *cell += a * b;
        }
    }
    product
}

/// Kendall's normal approximation: variance `(n(n-1)(2n+5) - sum t(t-1)(2t+5)) / 18`, S moved one towards 0.
fn normal_p(n: usize, ties: &[usize], s: i64) -> f64 {
    let term = |n: usize| (n * n.saturating_sub(1) * (2 * n + 5)) as f64;
    let tied: f64 = ties.iter().map(|&size| term(size)).sum();
    let variance = (term(n) - tied) / 18.0;
    if variance <= 0.0 || s == 0 {
        return 1.0;
    }
    let z = (s.abs() - 1) as f64 / variance.sqrt();
    (2.0 * normal::cdf(-z)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_test(values: &[f64]) -> Trend {
        trend(&Samples::new(values).expect("samples")).expect("a trend")
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12
    }

    #[test]
    fn five_in_order_reach_one_in_sixty() {
        let rising = run_test(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert!(close(rising.p, 2.0 / 120.0) && rising.s == 10 && rising.exact);
        assert_eq!(run_test(&[5.0, 4.0, 3.0, 2.0, 1.0]).s, -10);
    }

    #[test]
    fn equal_samples_have_no_trend() {
        let flat = run_test(&[2.0; 6]);
        assert_eq!((flat.s, flat.p, flat.slope, flat.change), (0, 1.0, 0.0, Some(0.0)));
    }

    /// All orderings of `values`, counted one by one.
    fn enumerated_p(values: &[f64]) -> f64 {
        let s = rising_less_falling(values).abs();
        let (mut extreme, mut all) = (0_u32, 0_u32);
        each_ordering(&mut values.to_vec(), 0, &mut |ordering| {
            all += 1;
            extreme += u32::from(rising_less_falling(ordering).abs() >= s);
        });
        f64::from(extreme) / f64::from(all)
    }

    fn each_ordering(values: &mut [f64], from: usize, visit: &mut dyn FnMut(&[f64])) {
        if from == values.len() {
            return visit(values);
        }
        for place in from..values.len() {
            values.swap(from, place);
            each_ordering(values, from + 1, visit);
            values.swap(from, place);
        }
    }

    #[test]
    fn the_exact_p_counts_orderings_with_and_without_ties() {
        for values in [
            &[3.0, 1.0, 2.0][..],
            &[1.0, 3.0, 2.0, 5.0, 4.0, 6.0],
            &[1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 3.0],
            &[2.0, 1.0, 2.0, 2.0, 4.0, 2.0, 5.0],
            &[7.0, 7.0, 7.0, 7.0, 9.0],
        ] {
            assert!(close(run_test(values).p, enumerated_p(values)), "{values:?}");
        }
    }

    #[test]
    fn the_normal_approximation_meets_the_exact_p_where_they_change_over() {
        let values: Vec<f64> = (0..50_u32).map(|i| f64::from(i * 37 % 50) + f64::from(i) * 0.4).collect();
        let found = run_test(&values);
        let samples = Samples::new(&values).expect("samples");
        let approximate = normal_p(50, &tie_sizes(samples.sorted()), found.s);
        assert!(found.exact && (found.p - approximate).abs() < 0.005, "{} {approximate}", found.p);
    }

    #[test]
    fn the_largest_exact_merge_stays_whole() {
        let merged = merge_distribution(25, 25);
        assert!(close(merged.iter().sum::<f64>(), 1.0) && merged.iter().all(|p| *p > 0.0));
    }

    #[test]
    fn the_slope_ignores_a_wild_value() {
        let drifting = run_test(&[10.0, 10.1, 10.2, 99.0, 10.4, 10.5, 10.6]);
        assert!((drifting.slope - 0.1).abs() < 1e-9);
        assert!((drifting.change.expect("a median") - 0.6 / 10.4).abs() < 1e-9);
        assert!(run_test(&[3.0, 2.0, 1.0]).change.expect("a median") < 0.0);
    }

    #[test]
    fn one_sample_or_too_many_have_no_trend() {
        let absent = |n: usize| trend(&Samples::new(&vec![1.0; n]).expect("samples")).is_none();
        assert!(absent(1) && absent(MAX_SAMPLES + 1) && !absent(MAX_SAMPLES));
    }
}
