//! `assay gate`: decides whether a candidate got worse, with known error rates, signed, and repeatable byte for byte.

mod history;
mod show;

use std::path::PathBuf;
use std::process::Stdio;

use assay_gating::{
    Caller, ForeignGateRequest, GateEvent, GateRequest, RepeatedRun, RuleOrigin, VerifiedVerdict, compare_with_history, replay,
};
use assay_manifest::{Name, Outcome, Role};
use assay_report::counted;
use assay_runner::{Config, KeyRing, LocalKeys};
use assay_runs::RunStore;
use assay_stage::{ErrorCode, Exit, Failure, key_password};

use crate::commands::foreign_verdict;
use crate::commands::query::{report_fetched, report_left_out};
use crate::commands::run::make_missing_keys;
use crate::commands::store_options::StoreOptions;
use crate::output;

/// The keyword that selects a comparison with earlier runs, in place of a branch.
const HISTORY: &str = "history";

/// Judge the comparison of a run: exit code 0 if nothing regressed, 40 for a regression, 41 if the evidence is inconclusive.
///
/// The rules come from the target branch, not from the judged change. The verdict is signed and kept in the store: judging the
/// same tree again adds the trials of another run to the evidence, within the remaining error budget, and never replaces a
/// verdict.
#[derive(clap::Args)]
pub(crate) struct Gate {
    /// The run to judge
    #[arg(value_name = "RUN", required_unless_present_any = ["replay", "foreign"])]
    run: Option<String>,
    /// The target branch, or a commit of it, whose rules apply: gates, acknowledgements, trust. `history` compares the run with earlier runs and
    /// never blocks [default: `origin/HEAD`]
    #[arg(long, value_name = "REV|history", conflicts_with = "policy")]
    baseline: Option<String>,
    /// Judge foreign evidence (`assay import results`) instead of a run: the evidence of the baseline, and after `--` that of the candidate. A name, a
    /// beginning of names with a `*`, or a digest. The exit code is 0 unless the file of `--policy` allows foreign evidence
    #[arg(long, value_name = "EVIDENCE", num_args = 1.., requires = "candidate",
        conflicts_with_all = ["run", "baseline", "name", "pull", "pipeline", "head", "top_up", "replay"])]
    foreign: Vec<String>,
    /// The foreign evidence of the candidate
    #[arg(last = true, value_name = "CANDIDATE", requires = "foreign")]
    candidate: Vec<String>,
    /// Judge by the gates of this pipeline file instead of a branch's; acknowledgements are in `acks` beside it, and learned
    /// noise in `noise`. With `--foreign`: by the rules of this ForeignGate file
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
    /// The required commit of the run, by itself or merged into the target branch [default: any]
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

impl Gate {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let caller = CommandLine { store: self.place.runs() };
        if let Some(verdict) = &self.replay {
            show_replayed(&replay(verdict, &caller.store)?);
            return Ok(Exit::Done);
        }
        if !self.foreign.is_empty() {
            let request = ForeignGateRequest {
                baseline: self.foreign,
                candidate: self.candidate,
                store: caller.store.clone(),
                policy: self.policy,
                unestablished: self.unestablished,
            };
            return foreign_verdict::judge(&request, &caller, self.to.as_deref(), self.json);
        }
        if self.baseline.as_deref() == Some(HISTORY) {
            self.refuse_what_history_ignores()?;
            let run = self.run.as_deref().unwrap_or_default();
            let judged = compare_with_history(run, self.name.as_ref(), &caller.store, self.unestablished, &caller)?;
            return history::show(&judged, self.json);
        }
        let decided = self.request().judge(&caller)?;
        let exit = decided.iter().map(|decided| exit_for(decided.verdict.verdict().outcome)).fold(Exit::Done, worse_exit);
        show::show(&decided, self.to.as_deref(), self.json, &caller.store)?;
        Ok(exit)
    }

    fn request(&self) -> GateRequest {
        let rules = match (&self.policy, &self.baseline) {
            (Some(path), _) => RuleOrigin::File(path.clone()),
            (None, Some(rev)) => RuleOrigin::Branch(rev.clone()),
            (None, None) => RuleOrigin::DefaultBranch,
        };
        GateRequest {
            run: self.run.clone().unwrap_or_default(),
            store: self.place.runs(),
            rules,
            gate: self.name.clone(),
            pull: self.pull,
            pipeline: self.pipeline.clone(),
            head: self.head.clone(),
            top_up: self.top_up,
            unestablished: self.unestablished,
        }
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
}

/// The command line, which calls a gate.
struct CommandLine {
    store: RunStore,
}

impl Caller for CommandLine {
    fn report(&self, event: GateEvent<'_>) {
        if let GateEvent::HistoryRead { fetched, left_out, .. } = event {
            report_left_out(left_out);
            report_fetched(fetched);
        }
        if let Some(text) = describe(event) {
            output::diagnostic(text);
        }
    }

    fn gate_key(&self) -> Result<KeyRing, Failure> {
        let (config, password) = (Config::find()?, key_password());
        let keys = LocalKeys::new(&config);
        // A machine that only judges may have no other key.
        if keys.missing().contains(&Role::Gate) {
            make_missing_keys(&config, password.as_encoded_bytes())?;
        }
        Ok(keys.unlock(&[Role::Gate], password.as_encoded_bytes())?)
    }

    fn run_again(&self, run: &RepeatedRun<'_>) -> Result<(), Failure> {
        let RepeatedRun { pipeline, commit, run_id } = run;
        let this = std::env::current_exe()
            .map_err(|error| Failure::new(ErrorCode::Binaries, "cannot find the running program").because(&error))?;
        let mut command = std::process::Command::new(this);
        command.args(["run", pipeline, "--commit", commit, "--run-id", run_id.as_str(), "--no-push", "--store"]);
        command.arg(self.store.store_uri()?).stdin(Stdio::null()).stdout(Stdio::null());
        let ended =
            command.status().map_err(|error| Failure::new(ErrorCode::Binaries, "cannot run `assay run`").because(&error))?;
        match Exit::from_code(ended.code().unwrap_or(1)) {
            Exit::Done | Exit::Unestablished => Ok(()),
            exit => Err(Failure::new(ErrorCode::TopUp, format!("the run `{run_id}` did not come to its end"))
                .with_exit(exit)
                .hint("the verdict before it stands; judge again when the run can be made")),
        }
    }
}

/// Describes an event in one line; `None` if there is nothing to report.
fn describe(event: GateEvent<'_>) -> Option<String> {
    Some(match event {
        GateEvent::RulesRead { branch } => format!("rules of {branch}"),
        GateEvent::VerdictStands { number, subject } => format!("verdict {number} about `{subject}` stands"),
        GateEvent::JudgedBefore { run } => format!("run `{run}` was judged before"),
        GateEvent::NoLookLeft { gate, looks, run } => {
            let allowed = counted(looks as u64, "look");
            let had = if looks == 1 { "it" } else { "them" };
            format!("`{gate}` allows {allowed} at this tree, and had {had}: run `{run}` is not judged")
        }
        GateEvent::LooksFutile { reason } => format!("not run once more: {reason}"),
        GateEvent::RunsAgain(RepeatedRun { pipeline, commit, run_id }) => {
            let commit = assay_report::short_commit(commit);
            format!("inconclusive, and a look is left: running `{pipeline}` at {commit} once more, as `{run_id}`")
        }
        GateEvent::FirstGate { gate, of } => format!("by gate `{gate}`, the first of {of}: `--gate` names another"),
        GateEvent::HistoryRead { is_established: false, .. } => "internally consistent; signer not established".to_owned(),
        GateEvent::HistoryRead { is_established: true, .. } => return None,
    })
}

/// Shows a verdict that was decided again with the same bytes.
fn show_replayed(known: &VerifiedVerdict) {
    let verdict = known.verdict();
    output::line(format!("verdict {}", known.reference.manifest));
    output::line(format!("  ok  signed by {}", known.signer));
    let count = |count: usize, what: &str| counted(count as u64, what);
    output::line(format!(
        "  ok  {} verified to level 1 (chain): `assay verify` reads their raw bytes, too",
        count(verdict.runs.len(), "run")
    ));
    output::line(format!("  ok  {} of rules", count(verdict.files.len(), "file")));
    output::line(format!("  ok  decided again, with the same bytes: {}", verdict.outcome_label()));
}

/// Returns the exit code of an outcome, whether or not the policy blocks on it.
pub(crate) fn exit_for(outcome: Outcome) -> Exit {
    match outcome {
        Outcome::Improved | Outcome::Unchanged => Exit::Done,
        Outcome::Inconclusive => Exit::Inconclusive,
        Outcome::Regressed => Exit::Regression,
    }
}

/// Returns the worse of two exit codes of gates.
pub(crate) fn worse_exit(one: Exit, other: Exit) -> Exit {
    let rank = |exit: Exit| match exit {
        Exit::Regression => 2,
        Exit::Inconclusive => 1,
        _ => 0,
    };
    if rank(other) > rank(one) { other } else { one }
}
