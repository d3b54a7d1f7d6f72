//! Why an output is not a result.

use std::fmt;

use crate::json::{MAX_BYTES, MAX_DEPTH, MAX_SAMPLES, MAX_VALUES};
use crate::output::{MAX_PATH_BYTES, MAX_PATHS};

/// Where in the output. Lines and characters of a line count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The character within the line.
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} column {}", self.line, self.column)
    }
}

/// Why the output of a script is not a result. Texts of the script are shortened and their control characters escaped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Nothing but white space was printed.
    #[error("the output is empty")]
    Empty,
    /// More than [`MAX_BYTES`].
    #[error("the output is larger than the limit of {MAX_BYTES} bytes")]
    TooLarge,
    /// Not what JSON allows there.
    #[error("the output is not JSON at {place}: {problem}")]
    NotJson {
        /// Where.
        place: Place,
        /// What is wrong.
        problem: &'static str,
    },
    /// A whole document, and then something else.
    #[error("the output goes on after its document at {0}")]
    TrailingBytes(Place),
    /// An object names one key twice, so it does not say which value it means.
    #[error("the key `{key}` at {place} is there twice in one object")]
    DuplicateKey {
        /// Where it is the second time.
        place: Place,
        /// The key.
        key: String,
    },
    /// Deeper than [`MAX_DEPTH`].
    #[error("the output is nested deeper than the limit of {MAX_DEPTH} at {0}")]
    TooDeep(Place),
    /// More than [`MAX_VALUES`].
    #[error("the output has more values than the limit of {MAX_VALUES} at {0}")]
    TooManyValues(Place),
    /// More than [`MAX_SAMPLES`].
    #[error("an array of numbers that ends at {0} has more than the limit of {MAX_SAMPLES}")]
    TooManySamples(Place),
    /// The document is something else than an object.
    #[error("the document is {0}, not an object")]
    NotAnObject(&'static str),
    /// A key that every document needs.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// The value of a key that has a meaning is of another kind.
    #[error("`{key}` is {found}, not {expected}")]
    WrongKind {
        /// The key.
        key: &'static str,
        /// What it is.
        found: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// Two names of one thing with two values.
    #[error("`framework` is `{framework}` but `component` is `{component}`; they are two names of one thing")]
    Disagreement {
        /// The value of `framework`.
        framework: String,
        /// The value of `component`.
        component: String,
    },
    /// One key in both objects, though they share one row.
    #[error("the key `{0}` is both in `@parameters` and in `@result`")]
    CollidingKeys(String),
    /// Keys that hold dots lead to one path twice.
    #[error("two values have the path `{0}`")]
    CollidingPaths(String),
    /// A path longer than [`MAX_PATH_BYTES`].
    #[error("the path `{0}` is longer than the limit of {MAX_PATH_BYTES} bytes")]
    PathTooLong(String),
    /// More than [`MAX_PATHS`].
    #[error("`@parameters` and `@result` have more paths than the limit of {MAX_PATHS}")]
    TooManyPaths,
}

impl Malformed {
    /// The reason as one word that does not change, for machines.
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
        }
    }
}

/// How many characters of a script's text are repeated in a message.
const MAX_QUOTED: usize = 60;

/// A script's text as it may stand in a message: short, and without control characters.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted: String = text.chars().take(MAX_QUOTED).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_QUOTED).is_some() {
        quoted.push('…');
    }
    quoted
}
