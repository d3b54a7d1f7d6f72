//! A format that runs are exported in, as a table of its fields.

use crate::error::ExportError;
use crate::output::{ExportSink, LoadRequests, Output};
use crate::run::ExportedRun;

/// A format that runs are exported in.
#[derive(Debug)]
pub struct ExportFormat {
    /// Its short name, such as `vllm`.
    pub name: &'static str,
    /// The tool, as its authors spell it.
    pub tool: &'static str,
    /// The version of the format, and the source of that knowledge.
    pub version: &'static str,
    /// The files, for people.
    pub files: &'static str,
    /// The loads that it holds, for people.
    pub loads: &'static str,
    /// The evidence that it is made from.
    pub needs: Needs,
    /// Its fields: those that are written and those that are left out.
    pub fields: &'static [ExportField],
    /// Makes the files.
    pub(crate) write: fn(&ExportedRun, &mut Output<'_>) -> Result<(), ExportError>,
}

impl ExportFormat {
    /// Writes the files of a run, one after the other. `load` returns the records of a trial; those of one trial or, if the files of a format have
    /// several trials each, of one file are in memory at a time. Returns the parts of the run, or of the format's fields, that the files lack, each
    /// with the reason.
    ///
    /// # Errors
    /// Fails if the run has nothing that the format holds, and if records cannot be loaded or a file cannot be written.
    pub fn write(
        &self,
        run: &ExportedRun,
        load: &LoadRequests<'_>,
        sink: &mut dyn ExportSink,
    ) -> Result<Vec<String>, ExportError> {
        let mut output = Output::new(load, sink, run.uncounted());
        (self.write)(run, &mut output)?;
        Ok(output.remarks)
    }

    /// Returns the fields that are left out, with the reasons.
    pub fn left_out(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.fields.iter().filter_map(|field| match field.content {
            Content::LeftOut(why) => Some((field.field, why)),
            Content::Same(_) | Content::Differs(..) | Content::Empty(..) => None,
        })
    }

    /// Returns the fields that are there without content, with the reasons.
    pub fn empty(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.fields.iter().filter_map(|field| match field.content {
            Content::Empty(_, why) => Some((field.field, why)),
            Content::Same(_) | Content::Differs(..) | Content::LeftOut(_) => None,
        })
    }

    /// Returns the fields that are written with a difference to the tool: field and difference.
    pub fn differing(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.fields.iter().filter_map(|field| match field.content {
            Content::Differs(_, how) => Some((field.field, how)),
            Content::Same(_) | Content::Empty(..) | Content::LeftOut(_) => None,
        })
    }
}

/// The evidence that a format is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// The signed manifests of a run; a published folder has them.
    Manifests,
    /// The records of requests, too, which are in the store alone.
    Records,
    /// The scripts and their outputs, too, which are in the store alone.
    Outputs,
}

/// A field of a format.
#[derive(Clone, Copy, Debug)]
pub struct ExportField {
    /// Its path: names separated by `.`, `[]` after a list, `{}` for any name or part of one.
    pub field: &'static str,
    /// Its content.
    pub content: Content,
}

/// The content of a field.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// It is written by the definition of the tool, from this.
    Same(&'static str),
    /// It is written from this, which differs from the tool in this way.
    Differs(&'static str, &'static str),
    /// It has no content but this, such as `null`, for this reason: the tool refuses a file without the field.
    Empty(&'static str, &'static str),
    /// It is left out, for this reason.
    LeftOut(&'static str),
}

/// Returns a field that is written by the definition of the tool.
pub(crate) const fn same(field: &'static str, from: &'static str) -> ExportField {
    ExportField { field, content: Content::Same(from) }
}

/// Returns a field that is written with a difference.
pub(crate) const fn differs(field: &'static str, from: &'static str, how: &'static str) -> ExportField {
    ExportField { field, content: Content::Differs(from, how) }
}

/// Returns a field that the tool demands and that has no content but this.
pub(crate) const fn empty(field: &'static str, content: &'static str, why: &'static str) -> ExportField {
    ExportField { field, content: Content::Empty(content, why) }
}

/// Returns a field that is left out.
pub(crate) const fn left_out(field: &'static str, why: &'static str) -> ExportField {
    ExportField { field, content: Content::LeftOut(why) }
}
