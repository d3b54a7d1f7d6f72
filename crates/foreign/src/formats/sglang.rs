//! `python -m sglang.bench_serving`.

use serde_json::{Value, json};

use crate::client::{Client, SIX_HOURS, Temperature};
use crate::command::{Arguments, Flag, Takes, ignored, many, one, refused, switch, unless};
use crate::draft::member;
use crate::extra_body::ExtraBody;
use crate::format::{Example, ExampleInput, Format, Reader, docs};
use crate::mapping::Mapping;
use crate::note::{ADAPTERS, ALL_METRICS, DATASET_FILE, OWN_SEED, TRACE_FILE};

/// The format.
pub(crate) static FORMAT: Format = Format {
    name: "sglang-bench-serving",
    title: "a command line of `sglang.bench_serving`",
    versions: "the options of September 2026",
    recognised_by: "`python -m sglang.bench_serving`",
    examples: &[Example {
        name: "random",
        input: ExampleInput::Command(
            "python3 -m sglang.bench_serving --backend sglang-oai-chat --host 127.0.0.1 --port 30000 --model llama-3.1-8b --dataset-name random \
             --random-input-len 1024 --random-output-len 256 --random-range-ratio 0.5 --num-prompts 200 --request-rate 8 --max-concurrency 64 --seed 42",
        ),
        options: "",
    }],
    fields: || docs(FLAGS),
    reader: Reader::Command { commands: COMMANDS, flags: FLAGS, map },
};

const COMMANDS: &[&[&str]] = &[&["python", "-m", "sglang.bench_serving"], &["python3", "-m", "sglang.bench_serving"]];
const BEHAVIOUR: Client = Client { tool: "SGLang", temperature: Temperature::Zero, timeout: SIX_HOURS };
// The default of SGLang is one request, as Assay's test request.
const WARMUP_REQUESTS: &str = "Assay sends one test request before the load, and its warm-up is a time: remove it, or write `load.warmup: TIME` into the workload";
const GROUPS: &str = "write `prefix: {group: TOKENS, groups: NUMBER}` and `lengths` into the workload";

pub(crate) static FLAGS: &[Flag] = &[
    one(
        &["--backend"],
        "`spec.api`: sglang-oai and vllm are `completions`, sglang-oai-chat and vllm-chat are `chat`",
        "sglang-oai",
    ),
    one(&["--base-url"], "the target's `url`", "http://h:1"),
    one(&["--host"], "the target's `url`", "h"),
    one(&["--port"], "the target's `url`", "81"),
    one(&["--model"], "`spec.model`", "m"),
    one(&["--tokenizer"], "a comment on `spec.lengths`", "t"),
    one(&["--dataset-name"], "`random` is `spec.lengths`; any other is refused", "random"),
    one(&["--num-prompts"], "`spec.load.requests`", "9"),
    one(&["--random-input-len", "--random-input"], "`sglang_range` in `spec.lengths.input`", "9"),
    one(&["--random-output-len", "--random-output"], "`sglang_range` in `spec.lengths.output`", "9"),
    one(&["--random-range-ratio"], "`sglang_range` in `spec.lengths`", "0.5"),
    one(&["--request-rate"], "`spec.load.rate`", "2.5"),
    one(&["--max-concurrency"], "`spec.load.concurrency`, or `max_concurrency` with a rate", "4"),
    switch(&["--disable-ignore-eos"], "`spec.exact_output`"),
    switch(&["--disable-stream"], "`spec.streaming`"),
    one(&["--extra-request-body"], "`spec.body` and `spec.extra_body`", "{\"min_p\":0.5}"),
    many(&["--header"], "references in the target's `headers`", "x-team=a"),
    ignored(&["--seed"], Takes::One, OWN_SEED),
    unless(&["--warmup-requests"], "1", WARMUP_REQUESTS, "5"),
    ignored(&["--output-file"], Takes::One, ALL_METRICS),
    ignored(&["--output-details"], Takes::Nothing, ALL_METRICS),
    ignored(&["--cache-report"], Takes::Nothing, ALL_METRICS),
    ignored(&["--disable-tqdm"], Takes::Nothing, ALL_METRICS),
    ignored(&["--tag"], Takes::One, ALL_METRICS),
    ignored(&["--apply-chat-template"], Takes::Nothing, "a chat API applies it"),
    refused(&["--dataset-path"], Takes::One, DATASET_FILE),
    refused(&["--sharegpt-output-len"], Takes::One, DATASET_FILE),
    refused(&["--flush-cache"], Takes::Nothing, "write `cache: cold_flush` into the workload"),
    refused(&["--lora-name"], Takes::Many, ADAPTERS),
    refused(&["--lora-request-distribution"], Takes::One, "write `adapters: [{name: NAME, weight: NUMBER}]` into the workload"),
    refused(&["--tokenize-prompt"], Takes::Nothing, "write `token_ids: {least: ID, most: ID}` into the workload"),
    refused(&["--use-trace-timestamps"], Takes::Nothing, TRACE_FILE),
    refused(&["--gsp-num-groups"], Takes::One, GROUPS),
    refused(&["--gsp-prompts-per-group"], Takes::One, GROUPS),
    refused(&["--gsp-system-prompt-len"], Takes::One, GROUPS),
    refused(&["--gsp-question-len"], Takes::One, GROUPS),
    refused(&["--gsp-output-len"], Takes::One, GROUPS),
    refused(&["--profile"], Takes::Nothing, "Assay does not start the profiler of a server: remove it"),
    refused(&["--return-logprob"], Takes::Nothing, "write `body: {logprobs: true}` into the workload"),
];

fn map(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    mapping.draft.set_name("sglang-bench");
    target(arguments, mapping);
    if let Some(name) = arguments.one("--model") {
        mapping.model("--model", name);
    }
    mapping.settle_model("--model");
    mapping.rate_or_concurrency(arguments, "Assay's Poisson process has draws of its own");
    lengths(arguments, mapping);
    if arguments.has("--disable-stream") {
        mapping.draft.workload.push(member("streaming", false));
        mapping.mapped("--disable-stream", "workload spec.streaming");
    }
    let extra = extra_body(arguments, mapping);
    let field = arguments.field("--disable-ignore-eos");
    extra.map_ignore_eos(&field, !arguments.has("--disable-ignore-eos"), mapping);
    mapping.implied(BEHAVIOUR);
}

fn extra_body(arguments: &Arguments, mapping: &mut Mapping<'_>) -> ExtraBody {
    const FIELD: &str = "--extra-request-body";
    if arguments.has(FIELD) && is_native(arguments) {
        let remedy = "its members are those of `/generate`: write `--backend sglang-oai` with those of `/v1/completions`";
        mapping.refused(FIELD, remedy);
        return ExtraBody::default();
    }
    ExtraBody::map(arguments, FIELD, mapping)
}

/// Returns the backend that an option names, or the default.
fn backend_of(arguments: &Arguments) -> &str {
    arguments.one("--backend").unwrap_or("sglang")
}

/// Returns true if requests go to `/generate`.
fn is_native(arguments: &Arguments) -> bool {
    matches!(backend_of(arguments), "sglang" | "sglang-native")
}

fn target(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    let backend = backend_of(arguments);
    let field = &arguments.field("--backend");
    let (api, stack, port) = match backend {
        "sglang" | "sglang-native" | "sglang-oai" => ("completions", "sglang", 30000),
        "sglang-oai-chat" => ("chat", "sglang", 30000),
        "vllm" => ("completions", "vllm", 8000),
        "vllm-chat" => ("chat", "vllm", 8000),
        _ => {
            return mapping
                .refused(field, "write sglang-oai, sglang-oai-chat, vllm or vllm-chat, or describe the API as `api: custom`");
        }
    };
    mapping.draft.stack = Some(stack.to_owned());
    mapping.draft.workload.insert(0, member("api", api));
    if is_native(arguments) {
        mapping.approximated(
            field,
            "workload spec.api",
            "requests go to `/v1/completions` of the same server instead of `/generate`",
        );
    } else {
        mapping.mapped(field, "workload spec.api");
    }
    mapping.base_url(arguments, port);
    for header in arguments.all("--header") {
        mapping.header("--header", header);
    }
}

fn lengths(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    match arguments.one("--dataset-name") {
        Some("random" | "random-ids") => mapping.mapped("--dataset-name", "workload spec.lengths"),
        Some(_) => return mapping.refused("--dataset-name", DATASET_FILE),
        None => return mapping.refused("--dataset-name(absent)", "the default is ShareGPT: put the file beside the workload and write `dataset: {path: FILE}`, or add `--dataset-name random`"),
    }
    let ratio = arguments.number_or("--random-range-ratio", 0.0, "workload spec.lengths", mapping);
    let field = &arguments.field("--random-range-ratio");
    mapping.mapped(field, "workload spec.lengths");
    let mut lengths = serde_json::Map::new();
    for (name, side) in [("--random-input-len", "input"), ("--random-output-len", "output")] {
        let to = format!("workload spec.lengths.{side}");
        let tokens = arguments.whole_or(name, 1024, &to, mapping);
        lengths.insert(side.to_owned(), json!({"sglang_range": {"tokens": tokens, "ratio": ratio}}));
        let field = arguments.field(name);
        mapping.mapped(&field, &to);
    }
    mapping.draft.workload.push(member("lengths", Value::Object(lengths)));
    mapping.tokenizer_option(arguments, "--tokenizer");
}
