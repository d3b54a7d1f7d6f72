use assay_manifest::HostFacts;
use serde_json::{Value, json};

use super::*;

/// An environment whose target has these pods (name, role, GPUs) and these declarations; its host shows `seen` GPUs.
fn environment(pods: &[(&str, Option<&str>, &str)], declared: &[(&str, &str)], seen: Option<usize>) -> Environment {
    let unknown = json!({"source": "unknown", "how": "nobody looked"});
    let pod = |(name, role, gpus): &(&str, Option<&str>, &str)| {
        let limits = if gpus.is_empty() { json!({"cpu": "8"}) } else { json!({"cpu": "8", "nvidia.com/gpu": gpus}) };
        let container = json!({
            "name": "main", "image": {"reference": "vllm"}, "command": [], "env": [], "limits": limits, "restarts": 0,
        });
        let mut pod = json!({"name": name, "uid": name, "node": "node", "ready": true, "containers": [container]});
        if let Some(role) = role {
            pod["role"] = json!(role);
        }
        pod
    };
    let mut facts = HostFacts::unknown("nobody looked");
    if let Some(seen) = seen {
        let gpu = json!({"uuid": "u", "model": "H200", "memory_bytes": "1", "driver_version": "1", "pci_bus_id": "0", "clocks": "default"});
        let gpus: Vec<Value> = vec![gpu; seen];
        facts.gpus = serde_json::from_value(json!({"value": gpus, "source": "observed", "how": "nvidia-smi"})).expect("GPUs");
    }
    let placement: serde_json::Map<String, Value> =
        declared.iter().map(|(name, value)| (format!("declared/t/{name}"), json!(value))).collect();
    serde_json::from_value(json!({
        "plan_digest": assay_manifest::Digest::compute(b""), "block": {"index": 0, "incarnation": 0},
        "observed_at": "2026-01-01T00:00:00.000000000Z", "hosts": [{"name": "node", "roles": ["target"], "facts": facts}],
        "software": [], "controls": [], "placement": placement, "readings": [],
        "targets": [{
            "id": "t", "kind": "endpoint", "hosts": ["node"], "version": unknown, "models": [], "probes": [],
            "pods": pods.iter().map(pod).collect::<Vec<_>>(),
        }],
    }))
    .expect("an environment")
}

/// Displays the counts of these blocks: all, then those of each role or the reason why they are not known.
fn counts(blocks: &[Environment]) -> String {
    let case = json!({"case_id": "w.t.default", "workload": "w", "target": "t", "variant": "default", "points": []});
    let case: Case = serde_json::from_value(case).expect("a case");
    let display = |counts: GpuCounts| {
        let roles =
            counts.by_role.map_or_else(|why| why, |RoleGpus { prefill, decode }| format!("{prefill} prefill, {decode} decode"));
        format!("{}: {roles}", counts.all)
    };
    count(&blocks.iter().collect::<Vec<_>>(), &case).map_or_else(|why| why, display)
}

const PREFILL: Option<&str> = Some("prefill");
const DECODE: Option<&str> = Some("decode");

#[test]
fn labels_of_pods_give_the_roles_of_their_gpus() {
    let pods = [("p", PREFILL, "4"), ("d0", DECODE, "8"), ("d1", DECODE, "8"), ("scheduler", None, "")];
    assert_eq!(
        counts(&[environment(&pods, &[("gpu_count", "99")], Some(3))]),
        "20: 4 prefill, 16 decode",
        "what pods may use comes first"
    );
}

#[test]
fn without_labels_a_declaration_gives_the_roles() {
    let declared = [("prefill_gpu_count", "4"), ("decode_gpu_count", "8")];
    assert_eq!(counts(&[environment(&[], &declared, None)]), "12: 4 prefill, 8 decode");
    assert_eq!(counts(&[environment(&[("a", None, "12")], &declared, None)]), "12: 4 prefill, 8 decode");
    assert_eq!(counts(&[environment(&[("d", DECODE, "12")], &declared, None)]), "12: 4 prefill, 8 decode");
    assert_eq!(counts(&[environment(&[("a", None, "")], &declared, Some(0))]), "12: 4 prefill, 8 decode", "a probe sees none");
    insta::assert_snapshot!(counts(&[environment(&[], &declared, Some(8))]), @"8: 4 GPUs for prefill and 8 for decode are declared, and the target has 8");
    insta::assert_snapshot!(counts(&[environment(&[], &declared, Some(0))]), @"0: 4 GPUs for prefill and 8 for decode are declared, and the target has 0");
}

#[test]
fn a_role_that_is_not_known_has_a_reason() {
    let of = |pods: &[(&str, Option<&str>, &str)]| counts(&[environment(pods, &[("prefill_gpu_count", "4")], None)]);
    insta::assert_snapshot!(of(&[("p", PREFILL, "4"), ("a", None, "8")]), @"12: no label of the pod `a` says that its GPUs are for prefill or for decode; declare `prefill_gpu_count` and `decode_gpu_count` in the target's `hardware`");
    insta::assert_snapshot!(of(&[("p", PREFILL, "4")]), @"4: none of its pods that have GPUs is for decode; declare `prefill_gpu_count` and `decode_gpu_count` in the target's `hardware`");
    insta::assert_snapshot!(of(&[("d", DECODE, "4")]), @"4: none of its pods that have GPUs is for prefill; declare `prefill_gpu_count` and `decode_gpu_count` in the target's `hardware`");
    insta::assert_snapshot!(counts(&[environment(&[], &[("gpu_count", "8")], None)]), @"8: the roles of its GPUs are unknown; declare `prefill_gpu_count` and `decode_gpu_count` in the target's `hardware`");
    insta::assert_snapshot!(counts(&[environment(&[], &[], None)]), @"the GPUs of `node` are unknown (nobody looked); declare `gpu_count` in the target's `hardware`");
}

#[test]
fn blocks_have_to_agree() {
    let block = |prefill: &str, decode: &str| environment(&[("p", PREFILL, prefill), ("d", DECODE, decode)], &[], None);
    assert_eq!(counts(&[block("4", "8"), block("4", "8")]), "12: 4 prefill, 8 decode");
    insta::assert_snapshot!(counts(&[block("4", "8"), block("8", "4")]), @"12: the roles of the target's GPUs differ between blocks");
    insta::assert_snapshot!(counts(&[block("4", "8"), block("4", "4")]), @"the target's number of GPUs differs between blocks");
    insta::assert_snapshot!(counts(&[]), @"no environment tells of target `t`");
}
