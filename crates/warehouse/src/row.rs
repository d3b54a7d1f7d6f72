//! A row: values for the columns of one table, checked as they are set.

use assay_manifest::{Digest, Instant, Reason, canonical_json, canonical_value};
use assay_metric::ColumnValue;
use serde_json::Value as Json;

use crate::schema::{Column, ROW_ID, Table, Type};
use crate::{Error, Result};

/// The longest text of a column, in bytes: the reasons of a run with thousands of remarks.
pub const MAX_TEXT_BYTES: usize = 1 << 20;

/// A value of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Not known, or not applicable.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A finite double.
    Float(f64),
    /// Text.
    Text(String),
    /// An instant.
    Instant(Instant),
}

impl Value {
    fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a bool",
            Self::Int(_) => "a whole number",
            Self::Float(_) => "a float",
            Self::Text(_) => "text",
            Self::Instant(_) => "an instant",
        }
    }

    fn has_type(&self, kind: Type) -> bool {
        matches!(
            (self, kind),
            (Self::Null, _)
                | (Self::Bool(_), Type::Bool)
                | (Self::Int(_), Type::Int)
                | (Self::Float(_), Type::Float)
                | (Self::Text(_), Type::Text)
                | (Self::Instant(_), Type::Instant)
        )
    }

    /// Returns the value as in a row's key: whole numbers as decimal text, because canonical JSON's numbers are doubles.
    fn key_json(&self) -> Json {
        match self {
            Self::Null => Json::Null,
            Self::Bool(value) => Json::from(*value),
            Self::Int(value) => Json::from(value.to_string()),
            Self::Float(value) => Json::from(*value),
            Self::Text(value) => Json::from(value.as_str()),
            Self::Instant(value) => Json::from(value.to_string()),
        }
    }
}

macro_rules! from {
    ($($type:ty => |$value:ident| $into:expr;)*) => {
        $(impl From<$type> for Value {
            fn from($value: $type) -> Self {
                $into
            }
        })*
    };
}
from! {
    bool => |value| Self::Bool(value);
    i64 => |value| Self::Int(value);
    i32 => |value| Self::Int(value.into());
    u32 => |value| Self::Int(value.into());
    f64 => |value| Self::Float(value);
    &str => |value| Self::Text(value.to_owned());
    String => |value| Self::Text(value);
    Instant => |value| Self::Instant(value);
    Digest => |value| Self::Text(value.to_string());
    ColumnValue => |value| match value { ColumnValue::Int(value) => Self::Int(value), ColumnValue::Float(value) => Self::Float(value) };
}

impl Value {
    /// Converts a whole number of any size; one beyond the column's range becomes the largest that it holds.
    pub fn from_count(count: u64) -> Self {
        Self::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// Returns reasons as a JSON list; null if there are none.
    pub fn from_reasons(reasons: &[Reason]) -> Self {
        let text = || String::from_utf8(canonical_json(&reasons).ok()?).ok();
        Self::from(if reasons.is_empty() { None } else { text() })
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A row of one table: an ordered map from its columns to values, all null at first.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    table: &'static Table,
    values: Vec<Value>,
}

impl Row {
    /// Returns a row of `table` in which everything is null.
    pub fn new(table: &'static Table) -> Self {
        Self { table, values: vec![Value::Null; table.columns().count()] }
    }

    /// Returns the table.
    pub fn table(&self) -> &'static Table {
        self.table
    }

    /// Sets a column. Fails for a column that the table does not have, a value of another type, and a float that is not finite.
    pub fn set(&mut self, column: &str, value: impl Into<Value>) -> Result<()> {
        let table = self.table.name;
        let unknown = || Error::UnknownColumn { table, column: column.chars().take(80).collect() };
        let (index, column) = self.table.column(column).ok_or_else(unknown)?;
        self.set_at(index, column, value.into())
    }

    /// Sets the column at `place`, which is its place in the table. See [`Row::set`].
    pub(crate) fn set_at(&mut self, place: usize, column: &'static Column, value: Value) -> Result<()> {
        check_value(self.table.name, column, &value)?;
        if let Some(slot) = self.values.get_mut(place) {
            *slot = value;
        }
        Ok(())
    }

    /// Returns the row with a column set. See [`Row::set`].
    pub fn with(mut self, column: &str, value: impl Into<Value>) -> Result<Self> {
        self.set(column, value).map(|()| self)
    }

    /// Returns the complete row with its id set. Fails if a column is null that may not be.
    pub fn seal(self) -> Result<Self> {
        let id = row_id(&self)?;
        let row = self.with(ROW_ID, id.hex())?;
        row.check_complete().map(|()| row)
    }

    /// Returns the value of a column; `None` if the table has no such column.
    pub fn get(&self, column: &str) -> Option<&Value> {
        self.table.column(column).and_then(|(index, _)| self.values.get(index))
    }

    /// Returns the text of a column; `None` if it is null or no text.
    pub fn text(&self, column: &str) -> Option<&str> {
        match self.get(column) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Returns the columns and their values, in the table's order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Column, &Value)> {
        self.table.columns().zip(&self.values)
    }

    /// Estimates its size in memory, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let texts = self.values.iter().map(|value| if let Value::Text(text) = value { text.len() as u64 } else { 0 });
        (self.values.len() * size_of::<Value>()) as u64 + texts.sum::<u64>()
    }

    pub(crate) fn value_at(&self, index: usize) -> &Value {
        self.values.get(index).unwrap_or(&Value::Null)
    }

    /// Checks that the row may be written to a file: it is complete, and its id is its own.
    pub(crate) fn check(&self) -> Result<()> {
        self.check_complete()?;
        let (expected, found) = (row_id(self)?.hex(), self.text(ROW_ID).unwrap_or_default());
        if expected == found {
            Ok(())
        } else {
            Err(Error::WrongRowId { table: self.table.name, expected, found: found.chars().take(80).collect() })
        }
    }

    fn check_complete(&self) -> Result<()> {
        match self.iter().find(|(column, value)| !column.nullable && **value == Value::Null) {
            Some((column, _)) => Err(Error::MissingValue { table: self.table.name, column: column.name }),
            None => Ok(()),
        }
    }
}

fn check_value(table: &'static str, column: &'static Column, value: &Value) -> Result<()> {
    if !value.has_type(column.kind) {
        return Err(Error::WrongType { table, column: column.name, expected: column.kind, found: value.type_name() });
    }
    match value {
        Value::Float(float) if !float.is_finite() => Err(Error::NotFinite { table, column: column.name }),
        Value::Text(text) if text.len() > MAX_TEXT_BYTES => {
            Err(Error::TextTooLong { table, column: column.name, bytes: text.len(), limit: MAX_TEXT_BYTES })
        }
        _ => Ok(()),
    }
}

/// Returns the id of a row: the digest of the canonical JSON of a list of the table's name and the values of its key columns, in
/// the table's order; whole numbers as decimal text, instants as text, missing values as null.
///
/// For `workload_dim` it is the `workload_spec_digest` itself, so that a fact's workload key decides comparability.
pub fn row_id(row: &Row) -> Result<Digest> {
    let table = row.table;
    let own_digest = || row.text("workload_spec_digest").and_then(|text| text.parse().ok());
    if let Some(digest) = (*table == crate::WORKLOAD_DIM).then(own_digest).flatten() {
        return Ok(digest);
    }
    let keys = row.iter().filter(|(column, _)| column.key).map(|(_, value)| value.key_json());
    let list = std::iter::once(Json::from(table.name)).chain(keys).collect();
    let bytes = canonical_value(&Json::Array(list)).map_err(|source| Error::Key { table: table.name, source })?;
    Ok(Digest::compute(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CLUSTER_REGION_DIM, OUTCOME_FACT, WORKLOAD_DIM};

    fn refusal<T: std::fmt::Debug>(result: Result<T>) -> String {
        result.expect_err("refused").to_string()
    }

    #[test]
    fn a_row_is_checked_as_it_is_set() {
        let row = || Row::new(&OUTCOME_FACT);
        insta::assert_snapshot!(refusal(row().with("values", 1.0)), @"table `outcome_fact` has no column `values`");
        insta::assert_snapshot!(refusal(row().with("value", 1_i64)), @"column `outcome_fact.value` holds float64, not a whole number");
        insta::assert_snapshot!(refusal(row().with("n", "3")), @"column `outcome_fact.n` holds int64, not text");
        insta::assert_snapshot!(refusal(row().with("value", f64::NAN)), @"column `outcome_fact.value` got a number that is not finite");
        insta::assert_snapshot!(refusal(row().seal()), @"column `outcome_fact.run_id` has no value and may not be null");
    }

    #[test]
    fn an_id_is_the_digest_of_the_keys() {
        let row = Row::new(&CLUSTER_REGION_DIM).with("cluster", "local").and_then(Row::seal).expect("complete");
        let expected = Digest::compute(br#"["cluster_region_dim","local",null,null,null,null,null,null,null]"#);
        assert_eq!(row.text(ROW_ID), Some(expected.hex().as_str()));
        row.check().expect("its own id");
        let other = row.clone().with("region", "eu").expect("set");
        assert!(matches!(other.check(), Err(Error::WrongRowId { .. })));
    }

    #[test]
    fn only_key_columns_make_the_id() {
        let row = Row::new(&OUTCOME_FACT).with("run_id", "r").and_then(|row| row.with("attempt", 1_i64)).expect("set");
        let id = row_id(&row).expect("an id");
        assert_eq!(row_id(&row.clone().with("value", 1.5).expect("set")).expect("an id"), id);
        assert_ne!(row_id(&row.with("attempt", Value::Null).expect("set")).expect("an id"), id);
    }

    #[test]
    fn a_workload_s_id_is_its_digest() {
        let digest = Digest::compute(b"spec");
        let row = Row::new(&WORKLOAD_DIM).with("workload_spec_digest", digest).expect("set");
        assert_eq!(row_id(&row).expect("an id"), digest);
    }
}
