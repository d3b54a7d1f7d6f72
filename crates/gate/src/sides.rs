//! Differences between the sides of a comparison other than the variable under test, from a run's signed manifests.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{Case, Comparison, Difference, Digest, Environment, Fact, Host, Name, Plan, Side, TrialId};

/// The load that each trial was offered, by the digest of its schedule; empty for work without one.
pub type Schedules<'a> = BTreeMap<&'a TrialId, Digest>;

pub(crate) fn is_on_side(case: &Case, side: &Side) -> bool {
    case.target == side.target && case.variant == side.variant
}

/// Explains why a difference cannot be distinguished from one of placement; `None` if both sides ran on the same hardware, or if
/// hardware is the variable under test.
///
/// Each side's hosts are those of all blocks, so that sides which swap their hosts share them. A host with several GPUs is not
/// one device: it is not known which of them a process used.
pub fn find_confounding(environments: &[&Environment], comparison: &Comparison) -> Option<String> {
    let [baseline, candidate] = [&comparison.baseline, &comparison.candidate].map(|side| hosts_of(environments, side));
    let named = |hosts: &BTreeMap<String, &Host>| hosts.keys().cloned().collect::<Vec<_>>().join(", ");
    if baseline.is_empty() || candidate.is_empty() {
        return Some("the hardware of a side is not known".to_owned());
    }
    if comparison.variable_under_test == HARDWARE {
        return None;
    }
    if baseline.keys().ne(candidate.keys()) {
        return Some(format!("the baseline ran on {} and the candidate on {}", named(&baseline), named(&candidate)));
    }
    let devices = |host: &Host| host.facts.gpus.value.as_ref().map_or(0, Vec::len);
    let coexist = environments.iter().any(|environment| is_up(environment, comparison));
    let shared = baseline.values().find(|host| coexist && devices(host) > 1)?;
    Some(format!("both sides were up on `{}`, which has {} GPUs: each may have had its own", shared.name, devices(shared)))
}

/// Returns true if both sides were up in that block.
fn is_up(environment: &Environment, comparison: &Comparison) -> bool {
    let has = |side: &Side| environment.targets.iter().any(|target| target.id == side.target);
    comparison.baseline.target != comparison.candidate.target && has(&comparison.baseline) && has(&comparison.candidate)
}

/// Returns the hosts that a side ran on, by boot; empty if one of them is unknown.
fn hosts_of<'a>(environments: &[&'a Environment], side: &Side) -> BTreeMap<String, &'a Host> {
    let mut hosts = BTreeMap::new();
    for environment in environments {
        for target in environment.targets.iter().filter(|target| target.id == side.target) {
            for name in &target.hosts {
                let host = environment.hosts.iter().find(|host| host.name == *name);
                match host.and_then(|host| Some((host.facts.boot_id.value.clone()?, host))) {
                    Some((boot, host)) => drop(hosts.insert(boot, host)),
                    None => return BTreeMap::new(),
                }
            }
        }
    }
    hosts
}

/// Returns the differences between the sides of a run other than the variable under test: facts of hosts and targets, and the
/// schedules of pairs.
pub fn differences(
    plan: &Plan,
    environments: &[&Environment],
    schedules: &Schedules<'_>,
    comparison: &Comparison,
) -> Vec<Difference> {
    let [baseline, candidate] = [&comparison.baseline, &comparison.candidate].map(|side| facts(environments, &side.target));
    let mut all = differing_facts(&baseline, &candidate, allowed_groups(&comparison.variable_under_test));
    all.extend(schedule_differences(plan, schedules, comparison));
    all
}

/// Returns the differences of a target between one run, which is the baseline, and another: facts of its hosts and of itself.
pub fn differences_between_runs(one: &[&Environment], other: &[&Environment], target: &Name) -> Vec<Difference> {
    differing_facts(&facts(one, target), &facts(other, target), &[])
}

/// Returns the facts that differ, except those of the allowed groups.
fn differing_facts(baseline: &Facts, candidate: &Facts, allowed: &[&str]) -> Vec<Difference> {
    let names: BTreeSet<&(&str, String)> = baseline.keys().chain(candidate.keys()).collect();
    let of = |facts: &Facts, name: &(&'static str, String)| {
        facts.get(name).map_or_else(unknown, |values| values.iter().cloned().collect::<Vec<_>>().join(", "))
    };
    let differing = names.into_iter().filter(|(group, _)| !allowed.contains(group)).filter_map(|name| {
        let (baseline, candidate) = (of(baseline, name), of(candidate, name));
        (baseline != candidate).then(|| Difference { what: name.1.clone(), baseline, candidate })
    });
    differing.collect()
}

/// The variable under test that is the hardware itself.
const HARDWARE: &str = "hardware_generation";

/// Returns the groups of facts that a variable under test may change.
fn allowed_groups(variable: &str) -> &'static [&'static str] {
    match variable {
        HARDWARE => &["hardware", "software"],
        "runtime_version" => &["version"],
        "driver_stack" => &["software"],
        "kernel_implementation" => &["version", "software"],
        "model" => &["models"],
        "other" => &["hardware", "software", "version", "models"],
        _ => &[],
    }
}

type Facts = BTreeMap<(&'static str, String), BTreeSet<String>>;

/// Returns the facts of a target over all blocks, by group and name.
fn facts(environments: &[&Environment], target: &Name) -> Facts {
    let mut facts = Facts::new();
    let mut note = |group: &'static str, name: &str, value: String| {
        facts.entry((group, name.to_owned())).or_default().insert(value);
    };
    for environment in environments {
        for target in environment.targets.iter().filter(|known| known.id == *target) {
            note("version", "target.version", text(&target.version));
            note(
                "version",
                "target.image",
                target.image.as_ref().and_then(|image| image.digest).map_or_else(String::new, |digest| digest.to_string()),
            );
            note("models", "target.models", target.models.join(", "));
            for host in environment.hosts.iter().filter(|host| target.hosts.contains(&host.name)) {
                let known = &host.facts;
                note("hardware", "host.cpu_model", text(&known.cpu_model));
                note("hardware", "host.usable_cpus", text(&known.usable_cpus));
                note("hardware", "host.memory_bytes", known.memory_bytes.value.map_or_else(unknown, |bytes| bytes.0.to_string()));
                let gpus = known.gpus.value.as_ref();
                let models = gpus.map(|gpus| gpus.iter().map(|gpu| gpu.model.as_str()).collect::<Vec<_>>().join(", "));
                note("hardware", "host.gpus", models.unwrap_or_else(unknown));
                note("software", "host.kernel", text(&known.kernel));
                note("software", "host.governor", known.governor.value.as_ref().map_or_else(unknown, |words| words.join(", ")));
                let driver = gpus.and_then(|gpus| gpus.first()).map(|gpu| gpu.driver_version.clone());
                note("software", "host.gpu_driver", driver.unwrap_or_default());
            }
        }
    }
    facts
}

fn text<T: ToString>(fact: &Fact<T>) -> String {
    fact.value.as_ref().map_or_else(unknown, T::to_string)
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// Returns the pairs whose sides were not offered the same load.
fn schedule_differences(plan: &Plan, schedules: &Schedules<'_>, comparison: &Comparison) -> Vec<Difference> {
    let side = |side: &Side| -> BTreeMap<_, _> {
        let of_side = plan.trials.iter().filter(|trial| plan.case(&trial.case_id).is_some_and(|case| is_on_side(case, side)));
        of_side.map(|trial| ((trial.case_id.names()[0].to_owned(), &trial.point_id, trial.index), &trial.trial_id)).collect()
    };
    let candidates = side(&comparison.candidate);
    let differing = side(&comparison.baseline).into_iter().filter_map(|(place, baseline)| {
        let candidate = candidates.get(&place)?;
        let (one, other) = (schedules.get(baseline)?, schedules.get(*candidate)?);
        (one != other).then(|| Difference {
            what: format!("schedule of {baseline}"),
            baseline: one.to_string(),
            candidate: other.to_string(),
        })
    });
    differing.collect()
}

#[cfg(test)]
mod tests;
