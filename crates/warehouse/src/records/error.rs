//! The errors of records and their files.

use assay_record::UnknownWord;

/// The reason why a record or a file of records is refused.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A number is larger than a column holds.
    #[error("`{column}` of record {index} is {value}, beyond what its column holds")]
    TooLarge {
        /// The column.
        column: &'static str,
        /// The record's place in the file, from 0.
        index: u64,
        /// The number.
        value: i128,
    },
    /// A record has more token events than allowed.
    #[error("record {index} has {found} token events, more than {}", super::MAX_CHUNKS)]
    TooManyChunks {
        /// The record's place in the file, from 0.
        index: u64,
        /// The number of token events.
        found: usize,
    },
    /// The file cannot be written.
    #[error("failed to write records")]
    Write(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The bytes are not a Parquet file that can be read.
    #[error("the file of records cannot be read")]
    Malformed(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The file's columns are not those of records.
    #[error("the file is not one of records: {0}")]
    WrongSchema(String),
    /// The file declares that it holds more than allowed.
    #[error("a file of records gives more than {limit} {what}")]
    TooMany {
        /// The quantity that is too large.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// A word of a record is not one of its list.
    #[error("record {index} of the file is not valid")]
    Word {
        /// The record's place in the file, from 0.
        index: u64,
        /// The word.
        #[source]
        source: UnknownWord,
    },
    /// A value of a record is not one that the writer makes.
    #[error("`{column}` of record {index} is not valid: {problem}")]
    Value {
        /// The column.
        column: &'static str,
        /// The record's place in the file, from 0.
        index: u64,
        /// The problem.
        problem: &'static str,
    },
    /// The requested column was not read with the batch.
    #[error("the batch was read without the column `{0}`")]
    NotRead(&'static str),
}
