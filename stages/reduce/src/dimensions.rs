//! The dimension rows of a run: software, hardware, place, workloads and lineage. Hardware and software are those of the target of a
//! case, and of no other machine: two targets of one run have rows of their own.

mod exported_gpus;

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{
    CaseId, Control, ControlState, Digest, Environment, FactSource, FrozenWorkload, Host, HostFacts, Name, Plan, PromptSource,
    ProvisionedTarget, Reason, ServingWork, Target, canonical_json,
};
use assay_stage::Failure;
use assay_telemetry::{LabelOrigin, LabelledGpu};
use assay_warehouse::{
    ARTIFACT_LINEAGE_DIM, CLUSTER_REGION_DIM, HARDWARE_TOPOLOGY_DIM, ROW_ID, Result as RowResult, Row, SOFTWARE_VERSION_DIM,
    Table, Value, WORKLOAD_DIM,
};
use serde::Serialize;
use serde_json::json;

use crate::dimensions::exported_gpus::{ExportedGpus, LabelledFact, Place, contradictions};
use crate::row_failure;
use crate::rows::RowContext;

/// The dimension rows, and the keys by which facts name them.
pub(crate) struct Dimensions {
    targets: BTreeMap<Name, TargetKeys>,
    /// The place of the run's own pods.
    pub(crate) cluster: String,
    lineage: BTreeMap<Digest, String>,
    files: Vec<(&'static Table, Vec<Row>)>,
    /// The facts about GPUs that contradict each other, and those that labels could not state.
    pub(crate) issues: Vec<Reason>,
}

/// The row ids of a target's dimensions.
pub(crate) struct TargetKeys {
    pub(crate) software: String,
    pub(crate) hardware: String,
    pub(crate) cluster: String,
}

impl Dimensions {
    /// Builds the dimension rows of a run, of which labels describe these GPUs. Blocks of one run share them; if blocks differ, the Collection lists that
    /// as drift.
    pub(crate) fn from_context(context: &RowContext<'_>, labelled: &[LabelledGpu]) -> Result<Self, Failure> {
        Self::build(context, labelled).map_err(|error| row_failure(&error))
    }

    fn build(context: &RowContext<'_>, labelled: &[LabelledGpu]) -> RowResult<Self> {
        let (mut software, mut hardware, mut clusters) = (Rows::default(), Rows::default(), Rows::default());
        let cluster = clusters.add(run_cluster(context.environments.first().copied())?);
        let mut targets = BTreeMap::new();
        let mut issues = Vec::new();
        for name in context.plan.cases.iter().map(|case| &case.target).collect::<BTreeSet<_>>() {
            let target = TargetEvidence::find(context, name, labelled);
            issues.extend(target.gpu_issues(name));
            let keys = TargetKeys {
                software: software.add(target.software()?),
                hardware: hardware.add(target.hardware()?),
                cluster: clusters.add(target.cluster()?),
            };
            targets.insert(name.clone(), keys);
        }
        let mut workloads = BTreeMap::new();
        let mut lineage_rows = BTreeMap::new();
        for frozen in &context.plan.workloads {
            workloads.insert(frozen.workload_spec_digest, workload(context.plan, frozen)?);
            lineage_rows.insert(frozen.workload_spec_digest, lineage(context, frozen)?);
        }
        Ok(Self {
            targets,
            cluster,
            issues,
            lineage: lineage_rows.iter().map(|(digest, row)| (*digest, id(row))).collect(),
            files: vec![
                (&SOFTWARE_VERSION_DIM, software.into_rows()),
                (&HARDWARE_TOPOLOGY_DIM, hardware.into_rows()),
                (&CLUSTER_REGION_DIM, clusters.into_rows()),
                (&WORKLOAD_DIM, workloads.into_values().collect()),
                (&ARTIFACT_LINEAGE_DIM, lineage_rows.into_values().collect()),
            ],
        })
    }

    /// Returns the keys of the target of a case.
    pub(crate) fn target_keys(&self, plan: &Plan, case: &CaseId) -> Option<&TargetKeys> {
        self.targets.get(&plan.case(case)?.target)
    }

    /// Returns the id of the lineage row of a workload.
    pub(crate) fn lineage_id(&self, workload: &Digest) -> Option<&str> {
        self.lineage.get(workload).map(String::as_str)
    }

    /// Returns the rows by table.
    pub(crate) fn into_files(self) -> Vec<(&'static Table, Vec<Row>)> {
        self.files
    }
}

/// Rows of one table, each once.
#[derive(Default)]
struct Rows(BTreeMap<String, Row>);

impl Rows {
    /// Adds a row, and returns its id.
    fn add(&mut self, row: Row) -> String {
        let id = id(&row);
        self.0.insert(id.clone(), row);
        id
    }

    fn into_rows(self) -> Vec<Row> {
        self.0.into_values().collect()
    }
}

fn id(row: &Row) -> String {
    row.text(ROW_ID).unwrap_or_default().to_owned()
}

/// Returns a list or map as canonical JSON; `None` if it is empty or has no such form.
pub(crate) fn json(value: &impl Serialize) -> Option<String> {
    let text = String::from_utf8(canonical_json(value).ok()?).ok()?;
    (text != "[]" && text != "{}" && text != "null").then_some(text)
}

/// The facts of one target that are declared, observed and provisioned.
struct TargetEvidence<'a> {
    declared: Option<&'a Target>,
    provisioned: Option<&'a ProvisionedTarget>,
    environment: Option<&'a Environment>,
    hosts: Vec<&'a Host>,
    labelled: &'a [LabelledGpu],
    exported: ExportedGpus,
}

/// Declared hardware facts that have a column, or that provision has put into the host's facts.
const HARDWARE_FACTS: [&str; 10] = [
    "architecture",
    "cpu_model",
    "cpu_vendor",
    "gpu_count",
    "gpu_memory_bytes",
    "gpu_model",
    "memory_bytes",
    "operating_system",
    "tensor_parallel",
    "virtualization",
];

/// Names of software that have a column, with the names under which they are observed or declared.
const SOFTWARE_COLUMNS: [(&str, &[&str]); 7] = [
    ("driver_version", &["driver", "nvidia-driver"]),
    ("cuda_version", &["cuda"]),
    ("nccl_version", &["nccl"]),
    ("framework_version", &["framework"]),
    ("runtime_version", &["libc", "runtime"]),
    ("server_version", &["server"]),
    ("compiler_version", &["cc", "compiler"]),
];

/// The labels of nodes with the version of the GPU driver, and of CUDA.
const DRIVER_LABELS: [&str; 2] = ["nvidia.com/cuda.driver-version.full", "amd.com/gpu.driver-version"];
const CUDA_LABELS: [&str; 2] = ["nvidia.com/cuda.runtime-version.full", "nvidia.com/cuda.runtime.full"];

/// The columns of the place that labels of nodes state.
const PLACE_LABELS: [(&str, &str); 6] = [
    ("region", "topology.kubernetes.io/region"),
    ("availability_zone", "topology.kubernetes.io/zone"),
    ("node_pool", "eks.amazonaws.com/nodegroup"),
    ("node_pool", "cloud.google.com/gke-nodepool"),
    ("node_pool", "kubernetes.azure.com/agentpool"),
    ("node_pool", "karpenter.sh/nodepool"),
];

/// The resource names of GPUs in the limits of a container.
pub(crate) const GPU_RESOURCES: [&str; 3] = ["nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915"];

/// The options that give serving programs the number of devices of one replica (vLLM, SGLang, TensorRT-LLM).
const TENSOR_PARALLEL_OPTIONS: [&str; 6] =
    ["--tensor-parallel-size", "--tensor_parallel_size", "-tp", "--tp-size", "--tp", "--tp_size"];

impl<'a> TargetEvidence<'a> {
    /// Finds the evidence of a target in the first block that has it.
    fn find(context: &RowContext<'a>, name: &Name, labelled: &'a [LabelledGpu]) -> Self {
        let provisioned = context.environments.iter().find_map(|environment| {
            let target = environment.targets.iter().find(|target| target.id == *name)?;
            Some((*environment, target))
        });
        let hosts = provisioned.map_or_else(Vec::new, |(environment, target)| {
            environment.hosts.iter().filter(|host| target.hosts.contains(&host.name)).collect()
        });
        let provisioned_target = provisioned.map(|(_, target)| target);
        let pods = provisioned_target.iter().flat_map(|target| &target.pods).map(|pod| pod.uid.as_str()).collect();
        let place = Place { pods, nodes: hosts.iter().map(|host| host.name.as_str()).collect() };
        Self {
            declared: context.plan.target(name),
            provisioned: provisioned_target,
            environment: provisioned.map(|(environment, _)| environment),
            exported: ExportedGpus::read(labelled, &place),
            labelled,
            hosts,
        }
    }

    /// Returns the contradictions between the sources about the target's GPUs, and why labels leave one of their facts open.
    fn gpu_issues(&self, name: &Name) -> Vec<Reason> {
        let exported = &self.exported;
        let by_nodes = self.labelled_gpus().model.zip(exported.model.as_ref());
        let by_nodes = by_nodes.filter(|(nodes, exported)| *nodes != exported.value).map(|(nodes, exported)| {
            format!("the model is `{nodes}` by the labels of nodes, and `{}` by those of series", exported.value)
        });
        let conflicts = exported.conflicts.iter().cloned().chain(contradictions(self.labelled, &self.hosts)).chain(by_nodes);
        let conflicts: Vec<String> = conflicts.collect();
        // What the driver on the hosts states is not open.
        let is_open = !self.hosts.iter().any(|host| host.facts.gpus.value.as_ref().is_some_and(|gpus| !gpus.is_empty()));
        let unknown: Vec<String> = exported.unknown.iter().filter(|_| is_open).cloned().collect();
        let issue = |code: &str, of: Vec<String>| {
            (!of.is_empty()).then(|| Reason::new(code, format!("target `{name}`: {}", of.join("; "))))
        };
        [issue("gpu_facts_differ", conflicts), issue("gpu_labels_unjoined", unknown)].into_iter().flatten().collect()
    }

    /// Returns a hardware fact that the pipeline declares.
    fn declared_hardware(&self, name: &str) -> Option<&'a str> {
        self.declared?.hardware.get(name).map(String::as_str)
    }

    /// Returns the value of the first of these labels that the target's nodes have. If they differ, there is no such value.
    fn label(&self, names: &[&str]) -> Option<&'a str> {
        let environment = self.environment?;
        let of_host = |host: &&Host| names.iter().find_map(|name| environment.node_label(&host.name, name));
        let values: BTreeSet<Option<&str>> = self.hosts.iter().map(of_host).collect();
        if values.len() == 1 { values.into_iter().next().flatten() } else { None }
    }

    /// Returns the GPUs of the target's nodes, as the labels of their operator describe them.
    fn labelled_gpus(&self) -> Gpus {
        let whole_number = |names: &[&str]| self.label(names)?.parse::<i64>().ok();
        let nodes = i64::try_from(self.hosts.len()).ok();
        Gpus {
            model: self.label(&["nvidia.com/gpu.product", "amd.com/gpu.product-name"]).map(str::to_owned),
            count: whole_number(&["nvidia.com/gpu.count"]).zip(nodes).and_then(|(each, nodes)| each.checked_mul(nodes)),
            memory_bytes: whole_number(&["nvidia.com/gpu.memory"]).and_then(|mebibytes| mebibytes.checked_mul(1 << 20)),
            source: GpuSource::NodeLabels,
        }
    }

    /// Returns the version of the driver on the target's hosts, with its origin; `None` if neither the hosts nor labels state it.
    fn observed_driver(&self) -> Option<(&str, GpuSource)> {
        let gpus = self.hosts.iter().filter_map(|host| host.facts.gpus.value.as_deref()).flatten();
        let of_host = gpus.take(1).next().map(|gpu| (gpu.driver_version.as_str(), GpuSource::Host));
        let of_nodes = || Some((self.label(&DRIVER_LABELS)?, GpuSource::NodeLabels));
        let of_series = || {
            let LabelledFact { value, origin } = self.exported.driver_version.as_ref()?;
            Some((value.as_str(), GpuSource::from(*origin)))
        };
        of_host.or_else(of_nodes).or_else(of_series)
    }

    /// Returns the versions of the target's software by name. An observed version replaces a declared one. Software of this
    /// machine is the target's only if the target runs here.
    fn versions(&self) -> BTreeMap<&str, &str> {
        let declared = self.declared.iter().flat_map(|target| &target.software);
        let mut versions: BTreeMap<&str, &str> = declared.map(|(name, version)| (name.as_str(), version.as_str())).collect();
        if self.hosts.iter().any(|host| host.facts.kernel.source == FactSource::Observed) {
            let observed = self.environment.iter().flat_map(|environment| &environment.software);
            versions.extend(observed.filter_map(|one| Some((one.name.as_str(), one.version.value.as_deref()?))));
        }
        versions.extend(self.label(&CUDA_LABELS).map(|version| ("cuda", version)));
        versions.extend(self.observed_driver().map(|(version, _)| ("driver", version)));
        let Some(target) = self.provisioned else { return versions };
        versions.extend(target.version.value.as_deref().map(|version| ("server", version)));
        versions.extend(target.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        versions
    }

    fn software(&self) -> RowResult<Row> {
        let versions = self.versions();
        let column_of =
            |column: &str| SOFTWARE_COLUMNS.iter().find(|(name, _)| *name == column).map_or(&[][..], |(_, names)| names);
        let version = |column: &str| column_of(column).iter().find_map(|name| versions.get(name)).copied();
        let is_named = |name: &str| name == "kernel" || SOFTWARE_COLUMNS.iter().any(|(_, names)| names.contains(&name));
        let others: BTreeMap<_, _> = versions.iter().filter(|(name, _)| !is_named(name)).collect();
        let facts = self.hosts.first().map(|host| &host.facts);
        let image =
            self.provisioned.and_then(|target| target.image.as_ref()).or(self.declared.and_then(|target| target.image.as_ref()));
        let mut row = Row::new(&SOFTWARE_VERSION_DIM)
            .with("image_digest", image.and_then(|image| image.digest))?
            .with("operating_system", facts.and_then(|facts| facts.operating_system.value.as_deref()))?
            .with("kernel_version", facts.and_then(|facts| facts.kernel.value.as_deref()))?
            .with("other_versions", json(&others))?;
        for (column, _) in SOFTWARE_COLUMNS {
            row.set(column, version(column))?;
        }
        let declared = version("driver_version").map(|_| GpuSource::Declared);
        let driver_source = self.observed_driver().map(|(_, source)| source).or(declared);
        row.set("driver_source", driver_source.map(GpuSource::as_str))?;
        row.seal()
    }

    fn hardware(&self) -> RowResult<Row> {
        let mut row = Row::new(&HARDWARE_TOPOLOGY_DIM).with("hosts", Value::from_count(self.hosts.len() as u64))?;
        let gpus = self.gpus();
        let is_known_gpu = gpus.model.is_some() || gpus.count.is_some();
        row.set("gpu_model", gpus.model)?;
        row.set("gpu_count", gpus.count)?;
        row.set("gpu_memory_bytes", gpus.memory_bytes)?;
        row.set("gpu_source", is_known_gpu.then_some(gpus.source.as_str()))?;
        let mut described = self.hosts.iter().map(|host| host_columns(&host.facts));
        let first = described.next().unwrap_or_default();
        let others: BTreeSet<String> =
            described.filter(|other| *other != first).filter_map(|other| json(&json_by_column(&other))).collect();
        let is_known = first.iter().any(|(_, value)| *value != Value::Null);
        for (column, value) in first {
            row.set(column, value)?;
        }
        let declared = self.declared.iter().flat_map(|target| &target.hardware);
        let other_facts: BTreeMap<_, _> = declared.filter(|(name, _)| !HARDWARE_FACTS.contains(&name.as_str())).collect();
        row.set("other_hosts", json(&others))?;
        row.set("other_facts", json(&other_facts))?;
        let is_declared = gpus.source == GpuSource::Declared
            || !other_facts.is_empty()
            || self.hosts.iter().any(|host| has_declared(&host.facts));
        let source = match (is_declared, is_known || gpus.count.is_some()) {
            (true, _) => FactSource::Declared,
            (false, true) => FactSource::Observed,
            (false, false) => FactSource::Unknown,
        };
        row.with("facts_source", source.as_str())?.seal()
    }

    /// Returns the target's GPUs: as its hosts see them, otherwise from its pods' limits, the labels of its nodes, those of dcgm-exporter's series
    /// and the pipeline.
    fn gpus(&self) -> Gpus {
        let observed: Vec<_> = self.hosts.iter().filter_map(|host| host.facts.gpus.value.as_deref()).flatten().collect();
        let limits = self.gpu_limit();
        let declared = |name: &str| self.declared_hardware(name);
        let whole_number = |text: &str| text.parse::<i64>().ok();
        if let Some(first) = observed.first() {
            let models: BTreeSet<_> = observed.iter().map(|gpu| gpu.model.as_str()).collect();
            return Gpus {
                model: Some(models.into_iter().collect::<Vec<_>>().join(" + ")),
                count: limits.or(i64::try_from(observed.len()).ok()),
                memory_bytes: i64::try_from(first.memory_bytes.0).ok(),
                source: GpuSource::Host,
            };
        }
        let labelled = self.labelled_gpus();
        if labelled.model.is_some() {
            return Gpus { count: limits.or(labelled.count), ..labelled };
        }
        if let Some(LabelledFact { value, origin }) = &self.exported.model {
            return Gpus {
                model: Some(value.clone()),
                count: limits.or(self.exported.count),
                memory_bytes: None,
                source: GpuSource::from(*origin),
            };
        }
        let (model, count) = (declared("gpu_model"), declared("gpu_count").and_then(whole_number));
        let observed_none = self.hosts.iter().any(|host| host.facts.gpus.value.as_ref().is_some_and(Vec::is_empty));
        Gpus {
            model: model.map(str::to_owned),
            count: limits.or(count).or(observed_none.then_some(0)),
            memory_bytes: declared("gpu_memory_bytes").and_then(whole_number),
            source: if model.is_some() || (limits.is_none() && count.is_some()) { GpuSource::Declared } else { GpuSource::Host },
        }
    }

    /// Returns the number of GPUs that the target's pods may use together.
    fn gpu_limit(&self) -> Option<i64> {
        let containers = self.provisioned?.pods.iter().flat_map(|pod| &pod.containers);
        let limits =
            containers.flat_map(|container| &container.limits).filter(|(name, _)| GPU_RESOURCES.contains(&name.as_str()));
        let limits: Vec<i64> = limits.filter_map(|(_, limit)| limit.parse().ok()).collect();
        limits.into_iter().reduce(i64::saturating_add)
    }

    /// Returns the number of devices that one replica of the model is spread over.
    fn tensor_parallel(&self) -> Option<i64> {
        let containers = self.provisioned.iter().flat_map(|target| &target.pods).flat_map(|pod| &pod.containers);
        let mut commands =
            self.declared.iter().map(|target| &target.command).chain(containers.map(|container| &container.command));
        commands
            .find_map(|command| find_option(command, &TENSOR_PARALLEL_OPTIONS))
            .or_else(|| self.declared_hardware("tensor_parallel")?.parse().ok())
    }

    fn cluster(&self) -> RowResult<Row> {
        let place = |name: &str| self.declared.and_then(|target| target.place.get(name)).map(String::as_str);
        let cluster = cluster_kind(self.environment);
        let is_dedicated = self.environment.is_some_and(|environment| {
            environment.controls.iter().any(|fact| fact.control == Control::DedicatedNodes && fact.state == ControlState::Proved)
        });
        let mut row = Row::new(&CLUSTER_REGION_DIM).with("cluster", cluster)?.with("scheduler_path", cluster)?;
        for column in ["region", "availability_zone", "node_pool", "queue", "resource_flavor"] {
            let labels = PLACE_LABELS.iter().filter(|(name, _)| *name == column).map(|(_, label)| *label);
            row.set(column, self.label(&labels.collect::<Vec<_>>()).or_else(|| place(column)))?;
        }
        row.with("tenant_mode", if is_dedicated { Some("dedicated") } else { place("tenant_mode") })?.seal()
    }
}

/// The GPUs of a target.
struct Gpus {
    model: Option<String>,
    count: Option<i64>,
    memory_bytes: Option<i64>,
    source: GpuSource,
}

/// The origin of facts about GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GpuSource {
    /// The driver on the target's hosts, or the limits of its pods alone.
    Host,
    /// The labels of its nodes.
    NodeLabels,
    /// The labels of dcgm-exporter's series, as the recorder scraped them.
    ScrapeLabels,
    /// The labels of dcgm-exporter's series in a Prometheus.
    ExporterLabels,
    /// The pipeline.
    Declared,
}

impl GpuSource {
    fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::NodeLabels => "node_labels",
            Self::ScrapeLabels => "scrape_labels",
            Self::ExporterLabels => "exporter_labels",
            Self::Declared => "declared",
        }
    }
}

impl From<LabelOrigin> for GpuSource {
    fn from(origin: LabelOrigin) -> Self {
        match origin {
            LabelOrigin::Scrape => Self::ScrapeLabels,
            LabelOrigin::Prometheus => Self::ExporterLabels,
        }
    }
}

/// Returns the number that follows an option in a command, as the next argument or after `=`.
fn find_option(command: &[String], options: &[&str]) -> Option<i64> {
    // A shell's script is one argument.
    let mut words = command.iter().flat_map(|argument| argument.split_whitespace());
    while let Some(word) = words.next() {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        if options.contains(&name) {
            return value.or_else(|| words.next())?.parse().ok();
        }
    }
    None
}

/// Returns the number of devices that one replica of a case's model is spread over, if a command or the pipeline states it.
pub(crate) fn tensor_parallel(context: &RowContext<'_>, case: &CaseId) -> Option<i64> {
    let target = &context.plan.case(case)?.target;
    TargetEvidence::find(context, target, &[]).tensor_parallel()
}

/// Returns the hardware of one host by column, without the facts that distinguish two machines of a kind.
fn host_columns(facts: &HostFacts) -> Vec<(&'static str, Value)> {
    let text = |value: &Option<String>| Value::from(value.clone());
    let count = |value: Option<u64>| Value::from(value.and_then(|value| i64::try_from(value).ok()));
    vec![
        ("numa_layout", Value::from(facts.numa.value.as_ref().and_then(json))),
        ("nic", Value::from(facts.network_cards.value.as_ref().and_then(|cards| json(&physical_cards(cards))))),
        ("cpu_vendor", text(&facts.cpu_vendor.value)),
        ("cpu_model", text(&facts.cpu_model.value)),
        ("cpu_signature", text(&facts.cpu_signature.value)),
        ("microcode", text(&facts.microcode.value)),
        ("sockets", Value::from(facts.sockets.value)),
        ("cores", Value::from(facts.cores.value)),
        ("logical_cpus", Value::from(facts.logical_cpus.value)),
        ("smt", Value::from(facts.smt.value)),
        ("memory_bytes", count(facts.memory_bytes.value.map(|bytes| bytes.0))),
        ("max_frequency_khz", count(facts.max_frequency_khz.value.map(|khz| khz.0))),
        ("caches", Value::from(facts.caches.value.as_ref().and_then(json))),
        ("architecture", text(&facts.architecture.value)),
        ("virtualization", text(&facts.virtualization.value)),
    ]
}

/// Returns true if a person declared one of a host's facts.
fn has_declared(facts: &HostFacts) -> bool {
    let texts = [&facts.cpu_model, &facts.cpu_vendor, &facts.architecture, &facts.virtualization];
    texts.iter().any(|fact| fact.source == FactSource::Declared) || facts.memory_bytes.source == FactSource::Declared
}

/// Returns columns as JSON, without those that are null.
fn json_by_column(columns: &[(&'static str, Value)]) -> BTreeMap<&'static str, serde_json::Value> {
    let value = |value: &Value| match value {
        Value::Null => None,
        Value::Bool(value) => Some(json!(value)),
        Value::Int(value) => Some(json!(value.to_string())),
        Value::Float(value) => Some(json!(value)),
        Value::Text(value) => Some(json!(value)),
        Value::Instant(value) => Some(json!(value.to_string())),
    };
    columns.iter().filter_map(|(name, column)| Some((*name, value(column)?))).collect()
}

/// Returns the network cards that have a driver: virtual interfaces come and go, and would make every boot another topology.
fn physical_cards(cards: &[assay_manifest::NetworkCard]) -> Vec<(&str, u32)> {
    cards.iter().filter(|card| !card.driver.is_empty()).map(|card| (card.driver.as_str(), card.speed_mbps)).collect()
}

/// Returns the kind of scheduler of a run.
pub(crate) fn cluster_kind(environment: Option<&Environment>) -> &str {
    environment.and_then(|environment| environment.placement.get("cluster")).map_or("local", String::as_str)
}

/// Returns the place of the run's own pods, independent of its targets.
fn run_cluster(environment: Option<&Environment>) -> RowResult<Row> {
    let cluster = cluster_kind(environment);
    Row::new(&CLUSTER_REGION_DIM).with("cluster", cluster)?.with("scheduler_path", cluster)?.seal()
}

fn workload(plan: &Plan, frozen: &FrozenWorkload) -> RowResult<Row> {
    let (work, serving) = (frozen.indicator.as_ref(), frozen.serving.as_ref());
    let declared = |field: &str| frozen.dimensions.get(field).map(String::as_str);
    Row::new(&WORKLOAD_DIM)
        .with("workload_spec_digest", frozen.workload_spec_digest)?
        .with("workload", frozen.name.as_str())?
        .with("workload_type", frozen.workload_type.as_str())?
        .with("seed", frozen.seed.as_str())?
        .with("script_digest", work.and_then(|work| work.script.as_ref()).map(|script| script.artifact.digest))?
        .with("parameters", work.and_then(|work| json(&work.parameters)))?
        .with("model", declared("model"))?
        .with("precision", declared("precision"))?
        .with("protocol", declared("protocol"))?
        .with("deployment_model", declared("deployment_model"))?
        .with("stack_under_test", declared("stack"))?
        .with("batching_policy", declared("batching_policy"))?
        .with("concurrency_points", serving.and_then(|_| json(&loads(plan, frozen))))?
        .with("prompt_distribution", serving.and_then(prompt_distribution))?
        .with("completion_distribution", serving.and_then(|serving| json(&serving.output)))?
        .with(
            "dataset_digest",
            serving.and_then(|serving| serving.prompts.dataset()).map(|dataset| dataset.file.artifact.digest),
        )?
        .with("cache", serving.map(|serving| serving.cache.as_str()))?
        .with("tokenizer_digest", serving.map(|serving| serving.tokenizer.digest))?
        .seal()
}

/// Returns the distribution of input lengths: a law, or the range of a dataset's prompts.
fn prompt_distribution(serving: &ServingWork) -> Option<String> {
    match &serving.prompts {
        PromptSource::Synthetic { input, .. } => json(input),
        PromptSource::Dataset(dataset) => json(&dataset.summary.input_tokens),
    }
}

/// Returns the points at which a workload is measured, in the order of its sweep: each of its cases has the same.
fn loads<'a>(plan: &'a Plan, frozen: &FrozenWorkload) -> Vec<&'a str> {
    let case = plan.cases.iter().find(|case| case.workload == frozen.name);
    case.into_iter().flat_map(|case| &case.points).map(|point| point.point_id.as_str()).collect()
}

/// Returns the fingerprints of the keys that signed reduce's inputs, by kind of manifest.
fn signers<'a>(context: &RowContext<'a>) -> BTreeMap<&'a str, BTreeSet<Digest>> {
    let mut by_kind: BTreeMap<&str, BTreeSet<Digest>> = BTreeMap::new();
    for (kind, fingerprint) in &context.signers {
        by_kind.entry(kind.as_str()).or_default().insert(*fingerprint);
    }
    by_kind
}

fn lineage(context: &RowContext<'_>, frozen: &FrozenWorkload) -> RowResult<Row> {
    let parts: BTreeSet<Digest> =
        context.collection.trials.iter().flat_map(|trial| trial.attempts.iter().map(|attempt| attempt.part)).collect();
    Row::new(&ARTIFACT_LINEAGE_DIM)
        .with("run_id", context.run_id.as_str())?
        .with("artifact_manifest_digest", context.collection_manifest)?
        .with("workload_spec_digest", frozen.workload_spec_digest)?
        .with("source_manifest_digest", context.source_manifest)?
        .with("plan_manifest_digest", context.plan_manifest)?
        .with("plan_digest", context.plan_digest)?
        .with("environment_manifest_digests", json(&context.environment_manifests))?
        .with("execution_manifest_digests", json(&parts))?
        .with("reduce_binary_digest", context.reduce_binary)?
        .with("query_spec_digests", json(&context.plan.queries.iter().map(|query| query.artifact.digest).collect::<Vec<_>>()))?
        .with("signing_state", "signed")?
        .with("signers", json(&signers(context)))?
        .with("raw_bytes", Value::from_count(context.collection.evidence_bytes.0))?
        .with("raw_artifacts", Value::from_count(context.collection.evidence_count.0))?
        .seal()
}

#[cfg(test)]
mod tests;
