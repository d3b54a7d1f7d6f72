//! The events of the run's objects, and the conditions of its nodes and of Kueue's Workloads.

use std::collections::BTreeMap;

use assay_manifest::Instant;
use serde_json::Value as Json;

use super::{MAX_TEXT, elapsed_ns, file_name, instant, list, text, visit_objects};

/// The names of the lists of events, of the nodes that ran the run's pods, and of Kueue's Workloads of its Jobs.
pub const EVENTS: &str = "events";
/// See [`EVENTS`].
pub const NODES: &str = "nodes";
/// See [`EVENTS`].
pub const WORKLOADS: &str = "workloads";

/// The field of an object that stands in the place of what could not be read, with the reason.
pub const UNKNOWN: &str = "unknown";

/// The most rows of one run: a pod that fails again and again repeats its events, and is counted.
const MAX_EVENTS: usize = 20_000;

/// Something that happened to an object, or the state of one of its conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterEvent {
    /// The object.
    pub object: EventObject,
    /// `event` or `condition`.
    pub event_kind: &'static str,
    /// The type: of an event `Normal` or `Warning`, of a condition its own, such as `Admitted`.
    pub event_type: Option<String>,
    /// The status of a condition: `True`, `False` or `Unknown`.
    pub status: Option<String>,
    /// The reason in one word.
    pub reason: Option<String>,
    /// The number of times that it happened; absent for a condition.
    pub count: Option<u64>,
    /// The first time.
    pub first: Option<Instant>,
    /// The last time; of a condition, that of its last transition.
    pub last: Option<Instant>,
    /// The message of the last time, cut.
    pub message: Option<String>,
}

/// The object of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventObject {
    /// Its kind, such as `Pod`.
    pub kind: String,
    /// Its UID.
    pub uid: String,
    /// Its name.
    pub name: Option<String>,
    /// The UID of the Job that a Workload is of.
    pub job_uid: Option<String>,
    /// The queue that a Workload waits in, or the partition of a Slurm job.
    pub queue: Option<String>,
    /// The time of its creation, or of the submission of a Slurm job; known of these, of nodes and of Workloads.
    pub created: Option<Instant>,
}

impl ClusterEvent {
    /// Returns the time from the creation of the object until the last time, in nanoseconds: of the condition `Admitted` of a Workload, the
    /// time that its Job waited for admission.
    pub fn after_creation_ns(&self) -> Option<u64> {
        elapsed_ns(self.object.created, self.last)
    }
}

/// The events and conditions of a run, each object, kind, type and reason once.
#[derive(Clone, Debug, Default)]
pub struct ClusterEvents {
    /// In the order of objects.
    pub events: Vec<ClusterEvent>,
    /// The parts that were not read, with the reasons.
    pub left_out: Vec<String>,
}

/// The identity of a row.
type EventKey = (EventObject, &'static str, Option<String>, Option<String>);

impl ClusterEvents {
    /// Reads the lists of events, nodes and Workloads, each a JSON list of objects.
    pub fn read(events: &[u8], nodes: &[u8], workloads: &[u8]) -> Self {
        let mut found = Found::default();
        found.visit(EVENTS, events, Found::add_event);
        found.visit(NODES, nodes, |found, node| found.add_conditions("Node", node));
        found.visit(WORKLOADS, workloads, |found, workload| found.add_conditions("Workload", workload));
        let mut left_out = found.left_out;
        if found.beyond > 0 {
            left_out.push(format!("{} events and conditions are beyond the limit of {MAX_EVENTS}", found.beyond));
        }
        Self { events: found.events.into_values().collect(), left_out }
    }
}

#[derive(Default)]
struct Found {
    events: BTreeMap<EventKey, ClusterEvent>,
    left_out: Vec<String>,
    beyond: u64,
}

impl Found {
    fn visit(&mut self, name: &str, bytes: &[u8], mut add: impl FnMut(&mut Self, &Json)) {
        let file = file_name(name);
        let unread = visit_objects(&file, bytes, |object| match object[UNKNOWN].as_str() {
            Some(why) => {
                let of = text(&object["metadata"]["name"]).map(|name| format!(" for `{name}`")).unwrap_or_default();
                self.left_out.push(format!("`{file}` is incomplete{of}: {}", cut(why)));
            }
            None => add(self, object),
        });
        self.left_out.extend(unread);
    }

    fn add_event(&mut self, event: &Json) {
        let about = &event["involvedObject"];
        let Some(uid) = text(&about["uid"]) else { return };
        let object = EventObject {
            kind: text(&about["kind"]).unwrap_or_default(),
            uid,
            name: text(&about["name"]),
            ..EventObject::default()
        };
        let at = |value: &Json| instant(value);
        // Events of the newer API have a time and a series in place of the first and last times.
        let first = at(&event["firstTimestamp"]).or_else(|| at(&event["eventTime"]));
        let first = first.or_else(|| at(&event["metadata"]["creationTimestamp"]));
        let last = at(&event["series"]["lastObservedTime"]).or_else(|| at(&event["lastTimestamp"])).or(first);
        let count = event["series"]["count"].as_u64().or_else(|| event["count"].as_u64());
        self.add(ClusterEvent {
            object,
            event_kind: "event",
            event_type: text(&event["type"]),
            status: None,
            reason: text(&event["reason"]),
            count: Some(count.unwrap_or(1).max(1)),
            first,
            last,
            message: event["message"].as_str().map(cut).filter(|message| !message.is_empty()),
        });
    }

    fn add_conditions(&mut self, kind: &str, object: &Json) {
        let metadata = &object["metadata"];
        let Some(uid) = text(&metadata["uid"]) else { return };
        let owners = list(&metadata["ownerReferences"]).iter();
        let object_of = EventObject {
            kind: kind.to_owned(),
            uid,
            name: text(&metadata["name"]),
            job_uid: owners.filter(|owner| owner["kind"] == "Job").find_map(|owner| text(&owner["uid"])),
            queue: text(&object["spec"]["queueName"]),
            created: instant(&metadata["creationTimestamp"]),
        };
        for condition in list(&object["status"]["conditions"]) {
            let Some(event_type) = text(&condition["type"]) else { continue };
            self.add(ClusterEvent {
                object: object_of.clone(),
                event_kind: "condition",
                event_type: Some(event_type),
                status: text(&condition["status"]),
                reason: text(&condition["reason"]),
                count: None,
                first: None,
                last: instant(&condition["lastTransitionTime"]),
                message: condition["message"].as_str().map(cut).filter(|message| !message.is_empty()),
            });
        }
    }

    /// Adds an event to those of its object, type and reason.
    fn add(&mut self, event: ClusterEvent) {
        let key = (event.object.clone(), event.event_kind, event.event_type.clone(), event.reason.clone());
        let is_full = self.events.len() >= MAX_EVENTS;
        match self.events.get_mut(&key) {
            Some(known) => known.join(event),
            None if is_full => self.beyond += 1,
            None => drop(self.events.insert(key, event)),
        }
    }
}

impl ClusterEvent {
    fn join(&mut self, other: Self) {
        self.count = self.count.zip(other.count).map(|(all, more)| all.saturating_add(more));
        self.first = [self.first, other.first].into_iter().flatten().min();
        if other.last > self.last {
            (self.last, self.message, self.status) = (other.last, other.message, other.status);
        }
    }
}

/// Returns a text as rows and issues have it.
pub(super) fn cut(text: &str) -> String {
    crate::text::cut(text, MAX_TEXT)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn shown(events: &Json, nodes: &Json, workloads: &Json) -> String {
        let bytes = |list: &Json| list.to_string().into_bytes();
        let found = ClusterEvents::read(&bytes(events), &bytes(nodes), &bytes(workloads));
        let line = |event: &ClusterEvent| {
            let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
            let at = |at: Option<Instant>| at.map_or_else(|| "-".to_owned(), Instant::to_seconds);
            format!(
                "{} {} {} {} {} {} x{} {} to {} after {:?}: {}",
                event.object.kind,
                text(&event.object.name),
                event.event_kind,
                text(&event.event_type),
                text(&event.status),
                text(&event.reason),
                event.count.unwrap_or(0),
                at(event.first),
                at(event.last),
                event.after_creation_ns().map(|ns| ns / 1_000_000_000),
                text(&event.message),
            )
        };
        found.events.iter().map(line).chain(found.left_out).collect::<Vec<_>>().join("\n")
    }

    fn event(reason: &str, more: Json) -> Json {
        let mut event = json!({
            "involvedObject": {"kind": "Pod", "name": "p", "uid": "p-uid"}, "type": "Warning", "reason": reason,
            "message": "0/3 nodes are available", "firstTimestamp": "2026-11-20T12:00:00Z", "lastTimestamp": "2026-11-20T12:00:10Z",
            "count": 3,
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            event[name] = value.clone();
        }
        event
    }

    #[test]
    fn events_of_one_reason_are_one_row() {
        let later = json!({
            "message": "0/4 nodes\nare available", "count": null, "firstTimestamp": null, "lastTimestamp": null,
            "eventTime": "2026-11-20T12:01:00.5Z", "series": {"count": 4, "lastObservedTime": "2026-11-20T12:02:00.000000Z"},
        });
        let events = json!([
            event("FailedScheduling", later),
            event("FailedScheduling", json!({})),
            event("Pulled", json!({"type": "Normal"}))
        ]);
        insta::assert_snapshot!(shown(&events, &json!([]), &json!([])), @r"
        Pod p event Normal - Pulled x3 2026-11-20T12:00:00Z to 2026-11-20T12:00:10Z after None: 0/3 nodes are available
        Pod p event Warning - FailedScheduling x7 2026-11-20T12:00:00Z to 2026-11-20T12:02:00Z after None: 0/4 nodes are available
        ");
    }

    #[test]
    fn conditions_have_the_time_since_the_creation() {
        let workload = json!({
            "metadata": {"name": "job-a", "uid": "w-uid", "creationTimestamp": "2026-11-20T12:00:00Z", "ownerReferences": [{"kind": "Job", "uid": "j"}]},
            "spec": {"queueName": "load"},
            "status": {"conditions": [
                {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "in cluster-a", "lastTransitionTime": "2026-11-20T12:00:40Z"},
                {"type": "Admitted", "status": "True", "reason": "Admitted", "lastTransitionTime": "2026-11-20T12:00:41Z"},
                {"type": "Evicted", "status": "False", "reason": "QuotaReserved", "lastTransitionTime": "2026-11-20T12:00:40Z"},
                {"status": "True"},
            ]},
        });
        let node = json!({
            "metadata": {"name": "n", "uid": "n-uid", "creationTimestamp": "2026-11-20T11:00:00Z"},
            "status": {"conditions": [{"type": "MemoryPressure", "status": "True", "reason": "KubeletHasInsufficientMemory", "lastTransitionTime": "2026-11-20T12:00:00Z"}]},
        });
        insta::assert_snapshot!(shown(&json!([]), &json!([node]), &json!([workload])), @r"
        Node n condition MemoryPressure True KubeletHasInsufficientMemory x0 - to 2026-11-20T12:00:00Z after Some(3600): -
        Workload job-a condition Admitted True Admitted x0 - to 2026-11-20T12:00:41Z after Some(41): -
        Workload job-a condition Evicted False QuotaReserved x0 - to 2026-11-20T12:00:40Z after Some(40): -
        Workload job-a condition QuotaReserved True QuotaReserved x0 - to 2026-11-20T12:00:40Z after Some(40): in cluster-a
        ");
    }

    #[test]
    fn what_could_not_be_read_is_named() {
        let unknown = json!([{"metadata": {"name": "n"}, "unknown": "the API server denies the request"}]);
        insta::assert_snapshot!(shown(&json!({}), &unknown, &json!([{"unknown": "forbidden"}])), @r"
        `cluster/events.json` is no list of objects: invalid type: map, expected a list of objects at line 1 column 0
        `cluster/nodes.json` is incomplete for `n`: the API server denies the request
        `cluster/workloads.json` is incomplete: forbidden
        ");
    }

    #[test]
    fn odd_objects_are_no_rows() {
        let odd = json!([null, 1, "x", [], {}, {"involvedObject": []}, {"metadata": {"uid": "u"}, "status": {"conditions": {"type": "x"}}}]);
        assert_eq!(shown(&odd, &odd, &odd), "");
        let long = event("r", json!({"message": "é".repeat(MAX_TEXT)}));
        let found = ClusterEvents::read(json!([long]).to_string().as_bytes(), b"[]", b"[]");
        assert_eq!(found.events[0].message.as_ref().map(String::len), Some(MAX_TEXT));
    }

    proptest! {
        #[test]
        fn whatever_was_kept_is_read_or_told(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = ClusterEvents::read(&bytes, &bytes, &bytes);
        }
    }
}
