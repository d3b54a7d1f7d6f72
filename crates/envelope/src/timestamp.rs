//! RFC 3161 timestamps: proof of a signature's time that does not come from its signer.
//!
//! As in Sigstore, the timestamp in a bundle is a DER TimeStampResponse over the bytes of the bundle's signature. It is trusted
//! if its certificate chains to a root that the trust policy names, is meant for timestamping, and was valid at the stated time.

use assay_failure::ErrorCode;
use std::time::Duration;

use assay_manifest::Instant;
use der::asn1::{AnyRef, ObjectIdentifier};
use der::{Decode as _, Encode as _, Reader as _, SliceReader, Tag, TagNumber, Tagged as _};
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm, TrustAnchor, UnixTime};
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert, aws_lc_rs as algorithms};

/// The largest timestamp response that is read; responses with a chain of certificates have some 6 KiB.
pub(crate) const MAX_TIMESTAMP_BYTES: usize = 64 << 10;
/// The largest number of timestamps of one bundle.
pub(crate) const MAX_TIMESTAMPS: usize = 8;
/// The largest number of certificates of one authority.
const MAX_CERTIFICATES: usize = 8;
/// The largest difference by which a signer's clock may be ahead of an authority's.
const CLOCK_TOLERANCE_NS: i64 = 300 * 1_000_000_000;

const SIGNED_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.2");
const TST_INFO: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.16.1.4");
const CONTENT_TYPE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.3");
const MESSAGE_DIGEST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.4");
const SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");
const SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.2");
const SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.3");
/// id-kp-timeStamping, 1.3.6.1.5.5.7.3.8, as the value bytes of its DER form.
const TIME_STAMPING: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x08];

/// The signature algorithms that certificates of an authority may use.
static CERTIFICATE_ALGORITHMS: &[&dyn SignatureVerificationAlgorithm] = &[
    algorithms::ECDSA_P256_SHA256,
    algorithms::ECDSA_P256_SHA384,
    algorithms::ECDSA_P384_SHA256,
    algorithms::ECDSA_P384_SHA384,
    algorithms::ED25519,
    algorithms::RSA_PKCS1_2048_8192_SHA256,
    algorithms::RSA_PKCS1_2048_8192_SHA384,
    algorithms::RSA_PKCS1_2048_8192_SHA512,
];

/// A trusted timestamp authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimestampAuthority {
    /// Its name, for reports.
    pub name: String,
    /// Its certificate chain in DER; the last is the trusted root.
    certificates: Vec<Vec<u8>>,
    /// Timestamps before this instant are refused.
    pub not_before: Option<Instant>,
    /// Timestamps after this instant are refused.
    pub not_after: Option<Instant>,
}

/// The error of parsing an authority's certificate chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("certificate {place} of the chain cannot be used: {problem}")]
pub struct AuthorityError {
    place: usize,
    problem: String,
}

/// A timestamp that was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timestamp {
    /// The time at which the signature existed.
    pub time: Instant,
    /// The name of the authority in the trust policy.
    pub authority: String,
}

/// The reason why a timestamp is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimestampError {
    /// The bytes are not a granted response with one signature in DER.
    #[error("the timestamp is malformed: {0}")]
    Malformed(&'static str),
    /// The timestamp is over other bytes than the bundle's signature.
    #[error("the timestamp is over another signature")]
    OtherSignature,
    /// No authority of the policy has issued it.
    #[error("the timestamp of {time} is by no authority of the trust policy: {problem}")]
    UnknownAuthority {
        /// The time that it states.
        time: Instant,
        /// The reason why the last authority does not vouch for it.
        problem: String,
    },
    /// The timestamp is earlier than the signer asserts.
    #[error("the timestamp is of {time}, but the statement asserts that it was made at {asserted}")]
    Contradicted {
        /// The time of the timestamp.
        time: Instant,
        /// The time in the statement.
        asserted: Instant,
    },
    /// The trust policy requires a timestamp.
    #[error("the trust policy requires a timestamp, and the bundle has none that was checked")]
    Missing,
}

impl TimestampError {
    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::Malformed(_) => ErrorCode::TimestampMalformed,
            Self::OtherSignature => ErrorCode::TimestampOtherSignature,
            Self::UnknownAuthority { .. } => ErrorCode::TimestampUnknownAuthority,
            Self::Contradicted { .. } => ErrorCode::TimestampContradicted,
            Self::Missing => ErrorCode::TimestampMissing,
        }
    }
}

impl TimestampAuthority {
    /// Creates an authority from a certificate chain as PEM text, the trusted root last.
    pub fn new(name: impl Into<String>, pem: &str) -> Result<Self, AuthorityError> {
        let certificates = read_chain(pem)?;
        Ok(Self { name: name.into(), certificates, not_before: None, not_after: None })
    }

    /// The certificate chain as PEM text.
    pub(crate) fn to_pem(&self) -> String {
        let encode = |der: &Vec<u8>| der::pem::encode_string("CERTIFICATE", der::pem::LineEnding::LF, der).unwrap_or_default();
        self.certificates.iter().map(encode).collect()
    }

    fn is_valid_at(&self, time: Instant) -> bool {
        self.not_before.is_none_or(|first| first <= time) && self.not_after.is_none_or(|last| time <= last)
    }

    /// Checks that a certificate of this authority signed the token.
    fn check_token(&self, token: &Token) -> Result<(), String> {
        if !self.is_valid_at(token.time) {
            return Err(format!("`{}` is not valid then", self.name));
        }
        let Some((root, between)) = self.certificates.split_last() else { return Err("no root".to_owned()) };
        let root = CertificateDer::from(root.as_slice());
        let anchor = anchor_from_trusted_cert(&root).map_err(|error| format!("root of `{}`: {error}", self.name))?;
        let all: Vec<CertificateDer<'_>> =
            between.iter().chain(&token.certificates).map(|der| CertificateDer::from(der.as_slice())).collect();
        let signers = all.iter().filter(|certificate| token.may_be_signed_by(certificate));
        let mut problem = format!("`{}` has no certificate of its signer", self.name);
        for signer in signers {
            match check_signer(signer, &all, &anchor, token) {
                Ok(()) => return Ok(()),
                Err(error) => problem = format!("`{}`: {error}", self.name),
            }
        }
        Err(problem)
    }
}

fn check_signer(
    signer: &CertificateDer<'_>,
    between: &[CertificateDer<'_>],
    anchor: &TrustAnchor<'_>,
    token: &Token,
) -> Result<(), webpki::Error> {
    let certificate = EndEntityCert::try_from(signer)?;
    let seconds = u64::try_from(token.time.unix_ns() / 1_000_000_000).unwrap_or_default();
    let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    let anchors = std::slice::from_ref(anchor);
    let usage = KeyUsage::required(TIME_STAMPING);
    certificate.verify_for_usage(CERTIFICATE_ALGORITHMS, anchors, between, time, usage, None, None)?;
    let mut result = Err(webpki::Error::InvalidSignatureForPublicKey);
    for algorithm in signature_algorithms(token.digest_algorithm) {
        result = certificate.verify_signature(*algorithm, &token.signed, &token.signature);
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Returns the signature algorithms with this digest algorithm. The certificate's key decides which one applies.
fn signature_algorithms(digest: ObjectIdentifier) -> &'static [&'static dyn SignatureVerificationAlgorithm] {
    static WITH_SHA256: &[&dyn SignatureVerificationAlgorithm] =
        &[algorithms::ECDSA_P256_SHA256, algorithms::ECDSA_P384_SHA256, algorithms::RSA_PKCS1_2048_8192_SHA256];
    static WITH_SHA384: &[&dyn SignatureVerificationAlgorithm] =
        &[algorithms::ECDSA_P256_SHA384, algorithms::ECDSA_P384_SHA384, algorithms::RSA_PKCS1_2048_8192_SHA384];
    static WITH_SHA512: &[&dyn SignatureVerificationAlgorithm] = &[
        algorithms::ECDSA_P256_SHA512,
        algorithms::ECDSA_P384_SHA512,
        algorithms::RSA_PKCS1_2048_8192_SHA512,
        algorithms::ED25519,
    ];
    match digest {
        SHA256 => WITH_SHA256,
        SHA384 => WITH_SHA384,
        SHA512 => WITH_SHA512,
        _ => &[],
    }
}

fn read_chain(pem: &str) -> Result<Vec<Vec<u8>>, AuthorityError> {
    const END: &str = "-----END CERTIFICATE-----";
    let texts: Vec<_> = pem.split_inclusive(END).filter(|text| !text.trim().is_empty()).collect();
    if texts.is_empty() || texts.len() > MAX_CERTIFICATES {
        let problem = format!("a chain has 1 to {MAX_CERTIFICATES} certificates");
        return Err(AuthorityError { place: texts.len(), problem });
    }
    texts.iter().enumerate().map(|(index, text)| read_certificate(index + 1, text)).collect()
}

fn read_certificate(place: usize, text: &str) -> Result<Vec<u8>, AuthorityError> {
    let refuse = |problem: String| AuthorityError { place, problem };
    let (label, der) = der::pem::decode_vec(text.trim().as_bytes()).map_err(|error| refuse(error.to_string()))?;
    if label != "CERTIFICATE" {
        return Err(refuse("it is no certificate".to_owned()));
    }
    anchor_from_trusted_cert(&CertificateDer::from(der.as_slice())).map_err(|error| refuse(error.to_string()))?;
    Ok(der)
}

/// Returns the earliest time at which an authority vouches for the signature. `None` if there is no timestamp, or no authority to
/// check one against.
pub(crate) fn check(
    timestamps: &[Vec<u8>],
    signature: &[u8],
    authorities: &[TimestampAuthority],
) -> Result<Option<Timestamp>, TimestampError> {
    if authorities.is_empty() {
        return Ok(None);
    }
    let checked =
        timestamps.iter().map(|response| check_timestamp(response, signature, authorities)).collect::<Result<Vec<_>, _>>()?;
    Ok(checked.into_iter().min_by_key(|timestamp| timestamp.time))
}

/// Checks one timestamp, a DER TimeStampResponse, over a signature's bytes.
pub fn check_timestamp(
    response: &[u8],
    signature: &[u8],
    authorities: &[TimestampAuthority],
) -> Result<Timestamp, TimestampError> {
    let token = Token::read(response)?;
    if digest(token.imprint_algorithm, signature).as_deref() != Some(&token.imprint) {
        return Err(TimestampError::OtherSignature);
    }
    let mut problem = String::new();
    for authority in authorities {
        match authority.check_token(&token) {
            Ok(()) => return Ok(Timestamp { time: token.time, authority: authority.name.clone() }),
            Err(error) => problem = error,
        }
    }
    Err(TimestampError::UnknownAuthority { time: token.time, problem })
}

impl Timestamp {
    /// Checks that the signature is not older than its asserted time.
    pub(crate) fn check_not_before(&self, asserted: Option<Instant>) -> Result<(), TimestampError> {
        let latest = self.time.unix_ns().saturating_add(CLOCK_TOLERANCE_NS);
        match asserted {
            Some(asserted) if asserted.unix_ns() > latest => Err(TimestampError::Contradicted { time: self.time, asserted }),
            _ => Ok(()),
        }
    }
}

/// A timestamp token whose own digests agree; it is not trusted yet.
struct Token {
    time: Instant,
    imprint_algorithm: ObjectIdentifier,
    imprint: Vec<u8>,
    certificates: Vec<Vec<u8>>,
    /// Issuer and serial number of the signer's certificate; `None` if it is named by its key.
    signer: Option<(Vec<u8>, Vec<u8>)>,
    digest_algorithm: ObjectIdentifier,
    /// The bytes that the signature covers.
    signed: Vec<u8>,
    signature: Vec<u8>,
}

impl Token {
    fn read(response: &[u8]) -> Result<Self, TimestampError> {
        let malformed = TimestampError::Malformed;
        if response.len() > MAX_TIMESTAMP_BYTES {
            return Err(malformed("it is too large"));
        }
        let data = read_response(response).ok_or(malformed("it is no response with a token"))?;
        let data = SignedData::read(data).ok_or(malformed("the signed data does not parse"))?;
        let signed = data.signed_bytes()?;
        let (imprint_algorithm, imprint, time) =
            read_info(data.content).ok_or(malformed("the statement of the time does not parse"))?;
        Ok(Self {
            time,
            imprint_algorithm,
            imprint,
            certificates: data.certificates,
            signer: data.signer,
            digest_algorithm: data.digest_algorithm,
            signed,
            signature: data.signature.to_vec(),
        })
    }

    /// Returns true if the token may name this certificate. If it names a key, every certificate is tried, and those that did not
    /// sign are refused.
    fn may_be_signed_by(&self, certificate: &[u8]) -> bool {
        let Some((issuer, serial)) = &self.signer else { return true };
        issuer_and_serial(certificate).is_some_and(|found| found == (issuer.as_slice(), serial.as_slice()))
    }
}

/// Issuer and serial number of a certificate (RFC 5280, section 4.1), as the bytes of their values.
fn issuer_and_serial(certificate: &[u8]) -> Option<(&[u8], &[u8])> {
    let [certificate] = parts(certificate)?[..] else { return None };
    let fields = elements_of(*elements_of(certificate, Tag::Sequence)?.first()?, Tag::Sequence)?;
    // A version-1 certificate has no version field.
    match &fields[..] {
        [version, serial, _, issuer, ..] if version.tag() == EXPLICIT_0 => Some((issuer.value(), serial.value())),
        [serial, _, issuer, ..] => Some((issuer.value(), serial.value())),
        _ => None,
    }
}

/// The largest number of elements of one value that are read: far more than any token has.
const MAX_PARTS: usize = 64;
const EXPLICIT_0: Tag = Tag::ContextSpecific { constructed: true, number: TagNumber::N0 };

/// Returns the consecutive elements in `bytes`.
fn parts(bytes: &[u8]) -> Option<Vec<AnyRef<'_>>> {
    let mut reader = SliceReader::new(bytes).ok()?;
    let mut found = Vec::new();
    while !reader.is_finished() {
        if found.len() == MAX_PARTS {
            return None;
        }
        found.push(AnyRef::decode(&mut reader).ok()?);
    }
    Some(found)
}

/// Returns the elements of a value with this tag.
fn elements_of(value: AnyRef<'_>, tag: Tag) -> Option<Vec<AnyRef<'_>>> {
    (value.tag() == tag).then(|| parts(value.value()))?
}

/// Returns the bytes of a value with this tag.
fn bytes_of(value: AnyRef<'_>, tag: Tag) -> Option<&[u8]> {
    (value.tag() == tag).then(|| value.value())
}

fn oid_of(value: AnyRef<'_>) -> Option<ObjectIdentifier> {
    ObjectIdentifier::from_bytes(bytes_of(value, Tag::ObjectIdentifier)?).ok()
}

/// Returns the object identifier of an AlgorithmIdentifier.
fn algorithm_of(value: AnyRef<'_>) -> Option<ObjectIdentifier> {
    oid_of(*elements_of(value, Tag::Sequence)?.first()?)
}

/// Returns the content of the token's ContentInfo in a TimeStampResp (RFC 3161, section 2.4.2), whose status 0 or 1 means that it
/// was granted.
fn read_response(response: &[u8]) -> Option<AnyRef<'_>> {
    let [response] = parts(response)?[..] else { return None };
    let [status, token] = elements_of(response, Tag::Sequence)?[..] else { return None };
    let status = bytes_of(*elements_of(status, Tag::Sequence)?.first()?, Tag::Integer)?;
    let [kind, content] = elements_of(token, Tag::Sequence)?[..] else { return None };
    let [content] = elements_of(content, EXPLICIT_0)?[..] else { return None };
    (matches!(status, [0 | 1]) && oid_of(kind)? == SIGNED_DATA).then_some(content)
}

/// CMS SignedData (RFC 5652, section 5.1) over a TSTInfo, with one signer.
struct SignedData<'a> {
    content: &'a [u8],
    certificates: Vec<Vec<u8>>,
    signer: Option<(Vec<u8>, Vec<u8>)>,
    digest_algorithm: ObjectIdentifier,
    /// The signed attributes, without their tag.
    attributes: &'a [u8],
    signature: &'a [u8],
}

impl<'a> SignedData<'a> {
    fn read(data: AnyRef<'a>) -> Option<Self> {
        let fields = elements_of(data, Tag::Sequence)?;
        let [_version, _digests, content, between @ .., signers] = &fields[..] else { return None };
        let [kind, content] = elements_of(*content, Tag::Sequence)?[..] else { return None };
        let [content] = elements_of(content, EXPLICIT_0)?[..] else { return None };
        if oid_of(kind)? != TST_INFO {
            return None;
        }
        let certificates = match between.first() {
            Some(set) if set.tag() == EXPLICIT_0 => parts(set.value())?,
            _ => Vec::new(),
        };
        let certificates = certificates.iter().take(MAX_CERTIFICATES).filter_map(|certificate| certificate.to_der().ok());
        let [signer] = elements_of(*signers, Tag::Set)?[..] else { return None };
        let signer = elements_of(signer, Tag::Sequence)?;
        let [_version, named, digest_algorithm, attributes, _algorithm, signature, ..] = signer[..] else { return None };
        Some(Self {
            content: bytes_of(content, Tag::OctetString)?,
            certificates: certificates.collect(),
            signer: match named.tag() {
                Tag::Sequence => {
                    let [issuer, serial] = parts(named.value())?[..] else { return None };
                    Some((issuer.value().to_vec(), serial.value().to_vec()))
                }
                _ => None,
            },
            digest_algorithm: algorithm_of(digest_algorithm)?,
            attributes: bytes_of(attributes, EXPLICIT_0)?,
            signature: bytes_of(signature, Tag::OctetString)?,
        })
    }

    /// Returns the bytes that the signature covers: the signed attributes as a set (RFC 5652, section 5.4), which must name the
    /// kind and the digest of the content.
    fn signed_bytes(&self) -> Result<Vec<u8>, TimestampError> {
        let malformed = TimestampError::Malformed;
        let attributes = parts(self.attributes).ok_or(malformed("its signed attributes do not parse"))?;
        let value = |wanted: ObjectIdentifier| {
            let mut with = attributes.iter().filter_map(|attribute| {
                let [oid, values] = elements_of(*attribute, Tag::Sequence)?[..] else { return None };
                (oid_of(oid)? == wanted).then(|| elements_of(values, Tag::Set))?
            });
            match (with.next().as_deref(), with.next()) {
                (Some([value]), None) => Some(*value),
                _ => None,
            }
        };
        if value(CONTENT_TYPE).and_then(oid_of) != Some(TST_INFO) {
            return Err(malformed("its signature is over another kind of content"));
        }
        let stated = value(MESSAGE_DIGEST).and_then(|stated| bytes_of(stated, Tag::OctetString));
        let stated = stated.ok_or(malformed("its signature names no digest"))?;
        if digest(self.digest_algorithm, self.content).as_deref() != Some(stated) {
            return Err(malformed("its signature is over another statement"));
        }
        let set = AnyRef::new(Tag::Set, self.attributes).and_then(|set| set.to_der());
        set.map_err(|_| malformed("its signed attributes have no form"))
    }
}

/// Reads the needed fields of a TSTInfo (RFC 3161, section 2.4.2): the imprint's algorithm and bytes, and the time.
fn read_info(info: &[u8]) -> Option<(ObjectIdentifier, Vec<u8>, Instant)> {
    let [info] = parts(info)?[..] else { return None };
    let fields = elements_of(info, Tag::Sequence)?;
    let [version, _policy, imprint, _serial, time, ..] = fields[..] else { return None };
    let [algorithm, imprint] = elements_of(imprint, Tag::Sequence)?[..] else { return None };
    let time = read_time(bytes_of(time, Tag::GeneralizedTime)?)?;
    let imprint = bytes_of(imprint, Tag::OctetString)?.to_vec();
    (bytes_of(version, Tag::Integer)? == [1]).then_some((algorithm_of(algorithm)?, imprint, time))
}

/// Reads a GeneralizedTime with or without a fraction of a second, such as `20261120120000.25Z`.
fn read_time(bytes: &[u8]) -> Option<Instant> {
    let text = std::str::from_utf8(bytes).ok()?.strip_suffix('Z')?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() != 14 || !digits(whole) || fraction.len() > 9 || !digits(fraction) {
        return None;
    }
    let part = |from: usize, to: usize| whole.get(from..to);
    let (day, month, year) = (part(6, 8)?, part(4, 6)?, part(0, 4)?);
    let (hour, minute, second) = (part(8, 10)?, part(10, 12)?, part(12, 14)?);
    format!("{year}-{month}-{day}T{hour}:{minute}:{second}.{fraction:0<9}Z").parse().ok()
}

fn digest(algorithm: ObjectIdentifier, bytes: &[u8]) -> Option<Vec<u8>> {
    match algorithm {
        SHA256 => Some(Sha256::digest(bytes).to_vec()),
        SHA384 => Some(Sha384::digest(bytes).to_vec()),
        SHA512 => Some(Sha512::digest(bytes).to_vec()),
        _ => None,
    }
}
