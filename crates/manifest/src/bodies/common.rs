//! Enumerations and small records that several bodies share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::words;
use crate::{Count, Digest, Instant};

words!(
    /// The purpose of a run; it decides how much must be proved before a number is published.
    Intent, "intent",
    /// An exploration; never publishable.
    Exploratory = "exploratory",
    /// Conditions as in real use: shared machines, recorded context.
    Realism = "realism",
    /// A claim: the run meets all claim rules.
    Publication = "publication",
);

words!(
    /// The type of a workload.
    WorkloadType, "workload type",
    /// An inference endpoint under load.
    Serving = "serving",
    /// An executable that prints one JSON document.
    Indicator = "indicator",
    /// A job whose steps are observed.
    Training = "training",
);

words!(
    /// The direction of a metric that is better.
    BetterDirection, "direction",
    /// Larger is better, such as a throughput.
    Higher = "higher",
    /// Smaller is better, such as a latency.
    Lower = "lower",
);

impl From<assay_metric::Direction> for BetterDirection {
    fn from(direction: assay_metric::Direction) -> Self {
        match direction {
            assay_metric::Direction::Higher => Self::Higher,
            assay_metric::Direction::Lower => Self::Lower,
        }
    }
}

words!(
    /// The isolation of trials from each other.
    Isolation, "isolation",
    /// Nothing is done between trials.
    None = "none",
    /// The target is asked to empty its prefix cache before each trial.
    Flush = "flush",
    /// The target is restarted for every trial; each trial is a block of its own.
    RestartTarget = "restart_target",
);

words!(
    /// The way baseline and candidate share the machine.
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
    /// Other workloads do not change.
    StableBackground = "stable_background",
);

words!(
    /// The state of an environment control.
    ControlState, "state of a control",
    /// Checked by Assay on the target.
    Proved = "proved",
    /// Declared by a person.
    Declared = "declared",
    /// Neither proved nor declared.
    Absent = "absent",
);

/// An environment control and its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ControlFact {
    /// The control.
    pub control: Control,
    /// Its state.
    pub state: ControlState,
    /// The observation or the declaration.
    pub evidence: String,
}

/// The statements that a publication-grade number needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The method of measurement.
    pub methodology: String,
    /// True if the number represents more than this one system.
    pub representative: bool,
    /// The statement of what the number does and does not represent.
    pub statement: String,
}

/// The price of the target. Not part of the workload's digest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pricing {
    /// Price of one GPU for one hour, in `currency`.
    pub gpu_hour: f64,
    /// ISO 4217 code.
    pub currency: String,
    /// The source of the price.
    pub source: String,
    /// The date at which it was valid, `YYYY-MM-DD`.
    pub as_of: String,
}

/// A block of the run and its incarnation: one round of provision and execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// The block's place in the run, from 0.
    pub index: u32,
    /// The number of times that the block was provisioned again because its target was found dead, from 0.
    pub incarnation: u32,
}

/// One of the processes that together make one trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// Its index, from 0.
    pub index: u32,
    /// The number of shards.
    pub count: u32,
}

impl Shard {
    /// The only shard.
    pub const ONLY: Self = Self { index: 0, count: 1 };
}

/// A time span on one host.
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

/// The validity of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Validity {
    /// True if there is no reason against the attempt.
    pub valid: bool,
    /// All reasons against it.
    pub reasons: Vec<Reason>,
}

impl Validity {
    /// Creates a validity, which is valid if there are no reasons.
    pub fn from_reasons(reasons: Vec<Reason>) -> Self {
        Self { valid: reasons.is_empty(), reasons }
    }
}

words!(
    /// A reason that another attempt meets again, because it follows from the plan and the speed of the target.
    LastingReason, "lasting reason",
    /// No request was due in the measured phase: arrivals are the same in every attempt, and in a closed loop the responses of the
    /// warm-up take longer than the phase.
    NoRequests = "no_requests",
    /// More requests were in flight than the workload allows for an open loop, for longer than it allows: they arrive faster than they are served.
    OverSaturated = "over_saturated",
);

impl LastingReason {
    /// Returns the lasting reason of an attempt with these reasons against it; `None` if it has none, or another beside it.
    pub fn find(reasons: &[Reason]) -> Option<Self> {
        let (first, others) = reasons.split_first()?;
        others.iter().all(|other| other.code == first.code).then(|| first.code.parse().ok())?
    }
}

/// A named reason and its detail.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// A stable identifier, such as `time_limit`.
    pub code: String,
    /// The observation, for people.
    pub detail: String,
}

impl Reason {
    /// Creates a reason from its code and detail.
    pub fn new(code: &str, detail: impl Into<String>) -> Self {
        Self { code: code.to_owned(), detail: detail.into() }
    }
}

/// A container image: its reference, and the digest that the reference had when it was resolved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// The reference as the definition writes it.
    pub reference: String,
    /// The digest of the reference; absent if it could not be pinned.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub digest: Option<Digest>,
}

/// Converts an index from 0, as documents, tables and names of files have it, to a number from 1, as texts for people have it.
pub fn ordinal(index: u32) -> u32 {
    index.saturating_add(1)
}
