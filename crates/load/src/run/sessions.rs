//! Sessions: decides which turn is due, and what follows the end of a turn.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use assay_record::{Outcome, Phase};

use super::offer::{NOT_SENT, STARTS, STARVED_NS};
use super::{Engine, NEVER};
use crate::feeder::{NextRequest, PreparedRequest, SessionCourse};
use crate::turn_feeder::{KeptText, TurnQueue};
use crate::{Arrivals, Beginning, History, NextTurn, PlannedTurn, Sessions, Successor};

/// The sessions that have begun and not ended. The key of a session is its place in the order in which they began: its id is the
/// caller's, who may use one twice.
pub(super) struct SessionTable {
    history: History,
    queue: TurnQueue,
    active: BTreeMap<u64, Session>,
    /// The times at which later turns are due, each with its session and its number, the earliest first. Those that were due before they were
    /// prepared are not in it, and those of sessions in which a turn failed before may be.
    due: BinaryHeap<Reverse<(i64, u64, u32)>>,
    /// The number of turns that were due and are not prepared.
    overdue: usize,
    begun: u64,
    /// The longest time for which nothing is in flight while turns wait.
    idle_cap_ns: Option<i64>,
    /// The latest end of a turn of any session.
    last_end_ns: i64,
    /// The time so far by which waiting turns came earlier because nothing was in flight.
    cut_ns: i64,
}

/// A session that has begun.
#[derive(Default)]
struct Session {
    id: u64,
    /// The time at which its first turn was due.
    start_ns: i64,
    /// The time so far in which none of its turns was due or in flight.
    idle_ns: i64,
    /// The latest end of a turn.
    last_end_ns: i64,
    /// The time by which waiting turns of any session had come earlier when it began.
    cut_before_ns: i64,
    /// The turns that are in flight or due, each with those that wait for its end.
    in_flight: BTreeMap<u32, Vec<NextTurn>>,
    /// The turns of which another that they wait for has begun.
    waiting: BTreeMap<u32, WaitingTurn>,
    /// The number of turns that are due at a known time and have not begun, those that were due included.
    coming: usize,
    /// The turns that succeeded.
    done: u32,
    /// The end and the outcome of the first turn that failed.
    failed: Option<(i64, Outcome)>,
    /// True if a turn would have been due after the end of the measured phase.
    is_cut: bool,
    /// The session that its user plays next.
    successor: Option<Successor>,
    /// The key of that session, once its first turn is requested.
    successor_key: Option<u64>,
}

/// A turn that has not begun.
#[derive(Default)]
struct WaitingTurn {
    pause_ns: u64,
    /// The number of turns that it waits for.
    waits: u32,
    /// The latest end of those that have ended.
    last_end_ns: i64,
    /// The time before which it is not due, if it is of a user's grid.
    planned_ns: Option<i64>,
    /// The time at which it is due, once all of them have ended.
    due_ns: Option<i64>,
    /// The course of its session up to it, once it is due.
    course: Option<SessionCourse>,
    prepared: Option<PreparedRequest>,
    /// True if it was due and is not prepared.
    is_overdue: bool,
    /// True if it was due before it was prepared.
    starved: bool,
}

/// A later turn that is due and prepared.
struct DueTurn {
    key: u64,
    due_ns: i64,
    prepared: PreparedRequest,
    /// True if it was due before it was prepared.
    starved: bool,
}

/// The end of a turn.
#[derive(Default)]
struct TurnEnd {
    /// The turns of its session that have succeeded; none if another one had failed before.
    done: Option<u32>,
    /// The turns that are due now, with the time.
    released: Vec<(u32, i64)>,
    /// True if no more turns of the session are in flight or due.
    is_last: bool,
}

/// The state of the next session.
enum NextSession {
    /// It was due, and has begun.
    Begun,
    /// None can begin before this time, or before another one ends.
    NotBefore(i64),
    /// There are no more sessions.
    Exhausted,
}

impl Session {
    fn new(id: u64, start_ns: i64, cut_before_ns: i64) -> Self {
        Self { id, start_ns, last_end_ns: start_ns, cut_before_ns, ..Self::default() }
    }

    /// Adds a turn that waits for no other, due a time after the start. Returns the time at which it is due, unless that is the end of the phase
    /// or after it.
    fn await_turn(&mut self, beginning: Beginning, ends_ns: i64, prepared: Option<PreparedRequest>) -> Option<i64> {
        let due_ns = self.start_ns.saturating_add(i64::try_from(beginning.after_ns).unwrap_or(i64::MAX));
        if due_ns >= ends_ns {
            self.is_cut = true;
            return None;
        }
        self.waiting.insert(beginning.turn, WaitingTurn { due_ns: Some(due_ns), prepared, ..WaitingTurn::default() });
        self.coming += 1;
        Some(due_ns)
    }

    /// Notes that a turn is due, and returns the course of the session up to it. Turns are noted in the order in which they are due.
    fn course(&mut self, due_ns: i64, cut_ns: i64) -> SessionCourse {
        if self.in_flight.is_empty() && self.waiting.values().all(|turn| turn.course.is_none()) {
            self.idle_ns = self.idle_ns.saturating_add(due_ns.saturating_sub(self.last_end_ns).max(0));
        }
        SessionCourse { start_ns: self.start_ns, pauses_ns: self.idle_ns, cut_ns: cut_ns.saturating_sub(self.cut_before_ns) }
    }

    /// Ends a turn. A turn that failed ends the session: only turns that were due by then are sent.
    fn end_turn(&mut self, turn: u32, outcome: Outcome, at_ns: i64, ends_ns: i64) -> TurnEnd {
        let next = self.in_flight.remove(&turn).unwrap_or_default();
        self.last_end_ns = self.last_end_ns.max(at_ns);
        let mut end = TurnEnd { done: self.failed.is_none().then_some(self.done), ..TurnEnd::default() };
        if outcome != Outcome::Ok {
            if self.failed.is_none() {
                self.fail(at_ns, outcome);
            }
        } else if self.failed.is_none() {
            self.done += 1;
            end.done = Some(self.done);
            end.released = next.into_iter().filter_map(|next| self.release(next, at_ns, ends_ns)).collect();
        }
        end.is_last = self.in_flight.is_empty() && self.coming == 0;
        end
    }

    fn fail(&mut self, at_ns: i64, outcome: Outcome) {
        self.failed = Some((at_ns, outcome));
        self.waiting.retain(|_, turn| turn.due_ns.is_some_and(|due_ns| due_ns <= at_ns));
        self.coming = self.waiting.len();
    }

    /// Lets a turn no longer wait for one that has ended. Returns the turn with the time at which it is due if it waits for no other.
    fn release(&mut self, next: NextTurn, at_ns: i64, ends_ns: i64) -> Option<(u32, i64)> {
        let turn = self.waiting.get_mut(&next.turn)?;
        turn.waits = turn.waits.saturating_sub(1);
        turn.last_end_ns = turn.last_end_ns.max(at_ns);
        if turn.waits > 0 {
            return None;
        }
        let free_ns = turn.last_end_ns.saturating_add(i64::try_from(turn.pause_ns).unwrap_or(i64::MAX));
        let due_ns = turn.planned_ns.map_or(free_ns, |planned_ns| planned_ns.max(free_ns));
        if turn.planned_ns.unwrap_or(due_ns) >= ends_ns {
            self.is_cut = true;
            return None;
        }
        turn.due_ns = Some(due_ns);
        self.coming += 1;
        Some((next.turn, due_ns))
    }
}

impl SessionTable {
    pub(super) fn new(sessions: Sessions, queue: TurnQueue) -> Self {
        let Sessions { history, idle_cap_ns, .. } = sessions;
        let (active, due) = (BTreeMap::new(), BinaryHeap::new());
        Self { history, queue, active, due, overdue: 0, begun: 0, idle_cap_ns, last_end_ns: 0, cut_ns: 0 }
    }

    /// Returns the time by which waiting turns came earlier because nothing was in flight.
    pub(super) fn cut_ns(&self) -> i64 {
        self.cut_ns
    }

    /// Adds a session that begins with this turn, which was due at `start_ns`, and returns its key.
    pub(super) fn add(&mut self, turn: PlannedTurn, next: Vec<NextTurn>, successor: Option<Successor>, start_ns: i64) -> u64 {
        let (key, mut session) = self.open(turn.session, start_ns);
        session.successor = successor;
        session.in_flight.insert(turn.turn, next);
        self.active.insert(key, session);
        key
    }

    /// Requests the first turn of the session that the user of this one plays next, unless it has been. Returns its key.
    fn prepare_successor(&mut self, key: u64) -> Option<u64> {
        let session = self.active.get(&key)?;
        let Successor { session: id, planned_ns } = session.successor?;
        if session.successor_key.is_some() {
            return session.successor_key;
        }
        let (next_key, mut next) = self.open(id, planned_ns);
        next.waiting.insert(0, WaitingTurn { waits: 1, planned_ns: Some(planned_ns), ..WaitingTurn::default() });
        self.active.insert(next_key, next);
        self.queue.prepare(next_key, id, 0, None);
        self.active.get_mut(&key)?.successor_key = Some(next_key);
        Some(next_key)
    }

    /// Lets the first turn of the session after this one be due, whose last turn ended at `at_ns`. Returns the time at which it is.
    fn release_successor(&mut self, key: u64, at_ns: i64, ends_ns: i64) -> Option<i64> {
        let next = self.prepare_successor(key)?;
        let session = self.active.get_mut(&next)?;
        let first = NextTurn { turn: 0, ..NextTurn::default() };
        let (turn, due_ns) = session.release(first, at_ns, ends_ns)?;
        (session.start_ns, session.last_end_ns) = (due_ns, due_ns);
        self.due.push(Reverse((due_ns, next, turn)));
        Some(due_ns)
    }

    fn open(&mut self, id: u64, start_ns: i64) -> (u64, Session) {
        let key = self.begun;
        self.begun += 1;
        (key, Session::new(id, start_ns, self.cut_ns))
    }

    /// Adds a session that begins in its middle. Returns its key and its first turn if that is due at once; otherwise all of its turns wait.
    fn add_from_middle(
        &mut self,
        turn: PlannedTurn,
        mut prepared: PreparedRequest,
        start_ns: i64,
        ends_ns: i64,
    ) -> (u64, Option<PreparedRequest>) {
        let ends_ns = self.last_due_ns(ends_ns);
        let (key, mut session) = self.open(turn.session, start_ns);
        for beginning in std::mem::take(&mut prepared.beside) {
            if let Some(due_ns) = session.await_turn(beginning, ends_ns, None) {
                self.due.push(Reverse((due_ns, key, beginning.turn)));
                self.queue.prepare(key, session.id, beginning.turn, None);
            }
        }
        let first = if prepared.after_ns == 0 {
            session.in_flight.insert(turn.turn, std::mem::take(&mut prepared.next));
            prepared.begin_session(start_ns);
            Some(prepared)
        } else {
            let beginning = Beginning { turn: turn.turn, after_ns: prepared.after_ns };
            if let Some(due_ns) = session.await_turn(beginning, ends_ns, Some(prepared)) {
                self.due.push(Reverse((due_ns, key, turn.turn)));
            }
            None
        };
        self.active.insert(key, session);
        (key, first)
    }

    /// Returns the time at and after which turns are not due: the end of the phase, unless a cap on idle time may move them before it.
    fn last_due_ns(&self, ends_ns: i64) -> i64 {
        if self.idle_cap_ns.is_some() { NEVER } else { ends_ns }
    }

    /// Lets all waiting turns be due earlier by the same time, if nothing is in flight and the first of them is due later than the cap allows. The
    /// cap counts from the latest end of a turn.
    fn cut_idle(&mut self, ends_ns: i64) {
        let Some(cap_ns) = self.idle_cap_ns.filter(|_| self.overdue == 0) else { return };
        let latest_ns = self.last_end_ns.saturating_add(cap_ns);
        // Those of sessions in which a turn failed are no more.
        self.due.retain(|Reverse((_, key, turn))| self.active.get(key).is_some_and(|session| session.waiting.contains_key(turn)));
        let first_ns = self.due.peek().map_or(NEVER, |Reverse((due_ns, _, _))| *due_ns);
        if first_ns == NEVER || first_ns <= latest_ns || latest_ns >= ends_ns {
            return;
        }
        let cut_ns = first_ns - latest_ns;
        self.cut_ns = self.cut_ns.saturating_add(cut_ns);
        let moved = self.due.drain().map(|Reverse((due_ns, key, turn))| Reverse((due_ns - cut_ns, key, turn)));
        self.due = moved.collect::<Vec<_>>().into();
        let turns = self.active.values_mut().flat_map(|session| session.waiting.values_mut());
        turns.filter_map(|turn| turn.due_ns.as_mut()).for_each(|due_ns| *due_ns -= cut_ns);
    }

    /// Requests the turns that wait for one that is about to be sent, if recorded history allows it already. Returns true if the text of the
    /// response must be kept for them instead.
    pub(super) fn prepare_next(&mut self, key: u64, turn: u32) -> bool {
        // After a failure nothing that waits is sent.
        let Some(session) = self.active.get_mut(&key).filter(|session| session.failed.is_none()) else { return false };
        let next = session.in_flight.get(&turn).cloned().unwrap_or_default();
        if next.is_empty() {
            self.prepare_successor(key);
            return false;
        }
        for NextTurn { turn, pause_ns, waits, planned_ns } in next.iter().copied() {
            let is_known = session.waiting.contains_key(&turn);
            session.waiting.entry(turn).or_insert(WaitingTurn {
                pause_ns,
                waits,
                planned_ns,
                last_end_ns: i64::MIN,
                ..WaitingTurn::default()
            });
            if self.history == History::Recorded && !is_known {
                self.queue.prepare(key, session.id, turn, None);
            }
        }
        self.history == History::Live
    }

    /// Ends a turn, and lets those that waited for it be due. Live history requests them now.
    fn end_turn(&mut self, key: u64, turn: u32, outcome: Outcome, at_ns: i64, ends_ns: i64, text: Option<KeptText>) -> TurnEnd {
        let ends_ns = self.last_due_ns(ends_ns);
        let Some(session) = self.active.get_mut(&key) else { return TurnEnd::default() };
        self.last_end_ns = self.last_end_ns.max(at_ns);
        let end = session.end_turn(turn, outcome, at_ns, ends_ns);
        let mut text = text;
        for (turn, due_ns) in end.released.iter().copied() {
            self.due.push(Reverse((due_ns, key, turn)));
            if self.history == History::Live {
                self.queue.prepare(key, session.id, turn, text.take());
            }
        }
        end
    }

    /// Takes the turn that was due first of those that are due and prepared.
    fn take_due(&mut self, now: i64) -> Option<DueTurn> {
        while let Some((key, prepared)) = self.queue.try_next() {
            self.keep_prepared(key, prepared);
        }
        while let Some(&Reverse((due_ns, key, number))) = self.due.peek()
            && due_ns <= now
        {
            self.due.pop();
            let Some(session) = self.active.get_mut(&key) else { continue };
            // Not there if another turn failed before it was due.
            let Some(mut turn) = session.waiting.remove(&number) else { continue };
            let course = turn.course.unwrap_or_else(|| session.course(due_ns, self.cut_ns));
            if let Some(mut prepared) = turn.prepared.take() {
                session.coming -= 1;
                session.in_flight.insert(number, std::mem::take(&mut prepared.next));
                session.successor = prepared.successor;
                prepared.intended_ns = Some(due_ns);
                prepared.course = Some(course);
                return Some(DueTurn { key, due_ns, prepared, starved: turn.starved });
            }
            // Other turns, behind it, do not wait for it.
            session.waiting.insert(number, WaitingTurn { course: Some(course), is_overdue: true, ..turn });
            self.overdue += 1;
        }
        None
    }

    fn keep_prepared(&mut self, key: u64, prepared: PreparedRequest) {
        // Not there if the session has ended meanwhile, or if a turn of it has failed.
        let Some(number) = prepared.turn.map(|turn| turn.turn) else { return };
        let Some(turn) = self.active.get_mut(&key).and_then(|session| session.waiting.get_mut(&number)) else { return };
        turn.prepared = Some(prepared);
        if let Some(due_ns) = turn.due_ns.filter(|_| std::mem::take(&mut turn.is_overdue)) {
            turn.starved = true;
            self.overdue -= 1;
            self.due.push(Reverse((due_ns, key, number)));
        }
    }

    /// Takes a turn that was due before this time. If `wait` is set, it waits until the turn is prepared.
    fn take_unsent(&mut self, until_ns: i64, wait: bool) -> Option<DueTurn> {
        loop {
            if let Some(due) = self.take_due(until_ns.saturating_sub(1)) {
                return Some(due);
            }
            if !wait || self.overdue == 0 {
                return None;
            }
            let (key, prepared) = self.queue.wait()?;
            self.keep_prepared(key, prepared);
        }
    }

    /// Returns the time at which a turn may have to be begun.
    fn wake_ns(&self, now: i64) -> i64 {
        let due_ns = self.due.peek().map_or(NEVER, |Reverse((due_ns, _, _))| *due_ns);
        if self.overdue > 0 { due_ns.min(now + STARVED_NS) } else { due_ns }
    }

    fn take(&mut self, key: u64) -> Option<Session> {
        let session = self.active.remove(&key)?;
        self.queue.end(session.id);
        Some(session)
    }

    fn end_all(&mut self) {
        while let Some((_, session)) = self.active.pop_first() {
            self.queue.end(session.id);
        }
    }
}

impl Engine<'_> {
    /// Begins the turns that are due and computes the next due time: first the later turns, the earliest before the others, and
    /// then the first turns of sessions.
    pub(super) fn offer_sessions(&mut self, mut now: i64) {
        self.end_pauses(now);
        for _ in 0..STARTS {
            if self.has_opened_enough() {
                break;
            }
            let next = if self.begin_due_turn(now) { NextSession::Begun } else { self.begin_due_session(now) };
            let first_due_ns = match next {
                NextSession::Begun => {
                    now = self.now();
                    continue;
                }
                NextSession::NotBefore(at_ns) => at_ns,
                NextSession::Exhausted => NEVER,
            };
            if first_due_ns == NEVER {
                self.cut_idle();
            }
            if matches!(next, NextSession::Exhausted) && self.are_all_turns_due(now) {
                self.offered_to_ns = Some(self.offered_end_ns(now));
            } else {
                self.next_due_ns = self.sessions.as_ref().map_or(NEVER, |sessions| sessions.wake_ns(now)).min(first_due_ns);
            }
            return;
        }
        self.next_due_ns = now;
    }

    /// Lets waiting turns be due earlier if nothing is in flight for longer than the cap allows. No user is about to begin a session.
    fn cut_idle(&mut self) {
        let ends_ns = self.measured_end_ns();
        if let Some(sessions) = self.sessions.as_mut().filter(|_| self.in_flight == 0) {
            sessions.cut_idle(ends_ns);
        }
    }

    /// Begins the later turn that was due first, if one is due and prepared.
    fn begin_due_turn(&mut self, now: i64) -> bool {
        // A cap on idle time may leave turns due after the end, which are not sent; those of users were planned before it, however late they are due.
        let has_grid = matches!(self.trial.arrivals, Arrivals::Users { .. });
        let until_ns = if has_grid { now } else { now.min(self.measured_end_ns().saturating_sub(1)) };
        let Some(due) = self.sessions.as_mut().and_then(|sessions| sessions.take_due(until_ns)) else { return false };
        self.client.starved += u64::from(due.starved);
        self.begin_turn(due.key, due.prepared, due.due_ns, now);
        true
    }

    /// Begins the next session, if it is due and, under closed loop, a user is free.
    fn begin_due_session(&mut self, now: i64) -> NextSession {
        let is_closed = matches!(self.trial.arrivals, Arrivals::Closed { .. });
        let ends_ns = self.measured_end_ns();
        if is_closed && now >= ends_ns {
            return NextSession::Exhausted;
        }
        if is_closed && self.free_users == 0 {
            return NextSession::NotBefore(self.pauses.front().copied().unwrap_or(NEVER));
        }
        let due_ns = match self.lane().next() {
            NextRequest::Starved => return NextSession::NotBefore(now + STARVED_NS),
            NextRequest::Exhausted => return NextSession::Exhausted,
            NextRequest::Ready(intended) => intended.filter(|_| !is_closed).unwrap_or(now),
        };
        if due_ns >= ends_ns {
            return NextSession::Exhausted;
        }
        if due_ns > now {
            return NextSession::NotBefore(due_ns);
        }
        self.begin_session(due_ns, now);
        NextSession::Begun
    }

    fn begin_session(&mut self, due_ns: i64, now: i64) {
        let Some((mut prepared, starved)) = self.lane().take() else { return };
        self.client.starved += u64::from(starved);
        self.free_users = self.free_users.saturating_sub(1);
        let ends_ns = self.measured_end_ns();
        let (Some(turn), Some(sessions)) = (prepared.turn, &mut self.sessions) else { return };
        if prepared.after_ns > 0 || !prepared.beside.is_empty() {
            let (key, first) = sessions.add_from_middle(turn, prepared, due_ns, ends_ns);
            if let Some(first) = first {
                self.begin_turn(key, first, due_ns, now);
            }
            return;
        }
        prepared.begin_session(due_ns);
        let key = sessions.add(turn, std::mem::take(&mut prepared.next), prepared.successor, due_ns);
        self.begin_turn(key, prepared, due_ns, now);
    }

    /// Begins a turn.
    fn begin_turn(&mut self, key: u64, prepared: PreparedRequest, due_ns: i64, now: i64) {
        self.worked = true;
        let phase = self.phase_of(&prepared, due_ns);
        if phase == Phase::Measured {
            self.count_due(prepared.intended_ns);
        }
        self.begin(prepared, Some(key), phase, now);
    }

    /// Returns the phase of a turn: that in which it is due, or, on a user's grid, planned.
    fn phase_of(&self, prepared: &PreparedRequest, due_ns: i64) -> Phase {
        let has_grid = matches!(self.trial.arrivals, Arrivals::Users { .. });
        let at_ns = prepared.scheduled_ns.filter(|_| has_grid).unwrap_or(due_ns);
        if at_ns < self.trial.warmup_ns { Phase::Warmup } else { Phase::Measured }
    }

    /// Records the first turn of a session, which was due and will not be sent. The session has begun with it, and ends.
    pub(super) fn drop_session(&mut self, mut prepared: PreparedRequest, due_ns: i64, now: i64) {
        prepared.begin_session(due_ns);
        if let (Some(turn), Some(sessions)) = (prepared.turn, &mut self.sessions) {
            let key = sessions.add(turn, Vec::new(), prepared.successor, due_ns);
            self.drop_turn(DueTurn { key, due_ns, prepared, starved: false }, now);
        }
    }

    /// Records a turn that was due and will not be sent, which ends its session.
    fn drop_turn(&mut self, due: DueTurn, now: i64) {
        let phase = self.phase_of(&due.prepared, due.due_ns);
        if phase == Phase::Measured {
            self.count_due(Some(due.due_ns));
        }
        let turn = due.prepared.turn.map_or(0, |turn| turn.turn);
        let (mut row, _) = self.new_row(due.prepared, phase, now);
        row.record.session_done = self.end_turn(due.key, turn, Outcome::Dropped, now, None);
        self.drop_row(row, NOT_SENT, now);
    }

    /// Returns true if, with no more sessions to begin, no turn can become due: all sessions have ended, or the clock has ended the
    /// measured phase and every turn that was due before has begun.
    fn are_all_turns_due(&self, now: i64) -> bool {
        let ends_ns = self.measured_end_ns();
        // A user has an active session until the last of its turns has ended.
        let is_ended = now >= ends_ns && !matches!(self.trial.arrivals, Arrivals::Users { .. });
        self.sessions.as_ref().is_none_or(|sessions| {
            let is_none_due = sessions.due.peek().is_none_or(|Reverse((due_ns, _, _))| *due_ns >= ends_ns);
            sessions.active.is_empty() || (is_ended && is_none_due && sessions.overdue == 0)
        })
    }

    /// Returns the time up to which load was offered, once all of it was. An open loop offers none up to its end.
    fn offered_end_ns(&self, now: i64) -> i64 {
        match (self.trial.arrivals, self.measured_end_ns()) {
            (Arrivals::Open { .. } | Arrivals::Users { .. }, ends_ns) if ends_ns != NEVER => ends_ns,
            (_, ends_ns) => now.min(ends_ns),
        }
    }

    /// Ends a turn: its session waits for others, or has ended. Returns the number of its turns that have succeeded, for the record.
    pub(super) fn end_turn(&mut self, key: u64, turn: u32, outcome: Outcome, at_ns: i64, text: Option<KeptText>) -> Option<u32> {
        let ends_ns = self.measured_end_ns();
        let sessions = self.sessions.as_mut()?;
        let TurnEnd { done, released, is_last } = sessions.end_turn(key, turn, outcome, at_ns, ends_ns, text);
        if let Some(due_ns) = released.iter().map(|(_, due_ns)| *due_ns).min() {
            self.next_due_ns = self.next_due_ns.min(due_ns);
        }
        let next_ns = if is_last { sessions.release_successor(key, at_ns, ends_ns) } else { None };
        self.next_due_ns = next_ns.map_or(self.next_due_ns, |next_ns| self.next_due_ns.min(next_ns));
        if is_last && let Some(session) = sessions.take(key) {
            self.release(key);
            // The user of a session that the end of the phase cut is in a pause up to it, and begins no other session instead: near the end
            // there would be more first turns than before.
            if !session.is_cut {
                let outcome = session.failed.map_or(Outcome::Ok, |(_, outcome)| outcome);
                self.free_user(outcome, at_ns);
            }
        }
        done
    }

    /// Records the later turns that were due and will not be sent, and ends all sessions. If `wait` is set it waits until those
    /// turns are prepared, so that none is missed.
    pub(super) fn close_sessions(&mut self, wait: bool) {
        // The turns of a user were planned before the end, however late they are due; of a trial that was stopped, only those that were due count.
        let has_grid = matches!(self.trial.arrivals, Arrivals::Users { .. });
        let until_ns = if wait && has_grid { NEVER } else { self.offered_to_ns.unwrap_or(i64::MIN) };
        while let Some(due) = self.sessions.as_mut().and_then(|sessions| sessions.take_unsent(until_ns, wait)) {
            let now = self.now();
            self.drop_turn(due, now);
        }
        if let Some(sessions) = &mut self.sessions {
            sessions.end_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn_feeder::turn_queue;

    const FLOW: u64 = 7;

    fn planned(turn: u32) -> PlannedTurn {
        PlannedTurn { session: FLOW, session_id: 1, turn, turns: 5, stream: None, planned_ns: None }
    }

    fn prepared(turn: u32, next: &[(u32, u64, u32)]) -> PreparedRequest {
        PreparedRequest { turn: Some(planned(turn)), next: followed(next), ..PreparedRequest::default() }
    }

    /// Turns that wait: number, pause, and the number of turns that each waits for.
    fn followed(next: &[(u32, u64, u32)]) -> Vec<NextTurn> {
        next.iter()
            .map(|(turn, pause_ns, waits)| NextTurn { turn: *turn, pause_ns: *pause_ns, waits: *waits, planned_ns: None })
            .collect()
    }

    /// A table without any session. Its turns are never prepared by a thread.
    fn table() -> (SessionTable, crate::turn_feeder::TurnFeeder) {
        let (queue, feeder) = turn_queue();
        (SessionTable::new(Sessions { history: History::Recorded, most_streams: 1, idle_cap_ns: None }, queue), feeder)
    }

    #[test]
    fn the_turn_that_was_due_first_comes_first_and_one_that_is_not_prepared_holds_none_back() {
        let (mut table, _feeder) = table();
        // All of them have the same id, which makes no difference here.
        let [first, second, third] = [(); 3].map(|()| table.add(planned(0), followed(&[(1, 0, 1)]), None, 0));
        for (key, end_ns) in [(first, 30), (second, 10), (third, 20)] {
            assert!(!table.prepare_next(key, 0));
            assert!(!table.end_turn(key, 0, Outcome::Ok, end_ns, NEVER, None).is_last);
        }
        table.keep_prepared(first, prepared(1, &[]));
        table.keep_prepared(third, prepared(1, &[]));
        let take = |table: &mut SessionTable, now| {
            table.take_due(now).map(|due| (due.key, due.due_ns, due.prepared.intended_ns, due.starved))
        };
        assert_eq!((take(&mut table, 9), table.wake_ns(9)), (None, 10));
        assert_eq!(take(&mut table, 25), Some((third, 20, Some(20), false)));
        assert_eq!((take(&mut table, 25), table.wake_ns(25)), (None, 30));
        assert_eq!(take(&mut table, 30), Some((first, 30, Some(30), false)));
        assert_eq!((take(&mut table, 31), table.wake_ns(31)), (None, 31 + STARVED_NS));
        table.keep_prepared(second, prepared(1, &[]));
        assert_eq!(take(&mut table, 31), Some((second, 10, Some(10), true)));
        assert_eq!((take(&mut table, NEVER), table.wake_ns(31)), (None, NEVER));
        // One that has ended meanwhile is not found again.
        drop(table.take(first));
        table.keep_prepared(first, prepared(1, &[]));
        assert_eq!(take(&mut table, NEVER), None);
    }

    /// Returns the turn that is due by `now`, with its due time and the pauses of its session before it.
    fn due(table: &mut SessionTable, now: i64) -> Option<(u32, i64, Option<i64>)> {
        table.take_due(now).map(|due| {
            let turn = due.prepared.turn.map_or(u32::MAX, |turn| turn.turn);
            assert!(!table.prepare_next(due.key, turn));
            (turn, due.due_ns, due.prepared.course.map(|course| course.pauses_ns))
        })
    }

    /// Begins a session whose turn 0 spawns the streams 1 and 2, and 3, of which turn 4 joins the turns 1 and 2.
    fn forked() -> (SessionTable, u64, crate::turn_feeder::TurnFeeder) {
        let (mut table, feeder) = table();
        let key = table.add(planned(0), followed(&[(1, 5, 1), (2, 20, 1), (3, 400, 1), (4, 50, 3)]), None, 100);
        table.prepare_next(key, 0);
        let join = [(4, 50, 3)];
        for (turn, next) in [(1, &join[..]), (2, &join), (3, &[]), (4, &[])] {
            table.keep_prepared(key, prepared(turn, next));
        }
        (table, key, feeder)
    }

    #[test]
    fn a_turn_that_joins_others_is_due_after_the_last_of_them_and_a_session_ends_with_all_streams() {
        let (mut table, key, _feeder) = forked();
        let end = |table: &mut SessionTable, turn, at_ns| {
            let end = table.end_turn(key, turn, Outcome::Ok, at_ns, NEVER, None);
            (end.done, end.released, end.is_last)
        };
        assert_eq!(end(&mut table, 0, 130), (Some(1), vec![(1, 135), (2, 150), (3, 530)], false));
        assert_eq!(due(&mut table, 140), Some((1, 135, Some(5))));
        // The second subagent begins while the first is under way: no pause.
        assert_eq!(due(&mut table, 155), Some((2, 150, Some(5))));
        assert_eq!(due(&mut table, 155), None);
        assert_eq!(end(&mut table, 2, 300), (Some(2), vec![], false));
        assert_eq!(end(&mut table, 1, 310), (Some(3), vec![(4, 360)], false));
        assert_eq!(due(&mut table, 359), None);
        assert_eq!(due(&mut table, 365), Some((4, 360, Some(55))));
        // The subagent in the background is waited for by nothing, but its session has not ended before it has.
        assert_eq!(end(&mut table, 4, 400), (Some(4), vec![], false));
        assert_eq!(due(&mut table, 600), Some((3, 530, Some(185))));
        assert_eq!(end(&mut table, 3, 610), (Some(5), vec![], true));
    }

    #[test]
    fn a_turn_that_fails_ends_its_session_once_the_turns_that_were_due_have_ended() {
        let (mut table, key, _feeder) = forked();
        table.end_turn(key, 0, Outcome::Ok, 130, NEVER, None);
        assert_eq!(due(&mut table, 140), Some((1, 135, Some(5))));
        let failed = table.end_turn(key, 1, Outcome::Timeout, 160, NEVER, None);
        assert_eq!((failed.done, failed.is_last), (Some(1), false), "turn 2 was due at 150");
        assert_eq!(due(&mut table, 165), Some((2, 150, Some(5))));
        let second = table.end_turn(key, 2, Outcome::Ok, 170, NEVER, None);
        assert_eq!((second.done, second.released, second.is_last), (None, vec![], true));
        assert_eq!(due(&mut table, NEVER), None, "turn 3 would have been due at 530");
    }

    #[test]
    fn turns_after_the_end_of_the_phase_are_not_due() {
        let (mut table, key, _feeder) = forked();
        let end = table.end_turn(key, 0, Outcome::Ok, 130, 150, None);
        assert_eq!((end.released, end.is_last), (vec![(1, 135)], false));
        assert_eq!(due(&mut table, 135), Some((1, 135, Some(5))));
        assert!(table.end_turn(key, 1, Outcome::Ok, 140, 150, None).is_last);
        assert!(table.take(key).is_some_and(|session| session.is_cut));
    }

    /// A table of which no turn waits for longer than 100 while nothing is in flight.
    fn capped() -> (SessionTable, crate::turn_feeder::TurnFeeder) {
        let (queue, feeder) = turn_queue();
        (SessionTable::new(Sessions { history: History::Recorded, most_streams: 1, idle_cap_ns: Some(100) }, queue), feeder)
    }

    #[test]
    fn idle_time_beyond_the_cap_is_cut_for_all_turns_alike() {
        let (mut table, _feeder) = capped();
        let keys = [(0, 1_000), (0, 1_030), (40, 5_000)].map(|(start_ns, pause_ns)| {
            let key = table.add(planned(0), followed(&[(1, pause_ns, 1)]), None, start_ns);
            table.prepare_next(key, 0);
            table.keep_prepared(key, prepared(1, &[(2, 300, 1)]));
            key
        });
        let cut = |table: &mut SessionTable| {
            let before = table.cut_ns();
            table.cut_idle(NEVER);
            table.cut_ns() - before
        };
        // The turns end at 50, 60 and 90, and the next are due at 1,050, 1,090 and 5,090. What is in flight is the caller's to know.
        for (key, end_ns) in keys.into_iter().zip([50, 60, 90]) {
            table.end_turn(key, 0, Outcome::Ok, end_ns, NEVER, None);
        }
        assert_eq!(cut(&mut table), 1_050 - (90 + 100));
        assert_eq!(cut(&mut table), 0, "once is enough");
        assert_eq!(table.wake_ns(90), 190);
        let take = |table: &mut SessionTable, now| {
            table.take_due(now).map(|due| {
                table.prepare_next(due.key, due.prepared.turn.map_or(0, |turn| turn.turn));
                (due.key, due.due_ns, due.prepared.course)
            })
        };
        let course = |start_ns, pauses_ns, cut_ns| Some(SessionCourse { start_ns, pauses_ns, cut_ns });
        assert_eq!(take(&mut table, 189), None);
        assert_eq!(take(&mut table, 190), Some((keys[0], 190, course(0, 140, 860))));
        // The spacing stays: 1,090 - 1,050 after the first.
        assert_eq!(take(&mut table, 230), Some((keys[1], 230, course(0, 170, 860))));
        for (key, end_ns) in [(keys[0], 235), (keys[1], 240)] {
            table.end_turn(key, 1, Outcome::Ok, end_ns, NEVER, None);
            table.keep_prepared(key, prepared(2, &[]));
        }
        // The next are due at 535 and 540, and the third session's at 5,090 - 860.
        assert_eq!(cut(&mut table), 535 - (240 + 100));
        assert_eq!(take(&mut table, 340), Some((keys[0], 340, course(0, 245, 1_055))));
        assert_eq!(take(&mut table, 345), Some((keys[1], 345, course(0, 275, 1_055))));
        // A turn that failed lets nothing of its session wait, and a session that begins has no part in earlier cuts.
        table.end_turn(keys[0], 2, Outcome::Timeout, 350, NEVER, None);
        table.end_turn(keys[1], 2, Outcome::Ok, 360, NEVER, None);
        let late = table.add(planned(0), followed(&[(1, 50, 1)]), None, 400);
        table.prepare_next(late, 0);
        table.keep_prepared(late, prepared(1, &[]));
        table.end_turn(late, 0, Outcome::Ok, 410, NEVER, None);
        assert_eq!(cut(&mut table), 0, "460 is within the cap");
        assert_eq!(take(&mut table, 460), Some((late, 460, course(400, 50, 0))));
        table.end_turn(late, 1, Outcome::Ok, 470, NEVER, None);
        assert_eq!(cut(&mut table), 5_090 - 1_055 - (470 + 100));
        assert_eq!(take(&mut table, 570), Some((keys[2], 570, course(40, 480, 1_055 + 3_465))));
    }

    #[test]
    fn a_turn_that_is_not_prepared_or_beyond_the_end_of_the_phase_cuts_nothing() {
        let (mut table, _feeder) = capped();
        let key = table.add(planned(0), followed(&[(1, 1_000, 1)]), None, 0);
        table.prepare_next(key, 0);
        // A pause beyond the end of the phase is kept, because a cut may bring it before the end.
        assert!(!table.end_turn(key, 0, Outcome::Ok, 50, 500, None).is_last);
        table.cut_idle(150);
        assert_eq!((table.cut_ns(), table.wake_ns(50)), (0, 1_050), "the cap ends with the phase");
        table.cut_idle(500);
        assert_eq!((table.cut_ns(), table.wake_ns(50)), (900, 150));
        assert!(table.take_due(150).is_none(), "it is not prepared");
        table.cut_idle(500);
        assert_eq!((table.cut_ns(), table.overdue), (900, 1));
    }

    #[test]
    fn a_session_begins_in_its_middle_with_all_turns_that_wait_for_no_other() {
        let beginning = |turn, after_ns| Beginning { turn, after_ns };
        let (mut table, _feeder) = table();
        let first = PreparedRequest { beside: vec![beginning(4, 30), beginning(6, 900)], ..prepared(2, &[(3, 5, 1)]) };
        let (key, begun) = table.add_from_middle(planned(2), first, 100, 500);
        let begun = begun.expect("due at once");
        assert_eq!((begun.intended_ns, begun.course.map(|course| course.start_ns)), (Some(100), Some(100)));
        assert!(!table.prepare_next(key, 2));
        assert_eq!(due(&mut table, 200), None, "turn 4 is due, and not prepared");
        table.keep_prepared(key, prepared(4, &[]));
        assert_eq!(due(&mut table, 200), Some((4, 130, Some(0))));
        table.keep_prepared(key, prepared(3, &[]));
        assert_eq!(table.end_turn(key, 2, Outcome::Ok, 210, 500, None).released, [(3, 215)]);
        assert_eq!(due(&mut table, 215), Some((3, 215, Some(0))));
        assert!(!table.end_turn(key, 4, Outcome::Ok, 220, 500, None).is_last);
        assert!(table.end_turn(key, 3, Outcome::Ok, 230, 500, None).is_last, "turn 6 is due after the end");
        assert!(table.take(key).is_some_and(|session| session.is_cut));
        // A session of which no turn is due at once waits for the first.
        let later = PreparedRequest { after_ns: 70, beside: vec![beginning(4, 90)], ..prepared(2, &[]) };
        let (key, begun) = table.add_from_middle(planned(2), later, 300, 500);
        assert!(begun.is_none());
        assert_eq!((table.wake_ns(300), due(&mut table, 369)), (370, None));
        assert_eq!(due(&mut table, 370), Some((2, 370, Some(70))));
        assert!(!table.end_turn(key, 2, Outcome::Ok, 380, 500, None).is_last);
    }
}
