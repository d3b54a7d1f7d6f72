//! Tests of the page of two pieces of foreign evidence.

use std::collections::BTreeMap;

use assay_manifest::{BetterDirection, Digest};
use proptest::prelude::*;

use super::{ComparedDefinition, ComparedEvidence, ComparedMedian, ComparedNumber, ForeignComparison, IntervalOfMedian};
use crate::render::check::check_balance;

type Labels = BTreeMap<String, String>;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn side<'a>(name: &'a str, version: Option<&'a str>, absent: Vec<&'a str>) -> ComparedEvidence<'a> {
    ComparedEvidence {
        name,
        id: Digest::compute(name.as_bytes()),
        origin: format!("vllm bench serve {}", version.unwrap_or("of a version that its files do not state")),
        imported_at: "2026-11-29T09:15:00.000000000Z".parse().expect("an instant"),
        signer: "import",
        established: version.is_some(),
        files: vec![("result.json", Digest::compute(b"file"))],
        absent,
    }
}

/// Returns a comparison in which every free text is one of these.
fn comparison<'a>(text: &'a str, of: &'a Labels) -> ForeignComparison<'a> {
    let number = |statistic, values, better| ComparedNumber { metric: text, statistic, unit: "ms", labels: of, values, better };
    let interval = IntervalOfMedian { median: 6.2, low: 6.1, high: 6.4, level: 0.95 };
    ForeignComparison {
        sides: [side(text, Some(text), Vec::new()), side(text, None, vec![text])],
        remarks: vec![text.to_owned()],
        numbers: vec![
            number("mean", [6.4, 7.1], Some(BetterDirection::Lower)),
            number(text, [0.0, 7.1], None),
            number("p99", [9.0, 4.5], Some(BetterDirection::Higher)),
            number("p50", [9.0, 9.0], Some(BetterDirection::Higher)),
        ],
        medians: vec![ComparedMedian {
            metric: text,
            unit: text,
            labels: of,
            medians: [Ok(interval), Ok(IntervalOfMedian { median: 7.0, low: 6.9, high: 7.3, ..interval })],
            better: None,
        }],
        interval_notes: vec![text.to_owned()],
        definitions: vec![ComparedDefinition {
            metric: "vllm.ttft",
            definition: "first chunk - send time",
            near: Some(("ttft_ms", "it waits")),
        }],
        not_comparable: vec![text.to_owned()],
        store: Some("s3://results"),
    }
}

#[test]
fn the_page_states_the_grade_first_and_decides_nothing() {
    let of = labels(&[("concurrency", "8")]);
    let html = comparison("name", &of).html();
    check_balance(&html).expect("well formed");
    let body = html.split_once("<body>").expect("a body").1;
    let first = body.find(ForeignComparison::ABOUT).expect("the grade");
    assert!(body.find("<h1>").expect("a title") > first);
    for part in [
        "It is no verdict: <code>assay gate --foreign</code> judges",
        ">+11 %<",
        ">-50 %<",
        ">0 %<",
        "<td class=\"quiet\">lower</td>",
        "<td class=\"quiet\">not stated</td>",
        "concurrency=8",
        "first chunk - send time",
        "nothing: 1 file absent (name)",
        "which no trust policy names",
        "all files, and each number is equal",
        "assay compare sha256:",
        "--store s3://results",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
    let verdicts = ["regressed", "improved", "worse", "faster", "slower"];
    assert!(verdicts.iter().all(|word| !body.to_lowercase().contains(word)), "{html}");
    for forbidden in ["<script", "<link", "<img", " src=", "url(", "@import", "href=\"http", "NaN"] {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
}

/// The bars of a picture are in the order of the values, and inside of it.
#[test]
fn a_picture_has_both_intervals_on_one_scale() {
    let of = Labels::new();
    let html = comparison("name", &of).html();
    let picture = html.split_once("<svg").and_then(|(_, rest)| rest.split_once("</svg>")).expect("a picture").0;
    let bars: Vec<(f64, f64)> = picture
        .split("class=\"span\" d=\"M")
        .skip(1)
        .map(|rest| {
            let (from, rest) = rest.split_once(' ').expect("a place");
            let to = rest.split_once('H').and_then(|(_, rest)| rest.split_once('"')).expect("an end").0;
            (from.parse().expect("a number"), to.parse().expect("a number"))
        })
        .collect();
    let [(a, a_end), (b, b_end)] = bars.as_slice() else { panic!("{picture}") };
    assert!(*a < *a_end && *a_end < *b && *b < *b_end && *b_end <= 160.0, "{bars:?}");
    let same = IntervalOfMedian { median: 5.0, low: 5.0, high: 5.0, level: 0.95 };
    let mut one = comparison("name", &of);
    one.medians[0].medians = [Ok(same), Err("too few".to_owned())];
    let html = one.html();
    check_balance(&html).expect("well formed");
    assert!(html.contains("too few") && !html.contains("NaN") && !html.contains("inf"), "{html}");
}

#[test]
fn a_page_stays_small_and_counts_what_it_leaves_out() {
    let all: Vec<Labels> = (0..40_000).map(|number| labels(&[("number", &number.to_string())])).collect();
    let mut page = comparison("name", &all[0]);
    page.numbers = all.iter().map(|labels| ComparedNumber { labels, ..page.numbers[0] }).collect();
    page.not_comparable = vec!["x".to_owned(); 300];
    let html = page.html();
    assert!(html.len() < 2_000_000, "{}", html.len());
    check_balance(&html).expect("well formed");
    let shown = html.matches("<tr><th scope=\"row\"").count();
    let left_out = 40_000 - (shown - 2);
    let text = format!(
        "Left out to keep this page small: {} numbers.",
        crate::counted(left_out as u64, "number").trim_end_matches(" numbers")
    );
    assert!(html.contains(&text) && html.contains("small: 100 sentences."), "{text}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_text_is_markup(text in "[>&\"'`@#|a-z/= \\-!\\[\\]()\\\\$:.\\n\u{0}-\u{1f}\u{202e}\u{fffe}]{0,24}") {
        let of = labels(&[(&text, &text)]);
        for text in [text.as_str(), "</code><script>alert(1)</script>"] {
            let html = comparison(text, &of).html();
            check_balance(&html).expect("well formed");
            prop_assert!(!html.contains("<script"));
            assert!(!html.contains(['\u{1b}', '\u{7}', '\u{202e}']));
        }
    }
}
