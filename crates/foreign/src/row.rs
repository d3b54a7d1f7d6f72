//! The outcome of each field of an imported definition.

use std::fmt;

use serde_json::{Value, json};

/// The treatment of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A field of Assay means the same.
    Mapped,
    /// A field of Assay means nearly the same; the note states the difference.
    Approximated,
    /// The field is a credential: the definition names the place of it, and its value is not copied.
    SecretReference,
    /// The field changes nothing that Assay measures; the note states the reason.
    Ignored,
    /// Assay cannot do the same; the note states the remedy.
    Refused,
}

impl Outcome {
    /// All outcomes, in the order in which summaries count them.
    pub const ALL: [Self; 5] = [Self::Mapped, Self::Approximated, Self::SecretReference, Self::Ignored, Self::Refused];

    /// Returns the words for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Mapped => "mapped",
            Self::Approximated => "approximated",
            Self::SecretReference => "moved to a Secret reference",
            Self::Ignored => "ignored",
            Self::Refused => "refused",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A field of an imported definition, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The document of the file that has the field, from 1; a command line is document 1.
    pub document: usize,
    /// The field's path or the option's name. `(absent)` and `(implied)` mark what the other tool decides without a field.
    pub field: String,
    /// The treatment.
    pub outcome: Outcome,
    /// The fields or options of Assay that replace it.
    pub to: Option<String>,
    /// The difference, the reason or the remedy.
    pub note: Option<String>,
}

impl Row {
    /// Returns the row as JSON, for machines.
    pub fn to_json(&self) -> Value {
        json!({
            "document": self.document, "field": self.field, "outcome": self.outcome.as_str(), "to": self.to, "note": self.note,
        })
    }
}
