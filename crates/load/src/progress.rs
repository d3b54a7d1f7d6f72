//! The progress of a running trial: counters that another thread may read.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a running trial, over both phases. The loop writes them without locks.
#[derive(Debug, Default)]
pub struct Progress {
    pub(crate) sent: AtomicU64,
    pub(crate) in_flight: AtomicU64,
    pub(crate) ok: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) token_events: AtomicU64,
}

/// The counters at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgressSnapshot {
    /// Requests sent, or tried.
    pub sent: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// Requests that succeeded.
    pub ok: u64,
    /// Requests that failed, without the dropped ones. Those that were cancelled as planned are in none of these counts.
    pub failed: u64,
    /// Requests that were due and not sent.
    pub dropped: u64,
    /// Token events of ended requests.
    pub token_events: u64,
}

impl Progress {
    /// Returns counters at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the counters.
    pub fn read(&self) -> ProgressSnapshot {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ProgressSnapshot {
            sent: load(&self.sent),
            in_flight: load(&self.in_flight),
            ok: load(&self.ok),
            failed: load(&self.failed),
            dropped: load(&self.dropped),
            token_events: load(&self.token_events),
        }
    }
}

/// Adds without a locked instruction: the loop is the only writer.
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}
