//! The history of sessions that begin in their middle: the last turn before the start of each stream is sent before the trial, so that the
//! endpoint's cache holds what later turns repeat.

use std::collections::VecDeque;

use assay_load::{Cause, PlannedRequest, PlannedTurn, Sink};
use assay_manifest::Reason;
use assay_record::{Phase, Record};
use assay_schedule::{Requests as Scheduled, ScheduledRequest, SessionCursor};
use assay_stage::Secrets;

use super::row_requests::RowRequests;
use super::sink::mask_record;

/// The reason code of an attempt before which such a turn failed.
const FAILED: &str = "warm_history_failed";

/// A generator of the turns that bring the histories of a shard's sessions into the cache.
pub(crate) struct HistoryTurns<'a> {
    scheduled: Scheduled,
    of_rows: RowRequests<'a>,
    /// The number of sessions that are still to be looked at: those with which users begin.
    sessions: u32,
    turns: VecDeque<(SessionCursor, u32)>,
}

impl<'a> HistoryTurns<'a> {
    /// Creates the generator; `scheduled` is any copy of the shard's requests of the measured phase before the first of them.
    pub(crate) fn new(scheduled: Scheduled, of_rows: RowRequests<'a>, users: u32) -> Self {
        Self { scheduled, of_rows, sessions: users, turns: VecDeque::new() }
    }

    fn next_turn(&mut self) -> Option<(SessionCursor, u32)> {
        while self.turns.is_empty() && self.sessions > 0 {
            self.sessions -= 1;
            let session = self.scheduled.next_session()?;
            let turns = self.scheduled.history_turns(&session);
            self.turns.extend(turns.into_iter().map(|turn| (session, turn)));
        }
        self.turns.pop_front()
    }

    /// Returns the place of a turn. Its session has the id by which its first request in the trial is known.
    fn place(&mut self, session: &SessionCursor, due: &ScheduledRequest) -> Option<PlannedTurn> {
        let (at, first) = (due.turn?, *self.scheduled.beginnings(session).first()?);
        let session_id = self.scheduled.turn(session, first.turn)?.request_id;
        Some(PlannedTurn { session: at.session, session_id, turn: at.turn, turns: at.turns, stream: at.stream, planned_ns: None })
    }
}

impl assay_load::Requests for HistoryTurns<'_> {
    fn next(&mut self, phase: Phase) -> Result<Option<PlannedRequest>, Cause> {
        if phase == Phase::Warmup {
            return Ok(None);
        }
        let Some((session, turn)) = self.next_turn() else { return Ok(None) };
        let lost = || format!("turn {turn} of session {} is no turn of a trace", session.session());
        let due = self.scheduled.turn(&session, turn).ok_or_else(lost)?;
        let request = self.of_rows.of_row(&due, due.row.ok_or_else(lost)?, due.output_tokens)?;
        Ok(Some(PlannedRequest { turn: self.place(&session, &due), ..request }))
    }
}

/// The results of these turns.
pub(crate) struct HistorySink {
    secrets: Secrets,
    pub(crate) sent: u64,
    failed: u64,
    /// The turn that failed first, and its error.
    first: Option<String>,
}

impl HistorySink {
    /// Creates the sink; `secrets` are masked in what it keeps.
    pub(crate) fn new(secrets: Secrets) -> Self {
        Self { secrets, sent: 0, failed: 0, first: None }
    }

    /// Returns the reason against an attempt before which a turn failed.
    pub(crate) fn failure(&self) -> Option<Reason> {
        let first = self.first.as_ref()?;
        let detail = format!(
            "{} of {} turns that bring the history of sessions into the endpoint's cache failed, the first of them {first}",
            self.failed, self.sent
        );
        Some(Reason::new(FAILED, detail))
    }
}

impl Sink for HistorySink {
    fn record(&mut self, record: &Record, _response: Option<&[u8]>) -> Result<(), Cause> {
        self.sent += 1;
        if record.outcome.is_ok() {
            return Ok(());
        }
        self.failed += 1;
        let masked = mask_record(record, false, &self.secrets);
        let record = masked.as_ref().unwrap_or(record);
        let [session, turn] = [record.session.unwrap_or(0), record.turn.map_or(0, u64::from)];
        let status = record.http_status.map(|status| format!(" {status}")).unwrap_or_default();
        let error = record.error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
        self.first.get_or_insert_with(|| format!("turn {turn} of session {session} ({}{status}{error})", record.outcome));
        Ok(())
    }
}
