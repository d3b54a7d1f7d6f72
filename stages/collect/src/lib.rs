//! Collect: observes the host while execute runs, and afterwards completes, checks and freezes the raw evidence.

mod coverage;
mod drift;
mod freeze;
mod record;

pub use freeze::Collect;
pub use record::{Record, RecordParameters};
