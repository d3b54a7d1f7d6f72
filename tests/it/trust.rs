//! Whom to believe: nobody without a policy, and nobody else than the policy says.

use std::fs;

use assay_manifest::Digest;

use crate::support::{Fixture, Ran, files_under, measured};

/// A reader who has the evidence and a configuration of his own.
struct Reader {
    fixture: Fixture,
    store: String,
    folder: String,
}

impl Reader {
    /// A reader without keys or trust.
    fn new() -> Self {
        let store = measured().store().display().to_string();
        let folder = measured().published("one").display().to_string();
        Self { fixture: Fixture::without_keys(), store, folder }
    }

    /// Verifies the run in its store and in its folder, which must agree on the exit code and the error.
    #[track_caller]
    fn verify(&self, trust: &[&str]) -> Ran {
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
    Digest::of(&fs::read(measured().trust()).expect("the policy")).to_string()
}

/// The fingerprints of the local keys, as `assay keys list` prints them.
fn fingerprints() -> Vec<String> {
    let listed = measured().assay(&["keys", "list"]).success();
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
    let policy = measured().trust().display().to_string();
    let ran = reader.verify(&[&policy]).success();
    assert!(ran.stdout.contains("signed by local-plan"), "{}", ran.stdout);
    reader.verify(&[&fingerprint_of_policy()]).success();
}

#[test]
fn a_pinned_key_establishes_itself_alone() {
    let reader = Reader::new();
    let keys = fingerprints();
    assert_eq!(keys.len(), 8, "six stages, the source and the gate: {keys:?}");
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
    reader.verify(&[&measured().trust().display().to_string()]).success();
}

#[test]
fn a_policy_that_lets_nobody_sign_for_a_stage_refuses_it() {
    let reader = Reader::new();
    let policy = fs::read_to_string(measured().trust()).expect("the policy");
    let turned = policy.replace("- reduce", "- gate").replace("[reduce]", "[gate]");
    assert_ne!(turned, policy, "the policy names reduce");
    reader.fixture.write("trust.yaml", &turned);
    reader.verify(&["trust.yaml"]).refuses(20, "wrong_signer");
}

#[test]
fn a_validity_that_has_passed_refuses_what_is_later() {
    let reader = Reader::new();
    let policy = fs::read_to_string(measured().trust()).expect("the policy");
    let line = policy.lines().find(|line| line.trim_start().starts_with("signs:")).expect("each signer has its roles");
    let indent: String = line.chars().take_while(|letter| *letter == ' ').collect();
    let expired = format!("{indent}not_after: \"2020-01-01T00:00:00.000000000Z\"\n{line}");
    reader.fixture.write("trust.yaml", &policy.replacen(line, &expired, 1));
    reader.verify(&["trust.yaml"]).refuses(20, "key_outside_validity");
}

#[test]
fn trust_that_is_no_trust_is_a_mistake() {
    let reader = Reader::new();
    reader.verify(&["no-such-file.yaml"]).refuses(2, "trust");
    reader.verify(&[&Digest::of(b"nothing").to_string()]).refuses(20, "pinned_key_missing");
    reader.fixture.write("trust.yaml", "kind: TrustPolicy\n");
    reader.verify(&["trust.yaml"]).refuses(10, "trust_policy");
}

#[test]
fn keys_are_made_once() {
    let fixture = Fixture::without_keys();
    let made = fixture.assay(&["keys", "init", "--scrypt-n", "32768"]).success();
    insta::assert_snapshot!(fixture.shown(&made), @"
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
    trust root [ROOT]/config/trust.yaml
    ----- stderr -----
    COSIGN_PASSWORD is not set: the keys are encrypted with an empty password
    ");
    let contents = || -> Vec<_> {
        let files = files_under(&fixture.config()).into_iter().filter(|path| path.extension().is_some_and(|kind| kind != "lock"));
        files.map(|path| (path.clone(), fs::read(&path).expect("a key or the trust root"))).collect()
    };
    let before = contents();
    assert_eq!(before.len(), 8 * 2 + 1);
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
    fixture.indicator("only", &crate::support::steady("only"), "");
    fixture.commit("one indicator");
    let ran = fixture.run("one").success();
    assert!(ran.stderr.contains("made local signing keys") && ran.stderr.contains("made a local trust root"), "{}", ran.stderr);
    fixture.verify("one").success();
}
