//! Importers: one module for each format.

mod batch;
mod csv;
mod json;
mod limited;
mod object;
mod parquet;
mod quotes;
mod sharegpt;
mod text;
mod trace;
mod tracelab;
mod unique;
mod weka;

use std::io::BufRead;

pub use json::MAX_ROW_VALUES;
pub use parquet::{import_parquet_row, parquet_columns};

use assay_manifest::DatasetFormat;
use serde_json::{Map, Value};

use crate::{Conversation, DatasetError, FileRow, ImportRules, LeftOut, Row};

/// The most bytes of a row that is a whole session of a trace.
pub(crate) const MAX_SESSION_BYTES: u64 = 64 << 20;

/// The most bytes of one row: a prompt of ten times the longest context that is served today would be four times as long.
pub const MAX_ROW_BYTES: u64 = 16 << 20;

/// The names of the members or columns that are read, if they are not the format's own. A named one must be in every row. The name of a
/// member within another one is joined by dots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// The prompt; `prompt` if it is not named.
    pub prompt: Option<String>,
    /// The messages of a chat, instead of a prompt; `messages` if it is not named.
    pub messages: Option<String>,
    /// A system message; `system` if it is not named.
    pub system: Option<String>,
    /// The text of the recorded response; `output` if it is not named.
    pub output: Option<String>,
    /// The number of tokens of the recorded response; `output_tokens` if it is not named.
    pub output_tokens: Option<String>,
}

/// Takes a request with the number of its row, or the reason why a row of the file is no request.
pub(crate) type TakeRow<'a> = dyn FnMut(u64, Result<Row, LeftOut>) -> Result<(), DatasetError> + 'a;

/// Reads a dataset of a format of text row by row and passes each to `take`, with its number from 1: in formats of lines the number of its line, in others its
/// place. The first error ends it. Rows are whole conversations if the rules are for sessions without times, and requests if not.
pub fn import(
    format: DatasetFormat,
    fields: &Fields,
    rules: &ImportRules,
    mut source: impl BufRead,
    take: &mut dyn FnMut(u64, Result<FileRow, LeftOut>) -> Result<(), DatasetError>,
) -> Result<(), DatasetError> {
    if DatasetFormat::by_first_bytes(source.fill_buf().map_err(DatasetError::Read)?).is_some() {
        return Err(DatasetError::NotText(format));
    }
    skip_byte_order_mark(&mut source)?;
    let plays_trace = rules.trace_sessions().is_some() && format.has_times();
    if plays_trace && format == DatasetFormat::Weka {
        return sessions(limited::Limited::with_limit(source, MAX_SESSION_BYTES), take);
    }
    let source = limited::Limited::new(source);
    if rules.sessions && !plays_trace {
        return conversations(format, fields, source, take);
    }
    if format.needs_sessions() && !plays_trace {
        return Err(DatasetError::NeedsSessions(format));
    }
    let api = rules.api;
    let take = &mut |number, row: Result<Row, LeftOut>| take(number, row.map(FileRow::Request));
    match format {
        DatasetFormat::Jsonl => json::values(source, &mut |row, value| take(row, Ok(object::row(row, &value, fields)?))),
        DatasetFormat::Sharegpt => json::values(source, &mut |row, value| take(row, sharegpt::row(row, &value)?)),
        DatasetFormat::OpenaiBatch => json::values(source, &mut |row, value| take(row, Ok(batch::row(row, value, api)?))),
        DatasetFormat::Csv => csv::rows(source, fields, take),
        DatasetFormat::Text => text::rows(source, take),
        DatasetFormat::Mooncake => {
            let mut delayed = plays_trace.then(trace::DelayedTurns::default);
            json::values(source, &mut |row, value| {
                let read = trace::mooncake(row, &value, delayed.as_mut())?;
                take(row, note_unread(read, value.as_object(), trace::MOONCAKE))
            })
        }
        DatasetFormat::Bailian => {
            let mut chats = trace::Chats::default();
            json::values(source, &mut |row, value| {
                let read = trace::bailian(row, &value, &mut chats)?;
                take(row, note_unread(read, value.as_object(), trace::BAILIAN))
            })
        }
        DatasetFormat::Azure => {
            csv::records(source, &mut |row, cells| take(row, note_unread(trace::azure(row, &cells)?, Some(&cells), trace::AZURE)))
        }
        DatasetFormat::Burstgpt => csv::records(source, &mut |row, cells| {
            take(row, note_unread(trace::burstgpt(row, &cells)?, Some(&cells), trace::BURSTGPT))
        }),
        DatasetFormat::TimedJsonl => {
            json::values(source, &mut |row, value| take(row, Ok(trace::timed(row, &value, fields, api)?)))
        }
        DatasetFormat::Tracelab => {
            let mut rounds = tracelab::Rounds::default();
            json::values(source, &mut |row, value| take(row, tracelab::round(row, &value, &mut rounds)?))
        }
        DatasetFormat::Weka => Err(DatasetError::NeedsSessions(format)),
        DatasetFormat::Parquet => Err(DatasetError::NotText(format)),
    }
}

/// Notes the members of a row that are none of its format: an optional one that is misspelt would otherwise be missing unnoticed.
fn note_unread(read: Result<Row, LeftOut>, members: Option<&Map<String, Value>>, known: &[&str]) -> Result<Row, LeftOut> {
    let mut others = object::Others::default();
    others.add(members, |name| known.contains(&name));
    read.map(|row| Row { unread: others.names(), ..row })
}

/// Reads whole sessions of a trace.
fn sessions(
    source: limited::Limited<impl BufRead>,
    take: &mut dyn FnMut(u64, Result<FileRow, LeftOut>) -> Result<(), DatasetError>,
) -> Result<(), DatasetError> {
    let mut sessions = weka::Sessions::default();
    json::values_within(source, weka::MAX_SESSION_VALUES, &mut |row, value| {
        take(row, Ok(FileRow::Session(weka::session(row, &value, &mut sessions)?)))
    })
}

/// Reads whole conversations, of a format that has them.
fn conversations(
    format: DatasetFormat,
    fields: &Fields,
    source: limited::Limited<impl BufRead>,
    take: &mut dyn FnMut(u64, Result<FileRow, LeftOut>) -> Result<(), DatasetError>,
) -> Result<(), DatasetError> {
    let take = &mut |number, row: Result<Conversation, LeftOut>| take(number, row.map(FileRow::Conversation));
    match format {
        DatasetFormat::Jsonl => json::values(source, &mut |row, value| take(row, object::conversation(row, &value, fields)?)),
        DatasetFormat::Sharegpt => json::values(source, &mut |row, value| take(row, sharegpt::conversation(row, &value)?)),
        DatasetFormat::OpenaiBatch
        | DatasetFormat::Csv
        | DatasetFormat::Parquet
        | DatasetFormat::Text
        | DatasetFormat::Mooncake
        | DatasetFormat::Bailian
        | DatasetFormat::Azure
        | DatasetFormat::Burstgpt
        | DatasetFormat::TimedJsonl
        | DatasetFormat::Weka
        | DatasetFormat::Tracelab => Err(DatasetError::NoConversations(format)),
    }
}

/// Skips the mark that editors of some systems put before UTF-8 text. It is no part of the first prompt.
fn skip_byte_order_mark(source: &mut impl BufRead) -> Result<(), DatasetError> {
    const MARK: &[u8] = "\u{feff}".as_bytes();
    if source.fill_buf().map_err(DatasetError::Read)?.starts_with(MARK) {
        source.consume(MARK.len());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
