//! Runs as a reader opens them: from a store or a published folder, verified under a trust root; and what many runs say together.
//!
//! [`RunStore`] names a store and a trust root. It opens one run as a [`VerifiedRun`]; [`signed_summaries`] verifies the Summaries
//! of all runs, and [`read_series`] reads their metrics from run to run out of the warehouse. The checks are those of
//! `assay-verify`; this crate decides which root, which keys and which pointers they are given. Nothing is printed here.

mod cache;
mod completeness;
mod entries;
mod files;
mod list;
mod references;
mod removal;
mod search_results;
mod series;
mod summaries;
mod trust;
mod usage;
mod verified_run;

pub use entries::{ListedEntry, RunEntry, RunFigure, list_entries};
pub use files::read_regular_file;
pub use list::{published_runs, read_document, read_manifest, run_ids};
pub use references::{NamedBlob, Need, RunReferences, VerdictReferences, all_references, run_references, verdict_references};
pub use removal::{BlobSum, Garbage, References, RunRemoval};
pub use search_results::{
    EndedSearch, ObservedRound, VerifiedSearchResult, find_search_result, key_beside_search_result, observe, sign_search_result,
    verify_search_result,
};
pub use series::{RunValue, Series, SeriesFilter, SeriesReading, read_series};
pub use summaries::{LeftOutRun, SignedSummaries, no_warehouse, signed_summaries};
pub use trust::{ResolvedTrust, establish, keys_beside_run, keys_in_folder, trust_no_signer};
pub use usage::{KindUsage, RunUsage, StoreUsage};
pub use verified_run::{RunStore, VerifiedRun, named_store, open_store, store_option};
