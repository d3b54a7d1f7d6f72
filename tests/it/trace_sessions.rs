//! The sessions of traces over the real binaries: their turns follow the response before by the recorded pause, in any number of shards, and
//! both the client's lateness and the endpoint's back-pressure are in the results.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use assay_record::{Phase, Record};
use serde_json::{Value, json};

use crate::pipeline::{list, text};
use crate::server::{AfterResponse, Server, complete_stream};
use crate::serving;
use crate::support::{CommandResult, Fixture, PIPELINE};
use crate::traces::{metric, records};

const MS: i64 = 1_000_000;

/// A request of Weka's format, which calls a tool or not.
pub(crate) fn request(t: f64, input: u32, ids: &[u32], stop: &str, api_time: f64) -> Value {
    json!({"t": t, "type": "n", "model": "m", "in": input, "out": 4, "hash_ids": ids, "stop": stop, "api_time": api_time})
}

/// Four sessions: of three turns with a subagent whose request failed, of two turns, and of one. All of them begin with the same ids, which are different blocks.
fn weka() -> String {
    let session = |id: &str, requests: Value| {
        let trace = json!({"id": id, "models": ["m"], "block_size": 64, "hash_id_scope": "local", "requests": requests});
        trace.to_string() + "\n"
    };
    let subagent =
        json!({"t": 0.04, "type": "subagent", "agent_id": "a1", "requests": [{"t": 0.05, "type": "n", "in": 9, "out": 0}]});
    let first = json!([
        request(0.0, 130, &[0, 1], "tool_use", 0.02),
        subagent,
        request(0.1, 200, &[0, 1, 2, 3], "end_turn", 0.03),
        request(0.25, 256, &[0, 1, 2, 4], "", 0.01),
    ]);
    let second = json!([request(5.0, 70, &[0], "", 0.01), request(5.05, 140, &[0, 1, 2], "", 0.01)]);
    let one = || json!([request(0.0, 64, &[0], "", 0.01)]);
    [session("a", first), session("b", second), session("c", one()), session("d", one())].concat()
}

/// The records of each session, by the turn.
pub(crate) fn sessions_of(records: Vec<Record>) -> BTreeMap<u64, Vec<Record>> {
    let mut sessions: BTreeMap<u64, Vec<Record>> = BTreeMap::new();
    for record in records {
        sessions.entry(record.session.expect("a session")).or_default().push(record);
    }
    for turns in sessions.values_mut() {
        turns.sort_by_key(|turn| turn.turn);
    }
    sessions
}

/// Checks that turns follow the end of the response before by these pauses, and are planned at these times since the start of the session.
fn check_turns(turns: &[Record], pauses_ms: &[i64], planned_ms: &[i64]) {
    assert_eq!(turns.len(), planned_ms.len(), "{turns:?}");
    for (turn, planned_ms) in turns.iter().zip(planned_ms) {
        assert_eq!(turn.session_start_ns, turns[0].intended_ns);
        assert_eq!(turn.planned_ns, turns[0].intended_ns.map(|start| start + planned_ms * MS));
        assert!(turn.sent_ns >= turn.intended_ns);
    }
    for (pair, pause_ms) in turns.windows(2).zip(pauses_ms) {
        assert_eq!(pair[1].intended_ns, pair[0].end_ns.map(|end| end + pause_ms * MS));
    }
}

pub(crate) fn schedules(fixture: &Fixture, run_id: &str) -> BTreeSet<String> {
    let parts: Vec<Value> = fixture.pointers(run_id, "execute").iter().map(|pointer| pointer.load(&fixture.store())).collect();
    let attempts = parts.iter().flat_map(|part| list(&part["body"]["attempts"]).clone());
    attempts.map(|attempt| attempt["serving"]["schedule_digest"].to_string()).collect()
}

/// Runs the workload `agents` in each of these numbers of shards, as the runs `shards-1` and so on, verifies them and has the records of their sessions
/// checked. All of them have one schedule.
pub(crate) fn check_in_shards(fixture: &Fixture, counts: &[u32], check: impl Fn(&str, &BTreeMap<u64, Vec<Record>>)) {
    let mut digests = BTreeSet::new();
    for count in counts {
        let (run_id, shards) = (format!("shards-{count}"), format!("  shards: {count}\n"));
        fixture.write(PIPELINE, &serving::pipeline(&["agents"], &[serving::SIMULATOR], 1, serving::RETRY_BUDGET, &shards));
        fixture.commit("agents");
        fixture.run(&run_id).success();
        fixture.verify_recomputed(&run_id);
        digests.extend(schedules(fixture, &run_id));
        check(&run_id, &sessions_of(records(fixture, &run_id).pop().expect("an attempt")));
    }
    assert_eq!(digests.len(), 1, "{digests:?}");
}

#[test]
fn sessions_of_a_trace_are_played_at_a_concurrency_by_any_number_of_shards() {
    let fixture = Fixture::bare();
    fixture.write("workloads/agents/trace.jsonl", &weka());
    let fields = "  batching_policy: none
  load: {mode: closed, concurrency: [3], sessions: 4}
  trace: {path: trace.jsonl, format: weka, max_gap: 100ms, max_tool_time: 60ms}
  sessions: {header: x-session-id}
";
    serving::workload_of(&fixture, "agents", fields);
    check_in_shards(&fixture, &[1, 3], |run_id, played| {
        assert!(played.keys().copied().eq(0..4), "{:?}", played.keys());
        // The tool takes 80 ms of which 20 are cut, and the person 120 ms of which 20 are cut.
        check_turns(&played[&0], &[60, 100], &[0, 80, 210]);
        check_turns(&played[&1], &[40], &[0, 50]);
        let tokens = |session: u64| played[&session].iter().map(|turn| turn.input_tokens_endpoint).collect::<Vec<_>>();
        assert_eq!([tokens(0), tokens(1)], [vec![Some(130), Some(200), Some(256)], vec![Some(70), Some(140)]]);
        let found = |session: u64| played[&session].iter().map(|turn| turn.cached_tokens.unwrap_or(0)).collect::<Vec<_>>();
        // Whole blocks of the session's own turns before, and nothing of other sessions.
        assert_eq!([found(0), found(1), found(2), found(3)], [vec![0, 128, 192], vec![0, 64], vec![0], vec![0]]);
        // The responses before the last turn took 20 + 30 ms and 10 ms in the trace.
        let live = |session: u64| {
            let last = played[&session].last().expect("a turn");
            let [start, pauses] = [last.session_start_ns, last.session_pauses_ns].map(|ns| ns.expect("a time"));
            (last.intended_ns.expect("a time") - start - pauses) as f64 / 1e6
        };
        let stretch = f64::midpoint(live(0) / 50.0, live(1) / 10.0);
        assert!((metric(&fixture, run_id, "concurrency-3", "session_stretch_p50") - stretch).abs() < 1e-9);
        assert!((metric(&fixture, run_id, "concurrency-3", "reuse_efficiency") - 1.0).abs() < 1e-9);
        for name in ["back_pressure_ms_p50", "send_lateness_ms_p50"] {
            assert!(metric(&fixture, run_id, "concurrency-3", name).is_finite());
        }
    });
    let plan = fixture.manifest("shards-1", "plan");
    let summary = &plan["body"]["workloads"][0]["serving"]["prompts"]["summary"];
    let turns = &summary["times"]["turns"];
    let counts =
        ["subagents", "subagent_requests", "beyond_blocks", "whole_blocks", "partial_blocks"].map(|name| text(&turns[name]));
    assert_eq!(counts, ["1", "1", "2", "3", "2"], "{summary}");
    assert_eq!([text(&turns["tool_time"]["cut_ns"]), text(&turns["think_time"]["cut_ns"])], ["20000000"; 2]);
    let shown = fixture.assay(&["show", "shards-1", "--all"]).success();
    assert!(shown.stdout.contains("1 subagent with 1 request left out"), "{}", shown.stdout);
}

#[test]
fn sessions_of_a_trace_are_replayed_from_their_recorded_starts() {
    let fixture = Fixture::bare();
    let row = |session: &str, at_ms: u32, words: &str, service_ms: Option<u32>| {
        let row = json!({"session_id": session, "at_ms": at_ms, "prompt": words, "output_tokens": 3, "service_ms": service_ms});
        row.to_string() + "\n"
    };
    let trace = [
        row("x", 1_000, "one two three", Some(40)),
        row("y", 1_050, "four five", Some(10)),
        row("x", 1_100, "one two three six", Some(5)),
        row("y", 1_200, "four five seven", None),
    ];
    fixture.write("workloads/replayed/trace.jsonl", &trace.concat());
    let fields = "  batching_policy: none
  load: {mode: replay, speed: [1, 2]}
  trace: {path: trace.jsonl, format: timed_jsonl}
  sessions: {}
  cache: shared
";
    serving::workload_of(&fixture, "replayed", fields);
    fixture.write(PIPELINE, &serving::pipeline(&["replayed"], &[serving::SIMULATOR], 1, serving::RETRY_BUDGET, ""));
    fixture.commit("a trace");
    fixture.run("replayed").success();
    fixture.verify("replayed").success();
    let mut starts = BTreeSet::new();
    for attempt in records(&fixture, "replayed") {
        assert!(attempt.iter().all(|turn| turn.phase == Phase::Measured));
        let played = sessions_of(attempt);
        let start_ms = |session: u64| played[&session][0].intended_ns.expect("a time") / MS;
        starts.insert((start_ms(0), start_ms(1)));
        let by = if start_ms(1) == 50 { 1 } else { 2 };
        check_turns(&played[&0], &[60 / by], &[0, 100 / by]);
        check_turns(&played[&1], &[140 / by], &[0, 150 / by]);
        // Each row has its whole prompt.
        assert_eq!(played[&0].iter().map(|turn| turn.input_tokens).collect::<Vec<_>>(), [3, 4]);
    }
    assert_eq!(starts, BTreeSet::from([(0, 50), (0, 25)]));
}

/// Plays the Weka trace of the folder on the simulator by one command.
pub(crate) fn bench_weka(fixture: &Fixture, more: &[&str]) -> CommandResult {
    let trace = ["bench", "--simulator", "fast", "--trace", "trace.jsonl", "--trace-format", "weka", "--trials", "1"];
    fixture.assay(&[&trace[..], more].concat())
}

#[test]
fn one_line_plays_the_sessions_of_a_trace_and_says_what_it_cannot() {
    let fixture = Fixture::new();
    fixture.write("trace.jsonl", &weka());
    let bench = |more: &[&str]| bench_weka(&fixture, more);
    bench(&["--sessions", "count=4", "--concurrency", "2", "--run-id", "agents"]).success();
    assert_eq!(records(&fixture, "agents").pop().expect("an attempt").len(), 7);
    fixture.verify("agents").success();
    let refused = |more: &[&str], code: i32| bench(more).exits(code).stderr.clone();
    let found = refused(&["--concurrency", "2"], 2);
    assert!(found.contains("hint: add `--sessions count=N`, the number of sessions that are played"), "{found}");
    let found = refused(&["--sessions", "history=recorded"], 2);
    assert!(found.contains("does not record when its sessions began"), "{found}");
    let found = refused(&["--sessions", "count=5", "--concurrency", "2", "--run-id", "many"], 10);
    assert!(found.contains("the trace has 4, which are played once each, and the trial asks for 5"), "{found}");
    let found =
        refused(&["--sessions", "count=4", "--concurrency", "2", "--max-input", "1", "--over", "skip", "--run-id", "short"], 10);
    let longer = "hint: a larger `--max-input` lets longer prompts pass";
    let shorter = ", and `--over truncate` cuts them, or ends a session before its first longer turn\n";
    assert!(found.contains(&format!("{longer}{shorter}")), "{found}");
    let found = refused(
        &["--sessions", "count=4", "--concurrency", "2", "--max-input", "1", "--over", "truncate", "--run-id", "cut"],
        10,
    );
    assert!(found.contains(&format!("{longer}\n")), "it is given already: {found}");
}

/// A session with a system prompt of 100 tokens, whose second turn adds a response and a message, and whose third replaces them.
fn weka_with_roles() -> String {
    let requests = json!([
        request(0.0, 250, &[0, 1, 2], "tool_use", 0.01),
        request(0.02, 448, &[0, 1, 2, 3, 4, 5, 6], "", 0.01),
        request(0.04, 330, &[0, 1, 2, 3, 9], "", 0.01),
    ]);
    let trace = json!({"id": "r", "models": ["m"], "block_size": 64, "hash_id_scope": "local", "tool_tokens": 60, "system_tokens": 40, "requests": requests});
    trace.to_string() + "\n"
}

/// Plays the trace by this API against a server that keeps the bodies of requests, and returns those of the session.
fn bodies_of(fixture: &Fixture, api: &str) -> Vec<Value> {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&bodies);
    let server = Server::start(serving::MODEL, move |request| {
        kept.lock().expect("no panic").push(serde_json::from_slice(&request.body).expect("JSON"));
        (complete_stream(), AfterResponse::KeepAlive)
    });
    let url = server.url();
    let load = ["--sessions", "count=1", "--concurrency", "1", "--trials", "1", "--cache", "shared"];
    let trace =
        ["bench", "--url", &url, "--model", serving::MODEL, "--api", api, "--trace", "trace.jsonl", "--trace-format", "weka"];
    fixture.assay(&[&trace[..], &load, &["--run-id", api]].concat()).success();
    let bodies = bodies.lock().expect("no panic").clone();
    bodies.into_iter().rev().take(3).rev().collect()
}

#[test]
fn the_blocks_of_a_session_are_messages_of_several_roles_for_apis_that_have_messages() {
    let fixture = Fixture::new();
    fixture.write("trace.jsonl", &weka_with_roles());
    let chat = bodies_of(&fixture, "chat");
    let messages: Vec<&Vec<Value>> = chat.iter().map(|body| list(&body["messages"])).collect();
    let words = |message: &Value| text(&message["content"]).split_whitespace().count();
    let roles = |messages: &Vec<Value>| -> Vec<(String, usize)> {
        messages.iter().map(|message| (text(&message["role"]).to_owned(), words(message))).collect()
    };
    let expected = |parts: &[(&str, usize)]| -> Vec<(String, usize)> {
        parts.iter().map(|(role, tokens)| ((*role).to_owned(), *tokens)).collect()
    };
    // The system prompt of 100 tokens is two blocks of 64, a response of 4 is one, and 58 tokens follow the blocks of the first turn.
    assert_eq!(roles(messages[0]), expected(&[("system", 128), ("user", 122)]));
    assert_eq!(roles(messages[1]), expected(&[("system", 128), ("user", 64), ("assistant", 64), ("user", 192)]));
    // The third turn keeps the response to the first, and has the one to the second instead of the last three blocks. What follows them is the user's.
    assert_eq!(roles(messages[2]), expected(&[("system", 128), ("user", 64), ("assistant", 128), ("user", 10)]));
    assert_eq!(messages[1][..2], messages[2][..2]);
    assert!(text(&messages[2][2]["content"]).starts_with(text(&messages[1][2]["content"])), "an equal block has equal words");
    assert!(text(&messages[0][1]["content"]).starts_with(text(&messages[1][1]["content"])));
    // Words follow from the workload, and so from its API; lengths do not.
    let prompts: Vec<usize> =
        bodies_of(&fixture, "completions").iter().map(|body| text(&body["prompt"]).split_whitespace().count()).collect();
    assert_eq!(prompts, [250, 448, 330]);
    let planned = |run_id: &str| {
        fixture.manifest(run_id, "plan")["body"]["workloads"][0]["serving"]["prompts"]["summary"]["times"]["turns"]["roles"]
            .clone()
    };
    assert_eq!(
        planned("chat"),
        json!({"messages": "10", "system_tokens": "384", "user_tokens": "452", "assistant_tokens": "192", "cut": "1"})
    );
    assert_eq!(planned("completions"), Value::Null);
    let shown = fixture.assay(&["show", "chat", "--all"]).success();
    let words: Vec<&str> = shown.stdout.split_whitespace().collect();
    let counted = "10 messages (384 tokens of the system, 452 of the user, 192 of the assistant), 1 turn that drop or replace messages of the turn before";
    assert!(words.join(" ").contains(counted), "{}", shown.stdout);
}

/// The Weka trace with the pauses that the tests of its play need: two sessions, of which the first has a subagent.
pub(crate) fn weka_to_play() -> String {
    let line = |id: &str, requests: Value| {
        let trace = json!({"id": id, "models": ["m"], "block_size": 64, "hash_id_scope": "local", "tool_tokens": 64, "requests": requests});
        trace.to_string() + "\n"
    };
    let subagent = json!({"t": 0.1, "type": "subagent", "agent_id": "a1", "status": "completed", "requests": [
        request(0.1, 64, &[9], "tool_use", 0.01), request(0.6, 128, &[9, 10], "", 0.01)]});
    let first = json!([
        request(0.0, 130, &[0, 1], "tool_use", 0.02),
        subagent,
        request(0.8, 200, &[0, 1, 2], "end_turn", 0.03),
        request(1.0, 256, &[0, 1, 2, 3], "", 0.01),
    ]);
    let second =
        json!([request(0.0, 70, &[0], "", 0.01), request(0.3, 140, &[0, 1], "", 0.01), request(4.3, 192, &[0, 1, 2], "", 0.01),]);
    [line("a", first), line("b", second)].concat()
}

/// The options by which AgentX plays sessions, with the start at 40 % of each.
const PLAY: &str = "{header: x-session-id, recycle: true, start: {from: 0.4, to: 0.4}, warm_history: true, marker: true";

#[test]
fn recycled_sessions_that_begin_in_their_middle_are_played_by_any_number_of_shards() {
    let fixture = Fixture::bare();
    fixture.write("workloads/agents/trace.jsonl", &weka_to_play());
    let fields = format!(
        "  batching_policy: none
  load: {{mode: closed, concurrency: [2], duration: 3s}}
  trace: {{path: trace.jsonl, format: weka}}
  sessions: {PLAY}}}
  capture: digest
"
    );
    serving::workload_of(&fixture, "agents", &fields);
    check_in_shards(&fixture, &[1, 2], |run_id, played| {
        // The start of the first session is at 400 of 1,000 ms: its subagent goes on after 200 ms, and is joined. That of the second is at 1,720 of 4,300 ms,
        // and its next turn 2,580 ms later. The least of both, 200 ms, is left out.
        let turns = |session: u64| played[&session].iter().map(|turn| turn.turn.expect("a turn")).collect::<Vec<_>>();
        assert_eq!(turns(0), [2, 3, 4]);
        assert_eq!(played[&0].iter().map(|turn| turn.stream).collect::<Vec<_>>(), [Some(1), Some(0), Some(0)]);
        assert!(played[&0].iter().all(|turn| turn.session_turns == Some(3)));
        assert_eq!(turns(1), [2]);
        let since_start = |turn: &Record| turn.intended_ns.zip(turn.session_start_ns).map(|(due, start)| (due - start) / MS);
        assert_eq!((since_start(&played[&0][0]), since_start(&played[&1][0])), (Some(0), Some(2_380)));
        // The next of the order is the first session again, from its first turn.
        assert_eq!(turns(2)[..2], [0, 1]);
        // What the turn before left in the cache is found, up to the last whole block; and the words of each pass are others.
        let found = |session: u64, place: usize| played[&session][place].cached_tokens.unwrap_or(0);
        // The marker stands after the system's message of a block, and is the same before the trial: behind it, the next block is found, too.
        assert!(
            found(0, 1) >= 128 && found(1, 0) >= 128,
            "the history was sent before the trial: {} {}",
            found(0, 1),
            found(1, 0)
        );
        assert_eq!(found(2, 0), 0, "another pass has other words");
        // The marker is counted beside the tokens of the trace.
        assert!(
            played.values().flatten().all(|turn| Some(turn.input_tokens) == turn.input_tokens_requested.map(|tokens| tokens + 4))
        );
        let summary = fixture.manifest(run_id, "reduce");
        let point = &list(&summary["body"]["points"])[0]["serving"];
        assert_eq!((text(&point["warmed_turns"]), &point["idle_cut_ns"]), ("3", &Value::Null));
        assert_eq!(text(&point["sessions"]["begun"]), played.len().to_string());
    });
    let shown = fixture.assay(&["show", "shards-1", "--all"]).success();
    let words: Vec<&str> = shown.stdout.split_whitespace().collect();
    let said = "sessions are recycled; users begin at 40 % to 40 % of a session, whose turn before was sent before the trial; 4 tokens of a marker more for each prompt";
    assert!(words.join(" ").contains(said), "{}", shown.stdout);
    assert!(words.join(" ").contains("3 turns sent before the trials"), "{}", shown.stdout);
}

#[test]
fn idle_time_is_cut_by_one_shard_and_refused_to_several() {
    let fixture = Fixture::bare();
    fixture.write("workloads/agents/trace.jsonl", &weka_to_play());
    let fields = "  batching_policy: none
  load: {mode: closed, concurrency: [2], sessions: 2}
  trace: {path: trace.jsonl, format: weka}
  sessions: {idle_cap: 1s}
";
    serving::workload_of(&fixture, "agents", fields);
    let pipeline = |shards| serving::pipeline(&["agents"], &[serving::SIMULATOR], 1, serving::RETRY_BUDGET, shards);
    fixture.write(PIPELINE, &pipeline("  shards: 2\n"));
    let refused = fixture.assay(&["validate"]).exits(10).stderr.clone();
    assert!(refused.contains("`spec.shards` is 2, and `spec.sessions.idle_cap` of the workload `agents`"), "{refused}");
    fixture.write(PIPELINE, &pipeline(""));
    fixture.commit("agents");
    fixture.run("capped").success();
    fixture.assay(&["verify", "capped", "--recompute"]).success();
    let played = sessions_of(records(&fixture, "capped").pop().expect("an attempt"));
    // Nothing else is in flight once the first session has ended, and the pause of the second is almost four seconds.
    let ends = played.values().flatten().filter(|turn| (turn.session, turn.turn) != (Some(1), Some(2)));
    let latest = ends.filter_map(|turn| turn.end_ns).max().expect("an end");
    let last = &played[&1][2];
    assert_eq!(last.intended_ns, Some(latest + 1_000 * MS));
    let summary = fixture.manifest("capped", "reduce");
    let cut_ns: i64 = text(&list(&summary["body"]["points"])[0]["serving"]["idle_cut_ns"]).parse().expect("nanoseconds");
    assert!(cut_ns > 1_000 * MS, "{cut_ns}");
    assert_eq!(last.planned_ns, last.session_start_ns.map(|start| start + 4_300 * MS - cut_ns));
    let shown = fixture.assay(&["show", "capped", "--all"]).success();
    let words: Vec<&str> = shown.stdout.split_whitespace().collect();
    assert!(words.join(" ").contains("because nothing was in flight for 1 s"), "{}", shown.stdout);
}

#[test]
fn a_history_that_the_endpoint_refuses_is_a_named_error_and_nothing_is_measured() {
    let fixture = Fixture::new();
    fixture.write("trace.jsonl", &weka_to_play());
    let answered = Arc::new(Mutex::new(0_u32));
    let count = Arc::clone(&answered);
    let server = Server::start(serving::MODEL, move |request| {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        // Test requests of provision are short.
        if body.to_string().len() < 600 {
            return (complete_stream(), AfterResponse::KeepAlive);
        }
        *count.lock().expect("no panic") += 1;
        (b"HTTP/1.1 503 No\r\ncontent-length: 4\r\n\r\nbusy".to_vec(), AfterResponse::KeepAlive)
    });
    let url = server.url();
    let trace = ["bench", "--url", &url, "--model", serving::MODEL, "--trace", "trace.jsonl", "--trace-format", "weka"];
    let play =
        ["--sessions", "count=1,start=0.9..0.9,warm_history=true", "--concurrency", "1", "--trials", "1", "--run-id", "refused"];
    let found = fixture.assay(&[&trace[..], &play].concat());
    let shown = format!("{}{}", found.stdout, found.stderr);
    assert!(shown.contains("bring the history of sessions into the endpoint's cache failed"), "{shown}");
    assert!(shown.contains("turn 3 of session 0 (http_error 503"), "{shown}");
    let words = found.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("no request was measured: warm_history_failed, 1 of 1 turns that bring the history"), "{shown}");
    assert!(!shown.contains("0 of 0"), "{shown}");
    let part: Value = fixture.pointers("refused", "execute")[0].load(&fixture.store());
    for attempt in list(&part["body"]["attempts"]) {
        assert_eq!((&attempt["status"], &attempt["serving"]), (&json!("failed"), &Value::Null));
    }
}

#[test]
fn a_result_states_which_rules_of_agentx_it_does_not_meet() {
    let fixture = Fixture::bare();
    fixture.write("workloads/agents/trace.jsonl", &weka());
    let fields = "  batching_policy: none
  load: {mode: closed, concurrency: [3], sessions: 4}
  trace: {path: trace.jsonl, format: weka}
  sessions: {}
  scenario: agentx
  seed: '000000000000000000000000000000000000000000000000000000000000002a'
";
    serving::workload_of(&fixture, "agents", fields);
    fixture.write(PIPELINE, &serving::pipeline(&["agents"], &[serving::SIMULATOR], 1, serving::RETRY_BUDGET, ""));
    fixture.commit("agents");
    fixture.run("judged").success();
    fixture.assay(&["verify", "judged", "--recompute"]).success();
    let summary = fixture.manifest("judged", "reduce");
    let verdict = &list(&summary["body"]["points"])[0]["serving"]["agentx"];
    assert_eq!(verdict["agentx_rules_met"], false, "{summary}");
    let codes: Vec<&str> = list(&verdict["reasons"]).iter().map(|reason| text(&reason["code"])).collect();
    assert_eq!(codes, ["dataset", "duration", "start", "recycle", "idle_cap", "warmup", "marker"]);
    // As AgentX plays them, but for its corpus and its length.
    let as_agentx = fields.replace("sessions: 4}", "duration: 1s}").replace(
        "sessions: {}",
        "sessions: {recycle: true, start: {from: 0, to: 1}, warm_history: true, idle_cap: 10s, marker: true}",
    );
    serving::workload_of(&fixture, "agents", &as_agentx);
    fixture.commit("as AgentX");
    fixture.run("played").success();
    let summary_of_played = fixture.manifest("played", "reduce");
    let reasons = list(&list(&summary_of_played["body"]["points"])[0]["serving"]["agentx"]["reasons"]).clone();
    assert_eq!(reasons.iter().map(|reason| text(&reason["code"])).collect::<Vec<_>>(), ["dataset", "duration"]);
    let shown = fixture.assay(&["show", "judged", "--json"]).success();
    let result: Value = serde_json::from_str(&shown.stdout).expect("JSON");
    assert_eq!(list(&result["results"])[0]["agentx"], *verdict);
    let shown = fixture.assay(&["show", "judged"]).success();
    let words = shown.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for reason in list(&verdict["reasons"]) {
        let whole = format!("{} ({})", text(&reason["code"]), text(&reason["detail"]));
        assert!(words.contains(&whole), "{whole}: {words}");
    }
    let shown = fixture.assay(&["show", "judged", "--all"]).success();
    let words: Vec<&str> = shown.stdout.split_whitespace().collect();
    let shown = words.join(" ");
    assert!(
        shown.contains("the rules of AgentX are not met") && shown.contains("the corpus is not on the allow-list"),
        "{shown}"
    );
}

#[test]
fn one_line_asks_for_the_rules_of_agentx_and_is_refused_what_they_exclude() {
    let fixture = Fixture::new();
    fixture.write("trace.jsonl", &weka());
    let bench = |more: &[&str]| bench_weka(&fixture, &[&["--sessions", "count=4", "--agentx"], more].concat());
    let printed = bench(&["--concurrency", "2", "--print"]).success();
    assert!(printed.stdout.contains("scenario"), "{}", printed.stdout);
    let refused = bench(&["--concurrency", "2", "--max-gap", "1s"]).exits(2).stderr.clone();
    assert!(refused.contains("the rules of `--agentx` keep the recorded pauses between turns"), "{refused}");
    let play = "recycle=true,start=0.25..0.75,warm_history=true,idle_cap=10s,marker=true";
    let print =
        |sessions: &str| bench_weka(&fixture, &["--sessions", sessions, "--concurrency", "2", "--duration", "1s", "--print"]);
    let printed = print(play).success();
    let members = [
        r#""recycle": true"#,
        r#""from": 0.25"#,
        r#""to": 0.75"#,
        r#""warm_history": true"#,
        r#""idle_cap": "10s""#,
        r#""marker": true"#,
    ];
    for member in members {
        assert!(printed.stdout.contains(member), "{member}: {}", printed.stdout);
    }
    let refused = print("recycle=true,warm_history=true").exits(2).stderr.clone();
    assert!(refused.contains("`--sessions warm_history=` needs `--sessions start=`"), "{refused}");
    let refused = print("recycles=true").exits(2).stderr.clone();
    assert!(refused.contains("`--sessions` has no field `recycles`"), "{refused}");
    let refused = print("zzz=true").exits(2).stderr.clone();
    assert!(refused.contains("it takes ") && refused.contains("`--sessions count=`"), "{refused}");
    let endless =
        bench_weka(&fixture, &["--sessions", "history=recorded", "--concurrency", "2", "--print"]).exits(2).stderr.clone();
    assert!(endless.contains("a trial needs `--sessions count=N`, the number of sessions that are played"), "{endless}");
    assert!(endless.contains("or add `--sessions recycle=true`, and write `--duration`"), "{endless}");
    assert!(!endless.contains("--requests"), "{endless}");
    let refused = print("history=recorded").exits(2).stderr.clone();
    assert!(refused.contains("or add `--sessions recycle=true`"), "{refused}");
    // Each hint names what the trial may have, and nothing that is there.
    for (more, hint) in [
        (["--warmup", "1s"], "remove `--warmup`"),
        (["--duration", "1s"], "remove it: `--sessions count=` ends the trial"),
        (["--requests", "5"], "leave out `--requests`; `--sessions count=` ends a trial"),
    ] {
        let line = [&["--sessions", "count=6", "--concurrency", "2", "--print"][..], &more].concat();
        let refused = bench_weka(&fixture, &line).exits(2).stderr.clone();
        let hints: Vec<&str> = refused.lines().filter_map(|line| line.trim().strip_prefix("hint: ")).collect();
        assert_eq!(hints, [hint], "{refused}");
    }
}
