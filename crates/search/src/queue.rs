//! The queue at which an open loop cannot meet its SLOs any more.

use crate::{Load, Observation};

/// The number of requests in flight over that of which, by Little's law, each takes as long as the SLOs allow. Arrivals come in crowds, and a crowd is no
/// queue.
const MARGIN: f64 = 2.0;

/// Requests in flight that are no queue at any rate.
const ALWAYS: f64 = 16.0;

/// The shortest time for which a queue has to be there, in seconds.
const SHORTEST_S: f64 = 1.0;

/// The shortest part of the trial for which it has to be there: twice the share of the requests that may miss the SLOs.
const PART: f64 = 0.02;

/// The latencies that the SLOs allow, in seconds; absent where they limit none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AllowedLatencies {
    /// From the send of a request to its end.
    pub e2e_s: Option<f64>,
    /// From the send of a request to its first token.
    pub ttft_s: Option<f64>,
}

/// A queue with which too few requests can be within the SLOs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    /// The requests in flight that are exceeded.
    pub in_flight: u64,
    /// The time for which they are exceeded without a break, in seconds.
    pub held_s: f64,
}

impl Queue {
    /// Returns the queue of a rate at which a trial of this duration need not go on; `None` if the SLOs limit no time that a queue adds to, or before a
    /// closed loop has shown how long responses take.
    ///
    /// By Little's law, requests that arrive at a rate and take time L are rate times L at a time. If twice as many are in flight for as long as one of
    /// them may take, most of those that arrive meanwhile take longer. An SLO of TTFT limits the time before the first token; for the time after it
    /// stands the longest mean time of a whole response of the closed loop, which includes a queue and is therefore more.
    pub fn hopeless(rate: f64, allowed: AllowedLatencies, seen: &[Observation], duration_s: f64) -> Option<Self> {
        let closed = seen.iter().filter(|seen| matches!(seen.load, Load::Concurrency(_)) && seen.mean_latency_s > 0.0);
        let longest_s = closed.map(|seen| seen.mean_latency_s).reduce(f64::max)?;
        let by_ttft = allowed.ttft_s.map(|ttft_s| ttft_s + longest_s);
        let allowed_s = allowed.e2e_s.into_iter().chain(by_ttft).reduce(f64::min)?;
        let in_flight = (MARGIN * rate * allowed_s).ceil() + ALWAYS;
        let held_s = SHORTEST_S.max(allowed_s).max(PART * duration_s);
        (in_flight.is_finite() && held_s < duration_s).then_some(Self { in_flight: in_flight as u64, held_s })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOSED: Observation = Observation {
        load: Load::Concurrency(8),
        requests: 100,
        error_rate: 0.0,
        requests_per_s: 16.0,
        mean_latency_s: 0.5,
        good_fraction: Some(1.0),
        over_saturated: false,
    };

    #[test]
    fn a_queue_is_hopeless_by_littles_law_with_a_margin() {
        let e2e = AllowedLatencies { e2e_s: Some(2.0), ttft_s: None };
        assert_eq!(Queue::hopeless(10.0, e2e, &[CLOSED], 30.0), Some(Queue { in_flight: 2 * 20 + 16, held_s: 2.0 }));
        let ttft = AllowedLatencies { e2e_s: None, ttft_s: Some(0.1) };
        assert_eq!(Queue::hopeless(10.0, ttft, &[CLOSED], 30.0), Some(Queue { in_flight: 12 + 16, held_s: 1.0 }));
        let both = AllowedLatencies { e2e_s: Some(2.0), ttft_s: Some(0.1) };
        assert_eq!(
            Queue::hopeless(10.0, both, &[CLOSED], 30.0),
            Queue::hopeless(10.0, ttft, &[CLOSED], 30.0),
            "the stricter one"
        );
        assert_eq!(Queue::hopeless(10.0, ttft, &[CLOSED], 300.0).map(|queue| queue.held_s), Some(6.0), "a part of a long trial");
    }

    #[test]
    fn no_queue_is_hopeless_where_nothing_says_so() {
        let ttft = AllowedLatencies { e2e_s: None, ttft_s: Some(0.1) };
        assert_eq!(Queue::hopeless(10.0, AllowedLatencies::default(), &[CLOSED], 30.0), None, "only TPOT is limited");
        assert_eq!(Queue::hopeless(10.0, ttft, &[], 30.0), None, "nothing is known of the responses");
        assert_eq!(Queue::hopeless(10.0, ttft, &[CLOSED], 1.0), None, "the trial is over before");
        let lax = AllowedLatencies { e2e_s: Some(60.0), ttft_s: None };
        assert_eq!(Queue::hopeless(10.0, lax, &[CLOSED], 30.0), None);
        assert_eq!(Queue::hopeless(f64::INFINITY, ttft, &[CLOSED], 30.0), None);
    }
}
