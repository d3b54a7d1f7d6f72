//! The rows of what happened to the run's objects in a cluster: events and conditions, from the API server's responses in the raw evidence.
//!
//! A missing or odd value is null, and never fails the run.

use assay_telemetry::cluster::{ClusterEvent, ClusterEvents};
use assay_warehouse::{CLUSTER_EVENT_FACT, Result as RowResult, Row, Value};

use crate::dimensions::Dimensions;
use crate::rows::RowContext;

/// Returns a row for each event and condition.
pub(crate) fn rows(context: &RowContext<'_>, dimensions: &Dimensions, events: &ClusterEvents) -> RowResult<Vec<Row>> {
    events.events.iter().map(|event| row(context, dimensions, event)).collect()
}

fn row(context: &RowContext<'_>, dimensions: &Dimensions, event: &ClusterEvent) -> RowResult<Row> {
    let object = &event.object;
    Row::new(&CLUSTER_EVENT_FACT)
        .with("run_id", context.run_id.as_str())?
        .with("artifact_manifest_digest", context.collection_manifest)?
        .with("cluster_region_key", dimensions.cluster.as_str())?
        .with("object_kind", object.kind.as_str())?
        .with("object_uid", object.uid.as_str())?
        .with("object_name", object.name.as_deref())?
        .with("job_uid", object.job_uid.as_deref())?
        .with("queue", object.queue.as_deref())?
        .with("event_kind", event.event_kind)?
        .with("event_type", event.event_type.as_deref())?
        .with("status", event.status.as_deref())?
        .with("reason", event.reason.as_deref())?
        .with("count", event.count.map(Value::from_count))?
        .with("first_unix_ns", event.first)?
        .with("last_unix_ns", event.last)?
        .with("after_creation_ns", event.after_creation_ns().map(Value::from_count))?
        .with("message", event.message.as_deref())?
        .seal()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{Run, assert_filled, plan};

    #[test]
    fn every_column_has_a_writer() {
        let event = json!([{
            "involvedObject": {"kind": "Pod", "name": "p", "uid": "p-uid"}, "type": "Warning", "reason": "BackOff", "message": "again", "count": 2,
            "firstTimestamp": "2026-11-20T12:00:00Z", "lastTimestamp": "2026-11-20T12:00:09Z",
        }]);
        let workload = json!([{
            "metadata": {"name": "w", "uid": "w-uid", "creationTimestamp": "2026-11-20T12:00:00Z", "ownerReferences": [{"kind": "Job", "uid": "j"}]},
            "spec": {"queueName": "load"},
            "status": {"conditions": [{"type": "Admitted", "status": "True", "reason": "Admitted", "lastTransitionTime": "2026-11-20T12:00:41Z"}]},
        }]);
        let events = ClusterEvents::read(event.to_string().as_bytes(), b"[]", workload.to_string().as_bytes());
        let run = Run::with_attempts(plan(1), Vec::new());
        let rows = rows(&run.context(), &run.dimensions(), &events).expect("rows");
        assert_eq!(rows.len(), 2);
        assert_filled(&CLUSTER_EVENT_FACT, &rows, &[]);
        assert_eq!(rows[1].get("after_creation_ns"), Some(&Value::Int(41_000_000_000)), "the wait for admission");
    }
}
