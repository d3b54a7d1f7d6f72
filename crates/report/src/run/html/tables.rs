//! The tables of results of all cases, in the plan's order, within the size of the page.

use super::panel::Panels;
use super::serving_table::{Detail, serving_table};
use super::table::{Budget, table};
use crate::render::html::writer::Writer;
use crate::render::text::counted;
use crate::run::model::Report;
use crate::run::model::section::CaseSection;
use crate::run::model::serving::columns;

/// Maximum number of rows for which each lineage panel spells out every step; beyond it, panels link to the shared steps.
const MAX_FULL_PANELS: usize = 150;

/// Writes all tables to `page` and the lineage panels of their numbers to `panels`, in about `room` bytes together.
pub(super) fn tables(page: &mut Writer, panels: &mut Panels, report: &Report, room: usize) {
    let in_tables = |case: &&CaseSection| match case.serving {
        Some(_) => case.points.len() * columns(case).len(),
        None => case.points.iter().map(|point| point.rows.len()).sum(),
    };
    let full = report.cases.iter().map(|case| in_tables(&case)).sum::<usize>() <= MAX_FULL_PANELS;
    let detail = Detail::for_report(report);
    let mut budget = Budget::new(page.len() + room, panels, full);
    for (place, case) in report.cases.iter().enumerate() {
        match case.serving {
            Some(_) => serving_table(page, &mut budget, (place, case), report, detail),
            None => table(page, &mut budget, case, report),
        }
    }
    let left_out = budget.left_out;
    if left_out > 0 {
        let more = counted(left_out as u64, "more row");
        let text = format!("{more} left out to keep this page small; numbers.json has all of them.");
        page.leaf("p", &[("class", "quiet")], &text);
    }
    if report.cases.is_empty() {
        page.leaf("p", &[("class", "quiet")], "The plan has no cases.");
    }
}
