//! The role of a pod in serving, where prompts and responses are computed by different pods.
//!
//! Sources: llm-d's label `llm-d.ai/role`, which KServe's LLMInferenceService sets, too; the labels of NVIDIA Dynamo's components; and the
//! component that KServe gave the prefill pods of an LLMInferenceService before it set that label.

use assay_manifest::ServingRole;
use k8s_openapi::api::core::v1::Pod;

/// The labels whose value is a role, in the order in which they count.
const LABELS: [&str; 3] = ["llm-d.ai/role", "nvidia.com/dynamo-sub-component-type", "nvidia.com/dynamo-component-type"];

/// Returns the role that the labels of a pod name. `None` if they name none, or if it computes both prompts and responses (`both`).
pub(crate) fn serving_role(pod: &Pod) -> Option<ServingRole> {
    let labels = pod.metadata.labels.as_ref()?;
    let named = LABELS.into_iter().find_map(|label| labels.get(label)?.parse().ok());
    let is_prefill = || {
        let component = labels.get("app.kubernetes.io/component")?;
        let rest = component.strip_prefix("llminferenceservice-workload")?;
        rest.split('-').any(|part| part == "prefill").then_some(ServingRole::Prefill)
    };
    named.or_else(is_prefill)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn role(labels: &Value) -> Option<&'static str> {
        let pod = serde_json::from_value(json!({"metadata": {"name": "a", "labels": labels}})).expect("a pod");
        serving_role(&pod).map(ServingRole::as_str)
    }

    #[test]
    fn a_role_is_what_the_labels_of_a_pod_name() {
        for label in LABELS {
            assert_eq!(role(&json!({label: "prefill"})), Some("prefill"), "{label}");
            assert_eq!(role(&json!({label: "decode"})), Some("decode"), "{label}");
            for other in ["both", "prefill-decode", "worker", "frontend", "Prefill", ""] {
                assert_eq!(role(&json!({label: other})), None, "{label}: {other}");
            }
        }
        let dynamo = json!({"nvidia.com/dynamo-component-type": "worker", "nvidia.com/dynamo-sub-component-type": "decode"});
        assert_eq!(role(&dynamo), Some("decode"));
    }

    #[test]
    fn a_prefill_pod_of_an_llm_inference_service_has_a_component_of_its_own() {
        let of = |component: &str| role(&json!({"app.kubernetes.io/component": component}));
        for component in ["llminferenceservice-workload-prefill", "llminferenceservice-workload-leader-prefill"] {
            assert_eq!(of(component), Some("prefill"), "{component}");
        }
        for component in ["llminferenceservice-workload", "llminferenceservice-router-scheduler", "prefill"] {
            assert_eq!(of(component), None, "{component}");
        }
        assert_eq!(role(&json!(null)), None);
    }
}
