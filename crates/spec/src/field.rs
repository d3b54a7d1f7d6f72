//! The building blocks of a field table.
//!
//! A table defines once the name, meaning, accepted values and default of each field. The checker, the JSON Schema, the reference
//! page and "did you mean" all read that one table, so they cannot disagree.

use crate::format::Format;

/// An object: its fields and the rules among them.
#[derive(Debug)]
pub(crate) struct Table {
    /// The name of one such object, for messages and headings.
    pub(crate) name: &'static str,
    /// Its purpose.
    pub(crate) doc: &'static str,
    /// The field whose choice decides which of the other fields belong; it must be required.
    pub(crate) selector: Option<&'static str>,
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

/// The necessity of a field, and its value if it is absent.
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

/// A rule among the fields of an object.
#[derive(Debug)]
pub(crate) enum Rule {
    /// Exactly one of these is present.
    ExactlyOne(&'static [&'static str]),
    /// For this choice of `Table::by`, exactly one of these is present.
    ExactlyOneFor(&'static str, &'static [&'static str]),
    /// At least one of these is present.
    AtLeastOne(&'static [&'static str]),
    /// For these choices of `Table::by`, at least one of these is present.
    AtLeastOneFor(&'static [&'static str], &'static [&'static str]),
}

impl Rule {
    /// Returns the fields that the rule is about.
    pub(crate) fn names(&self) -> &'static [&'static str] {
        match self {
            Self::ExactlyOne(names) | Self::ExactlyOneFor(_, names) | Self::AtLeastOne(names) | Self::AtLeastOneFor(_, names) => {
                names
            }
        }
    }

    /// Returns true if the rule holds for this choice of the selector.
    pub(crate) fn applies_to(&self, choice: Option<&str>) -> bool {
        match self {
            Self::ExactlyOne(_) | Self::AtLeastOne(_) => true,
            Self::ExactlyOneFor(only, _) => choice == Some(only),
            Self::AtLeastOneFor(only, _) => choice.is_some_and(|choice| only.contains(&choice)),
        }
    }
}

/// The type of a value.
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
    /// A whole number within limits, or a word that leaves the number to Assay.
    IntegerOr {
        word: &'static str,
        min: i64,
        max: i64,
    },
    /// A number within limits; `above_min` excludes the lower limit itself.
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
        unique: Uniqueness,
    },
    /// Names that the writer chooses, each with a value.
    Map {
        key: &'static Format,
        value: &'static Type,
        min: usize,
        max: usize,
    },
    Object(&'static Table),
    /// A value whose expected type depends on its shape: scalar, list or map.
    Shapes {
        scalar: Option<&'static Type>,
        list: Option<&'static Type>,
        map: Option<&'static Type>,
    },
    /// A reference to a secret: its location, never its value.
    Reference,
    /// The source of a header's value: a reference to a secret, or a text that is no secret.
    HeaderSource,
}

/// The criterion by which two items of a list are equal, which is refused.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Uniqueness {
    /// None: items may repeat.
    No,
    /// The whole item.
    Item,
    /// This field of the items.
    Field(&'static str),
}

/// One of the words that a field takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    pub(crate) word: &'static str,
    /// Another accepted spelling, which is turned into `word`.
    pub(crate) alias: Option<&'static str>,
    pub(crate) doc: &'static str,
}

impl Table {
    pub(crate) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl Field {
    /// Returns true if the field belongs to objects of that choice of `Table::by`.
    pub(crate) fn belongs_to(&self, choice: Option<&str>) -> bool {
        self.only.is_empty() || choice.is_none_or(|choice| self.only.contains(&choice))
    }

    /// Returns true if the field is required in objects of that choice.
    pub(crate) fn required_for(&self, choice: Option<&str>) -> bool {
        let belongs = self.only.is_empty() || choice.is_some_and(|choice| self.only.contains(&choice));
        match self.need {
            Need::Required => belongs,
            Need::RequiredFor(choices) => choice.is_some_and(|choice| choices.contains(&choice)),
            Need::Optional | Need::Default(_) => false,
        }
    }
}

/// Creates a required field.
pub(crate) const fn required(name: &'static str, kind: &'static Type, doc: &'static str) -> Field {
    Field { name, kind, need: Need::Required, only: &[], doc }
}

/// Creates a field that may be absent, which has a meaning of its own.
pub(crate) const fn optional(name: &'static str, kind: &'static Type, doc: &'static str) -> Field {
    Field { name, kind, need: Need::Optional, only: &[], doc }
}

/// Creates a field that has a default value.
pub(crate) const fn default(name: &'static str, kind: &'static Type, json: &'static str, doc: &'static str) -> Field {
    Field { name, kind, need: Need::Default(json), only: &[], doc }
}

impl Field {
    /// Returns the field, for these choices of `Table::by` only.
    pub(crate) const fn only(self, only: &'static [&'static str]) -> Self {
        Self { only, ..self }
    }

    /// Returns the field, required for these choices of `Table::by`.
    pub(crate) const fn required_for_choices(self, choices: &'static [&'static str]) -> Self {
        Self { need: Need::RequiredFor(choices), ..self }
    }
}

/// Creates a word with its meaning.
pub(crate) const fn choice(word: &'static str, doc: &'static str) -> Choice {
    Choice { word, alias: None, doc }
}
