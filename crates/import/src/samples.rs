//! The rows of single requests or iterations of foreign evidence, by metric and labels.

use std::collections::BTreeMap;

use assay_manifest::ForeignEvidence;
use assay_stage::{ErrorCode, Failure};
use assay_verify::Blobs;
use serde::Deserialize;
use serde_json::{Map, Value};

/// The most bytes of samples that are read.
const MAX_SAMPLE_BYTES: u64 = 1 << 30;

/// The values of each metric by its labels.
pub type Series = BTreeMap<(String, BTreeMap<String, String>), SampleValues>;

/// The values of one metric with the same labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampleValues {
    /// All values, in the order of the rows.
    pub values: Vec<f64>,
    /// The number of values of each row: 1, or the length of a list, such as that of the gaps of one response.
    pub row_lengths: Vec<usize>,
}

impl SampleValues {
    /// Adds the value, or the list of values, of one row.
    pub fn add(&mut self, value: &Value) {
        let before = self.values.len();
        match value.as_array() {
            Some(items) => self.values.extend(items.iter().filter_map(Value::as_f64)),
            None => self.values.extend(value.as_f64()),
        }
        if self.values.len() > before {
            self.row_lengths.push(self.values.len() - before);
        }
    }

    /// Returns true if a row has several values. They depend on each other, because they are of one response or process.
    pub fn has_lists(&self) -> bool {
        self.row_lengths.iter().any(|length| *length > 1)
    }

    /// Returns the values of each row.
    pub fn rows(&self) -> impl Iterator<Item = &[f64]> {
        let mut rest = self.values.as_slice();
        self.row_lengths.iter().map_while(move |length| {
            let (row, after) = rest.split_at_checked(*length)?;
            rest = after;
            Some(row)
        })
    }
}

/// Returns the samples of verified foreign evidence; empty if it has none, or if they are absent.
///
/// # Errors
/// Fails with `foreign_evidence` if the file is damaged.
pub fn series(blobs: &dyn Blobs, evidence: &ForeignEvidence) -> Result<Series, Failure> {
    let mut series = Series::new();
    for_each_sample(blobs, evidence, |labels, values| {
        for (metric, value) in values {
            series.entry((metric.clone(), labels.clone())).or_default().add(value);
        }
        Ok(())
    })?;
    Ok(series)
}

/// Visits the samples of verified foreign evidence, in their order: the labels of each, and the value or the list of values of each metric.
/// Returns false if they are absent.
///
/// # Errors
/// Fails with `foreign_evidence` if the file is damaged, and as `visit` does.
pub fn for_each_sample(
    blobs: &dyn Blobs,
    evidence: &ForeignEvidence,
    mut visit: impl FnMut(&BTreeMap<String, String>, &Map<String, Value>) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let Some(samples) = &evidence.samples else { return Ok(true) };
    let Some(bytes) = blobs.get(&samples.artifact.digest, MAX_SAMPLE_BYTES)? else { return Ok(false) };
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let damaged = |error: serde_json::Error| {
            Failure::new(ErrorCode::ForeignEvidence, "a row of its samples is damaged").because(&error)
        };
        let row: Sample = serde_json::from_slice(line).map_err(damaged)?;
        visit(&row.labels, &row.values)?;
    }
    Ok(true)
}

/// A line of the file of samples.
#[derive(Deserialize)]
struct Sample {
    labels: BTreeMap<String, String>,
    values: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_values_of_a_list_stay_together() {
        let mut values = SampleValues::default();
        for value in [json!(1.0), json!([2.0]), json!([])] {
            values.add(&value);
        }
        assert!(!values.has_lists());
        values.add(&json!([3.0, 4.0]));
        assert!(values.has_lists());
        assert_eq!(values.rows().collect::<Vec<_>>(), [&[1.0][..], &[2.0], &[3.0, 4.0]]);
    }
}
