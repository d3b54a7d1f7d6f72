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

words!(
    /// The kind of the loads of a case.
    LoadKind, "kind of loads",
    /// Numbers of requests or sessions in flight.
    Concurrency = "concurrency",
    /// Arrivals of requests or sessions per second.
    Rate = "rate",
);

words!(
    /// The place of the most load within the SLOs of one trial.
    CrossingPlace, "place of a crossing",
    /// Between two of the loads.
    Within = "within",
    /// Below the lowest load, which falls short of the SLOs.
    Below = "below",
    /// At the highest load or above it, because even that one is within the SLOs.
    AtLeast = "at_least",
);

words!(
    /// The part of machines whose energy is stated.
    EnergyBoundary, "boundary of energy",
    /// GPUs, with their memory.
    Gpu = "gpu",
    /// CPU packages, without the memory beside them.
    CpuPackage = "cpu package",
);

words!(
    /// The way in which joules follow from readings.
    EnergyMethod, "method of energy",
    /// The increase of counters of energy.
    Counter = "counter",
    /// The mean of samples of power, times the time.
    Approximated = "approximated",
);

/// The energy of a point for its work, by the telemetry of a source. No published number comes from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PointEnergy {
    /// The case.
    pub case_id: CaseId,
    /// The point.
    pub point_id: PointId,
    /// The source, such as `host` or `prometheus/fleet`.
    pub source: String,
    /// The part of machines that it is of.
    pub boundary: EnergyBoundary,
    /// The way in which it was computed.
    pub method: EnergyMethod,
    /// The number of objects that were added up, whether or not they serve the target.
    pub objects: Count,
    /// The number of counted attempts that have a value.
    pub attempts: Count,
    /// The median over these attempts of the joules for each output token; absent if an attempt has no output tokens.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub joules_per_output_token: Option<f64>,
    /// The median over these attempts of the joules for each request that succeeded.
    pub joules_per_request: f64,
}

/// The shortest measured phase of a trial that may be the only one of a point and have intervals within its run, in nanoseconds: 900 s, as
/// the rules of AgentX ask for. Anything shorter can be repeated instead.
pub const WITHIN_RUN_NS: u64 = 900_000_000_000;

/// The name of the metric that is the most load within the SLOs.
pub const MAX_LOAD: &str = "max_load";

/// The name that takes the place of a point where a number is about all loads of a case. No load has this name.
pub const ALL_LOADS: &str = "all-loads";

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

/// The most load within the SLOs in one trial, over all loads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialCrossing {
    /// The number of the trial, from 0: it has this number at every load.
    pub index: u32,
    /// The place of the most load within the SLOs.
    pub place: CrossingPlace,
    /// The most load within the SLOs or, if it is outside of the loads, the lowest or the highest of them.
    pub load: f64,
}

/// Two neighbouring loads, or a range of several, that are too far from each other for a number between them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadBracket {
    /// A load that is within the SLOs in every trial.
    pub meets: f64,
    /// A load that falls short in every trial.
    pub falls_short: f64,
}

/// All loads of a case together. It is in a Summary if the workload has SLOs, and its points are two or more loads of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllLoads {
    /// The case.
    pub case_id: CaseId,
    /// The name that takes the place of a point in rows and numbers: `all-loads`.
    pub point_id: PointId,
    /// The digest that decides comparability.
    pub workload_spec_digest: Digest,
    /// The kind of the loads.
    pub load: LoadKind,
    /// Their unit.
    pub unit: String,
    /// The trials that say at every load if it is within the SLOs, in their order: with enough requests for 99 of 100 of them to be less than all,
    /// with so many that are not good that 100 would fall short, or with attempts that do not count because all requests failed.
    pub crossings: Vec<TrialCrossing>,
    /// The loads around the most load within the SLOs, if some trial crosses between loads that are too far from each other.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bracket: Option<LoadBracket>,
    /// The most load within the SLOs across these trials (`max_load`); empty unless every one of them crosses between loads that are near each other.
    pub metrics: Vec<MetricSummary>,
}

impl AllLoads {
    /// Returns the most load within the SLOs across trials, if it is known.
    pub fn max_load(&self) -> Option<&MetricSummary> {
        self.metrics.iter().find(|metric| metric.metric == MAX_LOAD)
    }

    /// Returns the number of trials with this place of the crossing.
    pub fn count(&self, place: CrossingPlace) -> u32 {
        self.crossings.iter().map(|trial| u32::from(trial.place == place)).sum()
    }

    /// Returns the id of a trial of all loads: trial number `index` of every load.
    pub fn trial_id(&self, index: u32) -> TrialId {
        TrialId::from_parts(&self.case_id, &self.point_id, index)
    }
}

/// The place of a number: a point of a case, or all loads of the case together.
#[derive(Clone, Copy, Debug)]
pub struct NumberPlace<'a> {
    /// The case.
    pub case_id: &'a CaseId,
    /// The point, or [`ALL_LOADS`].
    pub point_id: &'a PointId,
    /// The digest that decides comparability.
    pub workload_spec_digest: Digest,
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
    /// The numbers of all loads of a case together, in the plan's order of the cases.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub all_loads: Vec<AllLoads>,
    /// The energy of points, by source and boundary; empty if no source has a meter of energy.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub energy: Vec<PointEnergy>,
    /// The curated files.
    pub files: Vec<CuratedFile>,
    /// The data that plots are drawn from (`Views` as canonical JSON), if there is serving.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub views: Option<Artifact>,
}

body!(Summary, |summary| summary.files.iter().map(|file| &file.artifact).chain(&summary.views).collect());

impl<'a> From<&'a PointSummary> for NumberPlace<'a> {
    fn from(point: &'a PointSummary) -> Self {
        Self { case_id: &point.case_id, point_id: &point.point_id, workload_spec_digest: point.workload_spec_digest }
    }
}

impl<'a> From<&'a AllLoads> for NumberPlace<'a> {
    fn from(loads: &'a AllLoads) -> Self {
        Self { case_id: &loads.case_id, point_id: &loads.point_id, workload_spec_digest: loads.workload_spec_digest }
    }
}

impl Summary {
    /// Returns the metrics of every place that has numbers: those of the points, then those of all loads of each case.
    pub fn places(&self) -> impl Iterator<Item = (NumberPlace<'_>, &[MetricSummary])> {
        let of_points = self.points.iter().map(|point| (NumberPlace::from(point), point.metrics.as_slice()));
        let of_loads = self.all_loads.iter().map(|loads| (NumberPlace::from(loads), loads.metrics.as_slice()));
        of_points.chain(of_loads)
    }

    /// Returns all loads of a case together, if they say anything.
    pub fn all_loads_of(&self, case_id: &CaseId) -> Option<&AllLoads> {
        self.all_loads.iter().find(|loads| loads.case_id == *case_id)
    }
}

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
