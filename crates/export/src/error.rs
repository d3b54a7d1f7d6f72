//! Reasons why a run cannot be exported in a format.

use std::path::PathBuf;

/// A reason why a run cannot be exported in a format.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The format holds results of serving, and the run has none.
    #[error("the format `{0}` holds results of serving, and the run has none")]
    NoServing(&'static str),
    /// No trial counts, so there is no result.
    #[error("no trial of the run counts, so there is no result to export")]
    NoTrial,
    /// The format has no place for any load of the run.
    #[error("the format `{format}` holds {holds}, and the run has no such load")]
    NoLoad {
        /// The format.
        format: &'static str,
        /// The loads that it holds.
        holds: &'static str,
    },
    /// The records of a trial cannot be loaded.
    #[error("the records of a trial cannot be read")]
    Requests(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A file cannot be written.
    #[error("the file `{}` cannot be written", file.display())]
    Write {
        /// Its path within the folder.
        file: PathBuf,
        /// The reason.
        #[source]
        error: std::io::Error,
    },
}
