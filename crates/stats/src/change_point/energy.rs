//! The energy divergence between the values before a split and those after it.
//!
//! With exponent 1 and in its unbiased U-form (Matteson and James, 2014, equations 5 and 6): for n values X and m values Y, `Q =
//! 2/(n+m) sum|x-y| - 2m/((n+m)(n-1)) sum|x-x'| - 2n/((n+m)(m-1)) sum|y-y'|`, inner sums over unordered pairs. It grows with any
//! difference of the distributions, and in one dimension it is the squared distance between the two distribution functions.

use super::MIN_SIDE;

/// The highest divergence over all splits with [`MIN_SIDE`] values on either side; negative infinity if there is no such split.
pub(super) fn highest_divergence(values: &[f64]) -> f64 {
    let n = values.len();
    let Distances { to_earlier, to_later } = Distances::new(values);
    let (mut left, mut right, mut between) = (0.0, to_later.iter().sum::<f64>(), 0.0);
    let mut highest = f64::NEG_INFINITY;
    // Each split moves one value from the right to the left.
    for (split, (earlier, later)) in (1..n).zip(to_earlier.iter().zip(&to_later)) {
        left += earlier;
        right -= later;
        between += later - earlier;
        if split >= MIN_SIDE && n - split >= MIN_SIDE {
            highest = highest.max(divergence([split as f64, left], [(n - split) as f64, right], between));
        }
    }
    highest
}

/// The divergence from the number of values and the sum of distances on either side, and the sum of distances across.
fn divergence([n, left]: [f64; 2], [m, right]: [f64; 2], between: f64) -> f64 {
    2.0 / (n + m) * (between - left * m / (n - 1.0) - right * n / (m - 1.0))
}

/// For each value, the sum of its distances to those before it and the sum of those to the values after it.
struct Distances {
    to_earlier: Vec<f64>,
    to_later: Vec<f64>,
}

/// The number of lanes of a sum, which a processor adds at once. It is part of the definition of every sum.
const LANES: usize = 8;

impl Distances {
    fn new(values: &[f64]) -> Self {
        let mut to_later = vec![0.0; values.len()];
        let to_earlier = |(place, &value): (usize, &f64)| {
            let (before, sums) = (values.get(..place), to_later.get_mut(..place));
            before.zip(sums).map_or(0.0, |(before, sums)| measure(value, before, sums))
        };
        Self { to_earlier: values.iter().enumerate().map(to_earlier).collect(), to_later }
    }
}

/// The sum of the distances of `before` from `value`; each distance is also added to its own entry of `sums`.
///
/// Index k goes into lane k mod 8, lanes are added in order, and the values after the last eight follow.
fn measure(value: f64, before: &[f64], sums: &mut [f64]) -> f64 {
    let (chunks, rest) = before.as_chunks::<LANES>();
    let (sum_chunks, sum_rest) = sums.as_chunks_mut::<LANES>();
    let mut lanes = [0.0; LANES];
    for (chunk, sums) in chunks.iter().zip(sum_chunks) {
        for ((lane, x), sum) in lanes.iter_mut().zip(chunk).zip(sums) {
            let distance = (x - value).abs();
            *lane += distance;
            *sum += distance;
        }
    }
    let add = |total: f64, (x, sum): (&f64, &mut f64)| {
        let distance = (x - value).abs();
        *sum += distance;
        total + distance
    };
    rest.iter().zip(sum_rest).fold(lanes.iter().sum(), add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum_of_pairs(left: &[f64], right: &[f64]) -> f64 {
        left.iter().flat_map(|x| right.iter().map(move |y| (x - y).abs())).sum()
    }

    /// The definition, written out.
    fn defined(values: &[f64], split: usize) -> f64 {
        let (left, right) = values.split_at(split);
        let (n, m) = (left.len() as f64, right.len() as f64);
        2.0 / (n + m) * sum_of_pairs(left, right)
            - 2.0 * m / ((n + m) * (n - 1.0)) * sum_of_pairs(left, left) / 2.0
            - 2.0 * n / ((n + m) * (m - 1.0)) * sum_of_pairs(right, right) / 2.0
    }

    #[test]
    fn agrees_with_the_definition() {
        let values: Vec<f64> = (0..37_u32).map(|i| f64::from(i * 29 % 37) * 0.1 + f64::from(i / 20)).collect();
        let expected = (3..=34).map(|split| defined(&values, split)).fold(f64::NEG_INFINITY, f64::max);
        assert!((highest_divergence(&values) - expected).abs() < 1e-9);
    }

    #[test]
    fn agrees_with_the_published_example() {
        // The divergence that Otava 0.8.0 reports for this series at its split 6.
        let values = [1.02, 0.95, 0.99, 1.00, 1.12, 0.90, 0.50, 0.51, 0.48, 0.48, 0.55];
        assert!((highest_divergence(&values) - 2.354_545).abs() < 1e-6);
    }

    #[test]
    fn equal_values_do_not_diverge() {
        assert_eq!(highest_divergence(&[2.0; 9]).to_bits(), 0.0_f64.to_bits());
        assert_eq!(highest_divergence(&[1.0, 2.0, 3.0, 4.0, 5.0]).to_bits(), f64::NEG_INFINITY.to_bits());
    }
}
