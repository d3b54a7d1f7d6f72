//! Single rows of the imported file.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use crate::{Index, MAX_ROW_BYTES, RowContent};

/// The reason why a row cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    /// The file cannot be read at that place.
    #[error("a row of the dataset cannot be read")]
    Read(#[source] std::io::Error),
    /// The line is not a row.
    #[error("a line of the dataset's rows is not a row")]
    Malformed(#[source] serde_json::Error),
    /// The index has no such row.
    #[error("the dataset has no row {0}")]
    Absent(u64),
    /// The index states a line that no importer writes.
    #[error("the index of the dataset states a row of {0} bytes")]
    Size(u32),
}

/// A reader of single rows of a file of imported rows. Several threads may use it at once.
#[derive(Debug)]
pub struct RowReader {
    index: Arc<Index>,
    file: File,
}

impl RowReader {
    /// Creates the reader of a file of rows and of its index, whose digests were checked.
    pub fn new(index: Arc<Index>, file: File) -> Self {
        Self { index, file }
    }

    /// Returns the index.
    pub fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// Reads a row, counted from 0.
    pub fn read(&self, row: u64) -> Result<RowContent, RowError> {
        let row = self.index.row(row).ok_or(RowError::Absent(row))?;
        // The JSON of a row may be a little longer than its source.
        if u64::from(row.bytes) > 2 * MAX_ROW_BYTES {
            return Err(RowError::Size(row.bytes));
        }
        let mut line = vec![0; row.bytes as usize];
        self.file.read_exact_at(&mut line, row.offset).map_err(RowError::Read)?;
        serde_json::from_slice(&line).map_err(RowError::Malformed)
    }
}
