//! The in-toto Statement v1: digests of the subjects, and the signer's predicate about them.

use std::collections::BTreeMap;

use assay_manifest::{Digest, Kind, canonical_json, canonical_value};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::descriptor::ResourceDescriptor;
use crate::predicate::{PROVENANCE, Predicate, STATEMENT_TYPE, TEST_RESULT, TestResult, VERIFICATION_SUMMARY};
use crate::statement_error::StatementError;
use crate::subjects::COMMIT;
use crate::text::quote;
use crate::wire::{WireProvenance, WireSummary};

/// The largest number of subjects of a statement, the same as sigstore-go's limit.
pub const MAX_SUBJECTS: usize = 1_024;

/// The largest number of dependencies, attestations or tests of a statement: a publication over ten thousand blocks fits.
pub const MAX_DEPENDENCIES: usize = 20_000;

/// The statement of a signer about some bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The kind of manifest that it claims to be about.
    pub kind: Kind,
    /// The digests of its subjects, by name.
    pub subjects: BTreeMap<String, Digest>,
    /// The commit that it is about: 40 hexadecimal digits, or 64.
    pub commit: Option<String>,
    /// Its predicate.
    pub predicate: Predicate,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireStatement {
    #[serde(rename = "_type")]
    statement_type: String,
    subject: Vec<WireSubject>,
    predicate_type: String,
    predicate: Value,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireSubject {
    name: String,
    digest: WireDigest,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireDigest {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    sha256: Option<String>,
    #[serde(rename = "gitCommit", skip_serializing_if = "Option::is_none", default)]
    git_commit: Option<String>,
}

impl Statement {
    /// Returns the canonical bytes, which are signed. They are parsed again, so that nothing is signed that would not verify.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, StatementError> {
        let wire = WireStatement {
            statement_type: STATEMENT_TYPE.to_owned(),
            subject: self.wire_subjects(),
            predicate_type: self.predicate.type_uri().to_owned(),
            predicate: self.write_predicate()?,
        };
        let bytes = canonical_json(&wire).map_err(|_| StatementError::NotCanonical)?;
        Self::parse(&bytes)?;
        Ok(bytes)
    }

    fn wire_subjects(&self) -> Vec<WireSubject> {
        let of = |name: &str, digest: WireDigest| WireSubject { name: name.to_owned(), digest };
        let files =
            self.subjects.iter().map(|(name, digest)| of(name, WireDigest { sha256: Some(digest.hex()), git_commit: None }));
        let commit = self.commit.iter().map(|commit| of(COMMIT, WireDigest { sha256: None, git_commit: Some(commit.clone()) }));
        files.chain(commit).collect()
    }

    fn write_predicate(&self) -> Result<Value, StatementError> {
        match &self.predicate {
            Predicate::Provenance(provenance) => serde_json::to_value(WireProvenance::from_provenance(self.kind, provenance)?),
            Predicate::VerificationSummary(summary) => serde_json::to_value(WireSummary::from_summary(summary)),
            Predicate::TestResult(result) => serde_json::to_value(result),
        }
        .map_err(StatementError::Malformed)
    }

    /// Parses a statement from bytes that may be hostile.
    ///
    /// Accepts only the canonical form, which refuses duplicate members and other spellings in one rule: two verifiers can never
    /// read two different statements out of the same bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, StatementError> {
        let value: Value = serde_json::from_slice(bytes).map_err(StatementError::Malformed)?;
        if canonical_value(&value).ok().as_deref() != Some(bytes) {
            return Err(StatementError::NotCanonical);
        }
        let wire: WireStatement = read(value)?;
        if wire.statement_type != STATEMENT_TYPE {
            return Err(StatementError::UnknownType(quote(&wire.statement_type)));
        }
        let (subjects, commit) = read_subjects(wire.subject)?;
        let (kind, predicate) = read_predicate(&wire.predicate_type, wire.predicate)?;
        Ok(Self { kind, subjects, commit, predicate })
    }
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, StatementError> {
    serde_json::from_value(value).map_err(StatementError::Malformed)
}

/// Returns the digests of files by name, and the commit if there is one.
fn read_subjects(wire: Vec<WireSubject>) -> Result<(BTreeMap<String, Digest>, Option<String>), StatementError> {
    check_count("subjects", wire.len(), MAX_SUBJECTS)?;
    let (mut subjects, mut commit) = (BTreeMap::new(), None);
    for WireSubject { name, digest } in wire {
        let is_known = match (digest.sha256, digest.git_commit) {
            (Some(sha256), None) => {
                let digest = Digest::from_hex(&sha256).map_err(|_| StatementError::Field("subject[].digest.sha256"))?;
                subjects.insert(name.clone(), digest).is_some()
            }
            (None, Some(id)) if name == COMMIT && is_commit(&id) => commit.replace(id).is_some(),
            _ => return Err(StatementError::Field("subject[].digest")),
        };
        if is_known {
            return Err(StatementError::DuplicateSubject(quote(&name)));
        }
    }
    Ok((subjects, commit))
}

/// Returns true for a commit id: 40 digits with SHA-1, 64 in a repository of the SHA-256 format.
fn is_commit(id: &str) -> bool {
    [40, 64].contains(&id.len()) && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn read_predicate(predicate_type: &str, value: Value) -> Result<(Kind, Predicate), StatementError> {
    match predicate_type {
        PROVENANCE => {
            let (kind, provenance) = read::<WireProvenance>(value)?.read()?;
            check_descriptors("dependencies", &provenance.resolved_dependencies)?;
            Ok((kind, provenance.into()))
        }
        VERIFICATION_SUMMARY => {
            let summary = read::<WireSummary>(value)?.read()?;
            check_count("attestations", summary.input_attestations.len(), MAX_DEPENDENCIES)?;
            Ok((Kind::Publication, summary.into()))
        }
        TEST_RESULT => {
            let result: TestResult = read(value)?;
            check_descriptors("configurations", &result.configuration)?;
            let tests = result.passed_tests.len() + result.warned_tests.len() + result.failed_tests.len();
            check_count("tests", tests, MAX_DEPENDENCIES)?;
            // Without a time, a verifier could not decide if the key was valid.
            result.judged_on().ok_or(StatementError::Field("predicate.configuration[].annotations.judged_on"))?;
            Ok((Kind::Verdict, result.into()))
        }
        other => Err(StatementError::UnknownPredicateType(quote(other))),
    }
}

fn check_count(what: &'static str, found: usize, limit: usize) -> Result<(), StatementError> {
    if found <= limit { Ok(()) } else { Err(StatementError::TooMany { what, found, limit }) }
}

fn check_descriptors(what: &'static str, descriptors: &[ResourceDescriptor]) -> Result<(), StatementError> {
    check_count(what, descriptors.len(), MAX_DEPENDENCIES)?;
    let bad = descriptors.iter().find_map(|descriptor| descriptor.problem().map(|problem| (descriptor, problem)));
    match bad {
        None => Ok(()),
        Some((descriptor, problem)) => {
            let name = descriptor.name.as_deref().or(descriptor.uri.as_deref()).unwrap_or("unnamed");
            Err(StatementError::Descriptor { name: quote(name), problem })
        }
    }
}
