//! What earlier runs of a comparison teach about its noise.

use std::collections::BTreeMap;

use assay_manifest::{Digest, Name, PairUnit, PointId};
use assay_stats::{Dependence, benjamini_hochberg, dependence};

use crate::evidence::{Run, compared, unit};
use crate::rule::{Learned, Series, logs};

/// What earlier runs teach about noise.
#[derive(Clone, Debug)]
pub struct History {
    /// The digest of the file that says so.
    pub digest: Digest,
    /// By what it was learned of.
    pub metrics: BTreeMap<Taught, Learned>,
}

/// A metric at a point of certain work.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taught {
    /// The workload.
    pub workload: Name,
    /// Its `workload_spec_digest`: of other work nothing is known.
    pub work: Digest,
    /// The point.
    pub point: PointId,
    /// The metric.
    pub metric: String,
    /// What each pair had of its own: pairs of launches teach nothing of sides that stay up, nor these of those.
    pub unit: PairUnit,
}

/// The fewest runs that teach anything: two launches a side say next to nothing of the next.
pub const FEWEST_RUNS: usize = 5;

/// What these runs teach of every metric that they compare: of those with two pairs or more in at least
/// [`FEWEST_RUNS`] runs. Runs that compare nothing teach nothing.
pub fn learn(runs: &[Run<'_>]) -> BTreeMap<Taught, Learned> {
    let mut differences: BTreeMap<Taught, Vec<Vec<f64>>> = BTreeMap::new();
    for run in runs {
        let Some(comparison) = &run.plan.comparison else { continue };
        for compared in compared(run, 0, comparison) {
            let pairs = compared.pairs.iter().map(|pair| [pair.baseline, pair.candidate]).collect();
            let series = Series { better: compared.better, pairs, places: Vec::new(), learned: None };
            let Some(logs) = logs(&series).filter(|logs| logs.len() > 1) else { continue };
            differences.entry(compared.taught(unit(run.plan, comparison))).or_default().push(logs);
        }
    }
    let learned = |(of, runs): (Taught, Vec<Vec<f64>>)| {
        let runs: Vec<&[f64]> = runs.iter().map(Vec::as_slice).collect();
        let learned = Learned::of(&runs).ok().filter(|_| runs.len() >= FEWEST_RUNS)?;
        Some((of, learned, dependence(&runs).ok().flatten()))
    };
    let (of, mut all): (Vec<Taught>, Vec<(Learned, Option<Dependence>)>) =
        differences.into_iter().filter_map(learned).map(|(of, learned, found)| (of, (learned, found))).unzip();
    note_dependence(&mut all);
    of.into_iter().zip(all.into_iter().map(|(learned, _)| learned)).collect()
}

/// The share of metrics that are called dependent among those that are not, over one history.
const DEPENDENCE_Q: f64 = 0.05;

/// Notes of each metric how far its pairs resemble those before them, where its runs show that they do: corrected for the number of metrics,
/// because one that is taken for dependent by mistake has a floor to clear.
pub fn note_dependence(metrics: &mut [(Learned, Option<Dependence>)]) {
    let p: Vec<f64> = metrics.iter().map(|(_, found)| found.map_or(1.0, |found| found.p)).collect();
    for ((learned, found), adjusted) in metrics.iter_mut().zip(benjamini_hochberg(&p)) {
        learned.autocorrelation = found.filter(|_| adjusted <= DEPENDENCE_Q).map(|found| found.autocorrelation);
    }
}
