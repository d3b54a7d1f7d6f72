//! The facts of each attempt that counts: its outcomes, and the readings of the telemetry sources meanwhile.

use std::collections::{BTreeMap, BTreeSet};

/// The direction in which an outcome is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// The value of one metric of one attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The value, in `unit`.
    pub value: f64,
    /// The unit.
    pub unit: String,
    /// The direction in which it is better; `None` for a metric that is neither.
    pub better: Option<Better>,
    /// True if gates judge the metric.
    pub primary: bool,
}

/// The name of a telemetry metric with its labels, as rows of telemetry write it: `name{label="value",...}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Series {
    /// The name.
    pub name: String,
    /// The labels, sorted by name.
    pub labels: Vec<(String, String)>,
}

impl Series {
    /// Reads the name and the labels of a metric. A text that has no labels in this form is a name.
    pub fn parse(text: &str) -> Self {
        let whole = || Self { name: text.to_owned(), labels: Vec::new() };
        let Some((name, rest)) = text.split_once('{') else { return whole() };
        let Some(mut rest) = rest.strip_suffix('}') else { return whole() };
        let mut labels = Vec::new();
        while !rest.is_empty() {
            let Some((label, after)) = rest.split_once("=\"") else { return whole() };
            let Some((value, after)) = quoted(after) else { return whole() };
            labels.push((label.to_owned(), value));
            rest = after.strip_prefix(',').unwrap_or(after);
        }
        labels.sort_unstable();
        Self { name: name.to_owned(), labels }
    }

    /// Returns the value of a label; empty if there is none, as in Prometheus.
    pub(crate) fn label(&self, name: &str) -> &str {
        self.labels.iter().find(|(label, _)| label == name).map_or("", |(_, value)| value)
    }
}

/// Splits a text behind its opening quote into the text up to the closing one, and the rest.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut value, mut characters) = (String::new(), text.char_indices());
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, text.get(at + 1..).unwrap_or_default())),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

/// The statistics of one telemetry metric over one attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The source: `host`, `endpoint/TARGET`, `exporter/NAME` or `prometheus/NAME`.
    pub source: String,
    /// The kind of the observed object, such as `host`, `gpu` or `endpoint`.
    pub scope_kind: String,
    /// The observed object: a node, a target, an exporter.
    pub scope: String,
    /// The metric.
    pub series: Series,
    /// The number of samples.
    pub samples: u64,
    /// The share of the attempt without samples, from 0 to 1.
    pub gap: f64,
    /// The mean.
    pub mean: f64,
    /// The largest value.
    pub max: f64,
}

/// A fact that a cluster or its scheduler reported about an object of a run: an event, or the last transition of a condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterEvent {
    /// The kind of the object: `Pod`, `Job`, `Workload`, `Node` or `SlurmJob`.
    pub object_kind: String,
    /// The name of the object, else its UID.
    pub object: String,
    /// The stage that the object runs, if it is a pod of one.
    pub stage: Option<String>,
    /// The queue of a Workload, or the partition of a Slurm job.
    pub queue: Option<String>,
    /// The type: of an event `Normal` or `Warning`, of a condition its own, such as `Admitted`.
    pub event_type: Option<String>,
    /// The status of a condition: `True`, `False` or `Unknown`.
    pub status: Option<String>,
    /// The reason in one word, such as `FailedScheduling`.
    pub reason: Option<String>,
    /// The number of times that an event happened.
    pub count: Option<u64>,
    /// The time from the creation of the object until the last time, in nanoseconds.
    pub after_creation_ns: Option<u64>,
    /// The message of the last time.
    pub message: Option<String>,
}

/// One attempt that counts, or one object of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Window {
    /// The metrics of an attempt by name, such as `ttft_ms_p50`.
    pub outcomes: BTreeMap<String, Outcome>,
    /// The readings of the telemetry sources during an attempt.
    pub readings: Vec<Reading>,
    /// The facts about an object of a cluster.
    pub events: Vec<ClusterEvent>,
}

/// The units of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Attempts at requests to an endpoint, so that the endpoint's counters are of them.
    Requests,
    /// Attempts at a command.
    Command,
    /// The objects of a cluster that two whole runs were made of. They belong to no case and no point.
    ClusterObjects,
}

/// The attempts of both sides at one point of the same work, or the objects of two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The case of the candidate.
    pub case: String,
    /// The point.
    pub point: String,
    /// The attempts, or objects, that are compared against.
    pub baseline: Vec<Window>,
    /// Those that are explained.
    pub candidate: Vec<Window>,
    /// The units of both sides.
    pub subject: Subject,
    /// The outcomes that a gate found to be worse, by a comparison of pairs that finds smaller changes; none without a gate.
    pub known_worse: BTreeSet<String>,
}

impl Pair {
    /// Pairs the objects of two runs, each with its facts. Objects are counted once each, however many attempts they ran: attempts that waited
    /// together are one wait.
    pub fn of_cluster_objects(baseline: Vec<Window>, candidate: Vec<Window>) -> Self {
        let (case, point) = ("all cases".to_owned(), "all points".to_owned());
        Self { case, point, baseline, candidate, subject: Subject::ClusterObjects, known_worse: BTreeSet::new() }
    }

    /// Returns true if the units are attempts.
    pub(crate) fn is_of_attempts(&self) -> bool {
        self.subject != Subject::ClusterObjects
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_and_labels_are_read_as_they_were_written() {
        let series = Series::parse(r#"up{b="x,\"y\"",a="\\n{"}"#);
        assert_eq!(series.name, "up");
        assert_eq!(series.labels, [("a".to_owned(), r"\n{".to_owned()), ("b".to_owned(), "x,\"y\"".to_owned())]);
        assert_eq!((series.label("b"), series.label("c")), ("x,\"y\"", ""));
        for text in ["cpu_idle_us", "a{", "a{b}", "a{b=\"}", "a{b=\"c\"", ""] {
            assert_eq!(Series::parse(text), Series { name: text.to_owned(), labels: Vec::new() }, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_series(text in ".{0,80}") {
            Series::parse(&text);
        }
    }
}
