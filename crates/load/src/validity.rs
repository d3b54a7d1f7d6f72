//! The health that a client states, by which an attempt is judged, and the flood of an endpoint.

use std::time::Duration;

use assay_manifest::{ClientHealth, Count};

use crate::summary::{ClientStats, Delays, TrialSummary};

/// A delay below this is the grain of a busy scheduler (its slices take 3 to 4 ms) and is in no sum of delays.
pub const DELAY_GRAIN: Duration = Duration::from_millis(5);

/// The bytes beyond which an endpoint floods its client, if they are at least half of all that it sent: a response of as many, or reads that
/// left more waiting in the socket. Parsing them takes the client a noticeable part of a second. A response of 100,000 tokens has half of them.
pub const FLOOD_BYTES: u64 = 64 << 20;

impl ClientStats {
    /// Describes the bytes that the endpoint sent beyond what the client takes; none if they are few. A client that is late while it reads them is not
    /// the cause.
    pub fn explain_flood(&self) -> Option<String> {
        let flood = self.full_read_bytes.max(self.excess_bytes);
        let is_flood = flood >= FLOOD_BYTES && flood >= self.read_bytes / 2;
        let mib = |bytes: u64| bytes >> 20;
        is_flood.then(|| {
            let is_excess = self.excess_bytes == flood;
            let how =
                if is_excess { "in responses beyond a limit or of more than 64 MiB" } else { "faster than they could be read" };
            format!("the endpoint sent {} of {} MiB {how}", mib(flood), mib(self.read_bytes))
        })
    }
}

impl Delays {
    /// Returns the share of the requests' time, 0 to 1, for which their responses may have waited for the client.
    pub fn request_share(&self) -> f64 {
        if self.request_ns > 0 { self.request_late_ns as f64 / self.request_ns as f64 } else { 0.0 }
    }
}

impl TrialSummary {
    /// Returns the health of the client, without that of its machine. Requests have intended times in an open loop only (`is_open`), so a
    /// closed one has no rate to be measured by.
    pub fn health(&self, is_open: bool) -> ClientHealth {
        let client = &self.client;
        let (lateness, delays) = (client.lateness.as_ref(), &client.delays);
        let own = |(measured, least): (i64, i64)| unsigned(measured - least);
        ClientHealth {
            lateness_p50_ns: lateness.map(|lateness| unsigned(lateness.ns_p50)),
            lateness_p99_ns: lateness.map(|lateness| unsigned(lateness.ns_p99)),
            lateness_max_ns: lateness.map(|lateness| unsigned(lateness.ns_max)),
            loop_busy_p99_ns: unsigned(client.busy_ns_p99),
            loop_stall_max_ns: unsigned(client.longest_stall_ns),
            loop_late_ns: Some(unsigned(delays.late_ns)),
            judged_ns: Some(unsigned(delays.judged_ns)),
            late_reads: Some(Count(delays.late_reads)),
            judged_token_events: Some(Count(delays.token_events)),
            late_requests: Some(Count(delays.late_requests)),
            late_request_share: Some(delays.request_share()),
            ttft_p99_ns: delays.ttft_p99.map(|(measured, _)| unsigned(measured)),
            ttft_p99_delay_ns: delays.ttft_p99.map(own),
            e2e_p99_ns: delays.e2e_p99.map(|(measured, _)| unsigned(measured)),
            e2e_p99_delay_ns: delays.e2e_p99.map(own),
            run_delay_ns: delays.run_delay_ns.map(unsigned),
            interruptions: Some(Count(delays.interruptions)),
            cpu_user_us: unsigned(client.cpu_user_ns / 1000),
            cpu_system_us: unsigned(client.cpu_system_ns / 1000),
            full_reads: Count(client.full_reads),
            starved: Count(client.starved),
            requested_rate_per_s: client.requested_per_s.filter(|_| is_open),
            sent_rate_per_s: client.sent_per_s.unwrap_or(0.0),
            connections: Count(client.connections_opened),
            resends: Some(Count(client.resends)),
            events: Count(client.token_events),
            ..ClientHealth::default()
        }
    }
}

fn unsigned(value: i64) -> Count {
    Count(u64::try_from(value).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_floods_its_client_with_half_of_all_bytes_and_no_fewer_than_the_limit() {
        let flood = |read_bytes, full_read_bytes, excess_bytes| {
            let stats = ClientStats { read_bytes, full_read_bytes, excess_bytes, ..ClientStats::default() };
            stats.explain_flood().unwrap_or_else(|| "none".to_owned())
        };
        assert_eq!(flood(0, 0, 0), "none");
        assert_eq!(
            flood(FLOOD_BYTES - 1, FLOOD_BYTES - 1, FLOOD_BYTES - 1),
            "none",
            "a client that was stopped reads as much at once"
        );
        assert_eq!(flood(4 * FLOOD_BYTES, FLOOD_BYTES, FLOOD_BYTES), "none", "a small part");
        assert_eq!(flood(2 * FLOOD_BYTES, FLOOD_BYTES, 0), "the endpoint sent 64 of 128 MiB faster than they could be read");
        assert_eq!(
            flood(2 * FLOOD_BYTES, 0, FLOOD_BYTES),
            "the endpoint sent 64 of 128 MiB in responses beyond a limit or of more than 64 MiB"
        );
    }

    #[test]
    fn what_was_measured_is_stated_as_it_is_judged() {
        let delays = Delays {
            judged_ns: 6_000,
            late_ns: 2_700,
            late_reads: 7,
            token_events: 1_000,
            request_ns: 400,
            request_late_ns: 100,
            ttft_p99: Some((51, 25)),
            e2e_p99: Some((907, 27)),
            ..Delays::default()
        };
        let client = ClientStats { delays, requested_per_s: Some(100.0), sent_per_s: Some(94.0), ..ClientStats::default() };
        let summary = TrialSummary { client, ..TrialSummary::default() };
        let expected = ClientHealth {
            loop_late_ns: Some(Count(2_700)),
            judged_ns: Some(Count(6_000)),
            late_reads: Some(Count(7)),
            judged_token_events: Some(Count(1_000)),
            late_requests: Some(Count(0)),
            late_request_share: Some(0.25),
            ttft_p99_ns: Some(Count(51)),
            ttft_p99_delay_ns: Some(Count(26)),
            e2e_p99_ns: Some(Count(907)),
            e2e_p99_delay_ns: Some(Count(880)),
            interruptions: Some(Count(0)),
            requested_rate_per_s: Some(100.0),
            sent_rate_per_s: 94.0,
            resends: Some(Count(0)),
            ..ClientHealth::default()
        };
        assert_eq!(summary.health(true), expected);
        assert_eq!(summary.health(false), ClientHealth { requested_rate_per_s: None, ..expected }, "a closed loop");
    }
}
