//! The chain without `assay`: every stage is started from its own binary, with inputs by digest and a key file.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::pipeline::text;
use crate::support::{CommandResult, Fixture, Pointer, binary, blob, files_under, link_folder, measured_fixture};

/// A store that holds the Source of a run and no result that was made from it.
pub(crate) struct Bench {
    fixture: &'static Fixture,
    folder: TempDir,
}

/// A manifest and its bundle, as a stage takes and returns them.
pub(crate) type Input = String;

impl Bench {
    /// Creates a store with the Source of the run `one`.
    pub(crate) fn new() -> (Self, Input) {
        let bench = Self::with_runs();
        for stage in ["plan", "provision", "execute", "record", "collect", "reduce", "publish"] {
            let _ = std::fs::remove_dir_all(bench.store().join("runs/one").join(stage));
        }
        // Publication here must not find the warehouse of the copied runs.
        std::fs::remove_dir_all(bench.store().join("warehouse")).expect("it was copied");
        let source = bench.accepted_pointer("one", "source").input();
        (bench, source)
    }

    /// Creates a store with the complete runs `one` and `two`.
    pub(crate) fn with_runs() -> Self {
        Self::with_runs_of(measured_fixture())
    }

    /// Creates a store with the complete runs `one` and `two` of a fixture.
    pub(crate) fn with_runs_of(fixture: &'static Fixture) -> Self {
        let bench = Self { fixture, folder: tempfile::tempdir_in(fixture.scratch()).expect("a folder for the store") };
        link_folder(fixture.finished_runs(), &bench.store());
        bench
    }

    pub(crate) fn store(&self) -> std::path::PathBuf {
        self.folder.path().join("store")
    }

    /// Returns the only accepted result of a stage.
    #[track_caller]
    pub(crate) fn accepted_pointer(&self, run_id: &str, stage: &str) -> Pointer {
        let pointers = Pointer::list(&self.store(), run_id, stage);
        assert_eq!(pointers.len(), 1, "{stage} of {run_id}: {pointers:?}");
        pointers.into_iter().next().expect("one pointer")
    }

    /// Returns the arguments of a stage of a run, with the key of this role.
    pub(crate) fn arguments(&self, run_id: &str, role: &str, inputs: &[&Input], more: &[&str]) -> Vec<String> {
        let mut arguments = vec!["--store".to_owned(), self.store().display().to_string(), "--run".to_owned(), run_id.to_owned()];
        arguments.extend(["--trust".to_owned(), self.fixture.trust().display().to_string()]);
        arguments.extend(["--key".to_owned(), self.fixture.key(role).display().to_string()]);
        arguments.extend(inputs.iter().flat_map(|input| ["--input", input].map(str::to_owned)));
        arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
        arguments
    }

    /// Runs a stage of the run `one` with its own key.
    pub(crate) fn stage(&self, stage: &str, inputs: &[&Input]) -> CommandResult {
        self.stage_with(stage, stage, inputs, &[])
    }

    /// Runs a stage of the run `one` with the key of a role.
    pub(crate) fn stage_with(&self, stage: &str, role: &str, inputs: &[&Input], more: &[&str]) -> CommandResult {
        let arguments = self.arguments("one", role, inputs, more);
        self.fixture.program(&format!("assay-{stage}"), &arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    pub(crate) fn verify(&self, more: &[&str]) -> CommandResult {
        let store = self.store().display().to_string();
        let mut arguments = vec!["verify", "one", "--store", &store];
        arguments.extend(more);
        self.fixture.assay(&arguments)
    }

    /// Runs `assay` with the bench's store.
    pub(crate) fn assay(&self, arguments: &[&str]) -> CommandResult {
        let store = self.store().display().to_string();
        self.fixture.assay(&[arguments, &["--store", &store]].concat())
    }

    /// Queries the warehouse of the store.
    pub(crate) fn query(&self, sql: &str) -> CommandResult {
        self.fixture.assay(&["query", sql, "--store", &self.store().display().to_string(), "--format", "csv"])
    }

    fn format_result(&self, ran: &CommandResult) -> String {
        let folder = self.folder.path().display().to_string();
        let talk = ran.stderr.replace(&folder, "[BENCH]");
        let ran = CommandResult { stdout: String::new(), stderr: without_log_prefix(&talk), ..ran.clone() };
        self.fixture.format_result(&ran)
    }
}

/// Removes the time from a stage's log lines.
fn without_log_prefix(text: &str) -> String {
    let line = |line: &str| match line.split_once("ERROR ") {
        Some((_, message)) => format!("ERROR {message}"),
        None => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the result that a stage accepted.
#[track_caller]
pub(crate) fn accepted_input(ran: CommandResult) -> Input {
    let ran = ran.success();
    let events = ran.events();
    let event = events.iter().find(|event| event["event"] == "accepted").expect("an accepted result");
    format!("{},{}", text(&event["result"]["manifest"]), text(&event["result"]["bundle"]))
}

#[test]
fn the_whole_chain_runs_by_hand() {
    let (bench, source) = Bench::new();
    let plan = accepted_input(bench.stage("plan", &[&source]));
    let environment = accepted_input(bench.stage("provision", &[&plan]));
    let (part, recording) = execute_with_recorder(&bench, &[&plan, &environment]);
    let collection = accepted_input(bench.stage("collect", &[&plan, &environment, &part, &recording]));
    let summary = accepted_input(bench.stage("reduce", &[&plan, &collection, &environment]));
    let chain = [&source, &plan, &environment, &part, &recording, &collection, &summary];
    let publication = accepted_input(bench.stage("publish", &chain));

    let verified = bench.verify(&["--recompute"]).success();
    assert!(verified.stdout.contains("level 4 "), "{}", verified.stdout);
    // Another order of the inputs is the same call, and at most one result of it is ever accepted.
    let mut turned = chain;
    turned.reverse();
    let again = bench.stage("publish", &turned).success();
    assert_eq!(again.events().last().expect("an event")["earlier"], true);
    assert_eq!(accepted_input(again), publication);
    assert_eq!(Pointer::list(&bench.store(), "one", "publish").len(), 1);
}

/// Runs execute with a recorder beside it; returns the execution part and the recording.
fn execute_with_recorder(bench: &Bench, inputs: &[&Input]) -> (Input, Input) {
    let mut command = bench.fixture.command(&binary("assay-collect"));
    command.arg("record").args(bench.arguments("one", "collect", inputs, &["--parameters", r#"{"sequence": 0}"#]));
    let mut recorder = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the recorder starts");
    let mut events = BufReader::new(recorder.stdout.take().expect("its events")).lines();
    let first = events.next().expect("the recorder says that it has begun").expect("UTF-8");
    assert!(first.contains("started"), "{first}");

    let part = accepted_input(bench.stage("execute", inputs));
    let pid = Pid::from_raw(i32::try_from(recorder.id()).expect("an id")).expect("an id");
    kill_process(pid, Signal::TERM).expect("the recorder is told that it is done");
    let stdout = events.map(|line| line.expect("UTF-8")).collect::<Vec<_>>().join("\n");
    let output = recorder.wait_with_output().expect("the recorder ends");
    let ran = CommandResult { stdout, ..CommandResult::from_output(output) };
    (part, accepted_input(ran))
}

#[test]
fn a_chain_without_a_recording_is_a_chain() {
    let (bench, source) = Bench::new();
    let plan = accepted_input(bench.stage("plan", &[&source]));
    let environment = accepted_input(bench.stage("provision", &[&plan]));
    let part = accepted_input(bench.stage("execute", &[&plan, &environment]));
    let collection = accepted_input(bench.stage("collect", &[&plan, &environment, &part]));
    let summary = accepted_input(bench.stage("reduce", &[&plan, &collection, &environment]));
    accepted_input(bench.stage("publish", &[&source, &plan, &environment, &part, &collection, &summary]));
    bench.verify(&[]).success();
}

#[test]
fn a_stage_says_which_inputs_it_takes() {
    let (bench, source) = Bench::new();
    let [plan, environment] = ["plan", "provision"].map(|stage| measured_fixture().pointer("one", stage).input());
    insta::assert_snapshot!(bench.format_result(&bench.stage("plan", &[])), @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    ERROR assay_stage::harness: error[input_count]: plan takes exactly one source, but was given 0

    hint: name it with `--input MANIFEST,BUNDLE`, the digests of the source and of its bundle
    ");
    insta::assert_snapshot!(bench.format_result(&bench.stage("plan", &[&plan])), @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    ERROR assay_stage::harness: error[input_count]: plan takes exactly one source, but was given 0

    hint: name it with `--input MANIFEST,BUNDLE`, the digests of the source and of its bundle
    ");
    insta::assert_snapshot!(bench.format_result(&bench.stage("plan", &[&source, &plan])), @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    ERROR assay_stage::harness: error[input_not_taken]: plan does not take a plan
    ");
    insta::assert_snapshot!(bench.format_result(&bench.stage("execute", &[&plan])), @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    ERROR assay_stage::harness: error[input_count]: execute takes exactly one environment, but was given 0

    hint: name it with `--input MANIFEST,BUNDLE`, the digests of the environment and of its bundle
    ");
    insta::assert_snapshot!(bench.format_result(&bench.stage("collect", &[&plan, &environment])), @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    ERROR assay_stage::harness: error[input_count]: collect takes at least one execution_part, but was given 0

    hint: name it with `--input MANIFEST,BUNDLE`, the digests of the execution_part and of its bundle
    ");
    let (manifest, bundle) = plan.split_once(',').expect("two digests");
    insta::assert_snapshot!(bench.format_result(&bench.stage("provision", &[&format!("{bundle},{manifest}")])), @"
    exit code 20
    ----- stdout: nothing -----
    ----- stderr -----
    ERROR assay_stage::harness: error[bundle_malformed]: the bundle is not acceptable
      because: the bundle does not parse
      because: missing field `mediaType` at line 1 column 4226
    ");
    insta::assert_snapshot!(bench.format_result(&bench.stage("provision", &[&"sha256:12".to_owned()])), @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    error: invalid value 'sha256:12' for '--input <MANIFEST,BUNDLE>': expected two digests joined by a comma: MANIFEST,BUNDLE

    For more information, try '--help'.
    ");
    let absent = format!("sha256:{0},sha256:{0}", "0".repeat(64));
    insta::assert_snapshot!(bench.format_result(&bench.stage("provision", &[&absent])), @"
    exit code 20
    ----- stdout: nothing -----
    ----- stderr -----
    ERROR assay_stage::harness: error[artifact_absent]: the store has no blob sha256:[DIGEST]
    ");
    assert_eq!(Pointer::list(&bench.store(), "one", "provision"), [], "nothing of that was accepted");
}

#[test]
fn a_stage_signs_with_its_own_key_only() {
    let (bench, source) = Bench::new();
    let source = [&source];
    insta::assert_snapshot!(bench.format_result(&bench.stage_with("plan", "execute", &source, &[])), @"
    exit code 20
    ----- stdout: nothing -----
    ----- stderr -----
    ERROR assay_stage::harness: error[wrong_signer]: the trust policy `local` does not let the key of `local-execute` sign for plan
    ");
    let unlisted = Fixture::without_keys();
    unlisted.assay(&["keys", "init", "--scrypt-n", "32768"]).success();
    let key = unlisted.key("plan").display().to_string();
    let mut arguments = bench.arguments("one", "plan", &source, &[]);
    let place = arguments.iter().position(|argument| argument == "--key").expect("a key") + 1;
    arguments[place] = key;
    let ran = bench.fixture.program("assay-plan", &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    insta::assert_snapshot!(bench.format_result(&ran), @"
    exit code 20
    ----- stdout: nothing -----
    ----- stderr -----
    ERROR assay_stage::harness: error[wrong_signer]: the trust policy `local` does not let an unlisted key sign for plan
    ");
    arguments.drain(place - 1..=place);
    let ran = bench.fixture.program("assay-plan", &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    insta::assert_snapshot!(bench.format_result(&ran), @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    ERROR assay_stage::harness: error[no_key]: plan was given no key to sign with

    hint: give the stage's key with `--key FILE` (cosign's format) or `--key-fd N`
    ");
    let before = files_under(&bench.store()).len();
    bench.stage_with("plan", "publish", &source, &[]).refuses(20, "wrong_signer");
    assert_eq!(files_under(&bench.store()).len(), before, "a refused stage leaves nothing");
}

#[test]
fn a_stage_takes_manifests_of_its_own_run_only() {
    let bench = Bench::with_runs();
    let other = bench.accepted_pointer("two", "source").input();
    insta::assert_snapshot!(bench.format_result(&bench.stage("plan", &[&other])), @"
    exit code 20
    ----- stdout: nothing -----
    ----- stderr -----
    ERROR assay_stage::harness: error[other_run]: the source belongs to run `two`, not to `one`
    ");
    let (plan, environment) = (bench.accepted_pointer("one", "plan").input(), bench.accepted_pointer("two", "provision").input());
    insta::assert_snapshot!(bench.format_result(&bench.stage("execute", &[&plan, &environment])), @"
    exit code 20
    ----- stdout: nothing -----
    ----- stderr -----
    ERROR assay_stage::harness: error[other_run]: the environment belongs to run `two`, not to `one`
    ");
}

#[test]
fn parameters_and_shards_are_read_strictly() {
    let (bench, source) = Bench::new();
    let source = [&source];
    let with = |more: &[&str]| bench.format_result(&bench.stage_with("plan", "plan", &source, more));
    insta::assert_snapshot!(with(&["--parameters", "{"]), @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    ERROR assay_stage::harness: error[parameters]: the parameters of plan cannot be read
      because: EOF while parsing an object at line 1 column 1
    ");
    insta::assert_snapshot!(with(&["--parameters", r#"{"fetsch": true}"#]), @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    ERROR assay_stage::harness: error[parameters]: the parameters of plan cannot be read
      because: unknown field `fetsch`, expected `fetch` or `datasets`
    ");
    // Rows that were not fetched are for comparing a Plan, and never for one that is signed.
    let datasets = format!(r#"{{"datasets": {{"load": "sha256:{}"}}}}"#, "0".repeat(64));
    insta::assert_snapshot!(with(&["--parameters", &datasets]), @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    ERROR assay_stage::harness: error[parameters]: a plan that is signed fetches its datasets: `datasets` is for `--recompute`
    ");
    insta::assert_snapshot!(with(&["--shard", "1/1"]), @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    error: invalid value '1/1' for '--shard <I/N>': expected I/N with I below N, such as 0/3

    For more information, try '--help'.
    ");
}

#[test]
fn a_stage_asks_no_store_that_is_not_there() {
    let fixture = measured_fixture();
    let trust = fixture.trust().display().to_string();
    let key = fixture.key("plan").display().to_string();
    let ran = fixture.program("assay-plan", &["--store", "/nowhere/at/all", "--run", "one", "--trust", &trust, "--key", &key]);
    ran.refuses(2, "store_uri");
}

#[test]
fn every_stage_refuses_inputs_that_were_tampered_with() {
    // The inputs of each stage, by the stage that made them.
    let takes: [(&str, &[&str]); 6] = [
        ("plan", &["source"]),
        ("provision", &["plan"]),
        ("execute", &["plan", "provision"]),
        ("collect", &["plan", "provision", "execute", "record"]),
        ("reduce", &["plan", "collect", "provision"]),
        ("publish", &["source", "plan", "provision", "execute", "record", "collect", "reduce"]),
    ];
    for (stage, inputs) in takes {
        for tampered in inputs {
            check_tampered_input(stage, inputs, tampered);
        }
    }
}

fn check_tampered_input(stage: &str, inputs: &[&str], tampered: &str) {
    let bench = Bench::with_runs();
    // Without its accepted result, the stage has to do the work.
    std::fs::remove_dir_all(bench.store().join("runs/one").join(stage)).expect("the stage has a result");
    let named = |changed: Option<&Pointer>| -> Vec<Input> {
        inputs
            .iter()
            .map(|input| {
                changed.filter(|_| input == &tampered).cloned().unwrap_or_else(|| bench.accepted_pointer("one", input)).input()
            })
            .collect()
    };
    let (own, other) = (bench.accepted_pointer("one", tampered), bench.accepted_pointer("two", tampered));
    let what = |how: &str| format!("{stage} with {how} of {tampered}");
    let check = |how: &str, changed: &Pointer, error: &str| {
        let inputs = named(Some(changed));
        let ran = bench.stage(stage, &inputs.iter().collect::<Vec<_>>());
        assert_eq!((ran.code, ran.error().as_deref()), (20, Some(error)), "{}:\n{}", what(how), ran.stderr);
    };
    check("another run's bundle", &Pointer { bundle: other.bundle.clone(), ..own.clone() }, "subject_digest_mismatch");
    check("another run's manifest", &Pointer { manifest: other.manifest.clone(), ..own.clone() }, "subject_digest_mismatch");
    check("another run's manifest and bundle", &other, "other_run");
    for digest in [&own.manifest, &own.bundle] {
        let path = blob(&bench.store(), digest);
        let whole = std::fs::read(&path).expect("the blob is there");
        crate::support::write_file(&path, &crate::tamper::flip_bit(&whole));
        check("a flipped byte", &own, "artifact_corrupt");
        std::fs::remove_file(&path).expect("the blob can be removed");
        check("a lost blob", &own, "artifact_absent");
        crate::support::write_file(&path, &whole);
    }
    // With unchanged inputs the same call succeeds: only the change was the reason for the refusal.
    if stage != "execute" {
        bench.stage(stage, &named(None).iter().collect::<Vec<_>>()).success();
    }
}

#[test]
fn reduce_refuses_raw_evidence_that_was_tampered_with() {
    let bench = Bench::with_runs();
    std::fs::remove_dir_all(bench.store().join("runs/one/reduce")).expect("the stage has a result");
    let part: Value = bench.accepted_pointer("one", "execute").load(&bench.store());
    let raw = blob(&bench.store(), text(&part["body"]["attempts"][0]["evidence"][0]["digest"]));
    let whole = std::fs::read(&raw).expect("raw output");
    crate::support::write_file(&raw, String::from_utf8_lossy(&whole).replace("100.25", "900.25").as_bytes());
    let inputs = ["plan", "collect", "provision"].map(|stage| bench.accepted_pointer("one", stage).input());
    bench.stage("reduce", &inputs.each_ref()).refuses(20, "artifact_corrupt");
}
