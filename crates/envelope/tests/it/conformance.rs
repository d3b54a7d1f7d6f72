//! Bundles of any signer, with a key: the same kinds of case as in Sigstore's conformance suite, written by us.

use assay_envelope::{PublicKey, SecretKey, check_bundle, pae};
use assay_manifest::Digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use p256::ecdsa::signature::Signer as _;
use p256::pkcs8::DecodePrivateKey as _;
use serde_json::{Value, json};

const FILE: &[u8] = b"a file\n";

struct Owner {
    key: p256::ecdsa::SigningKey,
    public: PublicKey,
}

impl Owner {
    fn new() -> Self {
        let secret = SecretKey::generate().expect("a key");
        let der = secret.to_pkcs8_der().expect("encoded");
        Self { key: p256::ecdsa::SigningKey::from_pkcs8_der(&der).expect("a key"), public: secret.public_key() }
    }

    fn sign(&self, bytes: &[u8]) -> String {
        let signature: p256::ecdsa::Signature = self.key.sign(bytes);
        STANDARD.encode(signature.to_der())
    }

    fn message(&self, file: &[u8]) -> Value {
        json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {"publicKey": {"hint": self.public.hint()}},
            "messageSignature": {
                "messageDigest": {"algorithm": "SHA2_256", "digest": STANDARD.encode(Digest::compute(file).as_bytes())},
                "signature": self.sign(file),
            },
        })
    }

    fn envelope(&self, payload: &[u8]) -> Value {
        json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {"publicKey": {"hint": self.public.hint()}},
            "dsseEnvelope": {
                "payload": STANDARD.encode(payload),
                "payloadType": "application/vnd.in-toto+json",
                "signatures": [{"sig": self.sign(&pae("application/vnd.in-toto+json", payload)), "keyid": ""}],
            },
        })
    }
}

fn statement(file: &[u8]) -> Value {
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "other", "digest": {"sha512": "00"}}, {"name": "a.txt", "digest": {"sha256": Digest::compute(file).hex()}}],
        "predicateType": "https://example.org/predicate/v1",
        "predicate": {"anything": [1, 2.5]},
    })
}

fn verdict(bundle: &Value, key: &PublicKey) -> String {
    match check_bundle(bundle.to_string().as_bytes(), key, Digest::compute(FILE)) {
        Ok(checked) => format!("{}, {} log entries", checked.predicate_type.as_deref().unwrap_or("message"), checked.log_entries),
        Err(error) => error.code().to_string(),
    }
}

/// The bundle with another value at this JSON pointer.
fn changed(bundle: &Value, pointer: &str, value: Value) -> Value {
    let mut bundle = bundle.clone();
    let (parent, member) = pointer.rsplit_once('/').expect("a pointer");
    let parent = bundle.pointer_mut(parent).and_then(Value::as_object_mut).expect("an object");
    if value.is_null() {
        parent.remove(member);
    } else {
        parent.insert(member.to_owned(), value);
    }
    bundle
}

#[test]
fn both_kinds_of_bundle_are_verified_with_a_key() {
    let owner = Owner::new();
    let message = owner.message(FILE);
    let envelope = owner.envelope(statement(FILE).to_string().as_bytes());
    assert_eq!(verdict(&message, &owner.public), "message, 0 log entries");
    assert_eq!(verdict(&envelope, &owner.public), "https://example.org/predicate/v1, 0 log entries");
    // With a log entry and a timestamp, which are read and not checked.
    let logged = changed(&message, "/verificationMaterial/tlogEntries", json!([{"logIndex": "1", "inclusionProof": {}}]));
    let stamped = json!({"rfc3161Timestamps": [{"signedTimestamp": "AAAA"}]});
    let logged = changed(&logged, "/verificationMaterial/timestampVerificationData", stamped);
    assert_eq!(verdict(&logged, &owner.public), "message, 1 log entries");
    // The digest in it only helps to find the file, and may be omitted.
    assert_eq!(
        verdict(&changed(&message, "/messageSignature/messageDigest", Value::Null), &owner.public),
        "message, 0 log entries"
    );
    assert_eq!(
        verdict(&changed(&message, "/verificationMaterial/publicKey/hint", json!("ours")), &owner.public),
        "message, 0 log entries"
    );
}

#[test]
fn what_the_key_did_not_sign_about_the_file_is_refused() {
    let (owner, other) = (Owner::new(), Owner::new());
    let message = owner.message(FILE);
    let envelope = owner.envelope(statement(FILE).to_string().as_bytes());
    let about = |statement: &Value| owner.envelope(statement.to_string().as_bytes());
    let certificate = json!({"rawBytes": "AAAA"});
    for (what, bundle, key, expected) in [
        ("wrong key", message.clone(), &other, "bad_signature"),
        ("wrong key", envelope.clone(), &other, "bad_signature"),
        ("other file", owner.message(b"other"), &owner, "other_file"),
        ("other file", about(&statement(b"other")), &owner, "other_file"),
        (
            "signature over another file",
            changed(&message, "/messageSignature/signature", json!(owner.sign(b"other"))),
            &owner,
            "bad_signature",
        ),
        ("invalid base64", changed(&message, "/messageSignature/signature", json!("!")), &owner, "bundle_malformed"),
        (
            "other hash",
            changed(&message, "/messageSignature/messageDigest/algorithm", json!("SHA2_512")),
            &owner,
            "bundle_malformed",
        ),
        ("payload", changed(&envelope, "/dsseEnvelope/payload", json!("e30=")), &owner, "bad_signature"),
        ("payload type", changed(&envelope, "/dsseEnvelope/payloadType", json!("text/plain")), &owner, "wrong_payload_type"),
        ("no signature", changed(&envelope, "/dsseEnvelope/signatures", json!([])), &owner, "signature_count"),
        ("no statement", owner.envelope(b"{}"), &owner, "statement_malformed"),
        (
            "other statement",
            about(&changed(&statement(FILE), "/_type", json!("https://example.org"))),
            &owner,
            "statement_malformed",
        ),
        ("certificate", changed(&message, "/verificationMaterial/certificate", certificate), &owner, "keyless_bundle"),
        ("no key", changed(&message, "/verificationMaterial/publicKey", Value::Null), &owner, "bundle_malformed"),
        ("no signature at all", changed(&message, "/messageSignature", Value::Null), &owner, "bundle_malformed"),
        ("two signatures", changed(&message, "/dsseEnvelope", envelope["dsseEnvelope"].clone()), &owner, "bundle_malformed"),
        (
            "version",
            changed(&message, "/mediaType", json!("application/vnd.dev.sigstore.bundle+json;version=0.1")),
            &owner,
            "unknown_bundle_version",
        ),
    ] {
        assert_eq!(verdict(&bundle, &key.public), expected, "{what}");
    }
    let key = &owner.public;
    let refusal = |bytes: &[u8]| check_bundle(bytes, key, Digest::compute(FILE)).expect_err("a refusal").code().as_str();
    assert_eq!(refusal(b"{"), "bundle_malformed");
    assert_eq!(refusal(&vec![b' '; assay_envelope::MAX_BUNDLE_BYTES + 1]), "bundle_too_large");
}
