//! Recording: what was observed while execute ran.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::body;
use crate::{Artifact, Block, Count, Digest, PodPlace, Window};

/// A stretch in which samples are missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gap {
    /// What is missing.
    pub source: String,
    /// When.
    pub window: Window,
    /// Why, as far as it is known.
    pub reason: String,
}

/// A series of readings in one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// What was read, such as `host`.
    pub source: String,
    /// How many readings there are.
    pub samples: Count,
    /// The readings, one JSON document a line.
    pub artifact: Artifact,
}

/// What was observed while execute ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// The plan's body digest.
    pub plan_digest: Digest,
    /// The block.
    pub block: Block,
    /// Which recording of the block, from 0; a restarted recorder makes another.
    pub sequence: u32,
    /// In a cluster: where the recorder ran. The counters of the host are those of its node.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub place: Option<PodPlace>,
    /// From the first reading to the last.
    pub window: Window,
    /// The asked interval between readings, in nanoseconds.
    pub interval_ns: Count,
    /// The readings.
    pub series: Vec<Series>,
    /// Where readings are missing inside the window.
    pub gaps: Vec<Gap>,
}

body!(Recording, |recording| recording.series.iter().map(|series| &series.artifact).collect());
