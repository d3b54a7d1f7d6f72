//! Checks the serving numbers of a point of the Summary against the Plan, against what the execution parts state about its attempts, and against each
//! other. Numbers that follow from records alone are compared at level 4.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{
    AdapterRequests, AgentxFacts, AgentxVerdict, Count, FrozenWorkload, JudgedScenario, ServingOutcome, ServingPoint,
    ServingWork, SessionCounts,
};
use assay_metric::{Formula, Metric, Use};

/// Requests by outcome.
type Outcomes = BTreeMap<String, Count>;

/// A serving point by the signed evidence other than the Summary.
pub(super) struct SignedPoint<'a> {
    pub(super) workload: &'a FrozenWorkload,
    pub(super) work: &'a ServingWork,
    /// The number of points of its case, each of which is a load.
    pub(super) loads: usize,
    /// The counted attempt of each trial, by its shards.
    pub(super) counted: Vec<Vec<&'a ServingOutcome>>,
    /// The shards of attempts that do not count.
    pub(super) excluded: Vec<&'a ServingOutcome>,
}

impl SignedPoint<'_> {
    /// Returns a field of the Summary's point that contradicts this evidence, or another field.
    pub(super) fn find_difference(&self, serving: &ServingPoint) -> Option<&'static str> {
        let measured = add_outcomes(self.shards().map(|shard| &shard.outcomes));
        let excluded = add_outcomes(self.excluded.iter().flat_map(|shard| [&shard.warmup_outcomes, &shard.outcomes]));
        let occurred: Outcomes = measured.into_iter().filter(|(_, count)| count.0 > 0).collect();
        let latency_from = if self.work.has_intended_times() { "intended" } else { "sent" };
        let comparisons = [
            ("`outcomes`", serving.outcomes == occurred),
            ("`requests`", serving.requests.0 == total(&serving.outcomes)),
            ("`excluded_outcomes`", serving.excluded_outcomes == excluded),
            ("`duration_ns`", serving.duration_ns.0 == self.measured_ns().fold(0, u64::saturating_add)),
            ("`latency_from`", serving.latency_from == latency_from),
            ("`warmed_turns`", serving.warmed_turns == add_stated(self.shards().map(|shard| shard.warmed_turns))),
            ("`idle_cut_ns`", serving.idle_cut_ns == add_stated(self.shards().map(|shard| shard.idle_cut_ns))),
            ("`adapters`", self.has_adapters(serving)),
            ("`sessions`", self.can_have_sessions(serving.sessions.as_ref())),
            ("`agentx`", self.has_verdict(serving)),
        ];
        comparisons.into_iter().find(|(_, is_same)| !is_same).map(|(what, _)| what)
    }

    fn shards(&self) -> impl Iterator<Item = &ServingOutcome> {
        self.counted.iter().flatten().copied()
    }

    /// Returns the length of the measured phase of each counted trial, from the first shard's start of it to the last one's end.
    fn measured_ns(&self) -> impl Iterator<Item = u64> {
        self.counted.iter().map(|shards| {
            let start = shards.iter().map(|shard| shard.measured_from_ns.0).min().unwrap_or(0);
            let end = shards.iter().map(|shard| shard.measured_to_ns.0).max().unwrap_or(0);
            end.saturating_sub(start)
        })
    }

    /// Returns true if the adapters are those of the Plan, and each request asked for one of them.
    fn has_adapters(&self, serving: &ServingPoint) -> bool {
        let planned: BTreeSet<&str> = self.work.adapters.iter().map(|adapter| adapter.name.as_str()).collect();
        let requests = serving.adapters.values().map(|adapter| adapter.requests.0).fold(0, u64::saturating_add);
        let are_planned = serving.adapters.keys().map(String::as_str).eq(planned.iter().copied());
        let are_complete = planned.is_empty() || requests == serving.requests.0;
        are_planned && are_complete && serving.adapters.values().all(has_possible_latencies) && has_possible_samples(serving)
    }

    /// Returns true if that many sessions can be those of the requests that execute states, of both phases. It states no sessions.
    fn can_have_sessions(&self, sessions: Option<&SessionCounts>) -> bool {
        let Some(sessions) = sessions else { return self.work.sessions.is_none() };
        let requests = add_outcomes(self.shards().flat_map(|shard| [&shard.outcomes, &shard.warmup_outcomes]));
        let (all, ok) = (total(&requests), count(&requests, "ok"));
        let ended = sessions.complete.0.saturating_add(sessions.failed.0);
        let has_turns = sessions.begun.0 <= all && (sessions.begun.0 > 0 || all == 0);
        let has_ends = ended <= sessions.begun.0 && sessions.complete.0 <= ok && sessions.failed.0 <= all.saturating_sub(ok);
        self.work.sessions.is_some() && has_turns && has_ends
    }

    /// Returns true if the point has the verdict that the rules of AgentX give, if its workload is judged by them. The number of requests that were
    /// too long for the endpoint is taken from the verdict itself, because only records state it; it is at most that of the failed ones.
    fn has_verdict(&self, serving: &ServingPoint) -> bool {
        let is_judged = self.work.scenario == Some(JudgedScenario::Agentx);
        let Some(verdict) = &serving.agentx else { return !is_judged };
        let occurred = |word: &str| count(&serving.outcomes, word);
        let failed = serving.requests.0.saturating_sub(occurred("cancelled")).saturating_sub(occurred("ok"));
        let overflows = stated_overflows(verdict);
        let facts = AgentxFacts {
            seed: &self.workload.seed,
            loads: self.loads,
            measured_ns: self.measured_ns().collect(),
            requests: serving.requests.0,
            failed,
            overflows,
        };
        is_judged && overflows <= failed && AgentxVerdict::judge(self.work, &facts) == *verdict
    }
}

fn add_outcomes<'a>(all: impl Iterator<Item = &'a Outcomes>) -> Outcomes {
    let mut sum = Outcomes::new();
    for (word, count) in all.flatten() {
        let of_word = sum.entry(word.clone()).or_default();
        of_word.0 = of_word.0.saturating_add(count.0);
    }
    sum
}

fn total(outcomes: &Outcomes) -> u64 {
    outcomes.values().map(|count| count.0).fold(0, u64::saturating_add)
}

fn count(outcomes: &Outcomes, word: &str) -> u64 {
    outcomes.get(word).map_or(0, |count| count.0)
}

/// Adds up the counts of shards; `None` if no shard states one.
fn add_stated(counts: impl Iterator<Item = Option<Count>>) -> Option<Count> {
    counts.flatten().reduce(|sum, count| Count(sum.0.saturating_add(count.0)))
}

/// Returns the number of requests that were too long for the endpoint, with which the reason for too many of them begins; 0 without the reason.
fn stated_overflows(verdict: &AgentxVerdict) -> u64 {
    let reason = verdict.reasons.iter().find(|reason| reason.code == AgentxVerdict::OVERFLOW_CODE);
    reason.and_then(|reason| reason.detail.split(' ').next()?.parse().ok()).unwrap_or(0)
}

/// Returns true if the latencies of an adapter can be those of its requests.
fn has_possible_latencies(adapter: &AdapterRequests) -> bool {
    adapter.latencies.iter().all(|(key, latency)| {
        let is_latency = Metric::find(key).is_some_and(|metric| metric.is_per_request() && metric.has_use(Use::Curve));
        is_latency && (1..=adapter.requests.0).contains(&latency.n.0) && latency.p50_ms <= latency.p99_ms
    })
}

/// Returns true if no latency that ends with a part of the response is of more requests than succeeded, over all adapters.
fn has_possible_samples(serving: &ServingPoint) -> bool {
    let mut samples: BTreeMap<&str, u64> = BTreeMap::new();
    for (key, latency) in serving.adapters.values().flat_map(|adapter| &adapter.latencies) {
        let of_key = samples.entry(key).or_default();
        *of_key = of_key.saturating_add(latency.n.0);
    }
    let ok = count(&serving.outcomes, "ok");
    let is_before_response =
        |metric: Metric| matches!(metric.definition().formula, Formula::Span { to, .. } if !to.is_of_response());
    samples.into_iter().all(|(key, n)| n <= ok || Metric::find(key).is_some_and(is_before_response))
}

#[cfg(test)]
mod tests;
