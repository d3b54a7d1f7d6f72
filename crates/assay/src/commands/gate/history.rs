//! `assay gate RUN --baseline history`: compares a run with the runs before it, and never blocks.

use std::collections::BTreeMap;

use assay_gate::history::{
    FEWEST_RUNS, FalseAlarms, MetricComparison, MetricHistory, MetricSpread, Prediction, compare_with_history, size_paired_design,
};
use assay_gate::{History, MetricKey};
use assay_manifest::{MetricSummary, PairUnit, PointSummary, Summary};
use assay_report::{counted, percent, significant};
use assay_runs::{RunStore, RunValue, Series, SeriesFilter, SeriesReading, read_series};
use assay_spec as spec;
use assay_stage::{ErrorCode, Exit, Failure};
use serde_json::json;

use crate::commands::gate::evidence::Evidence;
use crate::commands::query::report_fetched;
use crate::output;

/// The most pairs that a recommended design may have.
const MOST_PAIRS: usize = 60;

/// A metric of the run, with its values in the runs before it.
struct FollowedMetric<'a> {
    point: &'a PointSummary,
    metric: &'a MetricSummary,
    past: MetricHistory,
    /// The number of those runs with other surroundings than this one; `None` if this one is not in the tables.
    elsewhere: Option<usize>,
}

/// Shows how a run compares with those before it: exit code 0, or 41 if a metric is worse than they explain.
pub(super) fn judge(
    evidence: &Evidence,
    gate: Option<&spec::Gate>,
    learned: Option<&History>,
    place: &RunStore,
    as_json: bool,
) -> Result<Exit, Failure> {
    let (q, budget) = gate.map_or((0.05, 0.05), |gate| (gate.q, gate.budget_pct / 100.0));
    let run = evidence.as_run()?;
    let SeriesReading { series: history, fetched, is_established } = read_series(place, &SeriesFilter::default())?;
    report_fetched(fetched);
    if !is_established {
        output::diagnostic("internally consistent; signer not established");
    }
    let named = gate.map_or(&[][..], |gate| gate.metrics.as_slice());
    let pipeline = run.plan.pipeline.name.as_str();
    let history: Vec<Series> = history.into_iter().filter(|series| series.pipeline == pipeline).collect();
    let followed = collect_histories(run.summary.1, &history, run.run_id.as_str(), named);
    if followed.is_empty() {
        return Err(Failure::new(ErrorCode::NothingJudged, "the run reports no primary metric with a direction that is better"));
    }
    let family: Vec<MetricHistory> = followed.iter().map(|followed| followed.past.clone()).collect();
    let against = compare_with_history(&family, q, budget);
    let seen = against.metrics;
    let is_worse = seen.iter().any(|seen| seen.is_worse);
    if as_json {
        let told = followed.iter().zip(&seen).map(|(followed, seen)| followed.json(seen, against.false_alarms));
        output::json(&told.collect::<Vec<_>>())?;
    } else {
        show(&followed, &seen, against.false_alarms, is_worse);
        recommend(&followed, learned, q, budget);
    }
    let is_any_predicted = seen.iter().any(|seen| matches!(seen.prediction, Prediction::Interval { .. }));
    if !is_any_predicted {
        output::diagnostic("Nothing was told: history predicts none of the metrics.");
    }
    // A run without any prediction has not passed.
    Ok(if is_worse || !is_any_predicted { Exit::Inconclusive } else { Exit::Done })
}

fn collect_histories<'a>(summary: &'a Summary, history: &[Series], run: &str, named: &[String]) -> Vec<FollowedMetric<'a>> {
    let mut all = Vec::new();
    for point in &summary.points {
        let is_asked = |metric: &&MetricSummary| if named.is_empty() { metric.primary } else { named.contains(&metric.metric) };
        for metric in point.metrics.iter().filter(is_asked) {
            let Some(better) = metric.better else { continue };
            let same = |series: &&Series| {
                series.case == point.case_id.as_str() && series.point == point.point_id.as_str() && series.metric == metric.metric
            };
            let series = history.iter().find(same);
            let before = series.map(|series| earlier_runs(series, run, point)).unwrap_or_default();
            let own = series.and_then(|series| series.runs.iter().find(|of| of.run == run));
            let surroundings = |of: &RunValue| (of.hardware.clone(), of.software.clone(), of.definition.clone());
            let elsewhere = own.map(|own| before.iter().filter(|of| surroundings(of) != surroundings(own)).count());
            let earlier: BTreeMap<String, f64> = before.iter().map(|of| (of.run.clone(), of.value)).collect();
            all.push(FollowedMetric { point, metric, past: MetricHistory { better, value: metric.median, earlier }, elsewhere });
        }
    }
    all
}

/// Returns the runs before `run` that did the same work; if `run` is not in the tables, all such runs.
fn earlier_runs<'a>(series: &'a Series, run: &str, point: &PointSummary) -> Vec<&'a RunValue> {
    let work = point.workload_spec_digest.to_string();
    let own = series.runs.iter().find(|of| of.run == run).map_or(i64::MAX, |of| of.started);
    series.runs.iter().filter(|of| of.workload == work && of.run != run && of.started < own).collect()
}

impl FollowedMetric<'_> {
    fn json(&self, seen: &MetricComparison, of_family: Option<FalseAlarms>) -> serde_json::Value {
        let of_family = of_family.map(|FalseAlarms { share, draws, runs }| {
            json!({"share": share, "draws": draws, "runs": runs, "method": FalseAlarms::METHOD})
        });
        let (interval, spread, false_alarms, not_predicted) = match &seen.prediction {
            Prediction::Interval { low, high, spread, false_alarms, .. } => {
                (Some([*low, *high]), Some(*spread), Some(*false_alarms), None)
            }
            Prediction::TooFew => (None, None, None, Some("too_few_runs")),
            Prediction::NoRatio => (None, None, None, Some("no_ratio")),
        };
        json!({
            "case": self.point.case_id,
            "point": self.point.point_id,
            "metric": self.metric.metric,
            "unit": self.metric.unit,
            "better": self.past.better,
            "value": self.past.value,
            "runs": seen.runs,
            "runs_elsewhere": self.elsewhere,
            "interval": interval,
            "spread": spread,
            "false_alarms": false_alarms,
            "family_false_alarms": of_family,
            "not_predicted": not_predicted,
            "p_adjusted": seen.adjusted,
            "is_worse": seen.is_worse,
        })
    }

    /// Returns the spread that determines the number of pairs for it.
    fn spread(&self) -> Option<MetricSpread> {
        let taught = MetricKey {
            workload: self.point.case_id.names().first()?.parse().ok()?,
            work: self.point.workload_spec_digest,
            point: self.point.point_id.clone(),
            metric: self.metric.metric.clone(),
            unit: PairUnit::Launch,
        };
        Some(MetricSpread { key: taught, cv: self.metric.cv, trials: self.metric.n.0 })
    }

    fn line(&self, seen: &MetricComparison) -> String {
        let predicted = match &seen.prediction {
            Prediction::Interval { low, high, spread, false_alarms, .. } => format!(
                "predicted [{}, {}] from {} that spread by {}; {false_alarms} of them would have been called worse",
                significant(*low, Some((*low, *high))),
                significant(*high, Some((*low, *high))),
                counted(seen.runs as u64, "run"),
                percent(*spread)
            ),
            Prediction::TooFew => {
                format!("not predicted: {FEWEST_RUNS} earlier runs are needed, and there are {}", seen.runs)
            }
            Prediction::NoRatio => "not predicted: not every value is above zero".to_owned(),
        };
        let verdict = if seen.is_worse { "worse than history" } else { "as before" };
        let value = significant(self.past.value, None);
        let name = format!("{} of {} at {}", self.metric.metric, self.point.case_id, self.point.point_id);
        let verdict = if matches!(seen.prediction, Prediction::Interval { .. }) { verdict } else { "unknown" };
        format!("{verdict:<18} {name}: {value} {}; {predicted}", self.metric.unit)
    }
}

fn show(followed: &[FollowedMetric<'_>], seen: &[MetricComparison], false_alarms: Option<FalseAlarms>, is_worse: bool) {
    let worst_first = |wanted: bool| followed.iter().zip(seen).filter(move |(_, seen)| seen.is_worse == wanted);
    for (followed, seen) in worst_first(true).chain(worst_first(false)) {
        output::line(followed.line(seen));
    }
    output::diagnostic(format!(
        "\nStudent's prediction interval on logarithms of per-run medians, one-sided, adjusted for {}.",
        counted(seen.len() as u64, "metric")
    ));
    if let Some(FalseAlarms { share, draws, runs }) = false_alarms {
        output::diagnostic(format!(
            "False alarms: of {draws} redrawings of {}, in which nothing changed, {} call some metric worse ({}).",
            counted(runs as u64, "earlier run"),
            percent(share),
            FalseAlarms::METHOD
        ));
    }
    let elsewhere = followed.iter().filter_map(|followed| followed.elsewhere).max().unwrap_or(0);
    if elsewhere > 0 {
        output::diagnostic(format!(
            "{} before it had other hardware, other software or another pipeline file: a difference may be theirs (environment).",
            counted(elsewhere as u64, "run")
        ));
    }
    if is_worse {
        output::diagnostic(
            "Worse than earlier runs explain. That is no regression yet: the machine may have changed since. History never blocks.",
        );
    }
}

/// Recommends a paired run that would decide, sized by the learned noise, and otherwise by the spread of this run's own trials.
fn recommend(followed: &[FollowedMetric<'_>], learned: Option<&History>, q: f64, budget: f64) {
    let family: Vec<MetricSpread> = followed.iter().filter_map(FollowedMetric::spread).collect();
    let paired = size_paired_design(&family, learned, q, budget, MOST_PAIRS);
    let how = match paired.size {
        Ok(size) => format!("about {} would find {}", counted(size.pairs as u64, "pair"), percent(2.0 * budget)),
        Err(why) => why.to_string(),
    };
    let by = match paired.from_history {
        0 => "the spread of this run's trials".to_owned(),
        all if all == family.len() => "what earlier runs taught".to_owned(),
        some => format!("what earlier runs taught of {} and the spread of this run's trials", counted(some as u64, "metric")),
    };
    output::diagnostic(format!("To decide, measure both in one run: `comparison` with `placement: alternate`. By {by}, {how}."));
}
