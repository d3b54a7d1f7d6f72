//! What the signed manifests of a run say of both sides of its comparison.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{
    Better, Case, Comparison, Difference, Digest, Environment, ExecutionPart, Fact, Host, InputRef, Isolation, MetricSummary,
    PairUnit, Placement, Plan, PointId, PointSummary, RunId, Side, Source, Summary, TargetKind, TrialId, TrialPair,
};

use crate::learning::Taught;

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

fn is_of(case: &Case, side: &Side) -> bool {
    case.target == side.target && case.variant == side.variant
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

/// Why a difference cannot be told from one of placement; absent where both sides ran on the same hardware.
///
/// Each side's hosts are those of all blocks, so that sides which swap their hosts share them. A host with several GPUs is not one device:
/// which of them a process used is not known.
pub(crate) fn confounded(environments: &[&Environment], comparison: &Comparison) -> Option<String> {
    let [baseline, candidate] = [&comparison.baseline, &comparison.candidate].map(|side| hosts_of(environments, side));
    let named = |hosts: &BTreeMap<String, &Host>| hosts.keys().cloned().collect::<Vec<_>>().join(", ");
    if baseline.is_empty() || candidate.is_empty() {
        return Some("the hardware of a side is not known".to_owned());
    }
    if baseline.keys().ne(candidate.keys()) {
        return Some(format!("the baseline ran on {} and the candidate on {}", named(&baseline), named(&candidate)));
    }
    let devices = |host: &Host| host.facts.gpus.value.as_ref().map_or(0, Vec::len);
    let coexist = environments.iter().any(|environment| is_up(environment, comparison));
    let shared = baseline.values().find(|host| coexist && devices(host) > 1)?;
    Some(format!("both sides were up on `{}`, which has {} GPUs: each may have had its own", shared.name, devices(shared)))
}

/// Whether both sides were up in that block.
fn is_up(environment: &Environment, comparison: &Comparison) -> bool {
    let has = |side: &Side| environment.targets.iter().any(|target| target.id == side.target);
    comparison.baseline.target != comparison.candidate.target && has(&comparison.baseline) && has(&comparison.candidate)
}

/// The hosts that a side ran on, by boot; empty where one of them is not known.
fn hosts_of<'a>(environments: &[&'a Environment], side: &Side) -> BTreeMap<String, &'a Host> {
    let mut hosts = BTreeMap::new();
    for environment in environments {
        for target in environment.targets.iter().filter(|target| target.id == side.target) {
            for name in &target.hosts {
                let host = environment.hosts.iter().find(|host| host.name == *name);
                match host.and_then(|host| Some((host.facts.boot_id.value.clone()?, host))) {
                    Some((boot, host)) => drop(hosts.insert(boot, host)),
                    None => return BTreeMap::new(),
                }
            }
        }
    }
    hosts
}

/// What differs between the sides of a run besides the variable under test: facts of hosts and targets, and the schedules of pairs.
pub fn differences(run: &Run<'_>, comparison: &Comparison) -> Vec<Difference> {
    let allowed = allowed(&comparison.variable_under_test);
    let [baseline, candidate] = [&comparison.baseline, &comparison.candidate].map(|side| facts(&run.environments, side));
    let names: BTreeSet<&(&str, String)> = baseline.keys().chain(candidate.keys()).collect();
    let of = |facts: &Facts, name: &(&'static str, String)| {
        facts.get(name).map_or_else(|| "unknown".to_owned(), |values| values.iter().cloned().collect::<Vec<_>>().join(", "))
    };
    let differing = names.into_iter().filter(|(group, _)| !allowed.contains(group)).filter_map(|name| {
        let (baseline, candidate) = (of(&baseline, name), of(&candidate, name));
        (baseline != candidate).then(|| Difference { what: name.1.clone(), baseline, candidate })
    });
    differing.chain(schedule_differences(run, comparison)).collect()
}

/// Groups of facts that a variable under test may change.
fn allowed(variable: &str) -> &'static [&'static str] {
    match variable {
        "hardware_generation" => &["hardware", "software"],
        "runtime_version" => &["version"],
        "driver_stack" => &["software"],
        "kernel_implementation" => &["version", "software"],
        "model" => &["models"],
        "other" => &["hardware", "software", "version", "models"],
        _ => &[],
    }
}

type Facts = BTreeMap<(&'static str, String), BTreeSet<String>>;

/// The facts of a side over all blocks, by group and name.
fn facts(environments: &[&Environment], side: &Side) -> Facts {
    let mut facts = Facts::new();
    let mut note = |group: &'static str, name: &str, value: String| {
        facts.entry((group, name.to_owned())).or_default().insert(value);
    };
    for environment in environments {
        for target in environment.targets.iter().filter(|target| target.id == side.target) {
            note("version", "target.version", text(&target.version));
            note(
                "version",
                "target.image",
                target.image.as_ref().and_then(|image| image.digest).map_or_else(String::new, |digest| digest.to_string()),
            );
            note("models", "target.models", target.models.join(", "));
            for host in environment.hosts.iter().filter(|host| target.hosts.contains(&host.name)) {
                let known = &host.facts;
                note("hardware", "host.cpu_model", text(&known.cpu_model));
                note("hardware", "host.usable_cpus", text(&known.usable_cpus));
                note("hardware", "host.memory_bytes", known.memory_bytes.value.map_or_else(unknown, |bytes| bytes.0.to_string()));
                let gpus = known.gpus.value.as_ref();
                let models = gpus.map(|gpus| gpus.iter().map(|gpu| gpu.model.as_str()).collect::<Vec<_>>().join(", "));
                note("hardware", "host.gpus", models.unwrap_or_else(unknown));
                note("software", "host.kernel", text(&known.kernel));
                note("software", "host.governor", known.governor.value.as_ref().map_or_else(unknown, |words| words.join(", ")));
                let driver = gpus.and_then(|gpus| gpus.first()).map(|gpu| gpu.driver_version.clone());
                note("software", "host.gpu_driver", driver.unwrap_or_default());
            }
        }
    }
    facts
}

fn text<T: ToString>(fact: &Fact<T>) -> String {
    fact.value.as_ref().map_or_else(unknown, T::to_string)
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// Pairs whose sides were not offered the same load.
fn schedule_differences(run: &Run<'_>, comparison: &Comparison) -> Vec<Difference> {
    let digests: BTreeMap<&TrialId, _> = run.parts.iter().flat_map(|part| &part.schedule_digests).collect();
    let plan = run.plan;
    let side = |side: &Side| -> BTreeMap<_, _> {
        let of_side = plan.trials.iter().filter(|trial| plan.case(&trial.case_id).is_some_and(|case| is_of(case, side)));
        of_side.map(|trial| ((trial.case_id.names()[0].to_owned(), &trial.point_id, trial.index), &trial.trial_id)).collect()
    };
    let candidates = side(&comparison.candidate);
    let differing = side(&comparison.baseline).into_iter().filter_map(|(place, baseline)| {
        let candidate = candidates.get(&place)?;
        let (one, other) = (digests.get(baseline)?, digests.get(*candidate)?);
        (one != other).then(|| Difference {
            what: format!("schedule of `{baseline}`"),
            baseline: one.to_string(),
            candidate: other.to_string(),
        })
    });
    differing.collect()
}
