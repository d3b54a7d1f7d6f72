//! What an interval claims, and why there may be none.

use std::fmt;

/// The confidence level that Assay asks for, by the field's convention.
pub const CONFIDENCE_LEVEL: f64 = 0.95;

/// How an interval was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Between two order statistics, for the median: see [`order_statistic`](crate::order_statistic).
    OrderStatistic,
    /// Quantiles of the bootstrap distribution.
    BootstrapPercentile,
    /// Bootstrap quantiles, corrected for bias and skewness.
    BootstrapBca,
}

impl Method {
    /// The name in documents and tables: `order_statistic`, `bootstrap_percentile` or `bootstrap_bca`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OrderStatistic => "order_statistic",
            Self::BootstrapPercentile => "bootstrap_percentile",
            Self::BootstrapBca => "bootstrap_bca",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A two-sided confidence interval, both ends included, in the samples' unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The confidence level that it may claim, a share (0.95 is 95 %). For [`Method::OrderStatistic`] the exact coverage that the
    /// chosen ranks achieve, which may differ from what was asked; for the bootstrap the nominal level.
    pub level: f64,
    /// How it was made.
    pub method: Method,
}

impl Interval {
    /// Whether `value` lies within, ends included.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

fn samples_bound(n: usize) -> String {
    if n == 1 { "1 sample bounds".to_owned() } else { format!("{n} samples bound") }
}

/// Why there is no interval: an absent one is better than a false one.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum NoInterval {
    /// Even the interval from the smallest to the largest sample would cover the median too rarely.
    #[error("{} the median with {:.1} % confidence at most; {needed} are needed", samples_bound(*n), best * 100.0)]
    TooFewForMedian {
        /// The number of samples.
        n: usize,
        /// The confidence of the widest interval, a share.
        best: f64,
        /// The fewest samples that suffice.
        needed: usize,
    },
    /// The bootstrap claims more than it holds with so few samples.
    #[error("{n} samples are too few for a bootstrap interval; {needed} are needed")]
    TooFewForBootstrap {
        /// The number of samples.
        n: usize,
        /// The fewest samples that suffice.
        needed: usize,
    },
    /// Resampling so many would take too long.
    #[error("{n} samples are too many for a bootstrap interval; the limit is {limit}")]
    TooManyForBootstrap {
        /// The number of samples.
        n: usize,
        /// The most that are resampled.
        limit: usize,
    },
    /// The bias correction has no finite value: all resamples lie on one side of the estimate.
    #[error("the bootstrap distribution lies on one side of the estimate")]
    OneSided,
    /// The level asked for was not strictly between 0 and 1.
    #[error("the confidence level {level} is not between 0 and 1")]
    Level {
        /// The level asked for.
        level: f64,
    },
}

/// Refuses a level that is not strictly between 0 and 1 (NaN included).
pub(crate) fn check_level(level: f64) -> Result<(), NoInterval> {
    if level > 0.0 && level < 1.0 { Ok(()) } else { Err(NoInterval::Level { level }) }
}
