//! What is known of the machines, each fact with how it is known.

use assay_manifest::{Environment, Fact, FactSource, Gpu, Host, HostFacts, HostRole};

use crate::number::bytes;
use crate::text::clean;

/// Hosts whose facts are shown; a larger run shows its first ones and says so.
const MAX_HOSTS: usize = 16;

/// The facts of one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The host with its block.
    pub(crate) title: String,
    pub(crate) rows: Vec<FactRow>,
}

/// One fact, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FactRow {
    pub(crate) name: String,
    /// What is known; absent where unknown.
    pub(crate) value: Option<String>,
    pub(crate) source: FactSource,
    /// Where it was read, or why it is unknown.
    pub(crate) how: String,
}

impl Facts {
    /// The facts of all target hosts, and the software found on them. A block whose machines say the same as the block before it is
    /// not repeated.
    pub(crate) fn of_targets(environments: &[&Environment]) -> Vec<Self> {
        let mut shown: Vec<Self> = Vec::new();
        for environment in environments {
            let software =
                environment.software.iter().map(|software| fact(&clean(&software.name), &software.version, Clone::clone));
            let software: Vec<_> = software.collect();
            for host in environment.hosts_with(HostRole::Target) {
                let rows: Vec<_> = host_rows(&host.facts).into_iter().chain(software.iter().cloned()).collect();
                if shown.len() < MAX_HOSTS && !shown.iter().any(|known| known.rows == rows) {
                    shown.push(Self { title: clean(&format!("{}, block {}", host.name, environment.block.index)), rows });
                }
            }
        }
        shown
    }
}

/// The target hosts, without repetition: the processor, and the rest in a line (CPUs, memory, GPUs, system).
pub(crate) fn machines(environments: &[&Environment]) -> Vec<(String, String)> {
    let mut machines: Vec<(String, String)> = Vec::new();
    for host in environments.iter().flat_map(|environment| environment.hosts_with(HostRole::Target)) {
        let machine = machine(host);
        if machines.len() < MAX_HOSTS && !machines.contains(&machine) {
            machines.push(machine);
        }
    }
    machines
}

fn machine(host: &Host) -> (String, String) {
    let facts = &host.facts;
    let processor = facts.cpu_model.value.clone().unwrap_or_else(|| "processor unknown".to_owned());
    let cpus = facts.usable_cpus.value.map(|count| format!("{count} CPUs usable"));
    let memory = facts.memory_bytes.value.map(|count| bytes(count.0));
    let gpus = facts.gpus.value.as_deref().and_then(gpu_line);
    let system = facts.operating_system.value.clone();
    let known = [cpus, memory, gpus, system].into_iter().flatten();
    (clean(&processor), clean(&known.collect::<Vec<_>>().join(", ")))
}

fn gpu_line(gpus: &[Gpu]) -> Option<String> {
    let first = gpus.first()?;
    let same = gpus.iter().all(|gpu| gpu.model == first.model);
    Some(if same { format!("{} x {}", gpus.len(), first.model) } else { format!("{} GPUs of several models", gpus.len()) })
}

fn host_rows(facts: &HostFacts) -> Vec<FactRow> {
    let text = |name, value: &Fact<String>| fact(name, value, Clone::clone);
    let list = |name, value: &Fact<Vec<String>>| fact(name, value, |lines| lines.join(", "));
    let flag = |name, value: &Fact<bool>| fact(name, value, |on| if *on { "on" } else { "off" }.to_owned());
    let count = |name, value: &Fact<u32>| fact(name, value, ToString::to_string);
    vec![
        text("operating system", &facts.operating_system),
        text("kernel", &facts.kernel),
        text("architecture", &facts.architecture),
        text("virtualization", &facts.virtualization),
        text("CPU model", &facts.cpu_model),
        text("microcode", &facts.microcode),
        count("sockets", &facts.sockets),
        count("physical cores", &facts.cores),
        count("logical CPUs", &facts.logical_cpus),
        count("usable CPUs", &facts.usable_cpus),
        flag("SMT", &facts.smt),
        list("governor", &facts.governor),
        fact("highest frequency", &facts.max_frequency_khz, |khz| format!("{} MHz", khz.0 / 1_000)),
        flag("boost", &facts.boost),
        list("caches", &facts.caches),
        list("NUMA nodes", &facts.numa),
        fact("memory", &facts.memory_bytes, |count| bytes(count.0)),
        fact("swap", &facts.swap_bytes, |count| bytes(count.0)),
        text("huge pages", &facts.huge_pages),
        fact("cgroup CPUs", &facts.cgroup_cpu_millis, |millis| format!("{} thousandths of a CPU", millis.0)),
        fact("cgroup memory", &facts.cgroup_memory_bytes, |count| bytes(count.0)),
        text("clock source", &facts.clock_source),
        flag("clock synchronised", &facts.clock_synchronised),
        fact("GPUs", &facts.gpus, |gpus| gpus.iter().map(gpu_row).collect::<Vec<_>>().join("; ")),
        text("boot id", &facts.boot_id),
    ]
}

fn gpu_row(gpu: &Gpu) -> String {
    format!("{} {} (driver {}, clocks {})", gpu.model, bytes(gpu.memory_bytes.0), gpu.driver_version, gpu.clocks)
}

fn fact<T>(name: &str, fact: &Fact<T>, show: impl Fn(&T) -> String) -> FactRow {
    let shown = fact.value.as_ref().map(|value| clean(&show(value)));
    // An empty list is knowledge too: that there is none.
    let value = shown.map(|text| if text.is_empty() { "none".to_owned() } else { text });
    FactRow { name: name.to_owned(), value, source: fact.source, how: clean(&fact.how) }
}
