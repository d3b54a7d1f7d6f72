//! Traces over the real binaries: recorded requests are replayed at their times, and prefixes that they share are those that an endpoint
//! finds in its cache.

use std::collections::BTreeMap;

use assay_record::Record;
use assay_warehouse::records::RecordFile;
use serde_json::{Value, json};

use crate::pipeline::{list, text};
use crate::replicas::Replica;
use crate::serving;
use crate::support::{CommandResult, Fixture, PIPELINE, blob};

/// A row of Mooncake's format.
fn row(at_ms: u32, tokens: u32, output: u32, ids: &[u32]) -> String {
    json!({"timestamp": at_ms, "input_length": tokens, "output_length": output, "hash_ids": ids}).to_string() + "\n"
}

/// Prompts that share beginnings, one that is sent twice, and one without a block; their last blocks are partial, some of them left out. No
/// prompt is the beginning of another, so that the sum of what a cache finds does not depend on the order of requests that come at once.
pub(crate) fn mooncake() -> String {
    [
        row(0, 1_100, 2, &[1, 2]),
        row(100, 1_500, 3, &[1, 2, 10]),
        row(200, 1_100, 4, &[1, 3]),
        row(250, 1_600, 2, &[1, 2, 4, 12]),
        row(250, 2_000, 2, &[1, 2, 4, 11]),
        row(400, 1_200, 2, &[1, 3]),
        row(700, 300, 2, &[]),
        row(900, 1_500, 3, &[1, 2, 10]),
    ]
    .concat()
}

/// The tokens that a cache without limits finds in blocks of `size`, by the definition: of each prompt, the whole blocks of its longest
/// beginning that an earlier prompt has, but never its last token.
pub(crate) fn found_in_blocks_of(size: u32) -> u64 {
    let reused_of =
        [(1_100, 0), (1_500, 1_024), (1_100, 512), (1_600, 1_024), (2_000, 1_536), (1_200, 1_024), (300, 0), (1_500, 1_500)];
    reused_of.iter().map(|(tokens, reused): &(u32, u32)| u64::from((*reused).min(tokens - 1) / size * size)).sum()
}

/// Writes a workload that replays a trace.
fn workload(fixture: &Fixture, load: &str, trace: &str, more: &str) {
    let fields = format!(
        "  batching_policy: none
  load: {{mode: replay, {load}}}
  trace: {{path: trace.jsonl, format: mooncake{trace}}}
{more}"
    );
    serving::workload_of(fixture, "replayed", &fields);
}

fn said(ran: &CommandResult) -> String {
    format!("{}{}", ran.stdout, ran.stderr)
}

fn simulator(config: &str) -> String {
    format!("{{name: simulator, kind: simulator, config: {{profile: fast, {config}}}}}")
}

/// Returns the value of a metric at a point of the run.
pub(crate) fn metric(fixture: &Fixture, run_id: &str, point: &str, name: &str) -> f64 {
    let summary = fixture.manifest(run_id, "reduce");
    let points = list(&summary["body"]["points"]).clone();
    let found = points.iter().find(|found| text(&found["point_id"]) == point).expect("the point");
    let metrics = list(&found["metrics"]);
    metrics.iter().find(|metric| text(&metric["metric"]) == name).and_then(|metric| metric["median"].as_f64()).expect("a value")
}

/// Returns the records of each attempt, over all shards, in the order of trials and attempts.
pub(crate) fn records(fixture: &Fixture, run_id: &str) -> Vec<Vec<Record>> {
    let mut attempts: BTreeMap<(String, u64), Vec<Record>> = BTreeMap::new();
    for pointer in fixture.pointers(run_id, "execute") {
        let part = pointer.load(&fixture.store());
        for attempt in list(&part["body"]["attempts"]) {
            let records = blob(&fixture.store(), text(&attempt["serving"]["records"]["digest"]));
            let file =
                RecordFile::open(std::fs::read(records).expect("the records are in the store")).expect("a file of records");
            let of_attempt = attempts
                .entry((text(&attempt["trial_id"]).to_owned(), attempt["attempt"].as_u64().expect("a number")))
                .or_default();
            of_attempt.extend(file.records().expect("records").map(|record| record.expect("a record")));
        }
    }
    attempts.into_values().collect()
}

/// Returns the intended times of the requests of each attempt by index, in nanoseconds, over all shards.
fn intended(fixture: &Fixture, run_id: &str) -> Vec<BTreeMap<i64, i64>> {
    let of = |record: Record| (record.global_index.cast_signed(), record.intended_ns.expect("an intended time"));
    records(fixture, run_id).into_iter().map(|records| records.into_iter().map(of).collect()).collect()
}

#[test]
fn a_trace_is_replayed_at_its_times_by_any_number_of_shards() {
    let fixture = Fixture::bare();
    fixture.write("workloads/replayed/trace.jsonl", &mooncake());
    workload(&fixture, "speed: [1, 4]", "", "");
    let pipeline = |more: &str| serving::pipeline(&["replayed"], &[serving::SIMULATOR], 1, serving::RETRY_BUDGET, more);
    let mut schedules = Vec::new();
    for (run_id, shards) in [("one", ""), ("three", "  shards: 3\n")] {
        fixture.write(PIPELINE, &pipeline(shards));
        fixture.commit("a trace");
        fixture.run(run_id).success();
        fixture.verify_recomputed(run_id);
        let ms = |times: &[i64]| times.iter().map(|ms| ms * 1_000_000).collect::<Vec<_>>();
        let at = ms(&[0, 100, 200, 250, 250, 400, 700, 900]);
        let faster: Vec<i64> = at.iter().map(|at| at / 4).collect();
        for times in intended(&fixture, run_id) {
            let times: Vec<i64> = times.into_values().collect();
            assert!(times == at || times == faster, "{times:?}");
        }
        let parts: Vec<Value> =
            fixture.pointers(run_id, "execute").iter().map(|pointer| pointer.load(&fixture.store())).collect();
        let attempts = parts.iter().flat_map(|part| list(&part["body"]["attempts"]).clone());
        let digests: std::collections::BTreeSet<String> =
            attempts.map(|attempt| format!("{} {}", attempt["trial_id"], attempt["serving"]["schedule_digest"])).collect();
        schedules.push(digests);
    }
    assert_eq!(schedules[0].len(), 2);
    assert_eq!(schedules[0], schedules[1]);
    // The rows are raw data: a store whose rows were altered is refused where raw data is checked.
    let plan = fixture.manifest("one", "plan");
    let rows = blob(&fixture.store(), text(&plan["body"]["workloads"][0]["serving"]["prompts"]["rows"]["digest"]));
    let kept = std::fs::read(&rows).expect("the rows");
    std::fs::remove_file(&rows).expect("removed");
    std::fs::write(&rows, kept.to_ascii_uppercase()).expect("written");
    let altered = fixture.assay(&["verify", "one"]).exits(20);
    assert!(altered.stdout.contains("level 2 (rows and queries) of 4 reached; refused at level 3"), "{}", altered.stdout);
    // A reader has the published folder alone, without the rows.
    let folder = fixture.published("one");
    let alone = fixture.assay(&["verify", folder.to_str().expect("a path")]).success();
    assert!(alone.stdout.contains("level 2 (rows and queries) of 4 reached"), "{}", alone.stdout);
}

#[test]
fn a_misspelt_field_is_named_before_the_load_and_in_the_result() {
    let fixture = Fixture::new();
    fixture.write("trace.jsonl", &mooncake().replace("hash_ids", "hash_id"));
    let bench = |run_id: &str| {
        let trace = ["bench", "--simulator", "fast", "--trace", "trace.jsonl", "--trace-format", "mooncake", "--trials", "1"];
        fixture.assay(&[&trace[..], &["--run-id", run_id]].concat()).success()
    };
    let misspelt = bench("misspelt");
    let stated = "no row has `hash_ids`, so that no prompts begin alike";
    let unread = "8 of its rows have members that are not read: `hash_id`";
    for text in [stated, unread] {
        assert!(misspelt.stderr.contains(text), "{}", misspelt.stderr);
        let printed = misspelt.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(printed.contains(text), "{}", misspelt.stdout);
    }
    let summary = &fixture.manifest("misspelt", "plan")["body"]["workloads"][0]["serving"]["prompts"]["summary"];
    assert_eq!(summary["unread"], json!({"rows": "8", "names": ["hash_id"]}));
    fixture.write("trace.jsonl", &mooncake());
    let right = bench("right");
    assert!(!said(&right).contains("no row has") && !said(&right).contains("not read"), "{}", said(&right));
}

#[test]
fn an_endpoint_finds_the_prefixes_of_the_trace_to_the_block() {
    for (size, more) in [(16, ""), (128, "  cache: cold_flush\n")] {
        let fixture = Fixture::bare();
        fixture.write("workloads/replayed/trace.jsonl", &mooncake());
        workload(&fixture, "speed: [2]", "", more);
        let target = simulator(&format!("block_tokens: {size}"));
        fixture.write(PIPELINE, &serving::pipeline(&["replayed"], &[&target], 2, serving::RETRY_BUDGET, ""));
        fixture.commit("a trace");
        fixture.run("cached").success();
        let found = found_in_blocks_of(size);
        assert!((metric(&fixture, "cached", "speed-2", "cached_tokens") - found as f64).abs() < 0.5, "{size}: {found}");
        let plan = fixture.manifest("cached", "plan");
        let summary = &plan["body"]["workloads"][0]["serving"]["prompts"]["summary"];
        let sum: f64 = text(&summary["input_tokens"]["sum"]).parse().expect("a number");
        assert!((metric(&fixture, "cached", "speed-2", "cached_share") - found as f64 / sum).abs() < 1e-9);
        // The plan tells as much, in the blocks that the simulator states.
        assert!((metric(&fixture, "cached", "speed-2", "theoretical_cached_share") - found as f64 / sum).abs() < 1e-9);
        assert!((metric(&fixture, "cached", "speed-2", "reuse_efficiency") - 1.0).abs() < 1e-9);
        let environment = fixture.manifest("cached", "provision");
        assert_eq!(environment["body"]["targets"][0]["cache_block_tokens"], size);
        assert_eq!(text(&summary["blocks"]["reused_tokens"]), "6620");
        assert_eq!(text(&summary["times"]["span_ns"]), "900000000");
    }
}

/// Replays the trace twice, or more often if an attempt does not count, each time with words of its own, on a server with this many blocks of
/// `size` tokens. Returns the number of attempts, and the tokens that the cache found, those that it missed because it had evicted them, and its
/// evictions.
fn replay_on(size: u32, kv_blocks: &str) -> (u64, [u64; 3]) {
    let server = Replica::with(&["--block-tokens", &size.to_string(), "--kv-blocks", kv_blocks]);
    let fixture = Fixture::new();
    fixture.write("trace.jsonl", &mooncake());
    let load = ["--trace", "trace.jsonl", "--trace-format", "mooncake", "--speed", "2", "--trials", "2", "--run-id", "cached"];
    fixture.assay(&[&["bench", "--url", &server.url, "--model", serving::MODEL][..], &load].concat()).success();
    let served = server.requests();
    let sum = |name: &str| served.iter().map(|request| request[name].as_u64().expect("a number")).sum::<u64>();
    let sums = ["cached_tokens", "evicted_tokens", "evictions"].map(sum);
    let counters = [
        "vllm:prefix_cache_hits_total",
        "assay_simulator_prefix_cache_evicted_tokens_total",
        "assay_simulator_prefix_cache_evictions_total",
    ];
    assert_eq!(counters.map(|name| server.metric(name) as u64), sums);
    assert!(server.metric("assay_simulator_prefix_cache_blocks") <= kv_blocks.parse().expect("a number"));
    let attempts = records(&fixture, "cached");
    let count = attempts.len() as u64;
    let of_client = attempts.into_iter().flatten();
    assert_eq!(of_client.map(|record| u64::from(record.cached_tokens.expect("the simulator tells"))).sum::<u64>(), sums[0]);
    (count, sums)
}

#[test]
fn what_a_small_cache_does_not_find_is_what_it_evicted_to_the_block() {
    for (size, large, small) in [(16, "2000", "100"), (128, "200", "12")] {
        let of_trace = found_in_blocks_of(size);
        let (attempts, sums) = replay_on(size, large);
        assert_eq!(sums, [attempts * of_trace, 0, 0]);
        let (attempts, [found, evicted, evictions]) = replay_on(size, small);
        assert_eq!(found + evicted, attempts * of_trace, "{size}");
        // A block that is missed because it was evicted was evicted once before each miss.
        assert!(evicted > 0 && evicted / u64::from(size) <= evictions, "{size}: {evicted} tokens, {evictions} blocks");
    }
}

#[test]
fn a_part_of_a_trace_is_replayed_from_its_start() {
    let fixture = Fixture::new();
    fixture.write("trace.jsonl", &mooncake());
    let bench = |run_id: &str, more: &[&str]| {
        let trace = ["bench", "--simulator", "fast", "--trace", "trace.jsonl", "--trace-format", "mooncake", "--trials", "1"];
        fixture.assay(&[&trace[..], &["--run-id", run_id], more].concat())
    };
    let ran = bench("part", &["--window", "100ms..700ms", "--max-gap", "120ms", "--json"]).success();
    assert_eq!(ran.stderr.matches("error").count(), 0, "{}", ran.stderr);
    let times: Vec<i64> = intended(&fixture, "part").remove(0).into_values().collect();
    // Those at 100, 200, 250, 250 and 400 ms; the gap of 150 ms before the last is cut.
    assert_eq!(times, [0, 100, 150, 150, 270].map(|ms| ms * 1_000_000));
    let plan = fixture.manifest("part", "plan");
    let summary = plan["body"]["workloads"][0]["serving"]["prompts"]["summary"]["times"].clone();
    assert_eq!((text(&summary["outside_window"]), text(&summary["gaps_cut"]), text(&summary["cut_ns"])), ("3", "1", "30000000"));

    let rows = text(&plan["body"]["workloads"][0]["serving"]["prompts"]["rows"]["digest"]).to_owned();
    assert!(blob(&fixture.store(), &rows).exists());
    fixture.assay(&["runs", "rm", "part", "--evidence-only", "--reason", "private", "--yes"]).success();
    assert!(!blob(&fixture.store(), &rows).exists(), "prompts are raw data, which can be removed");
    let removed = fixture.verify("part").success();
    assert!(removed.stdout.contains("removed"), "{}", removed.stdout);

    let ran = bench("warm", &["--warmup", "5s"]).refuses(10, "schedule");
    let reason = "at speed 1 the trace lasts 900.0ms, and no request of it is due in the measured phase, from 5.0s on";
    assert!(ran.stderr.contains(reason) && ran.stderr.contains("`--trace`"), "{}", ran.stderr);
    fixture.write("trace.jsonl", &(row(5, 600, 2, &[1]) + &row(4, 600, 2, &[1])));
    let ran = bench("unsorted", &[]).refuses(10, "dataset");
    assert!(ran.stderr.contains("row 2 is earlier than the row before it: sort the file by time"), "{}", ran.stderr);
    let ran = bench("both", &["--rate", "2"]);
    assert!(ran.exits(2).stderr.contains("the requests of a trace have times of their own"));
}

#[test]
fn a_plan_states_the_duration_of_the_traces_that_it_imports() {
    let fixture = Fixture::new();
    fixture.write("workloads/replayed/trace.jsonl", &mooncake());
    let planned = |load: &str, more: &str| {
        workload(&fixture, load, "", more);
        fixture.assay(&["plan", PIPELINE]).success().stdout
    };
    fixture.write(PIPELINE, &serving::pipeline(&["replayed"], &[serving::SIMULATOR], 2, serving::RETRY_BUDGET, ""));
    // Twice the 0.9 s of the trace, at a tenth and at a hundredth of its speed.
    let text = planned("speed: [0.1, 0.01]", "");
    assert!(text.contains("about 3 min of trials, by their loads\n") && !text.contains("unknown"), "{text}");
    fixture.write("workloads/replayed/trace.jsonl", &mooncake().replace('{', "{\"session_id\": \"a\", "));
    let text = planned("speed: [1]", "  sessions: {history: recorded}\n");
    assert!(text.contains("unknown before a first run: the later turns of a session wait for its responses\n"), "{text}");
}

#[test]
fn no_hint_names_options_that_the_format_of_a_trace_refuses() {
    let fixture = Fixture::new();
    fixture.write(
        "az.csv",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,374,44\n2023-11-16 18:17:04.03,396,109\n",
    );
    let bench = |options: &[&str]| {
        fixture.assay(&[&["bench", "--simulator", "fast", "--trace", "az.csv", "--trace-format", "azure"], options].concat())
    };
    let refusal = |options: &[&str]| {
        let refused = bench(options).refuses(2, "option").stderr.clone();
        let (message, hint) = refused.split_once("\n\nhint: ").expect("a hint");
        assert!(!hint.contains("--sessions"), "{refused}");
        (message.to_owned(), hint.trim_end().to_owned())
    };
    let (message, hint) = refusal(&["--concurrency", "2", "--duration", "1s"]);
    assert!(
        message.ends_with("`--concurrency` contradicts `--trace`: the requests of a trace have times of their own"),
        "{message}"
    );
    assert!(hint.starts_with("leave out `--concurrency`, or write `--dataset FILE` instead of `--trace FILE`"), "{hint}");
    assert_eq!(refusal(&["--max-tool-time", "1s"]).1, "remove it");
    let (message, hint) = (bench(&["--max-input", "300", "--over", "skip"]).refuses(10, "dataset").stderr)
        .split_once("\n\nhint: ")
        .map(|(message, hint)| (message.to_owned(), hint.to_owned()))
        .expect("a hint");
    assert!(message.contains("2 are too long"), "{message}");
    assert!(
        hint.starts_with("a larger `--max-input` lets longer prompts pass, and `--over truncate` cuts them, or ends"),
        "{hint}"
    );
    bench(&["--max-input", "300", "--over", "truncate", "--trials", "1"]).success();
}

/// The hints of what an option of the command line says about itself: limits, the kinds of prompts that it belongs to, and other options.
#[test]
fn a_refused_option_states_its_limits_in_options() {
    let fixture = Fixture::new();
    fixture.write("trace.jsonl", &mooncake());
    let played = ["--trace", "trace.jsonl", "--trace-format", "mooncake", "--concurrency", "2", "--sessions"];
    let cases: [(&[&str], &[&str]); 7] = [
        (
            &[&played[..], &["count=2,idle_cap=50ms"]].concat(),
            &["idle_cap=` is shorter than `1s`", "hint: write a time of `1s` or more, such as `--sessions idle_cap=10s`"],
        ),
        (
            &[&played[..], &["count=2,idle_cap=5s", "--shards", "2"]].concat(),
            &[
                "`--shards` is 2, and `--sessions idle_cap=` holds for all",
                "hint: write `--shards 1`, or remove `--sessions idle_cap=`\n",
            ],
        ),
        (
            &[&played[..], &["count=2,turns=3"]].concat(),
            &["`--sessions turns=` belongs to synthetic prompts: a trace has its own turns"],
        ),
        (
            &[&played[..], &["count=2,think_time=3s"]].concat(),
            &["belongs to synthetic prompts or a `--dataset`: a trace has its own pauses"],
        ),
        (
            &["--concurrency", "2", "--sessions", "turns=2000"],
            &["must be from 1 to 1000, not 2000", "hint: write a value that is from 1 to 1000\n"],
        ),
        (
            &["--concurrency", "2", "--adapter", "sql=0"],
            &["no weight is above 0", "a weight is 0 or more, and that of one at least above 0\n"],
        ),
        (&["--rate", "-1"], &["hint: write a value that is at least 0.0001 and at most 10000000\n"]),
    ];
    for (options, parts) in cases {
        let refused = fixture.assay(&[&["bench", "--simulator", "fast"], options].concat()).refuses(2, "option");
        for part in parts {
            assert!(refused.stderr.contains(part), "{options:?}: `{part}` in {}", refused.stderr);
        }
    }
}

#[test]
fn a_trace_without_a_replay_and_a_replay_without_a_trace_say_what_is_missing() {
    let fixture = Fixture::new();
    fixture.write("workloads/replayed/trace.jsonl", &mooncake());
    workload(&fixture, "speed: [1]", "", "");
    let path = fixture.repo().join("workloads/replayed/workload.yaml");
    let yaml = std::fs::read_to_string(&path).expect("a workload");
    fixture.write(
        "workloads/replayed/workload.yaml",
        &yaml.replace("mode: replay, speed: [1]", "mode: open, rate: [1], duration: 5s"),
    );
    let open = fixture.assay(&["validate"]).exits(10);
    assert!(said(&open).contains("`spec.trace` needs `spec.load.mode: replay`, or `closed` with `sessions`"), "{}", said(&open));
    let without = yaml.replace("  trace: {path: trace.jsonl, format: mooncake}\n", "  lengths: D(5,5)\n");
    fixture.write("workloads/replayed/workload.yaml", &without);
    let without = fixture.assay(&["validate"]).exits(10);
    assert!(said(&without).contains("`spec.load.mode: replay` needs `spec.trace`"), "{}", said(&without));
}

#[test]
fn synthetic_prompts_begin_as_their_group_does() {
    let fixture = Fixture::new();
    let load = ["bench", "--simulator", "fast", "--concurrency", "1", "--requests", "20", "--trials", "2", "--warmup", "0s"];
    let prefix =
        ["--prefix", "system=160,group=64", "--input-tokens", "50", "--output-tokens", "2", "--run-id", "shared", "--json"];
    fixture.assay(&[&load[..], &prefix].concat()).success();
    // All but the first request of a trial find the 224 tokens of both in the cache, which are 14 whole blocks; a salt keeps trials apart.
    assert!((metric(&fixture, "shared", "concurrency-1", "cached_tokens") - 19.0 * 224.0).abs() < 0.5);
    assert!((metric(&fixture, "shared", "concurrency-1", "cached_share") - 19.0 * 224.0 / (20.0 * 274.0)).abs() < 1e-9);
    assert!((metric(&fixture, "shared", "concurrency-1", "reuse_efficiency") - 1.0).abs() < 1e-9);
    fixture.verify("shared").success();
    let groups =
        ["--prefix", "group=160,groups=4", "--input-tokens", "50", "--output-tokens", "2", "--run-id", "groups", "--seed", "7"];
    fixture.assay(&[&load[..], &groups].concat()).success();
    let found = metric(&fixture, "groups", "concurrency-1", "cached_tokens") / 160.0;
    assert!((metric(&fixture, "groups", "concurrency-1", "reuse_efficiency") - 1.0).abs() < 1e-9);
    assert!((16.0..20.0).contains(&found), "at most four of twenty requests are the first of their group: {found}");
    let other = ["--prefix", "system=many", "--run-id", "no"];
    assert!(
        fixture
            .assay(&[&load[..], &other].concat())
            .exits(2)
            .stderr
            .contains("`--prefix system=many` is not of the form NAME=NUMBER")
    );
    let both =
        fixture.assay(&["bench", "--simulator", "fast", "--concurrency", "1", "--api", "embeddings", "--prefix", "system=9"]);
    assert!(both.exits(2).stderr.contains("requests of `--api embeddings` have no prompt that could begin like others"));
}
