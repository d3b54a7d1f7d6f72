//! The rows of a document, read by the table of its part.

use std::collections::BTreeMap;

use assay_manifest::{Digest, ForeignRow};
use serde_json::{Map, Value};

use super::error::ResultsError;
use super::format::{Label, Part, Place, ResultField, Scope, ScopeKind, Shape, Unit};
use super::members::Members;
use super::path::{at, for_each, join, split_at_list, text_near};
use super::statistic::statistic;

/// The most rows of all files.
pub(crate) const MAX_ROWS: usize = 50_000;
/// The most rows of single requests or iterations of all files.
pub(crate) const MAX_SAMPLE_ROWS: u64 = 2_000_000;
/// The most bytes of rows of single requests or iterations.
pub(crate) const MAX_SAMPLE_BYTES: usize = 512 << 20;
/// The most labels of a row. Each row has its own, so a document with many would take much more memory than its size.
pub(crate) const MAX_LABELS: usize = 64;
/// The most bytes of the labels of all rows.
const MAX_LABEL_BYTES: usize = 64 << 20;
/// The longest value of a label, in bytes. The rest of a longer one is replaced by a digest.
const MAX_VALUE_BYTES: usize = 1_000;
/// The longest name of a label, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 200;

/// Labels by name.
pub(crate) type Labels = BTreeMap<String, String>;

/// The place that a number is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin {
    /// The file's place among the files.
    pub(crate) file: usize,
    /// The number of the document in the file, from 1; 0 if a document is not a run of its own.
    pub(crate) document: u64,
    /// The number of the entry in the document, such as a benchmark, from 1; 0 for the document itself.
    pub(crate) entry: usize,
}

/// A row, and the place that it is from.
#[derive(Clone, Debug)]
pub(crate) struct PlacedRow {
    pub(crate) row: ForeignRow,
    pub(crate) origin: Origin,
}

/// The rows of the files that were read so far.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) rows: Vec<PlacedRow>,
    /// The bytes of the labels of these rows.
    label_bytes: usize,
    /// The values of single requests or iterations by their origin and labels: one JSON object a line.
    pub(crate) samples: BTreeMap<(Origin, Labels), Vec<u8>>,
    pub(crate) sample_rows: u64,
    sample_bytes: usize,
    /// The unit of each metric of these rows.
    pub(crate) units: BTreeMap<&'static str, &'static str>,
    /// The labels that a file gives to the numbers of the others of its folder, by folder.
    beside: BTreeMap<String, Labels>,
}

/// The place of a document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot<'a> {
    pub(crate) file: usize,
    pub(crate) path: &'a str,
    pub(crate) document: u64,
}

impl Found {
    /// Reads the fields of a document.
    pub(crate) fn read(&mut self, spot: Spot<'_>, part: &Part, document: &Value) -> Result<(), ResultsError> {
        let number = if part.has_request_documents() { 0 } else { spot.document };
        let whole = Origin { file: spot.file, document: number, entry: 0 };
        for scope in part.scopes {
            match split_at_list(scope.at) {
                None => for_each(scope.at, &mut vec![document], &mut |values| self.read_scope(spot, whole, scope, values))?,
                Some((list, inside)) => {
                    // The elements of a list of samples are requests or iterations of one entry.
                    let has_entries = scope.kind == ScopeKind::Statistics || !inside.is_empty();
                    let mut entry = 0;
                    for_each(list, &mut vec![document], &mut |values| {
                        entry += usize::from(has_entries);
                        let origin = Origin { entry, ..whole };
                        for_each(inside, &mut values.to_vec(), &mut |values| self.read_scope(spot, origin, scope, values))
                    })?;
                }
            }
        }
        Ok(())
    }

    fn read_scope(&mut self, spot: Spot<'_>, origin: Origin, scope: &Scope, ancestors: &[&Value]) -> Result<(), ResultsError> {
        let labels = labels(spot, scope.labels, ancestors);
        match scope.kind {
            ScopeKind::Statistics => {}
            ScopeKind::Samples => return self.add_sample(spot, origin, scope, ancestors, labels),
            ScopeKind::Beside => {
                self.add_beside(spot, labels);
                return Ok(());
            }
        }
        for field in scope.fields {
            for Number { statistic, value, unit } in numbers(spot, scope, field, ancestors)? {
                let metric = field.metric.to_owned();
                let row = ForeignRow { metric, statistic, unit: unit.to_owned(), value, labels: labels.clone() };
                self.add_row(PlacedRow { row, origin })?;
            }
        }
        Ok(())
    }

    /// Adds labels for the numbers of a folder. If two of its files state one differently, its value names both.
    fn add_beside(&mut self, spot: Spot<'_>, labels: Labels) {
        let beside = self.beside.entry(folder(spot.path).to_owned()).or_default();
        for (name, value) in labels {
            match beside.get_mut(&name) {
                Some(known) if *known != value => *known = shortened_value(format!("{known} or {value}")),
                Some(_) => {}
                None => drop(beside.insert(name, value)),
            }
        }
    }

    /// Gives each number the labels that another file of its folder has for it. Its own labels count more.
    ///
    /// # Errors
    /// Fails if the labels are too large.
    pub(crate) fn join_beside(&mut self, paths: &[&str]) -> Result<(), ResultsError> {
        let beside = std::mem::take(&mut self.beside);
        let of_file = |file: usize| paths.get(file).and_then(|path| beside.get(folder(path)));
        for PlacedRow { row, origin } in &mut self.rows {
            let added = of_file(origin.file).map_or(0, |more| join_labels(&mut row.labels, more));
            self.label_bytes += added;
            if self.label_bytes > MAX_LABEL_BYTES {
                return Err(too_many_labels());
            }
        }
        for ((origin, mut labels), values) in std::mem::take(&mut self.samples) {
            if let Some(more) = of_file(origin.file) {
                join_labels(&mut labels, more);
            }
            self.samples.entry((origin, labels)).or_default().extend(values);
        }
        Ok(())
    }

    fn add_row(&mut self, placed: PlacedRow) -> Result<(), ResultsError> {
        self.label_bytes += placed.row.labels.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        if self.rows.len() >= MAX_ROWS {
            return Err(ResultsError::TooLarge(format!("{MAX_ROWS} numbers")));
        }
        if self.label_bytes > MAX_LABEL_BYTES {
            return Err(too_many_labels());
        }
        self.rows.push(placed);
        Ok(())
    }

    fn add_sample(
        &mut self,
        spot: Spot<'_>,
        origin: Origin,
        scope: &Scope,
        ancestors: &[&Value],
        labels: Labels,
    ) -> Result<(), ResultsError> {
        let mut values = Map::new();
        for field in scope.fields {
            let Some((value, unit)) = sample(spot, scope, field, ancestors)? else { continue };
            if *self.units.entry(field.metric).or_insert(unit) != unit {
                let field = super::not_read::shown(&join(scope.at, field.field));
                return Err(ResultsError::UnknownUnit { file: spot.path.to_owned(), field });
            }
            values.insert(field.metric.to_owned(), value);
        }
        if values.is_empty() {
            return Ok(());
        }
        let line = Value::Object(values).to_string();
        self.sample_bytes += line.len() + labels.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        if self.sample_rows >= MAX_SAMPLE_ROWS || self.sample_bytes >= MAX_SAMPLE_BYTES {
            return Err(too_many_samples());
        }
        self.sample_rows += 1;
        let lines = self.samples.entry((origin, labels)).or_default();
        lines.extend_from_slice(line.as_bytes());
        lines.push(b'\n');
        Ok(())
    }
}

pub(crate) fn too_many_samples() -> ResultsError {
    let size = MAX_SAMPLE_BYTES >> 20;
    ResultsError::TooLarge(format!("{MAX_SAMPLE_ROWS} requests or iterations, or {size} MiB of them"))
}

fn too_many_labels() -> ResultsError {
    ResultsError::TooLarge(format!("{} MiB of labels", MAX_LABEL_BYTES >> 20))
}

/// Adds the labels that are absent, and returns the number of their bytes.
fn join_labels(labels: &mut Labels, more: &Labels) -> usize {
    let mut added = 0;
    for (name, value) in more {
        labels.entry(name.clone()).or_insert_with(|| {
            added += name.len() + value.len();
            value.clone()
        });
    }
    added
}

/// Returns the folder of a path; empty for a file of the folder that is imported.
pub(crate) fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Returns the labels of a scope: at most [`MAX_LABELS`], of which each that the table lists has its place.
fn labels(spot: Spot<'_>, table: &[Label], ancestors: &[&Value]) -> Labels {
    let near = |path| ancestors.iter().rev().find_map(|value| at(value, path)).filter(|value| !value.is_null());
    let mut found = Labels::new();
    for (place, label) in table.iter().enumerate() {
        let one = match label.place {
            Place::At(path) => text_near(ancestors, path),
            Place::Members { at, but } => {
                let room = MAX_LABELS.saturating_sub(found.len() + table.len() - place - 1);
                let members = Members { at, but, table, room };
                found.extend(near(at).into_iter().flat_map(|object| members.labels(label.name, object)));
                continue;
            }
            Place::Whole(path) => near(path).map(Value::to_string),
            Place::Folder => Some(folder(spot.path)).filter(|folder| !folder.is_empty()).map(str::to_owned),
        };
        found.extend(one.map(|value| (label.name.to_owned(), shortened_value(value))));
    }
    found
}

/// Returns the value of a label, shortened if it is too long.
pub(crate) fn shortened_value(value: String) -> String {
    shortened(value, MAX_VALUE_BYTES)
}

/// Returns a text of at most `max` bytes: the beginning of a longer one, and the digest of all of it, which tells it apart from others.
pub(crate) fn shortened(text: String, max: usize) -> String {
    if text.len() <= max {
        return text;
    }
    let end = format!("... {}", Digest::compute(text.as_bytes()));
    let start = text.char_indices().take_while(|(at, letter)| at + letter.len_utf8() + end.len() <= max);
    start.map(|(_, letter)| letter).collect::<String>() + &end
}

/// A number of a field.
struct Number {
    statistic: String,
    value: f64,
    unit: &'static str,
}

/// Returns the numbers of a field: none if it is absent.
fn numbers(spot: Spot<'_>, scope: &Scope, field: &ResultField, ancestors: &[&Value]) -> Result<Vec<Number>, ResultsError> {
    let Some(here) = ancestors.last() else { return Ok(Vec::new()) };
    let mut found: Vec<(String, &Value, String)> = Vec::new();
    let shown = |name: &str| super::not_read::shown(&join(scope.at, name));
    match (field.field.split_once("{}"), field.shape) {
        (Some((before, after)), _) => {
            for (name, value) in here.as_object().into_iter().flatten() {
                let inner = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
                if let Some(statistic) = inner.and_then(statistic) {
                    found.push((statistic, value, shown(name)));
                }
            }
        }
        (None, Shape::Number(statistic)) => {
            if let Some(value) = at(here, field.field) {
                found.push((statistic.to_owned(), value, path_in_table(scope, field)));
            }
        }
        (None, Shape::Statistics) => {
            for (name, path, value) in statistics(here, field.field) {
                found.push((name, value, shown(&path)));
            }
        }
    }
    let mut numbers = Vec::new();
    for (statistic, value, path) in found {
        if value.is_null() {
            continue;
        }
        let unit = unit(spot, field, ancestors, at(here, field.field), &path)?;
        let unit = if statistic == "count" { "1" } else { unit };
        let value = number(spot, &path, field.may_be_negative(&statistic), value)?;
        numbers.push(Number { statistic, value, unit });
    }
    Ok(numbers)
}

/// Returns the path of a field as it is shown. It is that of the table and none of the file, so it holds no credential.
fn path_in_table(scope: &Scope, field: &ResultField) -> String {
    join(scope.at, field.field).replace('/', ".")
}

/// Returns the statistics of an object, and those of its member `percentiles`: name, path and value of each.
pub(crate) fn statistics<'a>(here: &'a Value, field: &str) -> Vec<(String, String, &'a Value)> {
    let nested = join(field, "percentiles");
    let mut found = Vec::new();
    for path in [field, &nested] {
        for (name, value) in at(here, path).and_then(Value::as_object).into_iter().flatten() {
            if let Some(statistic) = statistic(name).filter(|_| !value.is_object()) {
                found.push((statistic, join(path, name), value));
            }
        }
    }
    // Some tools state the median twice. A statistic with two values is an error.
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|(statistic, _, value)| seen.insert((statistic.clone(), value.to_string())));
    found
}

/// Returns the number of a field of a request or iteration, or its list of numbers, with the unit.
fn sample(
    spot: Spot<'_>,
    scope: &Scope,
    field: &ResultField,
    ancestors: &[&Value],
) -> Result<Option<(Value, &'static str)>, ResultsError> {
    let value = ancestors.last().and_then(|here| at(here, field.field)).filter(|value| !value.is_null());
    let Some(value) = value else { return Ok(None) };
    let path = path_in_table(scope, field);
    let inside = field.field.rsplit_once('/').map_or("", |(parent, _)| parent);
    let around = ancestors.last().and_then(|here| at(here, inside));
    let unit = unit(spot, field, ancestors, around, &path)?;
    let number = |value: &Value| number(spot, &path, field.may_be_negative("value"), value);
    let value: Value = match value.as_array() {
        Some(items) if items.is_empty() => return Ok(None),
        Some(items) => items.iter().map(number).collect::<Result<Vec<f64>, _>>()?.into(),
        None => number(value)?.into(),
    };
    Ok(Some((value, unit)))
}

/// Returns the unit of a field. A stated one is looked for in the field's object, then in what surrounds it.
fn unit(
    spot: Spot<'_>,
    field: &ResultField,
    ancestors: &[&Value],
    object: Option<&Value>,
    path: &str,
) -> Result<&'static str, ResultsError> {
    let (place, known) = match field.unit {
        Unit::Is(unit) => return Ok(unit),
        Unit::StatedAt(place, known) => (place, known),
    };
    let around: Vec<&Value> = ancestors.iter().copied().chain(object).collect();
    let stated = text_near(&around, place);
    let found = stated.and_then(|stated| known.iter().find(|(spelling, _)| *spelling == stated));
    found.map(|(_, unit)| *unit).ok_or_else(|| ResultsError::UnknownUnit { file: spot.path.to_owned(), field: path.to_owned() })
}

fn number(spot: Spot<'_>, path: &str, may_be_negative: bool, value: &Value) -> Result<f64, ResultsError> {
    let (file, field) = (spot.path.to_owned(), path.to_owned());
    match value.as_f64().filter(|number| number.is_finite()) {
        None => Err(ResultsError::NoNumber { file, field }),
        Some(number) if number < 0.0 && !may_be_negative => Err(ResultsError::Negative { file, field }),
        Some(number) => Ok(number + 0.0),
    }
}
