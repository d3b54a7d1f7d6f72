//! The curated tables: their columns, and the conversion of rows to Parquet files and back.
//!
//! One static description of each [`Table`] is the only source of its Arrow schema, of the check of every [`Row`], and of the
//! reference page ([`reference()`]). Files are byte-repeatable: equal rows in equal order give equal bytes, so that a digest in a
//! Summary can be computed again.
//!
//! The files of raw [`records`], which execute writes and reduce reads, are separate. Files of other writers, such as datasets, are read as
//! objects ([`for_each_object`]).

mod error;
mod foreign_tables;
mod metric_columns;
mod objects;
mod pages;
mod read;
pub mod records;
mod reference;
mod row;
mod schema;
mod tables;
mod write;

pub use error::Error;
pub use foreign_tables::{FOREIGN_EVIDENCE_DIM, FOREIGN_OUTCOME_FACT, FOREIGN_SAMPLE_FACT, FOREIGN_TABLES, foreign_table};
pub use objects::{ObjectError, ObjectLimits, for_each_object};
pub use pages::{PageError, PageSizes, check_pages};
pub use read::{MAX_FILE_ROWS, MAX_FOUND_ROWS, MAX_READ_ROWS, Source, find, for_each_row, read};
pub use reference::reference;
pub use row::{MAX_TEXT_BYTES, Row, Value, row_id};
pub use schema::{AS_UNIT_SAYS, Column, ROW_ID, Table, Type, arrow_schema};
pub use tables::{
    ARTIFACT_LINEAGE_DIM, ATTEMPT_FACT, BENCHMARK_RUN_FACT, CLUSTER_EVENT_FACT, CLUSTER_POD_FACT, CLUSTER_REGION_DIM,
    HARDWARE_TOPOLOGY_DIM, NUMBER_TABLES, OUTCOME_FACT, SERVING_OUTCOME_FACT, SOFTWARE_VERSION_DIM, TABLES, TELEMETRY_SLICE_FACT,
    TRAINING_OUTCOME_FACT, WORKLOAD_DIM, table,
};
pub use write::{MAX_ROW_GROUP_ROWS, WrittenFile, write};

/// A result with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;
