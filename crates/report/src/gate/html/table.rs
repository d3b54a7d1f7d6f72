//! The tables of a verdict's page.

use std::collections::BTreeSet;

use super::figure::link_to_origins;
use crate::gate::model::acknowledgements::{AcknowledgementLine, EffectKind, MAX_ACCEPTED};
use crate::gate::model::row::{ABSENT, Row};
use crate::gate::model::{EarlierLine, Report};
use crate::render::html::MAX_PAGE;
use crate::render::html::table::scrolling_table;
use crate::render::html::writer::Writer;
use crate::render::text::counted;

/// The columns of a table of metrics, and whether each holds numbers.
const COLUMNS: [(&str, bool); 14] = [
    ("verdict", false),
    ("metric", false),
    ("at", false),
    ("baseline", true),
    ("candidate", true),
    ("change, interval", true),
    ("ratio, interval", true),
    ("ratio of medians", true),
    ("size", false),
    ("adjusted p", true),
    ("unpaired p", true),
    ("floor", true),
    ("would find", true),
    ("pairs", true),
];

/// The number of these columns, for a row that is a sentence.
const ALL_COLUMNS: &str = "14";

/// A row with its place among all metrics of the report, which gives its picture's id.
pub(crate) type PlacedRow<'a> = (usize, &'a Row);

/// Returns the id, within the page, of a metric's picture.
pub(crate) fn picture_id(place: usize) -> String {
    format!("m-{place}")
}

/// Writes a table of metrics within the page's size limit; rows whose pictures are in `drawn` link to them.
pub(crate) fn metrics(page: &mut Writer, rows: &[PlacedRow<'_>], drawn: &BTreeSet<usize>, reserved: usize) {
    let mut shown = 0;
    scrolling_table(page, "judged", &COLUMNS, |page| {
        for (place, row) in rows {
            if page.len() + reserved < MAX_PAGE {
                page.newline();
                page.element("tr", &[], |page| metric(page, *place, row, drawn));
                if !row.reason.is_empty() {
                    let reason = |page: &mut Writer| {
                        page.element("td", &[("colspan", ALL_COLUMNS)], |page| page.prose(&row.reason));
                    };
                    page.element("tr", &[("class", "why")], reason);
                }
                shown += 1;
            }
        }
    });
    if rows.len() > shown {
        let text = format!(
            "{} left out to keep this page small; the verdict has all of them.",
            counted((rows.len() - shown) as u64, "metric")
        );
        page.leaf("p", &[("class", "quiet")], &text);
    }
}

fn metric(page: &mut Writer, place: usize, row: &Row, drawn: &BTreeSet<usize>) {
    let class = if row.outcome.is_caution() { "caution" } else { "" };
    page.element("th", &[("scope", "row"), ("class", class)], |page| page.leaf("strong", &[], row.outcome.as_str()));
    page.element("td", &[], |page| {
        if drawn.contains(&place) {
            page.leaf("a", &[("href", &format!("#{}", picture_id(place)))], &row.metric);
        } else {
            page.text(&row.metric);
        }
    });
    page.leaf("td", &[], &row.place());
    // The lineage is beside the picture.
    let from = Some(place).filter(|place| drawn.contains(place) && !row.origins.is_empty());
    for median in [&row.baseline, &row.candidate] {
        linked_number(page, from, &row.with_unit(median), "");
    }
    if let Some(change) = &row.change {
        linked_number(page, from, &change.change, &change.interval);
        number(page, &change.ratio, &change.ratio_interval);
        number(page, &change.ratio_of_medians, "");
    } else {
        number(page, "not comparable", "");
        number(page, ABSENT, "");
        number(page, ABSENT, "");
    }
    page.leaf("td", &[], row.magnitude_text());
    number(page, &row.p, "");
    number(page, &row.unpaired, "");
    number(page, &row.floor, row.floor_source());
    number(page, &row.detectable, "");
    number(page, &row.pairs(), "");
}

fn number(page: &mut Writer, value: &str, beneath: &str) {
    linked_number(page, None, value, beneath);
}

/// Writes a number that links to its origins, if the page has them.
fn linked_number(page: &mut Writer, from: Option<usize>, value: &str, beneath: &str) {
    page.element("td", &[("class", "n")], |page| {
        match from {
            Some(place) => link_to_origins(page, place, value),
            None => page.text(value),
        }
        if !beneath.is_empty() {
            page.leaf("small", &[], beneath);
        }
    });
}

/// Writes the acknowledgements, and the effect of each.
pub(crate) fn acknowledgements(page: &mut Writer, accepted: &[AcknowledgementLine]) {
    let columns =
        ["", "metric", "at", "accepts", "what it did", "of", "why", "approved by", "until", "file"].map(|title| (title, false));
    scrolling_table(page, "judged", &columns, |page| {
        for one in accepted.iter().take(MAX_ACCEPTED) {
            page.element("tr", &[], |page| {
                let class = if matches!(one.kind, EffectKind::TooLarge | EffectKind::Expired) { "caution" } else { "" };
                page.element("th", &[("scope", "row"), ("class", class)], |page| page.leaf("strong", &[], one.kind.as_str()));
                for text in [&one.metric, &one.place, &one.accepts] {
                    page.leaf("td", &[], text);
                }
                page.element("td", &[], |page| page.prose(&one.effect));
                for text in [&one.subject, &one.reason, &one.approver, &one.expires, &one.path] {
                    page.leaf("td", &[], text);
                }
            });
        }
    });
    if let Some(more) = accepted.len().checked_sub(MAX_ACCEPTED).filter(|more| *more > 0) {
        let text = format!("And {}; the verdict has all of them.", counted(more as u64, "more acknowledgement"));
        page.leaf("p", &[("class", "quiet")], &text);
    }
}

/// Maximum number of earlier verdicts on a page: the latest ones. They take a fifth of a page.
const MAX_EARLIER: usize = 1_000;

/// Writes the earlier verdicts of the pull request.
pub(crate) fn earlier_verdicts(page: &mut Writer, report: &Report) {
    let left_out = report.earlier.len().saturating_sub(MAX_EARLIER);
    if left_out > 0 {
        let text = format!("{} before these; the store has all of them.", counted(left_out as u64, "verdict"));
        page.leaf("p", &[("class", "quiet")], &text);
    }
    let columns = ["number", "outcome", "gate", "look", "commit", "judged on", "verdict"].map(|title| (title, false));
    let shown = report.earlier.iter().skip(left_out);
    scrolling_table(page, "judged", &columns, |page| {
        shown.for_each(|one| page.element("tr", &[], |page| earlier_line(page, one)));
    });
}

fn earlier_line(page: &mut Writer, one: &EarlierLine) {
    page.leaf("th", &[("scope", "row")], &one.number.to_string());
    page.leaf("td", &[], one.outcome);
    page.leaf("td", &[], &one.gate);
    page.leaf("td", &[], &one.look.to_string());
    page.element("td", &[], |page| page.leaf("code", &[], &one.commit));
    page.leaf("td", &[], &one.judged_on);
    page.element("td", &[], |page| page.leaf("code", &[("class", "digest")], &one.digest));
}
