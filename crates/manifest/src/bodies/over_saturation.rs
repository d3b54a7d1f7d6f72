//! The end of a load that an endpoint cannot serve.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Count;

/// The queue at which an open loop ends early: requests arrive faster than they are served, and a longer queue tells nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OverSaturation {
    /// The requests in flight, of all shards together: more of them without a break end the load.
    pub in_flight: Count,
    /// The time for which there have to be more.
    pub for_ns: Count,
}
