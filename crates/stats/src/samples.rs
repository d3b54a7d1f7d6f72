//! The entry point of the crate: numbers are checked here once and trusted afterwards.

use crate::quantile;
use crate::sum;

/// The largest magnitude of a sample.
///
/// Squares of deviations must stay finite when many of them are summed. The largest `f64` is about 1.8e308, so 1e150 leaves room for
/// far more samples than memory holds; no measured quantity comes near it in any unit.
pub const MAX_MAGNITUDE: f64 = 1e150;

/// The reason why numbers were rejected as samples.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum SampleError {
    /// There were no values.
    #[error("no samples")]
    Empty,
    /// A value was NaN or infinite. The index counts from 0 in the order given.
    #[error("sample {index} is {value}, not a finite number")]
    NotFinite {
        /// Position of the value.
        index: usize,
        /// The value.
        value: f64,
    },
    /// A value was beyond [`MAX_MAGNITUDE`]. The index counts from 0 in the order given.
    #[error("sample {index} is {value:e}, beyond the largest magnitude of {MAX_MAGNITUDE:e}")]
    TooLarge {
        /// Position of the value.
        index: usize,
        /// The value.
        value: f64,
    },
    /// A value whose logarithm was needed was not above 0. The index counts from 0 in the order given.
    #[error("sample {index} is {value}, which has no logarithm: only values above 0 have one")]
    NoLogarithm {
        /// Position of the value.
        index: usize,
        /// The value.
        value: f64,
    },
}

/// One or more finite numbers in the order in which they were observed, with an ascending copy.
///
/// The statistics below depend on the values only, never on their order, to the last bit; the order is kept for
/// [`trend`](crate::trend::trend) and for naming outliers.
#[derive(Debug, Clone, PartialEq)]
pub struct Samples {
    observed: Vec<f64>,
    sorted: Vec<f64>,
}

impl Samples {
    /// Checks `values`, given in order of observation.
    ///
    /// A negative zero becomes zero: the two are equal numbers with different bytes.
    ///
    /// # Errors
    /// [`SampleError`] if there is no value, or one is not finite or beyond [`MAX_MAGNITUDE`]; the first such value is named.
    pub fn new(values: &[f64]) -> Result<Self, SampleError> {
        if values.is_empty() {
            return Err(SampleError::Empty);
        }
        for (index, &value) in values.iter().enumerate() {
            check(index, value)?;
        }
        let observed: Vec<f64> = values.iter().map(|value| value + 0.0).collect();
        let mut sorted = observed.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        Ok(Self { observed, sorted })
    }

    /// Returns the natural logarithms, in the same order of observation.
    ///
    /// # Errors
    /// [`SampleError::NoLogarithm`] if a value is not above 0; the first such value is named.
    pub fn logs(&self) -> Result<Self, SampleError> {
        if let Some((index, &value)) = self.observed.iter().enumerate().find(|(_, value)| **value <= 0.0) {
            return Err(SampleError::NoLogarithm { index, value });
        }
        let logs: Vec<f64> = self.observed.iter().map(|&value| libm::log(value)).collect();
        Self::new(&logs)
    }

    /// The number of samples, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "samples are never empty")]
    pub fn len(&self) -> usize {
        self.observed.len()
    }

    /// The samples in the order given.
    pub fn observed(&self) -> &[f64] {
        &self.observed
    }

    /// The samples in ascending order.
    pub fn sorted(&self) -> &[f64] {
        &self.sorted
    }

    /// The smallest sample.
    pub fn min(&self) -> f64 {
        self.at(0)
    }

    /// The largest sample.
    pub fn max(&self) -> f64 {
        self.at(self.len() - 1)
    }

    /// The sample at a zero-based rank. Only for ranks below `len`; the fallback is never reached.
    pub(crate) fn at(&self, rank: usize) -> f64 {
        self.sorted.get(rank).copied().unwrap_or_default()
    }

    /// The quantile of Hyndman and Fan's type 7, in the samples' unit; see [`quantile::quantile`]. `q` is clamped to 0..=1.
    pub fn quantile(&self, q: f64) -> f64 {
        quantile::quantile(&self.sorted, q.clamp(0.0, 1.0)).unwrap_or_else(|| self.min())
    }

    /// The median, in the samples' unit.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The arithmetic mean, in the samples' unit.
    ///
    /// Computed as `c + sum(x - c) / n` with the median as `c`, so that equal samples have exactly themselves as their mean and a
    /// large common offset costs no digits.
    pub fn mean(&self) -> f64 {
        let centre = self.median();
        let shift = sum::pairwise(&self.sorted, |x| x - centre) / self.len() as f64;
        (centre + shift).clamp(self.min(), self.max())
    }

    /// The unbiased variance (ddof 1) in the samples' unit squared; `None` for a single sample.
    ///
    /// The corrected two-pass algorithm: Chan, Golub and LeVeque, "Algorithms for computing the sample variance", The American
    /// Statistician 37 (1983), equation 1.7.
    pub fn variance(&self) -> Option<f64> {
        if self.len() < 2 {
            return None;
        }
        let n = self.len() as f64;
        let mean = self.mean();
        let squares = sum::pairwise(&self.sorted, |x| (x - mean) * (x - mean));
        let residue = sum::pairwise(&self.sorted, |x| x - mean);
        Some(((squares - residue * residue / n) / (n - 1.0)).max(0.0))
    }

    /// The standard deviation (ddof 1), in the samples' unit; `None` for a single sample.
    pub fn sd(&self) -> Option<f64> {
        self.variance().map(f64::sqrt)
    }

    /// The coefficient of variation, `sd / |mean|`, a ratio (0.05 is 5 %); `None` for a single sample and if the mean is 0.
    pub fn cv(&self) -> Option<f64> {
        ratio(self.sd()?, self.mean())
    }
}

/// `spread / |centre|`; `None` if the centre is 0 or so small that the ratio is not finite.
pub(crate) fn ratio(spread: f64, centre: f64) -> Option<f64> {
    let ratio = spread / centre.abs();
    ratio.is_finite().then_some(ratio)
}

fn check(index: usize, value: f64) -> Result<(), SampleError> {
    if !value.is_finite() {
        return Err(SampleError::NotFinite { index, value });
    }
    if value.abs() > MAX_MAGNITUDE {
        return Err(SampleError::TooLarge { index, value });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(values: &[f64]) -> String {
        Samples::new(values).expect_err("refused").to_string()
    }

    fn samples(values: &[f64]) -> Samples {
        Samples::new(values).expect("samples")
    }

    #[test]
    fn names_the_first_value_that_it_refuses() {
        insta::assert_snapshot!(refusal(&[]), @"no samples");
        insta::assert_snapshot!(refusal(&[1.0, f64::NAN, f64::INFINITY]), @"sample 1 is NaN, not a finite number");
        insta::assert_snapshot!(refusal(&[f64::NEG_INFINITY]), @"sample 0 is -inf, not a finite number");
        insta::assert_snapshot!(refusal(&[1.0, -2e150]), @"sample 1 is -2e150, beyond the largest magnitude of 1e150");
    }

    #[test]
    fn takes_the_largest_magnitude_without_overflow() {
        let extreme = samples(&[-MAX_MAGNITUDE, MAX_MAGNITUDE, MAX_MAGNITUDE, -MAX_MAGNITUDE]);
        assert!(extreme.variance().expect("variance").is_finite());
        assert_eq!(extreme.mean().to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn equal_samples_have_themselves_as_mean_and_no_spread() {
        let equal = samples(&[0.1; 7]);
        assert_eq!(equal.mean().to_bits(), 0.1_f64.to_bits());
        assert_eq!(equal.variance(), Some(0.0));
    }

    #[test]
    fn a_large_offset_costs_no_digits() {
        assert_eq!(samples(&[1e15 + 1.0, 1e15 + 2.0, 1e15 + 3.0]).variance(), Some(1.0));
    }

    #[test]
    fn a_single_sample_has_no_spread() {
        assert_eq!((samples(&[3.0]).sd(), samples(&[3.0]).cv()), (None, None));
    }

    #[test]
    fn relative_spread_needs_a_mean() {
        assert_eq!(samples(&[-1.0, 1.0]).cv(), None);
    }

    #[test]
    fn negative_zero_becomes_zero() {
        assert_eq!(samples(&[-0.0]).min().to_bits(), 0.0_f64.to_bits());
    }
}
