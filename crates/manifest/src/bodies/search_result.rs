//! The result of a search for a load: the rounds that led to the loads to measure, so that a reader can replay it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{body, words};
use crate::{Artifact, Count, Digest, Instant, LoadKind, RunId, Slo};

words!(
    /// The purpose of a search.
    SearchGoal, "goal of a search",
    /// The loads from one request in flight to as many as bring no more throughput.
    Sweep = "sweep",
    /// The highest rate of independent arrivals that meets the SLOs.
    MaxRate = "max_rate",
    /// The most requests in flight of a closed loop that meet the SLOs.
    MaxConcurrency = "max_concurrency",
);

words!(
    /// The end of a search.
    SearchOutcome, "end of a search",
    /// A sweep is complete.
    Swept = "swept",
    /// The most load within the SLOs lies within a bracket.
    Found = "found",
    /// Even the lowest load that was tried falls short of the SLOs.
    NoneMet = "none_met",
    /// Even the highest load that may be tried meets the SLOs.
    AllMet = "all_met",
    /// The observations contradict each other for as long as a search may last.
    Unsettled = "unsettled",
);

/// A load of a search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchLoad {
    /// Its kind.
    pub kind: LoadKind,
    /// The requests in flight, or the arrivals per second.
    pub amount: f64,
}

/// The question of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchQuestion {
    /// The purpose.
    pub goal: SearchGoal,
    /// The SLOs; empty for a sweep without any.
    pub slos: Vec<Slo>,
    /// The share of the requests that have to be within every SLO, above 0 and at most 1.
    pub share: f64,
    /// The width of the bracket at which the search ends, as a share of its lower end.
    pub precision: f64,
    /// The most requests in flight of a closed loop that are tried.
    pub max_concurrency: u32,
}

/// The work that was searched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchedWork {
    /// The name of the model.
    pub model: String,
    /// The digest of the frozen `spec` without `load` and `seed`, in canonical form: equal in all rounds.
    pub spec: Digest,
    /// The digest of the target in the Plans, in canonical form: equal in all rounds.
    pub target: Digest,
    /// The address of the target if the Plans state it, or else its kind.
    pub endpoint: String,
}

/// The observation of one load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchObservation {
    /// The load.
    pub load: SearchLoad,
    /// The requests that count.
    pub requests: Count,
    /// The share of them that failed, from 0 to 1.
    pub error_rate: f64,
    /// Responses per second.
    pub requests_per_s: f64,
    /// The mean time of a request from its start to its end, in seconds.
    pub mean_latency_s: f64,
    /// The share of the requests that were within every SLO, from 0 to 1; absent without SLOs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub good_fraction: Option<f64>,
    /// True if the trial ended early because requests arrived faster than they were served.
    pub over_saturated: bool,
}

/// A round of a search: a run of one trial for each load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchRound {
    /// The run.
    pub run_id: RunId,
    /// The digest of its Publication, which is an input of this document.
    pub publication: Digest,
    /// The observations, in ascending order of their loads.
    pub observations: Vec<SearchObservation>,
}

/// The loads between which the share of good requests falls below the requested one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchBracket {
    /// The highest load that meets it.
    pub meets: SearchLoad,
    /// The lowest load that does not.
    pub falls_short: SearchLoad,
    /// The load between them at which the share is crossed, on a straight line.
    pub crossing: f64,
}

/// The end of a search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchEnd {
    /// The reason for which it ended.
    pub outcome: SearchOutcome,
    /// The bracket, if one was found.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bracket: Option<SearchBracket>,
    /// The lowest load that falls short, or the highest that meets the SLOs, if no bracket was found because of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub load: Option<SearchLoad>,
}

/// The loads of a sweep that have a name.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchLandmarks {
    /// The fewest requests in flight.
    pub idle: SearchLoad,
    /// The load of the highest throughput over latency.
    pub knee: SearchLoad,
    /// The fewest requests in flight with the highest throughput, less 1 %.
    pub limit: SearchLoad,
}

/// The result of a search: it leads to the loads to measure, and publishes no number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchResult {
    /// The time at which the search ended.
    pub ended_at: Instant,
    /// The question.
    pub question: SearchQuestion,
    /// The work.
    pub work: SearchedWork,
    /// The rounds, in their order.
    pub rounds: Vec<SearchRound>,
    /// The end.
    pub end: SearchEnd,
    /// The loads to measure, in ascending order; empty if the search found none.
    pub grid: Vec<SearchLoad>,
    /// The landmarks of a sweep; absent if it reached no limit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub landmarks: Option<SearchLandmarks>,
    /// The public key of the signer. It vouches for nothing by itself: a trust policy names the keys that may sign.
    pub key: Artifact,
}

body!(SearchResult, |result| vec![&result.key]);

impl SearchResult {
    /// The name of the public key among the outputs.
    pub const KEY: &'static str = "keys/source.pub";
}

/// The search result that a workload names, as the Plan pins it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PinnedSearch {
    /// The manifest of the search result.
    pub manifest: Artifact,
    /// Its bundle.
    pub bundle: Artifact,
}

impl PinnedSearch {
    /// The media type of the manifest and of the bundle among the outputs of a Plan.
    pub const MEDIA_TYPE: &str = "application/json";

    /// Returns the names of the manifest and of the bundle among the outputs of a Plan, for a workload of this name.
    pub fn names(workload: &crate::Name) -> [String; 2] {
        ["json", "sigstore.json"].map(|extension| format!("workloads/{workload}/search_result.{extension}"))
    }
}
