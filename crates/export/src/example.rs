//! Small runs for tests, whose numbers can be computed by hand.

use std::collections::BTreeMap;

use assay_manifest::{Digest, Fact, HostFacts, ResourceUsage};
use assay_record::{Chunk, Outcome, Record, TokenSource};
use serde_json::json;

use crate::run::{
    ExportedArrival, ExportedExecution, ExportedInput, ExportedLoad, ExportedRun, ExportedScript, ExportedServing, ExportedTable,
    ExportedTrial, ExportedValue, InputKind,
};

/// 2026-11-29T09:00:00Z.
const START_NS: i64 = 1_795_942_800_000_000_000;

/// A successful request that is sent at `sent_ms`, with its first token `ttft_ms` later and four more at gaps of `gap_ms`.
pub(crate) fn request(index: u64, sent_ms: i64, ttft_ms: i64, gap_ms: i64) -> Record {
    let sent = sent_ms * 1_000_000;
    let first = sent + ttft_ms * 1_000_000;
    let at = |place: i64| first + place * gap_ms * 1_000_000;
    Record {
        global_index: index,
        request_id: 0x0123_4567_89ab_cdef_0123_4567_89ab_cd00 + u128::from(index),
        sent_ns: Some(sent),
        first_byte_ns: Some(first - 1_000),
        first_token_ns: Some(first),
        first_content_ns: Some(first),
        last_token_ns: Some(at(4)),
        end_ns: Some(at(4) + 500_000),
        outcome: Outcome::Ok,
        http_status: Some(200),
        input_tokens: 50,
        input_tokens_endpoint: Some(52),
        cached_tokens: Some(16),
        output_tokens: Some(5),
        output_source: TokenSource::Usage,
        reasoning_tokens: Some(0),
        token_events: 5,
        chunks: (0..5).map(|place| Chunk { at_ns: at(place), bytes: 4, tokens: None }).collect(),
        ..Record::default()
    }
}

fn failed(index: u64, sent_ms: i64, outcome: Outcome, status: Option<u16>) -> Record {
    let sent = sent_ms * 1_000_000;
    let end_ns = Some(sent + 2_000_000);
    Record {
        sent_ns: Some(sent),
        end_ns,
        outcome,
        http_status: status,
        output_tokens: None,
        token_events: 0,
        chunks: Vec::new(),
        ..request(index, sent_ms, 1, 1)
    }
}

fn trial(load: &str, index: u32, requests: Vec<Record>) -> ExportedTrial {
    let mut outcomes: BTreeMap<String, u64> = BTreeMap::new();
    for record in &requests {
        *outcomes.entry(record.outcome.to_string()).or_default() += 1;
    }
    let start_ns = START_NS + i64::from(index) * 10_000_000_000;
    let value = |metric: &str, unit: &str, value| ExportedValue { metric: metric.to_owned(), unit: unit.to_owned(), value };
    ExportedTrial {
        trial_id: format!("chat.engine.default.{load}.t{index}"),
        index,
        start_ns,
        end_ns: start_ns + 5_250_000_000,
        outcomes,
        values: vec![
            value("ttft_ms_mean", "ms", 20.0),
            value("ttft_ms_p50", "ms", 20.0),
            value("ttft_ms_p99", "ms", 29.8),
            value("tpot_ms_mean", "ms", 2.0),
            value("itl_ms_mean", "ms", 2.0),
            value("e2e_ms_mean", "ms", 28.25),
            value("isl_tokens_mean", "tokens", 50.0),
            value("osl_tokens_mean", "tokens", 5.0),
            value("request_throughput_per_s", "requests/s", 4.5),
            value("output_tokens_per_s", "tokens/s", 22.5),
            value("input_tokens_per_s", "tokens/s", 225.0),
            value("total_tokens_per_s", "tokens/s", 247.5),
        ],
        requests,
        execution: None,
    }
}

fn serving(arrival: ExportedArrival) -> ExportedServing {
    ExportedServing {
        model: "m".to_owned(),
        api: "chat".to_owned(),
        is_streamed: true,
        arrival,
        max_concurrency: None,
        opens_connections: false,
        is_synthetic: true,
        input_tokens: Some(50),
        output_tokens: Some(5),
    }
}

fn load(point: &str, value: [(&str, &str); 1], arrival: ExportedArrival, trials: Vec<ExportedTrial>) -> ExportedLoad {
    ExportedLoad {
        case_id: "chat.engine.default".to_owned(),
        workload: "chat".to_owned(),
        target: "engine".to_owned(),
        point_id: point.to_owned(),
        value: value.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        workload_spec_digest: Digest::compute(b"workload"),
        serving: Some(serving(arrival)),
        script: None,
        trials_planned: u32::try_from(trials.len()).expect("few trials"),
        missing: Vec::new(),
        trials,
    }
}

/// A run with a closed loop of two trials, one with failures, and Poisson arrivals of one trial with sessions and a capped concurrency.
pub(crate) fn serving_run() -> ExportedRun {
    let ok = || vec![request(0, 0, 10, 1), request(1, 5, 20, 2), request(2, 40, 30, 3)];
    let with_failures = vec![
        request(0, 0, 10, 1),
        failed(1, 5, Outcome::HttpError, Some(503)),
        failed(2, 6, Outcome::Cancelled, None),
        Record { outcome: Outcome::Dropped, sent_ns: None, ..failed(3, 7, Outcome::Dropped, None) },
        failed(4, 8, Outcome::ConnectError, None),
        request(5, 40, 30, 3),
    ];
    let session = |record: Record| Record {
        session: Some(4),
        turn: Some(1),
        intended_ns: record.sent_ns.map(|sent| sent - 250_000),
        ..record
    };
    let closed = load(
        "concurrency-2",
        [("concurrency", "2")],
        ExportedArrival::Concurrency(2),
        vec![trial("concurrency-2", 0, ok()), trial("concurrency-2", 1, with_failures)],
    );
    let open = load(
        "rate-4",
        [("rate", "4")],
        ExportedArrival::Poisson(4.0),
        vec![trial("rate-4", 0, ok().into_iter().map(session).collect())],
    );
    ExportedRun {
        run_id: "nightly-7".to_owned(),
        pipeline: "nightly".to_owned(),
        version: "0.1.0".to_owned(),
        result: Digest::compute(b"summary"),
        commit: Some("0123456789abcdef0123456789abcdef01234567".to_owned()),
        grade: Some("realism".to_owned()),
        has_result: true,
        start_ns: START_NS,
        end_ns: START_NS + 30_000_000_000,
        inputs: vec![
            ExportedInput { kind: InputKind::Workload, name: "chat".to_owned(), digest: Digest::compute(b"workload") },
            ExportedInput { kind: InputKind::Image, name: "engine".to_owned(), digest: Digest::compute(b"image") },
        ],
        tables: vec![ExportedTable {
            name: "outcome_fact".to_owned(),
            digest: Digest::compute(b"table"),
            rows: 84,
            bytes: 9_812,
        }],
        loads: vec![closed, open],
    }
}

/// A run without serving whose scripts and outputs are there, too.
pub(crate) fn script_run() -> ExportedRun {
    let mut run = indicator_run();
    for load in &mut run.loads {
        load.script = Some(ExportedScript {
            bytes: b"#!/bin/sh\n".to_vec(),
            files: vec![("data.txt".to_owned(), b"1\n".to_vec())],
            environment: [("SIZE".to_owned(), "4096".to_owned())].into(),
            image: Some("registry.example.org/base@sha256:00".to_owned()),
        });
        for trial in &mut load.trials {
            trial.execution = Some(execution());
        }
    }
    run
}

fn execution() -> ExportedExecution {
    let usage = json!({
        "utime_us": "1500000", "stime_us": "250", "maxrss_kib": "2048", "ixrss": "0", "idrss": "0", "isrss": "0", "minflt": "3",
        "majflt": "4", "nswap": "0", "inblock": "5", "oublock": "6", "msgsnd": "0", "msgrcv": "0", "nsignals": "0", "nvcsw": "7",
        "nivcsw": "8",
    });
    let fact = |text: &str| Fact::observed(text.to_owned(), "a test");
    let host = HostFacts {
        operating_system: fact("Debian GNU/Linux 12 (bookworm)"),
        kernel: fact("6.12.1 #1 SMP"),
        architecture: fact("x86_64"),
        cpu_vendor: fact("GenuineIntel"),
        cpu_model: fact("Xeon"),
        cpu_signature: fact("6/143/8"),
        cpu_flags: Fact::observed(vec!["avx2".to_owned()], "a test"),
        logical_cpus: Fact::observed(4, "a test"),
        ..HostFacts::unknown("a test")
    };
    ExportedExecution {
        stdout: br#"{"name": "PiSort", "@parameters": {}, "@result": {"elapsed": 1.5}}"#.to_vec(),
        stderr: b"Traceback\n".to_vec(),
        exit_code: Some(0),
        script_sha256: Some(Digest::compute(b"#!/bin/sh\n")),
        pod: None,
        usage: serde_json::from_value::<ResourceUsage>(usage).expect("a usage"),
        host: Some(host),
    }
}

/// A run without serving.
pub(crate) fn indicator_run() -> ExportedRun {
    let mut run = serving_run();
    run.loads.truncate(1);
    for load in &mut run.loads {
        load.serving = None;
        load.value = [("size".to_owned(), "4096".to_owned())].into();
        for trial in &mut load.trials {
            trial.requests.clear();
            trial.outcomes.clear();
            trial.values = vec![ExportedValue { metric: "@result.latency/us".to_owned(), unit: "us".to_owned(), value: 3.25 }];
        }
    }
    run
}
