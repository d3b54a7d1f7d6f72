//! Environment: the hosts, software and targets of one block, each fact observed, declared or unknown.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{body, words};
use crate::{Artifact, Block, CaseId, ControlFact, Count, Digest, Image, Instant, Name, PointId, TargetKind};

words!(
    /// What a host does in the run. The hardware dimension is fed from targets only.
    HostRole, "role of a host",
    /// The system under test runs on it.
    Target = "target",
    /// The load comes from it.
    Client = "client",
    /// A stage runs on it.
    Stage = "stage",
);

words!(
    /// How a fact is known.
    FactSource, "source of a fact",
    /// Read on the host.
    Observed = "observed",
    /// Said by a person.
    Declared = "declared",
    /// Not known.
    Unknown = "unknown",
);

words!(
    /// How a file takes part in what a target executes.
    ExecutableRole, "role of an executable",
    /// The program of a process, or the script of an indicator.
    Program = "program",
    /// A file that a process maps as code, such as a shared library.
    Library = "library",
    /// The interpreter of a script.
    Interpreter = "interpreter",
    /// A file that the command names as an argument or in a variable.
    Argument = "argument",
    /// A file or folder that the pipeline declares.
    Artifact = "artifact",
);

/// A file that a target executes, with the digest of its bytes or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Executable {
    /// How it takes part.
    pub role: ExecutableRole,
    /// Its path on the machine.
    pub path: String,
    /// The digest of its bytes. Of a folder: the digest over the lines `<digest>  <path>` of its files, sorted by path.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub digest: Option<Digest>,
    /// Why it has no digest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unpinned: Option<String>,
}

/// Something that is known of a host, or the reason why it is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fact<T> {
    /// How it is known.
    pub source: FactSource,
    /// What is known; absent where unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<T>,
    /// Where it was read, or why it is unknown.
    pub how: String,
}

impl<T> Fact<T> {
    /// Read on the host, at `how`.
    pub fn observed(value: T, how: impl Into<String>) -> Self {
        Self { source: FactSource::Observed, value: Some(value), how: how.into() }
    }

    /// Said by a person, in `how`.
    pub fn declared(value: T, how: impl Into<String>) -> Self {
        Self { source: FactSource::Declared, value: Some(value), how: how.into() }
    }

    /// Not known, because of `why`.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self { source: FactSource::Unknown, value: None, how: why.into() }
    }
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// The vendor's unique id (`gpu_uuid`).
    pub uuid: String,
    /// The model.
    pub model: String,
    /// Memory in bytes.
    pub memory_bytes: Count,
    /// The driver's version.
    pub driver_version: String,
    /// The PCI bus id.
    pub pci_bus_id: String,
    /// Whether the application clocks are pinned, as the driver says.
    pub clocks: String,
}

/// One network card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkCard {
    /// The interface's name.
    pub name: String,
    /// The driver, empty where it has none.
    pub driver: String,
    /// Megabits per second as the driver says, 0 where it does not.
    pub speed_mbps: u32,
    /// Largest packet in bytes.
    pub mtu: u32,
}

/// What is known of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostFacts {
    /// The kernel's random id of this boot: two equal ids mean one boot of one machine.
    pub boot_id: Fact<String>,
    /// Operating system, name and version.
    pub operating_system: Fact<String>,
    /// Kernel release and version.
    pub kernel: Fact<String>,
    /// Machine architecture, such as `x86_64`.
    pub architecture: Fact<String>,
    /// Hypervisor or container, where one is seen.
    pub virtualization: Fact<String>,
    /// CPU vendor.
    pub cpu_vendor: Fact<String>,
    /// CPU model name.
    pub cpu_model: Fact<String>,
    /// CPU family, model and stepping numbers, such as `6/143/8`.
    pub cpu_signature: Fact<String>,
    /// Microcode revision.
    pub microcode: Fact<String>,
    /// CPU feature flags.
    pub cpu_flags: Fact<Vec<String>>,
    /// Sockets.
    pub sockets: Fact<u32>,
    /// Physical cores.
    pub cores: Fact<u32>,
    /// CPUs that the kernel schedules on.
    pub logical_cpus: Fact<u32>,
    /// CPUs that this process may use.
    pub usable_cpus: Fact<u32>,
    /// Whether cores share threads.
    pub smt: Fact<bool>,
    /// Frequency governors in use.
    pub governor: Fact<Vec<String>>,
    /// Highest frequency in kHz.
    pub max_frequency_khz: Fact<Count>,
    /// Whether boost above the base frequency is allowed.
    pub boost: Fact<bool>,
    /// Data and unified caches, such as `L3 32 MiB x 1`.
    pub caches: Fact<Vec<String>>,
    /// NUMA nodes and their CPUs, such as `0: 0-31`.
    pub numa: Fact<Vec<String>>,
    /// Memory in bytes.
    pub memory_bytes: Fact<Count>,
    /// Swap in bytes.
    pub swap_bytes: Fact<Count>,
    /// Transparent huge pages' mode.
    pub huge_pages: Fact<String>,
    /// CPUs that the control group allows, in thousandths.
    pub cgroup_cpu_millis: Fact<Count>,
    /// Memory that the control group allows, in bytes.
    pub cgroup_memory_bytes: Fact<Count>,
    /// Clock source of the kernel.
    pub clock_source: Fact<String>,
    /// Whether the kernel says that its clock is synchronised.
    pub clock_synchronised: Fact<bool>,
    /// GPUs.
    pub gpus: Fact<Vec<Gpu>>,
    /// Network cards.
    pub network_cards: Fact<Vec<NetworkCard>>,
}

impl HostFacts {
    /// A machine of which nothing is known, because of `why`.
    pub fn unknown(why: &str) -> Self {
        Self {
            boot_id: Fact::unknown(why),
            operating_system: Fact::unknown(why),
            kernel: Fact::unknown(why),
            architecture: Fact::unknown(why),
            virtualization: Fact::unknown(why),
            cpu_vendor: Fact::unknown(why),
            cpu_model: Fact::unknown(why),
            cpu_signature: Fact::unknown(why),
            microcode: Fact::unknown(why),
            cpu_flags: Fact::unknown(why),
            sockets: Fact::unknown(why),
            cores: Fact::unknown(why),
            logical_cpus: Fact::unknown(why),
            usable_cpus: Fact::unknown(why),
            smt: Fact::unknown(why),
            governor: Fact::unknown(why),
            max_frequency_khz: Fact::unknown(why),
            boost: Fact::unknown(why),
            caches: Fact::unknown(why),
            numa: Fact::unknown(why),
            memory_bytes: Fact::unknown(why),
            swap_bytes: Fact::unknown(why),
            huge_pages: Fact::unknown(why),
            cgroup_cpu_millis: Fact::unknown(why),
            cgroup_memory_bytes: Fact::unknown(why),
            clock_source: Fact::unknown(why),
            clock_synchronised: Fact::unknown(why),
            gpus: Fact::unknown(why),
            network_cards: Fact::unknown(why),
        }
    }
}

/// A machine and what it does in the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Its name within the run.
    pub name: String,
    /// What it does.
    pub roles: Vec<HostRole>,
    /// What is known of it.
    pub facts: HostFacts,
}

/// A piece of software and its version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Software {
    /// Its name, such as `cc` or `driver`.
    pub name: String,
    /// Its version.
    pub version: Fact<String>,
}

/// A question about readiness, and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// What was asked.
    pub question: String,
    /// Whether the target was ready.
    pub ready: bool,
    /// What it said.
    pub answer: String,
    /// How long it took until it was ready, in nanoseconds.
    pub waited_ns: Count,
}

/// A container of a target's pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContainerFacts {
    /// Its name in the pod.
    pub name: String,
    /// The image that really runs.
    pub image: Image,
    /// Program and arguments, as far as the pod says them. What looks like a secret is masked.
    pub command: Vec<String>,
    /// The names of its variables.
    pub env: Vec<String>,
    /// What it may use at most, by resource: GPUs are among them.
    pub limits: BTreeMap<String, String>,
}

/// A pod of a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PodFacts {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The node that it runs on.
    pub node: String,
    /// Its containers, without those that only prepare it.
    pub containers: Vec<ContainerFacts>,
}

/// A target as it was found or brought up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProvisionedTarget {
    /// Its name in the plan.
    pub id: Name,
    /// What it is.
    pub kind: TargetKind,
    /// The hosts that it runs on, by name.
    pub hosts: Vec<String>,
    /// Where it is reached, for endpoints and processes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub address: Option<String>,
    /// The version that it gives.
    pub version: Fact<String>,
    /// The server software, such as `vllm`, by the shape of its responses; absent where nobody asked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server: Option<Fact<String>>,
    /// The models that it lists.
    pub models: Vec<String>,
    /// The image that really runs, for containers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub image: Option<Image>,
    /// Its pods by name, where it runs as pods.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub pods: Vec<PodFacts>,
    /// What an InferenceService says of model and engine, such as `storage_uri` and `runtime`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub settings: BTreeMap<String, String>,
    /// What its processes execute, read from `/proc` once it was ready, and the artifacts that the pipeline declares. What an indicator
    /// executes stands in its attempts.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub executables: Vec<Executable>,
    /// The CPUs that the threads of its processes were allowed to use once it was ready, as the kernel says (`Cpus_allowed_list`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub allowed_cpus: Option<String>,
    /// All CPUs of the cores that those belong to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub core_cpus: Option<String>,
    /// Asked until it was ready.
    pub probes: Vec<Probe>,
}

impl ProvisionedTarget {
    /// What of the target has no digest, in words; empty where all that it executes is known. What an indicator executes is not here.
    pub fn unpinned(&self) -> Vec<String> {
        let without = |executable: &Executable| {
            let why = executable.unpinned.as_deref().unwrap_or("it was not read");
            executable
                .digest
                .is_none()
                .then(|| format!("the {} `{}` of the target `{}` ({why})", executable.role, executable.path, self.id))
        };
        let mut found: Vec<String> = self.executables.iter().filter_map(without).collect();
        let id = &self.id;
        let containers = self.pods.iter().flat_map(|pod| &pod.containers);
        match self.kind {
            TargetKind::Host => {}
            _ if !self.pods.is_empty() => {
                let unknown = containers.filter(|container| container.image.digest.is_none());
                found.extend(
                    unknown.map(|container| format!("the image of the container `{}` of the target `{id}`", container.name)),
                );
            }
            TargetKind::Endpoint | TargetKind::InferenceService => {
                let unversioned = self.version.value.is_none();
                found.extend(unversioned.then(|| format!("the program behind the target `{id}` (it gives no version)")));
            }
            _ => {
                let unseen = !self.executables.iter().any(|executable| executable.role == ExecutableRole::Program);
                found.extend(unseen.then(|| format!("the program of the target `{id}` (its process was not observed)")));
            }
        }
        found
    }
}

/// The most shards of a trial.
pub const MAX_SHARDS: u32 = 1024;

words!(
    /// What load is counted in.
    LoadUnit, "unit of load",
    /// Answers under way at a time.
    Streams = "streams",
    /// Requests a second.
    RequestsPerS = "requests_per_s",
    /// Events of streamed answers a second.
    EventsPerS = "events_per_s",
);

/// The most load of one unit that a point of the plan asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskedLoad {
    /// The case of the point.
    pub case_id: CaseId,
    /// The point.
    pub point_id: PointId,
    /// What is counted.
    pub unit: LoadUnit,
    /// How much of it, by all shards together.
    pub amount: f64,
}

/// The most load that one shard made with its own certificate intact, in a short measurement against the built-in simulator. It is no
/// evidence: it decides how many shards there are, and each attempt has a certificate of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ceiling {
    /// Answers under way at a time, each streamed at fifty events a second.
    pub streams: u32,
    /// Requests a second, each answered by one event.
    pub requests_per_s: u32,
    /// Events a second, over all of those streams.
    pub events_per_s: u32,
    /// Whether an earlier measurement was taken over.
    pub cached: bool,
    /// When it was measured.
    pub measured_at: Instant,
    /// The machine, the program and the CPU limit, as one digest: measurements under one digest stand for each other.
    pub fingerprint: Digest,
    /// The program that measured.
    pub program: Digest,
    /// CPUs that its control group allowed, in thousandths; absent where it set no limit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu_millis: Option<Count>,
    /// The machine's name; `local` where there is one only.
    pub node: String,
}

/// How many shards make each trial of a run, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShardCount {
    /// How many: 1 to 1,024.
    pub shards: u32,
    /// The formula with its numbers, such as `shards: 3 = ceil(1200 streams / (0.5 * 900))`, or why none was needed or possible.
    pub formula: String,
    /// What is asked for, the most of each unit.
    pub asked: Vec<AskedLoad>,
    /// The ceiling of one shard; absent where so little is asked for that it does not matter.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ceiling: Option<Fact<Ceiling>>,
}

/// The surroundings of one block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// The plan's body digest.
    pub plan_digest: Digest,
    /// The block.
    pub block: Block,
    /// When the facts were read.
    pub observed_at: Instant,
    /// The machines.
    pub hosts: Vec<Host>,
    /// Software of the target hosts.
    pub software: Vec<Software>,
    /// The targets.
    pub targets: Vec<ProvisionedTarget>,
    /// Environment controls: proved here, declared in the pipeline, or absent.
    pub controls: Vec<ControlFact>,
    /// Placement facts: cluster, region, node pool and the like, by name.
    pub placement: BTreeMap<String, String>,
    /// How many shards make each trial of the run, in the Environment of a run's first block; absent where its pipeline names a number
    /// and where no load is offered.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub shards: Option<ShardCount>,
    /// Raw readings, such as the driver's report.
    pub readings: Vec<Artifact>,
}

body!(Environment, |environment| environment.readings.iter().collect());

impl Environment {
    /// The hosts that do `role`.
    pub fn hosts_with(&self, role: HostRole) -> impl Iterator<Item = &Host> {
        self.hosts.iter().filter(move |host| host.roles.contains(&role))
    }
}
