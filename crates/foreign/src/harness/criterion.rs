//! The messages of cargo-criterion: `cargo criterion --message-format=json`, one JSON document in each line.
//!
//! A sample of Criterion.rs is the total time of several iterations; divided by their number, it is a sample here.

use serde_json::Value;

use super::json::{document, failed, numbers, text};
use super::{HarnessError, Measurements};

pub(super) fn read(output: &str, measurements: &mut Measurements) -> Result<(), HarnessError> {
    let lines = output.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    for (index, line) in lines {
        let place = format!("line {}", index + 1);
        let message = document(line)?;
        if message.get("reason").and_then(Value::as_str) != Some("benchmark-complete") {
            continue;
        }
        let name = text(&message, "id", &place)?;
        let unit = text(&message, "unit", &place)?;
        let counts = numbers(&message, "iteration_count", &place)?.unwrap_or_default();
        let totals = numbers(&message, "measured_values", &place)?.unwrap_or_default();
        if counts.len() != totals.len() || counts.iter().any(|count| *count < 1.0) {
            return Err(failed(name, "its measured values have not one number of iterations each"));
        }
        let samples: Vec<f64> = totals.iter().zip(&counts).map(|(total, count)| total / count).collect();
        measurements.add(name, "time", unit, &samples)?;
    }
    Ok(())
}
