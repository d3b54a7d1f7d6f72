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
