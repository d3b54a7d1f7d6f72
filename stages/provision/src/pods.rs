//! Targets that are brought up as pods, or found as pods, if the stage itself runs in one.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use assay_cluster::{
    Cluster, ObjectPath, Pod, PodEnvironment, PodServer, RUN, TARGET, TargetPod, Trouble, by_digest, pod_facts, redact_secrets,
    target_pod, trouble_of,
};
use assay_manifest::{Artifact, Block, Image, Plan, PodFacts, PodSelector, RunId, Target, TargetKind};
use assay_stage::{Context, ErrorCode, Event, Failure};
use serde_json::Value;

use crate::ready::parse_address;
use crate::replicas::PodReach;
use crate::simulator;
use crate::target_address;
use crate::wait_limits::{WaitLimits, WaitStep};

/// The port of a simulator: as a pod it has an address of its own.
const SIMULATOR_PORT: u16 = 8000;
/// The polling interval of a pod.
pub(crate) const PAUSE: Duration = Duration::from_millis(200);
/// The polling interval of a queue, which takes a moment to report anything.
const ASK_QUEUE: Duration = Duration::from_secs(3);
/// The longest wait for an earlier object of the same name to be deleted.
pub(crate) const END_LIMIT: Duration = Duration::from_mins(1);

/// A client that brings targets up in the targets' namespace.
pub(crate) struct PodProvisioner<'a> {
    pub(crate) here: &'a PodEnvironment,
    pub(crate) cluster: Cluster,
    pub(crate) run_id: RunId,
    pub(crate) block: Block,
    /// The state of each target once it ran: the objects no longer exist when the evidence is collected.
    seen: RefCell<Vec<TargetState>>,
}

/// The last message of a target's queue.
#[derive(Default)]
pub(crate) struct QueueStatus {
    /// The time of the next request to the queue.
    asks: Duration,
    said: Option<String>,
}

/// The pods and objects of a target, as the cluster reported them.
pub(crate) struct TargetState {
    pub(crate) target: String,
    /// True if this stage has brought it up: then its Environment is of these pods alone.
    pub(crate) is_ours: bool,
    /// Its pods, by name.
    pub(crate) pods: Vec<Pod>,
    /// Its other objects.
    pub(crate) objects: Vec<Value>,
}

/// A target that runs as pods.
#[derive(Clone)]
pub(crate) struct RunningTarget {
    cluster: Cluster,
    /// The selector of its pods.
    pub(crate) selector: PodSelector,
    /// True if this stage has brought it up.
    pub(crate) is_ours: bool,
    /// The URL at which it is reached.
    pub(crate) address: String,
    /// The way in which the address leads to its pods.
    pub(crate) reach: PodReach,
    /// Its pods, by name.
    pub(crate) pods: Vec<PodFacts>,
    /// The servers in its ready pods, or the reason why their addresses are not known.
    pub(crate) servers: Result<Vec<PodServer>, String>,
    /// The model and engine that it reports.
    pub(crate) settings: BTreeMap<String, String>,
}

impl<'a> PodProvisioner<'a> {
    pub(crate) fn new(here: &'a PodEnvironment, run_id: &RunId, block: Block) -> Result<Self, Failure> {
        Ok(Self { here, cluster: Cluster::from_pod()?, run_id: run_id.clone(), block, seen: RefCell::default() })
    }

    /// Returns the node that this stage runs on.
    pub(crate) fn node(&self) -> &str {
        &self.here.place.node
    }

    /// Returns the selector of the pods of a target that this stage brings up.
    pub(crate) fn selector(&self, target: &Target) -> PodSelector {
        let labels = format!("{RUN}={},{TARGET}={}", self.run_id, target.name);
        PodSelector { namespace: self.here.targets_namespace.clone(), labels }
    }

    /// Returns the pods of each target that this stage brought up: an Environment is of those pods alone.
    pub(crate) fn identities(&self) -> Vec<(String, String)> {
        self.seen.borrow().iter().filter(|seen| seen.is_ours).flat_map(pod_identities).collect()
    }

    /// Stores the reported state of each target.
    pub(crate) fn readings(&self, ctx: &Context) -> Result<Vec<Artifact>, Failure> {
        let mut kept = Vec::new();
        for (name, object) in self.seen.borrow().iter().flat_map(target_readings) {
            let bytes = serde_json::to_vec(&object)
                .map_err(|error| Failure::new(ErrorCode::Internal, "what the cluster says cannot be written").because(&error))?;
            kept.push(ctx.put(name, "application/json", &bytes)?);
        }
        Ok(kept)
    }

    /// Remembers the state of a target, and returns the target.
    pub(crate) fn record_target(
        &self,
        selector: PodSelector,
        (address, reach): (String, PodReach),
        mut seen: TargetState,
    ) -> RunningTarget {
        seen.pods.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        let brought_up = RunningTarget {
            cluster: self.cluster.clone(),
            selector,
            is_ours: seen.is_ours,
            address,
            servers: reach.servers(&seen.pods),
            reach,
            pods: seen.pods.iter().map(pod_facts).collect(),
            settings: BTreeMap::new(),
        };
        self.seen.borrow_mut().push(seen);
        brought_up
    }

    /// Reads the pods of a target again once it is ready, because they are its identity: until then it may have been scaled, and
    /// its containers restarted. Fails if a pod that this stage has brought up has ended.
    pub(crate) fn update_pods(&self, target: &Target, up: &mut RunningTarget) -> Result<(), Failure> {
        if up.is_ours {
            up.check(target.name.as_str())?;
        }
        let pods = self.cluster.target_pods(&up.selector)?;
        up.pods = pods.iter().map(pod_facts).collect();
        up.servers = up.reach.servers(&pods);
        if let Some(seen) = self.seen.borrow_mut().iter_mut().find(|seen| seen.target == target.name.as_str()) {
            seen.pods = pods;
        }
        Ok(())
    }

    /// Creates the pod of a target and waits until it has an address. Readiness is checked afterwards.
    pub(crate) fn bring_up(&self, ctx: &Context, plan: &Plan, target: &Target) -> Result<RunningTarget, Failure> {
        let (image, command, port) = match target.kind {
            TargetKind::Simulator => (self.here.image.clone(), simulator_command(plan, target)?, SIMULATOR_PORT),
            _ => (image_of_process(target)?, target.command.clone(), port_of(target)?),
        };
        let env = target.env.iter().filter_map(|variable| Some((variable.name.clone(), variable.value.clone()?))).collect();
        let from = |variable: &assay_manifest::EnvVar| variable.from_env.clone();
        let env_from: BTreeMap<_, _> =
            target.env.iter().filter_map(|variable| Some((variable.name.clone(), from(variable)?))).collect();
        if let Some(variable) = target.env.iter().find(|variable| variable.from_file.is_some()) {
            let message = format!("`{}` of target `{}` comes from a file, which a pod does not have", variable.name, target.name);
            return Err(Failure::new(ErrorCode::TargetEnv, message)
                .hint("in a cluster, name a member of the Secret `target-secrets` with `from_env`"));
        }
        let wanted = TargetPod {
            namespace: &self.here.targets_namespace,
            run_id: &self.run_id,
            target: target.name.as_str(),
            block: (self.block.index, self.block.incarnation),
            image: &image,
            command: &command,
            env: &env,
            env_from: &env_from,
            port,
            queue: self.here.queue.as_deref(),
        };
        let name = wanted.name();
        if !self.cluster.create(&target_pod(&wanted))? {
            self.delete_earlier_pod(ctx, &name)?;
            self.cluster.create(&target_pod(&wanted))?;
        }
        self.wait_for_address(ctx, target, &name, port)
    }

    /// Deletes the pod that an earlier try of this stage has left, and waits until it has gone: a pod that ran before is not this
    /// target.
    pub(crate) fn delete_earlier_pod(&self, ctx: &Context, name: &str) -> Result<(), Failure> {
        let place = ObjectPath::named("Pod", &self.here.targets_namespace, name);
        self.cluster.delete(&place, None)?;
        let watch = ctx.clock().start();
        while self.cluster.get::<Value>(&place)?.is_some() {
            if u128::from(watch.elapsed_ns()) > END_LIMIT.as_nanos() {
                return Err(Failure::new(ErrorCode::TargetStays, format!("an earlier pod `{name}` does not end")));
            }
            if ctx.cancel().wait_timeout(PAUSE) {
                return ctx.check_cancelled();
            }
        }
        Ok(())
    }

    /// Returns the time limits of a target.
    pub(crate) fn wait_limits(&self, target: &Target) -> WaitLimits {
        WaitLimits::new(Duration::from_nanos(target.ready_timeout_ns.0), self.here.start_limit)
    }

    /// Adds the queue's message to the trouble of pods that wait in a queue: the queue is read every few seconds.
    pub(crate) fn add_queue_message(
        &self,
        queue: &mut QueueStatus,
        elapsed: Duration,
        pods: &[Pod],
        trouble: Trouble,
    ) -> Trouble {
        if trouble.is_queued() && elapsed >= queue.asks {
            queue.asks = elapsed + ASK_QUEUE;
            let waits = pods.iter().find(|pod| trouble_of(pod).is_some_and(|trouble| trouble.is_queued()));
            let uid = waits.and_then(|pod| pod.metadata.uid.as_deref());
            queue.said = uid.and_then(|uid| self.cluster.queue_message(&self.here.targets_namespace, uid));
        }
        trouble.with_queue_message(queue.said.as_deref())
    }

    fn wait_for_address(&self, ctx: &Context, target: &Target, name: &str, port: u16) -> Result<RunningTarget, Failure> {
        let namespace = &self.here.targets_namespace;
        let (watch, mut patience, mut queue) = (ctx.clock().start(), self.wait_limits(target), QueueStatus::default());
        loop {
            let pod: Option<Pod> = self.cluster.get(&ObjectPath::named("Pod", namespace, name))?;
            let gone = || Failure::new(ErrorCode::TargetEnded, format!("the pod `{name}` of target `{}` has gone", target.name));
            let pod = pod.ok_or_else(gone)?;
            let status = pod.status.clone().unwrap_or_default();
            if let (Some("Running"), Some(ip)) = (status.phase.as_deref(), status.pod_ip.filter(|ip| !ip.is_empty())) {
                let ip = if ip.contains(':') { format!("[{ip}]") } else { ip };
                let seen = TargetState { target: target.name.to_string(), is_ours: true, pods: vec![pod], objects: Vec::new() };
                let address = format!("http://{ip}:{port}");
                return Ok(self.record_target(self.selector(target), (address, PodReach::Pod), seen));
            }
            let elapsed = Duration::from_nanos(watch.elapsed_ns());
            let pods = std::slice::from_ref(&pod);
            let trouble = trouble_of(&pod).map(|trouble| self.add_queue_message(&mut queue, elapsed, pods, trouble));
            match (patience.next_step(elapsed, trouble.as_ref()), trouble) {
                (WaitStep::Wait(note), _) => emit_note(ctx, note),
                (WaitStep::GiveUp, Some(trouble)) => {
                    let said = self.cluster.log(namespace, name, Some(10)).unwrap_or_default();
                    return Err(not_up_failure(target, trouble.obstacle.into(), &said));
                }
                (WaitStep::GiveUp, None) => {
                    let message =
                        format!("target `{}` has no address after {} s", target.name, target.ready_timeout_ns.0 / 1_000_000_000);
                    return Err(Failure::new(ErrorCode::TargetNotReady, message));
                }
            }
            if ctx.cancel().wait_timeout(PAUSE) {
                ctx.check_cancelled()?;
            }
        }
    }
}

/// Emits a note about what is waited for.
pub(crate) fn emit_note(ctx: &Context, note: Option<String>) {
    if let Some(message) = note {
        ctx.emit(Event::Note { message });
    }
}

/// Names the pods of a target: a single pod by the target, several by the target and a number.
fn pod_identities(seen: &TargetState) -> Vec<(String, String)> {
    let identities = seen.pods.iter().filter_map(|pod| Some((pod.metadata.name.as_ref()?, pod.metadata.uid.as_ref()?)));
    number_facts("pod", &seen.target, identities.map(|(name, uid)| format!("{name}/{uid}")).collect())
}

/// Names facts of a target: `KIND/TARGET` if there is one, `KIND/TARGET/NUMBER` if there are more.
pub(crate) fn number_facts(kind: &str, target: &str, values: Vec<String>) -> Vec<(String, String)> {
    let is_one = values.len() == 1;
    let key = |number: usize| if is_one { format!("{kind}/{target}") } else { format!("{kind}/{target}/{number}") };
    values.into_iter().enumerate().map(|(number, value)| (key(number), value)).collect()
}

/// Returns the readings of a target, each with its name.
fn target_readings(seen: &TargetState) -> Vec<(String, Value)> {
    let target = &seen.target;
    let name_of = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let pods: Vec<Value> = seen.pods.iter().filter_map(|pod| serde_json::to_value(pod).ok()).map(redact_secrets).collect();
    let is_one = seen.objects.is_empty() && pods.len() == 1;
    let pods = pods.into_iter().map(|pod| {
        let name =
            if is_one { format!("readings/pod-{target}.json") } else { format!("readings/pods/{target}/{}.json", name_of(&pod)) };
        (name, pod)
    });
    let objects = seen.objects.iter().map(|object| {
        let kind = object["kind"].as_str().unwrap_or("object").to_lowercase();
        (format!("readings/objects/{target}/{kind}-{}.json", name_of(object)), redact_secrets(object.clone()))
    });
    pods.chain(objects).collect()
}

impl RunningTarget {
    /// Returns the nodes that it runs on, each once.
    pub(crate) fn nodes(&self) -> BTreeSet<String> {
        self.pods.iter().map(|pod| pod.node.clone()).filter(|node| !node.is_empty()).collect()
    }

    /// Returns the image that really runs: that of each pod's first container, if they agree.
    pub(crate) fn image(&self) -> Option<Image> {
        let mut images = self.pods.iter().map(|pod| pod.containers.first().map(|container| &container.image));
        let first = images.next()??;
        images.all(|image| image == Some(first)).then(|| first.clone())
    }

    /// Fails if a pod has ended.
    pub(crate) fn check(&self, target: &str) -> Result<(), Failure> {
        let PodSelector { namespace, labels } = &self.selector;
        let there: Vec<Pod> = self.cluster.list("Pod", namespace, labels)?;
        for known in &self.pods {
            let Some(pod) = there.iter().find(|pod| pod.metadata.uid.as_ref() == Some(&known.uid)) else {
                let message = format!("the pod `{}` of target `{target}` has gone before it was ready", known.name);
                return Err(Failure::new(ErrorCode::TargetEnded, message));
            };
            if let Some(trouble) = trouble_of(pod).filter(|trouble| trouble.lasts) {
                let said = self.cluster.log(namespace, &known.name, Some(10)).unwrap_or_default();
                let failure = Failure::from(trouble.obstacle);
                let message = format!("target `{target}` ended before it was ready: {}", failure.message);
                let failure = Failure { message, code: ErrorCode::TargetEnded, ..failure };
                return Err(if said.is_empty() { failure } else { failure.hint(format!("the end of its log:\n{said}")) });
            }
        }
        Ok(())
    }
}

pub(crate) fn not_up_failure(target: &Target, failure: Failure, said: &str) -> Failure {
    let message = format!("target `{}` does not come up: {}", target.name, failure.message);
    let failure = Failure { message, ..failure }.lasting();
    if said.trim().is_empty() { failure } else { failure.hint(format!("the end of its log:\n{}", said.trim_end())) }
}

fn simulator_command(plan: &Plan, target: &Target) -> Result<Vec<String>, Failure> {
    let listen = format!("0.0.0.0:{SIMULATOR_PORT}");
    let mut command = vec!["/assay/assay-simulator".to_owned(), "--listen".to_owned(), listen];
    command.extend(simulator::settings(target, &simulator::requested(plan, target))?);
    Ok(command)
}

fn image_of_process(target: &Target) -> Result<String, Failure> {
    let needs = || {
        Failure::new(ErrorCode::TargetImage, format!("target `{}` of kind `process` has no image to run in", target.name))
            .hint("in a cluster a process runs as a pod: name its `image`")
    };
    let image = target.image.as_ref().ok_or_else(needs)?;
    Ok(by_digest(image))
}

fn port_of(target: &Target) -> Result<u16, Failure> {
    let address = target_address(target)?;
    let place = parse_address(&address).map(|place| place.port);
    place.ok_or_else(|| {
        Failure::new(ErrorCode::TargetUrl, format!("target `{}` is at `{address}`, which is not an address", target.name))
    })
}

#[cfg(test)]
mod tests;
