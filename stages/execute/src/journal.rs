//! The finished work of the stage, kept in signed checkpoints so that a resumed stage can trust it.

use std::collections::BTreeMap;

use assay_manifest::{
    Attempt, AttemptStatus, Block, Checkpoint, Digest, InputRef, InstalledStack, LastingReason, Name, PreparationResult, TrialId,
};
use assay_stage::{Context, Failure, StartMark};

use crate::verdict::ShardVerdict;

/// The data that all checkpoints of this stage share, besides their step.
#[derive(Clone, Copy)]
pub(crate) struct CheckpointContext {
    pub(crate) plan: Digest,
    pub(crate) block: Block,
}

/// The finished attempts and preparations, and the attempts that were begun.
#[derive(Default)]
pub(crate) struct Journal {
    attempts: Vec<Attempt>,
    prepared: BTreeMap<String, PreparationResult>,
    stacks: BTreeMap<Name, InstalledStack>,
    resumed: Vec<InputRef>,
    begun: BTreeMap<(TrialId, u32), StartMark>,
    /// The verdicts of all shards over the attempts.
    agreed: BTreeMap<(TrialId, u32), ShardVerdict>,
}

/// Returns the number of attempts that meet a lasting reason before the trial is over. A phase without a request could be chance; a queue that held for as
/// long as the workload states is what it asks for.
const fn most_met(reason: LastingReason) -> usize {
    match reason {
        LastingReason::NoRequests => 2,
        LastingReason::OverSaturated => 1,
    }
}

impl Journal {
    /// Reads the checkpoints and marks that earlier processes with this input digest have left.
    pub(crate) fn load(ctx: &Context, input: Digest) -> Result<Self, Failure> {
        let mut journal = Self::default();
        for (reference, checkpoint) in ctx.checkpoints(input)? {
            journal.resumed.push(reference);
            journal.attempts.extend(checkpoint.attempt);
            journal.stacks.extend(checkpoint.stack.map(|stack| (stack.variant.clone(), stack)));
            if let Some(prepared) = checkpoint.prepared {
                journal.prepared.insert(prepared.workload.to_string(), prepared);
            }
        }
        journal.attempts.sort_by(compare_order);
        journal.begun = ctx.begun_attempts(input)?;
        Ok(journal)
    }

    /// Returns the attempts that were begun and never finished.
    pub(crate) fn cut_short(&self) -> Vec<(TrialId, u32, StartMark)> {
        let finished = |trial: &TrialId, attempt| self.attempts_of_trial(trial).any(|done| done.attempt == attempt);
        let begun = self.begun.iter().filter(|((trial, attempt), _)| !finished(trial, *attempt));
        begun.map(|((trial, attempt), begun)| (trial.clone(), *attempt, begun.clone())).collect()
    }

    /// Adds an attempt that was cut short. It needs no checkpoint: every resume learns all that is known of it from its mark.
    pub(crate) fn add_cut_short(&mut self, attempt: Attempt) {
        self.attempts.push(attempt);
        self.attempts.sort_by(compare_order);
    }

    /// Returns the number of attempts that were cut short.
    pub(crate) fn count_interruptions(&self) -> usize {
        self.attempts.iter().filter(|attempt| attempt.status == AttemptStatus::Interrupted).count()
    }

    /// Returns the attempts that are over, with this shard's verdict over each.
    pub(crate) fn finished(&self) -> Vec<(TrialId, u32, ShardVerdict)> {
        self.attempts.iter().map(|done| (done.trial_id.clone(), done.attempt, ShardVerdict::new(&done.validity))).collect()
    }

    /// Sets the verdict of all shards over an attempt: another shard's part of it may be invalid.
    pub(crate) fn set_agreed(&mut self, trial: &TrialId, attempt: u32, verdict: ShardVerdict) {
        self.agreed.insert((trial.clone(), attempt), verdict);
    }

    fn attempts_of_trial(&self, trial: &TrialId) -> impl Iterator<Item = &Attempt> {
        self.attempts.iter().filter(move |attempt| attempt.trial_id == *trial)
    }

    /// Returns true if a trial needs another attempt: none is valid yet, its retry budget is not spent, and no lasting reason was met
    /// again. An attempt that was cut short from outside does not spend the budget; a failed preparation is not retried.
    pub(crate) fn needs_attempt(&self, trial: &TrialId, retry_budget: u32) -> bool {
        let is_over =
            |attempt: &Attempt| self.verdict(attempt) == ShardVerdict::Valid || attempt.status == AttemptStatus::NotPrepared;
        self.has_budget(trial, retry_budget)
            && self.lasting_reason(trial).is_none()
            && !self.attempts_of_trial(trial).any(is_over)
    }

    /// Returns the reason why a trial is not tried again although its budget is not spent.
    pub(crate) fn reason_to_stop(&self, trial: &TrialId, retry_budget: u32) -> Option<LastingReason> {
        self.lasting_reason(trial).filter(|_| self.has_budget(trial, retry_budget))
    }

    fn has_budget(&self, trial: &TrialId, retry_budget: u32) -> bool {
        let spent = self.attempts_of_trial(trial).filter(|attempt| !is_cut_short(attempt.status)).count() as u64;
        spent <= u64::from(retry_budget)
    }

    /// Returns the lasting reason that attempts of a trial met again.
    fn lasting_reason(&self, trial: &TrialId) -> Option<LastingReason> {
        let met = |reason: &LastingReason| {
            let lasting = ShardVerdict::Lasting(*reason);
            self.attempts_of_trial(trial).filter(|attempt| self.verdict(attempt) == lasting).count()
        };
        LastingReason::ALL.iter().copied().find(|reason| met(reason) >= most_met(*reason))
    }

    /// Returns the verdict of all shards over an attempt; that of this shard until they have agreed.
    fn verdict(&self, attempt: &Attempt) -> ShardVerdict {
        let agreed = self.agreed.get(&(attempt.trial_id.clone(), attempt.attempt)).copied();
        agreed.unwrap_or_else(|| ShardVerdict::new(&attempt.validity))
    }

    /// Returns the number of a trial's next attempt.
    pub(crate) fn next_attempt(&self, trial: &TrialId) -> u32 {
        self.attempts_of_trial(trial).map(|attempt| attempt.attempt.saturating_add(1)).max().unwrap_or(0)
    }

    /// Returns the result of a workload's preparation, if it ran.
    pub(crate) fn prepared(&self, workload: &str) -> Option<&PreparationResult> {
        self.prepared.get(workload)
    }

    /// Saves a finished attempt.
    pub(crate) fn save_attempt(&mut self, ctx: &Context, of: CheckpointContext, attempt: Attempt) -> Result<(), Failure> {
        let pointer = ctx.layout().attempt(ctx.input_digest(), &attempt.trial_id, attempt.attempt, ctx.shard());
        save(ctx, of, &pointer, Step { attempt: Some(attempt.clone()), ..Step::default() })?;
        self.attempts.push(attempt);
        Ok(())
    }

    /// Saves the result of a preparation.
    pub(crate) fn save_prepared(
        &mut self,
        ctx: &Context,
        of: CheckpointContext,
        prepared: PreparationResult,
    ) -> Result<(), Failure> {
        let pointer = ctx.layout().prepared(ctx.input_digest(), prepared.workload.as_str(), ctx.shard());
        save(ctx, of, &pointer, Step { prepared: Some(prepared.clone()), ..Step::default() })?;
        self.prepared.insert(prepared.workload.to_string(), prepared);
        Ok(())
    }

    /// Returns the installed packages of a variant, if their installation ran.
    pub(crate) fn stack(&self, variant: &Name) -> Option<&InstalledStack> {
        self.stacks.get(variant)
    }

    /// Saves the installed packages of a variant.
    pub(crate) fn save_stack(&mut self, ctx: &Context, of: CheckpointContext, stack: InstalledStack) -> Result<(), Failure> {
        let pointer = ctx.layout().stack(ctx.input_digest(), stack.variant.as_str(), ctx.shard());
        save(ctx, of, &pointer, Step { stack: Some(stack.clone()), ..Step::default() })?;
        self.stacks.insert(stack.variant.clone(), stack);
        Ok(())
    }

    /// Returns all that the journal holds.
    pub(crate) fn into_parts(self) -> JournalParts {
        JournalParts {
            prepared: self.prepared.into_values().collect(),
            stacks: self.stacks.into_values().collect(),
            attempts: self.attempts,
            resumed: self.resumed,
        }
    }
}

/// The content of a journal.
pub(crate) struct JournalParts {
    /// The preparations, by workload.
    pub(crate) prepared: Vec<PreparationResult>,
    /// The installed packages, by variant.
    pub(crate) stacks: Vec<InstalledStack>,
    /// The attempts in the order in which they ran.
    pub(crate) attempts: Vec<Attempt>,
    /// The checkpoints that were reused.
    pub(crate) resumed: Vec<InputRef>,
}

/// A finished step: one of these.
#[derive(Default)]
struct Step {
    prepared: Option<PreparationResult>,
    stack: Option<InstalledStack>,
    attempt: Option<Attempt>,
}

/// Compares attempts by the order in which they ran.
fn compare_order(a: &Attempt, b: &Attempt) -> std::cmp::Ordering {
    (a.window.start, &a.trial_id, a.attempt).cmp(&(b.window.start, &b.trial_id, b.attempt))
}

fn is_cut_short(status: AttemptStatus) -> bool {
    matches!(status, AttemptStatus::Interrupted | AttemptStatus::Cancelled)
}

fn save(ctx: &Context, of: CheckpointContext, pointer: &str, Step { prepared, stack, attempt }: Step) -> Result<(), Failure> {
    let checkpoint = Checkpoint {
        plan_digest: of.plan,
        block: of.block,
        shard: ctx.shard(),
        input_digest: ctx.input_digest(),
        prepared,
        stack,
        attempt,
    };
    ctx.checkpoint(pointer, checkpoint)
}

#[cfg(test)]
mod tests {
    use assay_manifest::{Instant, PlannedTrial, Reason, Validity, Window};
    use proptest::prelude::*;

    use super::*;

    const TRIAL: &str = "w.t.default.one.t0";
    const OTHER: &str = "w.t.default.one.t1";

    fn id(trial: &str) -> TrialId {
        trial.parse().expect("a trial id")
    }

    fn at(second: i64) -> Instant {
        Instant::from_unix_ns(second * 1_000_000_000)
    }

    fn attempt(trial: &str, number: u32, status: AttemptStatus) -> Attempt {
        let reasons = if status == AttemptStatus::Completed { vec![] } else { vec![Reason::new(status.as_str(), "")] };
        let start = at(i64::from(number));
        let planned = PlannedTrial {
            trial_id: id(trial),
            case_id: "w.t.default".parse().expect("a case id"),
            point_id: "one".parse().expect("a point id"),
            index: 0,
            block: 0,
        };
        Attempt::new(&planned, number, Window { start, end: start, duration_ns: 0.into() }, status, reasons)
    }

    /// Returns a journal in which a trial has had attempts with these statuses.
    fn after(statuses: &[AttemptStatus]) -> Journal {
        let attempts = (0..).zip(statuses).map(|(number, status)| attempt(TRIAL, number, *status)).collect();
        Journal { attempts, ..Journal::default() }
    }

    fn wants(statuses: &[AttemptStatus], retry_budget: u32) -> bool {
        after(statuses).needs_attempt(&id(TRIAL), retry_budget)
    }

    #[test]
    fn a_trial_is_repeated_until_it_is_valid_or_its_budget_is_spent() {
        use AttemptStatus::{Completed, Failed, Malformed, TimedOut};
        assert!(wants(&[], 0), "the first attempt is no repeat");
        assert!(!wants(&[Completed], 3));
        assert!(!wants(&[Failed], 0));
        assert!(wants(&[Failed], 1));
        assert!(!wants(&[Failed, TimedOut], 1));
        assert!(wants(&[Failed, TimedOut], 2));
        assert!(!wants(&[Malformed, Completed], 5));
        assert!(wants(&[Failed; 9], u32::MAX), "the largest budget does not overflow");
    }

    #[test]
    fn what_was_cut_short_from_outside_spends_no_budget() {
        use AttemptStatus::{Cancelled, Completed, Failed, Interrupted};
        assert!(wants(&[Interrupted, Cancelled, Interrupted], 0));
        assert!(!wants(&[Interrupted, Failed], 0));
        assert!(!wants(&[Interrupted, Completed], 0));
    }

    #[test]
    fn a_failed_preparation_is_not_worth_a_repeat() {
        assert!(!wants(&[AttemptStatus::NotPrepared], 5));
    }

    #[test]
    fn a_trial_that_meets_a_lasting_reason_again_is_over() {
        let met = |codes: &[&str]| {
            let without_requests = |(number, code): (u32, &&str)| {
                let validity = Validity::from_reasons(vec![Reason::new(code, "")]);
                Attempt { validity, ..attempt(TRIAL, number, AttemptStatus::Completed) }
            };
            Journal { attempts: (0..).zip(codes).map(without_requests).collect(), ..Journal::default() }
        };
        let stops =
            |journal: &Journal, budget| (journal.needs_attempt(&id(TRIAL), budget), journal.reason_to_stop(&id(TRIAL), budget));
        assert_eq!(stops(&met(&["no_requests"]), 9), (true, None), "once could be chance");
        assert_eq!(stops(&met(&["client_late", "no_requests"]), 9), (true, None));
        assert_eq!(stops(&met(&["no_requests", "no_requests"]), 9), (false, Some(LastingReason::NoRequests)));
        assert_eq!(stops(&met(&["no_requests", "client_late", "no_requests"]), 9), (false, Some(LastingReason::NoRequests)));
        assert_eq!(stops(&met(&["no_requests", "no_requests"]), 1), (false, None), "the budget ended it");
        assert_eq!(
            stops(&met(&["over_saturated"]), 9),
            (false, Some(LastingReason::OverSaturated)),
            "the endpoint is the reason"
        );
        assert_eq!(stops(&met(&["all_failed", "all_failed"]), 9), (true, None), "an endpoint may recover");
        let mut journal = met(&["no_requests", "no_requests"]);
        journal.set_agreed(&id(TRIAL), 1, ShardVerdict::Invalid);
        assert_eq!(stops(&journal, 9), (true, None), "another shard had a reason that may pass");
    }

    #[test]
    fn trials_do_not_share_their_attempts() {
        let mut journal = after(&[AttemptStatus::Completed]);
        journal.attempts.push(attempt(OTHER, 0, AttemptStatus::Failed));
        assert!(journal.needs_attempt(&id(OTHER), 1));
        assert_eq!((journal.next_attempt(&id(OTHER)), journal.next_attempt(&id("w.t.default.one.t2"))), (1, 0));
    }

    #[test]
    fn an_attempt_that_was_begun_and_never_finished_was_cut_short() {
        let mut journal = after(&[AttemptStatus::Failed]);
        let begun = |second| StartMark { at: at(second), place: None };
        journal.begun = BTreeMap::from([((id(TRIAL), 0), begun(0)), ((id(TRIAL), 1), begun(5)), ((id(OTHER), 0), begun(9))]);
        assert_eq!(journal.cut_short(), [(id(TRIAL), 1, begun(5)), (id(OTHER), 0, begun(9))]);
        journal.add_cut_short(attempt(TRIAL, 1, AttemptStatus::Interrupted));
        assert_eq!(journal.cut_short(), [(id(OTHER), 0, begun(9))]);
        assert_eq!((journal.next_attempt(&id(TRIAL)), journal.count_interruptions()), (2, 1));
    }

    #[test]
    fn attempts_stand_in_the_order_in_which_they_ran() {
        let mut journal = after(&[AttemptStatus::Failed]);
        journal.attempts.push(attempt(OTHER, 7, AttemptStatus::Completed));
        journal.add_cut_short(attempt(TRIAL, 3, AttemptStatus::Interrupted));
        let attempts = journal.into_parts().attempts;
        assert_eq!(attempts.iter().map(|attempt| attempt.attempt).collect::<Vec<_>>(), [0, 3, 7]);
    }

    proptest! {
        #[test]
        fn no_trial_is_tried_without_end(
            ends in prop::collection::vec(prop::sample::select(AttemptStatus::ALL), 0..20),
            retry_budget in 0_u32..5,
        ) {
            let mut done = Vec::new();
            for end in ends {
                if !wants(&done, retry_budget) {
                    break;
                }
                done.push(end);
            }
            let spent = done.iter().filter(|status| !is_cut_short(**status)).count();
            prop_assert!(spent <= retry_budget as usize + 1);
        }

        #[test]
        fn an_attempt_never_takes_the_number_of_another(numbers in prop::collection::btree_set(0_u32..50, 0..10)) {
            let attempts = numbers.iter().map(|number| attempt(TRIAL, *number, AttemptStatus::Failed)).collect();
            let journal = Journal { attempts, ..Journal::default() };
            prop_assert!(!numbers.contains(&journal.next_attempt(&id(TRIAL))));
        }
    }
}
