//! Failures for the person who can act on them: a code, what happened, why, and what to try.

use std::error::Error;
use std::path::Path;
use std::{fmt, io};

use serde::{Deserialize, Serialize};

use crate::{ErrorCode, Exit, Retry};

/// The most causes that a failure prints: a person reads the first ones, and nested input may have any number.
const MAX_SHOWN_CAUSES: usize = 10;

/// The reason why a stage or command failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of failure.
    pub exit: Exit,
    /// The stable code, such as `store_absent`.
    pub code: ErrorCode,
    /// The event, with the name of the thing that failed.
    pub message: String,
    /// The chain of causes, the nearest first.
    pub causes: Vec<String>,
    /// A suggestion for the reader.
    pub hint: Option<String>,
    /// True if the same call would fail again until something is changed: an immediate retry is useless.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lasting: bool,
}

/// Returns an error and its causes as one line, the error first.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

impl Failure {
    /// Creates a failure from its code, which gives the exit code and the retry class, and its message.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let lasting = code.exit() == Exit::Environment && code.retry() == Retry::Lasting;
        Self { exit: code.exit(), code, message: message.into(), causes: Vec::new(), hint: None, lasting }
    }

    /// Returns the failure with another exit code: the same failure means something else to another caller.
    #[must_use]
    pub fn with_exit(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    /// Creates the failure of a cancelled command.
    pub fn cancelled(why: impl Into<String>) -> Self {
        Self::new(ErrorCode::Cancelled, why)
    }

    /// Adds the chain of causes of an error, the error itself first. Errors that pass on the text of their source would repeat it: each
    /// text is added once.
    #[must_use]
    pub fn because(mut self, error: &(dyn Error + 'static)) -> Self {
        let mut next = Some(error);
        while let Some(error) = next {
            let text = error.to_string();
            if !self.causes.contains(&text) {
                self.causes.push(text);
            }
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

    /// Adds a suggestion, if there is one.
    #[must_use]
    pub fn hint_if(self, hint: Option<impl Into<String>>) -> Self {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }

    /// Returns the failure with the remedy of its code as suggestion, if it has no other: neither a hint, nor problems with
    /// hints. A cancelled command needs none.
    #[must_use]
    pub fn or_remedy(self) -> Self {
        let remedy = self.code.remedy().trim_end_matches('.');
        if self.hint.is_some() || remedy.is_empty() || self.exit == Exit::Cancelled || self.message.contains("\nhint: ") {
            return self;
        }
        // A hint begins with a small letter.
        let mut letters = remedy.chars();
        let first = letters.next().into_iter().flat_map(char::to_lowercase);
        let hint = first.chain(letters).collect::<String>();
        self.hint(hint)
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

    /// Creates a failure of invalid definitions; the message shows every problem, as its `Display` writes it.
    pub fn invalid(problems: &[impl fmt::Display]) -> Self {
        let count = match problems.len() {
            1 => "a problem".to_owned(),
            count => format!("{count} problems"),
        };
        let shown = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n\n");
        Self::new(ErrorCode::DefinitionInvalid, format!("the definitions have {count}\n\n{}", shown.trim_end()))
    }

    /// Wraps the error of a write to a file or below a folder: a full disk has a code of its own.
    pub fn from_write(code: ErrorCode, path: &Path, error: &(dyn Error + 'static)) -> Self {
        if is_disk_full(error) {
            return Self::new(ErrorCode::DiskFull, format!("no space is left on the disk of `{}`", path.display()))
                .because(error);
        }
        Self::from_error(code, error)
    }

    /// Says that a file cannot be written, and why: a full disk has a code of its own.
    pub fn unwritable(code: ErrorCode, path: &Path, error: &std::io::Error) -> Self {
        match Self::from_write(code, path, error) {
            full @ Self { code: ErrorCode::DiskFull, .. } => full,
            _ if error.kind() == io::ErrorKind::FileTooLarge => {
                Self::new(code, format!("`{}` would be too large", path.display()))
                    .because(error)
                    .hint("raise the limit of the size of files, such as with `ulimit -f unlimited`")
            }
            _ => Self::new(code, format!("cannot write `{}`", path.display())).because(error),
        }
    }

    /// Wraps an error whose own message says what happened.
    pub fn from_error(code: ErrorCode, error: &(dyn Error + 'static)) -> Self {
        let mut failure = Self::new(code, error.to_string());
        if let Some(source) = error.source() {
            failure = failure.because(source);
        }
        failure
    }
}

/// Returns true if an error, or a cause of it, is that a file has no space left on its disk.
pub fn is_disk_full(error: &(dyn Error + 'static)) -> bool {
    let is_full = |error: &(dyn Error + 'static)| {
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        matches!(kind, Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    };
    let mut next = Some(error);
    while let Some(error) = next {
        if is_full(error) {
            return true;
        }
        next = error.source();
    }
    false
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.code, self.message)?;
        for cause in self.causes.iter().take(MAX_SHOWN_CAUSES) {
            write!(f, "\n  because: {cause}")?;
        }
        let more = self.causes.len().saturating_sub(MAX_SHOWN_CAUSES);
        if more > 0 {
            write!(f, "\n  and {more} more")?;
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

    #[derive(Debug, thiserror::Error)]
    #[error("the disk is full")]
    struct DiskFull;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot write `rows.parquet`")]
    struct WriteFailed(#[source] DiskFull);

    #[test]
    fn a_failure_tells_a_person_what_why_and_what_to_try() {
        let failure =
            Failure::new(ErrorCode::Scratch, "the rows were not kept").because(&WriteFailed(DiskFull)).hint("make room");
        insta::assert_snapshot!(failure, @r"
        error[scratch]: the rows were not kept
          because: cannot write `rows.parquet`
          because: the disk is full

        hint: make room
        ");
        insta::assert_snapshot!(Failure::cancelled("SIGINT"), @"error[cancelled]: SIGINT");
    }

    #[test]
    fn a_failure_without_a_hint_gets_the_remedy_of_its_code() {
        let hint = |failure: Failure| failure.or_remedy().hint;
        assert_eq!(hint(Failure::new(ErrorCode::NoSuchRow, "m")).as_deref(), Some("check the digits of the row id"));
        assert_eq!(hint(Failure::new(ErrorCode::NoSuchRow, "m").hint("its own")).as_deref(), Some("its own"));
        assert_eq!(hint(Failure::new(ErrorCode::NoSuchBlock, "m")), None, "the code has no remedy");
        assert_eq!(hint(Failure::cancelled("SIGINT")), None);
        assert_eq!(hint(Failure::new(ErrorCode::DefinitionInvalid, "a problem\n\nhint: remove it")), None);
        let begins_well = |code: &ErrorCode| {
            let hint = hint(Failure::new(*code, "m")).unwrap_or_default();
            !hint.starts_with(char::is_uppercase) && !hint.ends_with('.')
        };
        assert!(ErrorCode::ALL.iter().all(begins_well));
    }

    #[test]
    fn a_disk_without_space_is_named_however_deep_its_error_is() {
        #[derive(Debug)]
        struct NotKept(io::Error);
        impl fmt::Display for NotKept {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("failed to keep a record")
            }
        }
        impl Error for NotKept {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.0)
            }
        }
        let failure = |kind: io::ErrorKind| {
            Failure::from_write(ErrorCode::Load, Path::new("/scratch"), &NotKept(io::Error::new(kind, "it was not written")))
        };
        insta::assert_snapshot!(failure(io::ErrorKind::StorageFull), @r"
        error[disk_full]: no space is left on the disk of `/scratch`
          because: failed to keep a record
          because: it was not written
        ");
        assert_eq!(failure(io::ErrorKind::QuotaExceeded).code, ErrorCode::DiskFull);
        insta::assert_snapshot!(failure(io::ErrorKind::PermissionDenied), @r"
        error[load]: failed to keep a record
          because: it was not written
        ");
    }

    #[test]
    fn a_cause_that_repeats_its_source_is_printed_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("{0}")]
        struct Repeating(#[source] WriteFailed);
        let failure = Failure::new(ErrorCode::Scratch, "the rows were not kept").because(&Repeating(WriteFailed(DiskFull)));
        assert_eq!(failure.causes, ["cannot write `rows.parquet`", "the disk is full"]);
    }

    #[test]
    fn of_many_causes_the_first_ones_are_printed() {
        let causes: Vec<String> = (1..=MAX_SHOWN_CAUSES + 63).map(|number| format!("cause {number}")).collect();
        let failure = Failure { causes, ..Failure::new(ErrorCode::Scratch, "m").hint("h") };
        let text = failure.to_string();
        assert!(text.ends_with("\n  because: cause 10\n  and 63 more\n\nhint: h"), "{text}");
    }

    #[test]
    fn a_wrapped_error_is_not_said_twice() {
        insta::assert_snapshot!(Failure::from_error(ErrorCode::Scratch, &WriteFailed(DiskFull)), @r"
        error[scratch]: cannot write `rows.parquet`
          because: the disk is full
        ");
    }

    #[test]
    fn only_the_world_is_tried_again_and_not_where_it_stays_as_it_is() {
        assert!(Failure::new(ErrorCode::Unreachable, "m").is_worth_a_retry());
        assert!(!Failure::new(ErrorCode::Unreachable, "m").lasting().is_worth_a_retry());
        assert!(!Failure::new(ErrorCode::DefinitionInvalid, "m").is_worth_a_retry());
        let json = |failure: &Failure| serde_json::to_string(failure).expect("JSON");
        let lasting = Failure::new(ErrorCode::Unreachable, "m").lasting();
        assert_eq!(serde_json::from_str::<Failure>(&json(&lasting)).expect("read back"), lasting);
        assert!(!json(&Failure::new(ErrorCode::Unreachable, "m")).contains("lasting"), "it is said where it is so");
    }

    #[test]
    fn each_kind_of_failure_has_its_exit() {
        let codes = [
            Failure::new(ErrorCode::Internal, "m"),
            Failure::new(ErrorCode::Address, "m"),
            Failure::new(ErrorCode::DefinitionInvalid, "m"),
            Failure::new(ErrorCode::RowDiffers, "m"),
            Failure::new(ErrorCode::Unreachable, "m"),
        ];
        assert_eq!(codes.map(|failure| failure.exit.code()), [1, 2, 10, 20, 30]);
        assert_eq!(Failure::cancelled("c").exit.code(), 50);
    }
}
