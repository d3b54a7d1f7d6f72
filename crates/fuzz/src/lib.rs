//! Fuzz targets: every parser of Assay that reads bytes from elsewhere, as a function of bytes that must return.
//!
//! `ci/fuzz` runs libFuzzer over them, guided by coverage, and keeps the inputs that reached new code in `corpus/TARGET.jsonl`: one
//! input a line, as a JSON string of base64, so that a diff shows them. The test of this crate replays all of them.
//!
//! A target checks what its parser promises in addition to returning: what it accepts, it writes and reads again, or it finds what a simple
//! reader of the same bytes finds.

mod corpus;
mod simple;
mod targets;

pub use corpus::{Corpus, CorpusError};
pub use targets::{TARGETS, Target, target};
