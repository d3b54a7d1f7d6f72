//! The recordings are lists of pods as a real API server reported them, without the fields that nothing here reads: a Deployment of
//! one pod, scaled to two, back at one and rolled out anew, and its container once it had ended and was restarted.

use assay_cluster::{Pod, running_pods};
use assay_manifest::Fact;
use serde_json::{Value, json};

use super::*;

const BEFORE: &str = include_str!("recorded/before.json");
const SCALED: &str = include_str!("recorded/scaled.json");
const ROLLING: &str = include_str!("recorded/rolling.json");
const ROLLED_OUT: &str = include_str!("recorded/rolled-out.json");
const RESTARTED: &str = include_str!("recorded/restarted.json");

/// Returns the facts of the running pods of a recorded list, after `change` of its first pod.
fn changed_pods(list: &str, change: impl FnOnce(&mut Value)) -> Vec<PodFacts> {
    let mut list: Value = serde_json::from_str(list).expect("JSON");
    change(&mut list["items"][0]);
    let pods: Vec<Pod> = serde_json::from_value(list["items"].take()).expect("pods");
    running_pods(pods).iter().map(pod_facts).collect()
}

fn pods(list: &str) -> Vec<PodFacts> {
    changed_pods(list, |_| ())
}

fn target(kind: TargetKind, pods: Vec<PodFacts>) -> ProvisionedTarget {
    ProvisionedTarget {
        id: "vllm".parse().expect("a name"),
        kind,
        hosts: Vec::new(),
        address: None,
        version: Fact::unknown("a test"),
        server: None,
        models: Vec::new(),
        process_start_s: None,
        cache_block_tokens: None,
        replicas: Vec::new(),
        image: None,
        pods,
        pod_selector: Some(PodSelector { namespace: "serving".to_owned(), labels: "app=vllm".to_owned() }),
        settings: std::collections::BTreeMap::new(),
        executables: Vec::new(),
        allowed_cpus: None,
        core_cpus: None,
        probes: Vec::new(),
    }
}

/// Returns the message of the drift between two states of a target's pods; empty if there is none.
fn drift(then: &[PodFacts], now: &[PodFacts]) -> String {
    let failure = pod_drift(&target(TargetKind::Objects, then.to_vec()), now);
    assert!(failure.as_ref().is_none_or(|failure| failure.code == ErrorCode::Drift));
    failure.map(|failure| failure.message).unwrap_or_default()
}

#[test]
fn a_rollout_and_scaling_are_other_pods() {
    assert_eq!(drift(&pods(BEFORE), &pods(BEFORE)), "");
    insta::assert_snapshot!(drift(&pods(BEFORE), &pods(SCALED)), @"the target `vllm`: its pods changed since it was provisioned (new: `vllm-749789595f-f7mq2`)");
    insta::assert_snapshot!(drift(&pods(SCALED), &pods(BEFORE)), @"the target `vllm`: its pods changed since it was provisioned (gone: `vllm-749789595f-f7mq2`)");
    insta::assert_snapshot!(drift(&pods(BEFORE), &pods(ROLLED_OUT)), @"the target `vllm`: its pods changed since it was provisioned (gone: `vllm-749789595f-hvbxh`; new: `vllm-7cdb7b9669-fkbhl`)");
    assert_eq!(
        drift(&pods(BEFORE), &pods(ROLLING)),
        drift(&pods(BEFORE), &pods(ROLLED_OUT)),
        "a pod that is being deleted has gone"
    );
    insta::assert_snapshot!(drift(&pods(BEFORE), &[]), @"the target `vllm`: its pods changed since it was provisioned (gone: `vllm-749789595f-hvbxh`)");
}

#[test]
fn a_restart_another_image_and_a_pod_that_is_not_ready_are_named() {
    insta::assert_snapshot!(drift(&pods(ROLLED_OUT), &pods(RESTARTED)), @"the target `vllm`: the container `vllm` of its pod `vllm-7cdb7b9669-fkbhl` had restarted 0 times when it was provisioned, 1 times now");
    let image = changed_pods(ROLLED_OUT, |pod| {
        pod["status"]["containerStatuses"][0]["imageID"] = json!(format!("assay.test/pause@sha256:{}", "0".repeat(64)));
    });
    insta::assert_snapshot!(drift(&pods(ROLLED_OUT), &image), @"the target `vllm`: the container `vllm` of its pod `vllm-7cdb7b9669-fkbhl` ran `assay.test/pause@sha256:5f13346278eba42db41e79a44abe73febd87423523afc032535d8f61e5b1dd74` when it was provisioned, and runs `assay.test/pause@sha256:0000000000000000000000000000000000000000000000000000000000000000` now");
    let not_ready = changed_pods(SCALED, |pod| {
        for condition in pod["status"]["conditions"].as_array_mut().expect("conditions") {
            condition["status"] = json!("False");
        }
    });
    insta::assert_snapshot!(drift(&pods(SCALED), &not_ready), @"the target `vllm`: ready pods: 2 when it was provisioned, 1 now");
}

#[test]
fn what_identifies_no_pod_is_no_change() {
    let other = changed_pods(BEFORE, |pod| {
        pod["metadata"]["labels"]["canary"] = json!("true");
        pod["status"]["podIP"] = json!("10.0.0.9");
    });
    assert_eq!(drift(&pods(BEFORE), &other), "");
    let mut reversed = pods(SCALED);
    reversed.reverse();
    assert_eq!(drift(&pods(SCALED), &reversed), "");
}

#[test]
fn a_missing_right_is_named_with_how_it_is_given() {
    let message = "pods is forbidden: User \"system:serviceaccount:assay:assay-execute\" cannot list resource \"pods\"";
    let refused = |kind, refusal| {
        let found = target(kind, Vec::new());
        let error = assay_cluster::Error::Refused { refusal, message: message.to_owned() };
        add_right_hint(error, &found, found.pod_selector.as_ref().expect("a selector"))
    };
    insta::assert_snapshot!(refused(TargetKind::Objects, Refusal::Forbidden), @r#"
    error[forbidden]: execute compares the pods of target `vllm` with those that were provisioned: the API server denies the request: pods is forbidden: User "system:serviceaccount:assay:assay-execute" cannot list resource "pods"

    hint: `assay bootstrap`, run again, or `assay render kubernetes` gives the service account `assay-execute` the right to list the pods of namespace `serving`
    "#);
    insta::assert_snapshot!(refused(TargetKind::InferenceService, Refusal::Forbidden), @r#"
    error[forbidden]: execute compares the pods of target `vllm` with those that were provisioned: the API server denies the request: pods is forbidden: User "system:serviceaccount:assay:assay-execute" cannot list resource "pods"

    hint: `--serving-namespace serving` of `assay bootstrap` or `assay render kubernetes` gives the service account `assay-execute` the right to list the pods of namespace `serving`
    "#);
    let quota = assay_cluster::Error::Refused { refusal: Refusal::Quota, message: message.to_owned() };
    assert_eq!(refused(TargetKind::Objects, Refusal::Quota), Failure::from(quota));
}
