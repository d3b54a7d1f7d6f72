//! The test whether an apparent step may be a wave: the likelihood of a series with a step against that of one without a step and
//! with stronger autocorrelation.
//!
//! The autocorrelation of the noise is estimated with the step taken out, because a step is not autocorrelation. But in a
//! strongly autocorrelated series, a fitted step absorbs the largest wave too, and the residuals show little autocorrelation. So
//! if the series as a whole may be strongly autocorrelated, a step has to explain it better than autocorrelation does.

use super::MIN_SIDE;

/// The lag-1 autocorrelation of the series as it is above which a step may be a wave. A step of two standard deviations in noise
/// with 0.6 comes to 0.81 in the median, so few of those are lost: with 0.75 here one in ten of the found steps would not be
/// reported, with 0.85 one in forty.
const MANY_WAVES: f64 = 0.85;

/// Corrects the likeliest autocorrelation, which is too small by `(1 + 3 memory) / n`, because the level is estimated too
/// (Kendall, "Note on bias in the estimation of autocorrelation", Biometrika 41, 1954).
fn correct_bias(memory: f64, n: usize) -> f64 {
    (memory + (1.0 + 3.0 * memory) / n as f64).min(1.0)
}

/// Twice the logarithm of the likelihood ratio that a step requires. Over 400 normal series a cell, without a step and with an
/// autocorrelation of 0.6 to 0.95, the best step reaches 12 to 15 in one of twenty, at 30 points as at 100: it hardly depends on
/// the autocorrelation.
const CLEARER: f64 = 14.0;

/// The autocorrelations that are tried, in hundredths: without a step nearly the whole range, with a step as many as the test of
/// it needs.
const MEMORIES: std::ops::RangeInclusive<u8> = 0..=99;
const MEMORIES_BESIDE_A_STEP: std::ops::RangeInclusive<u8> = 0..=95;

/// The likeliest lag-1 autocorrelation of the series without a step; `None` if a step explains the series clearly better. The
/// series is one of `family` windows: the more there are, the better the best step of them explains its own by chance, by `2 ln`
/// of their number.
pub(super) fn explain_without_step(values: &[f64], family: usize) -> Option<f64> {
    let (waves, memory) = likeliest(MEMORIES, |memory| WhitenedSeries::new(values, memory).squares());
    let (step, _) = likeliest(MEMORIES_BESIDE_A_STEP, |memory| WhitenedSeries::new(values, memory).squares_beside_best_step());
    // With a step, a series of zeros and ones has no noise at all.
    let clearer = CLEARER + 2.0 * libm::log(family as f64);
    let is_clear = step == f64::NEG_INFINITY || waves - step >= clearer;
    let memory = correct_bias(memory, values.len());
    (memory > MANY_WAVES && !is_clear).then_some(memory)
}

/// The smallest of twice the negative log-likelihood of normal innovations, `n ln(squares) - ln(1 - memory^2)` up to a constant
/// (Box, Jenkins and Reinsel, "Time Series Analysis", 2008, appendix A7.4), and the autocorrelation that gives it.
fn likeliest(memories: impl Iterator<Item = u8>, squares: impl Fn(f64) -> (usize, f64)) -> (f64, f64) {
    let of = |hundredths| {
        let memory = f64::from(hundredths) / 100.0;
        let (n, squares) = squares(memory);
        (n as f64 * libm::log(squares) - libm::log(1.0 - memory * memory), memory)
    };
    memories.map(of).min_by(|one, other| one.0.total_cmp(&other.0)).unwrap_or((0.0, 0.0))
}

/// A series and its level, each less the autocorrelated part of the value before: the residuals are independent if the
/// autocorrelation is right.
struct WhitenedSeries {
    memory: f64,
    values: Vec<f64>,
    level: Vec<f64>,
}

impl WhitenedSeries {
    fn new(values: &[f64], memory: f64) -> Self {
        let first = (1.0 - memory * memory).sqrt();
        let rest = values.iter().zip(values.iter().skip(1)).map(|(before, value)| value - memory * before);
        let level = (0..values.len()).map(|place| if place == 0 { first } else { 1.0 - memory });
        Self {
            memory,
            values: values.first().map(|value| first * value).into_iter().chain(rest).collect(),
            level: level.collect(),
        }
    }

    /// The sum of squares about the level that makes it smallest.
    fn squares(&self) -> (usize, f64) {
        let [values, both, level] = self.products();
        (self.values.len(), (values - both * both / level).max(0.0))
    }

    /// The smallest sum of squares about a level and a step, with [`MIN_SIDE`] values on either side.
    fn squares_beside_best_step(&self) -> (usize, f64) {
        let n = self.values.len();
        let [values, both, level] = self.products();
        let about_level = values - both * both / level;
        let fall = 1.0 - self.memory;
        // After its first value a step is 1 - memory, as the level is.
        let (mut later_values, mut gain) = (0.0, 0.0_f64);
        for at in (1..n).rev() {
            let later = (n - at - 1) as f64;
            let of_values = self.values[at] + fall * later_values;
            let of_level = fall + fall * fall * later;
            let squares = 1.0 + fall * fall * later - of_level * of_level / level;
            if at >= MIN_SIDE && n - at >= MIN_SIDE && squares > 0.0 {
                let along = of_values - of_level * both / level;
                gain = gain.max(along * along / squares);
            }
            later_values += self.values[at];
        }
        let left = about_level - gain;
        // If a step explains everything, the rest is rounding.
        (n, if left > 1e-12 * values { left } else { 0.0 })
    }

    fn products(&self) -> [f64; 3] {
        let product = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(one, other)| one * other).sum::<f64>();
        [product(&self.values, &self.values), product(&self.values, &self.level), product(&self.level, &self.level)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wobble(place: u32) -> f64 {
        f64::from(place * 5 % 7 + place * place % 3)
    }

    #[test]
    fn the_best_step_is_what_trying_them_all_finds() {
        let values: Vec<f64> = (0..20).map(|place| wobble(place) + if place < 9 { 0.0 } else { 6.0 }).collect();
        let whitened = WhitenedSeries::new(&values, 0.4);
        let left = |at: usize| {
            // A step of one, whitened like the values; least squares on both, by hand.
            let step =
                WhitenedSeries::new(&(0..20).map(|place| f64::from(u8::from(place >= at))).collect::<Vec<_>>(), 0.4).values;
            let dot = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(one, other)| one * other).sum::<f64>();
            let (y, o) = (&whitened.values, &whitened.level);
            let along = dot(&step, y) - dot(&step, o) * dot(o, y) / dot(o, o);
            let squares = dot(&step, &step) - dot(&step, o) * dot(&step, o) / dot(o, o);
            whitened.squares().1 - along * along / squares
        };
        let best = (MIN_SIDE..=20 - MIN_SIDE).map(left).fold(f64::INFINITY, f64::min);
        assert!((whitened.squares_beside_best_step().1 - best).abs() < 1e-9);
    }

    #[test]
    fn a_clear_step_is_none_and_a_slow_wave_may_be_one() {
        let step: Vec<f64> = (0..60).map(|place| wobble(place) + if place < 30 { 0.0 } else { 40.0 }).collect();
        assert_eq!(explain_without_step(&step, 1), None);
        let wave: Vec<f64> = (0..60).map(|place| 20.0 * libm::sin(f64::from(place) / 10.0) + wobble(place)).collect();
        assert!(explain_without_step(&wave, 1).is_some_and(|memory| memory > MANY_WAVES));
        let flat: Vec<f64> = (0..60).map(wobble).collect();
        assert_eq!(explain_without_step(&flat, 1), None, "what hardly remembers is no wave");
        let exact: Vec<f64> = (0..20_u8).map(|place| f64::from(u8::from(place >= 8))).collect();
        assert_eq!(explain_without_step(&exact, 1), None);
    }
}
