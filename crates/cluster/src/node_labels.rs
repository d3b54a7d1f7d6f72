//! Labels of nodes that are facts about their hardware and place: those of cloud providers, GPU operators and Node Feature Discovery.

use std::collections::BTreeMap;

use serde_json::Value;

/// Labels that are facts, by their whole names.
const LABELS: [&str; 7] = [
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    // Node pools of EKS, GKE, AKS and Karpenter.
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
];

/// Labels that are facts, by how their names begin. The PCI classes are those of displays and accelerators, the vendors NVIDIA and AMD.
const PREFIXES: [&str; 10] = [
    "nvidia.com/gpu.",
    "nvidia.com/mig",
    "nvidia.com/cuda.",
    "amd.com/gpu.",
    "beta.amd.com/gpu.",
    "gpu.intel.com/",
    "feature.node.kubernetes.io/pci-03",
    "feature.node.kubernetes.io/pci-12",
    "feature.node.kubernetes.io/pci-10de",
    "feature.node.kubernetes.io/pci-1002",
];

/// Labels that begin like facts and steer or report the operator itself.
const OF_OPERATORS: [&str; 4] =
    ["nvidia.com/gpu.deploy.", "nvidia.com/gpu.present", "nvidia.com/mig.config", "amd.com/gpu.deploy."];

/// The most labels of a node that are kept.
const MAX_LABELS: usize = 128;

/// Returns the labels of a node that are facts, by name. Kubernetes limits each value to 63 characters.
pub fn node_label_facts(node: &Value) -> BTreeMap<String, String> {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let facts =
        labels.filter(|(name, _)| is_fact(name)).filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    facts.take(MAX_LABELS).collect()
}

fn is_fact(name: &str) -> bool {
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    LABELS.contains(&name) || (begins(&PREFIXES) && !begins(&OF_OPERATORS))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the facts of a recorded node, one a line.
    fn facts(node: &str) -> String {
        let node = serde_json::from_str(node).expect("a node");
        node_label_facts(&node).iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_node_with_nvidia_s_operator() {
        insta::assert_snapshot!(facts(include_str!("node_labels/nvidia.json")), @"
        feature.node.kubernetes.io/pci-0302_10de.present=true
        feature.node.kubernetes.io/pci-10de.present=true
        node.kubernetes.io/instance-type=p5en.48xlarge
        nvidia.com/cuda.driver-version.full=570.86.15
        nvidia.com/cuda.driver-version.major=570
        nvidia.com/cuda.driver-version.minor=86
        nvidia.com/cuda.driver-version.revision=15
        nvidia.com/cuda.driver.major=570
        nvidia.com/cuda.driver.minor=86
        nvidia.com/cuda.driver.rev=15
        nvidia.com/cuda.runtime-version.full=12.8
        nvidia.com/cuda.runtime.major=12
        nvidia.com/cuda.runtime.minor=8
        nvidia.com/gpu.compute.major=9
        nvidia.com/gpu.compute.minor=0
        nvidia.com/gpu.count=8
        nvidia.com/gpu.family=hopper
        nvidia.com/gpu.machine=p5en.48xlarge
        nvidia.com/gpu.memory=143771
        nvidia.com/gpu.mode=compute
        nvidia.com/gpu.product=NVIDIA-H200
        nvidia.com/gpu.replicas=1
        nvidia.com/gpu.sharing-strategy=none
        nvidia.com/mig.capable=true
        nvidia.com/mig.strategy=single
        topology.kubernetes.io/region=us-east-2
        topology.kubernetes.io/zone=us-east-2a
        ");
    }

    #[test]
    fn a_node_with_amd_s_operator() {
        insta::assert_snapshot!(facts(include_str!("node_labels/amd.json")), @"
        amd.com/gpu.cu-count=304
        amd.com/gpu.device-id=74a1
        amd.com/gpu.driver-version=6.10.5
        amd.com/gpu.family=AI
        amd.com/gpu.product-name=AMD_Instinct_MI300X_OAM
        amd.com/gpu.simd-count=1216
        amd.com/gpu.vram=192G
        beta.amd.com/gpu.family.AI=8
        feature.node.kubernetes.io/pci-1200_1002.present=true
        topology.kubernetes.io/region=eu-fr2
        topology.kubernetes.io/zone=eu-fr2-a
        ");
    }

    #[test]
    fn a_node_without_labels_or_with_odd_ones_has_no_facts() {
        assert_eq!(facts("{}"), "");
        assert_eq!(facts(r#"{"metadata": {"labels": {"nvidia.com/gpu.count": 8, "kubernetes.io/hostname": "n"}}}"#), "");
    }

    #[test]
    fn the_pool_of_a_node_is_a_fact() {
        let node =
            r#"{"metadata": {"labels": {"cloud.google.com/gke-nodepool": "h200", "cloud.google.com/gke-boot-disk": "pd-ssd"}}}"#;
        assert_eq!(facts(node), "cloud.google.com/gke-nodepool=h200");
    }
}
