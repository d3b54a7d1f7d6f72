//! What the stage has finished so far, kept in signed checkpoints so that a resumed stage can trust it.

use std::collections::BTreeMap;

use assay_manifest::{Attempt, AttemptStatus, Block, Checkpoint, Digest, InputRef, Instant, Prepared, TrialId};
use assay_stage::{Context, Failure};

/// What every checkpoint of this stage says besides its step.
pub(crate) struct CheckpointOf {
    pub(crate) plan: Digest,
    pub(crate) block: Block,
}

/// The attempts and preparations that are finished, and the attempts that were begun.
#[derive(Default)]
pub(crate) struct Journal {
    attempts: Vec<Attempt>,
    prepared: BTreeMap<String, Prepared>,
    resumed: Vec<InputRef>,
    begun: BTreeMap<(TrialId, u32), Instant>,
}

impl Journal {
    /// Reads the checkpoints and marks that processes of the call with this input digest have left.
    pub(crate) fn load(ctx: &Context, input: Digest) -> Result<Self, Failure> {
        let mut journal = Self::default();
        for (reference, checkpoint) in ctx.checkpoints(input)? {
            journal.resumed.push(reference);
            journal.attempts.extend(checkpoint.attempt);
            if let Some(prepared) = checkpoint.prepared {
                journal.prepared.insert(prepared.workload.to_string(), prepared);
            }
        }
        journal.attempts.sort_by(in_order);
        journal.begun = ctx.begun_attempts(input)?;
        Ok(journal)
    }

    /// The attempts that were begun and never finished.
    pub(crate) fn cut_short(&self) -> Vec<(TrialId, u32, Instant)> {
        let finished = |trial: &TrialId, attempt| self.of(trial).any(|done| done.attempt == attempt);
        let begun = self.begun.iter().filter(|((trial, attempt), _)| !finished(trial, *attempt));
        begun.map(|((trial, attempt), started)| (trial.clone(), *attempt, *started)).collect()
    }

    /// Adds an attempt that was cut short. It needs no checkpoint: its mark says all that is known of it, at every resume.
    pub(crate) fn add_cut_short(&mut self, attempt: Attempt) {
        self.attempts.push(attempt);
        self.attempts.sort_by(in_order);
    }

    /// How many attempts were cut short.
    pub(crate) fn interruptions(&self) -> usize {
        self.attempts.iter().filter(|attempt| attempt.status == AttemptStatus::Interrupted).count()
    }

    fn of(&self, trial: &TrialId) -> impl Iterator<Item = &Attempt> {
        self.attempts.iter().filter(move |attempt| attempt.trial_id == *trial)
    }

    /// Whether a trial needs another attempt: none is valid yet, and its budget of repeats is not spent. What was cut short from
    /// outside does not spend it; a failed preparation is not worth a repeat.
    pub(crate) fn wants_attempt(&self, trial: &TrialId, retry_budget: u32) -> bool {
        let spent = self.of(trial).filter(|attempt| !is_cut_short(attempt.status)).count() as u64;
        let over = |attempt: &Attempt| attempt.validity.valid || attempt.status == AttemptStatus::NotPrepared;
        spent <= u64::from(retry_budget) && !self.of(trial).any(over)
    }

    /// The number of a trial's next attempt.
    pub(crate) fn next_attempt(&self, trial: &TrialId) -> u32 {
        self.of(trial).map(|attempt| attempt.attempt + 1).max().unwrap_or(0)
    }

    /// What a workload's preparation did, if it ran.
    pub(crate) fn prepared(&self, workload: &str) -> Option<&Prepared> {
        self.prepared.get(workload)
    }

    /// Marks that an attempt begins, before anything of it happens.
    pub(crate) fn mark_started(&self, ctx: &Context, trial: &TrialId, attempt: u32) -> Result<(), Failure> {
        ctx.mark_attempt(trial, attempt)
    }

    /// Keeps a finished attempt.
    pub(crate) fn save_attempt(&mut self, ctx: &Context, of: &CheckpointOf, attempt: Attempt) -> Result<(), Failure> {
        let pointer = ctx.layout().attempt(ctx.input_digest(), &attempt.trial_id, attempt.attempt, ctx.shard());
        save(ctx, of, &pointer, None, Some(attempt.clone()))?;
        self.attempts.push(attempt);
        Ok(())
    }

    /// Keeps what a preparation did.
    pub(crate) fn save_prepared(&mut self, ctx: &Context, of: &CheckpointOf, prepared: Prepared) -> Result<(), Failure> {
        let pointer = ctx.layout().prepared(ctx.input_digest(), prepared.workload.as_str(), ctx.shard());
        save(ctx, of, &pointer, Some(prepared.clone()), None)?;
        self.prepared.insert(prepared.workload.to_string(), prepared);
        Ok(())
    }

    /// Preparations, attempts in the order in which they ran, and the checkpoints that were taken over.
    pub(crate) fn into_parts(self) -> (Vec<Prepared>, Vec<Attempt>, Vec<InputRef>) {
        (self.prepared.into_values().collect(), self.attempts, self.resumed)
    }
}

/// The order in which attempts ran.
fn in_order(a: &Attempt, b: &Attempt) -> std::cmp::Ordering {
    (a.window.start, &a.trial_id, a.attempt).cmp(&(b.window.start, &b.trial_id, b.attempt))
}

fn is_cut_short(status: AttemptStatus) -> bool {
    matches!(status, AttemptStatus::Interrupted | AttemptStatus::Cancelled)
}

fn save(
    ctx: &Context,
    of: &CheckpointOf,
    pointer: &str,
    prepared: Option<Prepared>,
    attempt: Option<Attempt>,
) -> Result<(), Failure> {
    let checkpoint = Checkpoint {
        plan_digest: of.plan,
        block: of.block,
        shard: ctx.shard(),
        input_digest: ctx.input_digest(),
        prepared,
        attempt,
    };
    ctx.checkpoint(pointer, checkpoint)
}
