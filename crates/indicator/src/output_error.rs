//! The reasons why an output is not a result.

use std::fmt;

use crate::json::{MAX_BYTES, MAX_DEPTH, MAX_SAMPLES, MAX_VALUES};
use crate::output::{MAX_PATH_BYTES, MAX_PATHS};

/// A place in the output. Lines, and characters of a line, count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The character within the line.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} column {}", self.line, self.column)
    }
}

/// The reason why the output of a script is not a result. Text of the script is shortened, and its control characters are
/// escaped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutputError {
    /// The output holds nothing but white space.
    #[error("the output is empty")]
    Empty,
    /// The output is larger than [`MAX_BYTES`].
    #[error("the output is larger than the limit of {MAX_BYTES} bytes")]
    TooLarge,
    /// The output is not valid JSON.
    #[error("the output is not JSON at {place}: {problem}")]
    NotJson {
        /// The place of the error.
        place: Position,
        /// The error, in words.
        problem: &'static str,
    },
    /// Something follows the document.
    #[error("the output goes on after its document at {0}")]
    TrailingBytes(Position),
    /// An object has a key twice, so its value is ambiguous.
    #[error("the key `{key}` at {place} is there twice in one object")]
    DuplicateKey {
        /// The place of the second occurrence.
        place: Position,
        /// The key.
        key: String,
    },
    /// The nesting is deeper than [`MAX_DEPTH`].
    #[error("the output is nested deeper than the limit of {MAX_DEPTH} at {0}")]
    TooDeep(Position),
    /// The document has more values than [`MAX_VALUES`].
    #[error("the output has more values than the limit of {MAX_VALUES} at {0}")]
    TooManyValues(Position),
    /// An array has more samples than [`MAX_SAMPLES`].
    #[error("an array of numbers that ends at {0} has more than the limit of {MAX_SAMPLES}")]
    TooManySamples(Position),
    /// The document is not an object, but of this kind.
    #[error("the document is {0}, not an object")]
    NotAnObject(&'static str),
    /// A required key is missing.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// The value of a known key has the wrong kind.
    #[error("`{key}` is {found}, not {expected}")]
    WrongKind {
        /// The key.
        key: &'static str,
        /// The kind that it has.
        found: &'static str,
        /// The kind that it must have.
        expected: &'static str,
    },
    /// `framework` and `component`, two names of one thing, have different values.
    #[error("`framework` is `{framework}` but `component` is `{component}`; they are two names of one thing")]
    Disagreement {
        /// The value of `framework`.
        framework: String,
        /// The value of `component`.
        component: String,
    },
    /// A key is in both objects, though they share one row.
    #[error("the key `{0}` is both in `@parameters` and in `@result`")]
    CollidingKeys(String),
    /// Two values have the same path, because of keys that contain dots.
    #[error("two values have the path `{0}`")]
    CollidingPaths(String),
    /// A path is longer than [`MAX_PATH_BYTES`].
    #[error("the path `{0}` is longer than the limit of {MAX_PATH_BYTES} bytes")]
    PathTooLong(String),
    /// The objects have more paths than [`MAX_PATHS`].
    #[error("`@parameters` and `@result` have more paths than the limit of {MAX_PATHS}")]
    TooManyPaths,
    /// A harness states a metric in another unit than the workload declares.
    #[error("the metric `{metric}` is in {stated}, and the workload says {declared}")]
    Unit {
        /// The path of the metric.
        metric: String,
        /// The unit that the harness states.
        stated: String,
        /// The unit that the workload declares.
        declared: String,
    },
    /// The output is not one of the harness that the workload names, or its harness says that it failed.
    #[error("the output cannot be read as one of {format}: {reason}")]
    Harness {
        /// The name of the format.
        format: String,
        /// The reason.
        reason: String,
    },
}

impl OutputError {
    /// Returns the reason as one stable word, for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::TooLarge => "too_large",
            Self::NotJson { .. } => "not_json",
            Self::TrailingBytes(_) => "trailing_bytes",
            Self::DuplicateKey { .. } => "duplicate_key",
            Self::TooDeep(_) => "too_deep",
            Self::TooManyValues(_) => "too_many_values",
            Self::TooManySamples(_) => "too_many_samples",
            Self::NotAnObject(_) => "not_an_object",
            Self::Missing(_) => "missing",
            Self::WrongKind { .. } => "wrong_kind",
            Self::Disagreement { .. } => "disagreement",
            Self::CollidingKeys(_) => "colliding_keys",
            Self::CollidingPaths(_) => "colliding_paths",
            Self::PathTooLong(_) => "path_too_long",
            Self::TooManyPaths => "too_many_paths",
            Self::Unit { .. } => "unit",
            Self::Harness { .. } => "harness",
        }
    }
}

/// The most characters of a script's text that a message repeats.
const MAX_QUOTED: usize = 60;

/// Returns a script's text as a message may show it: short, and without control characters.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted: String = text.chars().take(MAX_QUOTED).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_QUOTED).is_some() {
        quoted.push('…');
    }
    quoted
}
