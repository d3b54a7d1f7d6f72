//! The lineage panel of one number: each step back to the commit, with the command that checks it.

use std::collections::BTreeSet;

use assay_manifest::Address;

use crate::render::html::writer::Writer;
use crate::render::html::{Typeface, command_line, pairs};
use crate::render::text::counted;
use crate::run::model::Report;
use crate::run::model::lineage::Lineage;
use crate::run::model::section::{CaseSection, MetricStatistics, PointSection, Row};
use crate::run::model::serving::{Column, metric_name};

/// The panels of a page, each written once.
#[derive(Default)]
pub(super) struct Panels {
    page: Writer,
    written: BTreeSet<String>,
}

impl Panels {
    /// Returns the number of bytes so far.
    pub(super) fn len(&self) -> usize {
        self.page.len()
    }

    pub(super) fn into_page(self) -> Writer {
        self.page
    }

    /// Writes the panel of `measured`, if it is not written yet; `full` spells out the steps that all numbers share.
    pub(super) fn write(
        &mut self,
        report: &Report,
        case: &CaseSection,
        point: &PointSection,
        row: &Row,
        measured: &MetricStatistics,
        full: bool,
    ) {
        if self.written.insert(measured.address.row().to_owned()) {
            write(&mut self.page, report, case, point, row, measured, full);
        }
    }

    /// Writes the panel that all numbers of a load share, with the row of each number.
    pub(super) fn write_load(&mut self, id: &str, case: &CaseSection, point: &PointSection, columns: &[&Column]) {
        self.page.newline();
        let title = format!("{}, {}", point.label, case.side);
        self.page.element("section", &[("id", id), ("class", "lineage"), ("aria-label", &title)], |page| {
            // A thousand of these are half of the page, so the wording is as short as possible.
            page.leaf("a", &[("class", "close"), ("href", "#results")], "Close");
            page.leaf("h2", &[], &title);
            page.element("p", &[], |page| page.leaf("a", &[("href", "#check")], "How to trace a row"));
            page.element("dl", &[("class", "rows")], |page| {
                for (name, row) in numbers(point, columns) {
                    page.leaf("dt", &[], &name);
                    page.leaf("dd", &[], row);
                }
            });
        });
    }

    /// Writes the panels of the rows that are linked to and have none yet.
    pub(super) fn write_missing(&mut self, report: &Report, linked: &BTreeSet<String>) {
        for (case, point, row) in report.rows() {
            if let Ok(measured) = &row.measured
                && linked.contains(measured.address.row())
            {
                self.write(report, case, point, row, measured, false);
            }
        }
    }
}

/// Writes a number as a link to its lineage.
pub(super) fn number_link(page: &mut Writer, measured: &MetricStatistics) {
    page.links_to(measured.address.row());
    let target = format!("#r-{}", measured.address.row());
    page.leaf("a", &[("class", "number"), ("href", &target)], &measured.median_text);
}

/// Returns the short names and rows of the numbers of a load, for the panel that they share.
fn numbers<'a>(point: &'a PointSection, columns: &'a [&Column]) -> impl Iterator<Item = (String, &'a str)> {
    columns.iter().filter_map(|column| Some((column.title(), point.measured(column.text)?.address.row())))
}

fn close(page: &mut Writer) {
    page.leaf("a", &[("class", "close"), ("href", "#results"), ("aria-label", "Close the lineage panel")], "Close");
}

fn write(
    panels: &mut Writer,
    report: &Report,
    case: &CaseSection,
    point: &PointSection,
    row: &Row,
    measured: &MetricStatistics,
    full: bool,
) {
    let id = format!("r-{}", measured.address.row());
    let title = format!("t-{}", measured.address.row());
    panels.newline();
    panels.element("section", &[("id", &id), ("class", "lineage"), ("aria-labelledby", &title)], |page| {
        close(page);
        page.element("h2", &[("id", &title)], |page| {
            page.text(&format!("{} {} ", measured.median_text, row.unit));
            page.leaf("span", &[("class", "quiet")], &format!("{}, {}", metric_name(&row.metric), point.label));
        });
        page.leaf("p", &[("class", "quiet")], case.case_id.as_str());
        number(page, measured, full);
        command_line(page, &report.trace_command(&measured.address));
        if full {
            steps(page, &report.lineage, case, measured);
        } else {
            shared(page, case);
        }
    });
}

fn number(page: &mut Writer, measured: &MetricStatistics, full: bool) {
    let address = measured.address.to_string();
    let mut lines = vec![
        ("address", address.as_str(), Typeface::Code),
        ("stored as", &measured.stored, Typeface::Text),
        ("row", &measured.row_id, Typeface::Code),
    ];
    let interval = match &measured.interval {
        Ok(ends) => format!("{}, {}, {}", ends.text, ends.level, ends.method),
        Err(reason) => format!("none: {reason}"),
    };
    let others: Vec<_> = measured.others.iter().map(|(statistic, address)| (statistic.as_str(), address.to_string())).collect();
    if full {
        lines.extend([
            ("interval", interval.as_str(), Typeface::Text),
            ("mean", &measured.mean_text, Typeface::Text),
            ("range", &measured.range_text, Typeface::Text),
            ("stability", &measured.stability_reason, Typeface::Text),
        ]);
        lines.extend(others.iter().map(|(statistic, address)| (*statistic, address.as_str(), Typeface::Code)));
    }
    pairs(page, lines);
}

/// Writes the steps from the row to the commit, each with its digest.
fn steps(page: &mut Writer, lineage: &Lineage, case: &CaseSection, measured: &MetricStatistics) {
    page.element("ol", &[("class", "steps")], |page| {
        step(page, "Row", "in a curated file with the digest", &lineage.outcome_files);
        if let Some((table, version)) = lineage.snapshot.iter().find(|(table, _)| *table == Address::TABLE) {
            page.element("li", &[], |page| {
                page.leaf("strong", &[], "Warehouse");
                page.prose(&format!(" holds that file in `{table}` at version {version}"));
            });
        }
        step(page, "Summary", "lists that file; its signature vouches for it", lineage.summary_digest.as_slice());
        page.element("li", &[], |page| {
            let raw = format!("names {} by the list", counted(lineage.evidence_count, "raw artifact"));
            page.leaf("strong", &[], "Collection");
            page.text(&format!(" {raw} "));
            page.leaf("code", &[("class", "digest")], &lineage.evidence.digest);
            page.text(" in the manifest ");
            page.leaf("code", &[("class", "digest")], &lineage.collection_digest);
        });
        step(page, "Plan", "fixed what was to be measured", std::slice::from_ref(&lineage.plan_digest));
        if let Some(workload) = lineage.workload(&case.workload) {
            step(page, "Workload", "frozen with the spec", std::slice::from_ref(&workload.spec_digest));
        }
        step(page, "Commit", "that all of it was read from", lineage.commit().map(str::to_owned).as_slice());
    });
    if let Some(command) = lineage.summary_command() {
        page.leaf("p", &[("class", "quiet")], "The signature on the Summary, checked without Assay:");
        command_line(page, command);
    }
    page.element("details", &[], |page| {
        page.leaf("summary", &[], "Trials");
        pairs(page, measured.trials.iter().map(|trial| (trial.name.as_str(), trial.text.as_str(), Typeface::Text)));
    });
    links(page, case);
}

fn step(page: &mut Writer, name: &str, text: &str, digests: &[String]) {
    page.element("li", &[], |page| {
        page.leaf("strong", &[], name);
        page.text(&format!(" {text} "));
        if digests.is_empty() {
            page.leaf("span", &[("class", "caution")], "(absent)");
        }
        for digest in digests.iter().take(4) {
            page.leaf("code", &[("class", "digest")], digest);
            page.text(" ");
        }
        if digests.len() > 4 {
            page.text(&format!("or one of {} more", digests.len() - 4));
        }
    });
}

fn shared(page: &mut Writer, case: &CaseSection) {
    page.leaf("p", &[("class", "quiet")], "From its row on, the way back is the same for all numbers of this run.");
    links(page, case);
}

fn links(page: &mut Writer, case: &CaseSection) {
    page.element("p", &[], |page| {
        for (target, text) in [(format!("#w-{}", case.workload), "Workload"), ("#files".to_owned(), "Files")] {
            page.leaf("a", &[("href", &target)], text);
            page.text(" · ");
        }
        page.leaf("a", &[("href", "#source")], "Source");
        page.text(" · ");
        page.leaf("a", &[("href", "#signatures")], "Signatures");
    });
}
