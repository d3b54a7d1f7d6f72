//! The first screen of a result: what is there, the headline, the tables, and the remarks that matter most.

use assay_manifest::MAX_RSS;

use crate::render::terminal::{Paint, Screen};
use crate::render::text::{columns, counted, fit, wrap};
use crate::run::model::Report;
use crate::run::model::fold::{self, FoldedRemark};
use crate::run::model::remark::{self, RemarkKind};
use crate::run::model::section::{CaseSection, PointSection, Row};

use super::serving::legend;

/// Maximum number of lines at a width of 100 columns, without those of a scenario; the commands that follow it make 40.
const MAX_LINES: usize = 35;

/// Maximum number of lines about the rules of a scenario. All rules of AgentX have fewer; a hostile Summary can invent more.
const MAX_SCENARIO_LINES: usize = 60;

/// Maximum number of remarks, one line each.
const MAX_REMARKS: usize = 5;

/// The lines of a serving table beside its rows and its heading: a blank line, and two lines of header.
const SERVING_FRAME: usize = 3;

/// The forms of the tables with the numbers of remarks below them, best first. Rows matter more than remarks.
const LAYOUTS: [(Form, usize); 4] =
    [(Form::Intervals, MAX_REMARKS), (Form::Medians, MAX_REMARKS), (Form::OneTable, MAX_REMARKS), (Form::OneTable, 1)];

const INDENT: &str = "  ";

/// The beginning of a remark.
const FIRST: &str = "· ";

/// Returns the case and what is sent.
fn heading(case: &CaseSection) -> String {
    let work = case.serving.as_ref().map(|work| {
        let slos = if work.slos.is_empty() { String::new() } else { format!("; SLOs {}", work.slo_text()) };
        format!(": {}, {}{slos}", work.arrival_name(), work.lengths)
    });
    format!("{}{}", case.case_id, work.unwrap_or_default())
}

/// The form of the serving tables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A table for each case, with intervals.
    Intervals,
    /// A table for each case, without intervals.
    Medians,
    /// One table for all cases, without intervals and headings.
    OneTable,
}

/// The tables of a result.
struct Tables<'a> {
    serving: Vec<&'a CaseSection>,
    /// The rows of all other cases.
    others: Vec<(&'a CaseSection, &'a PointSection, &'a Row)>,
}

impl<'a> Tables<'a> {
    fn new(cases: &'a [CaseSection]) -> Self {
        let others = cases.iter().filter(|case| case.serving.is_none()).flat_map(headline_rows).collect();
        Self { serving: cases.iter().filter(|case| case.serving.is_some()).collect(), others }
    }

    /// Returns the number of loads, and of rows of other cases.
    fn rows(&self) -> usize {
        self.others.len() + self.serving.iter().map(|case| case.points.len()).sum::<usize>()
    }

    /// Returns the number of lines of all tables at this width.
    fn lines(&self, form: Form, width: usize) -> usize {
        let headings = || self.serving.iter().map(|case| wrap(&heading(case), width).len()).sum::<usize>();
        let frames = match (form, self.serving.len()) {
            (_, 0) => 0,
            // Labels with the names of cases may leave a table too narrow for a column, which a line of its own says.
            (Form::OneTable, 2..) => SERVING_FRAME + 1,
            (_, count) => count * SERVING_FRAME + headings(),
        };
        let intervals = if form == Form::Intervals { self.rows() - self.others.len() } else { 0 };
        let legend = usize::from(!self.serving.is_empty());
        let blank = usize::from(!self.others.is_empty());
        frames + legend + blank + self.rows() + intervals
    }

    /// Returns the cases whose tables are written: in one table, all loads are those of one case, and their labels name their own.
    fn sections(&self, form: Form) -> Vec<CaseSection> {
        match (form, self.serving.as_slice()) {
            (Form::OneTable, [first, _, ..]) => {
                let points = self.serving.iter().flat_map(|case| case.points.iter().map(|point| self.named(case, point)));
                vec![CaseSection { points: points.collect(), ..(*first).clone() }]
            }
            (_, serving) => serving.iter().map(|case| (*case).clone()).collect(),
        }
    }

    /// Returns a load whose label names its case: by the workload, if that tells them apart.
    fn named(&self, case: &CaseSection, point: &PointSection) -> PointSection {
        let is_unique = self.serving.iter().filter(|other| other.workload == case.workload).count() == 1;
        let name = if is_unique { &case.workload } else { case.case_id.as_str() };
        PointSection { label: format!("{name}, {}", point.label), ..point.clone() }
    }
}

impl Report {
    /// Returns the first screen of the result, of at most 35 lines at 100 columns, and of the rules of a scenario that are not met. The rest is in [`Report::terminal`] and in the
    /// published report.
    pub fn terminal_summary(&self, width: usize, color: bool) -> String {
        let mut screen = Screen::new(width, color);
        screen.overview(self);
        if let Some(headline) = self.headline() {
            screen.paragraph("", &headline.to_string(), Paint::Strong);
        }
        let is_verdict = |remark: &FoldedRemark| remark.kind == RemarkKind::Scenario;
        let (verdicts, remarks): (Vec<_>, Vec<_>) = fold::fold_cases(&self.cases).into_iter().partition(is_verdict);
        let remark_lines = |most: usize| if remarks.is_empty() { 0 } else { 1 + remarks.len().min(most + 1) };
        let room = MAX_LINES.saturating_sub(screen.lines());
        let room = |most: usize| room.saturating_sub(remark_lines(most));
        let tables = Tables::new(&self.cases);
        let fits = |(form, most): &(Form, usize)| tables.lines(*form, width) <= room(*most);
        let (form, most) = LAYOUTS.into_iter().find(fits).unwrap_or((Form::OneTable, 1));
        screen.tables(&tables, form, room(most), &format!("assay show {} --all", self.run_id));
        if !remarks.is_empty() {
            screen.line("");
        }
        let more = fold::left_out(&remarks, most);
        let shown: Vec<&String> = remarks.iter().take(most).map(|remark| &remark.text).chain(&more).collect();
        // A remark has further lines where the screen has room for them.
        let mut spare = MAX_LINES.saturating_sub(screen.lines() + shown.len());
        for remark in shown {
            let room = screen.width.saturating_sub(columns(FIRST));
            let lines = remark::lines(remark, room, remark::MAX_LINES.min(1 + spare));
            spare = spare.saturating_sub(lines.len().saturating_sub(1));
            for (index, line) in lines.iter().enumerate() {
                screen.single_line(if index == 0 { FIRST } else { INDENT }, line, Paint::Faint);
            }
        }
        screen.verdicts(&verdicts, &format!("assay show {} --all", self.run_id));
        screen.out
    }
}

impl Screen {
    /// Writes the head: how much is there, where and when it was measured, and how sure it is.
    pub(super) fn overview(&mut self, report: &Report) {
        let overview = &report.overview;
        let paint = if overview.is_complete { Paint::Strong } else { Paint::Caution };
        self.paragraph("", &overview.completeness, paint);
        self.paragraph("", &overview.setting, Paint::Faint);
        self.paragraph("", &overview.certainty, Paint::Plain);
        report.removals.iter().for_each(|removal| self.paragraph("", removal, Paint::Caution));
    }

    /// Writes the tables in at most `room` lines, but one row at least: if they do not fit, without the last rows. `all` is the command that
    /// shows all of them.
    fn tables(&mut self, tables: &Tables<'_>, form: Form, room: usize, all: &str) {
        let (lines, rows) = (tables.lines(form, self.width), tables.rows());
        // One line says how many rows are left out.
        let shown = if lines <= room { rows } else { room.saturating_sub(lines - rows + 1).max(1) };
        let mut left = shown;
        for case in tables.sections(form) {
            let points: Vec<PointSection> = case.points.iter().take(left).cloned().collect();
            left -= points.len();
            if !points.is_empty() {
                let has_heading = form != Form::OneTable || tables.serving.len() == 1;
                self.compact_serving(&CaseSection { points, ..case }, has_heading, form == Form::Intervals);
            }
        }
        if !tables.serving.is_empty() {
            let without_intervals = format!("times in ms; rows with ! or — have a remark; intervals: {all}");
            let with_intervals = legend(tables.serving.iter().copied());
            self.single_line(INDENT, if form == Form::Intervals { &with_intervals } else { &without_intervals }, Paint::Faint);
        }
        let others = tables.others.get(..left.min(tables.others.len())).unwrap_or_default();
        if !others.is_empty() {
            self.line("");
            self.indicators(others);
        }
        if shown < rows {
            self.single_line(INDENT, &format!("{shown} of {rows} rows, all: {all}"), Paint::Caution);
        }
    }

    /// Writes whether the rules of a scenario are met, and a list of those that are not: nothing of them is cut. `all` is the command that shows
    /// what a hostile Summary has beyond all rules.
    fn verdicts(&mut self, verdicts: &[FoldedRemark], all: &str) {
        let texts = verdicts.iter().flat_map(|verdict| match &verdict.full_texts[..] {
            // Loads that do not break a rule in the same way each have a text.
            several @ [_, ..] if !verdict.is_whole => several,
            _ => std::slice::from_ref(&verdict.text),
        });
        let mut lines: Vec<(String, String)> = Vec::new();
        for (number, clause) in texts.flat_map(|text| remark::clauses(text).into_iter().enumerate()) {
            let first = if number == 0 { FIRST.to_owned() } else { format!("{INDENT}{FIRST}") };
            let rest = " ".repeat(columns(&first));
            let wrapped = remark::all_lines(clause, self.width.saturating_sub(columns(&first)));
            lines.extend(
                wrapped.into_iter().enumerate().map(|(at, line)| (if at == 0 { first.clone() } else { rest.clone() }, line)),
            );
        }
        if !lines.is_empty() {
            self.line("");
        }
        for (first, line) in lines.iter().take(MAX_SCENARIO_LINES) {
            self.single_line(first, line, Paint::Plain);
        }
        if let Some(more) = lines.len().checked_sub(MAX_SCENARIO_LINES).filter(|more| *more > 0) {
            self.single_line(INDENT, &format!("and {}: {all}", counted(more as u64, "more line")), Paint::Plain);
        }
    }

    fn compact_serving(&mut self, case: &CaseSection, has_heading: bool, with_intervals: bool) {
        self.line("");
        if has_heading {
            self.paragraph("", &heading(case), Paint::Plain);
        }
        self.serving_rows(case, with_intervals);
    }

    /// Writes one line for each row: the metric, its number with interval and unit, its trials and its stability.
    fn indicators(&mut self, rows: &[(&CaseSection, &PointSection, &Row)]) {
        let cells: Vec<[String; 3]> = rows.iter().map(|(case, point, row)| cells(case, point, row)).collect();
        let widths: Vec<usize> = (0..3)
            .map(|column| cells.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0))
            .collect();
        for row in &cells {
            let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            self.single_line(INDENT, padded.collect::<Vec<_>>().join("  ").trim_end(), Paint::Plain);
        }
    }

    /// Writes a text as one line, cut at the width.
    fn single_line(&mut self, first: &str, text: &str, paint: Paint) {
        let room = self.width.saturating_sub(first.chars().count());
        let painted = self.paint(paint, &fit(text, room));
        self.line(&format!("{first}{painted}"));
    }

    fn lines(&self) -> usize {
        self.out.lines().count()
    }
}

/// Returns the rows of a case that stand for it: the primary metrics, or the first metric, and the peak memory of a command.
fn headline_rows(case: &CaseSection) -> impl Iterator<Item = (&CaseSection, &PointSection, &Row)> {
    case.points.iter().flat_map(move |point| {
        let mut rows: Vec<&Row> = point.headline_rows().collect();
        let memory = point.row(MAX_RSS).filter(|row| row.measured.is_ok() && !rows.iter().any(|shown| shown.metric == MAX_RSS));
        rows.extend(memory);
        rows.into_iter().map(move |row| (case, point, row))
    })
}

fn cells(case: &CaseSection, point: &PointSection, row: &Row) -> [String; 3] {
    let place = if point.label == "default" { String::new() } else { format!(", {}", point.label) };
    let name = format!("{} on {}{place}: {}", case.workload, case.side, row.metric);
    match &row.measured {
        Ok(found) => {
            let interval = found.interval.as_ref().map_or_else(|_| "(no interval)".to_owned(), |ends| ends.text.clone());
            let state = format!("{}/{} trials, {}", found.n, point.planned, found.stability);
            [name, format!("{} {} {interval}", found.median_text, row.unit), state]
        }
        Err(reason) => [name, "absent".to_owned(), reason.clone()],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use assay_manifest::{AgentxVerdict, CaseId, Count, FailedRequests, PointSummary, Stability};

    use crate::render::text::columns;
    use crate::run::fixture::{self, Model};

    #[test]
    fn a_first_screen_of_indicators() {
        insta::assert_snapshot!(fixture::report().terminal_summary(100, false));
    }

    #[test]
    fn a_removal_of_evidence_is_on_the_first_screen_and_in_the_strip() {
        let line = "removed by anna, 2026-11-21T09:00:00Z (asserted), signed by local-source: older than a year".to_owned();
        let report = fixture::report().with_removals(&[line]);
        let says = |text: &str| text.replace('\n', " ").contains("Evidence was removed by anna, 2026-11-21T09:00:00Z");
        assert!(says(&report.terminal_summary(100, false)) && says(&report.terminal(100, false)));
        let item = report.strip.iter().find(|item| item.label == "Evidence").expect("it is there");
        assert!(item.caution && item.headline.ends_with(", before a removal"), "{}", item.headline);
        let whole = fixture::report().with_removals(&[]);
        assert_eq!(whole, fixture::report());
    }

    #[test]
    fn a_first_screen_of_serving() {
        insta::assert_snapshot!(fixture::serving::small().report().terminal_summary(100, false));
    }

    #[test]
    fn whatever_was_measured_fits_one_screen() {
        let reports = [
            fixture::report(),
            fixture::many_points(400),
            fixture::serving::small().report(),
            fixture::serving::whole().report(),
            fixture::serving::refused().report(),
        ];
        for report in reports {
            let text = report.terminal_summary(100, false);
            assert!(text.lines().count() <= super::MAX_LINES, "{} lines:\n{text}", text.lines().count());
            assert!(text.lines().all(|line| columns(line) <= 100), "{text}");
        }
        let left_out = fixture::many_points(400).terminal_summary(100, false);
        assert!(left_out.contains(" rows, all: assay show "), "{left_out}");
    }

    /// Returns the remarks of the first screen of a model.
    fn remarks(model: &Model) -> String {
        let screen = model.report().terminal_summary(100, false);
        screen.lines().skip_while(|line| !line.starts_with("· ")).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_remark_on_failed_requests_says_why_and_ends_with_a_sentence() {
        let mut model = fixture::serving::small();
        model.plan.cases[0].points.truncate(1);
        let serving = model.summary.points[0].serving.as_mut().expect("it serves");
        serving.requests = Count(500);
        serving.outcomes = BTreeMap::from([("ok".to_owned(), Count(359)), ("http_error".to_owned(), Count(141))]);
        let message = Some("the engine `a` died".to_owned());
        let failed = |http_status, count| FailedRequests {
            outcome: "http_error".to_owned(),
            http_status: Some(http_status),
            message: message.clone(),
            count: Count(count),
        };
        serving.failures = vec![failed(500, 130), failed(429, 11)];
        let reason = "trial `t0`: the 99 % quantile rests on requests that have no value; 71 of 100 requests have one";
        for metric in ["ttft_ms_p99_with_failures", "e2e_ms_p99_with_failures"] {
            serving.absent.insert(metric.to_owned(), reason.to_owned());
        }
        insta::assert_snapshot!(remarks(&model), @r"
        · concurrency 1: 141 of 500 requests failed (http_error 500 × 130, http_error 429 × 11); with
          failures as slowest, there is no TTFT p99 and no E2E p99; the first http_error 500: `the engine
          'a' died`; 28 % of all requests, 0 % in the median of the trials
        ");
        let report = model.report();
        for text in [report.terminal(100, false), report.markdown(), report.html()] {
            let text = text.replace("\\_", "_");
            assert!(text.contains("http_error 500") && text.contains("the engine") && text.contains("died"), "{text}");
        }
    }

    #[test]
    fn no_reason_against_the_rules_of_agentx_is_cut() {
        let mut model = fixture::serving::small();
        let reason = |code: &str, detail: &str| assay_manifest::Reason::new(code, detail);
        let idle = "pauses were kept as recorded; the rules move all that waits nearer if nothing has been in flight for 10 s";
        let reasons = vec![reason("duration", "no trial counts"), reason("idle_cap", idle), reason("seed", "the seed is not 42")];
        let judge = |model: &mut Model, reasons: &[assay_manifest::Reason]| {
            for serving in model.summary.points.iter_mut().filter_map(|point| point.serving.as_mut()) {
                serving.agentx = Some(AgentxVerdict::new(reasons.to_vec()));
            }
        };
        let verdict = |model: &Model| {
            let screen = model.report().terminal_summary(100, false);
            let place = screen.rfind("\n\n").expect("a paragraph of its own");
            screen.get(place..).unwrap_or_default().trim_start().to_owned()
        };
        judge(&mut model, &reasons);
        insta::assert_snapshot!(verdict(&model), @r"
        · every load: the rules of AgentX are not met: duration, idle_cap, seed
          · duration (no trial counts)
          · idle_cap (pauses were kept as recorded; the rules move all that waits nearer if nothing has been
            in flight for 10 s)
          · seed (the seed is not 42)
          · judged by the rules of AIPerf 71ddbecd, InferenceX 843c6254, and only the stamp of AIPerf itself
            counts for a submission
        ");
        judge(&mut model, &[]);
        insta::assert_snapshot!(verdict(&model), @r"
        · every load: the rules of AgentX are met
          · judged by the rules of AIPerf 71ddbecd, InferenceX 843c6254, and only the stamp of AIPerf itself
            counts for a submission
        ");
        judge(&mut model, &reasons);
        let first = model.summary.points[0].serving.as_mut().expect("it serves");
        first.agentx.as_mut().expect("judged").reasons[0].detail = "too short".to_owned();
        let text = verdict(&model);
        assert!(text.contains("duration (too short)") && text.contains("duration (no trial counts)"), "{text}");
        let invented: Vec<_> = (0..1_000).map(|number| reason(&format!("rule-{number}"), "\u{1b}[31m")).collect();
        judge(&mut model, &invented);
        let text = verdict(&model);
        assert!(text.lines().count() == super::MAX_SCENARIO_LINES + 1 && !text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn remarks_on_two_sides_say_which() {
        let mut model = fixture::model();
        let mut before = model.plan.cases[0].clone();
        before.points.truncate(1);
        before.points[0].point_id = "default".parse().expect("an id");
        before.points[0].value.clear();
        let mut after = before.clone();
        after.target = "after".parse().expect("a name");
        after.case_id = CaseId::from_names(&after.workload, &after.target, &after.variant);
        let mut point = model.summary.points.iter().find(|point| point.case_id == before.case_id).expect("its point").clone();
        (point.point_id, point.excluded) = (before.points[0].point_id.clone(), Vec::new());
        let mut of_after = PointSummary { case_id: after.case_id.clone(), ..point.clone() };
        for (metric, cv) in of_after.metrics.iter_mut().zip([0.1, 0.2]) {
            (metric.stability, metric.cv, metric.stability_reason) = (Stability::Unstable, Some(cv), format!("drift: {cv}"));
        }
        (model.plan.cases, model.summary.points) = (vec![before, after], vec![point, of_after]);
        insta::assert_snapshot!(remarks(&model), @"· 2 numbers of the tables are unstable, most of all membw on after, elapsed: drift: 0.2");
        model.plan.cases.remove(0);
        assert!(!remarks(&model).contains("on after"), "the only target is not named");
    }

    #[test]
    fn nothing_is_left_out_in_silence() {
        let small = fixture::serving::small().report().terminal_summary(100, false);
        assert!(!small.contains(" rows, all: "), "{small}");
    }

    #[test]
    fn rows_of_many_cases_come_before_headings_and_remarks() {
        let screen = |cases: usize| fixture::serving::many_cases(cases).report().terminal_summary(100, false);
        let rows = |text: &str| text.lines().filter(|line| line.starts_with("  ") && line.contains("concurrency 8")).count();
        for cases in [2, 4, 5, 6, 12] {
            let text = screen(cases);
            assert!(rows(&text) == cases && !text.contains(" rows, all: "), "{text}");
            assert!(text.lines().count() <= super::MAX_LINES, "{text}");
            assert_eq!(text.contains('±'), !text.contains("intervals: assay show "), "they are not lost in silence: {text}");
        }
        let many = screen(50);
        let shown = rows(&many);
        assert!(shown >= 20 && many.contains(&format!("{shown} of 50 rows, all: assay show ")), "{many}");
        assert!(many.lines().count() <= super::MAX_LINES, "{many}");
    }
}
