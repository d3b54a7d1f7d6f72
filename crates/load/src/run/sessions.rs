//! Sessions: decides which turn is due, and what follows the end of a turn.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use assay_record::{Outcome, Phase};

use super::offer::{NOT_SENT, STARTS, STARVED_NS};
use super::{Engine, NEVER};
use crate::feeder::{NextRequest, PreparedRequest, SessionCourse};
use crate::turn_feeder::{KeptText, TurnQueue};
use crate::{Arrivals, History, NextTurn, PlannedTurn, Sessions, Successor};

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
    fn new(id: u64, start_ns: i64) -> Self {
        Self { id, start_ns, last_end_ns: start_ns, ..Self::default() }
    }

    /// Notes that a turn is due, and returns the course of the session up to it. Turns are noted in the order in which they are due.
    fn course(&mut self, due_ns: i64) -> SessionCourse {
        if self.in_flight.is_empty() && self.waiting.values().all(|turn| turn.course.is_none()) {
            self.idle_ns = self.idle_ns.saturating_add(due_ns.saturating_sub(self.last_end_ns).max(0));
        }
        SessionCourse { start_ns: self.start_ns, pauses_ns: self.idle_ns }
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
        let Sessions { history, .. } = sessions;
        Self { history, queue, active: BTreeMap::new(), due: BinaryHeap::new(), overdue: 0, begun: 0 }
    }

    /// Adds a session that begins with this turn, which was due at `start_ns`, and returns its key.
    pub(super) fn add(&mut self, turn: PlannedTurn, next: Vec<NextTurn>, successor: Option<Successor>, start_ns: i64) -> u64 {
        let mut session = Session { successor, ..Session::new(turn.session, start_ns) };
        session.in_flight.insert(turn.turn, next);
        self.insert(session)
    }

    fn insert(&mut self, session: Session) -> u64 {
        let key = self.begun;
        self.begun += 1;
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
        let mut next = Session::new(id, planned_ns);
        next.waiting.insert(0, WaitingTurn { waits: 1, planned_ns: Some(planned_ns), ..WaitingTurn::default() });
        let next = self.insert(next);
        self.queue.prepare(next, id, 0, None);
        self.active.get_mut(&key)?.successor_key = Some(next);
        Some(next)
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
        let Some(session) = self.active.get_mut(&key) else { return TurnEnd::default() };
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
            let course = turn.course.unwrap_or_else(|| session.course(due_ns));
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
            let next = if self.begin_due_turn(now) { NextSession::Begun } else { self.begin_due_session(now) };
            let first_due_ns = match next {
                NextSession::Begun => {
                    now = self.now();
                    continue;
                }
                NextSession::NotBefore(at_ns) => at_ns,
                NextSession::Exhausted => NEVER,
            };
            if matches!(next, NextSession::Exhausted) && self.are_all_turns_due(now) {
                self.offered_to_ns = Some(self.offered_end_ns(now));
            } else {
                self.next_due_ns = self.sessions.as_ref().map_or(NEVER, |sessions| sessions.wake_ns(now)).min(first_due_ns);
            }
            return;
        }
        self.next_due_ns = now;
    }

    /// Begins the later turn that was due first, if one is due and prepared.
    fn begin_due_turn(&mut self, now: i64) -> bool {
        let Some(due) = self.sessions.as_mut().and_then(|sessions| sessions.take_due(now)) else { return false };
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
        prepared.begin_session(due_ns);
        self.free_users = self.free_users.saturating_sub(1);
        if let (Some(turn), Some(sessions)) = (prepared.turn, &mut self.sessions) {
            let key = sessions.add(turn, std::mem::take(&mut prepared.next), prepared.successor, due_ns);
            self.begin_turn(key, prepared, due_ns, now);
        }
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
        // A user has an active session until the last of its turns has ended.
        let is_ended = now >= self.measured_end_ns() && !matches!(self.trial.arrivals, Arrivals::Users { .. });
        self.sessions
            .as_ref()
            .is_none_or(|sessions| sessions.active.is_empty() || (is_ended && sessions.due.is_empty() && sessions.overdue == 0))
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
        (SessionTable::new(Sessions { history: History::Recorded, most_streams: 1 }, queue), feeder)
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
}
