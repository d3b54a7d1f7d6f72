//! The reasons why a dataset cannot be imported.

use assay_manifest::DatasetFormat;

/// The reason why a dataset cannot be imported. Rows are counted from 1, as lines of a file are.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The file cannot be read.
    #[error("the file cannot be read")]
    Read(#[source] std::io::Error),
    /// The imported rows cannot be written.
    #[error("the imported rows cannot be written")]
    Write(#[source] std::io::Error),
    /// The file as a whole is not of its format.
    #[error("the file is not {expected}: {reason}")]
    Format {
        /// The format, with its article.
        expected: &'static str,
        /// The difference.
        reason: String,
    },
    /// The file is Parquet, and its format is one of text.
    #[error("the file is Parquet, and its format is stated as `{0}`, which is text")]
    NotText(DatasetFormat),
    /// A row is not of the format.
    #[error("row {row} {problem}")]
    Row {
        /// The row.
        row: u64,
        /// The problem, without any text of the row.
        problem: String,
    },
    /// A row is larger than any request.
    #[error("row {0} has more than {MAX_MIB} MiB", MAX_MIB = crate::MAX_ROW_BYTES >> 20)]
    RowTooLarge(u64),
    /// A row has more values than any request.
    #[error("row {row} has more than {most} values")]
    TooManyValues {
        /// The row.
        row: u64,
        /// The most values.
        most: usize,
    },
    /// A row that is a whole session of a trace is too large.
    #[error("row {0} has more than {MAX_MIB} MiB", MAX_MIB = crate::import::MAX_SESSION_BYTES >> 20)]
    SessionTooLarge(u64),
    /// A prompt is longer than the workload allows, and the workload refuses such prompts.
    #[error("the prompt of row {row} has {tokens} tokens, more than `max_input`, which is {max}")]
    TooLong {
        /// The row.
        row: u64,
        /// Its tokens.
        tokens: u64,
        /// The limit.
        max: u32,
    },
    /// The prompt of a turn is longer than the workload allows, and the workload refuses such prompts.
    #[error(
        "turn {turn} of row {row} has a prompt of {tokens} tokens with all that was said before, more than `max_input`, which is {max}"
    )]
    TurnTooLong {
        /// The row.
        row: u64,
        /// The turn, counted from 1.
        turn: u64,
        /// Its tokens, those of earlier messages and responses included.
        tokens: u64,
        /// The limit.
        max: u32,
    },
    /// The format has no conversations.
    #[error(
        "the format `{0}` has no conversations: with `sessions`, a dataset is `sharegpt`, or `jsonl` with `messages` in each row"
    )]
    NoConversations(DatasetFormat),
    /// The format consists of sessions, and the workload has none.
    #[error("the format `{0}` has sessions, which are played as such: add `sessions: {{}}`")]
    NeedsSessions(DatasetFormat),
    /// The sessions of a trace that must be put in order have too much content.
    #[error(
        "the prompts of the trace have more than {} MiB, and its sessions are put in order in memory: take a part of them, by `sample`",
        crate::session::MAX_HELD_BYTES >> 20
    )]
    TooMuchHeld,
    /// The API cannot take the content of a row.
    #[error("row {row} has {content}, which `api: {api}` cannot take")]
    Api {
        /// The row.
        row: u64,
        /// The kind of content, such as `messages`.
        content: &'static str,
        /// The API.
        api: &'static str,
    },
    /// More rows than an index may have.
    #[error("the dataset has more than {} rows", crate::MAX_ROWS)]
    TooManyRows,
    /// More blocks than are told apart.
    #[error(
        "the trace has more than {} different blocks or prefixes of blocks: use a part of it, by `sample`",
        crate::MAX_BLOCKS
    )]
    TooManyBlocks,
    /// The rows have far more text than their file has bytes.
    #[error(
        "with row {row}, the imported rows have more than {} MiB, the most for a file of its size: use a part of it, or a file that is not compressed",
        most >> 20
    )]
    TooMuchText {
        /// The row.
        row: u64,
        /// The most bytes of all rows.
        most: u64,
    },
    /// The import was stopped before a row.
    #[error("the import was stopped before row {0}")]
    Stopped(u64),
    /// No row is left.
    #[error("the dataset has no prompt: {0}")]
    Empty(String),
    /// No request of a trace is left.
    #[error("the trace has no request to replay: {0}")]
    EmptyTrace(String),
    /// A text could not be counted by the tokenizer.
    #[error("the tokens of row {row} cannot be counted: {reason}")]
    Tokens {
        /// The row.
        row: u64,
        /// The reason.
        reason: String,
    },
}

impl DatasetError {
    /// Returns the error of one row.
    pub(crate) fn row(row: u64, problem: impl Into<String>) -> Self {
        Self::Row { row, problem: problem.into() }
    }
}
