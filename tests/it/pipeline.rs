//! A run from its commit to its numbers: what is recorded, in which order, and the handling of programs that misbehave.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use assay_manifest::Summary;
use assay_warehouse::{OUTCOME_FACT, ROW_ID, Row, Value as Cell};
use serde_json::{Value, json};

use crate::support::{
    CommandResult, Fixture, PIPELINE, Pointer, blob, copy_folder, files_under, indicator_output, measured_fixture, pipeline,
    script, steady_script, write_file,
};

/// Controls that a person declares, as lines of a pipeline's `spec`.
pub(crate) const DECLARED_CONTROLS: &str = "  controls:
    dedicated_nodes: {declare: nothing else is installed}
    fixed_topology: {declare: one machine}
    locked_clocks: {declare: the governor is set by hand}
    stable_background: {declare: no other user}
";

/// A claim, as lines of a pipeline's `spec`.
pub(crate) const CLAIM: &str = "  claim:
    methodology: a script that prints constants
    representative: false
    statement: Stands for nothing but the chain itself.
";

#[test]
fn stages_and_trials_run_in_their_order() {
    let fixture = Fixture::bare();
    let trace = fixture.root().join("trace");
    let body = format!("echo \"${{HOME##*/trial-}}\" >> '{}'\necho '{}'", trace.display(), indicator_output("traced", "[1]"));
    for name in ["first", "second"] {
        fixture.indicator(name, &script(&body), "");
    }
    let prepare = format!("  prepare: {{command: [sh, -c, \"echo prepare >> {}\"]}}\n", trace.display());
    fixture.indicator("second", &script(&body), &prepare);
    fixture.write(PIPELINE, &pipeline("exploratory", &["first", "second"], 3, ""));
    fixture.commit("traced indicators");
    fixture.run("one").success();

    let plan = fixture.manifest("one", "plan");
    let planned: Vec<_> = list(&plan["body"]["trials"]).iter().map(|trial| format!("{}-0", text(&trial["trial_id"]))).collect();
    let invoked = fs::read_to_string(&trace).expect("the scripts have run");
    let (prepared, trials): (Vec<_>, Vec<_>) = invoked.lines().partition(|line| *line == "prepare");
    assert_eq!(trials, planned, "trials run in the plan's order, each once");
    assert_eq!(prepared.len(), 1, "a preparation runs once");
    let first_of_second = trials.iter().position(|trial| trial.starts_with("second")).expect("trials of `second`");
    let preparation = invoked.lines().position(|line| line == "prepare").expect("one preparation");
    assert!(preparation <= first_of_second, "a preparation runs before the first trial of its workload");

    assert_eq!(
        kinds_by_time(&fixture.assay(&["verify", "one", "--json"]).success().json()),
        ["source", "plan", "environment", "execution_part", "collection", "summary", "publication"],
        "the asserted times of the manifests follow the chain"
    );
    let part = fixture.manifest("one", "execute");
    let windows: Vec<_> = list(&part["body"]["attempts"]).iter().map(|attempt| &attempt["window"]).collect();
    assert!(windows.windows(2).all(|pair| text(&pair[0]["end"]) <= text(&pair[1]["start"])), "trials are serial: {windows:#?}");
}

/// Returns the kinds of manifests in the order of the times that their statements assert, without the recording, which is made
/// meanwhile.
fn kinds_by_time(verified: &Value) -> Vec<String> {
    let manifests = list(&verified["manifests"]);
    let mut kinds: Vec<_> = manifests.iter().map(|one| (text(&one["time_asserted"]), text(&one["input"]["kind"]))).collect();
    kinds.retain(|(_, kind)| *kind != "recording");
    kinds.sort_unstable();
    kinds.into_iter().map(|(_, kind)| kind.to_owned()).collect()
}

#[test]
fn published_numbers_are_those_of_the_rows_and_of_the_scripts() {
    let fixture = measured_fixture();
    let folder = fixture.published("one");
    let numbers: Value = serde_json::from_slice(&fs::read(folder.join("numbers.json")).expect("numbers.json")).expect("JSON");
    let rows = outcome_rows(&folder);
    let numbers = list(&numbers["numbers"]);
    // Two points with median, mean, min, max, sd and cv each; three trials give no interval.
    assert_eq!(numbers.len(), 2 * 6);
    for number in numbers {
        let address: Vec<_> = text(&number["address"]).split('/').collect();
        let ["one", "outcome_fact", digits, "value"] = address[..] else { panic!("{address:?}") };
        let found: Vec<_> = rows.iter().filter(|row| row.text(ROW_ID).is_some_and(|id| id.starts_with(digits))).collect();
        let [row] = found[..] else { panic!("{} rows begin with {digits}", found.len()) };
        assert_eq!(row.get("value"), Some(&Cell::Float(number["value"].as_f64().expect("a number"))));
        for (column, field) in [("metric", "metric"), ("statistic", "statistic"), ("unit", "unit"), ("point_id", "point_id")] {
            assert_eq!(row.text(column), Some(text(&number[field])), "{column}");
        }
    }
    let medians: Vec<_> =
        numbers.iter().filter(|number| number["statistic"] == "median").map(|number| &number["value"]).collect();
    assert_eq!(medians, [100.25, 100.25], "the median of 100.25, 101.5 and 99.75, three times over");
    // The scripts' own samples are rows as well.
    let samples = rows.iter().filter(|row| row.text("trial_id").is_some()).count();
    assert!(samples >= 2 * 3, "each trial has rows of its own: {samples}");
}

fn outcome_rows(folder: &Path) -> Vec<Row> {
    let bytes = fs::read(folder.join("rows/outcome_fact.parquet")).expect("the curated file");
    assay_warehouse::read(&OUTCOME_FACT, bytes).expect("a curated file")
}

#[test]
fn every_curated_table_of_a_run_reads_back() {
    let fixture = measured_fixture();
    let summary = fixture.manifest("one", "reduce");
    let mut tables = BTreeSet::new();
    for file in list(&summary["body"]["files"]) {
        let name = text(&file["table"]);
        let table = assay_warehouse::table(name).expect("a table of the warehouse");
        let bytes = fs::read(blob(&fixture.store(), text(&file["artifact"]["digest"]))).expect("the file is in the store");
        let rows = assay_warehouse::read(table, bytes).expect("a curated file");
        assert_eq!(rows.len().to_string(), text(&file["rows"]), "{name}");
        tables.insert(name.to_owned());
    }
    let expected = [
        "artifact_lineage_dim",
        "attempt_fact",
        "benchmark_run_fact",
        "cluster_region_dim",
        "hardware_topology_dim",
        "outcome_fact",
        "software_version_dim",
        "workload_dim",
    ];
    // Trials this short have a row only if the recorder sampled during one of them.
    tables.remove("telemetry_slice_fact");
    assert_eq!(tables, expected.map(str::to_owned).into());
}

#[test]
fn plans_of_runs_of_one_commit_differ_in_their_order_alone() {
    let fixture = measured_fixture();
    assert_ne!(fixture.pointer("one", "plan").manifest, fixture.pointer("two", "plan").manifest, "the manifests name their runs");
    let plan = |run_id: &str| fixture.manifest(run_id, "plan")["body"].clone();
    assert_ne!(plan("one")["order"], plan("two")["order"]);
    assert_eq!(without_order(plan("one")), without_order(plan("two")));
}

/// Returns the body of a Plan with its trials in the order of their names.
pub(crate) fn without_order(mut plan: Value) -> Value {
    plan.as_object_mut().expect("a body").remove("order");
    let trials = plan["trials"].as_array_mut().expect("trials");
    trials.sort_by_key(|trial| trial["trial_id"].to_string());
    plan
}

#[test]
fn reduce_gives_the_same_bytes_again() {
    let fixture = measured_fixture();
    fixture.verify_recomputed("one");

    let again = |number: u32| {
        let output = fixture.root().join(format!("again-{number}")).display().to_string();
        recompute_digest(fixture, &output)
    };
    let signed = fixture.pointer("one", "reduce").manifest;
    assert_eq!([again(1), again(2)], [signed.clone(), signed], "the manifest that was signed, twice");
}

/// Runs reduce by hand into a separate store and returns the digest of the recomputed manifest.
fn recompute_digest(fixture: &Fixture, output: &str) -> String {
    let summary = fixture.manifest("one", "reduce");
    let inputs = list(&summary["header"]["inputs"]).iter();
    let inputs: Vec<_> = inputs.map(|input| format!("{},{}", text(&input["manifest"]), text(&input["bundle"]))).collect();
    let (store, trust) = (fixture.store().display().to_string(), fixture.trust().display().to_string());
    let mut arguments = vec!["--store", &store, "--run", "one", "--trust", &trust, "--recompute", output];
    arguments.extend(inputs.iter().flat_map(|input| ["--input", input]));
    let events = fixture.program("assay-reduce", &arguments).success().events();
    let event = events.iter().find(|event| event["event"] == "recomputed").expect("a result that was computed again");
    text(&event["manifest"]).to_owned()
}

#[test]
fn what_machines_read_names_every_manifest() {
    let fixture = Fixture::new();
    let ran = fixture.assay(&["run", PIPELINE, "--run-id", "one", "--json"]).success();
    let json = ran.json();
    assert_eq!((text(&json["run_id"]), text(&json["pipeline"]), text(&json["status"])), ("one", "fixture", "succeeded"));
    assert_eq!(json["grade"]["given"], "exploratory");
    let kinds: Vec<_> = list(&json["manifests"]).iter().map(|manifest| text(&manifest["kind"])).collect();
    let expected = ["source", "plan", "environment", "execution_part", "recording", "collection", "summary", "publication"];
    assert_eq!(kinds, expected);
    assert_eq!(Path::new(text(&json["folder"])), fixture.published("one").canonicalize().expect("the published folder"));
    assert_eq!(summary(&json["summary"]), summary(&fixture.manifest("one", "reduce")["body"]));
    assert_eq!(list(&json["numbers"]).len(), 2 * 6);
}

fn summary(body: &Value) -> Summary {
    serde_json::from_value(body.clone()).expect("the body of a summary")
}

#[test]
fn a_run_that_cannot_be_read_is_listed_as_such_and_hides_no_other() {
    let fixture = Fixture::new();
    fixture.run("one").success();
    fixture.run("two").success();
    let (one, two) = (fixture.pointer("one", "source"), fixture.pointer("two", "source"));
    two.redirect(&one.manifest, &one.bundle);
    let listed = fixture.assay(&["runs"]).refuses(20, "pointer_elsewhere");
    assert!(listed.stderr.contains("run `two`: "), "{}", listed.stderr);
    let states: Vec<_> =
        listed.stdout.lines().filter_map(|line| line.split_once(' ')).map(|(run, rest)| (run, rest.trim())).collect();
    assert!(states.iter().any(|(run, rest)| *run == "one" && rest.ends_with("published")), "{}", listed.stdout);
    assert!(
        states.iter().any(|(run, rest)| *run == "two" && rest.ends_with("unreadable (pointer_elsewhere)")),
        "{}",
        listed.stdout
    );
}

#[test]
fn a_published_folder_that_holds_other_files_is_left_as_it_is() {
    let fixture = Fixture::new();
    fixture.run("one").success();
    let before = fs::read(fixture.published("one").join("chain/publication.json")).expect("a publication");
    let elsewhere = fixture.root().join("elsewhere").display().to_string();
    let again = fixture.assay(&["run", PIPELINE, "--run-id", "one", "--store", &elsewhere]).success();
    assert!(again.stderr.contains("published/one` holds other files, and was left as it is"), "{}", again.stderr);
    assert_eq!(fs::read(fixture.published("one").join("chain/publication.json")).expect("still there"), before);
    let report = again.stdout.lines().find_map(|line| line.strip_prefix("report ")).expect("where its report is");
    assert!(report.contains("/published/one-"), "{report}");
    // The same run is written to the same folder again.
    let same = fixture.run("one").success();
    assert!(same.stdout.contains("/published/one/report.html"), "{}", same.stdout);
    // A folder of the user's is left alone.
    let mine = fixture.published("mine").join("data/notes");
    crate::support::write_file(&mine, b"gold");
    let beside = fixture.run("mine").success();
    assert!(beside.stderr.contains("published/mine` holds other files, and was left as it is"), "{}", beside.stderr);
    assert_eq!(fs::read(&mine).expect("still there"), b"gold");
}

#[test]
fn runs_are_listed_and_shown() {
    let fixture = measured_fixture();
    let table = fixture.assay(&["runs"]).success().stdout;
    let lines: Vec<&str> = table.lines().collect();
    let [header, rows @ ..] = &lines[..] else { panic!("a header") };
    let titles: Vec<&str> = header.split("  ").map(str::trim).filter(|title| !title.is_empty()).collect();
    assert_eq!(titles, ["RUN", "BEGUN (UTC)", "PIPELINE", "COMMIT", "MODEL", "ENDPOINT", "HEADLINE", "STATE"]);
    assert_eq!(rows.len(), 2, "{table}");
    for (row, run) in rows.iter().zip(["one", "two"]) {
        let cells: Vec<&str> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        let [name, _, pipeline, _, model, endpoint, headline, state] = cells[..] else { panic!("{row}") };
        assert_eq!([name, pipeline, model, endpoint, state], [run, "pipelines/fixture.yaml", "-", "-", "published"], "{row}");
        assert!(headline.starts_with("speed "), "{row}");
    }
    let listed = fixture.assay(&["runs", "--json"]).success().json();
    assert_eq!(list(&listed).len(), 2);
    assert_eq!(listed[0]["state"], "published");
    // The headline figure is the number of the report's first sentence, and can be traced.
    let figure = &listed[0]["headline"];
    assert_eq!((&listed[0]["models"], &listed[0]["endpoints"]), (&json!([]), &json!([])), "indicators have neither");
    assert!(figure["value"].as_f64().is_some_and(|value| value > 0.0) && figure["metric"] == "speed", "{figure}");
    let traced = fixture.assay(&["trace", text(&figure["address"]), "--json"]).success().json();
    assert_eq!((&traced["value"], &traced["unit"]), (&figure["value"], &figure["unit"]), "{traced:#}");
    let first_screen = fixture.assay(&["show", "one"]).success().stdout;
    assert!(first_screen.starts_with("Complete: all 6 trials count.\n") && first_screen.lines().count() <= 40, "{first_screen}");
    for expected in ["first on local: speed", "second on local: speed", "Exploratory grade, as intended"] {
        assert!(first_screen.contains(expected), "it lacks {expected}:\n{first_screen}");
    }
    for arguments in [&["show", "one", "--all"], &["show", "one", "--markdown"]] {
        let shown = fixture.assay(arguments).success();
        for expected in ["first.local.default", "second.local.default", "speed", "exploratory"] {
            assert!(shown.stdout.contains(expected), "{arguments:?} lacks {expected}:\n{}", shown.stdout);
        }
    }
    let published = fixture.published("one").display().to_string();
    let [of_folder, of_store] = [&published, "one"].map(|named| fixture.assay(&["show", named, "--all"]).success().stdout);
    let of_folder = of_folder.replace(&format!("assay verify {published}"), "assay verify one");
    let (of_store, times) = of_store.split_once("Where the time went").expect("only the store has the times of the driver");
    assert!(times.contains("execute 0-0") && times.contains("working"), "{times}");
    let of_folder = of_folder.replace(&format!(" --from {published}"), "");
    assert_eq!(of_folder.trim_end(), of_store.trim_end(), "they differ in where their commands look");
}

#[test]
fn a_number_is_traced_to_its_samples_and_its_commit() {
    let fixture = measured_fixture();
    let numbers = fs::read(fixture.published("one").join("numbers.json")).expect("numbers.json");
    let numbers: Value = serde_json::from_slice(&numbers).expect("JSON");
    let address = text(&numbers["numbers"][0]["address"]);
    let traced = fixture.assay(&["trace", address, "--recompute", "--json"]).success().json();
    assert_eq!(traced["value"].as_f64(), numbers["numbers"][0]["value"].as_f64());
    assert_eq!(traced["recomputed"]["same"], true);
    assert_eq!(list(&traced["trials"]).len(), 3);
    assert_eq!(traced["trials"][0]["samples"], serde_json::json!([100.25, 101.5, 99.75]));
    assert_eq!(text(&traced["source"]["commit"]), fixture.git(&["rev-parse", "HEAD"]).trim());

    let published = fixture.published("one").display().to_string();
    let from_folder = fixture.assay(&["trace", address, "--from", &published]).success();
    assert!(from_folder.stdout.contains("raw samples are not here"), "{}", from_folder.stdout);
}

#[test]
fn an_older_commit_runs_as_it_was() {
    let fixture = Fixture::with_script(&script(&format!("echo '{}'", indicator_output("only", "1"))));
    let older = fixture.git(&["rev-parse", "HEAD"]).trim().to_owned();
    fixture.indicator("only", &script(&format!("echo '{}'", indicator_output("only", "2"))), "");
    fixture.commit("twice as fast");

    fixture.assay(&["run", PIPELINE, "--run-id", "older", "--commit", "HEAD~1"]).success();
    fixture.run("newer").success();
    assert_eq!([median(&fixture, "older"), median(&fixture, "newer")], ["1", "2"]);
    let source = fixture.manifest("older", "source");
    assert_eq!((text(&source["body"]["kind"]), text(&source["body"]["commit"])), ("git", older.as_str()));
    fixture.verify("older").success();
    fixture.assay(&["run", PIPELINE, "--commit", "no-such-revision"]).refuses(2, "git");
}

/// Returns the median as the manifest has it.
fn median(fixture: &Fixture, run_id: &str) -> String {
    let summary = fixture.manifest(run_id, "reduce");
    summary["body"]["points"][0]["metrics"][0]["median"].to_string()
}

#[test]
fn a_repository_is_named_by_its_folder_or_its_address() {
    let fixture = Fixture::new();
    let repository = fixture.repo().display().to_string();
    let elsewhere = fixture.root();
    fixture.assay_in(&elsewhere, &["run", PIPELINE, "--run-id", "near", "--repo", &repository]).success();
    assert!(fixture.published("near").is_dir(), "a folder's own store is used");

    let address = format!("file://{repository}");
    fixture.assay_in(&elsewhere, &["run", PIPELINE, "--run-id", "far", "--repo", &address]).success();
    let store = fixture.home().join(".local/share/assay");
    let [source] = &Pointer::list(&store, "far", "source")[..] else { panic!("one source") };
    let source = source.load(&store);
    assert_eq!(source["body"]["kind"], "git");
    assert_eq!(text(&source["body"]["commit"]), fixture.git(&["rev-parse", "HEAD"]).trim());
    fixture.assay_in(&elsewhere, &["verify", "far"]).success();
    assert!(files_under(&fixture.scratch()).is_empty(), "what was fetched is gone");
}

#[test]
fn a_store_is_named_by_its_folder() {
    let fixture = Fixture::new();
    let store = fixture.root().join("elsewhere");
    let ran = fixture.assay(&["run", PIPELINE, "--run-id", "one", "--store", "../elsewhere"]).success();
    assert!(store.join("runs/one/source").is_file() && !fixture.store().join("runs").exists());
    assert!(ran.stdout.contains("assay verify one --store "), "the printed command finds the run:\n{}", ran.stdout);
    fixture.verify("one").refuses(2, "store_uri");
    fixture.assay(&["verify", "one", "--store", "../elsewhere"]).success();
}

#[test]
fn a_dirty_work_tree_is_good_for_exploring_only() {
    let fixture = Fixture::new();
    fixture.indicator("first", &script(&format!("echo '{}'", indicator_output("first", "7"))), "");
    fixture.run("explored").success();
    let source = fixture.manifest("explored", "source");
    let body = &source["body"];
    assert_eq!((text(&body["kind"]), &body["dirty"]), ("worktree", &Value::Bool(true)));
    assert_eq!(text(&body["commit"]), fixture.git(&["rev-parse", "HEAD"]).trim());
    fixture.verify("explored").success();

    let realism = Fixture::with_pipeline(&steady_script("only"), &pipeline("realism", &["only"], 3, ""));
    realism.write("workloads/only/run.sh", "#!/bin/sh\nexit 0\n");
    let refused = realism.run("refused").refuses(10, "dirty_worktree");
    assert!(refused.stderr.contains("workloads/only/run.sh"), "{}", refused.stderr);
    realism.commit("clean again");
    realism.git(&["rm", "--quiet", "--cached", "workloads/only/run.sh"]);
    realism.run("refused").refuses(10, "dirty_worktree");
}

#[test]
fn files_outside_of_a_repository_are_good_for_exploring() {
    let fixture = Fixture::new();
    let loose = fixture.root().join("loose");
    for folder in ["pipelines", "workloads"] {
        copy_folder(&fixture.repo().join(folder), &loose.join(folder));
    }
    fixture.assay_in(&loose, &["run", PIPELINE, "--run-id", "loose"]).success();
    let verified = fixture.assay_in(&loose, &["verify", "loose", "--json"]).success().json();
    assert_eq!(verified["level"], 3);
    let store = fixture.home().join(".local/share/assay");
    let source = Pointer::list(&store, "loose", "source")[0].load(&store);
    assert_eq!((text(&source["body"]["kind"]), &source["body"]["commit"]), ("worktree", &Value::Null));
    write_file(&loose.join(PIPELINE), pipeline("realism", &["first"], 3, "").as_bytes());
    fixture.assay_in(&loose, &["run", PIPELINE]).refuses(10, "dirty_worktree");
}

#[test]
fn every_way_to_misbehave_has_its_status_and_its_reason() {
    let says = |speed: &str| script(&format!("echo '{}'", indicator_output("x", speed)));
    // In a separate session, and started before the script ends (the shell itself makes the file: a program for that could be left over too).
    let session = "setsid sh -c ': > escaped; exec sleep 1000' > /dev/null 2>&1 &\nuntil [ -e escaped ]; do sleep 0.01; done";
    let escapes = script(&format!("{session}\necho '{}'", indicator_output("x", "1")));
    let scripts = [
        ("good", says("[1, 2]"), ""),
        ("fails", script("echo oops >&2; exit 3"), ""),
        ("fails-late", script(&format!("echo '{}'; exit 4", indicator_output("x", "1"))), ""),
        ("is-killed", script("kill -9 $$"), ""),
        ("says-nothing", script("true"), ""),
        ("says-hello", script("echo hello"), ""),
        ("says-two", script(&format!("echo '{0}'; echo '{0}'", indicator_output("x", "1"))), ""),
        ("lacks-it", script(r#"echo '{"name": "x", "@parameters": {}, "@result": {"other": 1}}'"#), ""),
        ("words", says("\"fast\""), ""),
        ("empty", says("[]"), ""),
        ("not-finite", says("NaN"), ""),
        ("hangs", script("sleep 1000"), "  time_limit: 1s\n"),
        ("leaves", script(&format!("sleep 1000 > /dev/null 2>&1 &\necho '{}'", indicator_output("x", "1"))), ""),
        ("escapes", escapes, ""),
        ("unprepared", says("1"), "  prepare: {command: [sh, -c, \"exit 9\"]}\n"),
        ("unmade", says("1"), "  prepare: {command: [\"true\"], outputs: [made]}\n"),
    ];
    let fixture = Fixture::bare();
    for (name, script, more) in &scripts {
        fixture.indicator(name, script, more);
    }
    let names = scripts.each_ref().map(|(name, ..)| *name);
    fixture.write(PIPELINE, &pipeline("exploratory", &names, 1, ""));
    fixture.commit("all that can go wrong");
    let ran = fixture.assay(&["run", PIPELINE, "--run-id", "one", "--json"]).exits(30);
    assert_eq!(ran.json()["status"], "partial");

    let part = fixture.manifest("one", "execute");
    let told: BTreeMap<_, _> = list(&part["body"]["attempts"]).iter().map(describe_attempt).collect();
    let told: Vec<_> = names.iter().map(|name| format!("{name:<13} {}", told[*name])).collect();
    insta::assert_snapshot!(told.join("\n"), @"
    good          completed: valid
    fails         failed: exit_code
    fails-late    failed: exit_code
    is-killed     failed: exit_code
    says-nothing  malformed: malformed_empty
    says-hello    malformed: malformed_not_json
    says-two      malformed: malformed_trailing_bytes
    lacks-it      completed: metric_absent
    words         completed: metric_not_a_number
    empty         completed: metric_absent
    not-finite    completed: metric_not_finite
    hangs         timed_out: time_limit
    leaves        completed: valid, 1 left over
    escapes       completed: valid, 1 left over
    unprepared    not_prepared: not_prepared
    unmade        not_prepared: not_prepared
    ");

    fixture.verify("one").success();
    let raw = list(&part["body"]["attempts"]).iter().find(|attempt| text(&attempt["case_id"]).starts_with("says-hello."));
    let stdout = text(&raw.expect("an attempt")["evidence"][0]["digest"]);
    assert_eq!(fs::read(blob(&fixture.store(), stdout)).expect("kept"), b"hello\n", "what is no result is kept raw");
    let rows = outcome_rows(&fixture.published("one"));
    let measured = rows.iter().filter(|row| row.text("metric") == Some("speed") && row.text("trial_id").is_none());
    let cases: BTreeSet<_> = measured.filter_map(|row| row.text("benchmark_case_id")).collect();
    assert_eq!(
        cases,
        ["escapes.local.default", "good.local.default", "leaves.local.default"].into(),
        "only what is valid becomes a number"
    );
    assert_eq!(fixture.leftovers(), [""; 0]);
}

/// Returns the workload of an attempt, and its result in one line.
fn describe_attempt(attempt: &Value) -> (String, String) {
    let workload = text(&attempt["case_id"]).split('.').next().expect("a case begins with its workload");
    let reasons: Vec<_> = list(&attempt["validity"]["reasons"]).iter().map(|reason| text(&reason["code"])).collect();
    // After a program was stopped, some of its processes may outlive others for a moment.
    let left = attempt["indicator"]["leftovers"].as_u64().filter(|left| *left > 0 && attempt["status"] == "completed");
    let left = left.map(|left| format!(", {left} left over")).unwrap_or_default();
    let verdict = if attempt["validity"]["valid"] == true { "valid".to_owned() } else { reasons.join(", ") };
    (workload.to_owned(), format!("{}: {verdict}{left}", text(&attempt["status"])))
}

#[test]
fn a_run_without_a_valid_trial_ends_with_30_and_a_summary() {
    let fixture = Fixture::with_script(&script("exit 1"));
    let ran = fixture.run("one").refuses(30, "no_valid_trial");
    assert_eq!(fixture.manifest("one", "reduce")["body"]["status"], "failed");
    assert!(ran.stdout.contains("report "), "there is a report all the same:\n{}", ran.stdout);
    fixture.verify("one").success();
    fixture.assay(&["verify", "one", "--recompute"]).success();
    // A second run reports the same error.
    fixture.run("one").refuses(30, "no_valid_trial");
}

/// The rest is published, and the first line of the result does not read as success.
#[test]
fn a_case_without_a_valid_trial_ends_the_run_with_30() {
    let fixture = Fixture::bare();
    fixture.indicator("good", &script(&format!("echo '{}'", indicator_output("good", "5"))), "");
    fixture.indicator("bad", &script("echo 'no such device' >&2\nexit 1"), "");
    fixture.write(PIPELINE, &pipeline("exploratory", &["good", "bad"], 1, ""));
    fixture.commit("one bad script");
    let ran = fixture.run("one").refuses(30, "no_valid_trial");
    assert!(ran.stderr.contains("1 of 2 cases has no valid trial: `bad.local.default`"), "{}", ran.stderr);
    assert!(ran.stderr.contains("ended with exit code 1; last on stderr: no such device"), "{}", ran.stderr);
    let command = ran.stderr.split('`').find(|words| words.starts_with("assay logs one --trial bad."));
    let words: Vec<&str> = command.expect("how to see the rest").split(' ').skip(1).collect();
    let written = fixture.assay(&words).success().stdout;
    assert!(written.contains(", stderr, 15 bytes, sha256:") && written.ends_with("\nno such device\n"), "{written}");
    let hint = "hint: its trials are `bad.local.default.default.t0`, `good.local.default.default.t0`";
    for name in ["good.local.default.default.t9", "t0"] {
        let unknown = fixture.assay(&["logs", "one", "--trial", name]).refuses(2, "no_such_trial");
        assert!(unknown.stderr.contains(&format!("no attempt of the trial `{name}`")), "{}", unknown.stderr);
        assert!(unknown.stderr.contains(hint), "{}", unknown.stderr);
    }
    // The end of a name is enough where only one trial has it.
    let short = fixture.assay(&["logs", "one", "--trial", "local.default.default.t0"]).refuses(2, "no_such_trial");
    assert!(short.stderr.contains(hint), "two trials end like that: {}", short.stderr);
    let known = ["logs", "one", "--trial", "good.local.default.default.t0", "--attempt", "7"];
    let unknown = fixture.assay(&known).refuses(2, "no_such_trial");
    assert!(unknown.stderr.contains("no attempt 7 of the trial `good.local.default.default.t0`"), "{}", unknown.stderr);
    assert!(unknown.stderr.contains("hint: the trial has one attempt, 1"), "{}", unknown.stderr);
    let first = ran.stdout.lines().next().unwrap_or_default();
    assert!(first.starts_with("Incomplete: ") && first.contains("no valid trial of `bad.local.default`"), "{first}");
    assert_eq!(fixture.manifest("one", "reduce")["body"]["status"], "partial");
    fixture.assay(&["verify", "one", "--recompute"]).success();

    let shown = fixture.assay(&["show", "one", "--json"]).success().json();
    let counted: Vec<_> =
        list(&shown["results"]).iter().map(|point| (text(&point["workload"]), point["trials_counted"].as_u64())).collect();
    assert!(
        counted.contains(&("bad", Some(0))) && counted.iter().any(|(name, count)| *name == "good" && *count > Some(0)),
        "{counted:?}"
    );
}

#[test]
fn an_invalid_attempt_is_repeated_within_its_budget() {
    let fixture = Fixture::bare();
    let count = fixture.root().join("count");
    let body = format!(
        "echo . >> '{0}'\n[ \"$(wc -l < '{0}')\" -ge 3 ] || exit 1\necho '{1}'",
        count.display(),
        indicator_output("only", "5")
    );
    fixture.indicator("only", &script(&body), "");
    let with_budget =
        |budget: u32| pipeline("exploratory", &["only"], 1, "").replace("retry_budget: 0", &format!("retry_budget: {budget}"));
    fixture.write(PIPELINE, &with_budget(2));
    fixture.run("enough").success();
    assert_eq!(statuses(&fixture, "enough"), ["failed", "failed", "completed"]);
    let trial = &fixture.manifest("enough", "collect")["body"]["trials"][0];
    let counted: Vec<_> = list(&trial["attempts"]).iter().map(|attempt| &attempt["counted"]).collect();
    assert_eq!(counted, [false, false, true]);
    let excluded = fixture.manifest("enough", "reduce")["body"]["points"][0]["excluded"].clone();
    assert_eq!(list(&excluded).len(), 2, "what does not count is listed");

    fs::remove_file(&count).expect("the count begins anew");
    fixture.write(PIPELINE, &with_budget(1));
    fixture.run("short").exits(30);
    assert_eq!(statuses(&fixture, "short"), ["failed", "failed"]);
}

fn statuses(fixture: &Fixture, run_id: &str) -> Vec<String> {
    let part = fixture.manifest(run_id, "execute");
    list(&part["body"]["attempts"]).iter().map(|attempt| text(&attempt["status"]).to_owned()).collect()
}

#[test]
fn a_measured_program_sees_no_more_than_it_is_given() {
    let mut fixture = Fixture::without_keys();
    fixture.set("COSIGN_PASSWORD", "the-password-of-all-keys");
    fixture.assay(&["keys", "init", "--scrypt-n", "32768"]).success();
    fixture.set("SECRET_TOKEN", "a-secret-of-the-environment");
    fixture.set("UNRELATED_SECRET", "nobody-asked-for-this");
    let file = fixture.root().join("secret");
    write_file(&file, b"a-secret-of-a-file\n");
    let seen = fixture.root().join("seen");
    fixture.indicator("only", &script(&format!("env > '{}'\necho '{}'", seen.display(), indicator_output("only", "1"))), "");
    let target = format!(
        "{{name: local, kind: host, env: {{PLAIN: text, TOKEN: {{from_env: SECRET_TOKEN}}, KEY: {{from_file: {}}}}}}}",
        file.display()
    );
    fixture.write(PIPELINE, &pipeline("exploratory", &["only"], 1, "").replace("{name: local, kind: host}", &target));
    fixture.commit("secrets by reference");
    fixture.run("one").success();

    let seen = fs::read_to_string(&seen).expect("the script has run");
    let variables: BTreeMap<_, _> = seen.lines().filter_map(|line| line.split_once('=')).collect();
    for (name, value) in [("PLAIN", "text"), ("TOKEN", "a-secret-of-the-environment"), ("KEY", "a-secret-of-a-file")] {
        assert_eq!(variables.get(name), Some(&value));
    }
    // The shell adds PWD, and some add OLDPWD, SHLVL and _.
    let own: BTreeSet<_> = variables.keys().copied().filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name)).collect();
    assert_eq!(own, ["HOME", "KEY", "LANG", "LC_ALL", "PATH", "PLAIN", "TMPDIR", "TOKEN"].into());

    let secrets = ["the-password-of-all-keys", "a-secret-of-the-environment", "a-secret-of-a-file", "nobody-asked-for-this"];
    let files = files_under(&fixture.store());
    assert!(files.len() > 80, "blobs, pointers, logs and the published folder: {}", files.len());
    for path in files {
        let bytes = fs::read(&path).expect("a file of the store");
        for secret in secrets {
            assert!(!contains_bytes(&bytes, secret.as_bytes()), "{} holds `{secret}`", path.display());
        }
    }
}

fn contains_bytes(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_claim_with_everything_behind_it_is_published_as_one() {
    let fixture = Fixture::with_pipeline(
        &steady_script("only"),
        &pipeline("publication", &["only"], 5, &format!("{CLAIM}{DECLARED_CONTROLS}")),
    );
    fixture.run("one").success();
    let grade = fixture.manifest("one", "publish")["body"]["grade"].clone();
    // Other users of this machine may contradict the declared controls; no other shortfall is allowed.
    let shortfalls = list(&grade["shortfalls"]);
    assert!(shortfalls.iter().all(|shortfall| shortfall["rule"] == "control_contradicted"), "{shortfalls:?}");
    let is_calm = shortfalls.is_empty();
    assert_eq!(text(&grade["given"]), if is_calm { "publication" } else { "realism" });
    assert_eq!(grade.get("declared").is_some_and(|declared| list(declared).len() >= 3), is_calm, "{grade}");
    fixture.verify("one").success();
}

#[test]
fn a_claim_that_falls_short_falls_with_its_reasons() {
    let fixture = Fixture::with_pipeline(&steady_script("only"), &pipeline("publication", &["only"], 3, CLAIM));
    let ran = fixture.run("one").success();
    let grade = fixture.manifest("one", "publish")["body"]["grade"].clone();
    assert_eq!((text(&grade["requested"]), text(&grade["given"])), ("publication", "realism"));
    let rules = list(&grade["shortfalls"]).iter().map(|shortfall| text(&shortfall["rule"]));
    let rules: Vec<_> = rules.filter(|rule| *rule != "control_contradicted").collect();
    assert_eq!(rules, ["controls", "controls", "controls", "controls", "interval", "stability"]);
    assert!(ran.stdout.contains("realism"), "the fall is told:\n{}", ran.stdout);

    fixture.write(PIPELINE, &pipeline("publication", &["only"], 5, DECLARED_CONTROLS));
    fixture.commit("no claim");
    fixture.run("two").refuses(10, "definition_invalid");
}

#[test]
fn a_parameter_sweep_has_a_point_for_each_value() {
    let fixture = Fixture::bare();
    let body = r#"echo "{\"name\": \"only\", \"@parameters\": {}, \"@result\": {\"speed\": $SIZE}}""#;
    fixture.indicator("only", &script(body), "  parameters: {SIZE: [1, 2, 4]}\n");
    fixture.write(PIPELINE, &pipeline("exploratory", &["only"], 2, ""));
    fixture.commit("a sweep");
    fixture.run("one").success();
    let summary = fixture.manifest("one", "reduce");
    let medians: BTreeSet<_> =
        list(&summary["body"]["points"]).iter().map(|point| point["metrics"][0]["median"].to_string()).collect();
    assert_eq!(medians, ["1", "2", "4"].map(str::to_owned).into());
}

/// The other values of the sweep are published, and the exit code is no success.
#[test]
fn a_point_without_a_valid_trial_ends_the_run_with_30() {
    let fixture = Fixture::bare();
    let body = r#"test "$SIZE" -ne 2
echo "{\"name\": \"only\", \"@parameters\": {}, \"@result\": {\"speed\": $SIZE}}""#;
    fixture.indicator("only", &script(body), "  parameters: {SIZE: [1, 2, 4]}\n");
    fixture.write(PIPELINE, &pipeline("exploratory", &["only"], 2, ""));
    fixture.commit("a sweep of which one value fails");
    let ran = fixture.run("one").refuses(30, "no_valid_trial");
    assert!(ran.stderr.contains("1 of 3 points has no valid trial: `only.local.default."), "{}", ran.stderr);
    assert!(ran.stdout.starts_with("Incomplete: 4 of 6 trials count"), "{}", ran.stdout);
    fixture.assay(&["verify", "one", "--recompute"]).success();
}

/// Returns a list of a document.
#[track_caller]
pub(crate) fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

/// Returns a text of a document.
#[track_caller]
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

#[test]
fn a_run_id_is_made_where_none_is_given() {
    let fixture = Fixture::with_script(&steady_script("only"));
    let ran: CommandResult = fixture.assay(&["run", PIPELINE, "--json"]).success();
    let run_id = text(&ran.json()["run_id"]).to_owned();
    assert!(run_id.starts_with("fixture-20") && run_id.len() <= 40, "{run_id}");
    fixture.verify(&run_id).success();
    assert_eq!(fixture.git(&["status", "--porcelain"]), "", "a run leaves the work tree clean");
}
