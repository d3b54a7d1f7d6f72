//! Welch's t-test of two means, which does not assume equal spreads ("The generalization of Student's problem when several
//! different population variances are involved", Biometrika 34, 1947).
//!
//! For means of roughly normal values. It is reported next to rank tests because other tools print it; gates do not use it.

use crate::hypothesis::{Alternative, NoTest, check_sizes};
use crate::samples::Samples;
use crate::special::Tails;
use crate::student;

/// The fewest samples on each side: a single one has no spread.
const MIN_SAMPLES: usize = 2;

/// The test's result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Welch {
    /// The difference of the means, first less second, in standard errors.
    pub t: f64,
    /// The degrees of freedom of Welch and Satterthwaite.
    pub df: f64,
    /// The p-value under equal means.
    pub p: f64,
}

/// Tests the mean of `first` against that of `second`.
///
/// `t = (mean1 - mean2) / sqrt(v1 / n + v2 / m)`, and `1 / df = w^2 / (n - 1) + (1 - w)^2 / (m - 1)` with w the share of `v1 / n`
/// in that sum (Satterthwaite, Biometrics Bulletin 2, 1946).
///
/// # Errors
/// [`NoTest::TooFew`] below two samples on a side, [`NoTest::NoSpread`] if neither side varies, [`NoTest::TooMany`] beyond
/// [`hypothesis::MAX_SAMPLES`](crate::hypothesis::MAX_SAMPLES).
pub fn welch(first: &Samples, second: &Samples, alternative: Alternative) -> Result<Welch, NoTest> {
    let (n, m) = (first.len(), second.len());
    check_sizes(n, m)?;
    let too_few = NoTest::TooFew { first: n, second: m, needed: MIN_SAMPLES };
    let first_part = first.variance().ok_or(too_few)? / n as f64;
    let second_part = second.variance().ok_or(too_few)? / m as f64;
    let squared_error = first_part + second_part;
    if squared_error <= 0.0 {
        return Err(NoTest::NoSpread);
    }
    let t = (first.mean() - second.mean()) / squared_error.sqrt();
    let (w, rest) = (first_part / squared_error, second_part / squared_error);
    let df = 1.0 / (w * w / (n - 1) as f64 + rest * rest / (m - 1) as f64);
    let tails = Tails { lower: student::cdf(t, df), upper: student::upper(t, df) };
    Ok(Welch { t, df, p: alternative.p(tails) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_test(first: &[f64], second: &[f64], alternative: Alternative) -> Result<Welch, NoTest> {
        welch(&Samples::new(first).expect("samples"), &Samples::new(second).expect("samples"), alternative)
    }

    #[test]
    fn refuses_what_has_no_spread() {
        let refusal =
            |first: &[f64], second: &[f64]| run_test(first, second, Alternative::Less).expect_err("refused").to_string();
        insta::assert_snapshot!(refusal(&[1.0], &[1.0, 2.0]), @"1 and 2 samples are too few: the test needs 2 on each side");
        insta::assert_snapshot!(refusal(&[1.0, 1.0], &[2.0, 2.0]), @"neither side varies: there is no error to compare the difference of their means with");
    }

    #[test]
    fn one_side_without_spread_is_students_test_of_the_other() {
        let found = run_test(&[1.0, 2.0, 3.0], &[5.0, 5.0], Alternative::TwoSided).expect("a test");
        assert!((found.df - 2.0).abs() < 1e-12 && found.t < 0.0);
    }

    #[test]
    fn swapped_samples_mirror_the_result() {
        let (a, b) = ([3.1, 2.7, 5.0, 4.4], [6.0, 1.0, 7.5]);
        let there = run_test(&a, &b, Alternative::Less).expect("a test");
        let back = run_test(&b, &a, Alternative::Greater).expect("a test");
        assert_eq!((there.t, there.p), (-back.t, back.p));
    }

    #[test]
    fn extreme_values_stay_numbers() {
        let found = run_test(&[1e150, -1e150, 1e150], &[1e-150, 2e-150], Alternative::TwoSided).expect("a test");
        assert!(found.t.is_finite() && found.df.is_finite() && (0.0..=1.0).contains(&found.p));
        let apart = run_test(&[1e-140, 2e-140], &[1e150, 1e150], Alternative::TwoSided).expect("a test");
        assert!((0.0..=1.0).contains(&apart.p), "{apart:?}");
    }
}
