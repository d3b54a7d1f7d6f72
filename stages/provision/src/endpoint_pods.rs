//! The pods behind an endpoint that is a Service of the cluster, by the name in its address. They belong to their owner, so they are only
//! read.

use assay_cluster::{ObjectPath, Pod, Refusal};
use assay_manifest::{PodSelector, Target};
use assay_stage::{Context, Event, Failure};
use serde_json::Value;

use crate::pods::{PodProvisioner, RunningTarget, TargetState};
use crate::ready::parse_address;
use crate::replicas::PodReach;

impl PodProvisioner<'_> {
    /// Finds the pods behind an endpoint. `None` if its address names no Service, if the Service selects no pods, or if provision may not
    /// read them, which a note says.
    pub(crate) fn find_endpoint_pods(&self, ctx: &Context, target: &Target) -> Result<Option<RunningTarget>, Failure> {
        let Some((url, service)) = target.url.as_deref().and_then(|url| Some((url, ServiceName::in_url(url)?))) else {
            return Ok(None);
        };
        match self.read_service(&service) {
            Ok(found) => Ok(found.map(|(selector, object, pods)| {
                let reach = PodReach::Service { service: object.clone(), url: url.to_owned() };
                let seen = TargetState { target: target.name.to_string(), is_ours: false, pods, objects: vec![object] };
                self.record_target(selector, (url.to_owned(), reach), seen)
            })),
            Err(error) if error.refusal() == Some(Refusal::Forbidden) => {
                ctx.emit(Event::Note { message: unknown_pods(target, &service) });
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the selector of the pods behind a Service, the Service and its pods.
    fn read_service(&self, service: &ServiceName) -> assay_cluster::Result<Option<(PodSelector, Value, Vec<Pod>)>> {
        let place = ObjectPath::named("Service", &service.namespace, &service.name);
        let Some(object) = self.cluster.get::<Value>(&place)? else { return Ok(None) };
        let Some(labels) = selected_labels(&object) else { return Ok(None) };
        let selector = PodSelector { namespace: service.namespace.clone(), labels };
        let pods = self.cluster.target_pods(&selector)?;
        Ok(Some((selector, object, pods)))
    }
}

/// The name of a Service, and its namespace.
#[derive(Debug, PartialEq, Eq)]
struct ServiceName {
    name: String,
    namespace: String,
}

impl ServiceName {
    /// Returns the Service whose DNS name is the host of a URL: `NAME.NAMESPACE.svc`, with the cluster's domain or without.
    fn in_url(url: &str) -> Option<Self> {
        let host = parse_address(url)?.host;
        let mut labels = host.split('.');
        let (name, namespace, kind) = (labels.next()?, labels.next()?, labels.next()?);
        let is_service = kind == "svc" && !name.is_empty() && !namespace.is_empty();
        is_service.then(|| Self { name: name.to_owned(), namespace: namespace.to_owned() })
    }
}

/// Returns the labels of the pods that a Service selects; `None` if it selects none.
fn selected_labels(service: &Value) -> Option<String> {
    let selector = service["spec"]["selector"].as_object().filter(|selector| !selector.is_empty())?;
    let pairs: Option<Vec<String>> = selector.iter().map(|(label, value)| Some(format!("{label}={}", value.as_str()?))).collect();
    Some(pairs?.join(","))
}

fn unknown_pods(target: &Target, service: &ServiceName) -> String {
    let ServiceName { name, namespace } = service;
    format!(
        "the pods of target `{}` are not compared during the run: provision may not read Service `{name}` and the pods of namespace \
         `{namespace}`; `--serving-namespace {namespace}` of `assay bootstrap` or `assay render kubernetes` permits it",
        target.name
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_is_named_by_its_dns_name_alone() {
        let named = |url: &str| ServiceName::in_url(url).map(|service| format!("{}/{}", service.namespace, service.name));
        assert_eq!(named("http://llama.prod.svc").as_deref(), Some("prod/llama"));
        assert_eq!(named("http://llama.prod.svc:8000/v1").as_deref(), Some("prod/llama"));
        assert_eq!(named("https://llama.prod.svc.cluster.local/v1").as_deref(), Some("prod/llama"));
        for url in [
            "http://llama.prod",
            "http://llama",
            "https://api.example.com/v1",
            "http://10.0.0.1:8000",
            "http://[::1]:80",
            "http://pod-0.llama.prod.svc",
            "http://.prod.svc",
            "http://llama..svc",
            "not a URL",
        ] {
            assert_eq!(named(url), None, "{url}");
        }
    }

    #[test]
    fn a_service_without_a_selector_selects_no_pods() {
        let labels = |spec: Value| selected_labels(&json!({"spec": spec}));
        assert_eq!(labels(json!({"selector": {"app": "llama", "tier": "decode"}})).as_deref(), Some("app=llama,tier=decode"));
        for spec in [json!({}), json!({"selector": {}}), json!({"type": "ExternalName", "externalName": "api.example.com"})] {
            assert_eq!(labels(spec.clone()), None, "{spec}");
        }
    }
}
