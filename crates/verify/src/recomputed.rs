//! Compares a repeated reduce with the signed one: every row of every curated file, every field of the Summary, and its views.
//!
//! The same program must give the same bytes. Another program must give the same values, doubles within [`TOLERANCE`]; items that
//! only one of the two has are listed, and then no more than that is claimed. The holder of the reduce key may name any program
//! in a Summary, so the comparison with another program leaves nothing out.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{CuratedFile, Summary};
use assay_warehouse::{ROW_ID, Row, Value};
use serde::Serialize;
use serde_json::Value as Json;

use crate::{Error, Result, Unwritable};

use crate::outcomes::{TOLERANCE, Tables, is_close};

/// A result of reduce: its Summary and the data that the Summary names.
#[derive(Clone, Copy, Debug)]
pub struct ReduceResult<'a> {
    /// The Summary.
    pub summary: &'a Summary,
    /// The rows of its curated files.
    pub tables: &'a Tables,
    /// Its views, if it has any.
    pub views: Option<&'a Json>,
}

/// The outcome of a comparison with the recomputed result. A difference is a failure instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "outcome")]
pub enum RecomputeOutcome {
    /// Everything is the same.
    Reached,
    /// Items of both results are the same; these tables, columns, metrics and fields are in only one of them.
    Partial {
        /// Only in the signed result.
        only_signed: Vec<String>,
        /// Only in the recomputed result.
        only_recomputed: Vec<String>,
    },
}

/// Compares a signed result with that of reduce now.
pub fn compare_results(signed: &ReduceResult<'_>, again: &ReduceResult<'_>) -> Result<RecomputeOutcome> {
    if signed.summary.reduce_binary == again.summary.reduce_binary {
        return compare_bytes(signed.summary, again.summary);
    }
    let mut only = UnmatchedItems::default();
    only.compare_documents("the summary", &comparable(signed.summary)?, &comparable(again.summary)?)?;
    let views =
        |result: &ReduceResult<'_>| result.views.map_or(serde_json::json!({}), |views| serde_json::json!({"views": views}));
    only.compare_documents("the views", &views(signed), &views(again))?;
    let names: BTreeSet<_> = signed.tables.keys().chain(again.tables.keys()).copied().collect();
    for name in names {
        only.compare_tables(name, signed.tables.get(name), again.tables.get(name))?;
    }
    Ok(only.into_outcome())
}

/// Compares two results of the same program, which must be equal byte for byte. The Summary names the digest of everything else.
fn compare_bytes(signed: &Summary, again: &Summary) -> Result<RecomputeOutcome> {
    let lacks = |file: &&CuratedFile, other: &Summary| !other.files.contains(file);
    let differing = signed.files.iter().find(|file| lacks(file, again)).or(again.files.iter().find(|file| lacks(file, signed)));
    match differing {
        Some(file) => Err(differs(&format!("file for `{}`", file.table))),
        None if signed.views != again.views => Err(differs("views")),
        None if signed == again => Ok(RecomputeOutcome::Reached),
        None => Err(differs("summary")),
    }
}

fn differs(what: &str) -> Error {
    Error::Recomputed(what.to_owned())
}

fn differs_at(what: &str) -> Error {
    Error::RecomputedByOther(what.to_owned())
}

/// Returns a Summary as JSON without the fields that another program changes in any case: its own digest, and the digests of
/// files whose contents are compared.
fn comparable(summary: &Summary) -> Result<Json> {
    let mut json =
        serde_json::to_value(summary).map_err(|error| Error::Unwritable { value: Unwritable::Summary, source: error.into() })?;
    if let Some(members) = json.as_object_mut() {
        members.remove("reduce_binary");
        members.remove("views");
        let tables = summary.files.iter().map(|file| serde_json::json!({"table": file.table, "rows": file.rows}));
        members.insert("files".to_owned(), tables.collect());
    }
    Ok(json)
}

/// The members by which the elements of a list are identified, by the list's name. Elements of other lists are identified by
/// position.
const KEYED_LISTS: [(&str, &[&str]); 7] = [
    ("points", &["case_id", "point_id"]),
    ("all_loads", &["case_id"]),
    ("crossings", &["index"]),
    ("metrics", &["metric"]),
    ("trials", &["trial_id", "attempt"]),
    ("files", &["table"]),
    ("curves", &["metric"]),
];

/// The lists whose elements are of distinct kinds, which one program may know and another not.
const KINDS: [&str; 3] = ["metrics", "files", "curves"];

/// The members that are maps from observed values, not fields: neither result may have a key that the other lacks.
const MAPS: [&str; 6] = ["value", "rows", "outcomes", "excluded_outcomes", "token_sources", "usage_faults"];

/// The items that are in only one of two results.
#[derive(Default)]
struct UnmatchedItems {
    signed: BTreeSet<String>,
    again: BTreeSet<String>,
}

impl UnmatchedItems {
    fn into_outcome(self) -> RecomputeOutcome {
        if self.signed.is_empty() && self.again.is_empty() {
            return RecomputeOutcome::Reached;
        }
        RecomputeOutcome::Partial {
            only_signed: self.signed.into_iter().collect(),
            only_recomputed: self.again.into_iter().collect(),
        }
    }

    /// Compares two documents member by member.
    fn compare_documents(&mut self, what: &str, signed: &Json, again: &Json) -> Result<()> {
        let (mut signed_kinds, mut again_kinds) = (BTreeSet::new(), BTreeSet::new());
        collect_kinds(signed, what, &mut signed_kinds);
        collect_kinds(again, what, &mut again_kinds);
        DocumentComparison { only: self, signed_kinds, again_kinds }.compare(
            DocumentPlace { kind: what, path: what },
            signed,
            again,
        )
    }

    /// Compares the rows of a table by their ids.
    fn compare_tables(&mut self, name: &str, signed: Option<&Vec<Row>>, again: Option<&Vec<Row>>) -> Result<()> {
        let (signed, again) = match (signed, again) {
            (Some(signed), Some(again)) => (signed, again),
            // The Summary's list of files shows this as well.
            (signed, again) => {
                self.signed.extend(signed.map(|_| format!("the table `{name}`")));
                self.again.extend(again.map(|_| format!("the table `{name}`")));
                return Ok(());
            }
        };
        let (signed_kinds, again_kinds): (BTreeSet<_>, BTreeSet<_>) =
            (signed.iter().map(kind_of).collect(), again.iter().map(kind_of).collect());
        let (signed_columns, again_columns) = (filled_columns(signed), filled_columns(again));
        let mut others: BTreeMap<&str, &Row> = again.iter().map(|row| (id(row), row)).collect();
        for row in signed {
            match others.remove(id(row)) {
                Some(other) => self.compare_rows(row, other, &signed_columns, &again_columns)?,
                None if again_kinds.contains(&kind_of(row)) => {
                    return Err(differs_at(&format!("the row `{}` of `{name}`", id(row))));
                }
                None => drop(self.signed.insert(kind_of(row))),
            }
        }
        for row in others.values() {
            if signed_kinds.contains(&kind_of(row)) {
                return Err(differs_at(&format!("the row `{}` of `{name}`", id(row))));
            }
            self.again.insert(kind_of(row));
        }
        Ok(())
    }

    fn compare_rows(&mut self, row: &Row, other: &Row, signed: &Columns, again: &Columns) -> Result<()> {
        for (column, value) in row.iter().filter(|(column, _)| column.name != "reduce_binary_digest") {
            let (name, table) = (column.name, row.table().name);
            let described = format!("the column `{table}.{name}`");
            match (signed.contains(name), again.contains(name)) {
                (true, false) => drop(self.signed.insert(described)),
                (false, true) => drop(self.again.insert(described)),
                _ if values_agree(value, other.get(name).unwrap_or(&Value::Null)) => {}
                _ => return Err(differs_at(&format!("`{name}` of the row `{}` of `{table}`", id(row)))),
            }
        }
        Ok(())
    }
}

type Columns = BTreeSet<&'static str>;

/// Returns the columns that hold a value in at least one row.
fn filled_columns(rows: &[Row]) -> Columns {
    rows.iter().flat_map(Row::iter).filter(|(_, value)| **value != Value::Null).map(|(column, _)| column.name).collect()
}

fn id(row: &Row) -> &str {
    row.text(ROW_ID).unwrap_or_default()
}

/// Returns the kind of a row: its table, with the metric and statistic that it is about, if it names them.
fn kind_of(row: &Row) -> String {
    let named = ["metric", "statistic"].iter().filter_map(|column| row.text(column));
    let named: Vec<_> = named.map(|name| format!("`{name}`")).collect();
    if named.is_empty() {
        return format!("the table `{}`", row.table().name);
    }
    format!("rows of `{}` for {}", row.table().name, named.join(", "))
}

fn values_agree(signed: &Value, again: &Value) -> bool {
    match (signed, again) {
        (Value::Float(signed), Value::Float(again)) => is_close(*signed, *again),
        (signed, again) => signed == again,
    }
}

/// A place in a document, and its kind: the path without the keys of the elements along it.
#[derive(Clone, Copy)]
struct DocumentPlace<'a> {
    kind: &'a str,
    path: &'a str,
}

/// A walk over two documents at once.
struct DocumentComparison<'a> {
    only: &'a mut UnmatchedItems,
    signed_kinds: BTreeSet<String>,
    again_kinds: BTreeSet<String>,
}

impl DocumentComparison<'_> {
    fn compare(&mut self, place: DocumentPlace<'_>, signed: &Json, again: &Json) -> Result<()> {
        match (signed, again) {
            (Json::Object(signed), Json::Object(again)) => {
                let names: BTreeSet<_> = signed.keys().chain(again.keys()).collect();
                names.into_iter().try_for_each(|name| self.compare_member(place, name, signed.get(name), again.get(name)))
            }
            (Json::Array(signed), Json::Array(again)) => self.compare_lists(place, signed, again),
            (Json::Number(signed), Json::Number(again)) if numbers_agree(signed, again) => Ok(()),
            (signed, again) if signed == again => Ok(()),
            _ => Err(differs_at(place.path)),
        }
    }

    fn compare_member(
        &mut self,
        place: DocumentPlace<'_>,
        name: &str,
        signed: Option<&Json>,
        again: Option<&Json>,
    ) -> Result<()> {
        let (kind, path) = (format!("{}.{name}", place.kind), format!("{}.{name}", place.path));
        let is_map = MAPS.iter().any(|map| place.kind.ends_with(&format!(".{map}")));
        match (signed, again) {
            (Some(signed), Some(again)) => self.compare(DocumentPlace { kind: &kind, path: &path }, signed, again),
            (signed, _) => self.record_unmatched(DocumentPlace { kind: &kind, path: &path }, !is_map, signed.is_some()),
        }
    }

    /// Lists an item that only one result has. Refused unless a result `may_lack` it and the other result has nothing of that
    /// kind anywhere.
    fn record_unmatched(&mut self, place: DocumentPlace<'_>, may_lack: bool, is_signed: bool) -> Result<()> {
        let (only, others) =
            if is_signed { (&mut self.only.signed, &self.again_kinds) } else { (&mut self.only.again, &self.signed_kinds) };
        if !may_lack || others.contains(place.kind) {
            return Err(differs_at(place.path));
        }
        only.insert(place.kind.to_owned());
        Ok(())
    }

    fn compare_lists(&mut self, place: DocumentPlace<'_>, signed: &[Json], again: &[Json]) -> Result<()> {
        let name = place.kind.rsplit('.').next().unwrap_or_default();
        let key = keys_of(name);
        let (of_signed, of_again) = (elements_by_key(key, signed), elements_by_key(key, again));
        let is_kind = KINDS.contains(&name);
        if of_signed.len() != signed.len() || of_again.len() != again.len() {
            return Err(differs_at(place.path));
        }
        let keys: BTreeSet<_> = of_signed.keys().chain(of_again.keys()).collect();
        for key in keys {
            let (path, kind) = (format!("{}[{key}]", place.path), format!("{}[]", place.kind));
            match (of_signed.get(key), of_again.get(key)) {
                (Some(signed), Some(again)) => self.compare(DocumentPlace { kind: &kind, path: &path }, signed, again)?,
                (signed, _) => {
                    let kind = format!("{}[{key}]", place.kind);
                    self.record_unmatched(DocumentPlace { kind: &kind, path: &path }, is_kind, signed.is_some())?;
                }
            }
        }
        // The elements of both are in the same order; a result that knows more has further elements between them.
        let order = |list: &[Json], other: &BTreeMap<String, &Json>| -> Vec<String> {
            (0..).zip(list).map(|(place, element)| key_of(key, place, element)).filter(|key| other.contains_key(key)).collect()
        };
        if order(signed, &of_again) == order(again, &of_signed) {
            Ok(())
        } else {
            Err(differs_at(&format!("the order of {}", place.path)))
        }
    }
}

/// Returns true if two whole numbers are equal, or two doubles equal except for their last digits.
fn numbers_agree(signed: &serde_json::Number, again: &serde_json::Number) -> bool {
    match (signed.is_f64() || again.is_f64(), signed.as_f64(), again.as_f64()) {
        (true, Some(signed), Some(again)) => is_close(signed, again),
        _ => signed == again,
    }
}

fn keys_of(list: &str) -> Option<&'static [&'static str]> {
    KEYED_LISTS.iter().find(|(name, _)| *name == list).map(|(_, keys)| *keys)
}

fn key_of(keys: Option<&[&str]>, place: usize, element: &Json) -> String {
    match keys {
        Some(keys) => {
            let named =
                keys.iter().map(|key| element.get(key).map(|value| value.to_string().replace('"', "")).unwrap_or_default());
            named.collect::<Vec<_>>().join(" ")
        }
        None => place.to_string(),
    }
}

fn elements_by_key<'a>(keys: Option<&[&str]>, list: &'a [Json]) -> BTreeMap<String, &'a Json> {
    (0..).zip(list).map(|(place, element)| (key_of(keys, place, element), element)).collect()
}

/// Collects every kind of place that a document has.
fn collect_kinds(value: &Json, kind: &str, kinds: &mut BTreeSet<String>) {
    kinds.insert(kind.to_owned());
    match value {
        Json::Object(members) => members.iter().for_each(|(name, value)| collect_kinds(value, &format!("{kind}.{name}"), kinds)),
        Json::Array(list) => {
            let name = kind.rsplit('.').next().unwrap_or_default();
            for (place, element) in (0..).zip(list) {
                if KINDS.contains(&name) {
                    kinds.insert(format!("{kind}[{}]", key_of(keys_of(name), place, element)));
                }
                collect_kinds(element, &format!("{kind}[]"), kinds);
            }
        }
        _ => {}
    }
}

/// Describes how doubles of two programs are compared.
pub fn tolerance_text() -> String {
    format!("within a relative tolerance of {TOLERANCE:e}")
}

#[cfg(test)]
mod tests;
