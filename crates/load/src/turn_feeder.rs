//! Prepares the later turns of sessions on a thread of their own: the feeder of first turns may be waiting for room in its lane, and
//! a turn that will soon be due must not wait with it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::budget::Charge;
use crate::feeder::{PreparedRequest, Template};
use crate::{Cause, PlannedTurn, ResponseText, Turns};

/// A job for the thread, in the order in which the event loop requests them.
#[derive(Debug)]
enum TurnJob {
    /// Prepare a turn of a session. The loop knows the session by its key.
    Prepare { key: u64, session: u64, turn: u32, previous: Option<KeptText> },
    /// The session has ended.
    End { session: u64 },
}

/// The event loop's end of the queues. They have no limit, because the loop may not wait; each holds at most the turns that wait for one in
/// flight.
#[derive(Debug)]
pub(crate) struct TurnQueue {
    jobs: Sender<TurnJob>,
    prepared: Receiver<(u64, PreparedRequest)>,
}

/// The thread's end of the queues.
#[derive(Debug)]
pub(crate) struct TurnFeeder {
    jobs: Receiver<TurnJob>,
    /// Absent after a failure, so that the loop does not wait for a turn that will not come.
    prepared: Option<Sender<(u64, PreparedRequest)>>,
}

/// Returns both ends of the queues.
pub(crate) fn turn_queue() -> (TurnQueue, TurnFeeder) {
    let (jobs, to_do) = channel();
    let (prepared, to_send) = channel();
    (TurnQueue { jobs, prepared: to_send }, TurnFeeder { jobs: to_do, prepared: Some(prepared) })
}

impl TurnQueue {
    /// Requests a turn. It comes back with the session's key.
    pub(crate) fn prepare(&self, key: u64, session: u64, turn: u32, previous: Option<KeptText>) {
        // If the thread is gone, it has raised `failed`, which ends the trial.
        let _ = self.jobs.send(TurnJob::Prepare { key, session, turn, previous });
    }

    /// Tells the thread that a session has ended.
    pub(crate) fn end(&self, session: u64) {
        let _ = self.jobs.send(TurnJob::End { session });
    }

    /// Returns the next prepared turn with its session's key, if there is one.
    pub(crate) fn try_next(&self) -> Option<(u64, PreparedRequest)> {
        self.prepared.try_recv().ok()
    }

    /// Waits for the next prepared turn. Returns none if no more will come.
    pub(crate) fn wait(&self) -> Option<(u64, PreparedRequest)> {
        self.prepared.recv().ok()
    }
}

impl TurnFeeder {
    /// Does the jobs until the loop has no more. After a failure no turn is prepared, but sessions are still ended. `failed` is
    /// raised when this ends for any reason: before the trial's end it is a failure, and after it nothing reads the flag.
    pub(crate) fn run(
        mut self,
        turns: &mut (impl Turns + ?Sized),
        template: &Template,
        failed: &AtomicBool,
    ) -> Result<(), Cause> {
        let _raised_at_end = RaiseOnDrop(failed);
        let mut result = Ok(());
        while let Ok(job) = self.jobs.recv() {
            match job {
                TurnJob::End { session } => turns.end(session),
                TurnJob::Prepare { key, session, turn, previous } => {
                    let Some(prepared) = &self.prepared else { continue };
                    match prepare(turns, template, session, turn, previous) {
                        // The loop's end is gone only after the trial.
                        Ok(request) => drop(prepared.send((key, request))),
                        Err(cause) => {
                            failed.store(true, Ordering::Relaxed);
                            self.prepared = None;
                            result = Err(cause);
                        }
                    }
                }
            }
        }
        result
    }
}

fn prepare(
    turns: &mut (impl Turns + ?Sized),
    template: &Template,
    session: u64,
    turn: u32,
    previous: Option<KeptText>,
) -> Result<PreparedRequest, Cause> {
    // The text stays charged until the turn is prepared.
    let (previous, _charge) = previous.map(KeptText::into_response).unzip();
    let planned = turns.next(session, turn, previous.as_ref())?;
    match planned.turn {
        Some(PlannedTurn { session: of, turn: place, .. }) if (of, place) == (session, turn) => Ok(template.prepare(planned)),
        _ => Err(format!("turn {turn} of session {session} was requested, and another request was returned").into()),
    }
}

/// Raises the flag when it is dropped, and so also if the thread panics.
struct RaiseOnDrop<'a>(&'a AtomicBool);

impl Drop for RaiseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The text of a response that the session's next turn is prepared with, as bytes.
///
/// It is bounded three times: a response's text has a limit; while the response is read, its text is part of the memory that the
/// reader is charged; and from its end until the next turn is prepared, it has a charge of its own to the same budget. A session
/// has one such text at most.
#[derive(Debug)]
pub(crate) struct KeptText {
    pub(crate) content: Vec<u8>,
    pub(crate) reasoning: Vec<u8>,
    charge: Charge,
}

impl KeptText {
    /// Returns an empty text, which is charged nothing yet.
    pub(crate) fn new(charge: Charge) -> Self {
        Self { content: Vec::new(), reasoning: Vec::new(), charge }
    }

    /// Returns the bytes of the text.
    pub(crate) fn len(&self) -> usize {
        self.content.len() + self.reasoning.len()
    }

    /// Returns the bytes of its buffers.
    pub(crate) fn held_bytes(&self) -> usize {
        self.content.capacity() + self.reasoning.capacity()
    }

    /// Charges the text itself. The reader has just returned its charge for the same bytes, so this exceeds the budget by no more
    /// than the reader did; if it does, the next read of an unfinished response is the one that is refused.
    pub(crate) fn cover(&mut self) {
        let _ = self.charge.cover(self.held_bytes() as u64);
    }

    fn into_response(self) -> (ResponseText, Charge) {
        (ResponseText { content: into_text(self.content), reasoning: into_text(self.reasoning) }, self.charge)
    }
}

fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
