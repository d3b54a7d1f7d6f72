//! The randomness of a run, reproducible by every reader: the order in which trials run, and the draws that make a load.
//!
//! Everything here is pure. A [`Seed`] and a path of words key a [`Generator`], whose value at an index depends neither on the
//! caller nor on the order of calls. [`order_trials`] uses it to turn cases into an interleaved sequence of trials, and
//! [`TrialSchedule`] holds each request of a serving trial: when it is due, how long it is, and from which seed its prompt is
//! made.

use std::time::Duration;

mod adapters;
mod arrivals;
mod block_texts;
mod digest;
mod generator;
mod groups;
mod lengths;
mod order;
mod profile;
mod recipe;
mod requested;
mod reuse;
mod rows;
mod seed;
mod sessions;
mod trial;
mod users;

/// The longest time that requests may take to end after a measured phase of a given duration.
const DRAIN: Duration = Duration::from_secs(30);

/// Returns the time that requests may take to end after the measured phase. One of a given duration would otherwise last as long as its slowest
/// response; a number of requests is measured whole, so that each may take its timeout.
pub fn drain_time(duration: Option<Duration>, timeout: Duration) -> Duration {
    duration.map_or(timeout, |_| DRAIN.min(timeout))
}

pub use arrivals::{MAX_RATE_PER_S, MAX_SMOOTHNESS, MAX_SPEED, MIN_RATE_PER_S, MIN_SMOOTHNESS, MIN_SPEED};
pub use block_texts::{BlockTexts, seed_of_pass};
pub use digest::{DIGEST_FORMAT, OPEN_LENGTH_INDICES};
pub use generator::{GENERATOR_FORMAT, Generator, LoadKey, Nonce};
pub use groups::{MAX_GROUPS, MAX_ZIPF};
pub use lengths::{MAX_TOKENS, MAX_WEIGHTS, length_range};
pub use order::{ComparisonRole, MAX_TRIALS, OrderError, OrderRules, draw_seed, order_digest, order_seed, order_trials};
pub use recipe::load_recipe_digest;
pub use requested::{point_load, requested_load};
pub use reuse::{PrefixReuse, tokens_in_blocks};
pub use seed::{Seed, SeedError};
pub use sessions::{Beginning, Follower, MAX_PAUSE_NS, Markers, SessionCursor, SessionTurn};
pub use trial::{
    MAX_REQUESTS, MAX_TRIAL_NS, OfferedLoad, Phase, PointKey, Requests, ScheduleError, ScheduledRequest, Stripe, TrialKey,
    TrialSchedule, check_connections, check_replay, request_limit,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_requests_is_measured_whole() {
        let seconds = Duration::from_secs;
        assert_eq!(drain_time(None, seconds(300)), seconds(300));
        assert_eq!(drain_time(Some(seconds(60)), seconds(300)), seconds(30));
        assert_eq!(drain_time(Some(seconds(60)), seconds(5)), seconds(5));
    }
}
