//! Surrogates: unchanged series with the same noise, the reference of every test.
//!
//! The noise is taken as autoregressive of order 1, `x = phi * previous + innovation`. Innovations are exchangeable and are
//! permuted; coloured with phi again they make a surrogate, a series without a change and with the same autocorrelation. Without
//! autocorrelation that is the plain permutation test, exact in any sample. If innovations still depend on their neighbours,
//! blocks of them are permuted.

use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use super::MIN_SIDE;
use crate::{bootstrap, pelt, robust};

/// The highest autocorrelation: no change can be distinguished in a series that hardly ever returns to its level.
const MAX_MEMORY: f64 = 0.95;

/// The coefficients of the bias of the lag-1 autocorrelation of residuals around the two levels of the best split, which is too
/// small by `(0.9 + 0.77 ln n + 7.5 phi) / n`, fitted to simulation (4,000 normal series a cell): n times the bias is 3.2, 5.2,
/// 7.6, 9.8 for phi 0, 0.3, 0.6, 0.8 at n = 20; 3.9, 6.1, 8.4, 10.6 at n = 50; 4.5, 6.7, 8.9, 10.7 at n = 100; 4.9, 7.2, 9.5,
/// 11.0 at n = 200. (Two known halves would give 2 + 8 phi: Marriott and Pope, Biometrika 41, 1954; the search for the split
/// causes the rest.)
const BIAS: [f64; 3] = [0.9, 0.77, 7.5];

/// The lower limit of the slope, because in short series only part of the estimate can be explained as bias.
const LEAST_SLOPE: f64 = 0.5;

/// A lag-1 autocorrelation of innovations beyond this many standard errors counts as remaining dependence.
const DEPENDENT: f64 = 2.0;

/// The noise of a segment.
pub(super) struct Noise {
    memory: f64,
    block: usize,
    innovations: Vec<f64>,
}

impl Noise {
    /// Estimates the noise of a segment. The autocorrelation is estimated with steps taken out, because a change is not
    /// autocorrelation. The innovations are those of the series as it is, so that without autocorrelation the test stays an exact
    /// permutation test.
    pub(super) fn estimate(values: &[f64]) -> Self {
        let stepless = without_steps(values);
        let memory = stepless.autocorrelation();
        let centre = mean(values);
        let centred: Vec<f64> = values.iter().map(|x| x - centre).collect();
        let block = block_length(&whiten(&stepless.residuals, memory));
        Self { memory, block, innovations: whiten(&centred, memory) }
    }
}

/// The autocorrelation at lag 1 of an autoregressive series with a few steps, between 0 and [`MAX_MEMORY`]. A negative one, which
/// makes false alarms rarer, counts as none.
pub(super) fn autocorrelation(values: &[f64]) -> f64 {
    without_steps(values).autocorrelation()
}

/// Removes the [bias](BIAS) from an estimate from residuals around two levels, and limits it to 0 to [`MAX_MEMORY`].
pub(super) fn correct_bias(estimate: f64, n: usize) -> f64 {
    around_levels(estimate, n, 2)
}

/// Corrects an estimate from residuals around `levels` levels: the bias grows with the number of levels that were fitted.
fn around_levels(estimate: f64, n: usize, levels: usize) -> f64 {
    let (n, times, [constant, growth, slope]) = (n as f64, levels as f64 / 2.0, BIAS);
    let missing = times * (constant + growth * libm::log(n)) / n;
    ((estimate + missing) / (1.0 - times * slope / n).max(LEAST_SLOPE)).clamp(0.0, MAX_MEMORY)
}

/// The residuals of a series around its levels.
struct StepResiduals {
    residuals: Vec<f64>,
    levels: usize,
}

impl StepResiduals {
    fn autocorrelation(&self) -> f64 {
        around_levels(lag_one(&self.residuals), self.residuals.len(), self.levels)
    }
}

/// The saving that a further level requires, in units of `variance * ln n` with the variance of differences: five times the usual
/// penalty, so that the waves of an autocorrelated series are not mistaken for levels. At phi 0.6 their best split saves about
/// 20.
const CLEAR: f64 = 25.0;

/// The residuals around all clear levels if there are three or more, otherwise around the two that fit best.
///
/// If only one step were taken out of a series that went up and down again, the residuals would look autocorrelated and hide both
/// changes.
fn without_steps(values: &[f64]) -> StepResiduals {
    let sd = robust::difference_sd(values, 1);
    let penalty = CLEAR * sd * sd / 2.0 * libm::log(values.len() as f64);
    let clear = if sd > 0.0 { pelt::partition(values, penalty) } else { Vec::new() };
    let starts = if clear.len() > 2 { clear } else { vec![0, largest_step(values)] };
    let ends = starts.iter().skip(1).copied().chain(std::iter::once(values.len()));
    let level = |(&start, end): (&usize, usize)| around_mean(values.get(start..end).unwrap_or_default());
    StepResiduals { residuals: starts.iter().zip(ends).flat_map(level).collect(), levels: starts.len() }
}

fn around_mean(level: &[f64]) -> Vec<f64> {
    let centre = mean(level);
    level.iter().map(|x| x - centre).collect()
}

/// The split that leaves the smallest sum of squares around two means.
fn largest_step(values: &[f64]) -> usize {
    let (n, centre) = (values.len(), mean(values));
    let (mut sum, mut best) = (0.0, (f64::NEG_INFINITY, 0));
    for (split, value) in (1..n).zip(values) {
        sum += value - centre;
        let gain = sum * sum / (split as f64 * (n - split) as f64);
        if split >= MIN_SIDE && n - split >= MIN_SIDE && gain > best.0 {
            best = (gain, split);
        }
    }
    best.1
}

/// The lag-1 autocorrelation of values with mean 0; 0 if they are all 0.
pub(super) fn lag_one(values: &[f64]) -> f64 {
    let squares: f64 = values.iter().map(|x| x * x).sum();
    let products: f64 = values.iter().zip(values.iter().skip(1)).map(|(x, y)| x * y).sum();
    if squares > 0.0 { products / squares } else { 0.0 }
}

/// The innovations; the first is scaled as if the series had run for ever.
pub(super) fn whiten(values: &[f64], memory: f64) -> Vec<f64> {
    let first = values.first().map(|x| x * innovation_sd(memory));
    let rest = values.iter().zip(values.iter().skip(1)).map(|(previous, x)| x - memory * previous);
    first.into_iter().chain(rest).collect()
}

/// An innovation's standard deviation over the series'.
pub(super) fn innovation_sd(memory: f64) -> f64 {
    (1.0 - memory * memory).sqrt()
}

/// The length of the permuted blocks: 1 if no dependence is left, otherwise the length that suits an autoregressive series best
/// (Carlstein, Annals of Statistics 14, 1986): `n^(1/3) (2 r / (1 - r^2))^(2/3)`, at most a quarter of the series.
fn block_length(innovations: &[f64]) -> usize {
    let (n, r) = (innovations.len() as f64, lag_one(innovations));
    if r * n.sqrt() <= DEPENDENT {
        return 1;
    }
    let ratio = 2.0 * r / (1.0 - r * r).max(1.0 - MAX_MEMORY);
    (libm::cbrt(n * ratio * ratio).ceil() as usize).clamp(1, innovations.len() / 4)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Series without a change, drawn one after the other.
///
/// The draws are defined to the bit: ChaCha8 under the seed and the stream of the segment, indices as in [`bootstrap`]. A
/// permutation is Fisher and Yates' from the last index down. Blocks begin at a drawn index, taking the series as a ring.
pub(super) struct Surrogates<'a> {
    noise: &'a Noise,
    rng: ChaCha8Rng,
    order: Vec<u32>,
    series: Vec<f64>,
}

impl<'a> Surrogates<'a> {
    pub(super) fn new(noise: &'a Noise, seed: [u8; 32], stream: u64) -> Self {
        let mut rng = ChaCha8Rng::from_seed(seed);
        rng.set_stream(stream);
        let blocks = noise.innovations.len().div_ceil(noise.block.max(1)) as u32;
        Self { noise, rng, order: (0..blocks).collect(), series: Vec::with_capacity(noise.innovations.len()) }
    }

    /// Draws the next surrogate.
    pub(super) fn draw(&mut self) -> &[f64] {
        let n = self.noise.innovations.len();
        let turn = if self.noise.block > 1 { bootstrap::index_below(&mut self.rng, n as u32) as usize } else { 0 };
        for last in (1..self.order.len()).rev() {
            let other = bootstrap::index_below(&mut self.rng, last as u32 + 1);
            self.order.swap(last, other as usize);
        }
        self.colour(turn);
        &self.series
    }

    fn colour(&mut self, turn: usize) {
        let (block, memory) = (self.noise.block, self.noise.memory);
        let innovations = &self.noise.innovations;
        let n = innovations.len();
        self.series.clear();
        let mut previous = None;
        for &number in &self.order {
            let start = number as usize * block;
            for place in start..(start + block).min(n) {
                let innovation = innovations.get((place + turn) % n).copied().unwrap_or_default();
                let value = previous.map_or(innovation / innovation_sd(memory), |previous| memory * previous + innovation);
                self.series.push(value);
                previous = Some(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(values: &[f64]) -> Vec<f64> {
        let mut values = values.to_vec();
        values.sort_unstable_by(f64::total_cmp);
        values
    }

    #[test]
    fn without_memory_a_surrogate_is_a_permutation() {
        let values: Vec<f64> = [3.0, -1.0, 2.0, -2.0, 1.0, -3.0, 2.0, -2.0].to_vec();
        let noise = Noise { memory: 0.0, block: 1, innovations: values.clone() };
        let mut surrogates = Surrogates::new(&noise, [1; 32], 0);
        let (first, second) = (surrogates.draw().to_vec(), surrogates.draw().to_vec());
        assert_ne!(first, second);
        assert_eq!((sorted(&first), sorted(&second)), (sorted(&values), sorted(&values)));
    }

    #[test]
    fn blocks_keep_neighbours_together_and_lose_no_value() {
        let values: Vec<f64> = (0..20_u32).map(f64::from).collect();
        let noise = Noise { memory: 0.0, block: 5, innovations: values.clone() };
        let drawn = Surrogates::new(&noise, [1; 32], 0).draw().to_vec();
        assert_eq!(sorted(&drawn), values);
        let together = drawn.windows(2).filter(|pair| ((pair[0] + 1.0) % 20.0 - pair[1]).abs() < 0.5).count();
        assert!(together >= 16, "{drawn:?}");
    }

    #[test]
    fn whitening_and_colouring_undo_each_other() {
        let values = [1.0, 0.5, -0.25, 2.0, 1.0, -1.0];
        let noise = Noise { memory: 0.6, block: 1, innovations: whiten(&values, 0.6) };
        let mut surrogates = Surrogates::new(&noise, [1; 32], 0);
        surrogates.colour(0);
        assert!(surrogates.series.iter().zip(values).all(|(a, b)| (a - b).abs() < 1e-12));
    }

    #[test]
    fn a_step_is_not_memory() {
        let values: Vec<f64> =
            (0..60_u32).map(|i| f64::from((i * i * 31 + i * 17) % 97 % 5) + if i < 30 { 0.0 } else { 100.0 }).collect();
        assert!(autocorrelation(&values) < 0.2);
        let up_and_down: Vec<f64> = values.iter().chain(&values[..30]).copied().collect();
        assert!(autocorrelation(&up_and_down) < 0.2);
        let ramp: Vec<f64> = (0..60_u32).map(f64::from).collect();
        assert!(autocorrelation(&ramp) > 0.8);
    }

    #[test]
    fn constant_values_have_no_memory() {
        assert_eq!(lag_one(&[0.0; 8]).to_bits(), 0.0_f64.to_bits());
        assert_eq!(block_length(&[0.0; 8]), 1);
    }
}
