//! The most load within the SLOs, from trials that were measured at several loads.

use assay_manifest::LoadKind;

use crate::monotone::fall;

/// The most that a load may exceed the one before it for a straight line between them to mean something.
pub(crate) const NEAR: f64 = 1.25;

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

impl Crossing {
    /// Returns the most load within the SLOs: the crossing, which of loads in flight is a whole number, or the end of the loads that it is beyond.
    pub fn load(self, kind: LoadKind) -> f64 {
        match self {
            Self::At { load, .. } if kind == LoadKind::Concurrency => load.floor(),
            Self::At { load, .. } | Self::Below(load) | Self::AtLeast(load) => load,
        }
    }
}

/// The most load within the SLOs over several trials of the same loads.
#[derive(Clone, Debug, PartialEq)]
pub enum MaxLoad {
    /// Every trial crossed between loads that are near each other: the most load of each.
    Within(Vec<f64>),
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

/// Takes the crossings of trials together; `None` without a trial.
pub fn max_load(crossings: &[Crossing], kind: LoadKind) -> Option<MaxLoad> {
    let mut censored = Censored::default();
    let (mut lowest, mut highest, mut is_near) = (f64::INFINITY, 0.0_f64, true);
    for crossing in crossings {
        match crossing {
            Crossing::At { meets, falls_short, .. } => {
                (lowest, highest) = (lowest.min(*meets), highest.max(*falls_short));
                is_near &= *falls_short <= meets * NEAR || kind == LoadKind::Concurrency && *falls_short <= meets + 1.0;
            }
            Crossing::Below(_) => censored.below += 1,
            Crossing::AtLeast(_) => censored.above += 1,
        }
    }
    if crossings.is_empty() {
        None
    } else if censored != Censored::default() {
        Some(MaxLoad::Inconclusive(censored))
    } else if !is_near {
        Some(MaxLoad::Between { meets: lowest, falls_short: highest })
    } else {
        Some(MaxLoad::Within(crossings.iter().map(|crossing| crossing.load(kind)).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the most load over these trials with 99 of 100.
    fn over(trials: &[Vec<(f64, f64)>], kind: LoadKind) -> Option<MaxLoad> {
        let crossings: Vec<Crossing> = trials.iter().filter_map(|points| crossing(points, 0.99)).collect();
        max_load(&crossings, kind)
    }

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
        assert_eq!(over(&trials, LoadKind::Rate), Some(censored));
        let Some(MaxLoad::Within(found)) = over(&vec![within; 5], LoadKind::Rate) else { panic!("all within") };
        assert!(found.len() == 5 && found.iter().all(|load| (load - 11.0).abs() < 1e-9), "{found:?}");
        assert_eq!(over(&[], LoadKind::Rate), None);
    }

    #[test]
    fn a_concurrency_is_a_whole_number() {
        let trial = |less: f64| vec![(3.0, 1.0), (4.0, less)];
        let found = over(&[trial(0.98), trial(0.5), vec![(3.0, 1.0), (4.0, 1.0), (5.0, 0.5)]], LoadKind::Concurrency);
        assert_eq!(found, Some(MaxLoad::Within(vec![3.0, 3.0, 4.0])));
    }

    #[test]
    fn loads_far_from_each_other_are_only_a_bracket() {
        let trials = [vec![(5.0, 1.0), (10.0, 0.5)], vec![(5.0, 1.0), (10.0, 1.0), (50.0, 0.5)]];
        let between = MaxLoad::Between { meets: 5.0, falls_short: 50.0 };
        assert_eq!(over(&trials, LoadKind::Rate), Some(between));
        let doubling = [vec![(4.0, 1.0), (8.0, 0.5)]];
        let between = MaxLoad::Between { meets: 4.0, falls_short: 8.0 };
        assert_eq!(over(&doubling, LoadKind::Concurrency), Some(between));
    }
}
