//! The places for requests in flight of an open loop whose due requests wait for one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The free places, each with the time since which it is free.
#[derive(Debug)]
pub(super) struct Places {
    /// Places that no request has had.
    unused: u32,
    /// The ends of the requests whose places are free.
    freed: BinaryHeap<Reverse<i64>>,
}

impl Places {
    pub(super) fn new(places: u32) -> Self {
        Self { unused: places, freed: BinaryHeap::new() }
    }

    /// Returns true if every place is taken.
    pub(super) fn are_taken(&self) -> bool {
        self.unused == 0 && self.freed.is_empty()
    }

    /// Takes the place that is free for the longest time, for a request that was due at this time. Returns the time at which there was a
    /// place for it: when it was due, or later. `None` if no place is free.
    pub(super) fn take(&mut self, due_ns: i64) -> Option<i64> {
        if self.unused > 0 {
            self.unused -= 1;
            return Some(due_ns);
        }
        self.freed.pop().map(|Reverse(end_ns)| end_ns.max(due_ns))
    }

    /// Frees the place of a request that ended at this time.
    pub(super) fn free(&mut self, end_ns: i64) {
        self.freed.push(Reverse(end_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_from_the_start_or_from_the_end_of_the_request_that_had_it() {
        let mut places = Places::new(2);
        assert_eq!((places.take(10), places.take(11), places.take(12)), (Some(10), Some(11), None));
        assert!(places.are_taken());
        // Two end, the later one first: the request that was due first gets the place that is free for longer.
        places.free(50);
        places.free(40);
        assert_eq!((places.take(12), places.take(45), places.are_taken()), (Some(40), Some(50), true));
        // A place that is free before a request is due makes it wait for nothing.
        places.free(60);
        assert_eq!(places.take(70), Some(70));
    }
}
