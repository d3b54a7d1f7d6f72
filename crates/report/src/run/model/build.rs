//! Cases, points and metrics from a plan and a Summary.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{
    Address, Case, CaseId, Collection, FrozenWorkload, IntervalKind, MetricSummary, Plan, Point, PointId, PointSummary,
    PointView, RunId, Summary, TrialId, TrialValue, Views, WorkloadType, ordinal,
};

use super::across_loads;
use super::exclusions::{ExcludedAttempt, describe_none_counted, reason_counts};
use super::load::{self, Load};
use super::section::{CaseSection, DisplayInterval, MetricStatistics, PointSection, Row, Trial};
use super::serving;
use super::work::RequestedWork;
use crate::render::number::{Format, level, percent};
use crate::render::text::clean;
use crate::render::unit;

/// Lookup tables for building the rows.
pub(super) struct Builder<'a> {
    run_id: &'a RunId,
    plan: &'a Plan,
    summary: &'a Summary,
    /// The blocks of attempts; `None` if no attempt is named.
    collection: Option<&'a Collection>,
    /// The index of each trial in the order in which the trials ran.
    places: BTreeMap<&'a TrialId, usize>,
    points: BTreeMap<(&'a CaseId, &'a PointId), &'a PointSummary>,
    views: BTreeMap<(&'a CaseId, &'a PointId), &'a PointView>,
    /// The unit of each workload's metric, the same at all points so that they share an axis.
    units: BTreeMap<(&'a str, &'a str), unit::DisplayUnit>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(
        run_id: &'a RunId,
        plan: &'a Plan,
        summary: &'a Summary,
        collection: Option<&'a Collection>,
        views: Option<&'a Views>,
    ) -> Self {
        let places = plan.trials.iter().enumerate().map(|(place, trial)| (&trial.trial_id, place)).collect();
        let points = summary.points.iter().map(|point| ((&point.case_id, &point.point_id), point)).collect();
        let views = views.into_iter().flat_map(|views| &views.points);
        let views = views.map(|view| ((&view.case_id, &view.point_id), view)).collect();
        Self { run_id, plan, summary, collection, places, points, views, units: units(summary) }
    }

    pub(super) fn cases(&self) -> Vec<CaseSection> {
        self.plan.cases.iter().map(|case| self.case(case)).collect()
    }

    fn case(&self, case: &Case) -> CaseSection {
        let workload = self.plan.workload(&case.workload);
        CaseSection {
            case_id: case.case_id.clone(),
            workload: case.workload.to_string(),
            side: side(case),
            workload_type: workload.map_or(WorkloadType::Indicator, |workload| workload.workload_type),
            serving: workload.and_then(|workload| workload.serving.as_ref()).map(RequestedWork::new),
            across_loads: self.across_loads(case),
            points: case.points.iter().map(|point| self.point(case, point, workload)).collect(),
        }
    }

    fn across_loads(&self, case: &Case) -> Option<String> {
        let points = case.points.iter().map(|point| self.points.get(&(&case.case_id, &point.point_id)).copied());
        across_loads::describe(self.summary.all_loads_of(&case.case_id), &points.collect::<Option<Vec<_>>>()?)
    }

    fn point(&self, case: &Case, point: &Point, workload: Option<&FrozenWorkload>) -> PointSection {
        let has_sessions = workload.and_then(|workload| workload.serving.as_ref()?.sessions.as_ref()).is_some();
        let label = label(point, has_sessions);
        let Some(found) = self.points.get(&(&case.case_id, &point.point_id)) else {
            let rows = self.absent_rows(workload, &BTreeSet::new(), "the Summary has no such point");
            let planned = self.plan.trial_policy.count;
            return PointSection { label, planned, counted: 0, excluded: 0, exclusions: Vec::new(), serving: None, rows };
        };
        let mut rows: Vec<Row> = found.metrics.iter().map(|metric| self.row(case, metric)).collect();
        rows.extend(found.serving.iter().flat_map(|serving| serving::absent_rows(serving, &found.metrics)));
        let known: BTreeSet<String> = rows.iter().map(|row| row.metric.clone()).collect();
        rows.extend(self.absent_rows(workload, &known, &why_absent(found)));
        let work = workload.and_then(|workload| workload.serving.as_ref());
        let view = self.views.get(&(&case.case_id, &point.point_id)).copied();
        PointSection {
            label,
            planned: found.trials_planned,
            counted: found.trials_counted,
            excluded: u32::try_from(found.excluded.len()).unwrap_or(u32::MAX),
            exclusions: ExcludedAttempt::of_point(found, self.collection),
            serving: (found.workload_type == WorkloadType::Serving).then(|| Load::new(work, point, found, view)),
            rows,
        }
    }

    fn row(&self, case: &Case, metric: &MetricSummary) -> Row {
        let key = (case.workload.as_str(), metric.metric.as_str());
        let unchanged = || unit::DisplayUnit { unit: metric.unit.clone(), factor: 1.0 };
        let shown = self.units.get(&key).cloned().unwrap_or_else(unchanged);
        let measured = match metric.rows.get("median") {
            Some(row_id) => Ok(self.measured(metric, &shown, row_id)),
            None => Err("the Summary names no row for the median".to_owned()),
        };
        Row { metric: clean(&metric.metric), unit: clean(&shown.unit), better: metric.better, primary: metric.primary, measured }
    }

    /// Returns a row for each declared metric that the Summary lacks.
    fn absent_rows(&self, workload: Option<&FrozenWorkload>, known: &BTreeSet<String>, reason: &str) -> Vec<Row> {
        let Some(workload) = workload else { return Vec::new() };
        let missing = workload.metrics.iter().filter(|metric| !known.contains(&clean(&metric.path)));
        let row = |metric: &assay_manifest::Metric| {
            let shown = self.units.get(&(workload.name.as_str(), metric.path.as_str()));
            Row {
                metric: clean(&metric.path),
                unit: clean(shown.map_or(&metric.unit, |shown| &shown.unit)),
                better: Some(metric.better),
                primary: metric.primary,
                measured: Err(reason.to_owned()),
            }
        };
        missing.map(row).collect()
    }

    fn measured(&self, metric: &MetricSummary, shown: &unit::DisplayUnit, row_id: &assay_manifest::Digest) -> MetricStatistics {
        let median = shown.convert(metric.median);
        let ends = metric.interval.as_ref().map(|interval| (shown.convert(interval.low), shown.convert(interval.high)));
        let format = Format::of_median(median, ends);
        let others = metric.rows.iter().filter(|(statistic, _)| *statistic != "median");
        MetricStatistics {
            n: metric.n.0,
            median,
            median_text: format.show(median),
            stored: format!("{} {}", metric.median, clean(&metric.unit)),
            interval: display_interval(metric, ends, median, format),
            mean_text: format.show(shown.convert(metric.mean)),
            range_text: format!("{} to {}", format.show(shown.convert(metric.min)), format.show(shown.convert(metric.max))),
            cv: metric.cv.map(percent),
            spread: metric.cv.unwrap_or(0.0),
            stability: metric.stability,
            stability_reason: clean(&metric.stability_reason),
            trials: self.trials(metric, shown, format),
            address: Address::for_value(self.run_id, row_id),
            row_id: row_id.to_string(),
            others: others.map(|(statistic, row)| (clean(statistic), Address::for_value(self.run_id, row))).collect(),
        }
    }

    fn trials(&self, metric: &MetricSummary, shown: &unit::DisplayUnit, format: Format) -> Vec<Trial> {
        let mut values: Vec<&TrialValue> = metric.trials.iter().collect();
        values.sort_by_cached_key(|value| self.places.get(&value.trial_id).copied().unwrap_or(usize::MAX));
        let trial = |value: &&TrialValue| {
            let converted = shown.convert(value.value);
            Trial {
                name: value.trial_id.as_str().rsplit('.').next().unwrap_or_default().to_owned(),
                attempt: ordinal(value.attempt),
                value: converted,
                text: format.show(converted),
                samples: value.n.0,
                flagged: value.flagged,
                address: Address::for_value(self.run_id, &value.row_id),
            }
        };
        values.iter().map(trial).collect()
    }
}

/// Returns the shown unit of each workload's metric: one in which the smallest median is at least 1.
fn units(summary: &Summary) -> BTreeMap<(&str, &str), unit::DisplayUnit> {
    let mut smallest: BTreeMap<(&str, &str), (&str, f64)> = BTreeMap::new();
    // A serving metric has its unit in its name, and keeps that unit.
    for point in summary.points.iter().filter(|point| point.workload_type != WorkloadType::Serving) {
        for metric in point.metrics.iter().filter(|metric| metric.median != 0.0) {
            let [workload, ..] = point.case_id.names();
            let entry = smallest.entry((workload, &metric.metric)).or_insert((&metric.unit, metric.median.abs()));
            entry.1 = entry.1.min(metric.median.abs());
        }
    }
    smallest.into_iter().map(|(key, (unit, value))| (key, unit::DisplayUnit::choose(unit, value))).collect()
}

/// Returns target and variant, without the default variant.
fn side(case: &Case) -> String {
    match case.variant.as_str() {
        "default" => case.target.to_string(),
        variant => format!("{} with {variant}", case.target),
    }
}

fn label(point: &Point, has_sessions: bool) -> String {
    if let Some(label) = load::label(point, has_sessions) {
        return label;
    }
    if point.value.is_empty() {
        return point.point_id.to_string();
    }
    let values: Vec<_> = point.value.iter().map(|(name, value)| format!("{name} {value}")).collect();
    clean(&values.join(", "))
}

fn why_absent(point: &PointSummary) -> String {
    match point.trials_counted {
        0 => match reason_counts(&point.excluded) {
            reasons if reasons.is_empty() => describe_none_counted(point.trials_planned),
            reasons => format!("{} ({reasons})", describe_none_counted(point.trials_planned)),
        },
        _ => "no counted trial's result has it".to_owned(),
    }
}

fn display_interval(
    metric: &MetricSummary,
    ends: Option<(f64, f64)>,
    median: f64,
    format: Format,
) -> Result<DisplayInterval, String> {
    let (Some(interval), Some((low, high))) = (&metric.interval, ends) else {
        let unexplained = || "the Summary gives no reason".to_owned();
        return Err(metric.interval_absent.as_deref().map_or_else(unexplained, clean));
    };
    let ends = ends_text(low, high, median, format);
    let text = if interval.kind == IntervalKind::WithinRun { format!("{ends} within run") } else { ends };
    Ok(DisplayInterval { low, high, text, level: level(interval.level), method: clean(&interval.method), kind: interval.kind })
}

/// Returns both ends in the median's format. If three digits cannot distinguish them, their distance from the median says more than
/// `[12.3, 12.3]`.
fn ends_text(low: f64, high: f64, median: f64, format: Format) -> String {
    let (low_text, high_text) = (format.show(low), format.show(high));
    if low_text != high_text || low.total_cmp(&high).is_eq() || median == 0.0 {
        return format!("[{low_text}, {high_text}]");
    }
    let reach = (high - median).abs().max((median - low).abs()) / median.abs();
    format!("[±{}]", percent(reach))
}
