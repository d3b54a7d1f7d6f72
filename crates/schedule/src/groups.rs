//! The groups of synthetic prompts that share a beginning.

use std::sync::Arc;

use assay_manifest::SharedPrefix;

/// The most groups.
pub const MAX_GROUPS: u32 = 100_000;

/// The largest exponent of Zipf's law: nearly all requests are of the first group.
pub const MAX_ZIPF: f64 = 10.0;

/// The probabilities of groups.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    tokens: u32,
    /// The sums of the weights `1 / k^s` of the groups up to each.
    sums: Arc<[f64]>,
}

impl Groups {
    /// Creates the groups of a prefix whose limits were checked.
    pub(crate) fn new(prefix: SharedPrefix) -> Self {
        let mut sum = 0.0;
        let sums = (1..=prefix.groups.clamp(1, MAX_GROUPS)).map(|rank| {
            sum += libm::pow(f64::from(rank), -prefix.zipf);
            sum
        });
        Self { tokens: prefix.tokens(), sums: sums.collect() }
    }

    /// Returns the tokens of the whole beginning.
    pub(crate) fn tokens(&self) -> u32 {
        self.tokens
    }

    /// Returns the group, from 0, of a value in `[0, 1)`: the first one whose sum of weights exceeds that share of all.
    pub(crate) fn group(&self, unit: f64) -> u32 {
        let all = self.sums.last().copied().unwrap_or_default();
        let before = self.sums.partition_point(|sum| *sum <= unit * all);
        before.min(self.sums.len() - 1) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(count: u32, zipf: f64) -> Groups {
        Groups::new(SharedPrefix { system: 3, groups: count, group: 4, zipf })
    }

    #[test]
    fn without_an_exponent_all_are_equally_likely() {
        let four = groups(4, 0.0);
        assert_eq!([0.0, 0.249, 0.25, 0.5, 0.75, 0.999_999].map(|unit| four.group(unit)), [0, 0, 1, 2, 3, 3]);
        assert_eq!((groups(1, 0.0).group(0.7), four.tokens()), (0, 7));
    }

    #[test]
    fn weights_fall_with_the_rank() {
        // 1 + 1/2 + 1/3 = 11/6: the groups have 6/11, 3/11 and 2/11 of all.
        let three = groups(3, 1.0);
        assert_eq!([0.0, 0.545, 0.546, 0.818, 0.819].map(|unit| three.group(unit)), [0, 0, 1, 1, 2]);
        assert_eq!(groups(MAX_GROUPS, MAX_ZIPF).group(0.99), 0);
    }
}
