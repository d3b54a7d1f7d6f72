//! The rule of Apache Otava 0.8.0, reimplemented from its description, so that it can be run on the same series as Assay's.
//!
//! It is the benchmark's reference and has no other use. E-divisive means (Matteson and James, 2014) propose a split in windows
//! of 50 points, a pooled Student t test judges it without correction for the search, and a second pass drops the weakest points
//! until all pass. Indices agree with Otava's own; the head of the benchmark describes the comparison.

use std::ops::Range;

/// Otava's settings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// The length of a window in points.
    pub(crate) window: usize,
    /// The p-value below which a point is kept.
    pub(crate) max_p: f64,
    /// The relative change above which a point is kept.
    pub(crate) min_magnitude: f64,
}

impl Rule {
    /// Returns Otava's defaults with another p-value: windows of 50, any magnitude.
    pub(crate) fn with_max_p(max_p: f64) -> Self {
        Self { window: 50, max_p, min_magnitude: 0.0 }
    }
}

/// One point: the first index of the right segment, and the t test of its two neighbours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    /// The first index of the right segment.
    pub(crate) index: usize,
    /// The two-sided p-value of the t test.
    pub(crate) p: f64,
    /// The larger of the relative changes forwards and backwards.
    pub(crate) magnitude: f64,
}

/// Returns the change points of `series`, ascending.
pub(crate) fn change_points(series: &[f64], rule: Rule) -> Vec<Point> {
    merge(series, weak_points(series, rule), rule)
}

/// Returns the more lenient p-value of the first pass, which leaves a choice to the second.
fn first_pass_p(max_p: f64) -> f64 {
    match max_p {
        p if p < 0.05 => 10.0 * p,
        p if p < 0.5 => 2.0 * p,
        p => p,
    }
}

fn weak_points(series: &[f64], rule: Rule) -> Vec<Point> {
    let (mut start, mut found) = (0, Vec::new());
    while start < series.len() {
        let end = (start + rule.window).min(series.len());
        let new: Vec<usize> = divide(&series[start..end], first_pass_p(rule.max_p)).iter().map(|index| index + start).collect();
        start = (start + rule.window / 2).max(new.last().copied().unwrap_or(0));
        found.extend(new);
    }
    found.sort_unstable();
    found.dedup();
    (0..found.len()).map(|place| judge(series, &found, place)).collect()
}

/// Splits one window at its best candidate for as long as that is significant.
fn divide(window: &[f64], max_p: f64) -> Vec<usize> {
    let sums = Sums::new(window);
    let mut found: Vec<usize> = Vec::new();
    loop {
        let segments = segments(&found, window.len());
        let Some((segment, index)) = best_candidate(&sums, &segments) else { return found };
        let (p, _) = compare(&window[segment.start..index], &window[index..segment.end]);
        // A NaN p-value is not significant.
        if p.is_nan() || p > max_p {
            return found;
        }
        found.push(index);
        found.sort_unstable();
    }
}

fn segments(points: &[usize], n: usize) -> Vec<Range<usize>> {
    let starts = std::iter::once(0).chain(points.iter().copied());
    let ends = points.iter().copied().chain(std::iter::once(n));
    starts.zip(ends).map(|(start, end)| start..end).collect()
}

fn best_candidate(sums: &Sums, segments: &[Range<usize>]) -> Option<(Range<usize>, usize)> {
    let mut best: Option<(f64, Range<usize>, usize)> = None;
    for segment in segments.iter().filter(|segment| segment.len() > 1) {
        let (q, index) = sums.best_split(segment);
        if best.as_ref().is_none_or(|(highest, ..)| q > *highest) {
            best = Some((q, segment.clone(), index));
        }
    }
    best.map(|(_, segment, index)| (segment, index))
}

/// The two-dimensional running sums of all distances of a window.
struct Sums {
    side: usize,
    cells: Vec<f64>,
}

impl Sums {
    fn new(window: &[f64]) -> Self {
        let side = window.len() + 1;
        let mut cells = vec![0.0; side * side];
        for (row, a) in window.iter().enumerate() {
            let mut line = 0.0;
            for (column, b) in window.iter().enumerate() {
                line += (a - b).abs();
                cells[(row + 1) * side + column + 1] = cells[row * side + column + 1] + line;
            }
        }
        Self { side, cells }
    }

    fn block(&self, rows: Range<usize>, columns: Range<usize>) -> f64 {
        let at = |row: usize, column: usize| self.cells[row * self.side + column];
        at(rows.end, columns.end) - at(rows.start, columns.end) - at(rows.end, columns.start) + at(rows.start, columns.start)
    }

    /// Returns the highest divergence over every split and every end of the right part, the first of equals, and its split.
    fn best_split(&self, segment: &Range<usize>) -> (f64, usize) {
        let mut best = (f64::NEG_INFINITY, segment.start + 1);
        for split in segment.start + 1..segment.end {
            for end in split + 1..=segment.end {
                let q = self.divergence(segment.start, split, end);
                if q > best.0 {
                    best = (q, split);
                }
            }
        }
        best
    }

    /// The U-form of the energy divergence between `start..split` and `split..end`.
    fn divergence(&self, start: usize, split: usize, end: usize) -> f64 {
        let (n, m) = ((split - start) as f64, (end - split) as f64);
        let between = self.block(start..split, split..end);
        let within = |range: Range<usize>| if range.len() < 2 { 0.0 } else { self.block(range.clone(), range) / 2.0 };
        let left = within(start..split) * 2.0 * m / ((n + m) * (n - 1.0).max(1.0));
        let right = within(split..end) * 2.0 * n / ((n + m) * (m - 1.0).max(1.0));
        2.0 / (n + m) * between - left - right
    }
}

/// Drops the weakest point, and judges the next two again, until every point passes.
fn merge(series: &[f64], mut points: Vec<Point>, rule: Rule) -> Vec<Point> {
    while let Some(weakest) = weakest(&points, rule) {
        points.remove(weakest);
        let indices: Vec<usize> = points.iter().map(|point| point.index).collect();
        // Otava judges the two points after the removed one, not the one before it; this port does the same, to find the same
        // points.
        for place in [weakest, weakest + 1].into_iter().filter(|&place| place < indices.len()) {
            points[place] = judge(series, &indices, place);
        }
    }
    points
}

/// Returns the point with the largest p-value if that fails the limit; otherwise the smallest change if that fails.
fn weakest(points: &[Point], rule: Rule) -> Option<usize> {
    let first_by = |above: fn(&Point, &Point) -> bool| {
        (0..points.len()).reduce(|best, place| if above(&points[place], &points[best]) { place } else { best })
    };
    let least_sure = first_by(|a, b| a.p > b.p)?;
    if points[least_sure].p < rule.max_p {
        let smallest = first_by(|a, b| a.magnitude < b.magnitude)?;
        return (points[smallest].magnitude <= rule.min_magnitude).then_some(smallest);
    }
    Some(least_sure)
}

fn judge(series: &[f64], indices: &[usize], place: usize) -> Point {
    let start = place.checked_sub(1).map_or(0, |before| indices[before]);
    let end = indices.get(place + 1).copied().unwrap_or(series.len());
    let index = indices[place];
    let (p, magnitude) = compare(&series[start..index], &series[index..end]);
    Point { index, p, magnitude }
}

/// The p-value of the pooled t test, and the magnitude of the change.
fn compare(left: &[f64], right: &[f64]) -> (f64, f64) {
    let (mean_left, mean_right) = (mean(left), mean(right));
    let relative = |from: f64, to: f64| if from == 0.0 { 0.0 } else { (to / from - 1.0).abs() };
    (pooled_t(left, right), relative(mean_left, mean_right).max(relative(mean_right, mean_left)))
}

/// Otava passes standard deviations with divisor n to a routine that expects n - 1; this port does the same, to find the same
/// points.
fn pooled_t(left: &[f64], right: &[f64]) -> f64 {
    let (n, m) = (left.len() as f64, right.len() as f64);
    let freedom = n + m - 2.0;
    if freedom <= 0.0 {
        return 1.0;
    }
    let pooled = ((n - 1.0) * variance(left) + (m - 1.0) * variance(right)) / freedom;
    let t = (mean(left) - mean(right)) / (pooled * (1.0 / n + 1.0 / m)).sqrt();
    // P(|T| > t) is the regularised incomplete beta function at freedom / (freedom + t^2).
    if t.is_nan() { f64::NAN } else { incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t)) }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(values: &[f64]) -> f64 {
    let centre = mean(values);
    values.iter().map(|x| (x - centre) * (x - centre)).sum::<f64>() / values.len() as f64
}

/// The regularised incomplete beta function: its continued fraction (DLMF 8.17.22) by the modified method of Lentz.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let log_front = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * libm::log(x) + b * libm::log(1.0 - x);
    libm::exp(log_front) / (a * fraction(a, b, x))
}

fn fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let (mut value, mut numerator, mut denominator) = (1.0, 1.0, 0.0);
    for step in 1..400 {
        let half = f64::from(step / 2);
        let coefficient = if step % 2 == 0 {
            half * (b - half) * x / ((a + 2.0 * half - 1.0) * (a + 2.0 * half))
        } else {
            -(a + half) * (a + b + half) * x / ((a + 2.0 * half) * (a + 2.0 * half + 1.0))
        };
        denominator = 1.0 / non_zero(1.0 + coefficient * denominator, TINY);
        numerator = non_zero(1.0 + coefficient / numerator, TINY);
        let factor: f64 = numerator * denominator;
        value *= factor;
        if (factor - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

fn non_zero(value: f64, tiny: f64) -> f64 {
    if value == 0.0 { tiny } else { value }
}
