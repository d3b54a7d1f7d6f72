//! The report in a terminal: sentence, strip, table, commands. Plain text that fits the width; colour only repeats the words.

mod serving;
pub(crate) mod table;

use assay_manifest::Stability;

use crate::Report;
use crate::model::{CaseSection, MetricGroup, MetricStatistics, PointSection, Row};
use crate::number::percent;
use crate::remark::{self, Remark};
use crate::strip::StripItem;
use crate::text::{align_points, columns, fit, trials_glyphs, wrap};

pub use serving::serving;

/// The smallest width of the layout: below it nothing useful fits, so the terminal wraps the text.
const MIN_WIDTH: usize = 40;

/// Maximum number of sentences; the table has the rest.
const MAX_SENTENCES: usize = 8;

/// The smallest width of a point's label; below it, lists replace the table.
const MIN_LABEL: usize = 14;

/// The indentation of every row.
const INDENT: &str = "    ";

/// The smallest spread that the trial column shows, as a share: trials that agree within 0.1 % look flat.
const MIN_SWING: f64 = 0.05;

/// Maximum number of trials in the trial column, evenly spaced.
const MAX_GLYPHS: usize = 12;

impl Report {
    /// Returns the report for a terminal of `width` columns. `color` enables ANSI colours; without it there are no escape sequences.
    pub fn terminal(&self, width: usize, color: bool) -> String {
        let mut screen = Screen::new(width, color);
        screen.sentences(self);
        screen.strip(&self.strip);
        for case in &self.cases {
            if case.serving.is_some() { screen.serving_case(case) } else { screen.case(case) }
        }
        screen.notes(self);
        screen.out
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Paint {
    Plain,
    Strong,
    Faint,
    Caution,
}

/// The text written so far, with the width and colour of the terminal.
pub(crate) struct Screen {
    pub(crate) out: String,
    pub(crate) width: usize,
    color: bool,
}

impl Screen {
    /// Returns an empty screen of `width` columns, at least [`MIN_WIDTH`].
    pub(crate) fn new(width: usize, color: bool) -> Self {
        Self { out: String::new(), width: width.max(MIN_WIDTH), color }
    }

    pub(crate) fn paint(&self, paint: Paint, text: &str) -> String {
        let code = match paint {
            Paint::Strong => "1",
            Paint::Faint => "2",
            Paint::Caution => "33",
            Paint::Plain => return text.to_owned(),
        };
        if self.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    pub(crate) fn line(&mut self, text: &str) {
        self.out.push_str(text.trim_end());
        self.out.push('\n');
    }

    /// Writes `text` in the given paint, wrapped; `first` begins its first line, and as many spaces begin the other lines.
    pub(crate) fn paragraph(&mut self, first: &str, text: &str, paint: Paint) {
        let indent = " ".repeat(columns(first));
        for (index, line) in wrap(text, self.width.saturating_sub(columns(first))).iter().enumerate() {
            let start = if index == 0 { first } else { &indent };
            let painted = self.paint(paint, line);
            self.line(&format!("{start}{painted}"));
        }
    }

    fn sentences(&mut self, report: &Report) {
        for sentence in report.sentences().take(MAX_SENTENCES) {
            self.paragraph("", &sentence, Paint::Strong);
        }
        let more = report.sentences.len().saturating_sub(MAX_SENTENCES);
        if more > 0 {
            self.line(&format!("… and {more} more in the table below"));
        }
    }

    pub(crate) fn strip(&mut self, items: &[StripItem]) {
        self.line("");
        let label_width = items.iter().map(|item| columns(item.label)).max().unwrap_or(0);
        for item in items {
            let paint = if item.caution { Paint::Caution } else { Paint::Plain };
            let mark = if item.caution { "!" } else { " " };
            let label = format!("{mark} {:<label_width$}  ", item.label);
            self.paragraph(&label, &item.headline, paint);
            self.paragraph(&" ".repeat(columns(&label)), &item.details.join(" · "), Paint::Faint);
        }
    }

    fn case(&mut self, case: &CaseSection) {
        let swing = swing(case);
        let groups: Vec<(String, Vec<Line>)> = case.groups().iter().map(|group| (group.title(), lines(group, swing))).collect();
        let title = self.paint(Paint::Strong, case.case_id.as_str());
        self.line("");
        self.line(&title);
        if groups.is_empty() {
            self.line("  no metric was declared and none was found");
            return;
        }
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
        self.remarks(case);
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

    /// Writes the remarks that the table has no room for: the reason why a value is absent, unstable or excluded.
    fn remarks(&mut self, case: &CaseSection) {
        let remarks: Vec<Remark> = case.points.iter().flat_map(remarks).collect();
        self.brief_remarks(&remark::summarize(&remarks, case.points.len(), "point"));
    }

    fn brief_remarks(&mut self, remarks: &[String]) {
        const FIRST: &str = "  · ";
        for remark in remarks {
            for (index, line) in remark::lines(remark, self.width.saturating_sub(columns(FIRST))).iter().enumerate() {
                let painted = self.paint(Paint::Faint, line);
                self.line(&format!("{}{painted}", if index == 0 { FIRST } else { "    " }));
            }
        }
    }

    fn notes(&mut self, report: &Report) {
        self.line("");
        if let Some(address) = report.example_address() {
            let text = "A number's address is";
            self.line(&format!("{text} {}/{}/<row>/value. Walk one back:", report.run_id, crate::Address::TABLE));
            self.line(&format!("  {}", report.trace_command(address)));
        }
        self.line(&format!("  {}", report.verify_command()));
        self.line("");
        for item in report.fine_print.iter().filter(|item| item.of_this_run) {
            self.paragraph("", &format!("{}: {}", item.label, item.text), Paint::Faint);
        }
    }
}

/// Returns the remarks on a point: all that its cells only indicate.
pub(crate) fn remarks(point: &PointSection) -> Vec<Remark> {
    let mut remarks: Vec<Remark> = Vec::new();
    for row in &point.rows {
        let mut say = |text: String| {
            let metrics = vec![row.metric.clone()];
            remarks.push(Remark { point: point.label.clone(), metrics, table_metrics: None, text });
        };
        match &row.measured {
            Err(reason) => say(format!("absent, {reason}")),
            Ok(measured) => {
                if let Err(reason) = &measured.interval {
                    say(format!("no interval, {reason}"));
                }
                if measured.stability != Stability::Stable {
                    say(format!("{}, {}", measured.stability, measured.stability_reason));
                }
            }
        }
    }
    remarks.extend(point.exclusions.iter().map(|exclusion| Remark::for_point(&point.label, format!("excluded {exclusion}"))));
    remarks
}

/// Returns the largest relative distance of any trial of the case from its median, at least [`MIN_SWING`].
fn swing(case: &CaseSection) -> f64 {
    let measured = case.points.iter().flat_map(|point| &point.rows).filter_map(|row| row.measured.as_ref().ok());
    measured.flat_map(deviations).fold(MIN_SWING, |widest, deviation| widest.max(deviation.abs()))
}

/// Returns each trial's relative distance from the median, in the order in which they ran; empty if the median is 0.
pub(crate) fn deviations(measured: &MetricStatistics) -> Vec<f64> {
    if measured.median == 0.0 {
        return Vec::new();
    }
    measured.trials.iter().map(|trial| (trial.value - measured.median) / measured.median.abs()).collect()
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

#[cfg(test)]
mod tests {
    use crate::fixture;
    use crate::text::columns;

    #[test]
    fn a_wide_terminal() {
        insta::assert_snapshot!(fixture::report().terminal(140, false));
    }

    #[test]
    fn a_narrow_terminal() {
        insta::assert_snapshot!(fixture::report().terminal(80, false));
    }

    #[test]
    fn lines_keep_within_the_width() {
        // Identifiers and commands do not break; all other text does.
        let unbreakable = |line: &str| line.split_whitespace().any(|word| columns(word) > 40) || line.contains("assay ");
        for width in [60, 80, 100, 140] {
            for line in fixture::report().terminal(width, false).lines().filter(|line| !unbreakable(line)) {
                assert!(columns(line) <= width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn colour_is_only_paint() {
        let report = fixture::report();
        let (plain, painted) = (report.terminal(120, false), report.terminal(120, true));
        assert!(!plain.contains('\u{1b}'));
        let stripped =
            ["0", "1", "2", "33"].iter().fold(painted.clone(), |text, code| text.replace(&format!("\u{1b}[{code}m"), ""));
        assert_ne!(painted, plain);
        let trimmed: Vec<_> = stripped.lines().map(str::trim_end).collect();
        assert_eq!(trimmed, plain.lines().collect::<Vec<_>>());
    }
}
