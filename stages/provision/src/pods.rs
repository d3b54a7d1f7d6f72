//! Targets that are brought up as pods, where the stage itself runs in one.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use assay_cluster::{Cluster, InPod, Place, Pod, TargetPod, by_digest, image_of, target_pod, trouble_of};
use assay_manifest::{Artifact, Block, Image, Plan, RunId, Target, TargetKind};
use assay_stage::{Context, Failure};

use crate::address_of;
use crate::models::asked_of;
use crate::ready::place_of;
use crate::simulator;

/// The port of a simulator, which has an address of its own as a pod.
const SIMULATOR_PORT: u16 = 8000;
/// The pause between two looks at a pod.
const PAUSE: Duration = Duration::from_millis(200);
/// How long an earlier pod of the same name may take to go.
const END_LIMIT: Duration = Duration::from_mins(1);

/// Brings targets up in the namespace that is for them.
pub(crate) struct Pods<'a> {
    here: &'a InPod,
    cluster: Cluster,
    run_id: RunId,
    block: Block,
    /// What the cluster said of each pod once it ran: it is gone when the evidence is collected.
    seen: RefCell<Vec<(String, Pod)>>,
}

/// A pod that is a target.
#[derive(Clone)]
pub(crate) struct BroughtUp {
    cluster: Cluster,
    namespace: String,
    name: String,
    /// Where it is reached.
    pub(crate) address: String,
    /// The node that it runs on.
    pub(crate) node: String,
    /// The image that really runs.
    pub(crate) image: Option<Image>,
}

impl<'a> Pods<'a> {
    pub(crate) fn new(here: &'a InPod, run_id: &RunId, block: Block) -> Result<Self, Failure> {
        Ok(Self { here, cluster: Cluster::around_pod()?, run_id: run_id.clone(), block, seen: RefCell::default() })
    }

    /// The node that this stage runs on.
    pub(crate) fn node(&self) -> &str {
        &self.here.place.node
    }

    /// Which pod each target is: an Environment is of that one alone.
    pub(crate) fn identities(&self) -> Vec<(String, String)> {
        let identity = |(target, pod): &(String, Pod)| {
            let (name, uid) = (pod.metadata.name.clone()?, pod.metadata.uid.clone()?);
            Some((format!("pod/{target}"), format!("{name}/{uid}")))
        };
        self.seen.borrow().iter().filter_map(identity).collect()
    }

    /// Keeps what the cluster said of each target.
    pub(crate) fn readings(&self, ctx: &Context) -> Result<Vec<Artifact>, Failure> {
        let keep = |(target, pod): &(String, Pod)| {
            let mut pod = pod.clone();
            pod.metadata.managed_fields = None;
            let bytes = serde_json::to_vec(&pod)
                .map_err(|error| Failure::unexpected("readings", "what the cluster says cannot be written").because(&error))?;
            ctx.put(format!("readings/pod-{target}.json"), "application/json", &bytes)
        };
        self.seen.borrow().iter().map(keep).collect()
    }

    /// Creates the pod of a target and waits until it has an address. Whether it is ready is asked afterwards.
    pub(crate) fn bring_up(&self, ctx: &Context, plan: &Plan, target: &Target) -> Result<BroughtUp, Failure> {
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
            return Err(Failure::definition("target_env", message)
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
        };
        let name = wanted.name();
        if !self.cluster.create(&target_pod(&wanted))? {
            self.make_room(ctx, &name)?;
            self.cluster.create(&target_pod(&wanted))?;
        }
        self.wait_for_address(ctx, target, &name, port)
    }

    /// An earlier try of this stage has left its pod: one that ran before is not this one.
    fn make_room(&self, ctx: &Context, name: &str) -> Result<(), Failure> {
        let place = Place::named("Pod", &self.here.targets_namespace, name);
        self.cluster.delete(&place, None)?;
        let watch = ctx.clock().start();
        while self.cluster.get::<serde_json::Value>(&place)?.is_some() {
            if u128::from(watch.elapsed_ns()) > END_LIMIT.as_nanos() {
                return Err(Failure::environment("target_stays", format!("an earlier pod `{name}` does not end")));
            }
            if ctx.cancel().wait_timeout(PAUSE) {
                return ctx.check_cancelled();
            }
        }
        Ok(())
    }

    fn wait_for_address(&self, ctx: &Context, target: &Target, name: &str, port: u16) -> Result<BroughtUp, Failure> {
        let namespace = &self.here.targets_namespace;
        let watch = ctx.clock().start();
        loop {
            let pod: Option<Pod> = self.cluster.get(&Place::named("Pod", namespace, name))?;
            let gone = || Failure::environment("target_ended", format!("the pod `{name}` of target `{}` has gone", target.name));
            let pod = pod.ok_or_else(gone)?;
            let trouble = trouble_of(&pod);
            let is_late = watch.elapsed_ns() >= target.ready_timeout_ns.0;
            match trouble {
                Some(trouble) if trouble.lasts || is_late => {
                    let said = self.cluster.log(namespace, name, Some(10)).unwrap_or_default();
                    return Err(not_up(target, trouble.failure, &said));
                }
                None if is_late => {
                    let message =
                        format!("target `{}` has no address after {} s", target.name, target.ready_timeout_ns.0 / 1_000_000_000);
                    return Err(Failure::environment("target_not_ready", message).lasting());
                }
                _ => {}
            }
            let status = pod.status.clone().unwrap_or_default();
            if let (Some("Running"), Some(ip)) = (status.phase.as_deref(), status.pod_ip.filter(|ip| !ip.is_empty())) {
                self.seen.borrow_mut().push((target.name.to_string(), pod.clone()));
                let ip = if ip.contains(':') { format!("[{ip}]") } else { ip };
                return Ok(BroughtUp {
                    cluster: self.cluster.clone(),
                    namespace: namespace.clone(),
                    name: name.to_owned(),
                    address: format!("http://{ip}:{port}"),
                    node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
                    image: image_of(&pod).map(|(reference, digest)| Image { reference, digest }),
                });
            }
            if ctx.cancel().wait_timeout(PAUSE) {
                ctx.check_cancelled()?;
            }
        }
    }
}

impl BroughtUp {
    /// Fails where the pod has ended.
    pub(crate) fn check(&self, target: &str) -> Result<(), Failure> {
        let pod: Option<Pod> = self.cluster.get(&Place::named("Pod", &self.namespace, &self.name))?;
        let Some(pod) = pod else {
            return Err(Failure::environment(
                "target_ended",
                format!("the pod of target `{target}` has gone before it was ready"),
            ));
        };
        match trouble_of(&pod).filter(|trouble| trouble.lasts) {
            None => Ok(()),
            Some(trouble) => {
                let said = self.cluster.log(&self.namespace, &self.name, Some(10)).unwrap_or_default();
                let failure = trouble.failure;
                let message = format!("target `{target}` ended before it was ready: {}", failure.message);
                let failure = Failure { message, code: "target_ended".to_owned(), ..failure };
                Err(if said.is_empty() { failure } else { failure.hint(format!("the end of its log:\n{said}")) })
            }
        }
    }
}

fn not_up(target: &Target, failure: Failure, said: &str) -> Failure {
    let message = format!("target `{}` does not come up: {}", target.name, failure.message);
    let failure = Failure { message, ..failure }.lasting();
    if said.trim().is_empty() { failure } else { failure.hint(format!("the end of its log:\n{}", said.trim_end())) }
}

fn simulator_command(plan: &Plan, target: &Target) -> Result<Vec<String>, Failure> {
    let listen = format!("0.0.0.0:{SIMULATOR_PORT}");
    let mut command = vec!["/assay/assay-simulator".to_owned(), "--listen".to_owned(), listen];
    command.extend(simulator::settings(target, &asked_of(plan, target))?);
    Ok(command)
}

fn image_of_process(target: &Target) -> Result<String, Failure> {
    let needs = || {
        Failure::definition("target_image", format!("target `{}` of kind `process` has no image to run in", target.name))
            .hint("in a cluster a process runs as a pod: name its `image`")
    };
    let image = target.image.as_ref().ok_or_else(needs)?;
    Ok(by_digest(image))
}

fn port_of(target: &Target) -> Result<u16, Failure> {
    let address = address_of(target)?;
    let place = place_of(&address).map(|place| place.port);
    place.ok_or_else(|| {
        Failure::definition("target_url", format!("target `{}` is at `{address}`, which is not an address", target.name))
    })
}
