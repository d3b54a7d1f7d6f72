//! Acknowledgements: a change for the worse that people accepted, as a reviewed file.

use std::collections::BTreeMap;

use assay_manifest::{CaseId, Instant, Name, PointId};

use crate::checked::Checked;
use crate::definition::{Define, DefinitionKind, Places, parse_as};
use crate::problem::{Problem, Problems};

/// The folder that acknowledgements lie in, from the repository's root.
pub const ACKNOWLEDGEMENTS: &str = "pipelines/acks";

/// An acknowledgement as its file defines it.
#[derive(Clone, Debug)]
pub struct Acknowledgement {
    /// Its name.
    pub name: Name,
    /// What it is for, for people.
    pub description: Option<String>,
    /// Who answers for it.
    pub owner: Option<String>,
    /// Names and texts of the owner's choosing.
    pub labels: BTreeMap<String, String>,
    /// The candidate's case.
    pub case: CaseId,
    /// The point; every point of the case where it is absent.
    pub point: Option<PointId>,
    /// The metric.
    pub metric: String,
    /// The largest change for the worse that is accepted, in percent.
    pub accepts_pct: f64,
    /// Whose change is accepted.
    pub of: Accepted,
    /// Why.
    pub reason: String,
    /// Who approved it.
    pub approver: String,
    /// From when on it accepts nothing.
    pub expires: Instant,
    /// Where its values stand.
    pub(crate) places: Places,
}

/// Whose change is accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// That of the pull request of this number.
    PullRequest(u32),
    /// That of the commits after `base` up to `merge`, 40 hexadecimal digits each.
    Range {
        /// The commit before the change.
        base: String,
        /// The commit that brought it in.
        merge: String,
    },
}

impl Acknowledgement {
    /// Reads an acknowledgement file; `file` is the name that problems carry.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, Vec<Problem>> {
        parse_as(file, bytes)
    }
}

impl Define for Acknowledgement {
    const KIND: DefinitionKind = DefinitionKind::Acknowledgement;

    fn cross_check(_: &Checked, _: &mut Problems<'_>) {}

    fn read(checked: &Checked, places: Places) -> Option<Self> {
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
            of: accepted(spec)?,
            reason: spec.get("reason")?,
            approver: spec.get("approver")?,
            expires: spec.get("expires")?,
            places,
        })
    }
}

fn accepted(spec: &Checked) -> Option<Accepted> {
    match spec.member("range") {
        Some(range) => Some(Accepted::Range { base: range.get("base")?, merge: range.get("merge")? }),
        None => spec.get("pull_request").map(Accepted::PullRequest),
    }
}
