//! Seeded series with a known truth.

use assay_stats::normal;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// The distribution of an unchanged series; all but the lognormal have a standard deviation of 2 (t: a scale of 2) around 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noise {
    /// Independent and normal.
    Normal,
    /// Independent, the exponential of a normal with standard deviation 0.05.
    Lognormal,
    /// Independent, Student's t with 3 degrees of freedom: heavy tails.
    Student3,
    /// Autoregressive of order 1, phi 0.3.
    Ar3,
    /// Autoregressive of order 1, phi 0.6.
    Ar6,
}

impl Noise {
    pub(crate) const ALL: [Self; 5] = [Self::Normal, Self::Lognormal, Self::Student3, Self::Ar3, Self::Ar6];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Lognormal => "lognormal 0.05",
            Self::Student3 => "Student t, 3 df",
            Self::Ar3 => "AR(1) 0.3",
            Self::Ar6 => "AR(1) 0.6",
        }
    }
}

/// A stream of random numbers.
pub(crate) struct Generator(ChaCha8Rng);

impl Generator {
    /// The stream of one series.
    pub(crate) fn new(number: u64) -> Self {
        let mut rng = ChaCha8Rng::from_seed([11; 32]);
        rng.set_stream(number);
        Self(rng)
    }

    /// Returns `n` values without a change.
    pub(crate) fn series(&mut self, noise: Noise, n: usize) -> Vec<f64> {
        match noise {
            Noise::Normal => self.autoregressive(n, 0.0),
            Noise::Lognormal => (0..n).map(|_| 100.0 * libm::exp(0.05 * self.normal())).collect(),
            Noise::Student3 => (0..n).map(|_| 100.0 + 2.0 * self.student3()).collect(),
            Noise::Ar3 => self.autoregressive(n, 0.3),
            Noise::Ar6 => self.autoregressive(n, 0.6),
        }
    }

    /// Returns `n` values with one step of `step` standard deviations, and its index, drawn from the middle 60 %.
    pub(crate) fn stepped(&mut self, noise: Noise, n: usize, step: f64) -> (Vec<f64>, usize) {
        let at = n / 5 + self.below(n * 3 / 5 + 1);
        let mut values = self.series(noise, n);
        for value in values.iter_mut().skip(at) {
            *value += 2.0 * step;
        }
        (values, at)
    }

    /// Returns `n` values without a change, autoregressive of order 1.
    pub(crate) fn autoregressive(&mut self, n: usize, phi: f64) -> Vec<f64> {
        let spread = (1.0 - phi * phi).sqrt();
        let mut state = self.normal();
        let mut next = || {
            let value = 100.0 + 2.0 * state;
            state = phi * state + spread * self.normal();
            value
        };
        (0..n).map(|_| next()).collect()
    }

    fn normal(&mut self) -> f64 {
        normal::quantile((f64::from(self.0.next_u32()) + 0.5) / 4_294_967_296.0)
    }

    fn student3(&mut self) -> f64 {
        let squares: f64 = (0..3).map(|_| self.normal()).map(|z| z * z).sum();
        self.normal() / (squares / 3.0).sqrt()
    }

    fn below(&mut self, n: usize) -> usize {
        ((u64::from(self.0.next_u32()) * n as u64) >> 32) as usize
    }
}
