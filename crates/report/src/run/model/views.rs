//! The data of the serving pictures: latency distributions, and requests over time.

use assay_manifest::{TimelineRequest, TrialId};
use assay_metric::Metric;

use super::outcome::has_failed;
use crate::render::text::{clean, counted};
use crate::render::thinning::evenly_spaced;

/// Maximum number of quantiles kept of a curve: more than a panel has pixels is not visible.
const MAX_QUANTILES: usize = 96;

/// Maximum number of requests in a timeline: rows of a few pixels each.
const MAX_TIMELINE: usize = 48;

/// Maximum number of failed requests in a timeline; they are kept first, because readers look for them.
const MAX_FAILED_SHOWN: usize = 16;

/// A distribution that can be drawn: finite, rising, latencies above zero.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curve {
    pub(crate) metric: String,
    pub(crate) n: u64,
    /// Number of failed requests, which lie beyond every value.
    pub(crate) failed: u64,
    /// Pairs of probability, over the available samples, and milliseconds.
    pub(crate) quantiles: Vec<(f64, f64)>,
}

/// Requests of one trial, in the order in which they started.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Timeline {
    pub(crate) trial: String,
    /// The number of shown requests and of all requests, and the rule by which they were chosen.
    pub(crate) shown_text: String,
    pub(crate) requests: Vec<TimelineRequest>,
}

impl Curve {
    pub(super) fn new(curve: &assay_manifest::Curve) -> Self {
        let mut quantiles: Vec<(f64, f64)> = Vec::new();
        for [probability, value] in &curve.quantiles {
            let rises = quantiles.last().is_none_or(|(before, low)| before < probability && low <= value);
            if (0.0..=1.0).contains(probability) && value.is_finite() && *value > 0.0 && rises {
                quantiles.push((*probability, *value));
            }
        }
        Self {
            metric: clean(&curve.metric),
            n: curve.n.0,
            failed: curve.failed.0,
            quantiles: evenly_spaced(&quantiles, MAX_QUANTILES).copied().collect(),
        }
    }

    /// Returns true if failed requests lie beyond its values; false for gaps between events, because they are not requests.
    pub(crate) fn counts_failures(&self) -> bool {
        self.failed > 0 && Metric::find(&self.metric).is_none_or(Metric::is_per_request)
    }

    /// Returns the share of failed requests among all requests of the curve.
    pub(crate) fn failed_share(&self) -> f64 {
        if self.counts_failures() { self.failed as f64 / (self.failed + self.n) as f64 } else { 0.0 }
    }

    /// Returns the share of all requests, failed ones included, that took longer than the quantile of `probability`.
    pub(crate) fn share_above(&self, probability: f64) -> f64 {
        let failed = self.failed_share();
        (1.0 - probability) * (1.0 - failed) + failed
    }

    /// Returns the value at `probability` over the available samples, by linear interpolation between two kept quantiles. `None`
    /// beyond what the number of samples resolves.
    pub(crate) fn value_at(&self, probability: f64) -> Option<f64> {
        if (1.0 - probability) * (self.n as f64) < 1.0 {
            return None;
        }
        let after = self.quantiles.iter().position(|(known, _)| *known >= probability)?;
        let (high_p, high) = *self.quantiles.get(after)?;
        let Some((low_p, low)) = after.checked_sub(1).and_then(|before| self.quantiles.get(before)) else { return Some(high) };
        Some(low + (high - low) * (probability - low_p) / (high_p - low_p))
    }
}

impl Timeline {
    pub(super) fn from_view(timeline: &assay_manifest::Timeline) -> Option<Self> {
        let drawable = timeline.shown.iter().filter(|request| request.start_ms.is_finite());
        let all: Vec<&TimelineRequest> = drawable.collect();
        let mut kept: Vec<&TimelineRequest> = if all.len() <= MAX_TIMELINE {
            all.clone()
        } else {
            let (ok, failed): (Vec<_>, Vec<_>) = all.iter().copied().partition(|request| !has_failed(request));
            let failed: Vec<_> = evenly_spaced(&failed, MAX_FAILED_SHOWN).copied().collect();
            evenly_spaced(&ok, MAX_TIMELINE - failed.len()).copied().chain(failed).collect()
        };
        kept.sort_by(|one, other| one.start_ms.total_cmp(&other.start_ms).then(one.index.0.cmp(&other.index.0)));
        let requests: Vec<TimelineRequest> = kept.into_iter().map(clean_request).collect();
        (!requests.is_empty()).then(|| Self {
            trial: short_trial(&timeline.trial_id),
            shown_text: shown_text(timeline, requests.len(), all.len()),
            requests,
        })
    }
}

/// Returns the last part of a trial's id, which names it within its load.
pub(super) fn short_trial(trial_id: &TrialId) -> String {
    trial_id.as_str().rsplit('.').next().unwrap_or_default().to_owned()
}

/// States how many requests are drawn, and names each thinning: the view's and this crate's.
fn shown_text(timeline: &assay_manifest::Timeline, shown: usize, given: usize) -> String {
    let of = format!("{shown} of {}", counted(timeline.requests.0, "request"));
    let rule = clean(&timeline.thinning);
    match (rule.as_str(), given > shown) {
        ("all", false) => format!("all {}", counted(timeline.requests.0, "request")),
        ("all", true) => format!("{of}, evenly chosen; failed ones first"),
        (_, false) => format!("{of}, thinned: {rule}"),
        (_, true) => format!("{of}, thinned: {rule}; of those, evenly chosen and failed ones first"),
    }
}

fn clean_request(request: &TimelineRequest) -> TimelineRequest {
    let finite = |instant: Option<f64>| instant.filter(|instant| instant.is_finite());
    TimelineRequest {
        index: request.index,
        start_ms: request.start_ms,
        sent_ms: finite(request.sent_ms),
        first_ms: finite(request.first_ms),
        end_ms: finite(request.end_ms),
        outcome: clean(&request.outcome),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_lie_beyond_every_value() {
        let curve =
            Curve { metric: "ttft".to_owned(), n: 900, failed: 100, quantiles: vec![(0.0, 10.0), (0.5, 20.0), (1.0, 40.0)] };
        assert!((curve.failed_share() - 0.1).abs() < 1e-12);
        // Half of 900 and all of 100 took longer than the median of the others.
        assert!((curve.share_above(0.5) - 0.55).abs() < 1e-12);
        assert!((curve.share_above(1.0) - 0.1).abs() < 1e-12);
        assert_eq!(curve.value_at(0.75), Some(30.0));
        assert_eq!(curve.value_at(0.999), None, "900 samples do not resolve a thousandth");
        let gaps = Curve { metric: "icl".to_owned(), ..curve };
        assert_eq!(gaps.share_above(1.0).total_cmp(&0.0), std::cmp::Ordering::Equal);
    }

    #[test]
    fn a_curve_keeps_what_can_be_drawn() {
        let quantiles = vec![[0.0, 0.0], [0.1, 5.0], [0.2, f64::NAN], [0.3, 4.0], [0.4, 6.0], [0.4, 7.0], [1.5, 8.0]];
        let curve = Curve::new(&assay_manifest::Curve {
            metric: "e2e".to_owned(),
            n: assay_manifest::Count(5),
            failed: assay_manifest::Count(0),
            quantiles,
        });
        assert_eq!(curve.quantiles, [(0.1, 5.0), (0.4, 6.0)]);
    }
}
