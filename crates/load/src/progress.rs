//! How far a running trial is: counters that another thread may look at.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a running trial, both phases together. The loop writes them without waiting for anybody.
#[derive(Debug, Default)]
pub struct Progress {
    pub(crate) sent: AtomicU64,
    pub(crate) in_flight: AtomicU64,
    pub(crate) ok: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) token_events: AtomicU64,
}

/// What the counters said at one look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Requests sent, or tried.
    pub sent: u64,
    /// Of them, under way.
    pub in_flight: u64,
    /// Ended well.
    pub ok: u64,
    /// Ended otherwise, the dropped apart.
    pub failed: u64,
    /// Due and not sent.
    pub dropped: u64,
    /// Token events of ended requests.
    pub token_events: u64,
}

impl Progress {
    /// Counters at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks at them.
    pub fn read(&self) -> Reading {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Reading {
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
