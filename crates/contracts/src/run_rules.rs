//! The rules of a BenchmarkRun, with the messages of the project that defined it.
//!
//! They read like its documentation: one function for each part of `spec`. Where its program lists missing members in the order of a hash
//! table, they are sorted here. A boolean is no number here, although it is one in the language of that program.

use serde_json::{Value, json};

use crate::part::{Part, at, missing, words};
use crate::problem::Problem;

/// The API group of a BenchmarkRun.
pub const API_GROUP: &str = "benchmarking.aisp.dev";

/// The variables of which one may differ between the sides of a comparison.
pub const VARIABLES: [&str; 7] = [
    "hardware_generation",
    "runtime_version",
    "scheduler_path",
    "control_plane_path",
    "driver_stack",
    "network_topology",
    "storage_stack",
];

const CLASSES: [&str; 2] = ["publication_grade", "realism_grade"];
const TYPES: [&str; 3] = ["training", "inference", "mixed"];
const LAYERS: [&str; 3] = ["micro", "component", "end_to_end"];
const FIXED: [&str; 5] = ["model", "sequenceLengthMix", "precision", "batchingPolicy", "concurrencyModel"];
const TRAINING_METRICS: [&str; 4] = ["time_to_train_hours", "mfu_pct", "scaling_efficiency_pct", "training_reliability_pct"];
const INFERENCE_METRICS: [&str; 4] = ["ttft_ms", "tokens_per_second", "p99_latency_ms", "jitter_ms"];
const COSTS: [&str; 2] = ["cost_per_token_usd", "cost_per_request_usd"];
/// Sorted, as the rules report them one by one.
const BOTTLENECKS: [&str; 4] = ["comm_bound", "compute_bound", "control_plane_bound", "input_bound"];
const OVERHEADS: [&str; 4] = ["compute", "communication", "storage", "orchestration"];
const NODE_CHECKS: [&str; 5] = ["rdma_pathing", "gpu_nic_affinity", "pcie_link_health", "nvlink_health", "thermal_throttling"];
const REMEDIATIONS: [&str; 2] = ["cordon_problematic_node", "isolate_bad_node"];
const JOIN_KEYS: [&str; 7] = ["run_id", "benchmark_case_id", "scheduler_run_id", "job_uid", "pod_uid", "node_name", "gpu_uuid"];
const EXPORTERS: [&str; 6] =
    ["dcgm-exporter", "nvlink-exporter", "node-pci-exporter", "ping-exporter", "node-problem-detector", "hpc-verification"];
const PLAYBOOKS: [&str; 4] =
    ["tail_latency_regression", "low_gpu_utilization", "distributed_straggler", "scheduler_backpressure"];
const CAPTURES: [&str; 6] = [
    "auditTrail",
    "driverCudaNcclRuntimeVersions",
    "hardwareTopology",
    "imageDigest",
    "immutableRawArtifacts",
    "pinnedWorkloadSpec",
];
const PUBLICATION_POLICY: [&str; 4] = ["dedicatedNodes", "fixedTopology", "stableBackgroundLoad", "topologyExclusiveScheduling"];
const RAW_ARTIFACTS: [&str; 4] = ["logs", "traces", "profiler_reports", "manifests"];
const FACTS: [&str; 2] = ["benchmark_run_fact", "telemetry_slice_fact"];
const DIMENSIONS: [&str; 5] =
    ["software_version_dim", "hardware_topology_dim", "cluster_region_dim", "workload_dim", "artifact_lineage_dim"];

/// The part of `spec.intent` that other rules depend on. A word that is none counts as the strictest one.
struct Intent<'a> {
    is_publication: bool,
    is_realism: bool,
    has_training: bool,
    has_inference: bool,
    scheduler_path: &'a str,
}

/// Returns the rules that a BenchmarkRun breaks, in the order of the document.
pub(crate) fn check(document: &Value) -> Vec<Problem> {
    if !document.is_object() {
        return vec![Problem::new("document", "expected YAML mapping")];
    }
    let mut problems = Vec::new();
    let root = Part::root(document);
    root.expect_texts(&["apiVersion"], &mut problems);
    if root.text("kind") != Some("BenchmarkRun") {
        root.report("kind", "expected BenchmarkRun", &mut problems);
    }
    root.mapping("metadata", &mut problems).expect_texts(&["name"], &mut problems);
    let spec = root.mapping("spec", &mut problems);
    let intent = check_intent(&spec, &mut problems);
    check_layers(&spec, &mut problems);
    check_workload(&spec, &mut problems);
    check_comparison(&spec, &mut problems);
    check_metrics(&spec, &intent, &mut problems);
    check_trials(&spec, &mut problems);
    check_bottleneck_analysis(&spec, &mut problems);
    check_distributed(&spec, &mut problems);
    check_observability(&spec, &intent, &mut problems);
    check_provenance(&spec, &intent, &mut problems);
    check_execution_policy(&spec, &intent, &mut problems);
    check_sinks(&spec, &intent, &mut problems);
    spec.mapping("automation", &mut problems)
        .mapping("ci", &mut problems)
        .expect_booleans(&["canary", "nightly", "preRelease"], &mut problems);
    problems
}

fn check_intent<'a>(spec: &Part<'a>, problems: &mut Vec<Problem>) -> Intent<'a> {
    let intent = spec.mapping("intent", problems);
    let class = one_of(&intent, "benchmarkClass", &CLASSES, problems).unwrap_or("publication_grade");
    let kind = one_of(&intent, "workloadType", &TYPES, problems).unwrap_or("mixed");
    intent.expect_texts(&["schedulerPath", "cadence"], problems);
    Intent {
        is_publication: class == "publication_grade",
        is_realism: class == "realism_grade",
        has_training: kind != "inference",
        has_inference: kind != "training",
        scheduler_path: intent.text("schedulerPath").unwrap_or_default(),
    }
}

/// Returns a word, and reports it if it is none of the allowed ones.
fn one_of<'a>(part: &Part<'a>, name: &str, allowed: &[&str], problems: &mut Vec<Problem>) -> Option<&'a str> {
    let word = part.text(name).filter(|word| allowed.contains(word));
    if word.is_none() {
        part.report(name, format!("expected one of {}", words(allowed)), problems);
    }
    word
}

/// Reports a list that lacks required words, with the start of the message.
fn includes(part: &Part<'_>, name: &str, required: &[&str], message: &str, problems: &mut Vec<Problem>) {
    if let Some(lacking) = missing(part.list(name, problems), required) {
        part.report(name, format!("{message} {lacking}"), problems);
    }
}

/// Reports a list that lacks required words, with a message that names all of them.
fn includes_all(part: &Part<'_>, name: &str, required: &[&str], message: &str, problems: &mut Vec<Problem>) {
    if missing(part.list(name, problems), required).is_some() {
        part.report(name, message, problems);
    }
}

fn check_layers(spec: &Part<'_>, problems: &mut Vec<Problem>) {
    let (mut has_enabled, mut present) = (false, Vec::new());
    for (index, layer) in spec.list("layers", problems).iter().enumerate() {
        let layer = Part::item(layer, format!("spec.layers[{index}]"), problems);
        let Some(name) = layer.text("name").filter(|name| !name.is_empty()) else {
            layer.report("name", "expected non-empty string", problems);
            continue;
        };
        present.push(Value::from(name));
        let Some(enabled) = layer.get("enabled").and_then(Value::as_bool) else {
            layer.report("enabled", "expected boolean", problems);
            continue;
        };
        has_enabled |= enabled;
        if layer.list("suites", problems).is_empty() && enabled {
            layer.report("suites", "enabled layer must declare at least one suite", problems);
        }
    }
    if !has_enabled {
        spec.report("layers", "at least one layer must be enabled", problems);
    }
    if let Some(lacking) = missing(&present, &LAYERS) {
        spec.report("layers", format!("template must model all methodology layers; missing {lacking}"), problems);
    }
}

fn check_workload(spec: &Part<'_>, problems: &mut Vec<Problem>) {
    let workload = spec.mapping("workload", problems);
    workload.expect_texts(&["model", "precision", "batchingPolicy", "concurrencyModel"], problems);
    if workload.list("sequenceLengthMix", problems).is_empty() {
        workload.report("sequenceLengthMix", "expected at least one sequence mix entry", problems);
    }
}

fn check_comparison(spec: &Part<'_>, problems: &mut Vec<Problem>) {
    let comparison = spec.mapping("comparison", problems);
    one_of(&comparison, "variableUnderTest", &VARIABLES, problems);
    let controls = comparison.mapping("controls", problems);
    let fixed = controls.mapping("fixed", problems);
    let lacking: Vec<&str> = FIXED.iter().filter(|name| !fixed.has(name)).copied().collect();
    if !lacking.is_empty() {
        controls.report("fixed", format!("missing fixed workload controls {}", words(&lacking)), problems);
    }
    controls.expect_true(&["compareOneVariableAtATime"], "must be true", problems);
}

fn check_metrics(spec: &Part<'_>, intent: &Intent<'_>, problems: &mut Vec<Problem>) {
    let metrics = spec.mapping("metrics", problems);
    let training = metrics.mapping("training", problems);
    let inference = metrics.mapping("inference", problems);
    let of_training = training.list("primary", problems);
    let of_inference = inference.list("primary", problems);
    if intent.has_training {
        training.expect_true(&["enabled"], "must be true for training or mixed workloads", problems);
        if let Some(lacking) = missing(of_training, &TRAINING_METRICS) {
            training.report("primary", format!("missing training metrics {lacking}"), problems);
        }
    }
    if intent.has_inference {
        inference.expect_true(&["enabled"], "must be true for inference or mixed workloads", problems);
        if let Some(lacking) = missing(of_inference, &INFERENCE_METRICS) {
            inference.report("primary", format!("missing inference metrics {lacking}"), problems);
        }
        if COSTS.iter().all(|cost| missing(of_inference, &[cost]).is_some()) {
            inference.report("primary", "must include cost_per_token_usd or cost_per_request_usd", problems);
        }
    }
}

fn check_trials(spec: &Part<'_>, problems: &mut Vec<Problem>) {
    let trials = spec.mapping("trials", problems);
    if trials.get("minReplicates").and_then(Value::as_u64).is_none_or(|replicates| replicates < 3) {
        trials.report("minReplicates", "must be an integer >= 3", problems);
    }
    if !trials.get("confidenceLevel").and_then(Value::as_f64).is_some_and(|level| (0.8..1.0).contains(&level)) {
        trials.report("confidenceLevel", "must be between 0.8 and 1.0", problems);
    }
    trials.mapping("outlierPolicy", problems).expect_texts(&["method", "action"], problems);
    let report = trials.mapping("report", problems);
    report.expect_true(&["distributions", "confidenceIntervals", "rankLevelOutliers"], "must be true", problems);
}

fn check_bottleneck_analysis(spec: &Part<'_>, problems: &mut Vec<Problem>) {
    let analysis = spec.mapping("bottleneckAnalysis", problems);
    includes(&analysis, "taxonomy", &BOTTLENECKS, "missing bottleneck classes", problems);
    includes(&analysis, "decomposeOverheads", &OVERHEADS, "missing decomposition buckets", problems);
    let instrumentation = analysis.mapping("instrumentation", problems);
    for class in BOTTLENECKS {
        if instrumentation.list(class, problems).is_empty() {
            instrumentation.report(class, "must declare at least one probe", problems);
        }
    }
}

fn check_distributed(spec: &Part<'_>, problems: &mut Vec<Problem>) {
    let distributed = spec.mapping("distributed", problems);
    distributed.expect_true(&["requireRankLevelVisibility"], "must be true", problems);
    includes_all(&distributed, "collectives", &["latency", "bandwidth"], "must include latency and bandwidth", problems);
    let diagnosis = distributed.mapping("nodeDiagnosis", problems);
    includes(&diagnosis, "validate", &NODE_CHECKS, "missing node-level checks", problems);
    let both = "must include cordon_problematic_node and isolate_bad_node";
    includes_all(&diagnosis, "remediation", &REMEDIATIONS, both, problems);
}

fn check_observability(spec: &Part<'_>, intent: &Intent<'_>, problems: &mut Vec<Problem>) {
    let observability = spec.mapping("observability", problems);
    let correlation = observability.mapping("correlation", problems);
    let keys = correlation.list("stableJoinKeys", problems);
    let mut requires = |is_required: bool, required: &[&str], message: &str| {
        if let Some(lacking) = missing(keys, required).filter(|_| is_required) {
            correlation.report("stableJoinKeys", format!("{message} {lacking}"), problems);
        }
    };
    requires(true, &JOIN_KEYS, "missing stable join keys");
    requires(intent.has_training, &["rank_id"], "training or mixed runs must include");
    requires(intent.has_inference, &["request_id", "trace_id"], "inference or mixed runs must include");
    let lineage = correlation.mapping("publishedNumberLineage", problems);
    lineage.expect_true(&["rawArtifactManifestDigest", "warehouseRowLineage", "querySpecCaptured"], "must be true", problems);
    check_telemetry(&observability, intent, problems);
    includes(&observability, "scenarioPlaybooks", &PLAYBOOKS, "missing scenario playbooks", problems);
}

fn check_telemetry(observability: &Part<'_>, intent: &Intent<'_>, problems: &mut Vec<Problem>) {
    let telemetry = observability.mapping("telemetrySources", problems);
    if telemetry.list("service", problems).is_empty() {
        telemetry.report("service", "must declare at least one service signal", problems);
    }
    includes(&telemetry, "infrastructure", &EXPORTERS, "missing infrastructure telemetry sources", problems);
    let scheduler = telemetry.list("scheduler", problems);
    if missing(scheduler, &["kubernetes_events"]).is_some() {
        telemetry.report("scheduler", "must include kubernetes_events", problems);
    }
    let path = intent.scheduler_path;
    for required in ["kueue", "slinky"] {
        if path.contains(required) && missing(scheduler, &[required]).is_some() {
            let message = format!("scheduler path '{path}' must include telemetry source '{required}'");
            telemetry.report("scheduler", message, problems);
        }
    }
}

fn check_provenance(spec: &Part<'_>, intent: &Intent<'_>, problems: &mut Vec<Problem>) {
    let provenance = spec.mapping("provenance", problems);
    provenance.mapping("capture", problems).expect_true(&CAPTURES, "must be true", problems);
    let signing = provenance.mapping("signing", problems);
    if intent.is_publication {
        signing.expect_true(&["required"], "must be true for publication-grade runs", problems);
        signing.expect_texts(&["backend", "attestationFormat"], problems);
    }
}

fn check_execution_policy(spec: &Part<'_>, intent: &Intent<'_>, problems: &mut Vec<Problem>) {
    let policy = spec.mapping("executionPolicy", problems);
    let publication = policy.mapping("publicationGrade", problems);
    let realism = policy.mapping("realismGrade", problems);
    if intent.is_publication {
        publication.expect_true(&PUBLICATION_POLICY, "must be true", problems);
    }
    if intent.is_realism {
        let both = ["multiTenantScenarios", "captureClusterContext"];
        realism.expect_true(&both, "must be true for realism-grade runs", problems);
    }
}

fn check_sinks(spec: &Part<'_>, intent: &Intent<'_>, problems: &mut Vec<Problem>) {
    let sinks = spec.mapping("sinks", problems);
    let raw = sinks.mapping("rawArtifacts", problems);
    raw.expect_texts(&["store", "pathTemplate", "retentionClass"], problems);
    includes(&raw, "artifacts", &RAW_ARTIFACTS, "missing raw artifact classes", problems);
    check_hot_metrics(&sinks.mapping("hotMetrics", problems), problems);
    check_warehouse(&sinks.mapping("curatedWarehouse", problems), intent, problems);
}

fn check_hot_metrics(hot: &Part<'_>, problems: &mut Vec<Problem>) {
    hot.expect_texts(&["store"], problems);
    hot.positive("retentionDays", problems);
    let budget = hot.mapping("cardinalityBudget", problems);
    budget.positive("maxActiveSeries", problems);
    let message = "must include request_id and trace_id to keep hot-metric cardinality bounded";
    includes_all(&budget, "dropDimensions", &["request_id", "trace_id"], message, problems);
}

fn check_warehouse(warehouse: &Part<'_>, intent: &Intent<'_>, problems: &mut Vec<Problem>) {
    warehouse.expect_texts(&["store"], problems);
    let layout = warehouse.mapping("layout", problems);
    let facts = layout.list("facts", problems);
    if let Some(lacking) = missing(facts, &FACTS) {
        layout.report("facts", format!("missing warehouse facts {lacking}"), problems);
    }
    if intent.has_inference && missing(facts, &["serving_outcome_fact"]).is_some() {
        layout.report("facts", "inference or mixed runs must include serving_outcome_fact", problems);
    }
    if intent.has_training && missing(facts, &["training_outcome_fact"]).is_some() {
        layout.report("facts", "training or mixed runs must include training_outcome_fact", problems);
    }
    includes(&layout, "dimensions", &DIMENSIONS, "missing warehouse dimensions", problems);
    let retention = warehouse.mapping("retention", problems);
    let [hot, warm, cold] = ["hotDays", "warmDays", "coldDays"].map(|name| retention.positive(name, problems));
    if let (Some(hot), Some(warm), Some(cold)) = (hot, warm, cold)
        && !(hot <= warm && warm <= cold)
    {
        warehouse.report("retention", "must satisfy hotDays <= warmDays <= coldDays", problems);
    }
    let lineage = warehouse.mapping("lineage", problems);
    let columns = ["publishedNumbersTraceableToRaw", "manifestDigestColumn", "workloadSpecDigestColumn"];
    lineage.expect_true(&columns, "must be true", problems);
}

/// Returns the summary of a valid BenchmarkRun.
pub(crate) fn summarize(document: &Value) -> Value {
    let value = |path: &str| at(document, path).cloned().unwrap_or(Value::Null);
    let layers = at(document, "spec.layers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let enabled: Vec<&Value> = layers
        .iter()
        .filter(|layer| layer.get("enabled") == Some(&Value::Bool(true)))
        .filter_map(|layer| layer.get("name"))
        .collect();
    json!({
        "name": value("metadata.name"),
        "benchmark_class": value("spec.intent.benchmarkClass"),
        "workload_type": value("spec.intent.workloadType"),
        "variable_under_test": value("spec.comparison.variableUnderTest"),
        "enabled_layers": enabled,
        "scheduler_path": value("spec.intent.schedulerPath"),
        "hot_metrics_store": value("spec.sinks.hotMetrics.store"),
        "warehouse_store": value("spec.sinks.curatedWarehouse.store"),
        "ci_schedule": {
            "canary": value("spec.automation.ci.canary"),
            "nightly": value("spec.automation.ci.nightly"),
            "preRelease": value("spec.automation.ci.preRelease"),
        },
    })
}
