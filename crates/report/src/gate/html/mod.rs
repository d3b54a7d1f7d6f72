//! A verdict as one HTML page: no scripts, no requests, readable from a phone to a wall display and on paper.

mod figure;
mod table;

use std::collections::BTreeSet;

use crate::gate::model::Report;
use crate::gate::model::row::{MetricOutcome, Row};
use crate::render::html::writer::Writer;
use crate::render::html::{command_line, head, section, strip_item, theme};
use crate::render::text::counted;

use figure::figure;
use table::{PlacedRow, picture_id};

/// Maximum size of all pictures together, in bytes, so that the tables fit within the page's limit.
const MAX_FIGURES: usize = 700_000;

/// The style of all pages, and the additions for a verdict.
const STYLE: &str = concat!(include_str!("../../render/html/style.css"), include_str!("style.css"));

impl Report {
    /// Returns the verdict as a self-contained HTML page, below two megabytes for a thousand metrics.
    pub fn html(&self) -> String {
        let mut page = Writer::doctype();
        page.element("html", &[("lang", "en")], |page| {
            page.element("head", &[], |page| head(page, &format!("Gate {}: {}", self.gate, self.headline()), STYLE));
            page.element("body", &[], |page| page.element("main", &[], |page| self.main(page)));
        });
        page.newline();
        page.finish()
    }

    fn main(&self, page: &mut Writer) {
        // Written first, so that the tables know how much room is left.
        let mut below = Writer::default();
        self.after_tables(&mut below);
        self.header(page);
        section(page, "state", "State", |page| {
            page.element("dl", &[("class", "strip-items")], |page| self.strip.iter().for_each(|item| strip_item(page, item)));
        });
        let placed: Vec<PlacedRow<'_>> = self.primary.iter().chain(&self.others).enumerate().collect();
        let (primary, others) = placed.split_at(self.primary.len());
        let mut drawn = BTreeSet::new();
        section(page, "changed", "What changed", |page| self.pictures(page, &placed, &mut drawn));
        let reserved = below.len();
        section(page, "metrics", "Primary metrics", |page| match primary {
            [] => page.leaf("p", &[("class", "quiet")], "No primary metric was judged."),
            some => table::metrics(page, some, &drawn, reserved),
        });
        if !others.is_empty() {
            section(page, "others", "Other metrics, reported only", |page| table::metrics(page, others, &drawn, reserved));
        }
        page.append(below);
    }

    fn header(&self, page: &mut Writer) {
        page.element("header", &[], |page| {
            theme(page);
            page.element("p", &[("class", "eyebrow")], |page| {
                page.text("Verdict ");
                page.leaf("code", &[("class", "digest")], self.digest.as_deref().unwrap_or("not sealed"));
            });
            page.leaf("h1", &[], &format!("Gate {}", self.gate));
            page.element("ul", &[("class", "sentences")], |page| page.element("li", &[], |page| self.first_line(page)));
        });
    }

    fn first_line(&self, page: &mut Writer) {
        let headline = self.headline();
        let rest = self.sentence.strip_prefix(&headline).unwrap_or_default();
        page.leaf("strong", &[("class", "verdict")], &headline);
        page.prose(rest);
    }

    /// Writes the pictures of the changed metrics, and folded those of the others; adds the metrics that were drawn to `drawn`.
    fn pictures(&self, page: &mut Writer, rows: &[PlacedRow<'_>], drawn: &mut BTreeSet<usize>) {
        let is_changed = |row: &Row| row.verdict.primary && row.outcome != MetricOutcome::Unchanged;
        let (changed, rest): (Vec<PlacedRow<'_>>, Vec<PlacedRow<'_>>) = rows.iter().partition(|(_, row)| is_changed(row));
        let end = page.len() + MAX_FIGURES;
        if changed.is_empty() {
            page.leaf("p", &[("class", "quiet")], "No primary metric changed, and none was left untold.");
        }
        let mut left_out = 0;
        for (place, row) in &changed {
            left_out += usize::from(!self.picture(page, *place, row, end, drawn));
        }
        for (place, row) in &rest {
            let mut folded = Writer::default();
            folded.element("details", &[("class", "folded")], |page| {
                page.leaf(
                    "summary",
                    &[],
                    &format!("{}, {}: {}, {}", row.metric, row.place(), row.outcome.as_str(), row.change_text()),
                );
                self.write_picture(page, *place, row);
            });
            left_out += usize::from(!append(page, folded, end, *place, drawn));
        }
        if left_out > 0 {
            let text =
                format!("{} left out to keep this page small; the tables have the numbers.", counted(left_out as u64, "picture"));
            page.leaf("p", &[("class", "quiet")], &text);
        }
    }

    fn picture(&self, page: &mut Writer, place: usize, row: &Row, end: usize, drawn: &mut BTreeSet<usize>) -> bool {
        let mut piece = Writer::default();
        self.write_picture(&mut piece, place, row);
        append(page, piece, end, place, drawn)
    }

    fn write_picture(&self, page: &mut Writer, place: usize, row: &Row) {
        page.element("div", &[("id", &picture_id(place))], |page| figure(page, place, row, self.budget, self.store.as_deref()));
    }

    /// Writes everything that follows the tables of metrics.
    fn after_tables(&self, page: &mut Writer) {
        if !self.accepted.is_empty() {
            section(page, "acknowledgements", "Acknowledgements", |page| table::acknowledgements(page, &self.accepted));
        }
        if !self.earlier.is_empty() {
            section(page, "earlier", "Earlier verdicts of this pull request", |page| table::earlier_verdicts(page, self));
        }
        section(page, "check", "How to check", |page| self.check(page));
        section(page, "fine-print", "Fine print", |page| {
            page.element("dl", &[("class", "fine")], |page| {
                for item in &self.fine_print {
                    page.leaf("dt", &[], item.label);
                    page.element("dd", &[], |page| page.prose(&item.text));
                }
            });
        });
    }

    fn check(&self, page: &mut Writer) {
        if self.commands.is_empty() {
            page.leaf(
                "p",
                &[("class", "quiet")],
                "The verdict is not sealed and names no run, so there is nothing to check it by.",
            );
            return;
        }
        page.leaf("p", &[], "Whoever has what a verdict names can make it again, to the byte.");
        for command in &self.commands {
            command_line(page, command);
        }
        self.pinned_runs(page);
    }

    /// Writes the judged runs, each with the digests by which the verdict pins it, folded.
    fn pinned_runs(&self, page: &mut Writer) {
        page.element("details", &[], |page| {
            let all = counted((self.runs.len() + self.runs_left_out) as u64, "run");
            let latest = if self.runs_left_out > 0 { format!(", the latest {}", self.runs.len()) } else { String::new() };
            page.leaf("summary", &[], &format!("What it was judged from: {all}{latest}"));
            for run in &self.runs {
                page.leaf("h3", &[], &run.run_id);
                let digests = [("Summary", &run.summary), ("its signature's bundle", &run.bundle), ("plan", &run.plan)];
                let measured = [("commit", &run.commit), ("tree", &run.tree)];
                page.element("dl", &[("class", "pairs")], |page| {
                    for (label, text) in digests.into_iter().chain(measured) {
                        page.leaf("dt", &[], label);
                        page.element("dd", &[], |page| page.leaf("code", &[], text));
                    }
                });
            }
            page.element("p", &[("class", "quiet note")], |page| {
                page.prose(
                    "`assay show <run> --markdown` names the row of each of a run's numbers, and `assay trace` walks one back.",
                );
            });
        });
    }
}

/// Appends a piece if it ends before `end`, and records that its metric is drawn. Returns true if it was appended.
fn append(page: &mut Writer, piece: Writer, end: usize, place: usize, drawn: &mut BTreeSet<usize>) -> bool {
    let fits = page.len() + piece.len() <= end;
    if fits {
        page.append(piece);
        drawn.insert(place);
    }
    fits
}
