//! A load of a serving case, and the outcomes of its requests.

use std::collections::BTreeMap;

use assay_manifest::{
    AdapterRequests, Count, FailedRequests, Point, PointKind, PointSummary, PointView, ServingPoint, ServingWork, SessionCounts,
};
use assay_metric::Metric;

use super::breakdown::AdapterLatency;
use super::cache_hits::CacheHits;
use super::course::{agentx_text, course_texts};
use super::outcome::PLANNED_CANCELLATION;
use super::time_slices::TimeSlices;
use super::views::{Curve, Timeline};
use crate::render::number::{grouped, percent, significant};
use crate::render::text::{clean, clip, counted};

/// Maximum number of outcomes that a point names; there are only so many kinds of outcome, but a hostile Summary can invent more.
const MAX_OUTCOMES: usize = 12;

/// Maximum length of an endpoint's message, in characters.
const MAX_MESSAGE: usize = 120;

/// A load, and the outcomes of its requests.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Load {
    /// Concurrency, or request rate per second; `None` if it is neither.
    pub(crate) amount: Option<f64>,
    /// `64`, `2.5/s`: the load for labels without room for words.
    pub(crate) short: String,
    /// Number of requests that were due; if no attempt counts, those of all attempts, because their outcomes are the only result.
    pub(crate) requests: u64,
    /// True if the requests belong to attempts that do not count.
    pub(crate) are_excluded: bool,
    /// The requests of attempts that do not count.
    pub(crate) excluded: ExcludedRequests,
    pub(crate) ok: u64,
    /// Those that the client cancelled as planned.
    pub(crate) cancelled: u64,
    /// The failed requests by their kind, most frequent first.
    pub(crate) failures: Vec<Failure>,
    pub(crate) slo_met: Option<bool>,
    /// True if responses are streamed, so that their tokens have times.
    pub(crate) is_streamed: bool,
    /// The input tokens from a prefix cache that was to be cold; `None` if there are few, or if the endpoint reports none.
    pub(crate) cache_hits: Option<CacheHits>,
    /// The differences between the endpoint's counts of tokens and those of the client: rates of tokens rest on them.
    pub(crate) token_differences: Vec<String>,
    /// The token counts of the endpoint that are not used, if there are any.
    pub(crate) usage_faults: Option<String>,
    /// The facts on the course of the load that change the meaning of its numbers: requests that waited under a cap, and a rate that changed.
    pub(crate) course: Vec<String>,
    /// The judgement by the rules of AgentX; `None` if it is not judged by them.
    pub(crate) agentx: Option<String>,
    /// Latencies by LoRA adapter, of those with the most requests.
    pub(crate) adapters: BTreeMap<String, AdapterLatency>,
    /// The sessions without a latency, if they are more than a few.
    pub(crate) sessions_left_out: Option<String>,
    /// The instant that latencies count from; empty if nothing was measured.
    pub(crate) latency_from: String,
    pub(crate) token_sources: Vec<(String, u64)>,
    pub(crate) tpot_assumed: u64,
    pub(crate) curves: Vec<Curve>,
    pub(crate) timeline: Option<Timeline>,
    pub(crate) time_slices: Option<TimeSlices>,
}

/// Returns the name of a load: `concurrency 64`, `2.5 req/s`, `speed 2`, of sessions `64 sessions`, `2.5 sessions/s` and `15 users, 1 req/s`; `None` for
/// another kind of point.
pub(crate) fn label(point: &Point, has_sessions: bool) -> Option<String> {
    let value = |name: &str| point.value.get(name).filter(|_| point.value.len() == 1).map(|text| clean(text));
    match point.kind {
        PointKind::Concurrency if has_sessions => {
            value("concurrency").map(|text| format!("{text} session{}", if text == "1" { "" } else { "s" }))
        }
        PointKind::Rate if has_sessions => value("rate").map(|text| rate_label(&text, "sessions/s")),
        PointKind::Concurrency => value("concurrency").map(|text| format!("concurrency {text}")),
        PointKind::Rate => value("rate").map(|text| rate_label(&text, "req/s")),
        PointKind::Users => users(point).map(|(users, rate)| {
            let (users, rate) = (clean(users), clean(rate));
            format!("{users} user{}, {rate} req/s", if users == "1" { "" } else { "s" })
        }),
        PointKind::Speed => value("speed").map(|text| format!("speed {text}")),
        PointKind::Scale | PointKind::Parameters => None,
    }
}

/// Returns the number of users of a point and the rate of their turns.
fn users(point: &Point) -> Option<(&str, &str)> {
    let value = |name: &str| point.value.get(name).filter(|_| point.value.len() == 2).map(String::as_str);
    value("users").zip(value("rate"))
}

/// Returns `2.5 req/s`, or `1..50 req/s linear` for a rate that changes.
fn rate_label(text: &str, unit: &str) -> String {
    match text.split_once(' ') {
        Some((rates, course)) => format!("{rates} {unit} {course}"),
        None => format!("{text} {unit}"),
    }
}

impl Load {
    pub(crate) fn new(work: Option<&ServingWork>, point: &Point, found: &PointSummary, view: Option<&PointView>) -> Self {
        let serving = found.serving.as_ref();
        let value = match point.kind {
            PointKind::Concurrency => point.value.get("concurrency").map(|text| (text.as_str(), "")),
            PointKind::Rate => point.value.get("rate").map(|text| (text.split(' ').next().unwrap_or_default(), "/s")),
            PointKind::Speed => point.value.get("speed").map(|text| (text.as_str(), "x")),
            // Which of its two numbers a sweep of users varies is not known here.
            PointKind::Users | PointKind::Scale | PointKind::Parameters => None,
        };
        let of_users = || users(point).map(|(users, rate)| format!("{users} at {rate}/s"));
        let short = value.map(|(text, unit)| format!("{text}{unit}")).or_else(of_users);
        let short = clean(&short.unwrap_or_else(|| point.point_id.to_string()));
        let are_excluded = serving.is_some_and(|serving| serving.requests.0 == 0 && !serving.excluded_outcomes.is_empty());
        let outcomes = serving.map(|serving| if are_excluded { &serving.excluded_outcomes } else { &serving.outcomes });
        let excluded = serving.map(|serving| ExcludedRequests::new(&serving.excluded_outcomes)).unwrap_or_default();
        let kinds = serving.filter(|_| !are_excluded).map(|serving| serving.failures.as_slice()).unwrap_or_default();
        let ok = outcomes.and_then(|outcomes| outcomes.get("ok")).map_or(0, |count| count.0);
        Self {
            amount: value.and_then(|(text, _)| text.parse().ok()).filter(|amount: &f64| amount.is_finite()),
            short,
            requests: if are_excluded { excluded.all } else { serving.map_or(0, |serving| serving.requests.0) },
            are_excluded,
            excluded,
            ok,
            cancelled: outcomes.and_then(|outcomes| outcomes.get(PLANNED_CANCELLATION)).map_or(0, |count| count.0),
            failures: failures(outcomes, kinds),
            slo_met: serving.and_then(|serving| serving.slo_met),
            is_streamed: work.is_none_or(ServingWork::is_streamed),
            course: work.map(|work| course_texts(work, point, found)).unwrap_or_default(),
            agentx: serving.and_then(agentx_text),
            cache_hits: work.and_then(|work| CacheHits::new(work, found)),
            adapters: serving.map(adapters).unwrap_or_default(),
            sessions_left_out: serving
                .and_then(|serving| sessions_left_out(serving.sessions.as_ref()?, work.is_some_and(|work| work.warmup_ns.0 > 0))),
            token_differences: work.map(|work| token_differences(work, found)).unwrap_or_default(),
            usage_faults: serving.and_then(usage_faults),
            latency_from: serving.map(|serving| latency_from(&serving.latency_from)).unwrap_or_default(),
            token_sources: serving.map(token_sources).unwrap_or_default(),
            tpot_assumed: serving.map_or(0, |serving| serving.tpot_assumed.0),
            curves: view.map(|view| view.curves.iter().map(Curve::new).collect()).unwrap_or_default(),
            timeline: view.and_then(|view| view.timeline.as_ref()).and_then(Timeline::from_view),
            time_slices: view.and_then(|view| view.time_slices.as_ref()).and_then(TimeSlices::from_view),
        }
    }

    /// Returns the number of requests that neither succeeded nor were cancelled as planned.
    pub(crate) fn failed(&self) -> u64 {
        self.judged().saturating_sub(self.ok)
    }

    /// Returns the number of requests that could succeed or fail: those that the client did not cancel as planned.
    pub(crate) fn judged(&self) -> u64 {
        self.requests.saturating_sub(self.cancelled)
    }

    /// Returns the share of failed requests among those that could succeed or fail.
    pub(crate) fn failed_share(&self) -> f64 {
        self.failed() as f64 / self.judged().max(1) as f64
    }

    /// Returns the noun for the requests that [`judged`](Self::judged) counts, and their number: `800 requests`, or `800 counted requests`
    /// if attempts that do not count have others.
    pub(crate) fn requests_text(&self) -> String {
        let noun = match (self.has_uncounted(), self.cancelled) {
            (true, 0) => "counted request",
            (true, _) => "counted and uncancelled request",
            (false, 0) => "request",
            (false, _) => "uncancelled request",
        };
        counted(self.judged(), noun)
    }

    /// Returns true if attempts that do not count have requests beside the counted ones.
    pub(crate) fn has_uncounted(&self) -> bool {
        !self.are_excluded && self.excluded.all > 0
    }

    /// Returns `timeout × 30, http_error 500 × 10`.
    pub(crate) fn failure_text(&self) -> String {
        let kind = |failure: &Failure| format!("{} × {}", failure.kind, grouped(failure.count));
        self.failures.iter().map(kind).collect::<Vec<_>>().join(", ")
    }

    /// Returns the message of the most frequent failures that have one; those of the endpoint come before the client's own.
    pub(crate) fn failure_message(&self) -> Option<String> {
        let of_endpoint = self.failures.iter().filter(|failure| failure.has_status);
        of_endpoint.chain(&self.failures).find_map(Failure::describe_message)
    }

    /// Returns the distribution of that metric.
    pub(crate) fn curve(&self, metric: &str) -> Option<&Curve> {
        self.curves.iter().find(|curve| curve.metric == metric && !curve.quantiles.is_empty())
    }
}

/// The outcome of requests that were in flight when their trial ended: they were cancelled by the client.
pub(super) const CANCELLED_AT_END: &str = "cancelled_at_end";

/// The requests of attempts that do not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ExcludedRequests {
    pub(crate) all: u64,
    /// Those that failed without being cancelled.
    failed: u64,
    cancelled: u64,
}

impl ExcludedRequests {
    pub(super) fn new(outcomes: &BTreeMap<String, Count>) -> Self {
        let count = |outcome: &str| outcomes.get(outcome).map_or(0, |count| count.0);
        let all = outcomes.values().fold(0_u64, |sum, count| sum.saturating_add(count.0));
        let cancelled = count(CANCELLED_AT_END).saturating_add(count(PLANNED_CANCELLATION));
        Self { all, failed: all.saturating_sub(count("ok")).saturating_sub(cancelled), cancelled }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            all: self.all.saturating_add(other.all),
            failed: self.failed.saturating_add(other.failed),
            cancelled: self.cancelled.saturating_add(other.cancelled),
        }
    }

    /// Returns `480 of 500 requests failed and 20 were cancelled`.
    pub(super) fn describe(self) -> String {
        self.describe_ends(&counted(self.all, "request"))
    }

    /// Returns the clause about these requests after one about counted ones; empty if all succeeded.
    pub(super) fn clause(self) -> String {
        match (self.failed, self.cancelled) {
            (0, 0) => String::new(),
            _ => format!("; {} in attempts that do not count", self.describe_ends(&grouped(self.all))),
        }
    }

    fn describe_ends(self, all: &str) -> String {
        let cancelled = match self.cancelled {
            1 => "1 was cancelled".to_owned(),
            some => format!("{} were cancelled", grouped(some)),
        };
        match (self.failed, cancelled.split_once(' ')) {
            (0, Some((some, were_cancelled))) if self.cancelled > 0 => format!("{some} of {all} {were_cancelled}"),
            (failed, _) if self.cancelled == 0 => format!("{} of {all} failed", grouped(failed)),
            (failed, _) => format!("{} of {all} failed and {cancelled}", grouped(failed)),
        }
    }
}

/// Failed requests of the same kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The outcome, and the status code if there is one: `http_error 500`.
    pub(crate) kind: String,
    pub(crate) count: u64,
    /// True if they have a response with a status code.
    has_status: bool,
    /// The error of the first of them that has one.
    message: Option<String>,
}

impl Failure {
    /// Returns ``the first http_error 500: `engine died` ``.
    pub(crate) fn describe_message(&self) -> Option<String> {
        self.message.as_ref().map(|message| format!("the first {}: `{message}`", self.kind))
    }
}

/// Returns failed requests by their kind, most frequent first: those that the Summary lists by status code, then the rest by outcome.
pub(super) fn failures<'a>(
    outcomes: impl IntoIterator<Item = &'a BTreeMap<String, Count>>,
    listed: impl IntoIterator<Item = &'a FailedRequests>,
) -> Vec<Failure> {
    let mut rest: BTreeMap<&str, u64> = BTreeMap::new();
    for (outcome, count) in
        outcomes.into_iter().flatten().filter(|(outcome, _)| !["ok", PLANNED_CANCELLATION].contains(&outcome.as_str()))
    {
        let sum = rest.entry(outcome).or_default();
        *sum = sum.saturating_add(count.0);
    }
    let mut kinds: BTreeMap<(&str, Option<u16>), Failure> = BTreeMap::new();
    for found in listed {
        // A status of success is no reason for a failure.
        let status = found.http_status.filter(|status| !(200..300).contains(status));
        let failure = kinds.entry((&found.outcome, status)).or_insert_with(|| Failure {
            kind: status.map_or_else(|| clean(&found.outcome), |status| format!("{} {status}", clean(&found.outcome))),
            count: 0,
            has_status: found.http_status.is_some(),
            message: found.message.as_deref().map(quotable).filter(|message| !message.is_empty()),
        });
        failure.count = failure.count.saturating_add(found.count.0);
        if let Some(rest) = rest.get_mut(found.outcome.as_str()) {
            *rest = rest.saturating_sub(found.count.0);
        }
    }
    let others = rest.into_iter().map(|(outcome, count)| {
        let is_listed = kinds.keys().any(|(known, _)| *known == outcome);
        let kind = if is_listed { format!("other {}", clean(outcome)) } else { clean(outcome) };
        Failure { kind, count, has_status: false, message: None }
    });
    let others: Vec<Failure> = others.collect();
    let mut failures: Vec<Failure> = kinds.into_values().chain(others).filter(|failure| failure.count > 0).collect();
    failures.sort_by_key(|failure| std::cmp::Reverse(failure.count));
    let count = failures.iter().skip(MAX_OUTCOMES).fold(0_u64, |sum, failure| sum.saturating_add(failure.count));
    failures.truncate(MAX_OUTCOMES);
    failures.extend((count > 0).then(|| Failure { kind: "other".to_owned(), count, has_status: false, message: None }));
    failures
}

/// Returns a message of an endpoint as one short line that can stand between backticks.
fn quotable(message: &str) -> String {
    let line = clean(message).replace('`', "'");
    clip(&line.split_whitespace().collect::<Vec<_>>().join(" "), MAX_MESSAGE)
}

/// The share of other lengths, and of more or fewer tokens, from which on the Summary has an issue.
const REPORTED_DIFFERENCE: f64 = 0.1;

/// The share of sessions that did not come to their end from which on it is remarked.
const REMARKED_SESSIONS: f64 = 0.05;

/// Returns TTFT by adapter, or E2E where no response has a token event; without the adapters that have neither.
fn adapters(serving: &ServingPoint) -> BTreeMap<String, AdapterLatency> {
    let of = |found: &AdapterRequests| {
        let latency = |metric: Metric| Some((metric, found.latencies.get(metric.definition().key)?));
        let (metric, latency) = latency(Metric::Ttft).or_else(|| latency(Metric::E2e))?;
        Some(AdapterLatency { metric, requests: latency.n.0, p50_ms: latency.p50_ms, p99_ms: latency.p99_ms })
    };
    serving.adapters.iter().filter_map(|(name, found)| Some((clean(name), of(found)?))).collect()
}

/// States how many sessions have no latency: those are more often long ones, or those of a bad moment. The counts are of both phases.
fn sessions_left_out(sessions: &SessionCounts, has_warmup: bool) -> Option<String> {
    let (begun, failed, cut) = (sessions.begun.0, sessions.failed.0, sessions.cut());
    let is_remarked = (failed + cut) as f64 > REMARKED_SESSIONS * begun as f64;
    is_remarked.then(|| {
        format!(
            "{} of {}{} did not come to their last turn ({} failed, {} cut by the end of the trial), and have no session latency",
            grouped(failed + cut),
            counted(begun, "session"),
            if has_warmup { ", those of the warm-up included," } else { "" },
            grouped(failed),
            grouped(cut)
        )
    })
}

fn token_differences(work: &ServingWork, found: &PointSummary) -> Vec<String> {
    let median = |name: &str| found.metrics.iter().find(|metric| metric.metric == name).map(|metric| metric.median);
    let lengths = median("osl_mismatch_rate").filter(|share| *share > REPORTED_DIFFERENCE);
    let counts_events = found.serving.as_ref().is_some_and(|serving| serving.token_sources.contains_key(TOKEN_EVENTS));
    let count = if counts_events { "token events, of which each may have several tokens" } else { "the endpoint's own count" };
    let lengths = lengths.map(|share| {
        let share = percent(share);
        if work.exact_output {
            return format!(
                "{share} of the responses have another length than was requested exactly; tokens/s and TPOT rest on {count}"
            );
        }
        let mean = median("osl_tokens_mean").map(|mean| format!(": {} tokens on average", significant(mean, None)));
        let mean = mean.unwrap_or_default();
        format!("{share} of the responses differ by more than 5 % from their limit of output tokens{mean}, which requests/s, tokens/s and E2E rest on")
    });
    let inputs = median("isl_endpoint_difference").filter(|share| share.abs() > REPORTED_DIFFERENCE).map(|share| {
        let more = if share > 0.0 { "more" } else { "fewer" };
        format!("the endpoint counts {} {more} input tokens than the workload's tokenizer", percent(share.abs()))
    });
    lengths.into_iter().chain(inputs).chain(found.serving.as_ref().and_then(uncounted_tokens)).collect()
}

/// States the responses without a token count of the endpoint. Counts that are not used have a remark of their own.
fn uncounted_tokens(serving: &ServingPoint) -> Option<String> {
    let of_source = |source: &str| serving.token_sources.get(source).map_or(0, |count| count.0);
    let responses: u64 = serving.token_sources.values().map(|count| count.0).sum();
    let uncounted = of_source(TOKEN_EVENTS);
    (uncounted > 0 && serving.usage_faults.is_empty()).then(|| {
        format!(
            "{} of {} have no token count of the endpoint (`usage`); tokens/s and TPOT rest on token events, of which each may have several \
             tokens",
            grouped(uncounted),
            counted(responses, "successful response")
        )
    })
}

/// The source of token counts if the endpoint states none that is used, and the response is streamed.
const TOKEN_EVENTS: &str = "chunks";

/// States the token counts of the endpoint that are not used: the reasons, what is used instead, and the number of responses.
fn usage_faults(serving: &ServingPoint) -> Option<String> {
    let faults = by_count(serving.usage_faults.iter().map(|(fault, count)| (fault, count.0)));
    if faults.is_empty() {
        return None;
    }
    let has = |source: &str| serving.token_sources.contains_key(source);
    let of_output = match (has(TOKEN_EVENTS), has("unknown")) {
        (true, false) => "token events are counted instead",
        (true, true) => "token events are counted instead where there are any",
        (false, _) => "the number of output tokens is not known",
    };
    let mut instead: Vec<&str> = Vec::new();
    for (fault, _) in &faults {
        let used = match fault.as_str() {
            "input_not_a_count" => "the tokenizer's count of the input is used instead",
            "cached_exceeds_input" | "reasoning_exceeds_output" | "part_not_a_count" => "these counts are left out",
            _ => of_output,
        };
        if !instead.contains(&used) {
            instead.push(used);
        }
    }
    let problems: Vec<&str> = faults.iter().map(|(fault, _)| describe_fault(fault)).collect();
    let counts: Vec<String> = faults.iter().map(|(fault, count)| format!("`{fault}` in {}", grouped(*count))).collect();
    let ok = serving.outcomes.get("ok").map_or(0, |count| count.0);
    Some(format!(
        "the endpoint states {}: {}; {} of {}",
        problems.join(", and "),
        instead.join(", and "),
        counts.join(", "),
        counted(ok, "successful response")
    ))
}

/// Describes a token count that is not used.
fn describe_fault(fault: &str) -> &str {
    match fault {
        "output_exceeds_limit" => "more output tokens than its requests allow",
        "output_is_zero" => "no output tokens for a response with text",
        "output_not_a_count" => "output tokens that are no whole number of 32 bits",
        "not_an_object" => "a `usage` that is no object",
        "input_not_a_count" => "input tokens that are no whole number of 32 bits",
        "cached_exceeds_input" => "more cached tokens than input tokens",
        "reasoning_exceeds_output" => "more reasoning tokens than output tokens",
        "part_not_a_count" => "a part of its tokens that is no whole number of 32 bits",
        other => other,
    }
}

/// Returns a readable name of the instant that latencies count from.
fn latency_from(word: &str) -> String {
    match word {
        "sent" => "the send time".to_owned(),
        "intended" => "the intended send time".to_owned(),
        other => clean(other),
    }
}

fn token_sources(serving: &ServingPoint) -> Vec<(String, u64)> {
    by_count(serving.token_sources.iter().map(|(source, count)| (source, count.0)))
}

/// Returns the names with their counts, most frequent first; beyond [`MAX_OUTCOMES`], the rest is one entry.
fn by_count<'a>(counts: impl Iterator<Item = (&'a String, u64)>) -> Vec<(String, u64)> {
    let mut counts: Vec<(String, u64)> =
        counts.filter(|(_, count)| *count > 0).map(|(name, count)| (clean(name), count)).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let rest: u64 = counts.iter().skip(MAX_OUTCOMES).map(|(_, count)| count).sum();
    counts.truncate(MAX_OUTCOMES);
    counts.extend((rest > 0).then(|| ("other".to_owned(), rest)));
    counts
}

#[cfg(test)]
mod tests {
    use assay_manifest::MetricSummary;
    use assay_record::UsageFault;

    use super::*;

    fn counts(outcomes: &[(&str, u64)]) -> BTreeMap<String, Count> {
        outcomes.iter().map(|(outcome, count)| ((*outcome).to_owned(), Count(*count))).collect()
    }

    fn listed(outcome: &str, http_status: Option<u16>, count: u64, message: &str) -> FailedRequests {
        FailedRequests { outcome: outcome.to_owned(), http_status, message: Some(message.to_owned()), count: Count(count) }
    }

    #[test]
    fn sessions_without_a_latency_are_stated_if_they_are_many() {
        let counts =
            |begun, complete, failed| SessionCounts { begun: Count(begun), complete: Count(complete), failed: Count(failed) };
        assert_eq!(sessions_left_out(&counts(100, 95, 2), false), None);
        assert_eq!(
            sessions_left_out(&counts(100, 90, 2), false).as_deref(),
            Some(
                "10 of 100 sessions did not come to their last turn (2 failed, 8 cut by the end of the trial), and have no session latency"
            )
        );
        let of_both = sessions_left_out(&counts(100, 90, 2), true).expect("a remark");
        assert!(of_both.starts_with("10 of 100 sessions, those of the warm-up included, did not come"), "{of_both}");
    }

    #[test]
    fn counts_of_tokens_that_differ_are_stated() {
        let model = crate::run::fixture::serving::small();
        let work = model.plan.workloads[0].serving.clone().expect("it serves");
        let mut found = model.summary.points[0].clone();
        assert_eq!(token_differences(&work, &found), [""; 0]);
        for (name, median) in [("osl_mismatch_rate", 0.4), ("isl_endpoint_difference", -0.25)] {
            let metric = MetricSummary { metric: name.to_owned(), median, ..found.metrics[0].clone() };
            found.metrics.retain(|metric| metric.metric != name);
            found.metrics.push(metric);
        }
        let stated = token_differences(&work, &found);
        assert_eq!(
            stated,
            [
                "40 % of the responses have another length than was requested exactly; tokens/s and TPOT rest on the endpoint's own count",
                "the endpoint counts 25 % fewer input tokens than the workload's tokenizer",
            ]
        );
        let inexact = ServingWork { exact_output: false, ..work };
        let mean = MetricSummary { metric: "osl_tokens_mean".to_owned(), median: 105.66, ..found.metrics[0].clone() };
        found.metrics.retain(|metric| metric.metric != "osl_tokens_mean");
        found.metrics.push(mean);
        assert_eq!(
            token_differences(&inexact, &found),
            [
                "40 % of the responses differ by more than 5 % from their limit of output tokens: 106 tokens on average, which requests/s, tokens/s and E2E rest on",
                &stated[1],
            ],
            "where the model ends a response itself"
        );
    }

    #[test]
    fn responses_without_a_count_of_tokens_are_stated() {
        let mut model = crate::run::fixture::serving::small();
        let serving = model.summary.points[0].serving.as_mut().expect("it serves");
        let mut stated = |faults: &[(&str, u64)], sources: &[(&str, u64)]| {
            (serving.usage_faults, serving.token_sources) = (counts(faults), counts(sources));
            uncounted_tokens(serving).unwrap_or_default()
        };
        assert_eq!(stated(&[], &[("usage", 20)]), "");
        assert_eq!(stated(&[], &[("unknown", 20)]), "", "a whole response has no events");
        assert_eq!(stated(&[("output_is_zero", 20)], &[("chunks", 20)]), "", "the count that is not used is stated");
        insta::assert_snapshot!(stated(&[], &[("usage", 1), ("chunks", 19)]), @"19 of 20 successful responses have no token count of the endpoint (`usage`); tokens/s and TPOT rest on token events, of which each may have several tokens");
    }

    #[test]
    fn counts_that_are_not_used_are_stated_with_what_is_used_instead() {
        let mut model = crate::run::fixture::serving::small();
        let serving = model.summary.points[0].serving.as_mut().expect("it serves");
        serving.outcomes = counts(&[("ok", 20)]);
        let mut stated = |faults: &[(&str, u64)], sources: &[(&str, u64)]| {
            (serving.usage_faults, serving.token_sources) = (counts(faults), counts(sources));
            usage_faults(serving).unwrap_or_default()
        };
        assert_eq!(stated(&[], &[("usage", 20)]), "");
        insta::assert_snapshot!(stated(&[("output_exceeds_limit", 20)], &[("chunks", 20)]), @"the endpoint states more output tokens than its requests allow: token events are counted instead; `output_exceeds_limit` in 20 of 20 successful responses");
        insta::assert_snapshot!(stated(&[("output_not_a_count", 1)], &[("usage", 19), ("unknown", 1)]), @"the endpoint states output tokens that are no whole number of 32 bits: the number of output tokens is not known; `output_not_a_count` in 1 of 20 successful responses");
        insta::assert_snapshot!(
            stated(&[("input_not_a_count", 3), ("cached_exceeds_input", 9), ("reasoning_exceeds_output", 2)], &[("usage", 20)]),
            @"the endpoint states more cached tokens than input tokens, and input tokens that are no whole number of 32 bits, and more reasoning tokens than output tokens: these counts are left out, and the tokenizer's count of the input is used instead; `cached_exceeds_input` in 9, `input_not_a_count` in 3, `reasoning_exceeds_output` in 2 of 20 successful responses"
        );
        assert!(!stated(&[("x\u{1b}[31m", 1)], &[("usage", 20)]).contains('\u{1b}'));
        for fault in &UsageFault::ALL[1..] {
            assert_ne!(describe_fault(fault.as_str()), fault.as_str(), "each reason has a description");
        }
    }

    #[test]
    fn failures_have_their_status_and_the_rest_their_outcome() {
        let outcomes = counts(&[("ok", 300), ("http_error", 151), ("timeout", 9), ("truncated", 3)]);
        let kinds = [
            listed("http_error", Some(500), 100, "a\n `b`  c"),
            listed("http_error", Some(429), 41, &"x".repeat(200)),
            listed("truncated", Some(200), 3, "closed"),
        ];
        let failures = failures([&outcomes], &kinds);
        let shown: Vec<String> = failures.iter().map(|failure| format!("{} × {}", failure.kind, failure.count)).collect();
        assert_eq!(
            shown,
            ["http_error 500 × 100", "http_error 429 × 41", "other http_error × 10", "timeout × 9", "truncated × 3"]
        );
        assert_eq!(failures[0].describe_message().as_deref(), Some("the first http_error 500: `a 'b' c`"));
        assert_eq!(failures[1].message.as_ref().map(|message| message.chars().count()), Some(MAX_MESSAGE));
        assert_eq!(failures[3].describe_message(), None);
    }

    #[test]
    fn cancelled_requests_are_not_called_failed() {
        let clause = |outcomes: &[(&str, u64)]| ExcludedRequests::new(&counts(outcomes)).clause();
        assert_eq!(clause(&[("ok", 4), (CANCELLED_AT_END, 2)]), "; 2 of 6 were cancelled in attempts that do not count");
        assert_eq!(clause(&[(CANCELLED_AT_END, 1)]), "; 1 of 1 was cancelled in attempts that do not count");
        assert_eq!(clause(&[("ok", 480), ("timeout", 20)]), "; 20 of 500 failed in attempts that do not count");
        assert_eq!(
            clause(&[("timeout", 20), (CANCELLED_AT_END, 2)]),
            "; 20 of 22 failed and 2 were cancelled in attempts that do not count"
        );
        assert_eq!(clause(&[("ok", 4)]), "");
        assert_eq!(ExcludedRequests::new(&counts(&[(CANCELLED_AT_END, 3)])).describe(), "3 of 3 requests were cancelled");
    }
}
