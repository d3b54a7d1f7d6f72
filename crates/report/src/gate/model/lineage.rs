//! The lineage of a judged metric: the runs, the signed Summaries that list their rows, and the rows that hold its values.

use std::collections::BTreeMap;

use assay_manifest::{Address, CaseId, Digest, JudgedRun, MetricSummary, MetricVerdict, Side, Summary, TrialId};

use crate::gate::inputs::Inputs;
use crate::render::text::clean;

/// The source of a metric's values in one judged run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Origin {
    /// The index of the run among the verdict's runs, from 0, as in the pairs.
    pub(crate) run: u32,
    pub(crate) run_id: String,
    /// The digest of its Summary's manifest.
    pub(crate) summary: String,
    pub(crate) baseline: SideOrigin,
    pub(crate) candidate: SideOrigin,
}

/// The source of a metric's values in one judged run, for one side.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SideOrigin {
    pub(crate) case: String,
    /// The run's own median, over all its counted trials of that side, and its address; `None` if the Summary is not available.
    pub(crate) median: Option<(f64, Address)>,
    /// The address of the value of each round's trial.
    pub(crate) trials: BTreeMap<u32, Address>,
}

/// A judged run, and the digests of it that a verdict pins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunLineage {
    pub(crate) run_id: String,
    pub(crate) commit: String,
    pub(crate) tree: String,
    pub(crate) plan: String,
    pub(crate) summary: String,
    pub(crate) bundle: String,
}

impl Origin {
    /// Returns the sources of a metric's values, one for each run that it has pairs of.
    pub(crate) fn for_metric(inputs: &Inputs<'_>, found: &MetricVerdict) -> Vec<Self> {
        let has_pairs = |run: u32| found.pairs.iter().any(|pair| pair.run == run);
        let runs = (0..).zip(&inputs.verdict.runs).filter(|(run, _)| has_pairs(*run));
        runs.map(|(run, judged)| Self::new(inputs, found, run, judged)).collect()
    }

    fn new(inputs: &Inputs<'_>, found: &MetricVerdict, run: u32, judged: &JudgedRun) -> Self {
        let summary = inputs.summaries.get(&judged.summary.manifest);
        let rounds: Vec<u32> = found.pairs.iter().filter(|pair| pair.run == run).map(|pair| pair.index).collect();
        let side = |side: &Side| SideOrigin::new(found, &rounds, judged, summary, side);
        Self {
            run,
            run_id: judged.run_id.to_string(),
            summary: judged.summary.manifest.to_string(),
            baseline: side(&inputs.verdict.comparison.baseline),
            candidate: side(&inputs.verdict.comparison.candidate),
        }
    }

    /// Returns both sides by name.
    pub(crate) fn sides(&self) -> [(&'static str, &SideOrigin); 2] {
        [("baseline", &self.baseline), ("candidate", &self.candidate)]
    }
}

impl SideOrigin {
    fn new(found: &MetricVerdict, rounds: &[u32], judged: &JudgedRun, summary: Option<&Summary>, side: &Side) -> Self {
        let case = CaseId::from_names(&found.workload, &side.target, &side.variant);
        let metric = summary.and_then(|summary| find_metric(summary, &case, found));
        let address = |row: &Digest| Address::for_value(&judged.run_id, row);
        let trial = |index: u32| {
            let id = TrialId::from_parts(&case, &found.point_id, index);
            let trial = metric?.trials.iter().find(|trial| trial.trial_id == id)?;
            Some((index, address(&trial.row_id)))
        };
        Self {
            median: metric.and_then(|metric| Some((metric.median, address(metric.rows.get("median")?)))),
            trials: rounds.iter().filter_map(|index| trial(*index)).collect(),
            case: case.to_string(),
        }
    }
}

fn find_metric<'a>(summary: &'a Summary, case: &CaseId, found: &MetricVerdict) -> Option<&'a MetricSummary> {
    let mut places = summary.places();
    let (_, metrics) = places.find(|(place, _)| place.case_id == case && *place.point_id == found.point_id)?;
    metrics.iter().find(|metric| metric.metric == found.metric)
}

impl RunLineage {
    pub(crate) fn new(judged: &JudgedRun) -> Self {
        Self {
            run_id: judged.run_id.to_string(),
            commit: judged.commit.as_deref().map_or_else(|| "none".to_owned(), clean),
            tree: clean(&judged.tree),
            plan: judged.plan_digest.to_string(),
            summary: judged.summary.manifest.to_string(),
            bundle: judged.summary.bundle.to_string(),
        }
    }
}
