//! The rules of a workload specification. Members that are not known are kept and digested; known ones have a type.

use assay_manifest::{CanonicalError, Digest, canonical_value};
use serde_json::{Value, json};

use crate::part::at;
use crate::problem::Problem;

/// The type of a known member.
enum Type {
    Text,
    TextOrList,
    /// A text, or a mapping that has it as `mode`.
    TextOrMode,
    Count,
    Number,
    Boolean,
    List,
    /// The number of tokens: a number, a list of numbers, or the quantiles `p50`, `p95` and `max`.
    Tokens,
    OneOf(&'static [&'static str]),
}

const KNOWN: &[(&str, Type)] = &[
    ("run_metadata.benchmark_layer", Type::Text),
    ("run_metadata.benchmark_grade", Type::OneOf(&GRADES)),
    ("run_metadata.use_case", Type::Text),
    ("run_metadata.owner", Type::Text),
    ("run_metadata.ticket_or_epic", Type::Text),
    ("comparison_axis.variable_under_test", Type::Text),
    ("comparison_axis.constants_locked", Type::List),
    ("workload.type", Type::OneOf(&["inference", "training"])),
    ("workload.name", Type::Text),
    ("workload.model.name", Type::Text),
    ("workload.model.parameter_count_b", Type::Number),
    ("workload.model.precision", Type::TextOrList),
    ("workload.model.weights_source", Type::Text),
    ("workload.input_distribution.sequence_length_mix", Type::List),
    ("workload.input_distribution.prompt_tokens", Type::Tokens),
    ("workload.input_distribution.completion_tokens", Type::Tokens),
    ("workload.batching_policy", Type::TextOrMode),
    ("workload.concurrency_model", Type::TextOrMode),
    ("workload.concurrency_model.values", Type::List),
    ("workload.serving_contract.stack_under_test", Type::Text),
    ("workload.serving_contract.protocol", Type::Text),
    ("workload.serving_contract.deployment_model", Type::Text),
    ("execution.image", Type::Text),
    ("execution.runtime_versions.driver", Type::Text),
    ("execution.runtime_versions.cuda", Type::Text),
    ("execution.runtime_versions.nccl", Type::Text),
    ("execution.runtime_versions.pytorch", Type::Text),
    ("execution.runtime_versions.runtime_or_server", Type::Text),
    ("execution.hardware_tier.gpu_model", Type::Text),
    ("execution.hardware_tier.gpu_count", Type::Count),
    ("execution.hardware_tier.cpu_model", Type::Text),
    ("measurement_policy.trials", Type::Count),
    ("measurement_policy.warmup_trials", Type::Count),
    ("measurement_policy.report_statistics", Type::List),
    ("measurement_policy.environment_controls.gpu_clocks_locked", Type::Boolean),
    ("measurement_policy.environment_controls.app_clocks_recorded", Type::Boolean),
    ("measurement_policy.environment_controls.topology_recorded", Type::Boolean),
    ("measurement_policy.environment_controls.background_load_recorded", Type::Boolean),
    ("metrics.primary", Type::TextOrList),
    ("metrics.secondary", Type::List),
    ("artifacts.provenance_signing.required", Type::Boolean),
];

/// The grades, by both of the names that documents use.
const GRADES: [&str; 4] = ["publication", "realism", "publication_grade", "realism_grade"];

/// Words of templates that stand for a value which was never filled in.
const PLACEHOLDERS: [&str; 7] = ["<", "todo", "tbd", "placeholder", "replace", "pending", "x.y"];

/// The fewest different digits of a digest that is no placeholder, such as 64 zeros.
const MIN_DIGITS: usize = 4;

/// Returns true if a document has the shape of a workload specification.
pub fn is_workload_specification(document: &Value) -> bool {
    let has = |name: &str| document.get(name).is_some_and(Value::is_object);
    document.get("kind").is_none() && has("run_metadata") && has("comparison_axis") && has("workload")
}

/// Returns the digest of a workload specification: SHA-256 of its canonical JSON, which does not depend on the order of its members.
///
/// # Errors
///
/// If it has a number that canonical JSON cannot represent.
pub fn workload_spec_digest(document: &Value) -> Result<Digest, CanonicalError> {
    canonical_value(document).map(|bytes| Digest::compute(&bytes))
}

/// Returns the rules that a workload specification breaks.
pub(crate) fn check(document: &Value) -> Vec<Problem> {
    let typed = KNOWN.iter().filter_map(|(path, of)| {
        let value = at(document, path)?;
        expectation(of, value).map(|message| Problem::new(*path, message))
    });
    let mut problems: Vec<Problem> = typed.collect();
    if workload_spec_digest(document).is_err() {
        problems.push(Problem::new("document", "has a number that canonical JSON cannot represent"));
    }
    if is_publication(document) {
        problems.extend(check_pins(document));
    }
    problems
}

/// Returns the type that a value should have; `None` if it has it.
fn expectation(of: &Type, value: &Value) -> Option<String> {
    let is_positive = |value: &Value| value.as_u64().is_some_and(|number| number > 0);
    let (holds, expected) = match of {
        Type::Text => (value.is_string(), "expected string".to_owned()),
        Type::TextOrList => (value.is_string() || value.is_array(), "expected string or list".to_owned()),
        Type::TextOrMode => {
            let is_mode = value.get("mode").is_some_and(Value::is_string);
            (value.is_string() || is_mode, "expected string, or mapping with mode".to_owned())
        }
        Type::Count => (value.is_u64(), "expected non-negative integer".to_owned()),
        Type::Number => (value.is_number(), "expected number".to_owned()),
        Type::Boolean => (value.is_boolean(), "expected boolean".to_owned()),
        Type::List => (value.is_array(), "expected list".to_owned()),
        Type::Tokens => {
            let is_list = value.as_array().is_some_and(|items| !items.is_empty() && items.iter().all(is_positive));
            let has_quantiles = ["p50", "p95", "max"].iter().all(|name| value.get(name).is_some_and(is_positive));
            (
                is_positive(value) || is_list || has_quantiles,
                "expected positive integer, list of them, or mapping with p50, p95 and max".to_owned(),
            )
        }
        Type::OneOf(words) => {
            (value.as_str().is_some_and(|word| words.contains(&word)), format!("expected one of {}", crate::part::words(words)))
        }
    };
    (!holds).then_some(expected)
}

fn is_publication(document: &Value) -> bool {
    let grade = at(document, "run_metadata.benchmark_grade").and_then(Value::as_str);
    grade.is_some_and(|grade| grade.starts_with("publication"))
}

/// Checks that a publication-grade specification pins its image and its versions, and has no placeholder in their place.
fn check_pins(document: &Value) -> Vec<Problem> {
    let text = |path: &str| at(document, path).and_then(Value::as_str).unwrap_or_default();
    let image = (!is_pinned_image(text("execution.image")))
        .then(|| Problem::new("execution.image", "publication grade needs an image with its digest, and no placeholder"));
    let versions =
        ["driver", "cuda", "nccl", "pytorch", "runtime_or_server"].map(|name| format!("execution.runtime_versions.{name}"));
    let is_unfilled = |path: &&String| is_placeholder(text(path));
    let message = "publication grade needs a version, and no placeholder";
    image.into_iter().chain(versions.iter().filter(is_unfilled).map(|path| Problem::new(path.as_str(), message))).collect()
}

fn is_pinned_image(image: &str) -> bool {
    let Some((name, digest)) = image.split_once("@sha256:") else { return false };
    let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let digits: std::collections::BTreeSet<u8> = digest.bytes().collect();
    !is_placeholder(name) && is_digest && digits.len() >= MIN_DIGITS
}

fn is_placeholder(text: &str) -> bool {
    let text = text.trim().to_ascii_lowercase();
    text.is_empty() || PLACEHOLDERS.iter().any(|word| text.contains(word))
}

/// Returns the summary of a valid workload specification, with its digest.
pub(crate) fn summarize(document: &Value) -> Value {
    let value = |path: &str| at(document, path).cloned().unwrap_or(Value::Null);
    json!({
        "name": value("workload.name"),
        "benchmark_grade": value("run_metadata.benchmark_grade"),
        "benchmark_layer": value("run_metadata.benchmark_layer"),
        "workload_type": value("workload.type"),
        "variable_under_test": value("comparison_axis.variable_under_test"),
        "workload_spec_digest": workload_spec_digest(document).ok(),
    })
}
