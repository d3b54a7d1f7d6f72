//! RFC 3161 timestamps: trusted if an authority of the policy vouches for them, and then they bound the time of a key.
//!
//! The authorities are those of `tsa/make.sh`. Their tokens are made here, so that each part of one can be wrong by itself; one
//! more was made by openssl.

use assay_envelope::{
    Expectation, ExpectedManifest, SignedManifest, TimestampAuthority, Trust, TrustPolicy, TrustedSigner, VerifyError, verify,
};
use assay_manifest::{Digest, Document, Instant, Role};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use der::asn1::{AnyRef, ObjectIdentifier};
use der::{Decode as _, Encode as _, Reader as _, SliceReader};
use p256::ecdsa::signature::Signer as _;
use p256::pkcs8::DecodePrivateKey as _;
use serde_json::{Value, json};

use crate::support::*;

const SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");
const ECDSA_WITH_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
const TST_INFO: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.16.1.4");

/// A timestamp authority, and the fields of its token.
struct Stamp {
    certificate: &'static [u8],
    key: &'static [u8],
    time: &'static str,
    over: Vec<u8>,
    embeds_certificate: bool,
}

const OURS: (&[u8], &[u8], &str) =
    (include_bytes!("tsa/ours.crt.der"), include_bytes!("tsa/ours.key.der"), include_str!("tsa/ours.pem"));
const OTHER: (&[u8], &[u8], &str) =
    (include_bytes!("tsa/other.crt.der"), include_bytes!("tsa/other.key.der"), include_str!("tsa/other.pem"));
/// A certificate of our root for web servers.
const WEB: (&[u8], &[u8]) = (include_bytes!("tsa/web.crt.der"), include_bytes!("tsa/web.key.der"));

/// A DER value: its tag, its length, its parts.
fn tlv(tag: u8, parts: &[Vec<u8>]) -> Vec<u8> {
    let content = parts.concat();
    let length = u16::try_from(content.len()).expect("a short value").to_be_bytes();
    let length = match length {
        [0, short @ 0..=127] => vec![short],
        [0, byte] => vec![0x81, byte],
        both => [&[0x82][..], &both].concat(),
    };
    [vec![tag], length, content].concat()
}

fn sequence(parts: &[Vec<u8>]) -> Vec<u8> {
    tlv(0x30, parts)
}

fn octets(bytes: &[u8]) -> Vec<u8> {
    tlv(4, &[bytes.to_vec()])
}

fn integer(value: u8) -> Vec<u8> {
    vec![2, 1, value]
}

fn oid(oid: ObjectIdentifier) -> Vec<u8> {
    oid.to_der().expect("DER")
}

fn algorithm(of: ObjectIdentifier) -> Vec<u8> {
    sequence(&[oid(of)])
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    octets(Digest::compute(bytes).as_bytes())
}

/// The elements of a value.
fn elements(value: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = SliceReader::new(value).expect("DER");
    let mut found = Vec::new();
    while !reader.is_finished() {
        found.push(AnyRef::decode(&mut reader).expect("an element").to_der().expect("DER"));
    }
    found
}

fn inside(element: &[u8]) -> Vec<Vec<u8>> {
    elements(AnyRef::from_der(element).expect("an element").value())
}

impl Stamp {
    fn new((certificate, key, _): (&'static [u8], &'static [u8], &str), over: &[u8]) -> Self {
        Self { certificate, key, time: "20300101120000.5Z", over: over.to_vec(), embeds_certificate: true }
    }

    /// TSTInfo: version, policy, imprint, serial number, time.
    fn info(&self) -> Vec<u8> {
        let imprint = sequence(&[algorithm(SHA256), sha256(&self.over)]);
        let time = tlv(0x18, &[self.time.as_bytes().to_vec()]);
        sequence(&[integer(1), oid(ObjectIdentifier::new_unwrap("1.2.3.4")), imprint, integer(7), time])
    }

    fn response(&self) -> Vec<u8> {
        let info = self.info();
        let attribute = |of: &str, value: Vec<u8>| sequence(&[oid(ObjectIdentifier::new_unwrap(of)), tlv(0x31, &[value])]);
        let attributes = [attribute("1.2.840.113549.1.9.3", oid(TST_INFO)), attribute("1.2.840.113549.1.9.4", sha256(&info))];
        let key = p256::ecdsa::SigningKey::from_pkcs8_der(self.key).expect("a key");
        let signature: p256::ecdsa::Signature = key.sign(&tlv(0x31, &attributes));
        let certificate = inside(&inside(self.certificate)[0]);
        let signer = sequence(&[
            integer(1),
            sequence(&[certificate[3].clone(), certificate[1].clone()]),
            algorithm(SHA256),
            tlv(0xa0, &attributes),
            algorithm(ECDSA_WITH_SHA256),
            octets(signature.to_der().as_bytes()),
        ]);
        let mut data = vec![integer(3), tlv(0x31, &[algorithm(SHA256)]), sequence(&[oid(TST_INFO), tlv(0xa0, &[octets(&info)])])];
        if self.embeds_certificate {
            data.push(tlv(0xa0, &[self.certificate.to_vec()]));
        }
        data.push(tlv(0x31, &[signer]));
        let signed_data = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.2");
        let content = sequence(&[oid(signed_data), tlv(0xa0, &[sequence(&data)])]);
        sequence(&[sequence(&[integer(0)]), content])
    }
}

fn json_of(bundle: &[u8]) -> Value {
    serde_json::from_slice(bundle).expect("JSON")
}

fn signature_of(signed: &SignedManifest) -> Vec<u8> {
    let bundle = json_of(&signed.bundle);
    STANDARD.decode(bundle["dsseEnvelope"]["signatures"][0]["sig"].as_str().expect("a signature")).expect("base64")
}

/// The bundle with these timestamps.
fn with(signed: &SignedManifest, timestamps: &[Vec<u8>]) -> SignedManifest {
    let mut bundle = json_of(&signed.bundle);
    let timestamps: Vec<_> = timestamps.iter().map(|der| json!({"signedTimestamp": STANDARD.encode(der)})).collect();
    bundle["verificationMaterial"]["timestampVerificationData"] = json!({"rfc3161Timestamps": timestamps});
    SignedManifest { bundle: bundle.to_string().into_bytes(), ..signed.clone() }
}

fn authority(pem: &str) -> TimestampAuthority {
    TimestampAuthority::new("clock", pem).expect("an authority")
}

struct Case {
    key: Key,
    signed: SignedManifest,
    policy: TrustPolicy,
}

impl Case {
    fn new() -> Self {
        let key = Key::new();
        let signed = signed_collection(&key, "run-1");
        let signer = TrustedSigner::new("runner", key.public.clone(), [Role::Collect]);
        let policy = TrustPolicy { authorities: vec![authority(OURS.2)], ..TrustPolicy::from_signers("team", vec![signer]) };
        Self { key, signed, policy }
    }

    fn stamp(&self) -> Stamp {
        Stamp::new(OURS, &signature_of(&self.signed))
    }

    fn verify(&self, timestamps: &[Vec<u8>]) -> Result<assay_envelope::Verified<Document>, VerifyError> {
        let signed = with(&self.signed, timestamps);
        verify(&signed.manifest, &signed.bundle, &Trust::Policy(self.policy.clone()), &ExpectedManifest::default())
    }

    #[track_caller]
    fn refuses(&self, stamp: &Stamp, code: &str) {
        self.refuses_bytes(&stamp.response(), code);
    }

    #[track_caller]
    fn refuses_bytes(&self, response: &[u8], code: &str) {
        let refusal = self.verify(&[response.to_vec()]).expect_err("a refusal");
        assert_eq!(refusal.code().as_str(), code, "{refusal}");
    }
}

#[test]
fn a_timestamp_of_a_named_authority_is_believed() {
    let case = Case::new();
    let verified = case.verify(&[case.stamp().response()]).expect("believed");
    let timestamp = verified.timestamp().expect("a timestamp");
    assert_eq!((timestamp.time.to_string().as_str(), timestamp.authority.as_str()), ("2030-01-01T12:00:00.500000000Z", "clock"));
    assert!(verified.unchecked().is_empty());
    assert_eq!(verified.asserted_time(), Some(at(20)), "what the signer says is told apart");
}

#[test]
fn a_certificate_may_stand_in_the_policy_instead_of_the_token() {
    let mut case = Case::new();
    let bare = Stamp { embeds_certificate: false, ..case.stamp() };
    case.refuses(&bare, "timestamp_unknown_authority");
    let leaf = der::pem::encode_string("CERTIFICATE", der::pem::LineEnding::LF, OURS.0).expect("PEM");
    case.policy.authorities = vec![authority(&format!("{leaf}{}", OURS.2))];
    assert!(case.verify(&[bare.response()]).expect("believed").timestamp().is_some());
}

#[test]
fn a_timestamp_without_an_authority_is_not_checked_and_not_believed() {
    let mut case = Case::new();
    case.policy.authorities.clear();
    let verified = case.verify(&[b"anything".to_vec()]).expect("read");
    assert_eq!((verified.timestamp(), verified.unchecked()), (None, &["timestamp"][..]));
    assert!(case.verify(&[]).expect("read").unchecked().is_empty());
}

#[test]
fn log_entries_are_read_and_not_checked() {
    let case = Case::new();
    let mut bundle = json_of(&case.signed.bundle);
    bundle["verificationMaterial"]["tlogEntries"] = json!([{"logIndex": "1"}]);
    let trust = Trust::Policy(case.policy.clone());
    let verified =
        verify(&case.signed.manifest, bundle.to_string().as_bytes(), &trust, &ExpectedManifest::default()).expect("read");
    assert_eq!(verified.unchecked(), ["log entry"]);
}

#[test]
fn a_timestamp_that_no_authority_vouches_for_is_refused() {
    let mut case = Case::new();
    let signature = signature_of(&case.signed);
    case.refuses(&Stamp::new(OURS, b"another signature"), "timestamp_other_signature");
    case.refuses(&Stamp::new(OTHER, &signature), "timestamp_unknown_authority");
    case.refuses(&Stamp::new((WEB.0, WEB.1, ""), &signature), "timestamp_unknown_authority");
    // The certificate of one authority, the key of another.
    case.refuses(&Stamp::new((OURS.0, OTHER.1, ""), &signature), "timestamp_unknown_authority");
    // Before the certificate was valid.
    case.refuses(&Stamp { time: "20200101120000Z", ..case.stamp() }, "timestamp_unknown_authority");
    case.policy.authorities[0].not_after = Some(at(1_000_000_000));
    case.refuses(&case.stamp(), "timestamp_unknown_authority");
}

#[test]
fn a_malformed_timestamp_is_refused() {
    let case = Case::new();
    let good = case.stamp().response();
    case.refuses_bytes(b"", "timestamp_malformed");
    case.refuses_bytes(&good[..good.len() - 1], "timestamp_malformed");
    case.refuses_bytes(&[&good[..], &[0]].concat(), "timestamp_malformed");
    case.refuses_bytes(&vec![0x30; 100_000], "timestamp_malformed");
    for time in ["20300101120000", "2030010112000Z", "20301301120000Z", "20300101120000.0000000001Z", "x0300101120000Z"] {
        case.refuses(&Stamp { time, ..case.stamp() }, "timestamp_malformed");
    }
    // A denied request has no token.
    case.refuses_bytes(&sequence(&[sequence(&[integer(2)])]), "timestamp_malformed");
    let refusal = case.verify(&vec![good; 9]).expect_err("too many");
    assert_eq!(refusal.code().as_str(), "bundle_too_long");
}

/// A timestamp with any changed byte is refused, or states the same time.
#[test]
fn no_changed_byte_gives_another_time() {
    let case = Case::new();
    let good = case.stamp().response();
    let expected = case.verify(std::slice::from_ref(&good)).expect("believed").timestamp().cloned();
    for place in 0..good.len() {
        let mut changed = good.clone();
        changed[place] ^= 1;
        if let Ok(verified) = case.verify(&[changed]) {
            assert_eq!(verified.timestamp().cloned(), expected, "byte {place}");
        }
    }
}

#[test]
fn a_key_must_have_been_valid_when_the_timestamp_was_made() {
    let mut case = Case::new();
    let response = case.stamp().response();
    // The signer asserts a time within the window, as a thief of a closed key would.
    case.policy.signers[0].not_after = Some(at(1_000));
    case.refuses_bytes(&response, "key_outside_validity");
    assert!(case.verify(&[]).is_ok(), "without a timestamp the asserted time is all there is");
    case.policy.signers[0].not_after = Some("2031-01-01T00:00:00.000000000Z".parse::<Instant>().expect("an instant"));
    assert!(case.verify(&[response]).is_ok());
}

#[test]
fn a_timestamp_from_before_the_asserted_time_is_refused() {
    let mut case = Case::new();
    let later = assay_envelope::Provenance {
        finished_on: "2030-01-01T12:06:00.000000000Z".parse().expect("an instant"),
        ..provenance(Role::Collect, "run-1")
    };
    case.signed = signed(&collection("run-1"), &case.key, later);
    case.refuses(&case.stamp(), "timestamp_contradicted");
}

#[test]
fn a_required_timestamp_must_be_there_and_checked() {
    let mut case = Case::new();
    let expectation = Expectation { timestamp_required: true, ..Expectation::default() };
    case.policy.expectations = vec![expectation];
    assert_eq!(case.verify(&[]).expect_err("none").code().as_str(), "timestamp_missing");
    let response = case.stamp().response();
    assert!(case.verify(std::slice::from_ref(&response)).is_ok());
    case.policy.authorities.clear();
    assert_eq!(case.verify(&[response]).expect_err("not checked").code().as_str(), "timestamp_missing");
    case.policy.expectations[0].roles = [Role::Publish].into();
    assert!(case.verify(&[]).is_ok(), "another role's");
}

/// Openssl's token: an RSA key, SHA-512, a nonce, accuracy and the authority's name.
#[test]
fn a_timestamp_by_openssl_is_read() {
    let mut case = Case::new();
    case.policy.authorities = vec![authority(include_str!("tsa/rsa.pem"))];
    // It covers other bytes than this bundle's signature: nothing else is wrong with it.
    case.refuses_bytes(include_bytes!("tsa/openssl.tsr"), "timestamp_other_signature");
    let checked = assay_envelope::check_timestamp(include_bytes!("tsa/openssl.tsr"), b"a signature", &case.policy.authorities);
    assert_eq!(checked.expect("believed").authority, "clock");
    let other = assay_envelope::check_timestamp(include_bytes!("tsa/openssl.tsr"), b"a signature", &[authority(OURS.2)]);
    assert_eq!(other.expect_err("another root").to_string().split(':').next(), Some("the timestamp of 2026-11-23T21"));
}

#[test]
fn certificates_of_an_authority_must_be_some() {
    let refusal = |pem: &str| TimestampAuthority::new("clock", pem).expect_err("a refusal").to_string();
    assert!(refusal("").contains("1 to 8 certificates"));
    assert!(refusal(&OURS.2.repeat(9)).contains("1 to 8 certificates"));
    assert!(refusal(&OURS.2.replace("CERTIFICATE", "PUBLIC KEY")).starts_with("certificate 1 of the chain"));
    assert!(refusal(&format!("{}{}", OURS.2, OURS.2.replace("MII", "AAA"))).starts_with("certificate 2 of the chain"));
}
