//! The address of a number: what a doubting reader hands to `assay trace`.

use std::fmt;

use assay_manifest::{Digest, RunId};

/// Where a number lives: `<run>/outcome_fact/<first 12 digits of the row id>/value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    run_id: RunId,
    row: String,
}

impl Address {
    /// The table of the warehouse that holds statistics in long form.
    pub const TABLE: &str = "outcome_fact";

    /// The address of the value in the row `row_id` of `run_id`.
    pub fn of(run_id: &RunId, row_id: &Digest) -> Self {
        Self { run_id: run_id.clone(), row: row_id.short() }
    }

    /// The part that differs from number to number: the first 12 digits of the row id.
    pub fn row(&self) -> &str {
        &self.row
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/value", self.run_id, Self::TABLE, self.row)
    }
}
