//! The verdict of a gate, from runs, rules and acknowledgements.

use std::collections::BTreeMap;

use assay_failure::first_names;
use assay_manifest::{
    BetterDirection, CaseId, Change, Check, Comparison, Difference, FloorSource, JudgedRun, MetricVerdict, NoiseFloor,
    OriginKind, Outcome, PairUnit, Reason, TrialPair, Verdict,
};
use assay_stats::{Alternative, Limits, Samples, mann_whitney};

use crate::checks::{ORDER, check_definitions, checks};
use crate::curves::Curves;
use crate::evidence::{ComparedMetric, ONE_TRIAL, Run, WITHIN_RUN, pair_metrics, unit};
use crate::input::{GateInput, apply_acknowledgements, percent};
use crate::rule::{BOUND_ALPHA, Effect, JudgedMetric, OutcomeReason, Rules, Series, judge_with, share};
use crate::sides::find_confounding;

/// The version of the method. A verdict can be recomputed only by the same version.
pub const CONTRACT: &str = "assay-gate/11";

/// The most pairs that an inconclusive verdict asks for.
const MOST_PAIRS: usize = 200;

/// The reason why nothing can be judged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No run was given.
    #[error("there is no run to judge")]
    NoRun,
    /// The run compares nothing.
    #[error("the pipeline of run `{0}` has no `comparison`, so there is nothing to judge")]
    NoComparison(String),
    /// Runs of different trees are not one experiment.
    #[error("run `{other}` measured another tree than run `{first}`, so their pairs are not one experiment")]
    OtherTree {
        /// The first run.
        first: String,
        /// The run that differs.
        other: String,
    },
    /// All looks were used.
    #[error("the policy allows {allowed} looks, and this would be number {look}")]
    NoLookLeft {
        /// The number of allowed looks.
        allowed: usize,
        /// The number of this look.
        look: u32,
    },
    /// The policy names a metric that no compared point reports.
    #[error("the gate judges `{0}`, which no compared point reports with a direction that is better")]
    UnknownMetric(String),
}

/// Judges runs by a gate's rules.
///
/// # Errors
/// [`Refusal`] if nothing can be judged. Insufficient evidence is not an error but an inconclusive verdict.
pub fn judge(question: &GateInput<'_>) -> Result<Verdict, Refusal> {
    let first = question.runs.first().ok_or(Refusal::NoRun)?;
    let no_comparison = || Refusal::NoComparison(first.run_id.to_string());
    let comparison = first.plan.comparison.as_ref().ok_or_else(no_comparison)?;
    check_same_experiment(first, &question.runs)?;
    let look = question.sequence.look;
    let share = (look as usize).checked_sub(1).and_then(|place| question.policy.looks.get(place));
    let share = *share.ok_or(Refusal::NoLookLeft { allowed: question.policy.looks.len(), look })?;
    let rules = Rules {
        q: question.policy.q * share,
        budget: question.policy.budget,
        unit: unit(first.plan, comparison),
        both_ways: question.both_ways,
    };
    // More pairs are judged at the next look, by its share. If no look is left, this look's share is used, as an estimate for
    // another tree's first look.
    let later = Rules { q: question.policy.q * question.policy.looks.get(look as usize).copied().unwrap_or(share), ..rules };

    let mut compared = collect_metrics(&question.runs, comparison);
    compared.retain(|compared| !compared.needs_name || question.policy.metrics.iter().any(|named| named == compared.metric));
    for named in &question.policy.metrics {
        if !compared.iter().any(|compared| compared.metric == named) {
            return Err(Refusal::UnknownMetric(named.clone()));
        }
    }
    let is_primary = |compared: &ComparedMetric<'_>| match question.policy.metrics.as_slice() {
        [] => compared.primary,
        named => named.iter().any(|named| named == compared.metric),
    };
    let (primary, others): (Vec<_>, Vec<_>) =
        (0..compared.len()).partition(|&place| compared.get(place).is_some_and(&is_primary));
    let mut verdicts: BTreeMap<usize, MetricVerdict> = BTreeMap::new();
    // Each family is corrected separately, so that metrics that are only reported cost the deciding ones no statistical power.
    for (family, decides) in [(primary, true), (others, false)] {
        let members: Vec<_> = family.iter().filter_map(|place| compared.get(*place)).collect();
        let series: Vec<Series> = members.iter().map(|compared| series(compared, rules.unit, question)).collect();
        let mut curves = Curves::new(rules.q_per_direction(), family.len());
        let judged = judge_with(&series, &rules, &mut curves);
        let mut curves = Curves::new(later.q_per_direction(), family.len());
        for (((place, compared), series), judged) in family.iter().zip(&members).zip(&series).zip(judged) {
            let mut verdict = metric_verdict(compared, series, &judged, &later, &mut curves, decides);
            if compared.is_within_run {
                (verdict.outcome, verdict.reason) = (Outcome::Inconclusive, Some(Reason::new(WITHIN_RUN, ONE_TRIAL)));
                verdict.more_pairs = None;
            }
            if let Some(why) = &compared.undecided {
                (verdict.outcome, verdict.reason, verdict.more_pairs) = (Outcome::Inconclusive, Some(why.clone()), None);
            }
            verdicts.insert(*place, verdict);
        }
    }
    let differences: Vec<Difference> = question.runs.iter().flat_map(|run| run.differences(comparison)).collect();
    let environments: Vec<_> = question.runs.iter().flat_map(|run| run.environments.iter().copied()).collect();
    let confounded = find_confounding(&environments, comparison);
    let of_runs = question.runs.iter().flat_map(|run| checks(run, comparison, question));
    let checks: Vec<Check> = of_runs.chain(check_definitions(&question.definition_changes)).collect();
    let declared = checks.iter().find(|check| check.name == ORDER && !check.passed);
    let mut metrics: Vec<MetricVerdict> = verdicts.into_values().collect();
    for metric in &mut metrics {
        // A metric without a number of some side has a reason of its own, with its remedy.
        if !metric.pairs.is_empty() || metric.reason.is_none() {
            weaken(metric, confounded.as_deref(), &differences);
        }
        if let Some(declared) = declared {
            (metric.outcome, metric.more_pairs) = (Outcome::Inconclusive, None);
            metric.reason = Some(Reason::new("order_declared", &declared.detail));
        }
        acknowledge(metric, comparison, question);
    }
    let mut reasons = reasons(&metrics, &checks, question);
    let outcome = outcome(&metrics, &checks, &mut reasons);
    // A change of definitions always blocks an inconclusive verdict, so that changing what is measured does not bypass the gate.
    let blocks_on_inconclusive = question.policy.block_on_inconclusive || !question.definition_changes.is_empty();
    let blocks = outcome == Outcome::Regressed || (outcome == Outcome::Inconclusive && blocks_on_inconclusive);
    Ok(Verdict {
        contract: CONTRACT.to_owned(),
        gate: question.gate.clone(),
        outcome,
        blocks,
        reasons,
        policy: question.policy.clone(),
        comparison: comparison.clone(),
        placement: first.plan.placement,
        isolation: first.plan.isolation,
        unit: rules.unit,
        runs: question.runs.iter().map(judged_run).collect(),
        learned: question.learned.as_ref().map(|history| history.digest),
        sequence: question.sequence.clone(),
        judged_on: question.judged_on,
        acknowledgements: question.acknowledgements.clone(),
        policy_changes: question.policy_changes.clone(),
        definition_changes: question.definition_changes.clone(),
        differences,
        checks,
        metrics,
        files: question.files.clone(),
    })
}

fn check_same_experiment(first: &Run<'_>, runs: &[Run<'_>]) -> Result<(), Refusal> {
    match runs.iter().find(|run| {
        let same_files = run.source.files_digest == first.source.files_digest;
        run.tree != first.tree || !same_files || run.plan.comparison != first.plan.comparison
    }) {
        Some(other) => Err(Refusal::OtherTree { first: first.run_id.to_string(), other: other.run_id.to_string() }),
        None => Ok(()),
    }
}

fn judged_run(run: &Run<'_>) -> JudgedRun {
    JudgedRun {
        run_id: run.run_id.clone(),
        summary: run.summary.0,
        plan_digest: run.summary.1.plan_digest,
        // A modified work tree is not the commit that is checked out.
        commit: run.source.commit.clone().filter(|_| run.source.kind == OriginKind::Git),
        tree: run.tree.clone(),
        signers: run.signers.clone(),
        established: run.established,
        earlier_ends: run.earlier_ends.clone(),
    }
}

/// Collects each metric over all runs, in the order of the first run.
fn collect_metrics<'a>(runs: &[Run<'a>], comparison: &Comparison) -> Vec<ComparedMetric<'a>> {
    let mut all: Vec<ComparedMetric<'a>> = Vec::new();
    for (number, run) in (0_u32..).zip(runs) {
        for compared in pair_metrics(run, number, comparison) {
            let same = |earlier: &&mut ComparedMetric<'_>| {
                earlier.case.case_id == compared.case.case_id
                    && earlier.point == compared.point
                    && earlier.metric == compared.metric
            };
            match all.iter_mut().find(same) {
                Some(earlier) => {
                    earlier.planned += compared.planned;
                    earlier.is_within_run &= compared.is_within_run;
                    earlier.undecided = earlier.undecided.take().or(compared.undecided);
                    earlier.pairs.extend(compared.pairs);
                }
                None => all.push(compared),
            }
        }
    }
    all
}

fn series(compared: &ComparedMetric<'_>, unit: PairUnit, question: &GateInput<'_>) -> Series {
    Series {
        better: compared.better,
        pairs: compared.pairs.iter().map(|pair| [pair.baseline, pair.candidate]).collect(),
        places: compared.pairs.iter().map(|pair| [pair.run, pair.index]).collect(),
        learned: question.learned.as_ref().and_then(|history| history.metrics.get(&compared.metric_key(unit)).copied()),
    }
}

/// Returns the verdict on a judged metric; `rules` and `curves` are those by which more pairs would be judged.
fn metric_verdict(
    compared: &ComparedMetric<'_>,
    series: &Series,
    judged: &JudgedMetric,
    rules: &Rules,
    curves: &mut Curves,
    primary: bool,
) -> MetricVerdict {
    let pairs = u32::try_from(compared.pairs.len()).unwrap_or(u32::MAX);
    let effect = effect_to_find(judged, rules);
    let more_pairs = effect.and_then(|effect| more_pairs(effect, judged, rules, curves, pairs));
    let is_known = judged.noise.is_some() && judged.floor.is_some();
    let is_out_of_reach = effect.is_some() && is_known && more_pairs.is_none();
    MetricVerdict {
        workload: compared.case.workload.clone(),
        point_id: compared.point.clone(),
        metric: compared.metric.to_owned(),
        unit: compared.unit.to_owned(),
        better: compared.better,
        primary,
        outcome: judged.outcome,
        reason: judged.why.map(|why| reason(why, judged, rules, is_out_of_reach)),
        pairs: compared.pairs.clone(),
        missing: compared.planned.saturating_sub(pairs),
        change: judged.effect.as_ref().and_then(|effect| {
            let [baseline, candidate] = [|pair: &TrialPair| pair.baseline, |pair: &TrialPair| pair.candidate]
                .map(|of| compared.pairs.iter().map(of).collect::<Vec<f64>>());
            change(effect, series.better, [&baseline, &candidate])
        }),
        p_worse_adjusted: judged.worse_adjusted,
        p_better_adjusted: judged.better_adjusted,
        floor: judged.floor.map(|floor| NoiseFloor { share: share(floor.log), source: floor.source }),
        noise: judged.noise.map(|noise| noise.without_spikes().sd),
        detectable: judged.detectable.map(share),
        more_pairs,
        acknowledged: None,
    }
}

/// Formats the effect as ratios of candidate over baseline, whichever direction is better.
pub(crate) fn change(effect: &Effect, better: BetterDirection, [baseline, candidate]: [&[f64]; 2]) -> Option<Change> {
    let (baseline, candidate) = (Samples::new(baseline).ok()?, Samples::new(candidate).ok()?);
    let (low, high, turn) = match better {
        BetterDirection::Lower => (effect.low, effect.high, 1.0),
        BetterDirection::Higher => (effect.high, effect.low, -1.0),
    };
    let ratio = |log: f64| libm::exp(turn * log);
    Some(Change {
        ratio: ratio(effect.shift),
        low: low.map(ratio),
        high: high.map(ratio),
        level: 1.0 - 2.0 * BOUND_ALPHA,
        baseline_median: baseline.median(),
        candidate_median: candidate.median(),
        p_worse: effect.p_worse,
        p_better: effect.p_better,
        p_unpaired: mann_whitney(&candidate, &baseline, Alternative::TwoSided).ok().map(|tested| tested.p),
    })
}

fn reason(why: OutcomeReason, judged: &JudgedMetric, rules: &Rules, is_out_of_reach: bool) -> Reason {
    let must_find = percent(2.0 * rules.budget);
    let reason = match why {
        OutcomeReason::NoPair => Reason::new("no_pair", "no planned pair has a valid trial on both sides"),
        OutcomeReason::NotComparable => {
            Reason::new("not_comparable", "a pair has a value below zero, so there is no ratio to judge")
        }
        OutcomeReason::Underpowered => {
            let found = judged.detectable.map_or_else(
                || "so few pairs could not have found a change of this metric alone, of any size".to_owned(),
                |smallest| format!("the smallest change that would have been found is {}", percent(share(smallest))),
            );
            let is_unlearned = judged.floor.is_some_and(|floor| floor.source == FloorSource::Unlearned);
            let learn = if is_unlearned { "; noise that is learned from earlier runs may lower it (`assay noise`)" } else { "" };
            Reason::new("underpowered", format!("{found}; a verdict needs {must_find}{learn}"))
        }
        OutcomeReason::LaunchesUnknown => Reason::new(
            "launches_unknown",
            "both sides stayed up, and too little was learned of how launches differ: a launch may be all of a difference, or hide one",
        ),
        OutcomeReason::PairsAutocorrelated => Reason::new(
            "pairs_remember",
            "its pairs resemble those before them, so a stretch of them may be all of the change: they are no independent samples",
        ),
        OutcomeReason::WithinFloor => {
            let floor = judged.floor.map_or(0.0, |floor| share(floor.log));
            let of = match judged.floor.map(|floor| floor.source) {
                Some(FloorSource::Autocorrelation) => " of runs whose pairs resemble those before them",
                Some(FloorSource::Unlearned) => {
                    " of so few pairs, of which no earlier run tells whether they resemble those before them (`assay noise`)"
                }
                _ => "",
            };
            let seems = if judged.effect.is_some_and(|effect| effect.shift < 0.0) { "better" } else { "worse" };
            let text = format!("it seems {seems}, but its bound does not clear the noise floor of {}{of}", percent(floor));
            Reason::new("within_floor", text)
        }
    };
    let never = if is_out_of_reach { format!("; {MOST_PAIRS} pairs would not tell either") } else { String::new() };
    Reason { detail: reason.detail + &never, ..reason }
}

/// Returns the effect that more pairs would have to find: twice the budget, or the observed effect if that is the larger one, or the design could have
/// found twice the budget, and the effect did not clear the floor.
/// `None` if no number of pairs helps.
pub(crate) fn effect_to_find(judged: &JudgedMetric, rules: &Rules) -> Option<f64> {
    match judged.why? {
        OutcomeReason::Underpowered => Some(rules.required_effect()),
        OutcomeReason::WithinFloor => Some(judged.effect?.shift.abs()),
        OutcomeReason::NoPair
        | OutcomeReason::NotComparable
        | OutcomeReason::LaunchesUnknown
        | OutcomeReason::PairsAutocorrelated => None,
    }
}

/// Returns how many more pairs would find that effect, at the realised noise.
pub(crate) fn more_pairs(effect: f64, judged: &JudgedMetric, rules: &Rules, curves: &mut Curves, found: u32) -> Option<u32> {
    let (floor, noise) = (judged.floor?, judged.noise?);
    let limits = |pairs: usize| Limits { floor: floor.for_pairs(&noise, pairs).log, budget: rules.log_budget() };
    let reach = (found as usize + 1, MOST_PAIRS);
    curves.fewest_for(effect, reach, noise.views(), limits).map(|enough| enough as u32 - found)
}

/// Makes a metric inconclusive if its change cannot be attributed to the candidate, whatever its size. If a locked fact differs,
/// this includes unchanged metrics: the difference may have hidden a change, and a change that the design would have found could
/// not have been attributed.
fn weaken(metric: &mut MetricVerdict, confounded: Option<&str>, differences: &[Difference]) {
    // No number of pairs reveals the cause of a difference.
    if confounded.is_some() || !differences.is_empty() {
        metric.more_pairs = None;
    }
    if let Some(why) = confounded.filter(|_| metric.outcome != Outcome::Unchanged) {
        metric.outcome = Outcome::Inconclusive;
        metric.reason = Some(Reason::new("confounded_with_placement", why));
    } else if !differences.is_empty() {
        metric.outcome = Outcome::Inconclusive;
        let names: Vec<_> = differences.iter().map(|difference| format!("`{}`", difference.what)).collect();
        let text = format!("the sides differ in {}, which is not the variable under test", first_names(&names, 1));
        metric.reason = Some(Reason::new("environment", text));
    }
}

/// Lets a regression pass that was accepted beforehand, if it is no larger than accepted and the acceptance has not expired.
fn acknowledge(metric: &mut MetricVerdict, comparison: &Comparison, question: &GateInput<'_>) {
    if metric.outcome != Outcome::Regressed {
        return;
    }
    let Some(change) = &metric.change else { return };
    let worse = if metric.better == BetterDirection::Lower { change.ratio } else { 1.0 / change.ratio } - 1.0;
    let case = CaseId::from_names(&metric.workload, &comparison.candidate.target, &comparison.candidate.variant);
    let Some((path, why)) = apply_acknowledgements(&case, &metric.point_id, &metric.metric, worse, question) else { return };
    metric.acknowledged = path;
    metric.reason = Some(why);
}

/// Returns the deciding reasons, worst first.
fn reasons(metrics: &[MetricVerdict], checks: &[Check], question: &GateInput<'_>) -> Vec<Reason> {
    let primary = || metrics.iter().filter(|metric| metric.primary);
    let where_at = |metric: &MetricVerdict| format!("`{}` of {} at {}", metric.metric, metric.workload, metric.point_id);
    let regressed =
        primary().filter(|metric| metric.outcome == Outcome::Regressed && metric.acknowledged.is_none()).map(|metric| {
            let change = metric.change.as_ref().map_or(1.0, |change| change.ratio) - 1.0;
            let budget = percent(question.policy.budget);
            let text = format!("{} changed by {:+.1} %, beyond the budget of {budget}", where_at(metric), change * 100.0);
            let not_accepted = metric.reason.as_ref().map(|reason| format!("; {}", reason.detail)).unwrap_or_default();
            Reason::new("regressed", format!("{text}{not_accepted}"))
        });
    let mut failed: Vec<&Check> = checks.iter().filter(|check| !check.holds()).collect();
    failed.sort_by_key(|check| !check.blocks);
    let failed = failed.into_iter().map(|check| Reason::new(&check.name, format!("{}: {}", check.scope, check.detail)));
    let inconclusive = primary().filter(|metric| metric.outcome == Outcome::Inconclusive).map(|metric| {
        let why = metric.reason.as_ref().map_or("", |reason| reason.detail.as_str());
        Reason::new("inconclusive", format!("{}: {why}", where_at(metric)))
    });
    regressed.chain(failed).chain(inconclusive).collect()
}

/// Returns the worst outcome of the primary metrics and the checks.
fn outcome(metrics: &[MetricVerdict], checks: &[Check], reasons: &mut Vec<Reason>) -> Outcome {
    let primary: Vec<_> = metrics.iter().filter(|metric| metric.primary).collect();
    if primary.is_empty() {
        reasons.push(Reason::new("nothing_judged", "no compared point reports a primary metric"));
    }
    let is = |outcome: Outcome| primary.iter().any(|metric| metric.outcome == outcome && metric.acknowledged.is_none());
    let fails = |blocks: bool| checks.iter().any(|check| !check.holds() && check.blocks == blocks);
    if is(Outcome::Regressed) || fails(true) {
        Outcome::Regressed
    } else if primary.is_empty() || is(Outcome::Inconclusive) || fails(false) {
        Outcome::Inconclusive
    } else if is(Outcome::Improved) {
        Outcome::Improved
    } else {
        Outcome::Unchanged
    }
}

#[cfg(test)]
mod tests;
