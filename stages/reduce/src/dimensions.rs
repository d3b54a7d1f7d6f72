//! The dimension rows of a run: software, hardware, place, workloads and lineage. The hardware is the targets' and nobody else's.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{Digest, Environment, Fact, FrozenWorkload, Host, HostRole, Plan, canonical_json};
use assay_stage::Failure;
use assay_warehouse::{
    ARTIFACT_LINEAGE_DIM, CLUSTER_REGION_DIM, HARDWARE_TOPOLOGY_DIM, ROW_ID, Result as RowResult, Row, SOFTWARE_VERSION_DIM,
    Table, WORKLOAD_DIM,
};
use serde::Serialize;

use crate::row_failure;
use crate::rows::{RowContext, whole};

/// The dimension rows, and the keys by which facts name them.
pub(crate) struct Dimensions {
    pub(crate) software: String,
    pub(crate) hardware: String,
    pub(crate) cluster: String,
    lineage: BTreeMap<Digest, String>,
    files: Vec<(&'static Table, Vec<Row>)>,
}

impl Dimensions {
    /// The dimension rows of a run. Blocks of one run share them; where blocks differ, the Collection says so as drift.
    pub(crate) fn of(context: &RowContext<'_>) -> Result<Self, Failure> {
        Self::build(context).map_err(|error| row_failure(&error))
    }

    fn build(context: &RowContext<'_>) -> RowResult<Self> {
        let environment = context.environments.first().copied();
        let software = software(environment)?;
        let hardware = hardware(environment)?;
        let cluster = cluster(environment)?;
        let mut workloads = BTreeMap::new();
        let mut lineage_rows = BTreeMap::new();
        for frozen in &context.plan.workloads {
            workloads.insert(frozen.workload_spec_digest, workload(context.plan, frozen)?);
            lineage_rows.insert(frozen.workload_spec_digest, lineage(context, frozen)?);
        }
        Ok(Self {
            software: id(&software),
            hardware: id(&hardware),
            cluster: id(&cluster),
            lineage: lineage_rows.iter().map(|(digest, row)| (*digest, id(row))).collect(),
            files: vec![
                (&SOFTWARE_VERSION_DIM, vec![software]),
                (&HARDWARE_TOPOLOGY_DIM, vec![hardware]),
                (&CLUSTER_REGION_DIM, vec![cluster]),
                (&WORKLOAD_DIM, workloads.into_values().collect()),
                (&ARTIFACT_LINEAGE_DIM, lineage_rows.into_values().collect()),
            ],
        })
    }

    /// The lineage row of a workload.
    pub(crate) fn lineage_of(&self, workload: &Digest) -> Option<&str> {
        self.lineage.get(workload).map(String::as_str)
    }

    /// The rows by table.
    pub(crate) fn into_files(self) -> Vec<(&'static Table, Vec<Row>)> {
        self.files
    }
}

fn id(row: &Row) -> String {
    row.text(ROW_ID).unwrap_or_default().to_owned()
}

/// A list or map as canonical JSON; nothing where it is empty or has no such form.
fn json(value: &impl Serialize) -> Option<String> {
    let text = String::from_utf8(canonical_json(value).ok()?).ok()?;
    (text != "[]" && text != "{}" && text != "null").then_some(text)
}

fn targets(environment: Option<&Environment>) -> Vec<&Host> {
    environment.map(|environment| environment.hosts_with(HostRole::Target).collect()).unwrap_or_default()
}

fn software(environment: Option<&Environment>) -> RowResult<Row> {
    let versions: BTreeMap<&str, &str> = environment
        .iter()
        .flat_map(|environment| &environment.software)
        .filter_map(|software| Some((software.name.as_str(), software.version.value.as_deref()?)))
        .collect();
    let of = |names: &[&str]| names.iter().find_map(|name| versions.get(name)).copied();
    let hosts = targets(environment);
    let facts = hosts.first().map(|host| &host.facts);
    let image = environment.and_then(|environment| environment.targets.iter().find_map(|target| target.image.as_ref()?.digest));
    let named = ["kernel", "driver", "cuda", "nccl", "libc", "cc"];
    let others: BTreeMap<_, _> = versions.iter().filter(|(name, _)| !named.contains(name)).collect();
    Row::new(&SOFTWARE_VERSION_DIM)
        .with("image_digest", image)?
        .with("operating_system", facts.and_then(|facts| facts.operating_system.value.as_deref()))?
        .with("kernel_version", facts.and_then(|facts| facts.kernel.value.as_deref()))?
        .with("driver_version", of(&["driver"]))?
        .with("cuda_version", of(&["cuda"]))?
        .with("nccl_version", of(&["nccl"]))?
        .with("runtime_version", of(&["libc"]))?
        .with("compiler_version", of(&["cc"]))?
        .with("other_versions", json(&others))?
        .sealed()
}

fn hardware(environment: Option<&Environment>) -> RowResult<Row> {
    let hosts = targets(environment);
    let row = Row::new(&HARDWARE_TOPOLOGY_DIM).with("hosts", whole(hosts.len() as u64))?;
    let Some(facts) = hosts.first().map(|host| &host.facts) else { return row.with("facts_source", "unknown")?.sealed() };
    let gpus = facts.gpus.value.as_deref().unwrap_or_default();
    let text = |fact: &Fact<String>| fact.value.clone();
    row.with("gpu_model", gpus.first().map(|gpu| gpu.model.as_str()))?
        .with("gpu_count", facts.gpus.value.as_ref().map(|gpus| gpus.len() as u32))?
        .with("gpu_memory_bytes", gpus.first().map(|gpu| gpu.memory_bytes.0).and_then(|bytes| i64::try_from(bytes).ok()))?
        .with("numa_layout", facts.numa.value.as_ref().and_then(json))?
        .with("nic", facts.network_cards.value.as_ref().and_then(|cards| json(&physical(cards))))?
        .with("cpu_vendor", text(&facts.cpu_vendor))?
        .with("cpu_model", text(&facts.cpu_model))?
        .with("cpu_signature", text(&facts.cpu_signature))?
        .with("microcode", text(&facts.microcode))?
        .with("sockets", facts.sockets.value)?
        .with("cores", facts.cores.value)?
        .with("logical_cpus", facts.logical_cpus.value)?
        .with("smt", facts.smt.value)?
        .with("memory_bytes", facts.memory_bytes.value.and_then(|bytes| i64::try_from(bytes.0).ok()))?
        .with("max_frequency_khz", facts.max_frequency_khz.value.and_then(|khz| i64::try_from(khz.0).ok()))?
        .with("caches", facts.caches.value.as_ref().and_then(json))?
        .with("architecture", text(&facts.architecture))?
        .with("virtualization", text(&facts.virtualization))?
        .with("facts_source", facts.cpu_model.source.as_str())?
        .sealed()
}

/// Cards with a driver: virtual interfaces come and go, and would make every boot another topology.
fn physical(cards: &[assay_manifest::NetworkCard]) -> Vec<(&str, u32)> {
    cards.iter().filter(|card| !card.driver.is_empty()).map(|card| (card.driver.as_str(), card.speed_mbps)).collect()
}

/// What kind of scheduler a run was under.
pub(crate) fn cluster_of(environment: Option<&Environment>) -> &str {
    environment.and_then(|environment| environment.placement.get("cluster")).map_or("local", String::as_str)
}

fn cluster(environment: Option<&Environment>) -> RowResult<Row> {
    let cluster = cluster_of(environment);
    Row::new(&CLUSTER_REGION_DIM).with("cluster", cluster)?.with("scheduler_path", cluster)?.sealed()
}

fn workload(plan: &Plan, frozen: &FrozenWorkload) -> RowResult<Row> {
    let (work, serving) = (frozen.indicator.as_ref(), frozen.serving.as_ref());
    let declared = |field: &str| frozen.dimensions.get(field).map(String::as_str);
    Row::new(&WORKLOAD_DIM)
        .with("workload_spec_digest", frozen.workload_spec_digest)?
        .with("workload", frozen.name.as_str())?
        .with("workload_type", frozen.workload_type.as_str())?
        .with("seed", frozen.seed.as_str())?
        .with("script_digest", work.map(|work| work.script.artifact.digest))?
        .with("parameters", work.and_then(|work| json(&work.parameters)))?
        .with("model", declared("model"))?
        .with("precision", declared("precision"))?
        .with("protocol", declared("protocol"))?
        .with("deployment_model", declared("deployment_model"))?
        .with("stack_under_test", declared("stack"))?
        .with("batching_policy", declared("batching_policy"))?
        .with("concurrency_points", serving.and_then(|_| json(&loads(plan, frozen))))?
        .with("prompt_distribution", serving.and_then(|serving| json(&serving.input)))?
        .with("completion_distribution", serving.and_then(|serving| json(&serving.output)))?
        .with("cache", serving.map(|serving| serving.cache.as_str()))?
        .with("tokenizer_digest", serving.map(|serving| serving.tokenizer.digest))?
        .sealed()
}

/// The points at which a workload is measured, in the order of its sweep: each case of it has the same.
fn loads<'a>(plan: &'a Plan, frozen: &FrozenWorkload) -> Vec<&'a str> {
    let case = plan.cases.iter().find(|case| case.workload == frozen.name);
    case.into_iter().flat_map(|case| &case.points).map(|point| point.point_id.as_str()).collect()
}

fn lineage(context: &RowContext<'_>, frozen: &FrozenWorkload) -> RowResult<Row> {
    let parts: BTreeSet<Digest> =
        context.collection.trials.iter().flat_map(|trial| trial.attempts.iter().map(|attempt| attempt.part)).collect();
    Row::new(&ARTIFACT_LINEAGE_DIM)
        .with("run_id", context.run_id.as_str())?
        .with("artifact_manifest_digest", context.collection_manifest)?
        .with("workload_spec_digest", frozen.workload_spec_digest)?
        .with("plan_manifest_digest", context.plan_manifest)?
        .with("plan_digest", context.plan_digest)?
        .with("environment_manifest_digests", json(&context.environment_manifests))?
        .with("execution_manifest_digests", json(&parts))?
        .with("reduce_binary_digest", context.reduce_binary)?
        .with("signing_state", "signed")?
        .with("raw_bytes", whole(context.collection.evidence_bytes.0))?
        .with("raw_artifacts", whole(context.collection.evidence_count.0))?
        .sealed()
}
