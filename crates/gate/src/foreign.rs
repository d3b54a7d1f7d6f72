//! The verdict of a gate over foreign evidence: the results of another tool on two sides.
//!
//! Each piece of evidence is one invocation of the tool, and so one observation of each of its numbers. The samples within a piece are never taken
//! for trials: they hold the variation within one invocation only. Pieces that belong together are judged by the rule of the gates of runs; others
//! by the rank-sum test with the same limits.

mod labels;
mod metrics;
mod pairing;
#[cfg(test)]
mod tests;
mod unpaired;

use std::collections::BTreeSet;

use assay_failure::first_names;
use assay_manifest::{
    Artifact, BetterDirection, Count, Difference, Digest, ForeignEvidence, ForeignGateRules, ForeignMetricVerdict, ForeignNumber,
    ForeignPiece, ForeignVerdict, Instant, Name, Outcome, PairUnit, Reason,
};

pub use crate::foreign::labels::{FEWER_LABELS_HINT, LabelDifference, differing_labels};
use crate::foreign::metrics::{ComparedNumbers, compare_numbers};
use crate::foreign::pairing::pair_pieces;
use crate::input::percent;
use crate::rule::Rules;

/// The version of the method. A verdict can be recomputed only by the same version.
pub const FOREIGN_CONTRACT: &str = "assay-foreign-gate/2";

/// The most pieces of evidence of a side.
pub const MAX_PIECES: usize = 200;

/// The most numbers that are judged together: each costs a share of the power of all others.
pub const MAX_JUDGED: usize = 1_000;

/// The most numbers that are listed as not judged.
const MAX_NOT_JUDGED: usize = 1_000;

/// The most remarks of pieces that a verdict quotes.
const MAX_QUOTED: usize = 10;

/// The reviewed tables of the formats.
pub trait MetricDefinitions {
    /// Returns the better direction of a number, by its metric, unit and labels; `None` if it has none.
    fn better(&self, number: &ForeignNumber) -> Option<BetterDirection>;

    /// Returns true for a statistic whose better direction is that of its metric.
    fn is_level(&self, statistic: &str) -> bool;

    /// Returns true if a file that is this part of a format holds numbers.
    fn holds_numbers(&self, format: &str, part: &str) -> bool;
}

/// A piece of evidence with its document.
#[derive(Clone, Debug)]
pub struct ImportedPiece<'a> {
    /// Its description for the verdict.
    pub piece: ForeignPiece,
    /// The document.
    pub evidence: &'a ForeignEvidence,
}

/// The input of a gate over foreign evidence.
pub struct ForeignInput<'a> {
    /// The gate's name.
    pub gate: &'a Name,
    /// Its rules.
    pub rules: ForeignGateRules,
    /// The pieces of the baseline.
    pub baseline: Vec<ImportedPiece<'a>>,
    /// The pieces of the candidate.
    pub candidate: Vec<ImportedPiece<'a>>,
    /// The reviewed tables of the formats.
    pub definitions: &'a dyn MetricDefinitions,
    /// The date of the decision.
    pub judged_on: Instant,
    /// The file of the rules.
    pub files: Vec<Artifact>,
}

/// The reason why foreign evidence cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForeignRefusal {
    /// A side has no evidence, or too much.
    #[error("the {side} has {count} pieces of evidence, and a side has from 1 to {MAX_PIECES}")]
    PieceCount {
        /// The side.
        side: &'static str,
        /// The number of its pieces.
        count: usize,
    },
    /// The same evidence was given twice.
    #[error("`{name}` is named twice: one piece of evidence is one observation")]
    SameEvidence {
        /// The name of the evidence.
        name: String,
    },
    /// Two pieces hold the same file.
    #[error("`{first}` and `{second}` hold the same file (`{path}`), so they are one observation and not two")]
    SameFile {
        /// The name of the first.
        first: String,
        /// The name of the second.
        second: String,
        /// The path of the file in the second.
        path: String,
    },
    /// The rules name a metric that the sides do not have in common.
    #[error("the rules name `{0}`, which the two sides do not have in common with a better direction")]
    UnknownMetric(String),
    /// There are too many numbers.
    #[error("the sides have {0} numbers in common that are judged, more than the limit of {MAX_JUDGED}")]
    TooManyNumbers(usize),
    /// The sides have no number of the same definition, unit and labels in common.
    #[error("the two sides have no number of the same metric, statistic, unit and labels in common{}", .0.as_ref().map_or_else(String::new, |labels| format!(": {}", labels.text)))]
    NothingInCommon(Option<LabelDifference>),
}

impl ForeignRefusal {
    /// Returns true if evidence is counted twice.
    pub fn is_twice(&self) -> bool {
        matches!(self, Self::SameEvidence { .. } | Self::SameFile { .. })
    }
}

/// Judges foreign evidence by a gate's rules.
///
/// # Errors
/// [`ForeignRefusal`] if nothing can be judged. Insufficient evidence is not an error but an inconclusive verdict.
pub fn judge_foreign(input: &ForeignInput<'_>) -> Result<ForeignVerdict, ForeignRefusal> {
    check_counts(input)?;
    check_distinct(input)?;
    let (pairing, [baseline, candidate]) = pair_pieces(&input.baseline, &input.candidate);
    let compared = compare_numbers([&baseline, &candidate], &input.rules, input.definitions)?;
    let rules = Rules { q: input.rules.q, budget: input.rules.budget, unit: PairUnit::Launch, both_ways: false };
    let differences = tool_differences(&baseline, &candidate);
    let ComparedNumbers { judged, mut not_judged } = compared;
    let mut metrics = metrics::judge(&judged, pairing, &rules);
    for metric in &mut metrics {
        weaken(metric, &differences);
    }
    let reasons = reasons(&metrics, &input.rules);
    let outcome = outcome(&metrics);
    let is_blocking = outcome == Outcome::Regressed || outcome == Outcome::Inconclusive && input.rules.block_on_inconclusive;
    let not_judged_count = Count(not_judged.len() as u64);
    not_judged.truncate(MAX_NOT_JUDGED);
    Ok(ForeignVerdict {
        about: ForeignVerdict::ABOUT.to_owned(),
        advisory: !input.rules.allow_foreign,
        contract: FOREIGN_CONTRACT.to_owned(),
        gate: input.gate.clone(),
        outcome,
        blocks: input.rules.allow_foreign && is_blocking,
        reasons,
        rules: input.rules.clone(),
        remarks: remarks(&baseline, &candidate),
        baseline: described(&baseline),
        candidate: described(&candidate),
        pairing,
        judged_on: input.judged_on,
        differences,
        metrics,
        not_judged,
        not_judged_count,
        files: input.files.clone(),
    })
}

fn described(pieces: &[&ImportedPiece<'_>]) -> Vec<ForeignPiece> {
    pieces.iter().map(|piece| piece.piece.clone()).collect()
}

fn check_counts(input: &ForeignInput<'_>) -> Result<(), ForeignRefusal> {
    for (side, pieces) in [("baseline", &input.baseline), ("candidate", &input.candidate)] {
        if !(1..=MAX_PIECES).contains(&pieces.len()) {
            return Err(ForeignRefusal::PieceCount { side, count: pieces.len() });
        }
    }
    Ok(())
}

/// Checks that no observation is counted twice: neither a piece of evidence, nor a file of numbers that was imported under two names.
fn check_distinct(input: &ForeignInput<'_>) -> Result<(), ForeignRefusal> {
    let mut manifests = BTreeSet::new();
    let mut files: Vec<(Digest, &ForeignPiece)> = Vec::new();
    for ImportedPiece { piece, evidence } in input.baseline.iter().chain(&input.candidate) {
        if !manifests.insert(piece.evidence.manifest) {
            return Err(ForeignRefusal::SameEvidence { name: piece.name.to_string() });
        }
        let with_numbers = evidence.files.iter().filter(|file| input.definitions.holds_numbers(&evidence.format, &file.part));
        let own: Vec<_> = with_numbers.map(|file| (file.artifact.digest, file)).collect();
        for (digest, file) in &own {
            if let Some((_, first)) = files.iter().find(|(known, _)| known == digest) {
                let [first, second] = [first, piece].map(|piece| piece.name.to_string());
                return Err(ForeignRefusal::SameFile { first, second, path: file.path.clone() });
            }
        }
        files.extend(own.into_iter().map(|(digest, _)| (digest, piece)));
    }
    Ok(())
}

/// A text of a piece, if its files state it.
type StatedText = fn(&ForeignPiece) -> Option<&String>;

/// Returns the differences of tools and of their known versions, within a side and between the sides: they may be all of a change.
fn tool_differences(baseline: &[&ImportedPiece<'_>], candidate: &[&ImportedPiece<'_>]) -> Vec<Difference> {
    let stated: [(&str, StatedText); 3] = [
        ("format_version", |piece| piece.format_version.as_ref()),
        ("tool", |piece| piece.tool.as_ref().or(Some(&piece.format))),
        ("tool_version", |piece| piece.tool_version.as_ref()),
    ];
    let difference = |(what, of): (&str, StatedText)| {
        let all = |pieces: &[&ImportedPiece<'_>]| -> BTreeSet<String> {
            pieces.iter().filter_map(|piece| of(&piece.piece).cloned()).collect()
        };
        difference(what, &all(baseline), &all(candidate))
    };
    stated.into_iter().filter_map(difference).collect()
}

fn difference(what: &str, baseline: &BTreeSet<String>, candidate: &BTreeSet<String>) -> Option<Difference> {
    let all: BTreeSet<_> = baseline.union(candidate).collect();
    let names = |side: &BTreeSet<String>| {
        let names: Vec<&String> = side.iter().collect();
        if names.is_empty() { "unknown".to_owned() } else { first_names(&names, 3) }
    };
    (all.len() > 1).then(|| Difference { what: what.to_owned(), baseline: names(baseline), candidate: names(candidate) })
}

fn remarks(baseline: &[&ImportedPiece<'_>], candidate: &[&ImportedPiece<'_>]) -> Vec<String> {
    let mut remarks = Vec::new();
    let all = || baseline.iter().chain(candidate);
    let unversioned = all().filter(|piece| piece.piece.tool_version.is_none()).count();
    if unversioned > 0 {
        remarks.push(format!(
            "the files of {unversioned} of {} pieces do not state the version of the tool, so a change may be that of the tool",
            all().count()
        ));
    }
    let unestablished: Vec<&str> =
        all().filter(|piece| !piece.piece.established).map(|piece| piece.piece.name.as_str()).collect();
    if !unestablished.is_empty() {
        remarks.push(format!("no trust policy names the importer of {}", first_names(&unestablished, 3)));
    }
    let quoted: Vec<String> =
        all().flat_map(|piece| piece.evidence.remarks.iter().map(|remark| format!("`{}`: {remark}", piece.piece.name))).collect();
    remarks.extend(quoted.iter().take(MAX_QUOTED).cloned());
    if let Some(more) = quoted.len().checked_sub(MAX_QUOTED).filter(|more| *more > 0) {
        remarks.push(format!("{more} more remarks about the pieces: `assay show` lists them"));
    }
    remarks
}

/// Makes a metric inconclusive if the tools of the pieces differ.
fn weaken(metric: &mut ForeignMetricVerdict, differences: &[Difference]) {
    if differences.is_empty() {
        return;
    }
    let names: Vec<String> = differences.iter().map(|difference| format!("`{}`", difference.what)).collect();
    let text = format!("the pieces differ in {}, which may be all of a change", names.join(" and "));
    (metric.outcome, metric.more_pieces) = (Outcome::Inconclusive, None);
    metric.reason = Some(Reason::new("tools_differ", text));
}

/// Returns the deciding reasons, worst first.
fn reasons(metrics: &[ForeignMetricVerdict], rules: &ForeignGateRules) -> Vec<Reason> {
    let primary = |outcome: Outcome| metrics.iter().filter(move |metric| metric.primary && metric.outcome == outcome);
    let regressed = primary(Outcome::Regressed).map(|metric| {
        let change = metric.change.as_ref().map_or(1.0, |change| change.ratio) - 1.0;
        let budget = percent(rules.budget);
        Reason::new(
            "regressed",
            format!("{} changed by {:+.1} %, beyond the budget of {budget}", describe(metric), change * 100.0),
        )
    });
    let inconclusive = primary(Outcome::Inconclusive).map(|metric| {
        let why = metric.reason.as_ref().map_or("", |reason| reason.detail.as_str());
        Reason::new("inconclusive", format!("{}: {why}", describe(metric)))
    });
    let mut reasons: Vec<Reason> = regressed.chain(inconclusive).collect();
    if !metrics.iter().any(|metric| metric.primary) {
        reasons.push(Reason::new("nothing_judged", "no number that the sides have in common has a better direction"));
    }
    reasons
}

fn describe(metric: &ForeignMetricVerdict) -> String {
    let number = &metric.number;
    let labels: Vec<String> = number.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let labels = if labels.is_empty() { String::new() } else { format!(" of {}", first_names(&labels, 4)) };
    format!("`{}` ({}){labels}", number.metric, number.statistic)
}

/// Returns the worst outcome of the primary metrics.
fn outcome(metrics: &[ForeignMetricVerdict]) -> Outcome {
    let primary = || metrics.iter().filter(|metric| metric.primary).map(|metric| metric.outcome);
    let has = |outcome: Outcome| primary().any(|found| found == outcome);
    if has(Outcome::Regressed) {
        Outcome::Regressed
    } else if primary().next().is_none() || has(Outcome::Inconclusive) {
        Outcome::Inconclusive
    } else if has(Outcome::Improved) {
        Outcome::Improved
    } else {
        Outcome::Unchanged
    }
}
