//! The index of imported rows: the place and the token counts of each.
//!
//! The format is a head, [`INDEX_FORMAT`] and a line break, and then 20 bytes for each row: the offset of its line in the file of rows
//! (64 bits), the bytes of the line without its line break, the tokens of its prompt, and the tokens of its recorded response, or
//! 2^32 - 1 without one (32 bits each). Integers are little-endian. Lines follow one another without a gap.

/// The format of an index; its first line.
pub const INDEX_FORMAT: &str = "assay.dev/dataset-index/v1";

/// The most rows of a dataset.
pub const MAX_ROWS: u64 = 10_000_000;

/// The bytes of one row.
pub(crate) const ROW_BYTES: usize = 20;

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
}

/// One row of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexedRow {
    /// The offset of its line in the file of rows, in bytes.
    pub offset: u64,
    /// The length of its line without the line break, in bytes.
    pub bytes: u32,
    /// Tokens of its prompt.
    pub input_tokens: u32,
    /// Tokens of its recorded response.
    pub output_tokens: Option<u32>,
}

impl IndexedRow {
    pub(crate) fn to_bytes(self) -> [u8; ROW_BYTES] {
        let mut bytes = [0; ROW_BYTES];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.input_tokens.to_le_bytes());
        bytes[16..].copy_from_slice(&self.output_tokens.unwrap_or(NONE).to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; ROW_BYTES]) -> Self {
        let [o0, o1, o2, o3, o4, o5, o6, o7, l0, l1, l2, l3, i0, i1, i2, i3, t0, t1, t2, t3] = *bytes;
        let output_tokens = u32::from_le_bytes([t0, t1, t2, t3]);
        Self {
            offset: u64::from_le_bytes([o0, o1, o2, o3, o4, o5, o6, o7]),
            bytes: u32::from_le_bytes([l0, l1, l2, l3]),
            input_tokens: u32::from_le_bytes([i0, i1, i2, i3]),
            output_tokens: (output_tokens != NONE).then_some(output_tokens),
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
        let mut expected = 0;
        for (number, row) in (1..).zip(rows) {
            let row = IndexedRow::from_bytes(row);
            if row.offset != expected {
                return Err(IndexError::Gap(number));
            }
            expected = row.end();
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

    /// Returns all rows in order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = IndexedRow> {
        self.rows.iter().map(IndexedRow::from_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(rows: &[(u32, u32, Option<u32>)]) -> Vec<u8> {
        let mut bytes = format!("{INDEX_FORMAT}\n").into_bytes();
        let mut offset = 0;
        for (length, input_tokens, output_tokens) in rows.iter().copied() {
            let row = IndexedRow { offset, bytes: length, input_tokens, output_tokens };
            bytes.extend(row.to_bytes());
            offset = row.end();
        }
        bytes
    }

    #[test]
    fn a_damaged_index_is_refused_by_name() {
        let whole = written(&[(10, 3, None), (5, 1, Some(2))]);
        assert_eq!(Index::parse(&whole).map(|index| index.len()), Ok(2));
        assert_eq!(Index::parse(b"other"), Err(IndexError::Head));
        assert_eq!(Index::parse(&written(&[])), Err(IndexError::Length(0)));
        assert_eq!(Index::parse(&whole[..whole.len() - 1]), Err(IndexError::Length(39)));
        let mut moved = whole.clone();
        let second = INDEX_FORMAT.len() + 1 + ROW_BYTES;
        moved[second] += 1;
        assert_eq!(Index::parse(&moved), Err(IndexError::Gap(2)));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(rows in prop::collection::vec((any::<u32>(), any::<u32>(), prop::option::of(0..NONE)), 1..9)) {
            let index = Index::parse(&written(&rows)).expect("an index");
            let read: Vec<_> = index.rows().map(|row| (row.bytes, row.input_tokens, row.output_tokens)).collect();
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
