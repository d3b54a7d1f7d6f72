//! The rules by which foreign evidence is judged. They are a file of their own, because a pipeline judges runs, and has workloads and targets that
//! results of other tools do not have.

use std::collections::BTreeMap;

use assay_manifest::Name;

use crate::checked_value::CheckedValue;
use crate::define::{Define, DefinitionKind, SourcePlaces, parse_as};
use crate::problem::{Problem, Problems};

/// The rules by which foreign evidence is judged, as their file defines them.
#[derive(Clone, Debug)]
pub struct ForeignGate {
    /// The gate's name.
    pub name: Name,
    /// A description for people.
    pub description: Option<String>,
    /// The person or team that is responsible for it.
    pub owner: Option<String>,
    /// Free-form labels, by name.
    pub labels: BTreeMap<String, String>,
    /// True if a verdict may block. Otherwise it is advisory.
    pub allow_foreign: bool,
    /// The metrics that decide; empty for every metric whose better direction is known.
    pub metrics: Vec<String>,
    /// The largest change for the worse that passes, in percent.
    pub budget_pct: f64,
    /// The accepted false discovery rate.
    pub q: f64,
    /// True if an inconclusive verdict blocks too.
    pub block_on_inconclusive: bool,
}

impl ForeignGate {
    /// Parses a file; `file` is its name in problems.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, Vec<Problem>> {
        parse_as(file, bytes)
    }
}

impl Define for ForeignGate {
    const KIND: DefinitionKind = DefinitionKind::ForeignGate;

    fn cross_check(_: &CheckedValue, _: &mut Problems<'_>) {}

    fn read(checked: &CheckedValue, _: SourcePlaces) -> Option<Self> {
        let metadata = checked.member("metadata")?;
        let spec = checked.member("spec")?;
        Some(Self {
            name: metadata.get("name")?,
            description: metadata.get("description")?,
            owner: metadata.get("owner")?,
            labels: metadata.get("labels")?,
            allow_foreign: spec.get("allow_foreign")?,
            metrics: spec.get("metrics")?,
            budget_pct: spec.get("budget_pct")?,
            q: spec.get("q")?,
            block_on_inconclusive: spec.get("block_on_inconclusive")?,
        })
    }
}
