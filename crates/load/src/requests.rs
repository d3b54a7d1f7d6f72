//! The requests to send: the caller's side.

use assay_record::Phase;

use crate::Cause;

/// A generator of the requests of one shard, in the order in which they are due. A thread of the load generator calls it ahead of
/// time, a bounded number of requests ahead.
pub trait Requests: Send {
    /// Returns the next request of a phase; none if the phase has no more. The calls for both phases alternate: each phase counts
    /// its own requests, and the first measured ones are prepared before the warm-up is over. Under closed loop a phase may be
    /// endless; the trial ends it.
    ///
    /// In a trial of [`Sessions`](crate::Sessions) these are the turns with which sessions begin, one of each session, which are one sequence: every
    /// call is for [`Phase::Measured`], and the clock decides the phase. Of [users](crate::Arrivals::Users), only those of their first sessions.
    fn next(&mut self, phase: Phase) -> Result<Option<PlannedRequest>, Cause>;
}

/// A generator of the other turns of sessions, which begin with [`Requests`]. One thread of the load generator calls it.
pub trait Turns: Send {
    /// Returns turn `turn` of a session. Turn 0 is requested of a session that [follows](PlannedRequest::successor) another one of a user, while the
    /// last turn of that is in flight, or at the end of that if it ends before. Any other turn is sent at the end of the last response that it waits for, plus its pause. `previous` is
    /// the text of the response before, under [`History::Live`](crate::History::Live) alone. Recorded history requests a turn when the first
    /// one begins that it waits for, so it may never be sent. Turns are requested once each, in any order that their waits allow.
    fn next(&mut self, session: u64, turn: u32, previous: Option<&ResponseText>) -> Result<PlannedRequest, Cause>;

    /// Called once for each session that has begun or whose first turn was requested here, when no more of it will be sent: after its last turn, because a turn failed, or because the
    /// trial is over. No call for the session follows.
    fn end(&mut self, session: u64);
}

/// The text of a response, without that of tool calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseText {
    /// The content.
    pub content: String,
    /// The reasoning.
    pub reasoning: String,
}

/// The place of a request in its session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlannedTurn {
    /// The session, by a number that no other session of this shard has; copied into the record.
    pub session: u64,
    /// A number that no other session has, in any run: the value of the endpoint's
    /// [session header](crate::Endpoint::with_session_header).
    pub session_id: u128,
    /// The turn, from 0; copied into the record.
    pub turn: u32,
    /// The number of turns of the session; copied into the record.
    pub turns: u32,
    /// Its stream among those of the session, from 0; copied into the record. None if the session is not of a trace.
    pub stream: Option<u32>,
    /// The time from the start of its session at which a trace has it, in nanoseconds; none unless the session is of a trace.
    pub planned_ns: Option<u64>,
}

/// A turn that waits for the end of another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextTurn {
    /// The turn.
    pub turn: u32,
    /// The pause before it, in nanoseconds, since the last end of the turns that it waits for.
    pub pause_ns: u64,
    /// The number of turns that it waits for.
    pub waits: u32,
    /// The time before which it is not due, in nanoseconds since the trial's start; none unless it is of a user's grid.
    pub planned_ns: Option<i64>,
}

/// A session that a user plays after another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Successor {
    /// The session.
    pub session: u64,
    /// The time before which its first turn is not due, in nanoseconds since the trial's start.
    pub planned_ns: i64,
}

/// A turn with which a session begins beside its first request, because it waits for no other that is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beginning {
    /// The turn.
    pub turn: u32,
    /// The time from the start of the session at which it is due, in nanoseconds.
    pub after_ns: u64,
}

/// One request, ready to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlannedRequest {
    /// Its index in the schedule of the whole trial; warm-up and measured phase count separately.
    pub global_index: u64,
    /// The time at which it is to be sent, in nanoseconds since the trial's start (so a measured request's is after the warm-up).
    /// Open loop needs it, in order; under closed loop there is none. Not used for the later turns of sessions, except those of users, whose
    /// turns all need it.
    pub intended_offset_ns: Option<i64>,
    /// The body: a JSON document.
    pub body: Vec<u8>,
    /// Requested tokens of the prompt; copied into the record.
    pub input_tokens_requested: Option<u32>,
    /// Tokens of the prompt by the workload's tokenizer.
    pub input_tokens: u32,
    /// Tokens of the response that the body requests.
    pub output_tokens_requested: Option<u32>,
    /// The most tokens of the response that the body allows; none if it states no limit.
    pub output_limit: Option<u64>,
    /// Sent as `x-request-id` and as the trace id of `traceparent`: 128 bits, unique.
    pub request_id: u128,
    /// SHA-256 of the prompt, if the workload captures it; copied into the record.
    pub prompt_sha256: Option<[u8; 32]>,
    /// Its place in its session; every request of a trial of sessions needs one.
    pub turn: Option<PlannedTurn>,
    /// The turns of its session that wait for its end.
    pub next: Vec<NextTurn>,
    /// The session that its user plays once its own has ended, with its last turn or one that failed; none if the user plays no more.
    pub successor: Option<Successor>,
    /// The time from the start of its session at which it is due, in nanoseconds; only of the request with which a session begins.
    pub after_ns: u64,
    /// The other turns with which its session begins; only of the request with which it does.
    pub beside: Vec<Beginning>,
    /// The time from its last byte, in nanoseconds, after which it is cancelled if its response is not complete
    /// ([`Outcome::Cancelled`](assay_record::Outcome::Cancelled)); none if it is not cancelled.
    pub cancel_after_ns: Option<u64>,
}
