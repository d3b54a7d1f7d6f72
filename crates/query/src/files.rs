//! The files that a query reads: hashed and checked before any parser reads their rows.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_schema::{Field, FieldRef, Schema, SchemaRef};
use assay_manifest::{CuratedFile, Digest};
use assay_store::{Scratch, ScratchFile, Store};
use assay_warehouse::{Column, Row, Table, check_pages, table, write};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};

use crate::error::panic_text;
use crate::{Error, Query};

/// Files by table, in private scratch.
pub type OpenedFiles = BTreeMap<&'static str, Vec<(Digest, ScratchFile)>>;

/// Opens the files of a run, or of several, directly from the store's blobs: those of the tables that `query` reads.
///
/// # Errors
/// Fails if a blob is absent, corrupt or no file of its table, or if there is no such table.
pub fn open_files(store: &Store, files: &[CuratedFile], query: &Query, scratch: &Scratch) -> crate::Result<OpenedFiles> {
    let mut opened: OpenedFiles = query.tables().map(|table| (table.name, Vec::new())).collect();
    for file in files {
        let table = table(&file.table).ok_or_else(|| Error::NoTable(file.table.chars().take(80).collect()))?;
        let Some(of_table) = opened.get_mut(table.name) else { continue };
        let digest = file.artifact.digest;
        let blob = store.materialise(&digest, scratch)?;
        check_file(table, &blob).map_err(|problem| Error::BadFile { table: file.table.clone(), digest, problem })?;
        of_table.push((digest, blob));
    }
    sort_files(&mut opened);
    Ok(opened)
}

/// Writes rows to a file for a query, as if they came from a curated file of their table.
///
/// # Errors
/// Fails if the rows are not of the table, and if there is no room for them.
pub fn rows_file(
    table: &'static Table,
    rows: impl IntoIterator<Item = Row>,
    scratch: &Scratch,
) -> crate::Result<(Digest, ScratchFile)> {
    let mut bytes = Vec::new();
    write(table, rows, &mut bytes).map_err(|error| Error::Write(Box::new(error)))?;
    // A store in memory hashes the bytes on their way to scratch, like any other.
    let store = Store::open("memory:")?;
    let digest = store.put(&bytes)?;
    Ok((digest, store.materialise(&digest, scratch)?))
}

/// Puts a table's files in the order of their digests, each once: a result does not depend on the order of commits.
pub fn sort_files(opened: &mut OpenedFiles) {
    for files in opened.values_mut() {
        files.sort_by_key(|(digest, _)| *digest);
        files.dedup_by_key(|(digest, _)| *digest);
    }
}

/// Returns the Arrow schema of a table, with names and types only.
pub fn plain_schema(table: &Table) -> SchemaRef {
    let field = |column: &Column| Field::new(column.name, column.kind.arrow(), column.nullable);
    Schema::new(table.columns().map(field).collect::<Vec<_>>()).into()
}

/// Checks a file's footer and the headers of its pages. Returns the number of its rows, or the reason why it is no file of the
/// table.
pub fn check_file(table: &Table, file: &ScratchFile) -> Result<u64, String> {
    let look = AssertUnwindSafe(|| {
        let file = file.open().map_err(|error| error.to_string())?;
        // The Arrow schema that the writer embeds would be one more thing to check.
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let footer = ArrowReaderMetadata::load(&file, options).map_err(|error| error.to_string())?;
        check_pages(&file, footer.metadata()).map_err(|error| error.to_string())?;
        Ok(footer)
    });
    let footer = catch_unwind(look).unwrap_or_else(|panic| Err(panic_text(&*panic)))?;
    difference(&plain_schema(table), footer.schema()).map_or(Ok(()), Err)?;
    u64::try_from(footer.metadata().file_metadata().num_rows()).map_err(|_| "it has less than no rows".to_owned())
}

fn difference(expected: &Schema, found: &Schema) -> Option<String> {
    let short = |field: &FieldRef| field.name().chars().take(80).collect::<String>();
    let mut found = found.fields().iter().peekable();
    for expected in expected.fields() {
        let Some(field) = found.next_if(|field| field.name() == expected.name()) else {
            match found.peek() {
                // A column that was added to the table later.
                _ if expected.is_nullable() => continue,
                Some(other) => return Some(format!("column `{}` is not what the table has there", short(other))),
                None => return Some(format!("column `{}` is missing", expected.name())),
            }
        };
        if field.data_type() != expected.data_type() || field.is_nullable() != expected.is_nullable() {
            return Some(format!("column `{}` is not what the table has there", short(field)));
        }
    }
    found.next().map(|field| format!("column `{}` is one too many", field.name().chars().take(80).collect::<String>()))
}
