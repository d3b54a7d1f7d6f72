//! Collection: the immutable raw evidence of a run. The digest of its manifest is the `artifact_manifest_digest`.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::body;
use crate::{Artifact, Block, Count, CrossCheck, Digest, Gap, Shard, TrialId};

/// An attempt of a trial, with the execution part that holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CollectedAttempt {
    /// The number of the attempt, from 0.
    pub attempt: u32,
    /// The block and incarnation that it ran in.
    pub block: Block,
    /// The shard.
    pub shard: Shard,
    /// The manifest of the execution part that holds it.
    pub part: Digest,
    /// True if this attempt counts.
    pub counted: bool,
    /// The number of recorded readings within its window.
    pub samples: Count,
    /// Stretches of its window without readings.
    pub gaps: Vec<Gap>,
}

/// A planned trial and its attempts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CollectedTrial {
    /// The trial.
    pub trial_id: TrialId,
    /// True if an attempt of it counts.
    pub counted: bool,
    /// Its attempts, in order.
    pub attempts: Vec<CollectedAttempt>,
}

/// A fact that differs between blocks although it should not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Drift {
    /// The fact, such as `boot_id`.
    pub what: String,
    /// The earlier block.
    pub before: Block,
    /// The later block.
    pub after: Block,
    /// Both values.
    pub detail: String,
}

/// The immutable raw evidence of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Collection {
    /// The plan's body digest.
    pub plan_digest: Digest,
    /// Every planned trial, in the plan's order.
    pub trials: Vec<CollectedTrial>,
    /// For serving: the client's counts beside the endpoint's. An attempt may be in several, and is in one for each quantity that
    /// its API has.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub cross_checks: Vec<CrossCheck>,
    /// The facts that differ between blocks although they should not.
    pub drift: Vec<Drift>,
    /// Every raw artifact of the run: a JSON list of artifacts in canonical form.
    pub evidence: Artifact,
    /// The number of raw artifacts in the list.
    pub evidence_count: Count,
    /// Their total size in bytes.
    pub evidence_bytes: Count,
}

impl Collection {
    /// Returns the changes between counted trials: the numbers are then of more than one state. A change before the first counted trial, or after the
    /// last one, mixes nothing.
    pub fn mixing_drift(&self) -> impl Iterator<Item = &Drift> {
        let attempts = self.trials.iter().flat_map(|trial| &trial.attempts).filter(|attempt| attempt.counted);
        let counted: BTreeSet<Block> = attempts.map(|attempt| attempt.block).collect();
        let ends = counted.first().copied().zip(counted.last().copied());
        self.drift.iter().filter(move |drift| ends.is_some_and(|(first, last)| first <= drift.before && drift.after <= last))
    }
}

body!(Collection, |collection| vec![&collection.evidence]);
