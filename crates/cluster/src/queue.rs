//! What Kueue says of what waits in its queues.

use assay_stage::Failure;
use serde_json::Value;

use crate::rim::NOT_FOUND;
use crate::{Cluster, Trouble};

/// The word of what waits in a queue.
const QUEUED: &str = "queue";
/// What Kueue keeps of each Job or pod that waits in a queue of its, since version 0.15.
pub(crate) const WORKLOAD: &str = "Workload.v1beta2";
/// The same of an earlier Kueue.
pub(crate) const OLD_WORKLOAD: &str = "Workload.v1beta1";
/// The label of a Workload that says whose it is.
const OF_UID: &str = "kueue.x-k8s.io/job-uid";

impl Cluster {
    /// What Kueue says of what waits or has waited in a namespace, as far as it carries a label: when it was queued, had its quota reserved,
    /// was admitted or evicted. Nothing where there is no Kueue.
    pub fn workloads(&self, namespace: &str, selector: &str) -> Result<Vec<Value>, Failure> {
        for kind in [WORKLOAD, OLD_WORKLOAD] {
            match self.list(kind, namespace, selector) {
                Err(failure) if failure.code == NOT_FOUND => {}
                answer => return answer,
            }
        }
        Ok(Vec::new())
    }

    /// Why Kueue does not admit an object yet, in its words; none where it does not say, or where an older installation may not ask.
    pub fn said_by_queue(&self, namespace: &str, uid: &str) -> Option<String> {
        let workloads = self.hasty().workloads(namespace, &format!("{OF_UID}={uid}")).unwrap_or_default();
        workloads.iter().find_map(why_not_admitted)
    }
}

/// A Workload has no quota until it says that it has, and says what it lacks.
fn why_not_admitted(workload: &Value) -> Option<String> {
    let conditions = workload["status"]["conditions"].as_array().into_iter().flatten();
    let mut not_true = conditions.filter(|condition| condition["status"] == "False");
    let lacking = not_true.find(|condition| condition["type"] == "QuotaReserved")?;
    lacking["message"].as_str().filter(|message| !message.is_empty()).map(str::to_owned)
}

impl Trouble {
    /// Whether it is that it waits in a queue.
    pub fn is_queued(&self) -> bool {
        self.failure.code == QUEUED
    }

    /// The same with the queue's own words, where it is a queue that it waits in.
    #[must_use]
    pub fn said_by_queue(mut self, said: Option<&str>) -> Self {
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
        let of = |conditions: Value| why_not_admitted(&json!({"status": {"conditions": conditions}}));
        let pending =
            json!([{"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "insufficient quota for cpu"}]);
        assert_eq!(of(pending).as_deref(), Some("insufficient quota for cpu"));
        assert_eq!(of(json!([{"type": "QuotaReserved", "status": "True", "message": "Quota reserved"}])), None);
        assert_eq!(of(json!([{"type": "QuotaReserved", "status": "False"}])), None, "it does not say why");
        assert_eq!(of(Value::Null), None, "Kueue has not looked at it yet");
    }

    #[test]
    fn only_what_waits_in_a_queue_has_its_words() {
        let told = |code: &str, said| {
            let trouble = Trouble { failure: Failure::environment(code, "it waits"), lasts: false };
            trouble.said_by_queue(said).failure.message
        };
        assert_eq!(told("queue", Some("no quota")), "it waits: no quota");
        assert_eq!(told("queue", None), "it waits");
        assert_eq!(told("unschedulable", Some("no quota")), "it waits");
    }
}
