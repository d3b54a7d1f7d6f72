//! Checks a run as a doubting reader would: from its last manifest back to the commit, by digest and signature, level by level.
//!
//! 1. the chain: signatures, trust, digests, links, completeness, and that the files are the commit's;
//! 2. rows and queries: curated files present and matching, every published number in its row, every pinned query asked again;
//! 3. raw bytes: every artifact of the evidence present and matching;
//! 4. recomputed: reduce run again from the evidence, with the same result.
//!
//! The first three are here; the fourth needs to run a stage, and is `assay`'s.

mod blobs;
mod levels;
mod numbers;
mod pointers;
mod queries;
mod walk;
mod warehouse;

pub use blobs::{Blobs, FolderBlobs, StoreBlobs};
pub use levels::{Level, LevelReport, evidence_of, read_numbers, verify_evidence, verify_rows};
pub use numbers::{NumberRows, check_numbers};
pub use pointers::check_pointers;
pub use queries::{ask, check_query, lake_failure, numbers_of, with_queries};
pub use walk::{Chain, Head, head_of_folder, head_of_run, load, walk};
pub use warehouse::{fetched_from, verify_snapshot};
