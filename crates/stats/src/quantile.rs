//! Quantiles in all nine usual definitions, and selection over integer nanoseconds without a full sort.
//!
//! Percentiles that Assay reports interpolate linearly (type 7 in Hyndman and Fan, "Sample quantiles in statistical packages",
//! The American Statistician 50, 1996; the default of NumPy, R and Excel). Nearest rank (their type 1) is for tables in which
//! failures count as infinitely late: interpolating towards a failure is meaningless.

/// The type 7 quantile of ascending values, in their unit: linear interpolation at the zero-based position `(n - 1) q`.
///
/// `None` for no values and for `q` outside 0..=1. Never decreases as `q` grows, to the last bit. Values must be ascending and
/// free of NaN.
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    debug_assert!(sorted.is_sorted(), "values ascend");
    interpolate(sorted, &QuantilePosition::linear(sorted.len(), q)?)
}

/// The nearest-rank quantile of ascending values: the smallest one with at least `q n` values at or below it.
///
/// `None` for no values and for `q` outside 0..=1; `q` = 0 gives the minimum.
pub fn nearest_rank<T: Copy>(sorted: &[T], q: f64) -> Option<T> {
    sorted.get(nearest_rank_index(sorted.len(), q)?).copied()
}

/// The nine definitions of Hyndman and Fan (1996), under the names that NumPy gives them. Assay reports [`Linear`](Self::Linear);
/// the others are for checking the numbers of tools that use them.
///
/// The continuous ones interpolate linearly at a one-based position h among the n ascending values, cut to 1 to n.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Definition {
    /// Type 1: the smallest value with at least `n q` values at or below it. [`nearest_rank`].
    InvertedCdf,
    /// Type 2: as type 1; if `n q` is whole, the mean of that value and the next.
    AveragedInvertedCdf,
    /// Type 3: the value whose rank is nearest to `n q`; half-way between two, the one with the even rank.
    ClosestObservation,
    /// Type 4: h = `n q`.
    InterpolatedInvertedCdf,
    /// Type 5: h = `n q + 1/2` (Hazen, 1914).
    Hazen,
    /// Type 6: h = `(n + 1) q` (Weibull, 1939; the default of Minitab and SPSS).
    Weibull,
    /// Type 7: h = `(n - 1) q + 1`. [`quantile`].
    #[default]
    Linear,
    /// Type 8: h = `(n + 1/3) q + 1/3`, about median-unbiased whatever the distribution; the authors' own recommendation.
    MedianUnbiased,
    /// Type 9: h = `(n + 1/4) q + 3/8`, about unbiased for normal samples.
    NormalUnbiased,
}

impl Definition {
    /// All definitions, type 1 to type 9.
    pub const ALL: [Self; 9] = [
        Self::InvertedCdf,
        Self::AveragedInvertedCdf,
        Self::ClosestObservation,
        Self::InterpolatedInvertedCdf,
        Self::Hazen,
        Self::Weibull,
        Self::Linear,
        Self::MedianUnbiased,
        Self::NormalUnbiased,
    ];

    /// The name in documents and tables, which is NumPy's.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InvertedCdf => "inverted_cdf",
            Self::AveragedInvertedCdf => "averaged_inverted_cdf",
            Self::ClosestObservation => "closest_observation",
            Self::InterpolatedInvertedCdf => "interpolated_inverted_cdf",
            Self::Hazen => "hazen",
            Self::Weibull => "weibull",
            Self::Linear => "linear",
            Self::MedianUnbiased => "median_unbiased",
            Self::NormalUnbiased => "normal_unbiased",
        }
    }

    /// The position of the quantile of `q` among `n` values.
    fn position(self, n: usize, q: f64) -> Option<QuantilePosition> {
        if !(0.0..=1.0).contains(&q) {
            return None;
        }
        let count = n as f64;
        match self {
            Self::InvertedCdf => Some(QuantilePosition { rank: nearest_rank_index(n, q)?, fraction: 0.0 }),
            Self::AveragedInvertedCdf => averaged_position(n, q),
            Self::ClosestObservation => at_position(n, round_if_whole(count * q).round_ties_even()),
            Self::InterpolatedInvertedCdf => at_position(n, count * q),
            Self::Hazen => at_position(n, count * q + 0.5),
            Self::Weibull => at_position(n, (count + 1.0) * q),
            Self::Linear => QuantilePosition::linear(n, q),
            Self::MedianUnbiased => at_position(n, (count + 1.0 / 3.0) * q + 1.0 / 3.0),
            Self::NormalUnbiased => at_position(n, (count + 0.25) * q + 0.375),
        }
    }
}

/// The quantile of ascending values by `definition`, in their unit.
///
/// `None` for no values and for `q` outside 0..=1. Never decreases as `q` grows, to the last bit. Values must be ascending and
/// free of NaN.
pub fn quantile_by(definition: Definition, sorted: &[f64], q: f64) -> Option<f64> {
    debug_assert!(sorted.is_sorted(), "values ascend");
    interpolate(sorted, &definition.position(sorted.len(), q)?)
}

fn interpolate(sorted: &[f64], place: &QuantilePosition) -> Option<f64> {
    let below = *sorted.get(place.rank)?;
    let above = sorted.get(place.rank + 1).copied().unwrap_or(below);
    Some((below + (above - below) * place.fraction).min(above))
}

/// The position of the type 2 quantile: half-way to the next value if `n q` is whole and there is a next value.
fn averaged_position(n: usize, q: f64) -> Option<QuantilePosition> {
    let rank = nearest_rank_index(n, q)?;
    let share = round_if_whole(n as f64 * q);
    let halfway = share >= 1.0 && share < n as f64 && share.total_cmp(&share.round()).is_eq();
    Some(QuantilePosition { rank, fraction: if halfway { 0.5 } else { 0.0 } })
}

/// Converts a one-based position, limited to the first and the last value.
fn at_position(n: usize, position: f64) -> Option<QuantilePosition> {
    let last = n.checked_sub(1)?;
    let position = (position - 1.0).clamp(0.0, last as f64);
    let rank = position.floor() as usize;
    Some(QuantilePosition { rank, fraction: position - rank as f64 })
}

/// The type 7 quantiles of integer nanoseconds, in nanoseconds, one for each of `qs` in their order.
///
/// Selects instead of sorting: O(n log k) for k quantiles, in place; `values` are left reordered. `None` for no values and if a
/// `q` is outside 0..=1. Exact up to 2^53 ns, which is 104 days; beyond, to a double's precision.
pub fn quantiles_ns(values: &mut [i64], qs: &[f64]) -> Option<Vec<f64>> {
    let places: Vec<QuantilePosition> = qs.iter().map(|&q| QuantilePosition::linear(values.len(), q)).collect::<Option<_>>()?;
    let last = values.len().checked_sub(1)?;
    let mut ranks: Vec<usize> = places.iter().flat_map(|place| [place.rank, (place.rank + 1).min(last)]).collect();
    ranks.sort_unstable();
    ranks.dedup();
    select(values, 0, &ranks);
    places.iter().map(|place| interpolate_ns(values, place)).collect()
}

/// The nearest-rank quantile of integer nanoseconds, in nanoseconds, by selection; `values` are left reordered.
///
/// `None` for no values and for `q` outside 0..=1.
pub fn nearest_rank_ns(values: &mut [i64], q: f64) -> Option<i64> {
    let rank = nearest_rank_index(values.len(), q)?;
    Some(*values.select_nth_unstable(rank).1)
}

/// The position of a type 7 quantile: `fraction` of the way from a zero-based rank to the next.
pub(crate) struct QuantilePosition {
    pub(crate) rank: usize,
    pub(crate) fraction: f64,
}

impl QuantilePosition {
    pub(crate) fn linear(n: usize, q: f64) -> Option<Self> {
        let last = n.checked_sub(1)?;
        if !(0.0..=1.0).contains(&q) {
            return None;
        }
        let position = last as f64 * q;
        let rank = (position.floor() as usize).min(last);
        Some(Self { rank, fraction: (position - rank as f64).clamp(0.0, 1.0) })
    }

    /// The last rank that it depends on: the next one only if the fraction is not 0.
    pub(crate) fn last_rank(&self) -> usize {
        if self.fraction > WHOLE { self.rank + 1 } else { self.rank }
    }
}

/// The distance within which `q n` counts as a whole number. `0.07 * 100` is 7.000000000000001 in binary, and a plain ceiling
/// would name the eighth value although the seventh is meant.
const WHOLE: f64 = 1e-9;

/// The zero-based nearest rank: `ceil(q n) - 1`, at least 0.
pub(crate) fn nearest_rank_index(n: usize, q: f64) -> Option<usize> {
    let last = n.checked_sub(1)?;
    if !(0.0..=1.0).contains(&q) {
        return None;
    }
    let rank = round_if_whole(n as f64 * q).ceil();
    Some((rank as usize).saturating_sub(1).min(last))
}

/// Rounds a share of a count to a whole number if it is near one.
fn round_if_whole(share: f64) -> f64 {
    let whole = share.round();
    if (share - whole).abs() <= WHOLE { whole } else { share }
}

fn interpolate_ns(values: &[i64], place: &QuantilePosition) -> Option<f64> {
    let below = *values.get(place.rank)?;
    let above = values.get(place.rank + 1).copied().unwrap_or(below);
    // Subtracted as integers: two large instants a few nanoseconds apart keep their difference.
    let gap = (i128::from(above) - i128::from(below)) as f64;
    Some((below as f64 + gap * place.fraction).min(above as f64))
}

/// Moves the right value to each of the ascending `ranks` (counted from `offset`), halving values and ranks together.
pub(crate) fn select(values: &mut [i64], offset: usize, ranks: &[usize]) {
    let (before, rest) = ranks.split_at(ranks.len() / 2);
    let Some((&rank, after)) = rest.split_first() else { return };
    let here = rank - offset;
    if here >= values.len() {
        return;
    }
    let (smaller, _, larger) = values.select_nth_unstable(here);
    select(smaller, offset, before);
    select(larger, rank + 1, after);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const QS: [f64; 7] = [0.0, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0];

    #[test]
    fn interpolates_between_neighbours() {
        assert_eq!(quantile(&[1.0, 2.0, 4.0, 8.0], 0.5), Some(3.0));
        assert_eq!(quantile(&[1.0, 2.0, 4.0, 8.0], 0.75), Some(5.0));
        assert_eq!(quantile(&[7.0], 0.3), Some(7.0));
    }

    #[test]
    fn nearest_rank_names_a_value_that_was_seen() {
        assert_eq!(nearest_rank(&[15, 20, 35, 40, 50], 0.3), Some(20));
        assert_eq!(nearest_rank(&[15, 20, 35, 40, 50], 0.4), Some(20));
        assert_eq!(nearest_rank(&[15, 20, 35, 40, 50], 0.0), Some(15));
        assert_eq!(nearest_rank(&[15, 20, 35, 40, 50], 1.0), Some(50));
    }

    #[test]
    fn nearest_rank_is_not_misled_by_binary_fractions() {
        let hundred: Vec<i64> = (1..=100).collect();
        assert_eq!(nearest_rank(&hundred, 0.07), Some(7));
        assert_eq!(nearest_rank(&hundred, 0.071), Some(8));
    }

    #[test]
    fn definitions_differ_where_few_values_are() {
        let of = |q| Definition::ALL.map(|definition| quantile_by(definition, &[1.0, 2.0, 4.0, 8.0], q));
        assert_eq!(of(0.5), [2.0, 3.0, 2.0, 2.0, 3.0, 3.0, 3.0, 3.0, 3.0].map(Some));
        assert_eq!(of(0.0), [Some(1.0); 9]);
        assert_eq!(of(1.0), [Some(8.0); 9]);
        let tied = |q| quantile_by(Definition::ClosestObservation, &[1.0, 2.0, 3.0, 4.0, 5.0], q);
        // 2.5 and 3.5 are half-way: rank 2 and rank 4 are even.
        assert_eq!((tied(0.5), tied(0.7)), (Some(2.0), Some(4.0)));
    }

    #[test]
    fn no_definition_has_a_quantile_of_nothing_or_beyond_the_ends() {
        for definition in Definition::ALL {
            assert_eq!(quantile_by(definition, &[], 0.5), None);
            for q in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
                assert_eq!(quantile_by(definition, &[1.0], q), None);
            }
            assert_eq!(quantile_by(definition, &[7.0], 0.3), Some(7.0));
        }
    }

    #[test]
    fn there_is_no_quantile_of_nothing_or_beyond_the_ends() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantiles_ns(&mut [], &[0.5]), None);
        assert_eq!(nearest_rank_ns(&mut [], 0.5), None);
        for q in [-0.1, 1.1, f64::NAN] {
            assert_eq!((quantile(&[1.0], q), nearest_rank(&[1.0], q)), (None, None));
            assert_eq!((quantiles_ns(&mut [1], &[0.5, q]), nearest_rank_ns(&mut [1], q)), (None, None));
        }
    }

    #[test]
    fn extreme_nanoseconds_do_not_overflow() {
        let middle = quantiles_ns(&mut [i64::MAX, i64::MIN], &[0.5]).expect("quantile");
        assert!(middle[0].abs() <= 1.0);
    }

    proptest! {
        #[test]
        fn selection_agrees_with_sorting(mut values in prop::collection::vec(-1_000_000_i64..1_000_000, 1..300)) {
            let mut sorted: Vec<i64> = values.clone();
            sorted.sort_unstable();
            let floats: Vec<f64> = sorted.iter().map(|&v| v as f64).collect();
            let expected: Vec<f64> = QS.iter().map(|&q| quantile(&floats, q).expect("quantile")).collect();
            prop_assert_eq!(quantiles_ns(&mut values, &QS).expect("quantiles"), expected);
            for q in QS {
                prop_assert_eq!(nearest_rank_ns(&mut values, q), nearest_rank(&sorted, q));
            }
        }

        #[test]
        fn quantiles_never_decrease(
            mut values in prop::collection::vec(-1e150_f64..1e150, 1..60), a in 0.0_f64..=1.0, b in 0.0_f64..=1.0,
        ) {
            values.sort_unstable_by(f64::total_cmp);
            for definition in Definition::ALL {
                let at = |q| quantile_by(definition, &values, q).expect("quantile");
                prop_assert!(at(a.min(b)) <= at(a.max(b)), "{}", definition.name());
                prop_assert!(values[0] <= at(a) && at(a) <= values[values.len() - 1]);
            }
            prop_assert_eq!(quantile(&values, a), quantile_by(Definition::default(), &values, a));
            prop_assert_eq!(nearest_rank(&values, a), quantile_by(Definition::InvertedCdf, &values, a));
        }
    }
}
