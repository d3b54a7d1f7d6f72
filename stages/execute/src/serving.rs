//! One attempt at a serving trial: this shard's part of the load, sent to an endpoint and recorded request by request.

mod barrier;
mod exchange;
mod flush;
mod history;
mod images;
mod judge;
mod live;
mod requests;
mod row_requests;
mod sessions;
mod sink;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use assay_dataset::{Index, RowReader};
use assay_load::{
    Arrivals, ChunkLists, Connections, CustomCall, Endpoint, Excess, MeasuredLimits, Progress, Trial, TrialSummary,
};
use assay_manifest::{
    Artifact, Attempt, AttemptStatus, CacheMode, CaptureMode, ClientHealth, ClockOffset, ConnectionPolicy, Count, CustomApi,
    Dataset, Environment, FrozenWorkload, History, HostChange, HostFacts, Isolation, Plan, PlannedTrial, Point,
    ProvisionedTarget, Reason, ServingOutcome, ServingWork, SyntheticText, Target, ValidityLimits,
};
use assay_probe::{Client, CredentialError, Headers, target_tls};
use assay_record::{Outcome, Phase};
use assay_schedule::Phase::Measure;
use assay_schedule::{Stripe, TrialSchedule, drain_time};
use assay_stage::{Context, ErrorCode, Event, Failure, Secrets, Stopwatch};
use assay_tokens::{TemplateFiles, Tokenizer};
use assay_warehouse::WrittenFile;
use assay_warehouse::records::RecordWriter;

use crate::attempt::{SECRET_IN_OUTPUT, host_state};
pub(crate) use crate::serving::barrier::Barrier;
use crate::serving::barrier::{Start, lost_shard_pause};
use crate::serving::flush::FlushError;
use crate::serving::history::{HistorySink, HistoryTurns};
use crate::serving::live::LiveLatencies;
use crate::serving::requests::{Prompts, WarmPrompts};
use crate::serving::sessions::LaterTurns;
use crate::serving::sink::RecordSink;
use crate::target_pods::PodWatch;

/// The maximum requests in flight under open loop, unless the limit of files is lower.
const MAX_IN_FLIGHT: u32 = 15_000;

/// The interval between progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);

/// The interval between checks for other pods of the target: long enough that the checks cost the load nothing.
const POD_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The interval between checks for a cancel or the deadline.
const CANCEL_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Tokenizers by their digest, and datasets by that of their rows: each is read once for a block.
#[derive(Default)]
pub(crate) struct PromptSources {
    tokenizers: BTreeMap<assay_manifest::Digest, Arc<Tokenizer>>,
    datasets: BTreeMap<assay_manifest::Digest, Arc<RowReader>>,
    images: images::KnownImages,
}

/// One serving trial with the parts of the plan that its attempts need.
pub(crate) struct ServingTrial<'a> {
    trial: &'a PlannedTrial,
    /// The planned work, with facts about the endpoint that were found since.
    work: Cow<'a, ServingWork>,
    target: &'a Target,
    address: String,
    /// The addresses of the servers behind the target's own, which are flushed one by one; the target's own if there are no others.
    servers: Vec<String>,
    workload: &'a FrozenWorkload,
    point: &'a Point,
    tokenizer: Arc<Tokenizer>,
    /// The call of an API that the workload describes.
    custom: Option<Arc<CustomCall>>,
    /// The rows of the dataset; absent if prompts are synthetic.
    rows: Option<Arc<RowReader>>,
    /// The image files; absent if requests have none.
    image_files: Option<Arc<[Arc<images::SentImage>]>>,
    /// True if each attempt begins with an empty prefix cache.
    flushes: bool,
    /// The limits within which an attempt counts.
    limits: ValidityLimits,
    /// The watch over the target's pods while load runs; absent if it has none, and if another shard watches them.
    pods: Option<PodWatch<'a>>,
}

impl<'a> ServingTrial<'a> {
    /// Finds all objects of the plan that the trial names; none if its workload is not a serving workload.
    pub(crate) fn new(
        ctx: &Context,
        plan: &'a Plan,
        environment: &Environment,
        trial: &'a PlannedTrial,
        sources: &mut PromptSources,
    ) -> Result<Option<Self>, Failure> {
        let lost = |what: &str| Failure::new(ErrorCode::Plan, format!("the plan has no {what} for trial `{}`", trial.trial_id));
        let case = plan.case(&trial.case_id).ok_or_else(|| lost("case"))?;
        let workload = plan.workload(&case.workload).ok_or_else(|| lost("workload"))?;
        let Some(planned) = &workload.serving else { return Ok(None) };
        let point = case.points.iter().find(|point| point.point_id == trial.point_id).ok_or_else(|| lost("point"))?;
        let target = plan.target(&case.target).ok_or_else(|| lost("target"))?;
        let address = address(environment, target)?;
        let servers = servers(environment, target, &address);
        let work = observed_work(planned, environment, target);
        let tokenizer = tokenizer(ctx, &work, &mut sources.tokenizers)?;
        let rows = work.prompts.dataset().map(|dataset| dataset_rows(ctx, dataset, &mut sources.datasets)).transpose()?;
        let image_files =
            work.image_files.as_ref().map(|files| images::read_files(ctx, files, &mut sources.images)).transpose()?;
        let custom = work.custom.as_ref().map(custom_call).transpose()?;
        let flushes = work.cache == CacheMode::ColdFlush || plan.isolation == Isolation::Flush;
        Ok(Some(Self {
            trial,
            work,
            target,
            address,
            servers,
            workload,
            point,
            tokenizer,
            custom,
            rows,
            image_files,
            flushes,
            limits: plan.trial_policy.limits(),
            pods: None,
        }))
    }

    /// Returns the seed-determined load of one attempt.
    fn schedule(&self, ctx: &Context, attempt: u32) -> Result<TrialSchedule, Failure> {
        let index = self.rows.as_ref().map(|rows| rows.index());
        TrialSchedule::for_attempt(self.workload, self.point, self.trial, ctx.run_id(), attempt, index)
            .map_err(|error| Failure::from_error(ErrorCode::Schedule, &error))
    }

    /// Sets the watch over the target's pods.
    pub(crate) fn watching(self, pods: Option<PodWatch<'a>>) -> Self {
        Self { pods, ..self }
    }

    /// Runs one attempt. Ends it early with [`ErrorCode::Drift`] if the watched pods change, and with [`ErrorCode::ShardLost`] if
    /// another shard aborts it.
    pub(crate) fn run(&self, ctx: &Context, here: &HostFacts, attempt: u32) -> Result<Attempt, Failure> {
        self.check_shards(ctx)?;
        let schedule = self.schedule(ctx, attempt)?;
        let schedule_digest = schedule.digest();
        let headers = Headers::read(&self.target.headers).map_err(|error| unusable_credential(&error.into()))?;
        let endpoint = self.endpoint(&headers)?;
        let secrets = headers.secrets().clone();
        let barrier = Barrier::new(ctx, self.trial, attempt);
        let mut reasons = Vec::new();
        let cache_flushed = self.flush(ctx, &barrier, &mut reasons)?;
        if self.work.cache == CacheMode::Warm && own_users(ctx, &schedule) != Some(0) {
            self.warm_cache(ctx, &schedule, &endpoint)?;
        }
        let watch = ctx.clock().start();
        let warmed = self.warm_history(ctx, &schedule, &endpoint, &secrets)?;
        let warm_failure = warmed.as_ref().and_then(HistorySink::failure);
        // Other shards wait for this one. If there are none, nothing is gained by a trial that cannot count.
        if let Some(reason) = warm_failure.clone().filter(|_| ctx.shard().count == 1) {
            reasons.push(reason);
            return Ok(Attempt::new(self.trial, attempt, watch.window(), AttemptStatus::Failed, reasons));
        }
        reasons.extend(warm_failure);

        let before = host_state(ctx);
        let watch = ctx.clock().start();
        let start = barrier.wait(ctx, here)?;
        let shot = self.run_load(ctx, attempt, &schedule, endpoint, &start, secrets)?;
        let window = watch.window();
        let after = host_state(ctx);

        let mut artifacts = vec![shot.records.clone()];
        artifacts.extend(shot.responses);
        let change = HostChange { before: &before, after: &after, window_ns: window.duration_ns.0 };
        let pressure_us = change.pressure_us();
        let client = ClientHealth {
            cgroup_throttled_us: change.throttled_us().map(Count),
            cpu_pressure_us: pressure_us.map(Count),
            cpu_pressure: pressure_us.map(|us| change.share_of_window(us)),
            ..shot.finished.health(schedule.users().is_none())
        };
        let has_response = shot.finished.counts.count(Phase::Measured, Outcome::Ok) > 0;
        barrier.report_responses(ctx, has_response)?;
        // The check for measured requests covers the whole attempt: if all of a shard's few requests failed, that is its
        // measurement.
        let is_whole =
            !shot.timed_out && !shot.finished.cancelled && !shot.finished.over_saturated && !shot.finished.too_many_errors;
        let others_measure = is_idle(ctx, &schedule) || (is_whole && !has_response && barrier.others_have_responses(ctx)?);
        let (status, verdict) = judge::judge(&judge::JudgeInput {
            finished: &shot.finished,
            timed_out: shot.timed_out,
            limit: self.time_limit(),
            client: &client,
            machine: change,
            limits: &self.limits,
            missed_start: start.missed_by_ns,
            others_measure,
            has_cap: self.work.max_concurrency.is_some(),
            commonest_error: shot.told.commonest_error(),
            over_saturation: self.work.over_saturation,
            stop_on_errors: self.work.stop_on_errors,
        });
        reasons.extend(verdict);
        if shot.told.held_secret {
            let detail = "the endpoint sent a secret of the target's headers back, which was masked";
            reasons.push(Reason::new(SECRET_IN_OUTPUT, detail));
        }
        let outcome = ServingOutcome {
            schedule_digest,
            start: start.at,
            measured_from_ns: unsigned(shot.finished.measured_from_ns),
            measured_to_ns: unsigned(shot.finished.measured_to_ns),
            outcomes: outcomes(&shot.finished, Phase::Measured),
            warmup_outcomes: outcomes(&shot.finished, Phase::Warmup),
            input_tokens: Count(shot.told.tokens.input),
            output_tokens: Count(shot.told.tokens.output),
            chunk_lists: "all".to_owned(),
            client,
            cache_flushed,
            warmed_turns: warmed.map(|warmed| Count(warmed.sent)),
            idle_cut_ns: self.work.session_play().idle_cap_ns.map(|_| unsigned(shot.finished.idle_cut_ns)),
            clock: start.clock,
            records: shot.records,
        };
        Ok(Attempt {
            serving: Some(outcome),
            host_before: Some(before),
            host_after: Some(after),
            evidence: artifacts,
            ..Attempt::new(self.trial, attempt, window, status, reasons)
        })
    }

    fn time_limit(&self) -> Duration {
        Duration::from_nanos(self.work.time_limit_ns.0)
    }

    fn endpoint(&self, headers: &Headers) -> Result<Endpoint, Failure> {
        let unusable = |error: assay_load::Error| Failure::from_error(ErrorCode::Endpoint, &error);
        let mut endpoint = Endpoint::parse(&self.address).and_then(Endpoint::resolve).map_err(unusable)?;
        endpoint = endpoint.with_tls(target_tls(self.target).map_err(|error| unusable_credential(&error))?);
        for (name, value) in headers.iter() {
            let value = value.to_str().map_err(|error| Failure::from_error(ErrorCode::Header, &error))?;
            endpoint = endpoint.with_header(name.as_str(), value).map_err(unusable)?;
        }
        if let Some(name) = &self.work.session_header {
            endpoint = endpoint.with_session_header(name).map_err(unusable)?;
        }
        Ok(endpoint)
    }

    /// Makes the endpoint empty its prefix cache, if each attempt begins with an empty one, and returns the path that did it. One
    /// shard sends the request for all, and the others wait for it: a flush must not happen while another shard warms up or
    /// measures.
    fn flush(&self, ctx: &Context, barrier: &Barrier, reasons: &mut Vec<Reason>) -> Result<Option<String>, Failure> {
        if !self.flushes {
            return Ok(None);
        }
        let client = Client::for_target(self.target).map_err(|error| unusable_credential(&error))?;
        let flush = || flush::flush_all(&client, &self.servers, ctx.clock(), ctx.cancel());
        match barrier.run_in_first_shard(ctx, flush)? {
            Ok(path) => Ok(Some(path)),
            Err(FlushError::Never(said)) => Err(flush::flush_failure(self.target.name.as_str(), &said)),
            Err(FlushError::Failed(why)) => {
                reasons.push(Reason::new("cache_not_flushed", why));
                Ok(None)
            }
        }
    }

    /// Sends the shard's own prompts once, each for one token.
    fn warm_cache(&self, ctx: &Context, schedule: &TrialSchedule, endpoint: &Endpoint) -> Result<(), Failure> {
        const USERS: u32 = 16;
        let prompts =
            Prompts::new(schedule, load_stripe(ctx, schedule), Arc::clone(&self.tokenizer), self.rows.clone(), &self.work)
                .with_image_files(self.image_files.clone());
        let trial = Trial {
            arrivals: Arrivals::Closed { users: USERS },
            start_at_ns: assay_reactor::now_ns(),
            warmup_ns: 0,
            measured: MeasuredLimits::default(),
            ..self.build_trial(endpoint.clone(), 0)
        };
        let cancel = AtomicBool::new(false);
        let (ran, _) = run_with_deadline(ctx, &cancel, None, &mut || (), || {
            assay_load::run(&trial, &mut WarmPrompts::new(prompts), &mut sink::NullSink, &cancel, &Progress::new())
        })?;
        ran.map_err(|error| load_failure(&error))?;
        ctx.check_cancelled()
    }

    /// Sends the turns that bring the history of the shard's first sessions into the cache, as many at a time as the shard has users. Returns
    /// what became of them; `None` if the workload asks for none.
    fn warm_history(
        &self,
        ctx: &Context,
        schedule: &TrialSchedule,
        endpoint: &Endpoint,
        secrets: &Secrets,
    ) -> Result<Option<HistorySink>, Failure> {
        let users = own_users(ctx, schedule).filter(|_| self.work.session_play().warm_history);
        let Some(users) = users else { return Ok(None) };
        let prompts =
            Prompts::new(schedule, load_stripe(ctx, schedule), Arc::clone(&self.tokenizer), self.rows.clone(), &self.work)
                .with_image_files(self.image_files.clone());
        let trial = Trial {
            arrivals: Arrivals::Closed { users: users.clamp(1, max_in_flight()) },
            start_at_ns: assay_reactor::now_ns(),
            warmup_ns: 0,
            measured: MeasuredLimits::default(),
            connections: Connections::Pooled,
            ..self.build_trial(endpoint.clone(), 0)
        };
        let mut turns = HistoryTurns::new(prompts.scheduled(), prompts.of_rows(), users);
        let mut sink = HistorySink::new(secrets.clone());
        let cancel = AtomicBool::new(false);
        let (ran, _) = run_with_deadline(ctx, &cancel, None, &mut || (), || {
            assay_load::run(&trial, &mut turns, &mut sink, &cancel, &Progress::new())
        })?;
        ran.map_err(|error| load_failure(&error))?;
        ctx.check_cancelled()?;
        Ok(Some(sink))
    }

    fn build_trial(&self, endpoint: Endpoint, start_at_ns: i64) -> Trial {
        Trial {
            endpoint,
            api: self.work.api,
            custom: self.custom.clone(),
            streaming: self.work.is_streamed(),
            arrivals: self.open_loop(),
            start_at_ns,
            warmup_ns: signed(self.work.warmup_ns),
            measured: MeasuredLimits { duration_ns: self.work.duration_ns.map(signed), requests: None },
            late_read_ns: signed(self.limits.lateness_p99_ns),
            over_saturation: None,
            stop_on_errors: None,
            sessions: None,
            connections: match self.work.connections {
                ConnectionPolicy::Pooled => Connections::Pooled,
                ConnectionPolicy::Never => Connections::Never,
                ConnectionPolicy::Sticky => Connections::Sticky,
            },
            timeout_ns: signed(self.work.timeout_ns),
            drain_ns: i64::try_from(self.drain().as_nanos()).unwrap_or(i64::MAX),
            chunk_lists: ChunkLists::All,
            capture: match self.work.capture {
                CaptureMode::None => assay_load::Capture::None,
                CaptureMode::Digest => assay_load::Capture::Digest,
                CaptureMode::Full => assay_load::Capture::Full,
            },
            user_agent: concat!("assay/", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }

    fn drain(&self) -> Duration {
        let span = |ns: Count| Duration::from_nanos(ns.0);
        drain_time(self.work.duration_ns.map(span), span(self.work.timeout_ns))
    }

    /// Returns the arrivals of an open loop.
    fn open_loop(&self) -> Arrivals {
        match self.work.max_concurrency {
            Some(Count(cap)) => Arrivals::Open { max_in_flight: u32::try_from(cap).unwrap_or(u32::MAX), excess: Excess::Wait },
            None => Arrivals::Open { max_in_flight: max_in_flight(), excess: Excess::Drop },
        }
    }

    /// Refuses several shards of a load that only one can hold back.
    fn check_shards(&self, ctx: &Context) -> Result<(), Failure> {
        let shards = ctx.shard().count;
        if let Some(field) = self.work.one_shard_field().filter(|_| shards > 1) {
            let message = format!(
                "`{field}` of the workload `{}` holds for all requests together, and this is one of {shards} shards",
                self.workload.name
            );
            return Err(Failure::new(ErrorCode::Schedule, message).hint("measure it with one shard"));
        }
        Ok(())
    }

    /// Runs the load itself.
    fn run_load(
        &self,
        ctx: &Context,
        attempt: u32,
        schedule: &TrialSchedule,
        endpoint: Endpoint,
        start: &Start,
        secrets: Secrets,
    ) -> Result<LoadResult, Failure> {
        let stripe = load_stripe(ctx, schedule);
        let mut trial = self.build_trial(endpoint, start.monotonic_ns);
        trial.over_saturation = self.work.over_saturation.map(|most| assay_load::OverSaturation {
            in_flight: u32::try_from(most.in_flight.0.div_ceil(u64::from(ctx.shard().count.max(1)))).unwrap_or(u32::MAX),
            for_ns: signed(most.for_ns),
        });
        trial.stop_on_errors = self.work.stop_on_errors.map(|limit| own_errors(limit, ctx.shard().count));
        trial.measured.requests = schedule.request_limit().map(|requests| stripe.share(requests));
        let mut prompts = Prompts::new(schedule, stripe, Arc::clone(&self.tokenizer), self.rows.clone(), &self.work)
            .with_image_files(self.image_files.clone());
        if let Some(users) = own_users(ctx, schedule) {
            trial.arrivals = if schedule.has_grid() {
                // Of many users, few have a request in flight at a time.
                Arrivals::Users { users: users.clamp(1, max_in_flight()) }
            } else {
                Arrivals::Closed { users: users.max(1) }
            };
            // A shard without its own users still takes part, with no request.
            if users == 0 {
                prompts.disable();
                trial.measured.requests = trial.measured.requests.map(|_| 0);
            }
        }
        trial.sessions = self.work.sessions.as_ref().map(|sessions| assay_load::Sessions {
            history: history(sessions.history),
            most_streams: most_streams(schedule, trial.arrivals),
            idle_cap_ns: sessions.play.idle_cap_ns.map(signed),
        });
        let mut later_turns = self.work.sessions.as_ref().map(|sessions| LaterTurns::new(prompts.clone(), &self.work, sessions));
        let shard = ctx.shard().index;
        let folder = ctx.scratch().join(format!("serving-{}-{attempt}", self.trial.index));
        std::fs::create_dir_all(&folder).map_err(|error| unwritable(&folder, &error))?;
        let path = folder.join("records.parquet");
        let out = BufWriter::new(File::create(&path).map_err(|error| unwritable(&path, &error))?);
        let writer = RecordWriter::new(out, attempt, shard).map_err(|error| Failure::from_error(ErrorCode::Internal, &error))?;
        let responses = folder.join("responses.jsonl");
        let kept_responses = (self.work.capture == CaptureMode::Full).then_some(responses.as_path());
        let live = Arc::new(LiveLatencies::default());
        let mut sink = RecordSink::new(writer, kept_responses, secrets, Arc::clone(&live))
            .map_err(|error| unwritable(&responses, &error))?;

        let (cancel, progress) = (AtomicBool::new(false), Progress::new());
        let limit = i64::try_from(self.time_limit().as_nanos()).unwrap_or(i64::MAX);
        let deadline = start.monotonic_ns.saturating_add(limit);
        let mut teller = ProgressReporter::new(ctx, self.trial, attempt, &trial, &progress, &live);
        let shards = (ctx.shard().count > 1).then(|| {
            let barrier = Barrier::new(ctx, self.trial, attempt);
            move || find_lost_shard(ctx, &barrier)
        });
        let (ran, lost) = run_watching(lost_shard_pause, shards, &cancel, || {
            let pods = self.pods.as_ref().map(|pods| || pods.check());
            let load = || {
                run_with_deadline(ctx, &cancel, Some(deadline), &mut || teller.report(), || match &mut later_turns {
                    Some(turns) => assay_load::run_sessions(&trial, &mut prompts, turns, &mut sink, &cancel, &progress),
                    None => assay_load::run(&trial, &mut prompts, &mut sink, &cancel, &progress),
                })
            };
            run_watching(|_| POD_CHECK_INTERVAL, pods, &cancel, load)
        })?;
        let (ran, changed) = ran?;
        if let Some(ended) = lost.or(changed) {
            return Err(ended);
        }
        let (finished, timed_out) = ran?;
        let finished = finished.map_err(|error| Failure::from_write(ErrorCode::Load, &folder, &error))?;
        let (told, written): (_, WrittenFile) =
            sink.finish().map_err(|error| Failure::from_write(ErrorCode::Scratch, &folder, &*error))?;
        let name = |what: &str| format!("trials/{}/{attempt}/{shard}/{what}", self.trial.trial_id);
        let records = ctx.put_file(name("records.parquet"), "application/vnd.apache.parquet", &path)?;
        if records.digest != written.digest {
            return Err(Failure::new(ErrorCode::Scratch, "the records that were read back are not those that were written"));
        }
        let responses = match self.work.capture {
            CaptureMode::Full => Some(ctx.put_file(name("responses.jsonl"), "application/jsonl", &responses)?),
            CaptureMode::None | CaptureMode::Digest => None,
        };
        if let Err(error) = std::fs::remove_dir_all(&folder) {
            tracing::warn!(folder = %folder.display(), %error, "the folder of an attempt was not removed");
        }
        Ok(LoadResult { finished, timed_out, told, records, responses })
    }
}

/// Returns this shard's part of the load.
fn stripe(ctx: &Context) -> Stripe {
    let shard = ctx.shard();
    Stripe::new(shard.index, shard.count).unwrap_or(Stripe::WHOLE)
}

/// Returns this shard's part of the requests; for a shard without a user, the part that it would have, which it does not send.
fn load_stripe(ctx: &Context, schedule: &TrialSchedule) -> Stripe {
    schedule.stripe(ctx.shard()).ok().flatten().unwrap_or_else(|| stripe(ctx))
}

/// Returns this shard's number of users; absent in an open loop without users.
fn own_users(ctx: &Context, schedule: &TrialSchedule) -> Option<u32> {
    schedule.users().map(|users| u32::try_from(stripe(ctx).share(users)).unwrap_or(u32::MAX))
}

/// Returns true if other shards have requests to measure and this one has none: no user, or none of the few requests.
fn is_idle(ctx: &Context, schedule: &TrialSchedule) -> bool {
    let is_none_own = || schedule.shard_requests(Measure, load_stripe(ctx, schedule)).next().is_none();
    own_users(ctx, schedule) == Some(0) || (is_none_own() && schedule.requests(Measure).next().is_some())
}

/// The result of the load of an attempt.
struct LoadResult {
    finished: TrialSummary,
    timed_out: bool,
    told: sink::RecordSummary,
    records: Artifact,
    responses: Option<Artifact>,
}

/// Runs `work` while another thread sets `cancel` once the stage is stopped or the deadline has passed, and calls `look`
/// periodically. Returns true with the result if the deadline has passed.
fn run_with_deadline<T>(
    ctx: &Context,
    cancel: &AtomicBool,
    deadline: Option<i64>,
    look: &mut (dyn FnMut() + Send),
    work: impl FnOnce() -> T,
) -> Result<(T, bool), Failure> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = || {
            while !done.load(Ordering::Acquire) {
                let stopped = ctx.cancel().wait_timeout(CANCEL_CHECK_INTERVAL);
                let timed_out = !stopped && deadline.is_some_and(|deadline| assay_reactor::now_ns() >= deadline);
                if stopped || timed_out {
                    cancel.store(true, Ordering::Release);
                    return timed_out;
                }
                look();
            }
            false
        };
        let watching = std::thread::Builder::new().spawn_scoped(scope, watch).map_err(|error| thread_failure(&error))?;
        let result = work();
        done.store(true, Ordering::Release);
        Ok((result, watching.join().unwrap_or(false)))
    })
}

/// Runs `work` while another thread calls `look`, with a pause that depends on the time so far, and sets `cancel` once it returns a
/// failure, which is returned with the result. It is a separate thread because a store or an API server may be slow and a deadline may
/// not.
fn run_watching<T>(
    pause: impl Fn(Duration) -> Duration + Send,
    look: Option<impl FnMut() -> Option<Failure> + Send>,
    cancel: &AtomicBool,
    work: impl FnOnce() -> T,
) -> Result<(T, Option<Failure>), Failure> {
    let Some(mut look) = look else { return Ok((work(), None)) };
    let (done, since) = (&AtomicBool::new(false), assay_reactor::now_ns());
    std::thread::scope(|scope| {
        let watch = move || {
            while !done.load(Ordering::Acquire) {
                if let Some(failure) = look() {
                    cancel.store(true, Ordering::Release);
                    return Some(failure);
                }
                let elapsed_ns = u64::try_from(assay_reactor::now_ns() - since).unwrap_or(0);
                std::thread::park_timeout(pause(Duration::from_nanos(elapsed_ns)));
            }
            None
        };
        let watching = std::thread::Builder::new().spawn_scoped(scope, watch).map_err(|error| thread_failure(&error))?;
        let result = work();
        done.store(true, Ordering::Release);
        watching.thread().unpark();
        Ok((result, watching.join().unwrap_or(None)))
    })
}

/// Returns the failure [`ErrorCode::ShardLost`] if another shard has aborted the attempt.
fn find_lost_shard(ctx: &Context, barrier: &Barrier) -> Option<Failure> {
    let failure = barrier.check_not_aborted(ctx).err()?;
    if failure.code == ErrorCode::ShardLost {
        return Some(failure);
    }
    // A store that is unavailable for a moment is no evidence about the other shards.
    tracing::warn!(%failure, "the other shards cannot be looked for");
    None
}

/// Returns the failure of a thread that cannot be started.
fn thread_failure(error: &std::io::Error) -> Failure {
    Failure::new(ErrorCode::Threads, "cannot start a thread").because(error)
}

/// Reports the progress of the load periodically.
struct ProgressReporter<'a> {
    ctx: &'a Context,
    trial: &'a PlannedTrial,
    attempt: u32,
    load: &'a Trial,
    progress: &'a Progress,
    live: &'a LiveLatencies,
    since: Stopwatch,
    told: Duration,
}

impl<'a> ProgressReporter<'a> {
    fn new(
        ctx: &'a Context,
        trial: &'a PlannedTrial,
        attempt: u32,
        load: &'a Trial,
        progress: &'a Progress,
        live: &'a LiveLatencies,
    ) -> Self {
        Self { ctx, trial, attempt, load, progress, live, since: ctx.clock().start(), told: Duration::ZERO }
    }

    fn report(&mut self) {
        let elapsed = Duration::from_nanos(self.since.elapsed_ns());
        if elapsed < self.told + PROGRESS_INTERVAL {
            return;
        }
        self.told = elapsed;
        let seen = self.progress.read();
        self.ctx.emit(Event::Load {
            trial: self.trial.trial_id.clone(),
            attempt: self.attempt,
            sent: seen.sent,
            in_flight: seen.in_flight,
            ok: seen.ok,
            failed: seen.failed + seen.dropped,
            token_events: seen.token_events,
            output_tokens: self.live.output_tokens(),
            elapsed_ns: unsigned(assay_reactor::now_ns() - self.load.start_at_ns).0,
            warmup_ns: unsigned(self.load.warmup_ns).0,
            duration_ns: self.load.measured.duration_ns.map(|duration| unsigned(duration).0),
            ttft: self.live.ttft(),
            tpot: self.live.tpot(),
        });
    }
}

/// Returns the planned work; if provision found a server that supports token counts per chunk, they are requested, whatever stack
/// the target declares.
fn observed_work<'a>(planned: &'a ServingWork, environment: &Environment, target: &Target) -> Cow<'a, ServingWork> {
    let found = environment.targets.iter().find(|found| found.id == target.name);
    let server = found.and_then(|found| found.server.as_ref()?.value.as_deref());
    planned.for_server(server)
}

/// Returns the address of the target, as provision found it.
fn address(environment: &Environment, target: &Target) -> Result<String, Failure> {
    let provisioned: Option<&ProvisionedTarget> = environment.targets.iter().find(|provisioned| provisioned.id == target.name);
    provisioned.and_then(|target| target.address.clone()).ok_or_else(|| {
        Failure::new(ErrorCode::NoAddress, format!("the environment does not say where the target `{}` is", target.name))
    })
}

/// Returns the addresses of the servers behind a target's own, as provision found them; its own if there are no others.
fn servers(environment: &Environment, target: &Target, address: &str) -> Vec<String> {
    let found = environment.targets.iter().filter(|found| found.id == target.name).flat_map(|found| &found.replicas);
    let servers: Vec<String> = found.map(|replica| replica.address.clone()).collect();
    if servers.is_empty() { vec![address.to_owned()] } else { servers }
}

/// Returns the rows of a dataset. The file of rows stays open in the stage's scratch folder.
fn dataset_rows(
    ctx: &Context,
    dataset: &Dataset,
    known: &mut BTreeMap<assay_manifest::Digest, Arc<RowReader>>,
) -> Result<Arc<RowReader>, Failure> {
    if let Some(rows) = known.get(&dataset.rows.digest) {
        return Ok(Arc::clone(rows));
    }
    let index = Index::parse(&ctx.get(&dataset.index, Index::MAX_BYTES)?)
        .map_err(|error| Failure::from_error(ErrorCode::Dataset, &error))?;
    let file = ctx.materialise(&dataset.rows)?.open()?;
    let rows = Arc::new(RowReader::new(Arc::new(index), file));
    known.insert(dataset.rows.digest, Arc::clone(&rows));
    Ok(rows)
}

/// Returns the call of an API that the workload describes.
fn custom_call(custom: &CustomApi) -> Result<Arc<CustomCall>, Failure> {
    let responses = custom
        .check()
        .map_err(|error| Failure::new(ErrorCode::Plan, "the description of the workload's API cannot be used").because(&error))?;
    Ok(Arc::new(CustomCall { path: custom.path.clone(), responses }))
}

/// Returns the tokenizer of a file, with its chat template if it has one.
fn tokenizer_of_file(
    ctx: &Context,
    planned: &assay_manifest::Tokenizer,
    file: &assay_manifest::PinnedFile,
) -> Result<Tokenizer, Failure> {
    let unusable = |error: assay_tokens::TokenizerError| Failure::from_error(ErrorCode::Tokenizer, &error);
    let bytes = ctx.get(&file.artifact, assay_tokens::MAX_FILE_BYTES as u64)?;
    let tokenizer = Tokenizer::load(&bytes, planned.pattern.as_deref()).map_err(unusable)?;
    let Some(template) = &planned.template else { return Ok(tokenizer) };
    let get = |file: &assay_manifest::PinnedFile| ctx.get(&file.artifact, assay_tokens::MAX_TEMPLATE_BYTES as u64);
    let [config, file] = [&template.config, &template.file].map(|file| file.as_ref().map(get).transpose());
    let (config, file) = (config?, file?);
    let files = TemplateFiles { config: config.as_deref(), template: file.as_deref() };
    let tokenizer = tokenizer.with_template(&files, template.usage).map_err(unusable)?;
    if tokenizer.template_tokens() != Some(template.tokens) {
        let found = tokenizer.template_tokens().unwrap_or(0);
        let message = format!("the chat template has {found} tokens, and the plan states {}", template.tokens);
        return Err(Failure::new(ErrorCode::TokenizerDiffers, message));
    }
    Ok(tokenizer)
}

fn tokenizer(
    ctx: &Context,
    work: &ServingWork,
    known: &mut BTreeMap<assay_manifest::Digest, Arc<Tokenizer>>,
) -> Result<Arc<Tokenizer>, Failure> {
    let of_kind = |tokenizer: &Tokenizer| {
        let mut tokenizer = tokenizer.clone().with_text(work.text.unwrap_or(SyntheticText::Words));
        if work.sessions.is_some() {
            tokenizer = tokenizer.of_messages();
        }
        let made = match work.token_ids {
            Some(ids) => tokenizer.with_token_ids(ids),
            None => Ok(tokenizer),
        };
        made.map(Arc::new).map_err(|error| Failure::from_error(ErrorCode::Tokenizer, &error))
    };
    if let Some(tokenizer) = known.get(&work.tokenizer.digest) {
        return of_kind(tokenizer);
    }
    let read = match &work.tokenizer.file {
        None => Tokenizer::built_in(),
        Some(file) => tokenizer_of_file(ctx, &work.tokenizer, file)?,
    };
    if work.tokenizer.file.is_none() && read.digest() != work.tokenizer.digest {
        return Err(Failure::new(ErrorCode::TokenizerDiffers, "the plan was made with another version of the built-in words"));
    }
    let read = Arc::new(read);
    known.insert(work.tokenizer.digest, Arc::clone(&read));
    of_kind(&read)
}

/// Returns the most turns of a session that may be in flight at a time: those of the session that forks most, if all users together then have no
/// more connections than a process may have.
fn most_streams(schedule: &TrialSchedule, arrivals: Arrivals) -> u32 {
    let of_user = match arrivals {
        Arrivals::Closed { users } => max_in_flight() / users.max(1),
        Arrivals::Open { .. } | Arrivals::Users { .. } => u32::MAX,
    };
    schedule.most_streams().min(of_user).max(1)
}

/// Returns the connections that the limit of open files allows, at most [`MAX_IN_FLIGHT`].
fn max_in_flight() -> u32 {
    assay_load::most_connections().min(MAX_IN_FLIGHT)
}

fn outcomes(finished: &TrialSummary, phase: Phase) -> BTreeMap<String, Count> {
    let of = |outcome: &Outcome| (outcome.to_string(), Count(finished.counts.count(phase, *outcome)));
    Outcome::ALL.iter().map(of).filter(|(_, count)| count.0 > 0).collect()
}

/// Returns the failure for a header or a certificate that cannot be read from its reference, or not be used.
pub(crate) fn unusable_credential(error: &CredentialError) -> Failure {
    Failure::from_error(ErrorCode::SecretAbsent, error).hint_if(error.hint())
}

fn load_failure(error: &assay_load::Error) -> Failure {
    Failure::from_error(ErrorCode::Load, error)
}

fn history(history: History) -> assay_load::History {
    match history {
        History::Recorded => assay_load::History::Recorded,
        History::Live => assay_load::History::Live,
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::unwritable(ErrorCode::Scratch, path, error)
}

/// Converts nanoseconds that are not negative if they are meaningful.
fn unsigned(ns: i64) -> Count {
    Count(u64::try_from(ns).unwrap_or(0))
}

/// Returns the failed requests of one shard that end its trial.
fn own_errors(limit: assay_manifest::ErrorLimit, shards: u32) -> assay_load::ErrorLimit {
    let narrowed = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    assay_load::ErrorLimit {
        count: limit.count_of_shard(shards),
        recent: limit.recent.map(|recent| assay_load::RecentErrors {
            failures: narrowed(recent.failures()),
            of_last: narrowed(recent.of_last.0),
        }),
    }
}

fn signed(ns: Count) -> i64 {
    i64::try_from(ns.0).unwrap_or(i64::MAX)
}

/// Returns the clock of the only shard, or of one on the same boot as shard 0.
fn same_host() -> ClockOffset {
    let (source, offset_ns) = ("same_host".to_owned(), Some("0".to_owned()));
    ClockOffset { source, offset_ns, uncertainty_ns: Some(Count(0)), no_exchange: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "the form of a look that finds something")]
    fn drift() -> Option<Failure> {
        Some(Failure::new(ErrorCode::Drift, "other pods"))
    }

    #[test]
    fn a_failure_of_a_watch_ends_the_work_and_is_returned_with_its_result() {
        let cancel = AtomicBool::new(false);
        let work = || {
            // Without the failure this would not end.
            while !cancel.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            7
        };
        let ran = run_watching(|_| Duration::from_hours(1), Some(drift), &cancel, work).expect("a thread");
        assert_eq!(ran, (7, drift()));
    }

    #[test]
    fn work_that_ends_does_not_wait_for_its_watch() {
        let cancel = AtomicBool::new(false);
        let never = None::<fn() -> Option<Failure>>;
        assert_eq!(run_watching(|_| Duration::from_hours(1), never, &cancel, || 7).expect("no thread"), (7, None));
        assert_eq!(run_watching(|_| Duration::from_hours(1), Some(|| None), &cancel, || 7).expect("a thread"), (7, None));
        assert!(!cancel.load(Ordering::Acquire));
    }
}
