//! The results of a run for people: one [`Report`], rendered for the terminal, as Markdown and as an HTML page.
//!
//! The reader has one minute and a doubt. Every rendering gives the result first, with its uncertainty and the way to the evidence:
//! sentence, state, picture, table, lineage, fine print. Strings in, strings out: this crate reads no file, and renderings of equal
//! inputs have equal bytes.

pub mod comparison;
mod evidence;
mod foreign;
pub mod gate;
pub mod history;
pub mod ranking;
mod render;
mod run;

pub use assay_manifest::Address;
pub use evidence::ChainSignature;
pub use foreign::ForeignReport;
pub use render::command::shell_word;
pub use render::markdown::escape as escape_markdown;
pub use render::number::{bytes, duration, level, percent, probability, significant};
pub use render::text::{counted, short_commit};
pub use run::{
    Headline, Inputs, Report, Verification, commonest_reason, describe_missing_value, describe_none_counted, describe_rows,
    is_over_saturated, landmarks_of, lasting_reason, searched_observation,
};
