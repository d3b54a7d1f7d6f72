//! Claims that one role falsifies with its own key, and the check that catches each: a signed falsehood, followed by results that
//! are all made honestly.

use assay_envelope::Predicate;
use assay_manifest::Digest;
use assay_warehouse::{ATTEMPT_FACT, BENCHMARK_RUN_FACT, OUTCOME_FACT, Value as Cell};
use serde_json::{Value, json};

use crate::forgery::{Forgery, replace_artifact, replace_rows};
use crate::pipeline::{list, text};
use crate::tamper::canonical;

fn zero() -> Value {
    json!(Digest::compute(b"another program"))
}

/// Returns the first metric of the first point.
fn metric(body: &mut Value) -> &mut Value {
    &mut body["points"][0]["metrics"][0]
}

#[test]
fn an_honest_run_that_is_signed_again_verifies() {
    for stage in ["source", "plan", "provision", "execute", "record", "collect", "reduce", "publish"] {
        let forgery = Forgery::forge_manifest(stage, |_| {});
        assert_eq!(forgery.describe_detection(4), "level 4 (recomputed) of 4 reached", "{stage}");
    }
}

#[test]
fn reduce_falsifies_a_row() {
    let falsify = |row: &mut assay_warehouse::Row| {
        let Some(Cell::Float(value)) = row.get("value").cloned() else { panic!("a value") };
        row.set("value", value * 10.0).expect("a column");
    };
    let across = Forgery::forge_rows(&OUTCOME_FACT, |rows| {
        rows.iter_mut().filter(|row| row.get("trial_id") == Some(&Cell::Null)).for_each(falsify);
    });
    assert_eq!(across.describe_detection(2), "publish: row_differs");
    let of_trials = Forgery::forge_rows(&OUTCOME_FACT, |rows| {
        rows.iter_mut().filter(|row| row.get("trial_id") != Some(&Cell::Null)).for_each(falsify);
    });
    assert_eq!(of_trials.describe_detection(2), "publish: row_differs");
    let runs = Forgery::forge_rows(&BENCHMARK_RUN_FACT, |rows| rows[0].set("git_commit", "a".repeat(40)).expect("a column"));
    assert_eq!(runs.describe_detection(2), "publish: row_differs");
    let attempts = Forgery::forge_rows(&ATTEMPT_FACT, |rows| rows[0].set("duration_ns", 1_i64).expect("a column"));
    assert_eq!(attempts.describe_detection(2), "publish: row_differs");
    let lost = Forgery::forge_rows(&OUTCOME_FACT, |rows| rows.truncate(3));
    assert_eq!(lost.describe_detection(2), "publish: summary_without_row");
}

#[test]
fn reduce_falsifies_row_and_summary_alike() {
    // A value that no manifest repeats is caught by recomputing it, whatever program the Summary names.
    for other_binary in [false, true] {
        let forgery = Forgery::forge("reduce", |bench, manifest| {
            replace_rows(bench, manifest, &OUTCOME_FACT, |rows| {
                let row = rows.iter_mut().find(|row| row.text("statistic") == Some("max") && row.text("trial_id").is_some());
                row.expect("a trial's largest sample").set("value", 9_999.0).expect("a column");
            });
            if other_binary {
                name_another_program(bench, manifest);
            }
        });
        assert_eq!(forgery.describe_detection(4), "verify: recompute_differs", "another program: {other_binary}");
    }
}

/// Writes another program's digest into Summary and rows.
fn name_another_program(bench: &crate::by_hand::Bench, manifest: &mut Value) {
    manifest["body"]["reduce_binary"] = zero();
    replace_rows(bench, manifest, &assay_warehouse::ARTIFACT_LINEAGE_DIM, |rows| {
        for row in rows {
            row.set("reduce_binary_digest", Digest::compute(b"another program")).expect("a column");
        }
    });
}

#[test]
fn reduce_names_another_program() {
    let honest = Forgery::forge("reduce", name_another_program);
    let ran = honest.verify(&["--recompute"]).success();
    assert!(ran.stdout.contains("level 4 (recomputed) of 4 reached"), "{}", ran.stdout);
    assert!(ran.stderr.contains("every row and field is compared, within a relative tolerance of 1e-9"), "{}", ran.stderr);
    let caught = |edit: fn(&mut Value)| {
        let forgery = Forgery::forge("reduce", |bench, manifest| {
            name_another_program(bench, manifest);
            edit(&mut manifest["body"]);
        });
        forgery.describe_detection(4)
    };
    assert_eq!(caught(|body| metric(body)["trials"].as_array_mut().expect("trials").swap(0, 1)), "verify: recompute_differs");
    assert_eq!(caught(|body| metric(body)["stability_reason"] = json!("calm")), "verify: recompute_differs");
    assert_eq!(caught(|body| metric(body)["trials"][0]["flagged"] = json!(true)), "verify: recompute_differs");
    assert_eq!(caught(|body| body["issues"] = json!([{"code": "drift", "detail": "none"}])), "publish: row_differs");
    // A value that the signed result never has is listed, and level 4 is not claimed.
    let partial = Forgery::forge("reduce", |bench, manifest| {
        name_another_program(bench, manifest);
        replace_rows(bench, manifest, &BENCHMARK_RUN_FACT, |rows| {
            for row in rows {
                row.set("confidence_level", Cell::Null).expect("a column");
            }
        });
    });
    let ran = partial.verify(&["--recompute"]).success();
    assert!(ran.stdout.ends_with("level 3 (raw bytes) of 4 reached; level 4 partial\n"), "{}", ran.stdout);
    let listed = "the column `benchmark_run_fact.confidence_level`: only the result computed now has it";
    assert!(ran.stdout.contains(listed), "{}", ran.stdout);
    let json = partial.verify(&["--recompute", "--json"]).success().json();
    assert_eq!((&json["level"], &json["recomputed"]["outcome"]), (&json!(3), &json!("partial")), "{json:#}");
}

#[test]
fn reduce_falsifies_a_statistic() {
    let caught = |edit: fn(&mut Value)| Forgery::forge_manifest("reduce", edit).describe_detection(2);
    assert_eq!(caught(|body| metric(body)["median"] = json!(1_000.0)), "publish: summary_contradicts_itself");
    assert_eq!(caught(|body| metric(body)["n"] = json!("300")), "publish: summary_contradicts_itself");
    assert_eq!(caught(|body| metric(body)["unit"] = json!("GB/s")), "publish: row_differs");
    assert_eq!(caught(|body| metric(body)["trials"][0]["value"] = json!(1.0)), "publish: summary_contradicts_itself");
    assert_eq!(caught(|body| metric(body)["primary"] = json!(false)), "publish: row_differs");
    assert_eq!(caught(|body| body["points"][0]["attempts"] = json!(1)), "publish: summary_contradicts_itself");
    assert_eq!(caught(|body| body["issues"] = json!([{"code": "drift", "detail": "none"}])), "publish: row_differs");
    assert_eq!(caught(|body| drop(body["points"].as_array_mut().expect("points").pop())), "publish: points_differ");
}

#[test]
fn plan_names_another_source() {
    let caught = |edit: fn(&mut Value)| Forgery::forge_manifest("plan", edit).describe_detection(1);
    assert_eq!(caught(|body| body["source"]["commit"] = json!("a".repeat(40))), "publish: plan_source_differs");
    assert_eq!(caught(|body| body["source"]["repository"] = json!("https://example.org/other")), "publish: plan_source_differs");
    assert_eq!(caught(|body| body["source"]["kind"] = json!("worktree")), "publish: plan_source_differs");
    assert_eq!(caught(|body| body["pipeline"]["digest"] = zero()), "publish: plan_source_differs");
    // If the two manifests do not decide it, the Source's files do.
    assert_eq!(caught(|body| body["trial_policy"]["retry_budget"] = json!(7)), "verify: plan_source_differs");
    assert_eq!(caught(|body| body["workloads"][0]["metrics"][0]["unit"] = json!("GB/s")), "verify: plan_source_differs");
    assert_eq!(caught(|body| body["workloads"][0]["indicator"]["time_limit_ns"] = json!("1")), "verify: plan_source_differs");
    assert_eq!(caught(|body| body["intent"] = json!("realism")), "verify: plan_source_differs");
    let script = |body: &mut Value| body["workloads"][0]["indicator"]["script"]["artifact"]["digest"] = zero();
    assert_eq!(caught(script), "publish: plan_source_differs");
}

#[test]
fn evidence_that_the_collection_alone_names_is_counted_apart() {
    let forgery = Forgery::forge("collect", |bench, manifest| {
        let body = &manifest["body"];
        let number = |value: &Value| text(value).parse::<u64>().expect("a number");
        let (count, bytes) = (number(&body["evidence_count"]) + 2, number(&body["evidence_bytes"]));
        let mut size = 0;
        replace_artifact(bench, manifest, "evidence.json", |list| {
            let mut list: Vec<Value> = serde_json::from_slice(&list).expect("a list");
            let mut entry = list[0].clone();
            size = number(&entry["size"]);
            for added in ["another name", "one more"] {
                entry["name"] = json!(added);
                list.push(entry.clone());
            }
            list.sort_by_key(|entry| text(&entry["name"]).to_owned());
            canonical(&Value::Array(list))
        });
        let body = &mut manifest["body"];
        (body["evidence_count"], body["evidence_bytes"]) = (json!(count.to_string()), json!((bytes + 2 * size).to_string()));
    });
    let said = forgery.verify(&[]).success().stdout;
    assert!(said.contains("; 2 of them nobody names but the collection\n"), "{said}");
}

#[test]
fn collect_leaves_evidence_out() {
    let emptied = Forgery::forge("collect", |bench, manifest| {
        replace_artifact(bench, manifest, "evidence.json", |_| b"[]".to_vec());
        (manifest["body"]["evidence_count"], manifest["body"]["evidence_bytes"]) = (json!("0"), json!("0"));
    });
    assert_eq!(emptied.describe_detection(3), "publish: evidence_incomplete");
    let miscounted = Forgery::forge_manifest("collect", |body| body["evidence_bytes"] = json!("1"));
    assert_eq!(miscounted.describe_detection(3), "publish: evidence");
}

#[test]
fn collect_invents_a_difference_between_blocks() {
    let forgery = Forgery::forge_manifest("collect", |body| {
        let block = json!({"index": 0, "incarnation": 0});
        body["drift"] = json!([{"what": "boot_id", "before": block, "after": block, "detail": "host `far`: a, then b"}]);
    });
    assert_eq!(forgery.describe_detection(2), "publish: drift_differs");
}

#[test]
fn publish_falsifies_what_people_read() {
    let report = Forgery::forge_artifact("publish", "report.html", |_| b"<p>ten times as fast</p>".to_vec());
    assert_eq!(report.describe_detection(2), "verify: report_differs");
    let markdown = Forgery::forge_artifact("publish", "report.md", |bytes| [bytes, b"faster\n".to_vec()].concat());
    assert_eq!(markdown.describe_detection(2), "verify: report_differs");
    let cut = Forgery::forge_artifact("publish", "numbers.json", |bytes| {
        let mut numbers: Value = serde_json::from_slice(&bytes).expect("JSON");
        numbers["numbers"].as_array_mut().expect("numbers").truncate(2);
        canonical(&numbers)
    });
    assert_eq!(cut.describe_detection(2), "verify: numbers_differ");
    let size = Forgery::forge_manifest("publish", |body| body["numbers"]["size"] = json!("1"));
    assert_eq!(size.describe_detection(2), "verify: size_differs");
    let renamed = Forgery::forge_manifest("publish", |body| body["reports"][0]["name"] = json!("readme.md"));
    assert_eq!(renamed.describe_detection(2), "verify: report_differs");
    let time = Forgery::forge_manifest("publish", |body| body["published_at"] = json!("2020-01-01T00:00:00.000000000Z"));
    assert_eq!(time.describe_detection(2), "verify: time_order");
    let twice = Forgery::forge_manifest("publish", |body| body["runs"][0]["outcome"] = json!("finished"));
    assert_eq!(twice.describe_detection(2), "verify: own_run_listed_otherwise");
    let key = Forgery::forge_manifest("publish", |body| drop(body["keys"].as_array_mut().expect("keys").pop()));
    assert_eq!(key.describe_detection(2), "verify: keys_differ");
}

#[test]
fn execute_measures_before_there_was_anything_to_measure() {
    let early = Forgery::forge_manifest("execute", |body| {
        body["attempts"][0]["window"]["start"] = json!("2020-01-01T00:00:00.000000000Z");
    });
    assert_eq!(early.describe_detection(2), "verify: time_order");
}

#[test]
fn sizes_of_raw_evidence_are_those_of_the_bytes() {
    let size = Forgery::forge_manifest("execute", |body| body["attempts"][0]["evidence"][0]["size"] = json!("1"));
    assert_eq!(size.describe_detection(3), "verify: size_differs");
}

/// A report of another version is listed as not compared, and the run does not fail.
#[test]
fn a_report_of_another_version_is_not_compared() {
    let of_another = |predicate: &mut Predicate| {
        let Predicate::VerificationSummary(summary) = predicate else { panic!("publish states a verification") };
        summary.verifier_binary = Digest::compute(b"another program");
    };
    let lie = |bench: &crate::by_hand::Bench, manifest: &mut Value| {
        replace_artifact(bench, manifest, "report.html", |_| b"<p>of another version</p>".to_vec());
    };
    let forgery = Forgery::forge_with_statement("publish", lie, of_another);
    let ran = forgery.verify(&[]).success();
    assert!(ran.stdout.contains("  --  report.html: report not compared: made by another version"), "{}", ran.stdout);
    let json = forgery.verify(&["--json"]).success().json();
    let not_compared = list(&json["levels"][0]["report"]["not_compared"]);
    assert_eq!(not_compared.len(), 1, "{json:#}");
    assert!(text(&not_compared[0]).starts_with("report.html: "), "{json:#}");
    // A report that can be reproduced to the byte is not listed, whichever version made it.
    let same = Forgery::forge_with_statement("publish", |_, _| {}, of_another).verify(&[]).success();
    assert!(!same.stdout.contains("not compared"), "{}", same.stdout);
}

#[test]
fn provision_tells_of_a_target_twice() {
    let forgery = Forgery::forge_manifest("provision", |body| {
        let targets = body["targets"].as_array_mut().expect("targets");
        targets.push(targets[0].clone());
    });
    assert_eq!(forgery.describe_detection(2), "publish: environment_twice");
}
