//! The threads that read sources while execute runs: one for each, so that one that hangs delays no other.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Moment};

use assay_stage::{Context, ErrorCode, Event, Failure};

use crate::record::RecordedSource;

/// The time that the recorder waits for the first response of every source before it reports that it records.
const FIRST_LIMIT: Duration = Duration::from_secs(2);

/// The threads of all sources.
#[derive(Default)]
pub(crate) struct SourceThreads(Vec<SourceThread>);

struct SourceThread {
    messages: Receiver<Message>,
    /// Stops the thread.
    stop: Box<dyn FnOnce()>,
    thread: JoinHandle<Result<RecordedSource, Failure>>,
}

/// A message of a thread to the recorder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// The first reading is over, whatever its outcome.
    First,
    /// A note for people.
    Note(String),
}

/// Passes messages on to the recorder.
#[derive(Clone)]
pub(crate) struct Messages(Sender<Message>);

impl Messages {
    /// States that the first reading is over.
    pub(crate) fn first(&self) {
        // The receiver may be gone: the recorder ends, and stops the thread.
        let _ = self.0.send(Message::First);
    }

    /// Passes on a note for people.
    pub(crate) fn note(&self, note: impl Into<String>) {
        let _ = self.0.send(Message::Note(note.into()));
    }

    /// Returns messages, and what receives them.
    #[cfg(test)]
    pub(crate) fn channel() -> (Self, Receiver<Message>) {
        let (sender, messages) = channel();
        (Self(sender), messages)
    }
}

impl SourceThreads {
    /// Starts a thread that reads a source until `stop` is called, and that returns the readings then.
    pub(crate) fn start(
        &mut self,
        source: String,
        stop: impl FnOnce() + 'static,
        read: impl FnOnce(&Messages) -> Result<RecordedSource, Failure> + Send + 'static,
    ) -> Result<(), Failure> {
        let (sender, messages) = channel();
        let thread = std::thread::Builder::new().name(source).spawn(move || read(&Messages(sender)));
        let thread = thread.map_err(|error| Failure::new(ErrorCode::Threads, "cannot start a thread").because(&error))?;
        self.0.push(SourceThread { messages, stop: Box::new(stop), thread });
        Ok(())
    }

    /// Waits, up to a limit, until every source was read once: a reading then precedes each measurement.
    pub(crate) fn wait_for_first(&self, ctx: &Context) {
        let deadline = Moment::now() + FIRST_LIMIT;
        for running in &self.0 {
            while let Ok(message) = running.messages.recv_timeout(deadline.saturating_duration_since(Moment::now())) {
                match message {
                    Message::First => break,
                    Message::Note(message) => ctx.emit(Event::Note { message }),
                }
            }
        }
    }

    /// Passes on the threads' notes.
    pub(crate) fn pass_notes(&self, ctx: &Context) {
        let messages = self.0.iter().flat_map(|running| running.messages.try_iter());
        for message in messages {
            if let Message::Note(message) = message {
                ctx.emit(Event::Note { message });
            }
        }
    }

    /// Reads every source once more, and returns the readings.
    pub(crate) fn stop(self) -> Result<Vec<RecordedSource>, Failure> {
        // All threads are stopped before one is joined: the last readings run together.
        let threads: Vec<_> = self.0.into_iter().map(|SourceThread { stop, thread, .. }| (stop(), thread)).collect();
        let panicked = |_| Failure::new(ErrorCode::Internal, "a thread that reads a source panicked");
        threads.into_iter().map(|((), thread)| thread.join().map_err(panicked)?).collect()
    }
}
