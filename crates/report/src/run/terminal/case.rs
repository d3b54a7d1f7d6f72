//! A case of indicators in a terminal: a table with a row for each point, or a list if the table does not fit.

use assay_manifest::Stability;

use crate::render::number::percent;
use crate::render::terminal::{Paint, Screen};
use crate::render::text::{align_points, columns, fit, trials_glyphs};
use crate::run::model::fold;
use crate::run::model::remark;
use crate::run::model::section::{CaseSection, MetricGroup, MetricStatistics, PointSection, Row, deviations};

/// The smallest width of a point's label; below it, lists replace the table.
const MIN_LABEL: usize = 14;

/// The indentation of every row.
const INDENT: &str = "    ";

/// The smallest spread that the trial column shows, as a share: trials that agree within 0.1 % look flat.
pub(super) const MIN_SWING: f64 = 0.05;

/// Maximum number of trials in the trial column, evenly spaced.
pub(super) const MAX_GLYPHS: usize = 12;

impl Screen {
    pub(super) fn case(&mut self, case: &CaseSection) {
        let groups = case.groups();
        let title = self.paint(Paint::Strong, case.case_id.as_str());
        self.line("");
        self.line(&title);
        if groups.is_empty() {
            self.line("  no metric was declared and none was found");
            return;
        }
        self.metric_groups(&groups, swing(&groups));
        self.remarks(case);
    }

    /// Writes a table with a row for each point of each metric, under one header.
    pub(super) fn metric_groups(&mut self, groups: &[MetricGroup<'_>], swing: f64) {
        let groups: Vec<(String, Vec<Line>)> = groups.iter().map(|group| (group.title(), lines(group, swing))).collect();
        let layout = Layout::for_width(groups.iter().flat_map(|(_, lines)| lines), swing, self.width);
        if let Some(layout) = &layout {
            let header: Vec<String> = layout.columns.iter().map(|column| column.pad(column.title.clone())).collect();
            let header = self.paint(Paint::Faint, header.join(layout.gap).trim_end());
            self.line(&format!("{INDENT}{header}"));
        }
        for (title, lines) in &groups {
            self.paragraph("  ", title, Paint::Faint);
            for line in lines {
                match &layout {
                    Some(layout) => self.row(layout, line),
                    None => self.card(line),
                }
            }
        }
    }

    fn row(&mut self, layout: &Layout, line: &Line) {
        let cells: Vec<String> = layout.columns.iter().map(|column| self.cell(column, line)).collect();
        self.line(&format!("{INDENT}{}", cells.join(layout.gap)));
    }

    fn cell(&self, column: &Column, line: &Line) -> String {
        let paint = match column.kind {
            Cell::Median => Paint::Strong,
            Cell::Row => Paint::Faint,
            Cell::Stability if line.caution => Paint::Caution,
            _ => Paint::Plain,
        };
        self.paint(paint, &column.pad(line.cell(column.kind).clone()))
    }

    /// Writes a row as a list, one fact a line, if the table does not fit.
    fn card(&mut self, line: &Line) {
        self.paragraph(INDENT, &line.point, Paint::Strong);
        let interval = if line.interval.starts_with('[') { line.interval.clone() } else { "no interval".to_owned() };
        let number = format!("{} {interval}, n {}, {} excluded", line.median.trim(), line.n, line.excluded);
        let state = format!("CV {} %, {}, row {}", line.cv.trim(), line.stability, line.row);
        for text in [number, state] {
            self.paragraph("      ", &text, Paint::Plain);
        }
    }

    /// Writes all remarks that the table has no room for: the reason why a value is absent, unstable or excluded. Below a remark that
    /// is only the gist of several, each of them follows.
    pub(super) fn remarks(&mut self, case: &CaseSection) {
        for remark in fold::fold_case(case) {
            self.remark("  · ", &remark.text_with_all_names);
            let several = remark.full_texts.iter().filter(|_| !remark.is_whole);
            several.for_each(|text| self.remark("      ", text));
        }
    }

    fn remark(&mut self, first: &str, text: &str) {
        let indent = " ".repeat(columns(first));
        for (index, line) in remark::all_lines(text, self.width.saturating_sub(columns(first))).iter().enumerate() {
            let painted = self.paint(Paint::Faint, line);
            self.line(&format!("{}{painted}", if index == 0 { first } else { &indent }));
        }
    }
}

/// Returns the largest relative distance of any trial of the metrics from its median, at least [`MIN_SWING`].
pub(super) fn swing(groups: &[MetricGroup<'_>]) -> f64 {
    let measured = groups.iter().flat_map(|group| &group.rows).filter_map(|(_, row)| row.measured.as_ref().ok());
    measured.flat_map(deviations).fold(MIN_SWING, |widest, deviation| widest.max(deviation.abs()))
}

/// The texts of one row.
struct Line {
    point: String,
    median: String,
    interval: String,
    n: String,
    excluded: String,
    cv: String,
    stability: String,
    trials: String,
    row: String,
    caution: bool,
}

/// Returns the rows of a group, their medians and spreads aligned.
fn lines(group: &MetricGroup<'_>, swing: f64) -> Vec<Line> {
    let cv = |(_, row): &(_, &Row)| row.measured.as_ref().map_or_else(|_| "—".to_owned(), MetricStatistics::cv_cell);
    let cvs = align_points(&group.rows.iter().map(cv).collect::<Vec<_>>(), ' ', ' ');
    let cells = group.medians(' ', ' ').into_iter().zip(cvs);
    group.rows.iter().zip(cells).map(|((point, row), (median, cv))| Line::new(point, row, median, cv, swing)).collect()
}

impl Line {
    fn new(point: &PointSection, row: &Row, median: String, cv: String, swing: f64) -> Self {
        let measured = row.measured.as_ref().ok();
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "—".to_owned());
        let interval =
            |found: &MetricStatistics| found.interval.as_ref().map_or_else(|_| "none".to_owned(), |ends| ends.text.clone());
        Self {
            point: point.label.clone(),
            median,
            interval: or_dash(measured.map(interval)),
            n: format!("{}/{}", measured.map_or(0, |found| found.n), point.planned),
            excluded: point.excluded.to_string(),
            cv,
            stability: or_dash(measured.map(|found| found.stability.to_string())),
            trials: measured.map(|found| trials_glyphs(&deviations(found), swing, MAX_GLYPHS)).unwrap_or_default(),
            row: or_dash(measured.map(|found| found.address.row().to_owned())),
            caution: measured.is_none_or(|found| found.stability != Stability::Stable),
        }
    }

    fn cell(&self, cell: Cell) -> &String {
        match cell {
            Cell::Point => &self.point,
            Cell::Median => &self.median,
            Cell::Interval => &self.interval,
            Cell::N => &self.n,
            Cell::Excluded => &self.excluded,
            Cell::Spread => &self.cv,
            Cell::Stability => &self.stability,
            Cell::Trials => &self.trials,
            Cell::Row => &self.row,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Point,
    Median,
    Interval,
    N,
    Excluded,
    Spread,
    Stability,
    Trials,
    Row,
}

struct Column {
    kind: Cell,
    title: String,
    width: usize,
}

impl Column {
    fn new(kind: Cell, title: &str, lines: &[&Line]) -> Self {
        let width = lines.iter().map(|line| columns(line.cell(kind))).chain([columns(title)]).max().unwrap_or(0);
        Self { kind, title: title.to_owned(), width }
    }

    fn pad(&self, text: String) -> String {
        let text = fit(&text, self.width);
        let space = " ".repeat(self.width.saturating_sub(columns(&text)));
        match self.kind {
            Cell::Median | Cell::N | Cell::Spread | Cell::Excluded => space + &text,
            _ => text + &space,
        }
    }
}

/// The columns that fit, and the space between them.
struct Layout {
    columns: Vec<Column>,
    gap: &'static str,
}

impl Layout {
    /// Returns all columns if they fit; otherwise without the picture of the trials, then with less space between, then with a shorter
    /// label; `None` if even that is too wide.
    fn for_width<'a>(lines: impl Iterator<Item = &'a Line>, swing: f64, width: usize) -> Option<Self> {
        let room = width.saturating_sub(INDENT.len());
        let mut layout = Self::all(&lines.collect::<Vec<_>>(), swing);
        if layout.width() > room {
            layout.columns.retain(|column| column.kind != Cell::Trials);
        }
        if layout.width() > room {
            layout.gap = " ";
        }
        let excess = layout.width().saturating_sub(room);
        let label = layout.columns.first_mut()?;
        let shortest = label.width.min(MIN_LABEL);
        label.width = label.width.saturating_sub(excess).max(shortest);
        (layout.width() <= room).then_some(layout)
    }

    fn all(lines: &[&Line], swing: f64) -> Self {
        let trials = format!("trials ±{}", percent(swing));
        let titles = [
            (Cell::Point, ""),
            (Cell::Median, "median"),
            (Cell::Interval, "interval"),
            (Cell::N, "n"),
            (Cell::Excluded, "excl"),
            (Cell::Spread, "CV %"),
            (Cell::Stability, "stability"),
            (Cell::Trials, trials.as_str()),
            (Cell::Row, "row"),
        ];
        Self { columns: titles.into_iter().map(|(kind, title)| Column::new(kind, title, lines)).collect(), gap: "  " }
    }

    fn width(&self) -> usize {
        self.columns.iter().map(|column| column.width).sum::<usize>() + self.gap.len() * self.columns.len().saturating_sub(1)
    }
}
