//! The decision of one gate: the look, the acknowledgements, the signed verdict and its place in the sequence.

use assay_envelope::{TestResult, Trust};
use assay_gate::{GateInput, judge};
use assay_manifest::{Acknowledgement, Difference, Digest, InputRef, Manifest, Name, Outcome, Role, RunId, Sequence, Verdict};
use assay_runner::{Config, KeyRing, gate_signers};
use assay_runs::RunStore;
use assay_spec as spec;
use assay_stage::{Clock, ErrorCode, Failure, seal_with};
use assay_store::Store;

use crate::caller::{Caller, GateEvent};
use crate::evidence::Evidence;
use crate::rules::{JudgedSubject, RuleFile, Rules, changes, definition_changes, gates};
use crate::sequence::{VerifiedVerdict, append, read_verdicts, trust_own_gate};

/// The limit on retries because another gate appended first.
const MAX_TRIES: u32 = 100;

/// Everything that decides one gate, except the earlier verdicts, which `decide` reads.
pub(crate) struct GateDecider<'a> {
    pub(crate) gate: spec::Gate,
    pub(crate) rules: &'a Rules,
    pub(crate) candidate: &'a Evidence,
    pub(crate) subject: &'a Name,
    pub(crate) run_store: &'a RunStore,
    pub(crate) unestablished: bool,
    pub(crate) caller: &'a dyn Caller,
}

/// The runs that are judged, and the number of the look.
struct LookRuns {
    /// The runs of the verdict before.
    runs: Vec<RunId>,
    number: u32,
    /// True if the candidate's trials are new evidence.
    is_new: bool,
}

/// A gate's verdict, with all verdicts about the same subject, oldest first.
pub struct GateDecision {
    /// The verdict.
    pub verdict: VerifiedVerdict,
    /// All verdicts about the subject, oldest first.
    pub all: Vec<VerifiedVerdict>,
    /// Name and digest of the trust policy that the evidence was verified under.
    pub trust_policy: Option<(String, Digest)>,
}

impl GateDecision {
    /// Returns true if more pairs may decide, and the policy has a look left for them.
    pub(crate) fn may_be_topped_up(&self) -> bool {
        let verdict = self.verdict.verdict();
        verdict.outcome == Outcome::Inconclusive && (verdict.sequence.look as usize) < verdict.policy.looks.len()
    }
}

impl GateDecider<'_> {
    /// Judges, signs and stores the verdict; or finds the existing one.
    pub(crate) fn decide(&self, store: &Store, keys: &KeyRing) -> Result<GateDecision, Failure> {
        let trust = trust_own_gate(&self.candidate.verified_run().trust, &gate_signers(&Config::find()?)?);
        for _ in 0..MAX_TRIES {
            let mut all = read_verdicts(store, self.subject, &trust)?;
            let earlier = self.filter_sequence(&all)?;
            let acknowledgements = self.acknowledgements()?;
            // If the learned noise has changed since the last verdict, the same evidence is judged again.
            let learned = self.rules.learned();
            let look = self.plan_look(&earlier);
            if let Some(standing) = earlier.last().filter(|last| {
                !look.is_new && has_same_acknowledgements(last.verdict(), &acknowledgements) && last.verdict().learned == learned
            }) {
                self.caller.report(GateEvent::VerdictStands { number: standing.number, subject: self.subject });
                return Ok(self.make_decision(standing.clone(), all));
            }
            let number = all.last().map_or(1, |last| last.number + 1);
            let reference = self.judge(&earlier, &look, acknowledgements, store, keys)?;
            if append(store, self.subject, number, reference)? {
                all = read_verdicts(store, self.subject, &trust)?;
                let verdict = all.iter().find(|known| known.reference == reference).cloned();
                let verdict = verdict.ok_or_else(|| Failure::new(ErrorCode::Internal, "the verdict is not where it was put"))?;
                return Ok(self.make_decision(verdict, all));
            }
        }
        Err(Failure::new(
            ErrorCode::Busy,
            format!("another gate stored a verdict about `{}` first, {MAX_TRIES} times", self.subject),
        ))
    }

    fn make_decision(&self, verdict: VerifiedVerdict, all: Vec<VerifiedVerdict>) -> GateDecision {
        let trust_policy = match &self.candidate.verified_run().trust {
            Trust::Policy(policy) => policy.digest.map(|digest| (policy.name.clone(), digest)),
            Trust::None { .. } => None,
        };
        GateDecision { verdict, all, trust_policy }
    }

    /// Returns the verdicts about this tree by this gate and these rules.
    fn filter_sequence(&self, all: &[VerifiedVerdict]) -> Result<Vec<VerifiedVerdict>, Failure> {
        let (tree, policy) = (self.candidate.tree()?, self.rules.policy(&self.gate));
        let same = |known: &&VerifiedVerdict| {
            let verdict = known.verdict();
            // The same rules in another file are the same rules.
            verdict.gate == self.gate.name
                && verdict.policy.digest == policy.digest
                && verdict.runs.iter().all(|run| run.tree == tree)
        };
        Ok(all.iter().filter(same).cloned().collect())
    }

    /// Returns the runs that are judged, and the number of the look.
    fn plan_look(&self, earlier: &[VerifiedVerdict]) -> LookRuns {
        let (run, looks) = (self.candidate.run_id(), self.gate.looks.len());
        let Some(last) = earlier.last().map(VerifiedVerdict::verdict) else {
            return LookRuns { runs: Vec::new(), number: 1, is_new: true };
        };
        let runs: Vec<RunId> = last.runs.iter().map(|judged| judged.run_id.clone()).collect();
        let look = last.sequence.look;
        if runs.contains(run) {
            self.caller.report(GateEvent::JudgedBefore { run });
            return LookRuns { runs, number: look, is_new: false };
        }
        if look as usize >= looks {
            self.caller.report(GateEvent::NoLookLeft { gate: &self.gate.name, looks, run });
            return LookRuns { runs, number: look, is_new: false };
        }
        LookRuns { runs, number: look + 1, is_new: true }
    }

    fn acknowledgements(&self) -> Result<Vec<Acknowledgement>, Failure> {
        let about = JudgedSubject { subject: self.subject, commit: self.candidate.commit() };
        self.rules.acknowledgements(&|_, accepted| about.is_accepted_by(accepted))
    }

    fn judge(
        &self,
        earlier: &[VerifiedVerdict],
        look: &LookRuns,
        acknowledgements: Vec<Acknowledgement>,
        store: &Store,
        keys: &KeyRing,
    ) -> Result<InputRef, Failure> {
        let mut evidence = Vec::new();
        let judged = earlier.last().map_or(&[][..], |last| last.verdict().runs.as_slice());
        for run in &look.runs {
            let known = judged.iter().find(|judged| judged.run_id == *run);
            let opened =
                (run != self.candidate.run_id()).then(|| Evidence::open(self.run_store, run.as_str(), self.unestablished));
            let opened = opened.transpose()?;
            // A run that was measured again under a name that was judged is other evidence.
            if known.is_some_and(|known| Ok(known.summary) != opened.as_ref().unwrap_or(self.candidate).summary()) {
                let message = format!("the Summary of run `{run}` is not the one that was judged before");
                return Err(Failure::new(ErrorCode::OtherSummary, message).hint("give the new measurement a run id of its own"));
            }
            evidence.extend(opened);
        }
        let mut runs = evidence.iter().map(Evidence::as_run).collect::<Result<Vec<_>, _>>()?;
        if look.is_new {
            runs.push(self.candidate.as_run()?);
        } else if let Some(place) = look.runs.iter().position(|run| run == self.candidate.run_id()) {
            runs.insert(place, self.candidate.as_run()?);
        }
        let input = GateInput {
            gate: &self.gate.name,
            policy: self.rules.policy(&self.gate),
            sequence: Sequence {
                name: self.subject.clone(),
                look: look.number,
                earlier: earlier.iter().map(|known| known.reference.manifest).collect(),
            },
            acknowledgements,
            judged_on: Clock.now(),
            learned: self.rules.history()?,
            both_ways: false,
            policy_changes: policy_changes(self.rules, &self.gate, self.candidate)?,
            definition_changes: candidate_definition_changes(self.rules, self.candidate)?,
            files: self.rules.files().map(RuleFile::artifact).collect(),
            runs,
        };
        let manifest = make_manifest(&input, earlier.iter().map(|known| known.reference).collect())?;
        for file in self.rules.files() {
            store.put(&file.bytes)?;
        }
        let result = TestResult::from_verdict(&manifest.body);
        Ok(seal_with(&keys.signer(Role::Gate)?, store, manifest, result)?.reference)
    }
}

/// Returns the differences between the candidate's own rules and those by which it is judged.
pub(crate) fn policy_changes(rules: &Rules, gate: &spec::Gate, candidate: &Evidence) -> Result<Vec<Difference>, Failure> {
    let own = candidate.own_pipeline()?;
    if own.bytes == rules.pipeline.bytes {
        return Ok(Vec::new());
    }
    Ok(changes(gate, gates(&own)?.iter().find(|own| own.name == gate.name)))
}

/// Returns the differences between the candidate's definitions and those of the target branch.
pub(crate) fn candidate_definition_changes(rules: &Rules, candidate: &Evidence) -> Result<Vec<Difference>, Failure> {
    definition_changes(rules, &candidate.own_pipeline()?, &candidate.files())
}

/// Returns true if a verdict was made with these acknowledgements, and none of them expires earlier than it did then: an
/// acknowledgement is no evidence, so the same evidence is judged again with it.
fn has_same_acknowledgements(verdict: &Verdict, now: &[Acknowledgement]) -> bool {
    let today = Clock.now();
    let expired_since = |accepted: &Acknowledgement| verdict.judged_on < accepted.expires && accepted.expires <= today;
    verdict.acknowledgements == now && !now.iter().any(expired_since)
}

/// Makes the verdict's manifest, from the Summaries of its runs and the verdicts before it.
pub(crate) fn make_manifest(input: &GateInput<'_>, earlier: Vec<InputRef>) -> Result<Manifest<Verdict>, Failure> {
    let verdict = judge(input).map_err(|refusal| {
        Failure::new(ErrorCode::NotJudged, refusal.to_string()).hint("see `comparison` and `gates` of the pipeline")
    })?;
    let run = input.runs.last().map(|run| run.run_id.clone());
    let run = run.ok_or_else(|| Failure::new(ErrorCode::Internal, "a verdict has no run"))?;
    let summaries = input.runs.iter().map(|run| run.summary.0);
    Ok(Manifest::new(run, summaries.chain(earlier).collect(), verdict))
}
