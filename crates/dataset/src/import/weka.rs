//! Weka's traces of coding agents: one session in each row, with its requests.
//!
//! Source: the fields of Weka's agentic coding corpora as AIPerf and inference-perf read them. `in` and `out` are tokens, times are seconds, and
//! `hash_ids` cover the whole input, unless it ends with tokens that have no id. Ids are equal within one trace only, its subagents included.
//!
//! A subagent is a request that holds requests. Their times count from the start of the session, or, in old captures, from that of the
//! subagent: for the whole file, the first subagent shows which of them, by a first request that is earlier than itself or not.
//!
//! `tool_tokens` and `system_tokens` are the tokens of the system prompt of a session or a subagent, with which all of its prompts begin. With
//! the lengths of responses they tell which blocks of a prompt are whose message (`roles`).

use std::collections::{HashMap, HashSet};

use assay_manifest::{MAX_DATASET_TOKENS, SubagentTimes};
use serde_json::Value;

use super::object::Others;
use super::trace::{duration, hash, ids, time};
use crate::roles::StreamMessages;
use crate::{DatasetError, LeftOutReason, Row, RowContent, RowTime, TokenBlocks, TraceSession, TraceStream, TurnCourse};

/// The most values of a session: objects, lists and what they hold. In memory they take 128 MiB.
pub(super) const MAX_SESSION_VALUES: usize = 4_000_000;

/// The members of a session, a request and a subagent, those that are not read included.
const SESSION: &[&str] = &["id", "models", "block_size", "hash_id_scope", "tool_tokens", "system_tokens", "requests", "totals"];
const REQUEST: &[&str] =
    &["t", "type", "model", "in", "out", "hash_ids", "input_types", "output_types", "stop", "api_time", "think_time", "ttft"];
const SUBAGENT: &[&str] = &[
    "t",
    "type",
    "agent_id",
    "subagent_type",
    "duration_ms",
    "total_tokens",
    "tool_use_count",
    "status",
    "models",
    "tool_tokens",
    "system_tokens",
    "requests",
];

/// The most tokens of a block.
const MAX_BLOCK: u64 = 65_536;

const NS_PER_S: f64 = 1e9;

const NS_PER_MS: f64 = 1e6;

/// The only scope of ids that is known: that of the trace itself.
const LOCAL: &str = "local";

/// The reason why a model stopped, if it called a tool.
const TOOL_USE: &str = "tool_use";

/// The status of a subagent whose spawning turn did not wait for it.
const ASYNC_LAUNCHED: &str = "async_launched";

/// The most subagents within one another.
const MAX_DEPTH: usize = 16;

/// The sessions that were read.
#[derive(Default)]
pub(super) struct Sessions {
    /// Their rows, by their ids.
    rows: HashMap<u64, u64>,
    /// The origin of the times of the requests of subagents, with the row that showed it.
    times: Option<(SubagentTimes, u64)>,
}

impl Sessions {
    /// Takes the origin that a subagent shows: the first of a file decides, and a later one must not contradict it. If times count from each
    /// subagent, a first request may be later than its subagent, too.
    fn take_times(&mut self, row: u64, shown: SubagentTimes) -> Result<(), String> {
        match *self.times.get_or_insert((shown, row)) {
            (SubagentTimes::Session, of_row) if shown == SubagentTimes::Subagent => Err(format!(
                "whose own requests have times since the start of the subagent, and those of a subagent of row {of_row} have times since the \
                 start of the session: the times of a file have one origin"
            )),
            _ => Ok(()),
        }
    }
}

/// Reads a session with its subagents. A subagent that is there twice is left out the second time, and counted.
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
    let system_tokens = system_tokens(value).map_err(|problem| DatasetError::row(row, format!("has {problem}")))?;
    let read = TraceSession { session, ..TraceSession::default() };
    let mut others = Others::default();
    others.add(value.as_object(), |name| SESSION.contains(&name));
    let mut reader = SessionReader { row, size: size as u32, sessions, seen: HashSet::new(), others, read };
    reader.stream(value, None, 0, system_tokens, &Place::default())?;
    let times = reader.sessions.times.map(|(times, _)| times);
    Ok(TraceSession { times, unread: reader.others.names(), ..reader.read })
}

/// Returns the tokens of the system prompt of a session or a subagent: the descriptions of its tools, and its instructions.
fn system_tokens(value: &Value) -> Result<u64, String> {
    let tokens = |name: &str| match value.get(name) {
        None | Some(Value::Null) => Ok(0),
        Some(found) => count(found).map(u64::from).ok_or_else(|| format!("`{name}` that are not a number of tokens")),
    };
    Ok(tokens("tool_tokens")? + tokens("system_tokens")?)
}

/// The place of a stream in its session, for messages: the numbers of the requests that hold it.
#[derive(Default)]
struct Place(Vec<usize>);

impl Place {
    fn within(&self, number: usize) -> Self {
        Self(self.0.iter().copied().chain([number]).collect())
    }

    /// Returns `request 2 of request 3`, the innermost first.
    fn request(&self, number: usize) -> String {
        let holders = self.0.iter().rev().map(|holder| format!(" of request {holder}"));
        std::iter::once(format!("request {number}")).chain(holders).collect()
    }

    /// Returns the request that holds the stream, in the same form.
    fn holder(&self) -> String {
        let (last, holders) = self.0.split_last().unwrap_or((&0, &[]));
        Self(holders.to_vec()).request(*last)
    }
}

/// A session that is being read.
struct SessionReader<'a> {
    row: u64,
    size: u32,
    sessions: &'a mut Sessions,
    /// The subagents so far.
    seen: HashSet<u64>,
    others: Others,
    read: TraceSession,
}

impl SessionReader<'_> {
    /// Reads the requests of the session, or of a subagent that `parent` spawned, whose times count from `origin_ns` and whose prompts begin with
    /// a system prompt.
    fn stream(
        &mut self,
        value: &Value,
        parent: Option<usize>,
        origin_ns: i64,
        system_tokens: u64,
        place: &Place,
    ) -> Result<(), DatasetError> {
        let row = self.row;
        let requests = value.get("requests").and_then(Value::as_array).ok_or_else(|| {
            let of = if parent.is_some() { format!("a subagent, {}, without a", place.holder()) } else { "no".to_owned() };
            DatasetError::row(row, format!("has {of} list `requests`"))
        })?;
        let own = self.read.streams.len();
        self.read.streams.push(TraceStream { parent, ..TraceStream::default() });
        let mut messages = StreamMessages::new(system_tokens);
        for (number, request) in (1..).zip(requests) {
            let wrong = |problem: String| DatasetError::row(row, format!("has {} {problem}", place.request(number)));
            match request.get("type").and_then(Value::as_str) {
                Some("n" | "s") => {
                    self.others.add(request.as_object(), |name| REQUEST.contains(&name));
                    let read = turn(request, self.size, self.read.session, origin_ns).map_err(wrong)?;
                    self.take(own, read, &mut messages).map_err(wrong)?;
                }
                Some("subagent") => self.subagent(request, own, origin_ns, &place.within(number))?,
                Some(_) => return Err(wrong("of a `type` that is none of `n`, `s` and `subagent`".to_owned())),
                None => return Err(wrong("without a text `type`, which is `n`, `s` or `subagent`".to_owned())),
            }
        }
        Ok(())
    }

    fn take(&mut self, own: usize, read: Result<Row, LeftOutReason>, messages: &mut StreamMessages) -> Result<(), String> {
        let Some(stream) = self.read.streams.get_mut(own) else { return Ok(()) };
        match read {
            Ok(mut turn) => {
                check_order(stream.turns.last(), &turn)?;
                if let RowContent::Blocks(blocks) = &mut turn.content {
                    turn.course.is_cut = messages.assign(blocks, turn.output_tokens.unwrap_or(0));
                }
                stream.turns.push(turn);
            }
            Err(reason) => {
                stream.left_out += 1;
                self.read.left_out.push(reason);
            }
        }
        Ok(())
    }

    fn subagent(&mut self, value: &Value, parent: usize, origin_ns: i64, place: &Place) -> Result<(), DatasetError> {
        let row = self.row;
        let wrong = |problem: String| DatasetError::row(row, format!("has {} {problem}", place.holder()));
        if place.0.len() > MAX_DEPTH {
            return Err(wrong(format!("within more than {MAX_DEPTH} subagents")));
        }
        if self.read.streams.len() > usize::from(u16::MAX) {
            return Err(wrong(format!("that is a subagent more than {}", u16::MAX)));
        }
        self.others.add(value.as_object(), |name| SUBAGENT.contains(&name));
        let system_tokens = system_tokens(value).map_err(|problem| wrong(format!("with {problem}")))?;
        let begins_ns = time(0, value, "t", NS_PER_S).map_err(of_request).map_err(wrong)?;
        let lasts_ns = duration(0, value, "duration_ms", NS_PER_MS).map_err(of_request).map_err(wrong)?;
        if self.is_duplicate(value) {
            self.read.duplicates += 1;
            self.read.duplicate_requests += requests_of(value);
            return Ok(());
        }
        if let Some(times) = times_of(value, begins_ns) {
            self.sessions.take_times(row, times).map_err(wrong)?;
        }
        let begins_at_ns = origin_ns.saturating_add(begins_ns);
        let own_origin_ns = match self.sessions.times {
            Some((SubagentTimes::Subagent, _)) => begins_at_ns,
            Some((SubagentTimes::Session, _)) | None => origin_ns,
        };
        let own = self.read.streams.len();
        self.stream(value, Some(parent), own_origin_ns, system_tokens, place)?;
        let Some(stream) = self.read.streams.get_mut(own) else { return Ok(()) };
        let is_async = value.get("status").and_then(Value::as_str) == Some(ASYNC_LAUNCHED);
        stream.is_background = is_async || !end_last_turn(stream, lasts_ns.map(|ns| begins_at_ns.saturating_add_unsigned(ns)));
        Ok(())
    }

    /// Returns true if the session has had the subagent before: the same agent with the same requests.
    fn is_duplicate(&mut self, value: &Value) -> bool {
        let Some(agent) = value.get("agent_id").filter(|id| id.is_string()) else { return false };
        !self.seen.insert(hash(&Value::from(vec![agent.clone(), value.get("requests").cloned().unwrap_or_default()])))
    }
}

/// Returns the number of requests of a subagent, with those of its own subagents.
fn requests_of(value: &Value) -> u64 {
    let requests = value.get("requests").and_then(Value::as_array);
    requests.into_iter().flatten().map(|request| if is_subagent(request) { requests_of(request) } else { 1 }).sum()
}

fn is_subagent(request: &Value) -> bool {
    request.get("type").and_then(Value::as_str) == Some("subagent")
}

/// Returns the origin that the times of a subagent's requests show: the first of them is earlier than the subagent only if it is the subagent's
/// start. A subagent that begins with its session shows nothing.
fn times_of(value: &Value, begins_ns: i64) -> Option<SubagentTimes> {
    let requests = value.get("requests").and_then(Value::as_array)?;
    let first_ns = time(0, requests.first()?, "t", NS_PER_S).ok()?;
    let origin = if first_ns < begins_ns { SubagentTimes::Subagent } else { SubagentTimes::Session };
    (begins_ns > 0).then_some(origin)
}

/// Gives the last turn of a subagent the subagent's end, if it has none of its own. Returns true if it has one.
fn end_last_turn(stream: &mut TraceStream, ends_at_ns: Option<i64>) -> bool {
    let Some(last) = stream.turns.last_mut() else { return false };
    let began_ns = last.time.map_or(0, |time| time.at_ns);
    let until_end = ends_at_ns.and_then(|end_ns| u64::try_from(end_ns.saturating_sub(began_ns)).ok());
    last.course.service_ns = last.course.service_ns.or(until_end);
    last.course.service_ns.is_some()
}

/// Returns the problem of a value as what follows the number of its request.
fn of_request(error: DatasetError) -> String {
    match error {
        DatasetError::Row { problem, .. } => format!("that {problem}"),
        other => other.to_string(),
    }
}

/// Reads a request; errors are what follows its number. Requests without a prompt or a response are none.
fn turn(request: &Value, size: u32, session: u64, origin_ns: i64) -> Result<Result<Row, LeftOutReason>, String> {
    let tokens = |name: &str| {
        let problem = || format!("without a number `{name}` of tokens from 0 to {MAX_DATASET_TOKENS}");
        request.get(name).and_then(count).ok_or_else(problem)
    };
    let (input, output) = (tokens("in")?, tokens("out")?);
    let at_ns = origin_ns.saturating_add(time(0, request, "t", NS_PER_S).map_err(of_request)?);
    let service_ns = duration(0, request, "api_time", NS_PER_S).map_err(of_request)?;
    let ids = ids(0, request).map_err(of_request)?;
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
    let content = RowContent::Blocks(TokenBlocks { tokens: input, size, ids, scope: Some(session), messages: Vec::new() });
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
    if is_same_request(turn, before) {
        return Err("that is the one before again: a request is in a session once".to_owned());
    }
    Ok(())
}

/// Returns true if two requests are recorded alike. A turn has no messages yet when it is compared with the one before.
fn is_same_request(turn: &Row, before: &Row) -> bool {
    let recorded = |row: &Row| (row.time, row.output_tokens, row.course.service_ns, row.course.calls_tool);
    let is_same_prompt = match (&turn.content, &before.content) {
        (RowContent::Blocks(one), RowContent::Blocks(other)) => one.tokens == other.tokens && one.ids == other.ids,
        (one, other) => one == other,
    };
    recorded(turn) == recorded(before) && is_same_prompt
}

/// Returns a number of tokens.
fn count(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|count| u32::try_from(count).ok()).filter(|count| *count <= MAX_DATASET_TOKENS)
}

#[cfg(test)]
mod tests;
