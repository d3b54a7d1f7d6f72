use assay_manifest::{Body as _, Document, ForeignPairing, Outcome};

use super::*;
use crate::render::check::{check_balance, outside_code};

/// A text that ends markup, controls a terminal and notifies a person.
const HOSTILE: &str = "</td><script>alert(1)</script>\u{1b}[2J @maintainer |`x";

/// Returns the example's verdict.
fn verdict() -> ForeignVerdict {
    let bytes = include_bytes!("../../../../manifests/examples/v1alpha1/foreign_verdict.json");
    let document = Document::parse(bytes).expect("a manifest");
    ForeignVerdict::from_document(&document).expect("a verdict over foreign evidence").body.clone()
}

fn report(verdict: &ForeignVerdict) -> ForeignReport<'_> {
    ForeignReport { verdict, digest: Digest::compute(b"verdict"), store: None }
}

/// Returns the text of all three renderings.
fn all(verdict: &ForeignVerdict) -> [String; 3] {
    let report = report(verdict);
    [report.lines().join("\n"), report.markdown(60_000), report.html()]
}

#[test]
fn each_form_begins_with_what_it_is_over() {
    let found = verdict();
    let [text, markdown, page] = all(&found);
    assert_eq!(text.lines().next(), Some(ForeignVerdict::ABOUT));
    assert!(markdown.lines().next().is_some_and(|line| line.contains("Assay measured none of its numbers")), "{markdown}");
    let body = page.split("<body>").nth(1).expect("a body");
    let first = body.split("<strong>").nth(1).and_then(|rest| rest.split('<').next());
    assert_eq!(first, Some(ForeignVerdict::ABOUT));
    assert!(body.find("<strong>") < body.find("<h1>"), "it is above the title");
    check_balance(&page).expect("closed elements");
}

#[test]
fn an_advisory_verdict_states_that_it_is_one_only_if_its_exit_code_is_not_that_of_its_outcome() {
    let states = |outcome: Outcome, advisory: bool| {
        let verdict = ForeignVerdict { outcome, advisory, ..verdict() };
        let found = all(&verdict).map(|text| text.contains("Advisory: the exit code is 0"));
        assert!(found.iter().all(|states| *states == found[0]), "{outcome} {advisory}");
        found[0]
    };
    assert!(states(Outcome::Regressed, true) && states(Outcome::Inconclusive, true));
    for (outcome, advisory) in
        [(Outcome::Regressed, false), (Outcome::Inconclusive, false), (Outcome::Unchanged, true), (Outcome::Improved, true)]
    {
        assert!(!states(outcome, advisory), "{outcome}");
    }
    let headline = |outcome, blocks| {
        let verdict = ForeignVerdict { outcome, blocks, ..verdict() };
        report(&verdict).headline()
    };
    assert_eq!(headline(Outcome::Regressed, true), "Regressed, and it blocks");
    assert_eq!(headline(Outcome::Regressed, false), "Regressed, and it does not block");
    assert_eq!(headline(Outcome::Inconclusive, true), "Inconclusive, and it blocks");
    assert_eq!(headline(Outcome::Unchanged, false), "Unchanged");
}

#[test]
fn each_way_of_pairing_has_its_sentence() {
    let sentence = |pairing| {
        let verdict = ForeignVerdict { pairing, ..verdict() };
        report(&verdict).pairing_sentence()
    };
    assert_eq!(sentence(ForeignPairing::Names), "1 pair of pieces of evidence, paired by their names");
    assert_eq!(sentence(ForeignPairing::Times), "1 pair of pieces of evidence, paired by the times of their import");
    assert!(sentence(ForeignPairing::Unpaired).starts_with("1 and 1 pieces of evidence that nothing pairs: "));
}

#[test]
fn what_is_not_there_is_not_stated() {
    let mut found = verdict();
    let before = all(&found);
    for part in ["tool_version differs: 0.13.0 / 0.14.0", "no trust policy names the importer"] {
        assert!(before.iter().all(|text| text.replace("\\_", "_").contains(part)), "{part}");
    }
    assert!(before[0].contains("not judged: 1 number") && !before[0].contains("reported only"), "{}", before[0]);
    (found.differences, found.remarks, found.not_judged, found.not_judged_count) = Default::default();
    found.metrics[0].primary = false;
    let after = all(&found);
    assert!(after.iter().all(|text| !text.contains("differs: ") && !text.contains("no trust policy")));
    assert!(!after[0].contains("not judged") && after.iter().all(|text| text.contains("reported only")));
}

#[test]
fn no_rendering_is_controlled_by_names_of_other_tools() {
    let mut found = verdict();
    for metric in &mut found.metrics {
        metric.number.metric = HOSTILE.to_owned();
        metric.number.labels.insert(HOSTILE.to_owned(), HOSTILE.to_owned());
        metric.number.unit = HOSTILE.to_owned();
    }
    found.reasons[0].detail = HOSTILE.to_owned();
    found.remarks.push(HOSTILE.to_owned());
    found.baseline[0].format = HOSTILE.to_owned();
    found.differences[0].baseline = HOSTILE.to_owned();
    let junit = report(&found).junit();
    assert!(!junit.contains("<script") && !junit.contains('\u{1b}'), "{junit}");
    let [text, markdown, page] = all(&found);
    assert!(!text.contains('\u{1b}') && !markdown.contains('\u{1b}') && !page.contains('\u{1b}'));
    check_balance(&page).expect("closed elements");
    let markdown = outside_code(&markdown);
    assert!(!page.contains("<script") && !markdown.contains("<script") && !markdown.contains("@maintainer"), "{markdown}");
}

#[test]
fn ci_systems_see_a_failure_only_if_the_verdict_may_block() {
    let found = |outcome: Outcome, advisory: bool, block_on_inconclusive: bool| {
        let mut found = verdict();
        found.outcome = outcome;
        found.advisory = advisory;
        found.rules.block_on_inconclusive = block_on_inconclusive;
        found.blocks = !advisory && (outcome == Outcome::Regressed || outcome == Outcome::Inconclusive && block_on_inconclusive);
        found.metrics.truncate(1);
        (found.metrics[0].outcome, found.metrics[0].primary) = (outcome, true);
        let report = report(&found);
        (report.junit(), report.check_run()["conclusion"].as_str().expect("a text").to_owned())
    };
    for (outcome, advisory, blocks_on_inconclusive, case, conclusion) in [
        (Outcome::Regressed, false, false, "<failure type=\"regression\"", "failure"),
        (Outcome::Regressed, true, true, "<skipped message=\"advisory, regressed: ", "neutral"),
        (Outcome::Inconclusive, false, true, "<failure type=\"inconclusive\"", "action_required"),
        (Outcome::Inconclusive, false, false, "<skipped message=\"inconclusive: ", "neutral"),
        (Outcome::Inconclusive, true, true, "<skipped message=\"inconclusive: ", "neutral"),
        (Outcome::Unchanged, true, true, "failures=\"0\" errors=\"0\" skipped=\"0\"", "success"),
    ] {
        let (junit, concluded) = found(outcome, advisory, blocks_on_inconclusive);
        assert!(junit.contains(case) && concluded == conclusion, "{outcome} {advisory}: {concluded}\n{junit}");
        assert!(junit.contains("Assay measured none of its numbers"), "{junit}");
    }
    let mut none = verdict();
    none.metrics.clear();
    let junit = report(&none).junit();
    assert!(junit.contains("<skipped message=\"no metric was judged\""), "{junit}");
    let check = report(&none).check_run();
    assert!(
        check["output"]["title"].as_str().is_some_and(|title| title.ends_with(", over foreign evidence: 0 of 0 metrics")),
        "{check}"
    );
}

#[test]
fn a_comment_and_a_page_have_a_limit_and_count_what_they_leave_out() {
    let mut found = verdict();
    let metric = found.metrics[0].clone();
    found.metrics = vec![metric; 20_000];
    let report = report(&found);
    let comment = report.markdown(5_000);
    assert!(comment.len() <= 5_000 && comment.contains("Left out to keep this small: "), "{}", comment.len());
    let page = report.html();
    assert!(page.len() < 2_000_000 && page.contains("Left out to keep this page small: "), "{}", page.len());
    assert!(!report_of_one().contains("Left out"));
}

fn report_of_one() -> String {
    all(&verdict()).concat()
}
