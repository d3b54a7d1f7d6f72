//! Parquet files of other writers: their rows as JSON objects of the columns that are wanted.
//!
//! The bytes are hostile. The footer and the headers of all wanted pages are checked before any page is unpacked, texts are views of the pages that
//! they are in, so that what a dictionary repeats takes no memory, and each batch of a few rows may unpack so many pages and no more.

mod batches;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Fields, Schema};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::ChunkReader;
use serde_json::{Map, Value};

use crate::Source;
use crate::pages::{PageError, check_footer, check_viewed_pages};
use crate::read::panic_text;
use batches::Batches;

/// The most columns of a file.
const MAX_COLUMNS: usize = 10_000;

/// The most values that the wanted columns have in a row, the members of structs each counted once.
const MAX_WANTED: usize = 256;
/// The most rows of a file: ten times those of any dataset.
const MAX_ROWS: u64 = 100_000_000;

/// The names of other columns that each row has, without a value: an error can list them.
const LISTED: usize = 8;

/// The characters of a name that an error quotes.
const QUOTED: usize = 80;

/// The limits of one row.
#[derive(Clone, Copy, Debug)]
pub struct ObjectLimits {
    /// The most bytes of its texts.
    pub bytes: usize,
    /// The most values, those within others included.
    pub values: usize,
}

/// The reason why rows cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The file is not Parquet, or is damaged.
    #[error("the file is not a Parquet file that can be read")]
    Malformed(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The wanted columns are compressed by a method that this reader does not unpack.
    #[error("the file is compressed by {0}: pages that are not compressed, or are by SNAPPY or ZSTD, can be read")]
    Compression(String),
    /// The file would need more memory than is allowed.
    #[error("the file unpacks to more than {limit} {what}")]
    TooLarge {
        /// The quantity that is too large.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The file has more columns than any dataset.
    #[error("the file has {0} columns, more than {MAX_COLUMNS}")]
    TooManyColumns(usize),
    /// The wanted columns have structs with more members than any dataset.
    #[error("the columns that are read have {0} members, more than {MAX_WANTED}")]
    TooManyMembers(usize),
    /// Two columns have one name.
    #[error("the column `{0}` is there twice")]
    Twice(String),
    /// A column holds what JSON has no form for.
    #[error("the column `{column}` is of the type {kind}: texts, numbers, booleans, and lists and structs of them can be read")]
    Type {
        /// The column.
        column: String,
        /// Its type.
        kind: String,
    },
    /// A row is larger than its limits.
    #[error("row {row} has more than {limit} {what}")]
    Row {
        /// The row, from 1.
        row: u64,
        /// The quantity that is too large.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A text of a row is not UTF-8.
    #[error("row {0} has a text that is not UTF-8")]
    NotUtf8(u64),
}

impl From<PageError> for ObjectError {
    fn from(error: PageError) -> Self {
        match error {
            PageError::TooLarge { what, limit } => Self::TooLarge { what, limit },
            PageError::Compression(method) => Self::Compression(method),
            error @ (PageError::Malformed(_) | PageError::NotParquet) => malformed(error),
        }
    }
}

/// Passes each row to `visit` as an object, with its number from 1: the columns of the `wanted` names, and the names of some others without
/// a value. Members of structs that are null, or of a type that JSON has no form for, are left out. Ends with the first error of either side.
pub fn for_each_object<E: From<ObjectError>>(
    source: impl Into<Source>,
    wanted: &[&str],
    limits: ObjectLimits,
    visit: &mut dyn FnMut(u64, Map<String, Value>) -> Result<(), E>,
) -> Result<(), E> {
    // The library promises errors for malformed files, but has places that panic.
    let walk = AssertUnwindSafe(|| match source.into() {
        Source::Bytes(bytes) => walk(bytes, wanted, limits, visit),
        Source::File(file) => walk(file, wanted, limits, visit),
    });
    catch_unwind(walk).unwrap_or_else(|panic| Err(ObjectError::Malformed(panic_text(&*panic).into()).into()))
}

fn malformed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ObjectError {
    ObjectError::Malformed(error.into())
}

/// Checks the numbers of rows that a footer states: rows without a column that is read cost a few bytes together, and each is visited.
fn check_rows(metadata: &ParquetMetaData) -> Result<(), ObjectError> {
    let of_file = metadata.file_metadata().num_rows();
    let of_groups = metadata.row_groups().iter().fold(0_i64, |sum, group| sum.saturating_add(group.num_rows()));
    if of_file != of_groups {
        return Err(malformed(format!("its footer states {of_file} rows, and {of_groups} in its row groups")));
    }
    match u64::try_from(of_file) {
        Ok(0..=MAX_ROWS) => Ok(()),
        _ => Err(ObjectError::TooLarge { what: "rows", limit: MAX_ROWS }),
    }
}

fn walk<R: ChunkReader + 'static, E: From<ObjectError>>(
    source: R,
    wanted: &[&str],
    limits: ObjectLimits,
    visit: &mut dyn FnMut(u64, Map<String, Value>) -> Result<(), E>,
) -> Result<(), E> {
    check_footer(&source).map_err(ObjectError::from)?;
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let loaded = ArrowReaderMetadata::load(&source, options).map_err(malformed)?;
    let (read, other) = divide(loaded.schema(), wanted)?;
    let metadata = loaded.metadata();
    let columns = metadata.file_metadata().schema_descr();
    let mask = ProjectionMask::roots(columns, read);
    let places: Vec<usize> = (0..columns.num_columns()).filter(|place| mask.leaf_included(*place)).collect();
    if places.len() > MAX_WANTED {
        return Err(ObjectError::TooManyMembers(places.len()).into());
    }
    check_rows(metadata)?;
    for group in metadata.row_groups() {
        check_viewed_pages(&source, group, &places).map_err(ObjectError::from)?;
    }
    let levels = parquet_to_arrow_field_levels(columns, mask, Some(&with_views(loaded.schema().fields()))).map_err(malformed)?;
    let source = Arc::new(source);
    let mut row = 0;
    for group in 0..metadata.num_row_groups() {
        for batch in Batches::of_group(&source, metadata, group, &levels)? {
            let batch = batch?;
            for place in 0..batch.num_rows() {
                row += 1;
                let mut reader = RowReader { row, limits, bytes: 0, values: 0 };
                let mut object = reader.row(&batch, place)?;
                object.extend(other.iter().map(|name| (name.clone(), Value::Null)));
                visit(row, object)?;
            }
        }
    }
    Ok(())
}

/// Returns the places of the wanted columns, and the names of some others.
fn divide(schema: &Schema, wanted: &[&str]) -> Result<(Vec<usize>, Vec<String>), ObjectError> {
    let columns = schema.fields();
    if columns.len() > MAX_COLUMNS {
        return Err(ObjectError::TooManyColumns(columns.len()));
    }
    let (mut read, mut other) = (Vec::new(), Vec::new());
    for (place, field) in columns.iter().enumerate() {
        if !wanted.contains(&field.name().as_str()) {
            if other.len() < LISTED {
                other.push(field.name().clone());
            }
            continue;
        }
        if read.iter().filter_map(|place: &usize| columns.get(*place)).any(|before| before.name() == field.name()) {
            return Err(ObjectError::Twice(quoted(field.name())));
        }
        if !has_form(field.data_type()) {
            let kind = quoted(&field.data_type().to_string());
            return Err(ObjectError::Type { column: quoted(field.name()), kind });
        }
        read.push(place);
    }
    Ok((read, other))
}

fn quoted(text: &str) -> String {
    text.chars().flat_map(char::escape_debug).take(QUOTED).collect()
}

/// Returns true if JSON has a form for the values of a type; within structs, members of other types are left out.
fn has_form(kind: &DataType) -> bool {
    match kind {
        DataType::List(item) => has_form(item.data_type()),
        DataType::Struct(_) | DataType::Null | DataType::Boolean | DataType::Utf8 | DataType::Binary => true,
        other => other.is_integer() || matches!(other, DataType::Float32 | DataType::Float64),
    }
}

/// Returns the columns with texts that are views of the pages that hold them.
fn with_views(fields: &Fields) -> Fields {
    let viewed = |field: &Arc<Field>| field.as_ref().clone().with_data_type(view(field.data_type()));
    fields.iter().map(viewed).collect()
}

fn view(kind: &DataType) -> DataType {
    match kind {
        DataType::Utf8 => DataType::Utf8View,
        DataType::Binary => DataType::BinaryView,
        DataType::List(item) => DataType::List(Arc::new(item.as_ref().clone().with_data_type(view(item.data_type())))),
        DataType::Struct(fields) => DataType::Struct(with_views(fields)),
        other => other.clone(),
    }
}

/// Reads a row, and counts what it has.
struct RowReader {
    row: u64,
    limits: ObjectLimits,
    bytes: usize,
    values: usize,
}

impl RowReader {
    fn row(&mut self, batch: &RecordBatch, place: usize) -> Result<Map<String, Value>, ObjectError> {
        self.members(batch.schema().fields(), batch.columns(), place)
    }

    /// Returns the members that are there: a file without one of a struct and a file with nulls for it are the same.
    fn members(&mut self, fields: &Fields, columns: &[Arc<dyn Array>], place: usize) -> Result<Map<String, Value>, ObjectError> {
        let mut object = Map::new();
        for (field, column) in fields.iter().zip(columns) {
            let value = self.value(column.as_ref(), place)?;
            if !value.is_null() && object.insert(field.name().clone(), value).is_some() {
                return Err(ObjectError::Twice(quoted(field.name())));
            }
        }
        Ok(object)
    }

    fn value(&mut self, array: &dyn Array, place: usize) -> Result<Value, ObjectError> {
        self.values += 1;
        if self.values > self.limits.values {
            return Err(ObjectError::Row { row: self.row, what: "values", limit: self.limits.values });
        }
        if array.is_null(place) {
            return Ok(Value::Null);
        }
        Ok(match array.data_type() {
            DataType::Boolean => Value::from(array.as_boolean().value(place)),
            DataType::Int8 => Value::from(array.as_primitive::<Int8Type>().value(place)),
            DataType::Int16 => Value::from(array.as_primitive::<Int16Type>().value(place)),
            DataType::Int32 => Value::from(array.as_primitive::<Int32Type>().value(place)),
            DataType::Int64 => Value::from(array.as_primitive::<Int64Type>().value(place)),
            DataType::UInt8 => Value::from(array.as_primitive::<UInt8Type>().value(place)),
            DataType::UInt16 => Value::from(array.as_primitive::<UInt16Type>().value(place)),
            DataType::UInt32 => Value::from(array.as_primitive::<UInt32Type>().value(place)),
            DataType::UInt64 => Value::from(array.as_primitive::<UInt64Type>().value(place)),
            DataType::Float32 => number(f64::from(array.as_primitive::<Float32Type>().value(place))),
            DataType::Float64 => number(array.as_primitive::<Float64Type>().value(place)),
            DataType::Utf8View => self.text(array.as_string_view().value(place).as_bytes())?,
            // A writer that states no type of text may mean one nevertheless.
            DataType::BinaryView => self.text(array.as_binary_view().value(place))?,
            DataType::List(_) => self.list(array.as_list::<i32>().value(place).as_ref())?,
            DataType::Struct(fields) => Value::Object(self.members(fields, array.as_struct().columns(), place)?),
            // The types of all columns have been checked, so this is a member that JSON has no form for.
            _ => Value::Null,
        })
    }

    fn list(&mut self, items: &dyn Array) -> Result<Value, ObjectError> {
        (0..items.len()).map(|place| self.value(items, place)).collect()
    }

    /// Returns a text, after a check of its bytes and of the row's size.
    fn text(&mut self, bytes: &[u8]) -> Result<Value, ObjectError> {
        self.bytes = self.bytes.saturating_add(bytes.len());
        if self.bytes > self.limits.bytes {
            return Err(ObjectError::Row { row: self.row, what: "bytes of text", limit: self.limits.bytes });
        }
        let text = std::str::from_utf8(bytes).map_err(|_| ObjectError::NotUtf8(self.row))?;
        Ok(Value::from(text))
    }
}

/// Returns a number of JSON, which has none that is not finite: it is null then.
fn number(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number)
}
