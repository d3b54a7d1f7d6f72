//! The cancellations of requests in flight, by their times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use assay_record::Outcome;

use super::Engine;

/// The cancellations to come. Those of requests that end before stay until their time.
#[derive(Debug, Default)]
pub(super) struct Cancellations {
    /// Each with its time, the slot of its request, and the request's id: the slot may have another request by then.
    by_time: BinaryHeap<Reverse<(i64, u32, u128)>>,
}

impl Cancellations {
    pub(super) fn push(&mut self, at_ns: i64, slot: u32, request_id: u128) {
        self.by_time.push(Reverse((at_ns, slot, request_id)));
    }

    /// Returns the time of the next one.
    pub(super) fn first_ns(&self) -> Option<i64> {
        self.by_time.peek().map(|Reverse((at_ns, ..))| *at_ns)
    }

    /// Takes the next one, if its time has come: the slot and the id of its request.
    fn take_due(&mut self, now: i64) -> Option<(u32, u128)> {
        self.first_ns().filter(|at_ns| *at_ns <= now)?;
        self.by_time.pop().map(|Reverse((_, slot, request_id))| (slot, request_id))
    }
}

impl Engine<'_> {
    /// Cancels the requests in flight whose time for it has come.
    pub(super) fn cancel_due(&mut self, now: i64) {
        while let Some((slot, request_id)) = self.cancellations.take_due(now) {
            let exchange = self.slots.get(slot as usize).and_then(|place| place.exchange.as_ref());
            if exchange.is_some_and(|exchange| exchange.row.record.request_id == request_id) {
                self.cancel(slot, now);
            }
        }
    }

    /// Cancels the request of a slot: its connection is closed.
    pub(super) fn cancel(&mut self, slot: u32, at_ns: i64) {
        self.worked = true;
        self.give_up(slot, Outcome::Cancelled, "its planned cancellation", at_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_none_before_its_time() {
        let mut cancellations = Cancellations::default();
        for (at_ns, slot) in [(30, 1), (10, 2), (20, 3)] {
            cancellations.push(at_ns, slot, u128::from(slot));
        }
        assert_eq!((cancellations.first_ns(), cancellations.take_due(9)), (Some(10), None));
        assert_eq!(
            (cancellations.take_due(20), cancellations.take_due(20), cancellations.take_due(20)),
            (Some((2, 2)), Some((3, 3)), None)
        );
        assert_eq!((cancellations.take_due(30), cancellations.first_ns()), (Some((1, 1)), None));
    }
}
