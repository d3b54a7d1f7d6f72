//! Results of other tools, read as rows.
//!
//! A [`ResultFormat`] is one module of `formats`: a table of the files that a tool writes, and of the metric, unit and definition of each of
//! their fields. One reader reads all tables. A metric that is defined as Assay defines it has Assay's name; any other has the prefix of its
//! tool, so that numbers of different definitions never share a name.
//!
//! No I/O: callers pass in bytes. Nothing is guessed: a field that no table has is counted as not read, and a number that is none, or has an
//! unknown unit, is an error that names it.

mod contradictions;
mod credential;
mod direction;
mod document;
mod error;
mod format;
mod formats;
mod left_out;
mod members;
mod not_read;
mod page;
mod path;
mod read;
mod registry;
mod rows;
mod statistic;
mod tell_apart;

#[cfg(test)]
mod tests;

pub use credential::{credential_in_words, names_authentication};
pub(crate) use credential::{find as find_credential, find_in_text as find_credential_in_text, is_placeholder};
pub use direction::{better_direction_of, is_level, part_holds_numbers};
pub use error::ResultsError;
pub use format::{Relation, ResultExample, ResultField, ResultFormat};
pub use page::results_page;
pub use read::{FilePart, MAX_RESULT_BYTES, MAX_RESULT_FILES, ResultFile, Results, read_results};
pub use registry::{RESULT_FORMATS, field_of_metric};
