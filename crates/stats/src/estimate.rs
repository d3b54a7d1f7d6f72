//! An estimate of one number from a handful of samples, with the figures that have to accompany it.

use std::num::NonZeroU32;

use crate::bootstrap::{self, Bootstrap, Statistic, bootstrap};
use crate::interval::{CONFIDENCE_LEVEL, Interval, NoInterval};
use crate::order_statistic::median_interval;
use crate::robust;
use crate::samples::{SampleError, Samples};

/// An estimate of the quantity from which samples were drawn. Values are in the samples' unit unless stated otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    /// The number of samples.
    pub n: usize,
    /// The median: the estimate that the interval belongs to.
    pub median: f64,
    /// The arithmetic mean.
    pub mean: f64,
    /// The standard deviation (ddof 1); `None` for a single sample.
    pub sd: Option<f64>,
    /// The coefficient of variation, a ratio; `None` for a single sample and if the mean is 0.
    pub cv: Option<f64>,
    /// The smallest sample.
    pub min: f64,
    /// The largest sample.
    pub max: f64,
    /// The interquartile range (type 7 quartiles).
    pub iqr: f64,
    /// The median absolute deviation from the median, not scaled.
    pub mad: f64,
    /// The confidence interval for the median, or the reason why there is none.
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

    /// The confidence level of the interval, a share.
    pub fn ci_level(&self) -> Option<f64> {
        self.interval.map(|interval| interval.level).ok()
    }

    /// The name of the interval's method.
    pub fn ci_method(&self) -> Option<&'static str> {
        self.interval.map(|interval| interval.method.name()).ok()
    }
}

/// Summarises `values`, with an interval for their median at [`CONFIDENCE_LEVEL`].
///
/// Below [`bootstrap::MIN_SAMPLES`] values the interval is distribution-free, between order statistics: its coverage is then
/// known exactly, whereas a percentile bootstrap covers less than its level. From there on it is the percentile bootstrap, whose
/// level is not limited to the few coverages that ranks can have; above [`bootstrap::MAX_SAMPLES`] again order statistics, which
/// cost nothing. `seed` affects only the bootstrap: derive it from the digests of the inputs.
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
