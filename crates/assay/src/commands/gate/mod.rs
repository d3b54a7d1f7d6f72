//! `assay gate`: decides whether a candidate got worse, with known error rates, signed, and repeatable byte for byte.

pub(crate) mod evidence;
mod history;
mod replay;
mod rules;
pub(crate) mod sequence;
mod show;
mod top_up;

use std::path::PathBuf;

use assay_envelope::{TestResult, Trust};
use assay_gate::{GateInput, judge};
use assay_manifest::{Acknowledgement, Digest, InputRef, Manifest, Name, Outcome, Role, RunId, Sequence, Verdict};
use assay_runner::{Config, KeyRing, LocalKeys, gate_signers};
use assay_runs::RunStore;
use assay_spec as spec;
use assay_stage::{Clock, ErrorCode, Exit, Failure, seal_with};
use assay_store::Store;

use crate::commands::gate::evidence::Evidence;
use crate::commands::gate::rules::{Branch, JudgedSubject, Rules, changes, definition_changes, gates};
use crate::commands::gate::sequence::{VerifiedVerdict, append, read_verdicts, trust_own_gate};
use crate::commands::run::make_missing_keys;
use crate::commands::store_options::StoreOptions;
use crate::output;

/// The keyword that selects a comparison with earlier runs, in place of a branch.
const HISTORY: &str = "history";

/// The limit on retries because another gate appended first.
const MAX_TRIES: u32 = 100;

/// Judge the comparison of a run: exit code 0 if nothing regressed, 40 for a regression, 41 if the evidence is inconclusive.
///
/// The rules come from the target branch, not from the judged change. The verdict is signed and kept in the store: judging the
/// same tree again adds the trials of another run to the evidence, within the remaining error budget, and never replaces a
/// verdict.
#[derive(clap::Args)]
pub(crate) struct Gate {
    /// The run to judge
    #[arg(value_name = "RUN", required_unless_present = "replay")]
    run: Option<String>,
    /// The branch or commit whose rules apply: gates, acknowledgements, trust. `history` compares the run with earlier runs and
    /// never blocks [default: `origin/HEAD`]
    #[arg(long, value_name = "REV|history", conflicts_with = "policy")]
    baseline: Option<String>,
    /// Judge by the gates of this pipeline file instead of a branch's; acknowledgements are in `acks` beside it, and learned
    /// noise in `noise`
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// The gate to judge by [default: every gate of the pipeline]
    #[arg(long = "gate", value_name = "NAME")]
    name: Option<Name>,
    /// The number of the judged pull request: its verdicts are one sequence
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    pull: Option<u32>,
    /// The required pipeline of the run [default: any]
    #[arg(long, value_name = "FILE")]
    pipeline: Option<String>,
    /// The required commit of the run, by itself or merged into the branch of the rules [default: any]
    #[arg(long, value_name = "SHA")]
    head: Option<String>,
    /// If the verdict is inconclusive and a look is left, run the pipeline once more and judge both runs together
    #[arg(long)]
    top_up: bool,
    /// Write the verdict and its reports to this folder, one folder per gate
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// Judge evidence of unknown signers, and record this in the verdict
    #[arg(long)]
    unestablished: bool,
    /// Reproduce a verdict from the inputs that it names, and compare every byte
    #[arg(long, value_name = "VERDICT", conflicts_with_all = ["run", "baseline", "policy", "name", "pull", "pipeline", "head", "top_up", "to", "unestablished"])]
    replay: Option<String>,
    #[command(flatten)]
    place: StoreOptions,
    /// Print the verdicts as one JSON document
    #[arg(long)]
    json: bool,
}

/// The source of the rules.
enum RuleSource {
    Branch(Box<Branch>),
    File(PathBuf),
}

/// The question of one gate, without the earlier verdicts.
struct GateQuestion<'a> {
    gate: spec::Gate,
    rules: &'a Rules,
    candidate: &'a Evidence,
    subject: &'a Name,
    place: &'a RunStore,
    unestablished: bool,
}

/// The runs that are judged, and the number of the look.
struct LookRuns {
    /// The runs of the verdict before.
    runs: Vec<RunId>,
    look: u32,
    /// True if the candidate's trials are new evidence.
    is_new: bool,
}

/// A gate's verdict, with all verdicts about the same subject, oldest first.
struct GateDecision {
    verdict: VerifiedVerdict,
    all: Vec<VerifiedVerdict>,
    /// Name and digest of the trust policy that the evidence was verified under.
    trust_policy: Option<(String, Digest)>,
}

impl Gate {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        // If the reader closes the output, nothing is decided: only a stored verdict ends with success.
        output::set_closed_pipe_exit(Exit::Environment);
        if let Some(verdict) = &self.replay {
            return replay::replay(verdict, &self.place.runs());
        }
        let run = self.run.as_deref().unwrap_or_default();
        if self.baseline.as_deref() == Some(HISTORY) {
            return self.against_history(run);
        }
        let from = self.rule_source()?;
        let place = self.find_place(&from)?;
        let mut candidate = Evidence::open(&place, run, self.unestablished)?;
        self.check_run(&candidate)?;
        if let (Some(head), RuleSource::Branch(branch)) = (&self.head, &from) {
            candidate.merged_with(head).into_iter().try_for_each(|with| branch.check_merged(head, with))?;
        }
        let rules = rules_for(&from, &candidate)?;
        let subject = self.subject(&candidate)?;
        let store = Store::open(&place.store_uri()?)?;
        let keys = gate_key()?;
        let gates = self.gates(&rules)?;
        let asked = |gate: &spec::Gate, candidate: &Evidence| {
            let (rules, subject, place, unestablished) = (&rules, &subject, &place, self.unestablished);
            GateQuestion { gate: gate.clone(), rules, candidate, subject, place, unestablished }.decide(&store, &keys)
        };
        let mut decided = gates.iter().map(|gate| asked(gate, &candidate)).collect::<Result<Vec<_>, _>>()?;
        // Each round uses a look of every undecided gate, so there are no more rounds than looks.
        while self.top_up && decided.iter().any(GateDecision::may_be_topped_up) {
            if let Some(why) = top_up::explain_futile_looks(&decided) {
                output::diagnostic(why);
                break;
            }
            candidate = Evidence::open(&place, &top_up::run_again(&candidate, &decided, &place, &store)?, self.unestablished)?;
            for (gate, decided) in gates.iter().zip(&mut decided).filter(|(_, decided)| decided.may_be_topped_up()) {
                *decided = asked(gate, &candidate)?;
            }
        }
        let exit = decided.iter().map(|decided| exit_for(decided.verdict.verdict().outcome)).fold(Exit::Done, worse_exit);
        show::show(&decided, self.to.as_deref(), self.json, &place, exit)?;
        Ok(exit)
    }

    /// Compares with history, by the run's own rules: the result blocks nothing.
    fn against_history(&self, run: &str) -> Result<Exit, Failure> {
        self.refuse_what_history_ignores()?;
        let candidate = Evidence::open(&self.place.runs(), run, self.unestablished)?;
        let mut rules = Rules::from_run(candidate.own_pipeline()?);
        rules.noise = candidate.own_file(&rules.noise_path()?)?;
        let gates = if self.name.is_some() { self.gates(&rules)? } else { rules.gates()? };
        if let [first, _, ..] = gates.as_slice() {
            output::diagnostic(format!("by gate `{}`, the first of {}: `--gate` names another", first.name, gates.len()));
        }
        history::judge(&candidate, gates.first(), rules.history()?.as_ref(), &self.place.runs(), self.json)
    }

    /// Checks that the run is the one to be judged: it names its own pipeline, and so also what it measured.
    fn check_run(&self, candidate: &Evidence) -> Result<(), Failure> {
        let run = candidate.run_id();
        let own = candidate.own_pipeline()?.path;
        if let Some(wanted) = self.pipeline.as_ref().filter(|wanted| **wanted != own) {
            return Err(Failure::new(
                ErrorCode::OtherPipeline,
                format!("run `{run}` ran `{own}`, and `{wanted}` was to be judged"),
            ));
        }
        let is_whole = |head: &&str| head.len() == 40 && head.bytes().all(|byte| byte.is_ascii_hexdigit());
        if let Some(head) = self.head.as_deref().filter(|head| !is_whole(head)) {
            return Err(Failure::new(ErrorCode::Head, format!("`--head {head}` is no commit's 40 digits"))
                .hint("`git rev-parse` gives them for a branch, a tag or their beginning"));
        }
        let Some(wanted) = self.head.as_deref().filter(|head| !candidate.has_measured(head)) else { return Ok(()) };
        let found = candidate.commit().unwrap_or("no commit");
        let message = format!("run `{run}` measured {found}, which is neither {wanted} nor a merge of it");
        Err(Failure::new(ErrorCode::OtherCommit, message))
    }

    /// Refuses the options that apply only to a verdict.
    fn refuse_what_history_ignores(&self) -> Result<(), Failure> {
        let given = [
            ("--pull", self.pull.is_some()),
            ("--pipeline", self.pipeline.is_some()),
            ("--head", self.head.is_some()),
            ("--to", self.to.is_some()),
            ("--top-up", self.top_up),
        ];
        match given.iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((option, _)) => Err(Failure::new(
                ErrorCode::NoVerdict,
                format!("`--baseline history` gives no verdict, so `{option}` means nothing there"),
            )),
        }
    }

    fn rule_source(&self) -> Result<RuleSource, Failure> {
        match (&self.policy, &self.baseline) {
            (Some(path), _) => Ok(RuleSource::File(path.clone())),
            (None, Some(rev)) => Ok(RuleSource::Branch(Box::new(Branch::open(rev)?))),
            (None, None) => Branch::open("origin/HEAD").map(|branch| RuleSource::Branch(Box::new(branch))).map_err(|failure| {
                let message = "nothing says by whose rules to judge: this checkout knows no default branch of `origin`";
                Failure { message: message.to_owned(), code: ErrorCode::NoBaseline, ..failure }
                    .hint("name the branch that it is to be merged into: `--baseline main`")
            }),
        }
    }

    /// Returns the place to look for runs. By default, it uses the trust policy of the target branch.
    fn find_place(&self, from: &RuleSource) -> Result<RunStore, Failure> {
        let mut place = self.place.runs();
        let RuleSource::Branch(branch) = from else { return Ok(place) };
        if let Some(policy) = branch.trust()?.filter(|_| place.trust.is_empty()) {
            let digest = Store::open_existing(&place.store_uri()?)?.put(&policy.bytes)?;
            place.trust = vec![digest.to_string()];
        }
        Ok(place)
    }

    fn gates(&self, rules: &Rules) -> Result<Vec<spec::Gate>, Failure> {
        let mut all = gates(&rules.pipeline)?;
        let names: Vec<_> = all.iter().map(|gate| gate.name.to_string()).collect();
        if let Some(named) = &self.name {
            all.retain(|gate| gate.name == *named);
        }
        if all.is_empty() {
            let file = &rules.pipeline.path;
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            let message = match &self.name {
                Some(named) => format!("`{file}` has no gate `{named}`; its gates: {known}"),
                None => format!("`{file}` has no `gates`, so nothing says how to judge"),
            };
            return Err(
                Failure::new(ErrorCode::NoGate, message).hint("a gate is written as `gates: [{name: latency, budget_pct: 5}]`")
            );
        }
        Ok(all)
    }

    /// Returns the subject of the verdicts: the pull request or, without one, the tree.
    fn subject(&self, candidate: &Evidence) -> Result<Name, Failure> {
        let tree = candidate.tree()?;
        let name = match self.pull {
            Some(number) => format!("pr-{number}"),
            None => format!("tree-{}", output::short(tree.trim_start_matches("sha256:"))),
        };
        name.parse().map_err(|error| Failure::new(ErrorCode::Internal, "a subject has no name").because(&error))
    }
}

/// Returns the gate's key, which is made at first use.
fn gate_key() -> Result<KeyRing, Failure> {
    let (config, password) = (Config::find()?, std::env::var_os("COSIGN_PASSWORD").unwrap_or_default());
    let keys = LocalKeys::new(&config);
    // A machine that only judges may have no other key.
    if keys.missing().contains(&Role::Gate) {
        make_missing_keys(&config, password.as_encoded_bytes())?;
    }
    keys.unlock(&[Role::Gate], password.as_encoded_bytes())
}

impl GateDecision {
    /// Returns true if more pairs may decide, and the policy has a look left for them.
    fn may_be_topped_up(&self) -> bool {
        let verdict = self.verdict.verdict();
        verdict.outcome == Outcome::Inconclusive && (verdict.sequence.look as usize) < verdict.policy.looks.len()
    }
}

fn rules_for(from: &RuleSource, candidate: &Evidence) -> Result<Rules, Failure> {
    let own = candidate.own_pipeline()?;
    match from {
        RuleSource::Branch(branch) => {
            output::diagnostic(format!("rules of {}", branch.describe()));
            branch.rules(&own.path)
        }
        RuleSource::File(path) => Rules::from_file(path),
    }
}

impl GateQuestion<'_> {
    /// Judges, signs and stores the verdict; or finds the existing one.
    fn decide(&self, store: &Store, keys: &KeyRing) -> Result<GateDecision, Failure> {
        let trust = trust_own_gate(&self.candidate.verified_run().trust, &gate_signers(&Config::find()?)?);
        for _ in 0..MAX_TRIES {
            let mut all = read_verdicts(store, self.subject, &trust)?;
            let earlier = self.filter_sequence(&all)?;
            let acknowledgements = self.acknowledgements()?;
            // A file that others have learned since is no evidence either.
            let learned = self.rules.learned();
            let draw = self.plan_look(&earlier);
            if let Some(standing) = earlier.last().filter(|last| {
                !draw.is_new && has_same_acknowledgements(last.verdict(), &acknowledgements) && last.verdict().learned == learned
            }) {
                output::diagnostic(format!("verdict {} about `{}` stands", standing.number, self.subject));
                return Ok(self.make_decision(standing.clone(), all));
            }
            let number = all.last().map_or(1, |last| last.number + 1);
            let reference = self.judge(&earlier, &draw, acknowledgements, store, keys)?;
            if append(store, self.subject, number, reference)? {
                all = read_verdicts(store, self.subject, &trust)?;
                let verdict = all.iter().find(|known| known.reference == reference).cloned();
                let verdict = verdict.ok_or_else(|| Failure::new(ErrorCode::Internal, "the verdict is not where it was put"))?;
                return Ok(self.make_decision(verdict, all));
            }
        }
        Err(Failure::new(ErrorCode::Busy, format!("others judged `{}` at the same time, {MAX_TRIES} times", self.subject)))
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
            return LookRuns { runs: Vec::new(), look: 1, is_new: true };
        };
        let runs: Vec<RunId> = last.runs.iter().map(|judged| judged.run_id.clone()).collect();
        let look = last.sequence.look;
        if runs.contains(run) {
            output::diagnostic(format!("run `{run}` was judged before"));
            return LookRuns { runs, look, is_new: false };
        }
        if look as usize >= looks {
            let allowed = assay_report::counted(looks as u64, "look");
            let had = if looks == 1 { "it" } else { "them" };
            output::diagnostic(format!(
                "`{}` allows {allowed} at this tree, and had {had}: run `{run}` is not judged",
                self.gate.name
            ));
            return LookRuns { runs, look, is_new: false };
        }
        LookRuns { runs, look: look + 1, is_new: true }
    }

    fn acknowledgements(&self) -> Result<Vec<Acknowledgement>, Failure> {
        let about = JudgedSubject { subject: self.subject, commit: self.candidate.commit() };
        self.rules.acknowledgements(&|_, accepted| about.is_accepted_by(accepted))
    }

    fn judge(
        &self,
        earlier: &[VerifiedVerdict],
        draw: &LookRuns,
        acknowledgements: Vec<Acknowledgement>,
        store: &Store,
        keys: &KeyRing,
    ) -> Result<InputRef, Failure> {
        let mut evidence = Vec::new();
        let judged = earlier.last().map_or(&[][..], |last| last.verdict().runs.as_slice());
        for run in &draw.runs {
            let known = judged.iter().find(|judged| judged.run_id == *run);
            let opened = (run != self.candidate.run_id()).then(|| Evidence::open(self.place, run.as_str(), self.unestablished));
            let opened = opened.transpose()?;
            // A run that was measured again under a name that was judged is other evidence.
            if known.is_some_and(|known| Ok(known.summary) != opened.as_ref().unwrap_or(self.candidate).summary()) {
                let message = format!("the Summary of run `{run}` is not the one that was judged before");
                return Err(Failure::new(ErrorCode::OtherSummary, message).hint("a run that was judged stays as it was"));
            }
            evidence.extend(opened);
        }
        let mut runs = evidence.iter().map(Evidence::as_run).collect::<Result<Vec<_>, _>>()?;
        if draw.is_new {
            runs.push(self.candidate.as_run()?);
        } else if let Some(place) = draw.runs.iter().position(|run| run == self.candidate.run_id()) {
            runs.insert(place, self.candidate.as_run()?);
        }
        let question = GateInput {
            gate: &self.gate.name,
            policy: self.rules.policy(&self.gate),
            sequence: Sequence {
                subject: self.subject.clone(),
                look: draw.look,
                earlier: earlier.iter().map(|known| known.reference.manifest).collect(),
            },
            acknowledgements,
            judged_on: Clock.now(),
            learned: self.rules.history()?,
            policy_changes: policy_changes(self.rules, &self.gate, self.candidate)?,
            definition_changes: changes_of_definitions(self.rules, self.candidate)?,
            files: self.rules.files().map(rules::RuleFile::artifact).collect(),
            runs,
        };
        let manifest = make_manifest(&question, earlier.iter().map(|known| known.reference).collect())?;
        for file in self.rules.files() {
            store.put(&file.bytes)?;
        }
        let result = TestResult::from_verdict(&manifest.body);
        Ok(seal_with(&keys.signer(Role::Gate)?, store, manifest, result)?.reference)
    }
}

/// Returns the differences between the candidate's own rules and those by which it is judged.
fn policy_changes(rules: &Rules, gate: &spec::Gate, candidate: &Evidence) -> Result<Vec<assay_manifest::Difference>, Failure> {
    let own = candidate.own_pipeline()?;
    if own.bytes == rules.pipeline.bytes {
        return Ok(Vec::new());
    }
    Ok(changes(gate, gates(&own)?.iter().find(|own| own.name == gate.name)))
}

/// Returns the differences between the candidate's definitions and those of the rules' branch.
fn changes_of_definitions(rules: &Rules, candidate: &Evidence) -> Result<Vec<assay_manifest::Difference>, Failure> {
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
fn make_manifest(question: &GateInput<'_>, earlier: Vec<InputRef>) -> Result<Manifest<Verdict>, Failure> {
    let verdict = judge(question).map_err(|refusal| {
        Failure::new(ErrorCode::NotJudged, refusal.to_string()).hint("see `comparison` and `gates` of the pipeline")
    })?;
    let run = question.runs.last().map(|run| run.run_id.clone());
    let run = run.ok_or_else(|| Failure::new(ErrorCode::Internal, "a verdict has no run"))?;
    let summaries = question.runs.iter().map(|run| run.summary.0);
    Ok(Manifest::new(run, summaries.chain(earlier).collect(), verdict))
}

/// Returns the exit code of an outcome, whether or not the policy blocks on it.
fn exit_for(outcome: Outcome) -> Exit {
    match outcome {
        Outcome::Improved | Outcome::Unchanged => Exit::Done,
        Outcome::Inconclusive => Exit::Inconclusive,
        Outcome::Regressed => Exit::Regression,
    }
}

fn worse_exit(one: Exit, other: Exit) -> Exit {
    let rank = |exit: Exit| match exit {
        Exit::Regression => 2,
        Exit::Inconclusive => 1,
        _ => 0,
    };
    if rank(other) > rank(one) { other } else { one }
}
