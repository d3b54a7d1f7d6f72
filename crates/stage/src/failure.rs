//! Failures for the person who can act on them: a code, what happened, why, and what to try.

use std::error::Error;
use std::fmt;

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

/// The reason why a stage or command failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of failure.
    pub exit: Exit,
    /// A stable identifier, such as `store_absent`.
    pub code: String,
    /// What happened, with the name of the thing.
    pub message: String,
    /// The chain of causes, the nearest first.
    pub causes: Vec<String>,
    /// A suggestion for the reader.
    pub hint: Option<String>,
    /// True if the same call would fail again until something is changed: an immediate retry is useless.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lasting: bool,
}

impl Failure {
    /// Creates a failure from its kind, code and message.
    pub fn new(exit: Exit, code: &str, message: impl Into<String>) -> Self {
        Self { exit, code: code.to_owned(), message: message.into(), causes: Vec::new(), hint: None, lasting: false }
    }

    /// Creates a failure of the environment, which a retry may fix unless it is marked as lasting.
    pub fn environment(code: &str, message: impl Into<String>) -> Self {
        Self::new(Exit::Environment, code, message)
    }

    /// Creates a failure of a definition that is invalid.
    pub fn definition(code: &str, message: impl Into<String>) -> Self {
        Self::new(Exit::Definition, code, message)
    }

    /// Creates a failure of a signature, digest or link that does not hold.
    pub fn verification(code: &str, message: impl Into<String>) -> Self {
        Self::new(Exit::Verification, code, message)
    }

    /// Creates a failure of a command that cannot be understood, or contradicts the existing state.
    pub fn usage(code: &str, message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, code, message)
    }

    /// Creates a failure of an unexpected kind.
    pub fn unexpected(code: &str, message: impl Into<String>) -> Self {
        Self::new(Exit::Unexpected, code, message)
    }

    /// Creates the failure of a cancelled command.
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

    /// Adds a suggestion.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Marks the failure as lasting: an immediate retry is useless.
    #[must_use]
    pub fn lasting(mut self) -> Self {
        self.lasting = true;
        self
    }

    /// Returns true if an immediate retry of the same call may succeed.
    pub fn is_worth_a_retry(&self) -> bool {
        self.exit == Exit::Environment && !self.lasting
    }

    /// Creates a failure of invalid definitions; the message shows every problem with its location.
    pub fn invalid(problems: &[assay_spec::Problem]) -> Self {
        let count = match problems.len() {
            1 => "a problem".to_owned(),
            count => format!("{count} problems"),
        };
        let shown = assay_spec::render(problems);
        Self::definition("definition_invalid", format!("the definitions have {count}\n\n{}", shown.trim_end()))
    }

    /// Creates a failure of a key file that cannot be unlocked.
    pub fn locked_key(path: &std::path::Path, error: &assay_envelope::KeyError) -> Self {
        let failure = Self::environment("key_locked", format!("cannot unlock the key `{}`", path.display())).because(error);
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }

    /// Wraps an error whose own message says what happened.
    pub fn from_error(exit: Exit, code: &str, error: &(dyn Error + 'static)) -> Self {
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
        assert_eq!(Exit::from_code(-1), Exit::Unexpected);
    }

    #[test]
    fn a_manifest_of_another_format_is_no_tampering() {
        let source = assay_manifest::DocumentError::UnknownVersion("v0".to_owned());
        let (kind, writer) = (assay_manifest::Kind::Summary, "Assay 0.0.1 (program sha256:00)".to_owned());
        let failure = Failure::from(assay_envelope::VerifyError::OldFormat { kind, writer, source });
        assert_eq!((failure.exit, failure.code.as_str()), (Exit::Environment, "old_format"));
        insta::assert_snapshot!(failure.message, @"the summary is of another format than this Assay reads; Assay 0.0.1 (program sha256:00) signed it");
    }

    #[derive(Debug, thiserror::Error)]
    #[error("the disk is full")]
    struct DiskFull;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot write `rows.parquet`")]
    struct WriteFailed(#[source] DiskFull);

    #[test]
    fn a_failure_tells_a_person_what_why_and_what_to_try() {
        let failure = Failure::environment("scratch", "the rows were not kept").because(&WriteFailed(DiskFull)).hint("make room");
        insta::assert_snapshot!(failure, @r"
        error[scratch]: the rows were not kept
          because: cannot write `rows.parquet`
          because: the disk is full

        hint: make room
        ");
        insta::assert_snapshot!(Failure::cancelled("SIGINT"), @"error[cancelled]: SIGINT");
    }

    #[test]
    fn a_wrapped_error_is_not_said_twice() {
        insta::assert_snapshot!(Failure::from_error(Exit::Environment, "scratch", &WriteFailed(DiskFull)), @r"
        error[scratch]: cannot write `rows.parquet`
          because: the disk is full
        ");
    }

    #[test]
    fn only_the_world_is_tried_again_and_not_where_it_stays_as_it_is() {
        assert!(Failure::environment("c", "m").is_worth_a_retry());
        assert!(!Failure::environment("c", "m").lasting().is_worth_a_retry());
        assert!(!Failure::definition("c", "m").is_worth_a_retry());
        let json = |failure: &Failure| serde_json::to_string(failure).expect("JSON");
        let lasting = Failure::environment("c", "m").lasting();
        assert_eq!(serde_json::from_str::<Failure>(&json(&lasting)).expect("read back"), lasting);
        assert!(!json(&Failure::environment("c", "m")).contains("lasting"), "it is said where it is so");
    }

    #[test]
    fn each_kind_of_failure_has_its_exit() {
        let codes = [
            Failure::unexpected("c", "m"),
            Failure::usage("c", "m"),
            Failure::definition("c", "m"),
            Failure::verification("c", "m"),
            Failure::environment("c", "m"),
        ];
        assert_eq!(codes.map(|failure| failure.exit.code()), [1, 2, 10, 20, 30]);
        assert_eq!(Failure::cancelled("c").exit.code(), 50);
    }
}
