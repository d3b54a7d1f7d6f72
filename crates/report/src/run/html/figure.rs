//! Pictures of the results: every trial as a dot, the median and its interval over them, and the trials in their order.
//!
//! Positions are percentages, so that a picture follows the page's width while its dots and letters keep their size.

use std::collections::BTreeMap;

use super::panel::number_link;
use crate::render::html::writer::Writer;
use crate::render::html::{FIGURE_SPACE, PUNCTUATION_SPACE, folded};
use crate::render::number::percent;
use crate::render::svg::axis::Axis;
use crate::render::svg::plot::{grid, labels, pc, px};
use crate::render::text::{align_points, counted};
use crate::run::model::Report;
use crate::run::model::section::{CaseSection, MetricStatistics, PointSection, Row, Trial, deviations};
use crate::run::model::serving::{metric_name, spreads};

/// Maximum number of points in one figure: more strips cannot be compared by eye.
const MAX_STRIPS: usize = 40;

/// Maximum number of dots in one strip, evenly chosen: at this number they form a band.
const MAX_DOTS: usize = 200;

/// The figures that are open; the others are folded.
const OPEN_FIGURES: usize = 1;

/// Maximum number of small panels of trials in their order.
const MAX_PANELS: usize = 24;

/// Maximum size of all figures together, in bytes, so that the page stays within its limit.
const MAX_BYTES: usize = 450_000;

/// The height of a strip, in CSS pixels.
const STRIP: f64 = 28.0;

/// The height of a panel's plot, in CSS pixels.
const PANEL: f64 = 64.0;

/// The smallest spread that panels show, as a share.
const MIN_SWING: f64 = 0.05;

/// A strip of a figure: one point of one case.
struct Strip<'a> {
    label: String,
    point: &'a PointSection,
    measured: &'a MetricStatistics,
}

/// The points that share an axis: a metric of a workload, over all its cases and points.
struct Figure<'a> {
    workload: &'a str,
    metric: &'a Row,
    strips: Vec<Strip<'a>>,
}

/// Writes the figures of all metrics, each followed by its data, within the byte budget.
pub(super) fn figures(page: &mut Writer, report: &Report) {
    let figures = grouped(report);
    let mut left_out = 0;
    for (place, figure) in figures.iter().enumerate() {
        let mut piece = Writer::default();
        if place < OPEN_FIGURES {
            figure.write(&mut piece);
        } else {
            let summary = format!("{}: {}", figure.workload, metric_name(&figure.metric.metric));
            folded(&mut piece, &summary, |page| figure.write(page));
        }
        if page.len() + piece.len() > MAX_BYTES {
            left_out += 1;
        } else {
            page.append(piece);
        }
    }
    if figures.is_empty() {
        page.leaf("p", &[("class", "quiet")], "No trial counts, so there is nothing to draw.");
    }
    if left_out > 0 {
        let text = format!("{} left out to keep this page small; the table has the numbers.", counted(left_out as u64, "figure"));
        page.leaf("p", &[("class", "quiet")], &text);
    }
}

fn grouped(report: &Report) -> Vec<Figure<'_>> {
    let mut sides: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for case in &report.cases {
        sides.entry(&case.workload).or_default().push(&case.side);
    }
    let mut figures: Vec<Figure<'_>> = Vec::new();
    let mut places: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (case, point, row) in report.rows() {
        let Ok(measured) = &row.measured else { continue };
        if case.serving.is_some() && spreads(case).iter().all(|drawn| drawn.text != row.metric) {
            continue;
        }
        let several = sides.get(case.workload.as_str()).is_some_and(|sides| sides.len() > 1);
        let strip = Strip { label: strip_label(case, point, several), point, measured };
        let place = *places.entry((&case.workload, &row.metric)).or_insert_with(|| {
            figures.push(Figure { workload: &case.workload, metric: row, strips: Vec::new() });
            figures.len() - 1
        });
        if let Some(figure) = figures.get_mut(place) {
            figure.strips.push(strip);
        }
    }
    figures
}

fn strip_label(case: &CaseSection, point: &PointSection, several: bool) -> String {
    if several { format!("{}: {}", case.side, point.label) } else { point.label.clone() }
}

impl Figure<'_> {
    fn write(&self, page: &mut Writer) {
        let shown = self.strips.get(..MAX_STRIPS).unwrap_or(&self.strips);
        let Some(axis) = Axis::holding(shown.iter().flat_map(|strip| extent(strip.measured))) else { return };
        page.element("figure", &[], |page| {
            page.element("figcaption", &[], |page| {
                page.leaf("h3", &[], &format!("{}: {}", self.workload, metric_name(&self.metric.metric)));
                page.leaf("p", &[("class", "quiet")], &self.caption(&axis, shown));
            });
            page.element("div", &[("class", "strips")], |page| {
                for strip in shown {
                    write_strip(page, strip, &axis, &self.metric.unit);
                }
                write_axis(page, &axis, &self.metric.unit);
            });
            self.write_panels(page);
            write_data(page, shown, &self.metric.unit);
        });
        page.newline();
    }

    fn caption(&self, axis: &Axis, shown: &[Strip<'_>]) -> String {
        let better = self.metric.better.map(|better| format!("; {better} is better")).unwrap_or_default();
        let legend = format!(
            "{}, {}{better}. Each dot is a trial, the line their median, the bar its interval.",
            self.metric.unit,
            axis.describe()
        );
        let points = (self.strips.len() > shown.len())
            .then(|| format!("The first {} of {} points are drawn.", shown.len(), self.strips.len()));
        let trials = shown
            .iter()
            .any(|strip| strip.measured.trials.len() > MAX_DOTS)
            .then(|| format!("Of more than {MAX_DOTS} trials of a point, {MAX_DOTS} evenly chosen ones are drawn."));
        [Some(legend), points, trials].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// Writes one small panel for each point: the trials in the order they ran, relative to their median. All panels share an axis.
    fn write_panels(&self, page: &mut Writer) {
        let drawable: Vec<_> = self.strips.iter().filter(|strip| strip.measured.median != 0.0 && strip.measured.n > 1).collect();
        let shown = drawable.get(..MAX_PANELS).unwrap_or(&drawable);
        if shown.is_empty() {
            return;
        }
        let swing = shown.iter().flat_map(|strip| deviations(strip.measured)).fold(MIN_SWING, |most, each| most.max(each.abs()));
        page.element("div", &[("class", "order")], |page| {
            let left_out = drawable.len() - shown.len();
            let more =
                if left_out > 0 { format!("; the first {} of {} points", shown.len(), drawable.len()) } else { String::new() };
            page.leaf(
                "p",
                &[("class", "quiet")],
                &format!("Trials in the order in which they ran, ±{} around each median{more}", percent(swing)),
            );
            page.element("div", &[("class", "panels")], |page| {
                for strip in shown {
                    write_panel(page, strip, swing);
                }
            });
        });
    }
}

/// Returns all values of a point that its strip has to show.
fn extent(measured: &MetricStatistics) -> impl Iterator<Item = f64> {
    let ends = measured.interval.as_ref().ok().map(|ends| [ends.low, ends.high]);
    measured.trials.iter().map(|trial| trial.value).chain(ends.into_iter().flatten()).chain([measured.median])
}

/// Returns at most [`MAX_DOTS`] trials, evenly chosen.
fn dots(trials: &[Trial]) -> impl Iterator<Item = &Trial> {
    let shown = trials.len().min(MAX_DOTS);
    (0..shown).filter_map(move |index| trials.get(index * trials.len() / shown.max(1)))
}

fn write_strip(page: &mut Writer, strip: &Strip<'_>, axis: &Axis, unit: &str) {
    let measured = strip.measured;
    page.element("div", &[("class", "strip")], |page| {
        page.leaf("span", &[("class", "name")], &strip.label);
        page.element("svg", &[("role", "img"), ("height", &px(STRIP)), ("width", "100%")], |page| {
            page.leaf("title", &[], &describe(strip, unit));
            grid(page, axis, STRIP);
            if let Ok(ends) = &measured.interval {
                interval_bar(page, axis, ends.low, ends.high);
            }
            let at = pc(axis.position(measured.median));
            page.shape("line", &[("class", "median"), ("x1", &at), ("x2", &at), ("y1", "3"), ("y2", "25")]);
            for trial in dots(&measured.trials) {
                dot(page, trial, &pc(axis.position(trial.value)), STRIP / 2.0, unit);
            }
        });
        page.element("span", &[("class", "value")], |page| {
            number_link(page, measured);
            let interval = measured.interval.as_ref().map_or("no interval", |ends| ends.text.as_str());
            page.text(" ");
            page.leaf("span", &[("class", "quiet")], interval);
        });
    });
}

fn describe(strip: &Strip<'_>, unit: &str) -> String {
    let measured = strip.measured;
    let interval = match &measured.interval {
        Ok(ends) => format!("interval {} ({})", ends.text, ends.level),
        Err(reason) => format!("no interval: {reason}"),
    };
    let excluded = match strip.point.excluded {
        0 => String::new(),
        more => format!(", {} excluded", counted(more, "attempt")),
    };
    format!("{}: median {} {unit}, {interval}, {}{excluded}", strip.label, measured.median_text, counted(measured.n, "trial"))
}

/// Draws the bar of an interval; by its stroke it is at least two pixels wide, so that an interval without width is visible.
fn interval_bar(page: &mut Writer, axis: &Axis, low: f64, high: f64) {
    let (from, to) = (axis.position(low), axis.position(high));
    let (x, width) = (pc(from), pc(to - from));
    page.shape("rect", &[("class", "interval"), ("x", &x), ("width", &width), ("y", "9"), ("height", "10")]);
}

/// Draws a flagged trial as a ring and any other as a disc: distinct by shape, not by colour.
fn dot(page: &mut Writer, trial: &Trial, x: &str, y: f64, unit: &str) {
    let class = if trial.flagged { "dot flagged" } else { "dot" };
    let flag = if trial.flagged { ", flagged as an outlier" } else { "" };
    page.element("circle", &[("class", class), ("cx", x), ("cy", &px(y)), ("r", "3.5")], |page| {
        page.leaf("title", &[], &format!("{}: {} {unit}{flag}", trial.name, trial.text));
    });
}

fn write_axis(page: &mut Writer, axis: &Axis, unit: &str) {
    page.element("div", &[("class", "strip axis"), ("aria-hidden", "true")], |page| {
        page.leaf("span", &[("class", "name")], "");
        labels(page, axis);
        page.leaf("span", &[("class", "value quiet")], unit);
    });
}

fn write_panel(page: &mut Writer, strip: &Strip<'_>, swing: f64) {
    let deviations = deviations(strip.measured);
    let shown: Vec<(&Trial, f64)> = strip.measured.trials.iter().zip(deviations).collect();
    let shown = shown.get(..MAX_DOTS).unwrap_or(&shown);
    let x = |index: usize| pc((index as f64 + 0.5) / shown.len().max(1) as f64 * 100.0);
    let y = |deviation: f64| (1.0 - deviation / swing) / 2.0 * (PANEL - 12.0) + 6.0;
    page.element("div", &[("class", "panel")], |page| {
        page.element("svg", &[("role", "img"), ("height", &px(PANEL)), ("width", "100%")], |page| {
            let cv = strip.measured.cv.as_deref().unwrap_or("unknown");
            page.leaf("title", &[], &format!("{}: trials in the order in which they ran, CV {cv}", strip.label));
            let middle = px(PANEL / 2.0);
            page.shape("line", &[("class", "grid"), ("x1", "0"), ("x2", "100%"), ("y1", &middle), ("y2", &middle)]);
            for (index, pair) in shown.windows(2).enumerate() {
                let [(_, from), (_, to)] = pair else { continue };
                let (y1, y2) = (px(y(*from)), px(y(*to)));
                page.shape("line", &[("class", "path"), ("x1", &x(index)), ("x2", &x(index + 1)), ("y1", &y1), ("y2", &y2)]);
            }
            for (index, (trial, deviation)) in shown.iter().enumerate() {
                dot(page, trial, &x(index), y(*deviation), "");
            }
        });
        page.element("p", &[], |page| {
            page.text(&strip.label);
            let cv = strip.measured.cv.as_deref().unwrap_or("absent");
            page.leaf("span", &[("class", "quiet")], &format!(" CV {cv}"));
        });
    });
}

/// Writes the figure's data as a table: the alternative for readers who cannot or do not want to see the picture.
fn write_data(page: &mut Writer, strips: &[Strip<'_>], unit: &str) {
    page.element("details", &[], |page| {
        page.leaf("summary", &[], "Data as a table");
        page.element("div", &[("class", "scroll")], |page| {
            page.element("table", &[], |page| {
                page.element("thead", &[], |page| header(page, unit));
                page.element("tbody", &[], |page| strips.iter().for_each(|strip| data_rows(page, strip)));
            });
        });
    });
}

fn header(page: &mut Writer, unit: &str) {
    page.element("tr", &[], |page| {
        for text in ["point", "trial"] {
            page.leaf("th", &[("scope", "col")], text);
        }
        for text in ["attempt", &format!("value, {unit}"), "samples"] {
            page.leaf("th", &[("scope", "col"), ("class", "n")], text);
        }
        for text in ["note", "address"] {
            page.leaf("th", &[("scope", "col")], text);
        }
    });
}

fn data_rows(page: &mut Writer, strip: &Strip<'_>) {
    let trials: Vec<_> = dots(&strip.measured.trials).collect();
    let values: Vec<_> = trials.iter().map(|trial| trial.text.clone()).collect();
    let values = align_points(&values, FIGURE_SPACE, PUNCTUATION_SPACE);
    for (trial, value) in trials.iter().zip(values) {
        page.element("tr", &[], |page| {
            page.leaf("td", &[], &strip.label);
            page.leaf("td", &[], &trial.name);
            page.leaf("td", &[("class", "n")], &trial.attempt.to_string());
            page.leaf("td", &[("class", "n")], &value);
            page.leaf("td", &[("class", "n")], &trial.samples.to_string());
            page.leaf("td", &[], if trial.flagged { "outlier, kept" } else { "" });
            page.element("td", &[], |page| page.leaf("code", &[], trial.address.row()));
        });
    }
}
