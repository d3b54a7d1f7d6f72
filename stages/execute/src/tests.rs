use assay_manifest::{Host, HostFacts};
use serde_json::json;

use super::*;

const ZERO: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

fn environment(boot_id: Fact<String>, role: HostRole) -> Environment {
    let environment = json!({
        "plan_digest": ZERO, "block": {"index": 1, "incarnation": 2}, "observed_at": "2026-01-01T00:00:00.000000000Z",
        "hosts": [], "software": [], "targets": [], "controls": [], "placement": {}, "readings": [],
    });
    let facts = HostFacts { boot_id, ..HostFacts::unknown("a test") };
    let hosts = vec![Host { name: "local".to_owned(), roles: vec![role], facts }];
    Environment { hosts, ..serde_json::from_value(environment).expect("an environment") }
}

fn boot(id: &str) -> Fact<String> {
    Fact::observed(id.to_owned(), "/proc")
}

#[test]
fn a_block_is_measured_on_one_boot() {
    let drift = |then, here| check_drift(&environment(then, HostRole::Client), &here);
    assert_eq!(drift(boot("a"), boot("a")), Ok(()));
    assert_eq!(drift(Fact::unknown("no /proc"), boot("a")), Ok(()), "what is not known cannot differ");
    assert_eq!(drift(boot("a"), Fact::unknown("no /proc")), Ok(()));
    let failure = drift(boot("a"), boot("b")).expect_err("another boot");
    insta::assert_snapshot!(failure, @r"
    error[drift]: the block was provisioned under boot id a, but this machine runs under b

    hint: the block has to be provisioned anew; `assay run` with the same run id does so
    ");
    assert_eq!(failure.exit, assay_stage::Exit::Environment);
    let failure = check_drift(&environment(boot("a"), HostRole::Target), &boot("a")).expect_err("no client");
    assert_eq!(failure.code.as_str(), "no_client_host");
}

#[test]
fn the_environment_is_the_block_s_own() {
    let check = |index, incarnation| check_block(&environment(boot("a"), HostRole::Client), Block { index, incarnation });
    assert_eq!(check(1, 2), Ok(()));
    insta::assert_snapshot!(check(1, 0).expect_err("another incarnation"), @"error[other_block]: the environment is of block 1.2, not of 1.0");
    assert!(check(0, 2).is_err());
}

fn plan(workload: &serde_json::Value) -> Plan {
    let plan = json!({
        "pipeline": {"name": "p", "path": "p.yaml", "digest": ZERO},
        "source": {"kind": "adhoc", "dirty": true, "files_digest": ZERO},
        "intent": "exploratory", "controls": [], "workloads": [workload],
        "targets": [{
            "name": "local", "kind": "host", "command": [], "env": [{"name": "A", "value": "target"}],
            "ready_timeout_ns": "0", "hardware": {},
        }],
        "variants": [{"name": "default", "env": [{"name": "A", "value": "variant"}]}],
        "cases": [{
            "case_id": "w.local.default", "workload": "w", "target": "local", "variant": "default",
            "points": [{"point_id": "one", "kind": "parameters", "value": {"SIZE": "64"}}],
        }],
        "trial_policy": {"count": 1, "retry_budget": 0}, "isolation": "none", "placement": "coexist",
        "order": {"seed": "00", "digest": ZERO},
        "trials": [{"trial_id": "w.local.default.one.t0", "case_id": "w.local.default", "point_id": "one", "index": 0, "block": 0}],
        "unpinned": [], "queries": [],
    });
    serde_json::from_value(plan).expect("a plan")
}

fn indicator() -> serde_json::Value {
    let artifact = json!({"name": "a", "digest": ZERO, "size": "0", "media_type": "text/plain"});
    let script = json!({"path": "run.sh", "origin": "run.sh", "executable": true, "artifact": artifact});
    json!({
        "name": "w", "workload_type": "indicator", "workload_spec_digest": ZERO, "spec": artifact, "seed": "00", "metrics": [],
        "indicator": {"script": script, "files": [], "parameters": {"SIZE": "1", "MODE": "fast"}, "time_limit_ns": "1"},
    })
}

#[test]
fn what_cannot_be_run_is_refused_by_name() {
    assert_eq!(check_runnable(&plan(&indicator())), Ok(()));
    let mut training = indicator();
    training["workload_type"] = json!("training");
    training.as_object_mut().expect("an object").remove("indicator");
    insta::assert_snapshot!(check_runnable(&plan(&training)).expect_err("not yet"), @r"
    error[workload_type]: execute cannot run workload `w`: its type `training` is not one that this version runs

    hint: this version runs workloads of type `serving` and `indicator`
    ");
}

#[test]
fn a_trial_whose_plan_has_lost_something_is_refused_by_name() {
    let whole = plan(&indicator());
    let refused = |change: fn(&mut Plan)| {
        let mut plan = whole.clone();
        change(&mut plan);
        let trial = plan.trials[0].clone();
        Runner::new(&plan, &trial).err().expect("refused").message
    };
    assert!(Runner::new(&whole, &whole.trials[0]).is_ok());
    insta::assert_snapshot!(refused(|plan| plan.cases.clear()), @"the plan has no case for trial `w.local.default.one.t0`");
    insta::assert_snapshot!(refused(|plan| plan.cases[0].points.clear()), @"the plan has no point for trial `w.local.default.one.t0`");
    insta::assert_snapshot!(refused(|plan| plan.workloads.clear()), @"the plan has no workload for trial `w.local.default.one.t0`");
    insta::assert_snapshot!(refused(|plan| plan.workloads[0].indicator = None), @"the plan has no script for trial `w.local.default.one.t0`");
    insta::assert_snapshot!(refused(|plan| plan.targets.clear()), @"the plan has no target for trial `w.local.default.one.t0`");
    insta::assert_snapshot!(refused(|plan| plan.variants.clear()), @"the plan has no variant for trial `w.local.default.one.t0`");
}
