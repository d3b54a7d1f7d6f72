//! Requests over time: a row for each request of some loads.

use std::fmt::Write as _;

use assay_manifest::TimelineRequest;

use super::workload::PieceWriter;
use crate::render::html::table::data_table;
use crate::render::html::writer::Writer;
use crate::render::svg::axis::{Axis, tick_labels};
use crate::render::svg::plot::{path_coordinate, pc, px, stretched};
use crate::render::thinning::evenly_spaced;
use crate::run::model::Report;
use crate::run::model::load::Load;
use crate::run::model::outcome::has_failed;
use crate::run::model::section::{CaseSection, PointSection};
use crate::run::model::views::Timeline;

/// Maximum number of timelines of a case.
const MAX_TIMELINES: usize = 6;

const ROW_HEIGHT: f64 = 5.0;

/// Writes, for each case, the requests of its first counted trial of some loads: a row for each request.
pub(crate) fn timeline_figures(page: &mut Writer, report: &Report) {
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
pub(crate) fn has_timelines(report: &Report) -> bool {
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
            let failed = requests.iter().filter(|request| has_failed(request)).count();
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
    for (row, request) in requests.iter().enumerate().filter(|(_, request)| has_failed(request)) {
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
