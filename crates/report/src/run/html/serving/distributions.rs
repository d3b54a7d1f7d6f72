//! Latency distributions to their tails: for each workload and latency, a small picture for each load.

use std::collections::BTreeMap;

use assay_metric::{Definition, Metric, Use};

use super::workload::{MAX_PANELS, MAX_SLO_RATIO, PieceWriter, Workload, workloads};
use crate::render::html::folded;
use crate::render::html::table::data_table;
use crate::render::html::writer::Writer;
use crate::render::number::{milliseconds, percent, significant};
use crate::render::svg::axis::Axis;
use crate::render::svg::plot::{Frame, VerticalAxis, key, line_class, pc, px};
use crate::render::text::counted;
use crate::render::thinning::evenly_spaced;
use crate::run::model::Report;
use crate::run::model::section::CaseSection;
use crate::run::model::views::Curve;
use crate::run::model::work::SloLine;

const PANEL_HEIGHT: f64 = 130.0;

/// Returns the metrics whose distributions are drawn, in the order of the page.
fn distributions() -> impl Iterator<Item = &'static Definition> {
    Metric::ALL.iter().filter(|metric| metric.has_use(Use::Curve)).map(|metric| metric.definition())
}

/// A small picture of a load: the curve of each case that has one.
struct Panel<'a> {
    label: &'a str,
    /// The curves, each with the number of its line.
    curves: Vec<(usize, &'a Curve)>,
}

/// Writes, for each workload and latency, the distribution to its tail: a small picture for each load.
pub(crate) fn distribution_figures(page: &mut Writer, report: &Report) {
    let mut pieces = PieceWriter::new(page);
    let mut any = false;
    for workload in workloads(report) {
        let mut is_first = true;
        for row in distributions() {
            let panels = panels(&workload, row.key);
            if panels.iter().any(|panel| !panel.curves.is_empty()) {
                any = true;
                let slo = workload.slos().iter().find(|line| line.metric.definition().key == row.key);
                let title = format!("{} ({})", row.long_title, row.title);
                let write = |page: &mut Writer| distribution_figure(page, &workload, &title, slo, &panels);
                // The first latency is open; a small screen would be full of the others.
                pieces
                    .add(|page| if is_first { write(page) } else { folded(page, &format!("{}: {title}", workload.name), write) });
                is_first = false;
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

/// Returns `2.1 % failed`.
fn failed_text(share: f64) -> String {
    format!("{} failed", percent(share))
}
