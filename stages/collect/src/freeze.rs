//! The collect stage: checks that every planned trial is accounted for, and freezes the evidence.

use std::collections::BTreeMap;

use assay_manifest::{
    Artifact, Attempt, Block, Body as _, CollectedAttempt, CollectedTrial, Collection, Count, Digest, Drift, Environment,
    ExecutionPart, InputRef, Manifest, Plan, PlannedTrial, Recording, TrialId, canonical_json,
};
use assay_stage::{Context, Failure, Inputs, Stage, StageName, counted_attempt};
use serde::{Deserialize, Serialize};

use crate::coverage::Coverage;
use crate::drift::drift;

/// Collect has no parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {}

/// The collect stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Collect;

impl Stage for Collect {
    type Parameters = Parameters;
    type Output = Collection;
    const NAME: StageName = StageName::Collect;

    fn run(&self, inputs: &Inputs, _: &Parameters, ctx: &Context) -> Result<Collection, Failure> {
        let (plan, plan_digest) = inputs.plan()?;
        let parts: Vec<_> = inputs.all::<ExecutionPart>().collect();
        let recordings: Vec<_> = inputs.all::<Recording>().map(|(_, manifest)| &manifest.body).collect();
        let environments: Vec<_> = inputs.all::<Environment>().map(|(_, manifest)| &manifest.body).collect();
        check_blocks(plan, &parts)?;
        let windows = parts.iter().flat_map(|(_, part)| part.body.attempts.iter().map(|found| (part.body.block, found.window)));
        let coverage = Coverage::read(ctx, &recordings, windows)?;

        let mut found = attempts_by_trial(&parts);
        let trials = plan.trials.iter().map(|trial| collected(trial, &mut found, &coverage)).collect();
        if let Some(extra) = found.keys().next() {
            return Err(Failure::verification(
                "unplanned_trial",
                format!("an execution part ran trial `{extra}`, which is not planned"),
            ));
        }
        let evidence = evidence(&parts, &recordings, &environments);
        check_present(ctx, &evidence)?;
        freeze(ctx, plan_digest, trials, drift(&environments), &evidence)
    }
}

type Parts<'a> = [(InputRef, &'a Manifest<ExecutionPart>)];

/// Every block of the plan has been executed.
fn check_blocks(plan: &Plan, parts: &Parts<'_>) -> Result<(), Failure> {
    let missing = (0..plan.blocks()).find(|index| !parts.iter().any(|(_, part)| part.body.block.index == *index));
    match missing {
        Some(index) => Err(Failure::verification("missing_block", format!("no execution part is of block {index}"))),
        None => Ok(()),
    }
}

type Found<'a> = BTreeMap<&'a TrialId, Vec<(Digest, Block, &'a ExecutionPart, &'a Attempt)>>;

fn attempts_by_trial<'a>(parts: &Parts<'a>) -> Found<'a> {
    let mut found = Found::new();
    for (reference, part) in parts {
        for attempt in &part.body.attempts {
            found.entry(&attempt.trial_id).or_default().push((reference.manifest, part.body.block, &part.body, attempt));
        }
    }
    found
}

/// A planned trial with everything that was found of it, and which attempt counts.
fn collected(trial: &PlannedTrial, found: &mut Found<'_>, coverage: &Coverage<'_>) -> CollectedTrial {
    let mut attempts = found.remove(&trial.trial_id).unwrap_or_default();
    attempts.sort_by_key(|(_, block, part, attempt)| (*block, attempt.attempt, part.shard));
    let tries = attempts.iter().map(|(_, block, _, attempt)| (*block, attempt.attempt, attempt.validity.valid));
    let counts = counted_attempt(tries);
    let attempts = attempts.iter().map(|(part, block, body, attempt)| CollectedAttempt {
        attempt: attempt.attempt,
        block: *block,
        shard: body.shard,
        part: *part,
        counted: counts == Some((*block, attempt.attempt)),
        samples: Count(coverage.samples(*block, &attempt.window)),
        gaps: coverage.gaps(*block, &attempt.window),
    });
    CollectedTrial { trial_id: trial.trial_id.clone(), counted: counts.is_some(), attempts: attempts.collect() }
}

/// Every raw artifact of the run, sorted by name; equal ones once.
fn evidence(parts: &Parts<'_>, recordings: &[&Recording], environments: &[&Environment]) -> Vec<Artifact> {
    let parts = parts.iter().flat_map(|(_, part)| part.body.artifacts());
    let recordings = recordings.iter().flat_map(|recording| recording.artifacts());
    let environments = environments.iter().flat_map(|environment| environment.artifacts());
    let mut all: Vec<_> = parts.chain(recordings).chain(environments).cloned().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Nothing is frozen that is not there.
fn check_present(ctx: &Context, evidence: &[Artifact]) -> Result<(), Failure> {
    for artifact in evidence {
        if !ctx.store().contains(&artifact.digest)? {
            return Err(Failure::verification(
                "evidence_missing",
                format!("the raw artifact `{}` ({}) is not in the store", artifact.name, artifact.digest),
            ));
        }
    }
    Ok(())
}

fn freeze(
    ctx: &Context,
    plan_digest: Digest,
    trials: Vec<CollectedTrial>,
    drift: Vec<Drift>,
    evidence: &[Artifact],
) -> Result<Collection, Failure> {
    let unwritten = |error| Failure::unexpected("evidence", "the list of evidence has no canonical form").because(&error);
    let list = canonical_json(&evidence).map_err(unwritten)?;
    Ok(Collection {
        plan_digest,
        trials,
        drift,
        evidence: ctx.put("evidence.json", "application/json", &list)?,
        evidence_count: Count(evidence.len() as u64),
        evidence_bytes: Count(evidence.iter().fold(0, |sum, artifact| sum.saturating_add(artifact.size.0))),
    })
}

#[cfg(test)]
mod tests;
