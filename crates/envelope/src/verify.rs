//! Verification: untrusted bytes become [`Verified`], or a named refusal.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{
    Body, Digest, Document, DocumentError, Header, InputRef, Instant, Kind, MAX_MANIFEST_BYTES, Manifest, Role, RunId,
};

use crate::bundle::Bundle;
use crate::descriptor::{ResourceDescriptor, describe_input};
use crate::error::VerifyError;
use crate::predicate::{Predicate, predicate_type};
use crate::statement::Statement;
use crate::subjects::{self, manifest_name};
use crate::timestamp::{self, Timestamp, TimestampError};
use crate::trust::{SignerIdentity, SigningTime, Trust};

/// The values that the verifier expects. `None` is not compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpectedManifest<'a> {
    /// The run that the manifest must belong to.
    pub run_id: Option<&'a RunId>,
    /// The kind that it must be of.
    pub kind: Option<Kind>,
    /// The role that must have made it.
    pub stage: Option<Role>,
    /// The digests that another manifest, verified before, pins for its input.
    pub input: Option<&'a InputRef>,
}

/// A value whose signature, signer and digests were checked, with the bytes that they were checked on.
///
/// Only [`verify`] creates one, so a function that takes a `Verified<T>` cannot receive anything else:
///
/// ```compile_fail,E0451
/// # use assay_envelope::Verified;
/// # fn forge(honest: Verified<&str>) -> Verified<&str> {
/// Verified { value: "whatever I like", ..honest }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Verified<T> {
    value: T,
    bytes: Vec<u8>,
    input: InputRef,
    signer: SignerIdentity,
    predicate: Predicate,
    timestamp: Option<Timestamp>,
    unchecked: Vec<&'static str>,
}

impl<T> Verified<T> {
    /// The verified value.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// The bytes of the manifest.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The digest of the manifest.
    pub fn manifest_digest(&self) -> Digest {
        self.input.manifest
    }

    /// The digest of the bundle.
    pub fn bundle_digest(&self) -> Digest {
        self.input.bundle
    }

    /// The identity of the signer.
    pub fn signer(&self) -> &SignerIdentity {
        &self.signer
    }

    /// The signer's predicate about the manifest.
    pub fn predicate(&self) -> &Predicate {
        &self.predicate
    }

    /// The time at which the signer states to have signed: "asserted", in the terms of a report.
    pub fn asserted_time(&self) -> Option<Instant> {
        self.predicate.asserted_time()
    }

    /// The checked timestamp over the signature, if there is one.
    pub fn timestamp(&self) -> Option<&Timestamp> {
        self.timestamp.as_ref()
    }

    /// Returns the signer as another trust policy names it. Fails if that policy does not let the key sign for `role` at that
    /// time.
    pub fn identify_under(&self, trust: &Trust, role: Role) -> Result<SignerIdentity, VerifyError> {
        let proven = self.timestamp.as_ref().map(|timestamp| timestamp.time);
        trust.identify(self.signer.fingerprint, role, SigningTime { asserted: self.asserted_time(), proven })
    }

    /// The parts of the bundle that were not checked, such as "timestamp". Nothing is trusted because of them.
    pub fn unchecked(&self) -> &[&'static str] {
        &self.unchecked
    }

    /// Returns the reference by which the next manifest names this one.
    pub fn input_ref(&self) -> InputRef {
        self.input
    }
}

impl Verified<Document> {
    /// Returns the same manifest with its type, if it is of that kind.
    pub fn downcast<B: Body>(self) -> Result<Verified<Manifest<B>>, VerifyError> {
        let Self { value, bytes, input, signer, predicate, timestamp, unchecked } = self;
        match B::from_document(&value) {
            Some(manifest) => Ok(Verified { value: manifest.clone(), bytes, input, signer, predicate, timestamp, unchecked }),
            None => Err(VerifyError::WrongKind { expected: B::KIND, found: value.kind() }),
        }
    }
}

/// Verifies a manifest with the bundle beside it.
///
/// Every value is checked before it is used, in this order: sizes; pinned digests; the bundle's shape; the key that its hint
/// names; the signature over the exact payload bytes; its timestamps; the statement; that its signer may sign for the role of
/// that statement at the asserted time and at the time that a timestamp proves; binary and image of the signer; the manifest's
/// digest. Only then is the manifest parsed, and compared: kind and predicate, run, every subject both ways, every input, the
/// origin that the trust policy requires, and the caller's expectations.
///
/// Without a timestamp, time is asserted: the validity of a key is compared with the time in the statement itself.
pub fn verify(
    manifest: &[u8],
    bundle: &[u8],
    trust: &Trust,
    expect: &ExpectedManifest<'_>,
) -> Result<Verified<Document>, VerifyError> {
    if manifest.len() as u64 > MAX_MANIFEST_BYTES {
        return Err(VerifyError::ManifestTooLarge(manifest.len() as u64));
    }
    let (manifest_digest, bundle_digest) = (Digest::compute(manifest), Digest::compute(bundle));
    expect.check_pins(manifest_digest, bundle_digest)?;
    let Bundle { key: fingerprint, envelope, timestamps, log_entries } = Bundle::parse(bundle).map_err(VerifyError::Bundle)?;
    if !envelope.is_signed_by(trust.key(fingerprint)?) {
        return Err(VerifyError::BadSignature(fingerprint));
    }
    let statement = Statement::parse(&envelope.payload).map_err(VerifyError::Statement)?;
    let stated = statement.kind;
    let asserted = statement.predicate.asserted_time();
    let timestamp = timestamp::check(&timestamps, &envelope.signature, trust.authorities())?;
    timestamp.as_ref().map_or(Ok(()), |timestamp| timestamp.check_not_before(asserted))?;
    let time = SigningTime { asserted, proven: timestamp.as_ref().map(|timestamp| timestamp.time) };
    let signer = trust.identify(fingerprint, stated.signer(), time)?;
    let covering = trust.requirements_for(stated.signer());
    if covering.needs_timestamp() && timestamp.is_none() {
        return Err(TimestampError::Missing.into());
    }
    covering.check_signer(&statement.predicate)?;
    check_manifest_digest(&statement.subjects, stated, manifest_digest)?;
    let document = Document::parse(manifest).map_err(|error| unreadable_error(error, stated, &statement.predicate))?;
    check_statement(&statement, stated, &document, manifest_digest)?;
    covering.check_run(&document)?;
    expect.check_header(document.header())?;
    let has_unchecked = [("timestamp", timestamp.is_none() && !timestamps.is_empty()), ("log entry", log_entries > 0)];
    let unchecked = has_unchecked.into_iter().filter(|(_, present)| *present).map(|(what, _)| what).collect();
    let input = InputRef { kind: document.kind(), manifest: manifest_digest, bundle: bundle_digest };
    let predicate = statement.predicate;
    Ok(Verified { value: document, bytes: manifest.to_vec(), input, signer, predicate, timestamp, unchecked })
}

/// Returns the error for a manifest that does not parse although its bytes are what its signer signed: if its fields are not
/// those of this build, it is of another format, which only the signer can have written.
fn unreadable_error(error: DocumentError, kind: Kind, predicate: &Predicate) -> VerifyError {
    match &error {
        DocumentError::Fields { kind: found, .. } if *found == kind => {}
        DocumentError::UnknownVersion(_) => {}
        _ => return VerifyError::Manifest(error),
    }
    let writer = match predicate {
        Predicate::Provenance(made) => format!("Assay {} (program {})", made.builder_version, made.builder_binary),
        Predicate::VerificationSummary(_) | Predicate::TestResult(_) => "the Assay that signed it".to_owned(),
    };
    VerifyError::OldFormat { kind, writer, source: error }
}

impl ExpectedManifest<'_> {
    fn check_pins(&self, manifest: Digest, bundle: Digest) -> Result<(), VerifyError> {
        match self.input {
            Some(&InputRef { kind, manifest: pinned, .. }) if pinned != manifest => {
                Err(VerifyError::ManifestReplaced { kind, pinned, found: manifest })
            }
            Some(&InputRef { kind, bundle: pinned, .. }) if pinned != bundle => {
                Err(VerifyError::BundleReplaced { kind, pinned, found: bundle })
            }
            _ => Ok(()),
        }
    }

    fn check_header(&self, header: &Header) -> Result<(), VerifyError> {
        for expected in [self.kind, self.input.map(|input| input.kind)].into_iter().flatten() {
            if expected != header.kind {
                return Err(VerifyError::WrongKind { expected, found: header.kind });
            }
        }
        match (self.stage, self.run_id) {
            (Some(expected), _) if expected != header.stage => Err(VerifyError::WrongStage { expected, found: header.stage }),
            (_, Some(expected)) => check_run(expected, &header.run_id),
            _ => Ok(()),
        }
    }
}

fn check_run(expected: &RunId, found: &RunId) -> Result<(), VerifyError> {
    if expected == found {
        return Ok(());
    }
    Err(VerifyError::WrongRun { expected: expected.clone(), found: found.clone() })
}

fn check_manifest_digest(subjects: &BTreeMap<String, Digest>, kind: Kind, found: Digest) -> Result<(), VerifyError> {
    let name = manifest_name(kind);
    match subjects.get(&name) {
        Some(stated) if *stated == found => Ok(()),
        Some(&stated) => Err(VerifyError::SubjectDigestMismatch { name, stated, found, is_manifest: true }),
        None => Err(VerifyError::SubjectMissing(name)),
    }
}

fn check_statement(statement: &Statement, stated: Kind, document: &Document, manifest: Digest) -> Result<(), VerifyError> {
    let kind = document.kind();
    let (expected, found) = (predicate_type(kind), statement.predicate.type_uri());
    if expected != found {
        return Err(VerifyError::WrongPredicateType { kind, expected, found });
    }
    if stated != kind {
        return Err(VerifyError::WrongBuildType { stated, found: kind });
    }
    let subjects = subjects::document_subjects(document, manifest).map_err(VerifyError::Subjects)?;
    check_subjects(&subjects, &statement.subjects)?;
    check_commit(subjects::commit(document), statement.commit.as_deref())?;
    check_result(&statement.predicate, document)?;
    check_inputs(&statement.predicate, document.header())
}

/// Checks both ways that every output of the manifest is a subject, and that there are no others.
fn check_subjects(expected: &BTreeMap<String, Digest>, stated: &BTreeMap<String, Digest>) -> Result<(), VerifyError> {
    for (name, &found) in expected {
        match stated.get(name) {
            Some(&digest) if digest == found => {}
            Some(&stated) => {
                return Err(VerifyError::SubjectDigestMismatch { name: name.clone(), stated, found, is_manifest: false });
            }
            None => return Err(VerifyError::SubjectMissing(name.clone())),
        }
    }
    match stated.keys().find(|name| !expected.contains_key(*name)) {
        Some(extra) => Err(VerifyError::SubjectExtra(crate::text::quote(extra))),
        None => Ok(()),
    }
}

/// Checks the commit: the result of a gate is about the commit that its verdict names, and no other statement names one.
fn check_commit(expected: Option<&str>, stated: Option<&str>) -> Result<(), VerifyError> {
    match (expected, stated) {
        (expected, stated) if expected == stated => Ok(()),
        (Some(_), None) => Err(VerifyError::SubjectMissing(subjects::COMMIT.to_owned())),
        (expected, _) => Err(VerifyError::OtherCommit { expected: expected.map(ToOwned::to_owned) }),
    }
}

fn check_result(predicate: &Predicate, document: &Document) -> Result<(), VerifyError> {
    match (predicate, document) {
        (Predicate::TestResult(result), Document::Verdict(verdict)) if !result.matches_verdict(&verdict.body) => {
            Err(VerifyError::OtherResult)
        }
        _ => Ok(()),
    }
}

fn check_inputs(predicate: &Predicate, header: &Header) -> Result<(), VerifyError> {
    let missing = match predicate {
        Predicate::Provenance(provenance) => {
            check_run(&header.run_id, &provenance.run_id)?;
            missing_among(header, &provenance.resolved_dependencies)
        }
        Predicate::VerificationSummary(summary) => {
            let listed: BTreeSet<_> = summary.input_attestations.iter().collect();
            let missing = header.inputs.iter().find(|input| !listed.contains(input));
            missing.map(|input| (input.kind, input.bundle))
        }
        Predicate::TestResult(result) => missing_among(header, &result.configuration),
    };
    match missing {
        Some((kind, digest)) => Err(VerifyError::DependencyMissing { kind, digest }),
        None => Ok(()),
    }
}

/// Returns the first input that is not listed.
fn missing_among(header: &Header, listed: &[ResourceDescriptor]) -> Option<(Kind, Digest)> {
    let listed: BTreeSet<_> = listed.iter().collect();
    let inputs = header.inputs.iter().flat_map(|input| describe_input(input).map(|descriptor| (input.kind, descriptor)));
    let mut missing = inputs.filter(|(_, descriptor)| !listed.contains(descriptor));
    missing.find_map(|(kind, descriptor)| descriptor.sha256().map(|digest| (kind, digest)))
}
