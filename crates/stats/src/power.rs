//! What a paired design can find before it is run, by the very rule that will judge it.
//!
//! A design fires at an effect where three things hold: the signed-rank test at `alpha`, the bound beyond the floor, and the shift beyond
//! the budget. All three move with the effect: adding a constant to every difference adds it to every average of pairs. So one set of
//! simulated noise has one smallest effect at which the design fires, and many sets are the whole power curve. Nothing is searched for.
//! All three also grow with the spread of the noise, so one table of unit noise serves every metric with that number of pairs.
//!
//! The noise is normal with the standard deviation that was learned. Simulated beside it, what the test needs in units of the standard
//! deviation hardly depends on the shape where designs are this small (threshold 5e-4, power 0.8; differences of two such values):
//!
//! | pairs | normal | Student's t with 3 | two modes, 30 : 70 |
//! | --- | --- | --- | --- |
//! | 11 | 2.06 | 2.06 | 1.83 |
//! | 14 | 1.50 | 1.41 | 1.56 |
//! | 20 | 1.12 | 1.02 | 1.06 |
//! | 30 | 0.85 | 0.72 | 0.85 |
//!
//! In units of a robust spread (the median absolute deviation) the same needs differ by a factor of 1.6.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::chi_squared;
use crate::normal;
use crate::paired::{Averages, Differences, PairError, walsh};
use crate::samples::Samples;
use crate::signed_rank::critical;

/// The share of simulated repetitions in which an effect must be found: the field's convention.
pub const POWER: f64 = 0.8;

/// Simulated repetitions of a design. The standard error of a power of 0.8 is then 0.9 points.
pub const REPETITIONS: usize = 2_000;

/// The confidence with which a learned spread is not understated.
pub const SPREAD_CONFIDENCE: f64 = 0.8;

/// The table of unit noise is part of the method's definition and the same for everybody.
const SEED: [u8; 32] = *b"assay: unit noise of the design.";

/// The spread of one pair's difference between equal sides, and how well it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise {
    /// The standard deviation of one difference.
    pub sd: f64,
    /// How many independent normal differences would tell as much about it; at least 1.
    pub freedom: f64,
    /// What a difference of this noise is worth beside a normal one, 1 or less: the heavier the tails, the less it tells of the spread.
    pub worth: f64,
}

impl Noise {
    /// Normal noise, known as well as so many differences tell.
    pub fn normal(sd: f64, freedom: f64) -> Self {
        Self { sd, freedom, worth: 1.0 }
    }

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

    /// The noise of one group, whose shift is known already.
    ///
    /// # Errors
    /// [`PairError`] where there are fewer than two values, or one is no finite number.
    pub fn around(shift: f64, values: &[f64]) -> Result<Self, PairError> {
        let residuals: Vec<f64> = values.iter().filter(|_| values.len() > 1).map(|value| value - shift).collect();
        Self::of_residuals(&residuals, values.len() as f64 - 1.0)
    }

    fn of_residuals(values: &[f64], freedom: f64) -> Result<Self, PairError> {
        let residuals = Samples::new(values)?;
        let second = crate::sum::pairwise(residuals.sorted(), |x| x * x);
        let fourth = crate::sum::pairwise(residuals.sorted(), |x| x * x * x * x);
        let kurtosis = residuals.len() as f64 * fourth / (second * second);
        // The variance of a sample variance grows with the kurtosis (3 for normal noise); fewer degrees of freedom say the same.
        let worth = if kurtosis.is_finite() { (2.0 / (kurtosis - 1.0)).min(1.0) } else { 1.0 };
        Ok(Self { sd: (second / freedom.max(1.0)).sqrt(), freedom: (freedom * worth).max(1.0), worth })
    }

    /// So wide a standard deviation that it is not understated with a confidence of [`SPREAD_CONFIDENCE`]: by the chi-squared distribution
    /// of a sample variance, with degrees of freedom corrected for kurtosis (the idea of Bonett, "Approximate confidence interval for
    /// standard deviation of nonnormal distributions", Computational Statistics and Data Analysis 50, 2006).
    pub fn upper(&self) -> f64 {
        chi_squared::widened(self.sd, self.freedom, SPREAD_CONFIDENCE)
    }

    /// Whether this noise is wider than `other` beyond what chance explains, at probability `alpha`. The logarithm of a standard deviation
    /// has a variance of about one over twice its degrees of freedom. A few differences hardly show heavy tails, so each is trusted no more
    /// than the worse of both says.
    pub fn is_wider_than(&self, other: &Self, alpha: f64) -> bool {
        let worth = self.worth.min(other.worth);
        let trusted = |noise: &Self| (noise.freedom * worth / noise.worth).max(1.0);
        let margin = normal::quantile(1.0 - alpha) * (0.5 / trusted(self) + 0.5 / trusted(other)).sqrt();
        self.sd > other.sd * libm::exp(margin)
    }
}

/// What a design has to clear, as logarithms of ratios.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limits {
    /// What the bound must exceed.
    pub floor: f64,
    /// What the shift must exceed.
    pub budget: f64,
}

impl Limits {
    /// What each of the three must exceed. The test's is zero, and the negative one, which alone leaves a zero that is taken from it with the
    /// turned sign: so this is `-sd * test` to the bit.
    fn of_all(&self) -> [f64; 3] {
        [-0.0, self.floor, self.budget]
    }
}

/// What a design of so many pairs needs, in units of the noise: for every simulated repetition where test, bound and shift lie.
#[derive(Debug, Clone)]
pub struct Curve {
    repetitions: Vec<[f64; 3]>,
    neediest: [Neediest; 3],
}

/// The repetitions that need the largest effects for one of the three: one more than an effect may leave unfound.
#[derive(Debug, Clone)]
struct Neediest {
    /// Where it lies in each of them, lowest first, which needs most.
    at: Vec<f64>,
    /// The places of the same repetitions in the orders of all three.
    places: [Vec<u16>; 3],
}

impl Curve {
    /// The curve of `pairs` pairs whose test must reach `alpha` and whose one-sided bound has a confidence of `1 - bound_alpha`; absent
    /// where so few pairs can do neither, whatever the effect.
    pub fn of(pairs: usize, alpha: f64, bound_alpha: f64) -> Option<Self> {
        let (reject, bound) = (critical(pairs, alpha)?, critical(pairs, bound_alpha)?);
        let mut rng = ChaCha8Rng::from_seed(SEED);
        let mut differences = vec![0.0; pairs];
        let mut averages = Vec::with_capacity(pairs * (pairs + 1) / 2);
        let mut repetition = || {
            differences.fill_with(|| normal::quantile((f64::from(rng.next_u32()) + 0.5) / 4_294_967_296.0));
            walsh(&differences, &mut averages);
            let middle = averages.len() / 2;
            let (below, shift, _) = averages.select_nth_unstable_by(middle, f64::total_cmp);
            let shift = *shift;
            // Both thresholds lie below the middle, so they are looked for in the lower half alone.
            let mut at = |rank: usize| match below.len() {
                0 => shift,
                len => *below.select_nth_unstable_by(rank.min(len - 1), f64::total_cmp).1,
            };
            [at(reject), at(bound), shift]
        };
        Some(Self::from((0..REPETITIONS).map(|_| repetition()).collect()))
    }

    fn from(repetitions: Vec<[f64; 3]>) -> Self {
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
            let first = &orders[which][..=unfound(repetitions.len())];
            Neediest {
                at: first.iter().map(|repetition| repetitions[*repetition][which]).collect(),
                places: places.each_ref().map(|places| first.iter().map(|repetition| places[*repetition]).collect()),
            }
        });
        Self { repetitions, neediest }
    }

    /// The smallest effect, as a logarithm of a ratio, that is found with a probability of [`POWER`] under noise of that standard deviation.
    ///
    /// A repetition needs the largest of three effects, and each of the three falls along its own order whatever the noise, so no table is
    /// sorted anew: a gate asks this of every metric. Each of the three alone asks for some effect to be found often enough, and no less than
    /// the largest of these will do. Most often it does. Where the other two add repetitions that need more, as many as are too many are won
    /// back, those that need least first.
    pub fn detectable(&self, sd: f64, limits: &Limits) -> f64 {
        let (limits, unfound) = (limits.of_all(), unfound(self.repetitions.len()));
        let need = |which: usize, place: usize| needed(limits[which], sd, self.neediest[which].at[place]);
        let alone = [0, 1, 2].map(|which| need(which, unfound));
        let mut effect = alone.into_iter().max_by(f64::total_cmp).unwrap_or(f64::INFINITY);
        let above = |which: usize, at: &f64| needed(limits[which], sd, *at).total_cmp(&effect).is_gt();
        // How many of each order need more than that.
        let mut more = [0, 1, 2].map(|which| self.neediest[which].at.partition_point(|at| above(which, at)));
        let mut missed = self.distinct(more);
        while missed > unfound {
            let last = (0..3).filter_map(|which| Some((need(which, more[which].checked_sub(1)?), which)));
            let Some((least, which)) = last.min_by(|left, right| left.0.total_cmp(&right.0)) else { break };
            effect = least;
            more[which] -= 1;
            // It is won back once it needs no more for the other two.
            let places = &self.neediest[which].places;
            let found = (0..3).all(|other| usize::from(places[other][more[which]]) >= more[other]);
            missed -= usize::from(found);
        }
        effect
    }

    /// How many repetitions are among the first so many of the three orders.
    fn distinct(&self, [test, bound, shift]: [usize; 3]) -> usize {
        let [_, by_bound, by_shift] = &self.neediest;
        let beyond = |place: &u16, first: usize| usize::from(*place) >= first;
        let added = by_bound.places[0][..bound].iter().filter(|by_test| beyond(by_test, test)).count();
        let [by_test, by_bound, _] = &by_shift.places;
        let both = by_test[..shift].iter().zip(&by_bound[..shift]);
        test + added + both.filter(|(by_test, by_bound)| beyond(by_test, test) && beyond(by_bound, bound)).count()
    }

    /// The probability of finding `effect` under noise of that standard deviation.
    pub fn power(&self, sd: f64, limits: &Limits, effect: f64) -> f64 {
        let limits = limits.of_all();
        let finds = |of: &&[f64; 3]| of.iter().zip(limits).all(|(at, limit)| needed(limit, sd, *at) <= effect);
        self.repetitions.iter().filter(finds).count() as f64 / self.repetitions.len() as f64
    }
}

/// The effect that lifts what lies at `at`, in units of the noise, to its limit.
fn needed(limit: f64, sd: f64, at: f64) -> f64 {
    limit - sd * at
}

/// How many of so many repetitions an effect may leave unfound.
fn unfound(repetitions: usize) -> usize {
    repetitions - ((POWER * repetitions as f64).ceil() as usize).min(repetitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Limits = Limits { floor: 0.0, budget: 0.0 };

    fn curve(pairs: usize) -> Curve {
        Curve::of(pairs, 5e-4, 0.025).expect("a curve")
    }

    #[test]
    fn so_few_pairs_find_nothing_at_all() {
        assert!(Curve::of(10, 5e-4, 0.025).is_none() && Curve::of(0, 0.5, 0.5).is_none());
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

    /// The same by sorting what every repetition needs.
    fn sorted_out(curve: &Curve, sd: f64, limits: &Limits) -> f64 {
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
                    let (found, sorted) = (curve.detectable(sd, &limits), sorted_out(&curve, sd, &limits));
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
    fn heavy_tails_say_less_about_a_spread() {
        let even: Vec<f64> = (0..40).map(|i| f64::from(i) - 19.5).collect();
        let mut tailed = even.clone();
        tailed.extend([200.0, -200.0]);
        let (even, tailed) = (Noise::of(&[&even]).expect("noise"), Noise::of(&[&tailed]).expect("noise"));
        assert!(tailed.freedom < even.freedom / 4.0, "{tailed:?} {even:?}");
    }

    #[test]
    fn groups_are_centred_on_their_own_shift() {
        let noise = Noise::of(&[&[1.0, 1.1, 0.9], &[5.0, 5.1, 4.9], &[77.0]]).expect("noise");
        assert!((noise.sd - 0.1).abs() < 1e-9 && noise.freedom <= 4.0, "{noise:?}");
        assert!(Noise::of(&[&[1.0]]).is_err(), "one difference has no spread");
        assert_eq!(Noise::of(&[&[2.0; 5]]).expect("noise").sd.to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn twice_the_noise_is_wider_and_a_tenth_more_is_not() {
        let (learned, own) = (Noise::normal(1.0, 60.0), |sd| Noise::normal(sd, 19.0));
        assert!(own(2.0).is_wider_than(&learned, 5e-4) && !own(1.1).is_wider_than(&learned, 5e-4));
        let tailed = Noise { worth: 0.2, ..learned };
        assert!(!own(2.0).is_wider_than(&tailed, 5e-4), "what has heavy tails now and then looks wide");
    }
}
