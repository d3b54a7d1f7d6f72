//! The distribution-free interval for the median.
//!
//! Whatever continuous distribution independent samples come from, each lies below its median with probability 1/2. So the number below
//! it is Binomial(n, 1/2), and the chance that the median lies between two given order statistics is known exactly (David and Nagaraja,
//! "Order Statistics", 3rd edition, 2003, section 7.1). No resampling, no assumption of a shape, and an honest price in small samples.
//! Ties only make it wider than needed.

use crate::interval::{Interval, Method, NoInterval, check_level};
use crate::samples::Samples;

/// The least coverage with which an interval is still given when few samples cannot reach the level asked for.
///
/// Five samples, Assay's default number of trials, reach 93.75 % from the smallest to the largest, and say so in
/// [`Interval::level`]. Four reach 87.5 %: too little to print beside intervals of 95 %.
pub const MIN_COVERAGE: f64 = 0.9;

/// The interval for the median between the ranks r and n + 1 - r: the narrowest with coverage of at least `level`, else the widest that
/// exists where that covers at least [`MIN_COVERAGE`] (or `level`, if lower).
///
/// # Errors
/// [`NoInterval::TooFewForMedian`] where even the widest falls short; [`NoInterval::Level`] for a level outside 0 to 1.
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

/// The zero-based rank of the lower end, and the probability that the median lies below it.
struct Tail {
    rank: usize,
    probability: f64,
}

/// Terms are rescaled by this power of two before they overflow.
const RESCALE_BITS: i32 = 512;

/// The highest rank r below the middle with `P(Binomial(n, 1/2) <= r) <= limit`; rank 0 with its probability where there is none.
///
/// The terms C(n, k) / 2^n are summed as C(n, k) in units of 2^-(n - shift): exact for every n that trials will have, and free of
/// underflow for any.
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
}
