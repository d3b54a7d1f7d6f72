//! Sessions over the real binaries: the turns of conversations are the same for any number of shards, come their pause after the response before,
//! repeat what was said, and can be followed to their records.

use std::collections::{BTreeMap, BTreeSet};

use assay_record::{Phase, Record};
use serde_json::{Value, json};

use crate::pipeline::{list, text};
use crate::serving;
use crate::support::{Fixture, PIPELINE};
use crate::traces::{metric, records};

const MS: i64 = 1_000_000;

/// Writes a workload of sessions whose turns add 40 tokens, and whose responses have 8.
fn workload(fixture: &Fixture, load: &str, sessions: &str, more: &str) {
    let fields = format!("  batching_policy: none\n  load: {{{load}}}\n  lengths: D(40,8)\n  sessions: {{{sessions}}}\n{more}");
    serving::workload_of(fixture, "talks", &fields);
}

fn pipeline(fixture: &Fixture, trials: u32, more: &str) {
    let target = "{name: sim, kind: simulator, config: {profile: fast}}";
    fixture.write(PIPELINE, &serving::pipeline(&["talks"], &[target], trials, serving::RETRY_BUDGET, more));
    fixture.commit("talks");
}

/// The records of the last attempt at the only trial of a run, the one that counts.
fn counted(fixture: &Fixture, run_id: &str) -> Vec<Record> {
    records(fixture, run_id).pop().expect("an attempt")
}

/// The records of each session, by the turn.
fn sessions_of(records: Vec<Record>) -> BTreeMap<u64, Vec<Record>> {
    let mut sessions: BTreeMap<u64, Vec<Record>> = BTreeMap::new();
    for record in records {
        sessions.entry(record.session.expect("a session")).or_default().push(record);
    }
    for turns in sessions.values_mut() {
        turns.sort_by_key(|turn| turn.turn);
    }
    sessions
}

#[test]
fn turns_come_their_pause_after_the_response_before_and_are_the_same_in_any_number_of_shards() {
    let fixture = Fixture::bare();
    let think_time = "think_time: {uniform: {min: 5ms, max: 30ms}}";
    workload(
        &fixture,
        "mode: closed, concurrency: [3], sessions: 24",
        &format!("turns: {{uniform: {{min: 1, max: 4}}}}, {think_time}"),
        "",
    );
    let mut schedules = Vec::new();
    for (run_id, shards) in [("one", ""), ("three", "  shards: 3\n")] {
        pipeline(&fixture, 1, shards);
        fixture.run(run_id).success();
        fixture.verify_recomputed(run_id);
        let parts: Vec<Value> =
            fixture.pointers(run_id, "execute").iter().map(|pointer| pointer.load(&fixture.store())).collect();
        let attempts = parts.iter().flat_map(|part| list(&part["body"]["attempts"]).clone());
        schedules.push(attempts.map(|attempt| attempt["serving"]["schedule_digest"].to_string()).collect::<BTreeSet<_>>());
        let all = counted(&fixture, run_id);
        assert!(all.iter().all(|turn| turn.phase == Phase::Measured));
        let sessions = sessions_of(all);
        assert!(sessions.keys().copied().eq(0..24), "every session is played: {:?}", sessions.keys());
        for turns in sessions.values() {
            let planned = turns[0].session_turns.expect("a number");
            assert!(turns.iter().map(|turn| turn.turn.expect("a turn")).eq(0..planned), "{turns:?}");
            for (place, turn) in turns.iter().enumerate() {
                // All that was said before, and the turn's own 40 tokens.
                let said = 40 + u32::try_from(place).expect("few") * 48;
                assert_eq!(
                    (turn.input_tokens_requested, turn.input_tokens, turn.input_tokens_endpoint),
                    (Some(said), said, Some(said))
                );
                assert_eq!(turn.session_start_ns, turns[0].intended_ns);
            }
            for pair in turns.windows(2) {
                let pause = pair[1].intended_ns.expect("a time") - pair[0].end_ns.expect("an end");
                assert!((5 * MS..=30 * MS).contains(&pause), "{pause}");
                assert_eq!(pair[1].session_pauses_ns, pair[0].session_pauses_ns.map(|before| before + pause));
                assert!(pair[1].sent_ns >= pair[1].intended_ns);
                // The endpoint finds at least the whole blocks of the turn before: it was sent as it was.
                let found = pair[1].cached_tokens.expect("the simulator tells");
                assert!(found >= pair[0].input_tokens / 16 * 16, "{found} of {}", pair[0].input_tokens);
            }
        }
        let numbers: BTreeMap<&str, f64> =
            ["session_ms_p50", "session_active_ms_p50", "ttft_first_turn_ms_p50", "ttft_later_turns_ms_p50"]
                .map(|name| (name, metric(&fixture, run_id, "concurrency-3", name)))
                .into();
        assert!(numbers["session_active_ms_p50"] <= numbers["session_ms_p50"], "{numbers:?}");
        assert!(numbers.values().all(|value| *value > 0.0), "{numbers:?}");
        // The cache is large enough for all that the turns before sent.
        assert!((metric(&fixture, run_id, "concurrency-3", "reuse_efficiency") - 1.0).abs() < 1e-9);
    }
    assert_eq!(schedules[0].len(), 1);
    assert_eq!(schedules[0], schedules[1]);
    let compared = fixture.assay(&["compare", "one", "three"]).success();
    assert!(!compared.stdout.contains("history: "), "recorded prompts are the same for every endpoint: {}", compared.stdout);
}

#[test]
fn sessions_arrive_in_an_open_loop_and_live_history_repeats_the_responses() {
    let fixture = Fixture::bare();
    let load = "mode: open, rate: [40], arrival: constant, duration: 600ms, warmup: 200ms";
    workload(&fixture, load, "turns: 3, think_time: 10ms, history: live", "");
    pipeline(&fixture, 1, "");
    fixture.run("live").success();
    fixture.verify("live").success();
    let all = counted(&fixture, "live");
    assert!(all.iter().any(|turn| turn.phase == Phase::Warmup) && all.iter().any(|turn| turn.phase == Phase::Measured));
    let sessions = sessions_of(all);
    // 40 a second for 0.8 s.
    assert!(sessions.keys().copied().eq(0..32), "{:?}", sessions.keys());
    let complete: Vec<_> = sessions.values().filter(|turns| turns.len() == 3).collect();
    assert!(!complete.is_empty(), "no session came to its end");
    for turns in complete {
        assert_eq!(turns[0].intended_ns, turns[0].session_start_ns);
        for pair in turns.windows(2) {
            assert_eq!(pair[1].intended_ns, pair[0].end_ns.map(|end| end + 10 * MS));
            // The endpoint's own words: what it counts is what it said, and the 40 words of the turn.
            let said = pair[0].input_tokens_endpoint.expect("counted") + pair[0].output_tokens.expect("counted") + 40;
            assert_eq!(pair[1].input_tokens_endpoint, Some(said));
        }
    }
    let shown = fixture.assay(&["show", "live", "--all"]).success();
    assert!(shown.stdout.contains("40 sessions/s"), "{}", shown.stdout);
    let rate =
        fixture.assay(&["query", "SELECT session_rate_per_s, request_rate_per_s FROM serving_outcome_fact", "--format", "csv"]);
    assert!(rate.success().stdout.contains("40.0,"), "the rate is one of sessions");
    let remark = "history: prompts of talks repeat the endpoint's own responses, so the two runs may have asked differently";
    let compared = fixture.assay(&["compare", "live", "live"]).success();
    assert!(compared.stdout.contains(remark), "{}", compared.stdout);
}

#[test]
fn the_conversations_of_a_dataset_are_played_whole_each_once_before_any_is_repeated() {
    let fixture = Fixture::bare();
    let conversation = |turns: &[(&str, &str)]| {
        let said: Vec<Value> = turns.iter().map(|(from, value)| json!({"from": from, "value": value})).collect();
        json!({"conversations": said})
    };
    let file = json!([
        conversation(&[("system", "be brief"), ("human", "one two three"), ("gpt", "a b"), ("human", "four"), ("gpt", "c d e")]),
        conversation(&[("human", "five six"), ("gpt", "f"), ("human", "seven"), ("gpt", "g h"), ("human", "eight nine ten")]),
        conversation(&[("gpt", "unasked"), ("human", "not played")]),
        conversation(&[("human", "alone"), ("gpt", "i j k l")]),
    ]);
    fixture.write("workloads/talks/chats.json", &file.to_string());
    for (run_id, history) in [("recorded", "recorded"), ("live", "live")] {
        let fields = format!(
            "  batching_policy: none
  load: {{mode: closed, concurrency: [2], sessions: 6}}
  dataset: {{path: chats.json, format: sharegpt}}
  sessions: {{think_time: 1ms, history: {history}}}
  cache: shared
"
        );
        serving::workload_of(&fixture, "talks", &fields);
        pipeline(&fixture, 1, "");
        fixture.run(run_id).success();
        fixture.verify_recomputed(run_id);
        let plan = fixture.manifest(run_id, "plan");
        let summary = &plan["body"]["workloads"][0]["serving"]["prompts"]["summary"];
        let counts = ["read", "rows", "sessions", "without_prompt"].map(|name| text(&summary[name]).to_owned());
        assert_eq!(counts, ["4", "6", "3", "1"], "{summary}");
        let played = sessions_of(counted(&fixture, run_id));
        // Of each turn, the tokens of the prompt by the record, and those of the requested response.
        let mut shapes: Vec<Vec<(u32, Option<u32>)>> = Vec::new();
        for turns in played.values() {
            shapes.push(
                turns.iter().map(|turn| (turn.input_tokens_requested.expect("known"), turn.output_tokens_requested)).collect(),
            );
            for turn in turns {
                assert_eq!(turn.input_tokens_endpoint, Some(turn.input_tokens), "{run_id}: {turn:?}");
                // The responses have as many words as the recorded ones, so that live history is as long as recorded history.
                assert_eq!(turn.input_tokens_requested, Some(turn.input_tokens), "{run_id}: {turn:?}");
            }
        }
        let expected = [vec![(5, Some(2)), (8, Some(3))], vec![(2, Some(1)), (4, Some(2)), (9, None)], vec![(1, Some(4))]];
        assert_eq!(shapes.len(), 6);
        for half in shapes.chunks(3) {
            let half: BTreeSet<_> = half.iter().cloned().collect();
            assert_eq!(half, expected.iter().cloned().collect(), "{run_id}: each once before any is repeated");
        }
    }
    let refused = fixture.assay(&[
        "bench",
        "--simulator",
        "fast",
        "--concurrency",
        "1",
        "--dataset",
        "workloads/talks/chats.json",
        "--dataset-format",
        "csv",
        "--sessions",
        "think_time=1s",
    ]);
    assert!(refused.exits(2).stderr.contains("a dataset of the format `csv` has no conversations"), "csv");
}

#[test]
fn a_turn_that_fails_ends_its_session() {
    let fixture = Fixture::new();
    let bench =
        ["bench", "--simulator", "fast", "--concurrency", "2", "--input-tokens", "9", "--output-tokens", "3", "--trials", "1"];
    let sessions = ["--sessions", "turns=4,think_time=1ms..2ms,count=12", "--run-id", "well"];
    fixture.assay(&[&bench[..], &sessions].concat()).success();
    let shown = fixture.assay(&["show", "well"]).success();
    assert!(shown.stdout.contains("active"), "sessions have a column of their own: {}", shown.stdout);
    fixture.assay(&[&bench[..], &["--requests", "5", "--run-id", "alone"]].concat()).success();
    let shown = fixture.assay(&["show", "alone"]).success();
    assert!(!shown.stdout.contains("session"), "requests that stand for themselves have none: {}", shown.stdout);
    let well = sessions_of(counted(&fixture, "well"));
    assert!(well.len() == 12 && well.values().all(|turns| turns.len() == 4), "{}", well.len());

    let faulty = "{name: sim, kind: simulator, config: {profile: fast, fault: 'status:500', fault_rate: 0.2}}";
    workload(&fixture, "mode: closed, concurrency: [2], sessions: 12", "turns: 4", "");
    fixture.write(PIPELINE, &serving::pipeline(&["talks"], &[faulty], 1, serving::RETRY_BUDGET, ""));
    fixture.commit("talks");
    fixture.run("faulty").success();
    fixture.verify("faulty").success();
    let played = sessions_of(counted(&fixture, "faulty"));
    assert_eq!(played.len(), 12, "each session begins");
    let failed = played.values().filter(|turns| turns.iter().any(|turn| !turn.outcome.is_ok())).count();
    assert!(failed > 0, "a fifth of the responses are 500");
    for turns in played.values() {
        let last = turns.last().expect("a turn");
        assert!(turns.iter().rev().skip(1).all(|turn| turn.outcome.is_ok()), "nothing follows a failure: {turns:?}");
        assert_eq!(last.outcome.is_ok(), turns.len() == 4, "{turns:?}");
    }

    for (sessions, said) in [
        ("turns", "`--sessions turns` is not of the form NAME=VALUE"),
        ("turns=2,turns=3", "`--sessions` gives `turns` twice"),
        ("turns=2,history=both", "must be one of `recorded`, `live`"),
    ] {
        let refused = fixture.assay(&[&bench[..], &["--sessions", sessions]].concat());
        assert!(refused.stderr.contains(said), "{sessions}: {}", refused.stderr);
    }
}
