//! The limits within which a client measured its endpoint, and not itself.

use std::time::Duration;

use crate::summary::{ClientStats, Delays};

/// The maximum lateness at the 99th percentile, of sending and of reading: beyond it the latencies are the client's own. Also the
/// maximum by which a published 99th percentile may be above the true one, if that is more than [`MAX_DELAY_SHARE`] of it.
pub const MAX_LATENESS_P99: Duration = Duration::from_millis(25);

/// The longest time for which the client may not poll its sockets.
pub const MAX_STALL: Duration = Duration::from_secs(1);

/// The minimum share of the requested rate that must have been sent.
pub const MIN_SENT_SHARE: f64 = 0.95;

/// A delay below this is the grain of a busy scheduler (its slices take 3 to 4 ms) and is in no sum of delays.
pub const DELAY_GRAIN: Duration = Duration::from_millis(5);

/// The maximum share of the trial, of its requests' time and of a 99th percentile that may be the client's own delay.
pub const MAX_DELAY_SHARE: f64 = 0.10;

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
        share(self.request_late_ns, self.request_ns)
    }

    /// Returns the reason why a trial with these delays measured its client; none if it did not. Independent of the endpoint.
    pub fn explain_excess(&self) -> Option<String> {
        // One slice of a busy scheduler is a large share of a trial of a tenth of a second, and proves nothing.
        let is_judged_by_share = self.late_ns > MAX_LATENESS_P99.as_nanos() as i64;
        let of_trial = share(self.late_ns, self.judged_ns);
        if is_judged_by_share && of_trial > MAX_DELAY_SHARE {
            // The last responses may have ended before the client was late for the last time.
            let (percent, ms) = (of_trial.min(1.0) * 100.0, self.late_ns / 1_000_000);
            return Some(format!("the client was late to its sockets for {percent:.0} % of the trial, {ms} ms in all"));
        }
        let of_requests = self.request_share();
        if is_judged_by_share && of_requests > MAX_DELAY_SHARE {
            let percent = of_requests * 100.0;
            return Some(format!("for {percent:.0} % of the requests' time their response may have waited for the client"));
        }
        if self.late_reads * 100 > self.token_events && self.token_events > 0 {
            let (reads, limit) = (self.late_reads, MAX_LATENESS_P99.as_millis());
            return Some(format!("{reads} reads for {} token events were more than {limit} ms late", self.token_events));
        }
        let p99 = [("TTFT", self.ttft_p99), ("E2E", self.e2e_p99)];
        p99.into_iter().find_map(|(name, bounds)| explain_uncertainty(name, bounds?))
    }
}

/// Returns the reason why a 99th percentile is too uncertain, from the measured value and its lower bound.
fn explain_uncertainty(name: &str, (measured_ns, least_ns): (i64, i64)) -> Option<String> {
    let (own_ns, limit_ns) = (measured_ns - least_ns, MAX_LATENESS_P99.as_nanos() as i64);
    let exceeds = own_ns > limit_ns && share(own_ns, measured_ns) > MAX_DELAY_SHARE;
    let ms = |ns: i64| ns / 1_000_000;
    exceeds.then(|| {
        format!("up to {} of the {} ms of {name} at the 99th percentile may be the client's delay", ms(own_ns), ms(measured_ns))
    })
}

fn share(part: i64, whole: i64) -> f64 {
    if whole > 0 { part as f64 / whole as f64 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn excess(delays: &Delays) -> String {
        delays.explain_excess().unwrap_or_else(|| "none".to_owned())
    }

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
    fn a_client_without_delays_is_never_blamed() {
        assert_eq!(excess(&Delays::default()), "none");
        // A slow endpoint: 100 requests of 50 s each.
        let slow = Delays {
            judged_ns: 100_000 * MS,
            requests: 100,
            request_ns: 5_000_000 * MS,
            token_events: 100,
            ttft_p99: Some((50_000 * MS, 50_000 * MS)),
            e2e_p99: Some((50_000 * MS, 50_000 * MS)),
            ..Delays::default()
        };
        assert_eq!(excess(&slow), "none");
    }

    #[test]
    fn each_share_of_delay_has_its_limit() {
        let trial = |late_ms| Delays { judged_ns: 6_000 * MS, late_ns: late_ms * MS, ..Delays::default() };
        assert_eq!(excess(&trial(600)), "none", "the limit itself is allowed");
        assert_eq!(excess(&trial(2_700)), "the client was late to its sockets for 45 % of the trial, 2700 ms in all");
        let short = |late_ms| Delays { judged_ns: 100 * MS, late_ns: late_ms * MS, ..Delays::default() };
        assert_eq!(excess(&short(25)), "none", "so little is not judged by its share");
        assert_eq!(excess(&short(26)), "the client was late to its sockets for 26 % of the trial, 26 ms in all");
        let shorter = Delays { judged_ns: 3 * MS, late_ns: 31 * MS, ..Delays::default() };
        assert_eq!(excess(&shorter), "the client was late to its sockets for 100 % of the trial, 31 ms in all");
        let requests = |late_ms| Delays {
            judged_ns: 6_000 * MS,
            late_ns: 100 * MS,
            request_ns: 1_000 * MS,
            request_late_ns: late_ms * MS,
            ..Delays::default()
        };
        assert_eq!(excess(&requests(100)), "none");
        assert_eq!(excess(&requests(110)), "for 11 % of the requests' time their response may have waited for the client");
        let reads = |late_reads| Delays { late_reads, token_events: 1_000, ..Delays::default() };
        assert_eq!(excess(&reads(10)), "none");
        assert_eq!(excess(&reads(11)), "11 reads for 1000 token events were more than 25 ms late");
    }

    #[test]
    fn a_percentile_may_be_off_by_the_larger_of_two_limits() {
        let ttft = |measured, least| Delays { ttft_p99: Some((measured * MS, least * MS)), ..Delays::default() };
        assert_eq!(excess(&ttft(50, 25)), "none");
        assert_eq!(excess(&ttft(51, 25)), "up to 26 of the 51 ms of TTFT at the 99th percentile may be the client's delay");
        assert_eq!(excess(&ttft(5_000, 4_500)), "none");
        let e2e = Delays { e2e_p99: Some((907 * MS, 27 * MS)), ..Delays::default() };
        assert_eq!(excess(&e2e), "up to 880 of the 907 ms of E2E at the 99th percentile may be the client's delay");
    }
}
