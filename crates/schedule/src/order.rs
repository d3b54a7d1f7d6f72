//! The order in which the trials of a run are measured.
//!
//! A machine drifts while it is measured: it warms up, its caches fill, its neighbours wake. So trials are interleaved: trial `r`
//! of every point runs in round `r`, and the points of a round run in an order of their own. The drift then affects every point
//! alike. If two sides are compared, the first side of every pair is drawn, each in half of the pairs, so that a steady drift
//! cancels out of their difference and no disturbance, whatever its rhythm, favours one of them.
//!
//! The order of a round does not depend on the number of rounds, except for the side that is first: if nothing is compared, a
//! plan of more trials begins with the order of the plan of fewer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use assay_manifest::{
    Case, CaseId, Comparison, Digest, Hasher, Isolation, Name, Placement, PlannedTrial, PointId, RunId, Side, TrialId,
};

use crate::{Generator, Seed, SeedError};

/// The most trials of one run. At ten seconds each they take eleven days, and the plan that lists them has 25 MB.
pub const MAX_TRIALS: u64 = 100_000;

/// The first part of the path of every generator of the order.
const ORDER: &str = "order";

/// The inputs of the order of trials, besides the cases and the seed.
#[derive(Clone, Copy, Debug)]
pub struct OrderRules<'a> {
    /// Trials per point.
    pub trials: u32,
    /// The comparison, if there is one.
    pub comparison: Option<&'a Comparison>,
    /// The way in which the sides share the machine.
    pub placement: Placement,
    /// The isolation between trials.
    pub isolation: Isolation,
}

/// A side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparisonRole {
    /// The side that is compared against.
    Baseline,
    /// The side that is judged.
    Candidate,
}

impl std::fmt::Display for ComparisonRole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Baseline => "baseline",
            Self::Candidate => "candidate",
        })
    }
}

/// The reason why trials cannot be ordered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// More trials than [`MAX_TRIALS`].
    #[error("{0} trials are planned, more than the limit of {MAX_TRIALS}")]
    TooManyTrials(u64),
    /// The same measurement would be planned twice under one name.
    #[error("point `{point_id}` of case `{case_id}` is listed twice")]
    RepeatedPoint {
        /// The case.
        case_id: CaseId,
        /// The point.
        point_id: PointId,
    },
    /// The two sides are the same, so there is nothing to compare.
    #[error("baseline and candidate are both target `{target}` with variant `{variant}`")]
    SameSide {
        /// The target of both.
        target: Name,
        /// The variant of both.
        variant: Name,
    },
    /// No case belongs to the side.
    #[error("no case has the {role}'s target `{target}` with variant `{variant}`")]
    AbsentSide {
        /// The side.
        role: ComparisonRole,
        /// Its target.
        target: Name,
        /// Its variant.
        variant: Name,
    },
    /// A point is measured on one side only.
    #[error("point `{point_id}` of workload `{workload}` has no {missing} to be paired with")]
    Unpaired {
        /// The workload.
        workload: Name,
        /// The point.
        point_id: PointId,
        /// The side that lacks it.
        missing: ComparisonRole,
    },
}

/// Returns the trials of all `cases` in the order in which they run.
///
/// - Trial `r` of every point runs in round `r`; the points of a round are shuffled.
/// - `coexist`: the two sides of a comparison run next to each other at every workload and point, in an order drawn for every
///   pair. All trials are in one block.
/// - `alternate`: a round has one block per side (target and variant), even if nothing is compared. The sides of a comparison
///   follow each other in an order drawn for every round; the other sides come before or after them. All sides take the points in
///   the same order. Blocks of one side that follow each other, as in ABBA, stay two blocks: the block is what such a design
///   randomises.
/// - `restart_target`: the same order, and every trial is a block of its own.
///
/// Each of two sides comes first in half of the rounds, up to one, and which half is drawn: if each round mirrored the one before
/// it, two pairs would be drawn as one, and a disturbance in step with them would count double. Blocks are numbered from 0 as
/// they run. Equal arguments give equal orders, on every machine.
pub fn order_trials(cases: &[Case], rules: &OrderRules<'_>, seed: &Seed) -> Result<Vec<PlannedTrial>, OrderError> {
    let layout = Layout::new(cases, rules.comparison)?;
    let rounds = layout.checked_rounds(rules.trials)?;
    let firsts = layout.draw_first_sides(rounds, rules.placement, seed);
    let mut planned = Vec::new();
    let stretches = (0..rounds).flat_map(|round| {
        let stretches = match rules.placement {
            Placement::Coexist => vec![layout.order_coexisting_round(round, &firsts, seed)],
            Placement::Alternate => layout.order_alternating_round(round, &firsts, seed),
        };
        stretches.into_iter().map(move |stretch| (round, stretch))
    });
    for (number, (round, stretch)) in stretches.enumerate() {
        for spot in stretch {
            let block = match (rules.isolation, rules.placement) {
                (Isolation::RestartTarget, _) => planned.len(),
                (_, Placement::Alternate) => number,
                (_, Placement::Coexist) => 0,
            };
            // Neither number exceeds MAX_TRIALS, because no stretch is empty.
            planned.push(spot.planned_trial(round, block as u32));
        }
    }
    Ok(planned)
}

/// Returns the seed of the order: the declared one, or the one that is [drawn](draw_seed) for the run.
pub fn order_seed(
    declared: Option<&str>,
    run_id: &RunId,
    workloads: impl IntoIterator<Item = Digest>,
) -> Result<Seed, SeedError> {
    declared.map_or_else(|| Ok(draw_seed(run_id, workloads)), str::parse)
}

/// Returns the seed that is drawn for a run: a digest of its id and of its workloads' digests. Each run has an order of its own,
/// because on a machine whose disturbances have a rhythm, a pipeline with one fixed order would be biased by the same disturbance
/// every time.
pub fn draw_seed(run_id: &RunId, workloads: impl IntoIterator<Item = Digest>) -> Seed {
    let mut digests: Vec<_> = workloads.into_iter().map(|digest| digest.to_string()).collect();
    digests.sort_unstable();
    let text = format!("assay.dev/v1alpha1 order {run_id} {}", digests.join(" "));
    Seed::new(*Digest::compute(text.as_bytes()).as_bytes())
}

/// Returns the digest that a plan states of its order: the SHA-256 of one line `<block> <trial id>` for each trial, each ended by
/// a newline.
///
/// Trial ids contain neither blanks nor newlines, so different orders have different lines.
pub fn order_digest(trials: &[PlannedTrial]) -> Digest {
    let mut hasher = Hasher::new();
    for trial in trials {
        hasher.update(format!("{} {}\n", trial.block, trial.trial_id).as_bytes());
    }
    hasher.finish()
}

/// A point of a case.
#[derive(Clone, Copy)]
struct CasePoint<'a> {
    case_id: &'a CaseId,
    point_id: &'a PointId,
}

impl CasePoint<'_> {
    fn planned_trial(&self, index: u32, block: u32) -> PlannedTrial {
        PlannedTrial {
            trial_id: TrialId::from_parts(self.case_id, self.point_id, index),
            case_id: self.case_id.clone(),
            point_id: self.point_id.clone(),
            index,
            block,
        }
    }
}

/// A target in a variant.
type SideName<'a> = (&'a Name, &'a Name);

/// A point of a workload, with its case's point on each side.
struct WorkloadPoint<'a> {
    workload: &'a Name,
    point_id: &'a PointId,
    spots: BTreeMap<SideName<'a>, CasePoint<'a>>,
}

/// A group that stays together in a round: the two sides of a comparison, or one side alone.
#[derive(Clone, Copy)]
enum SideGroup<T> {
    Alone(T),
    Pair { baseline: T, candidate: T },
}

impl<T> SideGroup<T> {
    fn into_order(self, candidate_first: bool) -> Vec<T> {
        match self {
            Self::Alone(one) => vec![one],
            Self::Pair { baseline, candidate } if candidate_first => vec![candidate, baseline],
            Self::Pair { baseline, candidate } => vec![baseline, candidate],
        }
    }
}

/// The two sides of a comparison.
#[derive(Clone, Copy)]
struct ComparedSides<'a> {
    baseline: SideName<'a>,
    candidate: SideName<'a>,
}

/// The cases, arranged by workload point and by side.
struct Layout<'a> {
    /// The workload points, in the order in which the cases first name them.
    places: Vec<WorkloadPoint<'a>>,
    /// The sides. Each has at least one point.
    sides: BTreeSet<SideName<'a>>,
    compared: Option<ComparedSides<'a>>,
}

impl<'a> Layout<'a> {
    fn new(cases: &'a [Case], comparison: Option<&'a Comparison>) -> Result<Self, OrderError> {
        let places = collect_workload_points(cases)?;
        let sides = places.iter().flat_map(|place| place.spots.keys().copied()).collect();
        let compared = comparison.map(|comparison| ComparedSides::new(comparison, &sides)).transpose()?;
        if let Some(compared) = compared {
            places.iter().try_for_each(|place| compared.check_paired(place))?;
        }
        Ok(Self { places, sides, compared })
    }

    /// Returns the number of rounds: one for each trial of a point, and 0 if there is no point.
    fn checked_rounds(&self, trials: u32) -> Result<u32, OrderError> {
        let spots: usize = self.places.iter().map(|place| place.spots.len()).sum();
        match (spots as u64).saturating_mul(u64::from(trials)) {
            0 => Ok(0),
            1..=MAX_TRIALS => Ok(trials),
            count => Err(OrderError::TooManyTrials(count)),
        }
    }

    /// Returns, for each pair and round, true if the candidate comes first. A pair is a workload point, or the one pair of blocks
    /// of a round. Empty if nothing is compared.
    fn draw_first_sides(&self, rounds: u32, placement: Placement, seed: &Seed) -> Vec<Vec<bool>> {
        let pairs = match (self.compared, placement) {
            (None, _) => 0,
            (_, Placement::Coexist) => self.places.len(),
            (_, Placement::Alternate) => 1,
        };
        (0..pairs).map(|pair| draw_balanced(rounds, &mut generator(seed, "pairs", pair))).collect()
    }

    /// Returns a round in which all sides are up: its points, shuffled in groups.
    fn order_coexisting_round(&self, round: u32, firsts: &[Vec<bool>], seed: &Seed) -> Vec<CasePoint<'a>> {
        let units = self.places.iter().enumerate().flat_map(|(index, place)| {
            let candidate_first = is_candidate_first(firsts, index, round);
            self.group_sides(&place.spots).into_iter().map(move |unit| unit.into_order(candidate_first))
        });
        generator(seed, "points", round).shuffle(units.collect()).into_iter().flatten().collect()
    }

    /// Returns a round in which one side is up at a time: for each side, its points in the order of the round.
    fn order_alternating_round(&self, round: u32, firsts: &[Vec<bool>], seed: &Seed) -> Vec<Vec<CasePoint<'a>>> {
        let places = generator(seed, "points", round).shuffle(self.places.iter().collect());
        let spots_of = |side| places.iter().filter_map(|place| place.spots.get(&side).copied()).collect();
        let named: BTreeMap<SideName<'a>, SideName<'a>> = self.sides.iter().map(|side| (*side, *side)).collect();
        let units = generator(seed, "sides", round).shuffle(self.group_sides(&named));
        let sides = units.into_iter().flat_map(|unit| unit.into_order(is_candidate_first(firsts, 0, round)));
        sides.map(spots_of).collect()
    }

    /// Groups the items of the comparison's two sides as one pair, and every other item alone.
    fn group_sides<T: Copy>(&self, by_side: &BTreeMap<SideName<'a>, T>) -> Vec<SideGroup<T>> {
        let pair = self.compared.and_then(|sides| {
            Some(SideGroup::Pair { baseline: *by_side.get(&sides.baseline)?, candidate: *by_side.get(&sides.candidate)? })
        });
        let is_alone = |side: &SideName<'a>| self.compared.is_none_or(|sides| !sides.contains(*side));
        let alone = by_side.iter().filter(|(side, _)| is_alone(side)).map(|(_, one)| SideGroup::Alone(*one));
        pair.into_iter().chain(alone).collect()
    }
}

impl<'a> ComparedSides<'a> {
    fn new(comparison: &'a Comparison, sides: &BTreeSet<SideName<'a>>) -> Result<Self, OrderError> {
        let find = |role, side: &'a Side| {
            let name = (&side.target, &side.variant);
            let absent = || OrderError::AbsentSide { role, target: side.target.clone(), variant: side.variant.clone() };
            if sides.contains(&name) { Ok(name) } else { Err(absent()) }
        };
        let baseline = find(ComparisonRole::Baseline, &comparison.baseline)?;
        let candidate = find(ComparisonRole::Candidate, &comparison.candidate)?;
        if baseline == candidate {
            return Err(OrderError::SameSide { target: baseline.0.clone(), variant: baseline.1.clone() });
        }
        Ok(Self { baseline, candidate })
    }

    fn contains(&self, side: SideName<'a>) -> bool {
        side == self.baseline || side == self.candidate
    }

    fn check_paired(&self, place: &WorkloadPoint<'a>) -> Result<(), OrderError> {
        let has = |side| place.spots.contains_key(&side);
        let missing = match (has(self.baseline), has(self.candidate)) {
            (true, false) => ComparisonRole::Candidate,
            (false, true) => ComparisonRole::Baseline,
            _ => return Ok(()),
        };
        Err(OrderError::Unpaired { workload: place.workload.clone(), point_id: place.point_id.clone(), missing })
    }
}

fn collect_workload_points(cases: &[Case]) -> Result<Vec<WorkloadPoint<'_>>, OrderError> {
    let mut places: Vec<WorkloadPoint<'_>> = Vec::new();
    let mut known: BTreeMap<(&Name, &PointId), usize> = BTreeMap::new();
    for case in cases {
        for point in &case.points {
            let (workload, point_id) = (&case.workload, &point.point_id);
            let index = *known.entry((workload, point_id)).or_insert(places.len());
            if index == places.len() {
                places.push(WorkloadPoint { workload, point_id, spots: BTreeMap::new() });
            }
            let spot = CasePoint { case_id: &case.case_id, point_id };
            if places[index].spots.insert((&case.target, &case.variant), spot).is_some() {
                return Err(OrderError::RepeatedPoint { case_id: case.case_id.clone(), point_id: point_id.clone() });
            }
        }
    }
    Ok(places)
}

fn generator(seed: &Seed, concern: &str, number: impl Display) -> Generator {
    Generator::new(seed, &[ORDER, concern, &number.to_string()])
}

/// Returns one bool for each round, in random order: as many true as false, up to one.
fn draw_balanced(rounds: u32, generator: &mut Generator) -> Vec<bool> {
    let odd = generator.at(u64::from(rounds)) >> 63;
    generator.shuffle((0..u64::from(rounds)).map(|round| round % 2 == odd).collect())
}

fn is_candidate_first(firsts: &[Vec<bool>], pair: usize, round: u32) -> bool {
    firsts.get(pair).and_then(|firsts| firsts.get(round as usize)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_manifest::{Point, PointKind};
    use proptest::prelude::*;

    const SEED: Seed = Seed::new([7; 32]);

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    /// Parses a case from its id and its points, such as `w.t.default: p1 p2`.
    fn case(line: &str) -> Case {
        let (case_id, points) = line.split_once(':').expect("an id and points");
        let case_id = CaseId::new(case_id).expect("a case id");
        let [workload, target, variant] = case_id.names().map(name);
        let point = |id: &str| Point {
            point_id: PointId::new(id).expect("a point id"),
            kind: PointKind::Parameters,
            value: BTreeMap::new(),
            load_recipe_digest: None,
        };
        let points = points.split_whitespace().map(point).collect();
        Case { case_id, workload, target, variant, points }
    }

    fn cases(lines: &[&str]) -> Vec<Case> {
        lines.iter().map(|line| case(line)).collect()
    }

    /// Returns the comparison of targets `a` (baseline) and `b` in their default variants.
    fn a_with_b() -> Comparison {
        compare("a", "b")
    }

    fn compare(baseline: &str, candidate: &str) -> Comparison {
        let side = |target| Side { target: name(target), variant: name("default") };
        Comparison {
            baseline: side(baseline),
            candidate: side(candidate),
            variable_under_test: "runtime_version".to_owned(),
            other: None,
        }
    }

    const PLAIN: OrderRules<'static> =
        OrderRules { trials: 3, comparison: None, placement: Placement::Coexist, isolation: Isolation::None };

    /// Returns the order, one line for each round of a block.
    fn order(lines: &[&str], rules: OrderRules<'_>) -> Vec<String> {
        let mut order: Vec<String> = Vec::new();
        for trial in order_trials(&cases(lines), &rules, &SEED).expect("an order") {
            let line = format!("block {} round {}:", trial.block, trial.index);
            if !order.last().is_some_and(|last| last.starts_with(&line)) {
                order.push(line);
            }
            let [workload, target, _] = trial.case_id.names();
            let spot = format!(" {workload}.{target}.{}", trial.point_id);
            order.last_mut().expect("a line").push_str(&spot);
        }
        order
    }

    fn refusal(lines: &[&str], rules: OrderRules<'_>) -> String {
        order_trials(&cases(lines), &rules, &SEED).expect_err("a refusal").to_string()
    }

    #[test]
    fn without_a_comparison_points_are_interleaved() {
        assert_eq!(
            order(&["w.t.default: p1 p2", "v.t.default: p1"], PLAIN),
            [
                "block 0 round 0: w.t.p2 v.t.p1 w.t.p1",
                "block 0 round 1: w.t.p2 v.t.p1 w.t.p1",
                "block 0 round 2: w.t.p1 w.t.p2 v.t.p1",
            ]
        );
    }

    #[test]
    fn compared_sides_run_next_to_each_other() {
        let comparison = a_with_b();
        let rules = OrderRules { trials: 4, comparison: Some(&comparison), ..PLAIN };
        assert_eq!(
            order(&["w.a.default: p1 p2", "w.b.default: p1 p2", "w.c.default: p1"], rules),
            [
                "block 0 round 0: w.c.p1 w.a.p2 w.b.p2 w.a.p1 w.b.p1",
                "block 0 round 1: w.c.p1 w.b.p2 w.a.p2 w.b.p1 w.a.p1",
                "block 0 round 2: w.a.p1 w.b.p1 w.c.p1 w.b.p2 w.a.p2",
                "block 0 round 3: w.a.p2 w.b.p2 w.c.p1 w.b.p1 w.a.p1",
            ]
        );
    }

    #[test]
    fn alternating_sides_have_blocks_of_their_own() {
        let comparison = a_with_b();
        let rules = OrderRules { comparison: Some(&comparison), placement: Placement::Alternate, ..PLAIN };
        assert_eq!(
            order(&["w.a.default: p1 p2", "v.a.default: p1", "w.b.default: p1 p2", "v.b.default: p1"], rules),
            [
                "block 0 round 0: w.a.p2 v.a.p1 w.a.p1",
                "block 1 round 0: w.b.p2 v.b.p1 w.b.p1",
                "block 2 round 1: w.a.p2 v.a.p1 w.a.p1",
                "block 3 round 1: w.b.p2 v.b.p1 w.b.p1",
                "block 4 round 2: w.b.p1 w.b.p2 v.b.p1",
                "block 5 round 2: w.a.p1 w.a.p2 v.a.p1",
            ]
        );
    }

    #[test]
    fn a_third_side_does_not_come_between_the_compared_ones() {
        let comparison = a_with_b();
        let rules = OrderRules { comparison: Some(&comparison), placement: Placement::Alternate, ..PLAIN };
        assert_eq!(
            order(&["w.a.default: p", "w.c.default: p", "w.b.default: p"], rules),
            [
                "block 0 round 0: w.a.p",
                "block 1 round 0: w.b.p",
                "block 2 round 0: w.c.p",
                "block 3 round 1: w.c.p",
                "block 4 round 1: w.a.p",
                "block 5 round 1: w.b.p",
                "block 6 round 2: w.b.p",
                "block 7 round 2: w.a.p",
                "block 8 round 2: w.c.p",
            ]
        );
    }

    #[test]
    fn a_restarted_target_makes_every_trial_a_block() {
        let rules = OrderRules { trials: 2, isolation: Isolation::RestartTarget, ..PLAIN };
        assert_eq!(
            order(&["w.t.default: p1 p2"], rules),
            ["block 0 round 0: w.t.p2", "block 1 round 0: w.t.p1", "block 2 round 1: w.t.p1", "block 3 round 1: w.t.p2",]
        );
    }

    #[test]
    fn restarting_the_target_does_not_change_the_order() {
        let comparison = a_with_b();
        let cases = cases(&["w.a.default: p1 p2 p3", "w.b.default: p1 p2 p3"]);
        for placement in [Placement::Coexist, Placement::Alternate] {
            let rules = OrderRules { trials: 5, comparison: Some(&comparison), placement, ..PLAIN };
            let restarted = OrderRules { isolation: Isolation::RestartTarget, ..rules };
            let ids = |rules| -> Vec<TrialId> {
                order_trials(&cases, &rules, &SEED).expect("an order").into_iter().map(|trial| trial.trial_id).collect()
            };
            assert_eq!(ids(rules), ids(restarted));
        }
    }

    #[test]
    fn nothing_to_measure_is_an_empty_order() {
        assert_eq!(order(&[], OrderRules { trials: u32::MAX, ..PLAIN }), [""; 0]);
        assert_eq!(order(&["w.t.default:"], OrderRules { trials: u32::MAX, ..PLAIN }), [""; 0]);
        assert_eq!(order(&["w.t.default: p"], OrderRules { trials: 0, ..PLAIN }), [""; 0]);
    }

    #[test]
    fn the_number_of_trials_is_limited() {
        let rules = |trials| OrderRules { trials, ..PLAIN };
        let most = order_trials(&cases(&["w.t.default: p1 p2"]), &rules(50_000), &SEED).expect("an order");
        assert_eq!(most.len(), 100_000);
        assert_eq!(refusal(&["w.t.default: p1 p2"], rules(50_001)), "100002 trials are planned, more than the limit of 100000");
        assert_eq!(
            refusal(&["w.t.default: p1 p2"], rules(u32::MAX)),
            "8589934590 trials are planned, more than the limit of 100000"
        );
    }

    #[test]
    fn a_point_is_listed_once() {
        let text = "point `p` of case `w.t.default` is listed twice";
        assert_eq!(refusal(&["w.t.default: p p"], PLAIN), text);
        assert_eq!(refusal(&["w.t.default: p", "w.t.default: q p"], PLAIN), text);
    }

    #[test]
    fn a_comparison_has_two_sides_that_differ() {
        let refused = |lines, comparison| refusal(lines, OrderRules { comparison: Some(&comparison), ..PLAIN });
        assert_eq!(
            refused(&["w.a.default: p"], compare("a", "a")),
            "baseline and candidate are both target `a` with variant `default`"
        );
        assert_eq!(
            refused(&["w.a.default: p"], compare("a", "b")),
            "no case has the candidate's target `b` with variant `default`"
        );
        assert_eq!(
            refused(&["w.b.default: p", "w.a.fast: p"], compare("a", "b")),
            "no case has the baseline's target `a` with variant `default`"
        );
        assert_eq!(
            refused(&["w.a.default: p"], compare("a", "b")),
            refused(&["w.a.default: p", "w.b.default:"], compare("a", "b")),
        );
    }

    #[test]
    fn every_compared_point_has_both_sides() {
        for placement in [Placement::Coexist, Placement::Alternate] {
            let refused = |lines| refusal(lines, OrderRules { comparison: Some(&a_with_b()), placement, ..PLAIN });
            assert_eq!(
                refused(&["w.a.default: p q", "w.b.default: p"]),
                "point `q` of workload `w` has no candidate to be paired with"
            );
            assert_eq!(
                refused(&["w.a.default: p", "w.b.default: p", "v.b.default: p"]),
                "point `p` of workload `v` has no baseline to be paired with"
            );
        }
    }

    #[test]
    fn the_digest_is_that_of_plain_lines() {
        let trials = order_trials(&cases(&["w.t.default: p"]), &OrderRules { trials: 2, ..PLAIN }, &SEED).expect("an order");
        assert_eq!(order_digest(&trials), Digest::compute(b"0 w.t.default.p.t0\n0 w.t.default.p.t1\n"));
        assert_eq!(order_digest(&[]), Digest::compute(b""));
    }

    #[test]
    fn the_digest_covers_order_and_blocks() {
        let rules = OrderRules { trials: 2, ..PLAIN };
        let trials = order_trials(&cases(&["w.t.default: p"]), &rules, &SEED).expect("an order");
        let mut swapped = trials.clone();
        swapped.reverse();
        let mut moved = trials.clone();
        moved[1].block = 1;
        assert_ne!(order_digest(&trials), order_digest(&swapped));
        assert_ne!(order_digest(&trials), order_digest(&moved));
    }

    #[test]
    fn either_side_comes_first_at_some_point() {
        let ids: Vec<String> = (0..20).map(|index| format!("p{index}")).collect();
        let cases = cases(&[&format!("w.a.default: {}", ids.join(" ")), &format!("w.b.default: {}", ids.join(" "))]);
        let comparison = a_with_b();
        let rules = OrderRules { trials: 1, comparison: Some(&comparison), ..PLAIN };
        let trials = order_trials(&cases, &rules, &SEED).expect("an order");
        let first: BTreeSet<&CaseId> = trials.iter().step_by(2).map(|trial| &trial.case_id).collect();
        assert_eq!(first.len(), 2);
    }

    /// Sides `a` and `b` compared, one more side, and the rules of their order.
    #[derive(Debug)]
    struct Example {
        cases: Vec<Case>,
        comparison: Option<Comparison>,
        placement: Placement,
        isolation: Isolation,
        trials: u32,
        seed: Seed,
    }

    impl Example {
        fn rules(&self, trials: u32) -> OrderRules<'_> {
            let (placement, isolation) = (self.placement, self.isolation);
            OrderRules { trials, comparison: self.comparison.as_ref(), placement, isolation }
        }

        fn order_of(&self, trials: u32) -> Vec<PlannedTrial> {
            order_trials(&self.cases, &self.rules(trials), &self.seed).expect("an order")
        }

        fn order(&self) -> Vec<PlannedTrial> {
            self.order_of(self.trials)
        }
    }

    fn target_of(trial: &PlannedTrial) -> &str {
        trial.case_id.names()[1]
    }

    fn place_of(trial: &PlannedTrial) -> (&str, &PointId) {
        (trial.case_id.names()[0], &trial.point_id)
    }

    fn examples() -> impl Strategy<Value = Example> {
        let placements = prop_oneof![Just(Placement::Coexist), Just(Placement::Alternate)];
        let isolations = prop_oneof![Just(Isolation::None), Just(Isolation::Flush), Just(Isolation::RestartTarget)];
        let points = prop::collection::vec(1..6_usize, 1..4);
        (points, any::<bool>(), placements, isolations, 0..8_u32, any::<[u8; 32]>()).prop_map(
            |(points, is_compared, placement, isolation, trials, seed)| {
                let sweep = |count| (0..count).map(|point| format!("p{point}")).collect::<Vec<_>>().join(" ");
                let lines = points.iter().enumerate().flat_map(|(workload, count)| {
                    ["a", "c", "b"].map(|target| format!("w{workload}.{target}.default: {}", sweep(*count)))
                });
                let cases = lines.map(|line| case(&line)).collect();
                let comparison = is_compared.then(a_with_b);
                Example { cases, comparison, placement, isolation, trials, seed: Seed::new(seed) }
            },
        )
    }

    /// If every second pair mirrored the one before it, only AB BA and BA AB would occur.
    #[test]
    fn which_half_a_side_leads_is_drawn_from_all_halves() {
        let comparison = a_with_b();
        let (cases, rules) =
            (cases(&["w.a.default: p", "w.b.default: p"]), OrderRules { trials: 4, comparison: Some(&comparison), ..PLAIN });
        for placement in [Placement::Coexist, Placement::Alternate] {
            let rules = OrderRules { placement, ..rules };
            let mut seen: BTreeMap<String, u32> = BTreeMap::new();
            for seed in 0..120 {
                let trials = order_trials(&cases, &rules, &Seed::new([seed; 32])).expect("an order");
                *seen.entry(trials.iter().step_by(2).map(target_of).collect()).or_default() += 1;
            }
            let halves = ["aabb", "abab", "abba", "baab", "baba", "bbaa"];
            assert_eq!(seen.keys().map(String::as_str).collect::<Vec<_>>(), halves);
            // 20 of each are expected, with a standard deviation of 4.
            assert!(seen.values().all(|count| (6..=34).contains(count)), "{seen:?}");
        }
    }

    proptest! {
        #[test]
        fn every_trial_runs_once(example in examples()) {
            let mut planned: Vec<TrialId> = example.order().into_iter().map(|trial| trial.trial_id).collect();
            let mut expected = Vec::new();
            for case in &example.cases {
                for point in &case.points {
                    expected.extend((0..example.trials).map(|index| TrialId::from_parts(&case.case_id, &point.point_id, index)));
                }
            }
            planned.sort();
            expected.sort();
            prop_assert_eq!(planned, expected);
        }

        #[test]
        fn rounds_follow_each_other(example in examples()) {
            prop_assert!(example.order().is_sorted_by_key(|trial| trial.index));
        }

        #[test]
        fn blocks_are_numbered_as_they_run(example in examples()) {
            let mut expected = 0;
            for trial in example.order() {
                prop_assert!(trial.block == expected || trial.block == expected + 1);
                expected = trial.block;
            }
            let blocks = example.order().iter().map(|trial| trial.block).collect::<BTreeSet<_>>();
            prop_assert!(blocks.first().is_none_or(|first| *first == 0));
        }

        #[test]
        fn equal_arguments_give_equal_orders(example in examples()) {
            prop_assert_eq!(example.order(), example.order());
        }

        #[test]
        fn more_trials_begin_with_the_order_of_fewer(mut example in examples()) {
            example.comparison = None;
            let (fewer, more) = (example.order(), example.order_of(example.trials + 3));
            prop_assert!(more.starts_with(&fewer));
        }

        #[test]
        fn pairs_are_adjacent_where_both_sides_are_up(mut example in examples()) {
            (example.comparison, example.placement) = (Some(a_with_b()), Placement::Coexist);
            let order: Vec<PlannedTrial> = example.order();
            let mut rest = order.as_slice();
            while let Some((first, after)) = rest.split_first() {
                rest = after;
                if target_of(first) != "c" {
                    let second = &after[0];
                    prop_assert_eq!((place_of(first), first.index), (place_of(second), second.index));
                    prop_assert_eq!([target_of(first), target_of(second)].iter().collect::<BTreeSet<_>>().len(), 2);
                    prop_assert_ne!(target_of(second), "c");
                    rest = &after[1..];
                }
            }
        }

        #[test]
        fn each_side_comes_first_in_half_of_the_rounds(mut example in examples()) {
            example.comparison = Some(a_with_b());
            let mut lead: BTreeMap<_, i32> = BTreeMap::new();
            let order = example.order();
            let mut seen = BTreeSet::new();
            for trial in order.iter().filter(|trial| target_of(trial) != "c") {
                if seen.insert((place_of(trial), trial.index)) {
                    *lead.entry(place_of(trial)).or_default() += if target_of(trial) == "a" { 1 } else { -1 };
                }
            }
            for lead in lead.values() {
                prop_assert!(lead.abs() == (example.trials % 2).cast_signed(), "{lead}");
            }
        }

        #[test]
        fn an_alternating_block_is_one_side_of_one_round(mut example in examples()) {
            (example.placement, example.isolation) = (Placement::Alternate, Isolation::None);
            let order = example.order();
            let mut by_block: BTreeMap<u32, BTreeSet<(u32, &str)>> = BTreeMap::new();
            for trial in &order {
                by_block.entry(trial.block).or_default().insert((trial.index, target_of(trial)));
            }
            prop_assert_eq!(by_block.len(), 3 * example.trials as usize);
            prop_assert!(by_block.values().all(|sides| sides.len() == 1));
        }

        #[test]
        fn alternating_sides_take_the_points_in_the_same_order(mut example in examples()) {
            example.placement = Placement::Alternate;
            let order = example.order();
            let of_side = |side| -> Vec<_> {
                order.iter().filter(|trial| target_of(trial) == side).map(|trial| (place_of(trial), trial.index)).collect()
            };
            prop_assert_eq!(of_side("a"), of_side("b"));
        }
    }
}
