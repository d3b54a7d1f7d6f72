//! Passes records out: the loop fills batches, a writer thread passes them to the sink and returns their buffers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};

use assay_reactor::now_ns;
use assay_record::Record;
use sha2::{Digest as _, Sha256};

use crate::{Capture, Cause};

/// Records of one batch.
const BATCH: usize = 64;
/// The maximum batches in the writer's queue.
const QUEUE: usize = 16;
/// Batches that the loop keeps beside a full queue before it waits.
const RESERVE: usize = 64;
/// A batch is handed over after this long, even if it is not full.
pub(crate) const HAND_OVER_NS: i64 = 50_000_000;
/// Chunk lists and texts larger than this are freed.
const KEEP_CHUNKS: usize = 8 << 10;
const KEEP_TEXT: usize = 64 << 10;

/// A consumer of finished records, in the order in which they ended, on its own thread.
pub trait Sink: Send {
    /// Writes one record. `response` is the text of the response in UTF-8, under [`Capture::Full`]. An error ends the trial.
    fn record(&mut self, record: &Record, response: Option<&[u8]>) -> Result<(), Cause>;
}

/// A record and its text.
#[derive(Debug, Default)]
pub(crate) struct Row {
    pub(crate) record: Record,
    pub(crate) text: Vec<u8>,
}

impl Row {
    /// Empties the row but keeps its buffers.
    fn clear(&mut self) {
        let mut chunks = std::mem::take(&mut self.record.chunks);
        chunks.clear();
        if chunks.capacity() > KEEP_CHUNKS {
            chunks = Vec::new();
        }
        self.record = Record { chunks, ..Record::default() };
        self.text.clear();
        if self.text.capacity() > KEEP_TEXT {
            self.text = Vec::new();
        }
    }
}

/// Rows are boxed, because a record is several hundred bytes and rows are moved.
type Batch = Vec<Box<Row>>;

/// The loop's end of the queue.
pub(crate) struct Output {
    filled: Option<SyncSender<Batch>>,
    emptied: Receiver<Batch>,
    batch: Batch,
    batch_since_ns: i64,
    waiting: VecDeque<Batch>,
    spare: Batch,
    /// Times that the queue was full.
    pub(crate) stalls: u64,
    /// Time spent waiting for the queue.
    pub(crate) wait_ns: i64,
}

/// The writer's end of the queue.
pub(crate) struct Writer {
    filled: Receiver<Batch>,
    emptied: SyncSender<Batch>,
    capture: Capture,
}

/// Returns both ends of the queue.
pub(crate) fn output(capture: Capture) -> (Output, Writer) {
    let (filled, to_write) = sync_channel(QUEUE);
    let (give_back, emptied) = sync_channel(QUEUE);
    let output = Output {
        filled: Some(filled),
        emptied,
        batch: Vec::with_capacity(BATCH),
        batch_since_ns: 0,
        waiting: VecDeque::new(),
        spare: Vec::new(),
        stalls: 0,
        wait_ns: 0,
    };
    (output, Writer { filled: to_write, emptied: give_back, capture })
}

impl Output {
    /// Returns an empty row, reused if possible.
    pub(crate) fn row(&mut self) -> Box<Row> {
        if let Some(row) = self.spare.pop() {
            return row;
        }
        match self.emptied.try_recv() {
            Ok(mut batch) => {
                let row = batch.pop().unwrap_or_default();
                self.spare = batch;
                row
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => Box::default(),
        }
    }

    /// Adds a finished row.
    pub(crate) fn put(&mut self, row: Box<Row>, now: i64) {
        if self.batch.is_empty() {
            self.batch_since_ns = now;
        }
        self.batch.push(row);
        if self.batch.len() == BATCH {
            self.hand_over();
        }
    }

    /// Returns the time at which a batch that is not full is to be handed over.
    pub(crate) fn due_ns(&self) -> Option<i64> {
        let waits = !self.batch.is_empty() || !self.waiting.is_empty();
        waits.then_some(self.batch_since_ns + HAND_OVER_NS)
    }

    /// Hands over the pending rows.
    pub(crate) fn flush(&mut self, now: i64) {
        self.batch_since_ns = now;
        self.hand_over();
    }

    fn hand_over(&mut self) {
        if !self.batch.is_empty() {
            self.waiting.push_back(std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH)));
        }
        let Some(filled) = &self.filled else { return };
        while let Some(batch) = self.waiting.pop_front() {
            match filled.try_send(batch) {
                Ok(()) => {}
                Err(TrySendError::Full(batch)) => {
                    self.stalls += 1;
                    self.waiting.push_front(batch);
                    break;
                }
                // The writer has failed, which ends the trial; its thread returns the reason.
                Err(TrySendError::Disconnected(_)) => self.waiting.clear(),
            }
        }
        if self.waiting.len() > RESERVE {
            self.wait();
        }
    }

    /// Waits until the writer takes a batch, because no batch may be lost and the reserve may not grow without a limit.
    fn wait(&mut self) {
        let before = now_ns();
        if let (Some(filled), Some(batch)) = (&self.filled, self.waiting.pop_front())
            && filled.send(batch).is_err()
        {
            self.waiting.clear();
        }
        self.wait_ns += now_ns() - before;
    }

    /// Hands over all remaining rows and lets the writer end.
    pub(crate) fn finish(&mut self) {
        self.hand_over();
        while self.filled.is_some() && !self.waiting.is_empty() {
            self.wait();
        }
        self.filled = None;
    }
}

impl Writer {
    /// Passes rows to the sink until the loop has no more. At the first failure it ends and raises `failed`.
    pub(crate) fn run(self, sink: &mut (impl Sink + ?Sized), failed: &AtomicBool) -> Result<(), Cause> {
        while let Ok(mut batch) = self.filled.recv() {
            for row in &mut batch {
                if let Err(cause) = self.write(row, sink) {
                    failed.store(true, Ordering::Relaxed);
                    return Err(cause);
                }
                row.clear();
            }
            // A full queue means that the loop has enough buffers; these are dropped.
            let _ = self.emptied.try_send(batch);
        }
        Ok(())
    }

    fn write(&self, row: &mut Row, sink: &mut (impl Sink + ?Sized)) -> Result<(), Cause> {
        let full = self.capture == Capture::Full;
        if full && !row.text.is_empty() {
            row.record.response_sha256 = Some(Sha256::digest(&row.text).into());
        }
        sink.record(&row.record, full.then_some(row.text.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    struct GatedSink<'a> {
        gate: &'a Barrier,
        opened: bool,
        seen: Vec<u64>,
    }

    impl Sink for GatedSink<'_> {
        fn record(&mut self, record: &Record, _: Option<&[u8]>) -> Result<(), Cause> {
            if !self.opened {
                self.gate.wait();
                self.opened = true;
            }
            self.seen.push(record.global_index);
            Ok(())
        }
    }

    #[test]
    fn a_writer_that_is_behind_is_a_stall_and_loses_nothing() {
        let (mut output, writer) = output(Capture::None);
        let gate = Barrier::new(2);
        let total = (BATCH * (QUEUE + 3)) as u64;
        let mut sink = GatedSink { gate: &gate, opened: false, seen: Vec::new() };
        thread::scope(|scope| {
            let writing = scope.spawn(|| writer.run(&mut sink, &AtomicBool::new(false)));
            for index in 0..total {
                let mut row = output.row();
                row.record.global_index = index;
                output.put(row, 0);
            }
            // The writer holds one batch and the queue sixteen; the rest could not be handed over.
            assert!(output.stalls > 0);
            assert_eq!(output.wait_ns, 0);
            gate.wait();
            output.finish();
            assert!(writing.join().expect("no panic").is_ok());
        });
        assert_eq!(sink.seen, (0..total).collect::<Vec<_>>());
    }

    #[test]
    fn rows_come_back_empty() {
        let mut row = Row::default();
        row.record.global_index = 7;
        row.record.error = Some("x".into());
        row.record.chunks.reserve(10);
        row.text.extend_from_slice(b"text");
        let capacity = row.record.chunks.capacity();
        row.clear();
        assert_eq!(row.record, Record::default());
        assert_eq!(row.record.chunks.capacity(), capacity);
        assert!(row.text.is_empty());
    }
}
