//! Rows of Parquet files, which another crate reads as objects: those of JSON Lines, or conversations of ShareGPT.

use serde_json::{Map, Value};

use super::{Fields, object, sharegpt};
use crate::{DatasetError, FileRow, ImportRules, LeftOut};

/// The columns that are read if `fields` names no others.
const COLUMNS: [&str; 5] = ["prompt", "messages", "system", "output", "output_tokens"];

/// The columns that hold a whole conversation in releases of ShareGPT and their successors.
const CONVERSATIONS: [&str; 2] = ["conversations", "conversation"];

/// Returns the names of the columns that are read: those of a member within another begin with the name of its column.
pub fn parquet_columns(fields: &Fields) -> Vec<&str> {
    let named = [&fields.prompt, &fields.messages, &fields.system, &fields.output, &fields.output_tokens];
    let named = named.into_iter().flatten().flat_map(|name| [name.as_str(), name.split('.').next().unwrap_or_default()]);
    COLUMNS.into_iter().chain(CONVERSATIONS).chain(named).collect()
}

/// Reads a row of a Parquet file, as an object of the [columns](parquet_columns) that it has. A row with a conversation, and neither a prompt
/// nor messages, is one of ShareGPT.
pub fn import_parquet_row(
    fields: &Fields,
    rules: &ImportRules,
    row: u64,
    object: Map<String, Value>,
) -> Result<Result<FileRow, LeftOut>, DatasetError> {
    let is_sharegpt = is_sharegpt(fields, &object);
    let value = Value::Object(object);
    Ok(match (rules.sessions, is_sharegpt) {
        (false, false) => Ok(FileRow::Request(object::row(row, &value, fields)?)),
        (false, true) => sharegpt::row(row, &value)?.map(FileRow::Request),
        (true, false) => object::conversation(row, &value, fields)?.map(FileRow::Conversation),
        (true, true) => sharegpt::conversation(row, &value)?.map(FileRow::Conversation),
    })
}

fn is_sharegpt(fields: &Fields, object: &Map<String, Value>) -> bool {
    let has = |name: &str| object.get(name).is_some_and(|value| !value.is_null());
    *fields == Fields::default() && CONVERSATIONS.into_iter().any(has) && !["prompt", "messages"].into_iter().any(has)
}
