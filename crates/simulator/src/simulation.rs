//! Runs a model without sockets and clocks: the records that a perfect client would have made, as fast as they can be computed.
//!
//! A perfect client sends at the intended instant, and the network takes no time. Values that exist only on a wire are absent or
//! zero in its records: connection times, bytes of requests and responses.

use std::collections::{BTreeMap, HashMap, VecDeque};

use assay_record::{Chunk, Outcome, Phase, Record, TokenSource};

use crate::draw::{Concern, RequestKey, Seed};
use crate::engine::Engine;
use crate::metrics::{FinishedReason, Gauges, Metrics, RequestCourse};
use crate::model::{Arrival, Channel, Event, EventKind, Model, Occupancy};
use crate::words::words_bytes;

/// A request of a simulated load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulatedRequest {
    /// The time at which it is sent, in nanoseconds since the start, in ascending order; ignored under closed loop, and for later turns.
    pub offset_ns: i64,
    /// The time that the grid of its user plans for it, in nanoseconds since the start: a turn after another one is not sent before. Absent
    /// without a grid.
    pub planned_ns: Option<i64>,
    /// The id of the request and the key of its draws: an endpoint that gets it as `x-request-id`, 32 hexadecimal digits, draws
    /// the same.
    pub request_id: u128,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Tokens of its response.
    pub output_tokens: u32,
    /// The number of its first tokens that are reasoning.
    pub reasoning_tokens: u32,
    /// A hash of every full block of its prompt, each including all tokens before it; if empty, it finds nothing in the prefix
    /// cache.
    pub prefix_blocks: Vec<u64>,
    /// Its place in its session; absent if it stands for itself.
    pub turn: Option<SimulatedTurn>,
    /// The turns after it: those of its session, and of the sessions that its user plays after it. Each is sent its pause after the end of the
    /// response before and not before its planned time, and only if that response is complete. Under closed loop a client takes its next
    /// request after the last turn.
    pub later_turns: VecDeque<LaterTurn>,
}

/// The place of a request in its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimulatedTurn {
    /// The number of the session.
    pub session: u64,
    /// The number of the turn, from 0.
    pub turn: u32,
    /// The turns of the session.
    pub turns: u32,
}

/// A turn that follows another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaterTurn {
    /// The time from the end of the response before, in nanoseconds.
    pub pause_ns: i64,
    /// The request, without turns after it.
    pub request: SimulatedRequest,
}

/// The course of a session so far.
#[derive(Clone, Copy, Debug)]
struct SessionCourse {
    start_ns: i64,
    pauses_ns: i64,
}

/// A later turn that is due.
#[derive(Debug)]
struct DueTurn {
    at_ns: i64,
    course: SessionCourse,
    request: SimulatedRequest,
}

impl SimulatedRequest {
    /// Returns the key of its draws.
    pub(crate) fn key(&self, seed: &Seed) -> RequestKey {
        RequestKey::from_id(seed, &format!("{:032x}", self.request_id))
    }
}

/// The arrival process of a load.
#[derive(Clone, Debug)]
pub enum Load<I> {
    /// Each request at its offset, independent of completions.
    Open(I),
    /// A closed loop of concurrent clients: each response is followed by the client's next request.
    Closed {
        /// The number of clients.
        clients: u32,
        /// Their requests, in the order in which clients take them.
        requests: I,
    },
}

/// Returns the records of a load, in the order in which the requests end.
///
/// Only requests in flight are held, so the load may be of any length.
pub fn simulate<M, I>(engine: Engine<M>, seed: Seed, load: Load<I>) -> Simulation<M, I::IntoIter>
where
    M: Model,
    I: IntoIterator<Item = SimulatedRequest>,
{
    let (idle_clients, requests) = match load {
        Load::Open(requests) => (None, requests.into_iter()),
        Load::Closed { clients, requests } => (Some(clients), requests.into_iter()),
    };
    Simulation {
        engine,
        seed,
        idle_clients,
        max_waiting: u32::MAX,
        failing_share: 0.0,
        has_stopped: false,
        now_ns: 0,
        next: None,
        requests,
        offered: 0,
        in_flight: HashMap::new(),
        later_turns: BTreeMap::new(),
        events: Vec::new(),
        ended: VecDeque::new(),
        metrics: Metrics::new(),
    }
}

/// The iterator of [`simulate`].
pub struct Simulation<M, I> {
    engine: Engine<M>,
    seed: Seed,
    /// Clients that are ready to send; none under open loop, which has no clients.
    idle_clients: Option<u32>,
    max_waiting: u32,
    failing_share: f64,
    /// True if no more requests are sent.
    has_stopped: bool,
    now_ns: i64,
    /// The next request under open loop.
    next: Option<SimulatedRequest>,
    requests: I,
    offered: u64,
    in_flight: HashMap<u64, InFlightRequest>,
    /// Later turns by the time at which they are due, and by the request before them.
    later_turns: BTreeMap<(i64, u64), DueTurn>,
    events: Vec<Event>,
    ended: VecDeque<Record>,
    metrics: Metrics,
}

struct InFlightRequest {
    record: Record,
    metered: RequestCourse,
    key: RequestKey,
    reasoning_tokens: u32,
    sent: u32,
    course: SessionCourse,
    later_turns: VecDeque<LaterTurn>,
}

impl<M: Model, I: Iterator<Item = SimulatedRequest>> Simulation<M, I> {
    /// Limits the queue: like the endpoint with status 429, refuses requests that arrive while this many already wait.
    #[must_use]
    pub fn with_max_waiting(self, max_waiting: u32) -> Self {
        Self { max_waiting, ..self }
    }

    /// Lets a share of requests fail: like the endpoint with the fault of status 500, responds with an error at once.
    #[must_use]
    pub fn with_failures(self, share: f64) -> Self {
        Self { failing_share: share, ..self }
    }

    /// Advances to an instant: everything that happens until then has happened. The requests that ended wait for
    /// [`Simulation::take_ended`].
    pub fn advance_to(&mut self, at_ns: i64) {
        while self.next_ns().is_some_and(|next_ns| next_ns <= at_ns) && self.step() {}
    }

    /// Sends no more requests, like a client at the end of its duration: those in flight go on.
    pub fn stop_sending(&mut self) {
        self.has_stopped = true;
        self.next = None;
        self.later_turns.clear();
    }

    /// Takes the requests that have ended and were not returned yet, in the order in which they ended.
    pub fn take_ended(&mut self) -> impl Iterator<Item = Record> {
        self.ended.drain(..)
    }

    /// Returns the body of the endpoint's response to `GET /metrics` at this instant, for a process that started at 0.
    pub fn metrics(&self, model: &str) -> String {
        let standing = Gauges {
            occupancy: self.engine.occupancy(),
            cache: None,
            process_start_s: 0,
            connections: self.in_flight.len(),
            truth_dropped: 0,
            truth_file_dropped: 0,
        };
        self.metrics.render(model, &standing)
    }

    /// Returns the load of the engine.
    pub fn occupancy(&self) -> Occupancy {
        self.engine.occupancy()
    }

    /// Returns the instant of the next arrival or event.
    fn next_ns(&mut self) -> Option<i64> {
        self.send_for_idle_clients();
        self.next_offset_ns().into_iter().chain(self.next_turn_ns()).chain(self.engine.next_ns()).min()
    }

    fn next_turn_ns(&self) -> Option<i64> {
        self.later_turns.first_key_value().map(|((at_ns, _), _)| *at_ns)
    }

    /// Advances to the next arrival or event; returns false if none is left.
    fn step(&mut self) -> bool {
        self.send_for_idle_clients();
        let offset_ns = self.next_offset_ns();
        let turn_ns = self.next_turn_ns();
        let due_ns = offset_ns.into_iter().chain(turn_ns).min();
        let event_ns = self.engine.next_ns();
        match (due_ns, event_ns) {
            (None, None) => return false,
            // Actions of an engine at an instant come before arrivals at that instant.
            (Some(due_ns), event_ns) if event_ns.is_none_or(|event_ns| due_ns < event_ns) => {
                self.now_ns = due_ns;
                if turn_ns == Some(due_ns)
                    && let Some((_, DueTurn { at_ns, course, request })) = self.later_turns.pop_first()
                {
                    self.send(request, at_ns, Some(at_ns), course);
                } else if let Some(due) = self.next.take() {
                    self.send(due, due_ns, Some(due_ns), SessionCourse { start_ns: due_ns, pauses_ns: 0 });
                }
            }
            (_, Some(event_ns)) => self.advance(event_ns),
            (Some(_), None) => {}
        }
        true
    }

    fn next_offset_ns(&mut self) -> Option<i64> {
        if self.idle_clients.is_some() || self.has_stopped {
            return None;
        }
        if self.next.is_none() {
            self.next = self.requests.next();
        }
        self.next.as_ref().map(|due| due.offset_ns)
    }

    fn send_for_idle_clients(&mut self) {
        while !self.has_stopped
            && self.idle_clients.is_some_and(|idle| idle > 0)
            && let Some(due) = self.requests.next()
        {
            self.idle_clients = self.idle_clients.map(|idle| idle - 1);
            let intended_ns = due.turn.map(|_| self.now_ns);
            self.send(due, self.now_ns, intended_ns, SessionCourse { start_ns: self.now_ns, pauses_ns: 0 });
        }
    }

    fn send(&mut self, due: SimulatedRequest, at_ns: i64, intended_ns: Option<i64>, course: SessionCourse) {
        let request = self.offered;
        self.offered += 1;
        let key = due.key(&self.seed);
        let record = Record {
            global_index: request,
            session: due.turn.map(|turn| turn.session),
            turn: due.turn.map(|turn| turn.turn),
            session_turns: due.turn.map(|turn| turn.turns),
            session_start_ns: due.turn.map(|_| course.start_ns),
            session_pauses_ns: due.turn.map(|_| course.pauses_ns),
            phase: Phase::Measured,
            request_id: due.request_id,
            planned_ns: due.planned_ns,
            intended_ns,
            dequeued_ns: Some(at_ns),
            sent_ns: Some(at_ns),
            write_done_ns: Some(at_ns),
            first_byte_ns: Some(at_ns),
            outcome: Outcome::Ok,
            http_status: Some(200),
            finish_reason: Some("length".to_owned()),
            input_tokens: due.prompt_tokens,
            input_tokens_endpoint: Some(due.prompt_tokens),
            output_tokens_requested: Some(due.output_tokens),
            output_source: TokenSource::ContinuousUsage,
            reasoning_tokens: Some(due.reasoning_tokens),
            ..Record::default()
        };
        let waiting = self.engine.occupancy().waiting;
        if waiting >= self.max_waiting {
            self.metrics.refused_requests += 1;
            return self.refuse(record, at_ns, 429);
        }
        if key.unit(Concern::Fault, 0) < self.failing_share {
            self.metrics.faults += 1;
            return self.refuse(record, at_ns, 500);
        }
        let (reasoning_tokens, later_turns) = (due.reasoning_tokens, due.later_turns);
        // As the server has it: a request that arrives during a stall is read at its end.
        let read_ns = self.engine.stalled_until_ns(at_ns).unwrap_or(at_ns);
        let metered = RequestCourse::new(read_ns, due.prompt_tokens);
        let under_way = InFlightRequest { record, metered, key, reasoning_tokens, sent: 0, course, later_turns };
        self.in_flight.insert(request, under_way);
        let arrival = Arrival {
            request,
            key,
            prompt_tokens: due.prompt_tokens,
            output_tokens: due.output_tokens,
            reasoning_tokens: due.reasoning_tokens,
            prefix_blocks: due.prefix_blocks,
        };
        self.engine.arrive(at_ns, arrival);
    }

    fn refuse(&mut self, record: Record, at_ns: i64, status: u16) {
        self.idle_clients = self.idle_clients.map(|idle| idle + 1);
        self.ended.push_back(Record {
            outcome: Outcome::HttpError,
            http_status: Some(status),
            finish_reason: None,
            end_ns: Some(at_ns),
            ..record
        });
    }

    fn advance(&mut self, to_ns: i64) {
        self.now_ns = to_ns;
        let mut events = std::mem::take(&mut self.events);
        self.engine.advance(to_ns, &mut events);
        for event in events.drain(..) {
            self.handle_event(event);
        }
        self.events = events;
    }

    fn handle_event(&mut self, event: Event) {
        let Some(under_way) = self.in_flight.get_mut(&event.request) else { return };
        match event.kind {
            EventKind::Admitted { cached_tokens, evicted_tokens, .. } => {
                under_way.record.cached_tokens = Some(cached_tokens);
                self.metrics.count_admission(&mut under_way.metered, event.at_ns, cached_tokens, evicted_tokens);
            }
            EventKind::Preempted => {}
            EventKind::Chunk { tokens, channel } => {
                self.metrics.count_tokens(&mut under_way.metered, event.at_ns, tokens);
                under_way.chunk(event.at_ns, tokens, channel);
            }
            EventKind::Finished => {
                let (sent, reason) = (under_way.sent, FinishedReason::Length);
                self.metrics.count_finish(&mut under_way.metered, event.at_ns, reason, sent);
                if let Some(mut under_way) = self.in_flight.remove(&event.request) {
                    match under_way.later_turns.pop_front().filter(|_| under_way.sent > 0) {
                        Some(next) if !self.has_stopped => self.wait_for_turn(event, &mut under_way, next),
                        _ => self.idle_clients = self.idle_clients.map(|idle| idle + 1),
                    }
                    self.ended.push_back(under_way.end(event.at_ns));
                }
            }
        }
    }
}

impl<M: Model, I: Iterator<Item = SimulatedRequest>> Simulation<M, I> {
    /// Sends the next turn of a session, or the first turn of the next one, its pause after the response before, or when it is planned.
    fn wait_for_turn(&mut self, event: Event, before: &mut InFlightRequest, next: LaterTurn) {
        let at_ns = event.at_ns.saturating_add(next.pause_ns).max(next.request.planned_ns.unwrap_or(i64::MIN));
        let begins_session = next.request.turn.is_some_and(|turn| turn.turn == 0);
        let course = if begins_session {
            SessionCourse { start_ns: at_ns, pauses_ns: 0 }
        } else {
            let pauses_ns = before.course.pauses_ns.saturating_add(at_ns.saturating_sub(event.at_ns));
            SessionCourse { pauses_ns, ..before.course }
        };
        let request = SimulatedRequest { later_turns: std::mem::take(&mut before.later_turns), ..next.request };
        self.later_turns.insert((at_ns, event.request), DueTurn { at_ns, course, request });
    }
}

impl InFlightRequest {
    fn chunk(&mut self, at_ns: i64, tokens: u32, channel: Channel) {
        let start = if channel == Channel::Reasoning { 0 } else { self.reasoning_tokens };
        let bytes = words_bytes(self.key, start, self.sent, tokens);
        self.sent += tokens;
        let record = &mut self.record;
        if record.first_token_ns.is_none() {
            record.first_token_ns = Some(at_ns);
            record.first_event_tokens = Some(tokens);
        }
        if channel == Channel::Content {
            record.first_content_ns.get_or_insert(at_ns);
        }
        record.last_token_ns = Some(at_ns);
        record.token_events += 1;
        record.chunks.push(Chunk { at_ns, bytes, tokens: Some(tokens) });
    }

    fn end(mut self, at_ns: i64) -> Record {
        self.record.end_ns = Some(at_ns);
        self.record.output_tokens = Some(self.sent);
        if self.sent == 0 {
            self.record.outcome = Outcome::Empty;
        }
        self.record
    }
}

impl<M: Model, I: Iterator<Item = SimulatedRequest>> Iterator for Simulation<M, I> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        while self.ended.is_empty() {
            if !self.step() {
                return None;
            }
        }
        self.ended.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Latency, PerRequest};

    const MS: i64 = 1_000_000;

    fn requests() -> impl Iterator<Item = SimulatedRequest> {
        (0..).map(|request_id| SimulatedRequest { request_id, prompt_tokens: 1, output_tokens: 2, ..SimulatedRequest::default() })
    }

    fn closed() -> Simulation<PerRequest, impl Iterator<Item = SimulatedRequest>> {
        let latency = Latency { ttft_ns: 5 * MS, itl_ns: 5 * MS, ..Latency::none() };
        let engine = Engine::new(PerRequest::new(latency, &Seed::default()));
        simulate(engine, Seed::default(), Load::Closed { clients: 1, requests: requests() })
    }

    #[test]
    fn until_an_instant_everything_has_happened_that_is_due_until_then() {
        let mut simulation = closed();
        simulation.advance_to(25 * MS);
        assert_eq!(simulation.take_ended().filter_map(|record| record.end_ns).collect::<Vec<_>>(), [10 * MS, 20 * MS]);
        assert!(simulation.metrics("m").contains("vllm:generation_tokens_total{engine=\"0\",model_name=\"m\"} 5\n"));
        assert_eq!(simulation.occupancy().running, 1);
        simulation.stop_sending();
        assert_eq!(simulation.filter_map(|record| record.end_ns).collect::<Vec<_>>(), [30 * MS]);
    }

    #[test]
    fn the_stated_share_of_requests_fails_and_is_counted() {
        let mut simulation = closed().with_failures(0.25);
        simulation.advance_to(10_000 * MS);
        let failed = simulation.take_ended().filter(|record| record.http_status == Some(500)).count();
        // 1,000 succeed, one third as many fail, within four standard errors.
        assert!((260..=410).contains(&failed), "{failed}");
        assert!(
            simulation
                .metrics("m")
                .contains(&format!("assay_simulator_faults_total{{engine=\"0\",model_name=\"m\"}} {failed}\n"))
        );
    }

    #[test]
    fn a_request_that_arrives_during_a_stall_is_counted_from_its_end() {
        let latency = Latency { ttft_ns: 5 * MS, ..Latency::none() };
        let mut engine = Engine::new(PerRequest::new(latency, &Seed::default()));
        engine.stall(crate::engine::Stall { at_ns: 0, for_ns: 100 * MS }).expect("one stall");
        let mut simulation = simulate(engine, Seed::default(), Load::Open(requests().take(1)));
        assert_eq!(simulation.by_ref().filter_map(|record| record.first_token_ns).collect::<Vec<_>>(), [105 * MS]);
        let sum = "vllm:time_to_first_token_seconds_sum{engine=\"0\",model_name=\"m\"} 0.005\n";
        assert!(simulation.metrics("m").contains(sum));
    }
}
