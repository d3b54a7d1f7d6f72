//! TTFT by the length of the input: a cell for each load and range of lengths.

use assay_metric::{Metric, MetricName, Statistic};

use super::section::{CaseSection, MetricStatistics, PointSection};
use crate::render::number::grouped;

/// The title of the table.
pub(crate) const TITLE: &str = "TTFT by the length of the input";

/// The ranges of lengths that some load of a case has, and the values of each load there.
pub(crate) struct InputLengths<'a> {
    /// The ranges, such as `1k to 4k tokens`.
    pub(crate) ranges: Vec<&'static str>,
    /// The label of each load, and a cell for each range.
    pub(crate) loads: Vec<(&'a str, Vec<Option<LengthCell>>)>,
}

/// TTFT of the requests of a load in a range.
pub(crate) struct LengthCell {
    pub(crate) p50: String,
    pub(crate) p99: String,
    /// The number of requests, over all counted trials.
    pub(crate) requests: String,
}

impl LengthCell {
    /// Returns both values with the number of requests: `5.1 / 6.3, 120 requests`.
    pub(crate) fn describe(&self) -> String {
        let noun = if self.requests == "1" { "request" } else { "requests" };
        format!("{} / {}, {} {noun}", self.p50, self.p99, self.requests)
    }
}

impl<'a> InputLengths<'a> {
    /// Returns the table of a case; `None` if its inputs are of one range at most, which TTFT itself describes.
    pub(crate) fn of_case(case: &'a CaseSection) -> Option<Self> {
        let metrics = || Metric::ALL.iter().copied().filter(|metric| range(*metric).is_some());
        let is_measured = |metric: &Metric| names(*metric).is_some_and(|[p50, _]| case.has_measured(p50));
        let measured: Vec<Metric> = metrics().filter(is_measured).collect();
        let load = |point: &'a PointSection| (point.label.as_str(), measured.iter().map(|metric| cell(point, *metric)).collect());
        (measured.len() > 1).then(|| Self {
            ranges: measured.iter().filter_map(|metric| range(*metric)).collect(),
            loads: case.points.iter().map(load).collect(),
        })
    }
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

fn cell(point: &PointSection, metric: Metric) -> Option<LengthCell> {
    let [p50, p99] = names(metric)?.map(|name| point.measured(name.text));
    let requests = |found: &MetricStatistics| grouped(found.trials.iter().map(|trial| trial.samples).sum());
    let (p50, p99) = (p50?, p99?);
    Some(LengthCell { p50: p50.median_text.clone(), p99: p99.median_text.clone(), requests: requests(p50) })
}
