//! A serving point that agrees with its execution parts, and each of its numbers falsified.

use assay_manifest::{ClientHealth, ClockOffset, Digest, Instant};
use serde_json::{Value, json};

use super::*;

const NS_PER_S: u64 = 1_000_000_000;

/// The result of a shard that was measured for 900 s, after a warm-up of a second.
fn shard(outcomes: &[(&str, u64)]) -> ServingOutcome {
    let digest = Digest::compute(b"");
    ServingOutcome {
        schedule_digest: digest,
        start: Instant::from_unix_ns(0),
        measured_from_ns: Count(NS_PER_S),
        measured_to_ns: Count(901 * NS_PER_S),
        outcomes: outcomes.iter().map(|(word, count)| ((*word).to_owned(), Count(*count))).collect(),
        warmup_outcomes: BTreeMap::from([("ok".to_owned(), Count(5))]),
        input_tokens: Count(0),
        output_tokens: Count(0),
        chunk_lists: "all".to_owned(),
        client: ClientHealth::default(),
        warmed_turns: Some(Count(2)),
        idle_cut_ns: Some(Count(70)),
        cache_flushed: None,
        clock: ClockOffset { source: "same_host".to_owned(), offset_ns: None, uncertainty_ns: None, no_exchange: None },
        records: serde_json::from_value(json!({"name": "r", "digest": digest, "size": "0", "media_type": "x"}))
            .expect("an artifact"),
    }
}

/// A workload by the rules of AgentX whose sessions ask for two adapters, with a change at a place of its serving work.
fn workload(place: &str, change: Value) -> FrozenWorkload {
    let zero = format!("sha256:{}", "0".repeat(64));
    let artifact = || json!({"name": "a", "digest": zero, "size": "1", "media_type": "text/plain"});
    let range = json!({"least": 1, "most": 9, "sum": "9"});
    let summary = json!({"read": "1", "rows": "2", "sessions": "1", "without_prompt": "0", "too_long": "0", "truncated": "0",
        "input_tokens": range, "recorded_outputs": "2", "output_tokens": range});
    let origin = "https://huggingface.co/datasets/semianalysisai/cc-traces-weka-062126/resolve/main/traces.jsonl";
    let file = json!({"path": "t", "origin": origin, "executable": false, "artifact": artifact()});
    let mut work = json!({
        "api": "chat", "model": "m", "arrival": {"law": "closed"}, "exact_output": true, "continuous_usage": false, "batch": 1, "body": {},
        "prompts": {"from": "dataset", "file": file, "format": "weka", "rows": artifact(), "index": artifact(), "summary": summary},
        "adapters": [{"name": "sql", "weight": 3.0}, {"name": "chat", "weight": 1.0}], "scenario": "agentx",
        "sessions": {"think_time": {"law": "recorded"}, "history": "recorded", "reasoning": "drop", "play": {
            "recycle": true, "start": {"from": 0.25, "to": 0.75}, "warm_history": true, "idle_cap_ns": "10000000000", "marker": true}},
        "duration_ns": "900000000000", "warmup_ns": "0", "timeout_ns": "1", "time_limit_ns": "1", "cache": "cold_salt",
        "streaming": true, "capture": "none", "slos": [], "tokenizer": {"name": "common-words", "digest": zero},
    });
    if !place.is_empty() {
        *work.pointer_mut(place).expect("a place") = change;
    }
    serde_json::from_value(json!({
        "name": "agents", "workload_type": "serving", "workload_spec_digest": zero, "spec": artifact(),
        "seed": format!("{:0>64}", "2a"), "metrics": [], "dimensions": {}, "serving": work,
    }))
    .expect("a workload")
}

/// The point of a trial of two shards with 100 requests together, and of an attempt that does not count.
fn point() -> Value {
    let latency = |n: &str| json!({"ttft": {"n": n, "p50_ms": 1.0, "p99_ms": 2.0}});
    json!({
        "requests": "100", "outcomes": {"ok": "98", "timeout": "2"}, "excluded_outcomes": {"ok": "12"}, "duration_ns": "900000000000",
        "adapters": {"chat": {"requests": "25", "latencies": latency("24")}, "sql": {"requests": "75", "latencies": latency("74")}},
        "sessions": {"begun": "12", "complete": "9", "failed": "2"}, "warmed_turns": "4", "idle_cut_ns": "140",
        "agentx": {"agentx_rules_met": true, "reasons": []},
        "token_sources": {}, "tpot_assumed": "0", "absent": {}, "latency_from": "intended",
    })
}

/// Returns the difference that is found in a point.
fn found_beside(workload: &FrozenWorkload, point: Value) -> &'static str {
    let [one, two, not_counted] = [&[("ok", 60), ("dropped", 0)][..], &[("ok", 38), ("timeout", 2)], &[("ok", 7)]].map(shard);
    let work = workload.serving.as_ref().expect("serving");
    let signed = SignedPoint { workload, work, loads: 1, counted: vec![vec![&one, &two]], excluded: vec![&not_counted] };
    signed.find_difference(&serde_json::from_value(point).expect("a point")).unwrap_or("nothing")
}

/// Returns the difference that is found after a change at a place.
fn found(place: &str, change: Value) -> &'static str {
    let mut point = point();
    match point.pointer_mut(place) {
        Some(field) => *field = change,
        None => panic!("no `{place}`"),
    }
    found_beside(&workload("", Value::Null), point)
}

#[test]
fn a_point_agrees_with_its_execution_parts() {
    assert_eq!(found_beside(&workload("", Value::Null), point()), "nothing");
    assert_eq!(found("/outcomes", json!({"ok": "97", "timeout": "3"})), "`outcomes`");
    assert_eq!(found("/requests", json!("101")), "`requests`");
    assert_eq!(found("/excluded_outcomes", json!({})), "`excluded_outcomes`");
    assert_eq!(found("/duration_ns", json!("900000000001")), "`duration_ns`");
    assert_eq!(found("/latency_from", json!("sent")), "`latency_from`");
    for change in [json!("3"), json!("5"), Value::Null] {
        assert_eq!(found("/warmed_turns", change.clone()), "`warmed_turns`");
        assert_eq!(found("/idle_cut_ns", change), "`idle_cut_ns`");
    }
}

#[test]
fn adapters_are_those_of_the_plan_and_have_all_requests() {
    let adapter = |requests: &str| json!({"requests": requests});
    for adapters in [
        json!({}),
        json!({"sql": adapter("100")}),
        json!({"other": adapter("25"), "sql": adapter("75")}),
        json!({"chat": adapter("25"), "other": adapter("0"), "sql": adapter("75")}),
        json!({"chat": adapter("26"), "sql": adapter("75")}),
        json!({"chat": adapter("24"), "sql": adapter("75")}),
    ] {
        assert_eq!(found("/adapters", adapters.clone()), "`adapters`", "{adapters}");
    }
    // The others with more requests may have the only latencies.
    assert_eq!(found("/adapters/chat", adapter("25")), "nothing");
    assert_eq!(found("/adapters/chat/latencies/ttft/n", json!("0")), "`adapters`");
    assert_eq!(found("/adapters/chat/latencies/ttft/n", json!("25")), "`adapters`", "99 of 98 that succeeded");
    assert_eq!(found("/adapters/chat/latencies/ttft/n", json!("26")), "`adapters`");
    assert_eq!(found("/adapters/chat/latencies/ttft/p50_ms", json!(2.5)), "`adapters`");
    assert_eq!(found("/adapters/chat/latencies", json!({"other": {"n": "1", "p50_ms": 1.0, "p99_ms": 2.0}})), "`adapters`");
    // Work without adapters has none.
    let without = workload("/adapters", json!([]));
    assert_eq!(found_beside(&without, point()), "`adapters`");
}

#[test]
fn sessions_agree_with_each_other_and_with_the_requests() {
    let of = |begun: u32, complete: u32, failed: u32| {
        let [begun, complete, failed] = [begun, complete, failed].map(|count| count.to_string());
        found("/sessions", json!({"begun": begun, "complete": complete, "failed": failed}))
    };
    // 110 requests of both phases, of which 108 succeeded.
    assert_eq!([of(110, 108, 2), of(110, 0, 0), of(1, 1, 0)], ["nothing"; 3]);
    assert_eq!([of(10, 9, 2), of(111, 9, 2), of(110, 109, 1), of(110, 9, 3), of(0, 0, 0)], ["`sessions`"; 5]);
    assert_eq!(found("/sessions", Value::Null), "`sessions`");
    let without = workload("/sessions", Value::Null);
    let mut of_requests = point();
    of_requests["latency_from"] = json!("sent");
    assert_eq!(found_beside(&without, of_requests), "`sessions`");
}

#[test]
fn a_verdict_by_the_rules_of_agentx_is_computed_again() {
    let unmet = |code: &str, detail: &str| json!({"agentx_rules_met": false, "reasons": [{"code": code, "detail": detail}]});
    assert_eq!(found("/agentx", Value::Null), "`agentx`");
    assert_eq!(found("/agentx/agentx_rules_met", json!(false)), "`agentx`");
    assert_eq!(found("/agentx", unmet("marker", "no marker")), "`agentx`");
    // Each of these plans breaks a rule.
    for (place, change) in [
        ("/prompts/file/origin", json!("traces.jsonl")),
        ("/exact_output", json!(false)),
        ("/streaming", json!(false)),
        ("/sessions/play/recycle", json!(false)),
        ("/sessions/play/start", Value::Null),
        ("/sessions/play/idle_cap_ns", json!("1")),
        ("/sessions/play/warm_history", json!(false)),
        ("/sessions/play/marker", json!(false)),
    ] {
        assert_eq!(found_beside(&workload(place, change), point()), "`agentx`", "{place}");
    }
    let other_seed = FrozenWorkload { seed: "0".repeat(64), ..workload("", Value::Null) };
    assert_eq!(found_beside(&other_seed, point()), "`agentx`");
    assert_eq!(found_beside(&workload("/scenario", Value::Null), point()), "`agentx`");
}

#[test]
fn too_many_long_requests_are_stated_by_the_verdict_and_no_more_than_failed() {
    let reason = |count: u32| {
        let detail = format!("{count} of 100 requests were refused as too long for the endpoint, more than 1 %");
        json!({"agentx_rules_met": false, "reasons": [{"code": "context_overflow_share", "detail": detail}]})
    };
    assert_eq!(found("/agentx", reason(2)), "nothing");
    assert_eq!([found("/agentx", reason(1)), found("/agentx", reason(3))], ["`agentx`"; 2]);
}
