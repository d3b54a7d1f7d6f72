//! Estimates how long a plan will take: from the earlier runs of its cases, from their loads, and at most.

use std::time::Duration;

use assay_manifest::{Body as _, Case, CaseId, Document, ExecutionPart, MAX_MANIFEST_BYTES, Point, PointKind, RunId};
use assay_schedule::drain_time;
use assay_spec::{ArrivalMode, Serving};
use assay_stage::{AcceptedResult, Failure, Layout, StageName};
use assay_store::Store;

/// The duration of trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Length {
    /// The expected duration, if it can be estimated before they run.
    pub(crate) expected: Option<Duration>,
    /// The upper limit, with each trial in its first attempt.
    pub(crate) at_most: Duration,
}

impl Length {
    /// Returns the duration of trials that is unknown, up to their limit.
    pub(crate) fn up_to(limit: Duration) -> Self {
        Self { expected: None, at_most: limit }
    }

    /// Returns the duration of one trial of a load at a point, with the time of the last request of the trace that it replays, if that is known.
    pub(crate) fn for_load(serving: &Serving, point: &Point, limit: Duration, span: Option<Duration>) -> Self {
        let load = &serving.load;
        // A closed loop waits for responses: the duration of its requests is what is measured.
        let counted = load.requests.zip(rate(point)).and_then(|(requests, rate)| seconds(requests as f64 / rate));
        let is_closed = matches!(load.arrivals, ArrivalMode::Closed { .. });
        let is_replay = matches!(load.arrivals, ArrivalMode::Replay { .. });
        let measured = match (load.duration, load.requests) {
            _ if is_replay => span.zip(speed(point)).and_then(|(span, speed)| seconds(span.as_secs_f64() / speed)),
            (Some(duration), None) => Some(duration),
            (Some(_), Some(_)) if is_closed => None,
            (duration, Some(_)) => counted.map(|counted| duration.map_or(counted, |duration| duration.min(counted))),
            (None, None) => None,
        };
        // The warm-up of a replay is the beginning of its trace.
        let warmup = if is_replay { Duration::ZERO } else { load.warmup };
        let whole = |measured: Duration| warmup.saturating_add(measured);
        let longest = load.duration.map(|duration| whole(duration).saturating_add(drain_time(Some(duration), load.timeout)));
        Self {
            expected: measured.map(|measured| whole(measured).min(limit)),
            at_most: longest.map_or(limit, |longest| longest.min(limit)),
        }
    }

    /// Returns the duration of `count` of them.
    pub(crate) fn times(self, count: u32) -> Self {
        let times = |one: Duration| one.saturating_mul(count);
        Self { expected: self.expected.map(times), at_most: times(self.at_most) }
    }

    /// Returns the duration of both, one after the other.
    pub(crate) fn then(self, other: Self) -> Self {
        let expected = self.expected.zip(other.expected).map(|(one, other)| one.saturating_add(other));
        Self { expected, at_most: self.at_most.saturating_add(other.at_most) }
    }
}

/// Returns the arrivals per second of a point; `None` if it has no rate.
fn rate(point: &Point) -> Option<f64> {
    positive(point, PointKind::Rate, "rate")
}

/// Returns the speed of a replay at a point.
fn speed(point: &Point) -> Option<f64> {
    positive(point, PointKind::Speed, "speed")
}

fn positive(point: &Point, kind: PointKind, name: &str) -> Option<f64> {
    point.value.get(name).filter(|_| point.kind == kind)?.parse().ok().filter(|number: &f64| *number > 0.0)
}

fn seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

/// The number of earlier runs of a case that are read, the latest first: an estimate needs one.
const LOOKED_INTO: usize = 8;

/// Returns the duration of the trials if each takes as long as the median of the case's latest run; `None` if a case was never
/// run. The store is not verified: this is an estimate and no result.
pub(crate) fn estimate(store: &Store, cases: &[Case], trials: u32) -> Result<Option<Duration>, Failure> {
    let mut total = Duration::ZERO;
    for case in cases {
        let Some(one) = latest(store, &case.case_id)? else { return Ok(None) };
        let count = u32::try_from(case.points.len()).unwrap_or(u32::MAX).saturating_mul(trials);
        total = total.saturating_add(one.saturating_mul(count));
    }
    Ok(Some(total))
}

/// Returns the median duration of an attempt in the latest run of a case that has any.
fn latest(store: &Store, case: &CaseId) -> Result<Option<Duration>, Failure> {
    let marks = store.list(&Layout::runs_of_case(case))?;
    let runs = marks.iter().rev().filter_map(|path| path.rsplit('/').next()?.parse::<RunId>().ok());
    for run_id in runs.take(LOOKED_INTO) {
        let mut lengths = lengths(store, &run_id, case)?;
        lengths.sort_unstable();
        if let Some(median) = lengths.get(lengths.len() / 2) {
            return Ok(Some(Duration::from_nanos(*median)));
        }
    }
    Ok(None)
}

fn lengths(store: &Store, run_id: &RunId, case: &CaseId) -> Result<Vec<u64>, Failure> {
    let mut found = Vec::new();
    for accepted in AcceptedResult::list_stage(store, run_id, StageName::Execute)? {
        let bytes = store.get(&accepted?.manifest, MAX_MANIFEST_BYTES)?;
        let Ok(document) = Document::parse(&bytes) else { continue };
        let Some(part) = ExecutionPart::from_document(&document).filter(|part| part.header.run_id == *run_id) else { continue };
        let of_case = part.body.attempts.iter().filter(|attempt| attempt.case_id == *case && attempt.validity.valid);
        found.extend(of_case.map(|attempt| attempt.window.duration_ns.0));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const LIMIT: Duration = Duration::from_mins(30);

    /// Returns the expected and the longest duration, in seconds, of a load with these fields.
    fn length(load: &str, point: (PointKind, &str, &str)) -> (Option<u64>, u64) {
        length_of((load, "lengths: D(20,10)"), point, None)
    }

    /// Returns the same with this member for the prompts, and this time of the last request of a trace.
    fn length_of((load, prompts): (&str, &str), point: (PointKind, &str, &str), span: Option<Duration>) -> (Option<u64>, u64) {
        let yaml = format!(
            "apiVersion: assay.dev/v1alpha1
kind: Workload
metadata: {{name: chat}}
spec:
  type: serving
  model: m
  precision: none
  protocol: openai_compatible_http
  deployment_model: single_process
  batching_policy: continuous
  stack: vllm
  load: {{{load}}}
  {prompts}
"
        );
        let workload = assay_spec::Workload::parse("workload.yaml", yaml.as_bytes()).expect("a workload");
        let assay_spec::Work::Serving(serving) = &workload.spec.work else { panic!("serving") };
        let (kind, name, value) = point;
        let point = Point {
            point_id: "one".parse().expect("a point id"),
            kind,
            value: BTreeMap::from([(name.to_owned(), value.to_owned())]),
            load_recipe_digest: None,
        };
        let Length { expected, at_most } = Length::for_load(serving, &point, LIMIT, span);
        (expected.map(|expected| expected.as_secs()), at_most.as_secs())
    }

    #[test]
    fn a_load_says_how_long_it_takes_where_it_can() {
        let closed =
            |load: &str| length(&format!("mode: closed, concurrency: [4], {load}"), (PointKind::Concurrency, "concurrency", "4"));
        let open = |load: &str| length(&format!("mode: open, rate: [2.5], {load}"), (PointKind::Rate, "rate", "2.5"));
        assert_eq!(closed("duration: 60s, warmup: 5s"), (Some(65), 95), "and half a minute for the last responses");
        assert_eq!(closed("duration: 60s, warmup: 5s, timeout: 10s"), (Some(65), 75), "or as long as one may take");
        assert_eq!(closed("duration: 1790s, warmup: 1s"), (Some(1791), 1800), "and no longer than the limit");
        assert_eq!(closed("requests: 100, warmup: 5s"), (None, 1800), "the duration of responses is unknown");
        assert_eq!(closed("requests: 100, duration: 60s, warmup: 5s"), (None, 95), "whichever comes first");
        assert_eq!(open("requests: 100, warmup: 5s"), (Some(45), 1800), "100 at 2.5 a second");
        assert_eq!(open("requests: 100, duration: 10s, warmup: 5s"), (Some(15), 45));
        assert_eq!(open("requests: 10, duration: 10s, warmup: 5s"), (Some(9), 45));
    }

    #[test]
    fn a_replay_takes_as_long_as_its_trace_at_its_speed() {
        let replay = |speed: &str, span: Option<u64>| {
            let fields = ("mode: replay, speed: [1, 2], warmup: 5s", "trace: {path: t.jsonl, format: mooncake}");
            length_of(fields, (PointKind::Speed, "speed", speed), span.map(Duration::from_secs))
        };
        assert_eq!(replay("1", Some(600)), (Some(600), 1800), "its warm-up is its beginning");
        assert_eq!(replay("2", Some(600)), (Some(300), 1800));
        assert_eq!(replay("0.1", Some(600)), (Some(1800), 1800), "no longer than the limit");
        assert_eq!(replay("2", None), (None, 1800), "its trace was not imported");
    }

    #[test]
    fn one_unknown_leaves_the_whole_unknown() {
        let known = Length { expected: Some(Duration::from_secs(2)), at_most: Duration::from_secs(3) };
        let twice = Length { expected: Some(Duration::from_secs(4)), at_most: Duration::from_secs(6) };
        assert_eq!(known.times(2), twice);
        assert_eq!(known.then(known), twice);
        assert_eq!(known.then(Length::up_to(LIMIT)), Length::up_to(LIMIT + Duration::from_secs(3)));
    }
}
