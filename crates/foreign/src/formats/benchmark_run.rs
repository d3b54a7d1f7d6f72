//! A BenchmarkRun of `benchmarking.aisp.dev/v1alpha1`, under the rules of its contract.

use assay_contracts::API_GROUP;
use assay_spec::did_you_mean;
use serde_json::{Value, json};

use crate::contract::ContractLoad;
use crate::document::{Rule, docs, map_fields, rule};
use crate::draft::member;
use crate::format::{Example, ExampleInput, Format, Reader};
use crate::formats::benchmark_job::{Place, store_of};
use crate::mapping::Mapping;
use crate::value::at;
use crate::yaml::Node;

/// The format.
pub(crate) static FORMAT: Format = Format {
    name: "benchmarkrun",
    title: "a BenchmarkRun",
    versions: "`v1alpha1`, contract 2026-03-13",
    recognised_by: "`apiVersion: benchmarking.aisp.dev/v1alpha1`, `kind: BenchmarkRun`",
    examples: &[
        Example { name: "publication", input: ExampleInput::File(include_str!("examples/publication_run.yaml")), options: "" },
        Example { name: "comparison", input: ExampleInput::File(include_str!("examples/comparison_run.yaml")), options: "" },
    ],
    fields: || docs(RULES),
    reader: Reader::Document { recognises, map },
};

const ENDPOINT: &str = "metadata.annotations.assay.dev/endpoint";
const CONCURRENCY: &str = "metadata.annotations.assay.dev/concurrency";
const RATE: &str = "metadata.annotations.assay.dev/rate";
const REQUESTS: &str = "metadata.annotations.assay.dev/requests";
const DURATION: &str = "metadata.annotations.assay.dev/duration";
const MODE: &str = "spec.workload.concurrencyModel";
const VARIABLE: &str = "spec.comparison.variableUnderTest";
const BASELINE: &str = "spec.comparison.baseline.artifactRef";
const CANDIDATE: &str = "spec.comparison.candidate.artifactRef";

const NO_TRAINING: &str = "Assay runs no training yet";
const NO_PROBES: &str =
    "`assay explain` names a class of bottleneck by its own rules from the telemetry of a run, and runs no probes";
const NO_RANKS: &str = "a run of an endpoint has no ranks, and Assay changes no node";
const NOT_COPIED: &str = "its text is not copied: write it into `metadata` of the pipeline if readers need it";

/// All fields, in the order in which they are mapped.
pub(crate) static RULES: &[Rule] = &[
    rule("apiVersion", "recognises the format", |_, _, _| {}),
    rule("kind", "recognises the format", |_, _, _| {}),
    rule(
        "spec.intent.benchmarkClass",
        "pipeline `spec.intent`: `publication` or `realism`; of a file that runs as it is: `exploratory`",
        |field, value, mapping| {
            mapping.grade(field, value);
        },
    ),
    rule("metadata.name", "pipeline `metadata.name`, and the workload's name", |field, value, mapping| {
        mapping.contract_name(field, value);
    }),
    rule(
        ENDPOINT,
        "pipeline `spec.targets[].url` of the candidate; absent: `spec.comparison.candidate.artifactRef` if it is an address",
        |_, _, _| {},
    ),
    rule(CONCURRENCY, "workload `spec.load.concurrency` of a closed loop, separated by commas; absent: 1", |_, _, _| {}),
    rule(RATE, "workload `spec.load.rate` of an open loop, separated by commas", |_, _, _| {}),
    rule(REQUESTS, "workload `spec.load.requests`", |_, _, _| {}),
    rule(DURATION, "workload `spec.load.duration`; absent, and without `requests`: one minute", |_, _, _| {}),
    rule("metadata.namespace", "ignored: a run is in the namespace of the installation", |field, _, mapping| {
        mapping.ignored(field, "a run is in the namespace of Assay's installation");
    }),
    rule("metadata.labels.*", "ignored, by name", |field, _, mapping| mapping.ignored(field, NOT_COPIED)),
    rule("metadata.annotations.*", "ignored, by name; another one of `assay.dev/` is refused", |field, _, mapping| {
        any_annotation(field, mapping);
    }),
    rule("metadata.*", "ignored: the cluster's own", |field, _, mapping| {
        mapping.ignored(field, "it belongs to the object in its cluster");
    }),
    rule("status", "ignored: the state of an earlier run", |field, _, mapping| {
        mapping.ignored(field, "the state of an earlier run");
    }),
    rule("spec.intent.workloadType", "`inference` is workload `spec.type`; any other is refused", |field, value, mapping| {
        mapping.inference_only(field, value);
    }),
    rule("spec.intent.schedulerPath", "pipeline `metadata.labels.scheduler_path`", |field, value, mapping| {
        mapping.label(
            field,
            "scheduler_path",
            value,
            "a label: Assay records the nodes and pods of a run, and starts nothing by this name",
        );
    }),
    rule("spec.intent.cadence", "pipeline `metadata.labels.cadence`", |field, value, mapping| {
        mapping.label(field, "cadence", value, "a label: `spec.schedule` of a pipeline says when it runs");
    }),
    rule("spec.layers", "ignored: suites are commands of another repository", |field, _, mapping| {
        mapping.ignored(field, "its suites are commands of another repository: this run measures `spec.workload` at an endpoint");
    }),
    rule("spec.workload.model", "workload `spec.model`", |field, value, mapping| {
        mapping.model(field, value.as_str().unwrap_or_default());
    }),
    rule("spec.workload.precision", "workload `spec.precision`", |field, value, mapping| {
        mapping.dimension(field, "precision", value);
    }),
    rule("spec.workload.batchingPolicy", "workload `spec.batching_policy`", |field, value, mapping| {
        mapping.dimension(field, "batching_policy", value);
    }),
    rule("spec.workload.sequenceLengthMix", "workload `spec.lengths.pairs`, with their weights", |field, value, mapping| {
        mapping.length_pairs(field, value, ["inputTokens", "outputTokens"]);
    })
    .reads(&["[].inputTokens", "[].outputTokens", "[].weight"]),
    rule(MODE, "workload `spec.load.mode`: `closed_loop` or `open_loop`", |_, _, _| {}),
    rule("spec.workload.datasetRef", "ignored: prompts have the lengths of the mix", |field, _, mapping| {
        let how =
            "prompts are drawn with the lengths of the mix: to use a file, write `dataset: {path: FILE}` instead of `lengths`";
        mapping.ignored(field, how);
    }),
    rule("spec.workload.fixedAcrossTrials", "`workload_spec_digest`, which covers all of them", |field, _, mapping| {
        mapping.mapped(field, "workload_spec_digest");
    }),
    rule(BASELINE, "pipeline `spec.targets[].url` of the baseline if it is an address; or else ignored", |_, _, _| {}),
    rule(CANDIDATE, "pipeline `spec.targets[].url` of the candidate if it is an address; or else ignored", |_, _, _| {}),
    rule("spec.comparison.baseline.description", "ignored, by name", |field, _, mapping| mapping.ignored(field, NOT_COPIED)),
    rule("spec.comparison.candidate.description", "ignored, by name", |field, _, mapping| mapping.ignored(field, NOT_COPIED)),
    rule(VARIABLE, "pipeline `spec.comparison.variable_under_test` if both sides have addresses; or else a label", |_, _, _| {}),
    rule(
        "spec.comparison.controls.fixed",
        "`workload_spec_digest`, which covers all of them; each must equal its field of `spec.workload`",
        |field, _, mapping| mapping.mapped(field, "workload_spec_digest"),
    )
    .reads(&["model", "sequenceLengthMix", "precision", "batchingPolicy", "concurrencyModel"]),
    rule(
        "spec.comparison.controls.compareOneVariableAtATime",
        "the claim rules `sides_differ` and `confounded`",
        |field, _, mapping| mapping.mapped(field, "claim rules sides_differ and confounded"),
    ),
    rule("spec.metrics.training", "ignored: Assay runs no training yet", |field, _, mapping| mapping.ignored(field, NO_TRAINING)),
    rule("spec.metrics.inference.enabled", "workload `spec.type`", |field, _, mapping| {
        mapping.mapped(field, "workload spec.type");
    }),
    rule("spec.metrics.inference.primary", "Assay's metric of each name; costs need `pricing`", |field, value, mapping| {
        mapping.metrics(field, value);
    }),
    rule("spec.metrics.inference.secondary", "Assay's metric of each name; others are ignored", |field, value, mapping| {
        mapping.metrics(field, value);
    }),
    rule("spec.trials.minReplicates", "pipeline `spec.trials.count`", |field, value, mapping| mapping.trial_count(field, value)),
    rule("spec.trials.confidenceLevel", "intervals of 95 %; another level is approximated", |field, value, mapping| match value
        .as_f64()
    {
        Some(level) if (level - 0.95).abs() < 1e-9 => mapping.mapped(field, "intervals over trials"),
        _ => {
            mapping.approximated(field, "intervals over trials", "intervals have a confidence of 95 %, or what few trials reach");
        }
    }),
    rule("spec.trials.outlierPolicy.method", "`mad` is Assay's; another is approximated", |field, value, mapping| {
        match value.as_str() {
            Some("mad") => mapping.mapped(field, "flagged outliers"),
            _ => mapping.approximated(field, "flagged outliers", "Assay flags outliers by the median absolute deviation"),
        }
    }),
    rule("spec.trials.outlierPolicy.action", "`flag_and_keep`; any other is refused", |field, value, mapping| {
        match value.as_str() {
            Some("flag_and_keep") => mapping.mapped(field, "flagged outliers"),
            _ => mapping.refused(field, "Assay keeps every valid trial: write `flag_and_keep`"),
        }
    }),
    rule("spec.trials.report", "distributions and intervals of results", |field, _, mapping| {
        mapping.approximated(
            field,
            "results",
            "distributions and intervals are in every result; a run of an endpoint has no ranks",
        );
    })
    .reads(&["distributions", "confidenceIntervals", "rankLevelOutliers"]),
    rule("spec.bottleneckAnalysis", "ignored: `assay explain` has its own rules", |field, _, mapping| {
        mapping.ignored(field, NO_PROBES);
    }),
    rule("spec.distributed", "ignored: a run of an endpoint has no ranks", |field, _, mapping| mapping.ignored(field, NO_RANKS)),
    rule("spec.observability.correlation.stableJoinKeys", "columns of the curated tables", |field, _, mapping| {
        let how = "requests have an id in the raw records, which is sent as `x-request-id` and as the id of `traceparent`; the other keys are columns of the curated tables";
        mapping.approximated(field, "keys of the curated tables", how);
    }),
    rule("spec.observability.correlation.publishedNumberLineage", "`assay trace`", |field, _, mapping| {
        mapping.mapped(field, "lineage of numbers (assay trace)");
    })
    .reads(&["rawArtifactManifestDigest", "warehouseRowLineage", "querySpecCaptured"]),
    rule(
        "spec.observability.telemetrySources.service",
        "the endpoint's counters, and records of all requests",
        |field, _, mapping| {
            let how =
                "the counters of the endpoint and the records of all requests; queue time is that which the endpoint counts";
            mapping.approximated(field, "recorded telemetry", how);
        },
    ),
    rule("spec.observability.telemetrySources.infrastructure", "ignored: names without addresses", |field, _, mapping| {
        mapping.ignored(field, "it names no addresses: write those of the exporters into `telemetry` of the pipeline");
    }),
    rule("spec.observability.telemetrySources.scheduler", "events and pods of a run in a cluster", |field, _, mapping| {
        mapping.approximated(
            field,
            "recorded telemetry",
            "in a cluster, the events and pods of a run are collected; no other scheduler is read",
        );
    }),
    rule("spec.observability.scenarioPlaybooks", "ignored: Assay runs no playbooks", |field, _, mapping| {
        mapping.ignored(field, "Assay runs no playbooks: a gate names what changed, and telemetry is kept");
    }),
    rule("spec.provenance.capture", "the signed manifests of every run", |field, _, mapping| {
        let how = "of an endpoint, image, versions and topology are recorded as far as it or the pipeline states them";
        mapping.approximated(field, "signed manifests", how);
    })
    .reads(&[
        "pinnedWorkloadSpec",
        "imageDigest",
        "driverCudaNcclRuntimeVersions",
        "hardwareTopology",
        "immutableRawArtifacts",
        "auditTrail",
    ]),
    rule("spec.provenance.signing.required", "every manifest is signed", |field, value, mapping| mapping.signing(field, value)),
    rule("spec.provenance.signing.backend", "`sigstore`; any other is refused", |field, value, mapping| {
        one_word(field, value, "sigstore", mapping);
    }),
    rule("spec.provenance.signing.attestationFormat", "`in_toto`; any other is refused", |field, value, mapping| {
        one_word(field, value, "in_toto", mapping);
    }),
    rule(
        "spec.executionPolicy.publicationGrade.dedicatedNodes",
        "pipeline `spec.controls.dedicated_nodes`, for publication grade",
        |field, value, mapping| mapping.control(field, "dedicated_nodes", value),
    ),
    rule(
        "spec.executionPolicy.publicationGrade.stableBackgroundLoad",
        "pipeline `spec.controls.stable_background`, for publication grade",
        |field, value, mapping| mapping.control(field, "stable_background", value),
    ),
    rule(
        "spec.executionPolicy.publicationGrade.fixedTopology",
        "pipeline `spec.controls.fixed_topology`, for publication grade",
        |field, value, mapping| mapping.control(field, "fixed_topology", value),
    ),
    rule(
        "spec.executionPolicy.publicationGrade.topologyExclusiveScheduling",
        "pipeline `spec.controls.dedicated_nodes`, which is the nearest; ignored for realism grade",
        |field, _, mapping| {
            if mapping.is_publication() {
                let how = "a node on which nothing else runs has no other work in its topology; Assay checks no placement beyond the node";
                mapping.approximated(field, "pipeline spec.controls.dedicated_nodes", how);
            } else {
                mapping.ignored(field, "the run is of realism grade, which does not rest on it");
            }
        },
    ),
    rule(
        "spec.executionPolicy.realismGrade",
        "pipeline `spec.intent`, for realism grade; or else ignored",
        |field, _, mapping| {
            if mapping.is_publication() {
                return mapping.ignored(field, "the run is of publication grade");
            }
            let how = "host and cluster are recorded; Assay starts no other tenants";
            mapping.approximated(field, "pipeline spec.intent", how);
        },
    )
    .reads(&["multiTenantScenarios", "captureClusterContext"]),
    rule("spec.sinks.rawArtifacts.pathTemplate", "`--store` for a bucket; others are refused", raw_store),
    rule("spec.sinks.rawArtifacts.artifacts", "the raw evidence of a run", |field, _, mapping| {
        mapping.approximated(field, "raw evidence", "records, telemetry, logs and manifests; no profiler runs");
    }),
    rule("spec.sinks.rawArtifacts.*", "ignored: the store decides", |field, _, mapping| {
        mapping.ignored(field, "a store is content-addressed and keeps evidence until `assay runs rm` removes it");
    }),
    rule("spec.sinks.hotMetrics", "ignored: it states no address", |field, _, mapping| {
        mapping.ignored(field, "it states no address: to push hot metrics, write `publish.hot_metrics` into the pipeline");
    }),
    rule(
        "spec.sinks.curatedWarehouse.store",
        "Delta Lake tables of the store; ignored if it is not `parquet_duckdb`",
        |field, value, mapping| match value.as_str() {
            Some("parquet_duckdb") => {
                mapping.approximated(field, "warehouse of the store", "Delta Lake tables of Parquet files, which DuckDB reads");
            }
            _ => mapping.ignored(field, "the warehouse is a part of the store: other engines read its Delta Lake tables"),
        },
    ),
    rule("spec.sinks.curatedWarehouse.layout", "the curated tables", |field, _, mapping| {
        mapping.mapped(field, "curated tables");
    })
    .reads(&["facts", "dimensions"]),
    rule("spec.sinks.curatedWarehouse.retention", "ignored: rows stay", |field, _, mapping| {
        mapping.ignored(field, "rows and manifests stay; `assay runs rm` removes raw evidence");
    }),
    rule("spec.sinks.curatedWarehouse.lineage", "`assay trace`", |field, _, mapping| {
        mapping.mapped(field, "lineage of numbers (assay trace)");
    })
    .reads(&["publishedNumbersTraceableToRaw", "manifestDigestColumn", "workloadSpecDigestColumn"]),
    rule("spec.automation.ci", "ignored: a workflow runs the file", |field, _, mapping| {
        mapping.ignored(field, "`spec.schedule` of a pipeline and the workflows of `assay init` say when it runs");
    }),
];

/// Ignores an annotation of others. One of Assay's own that is not known is a mistake: its load would not be measured.
fn any_annotation(field: &str, mapping: &mut Mapping<'_>) {
    let known = [ENDPOINT, CONCURRENCY, RATE, REQUESTS, DURATION];
    if !field.starts_with("metadata.annotations.assay.dev/") {
        return mapping.ignored(field, NOT_COPIED);
    }
    let hint = did_you_mean(field, known).unwrap_or_else(|| "correct it, or remove it".to_owned());
    mapping.refused(field, &format!("Assay has no such annotation: {hint}"));
}

/// Returns true for a BenchmarkRun of any version of its group.
fn recognises(document: &Value) -> bool {
    let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
    text("kind") == "BenchmarkRun" && text("apiVersion").split_once('/').is_some_and(|(group, _)| group == API_GROUP)
}

/// Maps a BenchmarkRun.
fn map(document: &Value, mapping: &mut Mapping<'_>) {
    if at(document, "apiVersion").and_then(Value::as_str) != Some("benchmarking.aisp.dev/v1alpha1") {
        mapping.refused("apiVersion", "`benchmarking.aisp.dev/v1alpha1` is the version whose fields are known");
    }
    mapping.refuse_problems(document);
    map_fields(RULES, document, "the contract has no such field", mapping);
    let has_baseline = sides(document, mapping);
    comparison(document, has_baseline, mapping);
    mapping.settle_model("spec.workload.model");
    let mode = at(document, MODE);
    let is_open = mode.and_then(Value::as_str) == Some("open_loop");
    let (values, unused) = if is_open { (RATE, CONCURRENCY) } else { (CONCURRENCY, RATE) };
    mapping.contract_load(&ContractLoad {
        mode: (MODE, mode),
        values: (values, annotation(document, values)),
        requests: (REQUESTS, annotation(document, REQUESTS)),
        duration: (DURATION, annotation(document, DURATION)),
    });
    if annotation(document, unused).is_some() {
        mapping.ignored(unused, "the concurrency model has no such value");
    }
    mapping.tokenizer_note("tokenizer(implied)");
    mapping.publication();
}

/// Returns the value of an annotation by its whole path. Its name has dots.
fn annotation<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    at(document, "metadata.annotations")?.get(path.strip_prefix("metadata.annotations.")?)
}

/// Returns the address that a field holds; `None` if it holds another text.
fn address<'a>(document: &'a Value, path: &str) -> Option<&'a str> {
    at(document, path)?.as_str().filter(|text| text.starts_with("http://") || text.starts_with("https://"))
}

/// Sets the targets. Returns true if both sides of the comparison have addresses.
fn sides(document: &Value, mapping: &mut Mapping<'_>) -> bool {
    let named = annotation(document, ENDPOINT);
    let baseline = address(document, BASELINE);
    for field in [BASELINE, CANDIDATE] {
        if at(document, field).is_some() && address(document, field).is_none() && !mapping.has_refused_part(field) {
            mapping.ignored(field, "it is no address of an endpoint, and its value is not copied");
        }
    }
    let is_compared = baseline.is_some() && mapping.options.url.is_none();
    if let Some(url) = baseline {
        mapping.endpoint(BASELINE, url);
    }
    if is_compared {
        mapping.draft.finish_side("baseline");
    }
    match (named, address(document, CANDIDATE)) {
        (Some(named), unused) => {
            mapping.endpoint(ENDPOINT, named.as_str().unwrap_or_default());
            if unused.is_some() {
                mapping.ignored(CANDIDATE, "the annotation `assay.dev/endpoint` names the endpoint");
            }
        }
        (None, Some(url)) => mapping.endpoint(CANDIDATE, url),
        (None, None) => {
            let remedy = "a BenchmarkRun names no endpoint: write its address into this annotation, or name it with `--url URL`";
            mapping.no_endpoint(ENDPOINT, remedy);
        }
    }
    is_compared
}

/// Compares the two sides, if both have addresses. For publication grade, a gate blocks what is not proved.
fn comparison(document: &Value, has_baseline: bool, mapping: &mut Mapping<'_>) {
    let Some(variable) = at(document, VARIABLE).filter(|_| !mapping.has_refused_part(VARIABLE)) else { return };
    if !has_baseline {
        let how = "only one side has an address, so no comparison is made; the label states the variable";
        return mapping.label(VARIABLE, "variable_under_test", variable, how);
    }
    let side = |name: &str| json!({"target": name});
    let sides = vec![
        member("baseline", side("baseline")),
        member("candidate", side("candidate")),
        member("variable_under_test", variable.clone()),
    ];
    mapping.draft.pipeline.push(("comparison".to_owned(), Node::Map(sides)));
    mapping.mapped(VARIABLE, "pipeline spec.comparison.variable_under_test");
    if mapping.is_publication() {
        let gate = json!({"name": "publication", "provenance": true, "block_on_inconclusive": true});
        mapping.draft.pipeline.push(member("gates", json!([gate])));
        let how = "the contract needs a commit, known signers and a decision: a run without one of them, and a regression, block";
        mapping.approximated("gates(implied)", "pipeline spec.gates", how);
    }
}

fn one_word(field: &str, value: &Value, word: &str, mapping: &mut Mapping<'_>) {
    if value.as_str() == Some(word) {
        mapping.mapped(field, "signed manifests");
    } else {
        mapping.refused(field, &format!("Assay signs in-toto statements in Sigstore bundles: write `{word}`"));
    }
}

/// Maps the place of raw evidence. A store has a folder for each run by itself.
fn raw_store(field: &str, value: &Value, mapping: &mut Mapping<'_>) {
    let template = value.as_str().unwrap_or_default();
    let template = template.trim_end_matches('/').trim_end_matches("${RUN_ID}");
    match store_of(template, None) {
        Ok(Place::Store(store, _)) => {
            let how = format!("results go to a store that the command names: `--store '{store}'`; it tells runs apart by itself");
            mapping.draft.store = Some(store);
            mapping.approximated(field, "--store", &how);
        }
        Ok(Place::Branch(..)) => mapping.refused(field, "name a bucket, such as `s3://bucket/prefix/${RUN_ID}/`"),
        Err(remedy) => mapping.refused(field, remedy),
    }
}
