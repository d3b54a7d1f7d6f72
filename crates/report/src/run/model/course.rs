//! The course of a load during its trials, as far as it changes the meaning of its numbers.

use assay_manifest::{AgentxVerdict, ArrivalLaw, Point, PointKind, PointSummary, RateProfile, ServingPoint, ServingWork};
use assay_metric::{Metric, Statistic};

use super::work::seconds;
use crate::render::number::{Format, grouped, percent};
use crate::render::text::{clean, counted};

/// Returns what a reader has to know of the course of a load: that it never was what its name says, that its rate changed, which share of requests waited or
/// how late turns were, which was cancelled, and which adapters they asked for.
pub(super) fn course_texts(work: &ServingWork, point: &Point, found: &PointSummary) -> Vec<String> {
    let changing = too_few_text(work, point).or_else(|| work.rate_profile.as_ref().map(changing_text));
    let held_back = queued_text(work, found).or_else(|| back_pressure_text(work, found));
    let texts = changing.into_iter().chain(short_warmup_text(work, found)).chain(held_back).chain(cancelled_text(work, found));
    texts.chain(adapters_text(found)).chain(played_texts(work, found)).collect()
}

/// States the turns that were sent before the trials, and the idle time that was cut.
fn played_texts(work: &ServingWork, found: &PointSummary) -> Vec<String> {
    let Some(serving) = &found.serving else { return Vec::new() };
    let warmed = serving.warmed_turns.map(|turns| {
        format!(
            "{} sent before the trials, so that a cache holds the history of sessions; no number has them",
            counted(turns.0, "turn")
        )
    });
    let cap = work.session_play().idle_cap_ns;
    let cut = serving.idle_cut_ns.zip(cap).map(|(cut_ns, cap_ns)| {
        if cut_ns.0 == 0 {
            return format!("no turn came earlier: none waited for longer than {} while nothing was in flight", seconds(cap_ns));
        }
        let cut_s = cut_ns.0 as f64 / 1e9;
        let cut = Format::new(cut_s, None).show(cut_s);
        format!("waiting turns came earlier by {cut} s in all, because nothing was in flight for {}", seconds(cap_ns))
    });
    warmed.into_iter().chain(cut).collect()
}

/// States if the rules of AgentX are met, or each rule that is not, with its reason. Loads that break the same rules have the same gist.
pub(super) fn agentx_text(found: &ServingPoint) -> Option<String> {
    let verdict = found.agentx.as_ref()?;
    let rules = AgentxVerdict::SOURCES;
    let sources = format!("judged by the rules of {rules}, and only the stamp of AIPerf itself counts for a submission");
    if verdict.agentx_rules_met {
        return Some(format!("the rules of AgentX are met; {sources}"));
    }
    let codes: Vec<String> = verdict.reasons.iter().map(|reason| clean(&reason.code)).collect();
    let reasons = verdict.reasons.iter().zip(&codes).map(|(reason, code)| format!("{code} ({})", clean(&reason.detail)));
    let reasons: Vec<String> = reasons.collect();
    Some(format!("the rules of AgentX are not met: {}; {}; {sources}", codes.join(", "), reasons.join("; ")))
}

/// States that a trial has fewer requests than were to be in flight; `None` if it has enough, or for another load.
fn too_few_text(work: &ServingWork, point: &Point) -> Option<String> {
    let in_flight = point.value.get("concurrency").filter(|_| point.kind == PointKind::Concurrency && work.sessions.is_none());
    let in_flight: u64 = in_flight?.parse().ok()?;
    let requests = work.requests.map(|requests| requests.0).filter(|requests| *requests < in_flight)?;
    let reached = if work.warmup_ns.0 == 0 {
        format!("no more than {requests} were in flight")
    } else {
        "fewer were in flight from the first response of the trial on".to_owned()
    };
    Some(format!(
        "a trial has {}, fewer than the {in_flight} to be in flight, so {reached}: this is not that load; ask for more requests, or for a duration",
        counted(requests, "request")
    ))
}

/// The share of its rate that an open loop may lose to a short warm-up without a remark.
const SMALL_LOSS: f64 = 0.05;

/// States that the rates of an open loop that ends by the clock are too low because responses take longer than the warm-up: those that are in flight at its
/// end are in no rate, and as many were not there at its beginning. `None` if that is little.
fn short_warmup_text(work: &ServingWork, found: &PointSummary) -> Option<String> {
    let duration_ns = work.duration_ns.filter(|_| work.arrival != ArrivalLaw::Closed && work.requests.is_none())?;
    let response_ms = median(found, Metric::E2e, Statistic::P50)?;
    let missing_ms = response_ms - work.warmup_ns.0 as f64 / 1e6;
    let loss = (missing_ms / (duration_ns.0 as f64 / 1e6)).min(1.0);
    (loss >= SMALL_LOSS).then(|| {
        format!(
            "half of the responses took {} s or more, and the warm-up {}: rates count what ends in the {} of a trial, so if the endpoint keeps up, \
             requests/s, tokens/s and goodput are about {} below those of a steady load; make the warm-up as long as a response",
            Format::new(response_ms / 1e3, None).show(response_ms / 1e3),
            seconds(work.warmup_ns),
            seconds(duration_ns),
            percent(loss)
        )
    })
}

fn changing_text(profile: &RateProfile) -> String {
    let (lowest, highest) = profile.range_per_s();
    format!(
        "the rate changed in each trial, from {lowest} to {highest} per second at most, so the load was not stationary: percentiles and rates \
         are over all of it"
    )
}

/// States the share of requests that waited for a place under the cap, and for how long; `None` if none waited, or if the load has no cap.
fn queued_text(work: &ServingWork, found: &PointSummary) -> Option<String> {
    let cap = work.max_concurrency?;
    let share = median(found, Metric::QueuedShare, Statistic::Value).filter(|share| *share > 0.0)?;
    let wait =
        median(found, Metric::QueueWait, Statistic::P99).map_or_else(String::new, |ms| format!("; queue wait p99 {ms:.1} ms"));
    Some(format!(
        "{} of the requests waited because as many were in flight as `max_concurrency` allows ({cap}){wait}; latencies count from the \
         time at which a request was due, so they include the wait",
        percent(share)
    ))
}

/// States how late the turns of users were because the responses before them had not ended; `None` if few were, or for another load.
fn back_pressure_text(work: &ServingWork, found: &PointSummary) -> Option<String> {
    let late = |statistic| median(found, Metric::BackPressure, statistic).filter(|_| work.arrival == ArrivalLaw::Users);
    let (p50, p99) = (late(Statistic::P50)?, late(Statistic::P99).filter(|ms| *ms > 0.0)?);
    Some(format!(
        "turns were due after the times that their users had planned, because the responses before them had not ended: by {p50:.1} ms (p50) and \
         {p99:.1} ms (p99); latencies count from the time at which a turn was due, so they do not include that"
    ))
}

/// States the share of requests that the client cancelled; `None` if the workload plans none.
fn cancelled_text(work: &ServingWork, found: &PointSummary) -> Option<String> {
    let cancel = work.cancel?;
    let share = median(found, Metric::CancelledShare, Statistic::Value)?;
    Some(format!(
        "{} of the requests were cancelled by the client, {} after they were sent (`cancel`: a share of {}); they are no failures, and no \
         latency and no rate has them",
        percent(share),
        seconds(cancel.after_ns),
        percent(cancel.share)
    ))
}

/// The most adapters that are named one by one.
const MAX_ADAPTERS: usize = 10;

/// States how many requests asked for each adapter, those with most of them first; `None` if requests had none.
fn adapters_text(found: &PointSummary) -> Option<String> {
    let mut numbers: Vec<_> = found.serving.as_ref()?.adapters.iter().collect();
    numbers.sort_by_key(|(_, found)| std::cmp::Reverse(found.requests.0));
    let shown = numbers.iter().take(MAX_ADAPTERS).map(|(name, found)| format!("{} {}", clean(name), grouped(found.requests.0)));
    let more = numbers.len().saturating_sub(MAX_ADAPTERS);
    let rest = (more > 0).then(|| counted(more as u64, "more adapter"));
    let all: Vec<String> = shown.chain(rest).collect();
    (!all.is_empty()).then(|| format!("requests by adapter: {}", all.join(", ")))
}

/// Returns the median of a metric over the trials.
fn median(found: &PointSummary, metric: Metric, statistic: Statistic) -> Option<f64> {
    let name = metric.name(statistic)?;
    found.metrics.iter().find(|metric| metric.metric == name.text).map(|metric| metric.median)
}

#[cfg(test)]
mod tests {
    use assay_manifest::{AdapterRequests, Count, History, MetricSummary, PauseLaw, ReasoningHistory, SessionPlay, Sessions};

    use super::*;
    use crate::run::fixture;

    /// Returns the texts of a load with a cap of 8, of whose requests this share waited.
    fn texts(share: f64, profile: Option<RateProfile>) -> Vec<String> {
        let model = fixture::serving::small();
        let mut found = model.summary.points[0].clone();
        let of = |name: &str, median: f64| MetricSummary { metric: name.to_owned(), median, ..found.metrics[0].clone() };
        let metrics = vec![of("queued_share", share), of("queue_wait_ms_p99", 120.26)];
        found.metrics.extend(metrics);
        let mut work = model.plan.workloads[0].serving.clone().expect("it serves");
        (work.max_concurrency, work.rate_profile) = (Some(Count(8)), profile);
        course_texts(&work, &model.plan.cases[0].points[0], &found)
    }

    #[test]
    fn a_load_that_never_was_in_flight_is_no_measurement_of_it() {
        let model = fixture::serving::small();
        let mut work = model.plan.workloads[0].serving.clone().expect("it serves");
        let mut point = model.plan.cases[0].points[0].clone();
        point.kind = PointKind::Concurrency;
        point.value = [("concurrency".to_owned(), "64".to_owned())].into();
        let mut said = |requests: u64, warmup_ns: u64| {
            (work.requests, work.warmup_ns) = (Some(Count(requests)), Count(warmup_ns));
            too_few_text(&work, &point).unwrap_or_default()
        };
        assert_eq!(said(64, 0), "");
        insta::assert_snapshot!(said(8, 0), @"a trial has 8 requests, fewer than the 64 to be in flight, so no more than 8 were in flight: this is not that load; ask for more requests, or for a duration");
        assert!(said(63, 1).contains("fewer were in flight from the first response of the trial on"));
        work.requests = None;
        assert_eq!(too_few_text(&work, &point), None);
    }

    #[test]
    fn a_warm_up_shorter_than_a_response_lowers_the_rates_of_an_open_loop() {
        let model = fixture::serving::small();
        let mut found = model.summary.points[0].clone();
        let e2e = MetricSummary { metric: "e2e_ms_p50".to_owned(), median: 5_100.0, ..found.metrics[0].clone() };
        found.metrics.retain(|metric| metric.metric != e2e.metric);
        found.metrics.push(e2e);
        let mut work = model.plan.workloads[0].serving.clone().expect("it serves");
        (work.arrival, work.requests) = (ArrivalLaw::Poisson, None);
        let mut said = |warmup_s: u64, duration_s: u64| {
            (work.warmup_ns, work.duration_ns) = (Count(warmup_s * 1_000_000_000), Some(Count(duration_s * 1_000_000_000)));
            short_warmup_text(&work, &found).unwrap_or_default()
        };
        insta::assert_snapshot!(said(1, 10), @"half of the responses took 5.10 s or more, and the warm-up 1 s: rates count what ends in the 10 s of a trial, so if the endpoint keeps up, requests/s, tokens/s and goodput are about 41 % below those of a steady load; make the warm-up as long as a response");
        assert!(said(0, 1).contains("about 100 % below"), "nothing ends in the trial");
        assert_eq!((said(5, 10), said(1, 100)), (String::new(), String::new()), "long enough");
        (work.arrival, work.warmup_ns, work.duration_ns) = (ArrivalLaw::Closed, Count(0), Some(Count(1_000_000_000)));
        assert_eq!(short_warmup_text(&work, &found), None, "a closed loop counts by fractions");
    }

    #[test]
    fn turns_are_said_to_come_earlier_only_if_idle_time_was_cut() {
        let model = fixture::serving::small();
        let mut work = model.plan.workloads[0].serving.clone().expect("it serves");
        let play = SessionPlay { idle_cap_ns: Some(Count(10_000_000_000)), ..SessionPlay::default() };
        work.sessions = Some(Sessions {
            turns: None,
            think_time: PauseLaw::Recorded,
            count: None,
            history: History::Recorded,
            reasoning: ReasoningHistory::Drop,
            play,
        });
        let said = |cut_ns: Option<u64>| {
            let mut found = model.summary.points[0].clone();
            found.serving.as_mut().expect("it serves").idle_cut_ns = cut_ns.map(Count);
            played_texts(&work, &found).join("; ")
        };
        insta::assert_snapshot!(said(Some(0)), @"no turn came earlier: none waited for longer than 10 s while nothing was in flight");
        insta::assert_snapshot!(said(Some(1)), @"waiting turns came earlier by 1.00e-9 s in all, because nothing was in flight for 10 s");
        insta::assert_snapshot!(said(Some(2_500_000_000)), @"waiting turns came earlier by 2.50 s in all, because nothing was in flight for 10 s");
        assert_eq!(said(None), "", "no trial counts");
    }

    #[test]
    fn requests_by_adapter_are_stated_most_of_them_first() {
        let model = fixture::serving::small();
        let mut found = model.summary.points[0].clone();
        let some = |count: u64| AdapterRequests { requests: Count(count), latencies: std::collections::BTreeMap::new() };
        let of = |numbers: &[(&str, u64)]| numbers.iter().map(|(name, count)| ((*name).to_owned(), some(*count))).collect();
        let serving = found.serving.as_mut().expect("it serves");
        assert_eq!(serving.adapters, std::collections::BTreeMap::new());
        serving.adapters = of(&[("chat", 250), ("sql", 750)]);
        assert_eq!(adapters_text(&found).as_deref(), Some("requests by adapter: sql 750, chat 250"));
        let names: Vec<String> = (0..12).map(|place| format!("a{place:02}")).collect();
        found.serving.as_mut().expect("it serves").adapters = names.iter().map(|name| (name.clone(), some(1))).collect();
        assert!(adapters_text(&found).expect("adapters").ends_with("a08 1, a09 1, 2 more adapters"));
    }

    #[test]
    fn requests_that_the_client_cancelled_are_stated() {
        let model = fixture::serving::small();
        let mut found = model.summary.points[0].clone();
        found.metrics.push(MetricSummary { metric: "cancelled_share".to_owned(), median: 0.093, ..found.metrics[0].clone() });
        let mut work = model.plan.workloads[0].serving.clone().expect("it serves");
        work.cancel = Some(assay_manifest::Cancellation { share: 0.1, after_ns: Count(500_000_000) });
        insta::assert_snapshot!(course_texts(&work, &model.plan.cases[0].points[0], &found).join("\n"), @"9.3 % of the requests were cancelled by the client, 0.5 s after they were sent (`cancel`: a share of 10 %); they are no failures, and no latency and no rate has them");
    }

    #[test]
    fn requests_that_waited_and_a_rate_that_changed_are_stated() {
        assert_eq!(texts(0.0, None), [""; 0]);
        insta::assert_snapshot!(texts(0.37, None).join("\n"), @"37 % of the requests waited because as many were in flight as `max_concurrency` allows (8); queue wait p99 120.3 ms; latencies count from the time at which a request was due, so they include the wait");
        let falling = RateProfile::Linear { from_per_s: 50.0, to_per_s: 2.5 };
        insta::assert_snapshot!(texts(0.0, Some(falling)).join("\n"), @"the rate changed in each trial, from 2.5 to 50 per second at most, so the load was not stationary: percentiles and rates are over all of it");
    }
}
