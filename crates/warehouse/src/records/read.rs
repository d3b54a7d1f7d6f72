//! Files of records back into rows, or into batches of a few columns. The bytes may be hostile: every defect is an error.

use std::fs::File;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::str::FromStr;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array as _, ArrayRef, Int64Array, ListArray, RecordBatch, StringArray};
use arrow_buffer::NullBuffer;
use arrow_schema::Schema;
use assay_record::{Chunk, Record, UnknownWord};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};

use super::column::{RecordColumn, RecordKind};
use super::positioned::PositionedFile;
use super::{MAX_CHUNKS, MAX_ERROR_BYTES, MAX_FINISH_REASON_BYTES, ROW_GROUP_CHUNKS, ROW_GROUP_ROWS, RecordError, Result};
use crate::Source;
use crate::pages::{PageError, PageSizes, check_footer, check_pages};
use crate::read::panic_text;

/// The number of rows of a batch without lists.
const BATCH_ROWS: usize = 32 * 1024;
/// The number of chunks that a batch with lists should have, if records have as many as their neighbours.
const BATCH_CHUNKS: u64 = 512 * 1024;
/// The most chunks that a row group may declare: the writer's bound, and one record beyond it, and a null for each row.
const MAX_GROUP_VALUES: u64 = (ROW_GROUP_CHUNKS + 2 * MAX_CHUNKS + ROW_GROUP_ROWS) as u64;
/// The most bytes to which a row group may declare that it unpacks.
const MAX_GROUP_BYTES: u64 = 1 << 30;
/// The most row groups of a file: ten thousand million records.
const MAX_GROUPS: u64 = 1 << 17;

/// A checked file of records. Several threads may read it at once.
#[derive(Clone, Debug)]
pub struct RecordFile {
    source: PositionedFile,
    metadata: ArrowReaderMetadata,
    rows: u64,
    sizes: PageSizes,
}

impl RecordFile {
    /// Opens a file and reads its footer. Fails if it is no file of records or declares that it holds more than allowed.
    pub fn open(source: impl Into<Source>) -> Result<Self> {
        let source = match source.into() {
            Source::Bytes(bytes) => PositionedFile::Bytes(bytes),
            Source::File(file) => positioned(file)?,
        };
        catch_panic(|| Self::check(source))
    }

    fn check(source: PositionedFile) -> Result<Self> {
        // The schema is taken from Parquet's own: one that a writer may embed would be one more thing to check.
        let plain = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        check_footer(&source).map_err(unreadable)?;
        let metadata = ArrowReaderMetadata::load(&source, plain).map_err(malformed)?;
        check_schema(metadata.schema())?;
        let rows = check_size(metadata.metadata())?;
        let sizes = check_pages(&source, metadata.metadata()).map_err(unreadable)?;
        let fields: Vec<_> = RecordColumn::ALL.iter().map(|column| column.read_field()).collect();
        let typed = ArrowReaderOptions::new().with_schema(Arc::new(Schema::new(fields)));
        let metadata = ArrowReaderMetadata::try_new(metadata.metadata().clone(), typed).map_err(malformed)?;
        Ok(Self { source, metadata, rows, sizes })
    }

    /// Returns the number of its records.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the number of its row groups; each can be read on its own.
    pub fn row_groups(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    /// Returns the number of records in the row groups. Groups that are not there have none.
    pub fn rows_in(&self, groups: Range<usize>) -> u64 {
        let all = self.metadata.metadata().row_groups();
        all.get(groups).unwrap_or_default().iter().map(|group| u64::try_from(group.num_rows()).unwrap_or(0)).sum()
    }

    /// Returns true if a record of these row groups may have several token events in its list: if its column holds more values
    /// than rows (an empty list counts as one).
    pub fn has_gaps(&self, groups: Range<usize>) -> bool {
        let all = self.metadata.metadata().row_groups().get(groups).unwrap_or_default();
        let is_at = |column: &&ColumnChunkMetaData| {
            column.column_path().parts().first().is_some_and(|name| name == RecordColumn::ChunkAt.name())
        };
        all.iter().any(|group| group.columns().iter().filter(is_at).any(|column| column.num_values() > group.num_rows()))
    }

    /// Returns the records one by one, in the file's order.
    pub fn records(&self) -> Result<Records> {
        let batches = self.batches(RecordColumn::ALL, 0..self.row_groups())?;
        Ok(Records { batches, current: Vec::new().into_iter() })
    }

    /// Checks the counts of which no statistic is made, and which are read by no other check: none is negative.
    pub fn check_counts(&self) -> Result<()> {
        const NUMBERS: [RecordColumn; 4] = [
            RecordColumn::RequestBytes,
            RecordColumn::ResponseBytes,
            RecordColumn::ReasoningTokens,
            RecordColumn::AcceptedPredictionTokens,
        ];
        for batch in self.batches(&NUMBERS, 0..self.row_groups())? {
            let batch = batch?;
            NUMBERS.iter().try_for_each(|column| batch.check_numbers(*column))?;
        }
        for batch in self.batches(&[RecordColumn::ChunkBytes], 0..self.row_groups())? {
            let batch = batch?;
            let (lists, bytes) = batch.lists(RecordColumn::ChunkBytes)?;
            batch.check_chunk_numbers(RecordColumn::ChunkBytes, lists, bytes)?;
        }
        Ok(())
    }

    /// Returns some columns of some row groups, a batch at a time, in the file's order.
    pub fn batches(&self, columns: &[RecordColumn], groups: Range<usize>) -> Result<Batches> {
        let end = groups.end.min(self.row_groups());
        let groups: Vec<usize> = (groups.start.min(end)..end).collect();
        let mut columns = columns.to_vec();
        columns.sort_unstable();
        columns.dedup();
        let first = groups.first().and_then(|first| self.metadata.metadata().row_groups().get(..*first)).unwrap_or_default();
        let before = first.iter().map(|group| u64::try_from(group.num_rows()).unwrap_or(0)).sum();
        let rows = if columns.iter().any(|column| column.kind() == RecordKind::Ints) { self.list_rows() } else { BATCH_ROWS };
        let rows = self.sizes.batch_rows_for(columns.iter().map(|column| *column as usize), rows);
        let reader = catch_panic(|| self.reader(&columns, groups, rows))?;
        Ok(Batches { reader: Some(reader), columns: columns.into(), before })
    }

    fn reader(&self, columns: &[RecordColumn], groups: Vec<usize>, rows: usize) -> Result<ParquetRecordBatchReader> {
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(self.source.clone(), self.metadata.clone());
        let mask = ProjectionMask::roots(builder.parquet_schema(), columns.iter().map(|column| *column as usize));
        builder.with_projection(mask).with_row_groups(groups).with_batch_size(rows).build().map_err(malformed)
    }

    /// Returns the number of rows with some [`BATCH_CHUNKS`] chunks, by the average of the row group that has the most chunks a
    /// row.
    fn list_rows(&self) -> usize {
        let per_row = |group: &RowGroupMetaData| {
            let values = group.columns().iter().map(|column| u64::try_from(column.num_values()).unwrap_or(0)).max().unwrap_or(0);
            values.div_ceil(u64::try_from(group.num_rows()).unwrap_or(0).max(1)).max(1)
        };
        let most = self.metadata.metadata().row_groups().iter().map(per_row).max().unwrap_or(1);
        usize::try_from(BATCH_CHUNKS / most).unwrap_or(1).clamp(1, BATCH_ROWS)
    }
}

fn positioned(file: File) -> Result<PositionedFile> {
    let length = file.metadata().map_err(|error| RecordError::Malformed(error.into()))?.len();
    Ok(PositionedFile::File(Arc::new(file), length))
}

fn unreadable(error: PageError) -> RecordError {
    match error {
        PageError::TooLarge { what, limit } => RecordError::TooMany { what, limit },
        error @ (PageError::Malformed(_) | PageError::NotParquet | PageError::Compression(_)) => {
            RecordError::Malformed(error.into())
        }
    }
}

fn malformed(error: parquet::errors::ParquetError) -> RecordError {
    RecordError::Malformed(error.into())
}

/// Turns a panic into an error: the library promises errors for malformed files but has places that panic, and a hostile file
/// must not end the process.
fn catch_panic<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| Err(RecordError::Malformed(panic_text(&*panic).into())))
}

fn check_schema(found: &Schema) -> Result<()> {
    let wrong = |problem: String| RecordError::WrongSchema(problem);
    let mut fields = found.fields().iter();
    for column in RecordColumn::ALL {
        let field = fields.next().ok_or_else(|| wrong(format!("column `{}` is missing", column.name())))?;
        let expected = column.field();
        if field.name() != expected.name() {
            let name: String = field.name().chars().take(80).collect();
            return Err(wrong(format!("column `{name}` stands where `{}` should", column.name())));
        }
        if field.data_type() != expected.data_type() || field.is_nullable() != expected.is_nullable() {
            return Err(wrong(format!("column `{}` is not of its type", column.name())));
        }
    }
    match fields.next() {
        Some(field) => Err(wrong(format!("column `{}` is one too many", field.name().chars().take(80).collect::<String>()))),
        None => Ok(()),
    }
}

/// Returns the number of rows, if the file declares no more than allowed.
fn check_size(metadata: &ParquetMetaData) -> Result<u64> {
    let too_many = |what, limit| Err(RecordError::TooMany { what, limit });
    let mut rows = 0;
    if metadata.num_row_groups() as u64 > MAX_GROUPS {
        return too_many("row groups", MAX_GROUPS);
    }
    for group in metadata.row_groups() {
        let of_group = u64::try_from(group.num_rows()).unwrap_or(u64::MAX);
        if of_group > ROW_GROUP_ROWS as u64 {
            return too_many("rows in one row group", ROW_GROUP_ROWS as u64);
        }
        if u64::try_from(group.total_byte_size()).unwrap_or(u64::MAX) > MAX_GROUP_BYTES {
            return too_many("unpacked bytes in one row group", MAX_GROUP_BYTES);
        }
        let values = group.columns().iter().map(|column| u64::try_from(column.num_values()).unwrap_or(u64::MAX)).max();
        if values.unwrap_or(0) > MAX_GROUP_VALUES {
            return too_many("chunks in one row group", MAX_GROUP_VALUES);
        }
        rows += of_group;
    }
    if metadata.file_metadata().num_rows() != i64::try_from(rows).unwrap_or(-1) {
        return Err(RecordError::Malformed("its row groups do not have as many rows as it says".into()));
    }
    Ok(rows)
}

/// Batches of some columns. After an error there are no more.
pub struct Batches {
    reader: Option<ParquetRecordBatchReader>,
    columns: Arc<[RecordColumn]>,
    before: u64,
}

impl Iterator for Batches {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        let reader = self.reader.as_mut()?;
        let read = catch_panic(|| reader.next().transpose().map_err(|error| RecordError::Malformed(error.into())));
        match read {
            Ok(Some(arrays)) => {
                let batch = Batch { columns: self.columns.clone(), arrays, before: self.before };
                self.before += batch.rows() as u64;
                Some(Ok(batch))
            }
            Ok(None) => None,
            Err(error) => {
                self.reader = None;
                Some(Err(error))
            }
        }
    }
}

/// Some columns of some consecutive rows.
pub struct Batch {
    columns: Arc<[RecordColumn]>,
    arrays: RecordBatch,
    before: u64,
}

/// A column of whole numbers.
#[derive(Clone, Copy, Debug)]
pub struct Ints<'a> {
    values: &'a [i64],
    /// Absent if no number is missing.
    nulls: Option<&'a NullBuffer>,
}

impl<'a> Ints<'a> {
    fn new(array: &'a Int64Array) -> Self {
        Self { values: array.values(), nulls: array.nulls().filter(|nulls| nulls.null_count() > 0) }
    }

    /// Returns the number in a row of the batch, if there is one.
    // Called for each value that is read: across crates only what is marked so is put in place.
    #[inline]
    pub fn get(self, row: usize) -> Option<i64> {
        self.values.get(row).copied().filter(|_| self.nulls.is_none_or(|nulls| nulls.is_valid(row)))
    }

    /// Returns all numbers, if none is missing.
    pub fn complete(self) -> Option<&'a [i64]> {
        self.nulls.is_none().then_some(self.values)
    }
}

/// The token events of the rows of a batch.
#[derive(Clone, Copy, Debug)]
pub struct ChunkLists<'a> {
    at: &'a ListArray,
    at_values: &'a [i64],
    tokens: &'a ListArray,
    token_values: &'a Int64Array,
}

impl<'a> ChunkLists<'a> {
    /// Returns the times of the token events of a row, in nanoseconds; empty if its list was not kept.
    pub fn at(&self, row: usize) -> &'a [i64] {
        self.at_values.get(range(self.at, row)).unwrap_or_default()
    }

    /// Returns the number of tokens of an event of a row, by its place in the list; `None` if the endpoint does not state it.
    pub fn tokens(&self, row: usize) -> impl Fn(usize) -> Option<i64> + use<'a> {
        let (range, values) = (range(self.tokens, row), self.token_values);
        move |place| Ints::new(values).get(range.start.checked_add(place).filter(|at| *at < range.end)?)
    }
}

/// Returns the range of the items of a row; empty for a null and for a row that is not there.
fn range(lists: &ListArray, row: usize) -> Range<usize> {
    let ends = (lists.value_offsets().get(row), lists.value_offsets().get(row + 1));
    match ends {
        (Some(start), Some(end)) if lists.is_valid(row) => *start as usize..*end as usize,
        _ => 0..0,
    }
}

impl Batch {
    /// Returns the number of its rows.
    pub fn rows(&self) -> usize {
        self.arrays.num_rows()
    }

    /// Returns the place of its first row in the file, from 0.
    pub fn first_row(&self) -> u64 {
        self.before
    }

    fn array(&self, column: RecordColumn) -> Result<&ArrayRef> {
        let place = self.columns.iter().position(|known| *known == column);
        let array = place.and_then(|place| self.arrays.columns().get(place));
        array.ok_or(RecordError::NotRead(column.name()))
    }

    /// Returns a column of whole numbers.
    pub fn ints(&self, column: RecordColumn) -> Result<Ints<'_>> {
        let array = self.array(column)?.as_primitive_opt::<Int64Type>();
        array.map(Ints::new).ok_or(RecordError::NotRead(column.name()))
    }

    /// Returns a column of words. Fails for a word that is not in the list.
    pub fn words<W: FromStr<Err = UnknownWord> + Copy>(&self, column: RecordColumn) -> Result<Vec<W>> {
        let missing = || RecordError::NotRead(column.name());
        let array = self.array(column)?.as_dictionary_opt::<Int32Type>().ok_or_else(missing)?;
        let known = array.values().as_string_opt::<i32>().ok_or_else(missing)?;
        // Only words that occur are checked: a dictionary may hold others.
        let known: Vec<Result<W, UnknownWord>> = known.iter().map(|word| word.unwrap_or_default().parse()).collect();
        let nothing = || RecordError::Malformed("a word is missing".into());
        let keys = array.keys().values().iter().zip(self.before..);
        keys.map(|(key, index)| match known.get(*key as usize) {
            Some(Ok(word)) => Ok(*word),
            Some(Err(source)) => Err(RecordError::Word { index, source: source.clone() }),
            None => Err(nothing()),
        })
        .collect()
    }

    /// Returns the requests' ids. Needs the column [`RecordColumn::RequestId`]. Fails for a value that is no id.
    pub fn request_ids(&self) -> Result<Vec<u128>> {
        (0..self.rows()).map(|row| Cell { batch: self, row }.request_id()).collect()
    }

    /// Returns the finish reason in a row of the batch, if it has one. Needs the column [`RecordColumn::FinishReason`]. Fails for a text
    /// that is too long.
    pub fn finish_reason(&self, row: usize) -> Result<Option<&str>> {
        Cell { batch: self, row }.text(RecordColumn::FinishReason, MAX_FINISH_REASON_BYTES)
    }

    /// Checks that no number of a column is negative.
    fn check_numbers(&self, column: RecordColumn) -> Result<()> {
        let numbers = self.ints(column)?;
        match (0..self.rows()).find(|row| numbers.get(*row).is_some_and(|number| number < 0)) {
            Some(row) => Err(Cell { batch: self, row }.wrong(column, "the number is negative")),
            None => Ok(()),
        }
    }

    /// Checks that the numbers in lists of token events fit those of [`Chunk`].
    fn check_chunk_numbers(&self, column: RecordColumn, lists: &ListArray, values: &Int64Array) -> Result<()> {
        let fits = |value: i64| u32::try_from(value).is_ok();
        // Of all lists at once, because there are many: a value that is absent may hold any number, and is looked at again.
        if values.values().iter().all(|value| fits(*value)) {
            return Ok(());
        }
        let values = Ints::new(values);
        let is_wrong = |row: &usize| range(lists, *row).any(|place| values.get(place).is_some_and(|value| !fits(value)));
        match (0..self.rows()).find(is_wrong) {
            Some(row) => Err(Cell { batch: self, row }.wrong(column, "the number does not fit")),
            None => Ok(()),
        }
    }

    /// Returns the error of the request in a row of the batch, if it has one. Needs the column [`RecordColumn::Error`]. Fails for a
    /// text that is too long.
    pub fn error(&self, row: usize) -> Result<Option<&str>> {
        if row < self.rows() { Cell { batch: self, row }.text(RecordColumn::Error, MAX_ERROR_BYTES) } else { Ok(None) }
    }

    fn texts(&self, column: RecordColumn) -> Result<&StringArray> {
        self.array(column)?.as_string_opt::<i32>().ok_or(RecordError::NotRead(column.name()))
    }

    fn lists(&self, column: RecordColumn) -> Result<(&ListArray, &Int64Array)> {
        let missing = || RecordError::NotRead(column.name());
        let lists = self.array(column)?.as_list_opt::<i32>().ok_or_else(missing)?;
        Ok((lists, lists.values().as_primitive_opt::<Int64Type>().ok_or_else(missing)?))
    }

    /// Returns the times and token counts of token events. Needs the columns [`RecordColumn::ChunkAt`] and
    /// [`RecordColumn::ChunkTokens`]. Fails if a record's two lists differ in length or are too long, or if a number of tokens does not fit.
    pub fn chunk_lists(&self) -> Result<ChunkLists<'_>> {
        let (at, at_values) = self.lists(RecordColumn::ChunkAt)?;
        let (tokens, token_values) = self.lists(RecordColumn::ChunkTokens)?;
        for (row, index) in (0..self.rows()).zip(self.before..) {
            let (length, of_tokens) = (range(at, row).len(), range(tokens, row).len());
            check_list(RecordColumn::ChunkAt, index, length, length)?;
            check_list(RecordColumn::ChunkTokens, index, if tokens.is_valid(row) { of_tokens } else { length }, length)?;
        }
        self.check_chunk_numbers(RecordColumn::ChunkTokens, tokens, token_values)?;
        Ok(ChunkLists { at, at_values: &at_values.values()[..], tokens, token_values })
    }
}

fn check_list(column: RecordColumn, index: u64, found: usize, expected: usize) -> Result<()> {
    if found > MAX_CHUNKS {
        return Err(RecordError::TooManyChunks { index, found });
    }
    let problem = "its list of token events is not as long as the others";
    if found == expected { Ok(()) } else { Err(RecordError::Value { column: column.name(), index, problem }) }
}

/// The records of a file, one by one. After an error there are no more.
pub struct Records {
    batches: Batches,
    current: std::vec::IntoIter<Record>,
}

impl Iterator for Records {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.current.next() {
                return Some(Ok(record));
            }
            let records = self.batches.next()?.and_then(|batch| catch_panic(|| records(&batch)));
            match records {
                Ok(records) => self.current = records.into_iter(),
                Err(error) => {
                    self.batches.reader = None;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// A value of one row, with the names that its error needs.
struct Cell<'a> {
    batch: &'a Batch,
    row: usize,
}

impl<'a> Cell<'a> {
    fn wrong(&self, column: RecordColumn, problem: &'static str) -> RecordError {
        RecordError::Value { column: column.name(), index: self.batch.before + self.row as u64, problem }
    }

    fn int(&self, column: RecordColumn) -> Result<Option<i64>> {
        Ok(self.batch.ints(column)?.get(self.row))
    }

    fn number<N: TryFrom<i64>>(&self, column: RecordColumn) -> Result<Option<N>> {
        let fit = |value: i64| N::try_from(value).map_err(|_| self.wrong(column, "the number does not fit"));
        self.int(column)?.map(fit).transpose()
    }

    fn required<N: TryFrom<i64>>(&self, column: RecordColumn) -> Result<N> {
        self.number(column)?.ok_or_else(|| self.wrong(column, "it is missing"))
    }

    fn text(&self, column: RecordColumn, limit: usize) -> Result<Option<&'a str>> {
        let array = self.batch.texts(column)?;
        let text = array.is_valid(self.row).then(|| array.value(self.row));
        match text {
            Some(text) if text.len() > limit => Err(self.wrong(column, "the text is too long")),
            text => Ok(text),
        }
    }

    fn digest(&self, column: RecordColumn) -> Result<Option<[u8; 32]>> {
        let parse = |text: &str| bytes_of(text).ok_or_else(|| self.wrong(column, "it is not 64 hexadecimal digits"));
        self.text(column, 64)?.map(parse).transpose()
    }

    fn request_id(&self) -> Result<u128> {
        let text = self.text(RecordColumn::RequestId, 32)?.unwrap_or_default();
        let bytes = bytes_of(text).map(u128::from_be_bytes);
        bytes.ok_or_else(|| self.wrong(RecordColumn::RequestId, "it is not 32 hexadecimal digits"))
    }

    fn chunks(&self, lists: &ChunkLists<'_>, bytes: (&ListArray, &Int64Array)) -> Result<Vec<Chunk>> {
        let (at, tokens) = (lists.at(self.row), lists.tokens(self.row));
        let range = range(bytes.0, self.row);
        check_list(RecordColumn::ChunkBytes, self.batch.before + self.row as u64, range.len(), at.len())?;
        let small = |column, value: Option<i64>| {
            value.map(|value| u32::try_from(value).map_err(|_| self.wrong(column, "the number does not fit"))).transpose()
        };
        let chunk = |(place, (at_ns, byte_place)): (usize, (&i64, usize))| {
            Ok(Chunk {
                at_ns: *at_ns,
                bytes: small(RecordColumn::ChunkBytes, Ints::new(bytes.1).get(byte_place))?.unwrap_or_default(),
                tokens: small(RecordColumn::ChunkTokens, tokens(place))?,
            })
        };
        at.iter().zip(range).enumerate().map(chunk).collect()
    }
}

fn bytes_of<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| char::from(byte).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = (digit(*high)? * 16 + digit(*low)?) as u8;
    }
    Some(bytes)
}

fn records(batch: &Batch) -> Result<Vec<Record>> {
    use RecordColumn as C;
    let phases = batch.words(C::Phase)?;
    let outcomes = batch.words(C::Outcome)?;
    let sources = batch.words(C::OutputSource)?;
    let faults = batch.words(C::UsageFault)?;
    let (lists, bytes) = (batch.chunk_lists()?, batch.lists(C::ChunkBytes)?);
    let words = phases.into_iter().zip(outcomes).zip(sources.into_iter().zip(faults)).enumerate();
    let record = |(row, ((phase, outcome), (output_source, usage_fault)))| {
        let cell = Cell { batch, row };
        Ok(Record {
            global_index: cell.required(C::GlobalIndex)?,
            session: cell.number(C::Session)?,
            turn: cell.number(C::Turn)?,
            stream: cell.number(C::Stream)?,
            session_turns: cell.number(C::SessionTurns)?,
            session_done: cell.number(C::SessionDone)?,
            session_start_ns: cell.int(C::SessionStart)?,
            session_pauses_ns: cell.int(C::SessionPauses)?,
            planned_ns: cell.int(C::Planned)?,
            phase,
            request_id: cell.request_id()?,
            intended_ns: cell.int(C::Intended)?,
            ready_ns: cell.int(C::Ready)?,
            dequeued_ns: cell.int(C::Dequeued)?,
            connect_start_ns: cell.int(C::ConnectStart)?,
            connect_end_ns: cell.int(C::ConnectEnd)?,
            sent_ns: cell.int(C::Sent)?,
            write_done_ns: cell.int(C::WriteDone)?,
            first_byte_ns: cell.int(C::FirstByte)?,
            first_token_ns: cell.int(C::FirstToken)?,
            first_content_ns: cell.int(C::FirstContent)?,
            last_token_ns: cell.int(C::LastToken)?,
            end_ns: cell.int(C::End)?,
            outcome,
            http_status: cell.number(C::HttpStatus)?,
            finish_reason: cell.text(C::FinishReason, MAX_FINISH_REASON_BYTES)?.map(str::to_owned),
            error: cell.text(C::Error, MAX_ERROR_BYTES)?.map(str::to_owned),
            request_bytes: cell.required(C::RequestBytes)?,
            response_bytes: cell.required(C::ResponseBytes)?,
            input_tokens_requested: cell.number(C::InputTokensRequested)?,
            input_tokens: cell.required(C::InputTokens)?,
            input_tokens_endpoint: cell.number(C::InputTokensEndpoint)?,
            cached_tokens: cell.number(C::CachedTokens)?,
            output_tokens_requested: cell.number(C::OutputTokensRequested)?,
            output_tokens: cell.number(C::OutputTokens)?,
            output_source,
            output_tokens_claimed: cell.int(C::OutputTokensClaimed)?,
            usage_fault,
            reasoning_tokens: cell.number(C::ReasoningTokens)?,
            accepted_prediction_tokens: cell.number(C::AcceptedPredictionTokens)?,
            first_event_tokens: cell.number(C::FirstEventTokens)?,
            token_events: cell.required(C::TokenEvents)?,
            prompt_sha256: cell.digest(C::PromptSha256)?,
            response_sha256: cell.digest(C::ResponseSha256)?,
            chunks: cell.chunks(&lists, bytes)?,
        })
    };
    words.map(record).collect()
}
