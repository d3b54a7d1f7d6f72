//! Prepares requests: a feeder thread makes them ahead of time, down to their bytes, and the event loop takes them from two
//! bounded lanes, one for each phase.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use assay_reactor::now_ns;
use assay_record::Phase;

use crate::{Beginning, Cause, Connections, NextTurn, PlannedRequest, PlannedTurn, Requests, Successor, Trial};

/// The maximum requests of one batch. A batch wakes the feeder once for all its requests.
const BATCH: usize = 32;
/// The maximum bytes of one batch, without its last request.
const BATCH_BYTES: usize = 1 << 20;
/// A batch is not held back for longer than this.
const BATCH_NS: i64 = 1_000_000;
/// The batches queued in each lane.
const LANE: usize = 8;

/// A request as bytes, and the data for its record.
#[derive(Debug, Default)]
pub(crate) struct PreparedRequest {
    pub(crate) global_index: u64,
    /// The time of the schedule, since the start of the trial.
    pub(crate) scheduled_ns: Option<i64>,
    /// The time at which it is due: that of the schedule, unless it waits for something else.
    pub(crate) intended_ns: Option<i64>,
    pub(crate) wire: Vec<u8>,
    pub(crate) input_tokens_requested: Option<u32>,
    pub(crate) input_tokens: u32,
    pub(crate) output_tokens_requested: Option<u32>,
    pub(crate) output_limit: Option<u64>,
    pub(crate) request_id: u128,
    pub(crate) prompt_sha256: Option<[u8; 32]>,
    pub(crate) turn: Option<PlannedTurn>,
    /// The turns that wait for its end.
    pub(crate) next: Vec<NextTurn>,
    /// The session that its user plays next.
    pub(crate) successor: Option<Successor>,
    /// The time from the start of its session at which it is due, if the session begins with it.
    pub(crate) after_ns: u64,
    /// The other turns with which its session begins.
    pub(crate) beside: Vec<Beginning>,
    /// The course of its session up to it; set when it is begun.
    pub(crate) course: Option<SessionCourse>,
    pub(crate) cancel_after_ns: Option<u64>,
}

/// The course of a session up to one of its turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "all of them are times, whose unit is a part of the name")]
pub(crate) struct SessionCourse {
    /// The time at which the first turn was due.
    pub(crate) start_ns: i64,
    /// The time before the turn in which no turn was due or in flight.
    pub(crate) pauses_ns: i64,
    /// The time since the start by which the turns that wait came earlier, because nothing was in flight.
    pub(crate) cut_ns: i64,
}

impl PreparedRequest {
    /// Notes that its session begins with it, at the time at which it is due. Under closed loop that is when a user takes it up.
    pub(crate) fn begin_session(&mut self, due_ns: i64) {
        self.intended_ns = Some(due_ns);
        self.course = Some(SessionCourse { start_ns: due_ns, ..SessionCourse::default() });
    }
}

/// The part of the head that all requests share.
#[derive(Debug)]
pub(crate) struct Template {
    head: String,
    session_header: Option<String>,
}

impl Template {
    pub(crate) fn new(trial: &Trial) -> Self {
        let endpoint = &trial.endpoint;
        let accept = if trial.streaming { "text/event-stream" } else { "application/json" };
        let mut head = format!(
            "POST {} HTTP/1.1\r\nhost: {}\r\nuser-agent: {}\r\naccept: {accept}\r\naccept-encoding: identity\r\ncontent-type: application/json\r\n",
            endpoint.target(trial.custom.as_ref().map_or(trial.api.path(), |custom| &custom.path)),
            endpoint.host_header(),
            printable(&trial.user_agent),
        );
        let is_set = |name: &str| endpoint.headers().iter().any(|(set, _)| set.eq_ignore_ascii_case(name));
        for (name, value) in trial.api.rules().headers.iter().filter(|(name, _)| !is_set(name)) {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        for (name, value) in endpoint.headers() {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if trial.connections == Connections::Never {
            head.push_str("connection: close\r\n");
        }
        Self { head, session_header: endpoint.session_header().map(str::to_owned) }
    }

    /// Builds head and body in one buffer, so that one write sends both.
    pub(crate) fn wire(&self, request_id: u128, turn: Option<PlannedTurn>, body: &[u8]) -> Vec<u8> {
        let mut head = String::with_capacity(self.head.len() + 180);
        head.push_str(&self.head);
        // The id doubles as the trace id. A span id of zero is not allowed (W3C Trace Context, 3.2.2.4).
        let span = ((request_id >> 64) as u64 ^ request_id as u64).max(1);
        if let (Some(name), Some(turn)) = (&self.session_header, turn) {
            let _ = write!(head, "{name}: {:032x}\r\n", turn.session_id);
        }
        let _ = write!(head, "x-request-id: {request_id:032x}\r\n");
        let _ = write!(head, "traceparent: 00-{request_id:032x}-{span:016x}-01\r\ncontent-length: {}\r\n\r\n", body.len());
        let mut wire = Vec::with_capacity(head.len() + body.len());
        wire.extend_from_slice(head.as_bytes());
        wire.extend_from_slice(body);
        wire
    }

    pub(crate) fn prepare(&self, planned: PlannedRequest) -> PreparedRequest {
        PreparedRequest {
            global_index: planned.global_index,
            scheduled_ns: planned.intended_offset_ns,
            intended_ns: planned.intended_offset_ns,
            wire: self.wire(planned.request_id, planned.turn, &planned.body),
            input_tokens_requested: planned.input_tokens_requested,
            input_tokens: planned.input_tokens,
            output_tokens_requested: planned.output_tokens_requested,
            output_limit: planned.output_limit,
            request_id: planned.request_id,
            prompt_sha256: planned.prompt_sha256,
            turn: planned.turn,
            next: planned.next,
            successor: planned.successor,
            after_ns: planned.after_ns,
            beside: planned.beside,
            course: None,
            cancel_after_ns: planned.cancel_after_ns,
        }
    }
}

/// Returns the characters of a text that are allowed in a header.
fn printable(text: &str) -> String {
    text.chars().filter(|character| (' '..='~').contains(character)).collect()
}

/// The feeder's end of the lanes.
pub(crate) struct Feeder {
    warmup: Option<SyncSender<Vec<PreparedRequest>>>,
    measured: SyncSender<Vec<PreparedRequest>>,
    /// True if every request has to be a turn of a session.
    has_sessions: bool,
}

/// The event loop's end of the lanes.
#[derive(Debug)]
pub(crate) struct Lanes {
    pub(crate) warmup: Lane,
    pub(crate) measured: Lane,
}

/// The event loop's end of one lane.
#[derive(Debug)]
pub(crate) struct Lane {
    batches: Option<Receiver<Vec<PreparedRequest>>>,
    /// The current batch, last request first.
    batch: Vec<PreparedRequest>,
    /// True if the lane was found empty, so that the next request will be late.
    starved: bool,
}

/// The state of a lane's next request.
#[derive(Debug)]
pub(crate) enum NextRequest {
    /// A request is ready; holds its intended time.
    Ready(Option<i64>),
    /// No request is ready: the feeder is behind.
    Starved,
    /// There are no more requests.
    Exhausted,
}

/// Returns the event loop's and the feeder's end of the lanes: of the warm-up, if it has one, and of the measured phase. Sessions
/// are one sequence for both phases, and so use one lane.
pub(crate) fn lanes(trial: &Trial) -> (Lanes, Feeder) {
    let (warmup, warmup_lane) = sync_channel(LANE);
    let (measured, measured_lane) = sync_channel(LANE);
    let has_sessions = trial.sessions.is_some();
    let has_warmup = trial.warmup_ns > 0 && !has_sessions;
    let lanes = Lanes { warmup: Lane::new(warmup_lane), measured: Lane::new(measured_lane) };
    (lanes, Feeder { warmup: has_warmup.then_some(warmup), measured, has_sessions })
}

impl Lane {
    fn new(batches: Receiver<Vec<PreparedRequest>>) -> Self {
        Self { batches: Some(batches), batch: Vec::new(), starved: false }
    }

    /// Peeks at the next request.
    pub(crate) fn next(&mut self) -> NextRequest {
        if self.batch.is_empty() {
            match self.batches.as_ref().map(Receiver::try_recv) {
                Some(Ok(mut batch)) => {
                    batch.reverse();
                    self.batch = batch;
                }
                Some(Err(TryRecvError::Empty)) => {
                    self.starved = true;
                    return NextRequest::Starved;
                }
                Some(Err(TryRecvError::Disconnected)) | None => return NextRequest::Exhausted,
            }
        }
        self.batch.last().map_or(NextRequest::Exhausted, |prepared| NextRequest::Ready(prepared.intended_ns))
    }

    /// Takes the next request, and returns true with it if the loop had to wait for it.
    pub(crate) fn take(&mut self) -> Option<(PreparedRequest, bool)> {
        let prepared = self.batch.pop()?;
        Some((prepared, std::mem::take(&mut self.starved)))
    }

    /// Closes the lane, which tells the feeder to stop.
    pub(crate) fn close(&mut self) {
        self.batches = None;
        self.batch.clear();
    }

    /// Waits for the next request, without a limit.
    pub(crate) fn wait(&mut self) -> NextRequest {
        if self.batch.is_empty()
            && let Some(batches) = &self.batches
            && let Ok(mut batch) = batches.recv()
        {
            batch.reverse();
            self.batch = batch;
        }
        self.next()
    }
}

impl Feeder {
    /// Prepares requests until there are no more or the lanes are closed. The measured lane is filled first, so that it is ready
    /// when the warm-up ends; then the warm-up's is kept full, then the measured one. A failure raises `failed`.
    pub(crate) fn run(
        self,
        requests: &mut (impl Requests + ?Sized),
        template: &Template,
        failed: &AtomicBool,
    ) -> Result<(), Cause> {
        let fed = self.feed(requests, template);
        if fed.is_err() {
            failed.store(true, Ordering::Relaxed);
        }
        fed
    }

    fn feed(self, requests: &mut (impl Requests + ?Sized), template: &Template) -> Result<(), Cause> {
        let has_sessions = self.has_sessions;
        let mut measured = Source { requests, template, phase: Phase::Measured, has_sessions, over: false };
        for _ in 0..LANE {
            if !measured.send(&self.measured)? {
                break;
            }
        }
        let measured_over = measured.over;
        if let Some(lane) = self.warmup {
            let mut warmup = Source { requests, template, phase: Phase::Warmup, has_sessions, over: false };
            while warmup.send(&lane)? {}
        }
        let mut measured = Source { requests, template, phase: Phase::Measured, has_sessions, over: measured_over };
        while measured.send(&self.measured)? {}
        Ok(())
    }
}

/// The requests of one phase.
struct Source<'a, R: ?Sized> {
    requests: &'a mut R,
    template: &'a Template,
    phase: Phase,
    has_sessions: bool,
    over: bool,
}

impl<R: Requests + ?Sized> Source<'_, R> {
    /// Prepares a batch and waits until the lane has room for it. Returns false if there are no more requests or the lane is
    /// closed.
    fn send(&mut self, lane: &SyncSender<Vec<PreparedRequest>>) -> Result<bool, Cause> {
        let batch = self.batch()?;
        let sent = batch.is_empty() || lane.send(batch).is_ok();
        Ok(sent && !self.over)
    }

    fn batch(&mut self) -> Result<Vec<PreparedRequest>, Cause> {
        let mut batch = Vec::with_capacity(BATCH);
        let (mut bytes, started) = (0, now_ns());
        while !self.over && batch.len() < BATCH && bytes < BATCH_BYTES && now_ns() - started < BATCH_NS {
            match self.requests.next(self.phase)? {
                Some(planned) => {
                    if self.has_sessions && planned.turn.is_none() {
                        return Err(format!("request {} is no turn of a session", planned.global_index).into());
                    }
                    let prepared = self.template.prepare(planned);
                    bytes += prepared.wire.len();
                    batch.push(prepared);
                }
                None => self.over = true,
            }
        }
        Ok(batch)
    }
}
