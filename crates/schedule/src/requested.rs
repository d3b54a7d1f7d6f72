//! The load that a plan requests: concurrencies, and requests and events per second.

use std::cmp::Ordering;

use assay_manifest::{Case, LengthLaw, LoadUnit, Plan, Point, RequestedLoad, ServingWork};

use crate::OfferedLoad;

/// Returns the highest load of each unit that a point of the plan requests; empty if no load is offered. It needs no prompts:
/// points state concurrencies and rates, and the events of a rate are its requests times their mean output tokens, if responses
/// are streamed.
pub fn requested_load(plan: &Plan) -> Vec<RequestedLoad> {
    let mut most: Vec<RequestedLoad> = Vec::new();
    let served = plan.cases.iter().filter_map(|case| Some((case, plan.workload(&case.workload)?.serving.as_ref()?)));
    for load in served.flat_map(|(case, work)| case.points.iter().flat_map(|point| point_load(case, point, work))) {
        match most.iter_mut().find(|known| known.unit == load.unit) {
            Some(known) if known.amount.total_cmp(&load.amount) == Ordering::Less => *known = load,
            Some(_) => {}
            None => most.push(load),
        }
    }
    most
}

/// Returns the load of one point. A point without a rate, a concurrency and a speed has no schedule either, and execute refuses it.
pub fn point_load(case: &Case, point: &Point, work: &ServingWork) -> Vec<RequestedLoad> {
    let load = |unit, amount| RequestedLoad { case_id: case.case_id.clone(), point_id: point.point_id.clone(), unit, amount };
    match OfferedLoad::from_point(point) {
        Ok(OfferedLoad::Concurrency { users }) => vec![load(LoadUnit::Concurrency, users as f64)],
        // Sessions arrive at the rate, and each sends as many requests as it has turns.
        Ok(OfferedLoad::Rate { per_s }) => open_load(work, per_s * work.mean_turns(), load),
        // Here the rate is that of turns.
        Ok(OfferedLoad::Users { per_s, .. }) => open_load(work, per_s, load),
        // The busiest second of a profile has its highest rate.
        Ok(OfferedLoad::Profile) => {
            let highest = work.rate_profile.as_ref().map_or(0.0, |profile| profile.range_per_s().1);
            open_load(work, highest * work.mean_turns(), load)
        }
        // A second of the replay holds `speed` seconds of the trace, none of which has more requests than the busiest one.
        Ok(OfferedLoad::Replay { speed }) => {
            let times = work.prompts.dataset().and_then(|dataset| dataset.summary.times.as_ref());
            open_load(work, times.map_or(0, |times| times.busiest_second.0) as f64 * speed.max(1.0).ceil(), load)
        }
        Err(_) => Vec::new(),
    }
}

/// Returns the load of this many requests per second.
fn open_load(work: &ServingWork, per_s: f64, load: impl Fn(LoadUnit, f64) -> RequestedLoad) -> Vec<RequestedLoad> {
    let is_streamed = work.is_streamed();
    let recorded = || work.prompts.dataset().and_then(|dataset| dataset.summary.mean_output_tokens());
    let tokens = work.output.as_ref().map(LengthLaw::mean).or_else(recorded).filter(|_| is_streamed);
    let events = tokens.map(|tokens| load(LoadUnit::EventsPerS, (per_s * tokens).round()));
    std::iter::once(load(LoadUnit::RequestsPerS, per_s)).chain(events).collect()
}
