//! The prefix cache: a bounded set of blocks of earlier prompts with least-recently-used eviction.

use std::collections::{BTreeMap, HashMap};

/// Blocks by the hash of their content and of all tokens before them.
pub(super) struct PrefixCache {
    limit: usize,
    clock: u64,
    used_at: HashMap<u64, u64>,
    by_use: BTreeMap<u64, u64>,
}

impl PrefixCache {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, clock: 0, used_at: HashMap::new(), by_use: BTreeMap::new() }
    }

    /// Returns the number of these blocks, from the first on, that are cached. Afterwards all are, up to the limit.
    pub(super) fn admit(&mut self, blocks: &[u64]) -> usize {
        let found = blocks.iter().take_while(|block| self.used_at.contains_key(block)).count();
        // From the last to the first: a prefix without its beginning is useless, so its end has to be evicted first.
        blocks.iter().take(self.limit).rev().for_each(|block| self.touch(*block));
        found
    }

    pub(super) fn clear(&mut self) {
        self.used_at.clear();
        self.by_use.clear();
    }

    fn touch(&mut self, block: u64) {
        self.clock += 1;
        if let Some(before) = self.used_at.insert(block, self.clock) {
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.clock, block);
        if self.used_at.len() > self.limit
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.used_at.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_found_up_to_where_it_differs() {
        let mut cache = PrefixCache::new(10);
        assert_eq!(cache.admit(&[1, 2, 3]), 0);
        assert_eq!(cache.admit(&[1, 2, 3]), 3);
        assert_eq!(cache.admit(&[1, 2, 4]), 2);
        assert_eq!(cache.admit(&[9, 2, 3]), 0);
        cache.clear();
        assert_eq!(cache.admit(&[1, 2, 3]), 0);
    }

    #[test]
    fn the_least_recently_used_leave_and_the_end_before_the_beginning() {
        let mut cache = PrefixCache::new(3);
        cache.admit(&[1, 2, 3]);
        cache.admit(&[7]);
        assert_eq!(cache.admit(&[1, 2, 3]), 2);
        assert_eq!(cache.used_at.len(), 3);
        assert_eq!(cache.by_use.len(), 3);
        assert_eq!(PrefixCache::new(0).admit(&[1]), 0);
    }
}
