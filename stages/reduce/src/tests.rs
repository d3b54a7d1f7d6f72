use assay_manifest::{Attempt, Environment, HostFacts};
use serde_json::json;

use super::*;
use crate::aggregate::summarise;
use crate::evidence::ShardAttempt;
use crate::fixture::{Run, attempt, collected, digest, place, plan};

/// Returns the issues of a run whose trials each had one counted attempt, on these nodes, while its target ran on `target`.
fn issues_text(nodes: &[Option<&str>]) -> String {
    let plan = plan(nodes.len());
    let found = plan.trials.iter().zip(nodes).map(|(planned, node)| {
        let place = node.map(|node| place(node, "pod"));
        let found = ShardAttempt { collected: collected(0, true), attempt: Attempt { place, ..attempt(planned, 0, true) } };
        (planned.clone(), vec![found])
    });
    let run = Run::with_attempts(plan.clone(), found.collect());
    let environment = json!({
        "plan_digest": digest("plan"), "block": {"index": 0, "incarnation": 0}, "observed_at": "2026-01-01T00:00:00.000000000Z",
        "hosts": [{"name": "target", "roles": ["target"], "facts": HostFacts::unknown("a test")}],
        "software": [], "targets": [], "controls": [], "placement": {"cluster": "kubernetes", "node/t": "target"}, "readings": [],
    });
    let environment: Environment = serde_json::from_value(environment).expect("an environment");
    let case = &plan.cases[0];
    let summary = summarise(&plan.workloads[0], case, &case.points[0], &[], digest("collection")).expect("a summary");
    let environments = [&environment];
    let context = RowContext { environments: &environments, ..run.context() };
    issues(&[summary], &context).iter().map(|issue| format!("{}: {}", issue.code, issue.detail)).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_summary_says_where_load_came_from_if_that_matters() {
    assert_eq!(issues_text(&[None, None]), "");
    assert_eq!(issues_text(&[Some("a"), Some("a")]), "");
    insta::assert_snapshot!(issues_text(&[Some("a"), Some("b"), Some("a")]), @"moved_load: the counted trials of w.t.default at `one` come from more than one node in shard 0: `a`, `b`");
    insta::assert_snapshot!(issues_text(&[Some("target"), Some("target"), Some("target")]), @"colocated: the load of shard 0 in trial `w.t.default.one.t0` came from the node `target`, on which the target `t` ran; and so did that of 2 others");
    insta::assert_snapshot!(issues_text(&[Some("a"), Some("target")]), @r"
    moved_load: the counted trials of w.t.default at `one` come from more than one node in shard 0: `a`, `target`
    colocated: the load of shard 0 in trial `w.t.default.one.t1` came from the node `target`, on which the target `t` ran
    ");
}

#[test]
fn a_summary_says_how_the_sides_of_a_comparison_differ_besides() {
    let mut plan = plan(1);
    let side = |target: &str| json!({"target": target, "variant": "default"});
    let comparison = json!({"baseline": side("t"), "candidate": side("u"), "variable_under_test": "runtime_version"});
    plan.comparison = Some(serde_json::from_value(comparison).expect("a comparison"));
    let trials = plan.trials.iter().map(|planned| {
        (planned.clone(), vec![ShardAttempt { collected: collected(0, true), attempt: attempt(planned, 0, true) }])
    });
    let run = Run::with_attempts(plan.clone(), trials.collect());
    let target = |id: &str, model: &str| {
        let version = json!({"source": "observed", "value": id, "how": "a test"});
        json!({"id": id, "kind": "process", "hosts": [id], "models": [model], "probes": [], "version": version})
    };
    let host = |name: &str| {
        let mut facts = HostFacts::unknown("a test");
        facts.boot_id = assay_manifest::Fact::observed(name.to_owned(), "a test");
        json!({"name": name, "roles": ["target"], "facts": facts})
    };
    let environment = json!({
        "plan_digest": digest("plan"), "block": {"index": 0, "incarnation": 0}, "observed_at": "2026-01-01T00:00:00.000000000Z",
        "hosts": [host("t"), host("u")], "software": [], "targets": [target("t", "small"), target("u", "large")], "controls": [],
        "placement": {}, "readings": [],
    });
    let environment: Environment = serde_json::from_value(environment).expect("an environment");
    let environments = [&environment];
    let context = RowContext { environments: &environments, ..run.context() };
    let said: Vec<_> = issues(&[], &context).iter().map(|issue| format!("{}: {}", issue.code, issue.detail)).collect();
    insta::assert_snapshot!(said.join("\n"), @r"
    sides_differ: besides `runtime_version` the baseline and the candidate differ in `target.models` (small against large)
    confounded_with_placement: the baseline ran on t and the candidate on u
    ");
}
