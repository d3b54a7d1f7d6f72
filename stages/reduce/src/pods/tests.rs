use assay_manifest::{Attempt, HostState};
use assay_telemetry::cluster::MAX_TEXT;
use assay_warehouse::Value;
use serde_json::{Value as Json, json};

use super::*;
use crate::evidence::ShardAttempt;
use crate::fixture::{Run, attempt, collected, place, plan};

const IMAGE: &str = "registry.example.org/assay@sha256:0123456789012345678901234567890123456789012345678901234567890123";

/// A Job of execute as the API server returns it, admitted after this many seconds if it was.
fn job(let_go: Option<u32>) -> Json {
    let mut job = json!({
        "metadata": {
            "name": "nightly-execute-01234567", "namespace": "assay", "uid": "job-uid", "resourceVersion": "815",
            "creationTimestamp": "2026-11-20T12:00:00Z",
            "labels": {"assay.dev/run": "nightly", "assay.dev/stage": "execute", "kueue.x-k8s.io/queue-name": "load"},
        },
        "spec": {"completions": 2, "suspend": let_go.is_none()},
        "status": {"conditions": [{"type": "Suspended", "status": if let_go.is_none() { "True" } else { "False" }}]},
    });
    if let Some(seconds) = let_go {
        job["status"]["startTime"] = json!(format!("2026-11-20T12:00:{seconds:02}Z"));
    }
    job
}

/// A pod of the Job, with this state of its container.
fn pod(name: &str, shard: &str, state: &Json) -> Json {
    json!({
        "metadata": {
            "name": format!("nightly-execute-01234567-{shard}-{name}"), "uid": format!("{name}-uid"),
            "creationTimestamp": "2026-11-20T12:00:42Z",
            "labels": {
                "assay.dev/stage": "execute", "batch.kubernetes.io/controller-uid": "job-uid",
                "batch.kubernetes.io/job-completion-index": shard,
            },
        },
        "spec": {"nodeName": "load-1", "containers": [{"name": "assay", "image": IMAGE}]},
        "status": {
            "phase": if state["terminated"].is_object() { "Succeeded" } else { "Running" },
            "conditions": [
                {"type": "Initialized", "status": "True", "lastTransitionTime": "2026-11-20T12:00:44Z"},
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-20T12:00:45Z"},
            ],
            "containerStatuses": [{"name": "assay", "image": IMAGE, "imageID": IMAGE, "restartCount": 0, "state": state}],
        },
    })
}

fn ended() -> Json {
    let terminated = json!({
        "exitCode": 0, "reason": "Completed", "startedAt": "2026-11-20T12:00:46Z", "finishedAt": "2026-11-20T12:01:46Z",
    });
    json!({"terminated": terminated})
}

fn shown(row: &Row) -> String {
    let shown = |value: &Value| match value {
        Value::Text(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        Value::Instant(at) => at.to_seconds(),
        other => format!("{other:?}"),
    };
    let skipped = ["run_id", "artifact_manifest_digest", "cluster_region_key", "row_id"];
    let told = row.iter().filter(|(column, value)| **value != Value::Null && !skipped.contains(&column.name));
    told.map(|(column, value)| format!("{}: {}", column.name, shown(value))).collect::<Vec<_>>().join("\n")
}

/// Returns the rows of these objects in a run with these attempts.
fn rows_with(found: Vec<ShardAttempt>, jobs: &Json, pods: &Json) -> Vec<Row> {
    let plan = plan(1);
    let run = Run::with_attempts(plan.clone(), vec![(plan.trials[0].clone(), found)]);
    let (context, dimensions) = (run.context(), run.dimensions());
    let facts = ClusterFacts::read(jobs.to_string().as_bytes(), pods.to_string().as_bytes(), &LABELS);
    assert_eq!(facts.left_out, Vec::<String>::new());
    let recorded = recorded_pods(&context);
    facts.pods.iter().map(|pod| row(&context, &dimensions, pod, recorded.get(pod.uid.as_str())).expect("a row")).collect()
}

fn rows(jobs: &Json, pods: &Json) -> String {
    rows_with(Vec::new(), jobs, pods).iter().map(shown).collect::<Vec<_>>().join("\n\n")
}

#[test]
fn a_pod_that_has_ended() {
    insta::assert_snapshot!(rows(&json!([job(Some(40))]), &json!([pod("a", "1", &ended())])), @r"
    job_uid: job-uid
    pod_uid: a-uid
    node_name: load-1
    stage: execute
    shard: 1
    job_name: nightly-execute-01234567
    pod_name: nightly-execute-01234567-1-a
    queue: load
    created_unix_ns: 2026-11-20T12:00:42Z
    scheduled_unix_ns: 2026-11-20T12:00:45Z
    started_unix_ns: 2026-11-20T12:00:46Z
    ended_unix_ns: 2026-11-20T12:01:46Z
    queueing_ns: 40000000000
    scheduling_ns: 3000000000
    phase: Succeeded
    reason: Completed
    exit_code: 0
    restarts: 0
    image: registry.example.org/assay@sha256:0123456789012345678901234567890123456789012345678901234567890123
    image_id: registry.example.org/assay@sha256:0123456789012345678901234567890123456789012345678901234567890123
    attempts: 0
    ");
}

#[test]
fn every_column_has_a_writer() {
    let plan = plan(1);
    let state = |us: u64| -> HostState {
        serde_json::from_value(json!({
            "at": "2026-01-01T00:00:00.000000000Z", "cgroup_throttled_us": us.to_string(), "frequencies_khz": [],
            "temperatures_millicelsius": {},
        }))
        .expect("a state")
    };
    let tried = Attempt {
        place: Some(place("load-1", "a")),
        host_before: Some(state(1)),
        host_after: Some(state(2)),
        ..attempt(&plan.trials[0], 0, true)
    };
    let found = vec![ShardAttempt { collected: collected(0, true), attempt: tried }];
    let rows = rows_with(found, &json!([job(Some(41))]), &json!([pod("a", "0", &ended())]));
    crate::fixture::assert_filled(&CLUSTER_POD_FACT, &rows, &[]);
}

#[test]
fn a_pod_is_told_by_assays_container_and_by_what_failed_before_it() {
    let mut beside = pod("a", "0", &ended());
    let other = json!({"name": "other", "imageID": "other", "state": {"terminated": {"exitCode": 7}}});
    beside["status"]["containerStatuses"] = json!([other, beside["status"]["containerStatuses"][0]]);
    beside["spec"]["containers"] = json!([{"name": "other", "image": "other"}, {"name": "assay", "image": IMAGE}]);
    let told = rows(&json!([]), &json!([beside]));
    assert!(told.contains("exit_code: 0") && told.contains(&format!("image: {IMAGE}\nimage_id: {IMAGE}")), "{told}");
    let mut before = pod("a", "0", &json!({"waiting": {"reason": "PodInitializing"}}));
    let failed = json!({"name": "programs", "state": {"terminated": {"exitCode": 30, "reason": "Error"}}});
    before["status"]["initContainerStatuses"] = json!([{"name": "first", "state": {"terminated": {"exitCode": 0}}}, failed]);
    let told = rows(&json!([]), &json!([before]));
    assert!(told.contains("reason: Error\nexit_code: 30"), "{told}");
}

#[test]
fn a_pod_that_runs_under_a_job_that_nobody_lists() {
    let running = json!({"running": {"startedAt": "2026-11-20T12:00:46Z"}});
    insta::assert_snapshot!(rows(&json!([]), &json!([pod("a", "0", &running)])), @r"
    job_uid: job-uid
    pod_uid: a-uid
    node_name: load-1
    stage: execute
    shard: 0
    pod_name: nightly-execute-01234567-0-a
    created_unix_ns: 2026-11-20T12:00:42Z
    scheduled_unix_ns: 2026-11-20T12:00:45Z
    started_unix_ns: 2026-11-20T12:00:46Z
    scheduling_ns: 3000000000
    phase: Running
    restarts: 0
    image: registry.example.org/assay@sha256:0123456789012345678901234567890123456789012345678901234567890123
    image_id: registry.example.org/assay@sha256:0123456789012345678901234567890123456789012345678901234567890123
    attempts: 0
    ");
}

#[test]
fn a_pod_that_was_evicted_says_so() {
    let mut evicted = pod("a", "0", &json!({"terminated": {"exitCode": 137, "reason": "Error"}}));
    evicted["status"]["reason"] = json!("Evicted");
    evicted["status"]["phase"] = json!("Failed");
    let rows = rows(&json!([job(None)]), &json!([evicted]));
    assert!(rows.contains("reason: Evicted\nexit_code: 137\n"), "{rows}");
    assert!(rows.contains("queue: load") && !rows.contains("queueing_ns"), "it was never let go: {rows}");
}

#[test]
fn what_a_pod_recorded_stands_beside_what_was_said_of_it() {
    let state = |us: u64| -> HostState {
        let state = json!({
            "at": "2026-11-20T12:00:50.000000000Z", "cgroup_throttled_us": us.to_string(), "frequencies_khz": [],
            "temperatures_millicelsius": {},
        });
        serde_json::from_value(state).expect("a state")
    };
    let found = |number: u32, name: &str, throttled: Option<(u64, u64)>| {
        let planned = plan(1).trials.remove(0);
        let (host_before, host_after) = (throttled.map(|(before, _)| state(before)), throttled.map(|(_, after)| state(after)));
        let attempt = Attempt { place: Some(place("load-1", name)), host_before, host_after, ..attempt(&planned, number, true) };
        ShardAttempt { collected: collected(number, true), attempt }
    };
    let all = vec![found(0, "a", Some((0, 5))), found(1, "a", Some((5, 7))), found(2, "b", Some((0, 1))), found(3, "b", None)];
    let pods = json!([pod("a", "0", &ended()), pod("b", "1", &ended()), pod("c", "2", &ended())]);
    let told = rows_with(all, &json!([]), &pods);
    let told: Vec<_> = told.iter().map(|row| (row.get("attempts"), row.get("cpu_throttled_ns"))).collect();
    let (two, none) = (Value::Int(2), Value::Int(0));
    let expected = [(Some(&two), Some(&Value::Int(7_000))), (Some(&two), Some(&Value::Null)), (Some(&none), Some(&Value::Null))];
    assert_eq!(told, expected);
}

#[test]
fn odd_objects_are_no_failure() {
    let odd = json!([
        null, 5, "pod", [], {}, {"metadata": 5}, {"metadata": {"uid": ""}}, {"metadata": {"uid": "x".repeat(MAX_TEXT + 1)}},
        {"metadata": {"uid": "only"}, "spec": [], "status": {"conditions": {}, "containerStatuses": "none"}},
        {"metadata": {"uid": "only", "name": "again"}},
        {
            "metadata": {"uid": "late", "creationTimestamp": "2026-11-20T12:00:42Z", "labels": {INDEX_LABEL: "-1"}},
            "status": {
                "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-20T12:00:41Z"}],
                "containerStatuses": [{"restartCount": -1, "state": {"terminated": {"exitCode": 1e300, "finishedAt": "soon"}}}],
            },
        },
    ]);
    insta::assert_snapshot!(rows(&odd, &odd), @r"
    pod_uid: only
    attempts: 0

    pod_uid: late
    created_unix_ns: 2026-11-20T12:00:42Z
    scheduled_unix_ns: 2026-11-20T12:00:41Z
    attempts: 0
    ");
}
