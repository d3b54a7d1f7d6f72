//! The requests of an open loop that waited for a place under its cap.

use assay_manifest::{PointSummary, ServingWork};
use assay_metric::{Metric, Statistic};

use crate::render::number::percent;

/// States the share of requests that waited for a place, and for how long; `None` if none waited, or if the load has no cap.
pub(super) fn queued_text(work: &ServingWork, found: &PointSummary) -> Option<String> {
    let cap = work.max_concurrency?;
    let median = |metric: Metric, statistic| {
        let name = metric.name(statistic)?;
        found.metrics.iter().find(|metric| metric.metric == name.text).map(|metric| metric.median)
    };
    let share = median(Metric::QueuedShare, Statistic::Value).filter(|share| *share > 0.0)?;
    let wait = median(Metric::QueueWait, Statistic::P99).map_or_else(String::new, |ms| format!("; queue wait p99 {ms:.1} ms"));
    Some(format!(
        "{} of the requests waited because {cap} were in flight (`max_concurrency`){wait}; latencies count from the time at which \
         a request was due, so they include the wait",
        percent(share)
    ))
}
