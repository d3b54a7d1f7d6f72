//! The chi-squared distribution, and the upper bound of a standard deviation that is estimated from few samples.

use crate::interval::{NoInterval, check_level};
use crate::samples::Samples;
use crate::special::{self, MAX_PARAMETER, Tails};
use crate::student::check_many;

/// The most degrees of freedom; beyond, the distribution and its quantile are NaN.
pub const MAX_DEGREES: f64 = MAX_PARAMETER;

/// The probability that a chi-squared variable with `df` degrees of freedom is at most `x`; NaN unless `df` is above 0 and at
/// most [`MAX_DEGREES`].
pub fn cdf(x: f64, df: f64) -> f64 {
    tails(x, df).lower
}

/// The probability of a value above `x`, without the rounding of `1 - cdf`.
pub fn upper(x: f64, df: f64) -> f64 {
    tails(x, df).upper
}

/// The quantile of `p`. 0 at 0 and infinite at 1; NaN outside and for a `df` that [`cdf`] refuses.
pub fn quantile(p: f64, df: f64) -> f64 {
    if !is_degrees(df) || !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    if p <= 0.0 {
        return 0.0;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    // The smaller tail keeps its digits.
    if p > 0.5 { special::find_crossing(1.0 - p, |x| upper(x, df)) } else { special::find_crossing(-p, |x| -cdf(x, df)) }
}

fn is_degrees(df: f64) -> bool {
    df > 0.0 && df <= MAX_DEGREES
}

fn tails(x: f64, df: f64) -> Tails {
    if !is_degrees(df) || x.is_nan() {
        return Tails { lower: f64::NAN, upper: f64::NAN };
    }
    special::gamma(df / 2.0, x / 2.0)
}

/// The standard deviation that the true one does not exceed with confidence `level`, in the samples' unit, if the samples are
/// normal: `sd sqrt((n - 1) / x)`, x the `1 - level` quantile of chi-squared with n - 1 degrees of freedom (Hahn and Meeker,
/// "Statistical Intervals", 1991, section 4.4).
///
/// A design sized on the spread that five runs happened to show misses its power every second time; sized on an upper bound, it
/// reaches it.
///
/// # Errors
/// [`NoInterval::TooFewForSpread`] for a single sample, [`NoInterval::TooMany`] beyond [`MAX_DEGREES`], [`NoInterval::Level`] for
/// a level outside 0 to 1, [`NoInterval::Unbounded`] if the bound is not a finite number.
pub fn sd_upper_bound(samples: &Samples, level: f64) -> Result<f64, NoInterval> {
    check_level(level)?;
    let n = samples.len();
    let sd = samples.sd().ok_or(NoInterval::TooFewForSpread { n, needed: 2 })?;
    check_many(n)?;
    let freedom = (n - 1) as f64;
    let bound = widen(sd, freedom, level);
    bound.is_finite().then_some(bound).ok_or(NoInterval::Unbounded)
}

/// The same bound of a standard deviation that is known from `freedom` degrees of freedom.
pub(crate) fn widen(sd: f64, freedom: f64, level: f64) -> f64 {
    sd * (freedom / quantile(1.0 - level, freedom)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_degrees_of_freedom_are_exponential() {
        assert!((upper(3.0, 2.0) - libm::exp(-1.5)).abs() < 1e-15);
        assert!((quantile(0.5, 2.0) - 2.0 * libm::log(2.0)).abs() < 1e-14);
    }

    #[test]
    fn the_quantile_undoes_the_distribution() {
        for df in [0.5, 1.0, 4.0, 19.0, 1e6] {
            for p in [1e-9, 0.2, 0.5, 0.8, 0.999] {
                assert!((cdf(quantile(p, df), df) / p - 1.0).abs() < 1e-11, "{p} {df}");
            }
        }
    }

    #[test]
    fn the_ends_are_known_and_the_outside_is_not_a_number() {
        assert_eq!(
            (quantile(0.0, 3.0), quantile(1.0, 3.0), cdf(-1.0, 3.0), cdf(f64::INFINITY, 3.0)),
            (0.0, f64::INFINITY, 0.0, 1.0)
        );
        for df in [0.0, -1.0, f64::NAN, f64::INFINITY, 2e7] {
            assert!(cdf(1.0, df).is_nan() && quantile(0.9, df).is_nan(), "{df}");
        }
    }

    #[test]
    fn the_upper_bound_needs_a_spread_and_a_level() {
        let bound = |values: &[f64], level| sd_upper_bound(&Samples::new(values).expect("samples"), level);
        assert_eq!(bound(&[1.0], 0.8), Err(NoInterval::TooFewForSpread { n: 1, needed: 2 }));
        assert!(matches!(bound(&[1.0, 2.0], f64::NAN), Err(NoInterval::Level { .. })));
        assert_eq!(bound(&[2.0; 5], 0.8), Ok(0.0));
        let at = |level| bound(&[1.0, 2.0, 4.0], level).expect("a bound");
        assert!(at(0.8) > at(0.5));
    }
}
