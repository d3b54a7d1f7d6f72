//! The test whether a change may be a stretch of autocorrelated pairs. If a side is autocorrelated from pair to pair (a cache, a
//! heap, a file layout that lasts), a lucky stretch looks like a change, and the test of pairs, which takes them as independent,
//! cannot detect it. Two tests of the order of pairs do.
//!
//! - *Over all metrics of the gate* of whose autocorrelation nothing was learned. A cause of autocorrelation affects many
//!   metrics, and their joint evidence shows what no single metric shows. It costs few real changes, because a level of one or
//!   two percent suffices.
//! - *Over the metrics that have changed*, in case they alone are autocorrelated, or all metrics amount to one. The order of few
//!   pairs tells little, so this costs more real changes, the more the fewer pairs there are.
//!
//! The order of independent pairs says nothing about their values, so the level of a test is its cost: the share of real changes
//! that are called inconclusive.

use assay_stats::{Side, family_order_p, order_p};

/// The level of the test of all metrics.
const FAMILY_ALPHA: f64 = 0.02;

/// The level of the test of the changed metrics, with eight pairs. It falls with the number of pairs: the more there are, the
/// fewer stretches look like a change, and the more of these the order reveals.
const OWN_ALPHA: f64 = 0.14;

/// The highest level of that test, with seven pairs and fewer: a fifth of real changes is the acceptable cost.
const HIGHEST_OWN_ALPHA: f64 = 0.2;

/// The highest level if earlier runs were examined already.
const KNOWN_ALPHA: f64 = 0.01;

/// A shift of more standard errors than this, computed as if pairs were independent, is a change even if all metrics together
/// show autocorrelation: a stretch of eight pairs or more with an autocorrelation of 0.9 hardly ever reaches it.
const BEYOND_ANY_STRETCH: f64 = 50.0;

/// The same limit if only the changed metrics show autocorrelation: with 0.9, one stretch of twenty pairs in fifty reaches it.
const BEYOND_STRETCHES: f64 = 13.0;

/// Few pairs lie close together by chance: with fewer than fifteen the limit is this many standard errors divided by the number
/// of pairs.
const BEYOND_FEW: f64 = 200.0;

/// The pairs of a metric.
#[derive(Clone, Debug)]
pub struct MetricPairs {
    /// The difference at each index of a pair, `None` if it is missing.
    pub differences: Vec<Option<f64>>,
    /// The shift of the differences.
    pub shift: f64,
    /// The side to which the metric has changed, if it has.
    pub changed: Option<Side>,
    /// True if earlier runs were examined for autocorrelation.
    pub is_known: bool,
}

impl MetricPairs {
    fn count(&self) -> usize {
        self.differences.iter().flatten().count()
    }

    /// Returns true if the metric has changed, by at most this many standard errors.
    fn is_within(&self, most: f64) -> bool {
        self.changed.is_some() && self.standard_errors() <= most
    }

    /// Returns the number of standard errors beyond which its own order is not tested.
    fn beyond_stretches(&self) -> f64 {
        BEYOND_STRETCHES.max(BEYOND_FEW / self.count() as f64)
    }

    /// Returns the shift in standard errors, computed as if pairs were independent.
    fn standard_errors(&self) -> f64 {
        let squares: Vec<f64> =
            self.differences.iter().flatten().map(|value| (value - self.shift) * (value - self.shift)).collect();
        let n = squares.len() as f64;
        let error = (squares.iter().sum::<f64>() / (n * (n - 1.0).max(1.0))).sqrt();
        if self.shift == 0.0 { 0.0 } else { self.shift.abs() / error }
    }
}

/// Returns, for each metric, true if it has changed by no more than a stretch of pairs may cause. All metrics have the same
/// number of indices, and `breaks` are the indices at which another run begins.
pub fn detect_stretches(metrics: &[MetricPairs], breaks: &[usize]) -> Vec<bool> {
    let is_of_family: Vec<bool> = metrics.iter().map(|pairs| !pairs.is_known && pairs.is_within(BEYOND_ANY_STRETCH)).collect();
    let family_remembers = is_of_family.contains(&true) && {
        let unknown = Orders::select(metrics, breaks, |pairs| !pairs.is_known);
        family_order_p(&unknown.metrics, &unknown.breaks) <= FAMILY_ALPHA
    };
    let [worse_remember, better_remember] =
        [Side::Above, Side::Below].map(|side| are_changed_autocorrelated(metrics, breaks, side));
    let is_stretch = |(pairs, is_of_family): (&MetricPairs, bool)| {
        let own_remember = match pairs.changed {
            Some(Side::Above) => worse_remember,
            Some(Side::Below) => better_remember,
            None => false,
        };
        is_of_family && family_remembers || own_remember && pairs.is_within(pairs.beyond_stretches())
    };
    metrics.iter().zip(is_of_family).map(is_stretch).collect()
}

/// Returns true if the metrics that have changed to one side show by themselves that pairs are autocorrelated.
fn are_changed_autocorrelated(metrics: &[MetricPairs], breaks: &[usize], side: Side) -> bool {
    let is_asked = |pairs: &MetricPairs| pairs.changed == Some(side) && pairs.is_within(pairs.beyond_stretches());
    let Some(pairs) = metrics.iter().filter(|pairs| is_asked(pairs)).map(MetricPairs::count).max() else { return false };
    let are_known = metrics.iter().filter(|pairs| is_asked(pairs)).all(|pairs| pairs.is_known);
    let asked = Orders::select(metrics, breaks, is_asked);
    order_p(&asked.metrics, &asked.breaks) <= own_alpha(pairs, are_known)
}

/// Returns the level of the test of the changed metrics, with this number of pairs.
fn own_alpha(pairs: usize, are_known: bool) -> f64 {
    let alpha = (OWN_ALPHA * 8.0 / pairs as f64).min(HIGHEST_OWN_ALPHA);
    if are_known { alpha.min(KNOWN_ALPHA) } else { alpha }
}

/// The differences of some metrics at the indices at which any of them has one.
struct Orders {
    metrics: Vec<Vec<Option<f64>>>,
    breaks: Vec<usize>,
}

impl Orders {
    fn select(metrics: &[MetricPairs], breaks: &[usize], is_chosen: impl Fn(&MetricPairs) -> bool) -> Self {
        let chosen: Vec<&MetricPairs> = metrics.iter().filter(|pairs| is_chosen(pairs)).collect();
        let places = chosen.first().map_or(0, |pairs| pairs.differences.len());
        let has_any = |place: &usize| chosen.iter().any(|pairs| pairs.differences.get(*place).is_some_and(Option::is_some));
        let there: Vec<usize> = (0..places).filter(has_any).collect();
        let at_places =
            |pairs: &&MetricPairs| there.iter().map(|place| pairs.differences.get(*place).copied().flatten()).collect();
        // If the first pairs of a run are missing, its first existing pair begins it.
        let breaks = breaks.iter().map(|begin| there.partition_point(|place| place < begin)).collect();
        Self { metrics: chosen.iter().map(at_places).collect(), breaks }
    }
}

#[cfg(test)]
mod tests {
    use assay_stats::{Averages, Differences, normal, signed_rank};
    use rand_chacha::ChaCha8Rng;
    use rand_core::{RngCore, SeedableRng};

    use super::*;

    struct Generator(ChaCha8Rng);

    impl Generator {
        fn new(seed: u64) -> Self {
            Self(ChaCha8Rng::seed_from_u64(seed))
        }

        /// Draws pairs with this lag-1 correlation.
        fn run(&mut self, pairs: usize, correlation: f64) -> Vec<f64> {
            let mut normal = || normal::quantile((f64::from(self.0.next_u32()) + 0.5) / 4_294_967_296.0);
            let mut last = normal();
            let mut next = || {
                last = correlation * last + (1.0 - correlation * correlation).sqrt() * normal();
                last
            };
            (0..pairs).map(|_| next()).collect()
        }
    }

    fn changed(differences: &[f64], changed: Option<Side>) -> MetricPairs {
        let shift = Averages::new(&Differences::new(differences).expect("numbers")).shift();
        MetricPairs { differences: differences.iter().copied().map(Some).collect(), shift, changed, is_known: false }
    }

    /// Counts the runs among 10,000 unchanged ones in which a lone metric is taken for worse: by the test of pairs at 2.5 %, by
    /// more than 1.15 standard deviations of a difference (5 % if a trial has a spread of 3 %), and by its order.
    fn taken_for_worse(correlation: f64, pairs: usize) -> usize {
        let mut draw = Generator::new(1);
        let mut is_taken = || {
            let run = draw.run(pairs, correlation);
            let metric = changed(&run, Some(Side::Above));
            let is_worse = signed_rank(&Differences::new(&run).expect("numbers"), Side::Above).p <= 0.025 && metric.shift > 1.15;
            is_worse && detect_stretches(&[metric], &[]) == [false]
        };
        (0..10_000).filter(|_| is_taken()).count()
    }

    #[test]
    fn stretches_that_remember_are_seldom_taken_for_changes() {
        for (pairs, most) in [(6, 420), (8, 350), (12, 300), (20, 220)] {
            let (strong, weaker) = (taken_for_worse(0.9, pairs), taken_for_worse(0.8, pairs));
            assert!(strong <= most && weaker <= most, "{pairs} pairs: {strong} and {weaker} of 10,000");
        }
    }

    #[test]
    fn a_change_that_is_there_costs_what_the_levels_say() {
        let refused = |pairs: usize| {
            let mut draw = Generator::new(2);
            let mut change = || {
                let mut metrics: Vec<MetricPairs> = (0..20).map(|_| changed(&draw.run(pairs, 0.0), None)).collect();
                let differences: Vec<f64> = draw.run(pairs, 0.0).iter().map(|value| value + 2.5).collect();
                metrics.push(changed(&differences, Some(Side::Above)));
                detect_stretches(&metrics, &[]).pop() == Some(true)
            };
            (0..1_000).filter(|_| change()).count()
        };
        let (of_eight, of_twelve, of_twenty) = (refused(8), refused(12), refused(20));
        assert!((90..=180).contains(&of_eight) && of_twelve <= 110 && of_twenty <= 70, "{of_eight} {of_twelve} {of_twenty}");
    }

    #[test]
    fn many_metrics_tell_what_a_lone_one_does_not() {
        let mut draw = Generator::new(3);
        let mut refused = || {
            let mut metrics: Vec<MetricPairs> = (0..20).map(|_| changed(&draw.run(8, 0.8), None)).collect();
            // Twenty standard errors: beyond the limit of a lone metric.
            let close: Vec<f64> = draw.run(8, 0.8).iter().map(|value| 7.0 + value).collect();
            metrics.push(changed(&close, Some(Side::Above)));
            detect_stretches(&metrics, &[]).pop() == Some(true)
        };
        let refused = (0..200).filter(|_| refused()).count();
        assert!(refused > 150, "{refused} of 200");
    }

    #[test]
    fn what_is_far_beyond_stands_and_what_has_not_changed_is_not_asked() {
        let creeping: Vec<f64> = (0..12).map(|pair| f64::from(pair) * 0.01).collect();
        let at = |level: f64| creeping.iter().map(|value| value + level).collect::<Vec<f64>>();
        let judged = |level: f64| detect_stretches(&[changed(&at(level), Some(Side::Above)), changed(&at(0.0), None)], &[]);
        assert_eq!((judged(0.1), judged(10.0)), (vec![true, false], vec![false, false]));
    }

    #[test]
    fn what_earlier_runs_were_looked_at_for_is_asked_at_a_finer_level() {
        // One order in forty-eight of these is as even.
        let differences = [1.0, 1.1, 1.2, 1.4, 1.3, 1.5];
        let with =
            |is_known: bool| detect_stretches(&[MetricPairs { is_known, ..changed(&differences, Some(Side::Above)) }], &[]);
        assert_eq!((with(false), with(true)), (vec![true], vec![false]));
    }

    #[test]
    fn places_that_no_metric_has_part_nobody() {
        let rising: Vec<Option<f64>> = (0..16).map(|place| (place % 2 == 0).then(|| 1.0 + 0.1 * f64::from(place))).collect();
        let pairs = MetricPairs { differences: rising, shift: 1.7, changed: Some(Side::Above), is_known: false };
        assert_eq!(detect_stretches(std::slice::from_ref(&pairs), &[]), [true]);
        let all_apart: Vec<usize> = (1..16).collect();
        assert_eq!(detect_stretches(&[pairs], &all_apart), [false]);
    }
}
