//! The report before it is rendered: the content of every rendering, in the order of the renderings.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use assay_manifest::{
    Address, BetterDirection, Case, CaseId, Exclusion, FrozenWorkload, Grade, MetricSummary, Plan, Point, PointId, PointSummary,
    PointView, Reason, RunId, Stability, Summary, TrialId, TrialValue, Views, WorkloadType,
};

use crate::environment::Facts;
use crate::fine_print::{self, FinePrint};
use crate::inputs::Inputs;
use crate::lineage::{Lineage, shell_word, store_option};
use crate::number::{Format, grouped, level, percent};
use crate::serving::{self, Load, RequestedWork};
use crate::strip::{self, StripItem};
use crate::text::{align_points, clean, counted};
use crate::unit;

/// Maximum number of reasons for exclusion that a point lists; other exclusions are counted.
const MAX_EXCLUSIONS: usize = 20;

/// A run's results, ready to be rendered. Made by [`Report::build`].
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub(crate) run_id: RunId,
    pub(crate) pipeline: String,
    pub(crate) sentences: Vec<Sentence>,
    pub(crate) strip: Vec<StripItem>,
    pub(crate) cases: Vec<CaseSection>,
    pub(crate) facts: Vec<Facts>,
    pub(crate) lineage: Lineage,
    pub(crate) fine_print: Vec<FinePrint>,
    pub(crate) location: RunLocation,
}

/// The location of the run for the commands of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RunLocation {
    /// The folder that contains the report, as its recipient has it.
    OwnFolder,
    /// A published folder of this name.
    Folder(String),
    /// A store; without a name, commands find it by themselves.
    Store(Option<String>),
}

/// One sentence: the metric, its value with interval and n, the case, and the grade.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sentence {
    pub(crate) metric: String,
    /// The number with its unit; `None` if no trial counts.
    pub(crate) number: Option<String>,
    /// The interval, or a note that there is none.
    pub(crate) interval: String,
    pub(crate) rest: String,
    /// The address of the number.
    pub(crate) address: Option<Address>,
}

impl fmt::Display for Sentence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.number {
            Some(number) => write!(f, "{} {number} {}, {}", self.metric, self.interval, self.rest),
            None => write!(f, "{}: no number, {}", self.metric, self.rest),
        }
    }
}

/// A case with its points.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CaseSection {
    pub(crate) case_id: CaseId,
    pub(crate) workload: String,
    pub(crate) side: String,
    pub(crate) workload_type: WorkloadType,
    /// For serving: the requested work.
    pub(crate) serving: Option<RequestedWork>,
    pub(crate) points: Vec<PointSection>,
}

/// A metric over the points of a case: rows with the same unit that can be compared.
pub(crate) struct MetricGroup<'a> {
    pub(crate) metric: &'a str,
    pub(crate) unit: &'a str,
    pub(crate) better: Option<BetterDirection>,
    pub(crate) rows: Vec<(&'a PointSection, &'a Row)>,
}

impl CaseSection {
    /// Returns the rows by metric: metrics in the order in which they first appear, points in the plan's order.
    pub(crate) fn groups(&self) -> Vec<MetricGroup<'_>> {
        let mut groups: Vec<MetricGroup<'_>> = Vec::new();
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for (point, row) in self.points.iter().flat_map(|point| point.rows.iter().map(move |row| (point, row))) {
            let place = *places.entry(&row.metric).or_insert_with(|| {
                groups.push(MetricGroup { metric: &row.metric, unit: &row.unit, better: row.better, rows: Vec::new() });
                groups.len() - 1
            });
            if let Some(group) = groups.get_mut(place) {
                group.rows.push((point, row));
            }
        }
        groups
    }
}

impl MetricGroup<'_> {
    /// Returns the title that the rows share: `elapsed, ms, lower is better`.
    pub(crate) fn title(&self) -> String {
        let better = self.better.map_or_else(|| "not declared".to_owned(), |better| format!("{better} is better"));
        format!("{}, {}, {better}", self.metric, self.unit)
    }

    /// Returns the medians aligned at their decimal points, padded with the given characters; a missing one is `absent`.
    pub(crate) fn medians(&self, digit: char, point: char) -> Vec<String> {
        let median = |(_, row): &(_, &Row)| row.measured.as_ref().map_or("absent", |found| &found.median_text).to_owned();
        align_points(&self.rows.iter().map(median).collect::<Vec<_>>(), digit, point)
    }
}

impl MetricStatistics {
    /// Returns the coefficient of variation in percent without its sign, for a column with the sign in its header.
    pub(crate) fn cv_cell(&self) -> String {
        let cv = self.cv.as_deref().unwrap_or("—");
        cv.trim_end_matches(" %").replace("below ", "<")
    }
}

/// A point with its metrics.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PointSection {
    /// The values that define this point, such as `size 16`; its id if it has none.
    pub(crate) label: String,
    pub(crate) planned: u32,
    pub(crate) counted: u32,
    pub(crate) excluded: u32,
    pub(crate) exclusions: Vec<String>,
    /// For serving: the load, and the outcomes of its requests.
    pub(crate) serving: Option<Load>,
    pub(crate) rows: Vec<Row>,
}

impl PointSection {
    /// Returns the row of that metric, measured or absent.
    pub(crate) fn row(&self, metric: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.metric == metric)
    }

    /// Returns the statistics of that metric, if it was measured.
    pub(crate) fn measured(&self, metric: &str) -> Option<&MetricStatistics> {
        self.row(metric)?.measured.as_ref().ok()
    }
}

/// A metric at a point.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) metric: String,
    /// The unit of the shown values.
    pub(crate) unit: String,
    pub(crate) better: Option<BetterDirection>,
    pub(crate) primary: bool,
    /// The statistics, or the reason why they are absent.
    pub(crate) measured: Result<MetricStatistics, String>,
}

/// A metric's statistics across the counted trials of a point.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MetricStatistics {
    pub(crate) n: u64,
    /// In the shown unit, like all values here.
    pub(crate) median: f64,
    pub(crate) median_text: String,
    /// The stored value, in the declared unit.
    pub(crate) stored: String,
    pub(crate) interval: Result<DisplayInterval, String>,
    pub(crate) mean_text: String,
    pub(crate) range_text: String,
    pub(crate) cv: Option<String>,
    pub(crate) stability: Stability,
    pub(crate) stability_reason: String,
    /// In the order in which they ran.
    pub(crate) trials: Vec<Trial>,
    pub(crate) address: Address,
    pub(crate) row_id: String,
    /// The other statistics' addresses, by name.
    pub(crate) others: Vec<(String, Address)>,
}

/// An interval's ends.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DisplayInterval {
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// `[398, 431]`; if both ends would look the same, their distance from the median.
    pub(crate) text: String,
    pub(crate) level: String,
    pub(crate) method: String,
}

/// One trial's value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trial {
    pub(crate) name: String,
    /// The number of the attempt, from 1.
    pub(crate) attempt: u32,
    pub(crate) value: f64,
    pub(crate) text: String,
    pub(crate) samples: u64,
    pub(crate) flagged: bool,
    pub(crate) address: Address,
}

impl Report {
    /// Builds the whole content; the renderings only lay it out.
    pub fn build(inputs: &Inputs<'_>) -> Self {
        let cases = Builder::new(inputs.run_id, inputs.plan, inputs.summary, inputs.views).cases();
        Self {
            run_id: inputs.run_id.clone(),
            pipeline: inputs.plan.pipeline.name.to_string(),
            sentences: sentences(&cases, inputs.grade),
            strip: strip::items(inputs),
            facts: Facts::for_targets(inputs.environments),
            lineage: Lineage::build(inputs),
            fine_print: fine_print::items(inputs),
            location: RunLocation::OwnFolder,
            cases,
        }
    }

    /// Returns the report of a run in a store: its commands name the store, unless they find it by themselves.
    #[must_use]
    pub fn in_store(self, uri: Option<&str>) -> Self {
        Self { location: RunLocation::Store(uri.map(str::to_owned)), ..self }
    }

    /// Returns the report of a run in a published folder, whose commands name the folder.
    #[must_use]
    pub fn in_folder(self, path: &str) -> Self {
        Self { location: RunLocation::Folder(path.to_owned()), ..self }
    }

    /// Returns the command that verifies the run.
    pub(crate) fn verify_command(&self) -> String {
        match &self.location {
            RunLocation::OwnFolder => "assay verify .".to_owned(),
            RunLocation::Folder(path) => format!("assay verify {}", shell_word(path)),
            RunLocation::Store(uri) => format!("assay verify {}{}", self.run_id, store_option(uri.as_deref())),
        }
    }

    /// Returns the command that traces a number back to its evidence.
    pub(crate) fn trace_command(&self, address: &Address) -> String {
        let place = match &self.location {
            RunLocation::OwnFolder => String::new(),
            RunLocation::Folder(path) => format!(" --from {}", shell_word(path)),
            RunLocation::Store(uri) => store_option(uri.as_deref()),
        };
        format!("assay trace {address}{place}")
    }

    /// Returns a note on where to run the commands, and what they can show there.
    pub(crate) fn location_note(&self) -> &'static str {
        match self.location {
            RunLocation::Store(_) => "The commands of `cosign` are run in the published folder.",
            RunLocation::OwnFolder | RunLocation::Folder(_) => {
                "These commands are run in the published folder. It holds no raw bytes, so level 2 is the highest level that it \
                 reaches: levels 3 and 4 need the run's store."
            }
        }
    }

    /// Returns the headline sentences in the plan's order: one for each serving case, and one for each primary metric of every other
    /// point.
    pub fn sentences(&self) -> impl Iterator<Item = String> {
        self.sentences.iter().map(Sentence::to_string)
    }

    /// Returns the address of the first sentence's number, as an example to trace; if no sentence has one, that of the first number.
    pub fn example_address(&self) -> Option<&Address> {
        let of_sentences = self.sentences.iter().find_map(|sentence| sentence.address.as_ref());
        of_sentences.or_else(|| self.rows().find_map(|(_, _, row)| row.measured.as_ref().ok()).map(|measured| &measured.address))
    }

    /// Returns every row with its case and point, in the plan's order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&CaseSection, &PointSection, &Row)> {
        let points = self.cases.iter().flat_map(|case| case.points.iter().map(move |point| (case, point)));
        points.flat_map(|(case, point)| point.rows.iter().map(move |row| (case, point, row)))
    }
}

/// Lookup tables for building the rows.
struct Builder<'a> {
    run_id: &'a RunId,
    plan: &'a Plan,
    /// The index of each trial in the order in which the trials ran.
    places: BTreeMap<&'a TrialId, usize>,
    points: BTreeMap<(&'a CaseId, &'a PointId), &'a PointSummary>,
    views: BTreeMap<(&'a CaseId, &'a PointId), &'a PointView>,
    /// The unit of each workload's metric, the same at all points so that they share an axis.
    units: BTreeMap<(&'a str, &'a str), unit::DisplayUnit>,
}

impl<'a> Builder<'a> {
    fn new(run_id: &'a RunId, plan: &'a Plan, summary: &'a Summary, views: Option<&'a Views>) -> Self {
        let places = plan.trials.iter().enumerate().map(|(place, trial)| (&trial.trial_id, place)).collect();
        let points = summary.points.iter().map(|point| ((&point.case_id, &point.point_id), point)).collect();
        let views = views.into_iter().flat_map(|views| &views.points);
        let views = views.map(|view| ((&view.case_id, &view.point_id), view)).collect();
        Self { run_id, plan, places, points, views, units: units(summary) }
    }

    fn cases(&self) -> Vec<CaseSection> {
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
            points: case.points.iter().map(|point| self.point(case, point, workload)).collect(),
        }
    }

    fn point(&self, case: &Case, point: &Point, workload: Option<&FrozenWorkload>) -> PointSection {
        let label = label(point);
        let Some(found) = self.points.get(&(&case.case_id, &point.point_id)) else {
            let rows = self.absent_rows(workload, &BTreeSet::new(), "the Summary has no such point");
            let planned = self.plan.trial_policy.count;
            return PointSection { label, planned, counted: 0, excluded: 0, exclusions: Vec::new(), serving: None, rows };
        };
        let mut rows: Vec<Row> = found.metrics.iter().map(|metric| self.row(case, metric)).collect();
        rows.extend(found.serving.iter().flat_map(|serving| serving::absent_rows(serving, &found.metrics)));
        let known: BTreeSet<String> = rows.iter().map(|row| row.metric.clone()).collect();
        rows.extend(self.absent_rows(workload, &known, &why_absent(found)));
        let view = self.views.get(&(&case.case_id, &point.point_id)).copied();
        PointSection {
            label,
            planned: found.trials_planned,
            counted: found.trials_counted,
            excluded: u32::try_from(found.excluded.len()).unwrap_or(u32::MAX),
            exclusions: exclusions(&found.excluded),
            serving: (found.workload_type == WorkloadType::Serving).then(|| Load::new(point, found, view)),
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
        let format = Format::new(median, ends);
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

fn label(point: &Point) -> String {
    if let Some(label) = serving::label(point) {
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

/// Returns `none of 5 trials counts`, or `the only trial does not count`.
pub fn describe_none_counted(planned: impl Into<u64>) -> String {
    match planned.into() {
        1 => "the only trial does not count".to_owned(),
        planned => format!("none of {} counts", counted(planned, "trial")),
    }
}

/// Returns the reason for which most attempts of a run do not count, in the words of the first one, and the number of attempts with
/// it. `None` if no attempt has a reason.
pub fn commonest_reason(summary: &Summary) -> Option<String> {
    let excluded = || summary.points.iter().flat_map(|point| &point.excluded);
    let mut counts: Vec<(&Reason, u64)> = Vec::new();
    for exclusion in excluded() {
        let mut said = BTreeSet::new();
        // An attempt that gives the same reason several times counts once.
        for reason in exclusion.reasons.iter().filter(|reason| said.insert(&reason.code)) {
            match counts.iter_mut().find(|(known, _)| known.code == reason.code) {
                Some((_, count)) => *count += 1,
                None => counts.push((reason, 1)),
            }
        }
    }
    let most = counts.iter().map(|(_, count)| *count).max()?;
    let (reason, _) = counts.iter().find(|(_, count)| *count == most)?;
    let detail = if reason.detail.is_empty() { String::new() } else { format!(", {}", reason.detail) };
    let attempts = counted(excluded().count() as u64, "attempt");
    Some(clean(&format!("{}{detail} ({} of {attempts})", reason.code, grouped(most))))
}

/// Returns the reasons for exclusions with the number of occurrences of each: `time_limit x 2, malformed`.
pub(crate) fn reason_counts<'a>(excluded: impl IntoIterator<Item = &'a Exclusion>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in excluded.into_iter().flat_map(|exclusion| &exclusion.reasons) {
        *counts.entry(&reason.code).or_default() += 1;
    }
    let show = |(code, count): (&str, usize)| if count == 1 { code.to_owned() } else { format!("{code} × {count}") };
    clean(&counts.into_iter().map(show).collect::<Vec<_>>().join(", "))
}

/// Returns one line for each set of reasons: attempts that were excluded for the same reasons are named together.
fn exclusions(excluded: &[Exclusion]) -> Vec<String> {
    let mut stories: Vec<(String, Vec<String>)> = Vec::new();
    for exclusion in excluded {
        let reasons: Vec<_> = exclusion.reasons.iter().map(|reason| format!("{}, {}", reason.code, reason.detail)).collect();
        let (story, attempt) = (reasons.join("; "), attempt_name(exclusion));
        let room = stories.len() < MAX_EXCLUSIONS;
        match stories.iter_mut().find(|(known, _)| *known == story) {
            Some((_, attempts)) => attempts.push(attempt),
            None if room => stories.push((story, vec![attempt])),
            None => {}
        }
    }
    let told: usize = stories.iter().map(|(_, attempts)| attempts.len()).sum();
    let mut lines: Vec<_> = stories.iter().map(|(story, attempts)| clean(&format!("{}: {story}", attempts.join(", ")))).collect();
    if excluded.len() > told {
        lines.push(format!("and {} more, listed in the Summary", excluded.len() - told));
    }
    lines
}

/// Returns `t2`, or `t2 (attempt 2)` if it was not the first attempt.
fn attempt_name(exclusion: &Exclusion) -> String {
    let trial = exclusion.trial_id.as_str().rsplit('.').next().unwrap_or_default();
    match exclusion.attempt {
        0 => trial.to_owned(),
        _ => format!("{trial} (attempt {})", ordinal(exclusion.attempt)),
    }
}

/// Converts an index from 0, as in documents, to a number from 1.
fn ordinal(place: u32) -> u32 {
    place.saturating_add(1)
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
    let text = ends_text(low, high, median, format);
    Ok(DisplayInterval { low, high, text, level: level(interval.level), method: clean(&interval.method) })
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

fn sentences(cases: &[CaseSection], grade: &Grade) -> Vec<Sentence> {
    // A sentence mentions declared controls beside the grade that depends on them.
    let declared = if grade.declared.is_empty() { "" } else { " by declaration" };
    let grade = format!("{} grade{declared}", grade.given);
    cases.iter().flat_map(|case| case_sentences(case, &grade)).collect()
}

/// Returns one sentence for a serving case, whose points are one curve; otherwise one for each primary metric of each point.
fn case_sentences(case: &CaseSection, grade: &str) -> Vec<Sentence> {
    match &case.serving {
        Some(work) => vec![serving::sentence(case, work, grade)],
        None => {
            case.points.iter().flat_map(|point| headline_rows(point).map(move |row| sentence(case, point, row, grade))).collect()
        }
    }
}

/// Returns the primary metrics; if none is declared primary, the first metric.
fn headline_rows(point: &PointSection) -> impl Iterator<Item = &Row> {
    let any_primary = point.rows.iter().any(|row| row.primary);
    point
        .rows
        .iter()
        .enumerate()
        .filter(move |(place, row)| if any_primary { row.primary } else { *place == 0 })
        .map(|(_, row)| row)
}

fn sentence(case: &CaseSection, point: &PointSection, row: &Row, grade: &str) -> Sentence {
    let place = format!("{} on {}, {}", case.workload, case.side, point.label);
    let Ok(measured) = &row.measured else {
        let reason = row.measured.as_ref().err().cloned().unwrap_or_default();
        let rest = format!("{reason}; {place}");
        return Sentence { metric: row.metric.clone(), number: None, interval: String::new(), rest, address: None };
    };
    let stability = match measured.stability {
        Stability::Unknown => "stability unknown",
        known => known.as_str(),
    };
    Sentence {
        metric: row.metric.clone(),
        number: Some(format!("{} {}", measured.median_text, row.unit)),
        interval: measured.interval.as_ref().map_or_else(|_| "(no interval)".to_owned(), |ends| ends.text.clone()),
        rest: format!("{}, {place}; {grade}; {stability}", trial_count_text(measured.n, point.planned)),
        address: Some(measured.address.clone()),
    }
}

/// Returns the cases of a plan with their results, for renderings that need only a report's tables.
pub(crate) fn cases(run_id: &RunId, plan: &Plan, summary: &Summary) -> Vec<CaseSection> {
    Builder::new(run_id, plan, summary, None).cases()
}

/// Returns `5 trials`, or `4 of 5 trials` if some do not count.
pub(crate) fn trial_count_text(n: u64, planned: u32) -> String {
    if n == u64::from(planned) { counted(n, "trial") } else { format!("{n} of {}", counted(planned, "trial")) }
}

#[cfg(test)]
mod tests {
    use assay_manifest::TrialId;

    use super::*;
    use crate::fixture;

    fn excluded(attempt: u32, reasons: &[(&str, &str)]) -> Exclusion {
        let point = &fixture::serving::small().summary.points[0];
        let trial_id = TrialId::from_parts(&point.case_id, &point.point_id, 2);
        Exclusion { trial_id, attempt, reasons: reasons.iter().map(|(code, detail)| Reason::new(code, *detail)).collect() }
    }

    #[test]
    fn attempts_are_counted_from_one() {
        let late = [("client_late", "it was late")];
        assert_eq!(exclusions(&[excluded(0, &late), excluded(1, &late)]), ["t2, t2 (attempt 2): client_late, it was late"]);
        let mut model = fixture::model();
        model.summary.points[0].metrics[0].trials[0].attempt = 4;
        let report = model.report();
        let attempts: Vec<u32> = report.cases[0].points[0].rows[0]
            .measured
            .as_ref()
            .expect("it is there")
            .trials
            .iter()
            .map(|trial| trial.attempt)
            .collect();
        assert_eq!(attempts.iter().max(), Some(&5), "{attempts:?}");
        assert_eq!(attempts.iter().min(), Some(&1));
    }

    #[test]
    fn the_commonest_reason_is_told_in_the_words_of_the_first() {
        let mut summary = fixture::serving::small().summary;
        for point in &mut summary.points {
            point.excluded.clear();
        }
        assert_eq!(commonest_reason(&summary), None);
        summary.points[1].excluded = vec![
            excluded(0, &[("client_late", "once"), ("all_failed", "none of 10")]),
            excluded(1, &[("all_failed", "none of 9"), ("all_failed", "none of 9")]),
        ];
        summary.points[2].excluded = vec![excluded(0, &[("client_late", "twice")]), excluded(1, &[("all_failed", "")])];
        assert_eq!(commonest_reason(&summary).as_deref(), Some("all_failed, none of 10 (3 of 4 attempts)"));
        summary.points[1].excluded.clear();
        summary.points[2].excluded.remove(0);
        assert_eq!(commonest_reason(&summary).as_deref(), Some("all_failed (1 of 1 attempt)"), "without words of its own");
    }

    #[test]
    fn commands_name_a_store_that_they_would_not_find() {
        let hint = "level 2 is the highest level that it reaches";
        let published = fixture::report();
        for text in [published.markdown(), published.html()] {
            assert!(text.contains("assay verify .") && text.contains(hint) && !text.contains("--store"), "{text}");
        }
        let found = fixture::report().in_store(None);
        assert!(!found.markdown().contains(hint) && !found.markdown().contains("--store"));
        let received = fixture::report().in_folder("./a folder").markdown();
        assert!(
            received.contains("assay verify './a folder'\n") && received.contains("/value --from './a folder'\n"),
            "{received}"
        );
        let elsewhere = fixture::report().in_store(Some("s3://a bucket"));
        for text in [elsewhere.terminal(100, false), elsewhere.markdown()] {
            assert!(text.contains("assay verify quickstart-2026-11-20 --store 's3://a bucket'\n"), "{text}");
            assert!(text.contains("/value --store 's3://a bucket'\n"), "{text}");
            assert!(!text.contains(hint));
        }
        assert!(elsewhere.html().contains("/value --store &#39;s3://a bucket&#39;</code>"));
    }
}
