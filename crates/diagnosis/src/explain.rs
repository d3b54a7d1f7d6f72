//! The comparison of both sides, signal by signal, and the rules that follow from it.

use std::collections::{BTreeMap, BTreeSet};

use assay_stats::{Alternative, NoTest, Samples, holm, mann_whitney, robust, welch};

use crate::evidence::{Better, ClusterEvent, Outcome, Pair, Reading, Window};
use crate::finding::{Change, Conclusion, Explanation, Finding, Healthy, NotChecked, Seen, Unsure, Worse};
use crate::quantity::{Absent, facts, is_of_prometheus, value, values_among};
use crate::rule::{ANY, Direction, NONE, Rule, Signal, SourceClass, WhenAbsent};

/// The probability with which one or more rules hold although nothing changed, over all rules and points together, at most.
pub const ALPHA: f64 = 0.01;

/// The fewest attempts on a side that are compared: fewer have hardly a spread.
pub const FEWEST_ATTEMPTS: usize = 3;

/// The smallest change of an outcome that is explained, as a ratio: the default budget of a gate.
const WORSE_RATIO: f64 = 1.05;

/// The p-value, of one test alone, up to which a signal that supports a rule is shown.
const SUPPORT: f64 = 0.05;

/// The robust z score beyond which one object stands out among others: Iglewicz and Hoaglin, "How to detect and handle outliers", 1993.
const STANDS_OUT: f64 = 3.5;

/// The fewest objects among which one may stand out.
const FEWEST_OBJECTS: usize = 4;

/// The outcomes of serving that readers look at first.
const HEADLINES: [&str; 8] = [
    "ttft_ms_p50",
    "ttft_ms_p99",
    "tpot_ms_p50",
    "tpot_ms_p99",
    "e2e_ms_p50",
    "e2e_ms_p99",
    "output_tokens_per_s",
    "request_throughput_per_s",
];

/// The result of one signal at one point.
enum Tested {
    /// It could not be computed.
    Absent(Absent),
    /// Too few attempts, or objects, of a side have a value.
    TooFew(TooFew),
    /// It was compared.
    Compared(Moved),
}

/// The values of sides of which one has too few.
#[derive(Clone, Copy)]
struct TooFew {
    fewest: usize,
    /// The medians, if both sides have any.
    medians: Option<[f64; 2]>,
}

impl Tested {
    /// Takes a signal whose change is too small a part of the outcome's for one that did not move far enough.
    fn if_it_explains_enough(self, signal: &Signal, pair: &Pair) -> Self {
        match self {
            Self::Compared(moved) => {
                let share = signal.explains.as_ref().and_then(|outcome| explained_share(&moved.change, outcome, pair));
                let is_enough = share.is_none_or(|share| share >= signal.least_share);
                Self::Compared(Moved { is_beyond: moved.is_beyond && is_enough, ..moved })
            }
            other => other,
        }
    }
}

/// Returns the part of the change of an outcome that a change of the same unit is, from 0 to 1; `None` if the outcome has not grown.
fn explained_share(change: &Change, outcome: &str, pair: &Pair) -> Option<f64> {
    let compared = compare_outcome(pair, outcome)?;
    let [own, whole] = [change, &compared.worse.change].map(|change| change.candidate - change.baseline);
    (whole > 0.0).then(|| (own / whole).clamp(0.0, 1.0))
}

/// A signal that was compared.
struct Moved {
    change: Change,
    /// True if it moved by as much as its thresholds ask.
    is_beyond: bool,
    object: Option<String>,
}

impl Moved {
    /// Returns the p-value of the signal as a part of a rule: 1 if it did not move far enough.
    fn p(&self) -> f64 {
        if self.is_beyond { self.change.p } else { 1.0 }
    }

    /// Returns the p-value of a signal of a rule. A guard only has to have moved: it makes a rule hold less often, and never more.
    fn p_as(&self, signal: &Signal) -> f64 {
        match self.p() {
            p if !signal.guard => p,
            p if p <= SUPPORT => 0.0,
            _ => 1.0,
        }
    }
}

/// A rule at a point: the p-value of all its parts together, and its signals.
struct Judged<'a> {
    rule: &'static Rule,
    pair: &'a Pair,
    /// The largest p-value of its parts, each alone.
    p: f64,
    /// The largest of its signals.
    of_signals: f64,
    /// The p-value of its outcome, adjusted for all outcomes and points.
    of_outcome: f64,
    signals: Vec<(&'static Signal, Moved)>,
    /// The outcome that got worse with the least doubt.
    outcome: Option<Worse>,
    adjusted: f64,
}

/// Explains why the candidates are worse than the baselines.
///
/// The pairs are of the same work, point by point. Attempts within a side are taken to be independent of each other.
pub fn explain(rules: &'static [Rule], pairs: &[Pair]) -> Explanation {
    let (mut judged, mut not_checked, mut moved_nowhere) = (Vec::new(), Vec::new(), BTreeMap::new());
    let outcomes = adjusted_outcomes(rules, pairs);
    for (place, rule) in rules.iter().enumerate() {
        let mut absent = BTreeMap::new();
        let points = pairs.iter().filter(|pair| rule.applies_to(pair)).count();
        for pair in pairs.iter().filter(|pair| rule.applies_to(pair)) {
            match judge(rule, pair, &outcomes, &mut moved_nowhere, place) {
                Ok(found) => judged.push(found),
                Err(why) => *absent.entry(why).or_insert(0_usize) += 1,
            }
        }
        not_checked.extend(absent.into_iter().map(|(Unchecked { why, is_missing }, at)| NotChecked {
            rule: &rule.rule,
            title: &rule.title,
            why: if at == points { why } else { format!("at {at} of {points} points: {why}") },
            needs: is_missing.then_some(rule.needs.as_str()),
        }));
    }
    let adjusted =
        holm(&judged.iter().map(|found| if found.of_outcome <= ALPHA { found.of_signals } else { 1.0 }).collect::<Vec<_>>());
    judged.iter_mut().zip(adjusted).for_each(|(found, adjusted)| found.adjusted = adjusted.max(found.of_outcome));
    let findings = findings(&judged);
    let unsure = unsure(&judged);
    let (worse, perhaps_worse) = worse(pairs, &judged, &outcomes);
    let is_open = !not_checked.is_empty() || !unsure.is_empty();
    let mut points = pairs.iter().filter(|pair| pair.is_of_attempts()).peekable();
    let conclusion = match (findings.is_empty(), worse.is_empty(), is_open) {
        (false, _, _) => Conclusion::Found,
        // At a point without enough attempts, it is not known whether anything got worse.
        (true, true, _) if points.peek().is_none() || !points.all(has_enough) => Conclusion::CannotTell,
        (true, true, _) if !perhaps_worse.is_empty() => Conclusion::CannotTell,
        (true, true, _) => Conclusion::NotWorse,
        (true, false, false) => Conclusion::NothingFound,
        (true, false, true) => Conclusion::CannotTell,
    };
    let healthy = moved_nowhere.into_values().flatten().collect();
    Explanation { conclusion, worse, perhaps_worse, findings, unsure, healthy, not_checked, tests: judged.len() }
}

/// The p-values of outcomes that got worse, adjusted for all outcomes and points, by case, point and metric.
type AdjustedOutcomes<'a> = BTreeMap<(&'a str, &'a str, &'a str), f64>;

/// Adjusts the p-values of all outcomes that are judged, or that a rule names.
fn adjusted_outcomes<'a>(rules: &'static [Rule], pairs: &'a [Pair]) -> AdjustedOutcomes<'a> {
    let named: BTreeSet<&str> = rules.iter().flat_map(|rule| &rule.slower).map(String::as_str).collect();
    let mut outcomes = Vec::new();
    for pair in pairs {
        let names: BTreeSet<&str> = judged_outcomes(pair).into_iter().chain(named.iter().copied()).collect();
        for name in names {
            if let Some(compared) = compare_outcome(pair, name) {
                let p = if compared.is_worse { compared.worse.change.p } else { 1.0 };
                outcomes.push(((pair.case.as_str(), pair.point.as_str(), name), p));
            }
        }
    }
    let adjusted = holm(&outcomes.iter().map(|(_, p)| *p).collect::<Vec<_>>());
    outcomes.into_iter().map(|(outcome, _)| outcome).zip(adjusted).collect()
}

fn has_enough(pair: &Pair) -> bool {
    pair.baseline.len().min(pair.candidate.len()) >= FEWEST_ATTEMPTS
}

/// The signals that have moved nowhere, by rule and place in it; `None` once one has moved, or could not be computed.
type MovedNowhere = BTreeMap<(usize, usize), Option<Healthy>>;

/// The reason why a rule cannot be checked at a point.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Unchecked {
    why: String,
    /// True if nothing of the kind that it needs was read.
    is_missing: bool,
}

/// Judges a rule at a point. Fails with the reason if it cannot be checked there.
fn judge<'a>(
    rule: &'static Rule,
    pair: &'a Pair,
    outcomes: &AdjustedOutcomes<'_>,
    healthy: &mut MovedNowhere,
    number: usize,
) -> Result<Judged<'a>, Unchecked> {
    let mut signals = Vec::new();
    let mut absent = None;
    for (place, signal) in rule.signals.iter().enumerate() {
        let seen = healthy.entry((number, place));
        match test(signal, pair) {
            Tested::Compared(moved) => {
                let found = Healthy { rule: &rule.rule, name: &signal.name, change: moved.change.clone() };
                let has_moved = moved.is_beyond && moved.change.p <= SUPPORT;
                let before = seen.or_insert_with(|| Some(found.clone()));
                *before = before
                    .take()
                    .filter(|_| !has_moved)
                    .map(|before| if found.change.p < before.change.p { found } else { before });
                signals.push((signal, moved));
            }
            Tested::Absent(why) => {
                seen.insert_entry(None);
                absent.get_or_insert(describe_absent(why, signal));
            }
            Tested::TooFew(too_few) => {
                seen.insert_entry(None);
                absent.get_or_insert(Unchecked { why: describe_too_few(too_few, signal, pair), is_missing: false });
            }
        }
    }
    let is_refuted = signals.iter().any(|(_, moved)| !moved.is_beyond);
    if let Some(why) = absent.filter(|_| !is_refuted) {
        return Err(why);
    }
    let outcome = outcome_of(rule, pair);
    let (of_outcome, alone) = match &outcome {
        _ if rule.slower.iter().any(|name| name == NONE) => (0.0, 0.0),
        Some((_, 0.0)) => (0.0, 0.0),
        Some((worse, p)) => (outcomes.get(&(&worse.case, &worse.point, &worse.metric)).copied().unwrap_or(1.0), *p),
        None => (1.0, 1.0),
    };
    let of_signals = signals.iter().map(|(signal, moved)| moved.p_as(signal)).fold(0.0, f64::max);
    let p = alone.max(of_signals);
    Ok(Judged { rule, pair, p, of_signals, of_outcome, signals, outcome: outcome.map(|(worse, _)| worse), adjusted: 1.0 })
}

/// Describes values that are too few to be compared. Those of objects are stated: a wait of one job is a fact, if not one that tells two runs apart.
fn describe_too_few(TooFew { fewest, medians }: TooFew, signal: &Signal, pair: &Pair) -> String {
    if signal.of != SourceClass::ClusterEvent {
        return format!("{fewest} attempts of a side count and have a value, fewer than {FEWEST_ATTEMPTS}");
    }
    let (name, unit) = (&signal.name, &signal.unit);
    let few = format!("{fewest} of a side's objects have the {name}, fewer than {FEWEST_ATTEMPTS}");
    let Some([before, now]) = medians else { return few };
    let message = message(signal, pair).map(|message| format!(" ({message})")).unwrap_or_default();
    format!("{few}: {before:.1} and {now:.1} {unit}{message}")
}

/// Returns the cluster's message about the candidate's object whose value is farthest in the signal's direction, after the object's name.
fn message(signal: &Signal, pair: &Pair) -> Option<String> {
    let toward = |window: &Window| {
        let value = value(signal, window).ok()?;
        Some(if signal.moved == Direction::Up { value } else { -value })
    };
    let said = |window| facts(signal, window).find_map(|event: &ClusterEvent| Some((event, event.message.as_ref()?)));
    let known = pair.candidate.iter().filter_map(|window| Some((toward(window)?, said(window)?)));
    // Of objects with equal values the one with the first name, so that the same rows have the same text.
    let farthest = known
        .min_by(|(one, (first, _)), (other, (second, _))| other.total_cmp(one).then_with(|| first.object.cmp(&second.object)));
    farthest.map(|(_, (event, message))| format!("{} {}: {message}", event.object_kind, event.object))
}

fn describe_absent(absent: Absent, signal: &Signal) -> Unchecked {
    let name = &signal.name;
    let why = match (absent, signal.of) {
        (Absent::NoReading, SourceClass::Host) => {
            "no reading of the machine lies in these attempts: let each last for some seconds".to_owned()
        }
        (Absent::NoReading, SourceClass::Endpoint) => {
            "no reading of the endpoint's counters lies in these attempts: it exposes none, or they are too short".to_owned()
        }
        (Absent::NoReading, SourceClass::ClusterEvent) => {
            "the runs have no facts of a cluster about such objects: they ran elsewhere, or the cluster kept none".to_owned()
        }
        (Absent::NoReading, _) => "no exporter was read during these attempts".to_owned(),
        (Absent::NoMetric, SourceClass::ClusterEvent) => format!("no fact of a side's objects states the {name}"),
        (Absent::NoMetric, SourceClass::Outcome) => format!("the run does not measure the {name}"),
        (Absent::NoMetric, _) => format!("no source has the {name}"),
        (Absent::TooFewObjects, _) => {
            format!("fewer than {FEWEST_OBJECTS} objects have the {name}, and none could stand out among them")
        }
        (Absent::TooCoarse, _) => {
            format!("the readings of the {name} are too far apart for these attempts: let each last longer")
        }
        (Absent::NothingCounted, _) => format!("nothing was counted that the {name} could be of"),
        (Absent::BelowZero, _) => format!(
            "the {name} would be below zero in most attempts: the readings are of other requests than the run's own, or of another time"
        ),
    };
    let is_missing = match absent {
        Absent::NoReading => signal.of != SourceClass::Host,
        Absent::NoMetric => true,
        Absent::TooFewObjects | Absent::TooCoarse | Absent::NothingCounted | Absent::BelowZero => false,
    };
    Unchecked { why, is_missing }
}

/// Compares a signal's quantity on both sides, or one object's with the others'.
fn test(signal: &Signal, pair: &Pair) -> Tested {
    if let Some(labels) = &signal.among {
        return test_among(signal, labels, pair);
    }
    let both = |of: &dyn Fn(&Window) -> Result<f64, Absent>| {
        [&pair.baseline, &pair.candidate].map(|side| match side.as_slice() {
            [] if signal.of == SourceClass::ClusterEvent => Err(Absent::NoReading),
            side => values(side, of),
        })
    };
    let measured = both(&|window| value(signal, window)).map(|side| if_not_below_zero(signal, side));
    // Where neither side has the metric, its absence is no value, but a source that is missing.
    let is_final = signal.when_absent.is_none() || measured.iter().all(Result::is_err);
    let sides = if is_final { measured } else { both(&|window| value_or_absence(signal, window)) };
    match sides {
        [Ok(baseline), Ok(candidate)] => compare(signal, &baseline, &candidate).if_it_explains_enough(signal, pair),
        [Err(why), _] | [_, Err(why)] => Tested::Absent(why),
    }
}

/// Returns the value of a signal in an attempt, or the value that its absence means.
fn value_or_absence(signal: &Signal, window: &Window) -> Result<f64, Absent> {
    value(signal, window).or_else(|why| {
        let is_beside = |absent: &&WhenAbsent| {
            window.readings.iter().any(|reading| reading.series.name == absent.beside && signal.of.matches(reading))
        };
        let meant = signal.when_absent.as_ref().filter(is_beside).map(|absent| absent.value);
        meant.filter(|_| matches!(why, Absent::NoMetric | Absent::NothingCounted)).ok_or(why)
    })
}

/// Refuses the values of a difference that cannot be negative, if their median is, by more than the amount that matters. One alone may be: the minuend and
/// the subtrahend are of requests that are not all the same, and leaving the smallest out would move the median.
fn if_not_below_zero(signal: &Signal, side: Result<Vec<f64>, Absent>) -> Result<Vec<f64>, Absent> {
    let is_difference = signal.is.iter().any(|formula| formula.less_from.is_some());
    let is_below = |values: &[f64]| Samples::new(values).is_ok_and(|values| values.median() < -signal.amount);
    side.and_then(|values| if is_difference && is_below(&values) { Err(Absent::BelowZero) } else { Ok(values) })
}

/// Returns the values of a side's attempts that have one; the reason if none has.
fn values(windows: &[Window], of: impl Fn(&Window) -> Result<f64, Absent>) -> Result<Vec<f64>, Absent> {
    let (mut values, mut absent) = (Vec::new(), None);
    for window in windows {
        match of(window) {
            Ok(value) => values.push(value),
            Err(why) => absent = absent.max(Some(why)),
        }
    }
    match absent {
        Some(why) if values.is_empty() => Err(why),
        _ => Ok(values),
    }
}

fn compare(signal: &Signal, baseline: &[f64], candidate: &[f64]) -> Tested {
    let fewest = baseline.len().min(candidate.len());
    let (Ok(before), Ok(now)) = (Samples::new(baseline), Samples::new(candidate)) else {
        return Tested::TooFew(TooFew { fewest, medians: None });
    };
    if fewest < FEWEST_ATTEMPTS {
        return Tested::TooFew(TooFew { fewest, medians: Some([before.median(), now.median()]) });
    }
    let alternative = match signal.moved {
        Direction::Up => Alternative::Greater,
        Direction::Down => Alternative::Less,
    };
    let [baseline, candidate] = [before.median(), now.median()];
    let attempts = [before.len(), now.len()];
    let change =
        Change { baseline, candidate, unit: signal.unit.clone(), attempts, p: p_of(&now, &before, alternative, signal.amount) };
    Tested::Compared(Moved { is_beyond: is_beyond(signal, baseline, candidate), change, object: None })
}

/// Returns the p-value of a difference by Welch's test of the logarithms: what makes a quantity larger usually multiplies it, and its spread with it. The
/// amount that matters is added first, so that a quantity near zero has no endless logarithm. Of values that have none anyway, it is that of the values
/// themselves. If neither side varies, it is the largest probability of that, over all distributions that both
/// sides could share: of `n` equal values and `m` others, which is `q^n (1 - q)^m` at `q = n / (n + m)`.
fn p_of(first: &Samples, second: &Samples, alternative: Alternative, amount: f64) -> f64 {
    let logs = |side: &Samples| {
        let started: Vec<f64> = side.observed().iter().map(|value| value + amount).collect();
        Samples::new(&started).and_then(|started| started.logs())
    };
    let tested = match (logs(first), logs(second)) {
        (Ok(first), Ok(second)) => welch(&first, &second, alternative),
        _ => welch(first, second, alternative),
    };
    match tested {
        Ok(tested) => tested.p,
        Err(NoTest::NoSpread) if is_ordered(first, second, alternative) => {
            let both = (first.len() + second.len()) as f64;
            [first, second].iter().map(|side| power(side.len() as f64 / both, side.len())).product()
        }
        Err(_) => 1.0,
    }
}

/// Returns a whole power by multiplication, which is the same on every machine.
fn power(base: f64, exponent: usize) -> f64 {
    std::iter::repeat_n(base, exponent).product()
}

fn is_ordered(first: &Samples, second: &Samples, alternative: Alternative) -> bool {
    match alternative {
        Alternative::Greater => first.median() > second.median(),
        Alternative::Less => first.median() < second.median(),
        Alternative::TwoSided => false,
    }
}

/// Returns true if a quantity moved by as much as the signal asks, in its direction.
fn is_beyond(signal: &Signal, baseline: f64, candidate: f64) -> bool {
    let (small, large) = match signal.moved {
        Direction::Up => (baseline, candidate),
        Direction::Down => (candidate, baseline),
    };
    // Of a quantity that was zero or less, only the amount is asked.
    let by_ratio = small <= 0.0 || large >= small * signal.ratio;
    large > small && large - small >= signal.amount && by_ratio && signal.below.is_none_or(|level| candidate < level)
}

/// Looks for one object that stands out among the others in every attempt of the candidate, did not in any of the baseline, and has moved by as much as the
/// signal demands.
///
/// If no object differed from the others, the same one would stand out most in `k` attempts with probability `n^(1 - k)`, of `n` objects; and if none had
/// changed, one of them would have moved so far from its own values on the other side with at most `n` times the probability of one. The smaller of both is
/// taken, twice: they are two tests of the same.
fn test_among(signal: &Signal, labels: &[String], pair: &Pair) -> Tested {
    let of_windows = |windows: &[Window]| -> Result<Vec<BTreeMap<String, f64>>, Absent> {
        let found: Vec<_> = windows.iter().map(|window| values_among(signal, labels, window)).collect();
        let absent = found.iter().filter_map(|values| values.as_ref().err().copied()).max();
        let values: Vec<_> = found.into_iter().flatten().filter(|values| values.len() >= FEWEST_OBJECTS).collect();
        if values.is_empty() { Err(absent.unwrap_or(Absent::TooFewObjects)) } else { Ok(values) }
    };
    let (baseline, windows) = match (of_windows(&pair.baseline), of_windows(&pair.candidate)) {
        (Ok(baseline), Ok(windows)) => (baseline, windows),
        // Where the other side was not recorded, it is not known whether the object stood out there, too.
        (Err(why), _) | (_, Err(why)) => return Tested::Absent(why),
    };
    let fewest = baseline.len().min(windows.len());
    if fewest < FEWEST_ATTEMPTS {
        return Tested::TooFew(TooFew { fewest, medians: None });
    }
    let before: BTreeSet<&str> = baseline.iter().filter_map(|values| stands_out(signal, values)).map(|(name, ..)| name).collect();
    let found: Vec<_> = windows.iter().map(|values| stands_out(signal, values)).collect();
    let objects = windows.iter().map(BTreeMap::len).min().unwrap_or_default();
    let attempts = [windows.len(); 2];
    let unit = signal.unit.clone();
    let of_all = |windows: &[BTreeMap<String, f64>]| {
        let all: Vec<f64> = windows.iter().flat_map(BTreeMap::values).copied().collect();
        Samples::new(&all).map_or(0.0, |all| all.median())
    };
    let nothing = || {
        let [baseline, candidate] = [of_all(&baseline), of_all(&windows)];
        Tested::Compared(Moved {
            change: Change { baseline, candidate, unit: unit.clone(), attempts, p: 1.0 },
            is_beyond: false,
            object: None,
        })
    };
    let Some(Some((name, ..))) = found.first() else { return nothing() };
    let same = found.iter().flatten().filter(|(other, ..)| other == name);
    let changes: Vec<(f64, f64)> = same.map(|(_, others, own)| (*others, *own)).collect();
    if changes.len() < windows.len() || before.contains(name) {
        return nothing();
    }
    let median = |of: fn(&(f64, f64)) -> f64| {
        Samples::new(&changes.iter().map(of).collect::<Vec<_>>()).map_or(0.0, |samples| samples.median())
    };
    let [others, own] = [median(|change| change.0), median(|change| change.1)];
    let by_place = power(1.0 / objects as f64, windows.len().saturating_sub(1));
    let of_object = |windows: &[BTreeMap<String, f64>]| -> Vec<f64> {
        windows.iter().filter_map(|values| values.get(*name)).copied().collect()
    };
    // An object that the other side does not have, such as the GPU of another node, has not moved from anything.
    let (by_change, is_as_before) = match compare(signal, &of_object(&baseline), &of_object(&windows)) {
        Tested::Compared(moved) => (moved.p() * objects as f64, !moved.is_beyond),
        Tested::Absent(_) | Tested::TooFew(_) => (1.0, false),
    };
    let p = (2.0 * by_place.min(by_change)).min(1.0);
    Tested::Compared(Moved {
        is_beyond: !is_as_before,
        change: Change { baseline: others, candidate: own, unit: signal.unit.clone(), attempts, p },
        object: Some((*name).to_owned()),
    })
}

/// Returns the object that is farthest from the others in the signal's direction, if it stands out, with the median of all and its own value.
///
/// It has to be as far from the others as the signal demands, too: among few objects that hardly differ, the scale is next to nothing, and one of them would
/// stand out by a thousandth.
fn stands_out<'a>(signal: &Signal, values: &'a BTreeMap<String, f64>) -> Option<(&'a str, f64, f64)> {
    let all = Samples::new(&values.values().copied().collect::<Vec<_>>()).ok()?;
    let (median, scale) = (all.median(), robust::mad(&all));
    let distance = |value: f64| match signal.moved {
        Direction::Up => value - median,
        Direction::Down => median - value,
    };
    let (name, own) = values.iter().max_by(|one, other| distance(*one.1).total_cmp(&distance(*other.1)))?;
    let is_far = distance(*own) >= STANDS_OUT * scale && is_beyond(signal, median, *own);
    is_far.then_some((name.as_str(), median, *own))
}

/// Returns the outcome of a rule that got worse with the least doubt, and its p-value for all outcomes that the rule names.
fn outcome_of(rule: &Rule, pair: &Pair) -> Option<(Worse, f64)> {
    let names: Vec<&str> = if rule.slower.iter().any(|name| name == ANY) {
        judged_outcomes(pair)
    } else {
        rule.slower.iter().map(String::as_str).collect()
    };
    let compared: Vec<_> = names.into_iter().filter_map(|name| compare_outcome(pair, name)).collect();
    // What a gate has decided is not asked again.
    if let Some(known) = compared.iter().find(|compared| compared.is_known) {
        return Some((known.worse.clone(), 0.0));
    }
    let tests = compared.len() as f64;
    let worst = compared.into_iter().filter(|compared| compared.is_worse).map(|compared| compared.worse);
    let worst = worst.min_by(|one, other| one.change.p.total_cmp(&other.change.p))?;
    let p = (worst.change.p * tests).min(1.0);
    Some((worst, p))
}

/// Returns the outcomes that readers look at first, and those that gates judge.
fn judged_outcomes(pair: &Pair) -> Vec<&str> {
    let all: BTreeSet<&str> = pair.candidate.iter().flat_map(|window| &window.outcomes).filter_map(judged_name).collect();
    let known = pair.known_worse.iter().map(String::as_str);
    all.into_iter().chain(known).collect::<BTreeSet<_>>().into_iter().collect()
}

fn judged_name<'a>((name, outcome): (&'a String, &Outcome)) -> Option<&'a str> {
    let is_judged = outcome.primary || HEADLINES.contains(&name.as_str());
    (is_judged && outcome.better.is_some()).then_some(name.as_str())
}

/// An outcome that was compared on both sides, in its worse direction.
struct ComparedOutcome {
    worse: Worse,
    /// True if it is worse by as much as is explained.
    is_worse: bool,
    /// True if a gate found it to be worse.
    is_known: bool,
    /// The smaller p-value of its means and of its ranks.
    smallest_p: f64,
}

fn compare_outcome(pair: &Pair, name: &str) -> Option<ComparedOutcome> {
    let of = |windows: &[Window]| -> Vec<f64> {
        windows.iter().filter_map(|window| window.outcomes.get(name)).map(|found| found.value).collect()
    };
    let first = pair.candidate.iter().find_map(|window| window.outcomes.get(name))?;
    let (baseline, candidate) = (of(&pair.baseline), of(&pair.candidate));
    if baseline.len().min(candidate.len()) < FEWEST_ATTEMPTS {
        return None;
    }
    let (before, now) = (Samples::new(&baseline).ok()?, Samples::new(&candidate).ok()?);
    let (alternative, small, large) = match first.better? {
        Better::Lower => (Alternative::Greater, before.median(), now.median()),
        Better::Higher => (Alternative::Less, now.median(), before.median()),
    };
    let change = Change {
        baseline: before.median(),
        candidate: now.median(),
        unit: first.unit.clone(),
        attempts: [before.len(), now.len()],
        p: p_of(&now, &before, alternative, 0.0),
    };
    let by_ranks = mann_whitney(&now, &before, alternative).map_or(1.0, |tested| tested.p);
    Some(ComparedOutcome {
        is_worse: large > small && large >= small * WORSE_RATIO,
        is_known: pair.known_worse.contains(name),
        smallest_p: change.p.min(by_ranks),
        worse: Worse { case: pair.case.clone(), point: pair.point.clone(), metric: name.to_owned(), change },
    })
}

/// Returns the rules of which all parts moved, and not beyond doubt.
fn unsure(judged: &[Judged<'_>]) -> Vec<Unsure> {
    let found = judged.iter().filter(|found| found.p <= SUPPORT && found.adjusted > ALPHA);
    let unsure = |found: &Judged<'_>| Unsure {
        rule: &found.rule.rule,
        title: &found.rule.title,
        case: found.pair.case.clone(),
        point: found.pair.point.clone(),
        seen: found.signals.iter().map(|(signal, moved)| seen(signal, moved, found.pair, true)).collect(),
        p_adjusted: found.adjusted,
    };
    found.map(unsure).collect()
}

/// Returns the outcomes that got worse: those beyond doubt over all outcomes and points, and those that a finding rests on. Beside them are those that
/// may be worse.
fn worse(pairs: &[Pair], judged: &[Judged<'_>], adjusted: &AdjustedOutcomes<'_>) -> (Vec<Worse>, Vec<Worse>) {
    let compared = pairs.iter().flat_map(|pair| judged_outcomes(pair).into_iter().filter_map(|name| compare_outcome(pair, name)));
    let (mut found, mut perhaps) = (Vec::new(), Vec::new());
    for ComparedOutcome { worse, is_worse, is_known, smallest_p } in compared {
        let p = adjusted.get(&(&worse.case, &worse.point, &worse.metric)).copied().unwrap_or(1.0);
        if p <= ALPHA || is_known {
            found.push(worse);
        } else if is_worse && smallest_p <= SUPPORT {
            perhaps.push(worse);
        }
    }
    for outcome in judged.iter().filter(|found| found.adjusted <= ALPHA).filter_map(|found| found.outcome.as_ref()) {
        let is_same =
            |other: &Worse| (&other.case, &other.point, &other.metric) == (&outcome.case, &outcome.point, &outcome.metric);
        if !found.iter().any(is_same) {
            found.push(outcome.clone());
            perhaps.retain(|other| !is_same(other));
        }
    }
    (found, perhaps)
}

/// Returns the rules that hold, by case: causes before what they lead to, then those that explain most of an outcome, then those with the least doubt.
fn findings(judged: &[Judged<'_>]) -> Vec<Finding> {
    let mut of_case: BTreeMap<(&str, &str), Vec<&Judged<'_>>> = BTreeMap::new();
    for found in judged.iter().filter(|found| found.adjusted <= ALPHA) {
        of_case.entry((&found.rule.rule, &found.pair.case)).or_default().push(found);
    }
    let mut findings: Vec<Finding> = of_case.into_values().filter_map(|found| finding(&found)).collect();
    let steps = steps_from_a_cause(&findings, judged);
    findings.sort_by(|one, other| {
        let share = |finding: &Finding| {
            finding.seen.iter().filter_map(|seen| seen.explains.as_ref()).map(|(_, share)| *share).fold(-1.0, f64::max)
        };
        let step = |finding: &Finding| steps.get(&(finding.rule, finding.case.clone())).copied().unwrap_or_default();
        step(one)
            .cmp(&step(other))
            .then(share(other).total_cmp(&share(one)))
            .then(one.p_adjusted.total_cmp(&other.p_adjusted))
            .then(one.rule.cmp(other.rule))
    });
    findings
}

/// Returns the number of findings of the same case that lead to each one, one by way of the other: 0 for a cause.
fn steps_from_a_cause(findings: &[Finding], judged: &[Judged<'_>]) -> BTreeMap<(&'static str, String), usize> {
    let rule = |name: &str| judged.iter().map(|found| found.rule).find(|rule| rule.rule == name);
    let of_case = |name: &str, case: &str| findings.iter().find(|found| found.rule == name && found.case == case);
    let mut steps: BTreeMap<(&'static str, String), usize> = BTreeMap::new();
    // No rule follows itself, so the longest way has fewer steps than there are findings.
    for _ in findings {
        for finding in findings {
            let follows = rule(finding.rule).into_iter().flat_map(|rule| &rule.follows);
            let mutual = rule(finding.rule).into_iter().flat_map(|rule| &rule.mutual);
            let is_larger = |other: &Finding| other.first_ratio() > finding.first_ratio();
            let before = follows
                .filter(|name| of_case(name, &finding.case).is_some())
                .chain(mutual.filter(|name| of_case(name, &finding.case).is_some_and(is_larger)));
            let longest = before.map(|name| {
                let known = steps.iter().find(|((rule, case), _)| rule == name && *case == finding.case);
                known.map_or(0, |(_, steps)| *steps) + 1
            });
            if let Some(longest) = longest.max() {
                steps.insert((finding.rule, finding.case.clone()), longest);
            }
        }
    }
    steps
}

/// Makes one finding of a rule at all points of a case, with what was seen where the evidence is strongest.
fn finding(found: &[&Judged<'_>]) -> Option<Finding> {
    let strongest = found.iter().min_by(|one, other| one.p.total_cmp(&other.p))?;
    let Judged { rule, pair, .. } = strongest;
    let seen = strongest.signals.iter().map(|(signal, moved)| seen(signal, moved, pair, true));
    let supports = rule.supports.iter().filter_map(|signal| match test(signal, pair) {
        Tested::Compared(moved) if moved.is_beyond && moved.change.p <= SUPPORT => Some(self::seen(signal, &moved, pair, false)),
        _ => None,
    });
    Some(Finding {
        rule: &rule.rule,
        title: &rule.title,
        class: rule.class,
        playbook: rule.playbook,
        case: pair.case.clone(),
        point: pair.point.clone(),
        points: found.iter().map(|found| found.pair.point.clone()).collect(),
        seen: seen.chain(supports).collect(),
        places: places(rule, pair),
        p_adjusted: strongest.adjusted,
        instead: &rule.instead,
        confirm: &rule.confirm,
        experiment: rule.experiment,
    })
}

fn seen(signal: &Signal, moved: &Moved, pair: &Pair, needed: bool) -> Seen {
    let share = |outcome: &String| Some((outcome.clone(), explained_share(&moved.change, outcome, pair)?));
    Seen {
        name: signal.name.clone(),
        moved: signal.moved,
        change: moved.change.clone(),
        object: moved.object.clone(),
        message: message(signal, pair),
        explains: signal.explains.as_ref().and_then(share),
        needed,
    }
}

/// Returns the sources and objects that the signals of a rule were read from.
fn places(rule: &Rule, pair: &Pair) -> Vec<String> {
    if !pair.is_of_attempts() {
        let events = rule.signals.iter().flat_map(|signal| pair.candidate.iter().flat_map(|window| facts(signal, window)));
        let place = |event: &ClusterEvent| {
            let queue = event.queue.as_ref().map(|queue| format!(", queue {queue}")).unwrap_or_default();
            format!("cluster {}{queue}", event.object_kind)
        };
        return events.map(place).collect::<BTreeSet<_>>().into_iter().collect();
    }
    let metrics: BTreeSet<&str> =
        rule.signals.iter().flat_map(|signal| &signal.is).map(|formula| formula.metric.as_str()).collect();
    let readings: Vec<&Reading> = pair.candidate.iter().flat_map(|window| &window.readings).collect();
    let is_direct = |name: &str| readings.iter().any(|reading| reading.series.name == name && !is_of_prometheus(reading));
    let places: BTreeSet<String> = readings
        .iter()
        .filter(|reading| metrics.contains(reading.series.name.as_str()))
        .filter(|reading| !is_of_prometheus(reading) || !is_direct(&reading.series.name))
        .map(|reading| {
            if reading.source.ends_with(&reading.scope) {
                reading.source.clone()
            } else {
                format!("{} {}", reading.source, reading.scope)
            }
        })
        .collect();
    places.into_iter().collect()
}

#[cfg(test)]
mod tests;
