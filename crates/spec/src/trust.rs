//! Trust policies: the keys that may sign, for which roles, and the required origin of manifests.

use std::collections::BTreeMap;

use assay_manifest::{Digest, Instant, Name, Role};

use crate::checked_value::{CheckedValue, Read};
use crate::define::{Define, DefinitionKind, SourcePlaces, parse_as};
use crate::problem::{Problem, Problems};

/// A trust policy as its file defines it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustPolicy {
    /// Its name.
    pub name: Name,
    /// A description for people.
    pub description: Option<String>,
    /// The person or team that is responsible for it.
    pub owner: Option<String>,
    /// Free-form labels, by name.
    pub labels: BTreeMap<String, String>,
    /// The keys, each with the roles that it may sign for. A key that is not listed is not trusted.
    pub signers: Vec<Signer>,
    /// Requirements on the origin of manifests. All that cover a role apply.
    pub expectations: Vec<Expectation>,
    /// The authorities whose timestamps are trusted.
    pub timestamp_authorities: Vec<TimestampAuthority>,
}

/// A requirement on the origin of manifests. An empty list requires nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The roles that it covers; if empty, those of a run.
    pub roles: Vec<Role>,
    /// Addresses of the repository.
    pub repositories: Vec<String>,
    /// Full names of the branch or tag.
    pub refs: Vec<String>,
    /// Paths of the pipeline.
    pub pipelines: Vec<String>,
    /// Digests of the signing binary.
    pub binaries: Vec<Digest>,
    /// Digests of the container image in which the signing binary ran.
    pub images: Vec<Digest>,
    /// True if a bundle needs a checked timestamp.
    pub timestamp_required: bool,
}

/// A timestamp authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimestampAuthority {
    /// Its name.
    pub name: Name,
    /// Its certificate chain: PEM text, the trusted root last. The certificates are validated only when they are used.
    pub certificates: String,
    /// Timestamps from before this instant are not trusted.
    pub not_before: Option<Instant>,
    /// Timestamps from after this instant are not trusted.
    pub not_after: Option<Instant>,
}

/// A key and the roles that it may sign for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signer {
    /// The name of the key's holder.
    pub name: Name,
    /// The public key: PEM text (SubjectPublicKeyInfo). Its kind is checked only when it is used.
    pub key: String,
    /// The roles that it may sign for.
    pub signs: Vec<Role>,
    /// Signatures from before this instant are not trusted.
    pub not_before: Option<Instant>,
    /// Signatures from after this instant are not trusted.
    pub not_after: Option<Instant>,
}

impl TrustPolicy {
    /// Parses a trust policy file; `file` is its name in problems.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, Vec<Problem>> {
        parse_as(file, bytes)
    }
}

impl Define for TrustPolicy {
    const KIND: DefinitionKind = DefinitionKind::TrustPolicy;

    fn cross_check(checked: &CheckedValue, problems: &mut Problems<'_>) {
        let signers = checked.at(&["spec", "signers"]).map_or(&[][..], CheckedValue::items);
        for signer in signers {
            check_window(signer, problems);
        }
        check_keys(signers, problems);
        let authorities = checked.at(&["spec", "timestamp_authorities"]).map_or(&[][..], CheckedValue::items);
        for authority in authorities {
            check_window(authority, problems);
        }
        if authorities.is_empty() {
            check_no_timestamp(checked.at(&["spec", "expectations"]).map_or(&[][..], CheckedValue::items), problems);
        }
    }

    fn read(checked: &CheckedValue, _: SourcePlaces) -> Option<Self> {
        let metadata = checked.member("metadata")?;
        Some(Self {
            name: metadata.get("name")?,
            description: metadata.get("description")?,
            owner: metadata.get("owner")?,
            labels: metadata.get("labels")?,
            signers: checked.member("spec")?.get("signers")?,
            expectations: checked.member("spec")?.get("expectations")?,
            timestamp_authorities: checked.member("spec")?.get("timestamp_authorities")?,
        })
    }
}

fn check_window(signer: &CheckedValue, problems: &mut Problems<'_>) {
    let instant = |name: &str| signer.member(name).and_then(Instant::read);
    let (Some(begin), Some(end)) = (instant("not_before"), instant("not_after")) else { return };
    if end <= begin {
        let place = signer.member("not_after").map_or(signer.span, |value| value.span);
        problems.add(place, "`not_after` is not after `not_before`, so it is never trusted");
    }
}

/// Reports expectations that require a timestamp: without an authority, no timestamp can be checked, so none could be fulfilled.
fn check_no_timestamp(expectations: &[CheckedValue], problems: &mut Problems<'_>) {
    for expectation in expectations.iter().filter(|expectation| expectation.text_of("timestamp") == Some("required")) {
        let place = expectation.member("timestamp").map_or(expectation.span, |value| value.span);
        let message = "a timestamp is required, but the policy names no authority, so every bundle would be refused";
        problems.add_hinted(place, message, "name an authority under `timestamp_authorities`");
    }
}

/// Checks that no key has two names: one name could sign what only the other may.
fn check_keys(signers: &[CheckedValue], problems: &mut Problems<'_>) {
    let mut known: BTreeMap<&str, &str> = BTreeMap::new();
    for signer in signers {
        let (Some(key), Some(name)) = (signer.member("key"), signer.text_of("name")) else { continue };
        if let Some(first) = known.insert(key.text().unwrap_or_default(), name) {
            let message = format!("the signer `{name}` has the same key as `{first}`");
            problems.add_hinted(key.anchor, message, "name a key once, and list under `signs` all that it may sign");
        }
    }
}

impl Read for Signer {
    fn read(signer: &CheckedValue) -> Option<Self> {
        Some(Self {
            name: signer.get("name")?,
            key: signer.get("key")?,
            signs: signer.get("signs")?,
            not_before: signer.get("not_before")?,
            not_after: signer.get("not_after")?,
        })
    }
}

impl Read for Expectation {
    fn read(expectation: &CheckedValue) -> Option<Self> {
        let digests = |name: &str| -> Option<Vec<Digest>> {
            expectation.get::<Vec<String>>(name)?.iter().map(|hex| Digest::from_hex(hex).ok()).collect()
        };
        Some(Self {
            roles: expectation.get("roles")?,
            repositories: expectation.get("repositories")?,
            refs: expectation.get("refs")?,
            pipelines: expectation.get("pipelines")?,
            binaries: digests("binaries")?,
            images: digests("images")?,
            timestamp_required: expectation.text_of("timestamp") == Some("required"),
        })
    }
}

impl Read for TimestampAuthority {
    fn read(authority: &CheckedValue) -> Option<Self> {
        Some(Self {
            name: authority.get("name")?,
            certificates: authority.get("certificates")?,
            not_before: authority.get("not_before")?,
            not_after: authority.get("not_after")?,
        })
    }
}
