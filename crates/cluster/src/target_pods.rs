//! The running pods of a target, found by their labels: a part of the target's identity.

use assay_manifest::PodSelector;
use k8s_openapi::api::core::v1::Pod;

use crate::{Cluster, Result, phase};

/// The most pods of a target that are described.
const MAX_PODS: usize = 256;

impl Cluster {
    /// Returns the pods of a target that run and are not being deleted, by name.
    pub fn target_pods(&self, selector: &PodSelector) -> Result<Vec<Pod>> {
        Ok(running_pods(self.list("Pod", &selector.namespace, &selector.labels)?))
    }
}

/// Returns the pods that run and are not being deleted, by name. If there are very many, the first of them.
pub fn running_pods(mut pods: Vec<Pod>) -> Vec<Pod> {
    pods.retain(|pod| phase(pod) == "Running" && pod.metadata.deletion_timestamp.is_none());
    pods.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    pods.truncate(MAX_PODS);
    pods
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, phase: &str, more: Value) -> Pod {
        let mut metadata = json!({"name": name, "uid": name});
        for (key, value) in more.as_object().into_iter().flatten() {
            metadata[key] = value.clone();
        }
        serde_json::from_value(json!({"metadata": metadata, "status": {"phase": phase}})).expect("a pod")
    }

    #[test]
    fn a_pod_that_starts_ends_or_is_being_deleted_serves_nothing() {
        let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let pods = vec![
            pod("c", "Running", json!({})),
            pod("b", "Pending", json!({})),
            pod("a", "Running", json!({})),
            pod("d", "Running", deleted),
            pod("e", "Failed", json!({})),
        ];
        let names = running_pods(pods).into_iter().map(|pod| pod.metadata.name.expect("a name")).collect::<Vec<_>>();
        assert_eq!(names, ["a", "c"]);
        let many = (0..=MAX_PODS).map(|number| pod(&format!("{number:03}"), "Running", json!({}))).collect();
        assert_eq!(running_pods(many).len(), MAX_PODS);
    }
}
