//! A limit on the bytes of one row, for readers that would hold a whole row in memory however long it is.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use crate::{DatasetError, MAX_ROW_BYTES};

/// A reader that fails once more than its limit, [`MAX_ROW_BYTES`] if no other is given, was read since the last row.
pub(super) struct Limited<R> {
    source: R,
    left: RowBudget,
}

/// The bytes that the current row may still have.
#[derive(Clone)]
pub(super) struct RowBudget {
    left: Rc<Cell<u64>>,
    limit: u64,
}

impl RowBudget {
    /// Begins a row.
    pub(super) fn reset(&self) {
        self.left.set(self.limit);
    }

    /// Returns the error of a row that is too long.
    pub(super) fn too_large(&self, row: u64) -> DatasetError {
        if self.limit == MAX_ROW_BYTES { DatasetError::RowTooLarge(row) } else { DatasetError::SessionTooLarge(row) }
    }

    /// Returns true if the row was too long.
    pub(super) fn is_spent(&self) -> bool {
        self.left.get() == 0
    }
}

impl<R> Limited<R> {
    pub(super) fn new(source: R) -> Self {
        Self::with_limit(source, MAX_ROW_BYTES)
    }

    pub(super) fn with_limit(source: R, limit: u64) -> Self {
        Self { source, left: RowBudget { left: Rc::new(Cell::new(limit)), limit } }
    }

    pub(super) fn budget(&self) -> RowBudget {
        self.left.clone()
    }
}

/// Takes a line with its number.
type TakeLine<'a> = dyn FnMut(u64, &[u8]) -> Result<(), DatasetError> + 'a;

impl<R: BufRead> Limited<R> {
    /// Passes each line to `take` with its number, from 1.
    pub(super) fn lines(mut self, take: &mut TakeLine<'_>) -> Result<(), DatasetError> {
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            self.left.reset();
            let read = self.read_until(b'\n', &mut line);
            if self.left.is_spent() {
                return Err(self.left.too_large(number));
            }
            if read.map_err(DatasetError::Read)? == 0 {
                break;
            }
            take(number, &line)?;
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let length = available.len().min(buffer.len());
        buffer[..length].copy_from_slice(&available[..length]);
        self.consume(length);
        Ok(length)
    }
}

impl<R: BufRead> BufRead for Limited<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.left.is_spent() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a row is too long"));
        }
        let available = self.source.fill_buf()?;
        let within = usize::try_from(self.left.left.get()).unwrap_or(usize::MAX).min(available.len());
        Ok(&available[..within])
    }

    fn consume(&mut self, amount: usize) {
        self.left.left.set(self.left.left.get().saturating_sub(amount as u64));
        self.source.consume(amount);
    }
}
