//! The rule for pieces of evidence that nothing pairs: the rank-sum test, the Hodges-Lehmann shift with its interval, the false discovery rate and
//! the floor of the gates' rule. Without pairs there is no design whose power is known, so `unchanged` rests on the interval instead: it has to
//! exclude the change that a gate must find.

use assay_manifest::{BetterDirection, Outcome};
use assay_stats::{Alternative, Noise, Samples, benjamini_hochberg, hodges_lehmann, lone_threshold, mann_whitney};

use crate::rule::{BOUND_ALPHA, Effect, Floor, Rules, unlearned_floor};

/// The most pieces of each side that a verdict requests.
const MOST_PIECES: u32 = 1_000;

/// The level of intervals.
const LEVEL: f64 = 1.0 - 2.0 * BOUND_ALPHA;

/// The values of one number on both sides.
#[derive(Clone, Debug)]
pub(super) struct Sides {
    pub(super) better: BetterDirection,
    pub(super) baseline: Vec<f64>,
    pub(super) candidate: Vec<f64>,
}

/// The reason for an outcome, if it needs one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnpairedReason {
    /// A value has no logarithm.
    NotComparable,
    /// The interval does not exclude twice the budget.
    TooWide,
    /// The test fired and the change is beyond the budget, but its bound does not clear the floor.
    WithinFloor,
}

/// A judged number.
#[derive(Clone, Debug)]
pub(super) struct JudgedSides {
    pub(super) outcome: Outcome,
    pub(super) why: Option<UnpairedReason>,
    pub(super) effect: Option<Effect>,
    pub(super) worse_adjusted: f64,
    pub(super) better_adjusted: f64,
    pub(super) floor: Option<Floor>,
    /// The standard deviation of the difference of two pieces, as a logarithm.
    pub(super) noise: Option<f64>,
}

/// Judges a family of numbers together.
pub(super) fn judge(family: &[Sides], rules: &Rules) -> Vec<JudgedSides> {
    let tested: Vec<Option<TestedSides>> = family.iter().map(TestedSides::new).collect();
    // Doubled, because both directions are tested.
    let probability = |of: fn(&Effect) -> f64| -> Vec<f64> {
        tested.iter().map(|tested| tested.as_ref().map_or(1.0, |tested| (2.0 * of(&tested.effect)).min(1.0))).collect()
    };
    let worse = benjamini_hochberg(&probability(|effect| effect.p_worse));
    let better = benjamini_hochberg(&probability(|effect| effect.p_better));
    tested.iter().zip(worse.into_iter().zip(better)).map(|(tested, adjusted)| decide(tested.as_ref(), adjusted, rules)).collect()
}

struct TestedSides {
    effect: Effect,
    noise: Option<f64>,
    fewest: usize,
}

impl TestedSides {
    fn new(sides: &Sides) -> Option<Self> {
        let [baseline, candidate] = [&sides.baseline, &sides.candidate].map(|values| Samples::new(values).ok());
        let (baseline, candidate) = (baseline?, candidate?);
        let shift = hodges_lehmann::ratio(&baseline, &candidate, LEVEL).ok()?;
        // Few pieces have intervals of a lower level only, and these bound nothing here.
        let ends = shift.interval.ok().filter(|interval| interval.level >= LEVEL).map(|interval| [interval.low, interval.high]);
        let log = |ratio: f64| libm::log(ratio);
        let (turn, worse, better) = match sides.better {
            BetterDirection::Lower => (1.0, Alternative::Greater, Alternative::Less),
            BetterDirection::Higher => (-1.0, Alternative::Less, Alternative::Greater),
        };
        let ends = ends.map(|[low, high]| if turn > 0.0 { [log(low), log(high)] } else { [-log(high), -log(low)] });
        // Values that are all equal show no change.
        let p = |alternative| mann_whitney(&candidate, &baseline, alternative).map_or(1.0, |tested| tested.p);
        let effect = Effect {
            shift: turn * log(shift.estimate),
            low: ends.map(|[low, _]| low),
            high: ends.map(|[_, high]| high),
            p_worse: p(worse),
            p_better: p(better),
        };
        let logs = [&sides.baseline, &sides.candidate].map(|values| values.iter().map(|value| log(*value)).collect::<Vec<f64>>());
        let noise = Noise::from_groups(&logs.each_ref().map(Vec::as_slice)).ok();
        // The difference of two pieces varies by both.
        let noise = noise.map(|noise| noise.without_spikes().sd * std::f64::consts::SQRT_2);
        Some(Self { effect, noise, fewest: sides.baseline.len().min(sides.candidate.len()) })
    }
}

fn decide(tested: Option<&TestedSides>, (worse_adjusted, better_adjusted): (f64, f64), rules: &Rules) -> JudgedSides {
    let mut judged = JudgedSides {
        outcome: Outcome::Inconclusive,
        why: Some(UnpairedReason::NotComparable),
        effect: tested.map(|tested| tested.effect),
        worse_adjusted,
        better_adjusted,
        floor: None,
        noise: tested.and_then(|tested| tested.noise),
    };
    let Some(TestedSides { effect, noise, fewest }) = tested else { return judged };
    judged.why = Some(UnpairedReason::TooWide);
    let Some(noise) = noise else { return judged };
    let floor = unlearned_floor(*noise, *fewest);
    judged.floor = Some(floor);
    let clears = |bound: Option<f64>| bound.is_some_and(|bound| bound > floor.log);
    let fired = worse_adjusted <= rules.q && effect.shift > rules.log_budget();
    let is_better = better_adjusted <= rules.q && effect.shift < -rules.log_budget();
    let excludes_effect = effect.high.is_some_and(|high| high < rules.required_effect());
    let (outcome, why) = if fired && clears(effect.low) {
        (Outcome::Regressed, None)
    } else if fired {
        (Outcome::Inconclusive, Some(UnpairedReason::WithinFloor))
    } else if is_better && clears(effect.high.map(|bound| -bound)) {
        (Outcome::Improved, None)
    } else if excludes_effect {
        (Outcome::Unchanged, None)
    } else {
        (Outcome::Inconclusive, Some(UnpairedReason::TooWide))
    };
    JudgedSides { outcome, why, ..judged }
}

/// Returns the fewest pieces of each side with which a lone number of a family can be discovered at all.
pub(super) fn fewest_pieces(rules: &Rules, family: usize) -> u32 {
    (1..=MOST_PIECES).find(|pieces| can_decide(*pieces, *pieces, rules, family)).unwrap_or(MOST_PIECES)
}

/// Returns true if so many pieces of both sides can show a change at all. If all of one side are above all of the other, their probability is one
/// in the number of ways to choose a side; and an interval of 95 % has to exist.
pub(super) fn can_decide(baseline: u32, candidate: u32, rules: &Rules, family: usize) -> bool {
    let threshold = lone_threshold(rules.q_per_direction(), family).min(BOUND_ALPHA);
    1.0 / ways(baseline, candidate) <= threshold
}

/// Returns the number of ways to choose the smaller side among the pieces of both.
fn ways(baseline: u32, candidate: u32) -> f64 {
    let all = f64::from(baseline + candidate);
    (1..=baseline.min(candidate)).map(f64::from).fold(1.0, |ways, chosen| ways * (all - chosen + 1.0) / chosen)
}
