//! The index of imported rows: the place, the time and the token counts of each.
//!
//! The format is a head, [`INDEX_FORMAT`] and a line break, and then 32 bytes for each row: the offset of its line in the file of rows and
//! its time in nanoseconds (64 bits each), the bytes of the line without its line break, the tokens of its prompt, the tokens of its
//! recorded response, or 2^32 - 1 without one, and the leading tokens of its prompt that an earlier row has as well (32 bits each).
//! Integers are little-endian. Lines follow one another without a gap, and times never go back. Without times, all are 0.
//!
//! The highest bit of the bytes of a line is 1 if the row continues the session of the row before it; a line has fewer than 2^31 bytes. The
//! prompt of such a turn is all that was said before it, earlier recorded responses included, and its own messages. Its reused tokens
//! are those of all that was said before. A session has [`MAX_SESSION_TURNS`] turns at most, and the first row begins one.
//!
//! The index of the sessions of a trace begins with [`TRACE_SESSIONS_FORMAT`] instead, and each row has 14 bytes more: the recorded pause before
//! the turn in nanoseconds (64 bits), of which the highest bit is 1 if it is the time of a tool, and three numbers of 16 bits, in which turns of the
//! session count from 0: its stream, 1 more than the turn that it comes after, or 0 for the first, and the turn that joins it, or 0 if none does.
//! The prompt of such a turn is that of its row alone, and its reused tokens are by blocks. No turn is earlier than the one that it comes after,
//! nor a first turn than that of the session before; a session has [`MAX_TRACE_TURNS`] turns at most. Streams are numbered as they begin; a turn
//! comes after the one before in its stream or, if it begins one, after any earlier turn. Only the last turn of a stream is joined, by a later
//! turn of another stream.

mod links;

use assay_manifest::MAX_SESSION_TURNS;
use links::{LINK_BYTES, Links, OpenSession, PLACE_BYTES};

pub(crate) use links::TracePlace;
pub use links::TurnLink;

/// The format of an index; its first line.
pub const INDEX_FORMAT: &str = "assay.dev/dataset-index/v1";

/// The format of an index of the sessions of a trace; its first line.
pub const TRACE_SESSIONS_FORMAT: &str = "assay.dev/trace-sessions-index/v1";

/// The most rows of a dataset.
pub const MAX_ROWS: u64 = 10_000_000;

/// The most turns of a session of a trace.
pub const MAX_TRACE_TURNS: u32 = 10_000;

/// The bit of a pause that marks the time of a tool.
const TOOL: u64 = 1 << 63;

/// The bytes of a row of a trace's session.
const TRACE_ROW_BYTES: usize = ROW_BYTES + PLACE_BYTES;

/// The bytes of one row.
pub(crate) const ROW_BYTES: usize = 32;

/// The value of a token count that is absent.
const NONE: u32 = u32::MAX;

/// The bit of the length of a line that marks a row which continues a session.
pub(crate) const CONTINUES: u32 = 1 << 31;

/// The place of the word with the length of a line in a row, in words of 32 bits.
const LENGTH_WORD: usize = 4;

/// The reason why bytes are not an index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// The head is another one.
    #[error("the index begins with neither `{INDEX_FORMAT}` nor `{TRACE_SESSIONS_FORMAT}`")]
    Head,
    /// The bytes end within a row, or hold none.
    #[error("the index has {0} bytes of rows, which is no whole number of them above 0")]
    Length(usize),
    /// More rows than allowed.
    #[error("the index has {0} rows, more than {MAX_ROWS}")]
    TooMany(u64),
    /// A row does not begin where the row before it ends.
    #[error("row {0} of the index does not begin where the row before it ends")]
    Gap(u64),
    /// A row is earlier than the row before it, or than the turn that it comes after.
    #[error("row {0} of the index is earlier than the row before it")]
    Order(u64),
    /// The links of a turn to others of its session are none that a session has.
    #[error("the session up to row {0} of the index has turns that wait for one another in no order in which they could be sent")]
    Links(u64),
    /// The first row continues a session.
    #[error("the first row of the index continues a session that no row begins")]
    NoFirstTurn,
    /// A session has more turns than allowed.
    #[error("row {row} of the index continues a session of {most} turns, which is the most that a session has")]
    TooManyTurns {
        /// The row.
        row: u64,
        /// The most turns.
        most: u32,
    },
    /// A row continues a session and has fewer tokens than what was said before.
    #[error("row {0} of the index continues a session without its earlier turns")]
    History(u64),
}

/// One row of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexedRow {
    /// The offset of its line in the file of rows, in bytes.
    pub offset: u64,
    /// Its time since the start of the trace, in nanoseconds; 0 if the dataset has no times.
    pub at_ns: u64,
    /// The length of its line without the line break, in bytes.
    pub bytes: u32,
    /// Tokens of its prompt.
    pub input_tokens: u32,
    /// Tokens of its recorded response.
    pub output_tokens: Option<u32>,
    /// Leading tokens of its prompt that an earlier row has as well: by the blocks of the dataset, or what was said before this turn of a
    /// session, recorded responses included; 0 without blocks and sessions.
    pub reused_tokens: u32,
    /// True if it is the next turn of the session of the row before it.
    pub continues: bool,
}

/// The recorded pause before a turn of a session of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedPause {
    /// The time from the end of the response before to the turn, in nanoseconds; 0 for the first turn.
    pub ns: u64,
    /// True if the response before called a tool, so that the pause is the tool's time.
    pub is_tool: bool,
}

impl RecordedPause {
    pub(crate) fn to_bytes(self) -> [u8; 8] {
        (self.ns.min(!TOOL) | if self.is_tool { TOOL } else { 0 }).to_le_bytes()
    }

    fn from_bytes(bytes: [u8; 8]) -> Self {
        let word = u64::from_le_bytes(bytes);
        Self { ns: word & !TOOL, is_tool: word & TOOL != 0 }
    }
}

/// A session of an index: rows that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexedSession {
    /// The row of its first turn, counted from 0.
    pub first_row: u64,
    /// The number of its turns, which is that of its rows.
    pub turns: u32,
}

impl IndexedRow {
    pub(crate) fn to_bytes(self) -> [u8; ROW_BYTES] {
        let Self { offset, at_ns, bytes, input_tokens, output_tokens, reused_tokens, continues } = self;
        let length = if continues { bytes | CONTINUES } else { bytes };
        let mut row = [0; ROW_BYTES];
        row[..8].copy_from_slice(&offset.to_le_bytes());
        row[8..16].copy_from_slice(&at_ns.to_le_bytes());
        let narrow = [length, input_tokens, output_tokens.unwrap_or(NONE), reused_tokens];
        row[16..].as_chunks_mut::<4>().0.iter_mut().zip(narrow).for_each(|(place, value)| *place = value.to_le_bytes());
        row
    }

    fn from_bytes(row: &[u8; ROW_BYTES]) -> Self {
        let words = row.as_chunks::<4>().0;
        let narrow = |place: usize| words.get(place).map_or(0, |word| u32::from_le_bytes(*word));
        let wide = |place: usize| u64::from(narrow(place + 1)) << 32 | u64::from(narrow(place));
        Self {
            offset: wide(0),
            at_ns: wide(2),
            bytes: narrow(LENGTH_WORD) & !CONTINUES,
            input_tokens: narrow(5),
            output_tokens: Some(narrow(6)).filter(|tokens| *tokens != NONE),
            reused_tokens: narrow(7),
            continues: continues(row),
        }
    }

    /// Returns the offset of the line after this one.
    pub(crate) fn end(self) -> u64 {
        self.offset.saturating_add(u64::from(self.bytes)).saturating_add(1)
    }
}

/// Returns true if a row continues a session, without reading the rest of it: an index has millions of rows.
fn continues(row: &[u8; ROW_BYTES]) -> bool {
    row.as_chunks::<4>().0.get(LENGTH_WORD).is_some_and(|word| u32::from_le_bytes(*word) & CONTINUES != 0)
}

/// The rows of a dataset, in the order of its file, or of the sessions of a trace, one session after the other. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    rows: Vec<[u8; ROW_BYTES]>,
    /// The pauses before the turns of a trace's sessions, one for each row; empty for anything else.
    pauses: Vec<[u8; 8]>,
    /// The links of the same turns.
    links: Links,
}

impl Index {
    /// The most bytes of an index.
    pub const MAX_BYTES: u64 = MAX_ROWS * TRACE_ROW_BYTES as u64 + TRACE_SESSIONS_FORMAT.len() as u64 + 1;

    /// Parses an index.
    pub fn parse(bytes: &[u8]) -> Result<Self, IndexError> {
        let after = |head: &str| bytes.strip_prefix(head.as_bytes()).and_then(|rest| rest.strip_prefix(b"\n"));
        let (index, bytes) = match (after(INDEX_FORMAT), after(TRACE_SESSIONS_FORMAT)) {
            (Some(body), _) => {
                let (rows, rest) = body.as_chunks::<ROW_BYTES>();
                let index = Self { rows: rows.to_vec(), pauses: Vec::new(), links: Links::default() };
                (rest.is_empty().then_some(index), body.len())
            }
            (None, Some(body)) => {
                let (rows, rest) = body.as_chunks::<TRACE_ROW_BYTES>();
                (if rest.is_empty() { Some(Self::of_trace(rows)?) } else { None }, body.len())
            }
            (None, None) => return Err(IndexError::Head),
        };
        let index = index.filter(|index| !index.rows.is_empty()).ok_or(IndexError::Length(bytes))?;
        index.check()?;
        Ok(index)
    }

    fn of_trace(bytes: &[[u8; TRACE_ROW_BYTES]]) -> Result<Self, IndexError> {
        let (mut rows, mut pauses) = (Vec::with_capacity(bytes.len()), Vec::with_capacity(bytes.len()));
        let (mut links, mut session) = (Links::default(), OpenSession::default());
        for (number, bytes) in (1..).zip(bytes) {
            let Some((row, place)) = bytes.split_first_chunk::<ROW_BYTES>() else { break };
            let (Some(pause), Some(link)) = (place.first_chunk::<8>(), place.last_chunk::<LINK_BYTES>()) else { break };
            if number == 1 && continues(row) {
                return Err(IndexError::NoFirstTurn);
            }
            if !links.add(&mut session, TurnLink::from_bytes(*link), !continues(row)) {
                return Err(IndexError::Links(number));
            }
            rows.push(*row);
            pauses.push(*pause);
        }
        if !links.close(&mut session) {
            return Err(IndexError::Links(rows.len() as u64));
        }
        Ok(Self { rows, pauses, links })
    }

    fn check(&self) -> Result<(), IndexError> {
        if self.rows.len() as u64 > MAX_ROWS {
            return Err(IndexError::TooMany(self.rows.len() as u64));
        }
        let is_trace = self.has_recorded_pauses();
        let (mut expected, mut before_ns, mut session) = (0, 0, None);
        for (number, row) in (1..).zip(&self.rows) {
            let row = IndexedRow::from_bytes(row);
            if row.offset != expected {
                return Err(IndexError::Gap(number));
            }
            // The turns of a trace's session come between those of others, and those of a stream between those of other streams.
            let first_row = session.map_or(number, |(turns, _): (u32, u32)| number - u64::from(turns)) - 1;
            let after = |turn: u32| self.link(first_row, turn).and_then(|link| link.after);
            let waited_ns = || {
                let after = session.and_then(|(turns, _)| after(turns)).map_or(0, u64::from);
                self.row(first_row + after).map_or(0, |row| row.at_ns)
            };
            let earliest_ns = if is_trace && row.continues { waited_ns() } else { before_ns };
            if row.at_ns < earliest_ns {
                return Err(IndexError::Order(number));
            }
            if !(is_trace && row.continues) {
                before_ns = row.at_ns;
            }
            (expected, session) = (row.end(), Some(next_turn(number, row, session, is_trace)?));
        }
        Ok(())
    }

    /// Returns the links of a turn of a session that begins with `first_row`; `None` unless the rows are turns of the sessions of a trace.
    pub fn link(&self, first_row: u64, turn: u32) -> Option<TurnLink> {
        self.links.link(first_row, u16::try_from(turn).ok()?)
    }

    /// Returns the turns of a trace's session that wait for one of its turns, each with the number of turns that it waits for.
    pub fn followers(&self, first_row: u64, turn: u32) -> impl Iterator<Item = (u32, u32)> {
        let turn = u16::try_from(turn).unwrap_or(u16::MAX);
        self.links.followers(first_row, turn).map(|(turn, waits)| (u32::from(turn), waits))
    }

    /// Returns the streams of the session that has most of them; 0 unless the rows are turns of the sessions of a trace.
    pub fn most_streams(&self) -> u32 {
        self.links.most_streams()
    }

    /// Returns true if its rows are turns of the sessions of a trace, whose pauses are recorded.
    pub fn has_recorded_pauses(&self) -> bool {
        !self.pauses.is_empty()
    }

    /// Returns the recorded pause before a turn; `None` unless the rows are turns of the sessions of a trace.
    pub fn recorded_pause(&self, row: u64) -> Option<RecordedPause> {
        self.pauses.get(usize::try_from(row).ok()?).copied().map(RecordedPause::from_bytes)
    }

    /// Returns the number of rows.
    #[expect(clippy::len_without_is_empty, reason = "an index is never empty")]
    pub fn len(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Returns a row; `None` past the last one.
    pub fn row(&self, row: u64) -> Option<IndexedRow> {
        self.rows.get(usize::try_from(row).ok()?).map(IndexedRow::from_bytes)
    }

    /// Returns the number of rows before the first one for which `reached` is true of its time. It must stay true for later times. The rows of
    /// a trace's sessions are in no order of time.
    pub fn rows_until(&self, reached: impl Fn(u64) -> bool) -> u64 {
        self.rows.partition_point(|row| !reached(IndexedRow::from_bytes(row).at_ns)) as u64
    }

    /// Returns all rows in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = IndexedRow> {
        self.rows.iter().map(IndexedRow::from_bytes)
    }

    /// Returns all sessions in order. Their turns add up to the rows: in a dataset without sessions, each row is one of a single turn.
    pub fn sessions(&self) -> impl Iterator<Item = IndexedSession> {
        self.rows.chunk_by(|_, next| continues(next)).scan(0, |next_row, turns| {
            let session = IndexedSession { first_row: *next_row, turns: turns.len() as u32 };
            *next_row += turns.len() as u64;
            Some(session)
        })
    }
}

/// Returns the turns of a session so far and the tokens of its last prompt, with the turn of this row. `before` are those of the row before.
fn next_turn(number: u64, row: IndexedRow, before: Option<(u32, u32)>, is_trace: bool) -> Result<(u32, u32), IndexError> {
    if !row.continues {
        return Ok((1, row.input_tokens));
    }
    let (turns, input_tokens) = before.ok_or(IndexError::NoFirstTurn)?;
    let most = if is_trace { MAX_TRACE_TURNS } else { MAX_SESSION_TURNS };
    if turns == most {
        return Err(IndexError::TooManyTurns { row: number, most });
    }
    if !is_trace && !(input_tokens..=row.input_tokens).contains(&row.reused_tokens) {
        return Err(IndexError::History(number));
    }
    Ok((turns + 1, row.input_tokens))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(rows: &[(u32, u32, Option<u32>, u64)]) -> Vec<u8> {
        let mut bytes = format!("{INDEX_FORMAT}\n").into_bytes();
        let mut offset = 0;
        for (length, input_tokens, output_tokens, at_ns) in rows.iter().copied() {
            let reused_tokens = input_tokens / 2;
            let row = IndexedRow { offset, at_ns, bytes: length, input_tokens, output_tokens, reused_tokens, continues: false };
            bytes.extend(row.to_bytes());
            offset = row.end();
        }
        bytes
    }

    /// Returns an index of sessions with these numbers of turns. Each turn and each response has one token.
    fn sessions(turns: &[u32]) -> Vec<u8> {
        let mut bytes = format!("{INDEX_FORMAT}\n").into_bytes();
        for (row, turn) in (0..).zip(turns.iter().flat_map(|turns| 0..*turns)) {
            bytes.extend(turn_row(row, turn).to_bytes());
        }
        bytes
    }

    fn turn_row(row: u64, turn: u32) -> IndexedRow {
        let (input_tokens, reused_tokens) = (2 * turn + 1, 2 * turn);
        let (offset, continues) = (8 * row, turn > 0);
        IndexedRow { offset, at_ns: 0, bytes: 7, input_tokens, output_tokens: Some(1), reused_tokens, continues }
    }

    #[test]
    fn a_damaged_index_is_refused_by_name() {
        let whole = written(&[(10, 3, None, 0), (5, 1, Some(2), 7)]);
        assert_eq!(Index::parse(&whole).map(|index| index.len()), Ok(2));
        assert_eq!(Index::parse(b"other"), Err(IndexError::Head));
        assert_eq!(Index::parse(&written(&[])), Err(IndexError::Length(0)));
        assert_eq!(Index::parse(&whole[..whole.len() - 1]), Err(IndexError::Length(63)));
        let mut moved = whole.clone();
        let second = INDEX_FORMAT.len() + 1 + ROW_BYTES;
        moved[second] += 1;
        assert_eq!(Index::parse(&moved), Err(IndexError::Gap(2)));
        assert_eq!(Index::parse(&written(&[(1, 1, None, 7), (1, 1, None, 6)])), Err(IndexError::Order(2)));
    }

    #[test]
    fn a_damaged_session_is_refused_by_name() {
        let refused = |rows: &[IndexedRow]| {
            let rows = rows.iter().flat_map(|row| row.to_bytes());
            Index::parse(&format!("{INDEX_FORMAT}\n").into_bytes().into_iter().chain(rows).collect::<Vec<_>>())
                .map(|index| index.len())
        };
        assert_eq!(refused(&[turn_row(0, 0), turn_row(1, 1)]), Ok(2));
        assert_eq!(refused(&[turn_row(0, 1)]), Err(IndexError::NoFirstTurn));
        // Turn 1 has 3 tokens, so that turn 2 reuses between 3 and all of its own.
        let third = |reused_tokens| IndexedRow { reused_tokens, ..turn_row(2, 2) };
        let with = |third| refused(&[turn_row(0, 0), turn_row(1, 1), third]);
        assert_eq!([2, 3, 5, 6].map(|reused| with(third(reused)).is_ok()), [false, true, true, false]);
        assert_eq!(with(third(2)), Err(IndexError::History(3)));
        assert_eq!(Index::parse(&sessions(&[1, MAX_SESSION_TURNS])).map(|index| index.len()), Ok(1_001));
        assert_eq!(
            Index::parse(&sessions(&[1, MAX_SESSION_TURNS + 1])),
            Err(IndexError::TooManyTurns { row: 1_002, most: 1_000 })
        );
    }

    #[test]
    fn the_sessions_of_a_trace_have_pauses_and_are_in_the_order_of_their_starts() {
        let row = |offset, at_ns, continues| {
            let (input_tokens, output_tokens, reused_tokens) = (5, Some(1), 2);
            IndexedRow { offset, at_ns, bytes: 7, input_tokens, output_tokens, reused_tokens, continues }
        };
        let written = |rows: &[(IndexedRow, RecordedPause)]| {
            let rows = rows.iter().flat_map(|(row, pause)| {
                let link = TurnLink { after: row.continues.then_some(0), ..TurnLink::default() };
                [&row.to_bytes()[..], &TracePlace { pause: *pause, link }.to_bytes()].concat()
            });
            format!("{TRACE_SESSIONS_FORMAT}\n").into_bytes().into_iter().chain(rows).collect::<Vec<u8>>()
        };
        let (none, tool) = (RecordedPause::default(), RecordedPause { ns: 70, is_tool: true });
        let sound = written(&[(row(0, 10, false), none), (row(8, 90, true), tool), (row(16, 20, false), none)]);
        let index = Index::parse(&sound).expect("an index");
        assert_eq!([0, 1, 2, 3].map(|row| index.recorded_pause(row)), [Some(none), Some(tool), Some(none), None]);
        assert_eq!(index.sessions().map(|session| session.turns).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(index.row(1), Some(row(8, 90, true)));
        assert!(!Index::parse(&written_plain()).expect("an index").has_recorded_pauses());
        let refused = |second, third| Index::parse(&written(&[(row(0, 10, false), none), (second, tool), (third, none)]));
        assert_eq!(refused(row(8, 9, true), row(16, 20, false)), Err(IndexError::Order(2)), "before its first turn");
        assert_eq!(refused(row(8, 90, true), row(16, 9, false)), Err(IndexError::Order(3)), "before an earlier session");
        assert_eq!(Index::parse(&sound[..sound.len() - 1]), Err(IndexError::Length(137)));
    }

    fn written_plain() -> Vec<u8> {
        written(&[(1, 1, None, 0)])
    }

    #[test]
    fn rows_are_found_by_their_time() {
        let index =
            Index::parse(&written(&[(1, 1, None, 5), (1, 1, None, 7), (1, 1, None, 7), (1, 1, None, 9)])).expect("an index");
        assert_eq!([0, 6, 7, 8, 10].map(|time| index.rows_until(|at_ns| at_ns >= time)), [0, 1, 1, 3, 4]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            rows in prop::collection::vec((0..CONTINUES, any::<u32>(), prop::option::of(0..NONE), any::<u64>()), 1..9)
        ) {
            let mut rows = rows;
            rows.sort_by_key(|row| row.3);
            let index = Index::parse(&written(&rows)).expect("an index");
            let read: Vec<_> = index.rows().map(|row| (row.bytes, row.input_tokens, row.output_tokens, row.at_ns)).collect();
            prop_assert!(index.rows().all(|row| row.reused_tokens == row.input_tokens / 2));
            prop_assert_eq!(&read, &rows);
            prop_assert_eq!(index.row(index.len()), None);
            prop_assert_eq!(index.sessions().count() as u64, index.len());
        }

        #[test]
        fn sessions_are_read_as_they_were_written(turns in prop::collection::vec(1..9_u32, 1..9)) {
            let index = Index::parse(&sessions(&turns)).expect("an index");
            let read: Vec<_> = index.sessions().collect();
            prop_assert_eq!(read.iter().map(|session| session.turns).collect::<Vec<_>>(), turns);
            for (row, turn) in read.iter().flat_map(|session| (session.first_row..).zip(0..session.turns)) {
                prop_assert_eq!(index.row(row), Some(turn_row(row, turn)));
            }
        }

        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..200), with_head in any::<bool>()) {
            let head = if with_head { format!("{INDEX_FORMAT}\n").into_bytes() } else { Vec::new() };
            let _ = Index::parse(&[head, bytes].concat());
        }
    }
}
