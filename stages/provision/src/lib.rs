//! Provision: brings the targets of a block up, or verifies that they are up, and records what they run on.

mod calibration;
mod ceiling;
mod client_certificate;
mod endpoint_pods;
mod execution;
mod hardware;
mod inference;
mod models;
mod node_labels;
mod objects;
mod pods;
mod ready;
mod replicas;
mod shards;
mod simulator;
mod target_end;
mod test_request;
mod wait_limits;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;

use assay_cluster::{LoadPod, PodEnvironment};
use assay_host::{FileDigests, Root};
use assay_manifest::{
    Artifact, Block, Control, ControlFact, ControlState, Count, EnvVar, Environment, Fact, Host, HostFacts, HostRole, Image,
    Name, Plan, Probe, ProvisionedTarget, ShardCount, Target, TargetKind,
};
use assay_probe::{Client, Identity};
use assay_stage::parameters::ProvisionParameters;
use assay_stage::{Context, ErrorCode, Event, Failure, HoldRequest, Inputs, Stage, StageName};

use crate::execution::Execution;
use crate::hardware::{ProbeResults, common_controls, nodes_to_probe};
use crate::pods::{PodProvisioner, number_facts};
use crate::target_end::TargetEnd;

/// The host name of the machine that a stage runs on.
const LOCAL: &str = "local";

/// The provision stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Provision;

impl Stage for Provision {
    type Parameters = ProvisionParameters;
    type Output = Environment;
    const NAME: StageName = StageName::Provision;

    fn run(&self, inputs: &Inputs, parameters: &ProvisionParameters, ctx: &Context) -> Result<Environment, Failure> {
        let (plan, plan_digest) = inputs.plan()?;
        let block = Block { index: parameters.block, incarnation: parameters.incarnation };
        let targets = block_targets(plan, block.index)?;
        let here = PodEnvironment::from_env(|name| std::env::var(name).ok());
        let pods = here.as_ref().map(|here| PodProvisioner::new(here, ctx.run_id(), block)).transpose()?;
        let mut provisioned = Vec::new();
        for target in &targets {
            provisioned.push(provision(ctx, plan, target, pods.as_ref())?);
        }
        let root = Root::host();
        let mut readings = readings(ctx, &root)?;
        let mut probed = ProbeResults::new();
        if let Some(pods) = &pods {
            readings.extend(pods.readings(ctx)?);
            let (said, raw) = pods.probe(ctx, &nodes_to_probe(pods.node(), &provisioned))?;
            probed = said;
            readings.extend(raw);
        }
        let facts = assay_host::facts(&root);
        let calibration = calibration::find(ctx, plan, &facts, pods.is_some())?;
        let calibration = calibration.map(|found| {
            readings.extend(found.readings);
            found.fact
        });
        let shards = if parameters.shards { count_shards(ctx, plan, &facts, pods.as_ref(), &provisioned)? } else { None };
        // Observations on this machine are about the target only if it runs here.
        let is_target = here.as_ref().is_none_or(|here| provisioned.iter().any(|found| found.hosts.contains(&here.place.node)));
        let observed = match &here {
            None => assay_host::controls(&facts),
            Some(here) => common_controls(target_nodes(&provisioned).map(|node| {
                let said = probed.get(node).and_then(|said| said.as_ref().ok()).map(|said| &said.facts);
                (node, if node == here.place.node { Some(&facts) } else { said })
            })),
        };
        let elsewhere = || probed.values().flatten().next().map(|said| said.software.clone()).unwrap_or_default();
        Ok(Environment {
            plan_digest,
            block,
            observed_at: ctx.clock().now(),
            controls: controls(&plan.controls, &observed),
            software: if is_target { assay_host::software(&root) } else { elsewhere() },
            hosts: match &here {
                None => hosts(facts, &targets),
                Some(here) => hosts_of_cluster(facts, &here.place.node, &provisioned, &targets, probed),
            },
            placement: {
                let mut placement = placement(&targets, here.as_ref(), &provisioned);
                placement.extend(pods.iter().flat_map(PodProvisioner::identities));
                placement
                    .extend(pods.iter().flat_map(|pods| node_labels::label_facts(&pods.cluster, target_nodes(&provisioned))));
                placement
            },
            targets: provisioned,
            shards,
            calibration,
            readings,
        })
    }
}

/// Prints the facts of this machine. The entry point of a probe's pod.
pub fn facts() -> std::process::ExitCode {
    match hardware::print_facts() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(_) => std::process::ExitCode::FAILURE,
    }
}

/// Prints how much load a shard on this machine can make, unless its fingerprint is one of the known ones. The entry point of a
/// probe's pod.
pub fn ceiling(known: impl Iterator<Item = String>) -> std::process::ExitCode {
    let known: Vec<_> = known.filter_map(|digest| digest.parse().ok()).collect();
    match ceiling::print_ceiling(&known) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "error: {failure}");
            std::process::ExitCode::from(failure.exit.code())
        }
    }
}

/// Returns how many shards make each trial of the run; `None` if the run offers no load.
fn count_shards(
    ctx: &Context,
    plan: &Plan,
    facts: &HostFacts,
    pods: Option<&PodProvisioner>,
    provisioned: &[ProvisionedTarget],
) -> Result<Option<ShardCount>, Failure> {
    let requested = assay_schedule::requested_load(plan);
    if requested.is_empty() {
        return Ok(None);
    }
    if let Some(workload) = shards::one_shard_only(plan) {
        return Ok(Some(shards::one(requested, workload)));
    }
    let load = pods.map(|pods| (pods, pods.here.load.as_ref()));
    let has_whole_cpu = match load {
        None => facts.cgroup_cpu_millis.value.is_none_or(|millis| millis.0 >= 1000),
        Some((_, load)) => load.is_none_or(LoadPod::has_whole_cpu),
    };
    let ceiling = match load {
        _ if has_whole_cpu && shards::is_small(&requested) => None,
        None => Some(ceiling::local_ceiling(ctx, facts)?),
        Some((pods, Some(load))) => {
            let serving = provisioned.iter().filter(|found| !found.pods.is_empty());
            let serving: BTreeSet<&String> = serving.flat_map(|found| &found.hosts).collect();
            Some(pods.probe_ceiling(ctx, load, &serving.into_iter().cloned().collect::<Vec<_>>())?)
        }
        Some((_, None)) => Some(Fact::unknown("the driver does not say how load is placed")),
    };
    Ok(Some(shards::for_programs(plan, shards::count(requested, ceiling)?)))
}

/// Returns the hosts of the targets, each once.
fn target_nodes(provisioned: &[ProvisionedTarget]) -> impl Iterator<Item = &str> {
    provisioned.iter().flat_map(|found| &found.hosts).map(String::as_str).collect::<BTreeSet<_>>().into_iter()
}

/// Stores the raw report of the GPU driver. If there is none, the facts say why.
fn readings(ctx: &Context, root: &Root) -> Result<Vec<Artifact>, Failure> {
    let Ok(report) = assay_host::gpu_report(root) else { return Ok(Vec::new()) };
    Ok(vec![ctx.put("readings/nvidia-smi.csv", "text/csv", report.as_bytes())?])
}

/// Returns the targets of the block's trials.
fn block_targets(plan: &Plan, block: u32) -> Result<Vec<&Target>, Failure> {
    let names: BTreeSet<&Name> = plan
        .trials
        .iter()
        .filter(|trial| trial.block == block)
        .filter_map(|trial| Some(&plan.case(&trial.case_id)?.target))
        .collect();
    if names.is_empty() {
        return Err(Failure::new(ErrorCode::NoSuchBlock, format!("the plan has no trial in block {block}")));
    }
    let target =
        |name| plan.target(name).ok_or_else(|| Failure::new(ErrorCode::Plan, format!("the plan has no target `{name}`")));
    names.into_iter().map(target).collect()
}

fn provision(ctx: &Context, plan: &Plan, target: &Target, pods: Option<&PodProvisioner>) -> Result<ProvisionedTarget, Failure> {
    let ready = target.ready_http.as_deref();
    check_socket(target, pods.is_some())?;
    let mut brought_up = match (target.kind, pods) {
        (TargetKind::Process | TargetKind::Simulator, Some(pods)) => Some(pods.bring_up(ctx, plan, target)?),
        (TargetKind::Objects, Some(pods)) => Some(pods.bring_up_objects(ctx, target)?),
        (TargetKind::InferenceService, Some(pods)) => Some(pods.find_service(ctx, target)?),
        (TargetKind::Endpoint, Some(pods)) => pods.find_endpoint_pods(ctx, target)?,
        _ => None,
    };
    let found = match (target.kind, &brought_up) {
        (TargetKind::Host, _) => TargetProperties::without_query(target),
        (TargetKind::Endpoint, _) => TargetProperties::query(ctx, plan, target, target_address(target)?, ready, None)?,
        (TargetKind::Process, None) => {
            let file = target_end::end_file(ctx, target);
            let request = hold_request(target, target.command.clone(), &file, &execution::pid_file(ctx, target))?;
            let address = assay_load::listen_address(&target_address(target)?);
            ctx.emit(Event::Hold(HoldRequest { address, ..request }));
            let end = TargetEnd::from_file(target.name.as_str(), &file);
            TargetProperties::query(ctx, plan, target, target_address(target)?, ready, Some(&end))?
        }
        (TargetKind::Simulator, None) => {
            let file = target_end::end_file(ctx, target);
            let end = TargetEnd::from_file(target.name.as_str(), &file);
            let address = simulator::start(ctx, plan, target, &end, |command| {
                Ok(Event::Hold(hold_request(target, command, &file, &execution::pid_file(ctx, target))?))
            })?;
            TargetProperties::query(ctx, plan, target, address, ready.or(Some(simulator::READY_PATH)), Some(&end))?
        }
        (TargetKind::Objects | TargetKind::InferenceService, None) => return Err(only_in_a_cluster(target)),
        (kind, Some(up)) => {
            let end = up.is_ours.then(|| TargetEnd::from_pods(target, up.clone()));
            let ready = if kind == TargetKind::Simulator { ready.or(Some(simulator::READY_PATH)) } else { ready };
            TargetProperties::query(ctx, plan, target, up.address.clone(), ready, end.as_ref())?
        }
    };
    if let (Some(pods), Some(up)) = (pods, &mut brought_up) {
        pods.update_pods(target, up)?;
    }
    let mut execution = match (target.kind, pods) {
        (TargetKind::Process | TargetKind::Simulator, None) => execution::observe(ctx, target)?,
        _ => Execution::default(),
    };
    execution.executables.extend(execution::artifacts(target, &mut FileDigests::default()));
    let replicas = replicas::find(ctx, target, brought_up.as_ref())?;
    replicas::check_caches(plan, target, brought_up.as_ref().map_or(0, |up| up.pods.len()), &replicas)?;
    let nodes: Vec<String> = brought_up.iter().flat_map(pods::RunningTarget::nodes).collect();
    let hosts = match (target.kind, pods) {
        _ if !nodes.is_empty() => nodes,
        (TargetKind::Endpoint | TargetKind::InferenceService, _) => vec![target.name.to_string()],
        (_, Some(pods)) => vec![pods.node().to_owned()],
        (_, None) => vec![LOCAL.to_owned()],
    };
    let planned = target.image.as_ref().map(|image| Image { reference: image.reference.clone(), digest: image.digest });
    Ok(ProvisionedTarget {
        id: target.name.clone(),
        kind: target.kind,
        hosts,
        address: found.address,
        version: found.version,
        server: found.server,
        models: found.models,
        process_start_s: found.process_start_s,
        cache_block_tokens: found.cache_block_tokens,
        replicas,
        image: brought_up.as_ref().and_then(pods::RunningTarget::image).or(planned),
        pods: brought_up.as_ref().map(|up| up.pods.clone()).unwrap_or_default(),
        pod_selector: brought_up.as_ref().map(|up| up.selector.clone()),
        settings: brought_up.map(|up| up.settings).unwrap_or_default(),
        executables: execution.executables,
        allowed_cpus: execution.allowed_cpus,
        core_cpus: execution.core_cpus,
        probes: found.probes,
    })
}

/// Refuses a Unix socket in a cluster: the pods of a run have file systems of their own, in which there is none.
fn check_socket(target: &Target, is_in_pod: bool) -> Result<(), Failure> {
    match target.url.as_deref().filter(|url| is_in_pod && assay_load::split_unix_url(url).is_some()) {
        Some(url) => {
            let message =
                format!("target `{}` is at the Unix socket `{url}`, which the pods of this run cannot reach", target.name);
            Err(Failure::new(ErrorCode::TargetUrl, message)
                .hint("write an address with a host and a port, or run on the machine of the server"))
        }
        None => Ok(()),
    }
}

fn only_in_a_cluster(target: &Target) -> Failure {
    Failure::new(ErrorCode::TargetKind, format!("target `{}` of `kind: {}` is there in a cluster only", target.name, target.kind))
        .hint("run the pipeline with `--on kubernetes`")
}

/// The observed properties of a target.
struct TargetProperties {
    address: Option<String>,
    version: Fact<String>,
    server: Option<Fact<String>>,
    models: Vec<String>,
    process_start_s: Option<Count>,
    cache_block_tokens: Option<u32>,
    probes: Vec<Probe>,
}

impl TargetProperties {
    /// Describes a target that cannot be queried.
    fn without_query(target: &Target) -> Self {
        let version = Fact::unknown(format!("a target of kind `{}` gives no version", target.kind));
        Self {
            address: target.url.clone(),
            version,
            server: None,
            models: Vec::new(),
            process_start_s: None,
            cache_block_tokens: None,
            probes: Vec::new(),
        }
    }

    /// Waits until the target is ready, then queries its properties, and sends an endpoint one request of each kind that the run
    /// will send. It fails if the target lists models but not the plan's, if it refuses such a request, and if it is held and ends.
    fn query(
        ctx: &Context,
        plan: &Plan,
        target: &Target,
        address: String,
        ready: Option<&str>,
        end: Option<&TargetEnd>,
    ) -> Result<Self, Failure> {
        let client = target_client(target)?;
        if target.insecure_skip_tls_verify {
            let message = format!("the TLS certificate of the target `{}` is not verified", target.name);
            ctx.emit(Event::Note { message });
        }
        let probe = ready::wait(ctx.clock(), ctx.cancel(), &client, target, &address, ready, end)?;
        check_listener(target, &address, end)?;
        let identity = Identity::query(&client, &address);
        models::check(target, &models::requested_models(plan, target), &identity)?;
        let mut probes = vec![probe];
        if matches!(target.kind, TargetKind::Endpoint | TargetKind::InferenceService) {
            probes.extend(test_request::send_all(ctx, plan, target, &client, &address, &identity)?);
        }
        let models = identity.listed_models().to_vec();
        let server = Some(identity.server);
        let process_start_s = identity.process_start_s.map(Count);
        let cache_block_tokens = identity.cache_block_tokens;
        Ok(Self {
            address: Some(address),
            version: identity.version,
            server,
            models,
            process_start_s,
            cache_block_tokens,
            probes,
        })
    }
}

/// Fails if a process that the run did not start listens at the address of a target that it did start: it may have taken the address while the
/// target's own server was loading.
fn check_listener(target: &Target, address: &str, end: Option<&TargetEnd>) -> Result<(), Failure> {
    if end.is_none_or(|end| !end.is_of_process()) {
        return Ok(());
    }
    let Some(other) = assay_load::listen_address(address).and_then(|address| assay_host::other_listener(&address)) else {
        return Ok(());
    };
    let message = format!("{other} listens at the address of target `{}`, and is not of it", target.name);
    Err(Failure::new(ErrorCode::TargetAddressTaken, message).hint(
        "stop that process or choose another address; a server that another program starts is a target of `kind: endpoint`",
    ))
}

fn target_address(target: &Target) -> Result<String, Failure> {
    let nowhere =
        || Failure::new(ErrorCode::TargetUrl, format!("target `{}` has no address at which it could be asked", target.name));
    target.url.clone().ok_or_else(nowhere)
}

fn target_client(target: &Target) -> Result<Client, Failure> {
    Client::for_target(target).map_err(|error| {
        let failure = Failure::new(ErrorCode::SecretAbsent, error.headline(&format!("target `{}`", target.name))).because(&error);
        failure.hint_if(error.hint())
    })
}

/// Builds the request to the runner to hold a target for the following stages.
fn hold_request(target: &Target, command: Vec<String>, end_file: &Path, pid_file: &Path) -> Result<HoldRequest, Failure> {
    let pick = |of: fn(&EnvVar) -> Option<&String>| -> BTreeMap<String, String> {
        target.env.iter().filter_map(|variable| Some((variable.name.clone(), of(variable)?.clone()))).collect()
    };
    Ok(HoldRequest {
        target: target.name.to_string(),
        command,
        env: pick(|variable| variable.value.as_ref()),
        env_from: pick(|variable| variable.from_env.as_ref()),
        env_files: pick(|variable| variable.from_file.as_ref()),
        end_file: path_text(end_file)?,
        pid_file: path_text(pid_file)?,
        address: None,
        cpus: target.cpus.clone(),
    })
}

/// Returns a path as text, which an event can carry.
fn path_text(path: &Path) -> Result<String, Failure> {
    let unusable = || Failure::new(ErrorCode::Path, format!("the path `{}` is not UTF-8", path.display()));
    path.to_str().map(str::to_owned).ok_or_else(unusable)
}

/// Returns this machine, and one host for every endpoint: an endpoint's hardware is unknown until it is declared or probed.
fn hosts(mut facts: HostFacts, targets: &[&Target]) -> Vec<Host> {
    let is_local = |target: &&&Target| target.kind != TargetKind::Endpoint;
    let mut roles = vec![HostRole::Client, HostRole::Stage];
    let local: Vec<_> = targets.iter().filter(is_local).collect();
    if !local.is_empty() {
        roles.insert(0, HostRole::Target);
    }
    for target in &local {
        declare(&mut facts, target);
    }
    let mut hosts = vec![Host { name: LOCAL.to_owned(), roles, facts }];
    for target in targets.iter().filter(|target| target.kind == TargetKind::Endpoint) {
        let mut facts = HostFacts::unknown("the machine behind an endpoint was neither probed nor declared");
        declare(&mut facts, target);
        hosts.push(Host { name: target.name.to_string(), roles: vec![HostRole::Target], facts });
    }
    hosts
}

/// Returns the node that this stage runs on, those of the targets, and the load, which is placed when execute starts. The facts
/// of other nodes come from probes.
fn hosts_of_cluster(
    facts: HostFacts,
    node: &str,
    provisioned: &[ProvisionedTarget],
    targets: &[&Target],
    mut probed: ProbeResults,
) -> Vec<Host> {
    let mut hosts: Vec<Host> = vec![Host { name: node.to_owned(), roles: vec![HostRole::Stage], facts }];
    for (found, target) in provisioned.iter().zip(targets) {
        for name in &found.hosts {
            if let Some(host) = hosts.iter_mut().find(|host| host.name == *name) {
                if !host.roles.contains(&HostRole::Target) {
                    host.roles.insert(0, HostRole::Target);
                }
                declare(&mut host.facts, target);
                continue;
            }
            let mut facts = match probed.remove(name) {
                Some(Ok(said)) => said.facts,
                Some(Err(why)) => HostFacts::unknown(&why),
                None => HostFacts::unknown("another node than the one that asked was neither probed nor declared"),
            };
            declare(&mut facts, target);
            hosts.push(Host { name: name.clone(), roles: vec![HostRole::Target], facts });
        }
    }
    let load = HostFacts::unknown("load pods are placed when execute starts");
    hosts.push(Host { name: "load".to_owned(), roles: vec![HostRole::Client], facts: load });
    hosts
}

/// Fills in the pipeline's declarations for facts that were not observed; observations take precedence.
fn declare(facts: &mut HostFacts, target: &Target) {
    let how = format!("target `{}` of the pipeline", target.name);
    let text = |fact: &mut Fact<String>, name: &str| {
        if let (None, Some(value)) = (&fact.value, target.hardware.get(name)) {
            *fact = Fact::declared(value.clone(), &how);
        }
    };
    text(&mut facts.cpu_model, "cpu_model");
    text(&mut facts.cpu_vendor, "cpu_vendor");
    text(&mut facts.architecture, "architecture");
    text(&mut facts.virtualization, "virtualization");
    text(&mut facts.operating_system, "operating_system");
    if let (None, Some(bytes)) =
        (&facts.memory_bytes.value, target.hardware.get("memory_bytes").and_then(|text| text.parse().ok()))
    {
        facts.memory_bytes = Fact::declared(Count(bytes), &how);
    }
}

/// Returns all declarations of the targets' hardware, by target and name; in a cluster also the node of each pod.
fn placement(targets: &[&Target], here: Option<&PodEnvironment>, provisioned: &[ProvisionedTarget]) -> BTreeMap<String, String> {
    let declared = targets.iter().flat_map(|target| {
        target.hardware.iter().map(|(name, value)| (format!("declared/{}/{name}", target.name), value.clone()))
    });
    let mut placement: BTreeMap<String, String> = declared.collect();
    let Some(here) = here else {
        placement.insert("cluster".to_owned(), LOCAL.to_owned());
        return placement;
    };
    placement.insert("cluster".to_owned(), "kubernetes".to_owned());
    placement.insert("namespace".to_owned(), here.namespace.clone());
    placement.insert("image".to_owned(), here.image.clone());
    let held = provisioned.iter().filter(|found| !found.pods.is_empty());
    placement.extend(held.flat_map(|found| number_facts("node", found.id.as_str(), found.hosts.clone())));
    placement
}

/// Returns each control at its best known state: proved here, else declared in the pipeline, else absent with what was observed.
fn controls(declared: &[ControlFact], observed: &[ControlFact]) -> Vec<ControlFact> {
    let of = |facts: &[ControlFact], control: Control| facts.iter().find(|fact| fact.control == control).cloned();
    let best = |control: &Control| match (of(observed, *control), of(declared, *control)) {
        (Some(fact), _) if fact.state == ControlState::Proved => fact,
        (_, Some(fact)) if fact.state == ControlState::Declared => fact,
        (Some(fact), _) | (None, Some(fact)) => fact,
        (None, None) => ControlFact {
            control: *control,
            state: ControlState::Absent,
            evidence: "nothing was observed or declared".to_owned(),
        },
    };
    Control::ALL.iter().map(best).collect()
}

#[cfg(test)]
mod tests;
