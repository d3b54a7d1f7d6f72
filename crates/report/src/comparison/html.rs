//! Two pieces of foreign evidence as one HTML page: no scripts, no requests.

use std::collections::BTreeMap;

use assay_manifest::BetterDirection;

use super::{ComparedEvidence, ComparedMedian, ComparedNumber, ForeignComparison, IntervalOfMedian};
use crate::render::command::{shell_word, store_option};
use crate::render::html::table::scrolling_table;
use crate::render::html::writer::Writer;
use crate::render::html::{MAX_PAGE, Typeface, command_line, head, pairs, section, theme};
use crate::render::number::{percent, significant};
use crate::render::text::{clean, counted};

/// The style of all pages, and the additions for a comparison.
const STYLE: &str = concat!(include_str!("../render/html/style.css"), include_str!("style.css"));

/// The names of the two sides.
const SIDES: [&str; 2] = ["A", "B"];

/// The most sentences about what cannot be compared.
const MAX_NOT_COMPARABLE: usize = 200;

/// The most files of a side that are listed.
const MAX_FILES: usize = 50;

/// The width of the picture of two intervals, in its own units.
const PICTURE: f64 = 160.0;

/// The text for an absent value.
const ABSENT: &str = "—";

impl ForeignComparison<'_> {
    /// Returns the comparison as a self-contained HTML page below two megabytes. Omissions are counted on the page.
    pub fn html(&self) -> String {
        let mut page = Writer::doctype();
        page.element("html", &[("lang", "en")], |page| {
            page.element("head", &[], |page| head(page, &format!("Foreign evidence: {}", self.title()), STYLE));
            page.element("body", &[], |page| page.element("main", &[], |page| self.main(page)));
        });
        page.newline();
        page.finish()
    }

    fn title(&self) -> String {
        let [a, b] = self.sides.each_ref().map(|side| clean(side.name));
        format!("{a} (A) and {b} (B)")
    }

    fn main(&self, page: &mut Writer) {
        page.element("header", &[], |page| {
            theme(page);
            page.element("p", &[("class", "eyebrow")], |page| page.leaf("strong", &[], Self::ABOUT));
            page.leaf("h1", &[], &self.title());
            page.element("ul", &[("class", "sentences")], |page| {
                for sentence in self.sentences() {
                    page.element("li", &[], |page| page.prose(&sentence));
                }
            });
        });
        if !self.medians.is_empty() {
            section(page, "medians", "Medians of samples", |page| self.medians(page));
        }
        if !self.numbers.is_empty() {
            section(page, "numbers", "Numbers that both state", |page| self.numbers(page));
        }
        if !self.not_comparable.is_empty() {
            section(page, "not-comparable", "Not comparable", |page| self.not_comparable(page));
        }
        if !self.definitions.is_empty() {
            section(page, "definitions", "How the metrics are defined", |page| self.definitions(page));
        }
        section(page, "evidence", "Evidence", |page| self.evidence(page));
    }

    /// Returns the sentences at the top: how much both have in common, and what may make them differ.
    fn sentences(&self) -> Vec<String> {
        let [numbers, medians] = [self.numbers.len(), self.medians.len()];
        let mut common = vec![format!("Both state {}", counted(numbers as u64, "number"))];
        if medians > 0 {
            common.push(format!("have samples of {}", counted(medians as u64, "metric")));
        }
        let mut sentences = vec![format!(
            "{}. It is no verdict: `assay gate --foreign` judges several invocations of each side.",
            common.join(" and ")
        )];
        sentences.extend(self.remarks.iter().map(|remark| capital(&clean(remark))));
        sentences
    }

    fn medians(&self, page: &mut Writer) {
        let columns =
            [("metric", false), ("A", true), ("B", true), ("A above, B below", false), ("B against A", true), ("better", false)];
        let mut left_out = 0_u64;
        for (labels, medians) in by_labels(&self.medians, |median| median.labels) {
            if !heads_labels(page, labels, MAX_PAGE / 4) {
                left_out += medians.len() as u64;
                continue;
            }
            scrolling_table(page, "compared", &columns, |page| {
                for median in medians {
                    if page.len() > MAX_PAGE / 4 {
                        left_out += 1;
                    } else {
                        page.element("tr", &[], |page| median_row(page, median));
                    }
                }
            });
        }
        omitted(page, left_out, "metric");
        page.element("ul", &[("class", "remarks")], |page| {
            self.interval_notes.iter().for_each(|note| page.leaf("li", &[], &clean(note)));
        });
    }

    fn numbers(&self, page: &mut Writer) {
        let columns =
            [("metric", false), ("statistic", false), ("A", true), ("B", true), ("B against A", true), ("better", false)];
        let mut left_out = 0_u64;
        for (labels, numbers) in by_labels(&self.numbers, |number| number.labels) {
            if !heads_labels(page, labels, MAX_PAGE / 2) {
                left_out += numbers.len() as u64;
                continue;
            }
            scrolling_table(page, "compared", &columns, |page| {
                let mut before = "";
                for number in numbers {
                    if page.len() > MAX_PAGE / 2 {
                        left_out += 1;
                        continue;
                    }
                    let repeats = before == number.metric;
                    before = number.metric;
                    page.element("tr", &[], |page| number_row(page, number, repeats));
                }
            });
        }
        omitted(page, left_out, "number");
        page.leaf(
            "p",
            &[("class", "note quiet")],
            "No intervals: these are numbers of one run each, as its tool states them. A change is that of two numbers, and may be chance.",
        );
    }

    fn not_comparable(&self, page: &mut Writer) {
        page.element("ul", &[("class", "plain")], |page| {
            for sentence in self.not_comparable.iter().take(MAX_NOT_COMPARABLE) {
                page.element("li", &[], |page| page.prose(&clean(sentence)));
            }
        });
        omitted(page, self.not_comparable.len().saturating_sub(MAX_NOT_COMPARABLE) as u64, "sentence");
    }

    fn definitions(&self, page: &mut Writer) {
        let columns = [("metric", false), ("definition of the tool", false), ("in Assay", false), ("difference", false)];
        scrolling_table(page, "compared definitions", &columns, |page| {
            for definition in &self.definitions {
                let (near, difference) = match definition.near {
                    None => (ABSENT, "Assay has no such metric"),
                    Some((near, "")) => (near, "none"),
                    Some((near, difference)) => (near, difference),
                };
                page.element("tr", &[], |page| {
                    page.element("th", &[("scope", "row")], |page| page.leaf("code", &[], definition.metric));
                    page.leaf("td", &[], definition.definition);
                    page.element("td", &[], |page| page.leaf("code", &[], near));
                    page.element("td", &[], |page| page.prose(difference));
                });
            }
        });
    }

    fn evidence(&self, page: &mut Writer) {
        for (name, side) in SIDES.into_iter().zip(&self.sides) {
            page.leaf("h3", &[], &format!("{name}: {}", clean(side.name)));
            side_pairs(page, side);
        }
        let store = store_option(self.store);
        for side in &self.sides {
            command_line(page, &format!("assay verify {}{store}", shell_word(&side.id.to_string())));
        }
        let [a, b] = self.sides.each_ref().map(|side| shell_word(&side.id.to_string()));
        command_line(page, &format!("assay compare {a} {b}{store}"));
    }
}

fn side_pairs(page: &mut Writer, side: &ComparedEvidence<'_>) {
    let signer = clean(side.signer);
    let signer = if side.established { signer } else { format!("{signer}, which no trust policy names") };
    let reading = if side.absent.is_empty() {
        "all files, and each number is equal".to_owned()
    } else {
        let absent = side.absent.iter().take(MAX_FILES).map(|path| clean(path)).collect::<Vec<_>>().join(", ");
        format!("nothing: {} absent ({absent})", counted(side.absent.len() as u64, "file"))
    };
    let tool = clean(&side.origin);
    let (id, imported) = (side.id.to_string(), side.imported_at.to_seconds());
    let mut files: Vec<String> =
        side.files.iter().take(MAX_FILES).map(|(path, digest)| format!("{} {}", clean(path), digest.short())).collect();
    if side.files.len() > MAX_FILES {
        files.push(format!("and {} more", side.files.len() - MAX_FILES));
    }
    let files = files.join(", ");
    pairs(
        page,
        [
            ("measured by", tool.as_str(), Typeface::Text),
            ("imported", imported.as_str(), Typeface::Text),
            ("signed by", signer.as_str(), Typeface::Text),
            ("read again", reading.as_str(), Typeface::Text),
            ("files", files.as_str(), Typeface::Text),
            ("id", id.as_str(), Typeface::Code),
        ],
    );
}

/// Groups items by their labels, in the order of the first item of each group.
fn by_labels<'i, 'l, T>(
    items: &'i [T],
    labels: impl Fn(&'i T) -> &'l BTreeMap<String, String>,
) -> Vec<(&'l BTreeMap<String, String>, Vec<&'i T>)> {
    let mut places: BTreeMap<&BTreeMap<String, String>, usize> = BTreeMap::new();
    let mut groups: Vec<(&BTreeMap<String, String>, Vec<&T>)> = Vec::new();
    for item in items {
        let place = *places.entry(labels(item)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, group)) => group.push(item),
            None => groups.push((labels(item), vec![item])),
        }
    }
    groups
}

fn labels_text(labels: &BTreeMap<String, String>) -> String {
    clean(&labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", "))
}

fn metric_cell(page: &mut Writer, metric: &str, unit: &str, repeats: bool) {
    page.element("th", &[("scope", "row"), ("class", if repeats { "repeated" } else { "" })], |page| {
        page.leaf("code", &[], &clean(metric));
        if !unit.is_empty() {
            page.leaf("small", &[], &format!(" {}", clean(unit)));
        }
    });
}

fn number_row(page: &mut Writer, number: &ComparedNumber<'_>, repeats: bool) {
    let [a, b] = number.values;
    metric_cell(page, number.metric, number.unit, repeats);
    page.leaf("td", &[], &clean(number.statistic));
    for value in [a, b] {
        page.leaf("td", &[("class", "n")], &significant(value, None));
    }
    page.leaf("td", &[("class", "n")], &change(a, b));
    page.leaf("td", &[("class", "quiet")], better(number.better));
}

fn median_row(page: &mut Writer, median: &ComparedMedian<'_>) {
    metric_cell(page, median.metric, median.unit, false);
    for side in &median.medians {
        page.element("td", &[("class", "n")], |page| match side {
            Ok(found) => {
                let ends = Some((found.low, found.high));
                page.text(&significant(found.median, ends));
                let [low, high] = [found.low, found.high].map(|end| significant(end, ends));
                page.leaf("small", &[], &format!("{low} to {high}, {:.0} %", found.level * 100.0));
            }
            Err(why) => {
                page.text(ABSENT);
                page.leaf("small", &[], &clean(why));
            }
        });
    }
    page.element("td", &[("class", "picture")], |page| picture(page, &median.medians));
    let change = match &median.medians {
        [Ok(a), Ok(b)] => change(a.median, b.median),
        _ => ABSENT.to_owned(),
    };
    page.leaf("td", &[("class", "n")], &change);
    page.leaf("td", &[("class", "quiet")], better(median.better));
}

/// Draws the intervals of both medians on one scale, A above B.
fn picture(page: &mut Writer, medians: &[Result<IntervalOfMedian, String>; 2]) {
    let found: Vec<&IntervalOfMedian> = medians.iter().flatten().collect();
    let low = found.iter().map(|side| side.low).fold(f64::INFINITY, f64::min);
    let high = found.iter().map(|side| side.high).fold(f64::NEG_INFINITY, f64::max);
    if found.is_empty() || !(high - low).is_finite() {
        return;
    }
    let place = |value: f64| if high > low { 4.0 + (value - low) / (high - low) * (PICTURE - 8.0) } else { PICTURE / 2.0 };
    let (width, height) = (format!("{PICTURE}"), "26");
    let attributes = [
        ("role", "img"),
        ("aria-label", "The intervals of A and B on one scale"),
        ("viewBox", "0 0 160 26"),
        ("width", width.as_str()),
        ("height", height),
    ];
    page.element("svg", &attributes, |page| {
        for (row, side) in medians.iter().enumerate() {
            let Ok(side) = side else { continue };
            let y = 7.0 + 12.0 * row as f64;
            let [x1, x2, middle] = [side.low, side.high, side.median].map(place);
            let class = if row == 0 { "side a" } else { "side b" };
            page.element("g", &[("class", class)], |page| {
                let bar = format!("M{x1:.1} {y:.1}H{:.1}", x2.max(x1 + 0.5));
                page.shape("path", &[("class", "span"), ("d", &bar)]);
                page.shape("path", &[("class", "middle"), ("d", &format!("M{middle:.1} {:.1}V{:.1}", y - 4.5, y + 4.5))]);
            });
        }
    });
}

/// Returns the change from A to B in percent; a dash if it has no ratio.
fn change(a: f64, b: f64) -> String {
    let share = b / a - 1.0;
    if share == 0.0 {
        "0 %".to_owned()
    } else if a > 0.0 && share.is_finite() {
        format!("{}{}", if share >= 0.0 { "+" } else { "" }, percent(share))
    } else {
        ABSENT.to_owned()
    }
}

fn better(direction: Option<BetterDirection>) -> &'static str {
    match direction {
        Some(BetterDirection::Lower) => "lower",
        Some(BetterDirection::Higher) => "higher",
        None => "not stated",
    }
}

fn omitted(page: &mut Writer, left_out: u64, what: &str) {
    if left_out > 0 {
        page.leaf("p", &[("class", "quiet")], &format!("Left out to keep this page small: {}.", counted(left_out, what)));
    }
}

fn capital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    let begin: String = letters.next().map(|first| first.to_uppercase().collect()).unwrap_or_default();
    let end = if sentence.ends_with('.') { "" } else { "." };
    format!("{begin}{}{end}", letters.as_str())
}

/// Writes the labels above their table, unless all of the page have the same ones; returns false if the page has no room for the table.
fn heads_labels(page: &mut Writer, labels: &BTreeMap<String, String>, limit: usize) -> bool {
    if page.len() > limit {
        return false;
    }
    if !labels.is_empty() {
        page.leaf("h3", &[], &labels_text(labels));
    }
    true
}
