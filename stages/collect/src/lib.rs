//! Collect: observes the host while execute runs, and afterwards completes, checks and freezes the raw evidence.

mod cluster;
mod counters;
mod coverage;
mod cross_check;
mod endpoint;
mod freeze;
mod record;
mod scrape;
mod series;
mod shards;

pub use freeze::Collect;
pub use record::{Record, RecordParameters};
