//! Warm-up and steady state: the iteration from which on a process is steady, if it ever is.
//!
//! Iterations are cut into segments of constant level by PELT, neighbours that differ by less than the noise floor are merged,
//! and the last segment is the steady state if it holds at least half of the iterations. Not every process reaches one: Barrett
//! et al., "Virtual machine warmup blows hot and cold" (OOPSLA 2017), found that at most 43.5 % of pairs of machine and benchmark
//! consistently reach a steady state of peak performance. So "no steady state" is a result, and then there is no number to
//! report.

use crate::pelt;
use crate::robust;
use crate::samples::Samples;

/// The fewest iterations: half of them must show a level, and the noise must be visible between neighbours.
pub const MIN_ITERATIONS: usize = 10;

/// The most iterations: without any change the search takes the square of their number.
pub const MAX_ITERATIONS: usize = 20_000;

/// The default of [`Rule::penalty`], from the usual range of 2 to 15. With it, fewer than 1 % of flat series of 200 independent
/// iterations are cut if there is no floor; `docs/statistics.md` has the figures, including those for autocorrelated series.
pub const DEFAULT_PENALTY: f64 = 5.0;

/// The default of [`Rule::floor`]: two levels that differ by less than one percent are one.
pub const DEFAULT_FLOOR: f64 = 0.01;

/// The share of the iterations that the last segment must hold.
pub const MIN_SHARE: f64 = 0.5;

/// The settings of the search for a steady state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// The cost of a further segment, in units of `variance * ln n`, with the variance that means of the noise show.
    pub penalty: f64,
    /// The noise floor: neighbouring levels whose difference is below this share of the larger one are the same.
    pub floor: f64,
}

impl Default for Rule {
    fn default() -> Self {
        Self { penalty: DEFAULT_PENALTY, floor: DEFAULT_FLOOR }
    }
}

/// A range of iterations on one level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// Its first iteration, counted from 0.
    pub start: usize,
    /// The number of its iterations.
    pub len: usize,
    /// Its mean after winsorising wild values, in the samples' unit.
    pub mean: f64,
}

/// The course of the iterations before the steady state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approach {
    /// None: it was steady from the first iteration.
    Flat,
    /// Larger values: a warm-up if less is better.
    FromAbove,
    /// Smaller values: a slowdown if less is better.
    FromBelow,
}

/// The steady state of a process.
#[derive(Debug, Clone, PartialEq)]
pub struct SteadyState {
    /// The first iteration that counts.
    pub start: usize,
    /// The course of the iterations before it.
    pub approach: Approach,
    /// All segments, in order; the last is the steady state.
    pub segments: Vec<Segment>,
}

/// The reason why there is no steady state.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoSteadyState {
    /// There are too few iterations to tell.
    #[error("{n} iterations cannot show a steady state; run at least {MIN_ITERATIONS}")]
    TooFew {
        /// The number of iterations.
        n: usize,
    },
    /// There are more than [`MAX_ITERATIONS`].
    #[error("{n} iterations are too many to be searched; pass at most {MAX_ITERATIONS}")]
    TooMany {
        /// The number of iterations.
        n: usize,
    },
    /// The penalty or the floor is negative or NaN.
    #[error("penalty {penalty} and floor {floor} must be finite numbers from 0 on")]
    Rule {
        /// The penalty given.
        penalty: f64,
        /// The floor given.
        floor: f64,
    },
    /// The last level has not lasted for half of the iterations.
    #[error("still changing: the last of {} levels began at iteration {start} of {n}; run more iterations, or find what changes", segments.len())]
    StillChanging {
        /// The first iteration of the last level.
        start: usize,
        /// The number of iterations.
        n: usize,
        /// All segments, in order.
        segments: Vec<Segment>,
    },
}

/// Finds the steady state of `iterations`, given in the order in which they ran.
///
/// # Errors
/// [`NoSteadyState`] if they are not steady, or if that cannot be decided.
pub fn steady(iterations: &Samples, rule: Rule) -> Result<SteadyState, NoSteadyState> {
    let n = iterations.len();
    check(n, rule)?;
    let segments = merge(segments(iterations, rule.penalty), rule.floor);
    let start = segments.last().map_or(0, |last| last.start);
    if ((n - start) as f64) < MIN_SHARE * n as f64 {
        return Err(NoSteadyState::StillChanging { start, n, segments });
    }
    Ok(SteadyState { start, approach: approach(&segments), segments })
}

fn check(n: usize, rule: Rule) -> Result<(), NoSteadyState> {
    let usable = |x: f64| x.is_finite() && x >= 0.0;
    if n < MIN_ITERATIONS {
        return Err(NoSteadyState::TooFew { n });
    }
    if n > MAX_ITERATIONS {
        return Err(NoSteadyState::TooMany { n });
    }
    if !usable(rule.penalty) || !usable(rule.floor) {
        return Err(NoSteadyState::Rule { penalty: rule.penalty, floor: rule.floor });
    }
    Ok(())
}

/// Segments values in units of the noise by PELT, so that the variance in the penalty is 1, times the inflation by
/// autocorrelation.
fn segments(iterations: &Samples, penalty: f64) -> Vec<Segment> {
    let (n, centre) = (iterations.len(), iterations.median());
    let noise = Noise::estimate(iterations);
    let pulled_in = winsorise(iterations, noise.sd);
    if noise.sd <= 0.0 {
        return vec![segment(&pulled_in, 0, n)];
    }
    let standard: Vec<f64> = pulled_in.iter().map(|x| (x - centre) / noise.sd).collect();
    let starts = pelt::partition(&standard, penalty * noise.inflation * libm::log(n as f64));
    let ends = starts.iter().skip(1).copied().chain(std::iter::once(n));
    starts.iter().zip(ends).map(|(&start, end)| segment(&pulled_in, start, end)).collect()
}

fn segment(values: &[f64], start: usize, end: usize) -> Segment {
    let inside = values.get(start..end).unwrap_or_default();
    let mean = Samples::new(inside).map_or(0.0, |samples| samples.mean());
    Segment { start, len: end - start, mean }
}

/// The noise around the levels.
#[derive(Debug, Clone, Copy)]
struct Noise {
    /// Its standard deviation, in the samples' unit.
    sd: f64,
    /// The factor by which a mean of many iterations varies more than if they were independent: `(1 + phi) / (1 - phi)`.
    inflation: f64,
}

/// The highest lag-1 autocorrelation; higher estimates are limited to it.
const MAX_MEMORY: f64 = 0.9;

impl Noise {
    /// Estimates the noise from differences of neighbours and of next neighbours, which a change of level hardly affects. For
    /// autoregressive noise their variances are `2 s^2 (1 - phi)` and `2 s^2 (1 - phi^2)`, so that the ratio gives phi and the
    /// first then s. If more than half of the neighbours are equal, from the spread of all iterations.
    fn estimate(iterations: &Samples) -> Self {
        let [next, second] = [1, 2].map(|lag| robust::difference_sd(iterations.observed(), lag));
        if next <= 0.0 {
            return Self { sd: robust::scale(iterations), inflation: 1.0 };
        }
        let ratio = second / next;
        let memory = (ratio * ratio - 1.0).clamp(0.0, MAX_MEMORY);
        Self { sd: next / (2.0 * (1.0 - memory)).sqrt(), inflation: (1.0 + memory) / (1.0 - memory) }
    }
}

/// Half of the width of the window with whose median a wild value is compared.
const NEIGHBOURS: usize = 3;

/// Winsorises values farther than 3.5 standard deviations of the noise from the median of their neighbourhood: an interrupt is
/// not a level. The neighbourhood is narrow so that early, slow iterations stay unchanged.
fn winsorise(iterations: &Samples, sd: f64) -> Vec<f64> {
    let observed = iterations.observed();
    let reach = robust::OUTLIER_THRESHOLD * sd;
    let near = |place: usize| {
        let end = (place + NEIGHBOURS + 1).min(observed.len());
        observed.get(place.saturating_sub(NEIGHBOURS)..end).unwrap_or_default()
    };
    let pull = |(place, x): (usize, &f64)| {
        let centre = Samples::new(near(place)).map_or(*x, |samples| samples.median());
        x.clamp(centre - reach, centre + reach)
    };
    observed.iter().enumerate().map(pull).collect()
}

/// Merges the two neighbours that differ least, until all differ by at least the floor.
fn merge(mut segments: Vec<Segment>, floor: f64) -> Vec<Segment> {
    while let Some(place) = closest_neighbours(&segments, floor) {
        let right = segments.remove(place + 1);
        if let Some(left) = segments.get_mut(place) {
            let len = left.len + right.len;
            left.mean += (right.mean - left.mean) * (right.len as f64 / len as f64);
            left.len = len;
        }
    }
    segments
}

/// Returns the left one of the two neighbours that differ least, if that is below the floor; the first of equals.
fn closest_neighbours(segments: &[Segment], floor: f64) -> Option<usize> {
    let pairs = segments.iter().zip(segments.iter().skip(1)).enumerate();
    let (place, least) = pairs
        .map(|(place, (left, right))| (place, difference(left.mean, right.mean)))
        .reduce(|best, next| if next.1 < best.1 { next } else { best })?;
    (least < floor).then_some(place)
}

/// The difference of two levels as a share of the larger one; 0 for two zeros.
fn difference(left: f64, right: f64) -> f64 {
    let larger = left.abs().max(right.abs());
    if larger > 0.0 { (left - right).abs() / larger } else { 0.0 }
}

fn approach(segments: &[Segment]) -> Approach {
    match segments {
        [first, .., last] if first.mean > last.mean => Approach::FromAbove,
        [_, .., _] => Approach::FromBelow,
        _ => Approach::Flat,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Deterministic noise: whole numbers from -2 to 2 that hardly depend on their neighbours.
    fn wobble(place: usize) -> f64 {
        ((place * place * 31 + place * 17) % 97 % 5) as f64 - 2.0
    }

    fn levels(levels: &[(usize, f64)]) -> Samples {
        let values: Vec<f64> = levels
            .iter()
            .flat_map(|&(len, level)| std::iter::repeat_n(level, len))
            .enumerate()
            .map(|(i, level)| level + wobble(i))
            .collect();
        Samples::new(&values).expect("samples")
    }

    fn found(samples: &Samples) -> (usize, Approach) {
        let found = steady(samples, Rule::default()).expect("a steady state");
        (found.start, found.approach)
    }

    fn refusal(samples: &Samples, rule: Rule) -> String {
        steady(samples, rule).expect_err("refused").to_string()
    }

    #[test]
    fn warm_up_is_cut_off() {
        assert_eq!(found(&levels(&[(20, 150.0), (80, 100.0)])), (20, Approach::FromAbove));
        assert_eq!(found(&levels(&[(10, 200.0), (20, 130.0), (70, 100.0)])), (30, Approach::FromAbove));
        assert_eq!(found(&levels(&[(30, 100.0), (70, 120.0)])), (30, Approach::FromBelow));
        assert_eq!(found(&levels(&[(100, 100.0)])), (0, Approach::Flat));
    }

    #[test]
    fn a_wild_iteration_is_no_level() {
        let mut values = levels(&[(100, 100.0)]).observed().to_vec();
        values[40] = 5_000.0;
        values[99] = 900.0;
        assert_eq!(found(&Samples::new(&values).expect("samples")), (0, Approach::Flat));
    }

    #[test]
    fn a_change_below_the_floor_is_none() {
        let samples = levels(&[(50, 1_000.0), (50, 1_008.0)]);
        assert_eq!(found(&samples), (0, Approach::Flat));
        let strict = steady(&samples, Rule { floor: 0.0, ..Rule::default() }).expect("a steady state");
        assert_eq!(strict.start, 50);
    }

    #[test]
    fn constant_iterations_are_steady() {
        assert_eq!(found(&Samples::new(&[0.0; 10]).expect("samples")), (0, Approach::Flat));
        let step: Vec<f64> = (0..30_u32).map(|i| if i < 10 { 3.0 } else { 2.0 }).collect();
        assert_eq!(found(&Samples::new(&step).expect("samples")), (10, Approach::FromAbove));
    }

    #[test]
    fn says_why_there_is_no_steady_state() {
        let rule = Rule::default();
        insta::assert_snapshot!(refusal(&levels(&[(60, 100.0), (40, 150.0)]), rule), @"still changing: the last of 2 levels began at iteration 60 of 100; run more iterations, or find what changes");
        insta::assert_snapshot!(refusal(&levels(&[(9, 100.0)]), rule), @"9 iterations cannot show a steady state; run at least 10");
        insta::assert_snapshot!(refusal(&levels(&[(20_001, 100.0)]), rule), @"20001 iterations are too many to be searched; pass at most 20000");
        insta::assert_snapshot!(refusal(&levels(&[(50, 100.0)]), Rule { penalty: f64::NAN, ..rule }), @"penalty NaN and floor 0.01 must be finite numbers from 0 on");
    }

    proptest! {
        #[test]
        fn segments_tile_the_iterations(values in prop::collection::vec(-1e150_f64..1e150, 10..80), penalty in 0.0_f64..9.0, floor in 0.0_f64..0.2) {
            let samples = Samples::new(&values).expect("samples");
            let segments = match steady(&samples, Rule { penalty, floor }) {
                Ok(found) => found.segments,
                Err(NoSteadyState::StillChanging { segments, .. }) => segments,
                Err(other) => panic!("{other}"),
            };
            let mut next = 0;
            for segment in &segments {
                prop_assert_eq!(segment.start, next);
                prop_assert!(segment.len > 0 && segment.mean.is_finite());
                next += segment.len;
            }
            prop_assert_eq!(next, values.len());
        }
    }
}
