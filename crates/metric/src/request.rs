//! One request: the facts that its latencies are computed from, and the formulas.

/// A fact of a request: an instant in nanoseconds since the trial's start, or a number of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The start of latencies: the intended time of requests that have one, else the send time.
    Start,
    /// The intended send time; absent in a closed loop, unless it has sessions or opens a connection for each request.
    Intended,
    /// The time at which there was a place for it among the requests in flight; absent unless due requests wait for one.
    Ready,
    /// The time at which its connection was requested.
    ConnectStart,
    /// The time at which its connection was established.
    ConnectEnd,
    /// The time at which the first byte was written.
    Sent,
    /// The first token event, on any channel.
    FirstToken,
    /// The first event with content, as opposed to reasoning or tool text.
    FirstContent,
    /// The last token event.
    LastToken,
    /// Tokens of the response.
    OutputTokens,
    /// Tokens that the first token event brought, if the endpoint reports them.
    FirstEventTokens,
    /// Tokens of the prompt, by the workload's tokenizer.
    InputTokens,
    /// Tokens of the prompt, as the endpoint counts them.
    EndpointInputTokens,
    /// Tokens of the prompt that the endpoint found in its prefix cache.
    CachedTokens,
    /// The number of the turn in its session, from 0.
    Turn,
    /// The stream of the turn in its session, from 0, if that is of a trace.
    Stream,
    /// The number of turns of the session.
    SessionTurns,
    /// The turns of the session that had succeeded when the turn ended; absent if another one had failed before.
    SessionDone,
    /// The time at which the first turn of the session was due.
    SessionStart,
    /// The time before the turn in which none of its session was due or in flight, in nanoseconds.
    SessionPauses,
    /// The time at which the trace has the turn, or the grid of its user, since the start of the trial.
    Planned,
    /// Tokens that the prompt was to have.
    InputTokensRequested,
    /// Tokens that the response was requested with.
    OutputTokensRequested,
}

impl Field {
    const COUNT: usize = Self::OutputTokensRequested as usize + 1;

    /// Returns true if the fact is of the response: only successful requests have one.
    pub const fn is_of_response(self) -> bool {
        let is_of_request = matches!(
            self,
            Self::Start
                | Self::Intended
                | Self::Ready
                | Self::ConnectStart
                | Self::ConnectEnd
                | Self::Sent
                | Self::InputTokensRequested
                | Self::OutputTokensRequested
        );
        !is_of_request && !self.is_of_session()
    }

    /// Returns true if only the turns of sessions have the fact.
    pub const fn is_of_session(self) -> bool {
        matches!(
            self,
            Self::Turn
                | Self::Stream
                | Self::SessionTurns
                | Self::SessionDone
                | Self::SessionStart
                | Self::SessionPauses
                | Self::Planned
        )
    }

    /// Returns the description of a response that has the fact.
    pub const fn description(self) -> &'static str {
        match self {
            Self::FirstToken | Self::LastToken => "a token event",
            Self::FirstContent => "a content event",
            Self::OutputTokens => "a token count",
            Self::FirstEventTokens => "a count of the first event's tokens",
            Self::InputTokens => "a length of its prompt",
            Self::EndpointInputTokens => "a count of input tokens",
            Self::CachedTokens => "a count of cached tokens",
            Self::ConnectStart | Self::ConnectEnd => "a connection of its own",
            Self::Start | Self::Intended | Self::Ready | Self::Sent => "a send time",
            Self::Turn | Self::SessionTurns | Self::SessionDone | Self::SessionStart | Self::SessionPauses => "a session",
            Self::Stream => "a stream of a trace's session",
            Self::Planned => "a planned time",
            Self::InputTokensRequested | Self::OutputTokensRequested => "a requested length",
        }
    }
}

/// The facts of one request. What did not happen, or was not read, is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestFields([Option<i64>; Field::COUNT]);

impl RequestFields {
    /// Returns a fact.
    #[inline]
    pub fn get(&self, field: Field) -> Option<i64> {
        self.0.get(field as usize).copied().flatten()
    }

    /// Sets a fact.
    #[inline]
    pub fn set(&mut self, field: Field, value: Option<i64>) {
        if let Some(slot) = self.0.get_mut(field as usize) {
            *slot = value;
        }
    }

    fn tokens(&self, field: Field) -> Option<u32> {
        self.get(field).and_then(|tokens| u32::try_from(tokens).ok())
    }
}

/// A formula of which each request has at most one sample, a double.
#[derive(Debug)]
pub struct Quotient {
    /// The facts that it reads.
    pub reads: &'static [Field],
    /// True if the requests are divided among the quotients that read these facts: each has a sample of one of them at most.
    pub is_part: bool,
    /// The description of a response that has a sample.
    pub description: &'static str,
    /// The sample: in nanoseconds for a latency, otherwise in the unit of the metric. `None` if a fact is absent, or if there is
    /// nothing to divide by.
    pub sample: fn(&RequestFields) -> Option<f64>,
}

/// TPOT of a request.
pub(crate) const TPOT: Quotient = Quotient {
    reads: TPOT_FIELDS,
    is_part: false,
    description: "two token events and more tokens than the first event has",
    sample: tpot_of_request,
};

/// The output tokens per second that one user receives, after the first token event: the inverse of TPOT. `None` if all tokens
/// came at one instant.
pub(crate) const USER_THROUGHPUT: Quotient = Quotient {
    reads: TPOT_FIELDS,
    is_part: false,
    description: "two token events at different instants and more tokens than the first event has",
    sample: |request| tpot_of_request(request).filter(|ns| *ns > 0.0).map(|ns| 1e9 / ns),
};

/// The time to the last token event over the tokens of the response.
pub(crate) const E2E_PER_TOKEN: Quotient = Quotient {
    reads: &[Field::Start, Field::LastToken, Field::OutputTokens],
    is_part: false,
    description: "a token count above 0",
    sample: |request| {
        let tokens = request.tokens(Field::OutputTokens).filter(|tokens| *tokens > 0)?;
        since_ns(request.get(Field::Start), request.get(Field::LastToken)).map(|ns| ns as f64 / f64::from(tokens))
    },
};

/// The tokens of the prompt that had to be computed, per second between the send time and the first token event.
pub(crate) const PREFILL_RATE: Quotient = Quotient {
    reads: &[Field::Sent, Field::FirstToken, Field::EndpointInputTokens, Field::CachedTokens],
    is_part: false,
    description: "counts of input tokens and of cached tokens",
    sample: |request| {
        let computed = request.get(Field::EndpointInputTokens)?.checked_sub(request.get(Field::CachedTokens)?)?;
        let ns = since_ns(request.get(Field::Sent), request.get(Field::FirstToken)).filter(|ns| *ns > 0)?;
        (computed > 0).then(|| computed as f64 * 1e9 / ns as f64)
    },
};

/// TTFT of the first turn of a session.
pub(crate) const FIRST_TURN_TTFT: Quotient = Quotient {
    reads: &[Field::Start, Field::FirstToken, Field::Turn],
    is_part: true,
    description: "a token event in the first turn of a session",
    sample: |request| ttft_of_turn(request, |turn| turn == 0),
};

/// TTFT of the turns after the first.
pub(crate) const LATER_TURNS_TTFT: Quotient = Quotient {
    reads: &[Field::Start, Field::FirstToken, Field::Turn],
    is_part: true,
    description: "a token event in a later turn of a session",
    sample: |request| ttft_of_turn(request, |turn| turn > 0),
};

fn ttft_of_turn(request: &RequestFields, is_wanted: fn(i64) -> bool) -> Option<f64> {
    let is_wanted = request.get(Field::Turn).is_some_and(is_wanted);
    since_ns(request.get(Field::Start), request.get(Field::FirstToken)).filter(|_| is_wanted).map(|ns| ns as f64)
}

/// Makes TTFT of the requests with inputs of more than `$over` tokens, up to `$to`.
macro_rules! ttft_of_inputs {
    ($over:expr, $to:expr) => {
        Quotient {
            reads: &[Field::Start, Field::FirstToken, Field::InputTokens],
            is_part: true,
            description: "a token event and an input of this length",
            sample: |request| {
                let is_wanted = request.get(Field::InputTokens).is_some_and(|tokens| tokens > $over && tokens <= $to);
                since_ns(request.get(Field::Start), request.get(Field::FirstToken)).filter(|_| is_wanted).map(|ns| ns as f64)
            },
        }
    };
}

/// TTFT of inputs of up to 1,024 tokens.
pub(crate) const TTFT_INPUT_1K: Quotient = ttft_of_inputs!(-1, 1 << 10);
/// TTFT of longer inputs of up to 4,096 tokens.
pub(crate) const TTFT_INPUT_4K: Quotient = ttft_of_inputs!(1 << 10, 1 << 12);
/// TTFT of longer inputs of up to 16,384 tokens.
pub(crate) const TTFT_INPUT_16K: Quotient = ttft_of_inputs!(1 << 12, 1 << 14);
/// TTFT of longer inputs of up to 65,536 tokens.
pub(crate) const TTFT_INPUT_64K: Quotient = ttft_of_inputs!(1 << 14, 1 << 16);
/// TTFT of longer inputs.
pub(crate) const TTFT_INPUT_LONGER: Quotient = ttft_of_inputs!(1 << 16, i64::MAX);

/// The delay of a turn behind its planned time, before the client sends it. The first turn of a trace's session has none: the others are planned by
/// it.
pub(crate) const BACK_PRESSURE: Quotient = Quotient {
    reads: &[Field::Planned, Field::Intended, Field::Turn, Field::Stream],
    is_part: false,
    description: "a planned time, and is not the first turn of a trace's session",
    sample: |request| {
        let begins_trace = request.get(Field::Turn) == Some(0) && request.get(Field::Stream).is_some();
        since_ns(request.get(Field::Planned), request.get(Field::Intended)).filter(|_| !begins_trace).map(|ns| ns as f64)
    },
};

/// The latency of a session, a sample of the turn that ended last.
pub(crate) const SESSION_LATENCY: Quotient = Quotient {
    reads: &[Field::SessionStart, Field::LastToken, Field::SessionDone, Field::SessionTurns],
    is_part: false,
    description: "a last token event of the last turn of a session",
    sample: |request| session_ns(request).map(|ns| ns as f64),
};

/// The latency of a session without its pauses, a sample of the turn that ended last.
pub(crate) const SESSION_ACTIVE: Quotient = Quotient {
    reads: &[Field::SessionStart, Field::LastToken, Field::SessionDone, Field::SessionTurns, Field::SessionPauses],
    is_part: false,
    description: "a last token event of the last turn of a session",
    sample: |request| Some((session_ns(request)? - request.get(Field::SessionPauses)?) as f64),
};

/// The active time of a session of a trace up to its last turn, over the recorded one: both are the time from the first turn to the last one
/// without the pauses, live and in the trace. A sample of its last turn.
pub(crate) const SESSION_STRETCH: Quotient = Quotient {
    reads: &[Field::SessionStart, Field::Intended, Field::Planned, Field::SessionDone, Field::SessionTurns, Field::SessionPauses],
    is_part: false,
    description: "a last turn of a session in whose turns before it the trace spent time",
    sample: |request| {
        let (start, pauses) = (request.get(Field::SessionStart), request.get(Field::SessionPauses)?);
        let live = since_ns(start, request.get(Field::Intended)).filter(|_| is_last_ended(request))?.checked_sub(pauses)?;
        let recorded = since_ns(start, request.get(Field::Planned))?.checked_sub(pauses)?;
        (recorded > 0).then(|| live as f64 / recorded as f64)
    },
};

fn session_ns(request: &RequestFields) -> Option<i64> {
    since_ns(request.get(Field::SessionStart), request.get(Field::LastToken)).filter(|_| is_last_ended(request))
}

/// Returns true for the turn of a session that ended last.
fn is_last_ended(request: &RequestFields) -> bool {
    let done = request.get(Field::SessionDone);
    done.is_some() && done == request.get(Field::SessionTurns)
}

/// The facts that TPOT is computed from.
const TPOT_FIELDS: &[Field] = &[Field::FirstToken, Field::LastToken, Field::OutputTokens, Field::FirstEventTokens];

fn tpot_of_request(request: &RequestFields) -> Option<f64> {
    let (output, of_first) = (request.tokens(Field::OutputTokens), request.tokens(Field::FirstEventTokens));
    tpot_ns(request.get(Field::FirstToken), request.get(Field::LastToken), output, of_first).map(|(ns, _)| ns)
}

/// The divisor of a TPOT: with the first event's tokens known or assumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TpotDivisor {
    /// The tokens of the first event are known and were subtracted.
    FirstEventKnown,
    /// The tokens of the first event are unknown; one token was subtracted.
    FirstEventAssumedOne,
}

/// Time per output token of one request, in nanoseconds: (last token event - first) / (output tokens - tokens of the first
/// event), or output tokens - 1 if the first event's are unknown. `None` if the divisor is below 1, or if the request has no
/// token events or no count.
#[inline]
pub fn tpot_ns(
    first_token_ns: Option<i64>,
    last_token_ns: Option<i64>,
    output_tokens: Option<u32>,
    first_event_tokens: Option<u32>,
) -> Option<(f64, TpotDivisor)> {
    let span = last_token_ns?.checked_sub(first_token_ns?)?;
    let (first, how) = match first_event_tokens {
        Some(tokens) => (tokens, TpotDivisor::FirstEventKnown),
        None => (1, TpotDivisor::FirstEventAssumedOne),
    };
    let divisor = i64::from(output_tokens?) - i64::from(first);
    (divisor >= 1).then(|| (span as f64 / divisor as f64, how))
}

/// Returns the time from one instant to a later one, in nanoseconds; `None` if either is absent, or if the difference overflows.
/// Used for every latency: TTFT, TTFO and E2E from the start of a request, lateness from intended to sent.
#[inline]
pub fn since_ns(start_ns: Option<i64>, at_ns: Option<i64>) -> Option<i64> {
    at_ns?.checked_sub(start_ns?)
}

/// Returns true if a response differs from the requested length by more than 5 % of it, or by more than 50 tokens (AIPerf's
/// rule).
pub fn is_length_mismatch(requested: u32, actual: u32) -> bool {
    let off = u64::from(requested.abs_diff(actual));
    off * 20 > u64::from(requested) || off > 50
}
