//! The trust policy: from the YAML that people review to the rules that signatures are checked against.

use std::path::Path;

use assay_envelope::{Expectation, PublicKey, TimestampAuthority, TrustPolicy, TrustedSigner};
use assay_manifest::Digest;
use assay_spec as spec;
use assay_store::Store;

use crate::{ErrorCode, Failure};

/// The largest trust policy, in bytes.
const MAX_POLICY_BYTES: u64 = 1 << 20;

/// Parses a trust policy from its YAML; `file` is its name in problems.
pub fn read_trust(file: &str, bytes: &[u8]) -> Result<TrustPolicy, Failure> {
    let policy = spec::TrustPolicy::parse(file, bytes)
        .map_err(|problems| Failure { code: ErrorCode::TrustPolicy, ..Failure::invalid(&problems) })?;
    let signers = policy.signers.iter().map(signer).collect::<Result<_, _>>()?;
    let authorities = policy.timestamp_authorities.iter().map(authority).collect::<Result<_, _>>()?;
    let expectations = policy.expectations.into_iter().map(expectation).collect();
    Ok(TrustPolicy { name: policy.name.to_string(), digest: Some(Digest::compute(bytes)), signers, expectations, authorities })
}

fn expectation(expectation: spec::Expectation) -> Expectation {
    Expectation {
        roles: expectation.roles.into_iter().collect(),
        repositories: expectation.repositories.into_iter().collect(),
        refs: expectation.refs.into_iter().collect(),
        pipelines: expectation.pipelines.into_iter().collect(),
        binaries: expectation.binaries.into_iter().collect(),
        images: expectation.images.into_iter().collect(),
        timestamp_required: expectation.timestamp_required,
    }
}

fn authority(authority: &spec::TimestampAuthority) -> Result<TimestampAuthority, Failure> {
    let mut read = TimestampAuthority::new(authority.name.as_str(), &authority.certificates).map_err(|error| {
        let message = format!("the certificates of the timestamp authority `{}` cannot be used", authority.name);
        Failure::new(ErrorCode::TrustAuthority, message).because(&error)
    })?;
    (read.not_before, read.not_after) = (authority.not_before, authority.not_after);
    Ok(read)
}

fn signer(signer: &spec::Signer) -> Result<TrustedSigner, Failure> {
    let key = PublicKey::from_pem(&signer.key).map_err(|error| {
        Failure::new(ErrorCode::TrustKey, format!("the key of signer `{}` cannot be used", signer.name)).because(&error)
    })?;
    Ok(TrustedSigner {
        name: signer.name.to_string(),
        key,
        signs: signer.signs.iter().copied().collect(),
        not_before: signer.not_before,
        not_after: signer.not_after,
    })
}

/// Loads the policy that `--trust` names: a digest in the store, or a file, which is then stored.
pub fn load_trust(store: &Store, name: &str) -> Result<(TrustPolicy, Digest), Failure> {
    let (policy, bytes) = find_trust(store, name)?;
    let digest = store.put(&bytes)?;
    Ok((policy, digest))
}

/// Reads the policy that `--trust` names, without storing it: a reader who computes a result again may have no right to write.
pub(crate) fn read_named_trust(store: &Store, name: &str) -> Result<(TrustPolicy, Digest), Failure> {
    let (policy, bytes) = find_trust(store, name)?;
    Ok((policy, Digest::compute(&bytes)))
}

fn find_trust(store: &Store, name: &str) -> Result<(TrustPolicy, Vec<u8>), Failure> {
    let bytes = match name.parse::<Digest>() {
        Ok(digest) => store.get(&digest, MAX_POLICY_BYTES)?,
        Err(_) => read_policy_file(Path::new(name))?,
    };
    Ok((read_trust(name, &bytes)?, bytes))
}

fn read_policy_file(path: &Path) -> Result<Vec<u8>, Failure> {
    let unreadable = |error: std::io::Error| {
        Failure::new(ErrorCode::TrustPolicy, format!("cannot read the trust policy `{}`", path.display()))
            .because(&error)
            .hint("`--trust` takes a digest in the store or the path of a TrustPolicy file")
    };
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(unreadable(std::io::Error::other("it is not a plain file")));
    }
    let size = metadata.len();
    if size > MAX_POLICY_BYTES {
        return Err(Failure::new(
            ErrorCode::TrustPolicy,
            format!("`{}` has {size} bytes, more than {MAX_POLICY_BYTES}", path.display()),
        ));
    }
    std::fs::read(path).map_err(unreadable)
}
