//! The next loads of a search, or its end.

use crate::crossing::NEAR;
use crate::monotone::fall;
use crate::{Crossing, Goal, Load, Observation, Rule, crossing};

/// The gain of throughput for twice the concurrency below which a closed loop is saturated, as a share.
pub const SATURATED: f64 = 0.1;

/// The share of failed requests above which no more load is added.
pub const MAX_ERROR_RATE: f64 = 0.05;

/// The most loads that a search observes: noise may move a bracket, and the search ends even so.
pub const MAX_ROUNDS: usize = 60;

/// The first loads of a closed loop.
const FIRST_CONCURRENCIES: [u32; 4] = [1, 2, 4, 8];

/// The observations of either end of a bracket before it counts: one of few requests may be chance.
const CONFIRMED: u32 = 3;

/// The step upwards if no rate falls short, and downwards if none meets the SLOs.
const UP: f64 = 1.25;
const DOWN: f64 = 0.7;

/// The highest rate that is tried, over the highest throughput of the closed loop. No endpoint serves more for long.
const HIGHEST_RATE: f64 = 4.0;

/// The lowest rate that is tried, over the throughput of one request at a time: its requests hardly ever meet.
const LOWEST_RATE: f64 = 0.02;

/// The loads of a bracket's grid, over its crossing. Enough of either side that trials which differ still cross within.
/// They are near enough to each other for a number between any two, and reach further down than up: trials that last longer than the search's rounds
/// cross earlier.
const GRID: [f64; 8] = [0.56, 0.66, 0.77, 0.88, 0.95, 1.0, 1.05, 1.15];

/// The next step of a search.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Observe these loads, in ascending order.
    Observe(Vec<Load>),
    /// The end of a search for the most load: it is within the bracket.
    Found(Bracket),
    /// The end of a search for the most load: even this one, the lowest that was tried, falls short.
    NoneMet(Load),
    /// The end of a search for the most load: this one, the highest of its kind that may be tried, and all others of its kind meet the SLOs.
    AllMet(Load),
    /// The end of a search for the most load: the observations contradict each other for as long as a search may last.
    Unsettled,
    /// The end of a sweep: these numbers of requests in flight are to be measured, in ascending order.
    Swept(Vec<u32>),
}

/// Two loads between which the share of good requests falls below the requested one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracket {
    /// The highest load that meets it.
    pub meets: Load,
    /// The lowest load that does not.
    pub falls_short: Load,
    /// The load between them at which the share is crossed, on a straight line as in [`crossing`].
    pub crossing: f64,
}

impl Bracket {
    /// Returns the loads to measure in trials, in ascending order and without repeats: from 0.56 to 1.15 times the crossing.
    pub fn grid(&self) -> Vec<Load> {
        let like = |load: f64| match self.meets {
            Load::Concurrency(_) => Load::Concurrency((load.round() as u32).max(1)),
            Load::Rate(_) => Load::Rate(rounded(load)),
        };
        let mut grid: Vec<Load> = GRID.iter().map(|factor| like(factor * self.crossing)).collect();
        if let (Load::Concurrency(_), Load::Concurrency(short)) = (self.meets, self.falls_short) {
            // Among few requests in flight, factors of a few percent are the same number: neighbours take their place.
            grid.extend([short.saturating_sub(1).max(1), short, short.saturating_add(1)].map(Load::Concurrency));
            grid.push(self.meets);
        }
        grid.sort_unstable_by(|one, other| one.amount().total_cmp(&other.amount()));
        grid.dedup();
        fill(grid)
    }
}

/// Puts numbers of requests in flight between those that rounding has left too far from each other for a number between them.
fn fill(grid: Vec<Load>) -> Vec<Load> {
    let mut filled: Vec<Load> = Vec::new();
    for load in grid {
        while let (Some(Load::Concurrency(below)), Load::Concurrency(next)) = (filled.last().copied(), load) {
            let farthest = ((f64::from(below) * NEAR) as u32).max(below.saturating_add(1));
            if next <= farthest {
                break;
            }
            filled.push(Load::Concurrency(farthest));
        }
        filled.push(load);
    }
    filled
}

/// The reason why a search for a rate puts no larger closed loop on the endpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ClosedLoopEnd {
    /// This load, the lowest of them, falls short.
    FellShort(Load),
    /// The second of these loads hardly brought more throughput than the first.
    Saturated([Load; 2]),
    /// The most requests in flight were tried.
    Most,
}

/// Returns the reason why a search for a rate puts no larger closed loop on the endpoint, from all that it observed.
pub fn closed_loop_end(rule: &Rule, seen: &[Observation]) -> ClosedLoopEnd {
    let closed = pooled(seen, |load| matches!(load, Load::Concurrency(_)));
    match (closed.iter().find(|load| !load.meets(rule)), closed.as_slice()) {
        (Some(short), _) => ClosedLoopEnd::FellShort(short.load),
        (None, [.., before, last]) if has_saturated(&closed) => ClosedLoopEnd::Saturated([before.load, last.load]),
        _ => ClosedLoopEnd::Most,
    }
}

/// Decides what comes after the observations so far, in the order in which they were made.
pub fn next_step(rule: &Rule, seen: &[Observation]) -> Step {
    let closed = pooled(seen, |load| matches!(load, Load::Concurrency(_)));
    let rates = pooled(seen, |load| matches!(load, Load::Rate(_)));
    if seen.len() >= MAX_ROUNDS {
        return Step::Unsettled;
    }
    match rule.goal {
        Goal::Sweep => match further(rule, &closed, has_saturated) {
            Some(next) => Step::Observe(next),
            None => Step::Swept(closed.iter().map(Pooled::clients).collect()),
        },
        Goal::MaxConcurrency => match further(rule, &closed, |closed| closed.iter().any(|load| !load.meets(rule))) {
            Some(next) => Step::Observe(next),
            None => narrow(rule, &closed).unwrap_or_else(|| all_met(&closed)),
        },
        Goal::MaxRate => {
            let is_enough = |closed: &[Pooled]| has_saturated(closed) || closed.iter().any(|load| !load.meets(rule));
            match further(rule, &closed, is_enough) {
                Some(next) => Step::Observe(next),
                None => next_rate(rule, &closed, &rates),
            }
        }
    }
}

/// Returns the next numbers of requests in flight: doublings until it is enough, or until the most are reached.
fn further(rule: &Rule, closed: &[Pooled], is_enough: impl Fn(&[Pooled]) -> bool) -> Option<Vec<Load>> {
    let most = rule.max_concurrency.max(1);
    let Some(top) = closed.last().map(Pooled::clients) else {
        let first = FIRST_CONCURRENCIES.iter().filter(|clients| **clients <= most);
        return Some(first.map(|clients| Load::Concurrency(*clients)).collect());
    };
    if top >= most || closed.iter().any(|load| load.error_rate > MAX_ERROR_RATE) || is_enough(closed) {
        return None;
    }
    let next = [top.saturating_mul(2).min(most), top.saturating_mul(4).min(most)];
    let mut next = next.map(Load::Concurrency).to_vec();
    next.dedup();
    Some(next)
}

/// Returns true if the last doubling of the concurrency hardly brought throughput.
fn has_saturated(closed: &[Pooled]) -> bool {
    let [.., before, last] = closed else { return false };
    is_saturated([before, last].map(|load| (load.value(), load.requests_per_s)))
}

/// Returns true if the second of two loads, each with its throughput, hardly brought more of it: less than [`SATURATED`] for a doubling, and
/// in proportion for less.
pub(crate) fn is_saturated([before, last]: [(f64, f64); 2]) -> bool {
    last.1 < before.1 * (1.0 + SATURATED * (last.0 / before.0 - 1.0))
}

/// Decides the next rate, once the closed loop has shown where to look.
fn next_rate(rule: &Rule, closed: &[Pooled], rates: &[Pooled]) -> Step {
    let Some(idle) = closed.first().filter(|idle| idle.meets(rule)) else {
        return Step::NoneMet(Load::Concurrency(closed.first().map_or(1, Pooled::clients)));
    };
    let met = closed.iter().take_while(|load| load.meets(rule)).last().unwrap_or(idle);
    let short = closed.iter().find(|load| !load.meets(rule));
    let limit = closed.iter().map(|load| load.requests_per_s).fold(0.0, f64::max);
    if rates.is_empty() {
        // Independent arrivals come in crowds: they need more room than as many requests in flight on average.
        let low = rounded(met.requests_per_s * DOWN);
        let high = rounded(short.map_or(limit * UP, |short| short.requests_per_s.max(met.requests_per_s * UP)));
        return Step::Observe(vec![Load::Rate(low), Load::Rate(high)]);
    }
    let lowest = rates.first().map_or(0.0, Pooled::value);
    let highest = rates.last().map_or(0.0, Pooled::value);
    if rates.iter().all(|rate| rate.meets(rule)) {
        let next = rounded(highest * UP);
        return if next <= limit * HIGHEST_RATE {
            Step::Observe(vec![Load::Rate(next)])
        } else {
            // The rates contradict a load that fell short. If that was chance, the closed loop goes on.
            let unconfirmed = short.filter(|short| short.observations < CONFIRMED);
            unconfirmed.map_or(Step::AllMet(Load::Rate(highest)), |short| Step::Observe(vec![short.load]))
        };
    }
    if !rates.first().is_some_and(|rate| rate.meets(rule)) {
        return match rounded(lowest * DOWN) {
            next if next < idle.requests_per_s * LOWEST_RATE => Step::NoneMet(Load::Rate(lowest)),
            next => Step::Observe(vec![Load::Rate(next)]),
        };
    }
    narrow(rule, rates).unwrap_or(Step::AllMet(Load::Rate(highest)))
}

/// Narrows the bracket of loads of one kind; `None` if all of them meet the SLOs.
fn narrow(rule: &Rule, loads: &[Pooled]) -> Option<Step> {
    let place = loads.iter().position(|load| !load.meets(rule))?;
    let short = loads.get(place)?;
    let Some(meets) = place.checked_sub(1).and_then(|before| loads.get(before)) else {
        return Some(Step::NoneMet(short.load));
    };
    if let Some(between) = between(rule, meets.load, short.load) {
        return Some(Step::Observe(vec![between]));
    }
    let unconfirmed: Vec<Load> =
        [meets, short].into_iter().filter(|load| load.observations < CONFIRMED).map(|load| load.load).collect();
    Some(if unconfirmed.is_empty() {
        let ends = [meets, short].map(|end| (end.value(), end.good_fraction));
        let crossing = match crossing(&ends, rule.share) {
            Some(Crossing::At { load, .. }) => load,
            _ => meets.value(),
        };
        Step::Found(Bracket { meets: meets.load, falls_short: short.load, crossing })
    } else {
        Step::Observe(unconfirmed)
    })
}

/// Returns a load between two others; `None` if they are close enough.
fn between(rule: &Rule, low: Load, high: Load) -> Option<Load> {
    let is_close = high.amount() <= low.amount() * (1.0 + rule.precision);
    let middle = (low.amount() * high.amount()).sqrt();
    match (low, high) {
        (Load::Concurrency(low), Load::Concurrency(high)) => {
            let middle = (middle.round() as u32).clamp(low + 1, high.saturating_sub(1).max(low + 1));
            (!is_close && high > low + 1).then_some(Load::Concurrency(middle))
        }
        (Load::Rate(low), Load::Rate(high)) => {
            let middle = rounded(middle);
            (!is_close && low < middle && middle < high).then_some(Load::Rate(middle))
        }
        _ => None,
    }
}

fn all_met(loads: &[Pooled]) -> Step {
    Step::AllMet(loads.last().map_or(Load::Concurrency(1), |load| load.load))
}

/// All observations of one load together, weighed by their requests.
struct Pooled {
    load: Load,
    observations: u32,
    requests: f64,
    error_rate: f64,
    requests_per_s: f64,
    good_fraction: f64,
}

impl Pooled {
    /// Returns true if enough requests were within the SLOs. A load without SLOs meets them.
    fn meets(&self, rule: &Rule) -> bool {
        self.good_fraction >= rule.share
    }

    fn value(&self) -> f64 {
        self.load.amount()
    }

    fn clients(&self) -> u32 {
        match self.load {
            Load::Concurrency(clients) => clients,
            Load::Rate(_) => 0,
        }
    }

    fn add(&mut self, seen: &Observation) {
        let (before, more) = (self.requests, seen.requests as f64);
        let all = (before + more).max(1.0);
        let mean = |one: f64, other: f64| (one * before + other * more) / all;
        self.error_rate = mean(self.error_rate, seen.error_rate);
        self.requests_per_s = mean(self.requests_per_s, seen.requests_per_s);
        self.good_fraction = mean(self.good_fraction, seen.good_fraction.unwrap_or(1.0));
        self.requests += more;
        self.observations += 1;
    }
}

/// Returns the loads of one kind that were observed, in ascending order, with shares that fall with load.
fn pooled(seen: &[Observation], is_wanted: impl Fn(Load) -> bool) -> Vec<Pooled> {
    let mut loads: Vec<Pooled> = Vec::new();
    for seen in seen.iter().filter(|seen| is_wanted(seen.load)) {
        if let Some(load) = loads.iter_mut().find(|load| load.load == seen.load) {
            load.add(seen);
        } else {
            let mut load = Pooled {
                load: seen.load,
                observations: 0,
                requests: 0.0,
                error_rate: 0.0,
                requests_per_s: 0.0,
                good_fraction: 0.0,
            };
            load.add(seen);
            loads.push(load);
        }
    }
    loads.sort_unstable_by(|one, other| one.value().total_cmp(&other.value()));
    fall_with_load(&mut loads);
    loads
}

/// Replaces shares that rise with load by the means of neighbours, weighed by their requests.
fn fall_with_load(loads: &mut [Pooled]) {
    let shares = fall(&loads.iter().map(|load| (load.good_fraction, load.requests)).collect::<Vec<_>>());
    for (load, share) in loads.iter_mut().zip(shares) {
        load.good_fraction = share;
    }
}

/// Rounds a rate to three significant digits, so that it is read and written as it is.
fn rounded(rate: f64) -> f64 {
    if !(rate > 0.0 && rate.is_finite()) {
        return 0.0;
    }
    let mut unit = 1.0;
    while rate / unit >= 1_000.0 {
        unit *= 10.0;
    }
    // Divided, not multiplied by a fraction: 0.1 has no exact double.
    let mut parts = 1.0;
    while rate / unit * parts < 100.0 {
        parts *= 10.0;
    }
    (rate / unit * parts).round() / parts * unit
}

#[cfg(test)]
mod tests;
