//! RunEnd: the signed statement that a run was cancelled or failed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{body, words};
use crate::{Digest, Reason, Role};

words!(
    /// The way a run ended early.
    EndState, "end of a run",
    /// A person stopped it.
    Cancelled = "cancelled",
    /// A stage failed.
    Failed = "failed",
);

/// A run that was cancelled or failed. It may be resumed until a Summary exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunEnd {
    /// The way it ended.
    pub state: EndState,
    /// The stage that was running.
    pub stage: Role,
    /// The reason.
    pub reason: Reason,
    /// The exit code of `assay run`.
    pub exit_code: i32,
    /// The number of this end within the run, from 0; a resumed run may end again.
    pub sequence: u32,
    /// The input digest of the stage that was running, if it had one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub input_digest: Option<Digest>,
}

body!(RunEnd, |_end| Vec::new());
