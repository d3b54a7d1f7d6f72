//! The shape of Assay's own pods: no more rights than a stage needs, and what the harness inside expects.

use std::collections::BTreeMap;
use std::time::Duration;

use assay_manifest::{PodPlace, Role};
use assay_spec::PodOverride;
use assay_stage::pod::{CONTAINER_IMAGE, JOB_UID, JOB_UID_LABEL, NODE, POD, POD_UID};
use serde_json::{Map, Value, json};

use crate::affinity::both;
use crate::{LoadPod, Object};

/// Where a stage writes why it could not go on: Kubernetes shows it in the pod's status.
pub const FAILURE_FILE: &str = "/dev/termination-log";
/// Where a pod finds its signing key, with cosign's member names.
pub const KEY_FOLDER: &str = "/keys";
/// Where scratch files go.
pub const SCRATCH: &str = "/scratch";
/// Where Assay's programs are, in whatever image.
const PROGRAMS: &str = "/assay";
/// Where they are laid for a container of another image.
const LAID: &str = "/programs";

/// The variable that names the queue of a run's targets.
pub(crate) const IN_QUEUE: &str = "ASSAY_QUEUE";
/// The variable that says for how many seconds a pod that cannot start is waited for.
pub(crate) const START_LIMIT: &str = "ASSAY_START_LIMIT";
/// The variable that says how a shard of load is placed and limited.
pub(crate) const LOAD_POD: &str = "ASSAY_LOAD_POD";
/// How long that is where nothing says so.
const USUAL_START_LIMIT: Duration = Duration::from_mins(5);

/// The user that everything runs as.
const USER: u32 = 65532;
/// The most that a pod may leave in its scratch folder.
const SCRATCH_LIMIT: &str = "64Gi";
/// Room for the programs of one stage: those of the dev profile have a few hundred MiB.
const PROGRAMS_LIMIT: &str = "2Gi";

/// Variables that tell a process in which pod it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InPod {
    /// The pod and its node.
    pub place: PodPlace,
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
    /// How a shard of load is placed and limited, where that is asked for.
    pub load: Option<LoadPod>,
}

impl InPod {
    /// Reads the variables; none where this is no pod of ours.
    pub fn here(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let value = |name: &str| variable(name).filter(|value| !value.is_empty());
        Some(Self {
            place: assay_stage::pod::place(&variable)?,
            namespace: value("ASSAY_NAMESPACE")?,
            image: value("ASSAY_IMAGE")?,
            targets_namespace: value("ASSAY_TARGETS_NAMESPACE")?,
            queue: value(IN_QUEUE),
            start_limit: value(START_LIMIT).and_then(|text| text.parse().ok()).map_or(USUAL_START_LIMIT, Duration::from_secs),
            load: value(LOAD_POD).and_then(|text| serde_json::from_str(&text).ok()),
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
    /// The image that is installed, which holds all programs.
    pub(crate) installed: &'a str,
    /// The image that it runs in.
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
    /// What its pipeline asks for besides.
    pub(crate) asked: &'a PodOverride,
}

/// The template of a pod.
pub(crate) fn template(own: Own<'_>) -> Object {
    let (role, asked) = (own.role, own.asked);
    let mut volumes = vec![
        json!({"name": "key", "secret": {"secretName": key_secret(role), "defaultMode": 0o440}}),
        json!({"name": "scratch", "emptyDir": {"sizeLimit": SCRATCH_LIMIT}}),
    ];
    let mut mounts = vec![
        json!({"name": "key", "mountPath": KEY_FOLDER, "readOnly": true}),
        json!({"name": "scratch", "mountPath": SCRATCH}),
        json!({"name": "scratch", "mountPath": "/tmp", "subPath": "tmp"}),
    ];
    let laid = (own.image != own.installed).then(|| lay(&own));
    if laid.is_some() {
        volumes.push(json!({"name": "programs", "emptyDir": {"sizeLimit": PROGRAMS_LIMIT}}));
        mounts.push(json!({"name": "programs", "mountPath": PROGRAMS, "readOnly": true}));
    }
    for (volume, mount) in own.more {
        volumes.push(volume);
        mounts.push(mount);
    }
    volumes.extend_from_slice(asked.volumes());
    mounts.extend_from_slice(asked.volume_mounts());
    let from = |name: &str| json!({"secretRef": {"name": name, "optional": true}});
    // Of two sources of one variable the last one counts.
    let mut sources = asked.env_from().to_vec();
    sources.push(from(&store_secret(role)));
    if own.asks_endpoints {
        let prefixed = json!({"prefix": assay_stage::ENDPOINT_PREFIX, "secretRef": {"name": ENDPOINT_SECRETS, "optional": true}});
        sources.push(prefixed);
    }
    let mut env = environment(own.store, own.installed, own.targets_namespace, role);
    env.push(json!({"name": CONTAINER_IMAGE, "value": own.image}));
    env.extend(own.env);
    env.extend(asked.env().iter().map(literal));
    let container = json!({
        "name": "assay",
        "image": own.image,
        "imagePullPolicy": "IfNotPresent",
        "command": own.command,
        "env": env,
        "envFrom": sources,
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
        "securityContext": security(asked),
        "serviceAccountName": asked.service_account().unwrap_or(&own.account),
        "terminationGracePeriodSeconds": own.grace_seconds,
        "volumes": volumes,
    });
    let optional = [
        ("initContainers", laid.map(|container| json!([container]))),
        ("nodeSelector", (!own.node_selector.is_empty()).then(|| json!(own.node_selector))),
        ("affinity", both(own.affinity, asked.affinity())),
        ("topologySpreadConstraints", own.spread),
        ("tolerations", (!asked.tolerations().is_empty()).then(|| json!(asked.tolerations()))),
        ("priorityClassName", asked.priority_class().map(|class| json!(class))),
    ];
    for (field, value) in optional {
        if let Some(value) = value {
            spec[field] = value;
        }
    }
    json!({"metadata": {"labels": own.labels}, "spec": spec})
}

/// Puts a stage's programs where a container of another image finds them. It has neither key nor credentials. A pod asks for the most of
/// what its containers ask for, so that what the stage has costs nothing here, and the pod keeps its class.
fn lay(own: &Own<'_>) -> Value {
    let mut command = [&format!("{PROGRAMS}/assay"), "lay", "--to", LAID].map(str::to_owned).to_vec();
    command.extend(programs(own.role));
    json!({
        "name": "programs",
        "image": own.installed,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "resources": own.resources,
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "programs", "mountPath": LAID}],
    })
}

/// The programs that a stage consists of.
fn programs(role: Role) -> Vec<String> {
    let stage = format!("assay-{role}");
    if role == Role::Publish { vec![stage, "assay-sql".to_owned()] } else { vec![stage] }
}

/// A variable as it was written: a value is expanded where it names another variable in parentheses.
fn literal(variable: &Value) -> Value {
    let mut variable = variable.clone();
    if let Some(value) = variable["value"].as_str() {
        variable["value"] = json!(value.replace('$', "$$"));
    }
    variable
}

/// What Pod Security asks of a pod, run as whom its pipeline says.
fn security(asked: &PodOverride) -> Value {
    let mut security = pod_security();
    for (field, value) in asked.security_context().and_then(Value::as_object).into_iter().flatten() {
        security[field] = value.clone();
    }
    security
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
        field(JOB_UID, &format!("metadata.labels['{JOB_UID_LABEL}']")),
        field(NODE, "spec.nodeName"),
        field(POD, "metadata.name"),
        field(POD_UID, "metadata.uid"),
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

    /// A pipeline that names one of these would take it from Assay: what may be named is decided where pipelines are read.
    #[test]
    fn no_override_is_read_that_names_what_pods_have_anyway() {
        let site = "assay.test/assay@sha256:0";
        let (none, nothing) = (BTreeMap::new(), PodOverride::default());
        for role in Role::STAGES {
            let pod = template(Own {
                role,
                account: format!("assay-{role}"),
                asks_api: false,
                installed: site,
                image: "example.org/own@sha256:0",
                store: "s3://results",
                targets_namespace: "assay-targets",
                labels: Map::new(),
                command: Vec::new(),
                asks_endpoints: true,
                resources: json!({}),
                node_selector: &none,
                grace_seconds: 30,
                more: Vec::new(),
                env: Vec::new(),
                affinity: None,
                spread: None,
                asked: &nothing,
            });
            let container = &pod["spec"]["containers"][0];
            let texts = |list: &Value, field: &str| -> Vec<String> {
                let list = list.as_array().expect("a list").iter();
                list.filter_map(|item| item[field].as_str()).map(str::to_owned).collect()
            };
            for name in texts(&container["env"], "name") {
                assert!(is_refused(role, &format!("env: [{{name: {name}, value: x}}]")), "{name}");
            }
            for prefix in texts(&container["envFrom"], "prefix") {
                assert!(is_refused(role, &format!("envFrom: [{{prefix: {prefix}, secretRef: {{name: x}}}}]")), "{prefix}");
            }
            for name in texts(&pod["spec"]["volumes"], "name") {
                assert!(is_refused(role, &format!("volumes: [{{name: {name}, emptyDir: {{}}}}]")), "{name}");
            }
            for path in texts(&container["volumeMounts"], "mountPath") {
                let mount = format!("volumes: [{{name: x, emptyDir: {{}}}}], volumeMounts: [{{name: x, mountPath: {path}}}]");
                assert!(is_refused(role, &mount), "{path}");
            }
            for secret in [key_secret(role), store_secret(role), ENDPOINT_SECRETS.to_owned(), crate::SITE.to_owned()] {
                assert!(is_refused(role, &format!("envFrom: [{{secretRef: {{name: {secret}}}}}]")), "{secret}");
            }
            for (account, _) in crate::identities().filter(|(account, _)| *account != format!("assay-{role}")) {
                assert!(is_refused(role, &format!("serviceAccountName: {account}")), "{account}");
            }
        }
        assert!(!is_refused(Role::Execute, "env: [{name: NCCL_DEBUG, value: INFO}]"));
    }

    fn is_refused(role: Role, pod: &str) -> bool {
        crate::asked::of_stage(role, pod).is_err()
    }

    #[test]
    fn a_process_knows_its_pod_only_where_all_is_said() {
        let names = [POD, POD_UID, NODE, JOB_UID, "ASSAY_NAMESPACE", "ASSAY_IMAGE", "ASSAY_TARGETS_NAMESPACE"];
        let all = |name: &str| names.contains(&name).then(|| name.to_lowercase());
        assert_eq!(InPod::here(all).expect("all of them").place.node, "assay_node");
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
