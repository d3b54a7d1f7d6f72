use assay_probe::Headers;
use assay_probe::testing::{Reply, Server};
use serde_json::json;

use super::*;

fn target(headers: &Value) -> Target {
    let target = json!({
        "name": "llama", "kind": "endpoint", "url": "http://llama.serving.svc/v1", "command": [], "env": [], "headers": headers,
        "ready_timeout_ns": "1", "hardware": {},
    });
    serde_json::from_value(target).expect("a target")
}

fn client() -> Client {
    Client::new(Headers::default())
}

fn in_pod(pod: &str, address: String) -> PodServer {
    PodServer { pod: pod.to_owned(), address }
}

#[test]
fn the_url_of_a_service_has_a_port_and_a_path() {
    let parts = |url: &str| service_url(url).map(|url| format!("{} {} {}", url.scheme, url.port, url.path));
    assert_eq!(parts("http://llama.serving.svc:8000/v1/").as_deref(), Some("http 8000 /v1"));
    assert_eq!(parts("https://llama").as_deref(), Some("https 443 "));
    assert_eq!(parts("llama:8000"), None);
}

#[test]
fn each_pod_is_asked_at_its_own_address() {
    let models = r#"{"data": [{"id": "llama", "owned_by": "vllm"}]}"#;
    let servers = [1, 2].map(|_| Server::with_replies(vec![("/v1/models", Reply::ok(models))]));
    let pods = servers.iter().zip(["a", "b"]).map(|(server, pod)| in_pod(pod, format!("{}/v1", server.url()))).collect();
    let found = found_replicas(&client(), &target(&json!([])), "http://llama.serving.svc/v1", Ok(pods)).expect("both");
    let pods: Vec<_> = found.iter().map(|replica| (replica.pod.as_deref(), replica.models.clone())).collect();
    assert_eq!(pods, [(Some("a"), vec!["llama".to_owned()]), (Some("b"), vec!["llama".to_owned()])]);
    assert!(servers.iter().all(|server| server.paths().contains(&"/metrics".to_owned())), "its own process");
}

#[test]
fn pods_that_cannot_be_asked_are_measured_as_one_server() {
    let why = |target: &Target, address: &str, servers| {
        found_replicas(&client(), target, address, servers).map_err(|why| unread_pods(target, &why)).expect_err("none")
    };
    let plain = target(&json!([]));
    insta::assert_snapshot!(why(&plain, "http://llama", Err("its Service has no port 81".to_owned())), @"the pods of target `llama` are measured as one server, and their counters are not compared: its Service has no port 81");
    let gone = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
    let one = why(&plain, "http://llama", Ok(vec![in_pod("a", format!("http://{gone}"))]));
    assert!(one.contains("its pod `a` does not respond at http://"), "{one}");
    let secret = target(&json!([{"name": "authorization", "from_env": "TOKEN"}]));
    let servers = || Ok(vec![in_pod("a", "http://10.0.0.1:8000".to_owned())]);
    insta::assert_snapshot!(why(&secret, "https://gateway/llama", servers()), @"the pods of target `llama` are measured as one server, and their counters are not compared: its headers would be sent to `http://10.0.0.1:8000` without TLS");
    assert!(
        !exposes_headers(&secret, "http://llama", "http://10.0.0.1:8000")
            && !exposes_headers(&plain, "https://g", "http://10.0.0.1")
    );
}

fn plan(isolation: &str, cache: &str) -> Plan {
    let digest = assay_manifest::Digest::compute(b"");
    let artifact = json!({"name": "w", "digest": digest, "size": "0", "media_type": "application/json"});
    let work = json!({
        "api": "chat", "model": "m", "arrival": {"law": "closed"}, "prompts": {"from": "synthetic", "input": {"law": "fixed", "tokens": 10}},
        "output": {"law": "fixed", "tokens": 10}, "exact_output": true, "batch": 1, "body": {}, "warmup_ns": "0",
        "timeout_ns": "1", "time_limit_ns": "1", "cache": cache, "streaming": true, "continuous_usage": true, "capture": "none",
        "slos": [], "tokenizer": {"name": "t", "digest": digest},
    });
    let workload = json!({
        "name": "w", "workload_type": "serving", "workload_spec_digest": digest, "spec": artifact, "seed": "00", "metrics": [],
        "serving": work,
    });
    let plan = json!({
        "pipeline": {"name": "p", "path": "p.yaml", "digest": digest},
        "source": {"kind": "adhoc", "dirty": true, "files_digest": digest},
        "intent": "exploratory", "controls": [], "workloads": [workload], "targets": [], "variants": [],
        "cases": [{"case_id": "w.llama.default", "workload": "w", "target": "llama", "variant": "default", "points": []}],
        "trial_policy": {"count": 1, "retry_budget": 0}, "isolation": isolation, "placement": "alternate",
        "order": {"seed": "00", "digest": digest}, "trials": [], "unpinned": [], "queries": [],
    });
    serde_json::from_value(plan).expect("a plan")
}

#[test]
fn what_would_reach_one_cache_of_several_is_refused() {
    let replica = |address: &str| ProvisionedReplica {
        address: address.to_owned(),
        pod: Some("a".to_owned()),
        version: assay_manifest::Fact::unknown("a test"),
        models: Vec::new(),
        process_start_s: None,
    };
    let check = |isolation: &str, cache: &str, pods: usize, replicas: usize| {
        let replicas: Vec<_> = (0..replicas).map(|_| replica("http://10.0.0.1:8000")).collect();
        check_caches(&plan(isolation, cache), &target(&json!([])), pods, &replicas).map_err(|failure| failure.message)
    };
    for (isolation, cache, pods, replicas) in [
        ("flush", "shared", 1, 0),
        ("flush", "shared", 2, 2),
        ("none", "cold_flush", 0, 0),
        ("none", "cold_flush", 2, 1),
        ("restart_target", "cold_salt", 2, 0),
        ("none", "warm", 2, 1),
    ] {
        assert_eq!(check(isolation, cache, pods, replicas), Ok(()), "{isolation} {cache} {pods} {replicas}");
    }
    let refused = |isolation, cache, replicas| check(isolation, cache, 2, replicas).expect_err("refused");
    insta::assert_snapshot!(refused("flush", "shared", 0), @"`isolation: flush` empties the cache of one pod, and target `llama` has 2, which cannot be reached one by one");
    insta::assert_snapshot!(refused("none", "cold_flush", 0), @"`cache: cold_flush` of the workload `w` empties the cache of one pod, and target `llama` has 2, which cannot be reached one by one");
    insta::assert_snapshot!(refused("none", "warm", 2), @"`cache: warm` of the workload `w` would warm one of the 2 servers of target `llama` with each prompt");
}
