//! The report of a verdict, for people and machines: one [`Report`], rendered for the terminal, as a pull request's comment, as a
//! page, as JUnit XML and as a check run.
//!
//! The outcome comes first, with what decided it and with the smallest detectable change: without that, "unchanged" says nothing.
//! "Inconclusive" is a result, and the report names what it takes to decide. Names, reasons and paths come from pull requests, so
//! every rendering escapes them. This module reads no file and no clock: renderings of equal inputs have equal bytes.

mod check_run;
#[cfg(test)]
mod fixture;
mod html;
mod inputs;
mod junit;
mod markdown;
mod model;
mod terminal;
#[cfg(test)]
mod tests;

pub use inputs::{EarlierVerdict, Inputs, Why};
pub use model::{Magnitude, Report};
