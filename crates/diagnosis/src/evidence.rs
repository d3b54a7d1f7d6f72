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

/// One attempt that counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Window {
    /// Its metrics by name, such as `ttft_ms_p50`.
    pub outcomes: BTreeMap<String, Outcome>,
    /// The readings of the telemetry sources meanwhile.
    pub readings: Vec<Reading>,
}

/// The attempts of both sides at one point of the same work.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The case of the candidate.
    pub case: String,
    /// The point.
    pub point: String,
    /// The attempts that are compared against.
    pub baseline: Vec<Window>,
    /// The attempts that are explained.
    pub candidate: Vec<Window>,
    /// True if the work is requests to an endpoint, so that the endpoint's counters are of it.
    pub has_endpoint: bool,
    /// The outcomes that a gate found to be worse, by a comparison of pairs that finds smaller changes; none without a gate.
    pub known_worse: BTreeSet<String>,
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
