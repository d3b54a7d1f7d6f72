//! The seeds from which the texts of blocks are made.

/// The seeds of the texts of blocks in one execution of a trial.
///
/// Equal blocks are equal texts, wherever they stand and in whatever request. With a salt, executions have nothing in common; without one,
/// all trials of a point have the same texts. The seed of block `id` is output `id + 1` of SplitMix64 under the scope, and that of what
/// follows the blocks of row `r` is output `r + 1` under the scope's complement. Ids that are equal within a part of the trace only, such as
/// one session, have as their scope output `p + 1` under the trial's, with `p` the number of the part. A pass over the sessions of a trace after the
/// first has as its scope output `q` under that of the trial with its halves exchanged, with `q` the number of the pass from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockTexts {
    scope: u64,
}

impl BlockTexts {
    pub(crate) fn new(scope: u64) -> Self {
        Self { scope }
    }

    /// Returns the texts of the blocks of a part of the trace, whose ids are its own.
    #[must_use]
    pub fn within(self, part: u64) -> Self {
        Self { scope: split_mix(self.scope, part.wrapping_add(1)) }
    }

    /// Returns the texts of the blocks of a pass over the sessions of a trace, from 0.
    #[must_use]
    pub fn of_pass(self, pass: u32) -> Self {
        Self { scope: seed_of_pass(self.scope, pass) }
    }

    /// Returns the seed of a block's text.
    pub fn block_seed(self, id: u64) -> u64 {
        split_mix(self.scope, id.wrapping_add(1))
    }

    /// Returns the seed of the text after the blocks of a row.
    pub fn rest_seed(self, row: u64) -> u64 {
        split_mix(!self.scope, row.wrapping_add(1))
    }
}

/// Returns the seed that a pass has instead of this one of the first, by SplitMix64 under the seed with its halves exchanged.
pub fn seed_of_pass(seed: u64, pass: u32) -> u64 {
    if pass == 0 { seed } else { split_mix(seed.rotate_left(32), u64::from(pass)) }
}

/// Returns output `number` (from 1) of SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014).
pub(crate) fn split_mix(seed: u64, number: u64) -> u64 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let state = seed.wrapping_add(GOLDEN.wrapping_mul(number));
    let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_stable() {
        // Derived from the format's description, not by this code.
        let texts = BlockTexts::new(0x0123_4567_89ab_cdef);
        let blocks = [1_547_611_027_431_991_965, 15_380_727_978_956_804_243, 9_392_958_633_950_236_203];
        assert_eq!([0, 1, 1_000].map(|id| texts.block_seed(id)), blocks);
        assert_eq!([0, 7].map(|row| texts.rest_seed(row)), [8_856_491_076_634_013_318, 1_874_930_061_820_785_629]);
        let part = BlockTexts::new(blocks[2]);
        assert_eq!(texts.within(1_000), part, "the scope of a part is an output under that of the trial");
        assert_ne!(texts.within(1_000).block_seed(0), texts.within(1_001).block_seed(0));
        assert_eq!(texts.of_pass(0), texts, "the first pass has the words of a trial that plays each session once");
        let mut seeds: Vec<u64> = (0..4).map(|pass| texts.of_pass(pass).within(3).block_seed(0)).collect();
        seeds.dedup();
        assert_eq!((seeds.len(), texts.of_pass(1).scope), (4, split_mix(0x89ab_cdef_0123_4567, 1)));
    }
}
