//! The noise of a comparison, learned from earlier runs.

use std::collections::BTreeMap;

use assay_manifest::Digest;
use assay_stats::{Dependence, benjamini_hochberg, dependence};

use crate::evidence::{MetricKey, Run, pair_metrics, unit};
use crate::rule::{LearnedNoise, Series, logs};

/// The noise learned from earlier runs.
#[derive(Clone, Debug)]
pub struct History {
    /// The digest of the file that holds it.
    pub digest: Digest,
    /// The learned noise of each metric.
    pub metrics: BTreeMap<MetricKey, LearnedNoise>,
}

/// The fewest runs from which anything is learned: two launches a side tell next to nothing about the next.
pub const FEWEST_RUNS: usize = 5;

/// Learns from these runs the noise of every metric that they compare and that has two pairs or more in at least [`FEWEST_RUNS`]
/// runs. Runs without a comparison are ignored.
pub fn learn(runs: &[Run<'_>]) -> BTreeMap<MetricKey, LearnedNoise> {
    let mut differences: BTreeMap<MetricKey, Vec<Vec<f64>>> = BTreeMap::new();
    for run in runs {
        let Some(comparison) = &run.plan.comparison else { continue };
        for compared in pair_metrics(run, 0, comparison).into_iter().filter(|compared| compared.undecided.is_none()) {
            let pairs = compared.pairs.iter().map(|pair| [pair.baseline, pair.candidate]).collect();
            let series = Series { better: compared.better, pairs, places: Vec::new(), learned: None };
            let Some(logs) = logs(&series).filter(|logs| logs.len() > 1) else { continue };
            differences.entry(compared.metric_key(unit(run.plan, comparison))).or_default().push(logs);
        }
    }
    let learned = |(of, runs): (MetricKey, Vec<Vec<f64>>)| {
        let runs: Vec<&[f64]> = runs.iter().map(Vec::as_slice).collect();
        let learned = LearnedNoise::from_runs(&runs).ok().filter(|_| runs.len() >= FEWEST_RUNS)?;
        Some((of, learned, dependence(&runs).ok().flatten()))
    };
    let (of, mut all): (Vec<MetricKey>, Vec<(LearnedNoise, Option<Dependence>)>) =
        differences.into_iter().filter_map(learned).map(|(of, learned, found)| (of, (learned, found))).unzip();
    note_dependence(&mut all);
    of.into_iter().zip(all.into_iter().map(|(learned, _)| learned)).collect()
}

/// The false discovery rate at which metrics are called autocorrelated, over one history.
const DEPENDENCE_Q: f64 = 0.05;

/// Records for each metric the autocorrelation of its pairs, if its runs show one: corrected for the number of metrics, because a
/// metric that is called autocorrelated by mistake has a floor to clear.
pub fn note_dependence(metrics: &mut [(LearnedNoise, Option<Dependence>)]) {
    let p: Vec<f64> = metrics.iter().map(|(_, found)| found.map_or(1.0, |found| found.p)).collect();
    for ((learned, found), adjusted) in metrics.iter_mut().zip(benjamini_hochberg(&p)) {
        learned.autocorrelation = found.filter(|_| adjusted <= DEPENDENCE_Q).map(|found| found.autocorrelation);
    }
}
