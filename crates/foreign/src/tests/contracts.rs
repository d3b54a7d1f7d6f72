//! BenchmarkRuns and workload specifications: each field, what an import adds, and what it refuses.

use insta::assert_snapshot;

use super::{CANARY, rows};
use crate::formats::{benchmark_run, workload_specification};
use crate::{Import, ImportOptions, Outcome, Source, import, recognise};

const RUN: &str = include_str!("../formats/examples/publication_run.yaml");
const COMPARISON: &str = include_str!("../formats/examples/comparison_run.yaml");
const SPECIFICATION: &str = include_str!("../formats/examples/specification.yaml");
const LISTS: &str = include_str!("../formats/examples/specification_lists.yaml");

/// Imports a file as `assay import` does.
fn file(text: &str) -> Import {
    let options = ImportOptions { keeps_grade: true, ..ImportOptions::default() };
    import(&Source::File { name: "run.yaml", bytes: text.as_bytes() }, &options).expect("a format")
}

/// Returns a text with one part replaced, which it must have.
#[track_caller]
fn with(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1)
}

fn outcome(imported: &Import, field: &str) -> Option<Outcome> {
    imported.rows.iter().find(|row| row.field == field).map(|row| row.outcome)
}

fn texts(imported: &Import) -> String {
    imported.files.iter().map(|file| format!("== {}\n{}", file.path, file.text)).collect::<Vec<_>>().concat()
}

fn realism(text: &str) -> String {
    let text = text.replace("benchmarkClass: publication_grade", "benchmarkClass: realism_grade");
    with(&text, "multiTenantScenarios: false", "multiTenantScenarios: true")
}

#[test]
fn a_publication_run_becomes_a_workload_and_a_pipeline_that_has_to_be_proved() {
    assert_snapshot!(texts(&file(RUN)));
}

#[test]
fn two_addresses_become_a_comparison_with_a_gate() {
    let imported = file(COMPARISON);
    assert_snapshot!(imported.files.last().expect("a pipeline").text);
    let realism = file(&realism(COMPARISON));
    assert!(!texts(&realism).contains("gates:") && texts(&realism).contains("comparison:"), "{}", texts(&realism));
}

#[test]
fn a_specification_becomes_a_workload_and_a_pipeline() {
    assert_snapshot!(texts(&file(SPECIFICATION)));
    assert_snapshot!(texts(&file(LISTS)));
}

/// No commit holds a pipeline that is made in memory, so it claims no grade.
#[test]
fn a_file_that_runs_as_it_is_is_exploratory() {
    for (text, field) in [(RUN, "spec.intent.benchmarkClass"), (LISTS, "run_metadata.benchmark_grade")] {
        let imported = super::file(text);
        assert!(
            texts(&imported).contains("intent: exploratory\n") && texts(&imported).contains("require: true"),
            "{}",
            texts(&imported)
        );
        assert_eq!(outcome(&imported, field), Some(Outcome::Approximated));
        assert_eq!((outcome(&file(text), field), texts(&file(text)).contains("exploratory")), (Some(Outcome::Mapped), false));
    }
}

#[test]
fn realism_grade_has_neither_a_claim_nor_controls() {
    let text = texts(&file(&realism(RUN)));
    assert!(text.contains("intent: realism\n") && !text.contains("claim:") && !text.contains("controls:"), "{text}");
    let publication = texts(&file(RUN));
    assert!(publication.contains("intent: publication\n") && publication.contains("claim:"), "{publication}");
    for control in ["dedicated_nodes", "fixed_topology", "locked_clocks", "stable_background"] {
        assert!(publication.contains(&format!("{control}: {{require: true}}")), "{control}");
    }
}

/// Each row of the table of a BenchmarkRun has a case: the field, a replacement in the publication run, and the outcome.
#[test]
fn each_field_of_a_benchmark_run_has_its_outcome() {
    use Outcome::{Approximated, Ignored, Mapped, Refused};
    let endpoint = "assay.dev/endpoint: http://gpt-oss.example.org:8080/v1";
    let annotations = "metadata.annotations.assay.dev";
    let cases: &[(&str, &str, &str, &str, Outcome)] = &[
        ("spec.intent.benchmarkClass", "", "", "spec.intent.benchmarkClass", Mapped),
        (
            "spec.intent.benchmarkClass",
            "benchmarkClass: publication_grade\n    w",
            "benchmarkClass: gold\n    w",
            "spec.intent.benchmarkClass",
            Refused,
        ),
        ("metadata.name", "", "", "metadata.name", Mapped),
        ("metadata.name", "name: publication-inference-stack-b200", "name: A B", "metadata.name", Approximated),
        ("metadata.annotations.assay.dev/endpoint", "", "", &format!("{annotations}/endpoint"), Mapped),
        ("metadata.annotations.assay.dev/endpoint", endpoint, "other: a", &format!("{annotations}/endpoint(absent)"), Refused),
        ("metadata.annotations.assay.dev/concurrency", "", "", &format!("{annotations}/concurrency"), Mapped),
        ("metadata.annotations.assay.dev/concurrency", "\"1,8,64\"", "many", &format!("{annotations}/concurrency"), Refused),
        ("metadata.annotations.assay.dev/rate", "dev/requests: \"500\"", "dev/rate: 3", &format!("{annotations}/rate"), Ignored),
        ("metadata.annotations.assay.dev/requests", "", "", &format!("{annotations}/requests"), Mapped),
        ("metadata.annotations.assay.dev/requests", "\"500\"", "\"0\"", &format!("{annotations}/requests"), Refused),
        (
            "metadata.annotations.assay.dev/duration",
            "dev/requests: \"500\"",
            "dev/duration: 5m",
            &format!("{annotations}/duration"),
            Mapped,
        ),
        (
            "metadata.annotations.assay.dev/duration",
            "dev/requests: \"500\"",
            "dev/duration: long",
            &format!("{annotations}/duration"),
            Refused,
        ),
        (
            "metadata.annotations.assay.dev/duration",
            "assay.dev/requests: \"500\"",
            "a: b",
            &format!("{annotations}/duration(absent)"),
            Approximated,
        ),
        ("metadata.namespace", "metadata:\n", "metadata:\n  namespace: a\n", "metadata.namespace", Ignored),
        ("metadata.labels.*", "", "", "metadata.labels.aisp.dev/benchmark-class", Ignored),
        ("metadata.annotations.*", "assay.dev/requests: \"500\"", "team: a", "metadata.annotations.team", Ignored),
        ("metadata.*", "metadata:\n", "metadata:\n  uid: a\n", "metadata.uid", Ignored),
        ("status", "spec:\n", "status: {phase: Done}\nspec:\n", "status", Ignored),
        ("spec.intent.workloadType", "", "", "spec.intent.workloadType", Mapped),
        ("spec.intent.workloadType", "workloadType: inference", "workloadType: training", "spec.intent.workloadType", Refused),
        ("spec.intent.schedulerPath", "", "", "spec.intent.schedulerPath", Approximated),
        ("spec.intent.cadence", "", "", "spec.intent.cadence", Approximated),
        ("spec.intent.cadence", "cadence: pre_release", "cadence: every day", "spec.intent.cadence", Ignored),
        ("spec.layers", "", "", "spec.layers", Ignored),
        ("spec.workload.model", "", "", "spec.workload.model", Mapped),
        ("spec.workload.precision", "", "", "spec.workload.precision", Mapped),
        ("spec.workload.precision", "precision: bf16", "precision: a b", "spec.workload.precision", Refused),
        ("spec.workload.batchingPolicy", "", "", "spec.workload.batchingPolicy", Mapped),
        ("spec.workload.sequenceLengthMix", "", "", "spec.workload.sequenceLengthMix", Mapped),
        ("spec.workload.concurrencyModel", "", "", "spec.workload.concurrencyModel", Mapped),
        (
            "spec.workload.concurrencyModel",
            "concurrencyModel: closed_loop",
            "concurrencyModel: waves",
            "spec.workload.concurrencyModel",
            Refused,
        ),
        (
            "spec.workload.datasetRef",
            "    fixedAcross",
            "    datasetRef: a\n    fixedAcross",
            "spec.workload.datasetRef",
            Ignored,
        ),
        ("spec.workload.fixedAcrossTrials", "", "", "spec.workload.fixedAcrossTrials", Mapped),
        ("spec.comparison.baseline.artifactRef", "", "", "spec.comparison.baseline.artifactRef", Ignored),
        ("spec.comparison.baseline.artifactRef", "published/current", "http://h", "spec.comparison.baseline.artifactRef", Mapped),
        ("spec.comparison.candidate.artifactRef", "runs/candidate", "http://h", "spec.comparison.candidate.artifactRef", Ignored),
        ("spec.comparison.baseline.description", "", "", "spec.comparison.baseline.description", Ignored),
        ("spec.comparison.candidate.description", "", "", "spec.comparison.candidate.description", Ignored),
        ("spec.comparison.variableUnderTest", "", "", "spec.comparison.variableUnderTest", Approximated),
        ("spec.comparison.variableUnderTest", "published/current", "http://h", "spec.comparison.variableUnderTest", Mapped),
        ("spec.comparison.controls.fixed", "", "", "spec.comparison.controls.fixed", Mapped),
        (
            "spec.comparison.controls.fixed",
            "        precision: bf16",
            "        precision: fp8",
            "spec.comparison.controls.fixed.precision",
            Refused,
        ),
        (
            "spec.comparison.controls.compareOneVariableAtATime",
            "",
            "",
            "spec.comparison.controls.compareOneVariableAtATime",
            Mapped,
        ),
        ("spec.metrics.training", "", "", "spec.metrics.training", Ignored),
        ("spec.metrics.inference.enabled", "", "", "spec.metrics.inference.enabled", Mapped),
        ("spec.metrics.inference.primary", "", "", "spec.metrics.inference.primary[2](p99_latency_ms)", Mapped),
        ("spec.metrics.inference.primary", "", "", "spec.metrics.inference.primary[4](cost_per_request_usd)", Ignored),
        (
            "spec.metrics.inference.secondary",
            "  trials:\n",
            "      secondary: [other]\n  trials:\n",
            "spec.metrics.inference.secondary[0]",
            Ignored,
        ),
        ("spec.trials.minReplicates", "", "", "spec.trials.minReplicates", Mapped),
        ("spec.trials.minReplicates", "minReplicates: 5", "minReplicates: 1001", "spec.trials.minReplicates", Refused),
        ("spec.trials.confidenceLevel", "", "", "spec.trials.confidenceLevel", Mapped),
        ("spec.trials.confidenceLevel", "0.95", "0.9", "spec.trials.confidenceLevel", Approximated),
        ("spec.trials.outlierPolicy.method", "", "", "spec.trials.outlierPolicy.method", Mapped),
        ("spec.trials.outlierPolicy.method", "method: mad", "method: tukey", "spec.trials.outlierPolicy.method", Approximated),
        ("spec.trials.outlierPolicy.action", "", "", "spec.trials.outlierPolicy.action", Mapped),
        ("spec.trials.outlierPolicy.action", "flag_and_keep", "discard", "spec.trials.outlierPolicy.action", Refused),
        ("spec.trials.report", "", "", "spec.trials.report", Approximated),
        ("spec.bottleneckAnalysis", "", "", "spec.bottleneckAnalysis", Ignored),
        ("spec.distributed", "", "", "spec.distributed", Ignored),
        ("spec.observability.correlation.stableJoinKeys", "", "", "spec.observability.correlation.stableJoinKeys", Approximated),
        (
            "spec.observability.correlation.publishedNumberLineage",
            "",
            "",
            "spec.observability.correlation.publishedNumberLineage",
            Mapped,
        ),
        ("spec.observability.telemetrySources.service", "", "", "spec.observability.telemetrySources.service", Approximated),
        (
            "spec.observability.telemetrySources.infrastructure",
            "",
            "",
            "spec.observability.telemetrySources.infrastructure",
            Ignored,
        ),
        ("spec.observability.telemetrySources.scheduler", "", "", "spec.observability.telemetrySources.scheduler", Approximated),
        ("spec.observability.scenarioPlaybooks", "", "", "spec.observability.scenarioPlaybooks", Ignored),
        ("spec.provenance.capture", "", "", "spec.provenance.capture", Approximated),
        ("spec.provenance.signing.required", "", "", "spec.provenance.signing.required", Mapped),
        ("spec.provenance.signing.backend", "", "", "spec.provenance.signing.backend", Mapped),
        ("spec.provenance.signing.backend", "backend: sigstore", "backend: gpg", "spec.provenance.signing.backend", Refused),
        ("spec.provenance.signing.attestationFormat", "", "", "spec.provenance.signing.attestationFormat", Mapped),
        (
            "spec.executionPolicy.publicationGrade.dedicatedNodes",
            "",
            "",
            "spec.executionPolicy.publicationGrade.dedicatedNodes",
            Mapped,
        ),
        (
            "spec.executionPolicy.publicationGrade.dedicatedNodes",
            "dedicatedNodes: true",
            "dedicatedNodes: false",
            "spec.executionPolicy.publicationGrade.dedicatedNodes",
            Refused,
        ),
        (
            "spec.executionPolicy.publicationGrade.stableBackgroundLoad",
            "",
            "",
            "spec.executionPolicy.publicationGrade.stableBackgroundLoad",
            Mapped,
        ),
        (
            "spec.executionPolicy.publicationGrade.fixedTopology",
            "",
            "",
            "spec.executionPolicy.publicationGrade.fixedTopology",
            Mapped,
        ),
        (
            "spec.executionPolicy.publicationGrade.topologyExclusiveScheduling",
            "",
            "",
            "spec.executionPolicy.publicationGrade.topologyExclusiveScheduling",
            Approximated,
        ),
        ("spec.executionPolicy.realismGrade", "", "", "spec.executionPolicy.realismGrade", Ignored),
        ("spec.sinks.rawArtifacts.pathTemplate", "", "", "spec.sinks.rawArtifacts.pathTemplate", Approximated),
        (
            "spec.sinks.rawArtifacts.pathTemplate",
            "s3://benchmarks",
            "gs://benchmarks",
            "spec.sinks.rawArtifacts.pathTemplate",
            Refused,
        ),
        ("spec.sinks.rawArtifacts.artifacts", "", "", "spec.sinks.rawArtifacts.artifacts", Approximated),
        ("spec.sinks.rawArtifacts.*", "", "", "spec.sinks.rawArtifacts.retentionClass", Ignored),
        ("spec.sinks.hotMetrics", "", "", "spec.sinks.hotMetrics", Ignored),
        ("spec.sinks.curatedWarehouse.store", "", "", "spec.sinks.curatedWarehouse.store", Approximated),
        ("spec.sinks.curatedWarehouse.store", "parquet_duckdb", "clickhouse", "spec.sinks.curatedWarehouse.store", Ignored),
        ("spec.sinks.curatedWarehouse.layout", "", "", "spec.sinks.curatedWarehouse.layout", Mapped),
        ("spec.sinks.curatedWarehouse.retention", "", "", "spec.sinks.curatedWarehouse.retention", Ignored),
        ("spec.sinks.curatedWarehouse.lineage", "", "", "spec.sinks.curatedWarehouse.lineage", Mapped),
        ("spec.automation.ci", "", "", "spec.automation.ci", Ignored),
    ];
    check_cases(RUN, cases, &benchmark_run::RULES.iter().map(|rule| rule.path).collect::<Vec<_>>(), &["apiVersion", "kind"]);
    let realism = file(&realism(RUN));
    for field in ["dedicatedNodes", "topologyExclusiveScheduling"] {
        let field = format!("spec.executionPolicy.publicationGrade.{field}");
        assert_eq!(outcome(&realism, &field), Some(Ignored), "{field}");
    }
    assert_eq!(outcome(&realism, "spec.executionPolicy.realismGrade"), Some(Approximated));
    assert_eq!(
        outcome(&file(&with(&self::realism(RUN), "required: true", "required: false")), "spec.provenance.signing.required"),
        Some(Approximated)
    );
}

fn check_cases(base: &str, cases: &[(&str, &str, &str, &str, Outcome)], rules: &[&str], silent: &[&str]) {
    for rule in rules {
        assert!(silent.contains(rule) || cases.iter().any(|case| case.0 == *rule), "`{rule}` has no case");
    }
    for (rule, from, to, field, expected) in cases {
        let imported = file(&with(base, from, to));
        assert_eq!(outcome(&imported, field), Some(*expected), "{rule}: {to}\n{:#?}", imported.rows);
    }
}

/// Each row of the table of a workload specification has a case.
#[test]
fn each_member_of_a_specification_has_its_outcome() {
    use Outcome::{Approximated, Ignored, Mapped, Refused};
    let input = "workload.input_distribution";
    let cases: &[(&str, &str, &str, &str, Outcome)] = &[
        ("run_metadata.benchmark_grade", "", "", "run_metadata.benchmark_grade", Mapped),
        (
            "run_metadata.benchmark_grade",
            "  benchmark_grade: realism\n",
            "",
            "run_metadata.benchmark_grade(absent)",
            Approximated,
        ),
        ("run_metadata.benchmark_layer", "", "", "run_metadata.benchmark_layer", Approximated),
        ("run_metadata.use_case", "", "", "run_metadata.use_case", Approximated),
        ("run_metadata.*", "", "", "run_metadata.owner", Ignored),
        ("comparison_axis.variable_under_test", "", "", "comparison_axis.variable_under_test", Approximated),
        (
            "comparison_axis.variable_under_test",
            "variable_under_test: runtime_version",
            "variable_under_test: a text",
            "comparison_axis.variable_under_test",
            Ignored,
        ),
        ("comparison_axis.constants_locked", "", "", "comparison_axis.constants_locked", Mapped),
        ("comparison_axis.*", "", "", "comparison_axis.candidate", Ignored),
        ("assay.endpoint", "", "", "assay.endpoint", Mapped),
        ("assay.endpoint", "endpoint: \"http://llama.example.org:8080\", ", "", "assay.endpoint(absent)", Refused),
        ("assay.requests", "", "", "assay.requests", Mapped),
        ("assay.duration", "requests: 200", "duration: 30s", "assay.duration", Mapped),
        ("workload.type", "", "", "workload.type", Mapped),
        ("workload.type", "type: inference", "type: training", "workload.type", Refused),
        ("workload.type", "  type: inference\n", "", "workload.type(absent)", Refused),
        ("workload.name", "", "", "workload.name", Mapped),
        ("workload.model.name", "", "", "workload.model.name", Mapped),
        ("workload.model.precision", "", "", "workload.model.precision", Mapped),
        ("workload.model.precision", "precision: bf16", "precision: [bf16]", "workload.model.precision", Mapped),
        ("workload.model.precision", "precision: bf16", "precision: [bf16, fp8]", "workload.model.precision", Refused),
        ("workload.model.*", "", "", "workload.model.weights_source", Ignored),
        (
            "workload.input_distribution.sequence_length_mix",
            "prompt_tokens:",
            "sequence_length_mix: [{input_tokens: 9, output_tokens: 3, weight: 1}]\n    prompt_tokens:",
            &format!("{input}.sequence_length_mix"),
            Mapped,
        ),
        (
            "workload.input_distribution.sequence_length_mix",
            "prompt_tokens:",
            "sequence_length_mix: [{inputTokens: 9}]\n    prompt_tokens:",
            &format!("{input}.sequence_length_mix"),
            Refused,
        ),
        ("workload.input_distribution.prompt_tokens", "", "", &format!("{input}.prompt_tokens"), Approximated),
        (
            "workload.input_distribution.prompt_tokens",
            "{p50: 512, p95: 2048, max: 4096}",
            "9",
            &format!("{input}.prompt_tokens"),
            Mapped,
        ),
        ("workload.input_distribution.prompt_tokens", "p50: 512", "p50: 4096", &format!("{input}.prompt_tokens"), Refused),
        ("workload.input_distribution.completion_tokens", "", "", &format!("{input}.completion_tokens"), Approximated),
        (
            "workload.input_distribution.completion_tokens",
            "    completion_tokens: {p50: 128, p95: 512, max: 1024}\n",
            "",
            &format!("{input}(absent)"),
            Refused,
        ),
        (
            "workload.input_distribution.*",
            "    prompt_tokens:",
            "    cache: 3\n    prompt_tokens:",
            &format!("{input}.cache"),
            Ignored,
        ),
        (
            "workload.batching_policy",
            "batching_policy: {mode: continuous, max_num_seqs: 256}",
            "batching_policy: static",
            "workload.batching_policy",
            Mapped,
        ),
        ("workload.batching_policy.mode", "", "", "workload.batching_policy.mode", Mapped),
        ("workload.batching_policy.*", "", "", "workload.batching_policy.max_num_seqs", Ignored),
        (
            "workload.concurrency_model",
            "concurrency_model: {mode: closed_loop, values: [1, 8, 64]}",
            "concurrency_model: closed_loop",
            "workload.concurrency_model",
            Mapped,
        ),
        ("workload.concurrency_model.mode", "", "", "workload.concurrency_model.mode", Mapped),
        ("workload.concurrency_model.mode", "mode: closed_loop, ", "", "workload.concurrency_model", Refused),
        (
            "workload.concurrency_model.mode",
            "  concurrency_model: {mode: closed_loop, values: [1, 8, 64]}\n",
            "",
            "workload.concurrency_model.mode(absent)",
            Refused,
        ),
        ("workload.concurrency_model.values", "", "", "workload.concurrency_model.values", Mapped),
        (
            "workload.concurrency_model.values",
            "mode: closed_loop",
            "mode: open_loop",
            "workload.concurrency_model.values",
            Approximated,
        ),
        ("workload.serving_contract.stack_under_test", "", "", "workload.serving_contract.stack_under_test", Mapped),
        ("workload.serving_contract.protocol", "", "", "workload.serving_contract.protocol", Mapped),
        ("workload.serving_contract.protocol", "openai_compatible_http", "grpc", "workload.serving_contract.protocol", Refused),
        ("workload.serving_contract.deployment_model", "", "", "workload.serving_contract.deployment_model", Mapped),
        ("workload.serving_contract.fairness_constraints", "", "", "workload.serving_contract.fairness_constraints", Ignored),
        ("workload.quality_constraints", "", "", "workload.quality_constraints", Ignored),
        ("execution.image", "", "", "execution.image", Mapped),
        ("execution.image", "registry.example.org/serving/vllm:0.9", "a local environment", "execution.image", Ignored),
        ("execution.runtime_versions.driver", "", "", "execution.runtime_versions.driver", Mapped),
        ("execution.runtime_versions.cuda", "", "", "execution.runtime_versions.cuda", Mapped),
        ("execution.runtime_versions.nccl", "", "", "execution.runtime_versions.nccl", Mapped),
        ("execution.runtime_versions.pytorch", "", "", "execution.runtime_versions.pytorch", Mapped),
        ("execution.runtime_versions.runtime_or_server", "", "", "execution.runtime_versions.runtime_or_server", Mapped),
        ("execution.runtime_versions.*", "nccl: ", "triton: a, nccl: ", "execution.runtime_versions.triton", Ignored),
        ("execution.hardware_tier.gpu_model", "", "", "execution.hardware_tier.gpu_model", Mapped),
        ("execution.hardware_tier.gpu_count", "", "", "execution.hardware_tier.gpu_count", Mapped),
        ("execution.hardware_tier.cpu_model", "", "", "execution.hardware_tier.cpu_model", Mapped),
        ("execution.scheduler_path.queue_or_scheduler", "", "", "execution.scheduler_path.queue_or_scheduler", Mapped),
        ("execution.hardware_tier.*", "", "", "execution.hardware_tier.ram_gb", Ignored),
        ("execution.topology", "", "", "execution.topology", Ignored),
        ("execution.scheduler_path.*", "", "", "execution.scheduler_path.platform", Ignored),
        ("measurement_policy.trials", "", "", "measurement_policy.trials", Mapped),
        ("measurement_policy.trials", "  trials: 5", "  trials: 2", "measurement_policy.trials", Refused),
        ("measurement_policy.warmup_trials", "", "", "measurement_policy.warmup_trials", Ignored),
        ("measurement_policy.report_statistics", "", "", "measurement_policy.report_statistics", Mapped),
        ("measurement_policy.outlier_policy", "", "", "measurement_policy.outlier_policy", Approximated),
        ("measurement_policy.confidence_policy", "", "", "measurement_policy.confidence_policy", Approximated),
        (
            "measurement_policy.environment_controls.gpu_clocks_locked",
            "",
            "",
            "measurement_policy.environment_controls.gpu_clocks_locked",
            Ignored,
        ),
        (
            "measurement_policy.environment_controls.app_clocks_recorded",
            "",
            "",
            "measurement_policy.environment_controls.app_clocks_recorded",
            Mapped,
        ),
        (
            "measurement_policy.environment_controls.topology_recorded",
            "",
            "",
            "measurement_policy.environment_controls.topology_recorded",
            Mapped,
        ),
        (
            "measurement_policy.environment_controls.background_load_recorded",
            "",
            "",
            "measurement_policy.environment_controls.background_load_recorded",
            Mapped,
        ),
        (
            "measurement_policy.*",
            "  warmup_trials",
            "  timing_boundary: a\n  warmup_trials",
            "measurement_policy.timing_boundary",
            Ignored,
        ),
        ("metrics.primary", "", "", "metrics.primary(ttft_ms)", Mapped),
        ("metrics.primary", "primary: ttft_ms", "primary: parity", "metrics.primary", Ignored),
        ("metrics.secondary", "", "", "metrics.secondary[0](tokens_per_second)", Mapped),
        ("diagnosis_policy", "", "", "diagnosis_policy", Ignored),
        ("artifacts.provenance_signing.required", "", "", "artifacts.provenance_signing.required", Mapped),
        ("artifacts.provenance_signing.*", "", "", "artifacts.provenance_signing.status", Ignored),
        ("artifacts.*", "", "", "artifacts.artifact_root", Ignored),
    ];
    let rules: Vec<&str> = workload_specification::RULES.iter().map(|rule| rule.path).collect();
    check_cases(SPECIFICATION, cases, &rules, &[]);
    let publication = with(LISTS, "{trials: 5,", "{trials: 5, environment_controls: {gpu_clocks_locked: true},");
    assert_eq!(outcome(&file(&publication), "measurement_policy.environment_controls.gpu_clocks_locked"), Some(Mapped));
}

#[test]
fn a_broken_rule_is_refused_with_its_message() {
    let refused = |from: &str, to: &str| rows(&file(&with(RUN, from, to)), Outcome::Refused);
    let cases = [
        ("minReplicates: 5", "minReplicates: 2", "spec.trials.minReplicates | must be an integer >= 3"),
        ("weight: 0.3", "weight: 0.2", "spec.workload.sequenceLengthMix | weights must sum to 1"),
        (
            "hotDays: 30, warmDays: 180",
            "hotDays: 300, warmDays: 180",
            "spec.sinks.curatedWarehouse.retention | must satisfy hotDays <= warmDays <= coldDays",
        ),
    ];
    for (from, to, expected) in cases {
        assert!(refused(from, to).lines().any(|line| line == expected), "{}", refused(from, to));
    }
    let unpinned = file(&with(LISTS, "@sha256:3b1f0e9c5d7a2486b0c1d2e3f405162738495a6b7c8d9eafb0c1d2e3f4051627", ":1"));
    let image = "execution.image | publication grade needs an image with its digest, and no placeholder";
    assert_eq!(rows(&unpinned, Outcome::Refused), image);
    let version = rows(&file(&with(RUN, "dev/v1alpha1", "dev/v2")), Outcome::Refused);
    assert!(version.contains("apiVersion | `benchmarking.aisp.dev/v1alpha1` is the version"), "{version}");
}

#[test]
fn contracts_are_recognised_by_group_or_shape() {
    let name = |text: &str| recognise(&Source::File { name: "a", bytes: text.as_bytes() }).map(|format| format.name);
    assert_eq!((name(RUN), name(SPECIFICATION)), (Some("benchmarkrun"), Some("workload-spec")));
    assert_eq!(name(&with(RUN, "benchmarking.aisp.dev/v1alpha1", "example.org/v1")), None);
    assert_eq!(name(&format!("kind: Other\n{SPECIFICATION}")), None);
    assert_eq!(name(&with(SPECIFICATION, "comparison_axis:", "axis:")), None);
}

#[test]
fn both_names_of_a_grade_and_both_forms_of_a_batching_policy_are_read() {
    for name in ["realism", "realism_grade"] {
        let imported = file(&with(SPECIFICATION, "benchmark_grade: realism", &format!("benchmark_grade: {name}")));
        assert!(texts(&imported).contains("intent: realism\n"), "{name}");
    }
    let policy = "batching_policy: {mode: continuous, max_num_seqs: 256}";
    for form in [policy, "batching_policy: continuous"] {
        assert!(texts(&file(&with(SPECIFICATION, policy, form))).contains("batching_policy: continuous\n"), "{form}");
    }
}

/// A credential in any member, known or not, is in no file, row or error.
#[test]
fn no_credential_of_a_contract_survives() {
    let secret = format!("sk-{CANARY}0123456789abcdef");
    let open = "http://gpt-oss.example.org:8080/v1";
    let runs = [
        ("spec:\n", format!("spec:\n  unknown: {CANARY}\n")),
        ("    assay.dev/requests", format!("    team.dev/note: {CANARY}\n    assay.dev/requests")),
        ("  labels:\n", format!("  labels:\n    team: {CANARY}\n")),
        (open, format!("http://robot:{CANARY}@h:1/v1")),
        (open, format!("http://h:1/v1?key={CANARY}")),
        ("artifactRef: published/current", format!("artifactRef: {CANARY}")),
        ("artifactRef: published/current", format!("artifactRef: 'http://robot:{CANARY}@h:1'")),
        ("description: the run that is published", format!("description: {CANARY}")),
        ("repoCommand: assay run pipelines/serving.yaml", format!("repoCommand: run --key {CANARY}")),
        ("pathTemplate: s3://benchmarks/raw/${RUN_ID}/", format!("pathTemplate: 's3://robot:{CANARY}@b/p'")),
        ("model: gpt-oss-20b", format!("model: {secret}")),
        ("name: publication-inference-stack-b200", format!("name: {secret}")),
        ("schedulerPath: slinky-kueue", format!("schedulerPath: 'kueue {secret}'")),
    ];
    for (from, to) in runs {
        let text = with(RUN, from, &to).replace("kubernetes_events, kueue, slinky", "kubernetes_events");
        assert!(!format!("{:?}", file(&text)).contains(CANARY), "{to}\n{:#?}", file(&text));
    }
    let specifications = [
        ("owner: performance-engineering", format!("owner: {CANARY}")),
        ("candidate: the next release", format!("candidate: {CANARY}")),
        ("weights_source: registry", format!("weights_source: {CANARY}")),
        ("status: signed", format!("status: {CANARY}")),
        ("image: registry.example.org/serving/vllm:0.9", format!("image: {secret}")),
        ("requests: 200", format!("requests: 200, api_key: {CANARY}")),
        ("\"http://llama.example.org:8080\"", format!("\"http://robot:{CANARY}@h:1\"")),
    ];
    for (from, to) in specifications {
        let text = with(SPECIFICATION, from, &to);
        assert!(!format!("{:?}", file(&text)).contains(CANARY), "{to}\n{:#?}", file(&text));
    }
}

/// A credential of the baseline is a reference of the baseline's target.
#[test]
fn each_side_has_its_own_address_and_credentials() {
    let text = with(COMPARISON, "http://current.", "http://robot:canary@current.");
    let imported = file(&text);
    let pipeline = &imported.files.last().expect("a pipeline").text;
    let (baseline, candidate) = pipeline.split_once("- name: candidate").expect("two sides");
    assert!(baseline.contains("ENDPOINT_BASIC_CREDENTIALS") && !candidate.contains("ENDPOINT_BASIC_CREDENTIALS"), "{pipeline}");
    let moved = imported.rows.iter().find(|row| row.outcome == Outcome::SecretReference).expect("a reference");
    assert_eq!(moved.to.as_deref(), Some("pipeline spec.targets[0].headers.authorization"));
}

#[test]
fn a_misspelt_annotation_of_a_load_is_refused() {
    let misspelt = with(RUN, "assay.dev/concurrency:", "assay.dev/concurency:");
    let refused = rows(&file(&misspelt), Outcome::Refused);
    assert!(
        refused.contains("assay.dev/concurency") && refused.contains("did you mean `metadata.annotations.assay.dev/concurrency`"),
        "{refused}"
    );
    let other = with(RUN, "    assay.dev/concurrency:", "    example.org/owner: serving\n    assay.dev/concurrency:");
    assert_eq!(outcome(&file(&other), "metadata.annotations.example.org/owner"), Some(Outcome::Ignored));
}
