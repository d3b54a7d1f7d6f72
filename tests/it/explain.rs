//! Explanations of real runs: a fault that is planted in a server is found by what the server and the machine say about it, and what was not
//! checked is not called healthy.

use std::fs;

use serde_json::{Value, json};

use crate::docs::{Reader, blocks};
use crate::pipeline::{list, text};
use crate::serving::{RETRY_BUDGET, pipeline, workload};
use crate::support::{CommandResult, Fixture, PIPELINE, binary, blob, indicator_output, script};
use crate::tamper::flip_bit;

/// A server that computes two requests at a time, and one that computes 32.
const FEW: &str = "{name: few, kind: simulator, config: {profile: fast, max_num_seqs: 2}}";
const MANY: &str = "{name: many, kind: simulator, config: {profile: fast, max_num_seqs: 32}}";

/// A comparison of these two targets at eight requests in flight, in trials that are long enough for several readings of the counters.
fn write(fixture: &Fixture, candidate: &str, comparison: bool) {
    workload(fixture, "chat", "mode: closed, concurrency: [8], duration: 3s", "D(20,40)", "");
    let compared = format!(
        "  comparison: {{baseline: {{target: many}}, candidate: {{target: {candidate}}}, variable_under_test: batching_policy}}\n"
    );
    let more = if comparison { compared.as_str() } else { "" };
    fixture.write(PIPELINE, &pipeline(&["chat"], &[MANY, FEW], 4, RETRY_BUDGET, more));
    fixture.commit("two servers");
}

/// Returns the rules of the findings, in their order.
fn rules(explained: &Value) -> Vec<&str> {
    list(&explained["explanation"]["findings"]).iter().map(|finding| text(&finding["rule"])).collect()
}

#[test]
fn a_server_that_computes_fewer_requests_at_once_is_found_by_its_queue() {
    let fixture = Fixture::bare();
    write(&fixture, "few", true);
    fixture.run("one").success();
    let explained = fixture.assay(&["explain", "one", "--json"]).success().json();
    assert_eq!((&explained["baseline"], &explained["candidate"]), (&json!("many default"), &json!("few default")));
    assert_eq!(explained["explanation"]["conclusion"], "found", "{explained:#}");
    // That the server runs fewer at once comes before the queue that it leads to, if these trials show it beyond doubt.
    let found = rules(&explained);
    assert!(found[0] == "server-queue" || found[..2] == ["batch-limit", "server-queue"], "{explained:#}");
    let place = found.iter().position(|rule| *rule == "server-queue").expect("it is found");
    let queue = &explained["explanation"]["findings"][place];
    assert_eq!((&queue["case"], &queue["points"]), (&json!("chat.few.default"), &json!(["concurrency-8"])));
    assert_eq!(queue["places"], json!(["endpoint/few"]));
    let share = queue["seen"][0]["explains"][1].as_f64().expect("a share");
    assert!(queue["seen"][0]["explains"][0] == "ttft_ms_mean" && share > 0.5, "{queue:#}");
    // No GPU was recorded.
    let not_checked = list(&explained["explanation"]["not_checked"]);
    let gpu = not_checked.iter().find(|rule| rule["rule"] == "gpu-clock").expect("it is named");
    assert_eq!(gpu["why"], "no exporter was read during these attempts");

    let shown = fixture.assay(&["explain", "one"]).success().stdout;
    assert!(shown.starts_with("Most evidence: "), "{shown}");
    for part in [
        "few default against many default",
        ". Requests waited in the server's queue",
        "NOT CHECKED",
        "gpu-clock: no exporter was read during these attempts; needs an exporter with DCGM_FI_DEV_SM_CLOCK",
    ] {
        assert!(shown.contains(part), "`{part}` in {shown}");
    }
    // The experiment is the same comparison with one request in flight, and is a definition that runs.
    let written = fixture.assay(&["explain", "one", "--experiment", "."]).success();
    assert!(written.stderr.contains("assay run pipelines/fixture-one-in-flight.yaml --run-id NAME"), "{}", written.stderr);
    let workload = fs::read_to_string(fixture.repo().join("workloads/chat-one-in-flight/workload.yaml")).expect("a workload");
    assert!(
        workload.starts_with("# Made by `assay explain one --experiment`, to confirm: Requests waited in the server's queue.\n")
    );
    fixture.assay(&["validate"]).success();
    fixture.commit("an experiment");
    let plan = fixture.assay(&["plan", "pipelines/fixture-one-in-flight.yaml"]).success().stdout;
    assert!(plan.contains("concurrency-1") && !plan.contains("concurrency-8"), "{plan}");
    // Of a stranger's run, nothing is written.
    let published = fixture.published("one");
    let mut stranger = fixture.command(&binary("assay"));
    stranger.args(["explain", published.to_str().expect("text"), "--experiment", "elsewhere"]);
    stranger.env("ASSAY_CONFIG", fixture.root().join("stranger"));
    CommandResult::from_output(stranger.output().expect("assay starts")).refuses(21, "signer_not_established");
    assert!(!fixture.repo().join("elsewhere").exists());
    // What was changed since is not overwritten.
    fixture.write("workloads/chat-one-in-flight/workload.yaml", "changed");
    fixture.assay(&["explain", "one", "--experiment", "."]).refuses(2, "file_differs");
    fs::remove_dir_all(fixture.repo().join("workloads/chat-one-in-flight")).expect("removed");
    fs::remove_file(fixture.repo().join("pipelines/fixture-one-in-flight.yaml")).expect("removed");
    // The other way round, nothing is worse.
    write(&fixture, "many", true);
    let other_way = fixture.assay(&["explain", "one", "--against", "one", "--json"]).success().json();
    assert_eq!(other_way["explanation"]["conclusion"], "not_worse", "a run against itself: {other_way:#}");
    assert!(rules(&other_way).is_empty());
    fixture.assay(&["explain", "one", "--against", "one", "--experiment", "."]).refuses(2, "no_experiment");

    // A row that was changed explains nothing.
    let summary = fixture.manifest("one", "reduce");
    let files = list(&summary["body"]["files"]);
    let telemetry = files.iter().find(|file| file["table"] == "telemetry_slice_fact").expect("telemetry");
    let path = blob(&fixture.store(), text(&telemetry["artifact"]["digest"]));
    let whole = fs::read(&path).expect("a file");
    fs::write(&path, flip_bit(&whole)).expect("it is changed");
    fixture.assay(&["explain", "one"]).refuses(20, "artifact_corrupt");
    fs::write(&path, whole).expect("it is restored");
    fixture.assay(&["explain", "one"]).success();
}

#[test]
fn runs_without_a_point_in_common_are_not_explained() {
    let fixture = Fixture::bare();
    workload(&fixture, "chat", "mode: closed, concurrency: [1], requests: 5", "D(20,5)", "");
    fixture.write(PIPELINE, &pipeline(&["chat"], &[MANY], 1, RETRY_BUDGET, ""));
    fixture.commit("a server");
    fixture.run("short").success();
    let alone = fixture.assay(&["explain", "short"]).refuses(2, "nothing_compared");
    assert!(alone.stderr.contains("`--against`"), "{}", alone.stderr);
    workload(&fixture, "chat", "mode: closed, concurrency: [1], requests: 5", "D(30,5)", "");
    fixture.commit("other work");
    fixture.run("other").success();
    let other = fixture.assay(&["explain", "other", "--against", "short"]).refuses(2, "nothing_compared");
    assert!(other.stderr.contains("no point of the same work in common"), "{}", other.stderr);
    // One attempt has no spread.
    fixture.run("again").success();
    let explained = fixture.assay(&["explain", "again", "--against", "other", "--json"]).success().json();
    assert_eq!(explained["explanation"]["conclusion"], "cannot_tell");
    let shown = fixture.assay(&["explain", "again", "--against", "other"]).success().stdout;
    assert!(shown.starts_with("Cannot tell: not every point has 3 attempts of each side that count"), "{shown}");
    assert!(shown.contains("1 attempts of a side count"), "{shown}");
}

/// A point without an attempt that counts is not compared, and short attempts have no reading: neither is called unchanged.
#[test]
fn what_was_not_compared_or_read_is_not_called_the_same() {
    let fixture = Fixture::bare();
    let body = format!("[ \"$FAILS\" = \"$N\" ] && exit 1\necho '{}'", indicator_output("speed", "[100.25, 101.5, 99.75]"));
    fixture.indicator("speed", &script(&body), "  parameters: {N: [1, 2]}\n");
    let sides = "  variants: [{name: before, env: {FAILS: '0'}}, {name: after, env: {FAILS: '2'}}]
  comparison: {baseline: {target: local, variant: before}, candidate: {target: local, variant: after}, variable_under_test: runtime_version}
";
    fixture.write(PIPELINE, &crate::support::pipeline("exploratory", &["speed"], 3, sides));
    fixture.commit("two sides");
    fixture.run("one").refuses(30, "no_valid_trial");
    let shown = fixture.assay(&["explain", "one"]).success().stdout;
    assert!(shown.starts_with("Cannot tell: not every point has 3 attempts of each side that count"), "{shown}");
    assert!(
        shown.contains("packet-loss: ") && !shown.contains("`/proc/net/snmp`"),
        "the machine has what the rule needs: {shown}"
    );
}

/// The page is followed word by word.
#[test]
fn diagnosis_is_followed_to_its_end() {
    let fixture = Fixture::bare();
    let mut reader = Reader::new(&fixture);
    let blocks = blocks(include_str!("../../docs/diagnosis.md"));
    assert_eq!(blocks.iter().filter(|block| block.purpose == "run").count(), 2, "the page has its steps");
    for block in &blocks {
        reader.follow(block);
    }
}
