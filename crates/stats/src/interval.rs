//! Confidence intervals, and the reasons for a missing one.

use std::fmt;

use crate::samples::SampleError;

/// Assay's confidence level, by the field's convention.
pub const CONFIDENCE_LEVEL: f64 = 0.95;

/// The method of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Between two order statistics, for a quantile: see [`order_statistic`](crate::order_statistic).
    OrderStatistic,
    /// Quantiles of the bootstrap distribution.
    BootstrapPercentile,
    /// Bootstrap quantiles, corrected for bias and skewness.
    BootstrapBca,
    /// For the next value, by Student's t: see [`student`](crate::student).
    StudentPrediction,
    /// The shifts that an exact Mann-Whitney test does not reject: see [`hodges_lehmann`](crate::hodges_lehmann).
    MannWhitney,
    /// The same by the normal approximation of that test.
    MannWhitneyNormal,
    /// For the mean of a correlated series, from the means of its batches: see [`correlation`](crate::correlation).
    BatchMeans,
    /// For a ratio of sums over clusters, by the linearised ratio: see [`cluster`](crate::cluster).
    ClusterRatio,
    /// For a quantile over the samples of clusters, by Woodruff: see [`cluster`](crate::cluster).
    ClusterQuantile,
}

impl Method {
    /// The name in documents and tables: the variant's, in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OrderStatistic => "order_statistic",
            Self::BootstrapPercentile => "bootstrap_percentile",
            Self::BootstrapBca => "bootstrap_bca",
            Self::StudentPrediction => "student_prediction",
            Self::MannWhitney => "mann_whitney",
            Self::MannWhitneyNormal => "mann_whitney_normal",
            Self::BatchMeans => "batch_means",
            Self::ClusterRatio => "cluster_ratio",
            Self::ClusterQuantile => "cluster_quantile",
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
    /// The confidence level, a share (0.95 is 95 %). If the ends are ranks ([`Method::OrderStatistic`] and both of Mann-Whitney),
    /// the coverage that those ranks achieve, which may differ from the requested level; otherwise the nominal level.
    pub level: f64,
    /// The method by which it was computed.
    pub method: Method,
}

impl Interval {
    /// Returns true if `value` is within the interval, ends included.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

fn samples_bound(n: usize) -> String {
    if n == 1 { "1 sample bounds".to_owned() } else { format!("{n} samples bound") }
}

fn samples_have(n: usize) -> String {
    if n == 1 { "1 sample has".to_owned() } else { format!("{n} samples have") }
}

fn clusters_are(n: usize) -> String {
    if n == 1 { "1 cluster is".to_owned() } else { format!("{n} clusters are") }
}

/// The reason why there is no interval: none is better than a false one.
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
    /// The bootstrap covers less than its level with so few samples.
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
    /// The bias correction has no finite value: all resamples are on one side of the estimate.
    #[error("the bootstrap distribution lies on one side of the estimate")]
    OneSided,
    /// Even the interval from the smallest to the largest sample would cover the quantile too rarely.
    #[error("{} the {q} quantile with {:.1} % confidence at most; {needed} are needed", samples_bound(*n), best * 100.0)]
    TooFewForQuantile {
        /// The number of samples.
        n: usize,
        /// The quantile's probability.
        q: f64,
        /// The confidence of the widest interval, a share.
        best: f64,
        /// The fewest samples that suffice.
        needed: usize,
    },
    /// The quantile is an end of the distribution, which samples bound from one side only: by the smallest or the largest.
    #[error("the {q} quantile has no interval: only those strictly between 0 and 1 have one")]
    Quantile {
        /// The quantile's probability.
        q: f64,
    },
    /// Even the interval from the smallest to the largest difference would cover the shift too rarely.
    #[error("{first} and {second} samples bound their shift with {:.1} % confidence at most, and {:.1} % are needed: add samples", best * 100.0, floor * 100.0)]
    TooFewForShift {
        /// The number of samples on one side.
        first: usize,
        /// The number on the other.
        second: usize,
        /// The confidence of the widest interval, a share.
        best: f64,
        /// The confidence that would suffice, a share.
        floor: f64,
    },
    /// There are too few samples for a standard deviation.
    #[error("{} no spread to measure; {needed} are needed", samples_have(*n))]
    TooFewForSpread {
        /// The number of samples.
        n: usize,
        /// The fewest that suffice.
        needed: usize,
    },
    /// There are more samples than the computation supports.
    #[error("{n} samples are too many for this interval; the limit is {limit}")]
    TooMany {
        /// The number of samples.
        n: usize,
        /// The most samples that are supported.
        limit: usize,
    },
    /// The requested batches do not fit the series.
    #[error("{n} samples do not make {batches} batches: at least 2 batches of 2 samples each are needed")]
    Batches {
        /// The number of samples.
        n: usize,
        /// The requested number of batches.
        batches: usize,
    },
    /// So few clusters do not show how much clusters vary.
    #[error("{} too few for an interval; {needed} are needed", clusters_are(*n))]
    TooFewClusters {
        /// The number of clusters.
        n: usize,
        /// The fewest that suffice.
        needed: usize,
    },
    /// All clusters have the same ratio, such as no failure.
    #[error("its clusters do not differ, so their spread bounds nothing")]
    NoClusterSpread,
    /// The clusters vary so much that an end would lie beyond all samples.
    #[error(
        "its clusters bound the rank of the {q} quantile by {low:.3} and {high:.3} only, and samples have ranks between 0 and 1"
    )]
    RankBeyondSamples {
        /// The quantile's probability.
        q: f64,
        /// The lower rank, a share of the samples.
        low: f64,
        /// The upper rank.
        high: f64,
    },
    /// An end is not a finite number.
    #[error("an end of the interval lies beyond every number")]
    Unbounded,
    /// The samples do not meet the requirements of the interval.
    #[error(transparent)]
    Samples(SampleError),
    /// The requested level was not strictly between 0 and 1.
    #[error("the confidence level {level} is not between 0 and 1")]
    Level {
        /// The requested level.
        level: f64,
    },
}

/// Returns an error for a level that is not strictly between 0 and 1 (NaN included).
pub(crate) fn check_level(level: f64) -> Result<(), NoInterval> {
    if level > 0.0 && level < 1.0 { Ok(()) } else { Err(NoInterval::Level { level }) }
}
