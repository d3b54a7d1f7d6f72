//! Trust: the keys that may sign, with their roles and validity. Never taken from the evidence under verification.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use assay_manifest::{Digest, Document, Instant, Role};

use crate::error::VerifyError;
use crate::expectation::{Expectation, RoleRequirements};
use crate::keys::PublicKey;
use crate::timestamp::TimestampAuthority;

/// A key that may sign the manifests of some roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedSigner {
    /// The name of the key's owner.
    pub name: String,
    /// The key.
    pub key: PublicKey,
    /// The roles that it may sign.
    pub signs: BTreeSet<Role>,
    /// The first instant at which it may sign. Compared with the time that the signer asserts, and with a checked timestamp.
    pub not_before: Option<Instant>,
    /// The last instant at which it may sign. Compared with the time that the signer asserts, and with a checked timestamp.
    pub not_after: Option<Instant>,
}

impl TrustedSigner {
    /// A signer without a validity window.
    pub fn new(name: impl Into<String>, key: PublicKey, signs: impl IntoIterator<Item = Role>) -> Self {
        Self { name: name.into(), key, signs: signs.into_iter().collect(), not_before: None, not_after: None }
    }

    /// Returns true if the key may sign at that time.
    pub fn is_valid_at(&self, time: Instant) -> bool {
        self.not_before.is_none_or(|first| first <= time) && self.not_after.is_none_or(|last| time <= last)
    }
}

/// The signers that are trusted, with the roles of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustPolicy {
    /// The name of the policy.
    pub name: String,
    /// The digest of the file that it was read from, if there was one.
    pub digest: Option<Digest>,
    /// The signers. A key may be listed more than once.
    pub signers: Vec<TrustedSigner>,
    /// Requirements on the origin of manifests.
    pub expectations: Vec<Expectation>,
    /// The trusted timestamp authorities.
    pub authorities: Vec<TimestampAuthority>,
}

/// The reason why a fingerprint cannot be trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrustError {
    /// No candidate key has the pinned fingerprint.
    #[error("no public key with the pinned fingerprint {0} is at hand")]
    PinnedKeyMissing(Digest),
}

impl TrustError {
    /// Returns the remedy.
    pub fn hint(&self) -> &'static str {
        "put the public key (PEM) beside the bundles, or check the fingerprint"
    }
}

impl TrustPolicy {
    /// Trusts the one key with this fingerprint, for every role. A fingerprint cannot verify, so the key itself must be among
    /// `candidates`; its source does not matter, because the fingerprint decides.
    pub fn from_fingerprint(fingerprint: Digest, candidates: &[PublicKey]) -> Result<Self, TrustError> {
        let key = candidates.iter().find(|key| key.fingerprint() == fingerprint);
        let key = key.ok_or(TrustError::PinnedKeyMissing(fingerprint))?;
        let signer = TrustedSigner::new("pinned", key.clone(), Role::ALL.iter().copied());
        Ok(Self::from_signers("pinned", vec![signer]))
    }

    /// Creates a policy of signers only, without requirements on the origin and without checks of timestamps.
    pub fn from_signers(name: impl Into<String>, signers: Vec<TrustedSigner>) -> Self {
        Self { name: name.into(), digest: None, signers, expectations: Vec::new(), authorities: Vec::new() }
    }

    /// Writes the policy as a definition file, such as the local trust root.
    pub fn to_yaml(&self) -> String {
        let mut yaml = format!(
            "apiVersion: assay.dev/v1alpha1\nkind: TrustPolicy\nmetadata:\n  name: {}\nspec:\n  signers:\n",
            yaml_text(&self.name)
        );
        for signer in &self.signers {
            write_signer(signer, &mut yaml);
        }
        if !self.expectations.is_empty() {
            yaml.push_str("  expectations:\n");
            self.expectations.iter().for_each(|expectation| write_expectation(expectation, &mut yaml));
        }
        if !self.authorities.is_empty() {
            yaml.push_str("  timestamp_authorities:\n");
            self.authorities.iter().for_each(|authority| write_authority(authority, &mut yaml));
        }
        yaml
    }

    fn identify(&self, fingerprint: Digest, role: Role, time: SigningTime) -> Result<SignerIdentity, VerifyError> {
        let with_key = self.signers.iter().filter(|signer| signer.key.fingerprint() == fingerprint);
        let (allowed, others): (Vec<_>, Vec<_>) = with_key.partition(|signer| signer.signs.contains(&role));
        let SigningTime { asserted, proven } = time;
        let is_valid = |signer: &&&TrustedSigner| {
            asserted.is_some_and(|time| signer.is_valid_at(time)) && proven.is_none_or(|time| signer.is_valid_at(time))
        };
        let valid = allowed.iter().find(is_valid);
        match (valid, allowed.first(), others.first(), asserted) {
            (Some(signer), ..) => Ok(SignerIdentity { name: signer.name.clone(), fingerprint, established: true }),
            (None, Some(signer), _, Some(asserted)) => {
                let disproved = proven.filter(|time| !signer.is_valid_at(*time));
                let (time, asserted) = disproved.map_or((asserted, true), |time| (time, false));
                Err(VerifyError::KeyOutsideValidity { signer: signer.name.clone(), time, asserted })
            }
            (None, None, Some(signer), _) => {
                let signs = signer.signs.iter().map(|role| role.as_str()).collect::<Vec<_>>().join(", ");
                Err(VerifyError::WrongSigner { signer: signer.name.clone(), signs, role })
            }
            _ => Err(VerifyError::UnknownKey { fingerprint, policy: Some(self.name.clone()) }),
        }
    }
}

fn write_signer(signer: &TrustedSigner, yaml: &mut String) {
    let signs: Vec<_> = signer.signs.iter().map(|role| role.as_str()).collect();
    // Writing to a String cannot fail.
    let _ = write!(yaml, "    - name: {}\n      key: |\n", yaml_text(&signer.name));
    for line in signer.key.to_pem().lines() {
        let _ = writeln!(yaml, "        {line}");
    }
    let _ = writeln!(yaml, "      signs: [{}]", signs.join(", "));
    write_window(signer.not_before, signer.not_after, yaml);
}

fn write_window(not_before: Option<Instant>, not_after: Option<Instant>, yaml: &mut String) {
    for (member, instant) in [("not_before", not_before), ("not_after", not_after)] {
        if let Some(instant) = instant {
            let _ = writeln!(yaml, "      {member}: \"{instant}\"");
        }
    }
}

/// Writes an expectation as one line, because JSON is YAML's flow style.
fn write_expectation(expectation: &Expectation, yaml: &mut String) {
    let Expectation { roles, repositories, refs, pipelines, binaries, images, timestamp_required } = expectation;
    let mut members = serde_json::Map::new();
    let mut list = |name: &str, items: Vec<String>| {
        if !items.is_empty() {
            members.insert(name.to_owned(), items.into());
        }
    };
    list("roles", roles.iter().map(|role| role.as_str().to_owned()).collect());
    list("repositories", repositories.iter().cloned().collect());
    list("refs", refs.iter().cloned().collect());
    list("pipelines", pipelines.iter().cloned().collect());
    list("binaries", binaries.iter().map(ToString::to_string).collect());
    list("images", images.iter().map(ToString::to_string).collect());
    if *timestamp_required {
        members.insert("timestamp".to_owned(), "required".into());
    }
    let _ = writeln!(yaml, "    - {}", serde_json::Value::Object(members));
}

fn write_authority(authority: &TimestampAuthority, yaml: &mut String) {
    let _ = write!(yaml, "    - name: {}\n      certificates: |\n", yaml_text(&authority.name));
    for line in authority.to_pem().lines() {
        let _ = writeln!(yaml, "        {line}");
    }
    write_window(authority.not_before, authority.not_after, yaml);
}

/// Returns a text as a YAML scalar: every JSON string is a double-quoted scalar, so nothing in a name can end it early.
fn yaml_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The source of trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The signers of a policy.
    Policy(TrustPolicy),
    /// No trust: signatures are checked with keys found beside the bundle. This shows that nothing changed after signing, and
    /// does not establish the signer.
    None {
        /// The keys that were found.
        candidates: Vec<PublicKey>,
    },
}

impl Trust {
    /// Returns the key with this fingerprint.
    pub(crate) fn key(&self, fingerprint: Digest) -> Result<&PublicKey, VerifyError> {
        let found = match self {
            Self::Policy(policy) => policy.signers.iter().map(|signer| &signer.key).find(|key| key.fingerprint() == fingerprint),
            Self::None { candidates } => candidates.iter().find(|key| key.fingerprint() == fingerprint),
        };
        let policy = match self {
            Self::Policy(policy) => Some(policy.name.clone()),
            Self::None { .. } => None,
        };
        found.ok_or(VerifyError::UnknownKey { fingerprint, policy })
    }

    /// The trusted timestamp authorities.
    pub(crate) fn authorities(&self) -> &[TimestampAuthority] {
        match self {
            Self::Policy(policy) => &policy.authorities,
            Self::None { .. } => &[],
        }
    }

    /// Returns the requirements on manifests of this role.
    pub(crate) fn requirements_for(&self, role: Role) -> RoleRequirements<'_> {
        match self {
            Self::Policy(policy) => RoleRequirements::new(&policy.expectations, role),
            Self::None { .. } => RoleRequirements::new(&[], role),
        }
    }

    /// Checks a Source or Plan against the requirements on `role`: manifests of every role of a run depend on them. Other
    /// documents record nothing about a run's origin, and pass.
    pub fn check_origin(&self, role: Role, document: &Document) -> Result<(), VerifyError> {
        Ok(self.requirements_for(role).check_run(document)?)
    }

    /// Returns the signer for `role` with this key at that time.
    pub(crate) fn identify(&self, key: Digest, role: Role, time: SigningTime) -> Result<SignerIdentity, VerifyError> {
        match self {
            Self::Policy(policy) => policy.identify(key, role, time),
            Self::None { .. } => {
                Ok(SignerIdentity { name: format!("not established ({})", key.short()), fingerprint: key, established: false })
            }
        }
    }
}

/// The time of a signature, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SigningTime {
    /// The time that the signer asserts.
    pub(crate) asserted: Option<Instant>,
    /// The time of a checked timestamp.
    pub(crate) proven: Option<Instant>,
}

/// The identity of a signer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignerIdentity {
    /// The name in the trust policy, or a text that says that there is none.
    pub name: String,
    /// The fingerprint of the key.
    pub fingerprint: Digest,
    /// True if a trust policy names the signer. If not, the command ends with exit code 21.
    pub established: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SecretKey;

    fn key(byte: u8) -> PublicKey {
        SecretKey::from_scalar(&[byte; 32]).public_key()
    }

    fn policy(signers: Vec<TrustedSigner>) -> TrustPolicy {
        TrustPolicy::from_signers("team", signers)
    }

    fn asserted(second: i64) -> SigningTime {
        SigningTime { asserted: Some(at(second)), proven: None }
    }

    fn at(second: i64) -> Instant {
        Instant::from_unix_ns(second * 1_000_000_000)
    }

    fn code(policy: &TrustPolicy, key: &PublicKey, role: Role, second: i64) -> &'static str {
        policy.identify(key.fingerprint(), role, asserted(second)).map_or_else(|refusal| refusal.code().as_str(), |_| "ok")
    }

    #[test]
    fn a_key_signs_what_the_policy_lists() {
        let policy = policy(vec![TrustedSigner::new("runner", key(1), [Role::Plan, Role::Execute])]);
        assert_eq!(code(&policy, &key(1), Role::Plan, 0), "ok");
        assert_eq!(code(&policy, &key(1), Role::Publish, 0), "wrong_signer");
        assert_eq!(code(&policy, &key(2), Role::Plan, 0), "unknown_key");
    }

    #[test]
    fn a_validity_window_includes_both_ends() {
        let window = |name, from, to| {
            let signer = TrustedSigner::new(name, key(1), [Role::Plan]);
            TrustedSigner { not_before: Some(at(from)), not_after: Some(at(to)), ..signer }
        };
        let one = policy(vec![window("old", 10, 20)]);
        for (second, expected) in [(9, "key_outside_validity"), (10, "ok"), (20, "ok"), (21, "key_outside_validity")] {
            assert_eq!(code(&one, &key(1), Role::Plan, second), expected, "at {second}");
        }
        let two = policy(vec![window("old", 10, 20), window("new", 30, 40)]);
        assert_eq!(two.identify(key(1).fingerprint(), Role::Plan, asserted(35)).expect("valid").name, "new");
    }

    #[test]
    fn a_pinned_fingerprint_needs_its_key_and_signs_everything() {
        let pinned = TrustPolicy::from_fingerprint(key(1).fingerprint(), &[key(2), key(1)]).expect("the key is there");
        assert!(Role::ALL.iter().all(|role| code(&pinned, &key(1), *role, 0) == "ok"));
        assert_eq!(code(&pinned, &key(2), Role::Plan, 0), "unknown_key");
        let missing = TrustPolicy::from_fingerprint(key(3).fingerprint(), &[key(1)]);
        assert_eq!(missing, Err(TrustError::PinnedKeyMissing(key(3).fingerprint())));
    }

    #[test]
    fn without_trust_the_signer_is_not_established() {
        let trust = Trust::None { candidates: vec![key(1)] };
        let identity = trust.identify(key(1).fingerprint(), Role::Plan, SigningTime::default()).expect("consistent");
        assert!(!identity.established);
        assert!(trust.key(key(2).fingerprint()).is_err());
    }

    #[test]
    fn expectations_are_written_as_a_definition() {
        let expectation = Expectation {
            roles: [Role::Publish].into(),
            refs: ["refs/heads/main".to_owned()].into(),
            timestamp_required: true,
            ..Expectation::default()
        };
        let yaml = TrustPolicy { expectations: vec![expectation], ..policy(Vec::new()) }.to_yaml();
        let expected =
            "  expectations:\n    - {\"refs\":[\"refs/heads/main\"],\"roles\":[\"publish\"],\"timestamp\":\"required\"}\n";
        assert!(yaml.ends_with(expected), "{yaml}");
    }

    #[test]
    fn a_policy_is_written_as_a_definition() {
        let mut signer = TrustedSigner::new("local \"plan\"", key(1), [Role::Plan, Role::Source]);
        signer.not_after = Some(at(20));
        insta::assert_snapshot!(policy(vec![signer]).to_yaml(), @r#"
        apiVersion: assay.dev/v1alpha1
        kind: TrustPolicy
        metadata:
          name: "team"
        spec:
          signers:
            - name: "local \"plan\""
              key: |
                -----BEGIN PUBLIC KEY-----
                MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEb/A7lJJBzh2t1DUZ5pYOCoW0Gmmg
                XDKBA6orzhWUyhY8T3U6Vb8B3FP2wLDH7ueLQMb/fSWpbiKCuYnO9xwUSg==
                -----END PUBLIC KEY-----
              signs: [source, plan]
              not_after: "1970-01-01T00:00:20.000000000Z"
        "#);
    }
}
