//! The metrics that service level objectives limit: the rows of the table with an `slo`.

use std::fmt;

use crate::{Formula, RequestFields, SloMetric, since_ns};

impl SloMetric {
    /// Returns the field of workloads, which is the key of the metric, such as `ttft`.
    pub const fn as_str(self) -> &'static str {
        self.metric().definition().key
    }

    /// Returns true if a request is within a limit in nanoseconds, the limit itself included. A request without a sample is not.
    #[inline]
    pub fn is_within(self, at_most_ns: u64, request: &RequestFields) -> bool {
        match self.metric().definition().formula {
            Formula::Span { from, to } => {
                since_ns(request.get(from), request.get(to)).is_some_and(|ns| u64::try_from(ns).is_ok_and(|ns| ns <= at_most_ns))
            }
            Formula::Quotient(quotient) => (quotient.sample)(request).is_some_and(|ns| ns <= at_most_ns as f64),
            Formula::Gaps | Formula::TokenEvents | Formula::Trial(_) => false,
        }
    }
}

impl fmt::Display for SloMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
