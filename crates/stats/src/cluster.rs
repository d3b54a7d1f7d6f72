//! Intervals within one trial, with clusters of samples as the unit of inference: sessions, whose requests are not independent.
//!
//! A mean over requests is a ratio of two sums over clusters: of their samples, and of their numbers of samples. Its variance is that of the
//! linearised ratio, with the clusters as a sample with replacement (Cochran, "Sampling Techniques", 3rd edition, 1977, sections 6.3 and
//! 9A.1; Lohr, "Sampling: Design and Analysis", 2nd edition, 2010, sections 4.1 and 5.3). A quantile has the interval of Woodruff
//! ("Confidence intervals for medians and other position measures", JASA 47, 1952): that of the share of samples at or below the
//! quantile, read back as quantiles. Both use Student's t with one degree of freedom fewer than there are clusters.
//!
//! They hold the variation between clusters, and not that from trial to trial.

use crate::interval::{Interval, Method, NoInterval, check_level};
use crate::student::{check_many, critical};
use crate::sum::pairwise;

/// The fewest clusters of an interval. With fewer, and with clusters of unequal sizes, intervals of this kind cover clearly less than their
/// level: Cameron and Miller, "A practitioner's guide to cluster-robust inference", Journal of Human Resources 50, 2015, section VI, give 20 to
/// 50 for clusters of equal sizes. The test of coverage in this file and `docs/statistics.md` have the figures.
pub const MIN_CLUSTERS: usize = 50;

/// The fewest clusters' worth of samples on the smaller side of a quantile: the 99th percentile needs 500 clusters. A tail often belongs to a
/// few clusters, and its spread is then not known.
const MIN_BEYOND: f64 = 5.0;

/// The part of one cluster in a ratio of sums.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cluster {
    /// Its part of the upper sum: the sum of its samples; for a quantile, the number of them at or below it.
    pub part: f64,
    /// Its part of the lower sum, above 0: the number of its samples.
    pub of: f64,
}

/// Returns the number of clusters that a quantile's interval needs.
pub fn clusters_for_quantile(q: f64) -> usize {
    let smaller = q.min(1.0 - q);
    // A quotient within 1e-9 of a whole number is taken for it, because 1 - 0.95 is not 0.05 in binary.
    let needed = if smaller > 0.0 { (MIN_BEYOND / smaller - 1e-9).ceil() } else { f64::INFINITY };
    MIN_CLUSTERS.max(needed as usize)
}

/// The interval of the ratio of both sums, in their quotient's unit. The clusters have to be in an order of their own, such as that of their
/// numbers, so that sums have the same digits every time.
///
/// # Errors
/// [`NoInterval::TooFewClusters`] below [`MIN_CLUSTERS`], [`NoInterval::NoClusterSpread`] if all clusters have the same ratio,
/// [`NoInterval::TooMany`], [`NoInterval::Level`], and [`NoInterval::Unbounded`] if an end is not a finite number.
pub fn ratio_interval(clusters: &[Cluster], level: f64) -> Result<Interval, NoInterval> {
    check(clusters, MIN_CLUSTERS, level)?;
    ratio_ends(clusters, level)
}

/// The ranks, as shares of all samples, at whose quantiles the interval of the `q` quantile ends.
///
/// # Errors
/// As [`ratio_interval`], with [`clusters_for_quantile`] as the fewest clusters; [`NoInterval::Quantile`] for a `q` that is not between 0 and 1, and
/// [`NoInterval::RankBeyondSamples`] if a rank is not between 0 and 1.
pub fn quantile_ranks(clusters: &[Cluster], q: f64, level: f64) -> Result<[f64; 2], NoInterval> {
    if !(q > 0.0 && q < 1.0) {
        return Err(NoInterval::Quantile { q });
    }
    check(clusters, clusters_for_quantile(q), level)?;
    ranks(clusters, q, level)
}

/// Returns the interval of a quantile between the samples at its ranks.
pub fn quantile_interval(low: f64, high: f64, level: f64) -> Interval {
    Interval { low, high, level, method: Method::ClusterQuantile }
}

fn check(clusters: &[Cluster], needed: usize, level: f64) -> Result<(), NoInterval> {
    check_level(level)?;
    check_many(clusters.len())?;
    let n = clusters.len();
    if n < needed { Err(NoInterval::TooFewClusters { n, needed }) } else { Ok(()) }
}

fn ratio_ends(clusters: &[Cluster], level: f64) -> Result<Interval, NoInterval> {
    let Spread { ratio, half } = spread(clusters, level)?;
    let (low, high) = (ratio - half, ratio + half);
    let finite = low.is_finite() && high.is_finite();
    finite.then_some(Interval { low, high, level, method: Method::ClusterRatio }).ok_or(NoInterval::Unbounded)
}

fn ranks(clusters: &[Cluster], q: f64, level: f64) -> Result<[f64; 2], NoInterval> {
    let Spread { half, .. } = spread(clusters, level)?;
    let (low, high) = (q - half, q + half);
    if low > 0.0 && high < 1.0 { Ok([low, high]) } else { Err(NoInterval::RankBeyondSamples { q, low, high }) }
}

/// A ratio of sums, and the half-width of its interval.
struct Spread {
    ratio: f64,
    half: f64,
}

/// The variance of the ratio `R = sum(y) / sum(x)` over m clusters is `m / (m - 1) * sum((y - R x)^2) / sum(x)^2`.
fn spread(clusters: &[Cluster], level: f64) -> Result<Spread, NoInterval> {
    let sum = |term: &dyn Fn(&Cluster) -> f64| pairwise(&clusters.iter().map(term).collect::<Vec<_>>(), |x| x);
    let (parts, of) = (sum(&|cluster| cluster.part), sum(&|cluster| cluster.of));
    let ratio = parts / of;
    let residual = |cluster: &Cluster| cluster.part - ratio * cluster.of;
    // Equal clusters leave residuals of rounding only.
    let is_rounding = |cluster: &Cluster| residual(cluster).abs() <= 1e-12 * (cluster.part.abs() + (ratio * cluster.of).abs());
    if clusters.iter().all(is_rounding) {
        return Err(NoInterval::NoClusterSpread);
    }
    let m = clusters.len() as f64;
    let variance = m / (m - 1.0) * sum(&|cluster| residual(cluster) * residual(cluster)) / (of * of);
    Ok(Spread { ratio, half: critical(level, m - 1.0) * variance.sqrt() })
}

#[cfg(test)]
mod tests;
