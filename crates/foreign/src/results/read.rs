//! The reader of all formats.

use std::collections::BTreeMap;

use assay_manifest::{ForeignRow, NotRead};
use serde_json::Value;

use super::contradictions::Contradictions;
use super::credential;
use super::document::{Documents, MAX_DOCUMENT_BYTES, broken_json, too_large};
use super::error::ResultsError;
use super::format::{Form, Part, ResultFormat};
use super::left_out::{LeftOut, Uneven};
use super::not_read::{Leaves, shown};
use super::path::for_each as for_each_value;
use super::registry::RESULT_FORMATS;
use super::rows::{Found, Spot};
use super::tell_apart::tell_apart;

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
    /// The version of the format, if the format is one of several tools.
    pub format_version: Option<String>,
    /// The tool that measured, if the format is one of several tools and a file names it.
    pub tool: Option<String>,
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
    /// The remarks on these files, in words: figures that do not agree, and a version that is not known.
    pub remarks: Vec<String>,
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
    let mut format: Option<(&'static ResultFormat, &str)> = None;
    let mut reader = Reader::default();
    let mut parts = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let Some((found, part, content)) = recognise(file)? else { continue };
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
        reader.read(index, file, (found, part), content)?;
        parts.push(FilePart { file: index, part: part.name });
    }
    let unknown = || files.iter().find_map(|file| broken_json(file.path, file.bytes)).unwrap_or(ResultsError::Unknown);
    let (format, _) = format.ok_or_else(unknown)?;
    reader.finish(format, parts, files)
}

/// The content of a file: what was parsed to recognise it is not parsed again.
enum Content<'a> {
    Documents(Documents<'a>),
    /// The document that was made of a text.
    Text(Value),
}

type Recognised<'a> = (&'static ResultFormat, &'static Part, Content<'a>);

/// Returns the format and the kind of a file, by the shape of its content.
fn recognise<'a>(file: &ResultFile<'a>) -> Result<Option<Recognised<'a>>, ResultsError> {
    // Programs of Windows begin a text in UTF-8 with this mark.
    let bytes = file.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(file.bytes);
    let file = &ResultFile { path: file.path, bytes };
    let mut parts = RESULT_FORMATS.iter().flat_map(|format| format.parts.iter().map(move |part| (*format, part)));
    if let Some(documents) = Documents::open(file.path, file.bytes)? {
        let is_of = |part: &&'static Part| !matches!(part.form, Form::Text(_)) && (part.recognises)(documents.first());
        let found = parts.find(|(_, part)| is_of(part));
        return Ok(found.map(|(format, part)| (format, part, Content::Documents(documents))));
    }
    let is_large = file.bytes.len() > MAX_DOCUMENT_BYTES;
    let Ok(text) = std::str::from_utf8(if is_large { whole_lines(file.bytes) } else { file.bytes }) else { return Ok(None) };
    let found = parts.find_map(|(format, part)| {
        let Form::Text(parse) = part.form else { return None };
        let document = parse(text).filter(|document| (part.recognises)(document))?;
        Some((format, part, Content::Text(document)))
    });
    if is_large && found.is_some() { Err(too_large(file.path)) } else { Ok(found) }
}

/// Returns the lines at the beginning of a large file. They tell its format; the file is not read as a whole.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let head = bytes.get(..MAX_DOCUMENT_BYTES).unwrap_or(bytes);
    head.iter().rposition(|byte| *byte == b'\n').and_then(|end| head.get(..end)).unwrap_or_default()
}

/// The results that were read so far.
#[derive(Default)]
struct Reader {
    found: Found,
    /// The version of the format, the tool that measured, and its version.
    stated: [Option<String>; 3],
    contradictions: Contradictions,
    /// The values of each kind of file.
    leaves: BTreeMap<&'static str, (Option<&'static Part>, Leaves)>,
    left_out: LeftOut,
}

impl Reader {
    fn read(
        &mut self,
        index: usize,
        file: &ResultFile<'_>,
        kind: (&'static ResultFormat, &'static Part),
        content: Content<'_>,
    ) -> Result<(), ResultsError> {
        match content {
            Content::Documents(documents) => documents
                .for_each(file.path, |document, value| self.add(Spot { file: index, path: file.path, document }, kind, value)),
            Content::Text(document) => {
                let text = std::str::from_utf8(file.bytes).unwrap_or_default();
                if credential::find_in_text(text) {
                    return Err(ResultsError::Credential { file: file.path.to_owned(), field: "the text".to_owned() });
                }
                self.add(Spot { file: index, path: file.path, document: 1 }, kind, document)
            }
        }
    }

    fn add(
        &mut self,
        spot: Spot<'_>,
        (format, part): (&'static ResultFormat, &'static Part),
        mut document: Value,
    ) -> Result<(), ResultsError> {
        let file = || spot.path.to_owned();
        if let Some(field) = credential::find(&document) {
            return Err(ResultsError::Credential { file: file(), field: shown(&field) });
        }
        self.contradictions.check_document(spot, format.name, part.name, &document);
        if let Form::Prepared(prepare) = part.form {
            let uneven = |Uneven(first, second)| ResultsError::Uneven { file: file(), first, second };
            prepare(&mut document, &mut self.left_out).map_err(uneven)?;
        }
        self.found.read(spot, part, &document)?;
        let (known, leaves) = self.leaves.entry(part.name).or_default();
        *known = Some(part);
        leaves.add(&document);
        self.set_versions(part, &document)
    }

    fn set_versions(&mut self, part: &Part, document: &Value) -> Result<(), ResultsError> {
        const WHAT: [&str; 3] = ["versions of the format", "tools that measured", "versions of the tool"];
        for ((known, what), place) in self.stated.iter_mut().zip(WHAT).zip(part.version.places()) {
            let stated = place.and_then(|place| stated_at(place, document)).filter(|text| text.len() <= MAX_VERSION_BYTES);
            let Some(second) = stated else { continue };
            match known {
                Some(first) if *first != second => return Err(ResultsError::Versions { what, first: first.clone(), second }),
                _ => *known = Some(second),
            }
        }
        Ok(())
    }

    fn finish(
        mut self,
        format: &'static ResultFormat,
        parts: Vec<FilePart>,
        files: &[ResultFile<'_>],
    ) -> Result<Results, ResultsError> {
        let units = self.found.units.iter().map(|(metric, unit)| ((*metric).to_owned(), (*unit).to_owned())).collect();
        let sample_rows = self.found.sample_rows;
        if self.found.rows.is_empty() && sample_rows == 0 {
            let none = ResultsError::NoRows(format.tool);
            let only = |why| ResultsError::OnlyLeftOut { tool: format.tool, why };
            return Err(self.left_out.first_reason().map_or(none, only));
        }
        let mut not_read: Vec<NotRead> = self.left_out.not_read().collect();
        for (part, leaves) in self.leaves.values() {
            not_read.extend(part.map(|part| leaves.not_read(part)).unwrap_or_default());
        }
        not_read.sort();
        let paths: Vec<&str> = files.iter().map(|file| file.path).collect();
        self.contradictions.check_rows(&self.found, &paths);
        self.found.join_beside(&paths)?;
        let (rows, samples) = tell_apart(self.found, &paths)?;
        let mut remarks = self.contradictions.into_remarks();
        let unknown = format.parts.iter().find_map(|part| part.version.unknown(&self.stated));
        remarks.extend(unknown.map(|version| of_unknown_version(format, version)));
        let [format_version, tool, version] = self.stated;
        Ok(Results { format, format_version, tool, version, files: parts, rows, samples, sample_rows, units, not_read, remarks })
    }
}

/// Returns the remark about files whose version is not known, or which state that Assay exported them.
fn of_unknown_version(format: &ResultFormat, version: &str) -> String {
    let (tool, known) = (format.tool, format.versions);
    if let Some(assay) = version.strip_prefix(EXPORTED) {
        let assay = assay.escape_debug();
        return format!(
            "the files state that Assay {assay} exported them from a run, and {tool} did not make them: the run itself has the evidence"
        );
    }
    let version = version.escape_debug();
    format!("the files are of version {version} of {tool}, and what is read is that of version {known}: definitions may differ")
}

/// The beginning of the version in a file that `assay export` wrote, before the version of Assay.
const EXPORTED: &str = "assay-";

/// The longest text that is taken for a version or the name of a tool, in bytes.
const MAX_VERSION_BYTES: usize = 100;

/// Returns the first scalar at a path of a document, as a text.
fn stated_at(place: &str, document: &Value) -> Option<String> {
    let mut stated = None;
    let visited: Result<(), std::convert::Infallible> = for_each_value(place, &mut vec![document], &mut |ancestors| {
        stated = stated.take().or_else(|| crate::value::text(ancestors.last()?));
        Ok(())
    });
    let Ok(()) = visited;
    stated
}
