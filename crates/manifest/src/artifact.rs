//! Immutable bytes named by their digest, and counts that keep all their digits.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Digest;

/// A 64-bit count. Written as a decimal string, because canonical JSON's numbers are doubles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Count(pub u64);

impl TryFrom<String> for Count {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let count = text.parse().ok().map(Self).filter(|count| count.0.to_string() == text);
        count.ok_or_else(|| {
            format!("`{}` is not a count: expected decimal digits in a string", text.chars().take(40).collect::<String>())
        })
    }
}

impl From<Count> for String {
    fn from(count: Count) -> Self {
        count.0.to_string()
    }
}

impl From<u64> for Count {
    fn from(count: u64) -> Self {
        Self(count)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl schemars::JsonSchema for Count {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Count".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^(0|[1-9][0-9]*)$",
            "description": "A 64-bit count as decimal digits."
        })
    }
}

/// Bytes in the store: name, digest, size and media type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// A path-like name, unique among the outputs of its manifest, such as `trials/t0/stdout`.
    pub name: String,
    /// The digest of the bytes.
    pub digest: Digest,
    /// The size in bytes.
    pub size: Count,
    /// The IANA media type.
    pub media_type: String,
}
