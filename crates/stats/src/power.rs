//! The statistical power of a paired design before it is run, by the same rule that will judge it.
//!
//! A design fires at an effect if three conditions hold: the signed-rank test rejects at `alpha`, the bound is beyond the floor,
//! and the shift is beyond the budget. All three move with the effect: adding a constant to every difference adds it to every
//! average of pairs. So one set of simulated noise has one smallest effect at which the design fires, and many sets give the
//! whole power curve without a search. All three also grow with the spread of the noise, so one table of unit noise serves every
//! metric with that number of pairs.
//!
//! The noise is normal with the learned standard deviation. In simulations, the effect that the test needs, in units of the
//! standard deviation, hardly depends on the shape for designs this small (threshold 5e-4, power 0.8; differences of two such
//! values):
//!
//! | pairs | normal | Student's t with 3 | two modes, 30 : 70 |
//! | --- | --- | --- | --- |
//! | 11 | 2.06 | 2.06 | 1.83 |
//! | 14 | 1.50 | 1.41 | 1.56 |
//! | 20 | 1.12 | 1.02 | 1.06 |
//! | 30 | 0.85 | 0.72 | 0.85 |
//!
//! In units of a robust spread (the median absolute deviation) the same needs differ by a factor of 1.6.
//!
//! This fails if a few differences are many times as large as all others: one request in fifty that meets a pause causes a
//! standard deviation that does not describe the other forty-nine. So noise is also described with its [spikes](Spikes) counted
//! separately: the standard deviation is that of the others, and a simulated pair is a spike as often as observed pairs were,
//! larger than every other, and for the worse or the better by chance. The result of a rank test does not depend on the size of a
//! spike.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::chi_squared;
use crate::normal;
use crate::paired::{Averages, Differences, PairError, fill_walsh_averages};
use crate::samples::Samples;
use crate::signed_rank::critical_value;
use crate::special;

/// The share of simulated repetitions in which an effect must be found: the field's convention.
pub const POWER: f64 = 0.8;

/// The number of simulated repetitions of a design. The standard error of a power of 0.8 is then 0.9 points.
pub const REPETITIONS: usize = 2_000;

/// The confidence with which a learned spread is not understated.
pub const SPREAD_CONFIDENCE: f64 = 0.8;

/// The distance from the shift, in robust standard deviations (1.4826 median absolute deviations), from which on a difference is
/// a spike. Normal noise has none; if as few differences as [`FEWEST_FOR_SPIKES`] understate its spread by half, three in a
/// thousand are that far away.
const SPIKE: f64 = 6.0;

/// The fewest differences in which spikes are detected.
const FEWEST_FOR_SPIKES: usize = 8;

/// The shares of spikes for which curves are computed; between two of them the higher one applies.
const SPIKE_SHARES: [f64; 12] = [0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.18, 0.25, 0.35, 0.5];

/// The size of a simulated spike in standard deviations: beyond any effect that is added to it.
const BEYOND: f64 = 1e9;

/// The seed of the table of unit noise, which is part of the method's definition and the same for every caller.
const SEED: [u8; 32] = *b"assay: unit noise of the design.";

/// The spread of one pair's difference between equal sides, and the precision with which it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// The standard deviation of one difference.
    pub sd: f64,
    /// The number of independent normal differences that would determine it as well; at least 1.
    pub freedom: f64,
    /// The information in a difference of this noise relative to a normal one, 1 or less: the heavier the tails, the less it
    /// tells about the spread.
    pub worth: f64,
    /// The noise without its spikes, if there are any.
    pub base: Option<BaseNoise>,
}

/// The noise of differences that are not spikes, and the number of spikes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BaseNoise {
    /// The standard deviation of one difference that is not a spike.
    pub sd: f64,
    /// As [`Noise::freedom`].
    pub freedom: f64,
    /// As [`Noise::worth`].
    pub worth: f64,
    /// The spikes among the differences.
    pub spikes: Spikes,
}

impl BaseNoise {
    /// The spread and the share of spikes at their upper bounds: see [`Noise::upper`] and [`Spikes::upper`].
    pub fn upper_view(self) -> NoiseView {
        NoiseView { sd: chi_squared::widen(self.sd, self.freedom, SPREAD_CONFIDENCE), spikes: self.spikes.upper() }
    }
}

/// Normal noise with a share of spikes: the argument of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NoiseView {
    /// The standard deviation of a difference that is not a spike.
    pub sd: f64,
    /// The share of differences that are spikes.
    pub spikes: f64,
}

/// Differences that are many times as large as all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spikes {
    /// The number of spikes.
    pub seen: u32,
    /// The number of all differences.
    pub among: u32,
}

impl Spikes {
    /// Returns the share of spikes.
    pub fn share(self) -> f64 {
        if self.among == 0 { 0.0 } else { f64::from(self.seen) / f64::from(self.among) }
    }

    /// An upper bound of the share with a confidence of [`SPREAD_CONFIDENCE`] (Clopper and Pearson, "The use of confidence or
    /// fiducial limits illustrated in the case of the binomial", Biometrika 26, 1934). 0 if no spike was observed: unobserved
    /// spikes are not planned for.
    pub fn upper(self) -> f64 {
        if self.seen == 0 || self.seen >= self.among {
            return self.share();
        }
        let (mut low, mut high) = (self.share(), 1.0);
        for _ in 0..40 {
            let middle = f64::midpoint(low, high);
            let few = special::binomial(self.among as usize, middle, self.seen as usize).lower;
            if few > 1.0 - SPREAD_CONFIDENCE { low = middle } else { high = middle }
        }
        high
    }

    /// Returns true if there are more spikes than chance explains given the usual `other`, at probability `alpha`.
    fn are_more_than(self, other: Self, alpha: f64) -> bool {
        // A share that was never observed is taken as one in the number of observations plus two (Laplace's rule of succession).
        let usual = (f64::from(other.seen) + 1.0) / (f64::from(other.among) + 2.0);
        let Some(fewer) = self.seen.checked_sub(1) else { return false };
        special::binomial(self.among as usize, usual, fewer as usize).upper <= alpha
    }
}

impl Noise {
    /// Normal noise, known as precisely as `freedom` differences allow.
    pub fn normal(sd: f64, freedom: f64) -> Self {
        Self { sd, freedom, worth: 1.0, base: None }
    }

    /// The noise as normal noise: all of it, and without its spikes. A rank test finds at least as much as either view implies:
    /// it is affected neither by the length of the first view's tails nor by the size of the second's spikes.
    pub fn views(&self) -> impl Iterator<Item = NoiseView> {
        let usual = self.base.map(|usual| NoiseView { sd: usual.sd, spikes: usual.spikes.share() });
        std::iter::once(NoiseView { sd: self.sd, spikes: 0.0 }).chain(usual)
    }

    /// The same views at upper bounds: see [`Noise::upper`] and [`Spikes::upper`].
    pub fn upper_views(&self) -> impl Iterator<Item = NoiseView> {
        std::iter::once(NoiseView { sd: self.upper(), spikes: 0.0 }).chain(self.base.map(BaseNoise::upper_view))
    }

    /// Estimates noise from observed differences, in groups that each have their own shift (the runs of a history, or one run).
    /// Every group is centred on its shift, which costs a degree of freedom; groups of one are left out.
    ///
    /// # Errors
    /// [`PairError`] if no group of two or more is left, or a value is not a finite number.
    pub fn from_groups(groups: &[&[f64]]) -> Result<Self, PairError> {
        let mut residuals = Vec::new();
        let mut freedom = 0;
        for group in groups.iter().filter(|group| group.len() > 1) {
            let shift = Averages::new(&Differences::new(group)?).shift();
            residuals.extend(group.iter().map(|value| value - shift));
            freedom += group.len() - 1;
        }
        Self::from_residuals(&residuals, freedom as f64)
    }

    /// Estimates the noise of one group whose shift is already known.
    ///
    /// # Errors
    /// [`PairError`] if there are fewer than two values, or one is not a finite number.
    pub fn from_group(shift: f64, values: &[f64]) -> Result<Self, PairError> {
        let residuals: Vec<f64> = values.iter().filter(|_| values.len() > 1).map(|value| value - shift).collect();
        Self::from_residuals(&residuals, values.len() as f64 - 1.0)
    }

    fn from_residuals(values: &[f64], freedom: f64) -> Result<Self, PairError> {
        let all = Samples::new(values)?;
        let [sd, own_freedom, worth] = spread(all.sorted(), freedom);
        let limit = spike_limit(&all);
        let residuals: Vec<f64> = all.sorted().iter().copied().filter(|value| value.abs() <= limit).collect();
        let seen = all.len() - residuals.len();
        let usual = (seen > 0).then(|| {
            let [sd, freedom, worth] = spread(&residuals, freedom - seen as f64);
            BaseNoise { sd, freedom, worth, spikes: Spikes { seen: seen as u32, among: all.len() as u32 } }
        });
        Ok(Self { sd, freedom: own_freedom, worth, base: usual })
    }

    /// An upper bound of the standard deviation with a confidence of [`SPREAD_CONFIDENCE`]: by the chi-squared distribution of a
    /// sample variance, with degrees of freedom corrected for kurtosis (the idea of Bonett, "Approximate confidence interval for
    /// standard deviation of nonnormal distributions", Computational Statistics and Data Analysis 50, 2006).
    pub fn upper(&self) -> f64 {
        chi_squared::widen(self.sd, self.freedom, SPREAD_CONFIDENCE)
    }

    /// Returns true if this noise is wider than `other` beyond what chance explains, at probability `alpha`. The logarithm of a
    /// standard deviation has a variance of about one over twice its degrees of freedom. A few differences hardly show heavy
    /// tails, so both are given the smaller of their two [`worth`](Noise::worth)s.
    pub fn is_wider_than(&self, other: &Self, alpha: f64) -> bool {
        let (one, other) = (self.without_spikes(), other.without_spikes());
        let worth = one.worth.min(other.worth);
        let trusted = |noise: &BaseNoise| (noise.freedom * worth / noise.worth).max(1.0);
        let margin = normal::quantile(1.0 - alpha) * (0.5 / trusted(&one) + 0.5 / trusted(&other)).sqrt();
        one.sd > other.sd * libm::exp(margin) || one.spikes.are_more_than(other.spikes, alpha)
    }

    /// Returns the noise without its spikes; all of it if there are none.
    pub fn without_spikes(&self) -> BaseNoise {
        let Self { sd, freedom, worth, base: usual } = *self;
        usual.unwrap_or(BaseNoise { sd, freedom, worth, spikes: Spikes { seen: 0, among: freedom as u32 } })
    }
}

/// The standard deviation of residuals with `freedom` degrees of freedom, the number of normal differences that would determine
/// it as well, and the information in one of them relative to a normal one.
fn spread(residuals: &[f64], freedom: f64) -> [f64; 3] {
    let freedom = freedom.max(1.0);
    let second = crate::sum::pairwise(residuals, |x| x * x);
    let fourth = crate::sum::pairwise(residuals, |x| x * x * x * x);
    let kurtosis = residuals.len() as f64 * fourth / (second * second);
    // The variance of a sample variance grows with the kurtosis (3 for normal noise), which is expressed as fewer degrees of
    // freedom.
    let worth = if kurtosis.is_finite() { (2.0 / (kurtosis - 1.0)).min(1.0) } else { 1.0 };
    [(second / freedom).sqrt(), (freedom * worth).max(1.0), worth]
}

/// The distance from which on a residual is a spike; infinite if the residuals cannot show it.
fn spike_limit(residuals: &Samples) -> f64 {
    let mut sizes: Vec<f64> = residuals.sorted().iter().map(|value| value.abs()).collect();
    sizes.sort_unstable_by(f64::total_cmp);
    let middle = crate::quantile::quantile(&sizes, 0.5).unwrap_or_default();
    // If most differences are equal, the usual distance of the others is unknown.
    let tells = sizes.len() >= FEWEST_FOR_SPIKES && middle > 0.0;
    if tells { SPIKE * 1.482_602_218_505_602 * middle } else { f64::INFINITY }
}

/// The share of spikes of the curve that is used for this share: the same or the next higher one.
pub fn curve_share(spikes: f64) -> f64 {
    SPIKE_SHARES.into_iter().find(|share| spikes <= *share).unwrap_or(0.5)
}

/// The limits that a design has to clear, as logarithms of ratios.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limits {
    /// The limit of the bound.
    pub floor: f64,
    /// The limit of the shift.
    pub budget: f64,
}

impl Limits {
    /// The limits of test, bound and shift. That of the test is negative zero, so that subtracting a value from it flips the sign
    /// exactly, also for zero: the result is `-sd * test` to the bit.
    fn per_condition(&self) -> [f64; 3] {
        [-0.0, self.floor, self.budget]
    }
}

/// The effects that a design of a number of pairs needs, in units of the noise: the position of test, bound and shift for every
/// simulated repetition.
#[derive(Debug, Clone)]
pub struct Curve {
    repetitions: Vec<[f64; 3]>,
    hardest: [HardestRepetitions; 3],
}

/// The repetitions that need the largest effects for one of the three conditions: one more than an effect may miss.
#[derive(Debug, Clone)]
struct HardestRepetitions {
    /// The position in each of these repetitions, lowest first; the lowest needs the largest effect.
    at: Vec<f64>,
    /// The ranks of the same repetitions in the orders of all three.
    places: [Vec<u16>; 3],
}

impl Curve {
    /// Computes the curve of `pairs` pairs with a share of `spikes`, whose test must reach `alpha` and whose one-sided bound has
    /// a confidence of `1 - bound_alpha`; `None` if the pairs are too few for both, whatever the effect.
    pub fn new(pairs: usize, spikes: f64, alpha: f64, bound_alpha: f64) -> Option<Self> {
        let (reject, bound) = (critical_value(pairs, alpha)?, critical_value(pairs, bound_alpha)?);
        let mut rng = ChaCha8Rng::from_seed(SEED);
        let mut differences = vec![0.0; pairs];
        let mut averages = Vec::with_capacity(pairs * (pairs + 1) / 2);
        let mut uniform = || (f64::from(rng.next_u32()) + 0.5) / 4_294_967_296.0;
        let mut difference = || {
            let usual = normal::quantile(uniform());
            // Each spike has a different size, so that two of them do not cancel.
            if spikes > 0.0 && uniform() < spikes { BEYOND.copysign(usual) * (1.0 + usual.abs()) } else { usual }
        };
        let mut repetition = || {
            differences.fill_with(&mut difference);
            fill_walsh_averages(&differences, &mut averages);
            let middle = averages.len() / 2;
            let (below, shift, _) = averages.select_nth_unstable_by(middle, f64::total_cmp);
            let shift = *shift;
            // Both thresholds are below the middle, so only the lower half is searched.
            let mut at = |rank: usize| match below.len() {
                0 => shift,
                len => *below.select_nth_unstable_by(rank.min(len - 1), f64::total_cmp).1,
            };
            [at(reject), at(bound), shift]
        };
        Some(Self::from_repetitions((0..REPETITIONS).map(|_| repetition()).collect()))
    }

    fn from_repetitions(repetitions: Vec<[f64; 3]>) -> Self {
        let orders: [Vec<usize>; 3] = std::array::from_fn(|which| {
            let mut order: Vec<usize> = (0..repetitions.len()).collect();
            order.sort_by(|left, right| repetitions[*left][which].total_cmp(&repetitions[*right][which]));
            order
        });
        let places = orders.each_ref().map(|order| {
            let mut places = vec![0; order.len()];
            order.iter().zip(0_u16..).for_each(|(repetition, place)| places[*repetition] = place);
            places
        });
        let neediest = std::array::from_fn(|which| {
            let first = &orders[which][..=allowed_misses(repetitions.len())];
            HardestRepetitions {
                at: first.iter().map(|repetition| repetitions[*repetition][which]).collect(),
                places: places.each_ref().map(|places| first.iter().map(|repetition| places[*repetition]).collect()),
            }
        });
        Self { repetitions, hardest: neediest }
    }

    /// The smallest effect, as a logarithm of a ratio, that is found with a probability of [`POWER`] under noise with standard
    /// deviation `sd`.
    ///
    /// A repetition needs the largest of three effects, and each of the three has the same order for all noise, so no table is
    /// sorted again: a gate calls this for every metric. Each of the three alone requires some effect to be found often enough,
    /// so the result is at least the largest of these, and most often equal to it. If the other two add repetitions that need
    /// more, the excess repetitions are won back, those that need least first.
    pub fn detectable(&self, sd: f64, limits: &Limits) -> f64 {
        let (limits, unfound) = (limits.per_condition(), allowed_misses(self.repetitions.len()));
        let need = |which: usize, place: usize| needed_effect(limits[which], sd, self.hardest[which].at[place]);
        let alone = [0, 1, 2].map(|which| need(which, unfound));
        let mut effect = alone.into_iter().max_by(f64::total_cmp).unwrap_or(f64::INFINITY);
        let above = |which: usize, at: &f64| needed_effect(limits[which], sd, *at).total_cmp(&effect).is_gt();
        // The number of repetitions of each order that need more than that.
        let mut more = [0, 1, 2].map(|which| self.hardest[which].at.partition_point(|at| above(which, at)));
        let mut missed = self.distinct(more);
        while missed > unfound {
            let last = (0..3).filter_map(|which| Some((need(which, more[which].checked_sub(1)?), which)));
            let Some((least, which)) = last.min_by(|left, right| left.0.total_cmp(&right.0)) else { break };
            effect = least;
            more[which] -= 1;
            // A repetition is won back once it needs no more for the other two.
            let places = &self.hardest[which].places;
            let found = (0..3).all(|other| usize::from(places[other][more[which]]) >= more[other]);
            missed -= usize::from(found);
        }
        effect
    }

    /// The number of distinct repetitions among the first ones of the three orders.
    fn distinct(&self, [test, bound, shift]: [usize; 3]) -> usize {
        let [_, by_bound, by_shift] = &self.hardest;
        let beyond = |place: &u16, first: usize| usize::from(*place) >= first;
        let added = by_bound.places[0][..bound].iter().filter(|by_test| beyond(by_test, test)).count();
        let [by_test, by_bound, _] = &by_shift.places;
        let both = by_test[..shift].iter().zip(&by_bound[..shift]);
        test + added + both.filter(|(by_test, by_bound)| beyond(by_test, test) && beyond(by_bound, bound)).count()
    }

    /// The probability of finding `effect` under noise with standard deviation `sd`.
    pub fn power(&self, sd: f64, limits: &Limits, effect: f64) -> f64 {
        let limits = limits.per_condition();
        let finds = |of: &&[f64; 3]| of.iter().zip(limits).all(|(at, limit)| needed_effect(limit, sd, *at) <= effect);
        self.repetitions.iter().filter(finds).count() as f64 / self.repetitions.len() as f64
    }
}

/// The effect that lifts the position `at`, in units of the noise, to its limit.
fn needed_effect(limit: f64, sd: f64, at: f64) -> f64 {
    limit - sd * at
}

/// The number of repetitions that an effect may miss.
fn allowed_misses(repetitions: usize) -> usize {
    repetitions - ((POWER * repetitions as f64).ceil() as usize).min(repetitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Limits = Limits { floor: 0.0, budget: 0.0 };

    fn curve(pairs: usize) -> Curve {
        Curve::new(pairs, 0.0, 5e-4, 0.025).expect("a curve")
    }

    #[test]
    fn so_few_pairs_find_nothing_at_all() {
        assert!(Curve::new(10, 0.0, 5e-4, 0.025).is_none() && Curve::new(0, 0.0, 0.5, 0.5).is_none());
    }

    #[test]
    fn agrees_with_an_independent_simulation() {
        // Signed-rank at 5e-4 of a shift of 10 % with a coefficient of variation of 5 % a side: .50, .81 and .95 for 12, 16 and 20 pairs.
        let found = [12, 16, 20].map(|pairs| curve(pairs).power(0.05 * 2.0_f64.sqrt(), &NONE, libm::log(1.1)));
        for (found, expected) in found.into_iter().zip([0.50, 0.81, 0.95]) {
            assert!((found - expected).abs() < 0.03, "{found} {expected}");
        }
        // The table above, from another program.
        for (pairs, expected) in [(11, 2.06), (14, 1.50), (20, 1.12), (30, 0.85)] {
            let found = curve(pairs).detectable(1.0, &NONE);
            assert!((found - expected).abs() < 0.05, "{pairs} {found}");
        }
    }

    #[test]
    fn power_and_detectable_effect_are_two_views_of_one_curve() {
        let limits = Limits { floor: 0.01, budget: 0.02 };
        let effect = curve(15).detectable(0.03, &limits);
        assert!(curve(15).power(0.03, &limits, effect) >= POWER && curve(15).power(0.03, &limits, effect * 0.999) < POWER);
    }

    #[test]
    fn noise_floor_and_budget_each_raise_what_is_needed() {
        let needed = |sd: f64, floor: f64, budget: f64| curve(20).detectable(sd, &Limits { floor, budget });
        assert!(needed(0.0, 0.0, 0.0).abs() < 1e-12);
        let (floored, budgeted) = (needed(0.0, 0.03, 0.0), needed(0.0, 0.0, 0.05));
        assert!((floored - 0.03).abs() < 1e-12 && (budgeted - 0.05).abs() < 1e-12, "without noise, what has to be cleared");
        assert!(needed(0.02, 0.0, 0.0) < needed(0.04, 0.0, 0.0) && needed(0.04, 0.0, 0.0) < needed(0.04, 0.06, 0.0));
    }

    /// The same result by sorting the effects that all repetitions need.
    fn detectable_by_sorting(curve: &Curve, sd: f64, limits: &Limits) -> f64 {
        let needs = |of: &[f64; 3]| [-sd * of[0], limits.floor - sd * of[1], limits.budget - sd * of[2]];
        let mut all: Vec<f64> = curve.repetitions.iter().filter_map(|of| needs(of).into_iter().max_by(f64::total_cmp)).collect();
        all.sort_by(f64::total_cmp);
        all[1_599]
    }

    #[test]
    fn counting_along_three_orders_finds_what_sorting_does() {
        for curve in [12, 15, 40].map(curve) {
            for limits in [[0.0, 0.0], [0.0, 0.05], [0.02, 0.05], [0.09, 0.01], [-0.1, -0.0], [1.0, 0.0]] {
                let limits = Limits { floor: limits[0], budget: limits[1] };
                let spreads = (0..60).map(|step| 0.001 * f64::from(step * step)).chain([1e-320, 1e-160, 1e300, f64::INFINITY]);
                for sd in spreads {
                    let (found, sorted) = (curve.detectable(sd, &limits), detectable_by_sorting(&curve, sd, &limits));
                    assert_eq!(found.to_bits(), sorted.to_bits(), "{sd} {limits:?}");
                }
            }
        }
    }

    #[test]
    fn a_spread_that_few_taught_is_widened() {
        let known = |freedom: f64| Noise::normal(1.0, freedom).upper();
        // Roots of n over chi-squared quantiles at 0.2: 4 / 1.6488, 9 / 5.3801, 19 / 13.7158.
        for (freedom, expected) in [(4.0, 1.5576), (9.0, 1.2934), (19.0, 1.1770)] {
            assert!((known(freedom) - expected).abs() < 1e-4, "{freedom} {}", known(freedom));
        }
    }

    #[test]
    fn spikes_are_counted_apart() {
        let usual: Vec<f64> = (0..50).map(|i| 0.04 * normal::quantile((f64::from(i) + 0.5) / 50.0)).collect();
        let with: Vec<f64> = usual.iter().copied().chain([2.3, -2.3]).collect();
        let (alone, spiked) = (Noise::from_groups(&[&usual]).expect("noise"), Noise::from_groups(&[&with]).expect("noise"));
        let usual = spiked.base.expect("spikes");
        assert_eq!((alone.base, usual.spikes), (None, Spikes { seen: 2, among: 52 }));
        assert!((usual.sd / alone.sd - 1.0).abs() < 0.05 && spiked.sd > 10.0 * alone.sd, "{alone:?} {spiked:?}");
        // SciPy: beta.ppf(0.8, 3, 50).
        assert!((usual.spikes.upper() - 0.080_499_609_5).abs() < 1e-9, "{}", usual.spikes.upper());
        assert!(Spikes::default().upper().abs() < f64::EPSILON);
        let zeros: Vec<f64> = std::iter::repeat_n(0.0, 40).chain([0.1, -0.1]).collect();
        assert_eq!(
            Noise::from_groups(&[&zeros]).expect("noise").base,
            None,
            "where most are alike, nothing tells what a spike is"
        );
    }

    #[test]
    fn more_spikes_than_usual_are_wider_noise() {
        let with = |seen: u32, among: u32| {
            let usual = BaseNoise { sd: 0.04, freedom: 100.0, worth: 1.0, spikes: Spikes { seen, among } };
            Noise { base: Some(usual), ..Noise::normal(0.4, 100.0) }
        };
        assert!(with(4, 12).is_wider_than(&with(0, 100), 5e-4) && !with(1, 12).is_wider_than(&with(0, 100), 5e-4));
        assert!(!with(4, 12).is_wider_than(&with(30, 100), 5e-4), "those are usual");
    }

    /// The same designs, simulated with spikes that are ten times as slow: the result of a rank test does not depend on the size
    /// of a spike.
    #[test]
    fn the_power_under_spikes_is_that_of_pairs_which_have_them() {
        let (pairs, share, sd, effect) = (20, 0.04, 0.042, libm::log(1.1));
        let told = Curve::new(pairs, curve_share(share), 5e-4, 0.025).expect("a curve").power(sd, &NONE, effect);
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut uniform = || (f64::from(rng.next_u32()) + 0.5) / 4_294_967_296.0;
        let mut found = 0;
        for _ in 0..2_000 {
            let mut difference = || {
                let spike = if uniform() < 0.05 { libm::log(10.0) } else { 0.0 };
                let sign = if uniform() < 0.5 { 1.0 } else { -1.0 };
                effect + sd * normal::quantile(uniform()) + sign * spike
            };
            let values: Vec<f64> = (0..pairs).map(|_| difference()).collect();
            let differences = Differences::new(&values).expect("numbers");
            let p = crate::signed_rank::signed_rank(&differences, crate::paired::Side::Above).p;
            found += usize::from(p <= 5e-4 && Averages::new(&differences).lower(0.025).is_some_and(|low| low > 0.0));
        }
        assert!((told - f64::from(u32::try_from(found).expect("few")) / 2_000.0).abs() < 0.03, "{told} {found}");
        assert!(told > 0.6, "{told}");
    }

    #[test]
    fn heavy_tails_say_less_about_a_spread() {
        let even: Vec<f64> = (0..40).map(|i| f64::from(i) - 19.5).collect();
        let mut tailed = even.clone();
        tailed.extend([80.0, -80.0]);
        let (even, tailed) = (Noise::from_groups(&[&even]).expect("noise"), Noise::from_groups(&[&tailed]).expect("noise"));
        assert!(tailed.freedom < even.freedom / 4.0, "{tailed:?} {even:?}");
    }

    #[test]
    fn groups_are_centred_on_their_own_shift() {
        let noise = Noise::from_groups(&[&[1.0, 1.1, 0.9], &[5.0, 5.1, 4.9], &[77.0]]).expect("noise");
        assert!((noise.sd - 0.1).abs() < 1e-9 && noise.freedom <= 4.0, "{noise:?}");
        assert!(Noise::from_groups(&[&[1.0]]).is_err(), "one difference has no spread");
        assert_eq!(Noise::from_groups(&[&[2.0; 5]]).expect("noise").sd.to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn twice_the_noise_is_wider_and_a_tenth_more_is_not() {
        let (learned, own) = (Noise::normal(1.0, 60.0), |sd| Noise::normal(sd, 19.0));
        assert!(own(2.0).is_wider_than(&learned, 5e-4) && !own(1.1).is_wider_than(&learned, 5e-4));
        let tailed = Noise { worth: 0.2, ..learned };
        assert!(!own(2.0).is_wider_than(&tailed, 5e-4), "what has heavy tails now and then looks wide");
    }
}
