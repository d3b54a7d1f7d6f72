//! Scenarios of guidellm: files in YAML or JSON, and reports, which hold the scenario under `config`.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::command::{Arguments, Flag, Takes, ignored, many, one, refused, unless};
use crate::document::Fields;
use crate::draft::member;
use crate::extra_body::ExtraBody;
use crate::format::{Example, ExampleInput, Format, Reader, docs};
use crate::formats::guidellm::{self, DATASET, Names, REPLAY, SIDES, length_names, lengths};
use crate::mapping::Mapping;
use crate::note::{COOLDOWN, DATASET_FILE, OWN_REPORTS, OWN_SEED, WARMUP};
use crate::value::text;

/// The format.
pub(crate) static FORMAT: Format = Format {
    name: "guidellm-scenario",
    title: "a scenario of guidellm",
    versions: "0.7.0 to 0.7.3, the development version of August 2026, and flat ones of 0.6",
    recognised_by: "`spec` with the `kind` of a backend, a profile or data; a report with such a `config`; or `data` with a `profile` or a `target`",
    examples: &[
        Example { name: "rates", input: ExampleInput::File(include_str!("examples/guidellm_rates.yaml")), options: "" },
        Example { name: "report", input: ExampleInput::File(include_str!("examples/guidellm_report.json")), options: "" },
        Example { name: "flat", input: ExampleInput::File(include_str!("examples/guidellm_flat.yaml")), options: "" },
    ],
    fields: || docs(TABLE),
    reader: Reader::Document { recognises, map },
};

const FIELDS: Fields = Fields {
    tool: "a scenario of guidellm",
    table: TABLE,
    address: "spec.backend.target",
    model: "spec.backend.model",
    tokenizer: "spec.tokenizer.model",
};
const OWN_GENERATOR: &str = "Assay draws its prompts by a generator of its own";
const SESSIONS: &str = "write `sessions: {turns: NUMBER, think_time: TIME}` into the workload";
const TOOLS: &str = "Assay sends no tools with drawn prompts: put requests with `tools` into a file, and write `dataset: {path: FILE, format: openai_batch}`";
const READ_TIMEOUT: &str = "guidellm limits the time between two parts of a response, and Assay that of the whole request";
const SWEEP: &str = "it belongs to the profile `sweep`";
const RAMP: &str = "write `load.warmup: TIME` into the workload, which leaves the start out";
const SATURATION: &str = "write `load: {over_saturation: {in_flight: NUMBER, for: TIME}}` into the workload";
const SCOPE: &str = "Assay measures each load whatever became of the one before: remove it";
const MORE_LENGTHS: &str = "Assay draws all turns from one distribution: write a dataset of conversations, and `sessions`";

/// The fields of `spec` and its neighbours, in the order of guidellm's schema.
pub(crate) static TABLE: &[Flag] = &[
    ignored(
        &["metadata"],
        Takes::One,
        "labels of guidellm's reports: write `metadata.labels` of the pipeline if readers need them",
    ),
    one(&["spec.backend.kind"], "`openai_http` is `spec.api`; any other is refused", "openai_http"),
    one(&["spec.backend.target"], "the target's `url`", "http://h:1"),
    one(&["spec.backend.model"], "`spec.model`", "m"),
    one(&["spec.backend.request_format"], "`spec.api`: chat completions, completions and responses", "/v1/completions"),
    one(&["spec.backend.api_key"], "a reference in the target's `headers`", "x"),
    one(&["spec.backend.timeout"], "`spec.load.timeout`", "30"),
    one(&["spec.backend.stream"], "`spec.streaming`", "false"),
    one(&["spec.backend.verify"], "the target's `insecure_skip_tls_verify`, if its address begins with `https://`", "false"),
    one(&["spec.backend.extras.headers"], "references in the target's `headers`", "{\"x-team\": \"a\"}"),
    one(&["spec.backend.extras.body"], "`spec.body` and `spec.extra_body`", "{\"temperature\": 0.5}"),
    refused(&["spec.backend.extras.params"], Takes::One, "write the address of the endpoint without what follows a `?`"),
    ignored(&["spec.backend.timeout_connect"], Takes::One, "Assay's `load.timeout` includes the time to connect"),
    ignored(&["spec.backend.http2"], Takes::One, "both tools speak HTTP/1.1 to an address that begins with `http://`"),
    ignored(&["spec.backend.follow_redirects"], Takes::One, "Assay refuses an endpoint that redirects"),
    ignored(&["spec.backend.validate_backend"], Takes::One, "Assay sends a test request before it measures"),
    ignored(&["spec.backend.tool_call_missing_behavior"], Takes::One, "no tools are sent"),
    one(
        &["spec.backend.api_routes"],
        "ignored if the route of `request_format` is the API's own path, else refused",
        "{\"/v1/chat/completions\": \"v1/chat/completions\"}",
    ),
    refused(&["spec.backend.max_tokens"], Takes::One, "the drawn number of output tokens is the limit: remove it"),
    unless(&["spec.backend.server_history"], "false", "Assay sends the history with each turn: remove it", "true"),
    unless(&["spec.backend.multiturn_reasoning"], "false", "write `sessions: {reasoning: keep}` into the workload", "true"),
    one(
        &["spec.profile.kind"],
        "`spec.load.mode`: synchronous, concurrent, constant, async and poisson; throughput with `max_concurrency`",
        "constant",
    ),
    many(&["spec.profile.rate"], "`spec.load.rate`", "3"),
    many(&["spec.profile.streams"], "`spec.load.concurrency`", "3"),
    one(&["spec.profile.max_concurrency"], "`spec.load.max_concurrency`, or `concurrency` of throughput", "3"),
    ignored(&["spec.profile.sweep_size"], Takes::One, SWEEP),
    ignored(&["spec.profile.strategy_type"], Takes::One, SWEEP),
    refused(
        &["spec.profile.time_scale"],
        Takes::One,
        "write `load: {mode: replay, speed: [NUMBER]}` into the workload, the inverse of it",
    ),
    unless(&["spec.profile.rampup_duration"], "0", RAMP, "5"),
    unless(&["spec.profile.warmup"], "0", WARMUP, "0.1"),
    unless(&["spec.profile.warmup.percent"], "0", WARMUP, "0.1"),
    unless(&["spec.profile.warmup.value"], "0", WARMUP, "5"),
    ignored(&["spec.profile.warmup.mode"], Takes::One, "it belongs to the size of the warm-up"),
    unless(&["spec.profile.cooldown"], "0", COOLDOWN, "0.1"),
    unless(&["spec.profile.cooldown.percent"], "0", COOLDOWN, "0.1"),
    unless(&["spec.profile.cooldown.value"], "0", COOLDOWN, "5"),
    ignored(&["spec.profile.cooldown.mode"], Takes::One, "it belongs to the size of the cool-down"),
    one(&["spec.constraints[max_duration].seconds"], "`spec.load.duration`", "30"),
    one(&["spec.constraints[max_requests].count"], "`spec.load.requests`", "30"),
    one(&["spec.constraints[max_errors].count"], "`spec.load.stop_on_errors.count`", "30"),
    one(&["spec.constraints[max_error_rate].rate"], "`spec.load.stop_on_errors.share`", "0.1"),
    one(&["spec.constraints[max_error_rate].window"], "`spec.load.stop_on_errors.of_last`", "50"),
    refused(
        &["spec.constraints[max_global_error_rate]"],
        Takes::One,
        "Assay ends a trial by the requests that ended last: write `max_error_rate`",
    ),
    refused(&["spec.constraints[over_saturation]"], Takes::One, SATURATION),
    unless(&["spec.constraints[max_duration].stopping_scope"], "current", SCOPE, "all"),
    unless(&["spec.constraints[max_requests].stopping_scope"], "current", SCOPE, "all"),
    unless(&["spec.constraints[max_errors].stopping_scope"], "current", SCOPE, "all"),
    unless(&["spec.constraints[max_error_rate].stopping_scope"], "current", SCOPE, "all"),
    ignored(&["spec.tokenizer.kind"], Takes::One, "Assay loads no tokenizer from a hub"),
    one(&["spec.tokenizer.model"], "a comment on `spec.lengths`", "t"),
    ignored(&["spec.tokenizer.load_kwargs"], Takes::One, "Assay loads no tokenizer from a hub"),
    one(&["spec.data[synthetic_text].prompt_tokens"], "`spec.lengths.input`", "9"),
    one(&["spec.data[synthetic_text].prompt_tokens_stdev"], "`spec.lengths.input.normal`", "3"),
    one(
        &["spec.data[synthetic_text].prompt_tokens_min"],
        "`spec.lengths.input.uniform`; with a standard deviation a comment, or refused where it is within two of them",
        "2",
    ),
    one(
        &["spec.data[synthetic_text].prompt_tokens_max"],
        "`spec.lengths.input.uniform`; with a standard deviation a comment, or refused where it is within two of them",
        "15",
    ),
    one(&["spec.data[synthetic_text].output_tokens"], "`spec.lengths.output`", "9"),
    one(&["spec.data[synthetic_text].output_tokens_stdev"], "`spec.lengths.output.normal`", "3"),
    one(
        &["spec.data[synthetic_text].output_tokens_min"],
        "`spec.lengths.output.uniform`; with a standard deviation a comment, or refused where it is within two of them",
        "2",
    ),
    one(
        &["spec.data[synthetic_text].output_tokens_max"],
        "`spec.lengths.output.uniform`; with a standard deviation a comment, or refused where it is within two of them",
        "15",
    ),
    unless(&["spec.data[synthetic_text].turns"], "1", SESSIONS, "2"),
    refused(&["spec.data[synthetic_text].delay"], Takes::One, SESSIONS),
    refused(&["spec.data[synthetic_text].delay_stdev"], Takes::One, SESSIONS),
    refused(&["spec.data[synthetic_text].delay_min"], Takes::One, SESSIONS),
    refused(&["spec.data[synthetic_text].delay_max"], Takes::One, SESSIONS),
    refused(&["spec.data[synthetic_text].first_prompt_tokens"], Takes::One, MORE_LENGTHS),
    refused(&["spec.data[synthetic_text].first_prompt_tokens_stdev"], Takes::One, MORE_LENGTHS),
    refused(&["spec.data[synthetic_text].first_prompt_tokens_min"], Takes::One, MORE_LENGTHS),
    refused(&["spec.data[synthetic_text].first_prompt_tokens_max"], Takes::One, MORE_LENGTHS),
    refused(&["spec.data[synthetic_text].first_output_tokens"], Takes::One, MORE_LENGTHS),
    refused(&["spec.data[synthetic_text].first_output_tokens_stdev"], Takes::One, MORE_LENGTHS),
    refused(&["spec.data[synthetic_text].first_output_tokens_min"], Takes::One, MORE_LENGTHS),
    refused(&["spec.data[synthetic_text].first_output_tokens_max"], Takes::One, MORE_LENGTHS),
    refused(&["spec.data[synthetic_text].branches"], Takes::One, "Assay's sessions have no branches: remove them"),
    refused(
        &["spec.data[synthetic_text].prefix_buckets"],
        Takes::One,
        "write `prefix: {group: TOKENS, groups: NUMBER}` into the workload",
    ),
    refused(&["spec.data[synthetic_text].tools"], Takes::One, TOOLS),
    refused(&["spec.data[synthetic_text].tool_call_turns"], Takes::One, TOOLS),
    refused(&["spec.data[synthetic_text].server_tool_call_turns"], Takes::One, TOOLS),
    refused(&["spec.data[synthetic_text].tool_response_tokens"], Takes::One, TOOLS),
    refused(&["spec.data[synthetic_text].tool_response_tokens_stdev"], Takes::One, TOOLS),
    refused(&["spec.data[synthetic_text].tool_response_tokens_min"], Takes::One, TOOLS),
    refused(&["spec.data[synthetic_text].tool_response_tokens_max"], Takes::One, TOOLS),
    ignored(&["spec.data[synthetic_text].source"], Takes::One, OWN_GENERATOR),
    ignored(&["spec.data[synthetic_text].load_kwargs"], Takes::One, OWN_GENERATOR),
    refused(&["spec.data[synthetic_image]"], Takes::One, "write `images: {width: NUMBER, height: NUMBER}` into the workload"),
    refused(&["spec.data[synthetic_video]"], Takes::One, "Assay sends no videos: leave this load with guidellm"),
    refused(&["spec.data[huggingface]"], Takes::One, DATASET_FILE),
    refused(&["spec.data[json_file]"], Takes::One, DATASET_FILE),
    refused(&["spec.data[csv_file]"], Takes::One, DATASET_FILE),
    refused(&["spec.data[text_file]"], Takes::One, DATASET_FILE),
    refused(&["spec.data[parquet_file]"], Takes::One, DATASET_FILE),
    refused(
        &["spec.data[arrow_file]"],
        Takes::One,
        "save it as Parquet beside the workload, and write `dataset: {path: FILE}` instead of `lengths`",
    ),
    refused(
        &["spec.data[hdf5_file]"],
        Takes::One,
        "save it as Parquet beside the workload, and write `dataset: {path: FILE}` instead of `lengths`",
    ),
    refused(&["spec.data[trace_synthetic]"], Takes::One, REPLAY),
    refused(&["spec.data[mooncake]"], Takes::One, REPLAY),
    refused(&["spec.data[weka]"], Takes::One, REPLAY),
    ignored(&["spec.data_column_mapper"], Takes::One, OWN_GENERATOR),
    ignored(&["spec.data_preprocessors"], Takes::One, OWN_GENERATOR),
    ignored(&["spec.data_finalizer"], Takes::One, OWN_GENERATOR),
    ignored(&["spec.data_loader"], Takes::One, "Assay draws prompts as it sends them"),
    ignored(&["spec.seed"], Takes::One, OWN_SEED),
    ignored(&["spec.outputs"], Takes::One, OWN_REPORTS),
    ignored(&["spec.metrics"], Takes::One, OWN_REPORTS),
    many(&["benchmarks[].profile.rate"], "`spec.load.rate`, in place of that of `spec.profile`", "3"),
    many(&["benchmarks[].profile.streams"], "`spec.load.concurrency`, in place of that of `spec.profile`", "3"),
];

const NAMES: Names = Names {
    target: "spec.backend.target",
    model: "spec.backend.model",
    backend: "spec.backend.kind",
    api: "spec.backend.request_format",
    seconds: "spec.constraints[max_duration].seconds",
    requests: "spec.constraints[max_requests].count",
    errors: "spec.constraints[max_errors].count",
    error_rate: "spec.constraints[max_error_rate].rate",
    error_window: Some("spec.constraints[max_error_rate].window"),
    profile: "spec.profile.kind",
    rate: "spec.profile.rate",
    streams: "spec.profile.streams",
    cap: Some("spec.profile.max_concurrency"),
    tokenizer: "spec.tokenizer.model",
};

/// Returns true for a scenario, a flat one, or a report that holds one.
fn recognises(document: &Value) -> bool {
    document.get("apiVersion").is_none() && scenario_of(document).is_some()
}

/// The two shapes of a scenario.
#[derive(Clone, Copy, Debug)]
enum Scenario<'a> {
    /// With `spec`, since 0.7.
    Nested(&'a Value),
    /// With the options of the command line as its members, up to 0.6.
    Flat(&'a serde_json::Map<String, Value>),
}

/// Returns the scenario of a document or of a report.
fn scenario_of(document: &Value) -> Option<Scenario<'_>> {
    let given = document.get("config").unwrap_or(document);
    let states_kind =
        |part: &str| given.get("spec").and_then(|spec| spec.get(part)).is_some_and(|part| part.get("kind").is_some());
    let has_data = given
        .get("spec")
        .and_then(|spec| spec.get("data")?.as_array())
        .is_some_and(|data| data.iter().any(|data| data.get("kind").is_some()));
    if has_data || states_kind("backend") || states_kind("profile") {
        return Some(Scenario::Nested(given));
    }
    let members = given.as_object()?;
    let is_text = |name: &str| members.get(name).is_some_and(Value::is_string);
    let is_flat = members.contains_key("data") && ["profile", "rate_type", "target"].iter().any(|name| is_text(name));
    is_flat.then_some(Scenario::Flat(members))
}

/// Maps a scenario.
fn map(document: &Value, mapping: &mut Mapping<'_>) {
    if document.get("config").is_some() {
        mapping.ignored("(report)", "of a report, the scenario alone is read: `assay import results` reads the results");
    }
    match scenario_of(document) {
        None => {}
        Some(Scenario::Flat(members)) => {
            let arguments = Arguments::read(&words_of(members), guidellm::FLAGS, mapping);
            guidellm::map(&arguments, mapping);
            arguments.settle(mapping);
        }
        Some(Scenario::Nested(scenario)) => map_scenario(scenario, mapping),
    }
}

/// Maps a scenario with `spec`.
pub(crate) fn map_scenario(scenario: &Value, mapping: &mut Mapping<'_>) {
    let arguments = FIELDS.read(scenario, mapping);
    map_nested(scenario, &arguments, mapping);
    arguments.settle(mapping);
}

/// Returns the words of a command line that states the same as a flat scenario, each value attached to its option.
fn words_of(members: &serde_json::Map<String, Value>) -> Vec<String> {
    let word = |name: &str, value: &Value| match value {
        Value::Null | Value::Bool(false) => None,
        Value::Bool(true) => Some(format!("--{name}")),
        value => Some(format!("--{name}={}", text(value).unwrap_or_else(|| value.to_string()))),
    };
    let words = |(name, value): (&String, &Value)| match value {
        Value::Array(items) => items.iter().filter_map(|item| word(name, item)).collect::<Vec<_>>(),
        value => word(name, value).into_iter().collect(),
    };
    members.iter().flat_map(words).collect()
}

fn map_nested(scenario: &Value, arguments: &Arguments, mapping: &mut Mapping<'_>) {
    guidellm::map_load(arguments, benchmarks(scenario, arguments, mapping), mapping);
    let extra = backend(arguments, mapping);
    data(arguments, mapping);
    guidellm::finish(arguments, NAMES, &extra, mapping);
}

/// Returns the names of the fields, with those of `benchmarks` if they state the loads.
fn benchmarks(scenario: &Value, arguments: &Arguments, mapping: &mut Mapping<'_>) -> Names {
    let mut names = NAMES;
    let items = scenario.get("benchmarks").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if items.iter().any(Value::is_null) && items.iter().any(|item| !item.is_null()) {
        mapping.refused("benchmarks", "write a load for each of them, or all loads into `spec.profile`");
    }
    for (own, name) in [("benchmarks[].profile.rate", &mut names.rate), ("benchmarks[].profile.streams", &mut names.streams)] {
        if !arguments.has(own) {
            continue;
        }
        let field = own.trim_start_matches("benchmarks[].");
        let stated = |item: &Value| item.get(field).or_else(|| item.pointer(&format!("/{}", field.replace('.', "/")))).cloned();
        if items.iter().any(|item| !item.is_null() && stated(item).is_none_or(|value| value.is_null())) {
            mapping.refused("benchmarks", "write a load for each of them, or all loads into `spec.profile`");
        }
        if arguments.has(name) {
            mapping.ignored(name, "each of `benchmarks` states its own");
        }
        *name = own;
    }
    names
}

/// Maps the paths of requests. guidellm 0.7.3 spells out all of its own, of which a benchmark uses one.
fn routes(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    let field = "spec.backend.api_routes";
    let Some(text) = arguments.one(field) else { return };
    let api = arguments.one("spec.backend.request_format").unwrap_or("/v1/chat/completions");
    let routes: Option<serde_json::Map<String, Value>> = serde_json::from_str(text).ok();
    let is_own = |routes: &serde_json::Map<String, Value>| {
        let path = |route: &Value| route.as_str().map(|path| path.trim_start_matches('/') == api.trim_start_matches('/'));
        routes.get(api).is_none_or(|route| path(route).unwrap_or_default())
    };
    if routes.as_ref().is_some_and(is_own) {
        mapping.ignored(field, "the path of the API is its own, which Assay uses, too");
    } else {
        mapping.refused(field, "a path in front of the API's own belongs into `target`; describe another API as `api: custom`");
    }
}

/// Maps the other fields of the backend. Returns the members that it adds to the body of each request.
fn backend(arguments: &Arguments, mapping: &mut Mapping<'_>) -> ExtraBody {
    routes(arguments, mapping);
    if let Some(key) = arguments.one("spec.backend.api_key") {
        mapping.has_credential("spec.backend.api_key", key);
        mapping.api_key("spec.backend.api_key");
    }
    mapping.headers(arguments, "spec.backend.extras.headers");
    let extra = ExtraBody::map(arguments, "spec.backend.extras.body", mapping);
    mapping.timeout(arguments, "spec.backend.timeout", Some(READ_TIMEOUT));
    mapping.streaming(arguments, "spec.backend.stream", true);
    let has_tls = arguments.one("spec.backend.target").is_some_and(|url| url.starts_with("https://"));
    match arguments.one("spec.backend.verify") {
        Some("false") if has_tls => {
            mapping.draft.target.push(member("insecure_skip_tls_verify", true));
            mapping.mapped("spec.backend.verify", "pipeline spec.targets[0].insecure_skip_tls_verify");
        }
        Some("true" | "false") => {
            mapping.ignored("spec.backend.verify", "Assay checks the certificates of an address that begins with `https://`");
        }
        Some(_) => mapping.refused("spec.backend.verify", "write `true` or `false`"),
        None if has_tls => {
            let how = "guidellm checks no certificates unless `verify` is `true`, and Assay does: write `insecure_skip_tls_verify: true` if they cannot be checked";
            mapping.approximated("spec.backend.verify(absent)", "pipeline spec.targets[0].url", how);
        }
        None => {}
    }
    extra
}

/// Maps the lengths of synthetic data.
fn data(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    let path = |name: &str| length_fields().find(|(known, _)| *known == name).map_or("", |(_, path)| path);
    let mut given = BTreeMap::new();
    for name in length_names().filter(|name| arguments.has(path(name))) {
        match arguments.whole(path(&name), mapping) {
            Some(0) => return mapping.refused(path(&name), "write a whole number from 1"),
            Some(number) => given.insert(name, number),
            None => return,
        };
    }
    if given.is_empty() {
        let is_refused = mapping.rows.iter().any(|row| row.field.starts_with("spec.data["));
        if !is_refused {
            mapping.refused("spec.data(absent)", DATASET);
        }
        return;
    }
    let lengths = match lengths(&given) {
        Ok(lengths) => lengths,
        Err(remedy) => return mapping.refused("spec.data[synthetic_text]", remedy),
    };
    for (side, name) in SIDES {
        let to = format!("workload spec.lengths.{side}");
        let note = lengths.notes.iter().find(|(of, _)| *of == side).map(|(_, note)| note);
        for field in given.keys().filter(|field| field.starts_with(name)) {
            match note.filter(|_| field.ends_with("_min") || field.ends_with("_max")) {
                Some(note) => mapping.approximated(path(field), &to, note),
                None => mapping.mapped(path(field), &to),
            }
        }
    }
    mapping.draft.workload.push(member("lengths", lengths.value));
}

/// Returns the fields of synthetic data, by guidellm's names of their numbers.
fn length_fields() -> impl Iterator<Item = (&'static str, &'static str)> {
    let paths = TABLE.iter().filter_map(|field| field.names.first().copied());
    paths.filter_map(|path| Some((path.strip_prefix("spec.data[synthetic_text].")?, path)))
}
