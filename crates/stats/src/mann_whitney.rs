//! The Mann-Whitney rank test: whether one sample tends to be larger than the other ("On a test of whether one of two random
//! variables is stochastically larger than the other", Annals of Mathematical Statistics 18, 1947).
//!
//! It uses only which of two values is larger, so it assumes no shape of the distribution. It needs independent samples: a drift
//! of the machine during the run takes all its power, and pairs in time need a paired test.

use crate::hypothesis::{Alternative, NoTest, check_sizes};
use crate::normal;
use crate::ranks::{Group, count_choices, doubled_midranks, doubled_u, groups};
use crate::samples::Samples;
use crate::special::Tails;

/// The number of pairs (the product of the two sizes) up to which the p-value is exact, with and without ties: 50 against 50, 20
/// against 125. The counts fit into 128 bits up to here; the largest, C(100, 50), is about 1e29. It takes some 20 ms there, and
/// less than 1 ms for 20 against 20.
pub const MAX_EXACT_PAIRS: usize = 2_500;

/// The method by which a p-value was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Computation {
    /// Counted over all orders; no two values are equal.
    Exact,
    /// Counted over all orders of these values, of which some are equal.
    ExactWithTies,
    /// Normal approximation, corrected for ties and continuity.
    Normal,
}

impl Computation {
    /// The name in documents and tables: `exact`, `exact_with_ties` or `normal`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::ExactWithTies => "exact_with_ties",
            Self::Normal => "normal",
        }
    }
}

/// The test's result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MannWhitney {
    /// U: the number of pairs in which the value of the first sample is larger; pairs of equal values count half.
    pub u: f64,
    /// The p-value: the probability of a U at least as extreme if both samples came from one distribution.
    pub p: f64,
    /// The method by which `p` was computed.
    pub computation: Computation,
}

/// Tests `first` against `second`.
///
/// Up to [`MAX_EXACT_PAIRS`] pairs `p` is exact, conditional on any ties; beyond, it is normal. The two-sided p is twice the
/// smaller one-sided one, at most 1. Swapping the samples mirrors the result.
///
/// # Errors
/// [`NoTest::AllEqual`] if nothing varies, [`NoTest::TooMany`] beyond
/// [`hypothesis::MAX_SAMPLES`](crate::hypothesis::MAX_SAMPLES).
pub fn mann_whitney(first: &Samples, second: &Samples, alternative: Alternative) -> Result<MannWhitney, NoTest> {
    let (n, m) = (first.len(), second.len());
    check_sizes(n, m)?;
    let groups = groups(first, second);
    if groups.len() == 1 {
        return Err(NoTest::AllEqual);
    }
    let doubled_u = doubled_u(&groups);
    let computation = computation(n, m, &groups);
    let tails = match computation {
        Computation::Exact | Computation::ExactWithTies => exact_tails(n, m, &groups, doubled_u),
        Computation::Normal => normal_tails(n, m, &groups, doubled_u),
    };
    Ok(MannWhitney { u: doubled_u as f64 / 2.0, p: alternative.p(tails), computation })
}

fn computation(n: usize, m: usize, groups: &[Group]) -> Computation {
    let tied = groups.len() < n + m;
    match (n * m <= MAX_EXACT_PAIRS, tied) {
        (true, false) => Computation::Exact,
        (true, true) => Computation::ExactWithTies,
        (false, _) => Computation::Normal,
    }
}

/// The shares of all choices of the first sample that give a U at most, and at least, as large.
fn exact_tails(n: usize, m: usize, groups: &[Group], doubled_u: u64) -> Tails {
    if n > m {
        // The smaller sample is chosen, because there are fewer choices to count. Its U is the number of all pairs less the other
        // U.
        let swapped: Vec<Group> = groups.iter().map(|group| Group { first: group.second, second: group.first }).collect();
        let tails = exact_tails(m, n, &swapped, 2 * (n * m) as u64 - doubled_u);
        return Tails { lower: tails.upper, upper: tails.lower };
    }
    let scores: Vec<u64> = doubled_midranks(groups).flat_map(|(group, rank)| std::iter::repeat_n(rank, group.size())).collect();
    let least = scores.iter().take(n).sum::<u64>() - (n * (n + 1)) as u64;
    let unit = if groups.len() == n + m { 2 } else { 1 };
    let scores: Vec<u64> = scores.into_iter().map(|score| score / unit).collect();
    CountDistribution::new(&count_choices(&scores, n)).tails(((doubled_u - least) / unit) as usize)
}

/// The number of choices for each excess of U.
pub(crate) struct CountDistribution {
    up_to: Vec<u128>,
}

impl CountDistribution {
    fn new(ways: &[u128]) -> Self {
        let running = |total: &mut u128, &ways: &u128| {
            *total += ways;
            Some(*total)
        };
        Self { up_to: ways.iter().scan(0, running).collect() }
    }

    /// Without ties: the excess is U itself. Only for up to [`MAX_EXACT_PAIRS`] pairs.
    pub(crate) fn without_ties(n: usize, m: usize) -> Self {
        let ranks: Vec<u64> = (1..=(n + m) as u64).collect();
        Self::new(&count_choices(&ranks, n.min(m)))
    }

    /// The probabilities of at most and of at least this excess.
    pub(crate) fn tails(&self, excess: usize) -> Tails {
        let all = self.up_to.last().copied().unwrap_or(1);
        let through = self.up_to.get(excess).copied().unwrap_or(all);
        let below = excess.checked_sub(1).map_or(0, |last| self.up_to.get(last).copied().unwrap_or(all));
        let share = |ways: u128| ways as f64 / all as f64;
        Tails { lower: share(through), upper: share(all - below) }
    }
}

/// The normal approximation: mean `nm / 2`, variance `nm / 12 (N + 1 - sum (t^3 - t) / (N (N - 1)))` for groups of t equal values, U
/// moved half a pair towards the mean (Hollander, Wolfe and Chicken, "Nonparametric Statistical Methods", 2014, 4.1).
fn normal_tails(n: usize, m: usize, groups: &[Group], doubled_u: u64) -> Tails {
    let pairs = n as f64 * m as f64;
    let distance = doubled_u as f64 / 2.0 - pairs / 2.0;
    let sd = variance(n, m, groups).sqrt();
    Tails { lower: normal::cdf((distance + 0.5) / sd), upper: normal::cdf((0.5 - distance) / sd) }
}

fn variance(n: usize, m: usize, groups: &[Group]) -> f64 {
    let all = (n + m) as f64;
    let tied: f64 = groups.iter().map(|group| group.size() as f64).map(|t| (t * t - 1.0) * t).sum();
    untied_variance(n, m) - n as f64 * m as f64 / 12.0 * tied / (all * (all - 1.0))
}

/// The variance of U without ties: `nm (N + 1) / 12`.
pub(crate) fn untied_variance(n: usize, m: usize) -> f64 {
    n as f64 * m as f64 / 12.0 * (n + m + 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::redistribute;
    use proptest::prelude::*;

    fn samples(values: &[f64]) -> Samples {
        Samples::new(values).expect("samples")
    }

    fn run_test(first: &[f64], second: &[f64], alternative: Alternative) -> MannWhitney {
        mann_whitney(&samples(first), &samples(second), alternative).expect("a test")
    }

    fn shown(first: &[f64], second: &[f64], alternative: Alternative) -> String {
        let found = run_test(first, second, alternative);
        format!("U = {}, p = {:.7}, {}", found.u, found.p, found.computation.name())
    }

    #[test]
    fn published_values() {
        let first = [2.0, 1.0, 3.0, 5.0];
        insta::assert_snapshot!(shown(&first, &[12.0, 11.0, 13.0, 15.0], Alternative::TwoSided), @"U = 0, p = 0.0285714, exact");
        insta::assert_snapshot!(shown(&first, &[12.0, 11.0, 13.0, 15.0], Alternative::Less), @"U = 0, p = 0.0142857, exact");
        insta::assert_snapshot!(shown(&first, &[0.0, 4.0, 6.0, 7.0], Alternative::TwoSided), @"U = 5, p = 0.4857143, exact");
        insta::assert_snapshot!(shown(&first, &[2.0; 4], Alternative::TwoSided), @"U = 10, p = 0.7142857, exact_with_ties");
    }

    #[test]
    fn ramps_of_500_and_600_are_normal() {
        let ramp = |n: u32, from: f64| (0..n).map(|i| f64::from(i) * 2.0 + from).collect::<Vec<_>>();
        let found = shown(&ramp(500, 0.0), &ramp(600, -41.0), Alternative::TwoSided);
        insta::assert_snapshot!(found, @"U = 135250, p = 0.0049335, normal");
    }

    #[test]
    fn the_smallest_p_of_n_against_n_is_two_choices_of_all() {
        for (n, p) in [(3_u32, 0.1), (4, 0.028_571_428), (5, 0.007_936_507), (7, 0.000_582_750), (8, 0.000_155_400)] {
            let ramp = |from: u32| (from..from + n).map(f64::from).collect::<Vec<_>>();
            let found = run_test(&ramp(0), &ramp(n), Alternative::TwoSided).p;
            assert!((found - p).abs() < 1e-9, "{n}: {found}");
        }
    }

    #[test]
    fn equal_samples_have_no_test() {
        let refusal = mann_whitney(&samples(&[2.0; 3]), &samples(&[2.0; 5]), Alternative::Less).expect_err("refused").to_string();
        insta::assert_snapshot!(refusal, @"all samples are equal: there is no spread to compare a difference with");
        let many = samples(&vec![1.0; 1_000_001]);
        let refusal = mann_whitney(&many, &samples(&[2.0]), Alternative::Less).expect_err("refused").to_string();
        insta::assert_snapshot!(refusal, @"1000001 samples are too many: the limit is 1000000 on each side");
    }

    #[test]
    fn the_computation_follows_the_number_of_pairs_and_the_ties() {
        let ramp = |n: u32, by: f64| (0..n).map(|i| f64::from(i) * by).collect::<Vec<_>>();
        let name = |n, m, by| run_test(&ramp(n, 1.0), &ramp(m, by), Alternative::Less).computation;
        assert_eq!(name(50, 50, 1.01), Computation::ExactWithTies);
        assert_eq!(name(50, 51, 1.01), Computation::Normal);
        assert_eq!(run_test(&[-1.0, 3.5], &ramp(1_250, 1.0), Alternative::Less).computation, Computation::Exact);
    }

    /// All choices of the first sample, one by one.
    fn enumerated(first: &[f64], second: &[f64]) -> Tails {
        let seen = doubled_wins(first, second);
        let (mut lower, mut upper, mut total) = (0_u32, 0_u32, 0_u32);
        for (first, second) in redistribute(first, second) {
            let wins = doubled_wins(&first, &second);
            total += 1;
            lower += u32::from(wins <= seen);
            upper += u32::from(wins >= seen);
        }
        Tails { lower: f64::from(lower) / f64::from(total), upper: f64::from(upper) / f64::from(total) }
    }

    fn doubled_wins(first: &[f64], second: &[f64]) -> u32 {
        let points = |a: &f64, b: &f64| u32::from(a > b) + u32::from(a >= b);
        first.iter().map(|a| second.iter().map(|b| points(a, b)).sum::<u32>()).sum()
    }

    fn drawn(values: std::ops::Range<i32>) -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(values.prop_map(f64::from), 1..6)
    }

    proptest! {
        #[test]
        fn the_exact_p_counts_every_choice(
            (first, second) in prop_oneof![(drawn(0..4), drawn(0..4)), (drawn(0..1000), drawn(0..1000))],
        ) {
            let ours = |alternative| mann_whitney(&samples(&first), &samples(&second), alternative).map(|found| found.p);
            prop_assume!(ours(Alternative::Less).is_ok());
            let theirs = enumerated(&first, &second);
            for alternative in [Alternative::Less, Alternative::Greater, Alternative::TwoSided] {
                prop_assert!((ours(alternative).expect("a test") - alternative.p(theirs)).abs() < 1e-14);
            }
        }

        #[test]
        fn swapped_samples_mirror_the_result(first in prop::collection::vec(0_i32..60, 1..70), second in prop::collection::vec(0_i32..60, 1..70)) {
            let [first, second] = [first, second].map(|side| side.into_iter().map(f64::from).collect::<Vec<_>>());
            prop_assume!(mann_whitney(&samples(&first), &samples(&second), Alternative::Less).is_ok());
            let pairs = (first.len() * second.len()) as f64;
            for (way, back) in [
                (Alternative::Less, Alternative::Greater),
                (Alternative::Greater, Alternative::Less),
                (Alternative::TwoSided, Alternative::TwoSided),
            ] {
                let (there, here) = (run_test(&first, &second, way), run_test(&second, &first, back));
                prop_assert_eq!(there.u.to_bits(), (pairs - here.u).to_bits());
                prop_assert_eq!(there.p.to_bits(), here.p.to_bits());
            }
        }
    }
}
