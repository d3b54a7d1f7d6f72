//! `assay explain`: why the numbers of a run, or of a side of its comparison, are worse than those of another.

mod text;
mod windows;

use assay_diagnosis::{Explanation, Pair, explain, rules};
use assay_manifest::{CaseId, Outcome, Plan, Summary, Verdict};
use assay_report::gate::Why;
use assay_runs::{RunStore, VerifiedRun};
use assay_stage::{ErrorCode, Exit, Failure};
use serde_json::json;

use crate::commands::explain::windows::{CaseWindows, read_windows};
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
    #[command(flatten)]
    place: StoreOptions,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
}

/// Returns what explains the regression of a verdict best, from the newest run that it judges; `None` for another outcome. A run that cannot be
/// read is no reason to withhold a verdict: the failure is what is said.
pub(crate) fn why(verdict: &Verdict, place: &RunStore) -> Option<Why> {
    let run = verdict.runs.last().filter(|_| verdict.outcome == Outcome::Regressed)?;
    let pairs = place.open(run.run_id.as_str()).and_then(|run| pair_sides(&run));
    let command = format!("`assay explain {}` shows what was checked and what was not", run.run_id);
    Some(match pairs {
        Ok((_, pairs)) => {
            let explanation = explain(rules(), &pairs);
            Why {
                headline: text::headline(&explanation),
                details: text::first_finding(&explanation).into_iter().chain([command]).collect(),
            }
        }
        Err(failure) => {
            Why { headline: "Not explained: its run cannot be read again".to_owned(), details: vec![failure.message] }
        }
    })
}

/// A side of the explanation.
struct Side {
    /// The name for people: a run, or a case of one.
    name: String,
    windows: Vec<CaseWindows>,
}

impl Explain {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let candidate = self.place.open(&self.run)?;
        let against = self.against.as_ref().map(|run| self.place.open(run)).transpose()?;
        let (sides, pairs) = match &against {
            Some(baseline) => pair_runs(baseline, &candidate)?,
            None => pair_sides(&candidate)?,
        };
        let explanation = explain(rules(), &pairs);
        if self.json {
            output::json(&document(&sides, &explanation))?;
        } else {
            text::lines(&sides, &explanation).iter().for_each(output::line);
        }
        let established = candidate.chain.is_established() && against.is_none_or(|run| run.chain.is_established());
        Ok(output::established(established))
    }
}

/// Names of the sides, baseline first.
type Names = [String; 2];

fn document([baseline, candidate]: &Names, explanation: &Explanation) -> serde_json::Value {
    json!({"baseline": baseline, "candidate": candidate, "explanation": explanation})
}

/// Pairs the points that two runs have in common: same case, same point, and same work.
fn pair_runs(baseline: &VerifiedRun, candidate: &VerifiedRun) -> Result<(Names, Vec<Pair>), Failure> {
    let [before, now] = [baseline, candidate].map(|run| (run.chain.run_id.to_string(), run));
    let sides = [side(&before.0, baseline)?, side(&now.0, candidate)?];
    let is_of = |one: &CaseWindows, other: &CaseWindows| one.case == other.case;
    paired(sides, is_of)
}

/// Pairs the points of both sides of a run's own comparison.
fn pair_sides(run: &VerifiedRun) -> Result<(Names, Vec<Pair>), Failure> {
    let plan = run.chain.one::<Plan>().map(|plan| &plan.body);
    let Some((plan, comparison)) = plan.and_then(|plan| Some((plan, plan.comparison.as_ref()?))) else {
        let message = format!("run `{}` compares nothing, so there is nothing to explain it by", run.chain.run_id);
        return Err(Failure::new(ErrorCode::NothingCompared, message)
            .hint("name an earlier run of the same work with `--against`; `assay runs` lists them"));
    };
    let all = read_windows(run)?;
    let of = |side: &assay_manifest::Side| -> Side {
        let cases = plan.cases.iter().filter(|case| case.target == side.target && case.variant == side.variant);
        let cases: Vec<&CaseId> = cases.map(|case| &case.case_id).collect();
        let windows = all.iter().filter(|found| cases.iter().any(|case| case.as_str() == found.case)).cloned().collect();
        Side { name: format!("{} {}", side.target, side.variant), windows }
    };
    let workload = |case: &str| plan.cases.iter().find(|found| found.case_id.as_str() == case).map(|found| &found.workload);
    paired([of(&comparison.baseline), of(&comparison.candidate)], |one, other| workload(&one.case) == workload(&other.case))
}

fn side(name: &str, run: &VerifiedRun) -> Result<Side, Failure> {
    Ok(Side { name: name.to_owned(), windows: read_windows(run)? })
}

fn paired(sides: [Side; 2], is_of: impl Fn(&CaseWindows, &CaseWindows) -> bool) -> Result<(Names, Vec<Pair>), Failure> {
    let [baseline, candidate] = sides;
    let same = |now: &CaseWindows| {
        let mut found = baseline.windows.iter().filter(|before| is_of(before, now) && before.point == now.point);
        found.find(|before| before.workload_spec_digest == now.workload_spec_digest)
    };
    let pairs: Vec<Pair> = candidate
        .windows
        .iter()
        .filter_map(|now| {
            let before = same(now)?;
            let (case, point) = (now.case.clone(), now.point.clone());
            Some(Pair { case, point, baseline: before.windows.clone(), candidate: now.windows.clone() })
        })
        .collect();
    if pairs.is_empty() {
        let message = format!("`{}` and `{}` have no point of the same work in common", baseline.name, candidate.name);
        return Err(Failure::new(ErrorCode::NothingCompared, message)
            .hint("`assay compare` of two runs says which cases and points each has, and which of them are of other work"));
    }
    Ok(([baseline.name, candidate.name], pairs))
}

/// Returns the Summary of a run.
fn summary(run: &VerifiedRun) -> Result<&Summary, Failure> {
    let summary = run.chain.one::<Summary>().map(|summary| &summary.body);
    summary.ok_or_else(|| Failure::new(ErrorCode::NoSummary, format!("run `{}` has no Summary yet", run.chain.run_id)))
}
