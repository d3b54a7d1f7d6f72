//! Failures of Assay's programs, with their exit codes and error codes: one table, from which messages, retries and the reference
//! page derive.
//!
//! An error code belongs to one exit code and one retry class. A new kind of failure is one row of `codes.rs`. The crate depends on
//! no other of Assay's, so that any crate can convert its errors into a [`Failure`].

/// Defines [`ErrorCode`] from rows of variant, code, exit, retry class, meaning and remedy.
macro_rules! error_codes {
    ($($variant:ident, $code:literal, $exit:ident, $retry:ident, $meaning:literal, $remedy:literal;)+) => {
        /// The stable code of a failure, printed as `error[code]`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorCode {
            $(#[doc = $meaning] $variant,)+
        }

        impl ErrorCode {
            /// All codes, by exit code and then by name.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Returns the code as it is printed and serialised, such as `store_absent`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $code,)+
                }
            }

            /// Returns the exit code of a program that ends with this failure.
            pub fn exit(self) -> Exit {
                match self {
                    $(Self::$variant => Exit::$exit,)+
                }
            }

            /// Returns the retry class, unless a failure states another one.
            pub fn retry(self) -> $crate::Retry {
                match self {
                    $(Self::$variant => $crate::Retry::$retry,)+
                }
            }

            /// Returns the meaning, in one sentence.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => $meaning,)+
                }
            }

            /// Returns the remedy, in one imperative sentence; empty if there is none.
            pub fn remedy(self) -> &'static str {
                match self {
                    $(Self::$variant => $remedy,)+
                }
            }
        }
    };
}

mod codes;
mod exit;
mod failure;
mod reference;

pub use codes::ErrorCode;
pub use exit::Exit;
pub use failure::{Failure, is_disk_full, with_causes};
pub use reference::reference_page;

/// Returns the first `most` names of a list and the number of the others, as in `a, b and 2 more`; empty if there are none.
pub fn first_names<S: AsRef<str>>(names: &[S], most: usize) -> String {
    let (first, others) = names.split_at(names.len().min(most));
    let first = first.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    if others.is_empty() { first } else { format!("{first} and {} more", others.len()) }
}

/// The hint for a run that has not come to its end.
pub const RESUME_HINT: &str = "repeat the command that began the run, with its `--run-id`: what is finished is kept";

/// The use of trying the same call again after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The same call may succeed if it is tried again at once.
    AtOnce,
    /// The same call fails again until its cause is removed.
    Lasting,
}

impl ErrorCode {
    /// Returns the code that is printed as `text`; `None` if this version has no such code.
    pub fn find(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl serde::Serialize for ErrorCode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A code of another version is read as [`ErrorCode::UnknownError`]: its message still says what happened.
impl<'de> serde::Deserialize<'de> for ErrorCode {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Ok(Self::find(&text).unwrap_or(Self::UnknownError))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_long_list_is_named_in_part() {
        let names = ["a", "b", "c"];
        assert_eq!(
            [first_names::<&str>(&[], 2), first_names(&names, 3), first_names(&names, 2)],
            ["", "a, b, c", "a, b and 1 more"]
        );
    }

    #[test]
    fn every_code_is_there_once_and_is_found_again() {
        let codes: BTreeSet<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(codes.len(), ErrorCode::ALL.len());
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::find(code.as_str()), Some(*code));
        }
        assert_eq!(ErrorCode::find("no_such_code"), None);
    }

    #[test]
    fn meanings_and_remedies_are_whole_sentences() {
        for code in ErrorCode::ALL {
            assert!(code.meaning().starts_with(|first: char| !first.is_lowercase()) && code.meaning().ends_with('.'), "{code}");
            assert!(code.remedy().is_empty() || code.remedy().ends_with('.'), "{code}");
            let is_plain = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_';
            assert!(code.as_str().chars().all(is_plain), "{code}");
        }
    }

    #[test]
    fn only_failures_of_the_environment_are_worth_a_retry_at_once() {
        let retried = ErrorCode::ALL.iter().filter(|code| code.retry() == Retry::AtOnce);
        assert!(retried.into_iter().all(|code| code.exit() == Exit::Environment));
    }
}
