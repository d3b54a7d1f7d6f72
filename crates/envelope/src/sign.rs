//! Signing: a manifest and a predicate about it become canonical bytes and a bundle.

use assay_manifest::{Body, CanonicalError, Digest, Document, DocumentError, Header, InputRef, Kind, Manifest, Role, RunId};

use crate::bundle::{Bundle, MAX_BUNDLE_BYTES};
use crate::descriptor::{ResourceDescriptor, describe_input};
use crate::dsse::Envelope;
use crate::keys::Signer;
use crate::predicate::{Predicate, predicate_type};
use crate::statement::Statement;
use crate::statement_error::StatementError;
use crate::subjects::{self, SubjectError};

/// A value that can be signed: a manifest, typed or not.
pub trait Signable: private::Sealed {
    /// The canonical bytes.
    fn to_bytes(&self) -> Result<Vec<u8>, CanonicalError>;
}

mod private {
    pub trait Sealed {}
    impl Sealed for assay_manifest::Document {}
    impl<B: assay_manifest::Body> Sealed for assay_manifest::Manifest<B> {}
}

impl Signable for Document {
    fn to_bytes(&self) -> Result<Vec<u8>, CanonicalError> {
        Document::to_bytes(self)
    }
}

impl<B: Body> Signable for Manifest<B> {
    fn to_bytes(&self) -> Result<Vec<u8>, CanonicalError> {
        Manifest::to_bytes(self)
    }
}

/// The error of signing a manifest.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// The manifest has no canonical form.
    #[error("the manifest has no canonical form")]
    Canonical(#[source] CanonicalError),
    /// A reader would not accept the manifest.
    #[error("the manifest would not be accepted by a reader")]
    Manifest(#[source] DocumentError),
    /// The outputs cannot be subjects.
    #[error("the manifest's outputs cannot be subjects")]
    Subjects(#[source] SubjectError),
    /// The predicate is not one that this kind is signed with.
    #[error("a {kind} is signed with the predicate `{expected}`, not `{found}`")]
    WrongPredicate {
        /// The kind of manifest.
        kind: Kind,
        /// The predicate type of that kind.
        expected: &'static str,
        /// The predicate type that was given.
        found: &'static str,
    },
    /// The predicate is about another role.
    #[error("the manifest was made by {header}, but the provenance says {provenance}")]
    WrongRole {
        /// The role in the header.
        header: Role,
        /// The role in the provenance.
        provenance: Role,
    },
    /// The predicate is about another run.
    #[error("the manifest belongs to the run `{header}`, but the provenance says `{provenance}`")]
    WrongRun {
        /// The run in the header.
        header: RunId,
        /// The run in the provenance.
        provenance: RunId,
    },
    /// A reader would not accept the statement.
    #[error("the statement would not be accepted by a reader")]
    Statement(#[source] StatementError),
    /// The signing operation failed.
    #[error("the key did not sign")]
    Key(#[source] p256::ecdsa::Error),
    /// The bundle has no JSON form.
    #[error("the bundle has no JSON form")]
    Bundle(#[source] serde_json::Error),
    /// The bundle would exceed the size limit of readers.
    #[error("the bundle would have {0} bytes, more than the limit of {MAX_BUNDLE_BYTES}")]
    TooLarge(usize),
}

/// A manifest's bytes and the bundle over them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedManifest {
    /// The kind of manifest.
    pub kind: Kind,
    /// The canonical bytes of the manifest.
    pub manifest: Vec<u8>,
    /// The bytes of the bundle.
    pub bundle: Vec<u8>,
    /// The digest of the manifest.
    pub manifest_digest: Digest,
    /// The digest of the bundle.
    pub bundle_digest: Digest,
}

impl SignedManifest {
    /// Returns the reference by which the next manifest names this one.
    pub fn input_ref(&self) -> InputRef {
        InputRef { kind: self.kind, manifest: self.manifest_digest, bundle: self.bundle_digest }
    }
}

/// Signs a manifest. The subjects are the manifest and its outputs; the header's inputs are added to the lists of `predicate`.
///
/// The same manifest, key and predicate give the same bytes. A manifest that would not verify is refused here, before the key is
/// used.
pub fn sign(document: &impl Signable, signer: &Signer, predicate: impl Into<Predicate>) -> Result<SignedManifest, SignError> {
    let manifest = document.to_bytes().map_err(SignError::Canonical)?;
    let document = Document::parse(&manifest).map_err(SignError::Manifest)?;
    let predicate = add_inputs(predicate.into(), document.header())?;
    let manifest_digest = Digest::compute(&manifest);
    let statement = Statement {
        kind: document.kind(),
        commit: subjects::commit(&document).map(ToOwned::to_owned),
        subjects: subjects::document_subjects(&document, manifest_digest).map_err(SignError::Subjects)?,
        predicate,
    };
    let bundle = seal(&statement, signer)?;
    Ok(SignedManifest { kind: document.kind(), bundle_digest: Digest::compute(&bundle), manifest, bundle, manifest_digest })
}

pub(crate) fn seal(statement: &Statement, signer: &Signer) -> Result<Vec<u8>, SignError> {
    let payload = statement.to_bytes().map_err(SignError::Statement)?;
    let envelope = Envelope::seal(payload, signer).map_err(SignError::Key)?;
    let bundle = Bundle { key: signer.public_key().fingerprint(), envelope, timestamps: Vec::new(), log_entries: 0 }
        .to_bytes()
        .map_err(SignError::Bundle)?;
    if bundle.len() > MAX_BUNDLE_BYTES { Err(SignError::TooLarge(bundle.len())) } else { Ok(bundle) }
}

/// Checks that the predicate is about this manifest, and adds the manifest's inputs to it, so that none can be forgotten.
fn add_inputs(mut predicate: Predicate, header: &Header) -> Result<Predicate, SignError> {
    let (expected, found) = (predicate_type(header.kind), predicate.type_uri());
    if found != expected {
        return Err(SignError::WrongPredicate { kind: header.kind, expected, found });
    }
    match &mut predicate {
        Predicate::Provenance(provenance) => {
            if provenance.role != header.stage {
                return Err(SignError::WrongRole { header: header.stage, provenance: provenance.role });
            }
            if provenance.run_id != header.run_id {
                return Err(SignError::WrongRun { header: header.run_id.clone(), provenance: provenance.run_id.clone() });
            }
            list_inputs(header, &mut provenance.resolved_dependencies);
        }
        Predicate::VerificationSummary(summary) => {
            summary.input_attestations.extend(&header.inputs);
            summary.input_attestations.sort_unstable();
            summary.input_attestations.dedup();
        }
        Predicate::TestResult(result) => list_inputs(header, &mut result.configuration),
    }
    Ok(predicate)
}

/// Appends the header's inputs to a list, each once.
fn list_inputs(header: &Header, listed: &mut Vec<ResourceDescriptor>) {
    let inputs: Vec<_> = header.inputs.iter().flat_map(describe_input).collect();
    listed.retain(|descriptor| !inputs.contains(descriptor));
    listed.extend(inputs);
}
