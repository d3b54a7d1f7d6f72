//! The streams of a session of a trace: its own, and one for each subagent.
//!
//! A stream begins after the latest turn of the stream that spawned it whose response had ended by then: only that one can have called the
//! subagent. If none had ended, it is the latest turn that had begun. A turn joins the subagents of its stream that had ended since the turn
//! before and by its own start, unless nothing waits for them.

use crate::session::HeldTurn;
use crate::{DatasetError, TraceSession, TraceStream, TurnLink};

/// A stream among those of its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stream {
    /// The stream that spawned it; absent for the session's own.
    pub(crate) parent: Option<u16>,
    /// True if no turn waits for its end.
    pub(crate) is_background: bool,
    /// The number of its turns.
    pub(crate) turns: usize,
}

/// The turns of all streams of a session, in the order of their times.
#[derive(Debug)]
pub(crate) struct StreamedTurns {
    pub(crate) turns: Vec<HeldTurn>,
    /// The streams, in the order in which they begin.
    pub(crate) streams: Vec<Stream>,
    /// Subagents without a turn, and those that began before any turn that could have spawned them.
    pub(crate) left_out: u64,
    /// The requests of these.
    pub(crate) left_out_requests: u64,
}

impl StreamedTurns {
    /// Returns turns of which each follows the one before.
    pub(crate) fn one_stream(turns: Vec<HeldTurn>) -> Self {
        let stream = Stream { turns: turns.len(), ..Stream::default() };
        Self { turns, streams: vec![stream], left_out: 0, left_out_requests: 0 }
    }

    /// Puts the turns of the streams of a session in the order of their times; of turns of one time, that of the earlier stream is first.
    pub(crate) fn of_session(number: u64, session: TraceSession) -> Result<Self, DatasetError> {
        let mut read = Self { turns: Vec::new(), streams: Vec::new(), left_out: 0, left_out_requests: 0 };
        // The number of each stream of the session, if it is kept, and the time of its first turn.
        let mut kept: Vec<Option<(u16, i64)>> = Vec::with_capacity(session.streams.len());
        for stream in session.streams {
            let first_ns = stream.turns.first().and_then(|row| row.time).map(|time| time.at_ns);
            let spawned_by = stream.parent.map(|place| kept.get(place).copied().flatten());
            let is_kept = match (first_ns, spawned_by) {
                (Some(first_ns), Some(Some((_, parent_ns)))) => parent_ns <= first_ns,
                (first_ns, None) => first_ns.is_some(),
                (_, Some(None)) | (None, _) => false,
            };
            let new = first_ns.filter(|_| is_kept).zip(u16::try_from(read.streams.len()).ok());
            kept.push(new.map(|(first_ns, new)| (new, first_ns)));
            match new {
                Some((_, new)) => read.push(number, stream, new, spawned_by.flatten().map(|(parent, _)| parent))?,
                None if stream.parent.is_some() => {
                    read.left_out += 1;
                    read.left_out_requests += stream.turns.len() as u64 + stream.left_out;
                }
                None => {}
            }
        }
        read.turns.sort_by_key(|turn| (turn.at_ns, turn.stream));
        read.number_streams();
        Ok(read)
    }

    fn push(&mut self, number: u64, stream: TraceStream, new: u16, parent: Option<u16>) -> Result<(), DatasetError> {
        self.streams.push(Stream { parent, is_background: stream.is_background, turns: stream.turns.len() });
        for row in stream.turns {
            let time = row.time.ok_or_else(|| DatasetError::row(number, "has a request without a time"))?;
            self.turns.push(HeldTurn { number, row, at_ns: time.at_ns, stream: new });
        }
        Ok(())
    }

    /// Numbers the streams in the order of their first turns.
    fn number_streams(&mut self) {
        let mut numbers: Vec<Option<u16>> = vec![None; self.streams.len()];
        let mut order: Vec<u16> = Vec::with_capacity(self.streams.len());
        for turn in &mut self.turns {
            let Some(number) = numbers.get_mut(usize::from(turn.stream)) else { continue };
            let new = order.len() as u16;
            let found = *number.get_or_insert(new);
            if found == new {
                order.push(turn.stream);
            }
            turn.stream = found;
        }
        let renamed = |old: &u16| {
            let stream = self.streams.get(usize::from(*old)).copied().unwrap_or_default();
            let parent = stream.parent.and_then(|parent| numbers.get(usize::from(parent)).copied().flatten());
            Stream { parent, ..stream }
        };
        self.streams = order.iter().map(renamed).collect();
    }
}

/// The turns that a turn waits for, by their recorded times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    /// The turn that it comes after: the one before in its stream, or the one that spawned the stream.
    pub(crate) after: usize,
    /// The last recorded end of the turns that it waits for.
    pub(crate) ends_ns: i64,
    /// The same, each end without what was cut out of pauses before it.
    pub(crate) cut_ends_ns: i64,
}

/// A turn that was placed.
#[derive(Clone, Copy, Debug)]
struct PlacedEnd {
    began_ns: i64,
    /// Its recorded end; its start if none is recorded.
    ends_ns: i64,
    /// The time that was cut out of pauses before it.
    cut_ns: u64,
    /// The turn before it in its stream.
    before: Option<usize>,
}

/// The course of a stream so far.
#[derive(Clone, Debug, Default)]
struct StreamCourse {
    /// The turns so far, and the last of them.
    turns: usize,
    last: Option<usize>,
    /// The subagents that no turn has joined yet.
    not_joined: Vec<u16>,
}

/// The forks of a session, as its turns are placed one after the other.
pub(crate) struct Forks<'a> {
    streams: &'a [Stream],
    courses: Vec<StreamCourse>,
    ends: Vec<PlacedEnd>,
    links: Vec<TurnLink>,
    joined: u64,
}

impl<'a> Forks<'a> {
    pub(crate) fn new(streams: &'a [Stream]) -> Self {
        let courses = vec![StreamCourse::default(); streams.len()];
        Self { streams, courses, ends: Vec::new(), links: Vec::new(), joined: 0 }
    }

    /// Returns the links of the turns, and the number of subagents that a turn joins.
    pub(crate) fn finish(self) -> (Vec<TurnLink>, u64) {
        (self.links, self.joined)
    }

    /// Returns what a turn waits for; `None` for the first of the session.
    pub(crate) fn wait(&mut self, stream: u16, at_ns: i64) -> Option<Wait> {
        let of_stream = self.courses.get(usize::from(stream)).and_then(|course| course.last);
        let after = of_stream.or_else(|| self.spawner(stream, at_ns))?;
        let joined = self.take_joined(stream, at_ns);
        let waits = joined.iter().copied().chain([after]).filter_map(|turn| self.ends.get(turn));
        let cut = |end: &PlacedEnd| end.ends_ns.saturating_sub_unsigned(end.cut_ns);
        let ends_ns = waits.clone().map(|end| end.ends_ns).max()?;
        let cut_ends_ns = waits.map(cut).max()?;
        let number = u16::try_from(self.links.len()).ok();
        for turn in joined {
            if let Some(link) = self.links.get_mut(turn) {
                link.joined_by = number;
                self.joined += 1;
            }
        }
        Some(Wait { after, ends_ns, cut_ends_ns })
    }

    /// Returns the turn that spawned a stream which begins now.
    fn spawner(&self, stream: u16, at_ns: i64) -> Option<usize> {
        let parent = self.streams.get(usize::from(stream))?.parent?;
        let last = self.courses.get(usize::from(parent))?.last?;
        let before = |turn: &usize| self.ends.get(*turn).and_then(|end| end.before);
        let mut turns = std::iter::successors(Some(last), before);
        turns.find(|turn| self.ends.get(*turn).is_some_and(|end| end.ends_ns <= at_ns)).or(Some(last))
    }

    /// Takes the last turns of the subagents of a stream that had ended by now.
    fn take_joined(&mut self, stream: u16, at_ns: i64) -> Vec<usize> {
        let Some(course) = self.courses.get_mut(usize::from(stream)) else { return Vec::new() };
        let children = std::mem::take(&mut course.not_joined);
        let last_if_ended = |child: u16| {
            let (stream, course) = (self.streams.get(usize::from(child))?, self.courses.get(usize::from(child))?);
            let last = course.last.filter(|_| course.turns == stream.turns && !stream.is_background)?;
            self.ends.get(last).filter(|end| end.began_ns < at_ns && end.ends_ns <= at_ns).map(|_| last)
        };
        let (mut joined, mut waiting) = (Vec::new(), Vec::new());
        for child in children {
            match last_if_ended(child) {
                Some(last) => joined.push(last),
                None => waiting.push(child),
            }
        }
        if let Some(course) = self.courses.get_mut(usize::from(stream)) {
            course.not_joined = waiting;
        }
        joined
    }

    /// Adds a turn that was placed.
    pub(crate) fn add(&mut self, turn: &HeldTurn, after: Option<usize>, cut_ns: u64) {
        let number = self.ends.len();
        let ends_ns = turn.at_ns.saturating_add_unsigned(turn.row.course.service_ns.unwrap_or(0));
        let parent = self.streams.get(usize::from(turn.stream)).and_then(|stream| stream.parent);
        let Some(course) = self.courses.get_mut(usize::from(turn.stream)) else { return };
        let before = course.last.replace(number);
        course.turns += 1;
        self.ends.push(PlacedEnd { began_ns: turn.at_ns, ends_ns, cut_ns, before });
        let after = after.and_then(|turn| u16::try_from(turn).ok());
        self.links.push(TurnLink { stream: turn.stream, after, joined_by: None });
        if before.is_none()
            && let Some(course) = parent.and_then(|parent| self.courses.get_mut(usize::from(parent)))
        {
            course.not_joined.push(turn.stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use assay_manifest::{Count, TraceForks, TraceTurns};

    use super::*;
    use crate::session::{PlacedTurn, place_turns};
    use crate::{Row, RowContent, RowTime, TimeRules, TokenBlocks, TurnCourse};

    const MS: i64 = 1_000_000;

    /// A stream of turns, each with its time and its service in milliseconds.
    fn stream(parent: Option<usize>, turns: &[(i64, Option<u64>)]) -> TraceStream {
        let row = |(at_ms, service_ms): &(i64, Option<u64>)| {
            let content =
                RowContent::Blocks(TokenBlocks { tokens: 5, size: 4, ids: Vec::new(), scope: None, messages: Vec::new() });
            let course = TurnCourse { service_ns: service_ms.map(|ms| ms * 1_000_000), ..TurnCourse::default() };
            Row { course, time: Some(RowTime { at_ns: at_ms * MS, session: None }), ..Row::new(content) }
        };
        TraceStream { parent, turns: turns.iter().map(row).collect(), ..TraceStream::default() }
    }

    fn background(stream: TraceStream) -> TraceStream {
        TraceStream { is_background: true, ..stream }
    }

    /// Returns the turns of a session, one in a text: its stream, `<` the turn that it comes after, `>` the turn that joins it, its time since the
    /// start and its pause in milliseconds. Also returns the numbers of the import.
    fn placed(streams: Vec<TraceStream>, max_gap_ms: Option<u64>) -> (Vec<String>, TraceTurns) {
        let streamed = StreamedTurns::of_session(1, TraceSession { streams, ..TraceSession::default() }).expect("streams");
        let mut summary = TraceTurns { subagents: Count(streamed.left_out), ..TraceTurns::default() };
        let rules = TimeRules { max_gap_ns: max_gap_ms.map(|ms| ms * 1_000_000), ..TimeRules::default() };
        let placed = place_turns(&streamed.turns, &streamed.streams, &rules, &mut summary).expect("placed");
        let text = |PlacedTurn { since_start_ns, pause, link }: &PlacedTurn| {
            let after = link.after.map(|turn| format!("<{turn}")).unwrap_or_default();
            let joined = link.joined_by.map(|turn| format!(">{turn}")).unwrap_or_default();
            format!("{}{after}{joined} {}+{}", link.stream, since_start_ns / 1_000_000, pause.ns / 1_000_000)
        };
        (placed.iter().map(text).collect(), summary)
    }

    #[test]
    fn a_subagent_comes_after_the_turn_that_had_ended_and_is_joined_by_the_next_one() {
        let own = stream(None, &[(0, Some(100)), (1_000, Some(100))]);
        let agent = stream(Some(0), &[(150, Some(200)), (400, Some(300))]);
        let (read, summary) = placed(vec![own, agent], None);
        // 50 after 100, 50 after 350, and 300 after 700, the end of the subagent: not 900 after 100.
        assert_eq!(read, ["0 0+0", "1<0 150+50", "1<1>3 400+50", "0<0 1000+300"]);
        let forks =
            TraceForks { subagents: Count(1), turns: Count(2), joined: Count(1), most_streams: 2, ..TraceForks::default() };
        assert_eq!((summary.forks, summary.think_time.sum_ns), (Some(forks), Count(400_000_000)));
    }

    #[test]
    fn a_turn_joins_all_subagents_that_had_ended_and_waits_for_the_last() {
        let own = stream(None, &[(0, Some(10)), (100, Some(10)), (300, Some(10))]);
        let agents =
            [stream(Some(0), &[(20, Some(60))]), stream(Some(0), &[(30, Some(20))]), stream(Some(0), &[(40, Some(200))])];
        let (read, summary) = placed([own].into_iter().chain(agents).collect(), None);
        // The first two end at 80 and 50, the third at 240, while the second turn of the session is over.
        assert_eq!(read, ["0 0+0", "1<0>4 20+10", "2<0>4 30+20", "3<0>5 40+30", "0<0 100+20", "0<4 300+60"]);
        assert_eq!(summary.forks.map(|forks| (forks.joined, forks.most_streams)), Some((Count(3), 4)));
    }

    #[test]
    fn a_subagent_in_the_background_and_one_that_has_not_ended_are_not_waited_for() {
        let own = || stream(None, &[(0, Some(10)), (100, Some(10))]);
        let (read, summary) = placed(vec![own(), background(stream(Some(0), &[(20, Some(30))]))], None);
        assert_eq!(read, ["0 0+0", "1<0 20+10", "0<0 100+90"]);
        assert_eq!(summary.forks.map(|forks| forks.joined), Some(Count(0)));
        let (read, _) = placed(vec![own(), stream(Some(0), &[(20, Some(81))])], None);
        assert_eq!(read, ["0 0+0", "1<0 20+10", "0<0 100+90"]);
        // One that begins while the next turn is under way was called by the turn before, which had ended.
        let (read, _) = placed(vec![own(), background(stream(Some(0), &[(105, Some(5))]))], None);
        assert_eq!(read, ["0 0+0", "0<0 100+90", "1<0 105+95"]);
    }

    #[test]
    fn subagents_within_subagents_are_joined_by_their_own_stream() {
        let own = stream(None, &[(0, Some(10)), (200, Some(10))]);
        let outer = stream(Some(0), &[(20, Some(10)), (120, Some(10))]);
        let inner = stream(Some(1), &[(40, Some(50))]);
        let (read, _) = placed(vec![own, outer, inner], None);
        assert_eq!(read, ["0 0+0", "1<0 20+10", "2<1>3 40+10", "1<1>4 120+30", "0<0 200+70"]);
    }

    #[test]
    fn what_nothing_spawned_is_left_out_and_what_overlaps_is_counted() {
        let own = stream(None, &[(50, Some(100)), (300, Some(10))]);
        let early = stream(Some(0), &[(10, Some(5))]);
        let of_early = stream(Some(1), &[(60, Some(5))]);
        let overlapping = stream(Some(0), &[(70, Some(5))]);
        let empty = stream(Some(0), &[]);
        let (read, summary) = placed(vec![own, early, of_early, overlapping, empty], None);
        assert_eq!(read, ["0 0+0", "1<0>2 20+0", "0<0 250+150"]);
        assert_eq!((summary.subagents, summary.overlapping), (Count(3), Count(1)));
    }

    #[test]
    fn a_cut_pause_moves_what_waits_for_it_and_no_other_stream() {
        let own = stream(None, &[(0, Some(10)), (1_000, Some(10)), (1_100, Some(10))]);
        let agents = [background(stream(Some(0), &[(20, Some(10)), (500, Some(10))])), stream(Some(0), &[(30, Some(870))])];
        let (read, summary) = placed([own].into_iter().chain(agents).collect(), Some(50));
        // The subagent in the background loses 470 - 50 before its second turn, and the second turn of the session, which waits for the other
        // subagent up to 900, loses 50.
        assert_eq!(read, ["0 0+0", "1<0 20+10", "2<0>4 30+20", "1<1 80+50", "0<0 950+50", "0<4 1010+50"]);
        assert_eq!((summary.think_time.cut, summary.think_time.cut_ns), (Count(3), Count(510_000_000)));
    }
}
