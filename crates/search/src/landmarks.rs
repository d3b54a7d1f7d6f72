//! The loads of a closed loop that have a name.

use crate::step::is_saturated;
use crate::{Load, Observation};

/// The share of the highest throughput that counts as reached.
const REACHED: f64 = 0.99;

/// The loads of a closed loop between an idle endpoint and its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Landmarks {
    /// The fewest requests in flight: the lowest latency.
    pub idle: Observation,
    /// The knee: the highest throughput over latency, which is called power (Kleinrock, "Power and deterministic rules of thumb for
    /// probabilistic problems in computer communications", ICC 1979). Below it more load costs little time, above it little is gained.
    pub knee: Observation,
    /// The fewest requests in flight with the highest throughput, less 1 %.
    pub limit: Observation,
}

/// The fewest loads that have landmarks.
pub const MIN_LANDMARK_LOADS: usize = 3;

/// Finds the landmarks among observations of a closed loop. `None` with fewer than three, if any of them has no time or no throughput,
/// and if more load still brought more throughput at the end: by at least [`SATURATED`](crate::SATURATED) for twice the requests in flight. Then the limit is
/// beyond, and maybe the knee.
pub fn landmarks(seen: &[Observation]) -> Option<Landmarks> {
    let mut seen: Vec<(f64, Observation)> = seen.iter().filter_map(|seen| Some((clients(seen)?, *seen))).collect();
    seen.sort_unstable_by(|one, other| one.0.total_cmp(&other.0));
    let has_power = |seen: &Observation| seen.mean_latency_s > 0.0 && seen.requests_per_s > 0.0;
    let [first, .., before, last] = seen.as_slice() else { return None };
    let is_saturated = is_saturated([before, last].map(|(clients, seen)| (*clients, seen.requests_per_s)));
    if seen.len() < MIN_LANDMARK_LOADS || !is_saturated || !seen.iter().all(|(_, seen)| has_power(seen)) {
        return None;
    }
    let power = |seen: &Observation| seen.requests_per_s / seen.mean_latency_s;
    // The first of equals, which is the smaller load.
    let knee = seen.iter().map(|(_, seen)| *seen).reduce(|best, next| if power(&next) > power(&best) { next } else { best })?;
    let most = seen.iter().map(|(_, seen)| seen.requests_per_s).fold(0.0, f64::max);
    let limit = seen.iter().map(|(_, seen)| *seen).find(|seen| seen.requests_per_s >= REACHED * most)?;
    Some(Landmarks { idle: first.1, knee, limit })
}

fn clients(seen: &Observation) -> Option<f64> {
    match seen.load {
        Load::Concurrency(clients) => Some(f64::from(clients)),
        Load::Rate(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ideal server of eight places, one second each: beyond, requests only wait.
    fn ideal(clients: u32) -> Observation {
        let requests_per_s = f64::from(clients.min(8));
        Observation {
            load: Load::Concurrency(clients),
            requests: 100,
            error_rate: 0.0,
            requests_per_s,
            mean_latency_s: f64::from(clients) / requests_per_s,
            good_fraction: None,
            over_saturated: false,
        }
    }

    #[test]
    fn the_knee_of_an_ideal_server_is_where_its_places_are_full() {
        let seen: Vec<Observation> = [1, 2, 4, 8, 16, 32].map(ideal).into();
        let found = landmarks(&seen).expect("saturated");
        let loads = [found.idle, found.knee, found.limit].map(|seen| seen.load);
        assert_eq!(loads, [1, 8, 8].map(Load::Concurrency));
    }

    #[test]
    fn what_was_not_reached_has_no_name() {
        let seen: Vec<Observation> = [1, 2, 4, 8].map(ideal).into();
        assert_eq!(landmarks(&seen), None, "eight in flight bring twice what four do");
        assert_eq!(landmarks(&[ideal(8), ideal(16)]), None, "too few");
        assert_eq!(landmarks(&[ideal(4), ideal(8), Observation { requests_per_s: 0.0, ..ideal(16) }]), None);
        assert!(landmarks(&[ideal(4), ideal(8), ideal(16)]).is_some());
    }

    #[test]
    fn a_throughput_that_noise_lifts_a_little_is_no_other_limit() {
        let more = Observation { requests_per_s: 8.05, ..ideal(32) };
        let found = landmarks(&[ideal(4), ideal(8), ideal(16), more]).expect("saturated");
        assert_eq!(found.limit.load, Load::Concurrency(8));
    }
}
