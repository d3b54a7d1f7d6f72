//! Tests of properties that all renderings of a history share.

use proptest::prelude::*;

use super::fixture::{self, report};
use super::model::{Change, Inputs, Level, Report, Run, Series, Subject};
use super::phrases;
use crate::render::check::{check_balance, ids, outside_code};

#[test]
fn a_terminal_shows_each_history_and_what_changed() {
    insta::assert_snapshot!(report(&fixture::all()).terminal(80));
}

#[test]
fn a_history_of_another_tool_says_so_first_and_names_no_run_of_assay() {
    let report = fixture::foreign_report();
    let (terminal, html) = (report.terminal(80), report.html());
    let origin = "foreign: measured by vllm bench serve 0.11.0 and 0.12.0, not by Assay";
    assert_eq!(terminal.lines().next(), Some(origin));
    assert!(html.contains(&format!("<p class=\"eyebrow\"><strong>{origin}</strong></p>")), "{html}");
    let evidence = fixture::foreign().runs[12].evidence.expect("foreign evidence");
    for command in [format!("assay verify {evidence}"), "assay history --foreign vllm.ttft".to_owned()] {
        assert!(html.contains(&format!(">{command}</code>")), "{command}");
    }
    for part in ["assay trace", "counted trials", "hardware and software"] {
        assert!(!html.contains(part), "{part}");
    }
    insta::assert_snapshot!(terminal);
    let mut document = fixture::foreign().document();
    document["runs"].as_array_mut().expect("runs").truncate(1);
    insta::assert_snapshot!(format!("{document:#}"));
}

#[test]
fn an_issue_tells_what_the_newest_runs_show() {
    insta::assert_snapshot!(report(&fixture::all()).issue().expect("news"));
    assert_eq!(report(&[fixture::steady(), fixture::moved_twice()]).issue(), None, "what is old was news once");
    assert_eq!((report(&fixture::all()).count_newly_changed(), report(&[fixture::steady()]).count_newly_changed()), (1, 0));
}

#[test]
fn a_document_has_every_number() {
    let mut document = fixture::newly_changed().document();
    document["runs"].as_array_mut().expect("runs").truncate(1);
    insta::assert_snapshot!(format!("{document:#}"));
    assert_eq!(fixture::short().document()["not_searched"], fixture::short().changes.expect_err("not searched"));
}

#[test]
fn each_history_begins_with_its_answer() {
    let series = |change: Change| Series { changes: Ok(vec![change]), ..fixture::steady() };
    let from_zero = Change { change: None, interval: None, before: 0.0, ..fixture::change(9, 1.0, 5.0) };
    let without_interval = Change { interval: None, ..fixture::change(9, 100.0, 87.7) };
    let all = [
        fixture::newly_changed(),
        fixture::moved_twice(),
        fixture::steady(),
        fixture::short(),
        series(from_zero),
        series(without_interval),
    ];
    insta::assert_snapshot!(all.map(|series| phrases::sentence(&series)).join("\n"));
}

#[test]
fn what_changed_a_few_runs_off_may_have_made_the_change() {
    let told = |place: usize, change: fn(&mut Run)| {
        let mut series = Series { changes: Ok(vec![fixture::change(20, 100.0, 110.0)]), ..fixture::steady() };
        change(&mut series.runs[place]);
        phrases::environment_note(&series, &fixture::change(20, 100.0, 110.0))
    };
    let hardware = |run: &mut Run| run.hardware_changed = true;
    assert_eq!(told(20, hardware).as_deref(), Some("environment: the hardware changed with that run"));
    assert_eq!(told(15, hardware).as_deref(), Some("environment: the hardware changed with nightly-16, 5 runs before"));
    assert_eq!(told(21, hardware).as_deref(), Some("environment: the hardware changed with nightly-22, 1 run after"));
    assert_eq!(told(14, hardware), None);
    let definition = told(20, |run| run.pipeline_changed = true);
    assert_eq!(definition.as_deref(), Some("definition: the pipeline's file changed with that run"));
    let tool = told(20, |run| run.tool_changed = true);
    assert_eq!(tool.as_deref(), Some("tool: the version of the tool changed with that run"));
}

#[test]
fn a_level_is_the_median_between_changes() {
    let series = fixture::moved_twice();
    let levels = series.levels();
    let places: Vec<(usize, usize)> = levels.iter().map(|Level { from, to, .. }| (*from, *to)).collect();
    assert_eq!(places, [(0, 18), (18, 39), (39, 60)]);
    assert!(levels.iter().zip([1_840.0, 1_610.0, 1_655.0]).all(|(level, value)| (level.value / value - 1.0).abs() < 0.006));
    assert_eq!(fixture::series("none", "ms", &[]).levels(), []);
}

#[test]
fn what_only_the_newest_runs_show_is_a_change_too() {
    let mut series = fixture::steady();
    series.newest_change = Some(fixture::change(42, 2_410.0, 2_200.0));
    assert_eq!(series.all_changes().len(), 1);
    assert_eq!(fixture::newly_changed().all_changes().len(), 1, "both searches found it");
    let html = report(&[series]).html();
    assert!(html.contains("among the newest of 45 runs") && html.contains("1: -8.7 %"), "{html}");
}

#[test]
fn the_page_is_well_formed_asks_for_nothing_and_runs_nothing() {
    let html = report(&fixture::all()).html();
    check_balance(&html).expect("well formed");
    let targets = ids(&html, " id=\"");
    let unique: std::collections::BTreeSet<_> = targets.iter().collect();
    assert_eq!(unique.len(), targets.len(), "an id stands twice");
    let links = ids(&html, "href=\"#");
    assert_eq!(links, ["s-3", "s-0"], "what moved, the newest first");
    assert!(links.iter().all(|link| targets.contains(link)));
    for forbidden in ["<script", "<link", "<img", "<iframe", " src=", "url(", "@import", " onload", "href=\"http", "NaN"] {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
    let mut before = 0;
    for level in html.split("<h").skip(1).filter_map(|rest| rest.chars().next()?.to_digit(10)) {
        assert!(level <= before + 1, "h{level} after h{before}");
        before = level;
    }
}

#[test]
fn a_picture_shows_runs_levels_changes_and_where_the_environment_changed() {
    let html = report(&[fixture::moved_twice()]).html();
    let picture = html.split_once("<svg role=\"img\"").and_then(|(_, rest)| rest.split_once("</figure>")).expect("a picture").0;
    let (picture, _) = picture.split_once("<ul class=\"key\">").expect("a key");
    let count = |class: &str| picture.matches(&format!("class=\"{class}\"")).count();
    assert_eq!([count("run"), count("level"), count("change"), count("environment"), count("moved")], [60, 3, 2, 2, 2]);
    let text = |tag: &str| {
        picture.split_once(&format!("<{tag}>")).and_then(|(_, rest)| rest.split_once("</")).expect("a text").0.to_owned()
    };
    insta::assert_snapshot!(format!("{}\n{}", text("title"), text("desc")));
}

#[test]
fn the_tables_have_what_the_picture_shows() {
    let html = report(&[fixture::moved_twice()]).html();
    let tables: Vec<&str> = html.split("<tbody>").skip(1).filter_map(|rest| rest.split("</tbody>").next()).collect();
    assert_eq!(tables.iter().map(|table| table.matches("<tr>").count()).collect::<Vec<_>>(), [2, 60]);
    assert!(tables[0].contains("the hardware and the software changed") && tables[1].contains("the software changed"));
    assert!(html.contains("3 runs of other work left out."));
    assert!(html.contains("assay trace nightly-40/outcome_fact/"), "the first run after the last change");
    assert!(html.contains("assay verify nightly-40 --store s3://results"));
    assert!(html.contains("assay history e2e_ms_p99 --case chat.vllm.default --point c64 --store s3://results"));
}

#[test]
fn ten_thousand_runs_are_thinned_and_the_page_says_so() {
    let series = fixture::long(10_000);
    let html = report(std::slice::from_ref(&series)).html();
    check_balance(&html).expect("well formed");
    assert!(html.len() < 150_000, "{}", html.len());
    assert!(html.contains("Of 10,000 runs, each mark stands for 67 adjacent ones"));
    assert!(html.contains("The newest 200 of 10,000 runs, as a table"));
    assert_eq!(html.matches("<circle class=\"run\"").count(), 10_000_usize.div_ceil(67) + 1, "and one in the key");
    let path = html.split_once("class=\"runs\" d=\"").and_then(|(_, rest)| rest.split_once('"')).expect("bars").0;
    assert!(path.split('M').skip(1).any(|bar| bar.contains(" 11.8V")), "the wildest run is drawn: {path}");
}

#[test]
fn a_thousand_histories_keep_the_page_small_and_none_is_dropped_silently() {
    let mut all: Vec<Series> = (0..1_000).map(|_| fixture::steady()).collect();
    all.push(fixture::newly_changed());
    let html = report(&all).html();
    assert!(html.len() < 2_000_000, "{}", html.len());
    check_balance(&html).expect("well formed");
    assert_eq!(html.matches("class=\"history\"").count(), 1_001);
    assert!(html.contains("id=\"s-1000\""), "what is news comes first");
    assert!(html.contains("To keep this page small, 8") && html.contains(" and 0 metrics left out"), "it says what is short");
    assert!(
        report(&all).terminal(100).ends_with("and 981 more series: name one with METRIC, --case, --point; `--html FILE` has all")
    );
    let wordy: Vec<Series> = (0..3_000).map(|_| Series { metric: "'".repeat(10_000), ..fixture::newly_changed() }).collect();
    let html = report(&wordy).html();
    assert!(html.len() < 2_000_000 && html.contains(" left out."), "{}", html.len());
    assert!(report(&wordy).issue().is_some_and(|issue| issue.len() < 61_000 && issue.contains("\nAnd ")));
}

#[test]
fn runs_are_called_by_their_days_names_or_places() {
    let mut series = fixture::steady();
    assert!(report(&[series.clone()]).html().contains(">2026-11-14</text>"));
    series.runs.iter_mut().for_each(|run| run.started = None);
    assert!(report(&[series.clone()]).html().contains(">nightly-1</text>"), "names that are short");
    series.runs[44].id = "a-much-longer-name".to_owned();
    assert!(report(&[series]).html().contains(">run 45</text>"));
}

#[test]
fn a_history_of_nothing_and_of_one_run_are_pages_too() {
    for values in [&[][..], &[1.5], &[0.0, 0.0], &[f64::NAN, 1.0]] {
        let mut series = fixture::series("p50_us", "us", values);
        series.changes = Err("too short".to_owned());
        let report = report(&[series]);
        check_balance(&report.html()).expect("well formed");
        assert!(!report.terminal(80).is_empty());
    }
    assert!(report(&[]).html().contains("No change of level was found."));
}

/// Returns histories in which every free text is `text`.
fn with_hostile_text(text: &str) -> Vec<Series> {
    let mut all = fixture::all();
    for series in &mut all {
        series.subject = Subject::Point { pipeline: text.to_owned(), case: text.to_owned(), point: text.to_owned() };
        (series.metric, series.unit) = (text.to_owned(), text.to_owned());
        series.changes = series.changes.clone().map_err(|_| text.to_owned());
        for run in &mut series.runs {
            (run.id, run.commit) = (text.to_owned(), Some(text.to_owned()));
        }
    }
    all
}

fn check_hostile(text: &str) {
    let mut foreign = fixture::foreign();
    foreign.subject = Subject::Foreign {
        tool: text.to_owned(),
        statistic: text.to_owned(),
        labels: [(text.to_owned(), text.to_owned())].into(),
    };
    foreign.runs.iter_mut().for_each(|run| text.clone_into(&mut run.id));
    let inputs = Inputs { series: &[foreign], level: 0.05, store: None, origin: Some(text) };
    let foreign = Report::build(&inputs);
    check_balance(&foreign.html()).expect("well formed");
    assert!(!foreign.html().contains("<script"));
    for rendering in [foreign.html(), foreign.terminal(80)] {
        assert!(!rendering.contains(['\u{1b}', '\u{7}', '\u{202e}']));
    }
    let report = report(&with_hostile_text(text));
    let html = report.html();
    check_balance(&html).expect("well formed");
    assert!(!html.contains("<script") && !html.contains("<img"));
    let issue = report.issue().expect("news");
    let outside = outside_code(&issue);
    for mark in ["<", "@", "](", "[", "://", "www.", "$"] {
        assert!(!outside.contains(mark), "{mark} from {text:?} in {outside}");
    }
    assert!(!issue.lines().any(|line| line.starts_with('#')), "{issue}");
    assert_eq!(issue.lines().filter(|line| line.starts_with("- ")).count(), 1, "{issue}");
    for rendering in [html, issue, report.terminal(80)] {
        assert!(!rendering.contains(['\u{1b}', '\u{7}', '\u{202e}']));
    }
}

#[test]
fn hostile_texts_stay_text() {
    for text in
        ["</code><script>alert(1)</script>\"' onload=x \u{1b}]0;owned\u{7}", "`@owner` ``x`` \u{202e}txt.exe", "a\n- b\n# c", ""]
    {
        check_hostile(text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_text_is_markup(text in "[>&\"'`@#|a-z/= \\-!\\[\\]()\\\\$:.\\n\u{0}-\u{1f}\u{202e}\u{fffe}]{0,24}") {
        check_hostile(&text);
    }
}
