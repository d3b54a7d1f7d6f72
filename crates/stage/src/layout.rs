//! Where the results of a run are found in the store, and what decides whether two calls of a stage are the same.

use assay_chain::StageName;
use assay_manifest::{CaseId, Digest, Document, InputRef, RunId, Shard, TrialId, canonical_json};
use serde::{Deserialize, Serialize};

use crate::Failure;

/// The version of the contract between stages. Part of every input digest: a stage that obeys another contract never finds, or
/// is mistaken for, a result of this one.
pub const CONTRACT: &str = "v1alpha1";

/// The accepted result of a stage: what its pointer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accepted {
    /// The digest of the manifest.
    pub manifest: Digest,
    /// The digest of its bundle.
    pub bundle: Digest,
}

impl Accepted {
    /// The largest pointer.
    pub const MAX_BYTES: u64 = 4096;

    /// The pointer's bytes.
    pub fn to_bytes(self) -> Result<Vec<u8>, Failure> {
        canonical_json(&self).map_err(|error| Failure::unexpected("pointer", "a pointer has no canonical form").because(&error))
    }

    /// Reads a pointer at `path`.
    pub fn parse(path: &str, bytes: &[u8]) -> Result<Self, Failure> {
        serde_json::from_slice(bytes)
            .map_err(|error| Failure::verification("pointer", format!("the pointer `{path}` is damaged")).because(&error))
    }
}

/// What makes two calls of a stage the same call: inputs with their bundles, parameters, trust policy and contract. The binary
/// that computes the result is recorded but not part of it, and the shard is not part of it.
pub fn input_digest(
    stage: StageName,
    inputs: &[InputRef],
    parameters: &serde_json::Value,
    trust: Digest,
) -> Result<Digest, Failure> {
    let mut inputs = inputs.to_vec();
    inputs.sort_unstable();
    inputs.dedup();
    let key = serde_json::json!({
        "contract": CONTRACT,
        "stage": stage.as_str(),
        "inputs": inputs,
        "parameters": parameters,
        "trust_policy": trust,
    });
    let bytes = canonical_json(&key)
        .map_err(|error| Failure::usage("parameters", "the stage's parameters have no canonical form").because(&error))?;
    Ok(Digest::of(&bytes))
}

/// What a manifest is called in a published folder: its kind, and where a run has several, what tells them apart.
pub fn chain_name(document: &Document) -> String {
    let kind = document.kind();
    match document {
        Document::Environment(manifest) => {
            let block = manifest.body.block;
            format!("{kind}-{}-{}", block.index, block.incarnation)
        }
        Document::ExecutionPart(manifest) => {
            let (block, shard) = (manifest.body.block, manifest.body.shard);
            format!("{kind}-{}-{}-{}", block.index, block.incarnation, shard.index)
        }
        Document::Recording(manifest) => {
            let block = manifest.body.block;
            format!("{kind}-{}-{}-{}", block.index, block.incarnation, manifest.body.sequence)
        }
        _ => kind.to_string(),
    }
}

/// The pointers of one run.
#[derive(Clone, Debug)]
pub struct Layout(RunId);

impl Layout {
    /// The pointers of `run_id`.
    pub fn of(run_id: &RunId) -> Self {
        Self(run_id.clone())
    }

    /// Under which all runs are listed.
    pub const RUNS: &'static str = "runs";

    /// Everything of the run.
    pub fn run(&self) -> String {
        format!("runs/{}", self.0)
    }

    /// The run's Source, created once.
    pub fn source(&self) -> String {
        format!("runs/{}/source", self.0)
    }

    /// The run's ends, one each time that it was cancelled or failed.
    pub fn end(&self, sequence: u32) -> String {
        format!("runs/{}/ends/{sequence:06}", self.0)
    }

    /// Under which all results of a stage are listed.
    pub fn stage(&self, stage: StageName) -> String {
        format!("runs/{}/{stage}", self.0)
    }

    /// The accepted result of one shard of a stage.
    pub fn accepted(&self, stage: StageName, input: Digest, shard: Shard) -> String {
        format!("runs/{}/{stage}/{}/accepted/{}", self.0, input.hex(), shard.index)
    }

    /// Under which the marks and checkpoints of execute's trials are listed.
    pub fn trials(&self, input: Digest) -> String {
        format!("runs/{}/execute/{}/trials", self.0, input.hex())
    }

    /// The mark that an attempt has begun.
    pub fn attempt_started(&self, input: Digest, trial: &TrialId, attempt: u32, shard: Shard) -> String {
        format!("{}/{trial}/{attempt:06}/{}.started", self.trials(input), shard.index)
    }

    /// The checkpoint of a finished attempt.
    pub fn attempt(&self, input: Digest, trial: &TrialId, attempt: u32, shard: Shard) -> String {
        format!("{}/{trial}/{attempt:06}/{}", self.trials(input), shard.index)
    }

    /// The checkpoint of a workload's preparation.
    pub fn prepared(&self, input: Digest, workload: &str, shard: Shard) -> String {
        format!("runs/{}/execute/{}/prepared/{workload}/{}", self.0, input.hex(), shard.index)
    }

    /// Under which all runs of a case are listed.
    pub fn runs_of_case(case: &CaseId) -> String {
        format!("cases/{case}")
    }

    /// The mark that a run measures a case.
    pub fn case(&self, case: &CaseId) -> String {
        format!("cases/{case}/{}", self.0)
    }
}
