//! The table of results: in the plan's order, with failures and n in every row, and absent values shown as absent.

use assay_manifest::Stability;

use super::panel::{Panels, number_link};
use crate::render::html::writer::Writer;
use crate::render::html::{FIGURE_SPACE, PUNCTUATION_SPACE};

use crate::run::model::Report;
use crate::run::model::fold::{self, FoldedRemark};
use crate::run::model::section::{CaseSection, MetricGroup, MetricStatistics, PointSection, Row};

/// The number of columns of the table.
const COLUMNS: &str = "8";

/// Maximum number of remarks of a case; the rest are counted.
const MAX_REMARKS: usize = 60;

pub(super) struct Budget<'a> {
    /// The total length of page and panels at which no further row is begun.
    end: usize,
    pub(super) panels: &'a mut Panels,
    pub(super) full: bool,
    pub(super) left_out: usize,
}

impl<'a> Budget<'a> {
    pub(super) fn new(end: usize, panels: &'a mut Panels, full: bool) -> Self {
        Self { end, panels, full, left_out: 0 }
    }

    pub(super) fn is_spent(&self, page: &Writer) -> bool {
        page.len() + self.panels.len() > self.end
    }
}

pub(super) fn table(page: &mut Writer, budget: &mut Budget<'_>, case: &CaseSection, report: &Report) {
    page.leaf("h3", &[], case.case_id.as_str());
    let groups = case.groups();
    if groups.is_empty() {
        page.leaf("p", &[("class", "quiet")], "No metric was declared and none was found.");
        return;
    }
    page.element(
        "div",
        &[("class", "scroll"), ("tabindex", "0"), ("role", "region"), ("aria-label", case.case_id.as_str())],
        |page| {
            page.element("table", &[("class", "results")], |page| {
                page.element("thead", &[], header);
                for group in &groups {
                    page.element("tbody", &[], |page| group_rows(page, budget, case, group, report));
                }
            });
        },
    );
    write_remarks(page, budget, case);
}

pub(super) fn group_rows(
    page: &mut Writer,
    budget: &mut Budget<'_>,
    case: &CaseSection,
    group: &MetricGroup<'_>,
    report: &Report,
) {
    page.element("tr", &[("class", "group")], |page| {
        page.element("th", &[("scope", "rowgroup"), ("colspan", COLUMNS)], |page| page.text(&group.title()));
    });
    let medians = group.medians(FIGURE_SPACE, PUNCTUATION_SPACE);
    for ((point, row), median) in group.rows.iter().zip(&medians) {
        if budget.is_spent(page) {
            budget.left_out += 1;
            continue;
        }
        write_row(page, point, row, median);
        if let Ok(measured) = &row.measured {
            let full = budget.full && case.serving.is_none();
            budget.panels.write(report, case, point, row, measured, full);
        }
    }
}

pub(super) fn header(page: &mut Writer) {
    let titles = [
        ("point", ""),
        ("median", "n"),
        ("interval", ""),
        ("n", "n"),
        ("excluded", "n"),
        ("CV", "n"),
        ("stability", ""),
        ("row", ""),
    ];
    page.element("tr", &[], |page| {
        for (title, class) in titles {
            page.leaf("th", &[("scope", "col"), ("class", class)], title);
        }
    });
}

fn write_row(page: &mut Writer, point: &PointSection, row: &Row, median: &str) {
    page.element("tr", &[], |page| {
        page.leaf("th", &[("scope", "row")], &point.label);
        match &row.measured {
            Ok(measured) => measured_cells(page, point, measured, median),
            Err(_) => absent_cells(page, point),
        }
    });
    page.newline();
}

/// Writes a row's values. The padding that aligns the median is outside its link, so that it is not underlined.
fn measured_cells(page: &mut Writer, point: &PointSection, measured: &MetricStatistics, median: &str) {
    page.element("td", &[("class", "n")], |page| {
        number_link(page, measured);
        page.text(median.get(measured.median_text.len()..).unwrap_or_default());
    });
    match &measured.interval {
        Ok(ends) => page.leaf("td", &[], &ends.text),
        Err(_) => page.leaf("td", &[("class", "quiet")], "none"),
    }
    page.leaf("td", &[("class", "n")], &format!("{}/{}", measured.n, point.planned));
    page.leaf("td", &[("class", "n")], &point.excluded.to_string());
    page.leaf("td", &[("class", "n")], measured.cv.as_deref().unwrap_or("—"));
    stability(page, measured.stability);
    page.element("td", &[], |page| page.leaf("code", &[], measured.address.row()));
}

fn stability(page: &mut Writer, stability: Stability) {
    let class = if stability == Stability::Unstable { "caution" } else { "" };
    page.leaf("td", &[("class", class)], stability.as_str());
}

fn absent_cells(page: &mut Writer, point: &PointSection) {
    page.leaf("td", &[("class", "n caution")], "absent");
    page.leaf("td", &[("class", "quiet")], "—");
    page.leaf("td", &[("class", "n")], &format!("0/{}", point.planned));
    page.leaf("td", &[("class", "n")], &point.excluded.to_string());
    for class in ["n quiet", "quiet", "quiet"] {
        page.leaf("td", &[("class", class)], "—");
    }
}

/// Writes the remarks on a case, each folded one with the texts that it stands for.
pub(super) fn write_remarks(page: &mut Writer, budget: &Budget<'_>, case: &CaseSection) {
    let folded = fold::fold_case(case);
    if folded.is_empty() {
        return;
    }
    page.element("ul", &[("class", "remarks")], |page| {
        let mut shown = 0;
        for remark in folded.iter().take(MAX_REMARKS) {
            if !budget.is_spent(page) {
                page.element("li", &[], |page| write_remark(page, remark));
                shown += 1;
            }
        }
        if let Some(more) = fold::left_out(&folded, shown) {
            page.leaf("li", &[], &more);
        }
    });
}

fn write_remark(page: &mut Writer, remark: &FoldedRemark) {
    if remark.full_texts.is_empty() {
        page.prose(remark.report_text());
        return;
    }
    page.element("details", &[], |page| {
        page.element("summary", &[], |page| page.prose(remark.report_text()));
        page.element("ul", &[], |page| {
            for text in remark.full_texts.iter().take(MAX_REMARKS) {
                page.element("li", &[], |page| page.prose(text));
            }
            let more = remark.full_texts.len().saturating_sub(MAX_REMARKS);
            if more > 0 {
                page.leaf("li", &[], &format!("and {more} more; the Summary has all of them"));
            }
        });
    });
}
