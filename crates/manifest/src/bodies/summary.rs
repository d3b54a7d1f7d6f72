//! Summary: statistics with their intervals, and the curated rows that hold them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{body, words};
use crate::{Artifact, BetterDirection, CaseId, Count, Digest, PointId, Reason, ServingPoint, TrialId, WorkloadType};

words!(
    /// The agreement of a point's trials with each other.
    Stability, "stability",
    /// The trials agree.
    Stable = "stable",
    /// The trials do not agree.
    Unstable = "unstable",
    /// There are too few trials to decide.
    Unknown = "unknown",
);

words!(
    /// The share of the planned trials that count.
    RunStatus, "status of a run",
    /// Every planned trial counts.
    Succeeded = "succeeded",
    /// Some planned trials count.
    Partial = "partial",
    /// No planned trial counts.
    Failed = "failed",
);

words!(
    /// The variation that an interval holds.
    IntervalKind, "kind of an interval",
    /// That from trial to trial.
    BetweenTrials = "between_trials",
    /// That between the sessions of the only trial, and not that from run to run.
    WithinRun = "within_run",
);

/// The shortest measured phase of a trial that may be the only one of a point and have intervals within its run, in nanoseconds: 900 s, as
/// the rules of AgentX ask for. Anything shorter can be repeated instead.
pub const WITHIN_RUN_NS: u64 = 900_000_000_000;

/// A confidence interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// Lower end, in the metric's unit.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The level that was reached, such as 0.95.
    pub level: f64,
    /// The method, such as `bootstrap_percentile`.
    pub method: String,
    /// The variation that it holds.
    pub kind: IntervalKind,
    /// The number of sessions that it was computed over; absent unless it is within a run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sessions: Option<Count>,
}

/// One trial's value of a metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialValue {
    /// The trial.
    pub trial_id: TrialId,
    /// The attempt that counts.
    pub attempt: u32,
    /// The trial's value: for an indicator the median of its samples, for serving the statistic that the metric names.
    pub value: f64,
    /// The number of samples that it was computed from.
    pub n: Count,
    /// True if it lies far from the other trials; flagged values are kept.
    pub flagged: bool,
    /// The row that holds it.
    pub row_id: Digest,
}

/// A metric across the counted trials of a point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricSummary {
    /// The metric's path in the result.
    pub metric: String,
    /// Its unit; `unknown` if it is not declared.
    pub unit: String,
    /// The direction that is better; absent if it is not declared.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub better: Option<BetterDirection>,
    /// True if gates judge it.
    pub primary: bool,
    /// The number of trials.
    pub n: Count,
    /// The median of the trials' values.
    pub median: f64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation with ddof 1; absent for fewer than two trials.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sd: Option<f64>,
    /// Standard deviation over mean; absent if either is missing or the mean is 0.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cv: Option<f64>,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// The interval of the median; absent if the trials, or the sessions of the only trial, cannot support one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub interval: Option<Interval>,
    /// The reason why there is no interval.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub interval_absent: Option<String>,
    /// The agreement of the trials.
    pub stability: Stability,
    /// The reason for that verdict.
    pub stability_reason: String,
    /// The rows of the statistics across trials, by statistic.
    pub rows: BTreeMap<String, Digest>,
    /// The trials' values, in trial order.
    pub trials: Vec<TrialValue>,
}

/// An attempt that does not count, with the reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Exclusion {
    /// The trial.
    pub trial_id: TrialId,
    /// The attempt.
    pub attempt: u32,
    /// The reasons why it does not count.
    pub reasons: Vec<Reason>,
}

/// A point of a case with all its metrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PointSummary {
    /// The case.
    pub case_id: CaseId,
    /// The point.
    pub point_id: PointId,
    /// The type of the workload.
    pub workload_type: WorkloadType,
    /// The digest that decides comparability.
    pub workload_spec_digest: Digest,
    /// The point's values.
    pub value: BTreeMap<String, String>,
    /// Planned trials.
    pub trials_planned: u32,
    /// Trials that count.
    pub trials_counted: u32,
    /// All attempts, valid or not.
    pub attempts: u32,
    /// The attempts that do not count.
    pub excluded: Vec<Exclusion>,
    /// For serving: the requests of the point.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub serving: Option<ServingPoint>,
    /// The metrics, declared ones first.
    pub metrics: Vec<MetricSummary>,
}

/// A curated file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CuratedFile {
    /// The table that its rows belong to.
    pub table: String,
    /// The number of its rows.
    pub rows: Count,
    /// The Parquet file.
    pub artifact: Artifact,
}

/// Statistics and curated rows. Reproducible byte for byte: equal inputs and an equal reduce binary give equal bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// The plan's body digest.
    pub plan_digest: Digest,
    /// The digest of the Collection's manifest.
    pub artifact_manifest_digest: Digest,
    /// The digest of the reduce binary; `--recompute` is exact with it and within a tolerance with another.
    pub reduce_binary: Digest,
    /// The share of the planned trials that count.
    pub status: RunStatus,
    /// The problems of the run as a whole.
    pub issues: Vec<Reason>,
    /// The points, in the plan's order.
    pub points: Vec<PointSummary>,
    /// The curated files.
    pub files: Vec<CuratedFile>,
    /// The data that plots are drawn from (`Views` as canonical JSON), if there is serving.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub views: Option<Artifact>,
}

body!(Summary, |summary| summary.files.iter().map(|file| &file.artifact).chain(&summary.views).collect());

impl PointSummary {
    /// Returns the kind of the intervals of its metrics; `None` if none has an interval. All of a point are of one kind.
    pub fn interval_kind(&self) -> Option<IntervalKind> {
        self.metrics.iter().find_map(|metric| metric.interval.as_ref()).map(|interval| interval.kind)
    }

    /// Returns true if its numbers rest on one trial, with intervals within its run: no trial was repeated.
    pub fn is_within_run(&self) -> bool {
        self.interval_kind() == Some(IntervalKind::WithinRun)
    }
}

impl MetricSummary {
    /// Returns the statistics across trials by name, without those that could not be computed.
    pub fn statistics(&self) -> Vec<(&'static str, f64)> {
        let mut statistics = vec![("median", self.median), ("mean", self.mean), ("min", self.min), ("max", self.max)];
        statistics.extend(self.sd.map(|sd| ("sd", sd)));
        statistics.extend(self.cv.map(|cv| ("cv", cv)));
        statistics.extend(self.interval.iter().flat_map(|interval| [("ci_low", interval.low), ("ci_high", interval.high)]));
        statistics
    }

    /// Returns the kind of the interval of which a statistic is an end; `None` for any other statistic.
    pub fn interval_kind_of(&self, statistic: &str) -> Option<IntervalKind> {
        self.interval.as_ref().filter(|_| matches!(statistic, "ci_low" | "ci_high")).map(|interval| interval.kind)
    }

    /// Returns the statistic of that name, if it could be computed.
    pub fn statistic(&self, name: &str) -> Option<f64> {
        self.statistics().into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}
