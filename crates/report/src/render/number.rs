//! Numbers for people: as many digits as are supported, and a unit that keeps them short.

/// Maximum number of significant digits of a published number.
const SIGNIFICANT_DIGITS: i32 = 3;

/// Minimum number of significant digits of a published median, however wide its interval is.
const LEAST_DIGITS: i32 = 2;

/// Number of digits of an interval's width that a number may resolve: 412 for [398, 431], not 412.3.
const WIDTH_DIGITS: i32 = 2;

/// From this power of ten on, and below [`EXPONENT_BELOW`], a number is written with an exponent: more than ten digits are hard to count.
const EXPONENT_FROM: i32 = 9;
/// See [`EXPONENT_FROM`].
const EXPONENT_BELOW: i32 = -4;

/// The format of a number and its companions: the place of the last digit, and whether with an exponent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Format {
    /// The power of ten of the last digit shown.
    place: i32,
    exponent: Option<i32>,
}

impl Format {
    /// Returns the format with three significant digits of `value`, and none below the second digit of its interval's width.
    pub(crate) fn new(value: f64, interval: Option<(f64, f64)>) -> Self {
        let width = interval.map_or(0.0, |(low, high)| high - low);
        let by_value = magnitude(value).map(|power| power - SIGNIFICANT_DIGITS + 1);
        let by_width = magnitude(width).map(|power| power - WIDTH_DIGITS + 1);
        let place = by_value.max(by_width).unwrap_or(0);
        let exponent = magnitude(value).filter(|power| !(EXPONENT_BELOW..EXPONENT_FROM).contains(power));
        Self { place, exponent }
    }

    /// Returns that format, with two significant digits of `value` at least: a median of 15.9 in [7, 380] is not 20.
    pub(crate) fn of_median(value: f64, interval: Option<(f64, f64)>) -> Self {
        let format = Self::new(value, interval);
        let coarsest = magnitude(value).map_or(format.place, |power| power - LEAST_DIGITS + 1);
        Self { place: format.place.min(coarsest), ..format }
    }

    /// Returns the format with `digits` more digits after the point.
    pub(crate) fn finer_by(self, digits: i32) -> Self {
        Self { place: self.place - digits, exponent: None }
    }

    /// Returns `value` in this format.
    pub(crate) fn show(self, value: f64) -> String {
        if !value.is_finite() {
            return format!("{value}");
        }
        match self.exponent {
            // Of a number at the ends of what a double holds, no power of ten divides it.
            Some(power) => match value / ten_to(power) {
                scaled if scaled.is_finite() => format!("{}e{power}", fixed(scaled, self.place - power)),
                _ => format!("{value:.*e}", usize::try_from(power - self.place).unwrap_or(0)),
            },
            None => fixed(value, self.place_of(value)),
        }
    }

    /// Returns the place of the last digit of a value: an end of a wide interval that is ten or more is not 0.
    fn place_of(self, value: f64) -> i32 {
        let rounds_to_zero = self.place > 0 && value.abs() < ten_to(self.place) / 2.0;
        magnitude(value).filter(|_| rounds_to_zero).map_or(self.place, |power| power.max(0))
    }

    /// Returns `value` in this format, with its sign; a value that rounds to zero has none.
    pub(crate) fn signed(self, value: f64) -> String {
        let text = self.show(value);
        let is_positive = !text.starts_with('-') && text.contains(|digit| matches!(digit, '1'..='9'));
        if is_positive { format!("+{text}") } else { text }
    }
}

/// Returns `value` with three significant digits, and never more than `interval` (its lower and upper end) supports.
///
/// The last digit shown is the coarser of the value's third digit and the second digit of the interval's width. Values of a billion
/// and more, and below a ten-thousandth, have an exponent; from five digits on, thousands are grouped by commas.
pub fn significant(value: f64, interval: Option<(f64, f64)>) -> String {
    Format::new(value, interval).show(value)
}

/// Returns a count with its thousands grouped from five digits on: `9999`, `10,400`.
pub(crate) fn grouped(count: u64) -> String {
    group(&count.to_string())
}

/// Returns a duration given in nanoseconds: `850 ns`, `12.3 ms`, `1.50 s`, `12 min 3 s`, `3 h 12 min`.
pub fn duration(nanoseconds: u64) -> String {
    let seconds = nanoseconds / 1_000_000_000;
    match (nanoseconds, seconds) {
        (0..1_000, _) => format!("{nanoseconds} ns"),
        (1_000..1_000_000, _) => format!("{} µs", significant(nanoseconds as f64 / 1e3, None)),
        (_, 0) => format!("{} ms", significant(nanoseconds as f64 / 1e6, None)),
        (_, 1..120) => format!("{} s", significant(nanoseconds as f64 / 1e9, None)),
        (_, 120..7_200) => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}

/// Formats a latency in milliseconds: `412 ms`.
pub(crate) fn milliseconds(value: f64) -> String {
    format!("{} ms", significant(value, None))
}

/// Returns a size in bytes, by powers of 1,024: `512 B`, `4.20 MiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut size = count as f64;
    let mut unit = "B";
    for larger in UNITS {
        if size < 1_024.0 {
            break;
        }
        size /= 1_024.0;
        unit = larger;
    }
    if unit == "B" { format!("{count} B") } else { format!("{} {unit}", significant(size, None)) }
}

/// Returns a share as a percentage with two significant digits: `0.42 %`, `12 %`. Only the whole is 100 %: a little less is `99.5 %`, or
/// `above 99.9 %`.
pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    match magnitude(value) {
        Some(_) if (99.95..100.0).contains(&value) => "above 99.9 %".to_owned(),
        Some(_) if (99.5..99.95).contains(&value) => format!("{} %", fixed(value, -1)),
        None => "0 %".to_owned(),
        Some(power) if power < -2 => "below 0.01 %".to_owned(),
        Some(power) => format!("{} %", fixed(value, (power - 1).min(0))),
    }
}

/// Returns a probability; below a ten-thousandth its digits are not shown, because they do not matter and it is not 0.
pub fn probability(p: f64) -> String {
    if p < 1e-4 { "<0.0001".to_owned() } else { significant(p, None) }
}

/// Returns a confidence level, whose last digits matter more than those of a spread: `95 %`, `93.75 %`.
pub fn level(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Returns the power of ten of the first digit; `None` for zero and for a value that is not finite.
fn magnitude(value: f64) -> Option<i32> {
    (value != 0.0 && value.is_finite()).then(|| value.abs().log10().floor() as i32)
}

/// Returns `value` rounded to the place `10^place`, its thousands grouped from five digits on.
pub(crate) fn fixed(value: f64, place: i32) -> String {
    let rounded = if place > 0 { (value / ten_to(place)).round() * ten_to(place) } else { value };
    let decimals = usize::try_from(-place).unwrap_or(0);
    let text = format!("{rounded:.decimals$}");
    // A value that rounds to zero has no sign.
    let text = if text.bytes().all(|byte| !(b'1'..=b'9').contains(&byte)) { text.replace('-', "") } else { text };
    group(&text)
}

fn ten_to(power: i32) -> f64 {
    10f64.powi(power)
}

fn group(text: &str) -> String {
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let (sign, digits) = whole.split_at(usize::from(whole.starts_with('-')));
    if digits.len() < 5 {
        return text.to_owned();
    }
    let mut grouped = sign.to_owned();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn three_digits_where_nothing_says_otherwise() {
        let table = [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1.00"),
            (12.3456, "12.3"),
            (-12.3456, "-12.3"),
            (412.4, "412"),
            (999.6, "1000"),
            (1234.5, "1230"),
            (12_345.0, "12,300"),
            (-12_345.0, "-12,300"),
            (123_456_789.0, "123,000,000"),
            (1_234_567_890.0, "1.23e9"),
            (0.012_34, "0.0123"),
            (0.000_123_4, "0.000123"),
            (0.000_012_34, "1.23e-5"),
            (4e-310, "4.00e-310"),
            (-1.239e-308, "-1.24e-308"),
            (5e-324, "4.94e-324"),
            (f64::MAX, "1.80e308"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "inf"),
        ];
        for (value, expected) in table {
            assert_eq!(significant(value, None), expected, "{value}");
        }
    }

    #[test]
    fn the_interval_takes_digits_away_and_never_adds_any() {
        let table = [
            (412.0, (398.0, 431.0), "412"),
            (12.345, (11.0, 14.0), "12.3"),
            (12.345, (2.0, 22.0), "12"),
            (412.0, (100.0, 900.0), "410"),
            (412.0, (-2_000.0, 3_000.0), "400"),
            (0.05, (-10.0, 10.0), "0"),
            (-0.05, (-10.0, 10.0), "0"),
            (0.0, (-0.12, 0.15), "0.00"),
            (12.345_678, (12.345_677, 12.345_679), "12.3"),
            (12.3, (12.3, 12.3), "12.3"),
            (12.3, (f64::NEG_INFINITY, f64::INFINITY), "12.3"),
        ];
        for (value, interval, expected) in table {
            assert_eq!(significant(value, Some(interval)), expected, "{value} in {interval:?}");
        }
    }

    #[test]
    fn a_median_keeps_two_digits() {
        let shown = |value: f64, interval| {
            let format = Format::of_median(value, Some(interval));
            [value, interval.0, interval.1].map(|value| format.show(value)).join(" ")
        };
        assert_eq!(shown(15.882, (7.327, 379.693)), "16 7 380");
        assert_eq!(shown(412.0, (-2_000.0, 3_000.0)), "410 -2000 3000");
        assert_eq!(shown(412.0, (398.0, 431.0)), "412 398 431");
        assert_eq!(shown(0.0, (-0.12, 0.15)), "0.00 -0.12 0.15");
    }

    #[test]
    fn counts_keep_all_their_digits() {
        assert_eq!([0, 9_999, 10_400, u64::MAX].map(grouped), ["0", "9999", "10,400", "18,446,744,073,709,551,615"]);
    }

    #[test]
    fn durations_read_like_a_clock() {
        let table = [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_500, "1.50 µs"),
            (12_345_678, "12.3 ms"),
            (1_500_000_000, "1.50 s"),
            (119_000_000_000, "119 s"),
            (723_000_000_000, "12 min 3 s"),
            (11_520_000_000_000, "3 h 12 min"),
            (u64::MAX, "5124095 h 34 min"),
        ];
        for (nanoseconds, expected) in table {
            assert_eq!(duration(nanoseconds), expected);
        }
    }

    #[test]
    fn sizes_count_by_1024() {
        let table = [(0, "0 B"), (1_023, "1023 B"), (1_024, "1.00 KiB"), (4_404_019, "4.20 MiB"), (u64::MAX, "16.0 EiB")];
        for (count, expected) in table {
            assert_eq!(bytes(count), expected);
        }
    }

    #[test]
    fn shares_become_percentages() {
        let table = [
            (0.0, "0 %"),
            (0.004_2, "0.42 %"),
            (0.123, "12 %"),
            (1.5, "150 %"),
            (0.000_001, "below 0.01 %"),
            (0.995_1, "99.5 %"),
            (0.999_9, "above 99.9 %"),
            (1.0, "100 %"),
        ];
        for (share, expected) in table {
            assert_eq!(percent(share), expected);
        }
    }

    #[test]
    fn a_level_keeps_its_digits() {
        assert_eq!([level(0.95), level(0.9375), level(1.0)], ["95 %", "93.75 %", "100 %"]);
    }

    proptest! {
        #[test]
        fn a_number_keeps_within_half_of_its_last_digit(value in -1e12..1e12f64) {
            let shown: f64 = significant(value, None).replace(',', "").parse().expect("a number");
            prop_assert!((shown - value).abs() <= value.abs() * 0.005_000_1, "{value} became {shown}");
        }

        #[test]
        fn any_bits_give_some_text(value in any::<f64>(), low in any::<f64>(), high in any::<f64>()) {
            prop_assert!(!significant(value, Some((low, high))).is_empty());
            prop_assert!(!percent(value).is_empty());
        }
    }
}
