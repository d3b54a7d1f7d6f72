//! The stability of the trials of one point.
//!
//! A median with a narrow interval still misleads if the machine was warming up, or if there were two machines. This module
//! detects the ways in which trials disagree, and describes them in words.

use std::fmt;

use crate::robust;
use crate::samples::{Samples, ratio};
use crate::trend::{Trend, trend};

/// The default relative noise above which trials count as unstable: Assay's default regression budget. Noise above the budget
/// hides the very change that the budget forbids.
pub const DEFAULT_NOISE_LIMIT: f64 = 0.05;

/// The fewest trials for a verdict.
///
/// Five is the fewest with which the exact trend test can reach [`TREND_P`] at all (2 of 120 orderings, p = 0.0167; four reach
/// 0.083) and with which the median has an interval of more than 90 %. It is also Assay's default number of trials.
pub const MIN_TRIALS: usize = 5;

/// The p-value of a trend. A trend counts if its two-sided p-value is at most this, the conventional 5 %, *and* the change over
/// the run exceeds the noise limit: a significant drift of a tenth of a percent is harmless.
pub const TREND_P: f64 = 0.05;

/// The fewest trials for a search for two modes.
///
/// The check requires a gap wider than either cluster, with a fifth of the trials on each side. Simulated over 200,000 samples
/// with one mode, it fires by mistake in 0.01 % of normal, 0.2 % of uniform and 0.5 % of lognormal (sigma 1) samples of 20, but
/// in 2.5, 8.6 and 4.7 % of samples of 10: below 20 false alarms would be too frequent.
pub const MIN_FOR_MODES: usize = 20;

/// The verdict on the stability of trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The trials may be summarised in one number.
    Stable,
    /// The trials should not be summarised in one number; the reasons say why.
    Unstable,
    /// The trials are insufficient for a verdict.
    Unknown,
}

impl Verdict {
    /// The name in documents and tables: `stable`, `unstable` or `unknown`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stable => "stable",
            Self::Unstable => "unstable",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One observation. `Display` describes it in plain words.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// There are fewer than [`MIN_TRIALS`] trials.
    TooFewTrials {
        /// The number of trials.
        n: usize,
    },
    /// The values are around zero, so there is no scale for their spread.
    NoScale,
    /// The coefficient of variation is above the limit.
    Noise {
        /// The coefficient of variation.
        cv: f64,
        /// The same from the median absolute deviation, which a few wild values cannot move.
        robust_cv: f64,
        /// The limit.
        limit: f64,
    },
    /// The values move with the order of the trials.
    Drift {
        /// The fitted slope over all trials, relative to the median. It may be below -1: it is no change of a value.
        trend: f64,
        /// The change from the first value to the last, relative to the first; `None` if that is 0.
        ends: Option<f64>,
        /// The test's two-sided p-value.
        p: f64,
    },
    /// The trials form two clusters with a gap between them.
    TwoModes {
        /// The number of trials below the gap.
        below: usize,
        /// The number of trials above the gap.
        above: usize,
        /// The width of the gap relative to the median.
        gap: f64,
    },
    /// Trials were flagged as outliers (and kept). A note: alone it does not make trials unstable.
    Outliers {
        /// Their indices in the order of the trials, counted from 0.
        indices: Vec<usize>,
    },
}

impl Reason {
    /// Returns the verdict that this reason alone implies; `None` for a mere note.
    fn verdict(&self) -> Option<Verdict> {
        match self {
            Self::TooFewTrials { .. } | Self::NoScale => Some(Verdict::Unknown),
            Self::Noise { .. } | Self::Drift { .. } | Self::TwoModes { .. } => Some(Verdict::Unstable),
            Self::Outliers { .. } => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFewTrials { n } => write!(f, "too few trials: {n}, and a verdict needs {MIN_TRIALS}"),
            Self::NoScale => f.write_str("no scale: the values lie around zero, so their spread has nothing to be compared with"),
            Self::Noise { cv, robust_cv, limit } => {
                let (cv, limit) = (percent(*cv), percent(*limit));
                write!(
                    f,
                    "noise: the coefficient of variation is {cv}, above the limit of {limit} (robust: {})",
                    percent(*robust_cv)
                )
            }
            Self::Drift { trend, ends, p } => {
                let way = if *trend < 0.0 { "falling" } else { "rising" };
                let (size, p) = (percent(trend.abs()), probability(*p));
                write!(f, "drift: a {way} trend of {size} of the median over the trials ({p})")?;
                ends.map_or(Ok(()), |change| write!(f, ", the last is {}", beside_the_first(change)))
            }
            Self::TwoModes { below, above, gap } => {
                write!(f, "two modes: {below} trials lie below and {above} above a gap of {} of the median", percent(*gap))
            }
            Self::Outliers { indices } => write!(f, "outliers, kept: {}", places(indices)),
        }
    }
}

/// The verdict with its evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Stability {
    /// The verdict.
    pub verdict: Verdict,
    /// The observations; empty only for [`Verdict::Stable`].
    pub reasons: Vec<Reason>,
    /// The trend over the order of the trials, if one could be tested.
    pub trend: Option<Trend>,
}

impl Stability {
    /// Returns the reasons in one line, separated by semicolons; without reasons, the list of checks that found nothing.
    pub fn reason(&self) -> String {
        if self.reasons.is_empty() {
            return "neither noise nor drift above the limit, and no outliers".to_owned();
        }
        self.reasons.iter().map(Reason::to_string).collect::<Vec<_>>().join("; ")
    }
}

/// Judges `samples`, one value per trial in the order in which the trials ran, against a relative `noise_limit` (0.05 is 5 %).
///
/// - [`Verdict::Unknown`] with fewer than [`MIN_TRIALS`] trials, or if there is no scale for the spread;
/// - [`Verdict::Unstable`] if the coefficient of variation exceeds the limit, if a trend is significant ([`TREND_P`]) and the
///   change over the run exceeds the limit, or if, from [`MIN_FOR_MODES`] trials on, two modes are further apart than the limit;
/// - [`Verdict::Stable`] otherwise. Outliers are named in every case.
///
/// A limit that is NaN is exceeded by everything: a caller's mistake must not pass as stability.
pub fn stability(samples: &Samples, noise_limit: f64) -> Stability {
    let trend = trend(samples);
    let reasons: Vec<Reason> = [
        too_few(samples),
        noise(samples, noise_limit),
        trend.and_then(|trend| drift(samples, &trend, noise_limit)),
        two_modes(samples, noise_limit),
        outliers(samples),
    ]
    .into_iter()
    .flatten()
    .collect();
    Stability { verdict: weigh(&reasons), reasons, trend }
}

/// Combines the verdicts of reasons: unknown outweighs unstable, which outweighs notes.
fn weigh(reasons: &[Reason]) -> Verdict {
    let says = |verdict| reasons.iter().any(|reason| reason.verdict() == Some(verdict));
    [Verdict::Unknown, Verdict::Unstable].into_iter().find(|&verdict| says(verdict)).unwrap_or(Verdict::Stable)
}

fn too_few(samples: &Samples) -> Option<Reason> {
    (samples.len() < MIN_TRIALS).then_some(Reason::TooFewTrials { n: samples.len() })
}

fn noise(samples: &Samples, limit: f64) -> Option<Reason> {
    let sd = samples.sd()?;
    if sd == 0.0 {
        return None;
    }
    match (samples.cv(), robust::robust_cv(samples)) {
        (Some(cv), Some(robust_cv)) => exceeds(cv, limit).then_some(Reason::Noise { cv, robust_cv, limit }),
        _ => Some(Reason::NoScale),
    }
}

fn drift(samples: &Samples, trend: &Trend, limit: f64) -> Option<Reason> {
    let change = trend.change?;
    let counts = samples.len() >= MIN_TRIALS && trend.p <= TREND_P && exceeds(change.abs(), limit);
    counts.then(|| Reason::Drift { trend: change, ends: change_of_ends(samples.observed()), p: trend.p })
}

/// Returns the change from the first value to the last, relative to the first; `None` if that is 0.
fn change_of_ends(observed: &[f64]) -> Option<f64> {
    let (first, last) = (*observed.first()?, *observed.last()?);
    ratio(last - first, first)
}

/// The widest gap with at least a fifth of the samples on each side, if it is wider than the range of either side.
fn two_modes(samples: &Samples, limit: f64) -> Option<Reason> {
    let n = samples.len();
    if n < MIN_FOR_MODES {
        return None;
    }
    let side = n.div_ceil(5);
    let width = |below: usize| samples.at(below) - samples.at(below - 1);
    let below = (side..=n - side).max_by(|&a, &b| width(a).total_cmp(&width(b)))?;
    let (left, right) = (samples.at(below - 1) - samples.min(), samples.max() - samples.at(below));
    let gap = ratio(width(below), samples.median())?;
    let parted = width(below) > left.max(right) && exceeds(gap, limit);
    parted.then_some(Reason::TwoModes { below, above: n - below, gap })
}

fn outliers(samples: &Samples) -> Option<Reason> {
    let indices = robust::outliers(samples);
    (!indices.is_empty()).then_some(Reason::Outliers { indices })
}

/// Returns true if `value` is above `limit`, or the limit is NaN.
fn exceeds(value: f64, limit: f64) -> bool {
    value > limit || limit.is_nan()
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// Formats a change against the first value: `5.66 % below the first`.
fn beside_the_first(change: f64) -> String {
    let way = if change < 0.0 { "below" } else { "above" };
    if change == 0.0 { "equal to the first".to_owned() } else { format!("{} {way} the first", percent(change.abs())) }
}

fn probability(p: f64) -> String {
    if p < 0.0001 { "p < 0.0001".to_owned() } else { format!("p = {p:.4}") }
}

/// The most indices that are written out; the rest is counted.
const MAX_PLACES: usize = 8;

/// Formats indices as `trial 3` or `trials 1, 4 and 7 more`, counted from 1 for readers.
fn places(indices: &[usize]) -> String {
    let shown: Vec<String> = indices.iter().take(MAX_PLACES).map(|index| (index + 1).to_string()).collect();
    let noun = if indices.len() == 1 { "trial" } else { "trials" };
    let rest = indices.len().saturating_sub(MAX_PLACES);
    let more = if rest == 0 { String::new() } else { format!(" and {rest} more") };
    format!("{noun} {}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(values: &[f64]) -> String {
        let found = stability(&Samples::new(values).expect("samples"), DEFAULT_NOISE_LIMIT);
        format!("{}: {}", found.verdict, found.reason())
    }

    /// `n` values around 100 in no particular order, within 1 % of it.
    fn calm(n: u32) -> Vec<f64> {
        (0..n).map(|i| 100.0 + f64::from(i * 7 % 11) * 0.1).collect()
    }

    #[test]
    fn calm_trials_are_stable() {
        insta::assert_snapshot!(judged(&[100.0, 101.0, 99.5, 100.5, 99.0]), @"stable: neither noise nor drift above the limit, and no outliers");
        insta::assert_snapshot!(judged(&[0.0; 5]), @"stable: neither noise nor drift above the limit, and no outliers");
    }

    #[test]
    fn too_few_trials_cannot_tell() {
        insta::assert_snapshot!(judged(&[100.0]), @"unknown: too few trials: 1, and a verdict needs 5");
        insta::assert_snapshot!(judged(&[100.0, 101.0, 99.5, 100.5]), @"unknown: too few trials: 4, and a verdict needs 5");
    }

    #[test]
    fn too_few_wild_trials_still_say_so() {
        insta::assert_snapshot!(judged(&[100.0, 150.0, 80.0]), @"unknown: too few trials: 3, and a verdict needs 5; noise: the coefficient of variation is 32.78 %, above the limit of 5.00 % (robust: 29.65 %)");
    }

    #[test]
    fn noise_is_unstable() {
        insta::assert_snapshot!(judged(&[100.0, 112.0, 91.0, 104.0, 95.0]), @"unstable: noise: the coefficient of variation is 8.11 %, above the limit of 5.00 % (robust: 7.41 %)");
    }

    #[test]
    fn values_around_zero_have_no_scale() {
        insta::assert_snapshot!(judged(&[-1.0, 1.0, 0.0, 2.0, -2.0]), @"unknown: no scale: the values lie around zero, so their spread has nothing to be compared with");
    }

    #[test]
    fn a_drift_beyond_the_limit_is_unstable_even_within_the_noise_limit() {
        insta::assert_snapshot!(judged(&[100.0, 101.5, 103.0, 104.5, 106.0]), @"unstable: drift: a rising trend of 5.83 % of the median over the trials (p = 0.0167), the last is 6.00 % above the first");
        insta::assert_snapshot!(judged(&[106.0, 104.5, 103.0, 101.5, 100.0]), @"unstable: drift: a falling trend of 5.83 % of the median over the trials (p = 0.0167), the last is 5.66 % below the first");
    }

    #[test]
    fn positive_values_do_not_fall_by_more_than_all_of_themselves() {
        let found = judged(&[90.0, 70.0, 30.0, 20.0, 12.0]);
        insta::assert_snapshot!(found.split("; ").last().unwrap_or_default(), @"drift: a falling trend of 263.33 % of the median over the trials (p = 0.0167), the last is 86.67 % below the first");
    }

    #[test]
    fn a_drift_from_zero_has_no_change_of_its_ends() {
        let found = judged(&[0.0, 70.0, 80.0, 90.0, 95.0]);
        insta::assert_snapshot!(found.split("; ").nth(1).unwrap_or_default(), @"drift: a rising trend of 50.00 % of the median over the trials (p = 0.0167)");
    }

    #[test]
    fn a_vanishing_p_is_not_printed_as_zero() {
        let steady: Vec<f64> = (0..12_u32).map(|i| 100.0 + f64::from(i)).collect();
        insta::assert_snapshot!(judged(&steady), @"unstable: drift: a rising trend of 10.43 % of the median over the trials (p < 0.0001), the last is 11.00 % above the first");
    }

    #[test]
    fn a_significant_drift_that_matters_to_nobody_is_stable() {
        insta::assert_snapshot!(judged(&[100.0, 100.1, 100.2, 100.3, 100.4, 100.5, 100.6]), @"stable: neither noise nor drift above the limit, and no outliers");
    }

    #[test]
    fn two_modes_are_seen_where_there_are_enough_trials() {
        let modes = |n: u32| (0..n).map(|i| f64::from(i % 2) * 6.0 + f64::from(i * 7 % 5) * 0.1 + 100.0).collect::<Vec<_>>();
        insta::assert_snapshot!(judged(&modes(20)), @"unstable: two modes: 10 trials lie below and 10 above a gap of 5.43 % of the median");
        insta::assert_snapshot!(judged(&modes(18)), @"stable: neither noise nor drift above the limit, and no outliers");
    }

    #[test]
    fn one_stray_trial_is_named_and_decides_nothing_alone() {
        let mut values = calm(12);
        values[3] = 104.0;
        insta::assert_snapshot!(judged(&values), @"stable: outliers, kept: trial 4");
        values[3] = 160.0;
        insta::assert_snapshot!(judged(&values), @"unstable: noise: the coefficient of variation is 16.33 %, above the limit of 5.00 % (robust: 0.44 %); outliers, kept: trial 4");
    }

    #[test]
    fn many_strays_are_counted() {
        let indices: Vec<usize> = (0..11).collect();
        insta::assert_snapshot!(Reason::Outliers { indices }.to_string(), @"outliers, kept: trials 1, 2, 3, 4, 5, 6, 7, 8 and 3 more");
    }

    #[test]
    fn a_limit_that_is_not_a_number_stops_everything() {
        let found = stability(&Samples::new(&calm(10)).expect("samples"), f64::NAN);
        assert_eq!(found.verdict, Verdict::Unstable);
    }

    #[test]
    fn equal_trials_are_stable_even_without_a_limit() {
        assert_eq!(stability(&Samples::new(&[3.0; 25]).expect("samples"), 0.0).verdict, Verdict::Stable);
    }
}
