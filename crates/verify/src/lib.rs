//! Checks a run as a doubting reader would: from its last manifest back to the commit, by digest and signature, level by level.
//!
//! 1. the chain: signatures, trust, digests, links, completeness, and that the files are the commit's;
//! 2. rows and queries: curated files present and matching, their rows in agreement with the Summary, every pinned query executed
//!    again, numbers and reports made again;
//! 3. raw bytes: every artifact of the evidence present and matching;
//! 4. recomputed: reduce executed again on the evidence, with the same result.
//!
//! The first three are in this crate; the fourth has to run a stage and is in `assay`.

mod attempts;
mod blobs;
mod calibrations;
mod error;
mod evidence;
mod index;
mod levels;
mod numbers;
mod outcomes;
mod parallel;
mod pointers;
mod published;
mod queries;
mod recomputed;
mod searches;
mod statements;
mod times;
mod tombstones;
mod walk;
mod warehouse;
mod windows;

pub use attempts::check_attempts;
pub use blobs::{Blobs, FolderBlobs, StoreBlobs};
pub use error::{
    ArtifactHolder, CalibrationFault, Error, EvidenceFault, ExtraRow, ForeignTie, KeysFault, ManifestPart, PointerTarget,
    QueryRowFault, ReportsFault, SearchFault, SnapshotFault, TableNamer, TombstoneFault, Unwritable,
};
pub use evidence::{check_evidence_list, read_evidence_list, verify_evidence};
pub use levels::{Level, LevelReport, check_selected_by, join_thread, read_numbers, read_tables, start_thread, verify_rows};
pub use numbers::{NumberRows, check_numbers};
pub use outcomes::{TOLERANCE, Tables, check_outcomes, is_close};
pub use parallel::{map_in_parallel, try_map_in_threads};
pub use pointers::{check_pointer_target, check_pointers};
pub use published::{PublicationInputs, PublishDecisions, PublishedFile, numbers_file, summary_numbers};
pub use queries::{lake_failure, merge_query_numbers, query_numbers, query_result_file};
pub use recomputed::{RecomputeOutcome, ReduceResult, compare_results, tolerance_text};
pub use times::check_times;
pub use tombstones::{
    MissingKind, Removals, VerifiedTombstone, blob_kind, group_missing, raw_kind, read_removals, removable_artifacts, sum_kinds,
    verify_removed_rows,
};
pub use walk::{Chain, Head, head_of_folder, head_of_run, load, load_alone, walk};
pub use warehouse::{fetched_from, verify_snapshot};
pub use windows::{CaseWindows, NamedSide, Paired, pair, pair_sides, read_cluster_objects, read_windows, why_worse, workload_of};

/// The result of a check.
pub type Result<T, E = Error> = std::result::Result<T, E>;
