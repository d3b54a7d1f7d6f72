//! `guidellm benchmark`, with or without `run`.

use serde_json::{Value, json};

use crate::command::{Arguments, Flag, Takes, ignored, many, one, refused};
use crate::draft::member;
use crate::format::{Example, ExampleInput, Format, Reader, docs};
use crate::mapping::Mapping;

/// The format.
pub(crate) static FORMAT: Format = Format {
    name: "guidellm-benchmark",
    title: "a command line of guidellm",
    versions: "0.6 and 0.7",
    recognised_by: "`guidellm benchmark` or `guidellm benchmark run`",
    examples: &[
        Example {
            name: "rates",
            input: ExampleInput::Command(
                "guidellm benchmark --target http://127.0.0.1:8000 --model llama-3.1-8b --profile poisson --rate 1,2.5,5 --max-seconds 60 \
                 --data prompt_tokens=256,output_tokens=128 --output-path results.json",
            ),
        },
        Example {
            name: "concurrent",
            input: ExampleInput::Command(
                "guidellm benchmark run --target http://127.0.0.1:8000 --model m --rate-type concurrent --rate 1 --rate 8 --max-requests 100 \
                 --data prompt_tokens=256,prompt_tokens_stdev=32,output_tokens=128,output_tokens_min=16,output_tokens_max=256",
            ),
        },
    ],
    fields: || docs(FLAGS),
    reader: Reader::Command { commands: COMMANDS, flags: FLAGS, map },
};

const COMMANDS: &[&[&str]] = &[&["guidellm", "benchmark", "run"], &["guidellm", "benchmark"]];
const RESULTS: &str = "Assay keeps all records and writes its own reports";
const STOPS: &str = "it ends a load alike, and Assay makes no numbers of one that ended early";
/// The requests that an error rate is of, which the command line cannot state.
const ERROR_WINDOW: u64 = 30;
const DATASET: &str =
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
    one(&["--request-type", "--request-format"], "`spec.api`: chat_completions and text_completions", "text_completions"),
    one(&["--backend", "--backend-type"], "`openai_http` is `spec.api`; any other is refused", "openai_http"),
    ignored(
        &["--random-seed", "--seed"],
        Takes::One,
        "the seed of another generator gives other draws; `seed` of a workload repeats Assay's own",
    ),
    one(&["--max-errors"], "`spec.load.stop_on_errors.count`", "30"),
    one(&["--max-error-rate"], "`spec.load.stop_on_errors.share`, of the last 30", "0.1"),
    ignored(&["--output-path", "--output-dir", "--outputs", "--output-extras"], Takes::Many, RESULTS),
    ignored(&["--disable-progress", "--disable-console", "--disable-console-outputs"], Takes::Nothing, RESULTS),
    ignored(&["--display-scheduler-stats"], Takes::Nothing, RESULTS),
    ignored(&["--data-samples", "--sample-requests"], Takes::One, "Assay draws prompts as it sends them, and keeps all records"),
    refused(
        &["--warmup", "--warmup-percent"],
        Takes::One,
        "Assay's warm-up is a time that comes before: write `load.warmup: TIME` into the workload",
    ),
    refused(
        &["--cooldown", "--cooldown-percent"],
        Takes::One,
        "Assay measures up to the end, and drains the requests that are open: remove it",
    ),
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

fn map(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    mapping.draft.set_name("guidellm");
    match arguments.one("--target") {
        Some(url) => mapping.endpoint("--target", url),
        None => mapping.refused("--target(absent)", "add the address of the endpoint"),
    }
    if let Some(name) = arguments.one("--model") {
        mapping.model("--model", name);
    }
    mapping.settle_model("--model");
    api(arguments, mapping);
    limits(arguments, mapping);
    profile(arguments, mapping);
    data(arguments, mapping);
    mapping.shared_cache();
    mapping.measured_once();
}

fn api(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    match arguments.one("--backend") {
        None => {}
        Some("openai_http") => mapping.mapped("--backend", "workload spec.api"),
        Some(_) => mapping.refused("--backend", "Assay sends requests over HTTP: write `openai_http`"),
    }
    let field = &arguments.field("--request-type");
    let api = match arguments.one("--request-type").unwrap_or("chat_completions") {
        "chat_completions" | "/v1/chat/completions" => "chat",
        "text_completions" | "/v1/completions" => "completions",
        _ => return mapping.refused(field, "write `chat_completions` or `text_completions`"),
    };
    mapping.draft.workload.insert(0, member("api", api));
    mapping.mapped(field, "workload spec.api");
}

fn limits(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    if let Some(seconds) = arguments.number("--max-seconds", mapping) {
        let millis = (seconds * 1000.0).round();
        if (1.0..=2.5e9).contains(&millis) {
            mapping.draft.load.push(member("duration", format!("{}ms", millis as u64)));
            mapping.draft.minutes = Some((seconds / 60.0).ceil() as u64);
            mapping.mapped("--max-seconds", "workload spec.load.duration");
        } else {
            mapping.refused("--max-seconds", "write a time of at most 28 days");
        }
    }
    if let Some(requests) = arguments.whole("--max-requests", mapping) {
        mapping.draft.load.push(member("requests", requests));
        mapping.mapped("--max-requests", "workload spec.load.requests");
    }
    errors(arguments, mapping);
    if !arguments.has("--max-seconds") && !arguments.has("--max-requests") {
        mapping.refused("--max-seconds(absent)", "a trial needs an end: add `--max-seconds` or `--max-requests`");
    }
}

fn errors(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    let mut limit = serde_json::Map::new();
    if let Some(count) = arguments.whole("--max-errors", mapping) {
        if (1..=1_000_000_000).contains(&count) {
            limit.insert("count".into(), json!(count));
            mapping.approximated("--max-errors", "workload spec.load.stop_on_errors", STOPS);
        } else {
            mapping.refused("--max-errors", "write a number from 1 to 1000000000, or remove it");
        }
    }
    if let Some(share) = arguments.number("--max-error-rate", mapping) {
        if share > 0.0 && share <= 1.0 {
            limit.insert("share".into(), json!(share));
            limit.insert("of_last".into(), json!(ERROR_WINDOW));
            mapping.approximated("--max-error-rate", "workload spec.load.stop_on_errors", STOPS);
        } else {
            mapping.refused("--max-error-rate", "write a share above 0 and at most 1, or remove it");
        }
    }
    if !limit.is_empty() {
        mapping.draft.load.push(member("stop_on_errors", Value::Object(limit)));
    }
}

fn profile(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    let rates: Option<Vec<f64>> = arguments
        .all("--rate")
        .iter()
        .flat_map(|word| word.split(','))
        .map(|rate| rate.parse::<f64>().ok().filter(|rate| *rate > 0.0 && *rate <= 1e7))
        .collect();
    let Some(rates) = rates else { return mapping.refused("--rate", "write numbers above 0, separated by commas") };
    let field = &arguments.field("--profile");
    let kind = arguments.one("--profile").unwrap_or("sweep");
    match kind {
        "synchronous" => {
            mapping.mapped(field, "workload spec.load.mode");
            mapping.closed(&[1]);
        }
        "concurrent" if !rates.is_empty() && rates.iter().all(|rate| rate.fract() == 0.0) => {
            mapping.mapped(field, "workload spec.load.mode");
            mapping.mapped("--rate", "workload spec.load.concurrency");
            mapping.closed(&rates.iter().map(|rate| *rate as u64).collect::<Vec<_>>());
        }
        "constant" | "async" | "poisson" if !rates.is_empty() => {
            mapping.mapped(field, "workload spec.load.mode");
            mapping.mapped("--rate", "workload spec.load.rate");
            mapping.open(&rates, if kind == "poisson" { "poisson" } else { "constant" }, None, None);
        }
        "concurrent" | "constant" | "async" | "poisson" => mapping.refused("--rate", "add a number for each point: whole ones for `concurrent`"),
        _ => mapping.refused(
            field,
            "write the loads out with `--profile constant --rate NUMBERS`; `assay bench` searches for the most load: see `assay bench --help`",
        ),
    }
}

fn data(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    let Some(text) = arguments.one("--data") else { return mapping.refused("--data(absent)", DATASET) };
    let mut given = std::collections::BTreeMap::new();
    for pair in text.trim_matches(['{', '}']).split(',') {
        let (name, value) = pair.split_once(['=', ':']).unwrap_or((pair, ""));
        let name = name.trim().trim_matches('"');
        let known = ["prompt_tokens", "output_tokens"]
            .iter()
            .find_map(|side| ["", "_stdev", "_min", "_max"].iter().map(|end| format!("{side}{end}")).find(|known| known == name));
        let number = value.trim().trim_matches('"').parse::<u64>().ok().filter(|number| *number > 0);
        let (Some(known), Some(number)) = (known, number) else { return mapping.refused("--data", DATASET) };
        given.insert(known, number);
    }
    let mut lengths = serde_json::Map::new();
    let mut is_clipped = false;
    for (side, name) in [("input", "prompt_tokens"), ("output", "output_tokens")] {
        let Some(tokens) = given.get(name).copied() else { return mapping.refused("--data", DATASET) };
        let bound = |end: &str| given.get(&format!("{name}{end}")).copied();
        is_clipped |= bound("_stdev").is_some() && (bound("_min").is_some() || bound("_max").is_some());
        let length = match (bound("_stdev"), bound("_min"), bound("_max")) {
            (Some(stddev), ..) => json!({"normal": {"mean": tokens, "stddev": stddev}}),
            (None, Some(min), Some(max)) => json!({"uniform": {"min": min, "max": max}}),
            (None, None, None) => json!({"fixed": tokens}),
            _ => return mapping.refused("--data", "give both bounds, or a standard deviation"),
        };
        lengths.insert(side.to_owned(), length);
    }
    mapping.draft.workload.push(member("lengths", Value::Object(lengths)));
    if is_clipped {
        mapping.approximated(
            "--data",
            "workload spec.lengths",
            "the bounds of normal lengths are left out: Assay clips only at 1",
        );
    } else {
        mapping.mapped("--data", "workload spec.lengths");
    }
    mapping.exact_output("ignore_eos(implied)", true);
    mapping.tokenizer_option(arguments, "--processor");
}
