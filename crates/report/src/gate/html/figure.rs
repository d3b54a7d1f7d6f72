//! Pictures of a judged metric: the trials of both sides on one axis, and the change with its interval against budget and floor.
//!
//! Positions are percentages, so that a picture follows the page's width while its marks and letters keep their size.

use assay_manifest::{BetterDirection, Change, TrialPair};

use crate::gate::model::row::{ABSENT, Row};
use crate::render::command::trace_command;
use crate::render::html::command_line;
use crate::render::html::writer::Writer;
use crate::render::number::{level, percent, significant};
use crate::render::svg::axis::Axis;
use crate::render::svg::plot::{grid, labels};
use crate::render::svg::plot::{pc, px};
use crate::render::text::counted;

/// Maximum number of pairs that are drawn and listed, evenly chosen: at this number the marks form a band.
const MAX_PAIRS: usize = 120;

/// Maximum number of pairs that are joined by lines: more lines are illegible.
const MAX_JOINED: usize = 40;

/// Heights, in CSS pixels: of the picture of both sides, and of the marks of baseline and candidate within it.
const SIDES: f64 = 104.0;
const BASELINE: f64 = 28.0;
const CANDIDATE: f64 = 76.0;

/// Length of a median's stroke above and below the marks, in CSS pixels.
const STROKE: f64 = 10.0;

/// Heights, in CSS pixels: of the picture of the change, and of the interval within it.
const EFFECT: f64 = 104.0;
const INTERVAL: f64 = 52.0;

/// Returns the id, within the page, of the origins of the metric at `place` among all metrics of the report.
pub(crate) fn origins_id(place: usize) -> String {
    format!("from-{place}")
}

/// Writes a number as a link to its origins, those of the metric at `place`, which the page has to contain.
pub(crate) fn link_to_origins(page: &mut Writer, place: usize, text: &str) {
    page.leaf("a", &[("class", "number"), ("href", &format!("#{}", origins_id(place)))], text);
}

/// Writes the pictures of a metric, with their data.
pub(crate) fn figure(page: &mut Writer, place: usize, row: &Row, budget: f64, store: Option<&str>) {
    page.element("figure", &[("class", "judged-metric")], |page| {
        page.element("figcaption", &[], |page| {
            page.leaf("h3", &[], &format!("{}, {}: {}", row.metric, row.place(), row.outcome.as_str()));
            page.element("p", &[], |page| {
                if row.origins.is_empty() {
                    page.text(&row.change_text());
                } else {
                    link_to_origins(page, place, &row.change_text());
                }
                page.text(&format!(", {}", row.magnitude_text()));
            });
            if !row.reason.is_empty() {
                page.element("p", &[("class", "quiet")], |page| page.prose(&row.reason));
            }
        });
        page.element("div", &[("class", "sides-and-effect")], |page| {
            page.element("div", &[], |page| sides(page, row));
            page.element("div", &[], |page| effect(page, row, budget));
        });
        write_data(page, row);
        origins(page, place, row, store);
    });
    page.newline();
}

/// Returns at most [`MAX_PAIRS`] pairs, evenly chosen.
fn drawn_pairs(row: &Row) -> Vec<&TrialPair> {
    let pairs = &row.verdict.pairs;
    let shown = pairs.len().min(MAX_PAIRS);
    (0..shown).filter_map(|index| pairs.get(index * pairs.len() / shown.max(1))).collect()
}

/// Draws the trials of both sides on one axis: squares above for the baseline, discs below for the candidate.
fn sides(page: &mut Writer, row: &Row) {
    let pairs = drawn_pairs(row);
    let values = pairs.iter().flat_map(|pair| [pair.baseline, pair.candidate]);
    let medians = row.verdict.change.iter().flat_map(|change| [change.baseline_median, change.candidate_median]);
    let Some(axis) = Axis::holding(values.chain(medians).map(|value| row.unit.convert(value))) else {
        page.leaf("p", &[("class", "quiet")], "No pair has a value on both sides, so there is nothing to draw.");
        return;
    };
    let at = |value: f64| pc(axis.position(row.unit.convert(value)));
    page.leaf("p", &[("class", "axis-title")], &sides_title(row, &axis, pairs.len()));
    page.element("svg", &[("role", "img"), ("height", &px(SIDES)), ("width", "100%")], |page| {
        page.leaf("title", &[], &describe_sides(row));
        grid(page, &axis, SIDES);
        if pairs.len() <= MAX_JOINED {
            for pair in &pairs {
                let (from, to) = (at(pair.baseline), at(pair.candidate));
                let (y1, y2) = (px(BASELINE), px(CANDIDATE));
                page.shape("line", &[("class", "path"), ("x1", &from), ("x2", &to), ("y1", &y1), ("y2", &y2)]);
            }
        }
        for pair in &pairs {
            square(page, &at(pair.baseline));
            disc(page, &at(pair.candidate));
        }
        if let Some(change) = &row.verdict.change {
            median(page, "of-baseline", &at(change.baseline_median), BASELINE);
            median(page, "of-candidate", &at(change.candidate_median), CANDIDATE);
        }
        let label = |page: &mut Writer, y: &str, text: &str| {
            page.leaf("text", &[("class", "side"), ("x", "0"), ("y", y), ("text-anchor", "start")], text);
        };
        label(page, "11", &format!("□ baseline, median {}", row.with_unit(&row.baseline)));
        label(page, "100", &format!("● candidate, median {}", row.with_unit(&row.candidate)));
    });
    page.element("div", &[("aria-hidden", "true")], |page| labels(page, &axis));
}

fn sides_title(row: &Row, axis: &Axis, drawn: usize) -> String {
    let all = row.verdict.pairs.len();
    let joined = if drawn <= MAX_JOINED { "; a line joins the trials of a pair" } else { "" };
    let thinned = if all > drawn { format!("; {drawn} of {} evenly chosen", counted(all as u64, "pair")) } else { String::new() };
    format!("Trials in {}, {}, {}{joined}{thinned}", row.unit.unit, row.better(), axis.describe())
}

fn describe_sides(row: &Row) -> String {
    format!(
        "{}, {}: the baseline's median is {}, the candidate's {}, {}, {} missing",
        row.metric,
        row.place(),
        row.with_unit(&row.baseline),
        row.with_unit(&row.candidate),
        counted(row.verdict.pairs.len() as u64, "pair"),
        row.verdict.missing
    )
}

fn square(page: &mut Writer, x: &str) {
    let y = px(BASELINE - 3.5);
    let size = [("width", "7"), ("height", "7"), ("transform", "translate(-3.5 0)")];
    page.shape("rect", &[("class", "trial-of-baseline"), ("x", x), ("y", &y), size[0], size[1], size[2]]);
}

fn disc(page: &mut Writer, x: &str) {
    page.shape("circle", &[("class", "trial-of-candidate"), ("cx", x), ("cy", &px(CANDIDATE)), ("r", "3.75")]);
}

fn median(page: &mut Writer, class: &str, x: &str, y: f64) {
    let class = format!("side-median {class}");
    let (y1, y2) = (px(y - STROKE), px(y + STROKE));
    page.shape("line", &[("class", &class), ("x1", x), ("x2", x), ("y1", &y1), ("y2", &y2)]);
}

/// The quantities that the change is compared with, all in percent.
struct Scale {
    axis: Axis,
    /// The ends of the band within the budget.
    budget: [f64; 2],
    /// The ends of the noise floor; `None` if it is 0.
    floor: Option<[f64; 2]>,
}

impl Scale {
    fn new(row: &Row, change: &Change, budget: f64) -> Option<Self> {
        // The band is symmetric on logarithms, as in the gate's rule.
        let both = |share: f64| [in_percent(1.0 / (1.0 + share)), in_percent(1.0 + share)];
        let floor = row.verdict.floor.as_ref().map(|floor| floor.share).filter(|share| *share > 0.0).map(both);
        let budget = both(budget);
        let ends = [Some(change.ratio), change.low, change.high].into_iter().flatten().map(in_percent);
        let axis = Axis::holding(ends.chain(budget).chain(floor.into_iter().flatten()).chain([0.0]))?;
        Some(Self { axis, budget, floor })
    }

    fn at(&self, value: f64) -> String {
        pc(self.axis.position(value))
    }

    /// Writes a label centred on zero change, above or below the mark; beside it if the picture's edge is near.
    fn label(&self, page: &mut Writer, y: &str, text: &str) {
        let anchor = match self.axis.position(0.0) {
            ..20.0 => "start",
            80.0.. => "end",
            _ => "middle",
        };
        page.leaf("text", &[("class", "side"), ("x", &self.at(0.0)), ("y", y), ("text-anchor", anchor)], text);
    }
}

fn in_percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

/// Draws the change with its interval, against the band of the budget and the lines of the floor.
fn effect(page: &mut Writer, row: &Row, budget: f64) {
    let Some((change, scale)) = row.verdict.change.as_ref().and_then(|change| Some((change, Scale::new(row, change, budget)?)))
    else {
        page.leaf("p", &[("class", "quiet")], "There is no ratio to hold against the budget.");
        return;
    };
    let worse = if row.verdict.better == BetterDirection::Lower { "right" } else { "left" };
    page.leaf("p", &[("class", "axis-title")], &format!("Change in %, candidate over baseline; worse is to the {worse}"));
    page.element("svg", &[("role", "img"), ("height", &px(EFFECT)), ("width", "100%")], |page| {
        page.leaf("title", &[], &describe_effect(row, budget));
        band(page, &scale);
        grid(page, &scale.axis, EFFECT);
        vertical_line(page, "no-change", &scale.at(0.0));
        for end in scale.floor.into_iter().flatten() {
            vertical_line(page, "floor", &scale.at(end));
        }
        interval(page, &scale, change);
        scale.label(page, "13", &format!("budget {}", level(budget)));
        if scale.floor.is_some() {
            scale.label(page, "98", &format!("┆ floor {} ┆", row.floor));
        }
    });
    page.element("div", &[("aria-hidden", "true")], |page| labels(page, &scale.axis));
}

fn describe_effect(row: &Row, budget: f64) -> String {
    let floor =
        row.verdict.floor.as_ref().map_or_else(|| "no floor".to_owned(), |floor| format!("a floor of {}", percent(floor.share)));
    format!(
        "{}, {}: changed by {}, against a budget of {} and {floor}",
        row.metric,
        row.place(),
        row.change_text(),
        level(budget)
    )
}

fn band(page: &mut Writer, scale: &Scale) {
    let [low, high] = scale.budget.map(|end| scale.axis.position(end));
    let (x, width) = (pc(low), pc(high - low));
    page.shape("rect", &[("class", "budget"), ("x", &x), ("width", &width), ("y", "18"), ("height", &px(EFFECT - 36.0))]);
}

fn vertical_line(page: &mut Writer, class: &str, x: &str) {
    page.shape("line", &[("class", class), ("x1", x), ("x2", x), ("y1", "18"), ("y2", &px(EFFECT - 18.0))]);
}

/// Draws the interval as a bar with its ends, and the estimate on it. An unbounded end runs to the edge without a stop.
fn interval(page: &mut Writer, scale: &Scale, change: &Change) {
    let y = px(INTERVAL);
    if change.low.is_some() || change.high.is_some() {
        let end = |end: Option<f64>, open: &str| end.map_or_else(|| open.to_owned(), |ratio| scale.at(in_percent(ratio)));
        let (from, to) = (end(change.low, "0"), end(change.high, "100%"));
        page.shape("line", &[("class", "effect-interval"), ("x1", &from), ("x2", &to), ("y1", &y), ("y2", &y)]);
        for stop in [change.low, change.high].into_iter().flatten() {
            let x = scale.at(in_percent(stop));
            let (y1, y2) = (px(INTERVAL - 6.0), px(INTERVAL + 6.0));
            page.shape("line", &[("class", "effect-interval"), ("x1", &x), ("x2", &x), ("y1", &y1), ("y2", &y2)]);
        }
    }
    page.shape("circle", &[("class", "effect"), ("cx", &scale.at(in_percent(change.ratio))), ("cy", &y), ("r", "5")]);
}

/// Writes the pictures' data as a table: the alternative for readers who cannot or do not want to see the pictures.
fn write_data(page: &mut Writer, row: &Row) {
    let pairs = drawn_pairs(row);
    if pairs.is_empty() {
        return;
    }
    let unit = &row.unit.unit;
    let has_rows = row.origins.iter().any(|origin| !origin.baseline.trials.is_empty());
    page.element("details", &[], |page| {
        page.leaf("summary", &[], "Data as a table");
        page.element("div", &[("class", "scroll")], |page| {
            page.element("table", &[], |page| {
                let heads = ["run", "round", &format!("baseline, {unit}"), &format!("candidate, {unit}"), "ratio"];
                let rows: &[&str] = if has_rows { &["baseline's row", "candidate's row"] } else { &[] };
                page.element("thead", &[], |page| {
                    page.element("tr", &[], |page| {
                        cells(page, "th", &heads);
                        cells(page, "th", rows);
                    });
                });
                page.element("tbody", &[], |page| {
                    for pair in &pairs {
                        let [run, round] = [pair.run + 1, pair.index + 1].map(|number| number.to_string());
                        let [baseline, candidate] =
                            [pair.baseline, pair.candidate].map(|value| significant(row.unit.convert(value), None));
                        let ratio = ratio_text(pair);
                        page.element("tr", &[], |page| {
                            cells(page, "td", &[&run, &round, &baseline, &candidate, &ratio]);
                            if has_rows {
                                pair_rows(page, row, pair);
                            }
                        });
                    }
                });
            });
        });
    });
}

/// Writes the addresses of the rows that hold the values of a pair.
fn pair_rows(page: &mut Writer, row: &Row, pair: &TrialPair) {
    let origin = row.origins.iter().find(|origin| origin.run == pair.run);
    for side in [origin.map(|origin| &origin.baseline), origin.map(|origin| &origin.candidate)] {
        page.element("td", &[("class", "n")], |page| match side.and_then(|side| side.trials.get(&pair.index)) {
            Some(address) => page.leaf("code", &[], address.row()),
            None => page.text(ABSENT),
        });
    }
}

/// Writes the lineage of the numbers, folded: the runs, the Summaries that vouch for their rows, and the commands.
fn origins(page: &mut Writer, place: usize, row: &Row, store: Option<&str>) {
    if row.origins.is_empty() {
        return;
    }
    page.element("details", &[], |page| {
        page.leaf("summary", &[], "Where it comes from");
        // Within the `details` element, so that a link to it unfolds them.
        page.element("div", &[("id", &origins_id(place))], |page| write_run_origins(page, row, store));
    });
}

fn write_run_origins(page: &mut Writer, row: &Row, store: Option<&str>) {
    for origin in &row.origins {
        let medians = origin.sides().map(|(name, side)| (name, side, side.median.as_ref()));
        page.element("dl", &[("class", "pairs")], |page| {
            pair(page, "run", |page| page.text(&origin.run_id));
            pair(page, "its Summary", |page| page.leaf("code", &[], &origin.summary));
            for (name, side, median) in medians {
                pair(page, name, |page| {
                    page.text(&format!("{} at {}", side.case, row.point));
                    if let Some((value, _)) = median {
                        page.text(&format!(", median {} {}", significant(row.unit.convert(*value), None), row.unit.unit));
                    }
                });
            }
        });
        for (_, address) in medians.into_iter().filter_map(|(_, _, median)| median) {
            command_line(page, &trace_command(address, store));
        }
    }
    page.element("p", &[("class", "quiet note")], |page| page.prose(trace_note(row)));
}

/// Returns the instruction for tracing the other numbers, or the reason why none can be traced.
fn trace_note(row: &Row) -> &'static str {
    if row.origins.iter().any(|origin| origin.candidate.median.is_some()) {
        "The medians are the runs' own, over all counted trials. The trials' values, which were judged, walk back by their rows in the table of \
         data: the address of one is `<run>/outcome_fact/<row>/value`."
    } else {
        "The Summary was not at hand when this page was made, so no row is named here: `assay show <run> --markdown` names the row of each number."
    }
}

fn pair(page: &mut Writer, label: &str, inside: impl FnOnce(&mut Writer)) {
    page.leaf("dt", &[], label);
    page.element("dd", &[], inside);
}

/// Returns the ratio of a pair; a dash if the baseline is 0.
fn ratio_text(pair: &TrialPair) -> String {
    let ratio = pair.candidate / pair.baseline;
    if ratio.is_finite() { significant(ratio, None) } else { ABSENT.to_owned() }
}

fn cells(page: &mut Writer, tag: &'static str, texts: &[&str]) {
    for text in texts {
        if tag == "th" {
            page.leaf(tag, &[("scope", "col"), ("class", "n")], text);
        } else {
            page.leaf(tag, &[("class", "n")], text);
        }
    }
}
