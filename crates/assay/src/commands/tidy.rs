//! Removes objects that runs leave in a cluster: roots that have expired, and targets whose root has gone.
//!
//! Each driver does this before it begins, so no permanent process is needed.

use std::collections::BTreeSet;

use assay_cluster::{
    Cluster, ConfigMap, EXPIRES, Installation, Job, MANAGED_BY, ObjectPath, RUN, STAGE, TARGET_KINDS, has_ended,
};
use assay_manifest::Instant;
use assay_stage::{Clock, Failure};
use serde_json::Value;

/// Deletes the roots that have expired, and the targets whose root was deleted.
pub(crate) fn tidy(cluster: &Cluster, installation: &Installation) -> Result<(), Failure> {
    let selector = format!("{}={},{RUN}", MANAGED_BY.0, MANAGED_BY.1);
    // Before the roots: a run that starts meanwhile has its root first, and is found.
    let mut targets: Vec<Value> = Vec::new();
    for kind in TARGET_KINDS {
        targets.extend(cluster.list::<Value>(kind, &installation.targets_namespace, &selector)?);
    }
    let roots: Vec<ConfigMap> = cluster.list("ConfigMap", &installation.namespace, &selector)?;
    let drivers: Vec<Job> = cluster.list("Job", &installation.namespace, &format!("{selector},{STAGE}=driver"))?;
    let driven: BTreeSet<String> =
        drivers.iter().filter(|job| !has_ended(job)).filter_map(|job| run_label(&job.metadata)).collect();
    let mut live = BTreeSet::new();
    for root in &roots {
        let Some(run) = run_label(&root.metadata) else { continue };
        if driven.contains(&run) || !has_expired(root, Clock.now()) {
            live.insert(run);
            continue;
        }
        let (name, uid) = (root.metadata.name.as_deref().unwrap_or_default(), root.metadata.uid.as_deref());
        tracing::info!(run, "the objects of a run have expired");
        cluster.delete(&ObjectPath::named("ConfigMap", &installation.namespace, name), uid)?;
    }
    // Owner references do not cross namespaces: if a root is deleted after its driver has died, its targets stay.
    let run_of = |target: &Value| target["metadata"]["labels"][RUN].as_str().map(str::to_owned);
    let orphans: BTreeSet<String> = targets.iter().filter_map(run_of).filter(|run| !live.contains(run)).collect();
    for run in orphans {
        tracing::info!(run, "deleting the targets of a run that has no root");
        for kind in TARGET_KINDS {
            cluster.delete_all(kind, &installation.targets_namespace, &format!("{RUN}={run}"))?;
        }
    }
    Ok(())
}

fn run_label(metadata: &assay_cluster::ObjectMeta) -> Option<String> {
    metadata.labels.as_ref()?.get(RUN).cloned()
}

fn has_expired(root: &ConfigMap, now: Instant) -> bool {
    let expires = root.metadata.annotations.as_ref().and_then(|annotations| annotations.get(EXPIRES));
    expires.and_then(|text| text.parse::<Instant>().ok()).is_some_and(|expires| expires < now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_without_an_expiry_stays() {
        let root = |expires: Option<&str>| {
            let mut root = ConfigMap::default();
            root.metadata.annotations = expires.map(|expires| [(EXPIRES.to_owned(), expires.to_owned())].into());
            root
        };
        let now = "2026-01-02T00:00:00.000000000Z".parse().expect("an instant");
        assert!(!has_expired(&root(None), now));
        assert!(!has_expired(&root(Some("soon")), now), "an expiry that does not parse is ignored");
        assert!(has_expired(&root(Some("2026-01-01T00:00:00.000000000Z")), now));
        assert!(!has_expired(&root(Some("2026-01-03T00:00:00.000000000Z")), now));
    }
}
