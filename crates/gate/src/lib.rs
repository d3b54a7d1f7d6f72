//! Gates: whether a candidate got worse, with known error rates.
//!
//! Everything here is pure: a verdict is a function of what it names, so whoever has that can make it again, to the byte.
//! [`rule`] holds the statistics of one family of metrics, [`stretch`] whether pairs of it remember those before them, [`sizing`] how many pairs it takes, [`learning`] what earlier runs teach, [`evidence`] what a run's signed manifests
//! have of both sides, [`sides`] whether these differ in more than what is compared, `checks` what one run can break by itself, [`history`] how a run lies to those before it, and [`verdict`] puts them together.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_methods, reason = "the platform's libm differs in the last bit: use the crate `libm`")
)]

mod checks;
mod curves;
pub mod evidence;
mod executed;
pub mod history;
pub mod learning;
pub mod rule;
pub mod sides;
pub mod sizing;
pub mod stretch;
pub mod verdict;

pub use evidence::{Run, pair_unit};
pub use executed::unpinned;
pub use learning::{History, Taught, learn};
pub use sides::{Schedules, between_runs, confounded, differences};
pub use sizing::{CannotDecide, Design, Size, design, size};
pub use verdict::{CONTRACT, Question, Refusal, judge};
