//! Kueue: the state of what waits in its queues.

use serde_json::Value;

use crate::{Cluster, Obstacle, Refusal, Result, Trouble};

use crate::names::{OLD_WORKLOAD, WORKLOAD};

/// The label of a Workload with the UID of its Job or pod.
const WORKLOAD_UID_LABEL: &str = "kueue.x-k8s.io/job-uid";

impl Cluster {
    /// Lists the Workloads of a namespace that match a label selector: when each was queued, had its quota reserved, was admitted
    /// or evicted. Empty if there is no Kueue.
    pub fn workloads(&self, namespace: &str, selector: &str) -> Result<Vec<Value>> {
        for kind in [WORKLOAD, OLD_WORKLOAD] {
            match self.list(kind, namespace, selector) {
                Err(error) if error.refusal() == Some(Refusal::NotFound) => {}
                answer => return answer,
            }
        }
        Ok(Vec::new())
    }

    /// Lists the Workloads of a namespace that are wanted, as [`Cluster::list_wanted`] does. Empty if there is no Kueue.
    ///
    /// # Errors
    /// If the API server refuses the list, or is away.
    pub fn workloads_wanted(
        &self,
        namespace: &str,
        max: usize,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Result<(Vec<Value>, bool)> {
        for kind in [WORKLOAD, OLD_WORKLOAD] {
            match self.list_wanted(kind, namespace, "", max, &is_wanted) {
                Err(error) if error.refusal() == Some(Refusal::NotFound) => {}
                listed => return listed,
            }
        }
        Ok((Vec::new(), false))
    }

    /// Returns why Kueue does not admit an object yet, in its words; `None` if it does not say, or if an older installation lacks
    /// the right to ask.
    pub fn queue_message(&self, namespace: &str, uid: &str) -> Option<String> {
        let workloads = self.without_retries().workloads(namespace, &format!("{WORKLOAD_UID_LABEL}={uid}")).unwrap_or_default();
        workloads.iter().find_map(missing_quota)
    }
}

/// Returns the quota that a Workload lacks: it has none until its condition says that it has, and the condition's message names
/// what is missing.
fn missing_quota(workload: &Value) -> Option<String> {
    let conditions = workload["status"]["conditions"].as_array().into_iter().flatten();
    let mut not_true = conditions.filter(|condition| condition["status"] == "False");
    let lacking = not_true.find(|condition| condition["type"] == "QuotaReserved")?;
    lacking["message"].as_str().filter(|message| !message.is_empty()).map(str::to_owned)
}

impl Trouble {
    /// Returns true if the trouble is that it waits in a queue.
    pub fn is_queued(&self) -> bool {
        matches!(self.obstacle, Obstacle::Queue { .. })
    }

    /// Appends the queue's own message, if the trouble is that it waits in a queue.
    #[must_use]
    pub fn with_queue_message(mut self, said: Option<&str>) -> Self {
        if let (Obstacle::Queue { message, .. }, Some(said)) = (&mut self.obstacle, said) {
            *message = Some(said.to_owned());
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_queue_says_what_it_lacks() {
        let of = |conditions: Value| missing_quota(&json!({"status": {"conditions": conditions}}));
        let pending =
            json!([{"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "insufficient quota for cpu"}]);
        assert_eq!(of(pending).as_deref(), Some("insufficient quota for cpu"));
        assert_eq!(of(json!([{"type": "QuotaReserved", "status": "True", "message": "Quota reserved"}])), None);
        assert_eq!(of(json!([{"type": "QuotaReserved", "status": "False"}])), None, "it does not say why");
        assert_eq!(of(Value::Null), None, "Kueue has not looked at it yet");
    }

    #[test]
    fn only_what_waits_in_a_queue_has_its_words() {
        let told = |obstacle: Obstacle, said| {
            let trouble = Trouble { obstacle, lasts: false };
            trouble.with_queue_message(said).obstacle.to_string()
        };
        let queue = Obstacle::Queue { pod: None, message: None };
        assert_eq!(told(queue.clone(), Some("no quota")), "it waits in its queue to be admitted: no quota");
        assert_eq!(told(queue, None), "it waits in its queue to be admitted");
        let unschedulable = Obstacle::Unschedulable { pod: "p".to_owned(), detail: "0/1 nodes".to_owned() };
        assert_eq!(told(unschedulable, Some("no quota")), "no node takes the pod `p`: 0/1 nodes");
    }
}
