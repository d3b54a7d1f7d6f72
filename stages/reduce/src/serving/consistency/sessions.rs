//! The turns of sessions whose records have not been read yet.

use std::collections::BTreeMap;

use assay_manifest::Shard;
use assay_record::Phase;
use assay_schedule::{Phase as PlannedPhase, Requests, ScheduledRequest, SessionCursor, Stripe, TrialSchedule};

use super::{Contradiction, PlannedMeasurement, Request, ensure};

const OTHER: &str = "is none of its schedule";

/// The turns that are awaited. The turns of a session have their records in the order of the turns, because each begins after the one
/// before has ended.
pub(super) struct AwaitedTurns {
    stripe: Option<Stripe>,
    next: Requests,
    planned: PlannedMeasurement,
    /// The number of the shard's sessions before which all have begun, or are open.
    drawn: u64,
    /// The sessions that have not ended, by their number.
    open: BTreeMap<u64, OpenSession>,
    /// The number of records, an upper bound of the shard's sessions.
    end: u64,
    begun: Vec<i64>,
    ended: Vec<i64>,
}

/// A session with turns to come.
struct OpenSession {
    cursor: SessionCursor,
    /// The turns that have records; absent before the first.
    before: Option<TurnsBefore>,
}

/// The course of a session up to a turn, by the records, in nanoseconds.
#[derive(Clone, Copy)]
struct TurnsBefore {
    /// The time at which the first was due.
    start: i64,
    /// The sum of the pauses.
    pauses: i64,
    /// The end of the last one.
    end: i64,
}

impl AwaitedTurns {
    pub(super) fn new(schedule: &TrialSchedule, stripe: Option<Stripe>, planned: PlannedMeasurement, rows: u64) -> Self {
        Self {
            next: schedule.shard_requests(PlannedPhase::Measure, stripe.unwrap_or(Stripe::WHOLE)),
            stripe,
            planned,
            drawn: 0,
            open: BTreeMap::new(),
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
        let turn = self.next.next_turn(&mut open.cursor).ok_or(OTHER)?;
        let place = turn.turn.ok_or(OTHER)?;
        ensure(request.index == i64::try_from(turn.global_index).unwrap_or(i64::MAX), OTHER)?;
        ensure(request.turn == Some(place.turn.into()), "stands where turns before it are missing, or is there twice")?;
        ensure(request.session_turns == Some(place.turns.into()), "states another number of turns than its schedule")?;
        let due = request.intended.ok_or("has no time at which it was due")?;
        let pause_ns = i64::try_from(place.pause_ns).unwrap_or(i64::MAX);
        let before = if let Some(before) = open.before {
            let wanted = before.end.checked_add(pause_ns);
            ensure(Some(due) == wanted, "was due at another time than its pause after the response before")?;
            TurnsBefore { pauses: before.pauses.saturating_add(pause_ns), ..before }
        } else {
            ensure(turn.offset_ns.is_none_or(|offset| offset == due), "was due at another time than by its schedule")?;
            // In a closed loop a session is due when a user takes it up.
            let is_taken_up = turn.offset_ns.is_some() || request.dequeued == Some(due);
            ensure(is_taken_up, "was due at another time than when a user took it up")?;
            self.begun.push(due);
            TurnsBefore { start: due, pauses: 0, end: due }
        };
        ensure(request.session_start == Some(before.start), "states another start of its session")?;
        ensure(request.session_pauses == Some(before.pauses), "states other pauses of its session")?;
        let planned = place.planned_ns.map(|ns| before.start.saturating_add(i64::try_from(ns).unwrap_or(i64::MAX)));
        ensure(request.planned == planned, "states another time in the trace than its schedule")?;
        self.check_phase(due, phase)?;
        let end_ns = request.end.ok_or("has no end")?;
        if request.outcome.is_ok() && open.cursor.next_turn() < open.cursor.turns() {
            self.open.insert(session, OpenSession { cursor: open.cursor, before: Some(TurnsBefore { end: end_ns, ..before }) });
        } else {
            self.ended.push(end_ns);
        }
        Ok(turn)
    }

    /// Draws the shard's sessions up to this one.
    fn draw_to(&mut self, session: u64) -> Result<(), &'static str> {
        let place = self.stripe.and_then(|stripe| stripe.position(session)).ok_or(OTHER)?;
        ensure(place < self.end, "stands where sessions before it are missing")?;
        while self.drawn <= place {
            let cursor = self.next.next_session().ok_or(OTHER)?;
            self.open.insert(cursor.session(), OpenSession { cursor, before: None });
            self.drawn += 1;
        }
        Ok(())
    }

    /// A turn belongs to the phase in which it was due, and none is due at the end of the measured phase.
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
        let end_ns = self.end_ns();
        let missing = |session, turn| Contradiction::MissingTurn { session, turn, shard: shard.index };
        for (session, mut open) in std::mem::take(&mut self.open) {
            let Some(before) = open.before else { return Err(missing(session, 0)) };
            let next = self.next.next_turn(&mut open.cursor).and_then(|turn| turn.turn);
            let pause_ns = next.map_or(0, |place| i64::try_from(place.pause_ns).unwrap_or(i64::MAX));
            if before.end.saturating_add(pause_ns) < end_ns {
                return Err(missing(session, open.cursor.next_turn().saturating_sub(1)));
            }
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
        // A session that the clock cut keeps its user to the end, and so has no place among the ended.
        let all_ended = self.ended.iter().copied().chain(std::iter::repeat(i64::MAX));
        match later.zip(all_ended).find(|(begun, ended)| **begun < *ended) {
            Some((at_ns, _)) => Err(Contradiction::TooManySessions { shard: shard.index, users, at_ns: *at_ns }),
            None => Ok(()),
        }
    }
}
