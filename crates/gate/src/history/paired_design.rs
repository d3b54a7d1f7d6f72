//! The paired run that can decide about a change that a history only suspects.

use assay_manifest::PairUnit;
use assay_stats::Noise;

use crate::evidence::MetricKey;
use crate::learning::History;
use crate::rule::{LearnedNoise, Rules};
use crate::sizing::{Size, SizingError, size};

/// The spread of a metric of this run.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSpread {
    /// The key of the metric in a history.
    pub key: MetricKey,
    /// The standard deviation of this run's trials over their mean.
    pub cv: Option<f64>,
    /// The number of trials.
    pub trials: u64,
}

/// A paired run in which every pair has its own launches, which is the design with the highest statistical power.
#[derive(Clone, Debug, PartialEq)]
pub struct PairedDesign {
    /// The number of pairs that it takes, or the reason why no number suffices.
    pub size: Result<Size, SizingError>,
    /// The number of metrics whose noise was learned from earlier paired runs; for the others the spread of this run's trials is
    /// used.
    pub from_history: usize,
}

/// Sizes the paired run for a family that is to be judged at rate `q`, beyond a `budget` as a share, with at most `most` pairs.
pub fn size_paired_design(family: &[MetricSpread], learned: Option<&History>, q: f64, budget: f64, most: usize) -> PairedDesign {
    let taught: Vec<Option<LearnedNoise>> = family.iter().map(|spread| Some(*learned?.metrics.get(&spread.key)?)).collect();
    let known: Vec<_> = family.iter().zip(&taught).map(|(spread, taught)| taught.or_else(|| spread.pair_noise())).collect();
    let rules = Rules { q, budget, unit: PairUnit::Launch, both_ways: false };
    PairedDesign { size: size(&known, &rules, most), from_history: taught.iter().flatten().count() }
}

impl MetricSpread {
    /// Returns the noise of a pair's difference: that of two trials. The trials of one launch do not tell how launches differ.
    fn pair_noise(&self) -> Option<LearnedNoise> {
        let noise = Noise::normal(self.cv? * std::f64::consts::SQRT_2, (self.trials as f64 - 1.0).max(1.0));
        Some(LearnedNoise { noise, launches: None, autocorrelation: None })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use assay_manifest::Digest;

    use super::*;

    fn taught(metric: &str, unit: PairUnit) -> MetricKey {
        MetricKey {
            workload: "chat".parse().expect("a name"),
            work: Digest::compute(b"work"),
            point: "c8".parse().expect("a point"),
            metric: metric.to_owned(),
            unit,
        }
    }

    fn spread(metric: &str, cv: Option<f64>) -> MetricSpread {
        MetricSpread { key: taught(metric, PairUnit::Launch), cv, trials: 200 }
    }

    fn history(metric: &str, unit: PairUnit, sd: f64) -> History {
        let learned = LearnedNoise { noise: Noise::normal(sd, 200.0), launches: None, autocorrelation: None };
        History { digest: Digest::compute(b"noise"), metrics: BTreeMap::from([(taught(metric, unit), learned)]) }
    }

    fn pairs(family: &[MetricSpread], learned: Option<&History>) -> (Option<usize>, usize) {
        let PairedDesign { size, from_history: taught } = size_paired_design(family, learned, 0.05, 0.05, 60);
        (size.ok().map(|size| size.pairs), taught)
    }

    #[test]
    fn what_was_taught_of_pairs_sizes_them_and_not_the_spread_of_one_run() {
        let (calm, loud) = ([spread("ttft", Some(0.01))], [spread("ttft", Some(0.2))]);
        assert_eq!((pairs(&calm, None), pairs(&loud, None)), ((Some(6), 0), (None, 0)));
        let learned = history("ttft", PairUnit::Launch, 0.08);
        let (by_what_was_taught, count) = pairs(&calm, Some(&learned));
        assert!(by_what_was_taught > Some(6) && count == 1, "{by_what_was_taught:?}");
        assert_eq!(pairs(&loud, Some(&learned)), (by_what_was_taught, 1));
    }

    #[test]
    fn a_metric_of_which_nothing_was_taught_has_its_own_spread() {
        let family = [spread("ttft", Some(0.01)), spread("itl", Some(0.01)), spread("e2e", None)];
        let learned = history("itl", PairUnit::Launch, 0.08);
        let sized = size_paired_design(&family, Some(&learned), 0.05, 0.05, 60);
        assert_eq!(
            (sized.from_history, sized.size.map(|size| (size.costly.map(|costly| costly.metric), size.unknown))),
            (1, Ok((Some(1), 1)))
        );
        let staying_up = history("itl", PairUnit::Pair, 0.08);
        assert_eq!(pairs(&family, Some(&staying_up)), pairs(&family, None), "sides that stay up teach nothing of launches");
    }

    #[test]
    fn a_pair_has_the_noise_of_two_trials() {
        let noise = spread("ttft", Some(0.03)).pair_noise().expect("known").noise;
        assert!((noise.sd - 0.03 * 2.0_f64.sqrt()).abs() < 1e-15);
    }
}
