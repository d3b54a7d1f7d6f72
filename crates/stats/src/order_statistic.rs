//! Distribution-free intervals for the median and for any other quantile.
//!
//! Each independent sample from any continuous distribution is below the q quantile with probability q, below the median with
//! 1/2. So the number below it is Binomial(n, q), and the probability that the quantile is between two given order statistics is
//! known exactly (David and Nagaraja, "Order Statistics", 3rd edition, 2003, section 7.1). It needs no resampling and no
//! assumption of a shape, and small samples honestly give wide intervals. Ties only make it wider than needed.

use crate::interval::{Interval, Method, NoInterval, check_level};
use crate::samples::Samples;
use crate::special::{self, MAX_PARAMETER};

/// The least coverage with which an interval is still given if few samples cannot reach the requested level.
///
/// Five samples, Assay's default number of trials, reach 93.75 % from the smallest to the largest, and [`Interval::level`] has
/// that value. Four reach 87.5 %: too little to print next to intervals of 95 %.
pub const MIN_COVERAGE: f64 = 0.9;

/// The interval for the median between the ranks r and n + 1 - r: the narrowest with coverage of at least `level`, otherwise the
/// widest if that covers at least [`MIN_COVERAGE`] (or `level`, if lower).
///
/// # Errors
/// [`NoInterval::TooFewForMedian`] if even the widest falls short; [`NoInterval::Level`] for a level outside 0 to 1.
pub fn median_interval(samples: &Samples, level: f64) -> Result<Interval, NoInterval> {
    check_level(level)?;
    let n = samples.len();
    let tail = tail_below(n, (1.0 - level) / 2.0);
    let coverage = 1.0 - 2.0 * tail.probability;
    let floor = MIN_COVERAGE.min(level);
    if coverage < floor {
        return Err(NoInterval::TooFewForMedian { n, best: coverage, needed: fewest(floor) });
    }
    let (low, high) = (samples.at(tail.rank), samples.at(n - 1 - tail.rank));
    Ok(Interval { low, high, level: coverage, method: Method::OrderStatistic })
}

/// The most samples for the interval of a quantile other than the median, whose binomial tails are incomplete beta functions.
pub const MAX_SAMPLES: usize = MAX_PARAMETER as usize;

/// The interval for the `q` quantile between two order statistics.
///
/// Each end leaves at most half of `1 - level` beyond it and is as far in as that allows. If one end cannot be that far out, the
/// extreme sample takes its place and the other end gets the rest. If even the interval from smallest to largest falls short of
/// `level`, it is given if it covers at least [`MIN_COVERAGE`] (or `level`, if lower). For the median this is
/// [`median_interval`].
///
/// # Errors
/// [`NoInterval::TooFewForQuantile`] if even the widest falls short, with the number that would suffice (for the median
/// [`NoInterval::TooFewForMedian`]); [`NoInterval::Quantile`] for a `q` and [`NoInterval::Level`] for a level that is not
/// strictly between 0 and 1; [`NoInterval::TooMany`] beyond [`MAX_SAMPLES`].
pub fn quantile_interval(samples: &Samples, q: f64, level: f64) -> Result<Interval, NoInterval> {
    check_level(level)?;
    if !(q > 0.0 && q < 1.0) {
        return Err(NoInterval::Quantile { q });
    }
    if q.total_cmp(&0.5).is_eq() {
        return median_interval(samples, level);
    }
    let n = samples.len();
    if n > MAX_SAMPLES {
        return Err(NoInterval::TooMany { n, limit: MAX_SAMPLES });
    }
    let (best, floor) = (1.0 - widest_miss(n as f64, q), MIN_COVERAGE.min(level));
    if best < floor {
        return Err(NoInterval::TooFewForQuantile { n, q, best: best.max(0.0), needed: fewest_for(q, floor) });
    }
    let ends = if best < level { IntervalEnds::widest(n, q) } else { IntervalEnds::within(n, q, 1.0 - level) };
    let coverage = 1.0 - ends.below - ends.above;
    Ok(Interval { low: samples.at(ends.low), high: samples.at(ends.high), level: coverage, method: Method::OrderStatistic })
}

/// The zero-based ranks of both ends, and the probabilities that the quantile is below the lower and above the upper end.
struct IntervalEnds {
    low: usize,
    high: usize,
    below: f64,
    above: f64,
}

impl IntervalEnds {
    fn widest(n: usize, q: f64) -> Self {
        Self::at(n, q, 0, n - 1)
    }

    fn at(n: usize, q: f64, low: usize, high: usize) -> Self {
        Self { low, high, below: below(n, q, low), above: above(n, q, high) }
    }

    /// Returns ends that miss the quantile with probability `miss` at most. The widest ones must do so.
    fn within(n: usize, q: f64, miss: f64) -> Self {
        let widest = Self::widest(n, q);
        let half = miss / 2.0;
        let left = |other_end: f64| if other_end > half { miss - other_end } else { half };
        let (low, high) = (highest_low(n, q, left(widest.above)), lowest_high(n, q, left(widest.below)));
        Self::at(n, q, low, high)
    }
}

/// The probability that the quantile is below the sample at zero-based rank `low`: at most `low` samples are below it.
fn below(n: usize, q: f64, low: usize) -> f64 {
    special::binomial(n, q, low).lower
}

/// The probability that the quantile is above the sample at zero-based rank `high`: more than `high` are below it.
fn above(n: usize, q: f64, high: usize) -> f64 {
    special::binomial(n, q, high).upper
}

/// The highest rank with a probability of at most `limit` below it; 0 if there is none.
fn highest_low(n: usize, q: f64, limit: f64) -> usize {
    let (mut rank, mut beyond) = (0, n);
    while rank + 1 < beyond {
        let middle = usize::midpoint(rank, beyond);
        if below(n, q, middle) <= limit { rank = middle } else { beyond = middle }
    }
    rank
}

/// The lowest rank with a probability of at most `limit` above it; the last if there is none.
fn lowest_high(n: usize, q: f64, limit: f64) -> usize {
    let (mut short, mut rank) = (0, n - 1);
    while short < rank {
        let middle = usize::midpoint(short, rank);
        if above(n, q, middle) <= limit { rank = middle } else { short = middle + 1 }
    }
    rank
}

/// The probability that all of `n` samples are on one side of the quantile.
fn widest_miss(n: f64, q: f64) -> f64 {
    libm::exp(n * libm::log(q)) + libm::exp(n * libm::log1p(-q))
}

/// The fewest samples whose widest interval covers at least `floor`; the largest number if none suffices.
fn fewest_for(q: f64, floor: f64) -> usize {
    let enough = |n: usize| 1.0 - widest_miss(n as f64, q) >= floor;
    let (mut short, mut needed) = (0, 1_usize);
    while !enough(needed) && needed < usize::MAX {
        (short, needed) = (needed, needed.saturating_mul(2));
    }
    while short + 1 < needed {
        let middle = usize::midpoint(short, needed);
        if enough(middle) { needed = middle } else { short = middle }
    }
    needed
}

/// The zero-based rank of the lower end, and the probability that the median is below it.
struct Tail {
    rank: usize,
    probability: f64,
}

/// Terms are rescaled by this power of two before they overflow.
const RESCALE_BITS: i32 = 512;

/// The highest rank r below the middle with `P(Binomial(n, 1/2) <= r) <= limit`; rank 0 with its probability if there is none.
///
/// The terms C(n, k) / 2^n are summed as C(n, k) in units of 2^-(n - shift): exact for every realistic number of trials, and free
/// of underflow for any n.
fn tail_below(n: usize, limit: f64) -> Tail {
    let (mut term, mut total, mut shift) = (1.0_f64, 1.0_f64, 0_i32);
    let exponent = |shift: i32| shift.saturating_sub(i32::try_from(n).unwrap_or(i32::MAX));
    let mut tail = Tail { rank: 0, probability: libm::scalbn(total, exponent(shift)) };
    for k in 1..n.div_ceil(2) {
        term = term * (n - k + 1) as f64 / k as f64;
        total += term;
        let probability = libm::scalbn(total, exponent(shift));
        if probability > limit {
            break;
        }
        tail = Tail { rank: k, probability };
        if total > libm::scalbn(1.0, RESCALE_BITS) {
            (term, total) = (libm::scalbn(term, -RESCALE_BITS), libm::scalbn(total, -RESCALE_BITS));
            shift += RESCALE_BITS;
        }
    }
    tail
}

/// The fewest samples whose widest interval covers at least `floor`: smallest n with `1 - 2^(1 - n) >= floor`.
fn fewest(floor: f64) -> usize {
    let (mut n, mut miss) = (1, 1.0);
    while 1.0 - miss < floor {
        miss /= 2.0;
        n += 1;
    }
    n
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(n: u32) -> Result<Interval, NoInterval> {
        let values: Vec<f64> = (1..=n).map(f64::from).collect();
        median_interval(&Samples::new(&values).expect("samples"), 0.95)
    }

    fn ends(n: u32) -> (f64, f64, f64) {
        let found = interval(n).expect("an interval");
        (found.low, found.high, found.level)
    }

    #[test]
    fn coverage_is_exact() {
        assert_eq!(ends(5), (1.0, 5.0, 0.9375));
        assert_eq!(ends(6), (1.0, 6.0, 0.96875));
        assert_eq!(ends(8), (1.0, 8.0, 0.992_187_5));
        assert_eq!(ends(9), (2.0, 8.0, 0.960_937_5));
        assert_eq!(ends(10), (2.0, 9.0, 0.978_515_625));
        assert_eq!(ends(15), (4.0, 12.0, 0.964_843_75));
    }

    #[test]
    fn too_few_samples_say_how_many_it_takes() {
        let refusal = |n| interval(n).expect_err("refused").to_string();
        insta::assert_snapshot!(refusal(1), @"1 sample bounds the median with 0.0 % confidence at most; 5 are needed");
        insta::assert_snapshot!(refusal(4), @"4 samples bound the median with 87.5 % confidence at most; 5 are needed");
    }

    #[test]
    fn a_level_must_be_a_share() {
        let two = Samples::new(&[1.0, 2.0]).expect("samples");
        for level in [0.0, 1.0, -1.0, f64::NAN] {
            assert!(matches!(median_interval(&two, level), Err(NoInterval::Level { .. })));
        }
    }

    #[test]
    fn many_samples_neither_overflow_nor_underflow() {
        // The ranks approach n/2 -+ 1.96 sqrt(n)/2.
        let (low, high, level) = ends(100_000);
        assert!((low - (50_000.0 - 309.9)).abs() < 2.0 && (high - (50_001.0 + 309.9)).abs() < 2.0);
        assert!((0.95..0.9505).contains(&level));
    }
    fn ramp(n: u32) -> Samples {
        Samples::new(&(1..=n).map(f64::from).collect::<Vec<_>>()).expect("samples")
    }

    #[test]
    fn a_tail_quantile_needs_many_samples_and_says_how_many() {
        let refusal = |n, q, level| quantile_interval(&ramp(n), q, level).expect_err("refused").to_string();
        insta::assert_snapshot!(refusal(100, 0.99, 0.95), @"100 samples bound the 0.99 quantile with 63.4 % confidence at most; 230 are needed");
        insta::assert_snapshot!(refusal(1, 0.25, 0.95), @"1 sample bounds the 0.25 quantile with 0.0 % confidence at most; 9 are needed");
        insta::assert_snapshot!(refusal(4, 0.5, 0.95), @"4 samples bound the median with 87.5 % confidence at most; 5 are needed");
        insta::assert_snapshot!(refusal(9, 1.0, 0.95), @"the 1 quantile has no interval: only those strictly between 0 and 1 have one");
        insta::assert_snapshot!(refusal(9, f64::NAN, 0.95), @"the NaN quantile has no interval: only those strictly between 0 and 1 have one");
        insta::assert_snapshot!(refusal(9, 0.1, 0.0), @"the confidence level 0 is not between 0 and 1");
        assert!(refusal(9, 1e-300, 0.95).ends_with("18446744073709551615 are needed"));
    }

    #[test]
    fn the_end_that_cannot_lie_far_out_is_the_extreme_sample() {
        let found = quantile_interval(&ramp(300), 0.99, 0.95).expect("an interval");
        assert_eq!(Some(found.high), Some(300.0));
        assert!(found.level >= 0.95 && found.low < 297.0, "{found:?}");
        let widest = quantile_interval(&ramp(240), 0.99, 0.95).expect("an interval");
        assert_eq!((widest.low, widest.high), (1.0, 240.0));
        assert!((0.9..0.95).contains(&widest.level));
    }

    #[test]
    fn a_quantile_next_to_the_median_has_nearly_its_interval() {
        for n in [6, 9, 50, 1001] {
            let (median, near) = (median_interval(&ramp(n), 0.9), quantile_interval(&ramp(n), 0.5 + 1e-12, 0.9));
            let (median, near) = (median.expect("an interval"), near.expect("an interval"));
            assert_eq!((median.low, median.high), (near.low, near.high));
            assert!((median.level - near.level).abs() < 1e-9);
        }
    }

    #[test]
    fn mirrored_quantiles_have_mirrored_intervals() {
        for n in [20, 77, 400] {
            let at = |q| quantile_interval(&ramp(n), q, 0.9).expect("an interval");
            let (low, high) = (at(0.25), at(0.75));
            assert_eq!((low.low, low.high), (f64::from(n + 1) - high.high, f64::from(n + 1) - high.low));
        }
    }

    proptest::proptest! {
        #[test]
        fn the_interval_covers_what_it_says_and_holds_the_estimate(n in 1_u32..3_000, q in 0.001_f64..0.999, level in 0.8_f64..0.999) {
            let samples = ramp(n);
            let Ok(found) = quantile_interval(&samples, q, level) else { return Ok(()) };
            proptest::prop_assert!(found.level >= MIN_COVERAGE.min(level) - 1e-12 && found.level <= 1.0);
            proptest::prop_assert!(found.contains(samples.quantile(q)), "{found:?}");
        }
    }
}
