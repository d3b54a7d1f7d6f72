#![allow(
    clippy::float_cmp,
    clippy::cast_possible_wrap,
    clippy::type_complexity,
    clippy::needless_for_each,
    reason = "expected values are exact, and indices small"
)]
use std::collections::BTreeMap;

use assay_manifest::{
    AdapterRequests, Count, DatasetSummary, Digest, Environment, HostFacts, IntervalKind, Shard, TraceTimes, TraceTurns, Validity,
};
use assay_record::{Chunk, Outcome, Phase, Record, TokenSource, UsageFault};
use assay_warehouse::records::RecordWriter;
use assay_warehouse::{ROW_ID, Value};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::fixture::{Run, attempt, collected, digest, plan};

const MS: i64 = 1_000_000;

/// The records of one attempt, and its end.
#[derive(Clone)]
struct AttemptRecords {
    records: Vec<Record>,
    window_ms: (u64, u64),
    counts: bool,
    shards: u32,
    lists: &'static str,
}

fn attempted(records: Vec<Record>) -> AttemptRecords {
    AttemptRecords { records, window_ms: (0, 10_000), counts: true, shards: 1, lists: "all" }
}

/// A measured request that succeeded: the times are intended, sent, first token and last token in milliseconds.
fn request(index: u64, [intended, sent, first, last]: [i64; 4], tokens: u32) -> Record {
    Record {
        global_index: index,
        phase: Phase::Measured,
        intended_ns: Some(intended * MS),
        sent_ns: Some(sent * MS),
        first_token_ns: Some(first * MS),
        last_token_ns: Some(last * MS),
        end_ns: Some((last + 10) * MS),
        outcome: Outcome::Ok,
        input_tokens_requested: Some(8),
        input_tokens: 10,
        output_tokens_requested: Some(5),
        output_tokens: Some(tokens),
        output_source: TokenSource::Usage,
        token_events: 1,
        ..Record::default()
    }
}

fn failed(index: u64, [intended, sent, end]: [i64; 3], outcome: Outcome) -> Record {
    let sent_ns = Some(sent * MS);
    Record {
        global_index: index,
        intended_ns: Some(intended * MS),
        sent_ns,
        end_ns: Some(end * MS),
        outcome,
        ..Record::default()
    }
}

fn chunks(list: &[(i64, Option<u32>)]) -> Vec<Chunk> {
    list.iter().map(|(ms, tokens)| Chunk { at_ns: ms * MS, bytes: 4, tokens: *tokens }).collect()
}

/// Four requests, the last of which timed out. Every figure in its tests is computed by hand.
fn four() -> Vec<Record> {
    let each = |times: [i64; 5]| chunks(&times.map(|ms| (ms, None)));
    vec![
        Record {
            chunks: each([100, 150, 200, 250, 300]),
            token_events: 5,
            first_content_ns: Some(100 * MS),
            cached_tokens: Some(4),
            input_tokens_endpoint: Some(12),
            ..request(0, [0, 0, 100, 300], 5)
        },
        Record {
            chunks: each([1_210, 1_310, 1_410, 1_510, 1_610]),
            token_events: 5,
            first_content_ns: Some(1_310 * MS),
            input_tokens_endpoint: Some(9),
            ..request(1, [1_000, 1_010, 1_210, 1_610], 5)
        },
        Record {
            chunks: chunks(&[(2_300, Some(1)), (2_500, Some(1)), (2_600, Some(0)), (2_900, Some(2))]),
            token_events: 4,
            first_event_tokens: Some(1),
            cached_tokens: Some(2),
            ..request(2, [2_000, 2_000, 2_300, 2_900], 4)
        },
        failed(3, [3_000, 3_000, 4_000], Outcome::Timeout),
    ]
}

fn work(changes: &Json) -> Json {
    let mut work = json!({
        "api": "chat", "model": "m", "arrival": {"law": "poisson"}, "prompts": {"from": "synthetic", "input": {"law": "fixed", "tokens": 10}},
        "output": {"law": "fixed", "tokens": 5}, "exact_output": true, "continuous_usage": false, "batch": 1, "body": {}, "duration_ns": "10000000000", "warmup_ns": "0",
        "timeout_ns": "1", "time_limit_ns": "1", "cache": "cold_salt", "streaming": true, "continuous_usage": true, "capture": "none", "slos": [],
        "tokenizer": {"name": "common-words", "digest": digest("words")},
    });
    for (name, value) in
        changes.as_object().expect("an object").iter().filter(|(name, _)| !["users", "speed"].contains(&name.as_str()))
    {
        work[name] = value.clone();
    }
    work
}

fn file(records: &[Record], number: u32, shard: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = RecordWriter::new(&mut bytes, number, shard).expect("a writer");
    for record in records {
        writer.write(record).expect("a record");
    }
    writer.finish().expect("a file");
    bytes
}

struct ServingRun {
    run: Run,
    files: BTreeMap<Digest, Vec<u8>>,
}

/// A run of one serving point: its workload with changes (`users` makes it a point of this concurrency, and `speed` one of this speed), its metrics, its trials'
/// attempts.
fn serving_run(changes: &Json, metrics: &Json, trials: &[Vec<AttemptRecords>]) -> ServingRun {
    let mut plan = serde_json::to_value(plan(trials.len())).expect("json");
    let workload = &mut plan["workloads"][0];
    workload["workload_type"] = json!("serving");
    workload["seed"] = json!("0".repeat(64));
    workload["serving"] = work(changes);
    workload["metrics"] = metrics.clone();
    plan["pricing"] = json!({"gpu_hour": 3.6, "currency": "EUR", "source": "list", "as_of": "2026-01-01"});
    plan["cases"][0]["points"][0]["kind"] = json!("rate");
    plan["cases"][0]["points"][0]["value"] = json!({"rate": "2.5"});
    if let Some(users) = changes.get("users") {
        plan["cases"][0]["points"][0]["kind"] = json!("concurrency");
        plan["cases"][0]["points"][0]["value"] = json!({"concurrency": users.to_string()});
    }
    if let Some(speed) = changes.get("speed") {
        plan["cases"][0]["points"][0]["kind"] = json!("speed");
        plan["cases"][0]["points"][0]["value"] = json!({"speed": speed.to_string()});
    }
    let plan: assay_manifest::Plan = serde_json::from_value(plan).expect("a plan");
    let mut files = BTreeMap::new();
    let mut found = Vec::new();
    for (planned, attempts) in plan.trials.iter().zip(trials) {
        let mut of_trial = Vec::new();
        for (number, attempted) in (0..).zip(attempts) {
            for index in 0..attempted.shards {
                let shard = Shard { index, count: attempted.shards };
                let records: Vec<Record> = attempted
                    .records
                    .iter()
                    .filter(|record| record.global_index % u64::from(attempted.shards) == u64::from(index))
                    .cloned()
                    .collect();
                let bytes = file(&records, number, index);
                let serving = outcome(attempted, &records, Digest::compute(&bytes));
                files.insert(Digest::compute(&bytes), bytes);
                let mut collected = collected(number, attempted.counts);
                collected.shard = shard;
                let attempt = Attempt { serving: Some(serving), ..attempt(planned, number, attempted.counts) };
                of_trial.push(ShardAttempt { collected, attempt });
            }
        }
        found.push((planned.clone(), of_trial));
    }
    ServingRun { run: Run::with_attempts(plan, found), files }
}

fn outcome(attempted: &AttemptRecords, records: &[Record], digest_of: Digest) -> assay_manifest::ServingOutcome {
    let mut outcomes: BTreeMap<String, Count> = BTreeMap::new();
    for record in records.iter().filter(|record| record.phase == Phase::Measured) {
        outcomes.entry(record.outcome.to_string()).or_default().0 += 1;
    }
    // An attempt that does not count may have been ended by failures in its warm-up.
    let warmup = if attempted.counts { json!({}) } else { json!({"timeout": "1"}) };
    serde_json::from_value(json!({
        "schedule_digest": digest("schedule"), "start": "2026-01-01T00:00:00.000000000Z",
        "measured_from_ns": (attempted.window_ms.0 * 1_000_000).to_string(), "measured_to_ns": (attempted.window_ms.1 * 1_000_000).to_string(),
        "outcomes": outcomes, "warmup_outcomes": warmup, "input_tokens": "0", "output_tokens": "0", "chunk_lists": attempted.lists,
        "client": {"loop_busy_p99_ns": "0", "loop_stall_max_ns": "0", "cpu_user_us": "0", "cpu_system_us": "0", "full_reads": "0",
            "starved": "0", "sent_rate_per_s": 1.0, "connections": "0", "events": "0"},
        "clock": {"source": "same_host"},
        "records": {"name": "records", "digest": digest_of, "size": "1", "media_type": "application/vnd.apache.parquet"},
    }))
    .expect("an outcome")
}

/// An environment whose target has the declared number of GPUs.
fn environment(gpus: Option<&str>) -> Environment {
    environment_with(&gpus.map(|gpus| ("declared/t/gpu_count", gpus)).into_iter().collect::<BTreeMap<_, _>>())
}

/// An environment whose target has these declared facts.
fn environment_with(declared: &BTreeMap<&str, &str>) -> Environment {
    let facts = HostFacts::unknown("nobody looked");
    serde_json::from_value(json!({
        "plan_digest": digest("plan"), "block": {"index": 0, "incarnation": 0}, "observed_at": "2026-01-01T00:00:00.000000000Z",
        "hosts": [{"name": "far", "roles": ["target"], "facts": facts}], "software": [],
        "targets": [{"id": "t", "kind": "endpoint", "hosts": ["far"], "version": {"source": "unknown", "how": "x"}, "models": [], "probes": []}],
        "controls": [], "placement": declared, "readings": [],
    }))
    .expect("an environment")
}

impl ServingRun {
    fn reduce_in(&self, environment: &Environment) -> Result<ReducedServingPoint, Failure> {
        let environments = [environment];
        let context = RowContext { environments: &environments, ..self.run.context() };
        let case = &self.run.plan.cases[0];
        let open = |artifact: &Artifact| {
            let bytes = self.files.get(&artifact.digest).expect("a file").clone();
            RecordFile::open(bytes).map_err(|error| Failure::new(ErrorCode::Records, "bad").because(&error))
        };
        reduce(
            &context,
            &self.run.dimensions(),
            (&self.run.plan.workloads[0], case, &case.points[0]),
            &RecordSource { open: &open, index: None, checked: false },
        )
    }

    fn reduce(&self) -> ReducedServingPoint {
        self.reduce_in(&environment(Some("2"))).expect("reduced")
    }
}

/// One trial of these records.
fn reduced(changes: &Json, records: Vec<Record>) -> ReducedServingPoint {
    serving_run(changes, &json!([]), &[vec![attempted(records)]]).reduce()
}

fn serving(reduced: &ReducedServingPoint) -> &ServingPoint {
    reduced.summary.serving.as_ref().expect("serving")
}

/// Returns a metric's value in the only trial, or the reason why there is none.
fn value(reduced: &ReducedServingPoint, name: &str) -> Result<f64, String> {
    match reduced.summary.metrics.iter().find(|metric| metric.metric == name) {
        Some(metric) => Ok(metric.trials[0].value),
        None => Err(serving(reduced).absent.get(name).unwrap_or_else(|| panic!("`{name}` is neither there nor absent")).clone()),
    }
}

fn assert_values(reduced: &ReducedServingPoint, expected: &[(&str, f64)]) {
    for (name, expected) in expected {
        let found = value(reduced, name).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert!((found - expected).abs() <= expected.abs() * 1e-12 + 1e-12, "{name}: {found}, not {expected}");
    }
}

fn two_slos() -> Json {
    json!({"slos": [{"metric": "ttft", "at_most_ns": "210000000"}, {"metric": "e2e", "at_most_ns": "610000000"}]})
}

#[test]
fn every_metric_of_four_requests_is_as_by_hand() {
    let point = reduced(&two_slos(), four());
    assert_values(
        &point,
        &[
            // 100, 210 and 300 ms.
            ("ttft_ms_mean", 610.0 / 3.0),
            ("ttft_ms_p50", 210.0),
            ("ttft_ms_p90", 282.0),
            ("ttft_ms_p95", 291.0),
            ("ttft_ms_p99", 298.2),
            ("ttft_sent_ms_p50", 200.0),
            ("ttft_sent_ms_p99", 298.0),
            // 50, 100 and 200 ms.
            ("ttst_ms_mean", 350.0 / 3.0),
            ("ttst_ms_p50", 100.0),
            ("ttst_ms_p99", 198.0),
            // 100 and 310 ms; the third brought no content.
            ("ttfo_ms_p50", 205.0),
            ("ttfo_ms_p99", 307.9),
            // 200 / 4, 400 / 4, 600 / (4 - 1).
            ("tpot_ms_mean", 350.0 / 3.0),
            ("tpot_ms_p50", 100.0),
            ("tpot_ms_p90", 180.0),
            ("tpot_ms_p95", 190.0),
            ("tpot_ms_p99", 198.0),
            // 300 / 5, 610 / 5 and 900 / 4.
            ("e2e_per_output_token_ms_p50", 122.0),
            ("e2e_per_output_token_ms_p90", 204.4),
            ("e2e_per_output_token_ms_p99", 222.94),
            // 12 - 4 in 100 ms; the others report one of the two counts.
            ("prefill_tokens_per_s_p50", 80.0),
            // Of 50, 100 and 200 ms a token: 20, 10 and 5 tokens a second.
            ("output_tokens_per_user_per_s_mean", 35.0 / 3.0),
            ("output_tokens_per_user_per_s_p10", 6.0),
            ("output_tokens_per_user_per_s_p50", 10.0),
            // 50 x 4, 100 x 4, 200, 100, 300.
            ("icl_ms_mean", 1_200.0 / 11.0),
            ("icl_ms_p50", 100.0),
            ("icl_ms_p99", 290.0),
            // 50 x 4, 100 x 4, 200, none, 150 x 2.
            ("itl_ms_mean", 100.0),
            ("itl_ms_p50", 100.0),
            ("itl_ms_p99", 195.0),
            // 0, 0, (100 + 200) / 2.
            ("jitter_ms", 50.0),
            // 300, 610, 900.
            ("e2e_ms_mean", 1_810.0 / 3.0),
            ("e2e_ms_p50", 610.0),
            ("e2e_ms_p90", 842.0),
            ("e2e_ms_p95", 871.0),
            ("e2e_ms_p99", 894.2),
            ("e2e_sent_ms_p50", 600.0),
            ("e2e_sent_ms_p99", 894.0),
            // Half-way between the second and the third of four requests.
            ("ttft_ms_p50_with_failures", 255.0),
            ("e2e_ms_p50_with_failures", 755.0),
            // 0, 0, 0, 10.
            ("send_lateness_ms_p50", 0.0),
            ("send_lateness_ms_p99", 9.7),
            // Three in ten seconds, with 14 tokens out and 31 in: 12 and 9 by the endpoint, 10 by the tokenizer.
            ("request_throughput_per_s", 0.3),
            ("output_tokens_per_s", 1.4),
            ("input_tokens_per_s", 3.1),
            ("total_tokens_per_s", 4.5),
            ("goodput_requests_per_s", 0.2),
            ("goodput_tokens_per_s", 1.0),
            ("good_fraction", 0.5),
            ("error_rate", 0.25),
            ("isl_tokens_requested_mean", 8.0),
            ("isl_tokens_mean", 10.0),
            ("isl_tokens_endpoint_mean", 10.5),
            // 21 for 20.
            ("isl_endpoint_difference", 0.05),
            ("osl_tokens_mean", 14.0 / 3.0),
            // 4 instead of 5 is off by 20 %.
            ("osl_mismatch_rate", 1.0 / 3.0),
            // Three gaps in three seconds.
            ("offered_rate_per_s", 1.0),
            ("cached_tokens", 6.0),
            // 4 of 12 by the endpoint and 2 of 10 by the tokenizer.
            ("cached_share", 6.0 / 22.0),
            // Two GPUs at 3.6 an hour: 0.002 a second.
            ("cost_per_request", 0.002 / 0.3),
            // 1.4 for two GPUs.
            ("output_tokens_per_gpu_per_s", 0.7),
            // 3.1 in and 1.4 out.
            ("total_tokens_per_gpu_per_s", 2.25),
            ("ttft_input_1k_ms_p50", 210.0),
            ("cost_per_million_output_tokens", 0.002 / 1.4 * 1e6),
        ],
    );
    for name in ["ttft_ms_p95_with_failures", "e2e_ms_p99_with_failures"] {
        let why = value(&point, name).expect_err("the fourth of four");
        assert!(why.ends_with("% quantile rests on requests that have no value; 3 of 4 requests have one"), "{why}");
    }
    let is_reported = |name: &str| {
        serving(&point).absent.contains_key(name) || point.summary.metrics.iter().any(|metric| metric.metric == name)
    };
    assert!(MetricName::judged().all(|name| is_reported(name.text)), "gates may name what is reported");
    let all: Vec<_> = MetricName::all().map(|known| known.text).collect();
    assert_eq!(point.summary.metrics.len() + serving(&point).absent.len(), all.len(), "each is there or absent");
    assert_eq!(
        serving(&point).absent.len(),
        39,
        "four tails, documents, thirteen of sessions, two of connections, three of a cap, one of cancellation, eight of long inputs, two of repeated prompts, two of \
         the roles of GPUs, and the steady state, which open loop has not"
    );
}

/// A workload whose prompts have 8 of 18 tokens in common.
fn prefixed() -> Json {
    json!({"prompts": {"from": "synthetic", "input": {"law": "fixed", "tokens": 10},
        "prefix": {"system": 8, "groups": 1, "group": 0, "zipf": 0.0}}})
}

/// The four requests, of which each that succeeded reports cached tokens: 0, 8 and 4.
fn with_cached() -> Vec<Record> {
    let cached = |(tokens, record): (u32, Record)| Record { cached_tokens: record.outcome.is_ok().then_some(tokens), ..record };
    [0, 8, 4, 0].into_iter().zip(four()).map(cached).collect()
}

#[test]
fn what_is_repeated_is_counted_in_the_blocks_of_the_server() {
    let run = serving_run(&prefixed(), &json!([]), &[vec![attempted(with_cached())]]);
    let of_blocks = |tokens: Option<u32>| {
        let mut environment = environment(None);
        environment.targets[0].cache_block_tokens = tokens;
        run.reduce_in(&environment).expect("reduced")
    };
    // The second and the third of three prompts repeat 8 of their 18 tokens: 8 in single tokens and in blocks of 4, 5 in blocks of 5.
    for (tokens, repeated) in [(None, 16.0), (Some(4), 16.0), (Some(5), 10.0)] {
        let expected = [("theoretical_cached_share", repeated / 54.0), ("reuse_efficiency", 12.0 / repeated)];
        assert_values(&of_blocks(tokens), &expected);
    }
    assert_values(&of_blocks(Some(16)), &[("theoretical_cached_share", 0.0)]);
    let why = |point: &ReducedServingPoint| value(point, "reuse_efficiency").expect_err("absent");
    assert!(why(&of_blocks(Some(16))).ends_with("no prompt begins like an earlier one"));
    let some = reduced(&prefixed(), four());
    assert!(why(&some).ends_with("only 2 of 3 responses report it"), "{}", why(&some));
    assert!(why(&reduced(&json!({}), four())).ends_with("no two prompts begin alike, by the plan"));
}

/// The four requests with inputs of these lengths.
fn of_lengths(tokens: [u32; 4]) -> Vec<Record> {
    let long = |(tokens, record): (u32, Record)| Record { input_tokens: tokens, ..record };
    tokens.into_iter().zip(four()).map(long).collect()
}

#[test]
fn inputs_are_told_apart_by_their_length() {
    let point = reduced(&json!({}), of_lengths([1_024, 1_025, 70_000, 70_000]));
    // TTFT of 100, 210 and 300 ms; the last request failed.
    let expected = [("ttft_input_1k_ms_p50", 100.0), ("ttft_input_4k_ms_p99", 210.0), ("ttft_input_longer_ms_p50", 300.0)];
    assert_values(&point, &expected);
    let why = value(&point, "ttft_input_64k_ms_p50").expect_err("absent");
    assert!(why.ends_with("none of 3 responses has a token event and an input of this length"), "{why}");
}

/// The workload of sessions of the tests below.
fn sessions() -> Json {
    json!({"sessions": {
        "turns": {"law": "fixed", "tokens": 2}, "think_time": {"law": "uniform", "min_ns": "1", "max_ns": "90000000"},
        "history": "recorded", "reasoning": "drop",
    }})
}

/// Three sessions of two turns, the last of which fails in its first.
fn turns() -> Vec<Record> {
    let turn = |session: u64, turn: u32, start: i64, pauses: i64, record: Record| Record {
        session: Some(session),
        turn: Some(turn),
        session_turns: Some(2),
        session_done: Some(turn + 1),
        session_start_ns: Some(start * MS),
        session_pauses_ns: Some(pauses * MS),
        ..record
    };
    vec![
        turn(0, 0, 0, 0, request(0, [0, 0, 100, 300], 5)),
        turn(1, 0, 100, 0, request(2, [100, 101, 220, 400], 5)),
        Record { session_done: Some(0), ..turn(2, 0, 200, 0, failed(4, [200, 200, 450], Outcome::Timeout)) },
        turn(0, 1, 0, 50, request(1, [360, 365, 460, 660], 5)),
        turn(1, 1, 100, 40, request(3, [450, 450, 520, 700], 5)),
    ]
}

#[test]
fn every_metric_of_sessions_is_as_by_hand() {
    let point = reduced(&sessions(), turns());
    assert_values(
        &point,
        &[
            // 660 - 0 and 700 - 100; the third session never came to its last turn.
            ("session_ms_p50", 630.0),
            // Without pauses of 50 and 40.
            ("session_active_ms_p50", 585.0),
            // 100 and 120; 460 - 360 and 520 - 450.
            ("ttft_first_turn_ms_p50", 110.0),
            ("ttft_later_turns_ms_p50", 85.0),
            ("error_rate", 0.2),
            // Four turns of sessions of two in ten seconds are a fifth of a session per second; two GPUs cost 0.002 a second.
            ("cost_per_session", 0.01),
        ],
    );
    assert_eq!(serving(&point).latency_from, "intended");
    let counts = serving(&point).sessions.expect("sessions");
    assert_eq!((counts.begun, counts.complete, counts.failed, counts.cut()), (Count(3), Count(2), Count(1), 0));
    let cut = reduced(&sessions(), turns().into_iter().take(4).collect());
    assert_eq!(serving(&cut).sessions.map(|counts| (counts.complete, counts.cut())), Some((Count(1), 1)));
    let closed = serving_run(
        &json!({"sessions": sessions()["sessions"], "arrival": {"law": "closed"}, "users": 3}),
        &json!([]),
        &[vec![attempted(turns())]],
    )
    .reduce();
    assert_values(&closed, &[("session_ms_p50", 630.0), ("ttft_later_turns_ms_p50", 85.0)]);
    let steady = serving(&closed).absent.get("request_throughput_steady_per_s").expect("absent");
    assert!(steady.contains("pause between turns"), "{steady}");
    let alone = reduced(&json!({}), four());
    assert!(value(&alone, "session_ms_p50").expect_err("no sessions").contains("not turns of sessions"));
}

/// The same sessions as those of a trace.
fn trace_sessions() -> Json {
    let mut of_trace = sessions();
    of_trace["sessions"]["think_time"] = json!({"law": "recorded"});
    of_trace
}

/// The turns of these sessions, which the trace has 300 ms and 370 ms after their starts.
fn planned_turns() -> Vec<Record> {
    let planned = |turn: Record| {
        let since_start_ms = match (turn.session, turn.turn) {
            (Some(0), Some(1)) => 300,
            (Some(1), Some(1)) => 370,
            _ => 0,
        };
        let planned_ns = turn.session_start_ns.map(|start| start + since_start_ms * MS);
        Record { stream: Some(0), planned_ns, ..turn }
    };
    turns().into_iter().map(planned).collect()
}

#[test]
fn the_lateness_of_the_client_and_the_back_pressure_of_the_endpoint_are_told_apart() {
    let point = reduced(&trace_sessions(), planned_turns());
    assert_values(
        &point,
        &[
            // Planned at 300 and due at 360; planned at 100 + 370 and due at 450.
            ("back_pressure_ms_p50", 20.0),
            ("back_pressure_ms_p99", 59.2),
            // Sent 0, 1, 0, 5 and 0 after they were due.
            ("send_lateness_ms_p50", 0.0),
            ("send_lateness_ms_p99", 4.84),
        ],
    );
    let drawn = reduced(&sessions(), turns());
    let absent = value(&drawn, "back_pressure_ms_p50").expect_err("no trace");
    assert!(absent.contains("no planned times, as those of a trace and of users have"), "{absent}");
}

#[test]
fn the_first_turns_of_users_have_back_pressure_too() {
    let of_users = {
        let mut of_users = sessions();
        of_users["arrival"] = json!({"law": "users"});
        of_users["sessions"]["think_time"] = json!({"law": "fixed", "ns": "0"});
        of_users
    };
    // Each is due 3 ms after its point.
    let planned = |turn: Record| Record { planned_ns: turn.intended_ns.map(|due| due - 3 * MS), ..turn };
    let point = reduced(&of_users, turns().into_iter().map(planned).collect());
    assert_values(&point, &[("back_pressure_ms_p50", 3.0), ("back_pressure_ms_p99", 3.0)]);
    let found = point.summary.metrics.iter().find(|metric| metric.metric == "back_pressure_ms_p50").expect("it is measured");
    // Those that succeeded, first turns included.
    assert_eq!(found.trials[0].n.0, 4);
}

/// The same sessions as those of a trace, in which this many pauses include a response.
fn recorded_sessions(without_end: u64) -> Json {
    let turns = TraceTurns { without_end: Count(without_end), ..TraceTurns::default() };
    let times = TraceTimes { turns: Some(turns), ..TraceTimes::default() };
    let summary = DatasetSummary { times: Some(times), ..DatasetSummary::default() };
    let artifact = json!({"name": "a", "digest": digest("a"), "size": "1", "media_type": "text/plain"});
    let mut of_trace = trace_sessions();
    of_trace["prompts"] = json!({
        "from": "dataset", "format": "timed_jsonl", "rows": artifact, "index": artifact, "summary": summary,
        "file": {"path": "t", "origin": "t", "executable": false, "artifact": artifact},
    });
    of_trace
}

#[test]
fn stretch_needs_the_recorded_end_of_every_response() {
    let point = reduced(&recorded_sessions(0), planned_turns());
    // Live 360 - 0 - 50 and 450 - 100 - 40 ms; in the trace 300 - 0 - 50 and 470 - 100 - 40.
    assert_values(&point, &[("session_stretch_p50", f64::midpoint(310.0 / 250.0, 310.0 / 330.0))]);
    let absent = value(&reduced(&recorded_sessions(1), planned_turns()), "session_stretch_p50").expect_err("no ends");
    assert!(absent.contains("the trace does not record the end of every response"), "{absent}");
}

#[test]
fn requests_that_the_client_cancelled_are_neither_good_nor_failed() {
    let mut records = four();
    records[1].outcome = Outcome::Cancelled;
    let cancel = json!({"cancel": {"share": 0.5, "after_ns": "1"}});
    let point = reduced(&cancel, records);
    // One of four was cancelled, and one of the three others failed: the slower of the two that are left is the median of the three.
    assert_values(
        &point,
        &[("cancelled_share", 0.25), ("error_rate", 1.0 / 3.0), ("ttft_ms_p50", 200.0), ("ttft_ms_p50_with_failures", 300.0)],
    );
    assert_eq!(serving(&point).outcomes.get("cancelled"), Some(&Count(1)));
    assert_eq!(serving(&point).failures.iter().map(|failed| failed.count).collect::<Vec<_>>(), [Count(1)]);
    let mut failed = four();
    (failed[1].outcome, failed[2].outcome) = (Outcome::Cancelled, Outcome::Timeout);
    let point = reduced(&cancel, failed);
    assert_values(&point, &[("cancelled_share", 0.25), ("error_rate", 2.0 / 3.0)]);
    assert_eq!(
        value(&reduced(&json!({}), four()), "cancelled_share"),
        Err("trial `w.t.default.one.t0`: the workload cancels no request".to_owned())
    );
}

/// Returns the requests of each adapter in trials with these times to the first token, in the order of the schedule.
fn adapters_of(trials: &[Vec<i64>], adapters: &Json) -> BTreeMap<String, AdapterRequests> {
    let attempt = |ttft_ms: &Vec<i64>| {
        let requests = (0..).zip(ttft_ms).map(|(place, ttft)| {
            let due = place * 100;
            request(place as u64, [due, due, due + ttft, due + ttft + 40], 5)
        });
        vec![attempted(requests.collect())]
    };
    let trials: Vec<_> = trials.iter().map(attempt).collect();
    serving_run(&json!({"adapters": adapters}), &json!([]), &trials).reduce().summary.serving.expect("it serves").adapters
}

#[test]
fn latencies_of_adapters_are_those_of_their_requests_in_all_trials() {
    let two = json!([{"name": "sql", "weight": 1.0}, {"name": "chat", "weight": 1.0}]);
    let trials: [Vec<i64>; 2] = [(1..=20).collect(), (101..=120).collect()];
    let found = adapters_of(&trials, &two);
    let ms = |name: &str| {
        let ttft = &found[name].latencies["ttft"];
        (ttft.n.0, ttft.p50_ms, ttft.p99_ms)
    };
    let (sql, chat) = (ms("sql"), ms("chat"));
    assert_eq!((sql.0 + chat.0, found["sql"].requests.0 + found["chat"].requests.0), (40, 40));
    assert_ne!(sql, chat, "each has its own requests");
    // One adapter has all requests of both trials: the middle of 1 to 20 and 101 to 120, and 99 % of the way.
    let all = &adapters_of(&trials, &json!([{"name": "sql", "weight": 1.0}]))["sql"];
    let ttft = &all.latencies["ttft"];
    assert_eq!((all.requests.0, ttft.n.0, ttft.p50_ms, ttft.p99_ms), (40, 40, 60.5, 119.61));
    // The rest is the same of both: 40 ms for four more tokens.
    assert_eq!(all.latencies["tpot"].p50_ms, 10.0);
}

/// The four requests, each on a connection of its own, which takes 3, 5, 7 and 9 ms after it is taken up.
fn connecting() -> Vec<Record> {
    let connected = |record: Record| {
        let begun = record.sent_ns.expect("sent");
        let took = 3 + 2 * record.global_index.cast_signed();
        Record { connect_start_ns: Some(begun - took * MS), connect_end_ns: Some(begun), ..record }
    };
    four().into_iter().map(connected).collect()
}

#[test]
fn the_time_to_connect_has_a_metric_of_its_own() {
    let point = reduced(&json!({"connections": "never"}), connecting());
    // 3, 5, 7, 9.
    assert_values(&point, &[("connect_ms_p50", 6.0), ("connect_ms_p99", 8.94)]);
    let pooled = reduced(&json!({}), connecting());
    assert_eq!(value(&pooled, "connect_ms_p50"), Err("trial `w.t.default.one.t0`: connections are reused".to_owned()));
    let closed = json!({"connections": "never", "arrival": {"law": "closed"}, "users": 4});
    let closed = serving_run(&closed, &json!([]), &[vec![attempted(connecting())]]).reduce();
    assert_eq!(serving(&closed).latency_from, "intended");
}

/// The four requests under a cap: the second waited for 5 ms, and the others for nothing.
fn waited() -> Vec<Record> {
    let ready = |record: Record| {
        let waited = if record.global_index == 1 { 5 * MS } else { 0 };
        Record { ready_ns: record.intended_ns.map(|intended| intended + waited), ..record }
    };
    four().into_iter().map(ready).collect()
}

#[test]
fn the_wait_under_a_cap_is_a_part_of_latencies_and_has_metrics_of_its_own() {
    let point = reduced(&json!({"max_concurrency": "1"}), waited());
    let expected = [
        ("queued_share", 0.25),
        // 0, 0, 0, 5.
        ("queue_wait_ms_p50", 0.0),
        ("queue_wait_ms_p99", 4.85),
        // From the intended time, as without a cap.
        ("ttft_ms_p50", 210.0),
        ("send_lateness_ms_p99", 9.7),
    ];
    assert_values(&point, &expected);
    let without = reduced(&json!({}), four());
    for name in ["queued_share", "queue_wait_ms_p50"] {
        assert_eq!(value(&without, name), Err("trial `w.t.default.one.t0`: the workload has no `max_concurrency`".to_owned()));
    }
}

#[test]
fn samples_are_counted_beside_their_statistics() {
    let point = reduced(&two_slos(), four());
    let n = |name: &str| point.summary.metrics.iter().find(|metric| metric.metric == name).expect("there").trials[0].n.0;
    let counts = [
        "ttft_ms_p50",
        "ttfo_ms_p50",
        "icl_ms_p99",
        "itl_ms_p99",
        "jitter_ms",
        "ttst_ms_p50",
        "output_tokens_per_user_per_s_p50",
        "ttft_ms_p50_with_failures",
        "cached_tokens",
        "error_rate",
    ]
    .map(n);
    assert_eq!(counts, [3, 2, 11, 11, 3, 3, 3, 4, 2, 4]);
    let account = serving(&point);
    assert_eq!((account.requests.0, account.duration_ns.0, account.tpot_assumed.0), (4, 10_000_000_000, 2));
    assert_eq!(account.outcomes, BTreeMap::from([("ok".to_owned(), Count(3)), ("timeout".to_owned(), Count(1))]));
    assert_eq!(account.token_sources, BTreeMap::from([("usage".to_owned(), Count(3))]));
    assert_eq!((account.slo_met, account.latency_from.as_str(), account.cost_absent.as_deref()), (Some(false), "intended", None));
}

#[test]
fn responses_whose_counts_are_not_used_are_counted_by_the_reason() {
    let mut records = four();
    for (place, usage_fault) in [(0, UsageFault::OutputExceedsLimit), (1, UsageFault::OutputExceedsLimit), (3, UsageFault::None)]
    {
        records[place].usage_fault = usage_fault;
    }
    records.push(Record { usage_fault: UsageFault::OutputIsZero, ..failed(4, [1_000, 1_000, 1_100], Outcome::Truncated) });
    let account = |records| serving(&reduced(&json!({}), records)).usage_faults.clone();
    assert_eq!(account(records), BTreeMap::from([("output_exceeds_limit".to_owned(), Count(2))]), "of those that succeeded");
    assert_eq!(account(four()), BTreeMap::new());
}

/// A request that failed with this status and error.
fn refused(index: u64, http_status: u16, error: &str) -> Record {
    let times = [1_000, 1_000, 1_100];
    Record { http_status: Some(http_status), error: Some(error.to_owned()), ..failed(index, times, Outcome::HttpError) }
}

#[test]
fn failed_requests_are_counted_by_status_with_the_first_message() {
    let mut records: Vec<Record> = four();
    records.extend((4..7).map(|index| refused(index, 500, &format!("engine {index} died"))));
    records.extend([refused(8, 429, "busy"), refused(7, 429, "slow down")]);
    records.push(Record { phase: Phase::Warmup, ..refused(0, 503, "loading") });
    let expected = json!([
        {"outcome": "http_error", "http_status": 500, "message": "engine 4 died", "count": "3"},
        {"outcome": "http_error", "http_status": 429, "message": "slow down", "count": "2"},
        {"outcome": "timeout", "count": "1"},
    ]);
    let failures =
        |trials: &[Vec<AttemptRecords>]| json!(serving(&serving_run(&json!({}), &json!([]), trials).reduce()).failures);
    assert_eq!(failures(&[vec![attempted(records.clone())]]), expected);
    let second = vec![attempted(vec![refused(0, 500, "of another trial")])];
    let of_two = failures(&[vec![attempted(records)], second]);
    assert_eq!((&of_two[0]["message"], &of_two[0]["count"]), (&json!("engine 4 died"), &json!("4")), "the first trial's");

    let many = (0..9_u16).map(|index| refused(index.into(), 500 + index, "x")).collect();
    let statuses: Vec<_> =
        serving(&reduced(&json!({}), many)).failures.iter().map(|failure| failure.http_status.expect("one")).collect();
    assert_eq!(statuses, [500, 501, 502, 503, 504], "of equally frequent ones the lowest");
    assert_eq!(json!(serving(&reduced(&json!({}), four()[..3].to_vec())).failures), json!([]));
}

#[test]
fn a_request_without_a_second_token_has_no_time_to_it_and_no_rate() {
    // All five tokens came in one event, and then all five at one instant.
    let one = Record { chunks: chunks(&[(100, Some(5))]), first_event_tokens: Some(5), ..request(0, [0, 0, 100, 100], 5) };
    let together = Record {
        chunks: chunks(&[(100, Some(1)), (100, Some(4))]),
        token_events: 2,
        first_event_tokens: Some(1),
        ..request(0, [0, 0, 100, 100], 5)
    };
    let absent = |record: Record, name: &str| value(&reduced(&json!({}), vec![record]), name).expect_err("absent");
    let trial = "trial `w.t.default.one.t0`: none of 1 response has";
    assert_eq!(absent(one.clone(), "ttst_ms_p50"), format!("{trial} a list of two token events"));
    let rate = "output_tokens_per_user_per_s_p50";
    let why = format!("{trial} two token events at different instants and more tokens than the first event has");
    assert_eq!([absent(one, rate), absent(together.clone(), rate)], [why.clone(), why]);
    assert_values(&reduced(&json!({}), vec![together]), &[("ttst_ms_p50", 0.0), ("tpot_ms_p50", 0.0)]);
}

/// Returns the time slices of the only trial: of each, the successful and the failed requests, the output tokens, and the samples,
/// the median and the 99th percentile of the latency.
fn time_slices(reduced: &ReducedServingPoint) -> Vec<(u64, u64, Option<u64>, u64, Option<f64>, Option<f64>)> {
    let [trial] = &reduced.view.time_slices.as_ref().expect("time slices").trials[..] else { panic!("one trial") };
    let counts = |slice: &assay_manifest::TimeSlice| {
        let tokens = slice.output_tokens.map(|tokens| tokens.0);
        (slice.ok.0, slice.failed.0, tokens, slice.samples.0, slice.p50_ms, slice.p99_ms)
    };
    trial.slices.iter().map(counts).collect()
}

#[test]
fn time_slices_hold_what_ended_in_them() {
    // The window is of ten seconds. The requests end at 310, 1,620 and 2,910 ms, and the failed one at 4,000 ms, which still is the
    // fourth slice. The first tokens are at 100, 1,210 and 2,300 ms.
    let point = reduced(&json!({}), four());
    let nothing = (0, 0, Some(0), 0, None, None);
    let expected = [
        (1, 0, Some(5), 1, Some(100.0), Some(100.0)),
        (1, 0, Some(5), 1, Some(210.0), Some(210.0)),
        (1, 0, Some(4), 1, Some(300.0), Some(300.0)),
        (0, 1, Some(0), 0, None, None),
    ];
    assert_eq!(time_slices(&point), [&expected[..], &[nothing; 6]].concat());
    let slices = point.view.time_slices.as_ref().expect("time slices");
    assert_eq!((slices.latency.as_str(), slices.trials[0].from_ns.0, slices.trials[0].to_ns.0), ("ttft", 0, 10_000_000_000));
    assert_eq!(
        reduced(&json!({}), Vec::new()).view.time_slices.map(|slices| slices.trials.len()),
        Some(1),
        "a trial without requests"
    );
}

#[test]
fn time_slices_of_the_warm_up_and_of_whole_responses() {
    // A request of the warm-up that ends in the window counts as throughput does; its latency is none of the measured phase.
    let early = Record { phase: Phase::Warmup, ..request(0, [0, 0, 100, 1_200], 5) };
    let late = request(1, [1_500, 1_500, 1_600, 2_000], 7);
    let run = |changes: &Json, records: Vec<Record>| {
        serving_run(changes, &json!([]), &[vec![AttemptRecords { window_ms: (1_000, 11_000), ..attempted(records) }]]).reduce()
    };
    let point = run(&json!({"warmup_ns": "1000000000"}), vec![early, late]);
    let first = time_slices(&point)[..2].to_vec();
    assert_eq!(first, [(1, 0, Some(5), 1, Some(100.0), Some(100.0)), (1, 0, Some(7), 0, None, None)]);
    let all: u64 = time_slices(&point).iter().map(|slice| slice.0).sum();
    assert_values(&point, &[("request_throughput_per_s", all as f64 / 10.0)]);
    // Without streaming the latency is E2E, in the slice of its end.
    let whole = reduced(&json!({"streaming": false}), vec![request(0, [0, 0, 1_200, 1_200], 5)]);
    assert_eq!(whole.view.time_slices.as_ref().map(|slices| slices.latency.as_str()), Some("e2e"));
    assert_eq!(time_slices(&whole)[1], (1, 0, Some(5), 1, Some(1_200.0), Some(1_200.0)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// However the records are split into shards, and however few samples are held, the time slices are those of all samples.
    #[test]
    fn time_slices_are_the_quantiles_of_their_samples(
        requests in prop::collection::vec((0_i64..9_000, 1_i64..3_000, any::<bool>()), 1..200),
        shards in 1_u32..4,
    ) {
        let record = |(index, (sent, ttft, is_ok)): (usize, &(i64, i64, bool))| {
            if *is_ok {
                request(index as u64, [*sent, *sent, sent + ttft, sent + ttft], 5)
            } else {
                failed(index as u64, [*sent, *sent, sent + ttft], Outcome::Timeout)
            }
        };
        let records: Vec<Record> = requests.iter().enumerate().map(record).collect();
        let attempt = AttemptRecords { shards, ..attempted(records) };
        let point = serving_run(&json!({}), &json!([]), &[vec![attempt]]).reduce();
        for (place, found) in time_slices(&point).into_iter().enumerate() {
            let bounds = place as i64 * 1_000..=(place as i64 + 1) * 1_000;
            let is_in = |at: i64| bounds.contains(&at) && at != *bounds.start();
            let ttft = requests.iter().filter(|(sent, ttft, is_ok)| *is_ok && is_in(sent + ttft)).map(|(_, ttft, _)| *ttft as f64);
            let mut samples: Vec<f64> = ttft.collect();
            samples.sort_by(f64::total_cmp);
            prop_assert_eq!(found.3, samples.len() as u64);
            for (found, q) in [(found.4, 0.5), (found.5, 0.99)] {
                let expected = assay_stats::quantile(&samples, q);
                let is_close = found.zip(expected).is_some_and(|(found, expected)| (found - expected).abs() <= 1e-9 * expected);
                prop_assert!(is_close || (found.is_none() && expected.is_none()), "{found:?} is not {expected:?}");
            }
            let failures = requests.iter().filter(|(sent, ttft, is_ok)| !*is_ok && is_in(sent + ttft)).count();
            prop_assert_eq!(found.1, failures as u64);
        }
    }
}

#[test]
fn under_closed_loop_latencies_count_from_sending() {
    let records = four().into_iter().map(|record| Record { intended_ns: None, ..record }).collect();
    let point = reduced(&json!({"arrival": {"law": "closed"}}), records);
    assert_values(&point, &[("ttft_ms_p50", 200.0), ("e2e_ms_p50", 600.0), ("ttfo_ms_p50", 200.0)]);
    assert_eq!(serving(&point).latency_from, "sent");
    for name in ["ttft_sent_ms_p50", "e2e_sent_ms_p99", "send_lateness_ms_p99"] {
        assert_eq!(
            value(&point, name).expect_err("absent"),
            "trial `w.t.default.one.t0`: under closed loop no request has an intended time"
        );
    }
    assert_eq!(
        value(&point, "offered_rate_per_s").expect_err("absent"),
        "trial `w.t.default.one.t0`: a closed loop offers a concurrency, not a rate"
    );
    assert_eq!(value(&point, "good_fraction").expect_err("absent"), "trial `w.t.default.one.t0`: the workload has no SLOs");
    assert_eq!(serving(&point).slo_met, None);
}

#[test]
fn a_limit_is_good_itself_and_what_is_missing_is_not() {
    let slo = |metric: &str, ns: u64| json!({"slos": [{"metric": metric, "at_most_ns": ns.to_string()}]});
    let good = |slos: &Json, record: Record| value(&reduced(slos, vec![record]), "good_fraction").expect("there") > 0.999;
    let one = || request(0, [0, 10, 110, 310], 5);
    assert!(good(&slo("ttft", 110_000_000), one()) && !good(&slo("ttft", 109_999_999), one()));
    assert!(good(&slo("e2e", 310_000_000), one()) && !good(&slo("e2e", 309_999_999), one()));
    assert!(good(&slo("tpot", 50_000_000), one()) && !good(&slo("tpot", 49_999_999), one()));
    assert!(!good(&slo("ttfo", 1_000_000_000), one()), "it brought no content");
    assert!(good(&slo("ttfo", 150_000_000), Record { first_content_ns: Some(150 * MS), ..one() }));
    assert!(!good(&slo("tpot", 1_000_000_000), request(0, [0, 0, 100, 100], 1)), "one token has no TPOT");
    assert!(!good(&slo("ttft", 1_000_000_000), Record { outcome: Outcome::StreamError, ..one() }), "it failed");
}

#[test]
fn a_point_meets_its_slos_where_99_of_100_requests_do() {
    let slos = json!({"slos": [{"metric": "ttft", "at_most_ns": "100000000"}]});
    let met = |slow: u64, failing: u64| {
        let ttft = |index: u64| if index < slow { 101 } else { 100 };
        let records = (0..200 - failing).map(|index| request(index, [0, 0, ttft(index), 200], 5));
        let failing = (200 - failing..200).map(|index| failed(index, [0, 0, 5], Outcome::Dropped));
        serving(&reduced(&slos, records.chain(failing).collect())).slo_met
    };
    assert_eq!((met(2, 0), met(3, 0), met(0, 2), met(1, 2)), (Some(true), Some(false), Some(true), Some(false)));
    // A third is cancelled as planned, which misses nothing.
    let mut work = slos.clone();
    work["cancel"] = json!({"share": 0.3, "after_ns": "1"});
    let with_cancelled = |slow: u64| {
        let record = |index: u64| {
            let outcome = if index.is_multiple_of(3) { Outcome::Cancelled } else { Outcome::Ok };
            Record { outcome, ..request(index, [0, 0, if index % 3 == 1 && index < 3 * slow { 101 } else { 100 }, 200], 5) }
        };
        serving(&reduced(&work, (0..300).map(record).collect())).slo_met
    };
    assert_eq!((with_cancelled(2), with_cancelled(3)), (Some(true), Some(false)));
}

#[test]
fn tails_of_failures_are_absent_from_the_rank_on_that_fails() {
    let with = |failing: u64| {
        let records = (0..100 - failing).map(|index| request(index, [0, 0, 100 + index.cast_signed(), 300], 5));
        let failing = (100 - failing..100).map(|index| failed(index, [0, 0, 5], Outcome::HttpError));
        let point = reduced(&json!({}), records.chain(failing).collect());
        ["ttft_ms_p50_with_failures", "ttft_ms_p95_with_failures", "ttft_ms_p99_with_failures"]
            .map(|name| value(&point, name).ok().map(|ms| (ms * 1e6).round() / 1e6))
    };
    assert_eq!(with(0), [Some(149.5), Some(194.05), Some(198.01)]);
    assert_eq!(with(1), [Some(149.5), Some(194.05), None], "a hundredth of the way from the last that came back to a failure");
    assert_eq!(with(4), [Some(149.5), Some(194.05), None]);
    assert_eq!(with(5), [Some(149.5), None, None]);
    assert_eq!(with(49), [Some(149.5), None, None]);
    assert_eq!(with(50), [None, None, None]);
}

#[test]
fn what_counts_failures_is_never_below_its_twin() {
    for (ok, failing) in [(1, 0), (4, 0), (9, 1), (100, 0), (199, 1), (57, 3), (1000, 5)] {
        let records = (0..ok).map(|index| request(index, [0, 0, 100 + index.cast_signed() * 7 % 901, 2_000], 5));
        let failed = (ok..ok + failing).map(|index| failed(index, [0, 0, 5], Outcome::HttpError));
        let point = reduced(&json!({}), records.chain(failed).collect());
        for part in ["ttft_ms_p50", "ttft_ms_p95", "ttft_ms_p99", "e2e_ms_p50", "e2e_ms_p95", "e2e_ms_p99"] {
            let twin = value(&point, part).expect("there");
            match value(&point, &format!("{part}_with_failures")) {
                Ok(with) => {
                    assert!(with >= twin && (failing > 0 || with <= twin), "{part} of {ok} and {failing}: {with}, {twin}");
                }
                Err(why) => assert!(failing > 0, "{part}: {why}"),
            }
        }
    }
}

#[test]
fn throughput_is_of_what_completes_in_the_window() {
    let warm = |index, times| Record { phase: Phase::Warmup, ..request(index, times, 7) };
    let records = vec![
        // Completes before, exactly at the end of and beyond the warm-up (`end_ns` is 10 ms after the last token).
        warm(0, [0, 0, 100, 500]),
        warm(1, [0, 0, 100, 990]),
        warm(2, [0, 0, 100, 1_500]),
        // Completes at the last instant of the window, and one later.
        request(0, [1_000, 1_000, 1_100, 2_990], 5),
        request(1, [1_000, 1_000, 1_100, 2_991], 5),
        failed(2, [1_000, 1_000, 1_500], Outcome::Truncated),
    ];
    let trial = AttemptRecords { window_ms: (1_000, 3_000), ..attempted(records) };
    let two_seconds = json!({"warmup_ns": "1000000000", "duration_ns": "2000000000"});
    let point = serving_run(&two_seconds, &json!([]), &[vec![trial]]).reduce();
    assert_values(&point, &[("request_throughput_per_s", 1.0), ("output_tokens_per_s", 6.0), ("total_tokens_per_s", 16.0)]);
    assert_values(&point, &[("error_rate", 1.0 / 3.0), ("ttft_ms_mean", 100.0), ("osl_tokens_mean", 5.0)]);
    assert_eq!(serving(&point).requests.0, 3, "warm-up is in nothing else");
}

/// A request with a response, by the times of its sending and its end in milliseconds.
fn timed(index: u64, phase: Phase, [sent, end]: [i64; 2]) -> Record {
    Record { phase, end_ns: Some(end * MS), ..request(index, [sent, sent, end, end], 5) }
}

/// A trial with a window, computed by hand.
struct WindowCase {
    what: &'static str,
    changes: Json,
    warmup: Vec<[i64; 2]>,
    /// The send times and end of each request.
    measured: Vec<[i64; 2]>,
    shards: &'static [u32],
    window_ms: (u64, u64),
    per_s: f64,
    /// The rate while all users were busy, and the part of the window in which they were.
    steady: Option<(f64, f64)>,
}

fn ends_by_hand() -> Vec<WindowCase> {
    let closed = |users: u64, requests: u64| json!({"arrival": {"law": "closed"}, "users": users, "requests": requests.to_string(), "duration_ns": null});
    let open = |requests: u64, duration_ms: Option<u64>| {
        let duration = duration_ms.map(|ms| (ms * 1_000_000).to_string());
        json!({"arrival": {"law": "constant"}, "requests": requests.to_string(), "duration_ns": duration})
    };
    let every = |gap: i64, count: i64, takes: i64| (0..count).map(|place| [place * gap, place * gap + takes]).collect::<Vec<_>>();
    let waves = |counts: &[usize]| {
        (0..).zip(counts).flat_map(|(wave, count)| vec![[wave * 1_000, wave * 1_000 + 1_000]; *count]).collect::<Vec<_>>()
    };
    let case = |what, changes, measured, shards, window_ms, per_s, steady| WindowCase {
        what,
        changes,
        warmup: vec![],
        measured,
        shards,
        window_ms,
        per_s,
        steady,
    };
    vec![
        case("as many requests as users", closed(10, 10), waves(&[10]), &[1, 3], (0, 1_000), 10.0, Some((10.0, 1.0))),
        case("twice as many", closed(10, 20), waves(&[10, 10]), &[1], (0, 2_000), 10.0, Some((10.0, 1.0))),
        case("twice as many, of three users", closed(3, 6), waves(&[3, 3]), &[1, 3], (0, 2_000), 3.0, Some((3.0, 1.0))),
        case("half of the users have a second", closed(10, 15), waves(&[10, 5]), &[1, 3], (0, 2_000), 7.5, Some((10.0, 0.5))),
        // From the second's first sending at 500 to the first's last end at 2,000: a half, two whole ones and a half in 1.5 s.
        case(
            "a ramp and a drain",
            closed(2, 4),
            vec![[0, 1_000], [500, 1_500], [1_000, 2_000], [1_500, 2_500]],
            &[1, 2],
            (0, 2_500),
            1.6,
            Some((2.0, 0.6)),
        ),
        case("fewer requests than users", closed(10, 5), waves(&[5]), &[1, 3], (0, 1_000), 5.0, None),
        case("a rate, by count", open(10, None), every(100, 10, 500), &[1, 3], (0, 1_400), 10.0 / 1.4, None),
        case("a rate, the count first", open(20, Some(15_000)), every(50, 20, 50), &[1, 3], (0, 1_000), 20.0, None),
        // Requests due from 950 ms on end after the window.
        case("a rate, the clock first", open(1_000, Some(1_000)), every(50, 20, 100), &[1, 3], (0, 1_000), 19.0, None),
        // One response, and four of six parts of the next.
        case(
            "the last response is beyond the duration",
            json!({"arrival": {"law": "closed"}, "users": 1, "requests": "2", "duration_ns": "1000000000"}),
            vec![[0, 600], [600, 1_200]],
            &[1],
            (0, 1_000),
            5.0 / 3.0,
            Some((5.0 / 3.0, 1.0)),
        ),
        // One wave completes in the window, and another a fifth of a second after it.
        WindowCase {
            what: "users that keep step",
            changes: json!({"arrival": {"law": "closed"}, "users": 8, "duration_ns": "10000000000", "warmup_ns": "1000000000"}),
            warmup: vec![[0, 5_600]; 8],
            measured: vec![[5_600, 11_200]; 8],
            shards: &[1, 2],
            window_ms: (1_000, 11_000),
            per_s: 8.0 / 5.6,
            steady: Some((8.0 / 5.6, 1.0)),
        },
        case(
            "users to the end of a duration",
            json!({"arrival": {"law": "closed"}, "users": 2, "duration_ns": "2000000000"}),
            vec![[0, 1_000], [0, 1_000], [1_000, 2_000], [1_000, 2_000], [2_000, 3_000], [2_000, 3_000]],
            &[1, 2],
            (0, 2_000),
            2.0,
            Some((2.0, 1.0)),
        ),
        // In 1.3 s, 2 of 12 and 3 of 13 parts of the warm-up and two responses; in the steady 1.2 s, one of them is nine tenths.
        WindowCase {
            what: "a warm-up that hands over",
            changes: json!({"arrival": {"law": "closed"}, "users": 2, "requests": "2", "duration_ns": null, "warmup_ns": "1000000000"}),
            warmup: vec![[0, 1_200], [0, 1_300]],
            measured: vec![[1_200, 2_200], [1_300, 2_300]],
            shards: &[1, 2],
            window_ms: (1_000, 2_300),
            per_s: (1.0 / 6.0 + 3.0 / 13.0 + 2.0) / 1.3,
            steady: Some(((1.0 / 6.0 + 3.0 / 13.0 + 1.9) / 1.2, 12.0 / 13.0)),
        },
    ]
}

#[test]
fn a_window_ends_where_the_load_ended() {
    for case in ends_by_hand() {
        for shards in case.shards {
            let mut changes = case.changes.clone();
            changes["slos"] = json!([{"metric": "e2e", "at_most_ns": "60000000000"}]);
            let of = |phase, times: &[[i64; 2]]| {
                (0..).zip(times).map(|(index, times)| timed(index, phase, *times)).collect::<Vec<_>>()
            };
            let records = [of(Phase::Warmup, &case.warmup), of(Phase::Measured, &case.measured)].concat();
            let trial = AttemptRecords { window_ms: case.window_ms, shards: *shards, ..attempted(records) };
            let point = serving_run(&changes, &json!([]), &[vec![trial]]).reduce();
            let near = |name: &str, expected: f64| {
                let found = value(&point, name).unwrap_or_else(|why| panic!("{}, {name}: {why}", case.what));
                assert!(
                    (found - expected).abs() <= expected.abs() * 1e-8,
                    "{}, {shards} shards, {name}: {found}, not {expected}",
                    case.what
                );
            };
            // One request has five tokens out and ten in; two GPUs cost 0.002 a second.
            near("request_throughput_per_s", case.per_s);
            near("output_tokens_per_s", case.per_s * 5.0);
            near("total_tokens_per_s", case.per_s * 15.0);
            near("goodput_requests_per_s", case.per_s);
            near("goodput_tokens_per_s", case.per_s * 5.0);
            near("cost_per_request", 0.002 / case.per_s);
            near("cost_per_million_output_tokens", 0.002 / (case.per_s * 5.0) * 1e6);
            assert_eq!(serving(&point).duration_ns.0, (case.window_ms.1 - case.window_ms.0) * 1_000_000, "{}", case.what);
            if let Some((per_s, fraction)) = case.steady {
                near("request_throughput_steady_per_s", per_s);
                near("output_tokens_steady_per_s", per_s * 5.0);
                near("steady_fraction", fraction);
            } else {
                let why = value(&point, "request_throughput_steady_per_s").expect_err("absent");
                let open = "trial `w.t.default.one.t0`: only a closed loop has users who are all busy at once";
                let few = "trial `w.t.default.one.t0`: there was no time in which all of 10 users had a request under way";
                assert_eq!(why, if changes["users"].is_null() { open } else { few }, "{}", case.what);
            }
        }
    }
}

#[test]
fn a_window_that_execute_says_otherwise_is_refused() {
    let closed = json!({"arrival": {"law": "closed"}, "users": 1, "requests": "1", "duration_ns": null});
    let trial = AttemptRecords { window_ms: (0, 100), ..attempted(vec![timed(0, Phase::Measured, [0, 1_000])]) };
    let run = serving_run(&closed, &json!([]), &[vec![trial]]);
    insta::assert_snapshot!(run.reduce_in(&environment(None)).err().expect("refused"), @r"
    error[records]: the records of attempt 1 of trial `w.t.default.one.t0` cannot be reduced
      because: execute states a measured window from 0 to 100000000 ns, but by plan and records it is from 0 to 1000000000 ns
    ");
}

#[test]
fn there_is_no_itl_of_events_that_bring_an_unknown_number_of_tokens() {
    let successful = |tokens| Record {
        chunks: chunks(&[(10, None), (20, None), (30, None), (40, None)]),
        token_events: 4,
        ..request(0, [0, 0, 10, 40], tokens)
    };
    let itl = |tokens| value(&reduced(&json!({}), vec![successful(tokens)]), "itl_ms_mean");
    assert_eq!(itl(4).expect("a token an event"), 10.0);
    assert_eq!(itl(5).expect("the token that ends a response brings no text"), 10.0);
    let why = "the endpoint counts 16 tokens in at most 5 events and does not report how many each holds";
    assert_eq!(itl(16).expect_err("packed"), format!("trial `w.t.default.one.t0`: {why}"));
    assert_eq!(value(&reduced(&json!({}), vec![successful(16)]), "icl_ms_mean").expect("gaps"), 10.0);
    // A response in one event has no gap, so it does not count here, whether alone in a file or beside others.
    let lone = Record { chunks: chunks(&[(10, None)]), ..request(1, [0, 0, 10, 10], 30) };
    let beside = reduced(&json!({}), vec![successful(16), lone]);
    assert_eq!(value(&beside, "itl_ms_mean").expect_err("packed"), format!("trial `w.t.default.one.t0`: {why}"));
}

#[test]
fn what_cannot_be_computed_says_why() {
    let why = |changes: &Json, records: Vec<Record>, name: &str| value(&reduced(changes, records), name).expect_err("absent");
    let prefix = "trial `w.t.default.one.t0`: ";
    let cases = [
        (json!({}), vec![], "error_rate", "no request was due in the measured phase"),
        (json!({}), vec![failed(0, [0, 0, 5], Outcome::Timeout)], "ttft_ms_p50", "none of 1 request succeeded"),
        (json!({}), vec![failed(0, [0, 0, 5], Outcome::Timeout)], "icl_ms_p50", "none of 1 request succeeded"),
        (
            json!({}),
            vec![failed(0, [0, 0, 5], Outcome::Timeout)],
            "cost_per_request",
            "no request completed in the measured phase",
        ),
        (
            json!({}),
            vec![request(0, [0, 0, 1, 1], 1)],
            "tpot_ms_p50",
            "none of 1 response has two token events and more tokens than the first event has",
        ),
        (json!({}), vec![request(0, [0, 0, 1, 1], 1)], "jitter_ms", "none of 1 response has a list of three token events"),
        (
            json!({}),
            vec![request(0, [0, 0, 1, 1], 1)],
            "offered_rate_per_s",
            "fewer than two requests were sent at different times",
        ),
        (json!({}), vec![request(0, [0, 0, 1, 1], 1)], "cached_tokens", "the endpoint does not report it"),
        (
            json!({}),
            vec![Record { output_tokens: None, ..request(0, [0, 0, 1, 1], 1) }],
            "output_tokens_per_s",
            "token counts are missing for 1 of 1 response",
        ),
        (
            json!({"api": "embeddings"}),
            vec![Record { output_tokens: None, ..request(0, [0, 0, 1, 1], 1) }],
            "output_tokens_per_s",
            "embeddings have no output tokens",
        ),
        (
            json!({}),
            vec![Record { token_events: 2, ..request(0, [0, 0, 1, 2], 2) }],
            "itl_ms_mean",
            "the list of token events is missing in 1 of 1 response, although all were kept",
        ),
    ];
    for (changes, records, name, expected) in cases {
        assert_eq!(why(&changes, records, name), format!("{prefix}{expected}"));
    }
    let embedding = Record { output_tokens: None, ..request(0, [0, 0, 1, 1], 1) };
    assert_values(
        &reduced(&json!({"api": "embeddings"}), vec![embedding]),
        &[("total_tokens_per_s", 1.0), ("request_throughput_per_s", 0.1)],
    );
}

#[test]
fn documents_count_by_request_and_only_where_requests_have_them() {
    let whole = || vec![Record { output_tokens: None, ..request(0, [0, 0, 1, 1], 1) }];
    let rate =
        |changes: &Json| reduced(changes, whole()).summary.metrics.into_iter().find(|metric| metric.metric == "documents_per_s");
    let values = [("request_throughput_per_s", 0.1), ("documents_per_s", 0.8)];
    for api in ["embeddings", "rerank", "rerank_tei"] {
        assert_values(&reduced(&json!({"api": api, "batch": 8}), whole()), &values);
    }
    assert!(rate(&json!({"batch": 8})).is_none());
    let absent = |api: &str, name: &str| serving(&reduced(&json!({"api": api}), whole())).absent[name].clone();
    assert!(absent("chat", "documents_per_s").ends_with("its requests have no documents"));
    assert!(absent("rerank", "output_tokens_per_s").ends_with("scores have no output tokens"));
}

#[test]
fn when_every_request_fails_rates_are_zero_and_the_rest_is_absent() {
    let point = reduced(&two_slos(), (0..3).map(|index| failed(index, [0, 0, 100], Outcome::ConnectError)).collect());
    assert_values(
        &point,
        &[("error_rate", 1.0), ("request_throughput_per_s", 0.0), ("goodput_requests_per_s", 0.0), ("good_fraction", 0.0)],
    );
    assert_eq!((serving(&point).slo_met, point.view.curves.len()), (Some(false), 0));
    assert_eq!(point.view.timeline.as_ref().map(|timeline| timeline.shown.len()), Some(3));
    assert_eq!(point.fact.get("ttft_ns_p50"), Some(&Value::Null));
}

#[test]
fn without_a_counted_attempt_there_is_still_a_point() {
    let bad = AttemptRecords { counts: false, ..attempted(four()) };
    let point = serving_run(&json!({}), &json!([]), &[vec![bad.clone(), bad], vec![]]).reduce();
    let summary = &point.summary;
    assert_eq!((summary.trials_planned, summary.trials_counted, summary.attempts, summary.excluded.len()), (2, 0, 2, 2));
    assert_eq!((summary.metrics.len(), point.outcomes.len(), point.view.timeline.is_none()), (0, 0, true));
    assert!(serving(&point).absent.values().all(|why| why == "no trial counts"));
    assert_eq!((point.fact.get("requests"), point.fact.get("error_rate")), (Some(&Value::Int(0)), Some(&Value::Null)));
}

#[test]
fn costs_need_a_price_and_a_number_of_gpus() {
    let run = serving_run(&json!({}), &json!([]), &[vec![attempted(four())]]);
    let why = |gpus| {
        let point = run.reduce_in(&environment(gpus)).expect("reduced");
        assert!(value(&point, "cost_per_request").is_err());
        serving(&point).cost_absent.clone().expect("a reason")
    };
    insta::assert_snapshot!(why(None), @"the GPUs of `far` are unknown (nobody looked); declare `gpu_count` in the target's `hardware`");
    insta::assert_snapshot!(why(Some("0")), @"the price is that of a GPU, and the target has none");
    let mut free = serving_run(&json!({}), &json!([]), &[vec![attempted(four())]]);
    free.run.plan.pricing = None;
    insta::assert_snapshot!(serving(&free.reduce()).cost_absent.clone().expect("a reason"), @"the pipeline states no price");
    let priced = run.reduce();
    let cost = priced.summary.metrics.iter().find(|metric| metric.metric == "cost_per_request").expect("there");
    assert_eq!((cost.unit.as_str(), priced.fact.text("currency")), ("EUR", Some("EUR")));
}

#[test]
fn a_metric_that_one_trial_lacks_is_absent_from_the_point() {
    let without = four().into_iter().map(|record| Record { first_content_ns: None, ..record }).collect();
    let point = serving_run(&json!({}), &json!([]), &[vec![attempted(four())], vec![attempted(without)]]).reduce();
    assert_eq!(
        value(&point, "ttfo_ms_p50").expect_err("absent"),
        "trial `w.t.default.one.t1`: none of 3 responses has a content event"
    );
    let ttft = point.summary.metrics.iter().find(|metric| metric.metric == "ttft_ms_p50").expect("there");
    assert_eq!((ttft.n.0, ttft.median), (2, 210.0));
}

#[test]
fn declared_metrics_come_first_and_decide_what_gates_judge() {
    let metric = |path: &str, primary: bool| json!({"path": path, "unit": "ms", "better": "lower", "primary": primary});
    let metrics = json!([metric("e2e_ms_p50", true), metric("ttft_ms_p99", false), metric("frobs", true)]);
    let point = serving_run(&json!({}), &metrics, &[vec![attempted(four())]]).reduce();
    let first: Vec<_> = point.summary.metrics.iter().take(3).map(|metric| (metric.metric.as_str(), metric.primary)).collect();
    assert_eq!(first, [("e2e_ms_p50", true), ("ttft_ms_p99", false), ("ttft_ms_mean", false)]);
    assert_eq!(point.summary.metrics.iter().filter(|metric| metric.primary).count(), 1);
    assert_eq!(serving(&point).absent["frobs"], "it is not a metric of serving");
    let primary = |changes: &Json| {
        let point = reduced(changes, four());
        point.summary.metrics.iter().filter(|metric| metric.primary).map(|metric| metric.metric.clone()).collect::<Vec<_>>()
    };
    let always = ["ttft_ms_p50", "ttft_ms_p99", "tpot_ms_p50", "e2e_ms_p99", "request_throughput_per_s", "output_tokens_per_s"];
    assert_eq!(primary(&json!({})), always);
    assert_eq!(primary(&two_slos()), [&always[..], &["goodput_requests_per_s"]].concat());
}

#[test]
fn the_summary_names_the_row_of_each_of_its_numbers() {
    let point = serving_run(&json!({}), &json!([]), &[vec![attempted(four())], vec![attempted(four())]]).reduce();
    let value = |id: &Digest| {
        let row = point.outcomes.iter().find(|row| row.text(ROW_ID) == Some(&id.hex())).expect("the row is there");
        row.get("value").cloned()
    };
    for metric in &point.summary.metrics {
        for (statistic, number) in metric.statistics() {
            assert_eq!(value(&metric.rows[statistic]), Some(Value::Float(number)), "{} {statistic}", metric.metric);
        }
        for trial in &metric.trials {
            assert_eq!(value(&trial.row_id), Some(Value::Float(trial.value)), "{}", metric.metric);
        }
    }
}

#[test]
fn the_fact_holds_the_medians_in_nanoseconds() {
    let later = |by: i64| {
        let moved = |mut record: Record| {
            record.first_token_ns = record.first_token_ns.map(|ns| ns + by * MS);
            record.chunks.first_mut().into_iter().for_each(|first| first.at_ns += by * MS);
            record
        };
        vec![attempted(four().into_iter().map(moved).collect())]
    };
    let point = serving_run(&two_slos(), &json!([]), &[later(0), later(10), later(20), later(30), later(40)]).reduce();
    let int = |name: &str| point.fact.get(name).cloned();
    assert_eq!((int("ttft_ns_p50"), int("e2e_ns_p50")), (Some(Value::Int(230 * MS)), Some(Value::Int(610 * MS))));
    assert_eq!((int("ttft_ns_p95_with_failures"), int("queue_delay_ns_mean")), (Some(Value::Null), Some(Value::Null)));
    assert_eq!(
        (int("requests"), int("completed"), int("failed"), int("dropped")),
        (Some(Value::Int(20)), Some(Value::Int(15)), Some(Value::Int(5)), Some(Value::Int(0)))
    );
    assert_eq!(
        (int("slo_ttft_ns"), int("slo_met"), int("request_rate_per_s")),
        (Some(Value::Int(210 * MS)), Some(Value::Bool(false)), Some(Value::Float(2.5)))
    );
    assert_eq!((int("ttft_ns_p50_ci_low"), int("ttft_ns_p50_ci_high")), (Some(Value::Float(210e6)), Some(Value::Float(250e6))));
    assert_eq!(int("request_throughput_per_s_cv_pct"), Some(Value::Float(0.0)));
}

#[test]
fn a_list_that_is_not_of_its_request_is_refused() {
    let cases: [(&str, fn(&mut Record)); 5] = [
        ("falls in time", |record| record.chunks.swap(1, 3)),
        ("begins later", |record| record.chunks[0].at_ns += 1),
        ("ends earlier", |record| record.chunks[4].at_ns -= 1),
        ("is shorter", |record| record.chunks.truncate(4)),
        ("brings more at first", |record| record.first_event_tokens = Some(2)),
    ];
    for (what, lie) in cases {
        let mut records = four();
        lie(&mut records[0]);
        let found = serving_run(&json!({}), &json!([]), &[vec![attempted(records)]]).reduce_in(&environment(None));
        let causes = found.err().map(|failure| failure.causes.concat()).unwrap_or_default();
        let column = if what == "brings more at first" { "chunk_tokens" } else { "chunk_at_ns" };
        assert!(causes.contains(&format!("`{column}` of record 0 is not valid")), "{what}: {causes}");
    }
}

/// The columns of a place in a cluster, which several attempts share only there.
const PLACE: [&str; 3] = ["job_uid", "pod_uid", "node_name"];

#[test]
fn every_column_has_a_writer() {
    let slos = json!({
        "slos": [
            {"metric": "ttft", "at_most_ns": "210000000"}, {"metric": "ttfo", "at_most_ns": "1"}, {"metric": "tpot", "at_most_ns": "1"},
            {"metric": "e2e", "at_most_ns": "1"},
        ],
    });
    let few = [
        vec![attempted(four())],
        vec![attempted(four())],
        vec![attempted(four())],
        vec![attempted(four())],
        vec![attempted(four())],
    ];
    let successful = reduced(&slos, vec![request(0, [0, 0, 100, 300], 5)]);
    let closed = json!({"arrival": {"law": "closed"}, "users": 1, "requests": "2", "duration_ns": null});
    let records = (0..).zip([[0, 1_000], [1_000, 2_000]]).map(|(index, times)| timed(index, Phase::Measured, times)).collect();
    let closed =
        serving_run(&closed, &json!([]), &[vec![AttemptRecords { window_ms: (0, 2_000), ..attempted(records) }]]).reduce();
    let reranked =
        reduced(&json!({"api": "rerank", "batch": 8}), vec![Record { output_tokens: None, ..request(0, [0, 0, 1, 1], 1) }]);
    let replayed = reduced(&json!({"arrival": {"law": "recorded"}, "speed": 2.5}), four());
    let capped = reduced(&json!({"max_concurrency": "1"}), waited());
    let of_sessions = reduced(&sessions(), turns());
    let closed_sessions = serving_run(
        &json!({"sessions": sessions()["sessions"], "arrival": {"law": "closed"}, "users": 3}),
        &json!([]),
        &[vec![attempted(turns())]],
    )
    .reduce();
    let roles = BTreeMap::from([("declared/t/prefill_gpu_count", "1"), ("declared/t/decode_gpu_count", "2")]);
    let of_roles =
        serving_run(&json!({}), &json!([]), &[vec![attempted(four())]]).reduce_in(&environment_with(&roles)).expect("reduced");
    // By hand as in `every_metric_of_four_requests_is_as_by_hand`: 3.1 tokens/s in for one GPU, 1.4 out for two.
    assert_eq!(value(&of_roles, "input_tokens_per_prefill_gpu_per_s"), Ok(3.1));
    assert_eq!(value(&of_roles, "output_tokens_per_decode_gpu_per_s"), Ok(0.7));
    let rows = [
        serving_run(&slos, &json!([]), &few).reduce().fact,
        successful.fact,
        closed.fact,
        reranked.fact,
        replayed.fact,
        capped.fact,
        reduced(&json!({"connections": "never"}), connecting()).fact,
        of_sessions.fact,
        closed_sessions.fact,
        reduced(&trace_sessions(), planned_turns()).fact,
        reduced(&recorded_sessions(0), planned_turns()).fact,
        reduced(&prefixed(), with_cached()).fact,
        reduced(&json!({}), of_lengths([1_025, 4_097, 16_385, 1])).fact,
        reduced(&json!({}), of_lengths([65_537, 1, 1, 1])).fact,
        reduced(&json!({"cancel": {"share": 0.5, "after_ns": "1"}}), four()).fact,
        of_roles.fact,
    ];
    let from_telemetry_and_commands = ["tensor_parallel", "queue_delay_ns_mean", "cost_absent_reason"];
    let but: Vec<_> = PLACE.iter().chain(&from_telemetry_and_commands).copied().collect();
    crate::fixture::assert_filled(&assay_warehouse::SERVING_OUTCOME_FACT, &rows, &but);
}

#[test]
fn curves_are_pooled_over_trials() {
    let trial = |from: u64| {
        vec![attempted((from..from + 51).map(|index| request(index - from, [0, 0, 1 + index.cast_signed(), 500], 5)).collect())]
    };
    let point = serving_run(&json!({}), &json!([]), &[trial(0), trial(50)]).reduce();
    let curve = &point.view.curves[0];
    // 1 to 51 ms and 51 to 101 ms: 102 samples, 51 twice.
    assert_eq!((curve.metric.as_str(), curve.n.0, curve.failed.0), ("ttft", 102, 0));
    let at = |p: f64| curve.quantiles.iter().find(|[q, _]| *q == p).expect("there")[1];
    assert_eq!((at(0.0), at(0.5), at(1.0)), (1.0, 51.0, 101.0));
    assert!((at(0.25) - 26.25).abs() < 1e-9, "{}", at(0.25));
    assert_eq!(curve.quantiles.len(), 101, "100 samples have no thousandth");
    let single = serving_run(&json!({}), &json!([]), &[trial(0)]).reduce();
    assert_eq!(single.view.curves[0].quantiles.iter().find(|[q, _]| *q == 0.5).expect("there")[1], 26.0);
}

#[test]
fn a_timeline_keeps_failures_up_to_half_of_its_room() {
    let shown = |ok: u64, failing: u64| {
        let records = (0..ok).map(|index| request(index, [index.cast_signed(), index.cast_signed(), 5_000, 6_000], 5));
        let broken = (ok..ok + failing).map(|index| failed(index, [0, 0, 5], Outcome::Timeout));
        let point = reduced(&json!({}), records.chain(broken).collect());
        let timeline = point.view.timeline.expect("a timeline");
        let failed = timeline.shown.iter().filter(|request| request.outcome == "timeout").count();
        assert!(timeline.shown.is_sorted_by(|a, b| a.start_ms <= b.start_ms));
        assert_eq!(timeline.requests.0, ok + failing);
        (timeline.shown.len() - failed, failed, timeline.thinning)
    };
    assert_eq!(shown(390, 10), (390, 10, "all".to_owned()));
    let (others, failed, rule) = shown(2_000, 10);
    assert_eq!((others, failed), (390, 10));
    insta::assert_snapshot!(rule, @"10 of 10 failed requests and 390 of 2000 others, those whose index mixed by SplitMix64 is smallest");
    assert_eq!((shown(2_000, 300).0, shown(2_000, 300).1), (200, 200));
    assert_eq!((shown(50, 900).0, shown(50, 900).1), (50, 350));
}

#[test]
fn records_that_are_not_the_attempt_s_are_refused() {
    let mut swapped = serving_run(&json!({}), &json!([]), &[vec![attempted(four())]]);
    let of_another = file(&four(), 1, 0);
    swapped.files.values_mut().for_each(|bytes| bytes.clone_from(&of_another));
    insta::assert_snapshot!(swapped.reduce_in(&environment(None)).err().expect("refused"), @r"
    error[records]: the records of attempt 1 of trial `w.t.default.one.t0` cannot be reduced
      because: row 0 of shard 0 is of attempt 2 and shard 0
    ");
    let fewer = file(&four()[..3], 0, 0);
    swapped.files.values_mut().for_each(|bytes| bytes.clone_from(&fewer));
    insta::assert_snapshot!(swapped.reduce_in(&environment(None)).err().expect("refused"), @r#"
    error[records]: the records of attempt 1 of trial `w.t.default.one.t0` cannot be reduced
      because: execute states the outcomes {"ok": 3, "timeout": 1} of the measured phase, but the records have {"ok": 3}
    "#);
}

#[test]
fn an_attempt_counts_with_all_of_its_shards() {
    let run = |shards| {
        let bad = AttemptRecords { counts: false, shards, ..attempted(four()) };
        serving_run(&json!({}), &json!([]), &[vec![bad, AttemptRecords { shards, ..attempted(four()) }]]).reduce()
    };
    let (one, three) = (run(1), run(3));
    assert_eq!((three.summary.attempts, three.summary.excluded.len(), three.summary.trials_counted), (2, 1, 1));
    assert_eq!(one.summary.metrics, three.summary.metrics);
    assert_eq!(three.summary.metrics[0].trials[0].attempt, 1);
}

/// Records of a trial as an endpoint might leave them, each from a seed.
fn any_records() -> impl Strategy<Value = Vec<Record>> {
    let chunk = (1_i64..50_000_000, prop::option::of(0_u32..4));
    let record = (
        prop::sample::select(Outcome::ALL),
        0_i64..5_000_000_000,
        0_i64..9_000_000,
        prop::collection::vec(chunk, 0..6),
        any::<bool>(),
    );
    prop::collection::vec(record, 0..60).prop_map(|records| {
        let record =
            |(index, (outcome, intended, late, gaps, warm)): (u64, (&Outcome, i64, i64, Vec<(i64, Option<u32>)>, bool))| {
                let sent = intended + late;
                let mut at = sent;
                let chunks: Vec<Chunk> = gaps
                    .into_iter()
                    .map(|(gap, tokens)| {
                        at += gap;
                        Chunk { at_ns: at, bytes: 1, tokens }
                    })
                    .collect();
                Record {
                    global_index: index,
                    phase: if warm && index < 9 { Phase::Warmup } else { Phase::Measured },
                    outcome: *outcome,
                    intended_ns: Some(intended),
                    sent_ns: (*outcome != Outcome::Dropped).then_some(sent),
                    first_token_ns: chunks.first().map(|chunk| chunk.at_ns),
                    last_token_ns: chunks.last().map(|chunk| chunk.at_ns),
                    end_ns: Some(at),
                    output_tokens: Some(chunks.len() as u32 * 2),
                    first_event_tokens: chunks.first().and_then(|chunk| chunk.tokens),
                    token_events: chunks.len() as u32,
                    chunks,
                    ..Record::default()
                }
            };
        (0..).zip(records.iter().map(|(o, i, l, g, w)| (o, *i, *l, g.clone(), *w))).map(record).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn shards_threads_and_room_change_nothing(trials in prop::collection::vec(any_records(), 1..3), shards in 2_u32..5, room in 0_usize..300) {
        let run = |shards| serving_run(&two_slos(), &json!([]), &trials.iter().map(|records| vec![AttemptRecords { shards, ..attempted(records.clone()) }]).collect::<Vec<_>>());
        let (one, many) = (run(1), run(shards));
        let (a, b, again) = (one.reduce(), many.reduce(), one.reduce());
        prop_assert_eq!(&a.summary, &b.summary);
        prop_assert_eq!(&a.view, &b.view);
        prop_assert_eq!((&a.summary, &a.fact, &a.view, &a.outcomes), (&again.summary, &again.fact, &again.view, &again.outcomes));

        let case = &one.run.plan.cases[0];
        let tries = planned_attempts(&one.run.context(), case, &case.points[0]);
        let planned = planned_measurement(one.run.plan.workloads[0].serving.as_ref().expect("work"), &case.points[0], None);
        let open = |artifact: &Artifact| Ok(RecordFile::open(one.files[&artifact.digest].clone()).expect("opened"));
        let files: Vec<_> = tries.iter().map(|tries| trial_files(&tries[0], planned, &open).expect("files")).collect();
        let work = one.run.plan.workloads[0].serving.as_ref().expect("work");
        let measured = |limits| {
            let measured = measure(&files, work, limits).expect("measured");
            let (price, gpus, repeated) = (Err("x".to_owned()), Err("x".to_owned()), Err("x".to_owned()));
            let facts = CaseFacts { price: &price, gpus: &gpus, repeated: &repeated };
            (trial_values(&measured, work, &facts), measured.curves, measured.timeline)
        };
        prop_assert_eq!(measured(Limits { threads: 1, room }), measured(Limits { threads: 3, room: 1_000_000 }));
    }
}

#[test]
fn an_attempt_s_validity_is_told_once() {
    let bad = AttemptRecords { counts: false, shards: 2, ..attempted(four()) };
    let point = serving_run(&json!({}), &json!([]), &[vec![bad]]).reduce();
    let reasons = &point.summary.excluded[0].reasons;
    let requests: u64 = serving(&point).excluded_outcomes.values().map(|count| count.0).sum();
    assert_eq!(
        (serving(&point).requests, requests),
        (Count(0), 4 + 2),
        "its requests are listed, over both shards and with their warm-ups, and in no number"
    );
    assert_eq!(reasons, &Validity::from_reasons(vec![Reason::new("cpu_throttled", "60 %")]).reasons);
}

/// The window of a trial that is measured for 900 s, by the clock.
const LONG_MS: u64 = 900_000;

/// The workload of sessions above, measured for 900 s, with SLOs.
fn long_sessions() -> Json {
    let mut long = sessions();
    long["duration_ns"] = json!("900000000000");
    long["slos"] = json!([{"metric": "ttft", "at_most_ns": "500000000"}]);
    long
}

/// Sessions of one to four turns, each of whose TTFT is 100 ms times a number of the session, and more by its turn. Every eighth session fails
/// in its last turn.
fn many_sessions(count: u64) -> Vec<Record> {
    let mut records = Vec::new();
    for session in 0..count {
        let turns = 1 + session % 4;
        for turn in 0..turns {
            let (index, start) = (records.len() as u64, (session * 1_000 + turn * 200) as i64);
            let first = start + 100 * (1 + (session * 7 % 10) as i64) + 3 * turn as i64;
            let is_failed = session % 8 == 3 && turn + 1 == turns;
            let at = [first, first + 20, first + 50, first + 90 + session as i64];
            let record = if is_failed {
                failed(index, [start, start + 1, start + 90], Outcome::Timeout)
            } else {
                Record {
                    chunks: chunks(&at.map(|ms| (ms, Some(1)))),
                    token_events: 4,
                    first_event_tokens: Some(1),
                    first_content_ns: Some(first * MS),
                    input_tokens_endpoint: Some(9 + u32::try_from(session % 5).expect("small")),
                    cached_tokens: Some(u32::try_from(turn).expect("small")),
                    ..request(index, [start, start + 1, first, at[3]], 4 + u32::try_from(session % 3).expect("small"))
                }
            };
            records.push(Record {
                session: Some(session),
                turn: Some(u32::try_from(turn).expect("few")),
                session_turns: Some(u32::try_from(turns).expect("few")),
                session_done: (!is_failed).then(|| u32::try_from(turn + 1).expect("few")),
                session_start_ns: Some(session as i64 * 1_000 * MS),
                session_pauses_ns: Some(0),
                ..record
            });
        }
    }
    records
}

/// Reduces trials of these records over a window in milliseconds.
fn measured_for(changes: &Json, window_ms: u64, trials: &[Vec<Record>]) -> ReducedServingPoint {
    let trial = |records: &Vec<Record>| vec![AttemptRecords { window_ms: (0, window_ms), ..attempted(records.clone()) }];
    serving_run(changes, &json!([]), &trials.iter().map(trial).collect::<Vec<_>>()).reduce()
}

fn metric<'a>(reduced: &'a ReducedServingPoint, name: &str) -> &'a MetricSummary {
    reduced.summary.metrics.iter().find(|metric| metric.metric == name).unwrap_or_else(|| panic!("no `{name}`"))
}

fn interval_absent<'a>(reduced: &'a ReducedServingPoint, name: &str) -> &'a str {
    metric(reduced, name).interval_absent.as_deref().unwrap_or_else(|| panic!("`{name}` has an interval"))
}

/// The interval of a mean by its definition, over the samples of each session: the way in which a reader would compute it.
fn ratio_by_definition(parts: &BTreeMap<u64, [f64; 2]>) -> [f64; 2] {
    let (m, sum) = (parts.len() as f64, |place: usize| parts.values().map(|part| part[place]).sum::<f64>());
    let ratio = sum(0) / sum(1);
    let squares: f64 = parts.values().map(|[part, of]| (part - ratio * of) * (part - ratio * of)).sum();
    let half = assay_stats::student::quantile(0.975, m - 1.0) * (m / (m - 1.0) * squares).sqrt() / sum(1);
    [ratio - half, ratio + half]
}

/// Adds up the parts of each session.
fn by_session(records: &[Record], part: impl Fn(&Record) -> Option<[f64; 2]>) -> BTreeMap<u64, [f64; 2]> {
    let mut parts: BTreeMap<u64, [f64; 2]> = BTreeMap::new();
    for (record, part) in records.iter().filter_map(|record| Some((record, part(record)?))) {
        let sums = parts.entry(record.session.expect("a session")).or_default();
        sums.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
    }
    parts
}

fn assert_interval(reduced: &ReducedServingPoint, name: &str, expected: [f64; 2]) {
    let found = metric(reduced, name);
    let interval = found.interval.as_ref().unwrap_or_else(|| panic!("{name}: {:?}", found.interval_absent));
    for (found, expected) in [interval.low, interval.high].into_iter().zip(expected) {
        assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1e-9), "{name}: {interval:?}, not {expected}");
    }
    assert!(interval.low <= found.median && found.median <= interval.high, "{name}: {interval:?} around {}", found.median);
    assert_eq!(interval.kind, IntervalKind::WithinRun);
}

#[test]
fn one_long_trial_of_sessions_has_intervals_within_its_run() {
    let records = many_sessions(80);
    let point = measured_for(&long_sessions(), LONG_MS, std::slice::from_ref(&records));
    let ok = |record: &Record| record.outcome.is_ok();
    let ttft_ms = |record: &Record| record.ttft_ns().filter(|_| ok(record)).map(|ns| ns as f64 / 1e6);
    let mean = ratio_by_definition(&by_session(&records, |record| Some([ttft_ms(record)?, 1.0])));
    assert_interval(&point, "ttft_ms_mean", mean);
    let tpot = |record: &Record| record.tpot_ns().filter(|_| ok(record)).map(|(ns, _)| [ns / 1e6, 1.0]);
    assert_interval(&point, "tpot_ms_mean", ratio_by_definition(&by_session(&records, tpot)));
    let icl = |record: &Record| ok(record).then(|| [(record.chunks[3].at_ns - record.chunks[0].at_ns) as f64 / 1e6, 3.0]);
    assert_interval(&point, "icl_ms_mean", ratio_by_definition(&by_session(&records, icl)));
    let errors = |record: &Record| Some([f64::from(u8::from(!ok(record))), 1.0]);
    assert_interval(&point, "error_rate", ratio_by_definition(&by_session(&records, errors)));
    let good = |record: &Record| Some([f64::from(u8::from(ttft_ms(record).is_some_and(|ms| ms <= 500.0))), 1.0]);
    assert_interval(&point, "good_fraction", ratio_by_definition(&by_session(&records, good)));
    let lengths = |record: &Record| ok(record).then(|| [f64::from(record.output_tokens.expect("a count")), 1.0]);
    assert_interval(&point, "osl_tokens_mean", ratio_by_definition(&by_session(&records, lengths)));
    let difference = |record: &Record| record.input_tokens_endpoint.map(|theirs| [f64::from(theirs) - 10.0, 10.0]);
    assert_interval(&point, "isl_endpoint_difference", ratio_by_definition(&by_session(&records, difference)));

    // Woodruff's interval of the median, by its definition.
    let mut sorted: Vec<f64> = records.iter().filter_map(ttft_ms).collect();
    sorted.sort_by(f64::total_cmp);
    let at = |rank: f64| assay_stats::quantile(&sorted, rank).expect("a quantile");
    let median = at(0.5);
    let below = by_session(&records, |record| Some([f64::from(u8::from(ttft_ms(record)? <= median)), 1.0]));
    let [low, high] = ratio_by_definition(&below);
    let half = (high - low) / 2.0;
    assert_interval(&point, "ttft_ms_p50", [at(0.5 - half), at(0.5 + half)]);
    let of_point = metric(&point, "ttft_ms_p50").interval.as_ref().expect("an interval");
    assert_eq!((of_point.method.as_str(), of_point.level, of_point.sessions), ("cluster_quantile", 0.95, Some(Count(80))));
    // A twin has failed requests as the slowest of their sessions.
    let twin = metric(&point, "ttft_ms_p50_with_failures").interval.as_ref().expect("an interval");
    assert!(twin.high >= of_point.high, "{twin:?} {of_point:?}");

    // What has none says why.
    let snapshot: Vec<&str> = ["ttft_ms_p99", "request_throughput_per_s", "cached_tokens", "cost_per_session", "isl_tokens_mean"]
        .iter()
        .map(|name| interval_absent(&point, name))
        .collect();
    insta::assert_snapshot!(snapshot.join("\n"), @r"
    within its run, with sessions as clusters: 80 clusters are too few for an interval; 500 are needed
    it is a total over the window, and sessions are no sample of it
    it is a total over the window, and sessions are no sample of it
    it is a total over the window, and sessions are no sample of it
    within its run, with sessions as clusters: its clusters do not differ, so their spread bounds nothing
    ");
    for metric in &point.summary.metrics {
        assert!(metric.interval.is_some() != metric.interval_absent.is_some(), "{}", metric.metric);
    }
    // The rows say the kind, too.
    let kind = |row: &Row| row.text("interval_kind").map(str::to_owned);
    assert_eq!(kind(&point.fact).as_deref(), Some("within_run"));
    let kinds = |statistic: &str| -> std::collections::BTreeSet<Option<String>> {
        point.outcomes.iter().filter(|row| row.text("statistic") == Some(statistic)).map(kind).collect()
    };
    assert_eq!(kinds("ci_low"), [Some("within_run".to_owned())].into());
    assert_eq!(kinds("median"), [None].into());
}

#[test]
fn the_digits_of_an_interval_do_not_depend_on_shards_threads_or_room() {
    let records = many_sessions(80);
    let whole = measured_for(&long_sessions(), LONG_MS, std::slice::from_ref(&records)).summary.metrics;
    let sharded = AttemptRecords { window_ms: (0, LONG_MS), shards: 3, ..attempted(records.clone()) };
    let sharded = serving_run(&long_sessions(), &json!([]), &[vec![sharded]]).reduce().summary.metrics;
    let intervals = |metrics: &[MetricSummary]| -> Vec<_> { metrics.iter().map(|metric| metric.interval.clone()).collect() };
    assert_eq!(intervals(&whole), intervals(&sharded));
    let work: ServingWork = serde_json::from_value(work(&long_sessions())).expect("work");
    let bytes = file(&records, 0, 0);
    let files = [TrialFiles {
        trial_id: "w.t.default.one.t0".parse().expect("an id"),
        attempt: 0,
        shards: vec![(0, RecordFile::open(bytes).expect("a file"))],
        planned: PlannedMeasurement {
            phase: MeasuredPhase { from_ns: 0, duration_ns: Some(900_000_000_000) },
            requests: None,
            users: None,
            has_sessions: true,
        },
        stated_window: None,
        stated_outcomes: None,
        all_lists: true,
        warmed_turns: None,
        idle_cut_ns: None,
    }];
    let found = |limits: Limits| {
        let trials = first_pass(&files, &work, limits).expect("read");
        let wanted = whole.iter().map(|metric| metric.metric.as_str()).collect();
        within_run::intervals(&trials[0], &wanted, &rules(&work), limits).expect("read")
    };
    let roomy = found(Limits { threads: 4, room: 1_000_000 });
    assert_eq!(roomy, found(Limits { threads: 1, room: 5 }));
    for metric in &whole {
        let interval = roomy.get(metric.metric.as_str()).and_then(|found| found.as_ref().ok());
        assert_eq!(interval, metric.interval.as_ref(), "{}", metric.metric);
    }
}

#[test]
fn a_ratio_over_sessions_is_the_value_of_its_metric() {
    let point = measured_for(&long_sessions(), LONG_MS, &[many_sessions(80)]);
    let ratios =
        Metric::ALL.iter().filter(|metric| matches!(metric.definition().formula, Formula::Trial(_)) && metric.ratio().is_ok());
    let names: Vec<&str> = ratios.flat_map(|metric| metric.definition().names).map(|name| name.text).collect();
    let mut with_interval = 0;
    for name in names {
        let Some(found) = point.summary.metrics.iter().find(|metric| metric.metric == name) else { continue };
        let Some(interval) = &found.interval else { continue };
        let is_cut = interval.low == 0.0 || interval.high == 1.0;
        let middle = f64::midpoint(interval.low, interval.high);
        assert!(is_cut || (middle - found.median).abs() <= 1e-9 * found.median.abs(), "{name}: {interval:?}, {}", found.median);
        with_interval += 1;
    }
    assert!(with_interval >= 6, "{with_interval}");
}

#[test]
fn an_interval_within_a_run_needs_one_planned_long_trial_of_enough_sessions() {
    let records = many_sessions(80);
    let has_interval = |reduced: &ReducedServingPoint| metric(reduced, "ttft_ms_mean").interval.is_some();
    assert!(has_interval(&measured_for(&long_sessions(), LONG_MS, std::slice::from_ref(&records))));
    let few = measured_for(&long_sessions(), LONG_MS, &[many_sessions(49)]);
    let why = "within its run, with sessions as clusters: 49 clusters are too few for an interval; 50 are needed";
    assert_eq!(interval_absent(&few, "ttft_ms_mean"), why);
    let mut short = long_sessions();
    short["duration_ns"] = json!("899999000000");
    let short = measured_for(&short, LONG_MS - 1, std::slice::from_ref(&records));
    let why = "; one trial of sessions has an interval within its run if it is measured for 900 s, and it was for 899.999 s";
    assert!(interval_absent(&short, "ttft_ms_mean").ends_with(why), "{}", interval_absent(&short, "ttft_ms_mean"));
    // Two trials are repeated, so that their spread is the one between trials.
    let two = measured_for(&long_sessions(), LONG_MS, &[records.clone(), records.clone()]);
    let is_between_trials = |reduced: &ReducedServingPoint| {
        let why = interval_absent(reduced, "ttft_ms_mean");
        assert!(why.contains("the median with") && why.ends_with("5 are needed"), "{why}");
    };
    is_between_trials(&two);
    let mut alone = long_sessions();
    alone.as_object_mut().expect("an object").remove("sessions");
    let alone = measured_for(&alone, LONG_MS, &[records]);
    is_between_trials(&alone);
    let five = measured_for(&long_sessions(), LONG_MS, &vec![many_sessions(80); 5]);
    let between = metric(&five, "ttft_ms_mean").interval.as_ref().expect("an interval");
    assert_eq!((between.kind, between.sessions), (IntervalKind::BetweenTrials, None));
    assert_eq!(five.fact.text("interval_kind"), Some("between_trials"));
}
