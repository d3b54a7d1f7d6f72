//! Sessions: the turns of conversations, one sequence over both phases.
//!
//! Session `s` has as many turns as the value `s` of the concern `turns` says, or is the conversation of a dataset that is at place `s`, modulo
//! their number, of an order that each trial draws (concern `dataset` of the phase `trial`). Its requests follow those of the sessions before it in the
//! indices of the trial, and their lengths, seeds and pauses are drawn at their indices, so that every shard computes its own sessions: of
//! those of others it draws the numbers of turns only. A session never splits: shard `k` of N has the sessions `k`, `k + N` and so on.
//!
//! A pause is drawn from the concern `pause` at the index of the turn that follows it. An exponential pause is `-ln(1 - u)` times the mean,
//! with `u` the generator's value in `[0, 1)`; a log-normal one is made like a log-normal length. Pauses are whole nanoseconds, halves away
//! from zero, and [`MAX_PAUSE_NS`] at most. Draws of more than [`MAX_SESSION_TURNS`] turns are clipped to it.
//!
//! The sessions of a trace come in the order in which they began, once: session `s` is the trace's session `s`, and its pauses are those that
//! the index records. The speed of a replay divides all times of the trace, pauses and planned times included. If they are recycled, session `s`
//! is the trace's session `s` modulo their number, and the quotient is its pass.
//!
//! A session may begin in its middle: if a start is planned, each of the first sessions does, one for each user of the trial. With `u` the value `s` of the
//! concern `start` of the phase `trial`, session `s` begins at the time `from + (to - from) u` of its recorded length, which ends with its last turn, in
//! whole nanoseconds. Turns before it are not sent, and no turn waits for them. Turns that wait for no other are due at their recorded times since then;
//! the shortest of all these times is subtracted from all of them, so that the first turn of a trial is due at once.
//!
//! The sessions of users follow one another on a grid instead (see `users`): session `s` is of user `s` modulo their number, has its turns at points of
//! the grid, and no pauses of its own. A user has all sessions in one shard.
//!
//! A turn waits for the end of others, and is due its pause after the last of them. In most sessions each waits for the one before. Those of a
//! trace may fork: the turns of a subagent are a stream beside that of the turn that spawned it, and a turn that joins subagents waits for their
//! last turns, too. The links between turns are those of the index. A session has all of its streams in one shard.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU64;
use std::sync::Arc;

use assay_dataset::{Index, IndexedSession, MAX_TRACE_TURNS};
use assay_manifest::{Count, LengthLaw, MAX_SESSION_TURNS, PauseLaw, SessionStart, Sessions};

use crate::arrivals::{Arrivals, Speed};
use crate::block_texts::split_mix;
use crate::lengths::{Lengths, log_moments};
use crate::users::UserGrid;
use crate::{Generator, Stripe};

/// The longest pause: a day, in nanoseconds. Longer draws are clipped to it.
pub const MAX_PAUSE_NS: u64 = 24 * 3600 * 1_000_000_000;

/// The place of a request in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionTurn {
    /// The number of the session in the trial, from 0.
    pub session: u64,
    /// The number of the turn, from 0.
    pub turn: u32,
    /// The turns of the session that are sent.
    pub turns: u32,
    /// The pass over the sessions of the trace, from 0.
    pub pass: u32,
    /// Its stream among those of the session, from 0; absent unless the session is of a trace.
    pub stream: Option<u32>,
    /// The time from the last end of the responses that it waits for to this turn, in nanoseconds; 0 if it waits for none.
    pub pause_ns: u64,
    /// The time from the start of the session at which the trace has this turn, in nanoseconds; absent unless the session is of a trace. A turn
    /// that waits for no other is due at it.
    pub planned_ns: Option<u64>,
    /// Tokens that this turn adds to what was said before.
    pub own_tokens: u32,
    /// Tokens of the prompt of the turn before; 0 for the first.
    pub sent_before: u32,
}

/// A turn that waits for the end of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follower {
    /// The number of the turn.
    pub turn: u32,
    /// The time from the last end of the responses that it waits for to the turn, in nanoseconds.
    pub pause_ns: u64,
    /// The number of turns that it waits for.
    pub waits: u32,
    /// The time at which it is planned, in nanoseconds since the trial's start: it is not due before. Absent unless it is of a user's grid.
    pub planned_ns: Option<i64>,
}

/// A turn with which a session begins, because it waits for no other that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// The number of the turn.
    pub turn: u32,
    /// The time from the start of the session at which it is due, in nanoseconds.
    pub after_ns: u64,
}

/// The markers of the sessions of one execution of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Markers(u64);

impl Markers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the seed of the words of a session's marker: output `session + 1` of SplitMix64.
    pub fn seed(self, session: u64) -> u64 {
        split_mix(self.0, session.wrapping_add(1))
    }
}

/// A session, and the turn that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionCursor {
    pub(crate) session: u64,
    pub(crate) turns: u32,
    /// The number of turns that are sent.
    pub(crate) sent: u32,
    /// The time of the trace at which it begins, since that of its first turn, in nanoseconds: earlier turns are not sent.
    pub(crate) begins_ns: u64,
    pub(crate) pass: u32,
    /// The index of its first request.
    pub(crate) first_index: u64,
    /// The row of its first turn; absent if it is drawn.
    pub(crate) first_row: Option<u64>,
    pub(crate) next_turn: u32,
    /// Tokens of all that was said before the next turn.
    pub(crate) history_tokens: u32,
    /// Tokens of the prompt of the turn before the next one.
    pub(crate) sent_tokens: u32,
    /// The arrival in an open loop, in nanoseconds since the trial's start.
    pub(crate) offset_ns: Option<i64>,
}

impl SessionCursor {
    /// Returns the number of the session, from 0.
    pub fn session(&self) -> u64 {
        self.session
    }

    /// Returns the turn that comes next, from 0.
    pub fn next_turn(&self) -> u32 {
        self.next_turn
    }

    /// Returns the number of turns.
    pub fn turns(&self) -> u32 {
        self.turns
    }

    /// Returns the same session before another turn. Only the turns of a trace's session can be drawn in any order: the prompts of others
    /// depend on all turns before.
    #[must_use]
    pub fn at(self, turn: u32) -> Self {
        Self { next_turn: turn, ..self }
    }

    /// Returns the session before its first turn.
    fn new(session: u64, turns: u32, first_index: u64, first_row: Option<u64>) -> Self {
        Self {
            session,
            turns,
            sent: turns,
            begins_ns: 0,
            pass: 0,
            first_index,
            first_row,
            next_turn: 0,
            history_tokens: 0,
            sent_tokens: 0,
            offset_ns: None,
        }
    }

    /// Returns the row of a turn; `None` if it is drawn.
    fn row_of(&self, turn: u32) -> Option<u64> {
        self.first_row.map(|first| first.saturating_add(u64::from(turn)))
    }
}

/// The source of sessions.
#[derive(Clone)]
pub(crate) enum SessionSource {
    /// Their numbers of turns are drawn.
    Drawn(Box<Lengths>),
    /// The conversations of a dataset, in the order of the trial.
    Recorded(Arc<[IndexedSession]>),
    /// The sessions of a trace.
    Trace(TraceSessions),
}

/// The sessions of a trace in their order, at a speed.
#[derive(Clone, Debug)]
pub(crate) struct TraceSessions {
    pub(crate) order: Arc<[IndexedSession]>,
    pub(crate) index: Arc<Index>,
    pub(crate) speed: Speed,
    /// True if they come again after the last one.
    recycle: bool,
    /// The times at which the first sessions begin, since the time of the first turn of each, in nanoseconds.
    begins_ns: Arc<[u64]>,
}

impl TraceSessions {
    pub(crate) fn new(index: &Arc<Index>, speed: Speed) -> Self {
        let order: Arc<[IndexedSession]> = index.sessions().collect();
        Self { order, index: Arc::clone(index), speed, recycle: false, begins_ns: Arc::new([]) }
    }

    /// Returns sessions that come again after the last one.
    pub(crate) fn recycled(self) -> Self {
        Self { recycle: true, ..self }
    }

    /// Returns sessions of which the first `first` begin in their middle.
    pub(crate) fn starting(self, start: SessionStart, first: u64, mut draws: Generator) -> Self {
        let drawn = (0..first).map_while(|session| {
            let found = self.found(session)?;
            let length_ns = self.planned_of(found).max().unwrap_or(0);
            let share = start.from + (start.to - start.from) * draws.unit_f64(session);
            let at_ns = ((share * length_ns as f64) as u64).min(length_ns);
            let lead_ns = self.planned_of(found).filter(|planned_ns| *planned_ns >= at_ns).min().unwrap_or(at_ns) - at_ns;
            Some((at_ns, lead_ns))
        });
        let drawn: Vec<(u64, u64)> = drawn.collect();
        let least_ns = drawn.iter().map(|(_, lead_ns)| *lead_ns).min().unwrap_or(0);
        Self { begins_ns: drawn.into_iter().map(|(at_ns, _)| at_ns.saturating_add(least_ns)).collect(), ..self }
    }

    /// Returns the number of sessions until they come again, or end.
    fn len(&self) -> u64 {
        self.order.len() as u64
    }

    /// Returns the number of sessions that can be played.
    fn playable(&self) -> u64 {
        if self.recycle { u64::MAX } else { self.len() }
    }

    /// Returns the session of the trace that a session is.
    fn found(&self, session: u64) -> Option<IndexedSession> {
        let place = if self.recycle { session.checked_rem(self.len())? } else { session };
        usize::try_from(place).ok().and_then(|place| self.order.get(place)).copied()
    }

    fn pass(&self, session: u64) -> u32 {
        let passes = session.checked_div(self.len()).unwrap_or(0);
        u32::try_from(passes).unwrap_or(u32::MAX)
    }

    /// Returns the time of the trace at which a session begins, since that of its first turn.
    fn begins_ns(&self, session: u64) -> u64 {
        let begins_ns = usize::try_from(session).ok().and_then(|place| self.begins_ns.get(place));
        begins_ns.copied().unwrap_or(0)
    }

    /// Returns the times of the turns of a session, since that of its first turn.
    fn planned_of(&self, session: IndexedSession) -> impl Iterator<Item = u64> {
        let rows = session.first_row..session.first_row.saturating_add(u64::from(session.turns));
        rows.map(move |row| self.planned_ns(session.first_row, row))
    }

    /// Returns the time at which a session begins, in nanoseconds since the start of the replay; the largest time past the last session.
    pub(crate) fn start_ns(&self, session: u64) -> u64 {
        let found = self.found(session);
        found.map_or(u64::MAX, |found| self.speed.replayed_ns(self.at_ns(found.first_row)))
    }

    /// Returns the recorded pause before the turn of a row.
    fn pause_ns(&self, row: u64) -> u64 {
        self.index.recorded_pause(row).map_or(0, |pause| self.speed.replayed_ns(pause.ns).min(MAX_PAUSE_NS))
    }

    /// Returns the time from the start of a session to the turn of a row.
    fn planned_ns(&self, first_row: u64, row: u64) -> u64 {
        self.speed.replayed_ns(self.at_ns(row).saturating_sub(self.at_ns(first_row)))
    }

    fn at_ns(&self, row: u64) -> u64 {
        self.index.row(row).map_or(u64::MAX, |row| row.at_ns)
    }
}

impl SessionSource {
    /// Returns the number of turns of a session, and the row of the first if it is recorded.
    fn session(&mut self, session: u64) -> (u32, Option<u64>) {
        match self {
            Self::Drawn(turns) => (turns.tokens(session).clamp(1, MAX_SESSION_TURNS), None),
            Self::Recorded(order) => {
                let place = session.checked_rem(order.len() as u64).unwrap_or(0) as usize;
                order.get(place).map_or((1, Some(0)), |found| (found.turns.clamp(1, MAX_SESSION_TURNS), Some(found.first_row)))
            }
            Self::Trace(trace) => {
                let found = trace.found(session);
                found.map_or((1, Some(0)), |found| (found.turns.clamp(1, MAX_TRACE_TURNS), Some(found.first_row)))
            }
        }
    }
}

/// The sessions of a shard, one after the other.
#[derive(Clone)]
pub(crate) struct SessionWalk {
    source: SessionSource,
    pauses: Pauses,
    stripe: Stripe,
    next_session: u64,
    next_index: u64,
    /// The first session that is not begun.
    end: u64,
    /// The sessions of which the iterator is in the middle, in the order in which it continues them: at most one, or one of each user.
    current: VecDeque<SessionCursor>,
    /// The grid of the users; absent if sessions do not follow one another on one.
    grid: Option<UserGrid>,
    /// The waits of the last session that was requested of those that begin in their middle.
    waits: Option<SentTurns>,
}

/// The turns of a session that begins in its middle.
#[derive(Clone)]
struct SentTurns {
    session: u64,
    /// The number of turns that each turn waits for; absent if it is not sent.
    waits: Vec<Option<u32>>,
}

impl SessionWalk {
    pub(crate) fn new(
        sessions: &Sessions,
        stripe: Stripe,
        source: SessionSource,
        pauses: Generator,
        grid: Option<UserGrid>,
    ) -> Self {
        let of_source = if let SessionSource::Trace(trace) = &source { trace.playable() } else { u64::MAX };
        let first = grid.map_or(u64::MAX, |grid| grid.users.get());
        Self {
            source,
            pauses: Pauses { law: sessions.think_time, values: pauses },
            stripe,
            next_session: 0,
            next_index: 0,
            end: sessions.count.map_or(u64::MAX, |count| count.0).min(of_source).min(first),
            current: VecDeque::new(),
            grid,
            waits: None,
        }
    }

    /// Takes the session that the iterator continues: the one that it is in the middle of, or the next one. Those of users take turns.
    pub(crate) fn take_current(&mut self, arrivals: Option<&mut Arrivals>, ends_ns: Option<u64>) -> Option<SessionCursor> {
        if self.grid.is_some() {
            let next = self.next(arrivals, ends_ns).or_else(|| self.current.pop_front())?;
            return if next.next_turn < next.turns { Some(next) } else { self.successor(&next) };
        }
        let current = self.current.pop_front().filter(|cursor| cursor.next_turn < cursor.turns);
        current.or_else(|| self.next(arrivals, ends_ns))
    }

    /// Lets the iterator continue a session later.
    pub(crate) fn keep_current(&mut self, cursor: SessionCursor) {
        self.current.push_back(cursor);
    }

    /// Returns the session that a user plays after this one; `None` if that would begin at the end of the trial, and unless sessions are those of users.
    pub(crate) fn successor(&mut self, cursor: &SessionCursor) -> Option<SessionCursor> {
        let grid = self.grid?;
        let first_index = grid.point_of(cursor.first_index, cursor.turns);
        grid.at_ns(first_index).map(|_| self.session_at(cursor.session + grid.users.get(), first_index))
    }

    /// Returns a session whose first turn has this index.
    fn session_at(&mut self, session: u64, first_index: u64) -> SessionCursor {
        let (turns, first_row) = self.source.session(session);
        let turns = self.grid.map_or(turns, |grid| grid.turns_left(session, turns));
        SessionCursor::new(session, turns, first_index, first_row)
    }

    /// Returns the index of a turn's request.
    pub(crate) fn index_of(&self, cursor: &SessionCursor, turn: u32) -> u64 {
        let dense = || cursor.first_index.saturating_add(u64::from(turn));
        self.grid.map_or_else(dense, |grid| grid.point_of(cursor.first_index, turn))
    }

    /// Returns the time of the schedule at which a turn is planned; `None` if it has none. Only users plan later turns.
    pub(crate) fn offset_ns(&self, cursor: &SessionCursor, turn: u32) -> Option<i64> {
        match self.grid {
            Some(grid) => grid.at_ns(grid.point_of(cursor.first_index, turn)),
            None => cursor.offset_ns.filter(|_| turn == 0),
        }
    }

    /// Returns true if a turn would be planned at the end of the trial or after it.
    pub(crate) fn is_past_end(&self, cursor: &SessionCursor, turn: u32) -> bool {
        self.grid.is_some() && self.offset_ns(cursor, turn).is_none()
    }

    /// Returns the shard's next session; `None` if all have begun, or if the next one would arrive at the end of the clock. Of users, these are their
    /// first sessions.
    pub(crate) fn next(&mut self, arrivals: Option<&mut Arrivals>, ends_ns: Option<u64>) -> Option<SessionCursor> {
        let cursor = self.next_own()?;
        if self.is_past_end(&cursor, 0) {
            self.end = cursor.session;
            return None;
        }
        let offset_ns = arrivals.map(|arrivals| arrivals.offset_ns(cursor.session));
        if offset_ns.zip(ends_ns).is_some_and(|(offset, end)| offset.unsigned_abs() >= end) {
            self.end = cursor.session;
            return None;
        }
        Some(SessionCursor { offset_ns, ..cursor })
    }

    fn next_own(&mut self) -> Option<SessionCursor> {
        while self.next_session < self.end {
            let cursor = self.session_at(self.next_session, self.next_index);
            self.next_session += 1;
            // The first sessions of users begin at points of their own, which follow one another.
            self.next_index = self.next_index.saturating_add(self.grid.map_or(cursor.turns.into(), |_| 1));
            if self.stripe.position(cursor.session).is_some() {
                return Some(self.at_start(cursor));
            }
        }
        None
    }

    /// Returns a session with the time at which it begins, if that is one of a trace.
    fn at_start(&self, cursor: SessionCursor) -> SessionCursor {
        let SessionSource::Trace(trace) = &self.source else { return cursor };
        let (begins_ns, pass) = (trace.begins_ns(cursor.session), trace.pass(cursor.session));
        let cursor = SessionCursor { begins_ns, pass, ..cursor };
        let sent =
            if begins_ns == 0 { None } else { Some((0..cursor.turns).filter(|turn| self.is_sent(&cursor, *turn)).count()) };
        SessionCursor { sent: sent.and_then(|sent| u32::try_from(sent).ok()).unwrap_or(cursor.turns), ..cursor }
    }

    /// Returns true if a turn of a session is not before its start.
    pub(crate) fn is_sent(&self, cursor: &SessionCursor, turn: u32) -> bool {
        cursor.begins_ns == 0 || self.recorded_ns(cursor, turn).is_none_or(|ns| ns >= cursor.begins_ns)
    }

    /// Returns the number of turns that are sent and that each turn of a session waits for, if that begins in its middle.
    fn waits(&mut self, cursor: &SessionCursor) -> Option<&[Option<u32>]> {
        if cursor.begins_ns == 0 {
            return None;
        }
        if self.waits.as_ref().is_none_or(|known| known.session != cursor.session) {
            let (trace, first_row) = self.of_trace(cursor)?;
            let mut waits: Vec<Option<u32>> = (0..cursor.turns).map(|turn| self.is_sent(cursor, turn).then_some(0)).collect();
            for turn in 0..cursor.turns {
                let link = trace.index.link(first_row, turn)?;
                let is_sent = |turn: u32| waits.get(turn as usize).is_some_and(Option::is_some);
                let follows = link.after.is_some_and(|after| is_sent(after.into()));
                let joined_by = link.joined_by.filter(|_| is_sent(turn));
                for waiting in follows.then_some(turn).into_iter().chain(joined_by.map(u32::from)) {
                    if let Some(Some(count)) = waits.get_mut(waiting as usize) {
                        *count += 1;
                    }
                }
            }
            self.waits = Some(SentTurns { session: cursor.session, waits });
        }
        self.waits.as_ref().map(|known| known.waits.as_slice())
    }

    /// Returns the turns with which a session begins: those that wait for no other that is sent, the first to be due before the others.
    pub(crate) fn beginnings(&mut self, cursor: &SessionCursor) -> Vec<Beginning> {
        let first = Beginning { turn: 0, after_ns: 0 };
        let Some(waits) = self.waits(cursor) else { return vec![first] };
        let free: Vec<u32> = (0..).zip(waits).filter(|(_, waits)| **waits == Some(0)).map(|(turn, _)| turn).collect();
        let after_ns = |turn| self.planned_ns(&cursor.at(turn)).unwrap_or(0);
        let mut beginnings: Vec<Beginning> = free.into_iter().map(|turn| Beginning { turn, after_ns: after_ns(turn) }).collect();
        beginnings.sort_by_key(|beginning| (beginning.after_ns, beginning.turn));
        beginnings
    }

    /// Returns the last turn before the start of each stream of a session that has begun by then and goes on after it, in order.
    pub(crate) fn history_turns(&self, cursor: &SessionCursor) -> Vec<u32> {
        let (mut last, mut live) = (BTreeMap::new(), BTreeSet::new());
        for turn in (0..cursor.turns).filter(|_| cursor.begins_ns > 0) {
            let stream = self.stream(cursor, turn);
            if self.is_sent(cursor, turn) {
                live.insert(stream);
            } else {
                last.insert(stream, turn);
            }
        }
        let mut turns: Vec<u32> = last.into_iter().filter(|(stream, _)| live.contains(stream)).map(|(_, turn)| turn).collect();
        turns.sort_unstable();
        turns
    }

    /// Returns the pause before a turn of a session.
    pub(crate) fn pause_ns(&mut self, cursor: &SessionCursor, turn: u32) -> u64 {
        let waits = self.waits(cursor).map(|waits| waits.get(turn as usize).copied().flatten().unwrap_or(0));
        match (&self.source, cursor.row_of(turn)) {
            _ if turn == 0 || self.grid.is_some() || waits == Some(0) => 0,
            (SessionSource::Trace(trace), Some(row)) => trace.pause_ns(row),
            _ => self.pauses.ns(self.index_of(cursor, turn)),
        }
    }

    /// Returns the stream of a turn of a session, if that is of a trace.
    pub(crate) fn stream(&self, cursor: &SessionCursor, turn: u32) -> Option<u32> {
        let (trace, first_row) = self.of_trace(cursor)?;
        trace.index.link(first_row, turn).map(|link| u32::from(link.stream))
    }

    /// Returns the turns that wait for a turn of a session.
    pub(crate) fn followers(&mut self, cursor: &SessionCursor, turn: u32) -> Vec<Follower> {
        let linked: Vec<(u32, u32)> = match self.of_trace(cursor) {
            Some((trace, first_row)) => trace.index.followers(first_row, turn).collect(),
            None => (turn + 1 < cursor.turns).then_some((turn + 1, 1)).into_iter().collect(),
        };
        let linked: Vec<(u32, u32)> = match self.waits(cursor) {
            None => linked,
            Some(sent) => linked.into_iter().filter_map(|(turn, _)| Some((turn, (*sent.get(turn as usize)?)?))).collect(),
        };
        let on_grid = self.grid.is_some();
        let follower = |(turn, waits)| {
            let planned_ns = self.offset_ns(cursor, turn).filter(|_| on_grid);
            let is_past_end = self.is_past_end(cursor, turn);
            (!is_past_end).then(|| Follower { turn, pause_ns: self.pause_ns(cursor, turn), waits, planned_ns })
        };
        linked.into_iter().filter_map(follower).collect()
    }

    /// Returns the trace and the first row of a session, if it is one of a trace.
    fn of_trace(&self, cursor: &SessionCursor) -> Option<(&TraceSessions, u64)> {
        let SessionSource::Trace(trace) = &self.source else { return None };
        cursor.first_row.map(|first_row| (trace, first_row))
    }

    /// Returns the time from the start of a session to its next turn, by the trace.
    pub(crate) fn planned_ns(&self, cursor: &SessionCursor) -> Option<u64> {
        self.recorded_ns(cursor, cursor.next_turn).map(|ns| ns.saturating_sub(cursor.begins_ns))
    }

    /// Returns the time from the first turn of a session to another one, by the trace.
    fn recorded_ns(&self, cursor: &SessionCursor, turn: u32) -> Option<u64> {
        let (trace, first_row) = self.of_trace(cursor)?;
        Some(trace.planned_ns(first_row, first_row.saturating_add(u64::from(turn))))
    }
}

/// The pauses of a trial, by index.
#[derive(Clone)]
struct Pauses {
    law: PauseLaw,
    values: Generator,
}

impl Pauses {
    fn ns(&mut self, index: u64) -> u64 {
        match self.law {
            PauseLaw::Fixed { ns } => ns.0.min(MAX_PAUSE_NS),
            PauseLaw::Recorded => 0,
            PauseLaw::Uniform { min_ns, max_ns } => {
                let width = NonZeroU64::MIN.saturating_add(max_ns.0.saturating_sub(min_ns.0));
                min_ns.0.saturating_add(self.values.below(index, width)).min(MAX_PAUSE_NS)
            }
            PauseLaw::Exponential { mean_ns } => clip(-libm::log1p(-self.values.unit_f64(index)) * mean_ns.0 as f64),
            PauseLaw::Lognormal { mean_ns, stddev_ns } => {
                let (mu, sigma) = log_moments(mean_ns.0 as f64, stddev_ns.0 as f64);
                clip(libm::exp(mu + sigma * self.values.normal(index, 0)))
            }
        }
    }
}

fn clip(ns: f64) -> u64 {
    ns.round().clamp(0.0, MAX_PAUSE_NS as f64) as u64
}

/// Returns the reason why sessions cannot be drawn; `None` if they can.
pub(crate) fn refusal(sessions: &Sessions) -> Option<String> {
    let turns = sessions.turns.as_ref().and_then(|turns| crate::lengths::refusal(turns).or_else(|| too_many(turns)));
    let pauses = || match sessions.think_time {
        PauseLaw::Uniform { min_ns, max_ns } if max_ns < min_ns => {
            Some(format!("the upper bound of a pause, {} ns, lies below its lower bound, {} ns", max_ns.0, min_ns.0))
        }
        PauseLaw::Lognormal { mean_ns: Count(0), .. } => Some("the mean of a log-normal pause is 0".to_owned()),
        law => {
            let longest = longest_named(law);
            (longest > MAX_PAUSE_NS).then(|| format!("a pause of {longest} ns is longer than a day"))
        }
    };
    turns.or_else(pauses)
}

/// Returns the longest time that a law names.
fn longest_named(law: PauseLaw) -> u64 {
    match law {
        PauseLaw::Fixed { ns } => ns.0,
        PauseLaw::Recorded => 0,
        PauseLaw::Uniform { max_ns, .. } => max_ns.0,
        PauseLaw::Exponential { mean_ns } => mean_ns.0,
        PauseLaw::Lognormal { mean_ns, stddev_ns } => mean_ns.0.max(stddev_ns.0),
    }
}

fn too_many(turns: &LengthLaw) -> Option<String> {
    let (least, named) = match turns {
        LengthLaw::Fixed { tokens } => (*tokens, f64::from(*tokens)),
        LengthLaw::Uniform { min, max } => (*min, f64::from(*max)),
        LengthLaw::Normal { mean, .. } | LengthLaw::Lognormal { mean, .. } | LengthLaw::TruncatedNormal { mean, .. } => {
            (1, *mean)
        }
        LengthLaw::TruncatedUniform { high, .. } => (1, f64::from(*high)),
        LengthLaw::Histogram { edges, .. } => {
            (edges.first().copied().unwrap_or_default(), f64::from(edges.last().copied().unwrap_or_default()))
        }
        LengthLaw::Paired { .. } => return Some("a number of turns is not a side of pairs".to_owned()),
    };
    if least == 0 {
        return Some("a session needs at least one turn".to_owned());
    }
    (named > f64::from(MAX_SESSION_TURNS)).then(|| format!("{named} turns are more than {MAX_SESSION_TURNS}"))
}
