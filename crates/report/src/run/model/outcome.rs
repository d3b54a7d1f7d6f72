//! The outcomes of requests that are no failures.

use assay_manifest::TimelineRequest;

/// The outcome of requests that the client cancelled as the workload plans it.
pub(crate) const PLANNED_CANCELLATION: &str = "cancelled";

/// Returns true if a request neither succeeded nor was cancelled as planned.
pub(crate) fn has_failed(request: &TimelineRequest) -> bool {
    !["ok", PLANNED_CANCELLATION].contains(&request.outcome.as_str())
}
