//! The reader of all formats.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{ForeignRow, NotRead};
use serde_json::Value;

use super::credential;
use super::document::{first, for_each};
use super::error::ResultsError;
use super::format::{Form, Part, ResultFormat};
use super::not_read::{Leaves, shown};
use super::path::for_each as for_each_value;
use super::registry::RESULT_FORMATS;
use super::rows::{Found, PlacedRow, Spot};

/// The most files that are read together.
pub const MAX_RESULT_FILES: usize = 1_000;
/// The most bytes of one file, and of all files together.
pub const MAX_RESULT_BYTES: u64 = 512 << 20;

/// A file of another tool.
#[derive(Clone, Copy, Debug)]
pub struct ResultFile<'a> {
    /// Its path, relative to the folder that is imported. It is shown, and decides nothing but the label `folder` of formats that have one.
    pub path: &'a str,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// A file of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilePart {
    /// Its place among the files.
    pub file: usize,
    /// The kind of file that it is.
    pub part: &'static str,
}

/// The results that files state.
#[derive(Clone, Debug)]
pub struct Results {
    /// The format.
    pub format: &'static ResultFormat,
    /// The version of the tool, if a file states it.
    pub version: Option<String>,
    /// The files of the format. The others were not read.
    pub files: Vec<FilePart>,
    /// The numbers.
    pub rows: Vec<ForeignRow>,
    /// The rows of single requests or iterations: one JSON document a line, with `labels` and `values` by metric. Empty without any.
    pub samples: Vec<u8>,
    /// The number of rows of single requests or iterations.
    pub sample_rows: u64,
    /// The unit of each metric of them.
    pub units: BTreeMap<String, String>,
    /// The fields that were not read.
    pub not_read: Vec<NotRead>,
}

/// Reads the results that files of one tool state. Files of no known format are left out; [`Results::files`] has the others.
///
/// # Errors
/// Fails if no file is of a known format, if files are of two tools or versions, and if a file of the format is damaged, larger than a limit,
/// states a number that is none, or may hold a credential.
pub fn read_results(files: &[ResultFile<'_>]) -> Result<Results, ResultsError> {
    let total: u64 = files.iter().map(|file| file.bytes.len() as u64).sum();
    if files.len() > MAX_RESULT_FILES || total > MAX_RESULT_BYTES {
        return Err(ResultsError::TooLarge(format!("{MAX_RESULT_FILES} files, or {} MiB together", MAX_RESULT_BYTES >> 20)));
    }
    let (format, recognised) = recognise_files(files)?;
    let mut reader = Reader::default();
    for (index, part) in &recognised {
        if let Some(file) = files.get(*index) {
            reader.read(*index, file, part)?;
        }
    }
    let parts = recognised.iter().map(|(file, part)| FilePart { file: *file, part: part.name }).collect();
    reader.finish(format, parts, files)
}

type Recognised = (&'static ResultFormat, Vec<(usize, &'static Part)>);

fn recognise_files(files: &[ResultFile<'_>]) -> Result<Recognised, ResultsError> {
    let mut format: Option<(&'static ResultFormat, &str)> = None;
    let mut parts = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let Some((found, part)) = recognise(file.bytes) else { continue };
        match format {
            Some((known, first)) if known.name != found.name => {
                return Err(ResultsError::Mixed {
                    first: first.to_owned(),
                    one: known.tool,
                    second: file.path.to_owned(),
                    other: found.tool,
                });
            }
            _ => format = Some((found, file.path)),
        }
        parts.push((index, part));
    }
    format.map(|(format, _)| (format, parts)).ok_or(ResultsError::Unknown)
}

/// Returns the format and the kind of a file, by the shape of its content.
fn recognise(bytes: &[u8]) -> Option<(&'static ResultFormat, &'static Part)> {
    let document = first(bytes);
    let text = if document.is_some() { None } else { std::str::from_utf8(bytes).ok() };
    let is_of = |part: &&'static Part| match (part.form, &document, text) {
        (Form::Json, Some(document), _) => (part.recognises)(document),
        (Form::Text(parse), None, Some(text)) => parse(text).is_some_and(|document| (part.recognises)(&document)),
        _ => false,
    };
    RESULT_FORMATS.iter().find_map(|format| format.parts.iter().find(is_of).map(|part| (*format, part)))
}

/// The results that were read so far.
#[derive(Default)]
struct Reader {
    found: Found,
    version: Option<String>,
    /// The values of each kind of file.
    leaves: BTreeMap<&'static str, (Option<&'static Part>, Leaves)>,
}

impl Reader {
    fn read(&mut self, index: usize, file: &ResultFile<'_>, part: &'static Part) -> Result<(), ResultsError> {
        match part.form {
            Form::Json => for_each(file.path, file.bytes, |number, document| self.add(index, file, part, number, document)),
            Form::Text(parse) => {
                let text = std::str::from_utf8(file.bytes).unwrap_or_default();
                if credential::find_in_text(text) {
                    return Err(ResultsError::Credential { file: file.path.to_owned(), field: "the text".to_owned() });
                }
                parse(text).map_or(Ok(()), |document| self.add(index, file, part, 1, &document))
            }
        }
    }

    fn add(
        &mut self,
        index: usize,
        file: &ResultFile<'_>,
        part: &'static Part,
        number: u64,
        document: &Value,
    ) -> Result<(), ResultsError> {
        if let Some(field) = credential::find(document) {
            return Err(ResultsError::Credential { file: file.path.to_owned(), field: shown(&field) });
        }
        self.found.read(Spot { file: index, path: file.path, document: number }, part, document)?;
        let (known, leaves) = self.leaves.entry(part.name).or_default();
        *known = Some(part);
        leaves.add(document);
        self.set_version(part, document)
    }

    fn set_version(&mut self, part: &Part, document: &Value) -> Result<(), ResultsError> {
        let place = Some(part.version).filter(|place| !place.is_empty());
        let mut stated = None;
        if let Some(place) = place {
            for_each_value(place, &mut vec![document], &mut |ancestors| {
                stated = stated.take().or_else(|| crate::value::text(ancestors.last()?));
                Ok::<(), ResultsError>(())
            })?;
        }
        let Some(stated) = stated.filter(|text| text.len() <= 100) else { return Ok(()) };
        match &self.version {
            Some(known) if *known != stated => Err(ResultsError::Versions(known.clone(), stated)),
            _ => {
                self.version = Some(stated);
                Ok(())
            }
        }
    }

    fn finish(
        self,
        format: &'static ResultFormat,
        parts: Vec<FilePart>,
        files: &[ResultFile<'_>],
    ) -> Result<Results, ResultsError> {
        let Found { rows, samples, sample_rows, units } = self.found;
        let units = units.into_iter().map(|(metric, unit)| (metric.to_owned(), unit.to_owned())).collect();
        if rows.is_empty() && sample_rows == 0 {
            return Err(ResultsError::NoRows(format.tool));
        }
        let mut not_read: Vec<NotRead> = Vec::new();
        for (part, leaves) in self.leaves.values() {
            not_read.extend(part.map(|part| leaves.not_read(part)).unwrap_or_default());
        }
        not_read.sort();
        let rows = told_apart(rows, files)?;
        Ok(Results { format, version: self.version, files: parts, rows, samples, sample_rows, units, not_read })
    }
}

/// Returns the rows. If the labels of the format do not tell all of them apart, each gets its file and the number of its document as well.
fn told_apart(rows: Vec<PlacedRow>, files: &[ResultFile<'_>]) -> Result<Vec<ForeignRow>, ResultsError> {
    if repeated(&rows).is_none() {
        return Ok(rows.into_iter().map(|placed| placed.row).collect());
    }
    let with_place = |placed: PlacedRow| {
        let PlacedRow { mut row, file, document } = placed;
        let path = files.get(file).map(|file| file.path.to_owned()).unwrap_or_default();
        row.labels.insert("file".to_owned(), path);
        row.labels.insert("document".to_owned(), document.to_string());
        PlacedRow { row, file, document }
    };
    let rows: Vec<PlacedRow> = rows.into_iter().map(with_place).collect();
    match repeated(&rows) {
        Some(row) => Err(ResultsError::Twice { metric: row.metric.clone(), statistic: row.statistic.clone() }),
        None => Ok(rows.into_iter().map(|placed| placed.row).collect()),
    }
}

fn repeated(rows: &[PlacedRow]) -> Option<&ForeignRow> {
    let mut seen = BTreeSet::new();
    rows.iter().map(|placed| &placed.row).find(|row| !seen.insert((&row.metric, &row.statistic, &row.labels)))
}
