//! All facts of a machine, each with its source.

use assay_manifest::{Count, Fact, HostFacts};

use crate::cpu::{self, CPUS, CpuInfo};
use crate::{Root, cgroup, gpu, list, network, system};

/// Reads the facts of the machine. It reads files and, on this machine itself, runs `nvidia-smi` and `timedatectl`; takes some
/// milliseconds, and up to the programs' time limit of ten seconds each if one of them hangs.
pub fn facts(root: &Root) -> HostFacts {
    let cpuinfo = root.text("/proc/cpuinfo");
    let info = CpuInfo::parse(cpuinfo.as_deref().unwrap_or_default());
    let of_cpu = |value: Result<String, String>| fact(check_readable(&cpuinfo).and(value), "/proc/cpuinfo");
    let topology = cpu::topology(root);
    let of_topology = |pick: fn(&cpu::Topology) -> u32| fact(topology.as_ref().map(pick).map_err(Clone::clone), CPUS);
    let meminfo = root.text("/proc/meminfo");
    let memory = |field: &str| {
        let bytes = meminfo.clone().and_then(|text| system::memory_field(&text, field));
        fact(bytes.map(Count), "/proc/meminfo")
    };
    HostFacts {
        boot_id: fact(root.word("/proc/sys/kernel/random/boot_id"), "/proc/sys/kernel/random/boot_id"),
        operating_system: fact(system::operating_system(root), "/etc/os-release"),
        kernel: fact(system::kernel(root), "/proc/sys/kernel/osrelease and version"),
        architecture: architecture(root),
        virtualization: fact(system::virtualization(root, &info), "the processor's flags, firmware and container marks"),
        cpu_vendor: of_cpu(info.vendor()),
        cpu_model: of_cpu(info.model()),
        cpu_signature: of_cpu(info.signature()),
        microcode: of_cpu(info.microcode()),
        cpu_flags: fact(check_readable(&cpuinfo).and(info.flags()), "/proc/cpuinfo"),
        sockets: of_topology(|topology| topology.sockets),
        cores: of_topology(|topology| topology.cores),
        logical_cpus: logical_cpus(root, &info),
        usable_cpus: usable_cpus(root),
        smt: fact(topology.as_ref().map(|topology| topology.smt).map_err(Clone::clone), CPUS),
        governor: fact(cpu::governors(root), "cpufreq/scaling_governor of every CPU"),
        max_frequency_khz: fact(cpu::max_frequency_khz(root).map(Count), "the highest cpufreq/cpuinfo_max_freq"),
        boost: fact_with_source(cpu::boost(root)),
        caches: fact(cpu::caches(root), "cache/index* of every CPU"),
        numa: fact(cpu::numa(root), "/sys/devices/system/node"),
        memory_bytes: memory("MemTotal"),
        swap_bytes: memory("SwapTotal"),
        huge_pages: fact(system::huge_pages(root), "/sys/kernel/mm/transparent_hugepage/enabled"),
        cgroup_cpu_millis: fact_with_source(cgroup::cpu_millis(root).map(|(millis, place)| (Count(millis), place))),
        cgroup_memory_bytes: fact_with_source(cgroup::memory_bytes(root).map(|(bytes, place)| (Count(bytes), place))),
        clock_source: clock_source(root),
        clock_synchronised: fact(system::clock_synchronised(root), "timedatectl: NTPSynchronized"),
        gpus: fact(gpu::gpu_report(root).and_then(|report| gpu::parse(&report)), "nvidia-smi --query-gpu"),
        network_cards: fact(network::cards(root), "/sys/class/net"),
    }
}

fn fact<T>(value: Result<T, String>, how: &str) -> Fact<T> {
    value.map_or_else(Fact::unknown, |value| Fact::observed(value, how))
}

fn fact_with_source<T>(value: Result<(T, String), String>) -> Fact<T> {
    value.map_or_else(Fact::unknown, |(value, place)| Fact::observed(value, place))
}

/// Returns the error of an unreadable file, which takes precedence over a field that is missing from its (empty) text.
fn check_readable(text: &Result<String, String>) -> Result<(), String> {
    text.as_ref().map(|_| ()).map_err(Clone::clone)
}

fn architecture(root: &Root) -> Fact<String> {
    let path = "/proc/sys/kernel/arch";
    match root.word(path) {
        Ok(name) => Fact::observed(name, path),
        // Kernels before 6.1 have no such file.
        Err(_) if root.is_live() => Fact::observed(rustix::system::uname().machine().to_string_lossy().into_owned(), "uname"),
        Err(why) => Fact::unknown(why),
    }
}

fn logical_cpus(root: &Root, info: &CpuInfo) -> Fact<u32> {
    let path = format!("{CPUS}/online");
    match (root.word(&path).ok().and_then(|online| list::count_cpus(&online)), info.processors()) {
        (Some(count), _) => Fact::observed(count, path),
        (None, Some(count)) => Fact::observed(count, "/proc/cpuinfo"),
        (None, None) => Fact::unknown(format!("neither `{path}` nor `/proc/cpuinfo` lists CPUs")),
    }
}

fn usable_cpus(root: &Root) -> Fact<u32> {
    let path = "/proc/self/status";
    let field = |text: String| text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:").and_then(list::count_cpus));
    let count = root.text(path).and_then(|text| field(text).ok_or_else(|| format!("`{path}` has no `Cpus_allowed_list`")));
    fact(count, "Cpus_allowed_list of /proc/self/status")
}

fn clock_source(root: &Root) -> Fact<String> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    fact(root.word(path), path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;
    use assay_manifest::FactSource;

    /// Returns the facts as name, source, value and how, one per line.
    fn table(facts: &HostFacts) -> String {
        let facts = serde_json::to_value(facts).expect("JSON");
        let line = |(name, fact): (&String, &serde_json::Value)| {
            let value = fact.get("value").map_or_else(|| "-".to_owned(), ToString::to_string);
            format!("{name}: {} {value} ({})", fact["source"].as_str().expect("text"), fact["how"].as_str().expect("text"))
        };
        facts.as_object().expect("an object").iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_machine_that_shows_nothing_is_all_unknown_with_reasons() {
        let shown = table(&facts(&Tree::new(&[]).root()));
        assert!(shown.lines().all(|line| line.contains(": unknown - (") && !line.ends_with("()")), "{shown}");
        assert_eq!(shown.lines().count(), 29);
    }

    #[test]
    fn an_arm_guest_in_a_pod_is_described() {
        let cpu = |n: u32, file: &str| format!("sys/devices/system/cpu/cpu{n}/{file}");
        let tree = Tree::new(&[
            (
                "proc/cpuinfo",
                "processor : 0\nFeatures : fp sve2\nCPU implementer : 0x41\nCPU variant : 0x0\nCPU part : 0xd4f\nCPU revision : 1\n",
            ),
            ("proc/meminfo", "MemTotal: 502000000 kB\nSwapTotal: 0 kB\n"),
            ("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-1,4\n"),
            ("proc/self/cgroup", "0::/\n"),
            ("proc/self/mountinfo", "1 0 0:1 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n"),
            ("sys/fs/cgroup/cpu.max", "300000 100000\n"),
            ("sys/fs/cgroup/memory.max", "max\n"),
            ("sys/devices/system/cpu/online", "0-71\n"),
            (&cpu(0, "topology/thread_siblings_list"), "0\n"),
            (&cpu(0, "topology/physical_package_id"), "0\n"),
            ("var/run/secrets/kubernetes.io/serviceaccount/token", "secret"),
            ("proc/sys/kernel/random/boot_id", "6d2a0c1e-1111-4222-8333-444455556666\n"),
        ]);
        insta::assert_snapshot!(table(&facts(&tree.root())), @r#"
        architecture: unknown - (cannot read `/proc/sys/kernel/arch`: No such file or directory (os error 2))
        boost: unknown - (neither `/sys/devices/system/cpu/cpufreq/boost` nor `/sys/devices/system/cpu/intel_pstate/no_turbo` says)
        boot_id: observed "6d2a0c1e-1111-4222-8333-444455556666" (/proc/sys/kernel/random/boot_id)
        caches: unknown - (`/sys/devices/system/cpu` shows no caches)
        cgroup_cpu_millis: observed "3000" (/sys/fs/cgroup)
        cgroup_memory_bytes: unknown - (no memory limit is set in `/sys/fs/cgroup` or above it)
        clock_source: unknown - (cannot read `/sys/devices/system/clocksource/clocksource0/current_clocksource`: No such file or directory (os error 2))
        clock_synchronised: unknown - (`timedatectl` is not asked about another machine's files)
        cores: observed 1 (/sys/devices/system/cpu)
        cpu_flags: observed ["fp","sve2"] (/proc/cpuinfo)
        cpu_model: observed "Neoverse-V2" (/proc/cpuinfo)
        cpu_signature: observed "0x41/0xd4f/0x0/1" (/proc/cpuinfo)
        cpu_vendor: observed "ARM" (/proc/cpuinfo)
        governor: unknown - (no `/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor` can be read)
        gpus: unknown - (`nvidia-smi` is not asked about another machine's files)
        huge_pages: unknown - (cannot read `/sys/kernel/mm/transparent_hugepage/enabled`: No such file or directory (os error 2))
        kernel: unknown - (cannot read `/proc/sys/kernel/osrelease`: No such file or directory (os error 2))
        logical_cpus: observed 72 (/sys/devices/system/cpu/online)
        max_frequency_khz: unknown - (no `/sys/devices/system/cpu/cpu*/cpufreq/cpuinfo_max_freq` can be read)
        memory_bytes: observed "514048000000" (/proc/meminfo)
        microcode: unknown - (`/proc/cpuinfo` has no `microcode`)
        network_cards: unknown - (cannot read `/sys/class/net`)
        numa: unknown - (`/sys/devices/system/node` shows no nodes)
        operating_system: unknown - (cannot read `/etc/os-release`: No such file or directory (os error 2))
        smt: observed false (/sys/devices/system/cpu)
        sockets: observed 1 (/sys/devices/system/cpu)
        swap_bytes: observed "0" (/proc/meminfo)
        usable_cpus: observed 3 (Cpus_allowed_list of /proc/self/status)
        virtualization: observed "container: kubernetes" (the processor's flags, firmware and container marks)
        "#);
    }

    #[test]
    fn this_machine_has_a_boot_an_architecture_and_memory() {
        let facts = facts(&Root::host());
        assert_eq!(facts.boot_id.source, FactSource::Observed);
        assert_eq!(facts.architecture.value.as_deref(), Some(std::env::consts::ARCH));
        assert!(facts.memory_bytes.value.is_some_and(|bytes| bytes.0 > 0));
        let (usable, logical) = (facts.usable_cpus.value.expect("seen"), facts.logical_cpus.value.expect("seen"));
        assert!((1..=logical).contains(&usable));
    }
}
