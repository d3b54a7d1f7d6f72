//! Processors, from `/proc/cpuinfo` and `/sys/devices/system`.

use std::collections::{BTreeMap, BTreeSet};

use crate::list;
use crate::root::{Root, clip};

/// The kernel's folder of CPUs.
pub(crate) const CPUS: &str = "/sys/devices/system/cpu";
/// The kernel's folder of NUMA nodes.
const NODES: &str = "/sys/devices/system/node";

/// The first value of each key in `/proc/cpuinfo`, and all distinct ARM parts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuInfo {
    values: BTreeMap<String, String>,
    parts: BTreeSet<(String, String)>,
    processors: u32,
}

/// ARM's implementer codes (Arm ARM, MIDR_EL1, and the kernel's `cputype.h`).
const IMPLEMENTERS: [(&str, &str); 9] = [
    ("0x41", "ARM"),
    ("0x42", "Broadcom"),
    ("0x43", "Cavium"),
    ("0x46", "Fujitsu"),
    ("0x48", "HiSilicon"),
    ("0x4e", "NVIDIA"),
    ("0x51", "Qualcomm"),
    ("0x61", "Apple"),
    ("0xc0", "Ampere"),
];

/// Part numbers of server cores (MIDR_EL1, as in the kernel's `cputype.h`).
const PARTS: [((&str, &str), &str); 10] = [
    (("0x41", "0xd08"), "Cortex-A72"),
    (("0x41", "0xd0c"), "Neoverse-N1"),
    (("0x41", "0xd40"), "Neoverse-V1"),
    (("0x41", "0xd49"), "Neoverse-N2"),
    (("0x41", "0xd4f"), "Neoverse-V2"),
    (("0x41", "0xd84"), "Neoverse-V3"),
    (("0x41", "0xd8e"), "Neoverse-N3"),
    (("0x43", "0x0af"), "ThunderX2"),
    (("0x46", "0x001"), "A64FX"),
    (("0xc0", "0xac3"), "Ampere-1"),
];

impl CpuInfo {
    /// Parses the text of `/proc/cpuinfo`.
    pub(crate) fn parse(text: &str) -> Self {
        let mut info = Self::default();
        let mut implementer = String::new();
        for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let (key, value) = (key.trim(), value.trim());
            match key {
                "processor" => info.processors = info.processors.saturating_add(1),
                "CPU implementer" => value.clone_into(&mut implementer),
                "CPU part" => drop(info.parts.insert((implementer.clone(), value.to_owned()))),
                _ => {}
            }
            if !value.is_empty() && !info.values.contains_key(key) {
                info.values.insert(key.to_owned(), value.to_owned());
            }
        }
        info
    }

    fn value(&self, key: &str) -> Result<&str, String> {
        self.values.get(key).map(String::as_str).ok_or_else(|| format!("`/proc/cpuinfo` has no `{key}`"))
    }

    /// Returns the vendor: a name on x86, a code on ARM.
    pub(crate) fn vendor(&self) -> Result<String, String> {
        if let Ok(vendor) = self.value("vendor_id") {
            return Ok(vendor.to_owned());
        }
        let code = self.value("CPU implementer").map_err(|_| "`/proc/cpuinfo` names neither vendor nor implementer")?;
        let name = IMPLEMENTERS.iter().find(|(known, _)| *known == code).map(|(_, name)| *name);
        name.map(str::to_owned).ok_or_else(|| format!("implementer `{}` is not known here", clip(code)))
    }

    /// Returns the model: a name on x86, on ARM the part numbers of its cores.
    pub(crate) fn model(&self) -> Result<String, String> {
        if let Ok(model) = self.value("model name") {
            return Ok(model.to_owned());
        }
        let mut names = Vec::new();
        for (implementer, part) in &self.parts {
            let known = PARTS.iter().find(|(known, _)| *known == (implementer.as_str(), part.as_str()));
            let (_, name) = known.ok_or_else(|| {
                format!(
                    "`/proc/cpuinfo` has no `model name`, and part `{}` of implementer `{}` is not known here",
                    clip(part),
                    clip(implementer)
                )
            })?;
            names.push(*name);
        }
        if names.is_empty() { Err("`/proc/cpuinfo` has no `model name`".to_owned()) } else { Ok(names.join(" + ")) }
    }

    /// Returns family, model and stepping, or on ARM implementer, part, variant and revision.
    pub(crate) fn signature(&self) -> Result<String, String> {
        let joined =
            |keys: &[&str]| Ok::<_, String>(keys.iter().map(|key| self.value(key)).collect::<Result<Vec<_>, _>>()?.join("/"));
        joined(&["cpu family", "model", "stepping"])
            .or_else(|_| joined(&["CPU implementer", "CPU part", "CPU variant", "CPU revision"]))
            .map_err(|_: String| "`/proc/cpuinfo` has neither family, model and stepping nor implementer and part".to_owned())
    }

    /// Returns the revision of the microcode.
    pub(crate) fn microcode(&self) -> Result<String, String> {
        self.value("microcode").map(str::to_owned)
    }

    /// Returns the feature flags, in byte order.
    pub(crate) fn flags(&self) -> Result<Vec<String>, String> {
        let flags = self.value("flags").or_else(|_| self.value("Features"));
        let flags = flags.map_err(|_| "`/proc/cpuinfo` has neither `flags` nor `Features`")?;
        let flags: BTreeSet<_> = flags.split_whitespace().map(str::to_owned).collect();
        Ok(flags.into_iter().collect())
    }

    /// Returns true if the CPU itself reports a hypervisor.
    pub(crate) fn under_hypervisor(&self) -> bool {
        self.value("flags").is_ok_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
    }

    /// Returns the number of processors that are listed.
    pub(crate) fn processors(&self) -> Option<u32> {
        (self.processors > 0).then_some(self.processors)
    }
}

/// Sockets, cores and threads, from the kernel's topology.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Topology {
    pub(crate) sockets: u32,
    pub(crate) cores: u32,
    pub(crate) smt: bool,
}

/// Reads the topology of the CPUs that are online.
pub(crate) fn topology(root: &Root) -> Result<Topology, String> {
    let mut packages = BTreeSet::new();
    let mut cores = BTreeSet::new();
    for cpu in root.numbered(CPUS, "cpu") {
        // A CPU that is offline has no topology.
        let Ok(siblings) = root.word(&format!("{CPUS}/{cpu}/topology/thread_siblings_list")) else { continue };
        packages.insert(root.word(&format!("{CPUS}/{cpu}/topology/physical_package_id")).unwrap_or_default());
        cores.insert(siblings);
    }
    if cores.is_empty() {
        return Err(format!("`{CPUS}` shows no topology"));
    }
    let smt = cores.iter().any(|siblings| list::count_cpus(siblings).is_some_and(|threads| threads > 1));
    Ok(Topology { sockets: packages.len() as u32, cores: cores.len() as u32, smt })
}

/// Returns the frequency governors in use.
pub(crate) fn governors(root: &Root) -> Result<Vec<String>, String> {
    let read = |cpu: &String| root.word(&format!("{CPUS}/{cpu}/cpufreq/scaling_governor")).ok();
    let governors: BTreeSet<_> = root.numbered(CPUS, "cpu").iter().filter_map(read).collect();
    non_empty(governors.into_iter().collect(), || format!("no `{CPUS}/cpu*/cpufreq/scaling_governor` can be read"))
}

/// Returns the highest frequency that any CPU may reach, in kHz.
pub(crate) fn max_frequency_khz(root: &Root) -> Result<u64, String> {
    let read = |cpu: &String| root.number(&format!("{CPUS}/{cpu}/cpufreq/cpuinfo_max_freq")).ok();
    let highest = root.numbered(CPUS, "cpu").iter().filter_map(read).max();
    highest.ok_or_else(|| format!("no `{CPUS}/cpu*/cpufreq/cpuinfo_max_freq` can be read"))
}

/// Returns true if boost is allowed, and the file that says so.
pub(crate) fn boost(root: &Root) -> Result<(bool, String), String> {
    let generic = format!("{CPUS}/cpufreq/boost");
    let intel = format!("{CPUS}/intel_pstate/no_turbo");
    match (root.word(&generic).as_deref(), root.word(&intel).as_deref()) {
        (Ok("1"), _) => Ok((true, generic)),
        (Ok("0"), _) => Ok((false, generic)),
        (_, Ok("0")) => Ok((true, intel)),
        (_, Ok("1")) => Ok((false, intel)),
        _ => Err(format!("neither `{generic}` nor `{intel}` says")),
    }
}

/// Returns the data and unified caches with their number, such as `L2 2 MiB x 16`.
pub(crate) fn caches(root: &Root) -> Result<Vec<String>, String> {
    // One cache is listed under each CPU that shares it, so this is a set.
    let mut caches = BTreeSet::new();
    for cpu in root.numbered(CPUS, "cpu") {
        let folder = format!("{CPUS}/{cpu}/cache");
        for index in root.numbered(&folder, "index") {
            let read = |name: &str| root.word(&format!("{folder}/{index}/{name}"));
            let (Ok(level), Ok(kind), Ok(size), Ok(shared)) =
                (read("level"), read("type"), read("size"), read("shared_cpu_list"))
            else {
                continue;
            };
            if kind != "Instruction" {
                let suffix = if kind == "Data" { "d" } else { "" };
                caches.insert((format!("L{level}{suffix} {}", size_words(&size)), shared));
            }
        }
    }
    let mut counts = BTreeMap::<String, u32>::new();
    for (cache, _) in caches {
        *counts.entry(cache).or_default() += 1;
    }
    non_empty(counts.iter().map(|(cache, count)| format!("{cache} x {count}")).collect(), || format!("`{CPUS}` shows no caches"))
}

/// Formats a cache size: the kernel writes `2048K`.
fn size_words(size: &str) -> String {
    match size.strip_suffix('K').and_then(|kib| kib.parse::<u64>().ok()) {
        Some(kib) if kib >= 1024 && kib % 1024 == 0 => format!("{} MiB", kib / 1024),
        Some(kib) => format!("{kib} KiB"),
        None => clip(size),
    }
}

/// Returns the NUMA nodes and their CPUs, such as `0: 0-31`.
pub(crate) fn numa(root: &Root) -> Result<Vec<String>, String> {
    let node = |name: String| {
        let cpus = root.text(&format!("{NODES}/{name}/cpulist")).ok()?;
        Some(format!("{}: {}", name.trim_start_matches("node"), cpus.trim()).trim_end().to_owned())
    };
    non_empty(root.numbered(NODES, "node").into_iter().filter_map(node).collect(), || format!("`{NODES}` shows no nodes"))
}

fn non_empty(items: Vec<String>, why: impl FnOnce() -> String) -> Result<Vec<String>, String> {
    if items.is_empty() { Err(why()) } else { Ok(items) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;
    use proptest::prelude::*;

    const XEON: &str = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n\
        model name\t: Intel(R) Xeon(R) Platinum 8480+\nstepping\t: 8\nmicrocode\t: 0x2b000590\nphysical id\t: 0\nsiblings\t: 112\n\
        flags\t\t: fpu sse2 avx512f\npower management:\n\nprocessor\t: 1\nvendor_id\t: GenuineIntel\nmodel name\t: other\n";
    const GRACE: &str = "processor\t: 0\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd sve sve2\nCPU implementer\t: 0x41\n\
        CPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: 0xd4f\nCPU revision\t: 0\n\nprocessor\t: 1\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n";

    fn shown<T: std::fmt::Debug>(result: Result<T, String>) -> String {
        match result {
            Ok(value) => format!("{value:?}"),
            Err(reason) => format!("unknown: {reason}"),
        }
    }

    #[test]
    fn x86_names_itself() {
        let info = CpuInfo::parse(XEON);
        insta::assert_snapshot!(shown(info.model()), @r#""Intel(R) Xeon(R) Platinum 8480+""#);
        insta::assert_snapshot!(shown(info.vendor()), @r#""GenuineIntel""#);
        insta::assert_snapshot!(shown(info.signature()), @r#""6/143/8""#);
        insta::assert_snapshot!(shown(info.microcode()), @r#""0x2b000590""#);
        insta::assert_snapshot!(shown(info.flags()), @r#"["avx512f", "fpu", "sse2"]"#);
        assert_eq!((info.processors(), info.under_hypervisor()), (Some(2), false));
    }

    #[test]
    fn arm_is_known_by_its_parts() {
        let info = CpuInfo::parse(GRACE);
        insta::assert_snapshot!(shown(info.model()), @r#""Neoverse-V2""#);
        insta::assert_snapshot!(shown(info.vendor()), @r#""ARM""#);
        insta::assert_snapshot!(shown(info.signature()), @r#""0x41/0xd4f/0x0/0""#);
        insta::assert_snapshot!(shown(info.microcode()), @"unknown: `/proc/cpuinfo` has no `microcode`");
        insta::assert_snapshot!(shown(info.flags()), @r#"["asimd", "fp", "sve", "sve2"]"#);
        let two = CpuInfo::parse(&format!("{GRACE}CPU part : 0xd40\n"));
        insta::assert_snapshot!(shown(two.model()), @r#""Neoverse-V1 + Neoverse-V2""#);
        let strange = CpuInfo::parse("CPU implementer : 0x99\nCPU part : 0x1\n");
        insta::assert_snapshot!(shown(strange.model()), @"unknown: `/proc/cpuinfo` has no `model name`, and part `0x1` of implementer `0x99` is not known here");
        insta::assert_snapshot!(shown(strange.vendor()), @"unknown: implementer `0x99` is not known here");
    }

    #[test]
    fn an_empty_cpuinfo_is_all_unknown() {
        let info = CpuInfo::parse("");
        insta::assert_snapshot!(shown(info.model()), @"unknown: `/proc/cpuinfo` has no `model name`");
        insta::assert_snapshot!(shown(info.vendor()), @"unknown: `/proc/cpuinfo` names neither vendor nor implementer");
        insta::assert_snapshot!(shown(info.signature()), @"unknown: `/proc/cpuinfo` has neither family, model and stepping nor implementer and part");
        assert_eq!(info.processors(), None);
    }

    /// Returns a machine of two sockets with two cores of two threads each, one of them offline.
    fn two_sockets() -> Tree {
        let tree = Tree::new(&[]);
        for cpu in 0..8 {
            let (core, package) = (cpu % 4, u32::from(cpu % 4 >= 2));
            let folder = format!("sys/devices/system/cpu/cpu{cpu}");
            tree.add(&format!("{folder}/cpufreq/scaling_governor"), if cpu == 0 { "powersave\n" } else { "performance\n" });
            tree.add(&format!("{folder}/cpufreq/cpuinfo_max_freq"), &format!("{}\n", 3_000_000 + cpu));
            for (index, level, kind, size, shared) in [
                (0, 1, "Data", "48K", format!("{core},{}", core + 4)),
                (1, 1, "Instruction", "32K", format!("{core},{}", core + 4)),
                (2, 2, "Unified", "2048K", format!("{core},{}", core + 4)),
                (3, 3, "Unified", "107520K", if package == 0 { "0-1,4-5".to_owned() } else { "2-3,6-7".to_owned() }),
            ] {
                let cache = format!("{folder}/cache/index{index}");
                tree.add(&format!("{cache}/level"), &format!("{level}\n"));
                tree.add(&format!("{cache}/type"), kind);
                tree.add(&format!("{cache}/size"), size);
                tree.add(&format!("{cache}/shared_cpu_list"), &shared);
            }
            if cpu != 7 {
                let siblings = if core == 3 { "3".to_owned() } else { format!("{core},{}", core + 4) };
                tree.add(&format!("{folder}/topology/thread_siblings_list"), &siblings);
                tree.add(&format!("{folder}/topology/physical_package_id"), &package.to_string());
            }
        }
        tree
    }

    #[test]
    fn sockets_cores_and_threads_are_counted() {
        let tree = two_sockets();
        assert_eq!(topology(&tree.root()), Ok(Topology { sockets: 2, cores: 4, smt: true }));
        insta::assert_snapshot!(shown(caches(&tree.root())), @r#"["L1d 48 KiB x 4", "L2 2 MiB x 4", "L3 105 MiB x 2"]"#);
        insta::assert_snapshot!(shown(governors(&tree.root())), @r#"["performance", "powersave"]"#);
        assert_eq!(max_frequency_khz(&tree.root()), Ok(3_000_007));
    }

    #[test]
    fn boost_is_read_where_the_driver_says_it() {
        let check = |path: &str, text: &str| boost(&Tree::new(&[(path, text)]).root()).ok().map(|(allowed, _)| allowed);
        assert_eq!(check("sys/devices/system/cpu/cpufreq/boost", "1\n"), Some(true));
        assert_eq!(check("sys/devices/system/cpu/cpufreq/boost", "0\n"), Some(false));
        assert_eq!(check("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"), Some(false));
        assert_eq!(check("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"), Some(true));
        assert_eq!(check("sys/devices/system/cpu/intel_pstate/no_turbo", "odd\n"), None);
    }

    #[test]
    fn numa_nodes_keep_their_order_and_may_have_no_cpus() {
        let node = |name: &str| format!("sys/devices/system/node/node{name}/cpulist");
        let tree = Tree::new(&[(&node("0"), "0-71\n"), (&node("10"), "\n"), (&node("2"), "72-143\n")]);
        insta::assert_snapshot!(shown(numa(&tree.root())), @r#"["0: 0-71", "2: 72-143", "10:"]"#);
    }

    #[test]
    fn a_machine_that_shows_nothing_is_unknown() {
        let root = Tree::new(&[]);
        let root = root.root();
        insta::assert_snapshot!(shown(topology(&root)), @"unknown: `/sys/devices/system/cpu` shows no topology");
        insta::assert_snapshot!(shown(governors(&root)), @"unknown: no `/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor` can be read");
        assert!(caches(&root).is_err() && numa(&root).is_err() && boost(&root).is_err() && max_frequency_khz(&root).is_err());
    }

    proptest! {
        #[test]
        fn no_cpuinfo_makes_it_panic(text in "[a-zC :\t\n0-9]{0,200}") {
            let info = CpuInfo::parse(&text);
            let _ = (info.vendor(), info.model(), info.signature(), info.flags());
        }
    }
}
