//! The file of a Prometheus: one line for each request.

use assay_manifest::{Block, Instant, TrialId};
use serde::{Deserialize, Serialize};

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// The time of the server's clock.
    Clock,
    /// The samples of a query in a part of an attempt's window.
    Samples,
    /// The number of series that a query without samples had lately.
    Presence,
    /// No further request was sent; the line holds the reason.
    Stopped,
}

/// The query of an attempt that a request is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueryOf {
    /// The block of the attempt.
    pub block: Block,
    /// The trial.
    pub trial_id: TrialId,
    /// The number of the attempt.
    pub attempt: u32,
    /// The number of the query among those of its source, from 0.
    pub query: u32,
}

/// A request and its response: either the body as received, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueryLine {
    /// The purpose of the request.
    pub request: Request,
    /// The query of an attempt that it is for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of: Option<QueryOf>,
    /// The PromQL that was sent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub promql: Option<String>,
    /// The time at which it was to be evaluated; absent for the server's own.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub time: Option<Instant>,
    /// The time of the request.
    pub at: Instant,
    /// The duration until the response, in nanoseconds.
    pub took_ns: u64,
    /// The status of the response, if there was one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<u16>,
    /// The body of a successful response.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub body: Option<String>,
    /// The reason why there is no body.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
}
