//! The reasons why a recording cannot be read.

use std::io;

use assay_failure::ErrorCode;

/// The reason why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read, or its bytes cannot be unpacked.
    #[error("cannot read back the recording `{name}`")]
    Read {
        /// The recording.
        name: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The decoder cannot be created.
    #[error("cannot unpack the recording `{name}`")]
    Unpack {
        /// The recording.
        name: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A line is longer than any reading.
    #[error("line {line} of `{name}` is longer than the limit of {limit} bytes")]
    LongLine {
        /// The recording.
        name: String,
        /// The number of the line, from 1.
        line: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A line is not a reading of its source.
    #[error("line {line} of `{name}` is no reading")]
    NoReading {
        /// The recording.
        name: String,
        /// The number of the line, from 1.
        line: u64,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// The recording states another number of readings than its file has.
    #[error("`{name}` has {found} readings, and its recording says {stated}")]
    ReadingCount {
        /// The recording.
        name: String,
        /// The number of readings in the file, or `more`.
        found: String,
        /// The number that the recording states.
        stated: u64,
    },
}

impl Error {
    /// Returns the error code of a failure for this reason.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Read { .. } => ErrorCode::Scratch,
            Self::Unpack { .. } => ErrorCode::Zstd,
            Self::LongLine { .. } | Self::NoReading { .. } | Self::ReadingCount { .. } => ErrorCode::Recording,
        }
    }
}

/// The reason why the recordings of a run cannot be read.
#[derive(Debug)]
pub enum ReadError<E> {
    /// The caller's own error: it cannot open the recording, or refuses a line.
    Caller(E),
    /// The recording cannot be read.
    Recording(Error),
}

impl<E> From<Error> for ReadError<E> {
    fn from(error: Error) -> Self {
        Self::Recording(error)
    }
}

impl<E> ReadError<E> {
    /// Returns the caller's own error, or `convert` of a recording's.
    pub fn into_caller(self, convert: impl FnOnce(Error) -> E) -> E {
        match self {
            Self::Caller(error) => error,
            Self::Recording(error) => convert(error),
        }
    }
}
