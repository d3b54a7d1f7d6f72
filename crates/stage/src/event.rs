//! What a stage says while it runs: one JSON document a line on standard output.

use std::collections::BTreeMap;

use assay_manifest::{AttemptStatus, InputRef, TrialId};
use serde::{Deserialize, Serialize};

use crate::{Failure, StageName};

/// A process that the runner is asked to hold after the stage has gone: the target of the following stages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldRequest {
    /// The target's name.
    pub target: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Plain environment variables.
    pub env: BTreeMap<String, String>,
    /// Environment variables whose values the runner reads from its own environment, by name.
    pub env_from: BTreeMap<String, String>,
    /// Environment variables whose values the runner reads from files, by name.
    pub env_files: BTreeMap<String, String>,
}

/// Something that a stage says while it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The inputs were verified and the stage begins.
    Started {
        /// The stage.
        stage: StageName,
    },
    /// A trial begins.
    TrialStarted {
        /// The trial.
        trial: TrialId,
        /// Which try, from 0.
        attempt: u32,
        /// Its place in the block, from 1.
        number: u32,
        /// How many trials the block has.
        of: u32,
    },
    /// A trial has ended.
    TrialFinished {
        /// The trial.
        trial: TrialId,
        /// Which try, from 0.
        attempt: u32,
        /// What became of it.
        status: AttemptStatus,
        /// Whether it counts.
        valid: bool,
        /// How long it took, in nanoseconds.
        duration_ns: u64,
    },
    /// Something worth telling.
    Note {
        /// For people.
        message: String,
    },
    /// A process is to be held for the following stages.
    Hold(HoldRequest),
    /// The result was accepted.
    Accepted {
        /// What was accepted.
        result: InputRef,
        /// True where an earlier or concurrent process of the same stage and inputs had its result accepted first.
        earlier: bool,
    },
    /// A result that was computed again, unsigned and not accepted.
    Recomputed {
        /// The digest of the manifest.
        manifest: assay_manifest::Digest,
    },
    /// The stage could not go on.
    Failed(Failure),
}
