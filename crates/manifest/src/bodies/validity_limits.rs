//! The limits within which an attempt counts.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Count;

/// The limits within which an attempt counts: beyond one of them, it measured its client or a disturbed machine. [The
/// rules](ValidityLimits::client_reasons) that apply them are the same in execute, which decides, and in verify, which decides again.
///
/// A share is from 0 to 1. The defaults are those of a pipeline that states none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ValidityLimits {
    /// The maximum lateness of sending at the 99th percentile, in nanoseconds (`client_late`). Also the lateness of reading that 1 read
    /// for 100 token events may exceed, and the maximum by which a 99th percentile may be above the true one, if that is more than
    /// `delay_share` of it (`client_stalled`).
    pub lateness_p99_ns: Count,
    /// The longest time for which the client may not poll its sockets, in nanoseconds (`client_stalled`).
    pub stall_ns: Count,
    /// The maximum share of the trial, of its requests' time and of a 99th percentile that may be the client's own delay
    /// (`client_stalled`).
    pub delay_share: f64,
    /// The minimum share of the requested rate that must have been sent (`rate_not_offered`).
    pub sent_share: f64,
    /// The maximum share of the attempt for which its control group may be throttled (`cpu_throttled`): beyond it the kernel's
    /// scheduler, and not the target, decides the result.
    pub throttled_share: f64,
    /// The maximum share of the CPU time of the machine that other guests of its hypervisor may take (`cpu_stolen`); absent if it has
    /// no limit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub steal_share: Option<f64>,
    /// The maximum share of the CPU time of the machine that soft interrupts may take (`cpu_softirq`), such as the handling of
    /// received packets; absent if it has no limit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub softirq_share: Option<f64>,
    /// The maximum share of the attempt during which some task of the control group, or of the machine if the group counts none, waited
    /// for a CPU (`cpu_pressure`); absent if it has no limit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pressure_share: Option<f64>,
    /// The maximum share of the TCP segments sent that were sent again (`tcp_retransmits`); absent if it has no limit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retransmit_share: Option<f64>,
    /// The reason why the pipeline states limits; absent if it states none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

impl ValidityLimits {
    /// The default of `sent_share`. What is measured of a machine's client has the same limit.
    pub const SENT_SHARE: f64 = 0.95;
}

impl Default for ValidityLimits {
    fn default() -> Self {
        Self {
            lateness_p99_ns: Count(25_000_000),
            stall_ns: Count(1_000_000_000),
            delay_share: 0.10,
            sent_share: Self::SENT_SHARE,
            throttled_share: 0.05,
            steal_share: None,
            softirq_share: None,
            pressure_share: None,
            retransmit_share: None,
            reason: None,
        }
    }
}

/// Writes each limit with the name of its field in a pipeline; those that are absent are left out.
impl fmt::Display for ValidityLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |ns: Count| Duration::from_nanos(ns.0);
        write!(f, "lateness_p99 {:?}, stall {:?}", time(self.lateness_p99_ns), time(self.stall_ns))?;
        let shares = [
            ("delay_share", Some(self.delay_share)),
            ("sent_share", Some(self.sent_share)),
            ("throttled_share", Some(self.throttled_share)),
            ("steal_share", self.steal_share),
            ("softirq_share", self.softirq_share),
            ("pressure_share", self.pressure_share),
            ("retransmit_share", self.retransmit_share),
        ];
        let stated = shares.into_iter().filter_map(|(name, share)| Some((name, share?)));
        stated.into_iter().try_for_each(|(name, share)| write!(f, ", {name} {share}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_written_with_the_names_of_their_fields() {
        let own = ValidityLimits { lateness_p99_ns: Count(5_000_000), steal_share: Some(0.01), ..ValidityLimits::default() };
        let expected = "lateness_p99 5ms, stall 1s, delay_share 0.1, sent_share 0.95, throttled_share 0.05, steal_share 0.01";
        assert_eq!(own.to_string(), expected);
    }
}
