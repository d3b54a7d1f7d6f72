//! The pods that measure, and those of them that have gone before they were done.

use std::collections::BTreeMap;

use assay_cluster::{Pod, has_begun, phase};

use super::is_live;

/// The pod of each shard, by its index.
#[derive(Debug, Default)]
pub(super) struct Shards(BTreeMap<u32, String>);

impl Shards {
    /// Returns the shards whose pod has gone, or has failed, since the last call: the attempt that it was measuring is over for
    /// the others too. Each loss is returned once; the replacement pod is another pod.
    pub(super) fn take_lost(&mut self, pods: &[&Pod]) -> Vec<u32> {
        let is_there = |uid: &str| {
            pods.iter().any(|pod| pod.metadata.uid.as_deref() == Some(uid) && (is_live(pod) || phase(pod) == "Succeeded"))
        };
        let lost: Vec<u32> = self.0.iter().filter(|(_, uid)| !is_there(uid)).map(|(index, _)| *index).collect();
        for index in &lost {
            self.0.remove(index);
        }
        for pod in pods.iter().filter(|pod| has_begun(pod) && is_live(pod)) {
            if let (Some(index), Some(uid)) = (shard_index(pod), pod.metadata.uid.clone()) {
                self.0.entry(index).or_insert(uid);
            }
        }
        lost
    }
}

/// Returns the shard index of a pod.
pub(super) fn shard_index(pod: &Pod) -> Option<u32> {
    pod.metadata.labels.as_ref()?.get(assay_stage::pod::INDEX_LABEL)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(index: u32, uid: &str, phase: &str) -> Pod {
        let labels = serde_json::json!({assay_stage::pod::INDEX_LABEL: index.to_string()});
        serde_json::from_value(serde_json::json!({"metadata": {"uid": uid, "labels": labels}, "status": {"phase": phase}}))
            .expect("a pod")
    }

    #[test]
    fn a_shard_is_lost_once_with_the_pod_that_it_had() {
        let mut shards = Shards::default();
        let mut look = |pods: &[Pod]| shards.take_lost(&pods.iter().collect::<Vec<_>>());
        assert_eq!(look(&[pod(0, "a", "Running"), pod(1, "b", "Pending")]), [0_u32; 0], "what has not begun cannot be lost");
        assert_eq!(look(&[pod(0, "a", "Running"), pod(1, "b", "Running")]), [0_u32; 0]);
        assert_eq!(look(&[pod(0, "a", "Running"), pod(1, "b", "Failed"), pod(1, "c", "Running")]), [1]);
        assert_eq!(look(&[pod(0, "a", "Running"), pod(1, "b", "Failed"), pod(1, "c", "Running")]), [0_u32; 0]);
        assert_eq!(look(&[pod(0, "a", "Succeeded"), pod(1, "d", "Running")]), [1], "the one in its place has gone too");
        assert_eq!(look(&[pod(0, "a", "Succeeded")]), [1]);
        let mut leaving = pod(0, "e", "Running");
        assert_eq!(look(&[leaving.clone()]), [0], "what succeeded and is not there any more is told, and nothing is open of it");
        leaving.metadata.deletion_timestamp = Some(serde_json::from_str("\"2026-01-01T00:00:00Z\"").expect("a time"));
        assert_eq!(look(&[leaving]), [0], "it is being evicted");
    }
}
