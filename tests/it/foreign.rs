//! Verifiers of other projects accept every bundle of a real run.
//!
//! `tests/foreign/install.sh FOLDER` installs them; `ASSAY_TEST_FOREIGN=FOLDER` requests them, and `ASSAY_TEST_COSIGN=FILE` requests
//! cosign. If a verifier is requested but absent, the test fails; if it is not requested, only the shape of the bundles is checked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::pipeline::{list, text};
use crate::support::{CommandResult, files_under, measured_fixture};

/// A verifier: its name, its program, the script that it runs.
type Verifier = (&'static str, PathBuf, PathBuf);

/// A manifest with its bundle and the public key of its signer.
struct SignedManifest {
    manifest: PathBuf,
    bundle: PathBuf,
    key: PathBuf,
}

impl SignedManifest {
    fn all() -> Vec<Self> {
        let folder = measured_fixture().published("one");
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
    let triples = SignedManifest::all();
    assert_eq!(triples.len(), 8);
    for SignedManifest { bundle, key, .. } in triples {
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
    let triples = SignedManifest::all();
    for verifier in verifiers(&folder) {
        for triple in &triples {
            check(&verifier, &triple.manifest, triple, 0);
        }
        let [first, second, ..] = &triples[..] else { panic!("a run has several manifests") };
        check(&verifier, &second.manifest, first, 1);
    }
}

/// A verdict also names a commit, which other projects' verifiers have to accept.
#[test]
fn foreign_verifiers_accept_a_verdict() {
    let Some(folder) = std::env::var_os("ASSAY_TEST_FOREIGN").map(PathBuf::from) else {
        println!("ASSAY_TEST_FOREIGN is not set: nothing foreign was checked");
        return;
    };
    let (fixture, verdict) = crate::gate::verdict_folder(60);
    let file = |name: &str| verdict.join(name);
    let key = fixture.config().join("keys/gate.pub");
    let triple = SignedManifest { manifest: file("verdict.json"), bundle: file("verdict.sigstore.json"), key };
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
fn check((name, program, script): &Verifier, manifest: &Path, triple: &SignedManifest, code: i32) {
    let mut command = Command::new(program);
    command.arg(script).args([manifest, &triple.bundle, &triple.key]);
    let output = command.output().unwrap_or_else(|error| panic!("{name} does not start: {error}"));
    let ran = CommandResult::from_output(output);
    assert_eq!(ran.code, code, "{name} on {}:\n{}{}", manifest.display(), ran.stdout, ran.stderr);
}

/// A timestamp that openssl makes over a bundle's signature limits the validity period of its key.
#[test]
fn a_timestamp_by_openssl_is_believed_in_a_published_folder() {
    if std::env::var_os("ASSAY_TEST_FOREIGN").is_none() {
        println!("ASSAY_TEST_FOREIGN is not set: nothing foreign was checked");
        return;
    }
    let made = tempfile::tempdir().expect("a folder");
    let folder = made.path().join("published");
    crate::support::copy_folder(&measured_fixture().published("one"), &folder);
    let path = folder.join("chain/publication.sigstore.json");
    let mut bundle: Value = serde_json::from_slice(&fs::read(&path).expect("a bundle")).expect("JSON");
    fs::write(made.path().join("sig.b64"), text(&bundle["dsseEnvelope"]["signatures"][0]["sig"])).expect("written");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("it/timestamp.sh");
    let output = Command::new("sh").arg(script).arg(made.path()).output().expect("a shell");
    let response = CommandResult::from_output(output).success().stdout.replace('\n', "");
    bundle["verificationMaterial"]["timestampVerificationData"] =
        serde_json::json!({"rfc3161Timestamps": [{"signedTimestamp": response}]});
    fs::write(&path, bundle.to_string()).expect("written");
    let root = fs::read_to_string(made.path().join("root.pem")).expect("a root").replace('\n', "\n        ");
    let policy = fs::read_to_string(measured_fixture().trust()).expect("a policy");
    let authority =
        format!("  timestamp_authorities:\n    - name: openssl\n      certificates: |\n        {}\n", root.trim_end());
    let expectation = "  expectations:\n    - {roles: [publish], timestamp: required}\n";
    let trust = made.path().join("trust.yaml");
    fs::write(&trust, format!("{policy}{expectation}{authority}")).expect("written");
    let [folder, trust] = [folder, trust].map(|path| path.display().to_string());
    let ran = measured_fixture().assay(&["verify", &folder, "--trust", &trust]).success();
    assert!(ran.stdout.contains("(timestamp by openssl)"), "{}", ran.stdout);
}

/// Cosign, and the shell that runs the printed commands with it.
struct Cosign {
    folder: tempfile::TempDir,
}

impl Cosign {
    #[expect(clippy::print_stdout, reason = "a test that checks nothing says so")]
    fn asked_for() -> Option<Self> {
        let program = PathBuf::from(std::env::var_os("ASSAY_TEST_COSIGN").or_else(|| {
            println!("ASSAY_TEST_COSIGN is not set: cosign was asked nothing");
            None
        })?);
        assert!(program.is_file(), "`{}` is not there", program.display());
        let folder = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink(program, folder.path().join("cosign")).expect("a link");
        Some(Self { folder })
    }

    /// Runs a command line in `folder`, as a user who copied it would. Cosign has a separate home, so that it finds no cached trust.
    fn run(&self, line: &str, folder: &Path) -> CommandResult {
        let path = format!("{}:/usr/bin:/bin", self.folder.path().display());
        let mut command = Command::new("sh");
        command.env_clear().env("PATH", path).env("HOME", self.folder.path()).current_dir(folder).args(["-c", line]);
        CommandResult::from_output(command.output().expect("a shell"))
    }
}

/// Returns the lines of a text that are cosign commands.
fn cosign_commands(text: &str) -> Vec<String> {
    text.lines().map(str::trim).filter(|line| line.starts_with("cosign verify-blob")).map(str::to_owned).collect()
}

#[test]
fn cosign_accepts_a_run_by_the_commands_that_its_report_prints() {
    let folder = measured_fixture().published("one");
    let commands = cosign_commands(&fs::read_to_string(folder.join("report.md")).expect("a report"));
    let bundles =
        files_under(&folder.join("chain")).into_iter().filter(|path| path.display().to_string().ends_with(".sigstore.json"));
    for bundle in bundles {
        let name = bundle.file_name().expect("a name").to_str().expect("UTF-8");
        let is_last = name == "publication.sigstore.json";
        assert!(is_last || commands.iter().any(|line| line.contains(&format!("chain/{name} "))), "no command verifies {name}");
    }
    let Some(cosign) = Cosign::asked_for() else { return };
    let copy = tempfile::tempdir().expect("a folder");
    crate::support::copy_folder(&folder, copy.path());
    for line in &commands {
        cosign.run(line, copy.path()).success();
    }
    let (publication, predicate) = ("chain/publication", "https://slsa.dev/verification_summary/v1");
    let line = format!(
        "cosign verify-blob-attestation --key keys/publish.pub --insecure-ignore-tlog --type {predicate} \
         --bundle {publication}.sigstore.json {publication}.json"
    );
    cosign.run(&line, copy.path()).success();
    fs::write(copy.path().join("chain/plan.json"), b"{}").expect("written");
    let of_plan = commands.iter().find(|line| line.ends_with("chain/plan.json")).expect("a command of the plan");
    assert_ne!(cosign.run(of_plan, copy.path()).code, 0, "another manifest is refused");
}

#[test]
fn cosign_accepts_every_signed_example() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/examples");
    let bundles: Vec<_> =
        files_under(&examples).into_iter().filter(|path| path.display().to_string().ends_with(".sigstore.json")).collect();
    assert!(bundles.len() >= 13, "{bundles:?}");
    let Some(cosign) = Cosign::asked_for() else { return };
    for bundle in bundles {
        let manifest = bundle.display().to_string().replace(".sigstore.json", ".json");
        let document: Value = serde_json::from_slice(&fs::read(&manifest).expect("a manifest")).expect("JSON");
        let stage = text(&document["header"]["stage"]);
        // A verdict over foreign evidence is signed by a gate, and is no test result.
        let predicate = match text(&document["header"]["kind"]) {
            "verdict" => "https://in-toto.io/attestation/test-result/v0.1",
            "publication" => "https://slsa.dev/verification_summary/v1",
            _ => "slsaprovenance1",
        };
        let line = format!(
            "cosign verify-blob-attestation --key keys/{stage}.pub --insecure-ignore-tlog --type {predicate} --bundle '{}' '{manifest}'",
            bundle.display()
        );
        cosign.run(&line, &examples).success();
    }
}
