//! `aiperf profile`.

use serde_json::{Map, Value, json};

use crate::client::{Client, SIX_HOURS, Temperature};
use crate::command::{Arguments, Flag, Takes, default_in_place, ignored, many, one, refused, switch, unless};
use crate::draft::member;
use crate::format::{Example, ExampleInput, Format, Reader, docs};
use crate::load::NO_CAP;
use crate::mapping::Mapping;
use crate::note::{DATASET_FILE, OWN_REPORTS, OWN_SEED, TRACE_FILE, WARMUP};
use crate::value::typed;

/// The format.
pub(crate) static FORMAT: Format = Format {
    name: "aiperf-profile",
    title: "a command line of `aiperf profile`",
    versions: "0.13.0",
    recognised_by: "`aiperf profile`",
    examples: &[
        Example {
            name: "concurrency",
            input: ExampleInput::Command(
                "aiperf profile --model llama-3.1-8b --url http://127.0.0.1:8000 --endpoint-type chat --streaming --concurrency 16 --request-count 320 \
                 --isl 550 --isl-stddev 50 --osl 128 --extra-inputs ignore_eos:true --random-seed 1 --ui simple",
            ),
            options: "",
        },
        Example {
            name: "rate",
            input: ExampleInput::Command(
                "aiperf profile -m m -u 127.0.0.1:8000 --streaming --request-rate 5 --benchmark-duration 60 --isl 100 --osl 50",
            ),
            options: "",
        },
    ],
    fields: || docs(FLAGS),
    reader: Reader::Command { commands: COMMANDS, flags: FLAGS, map },
};

const COMMANDS: &[&[&str]] = &[&["aiperf", "profile"]];
const BEHAVIOUR: Client = Client { tool: "AIPerf", temperature: Temperature::OfServer, timeout: SIX_HOURS };
const TELEMETRY: &str = "Assay records the endpoint's own metrics; a `telemetry` source of a pipeline adds others";
const SESSIONS: &str = "write `sessions: {turns: NUMBER, think_time: TIME}` into the workload";

pub(crate) static FLAGS: &[Flag] = &[
    one(&["--model", "-m", "--model-names"], "`spec.model`", "m"),
    one(&["--url", "-u"], "the target's `url`", "http://h:1"),
    one(&["--endpoint-type"], "`spec.api`: chat, completions, responses and messages", "completions"),
    one(&["--api-key"], "a reference in the target's `headers`", "abc"),
    many(&["--header", "-H"], "references in the target's `headers`", "x-team:a"),
    switch(&["--streaming"], "`spec.streaming`"),
    one(&["--concurrency"], "`spec.load.concurrency`, one or a list, or `max_concurrency` with a rate", "4"),
    one(&["--request-rate"], "`spec.load.rate`", "2.5"),
    one(&["--request-count", "--num-requests"], "`spec.load.requests`", "9"),
    one(&["--benchmark-duration"], "`spec.load.duration`", "9"),
    one(&["--request-timeout-seconds"], "`spec.load.timeout`", "9"),
    one(&["--isl", "--synthetic-input-tokens-mean"], "`spec.lengths.input`", "9"),
    one(&["--isl-stddev", "--synthetic-input-tokens-stddev"], "`spec.lengths.input.normal`", "9"),
    one(&["--osl", "--output-tokens-mean"], "`spec.lengths.output`", "9"),
    one(&["--osl-stddev", "--output-tokens-stddev"], "`spec.lengths.output.normal`", "9"),
    one(&["--tokenizer"], "a comment on `spec.lengths`", "t"),
    many(&["--extra-inputs"], "`spec.body` and `spec.exact_output`", "top_p:0.5"),
    one(&["--goodput"], "`spec.slos`", "ttft:1"),
    ignored(&["--random-seed"], Takes::One, OWN_SEED),
    unless(&["--warmup-request-count"], "0", WARMUP, "5"),
    ignored(&["--benchmark-grace-period"], Takes::One, "Assay drains the requests that are open"),
    ignored(&["--ui", "--ui-type"], Takes::One, OWN_REPORTS),
    ignored(&["--artifact-dir", "--output-artifact-dir"], Takes::One, OWN_REPORTS),
    ignored(&["--profile-export-prefix"], Takes::One, OWN_REPORTS),
    ignored(&["--use-server-token-count"], Takes::Nothing, "results state the source of the counts of tokens"),
    ignored(&["--tokenizer-revision"], Takes::One, "a tokenizer of Assay is a file beside the workload"),
    ignored(&["--tokenizer-trust-remote-code"], Takes::Nothing, "Assay runs no code of a model"),
    ignored(&["--no-server-metrics"], Takes::Nothing, TELEMETRY),
    ignored(&["--no-gpu-telemetry"], Takes::Nothing, TELEMETRY),
    ignored(&["--workers-max"], Takes::One, "Assay chooses `shards` by calibration"),
    refused(
        &["--endpoint"],
        Takes::One,
        "a path in front of the API's own belongs into `--url`; describe another API as `api: custom`",
    ),
    refused(
        &["--arrival-pattern", "--request-rate-mode"],
        Takes::One,
        "write `load.arrival` into the workload: constant, poisson or gamma",
    ),
    refused(&["--arrival-smoothness"], Takes::One, "write `load: {arrival: gamma, smoothness: NUMBER}` into the workload"),
    refused(&["--input-file"], Takes::One, DATASET_FILE),
    refused(&["--custom-dataset-type"], Takes::One, DATASET_FILE),
    refused(&["--public-dataset"], Takes::One, DATASET_FILE),
    refused(&["--fixed-schedule"], Takes::Nothing, TRACE_FILE),
    refused(&["--num-conversations", "--conversation-num"], Takes::One, SESSIONS),
    refused(&["--session-turns-mean"], Takes::One, SESSIONS),
    refused(&["--user-centric-rate"], Takes::One, "write `load: {mode: users, users: [NUMBER], rate: [RATE]}` and `sessions`"),
    refused(&["--prefill-concurrency"], Takes::One, "Assay does not limit the requests before their first token: remove it"),
    refused(
        &["--request-cancellation-rate"],
        Takes::One,
        "write `load: {cancel: {share: SHARE, after: TIME}}` into the workload",
    ),
    refused(&["--num-profile-runs"], Takes::One, "write `trials: {count: NUMBER}` into the pipeline"),
    refused(&["--scenario"], Takes::One, "write its fields as options"),
];

pub(crate) fn map(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    mapping.draft.set_name("aiperf");
    target(arguments, mapping);
    if let Some(name) = arguments.one("--model") {
        mapping.model("--model", name);
    }
    mapping.settle_model("--model");
    load(arguments, mapping);
    lengths(arguments, mapping);
    body(arguments, mapping);
    mapping.implied(BEHAVIOUR);
}

fn target(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    match arguments.one("--url") {
        Some(url) => mapping.endpoint("--url", url),
        None => mapping.endpoint("--url(absent)", "http://localhost:8000"),
    }
    if arguments.has("--api-key") {
        mapping.api_key("--api-key");
    }
    for header in arguments.all("--header") {
        mapping.header("--header", header);
    }
    let field = &arguments.field("--endpoint-type");
    match arguments.one("--endpoint-type").unwrap_or("chat") {
        api @ ("chat" | "completions" | "responses" | "messages") => {
            mapping.draft.workload.insert(0, member("api", api));
            mapping.mapped(field, "workload spec.api");
        }
        _ => mapping.refused(
            field,
            "write chat, completions, responses or messages; other kinds of requests are `spec.api` of a workload",
        ),
    }
    let is_streaming = arguments.has("--streaming");
    mapping.draft.workload.push(member("streaming", is_streaming));
    mapping.mapped(&arguments.field("--streaming"), "workload spec.streaming");
}

fn load(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    let points = concurrencies(arguments, mapping);
    let most = points.iter().copied().max();
    match seconds(arguments, "--benchmark-duration", "duration", mapping) {
        Some(seconds) => mapping.draft.minutes = Some((seconds / 60.0).ceil() as u64),
        None if !arguments.has("--benchmark-duration") || arguments.has("--request-count") => {}
        None => return,
    }
    let is_counted = arguments.has("--request-count") || !arguments.has("--benchmark-duration");
    if is_counted {
        let default = most.unwrap_or(1).saturating_mul(2).max(10);
        let requests = arguments.whole_or("--request-count", default, "workload spec.load.requests", mapping);
        let field = &arguments.field("--request-count");
        mapping.draft.load.push(member("requests", requests));
        if points.len() > 1 && !arguments.has("--request-count") {
            let how = "AIPerf sends twice as many requests as there are users; the number of a workload is one, that of its largest point";
            mapping.approximated(field, "workload spec.load.requests", how);
        } else {
            mapping.mapped(field, "workload spec.load.requests");
        }
    }
    seconds(arguments, "--request-timeout-seconds", "timeout", mapping);
    if arguments.has("--request-rate") {
        let Some(rate) = arguments.number("--request-rate", mapping) else { return };
        mapping.mapped("--request-rate", "workload spec.load.rate");
        mapping.stands_in("--concurrency", "workload spec.load", NO_CAP);
        if points.len() > 1 {
            return mapping
                .refused("--concurrency", "write one limit of the requests in flight: a workload has one for all its rates");
        }
        if most.is_some() {
            let how = "a request that is due beyond it waits, and Assay counts its latencies from the time at which it was due";
            mapping.approximated("--concurrency", "workload spec.load.max_concurrency", how);
        }
        mapping.open(&[rate], "poisson", None, most);
    } else {
        let field = &arguments.field("--concurrency");
        if points.is_empty() {
            mapping.stands_in("--concurrency", "workload spec.load.concurrency", &default_in_place(1));
        }
        mapping.mapped(field, "workload spec.load.concurrency");
        mapping.closed(if points.is_empty() { &[1] } else { &points });
    }
}

/// Returns the numbers of users, of which AIPerf 0.13 takes several. Empty if they are absent or refused.
fn concurrencies(arguments: &Arguments, mapping: &mut Mapping<'_>) -> Vec<u64> {
    let Some(text) = arguments.one("--concurrency") else { return Vec::new() };
    let points: Option<Vec<u64>> = text.split(',').map(|number| number.trim().parse().ok()).collect();
    points.unwrap_or_else(|| {
        mapping.refused("--concurrency", "write a whole number, or several with commas between them");
        Vec::new()
    })
}

/// Sets a time of the load from an option in seconds, and returns it.
fn seconds(arguments: &Arguments, option: &str, field: &str, mapping: &mut Mapping<'_>) -> Option<f64> {
    let seconds = arguments.number(option, mapping)?;
    let millis = (seconds * 1000.0).round();
    if !(1.0..=2.5e9).contains(&millis) {
        mapping.refused(option, "write a time above 0 and of at most 28 days");
        return None;
    }
    mapping.draft.load.push(member(field, format!("{}ms", millis as u64)));
    mapping.mapped(option, &format!("workload spec.load.{field}"));
    Some(seconds)
}

fn lengths(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    if !arguments.has("--osl") {
        return mapping.refused("--osl(absent)", "Assay plans the tokens of responses: add their mean");
    }
    let Some(output) = arguments.whole("--osl", mapping) else { return };
    let input = arguments.whole_or("--isl", 550, "workload spec.lengths.input", mapping);
    let mut lengths = Map::new();
    for (mean, stddev, side, tokens) in [("--isl", "--isl-stddev", "input", input), ("--osl", "--osl-stddev", "output", output)] {
        let to = format!("workload spec.lengths.{side}");
        let spread = arguments.number_or(stddev, 0.0, &to, mapping);
        let length = if spread > 0.0 { json!({"normal": {"mean": tokens, "stddev": spread}}) } else { json!({"fixed": tokens}) };
        lengths.insert(side.to_owned(), length);
        mapping.mapped(&arguments.field(mean), &to);
        if arguments.has(stddev) {
            mapping.mapped(stddev, &to);
        }
    }
    mapping.draft.workload.push(member("lengths", Value::Object(lengths)));
    mapping.tokenizer_option(arguments, "--tokenizer");
}

fn body(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    for text in arguments.all("--extra-inputs") {
        match (serde_json::from_str::<Value>(text), text.split_once(':')) {
            (Ok(Value::Object(members)), _) => mapping.body("--extra-inputs", &members),
            (_, Some((name, value))) => mapping.body("--extra-inputs", &Map::from_iter([(name.to_owned(), typed(value))])),
            _ => mapping.refused("--extra-inputs", "write NAME:VALUE or a JSON object"),
        }
    }
    mapping.settle_min_tokens();
    if !mapping.draft.workload.iter().any(|(name, _)| name == "exact_output") {
        mapping.exact_output("ignore_eos(absent)", false);
    }
    if arguments.has("--goodput") {
        mapping.slos("--goodput", &arguments.all("--goodput"));
    }
}
