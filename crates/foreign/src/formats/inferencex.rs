//! The master configuration of InferenceX (formerly InferenceMAX): configs by name, each with a search space.

use serde_json::{Value, json};

use crate::client::{Client, SIX_HOURS, Temperature};
use crate::command::Takes::One;
use crate::command::{Arguments, Flag, ignored, many, one, refused};
use crate::document::Fields;
use crate::draft::{Cell, member};
use crate::format::{Example, ExampleInput, Format, Reader, docs};
use crate::mapping::Mapping;
use crate::row::Row;
use crate::value::{at, shown_name, whole};

/// The format.
pub(crate) static FORMAT: Format = Format {
    name: "inferencex-master",
    title: "a master configuration of InferenceX",
    versions: "commit `843c6254` of August 2026",
    recognised_by: "names of configs, one of which has `model`, `framework` and `scenarios` with `fixed-seq-len` or `agentic-coding`",
    examples: &[
        Example {
            name: "fixed",
            input: ExampleInput::File(include_str!("examples/inferencex_fixed.yaml")),
            options: "--url http://127.0.0.1:8000",
        },
        Example {
            name: "several",
            input: ExampleInput::File(include_str!("examples/inferencex_several.yaml")),
            options: "--url http://127.0.0.1:8000 --only gptoss-fp4-h200-vllm",
        },
    ],
    fields: || docs(TABLE),
    reader: Reader::Document { recognises, map },
};

const FIELDS: Fields = Fields { tool: "a config of InferenceX", table: TABLE, address: "", model: "model", tokenizer: "" };
const SERVER: &str = "a setting of the server: start the server with it";
const AGENTIC: &str = "it replays sessions of coding agents, which are a file: write `trace: {path: FILE, format: weka}`, `sessions` and `scenario: agentx` into \
                       a workload";

const ISL: &str = "scenarios.fixed-seq-len[].isl";
const OSL: &str = "scenarios.fixed-seq-len[].osl";
const START: &str = "scenarios.fixed-seq-len[].search-space[].conc-start";
const END: &str = "scenarios.fixed-seq-len[].search-space[].conc-end";
const LIST: &str = "scenarios.fixed-seq-len[].search-space[].conc-list";

/// The fields of a config. Each name is that behind the name of the config.
pub(crate) static TABLE: &[Flag] = &[
    one(&["model"], "`spec.model`", "org/m"),
    one(&["precision"], "`spec.precision`", "fp4"),
    one(&["framework"], "`spec.stack`", "vllm"),
    one(&["disagg"], "`disaggregated` in `spec.deployment_model` if it is true", "true"),
    one(&["runner"], "a label of the pipeline, if it is a plain word", "h200"),
    one(&["model-prefix"], "a label of the pipeline", "gptoss"),
    ignored(&["image"], One, "Assay starts no server: start it from this image"),
    ignored(&["multinode"], One, "a setting of the deployment: the endpoint has one address"),
    ignored(&["router"], One, SERVER),
    ignored(&["kv-p2p-transfer"], One, SERVER),
    many(&[ISL], "`spec.lengths.input` of a workload of its own", "512"),
    many(&[OSL], "`spec.lengths.output` of a workload of its own", "512"),
    many(&[START], "`spec.load.concurrency`, doubled up to `conc-end`", "2"),
    many(&[END], "`spec.load.concurrency`, the last one", "16"),
    many(&[LIST], "`spec.load.concurrency`", "[3, 5]"),
    many(&["scenarios.fixed-seq-len[].search-space[].tp"], "a label of the pipeline, if all deployments have the same", "8"),
    many(&["scenarios.fixed-seq-len[].search-space[].ep"], "a label of the pipeline, if all deployments have the same", "8"),
    many(&["scenarios.fixed-seq-len[].search-space[].pp"], "a label of the pipeline, if all deployments have the same", "2"),
    many(
        &["scenarios.fixed-seq-len[].search-space[].dp-attn"],
        "a label of the pipeline, if all deployments have the same",
        "true",
    ),
    many(
        &["scenarios.fixed-seq-len[].search-space[].spec-decoding"],
        "a label of the pipeline, if all deployments have the same",
        "mtp",
    ),
    ignored(&["scenarios.fixed-seq-len[].search-space[].dcp-size"], One, SERVER),
    ignored(&["scenarios.fixed-seq-len[].search-space[].pcp-size"], One, SERVER),
    ignored(&["scenarios.fixed-seq-len[].search-space[].router"], One, SERVER),
    ignored(&["scenarios.fixed-seq-len[].search-space[].kv-p2p-transfer"], One, SERVER),
    ignored(&["scenarios.fixed-seq-len[].search-space[].prefill"], One, SERVER),
    ignored(&["scenarios.fixed-seq-len[].search-space[].decode"], One, SERVER),
    refused(&["scenarios.agentic-coding"], One, AGENTIC),
];

/// The labels of a deployment, by the field's name.
const LABELS: [(&str, &str); 5] =
    [("tp", "tp"), ("ep", "ep"), ("pp", "pp"), ("dp-attn", "dp_attn"), ("spec-decoding", "spec_decoding")];
/// The share of a length from which InferenceX draws up to the length: `RANDOM_RANGE_RATIO` of its workflows.
const RANGE_RATIO: f64 = 0.8;
/// The requests of a point for each user: `--num-prompts` of its scripts.
const REQUESTS_PER_USER: u64 = 10;
/// The largest number of users.
const MAX_CONCURRENCY: u64 = 10_000_000;
/// The most concurrencies of a workload.
const MAX_POINTS: usize = 200;
/// The most settings of lengths in a config.
const MAX_SETTINGS: usize = 200;

/// Returns true for a map of configs.
fn recognises(document: &Value) -> bool {
    let is_own = document.get("apiVersion").is_none() && document.get("kind").is_none();
    is_own && document.as_object().is_some_and(|members| members.values().any(is_config))
}

fn is_config(config: &Value) -> bool {
    let has_text = |name: &str| config.get(name).is_some_and(Value::is_string);
    let has_scenario = |name: &str| config.get("scenarios").is_some_and(|scenarios| scenarios.get(name).is_some());
    has_text("model") && has_text("framework") && (has_scenario("fixed-seq-len") || has_scenario("agentic-coding"))
}

/// Maps one config, a workload for each setting of lengths.
fn map(document: &Value, mapping: &mut Mapping<'_>) {
    let Some(members) = document.as_object() else { return };
    let names: Vec<String> = members.keys().cloned().collect();
    let only = mapping.options.only.clone();
    let Some(name) = mapping.choose_part("config", &names, only.as_deref()).and_then(|place| names.get(place)) else { return };
    if let Some(config) = members.get(name) {
        map_config(name, config, mapping);
    }
    let shown = shown_name(name);
    for row in mapping.rows.iter_mut().filter(|row| !row.field.starts_with(['(', '-'])) {
        row.field = format!("{shown}.{}", row.field);
    }
    if names.len() > 1 {
        let note = format!("{} configs that are not imported: `--only NAME` chooses another", names.len() - 1);
        mapping.ignored("(others)", &note);
    }
}

fn map_config(name: &str, config: &Value, mapping: &mut Mapping<'_>) {
    let arguments = FIELDS.read(config, mapping);
    if shown_name(name) == name {
        mapping.name("(name)", name);
    } else {
        mapping.refused("(name)", "the name of a config has letters, digits and `_.-`: rename it");
    }
    mapping.draft.workload.push(member("api", "completions"));
    mapping.mapped("api(implied)", "workload spec.api");
    if let Some(model) = arguments.one("model") {
        mapping.model("model", model);
    }
    mapping.settle_model("model");
    mapping.no_endpoint("endpoint", "a config names no endpoint: name its address with `--url URL`");
    dimensions(&arguments, mapping);
    deployment(config, &arguments, mapping);
    if arguments.has(ISL) || arguments.has(OSL) {
        settings(config, mapping);
    }
    arguments.settle(mapping);
    merge_rows(mapping);
}

/// Keeps one row of a field that many deployments state, and one comment.
fn merge_rows(mapping: &mut Mapping<'_>) {
    let mut rows: Vec<Row> = Vec::new();
    for row in mapping.rows.drain(..) {
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    mapping.rows = rows;
    let mut comments: Vec<String> = Vec::new();
    for comment in mapping.draft.not_carried.drain(..) {
        if !comments.contains(&comment) {
            comments.push(comment);
        }
    }
    mapping.draft.not_carried = comments;
}

fn dimensions(arguments: &Arguments, mapping: &mut Mapping<'_>) {
    if let Some(framework) = arguments.one("framework") {
        mapping.stack("framework", framework);
    }
    if let Some(precision) = arguments.one("precision") {
        mapping.dimension("precision", "precision", &Value::from(precision));
    }
    match arguments.one("disagg") {
        Some("true") => mapping.dimension("disagg", "deployment_model", &Value::from("disaggregated")),
        Some("false") => mapping.ignored("disagg", "it does not state what the deployment is instead"),
        Some(_) => mapping.refused("disagg", "write `true` or `false`"),
        None => {}
    }
}

/// Keeps what is known of the deployment as labels.
fn deployment(config: &Value, arguments: &Arguments, mapping: &mut Mapping<'_>) {
    let how = "a label: Assay starts no server";
    for (field, label) in [("runner", "runner"), ("model-prefix", "model_prefix")] {
        if let Some(word) = arguments.one(field) {
            mapping.label(field, label, &Value::from(word), how);
        }
    }
    let deployments = settings_of(config).flat_map(search_space).count();
    for (name, label) in LABELS {
        let field = format!("scenarios.fixed-seq-len[].search-space[].{name}");
        let words = arguments.all(&field);
        let Some(word) = words.first() else { continue };
        if words.len() == deployments && words.iter().all(|other| other == word) {
            mapping.label(&field, label, &Value::from(*word), how);
        } else {
            mapping.ignored(&field, "the deployments of the search space differ in it, and the endpoint is one of them");
        }
    }
}

fn settings_of(config: &Value) -> impl Iterator<Item = &Value> {
    at(config, "scenarios.fixed-seq-len").and_then(Value::as_array).into_iter().flatten()
}

fn search_space(setting: &Value) -> impl Iterator<Item = &Value> {
    setting.get("search-space").and_then(Value::as_array).into_iter().flatten()
}

/// Maps the settings of lengths, a workload each.
fn settings(config: &Value, mapping: &mut Mapping<'_>) {
    let settings: Vec<&Value> = settings_of(config).take(MAX_SETTINGS + 1).collect();
    if settings.len() > MAX_SETTINGS {
        return mapping.refused("scenarios.fixed-seq-len", "a pipeline has at most 200 workloads: split the config");
    }
    let mut most_deployments = 0;
    for setting in &settings {
        let length = |name: &str| setting.get(name).and_then(whole).filter(|tokens| *tokens > 0);
        let (Some(input), Some(output)) = (length("isl"), length("osl")) else {
            return mapping.refused(ISL, "write `isl` and `osl` into each setting, as whole numbers from 1");
        };
        let Some(users) = concurrencies(setting, mapping) else { return };
        most_deployments = most_deployments.max(search_space(setting).count());
        mapping.draft.cells.push(workload(input, output, &users));
    }
    mapping.mapped(ISL, "workload spec.lengths.input");
    mapping.mapped(OSL, "workload spec.lengths.output");
    concurrency_rows(&settings, most_deployments, mapping);
    implied(mapping);
}

/// Returns the workload of a setting of lengths.
fn workload(input: u64, output: u64, users: &[u64]) -> Cell {
    let requests = users.iter().max().copied().unwrap_or(1).saturating_mul(REQUESTS_PER_USER);
    let range = |tokens: u64| json!({"sglang_range": {"tokens": tokens, "ratio": RANGE_RATIO}});
    Cell {
        suffix: format!("{input}-{output}"),
        points: users.len() as u64,
        load: vec![member("mode", "closed"), member("concurrency", json!(users)), member("requests", requests)],
        members: vec![member("lengths", json!({"input": range(input), "output": range(output)}))],
        ..Cell::default()
    }
}

/// Returns the concurrencies of all deployments of a setting, in order, each once.
fn concurrencies(setting: &Value, mapping: &mut Mapping<'_>) -> Option<Vec<u64>> {
    let mut users = Vec::new();
    for deployment in search_space(setting) {
        match concurrencies_of(deployment) {
            Ok(more) => users.extend(more),
            Err((field, remedy)) => {
                mapping.refused(field, remedy);
                return None;
            }
        }
    }
    users.sort_unstable();
    users.dedup();
    if users.is_empty() || users.len() > MAX_POINTS {
        mapping.refused("scenarios.fixed-seq-len[].search-space", "write 1 to 200 concurrencies into each setting");
        return None;
    }
    Some(users)
}

/// Returns the concurrencies of a deployment: those of its list, or those from a start up to an end. The last step is the end, even if it is less than a
/// doubling.
fn concurrencies_of(deployment: &Value) -> Result<Vec<u64>, (&'static str, &'static str)> {
    let number = |value: &Value| whole(value).filter(|users| (1..=MAX_CONCURRENCY).contains(users));
    let (list, start, end) = (deployment.get("conc-list"), deployment.get("conc-start"), deployment.get("conc-end"));
    match (list, start, end) {
        (Some(list), None, None) => {
            let users: Option<Vec<u64>> = list.as_array().and_then(|items| items.iter().map(number).collect());
            users.ok_or((LIST, "write a list of whole numbers from 1"))
        }
        (None, Some(start), Some(end)) => {
            let (Some(start), Some(end)) = (number(start), number(end)) else {
                return Err((START, "write whole numbers from 1"));
            };
            if start > end {
                return Err((START, "write a start that is not above the end"));
            }
            let doubled = std::iter::successors(Some(start), |users| users.checked_mul(2)).take_while(|users| *users < end);
            Ok(doubled.chain([end]).collect())
        }
        _ => Err((START, "write `conc-start` and `conc-end`, or `conc-list`, into each deployment of the search space")),
    }
}

fn concurrency_rows(settings: &[&Value], most_deployments: usize, mapping: &mut Mapping<'_>) {
    let to = "workload spec.load.concurrency";
    let how =
        "the search space has several deployments, and these are the concurrencies of all of them: the endpoint is one of them";
    for (field, name) in [(START, "conc-start"), (END, "conc-end"), (LIST, "conc-list")] {
        let is_given = settings.iter().copied().flat_map(search_space).any(|deployment| deployment.get(name).is_some());
        if is_given && most_deployments > 1 {
            mapping.approximated(field, to, how);
        } else if is_given {
            mapping.mapped(field, to);
        }
    }
}

const BEHAVIOUR: Client = Client { tool: "InferenceX", temperature: Temperature::Zero, timeout: SIX_HOURS };

/// Adds what InferenceX does without a field that says so.
fn implied(mapping: &mut Mapping<'_>) {
    let how = "InferenceX sends 10 requests for each user of a point; the number of a workload is one, that of its largest point";
    mapping.approximated("requests(implied)", "workload spec.load.requests", how);
    let how = "InferenceX sends 2 requests for each user first, which it does not measure: write `load.warmup: TIME`";
    mapping.approximated("warmup(implied)", "workload spec.load", how);
    mapping.mapped("random-range-ratio(implied)", "workload spec.lengths");
    mapping.exact_output("ignore-eos(implied)", true);
    mapping.tokenizer_note("tokenizer(implied)");
    mapping.implied(BEHAVIOUR);
}

#[cfg(test)]
mod tests;
