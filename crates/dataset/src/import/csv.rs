//! CSV with a line of column names.

use std::collections::HashSet;
use std::io::BufRead;

use ::csv::{Position, ReaderBuilder};
use serde_json::{Map, Value};

use super::limited::Limited;
use super::quotes::Quotes;
use super::{Fields, TakeRow, object};
use crate::DatasetError;

/// The problem of a row whose last cell the file ends within.
const UNCLOSED: &str = "a quote that is never closed, so that the rest of the file is a part of it: close it, or double a quote that is a part of \
                        a quoted text; it opens";

/// Passes the rows to `take`, with the names of the columns as those of their members.
pub(super) fn rows(source: Limited<impl BufRead>, fields: &Fields, take: &mut TakeRow<'_>) -> Result<(), DatasetError> {
    records(source, &mut |row, members| take(row, Ok(object::row(row, &Value::Object(members), fields)?)))
}

/// Takes the cells of a record by the names of their columns, with its number.
type TakeRecord<'a> = dyn FnMut(u64, Map<String, Value>) -> Result<(), DatasetError> + 'a;

/// Passes each record to `take`.
pub(super) fn records(source: Limited<impl BufRead>, take: &mut TakeRecord<'_>) -> Result<(), DatasetError> {
    let budget = source.budget();
    let source = Quotes::new(source);
    let unclosed = source.unclosed();
    let mut reader = ReaderBuilder::new().from_reader(source);
    // The parser takes the rest of a file for one cell if its quote is never closed, whatever that makes of the record.
    let check_quotes = |row: u64, end: &Position| match unclosed.get() {
        Some(quote) if quote.offset < end.byte() => Err(DatasetError::row(row, format!("has {UNCLOSED} in line {}", quote.line))),
        _ => Ok(()),
    };
    let failed = |row: u64, error: ::csv::Error| {
        if budget.is_spent() { DatasetError::RowTooLarge(row) } else { unreadable(row, error) }
    };
    let names = reader.headers().map(|names| names.iter().map(|name| name.trim().to_owned()).collect::<Vec<_>>());
    check_quotes(1, reader.position())?;
    let names = names.map_err(|error| failed(1, error))?;
    // The name stays out of the message, because a file without a line of names has a prompt there.
    let mut earlier = HashSet::new();
    if let Some(place) = names.iter().position(|name| !name.is_empty() && !earlier.insert(name.as_str())) {
        return Err(DatasetError::row(1, format!("cannot be read: column {} is named like an earlier one", place + 1)));
    }
    let mut record = ::csv::StringRecord::new();
    for row in 1.. {
        budget.reset();
        let read = reader.read_record(&mut record);
        check_quotes(row, reader.position())?;
        if !read.map_err(|error| failed(row, error))? {
            break;
        }
        // An empty cell is one without a value.
        let cells = names.iter().zip(&record).filter(|(_, cell)| !cell.is_empty());
        take(row, cells.map(|(name, cell)| (name.clone(), Value::from(cell))).collect())?;
    }
    Ok(())
}

/// Returns the error of a record, without any of its text.
fn unreadable(row: u64, error: ::csv::Error) -> DatasetError {
    match error.into_kind() {
        ::csv::ErrorKind::Io(error) => DatasetError::Read(error),
        ::csv::ErrorKind::Utf8 { .. } => DatasetError::row(row, "is not UTF-8"),
        ::csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            DatasetError::row(row, format!("has {len} cells, and the line of column names has {expected_len}"))
        }
        _ => DatasetError::row(row, "is not CSV"),
    }
}
