//! The result of a diagnosis.

use serde::Serialize;

use crate::experiment::Experiment;
use crate::rule::{Class, Direction, Playbook};

/// The result of a diagnosis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The conclusion.
    pub conclusion: Conclusion,
    /// The outcomes that got worse, in the order of their points.
    pub worse: Vec<Worse>,
    /// The outcomes that may be worse: by 5 % or more, and not beyond doubt over all outcomes and points.
    pub perhaps_worse: Vec<Worse>,
    /// The rules that hold, those with most evidence first.
    pub findings: Vec<Finding>,
    /// The rules of which all parts moved, and not beyond doubt over all rules and points.
    pub unsure: Vec<Unsure>,
    /// Signals that were there and have not moved.
    pub healthy: Vec<Healthy>,
    /// Rules that could not be checked.
    pub not_checked: Vec<NotChecked>,
    /// The number of tests that p-values are adjusted for.
    pub tests: usize,
}

/// The conclusion of a diagnosis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// Every point was compared, no outcome got worse, and no rule holds.
    NotWorse,
    /// A rule holds.
    Found,
    /// An outcome got worse, every rule was checked, and none holds.
    NothingFound,
    /// No rule holds, and some could not be checked or may hold; or outcomes may be worse; or points could not be compared.
    CannotTell,
}

/// An outcome that got worse at a point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Worse {
    /// The case.
    pub case: String,
    /// The point.
    pub point: String,
    /// The metric.
    pub metric: String,
    /// Its change.
    pub change: Change,
}

/// A quantity on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The median of the baseline's attempts.
    pub baseline: f64,
    /// The median of the candidate's attempts.
    pub candidate: f64,
    /// The unit.
    pub unit: String,
    /// The number of attempts on each side, baseline first.
    pub attempts: [usize; 2],
    /// The p-value of the change in its direction, of this test alone.
    pub p: f64,
}

/// A signal that moved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Seen {
    /// The quantity in words.
    pub name: String,
    /// The direction.
    pub moved: Direction,
    /// Its change; of one object among several, from the median of the others to its own.
    pub change: Change,
    /// The object among several, such as `node-7 3`; or where the change is largest, if several were observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// Of facts of a cluster, the message about the candidate's object whose value moved farthest, after the object's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The share of an outcome's change that its own change amounts to, with the outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explains: Option<(String, f64)>,
    /// True if the rule needs it.
    pub needed: bool,
}

/// A rule that holds at a point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The rule.
    pub rule: &'static str,
    /// The matter, as a sentence.
    pub title: &'static str,
    /// The kind of bottleneck.
    pub class: Class,
    /// The investigation.
    pub playbook: Playbook,
    /// The case.
    pub case: String,
    /// The point at which the evidence is strongest.
    pub point: String,
    /// All points at which it holds.
    pub points: Vec<String>,
    /// The signals that moved at that point.
    pub seen: Vec<Seen>,
    /// The sources and objects that they were read from.
    pub places: Vec<String>,
    /// The p-value at that point, adjusted for all rules and points.
    pub p_adjusted: f64,
    /// Other causes that look like this.
    pub instead: &'static str,
    /// The experiment that would confirm it.
    pub confirm: &'static str,
    /// The same as a change of the workload, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experiment: Option<Experiment>,
}

impl Finding {
    /// Returns the change of its first signal at that point, as the larger value over the smaller one; infinite from zero or less.
    pub(crate) fn first_ratio(&self) -> f64 {
        let ratio = |change: &Change| {
            let (small, large) = (change.baseline.min(change.candidate), change.baseline.max(change.candidate));
            if small > 0.0 { large / small } else { f64::INFINITY }
        };
        self.seen.first().map_or(1.0, |seen| ratio(&seen.change))
    }
}

/// A rule of which all parts moved at a point, and which may hold by chance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unsure {
    /// The rule.
    pub rule: &'static str,
    /// The matter, as a sentence.
    pub title: &'static str,
    /// The case.
    pub case: String,
    /// The point.
    pub point: String,
    /// The signals that moved.
    pub seen: Vec<Seen>,
    /// The p-value, adjusted for all rules and points.
    pub p_adjusted: f64,
}

/// A signal that was there at every point and has moved at none.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Healthy {
    /// The rule.
    pub rule: &'static str,
    /// The quantity in words.
    pub name: &'static str,
    /// Its change at the point where it is largest.
    pub change: Change,
}

/// A rule that could not be checked at some point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NotChecked {
    /// The rule.
    pub rule: &'static str,
    /// The matter that it looks for.
    pub title: &'static str,
    /// The reason.
    pub why: String,
    /// The recordings that it needs, if nothing of that kind was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs: Option<&'static str>,
}
