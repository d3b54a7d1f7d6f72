//! Tests of the whole page.

use std::collections::BTreeMap;

use assay_manifest::{AdapterRequests, Count, MetricSummary, PooledLatency, Stability};
use proptest::prelude::*;

use crate::render::check::{check_balance, ids};
use crate::run::fixture;
use crate::run::inputs::Verification;
use crate::run::model::Report;

/// The first character of a terminal's escape sequence.
const ESCAPE: char = '\u{1b}';

#[test]
fn the_page_is_well_formed() {
    let tags = check_balance(&fixture::report().html()).expect("well formed");
    assert!(tags > 500, "{tags}");
    assert!(check_balance("<style></style><p><b></p></b>").is_err());
    assert!(check_balance("<style></style><p>").is_err());
}

#[test]
fn every_link_inside_the_page_arrives_at_one_place() {
    let html = fixture::report().html();
    let targets = ids(&html, " id=\"");
    let unique: std::collections::BTreeSet<_> = targets.iter().collect();
    assert_eq!(unique.len(), targets.len(), "an id stands twice");
    let links = ids(&html, "href=\"#");
    assert!(links.len() > 20, "{}", links.len());
    for link in links {
        assert!(targets.contains(&link), "nothing is called {link}");
    }
}

#[test]
fn every_number_of_the_table_opens_its_lineage() {
    let report = fixture::report();
    let html = report.html();
    for (_, _, row) in report.rows() {
        let Ok(measured) = &row.measured else { continue };
        let row = measured.address.row();
        assert!(html.contains(&format!("href=\"#r-{row}\"")), "{row}");
        assert!(html.contains(&format!("assay trace {}", measured.address)), "{row}");
    }
}

#[test]
fn nothing_is_requested_and_nothing_runs() {
    let html = fixture::report().html();
    for forbidden in ["<script", "<link", "<img", "<iframe", " src=", "url(", "@import", "@font-face", " onload", "href=\"http"] {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn headings_nest() {
    let html = fixture::report().html();
    let mut before = 0;
    for level in html.split("<h").skip(1).filter_map(|rest| rest.chars().next()?.to_digit(10)) {
        assert!(level <= before + 1, "h{level} after h{before}");
        before = level;
    }
    assert_eq!(html.matches("<h1").count(), 1);
}

#[test]
fn a_serving_page_is_well_formed_and_every_link_arrives() {
    let html = fixture::serving::whole().report().html();
    check_balance(&html).expect("well formed");
    let targets = ids(&html, " id=\"");
    let unique: std::collections::BTreeSet<_> = targets.iter().collect();
    assert_eq!(unique.len(), targets.len(), "an id stands twice");
    for link in ids(&html, "href=\"#") {
        assert!(unique.contains(&link), "nothing is called {link}");
    }
    for forbidden in ["<script", "<link", "<img", " src=", "url(", "@import", "href=\"http"] {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn the_verdict_on_the_slos_is_before_the_numbers() {
    let html = fixture::serving::small().report().html();
    let table = html.split_once("<table class=\"loads\">").expect("a table of loads").1;
    let place = |text: &str| table.find(text).unwrap_or_else(|| panic!("{text} is not in the table"));
    assert!(place(">failed</th>") < place(">SLOs</th>") && place(">SLOs</th>") < place("TTFT p50"));
    let row = table.split_once("<tbody>").expect("rows").1.split_once("</tr>").expect("a row").0;
    let cells: Vec<&str> = row.split("<td").collect();
    assert!(cells[4].contains(">met<"), "{}", cells[4]);
}

#[test]
fn every_number_of_serving_opens_its_lineage() {
    let report = fixture::serving::small().report();
    let html = report.html();
    let numbers: Vec<_> = report.rows().filter_map(|(_, _, row)| row.measured.as_ref().ok()).collect();
    assert!(numbers.len() > 40, "{}", numbers.len());
    for measured in numbers {
        assert!(html.contains(&format!("id=\"r-{}\"", measured.address.row())), "{}", measured.address);
    }
}

#[test]
fn serving_pictures_say_what_they_show_and_what_they_do_not() {
    let model = fixture::serving::small();
    let timelines = model.views.iter().flat_map(|views| &views.points).filter_map(|view| view.timeline.as_ref());
    let failed = timelines.flat_map(|timeline| &timeline.shown).filter(|request| request.outcome != "ok").count();
    let html = model.report().html();
    assert!(html.contains("Not drawn: vllm at concurrency 128: none of 5 trials counts (client_stalled × 5)"));
    assert!(html.contains("vllm: no counted trial"));
    assert!(html.contains("1.6 % failed"), "a curve ends at the share of failed requests");
    assert!(html.contains("SLO TTFT 500 ms"));
    assert!(html.contains("48 of 160 requests, thinned: 1 in 2 requests, and all failed ones; of those, evenly chosen"));
    assert_eq!(html.matches("class=\"failed\"").count(), failed, "a cross for each failed request");
    assert!(failed > 0);
    for picture in html.split("<svg role=\"img\"").skip(1) {
        let title = picture.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>")).expect("a title").0;
        assert!(title.len() > 10, "{title}");
    }
}

#[test]
fn what_a_gpu_gives_is_drawn_against_what_a_user_gets() {
    let mut model = fixture::serving::whole();
    let drawn = "Output tokens/s per GPU against tokens/s of a user";
    assert!(!model.report().html().contains(drawn), "no metric of a GPU, and no reason for its absence");
    let absent = |model: &mut fixture::Model| {
        for serving in model.summary.points.iter_mut().filter_map(|point| point.serving.as_mut()) {
            serving.absent.insert("output_tokens_per_gpu_per_s".to_owned(), "the hosts are not known".to_owned());
        }
    };
    absent(&mut model);
    let html = model.report().html();
    assert!(!html.contains(drawn));
    assert!(html.contains("Output tokens/s per GPU against the tokens/s of a user are not drawn: the hosts are not known."));
    fixture::serving::derive(&mut model, "output_tokens_per_s", "output_tokens_per_gpu_per_s", 0.125);
    let html = model.report().html();
    check_balance(&html).expect("well formed");
    // A picture for each of both workloads, with a line for each target.
    assert_eq!(html.matches(drawn).count(), 2);
    let title = html.split_once(drawn).expect("a picture").1.split_once("</title>").expect("its title").0;
    assert!(
        title.contains("vllm: concurrency 1: ") && title.contains(" tokens/s/GPU at ") && title.contains("sglang: "),
        "{title}"
    );
    assert!(html.contains(">tokens/s/GPU<"), "its column");
    let others = ["Total tokens/s per GPU", "Input tokens/s per prefill GPU", "Output tokens/s per decode GPU"];
    let pictures = |html: &str| others.map(|title| html.matches(&format!("{title} against tokens/s of a user")).count());
    assert_eq!(pictures(&html), [0; 3], "no GPU has a role");
    fixture::serving::derive(&mut model, "output_tokens_per_s", "total_tokens_per_gpu_per_s", 0.25);
    fixture::serving::derive(&mut model, "output_tokens_per_s", "input_tokens_per_prefill_gpu_per_s", 0.5);
    let html = model.report().html();
    assert_eq!(pictures(&html), [2, 2, 0], "a picture for each metric that there is");
    let title = html
        .split_once("Input tokens/s per prefill GPU against")
        .expect("a picture")
        .1
        .split_once("</title>")
        .expect("its title")
        .0;
    assert!(title.contains(" input tokens/s/prefill GPU at "), "{title}");
    assert!(model.report().markdown().contains(" tokens/s/GPU |"));
}

#[test]
fn ttft_is_told_apart_by_the_length_of_the_input() {
    let mut model = fixture::serving::small();
    let mut add = |range: &str, factor: f64| {
        for percentile in ["p50", "p99"] {
            let name = format!("ttft_input_{range}_ms_{percentile}");
            fixture::serving::derive(&mut model, &format!("ttft_ms_{percentile}"), &name, factor);
        }
        model.report()
    };
    assert!(!add("1k", 0.5).html().contains("TTFT by the length of the input"), "of one range alone it is TTFT");
    let report = add("16k", 2.0);
    let (html, markdown) = (report.html(), report.markdown());
    check_balance(&html).expect("well formed");
    let table = html.split_once("TTFT by the length of the input").expect("a table").1.split_once("</table>").expect("its end").0;
    assert!(table.contains("up to 1k tokens") && table.contains("4k to 16k tokens") && !table.contains("16k to 64k"), "{table}");
    let row = table.split_once("<tbody>").expect("rows").1.split_once("</tr>").expect("a row").0;
    assert!(row.contains("concurrency 1") && row.contains("n = 800"), "{row}");
    let lines = markdown.split_once("TTFT by the length of the input").expect("a table").1;
    assert!(lines.contains("| load | up to 1k tokens | 4k to 16k tokens |") && lines.contains(", 800 requests |"), "{lines}");
}

#[test]
fn ttft_is_told_apart_by_adapter() {
    let mut model = fixture::serving::small();
    let some = |requests: u64, ms: f64| {
        let ttft = PooledLatency { n: Count(requests), p50_ms: ms, p99_ms: 2.0 * ms };
        AdapterRequests { requests: Count(requests), latencies: [("ttft".to_owned(), ttft)].into() }
    };
    let mut add = |name: &str, found: AdapterRequests| {
        model.summary.points[0].serving.as_mut().expect("it serves").adapters.insert(name.to_owned(), found);
        model.report()
    };
    let title = "TTFT by adapter, over all counted trials together, p50 / p99 in ms";
    assert!(!add("sql", some(750, 41.0)).html().contains(title), "of one adapter alone it is TTFT");
    add("none", AdapterRequests { requests: Count(3), latencies: BTreeMap::new() });
    let report = add("a|b", some(1_250, 12.0));
    let (html, markdown) = (report.html(), report.markdown());
    check_balance(&html).expect("well formed");
    let table = html.split_once(title).expect("a table").1.split_once("</table>").expect("its end").0;
    let row = table.split_once("<tbody>").expect("rows").1.split_once("</tr>").expect("a row").0;
    assert!(row.contains("12.0 / 24.0") && row.contains("n = 1250") && row.contains("41.0 / 82.0"), "{row}");
    assert!(!table.contains("none"), "an adapter without a latency has no column: {table}");
    let lines = markdown.split_once(title).expect("a table").1;
    assert!(
        lines.contains("| load | a\\|b | sql |") && lines.contains("| 12.0 / 24.0, 1250 requests | 41.0 / 82.0, 750 requests |"),
        "{lines}"
    );
}

#[test]
fn the_trials_of_a_load_are_drawn_over_time() {
    let mut model = fixture::serving::small();
    let html = model.report().html();
    assert!(html.contains("<h2>Over time</h2>"), "its section");
    let drawn = |html: &str| html.matches("in the slices of 5 trials").count();
    // Two loads have counted trials: a picture of throughput and one of TTFT for each.
    assert_eq!(drawn(&html), 4);
    assert!(
        html.contains("TTFT, ms in the slices of 5 trials: median ")
            && html.contains("output tokens/s in the slices of 5 trials: ")
    );
    assert!(html.contains("requests failed</title>"), "failed requests are marked");
    for slices in model.views.iter_mut().flat_map(|views| &mut views.points).filter_map(|view| view.time_slices.as_mut()) {
        slices.trials.iter_mut().flat_map(|trial| &mut trial.slices).for_each(|slice| {
            (slice.p50_ms, slice.p99_ms, slice.output_tokens) = (None, None, None);
        });
    }
    let html = model.report().html();
    assert_eq!((drawn(&html), html.contains("requests/s in the slices of 5 trials: ")), (2, true), "no TTFT, no tokens");
    check_balance(&html).expect("well formed");
}

#[test]
fn hollow_is_what_is_unstable_or_incomplete() {
    let mut model = fixture::serving::small();
    let hollow = |model: &fixture::Model| model.report().html().matches("class=\"mark hollow\"").count();
    assert_eq!(hollow(&model), 0);
    model.summary.points[0].trials_counted = 4;
    assert_eq!(hollow(&model), 3, "one for each of TTFT, TPOT and E2E");
}

#[test]
fn a_row_with_an_uncertain_number_points_to_the_remarks() {
    let marked = |change: &dyn Fn(&mut MetricSummary)| {
        let mut model = fixture::serving::small();
        let metrics = &mut model.summary.points[0].metrics;
        change(metrics.iter_mut().find(|metric| metric.metric == "itl_ms_p99").expect("a column beside the headline"));
        model.report().html().matches("see below").count()
    };
    assert_eq!(marked(&|_| {}), 0);
    assert_eq!(marked(&|itl| itl.stability = Stability::Unstable), 1);
    assert_eq!(marked(&|itl| itl.interval = None), 1);
}

#[test]
fn a_thousand_loads_stay_under_two_megabytes_with_all_their_rows() {
    let html = fixture::serving::many(1_000).report().html();
    assert!(html.len() < 2_000_000, "{}", html.len());
    assert!(!html.contains("rows are left out"));
    assert_eq!(html.matches("<section id=\"p-0-").count(), 1_000);
    assert!(html.contains("12 of 1000 loads, evenly chosen."));
    assert!(html.contains("6 of 1000 loads, evenly chosen."));
    assert!(html.contains("Of more than 60 loads of a case, 60 evenly chosen ones are drawn."));
    check_balance(&html).expect("well formed");
    let targets: std::collections::BTreeSet<_> = ids(&html, " id=\"").into_iter().collect();
    for link in ids(&html, "href=\"#") {
        assert!(targets.contains(link), "nothing is called {link}");
    }
}

/// Returns a serving fixture in which every free text is `text`.
fn serving_with_hostile_text(text: &str) -> Report {
    let mut model = fixture::serving::small();
    let own = || text.to_owned();
    for work in model.plan.workloads.iter_mut().filter_map(|workload| workload.serving.as_mut()) {
        work.model = own();
    }
    for point in &mut model.summary.points {
        for metric in &mut point.metrics {
            metric.stability = assay_manifest::Stability::Unstable;
            metric.stability_reason = own();
        }
        for reason in point.excluded.iter_mut().flat_map(|excluded| &mut excluded.reasons) {
            (reason.code, reason.detail) = (own(), own());
        }
        if let Some(serving) = &mut point.serving {
            serving.outcomes.insert(own(), assay_manifest::Count(3));
            serving.latency_from = own();
            serving.absent.insert(own(), own());
            serving.absent.insert("e2e_ms_p99_with_failures".to_owned(), own());
        }
    }
    for view in model.views.iter_mut().flat_map(|views| &mut views.points) {
        for curve in &mut view.curves {
            curve.quantiles.insert(0, [f64::NAN, f64::INFINITY]);
        }
        if let Some(timeline) = &mut view.timeline {
            timeline.thinning = own();
            for request in &mut timeline.shown {
                request.outcome = own();
                request.end_ms = Some(f64::INFINITY);
            }
        }
    }
    for (check, outcome) in model.collection.cross_checks.iter_mut().zip(["disagrees", "not_compared"]) {
        check.what = own();
        check.outcome = outcome.parse().expect("an outcome");
        check.reason = Some(own());
    }
    model.verified = Some(Verification { level: own(), verifier: own() });
    model.report()
}

#[test]
fn hostile_texts_of_serving_reach_no_rendering_as_markup() {
    let report = serving_with_hostile_text("</text></svg><script>alert(1)</script>\"' onload=x \u{1b}]0;owned\u{7}");
    let html = report.html();
    check_balance(&html).expect("well formed");
    assert!(!html.contains("<script"));
    assert!(html.contains("&lt;script&gt;"));
    assert!(!report.markdown().contains("<script"));
    for text in [report.terminal(100, false), report.markdown(), html] {
        assert!(!text.contains(['\u{1b}', '\u{7}']));
        assert!(!text.contains("NaN"));
    }
}

#[test]
fn a_thousand_points_stay_under_two_megabytes_with_all_their_rows() {
    let html = fixture::many_points(1_000).html();
    assert!(html.len() < 2_000_000, "{}", html.len());
    assert_eq!(html.matches("class=\"lineage\"").count(), 1_000);
    assert!(html.contains("The first 40 of 1000 points are drawn."));
    assert!(!html.contains("rows are left out"));
    check_balance(&html).expect("well formed");
}

#[test]
fn more_than_fits_is_left_out_aloud() {
    let html = fixture::many_points(5_000).html();
    assert!(html.len() < 2_000_000, "{}", html.len());
    assert!(html.contains("more rows left out to keep this page small; numbers.json has all of them."));
}

#[test]
fn texts_of_any_length_keep_the_page_small() {
    let mut model = fixture::model();
    let long = "x".repeat(1_000_000);
    model.plan.pipeline.path.clone_from(&long);
    for spec in model.specs.values_mut() {
        spec.clone_from(&long);
    }
    for metric in model.summary.points.iter_mut().flat_map(|point| &mut point.metrics) {
        metric.stability_reason.clone_from(&long);
    }
    let html = model.report().html();
    assert!(html.len() < 300_000, "{}", html.len());
}

/// Returns a fixture in which every free text is `text`.
fn with_hostile_text(text: &str) -> Report {
    let mut model = fixture::model();
    let text = || text.to_owned();
    model.plan.pipeline.path = text();
    model.plan.source.repository = Some(text());
    model.plan.source.commit = Some(text());
    model.plan.order.seed = text();
    model.plan.claim = Some(assay_manifest::Claim { methodology: text(), representative: true, statement: text() });
    model.plan.unpinned.push(assay_manifest::UnpinnedInput { what: text(), reason: text() });
    for workload in &mut model.plan.workloads {
        workload.seed = text();
        for metric in &mut workload.metrics {
            metric.path = text();
            metric.unit = text();
        }
        for file in workload.indicator.iter_mut().flat_map(|work| &mut work.files) {
            file.origin = text();
        }
    }
    for point in model.plan.cases.iter_mut().flat_map(|case| &mut case.points) {
        point.value = std::iter::once((text(), text())).collect();
    }
    for control in &mut model.environment.controls {
        control.evidence = text();
    }
    for host in &mut model.environment.hosts {
        host.name = text();
        host.facts.cpu_model = assay_manifest::Fact::observed(text(), text());
        host.facts.virtualization = assay_manifest::Fact::unknown(text());
    }
    for software in &mut model.environment.software {
        software.name = text();
    }
    model.summary.issues.push(assay_manifest::Reason { code: text(), detail: text() });
    for file in &mut model.summary.files {
        file.artifact.name = text();
    }
    for point in &mut model.summary.points {
        for reason in point.excluded.iter_mut().flat_map(|excluded| &mut excluded.reasons) {
            reason.code = text();
            reason.detail = text();
        }
        for metric in &mut point.metrics {
            metric.metric = text();
            metric.unit = text();
            metric.stability_reason = text();
            metric.interval_absent = Some(text());
            if let Some(interval) = &mut metric.interval {
                interval.method = text();
            }
            metric.rows = metric
                .rows
                .iter()
                .map(|(statistic, row)| (if statistic == "median" { statistic.clone() } else { text() }, *row))
                .collect();
        }
    }
    for shortfall in &mut model.grade.shortfalls {
        shortfall.rule = text();
        shortfall.found = text();
    }
    for signature in &mut model.signers {
        signature.name = text();
        signature.signer = text();
        signature.key_fingerprint = text();
    }
    model.trust_policy = model.trust_policy.map(|(_, digest)| (text(), digest));
    for spec in model.specs.values_mut() {
        *spec = text();
    }
    model.report()
}

#[test]
fn hostile_texts_reach_no_rendering_as_markup() {
    let report = with_hostile_text("</code><script>alert(1)</script>\"' onload=x \u{1b}]0;owned\u{7}");
    let html = report.html();
    check_balance(&html).expect("well formed");
    assert!(!html.contains("<script"));
    assert!(html.contains("&lt;script&gt;"));
    for text in [report.terminal(100, false), report.markdown(), html] {
        assert!(!text.contains(['\u{1b}', '\u{7}']));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_text_opens_a_tag(text in "[<>&\"'`a-z/= \\-!\\[\\]\u{0}-\u{1f}\u{202e}]{0,24}") {
        let report = with_hostile_text(&text);
        let html = report.html();
        prop_assert!(check_balance(&html).is_ok(), "{:?}", check_balance(&html));
        // The tags are the fixture's own: as many as with a text that is harmless and has no code marks.
        if !text.contains('`') && !text.trim().is_empty() {
            let count = |html: &str| html.matches('<').count();
            // Its lines stay, because some places write each as an element of its own.
            let harmless: String = text.chars().map(|letter| if letter.is_ascii_graphic() { 'x' } else { letter }).collect();
            prop_assert!(count(&html).abs_diff(count(&with_hostile_text(&harmless).html())) <= 8, "{text:?}");
        }
        prop_assert!(!report.terminal(80, false).contains(ESCAPE));
        prop_assert!(!report.markdown().contains("<script"));
    }
}

/// Returns a report of two variants with packages, and one without, in which every free text is `text`.
fn with_stacks(text: &str) -> Report {
    use crate::ranking::{Candidate, Measured, rank};
    use crate::run::model::stacks::{Stack, StacksSection};
    let candidate = |variant: &str, level: f64| Candidate {
        variant: variant.to_owned(),
        lock: None,
        median: level,
        interval: None,
        values: (0..5).map(|round| (round, level * (1.0 + 0.001 * f64::from(round * 3 % 5)))).collect(),
        planned: 5,
    };
    let measured = Measured {
        place: text.to_owned(),
        metric: text.to_owned(),
        unit: "ms".to_owned(),
        better: assay_manifest::BetterDirection::Lower,
        candidates: vec![candidate("old", 13.0), candidate("new", 10.0)],
        left_out: vec![("bare".to_owned(), text.to_owned())],
    };
    let lock = |bytes: &[u8]| Some((text.to_owned(), assay_manifest::Digest::compute(bytes)));
    let stack = |variant: &str, lock| Stack { variant: variant.to_owned(), lock, packages: text.to_owned() };
    let stacks = vec![stack("old", lock(b"old")), stack("new", lock(b"new")), stack("bare", None)];
    Report { stacks: Some(StacksSection { stacks, rankings: rank(vec![measured]) }), ..crate::run::fixture::report() }
}

#[test]
fn a_run_of_stacks_shows_each_lock_file_and_the_ranking() {
    assert!(!crate::run::fixture::report().html().contains("id=\"stacks\""), "a run without stacks has no such section");
    let html = with_stacks("numpy").html();
    check_balance(&html).expect("well formed");
    for digest in [b"old", b"new"].map(|bytes| assay_manifest::Digest::compute(bytes).to_string()) {
        assert!(html.contains(&digest), "{digest}");
    }
    for part in [
        "<code>new</code> is fastest of the 2 that are ranked, 1 left out: 1.30 times as fast as <code>old</code>",
        "<code>bare</code> is not ranked: numpy.",
        "Holm",
    ] {
        assert!(html.contains(part), "{part}");
    }
    for text in ["</code><script>alert(1)</script>", "`@owner` ``x``"] {
        let html = with_stacks(text).html();
        check_balance(&html).expect("well formed");
        assert!(!html.contains("<script"), "{text}");
    }
}
