//! Keys for examples. Every reader can derive them: they prove nothing, and no trust policy except that of the examples may name
//! them.

use assay_envelope::{SecretKey, Signer, TrustPolicy, TrustedSigner};
use assay_manifest::{Digest, Role};
use p256::pkcs8::EncodePrivateKey as _;

const TRUST_COMMENT: &str = "\
# Trust in the keys of the examples beside this file. Their private halves are derived from a text in a test, so anybody can sign
# with them: never name them in a trust policy of your own.
";

/// The key that signs a role's examples. Its scalar is the SHA-256 of a public text, so it is no secret.
fn secret(role: Role) -> SecretKey {
    let scalar = Digest::compute(format!("Assay example key, no secret: {role}").as_bytes());
    let key = p256::SecretKey::from_slice(scalar.as_bytes()).expect("a scalar of the field");
    SecretKey::from_pkcs8_der(key.to_pkcs8_der().expect("encoded").as_bytes()).expect("a key")
}

pub(crate) fn signer(role: Role) -> Signer {
    Signer::new(secret(role))
}

pub(crate) fn trust_yaml() -> String {
    let signer = |role: Role| TrustedSigner::new(format!("example-{role}"), secret(role).public_key(), [role]);
    let policy = TrustPolicy::from_signers("examples", Role::LOCAL.map(signer).to_vec());
    format!("{TRUST_COMMENT}{}", policy.to_yaml())
}

pub(crate) fn public_files() -> impl Iterator<Item = (String, Vec<u8>)> {
    Role::LOCAL.into_iter().map(|role| (format!("keys/{role}.pub"), secret(role).public_key().to_pem().into_bytes()))
}
