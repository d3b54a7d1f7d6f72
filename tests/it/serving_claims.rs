//! Serving numbers of a Summary that reduce falsifies with its own key. Where the Plan or the execution parts contradict them, they are refused
//! without any record.

use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use crate::by_hand::Bench;
use crate::forgery::Forgery;
use crate::pipeline::text;
use crate::serving;
use crate::support::{Fixture, PIPELINE};
use crate::trace_sessions::weka_to_play;

/// A run of sessions as AgentX plays them, but for its corpus and its length, and of requests with adapters.
fn measured() -> &'static Fixture {
    static MEASURED: OnceLock<Fixture> = OnceLock::new();
    MEASURED.get_or_init(|| {
        let fixture = Fixture::shared();
        fixture.write("workloads/agents/trace.jsonl", &weka_to_play());
        let agents = "  batching_policy: none
  load: {mode: closed, concurrency: [2], duration: 1s}
  trace: {path: trace.jsonl, format: weka}
  sessions: {recycle: true, start: {from: 0.25, to: 0.75}, warm_history: true, idle_cap: 10s, marker: true}
  scenario: agentx
  seed: '000000000000000000000000000000000000000000000000000000000000002a'
";
        serving::workload_of(&fixture, "agents", agents);
        let adapters = "  adapters: [{name: sql, weight: 3}, {name: chat}]\n";
        serving::workload(&fixture, "load", "mode: closed, concurrency: [3], requests: 60", "D(20,4)", adapters);
        let text = serving::pipeline(&["agents", "load"], &[serving::SIMULATOR], 2, serving::RETRY_BUDGET, "");
        fixture.write(PIPELINE, &text);
        fixture.commit("sessions and adapters");
        fixture.run("one").success();
        fixture
    })
}

/// Returns how a falsification of the serving numbers of a workload's point is detected up to level 3.
fn caught(workload: &str, edit: impl FnOnce(&mut Map<String, Value>)) -> String {
    let falsify = |_: &Bench, manifest: &mut Value| {
        let points = manifest["body"]["points"].as_array_mut().expect("points");
        let is_it = |point: &&mut Value| text(&point["case_id"]).starts_with(workload);
        let point = points.iter_mut().find(is_it).expect("a point of the workload");
        edit(point["serving"].as_object_mut().expect("serving"));
    };
    Forgery::forge_in(Bench::with_runs_of(measured()), "reduce", falsify, |_| {}).describe_detection(3)
}

const REFUSED: &str = "publish: summary_contradicts_itself";

/// Adds to a count.
fn add(field: &mut Value, more: u64) {
    *field = json!((text(field).parse::<u64>().expect("a count") + more).to_string());
}

#[test]
fn an_unchanged_summary_is_accepted() {
    assert_eq!(caught("agents", |_| {}), "level 3 (raw bytes) of 4 reached");
}

#[test]
fn sums_over_execution_parts_are_compared() {
    for field in ["warmed_turns", "idle_cut_ns", "duration_ns", "requests"] {
        assert_eq!(caught("agents", |serving| add(&mut serving[field], 1)), REFUSED, "{field}");
    }
    for field in ["warmed_turns", "idle_cut_ns"] {
        assert_eq!(caught("agents", |serving| drop(serving.remove(field))), REFUSED, "{field}");
        assert_eq!(caught("load", |serving| drop(serving.insert(field.to_owned(), json!("1")))), REFUSED, "{field}");
    }
    let excluded =
        |serving: &mut Map<String, Value>| drop(serving.insert("excluded_outcomes".to_owned(), json!({"timeout": "9"})));
    assert_eq!(caught("load", excluded), REFUSED);
}

#[test]
fn adapters_are_compared_with_the_plan_and_the_requests() {
    assert_eq!(caught("load", |serving| drop(serving.remove("adapters"))), REFUSED);
    assert_eq!(caught("load", |serving| add(&mut serving["adapters"]["sql"]["requests"], 1)), REFUSED);
    let rename = |serving: &mut Map<String, Value>| {
        let adapters = serving["adapters"].as_object_mut().expect("adapters");
        let sql = adapters.remove("sql").expect("an adapter");
        adapters.insert("faster".to_owned(), sql);
    };
    assert_eq!(caught("load", rename), REFUSED);
    let latency = |field: &'static str, value: Value| {
        caught("load", move |serving| serving["adapters"]["sql"]["latencies"]["ttft"][field] = value)
    };
    assert_eq!(latency("n", json!("10000")), REFUSED);
    assert_eq!(latency("p50_ms", json!(1e9)), REFUSED);
}

#[test]
fn sessions_are_compared_with_each_other_and_the_requests() {
    assert_eq!(caught("agents", |serving| drop(serving.remove("sessions"))), REFUSED);
    for field in ["begun", "complete", "failed"] {
        assert_eq!(caught("agents", |serving| add(&mut serving["sessions"][field], 10_000)), REFUSED, "{field}");
    }
    let none = json!({"begun": "0", "complete": "0", "failed": "0"});
    assert_eq!(caught("agents", |serving| serving["sessions"] = none), REFUSED);
    let sessions = json!({"begun": "2", "complete": "2", "failed": "0"});
    assert_eq!(caught("load", |serving| drop(serving.insert("sessions".to_owned(), sessions))), REFUSED);
}

#[test]
fn the_rules_of_agentx_are_judged_again() {
    let met = || json!({"agentx_rules_met": true, "reasons": []});
    assert_eq!(caught("agents", |serving| serving["agentx"] = met()), REFUSED);
    assert_eq!(caught("agents", |serving| drop(serving.remove("agentx"))), REFUSED);
    assert_eq!(caught("load", |serving| drop(serving.insert("agentx".to_owned(), met()))), REFUSED);
    let fewer = |serving: &mut Map<String, Value>| drop(serving["agentx"]["reasons"].as_array_mut().expect("reasons").pop());
    assert_eq!(caught("agents", fewer), REFUSED);
    let longer = |serving: &mut Map<String, Value>| {
        let reasons = serving["agentx"]["reasons"].as_array_mut().expect("reasons");
        let duration = reasons.iter_mut().find(|reason| reason["code"] == "duration").expect("a reason");
        duration["detail"] = json!("the shortest counted trial was measured for 899.000 s, and the rules ask for 900 s");
    };
    assert_eq!(caught("agents", longer), REFUSED);
}
