//! The record: one row for each request that was due, whatever became of it, and the formulas that turn its instants into samples.
//!
//! Every time is a whole number of nanoseconds since the trial's start, by the monotonic clock of the host that sent the request.
//! A time before the start is negative. What did not happen is absent, never zero.

mod metrics;
mod outcome;
mod window;

pub use metrics::{Gap, Jitter, ToleratedTokens, gaps, is_length_mismatch, since_ns, tpot_ns};
pub use outcome::{Outcome, Phase, TokenSource, UnknownWord};
pub use window::{AllBusy, Ended, MeasuredPhase, SHARE_BITS, share_within};

/// One token event: a chunk with non-empty content, reasoning or tool text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// When the read that brought it returned, in nanoseconds since the trial's start.
    pub at_ns: i64,
    /// Bytes of the text that it brought.
    pub bytes: u32,
    /// How many tokens it brought, where the endpoint says so chunk by chunk.
    pub tokens: Option<u32>,
}

/// One request that was due, whatever became of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Its place in the schedule of the whole trial, the same for any number of shards; warm-up and measured phase count apart.
    pub global_index: u64,
    /// The phase that it was due in.
    pub phase: Phase,
    /// The `x-request-id` that it carried, which is the trace id of its `traceparent` as well: 128 bits.
    pub request_id: u128,
    /// When it should have been sent; absent under closed loop, which intends no times.
    pub intended_ns: Option<i64>,
    /// When the client turned to it.
    pub dequeued_ns: Option<i64>,
    /// When its connection was asked for; absent where one was kept alive.
    pub connect_start_ns: Option<i64>,
    /// When its connection (TCP and TLS) stood.
    pub connect_end_ns: Option<i64>,
    /// When its first byte was written.
    pub sent_ns: Option<i64>,
    /// When its last byte was written.
    pub write_done_ns: Option<i64>,
    /// When the first byte of the answer was read.
    pub first_byte_ns: Option<i64>,
    /// The first token event, on any channel.
    pub first_token_ns: Option<i64>,
    /// The first event with content, as opposed to reasoning or tool text.
    pub first_content_ns: Option<i64>,
    /// The last token event.
    pub last_token_ns: Option<i64>,
    /// When the answer was complete, or the request was given up.
    pub end_ns: Option<i64>,
    /// What became of it.
    pub outcome: Outcome,
    /// The status code of the answer.
    pub http_status: Option<u16>,
    /// Why the endpoint stopped: `stop`, `length` and the like, at most 32 bytes.
    pub finish_reason: Option<String>,
    /// What went wrong, at most 200 bytes; for people.
    pub error: Option<String>,
    /// Bytes that were written.
    pub request_bytes: u64,
    /// Bytes that were read.
    pub response_bytes: u64,
    /// Tokens of the prompt that were asked for.
    pub input_tokens_asked: Option<u32>,
    /// Tokens of the prompt by the workload's tokenizer.
    pub input_tokens: u32,
    /// Tokens of the prompt as the endpoint counts them.
    pub input_tokens_endpoint: Option<u32>,
    /// Tokens of the prompt that the endpoint found in its prefix cache.
    pub cached_tokens: Option<u32>,
    /// Tokens of the answer that were asked for.
    pub output_tokens_asked: Option<u32>,
    /// Tokens of the answer; `output_source` says who counted.
    pub output_tokens: Option<u32>,
    /// Who counted the tokens of the answer.
    pub output_source: TokenSource,
    /// Those of them that are reasoning, where the endpoint says so.
    pub reasoning_tokens: Option<u32>,
    /// Tokens that the first token event brought, where the endpoint says so.
    pub first_event_tokens: Option<u32>,
    /// How many token events there were.
    pub token_events: u32,
    /// SHA-256 of the prompt, where the workload captures it.
    pub prompt_sha256: Option<[u8; 32]>,
    /// SHA-256 of the answer's text, where the workload captures it.
    pub answer_sha256: Option<[u8; 32]>,
    /// The token events, in the order in which they came.
    pub chunks: Vec<Chunk>,
}
