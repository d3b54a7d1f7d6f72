//! The recorded responses of endpoints, and the other activity on each of them.

use std::collections::BTreeMap;
use std::io::Read;

use assay_manifest::{
    Attempt, Block, CrossCheck, Environment, ExecutionPart, Instant, Name, Plan, Recording, Series, ServingWork, Window,
};
use assay_stage::{Context, ErrorCode, Failure};
use assay_telemetry::{CountedQuantity, ReadError, Scrape, ScrapeLine, Source, counters, each_reading, growth, span};

use crate::cross_check::{ClientCounts, OtherActivity, checks};
use crate::read_failure;

/// The most responses of one endpoint in one block: more than a week of them.
const MAX_SCRAPES: usize = 1_000_000;

/// An endpoint in a block.
type BlockTarget = (Block, Name);

/// The counters of every endpoint, and the attempts on it.
#[derive(Default)]
pub(crate) struct Endpoints {
    scrapes: BTreeMap<BlockTarget, Vec<Scrape>>,
    activity: BTreeMap<BlockTarget, Vec<Activity>>,
}

/// One attempt on an endpoint, over all its shards.
#[derive(Clone, Debug)]
struct Activity {
    window: Window,
    open: u64,
}

/// Returns the target and the work of an attempt, if its target is an endpoint.
pub(crate) fn serving_target<'a>(plan: &'a Plan, attempt: &Attempt) -> Option<(&'a Name, &'a ServingWork)> {
    let case = plan.case(&attempt.case_id)?;
    Some((&case.target, plan.workload(&case.workload)?.serving.as_ref()?))
}

impl Endpoints {
    /// Reads every recorded response once.
    pub(crate) fn read(
        ctx: &Context,
        plan: &Plan,
        environments: &[&Environment],
        recordings: &[&Recording],
        parts: &[&ExecutionPart],
    ) -> Result<Self, Failure> {
        let activity = activity(plan, parts);
        let mut scrapes: BTreeMap<BlockTarget, Vec<Scrape>> = BTreeMap::new();
        for place in activity.keys().filter(|place| !has_several_pods(environments, place)) {
            let source = Source::endpoint(&place.1).to_string();
            for recording in recordings.iter().filter(|recording| recording.block == place.0) {
                for series in recording.series.iter().filter(|series| series.source == source) {
                    ctx.check_cancelled()?;
                    let file = ctx.materialise(&series.artifact)?;
                    read_scrapes(series, file.open()?, scrapes.entry(place.clone()).or_default())?;
                }
            }
        }
        for scrapes in scrapes.values_mut() {
            scrapes.sort_by_key(|scrape| scrape.requested_at);
        }
        Ok(Self { scrapes, activity })
    }

    /// Compares the client's counts in an attempt with its endpoint's. `shards` are all parts of the attempt; if one of them has
    /// no outcome, or the endpoint has no counters, there is nothing to compare.
    pub(crate) fn cross_checks(&self, block: Block, target: &Name, work: &ServingWork, shards: &[&Attempt]) -> Vec<CrossCheck> {
        let place = (block, target.clone());
        let (Some(scrapes), Some(window)) =
            (self.scrapes.get(&place), enclosing_window(shards.iter().map(|shard| &shard.window)))
        else {
            return Vec::new();
        };
        let outcomes: Option<Vec<_>> = shards.iter().map(|shard| shard.serving.as_ref()).collect();
        let Some(outcomes) = outcomes else { return Vec::new() };
        let growths: Vec<_> =
            CountedQuantity::ALL.into_iter().filter_map(|what| Some((what, growth(scrapes, what, &window)?))).collect();
        let others = self.activity.get(&place).map_or(&[][..], Vec::as_slice);
        let between = |from: Instant, to: Instant| {
            let is_other = |activity: &&Activity| activity.window != window;
            others.iter().filter(is_other).any(|activity| activity.window.start < to && from < activity.window.end)
        };
        let before = others.iter().filter(|activity| activity.window.end <= window.start).max_by_key(|found| found.window.end);
        let neighbours = OtherActivity { left_open: before.map_or(0, |activity| activity.open), between: &between };
        checks(&ClientCounts::from_outcomes(outcomes), work, &growths, &neighbours)
    }
}

/// Returns true if several pods serve an endpoint's address: the counters of one are not those of all, and each response may come
/// from another one.
fn has_several_pods(environments: &[&Environment], (block, target): &BlockTarget) -> bool {
    let of_block = environments.iter().filter(|environment| environment.block == *block);
    of_block.flat_map(|environment| &environment.targets).any(|found| found.id == *target && found.pods.len() > 1)
}

fn read_scrapes(series: &Series, file: impl Read, out: &mut Vec<Scrape>) -> Result<(), Failure> {
    let format = assay_telemetry::LineFormat::Scrapes;
    let read = each_reading(series, format, file, |line: ScrapeLine| {
        let (requested_at, received_at) = (line.at, line.received_at());
        let Some(body) = line.body else { return Ok(()) };
        if out.len() == MAX_SCRAPES {
            let message = format!("more than {MAX_SCRAPES} responses of one endpoint were recorded");
            return Err(ReadError::Caller(Failure::new(ErrorCode::Recording, message)));
        }
        out.push(Scrape { requested_at, received_at, counters: counters(&body) });
        Ok(())
    });
    read.map_err(read_failure)
}

/// Returns the attempts on each endpoint, each with all its shards.
fn activity(plan: &Plan, parts: &[&ExecutionPart]) -> BTreeMap<BlockTarget, Vec<Activity>> {
    let mut shards: BTreeMap<_, Vec<&Attempt>> = BTreeMap::new();
    for part in parts {
        for attempt in &part.attempts {
            if let Some((target, _)) = serving_target(plan, attempt) {
                let key = (part.block, target, &attempt.trial_id, attempt.attempt);
                shards.entry(key).or_default().push(attempt);
            }
        }
    }
    let mut found: BTreeMap<BlockTarget, Vec<Activity>> = BTreeMap::new();
    for ((block, target, ..), shards) in shards {
        if let Some(window) = enclosing_window(shards.iter().map(|shard| &shard.window)) {
            let open = ClientCounts::from_outcomes(shards.iter().filter_map(|shard| shard.serving.as_ref())).open;
            found.entry((block, target.clone())).or_default().push(Activity { window, open });
        }
    }
    found
}

/// Returns the window from the first start to the last end.
fn enclosing_window<'a>(windows: impl Iterator<Item = &'a Window> + Clone) -> Option<Window> {
    let start = windows.clone().map(|window| window.start).min()?;
    Some(span(start, windows.map(|window| window.end).max()?))
}

#[cfg(test)]
mod tests;
