//! ForeignVerdict: the decision of a gate about foreign evidence. Assay measured none of the numbers that it rests on, so it is a kind of its own:
//! nothing that reads verdicts about runs finds one.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::foreign_evidence::describe_origin;
use crate::document::{body, words};
use crate::{
    Artifact, BetterDirection, Change, Count, Difference, Digest, InputRef, Instant, Name, NoiseFloor, Outcome, Reason, RunId,
};

words!(
    /// The way in which pieces of evidence of the two sides belong together.
    ForeignPairing, "pairing",
    /// The names of the pieces pair them: after the part that all names of a side begin with, both sides have the same names.
    Names = "names",
    /// The times of import pair them: the sides took turns.
    Times = "times",
    /// Nothing pairs them.
    Unpaired = "unpaired",
);

/// The rules that foreign evidence was judged by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForeignGateRules {
    /// The file that holds them; absent for the default rules.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path: Option<String>,
    /// The digest of the bytes of that file; of no bytes for the default rules.
    pub digest: Digest,
    /// The accepted share of false alarms among alarms.
    pub q: f64,
    /// The largest accepted change for the worse, as a share: 0.05 is 5 %.
    pub budget: f64,
    /// The metrics that decide; empty for every metric whose better direction is known.
    pub metrics: Vec<String>,
    /// True if an inconclusive verdict blocks too.
    pub block_on_inconclusive: bool,
    /// True if the verdict may block. Otherwise it is advisory.
    pub allow_foreign: bool,
}

/// A piece of foreign evidence that was judged: the results of one import, which is one observation of each of its metrics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForeignPiece {
    /// The name that it was imported by.
    pub name: RunId,
    /// Its manifest and bundle.
    pub evidence: InputRef,
    /// The format of its files.
    pub format: String,
    /// The version of the format; absent if the format is that of one tool.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub format_version: Option<String>,
    /// The tool that measured, as a file names it; absent if the format is that of one tool, or if no file names it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool: Option<String>,
    /// The version of the tool; absent if no file states it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tool_version: Option<String>,
    /// The time of the import.
    pub imported_at: Instant,
    /// The signer, by its name in the trust policy.
    pub signer: String,
    /// True if the trust policy names the signer.
    pub established: bool,
}

impl ForeignPiece {
    /// Returns the tool that measured with its version, as [`ForeignEvidence::origin`](crate::ForeignEvidence::origin) does.
    pub fn origin(&self) -> String {
        describe_origin(&self.format, [&self.format_version, &self.tool, &self.tool_version].map(Option::as_deref))
    }
}

/// A number of foreign evidence: equal members make two numbers comparable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForeignNumber {
    /// The metric.
    pub metric: String,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The statistic.
    pub statistic: String,
    /// The unit.
    pub unit: String,
}

/// The verdict on one number of foreign evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForeignMetricVerdict {
    /// The number.
    pub number: ForeignNumber,
    /// The direction that is better, by the reviewed table of the format.
    pub better: BetterDirection,
    /// True if it belongs to the family that decides; other metrics are only reported.
    pub primary: bool,
    /// The outcome.
    pub outcome: Outcome,
    /// The reason, if the outcome needs one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<Reason>,
    /// The values of the baseline, one for each piece that has one. If pieces are paired, in the order of the pairs.
    pub baseline: Vec<f64>,
    /// The values of the candidate.
    pub candidate: Vec<f64>,
    /// The pieces, or pairs of pieces, that do not have it.
    pub missing: u32,
    /// The change; absent if the sides cannot be compared.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub change: Option<Change>,
    /// `p_worse` adjusted for the family and for both directions.
    pub p_worse_adjusted: f64,
    /// `p_better` adjusted for the family and for both directions.
    pub p_better_adjusted: f64,
    /// The noise floor.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub floor: Option<NoiseFloor>,
    /// The standard deviation of the difference of two pieces that it was judged by, as a logarithm.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub noise: Option<f64>,
    /// The smallest change for the worse that this number of pairs finds with a probability of 0.8, as a share; absent for unpaired pieces.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detectable: Option<f64>,
    /// For an inconclusive metric: the number of further pieces of evidence that each side needs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub more_pieces: Option<u32>,
}

/// A number that was not judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnjudgedForeignNumber {
    /// The number.
    pub number: ForeignNumber,
    /// The median of the baseline's pieces; absent if none has it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub baseline_median: Option<f64>,
    /// The median of the candidate's pieces; absent if none has it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub candidate_median: Option<f64>,
    /// The reason.
    pub why: String,
}

/// The decision of a gate about foreign evidence. A pure function of the inputs that it names: they give the same bytes again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForeignVerdict {
    /// The statement that it is over foreign evidence: always [`ForeignVerdict::ABOUT`].
    pub about: String,
    /// True if it cannot block, because its rules do not have `allow_foreign`.
    pub advisory: bool,
    /// The version of the method.
    pub contract: String,
    /// The gate's name.
    pub gate: Name,
    /// The worst outcome of its primary metrics.
    pub outcome: Outcome,
    /// True if the rules block on that outcome.
    pub blocks: bool,
    /// The reasons that decided, in words, worst first.
    pub reasons: Vec<Reason>,
    /// The rules.
    pub rules: ForeignGateRules,
    /// The pieces of evidence of the baseline. If pieces are paired, in the order of the pairs.
    pub baseline: Vec<ForeignPiece>,
    /// The pieces of evidence of the candidate.
    pub candidate: Vec<ForeignPiece>,
    /// The way in which they belong together.
    pub pairing: ForeignPairing,
    /// The date of the decision.
    pub judged_on: Instant,
    /// The differences of the pieces that may be all of a change: the tool and its version.
    pub differences: Vec<Difference>,
    /// The facts about the evidence that are not known, and the remarks on its files, in words.
    pub remarks: Vec<String>,
    /// The metrics that were judged.
    pub metrics: Vec<ForeignMetricVerdict>,
    /// The numbers that were not judged, each with its reason; the first thousand.
    pub not_judged: Vec<UnjudgedForeignNumber>,
    /// The number of all that were not judged.
    pub not_judged_count: Count,
    /// The file of the rules.
    pub files: Vec<Artifact>,
}

body!(ForeignVerdict, |verdict| verdict.files.iter().collect());

impl ForeignVerdict {
    /// The first line of every form of it.
    pub const ABOUT: &'static str =
        "a verdict over foreign evidence: Assay measured none of its numbers, and only their importers vouch for them";

    /// Returns all pieces of evidence: the baseline's, then the candidate's.
    pub fn pieces(&self) -> impl Iterator<Item = &ForeignPiece> {
        self.baseline.iter().chain(&self.candidate)
    }
}
