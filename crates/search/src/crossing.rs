//! The most load within the SLOs, from trials that were measured at several loads.

use assay_stats::{Estimate, estimate};

use crate::monotone::fall;

/// The most that a load may exceed the one before it for a straight line between them to mean something.
const NEAR: f64 = 1.25;

/// The kind of the loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Rates: any number.
    Rate,
    /// Requests in flight: whole numbers, and the most that meets the SLOs is one.
    Concurrency,
}

/// The load at which the share of good requests falls below the requested one, in one trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Crossing {
    /// It is between two measured loads: at the first, plus a part of the way to the next one by how far that falls short.
    At {
        /// The crossing.
        load: f64,
        /// The highest measured load that meets the share.
        meets: f64,
        /// The next one, which does not.
        falls_short: f64,
    },
    /// The lowest load falls short: the crossing is below it.
    Below(f64),
    /// The highest load meets the share: the crossing is at it or above.
    AtLeast(f64),
}

/// Finds the crossing of one trial. Points are a load and its share of good requests, in any order; `None` without a point.
///
/// More load never makes more requests good; where noise says so, neighbours share their mean. Between the highest load `l` that then meets
/// the share `s` and the next one, `m`, the share is taken as a straight line: `l + (m - l) (g(l) - s) / (g(l) - g(m))`.
pub fn crossing(points: &[(f64, f64)], share: f64) -> Option<Crossing> {
    let mut points = points.to_vec();
    points.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    let good = fall(&points.iter().map(|(_, good)| (*good, 1.0)).collect::<Vec<_>>());
    let first = points.first()?.0;
    let Some(place) = good.iter().rposition(|good| *good >= share) else { return Some(Crossing::Below(first)) };
    let (load, good_here) = (points.get(place)?.0, *good.get(place)?);
    Some(match points.get(place + 1).zip(good.get(place + 1)) {
        Some(((next, _), less)) => Crossing::At {
            load: load + (next - load) * (good_here - share) / (good_here - less),
            meets: load,
            falls_short: *next,
        },
        None => Crossing::AtLeast(load),
    })
}

/// The most load within the SLOs over several trials of the same loads.
#[derive(Clone, Debug, PartialEq)]
pub enum MaxLoad {
    /// Every trial crossed between loads that are near each other: their crossings, summarised as any number of trials is. Whole numbers
    /// for a concurrency.
    Within(Estimate),
    /// Loads too far from each other for more than this: a load that meets the SLOs in every trial, and one that does in none.
    Between {
        /// The lowest of the loads that meet the share.
        meets: f64,
        /// The highest of the next ones.
        falls_short: f64,
    },
    /// Trials whose crossing is outside of the loads: nothing can be said about the median of all.
    Inconclusive(Censored),
}

/// The numbers of trials whose crossing is outside of the loads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Censored {
    /// The trials in which even the lowest load fell short.
    pub below: u32,
    /// The trials in which the highest load met the share.
    pub above: u32,
}

/// Summarises the crossings of trials; `None` without a trial.
pub fn max_load(trials: &[Vec<(f64, f64)>], share: f64, axis: Axis, seed: [u8; 32]) -> Option<MaxLoad> {
    let crossings: Vec<Crossing> = trials.iter().map(|points| crossing(points, share)).collect::<Option<_>>()?;
    let mut censored = Censored::default();
    let mut values = Vec::new();
    let (mut lowest, mut highest, mut is_near) = (f64::INFINITY, 0.0_f64, true);
    for crossing in crossings {
        match crossing {
            Crossing::At { load, meets, falls_short } => {
                values.push(if axis == Axis::Concurrency { load.floor() } else { load });
                (lowest, highest) = (lowest.min(meets), highest.max(falls_short));
                is_near &= falls_short <= meets * NEAR || axis == Axis::Concurrency && falls_short <= meets + 1.0;
            }
            Crossing::Below(_) => censored.below += 1,
            Crossing::AtLeast(_) => censored.above += 1,
        }
    }
    if censored != Censored::default() {
        return Some(MaxLoad::Inconclusive(censored));
    }
    if !is_near {
        return Some(MaxLoad::Between { meets: lowest, falls_short: highest });
    }
    let mut found = estimate(&values, seed).ok()?;
    if axis == Axis::Concurrency {
        // Between two trials in the middle, the smaller one: half a request in flight is none.
        found.median = found.median.floor();
    }
    Some(MaxLoad::Within(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(points: &[(f64, f64)]) -> f64 {
        match crossing(points, 0.99) {
            Some(Crossing::At { load, .. }) => load,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_crossing_is_a_straight_line_between_two_loads() {
        // 0.99 lies a third of the way from 1.0 at 20 to 0.97 at 26.
        let points = [(26.0, 0.97), (10.0, 1.0), (20.0, 1.0), (40.0, 0.5)];
        assert!((at(&points) - 22.0).abs() < 1e-9);
        let Some(Crossing::At { meets, falls_short, .. }) = crossing(&points, 0.99) else { panic!("within") };
        assert_eq!([meets, falls_short].map(|load| load.to_string()), ["20", "26"]);
    }

    #[test]
    fn a_load_that_meets_the_share_exactly_is_within_it() {
        assert!((at(&[(1.0, 0.99), (2.0, 0.5)]) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_load_above_one_that_fell_short_does_not_count_alone() {
        // 0.96 and 1.0 are 0.98 together: half of the way from 1.0 at 1 to there.
        assert!((at(&[(1.0, 1.0), (2.0, 0.96), (3.0, 1.0), (4.0, 0.5)]) - 1.5).abs() < 1e-9);
        // 0.985 and 1.0 are 0.9925 together, which meets it.
        assert!(at(&[(1.0, 1.0), (2.0, 0.985), (3.0, 1.0), (4.0, 0.5)]) > 3.0);
    }

    #[test]
    fn outside_of_the_loads_nothing_is_made_up() {
        assert_eq!(crossing(&[(1.0, 0.9), (2.0, 0.8)], 0.99), Some(Crossing::Below(1.0)));
        assert_eq!(crossing(&[(1.0, 1.0), (2.0, 1.0)], 0.99), Some(Crossing::AtLeast(2.0)));
        assert_eq!(crossing(&[], 0.99), None);
    }

    #[test]
    fn one_trial_outside_of_the_loads_makes_the_whole_inconclusive() {
        let within = vec![(10.0, 1.0), (12.0, 0.98)];
        let trials = vec![within.clone(), within.clone(), vec![(10.0, 1.0), (12.0, 1.0)], vec![(10.0, 0.0), (12.0, 0.0)]];
        let censored = MaxLoad::Inconclusive(Censored { below: 1, above: 1 });
        assert_eq!(max_load(&trials, 0.99, Axis::Rate, [0; 32]), Some(censored));
        let Some(MaxLoad::Within(found)) = max_load(&vec![within; 5], 0.99, Axis::Rate, [0; 32]) else { panic!("all within") };
        assert!((found.median - 11.0).abs() < 1e-9 && found.n == 5, "{found:?}");
        assert_eq!(max_load(&[], 0.99, Axis::Rate, [0; 32]), None);
    }

    #[test]
    fn a_concurrency_is_a_whole_number() {
        let trial = |less: f64| vec![(3.0, 1.0), (4.0, less)];
        let median = |trials: &[Vec<(f64, f64)>]| match max_load(trials, 0.99, Axis::Concurrency, [0; 32]) {
            Some(MaxLoad::Within(found)) => found.median.to_string(),
            other => panic!("{other:?}"),
        };
        assert_eq!(median(&[trial(0.98)]), "3");
        assert_eq!(median(&[trial(0.5), vec![(3.0, 1.0), (4.0, 1.0), (5.0, 0.5)]]), "3");
    }

    #[test]
    fn loads_far_from_each_other_are_only_a_bracket() {
        let trials = [vec![(5.0, 1.0), (10.0, 0.5)], vec![(5.0, 1.0), (10.0, 1.0), (50.0, 0.5)]];
        let between = MaxLoad::Between { meets: 5.0, falls_short: 50.0 };
        assert_eq!(max_load(&trials, 0.99, Axis::Rate, [0; 32]), Some(between));
        let doubling = [vec![(4.0, 1.0), (8.0, 0.5)]];
        let between = MaxLoad::Between { meets: 4.0, falls_short: 8.0 };
        assert_eq!(max_load(&doubling, 0.99, Axis::Concurrency, [0; 32]), Some(between));
    }
}
