//! The comparison of the client's counts with the counters of each endpoint, from its recorded responses.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use assay_manifest::{
    Attempt, Block, CheckedAttempt, CrossCheck, Environment, ExecutionPart, Name, Plan, ProvisionedReplica, ProvisionedTarget,
    Recording, Series, ServingRole, ServingWork, Shard, Window,
};
use assay_stage::{Context, ErrorCode, Failure};
use assay_telemetry::{ReadError, Scrape, ScrapeLine, Source, counters, each_reading, span};

use crate::cross_check::{ClientCounts, Readings, ServedAttempt, checks};
use crate::read_failure;

/// The most responses of one endpoint in one block: more than a week of them.
const MAX_SCRAPES: usize = 1_000_000;

/// An endpoint in a block.
type BlockTarget = (Block, Name);

/// Compares the client's counts in all attempts with their endpoints' own. Each recorded response is read once.
pub(crate) fn cross_checks(
    ctx: &Context,
    plan: &Plan,
    environments: &[&Environment],
    recordings: &[&Recording],
    parts: &[&ExecutionPart],
) -> Result<Vec<CrossCheck>, Failure> {
    let mut found = Vec::new();
    for (place, attempts) in served_attempts(plan, parts) {
        let target = provisioned_target(environments, &place);
        let readings = if target.is_some_and(shares_its_address) {
            Readings::SeveralPods
        } else {
            let servers = target.map_or_else(|| vec![Source::endpoint(&place.1)], counting_servers);
            let scrapes = servers.iter().map(|server| recorded_scrapes(ctx, recordings, place.0, server));
            Readings::Responses(scrapes.collect::<Result<_, _>>()?)
        };
        found.extend(checks(place.0, &attempts, &readings));
    }
    Ok(found)
}

/// Returns an endpoint as provision found it for a block.
fn provisioned_target<'a>(environments: &[&'a Environment], (block, target): &BlockTarget) -> Option<&'a ProvisionedTarget> {
    let of_block = environments.iter().copied().filter(|environment| environment.block == *block);
    of_block.flat_map(|environment| &environment.targets).find(|found| found.id == *target)
}

/// Returns true if several pods serve an endpoint's address and none of them is read by itself: the counters of one are not those of all,
/// and each response may come from another one.
fn shares_its_address(target: &ProvisionedTarget) -> bool {
    target.replicas.is_empty() && target.pods.len() > 1
}

/// Returns the servers of an endpoint whose counts add up to those of its clients: all but those that compute prompts alone, because a
/// server of the role `decode` counts each of their requests, too.
fn counting_servers(target: &ProvisionedTarget) -> Vec<Source> {
    let role = |replica: &ProvisionedReplica| {
        target.pods.iter().find(|pod| Some(&pod.name) == replica.pod.as_ref()).and_then(|pod| pod.role)
    };
    let counts: Vec<bool> = target.replicas.iter().map(|replica| role(replica) != Some(ServingRole::Prefill)).collect();
    let servers = Source::servers(target);
    // Without a server of another role, those for prompts are all that is known.
    if !counts.contains(&true) {
        return servers;
    }
    servers.into_iter().zip(counts).filter_map(|(server, counts)| counts.then_some(server)).collect()
}

/// Returns the responses of a server in the order of their requests.
fn recorded_scrapes(ctx: &Context, recordings: &[&Recording], block: Block, server: &Source) -> Result<Vec<Scrape>, Failure> {
    let source = server.to_string();
    let mut scrapes = Vec::new();
    for recording in recordings.iter().filter(|recording| recording.block == block) {
        for series in recording.series.iter().filter(|series| series.source == source) {
            ctx.check_cancelled()?;
            let file = ctx.materialise(&series.artifact)?;
            read_scrapes(series, file.open()?, &mut scrapes)?;
        }
    }
    scrapes.sort_by_key(|scrape| scrape.requested_at);
    Ok(scrapes)
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

/// Returns the attempts on each endpoint in the order of their starts, each with all its shards.
fn served_attempts<'a>(plan: &'a Plan, parts: &[&'a ExecutionPart]) -> BTreeMap<BlockTarget, Vec<ServedAttempt<'a>>> {
    let mut shards: BTreeMap<_, Vec<(Shard, &Attempt)>> = BTreeMap::new();
    for part in parts {
        for attempt in &part.attempts {
            if let Some((target, _)) = serving_target(plan, attempt) {
                let key = (part.block, target, &attempt.trial_id, attempt.attempt);
                shards.entry(key).or_default().push((part.shard, attempt));
            }
        }
    }
    let mut found: BTreeMap<BlockTarget, Vec<ServedAttempt<'a>>> = BTreeMap::new();
    for ((block, target, trial_id, attempt), shards) in shards {
        let work = shards.first().and_then(|(_, attempt)| serving_target(plan, attempt));
        let window = enclosing_window(shards.iter().map(|(_, shard)| &shard.window));
        if let (Some((_, work)), Some(window)) = (work, window) {
            let outcomes: Vec<_> = shards.iter().filter_map(|(_, shard)| shard.serving.as_ref()).collect();
            let attempt = CheckedAttempt { trial_id: trial_id.clone(), attempt };
            let is_complete = outcomes.len() == shards.len() && has_all_shards(shards.iter().map(|(shard, _)| *shard));
            let counts = ClientCounts::from_outcomes(outcomes);
            found.entry((block, target.clone())).or_default().push(ServedAttempt { attempt, window, work, counts, is_complete });
        }
    }
    for attempts in found.values_mut() {
        attempts.sort_by_key(|served| (served.window.start, served.window.end));
    }
    found
}

/// Returns the target and the work of an attempt, if its target is an endpoint.
fn serving_target<'a>(plan: &'a Plan, attempt: &Attempt) -> Option<(&'a Name, &'a ServingWork)> {
    let case = plan.case(&attempt.case_id)?;
    Some((&case.target, plan.workload(&case.workload)?.serving.as_ref()?))
}

/// Returns true if no shard is missing: a lost one may have sent requests that no count has.
fn has_all_shards(shards: impl Iterator<Item = Shard> + Clone) -> bool {
    let present: BTreeSet<u32> = shards.clone().map(|shard| shard.index).collect();
    shards.map(|shard| shard.count).max().is_some_and(|count| present.len() == count as usize)
}

/// Returns the window from the first start to the last end.
fn enclosing_window<'a>(windows: impl Iterator<Item = &'a Window> + Clone) -> Option<Window> {
    let start = windows.clone().map(|window| window.start).min()?;
    Some(span(start, windows.map(|window| window.end).max()?))
}

#[cfg(test)]
mod tests;
