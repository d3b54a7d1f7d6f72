//! Axes that do not distort: logarithmic only if the values span decades, starting at zero if zero is near, and labelled as such.

use crate::render::number::fixed;

/// From this ratio of the largest to the smallest value on, an axis is logarithmic: below it, a linear axis shows more.
const LOG_RATIO: f64 = 20.0;

/// A linear axis starts at zero if the smallest value is below this share of the largest: the empty stretch is then small.
const ZERO_SHARE: f64 = 0.4;

/// Empty space at both ends of an axis, a share of its length, so that no dot is cut.
const MARGIN: f64 = 0.06;

/// The number of ticks to aim for; their labels have to fit side by side on a phone.
const TICKS: f64 = 4.0;

/// A horizontal axis from 0 to 100 %.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    low: f64,
    high: f64,
    log: bool,
}

impl Axis {
    /// Returns an axis that holds all finite `values`; `None` if there are none.
    pub(crate) fn holding(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let (low, high) = ends(values)?;
        if low > 0.0 && high / low >= LOG_RATIO {
            return Self::logarithmic([low, high]);
        }
        // If all values are equal, the axis has no length; a tenth of the value gives it one.
        let length = if high > low { high - low } else { (high.abs() * 0.1).max(f64::MIN_POSITIVE) };
        let margin = length * MARGIN;
        let from_zero = low >= 0.0 && low <= high * ZERO_SHARE && high > 0.0;
        let low = if from_zero { 0.0 } else { low - margin };
        Some(Self { low, high: high + margin, log: false })
    }

    /// Returns a linear axis from zero that holds all finite `values`; `None` if there are none, or if one is below zero.
    pub(crate) fn from_zero(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let (low, high) = ends(values)?;
        let high = if high > 0.0 { high } else { 1.0 };
        (low >= 0.0).then_some(Self { low: 0.0, high: high * (1.0 + MARGIN), log: false })
    }

    /// Returns a logarithmic axis that holds all finite `values` above zero; `None` if there are none.
    pub(crate) fn logarithmic(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let (low, high) = ends(values.into_iter().filter(|value| *value > 0.0))?;
        // If all values are equal, the axis has no length; a factor of two gives it one.
        let (low, high) = if high > low { (low.ln(), high.ln()) } else { (low.ln() - 0.35, low.ln() + 0.35) };
        let margin = (high - low) * MARGIN;
        Some(Self { low: low - margin, high: high + margin, log: true })
    }

    /// Returns a linear axis from the smallest to the largest of `values`, for stretches of time.
    pub(crate) fn spanning(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let (low, high) = ends(values)?;
        Some(Self { low, high: if high > low { high } else { low + 1.0 }, log: false })
    }

    /// Returns the position of `value`, in percent of the axis; clamped to its ends.
    pub(crate) fn position(&self, value: f64) -> f64 {
        let value = if self.log { value.max(f64::MIN_POSITIVE).ln() } else { value };
        ((value - self.low) / (self.high - self.low) * 100.0).clamp(0.0, 100.0)
    }

    /// Returns round values on the axis, smallest first.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        if self.log { self.decades() } else { self.steps() }
    }

    /// Returns the kind of the axis in words.
    pub(crate) fn describe(&self) -> &'static str {
        match (self.log, self.low == 0.0) {
            (true, _) => "logarithmic axis",
            (false, true) => "linear axis from zero",
            (false, false) => "linear axis that does not start at zero",
        }
    }

    fn steps(&self) -> Vec<f64> {
        let raw = (self.high - self.low) / TICKS;
        let unit = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|times| times * unit).find(|step| *step >= raw).unwrap_or(raw);
        let first = (self.low / step).ceil();
        // At most a dozen by construction; the limit prevents an endless loop if a step is too small to change its value.
        (0..12).map(|index| (first + f64::from(index)) * step).take_while(|tick| *tick <= self.high).collect()
    }

    /// Returns powers of ten; if there are few of them, also round values between.
    fn decades(&self) -> Vec<f64> {
        let (first, last) = ((self.low / std::f64::consts::LN_10).floor(), (self.high / std::f64::consts::LN_10).ceil());
        let stride = ((last - first) / (TICKS + 2.0)).ceil().max(1.0);
        let between: &[f64] = match last - first {
            ..=2.0 => &[1.0, 2.0, 5.0],
            ..=3.0 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let mut ticks = Vec::new();
        let mut power = first;
        while power <= last {
            ticks.extend(between.iter().map(|times| times * 10f64.powf(power)));
            power += stride;
        }
        ticks.retain(|tick| (self.low..=self.high).contains(&tick.ln()));
        ticks
    }
}

/// Returns the smallest and the largest finite value.
fn ends(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    let mut finite = values.into_iter().filter(|value| value.is_finite());
    let first = finite.next()?;
    Some(finite.fold((first, first), |(low, high), value| (low.min(value), high.max(value))))
}

/// Returns the ticks' labels, with enough digits to tell each from its neighbours.
pub(crate) fn tick_labels(ticks: &[f64]) -> Vec<String> {
    let is_plain = |tick: &f64| *tick == 0.0 || (1e-4..1e7).contains(&tick.abs());
    if !ticks.iter().all(is_plain) {
        let labels = |decimals| ticks.iter().map(|tick| clip_mantissa(&format!("{tick:e}"), decimals)).collect::<Vec<_>>();
        let is_told_apart = |labels: &Vec<String>| labels.windows(2).all(|pair| matches!(pair, [one, other] if one != other));
        return (3..MAX_DECIMALS).map(labels).find(is_told_apart).unwrap_or_else(|| labels(MAX_DECIMALS));
    }
    if ticks.windows(2).all(|pair| matches!(pair, [low, high] if *low > 0.0 && high / low >= 1.9)) && ticks.len() > 1 {
        return ticks.iter().map(|tick| significant_tick(*tick)).collect();
    }
    // Near values far from zero are told apart by digits that are a small share of them.
    let step = ticks.windows(2).map(|pair| pair.iter().copied().reduce(|low, high| (high - low).abs()).unwrap_or_default());
    let step = step.filter(|step| *step > 0.0).fold(f64::INFINITY, f64::min);
    let told_apart = |decimals: &i32| {
        let reads_back = |tick: &f64| (at_decimals(*tick, *decimals) - tick).abs() <= (tick.abs() * 1e-6).min(step * 0.01);
        ticks.iter().all(reads_back)
    };
    let decimals = (0..=MAX_DECIMALS).find(told_apart).unwrap_or(MAX_DECIMALS);
    ticks.iter().map(|tick| fixed(*tick, -decimals)).map(|text| if is_zero(&text) { "0".to_owned() } else { text }).collect()
}

/// The most decimals of a tick.
const MAX_DECIMALS: i32 = 12;

fn at_decimals(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (value * scale).round() / scale
}

fn is_zero(text: &str) -> bool {
    text.chars().all(|character| matches!(character, '0' | '.'))
}

/// Formats a tick of a logarithmic axis with one significant digit.
fn significant_tick(tick: f64) -> String {
    fixed(tick, tick.abs().log10().floor().min(0.0) as i32)
}

/// Shortens `1.2000000000000002e-7` to `1.2e-7`, with this many decimals at most.
fn clip_mantissa(text: &str, decimals: i32) -> String {
    let (mantissa, power) = text.split_once('e').unwrap_or((text, "0"));
    let rounded =
        mantissa.parse().map_or_else(|_| mantissa.to_owned(), |mantissa: f64| format!("{}", at_decimals(mantissa, decimals)));
    format!("{rounded}e{power}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn axis(values: &[f64]) -> Axis {
        Axis::holding(values.iter().copied()).expect("values")
    }

    fn labels(values: &[f64]) -> (String, &'static str) {
        let axis = axis(values);
        (tick_labels(&axis.ticks()).join(" "), axis.describe())
    }

    #[test]
    fn the_axis_fits_the_values_and_says_what_it_is() {
        assert_eq!(labels(&[9.2, 10.4]), ("9.5 10.0".to_owned(), "linear axis that does not start at zero"));
        assert_eq!(labels(&[2.0, 10.0]), ("0 5 10".to_owned(), "linear axis from zero"));
        assert_eq!(labels(&[1.0, 5_000.0]), ("1 10 100 1000".to_owned(), "logarithmic axis"));
        assert_eq!(labels(&[410.0, 28_000.0]).0, "1000 3000 10,000 30,000");
        assert_eq!(labels(&[2e-6, 3e-6]).0, "2e-6 2.5e-6 3e-6");
        assert_eq!(labels(&[1_000.000_1, 1_000.000_4]).0, "1000.0001 1000.0002 1000.0003 1000.0004");
        assert_eq!(labels(&[1.234_000e7, 1.234_001e7]).0, "1.234e7 1.2340005e7 1.234001e7");
        assert_eq!(labels(&[-3.0, 3.0]), ("-2 0 2".to_owned(), "linear axis that does not start at zero"));
        assert_eq!(labels(&[0.0, 100.0]).1, "linear axis from zero");
        assert_eq!(labels(&[7.0]).1, "linear axis that does not start at zero");
        assert_eq!(Axis::holding([f64::NAN]), None);
    }

    proptest! {
        #[test]
        fn every_value_lies_on_the_axis(values in prop::collection::vec(-1e300..1e300f64, 1..20)) {
            let axis = axis(&values);
            for value in values {
                let at = axis.position(value);
                prop_assert!((0.0..=100.0).contains(&at), "{value} at {at}");
            }
            prop_assert!(axis.ticks().len() <= 24);
        }

        #[test]
        fn order_is_kept(low in 0.001..1e6f64, more in 0.001..1e6f64) {
            let axis = axis(&[low, low + more]);
            prop_assert!(axis.position(low) < axis.position(low + more));
        }
    }
}
