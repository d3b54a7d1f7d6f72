//! Reduces serving: from the records of requests to the statistics of trials, and from these to the statistics of a point.
//!
//! `docs/statistics.md` states every definition; the formulas themselves are `assay-metric`'s and `assay-stats`'s.

mod adapters;
mod agentx;
mod consistency;
mod cost;
mod fact;
mod failures;
mod gpus;
mod reuse;
mod samples;
mod time_slices;
mod trial;
mod views;
mod within_run;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use assay_dataset::Index;
use assay_manifest::{
    AdapterRequests, AgentxFacts, AgentxVerdict, ArrivalLaw, Artifact, Attempt, Block, Case, ConnectionPolicy, Count, Exclusion,
    FailedRequests, FrozenWorkload, JudgedScenario, MetricSummary, Point, PointSummary, PointView, Reason, ServingPoint,
    ServingWork, SessionCounts, Shard, SloMetric, TrialId, TrialValue, WITHIN_RUN_NS, ordinal,
};
use assay_metric::{
    Definition, Formula, GpuCounts, MeasuredPhase, MeasuredValue, Metric, MetricName, RepeatedInput, TrialTotals, Unit,
};
use assay_schedule::{OfferedLoad, ScheduleError, TrialSchedule, request_limit};
use assay_search::GOOD_OF;
use assay_stage::{ErrorCode, Failure};
use assay_warehouse::Row;
use assay_warehouse::records::{RecordError, RecordFile};

use crate::aggregate::{ReportedMetric, seed, summarise_counts, summarise_trials, unset_row};
use crate::dimensions::Dimensions;
use crate::evidence::ShardAttempt;
use crate::rows::RowContext;
use consistency::Contradiction;
use cost::Price;
use samples::Distribution;
pub(crate) use trial::TrialFiles;
use trial::{PlannedMeasurement, Rules, ScannedTrial, Tally};

/// The maximum number of threads that read records: with more, each could hold fewer samples and would read the records more
/// often.
const MAX_THREADS: usize = 4;

/// The number of samples that all threads together hold at a time: 336 MiB.
const ROOM: usize = 44_000_000;

/// The limits on the use of the machine. They change no result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The number of threads that read records.
    pub(crate) threads: usize,
    /// The number of samples that all of them hold at a time.
    pub(crate) room: usize,
}

impl Limits {
    pub(crate) fn for_machine() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        Self { threads, room: ROOM }
    }
}

/// The results of one serving point.
pub(crate) struct ReducedServingPoint {
    pub(crate) summary: PointSummary,
    /// Rows of `outcome_fact`.
    pub(crate) outcomes: Vec<Row>,
    /// The row of `serving_outcome_fact`.
    pub(crate) fact: Row,
    pub(crate) view: PointView,
}

/// An attempt with all of its shards.
struct AttemptShards<'a> {
    shards: Vec<&'a ShardAttempt>,
}

impl<'a> AttemptShards<'a> {
    fn counts(&self) -> bool {
        self.shards.iter().all(|shard| shard.collected.counted)
    }

    fn attempt(&self) -> Option<&'a Attempt> {
        self.shards.first().map(|shard| &shard.attempt)
    }
}

/// The access to the records of a run.
pub(crate) struct RecordSource<'a> {
    /// Opens the records behind an artifact.
    pub(crate) open: &'a dyn Fn(&Artifact) -> Result<RecordFile, Failure>,
    /// The index of the workload's dataset, if it has one.
    pub(crate) index: Option<Arc<Index>>,
    /// True if they are checked against schedule and attempt before they are used.
    pub(crate) checked: bool,
}

/// Reduces one point.
pub(crate) fn reduce(
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    (workload, case, point): (&FrozenWorkload, &Case, &Point),
    records: &RecordSource<'_>,
) -> Result<ReducedServingPoint, Failure> {
    let missing =
        || Failure::new(ErrorCode::Plan, format!("the workload `{}` has no definition of its serving work", workload.name));
    let work = workload.serving.as_ref().ok_or_else(missing)?;
    let attempts = planned_attempts(context, case, point);
    let counted: Vec<&AttemptShards<'_>> =
        attempts.iter().filter_map(|of_trial| of_trial.iter().find(|attempt| attempt.counts())).collect();
    let planned = planned_measurement(work, point, records.index.as_deref());
    let files = counted.iter().map(|attempt| trial_files(attempt, planned, records.open)).collect::<Result<Vec<_>, _>>()?;
    if records.checked {
        counted.iter().zip(&files).try_for_each(|(attempt, files)| {
            check_records(context, (workload, work, point), records.index.as_ref(), attempt, files)
        })?;
    }
    let measured = measure(&files, work, Limits::for_machine())?;
    let gpus = gpus::count(context.environments, case);
    let price = cost::price(context.plan, &gpus);
    let repeated = repeated_input(context, (workload, work, case, point), records.index.as_ref(), &counted, &files)?;
    let adapters = requests_by_adapter(context, (workload, work, point), records.index.as_ref(), &measured)?;
    let excluded = attempts.iter().flatten().filter(|attempt| !attempt.counts()).filter_map(exclusion);
    let mut summary =
        PointSummary { excluded: excluded.collect(), ..summarise_counts(workload, case, point, &attempts, files.len()) };
    let mut serving = serving_point(work, &measured, price.as_ref().err());
    serving.excluded_outcomes = excluded_outcomes(attempts.iter().flatten());
    serving.adapters = adapters;
    serving.agentx = agentx_verdict(workload, work, case.points.len(), &measured);
    let reported = metrics_to_report(workload, work, &mut serving.absent);
    let values = trial_values(&measured, work, &CaseFacts { price: &price, gpus: &gpus, repeated: &repeated });
    let seed = |metric: &str| seed(context.collection_manifest, &case.case_id, &point.point_id, metric);
    summary.metrics = metrics(&reported, &measured.trials, &values, price.as_ref().ok(), seed, &mut serving.absent)?;
    summary.serving = Some(serving);
    set_intervals_within_run(&mut summary, work, &measured.trials, Limits::for_machine())?;
    let outcomes = fact::outcome_rows(context, dimensions, &counted, &mut summary)?;
    let fact = fact::serving_row(context, dimensions, point, &summary, work, price.as_ref().ok())?;
    let view = PointView {
        case_id: case.case_id.clone(),
        point_id: point.point_id.clone(),
        curves: measured.curves,
        timeline: measured.timeline,
        time_slices: measured.time_slices,
    };
    Ok(ReducedServingPoint { summary, outcomes, fact, view })
}

/// Returns the attempts of each planned trial of a point, in order, each with its shards.
fn planned_attempts<'a>(context: &RowContext<'a>, case: &Case, point: &Point) -> Vec<Vec<AttemptShards<'a>>> {
    let of_point =
        context.attempts.0.iter().filter(|(trial, _)| trial.case_id == case.case_id && trial.point_id == point.point_id);
    let by_attempt = |shards: &'a [ShardAttempt]| {
        let mut attempts: BTreeMap<(Block, u32), AttemptShards<'a>> = BTreeMap::new();
        for shard in shards {
            let key = (shard.collected.block, shard.collected.attempt);
            attempts.entry(key).or_insert(AttemptShards { shards: Vec::new() }).shards.push(shard);
        }
        for attempt in attempts.values_mut() {
            attempt.shards.sort_by_key(|shard| shard.collected.shard.index);
        }
        attempts.into_values().collect()
    };
    of_point.map(|(_, shards)| by_attempt(shards)).collect()
}

/// Returns the outcomes of the requests of attempts that do not count, as execute states them. An attempt may have ended in its warm-up, because of
/// requests that failed there.
fn excluded_outcomes<'a>(attempts: impl Iterator<Item = &'a AttemptShards<'a>>) -> BTreeMap<String, Count> {
    let mut total: BTreeMap<String, Count> = BTreeMap::new();
    let shards = attempts.filter(|attempt| !attempt.counts()).flat_map(|attempt| &attempt.shards);
    let serving = shards.filter_map(|shard| shard.attempt.serving.as_ref());
    for (word, count) in serving.flat_map(|serving| serving.warmup_outcomes.iter().chain(&serving.outcomes)) {
        let sum = total.entry(word.clone()).or_default();
        sum.0 = sum.0.saturating_add(count.0);
    }
    total
}

/// Returns the reason why an attempt does not count: the exclusions of any of its shards.
fn exclusion(attempt: &AttemptShards<'_>) -> Option<Exclusion> {
    let first = attempt.attempt()?;
    let mut reasons: Vec<Reason> = Vec::new();
    for reason in attempt.shards.iter().flat_map(|shard| &shard.attempt.validity.reasons) {
        if !reasons.contains(reason) {
            reasons.push(reason.clone());
        }
    }
    Some(Exclusion { trial_id: first.trial_id.clone(), attempt: first.attempt, reasons })
}

/// Returns the measurement that each trial of a point was planned to make.
fn planned_measurement(work: &ServingWork, point: &Point, index: Option<&Index>) -> PlannedMeasurement {
    let offered = OfferedLoad::from_point(point).ok();
    let users = match offered {
        Some(OfferedLoad::Concurrency { users }) if !is_open_loop(work) => Some(users),
        _ => None,
    };
    let requests = offered.and_then(|offered| request_limit(work, offered, index));
    let phase = MeasuredPhase { from_ns: signed(work.warmup_ns), duration_ns: work.duration_ns.map(signed) };
    PlannedMeasurement { phase, requests, users, has_sessions: work.sessions.is_some() }
}

fn trial_files(
    attempt: &AttemptShards<'_>,
    planned: PlannedMeasurement,
    open: &dyn Fn(&Artifact) -> Result<RecordFile, Failure>,
) -> Result<TrialFiles, Failure> {
    let empty = || Failure::new(ErrorCode::Internal, "an attempt has no shard");
    let first = attempt.attempt().ok_or_else(empty)?;
    let mut files = TrialFiles {
        trial_id: first.trial_id.clone(),
        attempt: first.attempt,
        shards: Vec::new(),
        planned,
        stated_window: None,
        stated_outcomes: None,
        warmed_turns: None,
        idle_cut_ns: None,
        all_lists: true,
    };
    let mut stated_outcomes: BTreeMap<String, u64> = BTreeMap::new();
    let (mut start, mut end) = (i64::MAX, i64::MIN);
    for shard in &attempt.shards {
        let no_records = || {
            Failure::new(
                ErrorCode::Records,
                format!("shard {} of trial `{}` has no records", shard.collected.shard.index, first.trial_id),
            )
        };
        let outcome = shard.attempt.serving.as_ref().ok_or_else(no_records)?;
        files.shards.push((shard.collected.shard.index, open(&outcome.records)?));
        start = start.min(signed(outcome.measured_from_ns));
        end = end.max(signed(outcome.measured_to_ns));
        files.all_lists &= outcome.chunk_lists == "all";
        files.warmed_turns = add_stated(files.warmed_turns, outcome.warmed_turns);
        files.idle_cut_ns = add_stated(files.idle_cut_ns, outcome.idle_cut_ns);
        for (word, count) in &outcome.outcomes {
            *stated_outcomes.entry(word.clone()).or_default() += count.0;
        }
    }
    files.stated_window = Some(start..end);
    files.stated_outcomes = Some(stated_outcomes);
    Ok(files)
}

/// Adds a count that not every outcome states.
fn add_stated(sum: Option<u64>, stated: Option<Count>) -> Option<u64> {
    stated.map_or(sum, |Count(stated)| Some(sum.unwrap_or(0).saturating_add(stated)))
}

/// Checks the records of a counted attempt against the schedule that follows from the plan, against the attempt's window, and for
/// contradictions among themselves.
fn check_records(
    context: &RowContext<'_>,
    (workload, work, point): (&FrozenWorkload, &ServingWork, &Point),
    index: Option<&Arc<Index>>,
    attempt: &AttemptShards<'_>,
    files: &TrialFiles,
) -> Result<(), Failure> {
    let checked = schedule(context, (workload, point), index, files)?
        .map_err(Contradiction::from)
        .and_then(|schedule| consistency::check(&schedule, work, attempt, files, Limits::for_machine().threads));
    checked.map_err(|error| {
        let what = format!(
            "the records of attempt {} of trial `{}` cannot be those of that attempt",
            ordinal(files.attempt),
            files.trial_id
        );
        Failure::new(ErrorCode::RecordsDiffer, what).because(&error)
    })
}

/// Returns the schedule of an attempt, which follows from the plan.
fn schedule(
    context: &RowContext<'_>,
    (workload, point): (&FrozenWorkload, &Point),
    index: Option<&Arc<Index>>,
    files: &TrialFiles,
) -> Result<Result<TrialSchedule, ScheduleError>, Failure> {
    let planned = context.plan.trials.iter().find(|trial| trial.trial_id == files.trial_id);
    let unplanned = || Failure::new(ErrorCode::Plan, format!("the plan has no trial `{}`", files.trial_id));
    Ok(TrialSchedule::for_attempt(workload, point, planned.ok_or_else(unplanned)?, context.run_id, files.attempt, index))
}

/// Returns the input of each counted trial that is repeated by the plan, or the reason why it is not known.
fn repeated_input(
    context: &RowContext<'_>,
    (workload, work, case, point): (&FrozenWorkload, &ServingWork, &Case, &Point),
    index: Option<&Arc<Index>>,
    counted: &[&AttemptShards<'_>],
    files: &[TrialFiles],
) -> Result<Result<Vec<RepeatedInput>, String>, Failure> {
    let reuse = match reuse::reuse(work, OfferedLoad::from_point(point).ok(), index) {
        Ok(reuse) => reuse,
        Err(why) => return Ok(Err(why)),
    };
    let of_trial = |(attempt, files): (&&AttemptShards<'_>, &TrialFiles)| {
        let schedule = match schedule(context, (workload, point), index, files)? {
            Ok(schedule) => schedule,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let block = attempt
            .shards
            .first()
            .map_or(1, |shard| reuse::cache_block_tokens(context.environments, case, shard.collected.block));
        reuse::repeated_input(reuse.clone(), &schedule, files, block).map(Ok).map_err(unreadable)
    };
    counted.iter().zip(files).map(of_trial).collect()
}

/// Returns the requests of the counted trials by the adapter that they asked for; none if the workload has no adapters.
fn requests_by_adapter(
    context: &RowContext<'_>,
    (workload, work, point): (&FrozenWorkload, &ServingWork, &Point),
    index: Option<&Arc<Index>>,
    measured: &Measurements<'_>,
) -> Result<BTreeMap<String, AdapterRequests>, Failure> {
    if work.adapters.is_empty() {
        return Ok(BTreeMap::new());
    }
    let schedule = |scanned: &ScannedTrial<'_>| {
        let planned = schedule(context, (workload, point), index, scanned.trial)?;
        planned.map_err(|error| Failure::from_error(ErrorCode::Schedule, &error))
    };
    let mut numbers: adapters::Numbers = work.requested_models().map(|name| (name.to_owned(), Count(0))).collect();
    for scanned in &measured.trials {
        adapters::add_requests(&mut numbers, work, &schedule(scanned)?, scanned.trial).map_err(unreadable)?;
    }
    let frequent = adapters::frequent(&numbers);
    let of_trial = |scanned: &ScannedTrial<'_>| {
        adapters::TrialAdapters::read(&frequent, work, &schedule(scanned)?, scanned.trial).map_err(unreadable)
    };
    let of_trials = measured.trials.iter().map(of_trial).collect::<Result<Vec<_>, _>>()?;
    adapters::with_latencies(&numbers, &measured.trials, &of_trials, &rules(work), Limits::for_machine()).map_err(unreadable)
}

fn signed(count: Count) -> i64 {
    i64::try_from(count.0).unwrap_or(i64::MAX)
}

/// The statistics of every trial, and the data for charts.
pub(crate) struct Measurements<'a> {
    trials: Vec<ScannedTrial<'a>>,
    distributions: Vec<Distribution>,
    failures: Vec<FailedRequests>,
    /// Failed requests that were too long for the endpoint; 0 if no rule asks for them.
    overflows: u64,
    curves: Vec<assay_manifest::Curve>,
    timeline: Option<assay_manifest::Timeline>,
    time_slices: Option<assay_manifest::TimeSlices>,
}

/// Reads the records of the counted trials of a point.
pub(crate) fn measure<'a>(files: &'a [TrialFiles], work: &ServingWork, limits: Limits) -> Result<Measurements<'a>, Failure> {
    let mut trials = first_pass(files, work, limits)?;
    let distributions = quantile_pass(&trials, work, limits)?;
    let failed: u64 = trials.iter().map(|scanned| scanned.tally.uncancelled() - scanned.tally.ok()).sum();
    let mut curves: Vec<_> = distributions
        .iter()
        .filter_map(|distribution| distribution.pooled.as_ref())
        .filter_map(|pooled| {
            let failed = if pooled.metric.is_per_request() { failed } else { 0 };
            views::curve(pooled.metric.definition().key, pooled.n, failed, &pooled.quantiles, |quantile| pooled.ms(quantile))
        })
        .collect();
    curves.sort_by_key(|curve| Metric::find(&curve.metric));
    let failures = failures::failures(&trials, limits.threads).map_err(unreadable)?;
    let overflows = match work.scenario {
        Some(JudgedScenario::Agentx) => agentx::context_overflows(&trials, limits.threads).map_err(unreadable)?,
        None => 0,
    };
    let timeline = trials.first_mut().map(views::timeline);
    let time_slices = time_slices::time_slices(&trials, work, &rules(work), limits).map_err(unreadable)?;
    Ok(Measurements { trials, distributions, failures, overflows, curves, timeline, time_slices })
}

fn rules(work: &ServingWork) -> Rules {
    Rules {
        has_intended: work.has_intended_times(),
        has_sessions: work.sessions.is_some(),
        has_cap: work.max_concurrency.is_some(),
        is_connecting: work.connections == ConnectionPolicy::Never,
        has_planned: work.has_planned_turns(),
        plays_trace: work.plays_trace(),
        begins_in_middle: work.session_play().start.is_some(),
        has_recorded_ends: has_recorded_ends(work),
        has_output: work.api.capabilities().has_output_tokens,
        slos: work.slos.iter().map(|slo| (slo.metric, slo.at_most_ns.0)).collect(),
    }
}

/// Returns true if the trace whose sessions are played records the end of every response, and no turns of subagents.
fn has_recorded_ends(work: &ServingWork) -> bool {
    let times = work.prompts.dataset().and_then(|dataset| dataset.summary.times.as_ref());
    let turns = times.and_then(|times| times.turns.as_ref());
    turns.is_some_and(|turns| turns.without_end.0 == 0 && turns.forks.as_ref().is_none_or(|forks| forks.subagents.0 == 0))
}

/// Reads all records once: computes counts and sums, and selects the records of the measured phase.
fn first_pass<'a>(files: &'a [TrialFiles], work: &ServingWork, limits: Limits) -> Result<Vec<ScannedTrial<'a>>, Failure> {
    let rules = rules(work);
    let scan = |(place, files): (usize, &'a TrialFiles)| {
        trial::scan_trial(files, &rules, place == 0, limits.threads).map_err(|error| refused(files, &error))
    };
    files.iter().enumerate().map(scan).collect()
}

/// Reads the selected records again, and computes the distributions of the metrics.
fn quantile_pass(trials: &[ScannedTrial<'_>], work: &ServingWork, limits: Limits) -> Result<Vec<Distribution>, Failure> {
    samples::distributions(trials, &rules(work), limits).map_err(unreadable)
}

fn unreadable(error: RecordError) -> Failure {
    Failure::new(ErrorCode::Records, "the records of a point cannot be read").because(&error)
}

/// The record files of a trial that belongs to no run: for tools, and for benchmarks of reduce itself.
pub struct TrialRecords(Vec<TrialFiles>);

/// The statistics of one trial by metric, each with the number of its samples, or the reason why there is none.
pub type Statistics = BTreeMap<&'static str, MeasuredValue>;

/// The first pass over a trial's records.
pub struct FirstPass<'a>(Vec<ScannedTrial<'a>>);

impl TrialRecords {
    /// Creates the record files of attempt 0 of a trial: one file for each shard, in the order of the shards.
    pub fn new(trial_id: TrialId, shards: Vec<RecordFile>, work: &ServingWork, point: &Point) -> Self {
        let (shards, planned) = ((0..).zip(shards).collect(), planned_measurement(work, point, None));
        Self(vec![TrialFiles {
            trial_id,
            attempt: 0,
            shards,
            planned,
            stated_window: None,
            stated_outcomes: None,
            warmed_turns: None,
            idle_cut_ns: None,
            all_lists: true,
        }])
    }

    /// Checks the records against the schedule that they follow, and for contradictions among themselves.
    pub fn check(&self, work: &ServingWork, schedule: &TrialSchedule) -> Result<(), Failure> {
        let refused = |error: Contradiction| {
            Failure::new(ErrorCode::RecordsDiffer, "the records contradict their schedule").because(&error)
        };
        for files in &self.0 {
            let count = u32::try_from(files.shards.len()).unwrap_or(u32::MAX);
            for (index, file) in &files.shards {
                let rules = consistency::Rules::new(schedule, work, Shard { index: *index, count }, files.planned, i64::MAX);
                rules.check(schedule, file).map_err(refused)?;
            }
        }
        Ok(())
    }

    /// Reads all records once: computes counts and sums, and selects the records of the measured phase.
    pub fn first_pass(&self, work: &ServingWork) -> Result<FirstPass<'_>, Failure> {
        first_pass(&self.0, work, Limits::for_machine()).map(FirstPass)
    }
}

impl FirstPass<'_> {
    /// Returns the statistics of every distribution by metric.
    pub fn quantiles(&self, work: &ServingWork) -> Result<Statistics, Failure> {
        let distributions = quantile_pass(&self.0, work, Limits::for_machine())?;
        Ok(distributions.into_iter().flat_map(|distribution| distribution.trials.into_iter().flatten()).collect())
    }

    /// Returns every value that is a count over a count, or over the length of the window. Metrics of cost are absent.
    pub fn rates(&self, work: &ServingWork) -> Statistics {
        let (price, gpus) = (Err("there is no price".to_owned()), Err("there is no target".to_owned()));
        let repeated = Err("the schedule was not read".to_owned());
        let facts = CaseFacts { price: &price, gpus: &gpus, repeated: &repeated };
        self.0.first().map(|scanned| counted_values((0, scanned), work, &facts)).unwrap_or_default()
    }
}

fn is_open_loop(work: &ServingWork) -> bool {
    work.arrival != ArrivalLaw::Closed
}

fn refused(files: &TrialFiles, error: &trial::TrialError) -> Failure {
    let what = format!("the records of attempt {} of trial `{}` cannot be reduced", ordinal(files.attempt), files.trial_id);
    Failure::new(ErrorCode::Records, what).because(error)
}

/// Returns the totals of the requests of a point, over its counted trials.
fn serving_point(work: &ServingWork, measured: &Measurements<'_>, cost_absent: Option<&String>) -> ServingPoint {
    let tallies = || measured.trials.iter().map(|scanned| &scanned.tally);
    let sum = |counts: fn(&Tally) -> BTreeMap<String, u64>| {
        let mut total: BTreeMap<String, Count> = BTreeMap::new();
        for (word, count) in tallies().flat_map(counts) {
            total.entry(word).or_default().0 += count;
        }
        total
    };
    let sum_stated = |count: fn(&TrialFiles) -> Option<u64>| {
        let stated = measured.trials.iter().filter_map(|scanned| count(scanned.trial));
        stated.fold(None, |sum, stated| add_stated(sum, Some(Count(stated)))).map(Count)
    };
    ServingPoint {
        requests: Count(tallies().map(Tally::requests).sum()),
        outcomes: sum(Tally::outcomes),
        failures: measured.failures.clone(),
        excluded_outcomes: BTreeMap::new(),
        adapters: BTreeMap::new(),
        sessions: work.sessions.as_ref().map(|_| sessions(tallies())),
        warmed_turns: sum_stated(|files| files.warmed_turns),
        idle_cut_ns: sum_stated(|files| files.idle_cut_ns),
        agentx: None,
        duration_ns: Count(measured.trials.iter().filter_map(window_ns).sum()),
        slo_met: slo_met(work, measured),
        token_sources: sum(Tally::sources),
        usage_faults: sum(Tally::usage_faults),
        tpot_assumed: Count(tallies().map(|tally| tally.tpot_assumed).sum()),
        cost_absent: cost_absent.cloned(),
        absent: BTreeMap::new(),
        latency_from: if work.has_intended_times() { "intended" } else { "sent" }.to_owned(),
    }
}

/// Returns the judgement by the rules of AgentX; `None` if the workload is judged by none.
fn agentx_verdict(
    workload: &FrozenWorkload,
    work: &ServingWork,
    loads: usize,
    measured: &Measurements<'_>,
) -> Option<AgentxVerdict> {
    if work.scenario != Some(JudgedScenario::Agentx) {
        return None;
    }
    let tallies = || measured.trials.iter().map(|scanned| &scanned.tally);
    let facts = AgentxFacts {
        seed: &workload.seed,
        loads,
        measured_ns: measured.trials.iter().map(|scanned| window_ns(scanned).unwrap_or(0)).collect(),
        requests: tallies().map(Tally::requests).sum(),
        failed: tallies().map(|tally| tally.uncancelled() - tally.ok()).sum(),
        overflows: measured.overflows,
    };
    Some(AgentxVerdict::judge(work, &facts))
}

/// Adds up the sessions of trials.
fn sessions<'a>(tallies: impl Iterator<Item = &'a Tally>) -> SessionCounts {
    let mut sum = SessionCounts::default();
    tallies.for_each(|tally| sum.add(&tally.sessions));
    sum
}

/// Returns the length of the window, or `None` if it has none.
fn window_ns(scanned: &ScannedTrial<'_>) -> Option<u64> {
    length_ns(&scanned.window)
}

fn length_ns(window: &Range<i64>) -> Option<u64> {
    window.end.checked_sub(window.start).and_then(|ns| u64::try_from(ns).ok()).filter(|ns| *ns > 0)
}

/// Returns true if, for every SLO, at least 99 of 100 requests of all counted trials are within it: the 99th percentile by
/// nearest rank, with failed requests and missing values as the slowest, and without requests that the client cancelled as planned.
/// `None` without SLOs, and without requests.
fn slo_met(work: &ServingWork, measured: &Measurements<'_>) -> Option<bool> {
    let requests: u64 = measured.trials.iter().map(|scanned| scanned.tally.uncancelled()).sum();
    let [good, of] = GOOD_OF.map(u128::from);
    let needed = (u128::from(requests) * good).div_ceil(of);
    let within = |place: usize| {
        measured.trials.iter().filter_map(|scanned| scanned.tally.within.get(place)).map(|n| u128::from(*n)).sum::<u128>()
    };
    (requests > 0 && !work.slos.is_empty()).then(|| (0..work.slos.len()).all(|place| within(place) >= needed))
}

/// A metric to be reported, and its declaration.
struct RequestedMetric {
    name: &'static MetricName,
    declared: Option<assay_manifest::Metric>,
    primary: bool,
}

/// Returns the metrics that the workload declares, in their order, then all others. An unknown declared metric is added to
/// `absent`.
fn metrics_to_report(
    workload: &FrozenWorkload,
    work: &ServingWork,
    absent: &mut BTreeMap<String, String>,
) -> Vec<RequestedMetric> {
    let mut requested = Vec::new();
    for metric in &workload.metrics {
        match MetricName::find(&metric.path) {
            Some(name) => requested.push(RequestedMetric { name, declared: Some(metric.clone()), primary: metric.primary }),
            None => {
                absent.insert(metric.path.clone(), "it is not a metric of serving".to_owned());
            }
        }
    }
    let by_default = |name: &MetricName| {
        workload.metrics.is_empty() && MetricName::default_primary(!work.slos.is_empty()).any(|primary| primary == name)
    };
    let others = MetricName::all().filter(|name| workload.metrics.iter().all(|metric| metric.path != name.text));
    requested.extend(others.map(|name| RequestedMetric { primary: by_default(name), name, declared: None }));
    requested
}

/// The values of one trial, by metric.
type TrialValues = Statistics;

/// The facts beside its records that the values of a trial are computed from, each with the reason if it is not known.
struct CaseFacts<'a> {
    price: &'a Result<Price, String>,
    gpus: &'a Result<GpuCounts, String>,
    /// The repeated input of each counted trial.
    repeated: &'a Result<Vec<RepeatedInput>, String>,
}

fn trial_values(measured: &Measurements<'_>, work: &ServingWork, facts: &CaseFacts<'_>) -> Vec<TrialValues> {
    let of_trial = |(place, scanned): (usize, &ScannedTrial<'_>)| {
        let mut values: TrialValues = counted_values((place, scanned), work, facts);
        for distribution in &measured.distributions {
            values.extend(distribution.trials.get(place).into_iter().flatten().cloned());
        }
        values
    };
    measured.trials.iter().enumerate().map(of_trial).collect()
}

/// Returns every value that is a count over a count, or over the length of the window.
fn counted_values((place, scanned): (usize, &ScannedTrial<'_>), work: &ServingWork, facts: &CaseFacts<'_>) -> TrialValues {
    let steady = scanned.steady.as_ref().map_err(Clone::clone);
    let api = work.api.capabilities();
    let trial = TrialTotals {
        requests: scanned.tally.requests(),
        ok: scanned.tally.ok(),
        cancelled: work.cancel.map(|_| scanned.tally.cancelled()),
        totals: &scanned.tally.totals,
        window_ns: window_ns(scanned),
        steady_ns: steady.and_then(|steady| length_ns(steady).ok_or_else(|| "it has no length".to_owned())),
        is_open_loop: is_open_loop(work),
        has_cap: work.max_concurrency.is_some(),
        has_sessions: work.sessions.is_some(),
        has_slos: !work.slos.is_empty(),
        no_output: (!api.has_output_tokens).then(|| format!("{} have no output tokens", api.responses)),
        documents: api.input.has_documents().then(|| work.documents()),
        repeated: facts.repeated.as_ref().map_err(Clone::clone).map(|trials| trials.get(place).copied().unwrap_or_default()),
        gpus: facts.gpus.clone(),
        price_per_s: facts.price.as_ref().map(Price::per_second).map_err(Clone::clone),
    };
    let values = |row: &'static Definition| {
        let value = if let Formula::Trial(formula) = row.formula { Some(formula(&trial)) } else { None };
        row.names.iter().filter_map(move |name| Some((name.text, value.clone()?)))
    };
    Metric::ALL.iter().flat_map(|metric| values(metric.definition())).collect()
}

/// Returns the metrics that every counted trial has. Adds the others to `absent`, with the reason of the first trial that lacks
/// them.
fn metrics(
    requested: &[RequestedMetric],
    trials: &[ScannedTrial<'_>],
    values: &[TrialValues],
    price: Option<&Price>,
    seed: impl Fn(&str) -> [u8; 32],
    absent: &mut BTreeMap<String, String>,
) -> Result<Vec<MetricSummary>, Failure> {
    let mut summaries = Vec::new();
    for metric in requested {
        let name = metric.name.text;
        let of_trial = |(scanned, values): (&ScannedTrial<'_>, &TrialValues)| trial_value(name, scanned, values);
        let of_trials: Result<Vec<TrialValue>, String> = trials.iter().zip(values).map(of_trial).collect();
        match of_trials {
            Ok(of_trials) if of_trials.is_empty() => {
                absent.insert(name.to_owned(), "no trial counts".to_owned());
            }
            Ok(of_trials) => summaries.push(summarise_trials(&to_reported(metric, price), of_trials, seed(name))?),
            Err(why) => {
                absent.insert(name.to_owned(), why);
            }
        }
    }
    Ok(summaries)
}

/// Sets the intervals of a point that was planned as one trial of sessions: within its run, if it was measured long enough.
fn set_intervals_within_run(
    point: &mut PointSummary,
    work: &ServingWork,
    trials: &[ScannedTrial<'_>],
    limits: Limits,
) -> Result<(), Failure> {
    let [scanned] = trials else { return Ok(()) };
    if point.trials_planned != 1 || work.sessions.is_none() {
        return Ok(());
    }
    let measured_ns = window_ns(scanned).unwrap_or(0);
    if measured_ns < WITHIN_RUN_NS {
        let [measured, needed] = [measured_ns, WITHIN_RUN_NS].map(|ns| ns as f64 / 1e9);
        for why in point.metrics.iter_mut().filter_map(|metric| metric.interval_absent.as_mut()) {
            let _ = write!(
                why,
                "; one trial of sessions has an interval within its run if it is measured for {needed} s, and it was for {measured:.3} s"
            );
        }
        return Ok(());
    }
    let wanted = point.metrics.iter().map(|metric| metric.metric.as_str()).collect();
    let mut found = within_run::intervals(scanned, &wanted, &rules(work), limits).map_err(unreadable)?;
    for metric in &mut point.metrics {
        let interval = found.remove(metric.metric.as_str()).unwrap_or_else(|| Err("it was not computed".to_owned()));
        (metric.interval, metric.interval_absent) = match interval {
            Ok(interval) => (Some(interval), None),
            Err(why) => (None, Some(why)),
        };
    }
    Ok(())
}

fn trial_value(name: &str, scanned: &ScannedTrial<'_>, values: &TrialValues) -> Result<TrialValue, String> {
    let trial = scanned.trial;
    let value = values.get(name).cloned().unwrap_or_else(|| Err("it was not computed".to_owned()));
    let (value, n) = value.map_err(|why| format!("trial `{}`: {why}", trial.trial_id))?;
    Ok(TrialValue {
        trial_id: trial.trial_id.clone(),
        attempt: trial.attempt,
        value,
        n: Count(n),
        flagged: false,
        row_id: unset_row(),
    })
}

fn to_reported(metric: &RequestedMetric, price: Option<&Price>) -> ReportedMetric {
    let row = metric.name.definition();
    let unit = match row.unit.as_str() {
        Unit::CURRENCY => price.map_or(Unit::CURRENCY, |price| price.currency.as_str()),
        unit => unit,
    };
    let better = metric.declared.as_ref().map(|declared| declared.better).or(row.better.map(Into::into));
    ReportedMetric { path: metric.name.text.to_owned(), unit: unit.to_owned(), better, primary: metric.primary }
}

/// Returns the SLO on a metric, in nanoseconds.
fn slo_ns(work: &ServingWork, metric: SloMetric) -> Option<i64> {
    work.slos.iter().find(|slo| slo.metric == metric).map(|slo| signed(slo.at_most_ns))
}

#[cfg(test)]
mod tests;
