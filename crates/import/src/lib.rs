//! Import of results of other tools: their files are frozen in a store, and a signed document of the kind `foreign_evidence` holds the numbers
//! that were read from them. A reader reads the files again and compares. `assay` parses arguments, calls this crate and prints.

mod check;
mod find;
mod freeze;
mod history;
mod samples;

pub use check::{
    Reading, SignedForeignEvidence, VerifiedForeignEvidence, public_key_beside, signed_foreign_evidence, verify_foreign_evidence,
};
pub use find::find;
pub use freeze::{FoundFile, describe_results, freeze, key_artifact, restore, sign};
pub use history::{ForeignHistory, ForeignValue, Piece, Repetition, histories, in_order};
pub use samples::{SampleValues, Series, for_each_sample, series};
