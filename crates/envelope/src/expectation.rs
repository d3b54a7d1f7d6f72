//! Requirements of a trust policy on the origin of manifests: repository, ref, pipeline, binary, image.
//!
//! A fact that the evidence does not record is refused like a wrong one. All of these facts are recorded by signers: a
//! requirement binds an honest signer to its pipeline; a thief of one role's key is bound only by the facts that other roles
//! sign.

use assay_failure::ErrorCode;
use std::collections::BTreeSet;
use std::fmt;

use assay_manifest::{Digest, Document, Role};

use crate::predicate::Predicate;

/// A requirement on the origin of the manifests of some roles. An empty set requires nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expectation {
    /// The roles that it covers; if empty, those of a run.
    pub roles: BTreeSet<Role>,
    /// Addresses of the repository that the run was started from.
    pub repositories: BTreeSet<String>,
    /// Full names of the branch or tag that the run was started from.
    pub refs: BTreeSet<String>,
    /// Paths of the pipeline.
    pub pipelines: BTreeSet<String>,
    /// Digests of the signing binary.
    pub binaries: BTreeSet<Digest>,
    /// Digests of the container image in which the signing binary ran.
    pub images: BTreeSet<Digest>,
    /// True if a bundle needs a timestamp by an authority of the policy.
    pub timestamp_required: bool,
}

/// A fact about the origin of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginFact {
    /// The repository that the run was started from.
    Repository,
    /// The branch or tag that the run was started from.
    Ref,
    /// The pipeline that was run.
    Pipeline,
    /// The binary that signed.
    Binary,
    /// The container image in which it ran.
    Image,
}

impl OriginFact {
    /// Returns the error code of a manifest that does not meet a requirement on this fact.
    pub fn code(self) -> ErrorCode {
        match self {
            Self::Repository => ErrorCode::OtherRepository,
            Self::Ref => ErrorCode::OtherRef,
            Self::Pipeline => ErrorCode::OtherPipeline,
            Self::Binary => ErrorCode::OtherBinary,
            Self::Image => ErrorCode::OtherImage,
        }
    }
}

impl fmt::Display for OriginFact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Repository => "repository",
            Self::Ref => "ref",
            Self::Pipeline => "pipeline",
            Self::Binary => "binary",
            Self::Image => "image",
        })
    }
}

/// A manifest has an origin that the trust policy does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the trust policy expects the {fact} {expected} for {role}, but the evidence {}", found_words(found.as_deref()))]
pub struct OriginError {
    /// The fact that does not match.
    pub fact: OriginFact,
    /// The role that is covered.
    pub role: Role,
    /// The allowed values.
    pub expected: String,
    /// The recorded value; `None` if none is recorded.
    pub found: Option<String>,
}

fn found_words(found: Option<&str>) -> String {
    found.map_or_else(|| "records none".to_owned(), |found| format!("records `{}`", crate::text::quote(found)))
}

impl Expectation {
    fn covers(&self, role: Role) -> bool {
        if self.roles.is_empty() { Role::RUN.contains(&role) } else { self.roles.contains(&role) }
    }
}

/// The requirements that cover one role.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoleRequirements<'a> {
    expectations: &'a [Expectation],
    role: Role,
}

impl<'a> RoleRequirements<'a> {
    pub(crate) fn new(expectations: &'a [Expectation], role: Role) -> Self {
        Self { expectations, role }
    }

    fn all(self) -> impl Iterator<Item = &'a Expectation> {
        self.expectations.iter().filter(move |expectation| expectation.covers(self.role))
    }

    pub(crate) fn needs_timestamp(self) -> bool {
        self.all().any(|expectation| expectation.timestamp_required)
    }

    /// Checks the binary and image that a statement records about its own signer.
    pub(crate) fn check_signer(self, predicate: &Predicate) -> Result<(), OriginError> {
        let hex = |digest: Option<Digest>| digest.map(|digest| digest.to_string());
        let (binary, image) = (hex(predicate.binary()), hex(predicate.image()));
        self.all().try_for_each(|expectation| {
            self.check(OriginFact::Binary, &texts(&expectation.binaries), binary.as_deref())?;
            self.check(OriginFact::Image, &texts(&expectation.images), image.as_deref())
        })
    }

    /// Checks the origin of the run that a document records. A Source records repository, ref and pipeline, a Plan repository and
    /// pipeline. A Verdict belongs to no run, so it records nothing. Other documents depend on their run's Source and Plan.
    pub(crate) fn check_run(self, document: &Document) -> Result<(), OriginError> {
        let (repository, reference, pipeline) = match document {
            Document::Source(source) => {
                let body = &source.body;
                (body.repository.as_deref(), Some(body.reference.as_deref()), Some(body.pipeline.as_str()))
            }
            Document::Plan(plan) => (plan.body.source.repository.as_deref(), None, Some(plan.body.pipeline.path.as_str())),
            Document::Verdict(_) => (None, Some(None), None),
            _ => return Ok(()),
        };
        self.all().try_for_each(|expectation| {
            self.check(OriginFact::Repository, &expectation.repositories, repository)?;
            self.check(OriginFact::Pipeline, &expectation.pipelines, pipeline)?;
            match reference {
                Some(reference) => self.check(OriginFact::Ref, &expectation.refs, reference),
                None => Ok(()),
            }
        })
    }

    fn check(self, fact: OriginFact, expected: &BTreeSet<String>, found: Option<&str>) -> Result<(), OriginError> {
        if expected.is_empty() || found.is_some_and(|found| expected.contains(found)) {
            return Ok(());
        }
        let expected = expected.iter().map(|text| format!("`{text}`")).collect::<Vec<_>>().join(" or ");
        Err(OriginError { fact, role: self.role, expected, found: found.map(ToOwned::to_owned) })
    }
}

fn texts(digests: &BTreeSet<Digest>) -> BTreeSet<String> {
    digests.iter().map(ToString::to_string).collect()
}
