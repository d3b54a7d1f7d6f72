//! The pod that reads the facts of a node that runs no other pod of Assay's: it has no key, no token and almost no network, and
//! ends when it has printed the facts.

use assay_manifest::{Digest, RunId};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::pod::{container_security, pod_security};
use crate::{MANAGED_BY, Object, RUN, phase, trouble_of};

/// A probe of one node.
pub struct ProbePod<'a> {
    /// The namespace that it runs in: that of the targets.
    pub namespace: &'a str,
    /// The run.
    pub run_id: &'a RunId,
    /// The block and incarnation that it is for.
    pub block: (u32, u32),
    /// The image of all stages, by digest.
    pub image: &'a str,
    /// The node.
    pub node: &'a str,
}

impl ProbePod<'_> {
    /// The pod's name.
    pub fn name(&self) -> String {
        let (block, incarnation) = self.block;
        let digest = Digest::compute(format!("{}/{}/{block}/{incarnation}", self.run_id, self.node).as_bytes());
        let short: String = digest.hex().chars().take(8).collect();
        format!("probe-{}-{short}", self.run_id)
    }
}

/// Builds the pod. It tolerates all taints of the node, because the targets run there.
pub fn probe_pod(probe: &ProbePod<'_>) -> Object {
    let is_it = json!({"key": "metadata.name", "operator": "In", "values": [probe.node]});
    let resources = json!({"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}});
    let mut pod = OncePod { namespace: probe.namespace, run_id: probe.run_id, image: probe.image }.pod(
        &probe.name(),
        &["/assay/assay-provision", "facts"],
        &resources,
    );
    pod["spec"]["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchFields": [is_it]}],
    }}});
    pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    pod
}

/// A pod that runs once and prints a result: no key, no token, no retry. Its placement is added to it.
pub(crate) struct OncePod<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) run_id: &'a RunId,
    pub(crate) image: &'a str,
}

impl OncePod<'_> {
    pub(crate) fn pod<C: AsRef<str>>(&self, name: &str, command: &[C], resources: &Value) -> Object {
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": {MANAGED_BY.0: MANAGED_BY.1, RUN: self.run_id},
            },
            "spec": {
                "automountServiceAccountToken": false,
                "containers": [{
                    "name": "probe",
                    "image": self.image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": command.iter().map(AsRef::as_ref).collect::<Vec<&str>>(),
                    "resources": resources,
                    "securityContext": container_security(),
                }],
                "enableServiceLinks": false,
                "restartPolicy": "Never",
                "securityContext": pod_security(),
                "terminationGracePeriodSeconds": 1,
            },
        })
    }
}

/// The state of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeState {
    /// It has printed its result.
    Done,
    /// It has not ended yet; with the trouble, if any is reported.
    Waiting(Option<String>),
    /// It will print no result.
    Failed(String),
}

/// Returns the state of a probe from its pod.
pub fn probe_state(pod: Option<&Pod>) -> ProbeState {
    let Some(pod) = pod else { return ProbeState::Failed("the probe's pod has gone".to_owned()) };
    match (phase(pod), trouble_of(pod)) {
        ("Succeeded", _) => ProbeState::Done,
        (_, Some(trouble)) if trouble.lasts => ProbeState::Failed(trouble.obstacle.to_string()),
        (_, trouble) => ProbeState::Waiting(trouble.map(|trouble| trouble.obstacle.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe() -> Object {
        let run_id = "nightly-1".parse().expect("a run id");
        let image = format!("assay.test/assay@sha256:{}", "0".repeat(64));
        probe_pod(&ProbePod { namespace: "assay-targets", run_id: &run_id, block: (0, 1), image: &image, node: "gpu-1" })
    }

    #[test]
    fn a_probe_has_nothing_that_anybody_could_want() {
        insta::assert_snapshot!(crate::to_yaml(&[probe()]).expect("YAML"));
    }

    #[test]
    fn the_longest_run_leaves_room_for_the_name() {
        let run_id = "a".repeat(40).parse().expect("a run id");
        let of = |node| ProbePod { namespace: "n", run_id: &run_id, block: (0, 0), image: "i", node }.name();
        assert!(of("a").len() <= 63);
        assert_ne!(of("a"), of("b"));
    }

    #[test]
    fn a_probe_is_waited_for_until_it_ends() {
        let pod = |status: Value| -> Pod {
            serde_json::from_value(json!({"metadata": {"name": "p"}, "status": status})).expect("a pod")
        };
        let unschedulable = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes"},
        ]});
        assert_eq!(probe_state(Some(&pod(json!({"phase": "Succeeded"})))), ProbeState::Done);
        assert_eq!(probe_state(Some(&pod(json!({"phase": "Running"})))), ProbeState::Waiting(None));
        let waits = ProbeState::Waiting(Some("no node takes the pod `p`: 0/2 nodes".to_owned()));
        assert_eq!(probe_state(Some(&pod(unschedulable))), waits);
        assert!(matches!(probe_state(Some(&pod(json!({"phase": "Failed"})))), ProbeState::Failed(_)));
        assert!(matches!(probe_state(None), ProbeState::Failed(_)));
    }
}
