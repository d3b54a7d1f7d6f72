//! The benchmark contracts of `benchmarking.aisp.dev`: the rules of a BenchmarkRun, a renderer of one, and a summary of the contract documents.
//!
//! The rules and their messages are those of the project that defined the contract, schema version [`SCHEMA_VERSION`]; rules that Assay adds
//! are in a module of their own. Everything is a function of its arguments, so that a command, an HTTP route and an MCP tool return the same.

mod added_rules;
mod part;
mod problem;
mod render;
mod run_rules;
mod summary;
mod surface;
mod workload_rules;

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

pub use problem::Problem;
pub use render::{FIELDS, Field, OverrideError, RenderedRun, Values, render_run};
pub use run_rules::{API_GROUP, VARIABLES};
pub use summary::{Interface, summarize_contracts};
pub use surface::{SURFACES, Surface, SurfaceKind};
pub use workload_rules::{is_workload_specification, workload_spec_digest};

/// The version of the contract.
pub const SCHEMA_VERSION: &str = "2026-03-13";

/// Returns the rules that a document breaks: those of a workload specification if it is one, or else those of a BenchmarkRun.
pub fn validate(document: &Value) -> Vec<Problem> {
    if is_workload_specification(document) {
        return workload_rules::check(document);
    }
    let mut problems = run_rules::check(document);
    problems.extend(added_rules::check(document));
    problems
}

/// Returns the summary of a valid document; an empty object if it is not valid.
pub fn summarize(document: &Value) -> Value {
    if !validate(document).is_empty() {
        json!({})
    } else if is_workload_specification(document) {
        workload_rules::summarize(document)
    } else {
        run_rules::summarize(document)
    }
}
