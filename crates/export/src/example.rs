//! Small runs for tests, whose numbers can be computed by hand.

use std::collections::BTreeMap;

use assay_manifest::Digest;
use assay_record::{Chunk, Outcome, Record, TokenSource};

use crate::run::{
    ExportedArrival, ExportedInput, ExportedLoad, ExportedRun, ExportedServing, ExportedTable, ExportedTrial, ExportedValue,
    InputKind,
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
        trials_planned: u32::try_from(trials.len()).expect("few trials"),
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
