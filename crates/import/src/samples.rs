//! The rows of single requests or iterations of foreign evidence, by metric and labels.

use std::collections::BTreeMap;

use assay_manifest::ForeignEvidence;
use assay_stage::{ErrorCode, Failure};
use assay_verify::Blobs;
use serde_json::Value;

/// The most bytes of samples that are read.
const MAX_SAMPLE_BYTES: u64 = 1 << 30;

/// The values of one metric with the same labels.
pub type Series = BTreeMap<(String, BTreeMap<String, String>), Vec<f64>>;

/// Returns the samples of verified foreign evidence; empty if it has none, or if they are absent.
///
/// # Errors
/// Fails with `foreign_evidence` if the file is damaged.
pub fn series(blobs: &dyn Blobs, evidence: &ForeignEvidence) -> Result<Series, Failure> {
    let mut series = Series::new();
    let Some(samples) = &evidence.samples else { return Ok(series) };
    let bytes = blobs.get(&samples.artifact.digest, MAX_SAMPLE_BYTES)?.unwrap_or_default();
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let damaged = |error: serde_json::Error| {
            Failure::new(ErrorCode::ForeignEvidence, "a row of its samples is damaged").because(&error)
        };
        let row: Value = serde_json::from_slice(line).map_err(damaged)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let labels: BTreeMap<String, String> = row
            .get("labels")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.clone(), text(value)))
            .collect();
        for (metric, value) in row.get("values").and_then(Value::as_object).into_iter().flatten() {
            let values = series.entry((metric.clone(), labels.clone())).or_default();
            match value.as_array() {
                Some(items) => values.extend(items.iter().filter_map(Value::as_f64)),
                None => values.extend(value.as_f64()),
            }
        }
    }
    Ok(series)
}
