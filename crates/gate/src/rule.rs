//! The rule from pairs to outcomes: pure statistics, which knows of metrics only which way is better.
//!
//! Everything is computed on logarithms of ratios, turned so that above zero is worse. A budget of 5 % is therefore a ratio of 1.05 for a
//! latency and of 1 / 1.05 for a throughput: doubling and halving are changes of one size.

use assay_manifest::{Better, FloorSource, Outcome, PairUnit};
use assay_stats::{Averages, Curve, Differences, Limits, Noise, Side, benjamini_hochberg, lone_threshold, signed_rank, student};

/// One minus the confidence of the one-sided bound that has to clear the floor: the ends of a two-sided interval of 95 %.
pub const BOUND_ALPHA: f64 = 0.025;

/// What earlier runs teach about a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Learned {
    /// The noise of one pair's difference.
    pub noise: Noise,
    /// How launches of one side differ from each other.
    pub launches: Option<Launches>,
}

/// How launches of one side differ from each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Launches {
    /// The standard deviation of a launch, as a logarithm of a ratio.
    pub sd: f64,
    /// The number of launches that it was seen in.
    pub n: u32,
}

/// One metric of one point, on both sides.
#[derive(Clone, Debug)]
pub struct Series {
    /// Which way is better.
    pub better: Better,
    /// Baseline and candidate of every pair, in order.
    pub pairs: Vec<[f64; 2]>,
    /// What is known of its noise.
    pub learned: Option<Learned>,
}

/// How a family of metrics is judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// The share of false alarms among alarms that is let pass.
    pub q: f64,
    /// What a change may come to, as a share: 0.05 is 5 %.
    pub budget: f64,
    /// What the design re-randomises.
    pub unit: PairUnit,
}

impl Rules {
    /// The budget as a logarithm of a ratio.
    pub fn log_budget(&self) -> f64 {
        libm::log(1.0 + self.budget)
    }

    /// The effect that a design must be able to find: twice the budget, as a logarithm of a ratio.
    pub fn must_find(&self) -> f64 {
        libm::log(1.0 + 2.0 * self.budget)
    }
}

/// A difference of equal sides that the design cannot average away.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floor {
    /// The logarithm of a ratio.
    pub log: f64,
    /// Where it comes from.
    pub source: FloorSource,
}

/// Why a metric is what it is, where that needs a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// There is no pair, or a value has no logarithm.
    NotComparable,
    /// At this noise and number of pairs the design cannot find twice the budget.
    Underpowered,
    /// The test fired and the change is beyond the budget, but its bound does not clear the floor.
    WithinFloor,
}

/// How a metric changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// The shift of Hodges and Lehmann, above zero for worse.
    pub shift: f64,
    /// Lower bound, at one-sided [`BOUND_ALPHA`]; absent where so few pairs bound nothing.
    pub low: Option<f64>,
    /// Upper bound.
    pub high: Option<f64>,
    /// The probability of so much worse under no change; exact up to 200 pairs.
    pub p_worse: f64,
    /// The probability of so much better.
    pub p_better: f64,
}

/// A judged metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// What it comes to.
    pub outcome: Outcome,
    /// Why, where that needs a word.
    pub why: Option<Why>,
    /// How it changed; absent where it cannot be compared.
    pub effect: Option<Effect>,
    /// `p_worse` adjusted for the family.
    pub worse_adjusted: f64,
    /// `p_better` adjusted for the family.
    pub better_adjusted: f64,
    /// The floor that it was judged by.
    pub floor: Option<Floor>,
    /// The noise that it was judged by.
    pub noise: Option<Noise>,
    /// The smallest change for the worse, as a logarithm of a ratio, that would have been found with a probability of 0.8; absent where none
    /// would have.
    pub detectable: Option<f64>,
}

/// Judges a family of metrics together. The order of the family does not matter to any of them.
pub fn judge(family: &[Series], rules: &Rules) -> Vec<Judged> {
    let measured: Vec<Option<Measured>> = family.iter().map(Measured::of).collect();
    let probability = |of: fn(&Effect) -> f64| -> Vec<f64> {
        measured.iter().map(|measured| measured.as_ref().map_or(1.0, |measured| of(&measured.effect))).collect()
    };
    let worse = benjamini_hochberg(&probability(|effect| effect.p_worse));
    let better = benjamini_hochberg(&probability(|effect| effect.p_better));
    let mut curves = Curves::new(rules, family.len());
    let judged = family.iter().zip(&measured).zip(worse.into_iter().zip(better));
    judged.map(|((series, measured), adjusted)| decide(series, measured.as_ref(), adjusted, rules, &mut curves)).collect()
}

/// A metric's pairs, tested by themselves.
struct Measured {
    n: usize,
    own: Option<Noise>,
    effect: Effect,
}

impl Measured {
    fn of(series: &Series) -> Option<Self> {
        let logs = logs(series)?;
        let differences = Differences::new(&logs).ok()?;
        let averages = Averages::of(&differences);
        let effect = Effect {
            shift: averages.shift(),
            low: averages.lower(BOUND_ALPHA),
            high: averages.upper(BOUND_ALPHA),
            p_worse: signed_rank(&differences, Side::Above).p,
            p_better: signed_rank(&differences, Side::Below).p,
        };
        Some(Self { n: logs.len(), own: Noise::of(&[&logs]).ok(), effect })
    }
}

/// The logarithms of candidate over baseline, above zero for worse; absent where a value has none.
pub fn logs(series: &Series) -> Option<Vec<f64>> {
    let turn = match series.better {
        Better::Lower => 1.0,
        Better::Higher => -1.0,
    };
    let log = |[baseline, candidate]: &[f64; 2]| {
        let is_positive = *baseline > 0.0 && *candidate > 0.0 && baseline.is_finite() && candidate.is_finite();
        is_positive.then(|| turn * (libm::log(*candidate) - libm::log(*baseline)))
    };
    series.pairs.iter().map(log).collect::<Option<Vec<f64>>>().filter(|logs| !logs.is_empty())
}

/// What designs of each number of pairs need; most metrics of a family have the same number.
struct Curves {
    alpha: f64,
    known: std::collections::BTreeMap<usize, Option<Curve>>,
}

impl Curves {
    fn new(rules: &Rules, tests: usize) -> Self {
        Self { alpha: lone_threshold(rules.q, tests), known: std::collections::BTreeMap::new() }
    }

    fn of(&mut self, pairs: usize) -> Option<&Curve> {
        self.known.entry(pairs).or_insert_with(|| Curve::of(pairs, self.alpha, BOUND_ALPHA)).as_ref()
    }
}

/// The noise that a metric is judged by: what was learned, unless this run was clearly noisier.
fn realised(learned: Option<&Learned>, own: Option<Noise>, alpha: f64) -> Option<Noise> {
    match (learned.map(|learned| learned.noise), own) {
        (Some(learned), Some(own)) if own.is_wider_than(&learned, alpha) => Some(own),
        (Some(learned), _) => Some(learned),
        (None, own) => own,
    }
}

/// The floor of a metric. A launch that is not re-randomised may have made all of a difference; how much launches make, at the family's
/// threshold, is the prediction bound of a difference of two of them.
pub fn floor(unit: PairUnit, learned: Option<&Learned>, own: Option<Noise>, alpha: f64) -> Option<Floor> {
    if unit == PairUnit::Launch {
        return Some(Floor { log: 0.0, source: FloorSource::Rerandomised });
    }
    match learned.and_then(|learned| learned.launches).filter(|launches| launches.n > 1) {
        Some(launches) => {
            let beyond = student::quantile(1.0 - alpha, f64::from(launches.n - 1));
            Some(Floor { log: beyond * launches.sd * std::f64::consts::SQRT_2, source: FloorSource::History })
        }
        // A pair's difference has the noise of two trials.
        None => own.map(|own| Floor { log: own.sd / std::f64::consts::SQRT_2, source: FloorSource::OwnTrials }),
    }
}

fn decide(series: &Series, measured: Option<&Measured>, adjusted: (f64, f64), rules: &Rules, curves: &mut Curves) -> Judged {
    let (worse_adjusted, better_adjusted) = adjusted;
    let mut judged = Judged {
        outcome: Outcome::Inconclusive,
        why: Some(Why::NotComparable),
        effect: measured.map(|measured| measured.effect),
        worse_adjusted,
        better_adjusted,
        floor: None,
        noise: None,
        detectable: None,
    };
    let Some(Measured { n, own, effect }) = measured else { return judged };
    let learned = series.learned.as_ref();
    judged.noise = realised(learned, *own, curves.alpha);
    judged.floor = floor(rules.unit, learned, *own, curves.alpha);
    let (Some(noise), Some(floor)) = (judged.noise, judged.floor) else {
        judged.why = Some(Why::Underpowered);
        return judged;
    };
    let limits = Limits { floor: floor.log, budget: rules.log_budget() };
    judged.detectable = curves.of(*n).map(|curve| curve.detectable(noise.sd, &limits));
    let clears = |bound: Option<f64>| bound.is_some_and(|bound| bound > floor.log);
    let fired = worse_adjusted <= rules.q && effect.shift > limits.budget;
    let (outcome, why) = if fired && clears(effect.low) {
        (Outcome::Regressed, None)
    } else if judged.detectable.is_none_or(|smallest| smallest > rules.must_find()) {
        (Outcome::Inconclusive, Some(Why::Underpowered))
    } else if fired {
        (Outcome::Inconclusive, Some(Why::WithinFloor))
    } else if better_adjusted <= rules.q && effect.shift < -limits.budget && clears(effect.high.map(|bound| -bound)) {
        (Outcome::Improved, None)
    } else {
        (Outcome::Unchanged, None)
    };
    Judged { outcome, why, ..judged }
}
