//! Pod overrides for tests: only the reader of pipelines makes one.

use assay_manifest::Role;
use assay_spec::{Pipeline, PodOverride, Problem};

/// Parses the override of a pipeline whose stage of this role has these members of `pod`.
pub(crate) fn parse_stage_override(role: Role, pod: &str) -> Result<PodOverride, Vec<Problem>> {
    let stage =
        |known: Role| if known == role { format!("{{name: {known}, pod: {{{pod}}}}}") } else { format!("{{name: {known}}}") };
    let text = format!(
        "apiVersion: assay.dev/v1alpha1\nkind: Pipeline\nmetadata: {{name: p}}\nspec:\n  workloads: [w]\n  targets: [{{name: h, kind: host}}]\n  stages: [{}]\n",
        Role::STAGES.map(stage).join(", ")
    );
    let pipeline = Pipeline::parse("pipeline.yaml", text.as_bytes())?;
    Ok(pipeline.spec.stages.into_iter().find(|stage| stage.role == role).map(|stage| stage.pod).unwrap_or_default())
}
