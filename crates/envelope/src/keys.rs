//! ECDSA P-256 keys: generated, stored in cosign's key files, named by the digest of their public half.

use std::fmt;

use assay_manifest::Digest;
use p256::ecdsa::signature::hazmat::PrehashVerifier as _;
use p256::ecdsa::signature::{Signer as _, Verifier as _};
use p256::ecdsa::{Signature, SigningKey, VerifyingKey};
use p256::elliptic_curve::zeroize::Zeroizing;
use p256::pkcs8::der::pem;
use p256::pkcs8::{DecodePrivateKey, EncodePrivateKey, LineEnding};

use crate::key_error::{KeyError, MAX_KEY_BYTES};
use crate::keybox::{self, Password, ScryptCost, random_bytes};
use crate::text::{quote, to_base64};

const SECRET_LABEL: &str = "ENCRYPTED SIGSTORE PRIVATE KEY";
/// The label that cosign wrote before version 2.
const OLD_SECRET_LABEL: &str = "ENCRYPTED COSIGN PRIVATE KEY";
const PUBLIC_LABEL: &str = "PUBLIC KEY";

/// The bytes before the point in the SubjectPublicKeyInfo of every P-256 key (RFC 5480): id-ecPublicKey, prime256v1 and a bit
/// string of 65 bytes. With an uncompressed point the DER form is unique, so a key has exactly one fingerprint.
const SPKI_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03,
    0x01, 0x07, 0x03, 0x42, 0x00,
];
const POINT_BYTES: usize = 65;
/// The first byte of an uncompressed point (SEC 1, section 2.3.3).
const UNCOMPRESSED: u8 = 4;

fn read_pem(text: &str, labels: &[&'static str; 2]) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    if text.len() > MAX_KEY_BYTES {
        return Err(KeyError::TooLarge(text.len()));
    }
    // Copying a key, as into a CI secret, may add or drop blank lines around it.
    let (label, bytes) = pem::decode_vec(text.trim().as_bytes()).map_err(KeyError::NotPem)?;
    let bytes = Zeroizing::new(bytes);
    if labels.contains(&label) { Ok(bytes) } else { Err(KeyError::WrongLabel { found: quote(label), expected: labels[0] }) }
}

/// A private key. Its bytes are wiped when it is dropped, and never printed.
pub struct SecretKey(p256::SecretKey);

impl SecretKey {
    /// Generates a key from the operating system's randomness.
    pub fn generate() -> Result<Self, KeyError> {
        loop {
            // A draw outside the scalar field (one in 2^32) is repeated, so that all scalars are equally likely.
            if let Ok(key) = p256::SecretKey::from_slice(random_bytes::<32>()?.as_slice()) {
                return Ok(Self(key));
            }
        }
    }

    /// Reads unencrypted PKCS#8 DER, the form in which a key is passed over an inherited pipe.
    pub fn from_pkcs8_der(der: &[u8]) -> Result<Self, KeyError> {
        p256::SecretKey::from_pkcs8_der(der).map(Self).map_err(|_| KeyError::NotP256Private)
    }

    /// Returns unencrypted PKCS#8 DER. The bytes are wiped when they are dropped.
    pub fn to_pkcs8_der(&self) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        self.0.to_pkcs8_der().map(|document| document.to_bytes()).map_err(|_| KeyError::Encode)
    }

    /// Writes cosign's encrypted key file, as PEM text. An empty password is legal and protects nothing.
    pub fn encrypt(&self, password: &[u8], cost: ScryptCost) -> Result<String, KeyError> {
        self.encrypt_with(&Password::new(password)?, cost)
    }

    /// Writes cosign's encrypted key file, as PEM text. Files of one [`Password`] cost the scrypt work once.
    pub fn encrypt_with(&self, password: &Password, cost: ScryptCost) -> Result<String, KeyError> {
        let body = keybox::lock(&self.to_pkcs8_der()?, password, cost)?;
        pem::encode_string(SECRET_LABEL, LineEnding::LF, &body).map_err(|_| KeyError::Encode)
    }

    /// Reads cosign's encrypted key file. Costs the scrypt work that the file requires, about 0.1 to 0.5 s.
    pub fn decrypt(key_file: &str, password: &[u8]) -> Result<Self, KeyError> {
        Self::decrypt_with(key_file, &Password::new(password)?)
    }

    /// Reads cosign's encrypted key file. Files with one salt cost the scrypt work once.
    pub fn decrypt_with(key_file: &str, password: &Password) -> Result<Self, KeyError> {
        let body = read_pem(key_file, &[SECRET_LABEL, OLD_SECRET_LABEL])?;
        Self::from_pkcs8_der(&keybox::unlock(&body, password)?)
    }

    /// The key with this scalar, for tests that need the same key every time.
    #[cfg(test)]
    pub(crate) fn from_scalar(scalar: &[u8; 32]) -> Self {
        Self(p256::SecretKey::from_slice(scalar).expect("a scalar of the field"))
    }

    /// The public half.
    pub fn public_key(&self) -> PublicKey {
        PublicKey::new(VerifyingKey::from(self.0.public_key()))
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey({})", self.public_key().fingerprint().short())
    }
}

/// A public key and its fingerprint.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    key: VerifyingKey,
    fingerprint: Digest,
}

impl PublicKey {
    fn new(key: VerifyingKey) -> Self {
        Self { fingerprint: Digest::compute(&spki(&key)), key }
    }

    /// Reads the DER form of a SubjectPublicKeyInfo.
    pub fn from_spki_der(der: &[u8]) -> Result<Self, KeyError> {
        let point = der.strip_prefix(&SPKI_PREFIX).filter(|point| point.len() == POINT_BYTES && point[0] == UNCOMPRESSED);
        let key = point.and_then(|point| VerifyingKey::from_sec1_bytes(point).ok());
        key.map(Self::new).ok_or(KeyError::NotP256Public)
    }

    /// Reads PEM text, the format of `cosign.pub`.
    pub fn from_pem(text: &str) -> Result<Self, KeyError> {
        Self::from_spki_der(&read_pem(text, &[PUBLIC_LABEL; 2])?)
    }

    /// The DER form of the SubjectPublicKeyInfo.
    pub fn to_spki_der(&self) -> Vec<u8> {
        spki(&self.key)
    }

    /// PEM text with a final newline.
    pub fn to_pem(&self) -> String {
        let body = to_base64(&self.to_spki_der());
        let (first, second) = body.split_at(64.min(body.len()));
        format!("-----BEGIN {PUBLIC_LABEL}-----\n{first}\n{second}\n-----END {PUBLIC_LABEL}-----\n")
    }

    /// The SHA-256 of the DER form, which users pin.
    pub fn fingerprint(&self) -> Digest {
        self.fingerprint
    }

    /// The fingerprint in the format of a bundle's `publicKey.hint`: base64.
    pub fn hint(&self) -> String {
        to_base64(self.fingerprint.as_bytes())
    }

    /// Returns true if `signature` (ASN.1 DER) is this key's ECDSA/SHA-256 signature over `message`.
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        Signature::from_der(signature).is_ok_and(|signature| self.key.verify(message, &signature).is_ok())
    }

    /// The same for a message of which only the SHA-256 is known.
    pub(crate) fn verifies_digest(&self, digest: Digest, signature: &[u8]) -> bool {
        Signature::from_der(signature).is_ok_and(|signature| self.key.verify_prehash(digest.as_bytes(), &signature).is_ok())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.fingerprint)
    }
}

fn spki(key: &VerifyingKey) -> Vec<u8> {
    [&SPKI_PREFIX, key.to_encoded_point(false).as_bytes()].concat()
}

/// A private key that is ready to sign: the only form of a key that the rest of Assay holds.
pub struct Signer {
    key: SigningKey,
    public: PublicKey,
}

impl Signer {
    /// A signer with this key.
    pub fn new(key: SecretKey) -> Self {
        Self { public: key.public_key(), key: SigningKey::from(&key.0) }
    }

    /// The public half of its key.
    pub fn public_key(&self) -> &PublicKey {
        &self.public
    }

    /// Returns the ASN.1 DER signature over `message`. Deterministic (RFC 6979), so that equal statements have equal bundles.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, p256::ecdsa::Error> {
        let signature: Signature = self.key.try_sign(message)?;
        Ok(signature.to_der().as_bytes().to_vec())
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({})", self.public.fingerprint().short())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Made without this crate: scrypt by Python's hashlib, the box by libsodium (PyNaCl), the PKCS#8 form by pyca/cryptography.
    // The scalar is thirty-two bytes of 7, the password `correct horse`.
    const GOLDEN: &str = "\
-----BEGIN ENCRYPTED COSIGN PRIVATE KEY-----
eyJrZGYiOnsibmFtZSI6InNjcnlwdCIsInBhcmFtcyI6eyJOIjozMjc2OCwiciI6
OCwicCI6MX0sInNhbHQiOiJBQUVDQXdRRkJnY0lDUW9MREEwT0R4QVJFaE1VRlJZ
WEdCa2FHeHdkSGg4PSJ9LCJjaXBoZXIiOnsibmFtZSI6Im5hY2wvc2VjcmV0Ym94
Iiwibm9uY2UiOiJBQUVDQXdRRkJnY0lDUW9MREEwT0R4QVJFaE1VRlJZWCJ9LCJj
aXBoZXJ0ZXh0Ijoia2svTkdMNkNTQTNPMEQ1MzlYblFtWW1nQXFXc3drS2svSEYx
RC9ETVdMbHUxbEdidUVVWUJYWFp4V3Y2SElzOFhQZlBZSlBqbGNzUFVsTUx2TWVO
aFBiQXJJVkZrNS9KQmdabUttQXNmbkh1clRpQzZwc2k5WWgvRjBKb1k3SzlWSFcw
SlBIbHF6aEVZM1lDU05WYW5ieDhXRkJPRFczZ21vaCtJUzhxa2FlM1FJbEQzVFdB
U3BESHBkbThGc1A2OXVzMG8raDJCR1c0YkE9PSJ9
-----END ENCRYPTED COSIGN PRIVATE KEY-----
";
    const GOLDEN_PUBLIC: &str = "\
-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEHhhTL9R1TALzBB2cdc6zO4P/2BrH
zk/ogsyxyYvFiW6kbDEcTi/0DdlqNlPm5FRF0y3+SG7O11x6kMahiIHAow==
-----END PUBLIC KEY-----
";
    const GOLDEN_FINGERPRINT: &str = "sha256:ce97ec20d43661a19b215cb2e376a698d0b4aa2aa5b4c7854e916bd05082fcee";
    const P384_PUBLIC: &str = "\
-----BEGIN PUBLIC KEY-----
MHYwEAYHKoZIzj0CAQYFK4EEACIDYgAEW1fhXBiF85wrEGA2sNKbDSCdRKDVaDPZ
Z5kfWGPbsnZtTlnQIbbAZ7/3t8xe9KbSwrISAVBv9oiAotFkhIxw1ARJhFxnUleR
KoGddq8CMcyj++mLHMSJuheY4aX9o3+K
-----END PUBLIC KEY-----
";
    const ED25519_PUBLIC: &str = "\
-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw=
-----END PUBLIC KEY-----
";

    fn seven() -> SecretKey {
        SecretKey::from_scalar(&[7; 32])
    }

    #[test]
    fn a_key_file_made_by_other_libraries_opens() {
        let key = SecretKey::decrypt(GOLDEN, b"correct horse").expect("the golden key");
        assert_eq!(key.public_key().to_pem(), GOLDEN_PUBLIC);
        assert_eq!(key.public_key().fingerprint().to_string(), GOLDEN_FINGERPRINT);
        let renamed = GOLDEN.replace("COSIGN", "SIGSTORE");
        assert_eq!(SecretKey::decrypt(&renamed, b"correct horse").expect("the new label").public_key(), key.public_key());
    }

    #[test]
    fn a_key_survives_its_file_at_every_cost_and_with_an_empty_password() {
        let key = SecretKey::generate().expect("a key");
        for (cost, password) in ScryptCost::ALL.into_iter().zip([&b""[..], b"x", "geh\u{e4}im".as_bytes()]) {
            let file = key.encrypt(password, cost).expect("encrypted");
            assert!(file.starts_with("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\n"), "{file}");
            assert_eq!(SecretKey::decrypt(&file, password).expect("decrypted").public_key(), key.public_key());
            let refusal = SecretKey::decrypt(&file, b"other").expect_err("another password");
            assert_eq!(refusal.hint(), Some("set COSIGN_PASSWORD to the key's password"));
        }
    }

    #[test]
    fn two_files_of_one_key_share_nothing() {
        let file = || seven().encrypt(b"", ScryptCost::Cheap).expect("encrypted");
        assert_ne!(file(), file());
    }

    #[test]
    fn pkcs8_has_the_size_that_cosign_writes() {
        let der = seven().to_pkcs8_der().expect("encoded");
        assert_eq!(der.len(), 138);
        assert_eq!(SecretKey::from_pkcs8_der(&der).expect("decoded").public_key(), seven().public_key());
    }

    #[test]
    fn generated_keys_differ() {
        let fingerprint = || SecretKey::generate().expect("a key").public_key().fingerprint();
        assert_ne!(fingerprint(), fingerprint());
    }

    #[test]
    fn a_public_key_reads_what_it_writes() {
        let key = seven().public_key();
        assert_eq!(key.to_pem(), GOLDEN_PUBLIC);
        assert_eq!(PublicKey::from_pem(GOLDEN_PUBLIC).expect("PEM"), key);
        assert_eq!(PublicKey::from_pem(&GOLDEN_PUBLIC.replace('\n', "\r\n")).expect("PEM with CRLF"), key);
        assert_eq!(PublicKey::from_spki_der(&key.to_spki_der()).expect("DER"), key);
        assert_eq!(key.hint(), "zpfsINQ2YaGbIVyy43ammNC0qiqltMeFTpFr0FCC/O4=");
    }

    #[test]
    fn other_keys_are_refused() {
        let refusal = |pem: &str| PublicKey::from_pem(pem).expect_err("a refusal").to_string();
        let p256 = "the public key is not an ECDSA P-256 key in SubjectPublicKeyInfo form";
        assert_eq!(refusal(P384_PUBLIC), p256);
        assert_eq!(refusal(ED25519_PUBLIC), p256);
        assert_eq!(refusal(&GOLDEN_PUBLIC.replace("HhhT", "HhhU")), p256, "not on the curve");
        assert!(refusal(GOLDEN).starts_with("the PEM text holds `ENCRYPTED COSIGN PRIVATE KEY`"));
        assert!(refusal("not a key").starts_with("the key is not PEM text"));
        assert!(refusal(&"x".repeat(MAX_KEY_BYTES + 1)).starts_with("the key file has 16385 bytes"));
        let der = seven().public_key().to_spki_der();
        assert!(PublicKey::from_spki_der(&[&der[..], &[0]].concat()).is_err(), "trailing byte");
        assert!(PublicKey::from_spki_der(&der[..der.len() - 1]).is_err(), "cut short");
    }

    #[test]
    fn a_public_key_is_no_private_key() {
        let refusal = SecretKey::decrypt(GOLDEN_PUBLIC, b"").expect_err("a refusal").to_string();
        assert_eq!(refusal, "the PEM text holds `PUBLIC KEY`; expected `ENCRYPTED SIGSTORE PRIVATE KEY`");
    }

    #[test]
    fn signatures_are_deterministic_and_bound_to_key_and_message() {
        let signer = Signer::new(seven());
        let signature = signer.sign(b"message").expect("signed");
        assert_eq!(signature, Signer::new(seven()).sign(b"message").expect("signed"));
        assert!(signer.public_key().verifies(b"message", &signature));
        assert!(!signer.public_key().verifies(b"massage", &signature));
        assert!(!SecretKey::from_scalar(&[8; 32]).public_key().verifies(b"message", &signature));
        assert!(!signer.public_key().verifies(b"message", &signature[..signature.len() - 1]));
        assert!(!signer.public_key().verifies(b"message", b""));
    }

    #[test]
    fn nothing_of_a_private_key_is_printed() {
        let printed = format!("{:?} {:?} {:#?}", seven(), Signer::new(seven()), seven());
        assert_eq!(printed, "SecretKey(ce97ec20d436) Signer(ce97ec20d436) SecretKey(ce97ec20d436)");
    }
}
