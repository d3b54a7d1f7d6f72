//! Telemetry: the statistics of each source while an attempt ran, a row for each metric, and the GPUs that labels describe.
//!
//! Each object of the evidence is read once, before the dimensions are known, which the rows name. The rows are for finding causes; no published number comes
//! from them.

mod statistics_file;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

use assay_manifest::{
    Artifact, Block, CuratedFile, Environment, HostRole, Instant, PlannedTrial, PodPlace, PointEnergy, PointSummary, Reason,
    Recording, Window,
};
use assay_stage::{Context, ErrorCode, Failure};
use assay_telemetry::prometheus::{AttemptKey, AttemptRows, QueryRows, file_name, source_name};
use assay_telemetry::{
    AttemptWindow, BlockSource, LabelledGpu, MAX_LABELLED_GPUS, MetricKind, OpenArtifact, QueueDelays, ReadError, Scope, Slice,
    Slices, Source, Statistics,
};
use assay_warehouse::{Row, TELEMETRY_SLICE_FACT, Value};

use crate::attempts::{common_value, with_place};
use crate::dimensions::Dimensions;
use crate::energy::{AttemptMeters, ReducedEnergy};
use crate::evidence::{Attempts, ShardAttempt};
use crate::row_failure;
use crate::rows::{RowContext, fact};
use crate::telemetry::statistics_file::{ObjectStatistics, SourceStatistics, StatisticsFile, StatisticsWriter};

/// The name of the file with the statistics in the scratch folder.
const STATISTICS_FILE: &str = "telemetry-statistics.jsonl.zst";

/// The telemetry of a run, as read from its evidence.
pub(crate) struct ReadTelemetry<'a> {
    /// The GPUs that labels of series in the run's attempts describe, each description once.
    pub(crate) gpus: Vec<LabelledGpu>,
    /// The time that requests of counted attempts spent in the queue of their server, by case and point.
    pub(crate) queue_delays: QueueDelays,
    statistics: StatisticsFile,
    meters: AttemptMeters,
    /// The parts of the recordings and responses that are in no row.
    issues: Vec<Reason>,
    attempts: AttemptIndex<'a>,
}

/// The telemetry of a run, as written.
pub(crate) struct WrittenTelemetry {
    /// The rows of all attempts.
    pub(crate) file: CuratedFile,
    /// The parts of the evidence that are in no row.
    pub(crate) issues: Vec<Reason>,
    /// The energy of points.
    pub(crate) energy: Vec<PointEnergy>,
}

/// The raw evidence of a run.
struct EvidenceFiles<'a> {
    list: &'a [Artifact],
    open: &'a OpenArtifact<'a, Failure>,
    /// Fails if the stage was cancelled.
    check: &'a dyn Fn() -> Result<(), Failure>,
}

/// Reads the recordings and the responses of every Prometheus, each object once.
pub(crate) fn read<'a>(ctx: &Context, context: &RowContext<'a>, evidence: &[Artifact]) -> Result<ReadTelemetry<'a>, Failure> {
    let open = |artifact: &Artifact| -> Result<Box<dyn Read>, Failure> { Ok(Box::new(ctx.materialise(artifact)?.open()?)) };
    let files = EvidenceFiles { list: evidence, open: &open, check: &|| ctx.check_cancelled() };
    read_evidence(context, &files, &ctx.scratch().join(STATISTICS_FILE))
}

/// Reads the telemetry among the evidence, and keeps its statistics in the file `path`.
fn read_evidence<'a>(context: &RowContext<'a>, evidence: &EvidenceFiles<'_>, path: &Path) -> Result<ReadTelemetry<'a>, Failure> {
    let mut reader = TelemetryReader {
        context,
        evidence,
        out: StatisticsWriter::create(path)?,
        gpus: BTreeSet::new(),
        queue_delays: QueueDelays::default(),
        meters: AttemptMeters::default(),
        issues: Vec::new(),
    };
    let attempts = index_attempts(context.attempts);
    reader.read_recordings()?;
    reader.read_responses(&attempts)?;
    let TelemetryReader { out, gpus, queue_delays, meters, issues, .. } = reader;
    let gpus = gpus.into_iter().collect();
    Ok(ReadTelemetry { gpus, queue_delays, statistics: out.finish()?, meters, issues, attempts })
}

/// The evidence while it is read.
struct TelemetryReader<'r, 'a> {
    context: &'r RowContext<'a>,
    evidence: &'r EvidenceFiles<'r>,
    out: StatisticsWriter,
    gpus: BTreeSet<LabelledGpu>,
    queue_delays: QueueDelays,
    meters: AttemptMeters,
    issues: Vec<Reason>,
}

impl TelemetryReader<'_, '_> {
    /// Reads what the recorders read of each source.
    fn read_recordings(&mut self) -> Result<(), Failure> {
        let mut slices = Slices::new(attempts_by_place(self.context), self.evidence.list, self.evidence.open);
        loop {
            (self.evidence.check)()?;
            let Some((place, slice)) = slices.next_slice().map_err(read_failure)? else { break };
            self.queue_delays.add(&place.source, &slice);
            add_meters(self.context, &mut self.meters, &place, &slice);
            let room = MAX_LABELLED_GPUS.saturating_sub(self.gpus.len());
            self.gpus.extend(slice.gpus(&place.source).take(room));
            self.out.write(&slice_statistics(self.context, &place, &slice))?;
        }
        self.issues.extend(slices.left_out());
        Ok(())
    }

    /// Reads the responses of every Prometheus, one after the other.
    fn read_responses(&mut self, attempts: &AttemptIndex<'_>) -> Result<(), Failure> {
        let unreadable = |error: assay_telemetry::Error| Failure::from_error(error.code(), &error);
        let windows = attempts.iter().map(|(key, (_, window))| (key.clone(), *window)).collect();
        for (name, source) in self.context.plan.prometheus_sources() {
            // The evidence of a run whose attempts were never collected has none.
            let Some(artifact) = self.evidence.list.iter().find(|artifact| artifact.name == file_name(name)) else { continue };
            let source_name = source_name(name);
            let file = (self.evidence.open)(artifact)?;
            let mut responses = QueryRows::open(name, source, &windows, file).map_err(unreadable)?;
            while let Some(AttemptRows { attempt, rows, energy }) = responses.next_rows().map_err(unreadable)? {
                (self.evidence.check)()?;
                self.meters.add(attempt.clone(), &source_name, None, energy);
                let objects = rows.into_iter().map(|row| ObjectStatistics {
                    scope_kind: row.scope_kind.to_owned(),
                    scope_id: row.scope_id,
                    gap_ns: row.gap_ns,
                    statistics: row.statistics,
                });
                self.out.write(&SourceStatistics { attempt, source: source_name.clone(), objects: objects.collect() })?;
            }
            self.issues.extend(responses.findings());
            self.gpus.extend(responses.gpus().iter().cloned());
        }
        Ok(())
    }
}

/// Returns the statistics of a slice.
fn slice_statistics(context: &RowContext<'_>, place: &BlockSource, slice: &Slice<'_>) -> SourceStatistics {
    let recorders = recorders(context.recordings, place.block, (slice.window.start, slice.window.end));
    let (scope_kind, scope_id) = scope(context.environments, place, &recorders);
    let gap_ns = slice.gap_ns();
    let objects = slice.statistics(&place.source).map(|statistics| ObjectStatistics {
        scope_kind: scope_kind.to_owned(),
        scope_id: statistics.object.as_deref().unwrap_or(scope_id).to_owned(),
        gap_ns,
        statistics,
    });
    SourceStatistics { attempt: attempt_key(place, slice), source: place.source.to_string(), objects: objects.collect() }
}

fn attempt_key(place: &BlockSource, slice: &Slice<'_>) -> AttemptKey {
    let AttemptWindow { trial, attempt, .. } = &slice.window;
    AttemptKey { block: place.block, trial_id: trial.trial_id.clone(), attempt: *attempt }
}

impl ReadTelemetry<'_> {
    /// Returns the rows of the next source in an attempt; `None` at the end.
    fn next_rows(
        &mut self,
        context: &RowContext<'_>,
        dimensions: &Dimensions,
        points: &[PointSummary],
    ) -> Result<Option<Vec<Row>>, Failure> {
        let Some(SourceStatistics { attempt: key, source, objects }) = self.statistics.next()? else { return Ok(None) };
        let Some((trial, window)) = self.attempts.get(&key) else { return Ok(Some(Vec::new())) };
        let point = point_of(points, trial)?;
        let recorders = recorders(context.recordings, key.block, *window);
        let row = |found: &ObjectStatistics| {
            let observed = Observation {
                trial,
                attempt: key.attempt,
                window: *window,
                source: &source,
                scope: (&found.scope_kind, &found.scope_id),
                recorders: &recorders,
                gap_ns: found.gap_ns,
            };
            attempt_row(context, dimensions, point, &observed, &found.statistics)
        };
        objects.iter().map(row).collect::<Result<_, _>>().map(Some).map_err(|error| row_failure(&error))
    }
}

/// Writes the rows of all attempts, counted or not, and reports the parts of the evidence that are not in them.
pub(crate) fn write(
    ctx: &Context,
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    points: &[PointSummary],
    mut read: ReadTelemetry<'_>,
    evidence: &[Artifact],
) -> Result<WrittenTelemetry, Failure> {
    let open_records = |artifact: &Artifact| crate::open_records(ctx, artifact);
    let energy = read.meters.reduce(context, dimensions, points, &open_records)?;
    let ReducedEnergy { rows: energy_rows, points: energy, issues: of_energy } = energy;
    let spans = crate::spans::rows(ctx, context, dimensions, points, evidence)?;
    let mut stopped = None;
    let of_sources = std::iter::from_fn(|| {
        let next = ctx.check_cancelled().and_then(|()| read.next_rows(context, dimensions, points));
        next.unwrap_or_else(|failure| {
            stopped = Some(failure);
            None
        })
    });
    let rows = of_sources.flatten().chain(energy_rows).chain(spans.rows);
    let file = crate::write_file(ctx, &TELEMETRY_SLICE_FACT, rows)?;
    stopped.map_or(Ok(()), Err)?;
    let issues = read.issues.into_iter().chain(of_energy).chain(spans.issues).collect();
    Ok(WrittenTelemetry { file, issues, energy })
}

/// Returns the failure of a recording that cannot be read.
pub(crate) fn read_failure(error: ReadError<Failure>) -> Failure {
    error.into_caller(|error| Failure::from_error(error.code(), &error))
}

/// Returns the window of one attempt, which is the one over which the client's counts are compared with the endpoint's: from the
/// first shard's start to the last one's end. `None` if there are no shards.
fn attempt_window<'a>(trial: &'a PlannedTrial, shards: &[&'a ShardAttempt], source: &Source) -> Option<AttemptWindow<'a>> {
    let name = source.to_string();
    let windows = shards.iter().map(|shard| &shard.attempt.window);
    let all = shards.iter().flat_map(|shard| &shard.collected.gaps);
    Some(AttemptWindow {
        trial,
        attempt: shards.first()?.attempt.attempt,
        counts: shards.iter().all(|shard| shard.collected.counted),
        start: windows.clone().map(|window| window.start).min()?,
        end: windows.map(|window| window.end).max()?,
        gaps: all.filter(|gap| gap.source == name).collect(),
    })
}

/// Returns the attempts that each source observes, in the plan's order.
fn attempts_by_place<'a>(context: &RowContext<'a>) -> BTreeMap<BlockSource, Vec<AttemptWindow<'a>>> {
    let mut all: BTreeMap<BlockSource, Vec<AttemptWindow<'a>>> = BTreeMap::new();
    for (trial, shards) in &context.attempts.0 {
        let mut attempts: BTreeMap<(Block, u32), Vec<&ShardAttempt>> = BTreeMap::new();
        for shard in shards {
            attempts.entry((shard.collected.block, shard.attempt.attempt)).or_default().push(shard);
        }
        for ((block, _), shards) in attempts {
            let environment = context.environments.iter().copied().find(|environment| environment.block == block);
            for source in assay_telemetry::observing(context.plan, environment, &trial.case_id) {
                let window = attempt_window(trial, &shards, &source);
                let place = BlockSource { block, source };
                all.entry(place).or_default().extend(window);
            }
        }
    }
    all
}

/// Adds the energy of an attempt by the meters of a recorded source. The energy of a machine that does not run the target says nothing of the
/// target's work.
fn add_meters(context: &RowContext<'_>, meters: &mut AttemptMeters, place: &BlockSource, slice: &Slice<'_>) {
    let AttemptWindow { trial, start, end, .. } = &slice.window;
    let recorders = recorders(context.recordings, place.block, (*start, *end));
    let machine = recorder_machine(context.environments, place.block, &recorders);
    let is_host = place.source == Source::host();
    if is_host && !machine.is_some_and(|machine| runs_target(context, place.block, trial, machine)) {
        return;
    }
    meters.add(attempt_key(place, slice), &place.source.to_string(), machine.filter(|_| is_host), slice.energy(&place.source));
}

/// Returns true if the target of a trial runs on this machine.
fn runs_target(context: &RowContext<'_>, block: Block, trial: &PlannedTrial, machine: &str) -> bool {
    let environment = context.environments.iter().find(|environment| environment.block == block);
    let target = context.plan.case(&trial.case_id).map(|case| &case.target);
    let found = environment.and_then(|environment| environment.targets.iter().find(|found| Some(&found.id) == target));
    found.is_some_and(|found| found.hosts.iter().any(|host| host == machine))
}

/// Returns the point of a trial.
pub(crate) fn point_of<'a>(points: &'a [PointSummary], trial: &PlannedTrial) -> Result<&'a PointSummary, Failure> {
    let is_of = |point: &&PointSummary| point.case_id == trial.case_id && point.point_id == trial.point_id;
    let no_point = || Failure::new(ErrorCode::Attempts, format!("the trial `{}` is of no point", trial.trial_id));
    points.iter().find(is_of).ok_or_else(no_point)
}

/// Every attempt, with its trial and its window from the first shard's start to the last one's end.
type AttemptIndex<'a> = BTreeMap<AttemptKey, (&'a PlannedTrial, (Instant, Instant))>;

/// Returns every attempt of a run.
fn index_attempts(attempts: &Attempts) -> AttemptIndex<'_> {
    let mut all = AttemptIndex::new();
    for (trial, shards) in &attempts.0 {
        for shard in shards {
            let window = (shard.attempt.window.start, shard.attempt.window.end);
            let key =
                AttemptKey { block: shard.collected.block, trial_id: trial.trial_id.clone(), attempt: shard.attempt.attempt };
            let (_, all_shards) = all.entry(key).or_insert((trial, window));
            *all_shards = (all_shards.0.min(window.0), all_shards.1.max(window.1));
        }
    }
    all
}

/// The object, the attempt and the source of a row.
#[derive(Clone, Copy)]
pub(crate) struct Observation<'a> {
    pub(crate) trial: &'a PlannedTrial,
    pub(crate) attempt: u32,
    pub(crate) window: (Instant, Instant),
    pub(crate) source: &'a str,
    pub(crate) scope: (&'a str, &'a str),
    /// The places of the recorders; none for spans.
    pub(crate) recorders: &'a [Option<&'a PodPlace>],
    pub(crate) gap_ns: u64,
}

/// Returns the places of a block's recorders that were up during an attempt.
fn recorders(recordings: &[Recording], block: Block, (start, end): (Instant, Instant)) -> Vec<Option<&PodPlace>> {
    let overlaps = |recorded: &Window| recorded.start <= end && start <= recorded.end;
    let up = recordings.iter().filter(|recording| recording.block == block && overlaps(&recording.window));
    up.map(|recording| recording.place.as_ref()).collect()
}

/// Returns the observed object of a place. The recorder's machine is the load's host if there is no cluster; in a cluster it has a
/// node of its own, unless several have recorded.
fn scope<'a>(
    environments: &[&'a Environment],
    place: &'a BlockSource,
    recorders: &[Option<&'a PodPlace>],
) -> (&'static str, &'a str) {
    let Scope { kind, id } = place.source.scope();
    (kind, id.or_else(|| recorder_machine(environments, place.block, recorders)).unwrap_or("unknown"))
}

/// Returns the name of the machine that the recorder ran on.
fn recorder_machine<'a>(environments: &[&'a Environment], block: Block, recorders: &[Option<&'a PodPlace>]) -> Option<&'a str> {
    if recorders.iter().any(Option::is_some) {
        return common_value(recorders, |place| &place.node);
    }
    let environment = environments.iter().find(|environment| environment.block == block)?;
    environment.hosts_with(HostRole::Client).next().map(|host| host.name.as_str())
}

/// Returns the row of a metric in an attempt.
pub(crate) fn attempt_row(
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    point: &PointSummary,
    observed: &Observation<'_>,
    statistics: &Statistics,
) -> assay_warehouse::Result<Row> {
    let Observation { trial, attempt, window: (start, end), source, scope: (scope_kind, scope_id), recorders, gap_ns } =
        *observed;
    let values = statistics.values;
    let fact = fact(&TELEMETRY_SLICE_FACT, context, dimensions, point)?;
    // Beside the keys of an object, those of the recorder would be of something else.
    let placed = match &statistics.keys {
        // A GPU that the recorder sees by itself is one of its machine.
        None => with_place(fact, recorders.iter().copied())?
            .with("gpu_uuid", statistics.object.as_deref().filter(|_| scope_kind == "gpu"))?,
        Some(keys) => fact
            .with("gpu_uuid", keys.gpu_uuid.as_deref())?
            .with("pod_uid", keys.pod_uid.as_deref())?
            .with("node_name", keys.node_name.as_deref())?,
    };
    placed
        .with("trial_id", trial.trial_id.as_str())?
        .with("attempt", attempt)?
        .with("window_start_unix_ns", start)?
        .with("window_end_unix_ns", end)?
        .with("scope_kind", scope_kind)?
        .with("scope_id", scope_id)?
        .with("source", source)?
        .with("metric", statistics.metric.as_str())?
        .with("unit", statistics.unit.as_str())?
        .with("metric_kind", if statistics.kind == MetricKind::Gauge { "gauge" } else { "counter" })?
        .with("n", Value::from_count(statistics.n))?
        .with("min", values.map(|values| values.min))?
        .with("mean", values.map(|values| values.mean))?
        .with("max", values.map(|values| values.max))?
        .with("p95", values.map(|values| values.p95))?
        .with("gap_ns", Value::from_count(gap_ns))?
        .seal()
}

#[cfg(test)]
mod tests;
