//! The number of shards of each trial: the load that the plan requests, over half of what one shard can make.

use assay_manifest::{Ceiling, Fact, LoadUnit, MAX_SHARDS, Name, Plan, RequestedLoad, ShardCount, WorkloadType};
use assay_stage::{ErrorCode, Failure};

/// The largest share of its ceiling that a shard is given: the limits of the client's certificate hold below half of its
/// capacity.
const SHARE: f64 = 0.5;

/// Returns the load that any shard with a CPU of its own carries: below it nothing is measured. A request costs the client about
/// 50 us and an event, at these rates, about 30 us, which makes each of the three less than half of one CPU; a streamed response brings some
/// forty events per second.
const fn any_shard_carries(unit: LoadUnit) -> f64 {
    match unit {
        LoadUnit::Concurrency => 256.0,
        LoadUnit::RequestsPerS => 500.0,
        LoadUnit::EventsPerS => 10_000.0,
    }
}

/// Returns the workload whose load only one shard can make, with the field that holds for all requests in flight together, if there is one.
pub(crate) fn one_shard_only(plan: &Plan) -> Option<(&Name, &'static str)> {
    plan.workloads.iter().find_map(|workload| Some((&workload.name, workload.serving.as_ref()?.one_shard_field()?)))
}

/// Returns a count of one shard, because of this workload.
pub(crate) fn one(requested: Vec<RequestedLoad>, (workload, field): (&Name, &str)) -> ShardCount {
    let formula = format!("shards: 1, because `{field}` of the workload `{workload}` holds for all requests together");
    ShardCount { shards: 1, formula, requested, ceiling: None }
}

/// Returns one shard if the plan has a program too: every shard would run it, and they would disturb one another.
pub(crate) fn for_programs(plan: &Plan, count: ShardCount) -> ShardCount {
    let program = plan.workloads.iter().find(|workload| workload.workload_type == WorkloadType::Indicator);
    let Some(program) = program.filter(|_| count.shards > 1) else { return count };
    let formula = format!(
        "shards: 1, because the workload `{}` is a program, which every shard would run; by the load alone, {}",
        program.name, count.formula
    );
    ShardCount { shards: 1, formula, ..count }
}

/// Returns true if any shard with a CPU of its own carries all of the load.
pub(crate) fn is_small(requested: &[RequestedLoad]) -> bool {
    requested.iter().all(|load| load.amount <= any_shard_carries(load.unit))
}

/// Returns the count of shards with its formula. If the ceiling is unknown the count is one, and the formula says so.
pub(crate) fn count(requested: Vec<RequestedLoad>, ceiling: Option<Fact<Ceiling>>) -> Result<ShardCount, Failure> {
    let (shards, formula) = match ceiling.as_ref().map(|fact| (fact.value.as_ref(), &fact.how)) {
        None => (1, format!("shards: 1, any shard carries {}: no ceiling was measured", describe_load(&requested))),
        Some((None, why)) => {
            let remedy = "name a number of `shards` in the pipeline where one is too few";
            (
                1,
                format!(
                    "shards: 1 for {}, because the ceiling of a shard is not known ({why}): {remedy}",
                    describe_load(&requested)
                ),
            )
        }
        Some((Some(ceiling), _)) => deciding_load(&requested, ceiling)?,
    };
    Ok(ShardCount { shards, formula, requested, ceiling })
}

/// Returns the count and formula of the load that needs the most shards.
fn deciding_load(requested: &[RequestedLoad], ceiling: &Ceiling) -> Result<(u32, String), Failure> {
    let needed = |load: &RequestedLoad| (load.amount / (SHARE * f64::from(unit_ceiling(ceiling, load.unit)))).ceil().max(1.0);
    let most = requested.iter().max_by(|one, other| needed(one).total_cmp(&needed(other)));
    let Some(load) = most else { return Ok((1, "shards: 1, no load is requested".to_owned())) };
    let formula =
        format!("{} = ceil({} / ({SHARE} * {}))", needed(load), amount(load.amount, load.unit), unit_ceiling(ceiling, load.unit));
    if needed(load) > f64::from(MAX_SHARDS) {
        let message = format!("point `{}` of `{}` takes more than {MAX_SHARDS} shards: {formula}", load.point_id, load.case_id);
        return Err(Failure::new(ErrorCode::TooManyShards, message)
            .hint("ask for less load, give `execute` more CPU or faster nodes, or name a number of `shards` in the pipeline"));
    }
    Ok((needed(load) as u32, format!("shards: {formula}")))
}

fn unit_ceiling(ceiling: &Ceiling, unit: LoadUnit) -> u32 {
    match unit {
        LoadUnit::Concurrency => ceiling.concurrency,
        LoadUnit::RequestsPerS => ceiling.requests_per_s,
        LoadUnit::EventsPerS => ceiling.events_per_s,
    }
}

fn describe_load(requested: &[RequestedLoad]) -> String {
    let amounts: Vec<_> = requested.iter().map(|load| amount(load.amount, load.unit)).collect();
    amounts.join(", ")
}

fn amount(amount: f64, unit: LoadUnit) -> String {
    match unit {
        LoadUnit::Concurrency => format!("concurrency {amount}"),
        LoadUnit::RequestsPerS => format!("{amount} requests/s"),
        LoadUnit::EventsPerS => format!("{amount} events/s"),
    }
}

#[cfg(test)]
mod tests;
