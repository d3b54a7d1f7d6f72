//! The JSON of JMH: `-rf json -rff FILE`.
//!
//! Each measurement iteration of each fork is a sample. A mode that writes histograms in place of iterations has its score in their place.

use serde_json::Value;

use super::json::{absent, document, number, text};
use super::{HarnessError, Measurements};

pub(super) fn read(output: &str, measurements: &mut Measurements) -> Result<(), HarnessError> {
    let document = document(output)?;
    let benchmarks = document.as_array().ok_or_else(|| HarnessError::Member {
        member: "[]".to_owned(),
        expected: "a list of benchmarks",
        place: "the document".to_owned(),
    })?;
    for (index, benchmark) in benchmarks.iter().enumerate() {
        let place = format!("[{index}]");
        let name = format!("{}{}", text(benchmark, "benchmark", &place)?, parameters(benchmark));
        let mode = text(benchmark, "mode", &place)?;
        let primary = benchmark.get("primaryMetric").unwrap_or(&Value::Null);
        let (unit, scores) = samples(primary, &format!("{place}.primaryMetric"))?;
        measurements.add(&name, quantity(mode), unit, &scores)?;
        for (metric, found) in benchmark.get("secondaryMetrics").and_then(Value::as_object).into_iter().flatten() {
            let plain = metric.trim_start_matches('·').replace(|next: char| !next.is_ascii_alphanumeric(), "_");
            let (unit, samples) = samples(found, &format!("{place}.secondaryMetrics"))?;
            // What a profiler derives from two readings may be below zero.
            measurements.add_counter(&name, &plain, unit, &samples)?;
        }
    }
    Ok(())
}

/// Returns the unit of a metric and the scores of its iterations, or its score if none are written.
fn samples<'a>(metric: &'a Value, place: &str) -> Result<(&'a str, Vec<f64>), HarnessError> {
    let unit = text(metric, "scoreUnit", place)?;
    let forks = metric.get("rawData").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    // JMH writes `NaN` as a text: an iteration that is no number is not left out.
    let iterations = forks.iter().filter_map(Value::as_array).flatten().map(Value::as_f64).collect::<Option<Vec<_>>>();
    let iterations = iterations.ok_or_else(|| absent("rawData", "lists of numbers", place))?;
    let samples = if iterations.is_empty() { vec![number(metric, "score", place)?] } else { iterations };
    Ok((unit, samples))
}

/// Returns the quantity of a mode: throughput, or a time.
fn quantity(mode: &str) -> &'static str {
    if mode == "thrpt" { "throughput" } else { "time" }
}

/// Returns the parameters of a benchmark in the order of their names, such as `(size=10)`.
fn parameters(benchmark: &Value) -> String {
    let given = benchmark.get("params").and_then(Value::as_object).into_iter().flatten();
    let texts: Vec<String> = given.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default())).collect();
    if texts.is_empty() { String::new() } else { format!("({})", texts.join(",")) }
}
