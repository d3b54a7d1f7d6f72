//! The head of a report: how much of the plan is there, where and when it was measured, and how sure the numbers are.

use std::collections::BTreeSet;

use assay_claim::EXECUTABLE_REPLACED;
use assay_manifest::{Fact, Grade, IntervalKind, ProvisionedTarget, RunStatus, Stability, TargetKind};

use super::environment;
use super::section::{CaseSection, MetricStatistics};
use super::{serving, strip};
use crate::render::number::grouped;
use crate::render::strip::StripItem;
use crate::render::text::{clean, counted, first_names};
use crate::run::inputs::Inputs;

/// The head of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Overview {
    /// The share of the plan that has a result, and the outcomes of its requests.
    pub(crate) completeness: String,
    /// True if every planned trial counts, no request failed, and nothing changed between the trials.
    pub(crate) is_complete: bool,
    /// The time, the machines and the targets.
    pub(crate) setting: String,
    /// The grade and the number of unstable values.
    pub(crate) certainty: String,
}

impl Overview {
    /// Creates the head; `requests` is the item of the strip with the outcomes of all requests.
    pub(super) fn new(inputs: &Inputs<'_>, cases: &[CaseSection], requests: Option<&StripItem>) -> Self {
        let status = inputs.summary.status;
        let state = match status {
            RunStatus::Succeeded => "Complete",
            RunStatus::Partial => "Incomplete",
            RunStatus::Failed => "Failed",
        };
        let has_failures = requests.is_some_and(|item| item.caution);
        let requests = requests.map(|item| format!("; {}", item.headline)).unwrap_or_default();
        let (counted, mixed) = (strip::counted_trials(inputs), mixed_states(inputs));
        Self {
            completeness: format!("{state}: {counted}{}{requests}.{mixed}", without_trial(cases)),
            is_complete: status == RunStatus::Succeeded && !has_failures && mixed.is_empty(),
            setting: setting(inputs),
            certainty: certainty(inputs.grade, cases),
        }
    }
}

/// States the changes of targets, machines and programs between counted trials; empty if there are none.
fn mixed_states(inputs: &Inputs<'_>) -> String {
    let changes: Vec<String> = inputs.collection.mixing_drift().map(|drift| clean(&drift.detail)).collect();
    let drift = if changes.is_empty() {
        String::new()
    } else {
        format!(" Drift: the counted trials lie on both sides of a change, and the numbers mix them: {}.", first_names(&changes))
    };
    let replaced = inputs.summary.issues.iter().find(|issue| issue.code == EXECUTABLE_REPLACED);
    let replaced =
        replaced.map(|issue| format!(" The numbers mix several programs: {}.", clean(&issue.detail))).unwrap_or_default();
    drift + &replaced
}

/// Names the cases without a counted trial; empty if there are none, or if no case has one.
fn without_trial(cases: &[CaseSection]) -> String {
    let has_none = |case: &&CaseSection| case.points.iter().all(|point| point.counted == 0);
    let without: Vec<String> = cases.iter().filter(has_none).map(|case| format!("`{}`", case.case_id)).collect();
    if without.is_empty() || without.len() == cases.len() {
        return String::new();
    }
    format!("; no valid trial of {}", first_names(&without))
}

fn setting(inputs: &Inputs<'_>) -> String {
    let when = inputs.environments.iter().map(|environment| environment.observed_at).min();
    let when =
        when.map_or_else(|| "at an unknown time".to_owned(), |at| format!("{:.16}", at.to_string()).replace('T', " ") + " UTC");
    let machines = environment::machines(inputs.environments);
    let known = machines.first().filter(|machine| machine.is_known());
    let machine = known.map_or_else(|| "hardware that is not known".to_owned(), environment::Machine::describe);
    let others = machines.len().saturating_sub(1);
    let others = if others == 0 { String::new() } else { format!(" and {}", counted(others as u64, "other machine")) };
    let mut targets: Vec<String> = Vec::new();
    for target in inputs.environments.iter().flat_map(|environment| &environment.targets) {
        let described = describe_target(target);
        if target.kind != TargetKind::Host && !targets.contains(&described) {
            targets.push(described);
        }
    }
    let targets = if targets.is_empty() { String::new() } else { format!("; target {}", first_names(&targets)) };
    format!("Measured {when} on {machine}{others}{targets}.")
}

/// Describes a target: its name, its address, its server and the version of that.
fn describe_target(target: &ProvisionedTarget) -> String {
    let known = |fact: &Fact<String>| fact.value.as_deref().map(clean);
    let server = target.server.as_ref().and_then(known);
    let version = known(&target.version);
    let software = [server, version].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let software = if software.is_empty() { "server unknown".to_owned() } else { software };
    let address = target.address.as_deref().map(|address| format!(" at {}", clean(address))).unwrap_or_default();
    format!("`{}`{address} ({software})", target.id)
}

fn certainty(grade: &Grade, cases: &[CaseSection]) -> String {
    let given = grade.given.to_string();
    let mut letters = given.chars();
    let given = letters.next().map(|first| first.to_uppercase().chain(letters).collect::<String>()).unwrap_or_default();
    let rules: Vec<String> =
        grade.shortfalls.iter().map(|shortfall| clean(&shortfall.rule)).collect::<BTreeSet<_>>().into_iter().collect();
    let declared = if grade.declared.is_empty() { "" } else { ", by declaration" };
    let grade = match &rules[..] {
        _ if grade.given == grade.requested => format!("{given} grade, as intended{declared}"),
        [] => format!("{given} grade{declared}; {} was intended", grade.requested),
        rules => format!("{given} grade{declared}; {} was intended ({})", grade.requested, first_names(rules)),
    };
    let numbers: Vec<&MetricStatistics> = cases.iter().flat_map(numbers_of).collect();
    let total = numbers.len() as u64;
    let count = |is_it: fn(&MetricStatistics) -> bool| numbers.iter().filter(|found| is_it(found)).count() as u64;
    let unstable = count(|found| found.stability == Stability::Unstable);
    let without = count(|found| found.interval.is_err());
    let stability = match unstable {
        _ if total == 0 => "no number".to_owned(),
        0 if without == total => "no number has an interval".to_owned(),
        0 => "no number of the tables is unstable".to_owned(),
        1 => format!("1 of the {} of the tables is unstable", counted(total, "number")),
        some => format!("{} of the {} of the tables are unstable", grouped(some), counted(total, "number")),
    };
    let intervals = match without {
        1 if total > 1 => ", 1 has no interval".to_owned(),
        some if (1..total).contains(&some) => format!(", {} have no interval", grouped(some)),
        _ => String::new(),
    };
    let is_within_run = |found: &MetricStatistics| found.interval.as_ref().is_ok_and(|ends| ends.kind == IntervalKind::WithinRun);
    let within_run = if count(is_within_run) > 0 { format!(" {WITHIN_RUN_LIMIT}") } else { String::new() };
    format!("{grade}; {stability}{intervals}.{within_run}")
}

/// The limit of an interval within a run, a sentence.
const WITHIN_RUN_LIMIT: &str = "Intervals within run are of one trial and do not hold the variation from run to run.";

/// Returns the numbers of a case's table.
fn numbers_of(case: &CaseSection) -> Vec<&MetricStatistics> {
    let columns = case.serving.as_ref().map(|_| serving::columns(case));
    let is_shown = |metric: &str| columns.as_ref().is_none_or(|columns| columns.iter().any(|column| column.text == metric));
    let rows = case.points.iter().flat_map(|point| &point.rows).filter(|row| is_shown(&row.metric));
    rows.filter_map(|row| row.measured.as_ref().ok()).collect()
}

#[cfg(test)]
mod tests {
    use assay_manifest::{RunStatus, Stability};

    use crate::run::fixture::{self, Model};

    fn head(model: &Model) -> String {
        let overview = model.report().overview;
        format!("{}\n{}\n{}", overview.completeness, overview.setting, overview.certainty)
    }

    #[test]
    fn the_head_of_a_run_says_what_is_there_and_how_sure_it_is() {
        insta::assert_snapshot!(head(&fixture::model()), @r"
        Incomplete: 12 of 20 trials count.
        Measured 2026-11-20 12:00 UTC on AMD EPYC 9354 32-Core Processor, 16 CPUs usable, 252 GiB, Debian GNU/Linux 12.
        Realism grade; publication was intended (counted_trials, locked_clocks); 2 of the 5 numbers of the tables are unstable, 1 has no interval.
        ");
        insta::assert_snapshot!(head(&fixture::serving::small()), @r"
        Incomplete: 10 of 15 trials count; 13 of 1600 requests failed (0.81 %).
        Measured 2026-11-20 12:00 UTC on AMD EPYC 9354 32-Core Processor, 16 CPUs usable, 252 GiB, Debian GNU/Linux 12.
        Realism grade; publication was intended (locked_clocks); no number of the tables is unstable.
        ");
        insta::assert_snapshot!(head(&fixture::serving::refused()), @r"
        Failed: none of 15 trials counts; 480 of 480 requests failed, in attempts that do not count.
        Measured 2026-11-20 12:00 UTC on AMD EPYC 9354 32-Core Processor, 16 CPUs usable, 252 GiB, Debian GNU/Linux 12.
        Realism grade; publication was intended (locked_clocks); no number.
        ");
    }

    #[test]
    fn a_case_without_a_trial_is_named() {
        let mut model = fixture::model();
        let first = model.summary.points[0].case_id.clone();
        assert!(!head(&model).contains("no valid trial"));
        for point in model.summary.points.iter_mut().filter(|point| point.case_id == first) {
            point.trials_counted = 0;
        }
        assert!(head(&model).contains(&format!("; no valid trial of `{first}`")), "{}", head(&model));
    }

    #[test]
    fn only_a_whole_run_is_complete() {
        let mut model = fixture::serving::small();
        model.summary.status = RunStatus::Succeeded;
        for serving in model.summary.points.iter_mut().filter_map(|point| point.serving.as_mut()) {
            serving.outcomes = [("ok".to_owned(), serving.requests)].into();
        }
        assert!(model.report().overview.is_complete);
        model.summary.status = RunStatus::Partial;
        assert!(!model.report().overview.is_complete);
        model.summary.status = RunStatus::Succeeded;
        model.summary.points[0].serving.as_mut().expect("it serves").outcomes.clear();
        assert!(!model.report().overview.is_complete, "failed requests");
    }

    #[test]
    fn stable_numbers_are_not_called_unstable() {
        let mut model = fixture::serving::small();
        for metric in model.summary.points.iter_mut().flat_map(|point| &mut point.metrics) {
            metric.stability = Stability::Stable;
        }
        assert!(head(&model).contains("; no number of the tables is unstable"), "{}", head(&model));
        model.summary.points[0].metrics[0].stability = Stability::Unstable;
        assert!(!head(&model).contains("no number of the tables is unstable"), "{}", head(&model));
    }
}
