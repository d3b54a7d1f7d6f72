use std::collections::BTreeSet;

use assay_warehouse::ROW_ID;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::aggregate::summarise;
use crate::fixture::{PrintedAttempt, Run, attempt, invalid, place, printed, run};

fn rows(run: &Run) -> (PointSummary, Vec<Row>) {
    let (case, trials) = (&run.plan.cases[0], run.trials());
    let mut point =
        summarise(&run.plan.workloads[0], case, &case.points[0], &trials, Digest::compute(b"collection")).expect("a summary");
    let rows = outcome_rows(&run.context(), &run.dimensions(), &trials, &mut point).expect("rows");
    (point, rows)
}

fn shown(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::Text(text)) => text.clone(),
        Some(Value::Int(number)) => number.to_string(),
        Some(Value::Float(number)) => number.to_string(),
        Some(Value::Bool(truth)) => truth.to_string(),
        Some(Value::Instant(instant)) => instant.unix_ns().to_string(),
    }
}

fn line(row: &Row, columns: &[&str]) -> String {
    columns.iter().map(|column| shown(row.get(column))).collect::<Vec<_>>().join(" ")
}

const OUTCOME: [&str; 10] = ["point_id", "trial_id", "attempt", "metric", "statistic", "value", "unit", "n", "valid", "better"];

#[test]
fn a_run_becomes_rows() {
    let again = [invalid(json!({"rate": 99})), printed(json!({"rate": [1, 2, 6], "extra": 5}))];
    let rates = [2.0, 3.0, 4.0, 5.0].map(|rate| vec![printed(json!({"rate": rate}))]);
    let trials: Vec<&[PrintedAttempt]> = std::iter::once(again.as_slice()).chain(rates.iter().map(Vec::as_slice)).collect();
    let (_, rows) = rows(&run(&trials));
    let lines: Vec<_> = rows.iter().map(|row| line(row, &OUTCOME)).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    one w.t.default.one.t0 0 rate median 99 GB/s 1 false higher
    one w.t.default.one.t0 1 rate median 2 GB/s 3 true higher
    one w.t.default.one.t0 1 rate mean 3 GB/s 3 true higher
    one w.t.default.one.t0 1 rate min 1 GB/s 3 true higher
    one w.t.default.one.t0 1 rate max 6 GB/s 3 true higher
    one w.t.default.one.t0 1 rate sd 2.6457513110645907 GB/s 3 true higher
    one w.t.default.one.t0 1 extra median 5 unknown 1 true -
    one w.t.default.one.t1 0 rate median 2 GB/s 1 true higher
    one w.t.default.one.t2 0 rate median 3 GB/s 1 true higher
    one w.t.default.one.t3 0 rate median 4 GB/s 1 true higher
    one w.t.default.one.t4 0 rate median 5 GB/s 1 true higher
    one - - rate median 3 GB/s 5 true higher
    one - - rate mean 3.2 GB/s 5 true higher
    one - - rate min 2 GB/s 5 true higher
    one - - rate max 5 GB/s 5 true higher
    one - - rate sd 1.3038404810405297 GB/s 5 true higher
    one - - rate cv 0.4074501503251655 ratio 5 true higher
    one - - rate ci_low 2 GB/s 5 true higher
    one - - rate ci_high 5 GB/s 5 true higher
    one - - extra median 5 unknown 1 true -
    one - - extra mean 5 unknown 1 true -
    one - - extra min 5 unknown 1 true -
    one - - extra max 5 unknown 1 true -
    ");
}

#[test]
fn a_row_says_where_its_attempt_was_measured() {
    let attempts = [printed(json!({"rate": 1}))];
    let of = |nodes: &[&str]| {
        let run = run(&[&attempts]);
        let (planned, found) = &run.context().attempts.0[0];
        let shard = |node: &&str| ShardAttempt {
            collected: found[0].collected.clone(),
            attempt: Attempt { place: Some(place(node, node)), ..attempt(planned, 0, true) },
        };
        let shards: Vec<_> = nodes.iter().map(shard).collect();
        let (point, _) = rows(&run);
        let told = Outcome {
            shards: &shards.iter().collect::<Vec<_>>(),
            trial_of_loads: None,
            metric: "rate",
            unit: "GB/s",
            better: None,
            primary: true,
            statistic: "median",
            value: 1.0,
            n: 1,
            valid: true,
            interval: None,
        };
        let row = outcome(&run.context(), &run.dimensions(), &point, &told).expect("a row");
        line(&row, &["trial_id", "node_name", "pod_uid", "job_uid"])
    };
    assert_eq!(of(&["a"]), "w.t.default.one.t0 a a-uid job-uid");
    assert_eq!(of(&["a", "b"]), "w.t.default.one.t0 - - job-uid", "two shards on two nodes");
    assert_eq!(of(&[]), "- - - -", "across trials");
}

#[test]
fn the_summary_names_the_row_of_each_of_its_numbers() {
    let (point, rows) = rows(&run(&[&[printed(json!({"rate": 1, "extra": [2, 3]}))], &[printed(json!({"rate": 2}))]]));
    let value = |id: &Digest| {
        let row = rows.iter().find(|row| row.text(ROW_ID) == Some(&id.hex())).expect("the row is there");
        shown(row.get("value"))
    };
    for metric in &point.metrics {
        for (statistic, number) in metric.statistics() {
            assert_eq!(value(&metric.rows[statistic]), number.to_string(), "{} {statistic}", metric.metric);
        }
        for trial in &metric.trials {
            assert_eq!(value(&trial.row_id), trial.value.to_string(), "{}", trial.trial_id);
        }
    }
}

#[test]
fn a_value_whose_row_was_not_made_is_no_value() {
    let run = run(&[&[printed(json!({"rate": 1}))]]);
    let (mut point, _) = rows(&run);
    for trial in &mut point.metrics[0].trials {
        trial.row_id = unset_row();
    }
    let failure = outcome_rows(&run.context(), &run.dimensions(), &[], &mut point).expect_err("no row");
    assert_eq!(failure.message, "a value of trial `w.t.default.one.t0` got no row");
}

fn run_row_of(run: &Run, findings: &Findings) -> Row {
    let (point, _) = rows(run);
    let mut rows = run_rows(&run.context(), &run.dimensions(), &[point], findings).expect("rows");
    assert_eq!(rows.len(), 1, "one for each case");
    rows.remove(0)
}

fn nothing_found() -> Findings {
    Findings { publication_safe: false, issues: Vec::new() }
}

const RUN: [&str; 11] = [
    "status",
    "success",
    "completeness",
    "started_unix_ns",
    "finished_unix_ns",
    "trials_planned",
    "trials_counted",
    "attempts",
    "stable",
    "publication_safe",
    "issues",
];

#[test]
fn a_case_becomes_a_row_of_its_run() {
    let calm = [10.0, 10.1, 9.9, 10.05, 9.95].map(|rate| vec![printed(json!({"rate": rate}))]);
    let trials: Vec<_> = calm.iter().map(Vec::as_slice).collect();
    insta::assert_snapshot!(line(&run_row_of(&run(&trials), &nothing_found()), &RUN), @"succeeded true 1 0 450 5 5 5 true false -");

    let some = [vec![printed(json!({"rate": 1}))], vec![invalid(json!({"rate": 1}))]];
    let trials: Vec<_> = some.iter().map(Vec::as_slice).collect();
    let issues = vec![Reason::new("trials_missing", "1 of 2")];
    insta::assert_snapshot!(line(&run_row_of(&run(&trials), &Findings { publication_safe: true, issues }), &RUN), @r#"partial false 0.5 0 150 2 1 2 - true [{"code":"trials_missing","detail":"1 of 2"}]"#);

    insta::assert_snapshot!(line(&run_row_of(&run(&[&[], &[]]), &nothing_found()), &RUN), @"failed false 0 - - 2 0 0 - false -");
}

#[test]
fn every_column_has_a_writer() {
    let trials = [vec![printed(json!({"rate": [10, 20]}))], vec![printed(json!({"rate": 11}))]];
    let mut run = run(&trials.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let mut plan = serde_json::to_value(&run.plan).expect("json");
    plan["pipeline"]["labels"] = json!({"cadence": "nightly", "layer": "end_to_end", "use_case": "chat"});
    plan["workloads"][0]["owner"] = json!("team");
    plan["workloads"][0]["labels"] = json!({"layer": "micro"});
    plan["source"]["repository"] = json!("https://example.org/repository");
    let side = |variant: &str| json!({"target": "t", "variant": variant});
    plan["comparison"] = json!({"baseline": side("default"), "candidate": side("fast"), "variable_under_test": "model"});
    plan["claim"] = json!({"methodology": "as written", "representative": true, "statement": "all"});
    run.plan = serde_json::from_value(plan).expect("a plan");
    let findings = Findings { publication_safe: true, issues: vec![Reason::new("trials_missing", "1 of 2")] };
    let row = run_row_of(&run, &findings);
    let place = ["job_uid", "pod_uid", "node_name"];
    let when_trials_disagree_or_agree = ["stable"];
    let but: Vec<_> = place.iter().chain(&when_trials_disagree_or_agree).copied().collect();
    crate::fixture::assert_filled(&BENCHMARK_RUN_FACT, std::slice::from_ref(&row), &but);
    assert_eq!(
        ["cadence", "layer", "use_case", "owner"].map(|column| shown(row.get(column))),
        ["nightly", "micro", "chat", "team"],
        "a workload's own label takes precedence"
    );
    let (_, rows) = rows(&run);
    let of_five_trials = ["interval_kind"];
    let but: Vec<_> = place.iter().chain(&of_five_trials).copied().collect();
    crate::fixture::assert_filled(&OUTCOME_FACT, &rows, &but);
}

#[test]
fn a_case_without_a_point_is_refused_by_name() {
    let run = run(&[&[]]);
    let failure = run_rows(&run.context(), &run.dimensions(), &[], &nothing_found()).expect_err("no point");
    insta::assert_snapshot!(failure, @"error[plan]: the case `w.t.default` has no point");
}

#[test]
fn every_dimension_row_is_there_and_named_by_the_facts() {
    let run = run(&[&[printed(json!({"rate": 1}))]]);
    let (_, rows) = rows(&run);
    let dimensions = run.dimensions();
    let keys = ["software_version_key", "hardware_topology_key", "cluster_region_key", "workload_key", "artifact_lineage_key"];
    let ids: Vec<String> = dimensions.into_files().iter().map(|(_, rows)| shown(rows[0].get(ROW_ID))).collect();
    assert_eq!(keys.map(|key| shown(rows[0].get(key))).to_vec(), ids);
}

/// The values that an attempt printed, by metric, and whether it is valid.
type SomeAttempt = (Vec<(String, Vec<f64>)>, bool);

/// Attempts of some trials, each with some metrics.
fn some_run() -> impl Strategy<Value = Vec<Vec<SomeAttempt>>> {
    let metric = ("(rate|size|[a-c]([.][0-9])?)", prop::collection::vec(-1e9_f64..1e9, 1..4));
    let attempt =
        (prop::collection::btree_map(metric.0, metric.1, 0..5).prop_map(|map| map.into_iter().collect()), any::<bool>());
    prop::collection::vec(prop::collection::vec(attempt, 0..3), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_two_rows_of_a_run_have_one_id(trials in some_run()) {
        let trials: Vec<Vec<PrintedAttempt>> = trials
            .into_iter()
            .map(|attempts| {
                let mut open = true;
                let attempts = attempts.into_iter().map(|(metrics, valid)| {
                    // The first valid attempt counts.
                    let counts = open && valid;
                    open = open && !valid;
                    let result: serde_json::Map<_, _> = metrics.into_iter().map(|(name, samples)| (name, json!(samples))).collect();
                    PrintedAttempt { result: result.into(), counts }
                });
                attempts.collect()
            })
            .collect();
        let (point, rows) = rows(&run(&trials.iter().map(Vec::as_slice).collect::<Vec<_>>()));
        let ids: BTreeSet<_> = rows.iter().map(|row| row.text(ROW_ID).expect("an id")).collect();
        prop_assert_eq!(ids.len(), rows.len());
        let numbers = point.metrics.iter().map(|metric| metric.statistics().len()).sum::<usize>();
        let across = rows.iter().filter(|row| row.get("trial_id") == Some(&Value::Null));
        prop_assert_eq!(across.count(), numbers, "a row for every number of the summary");
    }
}
