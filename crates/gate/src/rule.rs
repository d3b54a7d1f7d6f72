//! The rule from pairs to outcomes: pure statistics, which knows of a metric only which direction is better.
//!
//! Everything is computed on logarithms of ratios, with the sign turned so that above zero is worse. A budget of 5 % is therefore
//! a ratio of 1.05 for a latency and of 1 / 1.05 for a throughput: doubling and halving are changes of one size.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{BetterDirection, FloorSource, Outcome, PairUnit};
use assay_stats::{Averages, Differences, Limits, Noise, PairError, Side, benjamini_hochberg, signed_rank, student};

pub use crate::curves::BOUND_ALPHA;
use crate::curves::Curves;
use crate::stretch::{MetricPairs, detect_stretches};

/// The highest floor, as a logarithm of a ratio: a side that is 22,000 times as slow needs no statistics.
const HIGHEST_FLOOR: f64 = 10.0;

/// The floor of a metric of which nothing was learned, in standard deviations of a pair's difference, times the power 3/2 of the
/// number of pairs.
const UNLEARNED_FLOOR_FACTOR: f64 = 110.0;

/// The noise of a metric, learned from earlier runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearnedNoise {
    /// The noise of one pair's difference.
    pub noise: Noise,
    /// The difference between launches of one side; if pairs are autocorrelated, that between whole runs.
    pub launches: Option<Launches>,
    /// The lag-1 autocorrelation of pairs, if earlier runs show one. Autocorrelated pairs are not independent samples, even if
    /// each has its own launches.
    pub autocorrelation: Option<f64>,
}

/// The difference between launches of one side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Launches {
    /// The standard deviation of a launch, as a logarithm of a ratio.
    pub sd: f64,
    /// The number of observed launches.
    pub n: u32,
    /// The largest shift of a whole run, in either direction, as a logarithm of a ratio.
    pub largest: f64,
}

impl LearnedNoise {
    /// Learns from runs of unchanged sides: the differences of each run's pairs, as logarithms of ratios. The difference between
    /// launches is estimated from the shifts of whole runs, including the noise of their trials: subtracting that would make it
    /// vanish in half of all short histories. A run whose sides did differ makes it larger. The autocorrelation of pairs is
    /// tested for all metrics together, in [`learn`](crate::learn).
    ///
    /// # Errors
    /// [`PairError`] if no run has two pairs or a difference is not a finite number.
    pub fn from_runs(runs: &[&[f64]]) -> Result<Self, PairError> {
        let noise = Noise::from_groups(runs)?;
        let shift = |run: &&[f64]| Ok(Averages::new(&Differences::new(run)?).shift());
        let shifts = runs.iter().filter(|run| run.len() > 1).map(shift).collect::<Result<Vec<f64>, PairError>>()?;
        let between = shifts.iter().map(|shift| shift * shift).sum::<f64>() / shifts.len() as f64;
        let largest = shifts.iter().fold(0.0_f64, |largest, shift| largest.max(shift.abs()));
        // A shift is a difference of two launches.
        let launches = Launches { sd: (0.5 * between).sqrt(), n: shifts.len() as u32, largest };
        Ok(Self { noise, launches: Some(launches), autocorrelation: None })
    }
}

/// One metric of one point, on both sides.
#[derive(Clone, Debug)]
pub struct Series {
    /// The better direction.
    pub better: BetterDirection,
    /// Baseline and candidate of every pair, in order.
    pub pairs: Vec<[f64; 2]>,
    /// The run and the round of every pair, ascending.
    pub places: Vec<[u32; 2]>,
    /// The learned noise.
    pub learned: Option<LearnedNoise>,
}

/// The rules by which a family of metrics is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// The accepted share of false alarms among alarms: half of it for changes for the worse, half for those for the better.
    pub q: f64,
    /// The accepted change, as a share: 0.05 is 5 %.
    pub budget: f64,
    /// The unit that the design re-randomises.
    pub unit: PairUnit,
    /// True if the question is which of two sides is better: then a change for the better is judged as one for the worse is. A gate asks whether the
    /// candidate is worse, and calls a change an improvement only if it would have found one for the worse.
    pub both_ways: bool,
}

impl Rules {
    /// Returns the rate for one direction.
    pub fn q_per_direction(&self) -> f64 {
        0.5 * self.q
    }

    /// Returns the budget as a logarithm of a ratio.
    pub fn log_budget(&self) -> f64 {
        libm::log(1.0 + self.budget)
    }

    /// Returns the effect that a design must be able to find: twice the budget, as a logarithm of a ratio.
    pub fn required_effect(&self) -> f64 {
        libm::log(1.0 + 2.0 * self.budget)
    }
}

/// Returns a logarithm of a ratio as a share: 0.05 is 5 %.
pub(crate) fn share(log: f64) -> f64 {
    libm::exp(log) - 1.0
}

/// A difference of equal sides that the design cannot average away.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floor {
    /// The logarithm of a ratio.
    pub log: f64,
    /// The source of the floor.
    pub source: FloorSource,
}

impl Floor {
    /// Returns the floor for another number of pairs of such noise.
    pub(crate) fn for_pairs(self, noise: &Noise, pairs: usize) -> Self {
        match self.source {
            FloorSource::Unlearned => unlearned_floor(noise.without_spikes().sd, pairs),
            FloorSource::Rerandomised | FloorSource::History | FloorSource::Autocorrelation => self,
        }
    }
}

/// The reason for a metric's outcome, if it needs one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutcomeReason {
    /// There is no pair.
    NoPair,
    /// A value has no logarithm.
    NotComparable,
    /// At this noise and number of pairs the design cannot find twice the budget.
    Underpowered,
    /// The test fired and the change is beyond the budget, but its bound does not clear the floor.
    WithinFloor,
    /// Both sides stayed up, and the difference between launches is unknown: a launch may cause the whole difference, or hide it.
    LaunchesUnknown,
    /// The pairs of this run are autocorrelated, so they are not independent samples.
    PairsAutocorrelated,
}

/// The change of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// The Hodges-Lehmann shift, above zero for worse.
    pub shift: f64,
    /// The lower bound, at one-sided [`BOUND_ALPHA`]; `None` if the pairs are too few for a bound.
    pub low: Option<f64>,
    /// The upper bound.
    pub high: Option<f64>,
    /// The probability of a result this much worse if nothing changed; exact up to 200 pairs.
    pub p_worse: f64,
    /// The probability of a result this much better if nothing changed.
    pub p_better: f64,
}

/// A judged metric.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedMetric {
    /// The outcome.
    pub outcome: Outcome,
    /// The reason for the outcome, if it needs one.
    pub why: Option<OutcomeReason>,
    /// The change; `None` if the metric cannot be compared.
    pub effect: Option<Effect>,
    /// `p_worse` adjusted for the family and for both directions.
    pub worse_adjusted: f64,
    /// `p_better` adjusted for the family and for both directions.
    pub better_adjusted: f64,
    /// The floor that was applied.
    pub floor: Option<Floor>,
    /// The noise that was applied.
    pub noise: Option<Noise>,
    /// The smallest change for the worse, as a logarithm of a ratio, that would have been found with a probability of 0.8; `None`
    /// if there is none.
    pub detectable: Option<f64>,
}

/// Judges a family of metrics together. The order of the family does not affect the result.
pub fn judge(family: &[Series], rules: &Rules) -> Vec<JudgedMetric> {
    judge_with(family, rules, &mut Curves::new(rules.q_per_direction(), family.len()))
}

/// Judges with the curves of this family, which the caller can use again.
pub(crate) fn judge_with(family: &[Series], rules: &Rules, curves: &mut Curves) -> Vec<JudgedMetric> {
    let measured: Vec<Option<TestedPairs>> = family.iter().map(TestedPairs::new).collect();
    // Doubled, because both directions are tested.
    let probability = |of: fn(&Effect) -> f64| -> Vec<f64> {
        measured.iter().map(|measured| measured.as_ref().map_or(1.0, |measured| (2.0 * of(&measured.effect)).min(1.0))).collect()
    };
    let worse = benjamini_hochberg(&probability(|effect| effect.p_worse));
    let better = benjamini_hochberg(&probability(|effect| effect.p_better));
    let decided = family.iter().zip(&measured).zip(worse.into_iter().zip(better));
    let mut judged: Vec<JudgedMetric> =
        decided.map(|((series, measured), adjusted)| decide(series, measured.as_ref(), adjusted, rules, curves)).collect();
    for metric in find_doubtful_metrics(family, &measured, &judged) {
        if let Some(judged) = judged.get_mut(metric) {
            (judged.outcome, judged.why) = (Outcome::Inconclusive, Some(OutcomeReason::PairsAutocorrelated));
        }
    }
    judged
}

/// Returns the metrics whose change may be a stretch of autocorrelated pairs.
fn find_doubtful_metrics(family: &[Series], measured: &[Option<TestedPairs>], judged: &[JudgedMetric]) -> Vec<usize> {
    if judged.iter().all(|judged| direction(judged.outcome).is_none()) {
        return Vec::new();
    }
    let places: BTreeSet<[u32; 2]> = family.iter().flat_map(|series| &series.places).copied().collect();
    let places: Vec<[u32; 2]> = places.into_iter().collect();
    let breaks: Vec<usize> = (1..places.len()).filter(|place| places[*place][0] != places[place - 1][0]).collect();
    let by_place = |series: &Series, measured: &TestedPairs| {
        let known: BTreeMap<_, _> = series.places.iter().zip(&measured.logs).collect();
        places.iter().map(|place| known.get(place).map(|log| **log)).collect()
    };
    let numbered = family.iter().zip(measured).zip(judged).enumerate();
    let (numbers, metrics): (Vec<usize>, Vec<MetricPairs>) = numbered
        .filter_map(|(metric, ((series, measured), judged))| {
            let measured = measured.as_ref()?;
            let pairs = MetricPairs {
                differences: by_place(series, measured),
                shift: measured.effect.shift,
                changed: direction(judged.outcome),
                is_known: series.learned.is_some(),
            };
            Some((metric, pairs))
        })
        .unzip();
    numbers.into_iter().zip(detect_stretches(&metrics, &breaks)).filter_map(|(metric, is_one)| is_one.then_some(metric)).collect()
}

/// Returns the side of zero to which a metric has changed.
fn direction(outcome: Outcome) -> Option<Side> {
    match outcome {
        Outcome::Regressed => Some(Side::Above),
        Outcome::Improved => Some(Side::Below),
        Outcome::Unchanged | Outcome::Inconclusive => None,
    }
}

/// The pairs of one metric with their tests.
struct TestedPairs {
    logs: Vec<f64>,
    own: Option<Noise>,
    effect: Effect,
}

impl TestedPairs {
    fn new(series: &Series) -> Option<Self> {
        let logs = logs(series)?;
        let differences = Differences::new(&logs).ok()?;
        let averages = Averages::new(&differences);
        let shift = averages.shift();
        let effect = Effect {
            shift,
            low: averages.lower(BOUND_ALPHA),
            high: averages.upper(BOUND_ALPHA),
            p_worse: signed_rank(&differences, Side::Above).p,
            p_better: signed_rank(&differences, Side::Below).p,
        };
        let own = Noise::from_group(shift, &logs).ok();
        Some(Self { logs, own, effect })
    }
}

/// The largest difference that is distinguished from larger ones, as a logarithm of a ratio: a millionfold. If one side alone is
/// zero, the difference is this large, so that a complete breakdown is judged as well.
pub const MAX_DIFFERENCE: f64 = 13.815_510_557_964_274;

/// Returns the logarithms of candidate over baseline, above zero for worse and at most [`MAX_DIFFERENCE`] in either direction; `None` if a
/// value is below zero or not finite.
pub fn logs(series: &Series) -> Option<Vec<f64>> {
    let turn = match series.better {
        BetterDirection::Lower => 1.0,
        BetterDirection::Higher => -1.0,
    };
    let log = |[baseline, candidate]: &[f64; 2]| {
        let is_amount = |value: f64| value >= 0.0 && value.is_finite();
        let difference = match (*baseline == 0.0, *candidate == 0.0) {
            (true, true) => 0.0,
            (false, true) => -MAX_DIFFERENCE,
            (true, false) => MAX_DIFFERENCE,
            (false, false) => libm::log(*candidate) - libm::log(*baseline),
        };
        (is_amount(*baseline) && is_amount(*candidate)).then(|| turn * difference.clamp(-MAX_DIFFERENCE, MAX_DIFFERENCE))
    };
    series.pairs.iter().map(log).collect::<Option<Vec<f64>>>().filter(|logs| !logs.is_empty())
}

/// Returns the noise by which a metric is judged: the learned one, unless this run was clearly noisier.
fn realised_noise(learned: Option<&LearnedNoise>, own: Option<Noise>, alpha: f64) -> Option<Noise> {
    match (learned.map(|learned| learned.noise), own) {
        (Some(learned), Some(own)) if own.is_wider_than(&learned, alpha) => Some(own),
        (Some(learned), _) => Some(learned),
        (None, own) => own,
    }
}

/// Returns the highest probability of a false alarm by a kind of launch that `runs` earlier runs did not happen to see: if a
/// share r of the shifts is of that kind, half of them for the worse, n runs miss it with (1 - r)^n, and r / 2 times that is at
/// most 1 / (2 e n).
fn unseen_launch_risk(runs: u32) -> f64 {
    0.5 / (std::f64::consts::E * f64::from(runs))
}

/// Returns the floor of a metric. If launches are not re-randomised, a launch may cause the whole difference; the effect of
/// launches, at the family's threshold, is the prediction bound of a difference of two of them. Launches may come in kinds, a
/// common one and a rare slow one, which a standard deviation describes badly, so the floor is at least twice the largest
/// observed shift. `None` if too little is known of launches: the trials of one launch tell nothing about the next, and a rare
/// kind may have been missed. If pairs are autocorrelated, the same holds for whole runs, even if each pair has its own launches.
pub fn floor(unit: PairUnit, learned: Option<&LearnedNoise>, alpha: f64) -> Option<Floor> {
    let remembers = learned.is_some_and(|learned| learned.autocorrelation.is_some());
    if unit == PairUnit::Launch && !remembers {
        return Some(Floor { log: 0.0, source: FloorSource::Rerandomised });
    }
    let launches = learned.and_then(|learned| learned.launches).filter(|launches| launches.n > 1)?;
    if unit == PairUnit::Pair && unseen_launch_risk(launches.n) > alpha {
        return None;
    }
    let beyond = student::quantile(1.0 - alpha, f64::from(launches.n - 1));
    let log = (beyond * launches.sd * std::f64::consts::SQRT_2).max(2.0 * launches.largest).min(HIGHEST_FLOOR);
    Some(Floor { log, source: if remembers { FloorSource::Autocorrelation } else { FloorSource::History } })
}

/// Returns the floor of a metric without earlier runs, if launches are drawn anew. Whether its pairs are autocorrelated is then
/// unknown. A test of their order has little power with few pairs, and a stretch of them looks like a change, the larger the
/// fewer they are: so few pairs have to show a large change, and from thirty pairs on this hardly matters. `noise` is the
/// standard deviation of a pair's difference without its spikes.
///
/// The factor and the power of the number of pairs are calibrated: about the smallest that keep the limit of false alarms if
/// sides have an autocorrelation of 0.8 or 0.9, for one metric or a hundred.
pub fn unlearned_floor(noise: f64, pairs: usize) -> Floor {
    let n = pairs as f64;
    Floor { log: (UNLEARNED_FLOOR_FACTOR * noise / (n * n.sqrt())).min(HIGHEST_FLOOR), source: FloorSource::Unlearned }
}

fn decide(
    series: &Series,
    measured: Option<&TestedPairs>,
    adjusted: (f64, f64),
    rules: &Rules,
    curves: &mut Curves,
) -> JudgedMetric {
    let (worse_adjusted, better_adjusted) = adjusted;
    let mut judged = JudgedMetric {
        outcome: Outcome::Inconclusive,
        why: Some(if series.pairs.is_empty() { OutcomeReason::NoPair } else { OutcomeReason::NotComparable }),
        effect: measured.map(|measured| measured.effect),
        worse_adjusted,
        better_adjusted,
        floor: None,
        noise: None,
        detectable: None,
    };
    let Some(TestedPairs { logs, own, effect }) = measured else { return judged };
    let learned = series.learned.as_ref();
    judged.noise = realised_noise(learned, *own, curves.threshold());
    judged.floor = floor(rules.unit, learned, curves.threshold());
    let Some(noise) = judged.noise else {
        judged.why = Some(OutcomeReason::Underpowered);
        return judged;
    };
    if learned.is_none() {
        judged.floor = judged.floor.map(|_| unlearned_floor(noise.without_spikes().sd, logs.len()));
    }
    let Some(floor) = judged.floor else {
        judged.why = Some(OutcomeReason::LaunchesUnknown);
        return judged;
    };
    let limits = Limits { floor: floor.log, budget: rules.log_budget() };
    judged.detectable = curves.detectable(logs.len(), noise.views(), &limits).filter(|log| *log <= MAX_DIFFERENCE);
    let clears = |bound: Option<f64>| bound.is_some_and(|bound| bound > floor.log);
    let fired = worse_adjusted <= rules.q && effect.shift > limits.budget;
    let is_better = better_adjusted <= rules.q && effect.shift < -limits.budget;
    let is_clearly_better = is_better && clears(effect.high.map(|bound| -bound));
    let is_seen = fired || rules.both_ways && is_better;
    let nearer = if fired { effect.low } else { effect.high };
    let (outcome, why) = if fired && clears(effect.low) {
        (Outcome::Regressed, None)
    } else if rules.both_ways && is_clearly_better {
        (Outcome::Improved, None)
    } else if is_seen && nearer.is_some() && effect.shift.abs() > rules.required_effect() {
        // A large change that was seen is to be confirmed, which takes fewer pairs than one of twice the budget.
        (Outcome::Inconclusive, Some(OutcomeReason::WithinFloor))
    } else if judged.detectable.is_none_or(|smallest| smallest > rules.required_effect()) {
        (Outcome::Inconclusive, Some(OutcomeReason::Underpowered))
    } else if is_seen {
        (Outcome::Inconclusive, Some(OutcomeReason::WithinFloor))
    } else if is_clearly_better {
        (Outcome::Improved, None)
    } else {
        (Outcome::Unchanged, None)
    };
    JudgedMetric { outcome, why, ..judged }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules { q: 0.05, budget: 0.05, unit: PairUnit::Launch, both_ways: false };
    const BOTH_WAYS: Rules = Rules { both_ways: true, ..RULES };

    /// Returns `n` pairs with a ripple of a third of a percent, the candidate `ratio` times the baseline.
    fn pairs(n: u32, ratio: f64) -> Vec<[f64; 2]> {
        (0..n).map(|i| [100.0 + f64::from(i * 5 % 7) * 0.1, ratio * (100.0 + f64::from(i * 3 % 7) * 0.1)]).collect()
    }

    fn series(n: u32, ratio: f64) -> Series {
        in_order(BetterDirection::Lower, pairs(n, ratio))
    }

    /// Returns a series of one run, its pairs in their order.
    fn in_order(better: BetterDirection, pairs: Vec<[f64; 2]>) -> Series {
        let places = (0..pairs.len() as u32).map(|round| [0, round]).collect();
        Series { better, pairs, places, learned: None }
    }

    fn learned(sd: f64, launches: Option<Launches>) -> LearnedNoise {
        LearnedNoise { noise: Noise::normal(sd, 100.0), launches, autocorrelation: None }
    }

    fn alone(series: Series, rules: &Rules) -> JudgedMetric {
        judge(&[series], rules).remove(0)
    }

    #[test]
    fn both_directions_are_judged_by_one_rule() {
        let outcome = |ratio: f64, better: BetterDirection| alone(Series { better, ..series(12, ratio) }, &RULES).outcome;
        assert_eq!(
            [0.9, 1.0, 1.1].map(|ratio| outcome(ratio, BetterDirection::Lower)),
            [Outcome::Improved, Outcome::Unchanged, Outcome::Regressed]
        );
        assert_eq!(
            [0.9, 1.0, 1.1].map(|ratio| outcome(ratio, BetterDirection::Higher)),
            [Outcome::Regressed, Outcome::Unchanged, Outcome::Improved]
        );
    }

    #[test]
    fn a_question_of_which_side_is_better_has_the_mirrored_answer() {
        // The same pairs with their sides changed have the same outcome, in the other direction, for any noise, number of pairs and order.
        let turned = |outcome| match outcome {
            Outcome::Improved => Outcome::Regressed,
            Outcome::Regressed => Outcome::Improved,
            same => same,
        };
        let mut seen = BTreeSet::new();
        for ratio in [0.5, 0.8, 0.9, 0.93, 0.97, 1.0] {
            for n in [5_u32, 9, 20, 40] {
                for spread in [0.0, 0.02, 0.05, 0.2] {
                    let wave =
                        |i: u32| libm::exp(spread * assay_stats::normal::quantile((f64::from(i * 7 % n) + 0.5) / f64::from(n)));
                    let creep = |i: u32| ratio * (1.0 + spread * f64::from(i) / f64::from(n));
                    for candidate in [&(|i| ratio * wave(i)) as &dyn Fn(u32) -> f64, &creep] {
                        let pairs: Vec<[f64; 2]> = (0..n).map(|i| [100.0, 100.0 * candidate(i)]).collect();
                        let back = pairs.iter().map(|[one, other]| [*other, *one]).collect();
                        let [there, back] = [pairs, back].map(|pairs| alone(in_order(BetterDirection::Lower, pairs), &BOTH_WAYS));
                        assert_eq!((there.outcome, there.why), (turned(back.outcome), back.why), "{ratio} {n} {spread}");
                        seen.insert(format!("{:?} {:?}", there.outcome, there.why));
                    }
                }
            }
        }
        for one in ["Improved None", "Unchanged None", "Inconclusive Some(WithinFloor)", "Inconclusive Some(PairsAutocorrelated)"]
        {
            assert!(seen.contains(one), "no case was `{one}`: {seen:?}");
        }
    }

    #[test]
    fn a_gate_calls_an_improvement_one_only_if_it_has_power() {
        let few: Vec<[f64; 2]> = loud(9).pairs.iter().map(|[baseline, slow]| [*slow * 4.0, *baseline]).collect();
        let judged = |rules| alone(in_order(BetterDirection::Lower, few.clone()), rules).outcome;
        assert_eq!([judged(&RULES), judged(&BOTH_WAYS)], [Outcome::Inconclusive, Outcome::Improved]);
    }

    #[test]
    fn what_is_within_the_budget_is_unchanged_however_sure() {
        let judged = alone(series(40, 1.03), &RULES);
        assert!(judged.worse_adjusted < 1e-9);
        assert_eq!((judged.outcome, judged.why), (Outcome::Unchanged, None));
    }

    #[test]
    fn a_lone_regression_among_a_hundred_takes_twelve_pairs() {
        let lone = |n: u32| {
            let mut family = vec![series(n, 1.0); 99];
            family.push(series(n, 1.2));
            judge(&family, &RULES).pop().expect("judged")
        };
        assert_eq!(
            (lone(11).outcome, lone(11).why, lone(11).detectable),
            (Outcome::Inconclusive, Some(OutcomeReason::Underpowered), None)
        );
        assert_eq!(lone(12).outcome, Outcome::Regressed);
    }

    #[test]
    fn what_was_learned_decides_what_could_have_been_found() {
        let with = |sd: f64| alone(Series { learned: Some(learned(sd, None)), ..series(12, 1.0) }, &RULES);
        assert_eq!(with(0.02).outcome, Outcome::Unchanged);
        assert_eq!((with(0.3).outcome, with(0.3).why), (Outcome::Inconclusive, Some(OutcomeReason::Underpowered)));
    }

    #[test]
    fn a_run_that_was_clearly_noisier_speaks_for_itself() {
        let loud: Vec<[f64; 2]> =
            pairs(20, 1.0).iter().enumerate().map(|(i, [a, b])| [*a, b * if i % 2 == 0 { 1.3 } else { 0.75 }]).collect();
        let judged = alone(Series { learned: Some(learned(0.02, None)), ..in_order(BetterDirection::Lower, loud) }, &RULES);
        assert!(judged.noise.is_some_and(|noise| noise.sd > 0.2));
        assert_eq!(judged.outcome, Outcome::Inconclusive);
    }

    #[test]
    fn a_change_that_creeps_in_from_pair_to_pair_is_not_charged() {
        // All pairs are worse by a tenth in the mean, each by a little more than the one before it.
        let creeping: Vec<[f64; 2]> = (0..24).map(|i| [100.0, 103.0 + 0.6 * f64::from(i)]).collect();
        let steady: Vec<[f64; 2]> = (0..24).map(|i| [100.0, 103.0 + 0.6 * f64::from(i * 5 % 24)]).collect();
        let judged = |pairs: &[[f64; 2]]| alone(in_order(BetterDirection::Lower, pairs.to_vec()), &RULES);
        let (crept, stayed) = (judged(&creeping), judged(&steady));
        assert_eq!((crept.outcome, crept.why), (Outcome::Inconclusive, Some(OutcomeReason::PairsAutocorrelated)));
        assert_eq!((stayed.outcome, stayed.why), (Outcome::Regressed, None));
        assert_eq!(crept.effect, stayed.effect, "the same values in another order");
        let among = judge(&[in_order(BetterDirection::Lower, creeping), series(24, 1.0)], &RULES);
        assert_eq!(among[1].outcome, Outcome::Unchanged, "what has not changed keeps its word");
    }

    /// Returns `n` pairs that are a tenth slower and differ from each other by three percent, without autocorrelation.
    fn loud(n: u32) -> Series {
        let noise = |i: u32| 0.03 * assay_stats::normal::quantile((f64::from(i * 7 % n) + 0.5) / f64::from(n));
        in_order(BetterDirection::Lower, (0..n).map(|i| [100.0, 110.0 * libm::exp(noise(i))]).collect())
    }

    #[test]
    fn what_nothing_was_learned_of_must_stand_out_the_further_the_fewer_pairs_there_are() {
        let judged = [9, 13, 20, 41].map(|n| alone(loud(n), &RULES));
        let floors = judged.map(|judged| judged.floor.expect("a floor"));
        assert!(
            floors.iter().all(|floor| floor.source == FloorSource::Unlearned)
                && floors.is_sorted_by(|one, next| one.log > next.log)
        );
        // 110 x 3 % over the power 3/2 of 20, with the noise as estimated.
        assert!((floors[2].log - 0.0369).abs() < 0.003, "{floors:?}");
        let few = alone(loud(9), &RULES);
        assert_eq!((few.outcome, few.why), (Outcome::Inconclusive, Some(OutcomeReason::Underpowered)));
        assert_eq!(alone(loud(20), &RULES).outcome, Outcome::Regressed);
        // A metric that earlier runs showed not to be autocorrelated has no such floor.
        let known = Series { learned: Some(learned(0.03, None)), ..loud(9) };
        assert_eq!(alone(known, &RULES).outcome, Outcome::Regressed);
        assert_eq!(alone(series(3, 1.0), &RULES).floor.map(|floor| floor.source), Some(FloorSource::Unlearned));
    }

    #[test]
    fn what_remembers_in_earlier_runs_has_a_floor() {
        let rules = RULES;
        let with = |sd: f64, ratio: f64| {
            let launches = Some(Launches { sd, n: 20, largest: 2.0 * sd });
            let learned = LearnedNoise { autocorrelation: Some(0.8), ..learned(0.005, launches) };
            alone(Series { learned: Some(learned), ..series(12, ratio) }, &rules)
        };
        let judged = with(0.01, 1.2);
        assert_eq!(judged.floor.map(|floor| floor.source), Some(FloorSource::Autocorrelation));
        assert_eq!(judged.outcome, Outcome::Regressed);
        assert_eq!((with(0.08, 1.2).outcome, with(0.08, 1.2).why), (Outcome::Inconclusive, Some(OutcomeReason::WithinFloor)));
        assert_eq!((with(0.08, 1.0).outcome, with(0.08, 1.0).why), (Outcome::Inconclusive, Some(OutcomeReason::Underpowered)));
    }

    #[test]
    fn launches_that_come_in_kinds_raise_the_floor_beyond_their_spread() {
        let mut runs: Vec<&[f64]> = vec![&[0.001, -0.001]; 9];
        runs.push(&[0.12; 4]);
        let rare = LearnedNoise::from_runs(&runs).expect("learned");
        let log = floor(PairUnit::Pair, Some(&rare), 0.025).expect("a floor").log;
        assert!(log >= 0.24, "{rare:?} {log}");
    }

    #[test]
    fn launches_that_are_not_drawn_anew_raise_a_floor() {
        let rules = Rules { unit: PairUnit::Pair, ..RULES };
        let with = |sd: f64, ratio: f64| {
            let launches = Some(Launches { sd, n: 20, largest: sd });
            alone(Series { learned: Some(learned(0.005, launches)), ..series(12, ratio) }, &rules)
        };
        assert_eq!(with(0.005, 1.1).outcome, Outcome::Regressed);
        assert_eq!((with(0.03, 1.06).outcome, with(0.03, 1.06).why), (Outcome::Inconclusive, Some(OutcomeReason::WithinFloor)));
        let floor = |judged: &JudgedMetric| judged.floor.expect("a floor");
        // Student's 97.5 % point with 19 degrees of freedom is 2.093.
        assert!((floor(&with(0.03, 1.0)).log - 2.0930 * 0.03 * 2.0_f64.sqrt()).abs() < 1e-4);
        let drawn_anew = Series { learned: Some(learned(0.005, None)), ..series(12, 1.0) };
        assert_eq!(floor(&alone(drawn_anew, &RULES)), Floor { log: 0.0, source: FloorSource::Rerandomised });
    }

    #[test]
    fn a_kind_of_launch_that_few_runs_may_have_missed_leaves_no_floor() {
        let known = |n: u32| learned(0.005, Some(Launches { sd: 0.002, n, largest: 0.004 }));
        let has_floor = |n: u32, tests: u32| floor(PairUnit::Pair, Some(&known(n)), 0.025 / f64::from(tests)).is_some();
        assert!(!has_floor(7, 1) && has_floor(8, 1), "1 / (2 e 8) is 2.3 %");
        assert!(!has_floor(700, 100) && has_floor(740, 100));
        assert!(floor(PairUnit::Launch, Some(&known(2)), 1e-4).is_some(), "where launches are drawn anew none is left");
    }

    #[test]
    fn launches_of_which_nothing_is_known_decide_nothing() {
        let rules = Rules { unit: PairUnit::Pair, ..RULES };
        let judged = [0.5, 1.0, 2.0].map(|ratio| alone(series(40, ratio), &rules));
        assert!(
            judged
                .iter()
                .all(|judged| (judged.outcome, judged.why) == (Outcome::Inconclusive, Some(OutcomeReason::LaunchesUnknown)))
        );
        let without_launches = Series { learned: Some(learned(0.005, None)), ..series(40, 2.0) };
        assert_eq!(alone(without_launches, &rules).why, Some(OutcomeReason::LaunchesUnknown));
    }

    #[test]
    fn what_broke_down_altogether_is_worse_and_nothing_on_both_sides_is_unchanged() {
        let rules = RULES;
        let of = |pairs: Vec<[f64; 2]>, better: BetterDirection| alone(in_order(better, pairs), &rules);
        let ended = of((0..12).map(|i| [100.0 + f64::from(i), 0.0]).collect(), BetterDirection::Higher);
        assert_eq!(ended.outcome, Outcome::Regressed);
        let is_most =
            |judged: &JudgedMetric| judged.effect.is_some_and(|effect| (effect.shift - MAX_DIFFERENCE).abs() < f64::EPSILON);
        assert!(is_most(&ended), "{ended:?}");
        assert_eq!(of(vec![[0.0, 3.0]; 12], BetterDirection::Lower).outcome, Outcome::Regressed);
        assert_eq!(of(vec![[3.0, 0.0]; 12], BetterDirection::Lower).outcome, Outcome::Improved);
        assert_eq!(of(vec![[0.0, 0.0]; 12], BetterDirection::Lower).outcome, Outcome::Unchanged);
        assert!(is_most(&of(vec![[5e-324, 1e300]; 12], BetterDirection::Lower)), "no ratio overflows");
        // A metric that broke down does not decide for the others, and is not left out either.
        let mut one = pairs(12, 1.0);
        one[5][1] = 0.0;
        let judged = of(one, BetterDirection::Higher);
        assert!(judged.outcome != Outcome::Regressed && judged.effect.is_some(), "{judged:?}");
    }

    #[test]
    fn what_has_no_ratio_is_inconclusive_and_stays_in_the_family() {
        let mut family = vec![
            series(12, 1.1),
            in_order(BetterDirection::Lower, vec![[-1.0, 1.0]; 12]),
            in_order(BetterDirection::Lower, Vec::new()),
        ];
        let judged = judge(&family, &RULES);
        assert_eq!([1, 2].map(|place| judged[place].why), [Some(OutcomeReason::NotComparable), Some(OutcomeReason::NoPair)]);
        let tested = judged[0].effect.expect("an effect").p_worse;
        assert!((judged[0].worse_adjusted - 6.0 * tested).abs() < 1e-15, "three tests of two sides, whatever came of them");
        family.reverse();
        assert_eq!(judge(&family, &RULES)[2], judged[0], "the order of the family does not matter");
    }
}
