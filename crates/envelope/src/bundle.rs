//! The Sigstore bundle v0.3, the file `manifest.sigstore.json` beside a manifest.
//!
//! Written in the form of a bundle that cosign makes with a key and without a log. There is no `tlogEntries` member: the JSON
//! mapping leaves empty lists out, and npm `@sigstore/bundle` 5.0.1, sigstore-go and cosign read it as empty. Read strictly: an
//! unknown member is refused by its name, never skipped. Timestamps are read, and checked against the authorities of a trust
//! policy. Log entries are counted and not checked: nothing is trusted because of them.

use assay_manifest::Digest;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::dsse::{Envelope, PAYLOAD_TYPE};
use crate::text::{from_base64, quote, to_base64};
use crate::timestamp::MAX_TIMESTAMPS;

/// The media type of the only bundle format that is written and read.
pub const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// The largest bundle that is read: a thousand subjects and twenty thousand dependencies fit, an endless file does not.
pub const MAX_BUNDLE_BYTES: usize = 16 << 20;

/// The largest number of log entries of one bundle.
const MAX_LOG_ENTRIES: usize = 32;

/// The reason why this build cannot check a bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
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
    #[error("keyless bundles need a certificate authority and a log to check against, which this build does not have")]
    Keyless,
    /// The bundle signs raw bytes instead of a statement.
    #[error("the bundle signs a message, not a statement, so it says nothing about who made what from what")]
    MessageSignature,
    /// The envelope has no signature, or more than one.
    #[error("the bundle has {0} signatures; expected exactly one")]
    SignatureCount(usize),
    /// The envelope does not hold a statement.
    #[error("the bundle holds a payload of type `{0}`; expected `{PAYLOAD_TYPE}`")]
    WrongPayloadType(String),
    /// The bundle has more timestamps or log entries than the limit.
    #[error("the bundle has {found} {what}, more than the limit of {limit}")]
    TooMany {
        /// The items that exceed the limit.
        what: &'static str,
        /// Their number.
        found: usize,
        /// The limit.
        limit: usize,
    },
}

/// A bundle with a key's fingerprint and one envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// The fingerprint of the key that the bundle claims, from its hint.
    pub key: Digest,
    /// The signed statement.
    pub envelope: Envelope,
    /// RFC 3161 timestamps over the signature, in DER: TimeStampResponses.
    pub timestamps: Vec<Vec<u8>>,
    /// The number of transparency log entries, which are not checked.
    pub log_entries: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireBundle {
    media_type: String,
    verification_material: WireMaterial,
    #[serde(skip_serializing_if = "Option::is_none")]
    dsse_envelope: Option<WireEnvelope>,
    #[serde(skip_serializing)]
    message_signature: Option<IgnoredAny>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireMaterial {
    #[serde(skip_serializing_if = "Option::is_none")]
    public_key: Option<WireKey>,
    #[serde(skip_serializing)]
    certificate: Option<IgnoredAny>,
    #[serde(skip_serializing)]
    x509_certificate_chain: Option<IgnoredAny>,
    #[serde(skip_serializing)]
    tlog_entries: Option<Vec<IgnoredAny>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp_verification_data: Option<WireTimestamps>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireTimestamps {
    #[serde(default)]
    rfc3161_timestamps: Vec<WireTimestamp>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireTimestamp {
    signed_timestamp: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireKey {
    hint: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireEnvelope {
    payload: String,
    payload_type: String,
    signatures: Vec<WireSignature>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireSignature {
    sig: String,
}

/// The member of a bundle that states its version, so that an older bundle is refused for its version and not for other members.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BundleVersion {
    media_type: String,
}

impl Bundle {
    /// Returns the bytes of the bundle: compact JSON, equal for equal bundles.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        let public_key = WireKey { hint: to_base64(self.key.as_bytes()) };
        let timestamps = self.timestamps.iter().map(|der| WireTimestamp { signed_timestamp: to_base64(der) });
        let timestamps = WireTimestamps { rfc3161_timestamps: timestamps.collect() };
        let envelope = WireEnvelope {
            payload: to_base64(&self.envelope.payload),
            payload_type: PAYLOAD_TYPE.to_owned(),
            signatures: vec![WireSignature { sig: to_base64(&self.envelope.signature) }],
        };
        serde_json::to_vec(&WireBundle {
            media_type: MEDIA_TYPE.to_owned(),
            verification_material: WireMaterial {
                public_key: Some(public_key),
                certificate: None,
                x509_certificate_chain: None,
                tlog_entries: None,
                timestamp_verification_data: Some(timestamps).filter(|timestamps| !timestamps.rfc3161_timestamps.is_empty()),
            },
            dsse_envelope: Some(envelope),
            message_signature: None,
        })
    }

    /// Parses a bundle from bytes that may be hostile. Its contents are not trusted yet.
    pub fn parse(bytes: &[u8]) -> Result<Self, BundleError> {
        if bytes.len() > MAX_BUNDLE_BYTES {
            return Err(BundleError::TooLarge(bytes.len()));
        }
        let peek: BundleVersion = serde_json::from_slice(bytes).map_err(BundleError::Malformed)?;
        if peek.media_type != MEDIA_TYPE {
            return Err(BundleError::UnknownVersion(quote(&peek.media_type)));
        }
        let wire: WireBundle = serde_json::from_slice(bytes).map_err(BundleError::Malformed)?;
        if wire.message_signature.is_some() {
            return Err(BundleError::MessageSignature);
        }
        let Material { key, timestamps, log_entries } = read_material(wire.verification_material)?;
        let envelope = read_envelope(wire.dsse_envelope.ok_or(BundleError::Member("dsseEnvelope"))?)?;
        Ok(Self { key, envelope, timestamps, log_entries })
    }
}

struct Material {
    key: Digest,
    timestamps: Vec<Vec<u8>>,
    log_entries: usize,
}

fn read_material(material: WireMaterial) -> Result<Material, BundleError> {
    if material.certificate.is_some() || material.x509_certificate_chain.is_some() {
        return Err(BundleError::Keyless);
    }
    let log_entries = material.tlog_entries.map_or(0, |entries| entries.len());
    check_count("log entries", log_entries, MAX_LOG_ENTRIES)?;
    let timestamps = material.timestamp_verification_data.map_or_else(Vec::new, |data| data.rfc3161_timestamps);
    check_count("timestamps", timestamps.len(), MAX_TIMESTAMPS)?;
    let malformed = BundleError::Member("verificationMaterial.timestampVerificationData.rfc3161Timestamps[].signedTimestamp");
    let timestamps = timestamps.iter().map(|timestamp| from_base64(&timestamp.signed_timestamp)).collect::<Option<_>>();
    let hint = material.public_key.ok_or(BundleError::Member("verificationMaterial.publicKey"))?.hint;
    let fingerprint = from_base64(&hint).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    let key = fingerprint.map(Digest::from_bytes).ok_or(BundleError::Member("verificationMaterial.publicKey.hint"))?;
    Ok(Material { key, timestamps: timestamps.ok_or(malformed)?, log_entries })
}

fn check_count(what: &'static str, found: usize, limit: usize) -> Result<(), BundleError> {
    if found <= limit { Ok(()) } else { Err(BundleError::TooMany { what, found, limit }) }
}

fn read_envelope(envelope: WireEnvelope) -> Result<Envelope, BundleError> {
    if envelope.payload_type != PAYLOAD_TYPE {
        return Err(BundleError::WrongPayloadType(quote(&envelope.payload_type)));
    }
    let [signature] = envelope.signatures.as_slice() else {
        return Err(BundleError::SignatureCount(envelope.signatures.len()));
    };
    let decode = |text: &str, member| from_base64(text).ok_or(BundleError::Member(member));
    Ok(Envelope {
        payload: decode(&envelope.payload, "dsseEnvelope.payload")?,
        signature: decode(&signature.sig, "dsseEnvelope.signatures[0].sig")?,
    })
}
