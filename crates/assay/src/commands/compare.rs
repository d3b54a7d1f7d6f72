//! `assay compare`: shows two runs side by side, without a verdict.

use std::collections::BTreeSet;
use std::path::PathBuf;

use assay_gate::differences_between_runs;
use assay_manifest::{
    BetterDirection, Collection, Environment, FrozenWorkload, History, IntervalKind, MetricSummary, Name, NumberPlace, Plan,
    PointSummary, Summary, TargetKind,
};
use assay_report::{counted, describe_missing_value, level, probability, significant};
use assay_runs::VerifiedRun;
use assay_stage::{ErrorCode, Exit, Failure, first_names};
use assay_stats::{Alternative, Interval, Samples, benjamini_hochberg, hodges_lehmann, mann_whitney};
use serde_json::json;

use crate::commands::calibrate::is_digest;
use crate::commands::foreign_comparison::{self, ComparisonOutput};
use crate::commands::store_options::StoreOptions;
use crate::output;

/// The confidence level of intervals. Few trials reach less: 3 against 3 at most 90 %.
const LEVEL: f64 = 0.95;

/// Compare two runs, or two pieces of foreign evidence, metric by metric. Their trials are not paired, so a difference between two days may come
/// from the machine. To decide, compare both in one run and judge it with `assay gate`.
#[derive(clap::Args)]
pub(crate) struct Compare {
    /// The baseline run, or the digest of foreign evidence
    #[arg(value_name = "A")]
    baseline: String,
    /// The candidate run, or the digest of foreign evidence
    #[arg(value_name = "B")]
    candidate: String,
    /// A and B are foreign evidence (`assay import results`): names or digests
    #[arg(long)]
    foreign: bool,
    /// Write the comparison of foreign evidence to this folder: `report.html` and `comparison.json`
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    #[command(flatten)]
    place: StoreOptions,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
}

/// The number of cases that a hint names.
const SHOWN_CASES: usize = 3;

/// The number of metrics without a value that are named for each point.
const SHOWN_METRICS: usize = 3;

/// A metric of a point in both runs.
struct Row {
    case: String,
    point: String,
    metric: String,
    unit: String,
    better: Option<BetterDirection>,
    medians: [f64; 2],
    trials: [usize; 2],
    /// The variation that the interval of each run's median holds; `None` if it has none.
    kinds: [Option<IntervalKind>; 2],
    /// The Hodges-Lehmann estimate of the ratio and its interval, or the reason why there is none.
    ratio: Result<(f64, Option<Interval>), String>,
    p: Option<f64>,
    adjusted: f64,
}

impl Compare {
    /// Refuses a run beside foreign evidence: their numbers have other definitions.
    fn refuse_mixed(&self) -> Result<(), Failure> {
        let (evidence, run) = match (is_digest(&self.baseline), is_digest(&self.candidate)) {
            (true, false) => (&self.baseline, &self.candidate),
            (false, true) => (&self.candidate, &self.baseline),
            _ => return Ok(()),
        };
        let message = format!("`{evidence}` is a digest, and `{run}` is a run: only two of a kind are compared");
        Err(Failure::new(ErrorCode::NothingCompared, message).hint(
            "to compare a run with foreign evidence, write it in the format of that tool with `assay export --format`, import the \
             files with `assay import results`, and compare the two digests",
        ))
    }

    pub(crate) fn run(self) -> Result<Exit, Failure> {
        if self.foreign || is_digest(&self.baseline) && is_digest(&self.candidate) {
            let output = ComparisonOutput { to: self.to.as_deref(), json: self.json };
            return foreign_comparison::compare(&self.place.runs(), [&self.baseline, &self.candidate], &output);
        }
        self.refuse_mixed()?;
        if self.to.is_some() {
            return Err(Failure::new(ErrorCode::NothingCompared, "`--to` writes comparisons of foreign evidence, and these are runs")
                .hint("`assay gate RUN --to FOLDER` writes the page of a comparison within one run; `--foreign` reads A and B as foreign evidence"));
        }
        let opened = [self.place.open(&self.baseline)?, self.place.open(&self.candidate)?];
        let [baseline, candidate] = [opened[0].summary()?, opened[1].summary()?];
        let (mut rows, left_out) = rows(baseline, candidate);
        adjust(&mut rows);
        let surroundings = surroundings(&opened);
        let same_run = same_run(&opened);
        if self.json {
            let rows: Vec<_> = rows.iter().map(Row::json).collect();
            output::json(&json!({
                "baseline": self.baseline,
                "candidate": self.candidate,
                "metrics": rows,
                "left_out": left_out,
                "surroundings": surroundings,
                "same_run": same_run.is_some(),
            }))?;
        } else {
            same_run.iter().for_each(output::line);
            let lines = lines(&self.baseline, &self.candidate, &rows, &left_out, &surroundings);
            lines.iter().for_each(output::line);
        }
        if rows.is_empty() {
            return Err(nothing_compared([&self.baseline, &self.candidate], baseline, candidate));
        }
        let established = opened.iter().all(|opened| opened.chain.is_established());
        Ok(output::established(established))
    }
}

/// Adjusts the probabilities of the rows that have one: the others, such as those of metrics that are the same in all trials, were not tested.
fn adjust(rows: &mut [Row]) {
    let adjusted = benjamini_hochberg(&rows.iter().filter_map(|row| row.p).collect::<Vec<_>>());
    rows.iter_mut().filter(|row| row.p.is_some()).zip(adjusted).for_each(|(row, adjusted)| row.adjusted = adjusted);
}

/// States that both runs are one: then every number is compared with itself. Stores and published folders name a run in several ways.
fn same_run([baseline, candidate]: &[VerifiedRun; 2]) -> Option<String> {
    let summary = |opened: &VerifiedRun| opened.chain.all::<Summary>().next().map(|(reference, _)| reference.manifest);
    let is_one = summary(baseline).is_some() && summary(baseline) == summary(candidate);
    is_one.then(|| format!("A and B are the same run `{}`: each number is compared with itself", baseline.chain.run_id))
}

/// Returns the failure of runs that have nothing in common, with what each of them measured.
fn nothing_compared([first, second]: [&str; 2], baseline: &Summary, candidate: &Summary) -> Failure {
    let message = format!("the runs `{first}` and `{second}` have no metric of the same work in common");
    let failure = Failure::new(ErrorCode::NothingCompared, message);
    let with_other_workload = cases_with_other_workload(baseline, candidate);
    if !with_other_workload.is_empty() {
        let cases = first_names(&with_other_workload, SHOWN_CASES);
        return failure.hint(format!(
            "both runs have the case {cases}, but its workload is another: its requests, lengths, loads or other settings differ, so \
             no number is comparable"
        ));
    }
    let cases = |summary: &Summary| {
        let names: BTreeSet<String> = summary.points.iter().map(|point| format!("`{}`", point.case_id)).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    failure.hint(format!(
        "a case is a workload, a target and a variant, by their names: the first run has {}, the second {}",
        cases(baseline),
        cases(candidate)
    ))
}

/// Returns the cases that both runs have, with another workload.
fn cases_with_other_workload(baseline: &Summary, candidate: &Summary) -> Vec<String> {
    let is_changed = |point: &&PointSummary| {
        let mut others = baseline.points.iter().filter(|other| other.case_id == point.case_id);
        others.any(|other| other.workload_spec_digest != point.workload_spec_digest)
    };
    let cases: BTreeSet<String> =
        candidate.points.iter().filter(is_changed).map(|point| format!("`{}`", point.case_id)).collect();
    cases.into_iter().collect()
}

fn environments(opened: &VerifiedRun) -> Vec<&Environment> {
    opened.chain.all().map(|(_, manifest)| &manifest.body).collect()
}

/// Returns other differences that may have had an effect: facts of targets that both runs have, and the pipeline's file.
fn surroundings([baseline, candidate]: &[VerifiedRun; 2]) -> Vec<String> {
    let (before, now) = (environments(baseline), environments(candidate));
    let targets = |all: &[&Environment]| -> BTreeSet<Name> {
        all.iter().flat_map(|environment| &environment.targets).map(|target| target.id.clone()).collect()
    };
    let mut differences = Vec::new();
    for target in targets(&before).intersection(&targets(&now)) {
        differences.extend(differing_address(&before, &now, target));
        let differing = differences_between_runs(&before, &now, target).into_iter();
        differences.extend(
            differing.map(|it| format!("environment: {} of {target} was {} and is {}", it.what, it.baseline, it.candidate)),
        );
    }
    differences.extend([baseline, candidate].into_iter().filter_map(mixed_states));
    differences.extend(candidate.chain.one::<Plan>().into_iter().flat_map(|plan| live_histories(&plan.body)));
    let plans = [baseline, candidate].map(|opened| opened.chain.one::<Plan>().map(|plan| &plan.body));
    if let [Some(before), Some(now)] = plans {
        differences.extend(differing_limits(before, now));
    }
    let pipeline = |opened: &VerifiedRun| opened.chain.one::<Plan>().map(|plan| plan.body.pipeline.digest);
    if pipeline(baseline) != pipeline(candidate) {
        differences.push("definition: the pipeline's file is another, so targets may be set up otherwise".to_owned());
    }
    differences
}

/// Returns the limits by which the attempts of two runs counted, if they are not the same: what one left out, the other may have counted.
fn differing_limits(before: &Plan, now: &Plan) -> Option<String> {
    let [before, now] = [before, now].map(|plan| plan.trial_policy.limits().to_string());
    (before != now).then(|| format!("validity: attempts counted by other limits: {before} / {now}"))
}

/// States the changes of targets and machines between the counted trials of a run: its numbers are of more than one state. `None` if there are none.
fn mixed_states(opened: &VerifiedRun) -> Option<String> {
    let changes: Vec<&str> = opened.chain.one::<Collection>()?.body.mixing_drift().map(|drift| drift.detail.as_str()).collect();
    (!changes.is_empty()).then(|| {
        format!(
            "drift: counted trials of {} lie on both sides of a change: {}",
            opened.chain.run_id,
            first_names(&changes, SHOWN_METRICS)
        )
    })
}

/// Returns a remark for each workload whose prompts depend on the responses of the endpoint.
fn live_histories(plan: &Plan) -> impl Iterator<Item = String> {
    let is_live = |workload: &&FrozenWorkload| {
        let sessions = workload.serving.as_ref().and_then(|serving| serving.sessions.as_ref());
        sessions.is_some_and(|sessions| sessions.history == History::Live)
    };
    plan.workloads.iter().filter(is_live).map(|workload| {
        format!(
            "history: prompts of {} repeat the endpoint's own responses, so the two runs may have asked differently",
            workload.name
        )
    })
}

/// Returns the difference between the addresses of an endpoint in two runs. A target that a run starts has another port each time.
fn differing_address(before: &[&Environment], now: &[&Environment], target: &Name) -> Option<String> {
    let (before, now) = (addresses(before, target), addresses(now, target));
    let is_known = !before.is_empty() && !now.is_empty();
    (is_known && before != now)
        .then(|| format!("environment: the address of {target} differs: {} / {}", before.join(", "), now.join(", ")))
}

/// Returns the addresses of a target, sorted, each once.
fn addresses<'a>(environments: &[&'a Environment], target: &Name) -> Vec<&'a str> {
    let targets = environments.iter().flat_map(|environment| &environment.targets);
    let addresses = targets
        .filter(|found| found.id == *target && found.kind == TargetKind::Endpoint)
        .filter_map(|found| found.address.as_deref());
    addresses.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns the metrics that both runs report for the same work, and the metrics that are left out.
fn rows<'a>(baseline: &'a Summary, candidate: &'a Summary) -> (Vec<Row>, Vec<String>) {
    let (mut rows, mut left_out) = (Vec::new(), Vec::new());
    let is_same = |one: &NumberPlace<'_>, other: &NumberPlace<'_>| one.case_id == other.case_id && one.point_id == other.point_id;
    for (place, metrics) in candidate.places() {
        let name = format!("{} at {}", place.case_id, place.point_id);
        match baseline.places().find(|(other, _)| is_same(other, &place)) {
            None => left_out.push(format!("{name}: the other run has no such point")),
            Some((other, _)) if other.workload_spec_digest != place.workload_spec_digest => {
                left_out.push(format!("{name}: the workload is another, so no number is comparable"));
            }
            Some((_, others)) => {
                let find =
                    |all: &'a [MetricSummary], wanted: &MetricSummary| all.iter().find(|other| other.metric == wanted.metric);
                let both = metrics.iter().filter_map(|metric| Some((find(others, metric)?, metric)));
                rows.extend(both.filter_map(|(before, now)| row(place, before, now)));
                let missing = |here: &'a [MetricSummary], there: &'a [MetricSummary]| -> Vec<&str> {
                    here.iter().filter(|metric| find(there, metric).is_none()).map(|metric| metric.metric.as_str()).collect()
                };
                left_out.extend(describe_missing(&place, &missing(others, metrics), "B", candidate));
                left_out.extend(describe_missing(&place, &missing(metrics, others), "A", baseline));
            }
        }
    }
    let gone = baseline.places().filter(|(place, _)| !candidate.places().any(|(other, _)| is_same(&other, place)));
    left_out.extend(gone.map(|(place, _)| format!("{} at {}: only the first run has it", place.case_id, place.point_id)));
    (rows, left_out)
}

/// Describes the metrics that one run of a point has and the other, `run`, has not: with the reason why this one has no value.
fn describe_missing(place: &NumberPlace<'_>, metrics: &[&str], run: &str, summary: &Summary) -> Option<String> {
    if metrics.is_empty() {
        return None;
    }
    let is_here = |point: &&PointSummary| point.case_id == *place.case_id && point.point_id == *place.point_id;
    let why = summary.points.iter().find(is_here).map(|point| format!(": {}", describe_missing_value(point))).unwrap_or_default();
    let names: Vec<String> = metrics.iter().map(|metric| format!("`{metric}`")).collect();
    let names = first_names(&names, SHOWN_METRICS);
    Some(format!("{} at {}: {run} has no value of {names}{why}", place.case_id, place.point_id))
}

fn row(place: NumberPlace<'_>, before: &MetricSummary, now: &MetricSummary) -> Option<Row> {
    let samples = |metric: &MetricSummary| {
        let values: Vec<f64> = metric.trials.iter().map(|trial| trial.value).collect();
        Samples::new(&values).ok()
    };
    let (baseline, candidate) = (samples(before)?, samples(now)?);
    let ratio = hodges_lehmann::ratio(&baseline, &candidate, LEVEL).map_err(|why| why.to_string());
    Some(Row {
        case: place.case_id.to_string(),
        point: place.point_id.to_string(),
        metric: now.metric.clone(),
        unit: now.unit.clone(),
        better: now.better,
        medians: [baseline.median(), candidate.median()],
        trials: [baseline.len(), candidate.len()],
        kinds: [before, now].map(|metric| metric.interval.as_ref().map(|interval| interval.kind)),
        ratio: ratio.map(|shift| (shift.estimate, shift.interval.ok())),
        p: mann_whitney(&candidate, &baseline, Alternative::TwoSided).ok().map(|tested| tested.p),
        adjusted: 1.0,
    })
}

impl Row {
    fn json(&self) -> serde_json::Value {
        let (ratio, interval) = self.ratio.as_ref().map_or((None, None), |(ratio, interval)| (Some(*ratio), *interval));
        json!({
            "case": self.case,
            "point": self.point,
            "metric": self.metric,
            "unit": self.unit,
            "better": self.better,
            "baseline_median": self.medians[0],
            "candidate_median": self.medians[1],
            "trials": self.trials,
            "interval_kinds": self.kinds,
            "ratio": ratio,
            "low": interval.map(|interval| interval.low),
            "high": interval.map(|interval| interval.high),
            "level": interval.map(|interval| interval.level),
            "no_ratio": self.ratio.as_ref().err(),
            "p": self.p,
            "p_adjusted": self.adjusted,
        })
    }

    /// Returns true if a run has the metric with an interval within that run only.
    fn is_within_run(&self) -> bool {
        self.kinds.contains(&Some(IntervalKind::WithinRun))
    }

    /// Returns the coverage of its interval, if that is less than [`LEVEL`]: so few trials reach no more.
    fn low_level(&self) -> Option<f64> {
        let (_, interval) = self.ratio.as_ref().ok()?;
        interval.map(|interval| interval.level).filter(|level| *level < LEVEL)
    }

    /// Returns the change with its interval, and with its coverage if that is low.
    fn change(&self) -> String {
        match &self.ratio {
            Ok((ratio, Some(Interval { low, high, .. }))) => {
                let coverage = self.low_level().map(|share| format!(" ({})", level(share))).unwrap_or_default();
                format!("{:+.1} % [{:+.1}, {:+.1}]{coverage}", percent(*ratio), percent(*low), percent(*high))
            }
            Ok((ratio, None)) => format!("{:+.1} %", percent(*ratio)),
            Err(_) => "no ratio".to_owned(),
        }
    }

    /// Returns the row of the table, with columns of these widths for the unit and the change.
    fn line(&self, [unit_width, change_width]: [usize; 2]) -> String {
        let change = self.change();
        let medians = self.medians.map(|median| significant(median, None));
        let within_run = if self.is_within_run() { ", within run" } else { "" };
        let trials = format!("{} / {}{within_run}", self.trials[0], self.trials[1]);
        let p = self.p.map_or_else(|| "-".to_owned(), |_| probability(self.adjusted));
        format!(
            "  {:<32} {:>10} {:>10} {:<unit_width$} {change:<change_width$} {p:>7}  {trials}",
            self.metric, medians[0], medians[1], self.unit
        )
    }
}

fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

/// Returns the lines of the comparison, each without a line break: a name in them begins no line of its own.
fn lines(baseline: &str, candidate: &str, rows: &[Row], left_out: &[String], surroundings: &[String]) -> Vec<String> {
    let (mut lines, mut place) = (Vec::new(), None);
    let unit_width = rows.iter().map(|row| row.unit.chars().count()).chain([4]).max().unwrap_or(4);
    let change_width = rows.iter().map(|row| row.change().chars().count()).chain([26]).max().unwrap_or(26);
    for row in rows {
        if place != Some((&row.case, &row.point)) {
            lines.push(format!("{} at {}", row.case, row.point));
            let mut of_place = rows.iter().filter(|other| (&other.case, &other.point) == (&row.case, &row.point));
            let change = if of_place.any(|row| row.low_level().is_some()) { "CHANGE" } else { "CHANGE, 95 %" };
            lines.push(format!(
                "  {:<32} {:>10} {:>10} {:<unit_width$} {:<change_width$} {:>7}  TRIALS",
                "METRIC", "A", "B", "UNIT", change, "ADJ. P"
            ));
            place = Some((&row.case, &row.point));
        }
        lines.push(row.line([unit_width, change_width]));
    }
    lines.extend(left_out.iter().map(|what| format!("left out: {what}")));
    lines.extend(surroundings.iter().cloned());
    if !rows.is_empty() {
        lines.push(String::new());
        lines.extend(method(baseline, candidate, rows));
        if rows.iter().any(|row| row.low_level().is_some()) {
            let text = "Intervals cover 95 % or more, or the share in parentheses, which is the most that so few trials reach.";
            lines.push(text.to_owned());
        }
        if rows.iter().any(Row::is_within_run) {
            let text = "Within run: one trial, whose interval does not hold the variation from run to run; such a change has no interval.";
            lines.push(text.to_owned());
        }
    }
    lines
}

/// Returns the lines that say how the changes were computed.
fn method(baseline: &str, candidate: &str, rows: &[Row]) -> [String; 2] {
    let tests = counted(rows.iter().filter(|row| row.p.is_some()).count() as u64, "test");
    [
        format!(
            "A is {baseline}, B is {candidate}; B over A. Ratio of Hodges and Lehmann; two-sided Mann-Whitney, adjusted for {tests}."
        ),
        "The trials of two runs are not paired: the machine may have made the difference. To decide, measure both in one run."
            .to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use assay_manifest::{Digest, RunStatus, WorkloadType};

    use super::*;

    /// Returns the Summary of a run with one case of this workload.
    fn summary(workload: &str) -> Summary {
        serde_json::from_value(json!({
            "plan_digest": Digest::compute(b"plan"),
            "artifact_manifest_digest": Digest::compute(b"collection"),
            "status": RunStatus::Succeeded,
            "issues": [],
            "reduce_binary": Digest::compute(b"reduce"),
            "points": [{
                "case_id": "bench.endpoint.default",
                "point_id": "concurrency-1",
                "workload_type": WorkloadType::Serving,
                "workload_spec_digest": Digest::compute(workload.as_bytes()),
                "value": {"concurrency": "1"},
                "trials_planned": 5, "trials_counted": 5, "attempts": 5, "excluded": [], "metrics": [],
            }],
            "files": [],
        }))
        .expect("a Summary")
    }

    fn compared() -> Row {
        Row {
            case: "bench.endpoint.default".to_owned(),
            point: "concurrency-1".to_owned(),
            metric: "ttft_ms_p50".to_owned(),
            unit: "ms".to_owned(),
            better: None,
            medians: [5.0, 5.5],
            trials: [5, 5],
            kinds: [Some(IntervalKind::BetweenTrials); 2],
            ratio: Ok((1.1, None)),
            p: Some(0.01),
            adjusted: 0.01,
        }
    }

    /// The sentence below the table names as many tests as the adjustment is for.
    #[test]
    fn only_rows_with_a_test_are_adjusted_for() {
        let constant = || Row { p: None, adjusted: 1.0, ..compared() };
        let mut rows = [compared(), constant(), Row { p: Some(0.5), ..compared() }, constant()];
        adjust(&mut rows);
        assert_eq!(json!(rows.iter().map(|row| row.adjusted).collect::<Vec<_>>()), json!([0.02, 1.0, 0.5, 1.0]));
        assert!(method("one", "two", &rows)[0].ends_with("adjusted for 2 tests."));
    }

    #[test]
    fn a_line_has_no_line_break_that_would_be_escaped() {
        let lines = lines("one", "two", &[compared()], &[], &[]);
        assert!(lines.iter().all(|line| !line.contains('\n')), "{lines:#?}");
        assert!(lines.iter().any(|line| line.starts_with("A is one, B is two;") && line.ends_with("adjusted for 1 test.")));
    }

    #[test]
    fn an_interval_within_a_run_is_named_as_one() {
        let shown = |kinds| lines("one", "two", &[Row { kinds, trials: [1, 1], ..compared() }], &[], &[]).join("\n");
        let text = shown([Some(IntervalKind::BetweenTrials), Some(IntervalKind::WithinRun)]);
        assert!(text.contains("  1 / 1, within run\n"), "{text}");
        assert!(text.ends_with("does not hold the variation from run to run; such a change has no interval."), "{text}");
        for kinds in [[Some(IntervalKind::BetweenTrials); 2], [None; 2]] {
            assert!(!shown(kinds).to_lowercase().contains("within run"), "{}", shown(kinds));
        }
    }

    #[test]
    fn an_interval_of_few_trials_states_its_coverage() {
        let of = |sides: [u32; 2]| {
            let [before, now] =
                sides.map(|trials| Samples::new(&(0..trials).map(|i| 5.0 + f64::from(i)).collect::<Vec<_>>()).expect("samples"));
            let found = hodges_lehmann::ratio(&before, &now, LEVEL).expect("a ratio");
            Row { ratio: Ok((found.estimate, found.interval.ok())), trials: [before.len(), now.len()], ..compared() }
        };
        let shown = |sides: [u32; 2]| {
            let row = of(sides);
            let json = row.json();
            (lines("one", "two", &[row], &[], &[]).join("\n"), json)
        };
        for (sides, level, text) in [([3, 3], 0.9, "] (90 %) "), ([3, 4], 33.0 / 35.0, "] (94.29 %) ")] {
            let (screen, json) = shown(sides);
            assert!(screen.contains(text) && screen.contains("or the share in parentheses"), "{screen}");
            assert!(!screen.contains("CHANGE, 95 %"), "{screen}");
            assert!((json["level"].as_f64().expect("a level") - level).abs() < 1e-12, "{json}");
        }
        let (screen, json) = shown([5, 5]);
        assert!(screen.contains("CHANGE, 95 %") && !screen.contains("parentheses") && !screen.contains("] ("), "{screen}");
        assert!(json["level"].as_f64().is_some_and(|level| level >= 0.95), "{json}");
        let (screen, json) = shown([2, 2]);
        assert!(!screen.contains("parentheses") && json["level"].is_null() && json["low"].is_null(), "{screen}");
    }

    #[test]
    fn a_value_that_only_one_run_has_is_named() {
        let mut with = summary("work");
        let metric: MetricSummary = serde_json::from_value(json!({
            "metric": "wall_ms", "unit": "ms", "better": "lower", "primary": true, "n": "1", "median": 5.0, "mean": 5.0, "min": 5.0,
            "max": 5.0, "interval_absent": "one trial", "stability": "unknown", "stability_reason": "", "rows": {}, "trials": [],
        })).expect("a metric");
        with.points[0].metrics = vec![metric];
        let mut without = summary("work");
        without.points[0].trials_counted = 0;
        let (found, left_out) = rows(&with, &without);
        assert!(found.is_empty());
        let reason = "bench.endpoint.default at concurrency-1: B has no value of `wall_ms`: none of 5 trials counts";
        assert_eq!(left_out, [reason]);
        assert_eq!(rows(&without, &with).1, [reason.replace("B has", "A has")]);
        assert_eq!(rows(&with, &with).1, Vec::<String>::new());
    }

    #[test]
    fn without_a_row_there_is_no_adjustment() {
        let left_out = "a at b: the workload is another, so no number is comparable".to_owned();
        assert_eq!(lines("one", "two", &[], std::slice::from_ref(&left_out), &[]), [format!("left out: {left_out}")]);
    }

    #[test]
    fn another_workload_is_the_reason_that_is_given() {
        let hint = |other: &str| nothing_compared(["a", "b"], &summary("long"), &summary(other)).to_string();
        let other = hint("short");
        assert!(other.contains("both runs have the case `bench.endpoint.default`, but its workload is another"), "{other}");
        let without_metrics = hint("long");
        assert!(without_metrics.contains("the first run has `bench.endpoint.default`, the second"), "{without_metrics}");
    }

    #[test]
    fn another_address_of_an_endpoint_is_named() {
        let environment = |kind: &str, address: &str| -> Environment {
            let version = json!({"source": "observed", "value": "1", "how": "GET /version"});
            let target = json!({"id": "endpoint", "kind": kind, "hosts": [], "address": address, "version": version, "models": [], "probes": []});
            serde_json::from_value(json!({
                "plan_digest": Digest::compute(b"plan"),
                "block": {"index": 0, "incarnation": 0},
                "observed_at": "2026-11-21T09:00:00.000000000Z",
                "hosts": [], "software": [], "targets": [target], "controls": [], "placement": {}, "readings": [],
            }))
            .expect("an Environment")
        };
        let name: Name = "endpoint".parse().expect("a name");
        let (one, other) = (environment("endpoint", "http://one:1"), environment("endpoint", "http://other:2"));
        assert_eq!(
            differing_address(&[&one], &[&other], &name).as_deref(),
            Some("environment: the address of endpoint differs: http://one:1 / http://other:2")
        );
        assert_eq!(differing_address(&[&one], &[&one], &name), None);
        let started = environment("process", "http://127.0.0.1:5");
        assert_eq!(differing_address(&[&started], &[&environment("process", "http://127.0.0.1:6")], &name), None);
    }
}
