//! Checks of declared environment controls against the recorded telemetry.
//!
//! A declaration is a person's statement about the machine. The host states around each counted attempt and the facts of the
//! blocks are measurements: if both cannot be true, the declaration is refused.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{Control, ControlState, Count, Environment, Host, HostRole, HostState, NetworkCard, Reason, TargetKind};

use crate::CountedAttempt;

/// The name of the rule that no telemetry contradicts a control, and of the Summary's issue if it does.
pub const CONTROL_CONTRADICTED: &str = "control_contradicted";

/// The share of the machine's CPU time that other processes may take on a node that is declared to be dedicated.
const MAX_NEIGHBOURS: f64 = 0.05;

/// The share of the machine's CPU time that other processes may take if the background is declared to be stable. Above it, the
/// background shares caches and memory bandwidth with the target, and the scheduler decides which of them waits.
const MAX_BACKGROUND: f64 = 0.10;

/// The largest difference of that share between two attempts if the background is declared to be stable.
const MAX_BACKGROUND_RANGE: f64 = 0.05;

/// The share of the machine's CPU time that its hypervisor may give to other guests.
const MAX_STEAL: f64 = 0.01;

/// The share of time during which some task may wait for a CPU if the background takes more than [`NOTABLE`].
const MAX_PRESSURE: f64 = 0.25;

/// The share of CPU time above which a background is more than noise of system services.
const NOTABLE: f64 = 0.02;

/// Runnable tasks for each CPU, averaged over the minute before the first attempt.
const MAX_LOAD_PER_CPU: f64 = 1.5;

/// The largest relative change of the highest CPU frequency between readings if clocks are declared to be locked.
const MAX_FREQUENCY_RANGE: f64 = 0.05;

/// Governors that keep the frequency fixed.
const FIXED_GOVERNORS: [&str; 2] = ["performance", "userspace"];

/// Drivers of virtual network cards, which appear and disappear with containers.
const VIRTUAL_CARDS: [&str; 4] = ["", "bridge", "tun", "veth"];

/// The minimum CPU time, in seconds, over which shares are judged: the kernel counts in hundredths of a second.
const MIN_CPU_SECONDS: f64 = 1.0;

/// The recorded states around one counted attempt on the machine of its target.
struct ObservedAttempt<'a> {
    trial: &'a str,
    before: &'a HostState,
    after: &'a HostState,
    seconds: f64,
    cpus: f64,
}

/// A measured share over one attempt, or over all attempts together.
struct MeasuredShare {
    value: f64,
    of: String,
}

/// Returns the controls that a block declares or proves, and that its facts or the telemetry of its counted attempts contradict:
/// one reason for each control, with the measured value and the limit.
pub fn find_contradicted_controls<'a>(
    counted: impl IntoIterator<Item = CountedAttempt<'a>>,
    environments: &[&'a Environment],
) -> Vec<Reason> {
    let counted: Vec<_> = counted.into_iter().collect();
    let reason = |control: &Control| {
        let claiming: Vec<&Environment> =
            environments.iter().copied().filter(|environment| claims(environment, *control)).collect();
        let observed: Vec<ObservedAttempt<'_>> =
            counted.iter().filter_map(|counted| ObservedAttempt::from_counted(counted, &claiming)).collect();
        let found = match control {
            Control::DedicatedNodes => check_dedicated_nodes(&observed),
            Control::StableBackground => check_stable_background(&observed),
            Control::LockedClocks => check_locked_clocks(&observed, &claiming),
            Control::FixedTopology => check_fixed_topology(&claiming),
        }?;
        Some(Reason::new(CONTROL_CONTRADICTED, format!("`{control}` is declared, but {found}")))
    };
    Control::ALL.iter().filter_map(reason).collect()
}

fn claims(environment: &Environment, control: Control) -> bool {
    environment.controls.iter().any(|fact| fact.control == control && fact.state != ControlState::Absent)
}

impl<'a> ObservedAttempt<'a> {
    /// Returns `None` if the attempt ran on another machine than the target's, if the machine is unknown, or if the block does
    /// not claim the control.
    fn from_counted(counted: &CountedAttempt<'a>, claiming: &[&'a Environment]) -> Option<Self> {
        let environment = claiming.iter().find(|environment| environment.block == counted.block)?;
        let host = host_of(counted, environment)?;
        let (before, after) = (counted.attempt.host_before.as_ref()?, counted.attempt.host_after.as_ref()?);
        let seconds = after.at.unix_ns().checked_sub(before.at.unix_ns()).filter(|ns| *ns > 0)? as f64 / 1e9;
        let cpus = f64::from(host.facts.logical_cpus.value.filter(|cpus| *cpus > 0)?);
        Some(Self { trial: counted.attempt.trial_id.as_str(), before, after, seconds, cpus })
    }

    /// The available CPU time of the machine, in seconds.
    fn capacity(&self) -> f64 {
        self.seconds * self.cpus
    }

    fn counter_increase(&self, of: impl Fn(&HostState) -> Option<Count>) -> Option<f64> {
        let grown = of(self.after)?.0.checked_sub(of(self.before)?.0)?;
        Some(grown as f64 / 1e6)
    }

    /// The CPU time of processes that do not belong to the run, in seconds. In a cluster, a pod sees only its own processes.
    fn neighbours(&self) -> Option<f64> {
        let busy = self.counter_increase(|state| state.cpu_busy_us)?;
        Some((busy - self.counter_increase(|state| state.own_cpu_us)?).max(0.0))
    }

    fn steal(&self) -> Option<f64> {
        self.counter_increase(|state| state.cpu_steal_us)
    }

    /// The share of time during which some task waited for a CPU.
    fn pressure(&self) -> Option<f64> {
        Some(self.counter_increase(|state| state.cpu_pressure_us)? / self.seconds)
    }
}

/// Returns the machine of a counted attempt, if one of its block's targets runs on it.
fn host_of<'a>(counted: &CountedAttempt<'_>, environment: &'a Environment) -> Option<&'a Host> {
    let here = |host: &&Host| match &counted.attempt.place {
        Some(place) => host.name == place.node,
        None => host.roles.contains(&HostRole::Client),
    };
    let host = environment.hosts_with(HostRole::Target).find(here)?;
    // An endpoint at an address of this machine is not held by the run, so its CPU time would be counted as a neighbour's.
    let is_held = |kind: TargetKind| !matches!(kind, TargetKind::Endpoint | TargetKind::InferenceService);
    environment.targets.iter().any(|target| is_held(target.kind) && target.hosts.contains(&host.name)).then_some(host)
}

/// Returns the largest share of the machine's CPU time, over each attempt that is long enough and over all attempts together.
fn worst_share<'a>(
    observed: &[ObservedAttempt<'a>],
    seconds: impl Fn(&ObservedAttempt<'a>) -> Option<f64>,
) -> Option<MeasuredShare> {
    let known: Vec<_> = observed.iter().filter_map(|one| Some((one, seconds(one)?))).collect();
    let capacity: f64 = known.iter().map(|(one, _)| one.capacity()).sum();
    if capacity < MIN_CPU_SECONDS {
        return None;
    }
    let used: f64 = known.iter().map(|(_, used)| used).sum();
    let all = MeasuredShare { value: used / capacity, of: "the counted attempts".to_owned() };
    let alone = known.iter().filter(|(one, _)| one.capacity() >= MIN_CPU_SECONDS);
    let alone = alone.map(|(one, used)| MeasuredShare { value: used / one.capacity(), of: format!("trial `{}`", one.trial) });
    alone.chain([all]).reduce(|worst, next| if next.value > worst.value { next } else { worst })
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn check_neighbours(observed: &[ObservedAttempt<'_>], most: f64) -> Option<String> {
    let share = worst_share(observed, ObservedAttempt::neighbours).filter(|share| share.value > most)?;
    let (took, most) = (percent(share.value), percent(most));
    Some(format!("processes that are not the run's took {took} of the machine's CPU time during {} (limit {most})", share.of))
}

fn check_steal(observed: &[ObservedAttempt<'_>]) -> Option<String> {
    let share = worst_share(observed, ObservedAttempt::steal).filter(|share| share.value > MAX_STEAL)?;
    let (took, most) = (percent(share.value), percent(MAX_STEAL));
    Some(format!("the hypervisor gave {took} of the machine's CPU time to other guests during {} (limit {most})", share.of))
}

fn check_dedicated_nodes(observed: &[ObservedAttempt<'_>]) -> Option<String> {
    check_neighbours(observed, MAX_NEIGHBOURS).or_else(|| check_steal(observed))
}

fn check_stable_background(observed: &[ObservedAttempt<'_>]) -> Option<String> {
    check_neighbours(observed, MAX_BACKGROUND)
        .or_else(|| check_load_average(observed))
        .or_else(|| check_background_range(observed))
        .or_else(|| check_pressure(observed))
        .or_else(|| check_steal(observed))
}

/// Checks the load average before the first attempt, which includes none of the trials.
fn check_load_average(observed: &[ObservedAttempt<'_>]) -> Option<String> {
    let first = observed.iter().min_by_key(|one| one.before.at)?;
    let load = first.before.load_1m?;
    let most = MAX_LOAD_PER_CPU * first.cpus;
    (load > most)
        .then(|| format!("the load average was {load:.1} on {} CPUs before the first trial (limit {most:.1})", first.cpus))
}

fn check_background_range(observed: &[ObservedAttempt<'_>]) -> Option<String> {
    let long = observed.iter().filter(|one| one.capacity() >= MIN_CPU_SECONDS);
    let shares: Vec<f64> = long.filter_map(|one| Some(one.neighbours()? / one.capacity())).collect();
    let (low, high) = (shares.iter().copied().reduce(f64::min)?, shares.iter().copied().reduce(f64::max)?);
    (high - low > MAX_BACKGROUND_RANGE).then(|| {
        let most = percent(MAX_BACKGROUND_RANGE);
        format!(
            "the CPU time of other processes went from {} to {} between attempts (limit {most} apart)",
            percent(low),
            percent(high)
        )
    })
}

fn check_pressure(observed: &[ObservedAttempt<'_>]) -> Option<String> {
    let worst = observed.iter().filter(|one| one.capacity() >= MIN_CPU_SECONDS).filter_map(|one| {
        let share = one.neighbours()? / one.capacity();
        Some((one, one.pressure()?)).filter(|(_, pressure)| share > NOTABLE && *pressure > MAX_PRESSURE)
    });
    let (one, pressure) = worst.reduce(|worst, next| if next.1 > worst.1 { next } else { worst })?;
    let (waited, most) = (percent(pressure), percent(MAX_PRESSURE));
    Some(format!("tasks waited for a CPU during {waited} of trial `{}` beside other processes (limit {most})", one.trial))
}

fn check_locked_clocks(observed: &[ObservedAttempt<'_>], claiming: &[&Environment]) -> Option<String> {
    let hosts = claiming.iter().flat_map(|environment| environment.hosts_with(HostRole::Target));
    let governors: BTreeSet<&str> =
        hosts.filter_map(|host| host.facts.governor.value.as_ref()).flatten().map(String::as_str).collect();
    if let Some(governor) = governors.iter().find(|governor| !FIXED_GOVERNORS.contains(governor)) {
        return Some(format!("the CPU frequency governor was `{governor}` (limit `{}`)", FIXED_GOVERNORS.join("` or `")));
    }
    let states = observed.iter().flat_map(|one| [one.before, one.after]);
    let highest: Vec<u64> = states.filter_map(|state| state.frequencies_khz.iter().map(|khz| khz.0).max()).collect();
    let (low, high) = (*highest.iter().min()? as f64, *highest.iter().max()? as f64);
    (high > 0.0 && (high - low) / high > MAX_FREQUENCY_RANGE).then(|| {
        let most = percent(MAX_FREQUENCY_RANGE);
        format!("the highest CPU frequency went from {:.0} to {:.0} MHz between readings (limit {most})", low / 1e3, high / 1e3)
    })
}

/// Compares the devices of each target over the blocks.
fn check_fixed_topology(claiming: &[&Environment]) -> Option<String> {
    let mut seen: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
    for environment in claiming {
        for target in &environment.targets {
            let hosts = environment.hosts.iter().filter(|host| target.hosts.contains(&host.name));
            let mut of_block: BTreeMap<&str, Vec<String>> = BTreeMap::new();
            for (what, value) in hosts.flat_map(topology) {
                of_block.entry(what).or_default().push(value);
            }
            for (what, values) in of_block {
                seen.entry((target.id.as_str(), what)).or_default().insert(values.join("; "));
            }
        }
    }
    let ((target, what), values) = seen.into_iter().find(|(_, values)| values.len() > 1)?;
    let values: Vec<_> = values.into_iter().take(2).collect();
    Some(format!("the {what} of the target `{target}` differ between blocks: {} (limit: none may)", values.join(" against ")))
}

/// Describes the known devices of a host.
fn topology(host: &Host) -> Vec<(&'static str, String)> {
    let facts = &host.facts;
    let gpus = facts.gpus.value.as_ref().map(|gpus| gpus.iter().map(|gpu| gpu.uuid.as_str()).collect::<Vec<_>>().join(", "));
    let cards = facts.network_cards.value.as_ref();
    let is_physical = |card: &&NetworkCard| !VIRTUAL_CARDS.contains(&card.driver.as_str());
    let shown = |card: &NetworkCard| format!("{} {}", card.name, card.speed_mbps);
    let cards = cards.map(|cards| cards.iter().filter(is_physical).map(shown).collect::<Vec<_>>().join(", "));
    let known = [
        ("CPU models", facts.cpu_model.value.clone()),
        ("usable CPUs", facts.usable_cpus.value.map(|count| count.to_string())),
        ("NUMA nodes", facts.numa.value.as_ref().map(|nodes| nodes.join(", "))),
        ("GPUs", gpus),
        ("network cards", cards),
    ];
    known.into_iter().filter_map(|(what, value)| Some((what, value?))).collect()
}

#[cfg(test)]
mod tests;
