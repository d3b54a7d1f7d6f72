//! The number of tokens of each request.
//!
//! A draw depends on its index alone. The format is stable: a normal draw `z` is the generator's normal value at the index; a uniform draw of whole
//! numbers is [`Generator::below`]; a uniform draw of genai-bench is `low + (high - low) u` with `u` the generator's value in `[0, 1)`. One of
//! several values with weights is the first whose sum with the weights before it (doubles, added in their order) exceeds `u` times the sum of all. A
//! histogram takes two values: bin by the one at `2 i`, and place in the bin, a uniform draw of whole numbers, by the one at `2 i + 1`. Pairs have a
//! concern of their own, from which both sides take the same value. No draw is repeated: values that are too small or too large are clipped, so
//! realised means may differ from the nominal ones, and belong beside them.

use std::num::NonZeroU64;
use std::sync::Arc;

use assay_manifest::LengthLaw;

use crate::Generator;

/// The most tokens of one prompt or response; larger draws are clipped to it. Ten times the longest context that is served today.
pub const MAX_TOKENS: u32 = 16_000_000;

/// The most pairs, and the most bins of a histogram.
pub const MAX_WEIGHTS: usize = 1_000;

/// The standard deviations within which every normal draw lies: the quantile of the smallest value in `(0, 1)` that is drawn is -8.3.
const FARTHEST: f64 = 9.0;

/// The token counts of one phase and side, by index.
#[derive(Clone)]
pub(crate) struct Lengths {
    law: LengthLaw,
    weights: Weights,
    values: Generator,
}

/// The sums of the weights of values up to each.
#[derive(Clone)]
struct Weights(Arc<[f64]>);

impl Weights {
    fn of(law: &LengthLaw) -> Self {
        let mut sum = 0.0;
        let sums = weights_of(law).map(|weight| {
            sum += weight;
            sum
        });
        Self(sums.collect())
    }

    /// Returns the number of the value, from 0, for `unit` in `[0, 1)`.
    fn draw(&self, unit: f64) -> usize {
        let all = self.0.last().copied().unwrap_or_default();
        let before = self.0.partition_point(|sum| *sum <= unit * all);
        // A product that is rounded up to the sum of all is of the last value that has a weight.
        if before < self.0.len() { before } else { self.0.partition_point(|sum| *sum < all) }
    }
}

/// Returns the weights of a law that has some.
fn weights_of(law: &LengthLaw) -> impl Iterator<Item = f64> {
    let bins: &[f64] = if let LengthLaw::Histogram { weights, .. } = law { weights } else { &[] };
    let values: &[_] = if let LengthLaw::Paired { values } = law { values } else { &[] };
    bins.iter().copied().chain(values.iter().map(|value| value.weight))
}

impl Lengths {
    /// Creates the lengths of a law that [`refusal`] accepts.
    pub(crate) fn new(law: LengthLaw, values: Generator) -> Self {
        Self { weights: Weights::of(&law), law, values }
    }

    pub(crate) fn tokens(&mut self, index: u64) -> u32 {
        match &self.law {
            LengthLaw::Fixed { tokens } => *tokens,
            LengthLaw::Uniform { min, max } => between(&mut self.values, index, (*min, *max)),
            LengthLaw::Normal { mean, stddev } => clip((mean + stddev * self.values.normal(index, 0)).round(), 1),
            LengthLaw::Lognormal { mean, stddev } => {
                let (mu, sigma) = log_moments(*mean, *stddev);
                clip(libm::exp(mu + sigma * self.values.normal(index, 0)).round(), 1)
            }
            LengthLaw::TruncatedNormal { mean, stddev, floor } => {
                clip((mean + stddev * self.values.normal(index, 0)).trunc(), *floor)
            }
            LengthLaw::TruncatedUniform { low, high, floor } => {
                // genai-bench treats a lower bound of 0 as 1.
                let (low, high) = (f64::from((*low).max(1)), f64::from(*high));
                clip((low + (high - low) * self.values.unit_f64(index)).trunc(), *floor)
            }
            law @ LengthLaw::Histogram { .. } => {
                let index = index.wrapping_mul(2);
                let bin = self.weights.draw(self.values.unit_f64(index));
                law.bins().nth(bin).map_or(0, |bin| between(&mut self.values, index.wrapping_add(1), bin))
            }
            LengthLaw::Paired { values } => {
                let drawn = self.weights.draw(self.values.unit_f64(index));
                values.get(drawn).map_or(0, |value| value.tokens)
            }
        }
    }
}

/// Returns bounds of the numbers that a law draws: the smallest and the largest one, and of laws without bounds numbers that no draw passes.
pub fn length_range(law: &LengthLaw) -> (u32, u32) {
    let both = |mean: f64, stddev: f64, of: &dyn Fn(f64) -> u32| (of(mean - FARTHEST * stddev), of(mean + FARTHEST * stddev));
    match law {
        LengthLaw::Fixed { tokens } => (*tokens, *tokens),
        LengthLaw::Uniform { min, max } => (*min, *max),
        LengthLaw::Normal { mean, stddev } => both(*mean, *stddev, &|tokens| clip(tokens.round(), 1)),
        LengthLaw::Lognormal { mean, stddev } => {
            let (mu, sigma) = log_moments(*mean, *stddev);
            both(mu, sigma, &|logarithm| clip(libm::exp(logarithm).round(), 1))
        }
        LengthLaw::TruncatedNormal { mean, stddev, floor } => both(*mean, *stddev, &|tokens| clip(tokens.trunc(), *floor)),
        LengthLaw::TruncatedUniform { low, high, floor } => ((*low).max(*floor).max(1), (*high).max(*floor)),
        LengthLaw::Histogram { edges, .. } => {
            (edges.first().copied().unwrap_or_default(), edges.last().copied().unwrap_or_default())
        }
        LengthLaw::Paired { values } => {
            let tokens = || values.iter().map(|value| value.tokens);
            (tokens().min().unwrap_or_default(), tokens().max().unwrap_or_default())
        }
    }
}

/// Draws a whole number between two bounds, both included.
fn between(values: &mut Generator, index: u64, (min, max): (u32, u32)) -> u32 {
    let width = NonZeroU64::MIN.saturating_add(u64::from(max.saturating_sub(min)));
    min + values.below(index, width) as u32
}

/// Clips `tokens` to at least `floor` and at most [`MAX_TOKENS`].
fn clip(tokens: f64, floor: u32) -> u32 {
    tokens.max(f64::from(floor)).min(f64::from(MAX_TOKENS)) as u32
}

/// Returns mean and standard deviation of the logarithm, from those of the log-normal value itself.
pub(crate) fn log_moments(mean: f64, stddev: f64) -> (f64, f64) {
    let variance = libm::log1p((stddev / mean) * (stddev / mean));
    (libm::log(mean) - variance / 2.0, variance.sqrt())
}

/// Returns the reason why a law cannot be drawn from, or `None` if it can.
pub(crate) fn refusal(law: &LengthLaw) -> Option<String> {
    let largest = f64::from(MAX_TOKENS);
    let bounds = |low: u32, high: u32| (high < low).then(|| format!("its upper bound {high} lies below its lower bound {low}"));
    let moments = |mean: f64, stddev: f64, least: f64| {
        let within = (least..=largest).contains(&mean) && (0.0..=largest).contains(&stddev);
        (!within).then(|| format!("mean {mean} or standard deviation {stddev} is negative, not a number, or above {MAX_TOKENS}"))
    };
    let many = |tokens: u32| (tokens > MAX_TOKENS).then(|| format!("{tokens} tokens are more than {MAX_TOKENS}"));
    match law {
        LengthLaw::Fixed { tokens } => many(*tokens),
        LengthLaw::Uniform { min, max } => bounds(*min, *max).or_else(|| many(*max)),
        LengthLaw::Normal { mean, stddev } => moments(*mean, *stddev, 0.0),
        LengthLaw::Lognormal { mean, stddev } => moments(*mean, *stddev, f64::MIN_POSITIVE),
        LengthLaw::TruncatedNormal { mean, stddev, floor } => moments(*mean, *stddev, 0.0).or_else(|| many(*floor)),
        LengthLaw::TruncatedUniform { low, high, floor } => bounds((*low).max(1), *high).or_else(|| many(*high.max(floor))),
        LengthLaw::Histogram { edges, weights } => {
            let falls = edges.iter().zip(edges.iter().skip(1)).find(|(low, high)| high <= low);
            if edges.len() != weights.len() + 1 {
                return Some(format!("{} edges do not bound {} bins", edges.len(), weights.len()));
            }
            falls
                .map(|(low, high)| format!("its edge {high} is not above the edge {low} before it"))
                .or_else(|| many(edges.last().copied().unwrap_or_default()))
                .or_else(|| weights_refusal(law))
        }
        LengthLaw::Paired { values } => values.iter().find_map(|value| many(value.tokens)).or_else(|| weights_refusal(law)),
    }
}

/// Returns the reason why no value can be drawn by its weight.
fn weights_refusal(law: &LengthLaw) -> Option<String> {
    let count = weights_of(law).count();
    let wrong = weights_of(law).find(|weight| !(weight.is_finite() && *weight >= 0.0));
    let sum: f64 = weights_of(law).sum();
    if count > MAX_WEIGHTS {
        return Some(format!("{count} weights are more than {MAX_WEIGHTS}"));
    }
    wrong
        .map(|weight| format!("the weight {weight} is negative or not a number"))
        .or_else(|| (!(sum.is_finite() && sum > 0.0)).then(|| "its weights have no sum above 0".to_owned()))
}

/// Returns the reason why two sides are no pairs, if one of them has the law of pairs; `None` if both have, or neither.
pub(crate) fn pairs_refusal(input: &LengthLaw, output: Option<&LengthLaw>) -> Option<String> {
    let is_paired = |law: &LengthLaw| matches!(law, LengthLaw::Paired { .. });
    match output {
        Some(output) if is_paired(input) && is_paired(output) => {
            let same = weights_of(input).eq(weights_of(output));
            (!same).then(|| "the sides of its pairs have different weights".to_owned())
        }
        output => (is_paired(input) || output.is_some_and(is_paired)).then(|| "only one side is of pairs".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;
    use assay_manifest::WeightedTokens;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const DRAWS: u64 = 100_000;

    fn values() -> Generator {
        Generator::new(&Seed::new([7; 32]), &["lengths"])
    }

    fn draws(law: LengthLaw) -> Vec<u32> {
        let mut lengths = Lengths::new(law, values());
        (0..DRAWS).map(|index| lengths.tokens(index)).collect()
    }

    fn mean(draws: &[u32]) -> f64 {
        draws.iter().map(|draw| f64::from(*draw)).sum::<f64>() / draws.len() as f64
    }

    fn stddev(draws: &[u32]) -> f64 {
        let mean = mean(draws);
        (draws.iter().map(|draw| (f64::from(*draw) - mean).powi(2)).sum::<f64>() / draws.len() as f64).sqrt()
    }

    fn shares(draws: &[u32]) -> BTreeMap<u32, f64> {
        let mut counts = BTreeMap::new();
        for draw in draws {
            *counts.entry(*draw).or_default() += 1.0 / draws.len() as f64;
        }
        counts
    }

    fn near(share: f64, expected: f64) -> bool {
        (share - expected).abs() < 4.0 * (expected * (1.0 - expected) / DRAWS as f64).sqrt()
    }

    #[test]
    fn fixed_lengths_are_fixed() {
        assert!(draws(LengthLaw::Fixed { tokens: 7 }).iter().all(|draw| *draw == 7));
    }

    #[test]
    fn uniform_lengths_reach_both_bounds_equally() {
        let shares = shares(&draws(LengthLaw::Uniform { min: 3, max: 6 }));
        assert!(shares.keys().eq(&[3, 4, 5, 6]) && shares.values().all(|share| near(*share, 0.25)), "{shares:?}");
    }

    #[test]
    fn normal_lengths_are_rounded_and_clipped_to_one() {
        let draws = draws(LengthLaw::Normal { mean: 480.0, stddev: 48.0 });
        // Three standard errors: 48 / sqrt(n) and 48 / sqrt(2 n).
        assert!(
            (mean(&draws) - 480.0).abs() < 0.46 && (stddev(&draws) - 48.0).abs() < 0.33,
            "{} {}",
            mean(&draws),
            stddev(&draws)
        );
        // P(x <= 1.5) = P(z <= -0.5) = 0.308538 become 1, and P(1.5 < x <= 2.5) = P(-0.5 < z <= 0.5) = 0.382925 become 2.
        let shares = shares(&self::draws(LengthLaw::Normal { mean: 2.0, stddev: 1.0 }));
        assert!(near(shares[&1], 0.308_538) && near(shares[&2], 0.382_925) && !shares.contains_key(&0), "{shares:?}");
    }

    #[test]
    fn lognormal_lengths_have_the_asked_mean_and_deviation() {
        let draws = draws(LengthLaw::Lognormal { mean: 1_000.0, stddev: 500.0 });
        // Its logarithm has variance ln(1.25) = 0.223144; three standard errors of the mean are 4.7, of the deviation about 13.
        assert!(
            (mean(&draws) - 1_000.0).abs() < 4.8 && (stddev(&draws) - 500.0).abs() < 13.0,
            "{} {}",
            mean(&draws),
            stddev(&draws)
        );
        let below_median =
            draws.iter().filter(|draw| f64::from(**draw) < 1_000.0 / 1.25_f64.sqrt()).count() as f64 / DRAWS as f64;
        assert!(near(below_median, 0.5), "{below_median}");
    }

    #[test]
    fn genai_bench_truncates_its_normal_draws_and_clips_them_to_the_floor() {
        let shares = shares(&draws(LengthLaw::TruncatedNormal { mean: 3.0, stddev: 1.0, floor: 2 }));
        // trunc(x) <= 2 is x < 3, half of all; [3, 4) is P(0 <= z < 1) = 0.341345. Nothing is below the floor.
        assert!(near(shares[&2], 0.5) && near(shares[&3], 0.341_345) && shares.keys().all(|draw| *draw >= 2), "{shares:?}");
    }

    #[test]
    fn genai_bench_does_not_reach_the_upper_bound_of_its_uniform_draws() {
        let uniform = |low, high, floor| shares(&draws(LengthLaw::TruncatedUniform { low, high, floor }));
        let input = uniform(3, 7, 1);
        assert!(input.keys().eq(&[3, 4, 5, 6]) && input.values().all(|share| near(*share, 0.25)), "{input:?}");
        // The short form `U(i,o)`: outputs from 1. A 1 is clipped to 2, which is therefore twice as likely as any other value.
        let output = uniform(1, 6, 2);
        assert!(output.keys().eq(&[2, 3, 4, 5]) && near(output[&2], 0.4) && near(output[&5], 0.2), "{output:?}");
        // A lower bound of 0 is treated as 1: four values, not 0 and 1 in one.
        let from_zero = uniform(0, 5, 1);
        assert!(from_zero.keys().eq(&[1, 2, 3, 4]) && near(from_zero[&1], 0.25), "{from_zero:?}");
        assert_eq!(uniform(9, 9, 1).into_keys().collect::<Vec<_>>(), [9]);
    }

    #[test]
    fn no_draw_passes_the_limit() {
        let law = LengthLaw::Lognormal { mean: f64::from(MAX_TOKENS), stddev: f64::from(MAX_TOKENS) };
        assert_eq!(draws(law).into_iter().max(), Some(MAX_TOKENS));
    }

    #[test]
    fn a_law_has_a_shortest_and_a_longest_length() {
        assert_eq!(length_range(&LengthLaw::Fixed { tokens: 7 }), (7, 7));
        assert_eq!(length_range(&LengthLaw::Uniform { min: 2, max: 9 }), (2, 9));
        assert_eq!(length_range(&LengthLaw::Normal { mean: 100.0, stddev: 10.0 }), (10, 190));
        assert_eq!(length_range(&LengthLaw::Lognormal { mean: 100.0, stddev: 0.0 }), (100, 100));
        assert_eq!(length_range(&LengthLaw::TruncatedNormal { mean: 5.0, stddev: 1.0, floor: 2 }), (2, 14));
        assert_eq!(length_range(&LengthLaw::TruncatedUniform { low: 0, high: 9, floor: 0 }), (1, 9));
        assert_eq!(length_range(&LengthLaw::Histogram { edges: vec![3, 5, 8], weights: vec![1.0, 1.0] }), (3, 8));
        assert_eq!(length_range(&paired(&[(5, 1.0), (2, 1.0), (9, 1.0)])), (2, 9));
    }

    #[test]
    fn laws_that_mean_nothing_are_refused() {
        let refused = [
            LengthLaw::Fixed { tokens: MAX_TOKENS + 1 },
            LengthLaw::Uniform { min: 2, max: 1 },
            LengthLaw::Normal { mean: f64::NAN, stddev: 1.0 },
            LengthLaw::Normal { mean: 1.0, stddev: -1.0 },
            LengthLaw::Lognormal { mean: 0.0, stddev: 1.0 },
            LengthLaw::TruncatedNormal { mean: 1.0, stddev: f64::INFINITY, floor: 1 },
            LengthLaw::TruncatedUniform { low: 5, high: 4, floor: 1 },
            LengthLaw::TruncatedUniform { low: 0, high: 0, floor: 1 },
        ];
        for law in refused {
            assert!(refusal(&law).is_some(), "{law:?}");
        }
        assert_eq!(refusal(&LengthLaw::Normal { mean: 0.0, stddev: 0.0 }), None);
    }

    fn paired(values: &[(u32, f64)]) -> LengthLaw {
        LengthLaw::Paired {
            values: values.iter().map(|(tokens, weight)| WeightedTokens { tokens: *tokens, weight: *weight }).collect(),
        }
    }

    #[test]
    fn values_have_the_shares_of_their_weights() {
        let weights = |values: &[f64]| Weights::of(&LengthLaw::Histogram { edges: Vec::new(), weights: values.to_vec() });
        // Sums 1, 1, 4: the second value has no weight, and the last has three quarters.
        let drawn = [0.0, 0.249_999, 0.25, 0.999_999].map(|unit| weights(&[1.0, 0.0, 3.0]).draw(unit));
        assert_eq!(drawn, [0, 0, 2, 2]);
        // A weight of 0 at the end is not drawn, even if the product is rounded up to the sum of all.
        assert_eq!([0.5, 1.0].map(|unit| weights(&[2.0, 0.0]).draw(unit)), [0, 0]);
        let shares = shares(&draws(paired(&[(256, 60.0), (512, 40.0)])));
        assert!(shares.keys().eq(&[256, 512]) && near(shares[&256], 0.6), "{shares:?}");
    }

    #[test]
    fn a_histogram_is_uniform_in_a_bin_and_only_its_last_bin_has_the_upper_edge() {
        let law = LengthLaw::Histogram { edges: vec![1, 3, 4, 6], weights: vec![1.0, 2.0, 1.0] };
        assert_eq!(law.bins().collect::<Vec<_>>(), [(1, 2), (3, 3), (4, 6)]);
        // (1.5 x 1 + 3 x 2 + 5 x 1) / 4
        assert!((law.mean() - 3.125).abs() < 1e-12);
        let shares = shares(&draws(law));
        let expected = [(1, 0.125), (2, 0.125), (3, 0.5), (4, 1.0 / 12.0), (5, 1.0 / 12.0), (6, 1.0 / 12.0)];
        assert!(shares.len() == 6 && expected.iter().all(|(tokens, share)| near(shares[tokens], *share)), "{shares:?}");
    }

    #[test]
    fn weights_that_mean_nothing_are_refused() {
        let histogram =
            |edges: &[u32], weights: &[f64]| refusal(&LengthLaw::Histogram { edges: edges.to_vec(), weights: weights.to_vec() });
        assert_eq!(histogram(&[1, 2], &[1.0]), None);
        assert_eq!(histogram(&[1, 2], &[1.0, 2.0]).as_deref(), Some("2 edges do not bound 2 bins"));
        assert_eq!(histogram(&[], &[]).as_deref(), Some("0 edges do not bound 0 bins"));
        assert_eq!(histogram(&[1], &[]).as_deref(), Some("its weights have no sum above 0"));
        assert_eq!(histogram(&[2, 2], &[1.0]).as_deref(), Some("its edge 2 is not above the edge 2 before it"));
        assert_eq!(histogram(&[1, MAX_TOKENS + 1], &[1.0]).as_deref(), Some("16000001 tokens are more than 16000000"));
        assert_eq!(histogram(&[1, 2], &[0.0]).as_deref(), Some("its weights have no sum above 0"));
        assert_eq!(histogram(&[1, 2, 3], &[2.0, -1.0]).as_deref(), Some("the weight -1 is negative or not a number"));
        assert_eq!(histogram(&[1, 2, 3], &[f64::MAX, f64::MAX]).as_deref(), Some("its weights have no sum above 0"));
        let many = vec![(1, 1.0); MAX_WEIGHTS + 1];
        assert_eq!(refusal(&paired(&many)).as_deref(), Some("1001 weights are more than 1000"));
        assert_eq!(refusal(&paired(&many[1..])), None);
        let (a, b, c) = (paired(&[(1, 1.0), (2, 2.0)]), paired(&[(8, 1.0), (9, 2.0)]), paired(&[(8, 1.0), (9, 3.0)]));
        assert_eq!(pairs_refusal(&a, Some(&b)), None);
        assert_eq!(pairs_refusal(&a, Some(&c)).as_deref(), Some("the sides of its pairs have different weights"));
        let fixed = LengthLaw::Fixed { tokens: 1 };
        assert_eq!(pairs_refusal(&fixed, Some(&fixed)), None);
        for (input, output) in [(&a, None), (&a, Some(&fixed)), (&fixed, Some(&b))] {
            assert_eq!(pairs_refusal(input, output).as_deref(), Some("only one side is of pairs"));
        }
    }

    fn laws() -> impl Strategy<Value = LengthLaw> {
        let pair = || (0..=MAX_TOKENS, 0..=MAX_TOKENS).prop_map(|(a, b)| (a.min(b), a.max(b)));
        let moments = || (0.1..1e7_f64, 0.0..1e7_f64);
        prop_oneof![
            (0..=MAX_TOKENS).prop_map(|tokens| LengthLaw::Fixed { tokens }),
            pair().prop_map(|(min, max)| LengthLaw::Uniform { min, max }),
            moments().prop_map(|(mean, stddev)| LengthLaw::Normal { mean, stddev }),
            moments().prop_map(|(mean, stddev)| LengthLaw::Lognormal { mean, stddev }),
            (moments(), 0..10_u32).prop_map(|((mean, stddev), floor)| LengthLaw::TruncatedNormal { mean, stddev, floor }),
            (pair(), 0..10_u32).prop_map(|((low, high), floor)| LengthLaw::TruncatedUniform { low, high: high.max(1), floor }),
            proptest::collection::btree_map(0..=MAX_TOKENS, 0.0..1e9_f64, 2..9).prop_map(|bins| LengthLaw::Histogram {
                edges: bins.keys().copied().collect(),
                weights: bins.values().skip(1).map(|weight| weight + 1e-9).collect(),
            }),
            proptest::collection::vec((0..=MAX_TOKENS, 1e-9..1e9_f64), 1..9).prop_map(|values| LengthLaw::Paired {
                values: values.into_iter().map(|(tokens, weight)| WeightedTokens { tokens, weight }).collect(),
            }),
        ]
    }

    proptest! {
        #[test]
        fn a_law_that_is_let_pass_can_be_drawn_from(law in laws(), index in any::<u64>()) {
            prop_assert_eq!(refusal(&law), None);
            let ((least, most), drawn) = (length_range(&law), Lengths::new(law, values()).tokens(index));
            prop_assert!((least..=most).contains(&drawn) && most <= MAX_TOKENS, "{drawn} is not in {least}..={most}");
        }
    }
}
