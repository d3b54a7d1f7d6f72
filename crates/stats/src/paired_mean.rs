//! The mean of paired differences: Student's test of one sample over the differences of rounds ("The probable error of a mean",
//! Biometrika 6, 1908), for several treatments that were measured in the same rounds.
//!
//! For means of roughly normal differences, such as those of logarithms of times. Gates use rank tests, which assume less and which a few
//! rounds can never make significant among many pairs.

use crate::hypothesis::{Alternative, NoTest};
use crate::samples::Samples;
use crate::special::Tails;
use crate::student;

/// The fewest differences with a spread.
const MIN_DIFFERENCES: usize = 2;

/// The mean of differences, tested against zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedMean {
    /// The mean of the differences.
    pub mean: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// The degrees of freedom: one less than the number of differences.
    pub df: f64,
    /// The two-sided p-value under a mean of zero.
    pub p: f64,
}

impl PairedMean {
    /// Tests the mean of `differences`, one for each round.
    ///
    /// # Errors
    /// [`NoTest::TooFew`] for a single difference, [`NoTest::NoSpread`] if all are equal: then there is no error to compare the mean with.
    pub fn new(differences: &Samples) -> Result<Self, NoTest> {
        let n = differences.len();
        let variance = differences.variance().ok_or(NoTest::TooFew { first: n, second: n, needed: MIN_DIFFERENCES })?;
        if variance <= 0.0 {
            return Err(NoTest::NoSpread);
        }
        let (mean, standard_error, df) = (differences.mean(), (variance / n as f64).sqrt(), (n - 1) as f64);
        let t = mean / standard_error;
        let tails = Tails { lower: student::cdf(t, df), upper: student::upper(t, df) };
        Ok(Self { mean, standard_error, df, p: Alternative::TwoSided.p(tails) })
    }

    /// Tests the ratios of two series of values above zero, one pair for each round: the differences of their logarithms.
    ///
    /// # Errors
    /// As [`PairedMean::new`]; [`NoTest::TooFew`] also if the series differ in length or hold values without a logarithm.
    pub fn of_ratios(numerators: &Samples, denominators: &Samples) -> Result<Self, NoTest> {
        let (n, m) = (numerators.len(), denominators.len());
        let too_few = NoTest::TooFew { first: n, second: m, needed: MIN_DIFFERENCES };
        let (Ok(above), Ok(below), true) = (numerators.logs(), denominators.logs(), n == m) else { return Err(too_few) };
        let differences: Vec<f64> = above.observed().iter().zip(below.observed()).map(|(above, below)| above - below).collect();
        Self::new(&Samples::new(&differences).map_err(|_| too_few)?)
    }

    /// Returns the ratio of the geometric means, if the differences are those of logarithms.
    pub fn ratio(&self) -> f64 {
        libm::exp(self.mean)
    }

    /// Returns the ends of the interval that holds that ratio with confidence `level`.
    pub fn ratio_interval(&self, level: f64) -> (f64, f64) {
        let (low, high) = self.interval(level);
        (libm::exp(low), libm::exp(high))
    }

    /// Returns the ends of the interval that holds the mean with confidence `level`.
    pub fn interval(&self, level: f64) -> (f64, f64) {
        let half_width = student::critical(level, self.df) * self.standard_error;
        (self.mean - half_width, self.mean + half_width)
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_core::{RngCore as _, SeedableRng as _};

    use super::*;
    use crate::family::holm;

    fn tested(differences: &[f64]) -> Result<PairedMean, NoTest> {
        PairedMean::new(&Samples::new(differences).expect("samples"))
    }

    /// `scipy.stats.ttest_rel([1, 2, 3, 4, 5], [0, 0, 0, 0, 0])` and its `confidence_interval(0.95)`, SciPy 1.11.
    #[test]
    fn the_reference_of_scipy() {
        let found = tested(&[1.0, 2.0, 3.0, 4.0, 5.0]).expect("a test");
        assert!((found.p - 0.013_235_6).abs() < 1e-6, "{found:?}");
        let (low, high) = found.interval(0.95);
        assert!((low - 1.036_76).abs() < 1e-4 && (high - 4.963_24).abs() < 1e-4, "{low} {high}");
    }

    #[test]
    fn a_ratio_is_that_of_the_rounds() {
        let samples = |values: &[f64]| Samples::new(values).expect("samples");
        let found = PairedMean::of_ratios(&samples(&[2.0, 4.4, 7.6]), &samples(&[1.0, 2.0, 4.0])).expect("a test");
        assert!((found.ratio() - (2.0_f64 * 2.2 * 1.9).cbrt()).abs() < 1e-12, "{found:?}");
        let (low, high) = found.ratio_interval(0.95);
        assert!(low < found.ratio() && found.ratio() < high);
        assert!(PairedMean::of_ratios(&samples(&[1.0, 2.0]), &samples(&[1.0])).is_err());
        assert!(PairedMean::of_ratios(&samples(&[1.0, 0.0]), &samples(&[1.0, 2.0])).is_err());
    }

    #[test]
    fn differences_without_an_error_are_refused() {
        assert!(matches!(tested(&[1.0]), Err(NoTest::TooFew { .. })));
        assert!(matches!(tested(&[0.5, 0.5, 0.5]), Err(NoTest::NoSpread)));
    }

    /// A normal deviate of the sum of twelve uniform ones, which is enough for a test's level.
    fn deviate(rng: &mut ChaCha8Rng) -> f64 {
        (0..12).map(|_| f64::from(rng.next_u32()) / f64::from(u32::MAX)).sum::<f64>() - 6.0
    }

    /// The number of simulated runs.
    const RUNS: u32 = 400;

    /// Returns the share of runs of five treatments over eight rounds in which a pair that differs by `shift` times its noise or by
    /// nothing is told apart: any of equal treatments, and the shifted one from each other.
    fn shares(shift: f64) -> (f64, f64) {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let (mut false_alarms, mut found) = (0, 0);
        for _ in 0..RUNS {
            let rounds: Vec<Vec<f64>> = (0..8)
                .map(|_| (0..5).map(|treatment| deviate(&mut rng) + if treatment == 0 { shift } else { 0.0 }).collect())
                .collect();
            let pairs: Vec<(usize, usize)> = (0..5).flat_map(|a| (a + 1..5).map(move |b| (a, b))).collect();
            let p: Vec<f64> = pairs
                .iter()
                .map(|&(a, b)| {
                    tested(&rounds.iter().map(|round| round[a] - round[b]).collect::<Vec<_>>()).map_or(1.0, |test| test.p)
                })
                .collect();
            let is_found: Vec<bool> = holm(&p).iter().map(|p| *p <= 0.05).collect();
            false_alarms += u32::from(pairs.iter().zip(&is_found).any(|(&(a, _), found)| *found && (a > 0 || shift == 0.0)));
            found += u32::from(pairs.iter().zip(&is_found).filter(|((a, _), _)| *a == 0).all(|(_, found)| *found));
        }
        (f64::from(false_alarms) / f64::from(RUNS), f64::from(found) / f64::from(RUNS))
    }

    #[test]
    fn equal_treatments_are_seldom_told_apart_and_a_large_shift_is_found() {
        let (false_alarms, _) = shares(0.0);
        assert!(false_alarms <= 0.075, "the family-wise error of 5 %: {false_alarms}");
        let (false_alarms, found) = shares(8.0);
        assert!(false_alarms <= 0.075 && found > 0.9, "{false_alarms} {found}");
    }
}
