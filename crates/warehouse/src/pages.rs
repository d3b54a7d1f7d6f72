//! The memory that the pages of a Parquet file need, from their headers, before any page is unpacked.
//!
//! A few KiB of Parquet can stand for gigabytes: a page may unpack to 2 GiB, a dictionary's text may be repeated in a million
//! rows for one byte, and a list's length costs nothing. The library trusts all of that. Therefore the headers of all pages are
//! read first and checked: the library itself holds a page to the size in its header.

use std::io::Read;

use parquet::basic::{Compression, Type as Physical};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::ChunkReader;

/// The most bytes that the dictionary and the largest page of every column of a row group unpack to, all columns together. A page
/// of Assay's writers has about 1 MiB.
const MAX_HELD_BYTES: u64 = 256 << 20;
/// The most bytes of text in one batch of rows.
const MAX_BATCH_TEXT_BYTES: u64 = 64 << 20;
/// The most values of one column in a row group.
const MAX_GROUP_VALUES: u64 = 32 << 20;
/// The most bytes of the texts of a column of lists in a row group, if each value is its dictionary's longest.
const MAX_LIST_TEXT_BYTES: u64 = 1 << 30;
/// The most values of the largest pages of the columns that are read as views, all columns together: a few bytes may stand for all of them.
const MAX_PAGE_VALUES: u64 = 8 << 20;
/// The longest header of a page: it may contain the smallest and the largest value.
const MAX_HEADER_BYTES: u64 = 1 << 20;
/// The bytes with which a file begins and ends.
const MAGIC: &[u8] = b"PAR1";
/// The end of a file: the length of its footer, and the magic bytes.
const TAIL_BYTES: u64 = 8;
/// The longest footer: a file of a thousand row groups with a hundred columns has one of a few MiB.
const MAX_FOOTER_BYTES: u64 = 16 << 20;
/// The most elements of a schema: columns, lists and structs.
const MAX_SCHEMA_ELEMENTS: u64 = 40_000;
/// The most levels of a schema: each list and each struct adds one or two.
const MAX_SCHEMA_DEPTH: usize = 64;
/// The maximum nesting of a header: a page's statistics are two levels below it.
const MAX_DEPTH: u8 = 8;
/// An encoding that repeats the beginning of the previous text: a page of it may unpack to a thousand times its size.
const DELTA_BYTE_ARRAY: i64 = 7;

/// The reason why a file is not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// A page's header, or its description in the file's footer, is not valid.
    #[error("its pages cannot be read: {0}")]
    Malformed(String),
    /// The pages are compressed by a method that this reader does not unpack.
    #[error("its pages cannot be read: its compression is {0}")]
    Compression(String),
    /// The file does not begin and end as Parquet files do.
    #[error("it does not begin and end with the bytes `PAR1`")]
    NotParquet,
    /// The file would need more memory than any file of Assay's writers.
    #[error("it unpacks to more than {limit} {what}")]
    TooLarge {
        /// The quantity that is too large.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
}

type Result<T, E = PageError> = std::result::Result<T, E>;

fn malformed(problem: impl Into<String>) -> PageError {
    PageError::Malformed(problem.into())
}

fn too_large(what: &'static str, limit: u64) -> PageError {
    PageError::TooLarge { what, limit }
}

/// The memory that the texts of a checked file need: for each column, the bytes by which one more row can make a batch larger.
/// That is the whole dictionary, because every row can have its longest text, or the share of a row in its page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageSizes(Vec<u64>);

impl PageSizes {
    /// Returns how many rows of all columns can be unpacked at a time, at most `most`, so that their texts stay below 64 MiB and
    /// a few pages.
    pub fn batch_rows(&self, most: usize) -> usize {
        self.batch_rows_for(0..self.0.len(), most)
    }

    /// Returns the same for some columns, by their places in the file.
    pub fn batch_rows_for(&self, columns: impl IntoIterator<Item = usize>, most: usize) -> usize {
        let row =
            columns.into_iter().filter_map(|column| self.0.get(column)).fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
        usize::try_from(MAX_BATCH_TEXT_BYTES / row.max(1)).unwrap_or(most).clamp(1, most.max(1))
    }
}

/// Reads the headers of all pages of a file. Fails if the pages are not those that the file's footer describes, or if they unpack
/// to more than is allowed.
pub fn check_pages(source: &impl ChunkReader, metadata: &ParquetMetaData) -> Result<PageSizes> {
    let mut sizes = vec![0; metadata.file_metadata().schema_descr().num_columns()];
    for group in metadata.row_groups() {
        check_group(source, group, &mut sizes)?;
    }
    Ok(PageSizes(sizes))
}

/// Checks the pages of the columns that are read as views of their texts, by their places in the file: what a dictionary repeats takes no
/// memory then. Returns nothing, because a reader counts the pages that it unpacks.
pub(crate) fn check_viewed_pages(source: &impl ChunkReader, group: &RowGroupMetaData, columns: &[usize]) -> Result<()> {
    let (mut held, mut values) = (0_u64, 0_u64);
    for column in columns.iter().filter_map(|place| group.columns().get(*place)) {
        let sizes = check_chunk(source, column)?;
        check_values(group, column, &sizes)?;
        held = held.saturating_add(sizes.dictionary).saturating_add(sizes.largest_page);
        values = values.saturating_add(sizes.most_values);
    }
    if held > MAX_HELD_BYTES {
        return Err(too_large("bytes of pages at a time", MAX_HELD_BYTES));
    }
    if values > MAX_PAGE_VALUES { Err(too_large("values of pages at a time", MAX_PAGE_VALUES)) } else { Ok(()) }
}

/// Checks that a column has a value for each row, and as many as it states.
fn check_values(group: &RowGroupMetaData, column: &ColumnChunkMetaData, sizes: &ChunkSizes) -> Result<()> {
    let rows = u64::try_from(group.num_rows()).map_err(|_| malformed("a row group has less than no rows"))?;
    let stated = u64::try_from(column.num_values()).unwrap_or(u64::MAX);
    let is_list = column.column_descr().max_rep_level() > 0;
    if sizes.values != stated || sizes.values < rows || (!is_list && sizes.values != rows) {
        return Err(malformed(format!("a column of {rows} rows says that it has {stated} values, and has {}", sizes.values)));
    }
    Ok(())
}

/// The sizes to which one column chunk unpacks.
#[derive(Default)]
struct ChunkSizes {
    dictionary: u64,
    largest_page: u64,
    /// The bytes of a page divided by its values, of the page with the most.
    largest_share: u64,
    values: u64,
    /// The most values of a page.
    most_values: u64,
}

fn check_group(source: &impl ChunkReader, group: &RowGroupMetaData, text_bytes: &mut [u64]) -> Result<()> {
    let mut held = 0_u64;
    for (column, text_bytes) in group.columns().iter().zip(text_bytes) {
        let sizes = check_chunk(source, column)?;
        let is_list = column.column_descr().max_rep_level() > 0;
        check_values(group, column, &sizes)?;
        if sizes.values > MAX_GROUP_VALUES {
            return Err(too_large("values of a column in one row group", MAX_GROUP_VALUES));
        }
        held = held.saturating_add(sizes.dictionary).saturating_add(sizes.largest_page);
        if !matches!(column.column_descr().physical_type(), Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY) {
            continue;
        }
        if is_list && sizes.values.saturating_mul(sizes.dictionary) > MAX_LIST_TEXT_BYTES {
            return Err(too_large("bytes of text in the lists of one row group", MAX_LIST_TEXT_BYTES));
        }
        *text_bytes = sizes.dictionary.max(sizes.largest_share).max(*text_bytes);
    }
    if held > MAX_HELD_BYTES { Err(too_large("bytes of pages at a time", MAX_HELD_BYTES)) } else { Ok(()) }
}

fn check_chunk(source: &impl ChunkReader, column: &ColumnChunkMetaData) -> Result<ChunkSizes> {
    // With other compressions, the bytes decide the unpacked size, and not the header.
    if !matches!(column.compression(), Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_)) {
        // Without the level of the writer, as `GZIP(GzipLevel(6))` has it.
        let name = column.compression().to_string();
        return Err(PageError::Compression(name.split('(').next().unwrap_or_default().to_owned()));
    }
    let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    let place = (u64::try_from(start), u64::try_from(column.compressed_size()));
    let (Ok(mut at), Ok(length)) = place else { return Err(malformed("a column begins before the file")) };
    let end = at.checked_add(length).filter(|end| *end <= source.len());
    let end = end.ok_or_else(|| malformed("a column lies beyond the file's end"))?;
    let mut sizes = ChunkSizes::default();
    while at < end {
        let read = source.get_read(at).map_err(|error| malformed(error.to_string()))?;
        let mut reader = HeaderReader { source: read.take(MAX_HEADER_BYTES), read: 0 };
        let page = reader.page()?;
        at = at.saturating_add(reader.read).saturating_add(page.packed);
        if at > end {
            return Err(malformed("a page lies beyond its column's end"));
        }
        if page.encoding == DELTA_BYTE_ARRAY {
            return Err(malformed("a page is encoded as differences between texts"));
        }
        match page.kind {
            PageKind::Dictionary => sizes.dictionary = sizes.dictionary.saturating_add(page.unpacked),
            PageKind::Data => {
                sizes.values = sizes.values.saturating_add(page.values);
                sizes.most_values = sizes.most_values.max(page.values);
                sizes.largest_page = sizes.largest_page.max(page.unpacked);
                sizes.largest_share = sizes.largest_share.max(page.unpacked.div_ceil(page.values.max(1)));
            }
            PageKind::Index => {}
        }
    }
    Ok(sizes)
}

/// Checks the footer of a file before the library parses it: its size, and the number and the depth of its columns, which the library
/// descends without a limit.
pub(crate) fn check_footer(source: &impl ChunkReader) -> Result<()> {
    let unreadable = |error: parquet::errors::ParquetError| malformed(error.to_string());
    let start = source.len().checked_sub(TAIL_BYTES).filter(|start| *start >= MAGIC.len() as u64);
    let start = start.ok_or_else(|| malformed("the file is too short"))?;
    let tail = source.get_bytes(start, TAIL_BYTES as usize).map_err(unreadable)?;
    let beginning = source.get_bytes(0, MAGIC.len()).map_err(unreadable)?;
    let (Some((length, magic)), true) = (tail.split_first_chunk(), beginning.as_ref() == MAGIC) else {
        return Err(PageError::NotParquet);
    };
    if magic != MAGIC {
        return Err(PageError::NotParquet);
    }
    let length = u64::from(u32::from_le_bytes(*length));
    let at = start.checked_sub(length).ok_or_else(|| malformed("its footer is longer than the file"))?;
    if length > MAX_FOOTER_BYTES {
        return Err(too_large("bytes of its footer", MAX_FOOTER_BYTES));
    }
    let read = source.get_read(at).map_err(unreadable)?;
    HeaderReader { source: read.take(length), read: 0 }.check_schema()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PageKind {
    Data,
    Index,
    Dictionary,
}

/// The content of a page's header.
struct PageHeader {
    kind: PageKind,
    unpacked: u64,
    packed: u64,
    values: u64,
    encoding: i64,
}

/// The values of a header's fields and of the struct for its kind of page, by id. Fields that are not needed are skipped.
type HeaderFields = [Option<i64>; 6];

/// Reads headers in Thrift's compact protocol, of which they use structs, whole numbers, flags and bytes.
struct HeaderReader<R> {
    source: std::io::Take<R>,
    read: u64,
}

// The types of the protocol.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const I8: u8 = 3;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// The field of a footer that has the schema, and the field of an element that has the number of those within it, which is the last of
/// [`HeaderFields`].
const SCHEMA_FIELD: i16 = 2;

impl<R: Read> HeaderReader<R> {
    fn page(&mut self) -> Result<PageHeader> {
        let (own, [first, _, dictionary, second]) = self.header()?;
        let needed = |value: Option<i64>| value.ok_or_else(|| malformed("a header lacks a field"));
        let size = |value: Option<i64>| {
            let value = i32::try_from(needed(value)?).ok().and_then(|value| u64::try_from(value).ok());
            value.ok_or_else(|| malformed("a page has less than no bytes"))
        };
        let [_, kind, unpacked, packed, ..] = own;
        let (kind, values, encoding) = match needed(kind)? {
            0 => (PageKind::Data, first[1], first[2]),
            1 => (PageKind::Index, Some(0), Some(0)),
            2 => (PageKind::Dictionary, dictionary[1], dictionary[2]),
            3 => (PageKind::Data, second[1], second[4]),
            _ => return Err(malformed("a page is of no known kind")),
        };
        Ok(PageHeader {
            kind,
            unpacked: size(unpacked)?,
            packed: size(packed)?,
            values: size(values)?,
            encoding: needed(encoding)?,
        })
    }

    /// Reads the beginning of a footer, up to the end of its schema: a list of elements, each with the number of those within it.
    fn check_schema(&mut self) -> Result<()> {
        let mut last = 0;
        while let Some((id, kind)) = self.field(last)? {
            last = id;
            if id == SCHEMA_FIELD && kind == LIST {
                return self.check_elements();
            }
            self.skip(kind, 0)?;
        }
        Err(malformed("its footer has no schema"))
    }

    fn check_elements(&mut self) -> Result<()> {
        let first = self.byte()?;
        let count = if first >> 4 == 15 { self.varint()? } else { u64::from(first >> 4) };
        if count > MAX_SCHEMA_ELEMENTS {
            return Err(too_large("columns, lists and structs", MAX_SCHEMA_ELEMENTS));
        }
        // The elements that are to come, within each that is open.
        let mut open: Vec<u64> = Vec::new();
        for _ in 0..count {
            let [.., children] = self.fields()?;
            let children = u64::try_from(children.unwrap_or(0)).unwrap_or(0);
            if children > 0 {
                open.push(children);
            } else {
                while let Some(left) = open.last_mut() {
                    *left -= 1;
                    if *left > 0 {
                        break;
                    }
                    open.pop();
                }
            }
            if open.len() > MAX_SCHEMA_DEPTH {
                return Err(too_large("levels of lists and structs", MAX_SCHEMA_DEPTH as u64));
            }
        }
        Ok(())
    }

    /// Reads the fields of a header, and those of the structs 5 to 8 in it.
    fn header(&mut self) -> Result<(HeaderFields, [HeaderFields; 4])> {
        let (mut own, mut inner) = (HeaderFields::default(), [HeaderFields::default(); 4]);
        let mut last = 0;
        while let Some((id, kind)) = self.field(last)? {
            last = id;
            let of_kind = id.checked_sub(5).and_then(|place| inner.get_mut(usize::try_from(place).ok()?));
            match of_kind {
                Some(fields) if kind == STRUCT => *fields = self.fields()?,
                _ => self.keep(id, kind, &mut own, 0)?,
            }
        }
        Ok((own, inner))
    }

    fn fields(&mut self) -> Result<HeaderFields> {
        let (mut fields, mut last) = (HeaderFields::default(), 0);
        while let Some((id, kind)) = self.field(last)? {
            last = id;
            self.keep(id, kind, &mut fields, 1)?;
        }
        Ok(fields)
    }

    /// Reads a field's value, and keeps it if it is a wanted whole number.
    fn keep(&mut self, id: i16, kind: u8, fields: &mut HeaderFields, depth: u8) -> Result<()> {
        match usize::try_from(id).ok().and_then(|id| fields.get_mut(id)) {
            Some(field) if (4..=I64).contains(&kind) => *field = Some(self.int()?),
            _ => self.skip(kind, depth)?,
        }
        Ok(())
    }

    /// Returns the id and the type of the next field of a struct; `None` at its end. Ids rise, so that no field is there twice.
    fn field(&mut self, last: i16) -> Result<Option<(i16, u8)>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Ok(None);
        }
        let id = match i16::from(byte >> 4) {
            0 => i16::try_from(self.int()?).ok(),
            step => last.checked_add(step),
        };
        let id = id.filter(|id| *id > last).ok_or_else(|| malformed("the fields of a header are not in order"))?;
        Ok(Some((id, byte & 0x0f)))
    }

    fn skip(&mut self, kind: u8, depth: u8) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(malformed("a header is nested too deep"));
        }
        match kind {
            TRUE | FALSE => {}
            I8 => self.pass(1)?,
            4..=I64 => {
                self.varint()?;
            }
            DOUBLE => self.pass(8)?,
            BINARY => {
                let length = self.varint()?;
                self.pass(length)?;
            }
            STRUCT => {
                let mut last = 0;
                while let Some((id, kind)) = self.field(last)? {
                    last = id;
                    self.skip(kind, depth + 1)?;
                }
            }
            // A header has no lists, sets or maps.
            _ => return Err(malformed("a field of a header is of no known type")),
        }
        Ok(())
    }

    fn byte(&mut self) -> Result<u8> {
        let mut byte = [0];
        self.source.read_exact(&mut byte).map_err(|_| malformed("a header ends too early"))?;
        self.read += 1;
        let [byte] = byte;
        Ok(byte)
    }

    fn pass(&mut self, bytes: u64) -> Result<()> {
        let passed = std::io::copy(&mut self.source.by_ref().take(bytes), &mut std::io::sink()).unwrap_or(0);
        self.read = self.read.saturating_add(passed);
        if passed == bytes { Ok(()) } else { Err(malformed("a header ends too early")) }
    }

    fn varint(&mut self) -> Result<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(malformed("a number of a header does not end"))
    }

    fn int(&mut self) -> Result<i64> {
        let value = self.varint()?;
        Ok((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(bytes: &[u8]) -> Result<PageHeader> {
        HeaderReader { source: bytes.take(MAX_HEADER_BYTES), read: 0 }.page()
    }

    /// A data page of 3 values: 100 bytes, 50 packed, plain.
    const DATA: [u8; 18] =
        [0x15, 0x00, 0x15, 0xc8, 0x01, 0x15, 0x64, 0x2c, 0x15, 0x06, 0x15, 0x00, 0x15, 0x06, 0x15, 0x06, 0x00, 0x00];

    #[test]
    fn a_header_is_read() {
        let page = header(&DATA).expect("a header");
        assert_eq!((page.kind, page.unpacked, page.packed, page.values, page.encoding), (PageKind::Data, 100, 50, 3, 0));
    }

    #[test]
    fn headers_that_make_no_sense_are_refused() {
        let refusal = |bytes: &[u8]| header(bytes).map(|_| ()).expect_err("refused").to_string();
        let changed = |place: usize, byte: u8| {
            let mut bytes = DATA;
            bytes[place] = byte;
            refusal(&bytes)
        };
        insta::assert_snapshot!(refusal(&DATA[..9]), @"its pages cannot be read: a header ends too early");
        insta::assert_snapshot!(refusal(&[0]), @"its pages cannot be read: a header lacks a field");
        insta::assert_snapshot!(changed(1, 0x0a), @"its pages cannot be read: a page is of no known kind");
        insta::assert_snapshot!(changed(6, 0x63), @"its pages cannot be read: a page has less than no bytes");
        insta::assert_snapshot!(changed(0, 0x1d), @"its pages cannot be read: a field of a header is of no known type");
        insta::assert_snapshot!(refusal(&[0x15, 0, 0x05, 2, 0]), @"its pages cannot be read: the fields of a header are not in order");
        insta::assert_snapshot!(refusal(&[0x1c; 40]), @"its pages cannot be read: a header is nested too deep");
        insta::assert_snapshot!(refusal(&[0xff; 40]), @"its pages cannot be read: a field of a header is of no known type");
        insta::assert_snapshot!(refusal(&[[0x15].as_slice(), &[0x80; 20]].concat()), @"its pages cannot be read: a number of a header does not end");
    }

    #[test]
    fn a_batch_has_as_many_rows_as_their_texts_allow() {
        let rows = |of_column| PageSizes(vec![0, of_column]).batch_rows(8192);
        assert_eq!((rows(0), rows(1 << 10), rows(1 << 20), rows(u64::MAX)), (8192, 8192, 64, 1));
        assert_eq!(PageSizes(vec![1 << 30, 1 << 20]).batch_rows_for([1], 8192), 64, "of the columns that are read");
    }
}
