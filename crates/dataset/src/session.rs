//! The sessions of a trace: their turns in the order of their times, and the pauses between them.

use std::collections::HashMap;

use assay_manifest::{TracePauses, TraceTurns};

use crate::forks::{Forks, Stream};
use crate::{DatasetError, MAX_TRACE_TURNS, RecordedPause, Row, RowContent, TimeRules, TokenBlocks, TurnLink};

/// The most bytes of the contents of rows that are held until all sessions are known.
pub(crate) const MAX_HELD_BYTES: usize = 1 << 30;

/// The longest pause that is recorded: a day. A schedule has none that is longer.
const MAX_PAUSE_NS: u64 = 24 * 3600 * 1_000_000_000;

/// Bytes of a held row beside its content.
const ROW_OVERHEAD: usize = 256;

/// A turn with the number of its row in the file.
#[derive(Debug)]
pub(crate) struct HeldTurn {
    pub(crate) number: u64,
    pub(crate) row: Row,
    /// Its time in the file, in nanoseconds since any origin that the sessions share.
    pub(crate) at_ns: i64,
    /// Its stream among those of its session.
    pub(crate) stream: u16,
}

/// The place of a turn in time, by the rules of the workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlacedTurn {
    /// The time since the start of its session, in nanoseconds, without what was cut out of pauses before it.
    pub(crate) since_start_ns: u64,
    pub(crate) pause: RecordedPause,
    pub(crate) link: TurnLink,
}

/// The sessions of a file whose rows are single turns, as they are read.
#[derive(Debug, Default)]
pub(crate) struct HeldSessions {
    places: HashMap<u64, usize>,
    sessions: Vec<Vec<HeldTurn>>,
    bytes: usize,
}

impl HeldSessions {
    /// Adds the next turn of a session.
    pub(crate) fn add(&mut self, session: u64, turn: HeldTurn) -> Result<(), DatasetError> {
        let new = self.sessions.len();
        let place = *self.places.entry(session).or_insert(new);
        if place == new {
            self.sessions.push(Vec::new());
        }
        self.bytes = self.bytes.saturating_add(ROW_OVERHEAD + content_bytes(&turn.row.content));
        if self.bytes > MAX_HELD_BYTES {
            return Err(DatasetError::TooMuchHeld);
        }
        let Some(turns) = self.sessions.get_mut(place) else { return Ok(()) };
        if let Some(before) = turns.last() {
            check_order(before, &turn)?;
        }
        turns.push(turn);
        Ok(())
    }

    /// Returns the sessions in the order in which they began; of those that began at one time, the one that comes first in the file.
    pub(crate) fn into_ordered(self) -> Vec<Vec<HeldTurn>> {
        let mut sessions = self.sessions;
        sessions.sort_by_key(|turns| turns.first().map(|turn| turn.at_ns));
        sessions
    }
}

fn content_bytes(content: &RowContent) -> usize {
    match content {
        RowContent::Blocks(blocks) => blocks.ids.len().saturating_mul(size_of::<u64>()),
        RowContent::Prompt(text) => text.len(),
        // The values of JSON take a few times the bytes of their texts.
        other => serde_json::to_vec(other).map_or(usize::MAX, |json| json.len().saturating_mul(4)),
    }
}

/// Refuses a turn that is before the one before it in its session, or is the same again.
fn check_order(before: &HeldTurn, turn: &HeldTurn) -> Result<(), DatasetError> {
    if turn.at_ns < before.at_ns {
        let problem = format!("is earlier than row {}, the turn before it in its session: sort the file by time", before.number);
        return Err(DatasetError::row(turn.number, problem));
    }
    let is_same = turn.at_ns == before.at_ns
        && turn.row.content == before.row.content
        && turn.row.output_tokens == before.row.output_tokens;
    if is_same {
        return Err(DatasetError::row(
            turn.number,
            format!("is row {} again: a turn of a session is in a trace once", before.number),
        ));
    }
    Ok(())
}

/// Returns the places of the turns of a session, and adds what they are to the numbers of the import.
///
/// A pause is the time from the last recorded end of the responses that a turn waits for to the turn, and 0 if the turn began before that end.
/// Without a recorded end, it is the time from the request, and so includes its service. A pause that is longer than allowed is cut, and with
/// it the times of all turns that wait for what follows it.
pub(crate) fn place_turns(
    turns: &[HeldTurn],
    streams: &[Stream],
    rules: &TimeRules,
    summary: &mut TraceTurns,
) -> Result<Vec<PlacedTurn>, DatasetError> {
    let mut placed: Vec<PlacedTurn> = Vec::with_capacity(turns.len());
    let mut forks = Forks::new(streams);
    let first_ns = turns.first().map_or(0, |turn| turn.at_ns);
    for (place, turn) in turns.iter().enumerate() {
        count_blocks(&turn.row.content, summary);
        summary.branches.0 += u64::from(turn.row.course.is_branch);
        if place == MAX_TRACE_TURNS as usize {
            return Err(DatasetError::row(turn.number, format!("continues a session of more than {MAX_TRACE_TURNS} turns")));
        }
        let wait = forks.wait(turn.stream, turn.at_ns);
        let Some((wait, before)) = wait.and_then(|wait| Some((wait, turns.get(wait.after)?))) else {
            forks.add(turn, None, 0);
            placed.push(PlacedTurn::default());
            continue;
        };
        let recorded_ns = recorded_pause_ns(before, turn, wait.ends_ns, summary);
        let is_tool = before.row.course.calls_tool;
        let longest_ns = if is_tool { rules.max_tool_ns.or(rules.max_gap_ns) } else { rules.max_gap_ns };
        let ns = longest_ns.map_or(recorded_ns, |longest| recorded_ns.min(longest));
        if ns > MAX_PAUSE_NS {
            return Err(DatasetError::row(turn.number, too_long(ns)));
        }
        let cut_ns = wait.ends_ns.abs_diff(wait.cut_ends_ns).saturating_add(recorded_ns - ns);
        count_pause(if is_tool { &mut summary.tool_time } else { &mut summary.think_time }, ns, recorded_ns - ns);
        let since_start_ns = turn.at_ns.abs_diff(first_ns).saturating_sub(cut_ns);
        let not_before = placed.get(wait.after).map_or(0, |after| after.since_start_ns);
        forks.add(turn, Some(wait.after), cut_ns);
        let pause = RecordedPause { ns, is_tool };
        placed.push(PlacedTurn { since_start_ns: since_start_ns.max(not_before), pause, link: TurnLink::default() });
    }
    let (links, joined) = forks.finish();
    placed.iter_mut().zip(links).for_each(|(placed, link)| placed.link = link);
    count_forks(turns, joined, summary);
    Ok(placed)
}

/// Counts the subagents of a session that has any.
fn count_forks(turns: &[HeldTurn], joined: u64, summary: &mut TraceTurns) {
    let last = turns.iter().map(|turn| turn.stream).max().unwrap_or(0);
    if last == 0 {
        return;
    }
    let forks = summary.forks.get_or_insert_default();
    forks.subagents.0 += u64::from(last);
    forks.turns.0 += turns.iter().filter(|turn| turn.stream > 0).count() as u64;
    forks.joined.0 += joined;
    forks.most_streams = forks.most_streams.max(u32::from(last) + 1);
}

fn too_long(pause_ns: u64) -> String {
    format!(
        "follows the turn before it in its session after {:.1} days: cut such pauses by `max_gap`, unless the times of the trace have another \
         unit than its format",
        pause_ns as f64 / MAX_PAUSE_NS as f64
    )
}

/// Returns the recorded pause before a turn that comes after another one, and waits for what ended last at `ends_ns`.
fn recorded_pause_ns(before: &HeldTurn, turn: &HeldTurn, ends_ns: i64, summary: &mut TraceTurns) -> u64 {
    if let Some(stated_ns) = turn.row.course.pause_ns {
        return stated_ns;
    }
    summary.without_end.0 += u64::from(before.row.course.service_ns.is_none());
    summary.overlapping.0 += u64::from(turn.at_ns < ends_ns);
    turn.at_ns.saturating_sub(ends_ns).max(0).unsigned_abs()
}

fn count_pause(pauses: &mut TracePauses, ns: u64, cut_ns: u64) {
    pauses.turns.0 += 1;
    pauses.sum_ns.0 = pauses.sum_ns.0.saturating_add(ns);
    pauses.cut.0 += u64::from(cut_ns > 0);
    pauses.cut_ns.0 = pauses.cut_ns.0.saturating_add(cut_ns);
}

/// Counts how far the blocks of a prompt cover it.
fn count_blocks(content: &RowContent, summary: &mut TraceTurns) {
    let RowContent::Blocks(TokenBlocks { tokens, size, ids, .. }) = content else { return };
    if ids.is_empty() {
        return;
    }
    let covered = u64::from(*size).saturating_mul(ids.len() as u64);
    let kind = match covered.cmp(&u64::from(*tokens)) {
        std::cmp::Ordering::Less => &mut summary.beyond_blocks,
        std::cmp::Ordering::Equal => &mut summary.whole_blocks,
        std::cmp::Ordering::Greater => &mut summary.partial_blocks,
    };
    kind.0 += 1;
}

#[cfg(test)]
mod tests {
    use assay_manifest::Count;

    use super::*;
    use crate::TurnCourse;

    const MS: i64 = 1_000_000;

    /// A turn at a time in milliseconds, with the service time if it is recorded.
    fn turn(number: u64, at_ms: i64, service_ms: Option<u64>, calls_tool: bool) -> HeldTurn {
        let content = RowContent::Blocks(TokenBlocks { tokens: 5, size: 4, ids: Vec::new(), scope: None, messages: Vec::new() });
        let course = TurnCourse { service_ns: service_ms.map(|ms| ms * 1_000_000), calls_tool, ..TurnCourse::default() };
        HeldTurn { number, row: Row { course, ..Row::new(content) }, at_ns: at_ms * MS, stream: 0 }
    }

    /// Returns the times since the start and the pauses in milliseconds; `t` marks the time of a tool.
    fn placed(turns: &[HeldTurn], rules: TimeRules) -> (Vec<String>, TraceTurns) {
        let mut summary = TraceTurns::default();
        let placed = place_turns(turns, &[Stream::default()], &rules, &mut summary).expect("placed");
        let text = |turn: &PlacedTurn| {
            let kind = if turn.pause.is_tool { "t" } else { "" };
            format!("{}+{}{kind}", turn.since_start_ns / 1_000_000, turn.pause.ns / 1_000_000)
        };
        (placed.iter().map(text).collect(), summary)
    }

    #[test]
    fn a_pause_is_from_the_end_of_the_response_before() {
        // From 100 + 30 to 150: 20. From 150 + 500 to 1,000: 350, after a tool call. The third has no recorded end: from 1,000 to 1,700. The
        // fourth takes 400 from 1,700 on, so that the last, at 2,000, overlaps it.
        let turns = [
            turn(1, 100, Some(30), false),
            turn(2, 150, Some(500), true),
            turn(3, 1_000, None, false),
            turn(4, 1_700, Some(400), false),
            turn(5, 2_000, Some(1), false),
        ];
        let (read, summary) = placed(&turns, TimeRules::default());
        assert_eq!(read, ["0+0", "50+20", "900+350t", "1600+700", "1900+0"]);
        let expected = TraceTurns {
            think_time: TracePauses { turns: Count(3), sum_ns: Count(720_000_000), ..TracePauses::default() },
            tool_time: TracePauses { turns: Count(1), sum_ns: Count(350_000_000), ..TracePauses::default() },
            without_end: Count(1),
            overlapping: Count(1),
            ..TraceTurns::default()
        };
        assert_eq!(summary, expected);
    }

    #[test]
    fn think_time_and_tool_time_are_cut_apart_and_later_turns_move() {
        let turns =
            [turn(1, 0, Some(10), false), turn(2, 110, Some(10), true), turn(3, 220, Some(10), false), turn(4, 230, None, false)];
        let ms = |ms: u64| Some(ms * 1_000_000);
        let (read, summary) = placed(&turns, TimeRules { max_gap_ns: ms(60), max_tool_ns: ms(25), ..TimeRules::default() });
        // Pauses of 100, 100 and 0: 40 and then 75 are taken out.
        assert_eq!(read, ["0+0", "70+60", "105+25t", "115+0"]);
        assert_eq!((summary.think_time.cut, summary.think_time.cut_ns), (Count(1), Count(40_000_000)));
        assert_eq!((summary.tool_time.cut, summary.tool_time.cut_ns), (Count(1), Count(75_000_000)));
        let (read, _) = placed(&turns, TimeRules { max_gap_ns: ms(60), ..TimeRules::default() });
        assert_eq!(read, ["0+0", "70+60", "140+60t", "150+0"], "without a limit of its own, a tool has that of all pauses");
    }

    #[test]
    fn a_pause_of_days_and_turns_in_disorder_are_refused_by_row() {
        let mut summary = TraceTurns::default();
        let far = [turn(7, 0, Some(0), false), turn(8, 3 * 24 * 3_600_000, None, false)];
        let error =
            place_turns(&far, &[Stream::default()], &TimeRules::default(), &mut summary).expect_err("too long").to_string();
        insta::assert_snapshot!(error, @"row 8 follows the turn before it in its session after 3.0 days: cut such pauses by `max_gap`, unless the times of the trace have another unit than its format");
        let refused = |second: HeldTurn| {
            let mut held = HeldSessions::default();
            held.add(1, turn(1, 50, None, false)).expect("the first");
            held.add(2, turn(2, 20, None, false)).expect("of another session");
            held.add(1, second).map_err(|error| error.to_string())
        };
        insta::assert_snapshot!(refused(turn(3, 49, None, false)).expect_err("earlier"), @"row 3 is earlier than row 1, the turn before it in its session: sort the file by time");
        insta::assert_snapshot!(refused(turn(3, 50, None, false)).expect_err("again"), @"row 3 is row 1 again: a turn of a session is in a trace once");
        assert_eq!(refused(turn(3, 51, None, false)), Ok(()));
    }

    #[test]
    fn sessions_come_in_the_order_in_which_they_began() {
        let mut held = HeldSessions::default();
        for (session, at_ms) in [(9, 30), (4, 10), (9, 40), (5, 10)] {
            held.add(session, turn(session, at_ms, None, false)).expect("added");
        }
        let order: Vec<(u64, usize)> = held.into_ordered().iter().map(|turns| (turns[0].number, turns.len())).collect();
        assert_eq!(order, [(4, 1), (5, 1), (9, 2)]);
    }

    #[test]
    fn how_far_blocks_cover_a_prompt_is_counted() {
        let mut summary = TraceTurns::default();
        for (tokens, ids) in [(9, 2), (8, 2), (7, 2), (4, 0)] {
            let blocks = TokenBlocks { tokens, size: 4, ids: (0..ids).collect(), scope: None, messages: Vec::new() };
            count_blocks(&RowContent::Blocks(blocks), &mut summary);
        }
        assert_eq!((summary.beyond_blocks, summary.whole_blocks, summary.partial_blocks), (Count(1), Count(1), Count(1)));
    }
}
