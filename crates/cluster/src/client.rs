//! The client of the API server: sends requests and returns responses. It makes no decisions.

mod forward;
mod lease;
mod logs;
mod watch;

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

pub use forward::PortForward;
pub use lease::Lease;
pub use logs::LogLine;
pub use watch::{RunObjects, RunWatch, Waker};

use crate::{Error, Object, Outage, Refusal, Result};

/// The longest outage of the API server that a run survives: as long as one of a store.
const PATIENCE: Duration = Duration::from_mins(3);
/// The time for which a refusal is retried: an API server that has just started does not know all rights yet.
const DOUBT: Duration = Duration::from_secs(20);
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(500);
/// The age up to which an event describes the present, in seconds: an ongoing condition is repeated more often than that.
const EVENT_SECONDS: i64 = 180;
/// The timeout of one response.
const ANSWER_TIME: Duration = Duration::from_secs(30);
/// The objects of one page of a list, and the most pages: 200,000 objects of a namespace are looked through.
const PAGE: usize = 500;
const MAX_PAGES: usize = 400;
/// The field manager of our changes.
const MANAGER: &str = "assay";

/// The cluster that a person selects.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// The kubeconfig; the default one if left out.
    pub kubeconfig: Option<PathBuf>,
    /// The context in it; the current one if left out.
    pub context: Option<String>,
}

/// A connection to a cluster's API server.
#[derive(Clone)]
pub struct Cluster {
    runtime: Arc<Runtime>,
    client: Client,
    /// True if the client waits for an API server that is away.
    waits: bool,
    /// The number of requests to the API server.
    request_count: Arc<AtomicU64>,
}

impl Cluster {
    /// Connects to the cluster that a person selects. Errors show at once, without retries.
    pub fn from_kubeconfig(connect: &ConnectOptions) -> Result<Self> {
        let runtime = runtime()?;
        let read = match &connect.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let options = KubeConfigOptions { context: connect.context.clone(), ..KubeConfigOptions::default() };
        let config = runtime.block_on(async { Config::from_custom_kubeconfig(read?, &options).await });
        let config = config.map_err(|error| Error::Kubeconfig(error.into()))?;
        Self::new(runtime, config, false)
    }

    /// Connects to the cluster that this pod runs in, as its service account.
    pub fn from_pod() -> Result<Self> {
        let runtime = runtime()?;
        let config = Config::incluster().map_err(|error| Error::NoCluster(error.into()))?;
        Self::new(runtime, config, true)
    }

    fn new(runtime: Runtime, config: Config, waits: bool) -> Result<Self> {
        // If two crypto providers are linked and none is chosen, every connection panics.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let guard = runtime.enter();
        let client = Client::try_from(config).map_err(|error| Error::Client(error.into()))?;
        drop(guard);
        Ok(Self { runtime: Arc::new(runtime), client, waits, request_count: Arc::default() })
    }

    /// Returns the number of requests to the API server so far, by this client and its clones, including streams that were begun.
    pub fn request_count(&self) -> u64 {
        self.request_count.load(Ordering::Relaxed)
    }

    fn count_request(&self) {
        self.request_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns a client that waits for an API server that is away.
    #[must_use]
    pub fn with_retries(&self) -> Self {
        Self { waits: true, ..self.clone() }
    }

    /// Returns a client that does not wait, and returns a refusal at once.
    #[must_use]
    pub fn without_retries(&self) -> Self {
        Self { waits: false, ..self.clone() }
    }

    /// Returns an object by its place; `None` if there is none.
    pub fn get<K: DeserializeOwned>(&self, place: &ObjectPath<'_>) -> Result<Option<K>> {
        match self.send(Method::GET, &place.path(), &[], None) {
            Ok(value) => read(value).map(Some),
            Err(error) if error.refusal() == Some(Refusal::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns true if the cluster has an API, by its group and version.
    pub fn has_api(&self, version: &str) -> Result<bool> {
        match self.send(Method::GET, &format!("/apis/{version}"), &[], None) {
            Ok(_) => Ok(true),
            Err(error) if error.refusal() == Some(Refusal::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lists all objects of a kind in a namespace that match a label selector.
    pub fn list<K: DeserializeOwned>(&self, kind: &'static str, namespace: &str, selector: &str) -> Result<Vec<K>> {
        let path = ObjectPath::all_of_kind(kind, namespace).path();
        let query = if selector.is_empty() { vec![] } else { vec![("labelSelector", selector)] };
        let mut answer = self.send(Method::GET, &path, &query, None)?;
        read(answer["items"].take())
    }

    /// Returns the objects of a kind in a namespace that match a label selector and are wanted, page by page: at most `max`, and true if
    /// there are more, or more than can be looked through.
    ///
    /// # Errors
    /// If the API server refuses a page, or is away.
    pub fn list_wanted(
        &self,
        kind: &'static str,
        namespace: &str,
        selector: &str,
        max: usize,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Result<(Vec<Value>, bool)> {
        let path = ObjectPath::all_of_kind(kind, namespace).path();
        let (limit, mut found, mut next) = (PAGE.to_string(), Vec::new(), String::new());
        for _ in 0..MAX_PAGES {
            let given = [("limit", limit.as_str()), ("labelSelector", selector), ("continue", next.as_str())];
            let query: Vec<_> = given.into_iter().filter(|(_, value)| !value.is_empty()).collect();
            let mut page = self.send(Method::GET, &path, &query, None)?;
            let objects: Vec<Value> = read(page["items"].take())?;
            found.extend(objects.into_iter().filter(|object| is_wanted(object)));
            page["metadata"]["continue"].as_str().unwrap_or_default().clone_into(&mut next);
            let is_over = next.is_empty();
            if is_over || found.len() > max {
                let has_more = !is_over || found.len() > max;
                found.truncate(max);
                return Ok((found, has_more));
            }
        }
        Ok((found, true))
    }

    /// Returns the events of an object that are recent enough to describe the present, the oldest first.
    pub fn events(&self, namespace: &str, name: &str) -> Result<Vec<k8s_openapi::api::core::v1::Event>> {
        let path = ObjectPath::all_of_kind("Event", namespace).path();
        let mut answer = self.send(Method::GET, &path, &[("fieldSelector", &format!("involvedObject.name={name}"))], None)?;
        let mut events: Vec<k8s_openapi::api::core::v1::Event> = read(answer["items"].take())?;
        let now = jiff::Timestamp::now();
        events.retain(|event| event.last_timestamp.as_ref().is_none_or(|at| now.duration_since(at.0).as_secs() < EVENT_SECONDS));
        Ok(events)
    }

    /// Returns the events of all pods of a namespace that have this reason.
    pub fn pod_events(&self, namespace: &str, reason: &str) -> Result<Vec<k8s_openapi::api::core::v1::Event>> {
        let path = ObjectPath::all_of_kind("Event", namespace).path();
        let selector = format!("involvedObject.kind=Pod,reason={reason}");
        read(self.send(Method::GET, &path, &[("fieldSelector", &selector)], None)?["items"].take())
    }

    /// Creates an object; the server refuses unknown fields. Returns false if an object of that name exists.
    pub fn create(&self, object: &Object) -> Result<bool> {
        let place = ObjectPath::from_object(object);
        let path = ObjectPath { name: None, ..place }.path();
        match self.send(Method::POST, &path, &strict(), Some((JSON, object))) {
            Ok(_) => Ok(true),
            Err(error) if error.refusal() == Some(Refusal::AlreadyExists) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Applies an object (server-side apply): creates it, or changes it to be as given.
    pub fn apply(&self, object: &Object) -> Result<Value> {
        let query: Vec<_> = strict().into_iter().chain([("force", "true")]).collect();
        self.send(Method::PATCH, &ObjectPath::from_object(object).path(), &query, Some((APPLY, object)))
    }

    /// Merges a patch into an object.
    pub fn merge(&self, place: &ObjectPath<'_>, patch: &Value) -> Result<Value> {
        self.send(Method::PATCH, &place.path(), &strict(), Some((MERGE, patch)))
    }

    /// Replaces an object as it was last read: fails with `conflict` if it has changed since.
    pub fn replace(&self, object: &Object) -> Result<Value> {
        self.send(Method::PUT, &ObjectPath::from_object(object).path(), &strict(), Some((JSON, object)))
    }

    /// Deletes an object and its dependents. An object that does not exist is no error.
    pub fn delete(&self, place: &ObjectPath<'_>, uid: Option<&str>) -> Result<()> {
        let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
        if let Some(uid) = uid {
            options["preconditions"] = json!({"uid": uid});
        }
        match self.send(Method::DELETE, &place.path(), &[], Some((JSON, &options))) {
            Err(error) if error.refusal() != Some(Refusal::NotFound) => Err(error),
            _ => Ok(()),
        }
    }

    /// Deletes all objects of a kind in a namespace that match a label selector.
    pub fn delete_all(&self, kind: &'static str, namespace: &str, selector: &str) -> Result<()> {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"});
        let path = ObjectPath::all_of_kind(kind, namespace).path();
        self.send(Method::DELETE, &path, &[("labelSelector", selector)], Some((JSON, &options))).map(drop)
    }

    fn send(&self, method: Method, path: &str, query: &[(&str, &str)], body: Option<(&str, &Value)>) -> Result<Value> {
        let mut serializer = url::form_urlencoded::Serializer::new(format!("{path}?"));
        let uri = serializer.extend_pairs(query).finish();
        let begun = Instant::now();
        loop {
            self.count_request();
            let request = Request::builder().method(method.clone()).uri(&uri);
            let request = match body {
                Some((kind, value)) => request.header("content-type", kind).body(value.to_string().into_bytes()),
                None => request.body(Vec::new()),
            };
            let request = request.map_err(Error::Request)?;
            let asked = async { tokio::time::timeout(ANSWER_TIME, self.client.request::<Value>(request)).await };
            let error = match self.runtime.block_on(asked) {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(error)) => to_error(&error),
                Err(_) => away("it did not respond in time".to_owned()),
            };
            // A create request whose response was lost finds its own object on the next try.
            let patience = match &error {
                Error::Away { .. } => PATIENCE,
                Error::Refused { refusal: Refusal::Forbidden | Refusal::Unauthenticated, .. } => DOUBT,
                _ => Duration::ZERO,
            };
            if !self.waits || begun.elapsed() >= patience {
                return Err(error);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";

fn strict() -> Vec<(&'static str, &'static str)> {
    vec![("fieldValidation", "Strict"), ("fieldManager", MANAGER)]
}

fn read<K: DeserializeOwned>(value: Value) -> Result<K> {
    serde_json::from_value(value).map_err(Error::Response)
}

fn runtime() -> Result<Runtime> {
    // The library panics if it cannot start its threads, or open the sockets by which it learns of signals.
    let probe = std::thread::Builder::new().spawn(|| ()).map_err(Error::Threads)?;
    let _ = probe.join();
    drop([UnixStream::pair().map_err(Error::Threads)?, UnixStream::pair().map_err(Error::Threads)?]);
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(Error::Threads)
}

fn away(detail: String) -> Error {
    Error::Away { outage: Outage::ApiServer, detail }
}

/// Classifies an error of the API server by what the caller can do about it.
fn to_error(error: &kube::Error) -> Error {
    let kube::Error::Api(status) = error else { return away(texts(error)) };
    let message = status.message.clone();
    let refusal = match (status.code, status.reason.as_str()) {
        (401, _) => Refusal::Unauthenticated,
        (403, _) if message.contains("exceeded quota") => Refusal::Quota,
        (403, _) if message.contains("violates PodSecurity") || message.contains("admission webhook") => Refusal::Admission,
        (403, _) => Refusal::Forbidden,
        (404, _) => Refusal::NotFound,
        (409, "AlreadyExists") => Refusal::AlreadyExists,
        (409, _) => Refusal::Conflict,
        (400 | 422, _) => Refusal::Invalid,
        // The API server is there, but a webhook that it calls is not.
        (500, _) if message.contains("failed calling webhook") => {
            return Error::Away { outage: Outage::Webhook, detail: message };
        }
        (429 | 500..=599, _) => return away(message),
        (code, _) => Refusal::Other(code),
    };
    Error::Refused { refusal, message }
}

fn texts(error: &dyn std::error::Error) -> String {
    let mut all: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        // Some errors repeat their source in their own message.
        if !all.iter().any(|known| known.contains(&text)) {
            all.push(text);
        }
        next = error.source();
    }
    all.join(": ")
}

/// The place of an object, or of all objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectPath<'a> {
    kind: &'a str,
    namespace: Option<&'a str>,
    name: Option<&'a str>,
}

impl<'a> ObjectPath<'a> {
    /// Names an object of a namespace.
    pub fn named(kind: &'a str, namespace: &'a str, name: &'a str) -> Self {
        Self { kind, namespace: Some(namespace), name: Some(name) }
    }

    /// Names an object of the cluster.
    pub fn in_cluster(kind: &'a str, name: &'a str) -> Self {
        Self { kind, namespace: None, name: Some(name) }
    }

    fn all_of_kind(kind: &'a str, namespace: &'a str) -> Self {
        Self { kind, namespace: Some(namespace), name: None }
    }

    fn from_object(object: &'a Object) -> Self {
        let metadata = &object["metadata"];
        Self {
            kind: object["kind"].as_str().unwrap_or_default(),
            namespace: metadata["namespace"].as_str(),
            name: metadata["name"].as_str(),
        }
    }

    fn path(&self) -> String {
        let (group, plural) = kind(self.kind);
        let base = if group.contains('/') { format!("/apis/{group}") } else { format!("/api/{group}") };
        let namespace = self.namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
        let name = self.name.map(|name| format!("/{name}")).unwrap_or_default();
        format!("{base}{namespace}/{plural}{name}")
    }
}

/// Returns the group with its version, and the plural that the API uses for a kind.
fn kind(kind: &str) -> (&'static str, &'static str) {
    match kind {
        "Job" => ("batch/v1", "jobs"),
        "CronJob" => ("batch/v1", "cronjobs"),
        "Deployment" => ("apps/v1", "deployments"),
        "StatefulSet" => ("apps/v1", "statefulsets"),
        crate::inference::KSERVE => ("serving.kserve.io/v1beta1", "inferenceservices"),
        crate::inference::KSERVE_LLM => ("serving.kserve.io/v1alpha1", "llminferenceservices"),
        crate::inference::OME => ("ome.io/v1beta1", "inferenceservices"),
        crate::names::WORKLOAD => ("kueue.x-k8s.io/v1beta2", "workloads"),
        crate::names::OLD_WORKLOAD => ("kueue.x-k8s.io/v1beta1", "workloads"),
        "Lease" => ("coordination.k8s.io/v1", "leases"),
        "NetworkPolicy" => ("networking.k8s.io/v1", "networkpolicies"),
        "Role" => ("rbac.authorization.k8s.io/v1", "roles"),
        "RoleBinding" => ("rbac.authorization.k8s.io/v1", "rolebindings"),
        "ClusterRole" => ("rbac.authorization.k8s.io/v1", "clusterroles"),
        "ClusterRoleBinding" => ("rbac.authorization.k8s.io/v1", "clusterrolebindings"),
        "ConfigMap" => ("v1", "configmaps"),
        "Secret" => ("v1", "secrets"),
        "Service" => ("v1", "services"),
        "ServiceAccount" => ("v1", "serviceaccounts"),
        "PersistentVolumeClaim" => ("v1", "persistentvolumeclaims"),
        "Namespace" => ("v1", "namespaces"),
        "Node" => ("v1", "nodes"),
        "Event" => ("v1", "events"),
        // All other objects that are made here are Pods.
        _ => ("v1", "pods"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_failure::Failure;

    #[test]
    fn places_have_the_paths_of_the_api() {
        assert_eq!(ObjectPath::named("Job", "assay", "a").path(), "/apis/batch/v1/namespaces/assay/jobs/a");
        assert_eq!(ObjectPath::named("Pod", "assay", "a").path(), "/api/v1/namespaces/assay/pods/a");
        assert_eq!(ObjectPath::in_cluster("Namespace", "assay").path(), "/api/v1/namespaces/assay");
        assert_eq!(ObjectPath::all_of_kind("Event", "assay").path(), "/api/v1/namespaces/assay/events");
        let service = |api| ObjectPath::named(crate::inference_kind(api), "a", "b").path();
        let path = |group: &str| format!("/apis/{group}/v1beta1/namespaces/a/inferenceservices/b");
        assert_eq!(service(assay_manifest::InferenceApi::Kserve), path("serving.kserve.io"));
        assert_eq!(service(assay_manifest::InferenceApi::Ome), path("ome.io"));
        let llm = "/apis/serving.kserve.io/v1alpha1/namespaces/a/llminferenceservices/b";
        assert_eq!(service(assay_manifest::InferenceApi::KserveLlm), llm);
    }

    #[test]
    fn refusals_are_named_for_whoever_can_act() {
        let told = |code: u16, reason: &str, message: &str| {
            let status: kube::core::Status =
                serde_json::from_value(json!({"code": code, "reason": reason, "message": message})).expect("a status");
            let failure = Failure::from(to_error(&kube::Error::Api(Box::new(status))));
            format!("{}{}: {}", failure.code, if failure.lasting { " (lasts)" } else { "" }, failure.message)
        };
        insta::assert_snapshot!(told(403, "Forbidden", "pods is forbidden"), @"forbidden (lasts): the API server denies the request: pods is forbidden");
        insta::assert_snapshot!(told(403, "Forbidden", "exceeded quota: q"), @"quota: the cluster's quota is used up: exceeded quota: q");
        insta::assert_snapshot!(told(403, "Forbidden", "violates PodSecurity \"restricted\""), @r#"admission (lasts): admission was denied: violates PodSecurity "restricted""#);
        insta::assert_snapshot!(told(409, "AlreadyExists", "jobs a"), @"already_exists: jobs a");
        insta::assert_snapshot!(told(409, "Conflict", "changed"), @"conflict: changed");
        insta::assert_snapshot!(told(422, "Invalid", "bad"), @"refused (lasts): the cluster refuses the object: bad");
        insta::assert_snapshot!(told(503, "", "starting"), @"cluster_away: the cluster's API server does not respond");
        insta::assert_snapshot!(told(500, "InternalError", "Internal error occurred: failed calling webhook \"mjob.kb.io\""), @"cluster_away: the cluster's API server gets no response from a webhook");
    }
}
