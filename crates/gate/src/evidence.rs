//! The evidence of a run for both sides of its comparison, from its signed manifests.

use std::collections::BTreeMap;

use assay_manifest::{
    BetterDirection, Case, Comparison, Difference, Digest, EarlierEnd, Environment, ExecutionPart, InputRef, Isolation, MAX_LOAD,
    MetricSummary, Name, PairUnit, Placement, Plan, PointId, PointSummary, Reason, RunId, Side, Source, Summary, TargetKind,
    TrialId, TrialPair,
};

use crate::max_loads::pair_loads;
use crate::sides::{differences, is_on_side};

/// The name of the reason why metrics are inconclusive whose intervals are within one run, and of the check that says so.
pub const WITHIN_RUN: &str = "within_run";

/// The reason itself.
pub(crate) const ONE_TRIAL: &str = "a side was measured in one trial: its intervals are within run and do not hold the variation from run to run, so \
                                    one trial never decides";

/// One run, as far as a gate reads it. The caller that creates one has verified its chain.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// The run's id.
    pub run_id: &'a RunId,
    /// The source that it was built from.
    pub source: &'a Source,
    /// The run's plan.
    pub plan: &'a Plan,
    /// The environments of its blocks.
    pub environments: Vec<&'a Environment>,
    /// The results of its shards.
    pub parts: Vec<&'a ExecutionPart>,
    /// The run's Summary, and the reference to it.
    pub summary: (InputRef, &'a Summary),
    /// The tree that it measured: the commit's, or the digest of its definition files if it measured no commit.
    pub tree: String,
    /// The names of the signers of its chain.
    pub signers: Vec<String>,
    /// True if a trust policy establishes every signer.
    pub established: bool,
    /// The ends of earlier attempts under its name, before its Summary was signed, oldest first.
    pub earlier_ends: Vec<EarlierEnd>,
}

impl Run<'_> {
    /// Returns the differences between its sides other than the variable under test.
    pub(crate) fn differences(&self, comparison: &Comparison) -> Vec<Difference> {
        let schedules = self.parts.iter().flat_map(|part| &part.schedule_digests).map(|(trial, digest)| (trial, *digest));
        differences(self.plan, &self.environments, &schedules.collect(), comparison)
    }
}

/// The key of a metric at a point of certain work.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetricKey {
    /// The workload.
    pub workload: Name,
    /// The `workload_spec_digest` of the workload: nothing is known of other work.
    pub work: Digest,
    /// The point.
    pub point: PointId,
    /// The metric.
    pub metric: String,
    /// The unit drawn anew for each pair: pairs of launches tell nothing about sides that stay up, nor the reverse.
    pub unit: PairUnit,
}

/// A metric of a point on both sides.
#[derive(Clone, Debug)]
pub(crate) struct ComparedMetric<'a> {
    /// The baseline's case.
    pub(crate) case: &'a Case,
    pub(crate) point: &'a PointId,
    pub(crate) metric: &'a str,
    pub(crate) unit: &'a str,
    /// True if gates judge it by default.
    pub(crate) primary: bool,
    /// True if only gates that name it judge it.
    pub(crate) needs_name: bool,
    pub(crate) better: BetterDirection,
    pub(crate) pairs: Vec<TrialPair>,
    /// The number of planned pairs.
    pub(crate) planned: u32,
    /// The digest of the work.
    pub(crate) work: Digest,
    /// True if a side of every run was measured in one trial, with intervals within the run.
    pub(crate) is_within_run: bool,
    /// The reason why the evidence decides nothing, whatever its pairs say.
    pub(crate) undecided: Option<Reason>,
}

impl ComparedMetric<'_> {
    /// Returns the key of this metric in a history.
    pub(crate) fn metric_key(&self, unit: PairUnit) -> MetricKey {
        MetricKey {
            workload: self.case.workload.clone(),
            work: self.work,
            point: self.point.clone(),
            metric: self.metric.to_owned(),
            unit,
        }
    }
}

/// Returns every metric that both sides report and that declares which direction is better, in the plan's order, with its pairs
/// of one run. After the points of a case comes the most load within the SLOs over all of them.
pub(crate) fn pair_metrics<'a>(run: &Run<'a>, number: u32, comparison: &Comparison) -> Vec<ComparedMetric<'a>> {
    let indexes: BTreeMap<&TrialId, u32> = run.plan.trials.iter().map(|trial| (&trial.trial_id, trial.index)).collect();
    let mut all = Vec::new();
    for case in run.plan.cases.iter().filter(|case| is_on_side(case, &comparison.baseline)) {
        let other =
            run.plan.cases.iter().find(|other| other.workload == case.workload && is_on_side(other, &comparison.candidate));
        for point in &case.points {
            let of = |case: &Case| point_of(run.summary.1, case, &point.point_id);
            let (Some(baseline), Some(candidate)) = (of(case), other.and_then(of)) else { continue };
            let is_within_run = baseline.is_within_run() || candidate.is_within_run();
            for metric in &baseline.metrics {
                let beside = candidate.metrics.iter().find(|beside| beside.metric == metric.metric);
                let Some(better) = metric.better else { continue };
                let pairs = pairs(number, metric, beside, &indexes);
                all.push(ComparedMetric {
                    case,
                    point: &point.point_id,
                    metric: &metric.metric,
                    unit: &metric.unit,
                    primary: metric.primary,
                    needs_name: false,
                    better,
                    pairs,
                    planned: run.plan.trial_policy.count,
                    work: baseline.workload_spec_digest,
                    is_within_run,
                    undecided: None,
                });
            }
        }
        all.extend(other.and_then(|other| compare_loads(run, number, case, other)));
    }
    all
}

/// Returns the most load within the SLOs of both cases of a workload; `None` unless both have loads that may say it.
fn compare_loads<'a>(run: &Run<'a>, number: u32, case: &'a Case, other: &Case) -> Option<ComparedMetric<'a>> {
    let [baseline, candidate] = [case, other].map(|case| run.summary.1.all_loads_of(&case.case_id));
    let (baseline, candidate) = (baseline?, candidate?);
    let (pairs, undecided) = match pair_loads(number, [baseline, candidate]) {
        Ok(pairs) => (pairs, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    Some(ComparedMetric {
        case,
        point: &baseline.point_id,
        metric: MAX_LOAD,
        unit: &baseline.unit,
        primary: false,
        needs_name: true,
        better: BetterDirection::Higher,
        pairs,
        planned: run.plan.trial_policy.count,
        work: baseline.workload_spec_digest,
        is_within_run: false,
        undecided,
    })
}

fn point_of<'a>(summary: &'a Summary, case: &Case, point: &PointId) -> Option<&'a PointSummary> {
    summary.points.iter().find(|summary| summary.case_id == case.case_id && summary.point_id == *point)
}

/// Returns the values of both sides for every round in which both count.
fn pairs(
    run: u32,
    baseline: &MetricSummary,
    candidate: Option<&MetricSummary>,
    indexes: &BTreeMap<&TrialId, u32>,
) -> Vec<TrialPair> {
    let by_index = |metric: &MetricSummary| -> BTreeMap<u32, f64> {
        metric.trials.iter().filter_map(|trial| Some((*indexes.get(&trial.trial_id)?, trial.value))).collect()
    };
    let candidate = candidate.map(by_index).unwrap_or_default();
    let pair = |(index, baseline): (u32, f64)| {
        candidate.get(&index).map(|candidate| TrialPair { run, index, baseline, candidate: *candidate })
    };
    by_index(baseline).into_iter().filter_map(pair).collect()
}

/// Returns the unit that the design of a plan re-randomises with every pair. Every pair has its own launches only if provision
/// launches both sides for it, or if each trial is a separate process.
pub(crate) fn unit(plan: &Plan, comparison: &Comparison) -> PairUnit {
    let kind = |side: &Side| plan.target(&side.target).map(|target| target.kind);
    pair_unit(plan.placement, plan.isolation, [kind(&comparison.baseline), kind(&comparison.candidate)])
}

/// Returns the same unit before there is a plan, from the kinds of both sides' targets.
pub fn pair_unit(placement: Placement, isolation: Isolation, kinds: [Option<TargetKind>; 2]) -> PairUnit {
    let all = |wanted: &[TargetKind]| kinds.iter().all(|kind| kind.is_some_and(|kind| wanted.contains(&kind)));
    let launches = placement == Placement::Alternate || isolation == Isolation::RestartTarget;
    let launched = [TargetKind::Process, TargetKind::Simulator, TargetKind::Objects];
    if all(&[TargetKind::Host]) || (launches && all(&launched)) { PairUnit::Launch } else { PairUnit::Pair }
}
