//! The rows of a serving point: its statistics one by one, and all of them in one row.

use assay_manifest::{
    IntervalKind, MetricSummary, NumberPlace, Point, PointKind, PointSummary, ServingPoint, ServingWork, SloMetric, TrialId,
};
use assay_metric::MetricName;
use assay_stage::{ErrorCode, Failure};
use assay_warehouse::{Row, SERVING_OUTCOME_FACT, Value};

use super::cost::Price;
use super::{AttemptShards, slo_ns};
use crate::aggregate::unset_row;
use crate::dimensions::{Dimensions, tensor_parallel};
use crate::row_failure;
use crate::rows::{RowContext, fact, point_rows, value_rows};

/// Returns the outcome rows of a point, and sets in the point the ids of those rows.
pub(super) fn outcome_rows(
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    counted: &[&AttemptShards<'_>],
    point: &mut PointSummary,
) -> Result<Vec<Row>, Failure> {
    let shards_of = |trial: &TrialId| {
        let is_it = |tried: &&&AttemptShards<'_>| tried.attempt().is_some_and(|attempt| attempt.trial_id == *trial);
        counted.iter().find(is_it).map(|tried| tried.shards.as_slice()).unwrap_or_default()
    };
    let mut rows = Vec::new();
    let mut metrics = std::mem::take(&mut point.metrics);
    for metric in &mut metrics {
        rows.extend(value_rows(context, dimensions, NumberPlace::from(&*point), metric, shards_of)?);
    }
    point.metrics = metrics;
    rows.extend(point_rows(context, dimensions, point)?);
    let mut values = point.metrics.iter().flat_map(|metric| &metric.trials);
    match values.find(|value| value.row_id == unset_row()) {
        Some(value) => Err(Failure::new(ErrorCode::Internal, format!("a value of trial `{}` got no row", value.trial_id))),
        None => Ok(rows),
    }
}

/// Returns the row of `serving_outcome_fact`.
pub(super) fn serving_row(
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    point: &Point,
    summary: &PointSummary,
    work: &ServingWork,
    price: Option<&Price>,
) -> Result<Row, Failure> {
    let missing = || Failure::new(ErrorCode::Internal, "a serving point has no account of its requests");
    let serving = summary.serving.as_ref().ok_or_else(missing)?;
    let build = || {
        let row = fact(&SERVING_OUTCOME_FACT, context, dimensions, summary)?;
        let row =
            load(row, point, work, summary, serving)?.with("tensor_parallel", tensor_parallel(context, &summary.case_id))?;
        let row = slos_and_prices(row, work, serving, price)?;
        let row = row.with("interval_kind", summary.interval_kind().map(IntervalKind::as_str))?;
        metric_columns(row, &summary.metrics)?.seal()
    };
    build().map_err(|error| row_failure(&error))
}

type BuiltRow = assay_warehouse::Result<Row>;

fn load(row: Row, point: &Point, work: &ServingWork, summary: &PointSummary, serving: &ServingPoint) -> BuiltRow {
    let has_sessions = work.sessions.is_some();
    let count = |words: &[&str]| {
        serving.outcomes.iter().filter(|(word, _)| words.contains(&word.as_str())).map(|(_, n)| n.0).sum::<u64>()
    };
    let (ok, dropped, cancelled) = (count(&["ok"]), count(&["dropped"]), count(&["cancelled"]));
    let failed = serving.requests.0.saturating_sub(ok + dropped + cancelled);
    let uncancelled = serving.requests.0.saturating_sub(cancelled);
    let error_rate = (uncancelled > 0).then(|| (failed + dropped) as f64 / uncancelled as f64);
    let number = |kind: PointKind, name: &str| point.value.get(name).filter(|_| point.kind == kind);
    let concurrency = number(PointKind::Concurrency, "concurrency").and_then(|text| text.parse::<i64>().ok());
    let finite = |text: &String| text.parse::<f64>().ok().filter(|rate| rate.is_finite());
    let rate = number(PointKind::Rate, "rate").and_then(finite);
    // Each user has one session at a time, and the rate is that of their turns.
    let users = number(PointKind::Users, "users").and_then(|text| text.parse::<i64>().ok());
    let turn_rate = number(PointKind::Users, "rate").and_then(finite);
    let speed = number(PointKind::Speed, "speed").and_then(finite);
    row.with("point_id", summary.point_id.as_str())?
        .with("point_kind", point.kind.as_str())?
        .with("concurrency", concurrency.filter(|_| !has_sessions))?
        .with("session_concurrency", concurrency.filter(|_| has_sessions).or(users))?
        .with("request_rate_per_s", rate.filter(|_| !has_sessions).or(turn_rate))?
        .with("session_rate_per_s", rate.filter(|_| has_sessions))?
        .with("replay_speed", speed)?
        .with("max_concurrency", work.max_concurrency.map(|cap| Value::from_count(cap.0)))?
        .with("trials_counted", summary.trials_counted)?
        .with("requests", Value::from_count(serving.requests.0))?
        .with("completed", Value::from_count(ok))?
        .with("failed", Value::from_count(failed))?
        .with("dropped", Value::from_count(dropped))?
        .with("cancelled", Value::from_count(cancelled))?
        .with("error_rate", error_rate)?
        .with("duration_ns", Value::from_count(serving.duration_ns.0))
}

fn slos_and_prices(row: Row, work: &ServingWork, serving: &ServingPoint, price: Option<&Price>) -> BuiltRow {
    let mut row = row.with("slo_met", serving.slo_met)?;
    for slo in SloMetric::ALL {
        row = row.with(slo.column(), slo_ns(work, *slo))?;
    }
    row.with("gpu_hour_cost", price.map(|price| price.gpu_hour))?
        .with("currency", price.map(|price| price.currency.as_str()))?
        .with("cost_absent_reason", serving.cost_absent.as_deref())
}

/// Sets the columns of metrics, each the median of the trials' values, and the variation of primary ones across trials.
fn metric_columns(mut row: Row, metrics: &[MetricSummary]) -> BuiltRow {
    for name in MetricName::all() {
        let metric = metrics.iter().find(|metric| metric.metric == name.text);
        row.set(name.column, metric.map(|metric| name.to_column(metric.median)))?;
        if name.has_spread {
            spread(&mut row, name, metric)?;
        }
    }
    Ok(row)
}

fn spread(row: &mut Row, name: &MetricName, metric: Option<&MetricSummary>) -> assay_warehouse::Result<()> {
    let interval = metric.and_then(|metric| metric.interval.as_ref());
    let end = |value: f64| name.definition().unit.to_column_unit(value);
    let finite = |value: Option<f64>| Value::from(value.filter(|value| value.is_finite()));
    row.set(name.spread.cv_pct[0], finite(metric.and_then(|metric| metric.cv).map(|cv| cv * 100.0)))?;
    row.set(name.spread.ci_low[0], finite(interval.map(|interval| end(interval.low))))?;
    row.set(name.spread.ci_high[0], finite(interval.map(|interval| end(interval.high))))
}
