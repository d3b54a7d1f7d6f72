//! Throughput against latency: for each workload, a line for each case and a mark for each load.

use super::pareto::{missing_pareto, pareto_plots};
use super::workload::{MAX_PANELS, MAX_SLO_RATIO, PieceWriter, Workload, workloads};
use crate::render::html::table::data_table;
use crate::render::html::writer::Writer;
use crate::render::svg::axis::Axis;
use crate::render::svg::plot::{Frame, Labels, VerticalAxis, key, line_class, pc, px};
use crate::render::thinning::evenly_spaced;
use crate::run::model::Report;
use crate::run::model::section::{CaseSection, MetricStatistics, PointSection};
use crate::run::model::serving::{Column, drawn_latencies, is_solid, throughput, throughput_unit};
use crate::run::model::work::SloLine;

/// Maximum number of loads on a line of the throughput picture.
pub(super) const MAX_DOTS: usize = 60;

/// Heights of the pictures, in CSS pixels.
pub(super) const CURVE_HEIGHT: f64 = 230.0;

/// Writes, for each workload, latency over throughput: a line for each case and a mark for each load.
pub(crate) fn throughput_figures(page: &mut Writer, report: &Report) {
    let mut pieces = PieceWriter::new(page);
    for workload in workloads(report) {
        pieces.add(|page| throughput_figure(page, &workload));
    }
    pieces.finish();
}

/// The mark of a load in the picture.
pub(super) struct Dot<'a> {
    pub(super) point: &'a PointSection,
    pub(super) x: &'a MetricStatistics,
    pub(super) y: &'a MetricStatistics,
}

fn dots<'a>(case: &'a CaseSection, metric: &Column) -> Vec<Dot<'a>> {
    let dot = |point: &'a PointSection| Some(Dot { point, x: throughput(point)?.1, y: point.measured(metric.text)? });
    case.points.iter().filter_map(dot).collect()
}

fn throughput_figure(page: &mut Writer, workload: &Workload<'_>) {
    let has_dots = |metric: &&Column| workload.cases.iter().any(|case| !dots(case, metric).is_empty());
    let metrics: Vec<&Column> = drawn_latencies().filter(has_dots).collect();
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
            pareto_plots(page, workload);
        });
        if metrics.is_empty() {
            page.leaf("p", &[("class", "quiet")], "No load has a counted trial, so there is nothing to draw.");
        }
        if let Some(why) = missing_pareto(workload) {
            page.leaf("p", &[("class", "quiet")], &why);
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

fn throughput_plot(page: &mut Writer, workload: &Workload<'_>, metric: &Column) {
    let lines: Vec<Vec<Dot<'_>>> = workload
        .cases
        .iter()
        .map(|case| {
            let all = dots(case, metric);
            let kept: Vec<_> = evenly_spaced(&all, MAX_DOTS).map(|dot| Dot { point: dot.point, x: dot.x, y: dot.y }).collect();
            kept
        })
        .collect();
    let slo = workload.slos().iter().find(|slo| slo.metric == metric.metric);
    let all = || lines.iter().flatten();
    let largest = all().map(|dot| dot.y.median).fold(0.0, f64::max);
    let drawn_slo = slo.filter(|slo| slo.limit_ms <= largest * MAX_SLO_RATIO);
    let x = Axis::from_zero(all().flat_map(|dot| extent(dot.x)));
    let y = Axis::holding(all().flat_map(|dot| extent(dot.y)).chain(drawn_slo.map(|slo| slo.limit_ms)));
    let (Some(x), Some(y)) = (x, y) else { return };
    let unit = all().find_map(|dot| throughput(dot.point)).map_or_else(String::new, |(rate, _)| throughput_unit(rate));
    let name = metric.title();
    page.element("div", &[("class", "plot")], |page| {
        let beyond =
            slo.filter(|_| drawn_slo.is_none()).map(|slo| format!("; its SLO, {}, lies far above", slo.text)).unwrap_or_default();
        page.leaf("p", &[("class", "axis-title")], &format!("{name}, ms ({}){beyond}", y.describe()));
        page.element("svg", &[("role", "img"), ("width", "100%"), ("height", &px(CURVE_HEIGHT))], |page| {
            page.leaf("title", &[], &throughput_title(workload, &lines, &name, &unit));
            let frame = Frame { height: CURVE_HEIGHT, x: &x, y: VerticalAxis::Values(&y) };
            frame.write(page);
            if let Some(slo) = drawn_slo {
                slo_across(page, &frame, slo);
            }
            for (line, dots) in lines.iter().enumerate() {
                write_line(page, &frame, line, dots, "ms");
            }
            write_labels(page, &frame, workload, &lines, drawn_slo);
        });
        page.leaf("p", &[("class", "axis-title below")], &unit);
    });
}

pub(super) fn extent(measured: &MetricStatistics) -> impl Iterator<Item = f64> {
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

/// Writes the line of a case with its marks; `unit` is that of the vertical axis.
pub(super) fn write_line(page: &mut Writer, frame: &Frame<'_>, line: usize, dots: &[Dot<'_>], unit: &str) {
    page.element("g", &[("class", line_class(line))], |page| {
        for pair in dots.windows(2) {
            let [from, to] = pair else { continue };
            let at = |dot: &Dot<'_>| (pc(frame.x.position(dot.x.median)), px(frame.y(dot.y.median)));
            let ((x1, y1), (x2, y2)) = (at(from), at(to));
            page.shape("line", &[("class", "line"), ("x1", &x1), ("x2", &x2), ("y1", &y1), ("y2", &y2)]);
        }
        for dot in dots {
            write_dot(page, frame, dot, unit);
        }
    });
}

fn write_dot(page: &mut Writer, frame: &Frame<'_>, dot: &Dot<'_>, unit: &str) {
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
        page.leaf(
            "title",
            &[],
            &format!("{}: {} {unit} {interval} at {}", dot.point.label, dot.y.median_text, dot.x.median_text),
        );
    });
}

/// Writes the load beside each mark; the last one of a line also has the line's name.
pub(super) fn write_labels(
    page: &mut Writer,
    frame: &Frame<'_>,
    workload: &Workload<'_>,
    lines: &[Vec<Dot<'_>>],
    slo: Option<&SloLine>,
) {
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

fn throughput_data(page: &mut Writer, workload: &Workload<'_>, metrics: &[&Column]) {
    let mut titles =
        vec![("case".to_owned(), ""), ("load".to_owned(), ""), ("throughput".to_owned(), "n"), ("interval".to_owned(), "")];
    for metric in metrics {
        titles.extend([(format!("{}, ms", metric.title()), "n"), ("interval".to_owned(), "")]);
    }
    let rows = workload.cases.iter().flat_map(|case| evenly_spaced(&case.points, MAX_DOTS).map(move |point| (case, point)));
    let rows = rows.filter_map(|(case, point)| {
        let (_, rate) = throughput(point)?;
        let mut cells = vec![case.side.clone(), point.label.clone()];
        for found in [Some(rate)].into_iter().chain(metrics.iter().map(|metric| point.measured(metric.text))) {
            cells.push(found.map_or("absent", |found| &found.median_text).to_owned());
            let interval = found.and_then(|found| found.interval.as_ref().ok()).map_or("none", |ends| &ends.text);
            cells.push(interval.to_owned());
        }
        Some(cells)
    });
    data_table(page, &titles, &rows.collect::<Vec<_>>());
}
