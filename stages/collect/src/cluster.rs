//! The cluster's data of a run: its Jobs and pods with their UIDs and nodes, Kueue's Workloads of them, the events of all three, and the
//! nodes if they may be read.
//!
//! Raw, as the API server returns it: when each pod was queued, scheduled, started and ended, every restart and eviction, and the
//! reasons.

use std::collections::BTreeSet;

use assay_cluster::{Cluster, PodEnvironment, RUN};
use assay_manifest::Artifact;
use assay_stage::{Context, ErrorCode, Failure};
use assay_telemetry::cluster::{EVENTS, JOBS, NODES, PODS, UNKNOWN, WORKLOADS, file_name};
use serde_json::{Value, json};

/// The most events and Workloads of a run that are kept: a pod that fails again and again has an event for each reason.
const MAX_OBJECTS: usize = 10_000;

/// Reads all of it; nothing on one machine. What may not be read is no failure: the refusal is kept in its place.
pub(crate) fn read_facts(ctx: &Context) -> Result<Vec<Artifact>, Failure> {
    let Some(here) = PodEnvironment::from_env(|name| std::env::var(name).ok()) else { return Ok(Vec::new()) };
    let lists = read_lists(&Cluster::from_pod()?, &here.namespace, &format!("{RUN}={}", ctx.run_id()))?;
    lists.into_iter().map(|(name, objects)| store_objects(ctx, name, &objects)).collect()
}

/// Returns the lists of the run's objects by name.
fn read_lists(cluster: &Cluster, namespace: &str, of_run: &str) -> Result<Vec<(&'static str, Vec<Value>)>, Failure> {
    let mut jobs: Vec<Value> = cluster.list("Job", namespace, of_run)?;
    // Targets are released by now: their state is in a reading of provision.
    let mut pods: Vec<Value> = cluster.list("Pod", namespace, of_run)?;
    let nodes: BTreeSet<String> = pods.iter().filter_map(|pod| text(&pod["spec"]["nodeName"])).collect();
    let mut uids: BTreeSet<String> = jobs.iter().chain(&pods).filter_map(uid).collect();
    let hasty = cluster.without_retries();
    let mut workloads = listed(hasty.workloads_wanted(namespace, MAX_OBJECTS, |workload| is_owned_by(workload, &uids)));
    uids.extend(workloads.iter().filter_map(uid));
    let is_of_run = |event: &Value| text(&event["involvedObject"]["uid"]).is_some_and(|uid| uids.contains(&uid));
    let mut events = listed(cluster.list_wanted("Event", namespace, "", MAX_OBJECTS, is_of_run));
    let nodes: Vec<Value> = nodes.iter().map(|name| node(&hasty, name)).collect();
    for objects in [&mut jobs, &mut pods, &mut workloads, &mut events] {
        objects.iter_mut().for_each(without_bookkeeping);
        // The server's own order is that of its keys, in which the names of events are nearly random.
        objects.sort_by_cached_key(|object| (text(&object["metadata"]["creationTimestamp"]), uid(object)));
    }
    let mut kept = vec![(JOBS, jobs), (PODS, pods), (EVENTS, events), (NODES, nodes)];
    // A cluster without queues has none, which is not reported.
    kept.extend((!workloads.is_empty()).then_some((WORKLOADS, workloads)));
    Ok(kept)
}

/// Returns the objects of a list, with a note in the place of what is missing. Unknown data of a queue and lost events are no failure of
/// the run.
fn listed(list: assay_cluster::Result<(Vec<Value>, bool)>) -> Vec<Value> {
    match list {
        Ok((mut objects, has_more)) => {
            objects.extend(
                has_more.then(|| json!({UNKNOWN: format!("there are more than {MAX_OBJECTS}, or too many to look through")})),
            );
            objects
        }
        Err(error) => vec![json!({UNKNOWN: error.to_string()})],
    }
}

fn uid(object: &Value) -> Option<String> {
    text(&object["metadata"]["uid"])
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
        Ok(None) => json!({"metadata": {"name": name}, UNKNOWN: "the node has gone"}),
        // Unknown data of a node are no failure of the run.
        Err(error) => json!({"metadata": {"name": name}, UNKNOWN: error.to_string()}),
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
mod tests;
