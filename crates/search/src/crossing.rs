//! The most load within the SLOs, from trials that were measured on a grid of loads.

use assay_stats::{Estimate, estimate};

/// The load at which the share of good requests falls below the requested one, in one trial of a grid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Crossing {
    /// It is within the grid: at the highest load that meets the share, plus a part of the way to the next one by how far that falls
    /// short.
    At(f64),
    /// The lowest load of the grid falls short: the crossing is below it.
    Below(f64),
    /// The highest load of the grid meets the share: the crossing is at it or above.
    AtLeast(f64),
}

/// Finds the crossing of one trial. Points are a load and its share of good requests, in any order; `None` without a point.
///
/// Between the highest load `l` that meets the share `s` and the next one, `m`, the share is taken as a straight line:
/// `l + (m - l) (g(l) - s) / (g(l) - g(m))`.
pub fn crossing(points: &[(f64, f64)], share: f64) -> Option<Crossing> {
    let mut points = points.to_vec();
    points.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    let first = points.first()?.0;
    let Some(highest) = points.iter().rposition(|(_, good)| *good >= share) else { return Some(Crossing::Below(first)) };
    let (load, good) = *points.get(highest)?;
    Some(match points.get(highest + 1) {
        Some((next, less)) => Crossing::At(load + (next - load) * (good - share) / (good - less)),
        None => Crossing::AtLeast(load),
    })
}

/// The most load within the SLOs over several trials of one grid.
#[derive(Clone, Debug, PartialEq)]
pub enum MaxLoad {
    /// Every trial crossed within the grid: their crossings, summarised as any number of trials is.
    Within(Estimate),
    /// Trials whose crossing is outside of the grid: nothing can be said about the median of all.
    Inconclusive(Censored),
}

/// The numbers of trials whose crossing is outside of the grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Censored {
    /// The trials in which even the lowest load fell short.
    pub below: u32,
    /// The trials in which the highest load met the share.
    pub above: u32,
}

/// Summarises the crossings of the trials of a grid; `None` without a trial.
pub fn max_load(trials: &[Vec<(f64, f64)>], share: f64, seed: [u8; 32]) -> Option<MaxLoad> {
    let crossings: Vec<Crossing> = trials.iter().map(|points| crossing(points, share)).collect::<Option<_>>()?;
    let mut censored = Censored::default();
    let mut values = Vec::new();
    for crossing in crossings {
        match crossing {
            Crossing::At(load) => values.push(load),
            Crossing::Below(_) => censored.below += 1,
            Crossing::AtLeast(_) => censored.above += 1,
        }
    }
    match censored {
        Censored { below: 0, above: 0 } => estimate(&values, seed).ok().map(MaxLoad::Within),
        censored => Some(MaxLoad::Inconclusive(censored)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crossing_is_a_straight_line_between_two_loads() {
        // 0.99 lies a third of the way from 1.0 at 20 to 0.97 at 26.
        let points = [(26.0, 0.97), (10.0, 1.0), (20.0, 1.0), (40.0, 0.5)];
        let Some(Crossing::At(load)) = crossing(&points, 0.99) else { panic!("within the grid") };
        assert!((load - 22.0).abs() < 1e-9, "{load}");
    }

    #[test]
    fn a_load_that_meets_the_share_exactly_is_within_it() {
        assert_eq!(crossing(&[(1.0, 0.99), (2.0, 0.5)], 0.99), Some(Crossing::At(1.0)));
    }

    #[test]
    fn the_highest_load_that_meets_the_share_counts_even_above_one_that_does_not() {
        let Some(Crossing::At(load)) = crossing(&[(1.0, 0.98), (2.0, 1.0), (3.0, 0.98)], 0.99) else { panic!("within") };
        assert!((load - 2.5).abs() < 1e-9, "{load}");
    }

    #[test]
    fn outside_of_the_grid_nothing_is_made_up() {
        assert_eq!(crossing(&[(1.0, 0.9), (2.0, 0.8)], 0.99), Some(Crossing::Below(1.0)));
        assert_eq!(crossing(&[(1.0, 1.0), (2.0, 1.0)], 0.99), Some(Crossing::AtLeast(2.0)));
        assert_eq!(crossing(&[], 0.99), None);
    }

    #[test]
    fn one_trial_outside_of_the_grid_makes_the_whole_inconclusive() {
        let within = vec![(1.0, 1.0), (2.0, 0.98)];
        let trials = vec![within.clone(), within.clone(), vec![(1.0, 1.0), (2.0, 1.0)], vec![(1.0, 0.0), (2.0, 0.0)]];
        assert_eq!(max_load(&trials, 0.99, [0; 32]), Some(MaxLoad::Inconclusive(Censored { below: 1, above: 1 })));
        let Some(MaxLoad::Within(found)) = max_load(&vec![within; 5], 0.99, [0; 32]) else { panic!("all within") };
        assert!((found.median - 1.5).abs() < 1e-9 && found.n == 5, "{found:?}");
        assert_eq!(max_load(&[], 0.99, [0; 32]), None);
    }
}
