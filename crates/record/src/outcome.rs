//! The outcome and phase of a request, and the source of its token count.

use std::fmt;
use std::str::FromStr;

/// An enum whose values are written in records as text.
macro_rules! words {
    ($(#[$doc:meta])* $type:ident, $default:ident, $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type {
            $($(#[$variant_doc])* $variant),+
        }

        impl $type {
            /// All values, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the value as written in records.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl Default for $type {
            fn default() -> Self {
                Self::$default
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $type {
            type Err = UnknownWord;

            fn from_str(text: &str) -> Result<Self, UnknownWord> {
                let word = Self::ALL.iter().copied().find(|word| word.as_str() == text);
                word.ok_or_else(|| UnknownWord { word: text.chars().take(40).collect(), of: stringify!($type) })
            }
        }
    };
}

/// The error of parsing a value that is not in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWord {
    /// The value, shortened.
    pub word: String,
    /// The list.
    pub of: &'static str,
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a word of {}", self.word, self.of)
    }
}

impl std::error::Error for UnknownWord {}

words!(
    /// The outcome of a request. Every request that was due has exactly one.
    Outcome,
    Dropped,
    /// The response was complete.
    Ok = "ok",
    /// The connection failed.
    ConnectError = "connect_error",
    /// The endpoint closed the connection after all or part of the request was written, and before a response began.
    ConnectionClosed = "connection_closed",
    /// The response had a status other than 2xx.
    HttpError = "http_error",
    /// The bytes from the endpoint are not a valid response: no HTTP, no JSON, or a wrong content type.
    Malformed = "malformed",
    /// An event of the stream, or the whole response, is larger than the client reads: a limit of the client, not a fault of the
    /// endpoint.
    EventTooLarge = "event_too_large",
    /// The endpoint reported an error in its stream, or in another response with a status of success; or it aborted the request
    /// (`finish_reason` is `abort` or `error`).
    StreamError = "stream_error",
    /// The connection closed before the response was complete.
    Truncated = "truncated",
    /// The response was complete and had no token event.
    Empty = "empty",
    /// The request exceeded its timeout.
    Timeout = "timeout",
    /// The trial and its drain time ended before the response was complete.
    CancelledAtEnd = "cancelled_at_end",
    /// The client cancelled the request, as the workload plans it for a share of requests: no failure of the endpoint.
    Cancelled = "cancelled",
    /// The request was due and could not be sent: no free connection, or the trial ended.
    Dropped = "dropped",
);

/// Returns true if an endpoint that ends a response for this reason has aborted the request, as vLLM and SGLang do with requests that
/// they cannot complete.
pub fn is_abort(finish_reason: &str) -> bool {
    matches!(finish_reason, "abort" | "error")
}

words!(
    /// The phase of a trial that a request was due in.
    Phase,
    Measured,
    /// Sent before measuring began. Excluded from latencies, counts and error rates; work that completes within the measured
    /// window was done by the endpoint in it, and counts towards its throughput.
    Warmup = "warmup",
    /// Measured.
    Measured = "measured",
);

words!(
    /// The source of a response's token count, best first.
    TokenSource,
    Unknown,
    /// The endpoint, chunk by chunk (`continuous_usage_stats`).
    ContinuousUsage = "continuous_usage",
    /// The endpoint, at the end of the response (`usage`).
    Usage = "usage",
    /// The workload's tokenizer, over the text of the response.
    Tokenizer = "tokenizer",
    /// Token events, counted in place of tokens.
    Chunks = "chunks",
    /// No source.
    Unknown = "unknown",
);

words!(
    /// The reason why a token count in the `usage` of a response is not used. Of several, the first in this order.
    UsageFault,
    None,
    /// All counts are used, or there are none.
    None = "none",
    /// There are more output tokens than the request allows: see [`exceeds_limit`](crate::exceeds_limit).
    OutputExceedsLimit = "output_exceeds_limit",
    /// There are no output tokens, and the response has text.
    OutputIsZero = "output_is_zero",
    /// The count of output tokens is no whole number from 0 to 2^32 - 1.
    OutputNotACount = "output_not_a_count",
    /// `usage` is no object.
    NotAnObject = "not_an_object",
    /// The count of input tokens is no whole number from 0 to 2^32 - 1.
    InputNotACount = "input_not_a_count",
    /// There are more cached tokens than input tokens. The cached ones are not used.
    CachedExceedsInput = "cached_exceeds_input",
    /// There are more reasoning tokens than output tokens. The reasoning tokens are not used: servers that draft tokens count drafts that
    /// they discard among them (SGLang, pull request 37450), and their count of output tokens is right.
    ReasoningExceedsOutput = "reasoning_exceeds_output",
    /// The count of a part of the input or the output is no whole number from 0 to 2^32 - 1.
    PartNotACount = "part_not_a_count",
);

impl UsageFault {
    /// Returns true if the endpoint's count of output tokens is not used.
    pub fn is_of_output(self) -> bool {
        matches!(self, Self::OutputExceedsLimit | Self::OutputIsZero | Self::OutputNotACount | Self::NotAnObject)
    }
}

impl Outcome {
    /// Returns true if the response was complete.
    pub fn is_ok(self) -> bool {
        self == Self::Ok
    }

    /// Returns true if the request failed: it was neither complete nor cancelled as planned.
    pub fn is_failure(self) -> bool {
        !matches!(self, Self::Ok | Self::Cancelled)
    }

    /// Returns true if the client ended the request, or never sent it, so that its end says nothing about the endpoint.
    pub fn is_of_client(self) -> bool {
        matches!(self, Self::Cancelled | Self::CancelledAtEnd | Self::Dropped)
    }
}
