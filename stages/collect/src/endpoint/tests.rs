use std::io::Write as _;

use assay_manifest::{AttemptStatus, Count, Digest, Instant, Validity};
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
        "api": "chat", "model": "m", "arrival": {"law": "closed"}, "prompts": {"from": "synthetic", "input": {"law": "fixed", "tokens": 10}},
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
        stacks: vec![],
        attempts,
        resumed: vec![],
    }
}

/// Returns the attempts on the only endpoint of these parts: trial, window in seconds, and whether all shards have counts.
fn found(parts: &[ExecutionPart]) -> Vec<String> {
    let (plan, parts) = (plan(), parts.iter().collect::<Vec<_>>());
    let places = served_attempts(&plan, &parts);
    assert!(places.keys().eq([&(BLOCK, "t".parse().expect("a name"))]));
    let line = |served: &ServedAttempt<'_>| {
        let Window { start, end, .. } = served.window;
        let trial = served.attempt.trial_id.as_str().rsplit('.').next().expect("a trial");
        format!("{trial} {} to {}, {}", start.unix_ns() / SECOND, end.unix_ns() / SECOND, served.is_complete)
    };
    places.values().flatten().map(line).collect()
}

#[test]
fn the_shards_of_an_attempt_are_one() {
    let shards = [
        part(0, vec![attempt(1, 30, 40, 1, 0), attempt(0, 10, 19, 30, 2)]),
        part(1, vec![attempt(1, 30, 40, 1, 0), attempt(0, 11, 20, 20, 1)]),
    ];
    assert_eq!(found(&shards), ["t0 10 to 20, true", "t1 30 to 40, true"], "from the first start to the last end, in order");
    let (plan, parts) = (plan(), shards.iter().collect::<Vec<_>>());
    let places = served_attempts(&plan, &parts);
    let [first, _] = places.values().next().expect("an endpoint").as_slice() else { panic!("two attempts") };
    let outcomes: Vec<_> = shards.iter().filter_map(|part| part.attempts[1].serving.as_ref()).collect();
    assert_eq!(first.counts, ClientCounts::from_outcomes(outcomes));
}

#[test]
fn an_attempt_without_a_shard_or_its_counts_is_not_complete() {
    let mut silent = attempt(0, 11, 20, 20, 0);
    silent.serving = None;
    assert_eq!(found(&[part(0, vec![attempt(0, 10, 19, 30, 0)]), part(1, vec![silent])]), ["t0 10 to 20, false"]);
    assert_eq!(found(&[part(0, vec![attempt(0, 10, 19, 30, 0)])]), ["t0 10 to 19, false"], "the other has no part");
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

#[test]
fn a_request_that_two_servers_count_is_counted_once() {
    let unknown = json!({"source": "unknown", "how": "a test"});
    let target = |roles: &[Option<&str>]| -> ProvisionedTarget {
        let pod = |(number, role): (usize, Option<&str>)| {
            let mut pod = json!({"name": format!("p{number}"), "uid": "u", "node": "n", "ready": true, "containers": []});
            if let Some(role) = role {
                pod["role"] = json!(role);
            }
            pod
        };
        let pods: Vec<_> = roles.iter().copied().enumerate().map(pod).collect();
        let replica = |pod: &serde_json::Value| json!({"address": "http://10.0.0.1:8000", "pod": pod["name"], "version": unknown, "models": []});
        let replicas: Vec<_> = pods.iter().map(replica).collect();
        serde_json::from_value(json!({
            "id": "t", "kind": "inference_service", "hosts": [], "version": unknown, "models": [], "probes": [], "pods": pods,
            "replicas": replicas,
        }))
        .expect("a target")
    };
    let counting = |roles: &[Option<&str>]| counting_servers(&target(roles)).iter().map(Source::to_string).collect::<Vec<_>>();
    let (prefill, decode) = (Some("prefill"), Some("decode"));
    assert_eq!(counting(&[decode, prefill, decode]), ["endpoint/t.1", "endpoint/t.3"]);
    assert_eq!(counting(&[None, prefill]), ["endpoint/t.1"], "a server without a role may do both");
    assert_eq!(counting(&[prefill, prefill]), ["endpoint/t.1", "endpoint/t.2"]);
    assert_eq!(counting(&[]), ["endpoint/t"]);
}
