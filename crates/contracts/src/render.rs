//! A BenchmarkRun from the template and up to ten overrides.

use serde_json::{Value, json};

use crate::run_rules::VARIABLES;
use crate::surface::RUN_TEMPLATE;
use crate::{SCHEMA_VERSION, SURFACES};

/// The longest value of an override, in bytes.
const MAX_VALUE: usize = 200;

/// A field that an override sets.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name, such as `workloadType`.
    pub name: &'static str,
    /// Its value unless it is overridden.
    pub default: &'static str,
    /// The allowed values; empty if any text is allowed.
    pub choices: &'static [&'static str],
}

const fn free(name: &'static str, default: &'static str) -> Field {
    Field { name, default, choices: &[] }
}

/// The fields, in the order of the contract.
pub const FIELDS: [Field; 10] = [
    free("name", "publication-inference-stack-b200"),
    Field { name: "benchmarkClass", default: "publication_grade", choices: &["publication_grade", "realism_grade"] },
    Field { name: "workloadType", default: "inference", choices: &["training", "inference", "mixed"] },
    free("schedulerPath", "slinky-kueue"),
    Field { name: "cadence", default: "pre_release", choices: &["canary", "nightly", "pre_release"] },
    free("model", "openai/gpt-oss-20b"),
    free("precision", "bf16"),
    free("batchingPolicy", "continuous"),
    free("concurrencyModel", "closed_loop"),
    Field { name: "comparisonVariable", default: "runtime_version", choices: &VARIABLES },
];

/// The values of all fields, in their order.
pub type Values = [String; FIELDS.len()];

/// An override that cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// No field has this name.
    #[error("Unknown BenchmarkRun generator field: {0}")]
    UnknownField(String),
    /// The field takes other words.
    #[error("{field} must be one of: {choices}")]
    NotAChoice {
        /// The field.
        field: &'static str,
        /// Its choices, joined by commas.
        choices: String,
    },
    /// The value is not a short text on one line.
    #[error("{0} must be a text of at most {MAX_VALUE} bytes without control characters")]
    NotPlain(&'static str),
}

/// A rendered BenchmarkRun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedRun {
    /// The values that it was rendered from.
    pub values: Values,
    /// The document.
    pub yaml: String,
}

/// Renders a BenchmarkRun from overrides, pairs of a field's name and its value. An empty value stands for the default. Equal overrides give
/// equal bytes.
///
/// # Errors
///
/// If a name is unknown, or a value is not one that its field takes.
pub fn render_run<'a>(overrides: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<RenderedRun, OverrideError> {
    let mut values = FIELDS.map(|field| field.default.to_owned());
    for (name, value) in overrides {
        let slot = FIELDS.iter().zip(values.iter_mut()).find(|(field, _)| field.name == name);
        let (field, slot) = slot.ok_or_else(|| OverrideError::UnknownField(name.to_owned()))?;
        let value = value.trim();
        if value.is_empty() {
            continue;
        }
        check_value(field, value)?;
        value.clone_into(slot);
    }
    let yaml = fill(RUN_TEMPLATE, &values);
    Ok(RenderedRun { values, yaml })
}

fn check_value(field: &Field, value: &str) -> Result<(), OverrideError> {
    if !field.choices.is_empty() && !field.choices.contains(&value) {
        return Err(OverrideError::NotAChoice { field: field.name, choices: field.choices.join(", ") });
    }
    let is_line_end = |letter: char| letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}' | '\u{feff}');
    if value.len() > MAX_VALUE || value.chars().any(is_line_end) {
        return Err(OverrideError::NotPlain(field.name));
    }
    Ok(())
}

/// Replaces each `"@name@"` of a template once. A value is never searched, so it may hold any text.
fn fill(template: &str, values: &Values) -> String {
    let mut rest = template;
    let mut text = String::new();
    while let Some((before, found)) = rest.split_once("\"@") {
        let Some((name, after)) = found.split_once("@\"") else { break };
        text.push_str(before);
        text.push_str(&scalar(name, values));
        rest = after;
    }
    text + rest
}

/// Returns the YAML of a value: texts in the quotes of JSON, which YAML reads alike.
fn scalar(name: &str, values: &Values) -> String {
    let value = |name: &str| FIELDS.iter().zip(values).find(|(field, _)| field.name == name).map(|(_, value)| value.as_str());
    let is = |name: &str, words: &[&str]| value(name).is_some_and(|value| words.contains(&value)).to_string();
    match name {
        "training" => is("workloadType", &["training", "mixed"]),
        "inference" => is("workloadType", &["inference", "mixed"]),
        "realism" => is("benchmarkClass", &["realism_grade"]),
        _ => Value::from(value(name).unwrap_or_default()).to_string(),
    }
}

/// Returns the values by the names of their fields.
pub(crate) fn by_name(values: &Values) -> Value {
    FIELDS.iter().zip(values).map(|(field, value)| (field.name.to_owned(), Value::from(value.as_str()))).collect()
}

impl RenderedRun {
    /// Returns the result for machines. `generated_at` is a time in UTC by RFC 3339, with `Z`.
    pub fn to_json(&self, generated_at: &str) -> Value {
        json!({
            "schema_version": SCHEMA_VERSION,
            "generated_at_utc": generated_at,
            "template_path": template_path(),
            "applied_values": by_name(&self.values),
            "rendered_yaml": self.yaml,
        })
    }
}

/// Returns the path of the template in Assay's repository.
pub(crate) fn template_path() -> &'static str {
    SURFACES.iter().find(|surface| surface.name == "benchmark_run").map_or("", |surface| surface.path)
}
