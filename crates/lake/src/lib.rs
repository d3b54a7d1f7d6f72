//! The warehouse: curated files as Delta Lake tables in the artifact store, and SQL over them.
//!
//! The only crate that depends on Delta, which stays behind its own types: callers see runs, files, versions and results. SQL is
//! executed by a separate program, `assay-sql`, the only one that links DataFusion ([`wire`] is the protocol between them).
//!
//! * A [`Lake`] is the twelve tables under `warehouse/` of a store. [`commit_run`] adds a run's curated files to them: dimensions
//!   first, outcomes next, `benchmark_run_fact` last. A run is visible once that row is there.
//! * A [`Reading`] is the input of a query: the files of a pinned [`Snapshot`], or one run's files before they are committed.
//!   Every file was hashed on its way into private scratch, so that no parser reads bytes that differ from their name.
//! * A [`Query`] is one checked `SELECT`, and a [`ResultTable`] is its result: the same bytes from run to run.

mod commit;
mod engine;
mod error;
mod format;
mod log;
mod query;
mod reading;
mod result;
mod views;
pub mod wire;

pub use commit::{Action, Step, commit_run};
pub use error::{Error, panic_text};
pub use format::plain_schema;
pub use log::{CHECKPOINT_INTERVAL, Lake, MAX_COMMIT_ATTEMPTS, PREFIX, Snapshot, TableFile};
pub use query::Query;
pub use reading::{Reading, Subjects, UnverifiedItem};
pub use result::{Cell, Kind, ResultColumn, ResultTable, TableColumn};
pub use views::{VIEWS, View, view};
pub use wire::{LimitedResource, Limits, MAX_SQL_BYTES, MAX_SQL_TOKENS, QueryError};

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;
