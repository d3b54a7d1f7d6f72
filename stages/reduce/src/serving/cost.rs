//! The cost of a second of the measured system: the price of a GPU for an hour, times the GPUs that it runs on.

use assay_manifest::{Case, Environment, Host, Plan, ProvisionedTarget};

/// The price of the measured system.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Price {
    /// One GPU for one hour.
    pub(super) gpu_hour: f64,
    /// The number of GPUs.
    pub(super) gpus: u64,
    /// ISO 4217 code.
    pub(super) currency: String,
}

impl Price {
    /// Returns the price of one second.
    pub(super) fn per_second(&self) -> f64 {
        self.gpu_hour * self.gpus as f64 / 3600.0
    }
}

/// Returns the price of a case's target, or the reason why there is none.
pub(super) fn price(plan: &Plan, gpus: &Result<u64, String>) -> Result<Price, String> {
    let pricing = plan.pricing.as_ref().ok_or("the pipeline states no price")?;
    match gpus.clone()? {
        0 => Err("the price is that of a GPU, and the target has none".to_owned()),
        gpus => Ok(Price { gpu_hour: pricing.gpu_hour, gpus, currency: pricing.currency.clone() }),
    }
}

/// Returns the number of GPUs of a case's target, or the reason why it is not known.
pub(super) fn gpu_count(environments: &[&Environment], case: &Case) -> Result<u64, String> {
    let counts: Vec<u64> = environments.iter().filter_map(|environment| gpus(environment, case)).collect::<Result<_, _>>()?;
    match counts.as_slice() {
        [] => Err(format!("no environment tells of target `{}`", case.target)),
        [gpus, others @ ..] if others.iter().all(|other| other == gpus) => Ok(*gpus),
        _ => Err("the target's number of GPUs differs between blocks".to_owned()),
    }
}

/// Returns the number of GPUs of a case's target in one block: observed on all of its hosts, otherwise declared. `None` if the
/// block has no such target.
fn gpus(environment: &Environment, case: &Case) -> Option<Result<u64, String>> {
    let target = environment.targets.iter().find(|target| target.id == case.target)?;
    Some(observed(environment, target).or_else(|why| declared(environment, target).ok_or(why)))
}

fn observed(environment: &Environment, target: &ProvisionedTarget) -> Result<u64, String> {
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

fn declared(environment: &Environment, target: &ProvisionedTarget) -> Option<u64> {
    environment.placement.get(&format!("declared/{}/gpu_count", target.id))?.parse().ok()
}
