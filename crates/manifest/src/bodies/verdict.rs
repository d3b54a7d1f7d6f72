//! Verdict: the decision of a gate about a candidate, with its evidence and rules.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{body, words};
use crate::{
    Artifact, BetterDirection, CaseId, Comparison, Digest, EndState, InputRef, Instant, Isolation, Name, Placement, PointId,
    Reason, Role, RunId,
};

words!(
    /// The outcome of a comparison.
    Outcome, "outcome",
    /// Better, by more than the budget.
    Improved = "improved",
    /// No relevant change was found, and the design would have found one.
    Unchanged = "unchanged",
    /// The evidence does not decide.
    Inconclusive = "inconclusive",
    /// Worse, by more than the budget.
    Regressed = "regressed",
);

words!(
    /// The unit that the design re-randomised for each pair.
    PairUnit, "unit of inference",
    /// Both sides stayed up: the adjacent pair of trials.
    Pair = "pair",
    /// Both sides were launched again for each pair: the pair of provisioned blocks.
    Launch = "launch",
);

words!(
    /// The source of a noise floor.
    FloorSource, "source of a floor",
    /// Both sides are launched again for each pair, so the difference contains no effect of a single launch.
    Rerandomised = "rerandomised",
    /// Launches of earlier runs.
    History = "history",
    /// Earlier runs as wholes: their pairs resemble the preceding pairs, however they were launched.
    Autocorrelation = "autocorrelation",
    /// The run's own noise and number of pairs: no earlier run shows whether pairs resemble the preceding ones, and few pairs
    /// cannot show it.
    Unlearned = "unlearned",
);

/// The rules that a verdict was made by, and the place they were read from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GatePolicy {
    /// The file that holds them, relative to the repository's root.
    pub path: String,
    /// The digest of its bytes.
    pub digest: Digest,
    /// The commit that it was read at; absent if it was read as a plain file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub commit: Option<String>,
    /// The accepted share of false alarms among alarms, over all looks.
    pub q: f64,
    /// The share of `q` that each look may spend, fixed before the first.
    pub looks: Vec<f64>,
    /// The largest accepted change for the worse, as a share: 0.05 is 5 %.
    pub budget: f64,
    /// The metrics that it judges; empty for every primary metric.
    pub metrics: Vec<String>,
    /// True if an inconclusive verdict blocks too.
    pub block_on_inconclusive: bool,
    /// True if a point of the candidate that misses its SLOs blocks.
    pub slo: bool,
    /// True if a run blocks that is of no commit, or whose signers are not established.
    pub provenance: bool,
    /// The share of the candidate's requests that may fail at any point.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_error_rate: Option<f64>,
    /// The largest accepted difference between the mean output lengths of candidate and baseline, as a share.
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
    /// The tree that it measured: the commit's, 40 hexadecimal digits, or, if no commit was measured, the digest of the files
    /// that its definitions were read from.
    pub tree: String,
    /// The signers of its chain, by their names in the trust policy.
    pub signers: Vec<String>,
    /// True if the trust policy names every signer.
    pub established: bool,
    /// The ends of earlier attempts at this run id, before its Summary was signed, oldest first. The run id determines the order
    /// of the sides, so a reader may ask why a run with a chosen id was started again.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub earlier_ends: Vec<EarlierEnd>,
}

/// An attempt at a run that ended before the run had a Summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EarlierEnd {
    /// The way it ended: a person stopped it, or a stage failed.
    pub state: EndState,
    /// The stage that was running.
    pub stage: Role,
    /// The code of the error.
    pub code: String,
}

/// The position of this verdict in a sequence of looks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sequence {
    /// Its name: the pull request or the tree that the verdicts are about, such as `pr-17`.
    pub name: Name,
    /// The number of the look, from 1.
    pub look: u32,
    /// The verdicts before it, oldest first, by the digests of their manifests.
    pub earlier: Vec<Digest>,
}

/// A fact that differs between the sides and is not the variable under test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// The fact.
    pub what: String,
    /// The baseline's value.
    pub baseline: String,
    /// The candidate's value.
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
    /// The candidate's case that it applies to.
    pub case: CaseId,
    /// The point; absent for every point of the case.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub point: Option<PointId>,
    /// The metric that it applies to.
    pub metric: String,
    /// The largest change for the worse that it accepts, as a share.
    pub accepts: f64,
    /// The pull request or the commits whose change it accepts, in words.
    pub of: String,
    /// True if that is the change that was judged.
    pub applies: bool,
    /// The reason.
    pub reason: String,
    /// The person who approved it.
    pub approver: String,
    /// The time from which it accepts nothing.
    pub expires: Instant,
}

/// An absolute rule that one run can break by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// The name of the rule, such as `error_rate` or `slo`.
    pub name: String,
    /// The part of the run that was checked, in words, such as a case and a point.
    pub scope: String,
    /// True if the rule held.
    pub passed: bool,
    /// True if a broken rule blocks by itself; otherwise it makes the verdict inconclusive.
    pub blocks: bool,
    /// The observation and the requirement.
    pub detail: String,
    /// The acknowledgement that accepts the broken rule.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub acknowledged: Option<String>,
}

impl Check {
    /// Creates a check that makes the verdict inconclusive if it did not pass.
    pub fn inconclusive(name: &str, scope: &str, passed: bool, detail: impl Into<String>) -> Self {
        let (name, scope) = (name.to_owned(), scope.to_owned());
        Self { name, scope, passed, blocks: false, detail: detail.into(), acknowledged: None }
    }

    /// Creates a check that blocks by itself if it did not pass.
    pub fn blocking(name: &str, scope: &str, passed: bool, detail: impl Into<String>) -> Self {
        Self { blocks: true, ..Self::inconclusive(name, scope, passed, detail) }
    }

    /// Returns true if the rule held, or if its breach was accepted beforehand.
    pub fn holds(&self) -> bool {
        self.passed || self.acknowledged.is_some()
    }
}

/// The change of a metric. Ratios are candidate over baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The Hodges-Lehmann estimate of the ratio over pairs, which is judged.
    pub ratio: f64,
    /// The lower end of its interval; absent if too few pairs bound it.
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
    /// The exact one-sided p-value of the signed-rank test for a change for the worse.
    pub p_worse: f64,
    /// The exact one-sided p-value for a change for the better.
    pub p_better: f64,
    /// The two-sided p-value of the rank-sum test, as if trials were not paired; reported beside the test that decides.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p_unpaired: Option<f64>,
}

/// The noise floor that a bound had to clear.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoiseFloor {
    /// As a share: 0.02 is 2 %.
    pub share: f64,
    /// The source of the floor.
    pub source: FloorSource,
}

/// The values of both sides in one round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialPair {
    /// The index of the run among the verdict's runs, from 0.
    pub run: u32,
    /// The round: the number of both trials within their points.
    pub index: u32,
    /// The baseline's value, in the metric's unit.
    pub baseline: f64,
    /// The candidate's value.
    pub candidate: f64,
}

/// The verdict on one metric of one point.
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
    /// The direction that is better.
    pub better: BetterDirection,
    /// True if it belongs to the family that decides; other metrics are only reported.
    pub primary: bool,
    /// The outcome.
    pub outcome: Outcome,
    /// The reason, if the outcome needs one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<Reason>,
    /// The pairs that were judged, in order.
    pub pairs: Vec<TrialPair>,
    /// Planned pairs without a valid trial on one side, or without its value.
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
    /// The standard deviation of one pair's difference that it was judged by, as a logarithm.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub noise: Option<f64>,
    /// The smallest change for the worse that the design finds with a probability of 0.8, as a share.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detectable: Option<f64>,
    /// For an inconclusive metric: the number of additional pairs needed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub more_pairs: Option<u32>,
    /// The acknowledgement that accepts the change, by its path.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub acknowledged: Option<String>,
}

/// The decision of a gate. A pure function of the inputs that it names: they give the same bytes again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// The version of the method.
    pub contract: String,
    /// The gate's name.
    pub gate: Name,
    /// The worst outcome of its primary metrics and checks, after acknowledgements.
    pub outcome: Outcome,
    /// True if the policy blocks on that outcome.
    pub blocks: bool,
    /// The reasons that decided, in words, worst first.
    pub reasons: Vec<Reason>,
    /// The rules.
    pub policy: GatePolicy,
    /// The comparison.
    pub comparison: Comparison,
    /// The way the sides shared the machine.
    pub placement: Placement,
    /// The isolation of trials.
    pub isolation: Isolation,
    /// The unit that was re-randomised for each pair.
    pub unit: PairUnit,
    /// The runs whose pairs were judged, oldest first.
    pub runs: Vec<JudgedRun>,
    /// The digest of the file with the noise of earlier runs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub learned: Option<Digest>,
    /// The position in the sequence of looks.
    pub sequence: Sequence,
    /// The date that the expiry of acknowledgements was compared with.
    pub judged_on: Instant,
    /// The acknowledgements that were found.
    pub acknowledgements: Vec<Acknowledgement>,
    /// The differences between the candidate's own rules and the rules that it was judged by.
    pub policy_changes: Vec<Difference>,
    /// The differences between the definitions (pipeline and workloads, without gates) of the candidate and of the target
    /// branch. Without them, a change could pass by measuring less.
    pub definition_changes: Vec<Difference>,
    /// The differences between the sides besides the variable under test.
    pub differences: Vec<Difference>,
    /// The absolute rules.
    pub checks: Vec<Check>,
    /// The metrics, in the plan's order.
    pub metrics: Vec<MetricVerdict>,
    /// The files that it was made from, besides the runs: rules and acknowledgements.
    pub files: Vec<Artifact>,
}

body!(Verdict, |verdict| verdict.files.iter().collect());

impl Verdict {
    /// Returns the outcome, or `accepted` if only acknowledged changes are worse.
    pub fn outcome_label(&self) -> &'static str {
        let lets_pass = |metric: &MetricVerdict| metric.primary && metric.acknowledged.is_some();
        if self.outcome == Outcome::Unchanged && self.metrics.iter().any(lets_pass) { "accepted" } else { self.outcome.as_str() }
    }

    /// Returns the commit that was judged.
    pub fn commit(&self) -> Option<&str> {
        self.runs.last()?.commit.as_deref()
    }

    /// Returns the judged cases of the candidate, each with the worst outcome of its primary metrics, apart from acknowledged
    /// ones.
    pub fn cases(&self) -> Vec<(CaseId, Outcome)> {
        let mut cases: Vec<(CaseId, Outcome)> = Vec::new();
        for metric in self.metrics.iter().filter(|metric| metric.primary) {
            let candidate = &self.comparison.candidate;
            let case = CaseId::from_names(&metric.workload, &candidate.target, &candidate.variant);
            let outcome = if metric.acknowledged.is_some() { Outcome::Unchanged } else { metric.outcome };
            match cases.iter_mut().find(|(known, _)| *known == case) {
                Some((_, worst)) => *worst = (*worst).max(outcome),
                None => cases.push((case, outcome)),
            }
        }
        cases
    }
}
