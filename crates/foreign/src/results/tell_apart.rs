//! Labels that tell numbers of different runs apart: the file and its document, and the number of an entry among equal ones.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::ForeignRow;
use serde_json::json;

use super::error::ResultsError;
use super::rows::{Found, Labels, MAX_SAMPLE_BYTES, Origin, PlacedRow, shortened_value, too_many_samples};

/// Returns the rows, and the rows of single requests or iterations: one JSON document a line.
///
/// If two files or documents have numbers with the same labels, each number gets its file and document as well. If two entries of one
/// document have the same labels, as two executions of one command do, each gets its number among these entries.
///
/// # Errors
/// Fails if two rows are still the same, and if the samples are too large.
pub(crate) fn tell_apart(found: Found, paths: &[&str]) -> Result<(Vec<ForeignRow>, Vec<u8>), ResultsError> {
    let entries = Entries::of(&found);
    let is_shared = has_shared_row(&found.rows);
    let of_row = |placed: &PlacedRow| entries.labels(placed.origin, &placed.row.labels, is_shared.then_some(paths));
    let more: Vec<Labels> = found.rows.iter().map(of_row).collect();
    let samples = lines(&found, &entries, paths)?;
    let with_labels = |(mut placed, more): (PlacedRow, Labels)| {
        placed.row.labels.extend(more);
        placed.row
    };
    drop(entries);
    let rows: Vec<ForeignRow> = found.rows.into_iter().zip(more).map(with_labels).collect();
    match repeated(&rows) {
        Some(row) => Err(ResultsError::Twice { metric: row.metric.clone(), statistic: row.statistic.clone() }),
        None => Ok((rows, samples)),
    }
}

/// The entries of each document that have the same labels.
struct Entries<'a>(BTreeMap<(usize, u64, &'a Labels), BTreeSet<usize>>);

impl<'a> Entries<'a> {
    fn of(found: &'a Found) -> Self {
        let mut entries: BTreeMap<(usize, u64, &Labels), BTreeSet<usize>> = BTreeMap::new();
        let rows = found.rows.iter().map(|placed| (placed.origin, &placed.row.labels));
        for (origin, labels) in rows.chain(found.samples.keys().map(|(origin, labels)| (*origin, labels))) {
            entries.entry((origin.file, origin.document, labels)).or_default().insert(origin.entry);
        }
        Self(entries)
    }

    /// Returns the labels that a number gets: its file and document if there are `paths`, and the number of its entry among equal ones.
    fn labels(&self, origin: Origin, labels: &Labels, paths: Option<&[&str]>) -> Labels {
        let mut more = Labels::new();
        if let Some(path) = paths.and_then(|paths| paths.get(origin.file)) {
            more.insert("file".to_owned(), shortened_value((*path).to_owned()));
            if origin.document > 0 {
                more.insert("document".to_owned(), origin.document.to_string());
            }
        }
        let equal = self.0.get(&(origin.file, origin.document, labels)).filter(|equal| equal.len() > 1);
        let number = equal.and_then(|equal| equal.iter().position(|entry| *entry == origin.entry));
        more.extend(number.map(|number| ("entry".to_owned(), (number + 1).to_string())));
        more
    }
}

/// Returns true if two documents have a row of the same metric, statistic and labels.
fn has_shared_row(rows: &[PlacedRow]) -> bool {
    let mut owners = BTreeMap::new();
    rows.iter().any(|PlacedRow { row, origin }| {
        let owner = (origin.file, origin.document);
        *owners.entry((&row.metric, &row.statistic, &row.labels)).or_insert(owner) != owner
    })
}

/// Returns true if two documents have samples with the same labels.
fn has_shared_sample(found: &Found) -> bool {
    let mut owners = BTreeMap::new();
    found.samples.keys().any(|(origin, labels)| {
        let owner = (origin.file, origin.document);
        *owners.entry(labels).or_insert(owner) != owner
    })
}

/// Returns the lines of the samples with their labels.
fn lines(found: &Found, entries: &Entries<'_>, paths: &[&str]) -> Result<Vec<u8>, ResultsError> {
    let paths = has_shared_sample(found).then_some(paths);
    let mut lines = Vec::new();
    for ((origin, labels), values) in &found.samples {
        let mut all = labels.clone();
        all.extend(entries.labels(*origin, labels, paths));
        let labels = json!(all).to_string();
        for values in values.split(|byte| *byte == b'\n').filter(|values| !values.is_empty()) {
            for part in [&b"{\"labels\":"[..], labels.as_bytes(), b",\"values\":", values, b"}\n"] {
                lines.extend_from_slice(part);
            }
            if lines.len() > MAX_SAMPLE_BYTES {
                return Err(too_many_samples());
            }
        }
    }
    Ok(lines)
}

fn repeated(rows: &[ForeignRow]) -> Option<&ForeignRow> {
    let mut seen = BTreeSet::new();
    rows.iter().find(|row| !seen.insert((&row.metric, &row.statistic, &row.labels)))
}
