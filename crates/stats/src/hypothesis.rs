//! The common parts of tests of two samples: the alternative hypothesis, and the reasons for a missing result.

use crate::special::Tails;

/// The alternative hypothesis of a test. A gate tests one-sided, a report two-sided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alternative {
    /// The first sample tends to be smaller or larger.
    TwoSided,
    /// The first sample tends to be smaller than the second.
    Less,
    /// The first sample tends to be larger than the second.
    Greater,
}

impl Alternative {
    /// The p-value from the probabilities of a statistic at most (`lower`) and at least (`upper`) as large as the observed one.
    /// Two-sided it is twice the smaller of them, at most 1.
    pub(crate) fn p(self, tails: Tails) -> f64 {
        match self {
            Self::TwoSided => (2.0 * tails.lower.min(tails.upper)).min(1.0),
            Self::Less => tails.lower.min(1.0),
            Self::Greater => tails.upper.min(1.0),
        }
    }
}

/// The most samples on one side of a test. No design plans as many trials; a caller with more values has requests, which are not
/// independent.
pub const MAX_SAMPLES: usize = 1_000_000;

/// The reason why there is no test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoTest {
    /// No value varies, so nothing can be compared.
    #[error("all samples are equal: there is no spread to compare a difference with")]
    AllEqual,
    /// Neither side varies, so there is no error to compare the difference of their means with.
    #[error("neither side varies: there is no error to compare the difference of their means with")]
    NoSpread,
    /// A side has too few samples.
    #[error("{first} and {second} samples are too few: the test needs {needed} on each side")]
    TooFew {
        /// The number of samples on one side.
        first: usize,
        /// The number on the other.
        second: usize,
        /// The fewest that suffice.
        needed: usize,
    },
    /// A side has more samples than the test supports.
    #[error("{n} samples are too many: the limit is {MAX_SAMPLES} on each side")]
    TooMany {
        /// The number of samples on the larger side.
        n: usize,
    },
}

/// Returns an error for sides of more than [`MAX_SAMPLES`].
pub(crate) fn check_sizes(first: usize, second: usize) -> Result<(), NoTest> {
    let n = first.max(second);
    if n > MAX_SAMPLES { Err(NoTest::TooMany { n }) } else { Ok(()) }
}
