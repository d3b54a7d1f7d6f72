//! A workload specification, which freezes a workload beside a BenchmarkRun.

use assay_contracts::is_workload_specification;
use serde_json::{Value, json};

use crate::contract::ContractLoad;
use crate::document::{Rule, docs, map_fields, rule};
use crate::draft::member;
use crate::format::{Example, ExampleInput, Format, Reader};
use crate::mapping::Mapping;
use crate::value::{at, text, whole};

/// The format.
pub(crate) static FORMAT: Format = Format {
    name: "workload-spec",
    title: "a workload specification",
    versions: "contract 2026-03-13",
    recognised_by: "`run_metadata`, `comparison_axis` and `workload`, without `kind`",
    examples: &[
        Example { name: "quantiles", input: ExampleInput::File(include_str!("examples/specification.yaml")), options: "" },
        Example { name: "lists", input: ExampleInput::File(include_str!("examples/specification_lists.yaml")), options: "" },
    ],
    fields: || docs(RULES),
    reader: Reader::Document { recognises: is_workload_specification, map },
};

const ENDPOINT: &str = "assay.endpoint";
const REQUESTS: &str = "assay.requests";
const DURATION: &str = "assay.duration";
const MIX: &str = "workload.input_distribution.sequence_length_mix";
const PROMPT: &str = "workload.input_distribution.prompt_tokens";
const COMPLETION: &str = "workload.input_distribution.completion_tokens";
const BATCHING: &str = "workload.batching_policy.mode";
const MODE: &str = "workload.concurrency_model.mode";
const VALUES: &str = "workload.concurrency_model.values";

/// The members of a distribution of lengths.
const QUANTILES: &[&str] = &["p50", "p95", "max"];

/// The longest list of lengths.
const MAX_LENGTHS: usize = 30;

const NOT_COPIED: &str = "its text is not copied: write it into `metadata` of the pipeline if readers need it";
const SERVER: &str = "a setting of the server: start the server with it";
const OBSERVED: &str = "Assay records what it observes of the target's machine";
const QUALITY: &str = "Assay checks no accuracy: check it before, with the tests that it names";
const DIAGNOSIS: &str = "`assay explain` names a class of bottleneck by its own rules, and Assay changes no node";
const RECORDED: &str = "the recorded environment";

/// All fields, in the order in which they are mapped.
pub(crate) static RULES: &[Rule] = &[
    rule("run_metadata.benchmark_grade", "pipeline `spec.intent`, by either of its names", |field, value, mapping| {
        mapping.grade(field, value);
    }),
    rule("run_metadata.benchmark_layer", "pipeline `metadata.labels.benchmark_layer`", |field, value, mapping| {
        mapping.label(field, "benchmark_layer", value, "a label: every run of an endpoint is measured end to end");
    }),
    rule("run_metadata.use_case", "pipeline `metadata.labels.use_case`", |field, value, mapping| {
        mapping.label(field, "use_case", value, "a label, which changes nothing");
    }),
    rule("run_metadata.*", "ignored, by name", |field, _, mapping| mapping.ignored(field, NOT_COPIED)),
    rule("comparison_axis.variable_under_test", "pipeline `metadata.labels.variable_under_test`", |field, value, mapping| {
        mapping.label(field, "variable_under_test", value, "a label: a specification has one endpoint, so no comparison is made");
    }),
    rule("comparison_axis.constants_locked", "`workload_spec_digest`, which covers all of them", |field, _, mapping| {
        mapping.mapped(field, "workload_spec_digest");
    }),
    rule("comparison_axis.*", "ignored, by name", |field, _, mapping| mapping.ignored(field, NOT_COPIED)),
    rule(ENDPOINT, "pipeline `spec.targets[].url`; a member that Assay adds", |_, _, _| {}),
    rule(REQUESTS, "workload `spec.load.requests`; a member that Assay adds", |_, _, _| {}),
    rule(
        DURATION,
        "workload `spec.load.duration`; a member that Assay adds; absent, and without `requests`: one minute",
        |_, _, _| {},
    ),
    rule("workload.type", "`inference` is workload `spec.type`; any other is refused", |field, value, mapping| {
        mapping.inference_only(field, value);
    }),
    rule("workload.name", "pipeline `metadata.name`, and the workload's name", |field, value, mapping| {
        mapping.contract_name(field, value);
    }),
    rule("workload.model.name", "workload `spec.model`", |field, value, mapping| {
        mapping.model(field, value.as_str().unwrap_or_default());
    }),
    rule("workload.model.precision", "workload `spec.precision`; several are refused", |field, value, mapping| match value {
        Value::Array(items) if items.len() == 1 => mapping.dimension(field, "precision", items.first().unwrap_or(value)),
        Value::Array(_) => mapping.refused(field, "a workload has one precision: write a specification for each"),
        _ => mapping.dimension(field, "precision", value),
    }),
    rule("workload.model.*", "ignored: it is a part of the model's name", |field, _, mapping| {
        mapping.ignored(field, "requests name the model only");
    }),
    rule(MIX, "workload `spec.lengths.pairs`, with their weights", |field, value, mapping| {
        mapping.length_pairs(field, value, ["input_tokens", "output_tokens"]);
    })
    .reads(&["[].input_tokens", "[].output_tokens", "[].weight"]),
    rule(
        PROMPT,
        "workload `spec.lengths.input`: a number, or quantiles as a histogram; a list is `spec.lengths.pairs`",
        |_, _, _| {},
    )
    .reads(QUANTILES),
    rule(COMPLETION, "workload `spec.lengths.output`, alike", |_, _, _| {}).reads(QUANTILES),
    rule("workload.input_distribution.*", "ignored: lengths only", |field, _, mapping| {
        mapping.ignored(field, "prompts are drawn with the stated lengths only");
    }),
    rule("workload.batching_policy", "workload `spec.batching_policy`", |field, value, mapping| {
        mapping.dimension(field, "batching_policy", value);
    }),
    rule(BATCHING, "workload `spec.batching_policy`", |field, value, mapping| mapping.dimension(field, "batching_policy", value)),
    rule("workload.batching_policy.*", "ignored: settings of the server", |field, _, mapping| mapping.ignored(field, SERVER)),
    rule("workload.concurrency_model", "workload `spec.load.mode`", |_, _, _| {}),
    rule(MODE, "workload `spec.load.mode`: `closed_loop` or `open_loop`", |_, _, _| {}),
    rule(VALUES, "workload `spec.load.concurrency` or `spec.load.rate`", |_, _, _| {}),
    rule("workload.serving_contract.stack_under_test", "workload `spec.stack`, in lower case", |field, value, mapping| {
        mapping.stack(field, value.as_str().unwrap_or_default());
    }),
    rule(
        "workload.serving_contract.protocol",
        "`openai_compatible_http` is workload `spec.protocol`; any other is refused",
        |field, value, mapping| match value.as_str() {
            Some("openai_compatible_http") => mapping.dimension(field, "protocol", value),
            _ => mapping.refused(
                field,
                "Assay sends OpenAI's requests: write `openai_compatible_http`, or describe the API as `api: custom`",
            ),
        },
    ),
    rule("workload.serving_contract.deployment_model", "workload `spec.deployment_model`", |field, value, mapping| {
        mapping.dimension(field, "deployment_model", value);
    }),
    rule(
        "workload.serving_contract.fairness_constraints",
        "ignored: both sides of a comparison have one workload",
        |field, _, mapping| {
            mapping.ignored(field, "all sides of a comparison have the same workload, and so the same API");
        },
    ),
    rule("workload.quality_constraints", "ignored: Assay checks no accuracy", |field, _, mapping| {
        mapping.ignored(field, QUALITY);
    }),
    rule("execution.image", "pipeline `spec.targets[].image`, as declared", |field, value, mapping| {
        let image = value.as_str().unwrap_or_default();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._/:@-".contains(&byte);
        if image.is_empty() || image.len() > 300 || !image.bytes().all(is_plain) || crate::value::is_credential("", image) {
            return mapping.ignored(field, "it is no name of an image, and is not copied");
        }
        mapping.draft.facts.push(member("image", image));
        mapping.mapped(field, "pipeline spec.targets[0].image");
    }),
    rule("execution.runtime_versions.driver", "pipeline `spec.targets[].software.driver`", fact),
    rule("execution.runtime_versions.cuda", "pipeline `spec.targets[].software.cuda`", fact),
    rule("execution.runtime_versions.nccl", "pipeline `spec.targets[].software.nccl`", fact),
    rule("execution.runtime_versions.pytorch", "pipeline `spec.targets[].software.framework`", fact),
    rule("execution.runtime_versions.runtime_or_server", "pipeline `spec.targets[].software.server`", fact),
    rule("execution.hardware_tier.gpu_model", "pipeline `spec.targets[].hardware.gpu_model`", fact),
    rule("execution.hardware_tier.gpu_count", "pipeline `spec.targets[].hardware.gpu_count`", fact),
    rule("execution.hardware_tier.cpu_model", "pipeline `spec.targets[].hardware.cpu_model`", fact),
    rule("execution.scheduler_path.queue_or_scheduler", "pipeline `spec.targets[].place.queue`", fact),
    rule("execution.hardware_tier.*", "ignored: observed", |field, _, mapping| mapping.ignored(field, OBSERVED)),
    rule("execution.topology", "ignored: observed", |field, _, mapping| mapping.ignored(field, OBSERVED)),
    rule("execution.scheduler_path.*", "ignored: observed", |field, _, mapping| mapping.ignored(field, OBSERVED)),
    rule("execution.runtime_versions.*", "ignored: observed", |field, _, mapping| mapping.ignored(field, OBSERVED)),
    rule("measurement_policy.trials", "pipeline `spec.trials.count`", |field, value, mapping| mapping.trial_count(field, value)),
    rule("measurement_policy.warmup_trials", "ignored: no trial is left out", |field, _, mapping| {
        mapping.ignored(field, "Assay leaves no trial out: write `load.warmup: TIME` into the workload");
    }),
    rule("measurement_policy.report_statistics", "statistics of results", |field, _, mapping| mapping.mapped(field, "results")),
    rule("measurement_policy.outlier_policy", "outliers are flagged and kept", |field, _, mapping| {
        mapping.approximated(
            field,
            "flagged outliers",
            "Assay flags outliers by the median absolute deviation, and discards none",
        );
    })
    .reads(&["method", "keep_raw_samples", "auto_flag_only", "discard_requires_written_reason"]),
    rule("measurement_policy.confidence_policy", "intervals of 95 %", |field, _, mapping| {
        mapping.approximated(
            field,
            "intervals over trials",
            "intervals are those of `docs/statistics.md`; the budget of a gate is the smallest effect that blocks",
        );
    })
    .reads(&["method", "min_effect_size_pct"]),
    rule(
        "measurement_policy.environment_controls.gpu_clocks_locked",
        "pipeline `spec.controls.locked_clocks`, for publication grade",
        |field, value, mapping| mapping.control(field, "locked_clocks", value),
    ),
    rule("measurement_policy.environment_controls.app_clocks_recorded", "the recorded environment", |field, _, mapping| {
        mapping.mapped(field, RECORDED);
    }),
    rule("measurement_policy.environment_controls.topology_recorded", "the recorded environment", |field, _, mapping| {
        mapping.mapped(field, RECORDED);
    }),
    rule("measurement_policy.environment_controls.background_load_recorded", "the recorded environment", |field, _, mapping| {
        mapping.mapped(field, RECORDED);
    }),
    rule("measurement_policy.*", "ignored, by name", |field, _, mapping| mapping.ignored(field, NOT_COPIED)),
    rule("metrics.primary", "Assay's metric of each name; costs need `pricing`", |field, value, mapping| {
        mapping.metrics(field, value);
    }),
    rule("metrics.secondary", "Assay's metric of each name; others are ignored", |field, value, mapping| {
        mapping.metrics(field, value);
    }),
    rule("diagnosis_policy", "ignored: `assay explain` has its own rules", |field, _, mapping| {
        mapping.ignored(field, DIAGNOSIS);
    }),
    rule("artifacts.provenance_signing.required", "every manifest is signed", |field, value, mapping| {
        mapping.signing(field, value);
    }),
    rule("artifacts.provenance_signing.*", "ignored, by name", |field, _, mapping| mapping.ignored(field, NOT_COPIED)),
    rule("artifacts.*", "ignored: every run has manifests, digests and a report", |field, _, mapping| {
        mapping.ignored(field, "every run has signed manifests with digests of its evidence, and a report");
    }),
];

/// Maps a workload specification.
fn map(document: &Value, mapping: &mut Mapping<'_>) {
    mapping.refuse_problems(document);
    map_fields(RULES, document, "the contract has no such member", mapping);
    match at(document, ENDPOINT) {
        Some(url) => mapping.endpoint(ENDPOINT, url.as_str().unwrap_or_default()),
        None => {
            mapping.no_endpoint(
                ENDPOINT,
                "a specification names no endpoint: add `assay: {endpoint: ADDRESS}`, or name it with `--url URL`",
            );
        }
    }
    if at(document, "workload.type").is_none() {
        mapping.refused("workload.type(absent)", "write `type: inference` if an endpoint serves the workload");
    }
    if at(document, "run_metadata.benchmark_grade").is_none() {
        mapping.approximated(
            "run_metadata.benchmark_grade(absent)",
            "pipeline spec.intent",
            "no grade is stated, so the run is exploratory",
        );
    }
    mapping.settle_model("workload.model.name");
    lengths(document, mapping);
    load(document, mapping);
    mapping.tokenizer_note("tokenizer(implied)");
    mapping.publication();
}

fn load(document: &Value, mapping: &mut Mapping<'_>) {
    let plain = at(document, "workload.concurrency_model").filter(|model| model.is_string());
    let (field, mode) = if plain.is_some() { ("workload.concurrency_model", plain) } else { (MODE, at(document, MODE)) };
    if mode.is_none() && !mapping.has_refused_part(MODE) {
        mapping.refused(&format!("{MODE}(absent)"), "write `closed_loop` or `open_loop`");
    }
    mapping.contract_load(&ContractLoad {
        mode: (field, mode),
        values: (VALUES, at(document, VALUES)),
        requests: (REQUESTS, at(document, REQUESTS)),
        duration: (DURATION, at(document, DURATION)),
    });
}

/// Declares a fact about the target.
fn fact(field: &str, value: &Value, mapping: &mut Mapping<'_>) {
    let (group, name) = field.rsplit_once('.').unwrap_or_default();
    let list = match group.rsplit('.').next() {
        Some("runtime_versions") => "software",
        Some("hardware_tier") => "hardware",
        _ => "place",
    };
    let name = match name {
        "pytorch" => "framework",
        "runtime_or_server" => "server",
        "queue_or_scheduler" => "queue",
        same => same,
    };
    mapping.fact(field, list, name, text(value).as_deref());
}

/// Sets the lengths of prompts and responses, unless a mix has set them.
fn lengths(document: &Value, mapping: &mut Mapping<'_>) {
    let (prompt, completion) = (at(document, PROMPT), at(document, COMPLETION));
    if at(document, MIX).is_some() {
        for (field, _) in [(PROMPT, prompt), (COMPLETION, completion)].iter().filter(|(_, value)| value.is_some()) {
            mapping.ignored(field, "`sequence_length_mix` states the lengths");
        }
        return;
    }
    let (Some(prompt), Some(completion)) = (prompt, completion) else {
        let remedy = "write `sequence_length_mix`, or `prompt_tokens` and `completion_tokens`";
        return mapping.refused("workload.input_distribution(absent)", remedy);
    };
    if mapping.has_refused_part(PROMPT) || mapping.has_refused_part(COMPLETION) {
        return;
    }
    if prompt.is_array() || completion.is_array() {
        return listed_lengths(prompt, completion, mapping);
    }
    let (Some(input), Some(output)) = (distribution(prompt), distribution(completion)) else {
        return mapping.refused(PROMPT, "write quantiles that rise: `{p50: 512, p95: 2048, max: 4096}`");
    };
    for (field, value, side) in [(PROMPT, prompt, "input"), (COMPLETION, completion, "output")] {
        let to = format!("workload spec.lengths.{side}");
        if value.is_object() {
            mapping.approximated(
                field,
                &to,
                "lengths between two quantiles are equally likely, and those below the median begin at 1",
            );
        } else {
            mapping.mapped(field, &to);
        }
    }
    mapping.draft.workload.push(member("lengths", json!({"input": input, "output": output})));
}

/// Returns the distribution of a number, or of the quantiles `p50`, `p95` and `max`: three bins with half, 45 % and 5 % of the lengths.
fn distribution(tokens: &Value) -> Option<Value> {
    if let Some(tokens) = whole(tokens) {
        return Some(json!({"fixed": tokens}));
    }
    let [median, p95, max] = ["p50", "p95", "max"].map(|name| tokens.get(name).and_then(whole));
    let edges = [1, median?, p95?, max?];
    edges.is_sorted_by(|a, b| a < b).then(|| json!({"histogram": {"edges": edges, "weights": [50, 45, 5]}}))
}

/// Sets each pair of a listed prompt and a listed response, all equally likely.
fn listed_lengths(prompt: &Value, completion: &Value, mapping: &mut Mapping<'_>) {
    let numbers = |value: &Value| -> Option<Vec<u64>> {
        let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        let numbers: Option<Vec<u64>> = items.iter().map(|item| whole(item).filter(|tokens| *tokens > 0)).collect();
        numbers.filter(|numbers| (1..=MAX_LENGTHS).contains(&numbers.len()))
    };
    let (Some(inputs), Some(outputs)) = (numbers(prompt), numbers(completion)) else {
        return mapping.refused(PROMPT, "write up to 30 numbers of tokens for each, or quantiles for both");
    };
    let pairs: Vec<Value> =
        inputs.iter().flat_map(|input| outputs.iter().map(move |output| json!({"input": input, "output": output}))).collect();
    mapping.draft.workload.push(member("lengths", json!({"pairs": pairs})));
    for field in [PROMPT, COMPLETION] {
        mapping.approximated(field, "workload spec.lengths.pairs", "each pair of a prompt and a response is equally likely");
    }
}
