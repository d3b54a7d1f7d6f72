//! The comparison of a run with the runs before it, which never blocks.

use std::collections::BTreeMap;

use assay_gate::history::{
    FalseAlarms, HistoryComparison, MetricComparison, MetricHistory, MetricSpread, PairedDesign, Prediction, size_paired_design,
};
use assay_gate::{History, MetricKey};
use assay_manifest::{ALL_LOADS, BetterDirection, CaseId, Digest, MetricSummary, Name, NumberPlace, PairUnit, PointId, Summary};
use assay_report::describe_missing_value;
use assay_runs::{RunStore, RunValue, Series, SeriesFilter, SeriesReading, read_series};
use assay_stage::{ErrorCode, Failure};

use crate::caller::{Caller, GateEvent};
use crate::evidence::Evidence;
use crate::request::select_gates;
use crate::rules::Rules;

/// The most pairs that a recommended design may have.
const MOST_PAIRS: usize = 60;

/// A metric of the run, with its values in the runs before it.
#[derive(Clone, Debug)]
pub struct FollowedMetric {
    /// The case.
    pub case: CaseId,
    /// The point of the case.
    pub point: PointId,
    /// The digest of the workload.
    pub work: Digest,
    /// The metric in the run's Summary.
    pub metric: MetricSummary,
    /// Its values.
    pub past: MetricHistory,
    /// The number of those runs with other surroundings than this one; `None` if this one is not in the tables.
    pub elsewhere: Option<usize>,
}

/// A metric that runs before this one have a value of, and this one has none although it planned the same point.
#[derive(Clone, Debug)]
pub struct MissingMetric {
    /// The case.
    pub case: String,
    /// The point of the case.
    pub point: String,
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// The direction that is better.
    pub better: BetterDirection,
    /// The number of runs before this one that have a value.
    pub runs: usize,
    /// The reason why this one has none.
    pub reason: String,
}

/// A run as the runs before it show it.
#[derive(Clone, Debug)]
pub struct HistoryJudgement {
    /// The metrics of the run.
    pub followed: Vec<FollowedMetric>,
    /// The comparison of each, in the same order.
    pub compared: Vec<MetricComparison>,
    /// The metrics without a value in the run. Nothing is decided about them.
    pub missing: Vec<MissingMetric>,
    /// The probability that the family raises a false alarm; `None` if nothing is predicted.
    pub false_alarms: Option<FalseAlarms>,
    learned: Option<History>,
    q: f64,
    budget: f64,
}

/// A paired run that would decide.
#[derive(Clone, Debug)]
pub struct RecommendedDesign {
    /// The design.
    pub paired: PairedDesign,
    /// The number of metrics that it is sized for.
    pub metrics: usize,
    /// The budget as a share; the design finds twice of it.
    pub budget: f64,
}

/// Compares a run with those before it, by the run's own rules and by the named gate or its first one.
pub fn compare_with_history(
    run: &str,
    gate: Option<&Name>,
    place: &RunStore,
    unestablished: bool,
    caller: &dyn Caller,
) -> Result<HistoryJudgement, Failure> {
    let candidate = Evidence::open(place, run, unestablished)?;
    let mut rules = Rules::from_run(candidate.own_pipeline()?);
    rules.noise = candidate.own_file(&rules.noise_path()?)?;
    let gates = if gate.is_some() { select_gates(&rules, gate)? } else { rules.gates()? };
    if let [first, _, ..] = gates.as_slice() {
        caller.report(GateEvent::FirstGate { gate: &first.name, of: gates.len() });
    }
    let (gate, learned) = (gates.first(), rules.history()?);
    let (q, budget) = gate.map_or((0.05, 0.05), |gate| (gate.q, gate.budget_pct / 100.0));
    let run = candidate.as_run()?;
    let SeriesReading { series: history, fetched, left_out, is_established } =
        read_series(place, &SeriesFilter::default(), false)?;
    caller.report(GateEvent::HistoryRead { fetched, left_out: &left_out, is_established });
    let named = gate.map_or(&[][..], |gate| gate.metrics.as_slice());
    let pipeline = run.plan.pipeline.name.as_str();
    let history: Vec<Series> = history.into_iter().filter(|series| series.pipeline == pipeline).collect();
    let followed = collect_histories(run.summary.1, &history, run.run_id.as_str(), named);
    let missing = find_missing(run.summary.1, &history, run.run_id.as_str(), named);
    if followed.is_empty() && missing.is_empty() {
        return Err(Failure::new(ErrorCode::NothingJudged, "the run reports no primary metric with a direction that is better"));
    }
    let family: Vec<MetricHistory> = followed.iter().map(|followed| followed.past.clone()).collect();
    let HistoryComparison { metrics, false_alarms } = assay_gate::history::compare_with_history(&family, q, budget);
    Ok(HistoryJudgement { followed, compared: metrics, missing, false_alarms, learned, q, budget })
}

impl HistoryJudgement {
    /// Returns true if a metric is worse than the earlier runs explain.
    pub fn is_worse(&self) -> bool {
        self.compared.iter().any(|compared| compared.is_worse)
    }

    /// Returns true if the earlier runs predict at least one of the metrics.
    pub fn is_predicted(&self) -> bool {
        self.compared.iter().any(|compared| matches!(compared.prediction, Prediction::Interval { .. }))
    }

    /// Returns a paired run that would decide, sized by the learned noise, and otherwise by the spread of this run's own trials.
    pub fn recommend(&self) -> RecommendedDesign {
        let family: Vec<MetricSpread> = self.followed.iter().filter_map(FollowedMetric::spread).collect();
        let paired = size_paired_design(&family, self.learned.as_ref(), self.q, self.budget, MOST_PAIRS);
        RecommendedDesign { paired, metrics: family.len(), budget: self.budget }
    }
}

impl FollowedMetric {
    /// Returns the spread that determines the number of pairs for it.
    fn spread(&self) -> Option<MetricSpread> {
        let taught = MetricKey {
            workload: self.case.names().first()?.parse().ok()?,
            work: self.work,
            point: self.point.clone(),
            metric: self.metric.metric.clone(),
            unit: PairUnit::Launch,
        };
        Some(MetricSpread { key: taught, cv: self.metric.cv, trials: self.metric.n.0 })
    }
}

/// Returns the metrics that the gate judges, that earlier runs have a value of, and that this run has none of at a point that it planned. If
/// its work at that point is other than theirs, a metric may have been left out on purpose, so it is missing only if no trial of the
/// point counts.
fn find_missing(summary: &Summary, history: &[Series], run: &str, named: &[String]) -> Vec<MissingMetric> {
    let own = |series: &Series| series.runs.iter().find(|of| of.run == run).map(|of| of.started);
    let started = history.iter().find_map(own).unwrap_or(i64::MAX);
    let missing = |series: &Series| {
        let is_judged = if named.is_empty() { series.primary } else { named.contains(&series.metric) };
        let better = series.better.filter(|_| is_judged && !has_value(summary, series))?;
        let mut points = summary.points.iter().filter(|point| point.case_id.as_str() == series.case);
        let point = points.clone().find(|point| point.point_id.as_str() == series.point);
        // The numbers of all loads have no point of their own.
        let planned = point.or_else(|| points.next().filter(|_| series.point == ALL_LOADS))?;
        let work = planned.workload_spec_digest.to_string();
        let is_dead = point.is_some_and(|point| point.trials_counted == 0);
        let before = series.runs.iter().filter(|of| of.run != run && of.started < started && (is_dead || of.workload == work));
        let runs = before.count();
        let reason = point.map_or_else(|| "its loads give no such number".to_owned(), describe_missing_value);
        (runs > 0).then(|| MissingMetric {
            case: series.case.clone(),
            point: series.point.clone(),
            metric: series.metric.clone(),
            unit: series.unit.clone(),
            better,
            runs,
            reason,
        })
    };
    history.iter().filter_map(missing).collect()
}

/// Returns true if a run has a value of the metric of a series.
fn has_value(summary: &Summary, series: &Series) -> bool {
    summary.places().any(|(place, metrics)| {
        let is_same = place.case_id.as_str() == series.case && place.point_id.as_str() == series.point;
        is_same && metrics.iter().any(|metric| metric.metric == series.metric)
    })
}

fn collect_histories(summary: &Summary, history: &[Series], run: &str, named: &[String]) -> Vec<FollowedMetric> {
    let mut all = Vec::new();
    for (place, metrics) in summary.places() {
        let is_asked = |metric: &&MetricSummary| if named.is_empty() { metric.primary } else { named.contains(&metric.metric) };
        for metric in metrics.iter().filter(is_asked) {
            let Some(better) = metric.better else { continue };
            let same = |series: &&Series| {
                series.case == place.case_id.as_str() && series.point == place.point_id.as_str() && series.metric == metric.metric
            };
            let series = history.iter().find(same);
            let before = series.map(|series| earlier_runs(series, run, place)).unwrap_or_default();
            let own = series.and_then(|series| series.runs.iter().find(|of| of.run == run));
            let surroundings = |of: &RunValue| (of.hardware.clone(), of.software.clone(), of.definition.clone());
            let elsewhere = own.map(|own| before.iter().filter(|of| surroundings(of) != surroundings(own)).count());
            let earlier: BTreeMap<String, f64> = before.iter().map(|of| (of.run.clone(), of.value)).collect();
            all.push(FollowedMetric {
                case: place.case_id.clone(),
                point: place.point_id.clone(),
                work: place.workload_spec_digest,
                metric: metric.clone(),
                past: MetricHistory { better, value: metric.median, earlier },
                elsewhere,
            });
        }
    }
    all
}

/// Returns the runs before `run` that did the same work; if `run` is not in the tables, all such runs.
fn earlier_runs<'a>(series: &'a Series, run: &str, place: NumberPlace<'_>) -> Vec<&'a RunValue> {
    let work = place.workload_spec_digest.to_string();
    let own = series.runs.iter().find(|of| of.run == run).map_or(i64::MAX, |of| of.started);
    series.runs.iter().filter(|of| of.workload == work && of.run != run && of.started < own).collect()
}
