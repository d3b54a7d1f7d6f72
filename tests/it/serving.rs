//! Serving over the real binaries: load that is offered as requested, requests that are all accounted for, endpoints that misbehave, and
//! numbers that can be traced back.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use assay_warehouse::TELEMETRY_SLICE_FACT;
use assay_warehouse::records::RecordFile;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::pipeline::{list, text};
use crate::server::{AfterResponse, Request, Server, TOKEN, complete_stream, header, json_response, open_stream};
use crate::stores::{CountingProxy, ServedStore};
use crate::support::{Fixture, PIPELINE, binary, blob, copy_folder, files_under, wait_until, write_file};
use crate::tamper::flip_bit;

/// The model of every workload here.
pub(crate) const MODEL: &str = "simulated-8b";

/// The simulator with planned times: the first token after 5 ms, every later one 1 ms after the previous one.
pub(crate) const SIMULATOR: &str = "{name: simulator, kind: simulator, config: {profile: fast}}";
const TTFT_NS: i64 = 5_000_000;
const ITL_NS: i64 = 1_000_000;

/// A retry budget that is large enough to decide no test: a busy machine may delay the client's reads from its sockets, which rightly makes
/// an attempt invalid.
pub(crate) const RETRY_BUDGET: u32 = 50;

/// Returns a pipeline over serving workloads; `more` is further lines of its `spec`, indented by two.
pub(crate) fn pipeline(workloads: &[&str], targets: &[&str], trials: u32, retry_budget: u32, more: &str) -> String {
    let targets = targets.iter().fold(String::new(), |lines, target| lines + "    - " + target + "\n");
    format!(
        "apiVersion: assay.dev/v1alpha1
kind: Pipeline
metadata: {{name: fixture}}
spec:
  intent: exploratory
  workloads: [{}]
  targets:
{targets}  trials: {{count: {trials}, retry_budget: {retry_budget}}}
{more}",
        workloads.join(", ")
    )
}

/// Writes a serving workload of the simulator; `fields` is the rest of its `spec`, indented by two.
pub(crate) fn workload_of(fixture: &Fixture, name: &str, fields: &str) {
    let yaml = format!(
        "apiVersion: assay.dev/v1alpha1
kind: Workload
metadata: {{name: {name}}}
spec:
  type: serving
  model: {MODEL}
  precision: none
  protocol: openai_compatible_http
  deployment_model: single_process
  stack: assay-simulator
{fields}"
    );
    fixture.write(&format!("workloads/{name}/workload.yaml"), &yaml);
}

/// Writes a serving workload with this load; `more` is further lines of its `spec`, indented by two.
pub(crate) fn workload(fixture: &Fixture, name: &str, load: &str, lengths: &str, more: &str) {
    let fields = format!("  batching_policy: continuous\n  load: {{{load}, timeout: 60s}}\n  lengths: {lengths}\n{more}");
    workload_of(fixture, name, &fields);
}

/// Creates a repository with one closed-loop workload `chat` of `requests` requests, and a pipeline of one trial over these targets.
pub(crate) fn chat(requests: u32, targets: &[&str], retry_budget: u32) -> Fixture {
    let fixture = Fixture::bare();
    workload(&fixture, "chat", &format!("mode: closed, concurrency: [1], requests: {requests}"), "D(20,10)", "");
    fixture.write(PIPELINE, &pipeline(&["chat"], targets, 1, retry_budget, ""));
    fixture.commit("a chat");
    fixture
}

/// Returns the target of a scripted server.
pub(crate) fn endpoint(name: &str, server: &Server, more: &str) -> String {
    format!("{{name: {name}, kind: endpoint, url: '{}'{more}}}", server.url())
}

/// The workloads of [`served_fixture`].
const LOADS: [(&str, &str); 3] = [
    ("closed", "mode: closed, concurrency: [2], requests: 20"),
    ("constant", "mode: open, rate: [100], arrival: constant, requests: 20"),
    ("poisson", "mode: open, rate: [100], arrival: poisson, requests: 20"),
];

/// Returns two finished runs of one commit on the simulator, `one` and `two`: two trials under each of three loads.
pub(crate) fn served_fixture() -> &'static Fixture {
    static SERVED: OnceLock<Fixture> = OnceLock::new();
    SERVED.get_or_init(|| {
        let fixture = Fixture::shared();
        for (name, load) in LOADS {
            workload(&fixture, name, load, "D(20,10)", "");
        }
        fixture.write(PIPELINE, &pipeline(&LOADS.map(|(name, _)| name), &[SIMULATOR], 2, RETRY_BUDGET, ""));
        fixture.commit("three loads");
        for run_id in ["one", "two"] {
            fixture.run(run_id).success();
        }
        fixture
    })
}

/// Returns the counted attempts of a run, by their trial: one for each shard, from its execution part.
pub(crate) fn counted_attempts(fixture: &Fixture, run_id: &str) -> BTreeMap<String, Vec<Value>> {
    let collection = fixture.manifest(run_id, "collect");
    let counted = |trial: &Value| {
        let trial_id = text(&trial["trial_id"]);
        let attempts = list(&trial["attempts"]).iter().filter(|attempt| attempt["counted"] == true);
        (trial_id.to_owned(), attempts.map(|attempt| executed_attempt(fixture, trial_id, attempt)).collect())
    };
    list(&collection["body"]["trials"]).iter().map(counted).collect()
}

/// Returns the numbers of shards that the attempts of a run had, counted or not: a busy machine may invalidate any of them.
fn shards_per_attempt(fixture: &Fixture, run_id: &str) -> BTreeSet<usize> {
    let collection = fixture.manifest(run_id, "collect");
    let mut shards = BTreeMap::<_, usize>::new();
    for trial in list(&collection["body"]["trials"]) {
        for attempt in list(&trial["attempts"]) {
            *shards.entry((text(&trial["trial_id"]), attempt["attempt"].as_u64())).or_default() += 1;
        }
    }
    shards.into_values().collect()
}

/// Returns the attempt of the execution part that a collected attempt names.
fn executed_attempt(fixture: &Fixture, trial_id: &str, collected: &Value) -> Value {
    let part = read_stored(fixture, &collected["part"]);
    let is_it = |attempt: &&Value| attempt["trial_id"] == trial_id && attempt["attempt"] == collected["attempt"];
    list(&part["body"]["attempts"]).iter().find(is_it).expect("the part has the attempt").clone()
}

/// Reads a document of the store.
fn read_stored(fixture: &Fixture, digest: &Value) -> Value {
    serde_json::from_slice(&fs::read(blob(&fixture.store(), text(digest))).expect("it is in the store")).expect("JSON")
}

/// Reads the records of an attempt's shard.
fn records(fixture: &Fixture, attempt: &Value) -> RecordFile {
    let digest = text(&attempt["serving"]["records"]["digest"]);
    RecordFile::open(fs::read(blob(&fixture.store(), digest)).expect("the records are in the store")).expect("a file of records")
}

/// Returns the digests of the schedules of a run's trials, which all of its parts share.
fn schedule_digests(fixture: &Fixture, run_id: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (trial_id, shards) in counted_attempts(fixture, run_id) {
        let digests: BTreeSet<_> = shards.iter().map(|shard| text(&shard["serving"]["schedule_digest"]).to_owned()).collect();
        assert_eq!(digests.len(), 1, "the shards of {trial_id} share a schedule: {digests:?}");
        found.extend(digests.into_iter().map(|digest| (trial_id.clone(), digest)));
    }
    found
}

/// Returns the points of a run's summary by their case.
pub(crate) fn points(fixture: &Fixture, run_id: &str) -> BTreeMap<String, Value> {
    let summary = fixture.manifest(run_id, "reduce");
    list(&summary["body"]["points"]).iter().map(|point| (text(&point["case_id"]).to_owned(), point.clone())).collect()
}

pub(crate) fn metric<'a>(point: &'a Value, name: &str) -> Option<&'a Value> {
    list(&point["metrics"]).iter().find(|metric| metric["metric"] == name)
}

#[test]
fn every_load_is_offered_as_asked_and_accounted_for() {
    let fixture = served_fixture();
    let points = points(fixture, "one");
    for (name, _) in LOADS {
        let point = &points[&format!("{name}.simulator.default")];
        assert_eq!((&point["trials_counted"], &point["trials_planned"]), (&json!(2), &json!(2)), "{name}");
        let serving = &point["serving"];
        assert_eq!((&serving["requests"], &serving["outcomes"]), (&json!("40"), &json!({"ok": "40"})), "{name}");
        assert_eq!(serving["token_sources"], json!({"continuous_usage": "40"}), "{name}");
        let from = if name == "closed" { "sent" } else { "intended" };
        assert_eq!(text(&serving["latency_from"]), from, "{name}");
        for (measured, planned_ns) in [("ttft_ms_p50", TTFT_NS), ("e2e_ms_p50", TTFT_NS + 9 * ITL_NS)] {
            let milliseconds = metric(point, measured).expect("it is measured")["min"].as_f64().expect("a number");
            assert!(milliseconds * 1e6 >= planned_ns as f64, "{name}: {measured} is {milliseconds} ms, and was planned as more");
        }
    }
    for (trial_id, shards) in counted_attempts(fixture, "one") {
        let [attempt] = &shards[..] else { panic!("one shard: {shards:#?}") };
        let serving = &attempt["serving"];
        assert_eq!((text(&serving["input_tokens"]), text(&serving["output_tokens"])), ("400", "200"), "20 requests: {trial_id}");
        let client = &serving["client"];
        let has_pressure = fs::read_to_string("/proc/pressure/cpu").is_ok();
        assert_eq!((client["cpu_pressure"].is_number(), client["cpu_pressure_us"].is_string()), (has_pressure, has_pressure));
        assert!(client["cpu_pressure"].as_f64().is_none_or(|share| (0.0..=1.0).contains(&share)), "{client}");
        let is_open = !trial_id.starts_with("closed.");
        let records: Vec<_> = records(fixture, attempt).records().expect("rows").map(|row| row.expect("a record")).collect();
        let indices: BTreeSet<_> = records.iter().map(|record| record.global_index).collect();
        assert_eq!((records.len(), indices), (20, (0..20).collect()), "{trial_id}");
        for record in records {
            assert_eq!(record.outcome.as_str(), "ok");
            assert_eq!((record.input_tokens, record.output_tokens, record.http_status), (20, Some(10), Some(200)));
            let since_sent = |at: Option<i64>| at.expect("an instant") - record.sent_ns.expect("it was sent");
            assert!(since_sent(record.first_token_ns) >= TTFT_NS, "no token comes before it was planned: {record:?}");
            assert!(since_sent(record.last_token_ns) >= TTFT_NS + 9 * ITL_NS, "{record:?}");
            assert_eq!(record.intended_ns.is_some(), is_open, "a closed loop intends no times");
            assert!(record.intended_ns.is_none_or(|intended| since_sent(Some(intended)) <= 0), "none is sent early: {record:?}");
        }
    }
}

#[test]
fn the_endpoint_counts_as_the_client_does() {
    let fixture = served_fixture();
    let collection = fixture.manifest("one", "collect");
    let trials = list(&collection["body"]["trials"]);
    assert_eq!(trials.len(), 3 * 2);
    let checks = list(&collection["body"]["cross_checks"]);
    for trial in trials {
        for attempt in list(&trial["attempts"]) {
            let checked = json!({"trial_id": trial["trial_id"], "attempt": attempt["attempt"]});
            let outcomes: BTreeMap<_, _> = checks
                .iter()
                .filter(|check| check["block"] == attempt["block"] && list(&check["attempts"]).contains(&checked))
                .map(|check| (text(&check["what"]), text(&check["outcome"])))
                .collect();
            let expected = [("input_tokens", "not_compared"), ("output_tokens", "agrees"), ("requests", "agrees")];
            assert_eq!(outcomes, expected.into(), "{checks:#?}");
            assert_eq!(attempt["gaps"], json!([]));
        }
    }
    let report = std::fs::read_to_string(fixture.published("one").join("report.html")).expect("a report");
    assert!(report.contains("counters agree with the client"), "the checks agree, and the report states it");
}

#[test]
fn serving_numbers_are_recomputed_and_walk_back() {
    let fixture = served_fixture();
    fixture.verify_recomputed("one");

    let counted = counted_attempts(fixture, "one");
    for (name, _) in LOADS {
        let case = format!("{name}.simulator.default");
        let number = number(&fixture.published("one"), &case, "ttft_ms_p99");
        let walked = fixture.assay(&["trace", text(&number["address"]), "--recompute", "--json"]).success().json();
        assert_eq!(walked["value"], number["value"], "{case}");
        assert!(!walked["recomputed"].is_null(), "{case}: {walked:#}");
        assert_eq!(text(&walked["workload"]["name"]), name);
        assert_eq!(text(&walked["source"]["commit"]), fixture.git(&["rev-parse", "HEAD"]).trim());
        let trials = list(&walked["trials"]);
        assert_eq!(trials.len(), 2, "{case}");
        for trial in trials {
            let attempt = &counted[text(&trial["trial_id"])][0];
            let evidence = &trial["parts"][0]["evidence"][0];
            assert_eq!(evidence["digest"], attempt["serving"]["records"]["digest"], "it walks back to the records");
        }
    }
}

/// Returns the median of a metric, as a published folder lists it.
fn number(folder: &Path, case: &str, metric: &str) -> Value {
    let numbers: Value = serde_json::from_slice(&fs::read(folder.join("numbers.json")).expect("numbers.json")).expect("JSON");
    let is_it =
        |number: &&Value| number["benchmark_case_id"] == case && number["metric"] == metric && number["statistic"] == "median";
    list(&numbers["numbers"]).iter().find(is_it).expect("it is published").clone()
}

#[test]
fn a_serving_report_asks_nobody_for_anything() {
    let html = fs::read_to_string(served_fixture().published("one").join("report.html")).expect("the report");
    assert!(html.contains("concurrency 2"), "it shows the loads");
    let addresses = html.split("://").skip(1).filter_map(|rest| rest.split(':').next());
    assert_eq!(addresses.collect::<BTreeSet<_>>(), ["127.0.0.1"].into(), "it names no host but that of its target");
    let links: BTreeSet<_> = html.split("href=\"").skip(1).filter_map(|rest| rest.chars().next()).collect();
    assert_eq!(links, ['#'].into(), "every link leads into the report itself");
    assert!(!html.contains(" src="), "it loads nothing");
}

#[test]
fn two_runs_share_their_schedules_and_no_request() {
    let fixture = served_fixture();
    let [one, two] = ["one", "two"].map(|run_id| schedule_digests(fixture, run_id));
    assert_eq!(one, two);
    assert_eq!(one.len(), 3 * 2);
    let distinct: BTreeSet<_> = one.values().collect();
    assert_eq!(distinct.len(), one.len(), "every trial has a schedule of its own: {one:#?}");

    let ids = |run_id| {
        let attempts = counted_attempts(fixture, run_id).into_values().flatten();
        let ids = attempts.flat_map(|attempt| records(fixture, &attempt).records().expect("rows").map(Result::unwrap));
        ids.map(|record| record.request_id).collect::<BTreeSet<_>>()
    };
    let [one, two] = ["one", "two"].map(ids);
    assert_eq!((one.len(), two.len()), (120, 120), "each request has an id of its own");
    assert!(one.is_disjoint(&two));
}

#[test]
fn three_shards_offer_what_one_offers() {
    const SHARDED: &str = "pipelines/sharded.yaml";
    let mut fixture = Fixture::bare();
    workload(&fixture, "closed", "mode: closed, concurrency: [3], requests: 60", "D(20,10)", "");
    workload(&fixture, "open", "mode: open, rate: [100], requests: 60", "D(20,10)", "");
    fixture.write(PIPELINE, &pipeline(&["closed", "open"], &[SIMULATOR], 2, RETRY_BUDGET, ""));
    fixture.write(SHARDED, &pipeline(&["closed", "open"], &[SIMULATOR], 2, RETRY_BUDGET, "  shards: 3\n"));
    fixture.commit("one shard and three");
    fixture.run("whole").success();
    fixture.assay(&["run", SHARDED, "--run-id", "sharded"]).success();
    // A store that is reached over a network coordinates shards as a folder does.
    let served = ServedStore::start();
    served.set_credentials(&mut fixture, "run");
    fixture.assay(&["run", SHARDED, "--run-id", "far", "--store", &served.uri()]).success();
    fixture.assay(&["fetch", "far", "--store", &served.uri()]).success();

    assert_eq!(schedule_digests(&fixture, "whole"), schedule_digests(&fixture, "sharded"));
    assert_eq!(schedule_digests(&fixture, "whole"), schedule_digests(&fixture, "far"));
    for (run_id, parts) in [("whole", 1), ("sharded", 3), ("far", 3)] {
        let collection = fixture.manifest(run_id, "collect");
        let attempts = list(&collection["body"]["trials"]).iter().flat_map(|trial| list(&trial["attempts"]));
        let found: BTreeSet<_> = attempts.map(|attempt| text(&attempt["part"])).collect();
        assert_eq!(found.len(), parts, "execution parts of {run_id}");
        for (trial_id, shards) in counted_attempts(&fixture, run_id) {
            assert_eq!(shards.len(), parts, "{trial_id} of {run_id}");
            let files = shards.iter().map(|shard| records(&fixture, shard));
            let records = files.flat_map(|file| file.records().expect("rows").map(|row| row.expect("a record")));
            let indices: Vec<_> = records.map(|record| record.global_index).collect();
            let once: BTreeSet<_> = indices.iter().copied().collect();
            assert_eq!((indices.len(), once), (60, (0..60).collect()), "each request once: {trial_id} of {run_id}");
        }
        for (case, point) in points(&fixture, run_id) {
            assert_eq!(point["serving"]["outcomes"], json!({"ok": "120"}), "{case} of {run_id}");
        }
        fixture.assay(&["verify", run_id, "--recompute"]).success();
    }
}

/// If each shard read a mark of each other one, as many reads again would come with each further shard.
#[test]
fn the_reads_of_marks_grow_with_the_shards_and_not_with_their_square() {
    const SHARDS: usize = 8;
    let mut fixture = Fixture::bare();
    workload(&fixture, "closed", "mode: closed, concurrency: [8], requests: 16", "D(20,10)", "");
    fixture.write(PIPELINE, &pipeline(&["closed"], &[SIMULATOR], 1, RETRY_BUDGET, &format!("  shards: {SHARDS}\n")));
    fixture.commit("eight shards");
    let served = ServedStore::start();
    served.set_credentials(&mut fixture, "run");
    let counting = CountingProxy::start(&served);
    fixture.assay(&["run", PIPELINE, "--run-id", "far", "--store", &counting.uri()]).success();
    fixture.assay(&["fetch", "far", "--store", &served.uri()]).success();

    let attempts = attempt_count(&fixture, "far");
    let of_trials = |line: &&String| line.contains("/trials/");
    let lines = counting.lines();
    let reads: Vec<_> = lines.iter().filter(|line| line.starts_with("GET ")).filter(of_trials).collect();
    // How often a shard looks for a lost one depends on the length of the attempt.
    let marks = reads.iter().filter(|line| !line.contains("/broken") && !line.contains("list-type")).count();
    let lists = lines.iter().filter(|line| line.contains("list-type") && line.contains("trials")).count();
    println!("{SHARDS} shards, {attempts} attempts: {marks} reads of marks, {lists} lists, {} requests in all", lines.len());
    // Shard 0 reads the mark of each other shard; each reads that of shard 0 and the instant, and a repeated create reads its own.
    assert!(marks <= 4 * SHARDS * attempts, "{marks} reads of {SHARDS} shards in {attempts} attempts: {reads:#?}");
    assert!(lists >= SHARDS * attempts, "each look is a list request: {lists}");
}

/// Returns the number of attempts of a run, counted or not.
fn attempt_count(fixture: &Fixture, run_id: &str) -> usize {
    let collection = fixture.manifest(run_id, "collect");
    let attempts = list(&collection["body"]["trials"])
        .iter()
        .flat_map(|trial| list(&trial["attempts"]).iter().map(|attempt| (text(&trial["trial_id"]), attempt["attempt"].as_u64())));
    attempts.collect::<BTreeSet<_>>().len()
}

/// An endpoint's failures are a result, however few of the requests fall to a shard: an attempt is not repeated until they succeed.
#[test]
fn a_shard_whose_requests_all_fail_beside_others_that_succeed_is_counted() {
    // Each attempt sends two requests, one per shard.
    let server = Server::start(MODEL, |request| {
        let is_first = request.number % 2 == 0;
        (if is_first { json_response("500 Internal Server Error", "{}") } else { complete_stream() }, AfterResponse::KeepAlive)
    });
    let fixture = Fixture::bare();
    workload(&fixture, "chat", "mode: closed, concurrency: [2], requests: 2", "D(20,10)", "");
    fixture.write(PIPELINE, &pipeline(&["chat"], &[&endpoint("sut", &server, "")], 1, RETRY_BUDGET, "  shards: 2\n"));
    fixture.commit("two shards, of which one fails");
    fixture.run("one").success();
    let counted = counted_attempts(&fixture, "one");
    let outcomes: Vec<_> = counted.values().flatten().map(|shard| shard["serving"]["outcomes"].clone()).collect();
    assert_eq!(outcomes.len(), 2, "{outcomes:?}");
    assert!(outcomes.contains(&json!({"ok": "1"})) && outcomes.contains(&json!({"http_error": "1"})), "{outcomes:?}");
    let point = &points(&fixture, "one")["chat.sut.default"];
    assert_eq!(point["serving"]["outcomes"], json!({"http_error": "1", "ok": "1"}));
    // A busy machine may have invalidated attempts.
    let reasons = list(&point["excluded"]).iter().flat_map(|excluded| list(&excluded["reasons"]));
    assert!(reasons.into_iter().all(|reason| reason["code"] != "all_failed"), "{point:#}");
    fixture.assay(&["verify", "one", "--recompute"]).success();
}

/// Returns the shard counts of a run's Environments, in the order of the blocks.
fn shard_counts(fixture: &Fixture, run_id: &str) -> Vec<Value> {
    let environments = fixture.pointers(run_id, "provision").into_iter().map(|pointer| pointer.load(&fixture.store()));
    let mut of_blocks: Vec<_> = environments
        .map(|environment| (environment["body"]["block"]["index"].as_u64(), environment["body"]["shards"].clone()))
        .collect();
    of_blocks.sort_by_key(|(block, _)| *block);
    of_blocks.into_iter().map(|(_, shards)| shards).collect()
}

#[test]
fn a_small_load_takes_one_shard_and_nothing_is_measured() {
    let fixture = served_fixture();
    let [shards] = &shard_counts(fixture, "one")[..] else { panic!("one block") };
    assert_eq!((&shards["shards"], &shards["ceiling"]), (&json!(1), &Value::Null));
    let formula = "shards: 1, any shard carries concurrency 2, 100 requests/s, 1000 events/s: no ceiling was measured";
    assert_eq!(text(&shards["formula"]), formula);
    let told = fixture.assay(&["show", "one", "--all"]).success().stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains(formula), "{told}");
    assert!(!fixture.store().join("ceilings").exists());
}

/// The cached ceiling decides, so that the test needs no machine of a certain speed: here a shard carries a concurrency of 300.
#[test]
fn a_load_beyond_half_of_a_ceiling_is_shared_in_every_block() {
    let fixture = Fixture::bare();
    let said: Value = serde_json::from_str(&fixture.program("assay-provision", &["ceiling"]).success().stdout).expect("JSON");
    let figures = ["concurrency", "requests_per_s", "events_per_s"].map(|figure| said["measured"][figure].as_u64());
    let is_whole = figures.iter().all(|figure| figure.is_some_and(|figure| figure > 0));
    assert!(is_whole || text(&said["failure"]).contains("not even"), "figures, or why there are none: {said}");

    let fingerprint = text(&said["fingerprint"]);
    let kept = fixture.store().join("ceilings").join(fingerprint.trim_start_matches("sha256:"));
    let keep = |concurrency: u32| {
        let known = json!({
            "concurrency": concurrency, "requests_per_s": 1_000, "events_per_s": 15_000, "program": fingerprint,
            "measured_at": "2026-11-01T00:00:00.000000000Z",
        });
        write_file(&kept, known.to_string().as_bytes());
    };
    keep(300);
    workload(&fixture, "many", "mode: closed, concurrency: [300], requests: 600", "D(20,10)", "");
    let restarted = "  isolation: restart_target\n";
    fixture.write(PIPELINE, &pipeline(&["many"], &[SIMULATOR], 2, RETRY_BUDGET, restarted));
    fixture.commit("a high concurrency");
    let ran = fixture.run("auto").success();

    let formula = "shards: 2 = ceil(concurrency 300 / (0.5 * 300))";
    let [first, second] = &shard_counts(&fixture, "auto")[..] else { panic!("two blocks") };
    assert_eq!((&first["shards"], text(&first["formula"])), (&json!(2), formula));
    let ceiling = &first["ceiling"]["value"];
    assert_eq!((&ceiling["cached"], &ceiling["concurrency"], &ceiling["node"]), (&json!(true), &json!(300), &json!("local")));
    assert_eq!(*second, Value::Null, "a later block has the count of the first");
    assert!(ran.stderr.contains(formula), "progress: {}", ran.stderr);
    let shown = fixture.assay(&["show", "auto", "--all"]).success().stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains(formula) && shown.contains("measured earlier on such a machine"), "{shown}");
    assert_eq!(shards_per_attempt(&fixture, "auto"), [2].into());
    fixture.assay(&["verify", "auto", "--recompute"]).success();

    // A number in the pipeline applies whatever the ceiling is.
    fixture.write(PIPELINE, &pipeline(&["many"], &[SIMULATOR], 2, RETRY_BUDGET, "  shards: 1\n"));
    fixture.commit("a number of shards");
    fixture.run("one").success();
    assert_eq!(shard_counts(&fixture, "one"), [Value::Null]);
    assert_eq!(shards_per_attempt(&fixture, "one"), [1].into());

    // A count above the limit is refused before any load is made.
    keep(1);
    workload(&fixture, "many", "mode: closed, concurrency: [600], requests: 600", "D(20,10)", "");
    fixture.write(PIPELINE, &pipeline(&["many"], &[SIMULATOR], 2, RETRY_BUDGET, ""));
    fixture.commit("too high a concurrency");
    let refused = fixture.run("refused").refuses(10, "too_many_shards");
    assert!(refused.stderr.contains("1200 = ceil(concurrency 600 / (0.5 * 1))"), "{}", refused.stderr);
}

/// A shard that is killed ends its attempt in all shards, and its replacement joins at the next attempt.
#[test]
fn a_lost_shard_ends_the_attempt_for_all() {
    let fixture = Fixture::bare();
    workload(&fixture, "chat", "mode: closed, concurrency: [3], duration: 5s", "D(20,10)", "");
    fixture.write(PIPELINE, &pipeline(&["chat"], &[SIMULATOR], 1, RETRY_BUDGET, "  shards: 3\n"));
    fixture.commit("three shards");
    let run = fixture.spawn(&["run", PIPELINE, "--run-id", "one"]);
    let started = |path: &PathBuf| path.ends_with("000000/start");
    let folder = fixture.store().join("runs/one/execute");
    wait_until("the first attempt has begun", || files_under(&folder).iter().any(started));
    let shard = fixture.leftovers().into_iter().find(|process| {
        let line = process.split_once(": ").map_or("", |(_, line)| line);
        line.split(' ').next().is_some_and(|program| program.ends_with("/assay-execute")) && line.contains("--shard 1/3")
    });
    let pid = shard.as_deref().and_then(|process| process.split(':').next()?.parse().ok()).and_then(Pid::from_raw);
    kill_process(pid.expect("a shard's process"), Signal::KILL).expect("killed");
    run.finish().success();

    for part in fixture.pointers("one", "execute") {
        let part = part.load(&fixture.store());
        let shard = &part["body"]["shard"]["index"];
        let [first, .., last] = &list(&part["body"]["attempts"])[..] else { panic!("two attempts of shard {shard}: {part:#}") };
        let why = if *shard == json!(1) { "interrupted" } else { "shard_lost" };
        assert_eq!((&first["status"], &first["validity"]["reasons"][0]["code"]), (&json!("interrupted"), &json!(why)), "{shard}");
        assert_eq!(last["validity"]["valid"], json!(true), "{shard}");
    }
    let shown = fixture.assay(&["show", "one", "--all"]).success().stdout;
    assert!(shown.contains("shard_lost"), "{shown}");
    fixture.assay(&["verify", "one", "--recompute"]).success();
    assert_eq!(fixture.leftovers(), [""; 0]);
}

#[test]
fn requests_that_fail_are_rows_with_their_outcome() {
    let servers = [
        ("leaves", "connect_error", None, Server::start(MODEL, |_| (Vec::new(), AfterResponse::Leave))),
        ("hangs-up", "connection_closed", None, Server::start(MODEL, |_| (Vec::new(), AfterResponse::HangUp))),
        (
            "fails",
            "http_error",
            Some(500),
            Server::start(MODEL, |_| (json_response("500 Internal Server Error", "{}"), AfterResponse::KeepAlive)),
        ),
        (
            "is-busy",
            "http_error",
            Some(429),
            Server::start(MODEL, |_| (json_response("429 Too Many Requests", "{}"), AfterResponse::KeepAlive)),
        ),
        ("babbles", "malformed", Some(200), Server::start(MODEL, |_| (open_stream(&["hello"]), AfterResponse::HangUp))),
        ("stops", "truncated", Some(200), Server::start(MODEL, |_| (open_stream(&[TOKEN]), AfterResponse::HangUp))),
    ];
    let targets = servers.each_ref().map(|(name, _, _, server)| endpoint(name, server, ""));
    let fixture = chat(5, &targets.each_ref().map(String::as_str), 0);
    let ran = fixture.run("one").exits(30);
    assert!(ran.stdout.contains("report "), "there is a report all the same:\n{}\n{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("30 of 30 requests failed, in attempts that do not count"), "{}", ran.stdout);
    let why = "chat.fails.default.concurrency-1.t0: attempt 1 does not count: none of 5 requests succeeded";
    assert!(ran.stderr.contains(why), "{}", ran.stderr);
    for name in ["report.html", "report.md"] {
        let text = fs::read_to_string(fixture.published("one").join(name)).expect("a report");
        assert!(text.contains("30 of 30 requests failed") && !text.contains("0 of 0"), "{name}");
    }
    let summary = fixture.manifest("one", "reduce");
    assert_eq!(text(&summary["body"]["status"]), "failed");
    let excluded = points(&fixture, "one");

    let part = fixture.manifest("one", "execute");
    for (name, outcome, status, server) in &servers {
        let case = format!("chat.{name}.default");
        assert_eq!(list(&excluded[&case]["excluded"]).len(), 1, "{case}");
        let attempt = list(&part["body"]["attempts"]).iter().find(|attempt| attempt["case_id"] == case.as_str());
        let attempt = attempt.unwrap_or_else(|| panic!("an attempt of {case}"));
        // The first request reached the server before it left, so it is not sent again.
        let first_outcome = if *name == "leaves" { "connection_closed" } else { *outcome };
        let outcomes =
            if first_outcome == *outcome { json!({*outcome: "5"}) } else { json!({first_outcome: "1", *outcome: "4"}) };
        assert_eq!(attempt["serving"]["outcomes"], outcomes, "{name}");
        let reasons: Vec<_> = list(&attempt["validity"]["reasons"]).iter().map(|reason| text(&reason["code"])).collect();
        assert!(reasons.contains(&"all_failed"), "{name}: {reasons:?}");
        assert_eq!(reasons.contains(&"target_gone"), *name == "leaves", "{name}: {reasons:?}");
        if let (Some(status), "http_error") = (status, *outcome) {
            let detail = text(&attempt["validity"]["reasons"][0]["detail"]);
            let expected = format!("none of 5 requests succeeded: 5 http_error; most often `{status}: {{}}`");
            assert_eq!(detail, expected);
        }
        let rows: Vec<_> = records(&fixture, attempt).records().expect("rows").map(|row| row.expect("a record")).collect();
        let indices: Vec<_> = rows.iter().map(|record| record.global_index).collect();
        assert_eq!(indices, [0, 1, 2, 3, 4], "{name}");
        for (place, record) in rows.iter().enumerate() {
            let outcome = if place == 0 { first_outcome } else { *outcome };
            assert_eq!((record.outcome.as_str(), record.http_status), (outcome, *status), "{name}: {record:?}");
        }
        assert!(server.request_count() >= 1, "{name} was asked");
    }
    fixture.assay(&["verify", "one", "--recompute"]).success();
    assert_eq!(fixture.leftovers(), [""; 0]);
}

#[test]
fn what_an_endpoint_fails_is_in_its_error_rate_and_nowhere_else() {
    let script = |request: &Request| match request.number % 2 {
        0 => (complete_stream(), AfterResponse::KeepAlive),
        _ => (json_response("503 Service Unavailable", "{}"), AfterResponse::KeepAlive),
    };
    let server = Server::start(MODEL, script);
    let fixture = chat(10, &[&endpoint("half", &server, "")], 0);
    fixture.run("one").success();
    let point = &points(&fixture, "one")["chat.half.default"];
    assert_eq!(point["serving"]["outcomes"], json!({"http_error": "5", "ok": "5"}));
    assert_eq!(metric(point, "error_rate").expect("it is measured")["median"].as_f64(), Some(0.5));
    assert_eq!(metric(point, "ttft_ms_p50").expect("it is measured")["trials"][0]["n"], json!("5"), "of good responses only");
    assert_eq!(server.request_count(), 10, "nothing is retried");
    fixture.assay(&["verify", "one", "--recompute"]).success();
}

/// An engine of one place serves some 70 requests a second, and has to serve 20 and 400.
#[test]
fn a_load_that_saturates_the_endpoint_ends_early_and_is_no_number() {
    const ONE_PLACE: &str = "{name: simulator, kind: simulator, config: {profile: fast, max_num_seqs: 1}}";
    let fixture = Fixture::bare();
    let load = "mode: open, rate: [20, 400], arrival: constant, duration: 20s, over_saturation: {in_flight: 40, for: 300ms}";
    workload(&fixture, "chat", load, "D(20,10)", "");
    let of_shards = |shards: u32| pipeline(&["chat"], &[ONE_PLACE], 1, RETRY_BUDGET, &format!("  shards: {shards}\n"));
    fixture.write(PIPELINE, &of_shards(1));
    fixture.write("pipelines/two.yaml", &of_shards(2));
    fixture.commit("a load that is too much");
    for (run, path) in [("one", PIPELINE), ("two", "pipelines/two.yaml")] {
        let ran = fixture.assay(&["run", path, "--run-id", run]).success();
        let said = "chat.simulator.default.rate-400.t0: not tried again, because another attempt meets `over_saturated` again";
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
        let summary = fixture.manifest(run, "reduce");
        let of_rate = |rate: &str| {
            let is_it = |point: &&Value| text(&point["point_id"]) == rate;
            list(&summary["body"]["points"]).iter().find(is_it).expect("the point").clone()
        };
        let [served, saturated] = ["rate-20", "rate-400"].map(of_rate);
        assert_eq!((&served["trials_counted"], &saturated["trials_counted"]), (&json!(1), &json!(0)), "{run}");
        assert!(list(&saturated["metrics"]).is_empty(), "{run}");
        let codes = |exclusion: &Value| {
            list(&exclusion["reasons"]).iter().map(|reason| text(&reason["code"]).to_owned()).collect::<Vec<_>>()
        };
        // On a busy machine a client may be late, too, and then it is tried again.
        let last: BTreeSet<String> = list(&saturated["excluded"]).last().into_iter().flat_map(codes).collect();
        assert_eq!(last, ["over_saturated".to_owned()].into(), "{saturated}");
        let sent: u64 = saturated["serving"]["excluded_outcomes"]
            .as_object()
            .expect("outcomes")
            .values()
            .map(|count| text(count).parse::<u64>().expect("a count"))
            .sum();
        assert!(sent < 20 * 400, "it ended early: {sent}");
        let shown = fixture.assay(&["show", run, "--all"]).success().stdout;
        let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains("more than 40 requests were in flight for 300ms"), "{shown}");
        fixture.assay(&["verify", run, "--recompute"]).success();
    }
    let served =
        |run: &str| counted_attempts(&fixture, run)["chat.simulator.default.rate-20.t0"][0]["serving"]["schedule_digest"].clone();
    assert_eq!(served("one"), served("two"));
}

/// Each trial would send 2,000 requests to an endpoint that fails every other one.
#[test]
fn a_load_whose_requests_fail_ends_early_and_its_run_says_so() {
    let fixture = Fixture::bare();
    let script = |request: &Request| match request.number % 2 {
        0 => (complete_stream(), AfterResponse::KeepAlive),
        _ => (json_response("503 Service Unavailable", "{}"), AfterResponse::KeepAlive),
    };
    let server = Server::start(MODEL, script);
    let load = |limit: &str| format!("mode: closed, concurrency: [2], requests: 2000, stop_on_errors: {limit}");
    workload(&fixture, "chat", &load("{share: 0.3, of_last: 10}"), "D(20,10)", "");
    workload(&fixture, "other", &load("{count: 5}"), "D(20,10)", "");
    fixture.write(PIPELINE, &pipeline(&["chat", "other"], &[&endpoint("half", &server, "")], 1, 1, ""));
    fixture.commit("an endpoint that fails");
    let ran = fixture.assay(&["run", PIPELINE, "--run-id", "one"]).exits(30);
    assert!(ran.stderr.contains("too_many_errors"), "{}", ran.stderr);
    assert!(server.request_count() < 400, "each attempt ended early: {}", server.request_count());
    let shown = fixture.assay(&["show", "one", "--all"]).stdout;
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in ["a trial ends with 3 failures among the last 10", "a trial ends with 5 failures"] {
        assert!(shown.contains(said), "{shown}");
    }
    fixture.assay(&["verify", "one", "--recompute"]).success();
}

/// A response of 900 ms begins in the warm-up and outlasts the measured phase, in every attempt. Only one shard has a user.
#[test]
fn a_window_shorter_than_the_responses_is_not_retried_to_the_limit() {
    let fixture = Fixture::bare();
    workload(&fixture, "chat", "mode: closed, concurrency: [1], warmup: 200ms, duration: 200ms", "D(20,900)", "");
    fixture.write(PIPELINE, &pipeline(&["chat"], &[SIMULATOR], 1, RETRY_BUDGET, "  shards: 2\n"));
    fixture.commit("a short window");
    let ran = fixture.run("one").refuses(30, "no_valid_trial");
    let trial = "chat.simulator.default.concurrency-1.t0";
    let said = [
        format!("{trial}: not tried again, because another attempt meets `no_requests` again"),
        "so trials were not repeated to the limit: use a longer `duration`".to_owned(),
    ];
    for text in said {
        assert!(ran.stderr.contains(&text), "{text}\n{}", ran.stderr);
    }
    let excluded = &points(&fixture, "one")["chat.simulator.default"]["excluded"];
    let met = |exclusion: &&Value| list(&exclusion["reasons"]).iter().all(|reason| reason["code"] == "no_requests");
    let attempts: BTreeSet<_> = list(excluded).iter().filter(met).map(|exclusion| exclusion["attempt"].to_string()).collect();
    assert_eq!(attempts.len(), 2, "{excluded}");
    fixture.assay(&["verify", "one", "--recompute"]).success();
    assert_eq!(fixture.leftovers(), [""; 0]);
}

#[test]
fn a_process_target_serves_and_ends_with_the_run() {
    // The port is free again once the listener is dropped; among thousands of ports, another process hardly takes this one meanwhile.
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let simulator = binary("assay-simulator").display().to_string();
    let target = format!(
        "{{name: own, kind: process, url: 'http://127.0.0.1:{port}', ready: {{http: /health, timeout: 60s}}, \
         command: ['{simulator}', --listen, '127.0.0.1:{port}', --model, {MODEL}, --profile, fast]}}"
    );
    let fixture = chat(10, &[&target], RETRY_BUDGET);
    fixture.run("one").success();
    let point = &points(&fixture, "one")["chat.own.default"];
    assert_eq!(point["serving"]["outcomes"], json!({"ok": "10"}));
    assert_eq!(fixture.leftovers(), [""; 0], "nothing is left running");
    TcpListener::bind(("127.0.0.1", port)).expect("the process has let go of its port");
    fixture.assay(&["verify", "one", "--recompute"]).success();
}

#[test]
fn a_server_that_is_there_before_is_not_measured_in_place_of_a_process_target() {
    let other = Server::start(MODEL, |_| (complete_stream(), AfterResponse::KeepAlive));
    let url = other.url();
    // The command never gets the port, and does not end at once either: the other server responds first.
    let target = format!("{{name: own, kind: process, url: '{url}', ready: {{timeout: 60s}}, command: [sleep, '1']}}");
    let fixture = chat(10, &[&target], RETRY_BUDGET);
    let refused = fixture.run("one").refuses(30, "target_address_taken");
    assert!(refused.stderr.contains(&format!("another process listens at {}", &url["http://".len()..])), "{}", refused.stderr);
    assert!(refused.stderr.contains("`kind: endpoint`"), "{}", refused.stderr);
    assert_eq!(other.request_count(), 0, "it is asked for nothing");
    assert_eq!(fixture.leftovers(), [""; 0]);
}

/// A server that is ready later than another one that takes its address, and a server that the other one follows.
#[test]
fn a_server_that_takes_the_address_of_a_process_target_is_not_measured() {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let fixture = Fixture::bare();
    let begun = fixture.root().join("begun");
    let loading = format!("touch {}; exec tail -f /dev/null", begun.display());
    let target = format!(
        "{{name: own, kind: process, url: 'http://127.0.0.1:{port}', ready: {{timeout: 60s}}, command: [sh, -c, '{loading}']}}"
    );
    workload(&fixture, "chat", "mode: closed, concurrency: [1], requests: 5", "D(20,10)", "");
    fixture.write(PIPELINE, &pipeline(&["chat"], &[&target], 1, RETRY_BUDGET, ""));
    fixture.commit("a server that loads");
    let run = fixture.spawn(&["run", PIPELINE, "--run-id", "one"]);
    wait_until("the target's command runs", || begun.exists());
    let other = TcpListener::bind(("127.0.0.1", port)).expect("the address is free");
    let refused = run.finish().refuses(30, "target_address_taken");
    let (message, pid) = ("listens at the address of target `own`, and is not of it", std::process::id());
    assert!(refused.stderr.contains(message) && refused.stderr.contains(&format!("process {pid} (")), "{}", refused.stderr);
    drop(other);
    assert_eq!(fixture.leftovers(), [""; 0]);
}

#[test]
fn a_trace_to_changed_records_fails() {
    let fixture = served_fixture();
    let folder = tempfile::tempdir().expect("a folder");
    let store = folder.path().join("store");
    copy_folder(&fixture.store(), &store);
    let place = store.to_str().expect("text");
    let sql = "SELECT row_id FROM outcome_fact WHERE run_id = 'one' AND metric = 'ttft_ms_p50' AND statistic = 'median'";
    let rows = fixture.assay(&["query", sql, "--format", "json"]).success().stdout;
    let row: Value = serde_json::from_str(rows.lines().next().expect("a number")).expect("JSON");
    let address = format!("one/outcome_fact/{}/value", text(&row["row_id"]));
    let trace = |more: &[&str]| fixture.assay(&[&["trace", &address, "--store", place], more].concat());
    let before = trace(&[]).success().stdout;
    assert!(before.contains("one row each: ") && !before.contains("not here"), "{before}");
    let digest = before.lines().find_map(|line| line.trim().strip_prefix("raw ")?.split(' ').next()).expect("raw records");
    let records = blob(&store, digest);
    let bytes = fs::read(&records).expect("a blob");
    fs::remove_file(&records).expect("removed");
    write_file(&records, &flip_bit(&bytes));
    for more in [&[][..], &["--json"], &["--recompute"]] {
        trace(more).refuses(20, "artifact_corrupt");
    }
    fs::remove_file(&records).expect("removed");
    let absent = trace(&[]).success().stdout;
    assert!(absent.contains("; the raw records are not here"), "{absent}");
    assert_eq!(list(&trace(&["--json"]).success().json()["trials"])[0]["records"], json!(false));
}

#[test]
fn an_attempt_does_not_count_if_its_target_changed_meanwhile() {
    // The first attempt sends ten requests, and after five of them another version responds.
    let upgraded = Server::start_with_version(
        MODEL,
        |requests| usize::from(requests >= 5),
        |_| (complete_stream(), AfterResponse::KeepAlive),
    );
    let fixture = chat(10, &[&endpoint("upgraded", &upgraded, "")], RETRY_BUDGET);
    fixture.run("one").success();
    let environments = fixture.pointers("one", "provision");
    assert_eq!(environments.len(), 2, "the block was provisioned anew");
    let attempts: Vec<Value> = fixture
        .pointers("one", "execute")
        .iter()
        .flat_map(|part| list(&part.load(&fixture.store())["body"]["attempts"]).clone())
        .collect();
    let reasons: Vec<&str> =
        attempts.iter().flat_map(|attempt| list(&attempt["validity"]["reasons"])).map(|reason| text(&reason["code"])).collect();
    // A busy machine may have invalidated further attempts.
    assert_eq!(reasons.iter().filter(|reason| **reason == "target_changed").count(), 1, "{attempts:?}");
    assert_eq!(points(&fixture, "one")["chat.upgraded.default"]["serving"]["outcomes"], json!({"ok": "10"}));
    assert_eq!(upgraded.request_count(), 10 * attempts.len(), "each attempt sends ten");
    assert!(attempts.len() >= 2);
    fixture.assay(&["verify", "one", "--recompute"]).success();
}

#[test]
fn a_trial_that_was_repeated_in_another_block_rests_on_the_attempt_that_counts() {
    // The second trial meets another version in its middle, and counts with an attempt of the next incarnation, which has the same number.
    let upgraded = Server::start_with_version(
        MODEL,
        |requests| usize::from(requests >= 15),
        |_| (complete_stream(), AfterResponse::KeepAlive),
    );
    let fixture = chat(10, &[&endpoint("upgraded", &upgraded, "")], RETRY_BUDGET);
    fixture.write(PIPELINE, &pipeline(&["chat"], &[&endpoint("upgraded", &upgraded, "")], 2, RETRY_BUDGET, ""));
    fixture.commit("two trials");
    let ran = fixture.run("one").success();
    let collected = fixture.manifest("one", "collect");
    let trials = list(&collected["body"]["trials"]);
    let counted =
        |trial: &Value| list(&trial["attempts"]).iter().find(|attempt| attempt["counted"] == true).cloned().expect("counted");
    let numbers = points(&fixture, "one");
    let values = list(&numbers["chat.upgraded.default"]["metrics"][0]["trials"]);
    for (trial, value) in trials.iter().zip(values) {
        let row = text(&value["row_id"]).trim_start_matches("sha256:");
        let traced = fixture.assay(&["trace", &format!("one/outcome_fact/{row}/value"), "--json"]).success().json();
        let [found] = &list(&traced["trials"])[..] else { panic!("{traced}") };
        let counted = counted(trial);
        assert_eq!((&found["trial_id"], &found["block"]), (&trial["trial_id"], &counted["block"]), "{found}");
        assert_eq!([&found["parts"][0]["execution_part"]], [&counted["part"]], "{found}");
    }
    // On a busy machine, an attempt more may be repeated, and then all trials may count in one block.
    let blocks: BTreeSet<String> = trials.iter().map(|trial| counted(trial)["block"].to_string()).collect();
    let said = ran.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(said.contains("Drift: the counted trials lie on both sides of a change"), blocks.len() > 1, "{said}");
    let shown = fixture.assay(&["show", "one", "--json"]).success().json();
    assert_eq!(shown["drift"], collected["body"]["drift"]);
    assert!(!list(&shown["drift"]).is_empty());
    let compared = fixture.assay(&["compare", "one", "one"]).success().stdout;
    assert_eq!(compared.contains("drift: counted trials of one lie on both sides of a change"), blocks.len() > 1, "{compared}");
    let attempts: usize = trials.iter().map(|trial| list(&trial["attempts"]).len()).sum();
    let folder = fixture.root().join("exported");
    fixture.assay(&["export", "one", "--records", "--to", folder.to_str().expect("UTF-8")]).success();
    assert_eq!(fs::read_dir(folder.join("records")).expect("a folder").count(), attempts);
}

#[test]
fn a_run_that_was_killed_before_its_first_attempt_measures_no_dead_target() {
    let fixture = chat(10, &[SIMULATOR], RETRY_BUDGET);
    fixture.run("one").success();
    // What a driver leaves that is killed once provision has its result: the simulator has ended with it.
    for later in ["execute", "record", "collect", "reduce", "publish"] {
        fs::remove_dir_all(fixture.store().join("runs/one").join(later)).expect("the stage has a result");
    }
    for published in [fixture.store().join("warehouse"), fixture.published("one")] {
        fs::remove_dir_all(published).expect("it was published");
    }
    fixture.run("one").success();
    assert_eq!(fixture.pointers("one", "provision").len(), 2, "the simulator was started anew");
    assert_eq!(points(&fixture, "one")["chat.simulator.default"]["serving"]["outcomes"], json!({"ok": "10"}));
    fixture.assay(&["verify", "one", "--recompute"]).success();
}

#[test]
fn a_target_that_never_stays_the_same_ends_the_run() {
    let restless = Server::start_with_version(MODEL, |requests| requests, |_| (complete_stream(), AfterResponse::KeepAlive));
    let fixture = chat(10, &[&endpoint("restless", &restless, "")], RETRY_BUDGET);
    let refused = fixture.run("one").refuses(30, "target_died");
    assert!(refused.stderr.contains("block 0 lost its target 3 times"), "{}", refused.stderr);
    assert_eq!(restless.request_count(), 30, "one attempt of ten requests under each incarnation");
}

#[test]
fn a_secret_header_reaches_the_endpoint_and_no_file() {
    const SECRET: &str = "a-secret-of-the-endpoint";
    let script = |request: &Request| match header(&request.head, "authorization") {
        Some(value) if value == format!("Bearer {SECRET}") => (complete_stream(), AfterResponse::KeepAlive),
        _ => (json_response("401 Unauthorized", "{}"), AfterResponse::KeepAlive),
    };
    let server = Server::start(MODEL, script);
    let mut fixture = chat(5, &[&endpoint("guarded", &server, ", headers: {authorization: {from_env: GUARD}}")], 0);
    fixture.run("without").refuses(30, "secret_absent");
    fixture.set("GUARD", format!("Bearer {SECRET}"));
    fixture.run("one").success();
    assert_eq!(points(&fixture, "one")["chat.guarded.default"]["serving"]["outcomes"], json!({"ok": "5"}));

    let files = files_under(&fixture.root());
    assert!(files.iter().any(|path| path.ends_with("report.html")) && files.len() > 80, "{} files", files.len());
    for path in files {
        let bytes = fs::read(&path).expect("a file of the fixture");
        let holds = bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
        assert!(!holds, "{} holds the secret", path.display());
    }
}

#[test]
fn a_secret_that_an_endpoint_repeats_is_masked_and_the_attempt_does_not_count() {
    const SECRET: &str = "a-secret-that-is-repeated";
    let script = |request: &Request| {
        let given = header(&request.head, "authorization").unwrap_or_default().to_owned();
        if !request.head.starts_with("POST /v1/chat/completions ") {
            return (json_response("404 Not Found", "{}"), AfterResponse::KeepAlive);
        }
        match request.number % 3 {
            0 => {
                let body = json!({"error": {"message": format!("Incorrect API key provided: {}", given.replace("Bearer ", ""))}});
                (json_response("401 Unauthorized", &body.to_string()), AfterResponse::KeepAlive)
            }
            // The kept part of an error ends in the middle of the secret.
            1 => (json_response("401 Unauthorized", &format!("{}{given}", "x".repeat(185))), AfterResponse::KeepAlive),
            _ => {
                let delta = json!({"choices": [{"index": 0, "delta": {"content": given}, "finish_reason": "stop"}]});
                let mut wire = open_stream(&[TOKEN, &delta.to_string(), "[DONE]"]);
                wire.extend_from_slice(b"0\r\n\r\n");
                (wire, AfterResponse::KeepAlive)
            }
        }
    };
    let server = Server::start(MODEL, script);
    let mut fixture = Fixture::bare();
    workload(&fixture, "chat", "mode: closed, concurrency: [1], requests: 6", "D(20,10)", "  capture: full\n");
    // The address may end in its version; the models are still requested below it.
    let target =
        format!("{{name: echo, kind: endpoint, url: '{}/v1', headers: {{authorization: {{from_env: GUARD}}}}}}", server.url());
    fixture.write(PIPELINE, &pipeline(&["chat"], &[&target], 1, 0, ""));
    fixture.commit("an echo");
    fixture.set("GUARD", format!("Bearer {SECRET}"));
    let ran = fixture.run("one").exits(30);
    let found = fixture.manifest("one", "provision");
    assert_eq!(found["body"]["targets"][0]["models"], json!([MODEL]));

    let part = fixture.manifest("one", "execute");
    let attempt = &part["body"]["attempts"][0];
    let reasons = list(&attempt["validity"]["reasons"]).iter().map(|reason| text(&reason["code"]));
    // A busy machine may stall the client in addition.
    let reasons: Vec<_> = reasons.filter(|code| !code.starts_with("client_")).collect();
    assert_eq!(reasons, ["secret_in_output"]);
    let said = "does not count: the endpoint sent a secret of the target's headers back, which was masked";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
    assert_eq!(attempt["serving"]["outcomes"], json!({"http_error": "4", "ok": "2"}));
    let rows = records(&fixture, attempt).records().expect("rows").map(|row| row.expect("a record"));
    let errors: Vec<_> = rows.map(|record| record.error.unwrap_or_default()).collect();
    let cut = format!("{}Bearer [secret]", "x".repeat(185));
    assert_eq!(errors, ["Incorrect API key provided: [secret]", &cut, ""].repeat(2));
    let responses = list(&attempt["evidence"]).iter().find(|artifact| text(&artifact["name"]).ends_with("responses.jsonl"));
    let responses = fs::read(blob(&fixture.store(), text(&responses.expect("responses")["digest"]))).expect("the responses");
    assert_eq!(String::from_utf8_lossy(&responses).matches("[secret]").count(), 2);

    for path in files_under(&fixture.root()) {
        let bytes = fs::read(&path).expect("a file of the fixture");
        let holds = |what: &str| bytes.windows(what.len()).any(|window| window == what.as_bytes());
        assert!(!holds(SECRET), "{} holds the secret", path.display());
    }
}

#[test]
fn a_process_that_ends_before_it_is_ready_is_not_waited_for() {
    const SECRET: &str = "a-secret-of-the-process";
    let target = "{name: own, kind: process, url: 'http://127.0.0.1:9', ready: {http: /health, timeout: 24h}, \
                  env: {TOKEN: {from_env: GUARD}}, command: [sh, -c, 'echo no such model; echo $TOKEN; exit 3']}";
    let mut fixture = chat(5, &[target], 0);
    fixture.set("GUARD", SECRET);
    let ran = fixture.run("one").refuses(30, "target_ended");
    let said = "target `own` ended before it was ready: exit code 3; the end of its log:\nno such model\n[secret]";
    assert!(ran.stderr.contains(said), "{}", ran.stderr);
    assert!(!ran.stderr.contains(SECRET), "{}", ran.stderr);

    // A process that is never started is not waited for either.
    fixture.unset("GUARD");
    let ran = fixture.run("two").refuses(30, "secret_absent");
    assert!(!ran.stderr.contains("retry"), "it is not tried again: {}", ran.stderr);
    assert_eq!(fixture.leftovers(), [""; 0]);
}

#[test]
fn every_trial_begins_with_an_empty_cache_where_the_pipeline_says_so() {
    let fixture = Fixture::bare();
    workload(&fixture, "chat", "mode: closed, concurrency: [2], requests: 10", "D(20,10)", "  cache: shared\n");
    fixture.write(PIPELINE, &pipeline(&["chat"], &[SIMULATOR], 2, RETRY_BUDGET, "  isolation: flush\n  shards: 2\n"));
    fixture.commit("a flush before each trial");
    fixture.run("one").success();
    let counted = counted_attempts(&fixture, "one");
    assert_eq!(counted.len(), 2);
    for (trial_id, shards) in counted {
        let flushed: Vec<_> = shards.iter().map(|shard| text(&shard["serving"]["cache_flushed"])).collect();
        assert_eq!(flushed, ["/reset_prefix_cache"; 2], "{trial_id}: every shard knows what the first did for all");
    }
    fixture.assay(&["verify", "one", "--recompute"]).success();
}

#[test]
fn an_endpoint_that_cannot_empty_its_cache_is_not_measured() {
    let script = |request: &Request| {
        let is_load = request.head.starts_with("POST /v1/");
        (if is_load { complete_stream() } else { json_response("404 Not Found", "{}") }, AfterResponse::KeepAlive)
    };
    let server = Server::start(MODEL, script);
    let fixture = chat(5, &[&endpoint("plain", &server, "")], 0);
    let plain = pipeline(&["chat"], &[&endpoint("plain", &server, "")], 1, 0, "");
    fixture.write(PIPELINE, &(plain + "  isolation: flush\n  shards: 2\n"));
    fixture.commit("a flush that nobody takes");
    let ran = fixture.run("one").refuses(30, "cannot_flush");
    assert!(ran.stderr.contains("`VLLM_SERVER_DEV_MODE=1`"), "the remedy is told: {}", ran.stderr);
    assert!(!ran.stderr.contains("retry"), "it is not tried again: {}", ran.stderr);
    assert_eq!(server.request_count(), 2, "it was asked for a flush in two ways, by one shard, and for nothing else");
}

#[test]
fn a_restarted_target_is_another_process_in_every_trial() {
    const TRIALS: usize = 3;
    let fixture = Fixture::bare();
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
    let (simulator, pids) = (binary("assay-simulator").display().to_string(), fixture.root().join("pids"));
    // The shell becomes the simulator, so they have the same process id.
    let start =
        format!("echo $$ >> {}; exec {simulator} --listen 127.0.0.1:{port} --model {MODEL} --profile fast", pids.display());
    let target = format!(
        "{{name: own, kind: process, url: 'http://127.0.0.1:{port}', ready: {{http: /health, timeout: 60s}}, \
         command: [sh, -c, '{start}']}}"
    );
    workload(&fixture, "chat", "mode: closed, concurrency: [1], requests: 5", "D(20,10)", "");
    let trials = TRIALS.try_into().expect("it fits");
    fixture.write(PIPELINE, &pipeline(&["chat"], &[&target], trials, RETRY_BUDGET, "  isolation: restart_target\n"));
    fixture.commit("a restart before each trial");
    fixture.run("one").success();

    let pids = fs::read_to_string(pids).expect("the process ids");
    let distinct: BTreeSet<_> = pids.lines().collect();
    assert_eq!((pids.lines().count(), distinct.len()), (TRIALS, TRIALS), "one process for each trial: {pids}");
    let environments: Vec<_> =
        fixture.pointers("one", "provision").iter().map(|pointer| pointer.load(&fixture.store())).collect();
    let blocks: BTreeSet<_> = environments.iter().map(|found| found["body"]["block"]["index"].as_u64()).collect();
    assert_eq!(blocks, (0..TRIALS as u64).map(Some).collect(), "each trial has an environment of its own");
    assert_eq!(counted_attempts(&fixture, "one").len(), TRIALS);
    assert_eq!(fixture.leftovers(), [""; 0]);
}

#[test]
fn declared_hardware_is_in_every_report() {
    let server = Server::start(MODEL, |_| (complete_stream(), AfterResponse::KeepAlive));
    let fixture = chat(5, &[&endpoint("far", &server, ", hardware: {gpu_model: NVIDIA H200, gpu_count: 8}")], RETRY_BUDGET);
    let ran = fixture.run("one").success();
    assert!(ran.stdout.contains("8 x NVIDIA H200 (declared)"), "{}", ran.stdout);
    for name in ["report.html", "report.md"] {
        let text = fs::read_to_string(fixture.published("one").join(name)).expect("a report");
        assert!(text.contains("8 x NVIDIA H200 (declared)"), "{name}");
    }
}

#[test]
fn what_a_workload_declares_can_be_asked_for() {
    let sql = "SELECT workload, model, precision, protocol, deployment_model, stack_under_test, batching_policy, \
               concurrency_points, prompt_distribution, cache FROM workload_dim WHERE workload = 'closed'";
    let asked = served_fixture().assay(&["query", sql, "--format", "json"]).success().stdout;
    let row: Value = serde_json::from_str(asked.lines().next().expect("a row")).expect("JSON");
    let expected = serde_json::json!({
        "workload": "closed", "model": MODEL, "precision": "none", "protocol": "openai_compatible_http",
        "deployment_model": "single_process", "stack_under_test": "assay-simulator", "batching_policy": "continuous",
        "concurrency_points": r#"["concurrency-2"]"#, "prompt_distribution": r#"{"law":"fixed","tokens":20}"#, "cache": "cold_salt",
    });
    assert_eq!(row, expected);
}

#[test]
fn a_plan_says_how_long_its_loads_take() {
    let planned = |load: &str| {
        let fixture = Fixture::bare();
        workload(&fixture, "chat", load, "D(20,10)", "");
        fixture.write(PIPELINE, &pipeline(&["chat"], &[SIMULATOR], 3, 0, ""));
        fixture.commit("a load");
        let shown = fixture.assay(&["plan", PIPELINE]).success().stdout;
        shown.lines().skip(1).take_while(|line| !line.starts_with("workload")).collect::<Vec<_>>().join("\n")
    };
    // Three trials of two loads, each with a warm-up; the last responses of each have half a minute.
    insta::assert_snapshot!(planned("mode: closed, concurrency: [1, 2], duration: 50s, warmup: 10s"), @r"
    about 6 min of trials, by their loads
    at most 9 min of trials; attempts that are repeated come on top
    ");
    insta::assert_snapshot!(planned("mode: closed, concurrency: [1], requests: 100"), @r"
    the duration is unknown before a first run: a closed loop with a number of requests lasts until the last response
    at most 90 min of trials, if every one runs into its time limit; attempts that are repeated come on top
    ");
}

#[test]
fn a_model_that_is_not_served_is_named() {
    let server = Server::start("another-model", |_| (complete_stream(), AfterResponse::KeepAlive));
    let fixture = chat(5, &[&endpoint("other", &server, "")], 0);
    let ran = fixture.run("one").refuses(30, "model_not_served");
    assert!(
        ran.stderr.contains("target `other` does not serve the model `simulated-8b`: it lists `another-model`"),
        "{}",
        ran.stderr
    );
    assert_eq!(server.request_count(), 0, "nothing is measured");
    assert!(!ran.stderr.contains("retry"), "it is not tried again: {}", ran.stderr);
}

#[test]
fn embeddings_and_whole_completions_are_measured() {
    let fixture = Fixture::bare();
    let load = "mode: closed, concurrency: [2], requests: 20";
    workload(&fixture, "embed", load, "E(64)", "  api: embeddings\n");
    workload(&fixture, "complete", load, "D(20,10)", "  api: completions\n  streaming: false\n");
    fixture.write(PIPELINE, &pipeline(&["embed", "complete"], &[SIMULATOR], 1, RETRY_BUDGET, ""));
    fixture.commit("embeddings and completions");
    fixture.run("one").success();

    let points = points(&fixture, "one");
    let counted = counted_attempts(&fixture, "one");
    // 20 requests each: 64 tokens in; 20 in and 10 out.
    for (name, input, output) in [("embed", "1280", "0"), ("complete", "400", "200")] {
        let point = &points[&format!("{name}.simulator.default")];
        assert_eq!(point["serving"]["outcomes"], json!({"ok": "20"}), "{name}");
        assert!(metric(point, "e2e_ms_p50").is_some(), "{name}");
        assert!(metric(point, "ttft_ms_p50").is_none(), "{name}: no stream has no first token");
        let attempt = &counted[&format!("{name}.simulator.default.concurrency-2.t0")][0];
        let tokens = (text(&attempt["serving"]["input_tokens"]), text(&attempt["serving"]["output_tokens"]));
        assert_eq!(tokens, (input, output), "{name}");
    }
    fixture.assay(&["verify", "one", "--recompute"]).success();
}

#[test]
fn rerank_is_measured_in_both_shapes() {
    let fixture = Fixture::bare();
    let load = "mode: closed, concurrency: [2], requests: 20";
    workload(&fixture, "cohere", load, "R(64,16)", "  api: rerank\n  batch: 5\n");
    workload(&fixture, "tei", load, "R(64,16)", "  api: rerank_tei\n  batch: 3\n");
    fixture.write(PIPELINE, &pipeline(&["cohere", "tei"], &[SIMULATOR], 1, RETRY_BUDGET, ""));
    fixture.commit("rerank");
    fixture.run("one").success();

    let points = points(&fixture, "one");
    let counted = counted_attempts(&fixture, "one");
    // 20 requests each: every document of 64 tokens is read together with the query of 16.
    for (name, documents, input) in [("cohere", 5.0, "8000"), ("tei", 3.0, "4800")] {
        let point = &points[&format!("{name}.simulator.default")];
        assert_eq!(point["serving"]["outcomes"], json!({"ok": "20"}), "{name}");
        let value = |path: &str| metric(point, path).and_then(|metric| metric["median"].as_f64());
        assert!(value("e2e_ms_p50") > Some(0.0) && value("request_throughput_per_s") > Some(0.0), "{name}");
        assert_eq!(value("isl_tokens_mean"), Some(80.0 * documents), "{name}");
        let per_request =
            value("documents_per_s").zip(value("request_throughput_per_s")).map(|(documents, requests)| documents / requests);
        assert!(per_request.is_some_and(|found| (found / documents - 1.0).abs() < 1e-9), "{name}: {per_request:?}");
        for absent in ["ttft_ms_p50", "output_tokens_per_s", "osl_tokens_mean"] {
            assert!(metric(point, absent).is_none(), "{name}: {absent}");
        }
        let attempt = &counted[&format!("{name}.simulator.default.concurrency-2.t0")][0];
        let tokens = (text(&attempt["serving"]["input_tokens"]), text(&attempt["serving"]["output_tokens"]));
        assert_eq!(tokens, (input, "0"), "{name}");
    }
    // One shape reports the tokens of the input, the other does not.
    let endpoint = |name: &str| {
        metric(&points[&format!("{name}.simulator.default")], "isl_tokens_endpoint_mean")
            .and_then(|metric| metric["median"].as_f64())
    };
    assert_eq!((endpoint("cohere"), endpoint("tei")), (Some(400.0), None));
    fixture.assay(&["verify", "one", "--recompute"]).success();
}

#[test]
fn what_was_recorded_during_a_trial_is_in_rows() {
    let fixture = Fixture::bare();
    // Four seconds, each of which the recorder samples.
    workload(&fixture, "slow", "mode: open, rate: [10], arrival: constant, requests: 40", "D(20,10)", "");
    fixture.write(PIPELINE, &pipeline(&["slow"], &[SIMULATOR], 1, RETRY_BUDGET, ""));
    fixture.commit("a slow load");
    fixture.run("one").success();

    let summary = fixture.manifest("one", "reduce");
    let is_it = |file: &&Value| file["table"] == TELEMETRY_SLICE_FACT.name;
    let file = list(&summary["body"]["files"]).iter().find(is_it).expect("the table is among the files");
    let bytes = fs::read(blob(&fixture.store(), text(&file["artifact"]["digest"]))).expect("it is in the store");
    let rows = assay_warehouse::read(&TELEMETRY_SLICE_FACT, bytes).expect("a curated file");
    let scopes: BTreeSet<_> =
        rows.iter().filter_map(|row| Some((row.text("scope_kind")?, row.text("scope_id")?, row.text("source")?))).collect();
    assert_eq!(scopes, [("endpoint", "simulator", "endpoint/simulator"), ("host", "local", "host")].into());
    let metrics: BTreeSet<_> = rows.iter().filter_map(|row| row.text("metric")).collect();
    for metric in ["context_switches", "memory_available_bytes", "vllm:generation_tokens_total", "vllm:num_requests_running"] {
        assert!(metrics.contains(metric), "{metric} is missing in {metrics:#?}");
    }
    assert!(!metrics.iter().any(|metric| metric.contains("_bucket")), "{metrics:#?}");
    // What the recorder itself takes is in every run, and is no more than the machine has.
    let own: Vec<_> = rows.iter().filter(|row| row.text("metric") == Some("recorder_cpu_us")).collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let is_possible = |row: &&assay_warehouse::Row| {
        let mean = crate::exporters::float(row, "mean");
        row.text("unit") == Some("us/s") && mean.is_finite() && (0.0..cores * 1e6).contains(&mean)
    };
    assert!(!own.is_empty() && own.iter().all(is_possible), "{own:?}");
    fixture.assay(&["verify", "one", "--recompute"]).success();
}

/// Objects are pinned wherever the plan is made; only a cluster brings them up.
#[test]
fn objects_are_pinned_and_refused_on_one_machine() {
    let target = "{name: vllm, kind: objects, objects: [targets/vllm.yaml], url: 'http://vllm:8000'}";
    let fixture = chat(1, &[target], 0);
    fixture.write("targets/vllm.yaml", "kind: Pod\nspec: {containers: [{name: vllm, image: 'r.example.org/vllm:1'}]}\n");
    fixture.commit("objects");
    let refused = fixture.run("one").refuses(10, "target_kind");
    assert!(refused.stderr.contains("--on kubernetes"), "{}", refused.stderr);
    let plan = &fixture.manifest("one", "plan")["body"];
    let objects = &plan["targets"][0]["objects"][0];
    assert_eq!(
        (&objects["path"], &objects["artifact"]["name"]),
        (&json!("targets/vllm.yaml"), &json!("targets/vllm/targets/vllm.yaml"))
    );
    assert_eq!(plan["unpinned"][0]["what"], "r.example.org/vllm:1");
}
