//! Traces: requests with the times at which they came.
//!
//! Sources: Mooncake's `FAST25-release/traces` and the README of Alibaba's `qwen-bailian-usagetraces-anon` (members and block sizes), Azure's
//! `AzurePublicDataset` (`AzureLLMInferenceDataset`), and BurstGPT's README (columns).

use std::collections::HashMap;

use assay_api::ServingApi;
use assay_manifest::{Digest, MAX_DATASET_TOKENS};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use super::{Fields, batch, object};
use crate::{DatasetError, LeftOut, LeftOutReason, Row, RowContent, RowTime, TokenBlocks, TurnCourse};

/// The members of a row of each format, those that are not read included.
pub(super) const MOONCAKE: &[&str] = &["timestamp", "input_length", "output_length", "hash_ids", "session_id", "delay"];
pub(super) const BAILIAN: &[&str] =
    &["chat_id", "parent_chat_id", "timestamp", "input_length", "output_length", "hash_ids", "type", "turn"];
pub(super) const AZURE: &[&str] = &["TIMESTAMP", "ContextTokens", "GeneratedTokens"];
pub(super) const BURSTGPT: &[&str] =
    &["Timestamp", "Request tokens", "Response tokens", "Session ID", "Elapsed time", "Model", "Total tokens", "Log Type"];

/// The members of a row of timed JSON Lines beside its prompt.
const TIMED: [&str; 3] = ["at_ms", "session_id", "service_ms"];

/// Tokens of a block of Mooncake's traces.
const MOONCAKE_BLOCK: u32 = 512;

/// Tokens of a block of Bailian's traces.
const BAILIAN_BLOCK: u32 = 16;

/// The most chats of a trace that are followed to their first turn.
const MAX_CHATS: usize = crate::MAX_ROWS as usize;

const NS_PER_MS: f64 = 1e6;
const NS_PER_S: f64 = 1e9;

/// The latest time that is read: 2^62 nanoseconds, 146 years after its origin.
const MAX_TIME_NS: f64 = (1_u64 << 62) as f64;

/// Reads a row of Mooncake's: `timestamp` (ms), `input_length`, `output_length` and `hash_ids`; also `session_id` and `delay` (ms), as AIPerf
/// extends the format. Given `delayed`, a later turn of a session needs no `timestamp` beside its `delay`.
pub(super) fn mooncake(
    row: u64,
    value: &Value,
    delayed: Option<&mut DelayedTurns>,
) -> Result<Result<Row, LeftOut>, DatasetError> {
    for member in ["text_input", "messages", "payload", "tools"] {
        if value.get(member).is_some() {
            let problem = format!("has `{member}`: a trace with its texts is of format `timed_jsonl`, with `at_ms`");
            return Err(DatasetError::row(row, problem));
        }
    }
    let session = value.get("session_id").filter(|id| !id.is_null()).map(hash);
    let pause_ns = duration(row, value, "delay", NS_PER_MS)?;
    let at_ns = match (value.get("timestamp"), pause_ns, delayed.as_deref(), session) {
        (None, Some(pause_ns), Some(delayed), Some(session)) => delayed.next_ns(row, session, pause_ns)?,
        (None, Some(_), _, _) => {
            let problem = "has a `delay` and no `timestamp`: a request that waits for another one is a turn of a session, which \
                           has a `session_id` and is played with `sessions`";
            return Err(DatasetError::row(row, problem));
        }
        _ => time(row, value, "timestamp", NS_PER_MS)?,
    };
    if let (Some(delayed), Some(session)) = (delayed, session) {
        delayed.remember(session, at_ns);
    }
    let read = lengths(row, value, ["input_length", "output_length"], MOONCAKE_BLOCK, RowTime { at_ns, session })?;
    Ok(read.map(|read| Row { course: TurnCourse { pause_ns, ..TurnCourse::default() }, ..read }))
}

/// The times of the latest turns of sessions, for turns that have a pause instead of a time.
#[derive(Default)]
pub(super) struct DelayedTurns {
    latest: HashMap<u64, i64>,
}

impl DelayedTurns {
    /// Returns the time of a turn this pause after the one before: the earliest that it can have had, because the trace does not record how
    /// long the response took.
    fn next_ns(&self, row: u64, session: u64, pause_ns: u64) -> Result<i64, DatasetError> {
        let before = self.latest.get(&session).ok_or_else(|| {
            DatasetError::row(row, "has a `delay` and no `timestamp`, and is the first of its session: a first turn has a time")
        })?;
        Ok(before.saturating_add_unsigned(pause_ns))
    }

    fn remember(&mut self, session: u64, at_ns: i64) {
        if self.latest.len() < MAX_CHATS || self.latest.contains_key(&session) {
            self.latest.insert(session, at_ns);
        }
    }
}

/// The chats of a trace, by the ids of their turns.
#[derive(Default)]
pub(super) struct Chats {
    /// The chat of each turn, by the id of its first turn, and the row of the turn.
    turns: HashMap<i64, (i64, u64)>,
    /// The latest turn of each chat.
    latest: HashMap<i64, i64>,
    /// Parents that no row before has, and the rows that name them.
    unseen: HashMap<i64, u64>,
}

impl Chats {
    /// Returns the first turn of the chat of a turn, and true if the turn continues another one than the latest of the chat. A parent that
    /// was not seen is a first turn itself: the trace may begin within a chat.
    fn add(&mut self, row: u64, id: i64, parent: i64) -> Result<(i64, bool), DatasetError> {
        if id == parent {
            return Err(DatasetError::row(row, "is its own parent: `chat_id` and `parent_chat_id` are equal"));
        }
        if let Some((_, other)) = self.turns.get(&id) {
            return Err(DatasetError::row(row, format!("has the `chat_id` of row {other}: each request has its own")));
        }
        if let Some(child) = self.unseen.get(&id) {
            let problem =
                format!("is named as parent by row {child} before it: the parents form a circle, or the file is not sorted");
            return Err(DatasetError::row(row, problem));
        }
        let known = self.turns.get(&parent).map(|(first, _)| *first);
        let first = if parent < 0 { id } else { known.unwrap_or(parent) };
        let is_branch = parent >= 0 && self.latest.get(&first).is_some_and(|latest| *latest != parent);
        if self.turns.len() < MAX_CHATS {
            self.turns.insert(id, (first, row));
            self.latest.insert(first, id);
            if parent >= 0 && known.is_none() {
                self.unseen.entry(parent).or_insert(row);
            }
        }
        Ok((first, is_branch))
    }
}

/// Reads a row of Bailian's: `chat_id`, `parent_chat_id` (-1 for a first turn), `timestamp` (s), `input_length`, `output_length` and
/// `hash_ids`. Each row has its whole prompt, earlier turns included.
pub(super) fn bailian(row: u64, value: &Value, chats: &mut Chats) -> Result<Result<Row, LeftOut>, DatasetError> {
    let id = |name: &str| {
        let id = value.get(name).and_then(Value::as_i64);
        id.ok_or_else(|| DatasetError::row(row, format!("has no whole number `{name}`")))
    };
    let (first, is_branch) = chats.add(row, id("chat_id")?, id("parent_chat_id")?)?;
    let time = RowTime { at_ns: time(row, value, "timestamp", NS_PER_S)?, session: Some(first.cast_unsigned()) };
    let read = lengths(row, value, ["input_length", "output_length"], BAILIAN_BLOCK, time)?;
    Ok(read.map(|read| Row { course: TurnCourse { is_branch, ..TurnCourse::default() }, ..read }))
}

/// Reads a row of Azure's: `TIMESTAMP` (wall clock), `ContextTokens` and `GeneratedTokens`.
pub(super) fn azure(row: u64, cells: &Map<String, Value>) -> Result<Result<Row, LeftOut>, DatasetError> {
    let text = cells.get("TIMESTAMP").and_then(Value::as_str);
    let text =
        text.ok_or_else(|| lacks(row, "TIMESTAMP", "a trace of Azure has TIMESTAMP, ContextTokens and GeneratedTokens"))?;
    let wrong = || DatasetError::row(row, "has a `TIMESTAMP` that is no time such as `2024-05-10 00:00:00.009930`");
    let instant = wall_clock(text).ok_or_else(wrong)?;
    let at_ns = i64::try_from(instant.as_nanosecond()).map_err(|_| wrong())?;
    let cells = Value::Object(cells.clone());
    lengths(row, &cells, ["ContextTokens", "GeneratedTokens"], 1, RowTime { at_ns, session: None })
}

/// Reads a row of BurstGPT's: `Timestamp` (s), `Request tokens` and `Response tokens`, and in its second release `Session ID` and
/// `Elapsed time` (s).
pub(super) fn burstgpt(row: u64, cells: &Map<String, Value>) -> Result<Result<Row, LeftOut>, DatasetError> {
    let session = cells.get("Session ID").map(hash);
    let cells = Value::Object(cells.clone());
    let time = RowTime { at_ns: time(row, &cells, "Timestamp", NS_PER_S)?, session };
    let service_ns = duration(row, &cells, "Elapsed time", NS_PER_S)?;
    let read = lengths(row, &cells, ["Request tokens", "Response tokens"], 1, time)?;
    Ok(read.map(|read| Row { course: TurnCourse { service_ns, ..TurnCourse::default() }, ..read }))
}

/// Reads a row of timed JSON Lines: `at_ms`, and `body`, `prompt` or `messages`; also `output_tokens`, `session_id`, and `service_ms`, the time
/// from the request to the end of its response. A body needs the member that the API reads its prompt from.
pub(super) fn timed(row: u64, value: &Value, fields: &Fields, api: ServingApi) -> Result<Row, DatasetError> {
    let session = value.get("session_id").filter(|id| !id.is_null()).map(hash);
    let time = RowTime { at_ns: time(row, value, "at_ms", NS_PER_MS)?, session };
    let read = match value.get("body") {
        Some(Value::Object(body)) if value.get("prompt").is_none() && value.get("messages").is_none() => {
            let member = api.rules().prompt_member;
            if !body.contains_key(member) {
                return Err(DatasetError::row(row, format!("has a `body` without `{member}`, which `api: {api}` needs")));
            }
            let output_tokens = object::output_tokens(row, value, fields)?;
            Row { output_tokens, ..Row::new(batch::content(row, body.clone())?) }
        }
        Some(_) => return Err(DatasetError::row(row, "has a `body` that is no object, or that stands beside a prompt")),
        None => object::row(row, value, fields)?,
    };
    let service_ns = duration(row, value, "service_ms", NS_PER_MS)?;
    let mut others = object::Others::default();
    let has_body = value.get("body").is_some();
    others.add(value.as_object(), |name| TIMED.contains(&name) || is_read(name, fields, has_body));
    let course = TurnCourse { service_ns, ..TurnCourse::default() };
    Ok(Row { time: Some(time), course, unread: others.names(), ..read })
}

/// Returns true if a member of a row of timed JSON Lines is read for its prompt or its response.
fn is_read(name: &str, fields: &Fields, has_body: bool) -> bool {
    let is = |named: &Option<String>, own: &str| object::is_member(name, named.as_deref().unwrap_or(own));
    let of_prompt = || match (&fields.prompt, &fields.messages) {
        (Some(_), None) => is(&fields.prompt, ""),
        (None, Some(_)) => is(&fields.messages, ""),
        (_, _) => is(&fields.prompt, "prompt") || is(&fields.messages, "messages"),
    };
    let of_row = || of_prompt() || is(&fields.system, "system") || is(&fields.output, "output");
    is(&fields.output_tokens, "output_tokens") || if has_body { name == "body" } else { of_row() }
}

/// Reads the lengths and the blocks of a row.
fn lengths(
    row: u64,
    value: &Value,
    [input, output]: [&str; 2],
    size: u32,
    time: RowTime,
) -> Result<Result<Row, LeftOut>, DatasetError> {
    let count = |name: &str| {
        let number =
            value.get(name).ok_or_else(|| DatasetError::row(row, format!("lacks `{name}`; {}", object::listed(value))))?;
        let number = number.as_u64().or_else(|| number.as_str()?.trim().parse().ok());
        let valid = number.and_then(|number| u32::try_from(number).ok()).filter(|number| *number <= MAX_DATASET_TOKENS);
        let problem = || format!("has a `{name}` that is not a whole number from 0 to {MAX_DATASET_TOKENS}");
        valid.ok_or_else(|| DatasetError::row(row, problem()))
    };
    let (tokens, output_tokens) = (count(input)?, count(output)?);
    let ids = ids(row, value)?;
    let left_out = |reason| Ok(Err(LeftOut { reason, time: Some(time) }));
    if tokens == 0 {
        return left_out(LeftOutReason::NoPrompt);
    }
    // The last block may be left out of the ids if the prompt does not fill it.
    let (least, most) = ((tokens / size) as usize, tokens.div_ceil(size) as usize);
    if !ids.is_empty() && !(least..=most).contains(&ids.len()) {
        let found = ids.len();
        let problem = format!("has {found} blocks, and {tokens} tokens in blocks of {size} are {least} or {most}");
        return Err(DatasetError::row(row, problem));
    }
    if output_tokens == 0 {
        return left_out(LeftOutReason::NoResponse);
    }
    let content = RowContent::Blocks(TokenBlocks { tokens, size, ids, scope: None, messages: Vec::new() });
    Ok(Ok(Row { output_tokens: Some(output_tokens), time: Some(time), ..Row::new(content) }))
}

pub(super) fn ids(row: u64, value: &Value) -> Result<Vec<u64>, DatasetError> {
    let ids = match value.get("hash_ids") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(ids)) => ids,
        Some(_) => return Err(DatasetError::row(row, "has `hash_ids` that are no list")),
    };
    let ids: Option<Vec<u64>> = ids.iter().map(Value::as_u64).collect();
    ids.ok_or_else(|| DatasetError::row(row, "has `hash_ids` that are not whole numbers of at most 64 bits"))
}

/// Reads a time in the unit of this many nanoseconds.
pub(super) fn time(row: u64, value: &Value, name: &'static str, unit_ns: f64) -> Result<i64, DatasetError> {
    let found = value.get(name).ok_or_else(|| lacks(row, name, "a trace has times"))?;
    let number = found.as_f64().or_else(|| found.as_str()?.trim().parse().ok());
    let ns = number.map(|number| number * unit_ns);
    if ns.is_some_and(|ns| ns > MAX_TIME_NS) {
        let most = MAX_TIME_NS / unit_ns;
        return Err(DatasetError::row(row, format!("has a `{name}` beyond the limit of {most:.0}")));
    }
    ns.filter(|ns| *ns >= 0.0)
        .map(|ns| ns.round() as i64)
        .ok_or_else(|| DatasetError::row(row, format!("has a `{name}` that is no time: a number from 0 on")))
}

/// Reads a duration in the unit of this many nanoseconds, if the row has it.
pub(super) fn duration(row: u64, value: &Value, name: &'static str, unit_ns: f64) -> Result<Option<u64>, DatasetError> {
    let found = value.get(name).filter(|found| !found.is_null());
    found.map(|_| Ok(time(row, value, name, unit_ns)?.unsigned_abs())).transpose()
}

/// Parses a date and a time, of UTC unless an offset follows.
pub(super) fn wall_clock(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    text.parse::<Timestamp>().ok().or_else(|| Some(text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp()))
}

pub(super) fn lacks(row: u64, name: &str, remedy: &str) -> DatasetError {
    DatasetError::row(row, format!("lacks `{name}`: {remedy}"))
}

/// Returns 64 bits of the digest of a value, to tell sessions apart.
pub(super) fn hash(value: &Value) -> u64 {
    let digest = Digest::compute(value.to_string().as_bytes());
    digest.as_bytes().first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests;
