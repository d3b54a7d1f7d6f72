//! The holder of plan's key pins other numbers of a dataset or trace than its committed file gives: nothing that was measured contradicts them, and
//! only importing the file again does.

use std::fs;
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::by_hand::Bench;
use crate::forgery::{Forgery, replace_artifact};
use crate::serving;
use crate::support::{Fixture, PIPELINE};
use crate::trace_sessions::request;

/// A finished run `one` of a workload with a dataset, and of one with a trace in Weka's format.
fn honest_fixture() -> &'static Fixture {
    static FIXTURE: OnceLock<Fixture> = OnceLock::new();
    FIXTURE.get_or_init(|| {
        let fixture = Fixture::bare();
        let rows = ["one honest prompt", "two honest prompts here"].map(|prompt| json!({"prompt": prompt}).to_string() + "\n");
        fixture.write("workloads/dataset/rows.jsonl", &rows.concat());
        let fields = "  batching_policy: none
  load: {mode: closed, concurrency: [1], requests: 2}
  dataset: {path: rows.jsonl, output: server, max_output: 4}
";
        serving::workload_of(&fixture, "dataset", fields);
        let requests = json!([request(0.0, 130, &[0, 1], "tool_use", 0.02), request(0.1, 200, &[0, 1, 2, 3], "end_turn", 0.03)]);
        let trace = json!({"id": "a", "models": ["m"], "block_size": 64, "hash_id_scope": "local", "requests": requests});
        fixture.write("workloads/weka/trace.jsonl", &(trace.to_string() + "\n"));
        let fields = "  batching_policy: none
  load: {mode: closed, concurrency: [1], sessions: 1}
  trace: {path: trace.jsonl, format: weka}
  sessions: {}
";
        serving::workload_of(&fixture, "weka", fields);
        let workloads = ["dataset", "weka"];
        fixture.write(PIPELINE, &serving::pipeline(&workloads, &[serving::SIMULATOR], 1, serving::RETRY_BUDGET, ""));
        fixture.commit("a dataset and a trace");
        fixture.run("one").success();
        fixture
    })
}

fn summary<'a>(body: &'a mut Value, workload: &str) -> &'a mut Value {
    let workloads = body["workloads"].as_array_mut().expect("workloads");
    let found = workloads.iter_mut().find(|found| found["name"] == workload).expect("the workload");
    &mut found["serving"]["prompts"]["summary"]
}

/// Checks that level 3 accepts a false Plan, and that level 4 refuses it for this part of this workload.
#[track_caller]
fn check_refused(workload: &str, part: &str, edit: impl FnOnce(&Bench, &mut Value)) {
    let forgery = Forgery::forge_in(Bench::with_runs_of(honest_fixture()), "plan", edit, |_| {});
    assert_eq!(forgery.refused_by(), None);
    let verified = forgery.verify(&[]).success();
    assert!(verified.stdout.contains("level 3 (raw bytes) of 4 reached"), "{}", verified.stdout);
    let refused = forgery.verify(&["--recompute"]).refuses(20, "import_differs");
    assert!(refused.stderr.contains(&format!("the `{part}` of workload `{workload}`")), "{}", refused.stderr);
}

#[test]
fn files_that_give_the_pinned_rows_reach_level_4() {
    honest_fixture().verify_recomputed("one");
}

/// Falsifies the rows of the dataset, with a true index.
fn forge_rows() -> Forgery {
    let replace = |bench: &Bench, manifest: &mut Value| {
        let name = "workloads/dataset/dataset/rows.jsonl";
        replace_artifact(bench, manifest, name, |rows| {
            String::from_utf8(rows).expect("UTF-8").replace("honest", "forged").into()
        });
    };
    Forgery::forge_in(Bench::with_runs_of(honest_fixture()), "plan", replace, |_| {})
}

/// The records have the digests of the prompts that were sent.
#[test]
fn rows_that_were_not_sent_are_refused_by_reduce() {
    assert_eq!(forge_rows().refused_by(), Some(("reduce", "records_differ".to_owned())));
}

/// Rows that are replaced before anything is measured are sent, and every record agrees with them. The cases of the plan, which follow from the
/// committed file, do not.
#[test]
fn rows_that_were_sent_are_refused_by_the_cases_of_the_plan() {
    let bench = forge_rows().into_bench();
    for stage in ["provision", "execute", "record", "collect", "reduce", "publish"] {
        let _ = fs::remove_dir_all(bench.store().join("runs/one").join(stage));
    }
    bench.assay(&["run", PIPELINE, "--run-id", "one"]).success();
    let refused = bench.verify(&[]).refuses(20, "plan_source_differs");
    assert!(refused.stderr.contains("its `cases` is not what the source's files give"), "{}", refused.stderr);
}

#[test]
fn false_numbers_of_an_import_are_refused() {
    check_refused("dataset", "summary", |_, manifest| {
        summary(&mut manifest["body"], "dataset")["input_tokens"]["sum"] = json!("99999");
    });
    check_refused("weka", "summary", |_, manifest| {
        summary(&mut manifest["body"], "weka")["times"]["turns"]["subagents"] = json!("777");
    });
}
