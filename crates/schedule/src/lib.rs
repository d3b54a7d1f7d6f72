//! What is random in a run, and yet the same for everyone: in which order trials run, and the draws that a load is made from.
//!
//! Everything here is pure. A [`Seed`] and a path of words key a [`Generator`], which gives a value at every index, whoever
//! asks and in whatever order. [`order_trials`] turns cases into an interleaved sequence of trials with it.

mod generator;
mod order;
mod seed;

pub use generator::{Generator, LoadKey};
pub use order::{MAX_TRIALS, OrderError, OrderRules, Role, order_digest, order_seed, order_trials};
pub use seed::{Seed, SeedError};
