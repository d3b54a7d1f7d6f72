//! The commit of a run to the tables, whole, in parts and again.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use assay_lake::{Action, CHECKPOINT_INTERVAL, Error, Lake, Step, commit_run};
use assay_manifest::{Count, CuratedFile, Digest};
use assay_warehouse::{BENCHMARK_RUN_FACT, OUTCOME_FACT, TABLES, WORKLOAD_DIM};

use crate::support::{
    TestStore, check_logs_are_dense, continue_commit, expected_rows, found_rows, put, row, run_files, run_id, scratch,
};

fn steps_of(place: &TestStore, index: u64) -> Vec<Step> {
    let mut steps = Vec::new();
    let files = run_files(&place.store, index);
    let mut watch = |step| {
        steps.push(step);
        ControlFlow::Continue(())
    };
    commit_run(&place.lake, &run_id(index), &files, &place.scratch, &mut watch).expect("committed");
    steps
}

#[test]
fn a_run_is_committed_dimensions_first_and_itself_last() {
    let place = TestStore::new();
    let committed: Vec<_> =
        steps_of(&place, 1).into_iter().filter(|step| step.action == Action::Committed).map(|step| step.table).collect();
    assert_eq!(
        committed,
        [
            "software_version_dim",
            "hardware_topology_dim",
            "cluster_region_dim",
            "workload_dim",
            "artifact_lineage_dim",
            "outcome_fact",
            "serving_outcome_fact",
            "telemetry_slice_fact",
            "attempt_fact",
            "cluster_pod_fact",
            "cluster_event_fact",
            "benchmark_run_fact",
        ]
    );
    assert_eq!(found_rows(&place), expected_rows(1));
    let sum = place.number("SELECT round(sum(value), 6) FROM outcome_fact");
    assert_eq!(sum, "3260.8", "a tenth of 1000 + s for s in 0..40, without the eight whose remainder by 5 is 4");
}

#[test]
fn every_table_is_there_from_the_first_run() {
    let place = TestStore::new();
    assert_eq!(place.lake.latest().expect("versions").len(), 0);
    let snapshot = place.commit(1);
    assert_eq!(snapshot.keys().map(String::as_str).collect::<BTreeSet<_>>(), TABLES.iter().map(|table| table.name).collect());
    assert_eq!(snapshot.get("training_outcome_fact"), Some(&Count(0)), "it has no rows yet");
    assert_eq!(snapshot, place.lake.latest().expect("versions"));
}

#[test]
fn a_dimension_s_file_is_added_once_whichever_run_brings_it() {
    let place = TestStore::new();
    place.commit(1);
    let second = steps_of(&place, 2);
    let found = |table| second.iter().find(|step| step.table == table).map(|step| step.action);
    assert_eq!(found("hardware_topology_dim"), Some(Action::AlreadyCommitted));
    assert_eq!(found("artifact_lineage_dim"), Some(Action::Copied));
    assert_eq!(found_rows(&place), expected_rows(2));
}

#[test]
fn a_run_that_is_there_is_not_added_again() {
    let place = TestStore::new();
    let first = place.commit(1);
    assert!(steps_of(&place, 1).iter().all(|step| step.action == Action::AlreadyCommitted));
    assert_eq!(place.commit(1), first, "no new versions");
    assert_eq!(found_rows(&place), expected_rows(1));
}

#[test]
fn a_commit_that_stopped_after_any_step_is_finished_by_the_next() {
    let whole = steps_of(&TestStore::new(), 1).len();
    assert_eq!(whole, 24, "twelve tables, a copy and a commit each");
    std::thread::scope(|scope| {
        for first in [1, 2] {
            scope.spawn(move || (first..=whole).step_by(2).for_each(|stop| stop_after(stop, whole)));
        }
    });
}

/// Stops a commit after a step of all its steps, and commits again.
fn stop_after(stop: usize, whole: usize) {
    let place = TestStore::new();
    let files = run_files(&place.store, 1);
    let mut left = stop;
    let mut watch = |_| {
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let stopped = commit_run(&place.lake, &run_id(1), &files, &place.scratch, &mut watch).expect_err("stopped");
    assert!(matches!(stopped, Error::Stopped { steps } if steps == stop), "{stopped}");
    let touched = place.lake.latest().expect("versions").contains_key(BENCHMARK_RUN_FACT.name);
    assert_eq!(touched, stop >= whole - 1, "after step {stop}: the run's own table is the last to be touched");
    let visible = touched && place.number("SELECT count(*) FROM benchmark_run_fact") == "2";
    assert_eq!(visible, stop == whole, "after step {stop}");
    place.commit(1);
    assert_eq!(found_rows(&place), expected_rows(1), "stopped after step {stop}");
    check_logs_are_dense(&place);
}

#[test]
fn rows_of_a_run_that_is_not_whole_are_in_no_view() {
    let place = TestStore::new();
    place.commit(1);
    let files = run_files(&place.store, 2);
    let mut watch = |step: Step| {
        let last = step == Step { table: "telemetry_slice_fact", action: Action::Committed };
        if last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    commit_run(&place.lake, &run_id(2), &files, &place.scratch, &mut watch).expect_err("stopped");
    assert_eq!(place.number("SELECT count(*) FROM outcome_fact"), "80");
    for (view, rows) in [("runs", "2"), ("outcomes", "40"), ("serving", "4"), ("telemetry", "6"), ("training", "0")] {
        assert_eq!(place.number(&format!("SELECT count(*) FROM {view}")), rows, "{view}");
    }
    place.commit(2);
    assert_eq!(place.number("SELECT count(*) FROM outcomes"), "80");
}

#[test]
fn one_run_id_has_one_set_of_files() {
    let place = TestStore::new();
    place.commit(1);
    let mut files = run_files(&place.store, 1);
    let other = put(&place.store, &OUTCOME_FACT, [row(&OUTCOME_FACT, 1, 99)]);
    files.retain(|file| file.table != OUTCOME_FACT.name);
    files.push(other);
    let error = commit_run(&place.lake, &run_id(1), &files, &place.scratch, &mut continue_commit).expect_err("refused");
    insta::assert_snapshot!(error, @"the warehouse holds other files of run `run-1` in table `outcome_fact` than those of this Summary");
    assert!(error.fails_verification());
    assert_eq!(found_rows(&place), expected_rows(1));
}

#[test]
fn a_run_may_bring_several_files_of_a_table() {
    let place = TestStore::new();
    let mut files = run_files(&place.store, 1);
    files.push(put(&place.store, &OUTCOME_FACT, [row(&OUTCOME_FACT, 1, 99)]));
    files.push(put(&place.store, &WORKLOAD_DIM, [row(&WORKLOAD_DIM, 0, 1)]));
    commit_run(&place.lake, &run_id(1), &files, &place.scratch, &mut continue_commit).expect("committed");
    assert_eq!(place.number("SELECT count(*) FROM outcome_fact"), "41");
    assert_eq!(place.lake.latest().expect("versions").get("outcome_fact"), Some(&Count(1)), "one commit for both");
    assert_eq!(place.number("SELECT count(*) FROM workload_dim"), "3", "two files that share a row");
    assert_eq!(place.number("SELECT count(*) FROM runs"), "2", "views take a dimension's row once");
}

#[test]
fn what_is_no_curated_file_is_refused_before_it_is_added() {
    let place = TestStore::new();
    let files = run_files(&place.store, 1);
    let refusal = |change: &dyn Fn(&mut CuratedFile)| {
        let mut files = files.clone();
        let file = files.iter_mut().find(|file| file.table == OUTCOME_FACT.name).expect("a file");
        change(file);
        let error = commit_run(&place.lake, &run_id(1), &files, &place.scratch, &mut continue_commit).expect_err("refused");
        error.to_string().replace(&Digest::compute(b"rows").to_string(), "<digest>")
    };
    assert!(refusal(&|file| file.rows = Count(41)).ends_with("it has 40 rows and not 41"));
    assert!(refusal(&|file| file.artifact.size = Count(7)).contains("bytes and not 7"));
    assert!(refusal(&|file| file.table = "serving_outcome_fact".to_owned()).contains("is not what the table has there"));
    assert_eq!(refusal(&|file| file.table = "outcomes".to_owned()), "there is no table `outcomes` in the warehouse");
    insta::assert_snapshot!(refusal(&|file| file.artifact.digest = Digest::compute(b"rows")), @"the store has no blob <digest>");
    place.store.put(b"rows").expect("put");
    let no_parquet = refusal(&|file| {
        file.artifact.digest = Digest::compute(b"rows");
        file.artifact.size = Count(4);
    });
    assert!(
        no_parquet.starts_with("curated file <digest> of table `outcome_fact` is not what its Summary says: "),
        "{no_parquet}"
    );
    assert_eq!(place.number("SELECT count(*) FROM outcome_fact"), "0");
}

#[test]
fn a_run_without_its_own_rows_is_refused() {
    let place = TestStore::new();
    let files: Vec<_> = run_files(&place.store, 1).into_iter().filter(|file| file.table != BENCHMARK_RUN_FACT.name).collect();
    let error = commit_run(&place.lake, &run_id(1), &files, &place.scratch, &mut continue_commit).expect_err("refused");
    insta::assert_snapshot!(error, @"run `run-1` has no curated file of `benchmark_run_fact`, which makes a run visible");
}

#[test]
fn a_table_with_another_schema_is_refused_by_name() {
    let other = |change: &dyn Fn(String) -> String| {
        let place = TestStore::new();
        place.lake.create_tables().expect("tables");
        let first = place.table(&OUTCOME_FACT).join("_delta_log/00000000000000000000.json");
        let text = std::fs::read_to_string(&first).expect("a commit");
        let changed = change(text.clone());
        assert_ne!(text, changed);
        std::fs::write(&first, changed).expect("written");
        let files = run_files(&place.store, 1);
        let error = commit_run(&place.lake, &run_id(1), &files, &place.scratch, &mut continue_commit).expect_err("refused");
        assert!(matches!(error, Error::OtherSchema { .. }), "{error}");
        error.to_string()
    };
    let renamed = other(&|text| text.replace(r#"\"name\":\"metric\""#, r#"\"name\":\"measure\""#));
    insta::assert_snapshot!(renamed, @"the warehouse's table `outcome_fact` has another schema: column `measure` stands where `metric` should");
    let retyped = other(&|text| text.replace(r#"\"type\":\"double\""#, r#"\"type\":\"string\""#));
    insta::assert_snapshot!(retyped, @"the warehouse's table `outcome_fact` has another schema: column `value` is string and nullable");
}

#[test]
fn a_table_from_before_a_nullable_column_was_added_is_no_other_table() {
    let place = TestStore::new();
    place.lake.create_tables().expect("tables");
    let first = place.table(&OUTCOME_FACT).join("_delta_log/00000000000000000000.json");
    let column = OUTCOME_FACT.columns().find(|column| column.nullable && !column.key).expect("one").name;
    let text = std::fs::read_to_string(&first).expect("a commit");
    let actions = text.lines().map(|line| {
        let mut action: serde_json::Value = serde_json::from_str(line).expect("an action");
        if let Some(schema) = action.pointer_mut("/metaData/schemaString") {
            let mut fields: serde_json::Value = serde_json::from_str(schema.as_str().expect("text")).expect("a schema");
            fields["fields"].as_array_mut().expect("fields").retain(|field| field["name"] != column);
            *schema = fields.to_string().into();
        }
        format!("{action}\n")
    });
    std::fs::write(&first, actions.collect::<String>()).expect("written");
    place.commit(1);
    place.commit(2);
    assert_eq!(place.number("SELECT count(DISTINCT run_id) FROM outcome_fact"), "2");
}

#[test]
fn a_table_s_first_commit_is_the_same_bytes_everywhere() {
    let first = |place: &TestStore| {
        place.lake.create_tables().expect("tables");
        TABLES.map(|table| std::fs::read(place.table(table).join("_delta_log/00000000000000000000.json")).expect("a commit"))
    };
    assert_eq!(first(&TestStore::new()), first(&TestStore::new()));
}

#[test]
fn checkpoints_hold_all_that_came_before() {
    let place = TestStore::new();
    let runs = CHECKPOINT_INTERVAL + 2;
    for index in 1..=runs {
        place.commit(index);
    }
    let log = place.table(&OUTCOME_FACT).join("_delta_log");
    assert!(log.join(format!("{CHECKPOINT_INTERVAL:020}.checkpoint.parquet")).exists());
    assert!(log.join("_last_checkpoint").exists());
    assert_eq!(found_rows(&place), expected_rows(runs));
    // Without the commits before it the checkpoint must know files and transaction ids alone.
    for version in 0..CHECKPOINT_INTERVAL {
        std::fs::remove_file(log.join(format!("{version:020}.json"))).expect("removed");
    }
    let again = Lake::open(&place.store).expect("a lake");
    let files = run_files(&place.store, 1);
    let snapshot = commit_run(&again, &run_id(1), &files, &scratch(), &mut continue_commit).expect("committed");
    assert_eq!(snapshot.get("outcome_fact"), Some(&Count(runs)), "the first run is known to be there");
    assert_eq!(found_rows(&place), expected_rows(runs));
}

#[test]
fn an_old_version_stays_what_it_was() {
    let place = TestStore::new();
    let first = place.commit(1);
    place.commit(2);
    let version = first.get("outcome_fact").expect("a version").0;
    assert_eq!(place.lake.files(&OUTCOME_FACT, version).expect("files").len(), 1);
    assert_eq!(place.lake.files(&OUTCOME_FACT, version + 1).expect("files").len(), 2);
    let error = place.lake.files(&OUTCOME_FACT, version + 2).expect_err("not there");
    insta::assert_snapshot!(error, @"the warehouse's table `outcome_fact` has no version 3");
}

#[test]
fn a_log_that_is_no_log_is_an_error() {
    for garbage in [&b"not json"[..], b"", b"{}", b"{\"add\":{\"path\":7}}\n", b"\xff\xfe", b"[]\n"] {
        let place = TestStore::new();
        place.commit(1);
        let log = place.table(&OUTCOME_FACT).join("_delta_log");
        std::fs::write(log.join("00000000000000000002.json"), garbage).expect("written");
        let files = run_files(&place.store, 2);
        // For every content of the log, nothing panics, and the existing files stay.
        let _ = commit_run(&place.lake, &run_id(2), &files, &place.scratch, &mut continue_commit);
        assert!(place.lake.files(&OUTCOME_FACT, 1).is_ok_and(|files| files.len() == 1));
        std::fs::write(log.join("_last_checkpoint"), garbage).expect("written");
        let _ = place.lake.latest();
        std::fs::write(log.join("00000000000000000001.checkpoint.parquet"), garbage).expect("written");
        let _ = place.lake.latest();
    }
}
