//! Checks of lengths that are written as tables: pairs of input and output, and histograms.

use crate::checked_value::{CheckedValue, Read};
use crate::problem::Problems;

/// The fields that hold a distribution.
const DISTRIBUTIONS: [[&str; 2]; 4] = [["lengths", "input"], ["lengths", "output"], ["dataset", "output"], ["trace", "output"]];

/// Checks that lengths are either pairs or two distributions, and that each table can be drawn from.
pub(crate) fn check_length_tables(spec: &CheckedValue, problems: &mut Problems<'_>) {
    if let Some(lengths) = spec.member("lengths") {
        check_sides(lengths, problems);
        if let Some(pairs) = lengths.member("pairs") {
            let weights = pairs.items().iter().filter_map(|pair| pair.member("weight"));
            check_weights("spec.lengths.pairs", pairs, weights, problems);
        }
    }
    for [of, side] in DISTRIBUTIONS {
        if let Some(histogram) = spec.at(&[of, side, "histogram"]) {
            check_histogram(&format!("spec.{of}.{side}.histogram"), histogram, problems);
        }
    }
}

/// Checks that an output stands beside an input and not beside pairs, which have their own.
fn check_sides(lengths: &CheckedValue, problems: &mut Problems<'_>) {
    match (lengths.member("input"), lengths.member("output"), lengths.member("pairs")) {
        (Some(_), None, None) => {
            problems.add_hinted(lengths.anchor, "`spec.lengths` lacks `output`", "such as `output: {fixed: 128}`");
        }
        (None, Some(output), Some(_)) => {
            let message = "`spec.lengths.output` belongs to `input`: each of `pairs` has an output";
            problems.add_hinted(output.anchor, message, "remove it");
        }
        _ => {}
    }
}

fn check_histogram(field: &str, histogram: &CheckedValue, problems: &mut Problems<'_>) {
    let (Some(edges), Some(weights)) = (histogram.member("edges"), histogram.member("weights")) else { return };
    let (edge_count, bins) = (edges.items().len(), weights.items().len());
    if edge_count != bins + 1 {
        let message = format!("`{field}` has {edge_count} edges and {bins} weights");
        problems.add_hinted(histogram.anchor, message, "each bin has a weight, and there is one edge more than there are bins");
    }
    let falling = edges.items().iter().zip(edges.items().iter().skip(1)).find(|(low, high)| {
        let bounds = u64::read(low).zip(u64::read(high));
        bounds.is_some_and(|(low, high)| high <= low)
    });
    if let Some((_, high)) = falling {
        problems.add(high.span, format!("an edge of `{field}` is not above the edge before it"));
    }
    check_weights(field, weights, weights.items().iter(), problems);
}

/// Checks that something has a weight above 0.
fn check_weights<'a>(
    field: &str,
    holder: &CheckedValue,
    weights: impl Iterator<Item = &'a CheckedValue>,
    problems: &mut Problems<'_>,
) {
    let weights: Option<Vec<f64>> = weights.map(f64::read).collect();
    if weights.is_some_and(|weights| !weights.is_empty() && weights.iter().all(|weight| *weight == 0.0)) {
        problems.add(holder.anchor, format!("all weights of `{field}` are 0"));
    }
}
