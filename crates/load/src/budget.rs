//! The memory that the unfinished responses of a shard may hold together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most bytes that the unfinished responses of one shard hold together. A response has limits of its own, but a thousand
/// connections may reach them at the same time.
pub(crate) const MAX_HELD_BYTES: u64 = 1 << 30;

/// The bytes that a response holds without being charged, and the step in which further ones are: a streamed response holds one
/// event and its list of token events, so the loop hardly ever comes to the shared counter.
const STEP_BYTES: u64 = 64 << 10;

/// A shared limit. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limit: u64,
    charged: AtomicU64,
}

impl Budget {
    /// Returns a budget of this many bytes.
    pub(crate) fn new(limit: u64) -> Self {
        Self(Arc::new(Inner { limit, charged: AtomicU64::new(0) }))
    }

    /// Returns the limit in bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.0.limit
    }
}

/// The part of a budget that one response, or its kept text, is charged; returned when it is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Budget,
    /// The bytes that it may hold before it is charged more.
    covered: u64,
}

impl Charge {
    /// Returns the charge of a response that holds nothing yet.
    pub(crate) fn new(budget: Budget) -> Self {
        Self { budget, covered: STEP_BYTES }
    }

    /// Charges what the response holds beyond the bytes that are covered. Returns false if the budget is exceeded: the response
    /// has to be given up then.
    #[inline]
    pub(crate) fn cover(&mut self, held: u64) -> bool {
        held <= self.covered || self.grow(held)
    }

    #[cold]
    fn grow(&mut self, held: u64) -> bool {
        let covered = held.next_multiple_of(STEP_BYTES);
        let more = covered - self.covered;
        self.covered = covered;
        self.budget.0.charged.fetch_add(more, Ordering::Relaxed) + more <= self.budget.0.limit
    }

    /// Returns a further charge to the same budget, of nothing yet.
    pub(crate) fn new_sibling(&self) -> Self {
        Self::new(self.budget.clone())
    }

    /// Returns the limit of the budget in bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.budget.limit()
    }

    /// Returns all that was charged, because the response is over.
    pub(crate) fn release(&mut self) {
        if self.covered > STEP_BYTES {
            self.budget.0.charged.fetch_sub(self.covered - STEP_BYTES, Ordering::Relaxed);
            self.covered = STEP_BYTES;
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_share_one_limit_and_return_what_they_hold() {
        let budget = Budget::new(4 * STEP_BYTES);
        let (mut one, mut other) = (Charge::new(budget.clone()), Charge::new(budget.clone()));
        assert!(one.cover(STEP_BYTES), "the first step is free");
        assert_eq!(budget.0.charged.load(Ordering::Relaxed), 0);
        assert!(one.cover(STEP_BYTES + 1) && one.cover(4 * STEP_BYTES), "three steps");
        assert!(other.cover(2 * STEP_BYTES), "the fourth");
        assert!(!other.cover(2 * STEP_BYTES + 1), "and no fifth");
        other.release();
        assert!(one.cover(5 * STEP_BYTES), "what is returned can be charged again");
        drop(one);
        assert_eq!(budget.0.charged.load(Ordering::Relaxed), 0);
    }
}
