//! Optimal partitioning by pruned exact linear time (PELT): Killick, Fearnhead and Eckley, "Optimal detection of changepoints
//! with a linear computational cost", JASA 107 (2012).
//!
//! A segment costs the sum of squares around its mean plus the penalty. The partition of least cost is exact: pruning drops only
//! starts that can never be the best last change again. It takes linear time if changes are frequent, quadratic time if there are
//! none.

/// The first indices of the segments of the cheapest partition, ascending, 0 first; empty for no values.
///
/// `penalty` is in the values' unit squared and not negative. Of partitions with equal cost, the result is the one with the
/// earlier last change.
pub(crate) fn partition(values: &[f64], penalty: f64) -> Vec<usize> {
    let sums = Sums::new(values);
    // The least cost of the first `end` values and the start of their last segment.
    let mut cheapest: Vec<(f64, usize)> = vec![(0.0, 0)];
    let mut starts: Vec<(usize, f64)> = Vec::new();
    for end in 1..=values.len() {
        let before = |start: usize| cheapest.get(start).map_or(f64::INFINITY, |best| best.0);
        starts.push((end - 1, 0.0));
        for (start, cost) in &mut starts {
            *cost = before(*start) + sums.around_mean(*start, end);
        }
        let best =
            starts.iter().fold((f64::INFINITY, 0), |best, &(start, cost)| if cost < best.0 { (cost, start) } else { best });
        // A start that already costs more without a penalty than the best costs never catches up (Killick et al., theorem 3.1).
        starts.retain(|&(_, cost)| cost <= best.0 + penalty);
        cheapest.push((best.0 + penalty, best.1));
    }
    trace_back(&cheapest)
}

fn trace_back(cheapest: &[(f64, usize)]) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut end = cheapest.len() - 1;
    while end > 0 {
        end = cheapest.get(end).map_or(0, |best| best.1);
        starts.push(end);
    }
    starts.reverse();
    starts
}

/// Running sums of values and squares, so that the cost of any segment takes a few operations.
struct Sums {
    running: Vec<(f64, f64)>,
}

impl Sums {
    fn new(values: &[f64]) -> Self {
        let mut running = vec![(0.0, 0.0)];
        let (mut sum, mut squares) = (0.0, 0.0);
        for value in values {
            sum += value;
            squares += value * value;
            running.push((sum, squares));
        }
        Self { running }
    }

    /// The sum of squares around the mean of the values from `start` up to `end`.
    fn around_mean(&self, start: usize, end: usize) -> f64 {
        let at = |place: usize| self.running.get(place).copied().unwrap_or_default();
        let ((sum_before, squares_before), (sum, squares)) = (at(start), at(end));
        let sum = sum - sum_before;
        (squares - squares_before - sum * sum / (end - start) as f64).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn finds_the_steps_and_nothing_else() {
        let values = [0.0, 0.1, 0.0, 5.0, 5.1, 5.0, 5.0, 1.0, 1.1];
        assert_eq!(partition(&values, 1.0), [0, 3, 7]);
        assert_eq!(partition(&values, 1e6), [0]);
        assert_eq!(partition(&[3.0; 20], 0.5), [0]);
        assert_eq!(partition(&[], 1.0), [0_usize; 0]);
    }

    fn cost(values: &[f64], starts: &[usize], penalty: f64) -> f64 {
        let sums = Sums::new(values);
        let ends = starts.iter().skip(1).copied().chain(std::iter::once(values.len()));
        starts.iter().zip(ends).map(|(&start, end)| sums.around_mean(start, end) + penalty).sum()
    }

    /// The least cost over all partitions, one bit for each index at which a segment may start.
    fn least_cost(values: &[f64], penalty: f64) -> f64 {
        let starts = |bits: u32| std::iter::once(0).chain((1..values.len()).filter(move |&place| bits & (1 << (place - 1)) != 0));
        (0..1_u32 << (values.len() - 1))
            .map(|bits| cost(values, &starts(bits).collect::<Vec<_>>(), penalty))
            .fold(f64::INFINITY, f64::min)
    }

    proptest! {
        #[test]
        fn is_as_cheap_as_the_cheapest_of_all_partitions(
            values in prop::collection::vec((-3_i32..3).prop_map(f64::from), 1..11), penalty in 0.0_f64..6.0,
        ) {
            let found = cost(&values, &partition(&values, penalty), penalty);
            prop_assert!((found - least_cost(&values, penalty)).abs() < 1e-9);
        }
    }
}
