//! Verdict: how a gate decided about a candidate, from what, and by which rules.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{body, words};
use crate::{
    Artifact, Better, CaseId, Comparison, Digest, EndState, InputRef, Instant, Isolation, Name, Placement, PointId, Reason, Role,
    RunId,
};

words!(
    /// What a comparison comes to.
    Outcome, "outcome",
    /// Better, by more than the budget.
    Improved = "improved",
    /// No change that matters was found, and one would have been.
    Unchanged = "unchanged",
    /// The evidence cannot tell.
    Inconclusive = "inconclusive",
    /// Worse, by more than the budget.
    Regressed = "regressed",
);

words!(
    /// What the design re-randomised with every pair.
    PairUnit, "unit of inference",
    /// Both sides stayed up: the adjacent pair of trials.
    Pair = "pair",
    /// Every pair had launches of its own: the pair of provisioned blocks.
    Launch = "launch",
);

words!(
    /// Where a noise floor comes from.
    FloorSource, "source of a floor",
    /// Every pair has launches of its own, so that no launch is left in the difference.
    Rerandomised = "rerandomised",
    /// Launches of earlier runs.
    History = "history",
    /// Earlier runs as wholes: their pairs resemble those before them, however they were launched.
    Autocorrelation = "autocorrelation",
    /// The run's own noise and number of pairs: no earlier run taught whether pairs resemble those before them, and few pairs do not tell.
    Unlearned = "unlearned",
);

/// The rules that a verdict was made by, and where they were read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GatePolicy {
    /// The file that holds them, relative to the repository's root.
    pub path: String,
    /// The digest of its bytes.
    pub digest: Digest,
    /// The commit that it was read at; absent where it was read as a plain file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub commit: Option<String>,
    /// Which share of false alarms among alarms is let pass, over all looks.
    pub q: f64,
    /// The share of `q` that each look may spend, fixed before the first.
    pub looks: Vec<f64>,
    /// What a change for the worse may come to, as a share: 0.05 is 5 %.
    pub budget: f64,
    /// The metrics that it judges; empty for every primary metric.
    pub metrics: Vec<String>,
    /// Whether an inconclusive verdict blocks too.
    pub block_on_inconclusive: bool,
    /// Whether a point of the candidate that misses its SLOs blocks.
    pub slo: bool,
    /// Whether a run blocks that is of no commit, or whose signers are not established.
    pub provenance: bool,
    /// The share of the candidate's requests that may fail at any point.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_error_rate: Option<f64>,
    /// How far the candidate's mean output length may lie from the baseline's, as a share.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_output_drift: Option<f64>,
}

/// A run whose trials were judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JudgedRun {
    /// The run.
    pub run_id: RunId,
    /// Its Summary.
    pub summary: InputRef,
    /// The digest of its Plan's body.
    pub plan_digest: Digest,
    /// The commit that it measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub commit: Option<String>,
    /// The tree that it measured: the commit's, 40 hexadecimal digits, or where no commit was measured the digest of the files that its
    /// definitions were read from.
    pub tree: String,
    /// Who signed its chain, by the names that the trust policy has for them.
    pub signers: Vec<String>,
    /// Whether a trust policy says of every signer who it is.
    pub established: bool,
    /// How earlier attempts under this name ended before its Summary was signed, oldest first. The order of the sides is drawn by the name, so a
    /// reader may ask why one that somebody chose was begun again.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub earlier_ends: Vec<EarlierEnd>,
}

/// An attempt at a run that ended before the run had a Summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EarlierEnd {
    /// Whether a person stopped it, or a stage could not go on.
    pub state: EndState,
    /// The stage that was running.
    pub stage: Role,
    /// Why, in a word: the code of the error.
    pub code: String,
}

/// Which look of a sequence this verdict is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sequence {
    /// Whose verdicts they are, such as `pr-17`.
    pub subject: Name,
    /// From 1.
    pub look: u32,
    /// The verdicts before it, oldest first, by the digests of their manifests.
    pub earlier: Vec<Digest>,
}

/// A fact that differs between the sides and is not the variable under test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// Which fact.
    pub what: String,
    /// The baseline's.
    pub baseline: String,
    /// The candidate's.
    pub candidate: String,
}

/// A change that people accepted beforehand, by a reviewed file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Acknowledgement {
    /// The file that holds it, relative to the repository's root.
    pub path: String,
    /// The digest of its bytes.
    pub digest: Digest,
    /// The candidate's case that it is about.
    pub case: CaseId,
    /// The point; every point of the case where it is absent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub point: Option<PointId>,
    /// The metric that it is about.
    pub metric: String,
    /// The largest change for the worse that it accepts, as a share.
    pub accepts: f64,
    /// The pull request or the commits whose change it accepts, in words.
    pub of: String,
    /// Whether that is what was judged.
    pub applies: bool,
    /// Why.
    pub reason: String,
    /// Who approved it.
    pub approver: String,
    /// From when on it accepts nothing.
    pub expires: Instant,
}

/// An absolute rule that one run can break by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// What is asked, such as `error_rate` or `slo`.
    pub name: String,
    /// Where, in words.
    pub subject: String,
    /// Whether it held.
    pub passed: bool,
    /// Whether it blocks by itself where it did not; else the verdict is inconclusive.
    pub blocks: bool,
    /// What was found, and what was asked.
    pub detail: String,
    /// The acknowledgement that lets it pass, where it did not hold.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub acknowledged: Option<String>,
}

impl Check {
    /// Whether it held, or was accepted beforehand.
    pub fn holds(&self) -> bool {
        self.passed || self.acknowledged.is_some()
    }
}

/// How much a metric changed. Ratios are candidate over baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The ratio of Hodges and Lehmann over pairs: what is judged.
    pub ratio: f64,
    /// The lower end of its interval; absent where so few pairs bound nothing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub low: Option<f64>,
    /// The upper end.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub high: Option<f64>,
    /// The level of the interval.
    pub level: f64,
    /// The median of all trials of the baseline, in the metric's unit.
    pub baseline_median: f64,
    /// The median of all trials of the candidate.
    pub candidate_median: f64,
    /// The exact one-sided probability of signed ranks so much for the worse under no change.
    pub p_worse: f64,
    /// The same for the better.
    pub p_better: f64,
    /// The two-sided probability of rank sums as if nothing were paired, beside the test that decides.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p_unpaired: Option<f64>,
}

/// The floor that a bound had to clear.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoiseFloor {
    /// As a share: 0.02 is 2 %.
    pub share: f64,
    /// Where it comes from.
    pub source: FloorSource,
}

/// Both sides' values of one round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialPair {
    /// Which of the verdict's runs, from 0.
    pub run: u32,
    /// The round: the number of both trials within their points.
    pub index: u32,
    /// The baseline's value, in the metric's unit.
    pub baseline: f64,
    /// The candidate's.
    pub candidate: f64,
}

/// One metric of one point, judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricVerdict {
    /// The workload.
    pub workload: Name,
    /// The point.
    pub point_id: PointId,
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Which direction is better.
    pub better: Better,
    /// Whether it is of the family that decides; others are reported.
    pub primary: bool,
    /// What it comes to.
    pub outcome: Outcome,
    /// Why, where that needs a word.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<Reason>,
    /// The pairs that were judged, in order.
    pub pairs: Vec<TrialPair>,
    /// Planned pairs that lack a valid trial on a side, or its value.
    pub missing: u32,
    /// How much it changed; absent where it cannot be compared.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub change: Option<Change>,
    /// `p_worse` adjusted for the family and for both directions.
    pub p_worse_adjusted: f64,
    /// `p_better` adjusted for the family and for both directions.
    pub p_better_adjusted: f64,
    /// The floor.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub floor: Option<NoiseFloor>,
    /// The standard deviation of one pair's difference that it was judged by, as a logarithm.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub noise: Option<f64>,
    /// The smallest change for the worse that would have been found with a probability of 0.8, as a share.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detectable: Option<f64>,
    /// For an inconclusive one: how many pairs more it would take.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub more_pairs: Option<u32>,
    /// The acknowledgement that lets it pass, by its path.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub acknowledged: Option<String>,
}

/// How a gate decided. A pure function of what it names: whoever has that can make it again, to the byte.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// The version of the method.
    pub contract: String,
    /// The gate's name.
    pub gate: Name,
    /// The worst of its primary metrics and checks, after acknowledgements.
    pub outcome: Outcome,
    /// Whether the policy blocks on that.
    pub blocks: bool,
    /// What decided, in words, worst first.
    pub reasons: Vec<Reason>,
    /// The rules.
    pub policy: GatePolicy,
    /// What was compared.
    pub comparison: Comparison,
    /// How the sides shared the machine.
    pub placement: Placement,
    /// How trials were kept apart.
    pub isolation: Isolation,
    /// What was re-randomised with every pair.
    pub unit: PairUnit,
    /// The runs whose pairs were judged, oldest first.
    pub runs: Vec<JudgedRun>,
    /// The file with what earlier runs teach about noise, by its digest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub learned: Option<Digest>,
    /// Which look it is.
    pub sequence: Sequence,
    /// When it was made, as far as expiry is concerned: the date that acknowledgements were compared with.
    pub judged_on: Instant,
    /// The acknowledgements that were there.
    pub acknowledgements: Vec<Acknowledgement>,
    /// How the rules that the candidate itself brings differ from those that it was judged by.
    pub policy_changes: Vec<Difference>,
    /// What the candidate's definitions measure otherwise than those of the branch that it is to be merged into: pipeline and workloads but for
    /// the gates. Who may change what is measured could else pass by measuring less.
    pub definition_changes: Vec<Difference>,
    /// What differs between the sides besides the variable under test.
    pub differences: Vec<Difference>,
    /// Absolute rules.
    pub checks: Vec<Check>,
    /// The metrics, in the plan's order.
    pub metrics: Vec<MetricVerdict>,
    /// The files that it was made from besides the runs: rules and acknowledgements.
    pub files: Vec<Artifact>,
}

body!(Verdict, |verdict| verdict.files.iter().collect());

impl Verdict {
    /// What it came to, in a word: the outcome, or `accepted` where nothing but what acknowledgements let pass is worse.
    pub fn in_a_word(&self) -> &'static str {
        let lets_pass = |metric: &MetricVerdict| metric.primary && metric.acknowledged.is_some();
        if self.outcome == Outcome::Unchanged && self.metrics.iter().any(lets_pass) { "accepted" } else { self.outcome.as_str() }
    }

    /// The commit that was judged.
    pub fn commit(&self) -> Option<&str> {
        self.runs.last()?.commit.as_deref()
    }

    /// The cases of the candidate that were judged, each with the worst of its primary metrics that no acknowledgement lets pass.
    pub fn cases(&self) -> Vec<(CaseId, Outcome)> {
        let mut cases: Vec<(CaseId, Outcome)> = Vec::new();
        for metric in self.metrics.iter().filter(|metric| metric.primary) {
            let candidate = &self.comparison.candidate;
            let case = CaseId::of(&metric.workload, &candidate.target, &candidate.variant);
            let outcome = if metric.acknowledged.is_some() { Outcome::Unchanged } else { metric.outcome };
            match cases.iter_mut().find(|(known, _)| *known == case) {
                Some((_, worst)) => *worst = (*worst).max(outcome),
                None => cases.push((case, outcome)),
            }
        }
        cases
    }
}
