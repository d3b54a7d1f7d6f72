//! The state strip of a verdict: how far to trust it, in a few labelled facts.

use std::collections::BTreeSet;

use assay_manifest::{Check, Comparison, Difference, EarlierEnd, EndState, JudgedRun, PairUnit, Placement, Side};

use super::acknowledgements::{AcknowledgementLine, EffectKind};
use super::fine_print;
use super::row::Row;
use crate::gate::inputs::Inputs;
use crate::render::number::level;
use crate::render::strip::StripItem;
use crate::render::text::{all_of, clean, counted, short_commit};

/// The label of the item that names expired acknowledgements.
pub(crate) const EXPIRED: &str = "Expired";

/// The label of what explains a regression.
pub(crate) const WHY: &str = "Why";

/// Maximum number of earlier attempts of one run that are listed; the rest are counted.
const MAX_ENDS: usize = 3;

/// The reason code for a change that the placement may have caused.
const CONFOUNDED: &str = "confounded_with_placement";

/// Returns all items, in the order in which a reader needs them.
pub(crate) fn items(inputs: &Inputs<'_>, primary: &[Row], accepted: &[AcknowledgementLine]) -> Vec<StripItem> {
    let always =
        [compared(inputs), signed(inputs), pairs(inputs, primary), look(inputs), differences(inputs), confounding(inputs)];
    let expired = expired(accepted).into_iter();
    expired
        .chain(why(inputs))
        .chain(always)
        .chain(executed(inputs))
        .chain([checks(inputs), runs(inputs), rules(inputs), own_rules(inputs)])
        .collect()
}

/// Lists expired acknowledgements, one a line: people who rely on one learn it here, before the next regression.
fn expired(accepted: &[AcknowledgementLine]) -> Option<StripItem> {
    let expired = accepted.iter().filter(|one| one.kind == EffectKind::Expired);
    let mut lines = expired.map(|one| format!("acknowledgement `{}` expired on {}: remove or renew it", one.path, one.expires));
    let first = lines.next()?;
    Some(StripItem::new(EXPIRED, true, first, lines.collect()))
}

/// States what explains a regression.
fn why(inputs: &Inputs<'_>) -> Option<StripItem> {
    let why = inputs.why.as_ref()?;
    Some(StripItem::new(WHY, false, clean(&why.headline), why.details.iter().map(|detail| clean(detail)).collect()))
}

fn compared(inputs: &Inputs<'_>) -> StripItem {
    let Comparison { baseline, candidate, variable_under_test, other } = &inputs.verdict.comparison;
    let side = |side: &Side| format!("{}.{}", side.target, side.variant);
    let variable = other.as_deref().unwrap_or(variable_under_test).replace('_', " ");
    let details = vec![clean(&format!("what differs on purpose: {variable}"))];
    StripItem::new("Compared", false, format!("{} against {}", side(candidate), side(baseline)), details)
}

/// Names the signer of the verdict.
fn signed(inputs: &Inputs<'_>) -> StripItem {
    let Some(signature) = inputs.signed_by else {
        return StripItem::new("Signed", true, "by nobody".to_owned(), vec!["whoever gave this can have changed it".to_owned()]);
    };
    let (caution, trust) = match &inputs.trust_policy {
        Some((name, _)) => (false, format!("trusted by `{name}`")),
        None => (true, "signer not established".to_owned()),
    };
    let details = vec![clean(&format!("key {}", signature.key_fingerprint))];
    StripItem::new("Signed", caution, clean(&format!("by {}, {trust}", signature.signer)), details)
}

/// States the unit of inference and the number of units.
fn pairs(inputs: &Inputs<'_>, primary: &[Row]) -> StripItem {
    let counts: BTreeSet<usize> = primary.iter().map(|row| row.verdict.pairs.len()).collect();
    let missing: u64 = primary.iter().map(|row| u64::from(row.verdict.missing)).sum();
    let count = match (counts.first(), counts.last()) {
        (Some(fewest), Some(most)) if fewest < most => format!("{fewest} to {most} of each metric"),
        (_, Some(most)) => format!("{most} of each metric"),
        _ => "none".to_owned(),
    };
    let lack = if missing == 0 { "none missing".to_owned() } else { format!("{missing} missing") };
    let unit = match inputs.verdict.unit {
        PairUnit::Pair => "the unit of inference is the adjacent pair of trials",
        PairUnit::Launch => "the unit of inference is the pair of launches: each pair has its own",
    };
    let placement = match (inputs.verdict.placement, inputs.verdict.unit) {
        (Placement::Coexist, PairUnit::Pair) => "both sides were up together",
        (Placement::Coexist, PairUnit::Launch) => "the sides took turns",
        (Placement::Alternate, _) => "one side was up at a time",
    };
    let why = (missing > 0).then(|| "a pair is missing where a side has no valid trial, or no value".to_owned());
    let details = [Some(unit.to_owned()), Some(placement.to_owned()), why].into_iter().flatten().collect();
    StripItem::new("Pairs", missing > 0 || counts.first().is_none_or(|fewest| *fewest == 0), format!("{count}, {lack}"), details)
}

/// States the number of the look and its share of `q`.
fn look(inputs: &Inputs<'_>) -> StripItem {
    let verdict = inputs.verdict;
    let (look, looks) = (verdict.sequence.look, verdict.policy.looks.len());
    let headline = if looks == 1 { "the only look".to_owned() } else { format!("{look} of {looks}") };
    let share = format!(
        "of {}; it may spend {} of q = {}: {}",
        verdict.sequence.name,
        level(fine_print::share_of_look(verdict)),
        level(verdict.policy.q),
        level(fine_print::q_of_look(verdict))
    );
    let earlier = verdict.sequence.earlier.len() as u64;
    let earlier = (earlier > 0).then(|| format!("{} of this sequence came before it", counted(earlier, "verdict")));
    StripItem::new("Look", false, headline, std::iter::once(share).chain(earlier).collect())
}

fn differences(inputs: &Inputs<'_>) -> StripItem {
    let found = &inputs.verdict.differences;
    let headline = match found.len() {
        0 => "none besides the variable under test".to_owned(),
        some => format!("the sides differ in {} besides", counted(some as u64, "fact")),
    };
    let details = found.iter().map(|difference| two_sides(difference, "baseline", "candidate"));
    StripItem::new("Differences", !found.is_empty(), headline, details.collect())
}

fn two_sides(difference: &Difference, one: &str, other: &str) -> String {
    let Difference { what, baseline, candidate } = difference;
    clean(&format!("{what}: {one} {baseline}, {other} {candidate}"))
}

/// States whether the machine may have caused the difference. A verdict says so only for metrics that changed.
fn confounding(inputs: &Inputs<'_>) -> StripItem {
    let reasons = inputs.verdict.metrics.iter().filter_map(|metric| metric.reason.as_ref());
    let found: BTreeSet<String> =
        reasons.filter(|reason| reason.code == CONFOUNDED).map(|reason| clean(&reason.detail)).collect();
    let headline = if found.is_empty() { "no change is explained by placement" } else { "a change may be one of placement" };
    StripItem::new("Confounding", !found.is_empty(), headline.to_owned(), found.into_iter().collect())
}

fn checks(inputs: &Inputs<'_>) -> StripItem {
    let all = &inputs.verdict.checks;
    let not_passed: Vec<_> = all.iter().filter(|check| !check.passed).collect();
    let failed = not_passed.iter().filter(|check| !check.holds()).count();
    let headline = match (all.len() as u64, failed, not_passed.len()) {
        (0, ..) => "none were made".to_owned(),
        (count, 0, 0) => format!("{} held", all_of(count, "check")),
        (count, 0, accepted) => format!("{accepted} of {} did not hold, and was accepted beforehand", counted(count, "check")),
        (count, failed, _) => format!("{failed} of {} failed", counted(count, "check")),
    };
    let details = not_passed.iter().map(|check| clean(&format!("{}, {}: {}", check.name, check.scope, check.detail)));
    StripItem::new("Checks", failed > 0, headline, details.collect())
}

/// Names the programs that the sides executed, if a gate recorded them.
fn executed(inputs: &Inputs<'_>) -> Option<StripItem> {
    let checks = &inputs.verdict.checks;
    let of = |name: &'static str| move |check: &&Check| check.name == name;
    let alike = checks.iter().find(of("executables_alike"));
    let found: Vec<String> =
        alike.into_iter().chain(checks.iter().filter(of("executables"))).map(|check| clean(&check.detail)).collect();
    let (first, more) = found.split_first()?;
    Some(StripItem::new("Executed", alike.is_some(), first.clone(), more.to_vec()))
}

fn runs(inputs: &Inputs<'_>) -> StripItem {
    let runs = &inputs.verdict.runs;
    let doubtful = runs.iter().filter(|run| !is_established(inputs, run)).count();
    let begun_again = runs.iter().filter(|run| !run.earlier_ends.is_empty()).count();
    let judged = counted(runs.len() as u64, "run");
    let unknown = (doubtful > 0).then(|| format!(", the signers of {doubtful} not established"));
    let again = (begun_again > 0).then(|| format!(", {begun_again} begun more than once"));
    let headline: String = std::iter::once(format!("{judged} judged")).chain(unknown).chain(again).collect();
    let detail = |run: &JudgedRun| {
        let commit = run.commit.as_deref().map_or_else(|| "unknown".to_owned(), short_commit);
        let doubt = if is_established(inputs, run) { "" } else { ", not established" };
        let signers = if run.signers.is_empty() { "nobody".to_owned() } else { run.signers.join(", ") };
        clean(&format!("{}, commit {commit}, signed by {signers}{doubt}", run.run_id))
    };
    let details = runs.iter().map(detail).chain(runs.iter().flat_map(earlier_ends)).collect();
    StripItem::new("Runs", doubtful > 0 || begun_again > 0, headline, details)
}

/// Returns the end of each attempt under a run's name that did not complete, one a line; beyond [`MAX_ENDS`] they are counted.
fn earlier_ends(run: &JudgedRun) -> Vec<String> {
    let ended = |end: &EarlierEnd| {
        format!("{}: an earlier attempt {} in {} (`{}`)", run.run_id, end_state_text(end.state), end.stage, end.code)
    };
    let mut lines: Vec<String> = run.earlier_ends.iter().take(MAX_ENDS).map(|end| clean(&ended(end))).collect();
    let more = run.earlier_ends.len().saturating_sub(MAX_ENDS) as u64;
    lines.extend((more > 0).then(|| format!("{}: {}", run.run_id, counted(more, "more earlier attempt"))));
    lines
}

fn end_state_text(state: EndState) -> &'static str {
    match state {
        EndState::Cancelled => "was cancelled",
        EndState::Failed => "failed",
    }
}

/// Returns true if the signer of a run is established.
fn is_established(inputs: &Inputs<'_>, run: &JudgedRun) -> bool {
    run.established && !inputs.unestablished.contains(&run.run_id)
}

fn rules(inputs: &Inputs<'_>) -> StripItem {
    let policy = &inputs.verdict.policy;
    let blocks = if policy.block_on_inconclusive { "inconclusive blocks too" } else { "inconclusive does not block" };
    let from = match &policy.commit {
        Some(commit) => format!("`{}` at commit {}", policy.path, short_commit(commit)),
        None => format!("`{}`, read as a plain file", policy.path),
    };
    let absolute = [
        policy.slo.then(|| "SLOs have to be met".to_owned()),
        policy.provenance.then(|| "runs have to be of a commit, and their signers established".to_owned()),
        policy.max_error_rate.map(|share| format!("at most {} of requests may fail", level(share))),
        policy.max_output_drift.map(|share| format!("output lengths may differ by {}", level(share))),
    ];
    let details = [clean(&from), policy.digest.to_string()].into_iter().chain(absolute.into_iter().flatten()).collect();
    let headline = format!("budget {}, q {}, {blocks}", level(policy.budget), level(policy.q));
    StripItem::new("Rules", policy.commit.is_none(), headline, details)
}

/// States whether the candidate's own rules would have given another outcome: they do not decide.
fn own_rules(inputs: &Inputs<'_>) -> StripItem {
    let changes = &inputs.verdict.policy_changes;
    let headline = match changes.len() {
        0 => "the candidate brings no other gates, and whatever else it brings was not read".to_owned(),
        some => format!("the candidate's own rules differ in {}, and were not used", counted(some as u64, "fact")),
    };
    let details = changes.iter().map(|change| two_sides(change, "judged by", "its own"));
    StripItem::new("Rule changes", !changes.is_empty(), headline, details.collect())
}
