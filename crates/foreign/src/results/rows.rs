//! The rows of a document, read by the table of its part.

use std::collections::BTreeMap;

use assay_manifest::ForeignRow;
use serde_json::{Map, Value, json};

use super::error::ResultsError;
use super::format::{Label, Part, Place, ResultField, Scope, ScopeKind, Shape, Unit};
use super::path::{at, for_each, join, text_near};
use super::statistic::statistic;

/// The most rows of all files.
pub(crate) const MAX_ROWS: usize = 50_000;
/// The most rows of single requests or iterations of all files.
pub(crate) const MAX_SAMPLE_ROWS: u64 = 2_000_000;
/// The most bytes of rows of single requests or iterations.
const MAX_SAMPLE_BYTES: usize = 512 << 20;
/// The longest value of a label, in bytes.
const MAX_LABEL_BYTES: usize = 1_000;
/// The units of what may be below zero: differences, shares of differences, and numbers without a unit.
const SIGNED_UNITS: [&str; 3] = ["%", "ratio", "1"];

/// A row, and the place that it is from.
#[derive(Clone, Debug)]
pub(crate) struct PlacedRow {
    pub(crate) row: ForeignRow,
    /// The file's place among the files.
    pub(crate) file: usize,
    /// The number of the document in the file, from 1.
    pub(crate) document: u64,
}

/// The rows of the files that were read so far.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) rows: Vec<PlacedRow>,
    /// The rows of single requests or iterations: one JSON document a line.
    pub(crate) samples: Vec<u8>,
    pub(crate) sample_rows: u64,
    /// The unit of each metric of these rows.
    pub(crate) units: BTreeMap<&'static str, &'static str>,
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
        for scope in part.scopes {
            for_each(scope.at, &mut vec![document], &mut |ancestors| self.read_scope(spot, scope, ancestors))?;
        }
        Ok(())
    }

    fn read_scope(&mut self, spot: Spot<'_>, scope: &Scope, ancestors: &[&Value]) -> Result<(), ResultsError> {
        let labels = labels(spot, scope.labels, ancestors)?;
        if scope.kind == ScopeKind::Samples {
            return self.add_sample(spot, scope, ancestors, &labels);
        }
        for field in scope.fields {
            for Number { statistic, value, unit } in numbers(spot, scope, field, ancestors)? {
                let metric = field.metric.to_owned();
                let row = ForeignRow { metric, statistic, unit: unit.to_owned(), value, labels: labels.clone() };
                self.rows.push(PlacedRow { row, file: spot.file, document: spot.document });
            }
        }
        if self.rows.len() > MAX_ROWS { Err(ResultsError::TooLarge(format!("{MAX_ROWS} numbers"))) } else { Ok(()) }
    }

    fn add_sample(
        &mut self,
        spot: Spot<'_>,
        scope: &Scope,
        ancestors: &[&Value],
        labels: &BTreeMap<String, String>,
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
        let line = json!({"labels": labels, "values": values}).to_string();
        if self.sample_rows >= MAX_SAMPLE_ROWS || self.samples.len() + line.len() >= MAX_SAMPLE_BYTES {
            return Err(ResultsError::TooLarge(format!(
                "{MAX_SAMPLE_ROWS} requests or iterations, or {} MiB of them",
                MAX_SAMPLE_BYTES >> 20
            )));
        }
        self.sample_rows += 1;
        self.samples.extend_from_slice(line.as_bytes());
        self.samples.push(b'\n');
        Ok(())
    }
}

fn labels(spot: Spot<'_>, labels: &[Label], ancestors: &[&Value]) -> Result<BTreeMap<String, String>, ResultsError> {
    let mut found = BTreeMap::new();
    for label in labels {
        match label.place {
            Place::At(path) => found.extend(text_near(ancestors, path).map(|value| (label.name.to_owned(), value))),
            Place::Members(path) => {
                let members = ancestors.last().and_then(|here| at(here, path)).and_then(Value::as_object);
                let named =
                    |(name, value): (&String, &Value)| Some((format!("{}.{name}", label.name), crate::value::text(value)?));
                found.extend(members.into_iter().flatten().filter_map(named));
            }
            Place::Folder => {
                let folder = spot.path.rsplit_once('/').map(|(folder, _)| folder.to_owned());
                found.extend(folder.map(|folder| (label.name.to_owned(), folder)));
            }
        }
    }
    match found.iter().find(|(name, value)| name.len() + value.len() > MAX_LABEL_BYTES) {
        Some(_) => Err(ResultsError::TooLarge(format!("{MAX_LABEL_BYTES} bytes in a label of `{}`", spot.path))),
        None => Ok(found),
    }
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
    let shown = |name: &str| join(scope.at, name);
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
                found.push((statistic.to_owned(), value, shown(field.field)));
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
        numbers.push(Number { value: number(spot, &path, unit, value)?, statistic, unit });
    }
    Ok(numbers)
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
    // Some tools state the median twice.
    let mut seen = std::collections::BTreeSet::new();
    found.retain(|(statistic, ..)| seen.insert(statistic.clone()));
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
    let path = join(scope.at, field.field);
    let inside = field.field.rsplit_once('/').map_or("", |(parent, _)| parent);
    let around = ancestors.last().and_then(|here| at(here, inside));
    let unit = unit(spot, field, ancestors, around, &path)?;
    let value: Value = match value.as_array() {
        Some(items) => items.iter().map(|item| number(spot, &path, unit, item)).collect::<Result<Vec<f64>, _>>()?.into(),
        None => number(spot, &path, unit, value)?.into(),
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
    found
        .map(|(_, unit)| *unit)
        .ok_or_else(|| ResultsError::UnknownUnit { file: spot.path.to_owned(), field: super::not_read::shown(path) })
}

fn number(spot: Spot<'_>, path: &str, unit: &str, value: &Value) -> Result<f64, ResultsError> {
    let (file, field) = (spot.path.to_owned(), super::not_read::shown(path));
    match value.as_f64().filter(|number| number.is_finite()) {
        None => Err(ResultsError::NoNumber { file, field }),
        Some(number) if number < 0.0 && !SIGNED_UNITS.contains(&unit) => Err(ResultsError::Negative { file, field }),
        Some(number) => Ok(number + 0.0),
    }
}
