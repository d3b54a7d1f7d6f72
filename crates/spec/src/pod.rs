//! The settings of a stage's pods in a cluster. Every setting that would expose a key of Assay's, or weaken the pods, is refused
//! here, before anything runs: a pipeline comes from a pull request, and its pods run next to the keys.

use serde_json::Value as Json;

use crate::checked_value::{CheckedValue, Read, Value};
use crate::problem::{Problems, Span, did_you_mean, quote};
use crate::secret::refuse_secret;

/// Variables that Assay sets itself, or that decide which programs and libraries run.
const OWN_VARIABLES: [&str; 3] = ["JOB_COMPLETION_INDEX", "PATH", "TMPDIR"];
/// The prefixes of such variables' names. Variables with `ENDPOINT_` are those that a target's `headers` and `env` may name.
const OWN_PREFIXES: [&str; 6] = ["ASSAY_", "AWS_", "COSIGN_", "ENDPOINT_", "KUBERNETES_", "LD_"];
/// The names of Assay's own volumes.
const OWN_VOLUMES: [&str; 3] = ["key", "programs", "scratch"];
/// Folders that belong to Assay or to the pod itself, or that decide which programs and libraries run, which servers they contact
/// and whom they trust.
const OWN_FOLDERS: [&str; 24] = [
    "/assay",
    "/bin",
    "/dev",
    "/etc/group",
    "/etc/hosts",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/pki",
    "/etc/resolv.conf",
    "/etc/ssl",
    "/keys",
    "/lib",
    "/lib64",
    "/proc",
    "/run/secrets",
    "/sbin",
    "/scratch",
    "/sys",
    "/tmp",
    "/usr",
    "/var/run/secrets",
];
/// The shared memory of processes, of which a container has little by default.
const SHARED_MEMORY: &str = "/dev/shm";

/// The settings of a stage's pods besides image, resources and node. Only [`crate::Pipeline::parse`] makes one, so it never names
/// anything of Assay's own. Its parts are JSON as Kubernetes accepts it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodOverride {
    env: Vec<Json>,
    env_from: Vec<Json>,
    tolerations: Vec<Json>,
    affinity: Option<Json>,
    volumes: Vec<Json>,
    volume_mounts: Vec<Json>,
    priority_class: Option<String>,
    service_account: Option<String>,
    security_context: Option<Json>,
}

impl PodOverride {
    /// Returns variables of the container.
    pub fn env(&self) -> &[Json] {
        &self.env
    }

    /// Returns sources of further variables.
    pub fn env_from(&self) -> &[Json] {
        &self.env_from
    }

    /// Returns tolerations of taints.
    pub fn tolerations(&self) -> &[Json] {
        &self.tolerations
    }

    /// Returns rules and preferences about the node.
    pub fn affinity(&self) -> Option<&Json> {
        self.affinity.as_ref()
    }

    /// Returns further volumes.
    pub fn volumes(&self) -> &[Json] {
        &self.volumes
    }

    /// Returns the mounts of those volumes in the container.
    pub fn volume_mounts(&self) -> &[Json] {
        &self.volume_mounts
    }

    /// Returns the name of its PriorityClass.
    pub fn priority_class(&self) -> Option<&str> {
        self.priority_class.as_deref()
    }

    /// Returns the service account that replaces the stage's own.
    pub fn service_account(&self) -> Option<&str> {
        self.service_account.as_deref()
    }

    /// Returns members of the pod's security context, each of which replaces Assay's.
    pub fn security_context(&self) -> Option<&Json> {
        self.security_context.as_ref()
    }
}

impl Read for PodOverride {
    fn read(pod: &CheckedValue) -> Option<Self> {
        let list = |name: &str| Some(pod.member(name)?.items().iter().map(json).collect());
        Some(Self {
            env: list("env")?,
            env_from: list("envFrom")?,
            tolerations: list("tolerations")?,
            affinity: pod.member("affinity").map(json),
            volumes: list("volumes")?,
            volume_mounts: list("volumeMounts")?,
            priority_class: pod.get("priorityClassName")?,
            service_account: pod.get("serviceAccountName")?,
            security_context: pod.member("securityContext").map(json),
        })
    }
}

/// Returns the value with its defaults, which may differ from those of Kubernetes.
fn json(value: &CheckedValue) -> Json {
    value.plain_json()
}

/// Returns true for Assay's own names in the stages' namespace: keys, credentials, settings, roots and service accounts.
fn is_assay_name(name: &str) -> bool {
    name == "assay" || name.starts_with("assay-")
}

/// Returns true for variables that Assay sets, or that would decide what runs, in upper or lower case.
fn is_own_variable(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    OWN_VARIABLES.contains(&name.as_str()) || OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns true if a variable whose name begins with this prefix may be such a variable.
fn is_own_prefix(prefix: &str) -> bool {
    let prefix = prefix.to_ascii_uppercase();
    let may_become = OWN_VARIABLES.iter().chain(&OWN_PREFIXES).any(|own| own.starts_with(&prefix));
    may_become || OWN_PREFIXES.iter().any(|own| prefix.starts_with(own))
}

/// Returns the folder of Assay's or of the pod's that a mount at this path would cover or lie in.
fn find_shadowed_folder(path: &str) -> Option<&'static str> {
    let is_within =
        |inner: &str, outer: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if path == SHARED_MEMORY {
        return None;
    }
    OWN_FOLDERS.into_iter().find(|own| path == "/" || is_within(path, own) || is_within(own, path))
}

/// Checks the pod settings of all stages.
pub(crate) fn check_pods(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let stages = spec.member("stages").map_or(&[][..], CheckedValue::items);
    for (index, stage) in stages.iter().enumerate() {
        let Some(pod) = stage.member("pod") else { continue };
        let mut check = PodCheck { path: format!("spec.stages[{index}].pod"), pod, problems };
        check.references();
        check.variables();
        check.tolerations();
        check.volumes();
        check.mounts();
        check.priority();
        check.service_account(stage.text_of("name").unwrap_or_default());
    }
}

struct PodCheck<'c, 'p, 'a> {
    path: String,
    pod: &'c CheckedValue,
    problems: &'p mut Problems<'a>,
}

impl<'c> PodCheck<'c, '_, '_> {
    fn items(&self, list: &str) -> impl Iterator<Item = (usize, &'c CheckedValue)> + use<'c> {
        self.pod.member(list).map_or(&[][..], CheckedValue::items).iter().enumerate()
    }

    fn refuse(&mut self, span: Span, field: &str, what: &str, hint: &str) {
        self.problems.add_hinted(span, format!("`{}.{field}` {what}", self.path), hint);
    }

    /// Refuses references to Secrets and ConfigMaps of Assay's.
    fn references(&mut self) {
        const PLACES: [(&str, &[&str]); 6] = [
            ("env", &["valueFrom", "secretKeyRef", "name"]),
            ("env", &["valueFrom", "configMapKeyRef", "name"]),
            ("envFrom", &["secretRef", "name"]),
            ("envFrom", &["configMapRef", "name"]),
            ("volumes", &["secret", "secretName"]),
            ("volumes", &["configMap", "name"]),
        ];
        for (list, place) in PLACES {
            for (index, item) in self.items(list) {
                let Some(name) = item.at(place) else { continue };
                let Some(text) = name.text().filter(|text| is_assay_name(text)) else { continue };
                let what = format!("names {}, which is Assay's own", quote(text));
                let hint = "keys, credentials and settings of the stages are named `assay-*`, and no pipeline hands them on";
                self.refuse(name.span, &format!("{list}[{index}].{}", place.join(".")), &what, hint);
            }
        }
    }

    fn variables(&mut self) {
        for (index, variable) in self.items("env") {
            let Some(name) = variable.member("name").and_then(|name| Some((name.span, name.text()?))) else { continue };
            if is_own_variable(name.1) {
                let hint = format!(
                    "names that begin with {} are taken, and so are {}",
                    quote_words(&OWN_PREFIXES),
                    quote_words(&OWN_VARIABLES)
                );
                self.refuse(name.0, &format!("env[{index}].name"), &format!("is Assay's own variable {}", quote(name.1)), &hint);
            }
            if let Some(value) = variable.member("value") {
                let hint = "give its place: `valueFrom: {secretKeyRef: {name: SECRET, key: MEMBER}}`";
                refuse_secret(name.1, value, "a definition holds references to secrets only", hint, self.problems);
            }
        }
        for (index, source) in self.items("envFrom") {
            let Some(prefix) = source.member("prefix") else { continue };
            if let Some(text) = prefix.text().filter(|text| is_own_prefix(text)) {
                let what = format!("is {}, which may make variables of Assay's own", quote(text));
                let hint = format!(
                    "names that begin with {} are taken, and so are {}",
                    quote_words(&OWN_PREFIXES),
                    quote_words(&OWN_VARIABLES)
                );
                self.refuse(prefix.span, &format!("envFrom[{index}].prefix"), &what, &hint);
            }
        }
    }

    fn tolerations(&mut self) {
        for (index, toleration) in self.items("tolerations") {
            let path = format!("tolerations[{index}]");
            let is_any = toleration.text_of("operator") == Some("Exists");
            match (toleration.member("key"), toleration.member("value")) {
                (_, Some(value)) if is_any => {
                    self.refuse(
                        value.anchor,
                        &format!("{path}.value"),
                        "is not compared by `operator: Exists`",
                        "remove one of them",
                    );
                }
                (None, _) if !is_any => {
                    self.refuse(toleration.anchor, &path, "has no `key`", "write one, or `operator: Exists` for every taint");
                }
                _ => {}
            }
            let is_executed = toleration.text_of("effect") == Some("NoExecute");
            if let Some(seconds) = toleration.member("tolerationSeconds").filter(|_| !is_executed) {
                let hint = "write `effect: NoExecute`, or remove it";
                self.refuse(seconds.anchor, &format!("{path}.tolerationSeconds"), "belongs to `effect: NoExecute`", hint);
            }
        }
    }

    fn volumes(&mut self) {
        for (index, volume) in self.items("volumes") {
            let Some(name) = volume.member("name") else { continue };
            if let Some(text) = name.text().filter(|text| OWN_VOLUMES.contains(text)) {
                let what = format!("is {}, which is a volume of Assay's own", quote(text));
                self.refuse(
                    name.span,
                    &format!("volumes[{index}].name"),
                    &what,
                    &format!("{} are taken", quote_words(&OWN_VOLUMES)),
                );
            }
        }
    }

    fn mounts(&mut self) {
        let volumes = self.pod.member("volumes");
        let names: Vec<_> = self.items("volumes").filter_map(|(_, volume)| volume.text_of("name")).collect();
        // The name may be in an invalid item of the list.
        let is_whole = volumes.is_some_and(|list| list.value != Value::Invalid && list.items().len() == names.len());
        for (index, mount) in self.items("volumeMounts") {
            if let Some(name) = mount.member("name")
                && let Some(text) = name.text().filter(|text| is_whole && !names.contains(text))
            {
                let what = format!("is {}, which is none of `volumes`", quote(text));
                let hint = did_you_mean(text, names.iter().copied()).unwrap_or_else(|| "add it to `volumes`".to_owned());
                self.refuse(name.span, &format!("volumeMounts[{index}].name"), &what, &hint);
            }
            if let Some(path) = mount.member("mountPath")
                && let Some(text) = path.text()
                && let Some(own) = find_shadowed_folder(text)
            {
                let what = format!("is {}, where Assay or the pod itself has `{own}`", quote(text));
                let hint = format!(
                    "a folder apart from {}; of these, `{SHARED_MEMORY}` alone may be mounted",
                    quote_words(&OWN_FOLDERS)
                );
                self.refuse(path.span, &format!("volumeMounts[{index}].mountPath"), &what, &hint);
            }
        }
    }

    /// Refuses the priority classes of the cluster's own programs: pods that evict those programs would take the cluster down.
    fn priority(&mut self) {
        let Some(class) = self.pod.member("priorityClassName") else { return };
        if let Some(text) = class.text().filter(|text| text.starts_with("system-")) {
            let what = format!("is {}, which is for the cluster itself", quote(text));
            self.refuse(
                class.span,
                "priorityClassName",
                &what,
                "name a PriorityClass that an administrator has made for benchmarks",
            );
        }
    }

    /// Checks the service account. Another account gives a pod an identity of the cloud's; rights in the cluster are those of a
    /// stage's own account.
    fn service_account(&mut self, stage: &str) {
        let Some(account) = self.pod.member("serviceAccountName") else { return };
        let Some(name) = account.text().filter(|name| *name != format!("assay-{stage}")) else { return };
        if is_assay_name(name) {
            let what = format!("is {}, which is not the account of `{stage}`", quote(name));
            let hint = format!("`assay-{stage}` is; leave it out, or name an account that does not begin with `assay-`");
            self.refuse(account.span, "serviceAccountName", &what, &hint);
        } else if matches!(stage, "provision" | "collect") {
            let what = format!("is {}, and `{stage}` asks the API server as `assay-{stage}`", quote(name));
            let hint = format!("give the account `assay-{stage}` the identity that the stage needs");
            self.refuse(account.span, "serviceAccountName", &what, &hint);
        }
    }
}

fn quote_words(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_assays_own_is_known_by_its_name() {
        for name in ["assay", "assay-key-publish", "assay-nightly-1"] {
            assert!(is_assay_name(name), "{name}");
        }
        assert!(!is_assay_name("assays") && !is_assay_name("my-assay"));
        for name in
            ["ASSAY_STORE", "assay_store", "COSIGN_PASSWORD", "AWS_PROFILE", "ENDPOINT_KEY", "LD_PRELOAD", "PATH", "TMPDIR"]
        {
            assert!(is_own_variable(name), "{name}");
        }
        for name in ["NCCL_DEBUG", "PATHS", "HF_TOKEN", "https_proxy", "SSL_CERT_FILE"] {
            assert!(!is_own_variable(name), "{name}");
        }
        for prefix in ["A", "ASSAY", "ASSAY_X", "aws_", "E", "LD_", "PA", "TMPDIR"] {
            assert!(is_own_prefix(prefix), "{prefix}");
        }
        for prefix in ["TEAM_", "X", "PATHS"] {
            assert!(!is_own_prefix(prefix), "{prefix}");
        }
    }

    #[test]
    fn nothing_is_mounted_over_what_a_pod_needs() {
        for path in ["/", "/keys", "/keys/x", "/var", "/var/run", "/run", "/dev", "/dev/termination-log", "/tmp/a", "/proc/1"] {
            assert!(find_shadowed_folder(path).is_some(), "{path}");
        }
        for path in ["/usr", "/usr/local/bin", "/bin", "/sbin/x", "/lib", "/lib64", "/etc", "/etc/ssl/certs", "/etc/hosts"] {
            assert!(find_shadowed_folder(path).is_some(), "{path}");
        }
        for path in
            ["/data", "/dev/shm", "/keysets", "/assays", "/var/lib/data", "/etc/authorities", "/etc/group-data", "/libs", "/opt"]
        {
            assert_eq!(find_shadowed_folder(path), None, "{path}");
        }
    }
}
