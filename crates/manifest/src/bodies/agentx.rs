//! AgentX: the scenario of InferenceX that replays sessions of coding agents, and the judgement of a result by its rules.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Reason;
use crate::document::words;

words!(
    /// A scenario that other projects define, by whose rules a result is judged.
    JudgedScenario, "scenario",
    /// AgentX, `inferencex-agentx-mvp` of AIPerf.
    Agentx = "agentx",
);

/// The judgement of a point by the rules of AgentX.
///
/// The rules are those of `common/scenario/inferencex_agentx_mvp.py` of ai-dynamo/aiperf at 71ddbecd960c9afb2e6a8afeea6072d6c967798a and, for
/// the seed and the share of failed requests, of `benchmarks/benchmark_lib.sh` of SemiAnalysisAI/InferenceX at
/// 843c6254ff69b567f772f6a5fd97675af3d04431. A submission needs the stamp of that tool itself, which this is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentxVerdict {
    /// True if no rule is broken.
    pub agentx_rules_met: bool,
    /// A reason for each rule that is not met, in the order of the rules.
    pub reasons: Vec<Reason>,
}

impl AgentxVerdict {
    /// The sources of the rules, for people.
    pub const SOURCES: &str = "AIPerf 71ddbecd, InferenceX 843c6254";

    /// Creates the verdict from the reasons for rules that are not met.
    pub fn new(reasons: Vec<Reason>) -> Self {
        Self { agentx_rules_met: reasons.is_empty(), reasons }
    }
}
