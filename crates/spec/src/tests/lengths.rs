//! Lengths that are written as tables (pairs and histograms), and images.

use assay_manifest::{ImageFormat, Images, SyntheticText};

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
    assert!(pairs("[{input: 1, output: 1, weight: -1}]")[0].contains("must be at least 0"));
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

fn images(text: &str) -> Option<Images> {
    let Work::Serving(serving) = workload(text).spec.work else { panic!("serving") };
    serving.images
}

fn with_images(images: &str) -> String {
    replace_part(SERVING, "  slos:", &format!("  images: {images}\n  slos:"))
}

#[test]
fn images_are_those_of_the_field_or_of_the_scenario() {
    let of = |width, height, count, format| Some(Images { width, height, count, format });
    assert_eq!(images(SERVING), None);
    assert_eq!(images(&with_images("{width: 512, height: 256}")), of(512, 256, 1, ImageFormat::Jpeg));
    assert_eq!(images(&with_images("{width: 1, height: 2, count: 3, format: png}")), of(1, 2, 3, ImageFormat::Png));
    assert_eq!(images(&with_lengths("I(512,256,2)")), of(512, 256, 2, ImageFormat::Jpeg));
    let scenario = Lengths::Scenario("I(8,8)".parse().expect("a scenario"));
    assert_eq!(read(&with_lengths("I(8,8)")), Prompts::Synthetic(scenario));
}

#[test]
fn images_need_a_place() {
    let size = "{width: 8, height: 8}";
    assert_eq!(
        found(&replace_part(&with_images(size), "N(480,240)/(300,150)", "I(8,8)")),
        ["error: `spec.images` stands beside a scenario that has images of its own", "hint: remove one of them"]
    );
    let beside = |file: &str| replace_part(&with_images(size), "lengths: N(480,240)/(300,150)", file);
    assert!(images(&beside("dataset: {path: p.jsonl}")).is_some());
    assert_eq!(
        found(&beside("dataset: {path: p.jsonl, format: openai_batch}")),
        [
            "error: `spec.images` cannot be added to the rows of this dataset, which are whole bodies of requests",
            "hint: remove it; the messages of a body may have images of their own",
        ]
    );
    assert!(images(&replace_part(&with_images(size), "  load:", "  sessions: {turns: 2}\n  load:")).is_some());
    let completions = replace_part(&with_images(size), "  load:", "  api: completions\n  load:");
    let none = ["error: requests of `api: completions` have no images", "hint: write `api: chat`, or remove it"];
    assert_eq!(found(&completions), none);
    assert_eq!(found(&replace_part(&with_lengths("I(8,8)"), "  load:", "  api: completions\n  load:")), none);
    let sessions = replace_part(&with_lengths("I(8,8)"), "  load:", "  sessions: {turns: 2}\n  load:");
    assert_eq!(
        found(&sessions),
        [
            "error: `spec.lengths` of images cannot be sent as turns of `spec.sessions`, whose responses have lengths of their own",
            "hint: write `images` beside the lengths of a turn, such as `lengths: D(64,128)`",
        ]
    );
    assert_eq!(
        found(&with_images("{width: 8192, height: 8192}")),
        [
            "error: `spec.images` asks for 1 image of 8192 x 8192 pixels: those of a request have at most 16777216, not 67108864",
            "hint: write fewer or smaller images",
        ]
    );
    assert!(found(&with_images("{width: 9000, height: 1}"))[0].contains("must be from 1 to 8192"));
    let dataset = found(&with_lengths("dataset"));
    assert!(dataset[1].contains("write `dataset: {path: FILE, output: server}` instead of `lengths`"), "{dataset:?}");
    let speech = found(&with_lengths("A(100)"));
    assert!(speech[1].contains("`A` scenarios (speech) are not supported"), "{speech:?}");
}

#[test]
fn only_synthetic_prompts_have_a_kind_of_text() {
    let text = |file: &str| {
        let Work::Serving(serving) = workload(file).spec.work else { panic!("serving") };
        serving.text
    };
    let with = |kind: &str| replace_part(SERVING, "  slos:", &format!("  text: {kind}\n  slos:"));
    assert_eq!(
        (text(SERVING), text(&with("words")), text(&with("natural"))),
        (SyntheticText::Words, SyntheticText::Words, SyntheticText::Natural)
    );
    let of = |file: &str| replace_part(&with("natural"), "lengths: N(480,240)/(300,150)", file);
    let refused = "error: `spec.text` is of prompts that are drawn, and the rows of a dataset of the format `jsonl` have texts";
    assert_eq!(found(&of("dataset: {path: p.jsonl}")), [refused, "hint: remove it"]);
    assert_eq!(text(&of("dataset: {path: t, format: mooncake}")), SyntheticText::Natural);
    assert_eq!(
        found(&of("dataset: {path: t, format: mooncake}\n  tokenizer: tokenizer.json")),
        [
            "error: `spec.text: natural` of a dataset has no exact length by a tokenizer: its words have no fixed number of tokens",
            "hint: remove `text` or `tokenizer`",
        ]
    );
    assert_eq!(text(&replace_part(&with("natural"), "  load:", "  sessions: {turns: 2}\n  load:")), SyntheticText::Natural);
}
