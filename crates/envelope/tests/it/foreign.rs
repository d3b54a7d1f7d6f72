//! Verifiers of other projects agree with ours: npm's Sigstore libraries, python's securesystemslib, and openssl.
//!
//! `ASSAY_TEST_FOREIGN=<folder>` requests them, with a folder that `tests/foreign/install.sh` filled. If they are requested and
//! do not run, the tests fail. Without it the same bundles are still judged by Assay, so the rows below always test something.

use std::path::{Path, PathBuf};
use std::process::Command;

use assay_envelope::{Expect, PublicKey, Signed, verify};
use assay_manifest::Role;
use serde_json::{Value, json};

use crate::support::*;

struct Foreign {
    folder: PathBuf,
}

impl Foreign {
    fn asked_for() -> Option<Self> {
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
struct Offer {
    manifest: Vec<u8>,
    bundle: Vec<u8>,
    key: PublicKey,
}

impl Offer {
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
fn all_say(accepted: bool, what: &str, offer: &Offer) {
    let signer = assay_envelope::TrustedSigner::new("signer", offer.key.clone(), Role::ALL.iter().copied());
    let policy = assay_envelope::TrustPolicy::of_signers("team", vec![signer]);
    let ours = verify(&offer.manifest, &offer.bundle, &assay_envelope::Trust::Policy(policy), &Expect::default());
    assert_eq!(ours.is_ok(), accepted, "{what}: assay says {:?}", ours.err());
    let Some(foreign) = Foreign::asked_for() else { return };
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

fn offer(signed: Signed, key: &Key) -> Offer {
    Offer { manifest: signed.manifest, bundle: signed.bundle, key: key.public.clone() }
}

#[test]
fn all_accept_what_is_signed() {
    let key = Key::new();
    all_say(true, "a collection", &offer(signed_collection(&key, "run-1"), &key));
    all_say(true, "a publication", &offer(signed(&publication(), &key, summary()), &key));
    for outputs in [1_000, 1_001] {
        let manifest = recording((0..outputs).map(|i| format!("series/{i}")));
        all_say(true, "many outputs", &offer(signed(&manifest, &key, provenance(Role::Collect, "run-1")), &key));
    }
}

#[test]
fn all_refuse_other_bytes() {
    let (key, other) = (Key::new(), Key::new());
    let good = || offer(signed_collection(&key, "run-1"), &key);
    all_say(false, "an edited manifest", &Offer { manifest: [good().manifest, b" ".to_vec()].concat(), ..good() });
    all_say(false, "another key", &Offer { key: other.public.clone(), ..good() });
    all_say(false, "the bundle of another run", &Offer { bundle: signed_collection(&key, "run-2").bundle, ..good() });
    all_say(false, "another signer", &Offer { bundle: signed_collection(&other, "run-1").bundle, ..good() });
    all_say(false, "no bundle", &Offer { bundle: b"{}".to_vec(), ..good() });
}

#[test]
fn all_refuse_an_edited_bundle() {
    let key = Key::new();
    let good = offer(signed_collection(&key, "run-1"), &key);
    let edit = |edit: fn(&mut Value)| {
        let mut bundle: Value = serde_json::from_slice(&good.bundle).expect("JSON");
        edit(&mut bundle);
        Offer { bundle: bundle.to_string().into_bytes(), manifest: good.manifest.clone(), key: good.key.clone() }
    };
    all_say(false, "the payload", &edit(|b| b["dsseEnvelope"]["payload"] = json!("e30=")));
    all_say(false, "the payload type", &edit(|b| b["dsseEnvelope"]["payloadType"] = json!("application/json")));
    all_say(false, "the signature", &edit(|b| b["dsseEnvelope"]["signatures"][0]["sig"] = json!("MAYCAQECAQE=")));
    all_say(false, "no signature", &edit(|b| b["dsseEnvelope"]["signatures"] = json!([])));
    all_say(false, "the hint", &edit(|b| b["verificationMaterial"]["publicKey"]["hint"] = json!("A".repeat(43) + "=")));
    all_say(
        false,
        "two signatures",
        &edit(|b| {
            let signature = b["dsseEnvelope"]["signatures"][0].clone();
            b["dsseEnvelope"]["signatures"] = json!([signature.clone(), signature]);
        }),
    );
}
