//! Wilcoxon's signed-rank test of paired differences (Wilcoxon, "Individual comparisons by ranking methods", Biometrics Bulletin
//! 1, 1945).
//!
//! Differences of exactly zero have no direction and are left out (Wilcoxon's own rule); their number is reported. Equal
//! magnitudes share the mean of their ranks, and the exact distribution is that of the shared ranks, so the test stays valid with
//! ties.

use std::sync::OnceLock;

use crate::normal;
use crate::paired::{Differences, Side};

/// The most differences whose exact distribution is computed.
///
/// Beyond this number the normal approximation overestimates the probability of a rare sum, by a share that grows towards the
/// tail and falls as 1/n. At 201 differences, with or without ties, it is 7 % too large at 5e-4, 9 % at 2.5e-4 and 16 % at 5e-5;
/// at 1,000 differences 1.4, 1.8 and 3.0 %. At 0.05 it is right to half a percent. So gates err on the safe side.
pub const MAX_EXACT: usize = 200;

/// The method by which a probability was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignedRankMethod {
    /// Every assignment of signs is counted.
    Exact,
    /// The normal approximation with tie and continuity correction.
    Approximate,
    /// A seeded sample of the assignments of signs.
    Sampled,
}

/// The test's result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SignedRank {
    /// The sum of the ranks of the differences on the tested side.
    pub statistic: f64,
    /// The probability of a sum at least as large if either sign of every difference is equally likely.
    pub p: f64,
    /// The number of differences that were ranked.
    pub n: usize,
    /// The number of differences that were zero and left out.
    pub zeros: usize,
    /// The method by which `p` was computed.
    pub rule: SignedRankMethod,
}

/// Tests, one-sided, whether the differences are on `side` of zero. Exact up to [`MAX_EXACT`] ranked differences, with or without
/// ties; approximate beyond. If all differences are zero the probability is 1.
pub fn signed_rank(differences: &Differences, side: Side) -> SignedRank {
    let zeros = differences.zeros();
    let ranks = doubled_ranks(differences);
    let on_side = differences.by_magnitude().iter().filter(|d| **d != 0.0).zip(&ranks).filter(|(d, _)| side.contains(**d));
    let doubled: u64 = on_side.map(|(_, rank)| rank).sum();
    let (p, rule) = match ranks.len() {
        0 => (1.0, SignedRankMethod::Exact),
        1..=MAX_EXACT => (exact(&ranks, doubled), SignedRankMethod::Exact),
        _ => (approximate(&ranks, doubled), SignedRankMethod::Approximate),
    };
    SignedRank { statistic: doubled as f64 / 2.0, p, n: ranks.len(), zeros, rule }
}

/// Twice the rank of each nonzero difference, ascending: whole numbers even if ranks are shared.
fn doubled_ranks(differences: &Differences) -> Vec<u64> {
    let ranked: Vec<f64> = differences.by_magnitude().iter().map(|d| d.abs()).filter(|d| *d != 0.0).collect();
    let mut ranks = Vec::with_capacity(ranked.len());
    for group in ranked.chunk_by(|left, right| left.total_cmp(right).is_eq()) {
        // Ranks first + 1 to first + len; twice their mean is the sum of both.
        let first = ranks.len() as u64;
        let last = first + group.len() as u64;
        ranks.extend(std::iter::repeat_n(first + 1 + last, group.len()));
    }
    ranks
}

/// The share of all assignments of signs whose sum of `ranks` is at least `observed`.
///
/// The distribution is built rank by rank: each is added or not, both with probability one half. Halves of doubles are exact, so up to
/// 53 ranks no digit is lost at all.
fn exact(ranks: &[u64], observed: u64) -> f64 {
    // Without ties the doubled ranks are 2, 4, 6, and so on, and a sum is as probable as its half is for the ranks 1, 2, 3.
    let is_untied = (1_u64..).zip(ranks).all(|(rank, doubled)| *doubled == 2 * rank);
    if is_untied {
        return tail(untied_distribution(ranks.len()), observed / 2);
    }
    tail(&distribution(ranks), observed)
}

/// The probability of at least `observed`, summed from the small end so that a small probability keeps its digits.
fn tail(distribution: &[f64], observed: u64) -> f64 {
    let observed = usize::try_from(observed).unwrap_or(usize::MAX);
    distribution.get(observed..).unwrap_or_default().iter().rev().fold(0.0, |total, p| total + p).min(1.0)
}

/// The distribution for untied ranks 1 to `n`, at most [`MAX_EXACT`], computed once: a gate needs it once for every metric.
fn untied_distribution(n: usize) -> &'static [f64] {
    static CACHE: [OnceLock<Vec<f64>>; MAX_EXACT + 1] = [const { OnceLock::new() }; MAX_EXACT + 1];
    let made = CACHE.get(n).map(|made| made.get_or_init(|| distribution(&(1..=n as u64).collect::<Vec<_>>())));
    made.map_or(&[], Vec::as_slice)
}

fn distribution(ranks: &[u64]) -> Vec<f64> {
    let total: u64 = ranks.iter().sum();
    let mut probability = vec![0.0; total as usize + 1];
    if let Some(empty) = probability.first_mut() {
        *empty = 1.0;
    }
    let mut reach = 0;
    for &rank in ranks {
        let rank = rank as usize;
        reach += rank;
        for sum in (0..=reach).rev() {
            let without = probability.get(sum).copied().unwrap_or_default();
            let with = sum.checked_sub(rank).and_then(|rest| probability.get(rest)).copied().unwrap_or_default();
            if let Some(place) = probability.get_mut(sum) {
                *place = 0.5 * without + 0.5 * with;
            }
        }
    }
    probability
}

/// The normal approximation. Mean and variance of the sum under random signs are half and a quarter of the sums of ranks and of
/// their squares, which accounts for ties; half a rank is subtracted for continuity.
fn approximate(ranks: &[u64], observed: u64) -> f64 {
    let sum: u64 = ranks.iter().sum();
    let squares = ranks.iter().fold(0.0, |total, &rank| total + (rank as f64) * (rank as f64));
    let mean = sum as f64 / 2.0;
    // One unit of the untied sum is two of the doubled one, so half a unit is one.
    let z = (observed as f64 - mean - 1.0) / (squares / 4.0).sqrt();
    // The tail itself, not 1 less the rest, which would be 0 if most differences agree: chance is never ruled out.
    normal::cdf(-z)
}

/// The largest `c` for which a sum of untied ranks 1 to `n` is at most `c` with a probability of at most `alpha`; `None` if even
/// a sum of zero is likelier. By symmetry, the same holds for a sum of at least `n (n + 1) / 2 - c`.
pub fn critical_value(n: usize, alpha: f64) -> Option<usize> {
    if n == 0 {
        return None;
    }
    if n > MAX_EXACT {
        return approximate_critical(n, alpha);
    }
    let mut total = 0.0;
    let mut within = |p: &f64| {
        total += p;
        total <= alpha
    };
    untied_distribution(n).iter().map_while(|p| within(p).then_some(())).count().checked_sub(1)
}

fn approximate_critical(n: usize, alpha: f64) -> Option<usize> {
    let n = n as f64;
    let (mean, sd) = (n * (n + 1.0) / 4.0, (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt());
    let last = (mean - 0.5 + sd * normal::quantile(alpha)).floor();
    (last >= 0.0).then_some(last as usize)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn test(values: &[f64], side: Side) -> SignedRank {
        signed_rank(&Differences::new(values).expect("differences"), side)
    }

    fn p(values: &[f64]) -> f64 {
        test(values, Side::Above).p
    }

    #[test]
    fn a_lone_regression_among_a_hundred_needs_eleven_pairs() {
        let all_worse = |n: u32| p(&(1..=n).map(f64::from).collect::<Vec<_>>());
        assert!(all_worse(10) > 5e-4 && all_worse(11) <= 5e-4);
        assert_eq!(all_worse(11).to_bits(), 0.5_f64.powi(11).to_bits());
    }

    #[test]
    fn agrees_with_published_tables() {
        // One-sided 5 %, 1 % and 0.5 % points: Hollander and Wolfe, "Nonparametric Statistical Methods", table A.4, as critical sums.
        assert_eq!([5, 8, 10, 12, 20].map(|n| critical_value(n, 0.05)), [Some(0), Some(5), Some(10), Some(17), Some(60)]);
        assert_eq!([7, 10, 20].map(|n| critical_value(n, 0.01)), [Some(0), Some(5), Some(43)]);
        assert_eq!([4, 0].map(|n| critical_value(n, 0.05)), [None, None]);
    }

    #[test]
    fn zeros_are_left_out_and_counted() {
        let tested = test(&[0.0, 1.0, 2.0, -0.0, 3.0], Side::Above);
        assert_eq!((tested.n, tested.zeros, tested.statistic, tested.p), (3, 2, 6.0, 0.125));
        let nothing = test(&[0.0; 4], Side::Above);
        assert_eq!((nothing.n, nothing.p), (0, 1.0));
    }

    #[test]
    fn beyond_the_limit_it_approximates_and_says_so() {
        let at = |n: usize| test(&(1..=n).map(|i| i as f64).collect::<Vec<_>>(), Side::Above).rule;
        assert_eq!((at(MAX_EXACT), at(MAX_EXACT + 1)), (SignedRankMethod::Exact, SignedRankMethod::Approximate));
    }

    #[test]
    fn however_many_differences_agree_chance_is_not_ruled_out() {
        let all = p(&(1..=crate::paired::MAX_PAIRS).map(|i| i as f64).collect::<Vec<_>>());
        assert!(all > 0.0 && all < 1e-160, "{all:e}");
    }

    /// The doubled ranks of `n` differences in which each run of `group` shares a magnitude.
    fn grouped(n: usize, group: usize) -> Vec<u64> {
        let values: Vec<f64> = (0..n).map(|place| (1 + place / group) as f64).collect();
        doubled_ranks(&Differences::new(&values).expect("differences"))
    }

    /// The excess of the approximation over the exact probability, in percent, at the first sum for which the latter is at most
    /// `alpha`.
    fn excess_pct(ranks: &[u64], tails: &[f64], alpha: f64) -> f64 {
        let first = tails.partition_point(|tail| *tail > alpha);
        // Impossible sums share the tail of the next possible one.
        let observed = tails.partition_point(|tail| *tail >= tails[first]) - 1;
        100.0 * (approximate(ranks, observed as u64) / tails[observed] - 1.0)
    }

    #[test]
    fn the_approximation_errs_by_what_is_said_of_it() {
        let asked = [0.05, 5e-4, 2.5e-4, 5e-5];
        for (n, said) in [
            (50, [-0.3, 32.4, 43.9, 81.6]),
            (100, [-0.1, 14.9, 19.6, 34.4]),
            (200, [-0.1, 7.1, 9.3, 15.8]),
            (201, [-0.1, 7.1, 9.3, 15.7]),
            (1_000, [0.0, 1.4, 1.8, 3.0]),
        ] {
            for (group, room) in [(1, 0.1), (5, 1.0)] {
                let ranks = grouped(n, group);
                let mut tails = distribution(&ranks);
                (1..tails.len()).rev().for_each(|place| tails[place - 1] += tails[place]);
                for (alpha, said) in asked.into_iter().zip(said) {
                    let found = excess_pct(&ranks, &tails, alpha);
                    assert!((found - said).abs() <= room, "{n} in groups of {group} at {alpha}: {found} is not {said}");
                }
            }
        }
    }

    #[test]
    fn the_approximation_bounds_no_closer_than_the_exact_distribution() {
        let further = |n: usize, alpha: f64| Some(critical_value(n, alpha)? - approximate_critical(n, alpha)?);
        assert_eq!([0.05, 0.025, 5e-4, 2.5e-4, 5e-5].map(|alpha| further(200, alpha)), [0, 1, 16, 20, 30].map(Some));
    }

    /// Every assignment of signs, one by one.
    fn enumerated(values: &[f64]) -> f64 {
        let differences = Differences::new(values).expect("differences");
        let ranks = doubled_ranks(&differences);
        let observed = test(values, Side::Above).statistic * 2.0;
        let reaches = |signs: &u32| {
            let sum: u64 = ranks.iter().enumerate().filter(|(place, _)| signs >> place & 1 == 1).map(|(_, rank)| rank).sum();
            sum as f64 >= observed
        };
        let all = 1_u32 << ranks.len();
        (0..all).filter(reaches).count() as f64 / f64::from(all)
    }

    proptest! {
        #[test]
        fn exact_equals_enumeration(values in prop::collection::vec(-4_i8..5, 1..11)) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            prop_assert!((p(&values) - enumerated(&values)).abs() < 1e-12);
        }

        #[test]
        fn the_order_of_pairs_does_not_matter(values in prop::collection::vec(-1e3..1e3_f64, 1..30)) {
            let mut reversed = values.clone();
            reversed.reverse();
            prop_assert_eq!(p(&values).to_bits(), p(&reversed).to_bits());
        }

        #[test]
        fn both_sides_mirror_each_other(values in prop::collection::vec(-1e3..1e3_f64, 1..30)) {
            let mirrored: Vec<f64> = values.iter().map(|value| -value).collect();
            prop_assert_eq!(test(&values, Side::Above).p.to_bits(), test(&mirrored, Side::Below).p.to_bits());
        }

        #[test]
        fn a_worse_pair_never_makes_it_less_likely(values in prop::collection::vec(-1e3..1e3_f64, 2..20), more in 0.0..1e3_f64) {
            let shifted: Vec<f64> = values.iter().map(|value| value + more).collect();
            prop_assert!(p(&shifted) <= p(&values) + 1e-15);
        }
    }
}
