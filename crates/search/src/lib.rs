//! The search for the most load that meets SLOs, and for the loads between an idle endpoint and its limit.
//!
//! A search is a sequence of rounds. [`next_step`] is a pure function of the rule and of all that was observed so far: it names
//! the loads of the next round, or the end. So the observations alone prove the course of a search, and the same ones give the same
//! end on every machine.
//!
//! What is published is never measured by the search: its end is a [`Bracket`], whose [`grid`](Bracket::grid) of loads is measured
//! afterwards, in trials, and the most load within the SLOs is computed from those: by [`case_loads`] from the points of a Summary, for every
//! run whose points are loads.

#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_methods,
        reason = "the platform's libm differs in the last bit: a search is the same on every machine"
    )
)]

use assay_manifest::LoadKind;

mod case;
mod crossing;
mod curve;
mod landmarks;
mod monotone;
mod queue;
mod result;
mod step;

pub use case::{CaseLoads, CaseTrial, GOOD_FRACTION, case_loads, load_of};
pub use crossing::{Censored, Crossing, MaxLoad, crossing, max_load};
pub use curve::curve;
pub use landmarks::{Landmarks, MIN_LANDMARK_LOADS, landmarks};
pub use queue::{AllowedLatencies, Queue};
pub use result::{ReplayFault, SearchConclusion, WorkloadMismatch, check_workload, conclude, parse_load, question, replay};
pub use step::{Bracket, ClosedLoopEnd, MAX_ERROR_RATE, MAX_ROUNDS, SATURATED, Step, closed_loop_end, next_step};

/// The requests that have to be within every SLO, of how many: 99 of 100, everywhere in Assay.
pub const GOOD_OF: [u32; 2] = [99, 100];

/// The share of the requests that have to be within every SLO: that of a report's `met`.
pub const DEFAULT_SHARE: f64 = GOOD_OF[0] as f64 / GOOD_OF[1] as f64;

/// The fewest requests of a trial at a load that decide if it meets the SLOs: of fewer, 99 of 100 are all of them.
pub const MIN_REQUESTS: u64 = GOOD_OF[1] as u64;

/// The most requests in flight of a closed loop that a search may be allowed.
pub const MAX_CONCURRENCY: u32 = 1_000_000;

/// The purpose of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The highest rate of independent arrivals that meets the SLOs.
    MaxRate,
    /// The most requests in flight of a closed loop that meet the SLOs.
    MaxConcurrency,
    /// The loads from one request in flight to as many as bring no more throughput.
    Sweep,
}

/// A search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// The purpose.
    pub goal: Goal,
    /// The share of the requests that have to be within every SLO, above 0 and at most 1.
    pub share: f64,
    /// The width of the bracket at which the search ends, as a share of its lower end.
    pub precision: f64,
    /// The most requests in flight of a closed loop.
    pub max_concurrency: u32,
}

impl Rule {
    /// Returns true for a rule that a search can have. One from a document may be any.
    pub(crate) fn is_possible(&self) -> bool {
        let is_share = |number: f64| number > 0.0 && number <= 1.0;
        is_share(self.share) && is_share(self.precision) && (1..=MAX_CONCURRENCY).contains(&self.max_concurrency)
    }

    /// Returns a search with the defaults: [`DEFAULT_SHARE`], a bracket of 5 %, and at most 1,024 requests in flight.
    pub fn new(goal: Goal) -> Self {
        Self { goal, share: DEFAULT_SHARE, precision: 0.05, max_concurrency: 1_024 }
    }
}

/// A load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// A number of requests in flight, each followed by the next one.
    Concurrency(u32),
    /// Arrivals per second, independent of completions.
    Rate(f64),
}

impl Load {
    /// Returns the number of requests in flight, or of arrivals per second.
    pub fn amount(self) -> f64 {
        match self {
            Self::Concurrency(clients) => f64::from(clients),
            Self::Rate(per_s) => per_s,
        }
    }

    /// Returns the kind of the load: a number of requests in flight, or a rate.
    pub fn kind(self) -> LoadKind {
        match self {
            Self::Concurrency(_) => LoadKind::Concurrency,
            Self::Rate(_) => LoadKind::Rate,
        }
    }
}

/// The observation of one load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// The load.
    pub load: Load,
    /// The requests that count.
    pub requests: u64,
    /// The share of them that failed, from 0 to 1.
    pub error_rate: f64,
    /// Responses per second.
    pub requests_per_s: f64,
    /// The mean time of a request from its start to its end, in seconds.
    pub mean_latency_s: f64,
    /// The share of the requests that were within every SLO, from 0 to 1; absent without SLOs.
    pub good_fraction: Option<f64>,
    /// True if the trial ended early because requests arrived faster than they were served: it has no numbers, and its share counts as 0.
    pub over_saturated: bool,
}

impl Observation {
    /// Returns the mean number of requests in flight by Little's law, throughput times time (Little, "A proof for the queuing formula
    /// L = lambda W", Operations Research 9, 1961). In a closed loop that was measured for long enough it is the concurrency.
    pub fn in_flight(&self) -> f64 {
        self.requests_per_s * self.mean_latency_s
    }

    /// Returns the number of requests in flight by Little's law over that of the closed loop, minus 1; `None` for a rate. Far from 0,
    /// the loop was not measured for long enough, or the client could not keep it full.
    pub fn deviation_from_littles_law(&self) -> Option<f64> {
        match self.load {
            Load::Concurrency(clients) => Some(self.in_flight() / f64::from(clients.max(1)) - 1.0),
            Load::Rate(_) => None,
        }
    }
}
