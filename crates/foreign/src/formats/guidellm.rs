//! `guidellm benchmark`, with or without `run`; and the mapping of what its command line and its scenarios have in common.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::client::{Client, Temperature};
use crate::command::{Arguments, Flag, Takes, default_in_place, ignored, many, one, refused};
use crate::draft::member;
use crate::extra_body::ExtraBody;
use crate::format::{Example, ExampleInput, Format, Reader, docs};
use crate::load::{CAP, NO_CAP, clipping, is_clipped_much};
use crate::mapping::Mapping;
use crate::note::{COOLDOWN, NO_ADDRESS, OWN_REPORTS, OWN_SEED, WARMUP};

/// The format.
pub(crate) static FORMAT: Format = Format {
    name: "guidellm-benchmark",
    title: "a command line of guidellm",
    versions: "0.6",
    recognised_by: "`guidellm benchmark` or `guidellm benchmark run`",
    examples: &[
        Example {
            name: "rates",
            input: ExampleInput::Command(
                "guidellm benchmark --target http://127.0.0.1:8000 --model llama-3.1-8b --profile poisson --rate 1,2.5,5 --max-seconds 60 \
                 --data prompt_tokens=256,output_tokens=128 --output-path results.json",
            ),
            options: "",
        },
        Example {
            name: "concurrent",
            input: ExampleInput::Command(
                "guidellm benchmark run --target http://127.0.0.1:8000 --model m --rate-type concurrent --rate 1 --rate 8 --max-requests 100 \
                 --data prompt_tokens=256,prompt_tokens_stdev=32,output_tokens=128,output_tokens_min=16,output_tokens_max=256",
            ),
            options: "",
        },
    ],
    fields: || docs(FLAGS),
    reader: Reader::Command { commands: COMMANDS, flags: FLAGS, map },
};

const COMMANDS: &[&[&str]] = &[&["guidellm", "benchmark", "run"], &["guidellm", "benchmark"]];
const BEHAVIOUR: Client = Client { tool: "guidellm", temperature: Temperature::OfServer, timeout: None };
const STOPS: &str = "it ends a load alike, and Assay makes no numbers of one that ended early";
/// The requests that an error rate is of, which the command line cannot state.
const ERROR_WINDOW: u64 = 30;
pub(crate) const REPLAY: &str = "write `trace: {path: FILE, format: FORMAT}` and `load: {mode: replay}` into a workload";
pub(crate) const DATASET: &str =
    "write `prompt_tokens=NUMBER,output_tokens=NUMBER`, or put a file beside the workload and write `dataset: {path: FILE}`";

pub(crate) static FLAGS: &[Flag] = &[
    one(&["--target"], "the target's `url`", "http://h:1"),
    one(&["--model"], "`spec.model`", "m"),
    one(&["--profile", "--rate-type"], "`spec.load.mode`: synchronous, concurrent, constant, async and poisson", "constant"),
    many(&["--rate"], "`spec.load.rate` or `spec.load.concurrency`", "3"),
    one(&["--max-seconds"], "`spec.load.duration`", "30"),
    one(&["--max-requests"], "`spec.load.requests`", "30"),
    one(&["--data"], "`spec.lengths`, of synthetic data", "prompt_tokens=2,output_tokens=3"),
    one(&["--processor", "--tokenizer"], "a comment on `spec.lengths`", "t"),
    one(
        &["--request-type", "--request-format"],
        "`spec.api`: chat_completions, text_completions and responses",
        "text_completions",
    ),
    one(&["--backend", "--backend-type"], "`openai_http` is `spec.api`; any other is refused", "openai_http"),
    ignored(&["--random-seed", "--seed"], Takes::One, OWN_SEED),
    one(&["--max-errors"], "`spec.load.stop_on_errors.count`", "30"),
    one(&["--max-error-rate"], "`spec.load.stop_on_errors.share`, of the last 30", "0.1"),
    ignored(&["--output-path", "--output-dir", "--outputs", "--output-extras"], Takes::Many, OWN_REPORTS),
    ignored(&["--disable-progress", "--disable-console", "--disable-console-outputs"], Takes::Nothing, OWN_REPORTS),
    ignored(&["--display-scheduler-stats"], Takes::Nothing, OWN_REPORTS),
    ignored(&["--data-samples", "--sample-requests"], Takes::One, "Assay draws prompts as it sends them, and keeps all records"),
    refused(&["--warmup", "--warmup-percent"], Takes::One, WARMUP),
    refused(&["--cooldown", "--cooldown-percent"], Takes::One, COOLDOWN),
    refused(&["--rampup"], Takes::One, "write `load.warmup: TIME` into the workload, which leaves the start out"),
    refused(
        &["--backend-kwargs", "--backend-args"],
        Takes::One,
        "it may hold a key: write `headers` of the target, and `timeout` of `load`",
    ),
    refused(&["--scenario"], Takes::One, "write its fields as options"),
    refused(
        &["--detect-saturation", "--over-saturation"],
        Takes::Nothing,
        "`assay bench` searches for the most load within SLOs: see `assay bench --help`",
    ),
];

/// The names of the fields that a command line or a scenario has for the same things.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names {
    pub(crate) target: &'static str,
    pub(crate) model: &'static str,
    pub(crate) backend: &'static str,
    pub(crate) api: &'static str,
    pub(crate) seconds: &'static str,
    pub(crate) requests: &'static str,
    pub(crate) errors: &'static str,
    pub(crate) error_rate: &'static str,
    /// `None` if the definition cannot state the requests that an error rate is of.
    pub(crate) error_window: Option<&'static str>,
    pub(crate) profile: &'static str,
    pub(crate) rate: &'static str,
    pub(crate) streams: &'static str,
    /// `None` if the definition cannot limit the requests in flight.
    pub(crate) cap: Option<&'static str>,
    pub(crate) tokenizer: &'static str,
}

const NAMES: Names = Names {
    target: "--target",
    model: "--model",
    backend: "--backend",
    api: "--request-type",
    seconds: "--max-seconds",
    requests: "--max-requests",
    errors: "--max-errors",
    error_rate: "--max-error-rate",
    error_window: None,
    profile: "--profile",
    rate: "--rate",
    streams: "--rate",
    cap: None,
    tokenizer: "--processor",
};

/// Maps the options of a command line, or the fields of the same names of a flat scenario.
pub(crate) fn map(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    map_load(arguments, NAMES, mapping);
    data(arguments, mapping);
    finish(arguments, NAMES, &ExtraBody::default(), mapping);
}

/// Maps all but the data.
pub(crate) fn map_load(arguments: &Arguments, names: Names, mapping: &mut Mapping<'_>) {
    mapping.draft.set_name("guidellm");
    match arguments.one(names.target) {
        Some(url) => mapping.endpoint(names.target, url),
        None => mapping.no_endpoint(names.target, NO_ADDRESS),
    }
    if let Some(name) = arguments.one(names.model) {
        mapping.model(names.model, name);
    }
    mapping.settle_model(names.model);
    api(arguments, names, mapping);
    limits(arguments, names, mapping);
    profile(arguments, names, mapping);
}

/// Maps what follows from the synthetic data, and what guidellm does without a field for it.
pub(crate) fn finish(arguments: &Arguments, names: Names, extra: &ExtraBody, mapping: &mut Mapping<'_>) {
    if mapping.draft.workload.iter().any(|(name, _)| name == "lengths") {
        extra.map_ignore_eos("ignore_eos(implied)", true, mapping);
        mapping.tokenizer_option(arguments, names.tokenizer);
    }
    mapping.implied(BEHAVIOUR);
}

fn api(arguments: &Arguments, names: Names, mapping: &mut Mapping<'_>) {
    match arguments.one(names.backend) {
        None => {}
        Some("openai_http") => mapping.mapped(names.backend, "workload spec.api"),
        Some(_) => mapping.refused(names.backend, "Assay sends requests over HTTP: write `openai_http`"),
    }
    let field = &arguments.field(names.api);
    let api = match arguments.one(names.api).unwrap_or("chat_completions") {
        "chat_completions" | "/v1/chat/completions" => "chat",
        "text_completions" | "/v1/completions" => "completions",
        "responses" | "/v1/responses" => "responses",
        _ => return mapping.refused(field, "write `/v1/chat/completions`, `/v1/completions` or `/v1/responses`"),
    };
    mapping.draft.workload.insert(0, member("api", api));
    mapping.mapped(field, "workload spec.api");
}

fn limits(arguments: &Arguments, names: Names, mapping: &mut Mapping<'_>) {
    if let Some(seconds) = arguments.number(names.seconds, mapping) {
        let millis = (seconds * 1000.0).round();
        if (1.0..=2.5e9).contains(&millis) {
            mapping.draft.load.push(member("duration", format!("{}ms", millis as u64)));
            mapping.draft.minutes = Some((seconds / 60.0).ceil() as u64);
            mapping.mapped(names.seconds, "workload spec.load.duration");
        } else {
            mapping.refused(names.seconds, "write a time of at most 28 days");
        }
    }
    if let Some(requests) = arguments.whole(names.requests, mapping) {
        mapping.draft.load.push(member("requests", requests));
        mapping.mapped(names.requests, "workload spec.load.requests");
    }
    errors(arguments, names, mapping);
    if !arguments.has(names.seconds) && !arguments.has(names.requests) {
        let remedy = format!("a trial needs an end: add `{}` or `{}`", names.seconds, names.requests);
        mapping.refused(&format!("{}(absent)", names.seconds), &remedy);
    }
}

fn errors(arguments: &Arguments, names: Names, mapping: &mut Mapping<'_>) {
    let to = "workload spec.load.stop_on_errors";
    let mut limit = serde_json::Map::new();
    if let Some(count) = arguments.whole(names.errors, mapping) {
        if (1..=1_000_000_000).contains(&count) {
            limit.insert("count".into(), json!(count));
            mapping.approximated(names.errors, to, STOPS);
        } else {
            mapping.refused(names.errors, "write a number from 1 to 1000000000, or remove it");
        }
    }
    if let Some(share) = arguments.number(names.error_rate, mapping) {
        if share > 0.0 && share <= 1.0 {
            limit.insert("share".into(), json!(share));
            limit.insert("of_last".into(), json!(error_window(arguments, names, mapping)));
            mapping.approximated(names.error_rate, to, STOPS);
        } else {
            mapping.refused(names.error_rate, "write a share above 0 and at most 1, or remove it");
        }
    }
    if !limit.is_empty() {
        mapping.draft.load.push(member("stop_on_errors", Value::Object(limit)));
    }
}

/// Returns the number of requests that an error rate is of.
fn error_window(arguments: &Arguments, names: Names, mapping: &mut Mapping<'_>) -> u64 {
    let to = "workload spec.load.stop_on_errors";
    let Some(field) = names.error_window.filter(|field| arguments.has(field)) else { return ERROR_WINDOW };
    let window = arguments.whole_or(field, ERROR_WINDOW, to, mapping);
    if (1..=100_000).contains(&window) {
        mapping.mapped(field, to);
        return window;
    }
    mapping.refused(field, "write a number of requests from 1 to 100000");
    mapping.stands_in(field, to, &default_in_place(ERROR_WINDOW));
    ERROR_WINDOW
}

fn profile(arguments: &Arguments, names: Names, mapping: &mut Mapping<'_>) {
    let field = &arguments.field(names.profile);
    let cap = names.cap.and_then(|field| arguments.whole(field, mapping));
    match arguments.one(names.profile).unwrap_or("sweep") {
        "synchronous" => {
            mapping.mapped(field, "workload spec.load.mode");
            mapping.closed(&[1]);
        }
        "concurrent" => {
            let Some(streams) = loads(arguments, names.streams, mapping) else { return };
            if streams.is_empty() || streams.iter().any(|streams| streams.fract() != 0.0) {
                return mapping.refused(names.streams, "add a whole number for each point");
            }
            mapping.mapped(field, "workload spec.load.mode");
            mapping.mapped(names.streams, "workload spec.load.concurrency");
            mapping.closed(&streams.iter().map(|streams| *streams as u64).collect::<Vec<_>>());
        }
        kind @ ("constant" | "async" | "poisson") => {
            let Some(rates) = loads(arguments, names.rate, mapping) else { return };
            if rates.is_empty() {
                return mapping.refused(names.rate, "add a number for each point");
            }
            mapping.mapped(field, "workload spec.load.mode");
            mapping.mapped(names.rate, "workload spec.load.rate");
            if let Some(name) = names.cap.filter(|name| arguments.has(name)) {
                mapping.stands_in(name, "workload spec.load", NO_CAP);
                if cap.is_some() {
                    mapping.approximated(name, "workload spec.load.max_concurrency", CAP);
                }
            }
            mapping.open(&rates, if kind == "poisson" { "poisson" } else { "constant" }, None, cap);
        }
        "throughput" if cap.is_some() => {
            mapping.mapped(field, "workload spec.load.mode");
            if let (Some(name), Some(cap)) = (names.cap, cap) {
                mapping.mapped(name, "workload spec.load.concurrency");
                mapping.closed(&[cap]);
            }
        }
        "replay" => mapping.refused(field, REPLAY),
        _ => {
            let remedy = format!(
                "write the loads out with `{}` `constant` and `{}`; `assay bench` searches for the most load: see `assay bench --help`",
                names.profile, names.rate
            );
            mapping.refused(field, &remedy);
        }
    }
}

/// Returns the numbers of a field, which are above 0; one that is none is refused.
fn loads(arguments: &Arguments, name: &str, mapping: &mut Mapping<'_>) -> Option<Vec<f64>> {
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| *number > 0.0 && *number <= 1e7);
    let numbers: Option<Vec<f64>> = arguments.all(name).iter().flat_map(|word| word.split(',')).map(number).collect();
    if numbers.is_none() {
        mapping.refused(name, "write numbers above 0");
    }
    numbers
}

fn data(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    let Some(text) = arguments.one("--data") else { return mapping.refused("--data(absent)", DATASET) };
    let mut given = BTreeMap::new();
    for pair in text.trim_matches(['{', '}']).split(',') {
        let (name, value) = pair.split_once(['=', ':']).unwrap_or((pair, ""));
        let name = name.trim().trim_matches('"');
        let number = value.trim().trim_matches('"').parse::<u64>().ok().filter(|number| *number > 0);
        let (Some(known), Some(number)) = (length_names().find(|known| known == name), number) else {
            return mapping.refused("--data", DATASET);
        };
        given.insert(known, number);
    }
    match lengths(&given) {
        Err(remedy) => mapping.refused("--data", remedy),
        Ok(lengths) => {
            let notes: Vec<&str> = lengths.notes.iter().map(|(_, note)| note.as_str()).collect();
            if notes.is_empty() {
                mapping.mapped("--data", "workload spec.lengths");
            } else {
                mapping.approximated("--data", "workload spec.lengths", &notes.join("; "));
            }
            mapping.draft.workload.push(member("lengths", lengths.value));
        }
    }
}

/// The sides of a request, with guidellm's names of their lengths.
pub(crate) const SIDES: [(&str, &str); 2] = [("input", "prompt_tokens"), ("output", "output_tokens")];

/// Returns the names of all numbers of synthetic data that state lengths.
pub(crate) fn length_names() -> impl Iterator<Item = String> {
    SIDES.iter().flat_map(|(_, name)| ["", "_stdev", "_min", "_max"].map(|end| format!("{name}{end}")))
}

/// The remedy for bounds that change a normal distribution: Assay clips only at 1.
const CLIPPED: &str = "leave out the bounds or the standard deviation: a bound within two of them changes the mean, and Assay does not clip lengths";

/// The lengths of synthetic data.
#[derive(Debug)]
pub(crate) struct Lengths {
    /// The value of `spec.lengths`.
    pub(crate) value: Value,
    /// The differences, each with the side of which it is.
    pub(crate) notes: Vec<(&'static str, String)>,
}

/// Returns the lengths that these numbers of synthetic data state, or the remedy.
pub(crate) fn lengths(given: &BTreeMap<String, u64>) -> Result<Lengths, &'static str> {
    let mut value = serde_json::Map::new();
    let mut notes = Vec::new();
    for (side, name) in SIDES {
        let tokens = given.get(name).copied().ok_or(DATASET)?;
        let bound = |end: &str| given.get(&format!("{name}{end}")).copied();
        let (least, most) = (bound("_min"), bound("_max"));
        let length = match (bound("_stdev"), least, most) {
            (Some(stddev), ..) => {
                if least.is_some() || most.is_some() {
                    let [least, most] = [least, most].map(|bound| bound.map(|bound| bound as f64));
                    if is_clipped_much(tokens as f64, stddev as f64, least, most) {
                        return Err(CLIPPED);
                    }
                    notes.push((side, clipping(tokens as f64, stddev as f64, least, most)));
                }
                json!({"normal": {"mean": tokens, "stddev": stddev}})
            }
            (None, Some(min), Some(max)) => json!({"uniform": {"min": min, "max": max}}),
            (None, None, None) => json!({"fixed": tokens}),
            _ => return Err("give both bounds, or a standard deviation"),
        };
        value.insert(side.to_owned(), length);
    }
    Ok(Lengths { value: Value::Object(value), notes })
}
