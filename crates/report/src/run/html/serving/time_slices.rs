//! The trials of each load over time: throughput and latency in time slices of their windows, so that a change within a trial is seen.

use super::workload::PieceWriter;
use crate::render::html::folded;
use crate::render::html::table::data_table;
use crate::render::html::writer::Writer;
use crate::render::number::significant;
use crate::render::svg::axis::Axis;
use crate::render::svg::plot::{Frame, VerticalAxis, key, pc, px};
use crate::render::text::counted;
use crate::render::thinning::evenly_spaced;
use crate::run::model::Report;
use crate::run::model::section::{CaseSection, PointSection};
use crate::run::model::time_slices::{SlicedTrial, TimeSlice, TimeSlices};

/// Maximum number of loads of a case that are drawn.
const MAX_LOADS: usize = 6;

/// The number of loads that are open, the lowest and the highest; the others are folded, because a small screen would be full of them.
const OPEN_LOADS: usize = 2;

/// The height of a picture, in CSS pixels.
const HEIGHT: f64 = 60.0;

/// The line of the 99th percentile, and of the rate.
const TAIL: usize = 0;

/// The line of the median.
const MEDIAN: usize = 1;

/// Writes, for each case, the trials of some loads over time.
pub(crate) fn time_slice_figures(page: &mut Writer, report: &Report) {
    let mut pieces = PieceWriter::new(page);
    let mut is_first = true;
    for case in report.cases.iter().filter(|case| case.serving.is_some()) {
        let drawable: Vec<(&PointSection, &TimeSlices)> = sliced_loads(case).collect();
        if drawable.is_empty() {
            continue;
        }
        let title = format!("{} on {}", case.workload, case.side);
        let write = |page: &mut Writer| slice_figure(page, &title, &drawable);
        // The first case is open.
        pieces.add(|page| if is_first { write(page) } else { folded(page, &title, write) });
        is_first = false;
    }
    pieces.finish();
}

/// Returns true if the report has a load to draw over time.
pub(crate) fn has_time_slices(report: &Report) -> bool {
    report.cases.iter().any(|case| sliced_loads(case).next().is_some())
}

fn sliced_loads(case: &CaseSection) -> impl Iterator<Item = (&PointSection, &TimeSlices)> {
    case.points.iter().filter_map(|point| Some((point, point.serving.as_ref()?.time_slices.as_ref()?)))
}

fn slice_figure(page: &mut Writer, title: &str, drawable: &[(&PointSection, &TimeSlices)]) {
    let shown: Vec<_> = evenly_spaced(drawable, MAX_LOADS).copied().collect();
    let has_latency = shown.iter().any(|(_, slices)| slices.slices().any(|slice| slice.latency_ms.is_some()));
    page.element("figure", &[], |page| {
        page.element("figcaption", &[], |page| {
            page.leaf("h3", &[], title);
            page.leaf("p", &[("class", "quiet")], &caption(&shown, drawable.len()));
        });
        if has_latency {
            key(page, &["99th percentile", "median"]);
        }
        let ends: Vec<_> = evenly_spaced(&shown, OPEN_LOADS).copied().collect();
        let is_open = |load: &(&PointSection, &TimeSlices)| ends.iter().any(|(point, _)| std::ptr::eq(*point, load.0));
        let (open, others): (Vec<_>, Vec<_>) = shown.iter().copied().partition(is_open);
        write_loads(page, &open);
        if !others.is_empty() {
            folded(page, &counted(others.len() as u64, "more load"), |page| write_loads(page, &others));
        }
        slice_data(page, &shown);
    });
    page.newline();
}

fn caption(shown: &[(&PointSection, &TimeSlices)], all: usize) -> String {
    let latency = shown.first().map_or("latency", |(_, slices)| slices.latency.as_str());
    let parts = [
        Some(format!(
            "The window of each counted trial in time slices of equal length: the throughput of responses that ended in a slice, and the {latency} of \
             requests whose {latency} ended in it. A line for each trial, over seconds of its window; every vertical axis starts at zero and is its own."
        )),
        shown
            .iter()
            .any(|(_, slices)| slices.slices().any(|slice| slice.failed > 0))
            .then(|| "A cross is a slice in which requests failed.".to_owned()),
        shown
            .iter()
            .any(|(_, slices)| slices.all_trials > slices.trials.len())
            .then(|| "Of many trials, some evenly chosen ones are drawn.".to_owned()),
        (all > shown.len()).then(|| format!("{} of {all} loads, evenly chosen.", shown.len())),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn write_loads(page: &mut Writer, loads: &[(&PointSection, &TimeSlices)]) {
    page.element("div", &[("class", "slices")], |page| {
        for (point, slices) in loads {
            write_load(page, point, slices);
        }
    });
}

fn write_load(page: &mut Writer, point: &PointSection, slices: &TimeSlices) {
    let Some(x) = Axis::spanning(slices.slices().flat_map(|slice| [slice.from_s, slice.to_s])) else { return };
    page.element("div", &[], |page| {
        page.leaf("p", &[("class", "axis-title")], &point.label);
        page.element("div", &[("class", "slice-pair")], |page| {
            let rate = |slice: &TimeSlice| Some(slice.rate);
            write_plot(page, slices, &x, slices.rate_unit, &[(TAIL, &rate)]);
            let quantile = |place: usize| move |slice: &TimeSlice| slice.latency_ms.and_then(|values| values.get(place).copied());
            let title = format!("{}, ms", slices.latency);
            write_plot(page, slices, &x, &title, &[(MEDIAN, &quantile(0)), (TAIL, &quantile(1))]);
        });
    });
}

/// A value of a slice; `None` if it has none.
type SliceValue<'a> = &'a dyn Fn(&TimeSlice) -> Option<f64>;

/// Writes a picture of some values of each slice, a step line for each trial, and marks the slices in which requests failed.
fn write_plot(page: &mut Writer, slices: &TimeSlices, x: &Axis, title: &str, values: &[(usize, SliceValue<'_>)]) {
    let all = values.iter().flat_map(|(_, value)| slices.slices().filter_map(*value));
    let Some(y) = Axis::from_zero(all) else { return };
    page.element("div", &[("class", "small-plot")], |page| {
        page.leaf("p", &[("class", "axis-title quiet")], title);
        page.element("svg", &[("role", "img"), ("width", "100%"), ("height", &px(HEIGHT))], |page| {
            page.leaf("title", &[], &plot_title(slices, title, values));
            let frame = Frame { height: HEIGHT, x, y: VerticalAxis::Values(&y) };
            frame.write(page);
            for (line, value) in values {
                slices.trials.iter().flat_map(|trial| steps(trial, *value)).for_each(|run| frame.curve(page, *line, &run));
            }
            write_failures(page, slices, &frame);
        });
    });
}

/// Returns the step lines of a trial: a level for each slice, and a new line after a slice without a value.
fn steps(trial: &SlicedTrial, value: SliceValue<'_>) -> Vec<Vec<(f64, f64)>> {
    let mut lines: Vec<Vec<(f64, f64)>> = vec![Vec::new()];
    for slice in &trial.slices {
        match (value(slice), lines.last_mut()) {
            (Some(level), Some(line)) => line.extend([(slice.from_s, level), (slice.to_s, level)]),
            _ => lines.push(Vec::new()),
        }
    }
    lines.retain(|line| !line.is_empty());
    lines
}

/// Marks the slices in which requests of any drawn trial failed, at the upper edge.
fn write_failures(page: &mut Writer, slices: &TimeSlices, frame: &Frame<'_>) {
    let most = slices.trials.iter().map(|trial| trial.slices.len()).max().unwrap_or(0);
    for place in 0..most {
        let of_place = || slices.trials.iter().filter_map(|trial| trial.slices.get(place)).filter(|slice| slice.failed > 0);
        let failed = of_place().fold(0_u64, |sum, slice| sum.saturating_add(slice.failed));
        let Some(first) = of_place().next() else { continue };
        let x = pc(frame.x.position(f64::midpoint(first.from_s, first.to_s)));
        page.element("svg", &[("x", &x), ("y", "4")], |page| {
            page.element("path", &[("class", "slice-failed"), ("d", "M-3-3L3 3M-3 3L3-3")], |page| {
                page.leaf("title", &[], &format!("slice {}: {} failed", place + 1, counted(failed, "request")));
            });
        });
    }
}

/// Describes a picture: each value's range over all slices and trials.
fn plot_title(slices: &TimeSlices, title: &str, values: &[(usize, SliceValue<'_>)]) -> String {
    let range = |value: SliceValue<'_>| {
        let found: Vec<f64> = slices.slices().filter_map(value).collect();
        let (low, high) = found.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), each| (low.min(*each), high.max(*each)));
        if found.is_empty() { "none".to_owned() } else { format!("{} to {}", significant(low, None), significant(high, None)) }
    };
    let ranges: Vec<String> = values
        .iter()
        .map(|(line, value)| match (*line, values.len()) {
            (_, 1) => range(*value),
            (MEDIAN, _) => format!("median {}", range(*value)),
            _ => format!("99th percentile {}", range(*value)),
        })
        .collect();
    format!("{title} in the slices of {}: {}", counted(slices.trials.len() as u64, "trial"), ranges.join(", "))
}

/// Writes a row for each trial, with the values of its slices in their order.
fn slice_data(page: &mut Writer, shown: &[(&PointSection, &TimeSlices)]) {
    let latency = shown.first().map_or("latency", |(_, slices)| slices.latency.as_str());
    let titles =
        ["load", "trial", "slice, s", "throughput/s", &format!("{latency} p50, ms"), &format!("{latency} p99, ms"), "failed"]
            .map(|title| (title.to_owned(), ""));
    let list =
        |trial: &SlicedTrial, text: &dyn Fn(&TimeSlice) -> String| trial.slices.iter().map(text).collect::<Vec<_>>().join(" ");
    let number = |value: Option<f64>| value.map_or_else(|| "—".to_owned(), |value| significant(value, None));
    let row = |point: &PointSection, trial: &SlicedTrial| {
        vec![
            point.label.clone(),
            trial.trial.clone(),
            number(trial.slices.first().map(|slice| slice.to_s)),
            list(trial, &|slice| significant(slice.rate, None)),
            list(trial, &|slice| number(slice.latency_ms.map(|[p50, _]| p50))),
            list(trial, &|slice| number(slice.latency_ms.map(|[_, p99]| p99))),
            list(trial, &|slice| slice.failed.to_string()),
        ]
    };
    let rows = shown.iter().flat_map(|(point, slices)| slices.trials.iter().map(move |trial| row(point, trial)));
    data_table(page, &titles, &rows.collect::<Vec<_>>());
}
