//! The rows of the run's pods, from the API server's responses in the raw evidence.
//!
//! The responses are read as they are: a missing or odd value becomes null, and never fails the run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use assay_manifest::{Artifact, CuratedFile, Instant, Reason};
use assay_stage::pod::{INDEX_LABEL, JOB_UID_LABEL, STAGE_LABEL};
use assay_stage::{Context, Failure};
use assay_warehouse::{CLUSTER_POD_FACT, Result as RowResult, Row, Value};
use serde::Deserializer as _;
use serde::de::{SeqAccess, Visitor};
use serde_json::Value as Json;

use crate::attempts::cpu_throttled_ns;
use crate::dimensions::Dimensions;
use crate::row_failure;
use crate::rows::RowContext;

/// The files in which collect keeps the run's pods and Jobs.
const PODS: &str = "cluster/pods.json";
const JOBS: &str = "cluster/jobs.json";

/// The largest list of objects that is read: several thousand pods.
const MAX_BYTES: u64 = 64 << 20;

/// The most objects of a list that are read.
const MAX_OBJECTS: usize = 16_384;

/// The longest text that is accepted: names, UIDs and images are shorter.
const MAX_TEXT: usize = 512;

/// The name of the container of Assay's own pods.
const ASSAY_CONTAINER: &str = "assay";

/// The label of the queue that a Job waits in.
const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";

/// Writes a row for each pod, and reports the facts of the cluster that are not in the rows. A run on one machine has no rows.
pub(crate) fn write(
    ctx: &Context,
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    evidence: &[Artifact],
) -> Result<(CuratedFile, Option<Reason>), Failure> {
    let mut left_out = Vec::new();
    let mut read = |name: &str| -> Result<Vec<u8>, Failure> {
        let Some(artifact) = evidence.iter().find(|artifact| artifact.name == name) else { return Ok(b"[]".to_vec()) };
        if artifact.size.0 > MAX_BYTES {
            left_out.push(format!("`{name}` is larger than the limit of {MAX_BYTES} bytes"));
            return Ok(b"[]".to_vec());
        }
        ctx.get(artifact, MAX_BYTES)
    };
    let (jobs, pods) = (read(JOBS)?, read(PODS)?);
    let facts = ClusterFacts::read(&jobs, &pods);
    left_out.extend(facts.left_out);
    let recorded = recorded_pods(context);
    let rows: Vec<_> = facts
        .pods
        .iter()
        .map(|pod| row(context, dimensions, pod, recorded.get(pod.uid.as_str())))
        .collect::<RowResult<_>>()
        .map_err(|error| row_failure(&error))?;
    let file = crate::write_file(ctx, &CLUSTER_POD_FACT, rows)?;
    let reason = (!left_out.is_empty()).then(|| Reason::new("cluster_facts_left_out", left_out.join("; ")));
    Ok((file, reason))
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
    for found in context.attempts.0.iter().flat_map(|(_, found)| found) {
        let Some(place) = &found.attempt.place else { continue };
        let of_pod = all.entry(place.pod_uid.as_str()).or_insert(RecordedPod { attempts: 0, throttled_ns: Some(0) });
        of_pod.attempts = of_pod.attempts.saturating_add(1);
        let ns = cpu_throttled_ns(&found.attempt);
        of_pod.throttled_ns = of_pod.throttled_ns.zip(ns).map(|(sum, ns)| sum.saturating_add(ns));
    }
    all
}

/// The facts in the cluster's objects.
#[derive(Debug, Default)]
struct ClusterFacts {
    pods: Vec<PodFact>,
    /// The parts that were not read, with the reasons.
    left_out: Vec<String>,
}

/// The facts of a Job that its pods' rows contain.
#[derive(Debug, Default)]
struct JobFact {
    name: Option<String>,
    queue: Option<String>,
    queueing_ns: Option<u64>,
}

/// A pod.
#[derive(Debug, Default)]
struct PodFact {
    uid: String,
    job_uid: Option<String>,
    job: JobFact,
    name: Option<String>,
    node: Option<String>,
    stage: Option<String>,
    shard: Option<u32>,
    created: Option<Instant>,
    scheduled: Option<Instant>,
    started: Option<Instant>,
    ended: Option<Instant>,
    phase: Option<String>,
    reason: Option<String>,
    exit_code: Option<i32>,
    restarts: Option<u32>,
    image: Option<String>,
    image_id: Option<String>,
}

impl ClusterFacts {
    fn read(jobs: &[u8], pods: &[u8]) -> Self {
        let mut facts = Self::default();
        let mut by_uid = BTreeMap::new();
        facts.left_out.extend(visit_objects(JOBS, jobs, |job| {
            if let Some(uid) = text(&job["metadata"]["uid"]) {
                by_uid.insert(uid, JobFact::from_object(job));
            }
        }));
        let mut known = BTreeSet::new();
        let mut found = Vec::new();
        facts.left_out.extend(visit_objects(PODS, pods, |pod| {
            let fact = PodFact::from_object(pod).filter(|fact| known.insert(fact.uid.clone()));
            found.extend(fact);
        }));
        for pod in &mut found {
            if let Some(job) = pod.job_uid.as_ref().and_then(|uid| by_uid.get(uid)) {
                pod.job = JobFact { name: job.name.clone(), queue: job.queue.clone(), queueing_ns: job.queueing_ns };
            }
        }
        Self { pods: found, ..facts }
    }
}

impl JobFact {
    fn from_object(job: &Json) -> Self {
        let metadata = &job["metadata"];
        // A suspended Job has no start time; it gets one when its queue admits it.
        let let_start = instant(&job["status"]["startTime"]);
        Self {
            name: text(&metadata["name"]),
            queue: text(&metadata["labels"][QUEUE_LABEL]),
            queueing_ns: elapsed_ns(instant(&metadata["creationTimestamp"]), let_start),
        }
    }
}

impl PodFact {
    /// Returns `None` if the object does not identify its pod.
    fn from_object(pod: &Json) -> Option<Self> {
        let (metadata, spec, status) = (&pod["metadata"], &pod["spec"], &pod["status"]);
        let label = |name: &str| text(&metadata["labels"][name]);
        let container = assay_container(&status["containerStatuses"]);
        let (running, terminated) = (&container["state"]["running"], &container["state"]["terminated"]);
        // If an init container has failed, Assay's container never started.
        let failed = |ended: &&Json| ended["exitCode"].as_i64().is_some_and(|code| code != 0);
        let mut before = list(&status["initContainerStatuses"]).iter().map(|before| &before["state"]["terminated"]);
        let ended = before.find(failed).filter(|_| terminated.is_null()).unwrap_or(terminated);
        let is_scheduled = |condition: &&Json| condition["type"] == "PodScheduled" && condition["status"] == "True";
        let scheduled = status["conditions"].as_array().and_then(|conditions| conditions.iter().find(is_scheduled));
        Some(Self {
            uid: text(&metadata["uid"])?,
            job_uid: label(JOB_UID_LABEL),
            job: JobFact::default(),
            name: text(&metadata["name"]),
            node: text(&spec["nodeName"]),
            stage: label(STAGE_LABEL),
            shard: label(INDEX_LABEL).and_then(|index| index.parse().ok()),
            created: instant(&metadata["creationTimestamp"]),
            scheduled: scheduled.and_then(|condition| instant(&condition["lastTransitionTime"])),
            started: instant(&running["startedAt"]).or_else(|| instant(&terminated["startedAt"])),
            ended: instant(&terminated["finishedAt"]),
            phase: text(&status["phase"]),
            // The reason of an eviction says more than the exit of the container.
            reason: text(&status["reason"]).or_else(|| text(&ended["reason"])),
            exit_code: ended["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok()),
            restarts: container["restartCount"].as_u64().and_then(|count| u32::try_from(count).ok()),
            image: text(&assay_container(&spec["containers"])["image"]),
            image_id: text(&container["imageID"]),
        })
    }
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

/// Calls `show` with the objects of a list, one at a time, and returns the reason why the rest of it was not read.
fn visit_objects(name: &str, list: &[u8], mut show: impl FnMut(&Json)) -> Option<String> {
    let mut left = 0_usize;
    let mut count = 0_usize;
    let visited = serde_json::Deserializer::from_slice(list).deserialize_seq(Objects(|object: &Json| {
        count += 1;
        if count > MAX_OBJECTS {
            left += 1;
        } else {
            show(object);
        }
    }));
    match visited {
        Err(error) => Some(format!("`{name}` is no list of objects: {error}")),
        Ok(()) if left > 0 => Some(format!("{left} objects of `{name}` are beyond the limit of {MAX_OBJECTS}")),
        Ok(()) => None,
    }
}

/// A list that is never in memory as a whole.
struct Objects<F>(F);

impl<'de, F: FnMut(&Json)> Visitor<'de> for Objects<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(object) = list.next_element::<Json>()? {
            (self.0)(&object);
        }
        Ok(())
    }
}

fn list(value: &Json) -> &[Json] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns the container with Assay's own name among those of a pod; the first one if none has it.
fn assay_container(containers: &Json) -> &Json {
    list(containers).iter().find(|container| container["name"] == ASSAY_CONTAINER).unwrap_or(&containers[0])
}

/// Returns a text that is not empty and no longer than the limit.
fn text(value: &Json) -> Option<String> {
    value.as_str().filter(|text| !text.is_empty() && text.len() <= MAX_TEXT).map(str::to_owned)
}

/// Parses an instant as Kubernetes writes it: in UTC, with or without a fraction.
fn instant(value: &Json) -> Option<Instant> {
    let text = value.as_str().filter(|text| text.len() <= MAX_TEXT)?.strip_suffix('Z')?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    format!("{whole}.{fraction:0<9}Z").parse().ok()
}

/// Returns the time from one instant to another; `None` if the second is before the first.
fn elapsed_ns(from: Option<Instant>, to: Option<Instant>) -> Option<u64> {
    let (from, to) = (from?, to?);
    (to >= from).then(|| to.ns_since(from))
}

#[cfg(test)]
mod tests;
