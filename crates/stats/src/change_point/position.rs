//! The position of a change, given that there is one.
//!
//! Under autoregressive noise a step is a shift of all later innovations by `(1 - phi) delta` and of the one at the step by all
//! of `delta`. Generalised least squares use both. The likelihood of each index, with the two levels and the noise fitted to it,
//! is a distribution over indices; the result is not its highest point, which is unstable, but the index with the most
//! probability near it.

use super::noise::{autocorrelation, whiten};
use super::{MIN_SIDE, noise};

/// The number of points within which a change counts as located: a week of nightly runs and a weekend's slack on either side
/// would be 7, a working week is 5.
const NEAR: usize = 5;

/// The decrease of an index's weight for each point of distance from the change: enough to settle ties, too little to outweigh
/// probability.
const SLOPE: f64 = 0.02;

/// The share of the total below which two sums of squares count as equal.
const LEAST_SHARE: f64 = 1e-12;

/// The index with most probability within [`NEAR`] points, which leaves [`MIN_SIDE`] values on either side.
pub(super) fn likeliest_index(values: &[f64]) -> usize {
    let probability = probability(values);
    let near = |place: usize| {
        let within = place.saturating_sub(NEAR)..=(place + NEAR).min(probability.len().saturating_sub(1));
        within.map(|other| probability.get(other).unwrap_or(&0.0) * (1.0 - SLOPE * place.abs_diff(other) as f64)).sum::<f64>()
    };
    let places = MIN_SIDE..=values.len().saturating_sub(MIN_SIDE);
    places.map(|place| (place, near(place))).fold((MIN_SIDE, 0.0), |best, next| if next.1 > best.1 { next } else { best }).0
}

/// The probability of a change at each index, up to a factor; 0 if a side would be too short.
///
/// With both levels and the variance at their best fit the likelihood is `(residual sum of squares)^(-(n - 3) / 2)`. As a prior,
/// an index with n values before it and m after it weighs `n m`: a significant change is likelier at an index at which the test
/// has more power.
fn probability(values: &[f64]) -> Vec<f64> {
    let n = values.len();
    let freedom = n.saturating_sub(3) as f64;
    let log = |share: f64| -0.5 * freedom * libm::log((1.0 - share).max(LEAST_SHARE));
    let allowed = |place: usize| place >= MIN_SIDE && n - place >= MIN_SIDE;
    let logs: Vec<f64> = explained(values).into_iter().map(log).collect();
    let top = logs.iter().enumerate().filter(|(place, _)| allowed(*place)).fold(f64::NEG_INFINITY, |top, (_, log)| top.max(*log));
    let weigh =
        |(place, log): (usize, &f64)| if allowed(place) { (place * (n - place)) as f64 * libm::exp(log - top) } else { 0.0 };
    logs.iter().enumerate().map(weigh).collect()
}

/// The share of the innovations' squares that a step at each index explains, beyond a constant level.
fn explained(values: &[f64]) -> Vec<f64> {
    let n = values.len();
    let memory = autocorrelation(values);
    let innovations = whiten(values, memory);
    // A level of 1 in innovations: `first`, then `shift` at every later index.
    let (first, shift) = (noise::innovation_sd(memory), 1.0 - memory);
    let tail: f64 = innovations.iter().skip(1).sum();
    let level = first * innovations.first().unwrap_or(&0.0) + shift * tail;
    let level_squared = first * first + shift * shift * n.saturating_sub(1) as f64;
    let squares = innovations.iter().map(|x| x * x).sum::<f64>() - level * level / level_squared;
    let mut shares = vec![0.0; n];
    let mut later = 0.0;
    for (place, innovation) in innovations.iter().enumerate().skip(1).rev() {
        let after = (n - 1 - place) as f64;
        // A step of 1: 1 at its index, `shift` after it; less the part that a level explains already.
        let (step, step_squared, both) = (innovation + shift * later, 1.0 + shift * shift * after, shift + shift * shift * after);
        let numerator = step - both * level / level_squared;
        let denominator = step_squared - both * both / level_squared;
        if squares > 0.0 && denominator > 0.0 {
            shares[place] = numerator * numerator / denominator / squares;
        }
        later += innovation;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The residual sum of squares of a two-level fit, without autocorrelation.
    fn residual(values: &[f64], place: usize) -> f64 {
        let (left, right) = values.split_at(place);
        let around = |side: &[f64]| {
            let mean = side.iter().sum::<f64>() / side.len() as f64;
            side.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>()
        };
        around(left) + around(right)
    }

    #[test]
    fn without_memory_it_is_the_two_level_fit() {
        let values = [1.0, -1.0, 1.0, -1.0, 1.5, -1.0, 3.0, 1.0, 3.0, 1.0, 3.5, 1.0];
        assert!(autocorrelation(&values) < 1e-12);
        let shares = explained(&values);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let around_mean: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
        for (place, share) in shares.iter().enumerate().skip(1) {
            assert!((share - (1.0 - residual(&values, place) / around_mean)).abs() < 1e-9, "{place}");
        }
    }

    #[test]
    fn a_clear_step_is_placed_exactly() {
        for at in [3, 10, 20, 37] {
            let values: Vec<f64> = (0..40_usize).map(|i| (i * 7 % 5) as f64 * 0.1 + if i < at { 0.0 } else { 3.0 }).collect();
            assert_eq!(likeliest_index(&values), at);
        }
    }

    #[test]
    fn a_perfect_step_and_no_step_are_places_too() {
        let perfect: Vec<f64> = (0..12_u32).map(|i| f64::from(u32::from(i >= 7))).collect();
        assert_eq!(likeliest_index(&perfect), 7);
        assert!((3..=9).contains(&likeliest_index(&[0.0; 12])));
    }
}
