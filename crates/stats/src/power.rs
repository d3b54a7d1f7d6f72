//! What a paired design can find before it is run, by the very rule that will judge it.
//!
//! A design fires at an effect where three things hold: the signed-rank test at `alpha`, the bound beyond the floor, and the shift beyond
//! the budget. All three move with the effect: adding a constant to every difference adds it to every average of pairs. So one set of
//! simulated noise has one smallest effect at which the design fires, and those of many sets are the whole power curve. Nothing is
//! searched for.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::bootstrap::Draws;
use crate::normal;
use crate::paired::{Averages, Differences, PairError, walsh};
use crate::samples::Samples;
use crate::signed_rank::critical;

/// The share of simulated repetitions in which an effect must be found: the field's convention.
pub const POWER: f64 = 0.8;

/// Simulated repetitions of a design. The standard error of a power of 0.8 is then 1.3 points.
pub const REPETITIONS: usize = 1_000;

/// The confidence with which a learned spread is not understated.
pub const SPREAD_CONFIDENCE: f64 = 0.8;

/// The noise of one pair's difference: what differences of equal sides looked like, around zero.
#[derive(Debug, Clone, PartialEq)]
pub struct Noise {
    residuals: Samples,
    sd: f64,
    freedom: f64,
    scale: f64,
}

impl Noise {
    /// Noise from differences that were observed, in groups that each have a shift of their own (the runs of a history, or one run). Every
    /// group is centred on its shift and loses a degree of freedom by it; groups of one say nothing and are left out.
    ///
    /// # Errors
    /// [`PairError`] where no group of two or more is left, or a value is no finite number.
    pub fn of(groups: &[&[f64]]) -> Result<Self, PairError> {
        let mut residuals = Vec::new();
        let mut freedom = 0;
        for group in groups.iter().filter(|group| group.len() > 1) {
            let shift = Averages::of(&Differences::new(group)?).shift();
            residuals.extend(group.iter().map(|value| value - shift));
            freedom += group.len() - 1;
        }
        Self::of_residuals(&residuals, freedom as f64)
    }

    /// Noise from differences that are known to be around zero, such as those of adjacent trials of one side.
    ///
    /// # Errors
    /// [`PairError`] for no value or one that is not finite.
    pub fn around_zero(values: &[f64]) -> Result<Self, PairError> {
        Self::of_residuals(values, values.len() as f64)
    }

    fn of_residuals(values: &[f64], freedom: f64) -> Result<Self, PairError> {
        let residuals = Samples::new(values)?;
        let moment = |power: i32| {
            let term = |x: f64| (0..power).fold(1.0, |product, _| product * x);
            crate::sum::pairwise(residuals.sorted(), term)
        };
        let n = residuals.len() as f64;
        let (second, fourth) = (moment(2), moment(4));
        let kurtosis = n * fourth / (second * second);
        // The variance of a sample variance grows with the kurtosis (3 for normal noise); fewer degrees of freedom say the same.
        let worth = if kurtosis.is_finite() { (2.0 / (kurtosis - 1.0)).min(1.0) } else { 1.0 };
        let sd = (second / freedom.max(1.0)).sqrt();
        Ok(Self { residuals, sd, freedom: (freedom * worth).max(1.0), scale: 1.0 })
    }

    /// The standard deviation of one difference.
    pub fn sd(&self) -> f64 {
        self.sd * self.scale
    }

    /// What was observed, around zero.
    pub fn residuals(&self) -> &Samples {
        &self.residuals
    }

    /// The same noise, so wide that it is not understated with a confidence of [`SPREAD_CONFIDENCE`]: by the chi-squared distribution of a
    /// sample variance, with degrees of freedom corrected for kurtosis (Bonett, "Approximate confidence interval for standard deviation of
    /// nonnormal distributions", Computational Statistics and Data Analysis 50, 2006, has the idea).
    pub fn upper(&self) -> Self {
        let quantile = chi_squared_quantile(1.0 - SPREAD_CONFIDENCE, self.freedom);
        Self { scale: self.scale * (self.freedom / quantile).sqrt(), ..self.clone() }
    }

    /// The bandwidth of the kernel that smooths the residuals: Silverman's rule ("Density Estimation", 1986, equation 3.31).
    fn bandwidth(&self) -> f64 {
        let spread = self.sd.min(crate::robust::iqr(&self.residuals) / 1.349);
        let spread = if spread > 0.0 { spread } else { self.sd };
        let root = libm::pow(self.residuals.len() as f64, -0.2);
        0.9 * spread * root
    }
}

/// The quantile of the chi-squared distribution by the cube root of Wilson and Hilferty ("The distribution of chi-square", PNAS 17,
/// 1931): within 1 % from three degrees of freedom on, and never below a thousandth of `freedom`.
fn chi_squared_quantile(p: f64, freedom: f64) -> f64 {
    let ninth = 2.0 / (9.0 * freedom);
    let root = 1.0 - ninth + normal::quantile(p) * ninth.sqrt();
    (freedom * root * root * root).max(freedom * 1e-3)
}

/// How a design judges.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// What the test's probability must not exceed: the family's threshold for a lone metric.
    pub alpha: f64,
    /// One minus the confidence of the one-sided bound.
    pub bound_alpha: f64,
    /// What the bound must exceed, as a logarithm of a ratio.
    pub floor: f64,
    /// What the shift must exceed, as a logarithm of a ratio.
    pub budget: f64,
}

/// The smallest effect, as a logarithm of a ratio, that `pairs` pairs of this noise find with a probability of [`POWER`]; absent where no
/// effect is large enough, because so few pairs cannot reach `alpha` or bound anything. The same seed gives the same effect.
pub fn detectable(noise: &Noise, pairs: usize, rule: &Rule, seed: [u8; 32]) -> Option<f64> {
    let mut needed = effects(noise, pairs, rule, REPETITIONS, seed)?;
    needed.sort_unstable_by(f64::total_cmp);
    crate::quantile::nearest_rank(&needed, POWER)
}

/// The probability of finding `effect`; 0 where no effect can be found.
pub fn power(noise: &Noise, pairs: usize, rule: &Rule, effect: f64, seed: [u8; 32]) -> f64 {
    let needed = effects(noise, pairs, rule, REPETITIONS, seed).unwrap_or_default();
    needed.iter().filter(|needed| **needed <= effect).count() as f64 / REPETITIONS as f64
}

/// The fewest pairs that find `effect` with a probability of [`POWER`], at least `fewest`; absent where more than `most` are needed.
///
/// More pairs find smaller effects but for the steps of the test's discrete thresholds, so the answer is halved in on.
pub fn pairs_needed(noise: &Noise, effect: f64, rule: &Rule, fewest: usize, most: usize, seed: [u8; 32]) -> Option<usize> {
    let finds = |pairs: usize| detectable(noise, pairs, rule, seed).is_some_and(|smallest| smallest <= effect);
    if fewest > most || !finds(most) {
        return None;
    }
    let (mut too_few, mut enough) = (fewest.saturating_sub(1), most);
    while enough - too_few > 1 {
        let middle = usize::midpoint(too_few, enough);
        if finds(middle) { enough = middle } else { too_few = middle }
    }
    Some(enough)
}

/// The smallest effect at which each simulated repetition fires.
fn effects(noise: &Noise, pairs: usize, rule: &Rule, repetitions: usize, seed: [u8; 32]) -> Option<Vec<f64>> {
    let reject = critical(pairs, rule.alpha)?;
    let bound = critical(pairs, rule.bound_alpha)?;
    let mut draws = Residuals::new(noise, seed);
    let mut differences = vec![0.0; pairs];
    let mut averages = Vec::with_capacity(pairs * (pairs + 1) / 2);
    let mut effect = || {
        differences.fill_with(|| draws.draw());
        walsh(&differences, &mut averages);
        let middle = averages.len() / 2;
        let (below, shift, _) = averages.select_nth_unstable_by(middle, f64::total_cmp);
        let shift = *shift;
        // Both thresholds lie far below the middle, so they are looked for in the lower half alone.
        let mut at = |rank: usize| match below.len() {
            0 => shift,
            len => *below.select_nth_unstable_by(rank.min(len - 1), f64::total_cmp).1,
        };
        let (test, low) = (at(reject), at(bound));
        (-test).max(rule.floor - low).max(rule.budget - shift)
    };
    Some((0..repetitions).map(|_| effect()).collect())
}

/// Draws of smoothed residuals, as likely above zero as below: two equal sides have no order.
struct Residuals<'a> {
    noise: &'a Noise,
    picks: Draws,
    jitter: ChaCha8Rng,
    width: f64,
    shrink: f64,
}

impl<'a> Residuals<'a> {
    fn new(noise: &'a Noise, seed: [u8; 32]) -> Self {
        let width = noise.bandwidth();
        let mut jitter = ChaCha8Rng::from_seed(seed);
        jitter.set_stream(1);
        let variance = noise.sd * noise.sd;
        let observed = crate::sum::pairwise(noise.residuals.sorted(), |x| x * x) / noise.residuals.len() as f64;
        // Smoothing widens and centring narrows; the draws have the variance that was estimated.
        let shrink = if observed > 0.0 { (variance / (observed + width * width)).sqrt() } else { 1.0 };
        Self { noise, picks: Draws::new(seed, 0, 2 * noise.residuals.len()), jitter, width, shrink: shrink * noise.scale }
    }

    fn draw(&mut self) -> f64 {
        let pick = self.picks.index() as usize;
        let residual = self.noise.residuals.at(pick / 2);
        let signed = if pick.is_multiple_of(2) { residual } else { -residual };
        let uniform = (f64::from(self.jitter.next_u32()) + 0.5) / 4_294_967_296.0;
        (signed + self.width * normal::quantile(uniform)) * self.shrink
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: [u8; 32] = [3; 32];
    const RULE: Rule = Rule { alpha: 5e-4, bound_alpha: 0.025, floor: 0.0, budget: 0.0 };

    /// Normal quantiles at equal steps: a sample without chance.
    fn normal_pool(n: usize, sd: f64) -> Vec<f64> {
        (0..n).map(|i| sd * normal::quantile((i as f64 + 0.5) / n as f64)).collect()
    }

    fn noise(sd: f64) -> Noise {
        Noise::around_zero(&normal_pool(200, sd)).expect("noise")
    }

    #[test]
    fn so_few_pairs_find_nothing_at_all() {
        assert_eq!(detectable(&noise(0.01), 10, &RULE, SEED), None);
        assert!(detectable(&noise(0.01), 11, &RULE, SEED).is_some());
    }

    #[test]
    fn agrees_with_an_independent_simulation() {
        // Signed-rank at 5e-4 of a shift of 10 % with a coefficient of variation of 5 % a side: .50, .81 and .95 for 12, 16 and 20 pairs.
        let noise = noise(0.05 * 2.0_f64.sqrt());
        let found = [12, 16, 20].map(|pairs| power(&noise, pairs, &RULE, 0.1, SEED));
        for (found, expected) in found.into_iter().zip([0.50, 0.81, 0.95]) {
            assert!((found - expected).abs() < 0.06, "{found} {expected}");
        }
    }

    #[test]
    fn power_and_detectable_effect_are_two_views_of_one_curve() {
        let noise = noise(0.03);
        let effect = detectable(&noise, 15, &RULE, SEED).expect("an effect");
        assert!(power(&noise, 15, &RULE, effect, SEED) >= POWER);
        assert!(power(&noise, 15, &RULE, effect * 0.98, SEED) < POWER);
    }

    #[test]
    fn more_noise_or_a_floor_needs_more_pairs() {
        let needed = |sd: f64, floor: f64| pairs_needed(&noise(sd), 0.1, &Rule { floor, budget: 0.05, ..RULE }, 11, 200, SEED);
        let (quiet, loud, floored) = (needed(0.02, 0.0), needed(0.08, 0.0), needed(0.08, 0.06));
        assert_eq!(quiet, Some(11));
        assert!(loud > quiet && floored > loud, "{loud:?} {floored:?}");
        assert_eq!(needed(0.08, 0.1), None, "a floor at the effect can never be cleared");
    }

    #[test]
    fn a_spread_that_few_runs_taught_is_widened() {
        let few = Noise::around_zero(&normal_pool(10, 1.0)).expect("noise");
        let many = Noise::around_zero(&normal_pool(1_000, 1.0)).expect("noise");
        assert!(few.upper().sd() / few.sd() > 1.2 && many.upper().sd() / many.sd() < 1.03);
    }

    #[test]
    fn groups_are_centred_on_their_own_shift() {
        let noise = Noise::of(&[&[1.0, 1.1, 0.9], &[5.0, 5.1, 4.9], &[77.0]]).expect("noise");
        assert!((noise.sd() - 0.1).abs() < 1e-9, "{}", noise.sd());
        assert!(Noise::of(&[&[1.0]]).is_err(), "one difference has no spread");
    }

    #[test]
    fn constant_noise_is_no_trouble() {
        let none = Noise::around_zero(&[0.0; 12]).expect("noise");
        assert_eq!(detectable(&none, 12, &RULE, SEED), Some(0.0));
    }
}
