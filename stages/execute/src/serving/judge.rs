//! The verdict over a serving attempt: did the client measure the endpoint, or itself?

use std::time::Duration;

use assay_load::TrialSummary;
use assay_manifest::{
    AttemptStatus, ClientHealth, ErrorLimit, HostChange, LastingReason, OverSaturation, RESPONSE_FLOOD, Reason, TOO_MANY_ERRORS,
    ValidityLimits,
};
use assay_record::{Outcome, Phase};

/// The result of an attempt.
pub(crate) struct JudgeInput<'a> {
    pub(crate) finished: &'a TrialSummary,
    pub(crate) timed_out: bool,
    pub(crate) limit: Duration,
    pub(crate) client: &'a ClientHealth,
    /// The change of the machine over the attempt.
    pub(crate) machine: HostChange<'a>,
    pub(crate) limits: &'a ValidityLimits,
    pub(crate) missed_start: Option<i64>,
    /// True if this shard measured nothing and others did, or it had nothing to send.
    pub(crate) others_measure: bool,
    /// True if due requests wait while as many are in flight as the workload allows: the endpoint may keep the rate from being sent.
    pub(crate) has_cap: bool,
    /// The most frequent error of failed requests.
    pub(crate) commonest_error: Option<&'a str>,
    /// The queue at which the workload ends a trial early.
    pub(crate) over_saturation: Option<OverSaturation>,
    /// The failed requests at which the workload ends a trial early.
    pub(crate) stop_on_errors: Option<ErrorLimit>,
}

/// Returns the status of the attempt, and all reasons against counting it.
pub(crate) fn judge(left: &JudgeInput<'_>) -> (AttemptStatus, Vec<Reason>) {
    let status = match left {
        JudgeInput { timed_out: true, .. } => AttemptStatus::TimedOut,
        JudgeInput { finished: TrialSummary { cancelled: true, .. }, .. } => AttemptStatus::Cancelled,
        _ => AttemptStatus::Completed,
    };
    let mut reasons = Vec::new();
    match status {
        AttemptStatus::TimedOut => {
            reasons.push(Reason::new(
                "time_limit",
                format!("the trial ran into its time limit of {:?} and was stopped", left.limit),
            ));
        }
        AttemptStatus::Cancelled => reasons.push(Reason::new("cancelled", "the run was stopped in the middle of the attempt")),
        _ if left.finished.over_saturated => reasons.push(over_saturated(left.over_saturation)),
        _ if left.finished.too_many_errors => reasons.push(too_many_errors(left)),
        _ => reasons.extend(nothing_measured(left)),
    }
    reasons.extend(left.missed_start.map(|ns| {
        Reason::new("barrier_missed", format!("the shard came {} ms after the instant at which all began", milliseconds(ns)))
    }));
    reasons.extend(behind(left));
    reasons.extend(left.limits.machine_reasons(left.machine));
    (status, reasons)
}

fn over_saturated(most: Option<OverSaturation>) -> Reason {
    let limit = most.map_or_else(String::new, |most| {
        let held = Duration::from_nanos(most.for_ns.0);
        format!("more than {} requests were in flight for {held:?} without a break: ", most.in_flight.0)
    });
    let detail = format!("{limit}they arrive faster than the endpoint serves them, so the load was ended early");
    Reason::new(LastingReason::OverSaturated.as_str(), detail)
}

/// The reason of a trial whose requests failed: how many, and what ended it.
fn too_many_errors(left: &JudgeInput<'_>) -> Reason {
    let count = |outcome| Phase::ALL.iter().map(|phase| left.finished.counts.count(*phase, outcome)).sum::<u64>();
    let of_endpoint = || Outcome::ALL.iter().copied().filter(|outcome| !outcome.is_of_client());
    let all: u64 = of_endpoint().map(count).sum();
    let failed: u64 = of_endpoint().filter(|outcome| outcome.is_failure()).map(count).sum();
    let most = left.commonest_error.map(|error| format!("; most often `{error}`")).unwrap_or_default();
    let limit = left.stop_on_errors.map(|limit| format!(", and a trial ends with {limit}")).unwrap_or_default();
    Reason::new(TOO_MANY_ERRORS, format!("{failed} of {all} requests failed{limit}{most}"))
}

fn nothing_measured(left: &JudgeInput<'_>) -> Option<Reason> {
    if left.others_measure {
        return None;
    }
    let counts = &left.finished.counts;
    match (counts.due(Phase::Measured), counts.count(Phase::Measured, Outcome::Ok)) {
        // Those of the warm-up lasted through the measured phase of a closed loop: an endpoint that does not respond, and no trial that is too short.
        (0, _) if is_closed(left) && has_failed_wholly(left, Phase::Warmup) => Some(all_failed(left, Phase::Warmup)),
        (0, _) => Some(Reason::new(LastingReason::NoRequests.as_str(), explain_none_due(left))),
        (_, 0) => Some(all_failed(left, Phase::Measured)),
        _ => None,
    }
}

/// Returns true for a closed loop, of which no rate is requested.
fn is_closed(left: &JudgeInput<'_>) -> bool {
    left.client.requested_rate_per_s.is_none()
}

/// Returns true if requests of a phase ended by themselves, and none of them succeeded.
fn has_failed_wholly(left: &JudgeInput<'_>, phase: Phase) -> bool {
    let failures = Outcome::ALL.iter().filter(|outcome| outcome.is_failure() && **outcome != Outcome::CancelledAtEnd);
    let counts = &left.finished.counts;
    counts.count(phase, Outcome::Ok) == 0 && failures.map(|outcome| counts.count(phase, *outcome)).sum::<u64>() > 0
}

fn all_failed(left: &JudgeInput<'_>, phase: Phase) -> Reason {
    let most = left.commonest_error.map(|error| format!("; most often `{error}`")).unwrap_or_default();
    let due = left.finished.counts.due(phase);
    let requests = if due == 1 { "request" } else { "requests" };
    let of = if phase == Phase::Warmup { " of the warm-up" } else { "" };
    Reason::new("all_failed", format!("none of {due} {requests}{of} succeeded: {}{most}", format_outcomes(left.finished, phase)))
}

/// Explains why no measured request was due: users of a closed loop that wait for responses since the warm-up cannot send
/// another.
fn explain_none_due(left: &JudgeInput<'_>) -> String {
    if is_closed(left) && left.finished.counts.due(Phase::Warmup) > 0 {
        let ended = format_outcomes(left.finished, Phase::Warmup);
        return format!(
            "no request was begun in the measured phase: those of the warm-up lasted through it ({ended}), so a longer duration is needed"
        );
    }
    "no request was due in the measured phase".to_owned()
}

/// Formats the outcomes of a phase's requests, most frequent first.
fn format_outcomes(finished: &TrialSummary, phase: Phase) -> String {
    let mut counts: Vec<(u64, Outcome)> =
        Outcome::ALL.iter().map(|outcome| (finished.counts.count(phase, *outcome), *outcome)).collect();
    counts.retain(|(count, _)| *count > 0);
    counts.sort_by(|a, b| b.cmp(a));
    counts.iter().map(|(count, outcome)| format!("{count} {outcome}")).collect::<Vec<_>>().join(", ")
}

/// Returns the reasons why the client was behind. While an endpoint floods it, that is the endpoint's doing.
fn behind(left: &JudgeInput<'_>) -> Vec<Reason> {
    let own = left.limits.client_reasons(left.client, left.has_cap);
    match left.finished.client.explain_flood() {
        Some(flood) if !own.is_empty() => {
            let details: Vec<&str> = own.iter().map(|reason| reason.detail.as_str()).collect();
            vec![Reason::new(RESPONSE_FLOOD, format!("{flood}, so that {}", details.join(", and ")))]
        }
        _ => own,
    }
}

fn milliseconds(ns: i64) -> i64 {
    ns / 1_000_000
}

#[cfg(test)]
mod tests {
    use assay_load::ClientStats;
    use assay_manifest::{Count, HostState, Instant};

    use super::*;

    fn input<'a>(
        finished: &'a TrialSummary,
        client: &'a ClientHealth,
        quiet: &'a HostState,
        limits: &'a ValidityLimits,
    ) -> JudgeInput<'a> {
        JudgeInput {
            finished,
            timed_out: false,
            limit: Duration::from_mins(1),
            client,
            machine: HostChange { before: quiet, after: quiet, window_ns: 1_000_000_000 },
            limits,
            missed_start: None,
            others_measure: false,
            has_cap: false,
            commonest_error: None,
            over_saturation: Some(OverSaturation { in_flight: Count(120), for_ns: Count(1_500_000_000) }),
            stop_on_errors: None,
        }
    }

    fn format_verdict(left: &JudgeInput<'_>) -> String {
        let (status, reasons) = judge(left);
        let lines = reasons.iter().map(|reason| format!("\n{}: {}", reason.code, reason.detail));
        format!("{status}{}", lines.collect::<String>())
    }

    fn verdict(finished: &TrialSummary, client: &ClientHealth, change: impl FnOnce(&mut JudgeInput<'_>)) -> String {
        let (quiet, limits) = (HostState::at(Instant::from_unix_ns(0)), ValidityLimits::default());
        let mut left = input(finished, client, &quiet, &limits);
        change(&mut left);
        format_verdict(&left)
    }

    fn judge_client(client: &ClientHealth) -> String {
        verdict(&TrialSummary::default(), client, |left| left.others_measure = true)
    }

    #[test]
    fn a_load_that_saturates_the_endpoint_does_not_count() {
        let over_saturated = TrialSummary { over_saturated: true, ..TrialSummary::default() };
        insta::assert_snapshot!(verdict(&over_saturated, &ClientHealth::default(), |_| ()), @r"
        completed
        over_saturated: more than 120 requests were in flight for 1.5s without a break: they arrive faster than the endpoint serves them, so the load was ended early
        ");
        // A client that stands still lets requests wait, too: the next attempt may be another.
        let stopped = ClientHealth { loop_stall_max_ns: Count(5_000_000_000), ..ClientHealth::default() };
        let both = verdict(&over_saturated, &stopped, |_| ());
        assert!(both.contains("over_saturated:") && both.contains("client_stalled:"), "{both}");
    }

    #[test]
    fn a_trial_whose_requests_fail_does_not_count_if_the_workload_says_so() {
        let outcomes = [(Phase::Warmup, Outcome::Timeout), (Phase::Measured, Outcome::HttpError)];
        let others =
            [(Phase::Measured, Outcome::Ok), (Phase::Measured, Outcome::CancelledAtEnd), (Phase::Measured, Outcome::Dropped)];
        let counts = outcomes.into_iter().chain(others).collect();
        let ended = TrialSummary { too_many_errors: true, counts, ..TrialSummary::default() };
        let limit = ErrorLimit { count: Some(Count(2)), recent: None };
        let said = verdict(&ended, &ClientHealth::default(), |left| {
            (left.stop_on_errors, left.commonest_error) = (Some(limit), Some("status 503"));
        });
        insta::assert_snapshot!(said, @r"
        completed
        too_many_errors: 2 of 3 requests failed, and a trial ends with 2 failures; most often `status 503`
        ");
        let whole = TrialSummary { too_many_errors: false, ..ended };
        assert_eq!(verdict(&whole, &ClientHealth::default(), |_| ()), "completed");
    }

    #[test]
    fn a_trial_without_requests_does_not_count_unless_the_shard_had_none() {
        let (finished, client) = (TrialSummary::default(), ClientHealth::default());
        insta::assert_snapshot!(verdict(&finished, &client, |_| ()), @r"
        completed
        no_requests: no request was due in the measured phase
        ");
        assert_eq!(judge_client(&client), "completed");
        let after_warmup = |outcomes: &[Outcome]| {
            let counts = outcomes.iter().map(|outcome| (Phase::Warmup, *outcome)).collect();
            verdict(&TrialSummary { counts, ..TrialSummary::default() }, &client, |_| ())
        };
        insta::assert_snapshot!(after_warmup(&[Outcome::Ok, Outcome::CancelledAtEnd]), @r"
        completed
        no_requests: no request was begun in the measured phase: those of the warm-up lasted through it (1 cancelled_at_end, 1 ok), so a longer duration is needed
        ");
        insta::assert_snapshot!(after_warmup(&[Outcome::CancelledAtEnd]), @r"
        completed
        no_requests: no request was begun in the measured phase: those of the warm-up lasted through it (1 cancelled_at_end), so a longer duration is needed
        ");
        insta::assert_snapshot!(after_warmup(&[Outcome::Timeout; 2]), @r"
        completed
        all_failed: none of 2 requests of the warm-up succeeded: 2 timeout
        ");
    }

    #[test]
    fn who_was_stopped_is_not_blamed_for_what_it_did_not_measure() {
        let client = ClientHealth::default();
        let cancelled = TrialSummary { cancelled: true, ..TrialSummary::default() };
        insta::assert_snapshot!(verdict(&cancelled, &client, |_| ()), @r"
        cancelled
        cancelled: the run was stopped in the middle of the attempt
        ");
        insta::assert_snapshot!(verdict(&cancelled, &client, |left| left.timed_out = true), @r"
        timed_out
        time_limit: the trial ran into its time limit of 60s and was stopped
        ");
        insta::assert_snapshot!(verdict(&cancelled, &client, |left| { left.timed_out = true; left.missed_start = Some(7_000_000); }), @r"
        timed_out
        time_limit: the trial ran into its time limit of 60s and was stopped
        barrier_missed: the shard came 7 ms after the instant at which all began
        ");
    }

    #[test]
    fn a_client_that_measured_itself_does_not_count() {
        let late = ClientHealth { lateness_p99_ns: Some(Count(26_000_000)), ..ClientHealth::default() };
        insta::assert_snapshot!(judge_client(&late), @r"
        completed
        client_late: 1 % of the requests were sent more than 26 ms later than intended
        ");
        let behind = ClientHealth { loop_stall_max_ns: Count(1_500_000_000), ..late };
        let client = ClientStats { read_bytes: 100 << 20, full_read_bytes: 80 << 20, ..ClientStats::default() };
        let flooded = TrialSummary { client, ..TrialSummary::default() };
        insta::assert_snapshot!(verdict(&flooded, &behind, |left| left.others_measure = true), @r"
        completed
        response_flood: the endpoint sent 80 of 100 MiB faster than they could be read, so that 1 % of the requests were sent more than 26 ms later than intended, and the client did not look at its sockets for 1500 ms
        ");
        let in_time = verdict(&flooded, &ClientHealth::default(), |left| left.others_measure = true);
        assert_eq!(in_time, "completed", "a client that kept up measured the endpoint");
        let rate = ClientHealth { requested_rate_per_s: Some(100.0), sent_rate_per_s: 40.0, ..ClientHealth::default() };
        assert!(judge_client(&rate).contains("rate_not_offered"));
        let capped = verdict(&TrialSummary::default(), &rate, |left| (left.others_measure, left.has_cap) = (true, true));
        assert_eq!(capped, "completed", "the endpoint kept the requests waiting");
    }

    #[test]
    fn a_machine_is_judged_by_the_limits_of_the_plan() {
        let state = |us| HostState { cgroup_throttled_us: Some(Count(us)), ..HostState::at(Instant::from_unix_ns(0)) };
        let (before, after) = (state(0), state(60_000));
        let limits = [0.05, 0.07].map(|throttled_share| ValidityLimits { throttled_share, ..ValidityLimits::default() });
        let judged = |limits: &ValidityLimits| {
            let (finished, client) = (TrialSummary::default(), ClientHealth::default());
            let machine = HostChange { before: &before, after: &after, window_ns: 1_000_000_000 };
            let left = JudgeInput { others_measure: true, machine, limits, ..input(&finished, &client, &before, limits) };
            format_verdict(&left)
        };
        insta::assert_snapshot!(judged(&limits[0]), @r"
        completed
        cpu_throttled: the control group was throttled for 6 % of the attempt
        ");
        assert_eq!(judged(&limits[1]), "completed");
    }
}
