//! What became of a request, which phase it belongs to, and who counted its tokens.

use std::fmt;
use std::str::FromStr;

/// An enum whose words stand in records.
macro_rules! words {
    ($(#[$doc:meta])* $type:ident, $default:ident, $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type {
            $($(#[$variant_doc])* $variant),+
        }

        impl $type {
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word as records hold it.
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

/// A word that is none of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownWord {
    /// The word, shortened.
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
    /// What became of a request. Every request that was due has exactly one.
    Outcome,
    Dropped,
    /// The answer came whole.
    Ok = "ok",
    /// The connection could not be made.
    ConnectError = "connect_error",
    /// The endpoint closed the connection after the request was written, or a part of it, and before a response began.
    ConnectionClosed = "connection_closed",
    /// The endpoint answered with a status other than 2xx.
    HttpError = "http_error",
    /// What the endpoint sent is not an answer: no HTTP, no JSON, a wrong content type.
    Malformed = "malformed",
    /// An event of the stream, or the whole response, is larger than the client reads: a limit of the client, no fault of the endpoint.
    EventTooLarge = "event_too_large",
    /// The endpoint reported an error in its stream, or in another response with a status of success; or it aborted the request
    /// (`finish_reason` is `abort` or `error`).
    StreamError = "stream_error",
    /// The connection closed before the answer was complete.
    Truncated = "truncated",
    /// The answer came whole and brought no token event.
    Empty = "empty",
    /// The request took longer than its time limit.
    Timeout = "timeout",
    /// The trial ended, with its time to drain, before the answer was complete.
    CancelledAtEnd = "cancelled_at_end",
    /// It was due and could not be sent: no free connection, or the trial ended.
    Dropped = "dropped",
);

words!(
    /// The phase of a trial that a request was due in.
    Phase,
    Measured,
    /// Offered before measuring began. In no latency, count or rate of errors; what completes within the measured window is work
    /// that the endpoint did in it, and counts towards its throughput.
    Warmup = "warmup",
    /// Counted.
    Measured = "measured",
);

words!(
    /// Who counted the tokens of an answer, best first.
    TokenSource,
    Unknown,
    /// The endpoint, chunk by chunk (`continuous_usage_stats`).
    ContinuousUsage = "continuous_usage",
    /// The endpoint, at the end (`usage`).
    Usage = "usage",
    /// The workload's tokenizer, over the text of the answer.
    Tokenizer = "tokenizer",
    /// Nobody: token events were counted in their stead.
    Chunks = "chunks",
    /// Nobody.
    Unknown = "unknown",
);

impl Outcome {
    /// Whether the answer came whole.
    pub fn is_ok(self) -> bool {
        self == Self::Ok
    }
}
