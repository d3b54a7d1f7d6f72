//! What the signed manifests of a run say of both sides of its comparison.

use std::collections::BTreeMap;

use assay_manifest::{
    Better, Case, Comparison, Difference, Digest, EarlierEnd, Environment, ExecutionPart, InputRef, Isolation, MetricSummary,
    PairUnit, Placement, Plan, PointId, PointSummary, RunId, Side, Source, Summary, TargetKind, TrialId, TrialPair,
};

use crate::learning::Taught;
use crate::sides::{differences, is_of};

/// One run, as far as a gate reads it. Whoever makes one has verified its chain.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// Its name.
    pub run_id: &'a RunId,
    /// What it was made from.
    pub source: &'a Source,
    /// Its plan.
    pub plan: &'a Plan,
    /// Its blocks' environments.
    pub environments: Vec<&'a Environment>,
    /// What its shards did.
    pub parts: Vec<&'a ExecutionPart>,
    /// Its Summary, and how it is named.
    pub summary: (InputRef, &'a Summary),
    /// The tree that it measured: the commit's, or where it measured no commit the digest of its definitions' files.
    pub tree: String,
    /// Who signed its chain, by name.
    pub signers: Vec<String>,
    /// Whether a trust policy says of every signer who it is.
    pub established: bool,
    /// How earlier attempts under its name ended before its Summary was signed, oldest first.
    pub earlier_ends: Vec<EarlierEnd>,
}

impl Run<'_> {
    /// What differs between its sides besides the variable under test.
    pub(crate) fn differences(&self, comparison: &Comparison) -> Vec<Difference> {
        let schedules = self.parts.iter().flat_map(|part| &part.schedule_digests).map(|(trial, digest)| (trial, *digest));
        differences(self.plan, &self.environments, &schedules.collect(), comparison)
    }
}

/// A metric of a point on both sides.
#[derive(Clone, Debug)]
pub(crate) struct Compared<'a> {
    /// The baseline's case.
    pub(crate) case: &'a Case,
    pub(crate) point: &'a PointId,
    pub(crate) metric: &'a MetricSummary,
    pub(crate) better: Better,
    pub(crate) pairs: Vec<TrialPair>,
    /// Pairs that were planned.
    pub(crate) planned: u32,
    /// The digest of the work.
    pub(crate) work: Digest,
}

impl Compared<'_> {
    /// What a history knows it by.
    pub(crate) fn taught(&self, unit: PairUnit) -> Taught {
        Taught {
            workload: self.case.workload.clone(),
            work: self.work,
            point: self.point.clone(),
            metric: self.metric.metric.clone(),
            unit,
        }
    }
}

/// Every metric that both sides report and of which it is declared which way is better, in the plan's order, with its pairs of one run.
pub(crate) fn compared<'a>(run: &Run<'a>, number: u32, comparison: &Comparison) -> Vec<Compared<'a>> {
    let indexes: BTreeMap<&TrialId, u32> = run.plan.trials.iter().map(|trial| (&trial.trial_id, trial.index)).collect();
    let mut all = Vec::new();
    for case in run.plan.cases.iter().filter(|case| is_of(case, &comparison.baseline)) {
        let other = run.plan.cases.iter().find(|other| other.workload == case.workload && is_of(other, &comparison.candidate));
        for point in &case.points {
            let of = |case: &Case| point_of(run.summary.1, case, &point.point_id);
            let (Some(baseline), Some(candidate)) = (of(case), other.and_then(of)) else { continue };
            for metric in &baseline.metrics {
                let beside = candidate.metrics.iter().find(|beside| beside.metric == metric.metric);
                let Some(better) = metric.better else { continue };
                let pairs = pairs(number, metric, beside, &indexes);
                let (planned, work) = (run.plan.trial_policy.count, baseline.workload_spec_digest);
                all.push(Compared { case, point: &point.point_id, metric, better, pairs, planned, work });
            }
        }
    }
    all
}

fn point_of<'a>(summary: &'a Summary, case: &Case, point: &PointId) -> Option<&'a PointSummary> {
    summary.points.iter().find(|summary| summary.case_id == case.case_id && summary.point_id == *point)
}

/// The values of both sides in every round in which both count.
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

/// What the design of a plan re-randomises with every pair. Every pair has launches of its own only where provision launches both sides
/// for it, or where each trial is a process by itself.
pub(crate) fn unit(plan: &Plan, comparison: &Comparison) -> PairUnit {
    let kind = |side: &Side| plan.target(&side.target).map(|target| target.kind);
    pair_unit(plan.placement, plan.isolation, [kind(&comparison.baseline), kind(&comparison.candidate)])
}

/// The same before there is a plan: by the kinds of both sides' targets.
pub fn pair_unit(placement: Placement, isolation: Isolation, kinds: [Option<TargetKind>; 2]) -> PairUnit {
    let all = |wanted: &[TargetKind]| kinds.iter().all(|kind| kind.is_some_and(|kind| wanted.contains(&kind)));
    let launches = placement == Placement::Alternate || isolation == Isolation::RestartTarget;
    let launched = [TargetKind::Process, TargetKind::Simulator, TargetKind::Objects];
    if all(&[TargetKind::Host]) || (launches && all(&launched)) { PairUnit::Launch } else { PairUnit::Pair }
}
