//! Serving: from the records of requests to statistics of trials, and across trials to those of a point.
//!
//! `docs/statistics.md` states every definition; the formulas themselves are `assay-record`'s and `assay-stats`'s.

mod catalog;
mod consistency;
mod cost;
mod fact;
mod samples;
mod trial;
mod views;

use std::collections::BTreeMap;
use std::ops::Range;

use assay_manifest::{
    ArrivalLaw, Artifact, Attempt, Block, Case, Count, Exclusion, FrozenWorkload, Metric, MetricSummary, Point, PointSummary,
    PointView, Reason, ServingPoint, ServingWork, Shard, SloMetric, TrialId, TrialValue,
};
use assay_record::{MeasuredPhase, SHARE_BITS};
use assay_schedule::{OfferedLoad, TrialSchedule};
use assay_stage::{ErrorCode, Failure};
use assay_warehouse::Row;
use assay_warehouse::records::RecordFile;

use crate::aggregate::{ReportedMetric, seed, summarise_counts, summarise_trials, unset_row};
use crate::dimensions::Dimensions;
use crate::evidence::ShardAttempt;
use crate::rows::RowContext;
use crate::words::quantity;
use catalog::{CURRENCY, KnownMetric};
use consistency::Contradiction;
use cost::Price;
use samples::{Distribution, MeasuredValue};
pub(crate) use trial::TrialFiles;
use trial::{PlannedMeasurement, Rules, ScannedTrial, Tally, WorkTotals};

/// The maximum number of threads that read records: with more, each would have less room and would read more often.
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
        self.shards.iter().all(|found| found.collected.counted)
    }

    fn attempt(&self) -> Option<&'a Attempt> {
        self.shards.first().map(|found| &found.attempt)
    }
}

/// The access to the records of a run.
pub(crate) struct RecordSource<'a> {
    /// Opens the records behind an artifact.
    pub(crate) open: &'a dyn Fn(&Artifact) -> Result<RecordFile, Failure>,
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
        || Failure::new(ErrorCode::Plan, format!("the workload `{}` does not say what is asked of the endpoint", workload.name));
    let work = workload.serving.as_ref().ok_or_else(missing)?;
    let tries = planned_attempts(context, case, point);
    let counted: Vec<&AttemptShards<'_>> =
        tries.iter().filter_map(|tries| tries.iter().find(|attempt| attempt.counts())).collect();
    let planned = planned_measurement(work, point);
    let files = counted.iter().map(|attempt| trial_files(attempt, planned, records.open)).collect::<Result<Vec<_>, _>>()?;
    if records.checked {
        counted
            .iter()
            .zip(&files)
            .try_for_each(|(attempt, files)| check_records(context, workload, work, point, attempt, files))?;
    }
    let measured = measure(&files, work, Limits::for_machine())?;
    let price = cost::price(context.plan, context.environments, case);
    let excluded = tries.iter().flatten().filter(|attempt| !attempt.counts()).filter_map(exclusion);
    let mut summary =
        PointSummary { excluded: excluded.collect(), ..summarise_counts(workload, case, point, &tries, files.len()) };
    let mut serving = serving_point(work, &measured, price.as_ref().err());
    serving.uncounted = uncounted_outcomes(tries.iter().flatten());
    let reported = metrics_to_report(workload, work, &mut serving.absent);
    let values = trial_values(&measured, work, &price);
    let seed = |metric: &str| seed(context.collection_manifest, case, point, metric);
    summary.metrics = metrics(&reported, &measured.trials, &values, price.as_ref().ok(), seed, &mut serving.absent)?;
    summary.serving = Some(serving);
    let outcomes = fact::outcome_rows(context, dimensions, &counted, &mut summary)?;
    let fact = fact::serving_row(context, dimensions, point, &summary, work, price.as_ref().ok())?;
    let view = PointView {
        case_id: case.case_id.clone(),
        point_id: point.point_id.clone(),
        curves: measured.curves,
        timeline: measured.timeline,
    };
    Ok(ReducedServingPoint { summary, outcomes, fact, view })
}

/// Returns the attempts of each planned trial of a point, in order, each with its shards.
fn planned_attempts<'a>(context: &RowContext<'a>, case: &Case, point: &Point) -> Vec<Vec<AttemptShards<'a>>> {
    let of_point =
        context.attempts.0.iter().filter(|(trial, _)| trial.case_id == case.case_id && trial.point_id == point.point_id);
    let by_attempt = |found: &'a [ShardAttempt]| {
        let mut tries: BTreeMap<(Block, u32), AttemptShards<'a>> = BTreeMap::new();
        for shard in found {
            let key = (shard.collected.block, shard.collected.attempt);
            tries.entry(key).or_insert(AttemptShards { shards: Vec::new() }).shards.push(shard);
        }
        for attempt in tries.values_mut() {
            attempt.shards.sort_by_key(|found| found.collected.shard.index);
        }
        tries.into_values().collect()
    };
    of_point.map(|(_, found)| by_attempt(found)).collect()
}

/// Returns the outcomes of the requests of attempts that do not count, as execute states them.
fn uncounted_outcomes<'a>(tries: impl Iterator<Item = &'a AttemptShards<'a>>) -> BTreeMap<String, Count> {
    let mut total: BTreeMap<String, Count> = BTreeMap::new();
    let shards = tries.filter(|attempt| !attempt.counts()).flat_map(|attempt| &attempt.shards);
    for (word, count) in shards.filter_map(|found| found.attempt.serving.as_ref()).flat_map(|serving| &serving.outcomes) {
        let sum = total.entry(word.clone()).or_default();
        sum.0 = sum.0.saturating_add(count.0);
    }
    total
}

/// Returns the reason why an attempt does not count: the exclusions of any of its shards.
fn exclusion(attempt: &AttemptShards<'_>) -> Option<Exclusion> {
    let first = attempt.attempt()?;
    let mut reasons: Vec<Reason> = Vec::new();
    for reason in attempt.shards.iter().flat_map(|found| &found.attempt.validity.reasons) {
        if !reasons.contains(reason) {
            reasons.push(reason.clone());
        }
    }
    Some(Exclusion { trial_id: first.trial_id.clone(), attempt: first.attempt, reasons })
}

/// Returns the measurement that each trial of a point was planned to make.
fn planned_measurement(work: &ServingWork, point: &Point) -> PlannedMeasurement {
    let users = match OfferedLoad::from_point(point) {
        Ok(OfferedLoad::Concurrency { users }) if !is_open_loop(work) => Some(users),
        _ => None,
    };
    let phase = MeasuredPhase { from_ns: signed(work.warmup_ns), duration_ns: work.duration_ns.map(signed) };
    PlannedMeasurement { phase, requests: work.requests.map(|Count(requests)| requests), users }
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
        all_lists: true,
    };
    let mut said: BTreeMap<String, u64> = BTreeMap::new();
    let (mut start, mut end) = (i64::MAX, i64::MIN);
    for found in &attempt.shards {
        let lost = || {
            Failure::new(
                ErrorCode::Records,
                format!("shard {} of trial `{}` has no records", found.collected.shard.index, first.trial_id),
            )
        };
        let outcome = found.attempt.serving.as_ref().ok_or_else(lost)?;
        files.shards.push((found.collected.shard.index, open(&outcome.records)?));
        start = start.min(signed(outcome.measured_from_ns));
        end = end.max(signed(outcome.measured_to_ns));
        files.all_lists &= outcome.chunk_lists == "all";
        for (word, count) in &outcome.outcomes {
            *said.entry(word.clone()).or_default() += count.0;
        }
    }
    files.stated_window = Some(start..end);
    files.stated_outcomes = Some(said);
    Ok(files)
}

/// Checks the records of a counted attempt against the schedule that the plan makes for it, against its window, and against
/// themselves.
fn check_records(
    context: &RowContext<'_>,
    workload: &FrozenWorkload,
    work: &ServingWork,
    point: &Point,
    attempt: &AttemptShards<'_>,
    files: &TrialFiles,
) -> Result<(), Failure> {
    let planned = context.plan.trials.iter().find(|trial| trial.trial_id == files.trial_id);
    let unplanned = || Failure::new(ErrorCode::Plan, format!("the plan has no trial `{}`", files.trial_id));
    let planned = planned.ok_or_else(unplanned)?;
    let schedule = TrialSchedule::for_attempt(workload, point, planned, context.run_id, files.attempt);
    let checked = schedule
        .map_err(Contradiction::from)
        .and_then(|schedule| consistency::check(&schedule, work, attempt, files, Limits::for_machine().threads));
    checked.map_err(|error| {
        let what =
            format!("the records of attempt {} of trial `{}` cannot be those of that attempt", files.attempt, files.trial_id);
        Failure::new(ErrorCode::RecordsDiffer, what).because(&error)
    })
}

fn signed(count: Count) -> i64 {
    i64::try_from(count.0).unwrap_or(i64::MAX)
}

/// The statistics of every trial, and the data for charts.
pub(crate) struct Measurements<'a> {
    trials: Vec<ScannedTrial<'a>>,
    distributions: Vec<Distribution>,
    curves: Vec<assay_manifest::Curve>,
    timeline: Option<assay_manifest::Timeline>,
}

/// Reads the records of the counted trials of a point.
pub(crate) fn measure<'a>(files: &'a [TrialFiles], work: &ServingWork, limits: Limits) -> Result<Measurements<'a>, Failure> {
    let mut trials = first_pass(files, work, limits)?;
    let distributions = quantile_pass(&trials, work, limits)?;
    let failed: u64 = trials.iter().map(|seen| seen.tally.requests() - seen.tally.ok()).sum();
    let mut curves: Vec<_> = distributions
        .iter()
        .filter_map(|distribution| distribution.pooled.as_ref())
        .filter_map(|pooled| {
            let failed = if pooled.metric == "icl" { 0 } else { failed };
            views::curve(pooled.metric, pooled.n, failed, &pooled.answers, |answer| pooled.ms(answer))
        })
        .collect();
    curves.sort_by_key(|curve| ["ttft", "tpot", "icl", "e2e"].iter().position(|name| *name == curve.metric));
    let timeline = trials.first_mut().map(views::timeline);
    Ok(Measurements { trials, distributions, curves, timeline })
}

fn rules(work: &ServingWork) -> Rules {
    Rules {
        open_loop: is_open_loop(work),
        has_output: work.api.capabilities().has_output_tokens,
        slos: work.slos.iter().map(|slo| (slo.metric, slo.at_most_ns.0)).collect(),
    }
}

/// Counts and sums, and determines which records count.
fn first_pass<'a>(files: &'a [TrialFiles], work: &ServingWork, limits: Limits) -> Result<Vec<ScannedTrial<'a>>, Failure> {
    let rules = rules(work);
    let see = |(place, files): (usize, &'a TrialFiles)| {
        trial::scan_trial(files, &rules, place == 0, limits.threads).map_err(|error| refused(files, &error))
    };
    files.iter().enumerate().map(see).collect()
}

/// Computes the distributions.
fn quantile_pass(trials: &[ScannedTrial<'_>], work: &ServingWork, limits: Limits) -> Result<Vec<Distribution>, Failure> {
    let unreadable = |error| Failure::new(ErrorCode::Records, "the records of a point cannot be read").because(&error);
    samples::distributions(trials, &rules(work), limits).map_err(unreadable)
}

/// The record files of a trial, outside of any run: for tools and measurements of reduce itself.
pub struct TrialRecords(Vec<TrialFiles>);

/// The statistics of one trial by metric, each with the number of its samples, or the reason why there is none.
pub type Statistics = BTreeMap<&'static str, Result<(f64, u64), String>>;

/// The first pass over a trial's records.
pub struct FirstPass<'a>(Vec<ScannedTrial<'a>>);

impl TrialRecords {
    /// Takes the records of all shards of attempt 0 of a trial of some point, in the shards' order.
    pub fn new(trial_id: TrialId, shards: Vec<RecordFile>, work: &ServingWork, point: &Point) -> Self {
        let (shards, planned) = ((0..).zip(shards).collect(), planned_measurement(work, point));
        Self(vec![TrialFiles {
            trial_id,
            attempt: 0,
            shards,
            planned,
            stated_window: None,
            stated_outcomes: None,
            all_lists: true,
        }])
    }

    /// Checks the records against the schedule that they follow, and against themselves.
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

    /// Counts and sums, and determines which records count.
    pub fn first_pass(&self, work: &ServingWork) -> Result<FirstPass<'_>, Failure> {
        first_pass(&self.0, work, Limits::for_machine()).map(FirstPass)
    }
}

impl FirstPass<'_> {
    /// Returns every distribution's statistics by metric, with the number of samples, or the reason why there is none.
    pub fn quantiles(&self, work: &ServingWork) -> Result<Statistics, Failure> {
        let distributions = quantile_pass(&self.0, work, Limits::for_machine())?;
        Ok(distributions.into_iter().flat_map(|distribution| distribution.trials.into_iter().flatten()).collect())
    }

    /// Returns every value that is a count over a count, or over the length of the measured phase. Without a price.
    pub fn rates(&self, work: &ServingWork) -> Statistics {
        let unpriced = Err("there is no price".to_owned());
        self.0.first().map(|seen| counted_values(seen, work, &unpriced)).unwrap_or_default()
    }
}

fn is_open_loop(work: &ServingWork) -> bool {
    work.arrival != ArrivalLaw::Closed
}

fn refused(files: &TrialFiles, error: &trial::TrialError) -> Failure {
    let what = format!("the records of attempt {} of trial `{}` cannot be reduced", files.attempt, files.trial_id);
    Failure::new(ErrorCode::Records, what).because(error)
}

/// Returns the totals of the requests of a point, over its counted trials.
fn serving_point(work: &ServingWork, measured: &Measurements<'_>, cost_absent: Option<&String>) -> ServingPoint {
    let tallies = || measured.trials.iter().map(|seen| &seen.tally);
    let sum = |counts: fn(&Tally) -> BTreeMap<String, u64>| {
        let mut total: BTreeMap<String, Count> = BTreeMap::new();
        for (word, count) in tallies().flat_map(counts) {
            total.entry(word).or_default().0 += count;
        }
        total
    };
    ServingPoint {
        requests: Count(tallies().map(Tally::requests).sum()),
        outcomes: sum(Tally::outcomes),
        uncounted: BTreeMap::new(),
        duration_ns: Count(measured.trials.iter().filter_map(window_ns).sum()),
        slo_met: slo_met(work, measured),
        token_sources: sum(Tally::sources),
        tpot_assumed: Count(tallies().map(|tally| tally.tpot_assumed).sum()),
        cost_absent: cost_absent.cloned(),
        absent: BTreeMap::new(),
        latency_from: if is_open_loop(work) { "intended" } else { "sent" }.to_owned(),
    }
}

/// Returns the length of the measured phase, or `None` if it has none.
fn window_ns(seen: &ScannedTrial<'_>) -> Option<u64> {
    length_ns(&seen.window)
}

fn length_ns(window: &Range<i64>) -> Option<u64> {
    window.end.checked_sub(window.start).and_then(|ns| u64::try_from(ns).ok()).filter(|ns| *ns > 0)
}

/// Returns true if the 99th percentile by nearest rank, failures and missing values beyond all others, is within every limit: if
/// at least 99 of 100 requests of all counted trials are. `None` without SLOs, and without requests.
fn slo_met(work: &ServingWork, measured: &Measurements<'_>) -> Option<bool> {
    let requests: u64 = measured.trials.iter().map(|seen| seen.tally.requests()).sum();
    let needed = (u128::from(requests) * 99).div_ceil(100);
    let within = |place: usize| {
        measured.trials.iter().filter_map(|seen| seen.tally.within.get(place)).map(|n| u128::from(*n)).sum::<u128>()
    };
    (requests > 0 && !work.slos.is_empty()).then(|| (0..work.slos.len()).all(|place| within(place) >= needed))
}

/// A metric to be reported, and its declaration.
struct RequestedMetric {
    known: KnownMetric,
    declared: Option<Metric>,
    primary: bool,
}

/// Returns the declared metrics first, in their order, then the others. A declared metric that is not known is absent with that
/// reason.
fn metrics_to_report(
    workload: &FrozenWorkload,
    work: &ServingWork,
    absent: &mut BTreeMap<String, String>,
) -> Vec<RequestedMetric> {
    let mut wanted = Vec::new();
    for metric in &workload.metrics {
        match catalog::known_metrics().find(|known| known.name == metric.path) {
            Some(known) => wanted.push(RequestedMetric { known, declared: Some(metric.clone()), primary: metric.primary }),
            None => {
                absent.insert(metric.path.clone(), "it is not a metric of serving".to_owned());
            }
        }
    }
    let by_default = |known: &KnownMetric| {
        workload.metrics.is_empty()
            && assay_manifest::default_primary_metrics(!work.slos.is_empty()).any(|name| name == known.name)
    };
    let others = catalog::known_metrics().filter(|known| workload.metrics.iter().all(|metric| metric.path != known.name));
    wanted.extend(others.map(|known| RequestedMetric { primary: by_default(&known), known, declared: None }));
    wanted
}

/// The values of one trial, by metric.
type TrialValues = Statistics;

fn trial_values(measured: &Measurements<'_>, work: &ServingWork, price: &Result<Price, String>) -> Vec<TrialValues> {
    let of_trial = |(place, seen): (usize, &ScannedTrial<'_>)| {
        let mut values: TrialValues = counted_values(seen, work, price);
        for distribution in &measured.distributions {
            values.extend(distribution.trials.get(place).into_iter().flatten().cloned());
        }
        values
    };
    measured.trials.iter().enumerate().map(of_trial).collect()
}

/// Returns every value that is a count over a count, or over the length of the measured phase.
fn counted_values(seen: &ScannedTrial<'_>, work: &ServingWork, price: &Result<Price, String>) -> TrialValues {
    let tally = &seen.tally;
    let (requests, ok) = (tally.requests(), tally.ok());
    let seconds = window_ns(seen).map(|ns| ns as f64 / 1e9);
    let no_window = || "the measured phase has no length".to_owned();
    let per_second = |shares: u128, n: u64| seconds.map(|seconds| (whole_requests(shares) / seconds, n)).ok_or_else(no_window);
    let api = work.api.capabilities();
    let no_output = (!api.has_output_tokens).then(|| format!("{} have no output tokens", api.responses));
    let output = |of: &WorkTotals, tokens: u128| match &no_output {
        Some(why) => Err(why.clone()),
        None => total(of, tokens).and_then(|tokens| per_second(tokens, of.answers)),
    };
    let no_slos = || "the workload has no SLOs".to_owned();
    let good = |value: MeasuredValue| if work.slos.is_empty() { Err(no_slos()) } else { value };
    let share = |part: u64, of: u64, why: &str| if of > 0 { Ok((part as f64 / of as f64, of)) } else { Err(why.to_owned()) };
    let mean = |sum: trial::Sum, why: &str| sum.mean().map(|mean| (mean, sum.n)).ok_or_else(|| why.to_owned());
    let none_due = "no request was due in the measured phase";
    let none_ok = || samples::no_request_ended_well(requests);
    let done = &tally.done;
    let output_rate = output(done, done.output_tokens);
    let request_rate = per_second(done.requests, done.answers);
    let documents = f64::from(work.documents());
    let document_rate = if api.input.has_documents() {
        request_rate.clone().map(|(rate, n)| (rate * documents, n))
    } else {
        Err("its requests have no documents".to_owned())
    };
    let cost = |rate: &MeasuredValue, what: &str, times: f64| {
        let price = price.as_ref().map_err(Clone::clone)?;
        match rate {
            Ok((rate, n)) if *rate > 0.0 => Ok((price.per_second() / rate * times, *n)),
            Ok(_) => Err(format!("no {what} completed in the measured phase")),
            Err(why) => Err(why.clone()),
        }
    };
    let untold = "the endpoint does not tell";
    let cached = if tally.cached.n > 0 { Ok((tally.cached.sum as f64, tally.cached.n)) } else { Err(untold.to_owned()) };
    let unmatched = "no answer has both a count of its tokens and a length that was asked for";
    BTreeMap::from([
        ("cost_per_request", cost(&request_rate, "request", 1.0)),
        ("cost_per_million_output_tokens", cost(&output_rate, "output token", 1e6)),
        ("documents_per_s", document_rate),
        ("request_throughput_per_s", request_rate),
        ("request_throughput_steady_per_s", steady_rate(seen, seen.tally.steady.requests)),
        (
            "output_tokens_steady_per_s",
            match (&no_output, tally.steady.uncounted) {
                (Some(why), _) => Err(why.clone()),
                (None, 0) => steady_rate(seen, tally.steady.output_tokens),
                (None, uncounted) => Err(uncounted_tokens(uncounted, tally.steady.answers)),
            },
        ),
        ("steady_fraction", steady_fraction(seen)),
        ("output_tokens_per_s", output_rate),
        (
            "total_tokens_per_s",
            total(done, done.input_tokens + done.output_tokens).and_then(|tokens| per_second(tokens, done.answers)),
        ),
        ("goodput_requests_per_s", good(per_second(tally.good_done.requests, tally.good_done.answers))),
        ("goodput_tokens_per_s", good(output(&tally.good_done, tally.good_done.output_tokens))),
        ("good_fraction", good(share(tally.good, requests, none_due))),
        ("error_rate", share(requests - ok, requests, none_due)),
        ("isl_tokens_asked_mean", mean(tally.isl_asked, &samples::no_response_has(ok, "a length that was asked for"))),
        ("isl_tokens_mean", mean(tally.isl, &none_ok())),
        ("isl_tokens_endpoint_mean", mean(tally.isl_endpoint, untold)),
        ("isl_endpoint_difference", input_difference(tally, untold)),
        (
            "osl_tokens_mean",
            mean(tally.osl, &no_output.clone().unwrap_or_else(|| samples::no_response_has(ok, "a count of its tokens"))),
        ),
        ("osl_mismatch_rate", share(tally.mismatched, tally.asked, unmatched)),
        ("offered_rate_per_s", offered_rate(tally)),
        ("cached_tokens", cached),
    ])
}

/// Returns the tokens of responses, if all were counted.
fn total(of: &WorkTotals, tokens: u128) -> Result<u128, String> {
    if of.uncounted == 0 { Ok(tokens) } else { Err(uncounted_tokens(of.uncounted, of.answers)) }
}

/// Converts shares of requests, or of tokens, to a number of them. Exact for whole numbers below 2^53.
fn whole_requests(shares: u128) -> f64 {
    shares as f64 / (1_u64 << SHARE_BITS) as f64
}

fn uncounted_tokens(uncounted: u64, answers: u64) -> String {
    format!("nobody counted the tokens of {uncounted} of {}", quantity(answers, "answer"))
}

/// Returns shares of requests, or of their tokens, per second while all users were busy.
fn steady_rate(seen: &ScannedTrial<'_>, shares: u128) -> MeasuredValue {
    let steady = seen.steady.as_ref().map_err(Clone::clone)?;
    let seconds = length_ns(steady).map(|ns| ns as f64 / 1e9).ok_or("it has no length")?;
    Ok((whole_requests(shares) / seconds, seen.tally.steady.answers))
}

/// Returns the part of the window in which all users were busy: the rest is ramp and drain.
fn steady_fraction(seen: &ScannedTrial<'_>) -> MeasuredValue {
    let steady = seen.steady.as_ref().map_err(Clone::clone)?;
    match (length_ns(steady), window_ns(seen)) {
        (Some(steady), Some(window)) => Ok((steady as f64 / window as f64, seen.tally.requests())),
        _ => Err("the measured phase has no length".to_owned()),
    }
}

/// Returns how many more tokens the endpoint counted in the prompts than the workload's tokenizer, as a share of the latter's.
fn input_difference(tally: &Tally, untold: &str) -> MeasuredValue {
    let (ours, theirs) = (tally.isl_compared, tally.isl_endpoint);
    match ours.sum {
        _ if ours.n == 0 => Err(untold.to_owned()),
        0 => Err("by the workload's tokenizer the prompts have no tokens".to_owned()),
        sum => Ok(((theirs.sum - sum) as f64 / sum as f64, ours.n)),
    }
}

/// Returns the number of gaps between the first and the last time of sending, over the time between them. The wait after the last
/// request has no part in it, however the trial ends.
fn offered_rate(tally: &Tally) -> MeasuredValue {
    let span = tally.sent_last_ns.zip(tally.sent_first_ns).and_then(|(last, first)| last.checked_sub(first)).filter(|ns| *ns > 0);
    match (span, tally.sent.checked_sub(1).filter(|gaps| *gaps > 0)) {
        (Some(ns), Some(gaps)) => Ok((gaps as f64 / (ns as f64 / 1e9), tally.sent)),
        _ => Err("fewer than two requests were sent at different times".to_owned()),
    }
}

/// Returns the metrics that every counted trial has; the others are absent with the reason of the first trial that lacks them.
fn metrics(
    wanted: &[RequestedMetric],
    trials: &[ScannedTrial<'_>],
    values: &[TrialValues],
    price: Option<&Price>,
    seed: impl Fn(&str) -> [u8; 32],
    absent: &mut BTreeMap<String, String>,
) -> Result<Vec<MetricSummary>, Failure> {
    let mut summaries = Vec::new();
    for wanted in wanted {
        let name = wanted.known.name;
        let of_trial = |(seen, values): (&ScannedTrial<'_>, &TrialValues)| trial_value(name, seen, values);
        let found: Result<Vec<TrialValue>, String> = trials.iter().zip(values).map(of_trial).collect();
        let found = match found {
            Ok(found) if found.is_empty() => Err("no trial counts".to_owned()),
            found => found,
        };
        match found {
            Ok(found) => summaries.push(summarise_trials(&to_reported(wanted, price), found, seed(name))?),
            Err(why) => {
                absent.insert(name.to_owned(), why);
            }
        }
    }
    Ok(summaries)
}

fn trial_value(name: &str, seen: &ScannedTrial<'_>, values: &TrialValues) -> Result<TrialValue, String> {
    let trial = seen.trial;
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

fn to_reported(wanted: &RequestedMetric, price: Option<&Price>) -> ReportedMetric {
    let unit = match wanted.known.unit {
        CURRENCY => price.map_or_else(|| CURRENCY.to_owned(), |price| price.currency.clone()),
        unit => unit.to_owned(),
    };
    let better = wanted.declared.as_ref().map(|metric| metric.better).or(wanted.known.better);
    ReportedMetric { path: wanted.known.name.to_owned(), unit, better, primary: wanted.primary }
}

/// Returns the SLO on a metric, in nanoseconds.
fn slo_ns(work: &ServingWork, metric: SloMetric) -> Option<i64> {
    work.slos.iter().find(|slo| slo.metric == metric).map(|slo| signed(slo.at_most_ns))
}

#[cfg(test)]
mod tests;
