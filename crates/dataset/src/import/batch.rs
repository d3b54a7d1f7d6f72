//! OpenAI's batch files: a whole body in each line.

use assay_api::ServingApi;
use serde_json::{Map, Value};

use super::object::check_messages;
use crate::{DatasetError, Row, RowContent};

/// The characters of an address that an error quotes.
const QUOTED: usize = 80;

/// Reads a line, whose address must be the API's. A `max_tokens` of the body stays a limit and is no recorded length.
pub(super) fn row(row: u64, value: Value, api: ServingApi) -> Result<Row, DatasetError> {
    let Value::Object(mut line) = value else { return Err(DatasetError::row(row, "is not an object")) };
    let url = line.get("url").and_then(Value::as_str).ok_or_else(|| DatasetError::row(row, "has no `url`"))?;
    if url != api.path() {
        let url: String = url.escape_debug().take(QUOTED).collect();
        let of_url = ServingApi::ALL.iter().find(|known| known.path() == url);
        let hint = of_url.map(|known| format!(": write `api: {known}`")).unwrap_or_default();
        return Err(DatasetError::row(row, format!("is for `{url}`, and `api: {api}` calls `{}`{hint}", api.path())));
    }
    let Some(Value::Object(body)) = line.remove("body") else { return Err(DatasetError::row(row, "has no object `body`")) };
    content(row, body).map(Row::new)
}

/// Returns a body as the content of a row, if it has a prompt.
pub(super) fn content(row: u64, body: Map<String, Value>) -> Result<RowContent, DatasetError> {
    if let Some(Value::Array(messages)) = body.get("messages") {
        check_messages(row, messages)?;
    }
    let content = RowContent::Body(body);
    if content.is_blank() {
        return Err(DatasetError::row(row, "has a body without a text in `messages`, `input` or `prompt`"));
    }
    Ok(content)
}
