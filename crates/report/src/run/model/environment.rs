//! The known facts about the machines, each with its source.

use std::collections::BTreeMap;

use assay_manifest::{Environment, Fact, FactSource, Gpu, Host, HostFacts, HostRole, TargetKind};

use crate::render::number::bytes;
use crate::render::text::{clean, counted};

/// Maximum number of hosts whose facts are shown; a report of more hosts says that it shows the first ones.
const MAX_HOSTS: usize = 16;

/// Maximum number of further declared facts of one host.
const MAX_DECLARED: usize = 32;

/// The title of the machine behind an endpoint of which nothing is known.
const UNKNOWN_HARDWARE: &str = "the endpoint's hardware is not known";

/// The name of the row for a machine's GPUs.
const GPUS: &str = "GPUs";

/// Declared facts that already have a row.
const NAMES_WITH_ROWS: [&str; 8] =
    ["cpu_model", "cpu_vendor", "architecture", "virtualization", "operating_system", "memory_bytes", "gpu_model", "gpu_count"];

/// The facts of one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The name of the host and its block.
    pub(crate) title: String,
    pub(crate) rows: Vec<FactRow>,
}

/// One fact, formatted for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FactRow {
    pub(crate) name: String,
    /// The value; `None` if unknown.
    pub(crate) value: Option<String>,
    pub(crate) source: FactSource,
    /// The source of the value, or the reason why it is unknown.
    pub(crate) how: String,
}

impl Facts {
    /// Returns the facts of all target hosts, and the software found on them. A block whose machines have the same facts as those of
    /// an earlier block is not repeated.
    pub(crate) fn for_targets(environments: &[&Environment]) -> Vec<Self> {
        let mut shown: Vec<Self> = Vec::new();
        for environment in environments {
            let software =
                environment.software.iter().map(|software| fact_row(&clean(&software.name), &software.version, Clone::clone));
            let software: Vec<_> = software.collect();
            for host in environment.hosts_with(HostRole::Target) {
                let mut rows = host_rows(&host.facts);
                add_declared(&mut rows, &DeclaredHardware::new(environment, host));
                rows.extend(software.iter().cloned());
                if shown.len() < MAX_HOSTS && !shown.iter().any(|known| known.rows == rows) {
                    shown.push(Self { title: clean(&format!("{}, block {}", host.name, environment.block.index)), rows });
                }
            }
        }
        shown
    }
}

/// A one-line description of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machine {
    /// The processor, or the GPUs if the processor is unknown.
    pub(crate) title: String,
    /// The rest: CPUs, memory, GPUs, operating system. Empty if nothing is known.
    pub(crate) details: String,
}

/// Returns the target hosts, without duplicates.
pub(crate) fn machines(environments: &[&Environment]) -> Vec<Machine> {
    distinct_machines(environments, |host| host.roles.contains(&HostRole::Target))
}

/// Returns the hosts that generated the load and are not targets themselves, without duplicates.
pub(crate) fn clients(environments: &[&Environment]) -> Vec<Machine> {
    distinct_machines(environments, |host| host.roles.contains(&HostRole::Client) && !host.roles.contains(&HostRole::Target))
}

fn distinct_machines(environments: &[&Environment], wanted: impl Fn(&Host) -> bool) -> Vec<Machine> {
    let mut machines: Vec<Machine> = Vec::new();
    for environment in environments {
        for host in environment.hosts.iter().filter(|host| wanted(host)) {
            let machine = Machine::new(environment, host);
            if machines.len() < MAX_HOSTS && !machines.contains(&machine) {
                machines.push(machine);
            }
        }
    }
    machines
}

impl Machine {
    /// Returns true if something is known of it.
    pub(crate) fn is_known(&self) -> bool {
        self.title != UNKNOWN_HARDWARE
    }

    /// Returns title and details as one line.
    pub(crate) fn describe(&self) -> String {
        [&*self.title, &*self.details].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ")
    }

    fn new(environment: &Environment, host: &Host) -> Self {
        let (facts, declared) = (&host.facts, DeclaredHardware::new(environment, host));
        let processor = format_fact(&facts.cpu_model, Clone::clone);
        let cpus = format_fact(&facts.usable_cpus, |count| format!("{} usable", counted(*count, "CPU")));
        let memory = format_fact(&facts.memory_bytes, |count| bytes(count.0));
        let seen = facts.gpus.value.as_deref().map(gpu_line);
        let gpus = seen.unwrap_or_else(|| declared.gpus().map(|(gpus, _)| format!("{gpus} (declared)")));
        let system = format_fact(&facts.operating_system, Clone::clone);
        let unknown = || "processor unknown".to_owned();
        let (first, second) = match (processor, gpus) {
            (None, Some(gpus)) => (gpus, Some(unknown())),
            (processor, gpus) => (processor.unwrap_or_else(unknown), gpus),
        };
        let known: Vec<String> = [cpus, memory, second, system].into_iter().flatten().collect();
        if known.is_empty() && facts.cpu_model.value.is_none() && is_endpoint(environment, host) {
            // The hardware behind an endpoint's address cannot be observed.
            return Self { title: UNKNOWN_HARDWARE.to_owned(), details: String::new() };
        }
        Self { title: clean(&first), details: clean(&known.join(", ")) }
    }
}

/// Returns true if a host is the one behind an endpoint.
fn is_endpoint(environment: &Environment, host: &Host) -> bool {
    let is_found = |kind| matches!(kind, TargetKind::Endpoint | TargetKind::InferenceService);
    environment.targets.iter().any(|target| is_found(target.kind) && target.hosts.contains(&host.name))
}

/// Formats a fact, marked if it is only declared; `None` if it is unknown.
fn format_fact<T>(fact: &Fact<T>, show: impl Fn(&T) -> String) -> Option<String> {
    let mark = if fact.source == FactSource::Declared { " (declared)" } else { "" };
    fact.value.as_ref().map(|value| show(value) + mark)
}

/// The hardware that the pipeline declares for the targets on a host: by name, the value and the target that it is declared for.
struct DeclaredHardware<'a>(BTreeMap<&'a str, (&'a str, &'a str)>);

impl<'a> DeclaredHardware<'a> {
    fn new(environment: &'a Environment, host: &Host) -> Self {
        let of_host = environment.targets.iter().filter(|target| target.hosts.contains(&host.name));
        let mut declared = BTreeMap::new();
        for target in of_host {
            let prefix = format!("declared/{}/", target.id);
            for (name, value) in &environment.placement {
                if let Some(name) = name.strip_prefix(&prefix) {
                    declared.entry(name).or_insert((value.as_str(), target.id.as_str()));
                }
            }
        }
        Self(declared)
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).map(|(value, _)| *value)
    }

    /// Returns the GPUs, such as `8 x NVIDIA H200`, and the target that they are declared for.
    fn gpus(&self) -> Option<(String, &'a str)> {
        let (_, target) = self.0.get("gpu_model").or_else(|| self.0.get("gpu_count"))?;
        let line = match (self.text("gpu_count"), self.text("gpu_model")) {
            (Some(count), Some(model)) => format!("{count} x {model}"),
            (None, Some(model)) => model.to_owned(),
            (Some("1"), None) => "1 GPU of an undeclared model".to_owned(),
            (count, None) => format!("{} GPUs of an undeclared model", count.unwrap_or_default()),
        };
        Some((line, target))
    }
}

/// Fills in the declared facts that were not observed: the GPUs, and at the end all facts without a row of their own.
fn add_declared(rows: &mut Vec<FactRow>, declared: &DeclaredHardware<'_>) {
    let row = |name: &str, value: &str, target: &str| FactRow {
        name: clean(name),
        value: Some(clean(value)),
        source: FactSource::Declared,
        how: clean(&format!("target `{target}` of the pipeline")),
    };
    if let (Some((gpus, target)), Some(found)) =
        (declared.gpus(), rows.iter_mut().find(|row| row.name == GPUS && row.value.is_none()))
    {
        *found = row(GPUS, &gpus, target);
    }
    let others = declared.0.iter().filter(|(name, _)| !NAMES_WITH_ROWS.contains(name)).take(MAX_DECLARED);
    rows.extend(others.map(|(name, (value, target))| row(name, value, target)));
}

fn gpu_line(gpus: &[Gpu]) -> Option<String> {
    let first = gpus.first()?;
    let same = gpus.iter().all(|gpu| gpu.model == first.model);
    Some(if same { format!("{} x {}", gpus.len(), first.model) } else { format!("{} GPUs of several models", gpus.len()) })
}

fn host_rows(facts: &HostFacts) -> Vec<FactRow> {
    let text = |name, value: &Fact<String>| fact_row(name, value, Clone::clone);
    let list = |name, value: &Fact<Vec<String>>| fact_row(name, value, |lines| lines.join(", "));
    let flag = |name, value: &Fact<bool>| fact_row(name, value, |on| if *on { "on" } else { "off" }.to_owned());
    let count = |name, value: &Fact<u32>| fact_row(name, value, ToString::to_string);
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
        fact_row("highest frequency", &facts.max_frequency_khz, |khz| format!("{} MHz", khz.0 / 1_000)),
        flag("boost", &facts.boost),
        list("caches", &facts.caches),
        list("NUMA nodes", &facts.numa),
        fact_row("memory", &facts.memory_bytes, |count| bytes(count.0)),
        fact_row("swap", &facts.swap_bytes, |count| bytes(count.0)),
        text("huge pages", &facts.huge_pages),
        fact_row("cgroup CPUs", &facts.cgroup_cpu_millis, |millis| format!("{} thousandths of a CPU", millis.0)),
        fact_row("cgroup memory", &facts.cgroup_memory_bytes, |count| bytes(count.0)),
        text("clock source", &facts.clock_source),
        flag("clock synchronised", &facts.clock_synchronised),
        fact_row(GPUS, &facts.gpus, |gpus| gpus.iter().map(gpu_row).collect::<Vec<_>>().join("; ")),
        text("boot id", &facts.boot_id),
    ]
}

fn gpu_row(gpu: &Gpu) -> String {
    format!("{} {} (driver {}, clocks {})", gpu.model, bytes(gpu.memory_bytes.0), gpu.driver_version, gpu.clocks)
}

fn fact_row<T>(name: &str, fact: &Fact<T>, show: impl Fn(&T) -> String) -> FactRow {
    let shown = fact.value.as_ref().map(|value| clean(&show(value)));
    // An empty list is a known value: there are none.
    let value = shown.map(|text| if text.is_empty() { "none".to_owned() } else { text });
    FactRow { name: name.to_owned(), value, source: fact.source, how: clean(&fact.how) }
}

#[cfg(test)]
mod tests {
    use assay_manifest::{Count, Fact, HostFacts};

    use super::*;
    use crate::run::fixture;

    /// Returns the fixture's environment, whose target is an endpoint of which only `hardware` is known.
    fn declared(hardware: &[(&str, &str)]) -> Environment {
        let mut environment = fixture::model().environment;
        for host in &mut environment.hosts {
            host.facts = HostFacts::unknown("an endpoint");
        }
        let hosts: Vec<_> = environment.hosts.iter().map(|host| &host.name).collect();
        let target = serde_json::json!({
            "id": "vllm", "kind": "endpoint", "hosts": hosts, "version": {"source": "unknown", "how": "x"}, "models": [], "probes": [],
        });
        environment.targets = vec![serde_json::from_value(target).expect("a target")];
        environment.placement =
            hardware.iter().map(|(name, value)| (format!("declared/vllm/{name}"), (*value).to_owned())).collect();
        environment
    }

    #[test]
    fn declared_hardware_is_told_and_marked() {
        let line = |environment: &Environment| {
            let Machine { title: first, details: rest } = machines(&[environment]).remove(0);
            (first, rest)
        };
        let mut both = declared(&[("gpu_model", "NVIDIA H200"), ("gpu_count", "8"), ("fabric", "NVLink")]);
        assert_eq!(line(&both), ("8 x NVIDIA H200 (declared)".to_owned(), "processor unknown".to_owned()));
        for host in &mut both.hosts {
            host.facts.cpu_model = Fact::declared("EPYC".to_owned(), "somebody");
            host.facts.memory_bytes = Fact::observed(Count(1 << 30), "/proc/meminfo");
        }
        assert_eq!(line(&both), ("EPYC (declared)".to_owned(), "1.00 GiB, 8 x NVIDIA H200 (declared)".to_owned()));
        assert_eq!(line(&declared(&[("gpu_model", "L4")])).0, "L4 (declared)");
        assert_eq!(line(&declared(&[("gpu_count", "2")])).0, "2 GPUs of an undeclared model (declared)");
        assert_eq!(line(&declared(&[("gpu_count", "1")])).0, "1 GPU of an undeclared model (declared)");
        assert_eq!(line(&declared(&[])), ("the endpoint's hardware is not known".to_owned(), String::new()));

        let facts = Facts::for_targets(&[&both]).remove(0).rows;
        let row = |name: &str| facts.iter().find(|row| row.name == name).expect("a row");
        assert_eq!((row("GPUs").value.as_deref(), row("GPUs").source), (Some("8 x NVIDIA H200"), FactSource::Declared));
        assert_eq!((row("fabric").value.as_deref(), row("fabric").source), (Some("NVLink"), FactSource::Declared));
        assert!(facts.iter().all(|row| row.name != "gpu_count"), "it has its row");
    }

    #[test]
    fn a_machine_that_is_not_known_is_no_endpoint_s_unless_there_is_one() {
        let mut environment = declared(&[]);
        environment.targets[0].kind = TargetKind::Process;
        assert_eq!(machines(&[&environment]), [Machine { title: "processor unknown".to_owned(), details: String::new() }]);
        environment.hosts[0].facts.usable_cpus = Fact::observed(1, "sched_getaffinity");
        assert_eq!(machines(&[&environment])[0].details, "1 CPU usable");
    }

    #[test]
    fn the_client_of_an_endpoint_is_named() {
        let mut environment = declared(&[]);
        assert_eq!(clients(&[&environment]), [], "it is a target itself");
        let client = Host {
            name: "local".to_owned(),
            roles: vec![HostRole::Client, HostRole::Stage],
            facts: fixture::model().environment.hosts.remove(0).facts,
        };
        environment.hosts.push(client);
        environment.hosts[0].roles = vec![HostRole::Target];
        let mut model = fixture::model();
        model.environment = environment;
        let report = model.report();
        let machine = report.strip.iter().find(|item| item.label == "Machine").expect("it is there");
        insta::assert_snapshot!(format!("{}\n{}", machine.headline, machine.details.join("\n")), @r"
        the endpoint's hardware is not known
        the client ran on AMD EPYC 9354 32-Core Processor, 16 CPUs usable, 252 GiB, Debian GNU/Linux 12
        facts read 2026-11-20T12:00:00Z
        ");
    }

    #[test]
    fn what_was_seen_stands() {
        let mut environment = declared(&[("gpu_model", "NVIDIA H200"), ("gpu_count", "8")]);
        for host in &mut environment.hosts {
            host.facts.gpus = Fact::observed(Vec::new(), "the driver");
        }
        assert!(!machines(&[&environment])[0].title.contains("H200"));
        let facts = Facts::for_targets(&[&environment]).remove(0).rows;
        let gpus = facts.iter().find(|row| row.name == "GPUs").expect("a row");
        assert_eq!((gpus.value.as_deref(), gpus.source), (Some("none"), FactSource::Observed));
    }
}
