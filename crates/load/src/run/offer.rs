//! Decides which request is due, and when the trial has sent all.

use std::sync::atomic::Ordering;

use assay_record::{Outcome, Phase};

use super::places::Places;
use super::{Engine, NEVER};
use crate::connection::{ConnectionState, Exchange, Slot};
use crate::delay::RequestDelays;
use crate::feeder::{Lane, NextRequest, PreparedRequest};
use crate::output::Row;
use crate::progress::add;
use crate::response::{Reader, shorten};
use crate::transport::Transport;
use crate::{Arrivals, Connections};

/// The maximum requests that are begun before sockets are polled again.
pub(super) const STARTS: u32 = 16;
/// The time for which a closed loop opens connections before sockets are polled again. A connection costs much more than a request on one that is kept, the more
/// the more ports are taken, and a loop of many users that opens all of theirs in one turn would not look at its sockets for seconds. A schedule is followed
/// whatever it takes.
const OPENING_NS: i64 = 1_000_000;
/// The interval at which the loop checks if the feeder has caught up.
pub(super) const STARVED_NS: i64 = 200_000;
/// The pause of a user whose connection could not be made.
pub(super) const PAUSE_NS: i64 = 10_000_000;
/// The reason in the record of a request that was due and was not sent.
pub(super) const NOT_SENT: &str = "the trial ended before it could be sent";

/// Returns the time at which a turn was planned: by its user's grid, or by the trace, whose session begins when it is due, and without idle time that
/// was cut.
fn planned_ns(prepared: &PreparedRequest, arrivals: Arrivals) -> Option<i64> {
    if matches!(arrivals, Arrivals::Users { .. }) {
        return prepared.scheduled_ns;
    }
    let (since_start_ns, course) = prepared.turn.and_then(|turn| turn.planned_ns).zip(prepared.course)?;
    let since_start_ns = i64::try_from(since_start_ns).unwrap_or(i64::MAX);
    Some(course.start_ns.saturating_add(since_start_ns).saturating_sub(course.cut_ns))
}

impl Engine<'_> {
    /// Begins the due requests and computes the next due time.
    pub(super) fn offer(&mut self, now: i64) {
        self.next_due_ns = NEVER;
        if self.offered_to_ns.is_none() {
            match self.trial.arrivals {
                _ if self.sessions.is_some() => self.offer_sessions(now),
                Arrivals::Closed { .. } => self.offer_closed(now),
                // Those of users are sessions.
                Arrivals::Open { .. } | Arrivals::Users { .. } => self.offer_open(now),
            }
        }
    }

    /// Follows the schedule to its end even if the loop is behind it: requests that were due before the phase's end are sent
    /// late, and record it.
    fn offer_open(&mut self, mut now: i64) {
        for _ in 0..STARTS {
            let ends_ns = if self.phase == Phase::Warmup { self.trial.warmup_ns } else { self.measured_end_ns() };
            match self.lane().next() {
                NextRequest::Starved => {
                    self.next_due_ns = now + STARVED_NS;
                    return;
                }
                NextRequest::Ready(intended) if intended.unwrap_or(now) < ends_ns => {
                    if let Some(intended) = intended.filter(|intended| *intended > now) {
                        self.next_due_ns = intended;
                        return;
                    }
                    if self.places.as_ref().is_some_and(Places::are_taken) {
                        // The end of a request in flight makes room.
                        return;
                    }
                    self.take_and_begin(now);
                    if self.offered_to_ns.is_some() {
                        return;
                    }
                    now = self.now();
                }
                NextRequest::Ready(_) | NextRequest::Exhausted if self.phase == Phase::Warmup => self.enter_measured(),
                NextRequest::Ready(_) | NextRequest::Exhausted => {
                    self.offered_to_ns = Some(if ends_ns == NEVER { now } else { ends_ns });
                    return;
                }
            }
        }
        self.next_due_ns = now;
    }

    /// Lets every user without a request in flight send the next. The clock decides the phase.
    fn offer_closed(&mut self, mut now: i64) {
        self.end_pauses(now);
        for _ in 0..STARTS {
            if self.phase == Phase::Warmup && now >= self.trial.warmup_ns {
                self.enter_measured();
            }
            if now >= self.measured_end_ns() {
                self.offered_to_ns = Some(self.measured_end_ns());
                return;
            }
            if self.has_opened_enough() {
                break;
            }
            if self.free_users == 0 {
                self.next_due_ns = self.pauses.front().copied().unwrap_or(NEVER);
                return;
            }
            match self.lane().next() {
                NextRequest::Starved => {
                    self.next_due_ns = now + STARVED_NS;
                    return;
                }
                NextRequest::Exhausted if self.phase == Phase::Warmup => {
                    self.next_due_ns = self.trial.warmup_ns;
                    return;
                }
                NextRequest::Exhausted => {
                    self.offered_to_ns = Some(now);
                    return;
                }
                NextRequest::Ready(_) => {
                    self.free_users -= 1;
                    self.take_and_begin(now);
                    if self.offered_to_ns.is_some() {
                        return;
                    }
                    now = self.now();
                }
            }
        }
        self.next_due_ns = now;
    }

    /// Returns true if a closed loop opens no more connections before it looks at its sockets.
    pub(super) fn has_opened_enough(&self) -> bool {
        self.opening_ns >= OPENING_NS && matches!(self.trial.arrivals, Arrivals::Closed { .. })
    }

    /// Frees the users whose pause is over.
    pub(super) fn end_pauses(&mut self, now: i64) {
        while self.pauses.front().is_some_and(|until| *until <= now) {
            self.pauses.pop_front();
            self.free_users += 1;
        }
    }

    pub(super) fn lane(&mut self) -> &mut Lane {
        if self.phase == Phase::Warmup { &mut self.warmup } else { &mut self.measured }
    }

    fn enter_measured(&mut self) {
        self.warmup.close();
        self.phase = Phase::Measured;
    }

    /// Takes the next request, which is due, and begins it; ends the phase if it was the last.
    fn take_and_begin(&mut self, now: i64) {
        let phase = self.phase;
        let Some((prepared, starved)) = self.lane().take() else { return };
        self.client.starved += u64::from(starved);
        self.worked = true;
        if phase == Phase::Measured {
            self.count_due(prepared.intended_ns);
            if self.is_all_due() {
                self.offered_to_ns = Some(now);
            }
        }
        self.begin(prepared, None, phase, now);
    }

    /// Counts a measured request that has become due.
    pub(super) fn count_due(&mut self, intended_ns: Option<i64>) {
        self.measured_due += 1;
        if let Some(at) = intended_ns {
            self.intended_ns = Some(self.intended_ns.map_or((at, at), |(first, last)| (first.min(at), last.max(at))));
        }
    }

    /// Begins a request: on a kept-alive connection, on a new one, or not at all. `session` is the key of its session.
    pub(super) fn begin(&mut self, prepared: PreparedRequest, session: Option<u64>, phase: Phase, now: i64) {
        let lists = self.trial.chunk_lists.lists(prepared.global_index);
        let (cancel_after_ns, output_limit) = (prepared.cancel_after_ns, prepared.output_limit);
        let (mut row, wire) = self.new_row(prepared, phase, now);
        let due_ns = row.record.intended_ns.unwrap_or(now);
        row.record.ready_ns = self.places.as_mut().and_then(|places| places.take(due_ns));
        let most = self.trial.max_in_flight();
        let kept_alive = if self.in_flight < most { self.take_kept(session) } else { None };
        // Sessions in a pause keep their connections.
        if kept_alive.is_none() && self.in_flight as usize + self.of_sessions.len() >= most as usize {
            let reason = if self.in_flight < most {
                "requests and sessions in a pause had as many connections as may be open at once"
            } else {
                "as many requests were under way as may be at once"
            };
            if let (Some(key), Some(turn)) = (session, row.record.turn) {
                row.record.session_done = self.end_turn(key, turn, Outcome::Dropped, now, None);
            }
            self.drop_row(row, reason, now);
            return;
        }
        let of_session = session.zip(row.record.turn).zip(self.sessions.as_mut());
        let keeps_text = of_session.is_some_and(|((key, turn), sessions)| sessions.prepare_next(key, turn));
        self.in_flight += 1;
        self.client.most_in_flight = self.client.most_in_flight.max(u64::from(self.in_flight));
        add(&self.progress.sent, 1);
        self.progress.in_flight.store(u64::from(self.in_flight), Ordering::Relaxed);
        let slot = kept_alive.unwrap_or_else(|| self.vacant_slot());
        let reused = kept_alive.is_some();
        let place = &mut self.slots[slot as usize];
        place.reader.reset(lists, keeps_text, output_limit);
        place.exchange = Some(Exchange {
            row,
            wire,
            written: 0,
            is_written: false,
            reused,
            delays: RequestDelays::default(),
            tries: 0,
            session,
            cancel_after_ns,
            cancel_at_ns: None,
        });
        self.order.push(slot);
        if reused {
            self.slots[slot as usize].state = ConnectionState::Busy;
            self.write(slot);
        } else {
            self.open(slot);
        }
    }

    pub(super) fn new_row(&mut self, prepared: PreparedRequest, phase: Phase, now: i64) -> (Box<Row>, Vec<u8>) {
        let mut row = self.output.row();
        let record = &mut row.record;
        record.phase = phase;
        record.global_index = prepared.global_index;
        record.session = prepared.turn.map(|turn| turn.session);
        record.turn = prepared.turn.map(|turn| turn.turn);
        record.stream = prepared.turn.and_then(|turn| turn.stream);
        record.session_turns = prepared.turn.map(|turn| turn.turns);
        record.session_start_ns = prepared.course.map(|course| course.start_ns);
        record.session_pauses_ns = prepared.course.map(|course| course.pauses_ns);
        record.planned_ns = planned_ns(&prepared, self.trial.arrivals);
        record.request_id = prepared.request_id;
        let has_intended = matches!(self.trial.arrivals, Arrivals::Open { .. }) || record.turn.is_some();
        // The time to connect is a part of the latency.
        let taken_up = (self.trial.connections == Connections::Never).then_some(now);
        record.intended_ns = prepared.intended_ns.filter(|_| has_intended).or(taken_up);
        record.dequeued_ns = Some(now);
        record.input_tokens_requested = prepared.input_tokens_requested;
        record.input_tokens = prepared.input_tokens;
        record.output_tokens_requested = prepared.output_tokens_requested;
        record.prompt_sha256 = prepared.prompt_sha256;
        (row, prepared.wire)
    }

    pub(super) fn drop_row(&mut self, mut row: Box<Row>, reason: &str, now: i64) {
        row.record.outcome = Outcome::Dropped;
        row.record.error = Some(shorten(reason, 200));
        row.record.end_ns = Some(now);
        self.record_end(row, now);
    }

    /// Records the requests that were due before `until_ns` and will not be sent. If `wait` is set it waits for the feeder, so
    /// that none is missed.
    pub(super) fn drop_rest(&mut self, until_ns: i64, wait: bool, now: i64) {
        if matches!(self.trial.arrivals, Arrivals::Closed { .. }) {
            return;
        }
        loop {
            let ends_ns = if self.phase == Phase::Warmup { until_ns.min(self.trial.warmup_ns) } else { until_ns };
            let next = if wait { self.lane().wait() } else { self.lane().next() };
            match next {
                NextRequest::Ready(intended) if intended.unwrap_or(now) < ends_ns => {
                    let Some((prepared, _)) = self.lane().take() else { return };
                    if self.sessions.is_some() {
                        self.drop_session(prepared, intended.unwrap_or(now), now);
                        continue;
                    }
                    let phase = self.phase;
                    if phase == Phase::Measured {
                        self.count_due(prepared.intended_ns);
                    }
                    let (row, _) = self.new_row(prepared, phase, now);
                    self.drop_row(row, NOT_SENT, now);
                }
                NextRequest::Ready(_) | NextRequest::Exhausted if self.phase == Phase::Warmup => self.enter_measured(),
                _ => return,
            }
        }
    }

    /// Returns a kept-alive connection that a request may take. `session` is the key of its session.
    fn take_kept(&mut self, session: Option<u64>) -> Option<u32> {
        match self.trial.connections {
            Connections::Pooled => self.take_idle(),
            Connections::Never => None,
            Connections::Sticky => {
                let (slot, generation) = session.and_then(|key| self.of_sessions.remove(&key))?;
                let place = self.slots.get(slot as usize)?;
                if place.generation != generation || place.state != ConnectionState::Idle {
                    return None;
                }
                if place.transport.as_ref().is_some_and(Transport::is_silent) {
                    self.slots[slot as usize].kept_for = None;
                    return Some(slot);
                }
                self.client.resends += 1;
                self.end_idle(slot);
                None
            }
        }
    }

    /// Closes the connection of a session that has ended.
    pub(super) fn release(&mut self, key: u64) {
        let kept = self.of_sessions.remove(&key);
        let open = kept.filter(|(slot, generation)| {
            self.slots
                .get(*slot as usize)
                .is_some_and(|place| place.generation == *generation && place.state == ConnectionState::Idle)
        });
        if let Some((slot, _)) = open {
            self.end_idle(slot);
        }
    }

    /// Returns the most recently used kept-alive connection, because it is the least likely to be closed. One that the server has
    /// closed meanwhile is dropped before anything is written to it.
    fn take_idle(&mut self) -> Option<u32> {
        let mut found_closed = false;
        while let Some((slot, generation)) = self.idle.pop() {
            let place = &self.slots[slot as usize];
            if place.generation != generation || place.state != ConnectionState::Idle {
                continue;
            }
            if place.transport.as_ref().is_some_and(Transport::is_silent) {
                self.client.resends += u64::from(found_closed);
                return Some(slot);
            }
            found_closed = true;
            self.end_idle(slot);
        }
        self.client.resends += u64::from(found_closed);
        None
    }

    fn vacant_slot(&mut self) -> u32 {
        self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Slot::new(Reader::new(self.trial, self.budget.clone())));
            // There are never more slots than requests in flight and kept-alive connections, both bounded by a u32.
            self.slots.len() as u32 - 1
        })
    }
}
