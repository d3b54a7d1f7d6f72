//! Targets that consist of Kubernetes objects of the repository: validation of the objects, and the state of their rollout.

use std::collections::BTreeSet;

use assay_manifest::RunId;
use k8s_openapi::api::core::v1::{Event, Pod};
use serde_json::{Value, json};

use crate::job_state::{trouble_of_event, trouble_of_refusal};
use crate::{
    Error, MANAGED_BY, Object, ObjectConflict, ObjectOwner, QUEUE, RUN, Result, TARGET, TargetUrlError, TargetUrlFault, Trouble,
    phase, trouble_of,
};

/// The kinds that a target may consist of, with their API versions, in the order of creation: mounted objects and Services come
/// before pods.
const KINDS: [(&str, &str); 5] =
    [("ConfigMap", "v1"), ("Service", "v1"), ("Pod", "v1"), ("Deployment", "apps/v1"), ("StatefulSet", "apps/v1")];
/// All kinds of a target's objects, however it was brought up, in the order of deletion: controllers go before the pods that they
/// make.
pub const TARGET_KINDS: [&str; 5] = ["Deployment", "StatefulSet", "Pod", "Service", "ConfigMap"];
/// The most objects of one target: enough for a server in several parts, few enough to review.
const MAX_OBJECTS: usize = 50;
/// The most problems that are listed.
const MAX_PROBLEMS: usize = 50;
/// The longest termination grace period of a pod, in seconds: releasing the target waits for it.
const MAX_GRACE: u64 = 60;
/// The most pods of one target.
const MAX_PODS: i64 = 64;
/// The longest name of an object.
const MAX_NAME: usize = 63;
/// The longest name of an object that makes pods: the names of the pods, and of labels that they get, are longer.
const MAX_MAKER_NAME: usize = 40;
/// The volume types that Pod Security `restricted` allows.
const VOLUMES: [&str; 7] = ["configMap", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"];
/// The sources that a projected volume may have: no service account token is among them.
const PROJECTED: [&str; 3] = ["configMap", "downwardAPI", "secret"];
/// The fields that a Service may set: it is reached by its name, and only from within the cluster.
const SERVICE_FIELDS: [&str; 5] = ["clusterIP", "ports", "selector", "sessionAffinity", "sessionAffinityConfig"];
/// The prefix of priority classes that are reserved for the cluster itself.
const SYSTEM_PRIORITY_PREFIX: &str = "system-";
/// The prefix of Assay's own names.
const OWN_PREFIX: &str = "assay";

/// The run and target that objects are brought up for.
pub struct ObjectsOwner<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The run.
    pub run_id: &'a RunId,
    /// The target's name in the plan.
    pub target: &'a str,
    /// The queue of their pods, if the cluster has queues.
    pub queue: Option<&'a str>,
}

/// Builds the objects of a target from the files that hold them. Names stay as they are written; all selectors and selected
/// labels get the labels of run and target, so two runs never select each other's pods.
///
/// # Errors
/// All rules that the objects break, in one error.
pub fn target_objects(of: &ObjectsOwner<'_>, files: &[(String, Vec<Value>)]) -> Result<Vec<Object>> {
    let mut check = ObjectCheck { path: "", what: String::new(), problems: Vec::new() };
    let (mut names, mut objects, mut pods) = (BTreeSet::new(), Vec::new(), 0i64);
    let count: usize = files.iter().map(|(_, documents)| documents.len()).sum();
    if count > MAX_OBJECTS {
        return Err(invalid_objects(of, vec![format!("there are {count} objects; a target has at most {MAX_OBJECTS}")]));
    }
    for (path, documents) in files {
        for object in documents {
            check.path = path;
            if let Some((kind, name)) = check.check_identity(object) {
                if !names.insert((kind, name)) {
                    check.refuse("is given twice");
                }
                pods = pods.saturating_add(check.check_object(kind, object));
                objects.push(object);
            }
        }
    }
    match pods {
        0 if check.problems.is_empty() => check.problems.push("none of them brings up a pod".to_owned()),
        pods if pods > MAX_PODS => check.problems.push(format!("they make {pods} pods; a target has at most {MAX_PODS}")),
        _ => {}
    }
    if !check.problems.is_empty() {
        return Err(invalid_objects(of, check.problems));
    }
    let mut built: Vec<Object> = objects.into_iter().map(|object| build(of, object)).collect();
    built.sort_by_key(|object| KINDS.iter().position(|(kind, _)| object["kind"] == *kind));
    Ok(built)
}

fn invalid_objects(of: &ObjectsOwner<'_>, problems: Vec<String>) -> Error {
    Error::TargetObjects { target: of.target.to_owned(), problems }
}

/// Validation of objects, with the problems found so far.
struct ObjectCheck<'a> {
    path: &'a str,
    /// The current object, for messages.
    what: String,
    problems: Vec<String>,
}

impl ObjectCheck<'_> {
    fn refuse(&mut self, why: impl AsRef<str>) {
        match self.problems.len() {
            MAX_PROBLEMS => self.problems.push("what else is wrong is not listed".to_owned()),
            listed if listed < MAX_PROBLEMS => {
                self.problems.push(format!("`{}`: {} {}", self.path, self.what, why.as_ref()));
            }
            _ => {}
        }
    }

    /// Refuses a field that is set, which is: not false, 0 or empty.
    fn refuse_set(&mut self, of: &Value, names: &[&str]) {
        for name in names {
            let is_set = match &of[*name] {
                Value::Null | Value::Bool(false) => false,
                Value::Number(number) => number.as_i64() != Some(0),
                Value::String(text) => !text.is_empty(),
                Value::Array(items) => !items.is_empty(),
                Value::Bool(true) | Value::Object(_) => true,
            };
            if is_set {
                self.refuse(format!("may not set `{name}`"));
            }
        }
    }

    /// Refuses fields that are not in `names`.
    fn refuse_others(&mut self, of: &Value, part: &str, names: &[&str]) {
        let others = of.as_object().into_iter().flat_map(|members| members.keys()).filter(|name| !names.contains(&name.as_str()));
        let others: Vec<String> = others.map(|name| format!("may not set `{part}.{}`", printable_text(name))).collect();
        for other in others {
            self.refuse(other);
        }
    }

    /// Checks and returns kind and name of an object.
    fn check_identity(&mut self, object: &Value) -> Option<(&'static str, String)> {
        let text = |name: &str| object[name].as_str().unwrap_or_default();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        self.what = format!(
            "the {} `{}`",
            printable_text(if text("kind").is_empty() { "object" } else { text("kind") }),
            printable_text(name)
        );
        let Some((kind, version)) = KINDS.into_iter().find(|(kind, _)| *kind == text("kind")) else {
            let kinds = KINDS.map(|(kind, _)| kind).join(", ");
            self.refuse(format!("is of no kind that a target may consist of: {kinds}"));
            return None;
        };
        if text("apiVersion") != version {
            self.refuse(format!("has to be of `apiVersion: {version}`"));
        }
        let most = if matches!(kind, "Deployment" | "StatefulSet") { MAX_MAKER_NAME } else { MAX_NAME };
        if name.is_empty() || name.len() > most || !is_label(name) || (kind == "Service" && !name.starts_with(is_letter)) {
            let begins = if kind == "Service" { ", beginning with a letter" } else { "" };
            self.refuse(format!(
                "needs a name of lower-case letters, digits and inner hyphens{begins}, at most {most} characters"
            ));
        }
        Some((kind, name.to_owned()))
    }

    /// Checks everything else of an object, and returns the number of pods that it makes.
    fn check_object(&mut self, kind: &str, object: &Value) -> i64 {
        self.check_maps(object, map_paths(kind));
        let metadata = &object["metadata"];
        if !metadata["namespace"].is_null() {
            self.refuse("names a namespace; it is made in that of the targets");
        }
        self.refuse_others(metadata, "metadata", &["annotations", "labels", "name", "namespace"]);
        self.check_labels(&metadata["labels"]);
        let spec = &object["spec"];
        match kind {
            "Service" => {
                self.check_service(spec);
                0
            }
            "Pod" => {
                self.check_pod(spec);
                1
            }
            "Deployment" | "StatefulSet" => {
                self.refuse_set(spec, &["volumeClaimTemplates"]);
                let template = &spec["template"];
                self.refuse_others(&template["metadata"], "template.metadata", &["annotations", "labels"]);
                self.check_labels(&template["metadata"]["labels"]);
                self.check_labels(&spec["selector"]["matchLabels"]);
                self.check_pod(&template["spec"]);
                match &spec["replicas"] {
                    Value::Null => 1,
                    replicas => replicas.as_i64().filter(|count| *count >= 0).unwrap_or_else(|| {
                        self.refuse("needs a whole number of `replicas`");
                        0
                    }),
                }
            }
            _ => 0,
        }
    }

    /// Refuses parts that labels are put into if they are neither a map nor absent.
    fn check_maps(&mut self, object: &Value, paths: &[&str]) {
        for path in paths {
            if object.pointer(path).is_some_and(|part| !part.is_null() && !part.is_object()) {
                self.refuse(format!("needs a map at `{}`", path.trim_start_matches('/').replace('/', ".")));
            }
        }
    }

    fn check_labels(&mut self, labels: &Value) {
        let names = labels.as_object().into_iter().flat_map(|labels| labels.keys());
        let own: Vec<&String> =
            names.filter(|name| name.starts_with("assay.dev/") || *name == MANAGED_BY.0 || *name == QUEUE).collect();
        for name in own {
            self.refuse(format!("may not set the label `{}`, which is Assay's to set", printable_text(name)));
        }
    }

    fn check_service(&mut self, spec: &Value) {
        if !matches!(spec["type"].as_str(), None | Some("ClusterIP")) {
            self.refuse("may be of `type: ClusterIP` only");
        }
        self.refuse_others(spec, "spec", &[&SERVICE_FIELDS[..], &["type"]].concat());
        if spec["selector"].as_object().is_none_or(serde_json::Map::is_empty) {
            self.refuse("needs a `selector`");
        }
        self.check_labels(&spec["selector"]);
    }

    fn check_pod(&mut self, spec: &Value) {
        self.refuse_set(
            spec,
            &["automountServiceAccountToken", "ephemeralContainers", "hostIPC", "hostNetwork", "hostPID", "nodeName"],
        );
        for name in ["serviceAccount", "serviceAccountName"] {
            self.refuse_own_name(&spec[name], "the service account");
        }
        let grace = &spec["terminationGracePeriodSeconds"];
        if !grace.is_null() && grace.as_u64().is_none_or(|seconds| seconds > MAX_GRACE) {
            self.refuse(format!("needs `terminationGracePeriodSeconds` from 0 to {MAX_GRACE}, or none"));
        }
        if let Some(class) = spec["priorityClassName"].as_str().filter(|class| class.starts_with(SYSTEM_PRIORITY_PREFIX)) {
            self.refuse(format!("may not have the priority `{}`, which is for the cluster itself", printable_text(class)));
        }
        for secret in list(&spec["imagePullSecrets"]) {
            self.refuse_own_name(&secret["name"], "the Secret");
        }
        for volume in list(&spec["volumes"]) {
            self.check_volume(volume);
        }
        let containers = ["initContainers", "containers"].into_iter().flat_map(|part| list(&spec[part]));
        containers.for_each(|container| self.check_container(container));
    }

    fn check_volume(&mut self, volume: &Value) {
        let sources = volume.as_object().into_iter().flat_map(|members| members.keys()).filter(|name| *name != "name");
        let others: Vec<&String> = sources.filter(|name| !VOLUMES.contains(&name.as_str())).collect();
        for source in others {
            self.refuse(format!("may not mount a volume of `{}`", printable_text(source)));
        }
        self.refuse_own_name(&volume["secret"]["secretName"], "the Secret");
        for source in list(&volume["projected"]["sources"]) {
            self.refuse_own_name(&source["secret"]["name"], "the Secret");
            self.refuse_others(source, "projected", &PROJECTED);
        }
    }

    fn check_container(&mut self, container: &Value) {
        // Assay believes what a container of that name reports about its end, as if a stage had said it.
        if container["name"] == OWN_PREFIX {
            self.refuse(format!("may not call a container `{OWN_PREFIX}`"));
        }
        let security = &container["securityContext"];
        self.refuse_set(security, &["allowPrivilegeEscalation", "privileged"]);
        if !list(&security["capabilities"]["add"]).is_empty() {
            self.refuse("may not set `capabilities.add`");
        }
        for port in list(&container["ports"]) {
            self.refuse_set(port, &["hostPort"]);
        }
        let references = list(&container["env"]).iter().map(|variable| &variable["valueFrom"]["secretKeyRef"]["name"]);
        let whole = list(&container["envFrom"]).iter().map(|source| &source["secretRef"]["name"]);
        references.chain(whole).for_each(|name| self.refuse_own_name(name, "the Secret"));
    }

    fn refuse_own_name(&mut self, name: &Value, what: &str) {
        if let Some(name) = name.as_str().filter(|name| name.starts_with(OWN_PREFIX)) {
            self.refuse(format!("may not use {what} `{}`: names with `{OWN_PREFIX}` are Assay's own", printable_text(name)));
        }
    }
}

/// Returns the paths of an object's parts that labels are put into, and of the parts around them.
fn map_paths(kind: &str) -> &'static [&'static str] {
    match kind {
        "Service" => &["/metadata", "/metadata/labels", "/spec", "/spec/selector"],
        "Pod" => &["/metadata", "/metadata/labels", "/spec"],
        "Deployment" | "StatefulSet" => &[
            "/metadata",
            "/metadata/labels",
            "/spec",
            "/spec/selector",
            "/spec/selector/matchLabels",
            "/spec/template",
            "/spec/template/metadata",
            "/spec/template/metadata/labels",
            "/spec/template/spec",
        ],
        _ => &["/metadata", "/metadata/labels"],
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn is_letter(letter: char) -> bool {
    letter.is_ascii_lowercase()
}

fn is_label(name: &str) -> bool {
    let edge = |letter: char| is_letter(letter) || letter.is_ascii_digit();
    name.starts_with(edge) && name.ends_with(edge) && name.chars().all(|letter| edge(letter) || letter == '-')
}

/// Returns a text of a file in the form in which a message may show it.
fn printable_text(text: &str) -> String {
    text.chars().take(MAX_NAME).map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

fn build(of: &ObjectsOwner<'_>, written: &Value) -> Object {
    let mut object = written.clone();
    object["metadata"]["namespace"] = json!(of.namespace);
    add_labels(of, &mut object["metadata"]);
    let choosing = [(RUN, json!(of.run_id)), (TARGET, json!(of.target))];
    let choose = |selector: &mut Value| choosing.iter().for_each(|(name, value)| selector[*name] = value.clone());
    match object["kind"].as_str().unwrap_or_default() {
        "Service" => choose(&mut object["spec"]["selector"]),
        "Deployment" | "StatefulSet" => {
            choose(&mut object["spec"]["selector"]["matchLabels"]);
            complete_pod(of, &mut object["spec"]["template"]);
        }
        "Pod" => complete_pod(of, &mut object),
        _ => {}
    }
    object
}

/// Sets the labels by which an object is found and released.
fn add_labels(of: &ObjectsOwner<'_>, metadata: &mut Value) {
    let labels = &mut metadata["labels"];
    labels[MANAGED_BY.0] = json!(MANAGED_BY.1);
    labels[RUN] = json!(of.run_id);
    labels[TARGET] = json!(of.target);
}

/// Completes a pod, alone or in a template: no service account token, and a place in the queue.
fn complete_pod(of: &ObjectsOwner<'_>, pod: &mut Value) {
    add_labels(of, &mut pod["metadata"]);
    if let Some(queue) = of.queue {
        pod["metadata"]["labels"][QUEUE] = json!(queue);
    }
    pod["spec"]["automountServiceAccountToken"] = json!(false);
}

/// Returns an error that names the owner of an existing object; `None` if it is this target's own.
pub fn owner_conflict(of: &ObjectsOwner<'_>, there: &Object) -> Option<Error> {
    let label = |name: &str| there["metadata"]["labels"][name].as_str();
    if (label(RUN), label(TARGET)) == (Some(of.run_id.as_str()), Some(of.target)) {
        return None;
    }
    let (kind, name) = (there["kind"].as_str().unwrap_or("object"), there["metadata"]["name"].as_str().unwrap_or_default());
    let owner = match (label(RUN), label(TARGET)) {
        (Some(run), Some(target)) if run == of.run_id.as_str() => ObjectOwner::Target(printable_text(target)),
        (Some(run), _) => ObjectOwner::Run(printable_text(run)),
        (None, _) => ObjectOwner::Foreign,
    };
    Some(Error::ObjectTaken(Box::new(ObjectConflict {
        kind: kind.to_owned(),
        name: name.to_owned(),
        target: of.target.to_owned(),
        namespace: of.namespace.to_owned(),
        owner,
    })))
}

/// Returns the address at which a target's Service is reached from every namespace: `url` names it as its definition does.
pub fn service_address(of: &ObjectsOwner<'_>, url: &str, objects: &[Object]) -> Result<String> {
    let refuse = |fault: TargetUrlFault| {
        let services =
            objects.iter().filter(|object| object["kind"] == "Service").filter_map(|object| object["metadata"]["name"].as_str());
        let services = services.map(str::to_owned).collect();
        Error::TargetUrl(Box::new(TargetUrlError { target: of.target.to_owned(), url: url.to_owned(), fault, services }))
    };
    let (scheme, rest) = url.split_once("://").ok_or_else(|| refuse(TargetUrlFault::NotAnAddress))?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let usual = if scheme == "https" { 443 } else { 80 };
    let (host, port) = match authority.split_once(':') {
        None => (authority, usual),
        Some((host, port)) => (host, port.parse().map_err(|_| refuse(TargetUrlFault::NotAPort(port.to_owned())))?),
    };
    let is_it = |object: &&Object| object["kind"] == "Service" && object["metadata"]["name"] == *host;
    let service = objects.iter().find(is_it).ok_or_else(|| refuse(TargetUrlFault::NoService(host.to_owned())))?;
    if !list(&service["spec"]["ports"]).iter().any(|open| open["port"].as_u64() == Some(port)) {
        return Err(refuse(TargetUrlFault::NoServicePort { service: host.to_owned(), port }));
    }
    Ok(format!("{scheme}://{host}.{}.svc:{port}{path}", of.namespace))
}

/// The state of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rollout {
    /// All objects are up.
    Up,
    /// Some objects are not up yet; with the trouble, if any is reported.
    Waiting(Option<Trouble>),
}

/// Returns the state of a rollout from the objects and pods in the cluster, and from the events of objects that make pods.
pub fn rollout(objects: &[Object], pods: &[Pod], events: &[Event]) -> Rollout {
    let mut troubles: Vec<Trouble> = pods.iter().filter_map(trouble_of_member).collect();
    troubles.extend(objects.iter().filter_map(refusal));
    // Lasting trouble is the reason of the failure; otherwise the first that was found.
    let worst = troubles.iter().find(|trouble| trouble.lasts).or(troubles.first()).cloned();
    let running = pods.iter().filter(|pod| phase(pod) == "Running").count();
    let asked = objects.iter().fold(0i64, |sum, object| sum.saturating_add(pod_count(object)));
    if worst.is_none() && objects.iter().all(is_up) && i64::try_from(running).unwrap_or(i64::MAX) >= asked {
        return Rollout::Up;
    }
    Rollout::Waiting(worst.or_else(|| events.iter().rev().find_map(trouble_of_event)))
}

/// Returns the trouble of a pod that a controller makes: such a pod is replaced when it has ended, so its end is no failure.
fn trouble_of_member(pod: &Pod) -> Option<Trouble> {
    let is_made = pod.metadata.owner_references.as_ref().is_some_and(|owners| !owners.is_empty());
    let trouble = trouble_of(pod)?;
    let has_ended = matches!(phase(pod), "Failed" | "Succeeded");
    Some(Trouble { lasts: trouble.lasts && !(is_made && has_ended), ..trouble })
}

/// Returns why pods were refused: a Deployment's status repeats the refusal that its ReplicaSet got.
fn refusal(object: &Object) -> Option<Trouble> {
    let is_it = |condition: &&Value| condition["type"] == "ReplicaFailure" && condition["status"] == "True";
    let condition = list(&object["status"]["conditions"]).iter().find(is_it)?;
    Some(trouble_of_refusal(condition["message"].as_str().unwrap_or_default()))
}

/// Returns true if a pod is ready to serve: if it has no readiness probe, as soon as its containers run.
fn is_ready(pod: &Object) -> bool {
    let conditions = list(&pod["status"]["conditions"]).iter();
    conditions.filter(|condition| condition["type"] == "Ready").any(|condition| condition["status"] == "True")
}

/// Returns the number of pods that an object in the cluster makes, or is.
fn pod_count(object: &Object) -> i64 {
    match object["kind"].as_str().unwrap_or_default() {
        "Deployment" | "StatefulSet" => object["spec"]["replicas"].as_i64().unwrap_or(1),
        "Pod" => 1,
        _ => 0,
    }
}

fn is_up(object: &Object) -> bool {
    let (status, asked) = (&object["status"], pod_count(object));
    let count = |name: &str| status[name].as_i64().unwrap_or(0);
    match object["kind"].as_str().unwrap_or_default() {
        "Deployment" | "StatefulSet" => {
            let is_seen = count("observedGeneration") >= object["metadata"]["generation"].as_i64().unwrap_or(1);
            is_seen && count("updatedReplicas") >= asked && count("readyReplicas") == asked && count("replicas") == asked
        }
        "Pod" => status["phase"] == "Running" && is_ready(object),
        _ => true,
    }
}

#[cfg(test)]
mod tests;
