//! `assay explain`: why the numbers of a run, or of a side of its comparison, are worse than those of another.

mod text;
mod windows;

use std::collections::BTreeSet;

use assay_diagnosis::{Conclusion, Explanation, Pair, explain, rules};
use assay_manifest::{CaseId, Name, Outcome, Plan, Verdict};
use assay_report::counted;
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

/// Returns what explains the regression of a verdict best, from the newest run that it judges; `None` for another outcome. A failure is no reason to
/// withhold a verdict: it is what is said.
pub(crate) fn why(verdict: &Verdict, place: &RunStore) -> Option<Why> {
    let run = verdict.runs.last().filter(|_| verdict.outcome == Outcome::Regressed)?;
    let explained = place.open(run.run_id.as_str()).and_then(|run| explain_verdict(verdict, &run));
    let command = format!("`assay explain {}` shows what was checked and what was not", run.run_id);
    Some(match explained {
        Ok((headline, explanation)) => {
            Why { headline, details: text::first_finding(&explanation).into_iter().chain([command]).collect() }
        }
        Err(failure) => Why { headline: format!("Not explained: {}", failure.message), details: Vec::new() },
    })
}

/// Explains the metrics that a verdict found to be worse. The gate compares pairs, and finds smaller changes than sides that are not paired show.
fn explain_verdict(verdict: &Verdict, run: &VerifiedRun) -> Result<(String, Explanation), Failure> {
    let mut paired = pair_sides(run)?;
    let plan = run.chain.one::<Plan>().map(|plan| &plan.body);
    let regressed: Vec<_> =
        verdict.metrics.iter().filter(|metric| metric.primary && metric.outcome == Outcome::Regressed).collect();
    for pair in &mut paired.pairs {
        let workload = plan.and_then(|plan| workload_of(plan, &pair.case));
        let here = regressed.iter().filter(|metric| Some(&metric.workload) == workload && metric.point_id.as_str() == pair.point);
        pair.known_worse = here.map(|metric| metric.metric.clone()).collect();
    }
    let explanation = explain(rules(), &paired.pairs);
    let headline = match explanation.conclusion {
        Conclusion::Found => text::headline(&paired, &explanation),
        _ if regressed.is_empty() => "Not explained: what blocks is a rule, not a metric that got worse".to_owned(),
        Conclusion::NothingFound => "Not explained: nothing that was recorded moved with it".to_owned(),
        Conclusion::CannotTell | Conclusion::NotWorse => {
            let rules = counted(explanation.not_checked.len() as u64, "rule");
            format!("Not explained: nothing that was recorded moved with it, and {rules} could not be checked")
        }
    };
    Ok((headline, explanation))
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
        let paired = match &against {
            Some(baseline) => pair_runs(baseline, &candidate)?,
            None => pair_sides(&candidate)?,
        };
        let explanation = explain(rules(), &paired.pairs);
        if self.json {
            output::json(&paired.document(&explanation))?;
        } else {
            text::lines(&paired, &explanation).iter().for_each(output::line);
        }
        let established = candidate.chain.is_established() && against.is_none_or(|run| run.chain.is_established());
        Ok(output::established(established))
    }
}

/// The points that two sides have in common.
struct Paired {
    /// The names of the sides, baseline first.
    sides: [String; 2],
    pairs: Vec<Pair>,
    /// The points that only one side has, or that are of other work, each in words.
    left_out: Vec<String>,
}

impl Paired {
    fn document(&self, explanation: &Explanation) -> serde_json::Value {
        let [baseline, candidate] = &self.sides;
        json!({"baseline": baseline, "candidate": candidate, "left_out": self.left_out, "explanation": explanation})
    }
}

/// Pairs the points that two runs have in common: same case, same point, and same work.
fn pair_runs(baseline: &VerifiedRun, candidate: &VerifiedRun) -> Result<Paired, Failure> {
    let side = |run: &VerifiedRun| -> Result<Side, Failure> {
        Ok(Side { name: run.chain.run_id.to_string(), windows: read_windows(run)? })
    };
    paired([side(baseline)?, side(candidate)?], |one, other| one.case == other.case)
}

/// Pairs the points of both sides of a run's own comparison.
fn pair_sides(run: &VerifiedRun) -> Result<Paired, Failure> {
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
    let is_of = |one: &CaseWindows, other: &CaseWindows| workload_of(plan, &one.case) == workload_of(plan, &other.case);
    paired([of(&comparison.baseline), of(&comparison.candidate)], is_of)
}

/// Returns the workload of a case, by the case's name in rows.
fn workload_of<'a>(plan: &'a Plan, case: &str) -> Option<&'a Name> {
    plan.cases.iter().find(|found| found.case_id.as_str() == case).map(|found| &found.workload)
}

fn paired(sides: [Side; 2], is_of: impl Fn(&CaseWindows, &CaseWindows) -> bool) -> Result<Paired, Failure> {
    let [baseline, candidate] = sides;
    let is_same = |before: &CaseWindows, now: &CaseWindows| is_of(before, now) && before.point == now.point;
    let (mut pairs, mut left_out) = (Vec::new(), Vec::new());
    for now in &candidate.windows {
        let place = format!("{} at {}", now.case, now.point);
        match baseline.windows.iter().find(|before| is_same(before, now)) {
            None => left_out.push(format!("{place}: `{}` has no such point", baseline.name)),
            Some(before) if before.workload_spec_digest != now.workload_spec_digest => {
                left_out.push(format!("{place}: the workload is another, so no number is comparable"));
            }
            Some(before) => pairs.push(Pair {
                case: now.case.clone(),
                point: now.point.clone(),
                baseline: before.windows.clone(),
                candidate: now.windows.clone(),
                known_worse: BTreeSet::new(),
            }),
        }
    }
    let gone = baseline.windows.iter().filter(|before| !candidate.windows.iter().any(|now| is_same(before, now)));
    left_out.extend(gone.map(|before| format!("{} at {}: `{}` has no such point", before.case, before.point, candidate.name)));
    if pairs.is_empty() {
        let message = format!("`{}` and `{}` have no point of the same work in common", baseline.name, candidate.name);
        return Err(Failure::new(ErrorCode::NothingCompared, message)
            .hint("`assay compare` of two runs says which cases and points each has, and which of them are of other work"));
    }
    Ok(Paired { sides: [baseline.name, candidate.name], pairs, left_out })
}
