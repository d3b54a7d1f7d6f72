//! Weka's traces of coding agents: one session in each row, with its requests.
//!
//! Source: the fields of Weka's agentic coding corpora as AIPerf and inference-perf read them. `in` and `out` are tokens, times are seconds, and
//! `hash_ids` cover the whole input, unless it ends with tokens that have no id. Ids are equal within one trace only.

use std::collections::HashMap;

use assay_manifest::MAX_DATASET_TOKENS;
use serde_json::Value;

use super::trace::{duration, hash, ids, time};
use crate::{DatasetError, LeftOutReason, Row, RowContent, RowTime, TokenBlocks, TraceSession, TurnCourse};

/// The most values of a session: objects, lists and what they hold. In memory they take 128 MiB.
pub(super) const MAX_SESSION_VALUES: usize = 4_000_000;

/// The most tokens of a block.
const MAX_BLOCK: u64 = 65_536;

const NS_PER_S: f64 = 1e9;

/// The only scope of ids that is known: that of the trace itself.
const LOCAL: &str = "local";

/// The reason why a model stopped, if it called a tool.
const TOOL_USE: &str = "tool_use";

/// The rows of the sessions that were read, by their ids.
#[derive(Default)]
pub(super) struct Sessions {
    rows: HashMap<u64, u64>,
}

/// Reads a session. Its subagents are left out, and counted.
pub(super) fn session(row: u64, value: &Value, sessions: &mut Sessions) -> Result<TraceSession, DatasetError> {
    let wrong = |problem: &str| DatasetError::row(row, problem);
    let id = value.get("id").filter(|id| id.is_string()).ok_or_else(|| wrong("has no text `id`"))?;
    let session = hash(id);
    if let Some(other) = sessions.rows.insert(session, row) {
        return Err(DatasetError::row(row, format!("has the `id` of row {other}: each session is in a trace once")));
    }
    if value.get("hash_id_scope").and_then(Value::as_str) != Some(LOCAL) {
        return Err(wrong("has no `hash_id_scope` of `local`, the only one whose ids are known to be the trace's own"));
    }
    let size = value.get("block_size").and_then(Value::as_u64).filter(|size| (1..=MAX_BLOCK).contains(size));
    let size = size.ok_or_else(|| DatasetError::row(row, format!("has no `block_size` from 1 to {MAX_BLOCK}")))?;
    for name in ["tool_tokens", "system_tokens"] {
        let is_count = value.get(name).is_none_or(|found| found.is_null() || count(found).is_some());
        if !is_count {
            return Err(DatasetError::row(row, format!("has `{name}` that are not a number of tokens")));
        }
    }
    let requests = value.get("requests").and_then(Value::as_array).ok_or_else(|| wrong("has no list `requests`"))?;
    let mut read = TraceSession { session, turns: Vec::new(), left_out: Vec::new(), subagents: 0, subagent_requests: 0 };
    for (number, request) in (1_u64..).zip(requests) {
        let wrong = |problem: String| DatasetError::row(row, format!("has request {number} {problem}"));
        match request.get("type").and_then(Value::as_str) {
            Some("n" | "s") => match turn(request, size as u32, session).map_err(wrong)? {
                Ok(turn) => {
                    check_order(read.turns.last(), &turn).map_err(wrong)?;
                    read.turns.push(turn);
                }
                Err(reason) => read.left_out.push(reason),
            },
            Some("subagent") => {
                read.subagents += 1;
                read.subagent_requests += request.get("requests").and_then(Value::as_array).map_or(0, |list| list.len() as u64);
            }
            _ => return Err(wrong("of a `type` that is none of `n`, `s` and `subagent`".to_owned())),
        }
    }
    Ok(read)
}

/// Reads a request; errors are what follows its number. Requests without a prompt or a response are none.
fn turn(request: &Value, size: u32, session: u64) -> Result<Result<Row, LeftOutReason>, String> {
    let tokens = |name: &str| {
        let problem = || format!("without a number `{name}` of tokens from 0 to {MAX_DATASET_TOKENS}");
        request.get(name).and_then(count).ok_or_else(problem)
    };
    let (input, output) = (tokens("in")?, tokens("out")?);
    let part = |error: DatasetError| match error {
        DatasetError::Row { problem, .. } => format!("that {problem}"),
        other => other.to_string(),
    };
    let at_ns = time(0, request, "t", NS_PER_S).map_err(part)?;
    let service_ns = duration(0, request, "api_time", NS_PER_S).map_err(part)?;
    let ids = ids(0, request).map_err(part)?;
    let most = input.div_ceil(size) as usize;
    if ids.len() > most {
        return Err(format!("with {} blocks, and {input} tokens in blocks of {size} are {most} at most", ids.len()));
    }
    if input == 0 {
        return Ok(Err(LeftOutReason::NoPrompt));
    }
    if output == 0 {
        return Ok(Err(LeftOutReason::NoResponse));
    }
    let calls_tool = request.get("stop").and_then(Value::as_str) == Some(TOOL_USE);
    let content = RowContent::Blocks(TokenBlocks { tokens: input, size, ids, scope: Some(session) });
    Ok(Ok(Row {
        output_tokens: Some(output),
        time: Some(RowTime { at_ns, session: Some(session) }),
        course: TurnCourse { service_ns, calls_tool, ..TurnCourse::default() },
        ..Row::new(content)
    }))
}

fn check_order(before: Option<&Row>, turn: &Row) -> Result<(), String> {
    let Some(before) = before else { return Ok(()) };
    let at_ns = |row: &Row| row.time.map(|time| time.at_ns);
    if at_ns(turn) < at_ns(before) {
        return Err("that is earlier than the one before".to_owned());
    }
    if turn == before {
        return Err("that is the one before again: a request is in a session once".to_owned());
    }
    Ok(())
}

/// Returns a number of tokens.
fn count(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|count| u32::try_from(count).ok()).filter(|count| *count <= MAX_DATASET_TOKENS)
}

#[cfg(test)]
mod tests;
