//! The time limits and retries of the stages of a run, from the pipeline.

use std::collections::BTreeMap;
use std::time::Duration;

use assay_manifest::Digest;
use assay_spec::Shards;
use assay_stage::StageName;

/// The time limit of a stage for which the pipeline names none; execute has none of its own, because its trials have.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(10);

/// The retries of a stage for which the pipeline names none.
const DEFAULT_RETRIES: u32 = 1;

/// The time limit and retries of one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagePolicy {
    /// The time after which it is stopped; `None` if it has no limit of its own.
    pub timeout: Option<Duration>,
    /// The number of retries after a failure that a retry may fix.
    pub retries: u32,
}

/// The time limits and retries of the stages of a run, and the trust policy under which they verify.
#[derive(Clone, Debug)]
pub struct StagePolicies {
    /// The trust policy.
    pub trust: Digest,
    /// The pipeline's policies, by stage.
    pub stages: BTreeMap<StageName, StagePolicy>,
    /// Processes of execute that together make one trial.
    pub shards: Shards,
}

impl StagePolicies {
    /// Returns the policy of `stage`.
    pub fn for_stage(&self, stage: StageName) -> StagePolicy {
        let timeout = (!matches!(stage, StageName::Execute | StageName::Record)).then_some(DEFAULT_TIMEOUT);
        self.stages.get(&stage).copied().unwrap_or(StagePolicy { timeout, retries: DEFAULT_RETRIES })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_pipeline_says_stands_and_the_rest_has_its_default() {
        let said = StagePolicy { timeout: Some(Duration::from_secs(5)), retries: 3 };
        let stages = BTreeMap::from([(StageName::Execute, said)]);
        let policies = StagePolicies { trust: Digest::compute(b""), stages, shards: Shards::Auto };
        assert_eq!(policies.for_stage(StageName::Execute), said);
        assert_eq!(policies.for_stage(StageName::Plan), StagePolicy { timeout: Some(DEFAULT_TIMEOUT), retries: DEFAULT_RETRIES });
        assert_eq!(policies.for_stage(StageName::Record).timeout, None, "it ends when execute does");
    }
}
