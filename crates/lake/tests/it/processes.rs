//! Racing writers and killed writers: real processes over one folder.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::time::Duration;

use assay_lake::{Lake, commit_run};

use crate::support::{
    TestStore, check_logs_are_dense, continue_commit, expected_rows, found_rows, open, run_files, run_id, scratch,
};

const FOLDER: &str = "ASSAY_LAKE_TEST_FOLDER";
const RUNS: &str = "ASSAY_LAKE_TEST_RUNS";

/// The child process: commits the given runs once the gate is open, or does nothing if none are given.
#[test]
fn child() {
    let (Some(folder), Ok(runs)) = (std::env::var_os(FOLDER).map(PathBuf::from), std::env::var(RUNS)) else { return };
    let store = open(&folder);
    let lake = Lake::open(&store).expect("a lake");
    let scratch = scratch();
    for run in runs.split(',').map(|run| run.parse::<u64>().expect("a number")) {
        let files = run_files(&store, run);
        commit_run(&lake, &run_id(run), &files, &scratch, &mut continue_commit).expect("committed");
        std::fs::write(folder.join(format!("done-{run}")), b"").expect("said");
    }
}

fn start(folder: &Path, runs: &[u64]) -> Child {
    let runs: Vec<_> = runs.iter().map(u64::to_string).collect();
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "processes::child", "--nocapture"])
        .env(FOLDER, folder)
        .env(RUNS, runs.join(","))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a child")
}

#[test]
fn sixteen_processes_write_each_row_exactly_once() {
    let place = TestStore::new();
    // Each brings a run of its own, one that a neighbour brings as well, and the dimensions that all share.
    let children: Vec<_> = (0..16).map(|index| start(place.root(), &[index + 1, (index + 1) % 16 + 1])).collect();
    for child in children {
        let output = child.wait_with_output().expect("waited");
        assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(found_rows(&place), expected_rows(16));
    check_logs_are_dense(&place);
    let versions = place.lake.latest().expect("versions");
    assert_eq!(versions.get("outcome_fact").map(|version| version.0), Some(16), "a commit for each run, none in vain");
    assert_eq!(versions.get("hardware_topology_dim").map(|version| version.0), Some(1));
}

#[test]
fn sixteen_threads_write_each_row_exactly_once() {
    let place = TestStore::new();
    std::thread::scope(|scope| {
        for index in 1..=16 {
            let place = &place;
            scope.spawn(move || place.commit(index));
        }
    });
    assert_eq!(found_rows(&place), expected_rows(16));
    check_logs_are_dense(&place);
}

#[test]
fn many_that_make_the_same_tables_at_once_all_find_them() {
    for _ in 0..20 {
        let place = TestStore::new();
        let gate = Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    gate.wait();
                    place.lake.create_tables().expect("made, by whomever");
                });
            }
        });
        check_logs_are_dense(&place);
    }
}

#[test]
fn a_writer_killed_anywhere_is_finished_by_the_next() {
    let place = TestStore::new();
    let mut delay = Duration::from_millis(5);
    let (mut killed, mut run) = (0, 1);
    // Delays grow from no step done to all steps done, so that kills fall everywhere in between, independent of the machine's
    // speed.
    while !place.root().join(format!("done-{run}")).exists() || killed < 12 {
        if place.root().join(format!("done-{run}")).exists() {
            run += 1;
            delay = Duration::from_millis(5);
        }
        let mut child = start(place.root(), &[run]);
        std::thread::sleep(delay);
        child.kill().expect("killed");
        child.wait().expect("waited");
        killed += 1;
        delay = delay.mul_f64(1.35);
    }
    for index in 1..=run {
        place.commit(index);
    }
    assert_eq!(found_rows(&place), expected_rows(run), "{killed} kills");
    check_logs_are_dense(&place);
}
