//! The shape of Assay's own pods: no more rights than a stage needs, and what the harness inside expects.

use std::collections::BTreeMap;
use std::time::Duration;

use assay_manifest::Role;
use serde_json::{Map, Value, json};

use crate::Object;

/// Where a stage writes why it could not go on: Kubernetes shows it in the pod's status.
pub const FAILURE_FILE: &str = "/dev/termination-log";
/// Where a pod finds its signing key, with cosign's member names.
pub const KEY_FOLDER: &str = "/keys";
/// Where scratch files go.
pub const SCRATCH: &str = "/scratch";

/// The variable that names the queue of a run's targets.
pub(crate) const IN_QUEUE: &str = "ASSAY_QUEUE";
/// The variable that says for how many seconds a pod that cannot start is waited for.
pub(crate) const START_LIMIT: &str = "ASSAY_START_LIMIT";
/// How long that is where nothing says so.
const USUAL_START_LIMIT: Duration = Duration::from_mins(5);

/// The user that everything runs as.
const USER: u32 = 65532;
/// The most that a pod may leave in its scratch folder.
const SCRATCH_LIMIT: &str = "64Gi";

/// Variables that tell a process in which pod it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InPod {
    /// The pod.
    pub pod: String,
    /// Its UID.
    pub uid: String,
    /// The node that it runs on.
    pub node: String,
    /// Its namespace.
    pub namespace: String,
    /// The image of all stages.
    pub image: String,
    /// Where targets are brought up.
    pub targets_namespace: String,
    /// The queue that targets wait in, where the run has one.
    pub queue: Option<String>,
    /// How long a pod that cannot start is waited for.
    pub start_limit: Duration,
}

impl InPod {
    /// Reads the variables; none where this is no pod of ours.
    pub fn here(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let value = |name: &str| variable(name).filter(|value| !value.is_empty());
        Some(Self {
            pod: value("ASSAY_POD")?,
            uid: value("ASSAY_POD_UID")?,
            node: value("ASSAY_NODE")?,
            namespace: value("ASSAY_NAMESPACE")?,
            image: value("ASSAY_IMAGE")?,
            targets_namespace: value("ASSAY_TARGETS_NAMESPACE")?,
            queue: value(IN_QUEUE),
            start_limit: value(START_LIMIT).and_then(|text| text.parse().ok()).map_or(USUAL_START_LIMIT, Duration::from_secs),
        })
    }
}

/// What all of our pods have in common.
pub(crate) struct Own<'a> {
    /// Whose key, store credentials and service account it has.
    pub(crate) role: Role,
    /// The service account.
    pub(crate) account: String,
    /// Whether it asks the API server anything.
    pub(crate) asks_api: bool,
    pub(crate) image: &'a str,
    pub(crate) store: &'a str,
    pub(crate) targets_namespace: &'a str,
    pub(crate) labels: Map<String, Value>,
    pub(crate) command: Vec<String>,
    /// Whether it asks what is measured, and needs the secrets for that.
    pub(crate) asks_endpoints: bool,
    /// Variables besides those of all pods.
    pub(crate) env: Vec<Value>,
    pub(crate) resources: Value,
    pub(crate) node_selector: &'a BTreeMap<String, String>,
    /// How long it has to end in order once it is told to.
    pub(crate) grace_seconds: u32,
    /// Volumes besides the key and scratch, each with its mount.
    pub(crate) more: Vec<(Value, Value)>,
    /// Where it would rather run.
    pub(crate) affinity: Option<Value>,
    pub(crate) spread: Option<Value>,
}

/// The template of a pod.
pub(crate) fn template(own: Own<'_>) -> Object {
    let role = own.role;
    let mut volumes = vec![
        json!({"name": "key", "secret": {"secretName": key_secret(role), "defaultMode": 0o440}}),
        json!({"name": "scratch", "emptyDir": {"sizeLimit": SCRATCH_LIMIT}}),
    ];
    let mut mounts = vec![
        json!({"name": "key", "mountPath": KEY_FOLDER, "readOnly": true}),
        json!({"name": "scratch", "mountPath": SCRATCH}),
        json!({"name": "scratch", "mountPath": "/tmp", "subPath": "tmp"}),
    ];
    for (volume, mount) in own.more {
        volumes.push(volume);
        mounts.push(mount);
    }
    let from = |name: &str| json!({"secretRef": {"name": name, "optional": true}});
    let mut secrets = vec![from(&store_secret(role))];
    if own.asks_endpoints {
        let prefixed = json!({"prefix": assay_stage::ENDPOINT_PREFIX, "secretRef": {"name": ENDPOINT_SECRETS, "optional": true}});
        secrets.push(prefixed);
    }
    let mut env = environment(own.store, own.image, own.targets_namespace, role);
    env.extend(own.env);
    let container = json!({
        "name": "assay",
        "image": own.image,
        "imagePullPolicy": "IfNotPresent",
        "command": own.command,
        "env": env,
        "envFrom": secrets,
        "resources": own.resources,
        "securityContext": container_security(),
        "terminationMessagePath": FAILURE_FILE,
        "terminationMessagePolicy": "File",
        "volumeMounts": mounts,
    });
    let mut spec = json!({
        "automountServiceAccountToken": own.asks_api,
        "containers": [container],
        "enableServiceLinks": false,
        "restartPolicy": "Never",
        "securityContext": pod_security(),
        "serviceAccountName": own.account,
        "terminationGracePeriodSeconds": own.grace_seconds,
        "volumes": volumes,
    });
    if !own.node_selector.is_empty() {
        spec["nodeSelector"] = json!(own.node_selector);
    }
    if let Some(affinity) = own.affinity {
        spec["affinity"] = affinity;
    }
    if let Some(spread) = own.spread {
        spec["topologySpreadConstraints"] = spread;
    }
    json!({"metadata": {"labels": own.labels}, "spec": spec})
}

/// The Secret whose members become variables of stages that ask endpoints: an API key of a target's, for example. An administrator
/// makes it where one is needed.
pub(crate) const ENDPOINT_SECRETS: &str = "assay-endpoints";

/// The Secret of a role's signing key.
pub(crate) fn key_secret(role: Role) -> String {
    format!("assay-key-{role}")
}

/// The Secret of a role's credentials for the store, absent where the service account itself is what the store knows.
pub(crate) fn store_secret(role: Role) -> String {
    format!("assay-store-{role}")
}

fn environment(store: &str, image: &str, targets_namespace: &str, role: Role) -> Vec<Value> {
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let text = |name: &str, value: &str| json!({"name": name, "value": value});
    vec![
        text("ASSAY_STORE", store),
        text("ASSAY_IMAGE", image),
        text("ASSAY_TARGETS_NAMESPACE", targets_namespace),
        field("ASSAY_NAMESPACE", "metadata.namespace"),
        field("ASSAY_NODE", "spec.nodeName"),
        field("ASSAY_POD", "metadata.name"),
        field("ASSAY_POD_UID", "metadata.uid"),
        json!({"name": "COSIGN_PASSWORD", "valueFrom": {"secretKeyRef": {"name": key_secret(role), "key": "cosign.password"}}}),
        text("TMPDIR", SCRATCH),
    ]
}

/// What Pod Security `restricted` asks of a pod.
pub(crate) fn pod_security() -> Value {
    json!({
        "fsGroup": USER,
        "runAsGroup": USER,
        "runAsNonRoot": true,
        "runAsUser": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

/// What Pod Security `restricted` asks of a container, and a root that nobody writes to.
pub(crate) fn container_security() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_its_pod_only_where_all_is_said() {
        let names = ["ASSAY_POD", "ASSAY_POD_UID", "ASSAY_NODE", "ASSAY_NAMESPACE", "ASSAY_IMAGE", "ASSAY_TARGETS_NAMESPACE"];
        let all = |name: &str| names.contains(&name).then(|| name.to_lowercase());
        assert_eq!(InPod::here(all).expect("all of them").node, "assay_node");
        for missing in names {
            assert_eq!(InPod::here(|name| all(name).filter(|_| name != missing)), None, "{missing}");
        }
        assert_eq!(InPod::here(|_| Some(String::new())), None, "empty is unset");
        let waits = |more: &'static [(&'static str, &'static str)]| {
            let more = |name: &str| more.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            let here = InPod::here(|name| more(name).or_else(|| all(name))).expect("all of them");
            (here.queue, here.start_limit.as_secs())
        };
        assert_eq!(waits(&[]), (None, 300));
        assert_eq!(waits(&[("ASSAY_QUEUE", "gpu"), ("ASSAY_START_LIMIT", "7")]), (Some("gpu".to_owned()), 7));
        assert_eq!(waits(&[("ASSAY_QUEUE", ""), ("ASSAY_START_LIMIT", "soon")]), (None, 300));
    }
}
