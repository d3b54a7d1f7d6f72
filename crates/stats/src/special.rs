//! The incomplete beta and gamma functions, in arithmetic that is the same on every machine.
//!
//! Both tails are computed, and the smaller one is never a difference from 1. The prefactors are written around the mode with
//! Stirling's series (Loader, "Fast and accurate computation of binomial probabilities", 2000), because differences of log-gammas
//! lose a digit for each digit of the parameters; the rest is a continued fraction or a series (DiDonato and Morris, ACM TOMS 18,
//! 1992, and 12, 1986).

use std::f64::consts::TAU;

/// The most steps of a fraction or series. Near the mode they need a few times the square root of the larger parameter, which is at most
/// [`MAX_PARAMETER`]; elsewhere a few dozen.
const MAX_STEPS: u32 = 100_000;

/// The largest parameter of both functions: a few thousand steps.
pub(crate) const MAX_PARAMETER: f64 = 1e7;

/// The replacement for a denominator of 0 in a continued fraction (Lentz's method as modified by Thompson and Barnett, J. Comput.
/// Phys. 64, 1986).
const TINY: f64 = 1e-300;

/// A probability and its complement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tails {
    pub(crate) lower: f64,
    pub(crate) upper: f64,
}

impl Tails {
    fn from_lower(lower: f64) -> Self {
        Self { lower, upper: 1.0 - lower }.clamped()
    }

    fn from_upper(upper: f64) -> Self {
        Self { lower: 1.0 - upper, upper }.clamped()
    }

    fn clamped(self) -> Self {
        Self { lower: self.lower.clamp(0.0, 1.0), upper: self.upper.clamp(0.0, 1.0) }
    }
}

/// The regularised incomplete beta function at `x` with `y = 1 - x`, both given so that neither loses digits. `a` and `b` are above 0.
pub(crate) fn beta(a: f64, b: f64, x: f64, y: f64) -> Tails {
    if x <= 0.0 {
        return Tails { lower: 0.0, upper: 1.0 };
    }
    if y <= 0.0 {
        return Tails { lower: 1.0, upper: 0.0 };
    }
    let front = beta_front(a, b, x, y);
    if x < (a + 1.0) / (a + b + 2.0) {
        Tails::from_lower(front * beta_fraction(a, b, x, y))
    } else {
        Tails::from_upper(front * beta_fraction(b, a, y, x))
    }
}

/// `x^a y^b / B(a, b)`.
fn beta_front(a: f64, b: f64, x: f64, y: f64) -> f64 {
    let total = a + b;
    let distance = b * x - a * y;
    let exponent = a * log_ratio(distance / a, x * total / a) + b * log_ratio(-distance / b, y * total / b);
    let corrections = stirling_error(total) - stirling_error(a) - stirling_error(b);
    libm::exp(exponent + corrections) * (a / total * (b / TAU)).sqrt()
}

/// The logarithm of a ratio that is `1 + excess`, from the argument that keeps its digits.
fn log_ratio(excess: f64, ratio: f64) -> f64 {
    if excess.abs() < 0.5 { libm::log1p(excess) } else { libm::log(ratio) }
}

/// The continued fraction of the incomplete beta function (DiDonato and Morris, 1992, equation 9; the even part of Abramowitz and
/// Stegun, 26.5.8), by the modified Lentz method. Written with `y`, it keeps its digits if `x` is close to 1, unlike the common
/// form, which loses five digits at a million degrees of freedom.
fn beta_fraction(a: f64, b: f64, x: f64, y: f64) -> f64 {
    let lead = a * y - b * x + 1.0;
    let first = nonzero(a * lead / (a + 1.0));
    let mut lentz = Lentz { c: first, d: 0.0, value: first };
    for place in 1..=MAX_STEPS {
        let step = f64::from(place);
        let odd = a + 2.0 * step - 1.0;
        let numerator = (a + step - 1.0) / odd * ((a + b + step - 1.0) / odd) * step * (b - step) * x * x;
        let denominator = step + step * (b - step) * x / odd + (a + step) * (lead + step * (1.0 + y)) / (odd + 2.0);
        if lentz.advance(numerator, denominator) {
            break;
        }
    }
    1.0 / lentz.value
}

/// The regularised incomplete gamma functions P and Q of shape `a` above 0.
pub(crate) fn gamma(a: f64, x: f64) -> Tails {
    if x <= 0.0 {
        return Tails { lower: 0.0, upper: 1.0 };
    }
    if x == f64::INFINITY {
        return Tails { lower: 1.0, upper: 0.0 };
    }
    let front = gamma_front(a, x);
    if x < a + 1.0 { Tails::from_lower(front * gamma_series(a, x)) } else { Tails::from_upper(front * gamma_fraction(a, x)) }
}

/// `x^a e^-x / Gamma(a)`.
fn gamma_front(a: f64, x: f64) -> f64 {
    let excess = (x - a) / a;
    let exponent = a * log_ratio(excess, x / a) - (x - a);
    libm::exp(exponent - stirling_error(a)) * (a / TAU).sqrt()
}

/// `sum of x^k / (a (a + 1) ... (a + k))`.
fn gamma_series(a: f64, x: f64) -> f64 {
    let (mut term, mut total) = (1.0 / a, 1.0 / a);
    for step in 1..=MAX_STEPS {
        term *= x / (a + f64::from(step));
        total += term;
        if term <= total * f64::EPSILON / 4.0 {
            break;
        }
    }
    total
}

/// The continued fraction of the upper incomplete gamma function (Abramowitz and Stegun, 6.5.31, contracted).
fn gamma_fraction(a: f64, x: f64) -> f64 {
    let mut denominator = x + 1.0 - a;
    let mut lentz = Lentz { c: 1.0 / TINY, d: 1.0 / nonzero(denominator), value: 1.0 / nonzero(denominator) };
    for step in 1..=MAX_STEPS {
        let k = f64::from(step);
        denominator += 2.0;
        if lentz.advance(-k * (k - a), denominator) {
            break;
        }
    }
    lentz.value
}

/// A continued fraction, evaluated from the front.
struct Lentz {
    c: f64,
    d: f64,
    value: f64,
}

impl Lentz {
    /// Adds one more partial numerator and denominator. Returns true if the value no longer changes.
    fn advance(&mut self, numerator: f64, denominator: f64) -> bool {
        self.d = 1.0 / nonzero(denominator + numerator * self.d);
        self.c = nonzero(denominator + numerator / self.c);
        let factor = self.c * self.d;
        self.value *= factor;
        (factor - 1.0).abs() <= f64::EPSILON
    }
}

fn nonzero(x: f64) -> f64 {
    if x.abs() < TINY { TINY } else { x }
}

/// The argument from which on five terms of Stirling's series leave an error below 1e-17.
const STIRLING_FROM: f64 = 16.0;

/// `ln Gamma(z) - (z - 1/2) ln z + z - ln(2 pi) / 2` for z above 0: the error of Stirling's formula. Smaller z are raised by the
/// recurrence of the gamma function.
fn stirling_error(z: f64) -> f64 {
    let (mut z, mut carried) = (z, 0.0);
    while z < STIRLING_FROM {
        carried += (z + 0.5) * libm::log1p(1.0 / z) - 1.0;
        z += 1.0;
    }
    let s = 1.0 / (z * z);
    let series = 1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0 - s / 1188.0)));
    carried + series / z
}

/// The probabilities of at most `k` successes, and of more, in `n` trials of probability `q` strictly between 0 and 1.
pub(crate) fn binomial(n: usize, q: f64, k: usize) -> Tails {
    if k >= n {
        return Tails { lower: 1.0, upper: 0.0 };
    }
    beta((n - k) as f64, (k + 1) as f64, 1.0 - q, q)
}

/// The point at or above 0 at which the decreasing function `upper` passes through `p`: bracketed by doubling, then bisected
/// until no double lies between. `p` is strictly between 0 and `upper(0)`.
pub(crate) fn find_crossing(p: f64, upper: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while upper(high) > p && high < f64::MAX / 2.0 {
        (low, high) = (high, high * 2.0);
    }
    loop {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            return high;
        }
        if upper(middle) > p { low = middle } else { high = middle }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-14 * b.abs(), "{a:e} is not {b:e}");
    }

    #[test]
    fn stirlings_error_is_what_the_factorials_say() {
        // ln 1! and ln 3! by hand.
        let rest = |z: f64, log_gamma: f64| log_gamma - (z - 0.5) * z.ln() + z - 0.5 * TAU.ln();
        assert!((stirling_error(1.0) - rest(1.0, 0.0)).abs() < 1e-14);
        assert!((stirling_error(4.0) - rest(4.0, 6.0_f64.ln())).abs() < 1e-14);
    }

    #[test]
    fn the_beta_function_is_known_where_it_is_a_polynomial() {
        close(beta(1.0, 1.0, 0.3, 0.7).lower, 0.3);
        close(beta(2.0, 1.0, 0.3, 0.7).lower, 0.09);
        close(beta(1.0, 3.0, 0.25, 0.75).upper, 0.421_875);
    }

    #[test]
    fn the_gamma_function_is_known_where_it_is_exponential() {
        close(gamma(1.0, 2.0).upper, libm::exp(-2.0));
        close(gamma(1.0, 0.1).lower, -libm::expm1(-0.1));
    }

    #[test]
    fn binomial_tails_are_sums_of_few_terms() {
        close(binomial(5, 0.5, 0).lower, 1.0 / 32.0);
        close(binomial(4, 0.25, 3).upper, 1.0 / 256.0);
        assert_eq!(binomial(4, 0.25, 4), Tails { lower: 1.0, upper: 0.0 });
    }

    #[test]
    fn the_largest_parameters_converge() {
        let half = MAX_PARAMETER;
        assert!((beta(half, half, 0.5, 0.5).lower - 0.5).abs() < 1e-13);
        assert!((gamma(half, half).lower - 0.5).abs() < 1e-3);
    }
}
