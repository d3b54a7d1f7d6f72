//! Words and small records that several bodies share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::words;
use crate::{Count, Digest, Instant};

words!(
    /// What a run is for; it decides how much must be proved before a number is published.
    Intent, "intent",
    /// Finding out; never publishable.
    Exploratory = "exploratory",
    /// As in real use: shared machines, recorded context.
    Realism = "realism",
    /// A claim: everything of the claim rules holds.
    Publication = "publication",
);

words!(
    /// What kind of work a workload is.
    WorkloadType, "workload type",
    /// An inference endpoint under load.
    Serving = "serving",
    /// An executable that prints one JSON document.
    Indicator = "indicator",
    /// A job whose steps are observed.
    Training = "training",
);

words!(
    /// Which direction of a metric is better.
    Better, "direction",
    /// Larger is better, such as a throughput.
    Higher = "higher",
    /// Smaller is better, such as a latency.
    Lower = "lower",
);

words!(
    /// How far trials are kept apart from each other.
    Isolation, "isolation",
    /// Nothing is done between trials.
    None = "none",
    /// The target is asked to empty its prefix cache before each trial.
    Flush = "flush",
    /// The target is restarted for every trial; each trial is a block of its own.
    RestartTarget = "restart_target",
);

words!(
    /// How baseline and candidate share the machine.
    Placement, "placement",
    /// Both are up together.
    Coexist = "coexist",
    /// One is up at a time, in blocks.
    Alternate = "alternate",
);

words!(
    /// The environment controls that a claim rests on.
    Control, "environment control",
    /// Nothing else runs on the target's nodes.
    DedicatedNodes = "dedicated_nodes",
    /// The same devices and links in every trial.
    FixedTopology = "fixed_topology",
    /// Clocks are pinned.
    LockedClocks = "locked_clocks",
    /// What else runs does not change.
    StableBackground = "stable_background",
);

words!(
    /// How well an environment control is known to hold.
    ControlState, "state of a control",
    /// Checked by Assay on the target.
    Proved = "proved",
    /// Said by a person.
    Declared = "declared",
    /// Neither.
    Absent = "absent",
);

/// One environment control and how well it is known to hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ControlFact {
    /// Which control.
    pub control: Control,
    /// How well it is known to hold.
    pub state: ControlState,
    /// What was seen or said.
    pub evidence: String,
}

/// What a publication-grade number must say about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// How it was measured.
    pub methodology: String,
    /// Whether it stands for more than itself.
    pub representative: bool,
    /// What it does and does not represent.
    pub statement: String,
}

/// What an hour of the target costs. Outside the workload's digest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pricing {
    /// Price of one GPU for one hour, in `currency`.
    pub gpu_hour: f64,
    /// ISO 4217 code.
    pub currency: String,
    /// Where the price comes from.
    pub source: String,
    /// The date it was valid, `YYYY-MM-DD`.
    pub as_of: String,
}

/// Which repetition of provision and execute something belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// The block's place in the run, from 0.
    pub index: u32,
    /// How often the block was provisioned anew because its target was found dead, from 0.
    pub incarnation: u32,
}

/// One of the processes that together make one trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// Which one, from 0.
    pub index: u32,
    /// Of how many.
    pub count: u32,
}

impl Shard {
    /// The only shard.
    pub const ONLY: Self = Self { index: 0, count: 1 };
}

/// A span of time on one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// Its start by the wall clock.
    pub start: Instant,
    /// Its end by the wall clock.
    pub end: Instant,
    /// Its length by the monotonic clock, in nanoseconds; this one is exact.
    pub duration_ns: Count,
}

/// Whether an attempt counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Validity {
    /// True where nothing speaks against the attempt.
    pub valid: bool,
    /// Everything that speaks against it.
    pub reasons: Vec<Reason>,
}

impl Validity {
    /// Valid if there is no reason against it.
    pub fn from_reasons(reasons: Vec<Reason>) -> Self {
        Self { valid: reasons.is_empty(), reasons }
    }
}

/// A named reason, with what was seen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// A stable word, such as `time_limit`.
    pub code: String,
    /// What was seen, for people.
    pub detail: String,
}

impl Reason {
    /// A reason from its word and what was seen.
    pub fn new(code: &str, detail: impl Into<String>) -> Self {
        Self { code: code.to_owned(), detail: detail.into() }
    }
}

/// A container image: as it was written, and what that meant when it was looked up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// The reference as the definition has it.
    pub reference: String,
    /// The digest it stands for; absent where it could not be pinned.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub digest: Option<Digest>,
}
