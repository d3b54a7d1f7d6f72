//! The number of pairs that a gated comparison needs for a decision, or the reason why no number suffices.

use assay_stats::{Limits, NoiseView, fewest_pairs};

use crate::curves::Curves;
use crate::rule::{LearnedNoise, Rules, floor, share, unlearned_floor};

/// The size of a design.
#[derive(Clone, Debug, PartialEq)]
pub struct Size {
    /// The number of pairs to plan.
    pub pairs: usize,
    /// The fewest pairs with which a lone metric of the family can be found at all.
    pub fewest: usize,
    /// The p-value that a lone metric has to reach.
    pub threshold: f64,
    /// The metric that needs the most pairs; `None` if nothing was learned of any metric that can be decided.
    pub costly: Option<CostliestMetric>,
    /// The number of metrics of whose noise nothing was learned: the design may turn out too small for them.
    pub unknown: usize,
    /// The metrics that no allowed design can decide. They are inconclusive whatever is planned, and the others are not.
    pub undecidable: Vec<SizingError>,
}

/// The metric that needs the most pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CostliestMetric {
    /// Its index in the family.
    pub metric: usize,
    /// The number of pairs that suffices for all others.
    pub without: usize,
}

/// The reason why no design of these rules can decide about a metric, known before anything is measured.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum SizingError {
    /// Both sides stay up, and too little was learned of the difference between launches.
    #[error("both sides stay up, and too little was learned of how launches differ: a launch may be all of a difference")]
    LaunchesUnknown {
        /// The metric's index in the family.
        metric: usize,
    },
    /// The effect of launches alone is as large as the change to be found.
    #[error("launches alone make differences of up to {:.1} %, and {:.1} % have to be found", floor * 100.0, effect * 100.0)]
    Floor {
        /// The metric's index in the family.
        metric: usize,
        /// The floor, as a share.
        floor: f64,
        /// Twice the budget, as a share.
        effect: f64,
    },
    /// The pairs are autocorrelated, so a change has to clear the difference between whole runs, which is as large as the change
    /// to be found.
    #[error(
        "its pairs resemble those before them (lag-1 autocorrelation {autocorrelation:.2}), so that runs alone differ by up to {:.1} %, and {:.1} % have to be found",
        floor * 100.0, effect * 100.0
    )]
    Autocorrelated {
        /// The metric's index in the family.
        metric: usize,
        /// The lag-1 autocorrelation of its differences.
        autocorrelation: f64,
        /// The floor, as a share.
        floor: f64,
        /// Twice the budget, as a share.
        effect: f64,
    },
    /// It would need too many pairs.
    #[error(
        "at a noise of {:.1} % a pair{}, {most} pairs cannot find a change of {:.1} % with a probability of 0.8",
        noise * 100.0, with_spikes(*spikes), effect * 100.0
    )]
    TooNoisy {
        /// The metric's index in the family.
        metric: usize,
        /// The standard deviation of a pair's difference, at its upper bound.
        noise: f64,
        /// The share of pairs that are spikes, at its upper bound.
        spikes: f64,
        /// The most pairs that are allowed.
        most: usize,
        /// Twice the budget, as a share.
        effect: f64,
    },
}

impl SizingError {
    /// Returns the metric's index in the family.
    pub fn metric(&self) -> usize {
        match self {
            Self::LaunchesUnknown { metric }
            | Self::Floor { metric, .. }
            | Self::Autocorrelated { metric, .. }
            | Self::TooNoisy { metric, .. } => *metric,
        }
    }
}

fn with_spikes(share: f64) -> String {
    if share > 0.0 { format!(" and spikes in up to {:.0} % of them", share * 100.0) } else { String::new() }
}

/// Sizes a design for a family: the fewest pairs, at most `most`, that find a lone change of twice the budget with a probability
/// of 0.8 in each metric that this number of pairs can decide, at the upper bound of the learned noise and by the same rule that judges.
///
/// # Errors
/// [`SizingError`] for the first metric, if no allowed design suffices for any metric.
pub fn size(family: &[Option<LearnedNoise>], rules: &Rules, most: usize) -> Result<Size, SizingError> {
    let mut curves = Curves::new(rules.q_per_direction(), family.len());
    let threshold = curves.threshold();
    let fewest = fewest_pairs(rules.q_per_direction(), family.len()) as usize;
    let mut size = Size { pairs: fewest, fewest, threshold, costly: None, unknown: 0, undecidable: Vec::new() };
    // The most pairs that any metric needs, and the next most.
    let (mut first, mut second) = (None, fewest);
    for (metric, learned) in family.iter().enumerate() {
        match needed_pairs(metric, learned.as_ref(), rules, fewest, most, &mut curves) {
            Ok(None) => size.unknown += 1,
            Err(why) => size.undecidable.push(why),
            Ok(Some(pairs)) => match first {
                Some((_, already)) if pairs <= already => second = second.max(pairs),
                _ => {
                    second = first.map_or(second, |(_, already)| already);
                    first = Some((metric, pairs));
                }
            },
        }
    }
    if size.undecidable.len() == family.len()
        && let Some(why) = size.undecidable.first()
    {
        return Err(*why);
    }
    size.pairs = first.map_or(fewest, |(_, pairs)| pairs);
    size.costly = first.map(|(metric, _)| CostliestMetric { metric, without: second });
    Ok(size)
}

/// Returns the number of pairs that a metric needs; `None` if nothing was learned of it.
fn needed_pairs(
    metric: usize,
    learned: Option<&LearnedNoise>,
    rules: &Rules,
    fewest: usize,
    most: usize,
    curves: &mut Curves,
) -> Result<Option<usize>, SizingError> {
    let effect = rules.required_effect();
    let floor = floor(rules.unit, learned, curves.threshold()).ok_or(SizingError::LaunchesUnknown { metric })?.log;
    let Some(learned) = learned else { return Ok(None) };
    if floor >= effect {
        let (floor, effect) = (share(floor), 2.0 * rules.budget);
        return Err(match learned.autocorrelation {
            Some(autocorrelation) => SizingError::Autocorrelated { metric, autocorrelation, floor, effect },
            None => SizingError::Floor { metric, floor, effect },
        });
    }
    let limits = Limits { floor, budget: rules.log_budget() };
    let too_noisy = || {
        // Noise is easier to picture without its spikes.
        let NoiseView { sd: noise, spikes } = learned.noise.without_spikes().upper_view();
        SizingError::TooNoisy { metric, noise, spikes, most, effect: 2.0 * rules.budget }
    };
    curves.fewest_for(effect, (fewest, most), learned.noise.upper_views(), |_| limits).ok_or_else(too_noisy).map(Some)
}

/// The effect that a number of pairs can find in a family of a given size, before its noise is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DesignPower {
    /// No metric that changes alone can be found even if all pairs point one way: there are fewer pairs than `fewest`.
    NeverFires {
        /// The fewest pairs with which a lone metric can be found at all.
        fewest: usize,
        /// True if a change of several metrics together may be found even so: the correction for their number asks less of each.
        together: bool,
    },
    /// Twice the budget is found with a probability of 0.8 if the noise of a pair's difference is at most `noise`.
    FindsUpTo {
        /// A standard deviation of logarithms of ratios: about a share.
        noise: f64,
    },
}

/// Returns what `pairs` can find in a family of `tests` without earlier runs, if launches are drawn anew.
pub fn assess_design(pairs: usize, tests: usize, rules: &Rules) -> DesignPower {
    let fewest = fewest_pairs(rules.q_per_direction(), tests) as usize;
    let mut curves = Curves::new(rules.q_per_direction(), tests);
    let never = || {
        let together = tests > 1 && Curves::new(rules.q_per_direction(), 1).curve(pairs, 0.0).is_some();
        DesignPower::NeverFires { fewest, together }
    };
    let Some(curve) = curves.curve(pairs, 0.0).filter(|_| pairs >= fewest) else { return never() };
    let limits = |noise: f64| Limits { floor: unlearned_floor(noise, pairs).log, budget: rules.log_budget() };
    let finds = |noise: f64| curve.detectable(noise, &limits(noise)) <= rules.required_effect();
    // The smallest detectable effect grows with the noise, so the largest noise that suffices is found by bisection.
    let (mut enough, mut too_much) = (0.0_f64, 1.0_f64);
    for _ in 0..30 {
        let middle = f64::midpoint(enough, too_much);
        if finds(middle) { enough = middle } else { too_much = middle }
    }
    if finds(enough) { DesignPower::FindsUpTo { noise: enough } } else { never() }
}

#[cfg(test)]
mod tests {
    use assay_stats::Noise;

    use assay_manifest::PairUnit;

    use super::*;
    use crate::rule::Launches;

    const RULES: Rules = Rules { q: 0.05, budget: 0.05, unit: PairUnit::Launch, both_ways: false };

    fn learned(sd: f64) -> LearnedNoise {
        LearnedNoise { noise: Noise::normal(sd, 200.0), launches: None, autocorrelation: None }
    }

    fn family(sd: f64) -> Vec<Option<LearnedNoise>> {
        let mut family = vec![Some(learned(0.01)); 99];
        family.push(Some(learned(sd)));
        family
    }

    #[test]
    fn a_quiet_family_plans_what_lets_it_fire() {
        let size = size(&family(0.01), &RULES, 40).expect("a size");
        assert_eq!((size.pairs, size.fewest, size.unknown), (12, 12, 0));
        let alone = super::size(&[Some(learned(0.01))], &RULES, 40).expect("a size");
        assert_eq!((alone.pairs, alone.fewest), (6, 6));
    }

    #[test]
    fn the_noisiest_metric_decides() {
        let size = size(&family(0.08), &RULES, 40).expect("a size");
        assert_eq!(size.costly, Some(CostliestMetric { metric: 99, without: 12 }));
        assert!((17..=24).contains(&size.pairs), "{}", size.pairs);
    }

    #[test]
    fn a_hopeless_metric_hides_none_that_can_be_decided() {
        let size = size(&family(0.3), &RULES, 40).expect("of the others there is a size");
        assert_eq!((size.pairs, size.costly, size.undecidable.len()), (12, Some(CostliestMetric { metric: 0, without: 12 }), 1));
        assert_eq!(size.undecidable[0].metric(), 99);
    }

    #[test]
    fn sides_that_remember_have_a_floor_though_launches_are_drawn_anew() {
        let remembers = |sd: f64| {
            let launches = Some(Launches { sd, n: 20, largest: 2.0 * sd });
            Some(LearnedNoise { launches, autocorrelation: Some(0.8), ..learned(0.01) })
        };
        assert_eq!(size(&[remembers(0.001)], &RULES, 40).expect("a low floor").pairs, 6);
        insta::assert_snapshot!(
            size(&[remembers(0.04)], &RULES, 40).expect_err("refused"),
            @"its pairs resemble those before them (lag-1 autocorrelation 0.80), so that runs alone differ by up to 17.4 %, and 10.0 % have to be found"
        );
    }

    #[test]
    fn rare_spikes_cost_some_pairs_and_no_design() {
        let spiked = |seen: u32| {
            let spikes = assay_stats::Spikes { seen, among: 100 };
            let usual = assay_stats::BaseNoise { sd: 0.042, freedom: 90.0, worth: 1.0, spikes };
            // Spikes that are ten times as slow.
            let sd = (0.042_f64.powi(2) + spikes.share() * libm::log(10.0).powi(2)).sqrt();
            Some(LearnedNoise { noise: Noise { base: Some(usual), ..Noise::normal(sd, 5.0) }, ..learned(0.042) })
        };
        let pairs = |seen: u32| size(&[spiked(seen)], &RULES, 60).map(|size| size.pairs);
        assert_eq!(pairs(0), Ok(6));
        assert!(pairs(4).is_ok_and(|pairs| (7..=20).contains(&pairs)), "{:?}", pairs(4));
        let refused = pairs(40).expect_err("as many spikes as not");
        assert!(refused.to_string().contains("and spikes in up to 45 % of them"), "{refused}");
    }

    #[test]
    fn says_beforehand_that_no_design_decides() {
        insta::assert_snapshot!(
            size(&[Some(learned(0.3))], &RULES, 40).expect_err("refused"),
            @"at a noise of 31.4 % a pair, 40 pairs cannot find a change of 10.0 % with a probability of 0.8"
        );
        let launched =
            |sd: f64| Some(LearnedNoise { launches: Some(Launches { sd, n: 20, largest: 2.0 * sd }), ..learned(0.01) });
        let mut coexisting = vec![launched(0.001); 2];
        coexisting[1] = launched(0.025);
        let sized = size(&coexisting, &Rules { unit: PairUnit::Pair, ..RULES }, 40).expect("of the others there is a size");
        let [refused] = &sized.undecidable[..] else { panic!("one: {sized:?}") };
        assert_eq!(refused.metric(), 1);
        insta::assert_snapshot!(refused, @"launches alone make differences of up to 10.5 %, and 10.0 % have to be found");
    }

    #[test]
    fn sides_that_stay_up_take_what_is_known_of_launches() {
        let refused = size(&[Some(learned(0.01)), None], &Rules { unit: PairUnit::Pair, ..RULES }, 40).expect_err("refused");
        assert_eq!(refused, SizingError::LaunchesUnknown { metric: 0 });
    }

    #[test]
    fn more_pairs_than_are_allowed_are_never_planned() {
        let refused = size(&family(0.01), &RULES, 8).expect_err("refused").to_string();
        assert!(refused.contains("8 pairs cannot find"), "a lone metric of a hundred takes twelve: {refused}");
    }

    #[test]
    fn what_is_unknown_is_counted() {
        let size = size(&[None, Some(learned(0.01))], &RULES, 40).expect("a size");
        assert_eq!((size.unknown, size.costly.map(|costly| costly.metric)), (1, Some(1)));
    }

    #[test]
    fn a_design_says_what_it_can_find_before_it_is_run() {
        assert_eq!(assess_design(11, 100, &RULES), DesignPower::NeverFires { fewest: 12, together: true });
        // All metrics together need no more pairs than one metric by itself, and fewer than these find nothing.
        assert_eq!(assess_design(6, 3, &RULES), DesignPower::NeverFires { fewest: 7, together: true });
        assert_eq!(assess_design(5, 3, &RULES), DesignPower::NeverFires { fewest: 7, together: false });
        assert_eq!(assess_design(5, 1, &RULES), DesignPower::NeverFires { fewest: 6, together: false });
        let noise = |pairs: usize| match assess_design(pairs, 100, &RULES) {
            DesignPower::FindsUpTo { noise } => noise,
            never @ DesignPower::NeverFires { .. } => panic!("{never:?}"),
        };
        assert!(noise(14) < noise(20) && noise(20) < noise(30));
        // At that noise the design finds twice the budget and no less.
        let detectable = |pairs: usize| {
            let limits = Limits { floor: unlearned_floor(noise(pairs), pairs).log, budget: RULES.log_budget() };
            Curves::new(RULES.q_per_direction(), 100).curve(pairs, 0.0).expect("a curve").detectable(noise(pairs), &limits)
        };
        assert!([14, 20, 30].into_iter().all(|pairs| (detectable(pairs) - RULES.required_effect()).abs() < 1e-4));
        // A metric known not to be autocorrelated takes fewer pairs.
        let sized =
            |sd: f64| super::size(&vec![Some(LearnedNoise { noise: Noise::normal(sd, 1e6), ..learned(sd) }); 100], &RULES, 60);
        assert!(sized(noise(20)).is_ok_and(|size| size.pairs < 20));
    }
}
