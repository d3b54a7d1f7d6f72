//! Telemetry: the recorded readings of each source while an attempt ran, a row for each metric.
//!
//! The rows are for finding causes; no published number comes from them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Read;

use assay_manifest::{
    Artifact, Block, CuratedFile, Environment, HostRole, Instant, Plan, PlannedTrial, PodPlace, PointEnergy, PointSummary,
    Reason, Recording, Window,
};
use assay_stage::{Context, ErrorCode, Failure};
use assay_telemetry::prometheus::{AttemptKey, AttemptRows, LabelledGpu, QueryRows, file_name, source_name};
use assay_telemetry::{AttemptWindow, BlockSource, MetricKind, QueueDelays, ReadError, Scope, Slice, Slices, Source, Statistics};
use assay_warehouse::{Row, TELEMETRY_SLICE_FACT, Value};

use crate::attempts::{common_value, with_place};
use crate::dimensions::Dimensions;
use crate::energy::{AttemptMeters, ReducedEnergy};
use crate::evidence::{Attempts, ShardAttempt};
use crate::row_failure;
use crate::rows::{RowContext, fact};

/// The telemetry of a run, as written.
pub(crate) struct WrittenTelemetry {
    /// The rows of all attempts.
    pub(crate) file: CuratedFile,
    /// The parts of the recordings and responses that are in no row.
    pub(crate) issues: Vec<Reason>,
    /// The energy of points.
    pub(crate) energy: Vec<PointEnergy>,
    /// The time that requests of counted attempts spent in the queue of their server, by case and point.
    pub(crate) queue_delays: QueueDelays,
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
    let mut slices = Slices::new(attempts_by_place(context), evidence, &open);
    let mut stopped = None;
    let mut queue_delays = QueueDelays::default();
    // Filled while the rows of readings are written, and read after the last of them.
    let meters = RefCell::new(AttemptMeters::default());
    let batches = std::iter::from_fn(|| {
        let slice = ctx.check_cancelled().and_then(|()| slices.next_slice().map_err(read_failure));
        if let Ok(Some((place, slice))) = &slice {
            queue_delays.add(&place.source, slice);
            add_meters(context, &mut meters.borrow_mut(), place, slice);
        }
        let batch = slice.and_then(|slice| slice.map(|slice| rows(context, dimensions, points, &slice)).transpose());
        batch.unwrap_or_else(|failure| {
            stopped = Some(failure);
            None
        })
    });
    let mut servers = ServerRows::new(ctx, context, evidence)?;
    let mut server_stopped = None;
    let of_servers = std::iter::from_fn(|| {
        let batch = servers.next_rows(context, dimensions, points, &mut meters.borrow_mut()).transpose()?;
        batch.map_err(|failure| server_stopped = Some(failure)).ok()
    });
    let spans = crate::spans::rows(ctx, context, dimensions, points, evidence)?;
    let open_records = |artifact: &Artifact| crate::open_records(ctx, artifact);
    let (mut energy, mut energy_stopped) = (None, None);
    let of_energy = std::iter::once_with(|| match meters.borrow().reduce(context, dimensions, points, &open_records) {
        Ok(ReducedEnergy { rows, points, issues }) => {
            energy = Some((points, issues));
            rows
        }
        Err(failure) => {
            energy_stopped = Some(failure);
            Vec::new()
        }
    });
    let rows = batches.flatten().chain(of_servers.flatten()).chain(of_energy.flatten()).chain(spans.rows);
    let file = crate::write_file(ctx, &TELEMETRY_SLICE_FACT, rows)?;
    stopped.or(server_stopped).or(energy_stopped).map_or(Ok(()), Err)?;
    let (energy, of_energy) = energy.unwrap_or_default();
    let issues = slices.left_out().into_iter().chain(servers.issues).chain(of_energy).chain(spans.issues).collect();
    Ok(WrittenTelemetry { file, issues, energy, queue_delays })
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

/// Returns the rows of a slice, by metric.
fn rows(
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    points: &[PointSummary],
    (place, slice): &(BlockSource, Slice<'_>),
) -> Result<Vec<Row>, Failure> {
    let point = point_of(points, slice.window.trial)?;
    let recorders = recorders(context.recordings, place.block, &slice.window);
    let (scope_kind, scope_id) = scope(context.environments, place, &recorders);
    let AttemptWindow { trial, attempt, start, end, .. } = &slice.window;
    let observed = Observation {
        trial,
        attempt: *attempt,
        window: (*start, *end),
        source: &place.source.to_string(),
        scope: (scope_kind, scope_id),
        recorders: &recorders,
        gap_ns: slice.gap_ns(),
    };
    let row = |statistics: Statistics| {
        let object = statistics.object.as_deref().unwrap_or(scope_id);
        attempt_row(context, dimensions, point, &Observation { scope: (scope_kind, object), ..observed }, &statistics)
    };
    slice.statistics(&place.source).map(row).collect::<Result<_, _>>().map_err(|error| row_failure(&error))
}

/// Adds the energy of an attempt by the meters of a recorded source. The energy of a machine that does not run the target says nothing of the
/// target's work.
fn add_meters(context: &RowContext<'_>, meters: &mut AttemptMeters, place: &BlockSource, slice: &Slice<'_>) {
    let AttemptWindow { trial, attempt, .. } = &slice.window;
    let recorders = recorders(context.recordings, place.block, &slice.window);
    let machine = recorder_machine(context.environments, place.block, &recorders);
    let is_host = place.source == Source::host();
    if is_host && !machine.is_some_and(|machine| runs_target(context, place.block, trial, machine)) {
        return;
    }
    let key = AttemptKey { block: place.block, trial_id: trial.trial_id.clone(), attempt: *attempt };
    meters.add(key, &place.source.to_string(), machine.filter(|_| is_host), slice.energy(&place.source));
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

/// The rows of every Prometheus that was asked, one after the other.
struct ServerRows<'a> {
    servers: VecDeque<(String, QueryRows<'a>)>,
    trials: BTreeMap<AttemptKey, (&'a PlannedTrial, (Instant, Instant))>,
    issues: Vec<Reason>,
}

impl<'a> ServerRows<'a> {
    /// Opens the responses among a run's evidence.
    fn new(ctx: &Context, context: &RowContext<'a>, evidence: &[Artifact]) -> Result<Self, Failure> {
        let trials = trials_by_attempt(context.attempts);
        let windows: BTreeMap<AttemptKey, (Instant, Instant)> =
            trials.iter().map(|(key, (_, window))| (key.clone(), *window)).collect();
        let mut servers = VecDeque::new();
        for (name, source) in context.plan.prometheus_sources() {
            // The evidence of a run whose attempts were never collected has none.
            let Some(artifact) = evidence.iter().find(|artifact| artifact.name == file_name(name)) else { continue };
            let file = ctx.materialise(artifact)?.open()?;
            let rows = QueryRows::open(name, source, windows.clone(), file);
            servers.push_back((source_name(name), rows.map_err(|error| Failure::from_error(error.code(), &error))?));
        }
        Ok(Self { servers, trials, issues: Vec::new() })
    }

    /// Returns the rows of the next query; `None` at the end.
    fn next_rows(
        &mut self,
        context: &RowContext<'_>,
        dimensions: &Dimensions,
        points: &[PointSummary],
        meters: &mut AttemptMeters,
    ) -> Result<Option<Vec<Row>>, Failure> {
        while let Some((source, server)) = self.servers.front_mut() {
            let next = server.next_rows().map_err(|error| Failure::from_error(error.code(), &error))?;
            let Some(AttemptRows { attempt, rows, energy }) = next else {
                self.issues.extend(server.findings());
                self.servers.pop_front();
                continue;
            };
            let Some((trial, window)) = self.trials.get(&attempt) else { continue };
            meters.add(attempt.clone(), source, None, energy);
            let point = point_of(points, trial)?;
            let made = rows.iter().map(|found| {
                let observed = Observation {
                    trial,
                    attempt: attempt.attempt,
                    window: *window,
                    source,
                    scope: (found.scope_kind, &found.scope_id),
                    recorders: &[],
                    gap_ns: found.gap_ns,
                };
                attempt_row(context, dimensions, point, &observed, &found.statistics)
            });
            return made.collect::<Result<_, _>>().map(Some).map_err(|error| row_failure(&error));
        }
        Ok(None)
    }
}

/// Reads the GPUs that each Prometheus of a plan knows, by the labels of their series in the run's attempts, each description once.
pub(crate) fn labelled_gpus(
    ctx: &Context,
    plan: &Plan,
    attempts: &Attempts,
    evidence: &[Artifact],
) -> Result<Vec<LabelledGpu>, Failure> {
    let attempts: BTreeSet<AttemptKey> = trials_by_attempt(attempts).into_keys().collect();
    let mut gpus = BTreeSet::new();
    for (name, source) in plan.prometheus_sources() {
        let Some(artifact) = evidence.iter().find(|artifact| artifact.name == file_name(name)) else { continue };
        let file = ctx.materialise(artifact)?.open()?;
        let found = assay_telemetry::prometheus::labelled_gpus(name, source, &attempts, file);
        gpus.extend(found.map_err(|error| Failure::from_error(error.code(), &error))?);
    }
    Ok(gpus.into_iter().collect())
}

/// Returns every attempt with its trial and its window.
fn trials_by_attempt(attempts: &Attempts) -> BTreeMap<AttemptKey, (&PlannedTrial, (Instant, Instant))> {
    let mut all: BTreeMap<AttemptKey, (&PlannedTrial, (Instant, Instant))> = BTreeMap::new();
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
    /// The places of the recorders; none for samples of a Prometheus, and for spans.
    pub(crate) recorders: &'a [Option<&'a PodPlace>],
    pub(crate) gap_ns: u64,
}

/// Returns the places of a block's recorders that were up during an attempt.
fn recorders<'a>(recordings: &'a [Recording], block: Block, attempt: &AttemptWindow<'_>) -> Vec<Option<&'a PodPlace>> {
    let overlaps = |recorded: &Window| recorded.start <= attempt.end && attempt.start <= recorded.end;
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
    let values = statistics.values.as_ref();
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
        .with("min", values.map(assay_stats::Samples::min))?
        .with("mean", values.map(assay_stats::Samples::mean))?
        .with("max", values.map(assay_stats::Samples::max))?
        .with("p95", values.map(|values| values.quantile(0.95)))?
        .with("gap_ns", Value::from_count(gap_ns))?
        .seal()
}

#[cfg(test)]
mod tests;
