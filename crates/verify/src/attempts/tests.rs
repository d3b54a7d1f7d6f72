use serde_json::{Value, json};

use super::*;

const LISTED: [&str; 2] = ["http://10.0.0.1:8000", "http://10.0.0.2:8000"];

fn plan(replicas: &[&str]) -> Plan {
    let digest = Digest::compute(b"");
    let target = json!({
        "name": "llama", "kind": "endpoint", "url": "http://llama.serving.svc", "command": [], "env": [], "replicas": replicas,
        "ready_timeout_ns": "1", "hardware": {},
    });
    let plan = json!({
        "pipeline": {"name": "p", "path": "p.yaml", "digest": digest},
        "source": {"kind": "adhoc", "dirty": true, "files_digest": digest},
        "intent": "exploratory", "controls": [], "workloads": [], "targets": [target], "variants": [], "cases": [],
        "trial_policy": {"count": 1, "retry_budget": 0}, "isolation": "none", "placement": "alternate",
        "order": {"seed": "00", "digest": digest}, "trials": [], "unpinned": [], "queries": [],
    });
    serde_json::from_value(plan).expect("a plan")
}

/// Returns a target with these servers, each with its pod, and one pod `a`.
fn provisioned(servers: &[(&str, Option<&str>)]) -> ProvisionedTarget {
    let unknown = json!({"source": "unknown", "how": "a test"});
    let replica = |(address, pod): &(&str, Option<&str>)| {
        let mut replica = json!({"address": address, "version": unknown, "models": []});
        if let Some(pod) = pod {
            replica["pod"] = json!(pod);
        }
        replica
    };
    let replicas: Vec<Value> = servers.iter().map(replica).collect();
    let target = json!({
        "id": "llama", "kind": "endpoint", "hosts": ["node"], "version": unknown, "models": [], "probes": [], "replicas": replicas,
        "pods": [{"name": "a", "uid": "u", "node": "node", "ready": true, "containers": []}],
    });
    serde_json::from_value(target).expect("a target")
}

#[test]
fn the_servers_behind_an_address_are_those_of_the_plan_or_pods_of_the_target() {
    let holds = |listed: &[&str], servers: &[(&str, Option<&str>)]| check_replicas(&plan(listed), &provisioned(servers)).is_ok();
    assert!(holds(&LISTED, &LISTED.map(|address| (address, None))));
    assert!(holds(&[], &[]) && holds(&[], &[("http://10.0.0.1:8000", Some("a"))]));
    assert!(!holds(&LISTED, &[(LISTED[0], None)]), "one is left out");
    assert!(!holds(&LISTED, &[(LISTED[0], None), ("http://10.0.0.3:8000", None)]), "one is another");
    assert!(!holds(&LISTED, &[(LISTED[0], Some("a"))]), "a pod is not listed");
    assert!(!holds(&[], &[(LISTED[0], None)]), "none was listed");
    assert!(!holds(&[], &[(LISTED[0], Some("b"))]), "no pod of the target");
}

/// A plan whose limits are the defaults, with a workload that has a cap on requests in flight or none.
fn plan_with_limits(max_concurrency: Option<u32>) -> Plan {
    let digest = Digest::compute(b"");
    let artifact = json!({"name": "a", "digest": digest, "size": "1", "media_type": "text/plain"});
    let mut work = json!({
        "api": "chat", "model": "m", "arrival": {"law": "poisson"}, "exact_output": true, "continuous_usage": false, "batch": 1, "body": {},
        "prompts": {"from": "synthetic", "input": {"law": "fixed", "tokens": 8}},
        "duration_ns": "1", "warmup_ns": "0", "timeout_ns": "1", "time_limit_ns": "1", "cache": "cold_salt",
        "streaming": true, "capture": "none", "slos": [], "tokenizer": {"name": "common-words", "digest": digest},
    });
    if let Some(most) = max_concurrency {
        work["max_concurrency"] = json!(most.to_string());
    }
    let mut plan = plan(&[]);
    plan.trial_policy.validity = Some(ValidityLimits::default());
    plan.cases = serde_json::from_value(json!([{
        "case_id": "w.llama.default", "workload": "w", "target": "llama", "variant": "default", "points": [],
    }]))
    .expect("a case");
    plan.workloads = serde_json::from_value(json!([{
        "name": "w", "workload_type": "serving", "workload_spec_digest": digest, "spec": artifact,
        "seed": "00", "metrics": [], "dimensions": {}, "serving": work,
    }]))
    .expect("a workload");
    plan
}

/// An attempt with these reasons, whose client was so late, sent so many of 100 requests a second, and whose group was throttled so long.
fn judged(reasons: &[&str], late_ms: u64, sent: f64, throttled_ms: u64) -> Attempt {
    let digest = Digest::compute(b"");
    let artifact = json!({"name": "trials/t/0/records", "digest": digest, "size": "0", "media_type": "x"});
    let reasons: Vec<Value> = reasons.iter().map(|code| json!({"code": code, "detail": "d"})).collect();
    let at = "2026-01-01T00:00:00.000000000Z";
    let host = |us: u64| json!({"at": at, "cgroup_throttled_us": us.to_string(), "frequencies_khz": [], "temperatures_millicelsius": {}});
    serde_json::from_value(json!({
        "trial_id": "w.llama.default.p.t0", "case_id": "w.llama.default", "point_id": "p", "attempt": 0, "status": "completed",
        "validity": {"valid": reasons.is_empty(), "reasons": reasons},
        "window": {"start": at, "end": at, "duration_ns": "1000000000"},
        "host_before": host(0), "host_after": host(throttled_ms * 1000), "evidence": [artifact],
        "serving": {
            "schedule_digest": digest, "start": at, "measured_from_ns": "0", "measured_to_ns": "1", "outcomes": {}, "warmup_outcomes": {},
            "input_tokens": "0", "output_tokens": "0", "chunk_lists": "all", "clock": {"source": "same_host"}, "records": artifact,
            "client": {
                "lateness_p99_ns": (late_ms * 1_000_000).to_string(), "loop_busy_p99_ns": "0", "loop_stall_max_ns": "0", "cpu_user_us": "0",
                "cpu_system_us": "0", "full_reads": "0", "starved": "0", "requested_rate_per_s": 100.0, "sent_rate_per_s": sent,
                "connections": "1", "events": "1",
            },
        },
    }))
    .expect("an attempt")
}

#[test]
fn reasons_against_an_attempt_are_those_that_its_figures_give() {
    let plan = plan_with_limits(None);
    let holds = |attempt: &Attempt| check_validity(&PlanIndex::new(&plan), attempt).is_ok();
    assert!(holds(&judged(&[], 25, 95.0, 50)), "each limit itself is allowed");
    assert!(holds(&judged(&["client_late"], 26, 95.0, 50)));
    assert!(!holds(&judged(&[], 26, 95.0, 50)), "a client that was late is told as none");
    assert!(!holds(&judged(&["client_late"], 25, 95.0, 50)), "a client that was in time is told as late");
    assert!(!holds(&judged(&["client_late"], 26, 90.0, 50)), "one of two reasons is left out");
    assert!(holds(&judged(&["client_late", "rate_not_offered"], 26, 90.0, 50)));
    assert!(holds(&judged(&["response_flood"], 26, 90.0, 50)), "an endpoint's flood stands for both");
    assert!(!holds(&judged(&["response_flood"], 25, 95.0, 50)), "a flood that kept nobody from anything");
    assert!(!holds(&judged(&[], 25, 95.0, 60)) && holds(&judged(&["cpu_throttled"], 25, 95.0, 60)), "the machine");
    assert!(holds(&judged(&["barrier_missed"], 25, 95.0, 50)), "other reasons are not these figures'");
    let capped = plan_with_limits(Some(4));
    let waited = judged(&[], 25, 40.0, 50);
    assert!(
        check_validity(&PlanIndex::new(&capped), &waited).is_ok() && !holds(&waited),
        "an endpoint may keep requests waiting at a cap"
    );
}

#[test]
fn an_attempt_ends_early_on_failed_requests_only_if_so_many_failed() {
    let attempt = |reasons: &[&str], failed: &str| {
        let mut attempt = judged(reasons, 25, 95.0, 50);
        let serving = attempt.serving.as_mut().expect("serving");
        serving.outcomes = serde_json::from_value(json!({"ok": "9", "http_error": failed, "dropped": "7"})).expect("outcomes");
        serving.warmup_outcomes = serde_json::from_value(json!({"timeout": "1", "cancelled_at_end": "7"})).expect("outcomes");
        attempt
    };
    let with = |limit: Value| {
        let mut plan = plan_with_limits(None);
        let work = plan.workloads[0].serving.as_mut().expect("serving");
        work.stop_on_errors = serde_json::from_value(limit).expect("a limit");
        plan
    };
    let holds = |limit: Value, shards, attempt: &Attempt| {
        check_errors(&PlanIndex::new(&with(limit)), Shard { index: 0, count: shards }, attempt).is_ok()
    };
    let five = || json!({"count": "5"});
    let (early, whole) = (|failed| attempt(&["too_many_errors"], failed), |failed| attempt(&[], failed));
    assert!(holds(five(), 1, &early("4")) && holds(five(), 1, &whole("3")), "with the one of the warm-up");
    assert!(!holds(five(), 1, &early("3")), "one fewer than ends it");
    assert!(!holds(five(), 1, &whole("4")), "as many as end it, and it counts");
    assert!(holds(five(), 2, &early("2")) && !holds(five(), 2, &whole("2")), "each of two shards has its part");
    assert!(!holds(Value::Null, 1, &early("9")) && holds(Value::Null, 1, &whole("9")), "nothing ends it");
    let recent = || json!({"recent": {"share": 0.5, "of_last": "20"}});
    assert!(holds(recent(), 1, &early("9")) && !holds(recent(), 1, &early("8")) && holds(recent(), 1, &whole("50")));
    let late = attempt(&["client_late"], "4");
    assert!(holds(five(), 1, &late), "an attempt that does not count for another reason");
}

#[test]
fn a_plan_s_own_limits_judge_and_one_without_limits_judges_nothing() {
    let late = judged(&[], 26, 95.0, 50);
    let judge = |validity: Option<ValidityLimits>| {
        let mut plan = plan_with_limits(None);
        plan.trial_policy.validity = validity;
        check_validity(&PlanIndex::new(&plan), &late).is_ok()
    };
    let wider = ValidityLimits { lateness_p99_ns: assay_manifest::Count(30_000_000), ..ValidityLimits::default() };
    assert_eq!([judge(Some(ValidityLimits::default())), judge(Some(wider)), judge(None)], [false, true, true]);
}
