//! The prefix cache: a bounded set of blocks of earlier prompts with least-recently-used eviction, which remembers what it evicted.

use std::collections::{BTreeMap, HashMap, HashSet};

/// The maximum evicted blocks that are remembered: about 80 MB. Beyond it a later lookup of an evicted block is not recognised as such.
const MAX_EVICTED: usize = 1 << 22;

/// Blocks by the hash of their content and of all tokens before them.
///
/// A block is always used together with all blocks before it, which count as used later. So a block is never in the cache without those
/// before it, and what is missing of a prompt that came before is missing because it was evicted.
pub(super) struct PrefixCache {
    limit: usize,
    clock: u64,
    used_at: HashMap<u64, u64>,
    by_use: BTreeMap<u64, u64>,
    /// Blocks that were evicted and have not come back.
    evicted: HashSet<u64>,
    evictions: u64,
    forgotten: u64,
}

/// The result of a lookup, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lookup {
    /// Leading blocks of the prompt that are cached.
    pub(super) found: usize,
    /// Blocks after them that were evicted: a cache without limit would have found these, too.
    pub(super) evicted_before: usize,
    /// Blocks that were evicted to make room for this prompt.
    pub(super) evictions: usize,
}

impl Lookup {
    /// Returns the tokens of a prompt that were found, and those after them that were evicted.
    pub(super) fn tokens(self, prompt_tokens: u32, block_tokens: u32) -> (u32, u32) {
        let found = reusable_tokens(self.found, prompt_tokens, block_tokens);
        (found, reusable_tokens(self.found + self.evicted_before, prompt_tokens, block_tokens) - found)
    }
}

/// Returns the tokens of leading blocks that need no work. The last token of a prompt is always computed: its output is the first token
/// of the response.
pub(super) fn reusable_tokens(blocks: usize, prompt_tokens: u32, block_tokens: u32) -> u32 {
    let whole_blocks = prompt_tokens.saturating_sub(1) / block_tokens.max(1);
    (blocks as u32).min(whole_blocks) * block_tokens
}

impl PrefixCache {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            clock: 0,
            used_at: HashMap::new(),
            by_use: BTreeMap::new(),
            evicted: HashSet::new(),
            evictions: 0,
            forgotten: 0,
        }
    }

    /// Looks a prompt up. Afterwards all of its blocks are cached, or the first of them if it has more than the limit.
    pub(super) fn admit(&mut self, blocks: &[u64]) -> Lookup {
        if self.limit == 0 {
            return Lookup::default();
        }
        let found = self.find(blocks);
        let evicted_before = blocks.iter().skip(found).take_while(|block| self.evicted.contains(block)).count();
        // From the last to the first: a prefix without its beginning is useless, so its end has to be evicted first.
        blocks.iter().rev().for_each(|block| self.touch(*block));
        Lookup { found, evicted_before, evictions: self.evict() }
    }

    /// Returns the number of leading blocks of a prompt that are cached.
    pub(super) fn find(&self, blocks: &[u64]) -> usize {
        blocks.iter().take_while(|block| self.used_at.contains_key(block)).count()
    }

    /// Empties the cache. What it held is not evicted: a cache without limit would be empty, too.
    pub(super) fn clear(&mut self) {
        self.used_at.clear();
        self.by_use.clear();
        self.evicted.clear();
    }

    /// Returns the number of cached blocks.
    pub(super) fn len(&self) -> usize {
        self.used_at.len()
    }

    /// Returns the number of evictions so far.
    pub(super) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Returns the number of evicted blocks that there was no room to remember.
    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    fn touch(&mut self, block: u64) {
        self.clock += 1;
        if let Some(before) = self.used_at.insert(block, self.clock) {
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.clock, block);
        self.evicted.remove(&block);
    }

    /// Evicts the least recently used blocks beyond the limit, and returns their number.
    fn evict(&mut self) -> usize {
        let mut count = 0;
        while self.used_at.len() > self.limit
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.used_at.remove(&oldest);
            if self.evicted.len() < MAX_EVICTED {
                self.evicted.insert(oldest);
            } else {
                self.forgotten += 1;
            }
            count += 1;
        }
        self.evictions += count as u64;
        count
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(cache: &mut PrefixCache, blocks: &[u64]) -> usize {
        cache.admit(blocks).found
    }

    #[test]
    fn a_prefix_is_found_up_to_where_it_differs() {
        let mut cache = PrefixCache::new(10);
        assert_eq!(found(&mut cache, &[1, 2, 3]), 0);
        assert_eq!(found(&mut cache, &[1, 2, 3]), 3);
        assert_eq!(found(&mut cache, &[1, 2, 4]), 2);
        assert_eq!(found(&mut cache, &[9, 2, 3]), 0);
        cache.clear();
        assert_eq!(cache.admit(&[1, 2, 3]), Lookup::default());
    }

    #[test]
    fn the_least_recently_used_leave_and_the_end_before_the_beginning() {
        let mut cache = PrefixCache::new(3);
        let mut seen = |blocks: &[u64]| {
            let lookup = cache.admit(blocks);
            assert!(cache.len() <= 3 && cache.by_use.len() == cache.len());
            (lookup.found, lookup.evicted_before, lookup.evictions)
        };
        assert_eq!(seen(&[1, 2, 3]), (0, 0, 0));
        assert_eq!(seen(&[7]), (0, 0, 1), "3 leaves");
        assert_eq!(seen(&[1, 2, 3]), (2, 1, 1), "3 was evicted, and now 7 leaves");
        assert_eq!(seen(&[7]), (0, 1, 1));
        assert_eq!(seen(&[1, 2, 3]), (2, 1, 1));
        assert_eq!((cache.evictions(), cache.evicted.len(), cache.forgotten()), (4, 1, 0));
    }

    #[test]
    fn a_prompt_that_is_longer_than_the_cache_leaves_its_beginning() {
        let mut cache = PrefixCache::new(2);
        assert_eq!(cache.admit(&[1, 2, 3]), Lookup { found: 0, evicted_before: 0, evictions: 1 });
        assert_eq!(cache.admit(&[1, 2, 3]), Lookup { found: 2, evicted_before: 1, evictions: 1 });
        assert_eq!(PrefixCache::new(0).admit(&[1]), Lookup::default());
    }

    proptest! {
        /// Prompts are paths of a tree: a block is named by all choices before it.
        #[test]
        fn what_a_limit_costs_is_what_was_evicted(limit in 1..40_usize, prompts in proptest::collection::vec(proptest::collection::vec(0..3_u64, 0..9), 1..80)) {
            let (mut bounded, mut unlimited) = (PrefixCache::new(limit), PrefixCache::new(usize::MAX));
            let mut came_back = 0;
            for prompt in prompts {
                let blocks: Vec<u64> = (1..=prompt.len()).map(|end| prompt[..end].iter().fold(1, |path, choice| 4 * path + choice)).collect();
                let (lookup, whole) = (bounded.admit(&blocks), unlimited.admit(&blocks));
                prop_assert_eq!(lookup.found + lookup.evicted_before, whole.found);
                came_back += lookup.evicted_before as u64;
            }
            prop_assert_eq!(bounded.evictions(), came_back + bounded.evicted.len() as u64);
            prop_assert!(bounded.len() <= limit && unlimited.evictions() == 0);
        }
    }
}
