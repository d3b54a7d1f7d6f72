//! What is to be sent: the caller's side.

use assay_record::Phase;

use crate::Cause;

/// Generates the requests of one shard, in the order in which they are due. A thread of the load generator calls it ahead of
/// time, a bounded number of requests ahead.
pub trait Requests: Send {
    /// The next request of a phase; none when the phase has no more. Both phases are asked for, in turns: their requests count
    /// apart, and the first measured ones are prepared before the warm-up is over. Under closed loop a phase may be endless; it is
    /// cut where the trial cuts it.
    fn next(&mut self, phase: Phase) -> Result<Option<Planned>, Cause>;
}

/// One request, ready to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Planned {
    /// Its place in the schedule of the whole trial; warm-up and measured phase count apart.
    pub global_index: u64,
    /// When it is to be sent, in nanoseconds since the trial's start (so a measured request's is beyond the warm-up). Open loop
    /// needs it, in order; under closed loop there is none.
    pub intended_offset_ns: Option<i64>,
    /// The body: a JSON document.
    pub body: Vec<u8>,
    /// Tokens of the prompt that were asked for; goes into the record as it is.
    pub input_tokens_asked: Option<u32>,
    /// Tokens of the prompt by the workload's tokenizer.
    pub input_tokens: u32,
    /// Tokens of the answer that the body asks for.
    pub output_tokens_asked: Option<u32>,
    /// Sent as `x-request-id` and as the trace id of `traceparent`: 128 bits, unique.
    pub request_id: u128,
    /// SHA-256 of the prompt, where the workload captures it; goes into the record as it is.
    pub prompt_sha256: Option<[u8; 32]>,
}
