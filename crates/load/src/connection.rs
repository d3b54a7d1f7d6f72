//! The connections of a trial, each in its own slot, and the requests that they carry.

use crate::delay::RequestDelays;
use crate::output::Row;
use crate::response::Reader;
use crate::transport::Transport;

/// The index of no slot.
const NONE: u32 = u32::MAX;

/// A slot for one connection at a time. It outlives its connections and keeps their buffers.
#[derive(Debug)]
pub(crate) struct Slot {
    /// The number of connections that the slot has had: events of the poller for an earlier one are ignored.
    pub(crate) generation: u32,
    pub(crate) state: ConnectionState,
    pub(crate) transport: Option<Transport>,
    /// True if the poller also watches for room to write.
    pub(crate) watches_write: bool,
    pub(crate) reader: Reader,
    pub(crate) exchange: Option<Exchange>,
    /// The key of the session whose pause the kept-alive connection outlasts, if it is kept for one.
    pub(crate) kept_for: Option<u64>,
}

/// The state of a slot's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionState {
    /// There is no connection.
    Vacant,
    /// TCP is connecting.
    Connecting,
    /// The TLS handshake is in progress.
    Handshaking,
    /// The connection carries a request.
    Busy,
    /// The connection is kept alive.
    Idle,
}

/// A request in flight.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) row: Box<Row>,
    /// The bytes of the request; freed once they are written.
    pub(crate) wire: Vec<u8>,
    /// The number of bytes written.
    pub(crate) written: usize,
    /// True if all of it was written.
    pub(crate) is_written: bool,
    /// True if it was sent on a kept-alive connection.
    pub(crate) reused: bool,
    /// The client's own delay in the request's times.
    pub(crate) delays: RequestDelays,
    /// The number of addresses that were tried.
    pub(crate) tries: usize,
    /// The key of its session, if it is a turn of one.
    pub(crate) session: Option<u64>,
    /// The time from its last byte to its cancellation, if it is to be cancelled.
    pub(crate) cancel_after_ns: Option<u64>,
    /// The time of its cancellation, once it is written.
    pub(crate) cancel_at_ns: Option<i64>,
}

impl Slot {
    pub(crate) fn new(reader: Reader) -> Self {
        Self {
            generation: 0,
            state: ConnectionState::Vacant,
            transport: None,
            watches_write: false,
            reader,
            exchange: None,
            kept_for: None,
        }
    }

    /// Closes the connection.
    pub(crate) fn disconnect(&mut self) {
        self.transport = None;
        self.generation = self.generation.wrapping_add(1);
        self.state = ConnectionState::Vacant;
        self.watches_write = false;
    }
}

/// Returns the token by which the poller knows a slot's connection.
pub(crate) fn token(slot: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(slot)
}

/// Returns the slot and the generation of a token.
pub(crate) fn split_token(token: u64) -> (u32, u32) {
    (token as u32, (token >> 32) as u32)
}

/// Slots in the order in which their requests began: because all have the same timeout, the first is the next to time out. Adding
/// and removing take constant time.
#[derive(Debug)]
pub(crate) struct TimeoutList {
    links: Vec<(u32, u32)>,
    first: u32,
    last: u32,
}

impl TimeoutList {
    pub(crate) fn new() -> Self {
        Self { links: Vec::new(), first: NONE, last: NONE }
    }

    pub(crate) fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// Appends a slot that is not in the list.
    pub(crate) fn push(&mut self, slot: u32) {
        if self.links.len() <= slot as usize {
            self.links.resize(slot as usize + 1, (NONE, NONE));
        }
        self.links[slot as usize] = (self.last, NONE);
        match self.links.get_mut(self.last as usize) {
            Some(before) => before.1 = slot,
            None => self.first = slot,
        }
        self.last = slot;
    }

    /// Removes a slot that is in the list.
    pub(crate) fn remove(&mut self, slot: u32) {
        let (before, after) = self.links[slot as usize];
        match self.links.get_mut(before as usize) {
            Some(link) => link.1 = after,
            None => self.first = after,
        }
        match self.links.get_mut(after as usize) {
            Some(link) => link.0 = before,
            None => self.last = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_token_names_slot_and_generation() {
        assert_eq!(split_token(token(7, u32::MAX)), (7, u32::MAX));
        assert_eq!(split_token(token(u32::MAX - 1, 3)), (u32::MAX - 1, 3));
    }

    proptest! {
        #[test]
        fn order_is_kept_through_any_removals(steps in proptest::collection::vec(0_u32..12, 0..80)) {
            let mut order = TimeoutList::new();
            let mut model: VecDeque<u32> = VecDeque::new();
            for slot in steps {
                if let Some(place) = model.iter().position(|other| *other == slot) {
                    model.remove(place);
                    order.remove(slot);
                } else {
                    model.push_back(slot);
                    order.push(slot);
                }
                prop_assert_eq!(order.first(), model.front().copied());
            }
            while let Some(first) = model.pop_front() {
                prop_assert_eq!(order.first(), Some(first));
                order.remove(first);
            }
            prop_assert_eq!(order.first(), None);
        }
    }
}
