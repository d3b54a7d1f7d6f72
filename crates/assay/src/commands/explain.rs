//! `assay explain`: why the numbers of a run, or of a side of its comparison, are worse than those of another.

mod experiment;

use std::path::{Path, PathBuf};

use assay_diagnosis::{Conclusion, Explanation};
use assay_manifest::{Outcome, Plan, Verdict};
use assay_report::gate::Why;
use assay_report::{Explained, shell_word};
use assay_runs::{RunStore, VerifiedRun};
use assay_stage::{ErrorCode, Exit, Failure};
use assay_verify::{CaseWindows, NamedSide, Paired, pair, pair_sides, read_cluster_objects, read_windows, workload_of};
use serde_json::json;

use crate::commands::store_options::StoreOptions;
use crate::output;

/// Explain why a run is worse than another, or the candidate of its comparison than the baseline: from what was recorded while both were
/// measured, by the rules of docs/reference/diagnosis.md. A finding is associated with the difference; an experiment has to confirm it.
#[derive(clap::Args)]
pub(crate) struct Explain {
    /// The run whose numbers are to be explained: its name or published folder
    #[arg(value_name = "RUN")]
    run: String,
    /// The run that it is compared with [default: the baseline of the run's own comparison]
    #[arg(long, value_name = "RUN")]
    against: Option<String>,
    /// Write the experiment that would confirm the first finding that a change of the workload confirms, as a workload and a pipeline, into this folder: a
    /// repository
    #[arg(long, value_name = "FOLDER")]
    experiment: Option<PathBuf>,
    #[command(flatten)]
    place: StoreOptions,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
}

/// Returns what explains the regression of a verdict best, from the newest run that it judges; `None` for another outcome. A failure is no reason to
/// withhold a verdict: it is what is said.
pub(crate) fn why(verdict: &Verdict, place: &RunStore) -> Option<Why> {
    let run = verdict.runs.last().filter(|_| verdict.outcome == Outcome::Regressed)?;
    let explained = place.open(run.run_id.as_str()).and_then(|run| explain_verdict(verdict, &run));
    let command = format!("`assay explain {}` shows what was checked and what was not", run.run_id);
    Some(match explained {
        Ok((headline, explained)) => Why { headline, details: explained.first_finding().into_iter().chain([command]).collect() },
        Err(failure) => Why { headline: format!("Not explained: {}", failure.message), details: Vec::new() },
    })
}

/// Explains the metrics that a verdict found to be worse. The gate compares pairs, and finds smaller changes than sides that are not paired show.
fn explain_verdict(verdict: &Verdict, run: &VerifiedRun) -> Result<(String, Explained), Failure> {
    let mut paired = pair_own_sides(run)?;
    let plan = plan_of(run);
    let regressed: Vec<_> =
        verdict.metrics.iter().filter(|metric| metric.primary && metric.outcome == Outcome::Regressed).collect();
    for pair in &mut paired.pairs {
        let workload = plan.and_then(|plan| workload_of(plan, &pair.case));
        let here = regressed.iter().filter(|metric| Some(&metric.workload) == workload && metric.point_id.as_str() == pair.point);
        pair.known_worse = here.map(|metric| metric.metric.clone()).collect();
    }
    // What got worse elsewhere is no reason for what blocks.
    if !regressed.is_empty() {
        paired.pairs.retain(|pair| !pair.known_worse.is_empty());
    }
    let explained = paired.explain();
    let explanation = &explained.explanation;
    let headline = match explanation.conclusion {
        Conclusion::Found => explained.headline(),
        _ if regressed.is_empty() => "Not explained: what blocks is a rule, not a metric that got worse".to_owned(),
        Conclusion::NothingFound => "Not explained: nothing that was recorded moved with it".to_owned(),
        Conclusion::CannotTell | Conclusion::NotWorse => format!("Not explained: {}", explained.open_questions()),
    };
    Ok((headline, explained))
}

impl Explain {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let candidate = self.place.open(&self.run)?;
        let against = self.against.as_ref().map(|run| self.place.open(run)).transpose()?;
        let paired = match &against {
            Some(baseline) => pair_runs(baseline, &candidate)?,
            None => pair_own_sides(&candidate)?,
        };
        let explained = paired.explain();
        if self.json {
            output::json(&document(&explained))?;
        } else {
            explained.lines().iter().for_each(output::line);
        }
        let established = candidate.chain.is_established() && against.as_ref().is_none_or(|run| run.chain.is_established());
        if let Some(folder) = &self.experiment {
            if !established {
                let message = "who signed the run is not established, and its definitions would be written as yours";
                return Err(Failure::new(ErrorCode::SignerNotEstablished, message)
                    .hint("name whom you trust with `--trust POLICY` or `--trust FINGERPRINT`"));
            }
            write_experiment(folder, &candidate, &explained.explanation, against.is_some())?;
        }
        Ok(output::established(established))
    }
}

/// Writes the experiment that would confirm the first finding, and says on standard error how it is run.
fn write_experiment(folder: &Path, run: &VerifiedRun, explanation: &Explanation, of_two_runs: bool) -> Result<(), Failure> {
    let first = explanation.findings.first().ok_or_else(|| {
        Failure::new(ErrorCode::NoExperiment, "no rule holds, so there is no finding to confirm")
            .hint("more trials, or longer ones, show smaller changes")
    })?;
    let finding = explanation.findings.iter().find(|finding| finding.experiment.is_some()).unwrap_or(first);
    let made = experiment::make(run, finding)?;
    experiment::write(folder, &made.files)?;
    for path in made.files.keys() {
        output::diagnostic(format!("written {}", folder.join(path).display()));
    }
    output::diagnostic(format!("next, in {} and with both files committed:", folder.display()));
    output::diagnostic(format!("  assay run {} --run-id NAME", shell_word(&made.pipeline.display().to_string())));
    let against = if of_two_runs { " --against NAME-OF-THE-OTHER-SIDE" } else { "" };
    output::diagnostic(format!("  assay explain NAME{against}"));
    Ok(())
}

fn document(Explained { sides: [baseline, candidate], left_out, explanation }: &Explained) -> serde_json::Value {
    json!({"baseline": baseline, "candidate": candidate, "left_out": left_out, "explanation": explanation})
}

fn plan_of(run: &VerifiedRun) -> Option<&Plan> {
    run.chain.one::<Plan>().map(|plan| &plan.body)
}

fn windows(run: &VerifiedRun) -> Result<Vec<CaseWindows>, Failure> {
    let found = read_windows(run.blobs.as_ref(), plan_of(run), run.summary()?)?;
    if found.is_empty() {
        return Err(Failure::new(ErrorCode::NothingCompared, format!("run `{}` has no attempt", run.chain.run_id)));
    }
    Ok(found)
}

/// Pairs the points that two runs have in common: same case, same point, and same work.
fn pair_runs(baseline: &VerifiedRun, candidate: &VerifiedRun) -> Result<Paired, Failure> {
    let side = |run: &VerifiedRun| -> Result<NamedSide, Failure> {
        Ok(NamedSide { name: run.chain.run_id.to_string(), windows: windows(run)? })
    };
    let objects = |run: &VerifiedRun| -> Result<_, Failure> { Ok(read_cluster_objects(run.blobs.as_ref(), run.summary()?)?) };
    let paired = something_in_common(pair([side(baseline)?, side(candidate)?], |one, other| one.case == other.case))?;
    Ok(paired.with_cluster_objects([objects(baseline)?, objects(candidate)?]))
}

/// Pairs the points of both sides of a run's own comparison.
fn pair_own_sides(run: &VerifiedRun) -> Result<Paired, Failure> {
    let nothing = || {
        let message = format!("run `{}` compares nothing, so there is nothing to explain it by", run.chain.run_id);
        Failure::new(ErrorCode::NothingCompared, message)
            .hint("name an earlier run of the same work with `--against`; `assay runs` lists them")
    };
    let plan = plan_of(run).filter(|plan| plan.comparison.is_some()).ok_or_else(nothing)?;
    something_in_common(pair_sides(plan, &windows(run)?).ok_or_else(nothing)?)
}

fn something_in_common(paired: Paired) -> Result<Paired, Failure> {
    if paired.pairs.is_empty() {
        let [baseline, candidate] = &paired.sides;
        let message = format!("`{baseline}` and `{candidate}` have no point of the same work in common");
        return Err(Failure::new(ErrorCode::NothingCompared, message)
            .hint("`assay compare` of two runs says which cases and points each has, and which of them are of other work"));
    }
    Ok(paired)
}
