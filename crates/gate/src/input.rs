//! The input of a gate, and how its acknowledgements apply.

use assay_manifest::{
    Acknowledgement, Artifact, CaseId, Check, Difference, GatePolicy, Instant, Name, PointId, PointSummary, Reason, Sequence,
};

use crate::evidence::Run;
use crate::learning::History;

/// The input of a gate.
#[derive(Clone, Debug)]
pub struct GateInput<'a> {
    /// The gate's name.
    pub gate: &'a Name,
    /// Its rules.
    pub policy: GatePolicy,
    /// The runs to judge together, oldest first: all of one tree.
    pub runs: Vec<Run<'a>>,
    /// The number of this look, and those before it.
    pub sequence: Sequence,
    /// The acknowledgements of the target branch.
    pub acknowledgements: Vec<Acknowledgement>,
    /// The date that expiries are compared with.
    pub judged_on: Instant,
    /// The noise learned from earlier runs.
    pub learned: Option<History>,
    /// True if a person asks which of two sides is better: see [`Rules::both_ways`](crate::rule::Rules::both_ways).
    pub both_ways: bool,
    /// The differences of the candidate's own rules from these.
    pub policy_changes: Vec<Difference>,
    /// The differences of the candidate's definitions from those of the target branch.
    pub definition_changes: Vec<Difference>,
    /// The files from which rules and acknowledgements were read.
    pub files: Vec<Artifact>,
}

/// Adds the acknowledgements of `metric` for a change this much worse to a failed check.
pub(crate) fn acknowledge_check(check: Check, point: &PointSummary, metric: &str, worse: f64, question: &GateInput<'_>) -> Check {
    match apply_acknowledgements(&point.case_id, &point.point_id, metric, worse, question) {
        None => check,
        Some((path, why)) => Check { acknowledged: path, detail: format!("{}; {}", check.detail, why.detail), ..check },
    }
}

/// Applies the acknowledgements of that metric. The first that accepts the change lets it pass; if none does, the first gives the
/// reason.
pub(crate) fn apply_acknowledgements(
    case: &CaseId,
    point: &PointId,
    metric: &str,
    worse: f64,
    question: &GateInput<'_>,
) -> Option<(Option<String>, Reason)> {
    let about = |accepted: &&Acknowledgement| {
        accepted.applies
            && accepted.case == *case
            && accepted.metric == metric
            && accepted.point.as_ref().is_none_or(|of| of == point)
    };
    let results =
        question.acknowledgements.iter().filter(about).map(|accepted| apply_acknowledgement(accepted, worse, question.judged_on));
    let results: Vec<_> = results.collect();
    results.iter().find(|(path, _)| path.is_some()).or(results.first()).cloned()
}

/// Returns the file's path if it accepts a change this much worse, and the reason in words.
fn apply_acknowledgement(accepted: &Acknowledgement, worse: f64, judged_on: Instant) -> (Option<String>, Reason) {
    if accepted.expires <= judged_on {
        let text = format!("`{}` accepted it until {}", accepted.path, accepted.expires.to_seconds());
        (None, Reason::new("acknowledgement_expired", text))
    } else if worse > accepted.accepts {
        let text = format!("`{}` accepts {}, and this is {}", accepted.path, percent(accepted.accepts), percent(worse));
        (None, Reason::new("beyond_acknowledgement", text))
    } else {
        let text = format!("`{}` accepts it: {}", accepted.path, accepted.reason);
        (Some(accepted.path.clone()), Reason::new("acknowledged", text))
    }
}

/// Formats a share as percent.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
