//! Definitions of other tools, and the workloads and pipelines that say the same; and results of other tools, as rows.
//!
//! A [`Format`] is one module of `formats`: it recognises a file or a command line, reads it, and maps each of its fields by a table. Each
//! field that is given becomes a [`Row`], so that nothing is left out silently, and the values of fields that Assay does not know are
//! neither copied nor shown, because any of them may be a credential.
//!
//! A [`ResultFormat`] is one module of `results::formats`.
//!
//! No I/O: callers pass in bytes or words, and write the files of an [`Import`] themselves.

mod client;
mod command;
mod contract;
mod definition;
mod document;
mod draft;
mod endpoint;
mod extra_body;
mod failed;
mod format;
mod formats;
mod genai;
pub mod harness;
mod import;
mod load;
mod loadgen;
mod mapping;
mod note;
mod reference;
mod registry;
mod repeated_key;
mod results;
mod row;
mod value;
mod yaml;

#[cfg(test)]
mod tests;

pub use definition::{ImportOptions, ImportedFile};
pub use format::{Example, ExampleInput, Format, Source};
pub use import::{Import, ImportError, ImportedPipeline, VERSION, import, recognise};
pub use reference::reference_page;
pub use registry::FORMATS;
pub use results::{
    FilePart, MAX_RESULT_BYTES, MAX_RESULT_FILES, RESULT_FORMATS, Relation, ResultExample, ResultField, ResultFile, ResultFormat,
    Results, ResultsError, better_direction_of, credential_in_words, field_of_metric, is_level, names_authentication,
    part_holds_numbers, read_results, results_page,
};
pub use row::{Outcome, Row};
