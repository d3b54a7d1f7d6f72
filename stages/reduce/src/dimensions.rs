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
        let declared = Declared::of(context.environments);
        let software = software(environment, context.environments, &declared)?;
        let hardware = hardware(environment, &declared)?;
        let cluster = cluster(environment, &declared)?;
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

/// What the pipeline declares of its targets, by name. Where targets differ their values stand side by side, in order.
struct Declared(BTreeMap<String, BTreeSet<String>>);

impl Declared {
    fn of(environments: &[&Environment]) -> Self {
        let mut declared: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (key, value) in environments.iter().flat_map(|environment| &environment.placement) {
            let name = key.strip_prefix("declared/").and_then(|rest| rest.split_once('/')).map(|(_, name)| name);
            if let Some(name) = name {
                declared.entry(name.to_owned()).or_default().insert(value.clone());
            }
        }
        Self(declared)
    }

    /// The value under the first of these names that is declared.
    fn text(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.0.get(*name)).and_then(joined)
    }

    /// The number under a name; none where targets differ in it.
    fn number(&self, name: &str) -> Option<i64> {
        self.text(&[name])?.parse().ok()
    }
}

/// Values as one text; none where there are none.
fn joined(values: &BTreeSet<String>) -> Option<String> {
    (!values.is_empty()).then(|| values.iter().cloned().collect::<Vec<_>>().join("; "))
}

fn targets(environment: Option<&Environment>) -> Vec<&Host> {
    environment.map(|environment| environment.hosts_with(HostRole::Target).collect()).unwrap_or_default()
}

fn software(environment: Option<&Environment>, all: &[&Environment], declared: &Declared) -> RowResult<Row> {
    let versions: BTreeMap<&str, &str> = environment
        .iter()
        .flat_map(|environment| &environment.software)
        .filter_map(|software| Some((software.name.as_str(), software.version.value.as_deref()?)))
        .collect();
    let of = |names: &[&str]| names.iter().find_map(|name| versions.get(name)).copied();
    let hosts = targets(environment);
    let facts = hosts.first().map(|host| &host.facts);
    // Sides that alternate are in different blocks.
    let found = || all.iter().flat_map(|environment| &environment.targets);
    let containers = found().flat_map(|target| &target.pods).flat_map(|pod| &pod.containers).map(|container| &container.image);
    let images = found().filter_map(|target| target.image.as_ref()).chain(containers);
    let images: BTreeSet<String> = images.filter_map(|image| Some(image.digest?.to_string())).collect();
    let servers: BTreeSet<String> = found().filter_map(|target| target.version.value.clone()).collect();
    let gpus = hosts.iter().filter_map(|host| host.facts.gpus.value.as_ref()).flatten();
    let drivers: BTreeSet<String> = gpus.map(|gpu| gpu.driver_version.clone()).collect();
    let or_declared = |found: Option<String>, names: &[&str]| found.or_else(|| declared.text(names));
    let version = |name: &str| of(&[name]).map(str::to_owned);
    let named = ["kernel", "driver", "cuda", "nccl", "libc", "cc"];
    let others: BTreeMap<_, _> = versions.iter().filter(|(name, _)| !named.contains(name)).collect();
    Row::new(&SOFTWARE_VERSION_DIM)
        .with("image_digest", joined(&images))?
        .with("operating_system", facts.and_then(|facts| facts.operating_system.value.as_deref()))?
        .with("kernel_version", facts.and_then(|facts| facts.kernel.value.as_deref()))?
        .with("driver_version", or_declared(version("driver").or_else(|| joined(&drivers)), &["driver_version", "driver"]))?
        .with("cuda_version", or_declared(version("cuda"), &["cuda_version", "cuda"]))?
        .with("nccl_version", or_declared(version("nccl"), &["nccl_version", "nccl"]))?
        .with("framework_version", declared.text(&["framework_version", "framework"]))?
        .with("server_version", or_declared(joined(&servers), &["server_version"]))?
        .with("runtime_version", of(&["libc"]))?
        .with("compiler_version", of(&["cc"]))?
        .with("other_versions", json(&others))?
        .sealed()
}

fn hardware(environment: Option<&Environment>, declared: &Declared) -> RowResult<Row> {
    let hosts = targets(environment);
    let row = Row::new(&HARDWARE_TOPOLOGY_DIM).with("hosts", whole(hosts.len() as u64))?;
    let Some(facts) = hosts.first().map(|host| &host.facts) else { return row.with("facts_source", "unknown")?.sealed() };
    let gpus = facts.gpus.value.as_deref().unwrap_or_default();
    let text = |fact: &Fact<String>| fact.value.clone();
    // What was seen stands: only where nobody saw the GPUs, what is declared of them counts.
    let is_declared = facts.gpus.value.is_none() && declared.text(&["gpu_model", "gpu_count"]).is_some();
    let declared_number = |name: &str| declared.number(name).filter(|_| is_declared);
    let models: BTreeSet<String> = gpus.iter().map(|gpu| gpu.model.clone()).collect();
    let model = if is_declared { declared.text(&["gpu_model"]) } else { joined(&models) };
    let count = facts.gpus.value.as_ref().and_then(|gpus| i64::try_from(gpus.len()).ok());
    let memory = gpus.first().and_then(|gpu| i64::try_from(gpu.memory_bytes.0).ok());
    row.with("gpu_model", model)?
        .with("gpu_count", count.or_else(|| declared_number("gpu_count")))?
        .with("gpu_memory_bytes", memory.or_else(|| declared_number("gpu_memory_bytes")))?
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
        .with("facts_source", if is_declared { "declared" } else { facts.cpu_model.source.as_str() })?
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

fn cluster(environment: Option<&Environment>, declared: &Declared) -> RowResult<Row> {
    let cluster = cluster_of(environment);
    let mut row = Row::new(&CLUSTER_REGION_DIM).with("cluster", cluster)?.with("scheduler_path", cluster)?;
    for name in ["region", "availability_zone", "node_pool", "queue", "resource_flavor", "tenant_mode"] {
        row = row.with(name, declared.text(&[name]))?;
    }
    row.sealed()
}

#[cfg(test)]
mod tests {
    use assay_manifest::{Block, HostFacts};
    use serde_json::{Value, json};

    use super::*;

    /// The keys of a run with that target and those declarations.
    fn keys(target: &Value, declared: &[(&str, &str)], change: impl Fn(&mut HostFacts)) -> [String; 3] {
        let zero = Digest::of(b"");
        let mut found = json!({
            "id": "t", "kind": "endpoint", "hosts": ["t"], "version": {"source": "unknown", "how": "x"}, "models": [], "probes": [],
        });
        for (name, value) in target.as_object().expect("an object") {
            found[name] = value.clone();
        }
        let placement: BTreeMap<_, _> = declared.iter().map(|(name, value)| (format!("declared/t/{name}"), *value)).collect();
        let environment = json!({
            "plan_digest": zero, "block": Block { index: 0, incarnation: 0 }, "observed_at": "2026-01-01T00:00:00.000000000Z",
            "hosts": [{"name": "t", "roles": ["target"], "facts": HostFacts::unknown("a test")}], "software": [],
            "targets": [found], "controls": [], "placement": placement, "readings": [],
        });
        let mut environment: Environment = serde_json::from_value(environment).expect("an environment");
        change(&mut environment.hosts[0].facts);
        let declared = Declared::of(&[&environment]);
        let environment = Some(&environment);
        let rows = [
            software(environment, &[environment.expect("it is there")], &declared),
            hardware(environment, &declared),
            cluster(environment, &declared),
        ];
        rows.map(|row| id(&row.expect("a row")))
    }

    #[test]
    fn what_differs_has_another_key() {
        let of = |target: &Value, declared: &[(&str, &str)]| keys(target, declared, |_| ());
        let version = |version: &str| json!({"version": {"source": "observed", "value": version, "how": "GET /version"}});
        let image = |name: &str| json!({"image": {"reference": "r/vllm:1", "digest": Digest::of(name.as_bytes())}});
        let [software, hardware, cluster] = of(&json!({}), &[]);
        let is_other = |other: [String; 3]| [other[0] != software, other[1] != hardware, other[2] != cluster];
        assert_eq!(is_other(of(&json!({}), &[])), [false; 3]);
        for declared in [("driver_version", "570"), ("framework", "vllm 0.33"), ("cuda_version", "13")] {
            assert_eq!(is_other(of(&json!({}), &[declared])), [true, false, false], "{declared:?}");
        }
        for declared in
            [("region", "eu"), ("node_pool", "h200"), ("availability_zone", "a"), ("queue", "q"), ("tenant_mode", "shared")]
        {
            assert_eq!(is_other(of(&json!({}), &[declared])), [false, false, true], "{declared:?}");
        }
        assert_ne!(of(&version("0.31"), &[])[0], of(&version("0.33"), &[])[0]);
        assert_ne!(of(&image("one"), &[])[0], of(&image("other"), &[])[0]);
        let gpus = |model: &str, count: &str| of(&json!({}), &[("gpu_model", model), ("gpu_count", count)])[1].clone();
        let all = BTreeSet::from([gpus("H200", "8"), gpus("A100", "8"), gpus("H200", "2"), hardware.clone()]);
        assert_eq!(all.len(), 4, "model and count tell GPUs apart");
        let seen = |facts: &mut HostFacts| facts.gpus = Fact::observed(Vec::new(), "the driver");
        let declared = [("gpu_model", "H200"), ("gpu_count", "8")];
        assert_eq!(keys(&json!({}), &declared, seen)[1], keys(&json!({}), &[], seen)[1], "what was seen stands");
    }
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
