//! Publication: published numbers with their lineage, and the result of the claim rules.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{body, words};
use crate::{Artifact, Control, Count, Digest, Instant, Intent, RunId};

words!(
    /// The source of a number.
    NumberSource, "source of a number",
    /// A query file in Git.
    Query = "query",
    /// The curated rows themselves.
    Rows = "rows",
);

words!(
    /// The outcome of a run of a case, as publish found it.
    RunOutcome, "outcome of a run",
    /// This run.
    This = "this",
    /// It has a Summary.
    Finished = "finished",
    /// It was cancelled.
    Cancelled = "cancelled",
    /// It failed.
    Failed = "failed",
    /// It has not ended.
    Unfinished = "unfinished",
);

/// A rule that the requested grade needs and the run does not meet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Shortfall {
    /// The name of the rule, such as `clean_commit`.
    pub rule: String,
    /// The fact that was found instead.
    pub found: String,
}

/// The requested grade and the given one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Grade {
    /// The grade that the pipeline requests.
    pub requested: Intent,
    /// The grade that the run earned.
    pub given: Intent,
    /// The reasons why it is below the requested grade.
    pub shortfalls: Vec<Shortfall>,
    /// For a publication: the environment controls that rest only on a person's declaration. Telemetry neither contradicts nor
    /// proves them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub declared: Vec<Control>,
}

/// Another run of a published case, listed so that a lucky run cannot be published alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListedRun {
    /// The run.
    pub run_id: RunId,
    /// The cases that it shares with this one.
    pub cases: Vec<String>,
    /// Its outcome.
    pub outcome: RunOutcome,
    /// The manifest that shows the outcome: Summary or RunEnd.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub evidence: Option<Digest>,
}

/// A published number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Number {
    /// `<run>/<table>/<row id>/<column>`.
    pub address: String,
    /// The case.
    pub benchmark_case_id: String,
    /// The point.
    pub point_id: String,
    /// The metric.
    pub metric: String,
    /// The statistic.
    pub statistic: String,
    /// The value.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// The number of trials.
    pub n: Count,
    /// The source of the number.
    pub source: NumberSource,
    /// The query file, for `query`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub query: Option<Artifact>,
    /// The curated file that holds the row.
    pub file: Digest,
}

/// The numbers document, `numbers.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Numbers {
    /// The run.
    pub run_id: RunId,
    /// The grade.
    pub grade: Grade,
    /// The manifest of the Summary.
    pub summary: Digest,
    /// The published numbers.
    pub numbers: Vec<Number>,
}

/// A query of the Plan, and its result over the run's curated files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedQuery {
    /// Its path in the repository.
    pub path: String,
    /// The digest of its text (`query_spec_digest`).
    pub digest: Digest,
    /// The number of rows in the result.
    pub rows: Count,
    /// The result, as CSV: repeating the query gives the same bytes.
    pub result: Artifact,
}

/// Published numbers with their lineage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Publication {
    /// The plan's body digest.
    pub plan_digest: Digest,
    /// The manifest of the Summary.
    pub summary: Digest,
    /// The trust policy that the chain was verified under.
    pub trust_policy: Digest,
    /// The time of publication.
    pub published_at: Instant,
    /// The grade.
    pub grade: Grade,
    /// All runs of the published cases.
    pub runs: Vec<ListedRun>,
    /// Versions of the warehouse's tables that hold the rows, by table: the receipt of the commit.
    pub warehouse_snapshot: BTreeMap<String, Count>,
    /// The queries that the pipeline pins, in its order, with their results.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub queries: Vec<PublishedQuery>,
    /// `numbers.json`.
    pub numbers: Artifact,
    /// `report.md` and `report.html`.
    pub reports: Vec<Artifact>,
    /// The trust policy and public keys, so that the published folder verifies on its own.
    pub keys: Vec<Artifact>,
}

body!(Publication, |publication| {
    let results = publication.queries.iter().map(|query| &query.result);
    std::iter::once(&publication.numbers).chain(&publication.reports).chain(&publication.keys).chain(results).collect()
});
