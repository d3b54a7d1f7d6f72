//! Trust: no signer is trusted without a policy, and only those that the policy names.

use std::fs;

use assay_manifest::Digest;

use crate::support::{CommandResult, Fixture, files_under, measured_fixture};

/// A reader with the evidence and a separate configuration.
struct Reader {
    fixture: Fixture,
    store: String,
    folder: String,
}

impl Reader {
    /// Creates a reader without keys or trust.
    fn new() -> Self {
        let store = measured_fixture().store().display().to_string();
        let folder = measured_fixture().published("one").display().to_string();
        Self { fixture: Fixture::without_keys(), store, folder }
    }

    /// Verifies the run in its store and in its folder, which must agree on the exit code and the error.
    #[track_caller]
    fn verify(&self, trust: &[&str]) -> CommandResult {
        let trust: Vec<_> = trust.iter().flat_map(|trust| ["--trust", trust]).collect();
        let in_store = self.fixture.assay(&[&["verify", "one", "--store", &self.store], &trust[..]].concat());
        let in_folder = self.fixture.assay(&[&["verify", &self.folder], &trust[..]].concat());
        assert_eq!(
            (in_store.code, in_store.error()),
            (in_folder.code, in_folder.error()),
            "store and folder disagree:\n{}\n{}",
            in_store.stderr,
            in_folder.stderr
        );
        in_store
    }
}

fn fingerprint_of_policy() -> String {
    Digest::compute(&fs::read(measured_fixture().trust()).expect("the policy")).to_string()
}

/// Returns the fingerprints of the local keys, as `assay keys list` prints them.
fn fingerprints() -> Vec<String> {
    let listed = measured_fixture().assay(&["keys", "list"]).success();
    let words = listed.stdout.split_whitespace().filter(|word| word.starts_with("sha256:"));
    words.map(str::to_owned).collect()
}

#[test]
fn without_trust_nobody_is_established() {
    let reader = Reader::new();
    let ran = reader.verify(&[]).exits(21);
    assert!(ran.stdout.contains("internally consistent; signer not established"), "{}", ran.stdout);
    assert!(ran.stderr.contains("--trust"), "the remedy is named: {}", ran.stderr);
    let shown = reader.fixture.assay(&["show", "one", "--store", &reader.store]);
    shown.exits(21);
    reader.fixture.assay(&["verify", "one", "--store", &reader.store, "--recompute"]).refuses(21, "no_trust");
}

#[test]
fn a_policy_establishes_its_signers() {
    let reader = Reader::new();
    let policy = measured_fixture().trust().display().to_string();
    let ran = reader.verify(&[&policy]).success();
    assert!(ran.stdout.contains("signed by local-plan"), "{}", ran.stdout);
    reader.verify(&[&fingerprint_of_policy()]).success();
}

#[test]
fn a_pinned_key_establishes_itself_alone() {
    let reader = Reader::new();
    let keys = fingerprints();
    assert_eq!(keys.len(), 10, "six stages, the source, the gate, the calibration and the import: {keys:?}");
    let all: Vec<_> = keys.iter().map(String::as_str).take(7).collect();
    reader.verify(&all).success();
    reader.verify(&all[..6]).refuses(20, "unknown_key");
}

#[test]
fn another_policy_refuses_the_run() {
    let reader = Reader::new();
    reader.fixture.assay(&["keys", "init", "--scrypt-n", "32768"]).success();
    // The configured root is this reader's own.
    reader.verify(&[]).refuses(20, "unknown_key");
    let own = reader.fixture.trust().display().to_string();
    reader.verify(&[&own]).refuses(20, "unknown_key");
    reader.verify(&[&measured_fixture().trust().display().to_string()]).success();
}

#[test]
fn a_policy_that_lets_nobody_sign_for_a_stage_refuses_it() {
    let reader = Reader::new();
    let policy = fs::read_to_string(measured_fixture().trust()).expect("the policy");
    let turned = policy.replace("- reduce", "- gate").replace("[reduce]", "[gate]");
    assert_ne!(turned, policy, "the policy names reduce");
    reader.fixture.write("trust.yaml", &turned);
    reader.verify(&["trust.yaml"]).refuses(20, "wrong_signer");
}

#[test]
fn a_validity_that_has_passed_refuses_what_is_later() {
    let reader = Reader::new();
    let policy = fs::read_to_string(measured_fixture().trust()).expect("the policy");
    let line = policy.lines().find(|line| line.trim_start().starts_with("signs:")).expect("each signer has its roles");
    let indent: String = line.chars().take_while(|letter| *letter == ' ').collect();
    let expired = format!("{indent}not_after: \"2020-01-01T00:00:00.000000000Z\"\n{line}");
    reader.fixture.write("trust.yaml", &policy.replacen(line, &expired, 1));
    reader.verify(&["trust.yaml"]).refuses(20, "key_outside_validity");
}

/// Returns the policy of the measured run, with these lines under its `spec`.
fn policy_with(lines: &str) -> String {
    format!("{}{lines}", fs::read_to_string(measured_fixture().trust()).expect("the policy"))
}

#[test]
fn a_run_of_another_origin_is_refused_by_the_name_of_the_fact() {
    let reader = Reader::new();
    let binary = |name: &str| Digest::compute(&fs::read(crate::support::binary(name)).expect("a program"));
    let reduce = binary("assay-reduce");
    for (expectation, expected) in [
        ("refs: [refs/heads/main], pipelines: [pipelines/fixture.yaml]".to_owned(), None),
        (format!("roles: [reduce], binaries: [{reduce}]"), None),
        ("repositories: [https://git.example.org/team/benchmarks]".to_owned(), Some("other_repository")),
        ("refs: [refs/heads/release]".to_owned(), Some("other_ref")),
        ("roles: [reduce], refs: [refs/heads/release]".to_owned(), Some("other_ref")),
        ("roles: [publish], pipelines: [pipelines/other.yaml]".to_owned(), Some("other_pipeline")),
        (format!("roles: [plan], binaries: [{reduce}]"), Some("other_binary")),
        (format!("roles: [gate], binaries: [{}], images: [{reduce}]", binary("assay")), None),
        (format!("images: [{reduce}]"), Some("other_image")),
    ] {
        reader.fixture.write("trust.yaml", &policy_with(&format!("  expectations:\n    - {{{expectation}}}\n")));
        let ran = reader.verify(&["trust.yaml"]);
        match expected {
            None => drop(ran.success()),
            Some(code) => drop(ran.refuses(20, code)),
        }
    }
}

#[test]
fn a_stage_refuses_inputs_of_another_origin() {
    let fixture = Fixture::new();
    let policy = fs::read_to_string(fixture.trust()).expect("the policy");
    fs::write(fixture.trust(), format!("{policy}  expectations:\n    - refs: [refs/heads/release]\n")).expect("written");
    let ran = fixture.run("one");
    assert_eq!(ran.code, 20, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("other_ref"), "{}", ran.stderr);
    fs::write(fixture.trust(), format!("{policy}  expectations:\n    - refs: [refs/heads/main]\n")).expect("written");
    fixture.run("two").success();
}

#[test]
fn rotated_keys_verify_what_they_signed_and_sign_no_more() {
    let fixture = Fixture::new();
    fixture.run("before").success();
    let old = fs::read_to_string(fixture.config().join("keys/plan.pub")).expect("a key");
    let old_secret = fs::read(fixture.key("plan")).expect("a key");
    let rotated = fixture.assay(&["keys", "rotate", "plan", "gate", "--scrypt-n", "32768"]).success();
    assert!(
        rotated.stdout.contains("until") && rotated.stderr.contains("asserted by its signer"),
        "{}{}",
        rotated.stdout,
        rotated.stderr
    );
    assert_ne!(fs::read_to_string(fixture.config().join("keys/plan.pub")).expect("a key"), old);
    fixture.verify("before").success();
    fixture.run("after").success();
    fixture.verify("after").success();
    // A copy of the old key cannot sign new results.
    fs::write(fixture.key("plan"), old_secret).expect("written");
    let ran = fixture.run("stolen");
    assert_eq!(ran.code, 20, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("key_outside_validity"), "{}", ran.stderr);
    fixture.assay(&["keys", "rotate", "importer"]).refuses(2, "no_such_role");
}

/// Creates a copy of the published folder whose Publication has these further members in its bundle.
fn folder_with(material: &[(&str, serde_json::Value)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    crate::support::copy_folder(&measured_fixture().published("one"), folder.path());
    let path = folder.path().join("chain/publication.sigstore.json");
    let mut bundle: serde_json::Value = serde_json::from_slice(&fs::read(&path).expect("a bundle")).expect("JSON");
    for (name, value) in material {
        bundle["verificationMaterial"][*name] = value.clone();
    }
    fs::write(&path, bundle.to_string()).expect("written");
    folder
}

#[test]
fn what_a_bundle_holds_unchecked_is_said_and_not_believed() {
    let reader = Reader::new();
    let log = ("tlogEntries", serde_json::json!([{"logIndex": "1"}]));
    let timestamp = ("timestampVerificationData", serde_json::json!({"rfc3161Timestamps": [{"signedTimestamp": "AAAA"}]}));
    let both = folder_with(&[log, timestamp]);
    let none = folder_with(&[]);
    let policy = measured_fixture().trust().display().to_string();
    let verify = |folder: &tempfile::TempDir, policy: &str| {
        reader.fixture.assay(&["verify", &folder.path().display().to_string(), "--trust", policy])
    };
    let ran = verify(&both, &policy).success();
    let line = ran.stdout.lines().find(|line| line.contains("publication")).expect("its line").to_owned();
    assert!(line.ends_with("(asserted); timestamp present, not checked; log entry present, not checked"), "{line}");
    assert!(!verify(&none, &policy).success().stdout.contains("present, not checked"));

    let authority = include_str!("../../crates/envelope/tests/it/tsa/ours.pem").replace('\n', "\n        ");
    let authorities =
        format!("  timestamp_authorities:\n    - name: clock\n      certificates: |\n        {}\n", authority.trim_end());
    reader.fixture.write("trust.yaml", &policy_with(&authorities));
    verify(&both, "trust.yaml").refuses(20, "timestamp_malformed");
    verify(&none, "trust.yaml").success();
    let required = format!("  expectations:\n    - {{roles: [publish], timestamp: required}}\n{authorities}");
    reader.fixture.write("trust.yaml", &policy_with(&required));
    verify(&none, "trust.yaml").refuses(20, "timestamp_missing");
}

#[test]
fn verify_bundle_speaks_the_conformance_client_s_language() {
    let fixture = measured_fixture();
    let folder = fixture.published("one");
    let at = |path: &str| folder.join(path).display().to_string();
    let bundle = |key: &str, file: &str| {
        let (key, bundle) = (at(&format!("keys/{key}.pub")), at("chain/plan.sigstore.json"));
        fixture.assay(&["verify-bundle", "--bundle", &bundle, "--key", &key, file])
    };
    let plan = at("chain/plan.json");
    let digest = Digest::compute(&fs::read(&plan).expect("a plan")).to_string();
    let ran = bundle("plan", &plan).success();
    assert!(ran.stdout.contains("signed a statement of type https://slsa.dev/provenance/v1"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("not checked"), "there is nothing else in it: {}", ran.stdout);
    bundle("plan", &digest).success();
    let other_key = bundle("reduce", &plan).refuses(20, "bad_signature");
    assert!(other_key.stderr.contains("hint: is `--key` the signer's?"), "{}", other_key.stderr);
    bundle("plan", &at("chain/source.json")).refuses(20, "other_file");
    bundle("plan", &digest[..20]).refuses(2, "unreadable");
    let keyless = ["--certificate-identity", "me", "--certificate-oidc-issuer", "https://example.org"];
    let bundle = at("chain/plan.sigstore.json");
    fixture
        .assay(&[&["verify-bundle", "--bundle", &bundle], &keyless[..], &[plan.as_str()]].concat())
        .refuses(20, "keyless_bundle");
}

#[test]
fn trust_that_is_no_trust_is_a_mistake() {
    let reader = Reader::new();
    reader.verify(&["no-such-file.yaml"]).refuses(2, "trust");
    reader.verify(&[&Digest::compute(b"nothing").to_string()]).refuses(20, "pinned_key_missing");
    reader.fixture.write("trust.yaml", "kind: TrustPolicy\n");
    reader.verify(&["trust.yaml"]).refuses(10, "trust_policy");
}

#[test]
fn keys_are_made_once() {
    let fixture = Fixture::without_keys();
    let made = fixture.assay(&["keys", "init", "--scrypt-n", "32768"]).success();
    insta::assert_snapshot!(fixture.format_result(&made), @"
    exit code 0
    ----- stdout -----
    source     sha256:[DIGEST]  [ROOT]/config/keys/source.pub
    plan       sha256:[DIGEST]  [ROOT]/config/keys/plan.pub
    provision  sha256:[DIGEST]  [ROOT]/config/keys/provision.pub
    execute    sha256:[DIGEST]  [ROOT]/config/keys/execute.pub
    collect    sha256:[DIGEST]  [ROOT]/config/keys/collect.pub
    reduce     sha256:[DIGEST]  [ROOT]/config/keys/reduce.pub
    publish    sha256:[DIGEST]  [ROOT]/config/keys/publish.pub
    gate       sha256:[DIGEST]  [ROOT]/config/keys/gate.pub
    calibrate  sha256:[DIGEST]  [ROOT]/config/keys/calibrate.pub
    import     sha256:[DIGEST]  [ROOT]/config/keys/import.pub
    trust root [ROOT]/config/trust.yaml
    ----- stderr -----
    COSIGN_PASSWORD is not set: the keys are encrypted with an empty password
    ");
    let contents = || -> Vec<_> {
        let files = files_under(&fixture.config()).into_iter().filter(|path| path.extension().is_some_and(|kind| kind != "lock"));
        files.map(|path| (path.clone(), fs::read(&path).expect("a key or the trust root"))).collect()
    };
    let before = contents();
    assert_eq!(before.len(), 10 * 2 + 1);
    let again = fixture.assay(&["keys", "init"]).success();
    assert_eq!(again.stdout, made.stdout);
    assert!(again.stderr.contains("every key is there already"), "{}", again.stderr);
    assert_eq!(contents(), before, "nothing is made again");
    assert_eq!(fixture.assay(&["keys", "list"]).success().stdout, made.stdout);

    for role in ["plan", "publish"] {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(fixture.key(role)).expect("the key is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "a private key is its user's alone");
    }
    fs::remove_file(fixture.trust()).expect("there is a trust root");
    fixture.assay(&["keys", "init"]).success();
    assert_eq!(contents(), before, "the trust root is made anew from the same keys");
}

#[test]
fn keys_are_made_at_first_use() {
    let fixture = Fixture::without_keys();
    fixture.write(crate::support::PIPELINE, &crate::support::pipeline("exploratory", &["only"], 1, ""));
    fixture.indicator("only", &crate::support::steady_script("only"), "");
    fixture.commit("one indicator");
    let ran = fixture.run("one").success();
    assert!(ran.stderr.contains("made local signing keys") && ran.stderr.contains("made a local trust root"), "{}", ran.stderr);
    fixture.verify("one").success();
}
