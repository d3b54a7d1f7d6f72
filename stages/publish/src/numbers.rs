//! The published numbers: each with its address, its source and the file that holds its row.

use assay_manifest::{
    Count, CuratedFile, Digest, Grade, MetricSummary, Number, NumberSource, Numbers, PointSummary, RunId, Summary,
};
use assay_stage::{Context, Exit, Failure};
use assay_warehouse::{OUTCOME_FACT, Row, Value};

/// The largest curated file of one run that is read back.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Digits of a row id in an address: enough to be unique in a run, and `assay trace` refuses one that is not.
const ROW_DIGITS: usize = 12;

/// Every statistic across counted trials of every metric, in the Summary's order.
pub(crate) fn numbers(run_id: &RunId, summary_digest: Digest, summary: &Summary, grade: &Grade) -> Numbers {
    let file = outcome_file(summary).map(|file| file.artifact.digest);
    let metrics = summary.points.iter().flat_map(|point| point.metrics.iter().map(move |metric| (point, metric)));
    let numbers = metrics.flat_map(|(point, metric)| of_metric(run_id, point, metric, file));
    Numbers { run_id: run_id.clone(), grade: grade.clone(), summary: summary_digest, numbers: numbers.collect() }
}

fn outcome_file(summary: &Summary) -> Option<&CuratedFile> {
    summary.files.iter().find(|file| file.table == OUTCOME_FACT.name)
}

fn of_metric(run_id: &RunId, point: &PointSummary, metric: &MetricSummary, file: Option<Digest>) -> Vec<Number> {
    let Some(file) = file else { return Vec::new() };
    let number = |(statistic, row): (&String, &Digest)| {
        Some(Number {
            address: format!("{run_id}/{}/{}/value", OUTCOME_FACT.name, &row.hex()[..ROW_DIGITS]),
            benchmark_case_id: point.case_id.to_string(),
            point_id: point.point_id.to_string(),
            metric: metric.metric.clone(),
            statistic: statistic.clone(),
            value: statistic_of(metric, statistic)?,
            unit: if statistic == "cv" { "ratio".to_owned() } else { metric.unit.clone() },
            n: Count(metric.n.0),
            source: NumberSource::Rows,
            query: None,
            file,
        })
    };
    metric.rows.iter().filter_map(number).collect()
}

fn statistic_of(metric: &MetricSummary, statistic: &str) -> Option<f64> {
    match statistic {
        "median" => Some(metric.median),
        "mean" => Some(metric.mean),
        "min" => Some(metric.min),
        "max" => Some(metric.max),
        "sd" => metric.sd,
        "cv" => metric.cv,
        "ci_low" => metric.interval.as_ref().map(|interval| interval.low),
        "ci_high" => metric.interval.as_ref().map(|interval| interval.high),
        _ => None,
    }
}

/// Every number is the one in its row, and every row is there exactly once.
pub(crate) fn check_rows(ctx: &Context, summary: &Summary, numbers: &Numbers) -> Result<(), Failure> {
    let Some(file) = outcome_file(summary) else { return Ok(()) };
    let bytes = ctx.get(&file.artifact, MAX_FILE_BYTES)?;
    let rows = assay_warehouse::read(&OUTCOME_FACT, bytes).map_err(|error| Failure::of(Exit::Verification, "rows", &error))?;
    match numbers.numbers.iter().find(|number| !stands_in(number, &rows)) {
        None => Ok(()),
        Some(number) => {
            Err(Failure::verification("number_not_in_row", format!("the number `{}` is not the one in its row", number.address)))
        }
    }
}

fn stands_in(number: &Number, rows: &[Row]) -> bool {
    let digits = number.address.split('/').nth(2).unwrap_or_default();
    let found: Vec<_> =
        rows.iter().filter(|row| row.text(assay_warehouse::ROW_ID).is_some_and(|id| id.starts_with(digits))).collect();
    matches!(found.as_slice(), [row] if row.get("value") == Some(&Value::Float(number.value)))
}
