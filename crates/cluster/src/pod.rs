//! The spec of Assay's own pods: no more rights than a stage needs, and the environment that the harness inside expects.

use std::collections::BTreeMap;
use std::time::Duration;

use assay_manifest::{PodPlace, Role};
use assay_spec::PodOverride;
use assay_stage::pod::{CONTAINER_IMAGE, JOB_UID, JOB_UID_LABEL, NODE, POD, POD_UID};
use serde_json::{Map, Value, json};

use crate::affinity::join_affinities;
use crate::{LoadPod, Object};

/// The file that a stage writes its failure to: Kubernetes shows it in the pod's status.
pub const FAILURE_FILE: &str = "/dev/termination-log";
/// The folder of a pod's signing key, with cosign's member names.
pub const KEY_FOLDER: &str = "/keys";
/// The folder of scratch files.
pub const SCRATCH: &str = "/scratch";
/// The folder of Assay's programs, in any image.
const PROGRAMS: &str = "/assay";
/// The folder that the programs are installed to for a container of another image.
const INSTALL_FOLDER: &str = "/programs";

/// The variable that names the queue of a run's targets.
pub(crate) const IN_QUEUE: &str = "ASSAY_QUEUE";
/// The variable that says how long to wait for a pod that cannot start, in seconds.
pub(crate) const START_LIMIT: &str = "ASSAY_START_LIMIT";
/// The variable that holds the placement and limits of a shard of load.
pub(crate) const LOAD_POD: &str = "ASSAY_LOAD_POD";
/// The start limit if the variable is not set.
const USUAL_START_LIMIT: Duration = Duration::from_mins(5);

/// The user that everything runs as.
const USER: u32 = 65532;
/// The size limit of a pod's scratch folder.
const SCRATCH_LIMIT: &str = "64Gi";
/// The size limit of the programs of one stage: those of the dev profile have a few hundred MiB.
const PROGRAMS_LIMIT: &str = "2Gi";
/// The lifetime of a token of the API server, after which the kubelet replaces it, in seconds: that of the tokens that Kubernetes mounts by
/// itself.
const TOKEN_SECONDS: u32 = 3607;

/// The facts of its pod that a process reads from its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodEnvironment {
    /// The pod and its node.
    pub place: PodPlace,
    /// Its namespace.
    pub namespace: String,
    /// The image of all stages.
    pub image: String,
    /// The namespace that targets are brought up in.
    pub targets_namespace: String,
    /// The queue of targets, if the run has one.
    pub queue: Option<String>,
    /// The longest wait for a pod that cannot start.
    pub start_limit: Duration,
    /// The placement and limits of a shard of load, if they are needed.
    pub load: Option<LoadPod>,
}

impl PodEnvironment {
    /// Reads the variables; `None` if the process does not run in a pod of Assay's.
    pub fn from_env(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let value = |name: &str| variable(name).filter(|value| !value.is_empty());
        Some(Self {
            place: assay_stage::pod::read_place(&variable)?,
            namespace: value("ASSAY_NAMESPACE")?,
            image: value("ASSAY_IMAGE")?,
            targets_namespace: value("ASSAY_TARGETS_NAMESPACE")?,
            queue: value(IN_QUEUE),
            start_limit: value(START_LIMIT).and_then(|text| text.parse().ok()).map_or(USUAL_START_LIMIT, Duration::from_secs),
            load: value(LOAD_POD).and_then(|text| serde_json::from_str(&text).ok()),
        })
    }
}

/// The parameters of Assay's own pods.
pub(crate) struct PodParameters<'a> {
    /// The role whose key and store credentials it has.
    pub(crate) role: Role,
    /// The service account.
    pub(crate) account: String,
    /// True if it sends requests to the API server.
    pub(crate) asks_api: bool,
    /// The image that is installed, which holds all programs.
    pub(crate) installed: &'a str,
    /// The image that it runs in.
    pub(crate) image: &'a str,
    pub(crate) store: &'a str,
    pub(crate) targets_namespace: &'a str,
    pub(crate) labels: Map<String, Value>,
    pub(crate) command: Vec<String>,
    /// True if it sends requests to the target, and needs the secrets for that.
    pub(crate) asks_endpoints: bool,
    /// Variables besides those of all pods.
    pub(crate) env: Vec<Value>,
    pub(crate) resources: Value,
    pub(crate) node_selector: &'a BTreeMap<String, String>,
    /// The termination grace period, in seconds.
    pub(crate) grace_seconds: u32,
    /// Volumes besides the key and scratch, each with its mount.
    pub(crate) extra_volumes: Vec<(Value, Value)>,
    /// The node affinity, besides the pipeline's.
    pub(crate) affinity: Option<Value>,
    pub(crate) spread: Option<Value>,
    /// The pipeline's overrides.
    pub(crate) overrides: &'a PodOverride,
}

/// Builds the volume with what a stage needs to ask the API server, and its mount. Kubernetes would mount it by itself, but into every
/// container of the pod: also into the one that only installs programs.
fn api_access() -> (Value, Value) {
    let namespace = json!({"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}});
    let sources = json!([
        {"serviceAccountToken": {"path": "token", "expirationSeconds": TOKEN_SECONDS}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]);
    let volume = json!({"name": "api-access", "projected": {"defaultMode": 0o444, "sources": sources}});
    (volume, json!({"name": "api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true}))
}

/// Builds the template of a pod.
pub(crate) fn template(own: PodParameters<'_>) -> Object {
    let (role, asked) = (own.role, own.overrides);
    let mut volumes = vec![
        json!({"name": "key", "secret": {"secretName": key_secret(role), "defaultMode": 0o440}}),
        json!({"name": "scratch", "emptyDir": {"sizeLimit": SCRATCH_LIMIT}}),
    ];
    let mut mounts = vec![
        json!({"name": "key", "mountPath": KEY_FOLDER, "readOnly": true}),
        json!({"name": "scratch", "mountPath": SCRATCH}),
        json!({"name": "scratch", "mountPath": "/tmp", "subPath": "tmp"}),
    ];
    let installed = (own.image != own.installed).then(|| install_programs(&own));
    if installed.is_some() {
        volumes.push(json!({"name": "programs", "emptyDir": {"sizeLimit": PROGRAMS_LIMIT}}));
        mounts.push(json!({"name": "programs", "mountPath": PROGRAMS, "readOnly": true}));
    }
    for (volume, mount) in own.extra_volumes.into_iter().chain(own.asks_api.then(api_access)) {
        volumes.push(volume);
        mounts.push(mount);
    }
    volumes.extend_from_slice(asked.volumes());
    mounts.extend_from_slice(asked.volume_mounts());
    let from = |name: &str| json!({"secretRef": {"name": name, "optional": true}});
    // Of two sources of one variable, the last one counts.
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
        "automountServiceAccountToken": false,
        "containers": [container],
        "enableServiceLinks": false,
        "restartPolicy": "Never",
        "securityContext": security(asked),
        "serviceAccountName": asked.service_account().unwrap_or(&own.account),
        "terminationGracePeriodSeconds": own.grace_seconds,
        "volumes": volumes,
    });
    let optional = [
        ("initContainers", installed.map(|container| json!([container]))),
        ("nodeSelector", (!own.node_selector.is_empty()).then(|| json!(own.node_selector))),
        ("affinity", join_affinities(own.affinity, asked.affinity())),
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

/// Builds the init container that installs a stage's programs for a container of another image. It has neither key nor
/// credentials. A pod's request is the maximum of its init containers' and its containers' requests, so the stage's resources
/// cost nothing extra here, and the pod keeps its QoS class.
fn install_programs(own: &PodParameters<'_>) -> Value {
    let mut command = [&format!("{PROGRAMS}/assay"), "install-programs", "--to", INSTALL_FOLDER].map(str::to_owned).to_vec();
    command.extend(programs(own.role));
    json!({
        "name": "programs",
        "image": own.installed,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "resources": own.resources,
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "programs", "mountPath": INSTALL_FOLDER}],
    })
}

/// Returns the programs that a stage consists of.
fn programs(role: Role) -> Vec<String> {
    let stage = format!("assay-{role}");
    if role == Role::Publish { vec![stage, "assay-sql".to_owned()] } else { vec![stage] }
}

/// Escapes a variable so that its value stays as it was written: Kubernetes expands `$(NAME)` in values.
fn literal(variable: &Value) -> Value {
    let mut variable = variable.clone();
    if let Some(value) = variable["value"].as_str() {
        variable["value"] = json!(value.replace('$', "$$"));
    }
    variable
}

/// Returns the security context of a pod: Pod Security's, with the user and groups that its pipeline sets.
fn security(asked: &PodOverride) -> Value {
    let mut security = pod_security();
    for (field, value) in asked.security_context().and_then(Value::as_object).into_iter().flatten() {
        security[field] = value.clone();
    }
    security
}

/// The Secret whose members become variables of stages that send requests to endpoints, such as the API key of a target. An
/// administrator creates it if one is needed.
pub(crate) const ENDPOINT_SECRETS: &str = "assay-endpoints";

/// Returns the name of the Secret of a role's signing key.
pub(crate) fn key_secret(role: Role) -> String {
    format!("assay-key-{role}")
}

/// Returns the name of the Secret of a role's credentials for the store. It does not exist if the store knows the service account
/// itself.
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
        json!({"name": assay_stage::KEY_PASSWORD, "valueFrom": {"secretKeyRef": {"name": key_secret(role), "key": "cosign.password"}}}),
        text("TMPDIR", SCRATCH),
    ]
}

/// Returns the security context of a pod that Pod Security `restricted` requires.
pub(crate) fn pod_security() -> Value {
    json!({
        "fsGroup": USER,
        "runAsGroup": USER,
        "runAsNonRoot": true,
        "runAsUser": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

/// Returns the security context of a container that Pod Security `restricted` requires, with a read-only root filesystem.
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

    /// A pipeline that names one of these would take it from Assay: the reader of pipelines decides which names are allowed.
    #[test]
    fn no_override_is_read_that_names_what_pods_have_anyway() {
        let installation = "assay.test/assay@sha256:0";
        let (none, nothing) = (BTreeMap::new(), PodOverride::default());
        for role in Role::STAGES {
            let pod = template(PodParameters {
                role,
                account: format!("assay-{role}"),
                asks_api: false,
                installed: installation,
                image: "example.org/own@sha256:0",
                store: "s3://results",
                targets_namespace: "assay-targets",
                labels: Map::new(),
                command: Vec::new(),
                asks_endpoints: true,
                resources: json!({}),
                node_selector: &none,
                grace_seconds: 30,
                extra_volumes: Vec::new(),
                env: Vec::new(),
                affinity: None,
                spread: None,
                overrides: &nothing,
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
            for secret in [key_secret(role), store_secret(role), ENDPOINT_SECRETS.to_owned(), crate::INSTALLATION.to_owned()] {
                assert!(is_refused(role, &format!("envFrom: [{{secretRef: {{name: {secret}}}}}]")), "{secret}");
            }
            for (account, _) in crate::identities().filter(|(account, _)| *account != format!("assay-{role}")) {
                assert!(is_refused(role, &format!("serviceAccountName: {account}")), "{account}");
            }
        }
        assert!(!is_refused(Role::Execute, "env: [{name: NCCL_DEBUG, value: INFO}]"));
    }

    fn is_refused(role: Role, pod: &str) -> bool {
        crate::pod_override::parse_stage_override(role, pod).is_err()
    }

    #[test]
    fn a_process_knows_its_pod_only_where_all_is_said() {
        let names = [POD, POD_UID, NODE, JOB_UID, "ASSAY_NAMESPACE", "ASSAY_IMAGE", "ASSAY_TARGETS_NAMESPACE"];
        let all = |name: &str| names.contains(&name).then(|| name.to_lowercase());
        assert_eq!(PodEnvironment::from_env(all).expect("all of them").place.node, "assay_node");
        for missing in names {
            assert_eq!(PodEnvironment::from_env(|name| all(name).filter(|_| name != missing)), None, "{missing}");
        }
        assert_eq!(PodEnvironment::from_env(|_| Some(String::new())), None, "empty is unset");
        let waits = |more: &'static [(&'static str, &'static str)]| {
            let more = |name: &str| more.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
            let here = PodEnvironment::from_env(|name| more(name).or_else(|| all(name))).expect("all of them");
            (here.queue, here.start_limit.as_secs())
        };
        assert_eq!(waits(&[]), (None, 300));
        assert_eq!(waits(&[("ASSAY_QUEUE", "gpu"), ("ASSAY_START_LIMIT", "7")]), (Some("gpu".to_owned()), 7));
        assert_eq!(waits(&[("ASSAY_QUEUE", ""), ("ASSAY_START_LIMIT", "soon")]), (None, 300));
    }
}
