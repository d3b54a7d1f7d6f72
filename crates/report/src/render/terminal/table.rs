//! A table for a terminal whose cells have two lines, and whose columns are dropped one after the other if it does not fit.

use std::collections::BTreeSet;

use super::{Paint, Screen};
use crate::render::text::{columns, fit};

/// The smallest width of the first column.
const MIN_LABEL: usize = 10;

/// The rank of columns that are never dropped.
pub(crate) const NEVER_DROPPED: u8 = u8::MAX;

/// The rank of a picture of the trials, which is dropped first.
pub(crate) const PICTURE_RANK: u8 = 1;

/// A value, and the text beneath it.
pub(crate) struct Cell {
    pub(crate) value: String,
    pub(crate) beneath: String,
    pub(crate) paint: Paint,
}

impl Cell {
    pub(crate) fn plain(value: impl Into<String>) -> Self {
        Self { value: value.into(), beneath: String::new(), paint: Paint::Plain }
    }
}

/// A column with its two lines of header. Columns with the lowest rank are dropped first.
pub(crate) struct TableColumn {
    head: [String; 2],
    rank: u8,
    right: bool,
    width: usize,
    cells: Vec<Cell>,
    /// The name of the metric whose values the column has.
    metric: Option<&'static str>,
}

impl TableColumn {
    pub(crate) fn new(head: [&str; 2], rank: u8, right: bool, cells: Vec<Cell>) -> Self {
        let texts = cells.iter().flat_map(|cell| [&*cell.value, &*cell.beneath]).chain(head);
        let width = texts.map(columns).max().unwrap_or(0);
        Self { head: head.map(str::to_owned), rank, right, width, cells, metric: None }
    }

    /// Returns the column as that of a metric.
    pub(crate) fn of_metric(self, name: &'static str) -> Self {
        Self { metric: Some(name), ..self }
    }

    /// Removes the text beneath each value.
    pub(crate) fn clear_beneath(&mut self) {
        self.cells.iter_mut().for_each(|cell| cell.beneath.clear());
    }

    fn title(&self) -> String {
        self.head.join(" ").trim().to_owned()
    }

    fn pad(&self, text: &str) -> String {
        let text = fit(text, self.width);
        let space = " ".repeat(self.width.saturating_sub(columns(&text)));
        if self.right { space + &text } else { text + &space }
    }
}

/// The columns that fit, and the space between them.
pub(crate) struct Table {
    columns: Vec<TableColumn>,
    gap: &'static str,
    /// The headers of the dropped columns with words or numbers, from the left.
    left_out: Vec<String>,
}

impl Table {
    /// Returns all columns if they fit; otherwise without the picture of the trials, then with less space between, then without the
    /// columns of the lowest ranks, lowest first; at last with a shorter first column.
    pub(crate) fn fitting(columns: Vec<TableColumn>, room: usize) -> Self {
        let heads: Vec<String> = columns.iter().filter(|column| column.rank > PICTURE_RANK).map(TableColumn::title).collect();
        let mut table = Self { columns, gap: "  ", left_out: Vec::new() };
        if table.width() > room {
            table.columns.retain(|column| column.rank > PICTURE_RANK);
        }
        if table.width() > room {
            table.gap = " ";
        }
        while table.width() > room {
            let ranked = table.columns.iter().enumerate().filter(|(_, column)| column.rank < NEVER_DROPPED);
            let Some((least, _)) = ranked.min_by_key(|(_, column)| column.rank) else { break };
            table.columns.remove(least);
        }
        let shown: Vec<String> = table.columns.iter().map(TableColumn::title).collect();
        table.left_out = heads.into_iter().filter(|head| !shown.contains(head)).collect();
        let excess = table.width().saturating_sub(room);
        if let Some(label) = table.columns.first_mut() {
            label.width = label.width.saturating_sub(excess).max(label.width.min(MIN_LABEL));
        }
        table
    }

    /// Returns the names of the metrics whose columns fit.
    pub(crate) fn metrics(&self) -> BTreeSet<&'static str> {
        self.columns.iter().filter_map(|column| column.metric).collect()
    }

    fn width(&self) -> usize {
        self.columns.iter().map(|column| column.width).sum::<usize>() + self.gap.len() * self.columns.len().saturating_sub(1)
    }

    fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.cells.len())
    }
}

impl Screen {
    /// Writes a table, each line after `indent`, and a note on the columns that a wider terminal would show.
    pub(crate) fn table(&mut self, indent: &str, table: &Table) {
        for line in 0..2 {
            let header: Vec<String> =
                table.columns.iter().filter_map(|column| Some(column.pad(column.head.get(line)?))).collect();
            let header = self.paint(Paint::Faint, header.join(table.gap).trim_end());
            self.line(&format!("{indent}{header}"));
        }
        for row in 0..table.rows() {
            let values: Vec<String> =
                table.columns.iter().filter_map(|column| Some(self.paint_cell(column, column.cells.get(row)?))).collect();
            self.line(&format!("{indent}{}", values.join(table.gap)));
            let beneath = table.columns.iter().filter_map(|column| Some(column.pad(&column.cells.get(row)?.beneath)));
            let beneath = beneath.collect::<Vec<_>>().join(table.gap);
            if !beneath.trim().is_empty() {
                let painted = self.paint(Paint::Faint, beneath.trim_end());
                self.line(&format!("{indent}{painted}"));
            }
        }
        if !table.left_out.is_empty() {
            let columns = table.left_out.iter().map(|title| format!("`{title}`")).collect::<Vec<_>>().join(", ");
            self.paragraph(indent, &format!("too narrow for the columns {columns}"), Paint::Faint);
        }
    }

    fn paint_cell(&self, column: &TableColumn, cell: &Cell) -> String {
        self.paint(cell.paint, &column.pad(&cell.value))
    }
}
