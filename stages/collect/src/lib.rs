//! Collect: observes the host while execute runs, and afterwards completes, checks and freezes the raw evidence.

mod cluster;
mod cross_check;
mod endpoint;
mod freeze;
mod line_file;
mod nvidia_smi;
mod prometheus;
mod reading_file;
mod record;
mod scrape;
mod shards;
mod slurm;
mod source_threads;
mod traces;

pub use freeze::Collect;
pub use prometheus::{AttemptToAsk, ask_prometheus};
pub use record::Record;

/// Returns the failure of a recording that cannot be read.
pub(crate) fn read_failure(error: assay_telemetry::ReadError<assay_stage::Failure>) -> assay_stage::Failure {
    error.into_caller(|error| assay_stage::Failure::from_error(error.code(), &error))
}
