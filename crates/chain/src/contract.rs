//! The inputs and outputs of each stage.

use std::fmt;

use assay_manifest::{Kind, Role};
use serde::{Deserialize, Serialize};

/// The number of manifests of a kind that a stage takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// Exactly one.
    One,
    /// At least one.
    Many,
    /// Any number, including none.
    Any,
}

impl Arity {
    /// Returns true if `count` manifests satisfy the arity.
    pub fn admits(self, count: usize) -> bool {
        match self {
            Self::One => count == 1,
            Self::Many => count >= 1,
            Self::Any => true,
        }
    }
}

impl fmt::Display for Arity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One => "exactly one",
            Self::Many => "at least one",
            Self::Any => "any number of",
        })
    }
}

/// The kinds of manifest that a stage takes, and the number of each.
pub type InputKinds = &'static [(Kind, Arity)];

/// A stage, by the name under which its results are stored. The recorder is the second part of the collect stage: same key,
/// separate results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageName {
    /// Freezes workloads and orders trials.
    Plan,
    /// Starts targets, or proves that they exist.
    Provision,
    /// Runs the measurements.
    Execute,
    /// Records while execute measures.
    Record,
    /// Freezes the raw evidence.
    Collect,
    /// Computes statistics and curated rows.
    Reduce,
    /// Publishes what the claim rules allow.
    Publish,
}

impl StageName {
    /// All stages, in the order of the chain.
    pub const ALL: [Self; 7] =
        [Self::Plan, Self::Provision, Self::Execute, Self::Record, Self::Collect, Self::Reduce, Self::Publish];

    /// The name in the store and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Provision => "provision",
            Self::Execute => "execute",
            Self::Record => "record",
            Self::Collect => "collect",
            Self::Reduce => "reduce",
            Self::Publish => "publish",
        }
    }

    /// The role whose key signs its manifest.
    pub fn role(self) -> Role {
        self.output_kind().signer()
    }

    /// The kind of manifest that it outputs.
    pub fn output_kind(self) -> Kind {
        match self {
            Self::Plan => Kind::Plan,
            Self::Provision => Kind::Environment,
            Self::Execute => Kind::ExecutionPart,
            Self::Record => Kind::Recording,
            Self::Collect => Kind::Collection,
            Self::Reduce => Kind::Summary,
            Self::Publish => Kind::Publication,
        }
    }

    /// The kinds that it takes.
    pub fn input_kinds(self) -> InputKinds {
        use Arity::{Any, Many, One};
        match self {
            Self::Plan => &[(Kind::Source, One)],
            Self::Provision => &[(Kind::Plan, One)],
            Self::Execute | Self::Record => &[(Kind::Plan, One), (Kind::Environment, One)],
            Self::Collect => &[(Kind::Plan, One), (Kind::Environment, Many), (Kind::ExecutionPart, Many), (Kind::Recording, Any)],
            Self::Reduce => &[(Kind::Plan, One), (Kind::Environment, Many), (Kind::Collection, One)],
            Self::Publish => &[
                (Kind::Source, One),
                (Kind::Plan, One),
                (Kind::Environment, Many),
                (Kind::ExecutionPart, Many),
                (Kind::Recording, Any),
                (Kind::Collection, One),
                (Kind::Summary, One),
            ],
        }
    }
}

impl fmt::Display for StageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::str::FromStr for StageName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("`{}` is not a stage", text.chars().take(80).collect::<String>());
        Self::ALL.into_iter().find(|stage| stage.as_str() == text).ok_or_else(unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stage_takes_its_manifest_may_name() {
        for stage in StageName::ALL {
            for (kind, _) in stage.input_kinds() {
                assert!(stage.output_kind().allowed_inputs().contains(kind), "{stage} takes {kind}");
            }
        }
    }

    #[test]
    fn a_stage_reads_what_it_writes() {
        for stage in StageName::ALL {
            assert_eq!(stage.to_string().parse(), Ok(stage));
        }
        assert_eq!("Plan".parse::<StageName>(), Err("`Plan` is not a stage".to_owned()));
    }

    #[test]
    fn an_arity_admits_as_many_as_it_says() {
        for (arity, admitted) in [(Arity::One, [false, true, false]), (Arity::Many, [false, true, true]), (Arity::Any, [true; 3])]
        {
            assert_eq!([0, 1, 2].map(|count| arity.admits(count)), admitted, "{arity}");
        }
    }
}
