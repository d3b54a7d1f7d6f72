//! Facts that operators and cloud providers put on the nodes of targets as labels.

use assay_cluster::{Cluster, ObjectPath, node_label_facts};
use assay_manifest::node_label_key;
use serde_json::Value;

/// Returns the labels of these nodes that are facts, as placement facts. A node that may not be read, or that has gone, has none:
/// labels are no failure of a run.
pub(crate) fn label_facts<'a>(cluster: &Cluster, nodes: impl Iterator<Item = &'a str>) -> Vec<(String, String)> {
    let hasty = cluster.without_retries();
    let mut facts = Vec::new();
    for name in nodes {
        match hasty.get::<Value>(&ObjectPath::in_cluster("Node", name)) {
            Ok(node) => {
                let labels = node.iter().flat_map(node_label_facts);
                facts.extend(labels.map(|(label, value)| (node_label_key(name, &label), value)));
            }
            Err(error) => tracing::warn!(failure = %assay_stage::Failure::from(error), node = name, "its labels are not known"),
        }
    }
    facts
}
