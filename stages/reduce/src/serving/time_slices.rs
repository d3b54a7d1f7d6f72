//! The window of a trial in time slices of equal length: the requests that ended in each, and a latency there. A change within a trial,
//! such as a throttled GPU, shows in them and in no other statistic.

use assay_manifest::{Count, ServingWork, SlicedTrial, TimeSlice, TimeSlices};
use assay_metric::{Field, Formula, Metric, MetricName, Requirement, Section, Statistic, TIME_SLICES, time_slice_of};
use assay_stats::{SelectedQuantile, Selection, WantedQuantile};
use assay_warehouse::records::RecordError;

use super::Limits;
use super::samples::{column, visit_spans};
use super::trial::{Request, Rules, ScannedTrial, in_parallel};

/// The requests that ended in a slice. Every part adds up in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SliceTally {
    ok: u64,
    failed: u64,
    output_tokens: u64,
    without_token_count: u64,
}

impl SliceTally {
    pub(super) fn add(&mut self, request: &Request) {
        if !request.outcome.is_ok() {
            self.failed += u64::from(request.outcome.is_failure());
            return;
        }
        self.ok += 1;
        match request.output_tokens.and_then(|tokens| u64::try_from(tokens).ok()) {
            Some(tokens) => self.output_tokens += tokens,
            None => self.without_token_count += 1,
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.ok += other.ok;
        self.failed += other.failed;
        self.output_tokens += other.output_tokens;
        self.without_token_count += other.without_token_count;
    }
}

/// The samples of a latency in a slice.
#[derive(Clone, Copy, Debug, Default)]
struct SliceLatency {
    n: u64,
    p50_ns: Option<f64>,
    p99_ns: Option<f64>,
}

/// The quantiles of a latency in a slice.
const QUANTILES: [WantedQuantile; 2] = [WantedQuantile::Quantile(0.5), WantedQuantile::Quantile(0.99)];

/// Returns the slices of the counted trials of a point; `None` without trials.
pub(super) fn time_slices(
    trials: &[ScannedTrial<'_>],
    work: &ServingWork,
    rules: &Rules,
    limits: Limits,
) -> Result<Option<TimeSlices>, RecordError> {
    let Some((metric, span)) = latency(work).filter(|_| !trials.is_empty()) else { return Ok(None) };
    let room = limits.room / limits.threads.clamp(1, trials.len()) / TIME_SLICES;
    let latencies = in_parallel(limits.threads, trials, |scanned| slice_latencies(scanned, span, rules, room))?;
    let trials = trials.iter().zip(latencies).map(|(scanned, latencies)| sliced_trial(scanned, rules, &latencies));
    Ok(Some(TimeSlices { latency: metric.definition().key.to_owned(), trials: trials.collect() }))
}

/// Returns the latency that reports lead with and that responses can have, with its two instants.
fn latency(work: &ServingWork) -> Option<(Metric, [Field; 2])> {
    let can_have = |metric: &Metric| work.is_streamed() || !metric.requires(Requirement::Streaming);
    let leading = MetricName::leading(Section::Latency, Statistic::P99).into_iter().map(|name| name.metric).filter(can_have);
    leading.into_iter().find_map(|metric| match metric.definition().formula {
        Formula::Span { from, to } => Some((metric, [from, to])),
        _ => None,
    })
}

/// Selects the quantiles of a latency in each slice of a trial: a request counts in the slice in which its latency ended.
fn slice_latencies(
    scanned: &ScannedTrial<'_>,
    span: [Field; 2],
    rules: &Rules,
    room: usize,
) -> Result<Vec<SliceLatency>, RecordError> {
    let mut selections: Vec<Selection> = (0..TIME_SLICES).map(|_| Selection::new(QUANTILES.to_vec(), room)).collect();
    let columns = span.map(|field| column(field, rules));
    loop {
        for group in &scanned.row_groups {
            visit_spans(columns, &group.ok, group, |from, to| {
                let selection = time_slice_of(&scanned.window, to).and_then(|place| selections.get_mut(place));
                if let (Some(selection), Some(ns)) = (selection, to.checked_sub(from)) {
                    selection.add(ns);
                }
            })?;
        }
        // Every selection ends the pass, independent of the others.
        let open = selections.iter_mut().map(Selection::settle).filter(|is_settled| !is_settled).count();
        if open == 0 {
            return Ok(selections.iter().map(SliceLatency::new).collect());
        }
    }
}

impl SliceLatency {
    fn new(selection: &Selection) -> Self {
        let mut quantiles = selection.quantiles().into_iter().map(SelectedQuantile::value);
        let mut next = || quantiles.next().flatten();
        Self { n: selection.n(), p50_ns: next(), p99_ns: next() }
    }
}

fn sliced_trial(scanned: &ScannedTrial<'_>, rules: &Rules, latencies: &[SliceLatency]) -> SlicedTrial {
    let slice = |(tally, latency): (&SliceTally, &SliceLatency)| TimeSlice {
        ok: Count(tally.ok),
        failed: Count(tally.failed),
        output_tokens: (rules.has_output && tally.without_token_count == 0).then_some(Count(tally.output_tokens)),
        samples: Count(latency.n),
        p50_ms: latency.p50_ns.map(|ns| ns / 1e6),
        p99_ms: latency.p99_ns.map(|ns| ns / 1e6),
    };
    let instant = |ns: i64| Count(u64::try_from(ns).unwrap_or(0));
    SlicedTrial {
        trial_id: scanned.trial.trial_id.clone(),
        attempt: scanned.trial.attempt,
        from_ns: instant(scanned.window.start),
        to_ns: instant(scanned.window.end),
        slices: scanned.tally.slices.iter().zip(latencies).map(slice).collect(),
    }
}
