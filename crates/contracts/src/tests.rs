//! The rules, each with a document that breaks it and the exact message; the defects of the original that are not here; the renderer.

use std::path::Path;

use assay_spec::parse_documents;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::part::at;
use crate::{
    FIELDS, Interface, OverrideError, SCHEMA_VERSION, SURFACES, SurfaceKind, VARIABLES, render_run, summarize,
    summarize_contracts, validate, workload_spec_digest,
};

fn parse(text: &str) -> Value {
    parse_documents("a.yaml", text.as_bytes()).expect("YAML").into_iter().next().expect("a document")
}

fn run(overrides: &[(&str, &str)]) -> Value {
    parse(&render_run(overrides.iter().copied()).expect("valid overrides").yaml)
}

fn messages(document: &Value) -> Vec<String> {
    validate(document).iter().map(ToString::to_string).collect()
}

/// Returns the document with a value at a path; a null value removes the member.
fn with(document: &Value, path: &str, value: Value) -> Value {
    let mut changed = document.clone();
    let (parent, name) = path.rsplit_once('.').map_or((None, path), |(parent, name)| (Some(parent), name));
    let pointer = parent.map(|parent| format!("/{}", parent.replace('.', "/"))).unwrap_or_default();
    let members = changed.pointer_mut(&pointer).and_then(Value::as_object_mut).expect(path);
    if value.is_null() {
        members.remove(name)
    } else {
        members.insert(name.to_owned(), value)
    };
    changed
}

/// Checks that a change breaks exactly one rule.
#[track_caller]
fn breaks(document: &Value, path: &str, value: Value, expected: &str) {
    assert_eq!(messages(&with(document, path, value.clone())), [expected], "{path}: {value}");
}

/// Returns the items of a list without one of them.
fn without(document: &Value, path: &str, item: &str) -> Value {
    let items = at(document, path).and_then(Value::as_array).expect(path);
    assert!(items.iter().any(|found| found == item), "{path} has {item}");
    items.iter().filter(|found| *found != item).cloned().collect()
}

#[test]
fn each_part_that_is_absent_is_reported() {
    let document = run(&[]);
    assert_eq!(messages(&document), [""; 0]);
    assert_eq!(messages(&json!([])), ["document: expected YAML mapping"]);
    assert_eq!(messages(&json!("text")), ["document: expected YAML mapping"]);
    breaks(&document, "apiVersion", Value::Null, "apiVersion: expected non-empty string");
    breaks(&document, "apiVersion", json!(""), "apiVersion: expected non-empty string");
    breaks(&document, "kind", json!("Run"), "kind: expected BenchmarkRun");
    breaks(&document, "metadata.name", json!(7), "metadata.name: expected non-empty string");
    let parts = [
        ("metadata", "metadata: expected mapping"),
        ("spec", "spec: expected mapping"),
        ("spec.intent", "spec.intent: expected mapping"),
        ("spec.workload", "spec.workload: expected mapping"),
        ("spec.comparison", "spec.comparison: expected mapping"),
        ("spec.comparison.controls", "spec.comparison.controls: expected mapping"),
        ("spec.comparison.controls.fixed", "spec.comparison.controls.fixed: expected mapping"),
        ("spec.metrics", "spec.metrics: expected mapping"),
        ("spec.metrics.training", "spec.metrics.training: expected mapping"),
        ("spec.metrics.training.primary", "spec.metrics.training.primary: expected list"),
        ("spec.metrics.inference", "spec.metrics.inference: expected mapping"),
        ("spec.metrics.inference.primary", "spec.metrics.inference.primary: expected list"),
        ("spec.trials", "spec.trials: expected mapping"),
        ("spec.trials.outlierPolicy", "spec.trials.outlierPolicy: expected mapping"),
        ("spec.trials.report", "spec.trials.report: expected mapping"),
        ("spec.bottleneckAnalysis", "spec.bottleneckAnalysis: expected mapping"),
        ("spec.bottleneckAnalysis.taxonomy", "spec.bottleneckAnalysis.taxonomy: expected list"),
        ("spec.bottleneckAnalysis.instrumentation", "spec.bottleneckAnalysis.instrumentation: expected mapping"),
        ("spec.distributed", "spec.distributed: expected mapping"),
        ("spec.distributed.nodeDiagnosis", "spec.distributed.nodeDiagnosis: expected mapping"),
        ("spec.observability", "spec.observability: expected mapping"),
        ("spec.observability.correlation", "spec.observability.correlation: expected mapping"),
        ("spec.observability.telemetrySources", "spec.observability.telemetrySources: expected mapping"),
        ("spec.provenance", "spec.provenance: expected mapping"),
        ("spec.provenance.capture", "spec.provenance.capture: expected mapping"),
        ("spec.provenance.signing", "spec.provenance.signing: expected mapping"),
        ("spec.executionPolicy", "spec.executionPolicy: expected mapping"),
        ("spec.executionPolicy.realismGrade", "spec.executionPolicy.realismGrade: expected mapping"),
        ("spec.sinks", "spec.sinks: expected mapping"),
        ("spec.sinks.rawArtifacts", "spec.sinks.rawArtifacts: expected mapping"),
        ("spec.sinks.hotMetrics", "spec.sinks.hotMetrics: expected mapping"),
        ("spec.sinks.hotMetrics.cardinalityBudget", "spec.sinks.hotMetrics.cardinalityBudget: expected mapping"),
        ("spec.sinks.curatedWarehouse", "spec.sinks.curatedWarehouse: expected mapping"),
        ("spec.sinks.curatedWarehouse.layout", "spec.sinks.curatedWarehouse.layout: expected mapping"),
        ("spec.sinks.curatedWarehouse.retention", "spec.sinks.curatedWarehouse.retention: expected mapping"),
        ("spec.sinks.curatedWarehouse.lineage", "spec.sinks.curatedWarehouse.lineage: expected mapping"),
        ("spec.automation", "spec.automation: expected mapping"),
        ("spec.automation.ci", "spec.automation.ci: expected mapping"),
    ];
    for (path, expected) in parts {
        for value in [Value::Null, json!("text")] {
            let found = messages(&with(&document, path, value));
            assert!(found.iter().any(|message| message == expected), "{expected}: {found:?}");
        }
    }
}

#[test]
fn intent_and_layers_have_their_rules() {
    let document = run(&[]);
    let class = "spec.intent.benchmarkClass: expected one of ['publication_grade', 'realism_grade']";
    breaks(&document, "spec.intent.benchmarkClass", json!("publication"), class);
    let kind = messages(&with(&document, "spec.intent.workloadType", json!("serving")));
    assert_eq!(
        kind,
        [
            "spec.intent.workloadType: expected one of ['inference', 'mixed', 'training']",
            "spec.metrics.training.enabled: must be true for training or mixed workloads"
        ]
    );
    breaks(&document, "spec.intent.schedulerPath", json!(""), "spec.intent.schedulerPath: expected non-empty string");
    breaks(&document, "spec.intent.cadence", Value::Null, "spec.intent.cadence: expected non-empty string");
    let layer = |name: &str, enabled: Value, suites: Value| json!({"name": name, "enabled": enabled, "suites": suites});
    let (off, on) = (json!(false), json!(true));
    let layers =
        |changed: Value| json!([layer("micro", off.clone(), json!([])), layer("component", off.clone(), json!([])), changed]);
    let suites = json!([{"name": "a"}]);
    let cases = [
        (
            layer("end_to_end", on.clone(), json!([])),
            vec!["spec.layers[2].suites: enabled layer must declare at least one suite"],
        ),
        (layer("end_to_end", off.clone(), json!([])), vec!["spec.layers: at least one layer must be enabled"]),
        (
            layer("end_to_end", json!("yes"), suites.clone()),
            vec!["spec.layers[2].enabled: expected boolean", "spec.layers: at least one layer must be enabled"],
        ),
        (
            layer("other", on.clone(), suites.clone()),
            vec!["spec.layers: template must model all methodology layers; missing ['end_to_end']"],
        ),
        (
            json!({"name": "end_to_end", "enabled": true}),
            vec!["spec.layers[2].suites: expected list", "spec.layers[2].suites: enabled layer must declare at least one suite"],
        ),
    ];
    for (changed, expected) in cases {
        assert_eq!(messages(&with(&document, "spec.layers", layers(changed))), expected);
    }
    let nameless = messages(&with(&document, "spec.layers", json!([{"name": ""}, 7])));
    assert_eq!(
        nameless,
        [
            "spec.layers[0].name: expected non-empty string",
            "spec.layers[1]: expected mapping",
            "spec.layers[1].name: expected non-empty string",
            "spec.layers: at least one layer must be enabled",
            "spec.layers: template must model all methodology layers; missing ['component', 'end_to_end', 'micro']",
        ]
    );
}

#[test]
fn workload_and_comparison_have_their_rules() {
    let document = run(&[]);
    for name in ["model", "precision", "batchingPolicy", "concurrencyModel"] {
        let message = format!("spec.workload.{name}: expected non-empty string");
        breaks(&document, &format!("spec.workload.{name}"), Value::Null, &message);
        let fixed = format!("spec.comparison.controls.fixed: missing fixed workload controls ['{name}']");
        breaks(&document, &format!("spec.comparison.controls.fixed.{name}"), Value::Null, &fixed);
    }
    let mix = messages(&with(&document, "spec.workload.sequenceLengthMix", Value::Null));
    let absent = "spec.workload.sequenceLengthMix: expected at least one sequence mix entry";
    assert_eq!(mix, ["spec.workload.sequenceLengthMix: expected list", absent]);
    let empty = messages(&with(&document, "spec.workload.sequenceLengthMix", json!([])));
    assert_eq!(empty.first().map(String::as_str), Some(absent));
    let variables = "spec.comparison.variableUnderTest: expected one of ['control_plane_path', 'driver_stack', 'hardware_generation', \
                     'network_topology', 'runtime_version', 'scheduler_path', 'storage_stack']";
    breaks(&document, "spec.comparison.variableUnderTest", json!("model"), variables);
    let path = "spec.comparison.controls.compareOneVariableAtATime";
    breaks(&document, path, json!("true"), &format!("{path}: must be true"));
}

#[test]
fn metrics_depend_on_the_type() {
    let (inference, training) = (run(&[]), run(&[("workloadType", "training")]));
    let path = "spec.metrics.inference.enabled";
    breaks(&inference, path, json!(false), &format!("{path}: must be true for inference or mixed workloads"));
    let path = "spec.metrics.training.enabled";
    breaks(&training, path, json!(false), &format!("{path}: must be true for training or mixed workloads"));
    let path = "spec.metrics.inference.primary";
    for metric in ["ttft_ms", "tokens_per_second", "p99_latency_ms", "jitter_ms"] {
        let expected = format!("{path}: missing inference metrics ['{metric}']");
        breaks(&inference, path, without(&inference, path, metric), &expected);
        assert_eq!(messages(&with(&training, path, json!([]))), [""; 0], "they are not of a training run");
    }
    let one = without(&inference, path, "cost_per_request_usd");
    assert_eq!(messages(&with(&inference, path, one.clone())), [""; 0], "one of the costs is enough");
    let none = without(&with(&inference, path, one), path, "cost_per_token_usd");
    breaks(&inference, path, none, &format!("{path}: must include cost_per_token_usd or cost_per_request_usd"));
    let path = "spec.metrics.training.primary";
    for metric in ["time_to_train_hours", "mfu_pct", "scaling_efficiency_pct", "training_reliability_pct"] {
        let expected = format!("{path}: missing training metrics ['{metric}']");
        breaks(&training, path, without(&training, path, metric), &expected);
    }
}

#[test]
fn trials_have_their_rules() {
    let document = run(&[]);
    for replicates in [json!(2), json!("5"), json!(5.5), json!(true), Value::Null] {
        breaks(&document, "spec.trials.minReplicates", replicates, "spec.trials.minReplicates: must be an integer >= 3");
    }
    for level in [json!(0.79), json!(1.0), json!(1), json!("0.9"), Value::Null] {
        breaks(&document, "spec.trials.confidenceLevel", level, "spec.trials.confidenceLevel: must be between 0.8 and 1.0");
    }
    for name in ["method", "action"] {
        let path = format!("spec.trials.outlierPolicy.{name}");
        breaks(&document, &path, json!(""), &format!("{path}: expected non-empty string"));
    }
    for name in ["distributions", "confidenceIntervals", "rankLevelOutliers"] {
        let path = format!("spec.trials.report.{name}");
        breaks(&document, &path, json!(1), &format!("{path}: must be true"));
    }
}

#[test]
fn analysis_and_distribution_have_their_rules() {
    let document = run(&[]);
    let lists = [
        ("spec.bottleneckAnalysis.taxonomy", "missing bottleneck classes", "comm_bound"),
        ("spec.bottleneckAnalysis.decomposeOverheads", "missing decomposition buckets", "storage"),
        ("spec.distributed.nodeDiagnosis.validate", "missing node-level checks", "nvlink_health"),
        ("spec.observability.telemetrySources.infrastructure", "missing infrastructure telemetry sources", "ping-exporter"),
        ("spec.observability.scenarioPlaybooks", "missing scenario playbooks", "low_gpu_utilization"),
        ("spec.sinks.rawArtifacts.artifacts", "missing raw artifact classes", "profiler_reports"),
        ("spec.sinks.curatedWarehouse.layout.facts", "missing warehouse facts", "telemetry_slice_fact"),
        ("spec.sinks.curatedWarehouse.layout.dimensions", "missing warehouse dimensions", "workload_dim"),
        ("spec.observability.correlation.stableJoinKeys", "missing stable join keys", "gpu_uuid"),
    ];
    for (path, message, item) in lists {
        breaks(&document, path, without(&document, path, item), &format!("{path}: {message} ['{item}']"));
    }
    for class in ["compute_bound", "comm_bound", "input_bound", "control_plane_bound"] {
        let path = format!("spec.bottleneckAnalysis.instrumentation.{class}");
        breaks(&document, &path, json!([]), &format!("{path}: must declare at least one probe"));
    }
    let path = "spec.distributed.requireRankLevelVisibility";
    breaks(&document, path, json!(false), &format!("{path}: must be true"));
    let path = "spec.distributed.collectives";
    breaks(&document, path, json!(["latency"]), &format!("{path}: must include latency and bandwidth"));
    let path = "spec.distributed.nodeDiagnosis.remediation";
    let both = format!("{path}: must include cordon_problematic_node and isolate_bad_node");
    breaks(&document, path, json!(["isolate_bad_node"]), &both);
}

#[test]
fn observability_depends_on_type_and_scheduler() {
    let (inference, training) = (run(&[]), run(&[("workloadType", "training")]));
    let path = "spec.observability.correlation.stableJoinKeys";
    let rank = format!("{path}: training or mixed runs must include ['rank_id']");
    breaks(&training, path, without(&training, path, "rank_id"), &rank);
    assert_eq!(messages(&with(&inference, path, without(&inference, path, "rank_id"))), [""; 0]);
    let request = format!("{path}: inference or mixed runs must include ['request_id']");
    breaks(&inference, path, without(&inference, path, "request_id"), &request);
    for name in ["rawArtifactManifestDigest", "warehouseRowLineage", "querySpecCaptured"] {
        let path = format!("spec.observability.correlation.publishedNumberLineage.{name}");
        breaks(&inference, &path, json!(false), &format!("{path}: must be true"));
    }
    let path = "spec.observability.telemetrySources.service";
    breaks(&inference, path, json!([]), &format!("{path}: must declare at least one service signal"));
    let path = "spec.observability.telemetrySources.scheduler";
    let events = format!("{path}: must include kubernetes_events");
    breaks(&inference, path, json!(["kueue", "slinky"]), &events);
    for source in ["kueue", "slinky"] {
        let expected = format!("{path}: scheduler path 'slinky-kueue' must include telemetry source '{source}'");
        breaks(&inference, path, without(&inference, path, source), &expected);
    }
    let plain = run(&[("schedulerPath", "default")]);
    assert_eq!(messages(&with(&plain, path, json!(["kubernetes_events"]))), [""; 0]);
}

#[test]
fn provenance_and_policy_depend_on_the_class() {
    let (publication, realism) = (run(&[]), run(&[("benchmarkClass", "realism_grade")]));
    for name in [
        "pinnedWorkloadSpec",
        "imageDigest",
        "driverCudaNcclRuntimeVersions",
        "hardwareTopology",
        "immutableRawArtifacts",
        "auditTrail",
    ] {
        let path = format!("spec.provenance.capture.{name}");
        breaks(&realism, &path, json!(false), &format!("{path}: must be true"));
    }
    let path = "spec.provenance.signing.required";
    breaks(&publication, path, json!(false), &format!("{path}: must be true for publication-grade runs"));
    assert_eq!(messages(&with(&realism, path, json!(false))), [""; 0]);
    for name in ["backend", "attestationFormat"] {
        let path = format!("spec.provenance.signing.{name}");
        breaks(&publication, &path, Value::Null, &format!("{path}: expected non-empty string"));
        assert_eq!(messages(&with(&realism, &path, Value::Null)), [""; 0]);
    }
    for name in ["dedicatedNodes", "stableBackgroundLoad", "fixedTopology", "topologyExclusiveScheduling"] {
        let path = format!("spec.executionPolicy.publicationGrade.{name}");
        breaks(&publication, &path, json!(false), &format!("{path}: must be true"));
        assert_eq!(messages(&with(&realism, &path, json!(false))), [""; 0]);
    }
    for name in ["multiTenantScenarios", "captureClusterContext"] {
        let path = format!("spec.executionPolicy.realismGrade.{name}");
        breaks(&realism, &path, json!(false), &format!("{path}: must be true for realism-grade runs"));
        assert_eq!(messages(&with(&publication, &path, json!(false))), [""; 0]);
    }
}

#[test]
fn sinks_and_automation_have_their_rules() {
    let document = run(&[]);
    for name in [
        "rawArtifacts.store",
        "rawArtifacts.pathTemplate",
        "rawArtifacts.retentionClass",
        "hotMetrics.store",
        "curatedWarehouse.store",
    ] {
        let path = format!("spec.sinks.{name}");
        breaks(&document, &path, json!(""), &format!("{path}: expected non-empty string"));
    }
    for name in ["hotMetrics.retentionDays", "hotMetrics.cardinalityBudget.maxActiveSeries", "curatedWarehouse.retention.hotDays"]
    {
        let path = format!("spec.sinks.{name}");
        for value in [json!(0), json!(-1), json!("30"), json!(1.5)] {
            breaks(&document, &path, value, &format!("{path}: must be a positive integer"));
        }
    }
    let path = "spec.sinks.hotMetrics.cardinalityBudget.dropDimensions";
    let both = format!("{path}: must include request_id and trace_id to keep hot-metric cardinality bounded");
    breaks(&document, path, json!(["trace_id"]), &both);
    let path = "spec.sinks.curatedWarehouse.layout.facts";
    let serving = format!("{path}: inference or mixed runs must include serving_outcome_fact");
    breaks(&document, path, without(&document, path, "serving_outcome_fact"), &serving);
    let training = run(&[("workloadType", "training")]);
    let of_training = format!("{path}: training or mixed runs must include training_outcome_fact");
    breaks(&training, path, without(&training, path, "training_outcome_fact"), &of_training);
    let order = "spec.sinks.curatedWarehouse.retention: must satisfy hotDays <= warmDays <= coldDays";
    breaks(&document, "spec.sinks.curatedWarehouse.retention.warmDays", json!(29), order);
    for name in ["publishedNumbersTraceableToRaw", "manifestDigestColumn", "workloadSpecDigestColumn"] {
        let path = format!("spec.sinks.curatedWarehouse.lineage.{name}");
        breaks(&document, &path, json!(null), &format!("{path}: must be true"));
    }
    for name in ["canary", "nightly", "preRelease"] {
        let path = format!("spec.automation.ci.{name}");
        breaks(&document, &path, json!("on"), &format!("{path}: expected boolean"));
    }
}

#[test]
fn a_workload_that_contradicts_itself_is_reported() {
    let document = run(&[]);
    for name in ["model", "precision", "batchingPolicy", "concurrencyModel"] {
        let path = format!("spec.comparison.controls.fixed.{name}");
        breaks(&document, &path, json!("other"), &format!("{path}: must equal spec.workload.{name}"));
    }
    let path = "spec.comparison.controls.fixed.sequenceLengthMix";
    let mix = at(&document, "spec.workload.sequenceLengthMix").cloned().expect("a mix");
    assert_eq!(messages(&with(&document, path, mix)), [""; 0], "the list itself is the same as its notation");
    let differs = format!("{path}: must equal spec.workload.sequenceLengthMix");
    breaks(&document, path, json!("[{512/128@0.7},{1024/256@0.2}]"), &differs);
    let (mix, fixed) = ("spec.workload.sequenceLengthMix", "spec.comparison.controls.fixed.sequenceLengthMix");
    let entry = |input: Value, weight: Value| json!([{"inputTokens": input, "outputTokens": 9, "weight": weight}]);
    for (entries, expected) in [
        (entry(json!(1), json!(0.9)), format!("{mix}: weights must sum to 1")),
        (entry(json!(0), json!(1)), format!("{mix}[0].inputTokens: must be a positive integer")),
        (entry(json!(1), json!("1")), format!("{mix}[0].weight: must be a number above 0")),
        (entry(json!(1), json!(-1)), format!("{mix}[0].weight: must be a number above 0")),
    ] {
        breaks(&with(&document, fixed, entries.clone()), mix, entries, &expected);
    }
}

/// The original's renderer leaves a table out that its own rules demand of a training run.
#[test]
fn every_rendered_run_is_valid() {
    for class in FIELDS[1].choices {
        for kind in FIELDS[2].choices {
            for cadence in FIELDS[4].choices {
                let variables = FIELDS[9].choices.iter();
                for variable in variables {
                    let overrides = [
                        ("benchmarkClass", *class),
                        ("workloadType", *kind),
                        ("cadence", *cadence),
                        ("comparisonVariable", *variable),
                    ];
                    let document = run(&overrides);
                    assert_eq!(messages(&document), [""; 0], "{overrides:?}");
                    let summary = summarize(&document);
                    assert_eq!((&summary["benchmark_class"], &summary["workload_type"]), (&json!(class), &json!(kind)));
                }
            }
        }
    }
}

#[test]
fn an_override_is_applied_wherever_the_template_has_it() {
    let document =
        run(&[("name", " chat "), ("model", "a: \"b\" #@name@"), ("schedulerPath", ""), ("concurrencyModel", "open_loop")]);
    assert_eq!(
        (at(&document, "metadata.name"), at(&document, "spec.intent.schedulerPath")),
        (Some(&json!("chat")), Some(&json!("slinky-kueue")))
    );
    for path in ["spec.workload.model", "spec.comparison.controls.fixed.model"] {
        assert_eq!(at(&document, path), Some(&json!("a: \"b\" #@name@")), "{path}");
    }
    let error = |overrides: [(&str, &str); 1]| render_run(overrides).expect_err("refused").to_string();
    assert_eq!(error([("owner", "me")]), "Unknown BenchmarkRun generator field: owner");
    assert_eq!(error([("cadence", "weekly")]), "cadence must be one of: canary, nightly, pre_release");
    assert_eq!(render_run([("name", "a\nb")]), Err(OverrideError::NotPlain("name")));
    assert_eq!(render_run([("model", "x".repeat(201).as_str())]), Err(OverrideError::NotPlain("model")));
}

#[test]
fn equal_overrides_give_equal_bytes() {
    let overrides = [("name", "chat"), ("precision", "fp8")];
    let (first, second) = (render_run(overrides).expect("rendered"), render_run(overrides).expect("rendered"));
    let at = "2026-11-29T12:00:00Z";
    assert_eq!(first.to_json(at).to_string(), second.to_json(at).to_string());
    let other = render_run([("name", "chat")]).expect("rendered");
    assert_ne!(first.yaml, other.yaml);
    let result = first.to_json(at);
    let keys: Vec<&String> = result.as_object().expect("an object").keys().collect();
    let mut expected = ["schema_version", "generated_at_utc", "template_path", "applied_values", "rendered_yaml"];
    let mut found = keys.clone();
    found.sort();
    expected.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!((&result["schema_version"], &result["generated_at_utc"]), (&json!(SCHEMA_VERSION), &json!(at)));
    assert_eq!(result["applied_values"]["precision"], "fp8");
}

#[test]
fn the_summary_names_the_documents_and_only_the_interfaces_that_are_served() {
    let at = "2026-11-29T12:00:00Z";
    let all = summarize_contracts(at, &[Interface::Cli, Interface::DashboardApi, Interface::Mcp]);
    let order = [
        "methodology",
        "warehouse",
        "workload_spec",
        "benchmark_run",
        "warehouse_contract",
        "kubernetes_service",
        "benchmark_run_crd",
    ];
    assert_eq!((&all["surface_order"], &all["surface_count"]), (&json!(order), &json!(7)));
    assert_eq!(
        (&all["available"], &all["missing_surface_count"], &all["missing_surfaces"]),
        (&json!(true), &json!(0), &json!([]))
    );
    assert_eq!(all["contracts"]["benchmark_run"]["summary"]["has_sinks"], true);
    assert_eq!(all["contracts"]["benchmark_run"]["summary"]["enabled_layers"], json!(["end_to_end"]));
    assert_eq!(all["contracts"]["workload_spec"]["summary"]["spec_keys"], Value::Null, "it has no `spec`");
    let ids: Vec<&Value> = all["interface_entries"].as_array().expect("a list").iter().map(|entry| &entry["id"]).collect();
    assert_eq!(ids, ["cli", "dashboard_api", "mcp"]);
    assert_eq!(
        all["interfaces"],
        json!({"cli": "assay contracts", "dashboard_api": "/api/benchmark/contracts", "mcp_tool": "benchmark_contracts"})
    );
    assert_eq!(all["generator"]["render_interface_entries"][1]["method"], "POST");
    assert_eq!(all["generator"]["choices"]["comparisonVariable"], json!(VARIABLES));
    assert!(all["generator"]["preview_yaml"].as_str().expect("a text").contains("kind: BenchmarkRun"));
    let one = summarize_contracts(at, &[Interface::Cli]);
    assert_eq!(one["interfaces"], json!({"cli": "assay contracts"}));
    assert!(!one.to_string().contains("mcp_tool") && !one.to_string().contains("/api/"), "{one}");
}

#[test]
fn each_document_is_in_the_repository() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for surface in SURFACES {
        let text = std::fs::read_to_string(repository.join(surface.path)).expect(surface.path);
        assert_eq!(surface.text.is_some(), surface.kind == SurfaceKind::Yaml, "{}", surface.name);
        assert!(surface.text.is_none_or(|embedded| embedded == text), "{}", surface.name);
    }
    let specification = SURFACES.iter().find(|surface| surface.name == "workload_spec").and_then(|surface| surface.text);
    assert_eq!(messages(&parse(specification.expect("a text"))), [""; 0]);
}

fn schema() -> Value {
    let text = SURFACES.iter().find(|surface| surface.name == "benchmark_run_crd").and_then(|surface| surface.text);
    parse(text.expect("a text"))["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

/// Calls a function with each schema inside a schema, and its path.
fn visit(path: &str, schema: &Value, check: &mut dyn FnMut(&str, &Value)) {
    check(path, schema);
    for (name, member) in schema["properties"].as_object().into_iter().flatten() {
        visit(&format!("{path}.{name}"), member, check);
    }
    if !schema["items"].is_null() {
        visit(&format!("{path}[]"), &schema["items"], check);
    }
}

/// A structural schema neither forbids nor drops members, and the original's did both.
#[test]
fn the_schema_of_objects_keeps_every_member() {
    let schema = schema();
    visit("", &schema, &mut |path, schema| {
        assert!(schema.get("additionalProperties").is_none(), "{path}");
        let is_open = schema["x-kubernetes-preserve-unknown-fields"] == true;
        assert!(is_open || schema["type"].is_string(), "{path} has a type");
        assert!(schema["type"] != "object" || path == ".metadata" || schema["properties"].is_object(), "{path} would be emptied");
    });
    let mut missing = Vec::new();
    let document = run(&[]);
    covers(&schema, &document, "", &mut missing);
    assert_eq!(missing, [""; 0]);
}

/// Collects the members of a document that a schema does not have.
fn covers(schema: &Value, document: &Value, path: &str, missing: &mut Vec<String>) {
    if schema["x-kubernetes-preserve-unknown-fields"] == true || path == ".metadata" {
        return;
    }
    for (name, value) in document.as_object().into_iter().flatten() {
        match schema["properties"].get(name) {
            Some(member) => covers(member, value, &format!("{path}.{name}"), missing),
            None => missing.push(format!("{path}.{name}")),
        }
    }
    for item in document.as_array().into_iter().flatten() {
        covers(&schema["items"], item, &format!("{path}[]"), missing);
    }
}

/// In the original, rules and schema contradict each other here.
#[test]
fn the_schema_of_objects_agrees_with_the_rules() {
    let schema = schema();
    let at = |path: &str| path.split('.').fold(&schema, |schema, name| &schema["properties"][name]);
    let layers = at("spec.layers");
    assert!(layers["items"]["properties"]["suites"].get("minItems").is_none(), "a disabled layer may have no suites");
    assert_eq!(layers["items"]["x-kubernetes-validations"][0]["rule"], "!self.enabled || size(self.suites) > 0");
    let level = at("spec.trials.confidenceLevel");
    assert_eq!((&level["minimum"], &level["maximum"], &level["exclusiveMaximum"]), (&json!(0.8), &json!(1), &json!(true)));
    assert_eq!(messages(&with(&run(&[]), "spec.trials.confidenceLevel", json!(0.9995))), [""; 0]);
    assert_eq!(at("spec.comparison.variableUnderTest")["enum"], json!(VARIABLES));
    assert_eq!(at("spec.intent.benchmarkClass")["enum"], json!(FIELDS[1].choices));
    assert_eq!(at("spec.trials.minReplicates")["minimum"], 3);
}

/// The original has three lists of raw artifacts. Here the template has that of the contract.
#[test]
fn the_template_has_all_raw_artifacts_of_the_contract() {
    let text = SURFACES.iter().find(|surface| surface.name == "warehouse_contract").and_then(|surface| surface.text);
    let contract = parse(text.expect("a text"));
    let document = run(&[]);
    assert_eq!(at(&contract, "raw_artifact_store.required_artifacts"), at(&document, "spec.sinks.rawArtifacts.artifacts"));
    let (hot, budget) = ("hot_metrics.forbidden_labels", "spec.sinks.hotMetrics.cardinalityBudget.dropDimensions");
    let forbidden = at(&contract, hot).and_then(Value::as_array).expect("labels");
    for label in at(&document, budget).and_then(Value::as_array).expect("labels") {
        assert!(forbidden.contains(label), "{label}");
    }
}

const SPECIFICATION: &str = include_str!("../templates/benchmark_workload_spec.yaml");

#[test]
fn known_members_of_a_specification_have_a_type_and_others_are_kept() {
    let document = parse(SPECIFICATION);
    let cases = [
        (
            "run_metadata.benchmark_grade",
            json!("gold"),
            "expected one of ['publication', 'publication_grade', 'realism', 'realism_grade']",
        ),
        ("workload.type", json!("mixed"), "expected one of ['inference', 'training']"),
        ("workload.name", json!(7), "expected string"),
        ("workload.model.precision", json!(16), "expected string or list"),
        ("workload.batching_policy", json!({"size": 3}), "expected string, or mapping with mode"),
        ("workload.concurrency_model.values", json!("1,2"), "expected list"),
        ("workload.model.parameter_count_b", json!("8"), "expected number"),
        (
            "workload.input_distribution.prompt_tokens",
            json!({"p50": 1}),
            "expected positive integer, list of them, or mapping with p50, p95 and max",
        ),
        (
            "workload.input_distribution.prompt_tokens",
            json!([]),
            "expected positive integer, list of them, or mapping with p50, p95 and max",
        ),
        ("measurement_policy.trials", json!(1.5), "expected non-negative integer"),
        ("measurement_policy.environment_controls.gpu_clocks_locked", json!("yes"), "expected boolean"),
        ("comparison_axis.constants_locked", json!("model"), "expected list"),
    ];
    for (path, value, message) in cases {
        breaks(&document, path, value, &format!("{path}: {message}"));
    }
    for (path, value) in [
        ("run_metadata.status", json!("HOLD")),
        ("workload.representative_performance_gate", json!({"batch_sizes": [1, 4]})),
        ("workload.model.precision", json!(["fp32", "bf16"])),
        ("workload.input_distribution.prompt_tokens", json!([1, 3, 5])),
        ("workload.batching_policy", json!("static")),
        ("comparison_axis.variable_under_test", json!("any text")),
        ("execution.runtime_versions.cuda", Value::Null),
    ] {
        assert_eq!(messages(&with(&document, path, value)), [""; 0], "{path}");
    }
}

#[test]
fn the_digest_of_a_specification_depends_on_every_member_and_on_no_order() {
    let document = parse(SPECIFICATION);
    let digest = workload_spec_digest(&document).expect("a digest");
    let reversed: serde_json::Map<String, Value> = document.as_object().expect("members").clone().into_iter().rev().collect();
    assert_eq!(workload_spec_digest(&Value::Object(reversed)).expect("a digest"), digest);
    let lines = SPECIFICATION.split_once("workload:\n").map(|(head, rest)| format!("workload:\n{rest}{head}"));
    assert_eq!(workload_spec_digest(&parse(&lines.expect("two parts"))).expect("a digest"), digest);
    assert_ne!(workload_spec_digest(&with(&document, "run_metadata.status", json!("HOLD"))).expect("a digest"), digest);
    assert_eq!(summarize(&document)["workload_spec_digest"], json!(digest));
}

/// The original publishes what a template stands for.
#[test]
fn publication_grade_needs_pins_and_no_placeholders() {
    let pinned = format!("registry.example.org/serving/vllm@sha256:{}", "0123456789abcdef".repeat(4));
    let realism = parse(SPECIFICATION);
    let publication =
        with(&with(&realism, "run_metadata.benchmark_grade", json!("publication")), "execution.image", json!(pinned));
    assert_eq!(messages(&publication), [""; 0]);
    let image = "execution.image: publication grade needs an image with its digest, and no placeholder";
    let zeros = format!("vllm@sha256:{}", "0".repeat(64));
    for unpinned in ["registry.example.org/serving/vllm:0.9", "<image>@sha256:<digest>", zeros.as_str(), ""] {
        breaks(&publication, "execution.image", json!(unpinned), image);
        assert_eq!(messages(&with(&realism, "execution.image", json!(unpinned))), [""; 0], "realism grade may be unpinned");
    }
    for name in ["driver", "cuda", "nccl", "pytorch", "runtime_or_server"] {
        let path = format!("execution.runtime_versions.{name}");
        for value in [json!("TBD"), json!("<version>"), Value::Null] {
            breaks(&publication, &path, value, &format!("{path}: publication grade needs a version, and no placeholder"));
        }
    }
    let by_its_other_name = with(&publication, "run_metadata.benchmark_grade", json!("publication_grade"));
    breaks(&by_its_other_name, "execution.image", json!("a"), image);
}

proptest! {
    /// Any value in any place is accepted or reported, within the same function.
    #[test]
    fn any_document_has_its_problems(index in 0usize..200, text in "[-a-z0-9:\\[\\]{}',. ]{0,20}") {
        for template in [SPECIFICATION, &render_run([]).expect("rendered").yaml] {
            let mut lines: Vec<String> = template.lines().map(str::to_owned).collect();
            let index = index % lines.len();
            let line = lines[index].split_once(':').map_or(String::new(), |(name, _)| format!("{name}: {text}"));
            lines[index] = line;
            if let Ok(documents) = parse_documents("a.yaml", lines.join("\n").as_bytes()) {
                for document in documents {
                    let problems = validate(&document);
                    prop_assert_eq!(problems.is_empty(), summarize(&document) != json!({}));
                }
            }
        }
    }
}
