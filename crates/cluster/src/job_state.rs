//! The state of a Job, from its conditions, pods and events: waiting, running, succeeded or failed, with the reason.

use assay_failure::{Exit, Failure};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Event, Pod, PodStatus};

use crate::{JobFailure, Obstacle, PodEnd, PodFailure, PodRefusal, Trouble};

/// The name of the container in Assay's own pods.
const OWN_CONTAINER: &str = "assay";

/// The state of a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Some pods have not started yet; with the trouble, if any is reported.
    Waiting(Option<Trouble>),
    /// All of its pods run or have ended.
    Running,
    /// All of its pods have succeeded.
    Succeeded,
    /// It has failed and will not be retried.
    Failed(JobFailure),
}

/// Returns the state of a Job of `shards` pods.
pub fn job_state(job: Option<&Job>, pods: &[&Pod], events: &[Event], shards: u32) -> JobState {
    let condition = |kind: &str| {
        let conditions = job.and_then(|job| job.status.as_ref()?.conditions.as_ref());
        conditions.and_then(|all| all.iter().find(|condition| condition.type_ == kind && condition.status == "True"))
    };
    // `FailureTarget` and `SuccessCriteriaMet` come first: they announce a decided outcome while pods still end.
    if condition("Complete").or(condition("SuccessCriteriaMet")).is_some() {
        return JobState::Succeeded;
    }
    if let Some(failed) = condition("Failed").or(condition("FailureTarget")) {
        let (reason, message) = (failed.reason.as_deref().unwrap_or_default(), failed.message.as_deref().unwrap_or_default());
        return JobState::Failed(failure_of_job(reason, message, pods));
    }
    if let Some(lasting) = pods.iter().filter_map(|pod| failure_of_pod(pod)).find(PodFailure::is_lasting) {
        return JobState::Failed(JobFailure::Pod(lasting));
    }
    let succeeded = pods.iter().filter(|pod| phase(pod) == "Succeeded").count();
    if succeeded >= shards as usize && distinct_indexes(pods, "Succeeded") >= shards as usize {
        return JobState::Succeeded;
    }
    let live: Vec<_> = pods.iter().filter(|pod| matches!(phase(pod), "Running" | "Succeeded")).collect();
    if live.len() >= shards as usize {
        return JobState::Running;
    }
    let of_pods = pods.iter().filter(|pod| phase(pod) == "Pending").find_map(|pod| trouble_of_pod(pod));
    let is_waiting = pods.iter().all(|pod| phase(pod) != "Running");
    let of_job = || is_waiting.then(|| events.iter().rev().find_map(trouble_of_event)).flatten();
    let suspended = || {
        let is_suspended = job.and_then(|job| job.spec.as_ref()?.suspend).unwrap_or(false);
        is_suspended.then_some(Trouble { obstacle: Obstacle::Queue { pod: None, message: None }, lasts: false })
    };
    JobState::Waiting(of_pods.or_else(of_job).or_else(suspended))
}

/// Returns the phase of a pod, empty if none is reported yet.
pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// Returns true if a pod is ready to serve, as its condition `Ready` says.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.filter(|condition| condition.type_ == "Ready").any(|condition| condition.status == "True")
}

/// Counts the distinct indexes of pods: pods of one index are one shard, however often it was replaced.
fn distinct_indexes(pods: &[&Pod], in_phase: &str) -> usize {
    let index = |pod: &&Pod| {
        let labels = pod.metadata.labels.as_ref()?;
        labels.get(assay_stage::pod::INDEX_LABEL).cloned()
    };
    let mut indexes: Vec<_> = pods.iter().filter(|pod| phase(pod) == in_phase).map(index).collect();
    indexes.sort();
    indexes.dedup();
    indexes.len()
}

/// Returns true if a pod runs or has run, so that it may have a log.
pub fn has_begun(pod: &Pod) -> bool {
    matches!(phase(pod), "Running" | "Succeeded" | "Failed")
}

/// Returns true if a Job has succeeded or failed.
pub fn has_ended(job: &Job) -> bool {
    matches!(job_state(Some(job), &[], &[], 1), JobState::Succeeded | JobState::Failed(_))
}

/// Returns the trouble of a pod that belongs to no Job: it has ended, or it cannot start. `None` if no trouble is known.
pub fn trouble_of(pod: &Pod) -> Option<Trouble> {
    if let Some(failure) = failure_of_pod(pod) {
        return Some(Trouble { obstacle: Obstacle::Failed(failure), lasts: true });
    }
    match phase(pod) {
        "Succeeded" => Some(Trouble { obstacle: Obstacle::Ended, lasts: true }),
        _ => trouble_of_pod(pod),
    }
}

/// Returns the image that a pod's node really runs, as the node names it, with its digest.
pub fn pod_image(pod: &Pod) -> Option<(String, Option<assay_manifest::Digest>)> {
    let id = container(pod)?.image_id.clone();
    let digest = id.rsplit_once('@').and_then(|(_, digest)| digest.parse().ok());
    (!id.is_empty()).then_some((id, digest))
}

/// Returns why a pod has failed; `None` if it has not failed.
pub fn failure_of_pod(pod: &Pod) -> Option<PodFailure> {
    let status = pod.status.as_ref()?;
    if phase(pod) != "Failed" {
        return None;
    }
    let name = pod.metadata.name.as_deref().unwrap_or("a pod");
    let message = status.message.as_deref().unwrap_or_default();
    let terminated = container(pod).and_then(terminated);
    let ended = |end: PodEnd, reason: &str, message: &str| PodFailure::Ended {
        pod: name.to_owned(),
        end,
        detail: detail(reason, message),
        output: String::new(),
    };
    if let Some(reason) = status.reason.as_deref() {
        let end = match reason {
            "Evicted" => PodEnd::Evicted,
            "NodeLost" | "NodeShutdown" | "Terminated" => PodEnd::NodeLost,
            "Preempted" | "Preempting" => PodEnd::Preempted,
            "DeadlineExceeded" => PodEnd::TimeLimit,
            _ => PodEnd::Failed,
        };
        return Some(ended(end, reason, message));
    }
    let disrupted =
        status.conditions.iter().flatten().find(|condition| condition.type_ == "DisruptionTarget" && condition.status == "True");
    if let Some(disrupted) = disrupted {
        let (reason, message) = (disrupted.reason.as_deref(), disrupted.message.as_deref());
        return Some(ended(PodEnd::Disrupted, reason.unwrap_or_default(), message.unwrap_or_default()));
    }
    let failure = terminated.map(|ended| failure_of_container(name, pod, ended)).or_else(|| failure_of_setup(name, pod, status));
    Some(failure.unwrap_or_else(|| ended(PodEnd::Unexplained, "", "")))
}

/// Returns why a pod's container was never started: an init container has failed.
fn failure_of_setup(pod_name: &str, pod: &Pod, status: &PodStatus) -> Option<PodFailure> {
    let mut before = status.init_container_statuses.iter().flatten().filter_map(|status| Some((status, terminated(status)?)));
    let (container, ended) = before.find(|(_, ended)| ended.exit_code != 0)?;
    let (reason, exit_code) = (ended.reason.as_deref().unwrap_or_default(), ended.exit_code);
    if !is_own(pod) {
        let (container, detail) = (container.name.clone(), reason.to_owned());
        return Some(PodFailure::InitContainer { container, pod: pod_name.to_owned(), exit_code, detail });
    }
    let message = ended.message.as_deref().unwrap_or_default().trim();
    Some(PodFailure::Ended {
        pod: pod_name.to_owned(),
        end: PodEnd::Programs(exit_code),
        detail: detail(reason, message),
        output: String::new(),
    })
}

/// Returns the cluster's message, or its reason if there is no message.
fn detail(reason: &str, message: &str) -> String {
    if message.is_empty() { reason.to_owned() } else { message.to_owned() }
}

fn container(pod: &Pod) -> Option<&ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first()
}

fn terminated(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    status.state.as_ref().and_then(|state| state.terminated.as_ref())
}

/// Returns true if a pod runs a program of Assay's.
fn is_own(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.containers.first()).is_some_and(|container| container.name == OWN_CONTAINER)
}

/// Returns why a container failed. A stage reports its own failure, except if it was killed. Only stages are believed: the
/// message of a target's container is the target's own.
fn failure_of_container(pod_name: &str, pod: &Pod, ended: &ContainerStateTerminated) -> PodFailure {
    let reason = ended.reason.as_deref().unwrap_or_default();
    let ended_by = |end: PodEnd, detail: &str, output: &str| PodFailure::Ended {
        pod: pod_name.to_owned(),
        end,
        detail: detail.to_owned(),
        output: output.to_owned(),
    };
    if reason == "OOMKilled" {
        let limit = pod.spec.as_ref().and_then(|spec| {
            let limits = spec.containers.first()?.resources.as_ref()?.limits.as_ref()?;
            limits.get("memory").map(|quantity| quantity.0.clone())
        });
        return ended_by(PodEnd::OutOfMemory(limit), "", "");
    }
    if !is_own(pod) {
        return ended_by(PodEnd::TargetExit(ended.exit_code), reason, "");
    }
    if let Some(failure) = ended.message.as_deref().and_then(|text| serde_json::from_str::<Failure>(text).ok()) {
        // The exit code is the kernel's, so it outranks the message.
        let exit = match ended.exit_code {
            137 | 143 => Exit::Environment,
            code => Exit::from_code(code),
        };
        return PodFailure::Stage(Failure { exit: if exit == Exit::Done { Exit::Unexpected } else { exit }, ..failure });
    }
    let end = match ended.exit_code {
        137 | 143 => PodEnd::Killed,
        code if code > 128 => PodEnd::Signal(code - 128),
        code => PodEnd::StageExit(code),
    };
    match ended.message.as_deref().map(str::trim) {
        Some(tail) if !tail.is_empty() => ended_by(end, "", tail),
        _ => ended_by(end, reason, ""),
    }
}

/// Returns why a Job has failed: from its pods, except if the Job as a whole was stopped.
fn failure_of_job(reason: &str, message: &str, pods: &[&Pod]) -> JobFailure {
    if reason == "DeadlineExceeded" {
        let waits = pods.iter().filter(|pod| phase(pod) == "Pending").find_map(|pod| trouble_of_pod(pod));
        return JobFailure::TimeLimit(waits.map(|waits| waits.obstacle));
    }
    let mut failures: Vec<_> = pods.iter().filter_map(|pod| Some((ended_at(pod), failure_of_pod(pod)?))).collect();
    failures.sort_by(|(one, _), (other, _)| one.cmp(other));
    // A failure that cannot be retried is the reason of the Job's; otherwise the last one.
    let last = failures.iter().rev().map(|(_, failure)| failure);
    let worst = last.clone().find(|failure| failure.exit() != Exit::Environment).or_else(|| last.clone().next());
    match worst {
        Some(failure) => JobFailure::Pod(failure.clone()),
        None => JobFailure::Unexplained(detail(reason, message)),
    }
}

fn ended_at(pod: &Pod) -> Option<String> {
    container(pod).and_then(terminated)?.finished_at.as_ref().map(|at| at.0.to_string())
}

fn passing(obstacle: Obstacle) -> Trouble {
    Trouble { obstacle, lasts: false }
}

/// Returns the labels that a pod demands of its node, which the scheduler does not name: `CPU_MODEL=94`.
fn demanded_labels(pod: &Pod) -> Vec<String> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let selected = spec.node_selector.iter().flatten().map(|(name, value)| format!("{name}={value}"));
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
    let terms = required.iter().flat_map(|required| &required.node_selector_terms);
    let expressions = terms.flat_map(|term| term.match_expressions.iter().flatten());
    let of_affinity = expressions.map(|demand| match (demand.operator.as_str(), demand.values.as_deref().unwrap_or_default()) {
        ("In", [value]) => format!("{}={value}", demand.key),
        (operator, values) => format!("{} {operator} {}", demand.key, values.join(" ")).trim_end().to_owned(),
    });
    selected.chain(of_affinity).collect()
}

/// Returns the trouble that keeps a pod from starting.
fn trouble_of_pod(pod: &Pod) -> Option<Trouble> {
    let name = pod.metadata.name.as_deref().unwrap_or("a pod");
    let status = pod.status.as_ref()?;
    let unscheduled = status.conditions.iter().flatten().find(|condition| {
        condition.type_ == "PodScheduled" && condition.status == "False" && condition.reason.as_deref() == Some("Unschedulable")
    });
    if let Some(condition) = unscheduled {
        let mut detail = condition.message.clone().unwrap_or_else(|| "the scheduler does not say why".to_owned());
        let demands = demanded_labels(pod);
        if detail.contains("node affinity/selector") && !demands.is_empty() {
            detail = format!("{}. It demands a node with the labels {}", detail.trim_end_matches('.'), demands.join(", "));
        }
        return Some(passing(Obstacle::Unschedulable { pod: name.to_owned(), detail }));
    }
    let gated = status.conditions.iter().flatten().any(|condition| {
        condition.type_ == "PodScheduled" && condition.status == "False" && condition.reason.as_deref() == Some("SchedulingGated")
    });
    if gated {
        return Some(passing(Obstacle::Queue { pod: Some(name.to_owned()), message: None }));
    }
    let mut containers = [&status.init_container_statuses, &status.container_statuses].into_iter().flatten().flatten();
    containers.find_map(|container| trouble_of_container(name, pod, container))
}

fn trouble_of_container(name: &str, pod: &Pod, container: &ContainerStatus) -> Option<Trouble> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref().unwrap_or_default();
    let (pod_name, detail) = (name.to_owned(), waiting.message.as_deref().unwrap_or(reason).to_owned());
    let spec = pod.spec.as_ref();
    let all = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers));
    let image = all.filter(|known| known.name == container.name).find_map(|known| known.image.clone()).unwrap_or_default();
    let of_image = |is_retried: bool| Trouble {
        obstacle: Obstacle::Image { image, pod: name.to_owned(), is_retried, detail: detail.clone() },
        lasts: !is_retried,
    };
    Some(match reason {
        "ErrImageNeverPull" | "InvalidImageName" => of_image(false),
        "ErrImagePull" | "ImagePullBackOff" | "RegistryUnavailable" => of_image(true),
        "CreateContainerConfigError" => passing(Obstacle::Setup { pod: Some(pod_name), detail }),
        "CreateContainerError" | "RunContainerError" => passing(Obstacle::Container { pod: pod_name, detail }),
        "CrashLoopBackOff" => passing(Obstacle::CrashLoop { container: container.name.clone(), pod: pod_name, detail }),
        _ => return None,
    })
}

/// Returns the trouble that keeps a Job from making pods, or a pod from being set up.
pub(crate) fn trouble_of_event(event: &Event) -> Option<Trouble> {
    let said = event.message.as_deref().unwrap_or_default();
    if matches!(event.reason.as_deref(), Some("FailedMount" | "FailedAttachVolume" | "FailedCreatePodSandBox")) {
        return Some(passing(Obstacle::Setup { pod: None, detail: said.to_owned() }));
    }
    if event.reason.as_deref() != Some("FailedCreate") {
        return None;
    }
    Some(trouble_of_refusal(said))
}

/// Classifies the cluster's message for why it makes no pod.
pub(crate) fn trouble_of_refusal(message: &str) -> Trouble {
    let refusal = if message.contains("exceeded quota") || message.contains("must specify limits") {
        PodRefusal::Quota
    } else if message.contains("violates PodSecurity") || message.contains("admission webhook") {
        PodRefusal::Admission
    } else if message.contains("forbidden") {
        PodRefusal::Forbidden
    } else {
        PodRefusal::Other
    };
    passing(Obstacle::NoPod { refusal, message: message.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_failure::ErrorCode;
    use serde_json::{Value, json};

    fn pod(status: Value) -> Pod {
        let spec = json!({"containers": [{
            "name": "assay", "image": "assay.test/assay@sha256:0", "resources": {"limits": {"memory": "48Mi"}},
        }]});
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec, "status": status})).expect("a pod")
    }

    fn failed(terminated: Value) -> Pod {
        pod(json!({"phase": "Failed", "containerStatuses": [container_in(&json!({"terminated": terminated}))]}))
    }

    fn container_in(state: &Value) -> Value {
        json!({"name": "assay", "image": "i", "imageID": "i", "ready": false, "restartCount": 0, "state": state})
    }

    fn waiting(reason: &str, message: &str) -> Pod {
        let state = json!({"waiting": {"reason": reason, "message": message}});
        pod(json!({"phase": "Pending", "containerStatuses": [container_in(&state)]}))
    }

    fn job(condition: &str, reason: &str) -> Job {
        let conditions = json!([{"type": condition, "status": "True", "reason": reason, "message": "m"}]);
        serde_json::from_value(json!({"metadata": {}, "status": {"conditions": conditions}})).expect("a Job")
    }

    fn pod_failure(pod: &Pod) -> Failure {
        failure_of_pod(pod).expect("failed").into()
    }

    fn describe_state(standing: JobState) -> String {
        match standing {
            JobState::Waiting(None) => "waiting".to_owned(),
            JobState::Waiting(Some(Trouble { obstacle, lasts })) => {
                format!("waiting[{}{}]: {obstacle}", obstacle.code(), if lasts { ", lasts" } else { "" })
            }
            JobState::Running => "running".to_owned(),
            JobState::Succeeded => "succeeded".to_owned(),
            JobState::Failed(failure) => Failure::from(failure).to_string(),
        }
    }

    fn describe_pods_state(pods: &[Pod]) -> String {
        describe_state(job_state(None, &pods.iter().collect::<Vec<_>>(), &[], 1))
    }

    #[test]
    fn a_stage_says_itself_why_it_failed() {
        let failure = Failure::new(ErrorCode::Drift, "another boot").lasting();
        let message = serde_json::to_string(&failure).expect("JSON");
        let pod = failed(json!({"exitCode": 30, "reason": "Error", "message": message}));
        assert_eq!(pod_failure(&pod), failure);
        // A lasting failure ends the stage at once, even if the Job would still retry.
        assert_eq!(job_state(None, &[&pod], &[], 1), JobState::Failed(JobFailure::Pod(PodFailure::Stage(failure))));
    }

    #[test]
    fn what_was_killed_is_told_by_the_cluster() {
        let told = |terminated| pod_failure(&failed(terminated)).to_string();
        insta::assert_snapshot!(told(json!({"exitCode": 137, "reason": "OOMKilled"})), @r"
        error[out_of_memory]: the pod `p` was killed at its memory limit of 48Mi

        hint: give the stage more with `resources: {memory: ...}` in the pipeline's `stages`
        ");
        insta::assert_snapshot!(told(json!({"exitCode": 137, "reason": "Error"})), @r"
        error[stage_killed]: the pod `p` was killed
          because: Error
        ");
        insta::assert_snapshot!(told(json!({"exitCode": 3, "reason": "Error", "message": "boom\n"})), @r"
        error[stage_failed]: the pod `p` ended with exit code 3 and said no reason

        hint: the last that it said:
        boom
        ");
        let evicted = pod(json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}));
        insta::assert_snapshot!(pod_failure(&evicted), @r"
        error[evicted]: the pod `p` was evicted from its node
          because: The node was low on resource: memory.
        ");
    }

    #[test]
    fn what_keeps_a_pod_from_starting_is_named() {
        let unschedulable = pod(json!({"phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available",
        }]}));
        insta::assert_snapshot!(describe_pods_state(&[unschedulable]), @"waiting[unschedulable]: no node takes the pod `p`: 0/1 nodes are available");
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
        let expressions =
            [expression("CPU_MODEL", "In", &["94"]), expression("gpu", "Exists", &[]), expression("zone", "NotIn", &["a", "b"])];
        let mut elsewhere = pod(json!({"phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
        }]}));
        elsewhere.spec = serde_json::from_value(json!({
            "containers": [], "nodeSelector": {"pool": "fast"},
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}},
        })).expect("a spec");
        insta::assert_snapshot!(describe_pods_state(&[elsewhere]), @"waiting[unschedulable]: no node takes the pod `p`: 0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. It demands a node with the labels pool=fast, CPU_MODEL=94, gpu Exists, zone NotIn a b");
        insta::assert_snapshot!(describe_pods_state(&[waiting("ErrImageNeverPull", "not present")]), @"waiting[image_pull, lasts]: the image `assay.test/assay@sha256:0` of the pod `p` cannot be had: not present");
        insta::assert_snapshot!(describe_pods_state(&[waiting("ImagePullBackOff", "back-off")]), @"waiting[image_pull]: the image `assay.test/assay@sha256:0` of the pod `p` cannot be pulled: back-off");
        insta::assert_snapshot!(describe_pods_state(&[waiting("CreateContainerConfigError", "secret \"k\" not found")]), @r#"waiting[pod_config]: the pod `p` cannot be set up: secret "k" not found"#);
        insta::assert_snapshot!(describe_pods_state(&[waiting("CrashLoopBackOff", "back-off 10s")]), @"waiting[crash_loop]: the container `assay` of the pod `p` ends again and again: back-off 10s");
        let gated = pod(
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
        );
        insta::assert_snapshot!(describe_pods_state(&[gated]), @"waiting[queue]: the pod `p` waits in its queue to be admitted");
        assert_eq!(describe_pods_state(&[waiting("ContainerCreating", "")]), "waiting");
        assert_eq!(describe_pods_state(&[]), "waiting");
    }

    #[test]
    fn what_comes_before_a_container_may_fail_too() {
        let with_setup = |phase: &str, state: Value| -> Pod {
            let spec = json!({
                "initContainers": [{"name": "programs", "image": "assay.test/assay@sha256:1"}],
                "containers": [{"name": "assay", "image": "example.org/own@sha256:0"}],
            });
            let mut before = container_in(&state);
            before["name"] = json!("programs");
            let status = json!({
                "phase": phase,
                "initContainerStatuses": [before],
                "containerStatuses": [container_in(&json!({"waiting": {"reason": "PodInitializing"}}))],
            });
            serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec, "status": status})).expect("a pod")
        };
        let pull = json!({"waiting": {"reason": "ErrImagePull", "message": "no such host"}});
        insta::assert_snapshot!(describe_pods_state(&[with_setup("Pending", pull)]), @"waiting[image_pull]: the image `assay.test/assay@sha256:1` of the pod `p` cannot be pulled: no such host");
        assert_eq!(describe_pods_state(&[with_setup("Pending", json!({"running": {}}))]), "waiting");
        let ended = json!({"terminated": {"exitCode": 30, "reason": "Error", "message": "error[lay]: no room\n"}});
        let mut pod = with_setup("Failed", ended);
        insta::assert_snapshot!(pod_failure(&pod), @r"
        error[programs]: the pod `p` could not be given the programs of its stage: exit code 30
          because: error[lay]: no room
        ");
        pod.spec.as_mut().expect("a spec").containers[0].name = "vllm".to_owned();
        let failure = pod_failure(&pod);
        assert_eq!(failure.code.as_str(), "pod_ended");
        assert_eq!(failure.message, "the init container `programs` of the pod `p` ended with exit code 30");
        assert_eq!(failure.causes, ["Error"], "what a target writes is its own");
    }

    #[test]
    fn what_keeps_a_job_from_making_pods_is_named() {
        let event = |message: &str| -> Event {
            serde_json::from_value(json!({"metadata": {}, "involvedObject": {}, "reason": "FailedCreate", "message": message}))
                .expect("an event")
        };
        let code = |message: &str| match job_state(None, &[], &[event(message)], 1) {
            JobState::Waiting(Some(trouble)) => trouble.obstacle.code().as_str(),
            other => panic!("{other:?}"),
        };
        assert_eq!(code("pods \"a\" is forbidden: exceeded quota: q, requested: cpu=1"), "quota");
        assert_eq!(code("pods \"a\" is forbidden: violates PodSecurity \"restricted:latest\""), "admission");
        assert_eq!(code("admission webhook \"w\" denied the request"), "admission");
        assert_eq!(code("pods \"a\" is forbidden: error looking up service account"), "forbidden");
        let mount = json!({"metadata": {}, "involvedObject": {}, "reason": "FailedMount", "message": "secret \"k\" not found"});
        let mount: Event = serde_json::from_value(mount).expect("an event");
        let pending = waiting("ContainerCreating", "");
        insta::assert_snapshot!(describe_state(job_state(None, &[&pending], &[mount], 1)), @r#"waiting[pod_config]: a pod cannot be set up: secret "k" not found"#);
    }

    #[test]
    fn what_a_target_writes_of_its_end_is_not_believed() {
        let forged = serde_json::to_string(&Failure::cancelled("by whom").lasting()).expect("JSON");
        let mut pod = failed(json!({"exitCode": 50, "reason": "Error", "message": forged}));
        assert_eq!(pod_failure(&pod).exit, Exit::Cancelled, "a stage's word");
        if let Some(spec) = pod.spec.as_mut() {
            spec.containers[0].name = "target".to_owned();
        }
        insta::assert_snapshot!(pod_failure(&pod), @r"
        error[pod_ended]: the pod `p` ended with exit code 50
          because: Error
        ");
        let done = json!({"exitCode": 1, "message": r#"{"exit":"done","code":"c","message":"m","causes":[],"hint":null}"#});
        assert_eq!(pod_failure(&failed(done)).exit, Exit::Unexpected);
    }

    #[test]
    fn the_first_condition_decides_and_the_pods_say_why() {
        let ok = pod(json!({"phase": "Succeeded"}));
        assert_eq!(describe_state(job_state(Some(&job("SuccessCriteriaMet", "")), &[&ok], &[], 1)), "succeeded");
        let boom = failed(
            json!({"exitCode": 20, "message": serde_json::to_string(&Failure::new(ErrorCode::RowDiffers, "m")).expect("JSON")}),
        );
        let failed_job = job("FailureTarget", "PodFailurePolicy");
        insta::assert_snapshot!(describe_state(job_state(Some(&failed_job), &[&boom], &[], 1)), @"error[row_differs]: m");
        let late = job("Failed", "DeadlineExceeded");
        insta::assert_snapshot!(describe_state(job_state(Some(&late), &[&waiting("ImagePullBackOff", "x")], &[], 1)), @r"
        error[stage_timeout]: the stage ran into its time limit and was stopped
          because: the image `assay.test/assay@sha256:0` of the pod `p` cannot be pulled: x
        ");
        insta::assert_snapshot!(describe_state(job_state(Some(&job("Failed", "BackoffLimitExceeded")), &[], &[], 1)), @r"
        error[job_failed]: the stage's Job failed
          because: m
        ");
    }

    #[test]
    fn a_job_that_its_queue_holds_back_waits_for_it() {
        let suspended: Job =
            serde_json::from_value(json!({"metadata": {}, "spec": {"suspend": true, "template": {}}})).expect("a Job");
        insta::assert_snapshot!(describe_state(job_state(Some(&suspended), &[], &[], 1)), @"waiting[queue]: it waits in its queue to be admitted");
    }

    #[test]
    fn a_shard_that_was_replaced_counts_once() {
        let of_index = |index: &str, phase: &str| -> Pod {
            serde_json::from_value(json!({
                "metadata": {"labels": {"batch.kubernetes.io/job-completion-index": index}}, "status": {"phase": phase},
            }))
            .expect("a pod")
        };
        let stands = |pods: &[Pod]| describe_state(job_state(None, &pods.iter().collect::<Vec<_>>(), &[], 2));
        assert_eq!(stands(&[of_index("0", "Succeeded"), of_index("1", "Succeeded")]), "succeeded");
        assert_eq!(stands(&[of_index("0", "Succeeded"), of_index("1", "Running")]), "running");
        assert_eq!(stands(&[of_index("0", "Running"), of_index("1", "Pending")]), "waiting");
    }
}
