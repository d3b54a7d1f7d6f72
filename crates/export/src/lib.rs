//! The results of a run as the files of other tools.
//!
//! An [`ExportFormat`] is one module of `formats`: a pure function from an [`ExportedRun`] to files, and a table of the format's fields that
//! says which of them are written, from what, and which are left out, with the reason. Help, reference page and tests derive from the tables.
//!
//! A field is written if Assay has it by the definition of the tool. The records of requests hold every instant, so that most latencies can be
//! computed as the tool computes them; the table states where the instants of the two differ. No I/O: callers load the records and write the files.

mod error;
mod format;
mod formats;
mod measured;
mod names;
mod output;
mod page;
mod registry;
mod run;
mod statistics;

#[cfg(test)]
mod example;
#[cfg(test)]
mod tests;

pub use error::ExportError;
pub use format::{Content, ExportField, ExportFormat, Needs};
pub use output::{ExportSink, LoadRequests};
pub use page::exports_page;
pub use registry::EXPORT_FORMATS;
pub use run::{
    ExportedArrival, ExportedExecution, ExportedInput, ExportedLoad, ExportedRun, ExportedScript, ExportedServing, ExportedTable,
    ExportedTrial, ExportedValue, InputKind, MAX_EXPORTED_OUTPUT, MAX_EXPORTED_REQUESTS, MissingTrial,
};
