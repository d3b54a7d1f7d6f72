//! TraceLab: traces of coding agents with one round of a session, a request to a model, in each row.
//!
//! Source: the schema of `uw-syfi/TraceLab`, whose prompts have `input_tokens_total` tokens, of which the provider's cache had the first
//! `prefix_tokens` and the other `newly_append_tokens` are new. The events of a round begin with what it was sent for, a message or the
//! result of a tool, and end with the last part of its response.
//!
//! The rows have no blocks. A round is given those of the round before, as far as its cached tokens and that prompt reach, and new ones after
//! them. What the cache had beyond the prompt before, its response, is no part of an earlier prompt, and so is what the first round of a
//! session had.

use std::collections::HashMap;

use assay_manifest::MAX_DATASET_TOKENS;
use serde_json::Value;

use super::object::Others;
use super::trace::{hash, lacks, wall_clock};
use crate::{DatasetError, LeftOut, LeftOutReason, Row, RowContent, RowTime, TokenBlocks, TurnCourse};

/// Tokens of a block. Shared beginnings are cut to whole blocks.
const BLOCK: u32 = 64;

/// The most sessions.
const MAX_SESSIONS: usize = 1_000_000;

/// The most ids of blocks that the latest rounds of all sessions hold together: 1 GiB.
const MAX_IDS: usize = (1 << 30) / size_of::<u64>();

/// The members of a round and of an event, those that are not read included.
const ROUND: &[&str] = &[
    "provider",
    "project",
    "session_id",
    "session_file",
    "round_index",
    "round_id",
    "turn_id",
    "trace_key",
    "home",
    "user",
    "store",
    "cwd",
    "model",
    "input_tokens_total",
    "prefix_tokens",
    "newly_append_tokens",
    "claude_uncached_input_tokens",
    "claude_cache_creation_input_tokens",
    "claude_cache_read_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
    "current_input_event_count",
    "current_user_message_count",
    "current_tool_result_count",
    "current_user_message_chars",
    "current_tool_result_chars",
    "current_input_chars",
    "first_input_event_type",
    "timing_events",
    "tools",
];
const EVENT: &[&str] = &[
    "event_type",
    "timestamp",
    "source",
    "tool_name",
    "tool_index",
    "tool_call_id",
    "is_error",
    "content_chars",
    "result_chars",
];

/// The kind of an event that calls a tool.
const TOOL_CALL: &str = "tool_call";

/// The latest rounds of the sessions.
#[derive(Default)]
pub(super) struct Rounds {
    latest: HashMap<u64, Round>,
    /// The ids that they hold.
    ids: usize,
}

/// The latest round of a session.
#[derive(Default)]
struct Round {
    number: u64,
    row: u64,
    /// The blocks of its prompt, and the first id that no prompt of the session has.
    ids: Vec<u64>,
    next_id: u64,
    tokens: u32,
}

impl Rounds {
    /// Returns the blocks of a prompt of which the first `prefix` tokens were in the cache.
    fn blocks(&mut self, row: u64, session: u64, number: u64, tokens: u32, prefix: u32) -> Result<Vec<u64>, DatasetError> {
        if self.latest.len() == MAX_SESSIONS && !self.latest.contains_key(&session) {
            return Err(DatasetError::row(row, format!("begins a session more than {MAX_SESSIONS}")));
        }
        let before = self.latest.remove(&session);
        if let Some(before) = &before
            && number <= before.number
        {
            let again = if number == before.number { "again" } else { "after a later one" };
            let problem = format!("has round {number} of its session {again}, as row {} shows", before.row);
            return Err(DatasetError::row(row, problem));
        }
        let before = before.unwrap_or_default();
        self.ids = self.ids.saturating_sub(before.ids.len());
        let shared = (prefix.min(before.tokens).min(tokens) / BLOCK) as usize;
        let mut ids = before.ids;
        ids.truncate(shared);
        let new = u64::from(tokens.div_ceil(BLOCK)).saturating_sub(ids.len() as u64);
        let next_id = before.next_id.saturating_add(new);
        ids.extend(before.next_id..next_id);
        self.ids = self.ids.saturating_add(ids.len());
        if self.ids > MAX_IDS {
            return Err(DatasetError::TooMuchHeld);
        }
        self.latest.insert(session, Round { number, row, ids: ids.clone(), next_id, tokens });
        Ok(ids)
    }
}

/// Reads a round.
pub(super) fn round(row: u64, value: &Value, rounds: &mut Rounds) -> Result<Result<Row, LeftOut>, DatasetError> {
    let session = value.get("session_id").filter(|id| id.is_string()).ok_or_else(|| lacks(row, "session_id", FIELDS))?;
    let session = hash(&Value::from(vec![value.get("provider").cloned().unwrap_or_default(), session.clone()]));
    let number = value.get("round_index").and_then(Value::as_u64).ok_or_else(|| lacks(row, "round_index", FIELDS))?;
    let count = |name: &'static str| {
        let found = value.get(name).ok_or_else(|| lacks(row, name, FIELDS))?;
        let count = found.as_u64().and_then(|count| u32::try_from(count).ok()).filter(|count| *count <= MAX_DATASET_TOKENS);
        count.ok_or_else(|| DatasetError::row(row, format!("has `{name}` that are not a number from 0 to {MAX_DATASET_TOKENS}")))
    };
    let (tokens, prefix, appended) = (count("input_tokens_total")?, count("prefix_tokens")?, count("newly_append_tokens")?);
    let output = count("output_tokens")?;
    if u64::from(prefix) + u64::from(appended) != u64::from(tokens) {
        let problem = format!(
            "has {prefix} `prefix_tokens` and {appended} `newly_append_tokens`, which are not its {tokens} `input_tokens_total`"
        );
        return Err(DatasetError::row(row, problem));
    }
    let (at_ns, service_ns, calls_tool) = events(row, value)?;
    let time = RowTime { at_ns, session: Some(session) };
    let ids = rounds.blocks(row, session, number, tokens, prefix)?;
    let left_out = |reason| Ok(Err(LeftOut { reason, time: Some(time) }));
    if tokens == 0 {
        return left_out(LeftOutReason::NoPrompt);
    }
    if output == 0 {
        return left_out(LeftOutReason::NoResponse);
    }
    let content = RowContent::Blocks(TokenBlocks { tokens, size: BLOCK, ids, scope: Some(session), messages: Vec::new() });
    let course = TurnCourse { service_ns: Some(service_ns), calls_tool, ..TurnCourse::default() };
    Ok(Ok(Row { output_tokens: Some(output), time: Some(time), course, unread: unread(value), ..Row::new(content) }))
}

/// Returns the names of the members of a round and of its events that the format does not have.
fn unread(value: &Value) -> Option<Vec<String>> {
    let mut others = Others::default();
    others.add(value.as_object(), |name| ROUND.contains(&name));
    let events = value.get("timing_events").and_then(Value::as_array);
    events.into_iter().flatten().for_each(|event| others.add(event.as_object(), |name| EVENT.contains(&name)));
    others.names()
}

/// The members of a row.
const FIELDS: &str = "a round of TraceLab has `session_id`, `round_index`, `input_tokens_total`, `prefix_tokens`, `newly_append_tokens`, \
                      `output_tokens` and `timing_events`";

/// Returns the time of the first event in nanoseconds since 1970, the time from it to the last event, and true if one calls a tool.
fn events(row: u64, value: &Value) -> Result<(i64, u64, bool), DatasetError> {
    let events = match value.get("timing_events") {
        None => return Err(lacks(row, "timing_events", FIELDS)),
        Some(events) => events.as_array().ok_or_else(|| DatasetError::row(row, "has `timing_events` that are no list"))?,
    };
    if events.is_empty() {
        return Err(DatasetError::row(row, "has `timing_events` without any event, so that its time is not known"));
    }
    let wrong = || DatasetError::row(row, "has an event whose `timestamp` is no time such as `2026-05-10T00:00:00.5Z`");
    let (mut first, mut last) = (i64::MAX, i64::MIN);
    for event in events {
        let instant = event.get("timestamp").and_then(Value::as_str).and_then(wall_clock).ok_or_else(wrong)?;
        let at_ns = i64::try_from(instant.as_nanosecond()).map_err(|_| wrong())?;
        (first, last) = (first.min(at_ns), last.max(at_ns));
    }
    let calls_tool = events.iter().any(|event| event.get("event_type").and_then(Value::as_str) == Some(TOOL_CALL));
    Ok((first, last.abs_diff(first), calls_tool))
}

#[cfg(test)]
mod tests;
