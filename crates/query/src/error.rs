//! The errors of queries.

use std::any::Any;
use std::path::PathBuf;

use assay_manifest::Digest;

use crate::QueryError;

/// Another library's error.
type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The reason why a query has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] assay_store::Error),
    /// There is no such table.
    #[error("there is no table `{0}` in the warehouse")]
    NoTable(String),
    /// A curated file differs from its Summary.
    #[error("curated file {digest} of table `{table}` is not what its Summary says: {problem}")]
    BadFile {
        /// The table.
        table: String,
        /// The file.
        digest: Digest,
        /// The difference.
        problem: String,
    },
    /// The query failed.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The query names a table that was not opened for it.
    #[error("the query reads table `{0}`, which was not opened for it")]
    NotOpened(String),
    /// The query names a table of foreign evidence, and may not read one.
    #[error("the query reads `{0}`, whose numbers Assay did not measure")]
    Foreign(&'static str),
    /// A result cannot be written as Parquet.
    #[error("failed to write the result")]
    Write(#[source] Cause),
    /// A resource of the query cannot be created.
    #[error("failed to start what carries the query")]
    Start(#[source] std::io::Error),
    /// The program that executes queries is not installed.
    #[error("the query engine `{}` is missing", .0.display())]
    NoProgram(PathBuf),
    /// The program that executes queries cannot be run.
    #[error("failed to run the query engine")]
    Program(#[source] assay_process::Error),
}

impl Error {
    /// Returns true if bytes are not those that a verified manifest names: exit 20.
    pub fn fails_verification(&self) -> bool {
        use assay_store::Error as Store;
        matches!(self, Self::BadFile { .. } | Self::Store(Store::Absent { .. } | Store::Corrupt { .. } | Store::NotPlain { .. }))
    }

    /// Returns advice for a person, if there is any.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Store(error) => error.hint(),
            Self::Query(error) => error.hint(),
            Self::Foreign(_) => Some("`assay query --foreign` reads the tables of foreign evidence; a published query cannot"),
            Self::NoProgram(_) => Some("it lies beside the other binaries; build it with `cargo build --workspace --bins`"),
            _ => None,
        }
    }
}

/// Returns the message of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no reason given").chars().take(300).collect()
}
