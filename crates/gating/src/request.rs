//! The judgement of a run by the gates of its pipeline, from the rules to the verdicts.

use std::path::PathBuf;

use assay_manifest::Name;
use assay_runs::RunStore;
use assay_spec as spec;
use assay_stage::{ErrorCode, Failure};
use assay_store::Store;

use crate::caller::{Caller, GateEvent};
use crate::decide::{GateDecider, GateDecision};
use crate::evidence::Evidence;
use crate::rules::{Branch, Rules, gates, has_comparison};
use crate::top_up;

/// The origin of the rules.
#[derive(Clone, Debug)]
pub enum RuleOrigin {
    /// The default branch of `origin`.
    DefaultBranch,
    /// A branch or commit of the repository around the working folder.
    Branch(String),
    /// A pipeline file; acknowledgements are in `acks` beside it, and learned noise in `noise`.
    File(PathBuf),
}

/// A run to judge, and the rules to judge it by.
#[derive(Clone, Debug)]
pub struct GateRequest {
    /// The run.
    pub run: String,
    /// The store of the run and of the verdicts. Without a trust root, that of the target branch applies.
    pub store: RunStore,
    /// The origin of the rules.
    pub rules: RuleOrigin,
    /// The gate to judge by; `None` for every gate of the pipeline.
    pub gate: Option<Name>,
    /// The number of the judged pull request: its verdicts are one sequence.
    pub pull: Option<u32>,
    /// The required pipeline of the run.
    pub pipeline: Option<String>,
    /// The required commit of the run, by itself or merged into the target branch.
    pub head: Option<String>,
    /// True if an inconclusive verdict with a look left runs the pipeline once more.
    pub top_up: bool,
    /// True if evidence of unknown signers is judged.
    pub unestablished: bool,
}

/// The origin of the rules, with its branch opened.
enum OpenedRuleOrigin {
    Branch(Box<Branch>),
    File(PathBuf),
}

impl GateRequest {
    /// Judges the run by each gate, and returns the decisions in the order of the gates.
    pub fn judge(&self, caller: &dyn Caller) -> Result<Vec<GateDecision>, Failure> {
        let origin = self.open_rule_origin()?;
        let run_store = self.find_run_store(&origin)?;
        let mut candidate = Evidence::open(&run_store, &self.run, self.unestablished)?;
        self.check_run(&candidate)?;
        if let (Some(head), OpenedRuleOrigin::Branch(branch)) = (&self.head, &origin) {
            candidate.merged_with(head).into_iter().try_for_each(|with| branch.check_merged(head, with))?;
        }
        let rules = read_rules(&origin, &candidate, caller)?;
        let subject = self.subject(&candidate)?;
        let store = Store::open(&run_store.store_uri()?)?;
        let keys = caller.gate_key()?;
        let gates = select_gates(&rules, self.gate.as_ref())?;
        let decide = |gate: &spec::Gate, candidate: &Evidence| {
            let (rules, subject, run_store, unestablished) = (&rules, &subject, &run_store, self.unestablished);
            GateDecider { gate: gate.clone(), rules, candidate, subject, run_store, unestablished, caller }.decide(&store, &keys)
        };
        let mut decided = gates.iter().map(|gate| decide(gate, &candidate)).collect::<Result<Vec<_>, _>>()?;
        // Each round uses a look of every undecided gate, so there are no more rounds than looks.
        while self.top_up && decided.iter().any(GateDecision::may_be_topped_up) {
            if let Some(reason) = top_up::explain_futile_looks(&decided) {
                caller.report(GateEvent::LooksFutile { reason: &reason });
                break;
            }
            let run = top_up::run_again(&candidate, &decided, &store, caller)?;
            candidate = Evidence::open(&run_store, run.as_str(), self.unestablished)?;
            for (gate, decided) in gates.iter().zip(&mut decided).filter(|(_, decided)| decided.may_be_topped_up()) {
                *decided = decide(gate, &candidate)?;
            }
        }
        Ok(decided)
    }

    /// Checks the pipeline and the commit of the run against the request.
    fn check_run(&self, candidate: &Evidence) -> Result<(), Failure> {
        let run = candidate.run_id();
        let own = candidate.own_pipeline()?.path;
        if let Some(wanted) = self.pipeline.as_ref().filter(|wanted| **wanted != own) {
            return Err(Failure::new(ErrorCode::OtherPipeline, format!("run `{run}` is of pipeline `{own}`, not of `{wanted}`")));
        }
        let is_whole = |head: &&str| head.len() == 40 && head.bytes().all(|byte| byte.is_ascii_hexdigit());
        if let Some(head) = self.head.as_deref().filter(|head| !is_whole(head)) {
            return Err(Failure::new(
                ErrorCode::Head,
                format!("`--head {head}` is not a full commit id (40 hexadecimal digits)"),
            )
            .hint("`git rev-parse` prints it for a branch, a tag or an abbreviated id"));
        }
        let Some(wanted) = self.head.as_deref().filter(|head| !candidate.has_measured(head)) else { return Ok(()) };
        let found = candidate.commit().unwrap_or("no commit");
        let message = format!("run `{run}` measured {found}, which is neither {wanted} nor a merge of it");
        Err(Failure::new(ErrorCode::OtherCommit, message))
    }

    fn open_rule_origin(&self) -> Result<OpenedRuleOrigin, Failure> {
        match &self.rules {
            RuleOrigin::File(path) => Ok(OpenedRuleOrigin::File(path.clone())),
            RuleOrigin::Branch(rev) => Ok(OpenedRuleOrigin::Branch(Box::new(Branch::open(rev)?))),
            RuleOrigin::DefaultBranch => {
                Branch::open("origin/HEAD").map(|branch| OpenedRuleOrigin::Branch(Box::new(branch))).map_err(|failure| {
                    let message = "the target branch is unknown: this checkout has no default branch of `origin`";
                    Failure { message: message.to_owned(), code: ErrorCode::NoBaseline, ..failure }
                        .hint("name the target branch: `--baseline main`")
                })
            }
        }
    }

    /// Returns the store of the runs. By default, it uses the trust policy of the target branch.
    fn find_run_store(&self, origin: &OpenedRuleOrigin) -> Result<RunStore, Failure> {
        let mut run_store = self.store.clone();
        let OpenedRuleOrigin::Branch(branch) = origin else { return Ok(run_store) };
        if let Some(policy) = branch.trust()?.filter(|_| run_store.trust.is_empty()) {
            let digest = run_store.open_store()?.put(&policy.bytes)?;
            run_store.trust = vec![digest.to_string()];
        }
        Ok(run_store)
    }

    /// Returns the name of the sequence of verdicts: the pull request or, without one, the tree.
    fn subject(&self, candidate: &Evidence) -> Result<Name, Failure> {
        let tree = candidate.tree()?;
        let name = match self.pull {
            Some(number) => format!("pr-{number}"),
            None => format!("tree-{}", assay_report::short_commit(tree.trim_start_matches("sha256:"))),
        };
        name.parse().map_err(|error| Failure::new(ErrorCode::Internal, "a subject has no name").because(&error))
    }
}

/// Reads the rules for the candidate's pipeline.
fn read_rules(origin: &OpenedRuleOrigin, candidate: &Evidence, caller: &dyn Caller) -> Result<Rules, Failure> {
    let own = candidate.own_pipeline()?;
    match origin {
        OpenedRuleOrigin::Branch(branch) => {
            caller.report(GateEvent::RulesRead { branch: &branch.describe() });
            branch.rules(&own.path)
        }
        OpenedRuleOrigin::File(path) => Rules::from_file(path),
    }
}

/// Returns the gates of the rules, or the named one.
pub(crate) fn select_gates(rules: &Rules, name: Option<&Name>) -> Result<Vec<spec::Gate>, Failure> {
    let mut all = gates(&rules.pipeline)?;
    let names: Vec<_> = all.iter().map(|gate| gate.name.to_string()).collect();
    if let Some(named) = name {
        all.retain(|gate| gate.name == *named);
    }
    if all.is_empty() {
        let file = &rules.pipeline.path;
        let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let message = match name {
            Some(named) => format!("`{file}` has no gate `{named}`; its gates: {known}"),
            None => format!("`{file}` has no `gates`, so nothing says how to judge"),
        };
        return Err(Failure::new(ErrorCode::NoGate, message).hint(gate_hint(!names.is_empty(), has_comparison(&rules.pipeline)?)));
    }
    Ok(all)
}

/// Returns the remedy of a gate that is not there. Only a pipeline with a comparison can have gates.
fn gate_hint(has_gates: bool, has_comparison: bool) -> &'static str {
    match (has_gates, has_comparison) {
        (true, _) => "name one of its gates, or leave `--gate` out to judge by all of them",
        (false, true) => "a gate is written as `gates: [{name: latency, budget_pct: 5}]`",
        (false, false) => {
            "`assay gate RUN --baseline history` compares the run with earlier runs; `gates` need a `comparison` of two sides of one run, which \
             `docs/gates.md` describes"
        }
    }
}
