//! Calibration: the load that one load generator process makes on this machine, and how exactly it measures it.
//!
//! Ordinary runs put load on a simulator that reports the true times of each request. Their records and its report give the figures of
//! each load, purely, so that a reader can compute them again; a signed document of the kind `calibration` holds them. `assay` parses
//! arguments, makes the runs and prints.

mod check;
mod figures;
mod ladder;
mod level;
mod machine;
mod pointers;
mod simulator;
mod truth;

pub use check::{VerifiedCalibration, verify_calibration};
pub use figures::LIMITS;
pub use ladder::{Ladder, LoadStep, Pace, definitions};
pub use level::MeasuredLevels;
pub use machine::machine_facts;
pub use pointers::{find, sign};
pub use simulator::RunningSimulator;
pub use truth::{TrueRequest, Truth};
