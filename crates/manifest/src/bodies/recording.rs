//! Recording: the readings that were taken while execute ran.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::body;
use crate::{Artifact, Block, Count, Digest, PodPlace, Window};

/// A period in which samples are missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gap {
    /// The source without samples.
    pub source: String,
    /// The period.
    pub window: Window,
    /// The reason, as far as it is known.
    pub reason: String,
}

/// A series of readings in one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// The source of the readings, such as `host`.
    pub source: String,
    /// The number of readings.
    pub samples: Count,
    /// The readings, one JSON document per line.
    pub artifact: Artifact,
}

/// The readings that were taken while execute ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// The plan's body digest.
    pub plan_digest: Digest,
    /// The block.
    pub block: Block,
    /// The number of the recording within the block, from 0; a restarted recorder makes another one.
    pub sequence: u32,
    /// In a cluster: the pod that the recorder ran in. The counters of the host are those of its node.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub place: Option<PodPlace>,
    /// The time from the first reading to the last.
    pub window: Window,
    /// The configured interval between readings, in nanoseconds.
    pub interval_ns: Count,
    /// The readings.
    pub series: Vec<Series>,
    /// The periods inside the window without readings.
    pub gaps: Vec<Gap>,
}

body!(Recording, |recording| recording.series.iter().map(|series| &series.artifact).collect());
