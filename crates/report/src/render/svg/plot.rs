//! The common parts of all two-dimensional pictures: a frame with ticks, the style of each line, and labels that do not collide.
//!
//! Text and marks have positions in percent of the width, so that they keep their size on every screen; curves are paths in a nested
//! drawing that stretches, while their strokes keep their width.

use std::fmt::Write as _;

use super::axis::{Axis, tick_labels};
use crate::render::html::writer::Writer;

/// Maximum number of lines in one picture: a fifth would have to share a colour and a dash.
pub(crate) const MAX_LINES: usize = 4;

/// The width of the nested drawing that paths are drawn in.
const PATH_WIDTH: f64 = 1_000.0;

/// The smallest width of a picture, in CSS pixels: labels that do not collide here do not collide on a wider picture.
const NARROWEST: f64 = 250.0;

/// The width and height of a label's letter, in CSS pixels.
const LETTER: (f64, f64) = (6.8, 13.0);

/// The frame of a picture: a horizontal axis in percent of the width, a vertical one in pixels.
pub(crate) struct Frame<'a> {
    pub(crate) height: f64,
    pub(crate) x: &'a Axis,
    pub(crate) y: VerticalAxis<'a>,
}

/// The vertical axis.
pub(crate) enum VerticalAxis<'a> {
    /// Values, the largest on top.
    Values(&'a Axis),
    /// The share of requests that took longer, logarithmic, the smallest share on top; holds the number of decades.
    Tail(f64),
}

impl Frame<'_> {
    /// Returns the height of a value, from the top, in pixels.
    pub(crate) fn y(&self, value: f64) -> f64 {
        match &self.y {
            VerticalAxis::Values(axis) => self.height * (1.0 - axis.position(value) / 100.0),
            VerticalAxis::Tail(decades) => self.height * (1.0 - (-value.log10() / decades).clamp(0.0, 1.0)),
        }
    }

    /// Draws lines and labels of both axes.
    pub(crate) fn write(&self, page: &mut Writer) {
        self.rows(page);
        let (ticks, bottom) = (self.x.ticks(), px(self.height));
        for (tick, label) in ticks.iter().zip(tick_labels(&ticks)) {
            let x = pc(self.x.position(*tick));
            page.shape("line", &[("class", "grid"), ("x1", &x), ("x2", &x), ("y1", "0"), ("y2", &bottom)]);
            page.leaf("text", &[("x", &x), ("y", &px(self.height + 15.0))], &label);
        }
    }

    /// Draws lines and labels of the vertical axis.
    pub(crate) fn rows(&self, page: &mut Writer) {
        for (value, label) in self.y_ticks() {
            let y = px(self.y(value));
            page.shape("line", &[("class", "grid"), ("x1", "0"), ("x2", "100%"), ("y1", &y), ("y2", &y)]);
            page.leaf("text", &[("class", "y"), ("x", "-6"), ("y", &y), ("dy", ".35em")], &label);
        }
    }

    fn y_ticks(&self) -> Vec<(f64, String)> {
        match &self.y {
            VerticalAxis::Values(axis) => axis.ticks().iter().copied().zip(tick_labels(&axis.ticks())).collect(),
            VerticalAxis::Tail(decades) => {
                let named = [(1.0, "p0"), (0.5, "p50"), (0.1, "p90"), (0.01, "p99"), (0.001, "p99.9"), (1e-4, "p99.99")];
                named
                    .into_iter()
                    .filter(|(share, _): &(f64, _)| -share.log10() <= *decades)
                    .map(|(share, name)| (share, name.to_owned()))
                    .collect()
            }
        }
    }

    /// Draws a curve through the points, in the line's colour and dash.
    pub(crate) fn curve(&self, page: &mut Writer, line: usize, points: &[(f64, f64)]) {
        let mut path = String::new();
        for (x, y) in points {
            path.push(if path.is_empty() { 'M' } else { 'L' });
            let _ = write!(path, "{} {}", path_coordinate(self.x.position(*x) / 100.0 * PATH_WIDTH), path_coordinate(self.y(*y)));
        }
        stretched(page, self.height, |page| {
            page.shape("path", &[("class", &format!("line {}", line_class(line))), ("d", &path)]);
        });
    }
}

/// Writes a nested drawing as wide as the picture, `height` pixels high, whose horizontal unit is a thousandth of the width.
pub(crate) fn stretched(page: &mut Writer, height: f64, inside: impl FnOnce(&mut Writer)) {
    let (height, view) = (px(height), format!("0 0 {PATH_WIDTH} {}", px(height)));
    page.element("svg", &[("width", "100%"), ("height", &height), ("viewBox", &view), ("preserveAspectRatio", "none")], inside);
}

/// Returns the class that gives a line its colour and dash.
pub(crate) fn line_class(line: usize) -> &'static str {
    ["s0", "s1", "s2", "s3"][line % MAX_LINES]
}

/// Writes the names of the lines with a sample of each, if there are several.
pub(crate) fn key(page: &mut Writer, names: &[&str]) {
    if names.len() < 2 {
        return;
    }
    page.element("ul", &[("class", "key")], |page| {
        for (line, name) in names.iter().enumerate() {
            page.element("li", &[], |page| {
                page.element("svg", &[("width", "30"), ("height", "10"), ("aria-hidden", "true")], |page| {
                    let class = format!("line {}", line_class(line));
                    page.shape("line", &[("class", &class), ("x1", "0"), ("x2", "30"), ("y1", "5"), ("y2", "5")]);
                });
                page.text(name);
            });
        }
    });
}

/// Labels that do not collide: each takes the first free place around its mark, and is left out if there is none.
#[derive(Default)]
pub(crate) struct Labels {
    taken: Vec<[f64; 4]>,
}

impl Labels {
    /// Keeps `radius` pixels around a mark free.
    pub(crate) fn keep_clear(&mut self, x_percent: f64, y: f64, radius: f64) {
        let x = x_percent / 100.0 * NARROWEST;
        self.taken.push([x - radius, y - radius, x + radius, y + radius]);
    }

    /// Writes `text` beside the mark at `x_percent`, `y`.
    pub(crate) fn write(&mut self, page: &mut Writer, class: &str, (x_percent, y): (f64, f64), text: &str) {
        let x = x_percent / 100.0 * NARROWEST;
        let (width, height) = (text.chars().count() as f64 * LETTER.0, LETTER.1);
        let places = [
            ("start", 8.0, -7.0),
            ("end", -8.0, -7.0),
            ("start", 8.0, 15.0),
            ("end", -8.0, 15.0),
            ("middle", 0.0, -12.0),
            ("middle", 0.0, 20.0),
        ];
        for (anchor, dx, dy) in places {
            let left = match anchor {
                "start" => x + dx,
                "end" => x + dx - width,
                _ => x - width / 2.0,
            };
            let place = [left, y + dy - height + 2.0, left + width, y + dy + 2.0];
            let inside = place[0] >= 0.0 && place[2] <= NARROWEST && place[1] >= -4.0;
            if inside && !self.taken.iter().any(|taken| overlap(taken, &place)) {
                self.taken.push(place);
                let (x, y) = (pc(x_percent), px(y + dy));
                page.leaf("text", &[("class", class), ("x", &x), ("dx", &px(dx)), ("y", &y), ("text-anchor", anchor)], text);
                return;
            }
        }
    }
}

fn overlap(one: &[f64; 4], other: &[f64; 4]) -> bool {
    one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3]
}

/// Draws vertical lines at the ticks of an axis.
pub(crate) fn grid(page: &mut Writer, axis: &Axis, height: f64) {
    for tick in axis.ticks() {
        let at = pc(axis.position(tick));
        page.shape("line", &[("class", "grid"), ("x1", &at), ("x2", &at), ("y1", "0"), ("y2", &px(height))]);
    }
}

/// Draws the labels of an axis, as a separate drawing below its picture.
pub(crate) fn labels(page: &mut Writer, axis: &Axis) {
    page.element("svg", &[("height", "18"), ("width", "100%")], |page| {
        let ticks = axis.ticks();
        for (tick, label) in ticks.iter().zip(tick_labels(&ticks)) {
            page.leaf("text", &[("x", &pc(axis.position(*tick))), ("y", "13")], &label);
        }
    });
}

/// Formats a position along the width: two decimals are a tenth of a pixel on the widest screen.
pub(crate) fn pc(percentage: f64) -> String {
    format!("{}%", px(percentage))
}

/// Formats a length in pixels.
pub(crate) fn px(pixels: f64) -> String {
    let text = format!("{pixels:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats a coordinate of a path, rounded to tenths of a pixel.
pub(crate) fn path_coordinate(value: f64) -> String {
    let text = format!("{value:.1}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_axis_gives_each_decade_the_same_room() {
        let x = Axis::holding([1.0, 10.0]).expect("an axis");
        let frame = Frame { height: 90.0, x: &x, y: VerticalAxis::Tail(3.0) };
        let heights = [1.0, 0.1, 0.01, 0.001].map(|share| path_coordinate(frame.y(share)));
        assert_eq!(heights, ["90", "60", "30", "0"]);
    }

    #[test]
    fn labels_do_not_overlap() {
        let mut labels = Labels::default();
        let mut page = Writer::default();
        for index in 0..40 {
            labels.write(&mut page, "", (50.0 + f64::from(index) * 0.1, 50.0), "128");
        }
        let written = page.finish().matches("<text").count();
        assert!((1..=6).contains(&written), "{written}");
        let boxes = &labels.taken;
        for (place, one) in boxes.iter().enumerate() {
            assert!(boxes.iter().skip(place + 1).all(|other| !overlap(one, other)), "{boxes:?}");
        }
    }
}
