//! Queries over curated files: one checked `SELECT`, executed by a separate program, and its result.
//!
//! `assay-sql` is the only program that links DataFusion; [`wire`] is the protocol between it and its callers. This crate knows
//! nothing of the warehouse's tables beyond their columns: `assay-lake` gives it the files of a pinned version, [`open_files`]
//! those of one run.
//!
//! * A [`Query`] is one checked `SELECT`, and a [`ResultTable`] is its result: the same bytes from run to run.
//! * [`OpenedFiles`] are its input. Every file was hashed on its way into private scratch, so that no parser reads bytes that
//!   differ from their name.

mod error;
mod files;
mod result;
mod run;
mod views;
pub mod wire;

pub use error::{Error, panic_text};
pub use files::{OpenedFiles, check_file, open_files, plain_schema, rows_file, sort_files};
pub use result::{Cell, Kind, ResultColumn, ResultTable, TableColumn};
pub use run::{Query, run_query};
pub use views::{VIEWS, View, view};
pub use wire::{LimitedResource, Limits, MAX_SQL_BYTES, MAX_SQL_TOKENS, QueryError};

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;
