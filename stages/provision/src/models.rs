//! Comparison of the models that a target serves with those that the plan requests.

use std::collections::BTreeSet;

use assay_manifest::{Plan, ServingWork, Target};
use assay_probe::Identity;
use assay_stage::{ErrorCode, Failure, first_names};

/// The most models that a message names.
const SHOWN: usize = 10;

/// Returns the serving work of the plan for a target, in any block: a target must not depend on the block.
fn works<'a>(plan: &'a Plan, target: &Target) -> impl Iterator<Item = &'a ServingWork> {
    let cases = plan.cases.iter().filter(|case| case.target == target.name);
    cases.filter_map(|case| plan.workload(&case.workload)?.serving.as_ref())
}

/// Returns the models and adapters that the plan's workloads request from a target.
pub(crate) fn requested_models<'a>(plan: &'a Plan, target: &Target) -> BTreeSet<&'a str> {
    works(plan, target).flat_map(ServingWork::requested_models).collect()
}

/// Returns the models of the plan's workloads on a target, whether requests name them or adapters of theirs.
pub(crate) fn base_models<'a>(plan: &'a Plan, target: &Target) -> BTreeSet<&'a str> {
    works(plan, target).map(|work| work.model.as_str()).collect()
}

/// Returns the adapters that the plan's workloads request from a target, without names that are those of models.
pub(crate) fn requested_adapters<'a>(plan: &'a Plan, target: &Target) -> BTreeSet<&'a str> {
    let models = base_models(plan, target);
    let named = works(plan, target).flat_map(|work| &work.adapters).map(|adapter| adapter.name.as_str());
    named.filter(|name| !models.contains(name)).collect()
}

/// Fails if the target lists its models and one that the plan requests is missing. It is a failure of the environment: the
/// definition is sound, and another start of the endpoint may serve the model. It is lasting: an endpoint that is ready has
/// loaded its models.
pub(crate) fn check(target: &Target, asked: &BTreeSet<&str>, identity: &Identity) -> Result<(), Failure> {
    let Ok(listed) = &identity.models else { return Ok(()) };
    let Some(missing) = asked.iter().find(|model| !listed.iter().any(|name| name == *model)) else { return Ok(()) };
    let message = format!("target `{}` does not serve the model `{missing}`: it lists {}", target.name, list_models(listed));
    Err(Failure::new(ErrorCode::ModelNotServed, message).hint(
        "write one of the listed names as the workload's `model` or adapter, or start the endpoint with that name (vLLM: `--served-model-name`, `--lora-modules`)",
    ))
}

/// Lists models for people, at most ten of them.
pub(crate) fn list_models(models: &[String]) -> String {
    let names: Vec<_> = models.iter().map(|model| format!("`{model}`")).collect();
    if names.is_empty() { "no model".to_owned() } else { first_names(&names, SHOWN) }
}

#[cfg(test)]
mod tests;
