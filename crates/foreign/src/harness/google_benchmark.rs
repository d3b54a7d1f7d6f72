//! The JSON of Google Benchmark: `--benchmark_format=json`.
//!
//! Each repetition is a sample, with real time, CPU time and user counters. Aggregates over repetitions are left out, because Assay computes its own.

use serde_json::Value;

use super::error::shortened;
use super::json::{document, failed, list, number, optional_number, text};
use super::{HarnessError, Measurements};

/// The members with a number that is no measurement.
const DESCRIPTIVE: [&str; 11] = [
    "family_index",
    "per_family_instance_index",
    "repetitions",
    "repetition_index",
    "threads",
    "iterations",
    "real_time",
    "cpu_time",
    "allocs_per_iter",
    "max_bytes_used",
    "total_allocated_bytes",
];

/// The members among those that are measured by a memory manager.
const MEMORY: [(&str, &str, &str); 3] =
    [("allocs_per_iter", "allocations", ""), ("max_bytes_used", "peak", "B"), ("total_allocated_bytes", "allocated", "B")];

pub(super) fn read(output: &str, measurements: &mut Measurements) -> Result<(), HarnessError> {
    let document = document(output)?;
    let mut aggregated = None;
    for (index, benchmark) in list(&document, "benchmarks", "the document")?.iter().enumerate() {
        let place = format!("benchmarks[{index}]");
        let name = benchmark.get("run_name").or_else(|| benchmark.get("name")).and_then(Value::as_str);
        let name = name.map_or_else(|| text(benchmark, "name", &place), Ok)?;
        if let Some(reason) = crate::failed::google_benchmark(benchmark) {
            return Err(failed(name, reason));
        }
        if benchmark.get("run_type").and_then(Value::as_str).is_some_and(|kind| kind != "iteration") {
            aggregated.get_or_insert(name);
            continue;
        }
        let unit = text(benchmark, "time_unit", &place)?;
        measurements.add(name, "real_time", unit, &[number(benchmark, "real_time", &place)?])?;
        measurements.add(name, "cpu_time", unit, &[number(benchmark, "cpu_time", &place)?])?;
        for (member, quantity, unit) in MEMORY {
            if let Some(value) = optional_number(benchmark, member, &place)? {
                measurements.add(name, quantity, unit, &[value])?;
            }
        }
        for (counter, value) in benchmark.as_object().into_iter().flatten() {
            if let Some(value) = value.as_f64().filter(|_| !DESCRIPTIVE.contains(&counter.as_str())) {
                measurements.add_counter(name, counter, "", &[value])?;
            }
        }
    }
    match aggregated.filter(|_| measurements.list.is_empty()) {
        Some(name) => Err(HarnessError::OnlyAggregates(shortened(name))),
        None => Ok(()),
    }
}
