//! `genai-bench benchmark`.

use serde_json::Value;

use crate::command::{Arguments, Flag, Takes, ignored, many, one, refused};
use crate::draft::member;
use crate::format::{Example, ExampleInput, Format, Reader, docs};
use crate::genai::{GenaiFields, GenaiLoad};
use crate::mapping::Mapping;
use crate::note::{COOLDOWN, DATASET_FILE, NO_ADDRESS};

/// The format.
pub(crate) static FORMAT: Format = Format {
    name: "genai-bench",
    title: "a command line of genai-bench",
    versions: "0.0.5",
    recognised_by: "`genai-bench benchmark`",
    examples: &[Example {
        name: "chat",
        input: ExampleInput::Command(
            "genai-bench benchmark --api-backend vllm --api-base http://127.0.0.1:8000 --api-model-name llama-3.1-8b --api-key none --task text-to-text \
             --model-tokenizer /models/llama --traffic-scenario D(100,200) --traffic-scenario N(480,240)/(300,150) --num-concurrency 1 \
             --num-concurrency 8 --max-time-per-run 10 --max-requests-per-run 100 --server-engine vLLM --server-gpu-type H100",
        ),
        options: "",
    }],
    fields: || docs(FLAGS),
    reader: Reader::Command { commands: COMMANDS, flags: FLAGS, map },
};

const COMMANDS: &[&[&str]] = &[&["genai-bench", "benchmark"]];
const UPLOAD: &str = "results are in the store that `assay run --store` names";
const METADATA: &str = "it describes files of genai-bench, and changes nothing that is measured";

const FIELDS: GenaiFields = GenaiFields {
    task: "--task",
    scenarios: "--traffic-scenario",
    concurrency: "--num-concurrency",
    batch: Some("--batch-size"),
    minutes: "--max-time-per-run",
    requests: "--max-requests-per-run",
};

pub(crate) static FLAGS: &[Flag] = &[
    one(&["--api-backend"], "`spec.api`: openai, vllm and sglang; any other is refused", "openai"),
    one(&["--api-base"], "the target's `url`", "http://127.0.0.1:8000"),
    one(&["--api-key", "--model-api-key"], "a reference in the target's `headers`", "sk-abc"),
    one(&["--api-model-name"], "`spec.model`", "m"),
    one(&["--task"], "`spec.api`", "text-to-text"),
    one(&["--model-tokenizer"], "a comment on `spec.lengths`", "/models/m"),
    one(&["--additional-request-params"], "`spec.body` and `spec.exact_output`", "{\"top_p\":0.5}"),
    one(&["--max-requests-per-run"], "`spec.load.requests`", "10"),
    one(&["--max-time-per-run"], "`spec.load.duration`", "10"),
    many(&["--traffic-scenario"], "a workload for each", "D(1,2)"),
    many(&["--num-concurrency"], "`spec.load.concurrency`", "4"),
    many(&["--batch-size"], "`spec.batch`, for embeddings and rerank", "4"),
    one(&["--server-engine"], "`spec.stack`", "vLLM"),
    one(&["--server-version"], "the target's `software.server`", "0.9"),
    one(&["--server-gpu-type"], "the target's `hardware.gpu_model`", "H100"),
    one(&["--server-gpu-count"], "the target's `hardware.gpu_count`", "8"),
    one(&["--prefix-len"], "`spec.prefix.system`, in front of `lengths`", "16"),
    ignored(&["--iteration-type"], Takes::One, "the task decides it"),
    ignored(&["--model"], Takes::One, METADATA),
    ignored(&["--metrics-time-unit"], Takes::One, METADATA),
    ignored(&["--experiment-folder-name"], Takes::One, METADATA),
    ignored(&["--experiment-base-dir"], Takes::One, METADATA),
    ignored(&["--log-dir"], Takes::One, METADATA),
    ignored(&["--num-workers"], Takes::One, "Assay chooses `shards` by calibration"),
    ignored(&["--master-port"], Takes::One, "shards of Assay need no port"),
    ignored(&["--spawn-rate"], Takes::One, "Assay's users start at once; `load.warmup` leaves their start out"),
    ignored(&["--upload-results"], Takes::Nothing, UPLOAD),
    ignored(&["--storage-provider"], Takes::One, UPLOAD),
    ignored(&["--storage-bucket"], Takes::One, UPLOAD),
    ignored(&["--storage-prefix"], Takes::One, UPLOAD),
    ignored(&["--namespace", "--region", "--auth", "--config-file", "--profile", "--security-token"], Takes::One, UPLOAD),
    refused(
        &["--prefix-ratio"],
        Takes::One,
        "Assay's beginnings have a number of tokens: write `prefix: {system: TOKENS}` into the workloads",
    ),
    refused(
        &["--warmup-ratio"],
        Takes::One,
        "Assay's warm-up is a time that comes before: write `load.warmup: TIME` into the workloads",
    ),
    refused(&["--cooldown-ratio"], Takes::One, COOLDOWN),
    refused(&["--dataset-config"], Takes::One, DATASET_FILE),
    refused(&["--dataset-path"], Takes::One, DATASET_FILE),
    refused(&["--dataset-prompt-column"], Takes::One, "write `dataset: {fields: {prompt: NAME}}` into the workload"),
    refused(&["--dataset-image-column"], Takes::One, "put images beside the workload, and write `image_files`"),
];

fn map(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    mapping.draft.set_name("genai-bench");
    let backend = arguments.one("--api-backend").unwrap_or_default().to_owned();
    match backend.as_str() {
        "openai" | "vllm" | "sglang" => mapping.mapped("--api-backend", "workload spec.api"),
        "" => mapping.refused("--api-backend(absent)", "write `openai`, `vllm` or `sglang`"),
        _ => mapping.refused(
            "--api-backend",
            "Assay sends OpenAI's requests: write `openai`, `vllm` or `sglang`, or describe the API as `api: custom`",
        ),
    }
    if let Some(url) = arguments.one("--api-base") {
        mapping.endpoint("--api-base", url);
    } else {
        mapping.no_endpoint("--api-base", NO_ADDRESS);
    }
    if let Some(model) = arguments.one("--api-model-name") {
        mapping.model("--api-model-name", model);
    }
    if arguments.has("--api-key") {
        mapping.api_key("--api-key");
    }
    let load = GenaiLoad {
        task: arguments.one("--task").map(str::to_owned),
        scenarios: list(arguments, "--traffic-scenario").map(|list| list.into_iter().map(str::to_owned).collect()),
        concurrency: list(arguments, "--num-concurrency").map(|list| list.into_iter().map(|text| text.parse().ok()).collect()),
        batch: list(arguments, "--batch-size").map(|list| list.into_iter().map(|text| text.parse().ok()).collect()),
        minutes: arguments.one("--max-time-per-run").map(Value::from),
        requests: arguments.one("--max-requests-per-run").map(Value::from),
    };
    mapping.genai_load(&load, FIELDS);
    if arguments.has("--model-tokenizer") {
        mapping.tokenizer_note("--model-tokenizer");
    }
    if let Some(prefix) = arguments.whole("--prefix-len", mapping) {
        mapping.draft.workload.push(member("prefix", serde_json::json!({"system": prefix})));
        mapping.approximated(
            "--prefix-len",
            "workload spec.prefix",
            "these tokens come in addition to `lengths`, and not out of them",
        );
    }
    body(arguments, backend == "openai", mapping);
    server(arguments, mapping);
    mapping.settle_model("--api-model-name");
}

fn list<'a>(arguments: &'a Arguments, name: &str) -> Option<Vec<&'a str>> {
    arguments.has(name).then(|| arguments.all(name))
}

fn body(arguments: &Arguments, is_openai: bool, mapping: &mut Mapping<'_>) {
    let field = "--additional-request-params";
    for (name, value) in mapping.json_members(arguments, field).unwrap_or_default() {
        mapping.genai_body_member(&format!("{field}.{name}"), &name, &value, is_openai);
    }
    mapping.genai_exact_output(is_openai);
}

fn server(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    if let Some(engine) = arguments.one("--server-engine") {
        mapping.stack("--server-engine", engine);
    }
    mapping.fact("--server-version", "software", "server", arguments.one("--server-version"));
    mapping.fact("--server-gpu-type", "hardware", "gpu_model", arguments.one("--server-gpu-type"));
    mapping.fact("--server-gpu-count", "hardware", "gpu_count", arguments.one("--server-gpu-count"));
}
