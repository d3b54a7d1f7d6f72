//! Tombstone: the signed statement that evidence of a run was removed from a store on purpose.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{body, words};
use crate::{Artifact, Count, Instant};

words!(
    /// The part of a run that is removed.
    RemovalScope, "scope of a removal",
    /// The raw evidence: published numbers can still be verified up to level 2.
    Evidence = "evidence",
    /// The raw evidence and what was made from it: only the signed chain remains, level 1.
    Results = "results",
);

words!(
    /// The kinds of bytes that a run has in a store.
    BlobKind, "kind of blob",
    /// Manifests, their bundles, and the lists that they name.
    Manifests = "manifests",
    /// The definition of the run: files and objects of its commit, frozen workloads, scripts, queries, keys.
    Definitions = "definitions",
    /// Records of requests.
    Records = "records",
    /// Outputs of measured programs and of targets.
    Logs = "logs",
    /// Readings that were recorded while the run measured.
    Recordings = "recordings",
    /// Other raw evidence, such as responses of a cluster.
    Evidence = "evidence",
    /// Curated files: the rows of the run.
    Curated = "curated",
    /// Numbers, reports and results of queries.
    Reports = "reports",
);

/// The removed artifacts of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemovedKind {
    /// The kind.
    pub kind: BlobKind,
    /// The number of artifacts.
    pub count: Count,
    /// Their size in bytes.
    pub bytes: Count,
}

/// The removal of evidence of one run. It explains why an artifact is missing, and proves nothing about what the artifact held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tombstone {
    /// The number of this removal within the run, from 0.
    pub sequence: u32,
    /// The part of the run that was removed.
    pub scope: RemovalScope,
    /// The reason, in the words of the person who removed it.
    pub reason: String,
    /// The account that removed it, as the system names it; the signature names the key.
    pub by: String,
    /// The time of the removal, by the signer's clock.
    pub removed_at: Instant,
    /// The removed artifacts by kind, in the order of the kinds.
    pub kinds: Vec<RemovedKind>,
    /// The list of all removed artifacts, sorted, as a JSON array.
    pub list: Artifact,
}

impl Tombstone {
    /// The name of the list of removed artifacts.
    pub const LIST: &'static str = "removed.json";
}

body!(Tombstone, |tombstone| vec![&tombstone.list]);
