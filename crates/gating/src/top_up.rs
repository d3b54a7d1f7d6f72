//! More pairs for an inconclusive verdict: the same pipeline at the same commit, run again.

use assay_gate::WITHIN_RUN;
use assay_manifest::{Outcome, RunId, Source, Verdict};
use assay_report::counted;
use assay_stage::{AcceptedResult, ErrorCode, Failure, Layout};
use assay_store::Store;

use crate::caller::{Caller, GateEvent, RepeatedRun};
use crate::decide::GateDecision;
use crate::evidence::Evidence;

/// The most names that are tried.
const MAX_NAMES: u32 = 1_000;

/// Returns the reason if the remaining looks would be used for nothing; `None` if a verdict may change.
pub(crate) fn explain_futile_looks(decided: &[GateDecision]) -> Option<String> {
    let open = decided.iter().filter(|decided| decided.may_be_topped_up());
    let reasons: Option<Vec<String>> = open.map(|decided| explain_undecidable(decided.verdict.verdict())).collect();
    reasons?.into_iter().next()
}

/// Returns the reason why the remaining looks cannot decide; `None` if they may.
fn explain_undecidable(verdict: &Verdict) -> Option<String> {
    if verdict.checks.iter().any(|check| check.name == WITHIN_RUN) {
        return Some("this pipeline measures each side in one trial, which never decides: raise `trials.count`".to_owned());
    }
    let left = verdict.policy.looks.len().saturating_sub(verdict.sequence.look as usize) as u32;
    let undecided = || verdict.metrics.iter().filter(|metric| metric.primary && metric.outcome == Outcome::Inconclusive);
    // A check that failed, or a missing trial, may succeed the next time.
    if left == 0 || undecided().any(|metric| metric.missing > 0) || verdict.checks.iter().any(|check| !check.holds()) {
        return None;
    }
    let a_look = |metric: &assay_manifest::MetricVerdict| metric.pairs.len() as u32 / verdict.sequence.look.max(1);
    let reach = undecided().map(a_look).max()?.saturating_mul(left);
    // The metric that needs fewest: once it is decided, the verdict may change.
    match undecided().filter_map(|metric| metric.more_pairs).min() {
        Some(more) if more <= reach => None,
        Some(more) => Some(format!(
            "{} needed to decide, and the remaining looks measure {reach}: raise `trials.count` of the pipeline",
            if more == 1 { "1 more pair is".to_owned() } else { format!("{} are", counted(u64::from(more), "more pair")) }
        )),
        None => Some("no number of pairs that this pipeline can measure decides the verdict".to_owned()),
    }
}

/// Runs the candidate's pipeline at its commit again, and returns the new run's name.
pub(crate) fn run_again(
    candidate: &Evidence,
    decided: &[GateDecision],
    store: &Store,
    caller: &dyn Caller,
) -> Result<RunId, Failure> {
    let source = candidate.verified_run().chain.one::<Source>().map(|source| &source.body);
    let no_commit = || {
        Failure::new(
            ErrorCode::NoCommit,
            format!("run `{}` was made from no commit, so it cannot be run once more", candidate.run_id()),
        )
        .hint("commit what is measured, run that, and judge it")
    };
    let source = source.ok_or_else(no_commit)?;
    let commit = source.commit.as_deref().filter(|_| !source.dirty).ok_or_else(no_commit)?;
    let look = decided.iter().map(|decided| decided.verdict.verdict().sequence.look).max().unwrap_or(1) + 1;
    let run = free_name(candidate.run_id(), look, store)?;
    let repeated = RepeatedRun { pipeline: &source.pipeline, commit, run_id: &run };
    caller.report(GateEvent::RunsAgain(&repeated));
    caller.run_again(&repeated)?;
    Ok(run)
}

/// Returns the first name for that look, or for one after it, that no run of the store has: a run that already exists is no new
/// evidence.
fn free_name(first: &RunId, look: u32, store: &Store) -> Result<RunId, Failure> {
    for number in look..look + MAX_NAMES {
        let name = name_of_look(first, number)?;
        if store.read(&Layout::for_run(&name).source(), AcceptedResult::MAX_BYTES)?.is_none() {
            return Ok(name);
        }
    }
    Err(Failure::new(ErrorCode::NoFreeName, format!("{MAX_NAMES} runs after `{first}` have the names of its looks"))
        .hint("judge another run, whose name is free of `-look-`"))
}

/// Returns the name of a run for that look: the first run's name with a number appended, shortened if it would be too long.
fn name_of_look(first: &RunId, look: u32) -> Result<RunId, Failure> {
    let name = first.as_str();
    let stem = name.rsplit_once("-look-").filter(|(_, number)| number.parse::<u32>().is_ok()).map_or(name, |(stem, _)| stem);
    let ending = format!("-look-{look}");
    let stem: String = stem.chars().take(40 - ending.len()).collect();
    let text = format!("{}{ending}", stem.trim_end_matches('-'));
    text.parse().map_err(|error| Failure::new(ErrorCode::Internal, "a look has no name").because(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(more_pairs: Option<u32>, look: u32) -> Verdict {
        let bytes = include_bytes!("../../../manifests/examples/v1alpha1/verdict.json");
        let document = assay_manifest::Document::parse(bytes).expect("a manifest");
        let mut verdict = <Verdict as assay_manifest::Body>::from_document(&document).expect("a verdict").body.clone();
        verdict.policy.looks = vec![0.4, 0.3, 0.3];
        verdict.sequence.look = look;
        verdict.checks.clear();
        verdict.metrics.truncate(1);
        for metric in &mut verdict.metrics {
            let pair = *metric.pairs.first().expect("a pair");
            (metric.primary, metric.outcome, metric.missing, metric.more_pairs) = (true, Outcome::Inconclusive, 0, more_pairs);
            metric.pairs = vec![pair; 8 * look as usize];
        }
        verdict
    }

    #[test]
    fn a_look_is_not_spent_where_it_cannot_tell() {
        assert_eq!(explain_undecidable(&verdict(Some(16), 1)), None, "two looks of eight pairs");
        assert!(explain_undecidable(&verdict(Some(17), 1)).is_some_and(|why| why.contains("the remaining looks measure 16:")));
        assert!(
            explain_undecidable(&verdict(Some(9), 2))
                .is_some_and(|why| why.starts_with("9 more pairs are needed to decide, and the remaining looks measure 8:"))
        );
        assert!(explain_undecidable(&verdict(None, 1)).is_some());
        let mut missing = verdict(None, 1);
        missing.metrics.iter_mut().for_each(|metric| metric.missing = 3);
        assert_eq!(explain_undecidable(&missing), None, "the next run may be whole");
    }

    #[test]
    fn looks_are_named_after_the_first_run() {
        let name = |first: &str, look: u32| name_of_look(&first.parse().expect("a name"), look).expect("a name").to_string();
        assert_eq!(name("pr-17", 2), "pr-17-look-2");
        assert_eq!(name("pr-17-look-2", 3), "pr-17-look-3");
        assert_eq!(name("a-look-b", 2), "a-look-b-look-2");
        let long = name(&"x".repeat(40), 2);
        assert_eq!((long.len(), long.ends_with("-look-2")), (40, true));
    }
}
