use assay_envelope::{SecretKey, TrustedSigner};
use assay_manifest::{Interval, IntervalKind};
use serde_json::json;

use super::*;

fn summary() -> Summary {
    let digest = Digest::compute(b"");
    let row = |statistic: &str| Digest::compute(statistic.as_bytes());
    let all = ["median", "mean", "min", "max", "sd", "cv", "ci_low", "ci_high"];
    let rows: serde_json::Map<_, _> = all.iter().map(|name| ((*name).to_owned(), json!(row(name)))).collect();
    let metric = json!({
        "metric": "rate", "unit": "GB/s", "better": "higher", "primary": true, "n": "5", "median": 3.0, "mean": 3.5,
        "sd": 0.5, "cv": 0.1, "min": 1.0, "max": 5.0, "stability": "stable", "stability_reason": "calm", "rows": rows,
        "trials": [],
    });
    let point = json!({
        "case_id": "w.t.default", "point_id": "one", "workload_type": "indicator", "workload_spec_digest": digest,
        "value": {}, "trials_planned": 5, "trials_counted": 5, "attempts": 5, "excluded": [], "metrics": [metric],
    });
    let artifact = |name: &str| json!({"name": name, "digest": Digest::compute(name.as_bytes()), "size": "1", "media_type": "application/vnd.apache.parquet"});
    let file = |table: &str| json!({"table": table, "rows": "1", "artifact": artifact(table)});
    let summary = json!({
        "plan_digest": digest, "artifact_manifest_digest": digest, "reduce_binary": digest, "status": "succeeded",
        "issues": [], "points": [point], "files": [file("workload_dim"), file("outcome_fact")],
    });
    let mut summary: Summary = serde_json::from_value(summary).expect("a summary");
    let interval = Interval {
        low: 2.5,
        high: 4.5,
        level: 0.95,
        method: "order_statistic".to_owned(),
        kind: IntervalKind::BetweenTrials,
        sessions: None,
    };
    summary.points[0].metrics[0].interval = Some(interval);
    summary
}

fn compute_numbers(summary: &Summary) -> Result<Vec<Number>> {
    let run_id = "nightly".parse().expect("a run id");
    summary_numbers(&run_id, summary)
}

#[test]
fn every_statistic_becomes_a_number_with_its_lineage() {
    let numbers = compute_numbers(&summary()).expect("numbers");
    let lines: Vec<_> = numbers
        .iter()
        .map(|number| {
            let Number { benchmark_case_id, point_id, metric, statistic, value, unit, n, .. } = number;
            format!("{benchmark_case_id} {point_id} {metric} {statistic} {value} {unit} n={n}")
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    w.t.default one rate median 3 GB/s n=5
    w.t.default one rate mean 3.5 GB/s n=5
    w.t.default one rate min 1 GB/s n=5
    w.t.default one rate max 5 GB/s n=5
    w.t.default one rate sd 0.5 GB/s n=5
    w.t.default one rate cv 0.1 ratio n=5
    w.t.default one rate ci_low 2.5 GB/s n=5
    w.t.default one rate ci_high 4.5 GB/s n=5
    ");
    assert!(numbers.iter().all(|number| number.file == Digest::compute(b"outcome_fact")), "the file that holds the row");
    let first = &numbers[0];
    assert_eq!(first.address, format!("nightly/outcome_fact/{}/value", Digest::compute(b"median").short()));
}

#[test]
fn what_could_not_be_computed_is_no_number() {
    let mut summary = summary();
    let metric = &mut summary.points[0].metrics[0];
    (metric.sd, metric.cv, metric.interval) = (None, None, None);
    let statistics: Vec<_> = compute_numbers(&summary).expect("numbers").into_iter().map(|number| number.statistic).collect();
    assert_eq!(statistics, ["median", "mean", "min", "max"]);
}

#[test]
fn a_number_without_a_row_is_refused_and_not_left_out() {
    let mut without_row = summary();
    without_row.points[0].metrics[0].rows.remove("mean");
    insta::assert_snapshot!(assay_failure::Failure::from(compute_numbers(&without_row).expect_err("no row")), @"error[number_without_row]: the summary names no row for `rate` of w.t.default at `one`");
    let mut without_file = summary();
    without_file.files.pop();
    insta::assert_snapshot!(assay_failure::Failure::from(compute_numbers(&without_file).expect_err("no file")), @"error[number_without_row]: the summary names no file for `rate` of w.t.default at `one`");
}

#[test]
fn a_run_without_metrics_has_no_numbers() {
    let mut summary = summary();
    summary.points[0].metrics.clear();
    summary.files.clear();
    assert_eq!(compute_numbers(&summary).expect("no numbers"), []);
}

fn key() -> PublicKey {
    SecretKey::generate().expect("a key").public_key()
}

fn names(signers: Vec<TrustedSigner>, used: &[Role]) -> Vec<String> {
    let policy = TrustPolicy::from_signers("team", signers);
    key_files(&policy, &used.iter().copied().collect()).into_keys().collect()
}

#[test]
fn each_role_that_signed_has_its_key() {
    let all = vec![TrustedSigner::new("a", key(), [Role::Plan, Role::Gate]), TrustedSigner::new("b", key(), [Role::Reduce])];
    assert_eq!(names(all.clone(), &[Role::Plan, Role::Reduce]), ["keys/plan.pub", "keys/reduce.pub"]);
    assert_eq!(names(all, &[]), Vec::<String>::new());
}

#[test]
fn keys_of_one_role_stand_beside_each_other() {
    let [first, second] = [key(), key()];
    let other = format!("keys/plan-{}.pub", second.fingerprint().short());
    let sign = |name, key: &PublicKey| TrustedSigner::new(name, key.clone(), [Role::Plan]);
    // The last two are the second key and the first, each again for another window of time.
    let all = vec![sign("a", &first), sign("b", &second), sign("b-later", &second), sign("a-later", &first)];
    assert_eq!(names(all, &[Role::Plan]), [other, "keys/plan.pub".to_owned()]);
}
