//! The turns of sessions whose records have not been read yet.
//!
//! The turns of a user that has a grid follow one another through all of its sessions, so that its records do: each is due at its point of the grid,
//! or when the turn before it ended.

use std::collections::BTreeMap;

use assay_manifest::Shard;
use assay_record::Phase;
use assay_schedule::{Follower, Phase as PlannedPhase, Requests, ScheduledRequest, SessionCursor, Stripe, TrialSchedule};

use super::{Contradiction, PlannedMeasurement, Request, ensure};

const OTHER: &str = "is none of its schedule";

/// The turns that are awaited. Records come in the order in which their requests ended, so that those of the turns that a turn waits for come
/// before its own.
pub(super) struct AwaitedTurns {
    stripe: Option<Stripe>,
    next: Requests,
    planned: PlannedMeasurement,
    /// The number of the shard's sessions before which all have begun, or are open.
    drawn: u64,
    /// The sessions that have not ended, by their number, and those that their users play next.
    open: BTreeMap<u64, OpenSession>,
    /// The number of users, if each has a grid.
    grid_users: Option<u64>,
    /// The number of records, an upper bound of the shard's sessions.
    end: u64,
    begun: Vec<i64>,
    ended: Vec<i64>,
}

/// A session with turns to come.
struct OpenSession {
    cursor: SessionCursor,
    /// The time at which the first turn was due.
    start: i64,
    /// The end of the last turn that its user sent before it.
    free_at: i64,
    /// The turns that must have records and have not had them yet, each with the time at which it was due, which for a first turn the record
    /// states.
    awaited: BTreeMap<u32, Option<i64>>,
    /// The turns that wait for others, each with the number of those that have not succeeded, and the latest end of those that have.
    waiting: BTreeMap<u32, (u32, i64)>,
    /// The turns that have records.
    recorded: Vec<RecordedTurn>,
    /// The number of turns that succeeded.
    done: u32,
    /// The end of the first turn that failed.
    failed: Option<i64>,
    /// True if a turn would have been due after the end of the measured phase.
    is_cut: bool,
}

/// A turn by its record, in nanoseconds.
#[derive(Clone, Copy)]
struct RecordedTurn {
    turn: u32,
    due: i64,
    end: i64,
    /// The stated pauses of the session before it.
    pauses: i64,
}

impl OpenSession {
    fn new(cursor: SessionCursor, free_at: i64) -> Self {
        Self {
            cursor,
            start: 0,
            free_at,
            awaited: BTreeMap::from([(0, None)]),
            waiting: BTreeMap::new(),
            recorded: Vec::new(),
            done: 0,
            failed: None,
            is_cut: false,
        }
    }

    /// Returns the turn of a record, no longer awaits it, and returns the time at which it was due unless only the record states it.
    fn take(&mut self, turn: u32) -> Result<Option<i64>, &'static str> {
        if let Some(due) = self.awaited.remove(&turn) {
            return Ok(due);
        }
        let is_recorded = self.recorded.iter().any(|recorded| recorded.turn == turn);
        ensure(is_recorded || self.failed.is_none(), "is of a session that had ended, or is there twice")?;
        Err("stands where turns before it are missing, or is there twice")
    }

    /// Ends a turn, which lets others be due that waited for it alone. After a failure only turns that were due by then are sent.
    fn end(&mut self, request: &Request, followers: Vec<Follower>, end_ns: i64, phase_end_ns: i64) -> Result<(), &'static str> {
        let is_first_failure = !request.outcome.is_ok() && self.failed.is_none();
        self.done += u32::from(request.outcome.is_ok() && self.failed.is_none());
        let done = self.failed.is_none().then_some(i64::from(self.done));
        ensure(request.session_done == done, "states another number of turns of its session that had succeeded")?;
        if is_first_failure {
            self.failed = Some(end_ns);
            self.awaited.retain(|_, due| due.is_none_or(|due| due <= end_ns));
        }
        for Follower { turn, pause_ns, waits, planned_ns } in followers.into_iter().filter(|_| self.failed.is_none()) {
            let (left, latest) = self.waiting.remove(&turn).unwrap_or((waits, i64::MIN));
            let (left, latest) = (left.saturating_sub(1), latest.max(end_ns));
            let free = latest.saturating_add(i64::try_from(pause_ns).unwrap_or(i64::MAX));
            let due = planned_ns.map_or(free, |planned| planned.max(free));
            if left > 0 {
                self.waiting.insert(turn, (left, latest));
            } else if planned_ns.unwrap_or(due) < phase_end_ns {
                self.awaited.insert(turn, Some(due));
            } else {
                self.is_cut = true;
            }
        }
        Ok(())
    }

    /// Returns the latest end of its turns. Fails if one of them states other pauses than their times show: a pause is the time in which no turn
    /// of the session is due or in flight.
    fn close(&mut self) -> Result<i64, &'static str> {
        self.recorded.sort_by_key(|turn| turn.due);
        let (mut latest, mut pauses) = (self.start, 0_i64);
        for turn in &self.recorded {
            pauses = pauses.saturating_add(turn.due.saturating_sub(latest).max(0));
            ensure(turn.pauses == pauses, "ends a session in which a turn states other pauses than its times show")?;
            latest = latest.max(turn.end);
        }
        Ok(latest)
    }
}

impl AwaitedTurns {
    pub(super) fn new(schedule: &TrialSchedule, stripe: Option<Stripe>, planned: PlannedMeasurement, rows: u64) -> Self {
        Self {
            next: schedule.shard_requests(PlannedPhase::Measure, stripe.unwrap_or(Stripe::WHOLE)),
            stripe,
            planned,
            drawn: 0,
            open: BTreeMap::new(),
            grid_users: schedule.users().filter(|_| schedule.has_grid()),
            end: rows,
            begun: Vec::new(),
            ended: Vec::new(),
        }
    }

    /// Returns the turn of this record, and no longer awaits it.
    pub(super) fn take(&mut self, request: &Request, phase: Phase) -> Result<ScheduledRequest, &'static str> {
        let session = request.session.and_then(|session| u64::try_from(session).ok()).ok_or("belongs to no session")?;
        self.draw_to(session)?;
        let mut open = self.open.remove(&session).ok_or("is of a session that had ended, or is there twice")?;
        let number = request.turn.and_then(|turn| u32::try_from(turn).ok()).ok_or("belongs to no session")?;
        let awaited_at = open.take(number)?;
        open.cursor = open.cursor.at(number);
        let turn = self.next.next_turn(&mut open.cursor).ok_or(OTHER)?;
        let place = turn.turn.ok_or(OTHER)?;
        ensure(request.index == i64::try_from(turn.global_index).unwrap_or(i64::MAX), OTHER)?;
        ensure(request.session_turns == Some(place.turns.into()), "states another number of turns than its schedule")?;
        ensure(request.stream == place.stream.map(Into::into), "states another stream of its session than its schedule")?;
        let due = request.intended.ok_or("has no time at which it was due")?;
        if let Some(awaited_at) = awaited_at {
            ensure(due == awaited_at, "was due at another time than its pause after the last response that it waits for")?;
        } else if self.grid_users.is_some() {
            let is_due = turn.offset_ns.is_some_and(|offset| due == offset.max(open.free_at));
            ensure(is_due, "was due at another time than that of its user's grid or the end of the user's turn before")?;
            open.start = due;
        } else {
            ensure(turn.offset_ns.is_none_or(|offset| offset == due), "was due at another time than by its schedule")?;
            // In a closed loop a session is due when a user takes it up.
            let is_taken_up = turn.offset_ns.is_some() || request.dequeued == Some(due);
            ensure(is_taken_up, "was due at another time than when a user took it up")?;
            self.begun.push(due);
            open.start = due;
        }
        ensure(request.session_start == Some(open.start), "states another start of its session")?;
        let pauses = request.session_pauses.ok_or("states no pauses of its session")?;
        let on_grid = turn.offset_ns.filter(|_| self.grid_users.is_some());
        let in_trace = || place.planned_ns.map(|ns| open.start.saturating_add(i64::try_from(ns).unwrap_or(i64::MAX)));
        ensure(request.planned == on_grid.or_else(in_trace), "states another planned time than its schedule")?;
        self.check_phase(on_grid.unwrap_or(due), phase)?;
        let end_ns = request.end.ok_or("has no end")?;
        open.recorded.push(RecordedTurn { turn: number, due, end: end_ns, pauses });
        let followers = self.next.followers(&open.cursor, number);
        open.end(request, followers, end_ns, self.end_ns())?;
        if !open.awaited.is_empty() {
            self.open.insert(session, open);
            return Ok(turn);
        }
        let ended_ns = open.close()?;
        if let Some(next) = self.next.successor(&open.cursor) {
            self.open.insert(next.session(), OpenSession::new(next, ended_ns));
        }
        // A session that the clock cut keeps its user to the end, and so has no place among the ended.
        self.ended.extend((!open.is_cut).then_some(ended_ns));
        Ok(turn)
    }

    /// Draws the shard's sessions up to this one. Those that follow others of a user are drawn when these have ended.
    fn draw_to(&mut self, session: u64) -> Result<(), &'static str> {
        if self.grid_users.is_some_and(|users| session >= users) {
            return Ok(());
        }
        let place = self.stripe.and_then(|stripe| stripe.position(session)).ok_or(OTHER)?;
        ensure(place < self.end, "stands where sessions before it are missing")?;
        while self.drawn <= place {
            let cursor = self.next.next_session().ok_or(OTHER)?;
            self.open.insert(cursor.session(), OpenSession::new(cursor, 0));
            self.drawn += 1;
        }
        Ok(())
    }

    /// A turn belongs to the phase in which it was due, or planned by its user's grid, and none is at the end of the measured phase.
    fn check_phase(&self, due: i64, phase: Phase) -> Result<(), &'static str> {
        let (from, end) = (self.planned.phase.from_ns, self.end_ns());
        let is_in_phase = if phase == Phase::Warmup { due < from } else { (from..end).contains(&due) };
        ensure(is_in_phase, "was due outside of its phase")
    }

    /// Returns the end of the measured phase by the clock.
    fn end_ns(&self) -> i64 {
        let phase = self.planned.phase;
        phase.duration_ns.map_or(i64::MAX, |duration| phase.from_ns.saturating_add(duration))
    }

    /// Fails if a turn that was due has no record, or if a user played two sessions at a time.
    pub(super) fn finish(mut self, shard: Shard, users: Option<u64>) -> Result<(), Contradiction> {
        let missing = |session, turn| Contradiction::MissingTurn { session, turn, shard: shard.index };
        let first = |(session, open): (&u64, &OpenSession)| open.awaited.keys().next().map(|turn| missing(*session, *turn));
        if let Some(missing) = self.open.iter().find_map(first) {
            return Err(missing);
        }
        let is_counted = self.planned.phase.duration_ns.is_none();
        // A session of an open loop arrives whatever the others do, and if a number of sessions ends the trial, all of them begin.
        if (users.is_none() || is_counted)
            && self.stripe.is_some()
            && let Some(never_begun) = self.next.next_session()
        {
            return Err(missing(never_begun.session(), 0));
        }
        let Some(users) = users else { return Ok(()) };
        self.begun.sort_unstable();
        self.ended.sort_unstable();
        let later = self.begun.iter().skip(usize::try_from(users).unwrap_or(usize::MAX));
        let all_ended = self.ended.iter().copied().chain(std::iter::repeat(i64::MAX));
        match later.zip(all_ended).find(|(begun, ended)| **begun < *ended) {
            Some((at_ns, _)) => Err(Contradiction::TooManySessions { shard: shard.index, users, at_ns: *at_ns }),
            None => Ok(()),
        }
    }
}
