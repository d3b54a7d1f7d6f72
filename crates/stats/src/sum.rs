//! The one summation order of the whole crate.

/// The length up to which slices are summed from left to right; longer ones are halved. Part of the definition of every sum:
/// changing it changes bytes.
const BLOCK: usize = 16;

/// The sum of `term(x)` over `values`, pairwise: halves are summed separately and added, down to blocks of [`BLOCK`].
///
/// The rounding error grows with the logarithm of the length instead of the length (Higham, "The accuracy of floating point
/// summation", SIAM Journal on Scientific Computing 14, 1993). The recursion is as deep as that logarithm.
pub(crate) fn pairwise(values: &[f64], term: impl Fn(f64) -> f64 + Copy) -> f64 {
    if values.len() <= BLOCK {
        return values.iter().fold(0.0, |total, &x| total + term(x));
    }
    let (left, right) = values.split_at(values.len() / 2);
    pairwise(left, term) + pairwise(right, term)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_accurate_where_a_running_sum_drifts() {
        let tenths = vec![0.1; 1 << 20];
        let naive: f64 = tenths.iter().fold(0.0, |total, x| total + x);
        let exact = 0.1 * f64::from(1 << 20);
        assert!((naive - exact).abs() > 1e-7);
        assert!((pairwise(&tenths, |x| x) - exact).abs() < 1e-9);
    }

    #[test]
    fn nothing_sums_to_zero() {
        assert_eq!(pairwise(&[], |x| x).to_bits(), 0.0_f64.to_bits());
    }
}
