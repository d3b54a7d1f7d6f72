//! The truth in a file: written by its own thread, because a disk may block.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

use crate::truth::{RequestTruth, Truth, TruthEnd};

/// Truths that may wait for the disk; further ones are dropped and counted.
const MAX_WAITING: usize = 16_384;

/// Writes truths to a file, one per line.
pub(super) struct TruthLog {
    lines: SyncSender<Truth>,
    writer: JoinHandle<io::Result<()>>,
    pub(super) dropped: u64,
}

impl TruthLog {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = File::create(path)?;
        let (lines, receiver) = sync_channel(MAX_WAITING);
        let writer = std::thread::Builder::new().name("truth".to_owned()).spawn(move || write_lines(file, &receiver))?;
        Ok(Self { lines, writer, dropped: 0 })
    }

    pub(super) fn push(&mut self, row: &RequestTruth) {
        if self.lines.try_send(Truth::Request(row.clone())).is_err() {
            self.dropped += 1;
        }
    }

    /// Writes the last line and waits until all of it is in the file.
    pub(super) fn finish(self, ended: u64) -> io::Result<()> {
        // If the writer has failed, this is not received; its failure is returned below.
        let _ = self.lines.send(Truth::End(TruthEnd { last: ended, ended, dropped: self.dropped, more: false }));
        drop(self.lines);
        self.writer.join().unwrap_or_else(|_| Err(io::Error::other("the writer of the truth has panicked")))
    }
}

fn write_lines(file: File, lines: &Receiver<Truth>) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    loop {
        let line = match lines.try_recv() {
            Ok(line) => line,
            Err(TryRecvError::Disconnected) => return file.flush(),
            Err(TryRecvError::Empty) => {
                // A reader that follows the file sees every line as soon as there is nothing else to write.
                file.flush()?;
                match lines.recv() {
                    Ok(line) => line,
                    Err(_) => return Ok(()),
                }
            }
        };
        serde_json::to_writer(&mut file, &line)?;
        file.write_all(b"\n")?;
    }
}
