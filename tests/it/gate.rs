//! The gate: runs whose candidates are slower, the same, or too noisy to decide, judged as a pull request would be.
//!
//! The measured work is the reference endpoint in virtual time: every trial's numbers are a function of its seed, so that no outcome depends
//! on the speed of the machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use assay_envelope::{Signer, TestResult, sign};
use assay_manifest::{Body, Document, Role, Verdict};
use serde_json::{Value, json};

use crate::stand_in::{Flavor, Identity, StandIn};
use crate::support::{CommandResult, Fixture, PIPELINE, binary, copy_folder, files_under, indicator_output, script, write_file};
use crate::tamper::key_of;

/// Every trial of a side has the next seed, in every run.
const SCRIPT: &str = r#"n=$(cat "$COUNT" 2>/dev/null || echo 0)
n=$((n + 1))
echo "$n" > "$COUNT"
exec "$SIMULATOR" predict --ttft-ms 50 --ttft-jitter-ms 10 --ttft-jitter-sigma 0.3 --itl-ms 10 --itl-jitter-ms 1 --concurrency 8 \
    --requests "$REQUESTS" --osl 4 --seed-from "$SEED.$n" $SLOWNESS"#;

const METRICS: &str = "    - {path: ttft_ms_p50, unit: ms, better: lower}
    - {path: ttft_ms_p99, unit: ms, better: lower}";

/// The simulated slowdown: of the candidate alone, and of both sides by another tenant of the machine.
struct Slowdown {
    candidate: &'static str,
    both: &'static str,
    pairs: u32,
}

const NO_SLOWDOWN: Slowdown = Slowdown { candidate: "", both: "", pairs: 8 };

/// Unchanged, slower as a whole, slower in the tail, beside an intermittent tenant, and slower with too few pairs to decide.
const RUNS: [(&str, Slowdown); 5] = [
    ("same", NO_SLOWDOWN),
    ("slow", Slowdown { candidate: "--slow-factor 1.1", ..NO_SLOWDOWN }),
    ("tail", Slowdown { candidate: "--slow-factor 1.4 --slow-share 0.03", ..NO_SLOWDOWN }),
    ("noisy", Slowdown { both: "--cotenant-factor 1.8 --cotenant-episode-ms 600000", ..NO_SLOWDOWN }),
    ("few", Slowdown { candidate: "--slow-factor 1.1", pairs: 6, ..NO_SLOWDOWN }),
];

fn pipeline(fixture: &Fixture, pipeline: &str, planted: &Slowdown, budget: u32) -> String {
    let Slowdown { candidate, both, pairs } = planted;
    let simulator = binary("assay-simulator").display().to_string();
    let side = |name: &str, slowness: &str| {
        let count = fixture.root().join(format!("{pipeline}.{name}")).display().to_string();
        format!("{{COUNT: {count}, SEED: {name}, SIMULATOR: {simulator}, REQUESTS: '4000', SLOWNESS: '{slowness} {both}'}}")
    };
    format!(
        "apiVersion: assay.dev/v1alpha1
kind: Pipeline
metadata: {{name: {pipeline}}}
spec:
  intent: exploratory
  workloads: [answer]
  targets: [{{name: local, kind: host}}]
  variants:
    - {{name: before, env: {}}}
    - {{name: after, env: {}}}
  placement: alternate
  comparison:
    baseline: {{target: local, variant: before}}
    candidate: {{target: local, variant: after}}
    variable_under_test: runtime_version
  trials: {{count: {pairs}, retry_budget: 0}}
  gates:
    - {{name: latency, budget_pct: {budget}, looks: [0.5, 0.5]}}
",
        side("before", ""),
        side("after", candidate)
    )
}

fn acknowledgement(pull: u32, metric: &str, expires: &str) -> String {
    format!(
        "apiVersion: assay.dev/v1alpha1
kind: Acknowledgement
metadata: {{name: slower-{pull}-{}}}
spec:
  case: answer.local.after
  metric: {metric}
  accepts_pct: 12
  pull_request: {pull}
  reason: the new allocator is safer
  approver: owner
  expires: \"{expires}\"
",
        metric.replace('_', "-")
    )
}

/// Returns runs that the rules of `main` judge; `tail` was made on a branch whose budget is ten times as high.
fn judged_fixture() -> &'static Fixture {
    static JUDGED: OnceLock<Fixture> = OnceLock::new();
    JUDGED.get_or_init(|| {
        let fixture = Fixture::shared();
        let before = fixture.commit("nothing yet");
        write_definitions(&fixture, &RUNS.map(|(name, _)| name));
        let measured = fixture.commit("a comparison of what is made up");
        let branch = |name: &str, files: &[(&str, String)]| {
            fixture.git(&["checkout", "--quiet", "-b", name, "main"]);
            for (path, text) in files {
                fixture.write(path, text);
            }
            fixture.commit(name);
            fixture.git(&["checkout", "--quiet", "main"]);
        };
        let later = "2100-01-01T00:00:00Z";
        let accepted = [(40, "ttft_ms_p50"), (42, "ttft_ms_p50"), (43, "ttft_ms_p50"), (43, "ttft_ms_p99")]
            .map(|(pull, metric)| acknowledgement(pull, metric, later));
        let [one, other, median, tail] = accepted;
        branch("accepting", &[("pipelines/acks/slower.yaml", one), ("pipelines/acks/slower-too.yaml", other)]);
        // An acknowledgement of the commits after one, up to another.
        let ranged = |base: &str| {
            let range = format!("range: {{base: {base}, merge: {measured}}}");
            acknowledgement(44, "ttft_ms_p50", later).replace("pull_request: 44", &range)
        };
        branch("accepting-commits", &[("pipelines/acks/commits.yaml", ranged(&before))]);
        branch("accepting-later-ones", &[("pipelines/acks/commits.yaml", ranged(&measured))]);
        branch("accepting-both", &[("pipelines/acks/median.yaml", median), ("pipelines/acks/tail.yaml", tail)]);
        branch("expired", &[("pipelines/acks/slower.yaml", acknowledgement(40, "ttft_ms_p50", "2020-01-01T00:00:00Z"))]);
        // Two ways to look faster: both sides the same, and the slower metric excluded from the decision.
        let sides = pipeline(&fixture, "slow", &RUNS[1].1, 5)
            .replace("baseline: {target: local, variant: before}", "baseline: {target: local, variant: before2}");
        let sides = sides.replace("    - {name: before,", "    - {name: before2,");
        branch("other-sides", &[("pipelines/slow.yaml", sides)]);
        let workload = fs::read_to_string(fixture.repo().join("workloads/answer/workload.yaml")).expect("a workload");
        let less = workload.replace(
            "{path: ttft_ms_p50, unit: ms, better: lower}",
            "{path: ttft_ms_p50, unit: ms, better: lower, primary: false}",
        );
        branch("measures-less", &[("workloads/answer/workload.yaml", less)]);
        branch("lenient", &[("pipelines/tail.yaml", pipeline(&fixture, "tail", &RUNS[2].1, 50))]);
        for (name, _) in RUNS {
            let commit = if name == "tail" { "lenient" } else { "main" };
            run(&fixture, name, name, commit);
        }
        fixture
    })
}

/// Writes the workload, and the pipelines of these names.
pub(crate) fn write_definitions(fixture: &Fixture, names: &[&str]) {
    write_answer_workload(fixture, SCRIPT, METRICS);
    for (name, planted) in RUNS.iter().filter(|(name, _)| names.contains(name)) {
        fixture.write(&format!("pipelines/{name}.yaml"), &pipeline(fixture, name, planted, 5));
    }
}

/// Writes the workload `answer`, which has these metrics and no other.
pub(crate) fn write_answer_workload(fixture: &Fixture, measure: &str, metrics: &str) {
    fixture.indicator("answer", &script(measure), metrics);
    let workload = fixture.repo().join("workloads/answer/workload.yaml");
    let text = fs::read_to_string(&workload).expect("a workload");
    write_file(&workload, text.replace("    - {path: speed, unit: MB/s, better: higher}\n", "").as_bytes());
}

fn run(fixture: &Fixture, name: &str, run_id: &str, commit: &str) {
    fixture.assay(&["run", &format!("pipelines/{name}.yaml"), "--commit", commit, "--run-id", run_id]).success();
}

/// Judges a run as that pull request's.
fn gate(fixture: &Fixture, run: &str, pull: u32, more: &[&str]) -> CommandResult {
    let pull = pull.to_string();
    fixture.assay(&[&["gate", run, "--pull", &pull], more].concat())
}

/// Returns the folder of the verdict about the slower run.
pub(crate) fn verdict_folder(pull: u32) -> (&'static Fixture, PathBuf) {
    let fixture = judged_fixture();
    let folder = fixture.root().join(format!("verdicts-{pull}"));
    gate(fixture, "slow", pull, &["--baseline", "main", "--to", &folder.display().to_string()]).exits(40);
    (fixture, folder.join("latency"))
}

/// Returns the verdict of the only gate.
fn verdict(fixture: &Fixture, run: &str, pull: u32, baseline: &str, exit: i32) -> Value {
    let ran = gate(fixture, run, pull, &["--baseline", baseline, "--json"]).exits(exit);
    ran.json()[0]["verdict"].clone()
}

fn outcomes(verdict: &Value) -> Vec<(&str, &str)> {
    let metrics = verdict["metrics"].as_array().expect("metrics");
    metrics
        .iter()
        .map(|metric| (metric["metric"].as_str().expect("a name"), metric["outcome"].as_str().expect("an outcome")))
        .collect()
}

/// The order of the sides is drawn by the run's name, so a run that was started again under its name is reported, and only such a run.
#[test]
fn a_run_that_was_begun_more_than_once_is_told_as_such() {
    let mut fixture = Fixture::bare();
    fixture.indicator("only", &script(&format!("echo '{}'", indicator_output("only", "1"))), "");
    let comparison = "  variants: [{name: before}, {name: after}]
  comparison: {baseline: {target: local, variant: before}, candidate: {target: local, variant: after}, variable_under_test: runtime_version}
  gates: [{name: speed}]
";
    let plain = crate::support::pipeline("exploratory", &["only"], 2, comparison);
    fixture.write(PIPELINE, &plain.replace("kind: host}", "kind: host, env: {TOKEN: {from_env: SECRET_TOKEN}}}"));
    fixture.commit("a comparison that needs a secret");
    fixture.run("again").refuses(30, "secret_absent");
    fixture.set("SECRET_TOKEN", "here");
    fixture.run("again").success();
    fixture.run("once").success();
    let judged = |run: &str, pull: u32| verdict(&fixture, run, pull, "main", 41)["runs"][0]["earlier_ends"].clone();
    assert_eq!(judged("again", 1), json!([{"state": "failed", "stage": "execute", "code": "secret_absent"}]));
    assert_eq!(judged("once", 2), Value::Null);
    // The terminal's lines are as wide as it is.
    let told = |run: &str, pull: u32| {
        let shown = gate(&fixture, run, pull, &["--baseline", "main"]).exits(41).stdout;
        shown.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (again, once) = (told("again", 1), told("once", 2));
    assert!(again.contains("1 run judged, 1 begun more than once"), "{again}");
    assert!(again.contains("again: an earlier attempt failed in execute (`secret_absent`)"), "{again}");
    assert!(once.contains("1 run judged") && !once.contains("begun more than once"), "{once}");
}

/// A gate fails even if the reader of its output stops reading.
#[test]
fn a_verdict_that_nobody_reads_is_no_better() {
    let fixture = judged_fixture();
    let folder = fixture.root().join("unread").display().to_string();
    let gate = format!("'{}' gate slow --baseline main --pull 91 --to '{folder}' | true", binary("assay").display());
    let mut piped = fixture.command(Path::new("bash"));
    CommandResult::from_output(piped.args(["-c", &format!("set -o pipefail; {gate}")]).output().expect("bash runs")).exits(40);
    assert!(fixture.root().join("unread/latency/check.json").exists());
}

#[test]
fn the_same_passes_and_a_tenth_slower_blocks() {
    let fixture = judged_fixture();
    let same = verdict(fixture, "same", 1, "main", 0);
    assert_eq!(outcomes(&same), [("ttft_ms_p50", "unchanged"), ("ttft_ms_p99", "unchanged")]);
    let slow = verdict(fixture, "slow", 2, "main", 40);
    assert_eq!((&slow["outcome"], &slow["blocks"], &slow["unit"]), (&json!("regressed"), &json!(true), &json!("launch")));
    assert_eq!(outcomes(&slow), [("ttft_ms_p50", "regressed"), ("ttft_ms_p99", "regressed")]);
    let ratio = slow["metrics"][0]["change"]["ratio"].as_f64().expect("a ratio");
    assert!((1.08..1.12).contains(&ratio), "{ratio}");
}

/// The candidate's own branch would let it pass: it is judged by the target branch, and the attempt is shown.
#[test]
fn a_slower_tail_is_told_as_the_tail_and_by_the_rules_of_the_target_branch() {
    let fixture = judged_fixture();
    let tail = verdict(fixture, "tail", 3, "main", 40);
    assert_eq!(outcomes(&tail), [("ttft_ms_p50", "unchanged"), ("ttft_ms_p99", "regressed")]);
    assert_eq!(tail["policy_changes"], json!([{"what": "budget_pct", "baseline": "5", "candidate": "50"}]));
    let lenient = verdict(fixture, "tail", 4, "lenient", 0);
    assert_eq!(lenient["policy_changes"], json!([]));
}

#[test]
fn what_cannot_be_told_is_inconclusive_and_says_what_it_takes() {
    let fixture = judged_fixture();
    let noisy = verdict(fixture, "noisy", 5, "main", 41);
    assert_eq!(outcomes(&noisy), [("ttft_ms_p50", "inconclusive"), ("ttft_ms_p99", "inconclusive")]);
    assert_eq!(noisy["metrics"][0]["reason"]["code"], "underpowered");
    assert_eq!(noisy["blocks"], false);
    assert!(noisy["metrics"][0]["more_pairs"].as_u64().is_some_and(|more| more > 100), "{noisy}");
    // One of two metrics must reach 0.6 % at the next look, which takes eight pairs.
    let few = verdict(fixture, "few", 9, "main", 41);
    assert_eq!((&few["metrics"][0]["more_pairs"], few["metrics"][0]["pairs"].as_array().map(Vec::len)), (&json!(2), Some(6)));
}

#[test]
fn an_acknowledgement_of_the_target_branch_lets_one_metric_of_one_pull_request_pass() {
    let fixture = judged_fixture();
    let accepted = verdict(fixture, "slow", 40, "accepting", 40);
    let metric = |place: usize| &accepted["metrics"][place];
    assert_eq!(
        (&metric(0)["acknowledged"], &metric(0)["reason"]["code"]),
        (&json!("pipelines/acks/slower.yaml"), &json!("acknowledged"))
    );
    assert_eq!(metric(1)["acknowledged"], Value::Null, "the tail was not accepted");
    assert_eq!(accepted["reasons"].as_array().map(Vec::len), Some(1));
    let other = verdict(fixture, "slow", 41, "accepting", 40);
    assert_eq!((&other["acknowledgements"][0]["applies"], other["reasons"].as_array().map(Vec::len)), (&json!(false), Some(2)));
    // An acknowledgement is not evidence: the same look is decided again with the current acknowledgements.
    let expired = verdict(fixture, "slow", 40, "expired", 40);
    assert_eq!((&expired["sequence"]["look"], expired["sequence"]["earlier"].as_array().map(Vec::len)), (&json!(1), Some(1)));
    assert_eq!(expired["metrics"][0]["reason"]["code"], "acknowledgement_expired");
    // Commits are accepted as pull requests are: those after the first one, which is not included.
    let of_commits = |baseline: &str| {
        let verdict = verdict(fixture, "slow", 44, baseline, 40);
        (verdict["acknowledgements"][0]["applies"].clone(), verdict["metrics"][0]["acknowledged"].clone())
    };
    assert_eq!(of_commits("accepting-commits"), (json!(true), json!("pipelines/acks/commits.yaml")));
    assert_eq!(of_commits("accepting-later-ones"), (json!(false), Value::Null));
    // With all metrics accepted, the slowdown passes and is still reported.
    let passed = verdict(fixture, "slow", 43, "accepting-both", 0);
    assert_eq!(outcomes(&passed), [("ttft_ms_p50", "regressed"), ("ttft_ms_p99", "regressed")]);
    assert_eq!((&passed["blocks"], &passed["reasons"]), (&json!(false), &json!([])));
}

/// The measurements of a pull request before it was changed are listed, and have no influence on its current verdict.
#[test]
fn another_tree_begins_anew_and_its_comment_lists_what_was_before() {
    let fixture = judged_fixture();
    let first = verdict(fixture, "slow", 60, "main", 40);
    run(fixture, "same", "changed", "accepting");
    let folder = fixture.root().join("changed");
    let judged = gate(fixture, "changed", 60, &["--baseline", "main", "--json", "--to", &folder.display().to_string()]).success();
    let second = judged.json()[0]["verdict"].clone();
    assert_ne!(first["runs"][0]["tree"], second["runs"][0]["tree"]);
    assert_eq!((&second["sequence"]["look"], &second["sequence"]["earlier"]), (&json!(1), &json!([])));
    assert_eq!(second["metrics"][0]["pairs"].as_array().map(Vec::len), Some(8), "none of the other tree's");
    let comment = fs::read_to_string(folder.join("latency/comment.md")).expect("a comment");
    let earlier: Vec<&str> = comment.lines().filter(|line| line.contains("latency") && line.contains("regressed")).collect();
    assert!(!earlier.is_empty(), "{comment}");
    assert!(!comment.contains("**Why**"), "nothing regressed, so nothing is explained: {comment}");
}

/// A gate finds by pairs what sides that are not paired may not show: what is said below its sentence never contradicts it.
#[test]
fn a_regression_that_nothing_recorded_explains_says_so() {
    let fixture = judged_fixture();
    let folder = fixture.root().join("why");
    run(fixture, "slow", "why", "main");
    gate(fixture, "why", 61, &["--baseline", "main", "--to", &folder.display().to_string()]).exits(40);
    let comment = fs::read_to_string(folder.join("latency/comment.md")).expect("a comment");
    let why = comment.lines().find(|line| line.starts_with("**Why**: ")).unwrap_or_else(|| panic!("no reason: {comment}"));
    assert!(why.starts_with("**Why**: Not explained: no rule holds"), "{why}");
    assert!(comment.contains("`assay explain why` shows what was checked"), "{comment}");
}

/// One test misplaces pointers of the store that all share, and another reads all of them.
static POINTERS: Mutex<()> = Mutex::new(());

#[test]
fn judging_again_is_no_free_draw() {
    let _pointers = POINTERS.lock().unwrap_or_else(PoisonError::into_inner);
    let fixture = judged_fixture();
    let first = verdict(fixture, "same", 6, "main", 0);
    assert_eq!((&first["sequence"]["look"], first["metrics"][0]["pairs"].as_array().map(Vec::len)), (&json!(1), Some(8)));
    let again = gate(fixture, "same", 6, &["--baseline", "main"]).success();
    assert!(again.stderr.contains("run `same` was judged before\nverdict 1 about `pr-6` stands"), "{}", again.stderr);
    run(fixture, "same", "same-again", "main");
    let second = verdict(fixture, "same-again", 6, "main", 0);
    assert_eq!((&second["sequence"]["look"], second["metrics"][0]["pairs"].as_array().map(Vec::len)), (&json!(2), Some(16)));
    assert_eq!(second["sequence"]["earlier"].as_array().map(Vec::len), Some(1));
    // A third look where two are allowed: the last verdict stands, and the run is not judged.
    run(fixture, "same", "same-at-last", "main");
    let third = gate(fixture, "same-at-last", 6, &["--baseline", "main"]).success();
    assert!(third.stderr.contains("run `same-at-last` is not judged\nverdict 2 about `pr-6` stands"), "{}", third.stderr);
    // Moving a verdict would restore the look.
    let [one, two] = ["000001", "000002"].map(|number| fixture.store().join("gates/pr-6").join(number));
    let pointer = fs::read(&one).expect("a pointer");
    fs::copy(&two, &one).expect("copied");
    gate(fixture, "same-at-last", 6, &["--baseline", "main"]).refuses(20, "verdict_misplaced");
    fs::write(&one, &pointer).expect("as it was");
    // A removed verdict would hide the spent look.
    let verdicts = fixture.store().join("gates/pr-6");
    fs::remove_file(verdicts.join("000001")).expect("removed");
    gate(fixture, "same-at-last", 6, &["--baseline", "main"]).refuses(20, "verdict_missing");
    fs::write(&one, pointer).expect("as it was");
}

#[test]
fn results_that_a_verdict_judged_stay() {
    let _pointers = POINTERS.lock().unwrap_or_else(PoisonError::into_inner);
    let fixture = judged_fixture();
    let judged = gate(fixture, "tail", 91, &["--baseline", "main", "--json"]).exits(40).json();
    let refused = fixture.assay(&["runs", "rm", "tail"]).refuses(2, "run_needed");
    assert!(refused.stderr.contains("the verdict `gates/pr-"), "{}", refused.stderr);
    // The raw evidence may go: a verdict is decided from Summaries.
    let folder = tempfile::tempdir_in(fixture.scratch()).expect("a folder for the store");
    let store = folder.path().display().to_string();
    // Other tests add to the store meanwhile: the blobs last, so that the copy has all that its pointers name.
    for part in ["gates", "runs", "cases", "warehouse", "blobs"] {
        copy_folder(&fixture.store().join(part), &folder.path().join(part));
    }
    let remove = ["runs", "rm", "tail", "--evidence-only", "--reason", "old", "--yes", "--store", &store];
    assert!(fixture.assay(&remove).success().stdout.contains("removed "));
    let verified = fixture.assay(&["verify", "tail", "--store", &store]).success();
    assert!(verified.stdout.contains("level 2 (rows and queries) of 4 reached"), "{}", verified.stdout);
    let verdict = judged[0]["reference"]["manifest"].as_str().expect("a digest").to_owned();
    fixture.assay(&["gate", "--replay", &verdict, "--store", &store]).success();
}

#[test]
fn a_verdict_is_decided_again_to_the_byte() {
    let fixture = judged_fixture();
    let folder = fixture.root().join("verdicts");
    gate(fixture, "tail", 7, &["--baseline", "main", "--to", &folder.display().to_string()]).exits(40);
    let files = files_under(&folder.join("latency"));
    let names: Vec<_> = files.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    assert_eq!(names, ["check.json", "comment.md", "junit.xml", "report.html", "verdict.json", "verdict.sigstore.json"]);
    let file = folder.join("latency/verdict.json");
    let replay = |name: &str| fixture.assay(&["gate", "--replay", name]);
    insta::assert_snapshot!(fixture.format_result(&replay(&file.display().to_string())), @r"
    exit code 0
    ----- stdout -----
    verdict sha256:[DIGEST]
      ok  signed by local-gate
      ok  1 run verified to level 1 (chain): `assay verify` reads their raw bytes, too
      ok  3 files of rules
      ok  decided again, with the same bytes: regressed
    ----- stderr: nothing -----
    ");
    let bytes = fs::read(&file).expect("a verdict");
    let text = String::from_utf8(bytes.clone()).expect("JSON");
    let forged = text.replacen(r#""outcome":"regressed""#, r#""outcome":"unchanged""#, 1);
    write_file(&file, forged.as_bytes());
    replay(&file.display().to_string()).refuses(20, "subject_digest_mismatch");
    // The holder of the gate's key may sign a verdict that was not decided so: deciding again detects it.
    let signed = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        let document = Document::parse(text.replacen(from, to, 1).as_bytes()).expect("a manifest");
        let manifest = Verdict::from_document(&document).expect("a verdict");
        let signer = Signer::new(key_of(fixture, Role::Gate));
        let signed = sign(manifest, &signer, TestResult::from_verdict(&manifest.body)).expect("signed");
        write_file(&file, &signed.manifest);
        write_file(&file.with_extension("sigstore.json"), &signed.bundle);
        replay(&folder.join("latency").display().to_string())
    };
    signed(r#""outcome":"unchanged","p_better_adjusted""#, r#""outcome":"improved","p_better_adjusted""#)
        .refuses(20, "replay_differs");
    signed(r#""look":1"#, r#""look":2"#).refuses(20, "other_look");
    signed("assay-gate/11", "assay-gate/1").refuses(2, "other_contract");
    replay(&format!("sha256:{}", "0".repeat(64))).refuses(2, "no_such_verdict");
}

#[test]
fn evidence_of_strangers_is_refused_unless_it_is_asked_for() {
    let fixture = judged_fixture();
    let stranger = Fixture::without_keys();
    let store = fixture.store().display().to_string();
    let policy = fixture.repo().join("pipelines/slow.yaml").display().to_string();
    let judge = |more: &[&str]| {
        let arguments = ["gate", "slow", "--pull", "8", "--store", &store, "--policy", &policy, "--json"];
        stranger.assay(&[arguments.as_slice(), more].concat())
    };
    assert_eq!(stranger.assay(&["keys", "init", "--scrypt-n", "32768"]).code, 0);
    judge(&[]).refuses(20, "unknown_key");
    let verdict = judge(&["--unestablished"]).exits(40).json()[0]["verdict"].clone();
    assert_eq!(verdict["runs"][0]["established"], false);
    assert_eq!(verdict["policy"]["path"], "slow.yaml", "no path of this machine");
}

#[test]
fn what_cannot_be_judged_is_named() {
    let fixture = judged_fixture();
    gate(fixture, "absent", 9, &["--baseline", "main"]).refuses(2, "no_such_run");
    gate(fixture, "same", 9, &["--baseline", "nowhere"]).refuses(2, "git");
    let other = gate(fixture, "same", 9, &["--baseline", "main", "--gate", "other"]).refuses(2, "no_gate");
    assert!(other.stderr.contains("hint: name one of its gates, or leave `--gate` out"), "{}", other.stderr);
    let empty: PathBuf = fixture.root().join("empty.yaml");
    let text = fs::read_to_string(fixture.repo().join("pipelines/same.yaml")).expect("a pipeline");
    let (before, _) = text.split_once("  gates:").expect("gates");
    write_file(&empty, before.as_bytes());
    let without = gate(fixture, "same", 9, &["--policy", &empty.display().to_string()]).refuses(2, "no_gate");
    let advised = "gates: [{name: latency, budget_pct: 5}]";
    assert!(without.stderr.contains(&format!("hint: a gate is written as `{advised}`")), "{}", without.stderr);
    let validated = |text: &str| {
        write_file(&empty, text.as_bytes());
        fixture.assay(&["validate", &empty.display().to_string()])
    };
    validated(&format!("{before}  {advised}\n")).success();
    // Without two sides to compare, a gate is not valid, and so no advice.
    let (alone, _) = text.split_once("  placement:").expect("a comparison");
    validated(&format!("{alone}  {advised}\n")).exits(10);
    validated(alone).success();
    let alone = gate(fixture, "same", 9, &["--policy", &empty.display().to_string()]).refuses(2, "no_gate");
    assert!(!alone.stderr.contains("budget_pct"), "{}", alone.stderr);
    assert!(alone.stderr.contains("hint: `assay gate RUN --baseline history` compares the run with earlier"), "{}", alone.stderr);
}

/// A token in the form of a forge's: it must not appear anywhere.
pub(crate) const TOKEN: &str = "ghs_0123456789abcdef";

/// The author of a pull request.
pub(crate) const AUTHOR: Identity = Identity::User("somebody");

#[test]
fn a_verdict_is_posted_once_and_edited_in_place() {
    let fixture = judged_fixture();
    let forge = StandIn::start(Identity::Workflow);
    forge.accept_only(TOKEN);
    let commit = "5".repeat(40);
    let pull = forge.pull_at(AUTHOR, &commit);
    let folder = fixture.root().join("posted");
    let said = |arguments: &[&str]| {
        let mut command = fixture.command(&crate::support::binary("assay"));
        command.args(["forge"]).args(arguments).args(["--repository", "example/project", "--api", &forge.url()]);
        let ran = CommandResult::from_output(command.env("ASSAY_FORGE_TOKEN", TOKEN).output().expect("it runs"));
        assert!(!ran.stdout.contains(TOKEN) && !ran.stderr.contains(TOKEN));
        ran
    };
    let found = said(&["pull", "--commit", &commit]).success();
    assert_eq!(found.stdout.trim(), pull.to_string());
    let post = |baseline: &str| {
        gate(fixture, "slow", 42, &["--baseline", baseline, "--to", &folder.display().to_string()]);
        let [comment, check] = ["comment.md", "check.json"].map(|name| folder.join("latency").join(name).display().to_string());
        said(&["post", "--pull", &pull.to_string(), "--comment", &comment, "--commit", &commit, "--check", &check])
            .success()
            .stdout
    };
    let kinds =
        |said: &str| said.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect::<Vec<_>>();
    assert_eq!(kinds(&post("main")), ["comment created", "check created"]);
    assert_eq!(kinds(&post("main")), ["comment unchanged", "check unchanged"]);
    assert_eq!(kinds(&post("accepting")), ["comment updated", "check updated"]);
    let [(author, comment)] = forge.comments(pull).try_into().expect("one comment");
    assert_eq!(author, "github-actions[bot]");
    assert!(comment.starts_with("<!-- assay:gate -->") && comment.contains("acknowledged"), "{comment}");
    let checks = forge.checks();
    assert_eq!((checks.len(), &checks[0]["conclusion"], &checks[0]["head_sha"]), (1, &json!("failure"), &json!(commit)));
    assert_eq!(said(&["pull", "--commit", &"6".repeat(40)]).exits(30).error().as_deref(), Some("forge"));
    let without =
        fixture.assay(&["forge", "pull", "--repository", "example/project", "--api", &forge.url(), "--commit", &commit]);
    without.refuses(2, "no_token");
}

/// The same verdict on forges that have no checks: a status that says in one line what the comment explains.
#[test]
fn a_verdict_is_posted_to_gitlab_and_to_gitea() {
    let fixture = judged_fixture();
    for (kind, flavor, states) in
        [("gitlab", Flavor::GitLab, ["failed", "skipped"]), ("gitea", Flavor::Gitea, ["failure", "warning"])]
    {
        let forge = StandIn::start_as(flavor, Identity::User("assay-bot"));
        forge.accept_only(TOKEN);
        let folder = fixture.root().join(format!("posted-{kind}"));
        let said = |arguments: &[&str]| {
            let mut command = fixture.command(&binary("assay"));
            command.args(["forge"]).args(arguments).args([
                "--kind",
                kind,
                "--repository",
                "example/project",
                "--api",
                &forge.url(),
            ]);
            let ran = CommandResult::from_output(command.env("ASSAY_FORGE_TOKEN", TOKEN).output().expect("it runs"));
            assert!(!ran.stdout.contains(TOKEN) && !ran.stderr.contains(TOKEN));
            ran
        };
        for (run, digit, state) in [("slow", "5", states[0]), ("few", "6", states[1])] {
            let commit = digit.repeat(40);
            let pull = forge.pull_at(AUTHOR, &commit).to_string();
            assert_eq!(said(&["pull", "--commit", &commit]).success().stdout.trim(), pull);
            gate(fixture, run, 42, &["--baseline", "main", "--to", &folder.display().to_string()]);
            let [comment, check] =
                ["comment.md", "check.json"].map(|name| folder.join("latency").join(name).display().to_string());
            let page = "https://ci.example/jobs/1";
            for how in ["created", "unchanged"] {
                let posted = said(&[
                    "post",
                    "--pull",
                    &pull,
                    "--comment",
                    &comment,
                    "--commit",
                    &commit,
                    "--check",
                    &check,
                    "--details-url",
                    page,
                ]);
                assert_eq!(posted.success().stdout.lines().filter(|line| line.contains(how)).count(), 2, "{kind} {run}");
            }
            let status = forge.statuses().pop().expect("a status");
            assert_eq!((&status["status"], &status["target_url"]), (&json!(state), &json!(page)), "{kind} {run}");
            let line = status["description"].as_str().expect("a line");
            assert!(line.ends_with(&format!(" [pull:{pull}]")), "{line}");
        }
        assert_eq!(forge.statuses().len(), 2);
    }
}

#[test]
fn a_forge_is_named_by_its_kind_and_its_api() {
    let fixture = judged_fixture();
    let pull = |arguments: &[&str]| {
        let mut command = fixture.command(&binary("assay"));
        command.args(["forge", "pull", "--repository", "example/project", "--commit", &"5".repeat(40)]).args(arguments);
        CommandResult::from_output(command.env("ASSAY_FORGE_TOKEN", TOKEN).output().expect("it runs"))
    };
    pull(&["--kind", "gitea"]).refuses(2, "no_api");
    pull(&["--kind", "bitbucket"]).exits(2);
    pull(&["--kind", "gitlab", "--api", "http://gitlab.example/api/v4"]).exits(2);
    let nested = ["--repository", "group/tools/project", "--kind", "gitea", "--api", "http://127.0.0.1:1"];
    let mut command = fixture.command(&binary("assay"));
    command.args(["forge", "pull", "--commit", &"5".repeat(40)]).args(nested);
    CommandResult::from_output(command.env("ASSAY_FORGE_TOKEN", TOKEN).output().expect("it runs")).refuses(2, "forge_request");
    let check = ["post", "--repository", "example/project", "--commit", &"5".repeat(40), "--check", "check.json"];
    fixture.assay(&[&["forge"], &check[..], &["--details-url", "javascript:alert(1)"]].concat()).exits(2);
}

/// Every command that the page of a verdict prints works as described.
#[test]
fn a_verdict_walks_back_by_the_commands_of_its_page() {
    let (fixture, folder) = verdict_folder(90);
    let page = fs::read_to_string(folder.join("report.html")).expect("a page");
    let commands: Vec<Vec<&str>> = page
        .split("<pre class=\"command\" tabindex=\"0\"><code>assay ")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once("</code>")?.0.split(' ').collect()))
        .collect();
    let of = |name: &str| commands.iter().filter(|command| command[0] == name).count();
    assert_eq!([of("gate"), of("verify"), of("trace")], [1, 1, 2 * 2 + 1], "{commands:?}");
    for command in &commands {
        fixture.assay(command).success();
    }
}

#[test]
fn runs_are_compared_and_followed_without_deciding_anything() {
    let fixture = judged_fixture();
    let compared = fixture.assay(&["compare", "same", "slow", "--json"]).success().json();
    let metrics = compared["metrics"].as_array().expect("metrics");
    let slower = metrics.iter().find(|metric| metric["case"] == "answer.local.after" && metric["metric"] == "ttft_ms_p50");
    let ratio = slower.and_then(|metric| metric["ratio"].as_f64()).expect("a ratio");
    assert!((1.08..1.12).contains(&ratio), "{ratio}");
    let told = compared["surroundings"].as_array().expect("a list").iter().filter_map(Value::as_str).collect::<Vec<_>>();
    assert_eq!(
        told,
        ["definition: the pipeline's file is another, so targets may be set up otherwise"],
        "one machine, two files"
    );
    fixture.assay(&["compare", "same", "absent"]).refuses(2, "no_such_run");
    let history = fixture.assay(&["history", "ttft_ms_p99", "--case", "answer.local.after", "--json"]).success().json();
    // A history is of one pipeline: others may set up cases of the same names differently.
    let of =
        |pipeline: &str| history.as_array().expect("histories").iter().filter(|history| history["pipeline"] == pipeline).count();
    assert_eq!(["same", "slow", "tail", "noisy"].map(of), [1; 4], "{history}");
    let own =
        history.as_array().expect("histories").iter().find(|history| history["pipeline"] == "slow").expect("that of `slow`");
    assert_eq!(own["runs"][0]["run"], "slow");
    fixture.assay(&["history", "p99_u's"]).refuses(2, "no_history");
    let notes = fixture.root().join("notes.md");
    write_file(&notes, b"somebody's");
    fixture.assay(&["history", "--issue", &notes.display().to_string()]).refuses(2, "file_differs");
    assert_eq!(fs::read(&notes).expect("it is still there"), b"somebody's");
    let full = fs::File::options().write(true).open("/dev/full").expect("a disk that is full");
    let unsaid = fixture.command(&binary("assay")).args(["runs", "--json"]).stdout(full).output().expect("it runs");
    assert_eq!(unsaid.status.code(), Some(30), "what was not written was not said");
    let runs = fixture.assay(&["runs", "--json"]).success().json();
    let runs = runs.as_array().expect("runs").iter().filter(|run| RUNS.iter().any(|(name, _)| run["run_id"] == *name));
    let (ids, begun): (Vec<_>, Vec<_>) = runs.map(|run| (run["run_id"].as_str(), run["begun_at"].as_str())).unzip();
    assert_eq!(ids, RUNS.map(|(name, _)| Some(name)), "in the order of time, not of names");
    assert!(begun.is_sorted() && begun[0].is_some(), "{begun:?}");
    let page = fixture.root().join("history.html");
    let shown = fixture.assay(&["history", "--html", &page.display().to_string()]).success();
    let page = fs::read_to_string(page).expect("a page");
    let command = page.split("assay trace ").nth(1).and_then(|rest| rest.split(['<', ' ']).next()).expect("a way back");
    fixture.assay(&["trace", command]).success();
    assert!(shown.stdout.contains("answer.local.before default ttft_ms_p50 by same, ms, lower is better"), "{}", shown.stdout);
}

/// A run alone, against those of the same case before it.
#[test]
fn history_tells_and_never_blocks() {
    let fixture = Fixture::bare();
    write_definitions(&fixture, &["same", "slow"]);
    fixture.commit("a comparison of what is made up");
    for number in 1..=5 {
        run(&fixture, "same", &format!("night-{number}"), "main");
    }
    let against = |run: &str, more: &[&str]| fixture.assay(&[&["gate", run, "--baseline", "history"], more].concat());
    let early = against("night-3", &["--json"]).exits(41).json();
    assert_eq!((&early[0]["not_predicted"], &early[0]["runs"]), (&json!("too_few_runs"), &json!(2)));
    // Another pipeline's cases have the same names and a different setup: they are not part of this history.
    run(&fixture, "slow", "elsewhere", "main");
    assert_eq!(against("elsewhere", &["--json"]).exits(41).json()[0]["runs"], json!(0));
    fixture.write("pipelines/same.yaml", &pipeline(&fixture, "same", &RUNS[1].1, 5));
    fixture.commit("a tenth slower");
    run(&fixture, "same", "night-6", "main");
    let found = against("night-6", &["--json"]).exits(41).json();
    let of =
        |case: &str| found.as_array().expect("metrics").iter().find(|metric| metric["case"] == case).expect("the metric").clone();
    let (after, before) = (of("answer.local.after"), of("answer.local.before"));
    assert_eq!((&after["is_worse"], &after["runs"], &before["is_worse"]), (&json!(true), &json!(5), &json!(false)));
    let shown = against("night-6", &[]).exits(41);
    assert!(shown.stdout.starts_with("worse than history ttft_ms_p50 of answer.local.after at default"), "{}", shown.stdout);
    assert!(shown.stderr.contains("To decide, measure both in one run"), "{}", shown.stderr);
    assert!(shown.stderr.contains("False alarms: of 2000 redrawings of 5 earlier runs"), "{}", shown.stderr);
    assert_eq!(after["family_false_alarms"]["draws"], 2_000);
    assert!(
        shown.stderr.contains("5 runs before it had other hardware, other software or another pipeline file"),
        "{}",
        shown.stderr
    );
    assert!(!fixture.store().join("gates").exists(), "nothing was decided");
}

/// A point whose script fails from some run on has no value, which neither the history nor a comparison of two runs hides.
#[test]
fn a_value_that_is_gone_is_named_and_nothing_passes() {
    let fixture = Fixture::bare();
    let more = "  parameters: {N: [1, 2]}\n";
    let works = format!("#!/bin/sh\necho '{}'\n", indicator_output("w", "100.5"));
    let dies = works.replace("#!/bin/sh\n", "#!/bin/sh\n[ -e \"$DEAD\" ] && [ \"$N\" = 2 ] && exit 9\n");
    let dead = fixture.root().join("dead");
    for name in ["w1", "w2"] {
        fixture.indicator(name, if name == "w2" { &dies } else { &works }, more);
    }
    let pipeline = format!(
        "apiVersion: assay.dev/v1alpha1
kind: Pipeline
metadata: {{name: nightly}}
spec:
  intent: exploratory
  workloads: [w1, w2]
  targets: [{{name: local, kind: host}}]
  variants: [{{name: default, env: {{DEAD: {}}}}}]
  trials: {{count: 1, retry_budget: 0}}
",
        dead.display()
    );
    fixture.write("pipelines/nightly.yaml", &pipeline);
    fixture.commit("two workloads");
    for number in 1..=6 {
        run(&fixture, "nightly", &format!("p{number}"), "main");
    }
    let against = |run: &str, more: &[&str]| fixture.assay(&[&["gate", run, "--baseline", "history"], more].concat());
    assert!(!against("p6", &[]).success().stdout.contains("no value"), "every point has its value");
    fs::write(&dead, "").expect("a file");
    fixture.assay(&["run", "pipelines/nightly.yaml", "--commit", "main", "--run-id", "p7"]);
    let shown = against("p7", &[]).exits(41);
    let named = "no value           speed of w2.local.default at n-2: 6 earlier runs have one; the only trial does not count: ";
    assert!(shown.stdout.starts_with(named), "{shown:?}");
    assert!(shown.stderr.contains("1 metric of which earlier runs have a value: without one nothing is decided."), "{shown:?}");
    let found = against("p7", &["--json"]).exits(41).json();
    let gone: Vec<&Value> = found.as_array().expect("metrics").iter().filter(|metric| metric["value"].is_null()).collect();
    assert_eq!(gone.len(), 1, "{found:#}");
    assert_eq!((&gone[0]["point"], &gone[0]["not_predicted"], &gone[0]["runs"]), (&json!("n-2"), &json!("no_value"), &json!(6)));
    // A run before it is judged by the runs before that one.
    assert!(!against("p6", &[]).success().stdout.contains("no value"));
    for (runs, side) in [(["p6", "p7"], "B"), (["p7", "p6"], "A")] {
        let left_out = format!("w2.local.default at n-2: {side} has no value of `speed`: the only trial does not count: ");
        let compared = fixture.assay(&["compare", runs[0], runs[1]]).success().stdout;
        assert!(compared.contains(&format!("\nleft out: {left_out}")), "{compared}");
        let compared = fixture.assay(&["compare", runs[0], runs[1], "--json"]).success().json();
        let all = compared["left_out"].as_array().expect("a list");
        assert!(all.len() == 1 && all[0].as_str().is_some_and(|text| text.starts_with(&left_out)), "{compared:#}");
    }
    let alike = fixture.assay(&["compare", "p5", "p6"]).success().stdout;
    assert!(!alike.contains("left out") && !alike.contains("validity: "), "{alike}");
    let trials = "trials: {count: 1, retry_budget: 0, validity: {reason: a quiet machine, throttled_share: 0.5}}";
    fixture.write("pipelines/nightly.yaml", &pipeline.replace("trials: {count: 1, retry_budget: 0}", trials));
    fs::remove_file(&dead).expect("it is there");
    fixture.commit("other limits");
    run(&fixture, "nightly", "p8", "main");
    let other = fixture.assay(&["compare", "p6", "p8"]).success().stdout;
    let other = other.split_whitespace().collect::<Vec<_>>().join(" ");
    let limits =
        |throttled| format!("lateness_p99 25ms, stall 1s, delay_share 0.1, sent_share 0.95, throttled_share {throttled}");
    let named = format!("validity: attempts counted by other limits: {} / {}", limits("0.05"), limits("0.5"));
    assert!(other.contains(&named), "{other}");
}

/// If an inconclusive verdict has a look left, the pipeline runs once more and both runs are judged together, if that may decide.
#[test]
fn a_top_up_spends_the_looks_that_are_left() {
    let fixture = judged_fixture();
    let topped = gate(fixture, "few", 50, &["--baseline", "main", "--top-up", "--json"]).exits(40);
    assert!(topped.stderr.contains("once more, as `few-look-2`"), "{}", topped.stderr);
    let verdict = topped.json()[0]["verdict"].clone();
    assert_eq!((&verdict["sequence"]["look"], verdict["metrics"][0]["pairs"].as_array().map(Vec::len)), (&json!(2), Some(12)));
    assert_eq!(outcomes(&verdict), [("ttft_ms_p50", "regressed"), ("ttft_ms_p99", "regressed")]);
    let again = gate(fixture, "few", 50, &["--baseline", "main", "--top-up"]).exits(40);
    assert!(!again.stderr.contains("once more"), "no look is left: {}", again.stderr);
    // A run with the name of a look can be a first one like any other, and the next name is free.
    let other = gate(fixture, "few-look-2", 51, &["--baseline", "main", "--top-up"]).exits(40);
    assert!(other.stderr.contains("once more, as `few-look-3`"), "{}", other.stderr);
    let hopeless = gate(fixture, "noisy", 52, &["--baseline", "main", "--top-up"]).exits(41);
    assert!(
        hopeless.stderr.contains("more pairs are needed to decide, and the remaining looks measure 8:"),
        "{}",
        hopeless.stderr
    );
    assert!(!fixture.store().join("runs/noisy-look-2").exists());
}

/// A work tree that differs from its commit is not judged as that commit.
#[test]
fn a_work_tree_that_differs_is_no_commit() {
    let fixture = Fixture::bare();
    write_definitions(&fixture, &["same"]);
    let commit = fixture.commit("a comparison of what is made up");
    let script = fixture.repo().join("workloads/answer/run.sh");
    let text = fs::read_to_string(&script).expect("a script");
    write_file(&script, format!("{text}# changed\n").as_bytes());
    fixture.assay(&["run", "pipelines/same.yaml", "--run-id", "dirty"]).success();
    let dirty = verdict(&fixture, "dirty", 1, "main", 41);
    assert_eq!((&dirty["runs"][0]["commit"], &dirty["blocks"]), (&Value::Null, &json!(true)));
    assert_eq!(dirty["definition_changes"][0]["what"], "workloads/answer/run.sh");
    gate(&fixture, "dirty", 1, &["--baseline", "main", "--head", &commit]).refuses(20, "other_commit");
}

/// The author of a pull request may not choose the commit that it is compared with: an older commit may be slower.
#[test]
fn what_a_change_was_merged_with_has_to_be_of_the_branch_and_no_older_than_the_change() {
    let fixture = Fixture::bare();
    write_definitions(&fixture, &["few"]);
    let old = fixture.commit("a comparison of what is made up");
    fixture.write("faster", "");
    let new = fixture.commit("faster");
    fixture.git(&["checkout", "--quiet", "-b", "change"]);
    fixture.write("slower", "");
    let head = fixture.commit("slower");
    fixture.git(&["checkout", "--quiet", "-b", "aside", "main"]);
    fixture.write("aside", "");
    let aside = fixture.commit("never merged");
    fixture.git(&["checkout", "--quiet", "main"]);
    fixture.write("newer", "");
    fixture.commit("newer than what was measured");
    let judged = |run: &str, with: &str| {
        let merge = fixture.git(&["commit-tree", "-p", with, "-p", &head, "-m", run, &format!("{head}^{{tree}}")]);
        self::run(&fixture, "few", run, merge.trim());
        gate(&fixture, run, 1, &["--baseline", "main", "--head", &head])
    };
    let older = judged("older", &old).refuses(20, "other_base");
    assert!(older.stderr.contains("which lacks commits that the head already has of `main`"), "{}", older.stderr);
    let stray = judged("stray", &aside).refuses(20, "other_base");
    assert!(stray.stderr.contains("which is no commit of `main`"), "{}", stray.stderr);
    judged("merged", &new).exits(41);
    // A commit that follows the head may undo it, so it is not a merge of it.
    let child = fixture.git(&["commit-tree", "-p", &head, "-m", "child", &format!("{new}^{{tree}}")]);
    self::run(&fixture, "few", "child", child.trim());
    gate(&fixture, "child", 1, &["--baseline", "main", "--head", &head]).refuses(20, "other_commit");
}

/// Rules in a file that no gate reads have no effect, and are reported as problems.
#[test]
fn rules_where_no_gate_reads_them_are_problems() {
    let fixture = Fixture::bare();
    let accepted = acknowledgement(1, "ttft_ms_p50", "2100-01-01T00:00:00Z");
    for read in ["pipelines/acks/read.yaml", "pipelines/acks/read-too.yml"] {
        fixture.write(read, &accepted);
    }
    fixture.assay(&["validate"]).success();
    for (path, says) in [
        ("pipelines/noise/unread.yml", "gates read no noise file whose name ends in `.yml`"),
        ("pipelines/acks/below/unread.yaml", "gates read no acknowledgement here"),
    ] {
        fixture.write(path, &accepted);
        let refused = fixture.assay(&["validate"]).exits(10);
        assert!(refused.stderr.contains(says) && refused.stderr.contains(path), "{}", refused.stderr);
        fs::remove_file(fixture.repo().join(path)).expect("removed");
    }
}

#[test]
fn the_run_that_is_judged_is_the_one_that_was_meant() {
    let fixture = judged_fixture();
    let with = |more: &[&str]| gate(fixture, "same", 80, &[&["--baseline", "main"], more].concat());
    with(&["--pipeline", "pipelines/slow.yaml"]).refuses(20, "other_pipeline");
    with(&["--head", &"0".repeat(40)]).refuses(20, "other_commit");
    let commit = fixture.git(&["rev-parse", "main"]);
    with(&["--pipeline", "pipelines/same.yaml", "--head", commit.trim()]).success();
    // The same rules in another file are the same rules: this run was judged.
    let copy = fixture.root().join("copy.yaml");
    write_file(&copy, fixture.git(&["show", "main:pipelines/same.yaml"]).as_bytes());
    let again = gate(fixture, "same", 80, &["--policy", &copy.display().to_string()]).success();
    assert!(again.stderr.contains("verdict 1 about `pr-80` stands"), "{}", again.stderr);
    fixture.assay(&["gate", "same"]).refuses(2, "no_baseline");
    with(&["--policy", "/dev/zero"]).exits(2);
    gate(fixture, "same", 80, &["--policy", "/dev/zero"]).refuses(2, "policy");
    gate(fixture, "same", 80, &["--baseline", "history"]).refuses(2, "no_verdict");
}

#[test]
fn a_plan_says_beforehand_what_its_gate_can_find() {
    let fixture = judged_fixture();
    let plan = fixture.assay(&["plan", "pipelines/same.yaml"]).success();
    let line = plan.stdout.lines().find(|line| line.starts_with("gate ")).expect("the gate's line");
    assert!(
        line.starts_with("gate      latency: 2 metrics; 8 pairs find a change of 10.0 % where a pair's noise is at most "),
        "{line}"
    );
    let text = fs::read_to_string(fixture.repo().join("pipelines/same.yaml")).expect("a pipeline");
    // Not committed; runs and gates read commits.
    for (pairs, cannot) in [
        (4, "4 pairs can find nothing: 8 pairs are the fewest that find a change of one metric alone"),
        (7, "7 pairs cannot find a change of one metric alone: 8 pairs are the fewest"),
    ] {
        fixture.write("pipelines/few.yaml", &text.replace("count: 8", &format!("count: {pairs}")));
        let plan = fixture.assay(&["plan", "pipelines/few.yaml"]).success();
        assert!(plan.stdout.contains(&format!("gate      latency: 2 metrics; {cannot}\n")), "{}", plan.stdout);
    }
}

/// Two runs of a commit have different orders, which `assay plan` shows and verify checks; a run with a declared order decides nothing.
#[test]
fn the_order_is_drawn_for_each_run() {
    let fixture = Fixture::bare();
    write_definitions(&fixture, &["slow"]);
    fixture.commit("a comparison of what is made up");
    let order = |run: &str| {
        run_head(&fixture, "slow", run);
        let plan = fixture.manifest(run, "plan")["body"]["order"].clone();
        let shown = fixture.assay(&["plan", "pipelines/slow.yaml", "--run-id", run, "--json"]).success().json();
        assert_eq!(shown["order"]["digest"], plan["digest"], "{run}");
        fixture.assay(&["verify", run]).success();
        plan
    };
    let (one, two) = (order("one"), order("two"));
    assert_ne!(one["seed"], two["seed"]);
    assert_ne!(one["digest"], two["digest"]);
    verdict(&fixture, "one", 5, "main", 40);

    let text = fs::read_to_string(fixture.repo().join("pipelines/slow.yaml")).expect("a pipeline");
    let seed = one["seed"].as_str().expect("a seed");
    fixture.write("pipelines/slow.yaml", &text.replace("retry_budget: 0", &format!("retry_budget: 0, order_seed: '{seed}'")));
    fixture.commit("an order to look at again");
    assert_eq!(order("again")["digest"], one["digest"]);
    let declared = verdict(&fixture, "again", 6, "main", 41);
    let check = declared["checks"].as_array().expect("checks").iter().find(|check| check["name"] == "order").cloned();
    assert_eq!(check.expect("it is checked")["passed"], json!(false));
    assert_eq!(declared["metrics"][0]["reason"]["code"], "order_declared");
}

fn run_head(fixture: &Fixture, name: &str, run_id: &str) {
    run(fixture, name, run_id, "HEAD");
}

/// Noise is learned from earlier runs; a reviewed file keeps it; it sizes the plan, and the verdict names it and can be decided again.
#[test]
fn noise_is_learned_from_earlier_runs() {
    let fixture = Fixture::bare();
    write_definitions(&fixture, &["same"]);
    fixture.commit("a comparison of what is made up");
    let noise = |more: &[&str]| fixture.assay(&[&["noise", "pipelines/same.yaml"], more].concat());
    (1..=4).for_each(|night| run(&fixture, "same", &format!("night-{night}"), "main"));
    noise(&[]).refuses(2, "too_few_runs");
    fixture.assay(&["noise", "pipelines/nope.yaml"]).refuses(2, "unreadable");
    run(&fixture, "same", "night-5", "main");

    let before = verdict(&fixture, "night-5", 1, "main", 0);
    assert_eq!(before["learned"], Value::Null);
    // A night with a regression is not noise.
    fixture.git(&["checkout", "--quiet", "-b", "slower"]);
    fixture.write("pipelines/same.yaml", &pipeline(&fixture, "same", &RUNS[1].1, 5));
    fixture.commit("a slower candidate");
    run(&fixture, "same", "slower-night", "slower");
    verdict(&fixture, "slower-night", 3, "slower", 40);
    fixture.git(&["checkout", "--quiet", "main"]);
    let without = noise(&[]).success();
    assert!(
        without.stderr.contains("1 run left out because a gate found a regression in them: slower-night"),
        "{}",
        without.stderr
    );
    assert!(!without.stdout.contains("slower-night") && without.stdout.contains("night-5"), "{}", without.stdout);
    let text = fs::read_to_string(fixture.repo().join("pipelines/same.yaml")).expect("a pipeline");
    fixture.write("pipelines/same.yaml", &text.replace("count: 8", "count: sized"));
    let refused = fixture.assay(&["plan", "pipelines/same.yaml"]).exits(10);
    assert!(refused.stderr.contains("nothing was learned of the noise of what gate `latency` judges"), "{}", refused.stderr);

    let file = fixture.repo().join("pipelines/noise/same.yaml");
    fs::create_dir(file.parent().expect("a folder")).expect("made");
    let learned = noise(&["--to", &file.display().to_string()]).success();
    assert!(learned.stderr.contains("2 metrics of 5 runs"), "{}", learned.stderr);
    assert!(noise(&["--newest", "5"]).success().stdout.contains("- {run: \"night-5\", summary: "));
    fixture.assay(&["validate"]).success();
    let plan = fixture.assay(&["plan", "pipelines/same.yaml"]).success().stdout;
    // At its first look, one of two metrics must reach 0.6 %, which takes eight pairs; so quiet an endpoint takes no more.
    assert!(plan.contains("16 trials (8 each)"), "{plan}");
    assert!(plan.contains("8 pairs suffice: by what earlier runs taught, 8 find a change of 10.0 %"), "{plan}");
    let head = fixture.commit("what was learned of the noise");
    run(&fixture, "same", "sized", "main");
    let sized = verdict(&fixture, "sized", 2, "main", 0);
    assert_eq!(sized["metrics"][0]["pairs"].as_array().map(Vec::len), Some(8));
    let digest = sized["learned"].as_str().expect("the digest of the file").to_owned();
    let kept = sized["files"].as_array().expect("files").iter().find(|file| file["name"] == "rules/pipelines/noise/same.yaml");
    assert_eq!(kept.expect("the file")["digest"], digest.as_str());
    assert_eq!((&sized["definition_changes"], &sized["policy"]["commit"]), (&json!([]), &json!(head)));

    let folder = fixture.root().join("learned").display().to_string();
    gate(&fixture, "sized", 2, &["--baseline", "main", "--to", &folder]).success();
    let replay = |file: String| fixture.assay(&["gate", "--replay", &file]);
    replay(format!("{folder}/latency/verdict.json")).success();

    // The target branch decides the number of pairs: a pull request that brings another noise file measures something else.
    let kept = fs::read_to_string(&file).expect("read");
    fixture.git(&["checkout", "--quiet", "-b", "quieter"]);
    fixture.write("pipelines/noise/same.yaml", &kept.replace("launches: 5", "launches: 500"));
    fixture.commit("quieter");
    run(&fixture, "same", "quieter", "quieter");
    fixture.git(&["checkout", "--quiet", "main"]);
    let quieter = verdict(&fixture, "quieter", 3, "main", 41);
    assert_eq!(
        (&quieter["definition_changes"][0]["what"], &quieter["blocks"]),
        (&json!("pipelines/noise/same.yaml"), &json!(true))
    );

    // Noise that was learned later is not evidence: the same run is decided again, at the same look.
    fixture.write("pipelines/noise/same.yaml", &kept.replace("launches: 5", "launches: 6"));
    fixture.commit("learned again");
    let again = verdict(&fixture, "sized", 2, "main", 41);
    assert_eq!((&again["sequence"]["look"], again["learned"] == sized["learned"]), (&json!(1), false));
    assert_eq!(again["definition_changes"][0]["what"], "pipelines/noise/same.yaml", "and it was sized by what was known before");

    // A repeated run counts once, and the noise of another pipeline or of other work is refused.
    let repeated = ["--run", "night-1", "--run", "night-1", "--run", "night-1", "--run", "night-1", "--run", "night-1"];
    noise(&repeated).refuses(2, "too_few_runs");
    fixture.write("pipelines/noise/same.yaml", &kept.replace("name: \"same\"", "name: other"));
    assert!(fixture.assay(&["plan", "pipelines/same.yaml"]).exits(10).stderr.contains("this is the noise of `other`"));
    fixture.write("pipelines/noise/same.yaml", &kept.replace("work: \"", "work: \"0000"));
    let refused = fixture.assay(&["plan", "pipelines/same.yaml"]).exits(10);
    assert!(refused.stderr.contains("pipelines/noise/same.yaml"), "{}", refused.stderr);
    fixture.assay(&["validate"]).exits(10);
}

/// The measured definitions come from the pull request: it does not pass by measuring something else.
#[test]
fn a_pull_request_that_measures_less_does_not_pass() {
    let fixture = judged_fixture();
    run(fixture, "same", "less", "measures-less");
    let less = verdict(fixture, "less", 70, "main", 41);
    assert_eq!(less["definition_changes"][0]["what"], "workloads/answer/workload.yaml");
    assert_eq!(less["reasons"][0]["code"], "definitions");
    run(fixture, "slow", "sides", "other-sides");
    let sides = verdict(fixture, "sides", 71, "main", 40);
    let changed: Vec<_> =
        sides["definition_changes"].as_array().expect("changes").iter().map(|change| change["what"].clone()).collect();
    assert_eq!(changed, [json!("comparison"), json!("variants")]);
    assert_eq!(verdict(fixture, "less", 72, "measures-less", 0)["definition_changes"], json!([]), "once it is merged it passes");
}
