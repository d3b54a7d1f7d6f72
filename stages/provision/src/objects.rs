//! Targets that consist of Kubernetes objects: creates them, and waits until all of them are up.

use std::time::Duration;

use assay_cluster::{
    Event, ObjectPath, ObjectsOwner, Pod, Rollout, owner_conflict, phase, rollout, service_address, target_objects, trouble_of,
};
use assay_manifest::Target;
use assay_stage::{Context, ErrorCode, Failure};
use serde_json::Value;

use crate::pods::{END_LIMIT, PAUSE, PodProvisioner, QueueStatus, RunningTarget, TargetState, emit_note, not_up_failure};
use crate::ready::parse_address;
use crate::replicas::PodReach;
use crate::target_address;
use crate::wait_limits::WaitStep;

/// The polling interval of objects.
const LOOK: Duration = Duration::from_millis(500);

impl PodProvisioner<'_> {
    /// Creates the objects of a target and waits until they are up. Readiness is checked afterwards.
    pub(crate) fn bring_up_objects(&self, ctx: &Context, target: &Target) -> Result<RunningTarget, Failure> {
        let read = |file: &assay_manifest::PinnedFile| {
            let bytes = ctx.get(&file.artifact, assay_spec::MAX_OBJECT_BYTES as u64)?;
            let objects = assay_spec::parse_objects(&file.path, &bytes).map_err(|problems| Failure::invalid(&problems))?;
            Ok((file.path.clone(), objects))
        };
        let files = target.objects.iter().map(read).collect::<Result<Vec<_>, Failure>>()?;
        let of = ObjectsOwner {
            namespace: &self.here.targets_namespace,
            run_id: &self.run_id,
            target: target.name.as_str(),
            queue: self.here.queue.as_deref(),
        };
        let objects = target_objects(&of, &files)?;
        let address = service_address(&of, &target_address(target)?, &objects)?;
        for object in &objects {
            self.create_or_apply(ctx, &of, object)?;
        }
        let (there, pods) = self.wait_until_up(ctx, target, &objects)?;
        let reach = reach(&target_address(target)?, &there);
        let seen = TargetState { target: target.name.to_string(), is_ours: true, pods, objects: there };
        Ok(self.record_target(self.selector(target), (address, reach), seen))
    }

    /// Creates an object; applies it if an earlier try of this stage has created it. Creation comes first, so that of two runs
    /// that want the same name one gets an error.
    fn create_or_apply(&self, ctx: &Context, of: &ObjectsOwner<'_>, object: &Value) -> Result<(), Failure> {
        let watch = ctx.clock().start();
        let named =
            |error: assay_cluster::Error| Failure { message: format!("target `{}`: {error}", of.target), ..Failure::from(error) };
        while !self.cluster.create(object).map_err(named)? {
            if let Some(there) = self.cluster.get::<Value>(&place_of(object))? {
                if let Some(taken) = owner_conflict(of, &there) {
                    return Err(taken.into());
                }
                let is_ending = !there["metadata"]["deletionTimestamp"].is_null();
                if object["kind"] == "Pod" {
                    self.delete_earlier_pod(ctx, name_of(object))?;
                } else if !is_ending {
                    return self.cluster.apply(object).map(drop).map_err(named);
                }
            }
            if u128::from(watch.elapsed_ns()) > END_LIMIT.as_nanos() {
                return Err(Failure::new(ErrorCode::TargetStays, format!("an earlier object `{}` does not go", name_of(object))));
            }
            if ctx.cancel().wait_timeout(PAUSE) {
                ctx.check_cancelled()?;
            }
        }
        Ok(())
    }

    /// Returns the objects and their pods, once all of them are up.
    fn wait_until_up(&self, ctx: &Context, target: &Target, objects: &[Value]) -> Result<(Vec<Value>, Vec<Pod>), Failure> {
        let (watch, mut patience, mut queue) = (ctx.clock().start(), self.wait_limits(target), QueueStatus::default());
        loop {
            let there = objects.iter().map(|object| self.get_object(target, object)).collect::<Result<Vec<_>, _>>()?;
            let mut pods: Vec<Pod> = self.cluster.list("Pod", &self.here.targets_namespace, &self.selector(target).labels)?;
            pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
            let trouble = match rollout(&there, &pods, &self.stateful_set_events(&there, &pods)?) {
                Rollout::Up => {
                    // A pod that was replaced during the rollout is left out.
                    pods.retain(|pod| phase(pod) == "Running");
                    return Ok((there, pods));
                }
                Rollout::Waiting(trouble) => trouble,
            };
            let elapsed = Duration::from_nanos(watch.elapsed_ns());
            let trouble = trouble.map(|trouble| self.add_queue_message(&mut queue, elapsed, &pods, trouble));
            match (patience.next_step(elapsed, trouble.as_ref()), trouble) {
                (WaitStep::Wait(note), _) => emit_note(ctx, note),
                (WaitStep::GiveUp, Some(trouble)) => {
                    return Err(not_up_failure(target, trouble.obstacle.into(), &self.log_tail(&pods)));
                }
                (WaitStep::GiveUp, None) => {
                    let seconds = target.ready_timeout_ns.0 / 1_000_000_000;
                    let message = format!("the objects of target `{}` are not up after {seconds} s", target.name);
                    return Err(Failure::new(ErrorCode::TargetNotReady, message)
                        .hint("a readiness probe that never passes keeps them from it; `ready.timeout` gives them more time"));
                }
            }
            if ctx.cancel().wait_timeout(LOOK) {
                ctx.check_cancelled()?;
            }
        }
    }

    fn get_object(&self, target: &Target, object: &Value) -> Result<Value, Failure> {
        self.cluster.get::<Value>(&place_of(object))?.ok_or_else(|| {
            let (kind, name) = (object["kind"].as_str().unwrap_or_default(), name_of(object));
            Failure::new(ErrorCode::TargetEnded, format!("the {kind} `{name}` of target `{}` has gone", target.name))
        })
    }

    /// Returns the events of StatefulSets: only there a StatefulSet says why it makes no pods.
    fn stateful_set_events(&self, objects: &[Value], pods: &[Pod]) -> Result<Vec<Event>, Failure> {
        let mut events = Vec::new();
        for object in objects.iter().filter(|object| object["kind"] == "StatefulSet" && pods.is_empty()) {
            events.extend(self.cluster.events(&self.here.targets_namespace, name_of(object))?);
        }
        Ok(events)
    }

    /// Returns the end of the log of a pod in trouble, if there is one.
    fn log_tail(&self, pods: &[Pod]) -> String {
        let troubled = pods.iter().find(|pod| trouble_of(pod).is_some()).and_then(|pod| pod.metadata.name.as_deref());
        let log = troubled.map(|name| self.cluster.log(&self.here.targets_namespace, name, Some(10)));
        log.and_then(Result::ok).unwrap_or_default()
    }
}

/// Returns the way from the URL of a target to its pods: through the Service among its objects that the URL names.
fn reach(url: &str, objects: &[Value]) -> PodReach {
    let host = parse_address(url).map(|place| place.host).unwrap_or_default();
    let service = objects.iter().find(|object| object["kind"] == "Service" && name_of(object) == host);
    service.map_or(PodReach::Pod, |service| PodReach::Service { service: service.clone(), url: url.to_owned() })
}

fn place_of(object: &Value) -> ObjectPath<'_> {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    ObjectPath::named(object["kind"].as_str().unwrap_or_default(), namespace, name_of(object))
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
