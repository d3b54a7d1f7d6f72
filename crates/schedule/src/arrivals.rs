//! The due times of the requests of an open loop.
//!
//! The offset of arrival `i` is in nanoseconds from the beginning of its phase. The format is stable:
//!
//! - Constant: `i / rate`, to the nearest nanosecond, halves up. The rate is the shortest decimal number that reads back as the
//!   same double, so a rate of 0.1 has an arrival every ten seconds exactly, however long the trial. The first arrival is at 0.
//! - Poisson and gamma: the sum of the gaps 0 to `i`, so the first arrival comes one gap after the beginning. A gap is a whole
//!   number of picoseconds and depends on its index alone, not on the other gaps; sums of whole numbers do not depend on the
//!   order of addition. The offset is the sum to the nearest nanosecond, halves up.
//! - An exponential gap is `-ln(1 - u) x 10^12 / rate` with `u` the generator's value in `[0, 1)` at the index.
//! - With a rate profile: the time up to which the profile expects as many arrivals as the law has gaps of mean 1 before it ([`Profile`]): `i`
//!   for equal gaps, and for random ones the sum of the gaps 0 to `i` at a rate of 1.
//! - Recorded: the row's time divided by the speed, to the nearest nanosecond, halves up, less the beginning of the phase. The speed is
//!   exact like a constant rate. A session of a trace arrives at the time of its first turn.
//! - A gamma gap is Marsaglia and Tsang's ("A simple method for generating gamma variables", ACM TOMS 26, 2000): of values `3 i`
//!   to `3 i + 2` the first makes a normal value, the second decides if it is accepted, and the third raises a shape below 1. If
//!   a pair is rejected, the streams of nonce 1, 2 and so on hold the next pairs.

use std::sync::Arc;

use assay_dataset::Index;
use assay_manifest::ArrivalLaw;

use crate::Generator;
use crate::profile::Profile;
use crate::sessions::TraceSessions;

/// The fewest arrivals per second: one in three hours. With it and 10^9 requests, exact offsets fit 128 bits.
pub const MIN_RATE_PER_S: f64 = 1e-4;

/// The most arrivals per second: one every 100 ns, far more than machines can send.
pub const MAX_RATE_PER_S: f64 = 1e7;

/// The least smoothness: nearly all arrivals come in bursts of a thousand.
pub const MIN_SMOOTHNESS: f64 = 1e-3;

/// The most smoothness: gaps vary by a thousandth. Beyond it, the constant law is the clearer choice.
pub const MAX_SMOOTHNESS: f64 = 1e6;

/// The lowest speed of a replay: a second of the trace lasts a quarter of an hour.
pub const MIN_SPEED: f64 = 1e-3;

/// The highest speed of a replay: an hour of the trace lasts 4 ms.
pub const MAX_SPEED: f64 = 1e6;

const NS_PER_S: u128 = 1_000_000_000;
const PS_PER_S: f64 = 1e12;
const PS_PER_NS: u128 = 1_000;

/// The offsets of one phase, by index.
///
/// Offsets of equal gaps are computed from the index. Those of random gaps are sums: a lookup costs the gaps since the previous
/// lookup, and all of them after a step back.
#[derive(Clone)]
pub(crate) enum Arrivals {
    Constant(ExactRate),
    Random(Box<RandomArrivals>),
    Profiled(Box<ProfiledArrivals>),
    Recorded(RecordedArrivals),
    /// Those of the sessions of a trace.
    Sessions(TraceSessions),
}

/// Arrivals at a rate that changes.
#[derive(Clone)]
pub(crate) struct ProfiledArrivals {
    profile: Profile,
    /// The random gaps at a rate of 1 per second; `None` if gaps are equal.
    gaps: Option<RandomArrivals>,
}

/// The times of the rows of a trace from one row on, since the beginning of their phase.
#[derive(Clone)]
pub(crate) struct RecordedArrivals {
    pub(crate) index: Arc<Index>,
    pub(crate) speed: Speed,
    pub(crate) first_row: u64,
    pub(crate) begins_ns: u64,
}

/// The speed of a replay, as an exact fraction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Speed(ExactRate);

impl Speed {
    /// The trace's own speed.
    pub(crate) const OWN: Self = Self(ExactRate { ns: 1, per: 1 });

    /// Returns `None` unless the speed is between [`MIN_SPEED`] and [`MAX_SPEED`].
    pub(crate) fn new(speed: f64) -> Option<Self> {
        (MIN_SPEED..=MAX_SPEED).contains(&speed).then(|| ExactRate::of_unit(1, speed)).flatten().map(Self)
    }

    /// Returns the time since the start of the replay at which a time of the trace comes, in nanoseconds.
    pub(crate) fn replayed_ns(self, at_ns: u64) -> u64 {
        u64::try_from(self.0.offset_ns(at_ns)).unwrap_or(u64::MAX)
    }
}

impl Arrivals {
    /// Returns `None` for a closed loop, which has no intended times, for users, whose turns have a grid, and for a trace, whose times are not drawn.
    pub(crate) fn new(law: ArrivalLaw, rate_per_s: f64, values: Generator) -> Option<Self> {
        let random =
            |gap| Self::Random(Box::new(RandomArrivals { gap, mean_ps: PS_PER_S / rate_per_s, values, next: 0, sum_ps: 0 }));
        match law {
            ArrivalLaw::Closed | ArrivalLaw::Users | ArrivalLaw::Recorded => None,
            ArrivalLaw::Constant => Some(Self::Constant(ExactRate::new(rate_per_s)?)),
            ArrivalLaw::Poisson => Some(random(Gap::Exponential)),
            ArrivalLaw::Gamma { smoothness } => Some(random(Gap::Gamma { shape: smoothness })),
        }
    }

    /// Returns the arrivals of a profile. `None` for a law without a rate.
    pub(crate) fn profiled(law: ArrivalLaw, profile: Profile, values: Generator) -> Option<Self> {
        let gaps = match Self::new(law, 1.0, values)? {
            Self::Random(gaps) => Some(*gaps),
            _ => None,
        };
        Some(Self::Profiled(Box::new(ProfiledArrivals { profile, gaps })))
    }

    pub(crate) fn offset_ns(&mut self, index: u64) -> i64 {
        let offset = match self {
            Self::Profiled(arrivals) => u128::from(arrivals.offset_ns(index)),
            Self::Constant(rate) => rate.offset_ns(index),
            Self::Random(arrivals) => arrivals.offset_ns(index),
            Self::Recorded(arrivals) => arrivals.offset_ns(index),
            Self::Sessions(sessions) => sessions.start_ns(index).into(),
        };
        i64::try_from(offset).unwrap_or(i64::MAX)
    }
}

impl ProfiledArrivals {
    fn offset_ns(&mut self, index: u64) -> u64 {
        let arrivals = match &mut self.gaps {
            None => index as f64,
            Some(gaps) => gaps.sum_ps(index) as f64 / PS_PER_S,
        };
        self.profile.offset_ns(arrivals)
    }
}

impl RecordedArrivals {
    /// Returns the largest time past the last row.
    fn offset_ns(&self, index: u64) -> u128 {
        let row = self.index.row(self.first_row.saturating_add(index));
        let offset = row.map_or(u64::MAX, |row| self.speed.replayed_ns(row.at_ns).saturating_sub(self.begins_ns));
        u128::from(offset)
    }
}

/// Arrivals per second as a fraction: `per / ns` of them each nanosecond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ExactRate {
    ns: u128,
    per: u128,
}

impl ExactRate {
    pub(crate) fn new(rate_per_s: f64) -> Option<Self> {
        Self::of_unit(NS_PER_S, rate_per_s)
    }

    /// Creates the fraction `rate` per `unit` nanoseconds.
    fn of_unit(unit: u128, rate: f64) -> Option<Self> {
        // Rust writes the shortest decimal number that reads back as the same double, such as `3.25e1`.
        let text = format!("{rate:e}");
        let (mantissa, exponent) = text.split_once('e')?;
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
        let exponent = exponent.parse::<i32>().ok()? - i32::try_from(fraction.len()).ok()?;
        let power = 10_u128.checked_pow(exponent.unsigned_abs())?;
        let (ns, per) = if exponent < 0 { (unit.checked_mul(power)?, digits) } else { (unit, digits.checked_mul(power)?) };
        (per > 0).then_some(Self { ns, per })
    }

    /// Returns the time of an arrival with equal gaps, in nanoseconds, to the nearest, halves up.
    pub(crate) fn offset_ns(self, index: u64) -> u128 {
        // Within the limits of rate and index the product is below 2 x 10^38, and so below 2^128.
        let twice = u128::from(index).saturating_mul(2).saturating_mul(self.ns);
        twice.saturating_add(self.per) / (2 * self.per)
    }
}

#[derive(Clone, Copy)]
enum Gap {
    Exponential,
    Gamma { shape: f64 },
}

#[derive(Clone)]
pub(crate) struct RandomArrivals {
    gap: Gap,
    mean_ps: f64,
    values: Generator,
    /// The first index whose gap is not in the sum.
    next: u64,
    sum_ps: u128,
}

impl RandomArrivals {
    fn offset_ns(&mut self, index: u64) -> u128 {
        (self.sum_ps(index) + PS_PER_NS / 2) / PS_PER_NS
    }

    /// Returns the sum of the gaps 0 to `index`, in picoseconds.
    fn sum_ps(&mut self, index: u64) -> u128 {
        if index.checked_add(1).is_some_and(|end| end < self.next) {
            (self.next, self.sum_ps) = (0, 0);
        }
        while self.next <= index {
            self.sum_ps += u128::from(self.gap_ps(self.next));
            self.next += 1;
        }
        self.sum_ps
    }

    fn gap_ps(&mut self, index: u64) -> u64 {
        let means = match self.gap {
            Gap::Exponential => -libm::log(1.0 - self.values.unit_f64(index)),
            Gap::Gamma { shape } => gamma(&mut self.values, index, shape) / shape,
        };
        (means * self.mean_ps).round() as u64
    }
}

/// Returns a gamma value of scale 1 at `index`.
fn gamma(values: &mut Generator, index: u64, shape: f64) -> f64 {
    let first = index.saturating_mul(3);
    if shape >= 1.0 {
        return marsaglia_tsang(values, first, shape);
    }
    let raised = marsaglia_tsang(values, first, shape + 1.0);
    raised * libm::pow(values.open_unit_f64(first.saturating_add(2), 0), 1.0 / shape)
}

/// Returns a gamma value for a shape of at least 1. Accepts 19 of 20 pairs at a shape of 1, and more at larger ones. The paper's
/// `d` and `c` are `scale` and `slope`.
fn marsaglia_tsang(values: &mut Generator, first: u64, shape: f64) -> f64 {
    let scale = shape - 1.0 / 3.0;
    let slope = 1.0 / (9.0 * scale).sqrt();
    let mut nonce = 0;
    loop {
        let x = values.normal(first, nonce);
        let u = values.open_unit_f64(first.saturating_add(1), nonce);
        let root = 1.0 + slope * x;
        let v = root * root * root;
        if root > 0.0 && libm::log(u) < 0.5 * x * x + scale - scale * v + scale * libm::log(v) {
            return scale * v;
        }
        nonce += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;
    use proptest::prelude::*;

    fn arrivals(law: ArrivalLaw, rate_per_s: f64, key: &str) -> Arrivals {
        Arrivals::new(law, rate_per_s, Generator::new(&Seed::new([7; 32]), &["arrivals", key])).expect("an open loop")
    }

    /// Returns gaps of mean 1.
    fn gaps(law: ArrivalLaw, count: u64) -> Vec<f64> {
        let rate = 1_000.0;
        let mut arrivals = arrivals(law, rate, "gaps");
        let offsets: Vec<i64> = (0..count).map(|index| arrivals.offset_ns(index)).collect();
        let before = std::iter::once(0).chain(offsets.iter().copied());
        offsets.iter().zip(before).map(|(after, before)| (after - before) as f64 * rate / 1e9).collect()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    fn central_moment(values: &[f64], order: i32) -> f64 {
        let mean = mean(values);
        values.iter().map(|value| (value - mean).powi(order)).sum::<f64>() / values.len() as f64
    }

    /// Returns the largest distance between the distribution of the values and the given one.
    fn distance(values: &[f64], cdf: impl Fn(f64) -> f64) -> f64 {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        let n = values.len() as f64;
        let steps = values.iter().enumerate().map(|(rank, value)| (cdf(*value), rank as f64 / n));
        steps.map(|(at, below)| (at - below).max(below + 1.0 / n - at)).fold(0.0, f64::max)
    }

    #[test]
    fn equal_gaps_are_exact_however_late() {
        let offset = |rate, index| arrivals(ArrivalLaw::Constant, rate, "").offset_ns(index);
        assert_eq!([0, 1, 2, 3].map(|index| offset(3.0, index)), [0, 333_333_333, 666_666_667, 1_000_000_000]);
        assert_eq!([0, 1, 10_000_000].map(|index| offset(0.1, index)), [0, 10_000_000_000, 100_000_000_000_000_000]);
        assert_eq!([1, 3, 10_000_000].map(|index| offset(1e7, index)), [100, 300, 1_000_000_000]);
        // 10^7 / 7 s; the sum of that many rounded gaps would be 1.4 ms early.
        assert_eq!(offset(7.0, 10_000_000), 1_428_571_428_571_429);
        // 999,999,999 / 33.3 s = 9,999,999,990 / 333 s = 30,030,030 s.
        assert_eq!(offset(33.3, 999_999_999), 30_030_030_000_000_000);
        // Gaps of 156.25 ns: halves go up.
        assert_eq!([1, 2, 3].map(|index| offset(6_400_000.0, index)), [156, 313, 469]);
    }

    #[test]
    fn the_extreme_rates_stay_exact() {
        let mut slow = arrivals(ArrivalLaw::Constant, MIN_RATE_PER_S, "");
        assert_eq!(slow.offset_ns(900_000), 9_000_000_000_000_000_000);
        // Seventeen digits, a low rate and an index beyond the last: 10^18 / 0.00012345678901234567, from integers, does not fit 63 bits.
        assert_eq!(arrivals(ArrivalLaw::Constant, 0.000_123_456_789_012_345_67, "").offset_ns(1_000_000_000), i64::MAX);
        assert_eq!(
            ExactRate::new(0.000_123_456_789_012_345_67).expect("a rate").offset_ns(1_000_000_000),
            8_100_000_072_900_001_247_400
        );
    }

    #[test]
    fn a_speed_divides_times_exactly() {
        let speed = |speed| Speed::new(speed).expect("a speed");
        assert_eq!([0, 3, 1_000_000_000].map(|at_ns| speed(1.0).replayed_ns(at_ns)), [0, 3, 1_000_000_000]);
        // 10^9 / 3 and 10^9 / 0.3; halves go up.
        assert_eq!((speed(3.0).replayed_ns(1_000_000_000), speed(0.3).replayed_ns(1_000_000_000)), (333_333_333, 3_333_333_333));
        assert_eq!([1, 3].map(|at_ns| speed(2.0).replayed_ns(at_ns)), [1, 2]);
        assert_eq!(speed(MIN_SPEED).replayed_ns(1 << 62), u64::MAX);
        assert_eq!([0.0, f64::NAN, MIN_SPEED / 2.0, MAX_SPEED * 2.0].map(Speed::new), [None; 4]);
    }

    #[test]
    fn exponential_gaps_are_exponential() {
        let gaps = gaps(ArrivalLaw::Poisson, 100_000);
        // Moments of the exponential law: mean 1, variance 1, third central moment 2; three standard errors are 0.0095, 0.027, 0.27.
        assert!((mean(&gaps) - 1.0).abs() < 0.0095, "{}", mean(&gaps));
        assert!((central_moment(&gaps, 2) - 1.0).abs() < 0.027, "{}", central_moment(&gaps, 2));
        assert!((central_moment(&gaps, 3) - 2.0).abs() < 0.27, "{}", central_moment(&gaps, 3));
        // Kolmogorov-Smirnov: one key in a thousand exceeds 1.95 / sqrt(n) by chance, and this key is fixed.
        let distance = distance(&gaps, |gap| 1.0 - (-gap).exp());
        assert!(distance < 1.95 / 100_000_f64.sqrt(), "{distance}");
    }

    #[test]
    fn gamma_gaps_of_shape_one_are_exponential() {
        let gaps = gaps(ArrivalLaw::Gamma { smoothness: 1.0 }, 100_000);
        let distance = distance(&gaps, |gap| 1.0 - (-gap).exp());
        assert!(distance < 1.95 / 100_000_f64.sqrt(), "{distance}");
    }

    #[test]
    fn gamma_gaps_of_shape_two_are_erlang() {
        let gaps = gaps(ArrivalLaw::Gamma { smoothness: 2.0 }, 100_000);
        let distance = distance(&gaps, |gap| 1.0 - (-2.0 * gap).exp() * (1.0 + 2.0 * gap));
        assert!(distance < 1.95 / 100_000_f64.sqrt(), "{distance}");
    }

    #[test]
    fn gamma_gaps_below_shape_one_burst() {
        let gaps = gaps(ArrivalLaw::Gamma { smoothness: 0.5 }, 100_000);
        // Shape 1/2 and mean 1 is the square of a standard normal value.
        let distance = distance(&gaps, |gap| 2.0 * assay_stats::normal::cdf(gap.sqrt()) - 1.0);
        assert!(distance < 1.95 / 100_000_f64.sqrt(), "{distance}");
    }

    #[test]
    fn gamma_gaps_have_the_asked_variance() {
        for smoothness in [0.1, 0.25, 1.0, 4.0, 100.0] {
            let gaps = gaps(ArrivalLaw::Gamma { smoothness }, 100_000);
            let variance = 1.0 / smoothness;
            // Standard errors: sqrt(variance / n) of the mean; variance x sqrt((kurtosis - 1) / n) of the variance, with kurtosis
            // 3 + 6 / shape.
            let mean_error = (variance / 100_000.0).sqrt();
            let variance_error = variance * ((2.0 + 6.0 / smoothness) / 100_000.0).sqrt();
            assert!((mean(&gaps) - 1.0).abs() < 4.0 * mean_error, "{smoothness}: {}", mean(&gaps));
            assert!(
                (central_moment(&gaps, 2) - variance).abs() < 4.0 * variance_error,
                "{smoothness}: {}",
                central_moment(&gaps, 2)
            );
        }
    }

    #[test]
    fn successive_gaps_are_unrelated() {
        for law in [ArrivalLaw::Poisson, ArrivalLaw::Gamma { smoothness: 2.0 }] {
            let gaps = gaps(law, 100_000);
            let (mean, variance) = (mean(&gaps), central_moment(&gaps, 2));
            let covariance = gaps.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>() / 99_999.0;
            assert!((covariance / variance).abs() < 3.3 / 100_000_f64.sqrt(), "{law:?}: {covariance}");
        }
    }

    fn laws() -> impl Strategy<Value = ArrivalLaw> {
        let gamma = (MIN_SMOOTHNESS..10.0).prop_map(|smoothness| ArrivalLaw::Gamma { smoothness });
        prop_oneof![Just(ArrivalLaw::Constant), Just(ArrivalLaw::Poisson), gamma]
    }

    proptest! {
        #[test]
        fn the_order_of_asking_does_not_matter(law in laws(), indices in prop::collection::vec(0..500_u64, 1..20)) {
            let mut remembering = arrivals(law, 123.4, "order");
            for index in indices {
                prop_assert_eq!(remembering.offset_ns(index), arrivals(law, 123.4, "order").offset_ns(index));
            }
        }

        #[test]
        fn offsets_never_fall(law in laws(), rate in MIN_RATE_PER_S..MAX_RATE_PER_S) {
            let mut arrivals = arrivals(law, rate, "rising");
            let offsets: Vec<i64> = (0..200).map(|index| arrivals.offset_ns(index)).collect();
            prop_assert!(offsets.is_sorted() && offsets[0] >= 0);
        }

        #[test]
        fn equal_gaps_are_within_half_a_nanosecond(rate in 1_u32..10_000_000, index in 0..1_000_000_000_u64) {
            let offset = i128::from(arrivals(ArrivalLaw::Constant, f64::from(rate), "").offset_ns(index));
            let error = offset * i128::from(rate) - i128::from(index) * 1_000_000_000;
            prop_assert!(2 * error.abs() <= i128::from(rate));
        }
    }
}
