//! Identifiers as types: a text of one of these types is valid by its rule.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest name, in characters: leaves room for suffixes within Kubernetes' limit of 63.
pub const MAX_NAME: usize = 40;
/// The longest dotted identifier, in characters.
const MAX_DOTTED: usize = 200;

/// The error of parsing an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {what}: {rule}")]
pub struct IdError {
    text: String,
    what: &'static str,
    rule: &'static str,
}

const NAME_RULE: &str = "lower-case letters, digits and inner hyphens, at most 40 characters";
const DOTTED_RULE: &str = "names joined by dots, at most 200 characters";

/// Returns true if `text` matches `[a-z0-9]([a-z0-9-]*[a-z0-9])?` and is at most 40 characters long.
fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

fn is_dotted(text: &str, parts: usize) -> bool {
    text.len() <= MAX_DOTTED && text.split('.').count() == parts && text.split('.').all(is_name)
}

macro_rules! identifier {
    ($(#[$doc:meta])* $type:ident, $what:literal, $rule:expr, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        #[schemars(with = "String")]
        pub struct $type(String);

        impl $type {
            /// Checks `text` against the rule of this identifier.
            pub fn new(text: impl Into<String>) -> Result<Self, IdError> {
                let text = text.into();
                let check: fn(&str) -> bool = $check;
                if check(&text) {
                    Ok(Self(text))
                } else {
                    Err(IdError { text: text.chars().take(120).collect(), what: $what, rule: $rule })
                }
            }

            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl FromStr for $type {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $type {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl From<$type> for String {
            fn from(id: $type) -> Self {
                id.0
            }
        }

        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

identifier!(
    /// The name of a workload, target, variant or pipeline.
    Name, "name", NAME_RULE, is_name
);
identifier!(
    /// The id of a run: a lower-case DNS label of at most 40 characters.
    RunId, "run id", NAME_RULE, is_name
);
identifier!(
    /// The id of a point of a case's sweep.
    PointId, "point id", NAME_RULE, is_name
);
identifier!(
    /// The id of a case, `workload.target.variant`: readable, so that history survives edits (`benchmark_case_id`).
    CaseId, "benchmark case id", DOTTED_RULE, |text| is_dotted(text, 3)
);
identifier!(
    /// The id of a planned repetition of a point, `workload.target.variant.point.tN`.
    TrialId, "trial id", DOTTED_RULE, |text| is_dotted(text, 5)
);

impl RunId {
    /// Creates a run id from the first forty digits of a digest.
    pub fn from_digest(digest: &crate::Digest) -> Self {
        Self(digest.hex()[..MAX_NAME].to_owned())
    }
}

impl CaseId {
    /// Creates the id of the case of a workload on a target in a variant.
    pub fn from_names(workload: &Name, target: &Name, variant: &Name) -> Self {
        Self(format!("{workload}.{target}.{variant}"))
    }

    /// Returns the three names: workload, target, variant.
    pub fn names(&self) -> [&str; 3] {
        let mut names = self.0.split('.');
        [(); 3].map(|()| names.next().unwrap_or_default())
    }
}

impl TrialId {
    /// Creates the id of trial number `index` (from 0) of a point of a case.
    pub fn from_parts(case: &CaseId, point: &PointId, index: u32) -> Self {
        Self(format!("{case}.{point}.t{index}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rule() {
        for good in ["a", "0", "llama-8b", &"x".repeat(40)] {
            assert!(Name::new(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a_b", "a.b", "ü", &"x".repeat(41)] {
            assert!(Name::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_case_is_three_names() {
        let name = |text| Name::new(text).expect("a name");
        let case = CaseId::from_names(&name("w"), &name("t"), &name("default"));
        assert_eq!(case.names(), ["w", "t", "default"]);
        assert_eq!(case.as_str().parse(), Ok(case));
        assert!("w.t".parse::<CaseId>().is_err());
    }
}
