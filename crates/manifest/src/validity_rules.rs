//! The rules by which an attempt counts: did the client measure the endpoint, or itself, and was the machine left to it? Pure, over
//! what an attempt states, so that a reader can judge it again.

use crate::{ClientHealth, Count, HostState, Reason, ValidityLimits};

const NS_PER_MS: u64 = 1_000_000;

/// The reason for an attempt whose endpoint sent more than its client could read: then the client's own reasons are in its detail.
pub const RESPONSE_FLOOD: &str = "response_flood";

impl ValidityLimits {
    /// The codes of the reasons of [`client_reasons`](Self::client_reasons).
    pub const CLIENT_CODES: [&'static str; 3] = ["client_late", "client_stalled", "rate_not_offered"];

    /// The codes of the reasons of [`machine_reasons`](Self::machine_reasons).
    pub const MACHINE_CODES: [&'static str; 5] =
        ["cpu_throttled", "cpu_stolen", "cpu_softirq", "cpu_pressure", "tcp_retransmits"];

    /// Returns the reasons why a client measured itself. If requests wait while as many are in flight as the workload allows
    /// (`has_cap`), the endpoint may keep the rate from being sent.
    pub fn client_reasons(&self, client: &ClientHealth, has_cap: bool) -> Vec<Reason> {
        let late = self.explain_lateness(client).map(|detail| Reason::new("client_late", detail));
        let stalled = self.explain_stall(client).map(|detail| Reason::new("client_stalled", detail));
        let not_sent = self.explain_rate(client).filter(|_| !has_cap).map(|detail| Reason::new("rate_not_offered", detail));
        [late, stalled, not_sent].into_iter().flatten().collect()
    }

    fn explain_lateness(&self, client: &ClientHealth) -> Option<String> {
        let p99 = client.lateness_p99_ns.filter(|p99| p99.0 > self.lateness_p99_ns.0)?;
        Some(format!("1 % of the requests were sent more than {} ms later than intended", p99.0 / NS_PER_MS))
    }

    fn explain_rate(&self, client: &ClientHealth) -> Option<String> {
        let requested = client.requested_rate_per_s.filter(|requested| *requested > 0.0)?;
        let is_short = client.sent_rate_per_s / requested < self.sent_share;
        is_short.then(|| format!("only {:.1} of {requested:.1} requests a second could be sent", client.sent_rate_per_s))
    }

    /// Explains in what way the client was late to its sockets. Independent of the endpoint.
    fn explain_stall(&self, client: &ClientHealth) -> Option<String> {
        let stall = client.loop_stall_max_ns.0;
        if stall > self.stall_ns.0 {
            return Some(format!("the client did not look at its sockets for {} ms", stall / NS_PER_MS));
        }
        self.explain_shares(client)
            .or_else(|| self.explain_reads(client))
            .or_else(|| self.explain_uncertainty("TTFT", client.ttft_p99_ns, client.ttft_p99_delay_ns))
            .or_else(|| self.explain_uncertainty("E2E", client.e2e_p99_ns, client.e2e_p99_delay_ns))
    }

    fn explain_shares(&self, client: &ClientHealth) -> Option<String> {
        // One slice of a busy scheduler is a large share of a trial of a tenth of a second, and proves nothing.
        let late = client.loop_late_ns.filter(|late| late.0 > self.lateness_p99_ns.0)?;
        let of_trial = client.judged_ns.map_or(0.0, |judged| share(late.0, judged.0));
        if of_trial > self.delay_share {
            // The last responses may have ended before the client was late for the last time.
            let (percent, ms) = (of_trial.min(1.0) * 100.0, late.0 / NS_PER_MS);
            return Some(format!("the client was late to its sockets for {percent:.0} % of the trial, {ms} ms in all"));
        }
        let of_requests = client.late_request_share.filter(|share| *share > self.delay_share)? * 100.0;
        Some(format!("for {of_requests:.0} % of the requests' time their response may have waited for the client"))
    }

    fn explain_reads(&self, client: &ClientHealth) -> Option<String> {
        let (reads, events) = (client.late_reads?.0, client.judged_token_events?.0);
        let limit = self.lateness_p99_ns.0 / NS_PER_MS;
        let is_more = events > 0 && reads.saturating_mul(100) > events;
        is_more.then(|| format!("{reads} reads for {events} token events were more than {limit} ms late"))
    }

    /// Explains why a 99th percentile is too uncertain, from the measured value and the part of it that may be the client's own.
    fn explain_uncertainty(&self, name: &str, measured: Option<Count>, own: Option<Count>) -> Option<String> {
        let (measured, own) = (measured?.0, own?.0);
        let exceeds = own > self.lateness_p99_ns.0 && share(own, measured) > self.delay_share;
        let ms = |ns: u64| ns / NS_PER_MS;
        exceeds.then(|| {
            format!("up to {} of the {} ms of {name} at the 99th percentile may be the client's delay", ms(own), ms(measured))
        })
    }

    /// Returns the reasons why a machine was not left to an attempt. A limit on what a state lacks gives none.
    pub fn machine_reasons(&self, change: HostChange<'_>) -> Vec<Reason> {
        let percent = |share: f64| share * 100.0;
        let throttled = change.throttled_share().filter(|share| *share > self.throttled_share).map(|share| {
            Reason::new("cpu_throttled", format!("the control group was throttled for {:.0} % of the attempt", percent(share)))
        });
        let stolen = exceeding(change.of_cpu_time(|state| state.cpu_steal_us), self.steal_share).map(|share| {
            Reason::new("cpu_stolen", format!("other guests took {:.1} % of the machine's CPU time", percent(share)))
        });
        let softirq = exceeding(change.of_cpu_time(|state| state.cpu_softirq_us), self.softirq_share).map(|share| {
            Reason::new("cpu_softirq", format!("soft interrupts took {:.1} % of the machine's CPU time", percent(share)))
        });
        let pressure = exceeding(change.pressure_share(), self.pressure_share).map(|share| {
            Reason::new("cpu_pressure", format!("some task waited for a CPU for {:.0} % of the attempt", percent(share)))
        });
        let retransmits = exceeding(change.retransmit_share(), self.retransmit_share)
            .map(|share| Reason::new("tcp_retransmits", format!("{:.2} % of the TCP segments were sent again", percent(share))));
        [throttled, stolen, softirq, pressure, retransmits].into_iter().flatten().collect()
    }
}

fn exceeding(share: Option<f64>, limit: Option<f64>) -> Option<f64> {
    share.filter(|share| limit.is_some_and(|limit| *share > limit))
}

fn share(part: u64, whole: u64) -> f64 {
    if whole > 0 { part as f64 / whole as f64 } else { 0.0 }
}

/// The change of a machine between its states just before and just after an attempt.
#[derive(Clone, Copy, Debug)]
pub struct HostChange<'a> {
    /// The state before.
    pub before: &'a HostState,
    /// The state after.
    pub after: &'a HostState,
    /// The duration of the attempt, in nanoseconds.
    pub window_ns: u64,
}

impl HostChange<'_> {
    /// Returns the growth of a counter; absent if either state lacks it, and if it fell because it was reset.
    fn growth(&self, of: impl Fn(&HostState) -> Option<Count>) -> Option<u64> {
        of(self.after)?.0.checked_sub(of(self.before)?.0)
    }

    /// Returns the time for which the control group was throttled, in microseconds.
    pub fn throttled_us(&self) -> Option<u64> {
        self.growth(|state| state.cgroup_throttled_us)
    }

    /// Returns the time for which some task of the machine waited for a CPU, in microseconds.
    pub fn pressure_us(&self) -> Option<u64> {
        self.growth(|state| state.cpu_pressure_us)
    }

    /// Returns microseconds as a share of the attempt, limited to 1 because the states are from just outside of it.
    pub fn share_of_window(&self, us: u64) -> f64 {
        (us as f64 * 1000.0 / self.window_ns.max(1) as f64).min(1.0)
    }

    fn throttled_share(&self) -> Option<f64> {
        self.throttled_us().map(|us| self.share_of_window(us))
    }

    fn pressure_share(&self) -> Option<f64> {
        let of_group = self.growth(|state| state.cgroup_pressure_us);
        of_group.or_else(|| self.pressure_us()).map(|us| self.share_of_window(us))
    }

    fn of_cpu_time(&self, of: impl Fn(&HostState) -> Option<Count>) -> Option<f64> {
        Some(share(self.growth(of)?, self.growth(|state| state.cpu_total_us)?))
    }

    fn retransmit_share(&self) -> Option<f64> {
        let again = self.growth(|state| state.tcp_retransmitted_segments)?;
        Some(share(again, self.growth(|state| state.tcp_sent_segments)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Instant;

    const MS: u64 = NS_PER_MS;

    fn found(reasons: &[Reason]) -> String {
        let lines: Vec<String> = reasons.iter().map(|reason| format!("{}: {}", reason.code, reason.detail)).collect();
        if lines.is_empty() { "none".to_owned() } else { lines.join("; ") }
    }

    fn client(health: &ClientHealth) -> String {
        found(&ValidityLimits::default().client_reasons(health, false))
    }

    #[test]
    fn a_client_without_delays_is_never_blamed() {
        assert_eq!(client(&ClientHealth::default()), "none");
        // A slow endpoint: 100 requests of 50 s each.
        let slow = ClientHealth {
            judged_ns: Some(Count(100_000 * MS)),
            loop_late_ns: Some(Count(0)),
            late_request_share: Some(0.0),
            late_reads: Some(Count(0)),
            judged_token_events: Some(Count(100)),
            ttft_p99_ns: Some(Count(50_000 * MS)),
            ttft_p99_delay_ns: Some(Count(0)),
            ..ClientHealth::default()
        };
        assert_eq!(client(&slow), "none");
    }

    #[test]
    fn a_client_that_sends_late_or_too_little_is_named() {
        let late = |ms| ClientHealth { lateness_p99_ns: Some(Count(ms * MS)), ..ClientHealth::default() };
        assert_eq!(client(&late(25)), "none", "the limit itself is allowed");
        assert_eq!(client(&late(26)), "client_late: 1 % of the requests were sent more than 26 ms later than intended");
        let rate = |sent| ClientHealth { requested_rate_per_s: Some(100.0), sent_rate_per_s: sent, ..ClientHealth::default() };
        assert_eq!(client(&rate(95.0)), "none");
        assert_eq!(client(&rate(94.9)), "rate_not_offered: only 94.9 of 100.0 requests a second could be sent");
        let capped = ValidityLimits::default().client_reasons(&rate(40.0), true);
        assert_eq!(found(&capped), "none", "the endpoint kept the requests waiting");
    }

    #[test]
    fn each_delay_has_its_limit() {
        let stalled = |ms| ClientHealth { loop_stall_max_ns: Count(ms * MS), ..ClientHealth::default() };
        assert_eq!(client(&stalled(1_000)), "none");
        assert_eq!(client(&stalled(1_500)), "client_stalled: the client did not look at its sockets for 1500 ms");
        let trial = |judged_ms: u64, late_ms: u64| {
            let (judged_ns, loop_late_ns) = (Some(Count(judged_ms * MS)), Some(Count(late_ms * MS)));
            client(&ClientHealth { loop_late_ns, judged_ns, ..ClientHealth::default() })
        };
        assert_eq!(trial(6_000, 600), "none");
        let late = "client_stalled: the client was late to its sockets for";
        assert_eq!(trial(6_000, 2_700), format!("{late} 45 % of the trial, 2700 ms in all"));
        assert_eq!(trial(100, 25), "none", "so little is not judged by its share");
        assert_eq!(trial(100, 26), format!("{late} 26 % of the trial, 26 ms in all"));
        assert_eq!(trial(3, 31), format!("{late} 100 % of the trial, 31 ms in all"));
        let requests = |share| ClientHealth {
            judged_ns: Some(Count(6_000 * MS)),
            loop_late_ns: Some(Count(100 * MS)),
            late_request_share: Some(share),
            ..ClientHealth::default()
        };
        assert_eq!(client(&requests(0.10)), "none");
        let waited = "client_stalled: for 11 % of the requests' time their response may have waited for the client";
        assert_eq!(client(&requests(0.11)), waited);
        let reads = |reads| ClientHealth {
            late_reads: Some(Count(reads)),
            judged_token_events: Some(Count(1_000)),
            ..ClientHealth::default()
        };
        assert_eq!(client(&reads(10)), "none");
        assert_eq!(client(&reads(11)), "client_stalled: 11 reads for 1000 token events were more than 25 ms late");
    }

    #[test]
    fn a_percentile_may_be_off_by_the_larger_of_two_limits() {
        let ttft = |measured: u64, own: u64| ClientHealth {
            ttft_p99_ns: Some(Count(measured * MS)),
            ttft_p99_delay_ns: Some(Count(own * MS)),
            ..ClientHealth::default()
        };
        let uncertain = |own, measured, name| {
            let of = format!("up to {own} of the {measured} ms of {name} at the 99th percentile");
            format!("client_stalled: {of} may be the client's delay")
        };
        assert_eq!(client(&ttft(50, 25)), "none");
        assert_eq!(client(&ttft(51, 26)), uncertain(26, 51, "TTFT"));
        assert_eq!(client(&ttft(5_000, 500)), "none");
        let (e2e_p99_ns, e2e_p99_delay_ns) = (Some(Count(907 * MS)), Some(Count(880 * MS)));
        let e2e = ClientHealth { e2e_p99_ns, e2e_p99_delay_ns, ..ClientHealth::default() };
        assert_eq!(client(&e2e), uncertain(880, 907, "E2E"));
    }

    #[test]
    fn a_pipeline_s_own_limits_take_the_place_of_each_default() {
        let limits = ValidityLimits {
            lateness_p99_ns: Count(5 * MS),
            stall_ns: Count(100 * MS),
            delay_share: 0.01,
            sent_share: 0.99,
            ..ValidityLimits::default()
        };
        let judged = |health: &ClientHealth| found(&limits.client_reasons(health, false));
        let late = ClientHealth { lateness_p99_ns: Some(Count(6 * MS)), ..ClientHealth::default() };
        assert!(judged(&late).starts_with("client_late"), "{}", judged(&late));
        let stalled = ClientHealth { loop_stall_max_ns: Count(101 * MS), ..ClientHealth::default() };
        assert!(judged(&stalled).contains("for 101 ms"), "{}", judged(&stalled));
        let (judged_ns, loop_late_ns) = (Some(Count(1_000 * MS)), Some(Count(11 * MS)));
        let delayed = ClientHealth { loop_late_ns, judged_ns, ..ClientHealth::default() };
        assert!(judged(&delayed).contains("for 1 % of the trial"), "{}", judged(&delayed));
        let rate = ClientHealth { requested_rate_per_s: Some(100.0), sent_rate_per_s: 98.0, ..ClientHealth::default() };
        assert!(judged(&rate).starts_with("rate_not_offered"), "{}", judged(&rate));
    }

    /// Returns a state whose counters are these, in microseconds and segments.
    fn state(counters: Option<[u64; 8]>) -> HostState {
        let of = |index: usize| counters.and_then(|counters| counters.get(index).copied()).map(Count);
        HostState {
            cpu_total_us: of(0),
            cpu_steal_us: of(1),
            cpu_softirq_us: of(2),
            cgroup_throttled_us: of(3),
            cpu_pressure_us: of(4),
            cgroup_pressure_us: of(5),
            tcp_sent_segments: of(6),
            tcp_retransmitted_segments: of(7),
            ..HostState::at(Instant::from_unix_ns(0))
        }
    }

    const SECOND: u64 = 1_000_000_000;

    fn machine(limits: &ValidityLimits, before: &HostState, after: &HostState, window_ns: u64) -> String {
        found(&limits.machine_reasons(HostChange { before, after, window_ns }))
    }

    #[test]
    fn a_machine_is_judged_by_the_growth_of_its_counters() {
        let limits = ValidityLimits {
            steal_share: Some(0.01),
            softirq_share: Some(0.05),
            pressure_share: Some(0.2),
            retransmit_share: Some(0.001),
            ..ValidityLimits::default()
        };
        let judged = |after: [u64; 8]| {
            let start = [7, 7, 7, 7, 7, 7, 7, 7];
            let after = std::array::from_fn(|index| after[index] + start[index]);
            machine(&limits, &state(Some(start)), &state(Some(after)), SECOND)
        };
        let quiet = [2_000_000, 20_000, 100_000, 50_000, 900_000, 200_000, 10_000, 10];
        assert_eq!(judged(quiet), "none", "each limit itself is allowed, and the group's pressure counts, not the machine's");
        let one = |index: usize, value: u64| {
            let mut counters = quiet;
            counters[index] = value;
            judged(counters)
        };
        assert_eq!(one(1, 30_000), "cpu_stolen: other guests took 1.5 % of the machine's CPU time");
        assert_eq!(one(2, 120_000), "cpu_softirq: soft interrupts took 6.0 % of the machine's CPU time");
        assert_eq!(one(3, 60_000), "cpu_throttled: the control group was throttled for 6 % of the attempt");
        assert_eq!(one(5, 300_000), "cpu_pressure: some task waited for a CPU for 30 % of the attempt");
        assert_eq!(one(7, 20), "tcp_retransmits: 0.20 % of the TCP segments were sent again");
        let by_default = ValidityLimits::default();
        let busy = [2_000_000, 900_000, 900_000, 50_000, 900_000, 900_000, 10_000, 900];
        assert_eq!(
            machine(&by_default, &state(Some([0; 8])), &state(Some(busy)), SECOND),
            "none",
            "only throttling has a limit by default"
        );
    }

    #[test]
    fn what_a_machine_does_not_count_is_not_held_against_it() {
        let limits = ValidityLimits {
            steal_share: Some(0.0),
            softirq_share: Some(0.0),
            pressure_share: Some(0.0),
            retransmit_share: Some(0.0),
            throttled_share: 0.0,
            ..ValidityLimits::default()
        };
        let counters = [1, 1, 1, 1, 1, 1, 1, 1];
        for (before, after) in [(None, Some(counters)), (Some(counters), None), (Some(counters), Some([0; 8]))] {
            assert_eq!(machine(&limits, &state(before), &state(after), SECOND), "none", "a counter that fell was reset");
        }
        assert_eq!(machine(&limits, &state(Some(counters)), &state(Some(counters)), 0), "none", "nothing grew, in no time");
        let of_machine = HostState { cgroup_pressure_us: None, ..state(Some([9; 8])) };
        let reasons = machine(&limits, &state(Some([1; 8])), &of_machine, SECOND);
        assert!(reasons.contains("cpu_pressure"), "the machine's pressure stands in for that of a group that counts none");
    }
}
