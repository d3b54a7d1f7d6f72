//! The evidence that reports name, beside what they show.

use assay_manifest::{Digest, Role};

/// A signature in the run's chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainSignature {
    /// The role that made and signed the manifest; its public key is `keys/<stage>.pub` in the published folder.
    pub stage: Role,
    /// The manifest's name in `chain/` of the published folder, without extension: `plan`, or `execute-1` if there are several.
    pub name: String,
    /// The signer's name in the trust policy.
    pub signer: String,
    /// The fingerprint of the key.
    pub key_fingerprint: String,
    /// The digest of the signed manifest's bytes.
    pub manifest: Digest,
    /// The digest of the bundle.
    pub bundle: Digest,
}
