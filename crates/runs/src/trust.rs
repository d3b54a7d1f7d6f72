//! The trust of a command: `--trust`, else the configured root, else none.

use std::path::Path;

use assay_envelope::{PublicKey, Trust, TrustPolicy, TrustedSigner};
use assay_manifest::{Artifact, Digest, Document, MAX_MANIFEST_BYTES, Role};
use assay_runner::Config;
use assay_stage::{ErrorCode, Failure, read_trust};
use assay_verify::{Blobs, FolderBlobs, Head};

/// The largest trust policy or key file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A trust, with a description of its source.
pub struct ResolvedTrust {
    /// The trust.
    pub trust: Trust,
    /// Its source.
    pub source: String,
}

/// Returns the trust that the options name. Keys that lie beside the evidence are only candidates: a pinned fingerprint decides
/// about them, and without any trust they show only that nothing has changed since it was signed.
pub fn establish(options: &[String], config: &Config, blobs: &dyn Blobs, beside: &[Vec<u8>]) -> Result<ResolvedTrust, Failure> {
    let candidates: Vec<PublicKey> =
        beside.iter().filter_map(|bytes| PublicKey::from_pem(std::str::from_utf8(bytes).ok()?).ok()).collect();
    match options {
        [] if config.trust().exists() => {
            let path = config.trust();
            Ok(ResolvedTrust {
                trust: Trust::Policy(policy_file(&path)?),
                source: format!("the configured root, {}", path.display()),
            })
        }
        [] => Ok(ResolvedTrust { trust: Trust::None { candidates }, source: "no trust policy is configured".to_owned() }),
        // An argument that parses as a fingerprint is one, whatever files exist here: a file of that name would come from the
        // author of the folder.
        [one] if one.parse::<Digest>().is_err() && Path::new(one).is_file() => {
            Ok(ResolvedTrust { trust: Trust::Policy(policy_file(Path::new(one))?), source: one.clone() })
        }
        pins => trust_pinned(pins, blobs, candidates),
    }
}

/// Returns a trust in no signer: keys that lie beside the evidence show that nothing has changed since it was signed.
pub fn trust_no_signer(beside: &[Vec<u8>]) -> Trust {
    Trust::None {
        candidates: beside.iter().filter_map(|bytes| PublicKey::from_pem(std::str::from_utf8(bytes).ok()?).ok()).collect(),
    }
}

/// Returns the trust of pinned fingerprints: of a trust policy that lies with the evidence, or of keys that do.
fn trust_pinned(pins: &[String], blobs: &dyn Blobs, mut candidates: Vec<PublicKey>) -> Result<ResolvedTrust, Failure> {
    let mut signers = Vec::new();
    for pin in pins {
        let digest: Digest = pin.parse().map_err(|_| {
            Failure::new(ErrorCode::Trust, format!("`{pin}` is neither a file nor a fingerprint"))
                .hint("`--trust` takes the path of a TrustPolicy file, or a fingerprint such as sha256:0123...")
        })?;
        if let ([_], Some(bytes)) = (pins, blobs.get(&digest, MAX_BYTES)?) {
            return Ok(ResolvedTrust {
                trust: Trust::Policy(read_trust(pin, &bytes)?),
                source: format!("the pinned policy {digest}"),
            });
        }
        let place = candidates.iter().position(|key| key.fingerprint() == digest).ok_or_else(|| {
            Failure::new(
                ErrorCode::PinnedKeyMissing,
                format!("nothing with the pinned fingerprint {digest} lies with the evidence"),
            )
            .hint("pin the fingerprint of the trust policy or of a key; `assay keys list` shows those of this machine")
        })?;
        let key = candidates.swap_remove(place);
        signers.push(TrustedSigner::new(format!("pinned-{}", digest.short()), key, Role::ALL.iter().copied()));
    }
    let policy = TrustPolicy::from_signers("pinned", signers);
    Ok(ResolvedTrust { trust: Trust::Policy(policy), source: "the pinned fingerprints".to_owned() })
}

fn policy_file(path: &Path) -> Result<TrustPolicy, Failure> {
    let unreadable = |error: &std::io::Error| {
        Failure::new(ErrorCode::Trust, format!("cannot read the trust policy `{}`", path.display())).because(error)
    };
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(&error))?;
    if !metadata.is_file() {
        return Err(unreadable(&std::io::Error::other("it is not a plain file")));
    }
    let size = metadata.len();
    if size > MAX_BYTES {
        return Err(Failure::new(
            ErrorCode::Trust,
            format!("`{}` has {size} bytes, too many for a trust policy", path.display()),
        ));
    }
    read_trust(&path.display().to_string(), &std::fs::read(path).map_err(|error| unreadable(&error))?)
}

/// Returns the key files that a run in a store was published with, unverified: they are candidates only.
pub fn keys_beside_run(blobs: &dyn Blobs, head: &Head) -> Result<Vec<Vec<u8>>, Failure> {
    let mut found = Vec::new();
    for reference in &head.references {
        let Some(bytes) = blobs.get(&reference.manifest, MAX_MANIFEST_BYTES)? else { continue };
        let Ok(Document::Publication(publication)) = Document::parse(&bytes) else { continue };
        let is_key = |key: &&Artifact| is_key_file(&key.name);
        for key in publication.body.keys.iter().filter(is_key) {
            found.extend(blobs.get(&key.digest, MAX_BYTES)?);
        }
    }
    Ok(found)
}

/// Returns the key files of a published folder.
pub fn keys_in_folder(blobs: &FolderBlobs) -> Result<Vec<Vec<u8>>, Failure> {
    let keys = blobs.iter().filter(|(path, _)| is_key_file(path));
    Ok(keys.filter_map(|(_, digest)| blobs.get(digest, MAX_BYTES).transpose()).collect::<Result<_, _>>()?)
}

fn is_key_file(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "pub")
}
