//! The history of a metric from run to run and the changes of its level, for people and machines: one [`Report`], rendered for the
//! terminal, as an issue and as a page, and each [`Series`] as a document.
//!
//! The result comes first: the level moved, by how much and with which run; or it did not move; or the reason why it was not searched.
//! A history decides nothing, because the machine may have changed between two days: if it did, every rendering says so beside the
//! change. Names come from pull requests, so every rendering escapes them. This module searches for no changes, and reads no file and
//! no clock: renderings of equal inputs have equal bytes.

mod document;
#[cfg(test)]
mod fixture;
mod html;
mod markdown;
mod model;
mod phrases;
mod terminal;
#[cfg(test)]
mod tests;

pub use model::{AmbiguousStretch, Change, Inputs, Report, Run, Series, Subject};
