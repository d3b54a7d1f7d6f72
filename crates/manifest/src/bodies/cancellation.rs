//! The requests that the client cancels.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Count;

/// The requests that the client cancels: a share of them, each so long after it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cancellation {
    /// The probability that a request is one of them, above 0 and at most 1. The seed decides which requests are.
    pub share: f64,
    /// The time from the last byte of the request, after which its connection is closed if the response is not complete.
    pub after_ns: Count,
}

impl Cancellation {
    /// Returns the reason why it cannot be; `None` if it can.
    pub fn refusal(&self) -> Option<&'static str> {
        let is_share = self.share > 0.0 && self.share <= 1.0;
        (!is_share).then_some("the share is not above 0 and at most 1")
    }
}
