//! Autocorrelated series: the correlation of neighbours, the effective sample size, and an interval for the mean that accounts
//! for both.
//!
//! Samples are taken in their order of observation.

use crate::interval::{Interval, Method, NoInterval, check_level};
use crate::samples::Samples;
use crate::student;
use crate::sum;

/// The longest series: every lag up to its end may have to be computed, which is fifty million products here.
pub const MAX_SERIES: usize = 10_000;

/// The number of batches that suits most series: 10 to 30 keep nearly all that more would give (Schmeiser, "Batch size effects in
/// the analysis of simulation output", Operations Research 30, 1982), and fewer are longer and so less correlated.
pub const BATCHES: usize = 20;

/// The autocorrelation at `lag`, -1 to 1: `sum (x(t) - mean)(x(t + lag) - mean) / sum (x(t) - mean)^2` (Box and Jenkins, "Time
/// Series Analysis", 1970, 2.1.5; both sums divided by n, which keeps the sequence positive definite).
///
/// `None` if the series is not longer than `lag` or does not vary.
pub fn autocorrelation(samples: &Samples, lag: usize) -> Option<f64> {
    CentredSeries::new(samples)?.autocorrelation(lag)
}

/// A series less its mean, in units of its largest deviation, so that no square overflows or vanishes.
struct CentredSeries {
    values: Vec<f64>,
    squares: f64,
}

impl CentredSeries {
    fn new(samples: &Samples) -> Option<Self> {
        let mean = samples.mean();
        let scale = (samples.max() - mean).max(mean - samples.min());
        if scale <= 0.0 {
            return None;
        }
        let values: Vec<f64> = samples.observed().iter().map(|x| (x - mean) / scale).collect();
        let squares = sum::pairwise(&values, |x| x * x);
        Some(Self { values, squares })
    }

    fn autocorrelation(&self, lag: usize) -> Option<f64> {
        let later = self.values.get(lag..).filter(|later| !later.is_empty())?;
        let products: Vec<f64> = self.values.iter().zip(later).map(|(a, b)| a * b).collect();
        Some((sum::pairwise(&products, |x| x) / self.squares).clamp(-1.0, 1.0))
    }
}

/// The information in a correlated series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EffectiveSampleSize {
    /// The effective sample size: the number of independent samples that would determine the mean as well. At most the number of
    /// samples.
    pub samples: f64,
    /// The correlation time tau: the number of neighbours that are worth one independent sample. At least 1.
    pub correlation_time: f64,
    /// The number of lags, from 0 on, that were summed.
    pub lags: usize,
}

/// The effective sample size `n / tau`, with `tau = -1 + 2 sum G(m)` over the initial positive sequence: `G(m) = r(2m) + r(2m +
/// 1)` as long as it is above 0 (Geyer, "Practical Markov chain Monte Carlo", Statistical Science 7, 1992). Sums of neighbouring
/// autocorrelations are positive for any reversible series, so the first that is not marks the beginning of the noise.
///
/// tau is at least 1: negative correlation does not raise the effective size. `None` if the series does not vary, and beyond
/// [`MAX_SERIES`].
pub fn effective_sample_size(samples: &Samples) -> Option<EffectiveSampleSize> {
    let n = samples.len();
    if n > MAX_SERIES {
        return None;
    }
    let series = CentredSeries::new(samples)?;
    let (mut total, mut lags) = (0.0, 0);
    while let Some(even) = series.autocorrelation(lags) {
        let pair = even + series.autocorrelation(lags + 1).unwrap_or_default();
        if pair <= 0.0 {
            break;
        }
        total += pair;
        lags += 2;
    }
    let correlation_time = (2.0 * total - 1.0).max(1.0);
    Some(EffectiveSampleSize { samples: n as f64 / correlation_time, correlation_time, lags: lags.min(n) })
}

/// The mean of a correlated series, by batches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchMeans {
    /// The interval for the mean of the process.
    pub interval: Interval,
    /// The lag-1 autocorrelation of the batch means; if it is far above 0, the batches are too short and the interval too narrow.
    /// `None` if they do not vary.
    pub correlation: Option<f64>,
}

/// The interval of the mean of a correlated series: it is cut into `batches` of neighbours whose sizes differ by at most one, and
/// their means are taken as independent: `mean +- t sd / sqrt(batches)`, t the `(1 + level) / 2` quantile with `batches - 1`
/// degrees of freedom (Schmeiser, 1982; see [`BATCHES`]).
///
/// # Errors
/// [`NoInterval::Batches`] for fewer than 2 batches or fewer than 2 samples in one, [`NoInterval::TooMany`] beyond
/// [`student::MAX_DEGREES`] batches, [`NoInterval::Level`] for a level outside 0 to 1, [`NoInterval::Unbounded`] if an end is not
/// a finite number.
pub fn batch_means(samples: &Samples, batches: usize, level: f64) -> Result<BatchMeans, NoInterval> {
    check_level(level)?;
    let n = samples.len();
    if batches < 2 || n / 2 < batches {
        return Err(NoInterval::Batches { n, batches });
    }
    student::check_many(batches)?;
    let means = means(samples, batches)?;
    let error = means.sd().unwrap_or_default() / (batches as f64).sqrt();
    let half = student::critical(level, (batches - 1) as f64) * error;
    let (low, high) = (samples.mean() - half, samples.mean() + half);
    if !(low.is_finite() && high.is_finite()) {
        return Err(NoInterval::Unbounded);
    }
    let interval = Interval { low, high, level, method: Method::BatchMeans };
    Ok(BatchMeans { interval, correlation: autocorrelation(&means, 1) })
}

/// The mean of every batch, in order.
fn means(samples: &Samples, batches: usize) -> Result<Samples, NoInterval> {
    let n = samples.len();
    // In 128 bits: the product of two lengths may not fit into 64.
    let start = |batch: usize| (batch as u128 * n as u128 / batches as u128) as usize;
    let mean = |batch: usize| {
        let values = samples.observed().get(start(batch)..start(batch + 1)).unwrap_or_default();
        Samples::new(values).map(|batch| batch.mean())
    };
    let means: Vec<f64> = (0..batches).map(mean).collect::<Result<_, _>>()?;
    Ok(Samples::new(&means)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[f64]) -> Samples {
        Samples::new(values).expect("samples")
    }

    fn ramp(n: u32) -> Samples {
        samples(&(0..n).map(f64::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_series_resembles_itself_most() {
        assert_eq!(autocorrelation(&ramp(10), 0), Some(1.0));
        assert!((autocorrelation(&samples(&[1.0, 2.0, 3.0, 4.0]), 1).expect("varies") - 0.25).abs() < 1e-15);
        assert_eq!((autocorrelation(&ramp(3), 3), autocorrelation(&samples(&[2.0; 9]), 1)), (None, None));
        assert_eq!(autocorrelation(&samples(&[1.0]), usize::MAX), None);
    }

    #[test]
    fn neighbours_that_resemble_each_other_are_worth_less() {
        let trending = effective_sample_size(&ramp(100)).expect("varies");
        assert!(trending.samples < 5.0, "{trending:?}");
        let alternating = samples(&(0..100).map(|i| f64::from(i % 2)).collect::<Vec<_>>());
        assert_eq!(effective_sample_size(&alternating).map(|found| found.samples), Some(100.0));
    }

    #[test]
    fn there_is_no_worth_of_what_does_not_vary_or_is_too_long() {
        assert_eq!((effective_sample_size(&samples(&[1.0])), effective_sample_size(&ramp(10_001))), (None, None));
        assert!(effective_sample_size(&ramp(2)).is_some());
    }

    #[test]
    fn extreme_values_neither_overflow_nor_vanish() {
        for by in [1e150, 1e-300] {
            let found = autocorrelation(&samples(&[by, 2.0 * by, 3.0 * by, 4.0 * by].map(|x| x / 4.0)), 1).expect("varies");
            assert!((found - 0.25).abs() < 1e-12, "{found}");
        }
    }

    #[test]
    fn batches_hold_every_sample() {
        let found = means(&ramp(7), 3).expect("means");
        assert_eq!(found.observed(), [0.5, 2.5, 5.0]);
    }

    #[test]
    fn batches_must_fit_the_series() {
        let refusal = |n, batches| batch_means(&ramp(n), batches, 0.95).expect_err("refused").to_string();
        insta::assert_snapshot!(refusal(39, 20), @"39 samples do not make 20 batches: at least 2 batches of 2 samples each are needed");
        insta::assert_snapshot!(refusal(39, 1), @"39 samples do not make 1 batches: at least 2 batches of 2 samples each are needed");
        assert!(matches!(batch_means(&ramp(9), 3, -1.0), Err(NoInterval::Level { .. })));
    }

    #[test]
    fn the_interval_holds_the_mean_and_says_how_alike_the_batches_are() {
        let found = batch_means(&ramp(100), 10, 0.95).expect("an interval");
        assert!(found.interval.contains(49.5) && found.correlation.expect("varies") > 0.5);
        let calm = batch_means(&samples(&[3.0; 40]), BATCHES, 0.95).expect("an interval");
        assert_eq!((calm.interval.low, calm.interval.high, calm.correlation), (3.0, 3.0, None));
    }
}
