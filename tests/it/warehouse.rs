//! The warehouse for users: published runs add to it, queries read it, and files that no signed Summary names are refused.

use std::fs;
use std::path::PathBuf;

use assay_envelope::{ExpectedManifest, Signer, sign, verify};
use assay_manifest::{Artifact, Count, Digest, Document, Publication, Role};
use serde_json::{Value, json};

use crate::by_hand::Bench;
use crate::forgery::{Forgery, replace_artifact};
use crate::pipeline::{list, text};
use crate::support::{Fixture, blob, copy_folder, files_under, measured_fixture, pipeline, steady_script, write_file};
use crate::tamper::{canonical, local_key, local_trust};

const QUERY: &str = "queries/medians.sql";

/// Selects numbers of the long table, and a computed number with a new name.
const MEDIANS: &str = "SELECT row_id, benchmark_case_id, metric, value, unit, value / 2 AS half
FROM outcome_fact
WHERE statistic = 'median' AND trial_id IS NULL
ORDER BY benchmark_case_id, metric
";

/// Creates a repository whose pipeline publishes with one query.
fn fixture_with_query(sql: &str) -> Fixture {
    let fixture = Fixture::bare();
    fixture
        .write(crate::support::PIPELINE, &pipeline("exploratory", &["only"], 3, &format!("  publish: {{queries: [{QUERY}]}}\n")));
    fixture.indicator("only", &steady_script("only"), "");
    fixture.write(QUERY, sql);
    fixture.commit("an indicator and a query");
    fixture
}

pub(crate) fn numbers(fixture: &Fixture, run: &str) -> Vec<Value> {
    let document = fs::read(fixture.published(run).join("numbers.json")).expect("numbers are published");
    let document: Value = serde_json::from_slice(&document).expect("JSON");
    list(&document["numbers"]).clone()
}

/// Returns the Parquet files of a table.
fn files_of(fixture: &Fixture, table: &str) -> Vec<PathBuf> {
    let files = files_under(&fixture.store().join("warehouse").join(table));
    files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "parquet")).collect()
}

#[test]
fn runs_meet_in_the_warehouse_and_are_asked_in_sql() {
    let asked = measured_fixture().assay(&[
        "query",
        "SELECT run_id, count(*) AS n FROM outcomes GROUP BY run_id ORDER BY 1",
        "--format",
        "csv",
    ]);
    let asked = asked.success();
    let counts: Vec<_> = asked.stdout.lines().map(|line| line.split_once(',').expect("two columns")).collect();
    assert_eq!(counts[0], ("run_id", "n"));
    assert_eq!((counts[1].0, counts[2].0, counts.len()), ("one", "two", 3));
    assert_eq!(counts[1].1, counts[2].1, "equal plans give equally many rows");
    assert!(asked.stderr.contains("verified: 4 of 4 files are named by signed Summaries (2 runs;"), "{}", asked.stderr);
}

#[test]
fn every_attempt_has_a_row_and_one_machine_has_no_place() {
    let fixture = measured_fixture();
    let sql =
        "SELECT count(*) AS n, count(DISTINCT trial_id) AS trials, count(node_name) + count(pod_uid) + count(job_uid) AS placed
        FROM attempts WHERE run_id = 'one' AND counted";
    let asked = fixture.assay(&["query", sql, "--format", "json"]).success();
    let trials = list(&fixture.manifest("one", "plan")["body"]["trials"]).len();
    assert_eq!(asked.stdout.trim(), format!(r#"{{"n":{trials},"trials":{trials},"placed":0}}"#));
    let pods = fixture.assay(&["query", "SELECT count(*) AS n FROM pods", "--format", "json"]).success();
    assert_eq!(pods.stdout.trim(), r#"{"n":0}"#);
    // The question of the page, for this run.
    let page = include_str!("../../docs/warehouse.md");
    let mut paragraphs = page.split("\n\n").filter(|paragraph| paragraph.contains("JOIN attempts AS a"));
    let question = paragraphs.next().expect("the page asks where a number was measured");
    // The value of a trial of an indicator is the median of its samples.
    let question =
        question.replace("nightly-20261120-0200", "one").replace("ttft_ms_p99", "speed").replace("'value'", "'median'");
    let result = fixture.assay(&["query", &question, "--format", "json"]).success();
    let rows: Vec<Value> = result.stdout.lines().map(|row| serde_json::from_str(row).expect("JSON")).collect();
    assert!(rows.len() >= trials / 2 && rows.iter().all(|row| row["shard"] == 0 && row["node_name"].is_null()), "{result:?}");
    let part = fixture.manifest("one", "execute");
    assert!(list(&part["body"]["attempts"]).iter().all(|attempt| attempt.get("place").is_none()), "{part}");
}

#[test]
fn a_query_sees_the_tables_as_a_run_left_them() {
    let count = |arguments: &[&str]| {
        let sql = "SELECT count(DISTINCT run_id) AS runs FROM runs";
        let ran = measured_fixture().assay(&[&["query", sql, "--json"], arguments].concat()).success();
        ran.stdout.trim().to_owned()
    };
    assert_eq!(count(&[]), r#"{"runs":2}"#);
    assert_eq!(count(&["--at", "one"]), r#"{"runs":1}"#);
    assert_eq!(count(&["--at", "two"]), r#"{"runs":2}"#);
}

#[test]
fn what_is_no_reading_query_is_refused() {
    for (sql, error) in [
        ("DROP TABLE outcome_fact", "query_refused"),
        ("SELECT random()", "query_refused"),
        ("SELEC 1", "query"),
        ("SELECT * FROM nowhere", "query"),
        ("SELECT 1; SELECT 2", "query_refused"),
    ] {
        measured_fixture().assay(&["query", sql]).refuses(2, error);
    }
    for overflow in ["9223372036854775807 + count(*)", "sum(9223372036854775807)"] {
        let refused = measured_fixture().assay(&["query", &format!("SELECT {overflow} FROM runs")]).refuses(2, "query_failed");
        assert!(refused.stderr.contains("64 bits"), "{}", refused.stderr);
    }
    measured_fixture().assay(&["query", "SELECT * FROM outcomes", "--max-rows", "3"]).refuses(2, "query_too_large");
    let fixture = Fixture::bare();
    fs::create_dir_all(fixture.store().join("blobs")).expect("a store");
    fixture.assay(&["query", "SELECT 1"]).refuses(2, "no_warehouse");
}

#[test]
fn a_published_number_is_traced_through_its_query_and_its_snapshot() {
    let fixture = fixture_with_query(MEDIANS);
    fixture.run("asked").success();
    let numbers = numbers(&fixture, "asked");
    let selected: Vec<_> = numbers.iter().filter(|number| number["source"] == "query").collect();
    assert_eq!(selected.len(), 1, "one median is selected: a computed column is no number");
    assert_eq!((text(&selected[0]["metric"]), selected[0]["value"].as_f64()), ("speed", Some(100.25)));
    let addresses: std::collections::BTreeSet<_> = numbers.iter().map(|number| text(&number["address"])).collect();
    assert_eq!(addresses.len(), numbers.len(), "a number is published once");

    let address = text(&selected[0]["address"]);
    let traced = fixture.assay(&["trace", address, "--recompute", "--json"]).success().json();
    assert_eq!(text(&traced["query"]["path"]), QUERY);
    assert_eq!(text(&traced["query"]["text"]), MEDIANS);
    assert_eq!(traced["query"]["digest"], fixture.manifest("asked", "publish")["body"]["queries"][0]["digest"]);
    assert_eq!(traced["snapshot"], serde_json::json!({"table": "outcome_fact", "version": "1", "holds_file": true}));
    assert_eq!(traced["recomputed"]["same"], true);
    let said = fixture.assay(&["trace", address]).success().stdout;
    assert!(said.contains("query     queries/medians.sql (sha256:") && said.contains("    | FROM outcome_fact"), "{said}");
    assert!(said.contains("snapshot  `outcome_fact` at version 1, which holds the file"), "{said}");

    let result = fs::read_to_string(fixture.published("asked").join("results/queries/medians.csv")).expect("the result");
    assert_eq!(result.lines().next(), Some("row_id,benchmark_case_id,metric,value,unit,half"));
    assert!(result.lines().nth(1).is_some_and(|row| row.ends_with("only.local.default,speed,100.25,MB/s,50.125")), "{result}");

    // The folder alone is enough to run the query again.
    let folder = format!("{}/", fixture.published("asked").display());
    let verified = fixture.assay(&["verify", &folder]).success().stdout;
    assert!(verified.contains("level 2 "), "{verified}");
}

/// Puts bytes into the fixture's store, and makes the artifact name them.
fn put(fixture: &Fixture, artifact: &mut Artifact, bytes: &[u8]) {
    (artifact.digest, artifact.size) = (Digest::compute(bytes), Count(bytes.len() as u64));
    write_file(&blob(&fixture.store(), &artifact.digest.to_string()), bytes);
}

/// Returns the error of `assay verify` for a Publication that was falsified with publish's own key.
fn falsification_error(change: impl FnOnce(&Fixture, &mut Publication)) -> Option<String> {
    falsify_publication(change).verify("asked").exits(20).error()
}

/// Creates a run with a falsified Publication, signed like the original one.
fn falsify_publication(change: impl FnOnce(&Fixture, &mut Publication)) -> Fixture {
    let fixture = fixture_with_query(MEDIANS);
    fixture.run("asked").success();
    let pointer = fixture.pointer("asked", "publish");
    let read = |digest: &str| fs::read(blob(&fixture.store(), digest)).expect("the blob is there");
    let verified = verify(&read(&pointer.manifest), &read(&pointer.bundle), local_trust(), &ExpectedManifest::default());
    let verified = verified.expect("the untouched publication verifies");
    let Document::Publication(published) = verified.value() else { panic!("publish ends with a publication") };
    let mut lie = published.clone();
    change(&fixture, &mut lie.body);
    let signed = sign(&lie, &Signer::new(local_key(Role::Publish)), verified.predicate().clone()).expect("signed");
    let written = [&signed.manifest, &signed.bundle].map(|bytes| {
        let digest = Digest::compute(bytes).to_string();
        write_file(&blob(&fixture.store(), &digest), bytes);
        digest
    });
    pointer.redirect(&written[0], &written[1]);
    fixture
}

fn with_numbers(fixture: &Fixture, publication: &mut Publication, change: impl FnOnce(&mut Vec<Value>)) {
    let bytes = fs::read(blob(&fixture.store(), &publication.numbers.digest.to_string())).expect("the numbers");
    let mut numbers: Value = serde_json::from_slice(&bytes).expect("JSON");
    change(numbers["numbers"].as_array_mut().expect("a list"));
    put(fixture, &mut publication.numbers, &canonical(&numbers));
}

#[test]
fn publish_is_not_taken_at_its_word() {
    let other_result = falsification_error(|fixture, publication| {
        put(fixture, &mut publication.queries[0].result, b"row_id,value\n");
    });
    assert_eq!(other_result.as_deref(), Some("query_differs"));
    let other_type = falsification_error(|_, publication| publication.queries[0].result.media_type = "text/html".to_owned());
    assert_eq!(other_type.as_deref(), Some("query_differs"));
    let no_query = falsification_error(|_, publication| publication.queries.clear());
    assert_eq!(no_query.as_deref(), Some("other_queries"));
    let (mut selected, mut other) = (String::new(), String::new());
    let not_selected = falsify_publication(|fixture, publication| {
        with_numbers(fixture, publication, |numbers| {
            let of_query = numbers.iter().find(|number| number.get("query").is_some()).expect("a number of the query").clone();
            let number = numbers.iter_mut().find(|number| number["source"] == "rows").expect("a number of a row");
            (number["source"], number["query"]) = (json!("query"), of_query["query"].clone());
            (selected, other) = (text(&of_query["address"]).to_owned(), text(&number["address"]).to_owned());
        });
    });
    assert_eq!(not_selected.verify("asked").exits(20).error().as_deref(), Some("number_not_in_query"));
    // `assay trace` of one number does not show a query that does not return it.
    assert!(not_selected.assay(&["trace", &selected]).success().stdout.contains("SELECT"));
    not_selected.assay(&["trace", &other]).refuses(20, "number_not_in_query");
    let left_out = falsification_error(|fixture, publication| {
        with_numbers(fixture, publication, |numbers| numbers.retain(|number| number["source"] == "rows"));
    });
    assert_eq!(left_out.as_deref(), Some("number_not_in_query"));
    let other_snapshot = falsification_error(|_, publication| {
        publication.warehouse_snapshot.insert("outcome_fact".to_owned(), Count(0));
    });
    assert_eq!(other_snapshot.as_deref(), Some("not_in_snapshot"));
    let no_snapshot = falsification_error(|_, publication| publication.warehouse_snapshot.clear());
    assert_eq!(no_snapshot.as_deref(), Some("not_in_snapshot"));
}

#[test]
fn a_query_that_cannot_be_published_is_found_before_anything_is_measured() {
    for (sql, error) in [
        ("SELECT value FROM outcome_fact", "query_without_rows"),
        ("SELECT row_id FROM nowhere", "query"),
        ("DELETE FROM outcome_fact", "query_refused"),
        ("SELECT row_id, now() AS at FROM outcome_fact", "query_refused"),
        ("SELECT row_id, value * 2 AS value FROM outcome_fact", "query_changes_rows"),
        ("SELECT row_id, value AS \"VALUE\" FROM outcome_fact", "query_column_name"),
    ] {
        let fixture = fixture_with_query(sql);
        let ran = fixture.run("refused").refuses(10, error);
        assert!(ran.stderr.contains(QUERY), "the failure names the file: {}", ran.stderr);
        let validated = fixture.assay(&["validate"]).exits(10);
        assert!(validated.stderr.contains(QUERY), "{}", validated.stderr);
        assert!(files_under(&fixture.store().join("runs/refused/execute")).is_empty(), "nothing was measured");
    }
}

#[test]
fn a_query_cannot_publish_a_value_that_is_not_its_row_s() {
    // Each column is the table's, but no row of the table has both values.
    let fixture = fixture_with_query("SELECT a.row_id, b.value FROM outcome_fact a CROSS JOIN outcome_fact b");
    let refused = fixture.run("mixed").refuses(10, "query_changes_rows");
    assert!(refused.stderr.contains("holds another `value` than the query gives"), "{}", refused.stderr);
    let fixture = fixture_with_query("SELECT row_id FROM workload_dim");
    fixture.run("other").refuses(10, "query_changes_rows");
}

#[test]
fn a_file_that_no_summary_names_is_refused_by_name_or_read_as_unverified() {
    let fixture = Fixture::new();
    for run in ["one", "two"] {
        fixture.run(run).success();
    }
    let sql = "SELECT count(DISTINCT run_id) AS runs FROM outcomes";
    fixture.assay(&["query", sql]).success();
    // The run's Summary is removed: its rows are still in the tables.
    let gone = fixture.store().join("runs/two/reduce");
    let kept = fixture.root().join("reduce");
    fs::rename(&gone, &kept).expect("the pointers can be moved");
    let refused = fixture.assay(&["query", sql]).refuses(20, "warehouse");
    assert!(
        refused.stderr.contains("is no subject of a verified Summary") && refused.stderr.contains("--unverified"),
        "{}",
        refused.stderr
    );
    let read = fixture.assay(&["query", sql, "--unverified", "--format", "json"]).success();
    assert_eq!(read.stdout.trim(), r#"{"runs":2}"#);
    assert_eq!(read.stderr.lines().filter(|line| line.starts_with("unverified: file `")).count(), 2, "{}", read.stderr);
    assert!(read.stderr.contains("verified: 2 of 4 files"), "{}", read.stderr);
}

#[test]
fn a_swapped_file_of_a_table_is_found_by_query_and_verify() {
    let fixture = Fixture::new();
    fixture.run("one").success();
    let files = files_of(&fixture, "outcome_fact");
    let [file] = files.as_slice() else { panic!("one file: {files:?}") };
    let whole = fs::read(file).expect("the file is there");
    write_file(file, &crate::tamper::flip_bit(&whole));
    let refused = fixture.assay(&["query", "SELECT count(*) FROM outcomes"]).refuses(20, "warehouse");
    assert!(refused.stderr.contains("was changed"), "{}", refused.stderr);
    fixture.verify("one").refuses(20, "warehouse");
    write_file(file, &whole);
    fixture.verify("one").success();
    fixture.assay(&["query", "SELECT count(*) FROM outcomes"]).success();
}

/// Returns the file with another largest `value` in its statistics and page indices, if they hold one. The rows stay unchanged.
fn with_false_statistics(file: &[u8]) -> Vec<u8> {
    let rows = assay_warehouse::read(&assay_warehouse::OUTCOME_FACT, file.to_vec()).expect("curated rows");
    let values = || {
        rows.iter().filter_map(|row| match row.get("value") {
            Some(assay_warehouse::Value::Float(value)) => Some(*value),
            _ => None,
        })
    };
    let [largest, smallest] = [values().fold(f64::MIN, f64::max), values().fold(f64::MAX, f64::min)].map(f64::to_le_bytes);
    let mut told = 0;
    let mut file = file.to_vec();
    for place in 0..file.len() - 8 {
        if file[place..place + 8] == largest {
            file[place..place + 8].copy_from_slice(&smallest);
            told += 1;
        }
    }
    assert!(told >= 2, "the largest value stands in {told} places");
    file
}

#[test]
fn a_query_reads_rows_and_not_what_their_file_says_of_them() {
    let bench = Bench::with_runs();
    fs::remove_dir_all(bench.store().join("runs/two")).expect("a second run");
    let lie = |bench: &Bench, manifest: &mut Value| {
        replace_artifact(bench, manifest, "rows/outcome_fact.parquet", |file| with_false_statistics(&file));
    };
    let forgery = Forgery::forge_in(bench, "reduce", lie, |_| {});
    assert_eq!(forgery.refused_by(), None, "the rows are those of the Summary");
    let honest = Bench::with_runs();
    let largest = honest.query("SELECT max(value) FROM outcome_fact WHERE run_id = 'one'").success().stdout;
    let largest = largest.lines().nth(1).expect("a value").to_owned();
    // An engine that trusted the file would skip it, because its largest value is stated as its smallest one.
    for sql in [
        format!("SELECT metric, statistic, value FROM outcome_fact WHERE run_id = 'one' AND value >= {largest}"),
        format!("SELECT count(*) FROM outcome_fact WHERE run_id = 'one' AND value > {largest} / 2"),
        "SELECT max(value) FROM outcome_fact WHERE run_id = 'one'".to_owned(),
        "SELECT metric, value FROM outcome_fact WHERE run_id = 'one' ORDER BY value DESC, metric LIMIT 3".to_owned(),
    ] {
        assert_eq!(forgery.query(&sql).success().stdout, honest.query(&sql).success().stdout, "{sql}");
    }
    assert_eq!(forgery.describe_detection(4), "verify: recompute_differs");
}

#[test]
fn a_warehouse_that_was_made_anew_is_not_the_pinned_one() {
    let fixture = Fixture::new();
    fixture.run("one").success();
    let verified = fixture.verify("one").success().stdout;
    assert!(verified.contains("curated files in the warehouse at the pinned versions"), "{verified}");
    let address = text(&numbers(&fixture, "one")[0]["address"]).to_owned();
    fs::remove_dir_all(fixture.store().join("warehouse/outcome_fact")).expect("the table can be removed");
    fixture.verify("one").exits(20);
    fixture.assay(&["trace", &address]).exits(20);
    // Another run creates the table anew, with other files in the same versions.
    fixture.run("two").success();
    let refused = fixture.verify("one").refuses(20, "not_in_snapshot");
    assert!(refused.stderr.contains("is not in the warehouse's table `outcome_fact` at version 1"), "{}", refused.stderr);
}

#[test]
fn a_warehouse_that_was_rolled_back_is_not_read_as_if_nothing_were_missing() {
    let fixture = Fixture::new();
    fixture.run("one").success();
    let (warehouse, kept) = (fixture.store().join("warehouse"), fixture.root().join("kept"));
    copy_folder(&warehouse, &kept);
    fixture.run("two").success();
    let sql = "SELECT count(DISTINCT run_id) AS runs FROM outcomes";
    assert_eq!(fixture.assay(&["query", sql, "--format", "csv"]).success().stdout, "runs\n2\n");
    fs::remove_dir_all(&warehouse).expect("the tables can be removed");
    copy_folder(&kept, &warehouse);
    let refused = fixture.assay(&["query", sql]).refuses(20, "warehouse");
    assert!(refused.stderr.contains("run `two` was published with version 2"), "{}", refused.stderr);
    let read = fixture.assay(&["query", sql, "--unverified", "--format", "csv"]).exits(20);
    assert_eq!(read.stdout, "runs\n1\n");
    assert!(read.stderr.contains("the result says less than the tables should"), "{}", read.stderr);
}

#[test]
fn a_query_that_takes_too_much_harms_nobody() {
    let fixture = measured_fixture();
    let sql = "SELECT length(repeat('x', 2147483647)) + length(repeat('y', 2147483646)) AS n";
    fixture.assay(&["query", sql]).refuses(2, "query_too_large");
}

#[test]
fn a_finished_run_adds_nothing_again() {
    let fixture = Fixture::new();
    fixture.run("one").success();
    let before = files_under(&fixture.store().join("warehouse"));
    fixture.run("one").success();
    assert_eq!(files_under(&fixture.store().join("warehouse")), before);
    // Publish has no record of its result and runs again: it finds what it committed.
    fs::remove_dir_all(fixture.store().join("runs/one/publish")).expect("the pointer can be removed");
    fixture.run("one").success();
    assert_eq!(files_under(&fixture.store().join("warehouse")), before);
    fixture.verify("one").success();
}

#[test]
fn a_run_is_exported_in_every_format() {
    let fixture = measured_fixture();
    let folder = tempfile::tempdir().expect("a folder");
    // Trials this short have rows of `telemetry_slice_fact` only if the recorder sampled during one of them.
    let tables = list(&fixture.manifest("one", "reduce")["body"]["files"]).len();
    assert!(tables == 8 || tables == 9, "{tables} tables");
    for (format, extension) in [("csv", "csv"), ("json", "jsonl"), ("parquet", "parquet")] {
        let to = folder.path().join(format);
        let to = to.to_str().expect("UTF-8");
        fixture.assay(&["export", "one", "--format", format, "--to", to]).success();
        let made = fs::read_dir(to).expect("the folder is made").count();
        assert_eq!(made, tables, "a file for each table with rows");
        let file = folder.path().join(format).join(format!("outcome_fact.{extension}"));
        let bytes = fs::read(file).expect("the table's file");
        match format {
            "parquet" => {
                let digest = assay_manifest::Digest::compute(&bytes).to_string();
                let files = fixture.manifest("one", "reduce")["body"]["files"].clone();
                assert!(list(&files).iter().any(|file| text(&file["artifact"]["digest"]) == digest), "byte for byte");
            }
            "json" => {
                let rows: Vec<Value> =
                    String::from_utf8_lossy(&bytes).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
                let asked =
                    fixture.assay(&["query", "SELECT count(*) AS n FROM outcome_fact WHERE run_id = 'one'", "--format", "json"]);
                assert_eq!(asked.success().stdout.trim(), format!("{{\"n\":{}}}", rows.len()));
                assert!(rows.iter().all(|row| row["run_id"] == "one"));
            }
            _ => assert!(String::from_utf8_lossy(&bytes).starts_with("run_id,benchmark_case_id,")),
        }
        fixture.assay(&["export", "one", "--to", to]).refuses(2, "unwritable");
    }
    let one = fixture.assay(&["export", "one", "--table", "workload_dim", "--to", "-"]).success();
    assert_eq!(one.stdout.lines().count(), 3, "a header and two workloads");
    fixture.assay(&["export", "one", "--to", "-"]).refuses(2, "several_tables");
    fixture.assay(&["export", "one", "--table", "training_outcome_fact"]).refuses(2, "unknown_table");
}

#[test]
fn without_trust_a_query_says_that_the_signer_is_not_established() {
    let mut fixture = Fixture::new();
    fixture.run("one").success();
    let elsewhere = fixture.root().join("nobody");
    fs::create_dir_all(&elsewhere).expect("a folder");
    fixture.set("ASSAY_CONFIG", elsewhere.into_os_string());
    let asked = fixture.assay(&["query", "SELECT count(*) FROM outcomes"]).exits(21);
    assert!(asked.stderr.contains("signer not established"), "{}", asked.stderr);
}
