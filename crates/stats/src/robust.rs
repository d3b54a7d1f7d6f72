//! Measures of spread that a few wild values cannot move, and the flags for those values.

use crate::samples::{Samples, ratio};
use crate::sum;

/// The factor that makes the median absolute deviation estimate the standard deviation of a normal distribution: `1 / z(3/4)`,
/// with z the standard normal quantile (Rousseeuw and Croux, "Alternatives to the median absolute deviation", JASA 88, 1993).
pub const MAD_TO_SD: f64 = 1.482_602_218_505_602;

/// The same factor for the mean absolute deviation: `sqrt(pi / 2)`.
pub const MEAN_DEVIATION_TO_SD: f64 = 1.253_314_137_315_500_3;

/// The number of robust standard deviations from the median beyond which a sample is flagged: the modified z-score of Iglewicz
/// and Hoaglin, "How to Detect and Handle Outliers" (1993), who recommend 3.5.
pub const OUTLIER_THRESHOLD: f64 = 3.5;

/// The fewest samples among which one can be flagged. Among three or four, the deviation of one or two samples *is* the scale.
///
/// Flags stay frequent in small samples of a perfectly normal distribution, because the scale itself is uncertain: simulated, at
/// least one flag in 21 % of samples of 5, 13 % of 10, 10 % of 20. They are informative only: they never remove a sample or
/// decide a verdict alone.
pub const MIN_FOR_FLAGS: usize = 5;

/// The median absolute deviation from the median, raw (not scaled by [`MAD_TO_SD`]), in the samples' unit.
pub fn mad(samples: &Samples) -> f64 {
    let centre = samples.median();
    let mut deviations: Vec<f64> = samples.sorted().iter().map(|x| (x - centre).abs()).collect();
    deviations.sort_unstable_by(f64::total_cmp);
    crate::quantile(&deviations, 0.5).unwrap_or_default()
}

/// The interquartile range with type 7 quartiles, in the samples' unit.
pub fn iqr(samples: &Samples) -> f64 {
    samples.quantile(0.75) - samples.quantile(0.25)
}

/// The robust coefficient of variation, `1.4826 MAD / |median|`, a ratio; `None` for a single sample and if the median is 0.
pub fn robust_cv(samples: &Samples) -> Option<f64> {
    (samples.len() > 1).then(|| ratio(MAD_TO_SD * mad(samples), samples.median()))?
}

/// The indices, in order of observation, of samples farther than [`OUTLIER_THRESHOLD`] robust standard deviations from the
/// median.
///
/// The scale is `1.4826 MAD`. If more than half of the samples are equal, that is 0, and the scaled mean absolute deviation takes
/// its place, so that coarse clocks do not flag every second value.
pub fn outliers(samples: &Samples) -> Vec<usize> {
    if samples.len() < MIN_FOR_FLAGS {
        return Vec::new();
    }
    let centre = samples.median();
    let limit = OUTLIER_THRESHOLD * scale(samples);
    let far = |x: &f64| (x - centre).abs() > limit;
    samples.observed().iter().enumerate().filter(|(_, x)| far(x)).map(|(index, _)| index).collect()
}

/// The distance of Tukey's inner fences from the quartiles, in interquartile ranges; values beyond are *outside* ("Exploratory
/// Data Analysis", 1977, 2D). Of a normal distribution 0.7 % are outside, of small samples many more.
pub const FENCE_FACTOR: f64 = 1.5;

/// The same distance for the outer fences; values beyond are *far out*.
pub const OUTER_FENCE_FACTOR: f64 = 3.0;

/// The limits between which samples are not suspicious, in their unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fences {
    /// The lower fence: the first quartile less the factor times the interquartile range.
    pub low: f64,
    /// The upper fence: the third quartile plus the factor times the interquartile range.
    pub high: f64,
}

/// Tukey's fences, `factor` interquartile ranges beyond the type 7 quartiles; `None` unless the factor is finite and at least 0.
/// See [`FENCE_FACTOR`].
pub fn fences(samples: &Samples, factor: f64) -> Option<Fences> {
    let room = factor * iqr(samples);
    let sensible = factor.is_finite() && factor >= 0.0;
    sensible.then(|| Fences { low: samples.quantile(0.25) - room, high: samples.quantile(0.75) + room })
}

/// The indices, in order of observation, of samples beyond the [`fences`]. They are flagged, and kept in all figures.
pub fn beyond(samples: &Samples, fences: Fences) -> Vec<usize> {
    let out = |x: &f64| *x < fences.low || *x > fences.high;
    samples.observed().iter().enumerate().filter(|(_, x)| out(x)).map(|(index, _)| index).collect()
}

/// A robust standard deviation: `1.4826 MAD`, or the scaled mean absolute deviation if more than half of the samples are equal.
pub(crate) fn scale(samples: &Samples) -> f64 {
    let mad = mad(samples);
    if mad > 0.0 {
        return MAD_TO_SD * mad;
    }
    let centre = samples.median();
    MEAN_DEVIATION_TO_SD * sum::pairwise(samples.sorted(), |x| (x - centre).abs()) / samples.len() as f64
}

/// A robust standard deviation of the differences between values `lag` apart, which changes of level hardly affect.
pub(crate) fn difference_sd(values: &[f64], lag: usize) -> f64 {
    let differences: Vec<f64> = values.iter().zip(values.iter().skip(lag)).map(|(x, y)| y - x).collect();
    Samples::new(&differences).map_or(0.0, |differences| MAD_TO_SD * mad(&differences))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flagged(values: &[f64]) -> Vec<usize> {
        outliers(&Samples::new(values).expect("samples"))
    }

    #[test]
    fn flags_by_place_in_the_order_of_observation() {
        assert_eq!(flagged(&[10.0, 99.0, 10.1, 9.9, 10.2, 9.8]), [1]);
        assert_eq!(flagged(&[10.0, 10.1, 9.9, 10.2, 9.8]), [0_usize; 0]);
    }

    #[test]
    fn the_threshold_is_where_it_says() {
        // Median 0 and MAD 1: the limit is 3.5 * 1.4826 = 5.189.
        assert_eq!(flagged(&[-1.0, -1.0, 0.0, 1.0, 5.19]), [4]);
        assert_eq!(flagged(&[-1.0, -1.0, 0.0, 1.0, 5.18]), [0_usize; 0]);
    }

    #[test]
    fn too_few_samples_are_never_flagged() {
        assert_eq!(flagged(&[1.0, 1.1, 50.0, 1.0]), [0_usize; 0]);
    }

    #[test]
    fn equal_samples_with_one_stray_flag_the_stray() {
        assert_eq!(flagged(&[5.0, 5.0, 5.0, 5.0, 9.0, 5.0]), [4]);
        assert_eq!(flagged(&[5.0; 9]), [0_usize; 0]);
    }

    #[test]
    fn fences_stand_as_far_out_as_asked() {
        let samples = Samples::new(&[1.0, 2.0, 3.0, 4.0, 5.0, 9.0, 20.0]).expect("samples");
        let at = |factor| fences(&samples, factor).expect("fences");
        assert_eq!(at(FENCE_FACTOR), Fences { low: -4.25, high: 13.75 });
        assert_eq!((beyond(&samples, at(FENCE_FACTOR)), beyond(&samples, at(OUTER_FENCE_FACTOR))), (vec![6], vec![]));
        assert_eq!(beyond(&samples, at(f64::MAX)), [0_usize; 0]);
        for factor in [-1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(fences(&samples, factor), None);
        }
    }

    #[test]
    fn a_single_sample_and_a_zero_median_have_no_relative_spread() {
        assert_eq!(robust_cv(&Samples::new(&[4.0]).expect("samples")), None);
        assert_eq!(robust_cv(&Samples::new(&[-1.0, 0.0, 1.0]).expect("samples")), None);
    }
}
