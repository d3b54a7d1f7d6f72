//! Trusted readings read only the files that verified Summaries name, and only with the bytes that they name.

use std::fs;

use assay_lake::{Error, Reading, Snapshot, Subjects};
use assay_manifest::{Count, Digest};
use assay_query::{Limits, Query};
use assay_warehouse::{BENCHMARK_RUN_FACT, OUTCOME_FACT};

use crate::support::{TestStore, put, row, run_files, run_id};

const SUM: &str = "SELECT run_id, round(sum(value), 6) AS total FROM outcomes GROUP BY run_id ORDER BY run_id";

fn query() -> Query {
    Query::parse(SUM).expect("a query")
}

fn trusted(place: &TestStore, snapshot: &Snapshot, subjects: &Subjects) -> Result<Reading, Error> {
    Reading::open_trusted(&place.lake, snapshot, subjects, &query(), &place.scratch)
}

/// Two runs, the newest versions, and the subjects of their Summaries.
fn two_runs() -> (TestStore, Snapshot, Subjects) {
    let place = TestStore::new();
    place.commit(1);
    let snapshot = place.commit(2);
    let subjects = place.subjects(1..=2);
    (place, snapshot, subjects)
}

fn outcome_file(place: &TestStore, run: u64) -> Digest {
    let files = run_files(&place.store, run);
    files.iter().find(|file| file.table == OUTCOME_FACT.name).expect("a file").artifact.digest
}

/// Returns the text of an error without the digests in it.
fn error_text(error: &Error, place: &TestStore) -> String {
    assert!(error.fails_verification(), "{error}");
    (1..=2).fold(error.to_string(), |text, run| text.replace(&outcome_file(place, run).to_string(), &format!("<run {run}>")))
}

#[test]
fn a_pinned_version_of_verified_files_is_read() {
    let (place, snapshot, subjects) = two_runs();
    let reading = trusted(&place, &snapshot, &subjects).expect("trusted");
    assert!(reading.unverified().is_empty());
    assert_eq!(reading.files().filter(|(table, _)| *table == "outcome_fact").count(), 2);
    let table = reading.run_query(&query(), Limits::default()).expect("a result");
    assert_eq!(table.csv(), "run_id,total\nrun-1,3260.8\nrun-2,6460.8\n");
}

#[test]
fn a_pinned_version_does_not_see_what_came_later() {
    let place = TestStore::new();
    let first = place.commit(1);
    place.commit(2);
    let reading = trusted(&place, &first, &place.subjects([1])).expect("trusted");
    assert_eq!(reading.run_query(&query(), Limits::default()).expect("a result").csv(), "run_id,total\nrun-1,3260.8\n");
}

#[test]
fn a_run_whose_summary_is_not_verified_is_named() {
    let (place, snapshot, _) = two_runs();
    let error = trusted(&place, &snapshot, &place.subjects([1])).expect_err("refused");
    assert!(matches!(&error, Error::Unlisted { .. }) && error.fails_verification(), "{error}");
    assert!(error.to_string().ends_with("at version 2 is no subject of a verified Summary"), "{error}");
    assert!(trusted(&place, &snapshot, &Subjects::new()).is_err());
}

#[test]
fn a_subject_of_one_table_is_no_subject_of_another() {
    let (place, snapshot, _) = two_runs();
    let mut files: Vec<_> = (1..=2).flat_map(|run| run_files(&place.store, run)).collect();
    for file in &mut files {
        if file.table == OUTCOME_FACT.name {
            file.table = "serving_outcome_fact".to_owned();
        }
    }
    let mut subjects = Subjects::new();
    subjects.add(&run_id(1), &files);
    assert!(matches!(trusted(&place, &snapshot, &subjects), Err(Error::Unlisted { table: "outcome_fact", .. })));
}

#[test]
fn a_swapped_file_is_found_before_it_is_parsed() {
    let (place, snapshot, subjects) = two_runs();
    let files = place.table(&OUTCOME_FACT);
    let path = |run| files.join(format!("{}.parquet", outcome_file(&place, run).hex()));
    fs::copy(path(1), path(2)).expect("swapped");
    let error = trusted(&place, &snapshot, &subjects).expect_err("refused");
    insta::assert_snapshot!(error_text(&error, &place), @"file <run 2> of the warehouse's table `outcome_fact` was changed: its bytes are <run 1>");
    fs::write(path(2), b"PAR1 not really PAR1").expect("swapped");
    assert!(matches!(trusted(&place, &snapshot, &subjects), Err(Error::Changed { .. })));
}

#[test]
fn every_changed_byte_is_found() {
    let (place, snapshot, subjects) = two_runs();
    let path = place.table(&OUTCOME_FACT).join(format!("{}.parquet", outcome_file(&place, 1).hex()));
    let bytes = fs::read(&path).expect("a file");
    for index in (0..bytes.len()).step_by(997).chain([bytes.len() - 1]) {
        let mut changed = bytes.clone();
        changed[index] ^= 1;
        fs::write(&path, changed).expect("changed");
        assert!(matches!(trusted(&place, &snapshot, &subjects), Err(Error::Changed { .. })), "byte {index}");
    }
    fs::write(&path, &bytes[..bytes.len() - 1]).expect("cut");
    assert!(matches!(trusted(&place, &snapshot, &subjects), Err(Error::Changed { .. })));
}

#[test]
fn a_removed_file_is_named() {
    let (place, snapshot, subjects) = two_runs();
    fs::remove_file(place.table(&OUTCOME_FACT).join(format!("{}.parquet", outcome_file(&place, 1).hex()))).expect("removed");
    let error = trusted(&place, &snapshot, &subjects).expect_err("refused");
    insta::assert_snapshot!(error_text(&error, &place), @"file <run 1> of the warehouse's table `outcome_fact` is missing");
}

/// Writes a commit into a table's log as another program would.
fn foreign_commit(place: &TestStore, action: &str) -> u64 {
    let version = place.lake.latest().expect("versions").get("outcome_fact").expect("a version").0 + 1;
    let log = place.table(&OUTCOME_FACT).join("_delta_log");
    fs::write(log.join(format!("{version:020}.json")), format!("{action}\n")).expect("written");
    version
}

fn add_action(path: &str, size: u64) -> String {
    format!(r#"{{"add":{{"path":"{path}","partitionValues":{{}},"size":{size},"modificationTime":0,"dataChange":true}}}}"#)
}

#[test]
fn an_added_file_is_named_and_read_only_when_that_is_asked_for() {
    let (place, mut snapshot, subjects) = two_runs();
    // Rows that look like a verified run's, under a name that is their digest.
    let file = put(&place.store, &OUTCOME_FACT, (100..110).map(|seed| row(&OUTCOME_FACT, 1, seed)));
    let name = format!("{}.parquet", file.artifact.digest.hex());
    let bytes = place.store.get(&file.artifact.digest, 1 << 20).expect("bytes");
    fs::write(place.table(&OUTCOME_FACT).join(&name), &bytes).expect("written");
    let version = foreign_commit(&place, &add_action(&name, bytes.len() as u64));

    assert!(trusted(&place, &snapshot, &subjects).is_ok(), "the pinned version does not have it");
    snapshot.insert("outcome_fact".to_owned(), Count(version));
    let error = trusted(&place, &snapshot, &subjects).expect_err("refused");
    assert_eq!(
        error.to_string(),
        format!("file `{name}` of the warehouse's table `outcome_fact` at version 3 is no subject of a verified Summary")
    );
    let reading = Reading::open_unverified(&place.lake, &snapshot, &subjects, &query(), &place.scratch).expect("read");
    let [unverified] = reading.unverified() else { panic!("one file: {:?}", reading.unverified()) };
    assert_eq!((unverified.reason.as_str(), unverified.read), (error.to_string().as_str(), true));
    let count = Query::parse("SELECT count(*) FROM outcome_fact").expect("a query");
    assert_eq!(reading.run_query(&count, Limits::default()).expect("a result").csv(), "count(*)\n90\n");
}

#[test]
fn a_file_without_a_digest_for_a_name_is_named() {
    let (place, mut snapshot, subjects) = two_runs();
    let source = place.table(&OUTCOME_FACT).join(format!("{}.parquet", outcome_file(&place, 1).hex()));
    fs::copy(&source, place.table(&OUTCOME_FACT).join("part-00000.parquet")).expect("copied");
    let version = foreign_commit(&place, &add_action("part-00000.parquet", fs::metadata(&source).expect("a file").len()));
    snapshot.insert("outcome_fact".to_owned(), Count(version));
    let error = trusted(&place, &snapshot, &subjects).expect_err("refused");
    assert!(matches!(&error, Error::Unlisted { file, .. } if file == "part-00000.parquet"), "{error}");
}

#[test]
fn a_path_that_leads_out_of_the_table_is_never_opened() {
    let (place, mut snapshot, subjects) = two_runs();
    for path in ["../serving_outcome_fact/x.parquet", "/etc/passwd", "file:///etc/passwd", "a%2F..%2Fb.parquet", "..%2F..%2Fx"] {
        let version = foreign_commit(&place, &add_action(path, 1));
        snapshot.insert("outcome_fact".to_owned(), Count(version));
        assert!(trusted(&place, &snapshot, &subjects).is_err_and(|error| error.fails_verification()), "{path}");
        let reading = Reading::open_unverified(&place.lake, &snapshot, &subjects, &query(), &place.scratch).expect("read");
        assert!(reading.unverified().iter().all(|file| !file.read), "{path}");
    }
}

#[test]
fn a_file_that_the_log_forgot_is_named() {
    let (place, mut snapshot, subjects) = two_runs();
    let path = format!("{}.parquet", outcome_file(&place, 1).hex());
    let remove = format!(r#"{{"remove":{{"path":"{path}","deletionTimestamp":0,"dataChange":true}}}}"#);
    let version = foreign_commit(&place, &remove);
    snapshot.insert("outcome_fact".to_owned(), Count(version));
    let error = trusted(&place, &snapshot, &subjects).expect_err("refused");
    insta::assert_snapshot!(error_text(&error, &place), @"run `run-1` is in the warehouse without its file <run 1> of table `outcome_fact`");
}

/// A log that lost its last commits still is a log: only the Publications show that there was more.
#[test]
fn a_table_that_was_rolled_back_is_found() {
    let (place, snapshot, mut subjects) = two_runs();
    subjects.add_published(&run_id(2), &snapshot);
    assert!(trusted(&place, &snapshot, &subjects).is_ok());
    let earlier = Snapshot::from([("outcome_fact".to_owned(), Count(1)), ("benchmark_run_fact".to_owned(), Count(1))]);
    assert!(trusted(&place, &earlier, &subjects.clone().as_of(&earlier)).is_ok(), "the second run was published later than that");
    let error = trusted(&place, &earlier, &subjects).expect_err("as the newest versions that is too little");
    insta::assert_snapshot!(error, @"run `run-2` was published with version 2 of the warehouse's table `benchmark_run_fact`, and its newest version is 1");
    assert!(error.fails_verification());
    let error = trusted(&place, &Snapshot::new(), &subjects).expect_err("no tables");
    insta::assert_snapshot!(error, @"run `run-2` was published with version 2 of the warehouse's table `benchmark_run_fact`, and there is no such table");
    let reading = Reading::open_unverified(&place.lake, &Snapshot::new(), &subjects, &query(), &place.scratch).expect("read");
    assert!(
        reading.unverified().len() == 2 && reading.unverified().iter().all(|absent| !absent.read),
        "{:?}",
        reading.unverified()
    );

    // The same number of commits, one of which differs: a log that was rolled back and written again.
    let log = place.table(&BENCHMARK_RUN_FACT).join("_delta_log");
    fs::copy(log.join(format!("{:020}.json", 1)), log.join(format!("{:020}.json", 2))).expect("copied");
    let error = trusted(&place, &snapshot, &subjects).expect_err("refused");
    insta::assert_snapshot!(error, @"run `run-2` was published with version 2 of the warehouse's table `benchmark_run_fact`, and version 2 does not hold it");
    assert!(error.fails_verification());
    let reading = Reading::open_unverified(&place.lake, &snapshot, &subjects, &query(), &place.scratch).expect("read");
    let [hidden] = reading.unverified() else { panic!("one run: {:?}", reading.unverified()) };
    assert_eq!((hidden.reason.as_str(), hidden.read), (error.to_string().as_str(), false));
}

#[test]
fn a_damaged_log_is_no_trouble_of_the_machine_s() {
    let (place, snapshot, subjects) = two_runs();
    fs::write(place.table(&OUTCOME_FACT).join("_delta_log").join(format!("{:020}.json", 1)), "{not json").expect("written");
    let error = trusted(&place, &snapshot, &subjects).expect_err("refused");
    assert!(matches!(error, Error::Log { .. }) && error.fails_verification(), "{error:?}");
}

#[test]
fn a_file_with_deleted_rows_is_named() {
    let (place, mut snapshot, subjects) = two_runs();
    let path = format!("{}.parquet", outcome_file(&place, 1).hex());
    let vector = r#""deletionVector":{"storageType":"u","pathOrInlineDv":"ab^-aqEH.-t@S}K{vb[*k^","offset":4,"sizeInBytes":40,"cardinality":6}"#;
    fs::copy(place.table(&OUTCOME_FACT).join(&path), place.table(&OUTCOME_FACT).join("part-1.parquet")).expect("copied");
    for path in [path.as_str(), "part-1.parquet"] {
        let add = add_action(path, 1).replace(r#""dataChange":true"#, &format!(r#""dataChange":true,{vector}"#));
        let version = foreign_commit(&place, &add);
        snapshot.insert("outcome_fact".to_owned(), Count(version));
        let error = trusted(&place, &snapshot, &subjects).expect_err("refused");
        let said = format!("of the warehouse's table `outcome_fact` at version {version} is not as it was added: ");
        assert!(error.fails_verification() && error.to_string().contains(&said), "{error}");
        let reading = Reading::open_unverified(&place.lake, &snapshot, &subjects, &query(), &place.scratch).expect("read");
        let found = reading.unverified().iter().find(|unverified| unverified.reason.contains(path)).expect("named");
        assert!(!found.read && found.reason.ends_with("rows of it are marked as deleted"), "{found:?}");
    }
}

#[test]
fn a_version_that_is_not_there_is_named() {
    let (place, mut snapshot, subjects) = two_runs();
    snapshot.insert("outcome_fact".to_owned(), Count(9));
    let error = trusted(&place, &snapshot, &subjects).expect_err("refused");
    insta::assert_snapshot!(error, @"the warehouse's table `outcome_fact` has no version 9");
    snapshot.remove("outcome_fact");
    insta::assert_snapshot!(trusted(&place, &snapshot, &subjects).expect_err("refused"), @"there is no table `outcome_fact` in the warehouse");
}

#[test]
fn an_empty_warehouse_has_nothing_unverified() {
    let place = TestStore::new();
    let reading =
        Reading::open_unverified(&place.lake, &Snapshot::new(), &Subjects::new(), &query(), &place.scratch).expect("read");
    assert_eq!(reading.run_query(&query(), Limits::default()).expect("a result").csv(), "run_id,total\n");
}

#[test]
fn a_run_s_own_files_are_asked_before_it_is_committed() {
    let place = TestStore::new();
    let files = run_files(&place.store, 7);
    let reading = Reading::from_files(&place.store, &files, &query(), &place.scratch).expect("read");
    assert_eq!(reading.run_query(&query(), Limits::default()).expect("a result").csv(), "run_id,total\nrun-7,22460.8\n");
    assert!(place.lake.latest().expect("versions").is_empty(), "nothing was written");
    let digest = files.iter().find(|file| file.table == BENCHMARK_RUN_FACT.name).expect("a file").artifact.digest;
    let hex = digest.hex();
    fs::write(place.root().join("blobs/sha256").join(&hex[..2]).join(&hex), b"other").expect("changed");
    let error = Reading::from_files(&place.store, &files, &query(), &place.scratch).expect_err("refused");
    assert!(error.fails_verification(), "{error}");
}
