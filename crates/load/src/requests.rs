//! The requests to send: the caller's side.

use assay_record::Phase;

use crate::Cause;

/// A generator of the requests of one shard, in the order in which they are due. A thread of the load generator calls it ahead of
/// time, a bounded number of requests ahead.
pub trait Requests: Send {
    /// Returns the next request of a phase; none if the phase has no more. The calls for both phases alternate: each phase counts
    /// its own requests, and the first measured ones are prepared before the warm-up is over. Under closed loop a phase may be
    /// endless; the trial ends it.
    fn next(&mut self, phase: Phase) -> Result<Option<PlannedRequest>, Cause>;
}

/// One request, ready to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlannedRequest {
    /// Its index in the schedule of the whole trial; warm-up and measured phase count separately.
    pub global_index: u64,
    /// The time at which it is to be sent, in nanoseconds since the trial's start (so a measured request's is after the warm-up).
    /// Open loop needs it, in order; under closed loop there is none.
    pub intended_offset_ns: Option<i64>,
    /// The body: a JSON document.
    pub body: Vec<u8>,
    /// Requested tokens of the prompt; copied into the record.
    pub input_tokens_requested: Option<u32>,
    /// Tokens of the prompt by the workload's tokenizer.
    pub input_tokens: u32,
    /// Tokens of the response that the body requests.
    pub output_tokens_requested: Option<u32>,
    /// Sent as `x-request-id` and as the trace id of `traceparent`: 128 bits, unique.
    pub request_id: u128,
    /// SHA-256 of the prompt, if the workload captures it; copied into the record.
    pub prompt_sha256: Option<[u8; 32]>,
}
