//! A call of a stage, as a driver makes it.

use assay_manifest::{InputRef, RunId, Shard};
use assay_stage::StageName;
use assay_stage::parameters::StageParameters;

use crate::StagePolicy;

/// One call of a stage.
#[derive(Clone, Debug)]
pub struct StageCall {
    /// The stage.
    pub stage: StageName,
    /// The run.
    pub run_id: RunId,
    /// Its inputs.
    pub inputs: Vec<InputRef>,
    /// Its parameters.
    pub parameters: StageParameters,
    /// The shard: one of the processes that together make one trial.
    pub shard: Shard,
    /// Its time limit and retries.
    pub policy: StagePolicy,
    /// Distinguishes calls of one stage in log names, such as `0-1` for block 0, incarnation 1.
    pub label: String,
}
