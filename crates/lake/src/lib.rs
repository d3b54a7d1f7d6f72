//! The warehouse: curated files as Delta Lake tables in the artifact store, and readings of them for queries.
//!
//! The only crate that depends on Delta, which stays behind its own types: callers see runs, files, versions and results.
//!
//! * A [`Lake`] is the thirteen tables under `warehouse/` of a store. [`commit_run`] adds a run's curated files to them: dimensions
//!   first, outcomes next, `benchmark_run_fact` last. A run is visible once that row is there.
//! * A [`Reading`] is the input of a query: the files of a pinned [`Snapshot`], or one run's files before they are committed.
//!   Every file was hashed on its way into private scratch, so that no parser reads bytes that differ from their name.

mod commit;
mod engine;
mod error;
mod log;
mod reading;

pub use commit::{Action, Step, commit_run};
pub use error::Error;
pub use log::{CHECKPOINT_INTERVAL, Lake, MAX_COMMIT_ATTEMPTS, PREFIX, Snapshot, TableFile};
pub use reading::{Reading, Subjects, UnverifiedItem};

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;
