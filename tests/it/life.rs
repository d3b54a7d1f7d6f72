//! The life of a run: resumed, refused, locked, stopped, failed, and always listed.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::pipeline::{list, text};
use crate::support::{
    CommandResult, Fixture, PIPELINE, Pointer, Running, binary, blob, files_under, indicator_output, pipeline, script,
    steady_script, wait_until, write_file,
};

/// A repository whose only indicator signals its start, and waits until it may end.
struct BlockedRun {
    fixture: Fixture,
    begun: PathBuf,
    open: PathBuf,
}

impl BlockedRun {
    fn new() -> Self {
        let fixture = Fixture::bare();
        let [begun, open] = ["begun", "open"].map(|name| fixture.root().join(name));
        let body = format!(
            "echo $$ >> '{}'\nuntil [ -e '{}' ]; do sleep 0.01; done\necho '{}'",
            begun.display(),
            open.display(),
            indicator_output("only", "1")
        );
        fixture.indicator("only", &script(&body), "");
        fixture.write(PIPELINE, &pipeline("exploratory", &["only"], 2, ""));
        fixture.commit("an indicator that waits");
        Self { fixture, begun, open }
    }

    /// Starts the run and waits until its script has begun.
    fn start(&self, run_id: &str) -> Running {
        let mut command = self.fixture.command(std::path::Path::new("/usr/bin/env"));
        // Tests may have been started under `nohup`.
        command.arg("--default-signal=HUP").arg(binary("assay")).args(["run", PIPELINE, "--run-id", run_id]);
        let running = Fixture::spawn_command(command);
        self.wait_for_script();
        running
    }

    fn wait_for_script(&self) {
        wait_until("the script begins", || self.begun.exists());
    }

    /// Starts the run and stops it while its script waits.
    fn stop(&self, run_id: &str, signal: Signal) -> CommandResult {
        let running = self.start(run_id);
        running.signal(signal);
        let ran = running.finish();
        let _ = fs::remove_file(&self.begun);
        ran
    }

    fn unblock(&self) {
        fs::write(&self.open, b"").expect("the gate opens");
    }
}

#[test]
fn a_finished_run_prints_its_result_again() {
    let fixture = Fixture::new();
    let first = fixture.run("one").success();
    let pointers = |stage: &str| fixture.pointers("one", stage);
    let before = pointers("execute");
    fs::remove_dir_all(fixture.published("one")).expect("it was published");
    let again = fixture.run("one").success();
    assert_eq!(again.stdout, first.stdout);
    assert_eq!(again.stderr, "`one` is finished: nothing was measured, and its result is shown again\n", "no stage runs");
    assert_eq!(pointers("execute"), before);
    assert!(fixture.published("one").join("report.html").is_file(), "the published folder is there again");
}

/// The times are the driver's word: they are shown where details are, they prove nothing, and nothing rests on them.
#[test]
fn a_run_shows_where_its_time_went() {
    let fixture = Fixture::bare();
    fixture.indicator("only", &steady_script("only"), "");
    fixture.write(PIPELINE, &pipeline("exploratory", &["only"], 1, ""));
    fixture.commit("an indicator");
    let ran = fixture.run("one").success();
    assert!(ran.stderr.contains("  took "), "progress ends with the sum: {}", ran.stderr);
    assert!(!ran.stdout.contains("Where the time went"), "the first screen has no table: {}", ran.stdout);
    let all = fixture.assay(&["show", "one", "--all"]).success();
    assert!(
        all.stdout.contains("Where the time went, as the run's driver saw it by its own clock. It is not signed"),
        "{}",
        all.stdout
    );
    let times = |run: &CommandResult| run.json()["times"].clone();
    let first = times(&fixture.assay(&["show", "one", "--json"]).success());
    assert_eq!(first["signed"], json!(false));
    let stages: Vec<_> = list(&first["drivers"][0]["stages"]).iter().map(|stage| text(&stage["stage"])).collect();
    assert_eq!(stages, ["plan", "provision", "record", "execute", "collect", "reduce", "publish"]);
    for stage in list(&first["drivers"][0]["stages"]) {
        assert!(stage["working_ns"].is_u64() && stage.get("waiting_ns").is_none(), "no pod waits on one machine: {stage}");
    }

    // A copy has them, too.
    let copy = fixture.root().join("copy").display().to_string();
    fixture.assay(&["fetch", "one", "--store", &fixture.store().display().to_string(), "--to", &copy]).success();
    assert_eq!(times(&fixture.assay(&["show", "one", "--json", "--store", &copy]).success()), first);

    let kept = fixture.store().join("times/one/000000");
    fs::write(&kept, "damaged").expect("written");
    assert_eq!(times(&fixture.assay(&["show", "one", "--json"]).success())["drivers"], json!([]));
    fixture.assay(&["verify", "one"]).success();
}

#[test]
fn a_run_id_is_bound_to_its_source() {
    let fixture = Fixture::new();
    fixture.run("one").success();
    fixture.indicator("first", &steady_script("other"), "");
    insta::assert_snapshot!(fixture.format_result(&fixture.run("one")), @"
    exit code 2
    ----- stdout: nothing -----
    ----- stderr -----
    error[other_source]: the run `one` was started from another source

    hint: a run is resumed from the same commit and files, and `assay bench` with the same options; to start a new run, write `--run-id one-2`, or leave `--run-id` out
    ");
    fixture.commit("another source");
    fixture.run("one").refuses(2, "other_source");
    fixture.assay(&["run", PIPELINE, "--run-id", "one", "--commit", "HEAD~1"]).success();
    fixture.verify("one").success();
}

#[test]
fn one_assay_at_a_time_drives_a_run() {
    let gate = BlockedRun::new();
    let first = gate.start("one");
    insta::assert_snapshot!(gate.fixture.format_result(&gate.fixture.run("one")), @"
    exit code 30
    ----- stdout: nothing -----
    ----- stderr -----
    error[run_locked]: another `assay` is driving the run `one`

    hint: wait for it to end; a run has one driver at a time
    ");
    gate.unblock();
    first.finish().success();
    gate.fixture.verify("one").success();
    assert_eq!(gate.fixture.pointers("one", "ends"), [], "the refused one is no end of the run");
}

#[test]
fn a_run_that_is_driven_can_be_looked_at() {
    let gate = BlockedRun::new();
    let running = gate.start("one");
    let listed = gate.fixture.assay(&["runs", "--json"]).success().json();
    assert_eq!(text(&listed[0]["state"]), "unfinished after provision");
    let refused = gate.fixture.verify("one").refuses(21, "run_incomplete");
    assert!(refused.stderr.contains("is in progress") && refused.stderr.contains("driving it now"), "{}", refused.stderr);
    assert!(refused.stderr.contains("its last finished stage is provision"), "{}", refused.stderr);
    let judged = gate.fixture.assay(&["gate", "one", "--policy", PIPELINE]).refuses(21, "run_incomplete");
    assert!(judged.stderr.contains("run `one` has no summary yet, so it cannot be judged"), "{}", judged.stderr);
    gate.fixture.assay(&["show", "one"]).refuses(2, "not_published");
    gate.unblock();
    running.finish().success();
}

/// The lists name the same stage, whether or not its recording was still signed.
#[test]
fn a_killed_run_has_come_as_far_in_every_list() {
    let gate = BlockedRun::new();
    gate.stop("killed", Signal::KILL);
    gate.unblock();
    let listed = gate.fixture.assay(&["runs", "--json"]).success().json();
    assert_eq!(text(&listed[0]["state"]), "unfinished after provision");
    let refused = gate.fixture.verify("killed").refuses(21, "run_incomplete");
    assert!(refused.stderr.contains("its last finished stage is provision"), "{}", refused.stderr);
}

#[test]
fn a_stopped_run_says_so_and_is_resumed() {
    for (run_id, signal) in [("interrupted", Signal::INT), ("terminated", Signal::TERM), ("hung-up", Signal::HUP)] {
        let gate = BlockedRun::new();
        let fixture = &gate.fixture;
        gate.stop(run_id, signal).refuses(50, "cancelled");
        assert_eq!(fixture.leftovers(), [""; 0], "nothing is left running");
        assert_eq!(files_under(&fixture.scratch()).len(), 0, "nothing is left in the scratch folder");

        let [end] = &fixture.pointers(run_id, "ends")[..] else { panic!("one end") };
        let end: Value = end.load(&fixture.store());
        assert_eq!((text(&end["body"]["state"]), text(&end["body"]["stage"])), ("cancelled", "execute"));
        assert_eq!((text(&end["body"]["reason"]["code"]), &end["body"]["exit_code"]), ("cancelled", &json!(50)));
        assert_eq!(fixture.pointers(run_id, "execute").iter().filter(|pointer| is_result(pointer)).count(), 0);
        let refused = fixture.verify(run_id).refuses(21, "ended_early");
        assert!(refused.stderr.contains("the run was cancelled in execute"), "{}", refused.stderr);
        fixture.assay(&["gate", run_id, "--policy", PIPELINE]).refuses(21, "ended_early");
        let listed = fixture.assay(&["runs", "--json"]).success().json();
        assert_eq!(text(&listed[0]["state"]), "cancelled in execute (cancelled)");

        gate.unblock();
        fixture.run(run_id).success();
        fixture.verify(run_id).success();
        assert_eq!(attempts(fixture, run_id), ["cancelled", "completed", "completed"]);
        assert_eq!(fixture.leftovers(), [""; 0]);
    }
}

/// A run that was started to outlive its terminal, as `nohup` starts it, is not stopped when the terminal closes.
#[test]
fn a_run_that_ignores_a_closed_terminal_goes_on() {
    let gate = BlockedRun::new();
    let mut command = gate.fixture.command(std::path::Path::new("/bin/sh"));
    let assay = binary("assay").display().to_string();
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", &assay, "run", PIPELINE, "--run-id", "one"]);
    let running = Fixture::spawn_command(command);
    gate.wait_for_script();
    running.signal(Signal::HUP);
    gate.unblock();
    running.finish().success();
    gate.fixture.verify("one").success();
}

/// Returns true if the pointer is an accepted result, and not a checkpoint.
fn is_result(pointer: &Pointer) -> bool {
    pointer.path.components().any(|part| part.as_os_str() == "accepted")
}

fn attempts(fixture: &Fixture, run_id: &str) -> Vec<String> {
    let part = fixture.manifest(run_id, "execute");
    list(&part["body"]["attempts"]).iter().map(|attempt| text(&attempt["status"]).to_owned()).collect()
}

#[test]
fn a_run_can_be_stopped_more_than_once() {
    let gate = BlockedRun::new();
    for count in 1..=2 {
        gate.stop("one", Signal::INT).refuses(50, "cancelled");
        assert_eq!(gate.fixture.pointers("one", "ends").len(), count);
    }
    gate.unblock();
    gate.fixture.run("one").success();
    let verified = gate.fixture.verify("one").success();
    assert_eq!(verified.stdout.matches("run_end").count(), 2, "its ends are part of its chain:\n{}", verified.stdout);
}

#[test]
fn a_checkpoint_that_was_tampered_with_is_not_resumed_from() {
    let gate = BlockedRun::new();
    let fixture = &gate.fixture;
    gate.stop("one", Signal::INT).exits(50);
    let checkpoints = checkpoints(fixture);
    let [checkpoint] = &checkpoints[..] else { panic!("one checkpoint: {checkpoints:?}") };
    gate.unblock();
    let path = blob(&fixture.store(), &checkpoint.manifest);
    let whole = fs::read(&path).expect("the checkpoint");
    write_file(&path, &crate::tamper::flip_bit(&whole));
    fixture.run("one").refuses(20, "artifact_corrupt");
    write_file(&path, &whole);
    // Another signed manifest of the same run is not a checkpoint.
    let plan = fixture.pointer("one", "plan");
    let own = checkpoint.clone();
    own.redirect(&plan.manifest, &plan.bundle);
    fixture.run("one").exits(20);
    own.redirect(&own.manifest, &own.bundle);
    fixture.run("one").success();
    fixture.verify("one").success();
}

/// Returns the checkpoints of execute.
fn checkpoints(fixture: &Fixture) -> Vec<Pointer> {
    let files = files_under(&fixture.store().join("runs/one/execute")).into_iter();
    let trials = files.filter(|path| path.components().any(|part| part.as_os_str() == "trials"));
    trials.filter(|path| path.extension().is_none()).map(|path| Pointer::read(&path)).collect()
}

#[test]
fn an_accepted_result_that_was_replaced_is_not_built_upon() {
    let gate = BlockedRun::new();
    let fixture = &gate.fixture;
    for run_id in ["one", "two"] {
        gate.stop(run_id, Signal::INT).exits(50);
    }
    gate.unblock();
    let (own, other) = (fixture.pointer("one", "plan"), fixture.pointer("two", "plan"));
    own.redirect(&other.manifest, &other.bundle);
    fixture.run("one").refuses(20, "other_result");
    let environment = fixture.pointer("one", "provision");
    own.redirect(&environment.manifest, &environment.bundle);
    fixture.run("one").refuses(20, "other_result");
    own.redirect(&own.manifest, &other.bundle);
    fixture.run("one").refuses(20, "subject_digest_mismatch");
    own.redirect(&own.manifest, &own.bundle);
    fixture.run("one").success();
}

#[test]
fn a_failed_run_is_resumed_once_its_cause_is_gone() {
    let mut fixture = needs_secret();
    let failed = fixture.run("one").refuses(30, "secret_absent");
    assert!(failed.stderr.contains("execute: the variable `TOKEN`"), "{}", failed.stderr);
    let [end] = &fixture.pointers("one", "ends")[..] else { panic!("one end") };
    let end = end.load(&fixture.store());
    assert_eq!((text(&end["body"]["state"]), text(&end["body"]["reason"]["code"])), ("failed", "secret_absent"));
    let refused = fixture.verify("one").refuses(21, "ended_early");
    assert!(refused.stderr.contains("the run failed in execute"), "{}", refused.stderr);

    fixture.set("SECRET_TOKEN", "here");
    fixture.run("one").success();
    fixture.verify("one").success();
    assert_eq!(attempts(&fixture, "one").iter().filter(|status| *status == "completed").count(), 3);
}

fn needs_secret() -> Fixture {
    let target = "{name: local, kind: host, env: {TOKEN: {from_env: SECRET_TOKEN}}}";
    let pipeline = pipeline("exploratory", &["only"], 3, "").replace("{name: local, kind: host}", target);
    Fixture::with_pipeline(&steady_script("only"), &pipeline)
}

#[test]
fn every_run_of_a_case_is_published_with_it() {
    let mut fixture = needs_secret();
    fixture.run("failed").refuses(30, "secret_absent");
    fixture.set("SECRET_TOKEN", "here");
    fixture.run("finished").success();
    let cancelled = BlockedRun::new();
    cancelled.stop("stopped", Signal::INT).exits(50);
    cancelled.unblock();
    cancelled.fixture.run("last").success();
    fixture.run("last").success();

    assert_eq!(listed_runs(&fixture), [("failed", "failed"), ("finished", "finished"), ("last", "this")].map(owned_pair));
    assert_eq!(listed_runs(&cancelled.fixture), [("last", "this"), ("stopped", "cancelled")].map(owned_pair));
    let report = fs::read_to_string(fixture.published("last").join("report.md")).expect("a report");
    assert!(report.contains("finished") && report.contains("failed"), "the report names them:\n{report}");
}

fn owned_pair((run_id, outcome): (&str, &str)) -> (String, String) {
    (run_id.to_owned(), outcome.to_owned())
}

/// Returns the runs that the publication of `last` lists, with their outcomes.
fn listed_runs(fixture: &Fixture) -> Vec<(String, String)> {
    let publication = fixture.manifest("last", "publish");
    let runs = list(&publication["body"]["runs"]).iter();
    runs.map(|run| owned_pair((text(&run["run_id"]), text(&run["outcome"])))).collect()
}

/// Stages get the names of their pod and node, as in a cluster: their measurements carry both, and a run that continued on another
/// node does not reach its intended grade.
#[test]
fn a_run_that_goes_on_from_another_node_says_so() {
    let mut fixture = Fixture::bare();
    let [begun, open] = ["begun", "open"].map(|name| fixture.root().join(name));
    let (begun_path, open_path) = (begun.display(), open.display());
    // The first trial ends, the second waits.
    let body = format!(
        "if [ -e '{begun_path}.first' ]; then touch '{begun_path}'; until [ -e '{open_path}' ]; do sleep 0.01; done; fi
touch '{begun_path}.first'\necho '{}'",
        indicator_output("only", "1")
    );
    fixture.indicator("only", &script(&body), "");
    fixture.write(PIPELINE, &pipeline("realism", &["only"], 3, ""));
    fixture.commit("an indicator that waits");
    let on = |fixture: &mut Fixture, node: &str| {
        let (pod, uid) = (format!("load-{node}"), format!("uid-{node}"));
        for (name, value) in
            [("ASSAY_POD", pod.as_str()), ("ASSAY_POD_UID", &uid), ("ASSAY_NODE", node), ("ASSAY_JOB_UID", "job")]
        {
            fixture.set(name, value);
        }
    };
    on(&mut fixture, "a");
    let running = fixture.spawn(&["run", PIPELINE, "--run-id", "moved"]);
    wait_until("the second trial begins", || begun.exists());
    running.signal(Signal::INT);
    running.finish().refuses(50, "cancelled");
    on(&mut fixture, "b");
    fs::write(&open, b"").expect("the gate opens");
    fixture.run("moved").success();
    for name in ["ASSAY_POD", "ASSAY_POD_UID", "ASSAY_NODE", "ASSAY_JOB_UID"] {
        fixture.unset(name);
    }

    let asked = "SELECT attempt_status AS status, node_name AS node, pod_uid AS pod, job_uid AS job FROM attempts ORDER BY trial_id, attempt";
    let asked = fixture.assay(&["query", asked, "--format", "csv"]).success().stdout;
    assert_eq!(
        asked,
        "status,node,pod,job\ncompleted,a,uid-a,job\ncancelled,a,uid-a,job\ncompleted,b,uid-b,job\ncompleted,b,uid-b,job\n"
    );
    let rows = "SELECT DISTINCT node_name, pod_uid FROM outcomes WHERE trial_id IS NULL OR valid ORDER BY 1";
    let rows = fixture.assay(&["query", rows, "--format", "csv"]).success().stdout;
    assert_eq!(rows, "node_name,pod_uid\na,uid-a\nb,uid-b\n,\n");
    let issues = fixture.manifest("moved", "reduce")["body"]["issues"].clone();
    assert!(list(&issues).iter().any(|issue| issue["code"] == "moved_load"), "{issues}");
    let grade = fixture.manifest("moved", "publish")["body"]["grade"].clone();
    assert_eq!((text(&grade["requested"]), text(&grade["given"])), ("realism", "exploratory"));
    let rules: Vec<_> = list(&grade["shortfalls"]).iter().map(|shortfall| text(&shortfall["rule"])).collect();
    assert_eq!(rules, ["moved_load"]);
    let report = fs::read_to_string(fixture.published("moved").join("report.html")).expect("a report");
    assert!(report.contains("moved_load"), "the report says so");
    // None of it depends on the machine on which reduce runs.
    fixture.verify_recomputed("moved");
}
