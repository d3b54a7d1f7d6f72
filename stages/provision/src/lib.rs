//! Provision: brings the targets of a block up, or proves that they are there, and records what they run on.

mod end;
mod models;
mod ready;
mod simulator;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use assay_host::Root;
use assay_manifest::{
    Artifact, Block, Control, ControlFact, ControlState, Count, EnvVar, Environment, Fact, Host, HostFacts, HostRole, Image,
    Name, Plan, Probe, ProvisionedTarget, Target, TargetKind,
};
use assay_probe::{Client, Headers, Identity};
use assay_stage::{Context, Event, Failure, HoldRequest, Inputs, Stage, StageName};
use serde::{Deserialize, Serialize};

use crate::end::End;

/// What the machine that a stage runs on is called.
const LOCAL: &str = "local";

/// Which block to provision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// The block's place in the run.
    pub block: u32,
    /// How often the block was provisioned anew.
    pub incarnation: u32,
}

/// The provision stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Provision;

impl Stage for Provision {
    type Parameters = Parameters;
    type Output = Environment;
    const NAME: StageName = StageName::Provision;

    fn run(&self, inputs: &Inputs, parameters: &Parameters, ctx: &Context) -> Result<Environment, Failure> {
        let (plan, plan_digest) = inputs.plan()?;
        let block = Block { index: parameters.block, incarnation: parameters.incarnation };
        let targets = targets_of(plan, block.index)?;
        let provisioned = targets.iter().map(|target| provision(ctx, plan, target)).collect::<Result<Vec<_>, _>>()?;
        let root = Root::host();
        let facts = assay_host::facts(&root);
        Ok(Environment {
            plan_digest,
            block,
            observed_at: ctx.clock().now(),
            controls: controls(&plan.controls, &assay_host::controls(&facts)),
            software: assay_host::software(&root),
            hosts: hosts(facts, &targets),
            targets: provisioned,
            placement: placement(&targets),
            pricing: plan.pricing.clone(),
            readings: readings(ctx, &root)?,
        })
    }
}

/// What the driver said, kept raw. Where it said nothing, the facts tell why.
fn readings(ctx: &Context, root: &Root) -> Result<Vec<Artifact>, Failure> {
    let Ok(report) = assay_host::gpu_report(root) else { return Ok(Vec::new()) };
    Ok(vec![ctx.put("readings/nvidia-smi.csv", "text/csv", report.as_bytes())?])
}

/// The targets that the block's trials are on.
fn targets_of(plan: &Plan, block: u32) -> Result<Vec<&Target>, Failure> {
    let names: BTreeSet<&Name> = plan
        .trials
        .iter()
        .filter(|trial| trial.block == block)
        .filter_map(|trial| Some(&plan.case(&trial.case_id)?.target))
        .collect();
    if names.is_empty() {
        return Err(Failure::usage("no_such_block", format!("the plan has no trial in block {block}")));
    }
    let target =
        |name| plan.target(name).ok_or_else(|| Failure::verification("plan", format!("the plan has no target `{name}`")));
    names.into_iter().map(target).collect()
}

fn provision(ctx: &Context, plan: &Plan, target: &Target) -> Result<ProvisionedTarget, Failure> {
    let found = match target.kind {
        TargetKind::Host => Found::unasked(target),
        TargetKind::Endpoint => Found::ask(ctx, plan, target, address_of(target)?, target.ready_http.as_deref(), None)?,
        TargetKind::Process => {
            let end = End::of(ctx, target);
            ctx.emit(Event::Hold(hold(target, target.command.clone(), &end)?));
            Found::ask(ctx, plan, target, address_of(target)?, target.ready_http.as_deref(), Some(&end))?
        }
        TargetKind::Simulator => {
            let end = End::of(ctx, target);
            let address = simulator::start(ctx, plan, target, &end, |command| Ok(Event::Hold(hold(target, command, &end)?)))?;
            let ready = target.ready_http.as_deref().or(Some(simulator::READY_PATH));
            Found::ask(ctx, plan, target, address, ready, Some(&end))?
        }
    };
    let host = if target.kind == TargetKind::Endpoint { target.name.to_string() } else { LOCAL.to_owned() };
    let image = target.image.as_ref().map(|image| Image { reference: image.reference.clone(), digest: image.digest });
    Ok(ProvisionedTarget {
        id: target.name.clone(),
        kind: target.kind,
        hosts: vec![host],
        address: found.address,
        version: found.version,
        models: found.models,
        image,
        probes: found.probes,
    })
}

/// What was found of a target.
struct Found {
    address: Option<String>,
    version: Fact<String>,
    models: Vec<String>,
    probes: Vec<Probe>,
}

impl Found {
    /// A target that nobody asks anything.
    fn unasked(target: &Target) -> Self {
        let version = Fact::unknown(format!("a target of kind `{}` gives no version", target.kind));
        Self { address: target.url.clone(), version, models: Vec::new(), probes: Vec::new() }
    }

    /// Waits until the target is ready, then asks what it is. It fails where the target lists its models and not the plan's, and
    /// where it is held and ends.
    fn ask(
        ctx: &Context,
        plan: &Plan,
        target: &Target,
        address: String,
        ready: Option<&str>,
        end: Option<&End>,
    ) -> Result<Self, Failure> {
        let client = Client::new(headers_of(target)?);
        let probe = ready::wait(ctx.clock(), ctx.cancel(), &client, target, &address, ready, end)?;
        let identity = Identity::ask(&client, &address);
        models::check(target, &models::asked_of(plan, target), &identity)?;
        let models = identity.listed().to_vec();
        Ok(Self { address: Some(address), version: identity.version, models, probes: vec![probe] })
    }
}

fn address_of(target: &Target) -> Result<String, Failure> {
    let nowhere =
        || Failure::definition("target_url", format!("target `{}` has no address at which it could be asked", target.name));
    target.url.clone().ok_or_else(nowhere)
}

fn headers_of(target: &Target) -> Result<Headers, Failure> {
    Headers::read(&target.headers).map_err(|error| {
        Failure::environment("secret_absent", format!("the headers of target `{}` cannot be sent", target.name))
            .because(&error)
            .lasting()
    })
}

/// What the runner holds for the following stages.
fn hold(target: &Target, command: Vec<String>, end: &End) -> Result<HoldRequest, Failure> {
    let pick = |of: fn(&EnvVar) -> Option<&String>| -> BTreeMap<String, String> {
        target.env.iter().filter_map(|variable| Some((variable.name.clone(), of(variable)?.clone()))).collect()
    };
    Ok(HoldRequest {
        target: target.name.to_string(),
        command,
        env: pick(|variable| variable.value.as_ref()),
        env_from: pick(|variable| variable.from_env.as_ref()),
        env_files: pick(|variable| variable.from_file.as_ref()),
        end_file: path_text(end.file())?,
    })
}

/// A path as an event can carry it.
fn path_text(path: &Path) -> Result<String, Failure> {
    let unusable = || Failure::environment("path", format!("the path `{}` is not UTF-8", path.display()));
    path.to_str().map(str::to_owned).ok_or_else(unusable)
}

/// This machine, and one host for every endpoint: its hardware is unknown until somebody declares or probes it.
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

/// Fills in what a person declares where nothing was observed; what was observed stands.
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

/// Everything that is declared of the targets' hardware, by target and name.
fn placement(targets: &[&Target]) -> BTreeMap<String, String> {
    let declared = targets.iter().flat_map(|target| {
        target.hardware.iter().map(|(name, value)| (format!("declared/{}/{name}", target.name), value.clone()))
    });
    declared.chain([("cluster".to_owned(), LOCAL.to_owned())]).collect()
}

/// Each control, as well as it is known: proved here, else declared in the pipeline, else absent with what was seen.
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
