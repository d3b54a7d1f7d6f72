//! The loads of a sweep that have a name.

use crate::{Load, Observation};

/// The loads of a closed loop between an idle endpoint and its limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Landmarks {
    /// The fewest requests in flight: the lowest latency.
    pub idle: Observation,
    /// The knee: the highest throughput over latency, which is called power (Kleinrock, "Power and deterministic rules of thumb for
    /// probabilistic problems in computer communications", ICC 1979). Below it more load costs little time, above it little is gained.
    pub knee: Observation,
    /// The highest throughput.
    pub limit: Observation,
}

/// Finds the landmarks among observations of a closed loop; `None` with fewer than three, and if any of them has no time or no
/// throughput.
pub fn landmarks(seen: &[Observation]) -> Option<Landmarks> {
    let closed = |seen: &&Observation| matches!(seen.load, Load::Concurrency(_));
    let seen: Vec<Observation> = seen.iter().filter(closed).copied().collect();
    let has_power = |seen: &Observation| seen.mean_latency_s > 0.0 && seen.requests_per_s > 0.0;
    if seen.len() < 3 || !seen.iter().all(has_power) {
        return None;
    }
    let clients = |seen: &Observation| match seen.load {
        Load::Concurrency(clients) => clients,
        Load::Rate(_) => u32::MAX,
    };
    // The first of equals, which is the smaller load.
    let highest =
        |of: fn(&Observation) -> f64| seen.iter().copied().reduce(|best, next| if of(&next) > of(&best) { next } else { best });
    Some(Landmarks {
        idle: seen.iter().copied().min_by_key(clients)?,
        knee: highest(|seen| seen.requests_per_s / seen.mean_latency_s)?,
        limit: highest(|seen| seen.requests_per_s)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(clients: u32, requests_per_s: f64, mean_latency_s: f64) -> Observation {
        Observation {
            load: Load::Concurrency(clients),
            requests: 100,
            error_rate: 0.0,
            requests_per_s,
            mean_latency_s,
            good_fraction: None,
        }
    }

    #[test]
    fn the_knee_of_an_ideal_server_is_where_its_places_are_full() {
        // Eight places, one second each: beyond, requests only wait.
        let seen: Vec<Observation> = [1, 2, 4, 8, 16, 32]
            .map(|clients| at(clients, f64::from(clients.min(8)), f64::from(clients) / f64::from(clients.min(8))))
            .into();
        let found = landmarks(&seen).expect("three and more");
        let loads = [found.idle, found.knee, found.limit].map(|seen| seen.load);
        assert_eq!(loads, [1, 8, 8].map(Load::Concurrency));
        assert_eq!(landmarks(&seen[..2]), None);
        assert_eq!(landmarks(&[seen[0], seen[1], at(4, 0.0, 1.0)]), None);
    }
}
