//! The number of pairs that the gates of a pipeline need, computed from the learned noise of its comparison.

use assay_gate::rule::{LearnedNoise, Rules};
use assay_gate::{MetricKey, Size, SizingError, pair_unit, size};
use assay_manifest::{ALL_LOADS, Case, Comparison, Digest, MAX_LOAD, Name, PairUnit, PointId, Side};
use assay_metric::MetricName;

use crate::noise::Noise;
use crate::pipeline::{Gate, MAX_SIZED, Pipeline, PipelineSpec};
use crate::workload::{Work, Workload};

/// The size that a gate needs.
#[derive(Clone, Debug)]
pub struct GateSize {
    /// Its name.
    pub gate: Name,
    /// The metrics at points that it judges, in the order of the plan, as `metric of workload at point`.
    pub metrics: Vec<String>,
    /// The rules of its first look.
    pub rules: Rules,
    /// The learned noise of each of them.
    pub learned: Vec<Option<LearnedNoise>>,
    /// The pairs that it needs, at most [`MAX_SIZED`].
    pub size: Result<Size, SizingError>,
}

impl GateSize {
    /// Returns true if noise was learned of any metric that it judges.
    pub fn has_learned_noise(&self) -> bool {
        self.learned.iter().any(Option::is_some)
    }
}

/// Returns the size that each gate of a comparison needs; empty if nothing is compared. `work_of` returns the
/// `workload_spec_digest` of a workload, if all of it is pinned.
pub fn gate_sizes(
    pipeline: &Pipeline,
    workloads: &[Workload],
    cases: &[Case],
    noise: Option<&Noise>,
    work_of: &dyn Fn(&Workload) -> Option<Digest>,
) -> Vec<GateSize> {
    let spec = &pipeline.spec;
    let Some(comparison) = &spec.comparison else { return Vec::new() };
    let history = noise.map(|noise| noise.history(Digest::compute(b"")));
    let is_baseline = |case: &&Case| case.target == comparison.baseline.target && case.variant == comparison.baseline.variant;
    let unit = unit_of(spec, comparison);
    let sized = |gate: &Gate| {
        let mut judged = Vec::new();
        for case in cases.iter().filter(is_baseline) {
            let Some(workload) = workloads.iter().find(|workload| workload.name == case.workload) else { continue };
            let work = work_of(workload);
            for (point, metric) in judged_places(case, workload, gate) {
                let name = format!("`{metric}` of {} at {point}", case.workload);
                let taught = |work: Digest| MetricKey { workload: case.workload.clone(), work, point, metric, unit };
                let learned = work.zip(history.as_ref()).and_then(|(work, history)| history.metrics.get(&taught(work)));
                judged.push((name, learned.copied()));
            }
        }
        let (metrics, learned): (Vec<String>, Vec<Option<LearnedNoise>>) = judged.into_iter().unzip();
        let q = gate.q * gate.looks.first().unwrap_or(&1.0);
        let rules = Rules { q, budget: gate.budget_pct / 100.0, unit, both_ways: false };
        let size = size(&learned, &rules, MAX_SIZED as usize);
        GateSize { gate: gate.name.clone(), metrics, rules, learned, size }
    };
    spec.gates.iter().map(sized).collect()
}

fn unit_of(spec: &PipelineSpec, comparison: &Comparison) -> PairUnit {
    let kind = |side: &Side| spec.targets.iter().find(|target| target.name == side.target).map(|target| target.kind);
    pair_unit(spec.placement, spec.isolation, [kind(&comparison.baseline), kind(&comparison.candidate)])
}

/// Returns the metrics that a gate judges of a case, each with its point; the most load within the SLOs is of all its loads together.
fn judged_places(case: &Case, workload: &Workload, gate: &Gate) -> Vec<(PointId, String)> {
    let (of_loads, of_points): (Vec<String>, Vec<String>) =
        judged_metrics(workload, gate).into_iter().partition(|metric| metric == MAX_LOAD);
    let has_max_load = matches!(&workload.spec.work, Work::Serving(serving) if serving.has_max_load());
    let at_points = case.points.iter().flat_map(|point| of_points.iter().map(|metric| (point.point_id.clone(), metric.clone())));
    let all_loads = ALL_LOADS.parse().ok().filter(|_| has_max_load);
    let at_loads =
        all_loads.into_iter().flat_map(|all: PointId| of_loads.iter().map(move |metric| (all.clone(), metric.clone())));
    at_points.chain(at_loads).collect()
}

/// Returns the metrics of a workload that a gate judges.
fn judged_metrics(workload: &Workload, gate: &Gate) -> Vec<String> {
    let declared = || workload.spec.metrics.iter().filter(|metric| metric.primary).map(|metric| metric.path.clone()).collect();
    match &workload.spec.work {
        _ if !gate.metrics.is_empty() => gate.metrics.clone(),
        Work::Serving(serving) if workload.spec.metrics.is_empty() => {
            MetricName::default_primary(!serving.slos.is_empty()).map(|name| name.text.to_owned()).collect()
        }
        _ => declared(),
    }
}
