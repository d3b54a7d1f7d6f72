//! Rows into a Parquet file, a batch at a time.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use assay_manifest::{Digest, Hasher, Instant};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};

use crate::row::Value;
use crate::schema::{Column, Table, Type, arrow_schema};
use crate::{Error, Result, Row};

/// The most rows of one row group, and so the most that a writer holds in memory: about 100 MiB of the widest table.
pub const MAX_ROW_GROUP_ROWS: usize = 128 * 1024;
/// The number of rows that become Arrow arrays at a time.
const BATCH_ROWS: usize = 8 * 1024;
/// The creator of the file, named inside it. Without a version: equal rows are to give equal bytes, and the Summary names the
/// program.
pub(crate) const CREATED_BY: &str = "assay";
/// The level of the compression: the library's own default, fixed here so that it cannot change.
const ZSTD_LEVEL: i32 = 3;

/// The size and digest of a written file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenFile {
    /// The number of rows.
    pub rows: u64,
    /// The number of bytes.
    pub bytes: u64,
    /// The digest of the bytes.
    pub digest: Digest,
}

/// Writes rows of `table` to `out`, in the order given.
///
/// Every row must be sealed ([`Row::seal`]). The bytes depend on the rows and their order alone. The caller ensures that no two
/// rows have the same id.
pub fn write(table: &'static Table, rows: impl IntoIterator<Item = Row>, out: impl Write + Send) -> Result<WrittenFile> {
    let mut out = HashingWriter::new(out);
    let failed = |source: parquet::errors::ParquetError| Error::Write { table: table.name, source: Box::new(source) };
    let mut writer = ArrowWriter::try_new(&mut out, arrow_schema(table), Some(properties(table)?)).map_err(failed)?;
    let mut rows = rows.into_iter();
    let mut total = 0;
    loop {
        let batch: Vec<Row> = rows.by_ref().take(BATCH_ROWS).collect();
        if batch.is_empty() {
            break;
        }
        total += batch.len() as u64;
        writer.write(&record_batch(table, &batch)?).map_err(failed)?;
    }
    writer.close().map_err(failed)?;
    Ok(out.finish(total))
}

/// Sets every property that shapes the bytes, so that a new default of the library changes nothing unnoticed.
fn properties(table: &'static Table) -> Result<WriterProperties> {
    let level = ZstdLevel::try_new(ZSTD_LEVEL).map_err(|source| Error::Write { table: table.name, source: Box::new(source) })?;
    let properties = WriterProperties::builder()
        .set_created_by(CREATED_BY.to_owned())
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::ZSTD(level))
        .set_dictionary_enabled(true)
        .set_dictionary_page_size_limit(1024 * 1024)
        .set_data_page_size_limit(1024 * 1024)
        .set_data_page_row_count_limit(20_000)
        .set_write_batch_size(1024)
        .set_max_row_group_row_count(Some(MAX_ROW_GROUP_ROWS))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_statistics_truncate_length(Some(64))
        .set_column_index_truncate_length(Some(64))
        .set_bloom_filter_enabled(false);
    Ok(properties.build())
}

fn record_batch(table: &'static Table, rows: &[Row]) -> Result<RecordBatch> {
    for row in rows {
        if row.table() != table {
            return Err(Error::WrongTable { expected: table.name, found: row.table().name });
        }
        row.check()?;
    }
    let arrays = table.columns().enumerate().map(|(index, column)| array(column, index, rows)).collect();
    RecordBatch::try_new(arrow_schema(table), arrays)
        .map_err(|source| Error::Write { table: table.name, source: Box::new(source) })
}

/// Returns one column of the batch. Types were checked when the values were set; a value of another type, refused there, would be
/// null here.
fn array(column: &Column, index: usize, rows: &[Row]) -> ArrayRef {
    let values = rows.iter().map(|row| row.value_at(index));
    match column.kind {
        Type::Bool => Arc::new(values.map(as_bool).collect::<BooleanArray>()),
        Type::Int => Arc::new(values.map(as_int).collect::<Int64Array>()),
        Type::Float => Arc::new(values.map(as_float).collect::<Float64Array>()),
        Type::Text => Arc::new(values.map(as_text).collect::<StringArray>()),
        Type::Instant => Arc::new(values.map(as_unix_ns).collect::<Int64Array>()),
    }
}

fn as_bool(value: &Value) -> Option<bool> {
    if let Value::Bool(value) = value { Some(*value) } else { None }
}

fn as_int(value: &Value) -> Option<i64> {
    if let Value::Int(value) = value { Some(*value) } else { None }
}

fn as_float(value: &Value) -> Option<f64> {
    if let Value::Float(value) = value { Some(*value) } else { None }
}

fn as_text(value: &Value) -> Option<&str> {
    if let Value::Text(value) = value { Some(value) } else { None }
}

fn as_unix_ns(value: &Value) -> Option<i64> {
    if let Value::Instant(value) = value { Some(Instant::unix_ns(*value)) } else { None }
}

/// Hashes and counts the bytes that are written through it.
pub(crate) struct HashingWriter<W> {
    out: W,
    hasher: Hasher,
    bytes: u64,
}

impl<W: Write> HashingWriter<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, hasher: Hasher::new(), bytes: 0 }
    }

    /// Returns the size and digest of the written bytes, with this number of rows.
    pub(crate) fn finish(&mut self, rows: u64) -> WrittenFile {
        WrittenFile { rows, bytes: self.bytes, digest: std::mem::take(&mut self.hasher).finish() }
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.hasher.update(bytes.get(..written).unwrap_or(bytes));
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
