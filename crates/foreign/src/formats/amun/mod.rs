//! Amun's inspection specification: a base image, the steps that build an image from it, and a script that prints one JSON document.

mod containerfile;
mod image;
mod pipfile;
mod placement;
mod script;
mod variables;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};

use crate::document::{Rule, WHOLE, docs, map_fields, rule};
use crate::draft::{IndicatorDraft, Member, member};
use crate::format::{Example, ExampleInput, Format, Reader};
use crate::mapping::Mapping;
use crate::value::{is_credential, text, whole};
use crate::yaml::{Comments, Node, write};

/// The format.
pub(crate) static FORMAT: Format = Format {
    name: "amun",
    title: "an Amun inspection specification",
    versions: "of Amun's service, 2020 to 2022",
    recognised_by: "`base` beside `script`, `python`, `build`, `run` or another field of Amun, without `kind`",
    examples: &[
        Example { name: "stored", input: ExampleInput::File(include_str!("../examples/amun_stored.json")), options: "" },
        Example { name: "stack", input: ExampleInput::File(include_str!("../examples/amun_stack.yaml")), options: "" },
    ],
    fields: || docs(RULES),
    reader: Reader::Document { recognises, map },
};

/// The most items of a batch: as many as a pipeline has trials.
const MAX_ITEMS: u64 = 1_000;
/// The time after which Amun's workflow ended, in hours: 14,400 s.
const TIME_LIMIT: &str = "4h";

const NO_STEP: &str = "it is a step of the service, which Assay does not run";
const OF_ENGINE: &str = "the program that builds the image has limits of its own";

/// All fields. Those without a treatment of their own are mapped together with others.
pub(crate) static RULES: &[Rule] = &[
    rule("identifier", "the name of the workload and of the pipeline", |field, value, mapping| match text(value) {
        Some(name) if !is_credential("", &name) => mapping.name(field, &name),
        _ => mapping.refused(field, "write a name"),
    }),
    rule(
        "script",
        "a file beside the workload with its sha256, or `spec.script.url`, which the plan fetches and pins",
        |_, _, _| {},
    ),
    rule("environment", "workload `spec.parameters`; credentials become references of the target's `env`", |_, _, _| {})
        .reads(&["[].name", "[].value"]),
    rule("batch_size", "pipeline `spec.trials.count`, a number or its digits; absent: 1", |_, _, _| {}),
    rule("base", "workload `spec.image`, or the base of a `Containerfile` if there are steps that build an image", |_, _, _| {}),
    rule("update", "a step of `Containerfile`", |_, _, _| {}),
    rule("packages", "a step of `Containerfile`", |_, _, _| {}),
    rule("upgrade_pip", "a step of `Containerfile`", |_, _, _| {}),
    rule("python_packages", "a step of `Containerfile`", |_, _, _| {}),
    rule("files", "files beside the script if they are in `/home/amun`, or else a step of `Containerfile`", |_, _, _| {})
        .reads(&["[].path", "[].content"]),
    rule("python.requirements", "`Pipfile` beside the script, and a step of `Containerfile`", |_, _, _| {}).reads(WHOLE),
    rule("python.requirements_locked", "`Pipfile.lock` beside the script, and a step of `Containerfile`", |_, _, _| {})
        .reads(WHOLE),
    rule("python.runtime_environment", "ignored: it describes the stack, and does not change it", |field, _, mapping| {
        mapping.ignored(field, "it describes for what the stack was resolved, and installs nothing");
    }),
    rule("python.constraints", "ignored: it describes the stack, and does not change it", |field, _, mapping| {
        mapping.ignored(field, "it was of use while the stack was resolved, and installs nothing");
    }),
    rule("package_manager", "the program that installs the stack; absent: `micropipenv`", |_, _, _| {}),
    rule("run.requests.cpu", "`resources` of the execute stage; absent: `500m`", |_, _, _| {}),
    rule("run.requests.memory", "`resources` of the execute stage; absent: `256Mi`", |_, _, _| {}),
    rule("run.requests.hardware.cpu_family", "`pod.affinity` of the execute stage, by the label `CPU_FAMILY`", |_, _, _| {}),
    rule("run.requests.hardware.cpu_model", "`pod.affinity` of the execute stage, by the label `CPU_MODEL`", |_, _, _| {}),
    rule(
        "run.requests.hardware.physical_cpus",
        "`pod.affinity` of the execute stage, by the label `PHYSICAL_CPUS`",
        |_, _, _| {},
    ),
    rule("run.requests.hardware.processor", "`pod.affinity` of the execute stage, by the label `processor`", |_, _, _| {}),
    rule("build.requests.hardware.cpu_family", "like that of `run`, from which it may not differ", |_, _, _| {}),
    rule("build.requests.hardware.cpu_model", "like that of `run`, from which it may not differ", |_, _, _| {}),
    rule("build.requests.hardware.physical_cpus", "like that of `run`, from which it may not differ", |_, _, _| {}),
    rule("build.requests.hardware.processor", "like that of `run`, from which it may not differ", |_, _, _| {}),
    rule("build.requests.cpu", "ignored: the program that builds the image has limits of its own", |field, _, mapping| {
        mapping.ignored(field, OF_ENGINE);
    }),
    rule("build.requests.memory", "ignored: the program that builds the image has limits of its own", |field, _, mapping| {
        mapping.ignored(field, OF_ENGINE);
    }),
    rule("send_messages", "ignored: a message of the service", |field, _, mapping| mapping.ignored(field, NO_STEP)),
    rule("force_sync", "ignored: a step of the service", |field, _, mapping| mapping.ignored(field, NO_STEP)),
];

/// Returns true for a specification. Other files have a `base`, too, so one more field has to be of Amun's type.
fn recognises(document: &Value) -> bool {
    let has = |name: &str, is_it: fn(&Value) -> bool| document.get(name).is_some_and(is_it);
    let is_of_kubernetes = document.get("kind").is_some() || document.get("apiVersion").is_some();
    let is_of_service = document.as_object().is_some_and(|members| members.keys().any(|name| name.starts_with("@amun_")));
    let has_part = ["python", "build", "run"].iter().any(|name| has(name, Value::is_object))
        || ["packages", "python_packages", "environment", "files"].iter().any(|name| has(name, Value::is_array));
    let has_other = has("script", Value::is_string) || has("batch_size", |size| whole(size).is_some());
    has("base", Value::is_string) && !is_of_kubernetes && (is_of_service || has_part || has_other)
}

fn map(document: &Value, mapping: &mut Mapping<'_>) {
    let document = &without_doubled_quotes(document, mapping);
    let (given, recorded) = split_recorded(document);
    mapping.draft.set_name("inspection");
    map_fields(RULES, &given, "Amun has no such field", mapping);
    for field in recorded {
        mapping.ignored(&field, "the service recorded it with the specification");
    }
    if mapping.options.model.is_some() {
        mapping.ignored("--model", "a script names no model");
    }
    mapping.draft.target = vec![member("kind", "host")];
    let mut work = IndicatorDraft::default();
    let has_script = script::map(document, &mut work, mapping);
    let files = image::map_files(document, &mut work, mapping);
    let variables = variables::map(document, &mut work, mapping);
    image::map(document, files, &variables, &mut work, mapping);
    work.members.push(member("time_limit", TIME_LIMIT));
    mapping.mapped("deadline(implied)", "workload spec.time_limit");
    batch(document, mapping);
    placement::map(document, mapping);
    mapping.draft.indicator = has_script.then_some(work);
}

/// Returns a specification without the fields that the service added, and the names of those.
fn split_recorded(document: &Value) -> (Value, Vec<String>) {
    let members = document.as_object().cloned().unwrap_or_default();
    let (recorded, given): (Map<_, _>, Map<_, _>) = members.into_iter().partition(|(name, _)| name.starts_with('@'));
    (Value::Object(given), recorded.into_iter().map(|(name, _)| name).collect())
}

/// Returns a specification as it was submitted. The service stored the one or the other of two copies; in that for its workflow, `batch_size`
/// is a text, and each single quote is doubled.
fn without_doubled_quotes(document: &Value, mapping: &mut Mapping<'_>) -> Value {
    let is_copy = document.get("batch_size").is_some_and(Value::is_string);
    if !is_copy || !has_quote(document) || !has_pairs_only(document) {
        return document.clone();
    }
    let how = "each single quote of the specification is doubled, as in the copy for Amun's workflow: one of the two is kept";
    mapping.approximated("quotes(implied)", "workload spec.script", how);
    single_quotes(document)
}

fn has_quote(value: &Value) -> bool {
    any_text(value, |text| text.contains('\''))
}

fn has_pairs_only(value: &Value) -> bool {
    !any_text(value, |text| text.split(|letter| letter != '\'').any(|quotes| quotes.len() % 2 == 1))
}

fn any_text(value: &Value, is_it: fn(&str) -> bool) -> bool {
    match value {
        Value::String(text) => is_it(text),
        Value::Array(items) => items.iter().any(|item| any_text(item, is_it)),
        Value::Object(members) => members.values().any(|value| any_text(value, is_it)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn single_quotes(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace("''", "'")),
        Value::Array(items) => items.iter().map(single_quotes).collect(),
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), single_quotes(value))).collect(),
        other => other.clone(),
    }
}

/// Maps the number of items of the batch to trials.
fn batch(document: &Value, mapping: &mut Mapping<'_>) {
    const FIELD: &str = "batch_size";
    const TO: &str = "pipeline spec.trials.count";
    let count = match document.get(FIELD).filter(|size| !size.is_null()) {
        None => {
            mapping.mapped("batch_size(absent)", TO);
            1
        }
        Some(size) => match whole(size).filter(|count| (1..=MAX_ITEMS).contains(count)) {
            None => return mapping.refused(FIELD, "a pipeline has 1 to 1000 trials: write such a number"),
            Some(1) => {
                mapping.mapped(FIELD, TO);
                1
            }
            Some(count) => {
                let how = "Amun ran the items of a batch in parallel, so that items on one node slowed each other down; Assay runs the trials one after the other";
                mapping.approximated(FIELD, TO, how);
                count
            }
        },
    };
    mapping.draft.pipeline.push(("trials".to_owned(), Node::Map(vec![member("count", count)])));
}

/// Returns true if an indicator may have this member.
fn accepts(found: &Member) -> bool {
    let script = member("script", json!({"path": "script"}));
    let spec = [member("type", "indicator")].into_iter().chain((found.0 != "script").then_some(script)).chain([found.clone()]);
    let members = [
        member("apiVersion", assay_spec::API_VERSION),
        member("kind", "Workload"),
        member("metadata", json!({"name": "a"})),
        ("spec".to_owned(), Node::Map(spec.collect())),
    ];
    let text = write("workload", &members, &mut Comments::default());
    assay_spec::validate([("workloads/a/workload.yaml", text.as_bytes())]).is_empty()
}

/// Returns the texts of a list; `None` if it is no list of texts on one line each.
fn lines(value: &Value) -> Option<Vec<String>> {
    let is_line = |text: &&str| !text.is_empty() && !text.chars().any(char::is_control);
    value.as_array()?.iter().map(|item| item.as_str().filter(is_line).map(str::to_owned)).collect()
}
