//! The accounting of a Slurm job: from the pipeline over `sacct --json` to rows. The program is a script that prints the documented JSON.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use assay_warehouse::{CLUSTER_EVENT_FACT, Row};
use serde_json::{Value, json};

use crate::exporters::{count, issue};
use crate::pipeline::{list, text};
use crate::support::{CommandResult, Fixture, PIPELINE, binary, blob, files_under, pipeline, steady_script};

const JOB: &str = r#"{"jobs": [{"job_id": 4711, "name": "bench", "partition": "gpu", "nodes": "node1", "submit_line": "sbatch --secret",
  "state": {"current": ["RUNNING"]}, "time": {"submission": 1700000000, "eligible": 1700000000, "start": 1700000300, "end": 0},
  "tres": {"allocated": [{"type": "cpu", "name": "", "count": 16}]}, "steps": []}]}"#;

fn fixture(from: &str) -> Fixture {
    let telemetry = format!("  telemetry: [{{name: slurm, sacct: {from}}}]\n");
    Fixture::with_pipeline(&steady_script("only"), &pipeline("exploratory", &["only"], 1, &telemetry))
}

/// Returns the rows of a run about what happened to its jobs.
fn cluster_events(fixture: &Fixture, run: &str) -> Vec<Row> {
    let summary = fixture.manifest(run, "reduce");
    let is_it = |file: &&Value| file["table"] == CLUSTER_EVENT_FACT.name;
    let file = list(&summary["body"]["files"]).iter().find(is_it).expect("the table is among the files");
    let bytes = fs::read(blob(&fixture.store(), text(&file["artifact"]["digest"]))).expect("it is in the store");
    assay_warehouse::read(&CLUSTER_EVENT_FACT, bytes).expect("a curated file")
}

#[test]
fn the_wait_of_a_job_is_a_row() {
    let mut fixture = fixture("command");
    let folder = fixture.root().join("slurm");
    fs::create_dir_all(&folder).expect("a folder");
    let program = format!("#!/bin/sh\n[ \"$*\" = '--json --jobs 4711' ] || exit 1\ncat <<'END'\n{JOB}\nEND\n");
    fs::write(folder.join("sacct"), program).expect("written");
    fs::set_permissions(folder.join("sacct"), fs::Permissions::from_mode(0o755)).expect("executable");
    fixture.set("PATH", format!("{}:{}", folder.display(), std::env::var("PATH").expect("a PATH")));
    fixture.set("SLURM_JOB_ID", "4711");
    fixture.run("one").success();

    let rows = cluster_events(&fixture, "one");
    let started = rows.iter().find(|row| row.text("event_type") == Some("Started")).expect("it has started");
    assert_eq!((started.text("object_kind"), started.text("object_uid")), (Some("SlurmJob"), Some("4711")));
    assert_eq!(count(started, "after_creation_ns"), 300_000_000_000);
    assert_eq!(started.text("message"), Some("nodes node1; allocated cpu=16"));
    assert_eq!(rows.len(), 3, "it has no end");
    fixture.verify_recomputed("one");
    for file in files_under(&fixture.store()) {
        let bytes = fs::read(&file).expect("a file of the store");
        assert!(!String::from_utf8_lossy(&bytes).contains("sbatch --secret"), "{}", file.display());
    }
    let shown = fixture.assay(&["sources", PIPELINE]).success().stdout;
    assert!(shown.contains("read once after the trials: the job 4711, by `sacct --json`"), "{shown}");
}

/// `ci/slurm` brings up a Slurm of one node, and names its configuration by `ASSAY_TEST_SLURM`. A run is a job of it, which waits behind another one.
#[test]
fn the_wait_in_a_real_slurm_is_that_of_its_own_accounting() {
    let Some(configuration) = std::env::var_os("ASSAY_TEST_SLURM") else {
        println!("ASSAY_TEST_SLURM is not set: no real Slurm was asked");
        return;
    };
    let mut fixture = fixture("command");
    fixture.set("SLURM_CONF", configuration);
    fixture.set("PATH", std::env::var("PATH").expect("a PATH"));
    fixture.set("TZ", "UTC");
    let slurm = |program: &str, words: &[&str]| {
        let mut command = fixture.command(Path::new(program));
        CommandResult::from_output(command.args(words).output().expect("a program of Slurm")).success().stdout
    };
    slurm("sbatch", &["--exclusive", "--output=/dev/null", "--wrap", "sleep 5"]);
    let run = format!("{} run {PIPELINE} --run-id one", binary("assay").display());
    let log = fixture.root().join("job.log").display().to_string();
    let mut command = fixture.command(Path::new("sbatch"));
    command.args(["--exclusive", "--parsable", "--wait", "--output", &log, "--wrap", &run]);
    // The exit code is that of the job.
    let submitted = CommandResult::from_output(command.output().expect("sbatch"));
    assert_eq!(submitted.code, 0, "{}\n{}", submitted.stderr, fs::read_to_string(&log).unwrap_or_default());
    let job = submitted.stdout.trim().to_owned();

    let rows = cluster_events(&fixture, "one");
    let of = |event: &str| rows.iter().find(|row| row.text("event_type") == Some(event)).unwrap_or_else(|| panic!("no {event}"));
    assert_eq!((of("Started").text("object_kind"), of("Started").text("object_uid")), (Some("SlurmJob"), Some(job.as_str())));
    let table = slurm("sacct", &["--allocations", "--noheader", "--parsable2", "--format=Submit,Start", "--jobs", &job]);
    let times: Vec<i64> = table.trim().split('|').map(seconds).collect();
    let [submit, start] = times[..] else { panic!("{table}") };
    assert_eq!(count(of("Started"), "after_creation_ns"), (start - submit) * 1_000_000_000);
    assert!(start > submit, "it waited: {table}");
    assert!(of("Started").text("message").is_some_and(|message| message.contains("allocated ") && message.contains("cpu=")));
    assert!(rows.iter().all(|row| row.text("event_type") != Some("Ended")), "a job that asks about itself has no end");
    fixture.verify_recomputed("one");
}

/// Returns the seconds of a time of `sacct`, such as `2026-11-29T09:15:00`.
fn seconds(time: &str) -> i64 {
    let parsed: assay_manifest::Instant = format!("{time}.000000000Z").parse().expect("a time");
    parsed.unix_ns() / 1_000_000_000
}

#[test]
fn a_run_outside_of_slurm_says_so() {
    let mut fixture = fixture("command");
    fixture.unset("SLURM_JOB_ID");
    fixture.run("one").success();
    let unread = issue(&fixture, "one", "cluster_facts_left_out");
    assert!(unread.contains("the run is in no Slurm job: `SLURM_JOB_ID` is not set"), "{unread}");
    let shown = fixture.assay(&["sources", PIPELINE]).success().stdout;
    assert!(shown.contains("off: this is no Slurm job"), "{shown}");
    fixture.verify_recomputed("one");
}

#[test]
fn a_file_of_accounting_is_read_as_well() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sacct.json");
    fs::write(&path, JOB).expect("written");
    let fixture = fixture(&path.display().to_string());
    fixture.run("one").success();
    let summary = fixture.manifest("one", "reduce");
    let tables: Vec<_> = list(&summary["body"]["files"]).iter().map(|file| text(&file["table"])).collect();
    assert!(tables.contains(&CLUSTER_EVENT_FACT.name), "{tables:?}");
    fs::remove_file(&path).expect("removed");
    let refused = fixture.assay(&["sources", PIPELINE]).refuses(30, "telemetry_unreachable");
    assert!(refused.stdout.contains("cannot read the file"), "{}", refused.stdout);
}

/// The accounting of an array of jobs that waited this long each, in seconds.
fn array(waits: [u64; 4]) -> String {
    let job = |(place, wait): (u64, u64)| {
        let submitted = 1_700_000_000 + 600 * place;
        json!({
            "job_id": 5_000 + place, "name": "bench", "partition": "gpu", "nodes": "node1", "state": {"current": ["COMPLETED"]},
            "time": {"submission": submitted, "eligible": submitted, "start": submitted + wait, "end": submitted + wait + 60},
        })
    };
    json!({"jobs": (0..).zip(waits).map(job).collect::<Vec<_>>()}).to_string()
}

#[test]
fn jobs_that_waited_longer_than_those_of_an_earlier_run_are_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sacct.json");
    let fixture = fixture(&path.display().to_string());
    for (run, waits) in [("before", [3, 5, 2, 4]), ("after", [1_800, 1_950, 2_100, 1_700]), ("one-job", [0; 4])] {
        fs::write(&path, if run == "one-job" { JOB.to_owned() } else { array(waits) }).expect("written");
        fixture.run(run).success();
    }
    let explained = fixture.assay(&["explain", "after", "--against", "before", "--json"]).success().json();
    let findings = list(&explained["explanation"]["findings"]);
    assert_eq!(findings.iter().map(|finding| text(&finding["rule"])).collect::<Vec<_>>(), ["slurm-wait"], "{explained:#}");
    assert_eq!(findings[0]["places"], json!(["cluster SlurmJob, queue gpu"]));
    assert_eq!(findings[0]["seen"][0]["message"], "SlurmJob bench: nodes node1");
    let shown = fixture.assay(&["explain", "after", "--against", "before"]).success().stdout;
    for part in [
        "Most evidence: The run's Slurm jobs waited longer for their nodes.",
        "time until the job started: 3.50 -> 1880 s",
        "message   SlurmJob bench: nodes node1",
        "at        all cases at all points",
    ] {
        assert!(shown.contains(part), "no {part:?}: {shown}");
    }
    // One job of a run is a wait, and no pattern.
    let shown = fixture.assay(&["explain", "one-job", "--against", "before"]).success().stdout;
    let why = "slurm-wait: 1 of a side's objects have the time until the job started, fewer than 3: 3.5 and 300.0 s";
    assert!(shown.contains(why), "{shown}");
}
