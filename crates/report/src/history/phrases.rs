//! Histories in words, the same for every rendering.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use assay_manifest::BetterDirection;

use super::model::{AmbiguousStretch, Change, LOCATION_TOLERANCE, Run, Series, Subject};
use crate::render::number::{Format, probability, significant};
use crate::render::text::{counted, short_commit};

/// Returns the result in one sentence: the level moved and with which run, or it did not move, or the reason why it was not searched.
/// Backticks mark names.
pub(crate) fn sentence(series: &Series) -> String {
    let runs = counted(series.runs.len() as u64, "run");
    match (&series.newest_change, &series.changes) {
        (Some(news), _) => format!("{}, among the newest of {runs}", moved_sentence(series, news)),
        (None, Ok(changes)) => match changes.as_slice() {
            [] => format!("No change of level in {runs}"),
            [only] => moved_sentence(series, only),
            [earlier @ .., last] => format!("{}, the last of {} changes", moved_sentence(series, last), earlier.len() + 1),
        },
        (None, Err(why)) => format!("Not searched for changes: {why}"),
    }
}

/// Returns `Level moved up, +10.0 % [+9.8, +10.3], with run `run-15` (2026-11-05): worse`.
fn moved_sentence(series: &Series, change: &Change) -> String {
    let way = if change.after >= change.before { "up" } else { "down" };
    let by = change_with_interval(change).unwrap_or_else(|| {
        format!("from {} to {} {}", significant(change.before, None), significant(change.after, None), series.unit)
    });
    let run = series.runs.get(change.index);
    let with = run.map(|run| format!(", with run `{}`{}", run.id, in_brackets(date(run)))).unwrap_or_default();
    let judged = judgement(series.better, change).map(|word| format!(": {word}")).unwrap_or_default();
    let environment = nearest_environment_change(series, change)
        .map(|near| format!(" (the {} changed {})", near.what, near.relative_position("too")));
    let environment = environment.unwrap_or_default();
    format!("Level moved {way}, {by}{with}{judged}{environment}")
}

/// Returns a full description of a change, for renderings without a table.
pub(crate) fn describe_change(series: &Series, change: &Change) -> String {
    let Some(run) = series.runs.get(change.index) else { return String::new() };
    let commit = run.commit.as_deref().map(|commit| format!(", commit {}", short_commit(commit))).unwrap_or_default();
    let (before, after) = (significant(change.before, None), significant(change.after, None));
    let share = change_with_interval(change).map(|share| format!(", {share}")).unwrap_or_default();
    let judged = judgement(series.better, change).map(|word| format!(", {word}")).unwrap_or_default();
    let environment = environment_note(series, change).map(|what| format!("; {what}")).unwrap_or_default();
    let p = probability(change.p);
    format!("from {}{commit}: {before} to {after} {}{share}{judged}, p {p}{environment}", run_label(run), series.unit)
}

/// Returns the change with its interval: `+10.0 % [+9.8, +10.3]`; `None` if it has no ratio.
pub(crate) fn change_with_interval(change: &Change) -> Option<String> {
    let (by, interval) = (change_text(change)?, interval(change));
    Some(if interval.is_empty() { by } else { format!("{by} {interval}") })
}

/// Returns the change without its interval: `+10.0 %`; `None` if it has no ratio.
pub(crate) fn change_text(change: &Change) -> Option<String> {
    let (whole, format) = percent(change)?;
    Some(format!("{} %", format.signed(whole)))
}

/// Returns the interval of a change, in percent: `[+9.8, +10.3]`; empty if it has none.
pub(crate) fn interval(change: &Change) -> String {
    let ends = percent(change).zip(change.interval);
    ends.map(|((_, format), (low, high))| format!("[{}, {}]", format.signed(low * 100.0), format.signed(high * 100.0)))
        .unwrap_or_default()
}

/// Returns a change in percent, and the format with as many digits as its interval supports.
fn percent(change: &Change) -> Option<(f64, Format)> {
    let whole = change.change? * 100.0;
    // Without an interval nothing supports a third digit.
    let ends = change.interval.map_or((0.0, whole), |(low, high)| (low * 100.0, high * 100.0));
    Some((whole, Format::new(whole, Some(ends))))
}

/// Returns `better` or `worse`; `None` if no direction is declared or the level did not change.
pub(crate) fn judgement(better: Option<BetterDirection>, change: &Change) -> Option<&'static str> {
    let way = change.after.partial_cmp(&change.before)?;
    let wanted = match better? {
        BetterDirection::Lower => Ordering::Less,
        BetterDirection::Higher => Ordering::Greater,
    };
    (way != Ordering::Equal).then_some(if way == wanted { "better" } else { "worse" })
}

/// Describes the change of the environment near a change of level: the environment may then be its cause.
pub(crate) fn environment_note(series: &Series, change: &Change) -> Option<String> {
    let near = nearest_environment_change(series, change)?;
    let kind = match near.run {
        run if run.hardware_changed || run.software_changed => "environment",
        run if run.tool_changed => "tool",
        _ => "definition",
    };
    Some(format!("{kind}: the {} changed {}", near.what, near.relative_position("with that run")))
}

/// The run with an environment change that is nearest to a change of level: the located run may be off by a few runs.
struct NearbyRun<'a> {
    run: &'a Run,
    what: String,
    /// Number of runs between the change and this run, negative if it is earlier.
    after: isize,
}

impl NearbyRun<'_> {
    /// Returns `there` if it is the run of the change itself, else its name and distance: `with run-13, 2 runs before`.
    fn relative_position(&self, there: &str) -> String {
        if self.after == 0 {
            return there.to_owned();
        }
        let way = if self.after < 0 { "before" } else { "after" };
        format!("with {}, {} {way}", self.run.id, counted(self.after.unsigned_abs() as u64, "run"))
    }
}

fn nearest_environment_change<'a>(series: &'a Series, change: &Change) -> Option<NearbyRun<'a>> {
    let near = series
        .runs
        .iter()
        .enumerate()
        .skip(change.index.saturating_sub(LOCATION_TOLERANCE))
        .take_while(|(at, _)| *at <= change.index + LOCATION_TOLERANCE);
    let (at, run, what) = near
        .filter_map(|(at, run)| Some((at, run, environment_difference(run)?)))
        .min_by_key(|(at, ..)| at.abs_diff(change.index))?;
    Some(NearbyRun { run, what, after: at.cast_signed() - change.index.cast_signed() })
}

/// Returns what differs from the environment of the run before: `hardware`, `software`, or `hardware and the software`; `None` if
/// nothing differs.
pub(crate) fn environment_difference(run: &Run) -> Option<String> {
    let what: Vec<_> = [
        ("hardware", run.hardware_changed),
        ("software", run.software_changed),
        ("pipeline's file", run.pipeline_changed),
        ("version of the tool", run.tool_changed),
    ]
    .into_iter()
    .filter_map(|(what, changed)| changed.then_some(what))
    .collect();
    (!what.is_empty()).then(|| what.join(" and the "))
}

/// Returns `run-15 (2026-11-05)`.
pub(crate) fn run_label(run: &Run) -> String {
    format!("{}{}", run.id, in_brackets(date(run)))
}

/// Returns the day on which a run began, in UTC.
pub(crate) fn date(run: &Run) -> Option<String> {
    let text = run.started?.to_seconds();
    Some(text.get(..10).unwrap_or(&text).to_owned())
}

fn in_brackets(text: Option<String>) -> String {
    text.map(|text| format!(" ({text})")).unwrap_or_default()
}

/// Returns ` of concurrency=8, model=x`; empty without labels.
pub(super) fn of_labels(labels: &BTreeMap<String, String>) -> String {
    let all: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if all.is_empty() { String::new() } else { format!(" of {}", all.join(", ")) }
}

/// Returns the name of a history as the title of its chart: that of a point begins with its case.
pub(super) fn title(series: &Series) -> String {
    let metric = &series.metric;
    match &series.subject {
        Subject::Point { pipeline, case, point } => format!("{case} {point} {metric} by {pipeline}"),
        Subject::Foreign { tool, statistic, labels } => format!("{metric} ({statistic}){} by {tool}", of_labels(labels)),
    }
}

/// Returns `ms, lower is better`; only the unit if no direction is declared.
pub(crate) fn unit(series: &Series) -> String {
    let better = series.better.map(|better| format!(", {better} is better")).unwrap_or_default();
    format!("{}{better}", series.unit)
}

/// Returns a line for each stretch in which no further changes can be distinguished.
pub(crate) fn ambiguous_lines(series: &Series) -> Vec<String> {
    let line = |untold: &AmbiguousStretch| {
        let (first, last) = (series.runs.get(untold.from)?, series.runs.get(untold.to.checked_sub(1)?)?);
        Some(format!(
            "from run `{}` to `{}` a change cannot be told from a slow wave: neighbouring runs correlate by {:.2}",
            first.id, last.id, untold.autocorrelation
        ))
    };
    if series.changes.is_err() { Vec::new() } else { series.ambiguous.iter().filter_map(line).collect() }
}

/// Returns a note on the number of runs that are left out, with the reason; `None` if there are none.
pub(crate) fn omission_note(series: &Series) -> Option<String> {
    let runs = counted(series.other_work, "run");
    (series.other_work > 0).then(|| match series.subject {
        Subject::Point { .. } => format!("{runs} of other work left out"),
        Subject::Foreign { .. } => format!("{runs} without this statistic left out"),
    })
}
