//! A format of results, as a table: its files, and the metric of each of their fields.

use serde_json::Value;

use super::left_out::{LeftOut, Uneven};

/// A format of results that can be imported.
#[derive(Debug)]
pub struct ResultFormat {
    /// Its short name, such as `aiperf`, which is also the prefix of its metrics.
    pub name: &'static str,
    /// The tool, as its authors spell it.
    pub tool: &'static str,
    /// The versions whose files are known, and the source of that knowledge.
    pub versions: &'static str,
    /// The properties by which its files are recognised, for people.
    pub recognised_by: &'static str,
    /// Examples, each of which can be imported.
    pub examples: &'static [ResultExample],
    /// The kinds of files that it has.
    pub(crate) parts: &'static [Part],
}

/// Files of a tool that can be imported.
#[derive(Debug)]
pub struct ResultExample {
    /// Its name.
    pub name: &'static str,
    /// The origin: the tool itself, or its documentation.
    pub origin: &'static str,
    /// The files: path and text.
    pub files: &'static [(&'static str, &'static str)],
}

/// The origin of an example that a tool wrote.
pub(crate) const WRITTEN_BY_TOOL: &str = "written by the tool";

/// The origin of an example that a tool wrote, and that states more requests than it lists.
pub(crate) const SHORTENED: &str = "written by the tool; most of its single requests are left out";

/// The origin of an example that follows the documentation or the source of a tool.
pub(crate) const BY_DOCUMENTED_FORMAT: &str = "by the documented format; the tool did not write it";

/// One kind of file of a format.
#[derive(Debug)]
pub(crate) struct Part {
    /// Its name, such as `summary`.
    pub(crate) name: &'static str,
    pub(crate) form: Form,
    /// Decides by the shape of the first document.
    pub(crate) recognises: fn(&Value) -> bool,
    pub(crate) version: Version,
    pub(crate) scopes: &'static [Scope],
    /// Fields that are known and not read: the beginning of their path, and the reason.
    pub(crate) not_read: &'static [(&'static str, &'static str)],
}

/// The places of the version that a file states.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Version {
    /// The file states none.
    Unstated,
    /// The file is that of one tool, whose version it states, and the versions whose files are known.
    OfTool(&'static str, Known),
    /// The format is written by several tools: the version of the format, those that are known, and the tool that measured with its version.
    OfFormat { format: &'static str, known: Known, tool: &'static str, tool_version: &'static str },
}

/// The beginnings of known versions, such as `0.13`, which `0.13.1` has and `0.130` has not.
pub(crate) type Known = &'static [&'static str];

impl Version {
    /// Returns the paths of the version of the format, of the tool's name, and of its version; `None` if the file does not state it.
    pub(crate) fn places(self) -> [Option<&'static str>; 3] {
        match self {
            Self::Unstated => [None; 3],
            Self::OfTool(tool_version, _) => [None, None, Some(tool_version)],
            Self::OfFormat { format, tool, tool_version, .. } => [Some(format), Some(tool), Some(tool_version)],
        }
    }

    /// Returns the stated version of the files if it is none that is known. `stated` are the texts at [`Version::places`].
    pub(crate) fn unknown(self, stated: &[Option<String>; 3]) -> Option<&str> {
        let (version, known) = match (self, stated) {
            (Self::Unstated, _) => return None,
            (Self::OfTool(_, known), [_, _, version]) | (Self::OfFormat { known, .. }, [version, _, _]) => {
                (version.as_deref()?, known)
            }
        };
        let is_of = |known: &&str| {
            let rest = version.trim_start_matches('v').strip_prefix(*known);
            rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
        };
        (!version.is_empty() && !known.iter().any(is_of)).then_some(version)
    }
}

/// The form of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// A JSON document, or one a line.
    Json,
    /// The same, of which a function first takes out what is no result.
    Prepared(Prepare),
    /// A text that a function makes a document of; `None` if it is of another format.
    Text(fn(&str) -> Option<Value>),
}

/// Takes out of a document what is no result.
pub(crate) type Prepare = fn(&mut Value, &mut LeftOut) -> Result<(), Uneven>;

impl Part {
    /// Returns true if each document is one request of a run. Otherwise each is of a run of its own.
    pub(crate) fn has_request_documents(&self) -> bool {
        self.scopes.iter().any(|scope| scope.kind == ScopeKind::Samples && scope.at.is_empty())
    }
}

/// A place of a document with fields.
#[derive(Debug)]
pub(crate) struct Scope {
    /// The path: names separated by `/`, with `[]` after a list whose elements are visited one by one. Empty for the document.
    pub(crate) at: &'static str,
    pub(crate) kind: ScopeKind,
    pub(crate) labels: &'static [Label],
    pub(crate) fields: &'static [ResultField],
}

/// The numbers that a scope has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScopeKind {
    /// Statistics: each is a row of the document.
    Statistics,
    /// One request or iteration: each is a row of the samples.
    Samples,
    /// None: its labels are those of the numbers of the other files of the folder.
    Beside,
}

/// A label of the rows of a scope. Its place is looked for in the scope, then in what surrounds it.
#[derive(Debug)]
pub(crate) struct Label {
    pub(crate) name: &'static str,
    pub(crate) place: Place,
}

/// The place of a label.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// A path.
    At(&'static str),
    /// An object or a list, each of whose values is a label of its own, whatever its depth, unless another label of the table names it. It is looked for
    /// like a path. Members of the names in `but` are no labels.
    Members { at: &'static str, but: &'static [&'static str] },
    /// A value of any shape, as JSON. It is looked for like a path; null is none.
    Whole(&'static str),
    /// The folder of the file, relative to the one that is imported.
    Folder,
}

pub(crate) const fn label(name: &'static str, at: &'static str) -> Label {
    Label { name, place: Place::At(at) }
}

/// A field with its metric: one row of the mapping table of a format.
#[derive(Clone, Copy, Debug)]
pub struct ResultField {
    /// The path in its scope; `{}` stands for a statistic that is a part of the name, such as in `{}_ttft_ms`.
    pub field: &'static str,
    /// The metric.
    pub metric: &'static str,
    pub(crate) unit: Unit,
    pub(crate) shape: Shape,
    /// The tool's definition.
    pub definition: &'static str,
    /// The relation to the metrics of Assay.
    pub relation: Relation,
}

/// The unit of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    /// The tool always uses this one.
    Is(&'static str),
    /// A member states it: its path, which is looked for like that of a label, and the units by the tool's spelling.
    StatedAt(&'static str, &'static [(&'static str, &'static str)]),
}

/// The shape of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A number that is this statistic.
    Number(&'static str),
    /// An object of statistics by name.
    Statistics,
}

/// The metrics that are differences, so that their values may be below zero.
pub(crate) const DIFFERENCES: [&str; 2] = ["aiperf.output_length_difference", "inference-perf.schedule_delay"];

impl ResultField {
    /// Returns true if a statistic of the field may be below zero.
    pub(crate) fn may_be_negative(&self, statistic: &str) -> bool {
        DIFFERENCES.contains(&self.metric) && !["count", "std"].contains(&statistic)
    }
}

/// The relation of a metric to the metrics of Assay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Assay defines this metric alike, and the row has its name.
    Equal,
    /// A metric of Assay is near: its name, and the difference.
    Differs(&'static str, &'static str),
    /// Assay has no such metric.
    Unlike,
}

/// The most units of a field that are listed for people.
const SHOWN_UNITS: usize = 4;

impl Unit {
    /// Returns the units, for people.
    pub(crate) fn describe(self) -> String {
        match self {
            Self::Is(unit) => unit.to_owned(),
            Self::StatedAt(at, known) => {
                let mut units: Vec<&str> = known.iter().map(|(_, unit)| *unit).collect();
                units.dedup();
                let place = at.replace('/', ".");
                if units.len() > SHOWN_UNITS { format!("by `{place}`") } else { format!("{}, by `{place}`", units.join(" or ")) }
            }
        }
    }
}

impl Shape {
    /// Returns the statistics, for people.
    pub(crate) fn describe(self, field: &str) -> &'static str {
        match self {
            Self::Statistics => "each that the object has",
            Self::Number(_) if field.contains("{}") => "by the name",
            Self::Number(statistic) => statistic,
        }
    }
}

/// Returns true if a document has a number of each of these names.
pub(crate) fn has_numbers(document: &Value, names: &[&str]) -> bool {
    names.iter().all(|name| document.get(name).is_some_and(Value::is_number))
}

/// Returns a field that is a number of its own.
pub(crate) const fn one(
    field: &'static str,
    metric: &'static str,
    unit: &'static str,
    definition: &'static str,
    relation: Relation,
) -> ResultField {
    ResultField { field, metric, unit: Unit::Is(unit), shape: Shape::Number("value"), definition, relation }
}

/// Returns a field that is an object of statistics, or one field for each statistic if its name has `{}`.
pub(crate) const fn all(
    field: &'static str,
    metric: &'static str,
    unit: &'static str,
    definition: &'static str,
    relation: Relation,
) -> ResultField {
    ResultField { field, metric, unit: Unit::Is(unit), shape: Shape::Statistics, definition, relation }
}
