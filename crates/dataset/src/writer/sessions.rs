//! Writes the sessions of a trace.

use std::io::Write;

use assay_manifest::{OverLongPrompt, TraceTurns};

use super::{RowPlace, RowTokens, RowWriter, TimeRules};
use crate::forks::StreamedTurns;
use crate::index::TracePlace;
use crate::session::{HeldTurn, PlacedTurn, place_turns};
use crate::trace::is_sampled;
use crate::{DatasetError, FileRow, LeftOut, MessageRole, Row, RowContent, TraceSession};

/// A session that is kept, with the places and the tokens of its turns.
struct KeptSession {
    turns: Vec<HeldTurn>,
    placed: Vec<PlacedTurn>,
    tokens: Vec<RowTokens>,
    /// Its start since the start of the replay, in nanoseconds.
    start_ns: u64,
}

impl KeptSession {
    fn at_ns(&self, turn: usize) -> u64 {
        self.start_ns.saturating_add(self.placed.get(turn).map_or(0, |placed| placed.since_start_ns))
    }
}

impl<R: Write, I: Write> RowWriter<'_, R, I> {
    /// Takes a row of the file: a turn, which is held, or a whole session, which is written.
    pub(super) fn take_turns(
        &mut self,
        number: u64,
        row: Result<FileRow, LeftOut>,
        rules: TimeRules,
    ) -> Result<(), DatasetError> {
        match row {
            Ok(FileRow::Session(session)) => self.write_session(number, session, rules),
            Ok(FileRow::Conversation(_)) => Err(DatasetError::row(number, "is a conversation, which has no times")),
            Ok(FileRow::Request(row)) => self.hold(number, row, rules),
            Err(left_out) => {
                let session = left_out.time.and_then(|time| time.session);
                if session.is_none_or(|session| self.is_in_sample(session, 1, rules)) {
                    self.count_left_out(left_out.reason);
                }
                Ok(())
            }
        }
    }

    fn hold(&mut self, number: u64, row: Row, rules: TimeRules) -> Result<(), DatasetError> {
        let time = row.time.ok_or_else(|| DatasetError::row(number, "has no time"))?;
        let session = time.session.ok_or_else(|| {
            DatasetError::row(number, "names no session: with `sessions`, each request of a trace belongs to one")
        })?;
        if !self.is_in_sample(session, 1, rules) {
            return Ok(());
        }
        if !row.content.fits(self.rules.api) {
            return Err(self.api_error(number, row.content.kind()));
        }
        self.held.add(session, HeldTurn { number, row, at_ns: time.at_ns, stream: 0 })
    }

    /// Returns true if the sample has a session; if not, its `rows` rows are counted.
    fn is_in_sample(&mut self, session: u64, rows: u64, rules: TimeRules) -> bool {
        let is_kept = rules.sample.is_none_or(|share| is_sampled(session, share));
        if !is_kept && let Some(timeline) = &mut self.timeline {
            timeline.summary().not_sampled.0 += rows;
        }
        is_kept
    }

    /// Writes a session of a format that has a whole one in each row. Its start is not recorded, so that its times are those since it began.
    fn write_session(&mut self, number: u64, session: TraceSession, rules: TimeRules) -> Result<(), DatasetError> {
        if !self.is_in_sample(session.session, 1, rules) {
            return Ok(());
        }
        session.left_out.iter().for_each(|reason| self.count_left_out(*reason));
        let (duplicates, duplicate_requests, times) = (session.duplicates, session.duplicate_requests, session.times);
        let streamed = StreamedTurns::of_session(number, session)?;
        let numbers = self.turn_numbers();
        numbers.subagents.0 += duplicates + streamed.left_out;
        numbers.subagent_requests.0 += duplicate_requests + streamed.left_out_requests;
        if duplicates > 0 || times.is_some() {
            let forks = numbers.forks.get_or_insert_default();
            forks.duplicates.0 += duplicates;
            forks.times = forks.times.or(times);
        }
        if let Some(turn) = streamed.turns.first()
            && !turn.row.content.fits(self.rules.api)
        {
            return Err(self.api_error(number, turn.row.content.kind()));
        }
        let Some(kept) = self.keep_session(streamed, 0, rules)? else { return Ok(()) };
        let mut reused = Vec::with_capacity(kept.turns.len());
        for turn in &kept.turns {
            reused.push(self.reused_tokens(turn)?);
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.count_session(kept.placed.iter().map(|placed| placed.since_start_ns));
        }
        self.append_session(kept, reused)
    }

    /// Writes the sessions that were held, in the order in which they began.
    pub(super) fn write_held(&mut self, rules: TimeRules) -> Result<(), DatasetError> {
        let sessions = std::mem::take(&mut self.held).into_ordered();
        let origin_ns = sessions.first().and_then(|turns| turns.first()).map_or(0, |turn| turn.at_ns);
        let mut kept = Vec::new();
        for turns in sessions {
            let since_first_ns = turns.first().map_or(0, |turn| turn.at_ns.abs_diff(origin_ns));
            let is_inside = since_first_ns >= rules.from_ns && rules.to_ns.is_none_or(|to_ns| since_first_ns < to_ns);
            if is_inside {
                let turns = StreamedTurns::one_stream(turns);
                kept.extend(self.keep_session(turns, since_first_ns - rules.from_ns, rules)?);
            } else if let Some(timeline) = &mut self.timeline {
                timeline.summary().outside_window.0 += turns.len() as u64;
            }
        }
        let reused = self.reuse_by_time(&kept)?;
        kept.into_iter().zip(reused).try_for_each(|(session, reused)| self.append_session(session, reused))
    }

    /// Returns the reused tokens of each turn of each session: an earlier prompt is one that is earlier in the trace, of whatever session.
    fn reuse_by_time(&mut self, kept: &[KeptSession]) -> Result<Vec<Vec<u32>>, DatasetError> {
        let turns_of = |(place, session): (usize, &KeptSession)| {
            (0..session.turns.len()).map(|turn| (session.at_ns(turn), place, turn)).collect::<Vec<_>>()
        };
        let mut in_order: Vec<(u64, usize, usize)> = kept.iter().enumerate().flat_map(turns_of).collect();
        in_order.sort_unstable();
        let mut reused: Vec<Vec<u32>> = kept.iter().map(|session| vec![0; session.turns.len()]).collect();
        for (at_ns, place, turn) in in_order {
            if let Some(timeline) = &mut self.timeline {
                timeline.count(at_ns);
            }
            let held = kept.get(place).and_then(|session| session.turns.get(turn));
            let tokens = held.map_or(Ok(0), |held| self.reused_tokens(held));
            let tokens = tokens.map_err(|error| of_turn(error, kept.get(place), turn))?;
            if let Some(slot) = reused.get_mut(place).and_then(|turns| turns.get_mut(turn)) {
                *slot = tokens;
            }
        }
        Ok(reused)
    }

    fn reused_tokens(&mut self, turn: &HeldTurn) -> Result<u32, DatasetError> {
        match &turn.row.content {
            RowContent::Blocks(blocks) => self.blocks.add(turn.number, blocks),
            _ => Ok(0),
        }
    }

    /// Returns a session with the turns that are not too long; `None` if it is left out.
    fn keep_session(
        &mut self,
        streamed: StreamedTurns,
        start_ns: u64,
        rules: TimeRules,
    ) -> Result<Option<KeptSession>, DatasetError> {
        let StreamedTurns { mut turns, streams, .. } = streamed;
        let mut tokens = Vec::with_capacity(turns.len());
        for turn in &turns {
            let input = self.input_tokens(turn.number, &turn.row.content)?;
            if let Some(max) = self.max_below(input) {
                if self.rules.over == OverLongPrompt::Refuse {
                    return Err(DatasetError::TooLong { row: turn.number, tokens: input, max });
                }
                break;
            }
            tokens.push(RowTokens { input, output: self.output_tokens(turn.number, &turn.row)?, reused: 0 });
        }
        let is_too_long = tokens.len() < turns.len();
        if turns.is_empty() {
            return Ok(None);
        }
        if tokens.is_empty() || is_too_long && self.rules.over == OverLongPrompt::Skip {
            self.summary.too_long.0 += 1;
            return Ok(None);
        }
        self.summary.truncated.0 += u64::from(is_too_long);
        self.summary.sessions.get_or_insert_default().0 += 1;
        turns.truncate(tokens.len());
        let placed = place_turns(&turns, &streams, &rules, self.turn_numbers())?;
        Ok(Some(KeptSession { turns, placed, tokens, start_ns }))
    }

    fn append_session(&mut self, session: KeptSession, reused: Vec<u32>) -> Result<(), DatasetError> {
        let places: Vec<u64> = (0..session.turns.len()).map(|turn| session.at_ns(turn)).collect();
        let turns = session.turns.into_iter().zip(session.placed).zip(session.tokens).zip(reused).zip(places);
        for (place, ((((mut turn, placed), tokens), reused), at_ns)) in turns.enumerate() {
            self.take_messages(&mut turn.row);
            let tokens = RowTokens { reused: u64::from(reused), ..tokens };
            let at = RowPlace { at_ns, in_session: Some(TracePlace { pause: placed.pause, link: placed.link }) };
            self.render_later(turn.number, &turn.row.content)?;
            self.append(turn.number, &turn.row.content, at, tokens, place > 0)?;
        }
        Ok(())
    }

    /// Counts the messages of a prompt of blocks, or drops them if requests of the API have none: such a prompt is one text.
    fn take_messages(&mut self, row: &mut Row) {
        let RowContent::Blocks(blocks) = &mut row.content else { return };
        if !self.rules.api.takes_messages() {
            blocks.messages.clear();
        }
        if blocks.messages.is_empty() {
            return;
        }
        let roles = self.turn_numbers().roles.get_or_insert_default();
        roles.cut.0 += u64::from(row.course.is_cut);
        roles.messages.0 += blocks.messages.len() as u64;
        roles.user_tokens.0 += u64::from(blocks.rest());
        for (role, of_message) in blocks.messages() {
            let tokens: u64 = of_message.iter().map(|(_, tokens)| u64::from(*tokens)).sum();
            let sum = match role {
                MessageRole::System => &mut roles.system_tokens,
                MessageRole::User => &mut roles.user_tokens,
                MessageRole::Assistant => &mut roles.assistant_tokens,
            };
            sum.0 += tokens;
        }
    }

    /// Returns the numbers of turns of the import.
    fn turn_numbers(&mut self) -> &mut TraceTurns {
        let timeline = self.timeline.get_or_insert_with(|| super::Timeline::new(TimeRules::default()));
        timeline.summary().turns.get_or_insert_default()
    }
}

/// Names the turn in a problem of a row, if the row is a whole session.
fn of_turn(error: DatasetError, session: Option<&KeptSession>, turn: usize) -> DatasetError {
    let is_one_row =
        session.is_some_and(|session| session.turns.windows(2).any(|pair| matches!(pair, [a, b] if a.number == b.number)));
    let at_ns = session.and_then(|session| session.turns.get(turn)).map(|held| held.at_ns);
    match (error, at_ns) {
        (DatasetError::Row { row, problem }, Some(at_ns)) if is_one_row => {
            let seconds = at_ns as f64 / 1e9;
            DatasetError::row(row, format!("{problem}: it is request {} of the session by time (at {seconds} s)", turn + 1))
        }
        (error, _) => error,
    }
}
