//! The reply of `assay-plan check-import`, which imports the dataset or trace of a workload as the plan stage does, and keeps nothing.

use assay_failure::Failure;
use assay_manifest::{Count, DatasetSummary};
use serde::{Deserialize, Serialize};

/// The first argument of the program. The folder of the repository and the name of the workload follow.
pub const CHECK_IMPORT: &str = "check-import";

/// The most bytes of text of which a check counts the tokens: some seconds of a tokenizer's work. Later rows are parsed only.
pub const MAX_COUNTED_TEXT: u64 = 16 << 20;

/// The reply: one JSON document on stdout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum ImportReply {
    /// The plan stage would import the file.
    Imported(Box<CheckedImport>),
    /// The plan stage would refuse it.
    Refused(Failure),
}

/// An import that was checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckedImport {
    /// The rows that were kept, and those that were left out.
    pub summary: DatasetSummary,
    /// Rows after [`MAX_COUNTED_TEXT`], of which nothing but the format was checked. They are in no other number.
    pub parsed_only: Count,
    /// The path of the tokenizer, if it is missing: then no tokens are those of the workload, and `max_input` was not applied.
    pub missing_tokenizer: Option<String>,
}
