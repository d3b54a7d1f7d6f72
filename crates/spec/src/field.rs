//! What a field table is made of.
//!
//! A table says once what each field is called, means, takes and defaults to. The checker, the JSON Schema, the reference page and
//! "did you mean" all read that one table, so they cannot disagree.

use crate::format::Format;

/// An object: its fields and the rules among them.
#[derive(Debug)]
pub(crate) struct Table {
    /// What one such object is called, for messages and headings.
    pub(crate) name: &'static str,
    /// What it is for.
    pub(crate) doc: &'static str,
    /// The field whose choice decides which of the other fields belong; it must be required.
    pub(crate) by: Option<&'static str>,
    pub(crate) fields: &'static [Field],
    pub(crate) rules: &'static [Rule],
}

/// One field of an object.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static Type,
    pub(crate) need: Need,
    /// The choices of `Table::by` that the field belongs to; empty for all.
    pub(crate) only: &'static [&'static str],
    pub(crate) doc: &'static str,
}

/// Whether a field must be there, and what it is where it is not.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Need {
    /// Always, or for each choice that the field belongs to.
    Required,
    /// Required for these choices of `Table::by`, optional for the others.
    RequiredFor(&'static [&'static str]),
    Optional,
    /// The value that an absent field has, as JSON.
    Default(&'static str),
}

/// What among the fields must hold.
#[derive(Debug)]
pub(crate) enum Rule {
    /// One of these is given, and no other.
    ExactlyOne(&'static [&'static str]),
    /// For this choice of `Table::by`, one of these is given, and no other.
    ExactlyOneFor(&'static str, &'static [&'static str]),
    /// At least one of these is given.
    AtLeastOne(&'static [&'static str]),
}

impl Rule {
    /// The fields that it is about.
    pub(crate) fn names(&self) -> &'static [&'static str] {
        match self {
            Self::ExactlyOne(names) | Self::ExactlyOneFor(_, names) | Self::AtLeastOne(names) => names,
        }
    }
}

/// What a value may be.
#[derive(Debug)]
pub(crate) enum Type {
    /// Text that a format accepts.
    Text(&'static Format),
    /// One of some words.
    Choice(&'static [Choice]),
    Bool,
    /// A whole number within limits.
    Integer {
        min: i64,
        max: i64,
    },
    /// A whole number within limits, or a word that leaves it to Assay.
    IntegerOr {
        word: &'static str,
        min: i64,
        max: i64,
    },
    /// A number within limits; `above_min` leaves the lower limit itself out.
    Number {
        min: f64,
        above_min: bool,
        max: f64,
    },
    /// Text, number or boolean, kept as it is written: the value of an environment variable is text anyway.
    Scalar,
    List {
        item: &'static Type,
        min: usize,
        max: usize,
        unique: Unique,
    },
    /// Names of the writer's own choosing, each with a value.
    Map {
        key: &'static Format,
        value: &'static Type,
        min: usize,
        max: usize,
    },
    Object(&'static Table),
    /// What is expected depends on whether a scalar, a list or a map is written.
    Shapes {
        scalar: Option<&'static Type>,
        list: Option<&'static Type>,
        map: Option<&'static Type>,
    },
    /// A secret: where it is found, never what it is.
    Reference,
}

/// What makes two items of a list the same, which is refused.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unique {
    /// Nothing: the list may repeat itself.
    No,
    /// The whole item.
    Item,
    /// This field of the items.
    Field(&'static str),
}

/// One of the words that a field takes.
#[derive(Debug)]
pub(crate) struct Choice {
    pub(crate) word: &'static str,
    /// Another spelling that is read, and turned into `word`.
    pub(crate) also: Option<&'static str>,
    pub(crate) doc: &'static str,
}

impl Table {
    pub(crate) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl Field {
    /// Whether the field belongs to objects of that choice of `Table::by`.
    pub(crate) fn belongs_to(&self, choice: Option<&str>) -> bool {
        self.only.is_empty() || choice.is_none_or(|choice| self.only.contains(&choice))
    }

    /// Whether the field must be given in objects of that choice.
    pub(crate) fn required_for(&self, choice: Option<&str>) -> bool {
        let belongs = self.only.is_empty() || choice.is_some_and(|choice| self.only.contains(&choice));
        match self.need {
            Need::Required => belongs,
            Need::RequiredFor(choices) => choice.is_some_and(|choice| choices.contains(&choice)),
            Need::Optional | Need::Default(_) => false,
        }
    }
}

/// A field that must be there.
pub(crate) const fn required(name: &'static str, kind: &'static Type, doc: &'static str) -> Field {
    Field { name, kind, need: Need::Required, only: &[], doc }
}

/// A field that may be absent, which means something of its own.
pub(crate) const fn optional(name: &'static str, kind: &'static Type, doc: &'static str) -> Field {
    Field { name, kind, need: Need::Optional, only: &[], doc }
}

/// A field that has a value where it is absent.
pub(crate) const fn default(name: &'static str, kind: &'static Type, json: &'static str, doc: &'static str) -> Field {
    Field { name, kind, need: Need::Default(json), only: &[], doc }
}

impl Field {
    /// The field, for these choices of `Table::by` only.
    pub(crate) const fn only(self, only: &'static [&'static str]) -> Self {
        Self { only, ..self }
    }

    /// The field, required for these choices of `Table::by`.
    pub(crate) const fn required_where(self, choices: &'static [&'static str]) -> Self {
        Self { need: Need::RequiredFor(choices), ..self }
    }
}

/// A word with its meaning.
pub(crate) const fn choice(word: &'static str, doc: &'static str) -> Choice {
    Choice { word, also: None, doc }
}
