//! The errors of rows and curated files.

use assay_failure::ErrorCode;
use assay_manifest::CanonicalError;

use crate::Type;

/// The Parquet library's own error.
type Cause = Box<dyn std::error::Error + Send + Sync>;

/// The reason why a row or a file is refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The table has no such column.
    #[error("table `{table}` has no column `{column}`")]
    UnknownColumn {
        /// The table.
        table: &'static str,
        /// The requested column.
        column: String,
    },
    /// The value is not of the column's type.
    #[error("column `{table}.{column}` holds {expected}, not {found}")]
    WrongType {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The column's type.
        expected: Type,
        /// The kind of the value.
        found: &'static str,
    },
    /// The value is NaN or infinite; a number that is not known is null.
    #[error("column `{table}.{column}` got a number that is not finite")]
    NotFinite {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
    },
    /// The text is longer than any column holds.
    #[error("column `{table}.{column}` got a text of {bytes} bytes, more than {limit}")]
    TextTooLong {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// Its length in bytes.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A column that may not be null has no value.
    #[error("column `{table}.{column}` has no value and may not be null")]
    MissingValue {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
    },
    /// The row belongs to another table.
    #[error("a row of table `{found}` was given to table `{expected}`")]
    WrongTable {
        /// The table of the file.
        expected: &'static str,
        /// The table of the row.
        found: &'static str,
    },
    /// The row's id is not the digest of its key columns.
    #[error("a row of table `{table}` says that its id is `{found}`, but its key columns give `{expected}`")]
    WrongRowId {
        /// The table.
        table: &'static str,
        /// The digest of the key columns.
        expected: String,
        /// The id in the row.
        found: String,
    },
    /// The key columns have no canonical form.
    #[error("the key columns of a row of table `{table}` have no canonical form")]
    Key {
        /// The table.
        table: &'static str,
        /// The reason.
        #[source]
        source: CanonicalError,
    },
    /// The file cannot be written.
    #[error("failed to write a file of table `{table}`")]
    Write {
        /// The table.
        table: &'static str,
        /// The library's error.
        #[source]
        source: Cause,
    },
    /// The bytes are not a Parquet file that can be read.
    #[error("a file of table `{table}` cannot be read")]
    Malformed {
        /// The table.
        table: &'static str,
        /// The library's error.
        #[source]
        source: Cause,
    },
    /// The file's columns are not the table's.
    #[error("the file is not one of table `{table}`: {problem}")]
    WrongSchema {
        /// The table.
        table: &'static str,
        /// The first difference.
        problem: String,
    },
    /// The file, or the result, is larger than allowed.
    #[error("a file of table `{table}` gives more than {limit} {what}")]
    TooMany {
        /// The table.
        table: &'static str,
        /// The quantity that is too large.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The text cannot be the beginning of a row id.
    #[error("`{0}` is not the beginning of a row id: expected 1 to 64 lower-case hexadecimal digits")]
    BadPrefix(String),
}

impl Error {
    /// Returns the stable code of the error for readers of files: a file that is too large has another code than one that is
    /// wrong.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::TooMany { .. } | Self::TextTooLong { .. } => ErrorCode::ParquetTooLarge,
            _ => ErrorCode::Rows,
        }
    }
}
