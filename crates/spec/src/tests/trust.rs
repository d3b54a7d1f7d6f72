//! Trust policies: what is read, and what is refused.

use assay_manifest::Role;
use insta::assert_snapshot;

use super::{TRUST, problems, with};
use crate::TrustPolicy;

fn trust(part: &str, replacement: &str) -> String {
    problems(&with(TRUST, part, replacement))
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
    error: `not_after` is not after `not_before`, so the key is never trusted
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
