use serde_json::json;

use super::*;

fn request(t: f64, input: u32, ids: &[u64], stop: &str) -> Value {
    json!({"t": t, "type": "n", "model": "m", "in": input, "out": 5, "hash_ids": ids, "stop": stop, "api_time": 0.5})
}

fn trace(id: &str, requests: &[Value]) -> Value {
    json!({"id": id, "models": ["m"], "block_size": 64, "hash_id_scope": "local", "tool_tokens": 100, "system_tokens": 20, "requests": requests})
}

fn read(value: &Value) -> Result<TraceSession, String> {
    session(3, value, &mut Sessions::default()).map_err(|error| error.to_string())
}

fn refusal(value: &Value) -> String {
    read(value).expect_err("refused")
}

#[test]
fn a_session_has_its_requests_and_counts_what_is_left_out() {
    let subagent = json!({"t": 2.0, "type": "subagent", "agent_id": "a", "requests": [{"t": 2.0}, {"t": 3.0}]});
    let failed = json!({"t": 9, "type": "s", "in": 70, "out": 0});
    let value = trace("s1", &[request(1.25, 130, &[0, 1], "tool_use"), subagent, request(4.0, 128, &[0, 2], ""), failed]);
    let read = read(&value).expect("a session");
    assert_eq!((read.subagents, read.subagent_requests, &read.left_out[..]), (1, 2, &[LeftOutReason::NoResponse][..]));
    let turns: Vec<_> =
        read.turns.iter().map(|turn| (turn.time.map(|time| time.at_ns), turn.output_tokens, turn.course)).collect();
    let course = TurnCourse { service_ns: Some(500_000_000), ..TurnCourse::default() };
    let first = TurnCourse { calls_tool: true, ..course };
    assert_eq!(turns, [(Some(1_250_000_000), Some(5), first), (Some(4_000_000_000), Some(5), course)]);
    let blocks = TokenBlocks { tokens: 130, size: 64, ids: vec![0, 1], scope: Some(read.session) };
    assert_eq!(read.turns[0].content, RowContent::Blocks(blocks));
}

#[test]
fn blocks_of_two_traces_are_different_ones() {
    let scope = |id| read(&trace(id, &[])).expect("a session").session;
    assert_ne!(scope("a"), scope("b"));
}

#[test]
fn ids_may_cover_less_than_the_input_all_of_it_or_end_in_a_partial_block() {
    let ids = |input, ids: &[u64]| read(&trace("s", &[request(0.0, input, ids, "")])).map(|read| read.turns.len());
    assert_eq!([ids(300, &[0, 1]), ids(128, &[0, 1]), ids(100, &[0, 1])], [Ok(1), Ok(1), Ok(1)]);
    insta::assert_snapshot!(ids(64, &[0, 1]).expect_err("too many"), @"row 3 has request 1 with 2 blocks, and 64 tokens in blocks of 64 are 1 at most");
}

#[test]
fn a_damaged_session_says_what_is_wrong() {
    let with = |name: &str, value: Value| {
        let mut trace = trace("s", &[request(0.0, 64, &[0], "")]);
        trace[name] = value;
        refusal(&trace)
    };
    insta::assert_snapshot!(with("id", json!(7)), @"row 3 has no text `id`");
    insta::assert_snapshot!(with("hash_id_scope", json!("global")), @"row 3 has no `hash_id_scope` of `local`, the only one whose ids are known to be the trace's own");
    insta::assert_snapshot!(with("block_size", json!(0)), @"row 3 has no `block_size` from 1 to 65536");
    insta::assert_snapshot!(with("tool_tokens", json!(-1)), @"row 3 has `tool_tokens` that are not a number of tokens");
    insta::assert_snapshot!(with("requests", json!({})), @"row 3 has no list `requests`");
    let damaged = |name: &str, value: Value| {
        let mut second = request(1.0, 64, &[0], "");
        second[name] = value;
        refusal(&trace("s", &[request(0.5, 64, &[0], ""), second]))
    };
    insta::assert_snapshot!(damaged("type", json!("x")), @"row 3 has request 2 of a `type` that is none of `n`, `s` and `subagent`");
    insta::assert_snapshot!(damaged("t", Value::Null), @"row 3 has request 2 that has a `t` that is no time: a number from 0 on");
    insta::assert_snapshot!(damaged("t", json!(0.25)), @"row 3 has request 2 that is earlier than the one before");
    insta::assert_snapshot!(damaged("t", json!(0.5)), @"row 3 has request 2 that is the one before again: a request is in a session once");
    insta::assert_snapshot!(damaged("in", json!(1.5)), @"row 3 has request 2 without a number `in` of tokens from 0 to 16000000");
    insta::assert_snapshot!(damaged("api_time", json!("soon")), @"row 3 has request 2 that has a `api_time` that is no time: a number from 0 on");
    insta::assert_snapshot!(damaged("hash_ids", json!("0")), @"row 3 has request 2 that has `hash_ids` that are no list");
    let mut sessions = Sessions::default();
    session(3, &trace("s", &[]), &mut sessions).expect("the first");
    let again = session(4, &trace("s", &[]), &mut sessions).expect_err("again").to_string();
    insta::assert_snapshot!(again, @"row 4 has the `id` of row 3: each session is in a trace once");
}
