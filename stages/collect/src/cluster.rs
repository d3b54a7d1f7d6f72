//! The cluster's data of a run: its Jobs and pods with their UIDs and nodes, their events, and the nodes if they may be read.
//!
//! Raw, as the API server returns it: when each pod was queued, scheduled, started and ended, every restart and eviction, and the
//! reasons.

use std::collections::BTreeSet;

use assay_cluster::{Cluster, PodEnvironment, RUN, Refusal};
use assay_manifest::Artifact;
use assay_stage::{Context, ErrorCode, Failure};
use assay_telemetry::cluster::{JOBS, PODS, file_name};
use serde_json::{Value, json};

/// Reads all of it; nothing on one machine. Nodes need a separate permission: without it, the refusal is kept in their place.
pub(crate) fn read_facts(ctx: &Context) -> Result<Vec<Artifact>, Failure> {
    let Some(here) = PodEnvironment::from_env(|name| std::env::var(name).ok()) else { return Ok(Vec::new()) };
    let cluster = Cluster::from_pod()?;
    let of_run = format!("{RUN}={}", ctx.run_id());
    let mut jobs: Vec<Value> = cluster.list("Job", &here.namespace, &of_run)?;
    // Targets are released by now: their state is in a reading of provision.
    let mut pods: Vec<Value> = cluster.list("Pod", &here.namespace, &of_run)?;
    let uids: BTreeSet<String> = jobs.iter().chain(&pods).filter_map(|object| text(&object["metadata"]["uid"])).collect();
    let nodes: BTreeSet<String> = pods.iter().filter_map(|pod| text(&pod["spec"]["nodeName"])).collect();
    let mut events: Vec<Value> = cluster.list("Event", &here.namespace, "")?;
    events.retain(|event| text(&event["involvedObject"]["uid"]).is_some_and(|uid| uids.contains(&uid)));
    let hasty = cluster.without_retries();
    let nodes: Vec<Value> = nodes.iter().map(|name| node(&hasty, name)).collect();
    let mut workloads = workloads(&hasty, &here.namespace, &uids);
    for object in jobs.iter_mut().chain(&mut pods).chain(&mut events).chain(&mut workloads) {
        without_bookkeeping(object);
    }
    let mut kept = vec![(JOBS, jobs), (PODS, pods), ("events", events), ("nodes", nodes)];
    // A cluster without queues has none, which is not reported.
    kept.extend((!workloads.is_empty()).then_some(("workloads", workloads)));
    kept.into_iter().map(|(name, objects)| store_objects(ctx, name, &objects)).collect()
}

/// Returns Kueue's data of the run's Jobs. None if there is no Kueue, or if an older installation may not read it.
fn workloads(cluster: &Cluster, namespace: &str, jobs: &BTreeSet<String>) -> Vec<Value> {
    match cluster.workloads(namespace, "") {
        Ok(all) => all.into_iter().filter(|workload| is_owned_by(workload, jobs)).collect(),
        Err(error) if error.refusal() == Some(Refusal::Forbidden) => Vec::new(),
        // Unknown data of a queue are no failure of the run.
        Err(error) => vec![json!({"unknown": error.to_string()})],
    }
}

/// Returns true if an object depends on one of these, by UID.
fn is_owned_by(object: &Value, owners: &BTreeSet<String>) -> bool {
    let references = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    references.filter_map(|reference| text(&reference["uid"])).any(|uid| owners.contains(&uid))
}

fn node(cluster: &Cluster, name: &str) -> Value {
    match cluster.get::<Value>(&assay_cluster::ObjectPath::in_cluster("Node", name)) {
        Ok(Some(mut node)) => {
            without_bookkeeping(&mut node);
            node
        }
        Ok(None) => json!({"metadata": {"name": name}, "unknown": "the node has gone"}),
        // Unknown data of a node are no failure of the run.
        Err(error) => json!({"metadata": {"name": name}, "unknown": error.to_string()}),
    }
}

/// Removes the record of which manager changed which field: it is not needed, and is most of an object.
fn without_bookkeeping(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
}

fn store_objects(ctx: &Context, name: &str, objects: &[Value]) -> Result<Artifact, Failure> {
    let bytes = serde_json::to_vec(objects)
        .map_err(|error| Failure::new(ErrorCode::Internal, "what the cluster says cannot be written").because(&error))?;
    ctx.put(file_name(name), "application/json", &bytes)
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_depends_on_the_run_is_of_it() {
        let owners = BTreeSet::from(["u".to_owned()]);
        let of = |references: Value| is_owned_by(&json!({"metadata": {"ownerReferences": references}}), &owners);
        assert!(of(json!([{"uid": "other"}, {"uid": "u"}])));
        assert!(!of(json!([{"uid": "other"}])));
        assert!(!of(json!(null)) && !of(json!([1, {"uid": 2}])));
    }
}
