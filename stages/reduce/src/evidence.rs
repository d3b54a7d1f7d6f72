//! The raw evidence, read back: attempts with the values that their scripts printed.

use std::collections::BTreeMap;

use assay_indicator::{Output, Value};
use assay_manifest::{
    Attempt, Body as _, CollectedAttempt, Collection, Digest, Document, ExecutionPart, MAX_MANIFEST_BYTES, Manifest, Plan,
    PlannedTrial,
};
use assay_stage::{Context, Exit, Failure};

/// One attempt as it was collected, with what it printed where that is a result.
pub(crate) struct Evidence {
    pub(crate) collected: CollectedAttempt,
    pub(crate) attempt: Attempt,
    pub(crate) output: Option<Output>,
}

/// The attempts of each planned trial, in the plan's order.
pub(crate) struct Attempts(pub(crate) Vec<(PlannedTrial, Vec<Evidence>)>);

impl Attempts {
    /// Reads every attempt that the Collection lists; each is found by the digest of the execution part that holds it.
    pub(crate) fn load(ctx: &Context, plan: &Plan, collection: &Collection) -> Result<Self, Failure> {
        let mut parts = Parts { ctx, loaded: BTreeMap::new() };
        let mut trials = Vec::with_capacity(plan.trials.len());
        for (planned, collected) in plan.trials.iter().zip(&collection.trials) {
            if planned.trial_id != collected.trial_id {
                return Err(Failure::verification("trials_unaccounted", "the collection's trials are not in the plan's order"));
            }
            let attempts = collected.attempts.iter().map(|attempt| parts.evidence(planned, attempt));
            trials.push((planned.clone(), attempts.collect::<Result<_, _>>()?));
        }
        Ok(Self(trials))
    }

    /// The attempts of the trials of one point, trial by trial.
    pub(crate) fn of_point<'a>(
        &'a self,
        case_id: &'a assay_manifest::CaseId,
        point_id: &'a assay_manifest::PointId,
    ) -> impl Iterator<Item = &'a (PlannedTrial, Vec<Evidence>)> {
        self.0.iter().filter(move |(trial, _)| trial.case_id == *case_id && trial.point_id == *point_id)
    }
}

struct Parts<'a> {
    ctx: &'a Context,
    loaded: BTreeMap<Digest, Manifest<ExecutionPart>>,
}

impl Parts<'_> {
    fn evidence(&mut self, trial: &PlannedTrial, collected: &CollectedAttempt) -> Result<Evidence, Failure> {
        let part = self.part(collected.part)?;
        let attempt = part
            .body
            .attempts
            .iter()
            .find(|attempt| attempt.trial_id == trial.trial_id && attempt.attempt == collected.attempt)
            .cloned()
            .ok_or_else(|| {
                let which = format!("attempt {} of trial `{}`", collected.attempt, trial.trial_id);
                Failure::verification("attempts_unaccounted", format!("the part {} has no {which}", collected.part))
            })?;
        let output = self.output(&attempt)?;
        Ok(Evidence { collected: collected.clone(), attempt, output })
    }

    fn part(&mut self, digest: Digest) -> Result<&Manifest<ExecutionPart>, Failure> {
        if !self.loaded.contains_key(&digest) {
            let bytes = self.ctx.store().get(&digest, MAX_MANIFEST_BYTES)?;
            let document = Document::parse(&bytes).map_err(|error| Failure::of(Exit::Verification, "manifest", &error))?;
            let part = ExecutionPart::of(&document).cloned().ok_or_else(|| {
                Failure::verification("other_kind", format!("{digest} is a {} and no execution part", document.kind()))
            })?;
            self.loaded.insert(digest, part);
        }
        Ok(&self.loaded[&digest])
    }

    /// What the script printed, where it ran to its end and printed a result.
    fn output(&self, attempt: &Attempt) -> Result<Option<Output>, Failure> {
        let is_stdout = |name: &str| name.ends_with("/stdout");
        let Some(stdout) = attempt.evidence.iter().find(|artifact| is_stdout(&artifact.name)) else { return Ok(None) };
        if attempt.indicator.as_ref().is_none_or(|outcome| outcome.malformed.is_some()) {
            return Ok(None);
        }
        let bytes = self.ctx.get(stdout, assay_indicator::MAX_BYTES as u64)?;
        let output = assay_indicator::parse(&bytes).map_err(|error| Failure::of(Exit::Verification, "malformed", &error))?;
        Ok(Some(output))
    }
}

/// The samples of a metric in one output: a number is one sample, a list of numbers is the trial's samples.
pub(crate) fn samples<'a>(output: &'a Output, metric: &str) -> Option<&'a [f64]> {
    match output.result.iter().find(|(path, _)| path == metric).map(|(_, value)| value) {
        Some(Value::Number(number)) => Some(std::slice::from_ref(number)),
        Some(Value::Samples(samples)) if !samples.is_empty() => Some(samples),
        _ => None,
    }
}

/// The paths of everything numeric in an output.
pub(crate) fn numeric_paths(output: &Output) -> impl Iterator<Item = &str> {
    output.result.iter().filter(|(_, value)| matches!(value, Value::Number(_) | Value::Samples(_))).map(|(path, _)| path.as_str())
}
