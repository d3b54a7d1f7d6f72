//! Failures as the person who can act sees them: a word, what happened, why, and what to try.

use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The exit codes of every binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// 0: it is done.
    Done,
    /// 1: something that nobody foresaw.
    Unexpected,
    /// 2: the command cannot be understood, or contradicts what is there.
    Usage,
    /// 10: a definition is invalid.
    Definition,
    /// 20: a signature, digest or link does not hold.
    Verification,
    /// 21: all is consistent, but who signed is not established.
    Unestablished,
    /// 30: the world failed; worth a retry.
    Environment,
    /// 40: the gate found a regression.
    Regression,
    /// 41: the gate could not decide.
    Inconclusive,
    /// 50: somebody stopped it.
    Cancelled,
}

impl Exit {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Done,
        Self::Unexpected,
        Self::Usage,
        Self::Definition,
        Self::Verification,
        Self::Unestablished,
        Self::Environment,
        Self::Regression,
        Self::Inconclusive,
        Self::Cancelled,
    ];

    /// The number that the process gives.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Unexpected => 1,
            Self::Usage => 2,
            Self::Definition => 10,
            Self::Verification => 20,
            Self::Unestablished => 21,
            Self::Environment => 30,
            Self::Regression => 40,
            Self::Inconclusive => 41,
            Self::Cancelled => 50,
        }
    }

    /// What a process meant by its exit code; codes of no meaning here are unexpected.
    pub fn from_code(code: i32) -> Self {
        Self::ALL.into_iter().find(|exit| i32::from(exit.code()) == code).unwrap_or(Self::Unexpected)
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a stage or command could not go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What kind of failure it is.
    pub exit: Exit,
    /// A stable word for it, such as `store_absent`.
    pub code: String,
    /// What happened, with the thing's name.
    pub message: String,
    /// Why, from the nearest cause to the farthest.
    pub causes: Vec<String>,
    /// What to try.
    pub hint: Option<String>,
}

impl Failure {
    /// A failure from its kind, word and message.
    pub fn new(exit: Exit, code: &str, message: impl Into<String>) -> Self {
        Self { exit, code: code.to_owned(), message: message.into(), causes: Vec::new(), hint: None }
    }

    /// The world failed in a way that a retry may mend.
    pub fn environment(code: &str, message: impl Into<String>) -> Self {
        Self::new(Exit::Environment, code, message)
    }

    /// A definition is invalid.
    pub fn definition(code: &str, message: impl Into<String>) -> Self {
        Self::new(Exit::Definition, code, message)
    }

    /// A signature, digest or link does not hold.
    pub fn verification(code: &str, message: impl Into<String>) -> Self {
        Self::new(Exit::Verification, code, message)
    }

    /// The command cannot be understood, or contradicts what is there.
    pub fn usage(code: &str, message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, code, message)
    }

    /// Something that nobody foresaw.
    pub fn unexpected(code: &str, message: impl Into<String>) -> Self {
        Self::new(Exit::Unexpected, code, message)
    }

    /// Somebody stopped it.
    pub fn cancelled(why: impl Into<String>) -> Self {
        Self::new(Exit::Cancelled, "cancelled", why)
    }

    /// Adds the chain of causes of an error, the error itself first.
    #[must_use]
    pub fn because(mut self, error: &(dyn Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            self.causes.push(error.to_string());
            next = error.source();
        }
        self
    }

    /// Adds what to try.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Wraps an error whose own message says what happened.
    pub fn of(exit: Exit, code: &str, error: &(dyn Error + 'static)) -> Self {
        let mut failure = Self::new(exit, code, error.to_string());
        if let Some(source) = error.source() {
            failure = failure.because(source);
        }
        failure
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.code, self.message)?;
        for cause in &self.causes {
            write!(f, "\n  because: {cause}")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_distinct_and_come_back() {
        for exit in Exit::ALL {
            assert_eq!(Exit::from_code(i32::from(exit.code())), exit);
        }
        assert_eq!(Exit::from_code(137), Exit::Unexpected);
    }
}
