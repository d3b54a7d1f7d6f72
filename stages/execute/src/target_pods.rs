//! The pods of a target that is an object of a cluster: queried before and after each attempt, and watched while its load runs.

use std::cell::OnceCell;

use assay_cluster::{Cluster, Refusal, pod_facts};
use assay_manifest::{PodFacts, PodSelector, ProvisionedTarget, TargetKind};
use assay_probe::describe_pod_change;
use assay_stage::{ErrorCode, Failure};

/// The connection to the cluster of targets, made when the first target with pods is queried.
#[derive(Default)]
pub(crate) struct TargetPods {
    cluster: OnceCell<Cluster>,
}

impl TargetPods {
    /// Returns the running pods of a target; `None` if it is no object of a cluster.
    pub(crate) fn query(&self, found: &ProvisionedTarget) -> Result<Option<Vec<PodFacts>>, Failure> {
        let Some(selector) = &found.pod_selector else { return Ok(None) };
        let pods = self.cluster()?.target_pods(selector).map_err(|error| add_right_hint(error, found, selector))?;
        Ok(Some(pods.iter().map(pod_facts).collect()))
    }

    /// Returns a watch over the pods of a target; `None` if it is no object of a cluster.
    pub(crate) fn watch<'a>(&self, found: &'a ProvisionedTarget) -> Result<Option<PodWatch<'a>>, Failure> {
        let Some(selector) = &found.pod_selector else { return Ok(None) };
        Ok(Some(PodWatch { cluster: self.cluster()?.without_retries(), selector, found }))
    }

    fn cluster(&self) -> Result<&Cluster, Failure> {
        if let Some(cluster) = self.cluster.get() {
            return Ok(cluster);
        }
        let connected = Cluster::from_pod()?;
        Ok(self.cluster.get_or_init(|| connected))
    }
}

/// Compares the pods of a target with those that were provisioned, while its load runs: pods may come and go within an attempt.
pub(crate) struct PodWatch<'a> {
    cluster: Cluster,
    selector: &'a PodSelector,
    found: &'a ProvisionedTarget,
}

impl PodWatch<'_> {
    /// Returns the failure [`ErrorCode::Drift`] if the pods have changed.
    pub(crate) fn check(&self) -> Option<Failure> {
        match self.cluster.target_pods(self.selector) {
            Ok(pods) => pod_drift(self.found, &pods.iter().map(pod_facts).collect::<Vec<_>>()),
            // An API server that is away for a moment is no evidence about the pods, which are compared after the attempt, too.
            Err(error) => {
                tracing::warn!(target = %self.found.id, %error, "the pods of a target cannot be watched");
                None
            }
        }
    }
}

fn pod_drift(found: &ProvisionedTarget, now: &[PodFacts]) -> Option<Failure> {
    let change = describe_pod_change(&found.pods, now)?;
    Some(Failure::new(ErrorCode::Drift, format!("the target `{}`: {change}", found.id)))
}

/// Adds to a missing right how an administrator gives it. The pods of a target are a part of its identity, so they are not left out.
fn add_right_hint(error: assay_cluster::Error, found: &ProvisionedTarget, selector: &PodSelector) -> Failure {
    if error.refusal() != Some(Refusal::Forbidden) {
        return error.into();
    }
    let namespace = &selector.namespace;
    let how = match found.kind {
        TargetKind::InferenceService | TargetKind::Endpoint => {
            format!("`--serving-namespace {namespace}` of `assay bootstrap` or `assay render kubernetes`")
        }
        _ => "`assay bootstrap`, run again, or `assay render kubernetes`".to_owned(),
    };
    let message = format!("execute compares the pods of target `{}` with those that were provisioned", found.id);
    let failure = Failure::from(error);
    let message = format!("{message}: {}", failure.message);
    Failure { message, ..failure }
        .hint(format!("{how} gives the service account `assay-execute` the right to list the pods of namespace `{namespace}`"))
}

#[cfg(test)]
mod tests;
