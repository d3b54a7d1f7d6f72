//! The tables of a history's page.

use crate::history::model::{Run, Series};
use crate::history::phrases;
use crate::render::html::table::scrolling_table;
use crate::render::html::writer::Writer;
use crate::render::number::{probability, significant};
use crate::render::text::{counted, short_commit};

/// Maximum number of changes that are listed: the latest ones.
const MAX_CHANGES: usize = 100;

/// Maximum number of runs that are listed: the newest ones.
const MAX_RUNS: usize = 200;

/// The text for an absent value.
const ABSENT: &str = "—";

/// Writes the changes, the latest first, with the numbers that the picture shows.
pub(crate) fn changes(page: &mut Writer, series: &Series) {
    let changes = series.all_changes();
    if changes.is_empty() {
        return;
    }
    let unit = &series.unit;
    let (before, after) = (format!("before, {unit}"), format!("after, {unit}"));
    // The most important columns come first: a phone shows them without scrolling.
    let heads = [("", false), ("from run", false), ("day", false), ("change, interval", true), ("", false)];
    let heads =
        [&heads[..], &[(before.as_str(), true), (&after, true), ("p", true), ("environment", false), ("commit", false)]].concat();
    scrolling_table(page, "followed", &heads, |page| {
        for (number, change) in changes.iter().enumerate().rev().take(MAX_CHANGES) {
            let Some(run) = series.runs.get(change.index) else { continue };
            page.element("tr", &[], |page| {
                page.leaf("th", &[("scope", "row")], &(number + 1).to_string());
                run_cells(page, run);
                page.element("td", &[("class", "n")], |page| {
                    page.text(&phrases::change_text(change).unwrap_or_else(|| ABSENT.to_owned()));
                    page.leaf("small", &[], &phrases::interval(change));
                });
                let judged = phrases::judgement(series.better, change);
                page.leaf("td", &[("class", if judged == Some("worse") { "caution" } else { "" })], judged.unwrap_or(ABSENT));
                for value in
                    [change.before, change.after].map(|value| significant(value, None)).into_iter().chain([probability(change.p)])
                {
                    page.leaf("td", &[("class", "n")], &value);
                }
                environment(page, run);
                commit(page, run);
            });
        }
    });
    if changes.len() > MAX_CHANGES {
        let text = format!("The latest {MAX_CHANGES} of {}.", counted(changes.len() as u64, "change"));
        page.leaf("p", &[("class", "note quiet")], &text);
    }
}

/// Writes the runs, newest first, folded.
pub(crate) fn runs(page: &mut Writer, series: &Series) {
    let all = series.runs.len();
    page.element("details", &[], |page| {
        let shown = if all > MAX_RUNS { format!("The newest {MAX_RUNS} of ") } else { String::new() };
        page.leaf("summary", &[], &format!("{shown}{}, as a table", counted(all as u64, "run")));
        let value = format!("value, {}", series.unit);
        let heads =
            [("run", false), ("day", false), (value.as_str(), true), ("environment", false), ("commit", false), ("row", false)];
        scrolling_table(page, "followed", &heads, |page| {
            for run in series.runs.iter().rev().take(MAX_RUNS) {
                page.element("tr", &[], |page| {
                    run_cells(page, run);
                    page.leaf("td", &[("class", "n")], &significant(run.value, None));
                    environment(page, run);
                    commit(page, run);
                    page.element("td", &[], |page| match &run.address {
                        Some(address) => page.leaf("code", &[], address.row()),
                        None => page.text(ABSENT),
                    });
                });
            }
        });
        if let Some(address) = series.runs.iter().rev().find_map(|run| run.address.as_ref()) {
            let text = format!(
                "A value's address is `<run>/{}/<row>/{}`; `assay trace` walks it back.",
                address.table(),
                address.column()
            );
            page.element("p", &[("class", "note quiet")], |page| page.prose(&text));
        }
    });
}

/// Writes a run and its day.
fn run_cells(page: &mut Writer, run: &Run) {
    page.leaf("td", &[], &run.id);
    page.leaf("td", &[], &phrases::date(run).unwrap_or_else(|| ABSENT.to_owned()));
}

fn commit(page: &mut Writer, run: &Run) {
    page.element("td", &[], |page| match &run.commit {
        Some(commit) => page.leaf("code", &[], &short_commit(commit)),
        None => page.text(ABSENT),
    });
}

fn environment(page: &mut Writer, run: &Run) {
    page.leaf(
        "td",
        &[],
        &phrases::environment_difference(run).map_or_else(|| ABSENT.to_owned(), |what| format!("the {what} changed")),
    );
}
