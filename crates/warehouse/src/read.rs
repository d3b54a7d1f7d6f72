//! Parquet files back into rows. The bytes may be hostile: every defect is an error.

use std::any::Any;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array as _, ArrayRef, RecordBatch};
use arrow_schema::Schema;
use assay_manifest::Instant;
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::ChunkReader;

use crate::pages::{PageError, check_footer, check_pages};
use crate::row::Value;
use crate::schema::{Column, ROW_ID, Table, Type};
use crate::write::MAX_ROW_GROUP_ROWS;
use crate::{Error, Result, Row};

/// The most rows that [`read`] returns at once; larger files are read with [`for_each_row`].
pub const MAX_READ_ROWS: u64 = 1_000_000;
/// The most rows that [`find`] returns: a shorter prefix is a mistake.
pub const MAX_FOUND_ROWS: u64 = 1_000;
/// The most rows of a file.
pub const MAX_FILE_ROWS: u64 = 10_000_000;
/// The most bytes to which a row group of a file may declare that it unpacks: ten times the size that the writer makes of the
/// widest table.
const MAX_UNPACKED_BYTES: u64 = 2 << 30;
/// The most bytes of rows that are kept, for every size of file.
const MAX_KEPT_BYTES: u64 = 4 << 30;
/// The bytes that the rows of a file may take, independent of its size, and in addition for each of its bytes. A row has an id of
/// its own, which packs to 32 bytes at the least, and takes 2 KiB in the widest table.
const FREE_BYTES: u64 = 64 << 20;
const BYTES_PER_BYTE: u64 = 256;
/// The most rows that are unpacked at a time.
const BATCH_ROWS: usize = 8 * 1024;

/// The source of a file's bytes.
#[derive(Debug)]
pub enum Source {
    /// In memory.
    Bytes(Bytes),
    /// In a file of the system.
    File(File),
}

impl Source {
    /// Returns its size in bytes; 0 if it is not known, so that its rows get the minimum.
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(file) => file.metadata().map_or(0, |found| found.len()),
        }
    }
}

impl From<Vec<u8>> for Source {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes.into())
    }
}

impl From<File> for Source {
    fn from(file: File) -> Self {
        Self::File(file)
    }
}

/// Returns all rows of a file of `table`, in the file's order. Every row is complete and its id is its own.
pub fn read(table: &'static Table, source: impl Into<Source>) -> Result<Vec<Row>> {
    collect(table, source.into(), MAX_READ_ROWS, "rows", |_| true)
}

/// Returns the rows whose ids begin with `prefix`, in the file's order.
pub fn find(table: &'static Table, source: impl Into<Source>, prefix: &str) -> Result<Vec<Row>> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if !(1..=64).contains(&prefix.len()) || !prefix.bytes().all(is_hex) {
        return Err(Error::BadPrefix(prefix.chars().take(80).collect()));
    }
    let matches = |row: &Row| row.text(ROW_ID).is_some_and(|id| id.starts_with(prefix));
    collect(table, source.into(), MAX_FOUND_ROWS, "matching rows", matches)
}

fn collect(
    table: &'static Table,
    source: Source,
    limit: u64,
    what: &'static str,
    keep: impl Fn(&Row) -> bool,
) -> Result<Vec<Row>> {
    let (mut rows, mut bytes) = (Vec::new(), 0);
    let room = source.len().saturating_mul(BYTES_PER_BYTE).saturating_add(FREE_BYTES).min(MAX_KEPT_BYTES);
    for_each_row(table, source, |row| {
        if !keep(&row) {
            return Ok(());
        }
        if rows.len() as u64 >= limit {
            return Err(Error::TooMany { table: table.name, what, limit });
        }
        bytes += row.bytes();
        if bytes > room {
            return Err(Error::TooMany { table: table.name, what: "bytes of rows", limit: room });
        }
        rows.push(row);
        Ok(())
    })?;
    Ok(rows)
}

/// Calls `visit` with every row of a file of `table`, in the file's order, holding one batch of them in memory.
///
/// Fails if the file is malformed, its columns are not the table's, or a row is not complete or has another row's id. Errors of
/// `visit` are passed on.
pub fn for_each_row(table: &'static Table, source: impl Into<Source>, mut visit: impl FnMut(Row) -> Result<()>) -> Result<()> {
    // The library promises errors for malformed files but has places that panic; a hostile file must not end the process.
    let walk = AssertUnwindSafe(|| match source.into() {
        Source::Bytes(bytes) => walk(table, bytes, &mut visit),
        Source::File(file) => walk(table, file, &mut visit),
    });
    catch_unwind(walk).unwrap_or_else(|panic| Err(malformed(table)(panic_text(&*panic).into())))
}

pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("the Parquet reader failed: {}", text.unwrap_or("no reason given"))
}

fn malformed(table: &'static Table) -> impl Fn(Box<dyn std::error::Error + Send + Sync>) -> Error {
    move |source| Error::Malformed { table: table.name, source }
}

fn unreadable(table: &'static Table, error: PageError) -> Error {
    match error {
        PageError::TooLarge { what, limit } => Error::TooMany { table: table.name, what, limit },
        error @ (PageError::Malformed(_) | PageError::NotParquet | PageError::Compression(_)) => malformed(table)(error.into()),
    }
}

fn walk<R: ChunkReader + 'static>(table: &'static Table, source: R, visit: &mut dyn FnMut(Row) -> Result<()>) -> Result<()> {
    let bad = malformed(table);
    // The schema is taken from Parquet's own: the Arrow schema that the writer also embeds would be one more thing to check.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    check_footer(&source).map_err(|error| unreadable(table, error))?;
    let metadata = ArrowReaderMetadata::load(&source, options).map_err(|error| bad(error.into()))?;
    let columns = check_schema(table, metadata.schema())?;
    check_size(table, metadata.metadata())?;
    let sizes = check_pages(&source, metadata.metadata()).map_err(|error| unreadable(table, error))?;
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(source, metadata);
    for batch in builder.with_batch_size(sizes.batch_rows(BATCH_ROWS)).build().map_err(|error| bad(error.into()))? {
        visit_rows(table, &columns, &batch.map_err(|error| bad(error.into()))?, visit)?;
    }
    Ok(())
}

/// Returns the columns of the table that a file has, in its order. A column that may be null, and is no part of a row's id, may
/// be missing: it may have been added to the table after the file was written, and is null in each of its rows.
fn check_schema(table: &'static Table, found: &Schema) -> Result<Vec<&'static Column>> {
    let wrong = |problem: String| Error::WrongSchema { table: table.name, problem };
    let mut fields = found.fields().iter().peekable();
    let mut columns = Vec::new();
    for column in table.columns() {
        let Some(field) = fields.next_if(|field| field.name() == column.name) else {
            if column.nullable && !column.key {
                continue;
            }
            return Err(wrong(match fields.peek() {
                Some(other) => {
                    let name: String = other.name().chars().take(80).collect();
                    format!("column `{name}` stands where `{}` should", column.name)
                }
                None => format!("column `{}` is missing", column.name),
            }));
        };
        columns.push(column);
        if *field.data_type() != column.kind.arrow() || field.is_nullable() != column.nullable {
            let null = if field.is_nullable() { "nullable" } else { "not null" };
            return Err(wrong(format!("column `{}` is {} and {null}", column.name, field.data_type())));
        }
    }
    match fields.next() {
        Some(field) => Err(wrong(format!("column `{}` is one too many", field.name().chars().take(80).collect::<String>()))),
        None => Ok(columns),
    }
}

fn check_size(table: &'static Table, metadata: &ParquetMetaData) -> Result<()> {
    let too_many = |what, limit| Err(Error::TooMany { table: table.name, what, limit });
    let mut rows = 0_u64;
    for group in metadata.row_groups() {
        let of_group = u64::try_from(group.num_rows()).unwrap_or(u64::MAX);
        if of_group > MAX_ROW_GROUP_ROWS as u64 {
            return too_many("rows in one row group", MAX_ROW_GROUP_ROWS as u64);
        }
        if u64::try_from(group.total_byte_size()).unwrap_or(u64::MAX) > MAX_UNPACKED_BYTES {
            return too_many("unpacked bytes in one row group", MAX_UNPACKED_BYTES);
        }
        rows = rows.saturating_add(of_group);
    }
    if rows > MAX_FILE_ROWS { too_many("rows", MAX_FILE_ROWS) } else { Ok(()) }
}

fn visit_rows(
    table: &'static Table,
    columns: &[&'static Column],
    batch: &RecordBatch,
    visit: &mut dyn FnMut(Row) -> Result<()>,
) -> Result<()> {
    // Looked up once for all rows: a file has thousands of rows of dozens of columns.
    let places: Vec<usize> = columns.iter().filter_map(|column| Some(table.column(column.name)?.0)).collect();
    for index in 0..batch.num_rows() {
        let mut row = Row::new(table);
        for ((place, column), array) in places.iter().zip(columns).zip(batch.columns()) {
            row.set_at(*place, column, value(column, array, index))?;
        }
        row.check()?;
        visit(row)?;
    }
    Ok(())
}

/// Returns a value of an array. The schema was checked, so an array of another type is impossible; it would read as null.
fn value(column: &Column, array: &ArrayRef, index: usize) -> Value {
    if array.is_null(index) {
        return Value::Null;
    }
    match column.kind {
        Type::Bool => array.as_boolean_opt().map(|array| array.value(index)).into(),
        Type::Int => array.as_primitive_opt::<Int64Type>().map(|array| array.value(index)).into(),
        Type::Float => array.as_primitive_opt::<Float64Type>().map(|array| array.value(index)).into(),
        Type::Text => array.as_string_opt::<i32>().map(|array| array.value(index)).into(),
        Type::Instant => array.as_primitive_opt::<Int64Type>().map(|array| Instant::from_unix_ns(array.value(index))).into(),
    }
}
