//! Lengths that are written as tables: pairs and histograms.

use super::{SERVING, problems, replace_part, workload};
use crate::{Distribution, LengthPair, Lengths, Prompts, ResponseLength, Work};

fn with_lengths(lengths: &str) -> String {
    replace_part(SERVING, "N(480,240)/(300,150)", lengths)
}

fn read(text: &str) -> Prompts {
    let Work::Serving(serving) = workload(text).spec.work else { panic!("serving") };
    serving.prompts
}

/// Returns the problems with their hints, without the places.
fn found(text: &str) -> Vec<String> {
    let is_said = |line: &&str| line.starts_with("error: ") || line.starts_with("hint: ");
    problems(text).lines().filter(is_said).map(str::to_owned).collect()
}

fn histogram(edges: &[u64], weights: &[f64]) -> Distribution {
    Distribution::Histogram { edges: edges.to_vec(), weights: weights.to_vec() }
}

#[test]
fn pairs_and_histograms_are_read() {
    let pairs = "{pairs: [{input: 256, output: 128, weight: 60}, {input: 512, output: 256, weight: 0.5}, {input: 1, output: 2}]}";
    let pair = |input, output, weight| LengthPair { input, output, weight };
    let expected = vec![pair(256, 128, 60.0), pair(512, 256, 0.5), pair(1, 2, 1.0)];
    assert_eq!(read(&with_lengths(pairs)), Prompts::Synthetic(Lengths::Pairs(expected)));

    let bins = "{histogram: {edges: [1, 256, 1024], weights: [70, 0.5]}}";
    let lengths = format!("{{input: {bins}, output: {bins}}}");
    let law = histogram(&[1, 256, 1_024], &[70.0, 0.5]);
    assert_eq!(read(&with_lengths(&lengths)), Prompts::Synthetic(Lengths::Explicit { input: law.clone(), output: law.clone() }));

    let dataset = format!("dataset: {{path: p.jsonl, output: {bins}}}");
    let Prompts::Dataset(dataset) = read(&replace_part(SERVING, "lengths: N(480,240)/(300,150)", &dataset)) else {
        panic!("a dataset")
    };
    assert_eq!(dataset.output, ResponseLength::Drawn(law));
}

#[test]
fn a_table_that_cannot_be_drawn_from_is_refused() {
    let bins = |text: &str| found(&with_lengths(&format!("{{input: {{histogram: {text}}}, output: {{fixed: 1}}}}")));
    assert_eq!(
        bins("{edges: [1, 2], weights: [1, 2]}"),
        [
            "error: `spec.lengths.input.histogram` has 2 edges and 2 weights",
            "hint: each bin has a weight, and there is one edge more than there are bins",
        ]
    );
    let falls = "error: an edge of `spec.lengths.input.histogram` is not above the edge before it";
    assert_eq!(bins("{edges: [1, 9, 9], weights: [1, 2]}"), [falls]);
    assert_eq!(bins("{edges: [1, 2, 3], weights: [0, 0]}"), ["error: all weights of `spec.lengths.input.histogram` are 0"]);
    let pairs = |text: &str| found(&with_lengths(&format!("{{pairs: {text}}}")));
    assert_eq!(pairs("[{input: 1, output: 1, weight: 0}]"), ["error: all weights of `spec.lengths.pairs` are 0"]);
    assert!(pairs("[{input: 1}]")[0].contains("lacks `output`"), "{:?}", pairs("[{input: 1}]"));
    assert!(pairs("[{input: 1, output: 1, weight: -1}]")[0].contains("must be from 0"));
    assert!(!pairs("[]").is_empty());
    assert!(!pairs(&format!("[{}]", vec!["{input: 1, output: 1}"; 1_001].join(", "))).is_empty());
}

#[test]
fn pairs_stand_alone() {
    let both = "{input: {fixed: 1}, output: {fixed: 1}, pairs: [{input: 1, output: 1}]}";
    assert!(found(&with_lengths(both))[0].contains("takes only one of `input`, `pairs`"), "{:?}", found(&with_lengths(both)));
    assert_eq!(
        found(&with_lengths("{output: {fixed: 1}, pairs: [{input: 1, output: 1}]}")),
        ["error: `spec.lengths.output` belongs to `input`: each of `pairs` has an output", "hint: remove it"]
    );
    let one = ["error: `spec.lengths` lacks `output`", "hint: such as `output: {fixed: 128}`"];
    assert_eq!(found(&with_lengths("{input: {fixed: 1}}")), one);
    assert!(found(&with_lengths("{output: {fixed: 1}}"))[0].contains("one of `input`, `pairs`"));
}
