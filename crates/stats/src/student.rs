//! Student's t distribution ("The probable error of a mean", Biometrika 6, 1908) and the interval for one more value.

use crate::interval::{Interval, Method, NoInterval, check_level};
use crate::samples::{SampleError, Samples};
use crate::special::{self, MAX_PARAMETER, Tails};

/// The most degrees of freedom; beyond, the distribution and its quantile are NaN. It differs from the normal one by less than 1e-7
/// there.
pub const MAX_DEGREES: f64 = MAX_PARAMETER;

/// The probability that a t variable with `df` degrees of freedom is at most `t`; NaN unless `df` is above 0 and at most
/// [`MAX_DEGREES`].
pub fn cdf(t: f64, df: f64) -> f64 {
    tails(t, df).lower
}

/// The probability of a value above `t`, without the rounding of `1 - cdf`.
pub fn upper(t: f64, df: f64) -> f64 {
    tails(t, df).upper
}

/// The quantile of `p`: the t that is not exceeded with that probability. Infinite at 0 and 1, NaN outside and for a `df` that
/// [`cdf`] rejects.
pub fn quantile(p: f64, df: f64) -> f64 {
    if !is_degrees(df) || !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    let centred = p - 0.5;
    let tail = if centred < 0.0 { p } else { 1.0 - p };
    if tail == 0.0 {
        return f64::INFINITY.copysign(centred);
    }
    if tail >= 0.5 {
        return 0.0;
    }
    special::find_crossing(tail, |t| upper(t, df)).copysign(centred)
}

fn is_degrees(df: f64) -> bool {
    df > 0.0 && df <= MAX_DEGREES
}

/// Both tails: the smaller is half the incomplete beta function of `df / 2` and `1 / 2` at `df / (df + t^2)` (Abramowitz and Stegun,
/// 26.7.1).
fn tails(t: f64, df: f64) -> Tails {
    if !is_degrees(df) || t.is_nan() {
        return Tails { lower: f64::NAN, upper: f64::NAN };
    }
    let outside = 0.5 * special::beta(df / 2.0, 0.5, share(df.sqrt(), t), share(t, df.sqrt())).lower;
    if t < 0.0 { Tails { lower: outside, upper: 1.0 - outside } } else { Tails { lower: 1.0 - outside, upper: outside } }
}

/// `part^2 / (part^2 + other^2)`, without overflow if either is large.
fn share(part: f64, other: f64) -> f64 {
    let (part, other) = (part.abs(), other.abs());
    if part <= other {
        let r = part / other;
        r * r / (1.0 + r * r)
    } else {
        let r = other / part;
        1.0 / (1.0 + r * r)
    }
}

/// The half-width of a two-sided interval in standard errors: the t that is exceeded with probability `(1 - level) / 2`.
pub(crate) fn critical(level: f64, df: f64) -> f64 {
    -quantile((1.0 - level) / 2.0, df)
}

/// The interval that contains the next value with confidence `level`, if it comes from the same normal distribution as the
/// samples: `mean +- t sd sqrt(1 + 1/n)`, t the `(1 + level) / 2` quantile with n - 1 degrees of freedom (Hahn and Meeker,
/// "Statistical Intervals", 1991, section 4.7).
///
/// # Errors
/// [`NoInterval::TooFewForSpread`] for a single sample, [`NoInterval::TooMany`] beyond [`MAX_DEGREES`], [`NoInterval::Level`] for
/// a level outside 0 to 1, and [`NoInterval::Unbounded`] if an end is not a finite number.
pub fn prediction_interval(samples: &Samples, level: f64) -> Result<Interval, NoInterval> {
    check_level(level)?;
    let n = samples.len();
    let sd = samples.sd().ok_or(NoInterval::TooFewForSpread { n, needed: 2 })?;
    check_many(n)?;
    let half = critical(level, (n - 1) as f64) * sd * (1.0 + 1.0 / n as f64).sqrt();
    bounded(samples.mean() - half, samples.mean() + half, level)
}

/// The interval for values above 0 whose logarithms are normal: exp of the [`prediction_interval`] of the logarithms. It suits
/// latencies and rates, whose noise is proportional to their size.
///
/// # Errors
/// As [`prediction_interval`], and [`NoInterval::Samples`] for a value that is not above 0.
pub fn log_prediction_interval(samples: &Samples, level: f64) -> Result<Interval, NoInterval> {
    let logs = samples.logs()?;
    let interval = prediction_interval(&logs, level)?;
    bounded(libm::exp(interval.low), libm::exp(interval.high), level)
}

pub(crate) fn check_many(n: usize) -> Result<(), NoInterval> {
    let limit = MAX_DEGREES as usize;
    if n > limit { Err(NoInterval::TooMany { n, limit }) } else { Ok(()) }
}

fn bounded(low: f64, high: f64, level: f64) -> Result<Interval, NoInterval> {
    let finite = low.is_finite() && high.is_finite();
    finite.then_some(Interval { low, high, level, method: Method::StudentPrediction }).ok_or(NoInterval::Unbounded)
}

impl From<SampleError> for NoInterval {
    fn from(error: SampleError) -> Self {
        Self::Samples(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: &[f64]) -> Samples {
        Samples::new(values).expect("samples")
    }

    #[test]
    fn one_degree_of_freedom_is_cauchys() {
        assert!((cdf(1.0, 1.0) - 0.75).abs() < 1e-15);
        assert!((quantile(0.75, 1.0) - 1.0).abs() < 1e-14);
        assert!((upper(1e100, 1.0) * std::f64::consts::PI * 1e100 - 1.0).abs() < 1e-13);
    }

    #[test]
    fn the_quantile_undoes_the_distribution() {
        for df in [1.0, 2.5, 19.0, 1e6] {
            for p in [1e-12, 0.001, 0.3, 0.5, 0.975] {
                assert!((cdf(quantile(p, df), df) / p - 1.0).abs() < 1e-12, "{p} {df}");
            }
        }
    }

    #[test]
    fn the_ends_are_infinite_and_the_outside_is_not_a_number() {
        assert_eq!((quantile(0.0, 3.0), quantile(1.0, 3.0), quantile(0.5, 3.0)), (f64::NEG_INFINITY, f64::INFINITY, 0.0));
        assert_eq!((cdf(f64::INFINITY, 3.0), cdf(f64::NEG_INFINITY, 3.0)), (1.0, 0.0));
        for df in [0.0, -1.0, f64::NAN, f64::INFINITY, 2e7] {
            assert!(cdf(1.0, df).is_nan() && quantile(0.9, df).is_nan(), "{df}");
        }
        assert!(quantile(1.5, 3.0).is_nan() && quantile(f64::NAN, 3.0).is_nan() && cdf(f64::NAN, 3.0).is_nan());
    }

    #[test]
    fn a_prediction_needs_a_spread_a_level_and_numbers_that_hold_it() {
        let refusal = |found: Result<Interval, NoInterval>| found.expect_err("refused").to_string();
        insta::assert_snapshot!(refusal(prediction_interval(&samples(&[3.0]), 0.95)), @"1 sample has no spread to measure; 2 are needed");
        insta::assert_snapshot!(refusal(prediction_interval(&samples(&[3.0, 4.0]), 1.0)), @"the confidence level 1 is not between 0 and 1");
        insta::assert_snapshot!(refusal(log_prediction_interval(&samples(&[3.0, 0.0]), 0.95)), @"sample 1 is 0, which has no logarithm: only values above 0 have one");
        insta::assert_snapshot!(refusal(log_prediction_interval(&samples(&[1e-100, 1e100]), 0.95)), @"an end of the interval lies beyond every number");
    }

    #[test]
    fn equal_samples_predict_themselves() {
        let found = prediction_interval(&samples(&[5.0; 4]), 0.95).expect("an interval");
        assert_eq!((found.low, found.high, found.method.name()), (5.0, 5.0, "student_prediction"));
    }
}
