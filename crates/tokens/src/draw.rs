//! Draws by a seed, and the index that a draw takes.

use assay_manifest::SALT_WORDS;

/// The draws of the places of a prompt, of which the first ones may be those of a salt.
#[derive(Clone, Copy)]
pub(crate) struct Draws {
    seed: u64,
    salt: u64,
    of_salt: u32,
}

impl Draws {
    /// Creates the draws of a prompt of `tokens` tokens.
    pub(crate) fn new(seed: u64, salt: Option<u64>, tokens: u32) -> Self {
        // A prompt that was all salt would equal every other prompt of the trial.
        let of_salt = salt.map_or(0, |_| SALT_WORDS.min(tokens / 2));
        Self { seed, salt: salt.unwrap_or(0), of_salt }
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the number of places whose draws are those of the salt.
    pub(crate) fn of_salt(&self) -> u32 {
        self.of_salt
    }

    /// Passes each of the first `places` places to `take`, with its draw.
    pub(crate) fn each(&self, places: u32, mut take: impl FnMut(u32, u32)) {
        let mut place = 0;
        while place < places {
            // One output of the generator serves two places.
            let (low, high) = self.pair(place);
            take(place, low);
            if place + 1 < places {
                take(place + 1, high);
            }
            place += 2;
        }
    }

    /// Returns the draws of an even place and the next one.
    fn pair(&self, place: u32) -> (u32, u32) {
        let number = u64::from(place / 2) + 1;
        let of_seed = split_mix(self.seed, number);
        if place >= self.of_salt {
            return (of_seed as u32, (of_seed >> 32) as u32);
        }
        let of_salt = split_mix(self.salt, number);
        let high = if place + 1 < self.of_salt { of_salt } else { of_seed };
        (of_salt as u32, (high >> 32) as u32)
    }
}

/// Maps a draw to an index below `count`.
pub(crate) fn scale_draw(draw: u32, count: usize) -> usize {
    ((u64::from(draw) * count as u64) >> 32) as usize
}

/// Output `number` (from 1) of SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014).
pub(crate) fn split_mix(seed: u64, number: u64) -> u64 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let state = seed.wrapping_add(GOLDEN.wrapping_mul(number));
    let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
