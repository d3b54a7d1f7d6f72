//! Verifiers of other projects agree with ours: npm's Sigstore libraries, python's securesystemslib, and openssl.
//!
//! `ASSAY_TEST_FOREIGN=<folder>` requests them, with a folder that `tests/foreign/install.sh` filled. If they are requested and
//! do not run, the tests fail. Without it the same bundles are still judged by Assay, so the rows below always test something.

use std::path::{Path, PathBuf};
use std::process::Command;

use assay_envelope::{ExpectedManifest, PublicKey, SignedManifest, verify};
use assay_manifest::Role;
use serde_json::{Value, json};

use crate::support::*;

struct ForeignVerifiers {
    folder: PathBuf,
}

impl ForeignVerifiers {
    fn from_env() -> Option<Self> {
        std::env::var_os("ASSAY_TEST_FOREIGN").map(|folder| Self { folder: folder.into() })
    }

    fn commands(&self) -> [(&'static str, Command); 3] {
        let script = |program: PathBuf, script: &str| {
            let mut command = Command::new(program);
            command.arg(self.folder.join(script));
            command
        };
        [
            ("@sigstore/verify", script("node".into(), "verify.mjs")),
            ("securesystemslib", script(self.folder.join("venv/bin/python"), "verify.py")),
            ("openssl", script("sh".into(), "verify.sh")),
        ]
    }
}

/// The files that a verifier receives.
struct VerifierInput {
    manifest: Vec<u8>,
    bundle: Vec<u8>,
    key: PublicKey,
}

impl VerifierInput {
    fn write(&self, folder: &Path) -> [PathBuf; 3] {
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            std::fs::write(&path, bytes).expect("written");
            path
        };
        let key = self.key.to_pem();
        [file("manifest.json", &self.manifest), file("manifest.sigstore.json", &self.bundle), file("key.pem", key.as_bytes())]
    }
}

/// Checks that every verifier gives the same verdict.
fn check_all_verifiers(accepted: bool, what: &str, offer: &VerifierInput) {
    let signer = assay_envelope::TrustedSigner::new("signer", offer.key.clone(), Role::ALL.iter().copied());
    let policy = assay_envelope::TrustPolicy::from_signers("team", vec![signer]);
    let ours = verify(&offer.manifest, &offer.bundle, &assay_envelope::Trust::Policy(policy), &ExpectedManifest::default());
    assert_eq!(ours.is_ok(), accepted, "{what}: assay says {:?}", ours.err());
    let Some(foreign) = ForeignVerifiers::from_env() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let files = offer.write(folder.path());
    for (name, mut command) in foreign.commands() {
        let output = command.args(&files).output().expect("the verifier starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(i32::from(!accepted)), "{what}: {name} says {said}");
        // A script that crashes also ends with 1; only a refusal prints `refused`.
        assert_eq!(said.lines().any(|line| line.starts_with("refused")), !accepted, "{what}: {name} says {said}");
    }
}

fn verifier_input(signed: SignedManifest, key: &Key) -> VerifierInput {
    VerifierInput { manifest: signed.manifest, bundle: signed.bundle, key: key.public.clone() }
}

#[test]
fn all_accept_what_is_signed() {
    let key = Key::new();
    check_all_verifiers(true, "a collection", &verifier_input(signed_collection(&key, "run-1"), &key));
    check_all_verifiers(true, "a publication", &verifier_input(signed(&publication(), &key, summary()), &key));
    for outputs in [1_000, 1_001] {
        let manifest = recording((0..outputs).map(|i| format!("series/{i}")));
        check_all_verifiers(
            true,
            "many outputs",
            &verifier_input(signed(&manifest, &key, provenance(Role::Collect, "run-1")), &key),
        );
    }
}

#[test]
fn all_refuse_other_bytes() {
    let (key, other) = (Key::new(), Key::new());
    let good = || verifier_input(signed_collection(&key, "run-1"), &key);
    check_all_verifiers(
        false,
        "an edited manifest",
        &VerifierInput { manifest: [good().manifest, b" ".to_vec()].concat(), ..good() },
    );
    check_all_verifiers(false, "another key", &VerifierInput { key: other.public.clone(), ..good() });
    check_all_verifiers(
        false,
        "the bundle of another run",
        &VerifierInput { bundle: signed_collection(&key, "run-2").bundle, ..good() },
    );
    check_all_verifiers(false, "another signer", &VerifierInput { bundle: signed_collection(&other, "run-1").bundle, ..good() });
    check_all_verifiers(false, "no bundle", &VerifierInput { bundle: b"{}".to_vec(), ..good() });
}

#[test]
fn all_refuse_an_edited_bundle() {
    let key = Key::new();
    let good = verifier_input(signed_collection(&key, "run-1"), &key);
    let edit = |edit: fn(&mut Value)| {
        let mut bundle: Value = serde_json::from_slice(&good.bundle).expect("JSON");
        edit(&mut bundle);
        VerifierInput { bundle: bundle.to_string().into_bytes(), manifest: good.manifest.clone(), key: good.key.clone() }
    };
    check_all_verifiers(false, "the payload", &edit(|b| b["dsseEnvelope"]["payload"] = json!("e30=")));
    check_all_verifiers(false, "the payload type", &edit(|b| b["dsseEnvelope"]["payloadType"] = json!("application/json")));
    check_all_verifiers(false, "the signature", &edit(|b| b["dsseEnvelope"]["signatures"][0]["sig"] = json!("MAYCAQECAQE=")));
    check_all_verifiers(false, "no signature", &edit(|b| b["dsseEnvelope"]["signatures"] = json!([])));
    check_all_verifiers(
        false,
        "the hint",
        &edit(|b| b["verificationMaterial"]["publicKey"]["hint"] = json!("A".repeat(43) + "=")),
    );
    check_all_verifiers(
        false,
        "two signatures",
        &edit(|b| {
            let signature = b["dsseEnvelope"]["signatures"][0].clone();
            b["dsseEnvelope"]["signatures"] = json!([signature.clone(), signature]);
        }),
    );
}
