//! Output tokens per second and GPU against the tokens per second of one user: for each workload, a line for each case and a mark for each
//! load. Upper right is better; no load that another one beats in both is worth its GPUs.

use assay_metric::{Metric, Statistic};

use super::throughput::{CURVE_HEIGHT, Dot, MAX_DOTS, extent, write_labels, write_line};
use super::workload::Workload;
use crate::render::html::writer::Writer;
use crate::render::svg::axis::Axis;
use crate::render::svg::plot::{Frame, VerticalAxis, px};
use crate::render::thinning::evenly_spaced;
use crate::run::model::section::{CaseSection, PointSection};
use crate::run::model::serving::Column;

/// Returns the metrics of both axes: that of one user, and that of one GPU.
fn axes() -> Option<[&'static Column; 2]> {
    Some([Metric::UserThroughput.name(Statistic::P50)?, Metric::OutputThroughputPerGpu.name(Statistic::Value)?])
}

fn dots<'a>(case: &'a CaseSection, [user, gpu]: [&Column; 2]) -> Vec<Dot<'a>> {
    let dot = |point: &'a PointSection| Some(Dot { point, x: point.measured(user.text)?, y: point.measured(gpu.text)? });
    let all: Vec<Dot<'_>> = case.points.iter().filter_map(dot).collect();
    evenly_spaced(&all, MAX_DOTS).map(|dot| Dot { point: dot.point, x: dot.x, y: dot.y }).collect()
}

/// Writes the picture, if it has two loads to compare.
pub(super) fn pareto_plot(page: &mut Writer, workload: &Workload<'_>) {
    let Some(axes) = axes() else { return };
    let lines: Vec<Vec<Dot<'_>>> = workload.cases.iter().map(|case| dots(case, axes)).collect();
    let all = || lines.iter().flatten();
    if all().count() < 2 {
        return;
    }
    let x = Axis::from_zero(all().flat_map(|dot| extent(dot.x)));
    let y = Axis::from_zero(all().flat_map(|dot| extent(dot.y)));
    let (Some(x), Some(y)) = (x, y) else { return };
    page.element("div", &[("class", "plot")], |page| {
        page.leaf("p", &[("class", "axis-title")], &format!("output tokens/s per GPU ({})", y.describe()));
        page.element("svg", &[("role", "img"), ("width", "100%"), ("height", &px(CURVE_HEIGHT))], |page| {
            page.leaf("title", &[], &title(workload, &lines));
            let frame = Frame { height: CURVE_HEIGHT, x: &x, y: VerticalAxis::Values(&y) };
            frame.write(page);
            for (line, dots) in lines.iter().enumerate() {
                write_line(page, &frame, line, dots, "tokens/s/GPU");
            }
            write_labels(page, &frame, workload, &lines, None);
        });
        page.leaf("p", &[("class", "axis-title below")], "tokens/s of a user, p50");
    });
}

/// Returns the reason why there is no picture although several loads have a rate of a user; `None` if there is one.
pub(super) fn missing_pareto(workload: &Workload<'_>) -> Option<String> {
    let axes = axes()?;
    if workload.cases.iter().any(|case| !dots(case, axes).is_empty()) {
        return None;
    }
    let [user, gpu] = axes;
    let points = workload.cases.iter().flat_map(|case| &case.points).filter(|point| point.measured(user.text).is_some());
    let points: Vec<&PointSection> = points.collect();
    let why = points.iter().find_map(|point| point.row(gpu.text)?.measured.as_ref().err()).filter(|_| points.len() > 1)?;
    Some(format!("Output tokens/s per GPU against the tokens/s of a user are not drawn: {why}."))
}

fn title(workload: &Workload<'_>, lines: &[Vec<Dot<'_>>]) -> String {
    let line = |(case, dots): (&&CaseSection, &Vec<Dot<'_>>)| {
        let dot = |dot: &Dot<'_>| {
            format!("{}: {} tokens/s/GPU at {} tokens/s/user", dot.point.label, dot.y.median_text, dot.x.median_text)
        };
        format!("{}: {}", case.side, dots.iter().map(dot).collect::<Vec<_>>().join("; "))
    };
    let lines: Vec<_> = workload.cases.iter().zip(lines).map(line).collect();
    format!("{}, output tokens/s per GPU against tokens/s of a user. {}", workload.name, lines.join(". "))
}
