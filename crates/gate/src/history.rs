//! The comparison of a run with the runs before it. It never blocks: a change between two days may come from the machine, so a
//! paired run has to decide.

mod bootstrap;
mod paired_design;

use std::collections::BTreeMap;

use assay_manifest::BetterDirection;
use assay_stats::{Samples, benjamini_hochberg, student};

use crate::rule::share;

pub use self::bootstrap::FalseAlarms;
pub use self::paired_design::{MetricSpread, PairedDesign, size_paired_design};

/// The fewest earlier runs that predict anything about the next: below it the interval is wider than every change.
pub const FEWEST_RUNS: usize = 5;

/// A metric's value in a run, and in the runs before it.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricHistory {
    /// The better direction.
    pub better: BetterDirection,
    /// The median over the run's trials.
    pub value: f64,
    /// The medians of earlier runs, by run: the metrics of one run belong together.
    pub earlier: BTreeMap<String, f64>,
}

/// The comparison of a run with the runs before it.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryComparison {
    /// The result of each metric, in the family's order.
    pub metrics: Vec<MetricComparison>,
    /// The probability that the family raises a false alarm; `None` if nothing is predicted.
    pub false_alarms: Option<FalseAlarms>,
}

/// The position of a value relative to the runs before it.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricComparison {
    /// The number of earlier runs.
    pub runs: usize,
    /// The prediction from the earlier runs.
    pub prediction: Prediction,
    /// The probability of a value this much worse, adjusted for the family; 1 if nothing is predicted.
    pub adjusted: f64,
    /// True if the value is worse than earlier runs explain, at the family's rate, and by more than the budget.
    pub is_worse: bool,
}

/// The prediction of the next run from earlier runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Prediction {
    /// Student's interval on logarithms of per-run medians (Hahn and Meeker, "Statistical Intervals", 1991, section 4.7).
    Interval {
        /// Its lower end, in the metric's unit.
        low: f64,
        /// Its upper end.
        high: f64,
        /// The geometric mean of the earlier runs.
        middle: f64,
        /// The standard deviation between runs, as a share.
        spread: f64,
        /// The number of earlier runs that the other runs would have called worse by the same rule: the false alarms of this very
        /// history.
        false_alarms: usize,
    },
    /// Too few runs.
    TooFew,
    /// A value without a logarithm.
    NoRatio,
}

/// Compares a family of metrics with their histories: at rate `q`, beyond a `budget` as a share. The interval shown is that of a
/// lone metric of the family, two-sided at `1 - 2 q / m`.
pub fn compare_with_history(family: &[MetricHistory], q: f64, budget: f64) -> HistoryComparison {
    let level = q / family.len().max(1) as f64;
    let tests: Vec<Option<MetricTest>> = family.iter().map(MetricTest::new).collect();
    let adjusted = benjamini_hochberg(&tests.iter().map(|test| test.as_ref().map_or(1.0, |test| test.p)).collect::<Vec<_>>());
    let seen = family.iter().zip(&tests).zip(adjusted);
    let metrics = seen.map(|((past, test), adjusted)| {
        let prediction = match test {
            Some(test) => test.prediction(past, level, budget),
            None if past.earlier.len() < FEWEST_RUNS => Prediction::TooFew,
            None => Prediction::NoRatio,
        };
        let is_worse = test.as_ref().is_some_and(|test| adjusted <= q && share(test.worse) > budget);
        MetricComparison { runs: past.earlier.len(), prediction, adjusted, is_worse }
    });
    HistoryComparison { metrics: metrics.collect(), false_alarms: bootstrap::false_alarms(family, q, budget) }
}

/// Returns the logarithms of earlier medians, in the order of runs, with the sign turned so that larger is worse; `None` if there
/// are too few or one has no logarithm.
fn logs(past: &MetricHistory) -> Option<Vec<f64>> {
    if past.earlier.len() < FEWEST_RUNS {
        return None;
    }
    let log = |value: &f64| Some(turn(past.better) * libm::log(Some(*value).filter(|value| *value > 0.0 && value.is_finite())?));
    past.earlier.values().map(log).collect()
}

fn turn(better: BetterDirection) -> f64 {
    match better {
        BetterDirection::Lower => 1.0,
        BetterDirection::Higher => -1.0,
    }
}

/// The test of one metric.
struct MetricTest {
    /// The mean of the earlier runs, as a logarithm.
    mean: f64,
    sd: f64,
    /// The probability of a value this much worse.
    p: f64,
    /// The difference from the mean of the earlier runs, as a logarithm of a ratio; above zero is worse.
    worse: f64,
}

impl MetricTest {
    fn new(past: &MetricHistory) -> Option<Self> {
        let logs = Samples::new(&logs(past)?).ok()?;
        let value = Some(past.value).filter(|value| *value > 0.0 && value.is_finite()).map(libm::log)?;
        let (mean, sd) = (logs.mean(), logs.sd()?);
        let worse = turn(past.better) * value - mean;
        Some(Self { mean: turn(past.better) * mean, sd, p: probability(worse, sd, past.earlier.len()), worse })
    }

    fn prediction(&self, past: &MetricHistory, level: f64, budget: f64) -> Prediction {
        let n = past.earlier.len() as f64;
        let half = student::quantile(1.0 - level, n - 1.0) * self.sd * (1.0 + 1.0 / n).sqrt();
        Prediction::Interval {
            low: libm::exp(self.mean - half),
            high: libm::exp(self.mean + half),
            middle: libm::exp(self.mean),
            spread: share(self.sd),
            false_alarms: false_alarms(past, level, budget),
        }
    }
}

/// Returns the probability of a value this much worse than the mean of `n` runs with this spread. Runs without any spread predict
/// themselves exactly.
fn probability(worse: f64, sd: f64, n: usize) -> f64 {
    let n = n as f64;
    match sd * (1.0 + 1.0 / n).sqrt() {
        error if error > 0.0 => student::upper(worse / error, n - 1.0),
        _ if worse > 0.0 => 0.0,
        _ => 1.0,
    }
}

/// Returns the number of earlier runs that would have been called worse, each compared with the others.
fn false_alarms(past: &MetricHistory, level: f64, budget: f64) -> usize {
    let alarms = |(run, value): (&String, &f64)| {
        let mut earlier = past.earlier.clone();
        earlier.remove(run);
        let test = MetricTest::new(&MetricHistory { value: *value, earlier, better: past.better });
        test.is_some_and(|test| test.p <= level && share(test.worse) > budget)
    };
    past.earlier.iter().filter(|earlier| alarms(*earlier)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(value: f64, earlier: &[f64]) -> MetricHistory {
        let earlier = (0..).map(|night: u32| format!("night-{night:02}")).zip(earlier.iter().copied()).collect();
        MetricHistory { better: BetterDirection::Lower, value, earlier }
    }

    fn seen(family: &[MetricHistory], budget: f64) -> Vec<MetricComparison> {
        compare_with_history(family, 0.05, budget).metrics
    }

    /// Ten runs with a spread of about one percent.
    const QUIET: [f64; 10] = [100.0, 101.0, 99.0, 100.5, 99.5, 101.5, 98.5, 100.2, 99.8, 100.0];

    #[test]
    fn what_earlier_runs_explain_is_not_told() {
        let seen = seen(&[past(101.0, &QUIET), past(112.0, &QUIET)], 0.05);
        assert_eq!(seen.iter().map(|seen| seen.is_worse).collect::<Vec<_>>(), [false, true]);
        let Prediction::Interval { low, high, middle, spread, false_alarms } = &seen[1].prediction else { panic!("predicted") };
        assert!((0.008..0.011).contains(spread) && (middle - 100.0).abs() < 0.1, "{spread} {middle}");
        // Student's 97.5 % point with 9 degrees of freedom is 2.262.
        let half = 2.2622 * libm::log1p(*spread) * 1.1_f64.sqrt();
        assert!((high / middle - libm::exp(half)).abs() < 1e-4 && (low / middle - libm::exp(-half)).abs() < 1e-4);
        assert_eq!(*false_alarms, 0);
    }

    #[test]
    fn what_is_sure_but_small_is_within_the_budget() {
        assert!(!seen(&[past(104.0, &QUIET)], 0.05)[0].is_worse);
        assert!(seen(&[past(104.0, &QUIET)], 0.02)[0].is_worse);
    }

    #[test]
    fn higher_is_better_turns_it() {
        let turned = |value: f64| MetricHistory { better: BetterDirection::Higher, ..past(value, &QUIET) };
        let seen = seen(&[turned(88.0), turned(112.0)], 0.05);
        assert_eq!(seen.iter().map(|seen| seen.is_worse).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn a_wild_history_says_how_often_it_cries_wolf() {
        let mut wild = QUIET.to_vec();
        wild[3] = 160.0;
        let seen = seen(&[past(112.0, &wild)], 0.05);
        let Prediction::Interval { false_alarms, .. } = &seen[0].prediction else { panic!("predicted") };
        assert_eq!(
            (*false_alarms, seen[0].is_worse),
            (1, false),
            "the wild run would have been told, and hides what comes after it"
        );
    }

    #[test]
    fn what_cannot_be_predicted_is_named_and_stays_in_the_family() {
        let family = [past(112.0, &QUIET[..4]), past(0.0, &QUIET), past(112.0, &[100.0; 6])];
        let seen = seen(&family, 0.05);
        assert_eq!((&seen[0].prediction, &seen[1].prediction), (&Prediction::TooFew, &Prediction::NoRatio));
        assert!(seen[2].is_worse, "runs without any spread predict themselves");
        assert!((seen[0].adjusted - 1.0).abs() < 1e-12);
    }
}
