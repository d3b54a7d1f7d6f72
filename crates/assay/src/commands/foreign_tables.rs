//! The tables of foreign evidence for a query: rows made from the signed documents of a store.

use assay_import::{SignedForeignEvidence, for_each_sample};
use assay_manifest::{ForeignEvidence, InputRef, canonical_json};
use assay_query::{OpenedFiles, Query, rows_file};
use assay_report::counted;
use assay_stage::{ErrorCode, Exit, Failure};
use assay_store::{Scratch, Store};
use assay_verify::{StoreBlobs, lake_failure};
use assay_warehouse::{FOREIGN_EVIDENCE_DIM, FOREIGN_OUTCOME_FACT, FOREIGN_SAMPLE_FACT, Row, Table, Value};

use crate::commands::foreign_evidence::put_back;
use crate::commands::signed_evidence::{SignedEvidence, of_evidence, report_unknown_signers};
use crate::output;

/// The most rows that a query makes of all foreign evidence: they are in memory until they are written.
const MAX_ROWS: usize = 5_000_000;

/// The tables of foreign evidence that a query reads.
pub(crate) struct ForeignTables {
    files: OpenedFiles,
    /// The number of pieces of evidence that are in them.
    read: usize,
    /// True if a trust policy names each signer.
    established: bool,
    /// Evidence that is left out, by its digest, with the reason.
    left_out: Vec<(InputRef, Failure)>,
    /// The names of the evidence whose samples are absent.
    without_samples: Vec<String>,
}

impl ForeignTables {
    /// Verifies the signatures of all foreign evidence of a store, and makes the tables that a query reads. Evidence of an unknown signer is
    /// left out, unless `strict` refuses it.
    ///
    /// # Errors
    /// Fails if a signature does not verify or a pointer is damaged, and if there are too many rows.
    pub(crate) fn open(store: &Store, trust: &[String], query: &Query, strict: bool, scratch: &Scratch) -> Result<Self, Failure> {
        let SignedEvidence { all, left_out } = SignedEvidence::read(store, trust, strict)?;
        let blobs = StoreBlobs::new(store.clone());
        let mut rows = Rows::default();
        for (reference, signed) in &all {
            rows.add(&blobs, query, reference, signed).map_err(|failure| of_evidence(reference, failure))?;
        }
        if let Some(name) = rows.without_samples.first().filter(|_| strict) {
            let message = format!("the samples of foreign evidence `{name}` are not in the store `{}`", store.uri());
            return Err(Failure::new(ErrorCode::ArtifactAbsent, message).hint(put_back(name)));
        }
        let established = all.iter().all(|(_, signed)| signed.established);
        let Rows { evidence, outcomes, samples, without_samples, .. } = rows;
        let of_table = [(&FOREIGN_EVIDENCE_DIM, evidence), (&FOREIGN_OUTCOME_FACT, outcomes), (&FOREIGN_SAMPLE_FACT, samples)];
        let mut files = OpenedFiles::new();
        for (table, rows) in of_table.into_iter().filter(|(table, _)| query.reads_foreign(table)) {
            let file = rows_file(table, rows, scratch).map_err(|error| lake_failure(error, Exit::Usage))?;
            files.insert(table.name, vec![file]);
        }
        Ok(Self { files, read: all.len(), established, left_out, without_samples })
    }

    /// Takes the files of the tables.
    pub(crate) fn take_files(&mut self) -> OpenedFiles {
        std::mem::take(&mut self.files)
    }

    /// Reports on stderr which evidence was read, and which was not.
    pub(crate) fn report(&self) -> Exit {
        report_unknown_signers(&self.left_out);
        for name in &self.without_samples {
            output::diagnostic(format!(
                "absent: the samples of foreign evidence `{name}` are not in this store, and not in the result"
            ));
        }
        let read = counted(self.read as u64, "piece");
        output::diagnostic(format!(
            "foreign: {read} of foreign evidence with a valid signature; Assay measured none of it, and `assay verify` reads its files again"
        ));
        output::established(self.established)
    }
}

/// The rows of the tables that a query reads.
#[derive(Default)]
struct Rows {
    evidence: Vec<Row>,
    outcomes: Vec<Row>,
    samples: Vec<Row>,
    without_samples: Vec<String>,
    made: usize,
}

impl Rows {
    fn add(
        &mut self,
        blobs: &StoreBlobs,
        query: &Query,
        reference: &InputRef,
        signed: &SignedForeignEvidence,
    ) -> Result<(), Failure> {
        let id = reference.manifest.to_string();
        let body = &signed.manifest.body;
        if query.reads_foreign(&FOREIGN_EVIDENCE_DIM) {
            self.count(1)?;
            self.evidence.push(evidence_row(&id, signed)?);
        }
        if query.reads_foreign(&FOREIGN_OUTCOME_FACT) {
            self.count(body.rows.len())?;
            for row in &body.rows {
                let cells = [
                    ("labels", labels_text(&row.labels)?),
                    ("metric", row.metric.clone()),
                    ("unit", row.unit.clone()),
                    ("statistic", row.statistic.clone()),
                ];
                self.outcomes.push(number_row(&FOREIGN_OUTCOME_FACT, &id, cells, row.value)?.seal().map_err(no_row)?);
            }
        }
        if query.reads_foreign(&FOREIGN_SAMPLE_FACT) && !self.add_samples(blobs, &id, body)? {
            self.without_samples.push(signed.manifest.header.run_id.to_string());
        }
        Ok(())
    }

    /// Adds the samples; returns false if they are absent.
    fn add_samples(&mut self, blobs: &StoreBlobs, id: &str, body: &ForeignEvidence) -> Result<bool, Failure> {
        let Some(samples) = &body.samples else { return Ok(true) };
        let mut number: i64 = 0;
        for_each_sample(blobs, body, |labels, values| {
            let labels = labels_text(labels)?;
            for (metric, value) in values {
                let unit = samples.units.get(metric).cloned().unwrap_or_default();
                let list = value.as_array().map_or_else(|| std::slice::from_ref(value), Vec::as_slice);
                self.count(list.len())?;
                for (place, value) in list.iter().enumerate().filter_map(|(place, value)| Some((place, value.as_f64()?))) {
                    let cells = [("labels", labels.clone()), ("metric", metric.clone()), ("unit", unit.clone())];
                    let row = number_row(&FOREIGN_SAMPLE_FACT, id, cells, value)?;
                    let row = row.with("sample", number).and_then(|row| row.with("place", Value::from_count(place as u64)));
                    self.samples.push(row.and_then(Row::seal).map_err(no_row)?);
                }
            }
            number += 1;
            Ok(())
        })
    }

    fn count(&mut self, rows: usize) -> Result<(), Failure> {
        self.made += rows;
        if self.made <= MAX_ROWS {
            return Ok(());
        }
        Err(Failure::new(ErrorCode::QueryTooLarge, format!("the foreign evidence of this store has more than {MAX_ROWS} rows"))
            .hint("keep evidence with many samples in a store of its own"))
    }
}

fn evidence_row(id: &str, signed: &SignedForeignEvidence) -> Result<Row, Failure> {
    let body = &signed.manifest.body;
    let count = |number: usize| Value::from_count(number as u64);
    let cells: [(&str, Value); 15] = [
        ("evidence_id", id.into()),
        ("name", signed.manifest.header.run_id.as_str().into()),
        ("format", body.format.as_str().into()),
        ("format_version", body.format_version.as_deref().into()),
        ("tool", body.tool.as_deref().into()),
        ("tool_version", body.tool_version.as_deref().into()),
        ("imported_at_ns", body.imported_at.into()),
        ("importer_version", body.importer.version.as_str().into()),
        ("signer", signed.signer.as_str().into()),
        ("files", count(body.files.len())),
        ("numbers", count(body.rows.len())),
        ("samples", Value::from_count(body.samples.as_ref().map_or(0, |samples| samples.rows.0))),
        ("not_read", Value::from_count(body.not_read.iter().map(|fields| fields.count.0).sum())),
        ("remarks", count(body.remarks.len())),
        ("grade", "foreign".into()),
    ];
    let row = cells.into_iter().try_fold(Row::new(&FOREIGN_EVIDENCE_DIM), |row, (column, value)| row.with(column, value));
    row.and_then(Row::seal).map_err(no_row)
}

fn number_row<const N: usize>(table: &'static Table, id: &str, cells: [(&str, String); N], value: f64) -> Result<Row, Failure> {
    let row = Row::new(table)
        .with("evidence_id", id)
        .and_then(|row| row.with("grade", "foreign"))
        .and_then(|row| row.with("value", value));
    cells.into_iter().try_fold(row.map_err(no_row)?, |row, (column, text)| row.with(column, text).map_err(no_row))
}

fn labels_text(labels: &impl serde::Serialize) -> Result<String, Failure> {
    let bytes = canonical_json(labels).map_err(no_row)?;
    String::from_utf8(bytes).map_err(no_row)
}

fn no_row(error: impl std::error::Error + 'static) -> Failure {
    Failure::new(ErrorCode::ForeignEvidence, "a number of it has no row").because(&error)
}
