//! All randomness: draws keyed by a seed and a purpose, so that no draw depends on how many others were made.

use assay_simulator::{Concern, RequestKey, Seed};

/// A stream of draws.
#[derive(Clone, Debug)]
pub(crate) struct Draws {
    key: RequestKey,
    index: u64,
}

impl Draws {
    /// Returns the draws for a purpose under a seed.
    pub(crate) fn new(seed: &Seed, purpose: &str) -> Self {
        Self { key: RequestKey::from_id(seed, purpose), index: 0 }
    }

    fn next(&mut self) -> u64 {
        self.index += 1;
        self.index
    }

    /// Draws a value in `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f64 {
        let index = self.next();
        self.key.unit(Concern::Length, index)
    }

    /// Draws true with this probability.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Draws a value between two bounds, each equally likely.
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Draws a value between two positive bounds, each order of magnitude equally likely.
    pub(crate) fn log_between(&mut self, low: f64, high: f64) -> f64 {
        low * libm::exp(libm::log(high / low) * self.unit())
    }

    /// Draws a number below a bound.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        let index = self.next();
        self.key.below(Concern::Length, index, bound)
    }

    /// Draws one of several values.
    pub(crate) fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u32) as usize]
    }

    /// Draws a standard normal value.
    pub(crate) fn normal(&mut self) -> f64 {
        // Its own concern: a normal value takes two draws of a key.
        let index = self.next();
        self.key.normal(Concern::Ttft, index)
    }

    /// Draws a factor whose logarithm is normal around 0.
    pub(crate) fn lognormal(&mut self, sigma: f64) -> f64 {
        libm::exp(sigma * self.normal())
    }

    /// Draws a span of time until the next of events that come independently, in the unit of the mean.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log(1.0 - self.unit())
    }

    /// Draws the number of events of a mean number: Knuth's product for few, and the normal approximation for many.
    pub(crate) fn poisson(&mut self, mean: f64) -> u64 {
        if mean > 30.0 {
            return libm::round((mean + libm::sqrt(mean) * self.normal()).max(0.0)) as u64;
        }
        let (limit, mut product, mut count) = (libm::exp(-mean), self.unit(), 0);
        while product > limit {
            product *= self.unit();
            count += 1;
        }
        count
    }
}

impl Draws {
    /// Returns draws for a part of the purpose.
    pub(crate) fn fork(&self, part: &str) -> Self {
        let index = self.key.bits(Concern::Word, 0);
        Self::new(&Seed::default().mixed_with(&format!("{index:x}")), part)
    }
}
