//! The exit codes of processes.

use serde::{Deserialize, Serialize};

/// The exit codes of every binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// 0: success.
    Done,
    /// 1: an unexpected error.
    Unexpected,
    /// 2: the command cannot be understood, or contradicts the existing state.
    Usage,
    /// 10: a definition is invalid.
    Definition,
    /// 20: a signature, digest or link does not hold.
    Verification,
    /// 21: all is consistent, but the signer is not established.
    Unestablished,
    /// 30: the environment failed; a retry may help.
    Environment,
    /// 40: the gate found a regression.
    Regression,
    /// 41: the gate could not decide.
    Inconclusive,
    /// 50: cancelled.
    Cancelled,
}

impl Exit {
    /// All exit codes.
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

    /// Returns the exit code of the process.
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

    /// Returns the meaning, in one sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Done => "success",
            Self::Unexpected => "an internal error",
            Self::Usage => "wrong use",
            Self::Definition => "an invalid definition",
            Self::Verification => "verification failed",
            Self::Unestablished => "consistent, but the signer is not established",
            Self::Environment => "the environment failed",
            Self::Regression => "the gate found a regression",
            Self::Inconclusive => "a gate or a search could not decide",
            Self::Cancelled => "cancelled",
        }
    }

    /// Parses the exit code of a process; unknown codes are `Unexpected`.
    pub fn from_code(code: i32) -> Self {
        Self::ALL.into_iter().find(|exit| i32::from(exit.code()) == code).unwrap_or(Self::Unexpected)
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_distinct_and_come_back() {
        for exit in Exit::ALL {
            assert_eq!(Exit::from_code(i32::from(exit.code())), exit);
        }
        assert_eq!(Exit::from_code(137), Exit::Unexpected);
        assert_eq!(Exit::from_code(-1), Exit::Unexpected);
    }
}
