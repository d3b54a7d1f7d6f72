use assay_manifest::Digest;
use assay_warehouse::OUTCOME_FACT;
use serde_json::json;

use super::*;

/// A result of reduce that a test changes before it is compared with the unchanged one.
#[derive(Clone)]
struct ReduceOutput {
    summary: Summary,
    tables: Tables,
    views: Json,
}

impl ReduceOutput {
    fn new(binary: &str) -> Self {
        let digest = Digest::compute(b"");
        let metric = |name: &str| {
            json!({
                "metric": name, "unit": "GB/s", "better": "higher", "primary": true, "n": "2", "median": 3.0, "mean": 3.0,
                "sd": 0.5, "min": 2.5, "max": 3.5, "stability": "stable", "stability_reason": "calm", "rows": {"median": digest},
                "trials": [
                    {"trial_id": "w.t.default.one.t0", "attempt": 0, "value": 2.5, "n": "3", "flagged": false, "row_id": digest},
                    {"trial_id": "w.t.default.one.t1", "attempt": 0, "value": 3.5, "n": "3", "flagged": false, "row_id": digest},
                ],
            })
        };
        let point = json!({
            "case_id": "w.t.default", "point_id": "one", "workload_type": "indicator", "workload_spec_digest": digest,
            "value": {"threads": "4"}, "trials_planned": 2, "trials_counted": 2, "attempts": 2, "excluded": [],
            "metrics": [metric("rate"), metric("size")],
        });
        let artifact = json!({"name": "rows", "digest": Digest::compute(binary.as_bytes()), "size": "1", "media_type": "p"});
        let summary = json!({
            "plan_digest": digest, "artifact_manifest_digest": digest, "reduce_binary": Digest::compute(binary.as_bytes()),
            "status": "succeeded", "issues": [{"code": "drift", "detail": "`boot_id` differs"}], "points": [point],
            "files": [{"table": "outcome_fact", "rows": "2", "artifact": artifact}],
        });
        let rows = vec![row("rate", 3.0), row("size", 3.0)];
        Self {
            summary: serde_json::from_value(summary).expect("a summary"),
            tables: [(OUTCOME_FACT.name, rows)].into(),
            views: json!({"points": [{"curves": [{"metric": "ttft", "quantiles": [[0.5, 1.0]]}]}]}),
        }
    }

    fn result(&self) -> ReduceResult<'_> {
        ReduceResult { summary: &self.summary, tables: &self.tables, views: Some(&self.views) }
    }
}

fn row(metric: &str, value: f64) -> Row {
    let digest = Digest::compute(b"");
    let build = || {
        Row::new(&OUTCOME_FACT)
            .with("run_id", "nightly")?
            .with("benchmark_case_id", "w.t.default")?
            .with("workload_spec_digest", digest)?
            .with("artifact_manifest_digest", digest)?
            .with("software_version_key", "s")?
            .with("hardware_topology_key", "h")?
            .with("cluster_region_key", "c")?
            .with("workload_key", "w")?
            .with("artifact_lineage_key", "l")?
            .with("point_id", "one")?
            .with("metric", metric)?
            .with("statistic", "median")?
            .with("value", value)?
            .with("unit", "GB/s")?
            .with("n", 2_i64)?
            .with("valid", true)?
            .with("primary", true)?
            .seal()
    };
    build().expect("a whole row")
}

/// Returns the outcome of comparing another program's signed result after a change, as text.
fn compare_changed(change: impl FnOnce(&mut ReduceOutput)) -> String {
    let (mut signed, again) = (ReduceOutput::new("then"), ReduceOutput::new("now"));
    change(&mut signed);
    match compare_results(&signed.result(), &again.result()) {
        Ok(RecomputeOutcome::Reached) => "reached".to_owned(),
        Ok(RecomputeOutcome::Partial { only_signed, only_recomputed }) => {
            format!("partial: signed {only_signed:?}, recomputed {only_recomputed:?}")
        }
        Err(error) => format!("{}: {error}", error.code()),
    }
}

#[test]
fn another_program_gives_the_same_but_for_the_last_digits() {
    assert_eq!(compare_changed(|_| {}), "reached");
    let last_digit = 3.000_000_000_000_000_4;
    assert_eq!(compare_changed(|made| made.summary.points[0].metrics[0].median = last_digit), "reached");
    assert_eq!(
        compare_changed(|made| made.tables.get_mut("outcome_fact").expect("rows")[0] = row("rate", last_digit)),
        "reached"
    );
}

#[test]
fn every_field_of_the_summary_is_compared() {
    let differs = |change: fn(&mut ReduceOutput)| {
        let said = compare_changed(change);
        said.strip_prefix("recompute_differs: reduce, run again, gives a different result: ")
            .unwrap_or_else(|| panic!("{said}"))
            .to_owned()
    };
    insta::assert_snapshot!(differs(|made| made.summary.points[0].metrics[0].median = 3.000_001), @"the summary.points[w.t.default one].metrics[rate].median differs");
    insta::assert_snapshot!(differs(|made| made.summary.issues.clear()), @"the summary.issues[0] differs");
    insta::assert_snapshot!(differs(|made| made.summary.points[0].metrics[0].trials.swap(0, 1)), @"the order of the summary.points[w.t.default one].metrics[rate].trials differs");
    insta::assert_snapshot!(differs(|made| made.summary.points[0].metrics[1].trials[0].value = 3.5), @"the summary.points[w.t.default one].metrics[size].trials[w.t.default.one.t0 0].value differs");
    insta::assert_snapshot!(differs(|made| drop(made.summary.points[0].metrics[0].trials.pop())), @"the summary.points[w.t.default one].metrics[rate].trials[w.t.default.one.t1 0] differs");
    insta::assert_snapshot!(differs(|made| made.summary.points[0].attempts = 3), @"the summary.points[w.t.default one].attempts differs");
    insta::assert_snapshot!(differs(|made| made.summary.points[0].metrics[0].unit = "MB/s".to_owned()), @"the summary.points[w.t.default one].metrics[rate].unit differs");
    insta::assert_snapshot!(differs(|made| made.summary.points[0].metrics[0].sd = None), @"the summary.points[w.t.default one].metrics[rate].sd differs");
    insta::assert_snapshot!(differs(|made| made.summary.points.clear()), @"the summary.points[w.t.default one] differs");
    insta::assert_snapshot!(differs(|made| made.summary.points[0].value.clear()), @"the summary.points[w.t.default one].value.threads differs");
    insta::assert_snapshot!(differs(|made| made.views["points"][0]["curves"][0]["quantiles"][0][1] = json!(2.0)), @"the views.views.points[ ].curves[ttft].quantiles[0][1] differs");
}

#[test]
fn every_row_is_compared() {
    let code = |change: fn(&mut Vec<Row>)| {
        let said = compare_changed(|made| change(made.tables.get_mut("outcome_fact").expect("rows")));
        said.split(": ").next().unwrap_or_default().to_owned()
    };
    assert_eq!(code(|rows| rows[0] = row("rate", 30.0)), "recompute_differs");
    assert_eq!(code(|rows| rows[0].set("n", 5_i64).expect("a column")), "recompute_differs");
    assert_eq!(code(|rows| rows[0].set("valid", false).expect("a column")), "recompute_differs");
}

#[test]
fn what_only_one_program_knows_is_listed() {
    assert_eq!(
        compare_changed(|made| made.summary.points[0].metrics.truncate(1)),
        r#"partial: signed [], recomputed ["the summary.points[].metrics[size]"]"#
    );
    assert_eq!(
        compare_changed(|made| made.tables.get_mut("outcome_fact").expect("rows").truncate(1)),
        r#"partial: signed [], recomputed ["rows of `outcome_fact` for `size`, `median`"]"#
    );
    assert_eq!(
        compare_changed(|made| made.tables.get_mut("outcome_fact").expect("rows").push(row("area", 1.0))),
        r#"partial: signed ["rows of `outcome_fact` for `area`, `median`"], recomputed []"#
    );
    let said_of_column = compare_changed(|made| {
        for row in made.tables.get_mut("outcome_fact").expect("rows") {
            row.set("better", "higher").expect("a column");
        }
    });
    assert_eq!(said_of_column, r#"partial: signed ["the column `outcome_fact.better`"], recomputed []"#);
    assert_eq!(compare_changed(|made| made.tables.clear()), r#"partial: signed [], recomputed ["the table `outcome_fact`"]"#);
    let without = compare_changed(|made| made.summary.points[0].metrics.iter_mut().for_each(|metric| metric.sd = None));
    assert_eq!(without, r#"partial: signed [], recomputed ["the summary.points[].metrics[].sd"]"#);
}

#[test]
fn the_same_program_gives_the_same_bytes() {
    let (signed, again) = (ReduceOutput::new("now"), ReduceOutput::new("now"));
    assert_eq!(compare_results(&signed.result(), &again.result()).expect("the same"), RecomputeOutcome::Reached);
    let differs = |change: fn(&mut ReduceOutput)| {
        let mut signed = signed.clone();
        change(&mut signed);
        compare_results(&signed.result(), &again.result()).expect_err("it differs").to_string()
    };
    assert_eq!(
        differs(|made| made.summary.points[0].metrics[0].median = 3.000_000_000_000_000_4),
        "reduce, run again, gives a different summary"
    );
    assert_eq!(
        differs(|made| made.summary.files[0].artifact.digest = Digest::compute(b"other")),
        "reduce, run again, gives a different file for `outcome_fact`"
    );
    assert_eq!(differs(|made| made.summary.files.clear()), "reduce, run again, gives a different file for `outcome_fact`");
}
