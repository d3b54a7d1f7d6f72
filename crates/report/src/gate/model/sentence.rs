//! The sentence: the outcome first, what decided it, the number of pairs, and the smallest detectable change.

use assay_manifest::{Outcome, Reason, Verdict};

use super::row::{MetricOutcome, Row};
use crate::render::number::{level, percent};
use crate::render::text::{clean, counted};

/// Returns the complete sentence, with its full stop.
pub(crate) fn sentence(verdict: &Verdict, primary: &[Row]) -> String {
    let decided = match verdict.outcome {
        Outcome::Regressed => regressed(verdict, primary),
        Outcome::Inconclusive => inconclusive(verdict, primary),
        Outcome::Improved => improved(primary),
        Outcome::Unchanged => unchanged(verdict, primary),
    };
    let accepted = rows_with_outcome(primary, MetricOutcome::Acknowledged).count();
    let accepted = (accepted > 0).then(|| format!("{} passed as acknowledged", counted(accepted as u64, "regression")));
    // If nothing changed, the acknowledgements that were used come first.
    let told = if verdict.outcome == Outcome::Unchanged { [accepted, Some(decided)] } else { [Some(decided), accepted] };
    let parts = told.into_iter().chain([pairs(primary), detectable(primary)]);
    let head = outcome_text(verdict.outcome, verdict.blocks, primary);
    format!("{head}: {}.", parts.flatten().collect::<Vec<_>>().join("; "))
}

/// Returns the outcome and whether it blocks: `Regressed, and it blocks`. A change that passes because people accepted it is not
/// called unchanged.
pub(crate) fn outcome_text(outcome: Outcome, blocks: bool, primary: &[Row]) -> String {
    let is_accepted = rows_with_outcome(primary, MetricOutcome::Acknowledged).next().is_some();
    let word = match outcome {
        Outcome::Unchanged if is_accepted => "Accepted",
        Outcome::Regressed => "Regressed",
        Outcome::Inconclusive => "Inconclusive",
        Outcome::Improved => "Improved",
        Outcome::Unchanged => "Unchanged",
    };
    match (blocks, outcome) {
        (true, _) => format!("{word}, and it blocks"),
        (false, Outcome::Inconclusive) => format!("{word}, which does not block"),
        (false, _) => word.to_owned(),
    }
}

fn rows_with_outcome(rows: &[Row], standing: MetricOutcome) -> impl Iterator<Item = &Row> {
    rows.iter().filter(move |row| row.outcome == standing)
}

fn regressed(verdict: &Verdict, primary: &[Row]) -> String {
    let mut rows = rows_with_outcome(primary, MetricOutcome::Regressed);
    let Some(worst) = rows.next() else { return first_reason(verdict) };
    let others = rows.count();
    let others =
        if others > 0 { format!(", and {} regressed too", counted(others as u64, "other metric")) } else { String::new() };
    let budget = level(verdict.policy.budget);
    let not_accepted = in_brackets(&worst.reason);
    format!("{} changed by {}, beyond the budget of {budget}{not_accepted}{others}", worst.name(), worst.change_text())
}

fn inconclusive(verdict: &Verdict, primary: &[Row]) -> String {
    // A reason that affects the whole comparison comes before a single metric's: more pairs would not fix it.
    let is_of_check = |reason: &&Reason| verdict.checks.iter().any(|check| !check.holds() && check.name == reason.code);
    if let Some(reason) = verdict.reasons.iter().find(is_of_check) {
        return clean(&reason.detail);
    }
    let mut rows = rows_with_outcome(primary, MetricOutcome::Inconclusive);
    let Some(first) = rows.next() else { return first_reason(verdict) };
    let others = rows.count();
    let others = if others > 0 { format!(", nor {}", counted(others as u64, "other metric")) } else { String::new() };
    format!("{} cannot be told{}{others}", first.name(), in_brackets(&first.reason))
}

fn in_brackets(why: &str) -> String {
    if why.is_empty() { String::new() } else { format!(" ({why})") }
}

fn improved(primary: &[Row]) -> String {
    let mut rows = rows_with_outcome(primary, MetricOutcome::Improved);
    let Some(first) = rows.next() else { return "no metric got worse".to_owned() };
    let others = rows.count();
    let others = if others > 0 { format!(", {} improved too", counted(others as u64, "other metric")) } else { String::new() };
    format!("{} changed by {}{others}, and none got worse", first.name(), first.change_text())
}

fn unchanged(verdict: &Verdict, primary: &[Row]) -> String {
    let others = primary.len() - rows_with_outcome(primary, MetricOutcome::Acknowledged).count();
    if others == 0 {
        return "nothing else was judged".to_owned();
    }
    let budget = level(verdict.policy.budget);
    format!("no change beyond the budget of {budget} was found in {}", counted(others as u64, "primary metric"))
}

/// Returns the verdict's reason, if no metric decided it.
fn first_reason(verdict: &Verdict) -> String {
    verdict.reasons.first().map_or_else(|| "no reason is given".to_owned(), |reason| clean(&reason.detail))
}

/// Returns `14 pairs`, or `12 to 14 pairs`.
fn pairs(primary: &[Row]) -> Option<String> {
    let counts = || primary.iter().map(|row| row.verdict.pairs.len() as u64);
    let (fewest, most) = (counts().min()?, counts().max()?);
    Some(if fewest == most { counted(most, "pair") } else { format!("{fewest} to {}", counted(most, "pair")) })
}

/// Returns the largest detectable change of all metrics: smaller changes may have passed. It is that of a metric that changes alone. If
/// several change together, the correction for their number asks less of each, so a change may be found in a metric that could not have
/// shown one alone; nothing is then said of that metric.
fn detectable(primary: &[Row]) -> Option<String> {
    let is_found = |row: &Row| matches!(row.outcome, MetricOutcome::Regressed | MetricOutcome::Acknowledged);
    let blind = primary.iter().filter(|row| row.verdict.detectable.is_none() && !is_found(row)).count();
    let largest = primary.iter().filter_map(|row| row.verdict.detectable).reduce(f64::max);
    match (largest, blind) {
        (None, 0) => None,
        (None, _) if primary.iter().any(is_found) => None,
        (None, _) => Some("a change for the worse of one metric alone would not have been found, of any size".to_owned()),
        // Not of every metric: one without a detectable change regressed.
        (Some(share), 0) if primary.iter().any(|row| row.verdict.detectable.is_none()) => Some(format!(
            "the smallest change for the worse of one metric alone that would have been found is {}",
            percent(share)
        )),
        (Some(share), 0) => {
            Some(format!("the smallest change for the worse that every metric would have shown is {}", percent(share)))
        }
        (Some(share), blind) => Some(format!(
            "the smallest change for the worse of one metric alone that would have been found is {}, and none of any size in {}",
            percent(share),
            counted(blind as u64, "metric")
        )),
    }
}
