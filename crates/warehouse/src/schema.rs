//! The description of a table, and the Arrow schema that follows from it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow_schema::{DataType, Field, Schema, SchemaRef};

/// The unit of a column whose values have the unit that the column `unit` of their row names.
pub const AS_UNIT_SAYS: &str = "as `unit` says";

/// The column that holds a row's id, the last of every table.
pub const ROW_ID: &str = "row_id";

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// True or false.
    Bool,
    /// A 64-bit whole number.
    Int,
    /// A double.
    Float,
    /// UTF-8 text.
    Text,
    /// An instant in UTC with nanoseconds.
    Instant,
}

impl Type {
    /// Returns the Arrow type.
    pub fn arrow(self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            // An instant is whole nanoseconds: Delta's timestamps have microseconds, and Spark refuses Parquet's nanosecond ones.
            Self::Int | Self::Instant => DataType::Int64,
            Self::Float => DataType::Float64,
            Self::Text => DataType::Utf8,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Bool => "bool",
            Self::Int => "int64",
            Self::Float => "float64",
            Self::Text => "text",
            Self::Instant => "int64 (instant, from 1970-01-01 UTC)",
        })
    }
}

/// One column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name: unit last, then qualifier, such as `ttft_ns_p99`.
    pub name: &'static str,
    /// Its type.
    pub kind: Type,
    /// True if it may be null.
    pub nullable: bool,
    /// The unit of its values, if they have one.
    pub unit: Option<&'static str>,
    /// Its meaning.
    pub doc: &'static str,
    /// True if it is one of the columns that the row's id is the digest of.
    pub key: bool,
    /// The source that will fill it, for a column that nothing writes yet: it is always null, and part of no key, so that the
    /// keys of earlier rows stay as they are once it is filled.
    pub reserved: Option<&'static str>,
}

impl Column {
    const fn new(name: &'static str, kind: Type, doc: &'static str) -> Self {
        Self { name, kind, nullable: true, unit: None, doc, key: false, reserved: None }
    }

    pub(crate) const fn bool(name: &'static str, doc: &'static str) -> Self {
        Self::new(name, Type::Bool, doc)
    }

    pub(crate) const fn int(name: &'static str, doc: &'static str) -> Self {
        Self::new(name, Type::Int, doc)
    }

    pub(crate) const fn float(name: &'static str, doc: &'static str) -> Self {
        Self::new(name, Type::Float, doc)
    }

    pub(crate) const fn text(name: &'static str, doc: &'static str) -> Self {
        Self::new(name, Type::Text, doc)
    }

    pub(crate) const fn instant(name: &'static str, doc: &'static str) -> Self {
        Self::new(name, Type::Instant, doc).unit("ns")
    }

    pub(crate) const fn unit(mut self, unit: &'static str) -> Self {
        self.unit = Some(unit);
        self
    }

    pub(crate) const fn required(mut self) -> Self {
        self.nullable = false;
        self
    }

    pub(crate) const fn key(mut self) -> Self {
        self.key = true;
        self
    }

    pub(crate) const fn reserved(mut self, source: &'static str) -> Self {
        self.reserved = Some(source);
        self
    }

    fn field(&self) -> Field {
        let mut metadata = HashMap::from([("doc".to_owned(), self.doc.to_owned())]);
        if let Some(unit) = self.unit {
            metadata.insert("unit".to_owned(), unit.to_owned());
        }
        if self.key {
            metadata.insert("key".to_owned(), "true".to_owned());
        }
        Field::new(self.name, self.kind.arrow(), self.nullable).with_metadata(metadata)
    }
}

/// A curated table.
#[derive(Debug)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// The meaning of one row.
    pub grain: &'static str,
    /// Its purpose.
    pub doc: &'static str,
    /// The source that will fill the table, if nothing writes it yet.
    pub reserved: Option<&'static str>,
    /// Its columns, in groups that several tables share.
    pub(crate) groups: &'static [&'static [Column]],
    /// The place of each column, by name.
    pub(crate) places: ColumnPlaces,
}

/// The place of each column of a table, computed at first use: readers of rows ask for every value by name.
pub(crate) type ColumnPlaces = OnceLock<HashMap<&'static str, (usize, &'static Column)>>;

impl Table {
    /// Returns its columns, in the order of the file.
    pub fn columns(&self) -> impl Iterator<Item = &'static Column> {
        self.groups.iter().copied().flatten()
    }

    /// Returns the column of this name and its place.
    pub fn column(&self, name: &str) -> Option<(usize, &'static Column)> {
        let named = || self.columns().enumerate().map(|(place, column)| (column.name, (place, column))).collect();
        self.places.get_or_init(named).get(name).copied()
    }

    /// Returns the columns that a row's id is the digest of, in order.
    pub fn keys(&self) -> impl Iterator<Item = &'static Column> {
        self.columns().filter(|column| column.key)
    }
}

impl PartialEq for Table {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// Returns the Arrow schema of a table. Docs and units are metadata of the fields.
pub fn arrow_schema(table: &Table) -> SchemaRef {
    let fields: Vec<_> = table.columns().map(Column::field).collect();
    let metadata = [("table", table.name), ("grain", table.grain)];
    let metadata = metadata.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    Arc::new(Schema::new_with_metadata(fields, metadata))
}
