//! The sentences and cells of a verdict over foreign evidence, which all renderings share.

use assay_manifest::{ForeignMetricVerdict, ForeignNumber, ForeignPairing, ForeignPiece, Outcome};

use super::ForeignReport;
use crate::render::command::{shell_word, store_option};
use crate::render::number::{percent, probability, significant};
use crate::render::text::{clean, counted};

/// The titles of the columns of a metric, each with a mark for numbers.
pub(super) const COLUMNS: [(&str, bool); 12] = [
    ("verdict", false),
    ("metric", false),
    ("statistic", false),
    ("labels", false),
    ("baseline", true),
    ("candidate", true),
    ("change", true),
    ("interval", true),
    ("adjusted p", true),
    ("floor", true),
    ("would find", true),
    ("pieces", true),
];

impl ForeignReport<'_> {
    /// Returns the outcome and whether it blocks: `Regressed, and it blocks`.
    pub(super) fn headline(&self) -> String {
        let verdict = self.verdict;
        let outcome = match verdict.outcome {
            Outcome::Improved => "Improved",
            Outcome::Unchanged => "Unchanged",
            Outcome::Inconclusive => "Inconclusive",
            Outcome::Regressed => "Regressed",
        };
        match (verdict.outcome, verdict.blocks) {
            (_, true) => format!("{outcome}, and it blocks"),
            (Outcome::Regressed, false) => format!("{outcome}, and it does not block"),
            _ => outcome.to_owned(),
        }
    }

    /// Returns the sentence of an advisory verdict that would have an exit code of its own; `None` if the exit code is that of its outcome.
    pub(super) fn advisory_sentence(&self) -> Option<String> {
        let outcome = match self.verdict.outcome {
            Outcome::Regressed => "a regression",
            Outcome::Inconclusive => "an inconclusive verdict",
            Outcome::Improved | Outcome::Unchanged => return None,
        };
        self.verdict.advisory.then(|| {
            format!(
                "Advisory: the exit code is 0 and not that of {outcome}, because its rules do not have `allow_foreign: true`. A file of the kind ForeignGate sets it, and `--policy` names the file."
            )
        })
    }

    /// Returns the sentence that states what belongs together.
    pub(super) fn pairing_sentence(&self) -> String {
        let [baseline, candidate] = [&self.verdict.baseline, &self.verdict.candidate].map(|side| side.len() as u64);
        let pairs = counted(baseline, "pair");
        match self.verdict.pairing {
            ForeignPairing::Names => format!("{pairs} of pieces of evidence, paired by their names"),
            ForeignPairing::Times => format!("{pairs} of pieces of evidence, paired by the times of their import"),
            ForeignPairing::Unpaired => format!(
                "{baseline} and {candidate} pieces of evidence that nothing pairs: a change of the machine between them is not told from one of the candidate"
            ),
        }
    }

    /// Returns the remarks: what nothing shows, and what this evidence lacks.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = vec![
            "each piece counts as one observation and one launch of its side; nothing shows that invocations were independent, that the sides took turns, or that the client kept up"
                .to_owned(),
        ];
        let difference = |difference: &assay_manifest::Difference| {
            let [baseline, candidate] = [&difference.baseline, &difference.candidate].map(|text| clean(text));
            format!("{} differs: {baseline} / {candidate}", difference.what)
        };
        remarks.extend(self.verdict.differences.iter().map(difference));
        remarks.extend(self.verdict.remarks.iter().map(|remark| clean(remark)));
        remarks
    }

    /// Returns the reasons, cleaned.
    pub(super) fn reasons(&self) -> impl Iterator<Item = String> {
        self.verdict.reasons.iter().map(|reason| clean(&reason.detail))
    }

    /// Returns the metrics that decide, or those that are only reported.
    pub(super) fn metrics(&self, primary: bool) -> impl Iterator<Item = &ForeignMetricVerdict> {
        self.verdict.metrics.iter().filter(move |metric| metric.primary == primary)
    }

    /// Returns the command that verifies it.
    pub(super) fn command(&self) -> String {
        format!("assay verify {}{}", shell_word(&self.digest.to_string()), store_option(self.store))
    }
}

/// Returns the labels in one line.
pub(super) fn labels(number: &ForeignNumber) -> String {
    let labels: Vec<String> = number.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    clean(&labels.join(", "))
}

/// Returns a piece in one line: its name, tool and digest.
pub(super) fn piece(piece: &ForeignPiece) -> String {
    format!("{}  {}  {}", piece.name, clean(&piece.origin()), piece.evidence.manifest)
}

/// Returns the cells of a metric, in the order of [`COLUMNS`].
pub(super) fn cells(metric: &ForeignMetricVerdict) -> [String; 12] {
    let number = &metric.number;
    let absent = || "-".to_owned();
    let with_unit = |value: f64| format!("{} {}", significant(value, None), clean(&number.unit)).trim_end().to_owned();
    let signed = |ratio: f64| format!("{}{}", if ratio >= 1.0 { "+" } else { "" }, percent(ratio - 1.0));
    let change = metric.change.as_ref();
    let interval = change.and_then(|change| Some(format!("[{}, {}]", signed(change.low?), signed(change.high?))));
    let pieces = match metric.missing {
        0 => format!("{} / {}", metric.baseline.len(), metric.candidate.len()),
        missing => format!("{} / {}, {missing} without it", metric.baseline.len(), metric.candidate.len()),
    };
    [
        metric.outcome.to_string(),
        clean(&number.metric),
        clean(&number.statistic),
        labels(number),
        change.map_or_else(absent, |change| with_unit(change.baseline_median)),
        change.map_or_else(absent, |change| with_unit(change.candidate_median)),
        change.map_or_else(absent, |change| signed(change.ratio)),
        interval.unwrap_or_else(absent),
        probability(metric.p_worse_adjusted.min(metric.p_better_adjusted)),
        metric.floor.as_ref().map_or_else(absent, |floor| percent(floor.share)),
        metric.detectable.map_or_else(absent, percent),
        pieces,
    ]
}
