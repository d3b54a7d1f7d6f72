//! `vllm bench serve`.

use serde_json::{Value, json};

use crate::client::{Client, SIX_HOURS, Temperature};
use crate::command::{Arguments, Flag, Takes, ignored, many, one, refused, switch, unless};
use crate::draft::member;
use crate::extra_body::ExtraBody;
use crate::format::{Example, ExampleInput, Format, Reader, docs};
use crate::mapping::Mapping;
use crate::note::{ADAPTERS, ALL_METRICS, DATASET_FILE, OWN_SEED, TRACE_FILE, WARMUP};

/// The format.
pub(crate) static FORMAT: Format = Format {
    name: "vllm-bench-serve",
    title: "a command line of `vllm bench serve`",
    versions: "the options of September 2026",
    recognised_by: "`vllm bench serve`",
    examples: &[
        Example {
            name: "rate",
            input: ExampleInput::Command(
                "vllm bench serve --backend openai-chat --base-url http://127.0.0.1:8000 --endpoint /v1/chat/completions --model llama-3.1-8b \
                 --dataset-name random --random-input-len 1024 --random-output-len 128 --random-range-ratio 0.2 --num-prompts 500 --request-rate 10 \
                 --burstiness 0.8 --max-concurrency 64 --ignore-eos --goodput ttft:200 tpot:50 --save-result",
            ),
            options: "",
        },
        Example {
            name: "closed",
            input: ExampleInput::Command("vllm bench serve --model m --max-concurrency 16 --num-prompts 200 --seed 1"),
            options: "",
        },
    ],
    fields: || docs(FLAGS),
    reader: Reader::Command { commands: COMMANDS, flags: FLAGS, map },
};

const COMMANDS: &[&[&str]] = &[&["vllm", "bench", "serve"]];
/// The client of September 2026. Older ones sent a temperature of 0.
const BEHAVIOUR: Client = Client { tool: "vLLM", temperature: Temperature::OfServer, timeout: SIX_HOURS };
const SONNET: &str =
    "write `text: natural`, `prefix: {system: TOKENS}` and `lengths` into the workload, which are prose of Assay's own";
const RAMP: &str = "Assay changes a rate over a time: write `load: {mode: open, rate: {ramp: {...}}, duration: TIME}`";

pub(crate) static FLAGS: &[Flag] = &[
    one(&["--backend"], "`spec.api`: vllm and openai are `completions`, openai-chat is `chat`", "openai-chat"),
    one(&["--base-url"], "the target's `url`", "http://h:1"),
    one(&["--host"], "the target's `url`", "h"),
    one(&["--port"], "the target's `url`", "81"),
    one(&["--endpoint"], "`spec.api`, whose path it has to be", "/v1/completions"),
    one(&["--model"], "`spec.model`", "m"),
    one(&["--served-model-name"], "`spec.model`", "m"),
    one(&["--tokenizer"], "a comment on `spec.lengths`", "t"),
    one(&["--dataset-name"], "`random` is `spec.lengths`; any other is refused", "random"),
    one(&["--num-prompts"], "`spec.load.requests`", "9"),
    one(&["--random-input-len", "--input-len"], "`spec.lengths.input`", "9"),
    one(&["--random-output-len", "--output-len"], "`spec.lengths.output`", "9"),
    one(&["--random-range-ratio"], "`vllm_range` in `spec.lengths`", "0.5"),
    one(&["--random-prefix-len"], "`spec.prefix.system`", "9"),
    one(&["--request-rate"], "`spec.load.rate`", "2.5"),
    one(&["--burstiness"], "`spec.load.smoothness`, with a rate", "0.5"),
    one(&["--max-concurrency"], "`spec.load.concurrency`, or `max_concurrency` with a rate", "4"),
    switch(&["--ignore-eos"], "`spec.exact_output`"),
    many(&["--goodput"], "`spec.slos`", "ttft:1"),
    many(&["--header"], "references in the target's `headers`", "x-team=a"),
    one(&["--extra-body"], "`spec.body` and `spec.extra_body`", "{\"min_p\":0.5}"),
    one(&["--temperature"], "`spec.body`", "0.5"),
    one(&["--top-p"], "`spec.body`", "0.5"),
    one(&["--top-k"], "`spec.body`", "5"),
    one(&["--min-p"], "`spec.body`", "0.5"),
    one(&["--frequency-penalty"], "`spec.body`", "0.5"),
    one(&["--presence-penalty"], "`spec.body`", "0.5"),
    one(&["--repetition-penalty"], "`spec.body`", "1.5"),
    one(&["--logprobs"], "`spec.body`, for completions", "2"),
    switch(&["--insecure"], "the target's `insecure_skip_tls_verify`"),
    one(&["--ready-check-timeout-sec"], "the target's `ready.timeout`", "10"),
    ignored(&["--seed"], Takes::One, OWN_SEED),
    unless(&["--num-warmups"], "0", WARMUP, "5"),
    ignored(&["--percentile-metrics"], Takes::One, ALL_METRICS),
    ignored(&["--metric-percentiles"], Takes::One, ALL_METRICS),
    ignored(&["--save-result"], Takes::Nothing, ALL_METRICS),
    ignored(&["--save-detailed"], Takes::Nothing, ALL_METRICS),
    ignored(&["--append-result"], Takes::Nothing, ALL_METRICS),
    ignored(&["--result-dir"], Takes::One, ALL_METRICS),
    ignored(&["--result-filename"], Takes::One, ALL_METRICS),
    ignored(&["--metadata"], Takes::Many, ALL_METRICS),
    ignored(&["--label"], Takes::One, ALL_METRICS),
    ignored(&["--plot-timeline"], Takes::Nothing, ALL_METRICS),
    ignored(&["--disable-tqdm"], Takes::Nothing, ALL_METRICS),
    ignored(&["--trust-remote-code"], Takes::Nothing, "Assay runs no code of a model"),
    ignored(&["--tokenizer-mode"], Takes::One, "a tokenizer of Assay is a file beside the workload"),
    refused(&["--dataset-path"], Takes::One, DATASET_FILE),
    refused(&["--custom-output-len"], Takes::One, DATASET_FILE),
    refused(&["--sharegpt-output-len"], Takes::One, DATASET_FILE),
    refused(&["--sonnet-input-len"], Takes::One, SONNET),
    refused(&["--sonnet-output-len"], Takes::One, SONNET),
    refused(&["--sonnet-prefix-len"], Takes::One, SONNET),
    refused(&["--lora-modules"], Takes::Many, ADAPTERS),
    refused(&["--lora-assignment"], Takes::One, ADAPTERS),
    refused(&["--ramp-up-strategy"], Takes::One, RAMP),
    refused(&["--ramp-up-start-rps"], Takes::One, RAMP),
    refused(&["--ramp-up-end-rps"], Takes::One, RAMP),
    refused(&["--self-timed"], Takes::Nothing, TRACE_FILE),
    refused(&["--profile"], Takes::Nothing, "Assay does not start the profiler of a server: remove it"),
    refused(&["--use-beam-search"], Takes::Nothing, "responses of several beams have no times of tokens: remove it"),
    refused(&["--random-batch-size"], Takes::One, "write `api: embeddings` and `batch: NUMBER` into the workload"),
];

pub(crate) fn map(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    mapping.draft.set_name("vllm-bench");
    mapping.draft.stack = Some("vllm".to_owned());
    target(arguments, mapping);
    api(arguments, mapping);
    let model = if arguments.has("--served-model-name") { "--served-model-name" } else { "--model" };
    if let Some(name) = arguments.one(model) {
        mapping.model(model, name);
    }
    if model != "--model" && arguments.has("--model") {
        mapping.ignored("--model", "requests name the served model");
    }
    mapping.settle_model("--model");
    let how = "vLLM scales its gaps so that the last request is due at requests / rate; Assay's process is not scaled";
    mapping.rate_or_concurrency(arguments, how);
    lengths(arguments, mapping);
    body(arguments, mapping);
    mapping.implied(BEHAVIOUR);
}

fn target(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    mapping.base_url(arguments, 8000);
    for header in arguments.all("--header") {
        mapping.header("--header", header);
    }
    if arguments.has("--insecure") {
        mapping.draft.target.push(member("insecure_skip_tls_verify", true));
        mapping.mapped("--insecure", "pipeline spec.targets[0].insecure_skip_tls_verify");
    }
    if let Some(seconds) = arguments.whole("--ready-check-timeout-sec", mapping) {
        if (1..=86_400).contains(&seconds) {
            mapping.draft.target.push(member("ready", json!({"timeout": format!("{seconds}s")})));
            mapping.mapped("--ready-check-timeout-sec", "pipeline spec.targets[0].ready.timeout");
        } else {
            mapping.ignored("--ready-check-timeout-sec", "Assay always waits for an endpoint that is not ready yet");
        }
    }
}

fn api(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    let (api, path) = match arguments.one("--backend").unwrap_or("openai") {
        "openai" | "vllm" => ("completions", "/v1/completions"),
        "openai-chat" => ("chat", "/v1/chat/completions"),
        _ => {
            return mapping
                .refused("--backend", "write `openai` or `openai-chat`; other kinds of requests are `spec.api` of a workload");
        }
    };
    mapping.draft.workload.insert(0, member("api", api));
    let field = &arguments.field("--backend");
    mapping.mapped(field, "workload spec.api");
    match arguments.one("--endpoint") {
        Some(given) if given == path => mapping.mapped("--endpoint", "workload spec.api"),
        Some(_) => mapping.refused(
            "--endpoint",
            &format!("this backend has the path `{path}`: a path in front of it belongs into the address"),
        ),
        None => {}
    }
}

fn lengths(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    match arguments.one("--dataset-name") {
        None => mapping.mapped("--dataset-name(absent)", "workload spec.lengths"),
        Some("random") => mapping.mapped("--dataset-name", "workload spec.lengths"),
        Some(_) => return mapping.refused("--dataset-name", DATASET_FILE),
    }
    let ratio = arguments.number_or("--random-range-ratio", 0.0, "workload spec.lengths", mapping);
    let mut lengths = serde_json::Map::new();
    for (name, side, default) in [("--random-input-len", "input", 1024), ("--random-output-len", "output", 128)] {
        let to = format!("workload spec.lengths.{side}");
        let tokens = arguments.whole_or(name, default, &to, mapping);
        let length =
            if ratio > 0.0 { json!({"vllm_range": {"tokens": tokens, "ratio": ratio}}) } else { json!({"fixed": tokens}) };
        lengths.insert(side.to_owned(), length);
        let field = arguments.field(name);
        mapping.mapped(&field, &to);
    }
    if arguments.has("--random-range-ratio") {
        mapping.mapped("--random-range-ratio", "workload spec.lengths");
    }
    mapping.draft.workload.push(member("lengths", Value::Object(lengths)));
    if let Some(prefix) = arguments.whole("--random-prefix-len", mapping) {
        mapping.draft.workload.push(member("prefix", json!({"system": prefix})));
        mapping.mapped("--random-prefix-len", "workload spec.prefix.system");
    }
    mapping.tokenizer_option(arguments, "--tokenizer");
}

/// The options that are members of each request's body.
const SAMPLING: [(&str, &str); 7] = [
    ("--temperature", "temperature"),
    ("--top-p", "top_p"),
    ("--top-k", "top_k"),
    ("--min-p", "min_p"),
    ("--frequency-penalty", "frequency_penalty"),
    ("--presence-penalty", "presence_penalty"),
    ("--repetition-penalty", "repetition_penalty"),
];

fn body(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    let extra = ExtraBody::map(arguments, "--extra-body", mapping);
    for (flag, name) in SAMPLING {
        if let Some(value) = arguments.one(flag) {
            extra.map_member(flag, name, &Value::from(value), mapping);
        }
    }
    ignore_eos(arguments, &extra, mapping);
    let is_chat = arguments.one("--backend") == Some("openai-chat");
    if let Some(value) = arguments.one("--logprobs") {
        if is_chat {
            mapping.ignored("--logprobs", "requests of this backend do not have it");
        } else {
            extra.map_member("--logprobs", "logprobs", &Value::from(value), mapping);
        }
    }
    if !is_chat && !arguments.has("--repetition-penalty") {
        extra.map_member("repetition_penalty(implied)", "repetition_penalty", &json!(1.0), mapping);
    }
    if arguments.has("--goodput") {
        mapping.slos("--goodput", &arguments.all("--goodput"));
    }
}

/// Maps `ignore_eos`. vLLM sets it for `random` data whatever the option says.
fn ignore_eos(arguments: &Arguments, extra: &ExtraBody, mapping: &mut Mapping<'_>) {
    let is_given = arguments.has("--ignore-eos");
    let is_random = matches!(arguments.one("--dataset-name"), None | Some("random"));
    let field = if is_random && !is_given { "ignore_eos(implied)".to_owned() } else { arguments.field("--ignore-eos") };
    extra.map_ignore_eos(&field, is_given || is_random, mapping);
}
