//! The results of a run for people: one [`Report`], rendered for the terminal, as Markdown and as an HTML page.
//!
//! The reader has one minute and a doubt. Every rendering gives the result first, with its uncertainty and the way to the evidence:
//! sentence, state, picture, table, lineage, fine print. Strings in, strings out: this crate reads no file, and renderings of equal
//! inputs have equal bytes.

mod environment;
mod fine_print;
pub mod gate;
pub mod history;
mod html;
mod inputs;
mod lineage;
mod markdown;
mod model;
mod number;
mod remark;
mod serving;
mod strip;
pub mod terminal;
mod text;
mod unit;

pub use assay_manifest::Address;
pub use inputs::{ChainSignature, Inputs, Verification};
pub use lineage::shell_word;
pub use markdown::escape as escape_markdown;
pub use model::{Report, commonest_reason, describe_none_counted};
pub use number::{bytes, duration, percent, probability, significant};
pub use text::counted;

#[cfg(test)]
mod fixture;
