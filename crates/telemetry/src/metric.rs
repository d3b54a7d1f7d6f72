//! The content of a reading: metrics with their names, kinds and units; and the metrics in a text of Prometheus.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::exposition::{Sample, samples};

/// The most series of one response that are read: kube-state-metrics of a large cluster has about as many.
pub(crate) const MAX_SERIES: usize = 100_000;

/// The interpretation of a metric's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MetricKind {
    /// A state at the moment of the reading.
    Gauge,
    /// A count since some beginning, of which only the increase is meaningful.
    Counter,
    /// A counter whose increase per second is a share. It is at most 1: more is the jitter of the times of two readings.
    Share,
}

/// The identity of a metric: its name, and its labels to distinguish several of one name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MetricKey {
    pub(crate) name: String,
    /// `{name="value",...}`, sorted; empty without labels.
    pub(crate) labels: String,
    /// The observed object, if a reading is of several: `scope_id` of the tables.
    pub(crate) object: Option<String>,
}

impl MetricKey {
    /// Returns the metric of the object that its source observes.
    pub(crate) fn new(name: impl Into<String>, labels: String) -> Self {
        Self { name: name.into(), labels, object: None }
    }
}

/// One sample of one metric.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MetricSample {
    pub(crate) key: MetricKey,
    pub(crate) kind: MetricKind,
    pub(crate) value: f64,
    /// The number of series that the value was computed from. Values of different numbers of series have no increase: a counter
    /// that is missing from a sum would be taken for a reset.
    pub(crate) series: usize,
}

/// The metrics in one reading.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Observed {
    /// The metrics that were read.
    pub(crate) samples: Vec<MetricSample>,
    /// The number of series beyond the limit of one response.
    pub(crate) left_out: u64,
    /// The quantities that an object states without a value.
    pub(crate) without_value: BTreeSet<&'static str>,
}

/// The unit of a metric whose unit is not known.
pub(crate) const UNKNOWN_UNIT: &str = "unknown";

/// The name suffixes that have units in Prometheus (Prometheus documentation, "Metric and label naming", base units), and some
/// that serving programs use. `perc` is not among them: vLLM calls a share from 0 to 1 so.
const UNITS: [(&str, &str); 19] = [
    ("seconds", "s"),
    ("milliseconds", "ms"),
    ("microseconds", "us"),
    ("nanoseconds", "ns"),
    ("bytes", "bytes"),
    ("kib", "KiB"),
    ("ratio", "ratio"),
    ("percent", "%"),
    ("tokens", "tokens"),
    ("requests", "requests"),
    ("celsius", "celsius"),
    ("volts", "V"),
    ("amperes", "A"),
    ("watts", "W"),
    ("joules", "J"),
    ("meters", "m"),
    ("grams", "g"),
    ("hertz", "Hz"),
    ("blocks", "blocks"),
];

/// Returns the unit of a metric's rows by the last word of the metric's name, as Prometheus names its metrics; `unknown` if the word is
/// no unit. The values of an indicator that its workload does not declare have their units by the same rule, as gauges.
pub fn unit_by_name(name: &str, kind: MetricKind) -> String {
    let of_word = |name: &str| {
        let word = name.rsplit(['_', ':', '.']).next().unwrap_or(name);
        UNITS.iter().find(|(suffix, _)| *suffix == word).map(|(_, unit)| *unit)
    };
    match kind {
        MetricKind::Gauge => of_word(name).unwrap_or(UNKNOWN_UNIT).to_owned(),
        // A histogram's `_count` counts observations, whatever their unit.
        MetricKind::Share => "ratio".to_owned(),
        MetricKind::Counter if name.ends_with("_count") => "1/s".to_owned(),
        MetricKind::Counter => {
            let (stem, is_total) = name.strip_suffix("_total").map_or((name, false), |stem| (stem, true));
            let found = of_word(stem.strip_suffix("_sum").unwrap_or(stem));
            found.map_or_else(|| if is_total { "1/s" } else { UNKNOWN_UNIT }.to_owned(), |unit| format!("{unit}/s"))
        }
    }
}

/// Parses the metrics in a text of Prometheus whose names are wanted, in its order. Leaves out buckets of histograms, and lines
/// that cannot be read.
pub(crate) fn parse_text(text: &str, is_wanted: impl Fn(&str) -> bool) -> Observed {
    let mut metrics = TextMetrics::new(text);
    samples(text).flatten().filter(|sample| is_wanted(&sample.name)).for_each(|sample| metrics.add(sample));
    metrics.observed
}

/// The metrics of a text of Prometheus, each series one metric.
pub(crate) struct TextMetrics<'a> {
    types: BTreeMap<&'a str, &'a str>,
    pub(crate) observed: Observed,
}

impl<'a> TextMetrics<'a> {
    /// Creates the metrics of a text, of which only the types are read.
    pub(crate) fn new(text: &'a str) -> Self {
        Self { types: types(text), observed: Observed::default() }
    }

    /// Adds a sample of the text. Buckets of histograms are left out.
    pub(crate) fn add(&mut self, sample: Sample<'_>) {
        let Some(kind) = kind(&sample, &self.types) else { return };
        if self.observed.samples.len() == MAX_SERIES {
            self.observed.left_out += 1;
            return;
        }
        let key = MetricKey::new(sample.name, labels(&sample.labels));
        self.observed.samples.push(MetricSample { key, kind, value: sample.value, series: 1 });
    }
}

/// Returns the types of the metrics in a response.
fn types(body: &str) -> BTreeMap<&str, &str> {
    let lines = body.lines().filter_map(|line| line.trim().strip_prefix("# TYPE "));
    let typed = lines.filter_map(|line| line.trim().rsplit_once([' ', '\t']));
    typed.map(|(name, kind)| (name.trim().trim_matches('"'), kind)).collect()
}

/// Returns the kind of a metric by its type, otherwise by its name's suffix; `None` if it is left out.
fn kind(sample: &Sample<'_>, types: &BTreeMap<&str, &str>) -> Option<MetricKind> {
    let name = sample.name.as_ref();
    match types.get(name) {
        Some(&"counter") => return Some(MetricKind::Counter),
        Some(&("gauge" | "info" | "stateset")) => return Some(MetricKind::Gauge),
        _ => {}
    }
    // Without the label, it is another metric with the same suffix.
    if name.ends_with("_bucket") && sample.labels.iter().any(|(label, _)| label == "le") {
        return None;
    }
    let counts = ["_total", "_sum", "_count"].iter().any(|suffix| name.ends_with(suffix));
    Some(if counts { MetricKind::Counter } else { MetricKind::Gauge })
}

/// Returns labels as they appear in the name of a metric: sorted, and escaped as in the text that they came from.
pub(crate) fn labels(labels: &[(impl AsRef<str>, impl AsRef<str>)]) -> String {
    let escaped = |text: &str| text.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n");
    let mut all: Vec<_> =
        labels.iter().map(|(label, value)| format!("{}=\"{}\"", label.as_ref(), escaped(value.as_ref()))).collect();
    all.sort_unstable();
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_the_last_words_of_names() {
        for (name, kind, expected) in [
            ("vllm:time_seconds", MetricKind::Gauge, "s"),
            ("process_resident_memory_bytes", MetricKind::Gauge, "bytes"),
            ("vllm:gpu_cache_usage_perc", MetricKind::Gauge, "unknown"),
            ("process_cpu_seconds_total", MetricKind::Counter, "s/s"),
            ("vllm:prompt_tokens_total", MetricKind::Counter, "tokens/s"),
            ("vllm:request_success_total", MetricKind::Counter, "1/s"),
            ("vllm:request_prompt_tokens_sum", MetricKind::Counter, "tokens/s"),
            ("vllm:request_prompt_tokens_count", MetricKind::Counter, "1/s"),
            ("tgi_request_success", MetricKind::Counter, "unknown"),
            ("cache.l2.bytes", MetricKind::Gauge, "bytes"),
        ] {
            assert_eq!(unit_by_name(name, kind), expected, "{name}");
        }
    }

    #[test]
    fn series_beyond_the_limit_of_a_response_are_counted() {
        let lines: Vec<_> = (0..MAX_SERIES + 3).map(|index| format!("m{index} 1\n")).collect();
        let observed = parse_text(&lines.concat(), |_| true);
        assert_eq!((observed.samples.len(), observed.left_out), (MAX_SERIES, 3));
    }
}
