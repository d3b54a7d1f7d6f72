//! One counted trial of at least 900 s of sessions, over the real binaries: its intervals are within run wherever they stand, and decide no gate.
//!
//! No test takes 900 s. A run of a second is measured, and then execute and provision state, with their own keys, that its trials began 900 s
//! earlier and that their last response took as long; the honest stages make everything downstream of that.

use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::by_hand::Bench;
use crate::forgery::Forgery;
use crate::pipeline::{list, text};
use crate::records::{begin_earlier, last_longer};
use crate::serving;
use crate::support::{Fixture, PIPELINE};

/// The time by which a trial is made longer.
const LONGER_NS: i64 = 900_000_000_000;

/// The definitions of two sides, each measured in one trial of sessions with this load.
fn define(fixture: &Fixture, load: &str, intent: &str) {
    let fields = format!(
        "  batching_policy: none\n  load: {{mode: closed, concurrency: [8], timeout: 1000s, {load}}}\n  \
         lengths: D(20,4)\n  sessions: {{turns: {{uniform: {{min: 1, max: 3}}}}, think_time: 1ms}}\n  time_limit: 2000s\n"
    );
    serving::workload_of(fixture, "agents", &fields);
    let simulator = |name: &str, seed: u32| {
        format!("{{name: {name}, kind: simulator, config: {{profile: fast, ttft_jitter_ms: 3, seed: {seed}}}}}")
    };
    let targets = [simulator("before", 1), simulator("after", 2)];
    let more = "  placement: coexist\n  comparison: {baseline: {target: before}, candidate: {target: after}, variable_under_test: runtime_version}\n  gates: [{name: \
                latency, metrics: [ttft_ms_mean]}]\n";
    let text = serving::pipeline(&["agents"], &targets.each_ref().map(String::as_str), 1, serving::RETRY_BUDGET, more);
    fixture.write(PIPELINE, &text.replace("intent: exploratory", &format!("intent: {intent}")));
}

/// A run of two sides that are measured in one trial each.
fn measured_once() -> &'static Fixture {
    static MEASURED: OnceLock<Fixture> = OnceLock::new();
    MEASURED.get_or_init(|| {
        let fixture = Fixture::shared();
        define(&fixture, "sessions: 60", "exploratory");
        fixture.commit("one trial of each side");
        fixture.run("one").success();
        fixture
    })
}

fn long_run() -> Forgery {
    let earlier = |_: &Bench, manifest: &mut Value| begin_earlier(&mut manifest["body"]["observed_at"], LONGER_NS);
    let longer = |bench: &Bench, manifest: &mut Value| last_longer(manifest, bench, LONGER_NS);
    Forgery::forge_two(Bench::with_runs_of(measured_once()), "provision", earlier, |_| {}, Some(("execute", Box::new(longer))))
}

#[test]
fn one_long_trial_has_intervals_within_its_run_that_say_so_and_decide_no_gate() {
    let run = long_run();
    assert_eq!(run.refused_by(), None);
    let verified = run.verify(&["--recompute"]).success();
    assert!(verified.stdout.contains("level 4 (recomputed) of 4 reached"), "{}", verified.stdout);

    let shown: Value = serde_json::from_str(&run.assay(&["show", "one", "--json"]).success().stdout).expect("JSON");
    let metrics: Vec<&Value> = list(&shown["results"]).iter().flat_map(|point| list(&point["metrics"])).collect();
    let of =
        |name: &str| metrics.iter().find(|metric| metric["metric"] == name).unwrap_or_else(|| panic!("no `{name}`: {shown}"));
    let mean = of("ttft_ms_mean");
    assert_eq!((&mean["interval_kind"], &mean["interval_sessions"], &mean["n"]), (&json!("within_run"), &json!(60), &json!(1)));
    assert!(of("request_throughput_per_s")["interval"].is_null(), "a total has none");

    let limit = "do not hold the variation from run to run";
    let terminal = run.assay(&["show", "one"]).success().stdout;
    let markdown = run.assay(&["show", "one", "--markdown"]).success().stdout;
    for page in [&terminal, &markdown] {
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(page.contains("within run") && page.contains(limit), "{page}");
    }
    let compared = run.assay(&["compare", "one", "one"]).success().stdout;
    assert!(compared.contains("1 / 1, within run"), "{compared}");

    let rows = run.query("SELECT DISTINCT interval_kind FROM outcome_fact WHERE statistic = 'ci_low'").success().stdout;
    assert_eq!(rows, "interval_kind\nwithin_run\n");

    let judged = run.assay(&["gate", "one", "--baseline", "HEAD"]);
    assert_eq!(judged.code, 41, "{judged:?}");
    let told = judged.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("intervals are within run") && told.contains("one trial never decides"), "{told}");
}

#[test]
fn the_same_run_without_the_long_trial_has_no_interval_and_says_why() {
    let fixture = measured_once();
    let shown: Value = serde_json::from_str(&fixture.assay(&["show", "one", "--json"]).success().stdout).expect("JSON");
    let metrics: Vec<&Value> = list(&shown["results"]).iter().flat_map(|point| list(&point["metrics"])).collect();
    assert!(metrics.iter().all(|metric| metric["interval"].is_null() && metric["interval_kind"].is_null()), "{shown}");
    let summary = fixture.pointers("one", "reduce").first().expect("a Summary").load(&fixture.store());
    let metric = &summary["body"]["points"][0]["metrics"][0];
    assert!(text(&metric["interval_absent"]).contains("has an interval within its run if it is measured for 900 s"), "{metric}");
    let terminal = fixture.assay(&["show", "one"]).success().stdout;
    assert!(!terminal.contains("Intervals within run"), "{terminal}");
    assert!(!fixture.assay(&["compare", "one", "one"]).success().stdout.to_lowercase().contains("within run"));
}

#[test]
fn a_gate_of_one_trial_and_a_claim_without_enough_sessions_are_known_before_anything_runs() {
    let fixture = Fixture::bare();
    define(&fixture, "duration: 900s", "realism");
    fixture.commit("one trial of each side");
    let validated = fixture.assay(&["validate"]).success();
    assert!(validated.stdout.contains("gate latency: always inconclusive"), "{}", validated.stdout);
    assert!(fixture.assay(&["plan", PIPELINE]).success().stdout.contains("gate      latency: always inconclusive"));
    define(&fixture, "duration: 899s", "realism");
    let refused = fixture.assay(&["validate"]);
    assert_eq!(refused.code, 10, "{refused:?}");
    let why = "a trial is not planned to be measured for 900 s";
    assert!(refused.stderr.contains(why) && refused.stderr.contains("hint: write `count: 3` or more"), "{}", refused.stderr);
    // Explorations are free to measure once, and their gates say what they always did.
    define(&fixture, "duration: 899s", "exploratory");
    fixture.commit("an exploration");
    let validated = fixture.assay(&["validate"]).success();
    assert!(!validated.stdout.contains("always inconclusive"), "{}", validated.stdout);
    let planned = fixture.assay(&["plan", PIPELINE]).success().stdout;
    assert!(planned.contains("gate      latency: 1 metric; 1 pair ") && !planned.contains("always inconclusive"), "{planned}");
}
