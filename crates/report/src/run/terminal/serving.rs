//! Serving in a terminal: one row for each load, each number with the half-width of its interval beneath it.

use std::collections::{BTreeMap, BTreeSet};

use super::case::{MAX_GLYPHS, MIN_SWING, swing};
use crate::render::number::{grouped, percent};
use crate::render::terminal::table::{Cell, NEVER_DROPPED, PICTURE_RANK, Table, TableColumn};
use crate::render::terminal::{Paint, Screen};
use crate::render::text::{align_points, columns, counted, trials_glyphs};
use crate::run::model::breakdown::{Breakdown, GroupCell};
use crate::run::model::load::Load;
use crate::run::model::remark::is_within_run;
use crate::run::model::section::{CaseSection, MetricGroup, MetricStatistics, PointSection, deviations};
use crate::run::model::serving::{self, Column, reach, throughput};
use crate::run::model::serving_remarks;

/// The indentation of every row.
const INDENT: &str = "  ";

/// Minimum number of loads for which the curve is shown as a row of bars.
const MIN_BARS: usize = 3;

/// Returns the line that explains the tables of some cases.
pub(super) fn legend<'a>(cases: impl IntoIterator<Item = &'a CaseSection>) -> String {
    let is_within_run = cases.into_iter().flat_map(|case| &case.points).any(is_within_run);
    let kind = if is_within_run { " within run" } else { "" };
    format!("latencies in ms; ± is the reach of the interval{kind}; rows with ! or — have a remark below")
}

impl Screen {
    pub(super) fn serving_case(&mut self, case: &CaseSection) {
        self.line("");
        let title = self.paint(Paint::Strong, case.case_id.as_str());
        self.line(&title);
        if let Some(work) = &case.serving {
            let slos = if work.slos.is_empty() { String::new() } else { format!("; SLOs {}", work.slo_text()) };
            let from = latency_from(case).map(|from| format!("; latencies from {from}")).unwrap_or_default();
            self.paragraph(INDENT, &format!("{}; {}{from}{slos}", work.summary(), work.arrivals), Paint::Faint);
        }
        if case.points.is_empty() {
            self.line("  the case has no loads");
            return;
        }
        let shown = self.serving_rows(case, true);
        self.curve(case);
        self.paragraph(INDENT, &legend([case]), Paint::Faint);
        self.remarks(case);
        Breakdown::all_of(case).for_each(|table| self.breakdown(&table));
        self.other_metrics(case, &shown);
    }

    /// Writes TTFT by groups of requests.
    fn breakdown(&mut self, table: &Breakdown<'_>) {
        self.line("");
        let title = self.paint(Paint::Strong, &format!("{INDENT}{}, p50 / p99 in ms", table.title));
        self.line(&title);
        for (label, cells) in &table.loads {
            let of_group = |(group, cell): (&&str, &Option<GroupCell>)| Some(format!("{group} {}", cell.as_ref()?.describe()));
            let texts: Vec<String> = table.groups.iter().zip(cells).filter_map(of_group).collect();
            self.paragraph("    ", &format!("{label}: {}", texts.join("; ")), Paint::Plain);
        }
    }

    /// Writes the table of a serving case, with the reach of the intervals beneath the numbers if `with_intervals` is true. Returns the
    /// names of the metrics that have a column.
    pub(super) fn serving_rows(&mut self, case: &CaseSection, with_intervals: bool) -> BTreeSet<&'static str> {
        let mut columns = all_columns(case);
        if !with_intervals {
            columns.iter_mut().for_each(TableColumn::clear_beneath);
        }
        let table = Table::fitting(columns, self.width.saturating_sub(INDENT.len()));
        self.table(INDENT, &table);
        table.metrics()
    }

    /// Writes every published metric of a case that is not a column, and the reason of each that no load has.
    fn other_metrics(&mut self, case: &CaseSection, shown: &BTreeSet<&'static str>) {
        let others: Vec<_> = case.groups().into_iter().filter(|group| !shown.contains(group.metric)).collect();
        let (measured, absent): (Vec<_>, Vec<_>) = others.into_iter().partition(MetricGroup::is_measured);
        // If no trial counts, the remarks have given the reason.
        if measured.is_empty() {
            return;
        }
        let count = counted(measured.len() as u64, "more metric");
        let title = self.paint(Paint::Strong, &format!("{INDENT}{count} of {}", case.case_id));
        self.line("");
        self.line(&title);
        self.metric_groups(&measured, swing(&measured));
        for (reason, metrics) in by_reason(&absent) {
            self.paragraph("  · ", &format!("{}: absent, {reason}", metrics.join(", ")), Paint::Faint);
        }
    }

    /// Writes the growth of throughput and tail latency with the load, as bars from zero.
    fn curve(&mut self, case: &CaseSection) {
        let rates: Vec<f64> = case.points.iter().filter_map(|point| Some(throughput(point)?.1.median)).collect();
        let Some(metric) = serving::headline(case).filter(|_| rates.len() >= MIN_BARS) else { return };
        let tails: Vec<f64> = case.points.iter().filter_map(|point| Some(point.measured(metric.text)?.median)).collect();
        let name = case.points.iter().find_map(throughput).map_or_else(|| "throughput".to_owned(), |(rate, _)| rate.title());
        let text =
            format!("{name} {}   {} {}   in the order of the loads, from zero", bars(&rates), metric.title(), bars(&tails));
        if columns(&text) + INDENT.len() <= self.width {
            self.paragraph(INDENT, &text, Paint::Faint);
        }
    }
}

/// Returns the names of metrics that no load has by the reason, as the first load states it.
fn by_reason<'a>(absent: &[MetricGroup<'a>]) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for group in absent {
        let reason = group.rows.iter().find_map(|(_, row)| row.measured.as_ref().err());
        names.entry(reason.map_or("", String::as_str)).or_default().push(group.metric);
    }
    names
}

fn latency_from(case: &CaseSection) -> Option<&str> {
    let loads = case.points.iter().filter_map(|point| point.serving.as_ref());
    loads.map(|load| load.latency_from.as_str()).find(|from| !from.is_empty())
}

/// Returns values as bars from zero, the largest value as the highest bar.
fn bars(values: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let largest = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let bar = |value: &f64| BARS.get((value / largest * 7.0).round().clamp(0.0, 7.0) as usize).copied().unwrap_or('?');
    values.iter().map(bar).collect()
}

fn all_columns(case: &CaseSection) -> Vec<TableColumn> {
    let loads = || case.points.iter().map(|point| (point, point.serving.as_ref()));
    let explained = serving::explained_columns(case);
    let label = |(point, _): (&PointSection, _)| {
        let mark = if serving_remarks::has_remark(point, &explained) { '!' } else { ' ' };
        let paint = if mark == '!' { Paint::Caution } else { Paint::Strong };
        Cell { paint, ..Cell::plain(format!("{mark} {}", point.label)) }
    };
    let trials = |(point, _): (&PointSection, _)| Cell::plain(format!("{}/{}", point.counted, point.planned));
    let ok = |(_, load): (_, Option<&Load>)| Cell::plain(load.map_or_else(|| "—".to_owned(), |load| grouped(load.ok)));
    let failed = |(_, load): (_, Option<&Load>)| match load {
        Some(load) if load.failed() > 0 => Cell { paint: Paint::Caution, ..Cell::plain(grouped(load.failed())) },
        Some(_) => Cell::plain("0"),
        None => Cell::plain("—"),
    };
    let mut all = vec![
        TableColumn::new(["", "load"], NEVER_DROPPED, false, loads().map(label).collect()),
        TableColumn::new(["", "trials"], 6, true, loads().map(trials).collect()),
        TableColumn::new(["requests", "ok"], NEVER_DROPPED, true, loads().map(ok).collect()),
        TableColumn::new(["", "failed"], NEVER_DROPPED, true, loads().map(failed).collect()),
    ];
    let shown = serving::columns(case).into_iter().filter(|column| column.rank > Some(0));
    all.extend(shown.map(|column| metric_column(case, column)));
    if case.serving.as_ref().is_some_and(|work| !work.slos.is_empty()) {
        let met = |(_, load): (_, Option<&Load>)| match load.and_then(|load| load.slo_met) {
            Some(true) => Cell::plain("met"),
            Some(false) => Cell { paint: Paint::Caution, ..Cell::plain("missed") },
            None => Cell::plain("—"),
        };
        all.push(TableColumn::new(["", "SLOs"], 4, false, loads().map(met).collect()));
    }
    all.extend(spread_column(case));
    all
}

fn metric_column(case: &CaseSection, column: &Column) -> TableColumn {
    let measured = |point: &PointSection| point.measured(column.text).map(|found| found.median_text.clone());
    let texts: Vec<String> = case.points.iter().map(|point| measured(point).unwrap_or_else(|| "—".to_owned())).collect();
    let cell = |(point, value): (&PointSection, String)| {
        let found = point.measured(column.text);
        let beneath = found.and_then(reach).map(reach_text);
        let paint = if column.rank == Some(9) { Paint::Strong } else { Paint::Plain };
        Cell { value, beneath: beneath.unwrap_or_default(), paint: if found.is_some() { paint } else { Paint::Faint } }
    };
    let cells = case.points.iter().zip(align_points(&texts, ' ', ' ')).map(cell).collect();
    let (row, statistic) = (column.definition(), column.statistic.title());
    let head = match statistic.as_str() {
        "" if row.title == row.unit.as_str() => ["", row.unit.short()],
        "" => [row.title.trim_end_matches("/s"), row.unit.short()],
        statistic => [row.title, statistic],
    };
    TableColumn::new(head, column.rank.unwrap_or(0), true, cells).of_metric(column.text)
}

/// Returns a reach in percent, with few digits.
fn reach_text(reach: f64) -> String {
    let percent = reach * 100.0;
    if percent < 9.95 { format!("±{percent:.1}%") } else { format!("±{percent:.0}%") }
}

/// Returns the column with the trials of the tail latency, each relative to their median, to show whether they agree. It is the first
/// column to be dropped.
fn spread_column(case: &CaseSection) -> Option<TableColumn> {
    let metric = serving::headline(case)?;
    let found = || case.points.iter().map(|point| point.measured(metric.text));
    let swing = found().flatten().flat_map(deviations).fold(MIN_SWING, |widest, deviation| widest.max(deviation.abs()));
    let cell = |found: Option<&MetricStatistics>| {
        Cell::plain(found.map(|found| trials_glyphs(&deviations(found), swing, MAX_GLYPHS)).unwrap_or_default())
    };
    let head = format!("trials ±{}", percent(swing));
    Some(TableColumn::new([&metric.title(), &head], PICTURE_RANK, false, found().map(cell).collect()))
}

#[cfg(test)]
mod tests {
    use assay_manifest::{Count, MetricSummary, Stability};

    use crate::render::terminal::Screen;
    use crate::render::text::columns;
    use crate::run::fixture::{self, Model};

    fn serving_text(model: &Model, width: usize, color: bool) -> String {
        let mut screen = Screen::new(width, color);
        for case in &model.report().cases {
            screen.serving_case(case);
        }
        screen.out
    }

    #[test]
    fn bars_start_at_zero() {
        assert_eq!(super::bars(&[0.0, 5.0, 10.0]), "▁▅█");
        assert_eq!(super::bars(&[]), "");
    }

    #[test]
    fn a_row_is_marked_if_there_is_a_remark_on_it() {
        let mut model = fixture::serving::small();
        let marked = |model: &Model| {
            let text = serving_text(model, 100, false);
            let rows = text
                .lines()
                .map(str::trim_start)
                .filter(|line| line.starts_with("concurrency 1 ") || line.starts_with("! concurrency 1 "));
            rows.take(1).map(|row| row.starts_with('!')).next().expect("its row")
        };
        let metric = |model: &mut Model, change: &dyn Fn(&mut MetricSummary)| {
            let metrics = &mut model.summary.points[0].metrics;
            change(metrics.iter_mut().find(|metric| metric.metric == "itl_ms_p99").expect("a column beside the headline"));
        };
        assert!(!marked(&model));
        metric(&mut model, &|itl| itl.stability = Stability::Unstable);
        assert!(marked(&model), "unstable");
        metric(&mut model, &|itl| (itl.stability, itl.interval) = (Stability::Stable, None));
        assert!(marked(&model), "no interval");
        let mut model = fixture::serving::small();
        metric(&mut model, &|itl| itl.trials[0].n = Count(3));
        assert!(marked(&model), "few samples");
        let mut model = fixture::serving::small();
        model.summary.points[0].excluded = model.summary.points[2].excluded[..1].to_vec();
        assert!(marked(&model), "an attempt that does not count");
    }

    #[test]
    fn a_reach_has_two_digits() {
        assert_eq!(
            [0.0, 0.000_4, 0.012, 0.099_6, 0.5, 12.0].map(super::reach_text),
            ["±0.0%", "±0.0%", "±1.2%", "±10%", "±50%", "±1200%"]
        );
    }

    #[test]
    fn a_hundred_columns_hold_every_number() {
        let model = fixture::serving::small();
        let text = serving_text(&model, 100, false);
        insta::assert_snapshot!(text);
    }

    #[test]
    fn eighty_columns_keep_what_matters_most() {
        let model = fixture::serving::small();
        let text = serving_text(&model, 80, false);
        for title in ["load", "ok", "failed", "TTFT", "TPOT", "tok/s", "req/s"] {
            assert!(text.contains(title), "{title}\n{text}");
        }
    }

    /// Every published number of a load is a column, or a row of the metrics below.
    #[test]
    fn no_published_metric_is_left_out() {
        for (model, width) in
            [(fixture::serving::small(), 80), (fixture::serving::whole(), 100), (fixture::serving::whole(), 200)]
        {
            for case in &model.report().cases {
                let mut screens = [(); 2].map(|()| Screen::new(width, false));
                let [whole, table] = &mut screens;
                whole.serving_case(case);
                let columns = table.serving_rows(case, true);
                for group in case.groups().iter().filter(|group| group.is_measured()) {
                    let is_row = whole.out.contains(&group.title());
                    assert!(columns.contains(group.metric) != is_row, "{width}: {}\n{}", group.metric, whole.out);
                }
            }
        }
    }

    #[test]
    fn lines_keep_within_the_width() {
        let model = fixture::serving::whole();
        for width in [50, 80, 100, 140] {
            let text = serving_text(&model, width, false);
            for line in text.lines() {
                assert!(columns(line) <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn colour_is_only_paint() {
        let model = fixture::serving::small();
        let render = |color| serving_text(&model, 100, color);
        let stripped = ["0", "1", "2", "33"].iter().fold(render(true), |text, code| text.replace(&format!("\u{1b}[{code}m"), ""));
        assert!(!render(false).contains('\u{1b}'));
        let trimmed = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
        assert_eq!(trimmed(&stripped), trimmed(&render(false)));
    }
}
