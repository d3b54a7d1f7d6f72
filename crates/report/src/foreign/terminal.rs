//! A verdict over foreign evidence as lines for the terminal.

use assay_manifest::{ForeignMetricVerdict, ForeignVerdict};

use super::ForeignReport;
use super::phrases::{COLUMNS, cells, labels, piece};
use crate::render::number::significant;
use crate::render::text::{clean, columns, counted};

/// The most numbers that were not judged that are shown.
const SHOWN_NOT_JUDGED: usize = 10;

impl ForeignReport<'_> {
    /// Returns the verdict as lines, without control characters.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![ForeignVerdict::ABOUT.to_owned(), format!("{}: gate {}", self.headline(), self.verdict.gate)];
        lines.extend(self.reasons().map(|reason| format!("  {reason}")));
        lines.extend(self.advisory_sentence());
        lines.push(self.pairing_sentence());
        lines.extend(self.remarks());
        for (title, primary) in [("", true), ("reported only:", false)] {
            let metrics: Vec<_> = self.metrics(primary).collect();
            if !metrics.is_empty() {
                lines.push(title.to_owned());
                lines.extend(table(&metrics));
            }
        }
        lines.push(String::new());
        lines.extend(self.not_judged_lines());
        for (side, pieces) in [("baseline ", &self.verdict.baseline), ("candidate", &self.verdict.candidate)] {
            lines.extend(pieces.iter().map(|found| format!("{side}  {}", piece(found))));
        }
        lines.push(format!("id         {}", self.digest));
        lines.push(format!("verify     {}", self.command()));
        lines
    }

    fn not_judged_lines(&self) -> Vec<String> {
        let all = self.verdict.not_judged_count.0;
        if all == 0 {
            return Vec::new();
        }
        let mut lines = vec![format!("not judged: {}", counted(all, "number"))];
        let median = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| significant(value, None));
        for found in self.verdict.not_judged.iter().take(SHOWN_NOT_JUDGED) {
            let number = &found.number;
            let values =
                format!("{} / {} {}", median(found.baseline_median), median(found.candidate_median), clean(&number.unit));
            let name = format!("{} ({}) {}", clean(&number.metric), clean(&number.statistic), labels(number));
            lines.push(format!("  {}  {}: {}", name.trim_end(), values.trim_end(), clean(&found.why)));
        }
        if let Some(more) = all.checked_sub(SHOWN_NOT_JUDGED as u64).filter(|more| *more > 0) {
            lines.push(format!("  and {more} more: `--json` lists them"));
        }
        lines
    }
}

fn table(metrics: &[&ForeignMetricVerdict]) -> Vec<String> {
    let titles = COLUMNS.map(|(title, _)| title.to_owned());
    let rows: Vec<[String; 12]> = std::iter::once(titles).chain(metrics.iter().map(|metric| cells(metric))).collect();
    let mut widths = [0; 12];
    for row in &rows {
        widths.iter_mut().zip(row).for_each(|(width, cell)| *width = (*width).max(columns(cell)));
    }
    let line = |row: &[String; 12]| {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell}{}", " ".repeat(width - columns(cell)))).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}
