//! The GPUs of a case's target: in all, and by the role that they have in serving.
//!
//! The limits of a target's pods come first, then the devices that its hosts show, then the declared numbers. A role is that of a pod, as its
//! labels say (`PodFacts::role`), else declared (`prefill_gpu_count` and `decode_gpu_count`).

use assay_manifest::{Case, Environment, Host, PodFacts, ProvisionedTarget, ServingRole};
use assay_metric::{GpuCounts, RoleGpus};

use crate::dimensions::GPU_RESOURCES;

/// Returns the GPUs of a case's target, or the reason why their number is not known.
pub(super) fn count(environments: &[&Environment], case: &Case) -> Result<GpuCounts, String> {
    let counts: Vec<GpuCounts> =
        environments.iter().filter_map(|environment| in_block(environment, case)).collect::<Result<_, _>>()?;
    match counts.as_slice() {
        [] => Err(format!("no environment tells of target `{}`", case.target)),
        [first, others @ ..] if others.iter().all(|other| other.all == first.all) => {
            let is_same = others.iter().all(|other| other.by_role == first.by_role);
            let differs = || Err("the roles of the target's GPUs differ between blocks".to_owned());
            Ok(GpuCounts { all: first.all, by_role: if is_same { first.by_role.clone() } else { differs() } })
        }
        _ => Err("the target's number of GPUs differs between blocks".to_owned()),
    }
}

/// Returns the GPUs of a case's target in one block. `None` if the block has no such target.
fn in_block(environment: &Environment, case: &Case) -> Option<Result<GpuCounts, String>> {
    let target = environment.targets.iter().find(|target| target.id == case.target)?;
    let declared = declared_roles(environment, target);
    let all = all(environment, target, declared);
    Some(all.map(|all| GpuCounts { all, by_role: by_role(target, declared, all) }))
}

fn all(environment: &Environment, target: &ProvisionedTarget, roles: Option<RoleGpus>) -> Result<u64, String> {
    let limits = target.pods.iter().map(pod_gpus).fold(0_u64, u64::saturating_add);
    if limits > 0 {
        return Ok(limits);
    }
    match on_hosts(environment, target) {
        // A probe sees no GPU that its container did not ask for, so that none on the nodes of pods is less than a declaration.
        Ok(gpus) if gpus > 0 || target.pods.is_empty() => Ok(gpus),
        seen => declared(environment, target, "gpu_count").or(roles.map(RoleGpus::sum)).map_or(seen, Ok),
    }
}

fn on_hosts(environment: &Environment, target: &ProvisionedTarget) -> Result<u64, String> {
    let of = |name: &String| environment.hosts.iter().find(|host| host.name == *name);
    let hosts: Vec<&Host> = target.hosts.iter().filter_map(of).collect();
    if hosts.is_empty() {
        return Err(format!("the hosts of target `{}` are not known", target.id));
    }
    let count = |host: &Host| match &host.facts.gpus.value {
        Some(gpus) => Ok(gpus.len() as u64),
        None => Err(format!(
            "the GPUs of `{}` are unknown ({}); declare `gpu_count` in the target's `hardware`",
            host.name, host.facts.gpus.how
        )),
    };
    hosts.into_iter().map(count).sum()
}

/// Returns the GPUs of each role, whose sum is `all`; or the reason why they are not known.
fn by_role(target: &ProvisionedTarget, declared: Option<RoleGpus>, all: u64) -> Result<RoleGpus, String> {
    let found = labelled_roles(&target.pods).or_else(|why| declared.ok_or(why))?;
    if found.sum() == all {
        return Ok(found);
    }
    let RoleGpus { prefill, decode } = found;
    Err(format!("{prefill} GPUs for prefill and {decode} for decode are declared, and the target has {all}"))
}

/// Counts the GPUs that the pods of each role may use.
fn labelled_roles(pods: &[PodFacts]) -> Result<RoleGpus, String> {
    let mut found = RoleGpus { prefill: 0, decode: 0 };
    for (pod, gpus) in pods.iter().map(|pod| (pod, pod_gpus(pod))).filter(|(_, gpus)| *gpus > 0) {
        let count = match pod.role {
            Some(ServingRole::Prefill) => &mut found.prefill,
            Some(ServingRole::Decode) => &mut found.decode,
            None => {
                return Err(format!(
                    "no label of the pod `{}` says that its GPUs are for prefill or for decode; {DECLARE}",
                    pod.name
                ));
            }
        };
        *count = count.saturating_add(gpus);
    }
    match found {
        RoleGpus { prefill: 0, decode: 0 } => Err(format!("the roles of its GPUs are unknown; {DECLARE}")),
        RoleGpus { prefill: 0, .. } => Err(format!("none of its pods that have GPUs is for prefill; {DECLARE}")),
        RoleGpus { decode: 0, .. } => Err(format!("none of its pods that have GPUs is for decode; {DECLARE}")),
        found => Ok(found),
    }
}

/// The remedy of a role that is not known.
const DECLARE: &str = "declare `prefill_gpu_count` and `decode_gpu_count` in the target's `hardware`";

/// Returns the GPUs that a pod may use.
fn pod_gpus(pod: &PodFacts) -> u64 {
    let limits = pod.containers.iter().flat_map(|container| &container.limits);
    let gpus = limits.filter(|(name, _)| GPU_RESOURCES.contains(&name.as_str()));
    gpus.filter_map(|(_, limit)| limit.parse::<u64>().ok()).fold(0, u64::saturating_add)
}

fn declared_roles(environment: &Environment, target: &ProvisionedTarget) -> Option<RoleGpus> {
    let [prefill, decode] = ["prefill_gpu_count", "decode_gpu_count"].map(|name| declared(environment, target, name));
    Some(RoleGpus { prefill: prefill.filter(|gpus| *gpus > 0)?, decode: decode.filter(|gpus| *gpus > 0)? })
}

fn declared(environment: &Environment, target: &ProvisionedTarget, name: &str) -> Option<u64> {
    environment.placement.get(&format!("declared/{}/{name}", target.id))?.parse().ok()
}

#[cfg(test)]
mod tests;
