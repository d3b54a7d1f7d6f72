//! `assay gate RUN --baseline history`: compares a run with the runs before it, and never blocks.

use assay_gate::history::{FEWEST_RUNS, FalseAlarms, MetricComparison, Prediction};
use assay_gating::{FollowedMetric, HistoryJudgement, MissingMetric, RecommendedDesign};
use assay_report::{counted, percent, significant};
use assay_stage::{Exit, Failure};
use serde_json::json;

use crate::output;

/// Shows how a run compares with those before it: exit code 0, or 41 if a metric is worse than they explain or has no value any more.
pub(super) fn show(judged: &HistoryJudgement, as_json: bool) -> Result<Exit, Failure> {
    let (both, false_alarms) = (judged.followed.iter().zip(&judged.compared), judged.false_alarms);
    if as_json {
        let followed = both.map(|(followed, seen)| document(followed, seen, false_alarms));
        output::json(&followed.chain(judged.missing.iter().map(missing_document)).collect::<Vec<_>>())?;
    } else {
        print(judged);
        if !judged.followed.is_empty() {
            recommend(&judged.recommend());
        }
    }
    if !judged.is_predicted() {
        output::diagnostic("Nothing was told: history predicts none of the metrics.");
    }
    // A run without any prediction has not passed, nor one that lost a value.
    Ok(if judged.is_worse() || !judged.is_predicted() || !judged.missing.is_empty() { Exit::Inconclusive } else { Exit::Done })
}

fn document(followed: &FollowedMetric, seen: &MetricComparison, of_family: Option<FalseAlarms>) -> serde_json::Value {
    let of_family = of_family.map(
        |FalseAlarms { share, draws, runs }| json!({"share": share, "draws": draws, "runs": runs, "method": FalseAlarms::METHOD}),
    );
    let (interval, spread, false_alarms, not_predicted) = match &seen.prediction {
        Prediction::Interval { low, high, spread, false_alarms, .. } => {
            (Some([*low, *high]), Some(*spread), Some(*false_alarms), None)
        }
        Prediction::TooFew => (None, None, None, Some("too_few_runs")),
        Prediction::NoRatio => (None, None, None, Some("no_ratio")),
    };
    json!({
        "case": followed.case,
        "point": followed.point,
        "metric": followed.metric.metric,
        "unit": followed.metric.unit,
        "better": followed.past.better,
        "value": followed.past.value,
        "runs": seen.runs,
        "runs_elsewhere": followed.elsewhere,
        "interval": interval,
        "spread": spread,
        "false_alarms": false_alarms,
        "family_false_alarms": of_family,
        "not_predicted": not_predicted,
        "p_adjusted": seen.adjusted,
        "is_worse": seen.is_worse,
    })
}

/// Returns the document of a metric without a value, with the members of the others.
fn missing_document(missing: &MissingMetric) -> serde_json::Value {
    json!({
        "case": missing.case,
        "point": missing.point,
        "metric": missing.metric,
        "unit": missing.unit,
        "better": missing.better,
        "value": null,
        "runs": missing.runs,
        "runs_elsewhere": null,
        "interval": null,
        "spread": null,
        "false_alarms": null,
        "family_false_alarms": null,
        "not_predicted": "no_value",
        "no_value": missing.reason,
        "p_adjusted": 1.0,
        "is_worse": false,
    })
}

fn missing_line(missing: &MissingMetric) -> String {
    let MissingMetric { case, point, metric, runs, reason, .. } = missing;
    let had = if *runs == 1 { "1 earlier run has one".to_owned() } else { format!("{runs} earlier runs have one") };
    format!("{:<18} {metric} of {case} at {point}: {had}; {reason}", "no value")
}

fn line(followed: &FollowedMetric, seen: &MetricComparison) -> String {
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
    let value = significant(followed.past.value, None);
    let name = format!("{} of {} at {}", followed.metric.metric, followed.case, followed.point);
    let verdict = if matches!(seen.prediction, Prediction::Interval { .. }) { verdict } else { "unknown" };
    format!("{verdict:<18} {name}: {value} {}; {predicted}", followed.metric.unit)
}

fn print(judged: &HistoryJudgement) {
    let HistoryJudgement { followed, compared: seen, missing, false_alarms, .. } = judged;
    let worst_first = |wanted: bool| followed.iter().zip(seen).filter(move |(_, seen)| seen.is_worse == wanted);
    let lines = |wanted: bool| worst_first(wanted).map(|(followed, seen)| line(followed, seen));
    lines(true).chain(missing.iter().map(missing_line)).chain(lines(false)).for_each(output::line);
    output::diagnostic(format!(
        "\nStudent's prediction interval on logarithms of per-run medians, one-sided, adjusted for {}.",
        counted(seen.len() as u64, "metric")
    ));
    if let Some(FalseAlarms { share, draws, runs }) = *false_alarms {
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
    if !missing.is_empty() {
        output::diagnostic(format!(
            "{} of which earlier runs have a value: without one nothing is decided.",
            counted(missing.len() as u64, "metric")
        ));
    }
    if judged.is_worse() {
        output::diagnostic(
            "Worse than earlier runs explain. That is no regression yet: the machine may have changed since. History never blocks.",
        );
    }
}

/// Recommends a paired run that would decide.
fn recommend(design: &RecommendedDesign) {
    let RecommendedDesign { paired, metrics, budget } = design;
    let how = match &paired.size {
        Ok(size) => format!("about {} would find {}", counted(size.pairs as u64, "pair"), percent(2.0 * budget)),
        Err(why) => why.to_string(),
    };
    let by = match paired.from_history {
        0 => "the spread of this run's trials".to_owned(),
        all if all == *metrics => "what earlier runs taught".to_owned(),
        some => format!("what earlier runs taught of {} and the spread of this run's trials", counted(some as u64, "metric")),
    };
    output::diagnostic(format!("To decide, measure both in one run: `comparison` with `placement: alternate`. By {by}, {how}."));
}
