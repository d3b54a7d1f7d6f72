//! What is random in a run, and yet the same for everyone: in which order trials run, and the draws that a load is made from.
//!
//! Everything here is pure. A [`Seed`] and a path of words key a [`Generator`], which gives a value at every index, whoever
//! asks and in whatever order. [`order_trials`] turns cases into an interleaved sequence of trials with it, and [`TrialSchedule`]
//! says what each request of a serving trial is: when it is due, how long, and from which seed its prompt is made.

use std::time::Duration;

mod arrivals;
mod digest;
mod generator;
mod lengths;
mod order;
mod recipe;
mod seed;
mod trial;

/// How long requests may take to end after the measured phase, at most.
pub const DRAIN: Duration = Duration::from_secs(30);

pub use arrivals::{MAX_RATE_PER_S, MAX_SMOOTHNESS, MIN_RATE_PER_S, MIN_SMOOTHNESS};
pub use digest::{DIGEST_FORMAT, OPEN_LENGTH_INDICES};
pub use generator::{GENERATOR_FORMAT, Generator, LoadKey, Nonce};
pub use lengths::MAX_TOKENS;
pub use order::{MAX_TRIALS, OrderError, OrderRules, Role, drawn_seed, order_digest, order_seed, order_trials};
pub use recipe::load_recipe_digest;
pub use seed::{Seed, SeedError};
pub use trial::{
    MAX_REQUESTS, MAX_TRIAL_NS, Offered, Phase, PointKey, Requests, ScheduleError, ScheduledRequest, Stripe, TrialKey,
    TrialSchedule,
};
