//! The error of parsing a statement.

use crate::predicate::STATEMENT_TYPE;

/// The error of parsing a statement.
#[derive(Debug, thiserror::Error)]
pub enum StatementError {
    /// The bytes are not JSON, or do not have the members of a statement.
    #[error("the statement does not parse")]
    Malformed(#[source] serde_json::Error),
    /// The bytes are not in canonical form.
    #[error("the statement is not in canonical form")]
    NotCanonical,
    /// The statement format is unknown.
    #[error("the statement has type `{0}`; this build reads `{STATEMENT_TYPE}`")]
    UnknownType(String),
    /// The predicate type is not one that manifests are signed with.
    #[error("the statement has predicate type `{0}`, which this build does not read")]
    UnknownPredicateType(String),
    /// The build type belongs to no role of Assay.
    #[error("the statement has build type `{0}`, which this build does not read")]
    UnknownBuildType(String),
    /// A member is missing or malformed.
    #[error("the statement's `{0}` is missing or malformed")]
    Field(&'static str),
    /// A list is longer than its limit.
    #[error("the statement has {found} {what}, more than the limit of {limit}")]
    TooMany {
        /// The items of the list.
        what: &'static str,
        /// Their number.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// Two subjects share a name.
    #[error("the statement names the subject `{0}` twice")]
    DuplicateSubject(String),
    /// A resource descriptor names nothing, or is malformed.
    #[error("the statement's dependency `{name}` is malformed: {problem}")]
    Descriptor {
        /// Its name, as far as it has one.
        name: String,
        /// The problem.
        problem: &'static str,
    },
}
