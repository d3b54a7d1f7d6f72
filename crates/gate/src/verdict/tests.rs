use std::path::Path;

use assay_manifest::{
    ALL_LOADS, Acknowledgement, AllLoads, Body, Count, CrossingPlace, Digest, Document, Environment, Executable, ExecutableRole,
    ExecutionPart, GatePolicy, InputRef, Instant, Kind, LoadKind, Name, Plan, PlannedTrial, PointSummary, RunId, RunStatus,
    Sequence, Source, Summary, TrialCrossing, TrialId, TrialValue, canonical_json,
};
use assay_simulator::{Engine, EngineConfig, Latency, Load, PerRequest, Profile, Seed, SimulatedRequest, SlowRequests, simulate};

use super::*;
use crate::rule::LearnedNoise;

const BASELINE: &str = "memory-bandwidth.node-a.default";
const CANDIDATE: &str = "memory-bandwidth.node-a.huge-pages";

/// The documents of the example run, with a comparison of as many pairs as a test needs.
struct Fixture {
    run_id: RunId,
    source: Source,
    plan: Plan,
    environment: Environment,
    part: ExecutionPart,
    summary: Summary,
    tree: String,
}

fn example<B: Body>(name: &str) -> B {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../manifests/examples/v1alpha1").join(name);
    let document = Document::parse(&std::fs::read(path).expect("an example")).expect("a manifest");
    B::from_document(&document).expect("of that kind").body.clone()
}

impl Fixture {
    /// Creates the documents; `pairs` gives the bandwidth of both sides in every round.
    fn new(pairs: &[[f64; 2]]) -> Self {
        let mut plan: Plan = example("plan.json");
        let mut summary: Summary = example("summary.json");
        plan.trial_policy.count = u32::try_from(pairs.len()).expect("few");
        plan.trials.clear();
        summary.status = RunStatus::Succeeded;
        summary.points.retain(|point| [BASELINE, CANDIDATE].contains(&point.case_id.as_str()));
        for (side, case) in [BASELINE, CANDIDATE].into_iter().enumerate() {
            let point = summary.points.iter_mut().find(|point| point.case_id.as_str() == case).expect("the point");
            let metric = point.metrics.first_mut().expect("a metric");
            let like = metric.trials.first().expect("a trial").clone();
            metric.trials.clear();
            for (index, pair) in (0_u32..).zip(pairs) {
                let trial_id = TrialId::from_parts(&point.case_id, &point.point_id, index);
                plan.trials.push(PlannedTrial {
                    trial_id: trial_id.clone(),
                    case_id: point.case_id.clone(),
                    point_id: point.point_id.clone(),
                    index,
                    block: 0,
                });
                metric.trials.push(TrialValue { trial_id, value: pair[side], ..like.clone() });
            }
            point.metrics.truncate(1);
        }
        let environment = example("environment.json");
        let mut part: ExecutionPart = example("execution_part.json");
        for outcome in part.attempts.iter_mut().filter_map(|attempt| attempt.indicator.as_mut()) {
            outcome.executables = vec![executable("run.sh", Some("a build"))];
        }
        let run_id: RunId = "pull-17".parse().expect("a name");
        let workloads = plan.workloads.iter().map(|workload| workload.workload_spec_digest);
        plan.order.seed = assay_schedule::draw_seed(&run_id, workloads).to_string();
        Self { run_id, source: example("source.json"), plan, environment, part, summary, tree: "a".repeat(40) }
    }

    fn run(&self) -> Run<'_> {
        let digest = Digest::compute(b"summary");
        Run {
            run_id: &self.run_id,
            source: &self.source,
            plan: &self.plan,
            environments: vec![&self.environment],
            parts: vec![&self.part],
            summary: (InputRef { kind: Kind::Summary, manifest: digest, bundle: digest }, &self.summary),
            tree: self.tree.clone(),
            signers: vec!["local-reduce".to_owned()],
            established: true,
            earlier_ends: Vec::new(),
        }
    }
}

/// Returns the program of a side, by the bytes of its build.
fn executable(path: &str, build: Option<&str>) -> Executable {
    Executable {
        role: ExecutableRole::Program,
        path: path.to_owned(),
        digest: build.map(|build| Digest::compute(build.as_bytes())),
        unpinned: None,
    }
}

#[test]
fn a_side_whose_executable_has_no_digest_decides_nothing() {
    let with = |build: Option<&str>| {
        let mut fixture = Fixture::new(&rounds(1.0));
        let of_candidate = fixture.part.attempts.iter_mut().filter(|attempt| attempt.case_id.as_str() == CANDIDATE);
        for outcome in of_candidate.filter_map(|attempt| attempt.indicator.as_mut()) {
            outcome.executables = vec![executable("sut/after/run.sh", build)];
        }
        assert!(fixture.part.attempts.iter().any(|attempt| attempt.case_id.as_str() == CANDIDATE && attempt.validity.valid));
        let checks = crate::executables::checks(&fixture.run(), fixture.plan.comparison.as_ref().expect("a comparison"));
        checks
            .into_iter()
            .map(|check| format!("{} {} {}: {}", check.name, check.passed, check.blocks, check.detail))
            .collect::<Vec<_>>()
    };
    assert_eq!(with(Some("a build")), [""; 0], "the same bytes under another path are the same");
    let other = with(Some("another build"));
    assert!(other[0].starts_with("executables true false: the sides differ in program `run.sh` ("), "{other:?}");
    let unknown = with(None);
    assert!(
        unknown[0].starts_with("unpinned_executable false false: no digest is known of the program `sut/after/run.sh`"),
        "{unknown:?}"
    );
}

fn instant(text: &str) -> Instant {
    text.parse().expect("an instant")
}

fn question<'a>(gate: &'a Name, runs: Vec<Run<'a>>) -> GateInput<'a> {
    GateInput {
        gate,
        policy: GatePolicy {
            path: "pipelines/pull-request.yaml".to_owned(),
            digest: Digest::compute(b"policy"),
            commit: None,
            q: 0.05,
            looks: vec![1.0],
            budget: 0.05,
            metrics: Vec::new(),
            block_on_inconclusive: false,
            slo: false,
            provenance: false,
            max_error_rate: None,
            max_output_drift: None,
        },
        runs,
        sequence: Sequence { name: sequence_name(), look: 1, earlier: Vec::new() },
        acknowledgements: Vec::new(),
        judged_on: instant("2026-11-20T00:00:00.000000000Z"),
        learned: None,
        both_ways: false,
        policy_changes: Vec::new(),
        definition_changes: Vec::new(),
        files: Vec::new(),
    }
}

fn sequence_name() -> Name {
    "pr-17".parse().expect("a name")
}

/// Returns twelve rounds with a ripple of half a percent, in which the candidate has `ratio` times the bandwidth.
fn rounds(ratio: f64) -> Vec<[f64; 2]> {
    let ripple = |i: u32| 1.0 + 0.005 * f64::from(i * 7 % 5) - 0.01;
    (0..12).map(|i| [200_000.0 * ripple(i), 200_000.0 * ratio * ripple(i + 3)]).collect()
}

fn verdict_of(pairs: &[[f64; 2]], ask: impl FnOnce(&mut GateInput<'_>)) -> Verdict {
    let fixture = Fixture::new(pairs);
    let gate: Name = "gate".parse().expect("a name");
    let mut question = question(&gate, vec![fixture.run()]);
    ask(&mut question);
    judge(&question).expect("a verdict")
}

fn acknowledgement(share: f64, expires: &str) -> Acknowledgement {
    Acknowledgement {
        path: "pipelines/acks/slower.yaml".to_owned(),
        digest: Digest::compute(b"ack"),
        case: CANDIDATE.parse().expect("a case"),
        point: None,
        metric: "triad_mb_per_s".to_owned(),
        accepts: share,
        of: "pull request 17".to_owned(),
        applies: true,
        reason: "the allocator was replaced".to_owned(),
        approver: "owner".to_owned(),
        expires: instant(expires),
    }
}

fn reason_code(metric: &MetricVerdict) -> &str {
    metric.reason.as_ref().map_or("", |reason| reason.code.as_str())
}

#[test]
fn a_tenth_less_bandwidth_is_a_regression_that_blocks() {
    let verdict = verdict_of(&rounds(0.9), |_| {});
    assert_eq!((verdict.outcome, verdict.blocks), (Outcome::Regressed, true));
    let metric = &verdict.metrics[0];
    assert_eq!((metric.pairs.len(), metric.missing, metric.primary), (12, 0, true));
    let change = metric.change.as_ref().expect("a change");
    assert!((change.ratio - 0.9).abs() < 0.01 && change.low < Some(change.ratio) && Some(change.ratio) < change.high);
    assert_eq!(verdict.reasons[0].code, "regressed");
}

/// Returns the verdict on the most load within the SLOs, of which each pair has the values of both sides, after a change of the documents.
fn verdict_on_loads(pairs: &[[f64; 2]], named: &[&str], change: impl FnOnce(&mut Fixture)) -> Result<Verdict, Refusal> {
    let mut fixture = Fixture::new(&rounds(1.0));
    let side = |(side, case): (usize, &str)| AllLoads {
        case_id: case.parse().expect("a case"),
        point_id: ALL_LOADS.parse().expect("a name"),
        workload_spec_digest: Digest::compute(b"work"),
        load: LoadKind::Rate,
        unit: "requests/s".to_owned(),
        crossings: (0..)
            .zip(pairs)
            .map(|(index, pair)| TrialCrossing { index, place: CrossingPlace::Within, load: pair[side] })
            .collect(),
        bracket: None,
        metrics: Vec::new(),
    };
    fixture.summary.all_loads = [BASELINE, CANDIDATE].into_iter().enumerate().map(side).collect();
    change(&mut fixture);
    let gate: Name = "gate".parse().expect("a name");
    let mut question = question(&gate, vec![fixture.run()]);
    question.policy.metrics = named.iter().map(|named| (*named).to_owned()).collect();
    judge(&question)
}

#[test]
fn the_most_load_within_the_slos_is_judged_if_a_gate_names_it() {
    let judged = |ratio: f64| {
        let verdict = verdict_on_loads(&rounds(ratio), &["max_load"], |_| {}).expect("a verdict");
        let metric = verdict.metrics.iter().find(|metric| metric.metric == "max_load").expect("it is judged");
        assert_eq!((metric.point_id.as_str(), metric.pairs.len(), metric.unit.as_str()), ("all-loads", 12, "requests/s"));
        (verdict.outcome, verdict.blocks)
    };
    assert_eq!(judged(1.0), (Outcome::Unchanged, false));
    assert_eq!(judged(0.9), (Outcome::Regressed, true), "less load is worse");
    assert_eq!(judged(1.1), (Outcome::Improved, false));
    let unnamed = verdict_on_loads(&rounds(0.5), &[], |_| {}).expect("a verdict");
    assert!(unnamed.metrics.iter().all(|metric| metric.metric != "max_load"), "no gate judges it unasked");
    let absent = verdict_on_loads(&rounds(1.0), &["max_load"], |fixture| fixture.summary.all_loads.clear());
    assert_eq!(absent, Err(Refusal::UnknownMetric("max_load".to_owned())));
}

#[test]
fn a_trial_beyond_either_end_of_the_loads_decides_nothing() {
    let judged = |side: usize, place: CrossingPlace, has_hardware: bool| {
        let edit = |fixture: &mut Fixture| {
            fixture.summary.all_loads[side].crossings[3].place = place;
            if !has_hardware {
                fixture.environment.hosts.clear();
            }
        };
        let verdict = verdict_on_loads(&rounds(0.5), &["max_load"], edit).expect("a verdict");
        let metric = verdict.metrics.iter().find(|metric| metric.metric == "max_load").expect("it is judged");
        assert_eq!((verdict.outcome, metric.outcome, metric.more_pairs), (Outcome::Inconclusive, Outcome::Inconclusive, None));
        assert!(metric.pairs.is_empty(), "no pair is judged");
        let of_metric = verdict.reasons.iter().find(|reason| reason.code == "inconclusive").expect("a reason");
        assert!(of_metric.detail.starts_with("`max_load` of memory-bandwidth at all-loads: the "), "{}", of_metric.detail);
        reason_code(metric).to_owned()
    };
    for (side, has_hardware) in [(0, true), (1, true), (1, false)] {
        assert_eq!(judged(side, CrossingPlace::Below, has_hardware), "below_all_loads", "whatever else is not known");
        assert_eq!(judged(side, CrossingPlace::AtLeast, has_hardware), "above_all_loads");
    }
}

#[test]
fn more_bandwidth_is_an_improvement_and_the_same_is_no_change() {
    assert_eq!(verdict_of(&rounds(1.1), |_| {}).outcome, Outcome::Improved);
    let same = verdict_of(&rounds(1.0), |_| {});
    assert_eq!((same.outcome, same.blocks, same.reasons.len()), (Outcome::Unchanged, false, 0));
    assert!(same.metrics[0].detectable.is_some_and(|smallest| smallest < 0.1), "it says what it would have found");
}

#[test]
fn noise_that_hides_twice_the_budget_is_inconclusive_and_says_how_many_pairs_it_takes() {
    let noisy: Vec<[f64; 2]> =
        rounds(1.0).iter().enumerate().map(|(i, [a, b])| [*a, b * if i % 2 == 0 { 1.15 } else { 0.87 }]).collect();
    let verdict = verdict_of(&noisy, |question| question.policy.block_on_inconclusive = true);
    assert_eq!((verdict.outcome, verdict.blocks), (Outcome::Inconclusive, true));
    assert_eq!(reason_code(&verdict.metrics[0]), "underpowered");
    // A bound at 97.5 %, a floor of 110 / n spreads over the root of n and a power of 0.8 take n = (1.96 + 0.84 + 110 / n)^2
    // (0.15 / 0.095)^2 pairs: about 56.
    let enough = verdict.metrics[0].more_pairs.map(|more| 12 + more);
    assert!(enough.is_some_and(|pairs| (50..=62).contains(&pairs)), "{enough:?}");
}

/// Returns pairs whose ratio goes up and down by a share.
fn noisy(share: f64) -> Vec<[f64; 2]> {
    let ripple = |i: usize| if i.is_multiple_of(2) { 1.0 + share } else { 1.0 / (1.0 + share) };
    rounds(1.0).iter().enumerate().map(|(i, [a, b])| [*a, b * ripple(i)]).collect()
}

#[test]
fn more_pairs_are_those_of_the_next_look() {
    let more = |looks: &[f64]| verdict_of(&noisy(0.15), |question| question.policy.looks = looks.to_vec()).metrics[0].more_pairs;
    let (even, uneven) = (more(&[0.5, 0.5]).expect("a number"), more(&[0.5, 1e-6]).expect("a number"));
    assert!(uneven > even, "the next look has next to no share: {uneven} and {even}");
}

/// The pairs that confirm a large change are fewer than those that find twice the budget.
#[test]
fn a_change_that_was_seen_takes_as_many_pairs_as_one_of_its_size() {
    let slower: Vec<[f64; 2]> = noisy(0.15).iter().map(|[a, b]| [*a, b * 0.75]).collect();
    let verdict = verdict_of(&slower, |_| {});
    let metric = &verdict.metrics[0];
    assert_eq!((metric.outcome, reason_code(metric)), (Outcome::Inconclusive, "within_floor"));
    // A small one that was seen is none to plan for: as it nears the budget, the pairs grow without limit.
    let slightly: Vec<[f64; 2]> = noisy(0.03).iter().map(|[a, b]| [*a, b / 1.07]).collect();
    let verdict = verdict_of(&slightly, |_| {});
    let small = &verdict.metrics[0];
    assert!(small.p_worse_adjusted < 0.05 && small.more_pairs.is_some(), "{small:?}");
    assert_eq!((small.outcome, reason_code(small)), (Outcome::Inconclusive, "underpowered"));
    // A shift of 0.29 takes n with 0.29 > 110 * 0.15 / n^1.5 + 2.8 * 0.15 / n^0.5: about 20.
    let enough = metric.more_pairs.map(|more| 12 + more);
    assert!(enough.is_some_and(|pairs| (15..=28).contains(&pairs)), "{enough:?}");
}

#[test]
fn what_no_number_of_pairs_tells_is_said() {
    let hopeless = verdict_of(&noisy(1.5), |_| {});
    let metric = &hopeless.metrics[0];
    assert_eq!((reason_code(metric), metric.more_pairs), ("underpowered", None));
    let detail = metric.reason.as_ref().map_or("", |reason| reason.detail.as_str());
    assert!(detail.ends_with("; 200 pairs would not tell either"), "{detail}");
}

#[test]
fn no_pairs_tell_what_made_a_difference() {
    let mut fixture = Fixture::new(&noisy(0.15));
    fixture.environment.hosts.clear();
    let gate: Name = "gate".parse().expect("a name");
    let verdict = judge(&question(&gate, vec![fixture.run()])).expect("a verdict");
    let metric = &verdict.metrics[0];
    assert_eq!(
        (metric.outcome, reason_code(metric), metric.more_pairs),
        (Outcome::Inconclusive, "confounded_with_placement", None)
    );
}

#[test]
fn an_accepted_regression_passes_but_neither_a_larger_nor_an_expired_one() {
    let later = "2027-01-01T00:00:00.000000000Z";
    let accepted = verdict_of(&rounds(0.9), |question| question.acknowledgements = vec![acknowledgement(0.15, later)]);
    assert_eq!((accepted.outcome, reason_code(&accepted.metrics[0])), (Outcome::Unchanged, "acknowledged"));
    assert_eq!(accepted.metrics[0].outcome, Outcome::Regressed, "the metric itself is still told");
    let larger = verdict_of(&rounds(0.9), |question| question.acknowledgements = vec![acknowledgement(0.06, later)]);
    assert_eq!((larger.outcome, reason_code(&larger.metrics[0])), (Outcome::Regressed, "beyond_acknowledgement"));
    let past = "2026-11-01T00:00:00.000000000Z";
    let expired = verdict_of(&rounds(0.9), |question| question.acknowledgements = vec![acknowledgement(0.15, past)]);
    assert_eq!((expired.outcome, reason_code(&expired.metrics[0])), (Outcome::Regressed, "acknowledgement_expired"));
}

#[test]
fn an_acceptance_of_something_else_accepts_nothing() {
    let other = |change: fn(&mut Acknowledgement)| {
        let mut accepted = acknowledgement(0.15, "2027-01-01T00:00:00.000000000Z");
        change(&mut accepted);
        verdict_of(&rounds(0.9), |question| question.acknowledgements = vec![accepted]).outcome
    };
    assert_eq!(other(|accepted| accepted.applies = false), Outcome::Regressed, "of another pull request");
    assert_eq!(other(|accepted| accepted.case = BASELINE.parse().expect("a case")), Outcome::Regressed);
    assert_eq!(other(|accepted| accepted.point = Some("elsewhere".parse().expect("a point"))), Outcome::Regressed);
    assert_eq!(other(|accepted| accepted.metric = "copy_mb_per_s".to_owned()), Outcome::Regressed);
}

#[test]
fn one_acceptance_among_several_suffices() {
    let later = "2027-01-01T00:00:00.000000000Z";
    let verdict = verdict_of(&rounds(0.9), |question| {
        question.acknowledgements = vec![acknowledgement(0.06, later), acknowledgement(0.2, later)];
    });
    assert_eq!((verdict.outcome, reason_code(&verdict.metrics[0])), (Outcome::Unchanged, "acknowledged"));
}

/// Returns both sides' points as serving points, with this many failed requests in a hundred and the given SLO results.
fn serving_fixture(failed: u64, slo_met: [Option<bool>; 2], tokens: [f64; 2]) -> Fixture {
    let mut fixture = Fixture::new(&rounds(1.0));
    let like: Summary = example("summary.json");
    let serving = like.points.iter().find_map(|point| point.serving.clone()).expect("a point of serving");
    for ((point, tokens), slo_met) in fixture.summary.points.iter_mut().zip(tokens).zip(slo_met) {
        let mut serving = serving.clone();
        serving.requests.0 = 100;
        serving.outcomes = [("ok".to_owned(), Count(100 - failed)), ("timeout".to_owned(), Count(failed))].into();
        serving.slo_met = slo_met;
        serving.excluded_outcomes.clear();
        point.serving = Some(serving);
        let mut length = point.metrics[0].clone();
        length.metric = "osl_tokens_mean".to_owned();
        (length.better, length.primary, length.median) = (None, false, tokens);
        point.metrics.push(length);
        let mut good = point.metrics[0].clone();
        good.metric = "good_fraction".to_owned();
        (good.better, good.primary, good.median) = (None, false, if slo_met == Some(true) { 0.995 } else { 0.95 });
        point.metrics.push(good);
    }
    fixture
}

/// Makes the intervals of a point those of one trial.
fn measured_once(point: &mut PointSummary) {
    (point.trials_planned, point.trials_counted) = (1, 1);
    for metric in &mut point.metrics {
        metric.interval_absent = None;
        metric.interval = Some(assay_manifest::Interval {
            low: metric.median,
            high: metric.median,
            level: 0.95,
            method: "cluster_ratio".to_owned(),
            kind: assay_manifest::IntervalKind::WithinRun,
            sessions: Some(Count(60)),
        });
    }
}

#[test]
fn one_trial_with_intervals_within_its_run_never_decides() {
    let judged = |ratio: f64, once: bool, block: bool| {
        let mut fixture = Fixture::new(&[[200_000.0, 200_000.0 * ratio]]);
        fixture.summary.points.iter_mut().filter(|_| once).for_each(measured_once);
        let gate: Name = "gate".parse().expect("a name");
        let mut question = question(&gate, vec![fixture.run()]);
        question.policy.block_on_inconclusive = block;
        judge(&question).expect("a verdict")
    };
    for ratio in [0.01, 1.0, 100.0] {
        let verdict = judged(ratio, true, false);
        assert_eq!((verdict.outcome, verdict.blocks), (Outcome::Inconclusive, false), "{ratio}");
        let metric = &verdict.metrics[0];
        assert_eq!((metric.outcome, reason_code(metric), metric.more_pairs), (Outcome::Inconclusive, "within_run", None));
        assert!(verdict.reasons.iter().any(|reason| reason.code == "within_run"), "{:?}", verdict.reasons);
        let told = verdict.reasons.iter().all(|reason| reason.detail.contains("do not hold the variation from run to run"));
        assert!(told, "{:?}", verdict.reasons);
        // The policy decides if an inconclusive verdict blocks, as it does for any other.
        assert!(judged(ratio, true, true).blocks);
    }
    let repeated = judged(1.0, false, false);
    assert_eq!((repeated.outcome, reason_code(&repeated.metrics[0])), (Outcome::Inconclusive, "underpowered"));
    assert!(repeated.reasons.iter().all(|reason| reason.code != "within_run"));
}

#[test]
fn enough_pairs_with_intervals_within_one_run_each_do_not_decide_either() {
    let mut fixture = Fixture::new(&rounds(0.5));
    let gate: Name = "gate".parse().expect("a name");
    let outcome = |fixture: &Fixture| judge(&question(&gate, vec![fixture.run()])).expect("a verdict").outcome;
    assert_eq!(outcome(&fixture), Outcome::Regressed);
    // One side suffices.
    measured_once(&mut fixture.summary.points[1]);
    assert_eq!(outcome(&fixture), Outcome::Inconclusive);
}

#[test]
fn rules_about_numbers_of_one_trial_do_not_block_but_a_candidate_that_never_succeeds_does() {
    let judged = |once: bool, change: fn(&mut Fixture)| {
        let mut fixture = serving_fixture(50, [Some(true), Some(false)], [100.0, 10.0]);
        fixture.summary.points.iter_mut().filter(|_| once).for_each(measured_once);
        change(&mut fixture);
        let gate: Name = "gate".parse().expect("a name");
        let mut question = question(&gate, vec![fixture.run()]);
        (question.policy.slo, question.policy.max_error_rate, question.policy.max_output_drift) = (true, Some(0.01), Some(0.05));
        judge(&question).expect("a verdict")
    };
    assert_eq!((judged(false, |_| {}).outcome, judged(true, |_| {}).outcome), (Outcome::Regressed, Outcome::Inconclusive));
    let failed: Vec<String> =
        judged(true, |_| {}).checks.into_iter().filter(|check| !check.passed).map(|check| check.name).collect();
    assert_eq!(failed, ["slo", "error_rate", "output_drift", "within_run"]);
    let crashed = |fixture: &mut Fixture| {
        fixture.summary.points[0].excluded.clear();
        let candidate = &mut fixture.summary.points[1];
        candidate.trials_counted = 0;
        candidate.metrics.clear();
        let trial_id = fixture.plan.trials[0].trial_id.clone();
        let reasons = vec![Reason::new("all_failed", "every request failed")];
        candidate.excluded = vec![assay_manifest::Exclusion { trial_id, attempt: 0, reasons }];
    };
    assert_eq!(judged(true, crashed).outcome, Outcome::Regressed);
}

#[test]
fn what_nobody_vouches_for_blocks_where_provenance_is_asked_for() {
    let outcome = |asked: bool, change: fn(&mut Run<'_>)| {
        let (fixture, gate) = (Fixture::new(&rounds(1.0)), "gate".parse::<Name>().expect("a name"));
        let mut run = fixture.run();
        (run.established, run.source) =
            (true, Box::leak(Box::new(Source { kind: OriginKind::Git, dirty: false, ..run.source.clone() })));
        change(&mut run);
        let mut question = question(&gate, vec![run]);
        question.policy.provenance = asked;
        let verdict = judge(&question).expect("a verdict");
        (verdict.blocks, verdict.reasons.first().map_or(String::new(), |reason| reason.code.clone()))
    };
    let fine = (false, String::new());
    assert_eq!(outcome(true, |_| {}), fine);
    let unknown: fn(&mut Run<'_>) = |run| run.established = false;
    let worktree: fn(&mut Run<'_>) =
        |run| run.source = Box::leak(Box::new(Source { kind: OriginKind::Worktree, dirty: true, ..run.source.clone() }));
    for change in [unknown, worktree] {
        assert_eq!(outcome(true, change), (true, "provenance".to_owned()));
        assert_eq!(outcome(false, change), fine, "only where the policy asks for it");
    }
}

#[test]
fn what_one_run_can_show_blocks_by_itself() {
    let outcome = |fixture: &Fixture, ask: fn(&mut GatePolicy)| {
        let gate: Name = "gate".parse().expect("a name");
        let mut question = question(&gate, vec![fixture.run()]);
        ask(&mut question.policy);
        let verdict = judge(&question).expect("a verdict");
        (verdict.outcome, verdict.blocks, verdict.reasons.first().map_or(String::new(), |reason| reason.code.clone()))
    };
    let fine = (Outcome::Unchanged, false, String::new());
    let broken = |code: &str| (Outcome::Regressed, true, code.to_owned());
    let failing = serving_fixture(3, [Some(true), Some(false)], [128.0, 64.0]);
    assert_eq!(outcome(&failing, |_| {}), fine, "what the policy does not ask for is not checked");
    assert_eq!(outcome(&failing, |policy| policy.slo = true), broken("slo"));
    assert_eq!(outcome(&failing, |policy| policy.max_error_rate = Some(0.01)), broken("error_rate"));
    assert_eq!(outcome(&failing, |policy| policy.max_error_rate = Some(0.03)), fine);
    assert_eq!(outcome(&failing, |policy| policy.max_output_drift = Some(0.1)), broken("output_drift"));
    assert_eq!(outcome(&failing, |policy| policy.max_output_drift = Some(0.5)), fine);
    let sound = serving_fixture(0, [Some(true); 2], [128.0, 128.0]);
    let without_lengths = |api: &str| {
        let mut fixture = serving_fixture(0, [Some(true); 2], [128.0, 128.0]);
        let mut work = fixture.plan.workloads.iter().find_map(|workload| workload.serving.clone()).expect("serving work");
        work.api = serde_json::from_value(api.into()).expect("an API");
        fixture.plan.workloads[0].serving = Some(work);
        for point in &mut fixture.summary.points {
            point.metrics.retain(|metric| metric.metric != "osl_tokens_mean");
        }
        outcome(&fixture, |policy| policy.max_output_drift = Some(0.1))
    };
    assert_eq!(without_lengths("chat"), broken("output_drift"), "lengths are missing");
    assert_eq!(without_lengths("embeddings"), fine, "the API has no output tokens");
    let all =
        |policy: &mut GatePolicy| (policy.slo, policy.max_error_rate, policy.max_output_drift) = (true, Some(0.0), Some(0.01));
    assert_eq!(outcome(&sound, all), fine);
}

#[test]
fn a_missed_slo_blocks_only_where_the_baseline_kept_it() {
    let gate: Name = "gate".parse().expect("a name");
    let ask = |slo_met: [Option<bool>; 2], accepts: Option<(f64, &str)>| {
        let fixture = serving_fixture(0, slo_met, [128.0; 2]);
        let mut question = question(&gate, vec![fixture.run()]);
        question.policy.slo = true;
        question.acknowledgements = accepts
            .map(|(share, until)| Acknowledgement { metric: "good_fraction".to_owned(), ..self::acknowledgement(share, until) })
            .into_iter()
            .collect();
        let verdict = judge(&question).expect("a verdict");
        let check = verdict.checks.iter().find(|check| check.name == "slo").cloned().expect("it is asked");
        (verdict.outcome, verdict.blocks, check)
    };
    let (outcome, blocks, check) = ask([Some(true), Some(false)], None);
    assert_eq!((outcome, blocks, check.acknowledged), (Outcome::Regressed, true, None));
    insta::assert_snapshot!(check.detail, @"the candidate missed its SLOs, and the baseline kept them: 95.0 % of the candidate's requests kept their SLOs and 99.5 % of the baseline's (medians of trials; 99 of 100 of all have to)");
    let (outcome, blocks, check) = ask([Some(false); 2], None);
    assert_eq!((outcome, blocks), (Outcome::Inconclusive, false), "the baseline missed them too");
    insta::assert_snapshot!(check.detail, @"both sides missed their SLOs, so that the candidate cannot be charged with it: 95.0 % of the candidate's requests kept their SLOs and 95.0 % of the baseline's (medians of trials; 99 of 100 of all have to)");
    assert_eq!(ask([None, Some(false)], None).0, Outcome::Inconclusive, "of the baseline nothing is known");
    assert_eq!(ask([Some(false), Some(true)], None).0, Outcome::Unchanged);
    // 0.995 / 0.95 is 4.7 % for the worse.
    let later = "2027-01-01T00:00:00.000000000Z";
    let (outcome, blocks, check) = ask([Some(true), Some(false)], Some((0.05, later)));
    assert_eq!((outcome, blocks, check.passed, check.acknowledged.is_some()), (Outcome::Unchanged, false, false, true));
    assert!(check.detail.contains("`pipelines/acks/slower.yaml` accepts it"), "{}", check.detail);
    for (share, until, why) in
        [(0.04, later, "accepts 4.0 %, and this is 4.7 %"), (0.05, "2026-01-01T00:00:00.000000000Z", "accepted it until")]
    {
        let (outcome, _, check) = ask([Some(true), Some(false)], Some((share, until)));
        assert_eq!((outcome, check.acknowledged), (Outcome::Regressed, None));
        assert!(check.detail.contains(why), "{}", check.detail);
    }
}

#[test]
fn an_order_that_was_declared_decides_nothing() {
    let mut fixture = Fixture::new(&rounds(0.8));
    let gate: Name = "gate".parse().expect("a name");
    let judged = |fixture: &Fixture| judge(&question(&gate, vec![fixture.run()])).expect("a verdict");
    let order = |verdict: &Verdict| verdict.checks.iter().find(|check| check.name == "order").cloned().expect("it is checked");
    let drawn = judged(&fixture);
    assert_eq!((drawn.outcome, order(&drawn).passed), (Outcome::Regressed, true));
    fixture.plan.order.seed = "7".repeat(64);
    let declared = judged(&fixture);
    assert!(!order(&declared).passed);
    assert_eq!(declared.outcome, Outcome::Inconclusive, "neither a regression");
    assert!(declared.metrics.iter().all(|metric| metric.outcome == Outcome::Inconclusive));
    // An order that was drawn for another run is no better.
    fixture.plan.order.seed = assay_schedule::draw_seed(&"other".parse().expect("a name"), []).to_string();
    assert!(!order(&judged(&fixture)).passed);
}

#[test]
fn a_candidate_that_crashes_more_often_does_not_pass_by_being_repeated() {
    let failed = |side: usize, trials: u32, code: &str| {
        let mut fixture = Fixture::new(&rounds(1.0));
        fixture.summary.points.iter_mut().for_each(|point| point.excluded.clear());
        let case = [BASELINE, CANDIDATE][side];
        let point = fixture.summary.points.iter_mut().find(|point| point.case_id.as_str() == case).expect("the point");
        let trial_id = point.metrics[0].trials[0].trial_id.clone();
        point.excluded = vec![assay_manifest::Exclusion { trial_id, attempt: 0, reasons: vec![Reason::new(code, "139")] }];
        point.trials_counted = trials;
        let gate: Name = "gate".parse().expect("a name");
        judge(&question(&gate, vec![fixture.run()])).expect("a verdict").outcome
    };
    for code in [
        "exit_code",
        "time_limit",
        "all_failed",
        "target_gone",
        "over_saturated",
        "too_many_errors",
        "malformed_json",
        "metric_not_finite",
        "metric_absent",
    ] {
        let outcomes = [failed(0, 12, code), failed(1, 12, code), failed(1, 0, code)];
        assert_eq!(outcomes, [Outcome::Unchanged, Outcome::Inconclusive, Outcome::Regressed], "{code}");
    }
    assert_eq!(failed(1, 12, "client_late"), Outcome::Unchanged, "that lies with whoever measures");
}

#[test]
fn passing_by_other_definitions_is_no_pass_and_a_regression_stays_one() {
    let changed = |question: &mut GateInput<'_>| {
        question.definition_changes =
            vec![Difference { what: "comparison".to_owned(), baseline: "a".to_owned(), candidate: "b".to_owned() }];
    };
    let same = verdict_of(&rounds(1.0), changed);
    assert_eq!((same.outcome, same.reasons[0].code.as_str(), same.blocks), (Outcome::Inconclusive, "definitions", true));
    assert_eq!(verdict_of(&rounds(0.9), changed).outcome, Outcome::Regressed);
}

#[test]
fn a_round_without_both_sides_is_no_pair_and_is_counted() {
    let mut fixture = Fixture::new(&rounds(0.9));
    fixture.summary.points[0].metrics[0].trials.remove(4);
    fixture.summary.status = RunStatus::Partial;
    let gate: Name = "gate".parse().expect("a name");
    let verdict = judge(&question(&gate, vec![fixture.run()])).expect("a verdict");
    assert_eq!((verdict.metrics[0].pairs.len(), verdict.metrics[0].missing), (11, 1));
    assert!(verdict.checks.iter().any(|check| check.name == "validity" && !check.passed));
}

#[test]
fn a_second_run_of_one_tree_adds_its_pairs_under_what_is_left_of_q() {
    let fixture = Fixture::new(&rounds(0.9));
    let gate: Name = "gate".parse().expect("a name");
    let mut question = question(&gate, vec![fixture.run(), fixture.run()]);
    question.policy.looks = vec![0.5, 0.5];
    question.sequence = Sequence { name: sequence_name(), look: 2, earlier: vec![Digest::compute(b"the first")] };
    let verdict = judge(&question).expect("a verdict");
    assert_eq!(verdict.metrics[0].pairs.len(), 24);
    assert_eq!(verdict.metrics[0].pairs.last().map(|pair| pair.run), Some(1));
    question.sequence.look = 3;
    insta::assert_snapshot!(judge(&question).expect_err("refused"), @"the policy allows 2 looks, and this would be number 3");
}

#[test]
fn what_cannot_be_judged_is_refused_by_name() {
    let fixture = Fixture::new(&rounds(1.0));
    let gate: Name = "gate".parse().expect("a name");
    let refused = |question: &GateInput<'_>| judge(question).expect_err("refused").to_string();
    insta::assert_snapshot!(refused(&question(&gate, Vec::new())), @"there is no run to judge");
    let mut unknown = question(&gate, vec![fixture.run()]);
    unknown.policy.metrics = vec!["triad".to_owned()];
    insta::assert_snapshot!(refused(&unknown), @"the gate judges `triad`, which no compared point reports with a direction that is better");
    let mut alone = Fixture::new(&rounds(1.0));
    alone.plan.comparison = None;
    insta::assert_snapshot!(
        refused(&question(&gate, vec![alone.run()])),
        @"the pipeline of run `pull-17` has no `comparison`, so there is nothing to judge"
    );
    let mut other = Fixture::new(&rounds(1.0));
    other.tree = "b".repeat(40);
    insta::assert_snapshot!(
        refused(&question(&gate, vec![fixture.run(), other.run()])),
        @"run `pull-17` measured another tree than run `pull-17`, so their pairs are not one experiment"
    );
}

#[test]
fn sides_on_hardware_that_is_not_known_are_confounded() {
    let mut fixture = Fixture::new(&rounds(0.9));
    fixture.environment.hosts.clear();
    let gate: Name = "gate".parse().expect("a name");
    let verdict = judge(&question(&gate, vec![fixture.run()])).expect("a verdict");
    assert_eq!((verdict.outcome, reason_code(&verdict.metrics[0])), (Outcome::Inconclusive, "confounded_with_placement"));
    let mut unchanged = Fixture::new(&rounds(1.0));
    unchanged.environment.hosts.clear();
    let verdict = judge(&question(&gate, vec![unchanged.run()])).expect("a verdict");
    assert_eq!(verdict.outcome, Outcome::Unchanged, "there is nothing to charge to a machine");
}

#[test]
fn sides_that_differ_otherwise_tell_nothing_and_each_difference_is_listed() {
    let judged = |ratio: f64, differing: u32| {
        let mut fixture = Fixture::new(&rounds(ratio));
        for trial in &fixture.plan.trials {
            let own = if trial.index < differing { trial.case_id.to_string() } else { "both".to_owned() };
            fixture.part.schedule_digests.insert(trial.trial_id.clone(), Digest::compute(own.as_bytes()));
        }
        let gate: Name = "gate".parse().expect("a name");
        judge(&question(&gate, vec![fixture.run()])).expect("a verdict")
    };
    let outcomes = |differing: u32| [0.9, 1.0, 1.1].map(|ratio| judged(ratio, differing).outcome);
    assert_eq!(outcomes(0), [Outcome::Regressed, Outcome::Unchanged, Outcome::Improved]);
    assert_eq!(outcomes(2), [Outcome::Inconclusive; 3], "a difference may hide a change as well as make one");
    let verdict = judged(1.0, 3);
    assert_eq!((reason_code(&verdict.metrics[0]), verdict.differences.len(), verdict.blocks), ("environment", 3, false));
    insta::assert_snapshot!(
        verdict.metrics[0].reason.as_ref().expect("a reason").detail,
        @"the sides differ in `schedule of memory-bandwidth.node-a.default.t8.t0` and 2 more, which is not the variable under test"
    );
}

#[test]
fn hardware_comes_before_facts_where_both_could_explain_a_change() {
    let mut fixture = Fixture::new(&rounds(0.9));
    fixture.environment.hosts.clear();
    let digests =
        fixture.plan.trials.iter().map(|trial| (trial.trial_id.clone(), Digest::compute(trial.trial_id.as_str().as_bytes())));
    fixture.part.schedule_digests = digests.collect();
    let gate: Name = "gate".parse().expect("a name");
    let verdict = judge(&question(&gate, vec![fixture.run()])).expect("a verdict");
    assert_eq!((reason_code(&verdict.metrics[0]), verdict.differences.len()), ("confounded_with_placement", 12));
}

/// The floor applies to throughputs as well as to latencies, and a bound that does not clear it has shown nothing.
#[test]
fn what_does_not_clear_the_floor_only_seems_worse() {
    let rules = Rules { q: 0.05, budget: 0.05, unit: PairUnit::Pair, both_ways: false };
    let learned = LearnedNoise {
        noise: assay_stats::Noise::normal(0.005, 100.0),
        launches: Some(crate::rule::Launches { sd: 0.03, n: 20, largest: 0.01 }),
        autocorrelation: None,
    };
    // A ripple of a third of a percent.
    let ripple = |i: u32| 100.0 + 0.1 * f64::from(i % 7);
    let pairs = (0..12).map(|i| [ripple(i * 5), ripple(i * 3) / 1.06]).collect();
    let places = (0..12).map(|round| [0, round]).collect();
    let series = Series { better: BetterDirection::Higher, pairs, places, learned: Some(learned) };
    let judged = crate::rule::judge(&[series], &rules).remove(0);
    insta::assert_snapshot!(
        reason(judged.why.expect("why"), &judged, &rules, false).detail,
        @"it seems worse, but its bound does not clear the noise floor of 9.3 %"
    );
}

#[test]
fn the_same_question_has_the_same_bytes() {
    let [one, other] = [(); 2].map(|()| canonical_json(&verdict_of(&rounds(0.93), |_| {})).expect("canonical"));
    assert_eq!(one, other);
    // A method that decides differently needs another name: it then refuses verdicts of the old one and does not accuse their
    // signers.
    assert_eq!(
        (CONTRACT, Digest::compute(&one).hex().as_str()),
        ("assay-gate/11", "d66e71f22db7be74b3ad9376b07aa877f0169d8a8bfa915de06139a757c6668c")
    );
}

/// Returns the requests per second of forty requests by four users to the reference endpoint in virtual time, with a noise of
/// about three percent. It is a function of the seed.
fn throughput(seed: &str, slower: f64) -> f64 {
    let seed = Seed::new([0; 32]).mixed_with(seed);
    let EngineConfig::PerRequest(latency) = Profile::H100x8b.engine() else { panic!("a batch") };
    let latency = Latency { slow: SlowRequests { factor: slower, share: 1.0 }, ..latency };
    let due =
        |number| SimulatedRequest { request_id: number, prompt_tokens: 100, output_tokens: 1, ..SimulatedRequest::default() };
    let load = Load::Closed { clients: 4, requests: (0..40).map(due) };
    let ends = simulate(Engine::new(PerRequest::new(latency, &seed)), seed, load).filter_map(|record| record.end_ns);
    40e9 / ends.max().expect("an end") as f64
}

/// Runs the gate two hundred times, each over 30 pairs of its own, the candidate slower by this factor.
fn judge_two_hundred(slower: f64, budget: f64) -> [usize; 4] {
    let mut found = [0; 4];
    for gate in 0..200 {
        let pair =
            |pair| [throughput(&format!("{gate} {pair} before"), 1.0), throughput(&format!("{gate} {pair} after"), slower)];
        let pairs: Vec<[f64; 2]> = (0..30).map(pair).collect();
        let outcome = verdict_of(&pairs, |question| question.policy.budget = budget).outcome;
        found[Outcome::ALL.iter().position(|known| *known == outcome).expect("an outcome")] += 1;
    }
    found
}

/// This test checks the path from manifests to outcome; the calibration measures the rate of false alarms.
#[test]
fn two_hundred_gates_of_equal_endpoints_give_the_alarms_of_their_seeds() {
    let [improved, unchanged, inconclusive, regressed] = judge_two_hundred(1.0, 0.05);
    assert_eq!([improved, unchanged, inconclusive, regressed], [0, 199, 1, 0]);
    // With next to no budget, the test and the floor of a metric without earlier runs decide.
    let [improved, _, _, regressed] = judge_two_hundred(1.0, 1e-6);
    assert_eq!([improved, regressed], [0, 0]);
}

#[test]
fn two_hundred_gates_of_an_endpoint_that_is_a_tenth_slower_find_it() {
    let [improved, unchanged, _, regressed] = judge_two_hundred(1.1, 0.05);
    // The pairs of some gates happen to be autocorrelated: at 30 pairs without a history this costs 3 % of the detections.
    assert_eq!((improved, unchanged, regressed), (0, 0, 194));
}
