//! The options by which users play the sessions of a trace, and what each needs.

use assay_manifest::{Count, SessionPlay, SessionStart};

use crate::{Work, Workload};

const PLAYED: &str = "apiVersion: assay.dev/v1alpha1
kind: Workload
metadata: {name: agents}
spec:
  type: serving
  model: m
  precision: fp8
  protocol: openai_compatible_http
  deployment_model: unknown
  batching_policy: unknown
  stack: unknown
  api: chat
  load: {mode: closed, concurrency: [8], duration: 20m}
  trace: {path: trace.jsonl, format: weka}
  sessions: {recycle: true, start: {from: 0.25}, warm_history: true, idle_cap: 10s, marker: true}
";

/// Returns the play of the workload with a change.
fn play(from: &str, to: &str) -> SessionPlay {
    let workload = Workload::parse("a.yaml", PLAYED.replace(from, to).as_bytes()).expect("a workload");
    let Work::Serving(serving) = &workload.spec.work else { panic!("serving") };
    serving.sessions.as_ref().expect("sessions").play
}

/// Returns the messages on the workload with changes.
fn messages(changes: &[(&str, &str)]) -> Vec<String> {
    let text = changes.iter().fold(PLAYED.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    let problems = Workload::parse("a.yaml", text.as_bytes()).expect_err("refused");
    problems.iter().map(|problem| problem.message.clone()).collect()
}

#[test]
fn each_option_is_read_and_off_by_default() {
    let start = |from, to| Some(SessionStart { from, to });
    let all = SessionPlay {
        recycle: true,
        start: start(0.25, 1.0),
        warm_history: true,
        idle_cap_ns: Some(Count(10_000_000_000)),
        marker: true,
    };
    assert_eq!(play("", ""), all);
    assert_eq!(play("{from: 0.25}", "{from: 0.25, to: 0.75}").start, start(0.25, 0.75));
    assert_eq!(play("start: {from: 0.25}, warm_history: true, ", ""), SessionPlay { start: None, warm_history: false, ..all });
    let plain = PLAYED
        .replace("duration: 20m", "sessions: 9")
        .replace("recycle: true, start: {from: 0.25}, warm_history: true, idle_cap: 10s, marker: true", "");
    let workload = Workload::parse("a.yaml", plain.as_bytes()).expect("a workload");
    let Work::Serving(serving) = &workload.spec.work else { panic!("serving") };
    assert!(serving.sessions.as_ref().expect("sessions").play.is_plain());
}

#[test]
fn what_an_option_lacks_is_named() {
    let is_for = |name: &str| format!("`spec.sessions.{name}` is for the sessions of a trace that are played at a concurrency");
    let all = ["recycle", "start", "warm_history", "idle_cap", "marker"].map(is_for);
    assert_eq!(
        messages(&[("format: weka", "format: bailian"), ("mode: closed, concurrency: [8], duration: 20m", "mode: replay")]),
        all
    );
    let drawn = messages(&[
        ("trace: {path: trace.jsonl, format: weka}", "lengths: 'D(9,9)'"),
        ("recycle: true,", "turns: 2, recycle: true,"),
    ]);
    assert_eq!(drawn, all);
    insta::assert_snapshot!(messages(&[("duration: 20m", "sessions: 9")]).join("\n"), @"`spec.load.sessions` would end a trial in which `spec.sessions.recycle` plays sessions until its end");
    insta::assert_snapshot!(messages(&[("recycle: true, ", "")]).join("\n"), @"`spec.load.duration` cannot end a trial that plays each session of a trace once: it may be longer than all of them");
    insta::assert_snapshot!(messages(&[("{from: 0.25}", "{from: 0.75, to: 0.25}")]).join("\n"), @"`spec.sessions.start.to` is below `from`");
    insta::assert_snapshot!(messages(&[("{from: 0.25}", "{from: 1.25}")]).join("\n"), @"`spec.sessions.start.from` must be at least 0 and at most 1, not 1.25");
    insta::assert_snapshot!(messages(&[("start: {from: 0.25}, ", "")]).join("\n"), @"`spec.sessions.warm_history` needs `spec.sessions.start`: before the first turn of a session there is no history");
    insta::assert_snapshot!(messages(&[("idle_cap: 10s", "idle_cap: 999ms")]).join("\n"), @"`spec.sessions.idle_cap` is shorter than `1s`");
    let ids = messages(&[("api: chat", "api: completions\n  token_ids: {least: 1000, most: 31999}")]);
    assert_eq!(ids, ["`spec.sessions.marker` is a text, and prompts are sent as `spec.token_ids`"]);
}
