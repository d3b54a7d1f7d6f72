//! The data of charts: curves of distributions, and some requests of one trial.

use assay_manifest::{Count, Curve, Timeline, TimelineRequest};
use assay_stats::SelectedQuantile;

use super::trial::{Request, ScannedTrial};

/// The maximum number of requests of a timeline.
const MAX_TIMELINE_REQUESTS: usize = 400;
/// The number of decades of the tail that a curve reaches into, if there are enough samples.
const DECADES: u32 = 9;

/// A probability as `part` of `whole` beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TailProbability {
    part: u64,
    whole: u64,
}

/// Returns the probabilities of a curve: every hundredth, then nine in each further decade of the tail, then 1.
fn curve_probabilities() -> impl Iterator<Item = TailProbability> {
    let hundredths = (1..=100).rev().map(|part| TailProbability { part, whole: 100 });
    let tail =
        (3..2 + DECADES).flat_map(|decade| (1..=9).rev().map(move |part| TailProbability { part, whole: 10_u64.pow(decade) }));
    hundredths.chain(tail).chain([TailProbability { part: 0, whole: 1 }])
}

impl TailProbability {
    fn probability(self) -> f64 {
        (self.whole - self.part) as f64 / self.whole as f64
    }

    /// Returns true if at least one of `n` samples lies beyond it; the largest is always shown.
    fn is_supported(self, n: u64) -> bool {
        self.whole <= 100 || u128::from(self.part) * u128::from(n) >= u128::from(self.whole)
    }
}

/// Returns the probabilities that a curve may need.
pub(super) fn probabilities() -> Vec<f64> {
    curve_probabilities().map(TailProbability::probability).collect()
}

/// Returns a curve from the results for [`probabilities`]; `to_ms` converts to milliseconds. `None` without samples.
pub(super) fn curve(
    metric: &str,
    n: u64,
    failed: u64,
    quantiles: &[SelectedQuantile],
    to_ms: impl Fn(SelectedQuantile) -> Option<f64>,
) -> Option<Curve> {
    let supported = curve_probabilities().zip(quantiles).filter(|(place, _)| place.is_supported(n));
    let quantiles: Vec<_> = supported.filter_map(|(place, quantile)| Some([place.probability(), to_ms(*quantile)?])).collect();
    (n > 0).then(|| Curve { metric: metric.to_owned(), n: Count(n), failed: Count(failed), quantiles })
}

/// Requests that may be shown: of the failed ones and of the others, those whose mixed index is smallest. That is a uniform
/// choice, needs no order among them and no second pass, and is the same for every division into shards.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Sample {
    failed: LowestRequests,
    others: LowestRequests,
}

#[derive(Debug, Default, PartialEq)]
struct LowestRequests {
    offered: u64,
    kept: Vec<(u64, TimelineRequest)>,
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014): a bijection,
/// so that no two indices tie.
fn mix(index: u64) -> u64 {
    let mut mixed = index.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl LowestRequests {
    fn add(&mut self, index: u64, request: impl FnOnce() -> TimelineRequest) {
        self.offered += 1;
        let mixed = mix(index);
        if self.kept.len() >= MAX_TIMELINE_REQUESTS
            && self.kept.get(MAX_TIMELINE_REQUESTS - 1).is_some_and(|(last, _)| mixed > *last)
        {
            return;
        }
        self.kept.push((mixed, request()));
        if self.kept.len() >= 4 * MAX_TIMELINE_REQUESTS {
            self.prune();
        }
    }

    /// Sorts the lowest to the front, and drops those beyond the limit.
    fn prune(&mut self) {
        self.kept.sort_by_key(|(mixed, _)| *mixed);
        self.kept.truncate(MAX_TIMELINE_REQUESTS);
    }

    fn merge(&mut self, other: Self) {
        self.offered += other.offered;
        self.kept.extend(other.kept);
        self.prune();
    }
}

impl Sample {
    pub(super) fn add(&mut self, request: &Request) {
        let index = request.index.cast_unsigned();
        let list = if request.outcome.is_failure() { &mut self.failed } else { &mut self.others };
        list.add(index, || to_timeline_request(request));
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.failed.merge(other.failed);
        self.others.merge(other.others);
    }
}

fn ms(ns: i64) -> f64 {
    ns as f64 / 1e6
}

fn to_timeline_request(request: &Request) -> TimelineRequest {
    let start = request.start.or(request.dequeued).or(request.end).unwrap_or(0);
    let end = if request.outcome.is_ok() { request.last_token } else { request.end };
    TimelineRequest {
        index: Count(request.index.cast_unsigned()),
        start_ms: ms(start),
        sent_ms: request.sent.map(ms),
        first_ms: request.first_token.map(ms),
        end_ms: end.map(ms),
        outcome: request.outcome.to_string(),
    }
}

/// Returns the requests of a trial that are shown: every failed one up to half of the limit, more if there are few others, then
/// others.
pub(super) fn timeline(scanned: &mut ScannedTrial<'_>) -> Timeline {
    let requests = scanned.tally.requests();
    let Sample { mut failed, mut others } = std::mem::take(&mut scanned.tally.sample);
    failed.prune();
    others.prune();
    let of_failed =
        failed.kept.len().min((MAX_TIMELINE_REQUESTS / 2).max(MAX_TIMELINE_REQUESTS.saturating_sub(others.kept.len())));
    let of_others = others.kept.len().min(MAX_TIMELINE_REQUESTS - of_failed);
    let thinning = if failed.offered + others.offered <= MAX_TIMELINE_REQUESTS as u64 {
        "all".to_owned()
    } else {
        format!(
            "{of_failed} of {} failed requests and {of_others} of {} others, those whose index mixed by SplitMix64 is smallest",
            failed.offered, others.offered
        )
    };
    let kept = failed.kept.into_iter().take(of_failed).chain(others.kept.into_iter().take(of_others));
    let mut shown: Vec<TimelineRequest> = kept.map(|(_, request)| request).collect();
    shown.sort_by(|a, b| a.start_ms.total_cmp(&b.start_ms).then(a.index.cmp(&b.index)));
    let trial = scanned.trial;
    Timeline { trial_id: trial.trial_id.clone(), attempt: trial.attempt, requests: Count(requests), thinning, shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_dense_in_its_tail() {
        let all = probabilities();
        assert!(all.len() <= 200 && all.is_sorted_by(|a, b| a < b), "{}", all.len());
        assert_eq!(
            (all[0], all[50], all[99], all[100], all[108], all.last().copied()),
            (0.0, 0.5, 0.99, 0.991, 0.999, Some(1.0))
        );
        let of = |n| {
            curve_probabilities()
                .filter(|place| place.is_supported(n))
                .map(TailProbability::probability)
                .filter(|p| *p > 0.99)
                .collect::<Vec<_>>()
        };
        assert_eq!(of(100), [1.0]);
        // 0.998 leaves 2 of 1,000 beyond, 0.999 leaves 1, 0.9991 leaves none.
        assert_eq!(of(1_000), [0.991, 0.992, 0.993, 0.994, 0.995, 0.996, 0.997, 0.998, 0.999, 1.0]);
    }

    #[test]
    fn the_lowest_are_the_same_in_any_order_and_any_parts() {
        let request = |index| TimelineRequest {
            index: Count(index),
            start_ms: 0.0,
            sent_ms: None,
            first_ms: None,
            end_ms: None,
            outcome: "ok".to_owned(),
        };
        let of = |indices: &mut dyn Iterator<Item = u64>| {
            let mut lowest = LowestRequests::default();
            indices.for_each(|index| lowest.add(index, || request(index)));
            lowest
        };
        let (mut forward, mut backward) = (of(&mut (0..10_000)), of(&mut (0..10_000).rev()));
        forward.prune();
        backward.prune();
        let mut parts = of(&mut (0..7_000));
        parts.merge(of(&mut (7_000..10_000)));
        assert_eq!((forward.kept.len(), forward == backward, forward == parts), (MAX_TIMELINE_REQUESTS, true, true));
    }
}
