//! `assay verify` reads the warehouse itself: every file of a run is in its table at the pinned version, without other rows of the
//! run. Pointers of a store lead to results of their own run.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::support::{CommandResult, Fixture, Pointer, copy_folder, files_under, measured_fixture, write_file};
use crate::tamper::flip_bit;

const CHECKED: &str = "curated files in the warehouse at the pinned versions";

/// Creates a machine with two new runs, which a test may change.
fn fixture_with_two_runs() -> Fixture {
    let fixture = Fixture::new();
    for run in ["one", "two"] {
        fixture.run(run).success();
    }
    fixture
}

fn table(fixture: &Fixture, table: &str) -> PathBuf {
    fixture.store().join("warehouse").join(table)
}

/// Returns the Parquet files of the warehouse, without checkpoints.
fn data_files(fixture: &Fixture) -> Vec<PathBuf> {
    let files = files_under(&fixture.store().join("warehouse"));
    let is_data =
        |path: &PathBuf| path.extension().is_some_and(|kind| kind == "parquet") && !path.to_string_lossy().contains("_delta_log");
    files.into_iter().filter(is_data).collect()
}

/// Names a file in a commit of a table, as another writer would.
fn add_to_commit(fixture: &Fixture, name: &str, version: u64, path: &str) {
    let log = table(fixture, name).join(format!("_delta_log/{version:020}.json"));
    let size = fs::metadata(table(fixture, name).join(path)).expect("the file is there").len();
    let add = json!({"add": {"path": path, "partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": true}});
    let commit = fs::read_to_string(&log).expect("the commit");
    fs::remove_file(&log).expect("it can be removed");
    write_file(&log, format!("{commit}{add}\n").as_bytes());
}

#[test]
fn every_file_of_a_run_is_read_in_the_warehouse() {
    let fixture = Fixture::new();
    fixture.run("one").success();
    assert!(fixture.verify("one").success().stdout.contains(CHECKED));
    let files = data_files(&fixture);
    assert!(files.len() > 4, "{files:?}");
    for path in files {
        let whole = fs::read(&path).expect("a file");
        write_file(&path, &flip_bit(&whole));
        fixture.verify("one").refuses(20, "warehouse");
        fs::remove_file(&path).expect("it can be removed");
        fixture.verify("one").refuses(20, "warehouse");
        let aside = fixture.root().join("aside.parquet");
        write_file(&aside, &whole);
        std::os::unix::fs::symlink(&aside, &path).expect("a link");
        let refused = fixture.verify("one").refuses(20, "warehouse");
        assert!(refused.stderr.contains("is not a plain file"), "{}", refused.stderr);
        fs::remove_file(&path).expect("the link can be removed");
        write_file(&path, &whole);
    }
    assert!(fixture.verify("one").success().stdout.contains(CHECKED));
}

#[test]
fn a_warehouse_that_is_gone_is_refused() {
    let fixture = Fixture::new();
    fixture.run("one").success();
    fs::remove_dir_all(fixture.store().join("warehouse")).expect("it can be removed");
    let refused = fixture.verify("one").refuses(20, "warehouse_absent");
    let last = refused.stdout.lines().last();
    assert_eq!(last, Some("level 1 (chain) of 4 reached; refused at level 2 (rows and queries)"), "{}", refused.stdout);
}

#[test]
fn a_folder_says_that_no_warehouse_was_checked() {
    let folder = measured_fixture().published("one").display().to_string();
    let said = measured_fixture().verify(&folder).success().stdout;
    assert!(said.contains("warehouse not checked") && !said.contains(CHECKED), "{said}");
}

#[test]
fn a_file_that_came_with_the_pinned_commit_and_no_summary_names_is_refused() {
    let fixture = fixture_with_two_runs();
    let own = files_under(&table(&fixture, "outcome_fact"))
        .into_iter()
        .find(|path| path.extension().is_some_and(|kind| kind == "parquet"));
    fs::copy(own.expect("a file"), table(&fixture, "outcome_fact").join("more.parquet")).expect("copied");
    add_to_commit(&fixture, "outcome_fact", 1, "more.parquet");
    let refused = fixture.verify("one").refuses(20, "foreign_file");
    assert!(
        refused.stderr.contains("`more.parquet` of the warehouse's table `outcome_fact` came with the commit"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_file_with_rows_of_the_run_that_no_summary_names_is_refused_wherever_it_came_from() {
    let fixture = fixture_with_two_runs();
    let two = fixture.manifest("two", "reduce");
    let file = crate::pipeline::list(&two["body"]["files"]).iter().find(|file| file["table"] == "outcome_fact").expect("a file");
    let digest = file["artifact"]["digest"].as_str().expect("a digest").strip_prefix("sha256:").expect("of that kind").to_owned();
    fs::copy(
        table(&fixture, "outcome_fact").join(format!("{digest}.parquet")),
        table(&fixture, "outcome_fact").join("more.parquet"),
    )
    .expect("copied");
    // Before the run's own commit, where a check could miss it.
    add_to_commit(&fixture, "outcome_fact", 1, "more.parquet");
    let refused = fixture.verify("two").refuses(20, "foreign_file");
    assert!(refused.stderr.contains("holds rows of the run"), "{}", refused.stderr);
}

#[test]
fn a_table_of_a_later_assay_or_an_older_one_is_told() {
    let fixture = Fixture::new();
    fixture.run("one").success();
    // As if an earlier Assay had made the table with another type.
    let log = table(&fixture, "outcome_fact").join("_delta_log/00000000000000000000.json");
    let first = fs::read_to_string(&log).expect("the first commit");
    let other = first.replacen(r#"\"type\":\"double\""#, r#"\"type\":\"string\""#, 1);
    assert_ne!(first, other);
    fs::remove_file(&log).expect("it can be removed");
    write_file(&log, other.as_bytes());
    let before = files_under(&fixture.store().join("warehouse"));
    fixture.verify("one").refuses(30, "old_format");
    fixture.assay(&["query", "SELECT count(*) FROM outcome_fact"]).refuses(30, "old_format");
    fixture.run("two").refuses(30, "old_format");
    assert_eq!(files_under(&fixture.store().join("warehouse")), before, "nothing was written");
}

#[test]
fn every_pointer_of_a_run_leads_to_that_run() {
    let fixture = Fixture::new();
    for run in ["one", "two"] {
        fixture.run(run).success();
    }
    let run = |name: &str| fixture.store().join("runs").join(name);
    let is_pointer = |path: &PathBuf| fs::read_to_string(path).is_ok_and(|text| text.contains("\"manifest\""));
    let of_two: Vec<_> = files_under(&run("two")).into_iter().filter(is_pointer).collect();
    let pointers: Vec<_> = files_under(&run("one")).into_iter().filter(is_pointer).collect();
    assert!(pointers.iter().any(|path| path.to_string_lossy().contains("/trials/")), "checkpoints too: {pointers:?}");
    for path in pointers {
        let whole = fs::read(&path).expect("a pointer");
        let stage = path.strip_prefix(run("one")).expect("below").components().next().expect("a stage").as_os_str().to_owned();
        let is_like = |other: &&PathBuf| {
            let kind =
                |path: &PathBuf| (path.to_string_lossy().contains("/trials/"), path.to_string_lossy().contains("/prepared/"));
            other.starts_with(run("two").join(&stage)) && kind(other) == kind(&path)
        };
        let other = of_two.iter().find(is_like).expect("the other run has one like it");
        write_file(&path, &fs::read(other).expect("a pointer"));
        fixture.verify("one").exits(20);
        write_file(&path, &whole);
    }
    fixture.verify("one").success();
}

#[test]
fn a_checkpoint_stands_at_its_own_place() {
    let fixture = Fixture::new();
    fixture.run("one").success();
    let trials = files_under(&fixture.store().join("runs/one/execute"));
    let mut trials = trials
        .iter()
        .filter(|path| path.to_string_lossy().contains("/trials/") && path.file_name().is_some_and(|name| name == "0"));
    let (first, second) = (trials.next().expect("a checkpoint"), trials.next().expect("another"));
    write_file(first, &fs::read(second).expect("a pointer"));
    fixture.verify("one").refuses(20, "pointer_elsewhere");
}

#[test]
fn a_listing_does_not_follow_a_pointer_to_another_run() {
    let fixture = fixture_with_two_runs();
    let [one, two] = ["one", "two"].map(|run| fixture.pointer(run, "source"));
    let Pointer { manifest, bundle, .. } = two;
    one.redirect(&manifest, &bundle);
    fixture.assay(&["runs"]).refuses(20, "pointer_elsewhere");
    fixture.verify("one").refuses(20, "pointer_elsewhere");
}

/// Runs `assay --json` on a folder in which a file name could control a terminal.
fn verify_with_stranger(arguments: &[&str]) -> CommandResult {
    let folder = tempfile::tempdir_in(measured_fixture().scratch()).expect("a folder");
    copy_folder(&measured_fixture().published("one"), folder.path());
    fs::write(folder.path().join("a\u{202e}b\u{9b}c\u{1b}d"), "").expect("a stranger");
    measured_fixture().assay(&[&["verify", folder.path().to_str().expect("UTF-8")], arguments].concat())
}

#[test]
fn json_is_json_whatever_a_name_holds() {
    let ran = verify_with_stranger(&["--json"]).success();
    assert!(!ran.stdout.contains(['\u{202e}', '\u{9b}', '\u{1b}']), "{}", ran.stdout);
    assert_eq!(ran.json()["strangers"], json!(["a\u{202e}b\u{9b}c\u{1b}d"]));
}

#[test]
fn strangers_fail_where_that_is_asked_for() {
    verify_with_stranger(&[]).success();
    let refused = verify_with_stranger(&["--strict"]).refuses(20, "strangers");
    assert!(
        refused.stdout.contains("level 2 (rows and queries) of 4 reached")
            && refused.stdout.contains("published files in the folder: rows"),
        "what was checked is said first: {}",
        refused.stdout
    );
    assert!(verify_with_stranger(&["--strict", "--json"]).refuses(20, "strangers").stdout.starts_with('{'));
    measured_fixture().assay(&["verify", measured_fixture().published("one").to_str().expect("UTF-8"), "--strict"]).success();
}

// The chain vouches for the copies in the store: those of the exported folder may have been changed since.
#[test]
fn a_run_in_a_store_is_verified_without_its_exported_folder() {
    let fixture = Fixture::new();
    fixture.run("one").success();
    let folder = fixture.published("one");
    fs::write(folder.join("stranger.txt"), "not of the run").expect("a stranger");
    let path = folder.to_str().expect("UTF-8");
    for strict in [&[][..], &["--strict"]] {
        let in_store = fixture.assay(&[&["verify", "one"], strict].concat()).success().stdout;
        assert!(in_store.contains("published files in the store: rows"), "{in_store}");
        let command = [&["assay", "verify"], strict, &[path]].concat().join(" ");
        assert!(in_store.contains(&format!("the exported folder is not checked, only the store is: `{command}`")), "{in_store}");
    }
    let json = fixture.assay(&["verify", "one", "--json"]).success().json();
    assert_eq!(json["unchecked_folder"], json!(path));
    fixture.assay(&["verify", "--strict", path]).refuses(20, "strangers");
    fs::remove_dir_all(&folder).expect("removed");
    let without = fixture.assay(&["verify", "one", "--strict"]).success().stdout;
    assert!(!without.contains("exported folder"), "{without}");
}
