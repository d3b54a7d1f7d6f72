//! The most load within the SLOs as a published number: signed, computed again, traced to its trials, and judged by a gate that names it.
//!
//! The simulator refuses requests beyond its places at once, so that how many may be in flight does not depend on the speed of the machine.

use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::by_hand::Bench;
use crate::forgery::Forgery;
use crate::pipeline::{list, text};
use crate::serving::{RETRY_BUDGET, pipeline, workload};
use crate::support::{CommandResult, Fixture, PIPELINE};

/// The loads of the workload. A side has places for some of them, with two to spare, and two too few for the others.
const LOADS: &str = "12, 15, 18, 22";

/// Returns the target of a side that takes `places` requests at a time, of which one waits.
fn side(name: &str, places: u32) -> String {
    format!("{{name: {name}, kind: simulator, config: {{profile: fast, max_num_seqs: '{}', max_waiting: '1'}}}}", places - 1)
}

/// Returns a repository with a pipeline that compares two sides, each with its number of places.
fn compared(places: [u32; 2], trials: u32) -> Fixture {
    let fixture = Fixture::bare();
    let load = format!("mode: closed, concurrency: [{LOADS}], requests: 100");
    workload(&fixture, "chat", &load, "D(20,10)", "  slos: {e2e: 60s}\n");
    let [before, after] = places;
    let more = "  comparison: {baseline: {target: before}, candidate: {target: after}, variable_under_test: other, other: places}
  gates: [{name: load, metrics: [max_load]}]
";
    let targets = [side("before", before), side("after", after)];
    let targets = targets.each_ref().map(String::as_str);
    fixture.write(PIPELINE, &pipeline(&["chat"], &targets, trials, RETRY_BUDGET, more));
    fixture.commit("two sides");
    fixture.run("one").success();
    fixture
}

fn judge(fixture: &Fixture) -> CommandResult {
    fixture.assay(&["gate", "one", "--baseline", "HEAD", "--json"])
}

/// Returns the exit code of the gate, with the verdict on the most load.
fn judged(places: [u32; 2], trials: u32) -> (i32, Value) {
    let ran = judge(&compared(places, trials));
    let found: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let metrics = list(&found[0]["verdict"]["metrics"]);
    let metric = metrics.iter().find(|metric| metric["metric"] == "max_load").unwrap_or_else(|| panic!("{found:#}"));
    (ran.code, metric.clone())
}

#[test]
fn as_much_load_as_before_passes_a_gate() {
    let (code, metric) = judged([20, 20], 6);
    assert_eq!((code, text(&metric["outcome"])), (0, "unchanged"), "{metric:#}");
    let pairs = list(&metric["pairs"]);
    assert_eq!(pairs.len(), 6, "{metric:#}");
    assert!(pairs.iter().all(|pair| pair["baseline"] == 18.0 && pair["candidate"] == 18.0), "{metric:#}");
}

#[test]
fn less_load_than_before_is_a_regression() {
    let (code, metric) = judged([20, 17], 6);
    assert_eq!((code, text(&metric["outcome"])), (40, "regressed"), "{metric:#}");
    assert_eq!(
        (&metric["point_id"], &metric["unit"], &metric["better"]),
        (&json!("all-loads"), &json!("requests"), &json!("higher"))
    );
    let pairs = list(&metric["pairs"]);
    assert!(pairs.iter().all(|pair| pair["baseline"] == 18.0 && pair["candidate"] == 15.0), "{metric:#}");
}

#[test]
fn loads_that_end_too_early_at_either_end_decide_nothing() {
    for (places, code, why) in [
        (
            [20, 9],
            "below_all_loads",
            "the candidate fell short of the SLOs even at the lowest load, concurrency 12, in 2 of 2 trials: add lower loads",
        ),
        (
            [40, 20],
            "above_all_loads",
            "the baseline was within the SLOs even at the highest load, concurrency 22, in 2 of 2 trials: add higher loads",
        ),
    ] {
        let (exit, metric) = judged(places, 2);
        assert_eq!((exit, text(&metric["outcome"]), text(&metric["reason"]["code"])), (41, "inconclusive", code), "{metric:#}");
        assert!(text(&metric["reason"]["detail"]).starts_with(why), "{metric:#}");
    }
}

/// Returns a finished run of one side with two trials of each load, whose most load is 18.
fn measured() -> &'static Fixture {
    static MEASURED: OnceLock<Fixture> = OnceLock::new();
    MEASURED.get_or_init(|| {
        let fixture = Fixture::shared();
        let load = format!("mode: closed, concurrency: [{LOADS}], requests: 100");
        workload(&fixture, "chat", &load, "D(20,10)", "  slos: {e2e: 60s}\n");
        fixture.write(PIPELINE, &pipeline(&["chat"], &[&side("simulator", 20)], 2, RETRY_BUDGET, ""));
        fixture.commit("four loads");
        fixture.run("one").success();
        fixture
    })
}

/// Returns how a falsification of what all loads say is detected up to a level.
fn caught(level: u8, edit: impl FnOnce(&mut Value)) -> String {
    let falsify = |_: &Bench, manifest: &mut Value| edit(&mut manifest["body"]);
    Forgery::forge_in(Bench::with_runs_of(measured()), "reduce", falsify, |_| {}).describe_detection(level)
}

fn metric(body: &mut Value) -> &mut Value {
    &mut body["all_loads"][0]["metrics"][0]
}

const REFUSED: &str = "publish: summary_contradicts_itself";

#[test]
fn what_all_loads_say_is_computed_again_by_every_reader() {
    assert_eq!(caught(4, |_| {}), "level 4 (recomputed) of 4 reached");
    assert_eq!(caught(2, |body| drop(body.as_object_mut().expect("a body").remove("all_loads"))), REFUSED);
    assert_eq!(caught(2, |body| body["all_loads"][0]["crossings"][0]["load"] = json!(20)), REFUSED);
    assert_eq!(caught(2, |body| body["all_loads"][0]["crossings"][0]["place"] = json!("at_least")), REFUSED);
    assert_eq!(caught(2, |body| body["all_loads"][0]["unit"] = json!("sessions")), REFUSED);
    assert_eq!(caught(2, |body| metric(body)["median"] = json!(20)), REFUSED);
    assert_eq!(caught(2, |body| metric(body)["trials"][0]["value"] = json!(20)), REFUSED);
    assert_eq!(caught(2, |body| drop(metric(body)["rows"].as_object_mut().expect("rows").remove("median"))), REFUSED);
    assert_eq!(caught(4, |body| metric(body)["stability_reason"] = json!("calm")), "verify: recompute_differs");
}

#[test]
fn a_row_of_the_most_load_is_that_of_the_summary() {
    let forged = |edit: fn(&mut assay_warehouse::Row)| {
        let falsify = |bench: &Bench, manifest: &mut Value| {
            crate::forgery::replace_rows(bench, manifest, &assay_warehouse::OUTCOME_FACT, |rows| {
                rows.iter_mut().filter(|row| row.text("metric") == Some("max_load")).for_each(edit);
            });
        };
        Forgery::forge_in(Bench::with_runs_of(measured()), "reduce", falsify, |_| {}).describe_detection(2)
    };
    assert_eq!(forged(|row| row.set("value", 99.0).expect("a column")), "publish: row_differs");
    // Place and trial are keys of the table, so that they decide the row's id.
    assert_eq!(forged(|row| row.set("point_id", "concurrency-18").expect("a column")), "publish: row_without_summary");
    assert_eq!(forged(|row| row.set("attempt", 1_i64).expect("a column")), "publish: row_without_summary");
}

#[test]
fn the_number_is_published_queried_and_traced_to_its_trials() {
    let fixture = measured();
    let sql = "SELECT point_id, value, unit, n FROM outcomes WHERE metric = 'max_load' AND statistic = 'median'";
    let queried = fixture.assay(&["query", sql, "--format", "csv"]).success().stdout;
    assert!(queried.contains("all-loads,18") && queried.contains(",requests,2"), "{queried}");
    let numbers = fixture.published("one").join("numbers.json");
    let numbers: Value = serde_json::from_slice(&std::fs::read(numbers).expect("the numbers")).expect("JSON");
    let is_it = |number: &&Value| number["metric"] == "max_load" && number["statistic"] == "median";
    let number = list(&numbers["numbers"]).iter().find(is_it).expect("it is published");
    assert_eq!((&number["point_id"], &number["value"], &number["n"]), (&json!("all-loads"), &json!(18), &json!("2")));
    let traced = fixture.assay(&["trace", text(&number["address"])]).success().stdout;
    for line in [
        "the median of `max_load`, chat.simulator.default at `all-loads`",
        "crossing  chat.simulator.default.all-loads.t0: 18 requests",
        "trials    8 counted",
        "chat.simulator.default.concurrency-22.t1 attempt",
    ] {
        assert!(traced.contains(line), "{line}: {traced}");
    }
    // The row of one of its trials leads to that trial alone, at each load.
    let sql = "SELECT row_id FROM outcomes WHERE metric = 'max_load' AND trial_id = 'chat.simulator.default.all-loads.t1'";
    let row = fixture.assay(&["query", sql, "--format", "csv"]).success().stdout;
    let row = row.lines().nth(1).expect("a row").to_owned();
    let traced = fixture.assay(&["trace", &format!("one/outcome_fact/{row}/value"), "--json"]).success().json();
    let trials: Vec<&str> = list(&traced["trials"]).iter().map(|trial| text(&trial["trial_id"])).collect();
    assert_eq!(trials.len(), 4, "{trials:?}");
    assert!(trials.iter().all(|trial| trial.rsplit('.').next() == Some("t1")), "{trials:?}");
    let shown = fixture.assay(&["show", "one"]).success().stdout;
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("the most within the SLOs is concurrency 18 (no interval), 2 trials"), "{shown}");
}
