//! Multiple tests: the false discovery rate (Benjamini and Hochberg, "Controlling the false discovery rate", Journal of the Royal
//! Statistical Society B 57, 1995), and the probability of any false rejection (Holm, "A simple sequentially rejective multiple test
//! procedure", Scandinavian Journal of Statistics 6, 1979).

/// The adjusted probability of each of `p`, in the order given: the smallest rate `q` at which it is still a discovery. A test is
/// a discovery if its adjusted probability is at most `q`, equality included. NaN probabilities count as 1.
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let value = |index: usize| p.get(index).copied().filter(|p| !p.is_nan()).unwrap_or(1.0);
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&left, &right| value(left).total_cmp(&value(right)).then(left.cmp(&right)));
    let mut adjusted = vec![1.0; p.len()];
    let mut smallest: f64 = 1.0;
    for (below, &index) in order.iter().enumerate().rev() {
        // The product may round to less than the original value.
        let scaled = (value(index) * p.len() as f64 / (below + 1) as f64).max(value(index));
        smallest = smallest.min(scaled);
        if let Some(place) = adjusted.get_mut(index) {
            *place = smallest;
        }
    }
    adjusted
}

/// The adjusted probability of each of `p` by the procedure of Holm, in the order given. If all tests with an adjusted probability of at
/// most `alpha` are rejected, the probability that any of them is rejected falsely is at most `alpha`, however the tests depend on each
/// other. NaN probabilities count as 1.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let value = |index: usize| p.get(index).copied().filter(|p| !p.is_nan()).unwrap_or(1.0);
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&left, &right| value(left).total_cmp(&value(right)).then(left.cmp(&right)));
    let mut adjusted = vec![1.0; p.len()];
    let mut largest: f64 = 0.0;
    for (below, &index) in order.iter().enumerate() {
        largest = largest.max((value(index) * (p.len() - below) as f64).min(1.0));
        if let Some(place) = adjusted.get_mut(index) {
            *place = largest;
        }
    }
    adjusted
}

/// The p-value that a lone discovery among `tests` has to reach at rate `q`: `q / tests`.
pub fn lone_threshold(q: f64, tests: usize) -> f64 {
    q / tests.max(1) as f64
}

/// The fewest pairs with which a lone metric can be discovered at all: all pairs on one side have probability `2^-n`.
pub fn fewest_pairs(q: f64, tests: usize) -> u32 {
    let threshold = lone_threshold(q, tests);
    let mut p = 1.0;
    let halvings = std::iter::from_fn(|| {
        p *= 0.5;
        (p > threshold && p > 0.0).then_some(())
    });
    halvings.count() as u32 + 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_classic_example() {
        // Benjamini and Hochberg's own rule with equality: at q = 0.25 six of these are discoveries, the sixth exactly on the line.
        let p = [
            0.001, 0.008, 0.039, 0.041, 0.042, 0.06, 0.074, 0.205, 0.212, 0.216, 0.222, 0.251, 0.269, 0.275, 0.34, 0.341, 0.384,
            0.569, 0.594, 0.696, 0.762, 0.94, 0.942, 0.975, 0.986,
        ];
        let adjusted = benjamini_hochberg(&p);
        assert_eq!(adjusted.iter().filter(|p| **p <= 0.25).count(), 6);
        let near = |index: usize, expected: f64| (adjusted[index] - expected).abs() < 1e-12;
        assert!(near(0, 0.025) && near(1, 0.1) && near(2, 0.21) && near(3, 0.21) && near(4, 0.21) && near(5, 0.25));
    }

    #[test]
    fn a_line_of_equal_steps_is_discovered_whole() {
        assert!(benjamini_hochberg(&[0.01, 0.02, 0.03, 0.04, 0.05]).iter().all(|p| *p <= 0.05));
    }

    #[test]
    fn no_number_is_no_discovery() {
        assert_eq!(benjamini_hochberg(&[f64::NAN, 0.01]), [1.0, 0.02]);
        assert!(benjamini_hochberg(&[]).is_empty());
    }

    #[test]
    fn holm_steps_down_and_stops_at_the_first_that_is_kept() {
        // p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") of R: 0.03 0.06 0.06 0.02.
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        assert!(adjusted.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-12), "{adjusted:?}");
        assert_eq!(holm(&[f64::NAN, 0.01]), [1.0, 0.02]);
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn a_hundred_metrics_need_eleven_pairs() {
        assert_eq!([1, 7, 100, 1_000].map(|tests| fewest_pairs(0.05, tests)), [5, 8, 11, 15]);
    }

    proptest! {
        #[test]
        fn adjusting_is_monotone(p in prop::collection::vec(0.0..=1.0_f64, 1..60)) {
            let adjusted = benjamini_hochberg(&p);
            for (left, right) in (0..p.len()).flat_map(|left| (0..p.len()).map(move |right| (left, right))) {
                prop_assert!(p[left] > p[right] || adjusted[left] <= adjusted[right]);
            }
            prop_assert!(adjusted.iter().zip(&p).all(|(adjusted, p)| adjusted >= p && *adjusted <= 1.0));
        }
    }
}
