//! A verdict over foreign evidence as one HTML page: no scripts, no requests.

use assay_manifest::{ForeignMetricVerdict, ForeignVerdict};

use super::ForeignReport;
use super::phrases::{COLUMNS, cells, piece};
use crate::render::html::table::scrolling_table;
use crate::render::html::writer::Writer;
use crate::render::html::{MAX_PAGE, STYLE, command_line, head, section, theme};
use crate::render::text::counted;

impl ForeignReport<'_> {
    /// Returns the verdict as a self-contained HTML page below two megabytes. Omissions are counted on the page.
    pub fn html(&self) -> String {
        let mut page = Writer::doctype();
        page.element("html", &[("lang", "en")], |page| {
            page.element("head", &[], |page| {
                head(page, &format!("Foreign evidence, gate {}: {}", self.verdict.gate, self.headline()), STYLE);
            });
            page.element("body", &[], |page| page.element("main", &[], |page| self.main(page)));
        });
        page.newline();
        page.finish()
    }

    fn main(&self, page: &mut Writer) {
        page.element("header", &[], |page| {
            page.element("p", &[("class", "eyebrow")], |page| page.leaf("strong", &[], ForeignVerdict::ABOUT));
            theme(page);
            page.leaf("h1", &[], &format!("Gate {}: {}", self.verdict.gate, self.headline()));
            page.element("ul", &[("class", "sentences")], |page| {
                for sentence in self.reasons().chain(self.advisory_sentence()) {
                    page.element("li", &[], |page| page.prose(&sentence));
                }
            });
        });
        section(page, "state", "How far to trust it", |page| {
            page.element("ul", &[], |page| {
                for sentence in std::iter::once(self.pairing_sentence()).chain(self.remarks()) {
                    page.element("li", &[], |page| page.prose(&sentence));
                }
            });
        });
        for (id, title, primary) in [("metrics", "Metrics", true), ("others", "Other metrics, reported only", false)] {
            let metrics: Vec<_> = self.metrics(primary).collect();
            if !metrics.is_empty() {
                section(page, id, title, |page| table(page, &metrics));
            }
        }
        section(page, "evidence", "Evidence", |page| {
            page.element("ul", &[], |page| {
                for (side, pieces) in [("baseline", &self.verdict.baseline), ("candidate", &self.verdict.candidate)] {
                    for found in pieces {
                        page.leaf("li", &[], &format!("{side}: {}", piece(found)));
                    }
                }
            });
            command_line(page, &self.command());
        });
    }
}

fn table(page: &mut Writer, metrics: &[&ForeignMetricVerdict]) {
    // Room for what follows the tables: the lists of at most four hundred pieces.
    let limit = MAX_PAGE / 2;
    let mut left_out = 0_u64;
    scrolling_table(page, "metrics", &COLUMNS, |page| {
        for metric in metrics {
            if page.len() > limit {
                left_out += 1;
                continue;
            }
            page.element("tr", &[], |page| {
                for (cell, (_, is_number)) in cells(metric).iter().zip(COLUMNS) {
                    page.leaf("td", &[("class", if is_number { "n" } else { "" })], cell);
                }
            });
        }
    });
    if left_out > 0 {
        page.leaf("p", &[("class", "quiet")], &format!("Left out to keep this page small: {}.", counted(left_out, "metric")));
    }
}
