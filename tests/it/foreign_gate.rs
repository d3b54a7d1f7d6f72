//! `assay gate --foreign` over the real binary: a verdict over results of another tool is found, is advisory unless its rules allow it, and is made
//! again from the evidence that it names.

use std::fs;

use assay_envelope::{ExpectedManifest, Predicate, SecretKey, Signer, Trust, sign, verify};
use assay_manifest::{Body as _, ForeignVerdict, Outcome, Role};
use assay_stage::{AcceptedResult, Layout};
use assay_store::Store;
use serde_json::{Value, json};

use crate::pipeline::{list, text};
use crate::support::{CommandResult, Fixture, blob, write_file};
use crate::tamper::{flip_bit, key_of};

/// The number of pieces of a side.
const PIECES: u32 = 10;

/// Rules that let foreign evidence decide.
const ALLOWING: &str = "apiVersion: assay.dev/v1alpha1
kind: ForeignGate
metadata: {name: peers}
spec: {allow_foreign: true}
";

/// Returns a file of hyperfine about a command that takes about so many seconds; `run` makes it differ from others.
fn hyperfine(seconds: f64, run: u32) -> String {
    let mean = seconds * (1.0 + f64::from(run * 5 % 7) * 0.001);
    let times: Vec<f64> = (0..5).map(|i| mean * (1.0 + f64::from(i) * 0.001)).collect();
    json!({"results": [{
        "command": "sort numbers.txt", "mean": mean, "stddev": mean * 0.01, "median": mean, "user": mean * 0.8, "system": mean * 0.2,
        "min": mean * 0.99, "max": mean * 1.01 + f64::from(run) * 1e-6, "times": times, "exit_codes": [0, 0, 0, 0, 0],
    }]})
    .to_string()
}

fn import(fixture: &Fixture, file: &str, name: &str) -> Value {
    fixture.assay(&["import", "results", file, "--name", name, "--json"]).success().json()
}

/// Imports pieces of a side: `NAME-1` and so on.
fn import_side(fixture: &Fixture, name: &str, seconds: f64, shift: u32, pieces: u32) {
    for run in 1..=pieces {
        let file = format!("results/{name}-{run}.json");
        fixture.write(&file, &hyperfine(seconds, run * shift));
        import(fixture, &file, &format!("{name}-{run}"));
    }
}

/// Judges the pieces of two sides; the options come first.
fn gate(fixture: &Fixture, options: &[&str], baseline: &[&str], candidate: &[&str]) -> CommandResult {
    fixture.assay(&[&["gate"], options, &["--foreign"], baseline, &["--"], candidate].concat())
}

/// Returns the digest of a verdict that was printed.
fn digest(printed: &str) -> &str {
    printed.lines().find_map(|line| line.strip_prefix("id         ")).expect("a digest")
}

#[test]
fn a_slower_candidate_is_found_and_blocks_only_if_the_rules_allow_it() {
    let fixture = Fixture::bare();
    import_side(&fixture, "before", 0.1, 1, PIECES);
    import_side(&fixture, "after", 0.13, 3, PIECES);
    import_side(&fixture, "same", 0.1001, 3, PIECES);
    fixture.write("allow.yaml", ALLOWING);
    fixture.write("advise.yaml", &ALLOWING.replace("{allow_foreign: true}", "{budget_pct: 5}"));
    for options in [&[][..], &["--policy", "advise.yaml"]] {
        let advised = gate(&fixture, options, &["before-*"], &["after-*"]).success().stdout;
        assert_eq!(advised.lines().next(), Some(ForeignVerdict::ABOUT));
        for part in [
            "Regressed, and it does not block",
            "Advisory: the exit code is 0 and not that of a regression, because its rules do not have `allow_foreign: true`",
            "10 pairs of pieces of evidence, paired by their names",
            "do not state the version of the tool",
        ] {
            assert!(advised.contains(part), "`{part}` is missing:\n{advised}");
        }
    }
    let blocked = gate(&fixture, &["--policy", "allow.yaml", "--to", "verdicts"], &["before-*"], &["after-*"]).exits(40).stdout;
    assert!(blocked.contains("Regressed, and it blocks: gate peers") && !blocked.contains("Advisory"), "{blocked}");
    let file = |name: &str| fs::read_to_string(fixture.repo().join("verdicts/peers").join(name)).expect("a file of the verdict");
    assert!(file("verdict.json").starts_with("{\"body\":{\"about\":\"a verdict over foreign evidence"));
    assert!(file("comment.md").lines().next().is_some_and(|line| line.contains("a verdict over foreign evidence")));
    assert!(file("report.html").contains("<strong>a verdict over foreign evidence"));
    assert!(file("verdict.sigstore.json").contains("dsseEnvelope"));
    assert!(file("junit.xml").contains("<failure type=\"regression\""), "{}", file("junit.xml"));
    assert!(file("check.json").contains("\"conclusion\": \"failure\""), "{}", file("check.json"));
    let verified = fixture.assay(&["verify", digest(&blocked), "--strict"]).success().stdout;
    for part in [
        "  ok  20 pieces of foreign evidence, each with the signature of its importer",
        "  ok  all files read again, and every number equal",
        "  ok  decided again, with the same bytes: regressed\n",
    ] {
        assert!(verified.contains(part), "`{part}` is missing:\n{verified}");
    }
    let shown = fixture.assay(&["show", digest(&blocked)]).success().stdout;
    assert_eq!(shown, blocked, "it shows what the gate printed");
    let document = fixture.assay(&["show", digest(&blocked), "--json"]).success();
    assert!(document.stdout.starts_with("{\n  \"about\": \"a verdict over foreign evidence"), "{}", document.stdout);
    assert_eq!((&document.json()["grade"], list(&document.json()["verdict"]["baseline"]).len()), (&json!("foreign"), 10));
    let same = gate(&fixture, &["--policy", "allow.yaml"], &["before-*"], &["same-*"]).success().stdout;
    assert!(same.contains("Unchanged: gate peers") && !same.contains("Advisory"), "{same}");
    // Fewer pieces than the rules need.
    let few = gate(&fixture, &[], &["before-1", "before-2"], &["after-1", "after-2"]).success().stdout;
    assert!(
        few.contains("there are 2 pairs of pieces, and the rules need at least ") && few.contains("more of each side"),
        "{few}"
    );
    assert!(few.contains("Advisory: the exit code is 0 and not that of an inconclusive verdict"), "{few}");
    gate(&fixture, &["--policy", "allow.yaml"], &["before-1", "before-2"], &["after-1", "after-2"]).exits(41);
    // Sides of different numbers of pieces are not paired.
    let baseline: Vec<String> = (2..=PIECES).map(|run| format!("before-{run}")).collect();
    let baseline: Vec<&str> = baseline.iter().map(String::as_str).collect();
    let unpaired = gate(&fixture, &["--policy", "allow.yaml"], &baseline, &["after-*"]).exits(40).stdout;
    assert!(unpaired.contains("9 and 10 pieces of evidence that nothing pairs"), "{unpaired}");
    fixture.assay(&["verify", digest(&unpaired)]).success();
    // Nothing that reads verdicts about runs finds one over foreign evidence, and a removal keeps it.
    fixture.assay(&["gate", "--replay", digest(&blocked)]).refuses(2, "no_such_verdict");
    fixture.assay(&["gc"]).success();
    fixture.assay(&["verify", digest(&blocked), "--strict"]).success();
    assert_eq!(fixture.assay(&["runs", "--json"]).success().json(), json!([]), "a verdict over foreign evidence is no run");
}

#[test]
fn one_observation_is_counted_once_and_only_evidence_that_verifies_is_judged() {
    let fixture = Fixture::bare();
    import_side(&fixture, "before", 0.1, 1, 3);
    import_side(&fixture, "after", 0.13, 3, 3);
    gate(&fixture, &[], &["before-*"], &["after-*"]).success();
    // The same name, or its digest.
    gate(&fixture, &[], &["before-1", "before-1"], &["after-*"]).refuses(20, "evidence_twice");
    let both = gate(&fixture, &[], &["before-*"], &["after-1", "before-2"]).refuses(20, "evidence_twice");
    assert!(both.stderr.contains("`before-2` is named twice"), "{}", both.stderr);
    // Another import of the same file.
    let copied = import(&fixture, "results/before-1.json", "copied-1");
    let id = text(&copied["evidence"]["manifest"]);
    for (baseline, candidate) in [(&["before-1", id][..], &["after-1"][..]), (&["before-1"], &[id])] {
        let refused = gate(&fixture, &[], baseline, candidate).refuses(20, "evidence_twice");
        assert!(refused.stderr.contains("`before-1` and `copied-1` hold the same file (`before-1.json`)"), "{}", refused.stderr);
    }
    gate(&fixture, &[], &["before-1"], &["nothing-*"]).refuses(2, "no_such_foreign_evidence");
    gate(&fixture, &[], &["before-1"], &["sha256:0123456789"]).refuses(2, "no_such_foreign_evidence");
    fixture.write("unknown.yaml", &ALLOWING.replace("true}", "true, metrics: [hyperfine.speed]}"));
    gate(&fixture, &["--policy", "unknown.yaml"], &["before-*"], &["after-*"]).refuses(2, "not_judged");
    fixture.write("wrong.yaml", &ALLOWING.replace("allow_foreign", "allow"));
    gate(&fixture, &["--policy", "wrong.yaml"], &["before-*"], &["after-*"]).exits(10);
    fixture.assay(&["gate", "--foreign", "before-1"]).exits(2);
    fixture.assay(&["gate", "--foreign", "before-1", "--pull", "3", "--", "after-1"]).exits(2);

    // A pointer that leads to other evidence.
    let store = Store::open(&fixture.store().display().to_string()).expect("a store");
    let place = |name: &str| Layout::foreign_evidence(&name.parse().expect("a name"));
    let pointer = store.read(&place("after-2"), AcceptedResult::MAX_BYTES).expect("read").expect("a pointer");
    store.create(&place("moved-1"), &pointer).expect("created");
    let moved = gate(&fixture, &[], &["before-1"], &["moved-1"]).refuses(20, "pointer_elsewhere");
    assert!(moved.stderr.contains("`moved-1` leads to that of `after-2`"), "{}", moved.stderr);
    // A signer that no policy names.
    let uri = fixture.store().display().to_string();
    let stranger = Fixture::without_keys();
    let refused = gate(&stranger, &["--store", &uri], &["before-*"], &["after-*"]).exits(21);
    assert!(refused.stderr.contains("nobody knows who imported it"), "{}", refused.stderr);
    let policy = fs::read_to_string(fixture.trust()).expect("the policy");
    fixture.write("trust.yaml", &policy.replace("- import", "- gate").replace("[import]", "[gate]"));
    gate(&fixture, &["--trust", "trust.yaml"], &["before-*"], &["after-*"]).refuses(20, "wrong_signer");
    // A changed file, and an absent one.
    let body = fixture.assay(&["show", id, "--json"]).success().json();
    let path = blob(&fixture.store(), text(&body["body"]["files"][0]["artifact"]["digest"]));
    let bytes = fs::read(&path).expect("the frozen file");
    fs::remove_file(&path).expect("removed");
    let refused = gate(&fixture, &[], &["before-*"], &["after-*"]).refuses(20, "artifact_absent");
    assert!(refused.stderr.contains("`, with the same files, stores them again"), "{}", refused.stderr);
    write_file(&path, &flip_bit(&bytes));
    gate(&fixture, &[], &["before-*"], &["after-*"]).refuses(20, "artifact_corrupt");
}

/// Signs a verdict with a change by a key, and returns the digest of its manifest.
fn plant(fixture: &Fixture, known: &str, key: SecretKey, change: impl FnOnce(&mut ForeignVerdict)) -> String {
    let shown = fixture.assay(&["show", known, "--json"]).success().json();
    let part = |part: &str| fs::read(blob(&fixture.store(), text(&shown["reference"][part]))).expect("a blob");
    let candidates = vec![key_of(fixture, Role::Gate).public_key()];
    let verified = verify(&part("manifest"), &part("bundle"), &Trust::None { candidates }, &ExpectedManifest::default())
        .expect("it verifies");
    let mut manifest = ForeignVerdict::from_document(verified.value()).expect("a verdict").clone();
    change(&mut manifest.body);
    let predicate: Predicate = verified.predicate().clone();
    let signed = sign(&manifest, &Signer::new(key), predicate).expect("it signs");
    let store = Store::open(&fixture.store().display().to_string()).expect("a store");
    store.put(&signed.manifest).expect("stored");
    store.put(&signed.bundle).expect("stored");
    let reference = signed.input_ref();
    let accepted = AcceptedResult { manifest: reference.manifest, bundle: reference.bundle };
    store.create(&Layout::foreign_verdict(&reference.manifest), &accepted.to_bytes().expect("bytes")).expect("created");
    reference.manifest.to_string()
}

#[test]
fn a_verdict_that_does_not_follow_from_its_evidence_is_refused() {
    let fixture = Fixture::bare();
    import_side(&fixture, "before", 0.1, 1, 4);
    import_side(&fixture, "after", 0.13, 3, 4);
    fixture.write("allow.yaml", ALLOWING);
    let printed = gate(&fixture, &["--policy", "allow.yaml"], &["before-*"], &["after-*"]).exits(41).stdout;
    let known = digest(&printed).to_owned();
    let planted = |change: fn(&mut ForeignVerdict)| plant(&fixture, &known, key_of(&fixture, Role::Gate), change);
    fixture.assay(&["verify", &known]).success();
    let changes: [fn(&mut ForeignVerdict); 6] = [
        |verdict| verdict.outcome = Outcome::Unchanged,
        |verdict| verdict.advisory = true,
        |verdict| verdict.metrics[0].candidate[0] /= 2.0,
        |verdict| drop(verdict.candidate.pop()),
        |verdict| verdict.rules.budget = 0.5,
        |verdict| verdict.about = "measured by Assay".to_owned(),
    ];
    for change in changes {
        let refused = fixture.assay(&["verify", &planted(change)]).refuses(20, "replay_differs");
        assert!(!refused.stdout.contains("ok  "), "{}", refused.stdout);
    }
    let other = planted(|verdict| verdict.contract = "assay-foreign-gate/0".to_owned());
    fixture.assay(&["verify", &other]).refuses(2, "other_contract");
    // The key of another role, and changed bytes of the evidence.
    let importer = plant(&fixture, &known, key_of(&fixture, Role::Import), |verdict| verdict.rules.q = 0.01);
    fixture.assay(&["verify", &importer]).refuses(20, "wrong_signer");
    let piece = list(&fixture.assay(&["show", &known, "--json"]).success().json()["verdict"]["candidate"])[0].clone();
    let evidence = fixture.assay(&["show", text(&piece["evidence"]["manifest"]), "--json"]).success().json();
    let path = blob(&fixture.store(), text(&evidence["body"]["files"][0]["artifact"]["digest"]));
    let bytes = fs::read(&path).expect("the frozen file");
    fs::remove_file(&path).expect("removed");
    let absent = fixture.assay(&["verify", &known]).success().stdout;
    assert!(absent.contains("files of 1 piece are absent: their numbers were not read again"), "{absent}");
    assert!(!absent.contains("every number equal"), "{absent}");
    let refused = fixture.assay(&["verify", &known, "--strict"]).refuses(20, "artifact_absent");
    assert!(refused.stderr.contains("`, with the same files, stores them again"), "{}", refused.stderr);
    write_file(&path, &flip_bit(&bytes));
    for command in ["verify", "show"] {
        fixture.assay(&[command, &known]).refuses(20, "artifact_corrupt");
    }
}

/// Another user's key signs the verdict, and no policy names the importer: what was made can be verified, and is no more established than that.
#[test]
fn a_verdict_over_evidence_of_an_unknown_importer_is_verified_and_says_so() {
    let importer = Fixture::bare();
    import_side(&importer, "before", 0.1, 1, PIECES);
    import_side(&importer, "after", 0.13, 3, PIECES);
    let judge = Fixture::without_keys();
    judge.assay(&["keys", "init", "--scrypt-n", "32768"]).success();
    judge.write("allow.yaml", ALLOWING);
    let store = importer.store().display().to_string();
    let options = ["--policy", "allow.yaml", "--store", &store, "--unestablished"];
    let blocked = gate(&judge, &options, &["before-*"], &["after-*"]).exits(40).stdout;
    assert!(blocked.contains("no trust policy names the importer of"), "{blocked}");
    let verdict = digest(&blocked);
    for command in ["verify", "show"] {
        let ran = judge.assay(&[command, verdict, "--store", &store]).exits(21);
        assert!(ran.stderr.contains("signer not established"), "{command}: {}", ran.stderr);
    }
}
