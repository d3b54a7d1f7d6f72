//! The rows of the run's pods, from the API server's responses in the raw evidence.
//!
//! A missing or odd value is null, and never fails the run.

use std::collections::BTreeMap;

use assay_manifest::{Artifact, CuratedFile, Reason};
use assay_stage::pod::{INDEX_LABEL, JOB_UID_LABEL, STAGE_LABEL};
use assay_stage::{Context, Failure};
use assay_telemetry::cluster::{
    ClusterEvents, ClusterFacts, EVENTS, JOBS, MAX_BYTES, NODES, PODS, PodFact, PodLabels, WORKLOADS, elapsed_ns, file_name,
    read_sacct, sacct_file_name,
};
use assay_warehouse::{CLUSTER_EVENT_FACT, CLUSTER_POD_FACT, Result as RowResult, Row, Value};

use crate::attempts::cpu_throttled_ns;
use crate::dimensions::Dimensions;
use crate::rows::RowContext;
use crate::{cluster_events, row_failure};

/// The labels of the run's pods.
const LABELS: PodLabels = PodLabels { stage: STAGE_LABEL, job_uid: JOB_UID_LABEL, index: INDEX_LABEL };

/// The files of the cluster's facts, and the parts that are not in their rows.
pub(crate) struct WrittenFacts {
    /// The pods.
    pub(crate) pods: CuratedFile,
    /// The events and conditions.
    pub(crate) events: CuratedFile,
    /// The parts that were not read.
    pub(crate) issue: Option<Reason>,
}

/// Writes a row for each pod, event and condition, and reports the facts of the cluster that are not in the rows. A run on one machine has
/// no rows.
pub(crate) fn write(
    ctx: &Context,
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    evidence: &[Artifact],
) -> Result<WrittenFacts, Failure> {
    let mut left_out = Vec::new();
    let mut read = |list: &str| -> Result<Vec<u8>, Failure> {
        let name = file_name(list);
        let Some(artifact) = evidence.iter().find(|artifact| artifact.name == name) else { return Ok(b"[]".to_vec()) };
        if artifact.size.0 > MAX_BYTES {
            left_out.push(format!("`{name}` is larger than the limit of {MAX_BYTES} bytes"));
            return Ok(b"[]".to_vec());
        }
        ctx.get(artifact, MAX_BYTES)
    };
    let (jobs, pods) = (read(JOBS)?, read(PODS)?);
    let facts = ClusterFacts::read(&jobs, &pods, &LABELS);
    drop((jobs, pods));
    let mut events = ClusterEvents::read(&read(EVENTS)?, &read(NODES)?, &read(WORKLOADS)?);
    for source in context.plan.telemetry.iter().filter(|source| source.sacct.is_some()) {
        let name = sacct_file_name(&source.name);
        let Some(artifact) = evidence.iter().find(|artifact| artifact.name == name) else { continue };
        let (of_job, unread) = read_sacct(&name, &ctx.get(artifact, MAX_BYTES)?);
        events.events.extend(of_job);
        events.left_out.extend(unread);
    }
    left_out.extend(facts.left_out.iter().chain(&events.left_out).cloned());
    let recorded = recorded_pods(context);
    let rows: Vec<_> = facts
        .pods
        .iter()
        .map(|pod| row(context, dimensions, pod, recorded.get(pod.uid.as_str())))
        .collect::<RowResult<_>>()
        .map_err(|error| row_failure(&error))?;
    let of_events = cluster_events::rows(context, dimensions, &events).map_err(|error| row_failure(&error))?;
    Ok(WrittenFacts {
        pods: crate::write_file(ctx, &CLUSTER_POD_FACT, rows)?,
        events: crate::write_file(ctx, &CLUSTER_EVENT_FACT, of_events)?,
        issue: (!left_out.is_empty()).then(|| Reason::new("cluster_facts_left_out", left_out.join("; "))),
    })
}

/// The data that a pod of execute recorded itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RecordedPod {
    attempts: u32,
    /// `None` if one attempt does not state it.
    throttled_ns: Option<u64>,
}

/// Returns the recorded data of each pod, by its UID.
fn recorded_pods<'a>(context: &RowContext<'a>) -> BTreeMap<&'a str, RecordedPod> {
    let mut all: BTreeMap<&str, RecordedPod> = BTreeMap::new();
    for shard in context.attempts.0.iter().flat_map(|(_, shards)| shards) {
        let Some(place) = &shard.attempt.place else { continue };
        let of_pod = all.entry(place.pod_uid.as_str()).or_insert(RecordedPod { attempts: 0, throttled_ns: Some(0) });
        of_pod.attempts = of_pod.attempts.saturating_add(1);
        let ns = cpu_throttled_ns(&shard.attempt);
        of_pod.throttled_ns = of_pod.throttled_ns.zip(ns).map(|(sum, ns)| sum.saturating_add(ns));
    }
    all
}

fn row(context: &RowContext<'_>, dimensions: &Dimensions, pod: &PodFact, recorded: Option<&RecordedPod>) -> RowResult<Row> {
    Row::new(&CLUSTER_POD_FACT)
        .with("run_id", context.run_id.as_str())?
        .with("artifact_manifest_digest", context.collection_manifest)?
        .with("cluster_region_key", dimensions.cluster.as_str())?
        .with("job_uid", pod.job_uid.as_deref())?
        .with("pod_uid", pod.uid.as_str())?
        .with("node_name", pod.node.as_deref())?
        .with("stage", pod.stage.as_deref())?
        .with("shard", pod.shard)?
        .with("job_name", pod.job.name.as_deref())?
        .with("pod_name", pod.name.as_deref())?
        .with("queue", pod.job.queue.as_deref())?
        .with("created_unix_ns", pod.created)?
        .with("scheduled_unix_ns", pod.scheduled)?
        .with("started_unix_ns", pod.started)?
        .with("ended_unix_ns", pod.ended)?
        .with("queueing_ns", pod.job.queueing_ns.map(Value::from_count))?
        .with("scheduling_ns", elapsed_ns(pod.created, pod.scheduled).map(Value::from_count))?
        .with("phase", pod.phase.as_deref())?
        .with("reason", pod.reason.as_deref())?
        .with("exit_code", pod.exit_code)?
        .with("restarts", pod.restarts)?
        .with("image", pod.image.as_deref())?
        .with("image_id", pod.image_id.as_deref())?
        .with("attempts", recorded.map_or(0, |recorded| recorded.attempts))?
        .with("cpu_throttled_ns", recorded.and_then(|recorded| recorded.throttled_ns).map(Value::from_count))?
        .seal()
}

#[cfg(test)]
mod tests;
