//! The servers of a target that runs as several pods: the address of each of its ready pods, beside the one address that all of them share.
//!
//! Sources: Kubernetes' Service (`targetPort`, and a headless Service, whose name leads to the pods' own ports), the labels and containers
//! that KServe (`component`, `kserve-container`), its LLMInferenceService (`app.kubernetes.io/component`, `main`) and OME (`component`,
//! `ome-container`) give the pods of a service.

use assay_manifest::InferenceApi;
use k8s_openapi::api::core::v1::{Container, HTTPGetAction, Pod};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use crate::job_state::is_ready;

/// The most servers of a target: as many as a pipeline may list.
pub const MAX_SERVERS: usize = 64;

/// A pod of a target and the address of the server in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodServer {
    /// The pod's name.
    pub pod: String,
    /// The server's URL, by the pod's IP.
    pub address: String,
}

/// The URL of a Service, in parts.
#[derive(Clone, Copy, Debug)]
pub struct ServiceUrl<'a> {
    /// `http` or `https`.
    pub scheme: &'a str,
    /// The port of the Service.
    pub port: u16,
    /// The path, if it has one, such as `/v1`.
    pub path: &'a str,
}

/// Returns the servers behind a Service, by the name of their pods; or the reason, as a clause, why their addresses do not follow from it.
pub fn service_servers(service: &Value, url: ServiceUrl<'_>, pods: &[Pod]) -> Result<Vec<PodServer>, String> {
    let selected = pods.iter().filter(|pod| is_ready(pod) && is_selected(service, pod));
    servers(selected, |pod| {
        Ok(format!("{}://{}:{}{}", url.scheme, pod_host(pod)?, target_port(service, url.port, pod)?, url.path))
    })
}

/// Returns the servers of an InferenceService, by the name of their pods: those that compute, without its routers, schedulers and
/// transformers. Or the reason, as a clause, why their addresses are not known.
pub fn inference_servers(api: InferenceApi, pods: &[Pod]) -> Result<Vec<PodServer>, String> {
    let computing = pods.iter().filter(|pod| is_ready(pod) && computes(api, pod));
    servers(computing, |pod| {
        let (scheme, port) = http_server(api, pod);
        Ok(format!("{scheme}://{}:{port}", pod_host(pod)?))
    })
}

fn servers<'a>(
    pods: impl Iterator<Item = &'a Pod>,
    address: impl Fn(&Pod) -> Result<String, String>,
) -> Result<Vec<PodServer>, String> {
    let server = |pod: &Pod| Ok(PodServer { pod: name(pod).to_owned(), address: address(pod)? });
    let mut found = pods.map(server).collect::<Result<Vec<_>, String>>()?;
    found.sort_by(|one, other| one.pod.cmp(&other.pod));
    match found.len() {
        0 => Err("none of its ready pods is a server".to_owned()),
        1..=MAX_SERVERS => Ok(found),
        many => Err(format!("it has {many} ready pods, more than {MAX_SERVERS}")),
    }
}

fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

fn label<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    pod.metadata.labels.as_ref()?.get(name).map(String::as_str)
}

/// Returns true if a pod has all labels that a Service selects by. One that selects by none selects nothing.
fn is_selected(service: &Value, pod: &Pod) -> bool {
    let selector = service["spec"]["selector"].as_object().filter(|selector| !selector.is_empty());
    selector.is_some_and(|selector| selector.iter().all(|(name, value)| value.as_str() == label(pod, name)))
}

/// Returns the IP of a pod as the host of a URL.
fn pod_host(pod: &Pod) -> Result<String, String> {
    let ip = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()).filter(|ip| !ip.is_empty());
    let ip = ip.ok_or_else(|| format!("its pod `{}` has no IP", name(pod)))?;
    Ok(if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() })
}

/// Returns the port of a pod that a port of a Service leads to. The name of a headless Service leads to the pods' own ports.
fn target_port(service: &Value, port: u16, pod: &Pod) -> Result<u16, String> {
    if service["spec"]["clusterIP"] == "None" {
        return Ok(port);
    }
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let open = ports.into_iter().find(|open| open["port"].as_u64() == Some(port.into()));
    let open = open.ok_or_else(|| format!("its Service has no port {port}"))?;
    match &open["targetPort"] {
        Value::Null => Ok(port),
        Value::String(named) => {
            let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
            containers
                .into_iter()
                .find_map(|container| named_port(container, named))
                .ok_or_else(|| format!("no container of its pod `{}` has the port `{named}`, which its Service names", name(pod)))
        }
        number => number
            .as_u64()
            .and_then(|number| u16::try_from(number).ok())
            .ok_or_else(|| format!("the `targetPort` of port {port} of its Service is no port")),
    }
}

fn named_port(container: &Container, named: &str) -> Option<u16> {
    let mut ports = container.ports.iter().flatten();
    let port = ports.find(|port| port.name.as_deref() == Some(named))?;
    u16::try_from(port.container_port).ok()
}

/// Returns true if a pod of an InferenceService computes. A pod without the label of its component may be made by hand and does.
fn computes(api: InferenceApi, pod: &Pod) -> bool {
    match api {
        InferenceApi::Kserve => label(pod, "component").is_none_or(|component| component == "predictor"),
        InferenceApi::KserveLlm => label(pod, "app.kubernetes.io/component")
            .is_none_or(|component| component.starts_with("llminferenceservice-workload")),
        InferenceApi::Ome => label(pod, "component").is_none_or(|component| component != "router"),
    }
}

/// Returns the scheme and the port of the server in a pod: those of the readiness probe of its main container, else the first port that
/// the container states, else the one that the API documents.
fn http_server(api: InferenceApi, pod: &Pod) -> (&'static str, u16) {
    let (main, usual) = match api {
        InferenceApi::Kserve => ("kserve-container", 8080),
        InferenceApi::KserveLlm => ("main", 8000),
        InferenceApi::Ome => ("ome-container", 8080),
    };
    let containers = pod.spec.as_ref().map_or(&[][..], |spec| &spec.containers);
    let Some(container) = containers.iter().find(|container| container.name == main).or(containers.first()) else {
        return ("http", usual);
    };
    let probe = container.readiness_probe.as_ref().and_then(|probe| probe.http_get.as_ref());
    let stated = container.ports.iter().flatten().find_map(|port| u16::try_from(port.container_port).ok());
    let scheme = if probe.and_then(|probe| probe.scheme.as_deref()) == Some("HTTPS") { "https" } else { "http" };
    (scheme, probe.and_then(|probe| probed_port(container, probe)).or(stated).unwrap_or(usual))
}

fn probed_port(container: &Container, probe: &HTTPGetAction) -> Option<u16> {
    match &probe.port {
        IntOrString::Int(number) => u16::try_from(*number).ok(),
        IntOrString::String(named) => named_port(container, named),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, ip: &str, labels: Value, container: Value) -> Pod {
        let conditions = json!([{"type": "Ready", "status": "True"}]);
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": labels}, "spec": {"containers": [container]},
            "status": {"podIP": ip, "conditions": conditions},
        }))
        .expect("a pod")
    }

    fn engine(name: &str, ip: &str) -> Pod {
        let ports = json!([{"name": "metrics", "containerPort": 9000}, {"name": "http", "containerPort": 8000}]);
        pod(name, ip, json!({"app": "vllm", "tier": name}), json!({"name": "main", "ports": ports}))
    }

    fn service(ports: &Value) -> Value {
        json!({"spec": {"selector": {"app": "vllm"}, "ports": ports}})
    }

    /// Displays servers as `POD ADDRESS`, or the reason.
    fn display(servers: Result<Vec<PodServer>, String>) -> String {
        let line = |found: &PodServer| format!("{} {}", found.pod, found.address);
        servers.map_or_else(|why| why, |servers| servers.iter().map(line).collect::<Vec<_>>().join("\n"))
    }

    fn behind(service: &Value, port: u16, pods: &[Pod]) -> String {
        display(service_servers(service, ServiceUrl { scheme: "http", port, path: "/v1" }, pods))
    }

    #[test]
    fn each_ready_pod_behind_a_service_is_a_server() {
        let mut starting = engine("c", "10.0.0.3");
        starting.status.as_mut().expect("a status").conditions = None;
        let other = pod("d", "10.0.0.4", json!({"app": "router"}), json!({"name": "main"}));
        let pods = [engine("b", "fd00::2"), engine("a", "10.0.0.1"), starting, other];
        let ports = json!([{"port": 80, "targetPort": 8000}, {"port": 81, "targetPort": "http"}, {"port": 8000}]);
        insta::assert_snapshot!(behind(&service(&ports), 80, &pods), @r"
        a http://10.0.0.1:8000/v1
        b http://[fd00::2]:8000/v1
        ");
        for port in [81, 8000] {
            assert_eq!(behind(&service(&ports), port, &pods), behind(&service(&ports), 80, &pods), "{port}");
        }
        let mut headless = service(&json!([{"port": 80, "targetPort": 9}]));
        headless["spec"]["clusterIP"] = json!("None");
        assert_eq!(behind(&headless, 8000, &pods[1..2]), "a http://10.0.0.1:8000/v1");
    }

    #[test]
    fn why_no_address_follows_from_a_service_is_said() {
        let pods = [engine("a", "10.0.0.1")];
        insta::assert_snapshot!(behind(&service(&json!([{"port": 80}])), 81, &pods), @"its Service has no port 81");
        insta::assert_snapshot!(behind(&service(&json!([{"port": 80, "targetPort": "grpc"}])), 80, &pods), @"no container of its pod `a` has the port `grpc`, which its Service names");
        insta::assert_snapshot!(behind(&service(&json!([{"port": 80, "targetPort": 65536}])), 80, &pods), @"the `targetPort` of port 80 of its Service is no port");
        insta::assert_snapshot!(behind(&service(&json!([{"port": 80}])), 80, &[engine("a", "")]), @"its pod `a` has no IP");
        insta::assert_snapshot!(behind(&service(&json!([{"port": 80}])), 80, &[]), @"none of its ready pods is a server");
        insta::assert_snapshot!(behind(&json!({"spec": {"selector": {}, "ports": [{"port": 80}]}}), 80, &pods), @"none of its ready pods is a server");
        let many: Vec<Pod> = (0..=MAX_SERVERS).map(|number| engine(&format!("{number:02}"), "10.0.0.1")).collect();
        insta::assert_snapshot!(behind(&service(&json!([{"port": 80}])), 80, &many), @"it has 65 ready pods, more than 64");
    }

    #[test]
    fn the_pods_of_an_inference_service_that_compute_are_its_servers() {
        let named = |name: &str, labels: Value, container: Value| pod(name, "10.0.0.1", labels, container);
        let of = |api, pods: &[Pod]| display(inference_servers(api, pods));
        let kserve = [
            named(
                "predictor",
                json!({"component": "predictor"}),
                json!({"name": "kserve-container", "ports": [{"containerPort": 8081}]}),
            ),
            named("transformer", json!({"component": "transformer"}), json!({"name": "kserve-container"})),
            named("unlabelled", json!({}), json!({"name": "kserve-container"})),
        ];
        insta::assert_snapshot!(of(InferenceApi::Kserve, &kserve), @r"
        predictor http://10.0.0.1:8081
        unlabelled http://10.0.0.1:8080
        ");
        let workload = |role: &str| json!({"app.kubernetes.io/component": format!("llminferenceservice-{role}")});
        let probe = |port: Value| json!({"httpGet": {"path": "/health", "port": port, "scheme": "HTTPS"}});
        let ports = json!([{"name": "http", "containerPort": 8001}]);
        let llm = [
            named(
                "decode",
                workload("workload"),
                json!({"name": "main", "ports": ports, "readinessProbe": probe(json!("http"))}),
            ),
            named("prefill", workload("workload-prefill"), json!({"name": "main", "readinessProbe": probe(json!(8000))})),
            named("scheduler", workload("router-scheduler"), json!({"name": "main"})),
        ];
        insta::assert_snapshot!(of(InferenceApi::KserveLlm, &llm), @r"
        decode https://10.0.0.1:8001
        prefill https://10.0.0.1:8000
        ");
        let ome = [
            named("engine", json!({"component": "engine"}), json!({"name": "ome-container", "ports": [{"containerPort": 8080}]})),
            named("router", json!({"component": "router"}), json!({"name": "router"})),
        ];
        assert_eq!(of(InferenceApi::Ome, &ome), "engine http://10.0.0.1:8080");
        assert_eq!(of(InferenceApi::Ome, &ome[1..]), "none of its ready pods is a server");
    }
}
