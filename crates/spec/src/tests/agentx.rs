use assay_manifest::JudgedScenario;

use super::{TRACE_SESSIONS, replace_part};
use crate::{Work, Workload};

/// A workload that is judged by the rules of AgentX.
fn agentx() -> String {
    format!("{TRACE_SESSIONS}  scenario: agentx\n")
}

/// Returns the messages on the workload with a change.
fn messages(from: &str, to: &str) -> Vec<String> {
    let problems = Workload::parse("a.yaml", replace_part(&agentx(), from, to).as_bytes()).expect_err("refused");
    problems.iter().map(|problem| problem.message.clone()).filter(|message| message.contains("scenario")).collect()
}

#[test]
fn a_workload_may_be_judged_by_the_rules_of_agentx() {
    let workload = Workload::parse("a.yaml", agentx().as_bytes()).expect("a workload");
    let Work::Serving(serving) = &workload.spec.work else { panic!("serving") };
    assert_eq!(serving.scenario, Some(JudgedScenario::Agentx));
    let plain = Workload::parse("a.yaml", TRACE_SESSIONS.as_bytes()).expect("a workload");
    let Work::Serving(serving) = &plain.spec.work else { panic!("serving") };
    assert_eq!(serving.scenario, None);
}

#[test]
fn what_the_rules_of_agentx_exclude_is_refused_by_name() {
    let refused = |from: &str, to: &str, rule: &str| {
        assert_eq!(messages(from, to), [format!("the rules of `spec.scenario` {rule}")], "{to}");
    };
    let prompts = "are for sessions of a trace in Weka's format, and for no synthetic or other prompts";
    refused("format: weka", "format: bailian", prompts);
    refused("trace: {path: trace.jsonl, format: weka}", "lengths: 'D(9,9)'", prompts);
    let mode = "ask for a number of sessions at a time, and for no rate and no schedule";
    refused("mode: closed, concurrency: [8], sessions: 100", "mode: open, rate: [8], sessions: 100", mode);
    refused("mode: closed, concurrency: [8], sessions: 100", "mode: replay", mode);
    refused("[8]", "[8, 16]", "ask for one concurrency, and for no sweep");
    let recorded = "ask for responses of the recorded length (`ignore_eos`)";
    refused("  sessions: {}", "  sessions: {}\n  exact_output: false", recorded);
    refused("format: weka", "format: weka, output: server", recorded);
    refused("format: weka", "format: weka, output: {fixed: 9}", recorded);
    refused("format: weka", "format: weka, max_output: 9", recorded);
    refused("  sessions: {}", "  sessions: {}\n  streaming: false", "ask for streams");
    let cut = "allow no input that is cut or left out for its length";
    refused("format: weka", "format: weka, max_input: 9, over: truncate", cut);
    refused("format: weka", "format: weka, max_input: 9, over: skip", cut);
    let pauses = "keep the recorded pauses between turns";
    refused("format: weka", "format: weka, max_gap: 10s", pauses);
    refused("format: weka", "format: weka, max_tool_time: 10s", pauses);
    assert_eq!(messages("scenario: agentx", "scenario: agent"), ["`spec.scenario` must be `agentx`, not `agent`"]);
}

#[test]
fn one_trial_by_the_rules_of_agentx_needs_enough_sessions_and_no_stated_duration() {
    let one_trial = |text: &str| Workload::parse("a.yaml", text.as_bytes()).expect("a workload").may_count_one_trial();
    assert_eq!(one_trial(&agentx()), Ok(()));
    let few = one_trial(&replace_part(&agentx(), "sessions: 100", "sessions: 49"));
    assert_eq!(few, Err("a trial has 49 sessions, and 50 are needed".to_owned()));
    let plain = one_trial(TRACE_SESSIONS);
    assert_eq!(plain, Err("a trial is not planned to be measured for 900 s".to_owned()));
}
