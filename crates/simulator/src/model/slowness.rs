//! What makes an engine slower by a factor: requests that are slow in themselves, and a co-tenant who comes and goes.

use crate::draw::{Concern, RequestKey, Seed};

/// Requests of which every time is longer by a factor.
///
/// A share of 1 makes the whole engine slower, a small one its tail alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowRequests {
    /// What their times are multiplied by; at least 1.
    pub factor: f64,
    /// The share of requests that are slow, from 0 to 1, drawn for each.
    pub share: f64,
}

impl SlowRequests {
    /// No request is slow.
    pub fn none() -> Self {
        Self { factor: 1.0, share: 1.0 }
    }

    pub(super) fn factor_of(self, key: RequestKey) -> f64 {
        if key.unit(Concern::Slow, 0) < self.share { self.factor } else { 1.0 }
    }
}

/// Somebody else who takes a part of the machine at times: then everything takes longer by a factor.
///
/// Time since the start is cut into episodes of one length, and the seed says in which of them the co-tenant is there. So a run
/// within one episode is slow or not as a whole, and a long one has its share of both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoTenant {
    /// What times are multiplied by while it is there; at least 1.
    pub factor: f64,
    /// The share of episodes in which it is, from 0 to 1.
    pub share: f64,
    /// The length of an episode, in nanoseconds.
    pub episode_ns: i64,
}

impl CoTenant {
    /// The machine is the engine's own.
    pub fn none() -> Self {
        Self { factor: 1.0, share: 0.5, episode_ns: 10_000_000_000 }
    }
}

/// The co-tenant of one engine: which episodes it takes is drawn by that engine's seed.
pub(super) struct Episodes {
    of: CoTenant,
    key: RequestKey,
    /// Where the first one begins.
    started_ns: i64,
}

impl Episodes {
    pub(super) fn new(of: CoTenant, seed: &Seed) -> Self {
        Self { of, key: RequestKey::of_seed(seed), started_ns: 0 }
    }

    pub(super) fn start(&mut self, at_ns: i64) {
        self.started_ns = at_ns;
    }

    pub(super) fn factor_at(&self, now_ns: i64) -> f64 {
        let episode = now_ns.saturating_sub(self.started_ns).div_euclid(self.of.episode_ns.max(1));
        if self.key.unit(Concern::CoTenant, episode as u64) < self.of.share { self.of.factor } else { 1.0 }
    }
}
