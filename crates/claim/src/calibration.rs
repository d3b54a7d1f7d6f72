//! Checks that the load generator was calibrated, on its machine, for more load than it had to make.

use std::collections::BTreeSet;

use assay_manifest::{
    CalibratedCeiling, CalibrationReference, Collection, Environment, LoadUnit, Plan, PointSummary, Shortfall, WorkloadType,
};

use crate::shortfall;

/// The name of the rule that the load generator was calibrated for the load.
pub const CALIBRATION: &str = "calibration";

/// The least ratio of a calibrated ceiling to the load of one client.
///
/// A ceiling is the highest level of a ladder that doubles, so the client may fail just above it, and errors grow before it fails. A
/// client that is given half of what it carried has the errors of a level below, which were measured. It is the factor by which the
/// number of shards is chosen, too.
pub const MARGIN: f64 = 2.0;

/// The placement fact that names the cluster, and its value if the load ran in pods: those machines cannot be calibrated.
const CLUSTER: (&str, &str) = ("cluster", "kubernetes");

/// The metric of the requests that a client completed per second.
const REQUESTS: &str = "request_throughput_per_s";

/// The value of a point that states its requests in flight.
const CONCURRENCY: &str = "concurrency";

/// The metric of the mean E2E latency, in milliseconds.
const MEAN_E2E: &str = "e2e_ms_mean";

/// The metric of the tokens that a client received per second. A token event has one or more, so no more events arrived.
const TOKENS: &str = "output_tokens_per_s";

/// The highest load of one unit that one client of a run had to make.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientLoad {
    /// The unit.
    pub unit: LoadUnit,
    /// The amount.
    pub amount: f64,
}

/// Returns the highest load of each unit that one load generator process of a run had to make: what the plan requests, or what
/// arrived if that is more, over the number of shards. Empty if the run offers no load.
pub fn client_load(plan: &Plan, collection: &Collection, points: &[PointSummary]) -> Vec<ClientLoad> {
    let requested = assay_schedule::requested_load(plan);
    if requested.is_empty() {
        return Vec::new();
    }
    let clients = f64::from(fewest_shards(collection));
    let of = |unit: LoadUnit| {
        let asked = requested.iter().filter(|load| load.unit == unit).map(|load| load.amount);
        let amount = asked.chain(arrived_load(unit, points)).reduce(f64::max)? / clients;
        Some(ClientLoad { unit, amount })
    };
    LoadUnit::ALL.iter().filter_map(|unit| of(*unit)).collect()
}

/// Returns the smallest number of shards of a counted attempt, at least 1.
fn fewest_shards(collection: &Collection) -> u32 {
    let attempts = collection.trials.iter().flat_map(|trial| &trial.attempts);
    attempts.filter(|attempt| attempt.counted).map(|attempt| attempt.shard.count).min().unwrap_or(1).max(1)
}

/// Returns the highest load of a unit that arrived at a point of serving, by its trials; `None` if its metrics do not give it. Requests in
/// flight are those of Little's law, except in a closed loop, whose number is exact: an open loop asks for none, and may have many.
fn arrived_load(unit: LoadUnit, points: &[PointSummary]) -> Option<f64> {
    let of_point = |point: &PointSummary| {
        let highest = |name: &str| point.metrics.iter().find(|found| found.metric == name).map(|found| found.max);
        match unit {
            LoadUnit::Concurrency if point.value.contains_key(CONCURRENCY) => None,
            LoadUnit::Concurrency => Some(highest(REQUESTS)? * highest(MEAN_E2E)? / 1e3),
            LoadUnit::RequestsPerS => highest(REQUESTS),
            LoadUnit::EventsPerS => highest(TOKENS),
        }
    };
    let serving = points.iter().filter(|point| point.workload_type == WorkloadType::Serving);
    serving.filter_map(of_point).filter(|amount| amount.is_finite()).reduce(f64::max)
}

/// Returns true if the load of this environment ran in pods of a cluster.
fn is_in_pods(environment: &Environment) -> bool {
    environment.placement.get(CLUSTER.0).is_some_and(|cluster| cluster == CLUSTER.1)
}

/// Returns a shortfall if a load generator was not calibrated, and one for each unit of which it had to make more than its ceiling over
/// [`MARGIN`]. Environments that fall short alike are named once.
pub(crate) fn calibration_shortfalls(load: &[ClientLoad], environments: &[&Environment]) -> Vec<Shortfall> {
    let on_machines = environments.iter().filter(|environment| !load.is_empty() && !is_in_pods(environment));
    let found: BTreeSet<String> = on_machines.flat_map(|environment| environment_shortfalls(load, environment)).collect();
    found.into_iter().map(|found| shortfall(CALIBRATION, found)).collect()
}

fn environment_shortfalls(load: &[ClientLoad], environment: &Environment) -> Vec<String> {
    let fact = environment.calibration.as_ref();
    let Some(calibration) = fact.and_then(|fact| fact.value.as_ref()) else {
        let why = fact.map_or("provision did not look for a calibration", |fact| &fact.how);
        return vec![format!("the load generator was not calibrated: {why}; `assay calibrate` on this machine does so")];
    };
    load.iter().filter_map(|load| describe_excess(load, calibration)).collect()
}

/// Describes a load that is too much for the ceiling of its unit; `None` if the ceiling exceeds it by the margin.
fn describe_excess(load: &ClientLoad, calibration: &CalibrationReference) -> Option<String> {
    let ceiling = calibration.ceilings.iter().find(|ceiling| ceiling.unit == load.unit);
    match ceiling {
        None => Some(format!(
            "the load generator had to make {}, and its calibration has no ceiling of them; calibrate it again on an idle machine \
             with `assay calibrate`",
            describe_amount(load.unit, load.amount)
        )),
        Some(ceiling) if ceiling.amount < MARGIN * load.amount => Some(format!(
            "the load generator had to make {}, and was calibrated for {}, less than {MARGIN} times as many; ask for less load, use \
             more `shards`, or calibrate it on an idle machine with `assay calibrate`",
            describe_amount(load.unit, load.amount),
            describe_ceiling(ceiling)
        )),
        Some(_) => None,
    }
}

/// Describes the load of one client beside the ceilings of its calibration, in one sentence for each environment that differs; empty if
/// there is no load.
pub fn describe_calibration(load: &[ClientLoad], environments: &[&Environment]) -> Vec<String> {
    let asked: Vec<String> = load.iter().map(|load| describe_amount(load.unit, load.amount)).collect();
    let sentence = |environment: &&Environment| {
        let fact = environment.calibration.as_ref()?;
        let Some(calibration) = &fact.value else { return Some(format!("The load generator was not calibrated: {}.", fact.how)) };
        let ceilings: Vec<String> = calibration.ceilings.iter().map(describe_ceiling).collect();
        let ceilings = if ceilings.is_empty() { "no load within its limits".to_owned() } else { ceilings.join(", ") };
        Some(format!(
            "Each load generator process had to make at most {}; on this machine, one was calibrated for {ceilings} ({}, {}).",
            asked.join(", "),
            calibration.calibrated_at.to_seconds(),
            calibration.manifest.short()
        ))
    };
    let mut sentences: Vec<String> = environments.iter().filter(|_| !load.is_empty()).filter_map(sentence).collect();
    sentences.dedup();
    sentences
}

/// Describes a ceiling, such as `at least 1,024 streams`.
pub fn describe_ceiling(ceiling: &CalibratedCeiling) -> String {
    let at_least = if ceiling.at_least { "at least " } else { "" };
    format!("{at_least}{}", describe_amount(ceiling.unit, ceiling.amount))
}

fn describe_amount(unit: LoadUnit, amount: f64) -> String {
    let amount = (amount * 10.0).round() / 10.0;
    match unit {
        LoadUnit::Concurrency => format!("{amount} requests in flight"),
        LoadUnit::RequestsPerS => format!("{amount} requests/s"),
        LoadUnit::EventsPerS => format!("{amount} events/s"),
    }
}

#[cfg(test)]
mod tests;
