//! The pictures of serving: throughput against latency, latency distributions to their tails, and requests over time.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use assay_manifest::TimelineRequest;
use assay_metric::{Definition, Metric, Use};

use super::axis::{Axis, tick_labels};
use super::plot::{Frame, Labels, MAX_LINES, VerticalAxis, failed_text, key, line_class, path_coordinate, pc, px, stretched};
use super::writer::Writer;
use super::{FIGURE_SPACE, PUNCTUATION_SPACE};
use crate::Report;
use crate::model::{CaseSection, MetricStatistics, PointSection};
use crate::number::significant;
use crate::serving::{
    Curve, Load, SloLine, Timeline, evenly_spaced, is_solid, metric_name, milliseconds, throughput, throughput_unit,
};
use crate::text::{align_points, counted};

/// Maximum number of loads on a line of the throughput picture.
const MAX_DOTS: usize = 60;

/// Maximum number of loads in a row of small pictures: more cannot be compared by eye.
const MAX_PANELS: usize = 12;

/// Maximum number of timelines of a case.
const MAX_TIMELINES: usize = 6;

/// Maximum size of the pictures of one section, in bytes, so that the page stays within its limit; omissions are counted.
const MAX_BYTES: usize = 220_000;

/// An SLO this many times above all values would flatten them: it is named instead of drawn.
const MAX_SLO_RATIO: f64 = 10.0;

/// Heights of the pictures, in CSS pixels.
const CURVE_HEIGHT: f64 = 230.0;
const PANEL_HEIGHT: f64 = 130.0;
const ROW_HEIGHT: f64 = 5.0;

/// Returns the metrics whose distributions are drawn, in the order of the page.
fn distributions() -> impl Iterator<Item = &'static Definition> {
    Metric::ALL.iter().filter(|metric| metric.has_use(Use::Curve)).map(|metric| metric.definition())
}

/// The latencies that are drawn over throughput: of each list, the first that a case has.
const LATENCIES: [&[&str]; 3] = [&["ttft_ms_p99"], &["tpot_ms_p99", "tpot_ms_p50"], &["e2e_ms_p99"]];

/// Cases of one workload: they share axes, and each is a line.
struct Workload<'a> {
    name: &'a str,
    cases: Vec<&'a CaseSection>,
    left_out: usize,
}

fn workloads(report: &Report) -> Vec<Workload<'_>> {
    let mut found: Vec<Workload<'_>> = Vec::new();
    for case in report.cases.iter().filter(|case| case.serving.is_some()) {
        let place = found.iter().position(|known| known.name == case.workload);
        match place.and_then(|place| found.get_mut(place)) {
            Some(known) if known.cases.len() < MAX_LINES => known.cases.push(case),
            Some(known) => known.left_out += 1,
            None => found.push(Workload { name: &case.workload, cases: vec![case], left_out: 0 }),
        }
    }
    found
}

impl Workload<'_> {
    fn names(&self) -> Vec<&str> {
        self.cases.iter().map(|case| case.side.as_str()).collect()
    }

    fn slos(&self) -> &[SloLine] {
        self.cases.first().and_then(|case| case.serving.as_ref()).map_or(&[], |work| &work.slos)
    }

    fn omission_note(&self) -> Option<String> {
        (self.left_out > 0).then(|| format!("{} in the table only.", counted(self.left_out as u64, "more case")))
    }
}

/// Writes pieces within a byte budget, and counts those that do not fit.
struct PieceWriter<'a> {
    page: &'a mut Writer,
    end: usize,
    left_out: u64,
}

impl<'a> PieceWriter<'a> {
    fn new(page: &'a mut Writer) -> Self {
        let end = page.len() + MAX_BYTES;
        Self { page, end, left_out: 0 }
    }

    fn add(&mut self, write: impl FnOnce(&mut Writer)) {
        let mut piece = Writer::default();
        write(&mut piece);
        if self.page.len() + piece.len() > self.end {
            self.left_out += 1;
        } else {
            self.page.append(piece);
        }
    }

    fn finish(self) {
        if self.left_out > 0 {
            let text =
                format!("{} left out to keep this page small; the table has the numbers.", counted(self.left_out, "figure"));
            self.page.leaf("p", &[("class", "quiet")], &text);
        }
    }
}

// Throughput against latency.

/// Writes, for each workload, latency over throughput: a line for each case and a mark for each load.
pub(super) fn throughput_figures(page: &mut Writer, report: &Report) {
    let mut pieces = PieceWriter::new(page);
    for workload in workloads(report) {
        pieces.add(|page| throughput_figure(page, &workload));
    }
    pieces.finish();
}

/// The mark of a load in the picture.
struct Dot<'a> {
    point: &'a PointSection,
    x: &'a MetricStatistics,
    y: &'a MetricStatistics,
}

fn dots<'a>(case: &'a CaseSection, metric: &str) -> Vec<Dot<'a>> {
    let dot = |point: &'a PointSection| Some(Dot { point, x: throughput(point)?.1, y: point.measured(metric)? });
    case.points.iter().filter_map(dot).collect()
}

fn throughput_figure(page: &mut Writer, workload: &Workload<'_>) {
    let has = |metric: &&&str| workload.cases.iter().any(|case| !dots(case, metric).is_empty());
    let metrics: Vec<&str> = LATENCIES.iter().filter_map(|choices| choices.iter().find(has).copied()).collect();
    page.element("figure", &[], |page| {
        page.element("figcaption", &[], |page| {
            page.leaf("h3", &[], workload.name);
            if !metrics.is_empty() {
                page.leaf("p", &[("class", "quiet")], &throughput_caption(workload));
            }
        });
        key(page, &workload.names());
        page.element("div", &[("class", "plots")], |page| {
            for metric in &metrics {
                throughput_plot(page, workload, metric);
            }
        });
        if metrics.is_empty() {
            page.leaf("p", &[("class", "quiet")], "No load has a counted trial, so there is nothing to draw.");
        }
        write_missing_loads(page, workload);
        throughput_data(page, workload, &metrics);
    });
    page.newline();
}

fn throughput_caption(workload: &Workload<'_>) -> String {
    let thinned = workload.cases.iter().any(|case| case.points.len() > MAX_DOTS);
    let parts = [
        Some("Each mark is a load, labelled with it; bars are the intervals of both medians across trials. Hollow: the trials do not agree, or some do not count.".to_owned()),
        (!workload.slos().is_empty()).then(|| "The dashed line is the SLO.".to_owned()),
        thinned.then(|| format!("Of more than {MAX_DOTS} loads of a case, {MAX_DOTS} evenly chosen ones are drawn.")),
        workload.omission_note(),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn throughput_plot(page: &mut Writer, workload: &Workload<'_>, metric: &str) {
    let lines: Vec<Vec<Dot<'_>>> = workload
        .cases
        .iter()
        .map(|case| {
            let all = dots(case, metric);
            let kept: Vec<_> = evenly_spaced(&all, MAX_DOTS).map(|dot| Dot { point: dot.point, x: dot.x, y: dot.y }).collect();
            kept
        })
        .collect();
    let slo = workload.slos().iter().find(|slo| metric.starts_with(slo.metric) && metric.ends_with("p99"));
    let all = || lines.iter().flatten();
    let largest = all().map(|dot| dot.y.median).fold(0.0, f64::max);
    let drawn_slo = slo.filter(|slo| slo.limit_ms <= largest * MAX_SLO_RATIO);
    let x = Axis::from_zero(all().flat_map(|dot| extent(dot.x)));
    let y = Axis::holding(all().flat_map(|dot| extent(dot.y)).chain(drawn_slo.map(|slo| slo.limit_ms)));
    let (Some(x), Some(y)) = (x, y) else { return };
    let unit = all().find_map(|dot| throughput(dot.point)).map_or("", |(metric, _)| throughput_unit(metric));
    let name = metric_name(metric);
    page.element("div", &[("class", "plot")], |page| {
        let beyond =
            slo.filter(|_| drawn_slo.is_none()).map(|slo| format!("; its SLO, {}, lies far above", slo.text)).unwrap_or_default();
        page.leaf("p", &[("class", "axis-title")], &format!("{name}, ms ({}){beyond}", y.describe()));
        page.element("svg", &[("role", "img"), ("width", "100%"), ("height", &px(CURVE_HEIGHT))], |page| {
            page.leaf("title", &[], &throughput_title(workload, &lines, &name, unit));
            let frame = Frame { height: CURVE_HEIGHT, x: &x, y: VerticalAxis::Values(&y) };
            frame.write(page);
            if let Some(slo) = drawn_slo {
                slo_across(page, &frame, slo);
            }
            for (line, dots) in lines.iter().enumerate() {
                write_line(page, &frame, line, dots);
            }
            write_labels(page, &frame, workload, &lines, drawn_slo);
        });
        page.leaf("p", &[("class", "axis-title below")], unit);
    });
}

fn extent(measured: &MetricStatistics) -> impl Iterator<Item = f64> {
    let ends = measured.interval.as_ref().ok().map(|ends| [ends.low, ends.high]);
    ends.into_iter().flatten().chain([measured.median])
}

fn throughput_title(workload: &Workload<'_>, lines: &[Vec<Dot<'_>>], name: &str, unit: &str) -> String {
    let line = |(case, dots): (&&CaseSection, &Vec<Dot<'_>>)| {
        let dot = |dot: &Dot<'_>| format!("{}: {} ms at {} {unit}", dot.point.label, dot.y.median_text, dot.x.median_text);
        format!("{}: {}", case.side, dots.iter().map(dot).collect::<Vec<_>>().join("; "))
    };
    let lines: Vec<_> = workload.cases.iter().zip(lines).map(line).collect();
    format!("{}, {name} against throughput. {}", workload.name, lines.join(". "))
}

fn slo_across(page: &mut Writer, frame: &Frame<'_>, slo: &SloLine) {
    let y = frame.y(slo.limit_ms);
    page.shape("line", &[("class", "slo"), ("x1", "0"), ("x2", "100%"), ("y1", &px(y)), ("y2", &px(y))]);
    page.leaf(
        "text",
        &[("class", "slo-name"), ("x", "2"), ("y", &px(y - 4.0)), ("text-anchor", "start")],
        &format!("SLO {}", slo.text),
    );
}

fn write_line(page: &mut Writer, frame: &Frame<'_>, line: usize, dots: &[Dot<'_>]) {
    page.element("g", &[("class", line_class(line))], |page| {
        for pair in dots.windows(2) {
            let [from, to] = pair else { continue };
            let at = |dot: &Dot<'_>| (pc(frame.x.position(dot.x.median)), px(frame.y(dot.y.median)));
            let ((x1, y1), (x2, y2)) = (at(from), at(to));
            page.shape("line", &[("class", "line"), ("x1", &x1), ("x2", &x2), ("y1", &y1), ("y2", &y2)]);
        }
        for dot in dots {
            write_dot(page, frame, dot);
        }
    });
}

fn write_dot(page: &mut Writer, frame: &Frame<'_>, dot: &Dot<'_>) {
    let (x, y) = (pc(frame.x.position(dot.x.median)), px(frame.y(dot.y.median)));
    if let Ok(ends) = &dot.x.interval {
        let (x1, x2) = (pc(frame.x.position(ends.low)), pc(frame.x.position(ends.high)));
        page.shape("line", &[("class", "bar"), ("x1", &x1), ("x2", &x2), ("y1", &y), ("y2", &y)]);
    }
    if let Ok(ends) = &dot.y.interval {
        let (y1, y2) = (px(frame.y(ends.low)), px(frame.y(ends.high)));
        page.shape("line", &[("class", "bar"), ("x1", &x), ("x2", &x), ("y1", &y1), ("y2", &y2)]);
    }
    let class = if is_solid(dot.point) { "mark" } else { "mark hollow" };
    page.element("circle", &[("class", class), ("cx", &x), ("cy", &y), ("r", "4.5")], |page| {
        let interval = dot.y.interval.as_ref().map_or_else(|_| "no interval".to_owned(), |ends| ends.text.clone());
        page.leaf("title", &[], &format!("{}: {} ms {interval} at {}", dot.point.label, dot.y.median_text, dot.x.median_text));
    });
}

/// Writes the load beside each mark; the last one of a line also has the line's name.
fn write_labels(page: &mut Writer, frame: &Frame<'_>, workload: &Workload<'_>, lines: &[Vec<Dot<'_>>], slo: Option<&SloLine>) {
    let mut labels = Labels::default();
    let place = |dot: &Dot<'_>| (frame.x.position(dot.x.median), frame.y(dot.y.median));
    if let Some(slo) = slo {
        labels.keep_clear(12.0, frame.y(slo.limit_ms) - 9.0, 9.0);
        labels.keep_clear(30.0, frame.y(slo.limit_ms) - 9.0, 9.0);
    }
    for dot in lines.iter().flatten() {
        let (x, y) = place(dot);
        labels.keep_clear(x, y, 5.0);
    }
    let text = |dot: &Dot<'_>| dot.point.serving.as_ref().map_or_else(|| dot.point.label.clone(), |load| load.short.clone());
    for (line, dots) in lines.iter().enumerate() {
        let name = workload.cases.get(line).filter(|_| lines.len() > 1).map(|case| case.side.as_str());
        let class = format!("name {}", line_class(line));
        if let Some(last) = dots.last() {
            let label = name.map_or_else(|| text(last), |name| format!("{} {name}", text(last)));
            labels.write(page, &class, place(last), &label);
        }
    }
    for dots in lines {
        for dot in dots.iter().rev().skip(1) {
            labels.write(page, "load", place(dot), &text(dot));
        }
    }
}

/// Lists the loads that are not in the picture, with the reasons.
fn write_missing_loads(page: &mut Writer, workload: &Workload<'_>) {
    let points = workload.cases.iter().flat_map(|case| case.points.iter().map(move |point| (case, point)));
    let missing: Vec<String> = points
        .filter(|(_, point)| throughput(point).is_none())
        .map(|(case, point)| {
            let reason = point.rows.iter().find_map(|row| row.measured.as_ref().err());
            format!("{} at {}: {}", case.side, point.label, reason.map_or("nothing was measured", String::as_str))
        })
        .collect();
    if missing.is_empty() {
        return;
    }
    page.element("ul", &[("class", "missing")], |page| {
        for text in missing.iter().take(MAX_PANELS) {
            page.leaf("li", &[], &format!("Not drawn: {text}"));
        }
        if missing.len() > MAX_PANELS {
            page.leaf("li", &[], &format!("and {} more", missing.len() - MAX_PANELS));
        }
    });
}

fn throughput_data(page: &mut Writer, workload: &Workload<'_>, metrics: &[&str]) {
    let mut titles =
        vec![("case".to_owned(), ""), ("load".to_owned(), ""), ("throughput".to_owned(), "n"), ("interval".to_owned(), "")];
    for metric in metrics {
        titles.extend([(format!("{}, ms", metric_name(metric)), "n"), ("interval".to_owned(), "")]);
    }
    let rows = workload.cases.iter().flat_map(|case| evenly_spaced(&case.points, MAX_DOTS).map(move |point| (case, point)));
    let rows = rows.filter_map(|(case, point)| {
        let (_, rate) = throughput(point)?;
        let mut cells = vec![case.side.clone(), point.label.clone()];
        for found in [Some(rate)].into_iter().chain(metrics.iter().map(|metric| point.measured(metric))) {
            cells.push(found.map_or("absent", |found| &found.median_text).to_owned());
            let interval = found.and_then(|found| found.interval.as_ref().ok()).map_or("none", |ends| &ends.text);
            cells.push(interval.to_owned());
        }
        Some(cells)
    });
    data_table(page, &titles, &rows.collect::<Vec<_>>());
}

/// Writes a picture's data, folded: the alternative for readers who cannot or do not want to see the picture.
fn data_table(page: &mut Writer, titles: &[(String, &'static str)], rows: &[Vec<String>]) {
    let mut columns: Vec<Vec<String>> =
        (0..titles.len()).map(|place| rows.iter().filter_map(|row| row.get(place).cloned()).collect()).collect();
    for (column, (_, class)) in columns.iter_mut().zip(titles) {
        if *class == "n" {
            *column = align_points(column, FIGURE_SPACE, PUNCTUATION_SPACE);
        }
    }
    page.element("details", &[], |page| {
        page.leaf("summary", &[], "Data as a table");
        page.element(
            "div",
            &[("class", "scroll"), ("tabindex", "0"), ("role", "region"), ("aria-label", "Data of the figure")],
            |page| {
                page.element("table", &[], |page| {
                    page.element("thead", &[], |page| {
                        page.element("tr", &[], |page| {
                            for (title, class) in titles {
                                page.leaf("th", &[("scope", "col"), ("class", class)], title);
                            }
                        });
                    });
                    page.element("tbody", &[], |page| {
                        for row in 0..rows.len() {
                            page.element("tr", &[], |page| {
                                for (column, (_, class)) in columns.iter().zip(titles) {
                                    let text = column.get(row).map_or("", String::as_str);
                                    if class.is_empty() {
                                        page.leaf("td", &[], text);
                                    } else {
                                        page.leaf("td", &[("class", class)], text);
                                    }
                                }
                            });
                        }
                    });
                });
            },
        );
    });
}

// Distributions.

/// A small picture of a load: the curve of each case that has one.
struct Panel<'a> {
    label: &'a str,
    /// The curves, each with the number of its line.
    curves: Vec<(usize, &'a Curve)>,
}

/// Writes, for each workload and latency, the distribution to its tail: a small picture for each load.
pub(super) fn distribution_figures(page: &mut Writer, report: &Report) {
    let mut pieces = PieceWriter::new(page);
    let mut any = false;
    for workload in workloads(report) {
        for row in distributions() {
            let panels = panels(&workload, row.key);
            if panels.iter().any(|panel| !panel.curves.is_empty()) {
                any = true;
                let slo = workload.slos().iter().find(|line| line.metric == row.key);
                let title = format!("{} ({})", row.long_title, row.title);
                pieces.add(|page| distribution_figure(page, &workload, &title, slo, &panels));
            }
        }
    }
    pieces.finish();
    if !any {
        let has_numbers = report.example_address().is_some();
        page.leaf("p", &[("class", "quiet")], if has_numbers { NO_DISTRIBUTIONS } else { NOTHING_MEASURED });
    }
}

/// The note if there are no views.
const NO_DISTRIBUTIONS: &str = "No distributions came with this report: the numbers of the table rest on them all the same.";

/// The note if no trial counts.
const NOTHING_MEASURED: &str = "No trial counts, so there is nothing to draw.";

/// Returns the loads of a workload in the order of the plan, each once for all cases.
fn panels<'a>(workload: &Workload<'a>, metric: &str) -> Vec<Panel<'a>> {
    let mut panels: Vec<Panel<'a>> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (line, case) in workload.cases.iter().enumerate() {
        let case: &'a CaseSection = case;
        for point in &case.points {
            let place = *places.entry(&point.label).or_insert_with(|| {
                panels.push(Panel { label: &point.label, curves: Vec::new() });
                panels.len() - 1
            });
            let curve = point.serving.as_ref().and_then(|load| load.curve(metric));
            if let (Some(panel), Some(curve)) = (panels.get_mut(place), curve) {
                panel.curves.push((line, curve));
            }
        }
    }
    panels
}

fn distribution_figure(page: &mut Writer, workload: &Workload<'_>, title: &str, slo: Option<&SloLine>, panels: &[Panel<'_>]) {
    let shown: Vec<&Panel<'_>> = evenly_spaced(panels, MAX_PANELS).collect();
    let curves = || shown.iter().flat_map(|panel| panel.curves.iter().map(|(_, curve)| *curve));
    let values = || curves().flat_map(|curve| curve.quantiles.iter().map(|(_, value)| *value));
    let largest = values().fold(0.0, f64::max);
    let slo = slo.filter(|slo| slo.limit_ms <= largest * MAX_SLO_RATIO);
    let Some(axis) = Axis::logarithmic(values().chain(slo.map(|slo| slo.limit_ms))) else { return };
    let decades = curves().map(tail_decades).fold(2.0, f64::max).min(5.0);
    page.element("figure", &[], |page| {
        page.element("figcaption", &[], |page| {
            page.leaf("h3", &[], &format!("{}: {title}", workload.name));
            page.leaf(
                "p",
                &[("class", "quiet")],
                &distribution_caption(workload, slo, shown.len(), panels.len(), curves().any(Curve::counts_failures)),
            );
        });
        key(page, &workload.names());
        page.element("div", &[("class", "small-plots")], |page| {
            for panel in &shown {
                write_distribution(page, workload, panel, &axis, decades, slo);
            }
        });
        distribution_data(page, workload, &shown);
    });
    page.newline();
}

/// Returns the decades of the tail that a curve resolves.
fn tail_decades(curve: &Curve) -> f64 {
    let (last, samples) =
        (curve.quantiles.last().map_or(0.0, |(probability, _)| *probability), (curve.n + curve.failed).max(1) as f64);
    -curve.share_above(last).max(1.0 / samples).log10()
}

fn distribution_caption(workload: &Workload<'_>, slo: Option<&SloLine>, shown: usize, all: usize, failures: bool) -> String {
    let parts = [
        Some("Milliseconds, logarithmic; upwards to the tail, each decade of requests that took longer the same height. All counted trials together, where the table's numbers are medians of the trials' own percentiles; all panels share their axes.".to_owned()),
        failures.then(|| "Failed requests lie beyond every value: a curve ends at their share.".to_owned()),
        slo.map(|slo| format!("The dashed line is the SLO, {}.", slo.text)),
        (all > shown).then(|| format!("{shown} of {all} loads, evenly chosen.")),
        workload.omission_note(),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn write_distribution(
    page: &mut Writer,
    workload: &Workload<'_>,
    panel: &Panel<'_>,
    axis: &Axis,
    decades: f64,
    slo: Option<&SloLine>,
) {
    page.element("div", &[("class", "small-plot")], |page| {
        page.leaf("p", &[("class", "axis-title")], panel.label);
        page.element("svg", &[("role", "img"), ("width", "100%"), ("height", &px(PANEL_HEIGHT))], |page| {
            page.leaf("title", &[], &distribution_title(workload, panel));
            let frame = Frame { height: PANEL_HEIGHT, x: axis, y: VerticalAxis::Tail(decades) };
            frame.write(page);
            if let Some(slo) = slo {
                let x = pc(axis.position(slo.limit_ms));
                page.shape("line", &[("class", "slo"), ("x1", &x), ("x2", &x), ("y1", "0"), ("y2", &px(PANEL_HEIGHT))]);
            }
            for (line, curve) in &panel.curves {
                write_curve(page, &frame, *line, curve);
            }
        });
        let missing: Vec<&str> = cases_without_curve(workload, panel).collect();
        if !missing.is_empty() {
            page.leaf("p", &[("class", "note quiet")], &format!("{}: no counted trial", missing.join(", ")));
        }
    });
}

/// Returns the cases that have this load and no curve for it.
fn cases_without_curve<'a>(workload: &'a Workload<'_>, panel: &'a Panel<'_>) -> impl Iterator<Item = &'a str> {
    let has_load = |case: &CaseSection| case.points.iter().any(|point| point.label == panel.label);
    let drawn = |line: usize| panel.curves.iter().any(|(known, _)| *known == line);
    let cases = workload.cases.iter().enumerate();
    cases.filter(move |(line, case)| has_load(case) && !drawn(*line)).map(|(_, case)| case.side.as_str())
}

fn write_curve(page: &mut Writer, frame: &Frame<'_>, line: usize, curve: &Curve) {
    let least = 1.0 / (curve.n + curve.failed).max(1) as f64;
    let points: Vec<(f64, f64)> =
        curve.quantiles.iter().map(|(probability, value)| (*value, curve.share_above(*probability).max(least))).collect();
    frame.curve(page, line, &points);
    if let Some((last, _)) = points.last().filter(|_| curve.counts_failures()) {
        let (x, y) = (pc(frame.x.position(*last)), frame.y(curve.failed_share()));
        let class = format!("ceiling {}", line_class(line));
        page.shape("line", &[("class", &class), ("x1", &x), ("x2", "100%"), ("y1", &px(y)), ("y2", &px(y))]);
        let text = failed_text(curve.failed_share());
        page.leaf("text", &[("class", "load"), ("x", "100%"), ("y", &px(y - 4.0)), ("text-anchor", "end")], &text);
    }
}

fn distribution_title(workload: &Workload<'_>, panel: &Panel<'_>) -> String {
    let curve = |(line, curve): &(usize, &Curve)| {
        let side = workload.cases.get(*line).map_or("", |case| case.side.as_str());
        let values = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99")];
        let values = values.iter().filter_map(|(p, name)| Some(format!("{name} {}", milliseconds(curve.value_at(*p)?))));
        let failed = if curve.counts_failures() { format!(", {} failed", curve.failed) } else { String::new() };
        format!("{side}: {} over {}{failed}", values.collect::<Vec<_>>().join(", "), counted(curve.n, "sample"))
    };
    let curves: Vec<_> = panel.curves.iter().map(curve).collect();
    format!("{}. {}", panel.label, if curves.is_empty() { "No counted trial".to_owned() } else { curves.join("; ") })
}

fn distribution_data(page: &mut Writer, workload: &Workload<'_>, panels: &[&Panel<'_>]) {
    let titles = [
        ("load", ""),
        ("case", ""),
        ("samples", "n"),
        ("failed", "n"),
        ("p50, ms", "n"),
        ("p90, ms", "n"),
        ("p99, ms", "n"),
        ("p99.9, ms", "n"),
    ];
    let titles = titles.map(|(title, class)| (title.to_owned(), class));
    let row = |label: &str, line: usize, curve: &Curve| {
        let mut cells = vec![
            label.to_owned(),
            workload.cases.get(line).map(|case| case.side.clone()).unwrap_or_default(),
            curve.n.to_string(),
        ];
        cells.push(if curve.counts_failures() || curve.failed == 0 { curve.failed.to_string() } else { "—".to_owned() });
        let value =
            |probability| curve.value_at(probability).map_or_else(|| "too few".to_owned(), |value| significant(value, None));
        cells.extend([0.5, 0.9, 0.99, 0.999].map(value));
        cells
    };
    let rows = panels.iter().flat_map(|panel| panel.curves.iter().map(|(line, curve)| row(panel.label, *line, curve)));
    data_table(page, &titles, &rows.collect::<Vec<_>>());
}

// Requests over time.

/// Writes, for each case, the requests of its first counted trial of some loads: a row for each request.
pub(super) fn timeline_figures(page: &mut Writer, report: &Report) {
    let mut pieces = PieceWriter::new(page);
    for case in report.cases.iter().filter(|case| case.serving.is_some()) {
        let drawable = case.points.iter().filter_map(|point| Some((point, point.serving.as_ref()?.timeline.as_ref()?)));
        let drawable: Vec<(&PointSection, &Timeline)> = drawable.collect();
        if !drawable.is_empty() {
            pieces.add(|page| timeline_figure(page, case, &drawable));
        }
    }
    pieces.finish();
}

/// Returns true if the report has a timeline to draw.
pub(super) fn has_timelines(report: &Report) -> bool {
    let loads = report.cases.iter().flat_map(|case| &case.points).filter_map(|point| point.serving.as_ref());
    loads.filter_map(|load: &Load| load.timeline.as_ref()).count() > 0
}

fn timeline_figure(page: &mut Writer, case: &CaseSection, drawable: &[(&PointSection, &Timeline)]) {
    let shown: Vec<_> = evenly_spaced(drawable, MAX_TIMELINES).collect();
    page.element("figure", &[], |page| {
        page.element("figcaption", &[], |page| {
            page.leaf("h3", &[], &format!("{} on {}", case.workload, case.side));
            let more = if shown.len() < drawable.len() {
                format!(" {} of {} loads, evenly chosen.", shown.len(), drawable.len())
            } else {
                String::new()
            };
            let text = format!(
                "Each row is a request: a thin line until its first token, a dot there, a thick line until its last. A cross ends a request that failed, a ring is one that was never sent. Seconds since the trial's start; each panel has its own axis.{more}"
            );
            page.leaf("p", &[("class", "quiet")], &text);
        });
        page.element("div", &[("class", "timelines")], |page| {
            for (point, timeline) in &shown {
                page.element("div", &[], |page| write_timeline(page, point, timeline));
            }
        });
    });
    page.newline();
}

/// Returns the last known instant of a request.
fn last_instant(request: &TimelineRequest) -> f64 {
    request.end_ms.or(request.first_ms).or(request.sent_ms).unwrap_or(request.start_ms)
}

fn write_timeline(page: &mut Writer, point: &PointSection, timeline: &Timeline) {
    let requests = &timeline.requests;
    let seconds = requests.iter().flat_map(|request| [request.start_ms, last_instant(request)]).map(|ms| ms / 1e3);
    let Some(axis) = Axis::spanning(seconds) else { return };
    let height = ROW_HEIGHT * requests.len() as f64 + 4.0;
    page.leaf("p", &[("class", "axis-title")], &point.label);
    page.element("div", &[("class", "timeline")], |page| {
        page.element("svg", &[("role", "img"), ("width", "100%"), ("height", &px(height))], |page| {
            let failed = requests.iter().filter(|request| request.outcome != "ok").count();
            page.leaf(
                "title",
                &[],
                &format!(
                    "{}, trial {}: {} in time, {failed} of those drawn failed",
                    point.label, timeline.trial, timeline.shown_text
                ),
            );
            timeline_axis(page, &axis, height);
            timeline_lines(page, requests, &axis, height);
            timeline_marks(page, requests, &axis);
        });
    });
    page.leaf("p", &[("class", "quiet note")], &format!("Trial {}: {}.", timeline.trial, timeline.shown_text));
    timeline_data(page, requests);
}

fn timeline_axis(page: &mut Writer, axis: &Axis, height: f64) {
    let ticks = axis.ticks();
    for (tick, label) in ticks.iter().zip(tick_labels(&ticks)) {
        let x = pc(axis.position(*tick));
        page.shape("line", &[("class", "grid"), ("x1", &x), ("x2", &x), ("y1", "0"), ("y2", &px(height))]);
        page.leaf("text", &[("x", &x), ("y", &px(height + 14.0))], &format!("{label} s"));
    }
}

fn row_y(row: usize) -> f64 {
    ROW_HEIGHT * (row as f64 + 0.5) + 2.0
}

/// Draws all lines of a timeline as three paths: waiting, receiving the response, and the dots between them.
fn timeline_lines(page: &mut Writer, requests: &[TimelineRequest], axis: &Axis, height: f64) {
    let x = |ms: f64| axis.position(ms / 1e3) * 10.0;
    let (mut waiting, mut responding, mut firsts, mut starts) = (String::new(), String::new(), String::new(), String::new());
    for (row, request) in requests.iter().enumerate() {
        let y = row_y(row);
        let (start, end) = (x(request.start_ms), x(last_instant(request)));
        let first = request.first_ms.map(x);
        let _ = write!(waiting, "M{} {}H{}", path_coordinate(start), path_coordinate(y), path_coordinate(first.unwrap_or(end)));
        let _ = write!(starts, "M{} {}v3", path_coordinate(start), path_coordinate(y - 1.5));
        if let Some(first) = first {
            let _ = write!(responding, "M{} {}H{}", path_coordinate(first), path_coordinate(y), path_coordinate(end));
            let _ = write!(firsts, "M{} {}h0", path_coordinate(first), path_coordinate(y));
        }
    }
    stretched(page, height, |page| {
        for (class, path) in [("waiting", waiting), ("waiting", starts), ("responding", responding), ("first", firsts)] {
            page.shape("path", &[("class", class), ("d", &path)]);
        }
    });
}

/// Marks requests that failed, by shape.
fn timeline_marks(page: &mut Writer, requests: &[TimelineRequest], axis: &Axis) {
    for (row, request) in requests.iter().enumerate().filter(|(_, request)| request.outcome != "ok") {
        let (x, y) = (pc(axis.position(last_instant(request) / 1e3)), px(row_y(row)));
        if request.sent_ms.is_none() {
            page.shape("circle", &[("class", "never-sent"), ("cx", &x), ("cy", &y), ("r", "3")]);
            continue;
        }
        page.element("svg", &[("x", &x), ("y", &y)], |page| {
            page.element("path", &[("class", "failed"), ("d", "M-3-3L3 3M-3 3L3-3")], |page| {
                page.leaf("title", &[], &format!("request {}: {}", request.index.0, request.outcome));
            });
        });
    }
}

fn timeline_data(page: &mut Writer, requests: &[TimelineRequest]) {
    let titles = [("request", "n"), ("start, ms", "n"), ("sent", "n"), ("first token", "n"), ("end", "n"), ("outcome", "")];
    let instant = |instant: Option<f64>| instant.map_or_else(|| "—".to_owned(), |ms| format!("{ms:.1}"));
    let row = |request: &TimelineRequest| {
        let instants = [Some(request.start_ms), request.sent_ms, request.first_ms, request.end_ms].map(instant);
        [vec![request.index.0.to_string()], instants.to_vec(), vec![request.outcome.clone()]].concat()
    };
    data_table(page, &titles.map(|(title, class)| (title.to_owned(), class)), &requests.iter().map(row).collect::<Vec<_>>());
}
