//! One number from a handful of samples, with everything that must stand beside it.

use std::num::NonZeroU32;

use crate::bootstrap::{self, Bootstrap, Statistic, bootstrap};
use crate::interval::{CONFIDENCE_LEVEL, Interval, NoInterval};
use crate::order_statistic::median_interval;
use crate::robust;
use crate::samples::{SampleError, Samples};

/// What samples say about the quantity that they were drawn from. Values are in the samples' unit unless said otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// The number of samples.
    pub n: usize,
    /// The median: the estimate that the interval belongs to.
    pub median: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The standard deviation (ddof 1); absent for a single sample.
    pub sd: Option<f64>,
    /// The coefficient of variation, a ratio; absent for a single sample and where the mean is 0.
    pub cv: Option<f64>,
    /// The smallest sample.
    pub min: f64,
    /// The largest sample.
    pub max: f64,
    /// The interquartile range (type 7 quartiles).
    pub iqr: f64,
    /// The median absolute deviation from the median, not scaled.
    pub mad: f64,
    /// The confidence interval for the median, or why there is none.
    pub interval: Result<Interval, NoInterval>,
    /// Indices of outliers, in the order given, counted from 0: flagged by [`robust::outliers`], and kept in all figures.
    pub flagged: Vec<usize>,
}

impl Estimate {
    /// The lower end of the interval.
    pub fn ci_low(&self) -> Option<f64> {
        self.interval.map(|interval| interval.low).ok()
    }

    /// The upper end of the interval.
    pub fn ci_high(&self) -> Option<f64> {
        self.interval.map(|interval| interval.high).ok()
    }

    /// The confidence level that the interval may claim, a share.
    pub fn ci_level(&self) -> Option<f64> {
        self.interval.map(|interval| interval.level).ok()
    }

    /// The name of the interval's method.
    pub fn ci_method(&self) -> Option<&'static str> {
        self.interval.map(|interval| interval.method.name()).ok()
    }
}

/// Sums `values` up, with an interval for their median at [`CONFIDENCE_LEVEL`].
///
/// Below [`bootstrap::MIN_SAMPLES`] values the interval is distribution-free, between order statistics: its coverage is known exactly
/// there, whereas a percentile bootstrap holds less than it claims. From there on it is the percentile bootstrap, whose level is not bound to the few coverages that ranks can have; above
/// [`bootstrap::MAX_SAMPLES`] again order statistics, which cost nothing. `seed` matters to the bootstrap alone: derive it from the
/// digests of the inputs.
///
/// # Errors
/// [`SampleError`] for no values, and for a value that is NaN, infinite or too large to square.
pub fn estimate(values: &[f64], seed: [u8; 32]) -> Result<Estimate, SampleError> {
    let samples = Samples::new(values)?;
    Ok(Estimate {
        n: samples.len(),
        median: samples.median(),
        mean: samples.mean(),
        sd: samples.sd(),
        cv: samples.cv(),
        min: samples.min(),
        max: samples.max(),
        iqr: robust::iqr(&samples),
        mad: robust::mad(&samples),
        interval: interval(&samples, seed),
        flagged: robust::outliers(&samples),
    })
}

const PERCENTILE: Bootstrap = Bootstrap {
    level: CONFIDENCE_LEVEL,
    resamples: match NonZeroU32::new(bootstrap::RESAMPLES) {
        Some(resamples) => resamples,
        None => NonZeroU32::MIN,
    },
    bca: false,
};

fn interval(samples: &Samples, seed: [u8; 32]) -> Result<Interval, NoInterval> {
    if (bootstrap::MIN_SAMPLES..=bootstrap::MAX_SAMPLES).contains(&samples.len()) {
        bootstrap(samples, Statistic::Median, PERCENTILE, seed)
    } else {
        median_interval(samples, CONFIDENCE_LEVEL)
    }
}
