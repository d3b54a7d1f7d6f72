//! The outputs of benchmark harnesses as measurements: one module for each format, each a function of bytes.
//!
//! A harness measures several benchmarks in one invocation. Each becomes one measurement for each quantity: its name, the quantity with its
//! unit, and the samples as the harness wrote them, or the one number that it wrote in their place.

mod criterion;
mod error;
mod go_bench;
mod google_benchmark;
mod hyperfine;
mod jmh;
mod json;
mod pytest_benchmark;
#[cfg(test)]
mod tests;
mod unit;

use std::collections::BTreeMap;

use assay_indicator::{Output, OutputError};
use assay_manifest::{Attempt, HarnessFormat, Metric, Plan};
use serde_json::{Map, Value, json};

pub use error::HarnessError;

/// The most bytes of an output: the limit of a script's result.
pub const MAX_BYTES: usize = assay_indicator::MAX_BYTES;

/// The most measurements of one output.
pub const MAX_MEASUREMENTS: usize = 10_000;

/// The most samples of one output, of all measurements together.
pub const MAX_SAMPLES: usize = 500_000;

/// One quantity of one benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// The name of the benchmark, as the harness wrote it.
    pub benchmark: String,
    /// The quantity. Its last word is the unit, such as `time_nanoseconds`, if the unit has a word.
    pub quantity: String,
    /// The unit as the harness names it, such as `ns/op`; empty for a counter without one.
    pub unit: String,
    /// The samples, in the order of the output; never empty, and all finite.
    pub samples: Vec<f64>,
}

impl Measurement {
    /// Returns the path of the metric that it becomes, such as `BenchmarkSum-2.time_nanoseconds`. A workload can declare every such path: other
    /// characters than those of a metric's path become `_`.
    pub fn path(&self) -> String {
        let plain = |next: char| if next.is_ascii_alphanumeric() || "_@%:/+-".contains(next) { next } else { '_' };
        let parts = self.benchmark.split('.').map(|part| match part {
            "" => "_".to_owned(),
            part => part.chars().map(plain).collect(),
        });
        format!("{}.{}", parts.collect::<Vec<String>>().join("."), self.quantity)
    }
}

/// Reads the output of a harness.
///
/// # Errors
/// [`HarnessError`] if the output is not of the format, exceeds a limit, has no benchmark, or says that one failed.
pub fn read(format: HarnessFormat, bytes: &[u8]) -> Result<Vec<Measurement>, HarnessError> {
    if bytes.len() > MAX_BYTES {
        return Err(HarnessError::TooLarge(MAX_BYTES));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| HarnessError::NotText)?;
    if text.trim().is_empty() {
        return Err(HarnessError::Nothing);
    }
    read_as(format, text).map_err(|error| {
        let is_read = |other: &HarnessFormat| *other != format && read_as(*other, text).is_ok();
        HarnessFormat::ALL.iter().copied().find(is_read).map_or(error, HarnessError::OtherFormat)
    })
}

fn read_as(format: HarnessFormat, text: &str) -> Result<Vec<Measurement>, HarnessError> {
    let mut measurements = Measurements::default();
    match format {
        HarnessFormat::GoBench => go_bench::read(text, &mut measurements),
        HarnessFormat::GoogleBenchmark => google_benchmark::read(text, &mut measurements),
        HarnessFormat::PytestBenchmark => pytest_benchmark::read(text, &mut measurements),
        HarnessFormat::Hyperfine => hyperfine::read(text, &mut measurements),
        HarnessFormat::Criterion => criterion::read(text, &mut measurements),
        HarnessFormat::Jmh => jmh::read(text, &mut measurements),
    }?;
    if measurements.list.is_empty() { Err(HarnessError::Empty) } else { Ok(measurements.list) }
}

/// Parses the output of a script: that of a harness as the result of an indicator of this name, or the result itself if there is no format.
///
/// # Errors
/// [`OutputError`] if the output is not a result, or if the harness states one of the declared metrics in another unit.
pub fn parse(format: Option<HarnessFormat>, name: &str, metrics: &[Metric], bytes: &[u8]) -> Result<Output, OutputError> {
    let Some(format) = format else { return assay_indicator::parse(bytes) };
    let measurements =
        read(format, bytes).map_err(|error| OutputError::Harness { format: format.to_string(), reason: error.to_string() })?;
    unit::check(metrics, &measurements)?;
    let result: Map<String, Value> =
        measurements.iter().map(|measurement| (measurement.path(), json!(measurement.samples))).collect();
    let document = json!({"name": name, "component": format, "@parameters": {}, "@result": result});
    assay_indicator::parse(document.to_string().as_bytes())
}

/// Parses the output of an attempt as the plan says that its workload prints it.
///
/// # Errors
/// [`OutputError`] if the output is not a result.
pub fn parse_attempt(plan: &Plan, attempt: &Attempt, bytes: &[u8]) -> Result<Output, OutputError> {
    let workload = plan.case(&attempt.case_id).and_then(|case| plan.workload(&case.workload));
    let format = workload.and_then(|workload| workload.indicator.as_ref()?.output);
    let (name, metrics) = workload.map_or(("", &[][..]), |workload| (workload.name.as_str(), workload.metrics.as_slice()));
    parse(format, name, metrics, bytes)
}

/// The measurements of an output, within the limits.
#[derive(Debug, Default)]
struct Measurements {
    list: Vec<Measurement>,
    /// The index of each measurement by its path.
    places: BTreeMap<String, usize>,
    samples: usize,
}

impl Measurements {
    /// Adds samples of a time, a size or a count, none of which is ever below zero.
    fn add(&mut self, benchmark: &str, quantity: &str, unit: &str, samples: &[f64]) -> Result<(), HarnessError> {
        if samples.iter().any(|sample| *sample < 0.0) {
            let quantity = error::shortened(&quantity_of(quantity, unit));
            return Err(HarnessError::Negative { benchmark: error::shortened(benchmark), quantity });
        }
        self.add_any(benchmark, quantity, unit, samples)
    }

    /// Adds samples of a counter that the benchmark defines. It may be below zero, if it is no time.
    fn add_counter(&mut self, benchmark: &str, quantity: &str, unit: &str, samples: &[f64]) -> Result<(), HarnessError> {
        if ["ns", "us", "ms", "s"].contains(&unit::plain(unit).as_str()) {
            return self.add(benchmark, quantity, unit, samples);
        }
        self.add_any(benchmark, quantity, unit, samples)
    }

    /// Adds samples of a quantity in a unit; those of the same benchmark and quantity are one measurement.
    fn add_any(&mut self, benchmark: &str, quantity: &str, unit: &str, samples: &[f64]) -> Result<(), HarnessError> {
        if samples.iter().any(|sample| !sample.is_finite()) {
            return Err(HarnessError::NotFinite { benchmark: error::shortened(benchmark) });
        }
        self.samples = self.samples.saturating_add(samples.len());
        if self.samples > MAX_SAMPLES {
            return Err(HarnessError::TooManySamples(MAX_SAMPLES));
        }
        if samples.is_empty() {
            return Ok(());
        }
        let added = Measurement {
            benchmark: benchmark.to_owned(),
            quantity: quantity_of(quantity, unit),
            unit: unit.to_owned(),
            samples: samples.to_vec(),
        };
        let path = added.path();
        if let Some(known) = self.places.get(&path).and_then(|place| self.list.get_mut(*place)) {
            if (&known.benchmark, &known.unit) != (&added.benchmark, &added.unit) {
                return Err(HarnessError::Ambiguous(error::shortened(&path)));
            }
            known.samples.extend_from_slice(samples);
            return Ok(());
        }
        if self.list.len() == MAX_MEASUREMENTS {
            return Err(HarnessError::TooMany(MAX_MEASUREMENTS));
        }
        self.places.insert(path, self.list.len());
        self.list.push(added);
        Ok(())
    }
}

/// Returns the name of a quantity with the word of its unit. A unit that has no word is written out: `MB/s` as `MB_per_s`.
fn quantity_of(quantity: &str, unit: &str) -> String {
    let word = match unit.strip_suffix("/op").unwrap_or(unit) {
        "" => return quantity.to_owned(),
        "ns" => "nanoseconds".to_owned(),
        "us" => "microseconds".to_owned(),
        "ms" => "milliseconds".to_owned(),
        "s" => "seconds".to_owned(),
        "B" => "bytes".to_owned(),
        other => other.replace('/', "_per_").replace(|next: char| !next.is_ascii_alphanumeric() && next != '_', "_"),
    };
    if quantity.is_empty() { word } else { format!("{quantity}_{word}") }
}
