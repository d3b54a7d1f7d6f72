//! Environment: the hosts, software and targets of one block, each fact observed, declared or unknown.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{body, words};
use crate::{
    Artifact, Block, CalibrationReference, CaseId, ControlFact, Count, Digest, Image, Instant, Name, PointId, TargetKind,
};

words!(
    /// The role of a host in the run. Only hosts of targets feed the hardware dimension.
    HostRole, "role of a host",
    /// The system under test runs on it.
    Target = "target",
    /// The load generator runs on it.
    Client = "client",
    /// A stage runs on it.
    Stage = "stage",
);

words!(
    /// The part of serving that a server does, if prompts and responses are computed by different ones.
    ServingRole, "role in serving",
    /// It computes prompts, up to the first token.
    Prefill = "prefill",
    /// It computes the tokens after the first one.
    Decode = "decode",
);

words!(
    /// The source of a fact.
    FactSource, "source of a fact",
    /// Read on the host.
    Observed = "observed",
    /// Stated by a person.
    Declared = "declared",
    /// Not known.
    Unknown = "unknown",
);

words!(
    /// The role of a file in the execution of a target.
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

/// A file that a target executes, with the digest of its bytes or the reason why it has none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Executable {
    /// The role of the file.
    pub role: ExecutableRole,
    /// Its path on the machine.
    pub path: String,
    /// The digest of its bytes. For a folder: the digest over the lines `<digest>  <path>` of its files, sorted by path.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub digest: Option<Digest>,
    /// The reason why it has no digest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unpinned: Option<String>,
}

/// A fact about a host, or the reason why it is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fact<T> {
    /// The source of the fact.
    pub source: FactSource,
    /// The value; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<T>,
    /// The place where it was read, or the reason why it is unknown.
    pub how: String,
}

impl<T> Fact<T> {
    /// Creates a fact that was read on the host, at `how`.
    pub fn observed(value: T, how: impl Into<String>) -> Self {
        Self { source: FactSource::Observed, value: Some(value), how: how.into() }
    }

    /// Creates a fact that a person stated, in `how`.
    pub fn declared(value: T, how: impl Into<String>) -> Self {
        Self { source: FactSource::Declared, value: Some(value), how: how.into() }
    }

    /// Creates an unknown fact, because of `why`.
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
    /// The state of the application clocks, pinned or not, as the driver reports it.
    pub clocks: String,
}

/// One network card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkCard {
    /// The interface's name.
    pub name: String,
    /// The driver; empty if it has none.
    pub driver: String,
    /// The speed that the driver reports, in megabits per second; 0 if it reports none.
    pub speed_mbps: u32,
    /// Largest packet in bytes.
    pub mtu: u32,
}

/// The facts about a machine.
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
    /// Hypervisor or container, if one is detected.
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
    /// True if a core runs several threads.
    pub smt: Fact<bool>,
    /// Frequency governors in use.
    pub governor: Fact<Vec<String>>,
    /// Highest frequency in kHz.
    pub max_frequency_khz: Fact<Count>,
    /// True if boost above the base frequency is allowed.
    pub boost: Fact<bool>,
    /// Data and unified caches, such as `L3 32 MiB x 1`.
    pub caches: Fact<Vec<String>>,
    /// NUMA nodes and their CPUs, such as `0: 0-31`.
    pub numa: Fact<Vec<String>>,
    /// Memory in bytes.
    pub memory_bytes: Fact<Count>,
    /// Swap in bytes.
    pub swap_bytes: Fact<Count>,
    /// The mode of transparent huge pages.
    pub huge_pages: Fact<String>,
    /// CPUs that the control group allows, in thousandths.
    pub cgroup_cpu_millis: Fact<Count>,
    /// Memory that the control group allows, in bytes.
    pub cgroup_memory_bytes: Fact<Count>,
    /// Clock source of the kernel.
    pub clock_source: Fact<String>,
    /// True if the kernel reports that its clock is synchronised.
    pub clock_synchronised: Fact<bool>,
    /// GPUs.
    pub gpus: Fact<Vec<Gpu>>,
    /// Network cards.
    pub network_cards: Fact<Vec<NetworkCard>>,
}

impl HostFacts {
    /// Creates the facts of an unknown machine, because of `why`.
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

/// A machine and its roles in the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Its name within the run.
    pub name: String,
    /// Its roles.
    pub roles: Vec<HostRole>,
    /// The facts about it.
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

/// A readiness probe or a test request, and its response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// The request that was made.
    pub request: String,
    /// True if the target was ready, or responded to the test request as the run needs it.
    pub ready: bool,
    /// The response of the target, or the reason why there is none.
    pub response: String,
    /// Time until that response, in nanoseconds.
    pub waited_ns: Count,
}

/// A container of a target's pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContainerFacts {
    /// Its name in the pod.
    pub name: String,
    /// The image that is actually running.
    pub image: Image,
    /// Program and arguments, as far as the pod states them. Values that look like secrets are masked.
    pub command: Vec<String>,
    /// The names of its environment variables.
    pub env: Vec<String>,
    /// Its limits by resource, GPUs included.
    pub limits: BTreeMap<String, String>,
    /// The number of its restarts in the pod.
    pub restarts: u32,
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
    /// True if it was ready to serve, as its condition `Ready` says.
    pub ready: bool,
    /// Its role in serving, as its labels say; absent if they name none, or both.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub role: Option<ServingRole>,
    /// Its containers, without init containers.
    pub containers: Vec<ContainerFacts>,
}

/// The namespace and the labels by which the API server finds the pods of a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PodSelector {
    /// Their namespace.
    pub namespace: String,
    /// The label selector, such as `serving.kserve.io/inferenceservice=llama`.
    pub labels: String,
}

/// A target as provision found it or started it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProvisionedTarget {
    /// Its name in the plan.
    pub id: Name,
    /// Its kind.
    pub kind: TargetKind,
    /// The hosts that it runs on, by name.
    pub hosts: Vec<String>,
    /// Its address, for endpoints and processes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub address: Option<String>,
    /// The version that it reports.
    pub version: Fact<String>,
    /// The server software, such as `vllm`, inferred from the shape of its responses; absent if it was not determined.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server: Option<Fact<String>>,
    /// The models that it lists.
    pub models: Vec<String>,
    /// The start of its process in seconds since the Unix epoch, as its Prometheus metric `process_start_time_seconds` says; absent
    /// if it has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub process_start_s: Option<Count>,
    /// Tokens of a block of its prefix cache, as its metric `vllm:cache_config_info` says; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cache_block_tokens: Option<u32>,
    /// The servers behind its address: those that the plan lists, in its order; else, if it runs as several pods, those of its ready pods
    /// by the names of the pods. They are a part of its identity: execute compares them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub replicas: Vec<ProvisionedReplica>,
    /// The image that is actually running, for containers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub image: Option<Image>,
    /// Its running pods by name once it was ready, if it runs as pods. They are a part of its identity: execute compares them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub pods: Vec<PodFacts>,
    /// The selector of its pods; absent if it is no object of a cluster.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pod_selector: Option<PodSelector>,
    /// The fields of an InferenceService about model and engine, such as `storage_uri` and `runtime`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub settings: BTreeMap<String, String>,
    /// The files that its processes execute, read from `/proc` once it was ready, and the artifacts that the pipeline declares.
    /// The executables of an indicator are in its attempts.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub executables: Vec<Executable>,
    /// The CPUs that the threads of its processes were allowed to use once it was ready, as the kernel reports them
    /// (`Cpus_allowed_list`).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub allowed_cpus: Option<String>,
    /// All CPUs of the cores that the allowed CPUs belong to.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub core_cpus: Option<String>,
    /// The readiness probe that succeeded, then the test requests: one of each kind that the run sends to an endpoint.
    pub probes: Vec<Probe>,
}

/// A server behind the address of an endpoint, as it was when its target was provisioned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProvisionedReplica {
    /// Its own address.
    pub address: String,
    /// The pod that it runs in, among those of the target, if provision found it in the cluster; absent if the plan lists it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pod: Option<String>,
    /// The version that it reports.
    pub version: Fact<String>,
    /// The models that it lists.
    pub models: Vec<String>,
    /// The start of its process in seconds since the Unix epoch, as its metric says; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub process_start_s: Option<Count>,
}

impl ProvisionedTarget {
    /// Describes the parts of the target that have no digest; empty if all its executables are known. The executables of an
    /// indicator are not included.
    pub fn describe_unpinned(&self) -> Vec<String> {
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

/// The largest number of shards of a trial.
pub const MAX_SHARDS: u32 = 1024;

words!(
    /// The unit of load.
    LoadUnit, "unit of load",
    /// Requests in flight at a time.
    Concurrency = "concurrency",
    /// Requests per second.
    RequestsPerS = "requests_per_s",
    /// Events of streamed responses per second.
    EventsPerS = "events_per_s",
);

/// The most load of one unit that a point of the plan asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestedLoad {
    /// The case of the point.
    pub case_id: CaseId,
    /// The point.
    pub point_id: PointId,
    /// The unit.
    pub unit: LoadUnit,
    /// The amount, over all shards together.
    pub amount: f64,
}

/// The largest load that one shard made with its own certificate intact, in a short measurement against the built-in simulator.
/// It is not evidence: it decides the number of shards, and each attempt has a certificate of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ceiling {
    /// Requests in flight at a time, each with a response that is streamed at 50 events per second.
    pub concurrency: u32,
    /// Requests per second, each with a response of one event.
    pub requests_per_s: u32,
    /// Events per second, over all those responses.
    pub events_per_s: u32,
    /// True if an earlier measurement was reused.
    pub cached: bool,
    /// The time of the measurement.
    pub measured_at: Instant,
    /// The digest of machine, program and CPU limit together: measurements with an equal digest are interchangeable.
    pub fingerprint: Digest,
    /// The digest of the program that measured.
    pub program: Digest,
    /// CPUs that its control group allowed, in thousandths; absent if it set no limit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu_millis: Option<Count>,
    /// The machine's name; `local` if there is only one.
    pub node: String,
}

/// The number of shards of each trial of a run, and its reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShardCount {
    /// The number: 1 to 1,024.
    pub shards: u32,
    /// The formula with its numbers, such as `shards: 3 = ceil(concurrency 1200 / (0.5 * 900))`, or the reason why none was needed or
    /// possible.
    pub formula: String,
    /// The largest requested load, for each unit.
    pub requested: Vec<RequestedLoad>,
    /// The ceiling of one shard; absent if the requested load is so small that it does not matter.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ceiling: Option<Fact<Ceiling>>,
}

/// The environment of one block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Environment {
    /// The plan's body digest.
    pub plan_digest: Digest,
    /// The block.
    pub block: Block,
    /// The time at which the facts were read.
    pub observed_at: Instant,
    /// The machines.
    pub hosts: Vec<Host>,
    /// Software of the target hosts.
    pub software: Vec<Software>,
    /// The targets.
    pub targets: Vec<ProvisionedTarget>,
    /// Environment controls: proved here, declared in the pipeline, or absent.
    pub controls: Vec<ControlFact>,
    /// Placement facts: cluster, region, node pool and the like, by name. `label/NODE/LABEL` is a label of a target's node, as a GPU
    /// operator or cloud provider has set it.
    pub placement: BTreeMap<String, String>,
    /// The number of shards of each trial of the run, in the Environment of a run's first block; absent if the pipeline names a
    /// number, and if there is no load.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub shards: Option<ShardCount>,
    /// The newest calibration of the load generator on the machine of the load, or the reason why there is none; absent if there is no
    /// load. Its manifest and bundle are among the readings.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub calibration: Option<Fact<CalibrationReference>>,
    /// Raw readings, such as the driver's report.
    pub readings: Vec<Artifact>,
}

body!(Environment, |environment| environment.readings.iter().collect());

impl Environment {
    /// Returns the hosts with the role `role`.
    pub fn hosts_with(&self, role: HostRole) -> impl Iterator<Item = &Host> {
        self.hosts.iter().filter(move |host| host.roles.contains(&role))
    }

    /// Returns the label of a cluster's node, if it is among the placement facts.
    pub fn node_label(&self, node: &str, label: &str) -> Option<&str> {
        self.placement.get(&node_label_key(node, label)).map(String::as_str)
    }
}

/// Returns the name of the placement fact that a node has a label.
pub fn node_label_key(node: &str, label: &str) -> String {
    format!("label/{node}/{label}")
}
