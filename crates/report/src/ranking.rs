//! The ranking of the variants of a run by one metric: the order, and which of them cannot be told apart.

use std::collections::BTreeMap;

use assay_manifest::{BetterDirection, Case, Digest, Interval, MetricSummary, Plan, PointSummary, Summary, TrialId};
use assay_stats::{CONFIDENCE_LEVEL, PairedMean, Samples, holm};

use crate::render::number::significant;
use crate::render::text::{counted, first_names};

/// The fewest counted trials of a variant that is ranked, and the fewest rounds that two of them have in common.
pub const MIN_TRIALS: usize = 3;

/// The values of one variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The variant.
    pub variant: String,
    /// The digest of its lock file, if it states packages.
    pub lock: Option<Digest>,
    /// The median over its counted trials.
    pub median: f64,
    /// The interval of the median.
    pub interval: Option<Interval>,
    /// The value of each counted trial, by the round in which it ran.
    pub values: BTreeMap<u32, f64>,
    /// The number of planned trials.
    pub planned: u32,
}

/// The measurements of one metric at one point of a workload on a target, for every variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The workload, the target and the point, as a heading has them.
    pub place: String,
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// The direction that is better.
    pub better: BetterDirection,
    /// The variants with a value.
    pub candidates: Vec<Candidate>,
    /// The variants without one, with the reason.
    pub left_out: Vec<(String, String)>,
}

/// Two variants, compared over the rounds that both have. The first is the better one by its median.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The places of the two in the order.
    pub places: (usize, usize),
    /// The number of rounds.
    pub rounds: usize,
    /// The test, or the reason why there is none.
    pub test: Result<PairTest, String>,
}

/// The test of a pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairTest {
    /// The ratio of geometric means, turned so that it is above 1 if the first is better.
    pub ratio: f64,
    /// The ends of the interval of the ratio; the intervals of all pairs hold together with [`CONFIDENCE_LEVEL`].
    pub interval: (f64, f64),
    /// The two-sided p-value.
    pub p: f64,
    /// The same, adjusted for all pairs of the command.
    pub adjusted: f64,
}

/// The meaning of the ratios and their intervals.
pub const METHOD: &str = "Ratios are within rounds, tested by Student's test of their logarithms, all pairs adjusted by Holm; their intervals hold together \
                          with 95 % confidence, and may include 1 if Holm narrowly finds a difference.";

impl Candidate {
    /// Returns its median with the interval: `2.92 ms [2.87, 3.04]`.
    pub fn median_with_interval(&self, unit: &str) -> String {
        match &self.interval {
            Some(found) => {
                let shown = |value: f64| significant(value, Some((found.low, found.high)));
                format!("{} {unit} [{}, {}]", shown(self.median), shown(found.low), shown(found.high))
            }
            None => format!("{} {unit}", significant(self.median, None)),
        }
    }
}

impl Pair {
    /// Returns the ratio with its interval: `1.29 (1.24 to 1.34)`.
    pub fn ratio_with_interval(&self) -> String {
        match &self.test {
            Ok(test) => format!("{} ({})", ratio(test.ratio), ends(test.interval)),
            Err(_) => "not compared".to_owned(),
        }
    }

    /// Returns true if the first is better than the second beyond chance.
    pub fn is_told_apart(&self) -> bool {
        self.test.as_ref().is_ok_and(|test| test.adjusted <= 1.0 - CONFIDENCE_LEVEL && test.ratio > 1.0)
    }
}

/// The variants in their order, the best first.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking {
    /// The measurements; the candidates are in order.
    pub measured: Measured,
    /// All pairs.
    pub pairs: Vec<Pair>,
}

/// Ranks each of the measured metrics. The pairs of all of them are one family of tests.
pub fn rank(all: Vec<Measured>) -> Vec<Ranking> {
    let mut rankings: Vec<Ranking> = all.into_iter().map(order).collect();
    let pairs = rankings.iter().flat_map(|ranking| &ranking.pairs);
    let p: Vec<f64> = pairs.filter_map(|pair| pair.test.as_ref().ok()).map(|test| test.p).collect();
    let level = 1.0 - (1.0 - CONFIDENCE_LEVEL) / p.len().max(1) as f64;
    let mut adjusted = holm(&p).into_iter();
    for ranking in &mut rankings {
        for pair in &mut ranking.pairs {
            if let (Ok(test), Ok(mean)) = (&mut pair.test, paired(&ranking.measured, pair.places)) {
                test.adjusted = adjusted.next().unwrap_or(1.0);
                test.interval = mean.ratio_interval(level);
            }
        }
    }
    rankings
}

/// Puts the candidates in order, leaves out those with too few trials, and tests all pairs of the others.
fn order(mut measured: Measured) -> Ranking {
    let (mut ranked, few): (Vec<_>, Vec<_>) =
        measured.candidates.into_iter().partition(|candidate| candidate.values.len() >= MIN_TRIALS);
    let reason = |candidate: &Candidate| {
        format!("{} of {} trials count, and a ranking needs {MIN_TRIALS}", candidate.values.len(), candidate.planned)
    };
    measured.left_out.extend(few.iter().map(|candidate| (candidate.variant.clone(), reason(candidate))));
    ranked.sort_by(|one, other| match measured.better {
        BetterDirection::Lower => one.median.total_cmp(&other.median),
        BetterDirection::Higher => other.median.total_cmp(&one.median),
    });
    measured.candidates = ranked;
    let count = measured.candidates.len();
    let places = (0..count).flat_map(|first| (first + 1..count).map(move |second| (first, second)));
    let pairs = places.map(|places| test_pair(&measured, places)).collect();
    Ranking { measured, pairs }
}

fn test_pair(measured: &Measured, places: (usize, usize)) -> Pair {
    let test = paired(measured, places).map(|mean| PairTest {
        ratio: mean.ratio(),
        interval: (f64::NAN, f64::NAN),
        p: mean.p,
        adjusted: 1.0,
    });
    Pair { places, rounds: common_rounds(measured, places).len(), test }
}

/// Tests how many times as good the first is as the second, round by round.
fn paired(measured: &Measured, places: (usize, usize)) -> Result<PairedMean, String> {
    let (first, second): (Vec<f64>, Vec<f64>) = common_rounds(measured, places).into_iter().unzip();
    if first.len() < MIN_TRIALS {
        return Err(format!("{} in common, and a comparison needs {MIN_TRIALS}", counted(first.len() as u64, "round")));
    }
    if first.iter().chain(&second).any(|value| *value <= 0.0) {
        return Err("a value is not above zero, so it has no ratio".to_owned());
    }
    let samples = |values: &[f64]| Samples::new(values).map_err(|error| error.to_string());
    let (first, second) = (samples(&first)?, samples(&second)?);
    let (numerators, denominators) = match measured.better {
        BetterDirection::Lower => (second, first),
        BetterDirection::Higher => (first, second),
    };
    PairedMean::of_ratios(&numerators, &denominators)
        .map_err(|_| "the ratio is the same in every round, so there is no error to compare it with".to_owned())
}

/// Returns the values of two variants in each round in which both have one.
fn common_rounds(measured: &Measured, (first, second): (usize, usize)) -> Vec<(f64, f64)> {
    let values = |place: usize| measured.candidates.get(place).map(|candidate| &candidate.values);
    let (Some(first), Some(second)) = (values(first), values(second)) else { return Vec::new() };
    first.iter().filter_map(|(round, value)| Some((*value, *second.get(round)?))).collect()
}

/// Returns each metric of each point that is ranked, with the values of all variants: the primary metrics, or the named one. `why_missing` describes why a
/// point has no value.
pub fn measured(
    plan: &Plan,
    summary: &Summary,
    metric: Option<&str>,
    why_missing: impl Fn(&PointSummary) -> String,
) -> Vec<Measured> {
    let mut places: Vec<(&Case, &PointSummary)> = Vec::new();
    for point in &summary.points {
        let Some(case) = plan.case(&point.case_id) else { continue };
        let is_same = |(other, of): &(&Case, &PointSummary)| {
            (&other.workload, &other.target, &of.point_id) == (&case.workload, &case.target, &point.point_id)
        };
        if !places.iter().any(is_same) {
            places.push((case, point));
        }
    }
    let is_asked = |found: &&MetricSummary| metric.map_or(found.primary, |metric| metric == found.metric);
    let mut all = Vec::new();
    for (case, point) in places {
        let cases: Vec<&Case> =
            plan.cases.iter().filter(|other| (&other.workload, &other.target) == (&case.workload, &case.target)).collect();
        let points: Vec<(&Case, &PointSummary)> = cases
            .iter()
            .filter_map(|case| {
                let here = |found: &&PointSummary| found.case_id == case.case_id && found.point_id == point.point_id;
                Some((*case, summary.points.iter().find(here)?))
            })
            .collect();
        if points.len() < 2 {
            continue;
        }
        let mut metrics: Vec<(&MetricSummary, BetterDirection)> = Vec::new();
        for found in points.iter().flat_map(|(_, point)| &point.metrics).filter(is_asked) {
            if let Some(better) = found.better.filter(|_| !metrics.iter().any(|(known, _)| known.metric == found.metric)) {
                metrics.push((found, better));
            }
        }
        let place = format!("{} on {} at {}", case.workload, case.target, point.point_id);
        all.extend(metrics.into_iter().map(|(metric, better)| measure(plan, &place, &points, metric, better, &why_missing)));
    }
    all
}

fn measure(
    plan: &Plan,
    place: &str,
    points: &[(&Case, &PointSummary)],
    metric: &MetricSummary,
    better: BetterDirection,
    why_missing: &impl Fn(&PointSummary) -> String,
) -> Measured {
    let (mut candidates, mut left_out) = (Vec::new(), Vec::new());
    for (case, point) in points {
        match point.metrics.iter().find(|found| found.metric == metric.metric) {
            None => left_out.push((case.variant.to_string(), why_missing(point))),
            Some(found) => candidates.push(Candidate {
                variant: case.variant.to_string(),
                lock: plan.python_stack(&case.case_id).map(|(_, stack)| stack.lock.artifact.digest),
                median: found.median,
                interval: found.interval.clone(),
                values: found.trials.iter().filter_map(|trial| Some((round(&trial.trial_id)?, trial.value))).collect(),
                planned: point.trials_planned,
            }),
        }
    }
    let (metric, unit) = (metric.metric.clone(), metric.unit.clone());
    Measured { place: place.to_owned(), metric, unit, better, candidates, left_out }
}

/// Returns the round in which a trial ran: the number at the end of its id.
fn round(trial: &TrialId) -> Option<u32> {
    trial.as_str().rsplit('.').next()?.strip_prefix('t')?.parse().ok()
}

/// The words for a ratio of a metric.
enum Quantity {
    /// A time or a rate: `1.3 times as fast as`.
    Speed,
    /// Anything else, of which more or less is better.
    Other(BetterDirection),
}

impl Measured {
    fn quantity(&self) -> Quantity {
        let is_time = ["ns", "us", "ms", "s"].contains(&self.unit.as_str()) && self.better == BetterDirection::Lower;
        let is_rate = self.unit.ends_with("/s") && self.better == BetterDirection::Higher;
        if is_time || is_rate { Quantity::Speed } else { Quantity::Other(self.better) }
    }

    fn name(&self, place: usize) -> &str {
        self.candidates.get(place).map_or("", |candidate| candidate.variant.as_str())
    }
}

impl Ranking {
    /// Returns the variants that cannot be told apart from the one at a place. One that was not compared with it is none of them.
    pub fn not_told_apart(&self, place: usize) -> Vec<&str> {
        self.others(place, |pair| pair.test.is_ok() && !pair.is_told_apart())
    }

    /// Returns the variants that were not compared with the one at a place.
    pub fn not_compared(&self, place: usize) -> Vec<&str> {
        self.others(place, |pair| pair.test.is_err())
    }

    /// Returns the other variants of the pairs of the one at a place.
    fn others(&self, place: usize, is_one: impl Fn(&Pair) -> bool) -> Vec<&str> {
        let other = |pair: &Pair| match pair.places {
            (first, second) if first == place => Some(second),
            (first, second) if second == place => Some(first),
            _ => None,
        };
        self.pairs.iter().filter(|pair| is_one(pair)).filter_map(other).map(|place| self.measured.name(place)).collect()
    }

    /// Returns the pair of the best one and the one at a place.
    pub fn against_best(&self, place: usize) -> Option<&Pair> {
        self.pairs.iter().find(|pair| pair.places == (0, place))
    }

    /// States the result in one sentence.
    pub fn headline(&self) -> String {
        let best = self.measured.name(0);
        match self.measured.candidates.len() {
            0 => return "No variant is ranked: none has enough counted trials".to_owned(),
            1 => return format!("Only `{best}` has enough counted trials, so nothing is ranked"),
            _ => {}
        }
        let told_apart = (1..self.measured.candidates.len()).find_map(|place| {
            let pair = self.against_best(place).filter(|pair| pair.is_told_apart())?;
            Some((self.measured.name(place), pair.test.as_ref().ok()?))
        });
        let (similar, unknown) = (self.not_told_apart(0), self.not_compared(0));
        let Some((next, test)) = told_apart else {
            return match (similar.is_empty(), unknown.is_empty()) {
                (_, true) => format!("`{best}` has the best median, and no other variant can be told apart from it"),
                (true, false) => format!("`{best}` has the best median, and no other variant was compared with it"),
                (false, false) => format!("`{best}` has the best median; {}", rest(&similar, &unknown)),
            };
        };
        let ratio = self.ratio_sentence(next, test);
        if similar.is_empty() && unknown.is_empty() {
            format!("`{best}` is {}: {ratio}", self.superlative())
        } else {
            format!("`{best}` is {ratio}; {}", rest(&similar, &unknown))
        }
    }

    /// Returns the word for the first one: of all variants, or of those that are ranked.
    fn superlative(&self) -> String {
        let word = match self.measured.quantity() {
            Quantity::Speed => "fastest",
            Quantity::Other(_) => "best",
        };
        match self.measured.left_out.len() {
            0 => word.to_owned(),
            more => format!("{word} of the {} that are ranked, {more} left out", self.measured.candidates.len()),
        }
    }

    fn ratio_sentence(&self, next: &str, test: &PairTest) -> String {
        let metric = &self.measured.metric;
        match self.measured.quantity() {
            Quantity::Speed => format!("{} times as fast as `{next}` ({})", ratio(test.ratio), ends(test.interval)),
            Quantity::Other(BetterDirection::Higher) => {
                format!("at {} times the `{metric}` of `{next}` ({})", ratio(test.ratio), ends(test.interval))
            }
            Quantity::Other(BetterDirection::Lower) => {
                let (low, high) = test.interval;
                format!("at {} times the `{metric}` of `{next}` ({})", ratio(1.0 / test.ratio), ends((1.0 / high, 1.0 / low)))
            }
        }
    }
}

/// Says which variants cannot be told apart from the first one, and which were not compared with it.
fn rest(similar: &[&str], unknown: &[&str]) -> String {
    let said = |names: &[&str], what: &str| {
        let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        match names.len() {
            0 => None,
            1 => Some(format!("{} {what}", quoted.join(""))),
            count => Some(format!("{count} others {what}: {}", first_names(&quoted))),
        }
    };
    let was = if unknown.len() == 1 { "was" } else { "were" };
    let parts = [said(similar, "cannot be told apart from it"), said(unknown, &format!("{was} not compared with it"))];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Returns a ratio with two decimal places, or with three digits if that would hide it.
fn ratio(value: f64) -> String {
    if (0.1..1000.0).contains(&value) { format!("{value:.2}") } else { significant(value, None) }
}

/// Returns the ends of an interval of ratios.
fn ends((low, high): (f64, f64)) -> String {
    format!("{} to {}", ratio(low), ratio(high))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a candidate with these values in rounds 0, 1, 2 and so on.
    fn candidate(variant: &str, values: &[f64]) -> Candidate {
        let median = Samples::new(values).expect("values").median();
        let values: BTreeMap<u32, f64> = (0..).zip(values.iter().copied()).collect();
        Candidate { variant: variant.to_owned(), lock: None, median, interval: None, planned: 5, values }
    }

    fn measured(unit: &str, better: BetterDirection, candidates: &[(&str, &[f64])]) -> Measured {
        Measured {
            place: "w on t at one".to_owned(),
            metric: "elapsed".to_owned(),
            unit: unit.to_owned(),
            better,
            candidates: candidates.iter().map(|(name, values)| candidate(name, values)).collect(),
            left_out: Vec::new(),
        }
    }

    fn ranked(unit: &str, better: BetterDirection, candidates: &[(&str, &[f64])]) -> Ranking {
        rank(vec![measured(unit, better, candidates)]).remove(0)
    }

    const SLOW: &[f64] = &[13.1, 13.0, 12.9, 13.05, 12.95];
    const FAST: &[f64] = &[10.0, 10.1, 9.9, 10.05, 9.95];
    const LIKE_FAST: &[f64] = &[10.1, 10.0, 10.0, 9.95, 10.1];

    #[test]
    fn the_fastest_is_named_with_its_ratio_to_the_next() {
        let found = ranked("ms", BetterDirection::Lower, &[("old", SLOW), ("new", FAST)]);
        assert!(found.headline().starts_with("`new` is fastest: 1.30 times as fast as `old` (1.2"), "{}", found.headline());
        assert!(found.not_told_apart(0).is_empty());
        let rate = ranked("op/s", BetterDirection::Higher, &[("old", FAST), ("new", SLOW)]);
        assert!(rate.headline().starts_with("`new` is fastest: 1.30 times as fast as `old`"), "{}", rate.headline());
        let size = ranked("MiB", BetterDirection::Lower, &[("old", SLOW), ("new", FAST)]);
        assert!(
            size.headline().starts_with("`new` is best: at 0.77 times the `elapsed` of `old` (0.76 to 0.78)"),
            "{}",
            size.headline()
        );
    }

    #[test]
    fn nothing_is_fastest_that_cannot_be_told_apart() {
        let found = ranked("ms", BetterDirection::Lower, &[("new", FAST), ("newer", LIKE_FAST)]);
        assert_eq!(found.headline(), "`new` has the best median, and no other variant can be told apart from it");
        assert_eq!(found.not_told_apart(0), ["newer"]);
        let three = ranked("ms", BetterDirection::Lower, &[("old", SLOW), ("new", FAST), ("newer", LIKE_FAST)]);
        assert!(!three.headline().contains("fastest"), "{}", three.headline());
        assert!(three.headline().starts_with("`new` is 1.30 times as fast as `old` ("), "{}", three.headline());
        assert!(three.headline().ends_with("; `newer` cannot be told apart from it"), "{}", three.headline());
    }

    #[test]
    fn a_variant_with_few_trials_is_left_out_by_name() {
        let found = ranked("ms", BetterDirection::Lower, &[("old", SLOW), ("new", &[10.0, 10.1])]);
        assert_eq!(found.measured.left_out, [("new".to_owned(), "2 of 5 trials count, and a ranking needs 3".to_owned())]);
        assert_eq!(found.headline(), "Only `old` has enough counted trials, so nothing is ranked");
        let none = ranked("ms", BetterDirection::Lower, &[("new", &[10.0])]);
        assert_eq!(none.headline(), "No variant is ranked: none has enough counted trials");
    }

    #[test]
    fn rounds_are_paired_and_a_drift_of_the_machine_cancels_out() {
        let drift = [1.0, 1.5, 2.0, 3.0, 4.0];
        let scaled = |values: &[f64]| values.iter().zip(drift).map(|(value, factor)| value * factor).collect::<Vec<_>>();
        let found = ranked("ms", BetterDirection::Lower, &[("old", &scaled(SLOW)), ("new", &scaled(FAST))]);
        assert!(found.headline().starts_with("`new` is fastest: 1.30 times"), "{}", found.headline());
    }

    #[test]
    fn values_without_a_ratio_or_a_spread_are_not_compared() {
        let zero = ranked("count", BetterDirection::Lower, &[("a", &[0.0, 0.0, 0.0]), ("b", &[1.0, 1.0, 1.0])]);
        assert_eq!(zero.pairs[0].test, Err("a value is not above zero, so it has no ratio".to_owned()));
        let same = ranked("count", BetterDirection::Lower, &[("a", &[1.0, 1.0, 1.0]), ("b", &[2.0, 2.0, 2.0])]);
        assert!(same.pairs[0].test.as_ref().is_err_and(|why| why.starts_with("the ratio is the same in every round")));
        assert_eq!(same.headline(), "`a` has the best median, and no other variant was compared with it");
        assert_eq!((same.not_told_apart(0), same.not_compared(0)), (vec![], vec!["b"]));
        let both = ranked("op/s", BetterDirection::Higher, &[("old", FAST), ("new", SLOW), ("none", &[0.0; 5])]);
        assert!(both.headline().ends_with("; `none` was not compared with it"), "{}", both.headline());
    }

    #[test]
    fn the_first_one_is_so_among_those_that_are_ranked() {
        let found = ranked("ms", BetterDirection::Lower, &[("old", SLOW), ("new", FAST), ("newest", &[1.0, 1.1])]);
        let headline = found.headline();
        assert!(headline.starts_with("`new` is fastest of the 2 that are ranked, 1 left out: 1.30 times"), "{headline}");
    }

    #[test]
    fn every_pair_of_every_metric_is_one_family() {
        let one = measured("ms", BetterDirection::Lower, &[("old", SLOW), ("new", FAST)]);
        let alone = rank(vec![one.clone()]).remove(0).pairs.remove(0).test.expect("a test");
        let both = rank(vec![one.clone(), one]).remove(0).pairs.remove(0).test.expect("a test");
        assert!((both.adjusted - 2.0 * alone.adjusted).abs() < 1e-12);
        assert!(both.interval.0 < alone.interval.0 && both.interval.1 > alone.interval.1);
    }

    #[test]
    fn the_round_of_a_trial_is_the_number_at_the_end_of_its_id() {
        assert_eq!(round(&"w.t.numpy-2-1.size-t4.t12".parse().expect("a trial id")), Some(12));
    }

    #[test]
    fn small_ratios_keep_their_digits() {
        assert_eq!([ratio(1.3), ratio(0.0123), ratio(12345.0)], ["1.30", "0.0123", "12,300"]);
    }
}
