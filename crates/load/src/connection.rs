//! The connections of a trial, each in a slot of its own, and the requests that they carry.

use crate::answer::Reader;
use crate::delay::RequestDelays;
use crate::output::Row;
use crate::transport::Transport;

/// No slot.
const NONE: u32 = u32::MAX;

/// A place for one connection. It outlives its connections, and keeps their buffers.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Counts the connections that the slot has had: what the poller says of an earlier one is not of this one.
    pub(crate) generation: u32,
    pub(crate) state: State,
    pub(crate) transport: Option<Transport>,
    /// The poller watches for room to write as well.
    pub(crate) watches_write: bool,
    pub(crate) reader: Reader,
    pub(crate) exchange: Option<Exchange>,
}

/// What a slot's connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// There is none.
    Vacant,
    /// TCP is on its way.
    Connecting,
    /// TLS is on its way.
    Shaking,
    /// It carries a request.
    Busy,
    /// It is kept alive.
    Idle,
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) row: Box<Row>,
    /// The request as it goes on the wire; given back once it is written.
    pub(crate) wire: Vec<u8>,
    /// How much of it was written.
    pub(crate) written: usize,
    /// All of it was.
    pub(crate) is_written: bool,
    /// It was given to a connection that had been kept alive.
    pub(crate) reused: bool,
    /// The client's own delay in its instants.
    pub(crate) delays: RequestDelays,
    /// Addresses that were tried for it.
    pub(crate) tries: usize,
}

impl Slot {
    pub(crate) fn new(reader: Reader) -> Self {
        Self { generation: 0, state: State::Vacant, transport: None, watches_write: false, reader, exchange: None }
    }

    /// Lets its connection go.
    pub(crate) fn disconnect(&mut self) {
        self.transport = None;
        self.generation = self.generation.wrapping_add(1);
        self.state = State::Vacant;
        self.watches_write = false;
    }
}

/// What the poller knows a slot's connection by.
pub(crate) fn token(slot: u32, generation: u32) -> u64 {
    u64::from(generation) << 32 | u64::from(slot)
}

/// The slot and the generation of a token.
pub(crate) fn of_token(token: u64) -> (u32, u32) {
    (token as u32, (token >> 32) as u32)
}

/// Slots in the order in which their requests were begun: since all have the same time limit, the first is the next to run out of
/// it. Adding and removing take the same time however many there are.
#[derive(Debug)]
pub(crate) struct Order {
    links: Vec<(u32, u32)>,
    first: u32,
    last: u32,
}

impl Order {
    pub(crate) fn new() -> Self {
        Self { links: Vec::new(), first: NONE, last: NONE }
    }

    pub(crate) fn first(&self) -> Option<u32> {
        (self.first != NONE).then_some(self.first)
    }

    /// Adds a slot, which is not among them, at the end.
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

    /// Takes a slot, which is among them, out.
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
        assert_eq!(of_token(token(7, u32::MAX)), (7, u32::MAX));
        assert_eq!(of_token(token(u32::MAX - 1, 3)), (u32::MAX - 1, 3));
    }

    proptest! {
        #[test]
        fn order_is_kept_through_any_removals(steps in proptest::collection::vec(0_u32..12, 0..80)) {
            let mut order = Order::new();
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
