//! in-toto resource descriptors: the names of a manifest's inputs in a statement.

use std::collections::BTreeMap;

use assay_manifest::{Digest, InputRef};
use serde::{Deserialize, Serialize};

use crate::subjects::{bundle_name, manifest_name};

const SHA256: &str = "sha256";
const GIT_COMMIT: &str = "gitCommit";
/// The longest name, address or digest in a descriptor.
const MAX_TEXT: usize = 4096;

/// An input of a manifest: by name, address or digest, at least one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceDescriptor {
    /// Its local name.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// Its address.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub uri: Option<String>,
    /// Its digests by algorithm, in hexadecimal: `sha256`, `gitCommit`, `gitBlob`, `gitTree`, `dirHash`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub digest: BTreeMap<String, String>,
    /// The IANA media type.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub media_type: Option<String>,
    /// Additional facts about it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub annotations: BTreeMap<String, String>,
}

impl ResourceDescriptor {
    /// Describes bytes by name and digest, such as an input or a dataset.
    pub fn from_name(name: impl Into<String>, digest: Digest) -> Self {
        Self { name: Some(name.into()), ..Self::default() }.with_digest(SHA256, digest.hex())
    }

    /// Describes a resource by address and digest, such as a container image.
    pub fn from_uri(uri: impl Into<String>, digest: Digest) -> Self {
        Self { uri: Some(uri.into()), ..Self::default() }.with_digest(SHA256, digest.hex())
    }

    /// Describes a commit of a Git repository; `uri` is `git+` and the repository's address.
    pub fn git_commit(uri: impl Into<String>, commit: impl Into<String>) -> Self {
        Self { uri: Some(uri.into()), ..Self::default() }.with_digest(GIT_COMMIT, commit)
    }

    /// Returns the same descriptor with one more digest.
    #[must_use]
    pub fn with_digest(mut self, algorithm: impl Into<String>, hex: impl Into<String>) -> Self {
        self.digest.insert(algorithm.into(), hex.into());
        self
    }

    /// The SHA-256, if it has one.
    pub fn sha256(&self) -> Option<Digest> {
        self.digest.get(SHA256).and_then(|hex| Digest::from_hex(hex).ok())
    }

    /// Returns the reason why this is not a valid descriptor, or `None`.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        if self.name.is_none() && self.uri.is_none() && self.digest.is_empty() {
            return Some("it has neither a name nor an address nor a digest");
        }
        let texts = [&self.name, &self.uri, &self.media_type].into_iter().flatten().chain(self.annotations.values());
        if texts.chain(self.annotations.keys()).any(|text| text.is_empty() || text.len() > MAX_TEXT) {
            return Some("a text of it is empty or too long");
        }
        let good = self.digest.iter().all(|(algorithm, hex)| is_digest(algorithm, hex));
        (!good).then_some("a digest of it is not of a known algorithm and length")
    }
}

fn is_digest(algorithm: &str, text: &str) -> bool {
    let hex = |lengths: &[usize]| lengths.contains(&text.len()) && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    match algorithm {
        SHA256 => hex(&[64]),
        // 40 digits with SHA-1, 64 in a repository of the SHA-256 format.
        GIT_COMMIT | "gitBlob" | "gitTree" => hex(&[40, 64]),
        // The directory hash of Go modules: `h1:` and base64.
        "dirHash" => !text.is_empty() && text.len() <= 128,
        _ => false,
    }
}

/// Describes an input in provenance: its manifest, and the bundle that was verified over it.
pub(crate) fn describe_input(input: &InputRef) -> [ResourceDescriptor; 2] {
    [
        ResourceDescriptor::from_name(manifest_name(input.kind), input.manifest),
        ResourceDescriptor::from_name(bundle_name(input.kind), input.bundle),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_names_something() {
        let digest = Digest::compute(b"x");
        for good in [
            ResourceDescriptor::from_name("plan.json", digest),
            ResourceDescriptor::from_uri("docker://example.com/image", digest),
            ResourceDescriptor::git_commit("git+https://example.com/r", "0123456789abcdef0123456789abcdef01234567"),
            ResourceDescriptor { name: Some("only a name".into()), ..Default::default() },
        ] {
            assert_eq!(good.problem(), None, "{good:?}");
        }
    }

    #[test]
    fn what_names_nothing_is_refused() {
        let named = ResourceDescriptor::from_name("x", Digest::compute(b"x"));
        for bad in [
            ResourceDescriptor::default(),
            ResourceDescriptor { name: Some(String::new()), ..named.clone() },
            ResourceDescriptor { uri: Some("x".repeat(5000)), ..named.clone() },
            named.clone().with_digest("sha256", "00"),
            named.clone().with_digest("sha256", "A".repeat(64)),
            named.clone().with_digest("gitCommit", "0123"),
            named.with_digest("crc32", "00000000"),
        ] {
            assert!(bad.problem().is_some(), "{bad:?}");
        }
    }
}
