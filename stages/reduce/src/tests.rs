use assay_manifest::{Attempt, Environment, HostFacts};
use serde_json::json;

use super::*;
use crate::aggregate::summarise;
use crate::evidence::Found;
use crate::fixture::{Run, attempt, collected, digest, place, plan};

/// What is said of a run whose trials each had one counted attempt, on these nodes, while its target ran on `target`.
fn said(nodes: &[Option<&str>]) -> String {
    let plan = plan(nodes.len());
    let found = plan.trials.iter().zip(nodes).map(|(planned, node)| {
        let place = node.map(|node| place(node, "pod"));
        let found = Found { collected: collected(0, true), attempt: Attempt { place, ..attempt(planned, 0, true) } };
        (planned.clone(), vec![found])
    });
    let run = Run::found(plan.clone(), found.collect());
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
    assert_eq!(said(&[None, None]), "");
    assert_eq!(said(&[Some("a"), Some("a")]), "");
    insta::assert_snapshot!(said(&[Some("a"), Some("b"), Some("a")]), @"moved_load: the counted trials of w.t.default at `one` come from more than one node in shard 0: `a`, `b`");
    insta::assert_snapshot!(said(&[Some("target"), Some("target"), Some("target")]), @"colocated: the load of shard 0 in trial `w.t.default.one.t0` came from the node `target`, on which the target `t` ran; and so did that of 2 others");
    insta::assert_snapshot!(said(&[Some("a"), Some("target")]), @r"
    moved_load: the counted trials of w.t.default at `one` come from more than one node in shard 0: `a`, `target`
    colocated: the load of shard 0 in trial `w.t.default.one.t1` came from the node `target`, on which the target `t` ran
    ");
}
