//! Definitions that are imported in memory from the file of another tool, which runs as it is.

use std::collections::BTreeMap;
use std::convert::Infallible;

use assay_foreign::{Format, Import, ImportError, ImportOptions, Outcome, Row, Source, import, recognise};
use assay_git::FileContent;
use assay_manifest::is_plain_path;
use assay_spec::{API_VERSION, ClosureError, expand, parse_documents, read_closure};

use super::definitions::{Files, ImportedOriginal, ReadDefinitions};
use crate::{Error, ImportFault, Result};

/// Imports the definitions of a file; `None` if no format of other tools recognises it. Nothing is left out silently: a refused field refuses
/// the file.
pub(super) fn import_definitions(path: &str, original: &FileContent) -> Option<Result<ReadDefinitions>> {
    if let Some(reason) = why_unreadable(path, &original.bytes) {
        let fault = ImportFault::Unreadable(reason);
        return Some(Err(Error::Import { path: path.to_owned(), title: "no definition of Assay", fault }));
    }
    let format = recognise_foreign(path, &original.bytes)?;
    let refuse = |fault| Error::Import { path: path.to_owned(), title: format.title, fault };
    Some(read_imported(path, original).unwrap_or_else(|fault| Err(refuse(fault))))
}

/// Texts of the definitions of other tools, by which a file that cannot be parsed is taken for one.
const FOREIGN_MARKS: [&str; 2] = ["ome.io/", "BenchmarkJob"];

/// Returns why a file that looks like the definition of another tool cannot be parsed; `None` if it can, or looks like none. The reason quotes nothing of
/// the file: such definitions hold credentials.
fn why_unreadable(path: &str, bytes: &[u8]) -> Option<String> {
    let has = |mark: &str| bytes.windows(mark.len()).any(|window| window == mark.as_bytes());
    if !FOREIGN_MARKS.into_iter().any(has) {
        return None;
    }
    parse_documents(path, bytes).err().map(|problems| ImportError::Syntax(problems).to_string())
}

/// Returns the format of a file that has no document of Assay.
fn recognise_foreign(path: &str, bytes: &[u8]) -> Option<&'static Format> {
    // A text that is neither YAML nor JSON has no documents.
    let documents = parse_documents(path, bytes).unwrap_or_default();
    let (group, _) = API_VERSION.split_once('/').unwrap_or((API_VERSION, ""));
    let is_own = |version: &str| version.split('/').next() == Some(group);
    let mut versions = documents.iter().filter_map(|document| document.get("apiVersion")?.as_str());
    if versions.any(is_own) { None } else { recognise(&Source::File { name: path, bytes }) }
}

fn read_imported(path: &str, original: &FileContent) -> Result<Result<ReadDefinitions>, ImportFault> {
    if !is_plain_path(path) {
        return Err(ImportFault::PathNotPlain);
    }
    let source = Source::File { name: path, bytes: &original.bytes };
    let options = ImportOptions { runs_as_it_is: true, ..ImportOptions::default() };
    let import = import(&source, &options).map_err(|error| ImportFault::Unreadable(error.to_string()))?;
    if let Some(place) = import.credentials.first() {
        return Err(ImportFault::Credential(place.clone()));
    }
    let refused: Vec<String> = import.rows.iter().filter(|row| row.outcome == Outcome::Refused).map(describe_row).collect();
    if !refused.is_empty() {
        return Err(ImportFault::Refused { fields: refused, has_rest: !import.files.is_empty() });
    }
    let [pipeline] = import.pipelines.as_slice() else {
        let pipelines = import.pipelines.iter().map(|pipeline| (pipeline.document, pipeline.path.clone()));
        return Err(ImportFault::SeveralPipelines(pipelines.collect()));
    };
    if import.files.iter().any(|file| file.path == path) {
        return Err(ImportFault::PathTaken(path.to_owned()));
    }
    let pipeline = pipeline.path.clone();
    Ok(close(pipeline, path, original, import))
}

/// Reads the closure of imported definitions. The original is one more file.
fn close(pipeline: String, path: &str, original: &FileContent, import: Import) -> Result<ReadDefinitions> {
    let content = |text: &str| FileContent { bytes: text.as_bytes().to_vec(), executable: false };
    let mut files: Files = import.files.iter().map(|file| (file.path.clone(), content(&file.text))).collect();
    let texts: BTreeMap<&str, &str> = import.files.iter().map(|file| (file.path.as_str(), file.text.as_str())).collect();
    let mut read = |path: &str| Ok::<_, Infallible>(texts.get(path).map(|text| text.as_bytes().to_vec()));
    let closure = match read_closure(&pipeline, &mut read) {
        Ok(closure) => closure,
        Err(ClosureError::Problems(problems)) => return Err(Error::Definitions(problems)),
        Err(ClosureError::Read { cause, .. }) => match cause {},
    };
    expand(&closure.pipeline, &closure.workloads).map_err(Error::Definitions)?;
    files.insert(path.to_owned(), original.clone());
    let import = Some(ImportedOriginal { file: path.to_owned(), import });
    Ok(ReadDefinitions { pipeline, closure, files, import })
}

/// Describes a refused field and its remedy.
fn describe_row(row: &Row) -> String {
    let document = if row.document > 1 { format!("document {}: ", row.document) } else { String::new() };
    format!("{document}`{}`: {}", row.field, row.note.as_deref().unwrap_or("refused"))
}
