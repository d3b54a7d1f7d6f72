//! Checks of records against their claims: the requests of their trial's schedule, each once, with times that follow one another
//! and lie within their attempt, and with the sums that execute signed.
//!
//! They do not prove that times were measured: a holder of execute's key can write times that fit.

mod sessions;

use std::collections::{BTreeMap, VecDeque};

use assay_manifest::{ConnectionPolicy, Count, Digest, ServingOutcome, ServingWork, SessionPlay, Shard};
use assay_record::{Outcome, Phase, TokenSource, UsageFault, exceeds_limit, is_abort};
use assay_schedule::{Phase as PlannedPhase, Requests, ScheduleError, ScheduledRequest, Stripe, TrialSchedule};
use assay_warehouse::records::{Batch, Ints, RecordColumn as Column, RecordError, RecordFile};

use super::trial::in_parallel;
use super::{AttemptShards, PlannedMeasurement, is_open_loop};
use crate::serving::TrialFiles;
use sessions::AwaitedTurns;

/// The reason why records cannot be those of their attempt.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Contradiction {
    /// A file cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The plan's load cannot be made.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// Execute signed nothing about the records.
    #[error("execute states nothing about shard {shard}")]
    NoOutcome {
        /// The shard.
        shard: u32,
    },
    /// Execute names another schedule.
    #[error("execute states the schedule {stated}, but the plan's is {planned}")]
    OtherSchedule {
        /// The schedule that execute names.
        stated: Digest,
        /// The schedule of the plan.
        planned: Digest,
    },
    /// One record is impossible.
    #[error("request {index} of the {phase} phase (row {row} of shard {shard}) {what}")]
    Request {
        /// Its place in the schedule, by the record.
        index: i64,
        /// Its phase, by the record.
        phase: Phase,
        /// Its row.
        row: u64,
        /// The shard.
        shard: u32,
        /// The problem.
        what: &'static str,
    },
    /// A turn of a session has no record.
    #[error("turn {turn} of session {session} was due in shard {shard} and has no record")]
    MissingTurn {
        /// The session.
        session: u64,
        /// The turn, from 0.
        turn: u32,
        /// The shard.
        shard: u32,
    },
    /// More sessions of a closed loop are played than it has users.
    #[error("at {at_ns} ns more than {users} sessions of shard {shard} are under way, which has {users} users")]
    TooManySessions {
        /// The shard.
        shard: u32,
        /// Its users.
        users: u64,
        /// The time at which the session too many began.
        at_ns: i64,
    },
    /// Nothing is in flight for longer than the idle cap allows.
    #[error("after {at_ns} ns nothing of shard {shard} was in flight for longer than the idle cap of {cap_ns} ns")]
    TooLongIdle {
        /// The shard.
        shard: u32,
        /// The end of the last turn before.
        at_ns: i64,
        /// The cap.
        cap_ns: i64,
    },
    /// A turn came earlier by another time than the others.
    #[error(
        "the turn of shard {shard} that was due at {at_ns} ns states that waiting turns had come earlier by {stated_ns} ns, and by the others it is {known_ns} ns"
    )]
    OtherIdleCut {
        /// The shard.
        shard: u32,
        /// The time at which the turn was due.
        at_ns: i64,
        /// The idle time that was cut by the turns before.
        known_ns: i64,
        /// The idle time that was cut by this turn.
        stated_ns: i64,
    },
    /// A request has no record.
    #[error("request {index} of the {phase} phase was due by the schedule of shard {shard} and has no record")]
    Missing {
        /// Its place in the schedule.
        index: u64,
        /// Its phase.
        phase: Phase,
        /// The shard.
        shard: u32,
    },
    /// More requests of a closed loop are in flight than it has users.
    #[error("at {at_ns} ns more than {users} requests of shard {shard} are under way, which has {users} users")]
    TooManyInFlight {
        /// The shard.
        shard: u32,
        /// Its users.
        users: u64,
        /// The time at which the request too many began.
        at_ns: i64,
    },
    /// More requests of an open loop are in flight than its cap allows.
    #[error("at {at_ns} ns more than {cap} requests of shard {shard} are under way, and `max_concurrency` is {cap}")]
    AboveCap {
        /// The shard.
        shard: u32,
        /// The cap.
        cap: u64,
        /// The time at which the request too many began.
        at_ns: i64,
    },
    /// A request waited for a place until a time at which no request ended.
    #[error("a request of shard {shard} waited until {at_ns} ns, when no other one ended")]
    NoPlace {
        /// The shard.
        shard: u32,
        /// The time at which the request states that there was a place for it.
        at_ns: i64,
    },
    /// Execute signed another sum.
    #[error("execute states {stated} {what} of shard {shard}, but its records have {actual}")]
    OtherSum {
        /// The shard.
        shard: u32,
        /// The quantity that is summed.
        what: &'static str,
        /// The sum that execute states.
        stated: String,
        /// The sum of the records.
        actual: String,
    },
}

/// Checks the records of every shard of an attempt.
pub(super) fn check(
    schedule: &TrialSchedule,
    work: &ServingWork,
    attempt: &AttemptShards<'_>,
    files: &TrialFiles,
    threads: usize,
) -> Result<(), Contradiction> {
    let planned = schedule.digest();
    let shards: Vec<_> = attempt.shards.iter().zip(files.shards.iter().map(|(_, file)| file)).collect();
    let checked = in_parallel(threads, &shards, |(of_shard, file)| {
        let shard = of_shard.collected.shard;
        let outcome = of_shard.attempt.serving.as_ref().ok_or(Contradiction::NoOutcome { shard: shard.index })?;
        if outcome.schedule_digest != planned {
            return Err(Contradiction::OtherSchedule { stated: outcome.schedule_digest, planned });
        }
        let attempt_ns = i64::try_from(of_shard.attempt.window.duration_ns.0).unwrap_or(i64::MAX);
        let rules = Rules::new(schedule, work, shard, files.planned, attempt_ns);
        rules.check(schedule, file)?.check(shard, outcome)
    });
    checked.map(|_| ())
}

/// The rules that every record of a shard obeys.
pub(super) struct Rules<'a> {
    shard: Shard,
    work: &'a ServingWork,
    /// The number of documents of a request.
    documents: u32,
    streaming: bool,
    /// True if prompts are token ids, whose number is exact.
    has_token_ids: bool,
    /// Set under closed loop, in which the clock decides to which phase a request belongs.
    closed: Option<PlannedMeasurement>,
    /// The most requests in flight of an open loop; `None` if no due request waits.
    cap: Option<u64>,
    /// True if each request opens a connection, and its latencies count from before that.
    is_connecting: bool,
    /// The planned measurement.
    planned: PlannedMeasurement,
    /// The way in which users play sessions.
    play: SessionPlay,
    /// The duration of the attempt in nanoseconds, from before the start to after the last end.
    attempt_ns: i64,
}

/// The columns that are checked against schedule and attempt.
const COLUMNS: &[Column] = &[
    Column::GlobalIndex,
    Column::Phase,
    Column::Outcome,
    Column::RequestId,
    Column::Intended,
    Column::Ready,
    Column::Dequeued,
    Column::ConnectStart,
    Column::ConnectEnd,
    Column::Sent,
    Column::WriteDone,
    Column::FirstByte,
    Column::FirstToken,
    Column::FirstContent,
    Column::LastToken,
    Column::End,
    Column::HttpStatus,
    Column::FinishReason,
    Column::InputTokensRequested,
    Column::InputTokens,
    Column::InputTokensEndpoint,
    Column::CachedTokens,
    Column::OutputTokensRequested,
    Column::OutputTokens,
    Column::OutputSource,
    Column::OutputTokensClaimed,
    Column::UsageFault,
    Column::FirstEventTokens,
    Column::TokenEvents,
    Column::Session,
    Column::Turn,
    Column::Stream,
    Column::SessionTurns,
    Column::SessionDone,
    Column::SessionStart,
    Column::SessionPauses,
    Column::Planned,
];

impl<'a> Rules<'a> {
    pub(super) fn new(
        schedule: &TrialSchedule,
        work: &'a ServingWork,
        shard: Shard,
        planned: PlannedMeasurement,
        attempt_ns: i64,
    ) -> Self {
        Self {
            shard,
            work,
            documents: work.documents(),
            streaming: work.is_streamed(),
            has_token_ids: work.token_ids.is_some(),
            closed: schedule.users().map(|_| planned).filter(|_| !is_open_loop(work)),
            cap: work.max_concurrency.map(|Count(cap)| cap),
            is_connecting: work.connections == ConnectionPolicy::Never,
            planned,
            play: work.session_play(),
            attempt_ns,
        }
    }

    /// Checks every record against the rules, and returns their sums.
    pub(super) fn check(&self, schedule: &TrialSchedule, file: &RecordFile) -> Result<RecordSums, Contradiction> {
        let stripe = schedule.stripe(self.shard)?;
        file.check_counts()?;
        if schedule.has_sessions() {
            return self.check_sessions(schedule, stripe, file);
        }
        let mut warmup = AwaitedRequests::new(schedule, PlannedPhase::WarmUp, stripe, file.rows());
        let mut measured = AwaitedRequests::new(schedule, PlannedPhase::Measure, stripe, file.rows());
        let mut times = RequestTimes::default();
        let sums = self.check_each(file, |request, phase| {
            let awaited = if phase == Phase::Warmup { &mut warmup } else { &mut measured };
            self.check_request(request, awaited.take(request.index)?, phase)?;
            if self.closed.is_some() || self.cap.is_some() {
                times.add(request);
            }
            Ok(())
        })?;
        match (self.users()?, self.cap) {
            (Some(users), _) => times.check_users(self.shard, users)?,
            (None, Some(cap)) => times.check_cap(self.shard, cap)?,
            (None, None) => {}
        }
        warmup.finish(Phase::Warmup, self.shard, self.ends_by_clock(Phase::Warmup))?;
        measured.finish(Phase::Measured, self.shard, self.ends_by_clock(Phase::Measured))?;
        Ok(sums)
    }

    /// Checks the records of turns of sessions.
    fn check_sessions(
        &self,
        schedule: &TrialSchedule,
        stripe: Option<Stripe>,
        file: &RecordFile,
    ) -> Result<RecordSums, Contradiction> {
        let cap_ns = self.play.idle_cap_ns.map(|cap| i64::try_from(cap.0).unwrap_or(i64::MAX));
        let mut turns = AwaitedTurns::new(schedule, stripe, self.planned, file.rows(), cap_ns);
        let mut sums = self.check_each(file, |request, phase| self.check_turn(request, turns.take(request, phase)?))?;
        sums.idle_cut_ns = turns.finish(self.shard, self.users()?)?.map(|ns| u64::try_from(ns).unwrap_or(0));
        sums.warmed_turns = self.warmed_turns(schedule)?;
        Ok(sums)
    }

    /// Returns the number of turns that the shard sends before the trial so that a cache holds the history of its first sessions.
    fn warmed_turns(&self, schedule: &TrialSchedule) -> Result<Option<u64>, Contradiction> {
        if !self.play.warm_history {
            return Ok(None);
        }
        let (users, stripe) = (self.users()?.unwrap_or(0), schedule.stripe(self.shard)?);
        let mut requests = schedule.shard_requests(PlannedPhase::Measure, stripe.unwrap_or(Stripe::WHOLE));
        let sessions = (0..users).map_while(|_| requests.next_session()).collect::<Vec<_>>();
        Ok(Some(sessions.iter().map(|session| requests.history_turns(session).len() as u64).sum()))
    }

    /// Checks every record with `check`, which says what is wrong with one, and returns their sums.
    fn check_each(
        &self,
        file: &RecordFile,
        mut check: impl FnMut(&Request, Phase) -> Result<(), &'static str>,
    ) -> Result<RecordSums, Contradiction> {
        let mut sums = RecordSums::default();
        for batch in file.batches(COLUMNS, 0..file.row_groups())? {
            let batch = batch?;
            let columns = Columns::new(&batch)?;
            for (row, phase) in columns.phases.iter().enumerate() {
                let request = Request { is_aborted: batch.finish_reason(row)?.is_some_and(is_abort), ..columns.request(row) };
                check(&request, *phase).map_err(|what| Contradiction::Request {
                    index: request.index,
                    phase: *phase,
                    row: batch.first_row() + row as u64,
                    shard: self.shard.index,
                    what,
                })?;
                sums.add(&request, *phase);
            }
        }
        Ok(sums)
    }

    /// Returns the shard's share of the users of a closed loop, or `None` if the loop is open.
    fn users(&self) -> Result<Option<u64>, Contradiction> {
        let Some(all) = self.closed.and_then(|planned| planned.users) else { return Ok(None) };
        Ok(Some(Stripe::new(self.shard.index, self.shard.count)?.share(all)))
    }

    /// Checks a record against the turn that it is of; its times are checked already.
    fn check_turn(&self, request: &Request, due: ScheduledRequest) -> Result<(), &'static str> {
        self.check_work(request, &due)?;
        let begun = request.dequeued.ok_or("was never begun")?;
        ensure(request.intended.is_some_and(|intended| intended <= begun), "was begun before it was due")?;
        self.check_course(request)
    }

    /// Returns true if the clock may have ended the phase of a closed loop before all of its requests were due.
    fn ends_by_clock(&self, phase: Phase) -> bool {
        self.closed.is_some_and(|planned| phase == Phase::Warmup || planned.phase.duration_ns.is_some())
    }

    fn check_request(&self, request: &Request, due: ScheduledRequest, phase: Phase) -> Result<(), &'static str> {
        self.check_work(request, &due)?;
        // A user of a closed loop opens a connection as soon as it takes the request up.
        let due_ns = due.offset_ns.or(request.dequeued.filter(|_| self.is_connecting));
        ensure(request.intended == due_ns, "was due at another time than by its schedule")?;
        ensure(request.is_alone(), "belongs to a session, and its trial has none")?;
        self.check_phase(request, phase)?;
        self.check_ready(request)?;
        self.check_course(request)
    }

    /// Checks the time at which there was a place for a request: only a cap over an open loop lets one wait, and only until it is begun.
    fn check_ready(&self, request: &Request) -> Result<(), &'static str> {
        let is_begun = self.cap.is_some() && request.outcome != Outcome::Dropped;
        ensure(request.ready.is_some() == is_begun, "states a time at which there was a place for it, or lacks one")?;
        let follows = request.ready.is_none_or(|ready| request.intended <= Some(ready) && Some(ready) <= request.dequeued);
        ensure(follows, "had its place before it was due, or after it was begun")
    }

    /// Checks that the requested work is that of the schedule.
    fn check_work(&self, request: &Request, due: &ScheduledRequest) -> Result<(), &'static str> {
        let asked = i64::from(due.total_input_tokens(self.documents));
        ensure(request.id == due.request_id, "has another id than by its schedule")?;
        ensure(request.input_tokens_requested == Some(asked), "asks for another length of prompt than its schedule")?;
        ensure(!self.has_token_ids || request.input_tokens == asked, "has another number of token ids than was asked for")?;
        ensure(request.output_tokens_requested == due.output_tokens.map(i64::from), "asks for another length than its schedule")?;
        check_cancellation(request, due.cancel_after_ns)?;
        ensure(request.counts().all(|count| u32::try_from(count).is_ok()), "has a number of tokens that no client writes")?;
        self.check_usage(request)
    }

    /// Checks that a count of the endpoint is used unless it contradicts its request or itself, and that another one is used then.
    fn check_usage(&self, request: &Request) -> Result<(), &'static str> {
        let is_endpoints = matches!(request.source, TokenSource::ContinuousUsage | TokenSource::Usage);
        let asked = request.output_tokens_requested.and_then(|asked| u32::try_from(asked).ok());
        // A request without a number may have a limit of its row, which is not read here.
        let limit = asked.and_then(|asked| self.work.output_limit(None, Some(asked)));
        let events = u32::try_from(request.token_events).unwrap_or(u32::MAX);
        let exceeds = |tokens: Option<i64>| tokens.zip(limit).is_some_and(|(tokens, limit)| exceeds_limit(tokens, limit, events));
        ensure(!is_endpoints || !exceeds(request.output_tokens), "uses a count of output tokens that exceeds its limit")?;
        let is_unusable = request.usage_fault.is_of_output();
        ensure(!is_unusable || !is_endpoints, "uses a count of output tokens that it states not to use")?;
        ensure(
            is_unusable || request.output_tokens_claimed.is_none(),
            "states that a count of output tokens is not used, and no reason",
        )?;
        let claims_excess = request.usage_fault == UsageFault::OutputExceedsLimit && limit.is_some();
        ensure(
            !claims_excess || exceeds(request.output_tokens_claimed),
            "does not use a count of output tokens within its limit",
        )?;
        let has_source = request.source != TokenSource::Unknown || request.output_tokens.is_none();
        ensure(has_source, "has a count of output tokens without a source")?;
        let counts_events = request.source == TokenSource::Chunks;
        ensure(!counts_events || request.output_tokens == Some(request.token_events), "counts token events, in another number")
    }

    /// Checks the times of a request, and those of its response.
    fn check_course(&self, request: &Request) -> Result<(), &'static str> {
        ensure(request.end.is_some(), "has no end")?;
        let within = [request.dequeued, request.sent, request.end].into_iter().flatten();
        ensure(within.into_iter().all(|at| (0..=self.attempt_ns).contains(&at)), "has times outside of its attempt")?;
        ensure(request.outcome != Outcome::Dropped || request.sent.is_none(), "was dropped, and was sent")?;
        self.check_connection(request)?;
        if request.outcome.is_ok() { self.check_response(request) } else { Ok(()) }
    }

    /// Checks the times of the connection, if the request opened one.
    fn check_connection(&self, request: &Request) -> Result<(), &'static str> {
        let Request { dequeued, connect_start, connect_end, sent, write_done, .. } = *request;
        let must_connect = self.is_connecting && sent.is_some();
        let is_connected = connect_start.is_some() && connect_end.is_some();
        ensure(!must_connect || is_connected, "was sent on a connection that was open before")?;
        ensure(connect_start.is_some() || connect_end.is_none(), "was connected, and did not begin to")?;
        let in_order = |instants: &[Option<i64>]| instants.iter().flatten().is_sorted();
        // A request whose kept-alive connection was closed is written again, on a new one, and keeps the time of its first write.
        let follow = in_order(&[dequeued, connect_start, connect_end, write_done])
            && (!must_connect || in_order(&[connect_start, connect_end, sent]));
        ensure(follow, "has times of its connection that do not follow one another")
    }

    /// Checks the phase: a request of a closed loop belongs to the phase in which the client took it up.
    fn check_phase(&self, request: &Request, phase: Phase) -> Result<(), &'static str> {
        let at = request.dequeued.ok_or("was never begun")?;
        ensure(request.intended.is_none_or(|intended| intended <= at), "was begun before it was due")?;
        let Some(planned) = self.closed else { return Ok(()) };
        let from = planned.phase.from_ns;
        let end = planned.phase.duration_ns.map_or(i64::MAX, |duration| from.saturating_add(duration));
        let is_in_phase = if phase == Phase::Warmup { at < from } else { (from..end).contains(&at) };
        ensure(is_in_phase, "was begun outside of its phase")
    }

    /// Checks that a request that succeeded was sent and had a response, at instants in this order.
    fn check_response(&self, request: &Request) -> Result<(), &'static str> {
        let Request {
            dequeued, connect_start, connect_end, sent, first_byte, first_token, first_content, last_token, end, ..
        } = *request;
        ensure(sent.is_some() && last_token.is_some() && end.is_some(), "succeeded without having been sent or responded to")?;
        ensure(!request.is_aborted, "succeeded with a finish reason by which the endpoint aborts requests")?;
        ensure(connect_start.is_none() || connect_end.is_some(), "succeeded on a connection that was never established")?;
        ensure(request.http_status.is_some_and(|status| (200..300).contains(&status)), "succeeded with a status of failure")?;
        ensure(!self.streaming || (first_token.is_some() && request.token_events > 0), "succeeded without a token event")?;
        let in_order = |instants: &[Option<i64>]| instants.iter().flatten().is_sorted();
        let follow = in_order(&[dequeued, sent, first_byte, first_token, last_token, end])
            && in_order(&[connect_end, first_byte.or(first_token).or(last_token)])
            && in_order(&[first_token, first_content, last_token]);
        ensure(follow, "has times that do not follow one another")
    }
}

/// Checks that a request was cancelled only if its schedule says so and at its time, and that none that was to be cancelled succeeded later.
fn check_cancellation(request: &Request, after_ns: Option<u64>) -> Result<(), &'static str> {
    let at = request.write_done.zip(after_ns).map(|(done, after)| done.saturating_add(i64::try_from(after).unwrap_or(i64::MAX)));
    match request.outcome {
        Outcome::Cancelled => {
            let at = at.ok_or("was cancelled, and its schedule or its times allow no cancellation")?;
            ensure(request.end >= Some(at), "was cancelled before its time")
        }
        Outcome::Ok => ensure(at.is_none_or(|at| request.end <= Some(at)), "succeeded after the time of its cancellation"),
        _ => Ok(()),
    }
}

fn ensure(holds: bool, what: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(what) }
}

/// The requests of one phase of a shard whose records have not been read yet. Records come in the order in which requests ended,
/// so that only a few are awaited at a time.
struct AwaitedRequests {
    stripe: Option<Stripe>,
    next: Requests,
    /// The place of the first awaited request.
    first: u64,
    due: VecDeque<Option<ScheduledRequest>>,
    /// The number of records, an upper bound of places: each record has its own place, and the places are the first ones.
    end: u64,
}

impl AwaitedRequests {
    fn new(schedule: &TrialSchedule, phase: PlannedPhase, stripe: Option<Stripe>, rows: u64) -> Self {
        let next = schedule.shard_requests(phase, stripe.unwrap_or(Stripe::WHOLE));
        Self { stripe, next, first: 0, due: VecDeque::new(), end: rows }
    }

    /// Returns the scheduled request of this index, and no longer awaits it.
    fn take(&mut self, index: i64) -> Result<ScheduledRequest, &'static str> {
        const OTHER: &str = "is none of its schedule";
        let place = u64::try_from(index).ok().and_then(|index| self.stripe?.position(index)).ok_or(OTHER)?;
        ensure(place < self.end, "stands where requests before it are missing")?;
        let ahead = place.checked_sub(self.first).ok_or("is there twice")?;
        let ahead = usize::try_from(ahead).map_err(|_| OTHER)?;
        while self.due.len() <= ahead {
            self.due.push_back(Some(self.next.next().ok_or(OTHER)?));
        }
        let request = self.due.get_mut(ahead).and_then(Option::take).ok_or("is there twice")?;
        while matches!(self.due.front(), Some(None)) {
            self.due.pop_front();
            self.first += 1;
        }
        Ok(request)
    }

    /// Fails if a request that was due has no record.
    fn finish(mut self, phase: Phase, shard: Shard, ends_by_clock: bool) -> Result<(), Contradiction> {
        let skipped = self.due.into_iter().flatten().next();
        let never_begun = || if ends_by_clock || self.stripe.is_none() { None } else { self.next.next() };
        match skipped.or_else(never_begun) {
            Some(request) => Err(Contradiction::Missing { index: request.global_index, phase, shard: shard.index }),
            None => Ok(()),
        }
    }
}

/// The times at which requests began and ended of which only so many may be in flight.
#[derive(Default)]
struct RequestTimes {
    begun: Vec<i64>,
    ended: Vec<i64>,
    /// The times at which there was a place for those that waited.
    waited_until: Vec<i64>,
}

impl RequestTimes {
    /// Adds a request. One that was dropped was never in flight.
    fn add(&mut self, request: &Request) {
        if request.outcome == Outcome::Dropped {
            return;
        }
        self.begun.extend(request.dequeued);
        self.ended.extend(request.end);
        self.waited_until.extend(request.ready.filter(|_| request.ready > request.intended));
    }

    /// Checks that each user has one request at a time.
    fn check_users(self, shard: Shard, users: u64) -> Result<(), Contradiction> {
        let too_many = |at_ns| Contradiction::TooManyInFlight { shard: shard.index, users, at_ns };
        self.sorted().most_in_flight(users).map_err(too_many)
    }

    /// Checks that a cap held, and that each request that waited did so until another one ended.
    fn check_cap(self, shard: Shard, cap: u64) -> Result<(), Contradiction> {
        let times = self.sorted();
        times.most_in_flight(cap).map_err(|at_ns| Contradiction::AboveCap { shard: shard.index, cap, at_ns })?;
        match times.waited_until.iter().find(|at_ns| times.ended.binary_search(at_ns).is_err()) {
            Some(at_ns) => Err(Contradiction::NoPlace { shard: shard.index, at_ns: *at_ns }),
            None => Ok(()),
        }
    }

    /// Returns the times in order. They are nearly sorted already.
    fn sorted(mut self) -> Self {
        self.begun.sort_unstable();
        self.ended.sort_unstable();
        self
    }

    /// Fails with the time at which more than `most` requests are in flight: then one begins before all but `most` - 1 of the earlier
    /// ones have ended.
    fn most_in_flight(&self, most: u64) -> Result<(), i64> {
        let later = self.begun.iter().skip(usize::try_from(most).unwrap_or(usize::MAX));
        later.zip(&self.ended).find(|(begun, ended)| begun < ended).map_or(Ok(()), |(at_ns, _)| Err(*at_ns))
    }
}

/// The sums of a shard's records that execute signs.
#[derive(Default)]
pub(super) struct RecordSums {
    warmup: BTreeMap<Outcome, u64>,
    input_tokens: u64,
    output_tokens: u64,
    token_events: u64,
    /// The idle time that was cut, if it has a cap.
    idle_cut_ns: Option<u64>,
    /// The turns that were sent before the trial, if any were to be.
    warmed_turns: Option<u64>,
}

impl RecordSums {
    fn add(&mut self, request: &Request, phase: Phase) {
        let count = |tokens: i64| u64::try_from(tokens).unwrap_or(0);
        if phase == Phase::Warmup {
            *self.warmup.entry(request.outcome).or_default() += 1;
        } else if request.sent.is_some() {
            self.input_tokens = self.input_tokens.saturating_add(count(request.input_tokens));
        }
        self.output_tokens = self.output_tokens.saturating_add(request.output_tokens.map_or(0, count));
        self.token_events = self.token_events.saturating_add(count(request.token_events));
    }

    fn check(&self, shard: Shard, outcome: &ServingOutcome) -> Result<(), Contradiction> {
        let other = |what, stated: String, actual: String| Contradiction::OtherSum { shard: shard.index, what, stated, actual };
        for (what, Count(stated), actual) in [
            ("input tokens", outcome.input_tokens, self.input_tokens),
            ("output tokens", outcome.output_tokens, self.output_tokens),
            ("token events", outcome.client.events, self.token_events),
        ] {
            if stated != actual {
                return Err(other(what, stated.to_string(), actual.to_string()));
            }
        }
        for (what, stated, actual) in [
            ("nanoseconds of idle time that was cut", outcome.idle_cut_ns, self.idle_cut_ns),
            ("turns before the trial", outcome.warmed_turns, self.warmed_turns),
        ] {
            let stated = stated.map(|Count(stated)| stated);
            if stated != actual {
                let text = |count: Option<u64>| count.map_or_else(|| "no".to_owned(), |count| count.to_string());
                return Err(other(what, text(stated), text(actual)));
            }
        }
        let stated = outcome.warmup_outcomes.iter().filter(|(_, count)| count.0 > 0).map(|(word, count)| (word.clone(), count.0));
        let stated: BTreeMap<String, u64> = stated.collect();
        let actual: BTreeMap<String, u64> = self.warmup.iter().map(|(outcome, count)| (outcome.to_string(), *count)).collect();
        if stated == actual {
            Ok(())
        } else {
            Err(other("requests in its warm-up", format!("{stated:?}"), format!("{actual:?}")))
        }
    }
}

/// The fields of a record that are checked against schedule and attempt.
struct Request {
    index: i64,
    outcome: Outcome,
    id: u128,
    intended: Option<i64>,
    ready: Option<i64>,
    dequeued: Option<i64>,
    connect_start: Option<i64>,
    connect_end: Option<i64>,
    sent: Option<i64>,
    write_done: Option<i64>,
    first_byte: Option<i64>,
    first_token: Option<i64>,
    first_content: Option<i64>,
    last_token: Option<i64>,
    end: Option<i64>,
    http_status: Option<i64>,
    /// True if its finish reason is one by which an endpoint aborts requests.
    is_aborted: bool,
    input_tokens_requested: Option<i64>,
    input_tokens: i64,
    input_tokens_endpoint: Option<i64>,
    cached_tokens: Option<i64>,
    output_tokens_requested: Option<i64>,
    output_tokens: Option<i64>,
    source: TokenSource,
    output_tokens_claimed: Option<i64>,
    usage_fault: UsageFault,
    first_event_tokens: Option<i64>,
    token_events: i64,
    session: Option<i64>,
    turn: Option<i64>,
    stream: Option<i64>,
    session_turns: Option<i64>,
    session_done: Option<i64>,
    session_start: Option<i64>,
    session_pauses: Option<i64>,
    planned: Option<i64>,
}

impl Request {
    /// Returns true if it belongs to no session.
    fn is_alone(&self) -> bool {
        let places = [self.session, self.turn, self.stream, self.session_turns, self.session_done];
        let times = [self.session_start, self.session_pauses, self.planned];
        places.iter().chain(&times).all(Option::is_none)
    }

    /// Returns every number of tokens, and of token events.
    fn counts(&self) -> impl Iterator<Item = i64> {
        let optional = [self.input_tokens_endpoint, self.cached_tokens, self.output_tokens, self.first_event_tokens];
        [self.input_tokens, self.token_events].into_iter().chain(optional.into_iter().flatten())
    }
}

/// The columns of a batch.
struct Columns<'a> {
    phases: Vec<Phase>,
    outcomes: Vec<Outcome>,
    request_ids: Vec<u128>,
    index: Ints<'a>,
    intended: Ints<'a>,
    ready: Ints<'a>,
    dequeued: Ints<'a>,
    connect_start: Ints<'a>,
    connect_end: Ints<'a>,
    sent: Ints<'a>,
    write_done: Ints<'a>,
    first_byte: Ints<'a>,
    first_token: Ints<'a>,
    first_content: Ints<'a>,
    last_token: Ints<'a>,
    end: Ints<'a>,
    http_status: Ints<'a>,
    input_tokens_requested: Ints<'a>,
    input_tokens: Ints<'a>,
    input_tokens_endpoint: Ints<'a>,
    cached_tokens: Ints<'a>,
    output_tokens_requested: Ints<'a>,
    output_tokens: Ints<'a>,
    sources: Vec<TokenSource>,
    output_tokens_claimed: Ints<'a>,
    usage_faults: Vec<UsageFault>,
    first_event_tokens: Ints<'a>,
    token_events: Ints<'a>,
    session: Ints<'a>,
    turn: Ints<'a>,
    stream: Ints<'a>,
    session_turns: Ints<'a>,
    session_done: Ints<'a>,
    session_start: Ints<'a>,
    session_pauses: Ints<'a>,
    planned: Ints<'a>,
}

impl<'a> Columns<'a> {
    fn new(batch: &'a Batch) -> Result<Self, RecordError> {
        Ok(Self {
            phases: batch.words(Column::Phase)?,
            outcomes: batch.words(Column::Outcome)?,
            request_ids: batch.request_ids()?,
            index: batch.ints(Column::GlobalIndex)?,
            intended: batch.ints(Column::Intended)?,
            ready: batch.ints(Column::Ready)?,
            dequeued: batch.ints(Column::Dequeued)?,
            connect_start: batch.ints(Column::ConnectStart)?,
            connect_end: batch.ints(Column::ConnectEnd)?,
            sent: batch.ints(Column::Sent)?,
            write_done: batch.ints(Column::WriteDone)?,
            first_byte: batch.ints(Column::FirstByte)?,
            first_token: batch.ints(Column::FirstToken)?,
            first_content: batch.ints(Column::FirstContent)?,
            last_token: batch.ints(Column::LastToken)?,
            end: batch.ints(Column::End)?,
            http_status: batch.ints(Column::HttpStatus)?,
            input_tokens_requested: batch.ints(Column::InputTokensRequested)?,
            input_tokens: batch.ints(Column::InputTokens)?,
            input_tokens_endpoint: batch.ints(Column::InputTokensEndpoint)?,
            cached_tokens: batch.ints(Column::CachedTokens)?,
            output_tokens_requested: batch.ints(Column::OutputTokensRequested)?,
            output_tokens: batch.ints(Column::OutputTokens)?,
            sources: batch.words(Column::OutputSource)?,
            output_tokens_claimed: batch.ints(Column::OutputTokensClaimed)?,
            usage_faults: batch.words(Column::UsageFault)?,
            first_event_tokens: batch.ints(Column::FirstEventTokens)?,
            token_events: batch.ints(Column::TokenEvents)?,
            session: batch.ints(Column::Session)?,
            turn: batch.ints(Column::Turn)?,
            stream: batch.ints(Column::Stream)?,
            session_turns: batch.ints(Column::SessionTurns)?,
            session_done: batch.ints(Column::SessionDone)?,
            session_start: batch.ints(Column::SessionStart)?,
            session_pauses: batch.ints(Column::SessionPauses)?,
            planned: batch.ints(Column::Planned)?,
        })
    }

    /// Returns a row of the batch, which has the same number of rows in each column.
    fn request(&self, row: usize) -> Request {
        Request {
            index: self.index.get(row).unwrap_or(-1),
            outcome: self.outcomes.get(row).copied().unwrap_or_default(),
            id: self.request_ids.get(row).copied().unwrap_or_default(),
            intended: self.intended.get(row),
            ready: self.ready.get(row),
            dequeued: self.dequeued.get(row),
            connect_start: self.connect_start.get(row),
            connect_end: self.connect_end.get(row),
            sent: self.sent.get(row),
            write_done: self.write_done.get(row),
            first_byte: self.first_byte.get(row),
            first_token: self.first_token.get(row),
            first_content: self.first_content.get(row),
            last_token: self.last_token.get(row),
            end: self.end.get(row),
            http_status: self.http_status.get(row),
            is_aborted: false,
            input_tokens_requested: self.input_tokens_requested.get(row),
            input_tokens: self.input_tokens.get(row).unwrap_or_default(),
            input_tokens_endpoint: self.input_tokens_endpoint.get(row),
            cached_tokens: self.cached_tokens.get(row),
            output_tokens_requested: self.output_tokens_requested.get(row),
            output_tokens: self.output_tokens.get(row),
            source: self.sources.get(row).copied().unwrap_or_default(),
            output_tokens_claimed: self.output_tokens_claimed.get(row),
            usage_fault: self.usage_faults.get(row).copied().unwrap_or_default(),
            first_event_tokens: self.first_event_tokens.get(row),
            token_events: self.token_events.get(row).unwrap_or_default(),
            session: self.session.get(row),
            turn: self.turn.get(row),
            stream: self.stream.get(row),
            session_turns: self.session_turns.get(row),
            session_done: self.session_done.get(row),
            session_start: self.session_start.get(row),
            session_pauses: self.session_pauses.get(row),
            planned: self.planned.get(row),
        }
    }
}

#[cfg(test)]
mod tests;
