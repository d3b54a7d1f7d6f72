use assay_manifest::{
    Attempt, Block, ControlFact, Digest, Drift, Fact, HostFacts, Interval, IntervalKind, PodPlace, Shard, UnpinnedInput,
};
use serde_json::json;

use super::*;

/// The evidence for the rules, owned.
struct Run {
    plan: Plan,
    environments: Vec<Environment>,
    collection: Collection,
    status: RunStatus,
    points: Vec<PointSummary>,
    issues: Vec<Reason>,
}

const ZERO: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// A run that meets every rule of a publication.
fn publishable() -> Run {
    let plan = json!({
        "pipeline": {"name": "p", "path": "p.yaml", "digest": ZERO},
        "source": {"kind": "git", "commit": "0123456789012345678901234567890123456789", "dirty": false, "files_digest": ZERO},
        "intent": "publication",
        "claim": {"methodology": "five trials", "representative": true, "statement": "one machine"},
        "controls": [], "workloads": [], "targets": [], "variants": [], "cases": [],
        "trial_policy": {"count": 5, "retry_budget": 1}, "isolation": "none", "placement": "coexist",
        "order": {"seed": "00", "digest": ZERO}, "trials": [], "unpinned": [], "queries": [],
    });
    let artifact = json!({"name": "evidence.json", "digest": ZERO, "size": "0", "media_type": "application/json"});
    let collection = json!({
        "plan_digest": ZERO, "trials": [], "drift": [], "evidence": artifact, "evidence_count": "0", "evidence_bytes": "0",
    });
    Run {
        plan: serde_json::from_value(plan).expect("a plan"),
        environments: vec![environment(0), environment(1)],
        collection: serde_json::from_value(collection).expect("a collection"),
        status: RunStatus::Succeeded,
        points: vec![point()],
        issues: Vec::new(),
    }
}

fn environment(index: u32) -> Environment {
    let environment = json!({
        "plan_digest": ZERO, "block": {"index": index, "incarnation": 0}, "observed_at": "2026-01-01T00:00:00.000000000Z",
        "hosts": [{"name": "local", "roles": ["target"], "facts": HostFacts::unknown("a test")}],
        "software": [], "targets": [], "controls": [], "placement": {}, "readings": [],
    });
    let controls = Control::ALL.iter().map(|control| fact(*control, ControlState::Declared)).collect();
    Environment { controls, ..serde_json::from_value(environment).expect("an environment") }
}

fn fact(control: Control, state: ControlState) -> ControlFact {
    ControlFact { control, state, evidence: "as seen".to_owned() }
}

fn point() -> PointSummary {
    let metric = json!({
        "metric": "rate", "unit": "GB/s", "better": "higher", "primary": true, "n": "5", "median": 1.0, "mean": 1.0,
        "min": 1.0, "max": 1.0, "stability": "stable", "stability_reason": "calm", "rows": {}, "trials": [],
    });
    let point = json!({
        "case_id": "w.t.default", "point_id": "one", "workload_type": "indicator", "workload_spec_digest": ZERO, "value": {},
        "trials_planned": 5, "trials_counted": 5, "attempts": 5, "excluded": [], "metrics": [metric],
    });
    let mut point: PointSummary = serde_json::from_value(point).expect("a point");
    let interval = Interval {
        low: 0.9,
        high: 1.1,
        level: 0.95,
        method: "order_statistic".to_owned(),
        kind: IntervalKind::BetweenTrials,
        sessions: None,
    };
    point.metrics[0].interval = Some(interval);
    point
}

/// The requested grade, the given one, and every rule that is not met, after a change of a run that meets all of them.
fn graded(change: impl FnOnce(&mut Run)) -> String {
    let mut run = publishable();
    change(&mut run);
    let environments: Vec<_> = run.environments.iter().collect();
    let Run { plan, collection, status, points, issues, .. } = &run;
    let Grade { requested, given, shortfalls, .. } =
        grade(&Evidence { plan, environments: &environments, collection, status: *status, points, issues });
    let lines = shortfalls.iter().map(|shortfall| format!("\n{}: {}", shortfall.rule, shortfall.found));
    format!("{requested} -> {given}{}", lines.collect::<String>())
}

fn metric(run: &mut Run) -> &mut MetricSummary {
    &mut run.points[0].metrics[0]
}

#[test]
fn what_meets_every_rule_is_published() {
    assert_eq!(graded(|_| {}), "publication -> publication");
}

#[test]
fn a_publication_comes_from_a_clean_commit() {
    insta::assert_snapshot!(graded(|run| run.plan.source.dirty = true), @r"
    publication -> exploratory
    clean_commit: what was read differs from its commit
    ");
    insta::assert_snapshot!(graded(|run| run.plan.source.commit = None), @r"
    publication -> exploratory
    clean_commit: the source names no commit
    ");
    insta::assert_snapshot!(graded(|run| run.plan.source.kind = OriginKind::Worktree), @r"
    publication -> exploratory
    clean_commit: the run was started from a source of kind `worktree`, and not from a commit
    ");
}

#[test]
fn nothing_mutable_is_left() {
    let unpinned = UnpinnedInput { what: "alpine:latest".to_owned(), reason: "fetching is off".to_owned() };
    insta::assert_snapshot!(graded(|run| run.plan.unpinned.push(unpinned)), @r"
    publication -> exploratory
    pinned: `alpine:latest` is not pinned: fetching is off
    ");
}

/// Makes a run of one long trial, whose interval is within the run.
fn measured_once(run: &mut Run) {
    (run.points[0].trials_planned, run.points[0].trials_counted) = (1, 1);
    let metric = metric(run);
    metric.stability = Stability::Unknown;
    "1 trial cannot agree with others".clone_into(&mut metric.stability_reason);
    let interval = metric.interval.as_mut().expect("an interval");
    (interval.kind, interval.sessions) = (IntervalKind::WithinRun, Some(assay_manifest::Count(60)));
}

#[test]
fn an_interval_within_a_run_is_of_realism_grade_at_most() {
    insta::assert_snapshot!(graded(measured_once), @r"
    publication -> realism
    trials: w.t.default at `one` has 1 counted trial, fewer than 3
    within_run: w.t.default at `one` has intervals within one run, which do not hold the variation from run to run
    stability: the stability of `rate` of w.t.default at `one` is unknown: 1 trial cannot agree with others
    ");
    let realism = |run: &mut Run| {
        measured_once(run);
        run.plan.intent = Intent::Realism;
    };
    assert_eq!(graded(realism), "realism -> realism");
    // The kind alone makes the difference.
    let repeated = graded(|run| metric(run).interval.as_mut().expect("an interval").kind = IntervalKind::WithinRun);
    insta::assert_snapshot!(repeated, @r"
    publication -> realism
    within_run: w.t.default at `one` has intervals within one run, which do not hold the variation from run to run
    ");
}

#[test]
fn one_trial_without_an_interval_is_exploratory() {
    insta::assert_snapshot!(graded(|run| {
        measured_once(run);
        run.plan.intent = Intent::Realism;
        let metric = metric(run);
        (metric.interval, metric.interval_absent) = (None, Some("49 clusters are too few".to_owned()));
    }), @r"
    realism -> exploratory
    one_trial: w.t.default at `one` was planned as one trial, and has no interval within its run: 49 clusters are too few
    ");
}

#[test]
fn a_claim_says_how_and_of_what() {
    insta::assert_snapshot!(graded(|run| run.plan.claim = None), @r"
    publication -> realism
    claim: the pipeline states neither methodology nor what its numbers represent
    ");
    let blank = |of: fn(&mut Claim) -> &mut String| graded(|run| " \n".clone_into(of(run.plan.claim.as_mut().expect("a claim"))));
    insta::assert_snapshot!(blank(|claim| &mut claim.methodology), @r"
    publication -> realism
    claim: the methodology is empty
    ");
    insta::assert_snapshot!(blank(|claim| &mut claim.statement), @r"
    publication -> realism
    claim: the statement is empty
    ");
}

#[test]
fn every_block_has_every_control() {
    let absent = |run: &mut Run| run.environments[1].controls[2] = fact(Control::LockedClocks, ControlState::Absent);
    insta::assert_snapshot!(graded(absent), @r"
    publication -> realism
    controls: `locked_clocks` is absent: as seen
    ");
    insta::assert_snapshot!(graded(|run| run.environments[1].controls.truncate(3)), @r"
    publication -> realism
    controls: `stable_background` is absent: it is not declared
    ");
    let proved = |run: &mut Run| run.environments[0].controls[0] = fact(Control::DedicatedNodes, ControlState::Proved);
    assert_eq!(graded(proved), "publication -> publication");
}

#[test]
fn a_control_that_is_both_held_and_absent_is_absent() {
    let both = |run: &mut Run| run.environments[0].controls.push(fact(Control::LockedClocks, ControlState::Absent));
    assert!(graded(both).starts_with("publication -> realism\ncontrols: `locked_clocks` is absent"));
}

#[test]
fn a_point_has_enough_trials_and_all_that_were_planned() {
    insta::assert_snapshot!(graded(|run| run.points[0].trials_counted = 4), @r"
    publication -> realism
    complete: w.t.default at `one` has 4 counted trials of 5 planned
    ");
    let two = |run: &mut Run| {
        run.points[0].trials_counted = 2;
        run.points[0].trials_planned = 2;
    };
    insta::assert_snapshot!(graded(two), @r"
    publication -> realism
    trials: w.t.default at `one` has 2 counted trials, fewer than 3
    ");
    insta::assert_snapshot!(graded(|run| run.points[0].trials_counted = 1), @r"
    publication -> realism
    trials: w.t.default at `one` has 1 counted trial, fewer than 3
    complete: w.t.default at `one` has 1 counted trial of 5 planned
    ");
    let three = |run: &mut Run| {
        run.points[0].trials_counted = MIN_TRIALS;
        run.points[0].trials_planned = MIN_TRIALS;
    };
    assert_eq!(graded(three), "publication -> publication", "the limit itself is enough");
}

#[test]
fn a_primary_metric_has_an_interval_and_a_known_stability() {
    let no_interval = |run: &mut Run| {
        metric(run).interval = None;
        metric(run).interval_absent = Some("2 samples".to_owned());
    };
    insta::assert_snapshot!(graded(no_interval), @r"
    publication -> realism
    interval: `rate` of w.t.default at `one` has no interval: 2 samples
    ");
    insta::assert_snapshot!(graded(|run| metric(run).interval = None), @r"
    publication -> realism
    interval: `rate` of w.t.default at `one` has no interval: no reason is given
    ");
    insta::assert_snapshot!(graded(|run| metric(run).stability = Stability::Unknown), @r"
    publication -> realism
    stability: the stability of `rate` of w.t.default at `one` is unknown: calm
    ");
    insta::assert_snapshot!(graded(|run| metric(run).stability = Stability::Unstable), @r"
    publication -> realism
    stability: `rate` of w.t.default at `one` is unstable: calm
    ");
}

#[test]
fn a_publication_names_the_controls_that_rest_on_declarations() {
    let declared = |change: &dyn Fn(&mut Run)| {
        let mut run = publishable();
        change(&mut run);
        let environments: Vec<_> = run.environments.iter().collect();
        let Run { plan, collection, status, points, issues, .. } = &run;
        grade(&Evidence { plan, environments: &environments, collection, status: *status, points, issues }).declared
    };
    assert_eq!(declared(&|_| ()), Control::ALL);
    let proved = |run: &mut Run| {
        for environment in &mut run.environments {
            environment.controls = Control::ALL.iter().map(|control| fact(*control, ControlState::Proved)).collect();
        }
    };
    assert_eq!(declared(&proved), []);
    let in_one_block = |run: &mut Run| run.environments[0].controls[2] = fact(Control::LockedClocks, ControlState::Proved);
    assert_eq!(declared(&in_one_block), Control::ALL, "in the other block it is declared");
    assert_eq!(declared(&|run| run.plan.intent = Intent::Realism), [], "only a publication rests on controls");
}

#[test]
fn a_control_that_the_telemetry_contradicts_bars_a_publication() {
    let found = "`dedicated_nodes` is declared, but others took 90 % (limit 5 %)";
    insta::assert_snapshot!(graded(|run| run.issues.push(Reason::new(CONTROL_CONTRADICTED, found))), @r"
    publication -> realism
    control_contradicted: `dedicated_nodes` is declared, but others took 90 % (limit 5 %)
    ");
}

#[test]
fn a_metric_that_nobody_judges_bars_nothing() {
    let secondary = |run: &mut Run| {
        metric(run).primary = false;
        metric(run).interval = None;
        metric(run).stability = Stability::Unknown;
    };
    assert_eq!(graded(secondary), "publication -> publication");
}

#[test]
fn blocks_do_not_differ_and_something_was_measured() {
    let [before, after] = [0, 1].map(|index| Block { index, incarnation: 0 });
    let drift = Drift { what: "boot_id".to_owned(), before, after, detail: "a, then b".to_owned() };
    insta::assert_snapshot!(graded(|run| run.collection.drift.push(drift)), @r"
    publication -> realism
    drift: `boot_id` differs between blocks: a, then b
    ");
    insta::assert_snapshot!(graded(|run| run.status = RunStatus::Failed), @r"
    publication -> realism
    complete: no trial is valid
    ");
}

/// A serving attempt with this clock.
fn attempt(clock: &serde_json::Value) -> Attempt {
    let artifact =
        json!({"name": "records.parquet", "digest": ZERO, "size": "0", "media_type": "application/vnd.apache.parquet"});
    let instant = "2026-01-01T00:00:00.000000000Z";
    let serving = json!({
        "schedule_digest": ZERO, "start": instant, "measured_from_ns": "0", "measured_to_ns": "1", "outcomes": {},
        "warmup_outcomes": {}, "input_tokens": "0", "output_tokens": "0", "chunk_lists": "all", "clock": clock, "records": artifact,
        "client": {
            "loop_busy_p99_ns": "0", "loop_stall_max_ns": "0", "cpu_user_us": "0", "cpu_system_us": "0", "full_reads": "0",
            "starved": "0", "sent_rate_per_s": 1.0, "connections": "1", "events": "1",
        },
    });
    let attempt = json!({
        "trial_id": "w.t.default.one.t0", "case_id": "w.t.default", "point_id": "one", "attempt": 0, "status": "completed",
        "window": {"start": instant, "end": instant, "duration_ns": "0"}, "validity": {"valid": true, "reasons": []},
        "serving": serving, "evidence": [],
    });
    serde_json::from_value(attempt).expect("an attempt")
}

const BLOCK: Block = Block { index: 0, incarnation: 0 };

/// The finding for attempts with these clocks, each of shard 1 of `shards`.
fn clocks_of(shards: u32, clocks: &[serde_json::Value]) -> Option<String> {
    let attempts: Vec<_> = clocks.iter().map(attempt).collect();
    let shard = Shard { index: 1.min(shards - 1), count: shards };
    find_unknown_clocks(attempts.iter().map(|attempt| CountedAttempt { block: BLOCK, shard, attempt }))
        .map(|reason| reason.detail)
}

#[test]
fn clocks_are_known_by_one_boot_or_an_exchange() {
    let (same, exchanged) =
        (json!({"source": "same_host", "offset_ns": "0"}), json!({"source": "exchange", "offset_ns": "-250"}));
    assert_eq!(clocks_of(2, &[same, exchanged]), None);
    let refused = json!({"source": "unknown", "no_exchange": "10.0.0.1:4242: connection refused"});
    assert_eq!(clocks_of(1, std::slice::from_ref(&refused)), None, "one shard has nobody to agree with");
    insta::assert_snapshot!(clocks_of(2, std::slice::from_ref(&refused)).expect("said"), @"how far the clock of shard 1 of 2 is from shard 0's is not known in trial `w.t.default.one.t0`: nobody has measured it (10.0.0.1:4242: connection refused)");
    let kernel = json!({"source": "kernel", "no_exchange": "shard 0 has no address"});
    insta::assert_snapshot!(clocks_of(4, &[kernel, refused.clone()]).expect("said"), @"how far the clock of shard 1 of 4 is from shard 0's is not known in trial `w.t.default.one.t0`: only the kernels say that they are synchronised (shard 0 has no address); nor is it in one other attempt");
    let odd = json!({"source": "exchange", "offset_ns": "soon"});
    insta::assert_snapshot!(clocks_of(2, &[odd, refused.clone(), refused]).expect("said"), @"how far the clock of shard 1 of 2 is from shard 0's is not known in trial `w.t.default.one.t0`: nobody has measured it; nor is it in 2 other attempts");
}

#[test]
fn an_attempt_of_several_shards_that_says_nothing_of_clocks_leaves_them_unknown() {
    let silent = Attempt { serving: None, ..attempt(&json!({"source": "same_host", "offset_ns": "0"})) };
    let of = |count| CountedAttempt { block: BLOCK, shard: Shard { index: 0, count }, attempt: &silent };
    let said = |count| find_unknown_clocks([of(count)]).map(|reason| reason.detail);
    assert_eq!(said(1), None);
    assert!(said(2).expect("said").ends_with("the attempt says nothing of it"));
}

#[test]
fn several_shards_are_published_with_known_clocks_only() {
    let unknown = Reason::new(CLOCK_OFFSET, "how far the clock of shard 1 of 2 is from shard 0's is not known");
    insta::assert_snapshot!(graded(|run| run.issues.push(unknown.clone())), @r"
    publication -> realism
    clock_offset: how far the clock of shard 1 of 2 is from shard 0's is not known
    ");
    let realism = |run: &mut Run| {
        run.plan.intent = Intent::Realism;
        run.issues.push(unknown);
    };
    assert_eq!(graded(realism), "realism -> realism", "latencies are within one host and stay good");
    let other = Reason::new("recording_gaps", "1 counted attempt has gaps in its recording");
    assert_eq!(graded(|run| run.issues.push(other)), "publication -> publication", "it is not what the rules look for");
}

/// The attempts of one point, each of its own trial and shard and on its own node; `None` outside a cluster.
fn placed(attempts: &[(u32, u32, Option<&str>)]) -> Vec<(Shard, Attempt)> {
    let placed = |(trial, index, node): &(u32, u32, Option<&str>)| {
        let place = node.map(|node| PodPlace {
            node: node.to_owned(),
            pod: "p".to_owned(),
            pod_uid: "u".to_owned(),
            job_uid: "j".to_owned(),
        });
        let trial_id = format!("w.t.default.one.t{trial}").parse().expect("a trial id");
        let attempt = Attempt { trial_id, place, serving: None, ..attempt(&json!({"source": "same_host"})) };
        (Shard { index: *index, count: 2 }, attempt)
    };
    attempts.iter().map(placed).collect()
}

fn counted(attempts: &[(Shard, Attempt)]) -> impl Iterator<Item = CountedAttempt<'_>> {
    attempts.iter().map(|(shard, attempt)| CountedAttempt { block: BLOCK, shard: *shard, attempt })
}

#[test]
fn the_trials_of_a_point_come_from_one_node_in_each_shard() {
    let said = |attempts: &[(u32, u32, Option<&str>)]| find_moved_load(counted(&placed(attempts))).map(|reason| reason.detail);
    assert_eq!(said(&[]), None);
    assert_eq!(said(&[(0, 0, None), (1, 0, None)]), None, "one machine");
    assert_eq!(said(&[(0, 0, Some("a")), (0, 1, Some("b")), (1, 0, Some("a")), (1, 1, Some("b"))]), None, "shards may differ");
    insta::assert_snapshot!(said(&[(0, 0, Some("a")), (0, 1, Some("b")), (1, 0, Some("c")), (1, 1, Some("b"))]).expect("said"), @"the counted trials of w.t.default at `one` come from more than one node in shard 0: `a`, `c`");
    let wandering = ["f", "e", "d", "c", "b", "a"].map(Some);
    let of = |shard| (0..).zip(wandering).map(move |(trial, node)| (trial, shard, node));
    insta::assert_snapshot!(said(&of(0).chain(of(1)).collect::<Vec<_>>()).expect("said"), @"the counted trials of w.t.default at `one` come from more than one node in shard 0: `a`, `b`, `c`, `d` and 2 more; and so it is with one other shard of a point");
}

#[test]
fn a_node_that_nobody_knows_is_another() {
    let some = placed(&[(0, 0, Some("a")), (1, 0, None)]);
    let said = find_moved_load(counted(&some)).expect("said").detail;
    assert!(said.ends_with("more than one node in shard 0: one that is not known, `a`"), "{said}");
}

/// The Environment of a block whose targets ran on these nodes.
fn on_nodes(block: u32, nodes: &[(&str, &str)]) -> Environment {
    let placement = nodes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Environment { placement, ..environment(block) }
}

#[test]
fn the_trials_of_a_point_measure_a_target_on_the_same_nodes() {
    let attempts = placed(&[(0, 0, None), (1, 0, None)]);
    let said = |environments: &[Environment]| {
        let blocks = environments.iter().map(|environment| environment.block);
        let counted =
            attempts.iter().zip(blocks).map(|((shard, attempt), block)| CountedAttempt { block, shard: *shard, attempt });
        find_moved_target(counted, &environments.iter().collect::<Vec<_>>()).map(|reason| reason.detail)
    };
    let two = |block, one: &str, other: &str| on_nodes(block, &[("node/t/0", one), ("node/t/1", other), ("pod/t/0", "p")]);
    assert_eq!(said(&[on_nodes(0, &[]), on_nodes(1, &[])]), None, "one machine");
    assert_eq!(said(&[two(0, "a", "b"), two(1, "b", "a")]), None, "the same nodes in another order");
    assert_eq!(said(&[on_nodes(0, &[("node/t", "a")]), on_nodes(1, &[("node/u", "b")])]), None, "two targets");
    assert_eq!(
        said(&[two(0, "a", "b"), two(1, "a", "c")]).as_deref(),
        Some(
            "the counted trials of w.t.default at `one` come from blocks that had the target `t` on different nodes: `a`, `b`, `c`"
        )
    );
    let both = |block, node| on_nodes(block, &[("node/t", node), ("node/u", node)]);
    let said = said(&[both(0, "a"), both(1, "b")]).expect("said");
    assert!(said.ends_with("`a`, `b`; and so it is with one other target of a point"), "{said}");
}

#[test]
fn the_number_of_a_pod_is_no_part_of_its_target() {
    let attempts = placed(&[(0, 0, Some("a"))]);
    let environment = on_nodes(0, &[("node/t/0", "a")]);
    let said = find_colocated_load(counted(&attempts), &[&environment]).expect("said").detail;
    assert!(said.ends_with("on which the target `t` ran"), "{said}");
}

#[test]
fn load_does_not_come_from_the_node_of_its_target() {
    let on = |block: u32, node: &str| {
        let placement = [("cluster", "kubernetes"), ("node/t", node), ("pod/t", "x")];
        let placement = placement.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Environment { placement, ..environment(block) }
    };
    let said = |attempts: &[(u32, u32, Option<&str>)], environments: &[Environment]| {
        let environments: Vec<_> = environments.iter().collect();
        find_colocated_load(counted(&placed(attempts)), &environments).map(|reason| reason.detail)
    };
    let both = [(0, 0, Some("a")), (0, 1, Some("b")), (1, 1, Some("b"))];
    assert_eq!(said(&both, &[on(0, "c"), on(1, "b")]), None, "the other block's target is not there");
    assert_eq!(said(&[(0, 0, None)], &[on(0, "a")]), None, "nobody knows");
    insta::assert_snapshot!(said(&both[..1], &[on(0, "a")]).expect("said"), @"the load of shard 0 in trial `w.t.default.one.t0` came from the node `a`, on which the target `t` ran");
    insta::assert_snapshot!(said(&both, &[on(0, "b")]).expect("said"), @"the load of shard 1 in trial `w.t.default.one.t0` came from the node `b`, on which the target `t` ran; and so did that of one other");
}

#[test]
fn load_that_moved_or_measured_itself_is_exploratory() {
    for rule in [MOVED_LOAD, MOVED_TARGET, COLOCATED] {
        let issue = |run: &mut Run| run.issues.push(Reason::new(rule, "so it was"));
        assert_eq!(graded(issue), format!("publication -> exploratory\n{rule}: so it was"));
        let asking = |intent| {
            graded(|run| {
                run.plan.intent = intent;
                issue(run);
            })
        };
        assert_eq!(asking(Intent::Realism), format!("realism -> exploratory\n{rule}: so it was"));
        assert_eq!(asking(Intent::Exploratory), "exploratory -> exploratory");
    }
}

/// A plan that compares the targets `t` and `u` in one round, and its environment: both on the machine `local`.
fn compared(variable: &str) -> (Plan, Environment) {
    let Run { mut plan, environments, .. } = publishable();
    let side = |target: &str| json!({"target": target, "variant": "default"});
    let comparison = json!({"baseline": side("t"), "candidate": side("u"), "variable_under_test": variable});
    plan.comparison = Some(serde_json::from_value(comparison).expect("a comparison"));
    for target in ["t", "u"] {
        let (case, trial) = (format!("w.{target}.default"), format!("w.{target}.default.one.t0"));
        let planned = json!({"case_id": case, "workload": "w", "target": target, "variant": "default", "points": []});
        plan.cases.push(serde_json::from_value(planned).expect("a case"));
        let planned = json!({"trial_id": trial, "case_id": case, "point_id": "one", "index": 0, "block": 0});
        plan.trials.push(serde_json::from_value(planned).expect("a trial"));
    }
    let mut environment = environments.into_iter().next().expect("an environment");
    environment.hosts[0].facts.boot_id = Fact::observed("b".to_owned(), "a test");
    let target = |id: &str| {
        json!({
            "id": id, "kind": "process", "hosts": ["local"], "models": [], "probes": [],
            "version": {"source": "observed", "value": "1", "how": "a test"},
        })
    };
    environment.targets = ["t", "u"].map(|id| serde_json::from_value(target(id)).expect("a target")).to_vec();
    (plan, environment)
}

/// The counted attempts of both sides, each with the load of that name.
fn offered(loads: [&str; 2]) -> Vec<(Shard, Attempt)> {
    let attempts = ["t", "u"].into_iter().zip(loads).map(|(target, load)| {
        let mut attempt = attempt(&json!({"source": "same_host"}));
        attempt.trial_id = format!("w.{target}.default.one.t0").parse().expect("a trial");
        attempt.serving.as_mut().expect("of serving").schedule_digest = Digest::compute(load.as_bytes());
        (Shard { index: 0, count: 1 }, attempt)
    });
    attempts.collect()
}

#[test]
fn sides_are_alike_but_for_what_is_compared() {
    let said = |variable: &str, loads: [&str; 2], change: fn(&mut Environment)| {
        let (plan, mut environment) = compared(variable);
        change(&mut environment);
        find_side_differences(&plan, counted(&offered(loads)), &[&environment]).map(|reason| reason.detail)
    };
    let newer = |environment: &mut Environment| environment.targets[1].version.value = Some("2".to_owned());
    assert_eq!(said("scheduler_path", ["one", "one"], |_| {}), None);
    assert_eq!(said("runtime_version", ["one", "one"], newer), None, "it is what is compared");
    insta::assert_snapshot!(
        said("scheduler_path", ["one", "one"], newer).expect("said"),
        @"besides `scheduler_path` the baseline and the candidate differ in `target.version` (1 against 2)"
    );
    let loads = said("runtime_version", ["one", "two"], newer).expect("said");
    assert!(
        loads.starts_with(
            "besides `runtime_version` the baseline and the candidate differ in `schedule of w.t.default.one.t0` (sha256:"
        ),
        "{loads}"
    );
    let elsewhere = |environment: &mut Environment| {
        let mut other = environment.hosts[0].clone();
        other.name = "other".to_owned();
        let facts = &mut other.facts;
        (facts.kernel, facts.cpu_model) = (Fact::observed("6".to_owned(), "seen"), Fact::observed("x".to_owned(), "seen"));
        (facts.usable_cpus, facts.governor) = (Fact::observed(1, "seen"), Fact::observed(vec!["y".to_owned()], "seen"));
        environment.hosts.push(other);
        environment.targets[1].hosts = vec!["other".to_owned()];
        environment.targets[1].models = vec!["m".to_owned()];
    };
    insta::assert_snapshot!(said("scheduler_path", ["one", "one"], elsewhere).expect("said"), @"besides `scheduler_path` the baseline and the candidate differ in `host.cpu_model` (unknown against x), `host.usable_cpus` (unknown against 1), `target.models` (none against m), `host.governor` (unknown against y) and 1 more");
    let (mut plan, mut environment) = compared("scheduler_path");
    newer(&mut environment);
    plan.comparison = None;
    assert_eq!(find_side_differences(&plan, counted(&offered(["one", "two"])), &[&environment]), None, "nothing is compared");
}

#[test]
fn sides_share_hardware_unless_it_is_what_is_compared() {
    let said = |variable: &str, boot: &str| {
        let (plan, mut environment) = compared(variable);
        let mut other = environment.hosts[0].clone();
        other.name = "other".to_owned();
        other.facts.boot_id = Fact::observed(boot.to_owned(), "a test");
        environment.hosts.push(other);
        environment.targets[1].hosts = vec!["other".to_owned()];
        find_confounded_sides(&plan, &[&environment]).map(|reason| reason.detail)
    };
    assert_eq!(said("runtime_version", "b"), None, "two names of one machine");
    insta::assert_snapshot!(said("runtime_version", "c").expect("said"), @"the baseline ran on b and the candidate on c");
    assert_eq!(said("hardware_generation", "c"), None);
    let (mut plan, environment) = compared("runtime_version");
    assert_eq!(find_confounded_sides(&plan, &[&environment]), None);
    plan.comparison = None;
    assert_eq!(find_confounded_sides(&plan, &[]), None);
}

#[test]
fn sides_that_differ_otherwise_are_no_claim() {
    for rule in [SIDES_DIFFER, CONFOUNDED] {
        let issue = |run: &mut Run| run.issues.push(Reason::new(rule, "so it was"));
        assert_eq!(graded(issue), format!("publication -> realism\n{rule}: so it was"));
    }
}

#[test]
fn what_falls_short_of_its_grade_is_given_the_next_that_it_meets() {
    let asking = |intent, traceable: bool| {
        graded(|run| {
            run.plan.intent = intent;
            run.plan.claim = None;
            run.plan.source.dirty = !traceable;
        })
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
    };
    assert_eq!(asking(Intent::Publication, true), "publication -> realism");
    assert_eq!(asking(Intent::Publication, false), "publication -> exploratory");
    assert_eq!(asking(Intent::Realism, true), "realism -> realism");
    assert_eq!(asking(Intent::Realism, false), "realism -> exploratory");
    assert_eq!(asking(Intent::Exploratory, true), "exploratory -> exploratory", "nothing is given that was not asked for");
    assert_eq!(asking(Intent::Exploratory, false), "exploratory -> exploratory");
}

#[test]
fn every_shortfall_is_said_at_once() {
    let poor = |run: &mut Run| {
        run.plan.source.dirty = true;
        run.plan.claim = None;
        run.environments[0].controls.clear();
        run.points[0].trials_counted = 0;
        run.status = RunStatus::Failed;
        metric(run).interval = None;
    };
    let rules: Vec<String> =
        graded(poor).lines().skip(1).map(|line| line.split(':').next().unwrap_or_default().to_owned()).collect();
    let expected =
        ["clean_commit", "claim", "controls", "controls", "controls", "controls", "trials", "complete", "interval", "complete"];
    assert_eq!(rules, expected);
}
