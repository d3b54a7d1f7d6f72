//! Kueue: the state of what waits in its queues.

use assay_stage::{ErrorCode, Failure};
use serde_json::Value;

use crate::{Cluster, Trouble};

/// Kueue's object for each Job or pod that waits in one of its queues, since version 0.15.
pub(crate) const WORKLOAD: &str = "Workload.v1beta2";
/// The same object of an earlier Kueue.
pub(crate) const OLD_WORKLOAD: &str = "Workload.v1beta1";
/// The label of a Workload with the UID of its Job or pod.
const WORKLOAD_UID_LABEL: &str = "kueue.x-k8s.io/job-uid";

impl Cluster {
    /// Lists the Workloads of a namespace that match a label selector: when each was queued, had its quota reserved, was admitted
    /// or evicted. Empty if there is no Kueue.
    pub fn workloads(&self, namespace: &str, selector: &str) -> Result<Vec<Value>, Failure> {
        for kind in [WORKLOAD, OLD_WORKLOAD] {
            match self.list(kind, namespace, selector) {
                Err(failure) if failure.code == ErrorCode::NotFound => {}
                answer => return answer,
            }
        }
        Ok(Vec::new())
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
        self.failure.code == ErrorCode::Queue
    }

    /// Appends the queue's own message, if the trouble is that it waits in a queue.
    #[must_use]
    pub fn with_queue_message(mut self, said: Option<&str>) -> Self {
        if let Some(said) = said.filter(|_| self.is_queued()) {
            self.failure.message = format!("{}: {said}", self.failure.message);
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
        let told = |code: ErrorCode, said| {
            let trouble = Trouble { failure: Failure::new(code, "it waits"), lasts: false };
            trouble.with_queue_message(said).failure.message
        };
        assert_eq!(told(ErrorCode::Queue, Some("no quota")), "it waits: no quota");
        assert_eq!(told(ErrorCode::Queue, None), "it waits");
        assert_eq!(told(ErrorCode::Unschedulable, Some("no quota")), "it waits");
    }
}
