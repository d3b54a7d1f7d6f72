//! Trust policies: accepted and refused ones.

use assay_manifest::Role;
use insta::assert_snapshot;

use super::{TRUST, problems, replace_part};
use crate::TrustPolicy;

fn trust(part: &str, replacement: &str) -> String {
    problems(&replace_part(TRUST, part, replacement))
}

#[test]
fn a_policy_is_read() {
    let policy = TrustPolicy::parse("trust.yaml", TRUST.as_bytes()).expect("a policy");
    let [signer] = policy.signers.as_slice() else { panic!("one signer") };
    assert_eq!((policy.name.as_str(), signer.name.as_str()), ("ours", "ci"));
    assert_eq!(signer.signs, [Role::Source, Role::Plan]);
    assert!(signer.key.starts_with("-----BEGIN PUBLIC KEY-----\nMFkw") && signer.key.ends_with("-----END PUBLIC KEY-----\n"));
    assert_eq!(signer.not_before.map(|instant| instant.to_string()), Some("2026-01-01T00:00:00.000000000Z".to_owned()));
}

#[test]
fn a_private_key_is_refused_and_not_shown() {
    assert_snapshot!(trust("BEGIN PUBLIC KEY", "BEGIN ENCRYPTED PRIVATE KEY"), @r"
    error: `spec.signers[0].key` holds a private key
     --> a.yaml:8:9
      |
    8 |         …
      |         ^
    hint: remove it from the file and its history, and make a new key
    ");
}

#[test]
fn a_key_is_pem_text() {
    let begin = TRUST.find("key: |").expect("a key");
    let end = TRUST.find("      signs").expect("roles");
    assert_snapshot!(trust(&TRUST[begin..end], "key: MFkw\n"), @r"
    error: `spec.signers[0].key` is not a public key: `MFkw`
     --> a.yaml:7:12
      |
    7 |       key: MFkw
      |            ^^^^
    hint: PEM text from `-----BEGIN PUBLIC KEY-----` to `-----END PUBLIC KEY-----`
    ");
}

#[test]
fn roles_are_known_and_named_once() {
    assert_snapshot!(trust("[source, plan]", "[source, paln, source]"), @r"
    error: `spec.signers[0].signs[1]` must be one of `source`, `plan`, `provision`, `execute`, `collect`, `reduce`, `publish`, `gate`, `calibrate`, `probe`, `import`, not `paln`
      --> a.yaml:11:23
       |
    11 |       signs: [source, paln, source]
       |                       ^^^^
    hint: did you mean `plan`?

    error: `source` is listed twice in `spec.signers[0].signs`
      --> a.yaml:11:29
       |
    11 |       signs: [source, paln, source]
       |                             ^^^^^^
    ");
    assert_snapshot!(trust("[source, plan]", "[]"), @r"
    error: `spec.signers[0].signs` must not be empty
      --> a.yaml:11:7
       |
    11 |       signs: []
       |       ^^^^^
    ");
}

#[test]
fn a_key_must_be_trusted_at_some_time() {
    assert_snapshot!(trust("not_after: 2027", "not_after: 2025"), @r"
    error: `not_after` is not after `not_before`, so it is never trusted
      --> a.yaml:13:18
       |
    13 |       not_after: 2025-01-01T00:00:00Z
       |                  ^^^^^^^^^^^^^^^^^^^^
    ");
    assert_snapshot!(trust("2027-01-01T00:00:00Z", "2027-01-01"), @r"
    error: `spec.signers[0].not_after` is not an instant: `2027-01-01`
      --> a.yaml:13:18
       |
    13 |       not_after: 2027-01-01
       |                  ^^^^^^^^^^
    hint: RFC 3339 in UTC, such as `2026-11-20T12:00:00Z`
    ");
}

#[test]
fn a_key_is_named_once() {
    let signer = &TRUST[TRUST.find("    - name: ci").expect("a signer")..];
    let twice = format!("{TRUST}{}", signer.replace("name: ci", "name: other"));
    assert_snapshot!(problems(&twice), @r"
    error: the signer `other` has the same key as `ci`
      --> a.yaml:15:7
       |
    15 |       key: |
       |       ^^^
    hint: name a key once, and list under `signs` all that it may sign
    ");
}

const PIN: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Returns the policy with these further members of `spec`.
fn with_members(members: &str) -> String {
    format!("{TRUST}{members}")
}

#[test]
fn expectations_and_authorities_are_read() {
    let text = with_members(&format!(
        "  expectations:
    - repositories: [https://git.example.org/team/benchmarks]
      refs: [refs/heads/main]
      pipelines: [pipelines/nightly.yaml]
    - roles: [execute]
      binaries: [sha256:{PIN}]
      images: [{PIN}]
      timestamp: required
  timestamp_authorities:
    - name: tsa
      certificates: |
        -----BEGIN CERTIFICATE-----
        MIIB
        -----END CERTIFICATE-----
        -----BEGIN CERTIFICATE-----
        MIIC
        -----END CERTIFICATE-----
"
    ));
    let policy = TrustPolicy::parse("trust.yaml", text.as_bytes()).expect("a policy");
    let [all, execute] = policy.expectations.as_slice() else { panic!("two expectations") };
    assert_eq!((all.roles.len(), all.refs.as_slice(), all.timestamp_required), (0, &["refs/heads/main".to_owned()][..], false));
    assert_eq!((execute.roles.as_slice(), execute.timestamp_required), (&[Role::Execute][..], true));
    assert_eq!((execute.binaries[0].hex(), execute.images[0].hex()), (PIN.to_owned(), PIN.to_owned()));
    assert_eq!(policy.timestamp_authorities[0].certificates.matches("BEGIN CERTIFICATE").count(), 2);
}

#[test]
fn an_expectation_requires_something_that_can_be_met() {
    assert_snapshot!(problems(&with_members("  expectations:\n    - roles: [plan]\n")), @r"
    error: `spec.expectations[0]` needs at least one of `repositories`, `refs`, `pipelines`, `binaries`, `images`, `timestamp`
      --> a.yaml:15:7
       |
    15 |     - roles: [plan]
       |       ^^^^^^^^^^^^^
    ");
    assert_snapshot!(problems(&with_members("  expectations:\n    - refs: [main]\n")), @r"
    error: `spec.expectations[0].refs[0]` is not a full Git reference: `main`
      --> a.yaml:15:14
       |
    15 |     - refs: [main]
       |              ^^^^
    hint: a full name such as `refs/heads/main` or `refs/tags/v1`
    ");
    assert_snapshot!(problems(&with_members("  expectations:\n    - timestamp: required\n")), @r"
    error: a timestamp is required, but the policy names no authority, so every bundle would be refused
      --> a.yaml:15:18
       |
    15 |     - timestamp: required
       |                  ^^^^^^^^
    hint: name an authority under `timestamp_authorities`
    ");
}
