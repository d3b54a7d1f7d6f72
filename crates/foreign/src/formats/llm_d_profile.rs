//! Profiles of llm-d-benchmark that hold the options of a command: those of `vllm bench serve` and of `aiperf profile`.
//!
//! Its profiles for guidellm and inference-perf are files of these tools, and have formats of their own.

use serde_json::Value;

use crate::command::{Arguments, Flag, Treatment};
use crate::document::PLACEHOLDER;
use crate::format::{Example, ExampleInput, FieldDoc, Format, Reader};
use crate::formats::{aiperf, vllm};
use crate::mapping::Mapping;
use crate::value::text;

/// The format.
pub(crate) static FORMAT: Format = Format {
    name: "llm-d-profile",
    title: "a profile or a scenario of llm-d-benchmark",
    versions: "0.8.0, and the development version of August 2026",
    recognised_by: "`executable` beside `base-url`, `dataset-name` or `num-prompts`; `endpoint-type` beside `url` or `model`; or a list `scenario` or `treatments` of parts with names",
    examples: &[
        Example { name: "vllm", input: ExampleInput::File(include_str!("examples/llm_d_vllm.yaml")), options: "" },
        Example {
            name: "aiperf",
            input: ExampleInput::File(include_str!("examples/llm_d_aiperf.yaml")),
            options: "--url http://127.0.0.1:8000 --model llama-3.1-8b",
        },
    ],
    fields,
    reader: Reader::Document { recognises, map },
};

/// The value of an option that takes none.
const NO_VALUE: &str = "none";
/// The lists of scenarios and experiments, which state no load.
static WITHOUT_LOAD: [(&str, &str); 2] = [
    (
        "scenario",
        "it describes a deployment, and its load is in the profile that `harness.profile` names: import that profile with `--url` and `--model`",
    ),
    ("treatments", "each changes fields of a profile: write them into a copy of the profile, and import that"),
];
/// The fields that are no options.
const OWN: [(&str, &str); 1] = [("executable", "the profile is imported, and the program is not started")];

/// A command whose options a profile holds.
struct Command {
    flags: &'static [Flag],
    /// The field that names the endpoint.
    address: &'static str,
    map: fn(&Arguments, &mut Mapping<'_>),
}

static VLLM: Command = Command { flags: vllm::FLAGS, address: "base-url", map: vllm::map };
static AIPERF: Command = Command { flags: aiperf::FLAGS, address: "url", map: aiperf::map };

/// Returns true for a flat map of options, and for a scenario or an experiment.
fn recognises(document: &Value) -> bool {
    command_of(document).is_some() || list_without_load(document).is_some()
}

/// Returns the list of a scenario or an experiment, with the remedy.
fn list_without_load(document: &Value) -> Option<&'static (&'static str, &'static str)> {
    let has_names =
        |items: &Vec<Value>| !items.is_empty() && items.iter().all(|item| item.get("name").is_some_and(Value::is_string));
    let is_own = ["apiVersion", "kind"].iter().all(|name| document.get(name).is_none());
    WITHOUT_LOAD.iter().filter(|_| is_own).find(|(list, _)| document.get(list).and_then(Value::as_array).is_some_and(has_names))
}

fn command_of(document: &Value) -> Option<&'static Command> {
    let members = document.as_object()?;
    let has_any = |names: &[&str]| names.iter().any(|name| members.contains_key(*name));
    let is_flat = !members.values().any(|value| value.is_object() || value.is_array()) && !has_any(&["apiVersion", "kind"]);
    let is_vllm = has_any(&["executable"]) && has_any(&["base-url", "dataset-name", "num-prompts"]);
    let is_aiperf = has_any(&["endpoint-type"]) && has_any(&["url", "model"]);
    if is_flat && is_vllm { Some(&VLLM) } else { (is_flat && is_aiperf).then_some(&AIPERF) }
}

/// Returns the fields that are its own. The options are those of the commands.
fn fields() -> Vec<FieldDoc> {
    let own = OWN.iter().map(|(field, why)| FieldDoc { field: (*field).to_owned(), treatment: format!("ignored: {why}") });
    let options = [&vllm::FORMAT, &aiperf::FORMAT].map(|format| FieldDoc {
        field: "OPTION".to_owned(),
        treatment: format!("`--OPTION` of [{0}](#{0}); the value `none` stands for an option without a value", format.name),
    });
    let refused =
        WITHOUT_LOAD.iter().map(|(list, remedy)| FieldDoc { field: (*list).to_owned(), treatment: format!("refused: {remedy}") });
    own.chain(options).chain(refused).collect()
}

/// Maps a profile as the command line that llm-d-benchmark makes of it.
fn map(document: &Value, mapping: &mut Mapping<'_>) {
    if let Some((list, remedy)) = list_without_load(document) {
        return mapping.refused(list, remedy);
    }
    let (Some(command), Some(members)) = (command_of(document), document.as_object()) else { return };
    let mut words = Vec::new();
    for (name, value) in members {
        words.extend(option_of(name, value, command, mapping));
    }
    let arguments = Arguments::read(&words, command.flags, mapping);
    (command.map)(&arguments, mapping);
    arguments.settle(mapping);
}

/// Returns the option of a field; `None` if the field is null or gets its row here.
fn option_of(name: &str, value: &Value, command: &Command, mapping: &mut Mapping<'_>) -> Option<String> {
    let value = text(value)?;
    if let Some((_, why)) = OWN.iter().find(|(known, _)| *known == name) {
        mapping.ignored(name, why);
        return None;
    }
    let option = format!("--{name}");
    if value == NO_VALUE {
        return Some(option);
    }
    let flag = command.flags.iter().find(|flag| flag.names.contains(&option.as_str()));
    let is_carried = flag.is_some_and(|flag| matches!(flag.treatment, Treatment::Carried(_)));
    if is_carried && name != "tokenizer" && value.starts_with(PLACEHOLDER) {
        mapping.placeholder(&option, name == command.address, name == "model");
        return None;
    }
    Some(format!("{option}={value}"))
}

#[cfg(test)]
mod tests;
