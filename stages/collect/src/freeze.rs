//! The collect stage: checks that every planned trial is accounted for, and freezes the evidence.

use std::collections::BTreeMap;
use std::io::Read;

use assay_claim::find_drift;
use assay_manifest::{
    Artifact, Block, Body as _, CollectedAttempt, CollectedTrial, Collection, Count, Environment, ExecutionPart, InputRef,
    Manifest, Plan, PlannedTrial, Recording, TrialId, canonical_json,
};
use assay_stage::parameters::CollectParameters;
use assay_stage::{Context, ErrorCode, Failure, Inputs, Stage, StageName, counted_attempt};
use assay_telemetry::Coverage;

use crate::endpoint::cross_checks;
use crate::read_failure;
use crate::shards::{ShardAttempt, check_parts, check_schedules, check_shard_count, shard_outcomes};

/// The collect stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Collect;

impl Stage for Collect {
    type Parameters = CollectParameters;
    type Output = Collection;
    const NAME: StageName = StageName::Collect;

    fn run(&self, inputs: &Inputs, _: &CollectParameters, ctx: &Context) -> Result<Collection, Failure> {
        let (plan, plan_digest) = inputs.plan()?;
        let parts: Vec<_> = inputs.all::<ExecutionPart>().collect();
        let recordings: Vec<_> = inputs.all::<Recording>().map(|(_, manifest)| &manifest.body).collect();
        let environments: Vec<_> = inputs.all::<Environment>().map(|(_, manifest)| &manifest.body).collect();
        let bodies: Vec<_> = parts.iter().map(|(_, part)| &part.body).collect();
        check_blocks(plan, &parts)?;
        check_parts(bodies.iter().copied())?;
        check_shard_count(&environments, bodies.iter().copied())?;
        let windows = parts.iter().flat_map(|(_, part)| part.body.attempts.iter().map(|found| (part.body.block, found.window)));
        let open = |artifact: &Artifact| -> Result<Box<dyn Read>, Failure> {
            ctx.check_cancelled()?;
            Ok(Box::new(ctx.materialise(artifact)?.open()?))
        };
        let coverage = Coverage::read(&recordings, windows, &open).map_err(read_failure)?;

        let cross_checks = cross_checks(ctx, plan, &environments, &recordings, &bodies)?;

        let evidence_of = Evidence { plan, environments: &environments, coverage };
        let mut found = attempts_by_trial(&parts);
        let trials = plan.trials.iter().map(|trial| evidence_of.collect_trial(trial, &mut found)).collect::<Result<_, _>>()?;
        if let Some(extra) = found.keys().next() {
            return Err(Failure::new(
                ErrorCode::UnplannedTrial,
                format!("an execution part ran trial `{extra}`, which is not planned"),
            ));
        }
        let mut evidence = evidence(&parts, &recordings, &environments);
        evidence.extend(crate::cluster::read_facts(ctx)?);
        evidence.extend(crate::prometheus::read_samples(ctx, plan, &bodies)?);
        evidence.extend(crate::slurm::read_accounting(ctx, plan)?);
        evidence.sort_unstable();
        check_present(ctx, &evidence)?;
        Ok(Collection {
            plan_digest,
            trials,
            cross_checks,
            drift: find_drift(&environments),
            evidence: freeze(ctx, &evidence)?,
            evidence_count: Count(evidence.len() as u64),
            evidence_bytes: Count(evidence.iter().fold(0, |sum, artifact| sum.saturating_add(artifact.size.0))),
        })
    }
}

type Parts<'a> = [(InputRef, &'a Manifest<ExecutionPart>)];

/// Checks that every block of the plan has been executed.
fn check_blocks(plan: &Plan, parts: &Parts<'_>) -> Result<(), Failure> {
    let missing = (0..plan.block_count()).find(|index| !parts.iter().any(|(_, part)| part.body.block.index == *index));
    match missing {
        Some(index) => Err(Failure::new(ErrorCode::MissingBlock, format!("no execution part is of block {index}"))),
        None => Ok(()),
    }
}

type AttemptsByTrial<'a> = BTreeMap<&'a TrialId, Vec<ShardAttempt<'a>>>;

fn attempts_by_trial<'a>(parts: &Parts<'a>) -> AttemptsByTrial<'a> {
    let mut found = AttemptsByTrial::new();
    for (reference, part) in parts {
        for attempt in &part.body.attempts {
            let executed = ShardAttempt { part: reference.manifest, body: &part.body, attempt };
            found.entry(&attempt.trial_id).or_default().push(executed);
        }
    }
    found
}

/// The plan, and the readings that are counted for the attempts.
struct Evidence<'a> {
    plan: &'a Plan,
    environments: &'a [&'a Environment],
    coverage: Coverage<'a>,
}

impl Evidence<'_> {
    /// Returns a planned trial with all its attempts, and marks the attempt that counts.
    fn collect_trial(&self, trial: &PlannedTrial, found: &mut AttemptsByTrial<'_>) -> Result<CollectedTrial, Failure> {
        let mut attempts = found.remove(&trial.trial_id).unwrap_or_default();
        attempts.sort_by_key(|executed| (executed.key(), executed.body.shard));
        check_schedules(&trial.trial_id, &attempts)?;
        let counts = counted_attempt(shard_outcomes(&attempts));
        let collected = attempts.iter().map(|executed| self.collect_attempt(executed, counts));
        Ok(CollectedTrial { trial_id: trial.trial_id.clone(), counted: counts.is_some(), attempts: collected.collect() })
    }

    fn collect_attempt(&self, executed: &ShardAttempt<'_>, counts: Option<(Block, u32)>) -> CollectedAttempt {
        let ShardAttempt { part, body, attempt } = *executed;
        let environment = self.environments.iter().copied().find(|environment| environment.block == body.block);
        let sources = assay_telemetry::observing(self.plan, environment, &attempt.case_id);
        CollectedAttempt {
            attempt: attempt.attempt,
            block: body.block,
            shard: body.shard,
            part,
            counted: counts == Some(executed.key()),
            samples: Count(self.coverage.samples(body.block, &attempt.window)),
            gaps: self.coverage.gaps(body.block, &attempt.window, &sources),
        }
    }
}

/// Returns every raw artifact of the run, sorted by name; equal ones once.
fn evidence(parts: &Parts<'_>, recordings: &[&Recording], environments: &[&Environment]) -> Vec<Artifact> {
    let parts = parts.iter().flat_map(|(_, part)| part.body.artifacts());
    let recordings = recordings.iter().flat_map(|recording| recording.artifacts());
    let environments = environments.iter().flat_map(|environment| environment.artifacts());
    let mut all: Vec<_> = parts.chain(recordings).chain(environments).cloned().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Checks that every artifact to be frozen is in the store.
fn check_present(ctx: &Context, evidence: &[Artifact]) -> Result<(), Failure> {
    for artifact in evidence {
        if !ctx.store().contains(&artifact.digest)? {
            return Err(Failure::new(
                ErrorCode::EvidenceMissing,
                format!("the raw artifact `{}` ({}) is not in the store", artifact.name, artifact.digest),
            ));
        }
    }
    Ok(())
}

/// Stores the list of all raw artifacts.
fn freeze(ctx: &Context, evidence: &[Artifact]) -> Result<Artifact, Failure> {
    let unwritten = |error| Failure::new(ErrorCode::Internal, "the list of evidence has no canonical form").because(&error);
    let list = canonical_json(&evidence).map_err(unwritten)?;
    ctx.put("evidence.json", "application/json", &list)
}

#[cfg(test)]
mod tests;
