//! TTFT by the length of the input, and latencies by LoRA adapter: a cell for each load and group of requests.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use assay_metric::{Metric, MetricName, Statistic};

use super::section::{CaseSection, MetricStatistics, PointSection};
use crate::render::number::{Format, grouped};

/// The most adapters that have a column: those with the most requests.
const MAX_ADAPTERS: usize = 8;

/// TTFT of the requests of each load of a case, by groups of requests.
pub(crate) struct Breakdown<'a> {
    /// The title of the table.
    pub(crate) title: &'static str,
    /// The groups, such as `1k to 4k tokens`.
    pub(crate) groups: Vec<&'a str>,
    /// The label of each load, and a cell for each group.
    pub(crate) loads: Vec<(&'a str, Vec<Option<GroupCell>>)>,
}

/// TTFT of the requests of a load in a group.
pub(crate) struct GroupCell {
    pub(crate) p50: String,
    pub(crate) p99: String,
    /// The number of requests, over all counted trials.
    pub(crate) requests: String,
}

/// A latency of the requests that asked for one adapter, over all counted trials together: TTFT, or E2E where responses aren't streamed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AdapterLatency {
    pub(crate) metric: Metric,
    pub(crate) requests: u64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

impl GroupCell {
    /// Returns both values with the number of requests: `5.1 / 6.3, 120 requests`.
    pub(crate) fn describe(&self) -> String {
        let noun = if self.requests == "1" { "request" } else { "requests" };
        format!("{} / {}, {} {noun}", self.p50, self.p99, self.requests)
    }
}

impl<'a> Breakdown<'a> {
    /// Returns the tables of a case.
    pub(crate) fn all_of(case: &'a CaseSection) -> impl Iterator<Item = Self> {
        [Self::by_input_length(case), Self::by_adapter(case)].into_iter().flatten()
    }

    /// Returns the table by the length of the input; `None` if the inputs are of one range at most, which TTFT itself describes.
    fn by_input_length(case: &'a CaseSection) -> Option<Self> {
        let metrics = || Metric::ALL.iter().copied().filter(|metric| range(*metric).is_some());
        let is_measured = |metric: &Metric| names(*metric).is_some_and(|[p50, _]| case.has_measured(p50));
        let measured: Vec<Metric> = metrics().filter(is_measured).collect();
        let load = |point: &'a PointSection| (point.label.as_str(), measured.iter().map(|metric| cell(point, *metric)).collect());
        (measured.len() > 1).then(|| Self {
            title: "TTFT by the length of the input",
            groups: measured.iter().filter_map(|metric| range(*metric)).collect(),
            loads: case.points.iter().map(load).collect(),
        })
    }

    /// Returns the table by adapter; `None` if requests asked for one at most.
    fn by_adapter(case: &'a CaseSection) -> Option<Self> {
        let of_load = |point: &'a PointSection| point.serving.as_ref().map(|load| &load.adapters);
        let mut requests: BTreeMap<&str, u64> = BTreeMap::new();
        for (name, found) in case.points.iter().filter_map(of_load).flatten() {
            *requests.entry(name).or_default() += found.requests;
        }
        let mut groups: Vec<&str> = requests.keys().copied().collect();
        groups.sort_by_key(|name| Reverse(requests.get(name)));
        groups.truncate(MAX_ADAPTERS);
        let cell = |found: &AdapterLatency| GroupCell {
            p50: in_digits(found.p50_ms),
            p99: in_digits(found.p99_ms),
            requests: grouped(found.requests),
        };
        let load = |point: &'a PointSection| {
            let of_name = |name: &&str| of_load(point)?.get(*name).map(cell);
            (point.label.as_str(), groups.iter().map(of_name).collect())
        };
        let loads = case.points.iter().map(load).collect();
        let has_ttft = case.points.iter().filter_map(of_load).flatten().any(|(_, found)| found.metric == Metric::Ttft);
        let title = if has_ttft {
            "TTFT by adapter, over all counted trials together"
        } else {
            "E2E by adapter, over all counted trials together"
        };
        (groups.len() > 1).then_some(Self { title, groups, loads })
    }
}

/// Returns a latency with three significant digits.
fn in_digits(ms: f64) -> String {
    Format::new(ms, None).show(ms)
}

/// Returns the range of input lengths that a metric is about; `None` if it is about no range.
fn range(metric: Metric) -> Option<&'static str> {
    match metric {
        Metric::TtftInput1k => Some("up to 1k tokens"),
        Metric::TtftInput4k => Some("1k to 4k tokens"),
        Metric::TtftInput16k => Some("4k to 16k tokens"),
        Metric::TtftInput64k => Some("16k to 64k tokens"),
        Metric::TtftInputLonger => Some("above 64k tokens"),
        _ => None,
    }
}

fn names(metric: Metric) -> Option<[&'static MetricName; 2]> {
    Some([metric.name(Statistic::P50)?, metric.name(Statistic::P99)?])
}

fn cell(point: &PointSection, metric: Metric) -> Option<GroupCell> {
    let [p50, p99] = names(metric)?.map(|name| point.measured(name.text));
    let requests = |found: &MetricStatistics| grouped(found.trials.iter().map(|trial| trial.samples).sum());
    let (p50, p99) = (p50?, p99?);
    Some(GroupCell { p50: p50.median_text.clone(), p99: p99.median_text.clone(), requests: requests(p50) })
}
