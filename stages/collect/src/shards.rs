//! The shards of a block: each process that together with others made one attempt, and what must be equal among them.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{Attempt, Block, Digest, ExecutionPart, Shard, TrialId};
use assay_stage::Failure;

/// One shard's try at a trial.
#[derive(Clone, Copy)]
pub(crate) struct Executed<'a> {
    /// The manifest of the part that holds it.
    pub(crate) part: Digest,
    /// The part.
    pub(crate) body: &'a ExecutionPart,
    /// The attempt.
    pub(crate) attempt: &'a Attempt,
}

impl Executed<'_> {
    /// What all shards of one attempt share.
    pub(crate) fn key(&self) -> (Block, u32) {
        (self.body.block, self.attempt.attempt)
    }
}

/// Every block has one count of shards, and no shard twice: anything else is not the evidence of one run.
pub(crate) fn check_parts<'a>(parts: impl IntoIterator<Item = &'a ExecutionPart>) -> Result<(), Failure> {
    let mut blocks: BTreeMap<Block, BTreeSet<Shard>> = BTreeMap::new();
    for part in parts {
        let Block { index, incarnation } = part.block;
        let shards = blocks.entry(part.block).or_default();
        if let Some(other) = shards.iter().find(|other| other.count != part.shard.count) {
            return Err(Failure::verification(
                "shard_count_differs",
                format!("block {index}.{incarnation} has parts of {} and of {} shards", other.count, part.shard.count),
            ));
        }
        if !shards.insert(part.shard) {
            let shard = part.shard.index;
            return Err(Failure::verification(
                "shard_twice",
                format!("block {index}.{incarnation} has two parts of shard {shard}"),
            ));
        }
    }
    Ok(())
}

/// All shards of an attempt followed one schedule. Shards of one plan cannot differ in it, so where they do the parts do not
/// belong together; the chain's rule for what counts knows no such reason, and so nothing is collected.
pub(crate) fn check_schedules(trial: &TrialId, attempts: &[Executed<'_>]) -> Result<(), Failure> {
    let mut known: BTreeMap<(Block, u32), (Shard, Digest)> = BTreeMap::new();
    for executed in attempts {
        let said = executed.attempt.serving.iter().map(|outcome| outcome.schedule_digest);
        for digest in said.chain(executed.body.schedule_digests.get(trial).copied()) {
            let shard = executed.body.shard;
            let (other, first) = *known.entry(executed.key()).or_insert((shard, digest));
            if first != digest {
                return Err(Failure::verification(
                    "schedule_differs",
                    format!(
                        "in attempt {} of trial `{trial}`, shard {} followed schedule {first} and shard {} followed {digest}",
                        executed.attempt.attempt, other.index, shard.index
                    ),
                )
                .hint("every shard has to run the same binary on the same plan"));
            }
        }
    }
    Ok(())
}

/// The block, the number and the validity of each shard's attempts, as the rule for what counts takes them. A shard that is lost
/// is a try that is not valid: an attempt without one of its shards offered less load than it says.
pub(crate) fn tries(attempts: &[Executed<'_>]) -> Vec<(Block, u32, bool)> {
    let mut shards: BTreeMap<(Block, u32), BTreeSet<u32>> = BTreeMap::new();
    for executed in attempts {
        shards.entry(executed.key()).or_default().insert(executed.body.shard.index);
    }
    let is_whole = |executed: &Executed<'_>| {
        shards.get(&executed.key()).is_some_and(|found| (0..executed.body.shard.count).all(|index| found.contains(&index)))
    };
    let tried = |executed: &Executed<'_>| {
        let (block, attempt) = executed.key();
        (block, attempt, executed.attempt.validity.valid && is_whole(executed))
    };
    attempts.iter().map(tried).collect()
}
