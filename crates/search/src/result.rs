//! The signed result of a search: its documents from what was observed, the replay that proves it, and the workloads whose loads come
//! from it.

use std::collections::BTreeSet;
use std::fmt;

use assay_manifest::{
    Case, Count, LoadKind, Name, Point, SearchBracket, SearchEnd, SearchGoal, SearchLandmarks, SearchLoad, SearchObservation,
    SearchOutcome, SearchQuestion, SearchResult, Slo,
};

use crate::case::load_of_value;
use crate::{Bracket, Goal, Landmarks, Load, MAX_CONCURRENCY, Observation, Rule, Step, landmarks, next_step};

/// The end of a search as a document states it: how it ended, the loads to measure, and the landmarks of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchConclusion {
    /// The end.
    pub end: SearchEnd,
    /// The loads to measure, in ascending order.
    pub grid: Vec<SearchLoad>,
    /// The landmarks of a sweep that reached a limit.
    pub landmarks: Option<SearchLandmarks>,
}

/// The reason why a search result does not follow from its observations.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplayFault {
    /// It has no round.
    NoRound,
    /// Its share, precision or number of requests in flight is outside of the limits of a search.
    NoQuestion,
    /// A load is none: it is not finite, or a number of requests in flight is not whole.
    NoLoad,
    /// A round observed other loads than those that the earlier rounds lead to.
    OtherLoads {
        /// The round, from 1.
        round: usize,
        /// The loads that follow.
        expected: Vec<SearchLoad>,
    },
    /// The run of a round is that of an earlier one, so that one observation would count twice.
    SameRun {
        /// The round, from 1.
        round: usize,
    },
    /// A round follows the end of the search.
    AfterTheEnd {
        /// The round, from 1.
        round: usize,
    },
    /// The rounds lead to further loads, which no round observed.
    NotEnded {
        /// The loads that follow.
        expected: Vec<SearchLoad>,
    },
    /// The end is another one than that which the rounds lead to.
    OtherEnd,
    /// The grid is another one.
    OtherGrid {
        /// The grid that follows.
        expected: Vec<SearchLoad>,
    },
    /// The landmarks are others.
    OtherLandmarks,
}

impl fmt::Display for ReplayFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRound => f.write_str("it has no round"),
            Self::NoQuestion => write!(
                f,
                "its question is none of a search: share and precision are above 0 and at most 1, and the requests in flight from 1 to {MAX_CONCURRENCY}"
            ),
            Self::NoLoad => f.write_str("one of its loads is no load"),
            Self::SameRun { round } => write!(f, "its round {round} is the run of an earlier round"),
            Self::OtherLoads { round, expected } => {
                write!(f, "its round {round} observed other loads than {}, to which the earlier rounds lead", loads(expected))
            }
            Self::AfterTheEnd { round } => write!(f, "its round {round} follows the end of the search"),
            Self::NotEnded { expected } => {
                write!(f, "its rounds lead to {}, which no round observed", loads(expected))
            }
            Self::OtherEnd => f.write_str("its end is not that to which its rounds lead"),
            Self::OtherGrid { expected } if expected.is_empty() => f.write_str("it has a grid, and its rounds lead to none"),
            Self::OtherGrid { expected } => {
                write!(f, "its grid is not that to which its rounds lead, {}", loads(expected))
            }
            Self::OtherLandmarks => f.write_str("its landmarks are not those of its observations"),
        }
    }
}

impl std::error::Error for ReplayFault {}

/// The difference between a workload of a Plan and the search result that it names.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkloadMismatch {
    /// The search found no loads to measure.
    NothingFound,
    /// The loads of the workload are not the grid.
    Loads {
        /// The grid.
        grid: Vec<SearchLoad>,
    },
    /// The SLOs differ.
    Slos,
    /// The models differ: that of the workload, and that of the search.
    Model {
        /// That of the workload.
        stated: String,
        /// That of the search.
        searched: String,
    },
}

impl fmt::Display for WorkloadMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingFound => f.write_str("the search found no loads to measure"),
            Self::Loads { grid } => write!(f, "its loads are not those that the search found, {}", loads(grid)),
            Self::Slos => f.write_str("its SLOs are not those of the search"),
            Self::Model { stated, searched } => {
                write!(f, "its model is `{}`, and the search was of `{}`", stated.escape_debug(), searched.escape_debug())
            }
        }
    }
}

impl std::error::Error for WorkloadMismatch {}

/// Replays a search: the next step after the observations of each round has to be the loads of the next one, and that after the last round the
/// stated end, with the stated grid and landmarks. No observation is checked here.
///
/// # Errors
/// Returns the first fault.
pub fn replay(result: &SearchResult) -> Result<(), ReplayFault> {
    let rule = rule_of(&result.question);
    if !rule.is_possible() {
        return Err(ReplayFault::NoQuestion);
    }
    let mut seen: Vec<Observation> = Vec::new();
    let mut runs = BTreeSet::new();
    for (round, number) in result.rounds.iter().zip(1..) {
        if !runs.insert(&round.run_id) {
            return Err(ReplayFault::SameRun { round: number });
        }
        let observed = round.observations.iter().map(observation).collect::<Option<Vec<_>>>().ok_or(ReplayFault::NoLoad)?;
        match next_step(&rule, &seen) {
            Step::Observe(expected) if observed.iter().map(|seen| seen.load).eq(expected.iter().copied()) => {}
            Step::Observe(expected) => {
                return Err(ReplayFault::OtherLoads { round: number, expected: written(&expected) });
            }
            _ => return Err(ReplayFault::AfterTheEnd { round: number }),
        }
        seen.extend(observed);
    }
    if seen.is_empty() {
        return Err(ReplayFault::NoRound);
    }
    let step = next_step(&rule, &seen);
    if let Step::Observe(expected) = &step {
        return Err(ReplayFault::NotEnded { expected: written(expected) });
    }
    let expected = conclude(rule.goal, &step, &seen);
    if result.end != expected.end {
        return Err(ReplayFault::OtherEnd);
    }
    if result.grid != expected.grid {
        return Err(ReplayFault::OtherGrid { expected: expected.grid });
    }
    if result.landmarks == expected.landmarks { Ok(()) } else { Err(ReplayFault::OtherLandmarks) }
}

/// Returns what a document states of the last step of a search.
pub fn conclude(goal: Goal, step: &Step, seen: &[Observation]) -> SearchConclusion {
    let end = |outcome| SearchEnd { outcome, bracket: None, load: None };
    let at = |outcome, load: &Load| SearchEnd { load: Some((*load).into()), ..end(outcome) };
    let (end, grid) = match step {
        Step::Swept(clients) => {
            let grid = clients.iter().map(|clients| Load::Concurrency(*clients).into()).collect();
            (end(SearchOutcome::Swept), grid)
        }
        Step::Found(bracket) => {
            (SearchEnd { bracket: Some((*bracket).into()), ..end(SearchOutcome::Found) }, written(&bracket.grid()))
        }
        Step::NoneMet(load) => (at(SearchOutcome::NoneMet, load), Vec::new()),
        Step::AllMet(load) => (at(SearchOutcome::AllMet, load), Vec::new()),
        Step::Observe(_) | Step::Unsettled => (end(SearchOutcome::Unsettled), Vec::new()),
    };
    let landmarks = landmarks(seen).filter(|_| goal == Goal::Sweep).map(Into::into);
    SearchConclusion { end, grid, landmarks }
}

/// Returns the question of a search by a rule, with these SLOs.
pub fn question(rule: &Rule, slos: Vec<Slo>) -> SearchQuestion {
    let goal = match rule.goal {
        Goal::Sweep => SearchGoal::Sweep,
        Goal::MaxRate => SearchGoal::MaxRate,
        Goal::MaxConcurrency => SearchGoal::MaxConcurrency,
    };
    SearchQuestion { goal, slos, share: rule.share, precision: rule.precision, max_concurrency: rule.max_concurrency }
}

fn rule_of(question: &SearchQuestion) -> Rule {
    let goal = match question.goal {
        SearchGoal::Sweep => Goal::Sweep,
        SearchGoal::MaxRate => Goal::MaxRate,
        SearchGoal::MaxConcurrency => Goal::MaxConcurrency,
    };
    let SearchQuestion { share, precision, max_concurrency, .. } = *question;
    Rule { goal, share, precision, max_concurrency }
}

/// Checks that a workload is what a search that it names was for: the loads of each of its cases, among all `cases` of a pipeline, are the grid, the
/// model is that of the search and, unless it was a sweep, so are the SLOs. `work` is `None` if the requests of the workload are not known, because
/// its dataset is not.
///
/// # Errors
/// Returns the first difference.
pub fn check_workload(
    result: &SearchResult,
    workload: &Name,
    cases: &[Case],
    work: Option<(&[Slo], &str)>,
) -> Result<(), WorkloadMismatch> {
    if result.grid.is_empty() {
        return Err(WorkloadMismatch::NothingFound);
    }
    let mut cases = cases.iter().filter(|case| case.workload == *workload);
    if !cases.all(|case| has_loads(&case.points, &result.grid)) {
        return Err(WorkloadMismatch::Loads { grid: result.grid.clone() });
    }
    let Some((slos, model)) = work else { return Ok(()) };
    if result.question.goal != SearchGoal::Sweep && slos != result.question.slos {
        return Err(WorkloadMismatch::Slos);
    }
    if model != result.work.model {
        return Err(WorkloadMismatch::Model { stated: model.to_owned(), searched: result.work.model.clone() });
    }
    Ok(())
}

/// Returns true if points are these loads, in any order.
fn has_loads(points: &[Point], grid: &[SearchLoad]) -> bool {
    let found: Option<Vec<SearchLoad>> = points.iter().map(|point| load_of_value(&point.value).map(Into::into)).collect();
    let Some(mut found) = found else { return false };
    found.sort_unstable_by(|one, other| one.amount.total_cmp(&other.amount));
    found == grid
}

fn written(loads: &[Load]) -> Vec<SearchLoad> {
    loads.iter().map(|load| (*load).into()).collect()
}

/// Describes loads, such as `concurrency 1, 2, 4`.
fn loads(loads: &[SearchLoad]) -> String {
    let kind = loads.first().map_or("", |load| load.kind.as_str());
    let amounts: Vec<String> = loads.iter().map(|load| load.amount.to_string()).collect();
    format!("{kind} {}", amounts.join(", "))
}

impl From<Load> for SearchLoad {
    fn from(load: Load) -> Self {
        let kind = match load {
            Load::Concurrency(_) => LoadKind::Concurrency,
            Load::Rate(_) => LoadKind::Rate,
        };
        Self { kind, amount: load.amount() }
    }
}

/// Returns a load of a document; `None` if it is none.
pub fn parse_load(written: SearchLoad) -> Option<Load> {
    let SearchLoad { kind, amount } = written;
    match kind {
        LoadKind::Rate => amount.is_finite().then_some(Load::Rate(amount)),
        LoadKind::Concurrency => {
            let is_whole = amount >= 0.0 && amount <= f64::from(u32::MAX) && amount.fract() == 0.0;
            is_whole.then_some(Load::Concurrency(amount as u32))
        }
    }
}

impl From<Bracket> for SearchBracket {
    fn from(bracket: Bracket) -> Self {
        Self { meets: bracket.meets.into(), falls_short: bracket.falls_short.into(), crossing: bracket.crossing }
    }
}

impl From<Landmarks> for SearchLandmarks {
    fn from(found: Landmarks) -> Self {
        Self { idle: found.idle.load.into(), knee: found.knee.load.into(), limit: found.limit.load.into() }
    }
}

impl From<&Observation> for SearchObservation {
    fn from(seen: &Observation) -> Self {
        Self {
            load: seen.load.into(),
            requests: Count(seen.requests),
            error_rate: seen.error_rate,
            requests_per_s: seen.requests_per_s,
            mean_latency_s: seen.mean_latency_s,
            good_fraction: seen.good_fraction,
            over_saturated: seen.over_saturated,
        }
    }
}

/// Returns the observation of a document; `None` if its load is none.
fn observation(written: &SearchObservation) -> Option<Observation> {
    Some(Observation {
        load: parse_load(written.load)?,
        requests: written.requests.0,
        error_rate: written.error_rate,
        requests_per_s: written.requests_per_s,
        mean_latency_s: written.mean_latency_s,
        good_fraction: written.good_fraction,
        over_saturated: written.over_saturated,
    })
}

#[cfg(test)]
mod tests {
    use assay_manifest::{Digest, SearchRound};
    use serde_json::{Value, json};

    use super::*;

    /// The observation of an ideal server of eight places, one second each, whose requests are good up to eight in flight.
    fn ideal(load: Load) -> Observation {
        let requests_per_s = load.amount().min(8.0);
        let good_fraction = Some(if load.amount() <= 8.0 { 1.0 } else { 0.5 });
        let mean_latency_s = (load.amount() / requests_per_s).max(1.0);
        Observation { load, requests: 200, error_rate: 0.0, requests_per_s, mean_latency_s, good_fraction, over_saturated: false }
    }

    /// Searches that server.
    fn searched(goal: Goal) -> SearchResult {
        let rule = Rule::new(goal);
        let (mut seen, mut rounds) = (Vec::new(), Vec::new());
        let digest = Digest::compute(b"");
        let step = loop {
            match next_step(&rule, &seen) {
                Step::Observe(loads) => {
                    let observed: Vec<Observation> = loads.into_iter().map(ideal).collect();
                    rounds.push(SearchRound {
                        run_id: format!("search-{}", rounds.len()).parse().expect("a run id"),
                        publication: digest,
                        observations: observed.iter().map(Into::into).collect(),
                    });
                    seen.extend(observed);
                }
                end => break end,
            }
        };
        let SearchConclusion { end, grid, landmarks } = conclude(goal, &step, &seen);
        let mut document = json!({
            "ended_at": "2026-01-01T00:00:00.000000000Z", "question": question(&rule, Vec::new()), "rounds": rounds, "end": end, "grid": grid,
            "work": {"model": "m", "spec": digest, "target": digest, "endpoint": "simulator"},
            "key": {"name": SearchResult::KEY, "digest": digest, "size": "0", "media_type": "application/x-pem-file"},
        });
        if let Some(found) = landmarks {
            document["landmarks"] = json!(found);
        }
        serde_json::from_value(document).expect("a search result")
    }

    fn fault(goal: Goal, change: impl FnOnce(&mut SearchResult)) -> String {
        let mut result = searched(goal);
        change(&mut result);
        replay(&result).expect_err("a changed result").to_string()
    }

    #[test]
    fn a_search_leads_to_its_end_again() {
        for (goal, outcome) in [
            (Goal::Sweep, SearchOutcome::Swept),
            (Goal::MaxRate, SearchOutcome::Found),
            (Goal::MaxConcurrency, SearchOutcome::Found),
        ] {
            let result = searched(goal);
            assert_eq!(replay(&result), Ok(()), "{goal:?}");
            assert_eq!((result.end.outcome, result.landmarks.is_some()), (outcome, goal == Goal::Sweep), "{goal:?}");
            let again: SearchResult = serde_json::from_value(json!(result)).expect("a search result");
            assert_eq!(again, result);
        }
    }

    #[test]
    fn each_change_of_a_search_is_a_fault_of_its_own() {
        let goal = Goal::MaxConcurrency;
        assert_eq!(fault(goal, |result| result.rounds.clear()), "it has no round");
        assert!(
            fault(goal, |result| drop(result.rounds.remove(0)))
                .starts_with("its round 1 observed other loads than concurrency 1, 2, 4, 8,")
        );
        assert!(fault(goal, |result| drop(result.rounds.pop())).ends_with("which no round observed"));
        let twice = fault(goal, |result| result.rounds[1].run_id = result.rounds[0].run_id.clone());
        assert_eq!(twice, "its round 2 is the run of an earlier round");
        let extra = fault(goal, |result| {
            let further =
                result.rounds.last().map(|last| SearchRound { run_id: "search-99".parse().expect("a run id"), ..last.clone() });
            result.rounds.extend(further);
        });
        assert!(extra.ends_with("follows the end of the search"), "{extra}");
        let falls_short = |result: &mut SearchResult| result.rounds[0].observations[3].good_fraction = Some(0.1);
        assert!(fault(goal, falls_short).contains("its round 2 observed other loads than"));
        assert_eq!(fault(goal, |result| result.rounds[0].observations[0].load.amount = 1.5), "one of its loads is no load");
        assert_eq!(
            fault(goal, |result| result.end.outcome = SearchOutcome::AllMet),
            "its end is not that to which its rounds lead"
        );
        let grid = fault(goal, |result| result.grid.truncate(1));
        assert!(grid.starts_with("its grid is not that to which its rounds lead, concurrency "), "{grid}");
        assert_eq!(fault(Goal::Sweep, |result| result.landmarks = None), "its landmarks are not those of its observations");
    }

    #[test]
    fn a_question_outside_of_the_limits_of_a_search_is_a_fault() {
        let goal = Goal::MaxConcurrency;
        let changes: [fn(&mut SearchQuestion); 6] = [
            |question| question.max_concurrency = 0,
            |question| question.max_concurrency = MAX_CONCURRENCY + 1,
            |question| question.precision = 0.0,
            |question| question.precision = 1.5,
            |question| question.share = 0.0,
            |question| question.share = 1.01,
        ];
        for change in changes {
            let refused = fault(goal, |result| change(&mut result.question));
            assert!(refused.starts_with("its question is none of a search: "), "{refused}");
        }
    }

    #[test]
    fn a_search_that_found_nothing_has_no_grid() {
        let short = SearchObservation { good_fraction: Some(0.0), ..(&ideal(Load::Concurrency(1))).into() };
        let mut result = searched(Goal::MaxConcurrency);
        result.rounds.truncate(1);
        let all: Vec<SearchObservation> =
            result.rounds[0].observations.iter().map(|seen| SearchObservation { load: seen.load, ..short }).collect();
        result.rounds[0].observations = all;
        let lowest = SearchLoad { kind: LoadKind::Concurrency, amount: 1.0 };
        result.end = SearchEnd { outcome: SearchOutcome::NoneMet, bracket: None, load: Some(lowest) };
        assert_eq!(replay(&result), Err(ReplayFault::OtherGrid { expected: Vec::new() }));
        assert_eq!(replay(&result).expect_err("a grid").to_string(), "it has a grid, and its rounds lead to none");
        result.grid.clear();
        assert_eq!(replay(&result), Ok(()));
    }

    #[test]
    fn a_workload_that_is_not_what_was_searched_is_told_apart() {
        let mut result = searched(Goal::MaxConcurrency);
        let names: Vec<String> = result.grid.iter().map(|load| load.amount.to_string()).collect();
        let point = |clients: &String| json!({"point_id": format!("c{clients}"), "kind": "concurrency", "value": {"concurrency": clients}});
        let case = |names: &[String]| -> Case {
            let points: Vec<Value> = names.iter().map(point).collect();
            serde_json::from_value(json!({"case_id": "w.t.v", "workload": "w", "target": "t", "variant": "v", "points": points}))
                .expect("a case")
        };
        let workload: Name = "w".parse().expect("a name");
        let slos = [Slo { metric: assay_manifest::SloMetric::Ttft, at_most_ns: Count(1) }];
        result.question.slos = slos.to_vec();
        let check = |result: &SearchResult, names: &[String], slos: &[Slo], model: &str| {
            let checked = check_workload(result, &workload, &[case(names)], Some((slos, model)));
            checked.err().map(|mismatch| mismatch.to_string())
        };
        assert_eq!(check(&result, &names, &slos, "m"), None);
        let loads = check(&result, &names[1..], &slos, "m").expect("other loads");
        assert!(loads.starts_with("its loads are not those that the search found, concurrency "), "{loads}");
        assert_eq!(check(&result, &names, &[], "m").as_deref(), Some("its SLOs are not those of the search"));
        assert_eq!(check(&result, &names, &slos, "n").as_deref(), Some("its model is `n`, and the search was of `m`"));
        result.question.goal = SearchGoal::Sweep;
        assert_eq!(check(&result, &names, &[], "m"), None, "the SLOs decide nothing in a sweep");
        result.grid.clear();
        assert_eq!(check(&result, &names, &slos, "m").as_deref(), Some("the search found no loads to measure"));
    }

    #[test]
    fn the_loads_of_a_workload_are_the_grid_in_any_order() {
        let point = |kind: &str, amount: &str| -> Point {
            let id = format!("{kind}-{}", amount.replace('.', "-"));
            let value: Value = json!({"point_id": id, "kind": kind, "value": {kind: amount}});
            serde_json::from_value(value).expect("a point")
        };
        let grid = [1.0, 2.5].map(|amount| SearchLoad { kind: LoadKind::Rate, amount });
        assert!(has_loads(&[point("rate", "2.5"), point("rate", "1")], &grid));
        assert!(!has_loads(&[point("rate", "1")], &grid));
        assert!(!has_loads(&[point("rate", "1"), point("rate", "2.5"), point("rate", "3")], &grid));
        assert!(!has_loads(&[point("concurrency", "1"), point("rate", "2.5")], &grid));
    }
}
