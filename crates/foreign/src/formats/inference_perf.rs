//! The configuration file of inference-perf.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::client::{Client, Temperature};
use crate::command::{Arguments, Flag, Takes, ignored, many, one, refused, unless};
use crate::document::Fields;
use crate::draft::member;
use crate::format::{Example, ExampleInput, Format, Reader, docs};
use crate::load::{clipping, difference_of_slo, is_clipped_much, plain_label, plain_number};
use crate::mapping::Mapping;
use crate::note::{ALL_METRICS, DATASET_FILE, NO_ADDRESS, OWN_SEED};
use crate::value::is_credential;

/// The format.
pub(crate) static FORMAT: Format = Format {
    name: "inference-perf",
    title: "a configuration of inference-perf",
    versions: "0.6.0 to 0.7.0",
    recognised_by: "`load` with a `type`, `stages` or a `sweep`, beside `data`, `api` or `server`",
    examples: &[
        Example { name: "stages", input: ExampleInput::File(include_str!("examples/inference_perf_stages.yml")), options: "" },
        Example {
            name: "prefixes",
            input: ExampleInput::File(include_str!("examples/inference_perf_prefixes.yml")),
            options: "",
        },
    ],
    fields: || docs(TABLE),
    reader: Reader::Document { recognises, map },
};

const FIELDS: Fields = Fields {
    tool: "inference-perf",
    table: TABLE,
    address: "server.base_url",
    model: "server.model_name",
    tokenizer: "tokenizer.pretrained_model_name_or_path",
};
const TRACE: &str = "write `trace: {path: FILE, format: FORMAT}` and `load: {mode: replay}` into a workload";
const CONVERSATIONS: &str = "write `sessions: {turns: NUMBER, think_time: TIME}` and `lengths` into a workload";
const IMAGES: &str = "write `images: {width: NUMBER, height: NUMBER}` into the workload; Assay sends no videos and no audio";
const BREAKERS: &str = "write `load: {stop_on_errors: {share: SHARE, of_last: NUMBER}}` into the workload";
const CLIENT: &str = "Assay calibrates its client, and a trial that the client held up is invalid";
const REQUEST_SLOS: &str =
    "the limits of a workload are the same for all of its requests: write `slos: {ttft: TIME, tpot: TIME}`";
const CLIENT_CERTIFICATE: &str = "write `tls: {client: {cert: REFERENCE, key: REFERENCE}}` into the target";
const RUN_ID: &str = "each run has an id and a place of its own";

/// The fields, in the order of the sections of inference-perf's own configuration.
pub(crate) static TABLE: &[Flag] = &[
    one(&["server.base_url"], "the target's `url`", "http://h:1"),
    one(&["server.model_name"], "`spec.model`", "m"),
    one(&["server.type"], "`spec.stack`: vllm, sglang and tgi", "sglang"),
    one(&["server.ignore_eos"], "`spec.exact_output`", "false"),
    one(&["server.api_key"], "a reference in the target's `headers`", "x"),
    refused(&["server.cert_path"], Takes::One, CLIENT_CERTIFICATE),
    refused(&["server.key_path"], Takes::One, CLIENT_CERTIFICATE),
    one(
        &["api.type"],
        "`spec.api`: completion, chat and anthropic_messages, if inference-perf sends this `data.type` to it: random and synthetic only to completion, shared_prefix not to anthropic_messages",
        "completion",
    ),
    one(&["api.streaming"], "`spec.streaming`", "true"),
    one(&["api.headers"], "references in the target's `headers`", "{\"x-team\": \"a\"}"),
    refused(&["api.response_format"], Takes::One, "write `extra_body: '{\"response_format\": {...}}'` into the workload"),
    refused(&["api.slo_unit"], Takes::One, REQUEST_SLOS),
    refused(&["api.slo_ttft_header"], Takes::One, REQUEST_SLOS),
    refused(&["api.slo_tpot_header"], Takes::One, REQUEST_SLOS),
    refused(&["api.session_id_header_key"], Takes::One, "write `sessions: {header: NAME}` into the workload"),
    refused(
        &["api.session_token_header_key"],
        Takes::One,
        "Assay sends no header of a response back: use a header that the client chooses, `sessions: {header: NAME}`",
    ),
    one(&["load.type"], "`spec.load.mode`: constant and poisson are open loops, concurrent is a closed one", "poisson"),
    many(&["load.stages[].rate"], "`spec.load.rate`, one point each", "2.5"),
    many(&["load.stages[].duration"], "`spec.load.duration`; stages that differ in it are workloads of their own", "30"),
    many(&["load.stages[].concurrency_level"], "`spec.load.concurrency`, one point each", "4"),
    many(&["load.stages[].num_requests"], "`spec.load.requests`; stages that differ in it are workloads of their own", "30"),
    refused(&["load.stages[].concurrent_sessions"], Takes::One, TRACE),
    refused(&["load.stages[].session_rate"], Takes::One, TRACE),
    refused(&["load.stages[].num_sessions"], Takes::One, TRACE),
    refused(&["load.stages[].timeout"], Takes::One, TRACE),
    ignored(&["load.interval"], Takes::One, "Assay drains the requests of a point before the next one"),
    refused(
        &["load.sweep"],
        Takes::One,
        "write the loads out as `stages`; `assay bench` searches for the most load: see `assay bench --help`",
    ),
    one(&["load.request_timeout"], "`spec.load.timeout`", "30"),
    unless(&["load.request_retries"], "0", "Assay sends no request again, because that would hide a failure: remove it", "2"),
    ignored(&["load.request_retry_backoff_sec"], Takes::One, "it belongs to the retries"),
    ignored(
        &["load.stage_teardown_grace_seconds"],
        Takes::One,
        "the time that Assay waits for the requests in flight at the end of a point is its own",
    ),
    many(&["load.lora_traffic_split[].name"], "`spec.adapters[].name`", "a"),
    many(&["load.lora_traffic_split[].split"], "`spec.adapters[].weight`", "1"),
    ignored(&["load.num_workers"], Takes::One, CLIENT),
    ignored(&["load.worker_max_concurrency"], Takes::One, CLIENT),
    ignored(&["load.worker_max_tcp_connections"], Takes::One, CLIENT),
    ignored(&["load.base_seed"], Takes::One, OWN_SEED),
    refused(&["load.trace"], Takes::One, TRACE),
    refused(&["load.circuit_breakers"], Takes::One, BREAKERS),
    refused(&["circuit_breakers"], Takes::One, BREAKERS),
    one(
        &["data.type"],
        "random and synthetic are `spec.lengths`, shared_prefix is `spec.prefix`, too; any other is refused",
        "random",
    ),
    one(
        &["data.input_distribution.type"],
        "the distribution of `spec.lengths.input`: normal, lognormal, uniform, poisson and fixed",
        "fixed",
    ),
    one(&["data.input_distribution.mean"], "`spec.lengths.input`", "100"),
    one(&["data.input_distribution.std_dev"], "`spec.lengths.input`", "10"),
    one(&["data.input_distribution.variance"], "`spec.lengths.input`: its square root is the standard deviation", "100"),
    one(&["data.input_distribution.min"], "`spec.lengths.input.uniform`, or else a comment", "50"),
    one(&["data.input_distribution.max"], "`spec.lengths.input.uniform`, or else a comment", "150"),
    unless(&["data.input_distribution.skew"], "0", SKEW, "1"),
    ignored(&["data.input_distribution.total_count"], Takes::One, "Assay draws a length for each request"),
    one(
        &["data.output_distribution.type"],
        "the distribution of `spec.lengths.output`: normal, lognormal, uniform, poisson and fixed",
        "fixed",
    ),
    one(&["data.output_distribution.mean"], "`spec.lengths.output`", "100"),
    one(&["data.output_distribution.std_dev"], "`spec.lengths.output`", "10"),
    one(&["data.output_distribution.variance"], "`spec.lengths.output`: its square root is the standard deviation", "100"),
    one(&["data.output_distribution.min"], "`spec.lengths.output.uniform`, or else a comment", "50"),
    one(&["data.output_distribution.max"], "`spec.lengths.output.uniform`, or else a comment", "150"),
    unless(&["data.output_distribution.skew"], "0", SKEW, "1"),
    ignored(&["data.output_distribution.total_count"], Takes::One, "Assay draws a length for each request"),
    one(&["data.shared_prefix.num_groups"], "`spec.prefix.groups`", "5"),
    one(&["data.shared_prefix.num_unique_system_prompts"], "`spec.prefix.groups`", "5"),
    one(&["data.shared_prefix.num_prompts_per_group"], "a comment on `spec.prefix`", "5"),
    one(&["data.shared_prefix.num_users_per_system_prompt"], "a comment on `spec.prefix`", "5"),
    one(&["data.shared_prefix.system_prompt_len"], "`spec.prefix.group`; a distribution is refused", "100"),
    one(&["data.shared_prefix.question_len"], "`spec.lengths.input`; a distribution is refused", "50"),
    one(&["data.shared_prefix.output_len"], "`spec.lengths.output`; a distribution is refused", "50"),
    ignored(&["data.shared_prefix.seed"], Takes::One, OWN_SEED),
    refused(&["data.shared_prefix.question_distribution"], Takes::One, DISTRIBUTION),
    refused(&["data.shared_prefix.output_distribution"], Takes::One, DISTRIBUTION),
    unless(&["data.shared_prefix.enable_multi_turn_chat"], "false", CONVERSATIONS, "true"),
    refused(&["data.shared_prefix.multimodal"], Takes::One, IMAGES),
    refused(&["data.path"], Takes::One, DATASET_FILE),
    ignored(
        &["data.corpus_file_path"],
        Takes::One,
        "Assay draws its prompts by a generator of its own: `text: natural` of a workload gives prose",
    ),
    unless(
        &["data.use_chat_template"],
        "false",
        "the endpoint applies the template of a chat: write `api: chat` into the workload",
        "true",
    ),
    refused(&["data.trace"], Takes::One, TRACE),
    refused(&["data.multimodal"], Takes::One, IMAGES),
    refused(&["data.visionarena"], Takes::One, DATASET_FILE),
    refused(&["data.otel_trace_replay"], Takes::One, TRACE),
    refused(&["data.weka_trace_replay"], Takes::One, TRACE),
    refused(&["data.conversation_replay"], Takes::One, CONVERSATIONS),
    refused(&["data.synthetic_agentic"], Takes::One, CONVERSATIONS),
    one(&["tokenizer.pretrained_model_name_or_path"], "a comment on `spec.lengths`", "t"),
    ignored(&["tokenizer.trust_remote_code"], Takes::One, "Assay runs no code of a model"),
    ignored(&["tokenizer.load_timeout"], Takes::One, "Assay loads no tokenizer from a hub"),
    ignored(&["tokenizer.token"], Takes::One, "Assay loads no tokenizer from a hub, and the value is not copied"),
    ignored(&["metrics"], Takes::One, "Assay records the endpoint's own metrics; a `telemetry` source of a pipeline adds others"),
    one(&["report.goodput.constraints.ttft"], "`spec.slos.ttft`, in seconds", "0.5"),
    one(&["report.goodput.constraints.tpot"], "`spec.slos.tpot`, in seconds", "0.5"),
    one(&["report.goodput.constraints.request_latency"], "`spec.slos.e2e`, in seconds", "0.5"),
    refused(
        &["report.goodput.constraints.itl"],
        Takes::One,
        "Assay has no limit of the single gaps of a response: write `tpot`, their mean",
    ),
    refused(
        &["report.goodput.constraints.ntpot"],
        Takes::One,
        "Assay has no limit of the latency per output token: write `request_latency`",
    ),
    ignored(&["report.request_lifecycle"], Takes::One, ALL_METRICS),
    ignored(&["report.prometheus"], Takes::One, ALL_METRICS),
    ignored(&["report.session_lifecycle"], Takes::One, ALL_METRICS),
    ignored(&["storage.local_storage"], Takes::One, "results are in the store that `assay run --store` names"),
    refused(
        &["storage.google_cloud_storage"],
        Takes::One,
        "Assay has no store on Google Cloud Storage: name a bucket of a service that speaks S3, or serve a folder with `assay serve`",
    ),
    one(&["storage.simple_storage_service.bucket_name"], "`--store`", "b"),
    one(&["storage.simple_storage_service.region_name"], "a part of `--store`", "eu-west-1"),
    one(&["storage.simple_storage_service.endpoint_url"], "a part of `--store`", "https://s3.example.org"),
    ignored(&["storage.simple_storage_service.path"], Takes::One, RUN_ID),
    ignored(&["storage.simple_storage_service.report_file_prefix"], Takes::One, RUN_ID),
    ignored(&["storage.simple_storage_service.addressing_style"], Takes::One, "Assay chooses it"),
];

/// Its limit is that of aiohttp, which it does not change.
const BEHAVIOUR: Client = Client { tool: "inference-perf", temperature: Temperature::OfServer, timeout: Some("5m") };
const SKEW: &str = "Assay has no skewed normal distribution: write the lengths as `lengths: {input: {histogram: {...}}}`";
const DISTRIBUTION: &str =
    "write a number, or the distribution as `lengths` of the workload: `{normal: {mean: NUMBER, stddev: NUMBER}}`";

/// The most stages of a load.
const MAX_STAGES: usize = 200;

/// Returns true for a document with a load beside one of the sections that every configuration of inference-perf has.
fn recognises(document: &Value) -> bool {
    let is_own = document.get("apiVersion").is_none() && document.get("kind").is_none();
    let load = document.get("load");
    let has = |member: &str| load.is_some_and(|load| load.get(member).is_some());
    let has_section = ["data", "api", "server"].iter().any(|name| document.get(name).is_some_and(Value::is_object));
    is_own && has_section && (has("type") || has("stages") || has("sweep"))
}

/// Maps a configuration.
fn map(document: &Value, mapping: &mut Mapping<'_>) {
    let arguments = FIELDS.read(document, mapping);
    mapping.draft.set_name("inference-perf");
    server(&arguments, mapping);
    api(&arguments, mapping);
    stages(&arguments, document, mapping);
    mapping.timeout(&arguments, "load.request_timeout", None);
    adapters(&arguments, mapping);
    data(&arguments, mapping);
    goodput(&arguments, mapping);
    storage(&arguments, mapping);
    mapping.implied(BEHAVIOUR);
    arguments.settle(mapping);
}

fn server(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    match arguments.one("server.base_url") {
        Some(url) => mapping.endpoint("server.base_url", url),
        None => mapping.no_endpoint("server.base_url", NO_ADDRESS),
    }
    if let Some(name) = arguments.one("server.model_name") {
        mapping.model("server.model_name", name);
    }
    mapping.settle_model("server.model_name");
    match arguments.one("server.type") {
        None | Some("vllm") => {
            mapping.draft.stack = Some("vllm".to_owned());
            mapping.mapped(&arguments.field("server.type"), "workload spec.stack");
        }
        Some(name @ ("sglang" | "tgi")) => mapping.stack("server.type", name),
        Some(_) => mapping.refused(
            "server.type",
            "write `vllm`, `sglang` or `tgi`; `assay bench --simulator PROFILE` starts a server for tests",
        ),
    }
    if let Some(key) = arguments.one("server.api_key") {
        mapping.has_credential("server.api_key", key);
        mapping.api_key("server.api_key");
    }
}

fn api(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    let kind = arguments.one("api.type").unwrap_or("completion");
    let api = match kind {
        "completion" => Some("completions"),
        "chat" => Some("chat"),
        "anthropic_messages" => Some("messages"),
        _ => None,
    };
    match api {
        Some(api) => {
            if let Some(remedy) = refused_by_original(arguments, kind) {
                mapping.refused("api.type", &remedy);
            } else {
                mapping.draft.workload.insert(0, member("api", api));
                mapping.mapped(&arguments.field("api.type"), "workload spec.api");
            }
        }
        None => mapping.refused("api.type", "write `completion`, `chat` or `anthropic_messages`"),
    }
    mapping.streaming(arguments, "api.streaming", false);
    mapping.headers(arguments, "api.headers");
}

/// Returns the remedy for an API that inference-perf refuses with this data or this server: `get_supported_apis` of its data generators and of its
/// clients, in 0.6.0 to 0.7.0. What it cannot run has no numbers to compare with.
fn refused_by_original(arguments: &Arguments, api: &str) -> Option<String> {
    let (data, server) = (arguments.one("data.type").unwrap_or("mock"), arguments.one("server.type").unwrap_or("vllm"));
    let of_data: &[&str] = match data {
        "random" | "synthetic" => &["completion"],
        "shared_prefix" => &["completion", "chat"],
        _ => &["completion", "chat", "anthropic_messages"],
    };
    let of_server: &[&str] = match server {
        "sglang" | "tgi" => &["completion", "chat"],
        _ => &["completion", "chat", "anthropic_messages"],
    };
    let write = |known: &[&str]| known.iter().map(|known| format!("`{known}`")).collect::<Vec<_>>().join(" or ");
    if !of_data.contains(&api) {
        let known = write(of_data);
        return Some(format!(
            "inference-perf refuses it with `data.type: {data}`: write {known}, and then another `api` into the workload"
        ));
    }
    (!of_server.contains(&api))
        .then(|| format!("inference-perf refuses it with `server.type: {server}`: write {}", write(of_server)))
}

/// The fields of the stages of one kind of load.
struct StageFields {
    /// The field of the load of a stage.
    load: &'static str,
    /// The field of its end.
    end: &'static str,
    /// The member of `spec.load` that is its axis.
    axis: &'static str,
    /// The member of `spec.load` that ends it.
    limit: &'static str,
}

const OPEN: StageFields =
    StageFields { load: "load.stages[].rate", end: "load.stages[].duration", axis: "rate", limit: "duration" };
const CLOSED: StageFields = StageFields {
    load: "load.stages[].concurrency_level",
    end: "load.stages[].num_requests",
    axis: "concurrency",
    limit: "requests",
};

fn stages(arguments: &Arguments, document: &Value, mapping: &mut Mapping<'_>) {
    let stated = document.pointer("/load/stages").and_then(Value::as_array).map_or(1, Vec::len);
    let field = &arguments.field("load.type");
    match arguments.one("load.type").unwrap_or("constant") {
        "constant" => {
            let how = "inference-perf draws exponential gaps, and scales them so that the last request is due at the end of a stage; the gaps of \
                       Assay's Poisson process are not scaled";
            mapping.approximated(field, "workload spec.load.arrival", how);
            write_stages(arguments, stated, &OPEN, mapping);
        }
        "poisson" => {
            mapping.mapped(field, "workload spec.load.arrival");
            write_stages(arguments, stated, &OPEN, mapping);
        }
        "concurrent" => {
            mapping.mapped(field, "workload spec.load.mode");
            write_stages(arguments, stated, &CLOSED, mapping);
        }
        "trace_replay" | "trace_session_replay" => mapping.refused(field, TRACE),
        _ => mapping.refused(field, "write `constant`, `poisson` or `concurrent`"),
    }
}

/// Writes the stages: as the points of one workload if they differ in their load alone, or else as a workload each.
fn write_stages(arguments: &Arguments, stated: usize, fields: &StageFields, mapping: &mut Mapping<'_>) {
    let Some(stages) = read_stages(arguments, stated, fields, mapping) else { return };
    let are_points = stages.iter().enumerate().all(|(index, (load, end))| {
        let differs = |(other, other_end): &(f64, f64)| other_end.total_cmp(end).is_eq() && other.total_cmp(load).is_ne();
        stages.iter().take(index).all(differs)
    });
    let groups: Vec<&[(f64, f64)]> = if are_points { vec![stages.as_slice()] } else { stages.chunks(1).collect() };
    let several = groups.len() > 1;
    for (index, group) in groups.iter().enumerate() {
        let loads: Vec<f64> = group.iter().map(|(load, _)| *load).collect();
        let end = group.first().map_or(0.0, |(_, end)| *end) as u64;
        if fields.axis == "rate" {
            mapping.open(&loads, "poisson", None, None);
        } else {
            mapping.closed(&loads.iter().map(|load| *load as u64).collect::<Vec<_>>());
        }
        if let Some(cell) = mapping.draft.cells.last_mut() {
            cell.load.push(if fields.limit == "duration" {
                member("duration", format!("{end}s"))
            } else {
                member("requests", end)
            });
            cell.suffix = if several { format!("stage-{}", index + 1) } else { String::new() };
        }
    }
    if fields.limit == "duration" {
        mapping.draft.minutes = stages.iter().map(|(_, end)| (*end / 60.0).ceil() as u64).max();
    }
    let to = format!("workload spec.load.{}", fields.axis);
    if stages.len() > 1 {
        let how = "stages follow one another, and each finds the queue of the one before; Assay measures each by itself, in an order that the seed decides";
        mapping.approximated(fields.load, &to, how);
    } else {
        mapping.mapped(fields.load, &to);
    }
    mapping.mapped(fields.end, &format!("workload spec.load.{}", fields.limit));
}

/// Returns the load and the end of each of the stated stages; stages that state other fields or no numbers are refused.
fn read_stages(arguments: &Arguments, stated: usize, fields: &StageFields, mapping: &mut Mapping<'_>) -> Option<Vec<(f64, f64)>> {
    let numbers = |name: &str| -> Option<Vec<f64>> { arguments.all(name).iter().map(|text| text.parse::<f64>().ok()).collect() };
    let is_whole = |number: f64| number.fract() == 0.0;
    let (loads, ends) = (numbers(fields.load), numbers(fields.end));
    let Some(loads) =
        loads.filter(|loads| loads.iter().all(|load| *load > 0.0 && *load <= 1e7 && (fields.axis == "rate" || is_whole(*load))))
    else {
        mapping.refused(fields.load, if fields.axis == "rate" { "write numbers above 0" } else { "write whole numbers from 1" });
        return None;
    };
    let Some(ends) = ends.filter(|ends| ends.iter().all(|end| *end >= 1.0 && *end <= 1e9 && is_whole(*end))) else {
        mapping.refused(fields.end, "write whole numbers from 1");
        return None;
    };
    // A stage without one of them would get that of its neighbour.
    if loads.is_empty() || loads.len() != ends.len() || loads.len() != stated || loads.len() > MAX_STAGES {
        let [load, end] = [fields.load, fields.end].map(|field| field.rsplit('.').next().unwrap_or_default());
        mapping.refused("load.stages", &format!("write 1 to {MAX_STAGES} stages, and `{load}` and `{end}` into each"));
        return None;
    }
    Some(loads.into_iter().zip(ends).collect())
}

fn adapters(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    let (names, splits) = ("load.lora_traffic_split[].name", "load.lora_traffic_split[].split");
    if !arguments.has(names) {
        return;
    }
    let weights: Vec<f64> =
        arguments.all(splits).iter().filter_map(|text| text.parse().ok()).filter(|weight| *weight >= 0.0).collect();
    let labels: Vec<String> = arguments.all(names).iter().filter_map(|name| plain_label(name)).collect();
    if labels.len() != arguments.all(names).len() || weights.len() != labels.len() || arguments.all(splits).len() != labels.len()
    {
        return mapping.refused("load.lora_traffic_split", "write `adapters: [{name: NAME, weight: NUMBER}]` into the workload");
    }
    let adapter = |(name, weight): (&String, &f64)| json!({"name": name, "weight": plain_number(*weight)});
    let adapters: Vec<Value> = labels.iter().zip(&weights).map(adapter).collect();
    mapping.draft.workload.push(member("adapters", Value::Array(adapters)));
    mapping.mapped(names, "workload spec.adapters");
    mapping.mapped(splits, "workload spec.adapters");
}

fn data(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    let field = &arguments.field("data.type");
    match arguments.one("data.type") {
        Some("random" | "synthetic") => {
            mapping.mapped(field, "workload spec.lengths");
            drawn_lengths(arguments, mapping);
        }
        Some("shared_prefix") => {
            mapping.mapped(field, "workload spec.prefix");
            shared_prefix(arguments, mapping);
        }
        Some("shareGPT") => mapping.refused(
            field,
            "put the file beside the workload, and write `dataset: {path: FILE, format: sharegpt}` instead of `lengths`",
        ),
        Some("otel_trace_replay" | "weka_trace_replay") => mapping.refused(field, TRACE),
        Some("conversation_replay" | "synthetic_agentic") => mapping.refused(field, CONVERSATIONS),
        None | Some("mock") => mapping.refused(
            field,
            "prompts of one fixed text: write `type: random` with `input_distribution` and `output_distribution`",
        ),
        Some(_) => mapping.refused(field, DATASET_FILE),
    }
    if mapping.draft.workload.iter().any(|(name, _)| name == "lengths") {
        let exact = arguments.one("server.ignore_eos");
        match exact {
            None | Some("true") => mapping.exact_output(&arguments.field("server.ignore_eos"), true),
            Some("false") => mapping.exact_output("server.ignore_eos", false),
            Some(_) => mapping.refused("server.ignore_eos", "write `true` or `false`"),
        }
        mapping.tokenizer_option(arguments, "tokenizer.pretrained_model_name_or_path");
    }
}

fn drawn_lengths(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    let mut lengths = serde_json::Map::new();
    for (side, path) in [("input", "data.input_distribution"), ("output", "data.output_distribution")] {
        if ["type", "mean", "std_dev", "variance", "min", "max"].iter().all(|name| !arguments.has(&format!("{path}.{name}"))) {
            return mapping.refused(&format!("{path}(absent)"), "write the distribution of the lengths: `mean` and `std_dev`");
        }
        let Some(length) = distribution(arguments, side, path, mapping) else { return };
        lengths.insert(side.to_owned(), length);
    }
    mapping.draft.workload.push(member("lengths", Value::Object(lengths)));
}

/// Returns the lengths of a distribution, whose fields get their rows. `None` if one of them is refused.
fn distribution(arguments: &Arguments, side: &str, path: &str, mapping: &mut Mapping<'_>) -> Option<Value> {
    let to = format!("workload spec.lengths.{side}");
    let name = |name: &str| format!("{path}.{name}");
    let mut number = |field: &str, default: f64| -> Option<f64> {
        if arguments.has(&name(field)) { arguments.number(&name(field), mapping) } else { Some(default) }
    };
    let (mean, least, most) = (number("mean", 512.0)?, number("min", 10.0)?, number("max", 1024.0)?);
    let stddev = if arguments.has(&name("variance")) { number("variance", 0.0)?.sqrt() } else { number("std_dev", 200.0)? };
    let kind = arguments.one(&name("type")).unwrap_or("normal");
    let is_drawn_around = ["normal", "lognormal", "poisson"].contains(&kind);
    if mean < 1.0 || least > most || (is_drawn_around && !(least..=most).contains(&mean)) {
        let defaults = "inference-perf has the defaults 10, 512 and 1024";
        mapping.refused(&name("mean"), &format!("write a mean from 1 that lies between `min` and `max`: {defaults}"));
        return None;
    }
    if kind == "normal" && is_clipped_much(mean, stddev, Some(least), Some(most)) && stddev > 0.0 {
        let clipped = "Assay does not clip lengths, and a bound within two standard deviations changes the mean: write `type: uniform`, or a smaller `std_dev`";
        mapping.refused(&name("std_dev"), clipped);
        return None;
    }
    let (length, note) = match kind {
        "fixed" => (json!({"fixed": mean as u64}), None),
        "uniform" => (json!({"uniform": {"min": (least as u64).max(1), "max": most as u64}}), None),
        "normal" | "lognormal" if stddev == 0.0 => (json!({"fixed": mean.round() as u64}), None),
        "normal" => (
            json!({"normal": {"mean": plain_number(mean), "stddev": plain_number(stddev)}}),
            Some(clipping(mean, stddev, Some(least), Some(most))),
        ),
        "lognormal" => {
            let how = format!(
                "inference-perf shifts the distribution to begin at {least}, and clips it at {most}; Assay's begins at 0, with the same mean and spread"
            );
            (json!({"lognormal": {"mean": plain_number(mean), "stddev": plain_number(stddev)}}), Some(how))
        }
        "poisson" => {
            let how = "a normal distribution has the mean and the spread of the Poisson distribution, which is nearly the same from a mean of 20".to_owned();
            (json!({"normal": {"mean": plain_number(mean), "stddev": mean.sqrt()}}), Some(how))
        }
        "skew_normal" => {
            mapping.refused(&name("type"), SKEW);
            return None;
        }
        _ => {
            mapping.refused(&name("type"), "write `normal`, `lognormal`, `uniform`, `poisson` or `fixed`");
            return None;
        }
    };
    let used: &[&str] = match kind {
        "fixed" => &["type", "mean"],
        "uniform" => &["type", "min", "max"],
        "poisson" => &["type", "mean", "min", "max"],
        _ => &["type", "mean", "std_dev", "variance", "min", "max"],
    };
    for field in ["type", "mean", "std_dev", "variance", "min", "max"] {
        let is_bound = matches!(field, "min" | "max");
        let given = arguments.has(&name(field));
        match &note {
            _ if given && !used.contains(&field) => mapping.ignored(&name(field), "this kind of distribution has no use for it"),
            Some(note) if (field == "type" && kind != "normal") || (given && is_bound) => {
                mapping.approximated(&arguments.field(&name(field)), &to, note);
            }
            _ if given => mapping.mapped(&name(field), &to),
            _ if field == "mean" || (field == "std_dev" && used.contains(&field) && !arguments.has(&name("variance"))) => {
                mapping.mapped(&format!("{}(absent)", name(field)), &to);
            }
            _ => {}
        }
    }
    if let Some(note) = note.filter(|_| kind == "normal" && !arguments.has(&name("min")) && !arguments.has(&name("max"))) {
        mapping.approximated(&format!("{path}.max(absent)"), &to, &note);
    }
    Some(length)
}

fn shared_prefix(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    let path = |name: &str| format!("data.shared_prefix.{name}");
    let either = |name: &str, older: &str| if arguments.has(&path(older)) { path(older) } else { path(name) };
    let groups = either("num_groups", "num_unique_system_prompts");
    let prompts = either("num_prompts_per_group", "num_users_per_system_prompt");
    let mut tokens = |field: &str, to: &str, default: u64| -> Option<u64> {
        if arguments.one(field).is_some_and(|text| text.starts_with('{')) {
            mapping.refused(field, DISTRIBUTION);
            return None;
        }
        let number = if arguments.has(field) { arguments.whole(field, mapping)? } else { default };
        mapping.mapped(&arguments.field(field), to);
        Some(number)
    };
    let count = tokens(&groups, "workload spec.prefix.groups", 10);
    let prefix = tokens(&path("system_prompt_len"), "workload spec.prefix.group", 100);
    let question = tokens(&path("question_len"), "workload spec.lengths.input", 50);
    let output = tokens(&path("output_len"), "workload spec.lengths.output", 50);
    let how = "inference-perf sends the same questions of a group again once it has sent all of them; Assay draws a new question for each request";
    mapping.approximated(&arguments.field(&prompts), "workload spec.prefix", how);
    let (Some(count), Some(prefix), Some(question), Some(output)) = (count, prefix, question, output) else { return };
    mapping.draft.workload.push(member("lengths", json!({"input": {"fixed": question}, "output": {"fixed": output}})));
    mapping.draft.workload.push(member("prefix", json!({"group": prefix, "groups": count})));
}

fn goodput(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    let mut slos = serde_json::Map::new();
    for (name, slo) in [("ttft", "ttft"), ("tpot", "tpot"), ("request_latency", "e2e")] {
        let field = format!("report.goodput.constraints.{name}");
        let Some(seconds) = arguments.number(&field, mapping) else { continue };
        if seconds > 0.0 && seconds < 1e6 {
            slos.insert(slo.to_owned(), json!(format!("{}ms", plain_number((seconds * 1e6).round() / 1e3))));
            mapping.approximated(&field, "workload spec.slos", difference_of_slo(slo));
        } else {
            mapping.refused(&field, "write a number of seconds above 0");
        }
    }
    if !slos.is_empty() {
        mapping.draft.workload.push(member("slos", Value::Object(slos)));
    }
}

fn storage(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    let path = |name: &str| format!("storage.simple_storage_service.{name}");
    let Some(bucket) = arguments.one(&path("bucket_name")) else { return };
    let Some(bucket) = plain_label(bucket) else {
        return mapping.refused(&path("bucket_name"), "write the name of a bucket");
    };
    let mut store = format!("s3://{bucket}");
    let mut separator = '?';
    for (name, member) in [("region_name", "region"), ("endpoint_url", "endpoint")] {
        let Some(value) = arguments.one(&path(name)) else { continue };
        if !is_plain_part(value) {
            mapping.refused(&path(name), "name it with `--store s3://BUCKET?region=REGION&endpoint=ADDRESS`");
            continue;
        }
        let _ = write!(store, "{separator}{member}={value}");
        separator = '&';
        mapping.mapped(&path(name), "assay run --store");
    }
    mapping.mapped(&path("bucket_name"), "assay run --store");
    mapping.draft.store = Some(store);
}

/// Returns true for a region or an address that may stand in the address of a store as it is.
fn is_plain_part(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/-".contains(&byte);
    text.len() <= 200 && text.bytes().all(is_plain) && !text.split('/').any(|part| is_credential("", part))
}
