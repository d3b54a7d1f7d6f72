//! The table of a serving case: a row for each load in the plan's order, each number with its interval beneath it and a link to its
//! lineage.

use super::panel::{Panels, number_link};
use super::table::{Budget, group_rows, header, write_remarks};
use crate::render::html::table::scrolling_table;
use crate::render::html::writer::Writer;
use crate::render::html::{FIGURE_SPACE, PUNCTUATION_SPACE};
use crate::render::number::grouped;
use crate::render::text::{align_points, counted};
use crate::run::model::Report;
use crate::run::model::breakdown::Breakdown;
use crate::run::model::load::Load;
use crate::run::model::section::{CaseSection, PointSection, Row};
use crate::run::model::serving::{self, Column, is_certain};

/// Maximum number of numbers in serving tables with a lineage panel each; beyond it, the numbers of a load share one panel.
const MAX_NUMBER_PANELS: usize = 900;

/// Maximum number of numbers of a report for which the page has all metrics, not only those of the tables.
const MAX_ALL_METRICS: usize = 1_100;

/// The level of detail of a report's lineage panels, decided once for all its tables.
#[derive(Clone, Copy)]
pub(super) struct Detail {
    number_panels: bool,
    all_metrics: bool,
}

impl Detail {
    pub(super) fn for_report(report: &Report) -> Self {
        let cases = || report.cases.iter().filter(|case| case.serving.is_some());
        let in_tables: usize = cases().map(|case| case.points.len() * serving::columns(case).len()).sum();
        let all: usize = cases().flat_map(|case| &case.points).map(|point| point.rows.len()).sum();
        Self { number_panels: in_tables <= MAX_NUMBER_PANELS, all_metrics: all <= MAX_ALL_METRICS }
    }

    /// Returns the columns of a case: in a long table without those of the lowest rank, so that all its rows fit the page.
    fn columns(self, case: &CaseSection) -> Vec<&'static Column> {
        serving::columns(case).into_iter().filter(|column| self.number_panels || column.rank > Some(0)).collect()
    }
}

pub(super) fn serving_table(
    page: &mut Writer,
    budget: &mut Budget<'_>,
    (place, case): (usize, &CaseSection),
    report: &Report,
    detail: Detail,
) {
    page.leaf("h3", &[], case.case_id.as_str());
    if let Some(work) = &case.serving {
        let slos = if work.slos.is_empty() { String::new() } else { format!(" SLOs: {}.", work.slo_text()) };
        page.leaf("p", &[("class", "quiet work")], &format!("{}; {}; {}.{slos}", work.summary(), work.arrivals, work.lengths));
    }
    let columns = detail.columns(case);
    let attributes = [("class", "scroll"), ("tabindex", "0"), ("role", "region"), ("aria-label", case.case_id.as_str())];
    page.element("div", &attributes, |page| {
        page.element("table", &[("class", "loads")], |page| {
            page.element("thead", &[], |page| head(page, &columns));
            page.element("tbody", &[], |page| rows(page, budget, (place, case), &columns, report, detail));
        });
    });
    write_remarks(page, budget, case);
    Breakdown::all_of(case).for_each(|table| breakdown(page, &table));
    other_metrics(page, budget, case, &columns, report, detail);
}

fn head(page: &mut Writer, columns: &[&Column]) {
    page.element("tr", &[], |page| {
        page.leaf("th", &[("scope", "col")], "load");
        for title in ["trials", "ok", "failed"] {
            page.leaf("th", &[("scope", "col"), ("class", "n")], title);
        }
        // Before the numbers, because a wide table is cut off on the right until it is scrolled.
        page.leaf("th", &[("scope", "col")], "SLOs");
        for column in columns {
            page.element("th", &[("scope", "col"), ("class", "n")], |page| {
                match column.definition().long_title {
                    "" => page.text(&column.title()),
                    long_title => page.leaf("abbr", &[("title", long_title)], &column.title()),
                }
                if !serving::names_unit(column) {
                    page.leaf("span", &[("class", "unit")], column.definition().unit.as_str());
                }
            });
        }
    });
}

fn rows(
    page: &mut Writer,
    budget: &mut Budget<'_>,
    (place, case): (usize, &CaseSection),
    columns: &[&Column],
    report: &Report,
    detail: Detail,
) {
    let aligned: Vec<Vec<String>> = columns.iter().map(|column| aligned_numbers(case, column)).collect();
    for (index, point) in case.points.iter().enumerate() {
        if budget.is_spent(page) {
            budget.left_out += 1;
            continue;
        }
        let shared = (!detail.number_panels).then(|| format!("p-{place}-{index}"));
        page.element("tr", &[], |page| {
            first_cells(page, point, columns, shared.as_deref());
            for (column, texts) in columns.iter().zip(&aligned) {
                let padded = texts.get(index).map_or("", String::as_str);
                cell(page, point, column, padded, detail);
            }
        });
        page.newline();
        write_panels(budget.panels, report, case, point, columns, shared.as_deref(), budget.full);
    }
}

fn write_panels(
    panels: &mut Panels,
    report: &Report,
    case: &CaseSection,
    point: &PointSection,
    columns: &[&Column],
    shared: Option<&str>,
    full: bool,
) {
    if let Some(id) = shared {
        panels.write_load(id, case, point, columns);
        return;
    }
    for row in columns.iter().filter_map(|column| point.row(column.text)) {
        if let Ok(measured) = &row.measured {
            panels.write(report, case, point, row, measured, full);
        }
    }
}

/// Returns the numbers of a column, aligned at their decimal points.
fn aligned_numbers(case: &CaseSection, column: &Column) -> Vec<String> {
    let text = |point: &PointSection| point.measured(column.text).map_or_else(String::new, |found| found.median_text.clone());
    align_points(&case.points.iter().map(text).collect::<Vec<_>>(), FIGURE_SPACE, PUNCTUATION_SPACE)
}

fn first_cells(page: &mut Writer, point: &PointSection, columns: &[&Column], shared: Option<&str>) {
    let load = point.serving.as_ref();
    page.element("th", &[("scope", "row")], |page| match shared {
        Some(id) => page.leaf("a", &[("class", "number"), ("href", &format!("#{id}"))], &point.label),
        None => page.text(&point.label),
    });
    let is_certain = is_certain(point, columns);
    let trials = if is_certain { "n" } else { "n caution" };
    page.element("td", &[("class", trials)], |page| {
        page.text(&format!("{}/{}", point.counted, point.planned));
        if point.counted > 0 && !is_certain {
            page.leaf("small", &[("class", "caution")], "see below");
        }
    });
    page.leaf("td", &[("class", "n")], &load.map_or_else(|| "—".to_owned(), |load| grouped(load.ok)));
    let failed = load.map(Load::failed);
    let class = if failed.unwrap_or(0) > 0 { "n caution" } else { "n" };
    page.leaf("td", &[("class", class)], &failed.map_or_else(|| "—".to_owned(), grouped));
    verdict_cell(page, point);
}

/// Writes a number's cell. The padding that aligns the number is outside its link, so that it is not underlined.
fn cell(page: &mut Writer, point: &PointSection, column: &Column, padded: &str, detail: Detail) {
    match point.row(column.text).map(|row| &row.measured) {
        Some(Ok(found)) => page.element("td", &[("class", "n")], |page| {
            if detail.number_panels {
                number_link(page, found);
            } else {
                page.text(&found.median_text);
            }
            page.text(padded.get(found.median_text.len()..).unwrap_or_default());
            let interval = found.interval.as_ref().map_or("no interval", |ends| ends.text.as_str());
            page.leaf("small", &[], interval);
            if let Some(twin) = serving::twin(point, column) {
                page.element("small", &[("class", "twin")], |page| with_failures(page, twin, detail));
            }
        }),
        Some(Err(_)) | None => page.leaf("td", &[("class", "n caution")], "absent"),
    }
}

fn with_failures(page: &mut Writer, twin: &Row, detail: Detail) {
    match &twin.measured {
        Ok(found) if detail.number_panels => {
            page.text("with failures ");
            number_link(page, found);
        }
        Ok(found) => page.text(&format!("with failures {}", found.median_text)),
        Err(_) => page.leaf("span", &[("class", "caution")], "with failures absent"),
    }
}

/// Writes whether a load met the SLOs.
fn verdict_cell(page: &mut Writer, point: &PointSection) {
    match point.serving.as_ref().and_then(|load| load.slo_met) {
        Some(true) => page.leaf("td", &[], "met"),
        Some(false) => page.leaf("td", &[("class", "caution")], "missed"),
        None => page.leaf("td", &[("class", "quiet")], "—"),
    }
}

/// Writes TTFT by groups of requests.
fn breakdown(page: &mut Writer, table: &Breakdown<'_>) {
    page.leaf("h4", &[], &format!("{}, p50 / p99 in ms", table.title));
    let columns: Vec<(&str, bool)> =
        std::iter::once(("load", false)).chain(table.groups.iter().map(|group| (*group, true))).collect();
    scrolling_table(page, "loads", &columns, |page| {
        for (label, cells) in &table.loads {
            page.element("tr", &[], |page| {
                page.leaf("th", &[("scope", "row")], label);
                for cell in cells {
                    page.element("td", &[("class", "n")], |page| match cell {
                        Some(cell) => {
                            page.text(&format!("{} / {}", cell.p50, cell.p99));
                            page.leaf("small", &[], &format!("n = {}", cell.requests));
                        }
                        None => page.text("—"),
                    });
                }
            });
        }
    });
}

/// Writes all metrics that are not columns, folded.
fn other_metrics(
    page: &mut Writer,
    budget: &mut Budget<'_>,
    case: &CaseSection,
    columns: &[&Column],
    report: &Report,
    detail: Detail,
) {
    let is_column = |metric: &str| columns.iter().any(|column| column.text == metric);
    let groups: Vec<_> = case.groups().into_iter().filter(|group| !is_column(group.metric)).collect();
    // If no trial counts, the table has given the reason: a list of metrics absent for the same reason is no help.
    let has_numbers = case.points.iter().flat_map(|point| &point.rows).any(|row| row.measured.is_ok());
    if groups.is_empty() || !has_numbers {
        return;
    }
    let count = counted(groups.len() as u64, "more metric");
    if !detail.all_metrics {
        let text = format!("{count} of each load left out to keep this page small; numbers.json has all of them.");
        page.leaf("p", &[("class", "quiet")], &text);
        return;
    }
    page.element("details", &[], |page| {
        page.leaf("summary", &[], &format!("{count} of these loads"));
        let label = format!("{}, more metrics", case.case_id);
        page.element("div", &[("class", "scroll"), ("tabindex", "0"), ("role", "region"), ("aria-label", &label)], |page| {
            page.element("table", &[("class", "results")], |page| {
                page.element("thead", &[], header);
                for group in &groups {
                    page.element("tbody", &[], |page| group_rows(page, budget, case, group, report));
                }
            });
        });
    });
}
