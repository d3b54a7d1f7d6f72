//! The event loop: one thread that sends requests when they are due, and follows every connection until its response has ended.

mod cancellations;
mod exchange;
mod failures;
mod limits;
mod offer;
mod places;
mod sessions;

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use assay_metric::{MeasuredPhase, PhaseEnd};
use assay_reactor::{Poller, ReadySocket, now_ns};
use assay_record::{Outcome, Phase, Record};

use self::cancellations::Cancellations;
use self::failures::FailureCounter;
pub use self::limits::{SPARE_FILES, most_connections, most_files};
use self::places::Places;
use self::sessions::SessionTable;
use crate::budget::{Budget, MAX_HELD_BYTES};
use crate::connection::{ConnectionState, Slot, TimeoutList, split_token};
use crate::delay::{DelayMeter, Wait};
use crate::feeder::{Lane, Lanes, Template, lanes};
use crate::meter::{CpuTime, Histogram, LoopMeter};
use crate::output::{Output, Row, output};
use crate::progress::add;
use crate::tls::Tls;
use crate::turn_feeder::turn_queue;
use crate::{
    Arrivals, Cause, ClientStats, Connections, Counts, Error, PlannedRequest, Progress, Requests, ResponseText, Sink, Trial,
    TrialSummary, Turns,
};

/// Bytes of the read buffer, which all connections share. A stream's events are far smaller; a read that fills the buffer is
/// counted.
const READ_BYTES: usize = 256 << 10;
/// The maximum ready sockets of one wait.
const READY_BATCH: usize = 512;
/// The loop spins for at most this long before a due time, which makes up for late wake-ups of the kernel.
const SPIN_NS: i64 = 40_000;
/// The longest wait. After it the loop checks for cancellation; and a client that was kept from running, for any reason, is
/// detected if the wait took longer than this.
const MAX_WAIT_NS: i64 = 10_000_000;
/// A time that is never reached.
const NEVER: i64 = i64::MAX;

/// Runs one trial of one shard, to its end, on this thread and two that it starts. Every request that was due is one record at
/// the sink when this returns, with any outcome: if all requests fail, that is a result. Raise `cancel` to end early; requests in
/// flight then end as [`Outcome::CancelledAtEnd`].
///
/// A trial of sessions needs [`run_sessions`].
///
/// # Errors
/// If the trial is invalid or cannot be run here, if requests cannot be prepared, or if the sink fails.
pub fn run(
    trial: &Trial,
    requests: &mut (impl Requests + ?Sized),
    sink: &mut (impl Sink + ?Sized),
    cancel: &AtomicBool,
    progress: &Progress,
) -> Result<TrialSummary, Error> {
    if trial.sessions.is_some() {
        return Err(Error::Trial { problem: "its sessions have later turns, and there is no generator of these" });
    }
    run_sessions(trial, requests, &mut NoTurns, sink, cancel, progress)
}

/// Runs one trial like [`run`], with a generator of the later turns of its sessions, which has a thread of its own. If the trial has
/// no sessions, the generator is not used.
///
/// # Errors
/// As [`run`], and if a later turn cannot be prepared.
pub fn run_sessions(
    trial: &Trial,
    requests: &mut (impl Requests + ?Sized),
    turns: &mut (impl Turns + ?Sized),
    sink: &mut (impl Sink + ?Sized),
    cancel: &AtomicBool,
    progress: &Progress,
) -> Result<TrialSummary, Error> {
    trial.check()?;
    if trial.endpoint.addresses().is_empty() {
        return Err(Error::NoAddress { host: trial.endpoint.host().to_owned() });
    }
    limits::ensure_files(u64::from(trial.max_in_flight()))?;
    limits::check_ports(u64::from(trial.max_in_flight()), trial.endpoint.addresses(), limits::local_ports())?;
    let endpoint = &trial.endpoint;
    let resumes = trial.connections != Connections::Never;
    let tls = endpoint.is_tls().then(|| Tls::new(endpoint.tls_settings(), endpoint.host(), resumes)).transpose()?;
    let poller = Poller::new(READY_BATCH).map_err(Error::system("make a poller"))?;
    let template = Template::new(trial);
    let (lanes, feeder) = lanes(trial);
    let (sessions, turn_feeder) = trial
        .sessions
        .map(|sessions| {
            let (queue, feeder) = turn_queue();
            (SessionTable::new(sessions, queue), feeder)
        })
        .unzip();
    let (output, writer) = output(trial.capture);
    let failed = AtomicBool::new(false);
    thread::scope(|scope| {
        let feeding = thread::Builder::new().spawn_scoped(scope, || feeder.run(requests, &template, &failed));
        let writing = thread::Builder::new().spawn_scoped(scope, || writer.run(sink, &failed));
        let turning = turn_feeder
            .map(|feeder| thread::Builder::new().spawn_scoped(scope, || feeder.run(turns, &template, &failed)))
            .transpose();
        let (feeding, writing, turning) = match (feeding, writing, turning) {
            (Ok(feeding), Ok(writing), Ok(turning)) => (feeding, writing, turning),
            (Err(error), _, _) | (_, Err(error), _) | (_, _, Err(error)) => {
                // Those that have started end with their queues, whose other ends go with this closure.
                failed.store(true, Ordering::Relaxed);
                return Err(Error::system("start a thread")(error));
            }
        };
        let ran = Engine::new(trial, tls, poller, lanes, sessions, output, progress).run(cancel, &failed);
        let fed = feeding.join().map_err(|_| Error::Thread { which: "feeder" })?;
        let turned = turning.map_or(Ok(Ok(())), |turning| turning.join().map_err(|_| Error::Thread { which: "turn feeder" }))?;
        let written = writing.join().map_err(|_| Error::Thread { which: "writer" })?;
        fed.and(turned).map_err(Error::Requests)?;
        written.map_err(Error::Sink)?;
        ran
    })
}

/// The later turns of a trial that has no sessions.
struct NoTurns;

impl Turns for NoTurns {
    fn next(&mut self, session: u64, _turn: u32, _previous: Option<&ResponseText>) -> Result<PlannedRequest, Cause> {
        Err(format!("session {session} has no later turns").into())
    }

    fn end(&mut self, _session: u64) {}
}

/// The end of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    AsPlanned,
    /// It was cancelled from outside.
    Cancelled,
    /// More requests were in flight than it allows.
    OverSaturated,
    /// As many requests failed as end it.
    TooManyErrors,
}

/// The state of the loop. Its times count from the trial's start.
struct Engine<'a> {
    trial: &'a Trial,
    tls: Option<Tls>,
    poller: Poller,
    ready: Vec<ReadySocket>,
    buffer: Vec<u8>,
    slots: Vec<Slot>,
    /// The memory that its unfinished responses may hold.
    budget: Budget,
    vacant: Vec<u32>,
    /// Kept-alive connections by slot and generation, the most recently used last; those that closed meanwhile are skipped.
    idle: Vec<(u32, u32)>,
    /// The kept-alive connections of sessions in a pause by slot and generation, if each session has its own.
    of_sessions: HashMap<u64, (u32, u32)>,
    order: TimeoutList,
    cancellations: Cancellations,
    in_flight: u32,
    /// The time for which connections were opened since sockets were polled, in nanoseconds.
    opening_ns: i64,
    /// The time since which more are in flight than saturate the endpoint; `None` if no more are, or if nothing counts as more.
    saturated_since_ns: Option<i64>,
    /// The failed requests, if some number of them ends the trial.
    failures: Option<FailureCounter>,
    /// The places for requests in flight, if due requests wait for one.
    places: Option<Places>,
    warmup: Lane,
    measured: Lane,
    /// The sessions, if the trial has any.
    sessions: Option<SessionTable>,
    output: Output,
    progress: &'a Progress,
    /// The phase that requests are taken from.
    phase: Phase,
    /// The earliest time at which the next request may be due.
    next_due_ns: i64,
    /// Users who are ready to send, under closed loop.
    free_users: u32,
    /// The times at which pausing users send again, under closed loop.
    pauses: VecDeque<i64>,
    /// The time up to which load was offered; set once all of it was.
    offered_to_ns: Option<i64>,
    /// The end of the latest measured request so far.
    last_end_ns: Option<i64>,
    /// The first and the last intended time of measured requests so far.
    intended_ns: Option<(i64, i64)>,
    measured_due: u64,
    measured_sent: u64,
    /// The index of the endpoint's address that connected last.
    address: usize,
    counts: Counts,
    lateness: Histogram,
    busy: LoopMeter,
    delays: DelayMeter,
    /// True if the loop has worked since its last wait.
    worked: bool,
    client: ClientStats,
}

impl<'a> Engine<'a> {
    fn new(
        trial: &'a Trial,
        tls: Option<Tls>,
        poller: Poller,
        lanes: Lanes,
        sessions: Option<SessionTable>,
        output: Output,
        progress: &'a Progress,
    ) -> Self {
        // Sessions come from one lane, and the clock decides the phase of each turn.
        let begins_warm = trial.warmup_ns > 0 && sessions.is_none();
        let free_users = match trial.arrivals {
            Arrivals::Closed { users } => users,
            Arrivals::Open { .. } | Arrivals::Users { .. } => 0,
        };
        Self {
            trial,
            tls,
            poller,
            ready: Vec::with_capacity(READY_BATCH),
            buffer: vec![0; READ_BYTES],
            slots: Vec::new(),
            budget: Budget::new(MAX_HELD_BYTES),
            vacant: Vec::new(),
            idle: Vec::new(),
            of_sessions: HashMap::new(),
            order: TimeoutList::new(),
            cancellations: Cancellations::default(),
            in_flight: 0,
            opening_ns: 0,
            saturated_since_ns: None,
            failures: trial.stop_on_errors.map(FailureCounter::new),
            places: trial.has_waiting().then(|| Places::new(trial.max_in_flight())),
            warmup: lanes.warmup,
            measured: lanes.measured,
            sessions,
            output,
            progress,
            phase: if begins_warm { Phase::Warmup } else { Phase::Measured },
            next_due_ns: 0,
            free_users,
            pauses: VecDeque::new(),
            offered_to_ns: None,
            last_end_ns: None,
            intended_ns: None,
            measured_due: 0,
            measured_sent: 0,
            address: 0,
            counts: Counts::default(),
            lateness: Histogram::new(),
            busy: LoopMeter::new(),
            delays: DelayMeter::new(trial.warmup_ns, trial.late_read_ns),
            worked: false,
            client: ClientStats::default(),
        }
    }

    fn run(mut self, cancel: &AtomicBool, failed: &AtomicBool) -> Result<TrialSummary, Error> {
        let slack = limits::set_precise_timers();
        let cpu = CpuTime::now();
        let stopped = || cancel.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed);
        let ran = match self.wait_for_start(&stopped) {
            Ok(false) => self.run_until_over(&stopped),
            Ok(true) => Ok(End::Cancelled),
            Err(error) => Err(error),
        };
        self.close_sessions(matches!(ran, Ok(End::AsPlanned)));
        let end = ran?;
        let ended_ns = self.now();
        self.output.finish();
        drop(slack);
        Ok(self.into_summary(ended_ns, end, cpu))
    }

    /// Waits for the trial's start. Returns true if it was stopped before.
    fn wait_for_start(&mut self, stopped: &impl Fn() -> bool) -> Result<bool, Error> {
        loop {
            let now = self.now();
            if stopped() {
                self.offered_to_ns = Some(now);
                return Ok(true);
            }
            if now >= 0 {
                self.client.started_late_ns = now;
                self.busy = LoopMeter::new();
                return Ok(false);
            }
            let wake = if now >= -SPIN_NS { now } else { (-SPIN_NS).min(now + MAX_WAIT_NS) };
            self.poll(wake)?;
        }
    }

    /// Sends and follows requests until the trial is over.
    fn run_until_over(&mut self, stopped: &impl Fn() -> bool) -> Result<End, Error> {
        loop {
            let now = self.now();
            let early = if stopped() { Some(End::Cancelled) } else { self.is_over_saturated(now).then_some(End::OverSaturated) };
            if let Some(early) = early {
                self.stop(now);
                return Ok(early);
            }
            self.offer(now);
            self.cancel_due(now);
            self.end_timed_out(now);
            if self.failures.as_ref().is_some_and(FailureCounter::is_met) {
                self.stop(now);
                return Ok(End::TooManyErrors);
            }
            if self.output.due_ns().is_some_and(|due| now >= due) {
                self.output.flush(now);
            }
            if self.is_over(now) {
                return Ok(End::AsPlanned);
            }
            self.wait()?;
        }
    }

    /// Returns true if more requests are in flight than the trial allows, and have been for as long as it allows. While requests come to their end
    /// after the last one was offered, nothing is over-saturated any more.
    fn is_over_saturated(&mut self, now: i64) -> bool {
        let Some(most) = self.trial.over_saturation.filter(|_| self.offered_to_ns.is_none()) else { return false };
        if self.in_flight <= most.in_flight {
            return false;
        }
        now - *self.saturated_since_ns.get_or_insert(now) >= most.for_ns
    }

    /// Waits for sockets or for the next due time, and handles the ready ones. Between two sockets it checks if a request has
    /// become due meanwhile.
    fn wait(&mut self) -> Result<(), Error> {
        let now = self.now();
        if std::mem::take(&mut self.worked) {
            self.busy.record_sleep(now);
        }
        let wake = if self.delays.must_poll(now) { now } else { self.wake_ns(now) };
        self.poll(wake)?;
        let ended = self.now();
        let late_ns = self.delays.record_wait(Wait {
            began_ns: now,
            deadline_ns: wake,
            ended_ns: ended,
            interrupted: self.poller.was_interrupted(),
            ready: self.ready.len(),
            is_full: self.ready.len() == READY_BATCH,
            run_delay_ns: 0,
        });
        self.busy.record_wake(ended, wake, late_ns);
        let ready = std::mem::take(&mut self.ready);
        for ready in &ready {
            self.worked = true;
            let at = self.handle(*ready);
            if at >= self.next_due_ns {
                self.offer(at);
            }
        }
        self.ready = ready;
        Ok(())
    }

    fn poll(&mut self, wake_ns: i64) -> Result<(), Error> {
        let deadline = self.trial.start_at_ns.saturating_add(wake_ns);
        self.opening_ns = 0;
        self.ready.clear();
        self.ready.extend(self.poller.wait(Some(deadline)).map_err(Error::system("wait for its sockets"))?);
        Ok(())
    }

    /// Returns the time at which the next wait must end.
    fn wake_ns(&self, now: i64) -> i64 {
        if self.next_due_ns.saturating_sub(now) <= SPIN_NS {
            return now;
        }
        let ends = match self.offered_to_ns {
            Some(to) if now < to => to,
            Some(to) => to.saturating_add(self.trial.drain_ns),
            // Requests that wait for a place are sent until the time to drain has passed.
            None if now >= self.measured_end_ns() => self.measured_end_ns().saturating_add(self.trial.drain_ns),
            None => self.measured_end_ns(),
        };
        let mut wake = (now + MAX_WAIT_NS).min(self.next_due_ns - SPIN_NS).min(ends.max(now));
        if let Some(slot) = self.order.first() {
            wake = wake.min(self.timeout_at_ns(slot));
        }
        if let Some(at_ns) = self.cancellations.first_ns() {
            wake = wake.min(at_ns.max(now));
        }
        if let Some(due) = self.output.due_ns() {
            wake = wake.min(due);
        }
        wake
    }

    /// Handles one ready socket and returns the time: its read's stamp, or now.
    fn handle(&mut self, ready: ReadySocket) -> i64 {
        let (slot, generation) = split_token(ready.token);
        let Some(found) = self.slots.get(slot as usize).filter(|found| found.generation == generation) else { return self.now() };
        match found.state {
            ConnectionState::Vacant => {}
            ConnectionState::Connecting => {
                if ready.writable {
                    self.handle_connect(slot);
                }
            }
            ConnectionState::Handshaking => self.shake_hands(slot),
            ConnectionState::Idle => self.end_idle(slot),
            ConnectionState::Busy => {
                if ready.writable && found.watches_write {
                    self.write(slot);
                }
                if ready.readable && self.slots[slot as usize].generation == generation {
                    return self.read(slot);
                }
            }
        }
        self.now()
    }

    /// Ends the requests whose timeout has passed.
    fn end_timed_out(&mut self, now: i64) {
        while let Some(slot) = self.order.first()
            && self.timeout_at_ns(slot) <= now
        {
            self.worked = true;
            // Not the time of the check: other turns of its session may have begun since.
            let at_ns = self.now();
            self.give_up(slot, Outcome::Timeout, "its time limit", at_ns);
        }
    }

    /// Returns the time at which a request in flight times out.
    fn timeout_at_ns(&self, slot: u32) -> i64 {
        let exchange = self.slots[slot as usize].exchange.as_ref();
        let begun = exchange.and_then(|exchange| exchange.row.record.dequeued_ns).unwrap_or_default();
        begun.saturating_add(self.trial.timeout_ns)
    }

    /// Returns true if the trial is over. Once the time to drain has passed, it ends the trial.
    fn is_over(&mut self, now: i64) -> bool {
        match self.offered_to_ns {
            Some(to) if self.in_flight == 0 => now >= to,
            Some(to) => now >= to.saturating_add(self.trial.drain_ns) && self.cancel_rest(now),
            None => {
                // Only a feeder that is far behind, or an endpoint for whose responses requests wait, leaves some to send at this time.
                let late = now >= self.measured_end_ns().saturating_add(self.trial.drain_ns);
                if late {
                    self.drop_rest(self.measured_end_ns(), true, now);
                    self.offered_to_ns = Some(self.measured_end_ns());
                }
                late && self.cancel_rest(now)
            }
        }
    }

    /// Cancels the requests in flight; always returns true.
    fn cancel_rest(&mut self, now: i64) -> bool {
        while let Some(slot) = self.order.first() {
            self.give_up(slot, Outcome::CancelledAtEnd, "the trial's end", now);
        }
        true
    }

    /// Ends the trial at once.
    fn stop(&mut self, now: i64) {
        self.cancel_due(now);
        if self.offered_to_ns.is_none() {
            self.drop_rest(now, false, now);
            self.offered_to_ns = Some(now);
        }
        self.cancel_rest(now);
    }

    /// Returns the end of the measured phase by the clock.
    fn measured_end_ns(&self) -> i64 {
        self.trial.measured.duration_ns.map_or(NEVER, |duration| self.trial.warmup_ns.saturating_add(duration))
    }

    /// Counts a finished row and passes it to the output.
    fn record_end(&mut self, row: Box<Row>, now: i64) {
        let record = &row.record;
        self.counts.add(record.phase, record.outcome);
        if let Some(failures) = &mut self.failures {
            failures.add(record.outcome);
        }
        if record.phase == Phase::Measured {
            self.last_end_ns = self.last_end_ns.max(record.end_ns);
            if record.sent_ns.is_some() {
                self.measured_sent += 1;
                if let Some(lateness) = self.trial.connections.client_lateness_ns(record) {
                    self.lateness.add(lateness);
                }
            }
        }
        self.client.token_events += u64::from(record.token_events);
        self.update_progress(record);
        self.output.put(row, now);
    }

    fn update_progress(&self, record: &Record) {
        match record.outcome {
            Outcome::Ok => add(&self.progress.ok, 1),
            Outcome::Dropped => add(&self.progress.dropped, 1),
            Outcome::Cancelled => {}
            _ => add(&self.progress.failed, 1),
        }
        add(&self.progress.token_events, u64::from(record.token_events));
        self.progress.in_flight.store(u64::from(self.in_flight), Ordering::Relaxed);
    }

    fn into_summary(self, ended_ns: i64, end: End, cpu: CpuTime) -> TrialSummary {
        let window = self.window(end != End::AsPlanned);
        let (requested_per_s, sent_per_s) = self.rates(window.end - window.start);
        let (cpu_user_ns, cpu_system_ns, loop_cpu_ns) = cpu.since();
        let client = ClientStats {
            lateness: self.lateness.lateness(),
            requested_per_s,
            sent_per_s,
            delays: self.delays.finish(ended_ns),
            longest_stall_ns: self.busy.longest_stall_ns,
            busy_ns_p99: self.busy.spans.quantile(0.99),
            cpu_user_ns,
            cpu_system_ns,
            loop_cpu_ns,
            sink_stalls: self.output.stalls,
            sink_wait_ns: self.output.wait_ns,
            ..self.client
        };
        let Range { start: measured_from_ns, end: measured_to_ns } = window;
        let idle_cut_ns = self.sessions.as_ref().map_or(0, SessionTable::cut_ns);
        TrialSummary {
            counts: self.counts,
            measured_from_ns,
            measured_to_ns,
            ended_ns,
            idle_cut_ns,
            cancelled: end == End::Cancelled,
            over_saturated: end == End::OverSaturated,
            too_many_errors: end == End::TooManyErrors,
            client,
        }
    }

    /// Returns true if all requested requests have become due.
    fn is_all_due(&self) -> bool {
        self.trial.measured.requests.is_some_and(|most| self.measured_due >= most)
    }

    /// Returns the trial's window as this shard sees it; of a trial that was stopped, the part up to the stop.
    fn window(&self, was_stopped: bool) -> Range<i64> {
        let (from_ns, duration_ns) = (self.trial.warmup_ns, self.trial.measured.duration_ns);
        if was_stopped {
            return from_ns..self.offered_to_ns.unwrap_or(from_ns).max(from_ns);
        }
        let by_count = self.is_all_due() || duration_ns.is_none();
        let ended = if by_count { PhaseEnd::ByCount { last_end_ns: self.last_end_ns } } else { PhaseEnd::ByClock };
        MeasuredPhase { from_ns, duration_ns }.window(ended)
    }

    /// Returns the requested and the sent requests per second. Under open loop by count: the number of gaps between the first and
    /// the last due request over the time between them, because the time of the last response belongs to neither rate. When the
    /// turns of sessions are due depends on responses, so with sessions it is the window that counts.
    fn rates(&self, window_ns: i64) -> (Option<f64>, Option<f64>) {
        let rate = |count: u64, ns: i64| (ns > 0).then(|| count as f64 * 1e9 / ns as f64);
        let is_open = matches!(self.trial.arrivals, Arrivals::Open { .. }) && self.sessions.is_none();
        match self.intended_ns.filter(|_| is_open && (self.is_all_due() || self.trial.measured.duration_ns.is_none())) {
            Some((first, last)) => {
                let requested = rate(self.measured_due.saturating_sub(1), last - first);
                let share = self.measured_sent as f64 / self.measured_due.max(1) as f64;
                (requested, requested.map(|rate| rate * share))
            }
            None => (rate(self.measured_due, window_ns), rate(self.measured_sent, window_ns)),
        }
    }

    /// Returns the current time, in nanoseconds since the trial's start.
    #[inline]
    fn now(&self) -> i64 {
        now_ns() - self.trial.start_at_ns
    }
}
