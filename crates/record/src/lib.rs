//! The record: one row for each request that was due, whatever its outcome, and its samples.
//!
//! Every time is a whole number of nanoseconds since the trial's start, by the monotonic clock of the host that sent the request.
//! A time before the start is negative. An event that did not happen is absent, never zero.

mod metrics;
mod outcome;
mod usage;

pub use outcome::{Outcome, Phase, TokenSource, UnknownWord, UsageFault, is_abort};
pub use usage::exceeds_limit;

/// One token event: a chunk with non-empty content, reasoning or tool text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The time at which the read that brought it returned, in nanoseconds since the trial's start.
    pub at_ns: i64,
    /// Bytes of the text that it brought.
    pub bytes: u32,
    /// Tokens that it brought, if the endpoint reports them chunk by chunk.
    pub tokens: Option<u32>,
}

/// One request that was due, whatever its outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Its index in the schedule of the whole trial, the same for any number of shards; warm-up and measured phase count
    /// separately.
    pub global_index: u64,
    /// The session that it is a turn of; absent if the trial has no sessions.
    pub session: Option<u64>,
    /// Its turn in that session, from 0.
    pub turn: Option<u32>,
    /// Its stream among those of that session, from 0; absent unless the session is of a trace.
    pub stream: Option<u32>,
    /// The number of turns of that session, in all of its streams.
    pub session_turns: Option<u32>,
    /// The turns of that session that had succeeded when it ended, itself included if it did; absent if another one had failed before.
    pub session_done: Option<u32>,
    /// The time at which the first turn of the session was due.
    pub session_start_ns: Option<i64>,
    /// The pauses of the session before this turn: the time in which none of its turns was due or in flight, in nanoseconds.
    pub session_pauses_ns: Option<i64>,
    /// The time at which it was planned: by the grid of its user, or by the trace whose session it belongs to: the start of the session, and the time from there to the turn
    /// in the trace.
    pub planned_ns: Option<i64>,
    /// The phase that it was due in.
    pub phase: Phase,
    /// The `x-request-id` that it carried, which is also the trace id of its `traceparent`: 128 bits.
    pub request_id: u128,
    /// The intended send time. In a closed loop only the turns of sessions have one (for the first when a user took it up, and for a later
    /// one the end of the turn before, and the pause after it), and requests that open a connection each: when a user took them up.
    pub intended_ns: Option<i64>,
    /// The time at which there was a place for it among the requests in flight: its intended time, or the end of the request that made
    /// room. Absent unless due requests wait for such a place.
    pub ready_ns: Option<i64>,
    /// The time at which the client took it from the queue.
    pub dequeued_ns: Option<i64>,
    /// The start of its connection; absent if a kept-alive one was reused.
    pub connect_start_ns: Option<i64>,
    /// The time at which its connection (TCP and TLS) was established.
    pub connect_end_ns: Option<i64>,
    /// The time at which its first byte was written.
    pub sent_ns: Option<i64>,
    /// The time at which its last byte was written.
    pub write_done_ns: Option<i64>,
    /// The time at which the first byte of the response was read.
    pub first_byte_ns: Option<i64>,
    /// The first token event, on any channel.
    pub first_token_ns: Option<i64>,
    /// The first event with content, as opposed to reasoning or tool text.
    pub first_content_ns: Option<i64>,
    /// The last token event.
    pub last_token_ns: Option<i64>,
    /// The time at which the response was complete, or the request was abandoned.
    pub end_ns: Option<i64>,
    /// Its outcome.
    pub outcome: Outcome,
    /// The status code of the response.
    pub http_status: Option<u16>,
    /// The endpoint's finish reason: `stop`, `length` and the like, at most 32 bytes.
    pub finish_reason: Option<String>,
    /// The error, at most 200 bytes; for people.
    pub error: Option<String>,
    /// Bytes that were written.
    pub request_bytes: u64,
    /// Bytes that were read.
    pub response_bytes: u64,
    /// Requested tokens of the prompt.
    pub input_tokens_requested: Option<u32>,
    /// Tokens of the prompt by the workload's tokenizer.
    pub input_tokens: u32,
    /// Tokens of the prompt as counted by the endpoint.
    pub input_tokens_endpoint: Option<u32>,
    /// Tokens of the prompt that the endpoint found in its prefix cache.
    pub cached_tokens: Option<u32>,
    /// Requested tokens of the response.
    pub output_tokens_requested: Option<u32>,
    /// Tokens of the response, as counted by `output_source`.
    pub output_tokens: Option<u32>,
    /// The source of the response's token count.
    pub output_source: TokenSource,
    /// The endpoint's count of the tokens of the response, if it is not used and is a whole number of 64 bits.
    pub output_tokens_claimed: Option<i64>,
    /// The reason why a count of the endpoint is not used.
    pub usage_fault: UsageFault,
    /// Reasoning tokens among them, if the endpoint reports them.
    pub reasoning_tokens: Option<u32>,
    /// Tokens among them that a prediction of the request had, if the endpoint reports them.
    pub accepted_prediction_tokens: Option<u32>,
    /// Tokens that the first token event brought, if the endpoint reports them.
    pub first_event_tokens: Option<u32>,
    /// The number of token events.
    pub token_events: u32,
    /// SHA-256 of the prompt, if the workload captures it.
    pub prompt_sha256: Option<[u8; 32]>,
    /// SHA-256 of the response's text, if the workload captures it.
    pub response_sha256: Option<[u8; 32]>,
    /// The token events, in order of arrival.
    pub chunks: Vec<Chunk>,
}
