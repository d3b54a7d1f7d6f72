//! Slowdowns of an engine by a factor: slow requests, and a co-tenant that is present at times.

use crate::draw::{Concern, RequestKey, Seed};

/// Requests whose times are all longer by a factor.
///
/// A share of 1 makes the whole engine slower, a small one only its tail.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowRequests {
    /// The factor of their times; at least 1.
    pub factor: f64,
    /// The share of requests that are slow, from 0 to 1, drawn for each.
    pub share: f64,
}

impl SlowRequests {
    /// Returns a setting in which no request is slow.
    pub fn none() -> Self {
        Self { factor: 1.0, share: 1.0 }
    }

    pub(super) fn factor_for(self, key: RequestKey) -> f64 {
        if key.unit(Concern::Slow, 0) < self.share { self.factor } else { 1.0 }
    }
}

/// Another tenant that uses a part of the machine at times: then everything takes longer by a factor.
///
/// Time since the start is cut into episodes of equal length, and the seed decides in which of them the co-tenant is present. So
/// a run within one episode is either slow or not as a whole, and a long one has its share of both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoTenant {
    /// The factor of all times while it is present; at least 1.
    pub factor: f64,
    /// The share of episodes in which it is present, from 0 to 1.
    pub share: f64,
    /// The length of an episode, in nanoseconds.
    pub episode_ns: i64,
}

impl CoTenant {
    /// Returns a setting without a co-tenant.
    pub fn none() -> Self {
        Self { factor: 1.0, share: 0.5, episode_ns: 10_000_000_000 }
    }
}

/// The co-tenant of one engine, whose episodes are drawn by that engine's seed.
pub(super) struct Episodes {
    of: CoTenant,
    key: RequestKey,
    /// The start of the first episode.
    started_ns: i64,
}

impl Episodes {
    pub(super) fn new(of: CoTenant, seed: &Seed) -> Self {
        Self { of, key: RequestKey::from_seed(seed), started_ns: 0 }
    }

    pub(super) fn start(&mut self, at_ns: i64) {
        self.started_ns = at_ns;
    }

    pub(super) fn factor_at(&self, now_ns: i64) -> f64 {
        let episode = now_ns.saturating_sub(self.started_ns).div_euclid(self.of.episode_ns.max(1));
        if self.key.unit(Concern::CoTenant, episode as u64) < self.of.share { self.of.factor } else { 1.0 }
    }
}
