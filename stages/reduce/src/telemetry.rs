//! Telemetry: the recorded readings of the host and of an attempt's endpoint while the attempt ran, a row for each metric.
//!
//! The recordings are found in the Collection's list of evidence and read once, a line at a time: memory holds the readings of
//! the attempts that run at one time. The rows are for finding causes; no published number comes from them.

mod metric;
mod recording;
mod slice;

use std::collections::{BTreeMap, VecDeque};
use std::io::Read;

use assay_manifest::{
    Artifact, Block, Case, CaseId, CuratedFile, Environment, Gap, HostRole, Instant, PlannedTrial, PodPlace, PointId,
    PointSummary, Reason, Recording, Window,
};
use assay_stage::{Context, ErrorCode, Failure};
use assay_warehouse::{Row, TELEMETRY_SLICE_FACT, Value};

use crate::attempts::{common_value, with_place};
use crate::dimensions::Dimensions;
use crate::evidence::ShardAttempt;
use crate::row_failure;
use crate::rows::{RowContext, fact};
use crate::telemetry::metric::MetricKind;
use crate::telemetry::recording::{BlockSource, MergedReadings, OpenArtifact, Reading, RecordingFile, Source};
use crate::telemetry::slice::{OmittedReadings, Slice, Statistics};

/// The histograms in which serving programs count the time that requests spent in their queues, in seconds: vLLM, SGLang, TGI.
const QUEUE_HISTOGRAMS: [&str; 3] =
    ["vllm:request_queue_time_seconds", "sglang:queue_time_seconds", "tgi_request_queue_duration"];

/// The telemetry of a run, as written.
pub(crate) struct WrittenTelemetry {
    /// The rows of all attempts.
    pub(crate) file: CuratedFile,
    /// The reason why rows are missing; `None` if none is missing.
    pub(crate) left_out: Option<Reason>,
    /// The time that requests of counted attempts spent in the queue of their server, by case and point.
    pub(crate) queue_delays: QueueDelays,
}

/// Seconds in the server's queue and the requests that left it, by case and point.
#[derive(Default)]
pub(crate) struct QueueDelays(BTreeMap<(CaseId, PointId), (f64, f64)>);

impl QueueDelays {
    fn add(&mut self, slice: &Slice<'_>) {
        if !slice.watched.counts {
            return;
        }
        let sum_and_count = |name: &str| slice.increase(&format!("{name}_sum")).zip(slice.increase(&format!("{name}_count")));
        let Some((seconds, requests)) = QUEUE_HISTOGRAMS.into_iter().find_map(sum_and_count) else { return };
        let trial = slice.watched.trial;
        let total = self.0.entry((trial.case_id.clone(), trial.point_id.clone())).or_default();
        *total = (total.0 + seconds, total.1 + requests);
    }

    /// Returns the mean time in the queue in nanoseconds; `None` if no request left the queue while it was observed.
    pub(crate) fn mean_ns(&self, case: &str, point: &str) -> Option<i64> {
        let of_point = self.0.iter().find(|((of_case, of_point), _)| of_case.as_str() == case && of_point.as_str() == point);
        let (_, (seconds, requests)) = of_point?;
        (*requests > 0.0).then(|| (seconds / requests * 1e9).round() as i64)
    }
}

/// Writes the rows of all attempts, counted or not, and reports the parts of the recordings that are not in them.
pub(crate) fn write(
    ctx: &Context,
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    points: &[PointSummary],
    evidence: &[Artifact],
) -> Result<WrittenTelemetry, Failure> {
    let open = |artifact: &Artifact| -> Result<Box<dyn Read>, Failure> {
        ctx.check_cancelled()?;
        Ok(Box::new(ctx.materialise(artifact)?.open()?))
    };
    let mut slices = Slices::new(context, evidence, &open);
    let mut stopped = None;
    let mut queue_delays = QueueDelays::default();
    let batches = std::iter::from_fn(|| {
        let slice = ctx.check_cancelled().and_then(|()| slices.next());
        if let Ok(Some((_, slice))) = &slice {
            queue_delays.add(slice);
        }
        let batch = slice.and_then(|slice| slice.map(|slice| rows(context, dimensions, points, &slice)).transpose());
        batch.unwrap_or_else(|failure| {
            stopped = Some(failure);
            None
        })
    });
    let file = crate::write_file(ctx, &TELEMETRY_SLICE_FACT, batches.flatten())?;
    stopped.map_or(Ok(()), Err)?;
    Ok(WrittenTelemetry { file, left_out: slices.left_out.reason(), queue_delays })
}

/// One attempt over all its shards, with the gaps in its readings.
struct AttemptWindow<'a> {
    trial: &'a PlannedTrial,
    attempt: u32,
    /// True if it is the attempt that counts for its trial.
    counts: bool,
    start: Instant,
    end: Instant,
    gaps: Vec<&'a Gap>,
}

impl<'a> AttemptWindow<'a> {
    /// Returns the attempt with its window, which is the one over which the client's counts are compared with the endpoint's:
    /// from the first shard's start to the last one's end.
    fn for_trial(trial: &'a PlannedTrial, shards: &[&'a ShardAttempt], source: &str) -> Option<Self> {
        let windows = shards.iter().map(|shard| &shard.attempt.window);
        let all = shards.iter().flat_map(|shard| &shard.collected.gaps);
        Some(Self {
            trial,
            attempt: shards.first()?.attempt.attempt,
            counts: shards.iter().all(|shard| shard.collected.counted),
            start: windows.clone().map(|window| window.start).min()?,
            end: windows.map(|window| window.end).max()?,
            gaps: all.filter(|gap| gap.source == source).collect(),
        })
    }
}

/// The slices of a run: place by place, and for each place in the order in which attempts end.
struct Slices<'a> {
    open: &'a OpenArtifact<'a>,
    places: VecDeque<(BlockSource, Vec<RecordingFile<'a>>, VecDeque<AttemptWindow<'a>>)>,
    current: Option<ReadingSweep<'a>>,
    left_out: OmittedReadings,
}

impl<'a> Slices<'a> {
    fn new(context: &RowContext<'a>, evidence: &'a [Artifact], open: &'a OpenArtifact<'a>) -> Self {
        let mut watched = attempts_by_place(context);
        let of_place = |(place, recorded)| watched.remove(&place).map(|watched| (place, recorded, watched));
        let places = recording::by_place(evidence).into_iter().filter_map(of_place).collect();
        Self { open, places, current: None, left_out: OmittedReadings::default() }
    }

    /// Returns the next slice that is complete; `None` at the end.
    fn next(&mut self) -> Result<Option<(BlockSource, Slice<'a>)>, Failure> {
        loop {
            if let Some(sweep) = &mut self.current
                && let Some(slice) = sweep.next(&mut self.left_out)?
            {
                self.left_out.add(&slice);
                return Ok(Some((sweep.place.clone(), slice)));
            }
            let Some((place, recorded, waiting)) = self.places.pop_front() else { return Ok(None) };
            let merged = MergedReadings::open(&place.source, &recorded, self.open)?;
            self.left_out.recordings += merged.left_out;
            self.current = Some(ReadingSweep { place, merged, latest: None, waiting, active: Vec::new(), over: VecDeque::new() });
        }
    }
}

/// Returns the attempts of each place, by their start.
fn attempts_by_place<'a>(context: &RowContext<'a>) -> BTreeMap<BlockSource, VecDeque<AttemptWindow<'a>>> {
    let mut all: BTreeMap<BlockSource, Vec<AttemptWindow<'a>>> = BTreeMap::new();
    for (trial, found) in &context.attempts.0 {
        let mut tries: BTreeMap<(Block, u32), Vec<&ShardAttempt>> = BTreeMap::new();
        for shard in found {
            tries.entry((shard.collected.block, shard.attempt.attempt)).or_default().push(shard);
        }
        for ((block, _), shards) in tries {
            let endpoint = endpoint(context, trial).map(|case| Source::Endpoint(case.target.clone()));
            for source in std::iter::once(Source::Host).chain(endpoint) {
                let watched = AttemptWindow::for_trial(trial, &shards, &source.to_string());
                all.entry(BlockSource { block, source }).or_default().extend(watched);
            }
        }
    }
    let by_start = |(place, mut watched): (_, Vec<AttemptWindow<'a>>)| {
        // A stable sort: attempts that began at the same time stay in the plan's order.
        watched.sort_by_key(|watched| (watched.start, watched.end));
        (place, watched.into())
    };
    all.into_iter().map(by_start).collect()
}

/// Returns the case of a trial, if its target is an endpoint.
fn endpoint<'a>(context: &RowContext<'a>, trial: &PlannedTrial) -> Option<&'a Case> {
    let case = context.plan.case(&trial.case_id)?;
    context.plan.workload(&case.workload)?.serving.as_ref().map(|_| case)
}

/// The readings of one place, merged in the order of time and distributed to its attempts.
struct ReadingSweep<'a> {
    place: BlockSource,
    merged: MergedReadings,
    /// The time of the last reading.
    latest: Option<Instant>,
    /// Attempts that have not begun.
    waiting: VecDeque<AttemptWindow<'a>>,
    /// Attempts that run: one, unless shards of two attempts overlap.
    active: Vec<Slice<'a>>,
    over: VecDeque<Slice<'a>>,
}

impl<'a> ReadingSweep<'a> {
    fn next(&mut self, left_out: &mut OmittedReadings) -> Result<Option<Slice<'a>>, Failure> {
        loop {
            if let Some(slice) = self.over.pop_front() {
                return Ok(Some(slice));
            }
            if self.waiting.is_empty() && self.active.is_empty() {
                return Ok(None);
            }
            match self.merged.next()? {
                // The clock was set back: the first reading of a time is kept.
                Some(reading) if self.latest.is_some_and(|latest| reading.asked <= latest) => left_out.disordered += 1,
                Some(reading) => self.take(&reading),
                None => {
                    self.waiting.clear();
                    self.over.extend(self.active.drain(..));
                }
            }
        }
    }

    fn take(&mut self, reading: &Reading) {
        self.latest = Some(reading.asked);
        let (over, active): (Vec<_>, Vec<_>) =
            self.active.drain(..).partition(|slice: &Slice<'_>| slice.watched.end < reading.asked);
        self.over.extend(over);
        self.active = active;
        while self.waiting.front().is_some_and(|watched| watched.start <= reading.asked) {
            let begun = self.waiting.pop_front().filter(|watched| reading.asked <= watched.end);
            self.active.extend(begun.map(Slice::new));
        }
        // A reading requested in the window and answered after it may count later events.
        if self.active.iter().any(|slice| reading.answered <= slice.watched.end) {
            let observed = reading.observed();
            for slice in self.active.iter_mut().filter(|slice| reading.answered <= slice.watched.end) {
                slice.add(reading.asked, &observed);
            }
        }
    }
}

/// Returns the rows of a slice, by metric.
fn rows(
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    points: &[PointSummary],
    (place, slice): &(BlockSource, Slice<'_>),
) -> Result<Vec<Row>, Failure> {
    let trial = slice.watched.trial;
    let is_of = |point: &&PointSummary| point.case_id == trial.case_id && point.point_id == trial.point_id;
    let lost = || Failure::new(ErrorCode::Attempts, format!("the trial `{}` is of no point", trial.trial_id));
    let point = points.iter().find(is_of).ok_or_else(lost)?;
    let recorders = recorders(context.recordings, place.block, &slice.watched);
    let scope = scope(context.environments, place, &recorders);
    let row = |found: Statistics| row(context, dimensions, point, (place, scope, &recorders), slice, &found);
    slice.statistics(&place.source).map(row).collect::<Result<_, _>>().map_err(|error| row_failure(&error))
}

/// Returns the places of a block's recorders that were up during an attempt.
fn recorders<'a>(recordings: &'a [Recording], block: Block, watched: &AttemptWindow<'_>) -> Vec<Option<&'a PodPlace>> {
    let overlaps = |window: &Window| window.start <= watched.end && watched.start <= window.end;
    let up = recordings.iter().filter(|recording| recording.block == block && overlaps(&recording.window));
    up.map(|recording| recording.place.as_ref()).collect()
}

/// Returns the kind and the name of the thing that a place's recordings observe. On one machine, the recorder runs on the load's
/// host; in a cluster it has a node of its own, unless several have recorded.
fn scope<'a>(
    environments: &[&'a Environment],
    place: &'a BlockSource,
    recorders: &[Option<&'a PodPlace>],
) -> (&'static str, &'a str) {
    match &place.source {
        Source::Endpoint(target) => ("endpoint", target.as_str()),
        Source::Host if recorders.iter().any(Option::is_some) => {
            ("host", common_value(recorders, |place| &place.node).unwrap_or("unknown"))
        }
        Source::Host => {
            let environment = environments.iter().find(|environment| environment.block == place.block);
            let client = environment.and_then(|environment| environment.hosts_with(HostRole::Client).next());
            ("host", client.map_or("unknown", |host| host.name.as_str()))
        }
    }
}

fn row(
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    point: &PointSummary,
    (place, (scope_kind, scope_id), recorders): (&BlockSource, (&str, &str), &[Option<&PodPlace>]),
    slice: &Slice<'_>,
    found: &Statistics,
) -> assay_warehouse::Result<Row> {
    let AttemptWindow { trial, attempt, start, end, .. } = &slice.watched;
    let values = found.values.as_ref();
    with_place(fact(&TELEMETRY_SLICE_FACT, context, dimensions, point)?, recorders.iter().copied())?
        .with("trial_id", trial.trial_id.as_str())?
        .with("attempt", *attempt)?
        .with("window_start_unix_ns", *start)?
        .with("window_end_unix_ns", *end)?
        .with("scope_kind", scope_kind)?
        .with("scope_id", scope_id)?
        .with("source", place.source.to_string())?
        .with("metric", found.metric.as_str())?
        .with("unit", found.unit.as_str())?
        .with("metric_kind", if found.kind == MetricKind::Counter { "counter" } else { "gauge" })?
        .with("n", Value::from_count(found.n))?
        .with("min", values.map(assay_stats::Samples::min))?
        .with("mean", values.map(assay_stats::Samples::mean))?
        .with("max", values.map(assay_stats::Samples::max))?
        .with("p95", values.map(|values| values.quantile(0.95)))?
        .with("gap_ns", Value::from_count(slice.gap_ns()))?
        .seal()
}

#[cfg(test)]
mod tests;
