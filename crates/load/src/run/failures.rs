//! The failed requests of a trial, and whether they end it.

use std::collections::VecDeque;

use assay_record::Outcome;

use crate::ErrorLimit;

/// Counts failures until they meet the trial's limit.
#[derive(Debug)]
pub(super) struct FailureCounter {
    limit: ErrorLimit,
    failed: u64,
    /// The requests that ended last, oldest first: true for a failure. Empty without a limit for them.
    recent: VecDeque<bool>,
    recent_failed: u32,
    is_met: bool,
}

impl FailureCounter {
    pub(super) fn new(limit: ErrorLimit) -> Self {
        Self { limit, failed: 0, recent: VecDeque::new(), recent_failed: 0, is_met: false }
    }

    /// Adds a request that has ended. One that the client cancelled, or could not send, says nothing about the endpoint.
    pub(super) fn add(&mut self, outcome: Outcome) {
        if outcome.is_of_client() {
            return;
        }
        let failed = outcome.is_failure();
        self.failed += u64::from(failed);
        self.add_recent(failed);
        // Once met, always met: later successes do not take it back before the loop looks.
        self.is_met |= self.limit.count.is_some_and(|most| self.failed >= most)
            || self
                .limit
                .recent
                .is_some_and(|most| self.recent.len() >= most.of_last as usize && self.recent_failed >= most.failures);
    }

    fn add_recent(&mut self, failed: bool) {
        let Some(most) = self.limit.recent else { return };
        self.recent.push_back(failed);
        self.recent_failed += u32::from(failed);
        if self.recent.len() > most.of_last as usize {
            self.recent_failed -= u32::from(self.recent.pop_front() == Some(true));
        }
    }

    /// Returns true if the limit was met.
    pub(super) fn is_met(&self) -> bool {
        self.is_met
    }
}

#[cfg(test)]
mod tests {
    use Outcome::{Cancelled, CancelledAtEnd, Dropped, HttpError, Ok, Timeout};

    use super::*;
    use crate::RecentErrors;

    fn is_met(limit: ErrorLimit, outcomes: &[Outcome]) -> bool {
        let mut counter = FailureCounter::new(limit);
        for outcome in outcomes {
            counter.add(*outcome);
        }
        counter.is_met()
    }

    #[test]
    fn a_number_of_failures_is_met_by_failures_alone() {
        let three = ErrorLimit { count: Some(3), recent: None };
        assert!(is_met(three, &[HttpError, Ok, Timeout, Ok, HttpError]));
        assert!(!is_met(three, &[HttpError, Ok, Timeout, Ok]));
        assert!(!is_met(three, &[Cancelled, CancelledAtEnd, Dropped, Cancelled]), "the client did these");
    }

    #[test]
    fn a_share_is_of_the_requests_that_ended_last() {
        let half = ErrorLimit { count: None, recent: Some(RecentErrors { failures: 2, of_last: 4 }) };
        assert!(!is_met(half, &[Timeout, Timeout, Timeout]), "too few have ended");
        assert!(is_met(half, &[Timeout, Timeout, Timeout, Ok]));
        assert!(!is_met(half, &[Ok, Timeout, Ok, Ok, Ok, Timeout, Ok, Ok, Ok, Timeout]), "never two of four");
        assert!(is_met(half, &[Ok, Ok, Ok, Ok, Timeout, Timeout, Ok, Ok, Ok, Ok]), "later successes do not take it back");
        let in_a_row = ErrorLimit { count: None, recent: Some(RecentErrors { failures: 2, of_last: 2 }) };
        assert!(!is_met(in_a_row, &[Timeout, Ok, Timeout, Ok, Timeout]));
        assert!(is_met(in_a_row, &[Timeout, Ok, Timeout, Timeout]));
    }
}
