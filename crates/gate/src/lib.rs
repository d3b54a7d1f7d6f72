//! Gates: decide whether a candidate got worse, with known error rates; `assay-gating` gathers the evidence and replays verdicts.
//!
//! Everything here is pure: a verdict is a function of the evidence that it names, so a reader who has that evidence can compute
//! it again, to the byte. [`rule`] holds the statistics of one family of metrics, [`stretch`] tests whether its pairs are
//! autocorrelated, [`sizing`] gives the number of pairs that it needs, [`learning`] learns noise from earlier runs, [`evidence`]
//! reads both sides from a run's signed manifests, `max_loads` pairs the most load within the SLOs of both, [`sides`] finds differences of the sides other than the variable under test,
//! `checks` holds the rules that a single run can break, [`history`] compares a run with those before it, and [`verdict`]
//! combines them. [`foreign`] judges results of other tools.

#![cfg_attr(
    not(test),
    deny(clippy::disallowed_methods, reason = "the platform's libm differs in the last bit: use the crate `libm`")
)]

mod checks;
mod curves;
pub mod evidence;
mod executables;
pub mod foreign;
pub mod history;
mod input;
pub mod learning;
mod max_loads;
pub mod rule;
pub mod sides;
pub mod sizing;
pub mod stretch;
pub mod verdict;

pub use evidence::{MetricKey, Run, WITHIN_RUN, pair_unit};
pub use executables::{describe_replaced, unpinned};
pub use input::GateInput;
pub use learning::{History, learn};
pub use sides::{Schedules, differences, differences_between_runs, find_confounding};
pub use sizing::{DesignPower, Size, SizingError, assess_design, size};
pub use verdict::{CONTRACT, Refusal, judge};
