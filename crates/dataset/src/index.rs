//! The index of imported rows: the place, the time and the token counts of each.
//!
//! The format is a head, [`INDEX_FORMAT`] and a line break, and then 32 bytes for each row: the offset of its line in the file of rows and
//! its time in nanoseconds (64 bits each), the bytes of the line without its line break, the tokens of its prompt, the tokens of its
//! recorded response, or 2^32 - 1 without one, and the leading tokens of its prompt that an earlier row has as well (32 bits each).
//! Integers are little-endian. Lines follow one another without a gap, and times never go back. Without times, all are 0.

/// The format of an index; its first line.
pub const INDEX_FORMAT: &str = "assay.dev/dataset-index/v1";

/// The most rows of a dataset.
pub const MAX_ROWS: u64 = 10_000_000;

/// The bytes of one row.
pub(crate) const ROW_BYTES: usize = 32;

/// The value of a token count that is absent.
const NONE: u32 = u32::MAX;

/// The reason why bytes are not an index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// The head is another one.
    #[error("the index does not begin with `{INDEX_FORMAT}`")]
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
    /// A row is earlier than the row before it.
    #[error("row {0} of the index is earlier than the row before it")]
    Order(u64),
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
    /// Leading tokens of its prompt that are the leading tokens of an earlier row, by the blocks of the dataset; 0 without blocks.
    pub reused_tokens: u32,
}

impl IndexedRow {
    pub(crate) fn to_bytes(self) -> [u8; ROW_BYTES] {
        let Self { offset, at_ns, bytes, input_tokens, output_tokens, reused_tokens } = self;
        let mut row = [0; ROW_BYTES];
        row[..8].copy_from_slice(&offset.to_le_bytes());
        row[8..16].copy_from_slice(&at_ns.to_le_bytes());
        let narrow = [bytes, input_tokens, output_tokens.unwrap_or(NONE), reused_tokens];
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
            bytes: narrow(4),
            input_tokens: narrow(5),
            output_tokens: Some(narrow(6)).filter(|tokens| *tokens != NONE),
            reused_tokens: narrow(7),
        }
    }

    /// Returns the offset of the line after this one.
    pub(crate) fn end(self) -> u64 {
        self.offset.saturating_add(u64::from(self.bytes)).saturating_add(1)
    }
}

/// The rows of a dataset, in the order of its file. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    rows: Vec<[u8; ROW_BYTES]>,
}

impl Index {
    /// The most bytes of an index.
    pub const MAX_BYTES: u64 = MAX_ROWS * ROW_BYTES as u64 + INDEX_FORMAT.len() as u64 + 1;

    /// Parses an index.
    pub fn parse(bytes: &[u8]) -> Result<Self, IndexError> {
        let body =
            bytes.strip_prefix(INDEX_FORMAT.as_bytes()).and_then(|rest| rest.strip_prefix(b"\n")).ok_or(IndexError::Head)?;
        let (rows, rest) = body.as_chunks::<ROW_BYTES>();
        if rows.is_empty() || !rest.is_empty() {
            return Err(IndexError::Length(body.len()));
        }
        if rows.len() as u64 > MAX_ROWS {
            return Err(IndexError::TooMany(rows.len() as u64));
        }
        let (mut expected, mut before_ns) = (0, 0);
        for (number, row) in (1..).zip(rows) {
            let row = IndexedRow::from_bytes(row);
            if row.offset != expected {
                return Err(IndexError::Gap(number));
            }
            if row.at_ns < before_ns {
                return Err(IndexError::Order(number));
            }
            (expected, before_ns) = (row.end(), row.at_ns);
        }
        Ok(Self { rows: rows.to_vec() })
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

    /// Returns the number of rows before the first one for which `reached` is true of its time. It must stay true for later times.
    pub fn rows_until(&self, reached: impl Fn(u64) -> bool) -> u64 {
        self.rows.partition_point(|row| !reached(IndexedRow::from_bytes(row).at_ns)) as u64
    }

    /// Returns all rows in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = IndexedRow> {
        self.rows.iter().map(IndexedRow::from_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(rows: &[(u32, u32, Option<u32>, u64)]) -> Vec<u8> {
        let mut bytes = format!("{INDEX_FORMAT}\n").into_bytes();
        let mut offset = 0;
        for (length, input_tokens, output_tokens, at_ns) in rows.iter().copied() {
            let row = IndexedRow { offset, at_ns, bytes: length, input_tokens, output_tokens, reused_tokens: input_tokens / 2 };
            bytes.extend(row.to_bytes());
            offset = row.end();
        }
        bytes
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
    fn rows_are_found_by_their_time() {
        let index =
            Index::parse(&written(&[(1, 1, None, 5), (1, 1, None, 7), (1, 1, None, 7), (1, 1, None, 9)])).expect("an index");
        assert_eq!([0, 6, 7, 8, 10].map(|time| index.rows_until(|at_ns| at_ns >= time)), [0, 1, 1, 3, 4]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            rows in prop::collection::vec((any::<u32>(), any::<u32>(), prop::option::of(0..NONE), any::<u64>()), 1..9)
        ) {
            let mut rows = rows;
            rows.sort_by_key(|row| row.3);
            let index = Index::parse(&written(&rows)).expect("an index");
            let read: Vec<_> = index.rows().map(|row| (row.bytes, row.input_tokens, row.output_tokens, row.at_ns)).collect();
            prop_assert!(index.rows().all(|row| row.reused_tokens == row.input_tokens / 2));
            prop_assert_eq!(&read, &rows);
            prop_assert_eq!(index.row(index.len()), None);
        }

        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..200), with_head in any::<bool>()) {
            let head = if with_head { format!("{INDEX_FORMAT}\n").into_bytes() } else { Vec::new() };
            let _ = Index::parse(&[head, bytes].concat());
        }
    }
}
