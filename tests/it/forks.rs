//! Sessions of traces that fork, over the real binaries: subagents are streams of their own, turns overlap only if neither waits for the other, and
//! a turn that joins subagents waits for the last of them.

use assay_record::{Outcome, Record};
use serde_json::{Value, json};

use crate::pipeline::text;
use crate::serving;
use crate::support::{Fixture, PIPELINE};
use crate::trace_sessions::{bench_weka, check_in_shards, request, sessions_of};
use crate::traces::records;

const MS: i64 = 1_000_000;

fn subagent(t: f64, agent: &str, status: &str, requests: &Value) -> Value {
    json!({"t": t, "type": "subagent", "agent_id": agent, "subagent_type": "find", "status": status, "requests": requests})
}

/// A session with two subagents that begin at one time, the first of which has one of its own, with one in the background, and with one that is
/// there twice; then a session of two turns, and one of a single turn.
fn weka() -> String {
    let within = subagent(0.1, "n", "completed", &json!([request(0.1, 100, &[7], "", 0.01)]));
    let first = json!([request(0.05, 128, &[7, 8], "tool_use", 0.03), within, request(0.15, 192, &[7, 8, 9], "", 0.02)]);
    let second = subagent(0.05, "b", "completed", &json!([request(0.05, 150, &[0, 1], "", 0.05)]));
    let background = json!([request(0.07, 64, &[20], "", 0.02), request(0.9, 128, &[20, 21], "", 0.02)]);
    let forked = json!([
        request(0.0, 130, &[0, 1], "tool_use", 0.02),
        subagent(0.05, "a", "completed", &first),
        second,
        subagent(0.07, "c", "async_launched", &background),
        second,
        request(0.25, 256, &[0, 1, 2, 3], "end_turn", 0.03),
        request(0.5, 320, &[0, 1, 2, 3, 4], "", 0.01),
    ]);
    let line = json!([request(0.0, 70, &[0], "", 0.01), request(0.05, 140, &[0, 1], "", 0.01)]);
    let session = |id: &str, requests: &Value| {
        let trace = json!({"id": id, "models": ["m"], "block_size": 64, "hash_id_scope": "local", "requests": requests});
        trace.to_string() + "\n"
    };
    [session("s", &forked), session("line", &line), session("one", &json!([request(0.0, 64, &[0], "", 0.01)]))].concat()
}

/// A turn of the first session by hand: its stream, the turns that it waits for, its pause after the last of them and its time in the trace, both
/// in milliseconds, and the tokens of its prompt that an earlier turn has.
struct Turn(u32, &'static [usize], i64, i64, u32);

/// The turns of the first session, in the order of their times.
const TURNS: [Turn; 9] = [
    Turn(0, &[], 0, 0, 0),
    Turn(1, &[0], 30, 50, 0),
    Turn(2, &[0], 30, 50, 128),
    Turn(3, &[0], 50, 70, 0),
    // The subagent of the first subagent begins at 100, after 50 + 30, and ends at 110.
    Turn(4, &[1], 20, 100, 64),
    Turn(1, &[1, 4], 40, 150, 128),
    // The subagents end at 170 and at 100.
    Turn(0, &[0, 2, 5], 80, 250, 128),
    Turn(0, &[6], 220, 500, 256),
    Turn(3, &[3], 810, 900, 64),
];

/// Checks the records of the first session: each turn is due when it should be, and overlaps only turns that it does not wait for.
fn check_forked(turns: &[Record]) {
    assert_eq!(turns.len(), TURNS.len());
    let start = turns[0].intended_ns.expect("a start");
    let (due, end): (Vec<i64>, Vec<i64>) =
        turns.iter().map(|turn| (turn.intended_ns.expect("due"), turn.end_ns.expect("an end"))).unzip();
    let mut waits_for: Vec<Vec<bool>> = Vec::new();
    for (number, Turn(stream, waits, pause_ms, planned_ms, reused)) in TURNS.iter().enumerate() {
        let turn = &turns[number];
        assert_eq!((turn.turn, turn.stream, turn.outcome), (u32::try_from(number).ok(), Some(*stream), Outcome::Ok));
        assert_eq!(
            (turn.session_turns, turn.session_start_ns, turn.planned_ns),
            (Some(9), Some(start), Some(start + planned_ms * MS))
        );
        let last_end = waits.iter().map(|wait| end[*wait]).max();
        assert!(last_end.is_none_or(|last_end| due[number] == last_end + pause_ms * MS), "turn {number}: {turn:?}");
        assert_eq!(turn.cached_tokens.unwrap_or(0), *reused, "turn {number}");
        let ancestors =
            (0..number).map(|other| waits.iter().any(|wait| *wait == other || waits_for[*wait].get(other) == Some(&true)));
        let ancestors: Vec<bool> = ancestors.collect();
        waits_for.push(ancestors);
    }
    let overlap = |one: usize, other: usize| due[one] < end[other] && due[other] < end[one];
    let pairs = (0..TURNS.len()).flat_map(|later| (0..later).map(move |earlier| (earlier, later)));
    let overlapping: Vec<_> = pairs.filter(|(earlier, later)| overlap(*earlier, *later)).collect();
    assert!(overlapping.iter().all(|(earlier, later)| !waits_for[*later][*earlier]), "{overlapping:?}");
    assert!(overlapping.contains(&(1, 2)), "both subagents are due at one time: {overlapping:?}");
    check_pauses(turns);
}

/// Checks that the pauses of a session are the times in which none of its turns is due or in flight, and that the turn that ended last completes it.
fn check_pauses(turns: &[Record]) {
    let mut turns: Vec<&Record> = turns.iter().collect();
    turns.sort_by_key(|turn| turn.intended_ns);
    let (mut latest, mut pauses) = (turns[0].intended_ns.expect("a start"), 0);
    for turn in &turns {
        pauses += (turn.intended_ns.expect("due") - latest).max(0);
        latest = latest.max(turn.end_ns.expect("an end"));
        assert_eq!(turn.session_pauses_ns, Some(pauses));
    }
    turns.sort_by_key(|turn| turn.end_ns);
    let done: Vec<_> = turns.iter().map(|turn| turn.session_done).collect();
    assert_eq!(done, (1..=turns[0].session_turns.expect("a number")).map(Some).collect::<Vec<_>>());
}

#[test]
fn subagents_are_streams_of_their_session_in_any_number_of_shards() {
    let fixture = Fixture::bare();
    fixture.write("workloads/agents/trace.jsonl", &weka());
    let fields = "  batching_policy: none
  load: {mode: closed, concurrency: [3], sessions: 3}
  trace: {path: trace.jsonl, format: weka}
  sessions: {}
";
    serving::workload_of(&fixture, "agents", fields);
    check_in_shards(&fixture, &[1, 3, 4], |_, played| {
        assert_eq!(played.values().map(Vec::len).collect::<Vec<_>>(), [9, 2, 1]);
        check_forked(&played[&0]);
        for turns in played.values() {
            check_pauses(turns);
        }
    });
    let plan = fixture.manifest("shards-1", "plan");
    let summary = &plan["body"]["workloads"][0]["serving"]["prompts"]["summary"];
    let turns = &summary["times"]["turns"];
    let forks = ["subagents", "turns", "joined", "duplicates"].map(|name| text(&turns["forks"][name]));
    assert_eq!((forks, text(&turns["forks"]["times"])), (["4", "6", "3", "1"], "session"), "{summary}");
    assert_eq!([text(&turns["subagents"]), text(&turns["subagent_requests"])], ["1", "1"]);
    // What the endpoint found is what the trace repeats: here no prompt ends with a block that an earlier one has.
    let found: u32 = records(&fixture, "shards-1").pop().expect("an attempt").iter().filter_map(|turn| turn.cached_tokens).sum();
    assert_eq!(text(&summary["blocks"]["reused_tokens"]), found.to_string());
    assert_eq!(found, TURNS.iter().map(|Turn(.., reused)| reused).sum::<u32>() + 64);
    let shown = fixture.assay(&["show", "shards-1", "--all"]).success();
    let words: Vec<&str> = shown.stdout.split_whitespace().collect();
    assert!(words.join(" ").contains("4 subagents (3 joined) with 6 turns"), "{}", shown.stdout);
}

#[test]
fn a_user_plays_a_session_with_all_its_subagents_before_the_next() {
    let fixture = Fixture::new();
    fixture.write("trace.jsonl", &weka());
    let bench = |more: &[&str]| bench_weka(&fixture, more);
    bench(&["--sessions", "count=3", "--concurrency", "1", "--run-id", "agents"]).success();
    fixture.verify("agents").success();
    let played = sessions_of(records(&fixture, "agents").pop().expect("an attempt"));
    check_forked(&played[&0]);
    let last_end = |session: u64| played[&session].iter().filter_map(|turn| turn.end_ns).max();
    assert!(played[&1][0].intended_ns >= last_end(0), "the subagent in the background ends last");
    assert!(played[&2][0].intended_ns >= last_end(1));
    let refused = bench(&["--sessions", "count=3", "--concurrency", "1", "--connections", "sticky", "--run-id", "sticky"]);
    let found = refused.exits(10).stderr.clone();
    assert!(found.contains("sessions with subagents have several turns in flight, which cannot share one connection"), "{found}");
}

#[test]
fn one_connection_for_sessions_with_subagents_is_refused_before_a_run() {
    let fixture = Fixture::bare();
    fixture.write("workloads/agents/trace.jsonl", &weka());
    let write = |connections: &str| {
        let fields = format!(
            "  batching_policy: none
  load: {{mode: closed, concurrency: [1], sessions: 3, connections: {connections}}}
  trace: {{path: trace.jsonl, format: weka}}
  sessions: {{}}
"
        );
        serving::workload_of(&fixture, "agents", &fields);
        fixture.write(PIPELINE, &serving::pipeline(&["agents"], &[serving::SIMULATOR], 1, serving::RETRY_BUDGET, ""));
    };
    write("sticky");
    let validated = fixture.assay(&["validate"]).exits(10).stderr.clone();
    let planned = fixture.assay(&["plan", PIPELINE]).refuses(10, "definition_invalid").stderr.clone();
    for shown in [validated, planned] {
        assert!(
            shown.contains("sessions with subagents have several turns in flight, which cannot share one connection"),
            "{shown}"
        );
        assert!(shown.contains("`connections: pooled`") && shown.contains("--> workloads/agents/workload.yaml:"), "{shown}");
    }
    write("pooled");
    fixture.assay(&["validate"]).success();
}
