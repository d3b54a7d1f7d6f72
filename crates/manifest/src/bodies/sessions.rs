//! Sessions: conversations of several requests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::words;
use crate::{Count, LengthLaw};

words!(
    /// The source of the responses that a turn repeats as history.
    History, "source of history",
    /// The recorded responses, or drawn words as long as was requested: the same bytes for every endpoint.
    Recorded = "recorded",
    /// The endpoint's own responses.
    Live = "live",
);

words!(
    /// The treatment of the reasoning of live responses in the history.
    ReasoningHistory, "treatment of reasoning",
    /// It is left out.
    Drop = "drop",
    /// It is sent back as `reasoning_content`.
    Keep = "keep",
);

/// The distribution of a pause, drawn for each turn but the first of a session.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "law", rename_all = "snake_case", deny_unknown_fields)]
pub enum PauseLaw {
    /// A fixed time.
    Fixed {
        /// Nanoseconds.
        ns: Count,
    },
    /// Any time between two bounds.
    Uniform {
        /// The lower bound, in nanoseconds.
        min_ns: Count,
        /// The upper bound, in nanoseconds.
        max_ns: Count,
    },
    /// Exponential with this mean.
    Exponential {
        /// The mean, in nanoseconds.
        mean_ns: Count,
    },
    /// Log-normal with this mean and standard deviation of the pauses themselves.
    Lognormal {
        /// The mean, in nanoseconds.
        mean_ns: Count,
        /// The standard deviation, in nanoseconds.
        stddev_ns: Count,
    },
    /// The pauses of a trace.
    Recorded,
}

/// The sessions of a point, over both phases of its counted trials. The rest of those that began were cut by the end of their trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionCounts {
    /// Sessions whose first turn was due.
    pub begun: Count,
    /// Those whose last turn succeeded.
    pub complete: Count,
    /// Those that a failed turn ended.
    pub failed: Count,
}

impl SessionCounts {
    /// Adds the sessions of another part of the same point.
    pub fn add(&mut self, other: &Self) {
        self.begun.0 += other.begun.0;
        self.complete.0 += other.complete.0;
        self.failed.0 += other.failed.0;
    }

    /// Returns the sessions that the end of their trial cut.
    pub fn cut(&self) -> u64 {
        self.begun.0.saturating_sub(self.complete.0).saturating_sub(self.failed.0)
    }
}

/// The conversations that requests belong to. Each turn of one sends all that was said before, and is sent a pause after the response to the
/// turn before. The point gives how many sessions run at a time, or how many begin per second.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sessions {
    /// The number of turns of each session; absent if a dataset or trace has them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub turns: Option<LengthLaw>,
    /// The time from the end of a response to the next turn.
    pub think_time: PauseLaw,
    /// The source of the responses that a turn repeats.
    pub history: History,
    /// The treatment of the reasoning of live responses.
    pub reasoning: ReasoningHistory,
    /// The number of sessions that ends the trial; absent if only the clock does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub count: Option<Count>,
    /// The way in which users play the sessions of a trace; absent if each session is played once, from its first turn and as recorded.
    #[serde(skip_serializing_if = "SessionPlay::is_plain", default)]
    pub play: SessionPlay,
}

/// The way in which the users of a closed loop play the sessions of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionPlay {
    /// True if users play sessions until the measured phase ends: after the last one, all of them come again, with other words.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub recycle: bool,
    /// The part of a session at which the first play of each user begins; absent if it begins with the first turn.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub start: Option<SessionStart>,
    /// True if the last turn before the start of each stream that has begun by then is sent before the trial, so that a cache holds its history.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub warm_history: bool,
    /// The longest time in which nothing is in flight, in nanoseconds: all turns that are due later then move nearer together. Absent if pauses
    /// are kept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub idle_cap_ns: Option<Count>,
    /// True if words that no other play has stand in front of the first message of the user.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub marker: bool,
}

impl SessionPlay {
    /// Returns true if each session is played once, from its first turn and as recorded.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

/// The part of a session at which it begins: any time between two shares of its recorded length, equally likely.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionStart {
    /// The lower bound, 0 to 1.
    pub from: f64,
    /// The upper bound, from the lower one to 1.
    pub to: f64,
}

impl SessionStart {
    /// Returns true if the bounds are shares, the lower one first.
    pub fn is_valid(&self) -> bool {
        (0.0..=1.0).contains(&self.from) && (self.from..=1.0).contains(&self.to)
    }
}
