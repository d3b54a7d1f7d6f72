use std::io::Write as _;

use assay_manifest::{AttemptStatus, Count, Digest, Validity};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const SECOND: i64 = 1_000_000_000;

fn at(second: i64) -> Instant {
    Instant::from_unix_ns(second * SECOND)
}

fn plan() -> Plan {
    let digest = Digest::compute(b"");
    let artifact = json!({"name": "w", "digest": digest, "size": "0", "media_type": "application/json"});
    let work = json!({
        "api": "chat", "model": "m", "arrival": {"law": "closed"}, "input": {"law": "fixed", "tokens": 10},
        "output": {"law": "fixed", "tokens": 10}, "exact_output": true, "batch": 1, "body": {}, "warmup_ns": "0",
        "timeout_ns": "1", "time_limit_ns": "1", "cache": "cold_salt", "streaming": true, "continuous_usage": true, "capture": "none", "slos": [],
        "tokenizer": {"name": "t", "digest": digest},
    });
    let plan = json!({
        "pipeline": {"name": "p", "path": "p.yaml", "digest": digest},
        "source": {"kind": "adhoc", "dirty": true, "files_digest": digest},
        "intent": "exploratory", "controls": [], "targets": [], "variants": [],
        "workloads": [{
            "name": "w", "workload_type": "serving", "workload_spec_digest": digest, "spec": artifact, "seed": "00",
            "metrics": [], "serving": work,
        }],
        "cases": [{"case_id": "w.t.default", "workload": "w", "target": "t", "variant": "default", "points": []}],
        "trial_policy": {"count": 1, "retry_budget": 0}, "isolation": "none", "placement": "coexist",
        "order": {"seed": "00", "digest": digest}, "trials": [], "unpinned": [], "queries": [],
    });
    serde_json::from_value(plan).expect("a plan")
}

/// An attempt with this number of completed requests and of requests that were still open, each response with ten tokens.
fn attempt(trial: u32, from: i64, to: i64, ok: u64, open: u64) -> Attempt {
    let digest = Digest::compute(b"");
    let serving = json!({
        "schedule_digest": digest, "start": at(from), "measured_from_ns": "0", "measured_to_ns": "0",
        "outcomes": {"ok": ok.to_string(), "cancelled_at_end": open.to_string()}, "warmup_outcomes": {}, "input_tokens": "0",
        "output_tokens": (10 * ok).to_string(), "chunk_lists": "all",
        "client": {"loop_busy_p99_ns": "0", "loop_stall_max_ns": "0", "cpu_user_us": "0", "cpu_system_us": "0",
                   "full_reads": "0", "starved": "0", "sent_rate_per_s": 0.0, "connections": "0", "events": "0"},
        "clock": {"source": "same_host"},
        "records": {"name": "r", "digest": digest, "size": "0", "media_type": "x"},
    });
    Attempt {
        trial_id: format!("w.t.default.one.t{trial}").parse().expect("a trial id"),
        case_id: "w.t.default".parse().expect("a case id"),
        point_id: "one".parse().expect("a point id"),
        attempt: 0,
        window: span(at(from), at(to)),
        place: None,
        allowed_cpus: None,
        status: AttemptStatus::Completed,
        validity: Validity::from_reasons(vec![]),
        indicator: None,
        serving: Some(serde_json::from_value(serving).expect("an outcome")),
        host_before: None,
        host_after: None,
        evidence: vec![],
    }
}

const BLOCK: Block = Block { index: 0, incarnation: 0 };

fn part(shard: u32, attempts: Vec<Attempt>) -> ExecutionPart {
    ExecutionPart {
        plan_digest: Digest::compute(b""),
        block: BLOCK,
        shard: assay_manifest::Shard { index: shard, count: 2 },
        schedule_digests: BTreeMap::new(),
        prepared: vec![],
        attempts,
        resumed: vec![],
    }
}

/// The number of completed requests of an endpoint at each second.
fn counted(requests: &[(i64, u64)]) -> Vec<Scrape> {
    let one = |(second, value): &(i64, u64)| Scrape {
        requested_at: at(*second),
        received_at: at(*second),
        counters: counters(&format!("vllm:request_success_total {value}\nvllm:generation_tokens_total {}\n", 10 * value)),
    };
    requests.iter().map(one).collect()
}

/// Returns the checks of the attempts of trial 0 in these parts: the quantity, both counts, and whether they agree.
fn checked(parts: &[ExecutionPart], requests: &[(i64, u64)]) -> Vec<String> {
    let plan = plan();
    let parts: Vec<_> = parts.iter().collect();
    let name: Name = "t".parse().expect("a name");
    let scrapes = BTreeMap::from([((BLOCK, name.clone()), counted(requests))]);
    let endpoints = Endpoints { scrapes, activity: activity(&plan, &parts) };
    let shards: Vec<_> =
        parts.iter().flat_map(|part| &part.attempts).filter(|found| found.trial_id.as_str().ends_with("t0")).collect();
    let (_, work) = serving_target(&plan, shards[0]).expect("serving");
    let checks = endpoints.cross_checks(BLOCK, &name, work, &shards);
    checks.iter().map(|check| format!("{} {} {} {}", check.what, check.client, check.endpoint, check.agrees)).collect()
}

#[test]
fn client_and_endpoint_agree_over_an_attempt() {
    let alone = [part(0, vec![attempt(0, 10, 20, 50, 0)])];
    let counts = [(9, 100), (10, 100), (15, 130), (20, 150), (21, 170)];
    assert_eq!(checked(&alone, &counts), ["requests 50 50 true", "output_tokens 500 500 true"]);
    assert_eq!(
        checked(&alone, &[(9, 100), (21, 151)]),
        ["requests 50 51 false", "output_tokens 500 510 false"],
        "others ask as well"
    );
    assert_eq!(checked(&alone, &[(15, 100), (21, 151)]), Vec::<String>::new(), "nothing was read before it");
}

#[test]
fn the_shards_of_an_attempt_are_counted_together() {
    let shards = [part(0, vec![attempt(0, 10, 19, 30, 0)]), part(1, vec![attempt(0, 11, 20, 20, 0)])];
    assert_eq!(checked(&shards, &[(10, 100), (20, 150)])[0], "requests 50 50 true", "from the first start to the last end");
    let mut silent = attempt(0, 11, 20, 20, 0);
    silent.serving = None;
    let shards = [part(0, vec![attempt(0, 10, 19, 30, 0)]), part(1, vec![silent])];
    assert_eq!(checked(&shards, &[(10, 100), (20, 150)]), Vec::<String>::new(), "one shard does not say what it did");
}

#[test]
fn attempts_close_to_each_other_share_the_responses_between_them() {
    // The second begins within the second in which the first ended: the response at 20 s is after both.
    let attempts = |open| [part(0, vec![attempt(1, 5, 9, 40, open), attempt(0, 10, 19, 50, 0), attempt(2, 19, 25, 7, 0)])];
    let first = |open, counts: &[(i64, u64)]| checked(&attempts(open), counts)[0].clone();
    assert_eq!(first(0, &[(10, 100), (11, 105), (18, 145), (20, 153)]), "requests 50 53 true", "three are the next attempt's");
    assert_eq!(first(0, &[(10, 100), (11, 105), (18, 160), (20, 165)]), "requests 50 65 false", "55 within its own window");
    assert_eq!(first(0, &[(10, 100), (19, 151)]), "requests 50 51 false");
    assert_eq!(first(1, &[(10, 100), (19, 151)]), "requests 50 51 true", "the attempt before had left one open");
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut out = zstd::Encoder::new(Vec::new(), 0).expect("an encoder");
    out.write_all(bytes).expect("packed");
    out.finish().expect("packed")
}

fn read(samples: u64, file: &[u8]) -> Result<Vec<Scrape>, String> {
    let artifact = json!({"name": "e.zst", "digest": Digest::compute(b""), "size": "0", "media_type": "application/jsonl+zstd"});
    let artifact = serde_json::from_value(artifact).expect("an artifact");
    let series = Series { source: "endpoint/t".to_owned(), samples: Count(samples), artifact };
    let mut scrapes = Vec::new();
    read_scrapes(&series, file, &mut scrapes).map(|()| scrapes).map_err(|failure| failure.message)
}

#[test]
fn a_recording_is_read_back() {
    let good = ScrapeLine {
        at: at(1),
        took_ns: 7,
        status: Some(200),
        body: Some("vllm:request_success_total 3\n".to_owned()),
        error: None,
    };
    let failed = ScrapeLine { body: None, error: Some("why".to_owned()), ..good.clone() };
    let lines: Vec<_> = [&good, &failed].map(|line| serde_json::to_string(line).expect("JSON") + "\n").concat().into_bytes();
    let scrapes = read(2, &packed(&lines)).expect("readable");
    let [scrape] = scrapes.as_slice() else { panic!("one good response: {scrapes:?}") };
    assert_eq!((scrape.requested_at, scrape.received_at.unix_ns()), (at(1), SECOND + 7));
    assert_eq!(scrape.counters[0].map(|counter| counter.value), Some(3.0));
    insta::assert_snapshot!(read(1, &packed(&lines)).expect_err("too many"), @"`e.zst` has more readings, and its recording says 1");
    insta::assert_snapshot!(read(3, &packed(&lines)).expect_err("too few"), @"`e.zst` has 2 readings, and its recording says 3");
    insta::assert_snapshot!(read(1, &packed(b"{}\n")).expect_err("no reading"), @"line 1 of `e.zst` is no reading");
    insta::assert_snapshot!(read(1, b"plain text").expect_err("not packed"), @"cannot read back the recording `e.zst`");
}

proptest! {
    #[test]
    fn whatever_a_recording_holds_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(3, &bytes);
        let _ = read(3, &packed(&bytes));
    }
}
