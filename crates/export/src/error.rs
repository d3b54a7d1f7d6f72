//! Reasons why a run cannot be exported in a format.

/// A reason why a run cannot be exported in a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
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
    /// Two metrics have one name by the rules of the format.
    #[error("the metrics `{first}` and `{second}` have the same name in the format `{format}`")]
    SameName {
        /// The format.
        format: &'static str,
        /// A metric.
        first: String,
        /// Another one.
        second: String,
    },
    /// A document cannot be written as JSON.
    #[error("the file `{file}` cannot be written as JSON: {what}")]
    Json {
        /// The file.
        file: String,
        /// The reason.
        what: String,
    },
}
