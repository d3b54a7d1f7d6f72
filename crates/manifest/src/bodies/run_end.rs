//! RunEnd: a run that was cancelled or failed says so, signed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{body, words};
use crate::{Digest, Reason, Role};

words!(
    /// How a run ended before its time.
    EndState, "end of a run",
    /// A person stopped it.
    Cancelled = "cancelled",
    /// A stage could not go on.
    Failed = "failed",
);

/// A run that was cancelled or failed. It may be resumed until a Summary exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunEnd {
    /// How it ended.
    pub state: EndState,
    /// The stage that was running.
    pub stage: Role,
    /// Why.
    pub reason: Reason,
    /// The exit code that `assay run` gave.
    pub exit_code: i32,
    /// Which end of this run it is, from 0; a resumed run may end again.
    pub sequence: u32,
    /// The input digest of the stage that was running, where it had one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub input_digest: Option<Digest>,
}

body!(RunEnd, |_end| Vec::new());
