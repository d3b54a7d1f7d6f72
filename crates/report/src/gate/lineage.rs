//! The way back from a judged metric: the runs, the signed Summaries that list their rows, and the rows that hold its values.

use std::collections::BTreeMap;

use assay_manifest::{CaseId, Digest, JudgedRun, MetricSummary, MetricVerdict, Side, Summary, TrialId};

use super::Inputs;
use crate::Address;
use crate::lineage::store_option;
use crate::text::clean;

/// What a judged run has of a metric.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Origin {
    /// Its place among the verdict's runs, from 0, as the pairs have it.
    pub(crate) run: u32,
    pub(crate) run_id: String,
    /// The digest of its Summary's manifest.
    pub(crate) summary: String,
    pub(crate) baseline: SideOrigin,
    pub(crate) candidate: SideOrigin,
}

/// What a judged run has of a metric on one side.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SideOrigin {
    pub(crate) case: String,
    /// The run's own median, over all its counted trials of that side, and where it lies; absent where the Summary is not at hand.
    pub(crate) median: Option<(f64, Address)>,
    /// Where the value of each round's trial lies.
    pub(crate) trials: BTreeMap<u32, Address>,
}

/// A judged run, and what a verdict pins of it.
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
    /// The runs that a metric has pairs of.
    pub(crate) fn all(inputs: &Inputs<'_>, found: &MetricVerdict) -> Vec<Self> {
        let has_pairs = |run: u32| found.pairs.iter().any(|pair| pair.run == run);
        let runs = (0..).zip(&inputs.verdict.runs).filter(|(run, _)| has_pairs(*run));
        runs.map(|(run, judged)| Self::of(inputs, found, run, judged)).collect()
    }

    fn of(inputs: &Inputs<'_>, found: &MetricVerdict, run: u32, judged: &JudgedRun) -> Self {
        let summary = inputs.summaries.get(&judged.summary.manifest);
        let rounds: Vec<u32> = found.pairs.iter().filter(|pair| pair.run == run).map(|pair| pair.index).collect();
        let side = |side: &Side| SideOrigin::of(found, &rounds, judged, summary, side);
        Self {
            run,
            run_id: judged.run_id.to_string(),
            summary: judged.summary.manifest.to_string(),
            baseline: side(&inputs.verdict.comparison.baseline),
            candidate: side(&inputs.verdict.comparison.candidate),
        }
    }

    /// Both sides by name.
    pub(crate) fn sides(&self) -> [(&'static str, &SideOrigin); 2] {
        [("baseline", &self.baseline), ("candidate", &self.candidate)]
    }
}

impl SideOrigin {
    fn of(found: &MetricVerdict, rounds: &[u32], judged: &JudgedRun, summary: Option<&Summary>, side: &Side) -> Self {
        let case = CaseId::of(&found.workload, &side.target, &side.variant);
        let metric = summary.and_then(|summary| metric_of(summary, &case, found));
        let address = |row: &Digest| Address::of(&judged.run_id, row);
        let trial = |index: u32| {
            let id = TrialId::of(&case, &found.point_id, index);
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

fn metric_of<'a>(summary: &'a Summary, case: &CaseId, found: &MetricVerdict) -> Option<&'a MetricSummary> {
    let point = summary.points.iter().find(|point| point.case_id == *case && point.point_id == found.point_id)?;
    point.metrics.iter().find(|metric| metric.metric == found.metric)
}

impl RunLineage {
    pub(crate) fn of(judged: &JudgedRun) -> Self {
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

/// The command that walks a number back.
pub(crate) fn trace_command(address: &Address, store: Option<&str>) -> String {
    format!("assay trace {address}{}", store_option(store))
}
