//! The shards of a block: each process that together with others made one attempt, and the properties that must be equal among
//! them.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{Attempt, Block, Digest, Environment, ExecutionPart, Shard, TrialId, ordinal};
use assay_stage::{ErrorCode, Failure, ShardOutcome};

/// One shard's part of an attempt at a trial.
#[derive(Clone, Copy)]
pub(crate) struct ShardAttempt<'a> {
    /// The manifest of the part that holds it.
    pub(crate) part: Digest,
    /// The part.
    pub(crate) body: &'a ExecutionPart,
    /// The attempt.
    pub(crate) attempt: &'a Attempt,
}

impl ShardAttempt<'_> {
    /// Returns the key that all shards of one attempt share.
    pub(crate) fn key(&self) -> (Block, u32) {
        (self.body.block, self.attempt.attempt)
    }
}

/// Checks that every block has one number of shards, and no shard twice: anything else is not the evidence of one run.
pub(crate) fn check_parts<'a>(parts: impl IntoIterator<Item = &'a ExecutionPart>) -> Result<(), Failure> {
    let mut blocks: BTreeMap<Block, BTreeSet<Shard>> = BTreeMap::new();
    for part in parts {
        let Block { index, incarnation } = part.block;
        let shards = blocks.entry(part.block).or_default();
        if let Some(other) = shards.iter().find(|other| other.count != part.shard.count) {
            return Err(Failure::new(
                ErrorCode::ShardCountDiffers,
                format!("block {index}.{incarnation} has parts of {} and of {} shards", other.count, part.shard.count),
            ));
        }
        if !shards.insert(part.shard) {
            let shard = part.shard.index;
            return Err(Failure::new(
                ErrorCode::ShardTwice,
                format!("block {index}.{incarnation} has two parts of shard {shard}"),
            ));
        }
    }
    Ok(())
}

/// Checks the number of shards of a run against the Environment: all parts have this number if the Environment states one, so
/// that its explanation is of the shards that ran.
pub(crate) fn check_shard_count<'a>(
    environments: &[&Environment],
    parts: impl IntoIterator<Item = &'a ExecutionPart>,
) -> Result<(), Failure> {
    let Some(counted) = environments.iter().find_map(|environment| environment.shards.as_ref()) else { return Ok(()) };
    let differs = parts.into_iter().find(|part| part.shard.count != counted.shards);
    differs.map_or(Ok(()), |part| {
        let Block { index, incarnation } = part.block;
        Err(Failure::new(
            ErrorCode::ShardCountDiffers,
            format!(
                "block {index}.{incarnation} has a part of {} shards where the Environment counted {}",
                part.shard.count, counted.shards
            ),
        ))
    })
}

/// Checks that all shards of an attempt followed one schedule. Shards of one plan cannot differ in it, so if they do, the parts
/// do not belong together; the chain's rule for counted attempts has no such reason, and so nothing is collected.
pub(crate) fn check_schedules(trial: &TrialId, attempts: &[ShardAttempt<'_>]) -> Result<(), Failure> {
    let mut known: BTreeMap<(Block, u32), (Shard, Digest)> = BTreeMap::new();
    for executed in attempts {
        let said = executed.attempt.serving.iter().map(|outcome| outcome.schedule_digest);
        for digest in said.chain(executed.body.schedule_digests.get(trial).copied()) {
            let shard = executed.body.shard;
            let (other, first) = *known.entry(executed.key()).or_insert((shard, digest));
            if first != digest {
                return Err(Failure::new(
                    ErrorCode::ScheduleDiffers,
                    format!(
                        "in attempt {} of trial `{trial}`, shard {} followed schedule {first} and shard {} followed {digest}",
                        ordinal(executed.attempt.attempt),
                        other.index,
                        shard.index
                    ),
                )
                .hint("every shard has to run the same binary on the same plan"));
            }
        }
    }
    Ok(())
}

/// Returns the outcome of each shard, as the rule for counted attempts takes it.
pub(crate) fn shard_outcomes(attempts: &[ShardAttempt<'_>]) -> impl Iterator<Item = ShardOutcome> {
    attempts.iter().map(|executed| {
        let (block, attempt) = executed.key();
        ShardOutcome { block, attempt, shard: executed.body.shard, valid: executed.attempt.validity.valid }
    })
}
