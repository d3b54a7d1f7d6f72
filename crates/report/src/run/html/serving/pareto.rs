//! Tokens per second and GPU against the tokens per second of one user: for each workload, a line for each case and a mark for each
//! load. Upper right is better; no load that another one beats in both is worth its GPUs. There is a picture of the output tokens and one of all
//! tokens over all GPUs, and, if the GPUs have known roles, one of each role: input tokens over those that compute prompts, output tokens over the others.

use assay_metric::{Metric, Statistic};

use super::throughput::{CURVE_HEIGHT, Dot, MAX_DOTS, extent, write_labels, write_line};
use super::workload::Workload;
use crate::render::html::writer::Writer;
use crate::render::svg::axis::Axis;
use crate::render::svg::plot::{Frame, VerticalAxis, px};
use crate::render::thinning::evenly_spaced;
use crate::run::model::section::{CaseSection, PointSection};
use crate::run::model::serving::Column;

/// The metrics of a picture: that of one user, and that of one GPU.
#[derive(Clone, Copy)]
struct Axes {
    user: &'static Column,
    gpu: &'static Column,
}

impl Axes {
    fn long_title(self) -> &'static str {
        self.gpu.definition().long_title
    }
}

/// The metrics of one GPU, a picture each.
const OF_GPU: [Metric; 4] = [
    Metric::OutputThroughputPerGpu,
    Metric::TotalThroughputPerGpu,
    Metric::InputThroughputPerPrefillGpu,
    Metric::OutputThroughputPerDecodeGpu,
];

fn axes(of_gpu: Metric) -> Option<Axes> {
    Some(Axes { user: Metric::UserThroughput.name(Statistic::P50)?, gpu: of_gpu.name(Statistic::Value)? })
}

fn dots<'a>(case: &'a CaseSection, axes: Axes) -> Vec<Dot<'a>> {
    let dot =
        |point: &'a PointSection| Some(Dot { point, x: point.measured(axes.user.text)?, y: point.measured(axes.gpu.text)? });
    let all: Vec<Dot<'_>> = case.points.iter().filter_map(dot).collect();
    evenly_spaced(&all, MAX_DOTS).map(|dot| Dot { point: dot.point, x: dot.x, y: dot.y }).collect()
}

/// Writes the pictures that have two loads to compare.
pub(super) fn pareto_plots(page: &mut Writer, workload: &Workload<'_>) {
    OF_GPU.into_iter().filter_map(axes).for_each(|axes| pareto_plot(page, workload, axes));
}

fn pareto_plot(page: &mut Writer, workload: &Workload<'_>, axes: Axes) {
    let lines: Vec<Vec<Dot<'_>>> = workload.cases.iter().map(|case| dots(case, axes)).collect();
    let all = || lines.iter().flatten();
    if all().count() < 2 {
        return;
    }
    let x = Axis::from_zero(all().flat_map(|dot| extent(dot.x)));
    let y = Axis::from_zero(all().flat_map(|dot| extent(dot.y)));
    let (Some(x), Some(y)) = (x, y) else { return };
    page.element("div", &[("class", "plot")], |page| {
        page.leaf("p", &[("class", "axis-title")], &format!("{} ({})", axes.long_title(), y.describe()));
        page.element("svg", &[("role", "img"), ("width", "100%"), ("height", &px(CURVE_HEIGHT))], |page| {
            page.leaf("title", &[], &title(workload, axes, &lines));
            let frame = Frame { height: CURVE_HEIGHT, x: &x, y: VerticalAxis::Values(&y) };
            frame.write(page);
            for (line, dots) in lines.iter().enumerate() {
                write_line(page, &frame, line, dots, &axes.gpu.title());
            }
            write_labels(page, &frame, workload, &lines, None);
        });
        page.leaf("p", &[("class", "axis-title below")], "tokens/s of a user, p50");
    });
}

/// Returns the reason why there is no picture although several loads have a rate of a user; `None` if there is one.
pub(super) fn missing_pareto(workload: &Workload<'_>) -> Option<String> {
    let axes = axes(Metric::OutputThroughputPerGpu)?;
    if workload.cases.iter().any(|case| !dots(case, axes).is_empty()) {
        return None;
    }
    let Axes { user, gpu } = axes;
    let points = workload.cases.iter().flat_map(|case| &case.points).filter(|point| point.measured(user.text).is_some());
    let points: Vec<&PointSection> = points.collect();
    let why = points.iter().find_map(|point| point.row(gpu.text)?.measured.as_ref().err()).filter(|_| points.len() > 1)?;
    Some(format!("Output tokens/s per GPU against the tokens/s of a user are not drawn: {why}."))
}

fn title(workload: &Workload<'_>, axes: Axes, lines: &[Vec<Dot<'_>>]) -> String {
    let (per_gpu, drawn) = (axes.gpu.title(), axes.long_title());
    let line = |(case, dots): (&&CaseSection, &Vec<Dot<'_>>)| {
        let dot = |dot: &Dot<'_>| {
            format!("{}: {} {per_gpu} at {} tokens/s/user", dot.point.label, dot.y.median_text, dot.x.median_text)
        };
        format!("{}: {}", case.side, dots.iter().map(dot).collect::<Vec<_>>().join("; "))
    };
    let lines: Vec<_> = workload.cases.iter().zip(lines).map(line).collect();
    format!("{}, {drawn} against tokens/s of a user. {}", workload.name, lines.join(". "))
}
