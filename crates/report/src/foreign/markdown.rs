//! A verdict over foreign evidence as Markdown, for a comment.

use std::fmt::Write as _;

use assay_manifest::{ForeignMetricVerdict, ForeignVerdict};

use super::ForeignReport;
use super::phrases::{COLUMNS, cells, piece};
use crate::render::markdown::{block, code, escape, prose};
use crate::render::text::counted;

/// The number of bytes that are kept for the note on what is left out.
const NOTE: usize = 200;

impl ForeignReport<'_> {
    /// Returns the verdict as Markdown of at most `limit` bytes. The last lines are left out if there is no room for them, and counted.
    pub fn markdown(&self, limit: usize) -> String {
        let mut lines =
            vec![format!("**{}**\n\n", escape(ForeignVerdict::ABOUT)), format!("### {}\n\n", escape(&self.headline()))];
        lines.extend(self.reasons().map(|reason| format!("- {}\n", prose(&reason))));
        lines.extend(self.advisory_sentence().map(|sentence| format!("\n{}\n", prose(&sentence))));
        lines.push(format!("\n{}\n\n", escape(&self.pairing_sentence())));
        lines.extend(self.remarks().iter().map(|remark| format!("- {}\n", prose(remark))));
        for (title, primary) in [("Metrics", true), ("Other metrics, reported only", false)] {
            let metrics: Vec<_> = self.metrics(primary).collect();
            if !metrics.is_empty() {
                lines.push(format!("\n#### {title}\n\n{}", header()));
                lines.extend(metrics.into_iter().map(row));
            }
        }
        lines.push("\n#### Evidence\n\n".to_owned());
        for (side, pieces) in [("baseline", &self.verdict.baseline), ("candidate", &self.verdict.candidate)] {
            lines.extend(pieces.iter().map(|found| format!("- {side}: {}\n", code(&piece(found)))));
        }
        lines.push(format!("\n{}", block("sh", &self.command())));
        within(&lines, limit)
    }
}

fn header() -> String {
    let titles: Vec<&str> = COLUMNS.iter().map(|(title, _)| *title).collect();
    let marks: Vec<&str> = COLUMNS.iter().map(|(_, is_number)| if *is_number { "---:" } else { "---" }).collect();
    format!("| {} |\n| {} |\n", titles.join(" | "), marks.join(" | "))
}

fn row(metric: &ForeignMetricVerdict) -> String {
    let cells: Vec<String> = cells(metric).iter().map(|cell| escape(cell)).collect();
    format!("| {} |\n", cells.join(" | "))
}

/// Returns as many of the first lines as fit, with the number of the others.
fn within(lines: &[String], limit: usize) -> String {
    let all: usize = lines.iter().map(String::len).sum();
    let room = if all <= limit { limit } else { limit.saturating_sub(NOTE) };
    let mut text = String::new();
    for (place, line) in lines.iter().enumerate() {
        if text.len() + line.len() > room {
            let left = counted((lines.len() - place) as u64, "line");
            let _ = write!(text, "\nLeft out to keep this small: {left}. The page has all of it.\n");
            break;
        }
        text.push_str(line);
    }
    text
}
