//! Bundles of any signer over any file, as `assay verify-bundle` checks them and clients of other projects do.
//!
//! Key mode only. The bundle is a message signature over the file, or a DSSE envelope around an in-toto statement with the file
//! as a subject. The statement proves only that the key signed it about this file.

use assay_failure::ErrorCode;
use assay_manifest::Digest;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::bundle::{MAX_BUNDLE_BYTES, MEDIA_TYPE};
use crate::dsse::{PAYLOAD_TYPE, pae};
use crate::keys::PublicKey;
use crate::predicate::STATEMENT_TYPE;
use crate::statement::MAX_SUBJECTS;
use crate::text::{from_base64, quote};

/// The statement format before version 1, which some signers still write.
const OLD_STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v0.1";

/// A bundle whose signature was checked over a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedBundle {
    /// The predicate type of the statement about the file; `None` if the file itself is signed.
    pub predicate_type: Option<String>,
    /// The number of log entries, which were not checked.
    pub log_entries: usize,
    /// The number of timestamps, which were not checked.
    pub timestamps: usize,
}

/// The error of checking a bundle against a file.
#[derive(Debug, thiserror::Error)]
pub enum ForeignBundleError {
    /// The bundle is larger than [`MAX_BUNDLE_BYTES`].
    #[error("the bundle has {0} bytes, more than the limit of {MAX_BUNDLE_BYTES}")]
    TooLarge(usize),
    /// The bundle is not JSON, or does not have the members of a bundle.
    #[error("the bundle does not parse")]
    Malformed(#[source] serde_json::Error),
    /// A member is missing or malformed.
    #[error("the bundle's `{0}` is missing or malformed")]
    Member(&'static str),
    /// The bundle has another version.
    #[error("the bundle has media type `{0}`; this build reads `{MEDIA_TYPE}`")]
    UnknownVersion(String),
    /// The bundle has a certificate instead of a key.
    #[error(
        "the bundle has a certificate: keyless bundles need a certificate authority and a log, which this build does not check"
    )]
    Keyless,
    /// The envelope has no signature, or more than one.
    #[error("the envelope has {0} signatures; expected exactly one")]
    SignatureCount(usize),
    /// The envelope does not hold a statement.
    #[error("the envelope holds a payload of type `{0}`; expected `{PAYLOAD_TYPE}`")]
    WrongPayloadType(String),
    /// The payload is not an in-toto statement.
    #[error("the envelope's payload is not an in-toto statement")]
    Statement,
    /// The signature is not by the key.
    #[error("the signature is not by the key {0}")]
    BadSignature(Digest),
    /// The bundle is about another file.
    #[error("the bundle is not about {0}")]
    OtherFile(Digest),
}

impl ForeignBundleError {
    /// Returns the stable identifier of the error.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::TooLarge(_) => ErrorCode::BundleTooLarge,
            Self::Malformed(_) | Self::Member(_) => ErrorCode::BundleMalformed,
            Self::UnknownVersion(_) => ErrorCode::UnknownBundleVersion,
            Self::Keyless => ErrorCode::KeylessBundle,
            Self::SignatureCount(_) => ErrorCode::SignatureCount,
            Self::WrongPayloadType(_) => ErrorCode::WrongPayloadType,
            Self::Statement => ErrorCode::StatementMalformed,
            Self::BadSignature(_) => ErrorCode::BadSignature,
            Self::OtherFile(_) => ErrorCode::OtherFile,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnyBundle {
    verification_material: Material,
    dsse_envelope: Option<AnyEnvelope>,
    message_signature: Option<MessageSignature>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Material {
    public_key: Option<IgnoredAny>,
    certificate: Option<IgnoredAny>,
    x509_certificate_chain: Option<IgnoredAny>,
    #[serde(default)]
    tlog_entries: Vec<IgnoredAny>,
    timestamp_verification_data: Option<Timestamps>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Timestamps {
    #[serde(default)]
    rfc3161_timestamps: Vec<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnyEnvelope {
    payload: String,
    payload_type: String,
    signatures: Vec<AnySignature>,
}

#[derive(Deserialize)]
struct AnySignature {
    sig: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageSignature {
    message_digest: Option<MessageDigest>,
    signature: String,
}

#[derive(Deserialize)]
struct MessageDigest {
    algorithm: String,
    digest: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnyStatement {
    #[serde(rename = "_type")]
    statement_type: String,
    subject: Vec<Subject>,
    predicate_type: String,
}

#[derive(Deserialize)]
struct Subject {
    digest: SubjectDigest,
}

#[derive(Deserialize)]
struct SubjectDigest {
    sha256: Option<String>,
}

/// The member of a bundle that states its version.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BundleVersion {
    media_type: String,
}

/// Checks that `key` signed the bundle about the file with the SHA-256 `file`.
pub fn check_bundle(bundle: &[u8], key: &PublicKey, file: Digest) -> Result<CheckedBundle, ForeignBundleError> {
    if bundle.len() > MAX_BUNDLE_BYTES {
        return Err(ForeignBundleError::TooLarge(bundle.len()));
    }
    let peek: BundleVersion = serde_json::from_slice(bundle).map_err(ForeignBundleError::Malformed)?;
    if peek.media_type != MEDIA_TYPE {
        return Err(ForeignBundleError::UnknownVersion(quote(&peek.media_type)));
    }
    let AnyBundle { verification_material: material, dsse_envelope, message_signature } =
        serde_json::from_slice(bundle).map_err(ForeignBundleError::Malformed)?;
    if material.certificate.is_some() || material.x509_certificate_chain.is_some() {
        return Err(ForeignBundleError::Keyless);
    }
    material.public_key.ok_or(ForeignBundleError::Member("verificationMaterial.publicKey"))?;
    let predicate_type = match (dsse_envelope, message_signature) {
        (Some(envelope), None) => Some(check_envelope(&envelope, key, file)?),
        (None, Some(signature)) => {
            check_message(&signature, key, file)?;
            None
        }
        _ => return Err(ForeignBundleError::Member("dsseEnvelope or messageSignature")),
    };
    Ok(CheckedBundle {
        predicate_type,
        log_entries: material.tlog_entries.len(),
        timestamps: material.timestamp_verification_data.map_or(0, |data| data.rfc3161_timestamps.len()),
    })
}

fn check_message(message: &MessageSignature, key: &PublicKey, file: Digest) -> Result<(), ForeignBundleError> {
    let malformed = ForeignBundleError::Member;
    if let Some(stated) = &message.message_digest {
        if stated.algorithm != "SHA2_256" {
            return Err(malformed("messageSignature.messageDigest.algorithm"));
        }
        let digest = from_base64(&stated.digest).ok_or(malformed("messageSignature.messageDigest.digest"))?;
        if digest != file.as_bytes() {
            return Err(ForeignBundleError::OtherFile(file));
        }
    }
    let signature = from_base64(&message.signature).ok_or(malformed("messageSignature.signature"))?;
    if key.verifies_digest(file, &signature) { Ok(()) } else { Err(ForeignBundleError::BadSignature(key.fingerprint())) }
}

/// Checks the envelope, and returns the predicate type.
fn check_envelope(envelope: &AnyEnvelope, key: &PublicKey, file: Digest) -> Result<String, ForeignBundleError> {
    if envelope.payload_type != PAYLOAD_TYPE {
        return Err(ForeignBundleError::WrongPayloadType(quote(&envelope.payload_type)));
    }
    let [signature] = envelope.signatures.as_slice() else {
        return Err(ForeignBundleError::SignatureCount(envelope.signatures.len()));
    };
    let payload = from_base64(&envelope.payload).ok_or(ForeignBundleError::Member("dsseEnvelope.payload"))?;
    let signature = from_base64(&signature.sig).ok_or(ForeignBundleError::Member("dsseEnvelope.signatures[0].sig"))?;
    if !key.verifies(&pae(PAYLOAD_TYPE, &payload), &signature) {
        return Err(ForeignBundleError::BadSignature(key.fingerprint()));
    }
    let statement: AnyStatement = serde_json::from_slice(&payload).map_err(|_| ForeignBundleError::Statement)?;
    if ![STATEMENT_TYPE, OLD_STATEMENT_TYPE].contains(&statement.statement_type.as_str())
        || statement.subject.len() > MAX_SUBJECTS
    {
        return Err(ForeignBundleError::Statement);
    }
    let hex = file.hex();
    let is_subject = statement.subject.iter().any(|subject| subject.digest.sha256.as_deref() == Some(hex.as_str()));
    if is_subject { Ok(quote(&statement.predicate_type)) } else { Err(ForeignBundleError::OtherFile(file)) }
}
