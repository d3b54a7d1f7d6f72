//! The requests that wait for their turn.

use std::collections::{HashMap, VecDeque};

use super::sequence::Sequence;

/// A queue from whose middle requests can be removed.
#[derive(Default)]
pub(super) struct Queue {
    waiting: HashMap<u64, Sequence>,
    /// Their order. A removed one stays in line until it is the first, which always waits.
    line: VecDeque<u64>,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn first(&self) -> Option<&Sequence> {
        self.waiting.get(self.line.front()?)
    }

    pub(super) fn push_back(&mut self, sequence: Sequence) {
        self.line.push_back(sequence.arrival.request);
        self.waiting.insert(sequence.arrival.request, sequence);
    }

    pub(super) fn push_front(&mut self, sequence: Sequence) {
        self.line.push_front(sequence.arrival.request);
        self.waiting.insert(sequence.arrival.request, sequence);
    }

    pub(super) fn pop_front(&mut self) -> Option<Sequence> {
        let request = *self.line.front()?;
        self.remove(request)
    }

    /// Removes a request, if it waits.
    pub(super) fn remove(&mut self, request: u64) -> Option<Sequence> {
        let removed = self.waiting.remove(&request)?;
        while self.line.front().is_some_and(|first| !self.waiting.contains_key(first)) {
            self.line.pop_front();
        }
        // Removed ones may not become most of the line, so that impatient clients cannot make it grow.
        if self.line.len() > 2 * self.waiting.len() + 64 {
            self.line.retain(|request| self.waiting.contains_key(request));
        }
        Some(removed)
    }
}
