//! A file that several threads read at once: every read names its own position, and none moves another's.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// Bytes in memory or in a file.
#[derive(Clone, Debug)]
pub(super) enum PositionedFile {
    /// In memory.
    Bytes(Bytes),
    /// In a file, with its length.
    File(Arc<File>, u64),
}

impl Length for PositionedFile {
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File(_, length) => *length,
        }
    }
}

impl ChunkReader for PositionedFile {
    type T = BufReader<PositionedReader>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(BufReader::new(PositionedReader { source: self.clone(), position: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let end = start.checked_add(length as u64).filter(|end| *end <= self.len());
        let end = end.ok_or_else(|| ParquetError::EOF(format!("{length} bytes at {start} lie beyond the end")))?;
        match self {
            Self::Bytes(bytes) => Ok(bytes.slice(start as usize..end as usize)),
            Self::File(file, _) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, start)?;
                Ok(bytes.into())
            }
        }
    }
}

/// A reader with its own position.
#[derive(Debug)]
pub(super) struct PositionedReader {
    source: PositionedFile,
    position: u64,
}

impl Read for PositionedReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = match &self.source {
            PositionedFile::Bytes(bytes) => {
                let rest = bytes.get(usize::try_from(self.position).unwrap_or(usize::MAX)..).unwrap_or_default();
                let length = rest.len().min(into.len());
                into.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
                length
            }
            PositionedFile::File(file, _) => file.read_at(into, self.position)?,
        };
        self.position += read as u64;
        Ok(read)
    }
}
