//! The picture of a history: runs in their order, the level of each stretch, the changes of level, and the changes of the environment.
//!
//! Positions are percentages, so that a picture follows the page's width while its marks and letters keep their size.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::history::model::{Change, Run, Series, median};
use crate::history::phrases;
use crate::render::html::writer::Writer;
use crate::render::number::significant;
use crate::render::svg::axis::Axis;
use crate::render::svg::plot::{Frame, VerticalAxis, path_coordinate, pc, px, stretched};
use crate::render::text::{counted, fit};

/// Maximum number of runs with a dot each; beyond it, a mark stands for several adjacent runs.
const MAX_DOTS: usize = 150;

/// Maximum number of marked environment changes: the latest ones.
const MAX_ENVIRONMENTS: usize = 60;

/// Maximum number of marked changes: the latest ones.
const MAX_CHANGES: usize = 40;

/// Maximum number of changes in the picture's description; the table has all of them.
const MAX_DESCRIBED: usize = 6;

/// The height of the picture, in CSS pixels.
const HEIGHT: f64 = 220.0;

/// The widths for which labels are placed, in CSS pixels: labels that do not collide here do not collide on a wider picture. Some are
/// shown on wide screens only.
const NARROW: f64 = 250.0;
const WIDE: f64 = 620.0;

/// The width of a label's letter, in CSS pixels.
const LETTER: f64 = 6.8;

/// Maximum length of a run's label, in characters: three of them fit side by side on a phone.
const MAX_TICK: usize = 10;

/// The baselines of the labels of changes, from the top of the picture, in CSS pixels.
const LABEL_ROWS: [f64; 2] = [-8.0, -23.0];

/// A history on its axes.
struct Chart<'a> {
    series: &'a Series,
    changes: Vec<Change>,
    y: Axis,
}

/// Writes the picture with its key; or a sentence if there is nothing to draw.
pub(crate) fn chart(page: &mut Writer, series: &Series) {
    let values = series.runs.iter().map(|run| run.value);
    let Some(y) = Axis::holding(values.chain(series.levels().iter().map(|level| level.value))) else {
        page.leaf("p", &[("class", "quiet")], "No run has a value that can be drawn.");
        return;
    };
    let chart = Chart { series, changes: series.all_changes(), y };
    page.leaf("p", &[("class", "axis-title")], &format!("{}; {}", phrases::unit(series), chart.y.describe()));
    page.element("div", &[("class", "plot run-plot")], |page| {
        page.element("svg", &[("role", "img"), ("height", &px(HEIGHT)), ("width", "100%")], |page| chart.write(page));
    });
    key(page, &chart);
    let notes = chart.thinning_notes();
    if !notes.is_empty() {
        page.leaf("p", &[("class", "note quiet")], &notes.join(" "));
    }
}

impl Chart<'_> {
    fn write(&self, page: &mut Writer) {
        page.leaf("title", &[], &format!("{}: {}", self.series.name(), phrases::sentence(self.series)).replace('`', ""));
        page.leaf("desc", &[], &self.description());
        let Some(x) = Axis::spanning([0.0, self.series.runs.len() as f64]) else { return };
        let frame = Frame { height: HEIGHT, x: &x, y: VerticalAxis::Values(&self.y) };
        frame.rows(page);
        self.ticks(page);
        for change in self.marked_changes() {
            let x = pc(self.edge(change.index));
            page.shape("line", &[("class", "change"), ("x1", &x), ("x2", &x), ("y1", "0"), ("y2", &px(HEIGHT))]);
        }
        if self.width_of_mark() == 1 {
            self.dots(page, &frame);
        } else {
            self.bars(page, &frame);
        }
        for level in self.series.levels() {
            let (from, to, y) = (pc(self.edge(level.from)), pc(self.edge(level.to)), px(frame.y(level.value)));
            page.shape("line", &[("class", "level"), ("x1", &from), ("x2", &to), ("y1", &y), ("y2", &y)]);
        }
        for (index, run) in self.marked_environments() {
            environment(page, &pc(self.edge(index)), run);
        }
        self.change_labels(page);
    }

    /// Returns the position of a run, in percent of the width.
    fn place(&self, index: usize) -> f64 {
        (index as f64 + 0.5) / self.series.runs.len().max(1) as f64 * 100.0
    }

    /// Returns the border between a run and the one before it, in percent of the width.
    fn edge(&self, index: usize) -> f64 {
        index as f64 / self.series.runs.len().max(1) as f64 * 100.0
    }

    /// Returns the number of adjacent runs that a mark stands for.
    fn width_of_mark(&self) -> usize {
        self.series.runs.len().div_ceil(MAX_DOTS).max(1)
    }

    fn dots(&self, page: &mut Writer, frame: &Frame<'_>) {
        for (index, run) in self.series.runs.iter().enumerate() {
            let (x, y) = (pc(self.place(index)), px(frame.y(run.value)));
            page.element("circle", &[("class", "run"), ("cx", &x), ("cy", &y), ("r", "3.25")], |page| {
                let value = significant(run.value, None);
                page.leaf("title", &[], &format!("{}: {value} {}", phrases::run_label(run), self.series.unit));
            });
        }
    }

    /// Draws, for each group of adjacent runs, a bar from the lowest to the highest value and a dot at the median: no outlier is
    /// dropped.
    fn bars(&self, page: &mut Writer, frame: &Frame<'_>) {
        let mut bars = String::new();
        let mut dots = Vec::new();
        for (place, runs) in self.series.runs.chunks(self.width_of_mark()).enumerate() {
            let values: Vec<f64> = runs.iter().map(|run| run.value).collect();
            let (low, high) =
                values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)));
            let first = place * self.width_of_mark();
            let middle = f64::midpoint(self.edge(first), self.edge(first + runs.len()));
            // The nested drawing's horizontal unit is a thousandth of the width.
            let _ = write!(
                bars,
                "M{} {}V{}",
                path_coordinate(middle * 10.0),
                path_coordinate(frame.y(high)),
                path_coordinate(frame.y(low))
            );
            dots.extend(median(values).map(|value| (pc(middle), px(frame.y(value)))));
        }
        stretched(page, HEIGHT, |page| page.shape("path", &[("class", "runs"), ("d", &bars)]));
        for (x, y) in &dots {
            page.shape("circle", &[("class", "run"), ("cx", x), ("cy", y), ("r", "2")]);
        }
    }

    /// Writes the labels of some runs, evenly chosen, as many as fit.
    fn ticks(&self, page: &mut Writer) {
        let last = self.series.runs.len().saturating_sub(1);
        let quarters = |part: usize| last * part / 4;
        let all: Vec<usize> = (0..=4).map(quarters).collect();
        let naming = Naming::choose(&self.series.runs, &all);
        let (mut narrow, mut wide) = (FreeSpace::new(NARROW), FreeSpace::new(WIDE));
        for (index, is_wide) in [0, 4, 2, 1, 3].into_iter().map(|part| (quarters(part), !part.is_multiple_of(2))) {
            let Some(run) = self.series.runs.get(index) else { continue };
            let (label, x) = (naming.name(index, run), self.place(index));
            let anchor = anchor(x, &label);
            if !wide.reserve(x, &label, anchor) || !(is_wide || narrow.reserve(x, &label, anchor)) {
                continue;
            }
            let class = if is_wide { "wide-only" } else { "" };
            let (x, y) = (pc(x), HEIGHT + 4.0);
            page.shape(
                "line",
                &[("class", &format!("tick {class}")), ("x1", &x), ("x2", &x), ("y1", &px(HEIGHT)), ("y2", &px(y))],
            );
            page.leaf("text", &[("class", class), ("x", &x), ("y", &px(HEIGHT + 19.0)), ("text-anchor", anchor)], &label);
        }
    }

    /// Writes the number of each change, the same as in the table, and its size: the latest first, as many as fit.
    fn change_labels(&self, page: &mut Writer) {
        let mut rows = LABEL_ROWS.map(|y| (y, FreeSpace::new(NARROW)));
        for (number, change) in self.changes.iter().enumerate().rev().take(MAX_CHANGES) {
            let by = phrases::change_text(change).unwrap_or_else(|| significant(change.after, None));
            let (label, x) = (format!("{}: {by}", number + 1), self.edge(change.index));
            let anchor = anchor(x, &label);
            if let Some(y) = rows.iter_mut().find_map(|(y, free)| free.reserve(x, &label, anchor).then_some(*y)) {
                page.leaf("text", &[("class", "moved"), ("x", &pc(x)), ("y", &px(y)), ("text-anchor", anchor)], &label);
            }
        }
    }

    fn marked_changes(&self) -> &[Change] {
        self.changes.get(self.changes.len().saturating_sub(MAX_CHANGES)..).unwrap_or_default()
    }

    fn environments(&self) -> Vec<(usize, &Run)> {
        self.series.runs.iter().enumerate().filter(|(_, run)| run.environment_changed()).collect()
    }

    fn marked_environments(&self) -> Vec<(usize, &Run)> {
        let mut all = self.environments();
        all.drain(..all.len().saturating_sub(MAX_ENVIRONMENTS));
        all
    }

    /// Returns notes on marks that stand for several runs, and on changes that are not marked.
    fn thinning_notes(&self) -> Vec<String> {
        let (runs, width) = (counted(self.series.runs.len() as u64, "run"), self.width_of_mark());
        let bars = (width > 1).then(|| {
            format!("Of {runs}, each mark stands for {width} adjacent ones: a bar from the lowest to the highest, a dot at their median.")
        });
        let latest = |all: usize, most: usize, what: &str| {
            (all > most).then(|| format!("Of {all} changes of {what}, the latest {most} are marked."))
        };
        let changes = latest(self.changes.len(), MAX_CHANGES, "level");
        let environments = latest(self.environments().len(), MAX_ENVIRONMENTS, "the environment");
        bars.into_iter().chain(changes).chain(environments).collect()
    }

    /// Returns a description of the picture, for readers who do not see it.
    fn description(&self) -> String {
        let (first, last) = (self.series.runs.first(), self.series.runs.last());
        let ends =
            first.zip(last).map(|(first, last)| format!(", from {} to {}", phrases::run_label(first), phrases::run_label(last)));
        let mut told = vec![format!("{}{}", counted(self.series.runs.len() as u64, "run"), ends.unwrap_or_default())];
        let later = self.changes.iter().enumerate().rev().take(MAX_DESCRIBED);
        told.extend(
            later.map(|(number, change)| format!("change {}: {}", number + 1, phrases::describe_change(self.series, change))),
        );
        if let Some(more) = self.changes.len().checked_sub(MAX_DESCRIBED).filter(|more| *more > 0) {
            told.push(format!("and {}, in the table", counted(more as u64, "earlier change")));
        }
        let environments = self.environments().len() as u64;
        told.push(format!("the environment changed with {}", counted(environments, "run")));
        told.join("; ")
    }
}

/// Draws a diamond at the foot of the picture, distinct from all other marks by shape and place.
fn environment(page: &mut Writer, x: &str, run: &Run) {
    page.element("svg", &[("x", x), ("y", &px(HEIGHT)), ("width", "1"), ("height", "1")], |page| {
        page.element("path", &[("class", "environment"), ("d", "M0-6L6 0L0 6L-6 0Z")], |page| {
            let what = phrases::environment_difference(run).unwrap_or_default();
            page.leaf("title", &[], &format!("the {what} changed with {}", phrases::run_label(run)));
        });
    });
}

/// Writes the meaning of each mark that the picture has.
fn key(page: &mut Writer, chart: &Chart<'_>) {
    let is_thinned = chart.width_of_mark() > 1;
    page.element("ul", &[("class", "key")], |page| {
        sample(page, if is_thinned { "adjacent runs: their median" } else { "a run: the median of its trials" }, |page| {
            page.shape("circle", &[("class", "run"), ("cx", "15"), ("cy", "6"), ("r", "3.25")]);
        });
        sample(page, if chart.changes.is_empty() { "their median" } else { "level: the median between changes" }, |page| {
            page.shape("line", &[("class", "level"), ("x1", "2"), ("x2", "28"), ("y1", "6"), ("y2", "6")]);
        });
        if !chart.changes.is_empty() {
            sample(page, "the level moved", |page| {
                page.shape("line", &[("class", "change"), ("x1", "15"), ("x2", "15"), ("y1", "-2"), ("y2", "14")]);
            });
        }
        if !chart.environments().is_empty() {
            sample(page, "the environment changed", |page| {
                page.shape("path", &[("class", "environment"), ("d", "M15 0L21 6L15 12L9 6Z")]);
            });
        }
    });
}

fn sample(page: &mut Writer, name: &str, mark: impl FnOnce(&mut Writer)) {
    page.element("li", &[], |page| {
        page.element("svg", &[("width", "30"), ("height", "12"), ("aria-hidden", "true")], mark);
        page.text(name);
    });
}

/// The labels of runs below the axis: their days if these differ, else their names if these are short, else their indices.
enum Naming {
    Days,
    Names,
    Places,
}

impl Naming {
    fn choose(runs: &[Run], shown: &[usize]) -> Self {
        let shown: Vec<&Run> = {
            let mut places = shown.to_vec();
            places.dedup();
            places.into_iter().filter_map(|index| runs.get(index)).collect()
        };
        let days: BTreeSet<String> = shown.iter().filter_map(|run| phrases::date(run)).collect();
        if days.len() == shown.len() {
            Self::Days
        } else if shown.iter().all(|run| run.id.chars().count() <= MAX_TICK) {
            Self::Names
        } else {
            Self::Places
        }
    }

    fn name(&self, index: usize, run: &Run) -> String {
        match self {
            Self::Days => phrases::date(run).unwrap_or_default(),
            Self::Names => fit(&run.id, MAX_TICK),
            Self::Places => format!("run {}", index + 1),
        }
    }
}

/// The free space in a line of labels, at one width of the picture.
struct FreeSpace {
    width: f64,
    taken: Vec<(f64, f64)>,
}

impl FreeSpace {
    fn new(width: f64) -> Self {
        Self { width, taken: Vec::new() }
    }

    /// Reserves the space of a label. Returns true if it was free.
    fn reserve(&mut self, x_percent: f64, label: &str, anchor: &str) -> bool {
        let (x, length) = (x_percent / 100.0 * self.width, label.chars().count() as f64 * LETTER);
        let start = match anchor {
            "start" => x,
            "end" => x - length,
            _ => x - length / 2.0,
        };
        let (start, end) = (start - LETTER, start + length);
        let is_free = self.taken.iter().all(|(from, to)| end <= *from || start >= *to);
        if is_free {
            self.taken.push((start, end));
        }
        is_free
    }
}

/// Returns the anchor of a label: centred if it fits, and turned inwards at the edges.
fn anchor(x_percent: f64, label: &str) -> &'static str {
    let (x, half) = (x_percent / 100.0 * NARROW, label.chars().count() as f64 * LETTER / 2.0);
    match (x - half < 0.0, x + half > NARROW) {
        (true, _) => "start",
        (_, true) => "end",
        _ => "middle",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_take_no_place_twice() {
        let mut free = FreeSpace::new(NARROW);
        assert!(free.reserve(0.0, "2026-11-20", "start"));
        assert!(!free.reserve(20.0, "2026-11-20", "middle"), "it would reach into the first");
        assert!(free.reserve(100.0, "2026-11-20", "end"));
        assert_eq!([anchor(0.0, "day"), anchor(50.0, "day"), anchor(100.0, "day")], ["start", "middle", "end"]);
    }
}
