//! Targets that a run brings up as pods of their own, in a namespace that holds nothing of Assay's.

use std::collections::BTreeMap;

use assay_manifest::RunId;
use serde_json::{Value, json};

use crate::pod::{container_security, pod_security};
use crate::{MANAGED_BY, Object, QUEUE, RUN, TARGET};

/// The Secret of the targets' namespace whose members targets may name as variables. The owner of the targets creates it.
const TARGET_SECRETS: &str = "target-secrets";

/// A target that runs as one pod.
pub struct TargetPod<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The run.
    pub run_id: &'a RunId,
    /// Its name in the plan.
    pub target: &'a str,
    /// The block and incarnation that it is brought up for.
    pub block: (u32, u32),
    /// The image, by digest.
    pub image: &'a str,
    /// Program and arguments.
    pub command: &'a [String],
    /// Plain variables.
    pub env: &'a BTreeMap<String, String>,
    /// Variables that come from a Secret, by the name of its member.
    pub env_from: &'a BTreeMap<String, String>,
    /// The port that it listens on.
    pub port: u16,
    /// The queue that it waits in, if the cluster has queues.
    pub queue: Option<&'a str>,
}

impl TargetPod<'_> {
    /// The pod's name.
    pub fn name(&self) -> String {
        let (block, incarnation) = self.block;
        let digest = assay_manifest::Digest::compute(format!("{}/{}/{block}/{incarnation}", self.run_id, self.target).as_bytes());
        let short: String = digest.hex().chars().take(8).collect();
        // With a target of forty characters this is far below the limit of 63.
        format!("{}-{short}", self.target)
    }
}

/// Builds the pod.
pub fn target_pod(target: &TargetPod<'_>) -> Object {
    let plain = target.env.iter().map(|(name, value)| json!({"name": name, "value": value}));
    let secret = |member: &String| json!({"secretKeyRef": {"name": TARGET_SECRETS, "key": member}});
    let secrets = target.env_from.iter().map(|(name, member)| json!({"name": name, "valueFrom": secret(member)}));
    let env: Vec<Value> = plain.chain(secrets).collect();
    let mut labels = json!({MANAGED_BY.0: MANAGED_BY.1, RUN: target.run_id, TARGET: target.target});
    if let Some(queue) = target.queue {
        labels[QUEUE] = json!(queue);
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": target.name(), "namespace": target.namespace, "labels": labels},
        "spec": {
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "target",
                "image": target.image,
                "imagePullPolicy": "IfNotPresent",
                "command": target.command,
                "env": env,
                "ports": [{"containerPort": target.port}],
                "securityContext": container_security(),
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
            }],
            "enableServiceLinks": false,
            "restartPolicy": "Never",
            "securityContext": pod_security(),
            "terminationGracePeriodSeconds": 5,
            "volumes": [{"name": "tmp", "emptyDir": {}}],
        },
    })
}
