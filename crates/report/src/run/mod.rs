//! The report of a run: one [`Report`], rendered for the terminal, as Markdown and as an HTML page. The model holds all content; the
//! renderings only lay it out.

#[cfg(test)]
pub(crate) mod fixture;
mod html;
mod inputs;
mod markdown;
mod model;
mod terminal;

pub use inputs::{Inputs, Verification};
pub use model::Report;
pub use model::across_loads::{is_over_saturated, landmarks_of, searched_observation};
pub use model::exclusions::{commonest_reason, describe_missing_value, describe_none_counted, lasting_reason};
pub use model::headline::Headline;
pub use model::work::describe_rows;
