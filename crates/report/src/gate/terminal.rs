//! A verdict in a terminal: sentence, strip, table, the details that do not fit the table, commands.

use super::model::Report;
use super::model::acknowledgements::{AcknowledgementLine, EffectKind};
use super::model::row::{ABSENT, MetricOutcome, Row};
use crate::render::terminal::table::{Cell, NEVER_DROPPED, Table, TableColumn};
use crate::render::terminal::{Paint, Screen};
use crate::render::text::{align_points, counted};

/// The indentation of every row.
const INDENT: &str = "  ";

/// Maximum number of unchanged metrics in the table; the page has all of them.
const MAX_UNCHANGED: usize = 40;

/// Maximum number of metrics of every other outcome in the table.
const MAX_CHANGED: usize = 100;

/// Maximum number of metrics in the table that are only reported.
const MAX_OTHERS: usize = 20;

/// Maximum number of acknowledgements and earlier verdicts.
const MAX_LINES: usize = 12;

impl Report {
    /// Returns the verdict for a terminal of `width` columns. `color` enables ANSI colours; without it there are no escape sequences.
    pub fn terminal(&self, width: usize, color: bool) -> String {
        let mut screen = Screen::new(width, color);
        screen.paragraph("", &self.sentence, Paint::Strong);
        screen.strip(&self.strip, false);
        screen.metrics("Primary metrics", &self.primary, MAX_UNCHANGED);
        screen.metrics("Other metrics, reported only", &self.others, MAX_OTHERS);
        screen.acknowledgements(&self.accepted);
        screen.earlier_verdicts(self);
        screen.commands(&self.commands);
        screen.line("");
        for item in self.fine_print.iter().filter(|item| item.of_this_run) {
            screen.paragraph("", &format!("{}: {}", item.label, item.text), Paint::Faint);
        }
        screen.out
    }
}

impl Screen {
    fn title(&mut self, title: &str) {
        let title = self.paint(Paint::Strong, title);
        self.line("");
        self.line(&title);
    }

    /// Writes a table of metrics, with at most `unchanged` unchanged ones, and under it the details that do not fit the table.
    fn metrics(&mut self, title: &str, rows: &[Row], unchanged: usize) {
        if rows.is_empty() {
            return;
        }
        self.title(title);
        let shown: Vec<&Row> =
            MetricOutcome::ALL.into_iter().flat_map(|standing| first_rows(rows, standing, unchanged)).collect();
        self.table(INDENT, &Table::fitting(table_columns(&shown), self.width.saturating_sub(INDENT.len())));
        if rows.len() > shown.len() {
            let more = format!("and {}, in the page", counted((rows.len() - shown.len()) as u64, "more metric"));
            self.paragraph(INDENT, &more, Paint::Faint);
        }
        for row in shown.iter().filter(|row| !row.reason.is_empty()) {
            self.paragraph("  · ", &format!("{}: {}", row.name(), row.reason), Paint::Faint);
        }
    }

    fn acknowledgements(&mut self, accepted: &[AcknowledgementLine]) {
        if accepted.is_empty() {
            return;
        }
        self.title("Acknowledgements");
        for one in accepted.iter().take(MAX_LINES) {
            let paint =
                if matches!(one.kind, EffectKind::TooLarge | EffectKind::Expired) { Paint::Caution } else { Paint::Plain };
            self.paragraph(
                INDENT,
                &format!("`{}` accepts {} of `{}`; {}: {}", one.path, one.accepts, one.metric, one.kind.as_str(), one.effect),
                paint,
            );
            let why =
                format!("{}; {}; {} (approved by {}, until {})", one.place, one.subject, one.reason, one.approver, one.expires);
            self.paragraph("    ", &why, Paint::Faint);
        }
        self.omission_note(accepted.len(), "acknowledgement");
    }

    fn earlier_verdicts(&mut self, report: &Report) {
        if report.earlier.is_empty() {
            return;
        }
        self.title("Earlier verdicts of this pull request");
        let latest = report.earlier.len().saturating_sub(MAX_LINES);
        if latest > 0 {
            self.paragraph(INDENT, &format!("{} before these, in the page", counted(latest as u64, "verdict")), Paint::Faint);
        }
        for one in report.earlier.iter().skip(latest) {
            let text = format!(
                "{}. {} {}, look {}, commit {}, {}",
                one.number, one.gate, one.outcome, one.look, one.commit, one.judged_on
            );
            self.paragraph(INDENT, &text, Paint::Plain);
        }
    }

    fn omission_note(&mut self, all: usize, noun: &str) {
        if let Some(more) = all.checked_sub(MAX_LINES).filter(|more| *more > 0) {
            self.paragraph(INDENT, &format!("and {}, in the page", counted(more as u64, &format!("more {noun}"))), Paint::Faint);
        }
    }

    fn commands(&mut self, commands: &[String]) {
        if commands.is_empty() {
            return;
        }
        self.title("How to check");
        for command in commands {
            self.line(&format!("{INDENT}{command}"));
        }
    }
}

/// Returns the first rows with that outcome.
fn first_rows(rows: &[Row], standing: MetricOutcome, unchanged: usize) -> impl Iterator<Item = &Row> {
    let most = if standing == MetricOutcome::Unchanged { unchanged } else { MAX_CHANGED };
    rows.iter().filter(move |row| row.outcome == standing).take(most)
}

/// Returns the columns. In a narrow terminal they are dropped in this order: the change of the medians, the floor, the adjusted p, the
/// smallest detectable change, the number of pairs.
fn table_columns(rows: &[&Row]) -> Vec<TableColumn> {
    let column = |head: [&str; 2], rank: u8, right: bool, cell: &dyn Fn(&Row) -> Cell| {
        TableColumn::new(head, rank, right, rows.iter().map(|row| cell(row)).collect())
    };
    let two = |value: String, beneath: String| Cell { value, beneath, paint: Paint::Plain };
    let pairs = |row: &Row| Cell::plain(row.pairs());
    let p: Vec<String> = rows.iter().map(|row| row.p.clone()).collect();
    let p = align_points(&p, ' ', ' ').into_iter().map(Cell::plain).collect();
    vec![
        column(["metric", "workload at point"], NEVER_DROPPED, false, &|row| two(row.metric.clone(), row.place())),
        column(["verdict", "size"], NEVER_DROPPED, false, &|row| Cell {
            value: row.outcome.as_str().to_owned(),
            beneath: row.magnitude_text().to_owned(),
            paint: if row.outcome.is_caution() { Paint::Caution } else { Paint::Strong },
        }),
        column(["change", "interval"], NEVER_DROPPED, false, &change),
        column(["of the", "medians"], 1, true, &|row| {
            Cell::plain(row.change.as_ref().map_or(ABSENT, |change| &change.change_of_medians))
        }),
        column(["baseline", "median"], 6, true, &|row| two(row.baseline.clone(), row.unit.unit.clone())),
        column(["candidate", "median"], 6, true, &|row| two(row.candidate.clone(), row.unit.unit.clone())),
        column(["pairs", ""], 5, true, &pairs),
        column(["would", "find"], 4, true, &|row| Cell::plain(row.detectable.clone())),
        TableColumn::new(["adjusted", "p"], 3, true, p),
        column(["floor", "from"], 2, true, &|row| two(row.floor.clone(), row.floor_source().to_owned())),
    ]
}

fn change(row: &Row) -> Cell {
    match &row.change {
        Some(change) => Cell { value: change.change.clone(), beneath: change.interval.clone(), paint: Paint::Strong },
        None => Cell { value: "not comparable".to_owned(), beneath: String::new(), paint: Paint::Faint },
    }
}
