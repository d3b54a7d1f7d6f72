//! The curve of a search so far.

use crate::{Load, Observation};

/// Returns the observations with those of one load together, weighed by their requests: closed loops first, each kind in ascending order. A load of which one
/// trial ended early for over-saturation counts as over-saturated.
pub fn curve(seen: &[Observation]) -> Vec<Observation> {
    let mut loads: Vec<Observation> = Vec::new();
    for seen in seen {
        match loads.iter_mut().find(|load| load.load == seen.load) {
            Some(load) => *load = together(load, seen),
            None => loads.push(*seen),
        }
    }
    let is_rate = |seen: &Observation| matches!(seen.load, Load::Rate(_));
    loads.sort_by(|one, other| is_rate(one).cmp(&is_rate(other)).then_with(|| one.load.amount().total_cmp(&other.load.amount())));
    loads
}

fn together(one: &Observation, other: &Observation) -> Observation {
    let [before, more] = [one, other].map(|seen| seen.requests as f64);
    let all = (before + more).max(1.0);
    let mean = |of: fn(&Observation) -> f64| (of(one) * before + of(other) * more) / all;
    Observation {
        load: one.load,
        requests: one.requests.saturating_add(other.requests),
        error_rate: mean(|seen| seen.error_rate),
        requests_per_s: mean(|seen| seen.requests_per_s),
        mean_latency_s: mean(|seen| seen.mean_latency_s),
        good_fraction: one.good_fraction.zip(other.good_fraction).map(|_| mean(|seen| seen.good_fraction.unwrap_or(1.0))),
        over_saturated: one.over_saturated || other.over_saturated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observations_of_one_load_are_one_point_of_the_curve() {
        let at = |load: Load, requests: u64, good: f64| Observation {
            load,
            requests,
            error_rate: 0.0,
            requests_per_s: 10.0 * good,
            mean_latency_s: 1.0,
            good_fraction: Some(good),
            over_saturated: false,
        };
        let seen = [
            at(Load::Rate(20.0), 100, 0.5),
            at(Load::Concurrency(8), 10, 1.0),
            at(Load::Rate(10.0), 100, 1.0),
            Observation { over_saturated: true, ..at(Load::Rate(20.0), 300, 0.1) },
            at(Load::Concurrency(4), 10, 1.0),
        ];
        let curve = curve(&seen);
        let loads: Vec<Load> = curve.iter().map(|seen| seen.load).collect();
        assert_eq!(loads, [Load::Concurrency(4), Load::Concurrency(8), Load::Rate(10.0), Load::Rate(20.0)]);
        let last = curve[3];
        assert_eq!((last.requests, last.good_fraction, last.requests_per_s, last.over_saturated), (400, Some(0.2), 2.0, true));
        assert_eq!(super::curve(&[]), []);
    }
}
