//! Verifiers of other projects accept every bundle of a real run.
//!
//! They are installed by `tests/foreign/install.sh FOLDER`; `ASSAY_TEST_FOREIGN=FOLDER` asks for them. Asked for and absent, the
//! test fails; not asked for, only the shape of the bundles is looked at.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::pipeline::{list, text};
use crate::support::{Ran, files_under, measured};

/// A verifier: its name, its program, the script that it runs.
type Verifier = (&'static str, PathBuf, PathBuf);

/// A manifest with its bundle and the public key of whoever signs it.
struct Triple {
    manifest: PathBuf,
    bundle: PathBuf,
    key: PathBuf,
}

impl Triple {
    fn all() -> Vec<Self> {
        let folder = measured().published("one");
        let manifests = files_under(&folder.join("chain")).into_iter();
        let manifests = manifests.filter(|path| !path.display().to_string().ends_with(".sigstore.json"));
        manifests
            .map(|manifest| {
                let document: Value = serde_json::from_slice(&fs::read(&manifest).expect("a manifest")).expect("JSON");
                let key = folder.join(format!("keys/{}.pub", text(&document["header"]["stage"])));
                Self { bundle: manifest.with_extension("sigstore.json"), manifest, key }
            })
            .collect()
    }
}

#[test]
fn bundles_have_the_shape_that_others_read() {
    let triples = Triple::all();
    assert_eq!(triples.len(), 8);
    for Triple { bundle, key, .. } in triples {
        let bundle: Value = serde_json::from_slice(&fs::read(&bundle).expect("a bundle")).expect("JSON");
        assert_eq!(text(&bundle["mediaType"]), "application/vnd.dev.sigstore.bundle.v0.3+json");
        let envelope = &bundle["dsseEnvelope"];
        assert_eq!(text(&envelope["payloadType"]), "application/vnd.in-toto+json");
        let signatures = list(&envelope["signatures"]);
        assert_eq!(signatures.len(), 1);
        assert!(signatures[0].get("keyid").is_none(), "cosign refuses a key id that is not its own");
        assert!(fs::read_to_string(&key).expect("a key").starts_with("-----BEGIN PUBLIC KEY-----"));
    }
}

#[test]
fn foreign_verifiers_accept_every_bundle_and_refuse_another_manifest() {
    let Some(folder) = std::env::var_os("ASSAY_TEST_FOREIGN").map(PathBuf::from) else {
        println!("ASSAY_TEST_FOREIGN is not set: nothing foreign was checked");
        return;
    };
    let triples = Triple::all();
    for verifier in verifiers(&folder) {
        for triple in &triples {
            check(&verifier, &triple.manifest, triple, 0);
        }
        let [first, second, ..] = &triples[..] else { panic!("a run has several manifests") };
        check(&verifier, &second.manifest, first, 1);
    }
}

/// A verdict is about a commit too, which others' verifiers have to bear.
#[test]
fn foreign_verifiers_accept_a_verdict() {
    let Some(folder) = std::env::var_os("ASSAY_TEST_FOREIGN").map(PathBuf::from) else {
        println!("ASSAY_TEST_FOREIGN is not set: nothing foreign was checked");
        return;
    };
    let (fixture, verdict) = crate::gate::verdict_folder(60);
    let file = |name: &str| verdict.join(name);
    let key = fixture.config().join("keys/gate.pub");
    let triple = Triple { manifest: file("verdict.json"), bundle: file("verdict.sigstore.json"), key };
    for verifier in verifiers(&folder) {
        check(&verifier, &triple.manifest, &triple, 0);
        check(&verifier, &file("junit.xml"), &triple, 1);
    }
}

fn verifiers(folder: &Path) -> [Verifier; 3] {
    let verifiers = [
        ("npm @sigstore/verify", PathBuf::from("node"), folder.join("verify.mjs")),
        ("python securesystemslib", folder.join("venv/bin/python"), folder.join("verify.py")),
        ("openssl", PathBuf::from("sh"), folder.join("verify.sh")),
    ];
    for (name, _, script) in &verifiers {
        assert!(script.is_file(), "`{}` for {name} is not there: install them with tests/foreign/install.sh", script.display());
    }
    verifiers
}

#[track_caller]
fn check((name, program, script): &Verifier, manifest: &Path, triple: &Triple, code: i32) {
    let mut command = Command::new(program);
    command.arg(script).args([manifest, &triple.bundle, &triple.key]);
    let output = command.output().unwrap_or_else(|error| panic!("{name} does not start: {error}"));
    let ran = Ran::of(output);
    assert_eq!(ran.code, code, "{name} on {}:\n{}{}", manifest.display(), ran.stdout, ran.stderr);
}
