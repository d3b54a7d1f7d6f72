//! A load of a serving case, and the outcomes of its requests.

use std::collections::BTreeMap;

use assay_manifest::{Count, Point, PointKind, PointSummary, PointView, ServingPoint};

use super::time_slices::TimeSlices;
use super::views::{Curve, Timeline};
use crate::render::number::grouped;
use crate::render::text::{clean, counted};

/// Maximum number of outcomes that a point names; there are only so many kinds of outcome, but a hostile Summary can invent more.
const MAX_OUTCOMES: usize = 12;

/// A load, and the outcomes of its requests.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Load {
    /// Concurrency, or request rate per second; `None` if it is neither.
    pub(crate) amount: Option<f64>,
    /// `64`, `2.5/s`: the load for labels without room for words.
    pub(crate) short: String,
    /// Number of requests that were due; if no attempt counts, those of all attempts, because their outcomes are the only result.
    pub(crate) requests: u64,
    /// True if the requests belong to attempts that do not count.
    pub(crate) are_excluded: bool,
    /// The requests of attempts that do not count beside those of counted ones: all, and the failed ones.
    pub(crate) left_out: (u64, u64),
    pub(crate) ok: u64,
    /// The other outcomes with their counts, most frequent first.
    pub(crate) failures: Vec<(String, u64)>,
    pub(crate) slo_met: Option<bool>,
    /// The instant that latencies count from; empty if nothing was measured.
    pub(crate) latency_from: String,
    pub(crate) token_sources: Vec<(String, u64)>,
    pub(crate) tpot_assumed: u64,
    pub(crate) curves: Vec<Curve>,
    pub(crate) timeline: Option<Timeline>,
    pub(crate) time_slices: Option<TimeSlices>,
}

/// Returns the name of a load: `concurrency 64`, `2.5 req/s`; `None` for another kind of point.
pub(crate) fn label(point: &Point) -> Option<String> {
    let value = |name: &str| point.value.get(name).filter(|_| point.value.len() == 1).map(|text| clean(text));
    match point.kind {
        PointKind::Concurrency => value("concurrency").map(|text| format!("concurrency {text}")),
        PointKind::Rate => value("rate").map(|text| format!("{text} req/s")),
        _ => None,
    }
}

impl Load {
    pub(crate) fn new(point: &Point, found: &PointSummary, view: Option<&PointView>) -> Self {
        let serving = found.serving.as_ref();
        let value = match point.kind {
            PointKind::Concurrency => point.value.get("concurrency").map(|text| (text, "")),
            PointKind::Rate => point.value.get("rate").map(|text| (text, "/s")),
            _ => None,
        };
        let short = value.map_or_else(|| clean(point.point_id.as_str()), |(text, unit)| clean(&format!("{text}{unit}")));
        let are_excluded = serving.is_some_and(|serving| serving.requests.0 == 0 && !serving.excluded_outcomes.is_empty());
        let outcomes = serving.map(|serving| if are_excluded { &serving.excluded_outcomes } else { &serving.outcomes });
        let excluded = serving.map_or((0, 0), |serving| sums(&serving.excluded_outcomes));
        let ok = outcomes.and_then(|outcomes| outcomes.get("ok")).map_or(0, |count| count.0);
        Self {
            amount: value.and_then(|(text, _)| text.parse().ok()).filter(|amount: &f64| amount.is_finite()),
            short,
            requests: if are_excluded { excluded.0 } else { serving.map_or(0, |serving| serving.requests.0) },
            are_excluded,
            left_out: if are_excluded { (0, 0) } else { excluded },
            ok,
            failures: outcomes.map(failures).unwrap_or_default(),
            slo_met: serving.and_then(|serving| serving.slo_met),
            latency_from: serving.map(|serving| latency_from(&serving.latency_from)).unwrap_or_default(),
            token_sources: serving.map(token_sources).unwrap_or_default(),
            tpot_assumed: serving.map_or(0, |serving| serving.tpot_assumed.0),
            curves: view.map(|view| view.curves.iter().map(Curve::new).collect()).unwrap_or_default(),
            timeline: view.and_then(|view| view.timeline.as_ref()).and_then(Timeline::from_view),
            time_slices: view.and_then(|view| view.time_slices.as_ref()).and_then(TimeSlices::from_view),
        }
    }

    /// Returns the number of requests with any outcome except `ok`.
    pub(crate) fn failed(&self) -> u64 {
        self.requests.saturating_sub(self.ok)
    }

    /// Returns the noun for the requests that [`failed`](Self::failed) counts, and their number: `800 requests`, or `800 counted requests`
    /// if others are left out.
    pub(crate) fn requests_text(&self) -> String {
        counted(self.requests, if self.left_out.0 > 0 { "counted request" } else { "request" })
    }

    /// Returns `timeout × 30, http_error × 10`.
    pub(crate) fn failure_text(&self) -> String {
        self.failures.iter().map(|(outcome, count)| format!("{outcome} × {}", grouped(*count))).collect::<Vec<_>>().join(", ")
    }

    /// Returns the distribution of that metric.
    pub(crate) fn curve(&self, metric: &str) -> Option<&Curve> {
        self.curves.iter().find(|curve| curve.metric == metric && !curve.quantiles.is_empty())
    }
}

/// Returns the number of requests with these outcomes, and of those that failed.
pub(super) fn sums(outcomes: &BTreeMap<String, Count>) -> (u64, u64) {
    let all = outcomes.values().fold(0_u64, |sum, count| sum.saturating_add(count.0));
    (all, all.saturating_sub(outcomes.get("ok").map_or(0, |count| count.0)))
}

/// States the failed requests of attempts that do not count, after those of counted ones; empty if there are none.
pub(super) fn left_out_text((all, failed): (u64, u64)) -> String {
    if failed == 0 {
        return String::new();
    }
    format!("; {} of {} failed in attempts that do not count", grouped(failed), grouped(all))
}

/// Returns a readable name of the instant that latencies count from.
fn latency_from(word: &str) -> String {
    match word {
        "sent" => "the send time".to_owned(),
        "intended" => "the intended send time".to_owned(),
        other => clean(other),
    }
}

fn failures(outcomes: &BTreeMap<String, Count>) -> Vec<(String, u64)> {
    by_count(outcomes.iter().filter(|(outcome, _)| *outcome != "ok").map(|(outcome, count)| (outcome, count.0)))
}

fn token_sources(serving: &ServingPoint) -> Vec<(String, u64)> {
    by_count(serving.token_sources.iter().map(|(source, count)| (source, count.0)))
}

/// Returns the names with their counts, most frequent first; beyond [`MAX_OUTCOMES`], the rest is one entry.
fn by_count<'a>(counts: impl Iterator<Item = (&'a String, u64)>) -> Vec<(String, u64)> {
    let mut counts: Vec<(String, u64)> =
        counts.filter(|(_, count)| *count > 0).map(|(name, count)| (clean(name), count)).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let rest: u64 = counts.iter().skip(MAX_OUTCOMES).map(|(_, count)| count).sum();
    counts.truncate(MAX_OUTCOMES);
    counts.extend((rest > 0).then(|| ("other".to_owned(), rest)));
    counts
}
