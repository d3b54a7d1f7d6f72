//! `assay history --foreign` over the real binary: a metric of another tool from import to import, with its change points, and the list of the
//! evidence that a store has.

use std::fs;

use assay_store::Store;
use serde_json::{Value, json};

use crate::pipeline::{list, text};
use crate::support::{Fixture, blob, write_file};
use crate::tamper::flip_bit;

/// The first line of everything that lists foreign evidence.
const FIRST_LINE: &str = "foreign evidence: Assay measured none of it, and only its importer vouches for it";

/// Returns a result of `vllm bench serve` at a request rate, with a mean time to first token and with no failed request. The number of output tokens
/// makes it differ from others.
fn vllm(rate: f64, ttft_ms: f64, tokens: u32) -> String {
    json!({
        "model_id": "m", "request_rate": rate, "duration": 10.0, "completed": 100, "failed": 0, "total_input_tokens": 1000,
        "total_output_tokens": tokens, "total_token_throughput": 200.0, "request_throughput": 10.0, "output_throughput": 100.0,
        "mean_ttft_ms": ttft_ms, "p99_ttft_ms": ttft_ms * 1.5,
    })
    .to_string()
}

fn import(fixture: &Fixture, name: &str, content: &str) -> Value {
    let file = format!("results/{name}.json");
    fixture.write(&file, content);
    fixture.assay(&["import", "results", &file, "--name", name, "--json"]).success().json()
}

/// Imports twenty nights of two rates, of which one became slower with the eleventh night.
fn nights(fixture: &Fixture) {
    for night in 1..=20 {
        let ripple = 1.0 + 0.002 * f64::from(night * 7 % 5);
        let level = if night > 10 { 130.0 } else { 100.0 };
        import(fixture, &format!("slow-{night:02}"), &vllm(8.0, level * ripple, night));
        import(fixture, &format!("same-{night:02}"), &vllm(2.0, 50.0 * ripple, night));
    }
}

#[test]
fn a_metric_of_another_tool_has_a_history_of_its_own() {
    let fixture = Fixture::bare();
    nights(&fixture);
    let shown = fixture.assay(&["history", "--foreign", "vllm.ttft"]).success();
    let origin = "foreign: measured by vllm bench serve of a version that its files do not state, not by Assay";
    assert_eq!(shown.stdout.lines().next(), Some(origin));
    let changes: Vec<&str> = shown.stdout.lines().filter(|line| line.starts_with("  ^ from ")).collect();
    let [change] = changes.as_slice() else { panic!("{}", shown.stdout) };
    assert!(change.starts_with("  ^ from slow-11 (") && change.contains(", worse, "), "{change}");
    assert_eq!(shown.stdout.matches("no change of level was found").count(), 1, "{}", shown.stdout);
    assert!(shown.stdout.contains("vllm.ttft (mean) of ") && !shown.stdout.contains("assay trace"), "{}", shown.stdout);
    assert!(shown.stderr.contains("each piece of evidence counts as one run of its tool"), "{}", shown.stderr);

    let document = fixture.assay(&["history", "vllm.ttft_p99", "slow-*", "--foreign", "--json"]).success().json();
    assert_eq!((&document["about"], &document["grade"]), (&json!(origin), &json!("foreign")));
    let [history] = list(&document["histories"]).as_slice() else { panic!("{document:#}") };
    assert_eq!(history["statistic"], "p99");
    assert_eq!(history["labels"]["request_rate"], "8");
    assert_eq!((list(&history["runs"]).len(), text(&history["runs"][0]["evidence"])), (20, "slow-01"));
    assert_eq!(history["changes"][0]["run"], "slow-11");
    // The document of a history leads back to the signed import.
    fixture.assay(&["verify", text(&history["runs"][10]["id"]), "--strict"]).success();

    fixture.assay(&["history", "--foreign", "vllm.ttft", "--html", "page.html"]).success();
    let page = fs::read_to_string(fixture.repo().join("page.html")).expect("a page");
    assert!(page.contains(&format!("<strong>{origin}</strong>")), "the page says so first");

    // It is no history of runs, and names are looked up as they are.
    fixture.assay(&["history", "vllm.ttft"]).exits(2);
    let near = fixture.assay(&["history", "--foreign", "vllm.tft"]).refuses(2, "no_history");
    assert!(near.stderr.contains("did you mean `vllm.ttft`?"), "{}", near.stderr);
    let near = fixture.assay(&["history", "--foreign", "vllm.ttft", "slow-1"]).refuses(2, "no_such_foreign_evidence");
    assert!(near.stderr.contains("did you mean `slow-"), "{}", near.stderr);
    fixture.assay(&["history", "--foreign", "vllm.ttft", "--case", "a"]).exits(2);
    fixture.assay(&["history", "vllm.ttft", "slow-01"]).exits(2);
    fixture.assay(&["history", "--foreign", "--html", "page.html"]).refuses(2, "no_history");
}

#[test]
fn the_evidence_of_a_store_is_listed_and_each_file_counts_once() {
    let fixture = Fixture::bare();
    let store = Store::open(&fixture.store().display().to_string()).expect("a store");
    store.put(b"no evidence").expect("stored");
    let empty = fixture.assay(&["history", "--foreign"]).success().stdout;
    assert!(empty.starts_with(FIRST_LINE) && empty.contains("the store has none"), "{empty}");
    let content = vllm(8.0, 100.0, 1);
    let first = import(&fixture, "first", &content);
    import(&fixture, "again", &content);
    let other = import(&fixture, "other", &vllm(8.0, 101.0, 2));
    let listed = fixture.assay(&["history", "--foreign"]).success().stdout;
    let names: Vec<&str> = listed.lines().skip(2).take(3).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!((listed.lines().next(), names), (Some(FIRST_LINE), vec!["first", "again", "other"]), "{listed}");
    let repeated = "left out: `again` holds the same file as `first` (`again.json`), which is one observation";
    assert!(listed.contains(repeated), "{listed}");
    let document = fixture.assay(&["history", "--foreign", "--json"]).success().json();
    let ttft = list(&document["metrics"]).iter().find(|metric| metric["metric"] == "vllm.ttft").expect("a metric");
    assert_eq!((&ttft["histories"], &ttft["longest"], &ttft["statistics"]), (&json!(1), &json!(2), &json!(["mean", "p99"])));
    assert_eq!(document["evidence"][2]["id"], other["evidence"]["manifest"]);
    assert_eq!(document["repeated"], json!([{"evidence": "again", "of": "first", "path": "again.json"}]));
    let series = fixture.assay(&["history", "--foreign", "vllm.ttft", "--json"]).success().json();
    assert_eq!(list(&series["histories"][0]["runs"]).len(), 2);
    assert!(text(&series["histories"][0]["not_searched"]).contains("values"), "{series:#}");
    // One digest, or a name, chooses evidence.
    let id = text(&first["evidence"]["manifest"]);
    for name in [id, &id[..20], "first"] {
        let one = fixture.assay(&["history", "--foreign", name, "--json"]).success().json();
        assert_eq!((list(&one["evidence"]).len(), &one["evidence"][0]["name"]), (1, &json!("first")), "{name}");
    }

    // Evidence of a signer that no policy names is left out by name, or refused.
    let uri = fixture.store().display().to_string();
    let policy = fs::read_to_string(fixture.trust()).expect("the policy");
    fixture.write("trust.yaml", &policy.replace("- import", "- gate").replace("[import]", "[gate]"));
    fixture.assay(&["history", "--foreign", "--trust", "trust.yaml"]).refuses(20, "wrong_signer");
    let stranger = Fixture::without_keys();
    let unknown = stranger.assay(&["history", "--foreign", "vllm.ttft", "--store", &uri]).exits(21);
    assert!(unknown.stderr.contains("signer not established"), "{}", unknown.stderr);
    // A changed document is refused.
    let path = blob(&fixture.store(), id);
    let bytes = fs::read(&path).expect("the manifest");
    write_file(&path, &flip_bit(&bytes));
    fixture.assay(&["history", "--foreign", "vllm.ttft"]).exits(20);
}
