//! The published numbers: each with its address, its source and the file that holds its row.

use assay_manifest::{Address, CuratedFile, Digest, MetricSummary, Number, NumberSource, PointSummary, RunId, Summary};
use assay_stage::{Context, Exit, Failure};
use assay_verify::NumberRows;
use assay_warehouse::OUTCOME_FACT;

/// The largest curated file of one run that is read back.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Every statistic across counted trials of every metric, in the Summary's order.
pub(crate) fn numbers(run_id: &RunId, summary: &Summary) -> Result<Vec<Number>, Failure> {
    let metrics = summary.points.iter().flat_map(|point| point.metrics.iter().map(move |metric| (point, metric)));
    let mut numbers = Vec::new();
    for (point, metric) in metrics {
        let file = outcome_files(summary).next().ok_or_else(|| lost(point, metric, "file"))?;
        for (statistic, value) in metric.statistics() {
            let row = metric.rows.get(statistic).ok_or_else(|| lost(point, metric, "row"))?;
            numbers.push(number(run_id, (point, metric), (statistic, value), row, file));
        }
    }
    Ok(numbers)
}

fn number(
    run_id: &RunId,
    (point, metric): (&PointSummary, &MetricSummary),
    (statistic, value): (&str, f64),
    row: &Digest,
    file: &CuratedFile,
) -> Number {
    Number {
        address: Address::of(run_id, row).to_string(),
        benchmark_case_id: point.case_id.to_string(),
        point_id: point.point_id.to_string(),
        metric: metric.metric.clone(),
        statistic: statistic.to_owned(),
        value,
        unit: if statistic == "cv" { "ratio".to_owned() } else { metric.unit.clone() },
        n: metric.n,
        source: NumberSource::Rows,
        query: None,
        file: file.artifact.digest,
    }
}

fn lost(point: &PointSummary, metric: &MetricSummary, what: &str) -> Failure {
    let message = format!("the summary names no {what} for `{}` of {} at `{}`", metric.metric, point.case_id, point.point_id);
    Failure::verification("number_without_row", message)
}

fn outcome_files(summary: &Summary) -> impl Iterator<Item = &CuratedFile> {
    summary.files.iter().filter(|file| file.table == OUTCOME_FACT.name)
}

/// The rows of the run that hold numbers: a number is published only if it is the one in its row.
pub(crate) fn rows(ctx: &Context, summary: &Summary) -> Result<NumberRows, Failure> {
    let mut rows = NumberRows::default();
    for file in &summary.files {
        let table = assay_warehouse::table(&file.table)
            .ok_or_else(|| Failure::verification("unknown_table", format!("the summary names a table `{}`", file.table)))?;
        if !NumberRows::are_of(table) {
            continue;
        }
        let bytes = ctx.get(&file.artifact, MAX_FILE_BYTES)?;
        let read = assay_warehouse::read(table, bytes).map_err(|error| Failure::of(Exit::Verification, error.code(), &error))?;
        rows.add(file, read)?;
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use assay_manifest::Interval;
    use serde_json::json;

    use super::*;

    fn summary() -> Summary {
        let digest = Digest::of(b"");
        let row = |statistic: &str| Digest::of(statistic.as_bytes());
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
        let artifact = |name: &str| json!({"name": name, "digest": Digest::of(name.as_bytes()), "size": "1", "media_type": "application/vnd.apache.parquet"});
        let file = |table: &str| json!({"table": table, "rows": "1", "artifact": artifact(table)});
        let summary = json!({
            "plan_digest": digest, "artifact_manifest_digest": digest, "reduce_binary": digest, "status": "succeeded",
            "issues": [], "points": [point], "files": [file("workload_dim"), file("outcome_fact")],
        });
        let mut summary: Summary = serde_json::from_value(summary).expect("a summary");
        let interval = Interval { low: 2.5, high: 4.5, level: 0.95, method: "order_statistic".to_owned() };
        summary.points[0].metrics[0].interval = Some(interval);
        summary
    }

    fn of(summary: &Summary) -> Result<Vec<Number>, Failure> {
        let run_id = "nightly".parse().expect("a run id");
        numbers(&run_id, summary)
    }

    #[test]
    fn every_statistic_becomes_a_number_with_its_lineage() {
        let numbers = of(&summary()).expect("numbers");
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
        assert!(numbers.iter().all(|number| number.file == Digest::of(b"outcome_fact")), "the file that holds the row");
        let first = &numbers[0];
        assert_eq!(first.address, format!("nightly/outcome_fact/{}/value", Digest::of(b"median").short()));
    }

    #[test]
    fn what_could_not_be_computed_is_no_number() {
        let mut summary = summary();
        let metric = &mut summary.points[0].metrics[0];
        (metric.sd, metric.cv, metric.interval) = (None, None, None);
        let statistics: Vec<_> = of(&summary).expect("numbers").into_iter().map(|number| number.statistic).collect();
        assert_eq!(statistics, ["median", "mean", "min", "max"]);
    }

    #[test]
    fn a_number_without_a_row_is_refused_and_not_left_out() {
        let mut without_row = summary();
        without_row.points[0].metrics[0].rows.remove("mean");
        insta::assert_snapshot!(of(&without_row).expect_err("no row"), @"error[number_without_row]: the summary names no row for `rate` of w.t.default at `one`");
        let mut without_file = summary();
        without_file.files.pop();
        insta::assert_snapshot!(of(&without_file).expect_err("no file"), @"error[number_without_row]: the summary names no file for `rate` of w.t.default at `one`");
    }

    #[test]
    fn a_run_without_metrics_has_no_numbers() {
        let mut summary = summary();
        summary.points[0].metrics.clear();
        summary.files.clear();
        assert_eq!(of(&summary), Ok(Vec::new()));
    }
}
