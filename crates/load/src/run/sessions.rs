//! Sessions: decides which turn is due, and what follows the end of a turn.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use assay_record::{Outcome, Phase};

use super::offer::{NOT_SENT, STARTS, STARVED_NS};
use super::{Engine, NEVER};
use crate::feeder::{NextRequest, PreparedRequest, SessionCourse};
use crate::turn_feeder::{KeptText, TurnQueue};
use crate::{Arrivals, History, PlannedTurn, Sessions};

/// The sessions that have begun and not ended. The key of a session is its place in the order in which they began: its id is the
/// caller's, who may use one twice.
pub(super) struct SessionTable {
    history: History,
    queue: TurnQueue,
    active: BTreeMap<u64, Session>,
    /// The times at which later turns are due, each with its session, the earliest first. Those that were due before they were prepared are
    /// not in it.
    due: BinaryHeap<Reverse<(i64, u64)>>,
    /// The number of turns that were due and are not prepared.
    overdue: usize,
    begun: u64,
}

/// A session that has begun.
struct Session {
    /// Its latest turn that has begun.
    turn: PlannedTurn,
    /// Its course up to that turn.
    course: SessionCourse,
    /// Its next turn, once it is prepared.
    next: Option<PreparedRequest>,
    /// The time at which its next turn was due, while it is not prepared.
    overdue_ns: Option<i64>,
    /// True if its next turn was due before it was prepared.
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

/// The state of the next session.
enum NextSession {
    /// It was due, and has begun.
    Begun,
    /// None can begin before this time, or before another one ends.
    NotBefore(i64),
    /// There are no more sessions.
    Exhausted,
}

impl SessionTable {
    pub(super) fn new(sessions: Sessions, queue: TurnQueue) -> Self {
        let Sessions { history } = sessions;
        Self { history, queue, active: BTreeMap::new(), due: BinaryHeap::new(), overdue: 0, begun: 0 }
    }

    /// Adds a session that begins with this turn, which was due at `start_ns`, and returns its key.
    pub(super) fn add(&mut self, turn: PlannedTurn, start_ns: i64) -> u64 {
        let key = self.begun;
        self.begun += 1;
        self.active.insert(
            key,
            Session { turn, course: SessionCourse { start_ns, pauses_ns: 0 }, next: None, overdue_ns: None, starved: false },
        );
        key
    }

    /// Requests the turn after one that is about to be sent, if recorded history allows it already. Returns true if the text of the
    /// response must be kept for it instead.
    pub(super) fn prepare_next(&mut self, key: u64) -> bool {
        let Some(turn) = self.active.get(&key).map(|session| session.turn).filter(|turn| turn.pause_ns.is_some()) else {
            return false;
        };
        if self.history == History::Recorded {
            self.queue.prepare(key, turn.session, turn.turn + 1, None);
        }
        self.history == History::Live
    }

    /// Returns the time at which the turn after one that ended at `end_ns` is due; none if it was the last.
    fn next_due_ns(&self, key: u64, end_ns: i64) -> Option<i64> {
        let pause_ns = self.active.get(&key)?.turn.pause_ns?;
        Some(end_ns.saturating_add(i64::try_from(pause_ns).unwrap_or(i64::MAX)))
    }

    /// Lets a session's next turn be due at this time. Live history requests it now.
    fn wait(&mut self, key: u64, due_ns: i64, text: Option<KeptText>) {
        self.due.push(Reverse((due_ns, key)));
        if let (History::Live, Some(session)) = (self.history, self.active.get(&key)) {
            self.queue.prepare(key, session.turn.session, session.turn.turn + 1, text);
        }
    }

    /// Takes the turn that was due first of those that are due and prepared.
    fn take_due(&mut self, now: i64) -> Option<DueTurn> {
        while let Some((key, prepared)) = self.queue.try_next() {
            self.keep_prepared(key, prepared);
        }
        while let Some(&Reverse((due_ns, key))) = self.due.peek()
            && due_ns <= now
        {
            self.due.pop();
            let Some(session) = self.active.get_mut(&key) else { continue };
            if let Some(mut prepared) = session.next.take() {
                prepared.intended_ns = Some(due_ns);
                let pause_ns = session.turn.pause_ns.map_or(0, |pause| i64::try_from(pause).unwrap_or(i64::MAX));
                session.course.pauses_ns = session.course.pauses_ns.saturating_add(pause_ns);
                prepared.course = Some(session.course);
                session.turn = prepared.turn.unwrap_or(session.turn);
                return Some(DueTurn { key, due_ns, prepared, starved: std::mem::take(&mut session.starved) });
            }
            // The turns behind it, which are other sessions', do not wait for it.
            session.overdue_ns = Some(due_ns);
            self.overdue += 1;
        }
        None
    }

    fn keep_prepared(&mut self, key: u64, prepared: PreparedRequest) {
        // Not there if the session has ended meanwhile.
        let Some(session) = self.active.get_mut(&key) else { return };
        session.next = Some(prepared);
        if let Some(due_ns) = session.overdue_ns.take() {
            session.starved = true;
            self.overdue -= 1;
            self.due.push(Reverse((due_ns, key)));
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
        let due_ns = self.due.peek().map_or(NEVER, |Reverse((due_ns, _))| *due_ns);
        if self.overdue > 0 { due_ns.min(now + STARVED_NS) } else { due_ns }
    }

    /// Ends a session: nothing more of it is due.
    pub(super) fn end(&mut self, key: u64) {
        if let Some(session) = self.active.remove(&key) {
            self.queue.end(session.turn.session);
        }
    }

    fn end_all(&mut self) {
        while let Some((_, session)) = self.active.pop_first() {
            self.queue.end(session.turn.session);
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
            let key = sessions.add(turn, due_ns);
            self.begin_turn(key, prepared, due_ns, now);
        }
    }

    /// Begins a turn. The clock decides its phase.
    fn begin_turn(&mut self, key: u64, prepared: PreparedRequest, due_ns: i64, now: i64) {
        self.worked = true;
        let phase = self.phase_at(due_ns);
        if phase == Phase::Measured {
            self.count_due(prepared.intended_ns);
        }
        self.begin(prepared, Some(key), phase, now);
    }

    /// Returns the phase of a turn that is due at this time.
    pub(super) fn phase_at(&self, due_ns: i64) -> Phase {
        if due_ns < self.trial.warmup_ns { Phase::Warmup } else { Phase::Measured }
    }

    /// Returns true if, with no more sessions to begin, no turn can become due: all sessions have ended, or the clock has ended the
    /// measured phase and every turn that was due before has begun.
    fn are_all_turns_due(&self, now: i64) -> bool {
        let is_ended = now >= self.measured_end_ns();
        self.sessions
            .as_ref()
            .is_none_or(|sessions| sessions.active.is_empty() || (is_ended && sessions.due.is_empty() && sessions.overdue == 0))
    }

    /// Returns the time up to which load was offered, once all of it was. An open loop offers none up to its end.
    fn offered_end_ns(&self, now: i64) -> i64 {
        match (self.trial.arrivals, self.measured_end_ns()) {
            (Arrivals::Open { .. }, ends_ns) if ends_ns != NEVER => ends_ns,
            (_, ends_ns) => now.min(ends_ns),
        }
    }

    /// Ends a turn: its session waits for the next one, or has ended. A turn that failed ends it.
    pub(super) fn end_turn(&mut self, key: u64, outcome: Outcome, at_ns: i64, text: Option<KeptText>) {
        let ends_ns = self.measured_end_ns();
        let Some(sessions) = &mut self.sessions else { return };
        match sessions.next_due_ns(key, at_ns).filter(|_| outcome == Outcome::Ok) {
            Some(due_ns) if due_ns < ends_ns => {
                sessions.wait(key, due_ns, text);
                self.next_due_ns = self.next_due_ns.min(due_ns);
            }
            // Its user is in the pause up to the end, and begins no other session instead: near the end of the phase there would be
            // more first turns than before.
            Some(_) => {
                sessions.end(key);
                self.release(key);
            }
            None => {
                sessions.end(key);
                self.release(key);
                self.free_user(outcome, at_ns);
            }
        }
    }

    /// Records the later turns that were due and will not be sent, and ends all sessions. If `wait` is set it waits until those
    /// turns are prepared, so that none is missed.
    pub(super) fn close_sessions(&mut self, wait: bool) {
        let until_ns = self.offered_to_ns.unwrap_or(i64::MIN);
        while let Some(due) = self.sessions.as_mut().and_then(|sessions| sessions.take_unsent(until_ns, wait)) {
            let (phase, now) = (self.phase_at(due.due_ns), self.now());
            if phase == Phase::Measured {
                self.count_due(Some(due.due_ns));
            }
            let (row, _) = self.new_row(due.prepared, phase, now);
            self.drop_row(row, NOT_SENT, now);
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

    #[test]
    fn the_turn_that_was_due_first_comes_first_and_one_that_is_not_prepared_holds_none_back() {
        let (queue, _feeder) = turn_queue();
        let mut table = SessionTable::new(Sessions { history: History::Recorded }, queue);
        let turn = |session, turn| PlannedTurn { session, session_id: 1, turn, turns: 3, pause_ns: Some(0), planned_ns: None };
        let prepared = |session| PreparedRequest { turn: Some(turn(session, 1)), ..PreparedRequest::default() };
        // Two of them have the same id, which makes no difference here.
        let [first, second, third] = [7, 7, 9].map(|session| table.add(turn(session, 0), 0));
        table.keep_prepared(first, prepared(7));
        table.keep_prepared(third, prepared(9));
        for (key, due_ns) in [(first, 30), (second, 10), (third, 20)] {
            table.wait(key, due_ns, None);
        }
        let take = |table: &mut SessionTable, now| {
            table.take_due(now).map(|due| (due.key, due.due_ns, due.prepared.intended_ns, due.starved))
        };
        assert_eq!((take(&mut table, 9), table.wake_ns(9)), (None, 10));
        assert_eq!(take(&mut table, 25), Some((third, 20, Some(20), false)));
        assert_eq!((take(&mut table, 25), table.wake_ns(25)), (None, 30));
        assert_eq!(take(&mut table, 30), Some((first, 30, Some(30), false)));
        assert_eq!((take(&mut table, 31), table.wake_ns(31)), (None, 31 + STARVED_NS));
        table.keep_prepared(second, prepared(7));
        assert_eq!(take(&mut table, 31), Some((second, 10, Some(10), true)));
        assert_eq!((take(&mut table, NEVER), table.wake_ns(31)), (None, NEVER));
        // One that has ended meanwhile is not found again.
        table.end(first);
        table.keep_prepared(first, prepared(7));
        assert_eq!(take(&mut table, NEVER), None);
    }
}
