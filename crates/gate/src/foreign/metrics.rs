//! The numbers that two sides have in common, and the verdict on each.

use std::collections::BTreeMap;

use assay_manifest::{
    BetterDirection, ForeignEvidence, ForeignGateRules, ForeignMetricVerdict, ForeignNumber, ForeignPairing, NoiseFloor, Outcome,
    Reason, TrialPair, UnjudgedForeignNumber,
};
use assay_stats::{Samples, fewest_pairs};

use super::labels::differing_labels;
use super::unpaired::{self, JudgedSides, Sides, UnpairedReason, can_decide, fewest_pieces};
use super::{ForeignRefusal, ImportedPiece, MAX_JUDGED, MetricDefinitions};
use crate::curves::Curves;
use crate::input::percent;
use crate::rule::{Floor, JudgedMetric, OutcomeReason, Rules, Series, judge_with, share};
use crate::verdict::{change, effect_to_find, more_pairs};

/// The numbers of both sides.
pub(super) struct ComparedNumbers {
    pub(super) judged: Vec<ComparedNumber>,
    pub(super) not_judged: Vec<UnjudgedForeignNumber>,
}

/// A number that both sides have, with a better direction.
pub(super) struct ComparedNumber {
    number: ForeignNumber,
    better: BetterDirection,
    primary: bool,
    /// The value of each piece of both sides, in their order; `None` if a piece does not have it.
    values: [Vec<Option<f64>>; 2],
}

/// Returns the numbers of both sides: those that are judged, and the others with the reason.
pub(super) fn compare_numbers(
    sides: [&[&ImportedPiece<'_>]; 2],
    rules: &ForeignGateRules,
    definitions: &dyn MetricDefinitions,
) -> Result<ComparedNumbers, ForeignRefusal> {
    let all = collect(sides);
    let is_common = |values: &[Vec<Option<f64>>; 2]| values.iter().all(|side| side.iter().any(Option::is_some));
    if !all.values().any(is_common) {
        let evidence = sides.map(|pieces| pieces.iter().map(|piece| piece.evidence).collect::<Vec<_>>());
        let labels = differing_labels([&evidence[0], &evidence[1]], ["the baseline", "the candidate"]);
        return Err(ForeignRefusal::NothingInCommon(labels));
    }
    let (mut judged, mut not_judged) = (Vec::new(), Vec::new());
    for (number, values) in all {
        let direction = definitions.better(&number);
        match (why_not_judged(&number, &values, direction, definitions), direction) {
            (None, Some(better)) => judged.push(ComparedNumber { number, better, primary: false, values }),
            (why, _) => not_judged.push(unjudged(number, &values, why.unwrap_or_default())),
        }
    }
    if judged.len() > MAX_JUDGED {
        return Err(ForeignRefusal::TooManyNumbers(judged.len()));
    }
    for named in &rules.metrics {
        if !judged.iter().any(|compared| is_named(&compared.number, named, &judged)) {
            return Err(ForeignRefusal::UnknownMetric(named.clone()));
        }
    }
    let primary: Vec<bool> = judged.iter().map(|compared| is_primary(&compared.number, rules, &judged)).collect();
    judged.iter_mut().zip(primary).for_each(|(compared, primary)| compared.primary = primary);
    Ok(ComparedNumbers { judged, not_judged })
}

type Values = [Vec<Option<f64>>; 2];

fn collect(sides: [&[&ImportedPiece<'_>]; 2]) -> BTreeMap<ForeignNumber, Values> {
    let absent = || sides.map(|pieces| vec![None; pieces.len()]);
    let mut all: BTreeMap<ForeignNumber, Values> = BTreeMap::new();
    for (side, pieces) in sides.into_iter().enumerate() {
        for (place, piece) in pieces.iter().enumerate() {
            for row in &piece.evidence.rows {
                let number = ForeignNumber {
                    metric: row.metric.clone(),
                    labels: row.labels.clone(),
                    statistic: row.statistic.clone(),
                    unit: row.unit.clone(),
                };
                let values = all.entry(number).or_insert_with(absent);
                if let Some(value) = values.get_mut(side).and_then(|values| values.get_mut(place)) {
                    *value = Some(row.value);
                }
            }
        }
    }
    all
}

fn why_not_judged(
    number: &ForeignNumber,
    values: &Values,
    direction: Option<BetterDirection>,
    definitions: &dyn MetricDefinitions,
) -> Option<String> {
    let [baseline, candidate] = values.each_ref().map(|side| side.iter().any(Option::is_some));
    let why = match (baseline, candidate) {
        (true, false) => "only the baseline has it with this unit and these labels",
        (false, true) => "only the candidate has it with this unit and these labels",
        _ if direction.is_none() => "no reviewed table states which direction is better",
        _ if !definitions.is_level(&number.statistic) => "its statistic is no level of the metric",
        _ => return None,
    };
    Some(why.to_owned())
}

fn unjudged(number: ForeignNumber, values: &Values, why: String) -> UnjudgedForeignNumber {
    let [baseline_median, candidate_median] =
        values.each_ref().map(|side| median(&side.iter().flatten().copied().collect::<Vec<_>>()));
    UnjudgedForeignNumber { number, baseline_median, candidate_median, why }
}

fn median(values: &[f64]) -> Option<f64> {
    Samples::new(values).ok().map(|samples| samples.median())
}

/// Returns true if a number is that of a name: of its metric, as the preferred statistic, or of the metric and the statistic.
fn is_named(number: &ForeignNumber, named: &str, all: &[ComparedNumber]) -> bool {
    let with_statistic = named.strip_prefix(number.metric.as_str()).and_then(|rest| rest.strip_prefix('_'));
    with_statistic == Some(number.statistic.as_str()) || named == number.metric && is_preferred(number, all)
}

fn is_primary(number: &ForeignNumber, rules: &ForeignGateRules, all: &[ComparedNumber]) -> bool {
    match rules.metrics.as_slice() {
        [] => is_preferred(number, all),
        named => named.iter().any(|named| is_named(number, named, all)),
    }
}

/// Returns true if this is the statistic by which its metric is judged: several statistics of one metric would be one observation several times.
fn is_preferred(number: &ForeignNumber, all: &[ComparedNumber]) -> bool {
    let of_metric = |statistic: &str| {
        let is_same = |other: &ForeignNumber| {
            other.metric == number.metric
                && other.labels == number.labels
                && other.unit == number.unit
                && other.statistic == statistic
        };
        all.iter().any(|compared| is_same(&compared.number))
    };
    ForeignEvidence::PREFERRED_STATISTICS.into_iter().find(|statistic| of_metric(statistic)) == Some(number.statistic.as_str())
}

/// Judges the numbers. Those that decide are one family, and the others another, so that they cost the deciding ones no power.
pub(super) fn judge(compared: &[ComparedNumber], pairing: ForeignPairing, rules: &Rules) -> Vec<ForeignMetricVerdict> {
    let mut verdicts = BTreeMap::new();
    for primary in [true, false] {
        let family: Vec<(usize, &ComparedNumber)> =
            compared.iter().enumerate().filter(|(_, compared)| compared.primary == primary).collect();
        let members: Vec<&ComparedNumber> = family.iter().map(|(_, compared)| *compared).collect();
        let judged = match pairing {
            ForeignPairing::Unpaired => judge_unpaired(&members, rules),
            ForeignPairing::Names | ForeignPairing::Times => judge_pairs(&members, rules),
        };
        verdicts.extend(family.iter().map(|(place, _)| *place).zip(judged));
    }
    verdicts.into_values().collect()
}

fn judge_pairs(family: &[&ComparedNumber], rules: &Rules) -> Vec<ForeignMetricVerdict> {
    let pairs: Vec<Vec<TrialPair>> = family.iter().map(|compared| compared.pairs()).collect();
    let series = |(compared, pairs): (&&ComparedNumber, &Vec<TrialPair>)| Series {
        better: compared.better,
        pairs: pairs.iter().map(|pair| [pair.baseline, pair.candidate]).collect(),
        places: pairs.iter().map(|pair| [pair.run, pair.index]).collect(),
        learned: None,
    };
    let series: Vec<Series> = family.iter().zip(&pairs).map(series).collect();
    let mut curves = Curves::new(rules.q_per_direction(), family.len());
    let judged = judge_with(&series, rules, &mut curves);
    let fewest = fewest_pairs(rules.q_per_direction(), family.len());
    let verdict = |((compared, series), (pairs, judged)): ((&&ComparedNumber, &Series), (&Vec<TrialPair>, JudgedMetric))| {
        let found = pairs.len() as u32;
        let more = effect_to_find(&judged, rules).and_then(|effect| more_pairs(effect, &judged, rules, &mut curves, found));
        let more = more.or_else(|| (judged.outcome == Outcome::Inconclusive && found < fewest).then(|| fewest - found));
        let reason = judged.why.map(|why| pair_reason(why, &judged, rules, [found, fewest], more));
        let [baseline, candidate] = [|pair: &TrialPair| pair.baseline, |pair: &TrialPair| pair.candidate]
            .map(|of| pairs.iter().map(of).collect::<Vec<f64>>());
        ForeignMetricVerdict {
            outcome: judged.outcome,
            reason,
            change: judged.effect.as_ref().and_then(|effect| change(effect, series.better, [&baseline, &candidate])),
            p_worse_adjusted: judged.worse_adjusted,
            p_better_adjusted: judged.better_adjusted,
            floor: judged.floor.map(noise_floor),
            noise: judged.noise.map(|noise| noise.without_spikes().sd),
            detectable: judged.detectable.map(share),
            more_pieces: more.filter(|_| judged.outcome == Outcome::Inconclusive),
            baseline,
            candidate,
            missing: compared.pieces().saturating_sub(pairs.len()) as u32,
            ..compared.unjudged_verdict()
        }
    };
    family.iter().zip(&series).zip(pairs.iter().zip(judged)).map(verdict).collect()
}

impl ComparedNumber {
    /// Returns the pairs of which both pieces have it.
    fn pairs(&self) -> Vec<TrialPair> {
        let [baseline, candidate] = &self.values;
        let both = (0_u32..).zip(baseline.iter().zip(candidate));
        let pair = |(index, (baseline, candidate)): (u32, (&Option<f64>, &Option<f64>))| {
            Some(TrialPair { run: 0, index, baseline: (*baseline)?, candidate: (*candidate)? })
        };
        both.filter_map(pair).collect()
    }

    /// Returns the number of pieces of the larger side.
    fn pieces(&self) -> usize {
        self.values.iter().map(Vec::len).max().unwrap_or_default()
    }

    /// Returns the values of both sides, without the pieces that do not have it.
    fn sides(&self) -> Sides {
        let [baseline, candidate] = self.values.each_ref().map(|side| side.iter().flatten().copied().collect());
        Sides { better: self.better, baseline, candidate }
    }

    fn unjudged_verdict(&self) -> ForeignMetricVerdict {
        ForeignMetricVerdict {
            number: self.number.clone(),
            better: self.better,
            primary: self.primary,
            outcome: Outcome::Inconclusive,
            reason: None,
            baseline: Vec::new(),
            candidate: Vec::new(),
            missing: 0,
            change: None,
            p_worse_adjusted: 1.0,
            p_better_adjusted: 1.0,
            floor: None,
            noise: None,
            detectable: None,
            more_pieces: None,
        }
    }
}

fn noise_floor(floor: Floor) -> NoiseFloor {
    NoiseFloor { share: share(floor.log), source: floor.source }
}

/// Returns the reason in words. `found` and `fewest` are the number of pairs, and that with which a change can be found at all.
fn pair_reason(why: OutcomeReason, judged: &JudgedMetric, rules: &Rules, [found, fewest]: [u32; 2], more: Option<u32>) -> Reason {
    let import = more.map_or_else(String::new, |more| format!("; import {more} more of each side"));
    match why {
        OutcomeReason::NoPair => Reason::new("no_pair", "no pair of pieces has it on both sides"),
        OutcomeReason::NotComparable => {
            Reason::new("not_comparable", "a piece has a value below zero, so there is no ratio to judge")
        }
        OutcomeReason::Underpowered if found < fewest => {
            Reason::new("too_few_pieces", format!("{}, and the rules need at least {fewest}{import}", pairs_of_pieces(found)))
        }
        OutcomeReason::Underpowered => {
            let found = judged.detectable.map_or_else(
                || "so few pieces could not have shown a change of this metric alone, of any size".to_owned(),
                |smallest| format!("the smallest change that would have been found is {}", percent(share(smallest))),
            );
            let must_find = percent(2.0 * rules.budget);
            Reason::new("underpowered", format!("{found}; a verdict needs {must_find}{import}"))
        }
        OutcomeReason::LaunchesUnknown => Reason::new("launches_unknown", "too little is known of how invocations differ"),
        OutcomeReason::PairsAutocorrelated => Reason::new(
            "pairs_remember",
            "its pairs resemble those before them, so a stretch of them may be all of the change: they are no independent samples",
        ),
        OutcomeReason::WithinFloor => {
            let floor = percent(judged.floor.map_or(0.0, |floor| share(floor.log)));
            let text =
                format!("it seems worse, but its bound does not clear the noise floor of {floor} of so few pieces{import}");
            Reason::new("within_floor", text)
        }
    }
}

/// Returns the number of pairs in words, for the start of a reason.
fn pairs_of_pieces(found: u32) -> String {
    if found == 1 { "there is 1 pair of pieces".to_owned() } else { format!("there are {found} pairs of pieces") }
}

fn judge_unpaired(family: &[&ComparedNumber], rules: &Rules) -> Vec<ForeignMetricVerdict> {
    let sides: Vec<Sides> = family.iter().map(|compared| compared.sides()).collect();
    let fewest = fewest_pieces(rules, family.len());
    let judged = unpaired::judge(&sides, rules);
    let verdict = |((compared, sides), judged): ((&&ComparedNumber, Sides), JudgedSides)| {
        let found = [sides.baseline.len() as u32, sides.candidate.len() as u32];
        let is_too_few = !can_decide(found[0], found[1], rules, family.len());
        // Sides of equal size need the fewest pieces in all.
        let needed = is_too_few.then_some(fewest);
        let more = needed.map(|needed| needed.saturating_sub(found[0].min(found[1])));
        ForeignMetricVerdict {
            outcome: judged.outcome,
            reason: judged.why.map(|why| unpaired_reason(why, &judged, rules, found, needed)),
            change: judged.effect.as_ref().and_then(|effect| change(effect, sides.better, [&sides.baseline, &sides.candidate])),
            p_worse_adjusted: judged.worse_adjusted,
            p_better_adjusted: judged.better_adjusted,
            floor: judged.floor.map(noise_floor),
            noise: judged.noise,
            more_pieces: more.filter(|_| judged.outcome == Outcome::Inconclusive),
            missing: compared.values.iter().flatten().filter(|value| value.is_none()).count() as u32,
            baseline: sides.baseline,
            candidate: sides.candidate,
            ..compared.unjudged_verdict()
        }
    };
    family.iter().zip(sides).zip(judged).map(verdict).collect()
}

/// Returns the reason in words. `needed` is the number of pieces of each side that can show a change, if `found` cannot.
fn unpaired_reason(
    why: UnpairedReason,
    judged: &JudgedSides,
    rules: &Rules,
    [baseline, candidate]: [u32; 2],
    needed: Option<u32>,
) -> Reason {
    match why {
        UnpairedReason::NotComparable => {
            Reason::new("not_comparable", "a piece has a value that is zero or below, so there is no ratio to judge")
        }
        UnpairedReason::TooWide if needed.is_some() => {
            let needed = needed.unwrap_or_default();
            let text =
                format!("{baseline} and {candidate} pieces cannot show a change of any size, and {needed} of each side can");
            Reason::new("too_few_pieces", text)
        }
        UnpairedReason::TooWide => {
            let must_exclude = percent(2.0 * rules.budget);
            let high = judged.effect.and_then(|effect| effect.high).map_or_else(
                || "the change has no interval".to_owned(),
                |high| format!("the change for the worse may be as large as {}", percent(share(high))),
            );
            Reason::new("underpowered", format!("{high}, and a verdict has to exclude {must_exclude}: import more of each side"))
        }
        UnpairedReason::WithinFloor => {
            let floor = percent(judged.floor.map_or(0.0, |floor| share(floor.log)));
            let text = format!("it seems worse, but its bound does not clear the noise floor of {floor} of so few pieces");
            Reason::new("within_floor", text)
        }
    }
}
