//! The files of an export, written one after the other: neither the records of a run nor its files are in memory together.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write};
use std::path::Path;

use assay_record::Record;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::error::ExportError;
use crate::run::ExportedTrial;

/// The place that gets the files of an export.
pub trait ExportSink {
    /// Creates a file at a path within the folder, and calls `content` once, which writes it.
    ///
    /// # Errors
    /// Fails if the file cannot be created or written.
    fn write(&mut self, path: &Path, content: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()>;
}

/// Returns the records of the measured requests of a trial, in the order of their schedule.
pub type LoadRequests<'a> = dyn Fn(&ExportedTrial) -> Result<Vec<Record>, Box<dyn Error + Send + Sync>> + 'a;

/// The export that is being written.
pub(crate) struct Output<'a> {
    load: &'a LoadRequests<'a>,
    sink: &'a mut dyn ExportSink,
    /// The parts of the run, or of the format's fields, that the files lack, each with the reason.
    pub(crate) remarks: Vec<String>,
}

impl<'a> Output<'a> {
    pub(crate) fn new(load: &'a LoadRequests<'a>, sink: &'a mut dyn ExportSink, remarks: Vec<String>) -> Self {
        Self { load, sink, remarks }
    }

    /// Returns the records of a trial: those that it holds, or else loaded ones.
    pub(crate) fn requests<'t>(&self, trial: &'t ExportedTrial) -> Result<Cow<'t, [Record]>, ExportError> {
        if trial.requests.is_empty() {
            (self.load)(trial).map(Cow::Owned).map_err(ExportError::Requests)
        } else {
            Ok(Cow::Borrowed(&trial.requests))
        }
    }

    /// Writes a file with this text.
    pub(crate) fn text(&mut self, path: &str, text: impl AsRef<[u8]>) -> Result<(), ExportError> {
        self.file(path, &mut |file| file.write_all(text.as_ref()))
    }

    /// Writes a file with one JSON document, indented.
    pub(crate) fn json(&mut self, path: &str, document: &impl Serialize) -> Result<(), ExportError> {
        self.file(path, &mut |file| {
            serde_json::to_writer_pretty(&mut *file, document)?;
            file.write_all(b"\n")
        })
    }

    /// Writes a file with one JSON document on each line; one document at a time is in memory.
    pub(crate) fn json_lines(&mut self, path: &str, documents: impl IntoIterator<Item = Value>) -> Result<(), ExportError> {
        let mut documents = documents.into_iter();
        self.file(path, &mut |file| {
            documents.by_ref().try_for_each(|document| {
                serde_json::to_writer(&mut *file, &document)?;
                file.write_all(b"\n")
            })
        })
    }

    fn file(&mut self, path: &str, content: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> Result<(), ExportError> {
        self.sink.write(Path::new(path), content).map_err(|error| ExportError::Write { file: path.into(), error })
    }
}

/// A part of a JSON document that is made while it is written.
pub(crate) enum Part<'a> {
    /// A small part.
    Value(Value),
    /// The members of an object.
    Object(BTreeMap<String, Part<'a>>),
    /// The elements of a list, of which one at a time is in memory.
    List(Box<dyn Fn() -> Box<dyn Iterator<Item = Value> + 'a> + 'a>),
    /// A list of parts.
    Parts(Vec<Part<'a>>),
}

impl<'a> Part<'a> {
    /// Returns a list with an element for each item.
    pub(crate) fn list<T>(items: &'a [T], element: impl Fn(&'a T) -> Value + Copy + 'a) -> Self {
        Self::List(Box::new(move || Box::new(items.iter().map(element))))
    }

    /// Returns an object of small parts.
    pub(crate) fn members(document: Value) -> BTreeMap<String, Part<'a>> {
        match document {
            Value::Object(members) => members.into_iter().map(|(name, value)| (name, Self::Value(value))).collect(),
            _ => BTreeMap::new(),
        }
    }
}

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(value) => value.serialize(serializer),
            Self::Object(members) => serializer.collect_map(members),
            Self::List(elements) => serializer.collect_seq(elements()),
            Self::Parts(parts) => serializer.collect_seq(parts),
        }
    }
}

/// The files of an export in memory.
#[cfg(test)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Export {
    pub(crate) files: Vec<ExportedFile>,
    pub(crate) remarks: Vec<String>,
}

/// A file of an export in memory.
#[cfg(test)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExportedFile {
    pub(crate) path: std::path::PathBuf,
    pub(crate) bytes: Vec<u8>,
}

#[cfg(test)]
impl ExportSink for Vec<ExportedFile> {
    fn write(&mut self, path: &Path, content: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        let mut bytes = Vec::new();
        content(&mut bytes)?;
        self.push(ExportedFile { path: path.to_owned(), bytes });
        Ok(())
    }
}
