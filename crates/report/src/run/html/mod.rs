//! The report as one HTML page: no scripts, no requests, readable from a phone to a wall display, on paper and by a screen reader.
//!
//! Any number is a link to its lineage, a panel that the URL's fragment opens (`:target`). The lineage of a number can so be shared as
//! a URL, and works wherever style sheets do. Without style sheets the panels are the page's last section.

mod evidence;
mod figure;
mod panel;
mod serving;
mod serving_table;
mod stacks;
mod table;
mod tables;
#[cfg(test)]
mod tests;

use crate::explanation::{Line, Section, WhyWorse};
use crate::render::html::writer::Writer;
use crate::render::html::{MAX_PAGE, STYLE, folded, head, section, strip_item, theme};
use crate::run::model::Report;
use crate::run::model::sentence::Sentence;
use crate::run::model::serving as serving_metrics;

/// Maximum number of sentences; the table has the rest.
const MAX_SENTENCES: usize = 12;

/// The size of the short panel of a linked number, in bytes.
const LINKED_PANEL_BYTES: usize = 1_000;

impl Report {
    /// Returns the report as a self-contained HTML page, below two megabytes for a thousand points.
    pub fn html(&self) -> String {
        let mut page = Writer::doctype();
        page.element("html", &[("lang", "en")], |page| {
            let title = format!("{}: run {}", self.pipeline, self.run_id);
            page.element("head", &[], |page| head(page, &title, STYLE));
            page.element("body", &[], |page| self.body(page));
        });
        page.newline();
        page.finish()
    }

    fn body(&self, page: &mut Writer) {
        // Written first, so that the tables know how much room is left.
        let mut below = Writer::default();
        section(&mut below, "evidence", "Evidence", |page| self.evidence(page));
        section(&mut below, "fine-print", "Fine print", |page| {
            folded(page, "How the numbers were made, and what they do not say", |page| self.fine_print(page));
        });
        let mut panels = panel::Panels::default();
        page.element("main", &[], |page| {
            self.header(page);
            if self.cases.iter().any(|case| case.serving.is_some()) {
                section(page, "throughput", "Throughput against latency", |page| serving::throughput_figures(page, self));
                section(page, "distributions", "Distributions", |page| serving::distribution_figures(page, self));
            }
            section(page, "trials", "Trials", |page| {
                let mut figures = Writer::default();
                figure::figures(&mut figures, self);
                page.append(figures);
            });
            if serving::has_time_slices(self) || serving::has_timelines(self) {
                section(page, "time", "Over time", |page| self.over_time(page));
            }
            section(page, "state", "State", |page| page.element("dl", &[("class", "strip-items")], |page| self.state(page)));
            if let Some(found) = &self.stacks {
                section(page, "stacks", "Software stacks", |page| stacks::stacks(page, found));
            }
            let room = MAX_PAGE.saturating_sub(page.len() + below.len() + page.links().len() * LINKED_PANEL_BYTES);
            section(page, "results", "Results", |page| tables::tables(page, &mut panels, self, room));
            if let Some(why) = &self.why_worse {
                section(page, "why", "Why it is worse", |page| self.why_worse(page, why));
            }
            page.append(below);
        });
        panels.write_missing(self, page.links());
        page.element("aside", &[("aria-label", "Lineage of each number")], |page| page.append(panels.into_page()));
    }

    fn header(&self, page: &mut Writer) {
        page.element("header", &[], |page| {
            theme(page);
            page.element("p", &[("class", "eyebrow")], |page| {
                page.text("Run ");
                page.leaf("code", &[], self.run_id.as_str());
            });
            page.leaf("h1", &[], &self.pipeline);
            let class = if self.overview.is_complete { "overview" } else { "overview caution" };
            page.element("p", &[("class", class)], |page| page.prose(&self.overview.completeness));
            page.element("p", &[("class", "overview")], |page| page.prose(&self.overview.setting));
            page.element("p", &[("class", "overview")], |page| page.prose(&self.overview.certainty));
            page.element("ul", &[("class", "sentences")], |page| {
                for sentence in self.sentences.iter().take(MAX_SENTENCES) {
                    page.element("li", &[], |page| write_sentence(page, sentence));
                }
            });
            let abbreviations = serving_metrics::abbreviations(&self.cases);
            if !abbreviations.is_empty() {
                page.leaf("p", &[("class", "quiet abbreviations")], &format!("{abbreviations}."));
            }
            let more = self.sentences.len().saturating_sub(MAX_SENTENCES);
            if more > 0 {
                page.element("p", &[("class", "quiet")], |page| {
                    page.text(&format!("And {more} more in the "));
                    page.leaf("a", &[("href", "#results")], "table");
                    page.text(".");
                });
            }
        });
    }

    fn why_worse(&self, page: &mut Writer, why: &WhyWorse) {
        page.leaf("p", &[("class", "overview")], &why.headline());
        let WhyWorse::Explained(explained) = why else {
            page.element("p", &[], |page| {
                page.leaf("code", &[], &self.explain_command());
                page.text(" reads them.");
            });
            return;
        };
        page.element("p", &[], |page| {
            page.text(&format!("{}. ", explained.between()));
            page.leaf("code", &[], &self.explain_command());
            page.text(" makes it again, by the rules of the Assay that you have.");
        });
        for Section { title, lines, .. } in explained.brief_sections() {
            page.leaf("h3", &[], &title);
            page.element("ul", &[("class", "remarks")], |page| {
                for Line { label, text } in lines {
                    page.element("li", &[], |page| {
                        if !label.is_empty() {
                            page.leaf("em", &[], label);
                            page.text(": ");
                        }
                        page.prose(&text);
                    });
                }
            });
        }
        page.leaf("p", &[("class", "quiet")], &explained.notes().join(" "));
    }

    fn over_time(&self, page: &mut Writer) {
        serving::time_slice_figures(page, self);
        if serving::has_timelines(self) {
            folded(page, "Each request of one trial of a load", |page| serving::timeline_figures(page, self));
        }
    }

    fn state(&self, page: &mut Writer) {
        for item in &self.strip {
            strip_item(page, item);
        }
    }

    fn fine_print(&self, page: &mut Writer) {
        page.element("dl", &[("class", "fine")], |page| {
            for item in &self.fine_print {
                page.leaf("dt", &[], item.label);
                page.element("dd", &[], |page| page.prose(&item.text));
            }
        });
    }
}

fn write_sentence(page: &mut Writer, sentence: &Sentence) {
    let (Some(number), Some(address)) = (&sentence.number, &sentence.address) else {
        page.text(&sentence.to_string());
        return;
    };
    page.links_to(address.row());
    page.text(&sentence.metric);
    page.text(" ");
    page.leaf("a", &[("class", "number headline"), ("href", &format!("#r-{}", address.row()))], number);
    page.text(" ");
    page.leaf("span", &[("class", "interval-text")], &sentence.interval);
    page.leaf("span", &[("class", "rest")], &format!(", {}", sentence.rest));
}
