//! Acknowledgements: regressions that people accepted, as reviewed files.

use std::collections::BTreeMap;

use assay_manifest::{CaseId, Instant, Name, PointId};

use crate::checked_value::CheckedValue;
use crate::define::{Define, DefinitionKind, SourcePlaces, parse_as};
use crate::problem::{Problem, Problems};

/// The folder of acknowledgement files, from the repository's root.
pub const ACKNOWLEDGEMENTS: &str = "pipelines/acks";

/// An acknowledgement as its file defines it.
#[derive(Clone, Debug)]
pub struct Acknowledgement {
    /// Its name.
    pub name: Name,
    /// A description for people.
    pub description: Option<String>,
    /// The person or team that is responsible for it.
    pub owner: Option<String>,
    /// Free-form labels, by name.
    pub labels: BTreeMap<String, String>,
    /// The candidate's case.
    pub case: CaseId,
    /// The point; every point of the case if absent.
    pub point: Option<PointId>,
    /// The metric.
    pub metric: String,
    /// The largest change for the worse that is accepted, in percent.
    pub accepts_pct: f64,
    /// The change that is accepted.
    pub accepted_change: AcceptedChange,
    /// The reason.
    pub reason: String,
    /// The person who approved it.
    pub approver: String,
    /// The instant from which it accepts nothing.
    pub expires: Instant,
    /// The places of its values in the file.
    pub(crate) places: SourcePlaces,
}

/// The change that is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcceptedChange {
    /// The change of the pull request with this number.
    PullRequest(u32),
    /// The change of the commits after `base` up to `merge`, 40 hexadecimal digits each.
    Range {
        /// The commit before the change.
        base: String,
        /// The commit that merged the change.
        merge: String,
    },
}

impl Acknowledgement {
    /// Parses an acknowledgement file; `file` is its name in problems.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, Vec<Problem>> {
        parse_as(file, bytes)
    }
}

impl Define for Acknowledgement {
    const KIND: DefinitionKind = DefinitionKind::Acknowledgement;

    fn cross_check(_: &CheckedValue, _: &mut Problems<'_>) {}

    fn read(checked: &CheckedValue, places: SourcePlaces) -> Option<Self> {
        let metadata = checked.member("metadata")?;
        let spec = checked.member("spec")?;
        Some(Self {
            name: metadata.get("name")?,
            description: metadata.get("description")?,
            owner: metadata.get("owner")?,
            labels: metadata.get("labels")?,
            case: spec.get("case")?,
            point: spec.get("point")?,
            metric: spec.get("metric")?,
            accepts_pct: spec.get("accepts_pct")?,
            accepted_change: read_accepted_change(spec)?,
            reason: spec.get("reason")?,
            approver: spec.get("approver")?,
            expires: spec.get("expires")?,
            places,
        })
    }
}

fn read_accepted_change(spec: &CheckedValue) -> Option<AcceptedChange> {
    match spec.member("range") {
        Some(range) => Some(AcceptedChange::Range { base: range.get("base")?, merge: range.get("merge")? }),
        None => spec.get("pull_request").map(AcceptedChange::PullRequest),
    }
}
