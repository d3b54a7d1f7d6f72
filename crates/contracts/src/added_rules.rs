//! Rules of a BenchmarkRun that Assay adds: a workload that contradicts itself would be measured as only one of its two statements.

use serde_json::Value;

use crate::part::at;
use crate::problem::Problem;

const WORKLOAD: &str = "spec.workload";
const FIXED: &str = "spec.comparison.controls.fixed";
const MIX: &str = "sequenceLengthMix";

/// The largest difference of the sum of weights from 1: they are written with a few decimals.
const MAX_WEIGHT_ERROR: f64 = 1e-6;

/// Returns the added rules that a BenchmarkRun breaks. Parts that are absent are reported by the other rules.
pub(crate) fn check(document: &Value) -> Vec<Problem> {
    let mut problems = check_mix(document);
    problems.extend(check_fixed_controls(document));
    problems
}

fn check_mix(document: &Value) -> Vec<Problem> {
    let path = format!("{WORKLOAD}.{MIX}");
    let Some(entries) = at(document, &path).and_then(Value::as_array).filter(|entries| !entries.is_empty()) else {
        return Vec::new();
    };
    let mut problems = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        for name in ["inputTokens", "outputTokens"] {
            if entry.get(name).and_then(Value::as_u64).is_none_or(|tokens| tokens == 0) {
                problems.push(Problem::new(format!("{path}[{index}].{name}"), "must be a positive integer"));
            }
        }
        if entry.get("weight").and_then(Value::as_f64).is_none_or(|weight| weight <= 0.0) {
            problems.push(Problem::new(format!("{path}[{index}].weight"), "must be a number above 0"));
        }
    }
    let sum: f64 = entries.iter().filter_map(|entry| entry.get("weight")?.as_f64()).sum();
    if problems.is_empty() && (sum - 1.0).abs() > MAX_WEIGHT_ERROR {
        problems.push(Problem::new(path, "weights must sum to 1"));
    }
    problems
}

/// Checks that the controls that are to be fixed are those of the workload.
fn check_fixed_controls(document: &Value) -> Vec<Problem> {
    let both = |name: &str| Some((at(document, &format!("{FIXED}.{name}"))?, at(document, &format!("{WORKLOAD}.{name}"))?));
    let differs = |name: &&str| both(name).is_some_and(|(fixed, stated)| !is_same(fixed, stated));
    let names = ["model", MIX, "precision", "batchingPolicy", "concurrencyModel"];
    let problem = |name: &str| Problem::new(format!("{FIXED}.{name}"), format!("must equal {WORKLOAD}.{name}"));
    names.iter().filter(|name| differs(name)).map(|name| problem(name)).collect()
}

/// Returns true if a fixed control is the one of the workload: the same value, or the mix in the notation `[{512/128@0.7},{1024/256@0.3}]`.
fn is_same(fixed: &Value, stated: &Value) -> bool {
    fixed == stated || fixed.as_str().is_some_and(|text| Some(text) == notation(stated).as_deref())
}

/// Returns a mix of lengths in its notation; `None` if it is no mix.
fn notation(mix: &Value) -> Option<String> {
    let entry = |entry: &Value| {
        let (input, output, weight) = (entry.get("inputTokens")?, entry.get("outputTokens")?, entry.get("weight")?);
        Some(format!("{{{input}/{output}@{weight}}}"))
    };
    let entries: Option<Vec<String>> = mix.as_array()?.iter().map(entry).collect();
    Some(format!("[{}]", entries?.join(",")))
}
