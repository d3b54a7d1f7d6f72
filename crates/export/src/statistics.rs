//! Statistics by the definitions of other tools.

use assay_stats::quantile;

/// The samples of a metric in one trial, ascending. Times are whole nanoseconds as long as they can be, so that no sum is rounded.
#[derive(Clone, Debug)]
pub(crate) struct Samples {
    sorted: Vec<f64>,
    /// The samples in one unit of the output, such as 1e6 for nanoseconds in milliseconds.
    per_unit: f64,
}

impl Samples {
    /// Creates samples that are written in a unit of `per_unit` samples each; `None` if there are none.
    pub(crate) fn new(values: impl IntoIterator<Item = f64>, per_unit: f64) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        (!sorted.is_empty()).then_some(Self { sorted, per_unit })
    }

    pub(crate) fn count(&self) -> usize {
        self.sorted.len()
    }

    fn n(&self) -> f64 {
        self.sorted.len() as f64
    }

    pub(crate) fn mean(&self) -> f64 {
        self.total() / self.n() / self.per_unit
    }

    /// Returns the population standard deviation, as NumPy computes it by default.
    pub(crate) fn std(&self) -> f64 {
        let mean = self.total() / self.n();
        let squares: f64 = self.sorted.iter().map(|value| (value - mean) * (value - mean)).sum();
        (squares / self.n()).sqrt() / self.per_unit
    }

    pub(crate) fn sum(&self) -> f64 {
        self.total() / self.per_unit
    }

    pub(crate) fn min(&self) -> f64 {
        self.sorted.first().map_or(0.0, |value| value / self.per_unit)
    }

    pub(crate) fn max(&self) -> f64 {
        self.sorted.last().map_or(0.0, |value| value / self.per_unit)
    }

    /// Returns the percentile by linear interpolation, as NumPy does by default and Assay does.
    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        quantile(&self.sorted, percent / 100.0).unwrap_or_default() / self.per_unit
    }

    /// Returns the order statistic that LoadGen takes for a percentile: the one at the place n x share, rounded down, from 0.
    pub(crate) fn at_share(&self, share: f64) -> f64 {
        let place = (self.n() * share) as usize;
        self.sorted.get(place).or(self.sorted.last()).copied().unwrap_or_default() / self.per_unit
    }

    /// Returns the sum; exact if all samples are whole.
    fn total(&self) -> f64 {
        // Whole numbers up to 2^53 are exact, and so is their sum as integers.
        let is_whole = self.sorted.iter().all(|value| value.fract() == 0.0 && value.abs() < 9e15);
        if is_whole { self.sorted.iter().map(|value| *value as i128).sum::<i128>() as f64 } else { self.sorted.iter().sum() }
    }
}

/// A distribution whose samples have weights, as guidellm summarises it.
#[derive(Clone, Debug)]
pub(crate) struct Weighted {
    /// Ascending values, each once, with its weight.
    values: Vec<(f64, f64)>,
    total: f64,
}

impl Weighted {
    /// Creates a distribution of samples and weights; `None` if no sample has a weight.
    pub(crate) fn new(samples: impl IntoIterator<Item = (f64, f64)>) -> Option<Self> {
        let mut samples: Vec<_> = samples.into_iter().filter(|(_, weight)| *weight > 0.0).collect();
        samples.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
        let mut values: Vec<(f64, f64)> = Vec::new();
        for (value, weight) in samples {
            match values.last_mut() {
                Some(last) if last.0.to_bits() == value.to_bits() => last.1 += weight,
                _ => values.push((value, weight)),
            }
        }
        let total: f64 = values.iter().map(|(_, weight)| weight).sum();
        (total > 0.0).then_some(Self { values, total })
    }

    pub(crate) fn mean(&self) -> f64 {
        self.values.iter().map(|(value, weight)| value * weight).sum::<f64>() / self.total
    }

    pub(crate) fn variance(&self) -> f64 {
        let mean = self.mean();
        self.values.iter().map(|(value, weight)| (value - mean) * (value - mean) * weight).sum::<f64>() / self.total
    }

    /// Returns the smallest value with the most weight.
    pub(crate) fn mode(&self) -> f64 {
        let heavier = |best: (f64, f64), next: &(f64, f64)| if next.1 > best.1 { *next } else { best };
        self.values.iter().fold((0.0, 0.0), heavier).0
    }

    pub(crate) fn min(&self) -> f64 {
        self.values.first().map_or(0.0, |(value, _)| *value)
    }

    pub(crate) fn max(&self) -> f64 {
        self.values.last().map_or(0.0, |(value, _)| *value)
    }

    /// Returns the total weight: the number of samples if each weighs 1.
    pub(crate) fn count(&self) -> f64 {
        self.total
    }

    /// Returns the smallest value with at least this share of the weight at or below it.
    pub(crate) fn at_share(&self, share: f64) -> f64 {
        let mut below = 0.0;
        let found = self.values.iter().find(|(_, weight)| {
            below += weight;
            below / self.total >= share
        });
        found.map_or_else(|| self.max(), |(value, _)| *value)
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "all of these numbers are exact")]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_those_of_numpy() {
        let samples = Samples::new([4.0, 1.0, 3.0, 2.0], 2.0).expect("samples");
        assert_eq!((samples.mean(), samples.sum(), samples.min(), samples.max(), samples.count()), (1.25, 5.0, 0.5, 2.0, 4));
        assert_eq!((samples.percentile(50.0), samples.percentile(25.0)), (1.25, 0.875));
        assert!((samples.std() - 1.118_033_988_749_895 / 2.0).abs() < 1e-15);
        assert!(Samples::new([f64::NAN], 1.0).is_none() && Samples::new([], 1.0).is_none());
        let large = Samples::new([9_007_199_254_740_000.0 / 2.0, 1.0, 1.0], 1.0).expect("samples");
        assert_eq!(large.sum(), 4_503_599_627_370_002.0);
    }

    #[test]
    fn loadgen_takes_the_order_statistic_at_the_place() {
        let samples = Samples::new((1..=10).map(f64::from), 1.0).expect("samples");
        assert_eq!([0.5, 0.9, 0.99, 0.999].map(|share| samples.at_share(share)), [6.0, 10.0, 10.0, 10.0]);
    }

    #[test]
    fn weights_count_as_samples() {
        let weighted = Weighted::new([(2.0, 3.0), (1.0, 1.0), (9.0, 0.0)]).expect("samples");
        assert_eq!(
            (weighted.mean(), weighted.mode(), weighted.min(), weighted.max(), weighted.count()),
            (1.75, 2.0, 1.0, 2.0, 4.0)
        );
        assert_eq!([0.001, 0.25, 0.26, 0.999].map(|share| weighted.at_share(share)), [1.0, 1.0, 2.0, 2.0]);
        assert_eq!(weighted.variance(), 0.1875);
        assert!(Weighted::new([(1.0, 0.0)]).is_none());
    }
}
