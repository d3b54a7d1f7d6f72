//! The options by which users play the sessions of a trace, and what each needs.

use assay_manifest::{Count, SessionPlay, SessionStart};

use super::{TRACE_SESSIONS, replace_part};
use crate::{Work, Workload};

/// A workload that plays them in all these ways.
fn played() -> String {
    let sessions = "sessions: {recycle: true, start: {from: 0.25}, warm_history: true, idle_cap: 10s, marker: true}";
    replace_part(&replace_part(TRACE_SESSIONS, "sessions: {}", sessions), "sessions: 100", "duration: 20m")
}

/// Returns the play of a workload.
fn play_of(text: &str) -> SessionPlay {
    let workload = Workload::parse("a.yaml", text.as_bytes()).expect("a workload");
    let Work::Serving(serving) = &workload.spec.work else { panic!("serving") };
    serving.sessions.as_ref().expect("sessions").play
}

/// Returns the messages on the workload with changes.
fn messages(changes: &[(&str, &str)]) -> Vec<String> {
    let text = changes.iter().fold(played(), |text, (from, to)| replace_part(&text, from, to));
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
    assert_eq!(play_of(&played()), all);
    let changed = |from, to| play_of(&replace_part(&played(), from, to));
    assert_eq!(changed("{from: 0.25}", "{from: 0.25, to: 0.75}").start, start(0.25, 0.75));
    assert_eq!(changed("start: {from: 0.25}, warm_history: true, ", ""), SessionPlay { start: None, warm_history: false, ..all });
    assert!(play_of(TRACE_SESSIONS).is_plain());
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
