//! InferenceServices of a cluster: waits until one is ready, and records its state. A service belongs to its owner, so it is only
//! read.

use std::time::Duration;

use assay_cluster::{ObjectPath, Refusal, inference_api, inference_kind, inference_pods, read_service};
use assay_manifest::{InferenceService, PodSelector, Target};
use assay_stage::{Context, ErrorCode, Failure};
use serde_json::Value;

use crate::pods::{PodProvisioner, RunningTarget, TargetState};
use crate::replicas::PodReach;

/// The polling interval of a service: it becomes ready in minutes.
const LOOK: Duration = Duration::from_secs(1);

impl PodProvisioner<'_> {
    /// Waits until the target's InferenceService reports that it is ready.
    pub(crate) fn find_service(&self, ctx: &Context, target: &Target) -> Result<RunningTarget, Failure> {
        let none = || Failure::new(ErrorCode::Plan, format!("target `{}` names no InferenceService", target.name));
        let named = target.inference_service.as_ref().ok_or_else(none)?;
        let watch = ctx.clock().start();
        let (object, served) = loop {
            let object = self.service(target, named)?;
            let why = match read_service(&object) {
                Ok(served) => break (object, served),
                Err(why) => why,
            };
            if watch.elapsed_ns() >= target.ready_timeout_ns.0 {
                let limit = Duration::from_nanos(target.ready_timeout_ns.0);
                let message =
                    format!("the {} of target `{}` was not ready after {limit:?}: {why}", describe_service(named), target.name);
                return Err(Failure::new(ErrorCode::TargetNotReady, message)
                    .hint("`kubectl describe` tells more of it; `ready.timeout` gives it more time"));
            }
            if ctx.cancel().wait_timeout(LOOK) {
                ctx.check_cancelled()?;
            }
        };
        let labels = inference_pods(named.api, &named.name);
        let selector = PodSelector { namespace: named.namespace.clone(), labels };
        let pods = self.cluster.target_pods(&selector).map_err(|error| add_right_hint(error, named))?;
        let address = format!("{}{}", served.address, named.path.as_deref().unwrap_or_default());
        let seen = TargetState { target: target.name.to_string(), is_ours: false, pods, objects: vec![object] };
        let mut found = self.record_target(selector, (address, PodReach::Inference(named.api)), seen);
        found.settings = served.settings;
        Ok(found)
    }

    fn service(&self, target: &Target, named: &InferenceService) -> Result<Value, Failure> {
        let place = ObjectPath::named(inference_kind(named.api), &named.namespace, &named.name);
        if let Some(object) = self.cluster.get(&place).map_err(|error| add_right_hint(error, named))? {
            return Ok(object);
        }
        let version = inference_api(named.api);
        if !self.cluster.has_api(version)? {
            let message = format!("target `{}` is of `{version}`, which this cluster does not have", target.name);
            return Err(Failure::new(ErrorCode::NoSuchApi, message)
                .hint("is it `kserve`, `kserve_llm` or `ome`, and is it installed there?"));
        }
        let message = format!("there is no {}, which target `{}` is", describe_service(named), target.name);
        Err(Failure::new(ErrorCode::NoSuchService, message).hint("its owner brings it up; a run only finds it"))
    }
}

fn describe_service(named: &InferenceService) -> String {
    let kind = inference_kind(named.api).split('.').next().unwrap_or_default();
    format!("{kind} `{}` in namespace `{}`", named.name, named.namespace)
}

/// Adds a hint to a missing right: the administrator decides what a run may read in a namespace that is not Assay's.
fn add_right_hint(error: assay_cluster::Error, named: &InferenceService) -> Failure {
    if error.refusal() != Some(Refusal::Forbidden) {
        return error.into();
    }
    let namespace = &named.namespace;
    Failure::from(error).hint(format!(
        "`--serving-namespace {namespace}` of `assay bootstrap` or `assay render kubernetes` gives provision the right to read it, and execute to list its pods"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_manifest::InferenceApi;

    #[test]
    fn a_missing_right_names_the_option_that_gives_it() {
        let named =
            InferenceService { api: InferenceApi::Kserve, name: "llama".to_owned(), namespace: "serving".to_owned(), path: None };
        let refused = |refusal: Refusal| assay_cluster::Error::Refused { refusal, message: "services".to_owned() };
        insta::assert_snapshot!(add_right_hint(refused(Refusal::Forbidden), &named), @r"
        error[forbidden]: the API server denies the request: services

        hint: `--serving-namespace serving` of `assay bootstrap` or `assay render kubernetes` gives provision the right to read it, and execute to list its pods
        ");
        assert_eq!(add_right_hint(refused(Refusal::Quota), &named), Failure::from(refused(Refusal::Quota)));
    }
}
