//! The objects of the cluster that a run ran in: the file of each list, and the facts about the run's pods in them.
//!
//! collect keeps the lists once, after the run, as the API server returns them. Here they are read as they are: a missing or odd
//! value becomes `None`, and is never an error.

mod events;
mod slurm;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use assay_manifest::Instant;
use serde::Deserializer as _;
use serde::de::{SeqAccess, Visitor};
use serde_json::Value as Json;

pub use events::{ClusterEvent, ClusterEvents, EVENTS, EventObject, NODES, UNKNOWN, WORKLOADS};
pub use slurm::{kept_fields, read_sacct, sacct_file_name};

/// The folder of the lists.
const FOLDER: &str = "cluster";

/// The names of the lists that hold the run's Jobs and pods.
pub const JOBS: &str = "jobs";
/// See [`JOBS`].
pub const PODS: &str = "pods";

/// The largest list of objects that is read, in bytes: several thousand pods.
pub const MAX_BYTES: u64 = 64 << 20;

/// The most objects of a list that are read.
const MAX_OBJECTS: usize = 16_384;

/// The longest text that is accepted, in bytes: names, UIDs and images are shorter.
pub const MAX_TEXT: usize = 512;

/// The name of the container of Assay's own pods.
const ASSAY_CONTAINER: &str = "assay";

/// The label of the queue that a Job waits in.
const QUEUE_LABEL: &str = "kueue.x-k8s.io/queue-name";

/// Returns the name of the file of a list.
pub fn file_name(list: &str) -> String {
    format!("{FOLDER}/{list}.json")
}

/// The labels of a run's pods.
#[derive(Clone, Copy, Debug)]
pub struct PodLabels {
    /// The label of the stage that a pod runs.
    pub stage: &'static str,
    /// The label of the UID of the Job that made it.
    pub job_uid: &'static str,
    /// The label of its place among the pods of its Job: the shard.
    pub index: &'static str,
}

/// The facts in the cluster's objects.
#[derive(Debug, Default)]
pub struct ClusterFacts {
    /// The run's pods, each UID once.
    pub pods: Vec<PodFact>,
    /// The parts that were not read, with the reasons.
    pub left_out: Vec<String>,
}

/// The facts of a Job that its pods' rows contain.
#[derive(Debug, Default)]
pub struct JobFact {
    /// Its name.
    pub name: Option<String>,
    /// The queue that it waited in.
    pub queue: Option<String>,
    /// The time that it waited in the queue, in nanoseconds.
    pub queueing_ns: Option<u64>,
}

/// A pod.
#[derive(Debug, Default)]
pub struct PodFact {
    /// Its UID.
    pub uid: String,
    /// The UID of the Job that made it.
    pub job_uid: Option<String>,
    /// That Job; without facts if it is not listed.
    pub job: JobFact,
    /// Its name.
    pub name: Option<String>,
    /// The node that it ran on.
    pub node: Option<String>,
    /// The stage that it ran.
    pub stage: Option<String>,
    /// The shard that it was.
    pub shard: Option<u32>,
    /// The time of its creation.
    pub created: Option<Instant>,
    /// The time at which it got a node.
    pub scheduled: Option<Instant>,
    /// The start of Assay's container.
    pub started: Option<Instant>,
    /// The end of Assay's container.
    pub ended: Option<Instant>,
    /// Its phase.
    pub phase: Option<String>,
    /// The reason why it ended.
    pub reason: Option<String>,
    /// The exit code of Assay's container, or of the init container that failed.
    pub exit_code: Option<i32>,
    /// The number of restarts of Assay's container.
    pub restarts: Option<u32>,
    /// The image that its specification names.
    pub image: Option<String>,
    /// The image that its node ran.
    pub image_id: Option<String>,
}

impl ClusterFacts {
    /// Reads the facts in the lists of Jobs and of pods, each a JSON list of objects.
    pub fn read(jobs: &[u8], pods: &[u8], labels: &PodLabels) -> Self {
        let mut facts = Self::default();
        let mut by_uid = BTreeMap::new();
        facts.left_out.extend(visit_objects(&file_name(JOBS), jobs, |job| {
            if let Some(uid) = text(&job["metadata"]["uid"]) {
                by_uid.insert(uid, JobFact::from_object(job));
            }
        }));
        let mut known = BTreeSet::new();
        let mut found = Vec::new();
        facts.left_out.extend(visit_objects(&file_name(PODS), pods, |pod| {
            let fact = PodFact::from_object(pod, labels).filter(|fact| known.insert(fact.uid.clone()));
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
    fn from_object(pod: &Json, labels: &PodLabels) -> Option<Self> {
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
            job_uid: label(labels.job_uid),
            job: JobFact::default(),
            name: text(&metadata["name"]),
            node: text(&spec["nodeName"]),
            stage: label(labels.stage),
            shard: label(labels.index).and_then(|index| index.parse().ok()),
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

/// Returns the time from one instant to another in nanoseconds; `None` if the second is before the first.
pub fn elapsed_ns(from: Option<Instant>, to: Option<Instant>) -> Option<u64> {
    let (from, to) = (from?, to?);
    (to >= from).then(|| to.ns_since(from))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const LABELS: PodLabels = PodLabels { stage: "stage", job_uid: "uid", index: "index" };

    #[test]
    fn a_list_that_is_none_or_too_long_is_told() {
        let left = |pods: &[u8]| ClusterFacts::read(b"[]", pods, &LABELS).left_out;
        insta::assert_snapshot!(left(b"{}").join("\n"), @"`cluster/pods.json` is no list of objects: invalid type: map, expected a list of objects at line 1 column 0");
        insta::assert_snapshot!(left(br#"[{"metadata": {"uid": "a"}}, "#).join("\n"), @"`cluster/pods.json` is no list of objects: EOF while parsing a value at line 1 column 29");
        insta::assert_snapshot!(left("[".repeat(1_000).as_bytes()).join("\n"), @"`cluster/pods.json` is no list of objects: recursion limit exceeded at line 1 column 128");
        let many = Json::from(vec![Json::Null; MAX_OBJECTS + 2]).to_string();
        insta::assert_snapshot!(left(many.as_bytes()).join("\n"), @"2 objects of `cluster/pods.json` are beyond the limit of 16384");
    }

    #[test]
    fn instants_are_as_kubernetes_writes_them() {
        let read = |text: &str| instant(&json!(text)).map(|at| at.to_string());
        assert_eq!(read("2026-11-20T12:00:00Z").as_deref(), Some("2026-11-20T12:00:00.000000000Z"));
        assert_eq!(read("2026-11-20T12:00:00.123456Z").as_deref(), Some("2026-11-20T12:00:00.123456000Z"));
        for bad in ["", "Z", "2026-11-20", "2026-11-20T12:00:00+01:00", "2026-11-20T12:00:00.0000000001Z", "2026-13-20T12:00:00Z"]
        {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn whatever_was_kept_is_read_or_told(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = ClusterFacts::read(&bytes, &bytes, &LABELS);
        }
    }
}
