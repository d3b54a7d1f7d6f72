//! DSSE: a payload, its type, and a signature over both that re-serialising cannot change.

use crate::keys::{PublicKey, Signer};

/// The payload type of an in-toto Statement.
pub const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// Returns the pre-authentication encoding (DSSE 1.0.2, "Signature Definition"), which is signed. Lengths are in bytes, as ASCII
/// decimals, so that no payload can pose as another type.
pub fn pae(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut encoded = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    encoded.extend_from_slice(payload);
    encoded
}

/// A statement's exact bytes and one signature over them. There is no `keyid`: it is not authenticated, and verifiers that read
/// it disagree about its meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The statement's bytes, as they were signed.
    pub payload: Vec<u8>,
    /// The signature, ASN.1 DER.
    pub signature: Vec<u8>,
}

impl Envelope {
    /// Signs the bytes of a statement.
    pub(crate) fn seal(payload: Vec<u8>, signer: &Signer) -> Result<Self, p256::ecdsa::Error> {
        let signature = signer.sign(&pae(PAYLOAD_TYPE, &payload))?;
        Ok(Self { payload, signature })
    }

    /// Returns true if `key` signed exactly this payload as a statement.
    pub fn is_signed_by(&self, key: &PublicKey) -> bool {
        key.verifies(&pae(PAYLOAD_TYPE, &self.payload), &self.signature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use p256::ecdsa::signature::Signer as _;
    use p256::ecdsa::{Signature, SigningKey};

    fn key(hex: &str) -> SigningKey {
        let digest = assay_manifest::Digest::from_hex(hex).expect("64 digits");
        SigningKey::from_slice(digest.as_bytes()).expect("a scalar")
    }

    #[test]
    fn the_encoding_is_the_one_of_the_specification() {
        let encoded = pae("http://example.com/HelloWorld", b"hello world");
        assert_eq!(encoded, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
        assert_eq!(pae("é", "é".as_bytes()), "DSSEv1 2 é 2 é".as_bytes(), "lengths are bytes");
        assert_eq!(pae("", b""), b"DSSEv1 0  0 ");
    }

    #[test]
    fn the_signature_is_the_one_of_the_specification() {
        // The private scalar 97358161215184420915383655311931858321456579547487070936769975997791359926199 in hexadecimal.
        let key = key("d73ec437fd6346e3619c5ebfdfff0f6916804955ad32ac9ac492b0ede1f6ffb7");
        let signature: Signature = key.sign(&pae("http://example.com/HelloWorld", b"hello world"));
        let text = crate::text::to_base64(&signature.to_bytes());
        assert!(text.starts_with("A3JqsQGtVsJ2O2xq"), "{text}");
    }

    #[test]
    fn signatures_are_those_of_rfc_6979() {
        // Appendix A.2.5: P-256 with SHA-256. Its `s` is above half the order: nothing is normalised, as in Go's library.
        let key = key("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721");
        let signature: Signature = key.sign(b"sample");
        let [r, s] = [
            "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716",
            "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
        ]
        .map(|hex| *assay_manifest::Digest::from_hex(hex).expect("64 digits").as_bytes());
        assert_eq!(signature.to_bytes().as_slice(), [r, s].concat());
    }
}
