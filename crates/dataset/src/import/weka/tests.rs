use serde_json::json;

use super::*;
use crate::{BlockMessage, MessageRole};

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
    let failed = json!({"t": 9, "type": "s", "in": 70, "out": 0});
    let value = trace("s1", &[request(1.25, 130, &[0, 1], "tool_use"), request(4.0, 128, &[0, 2], ""), failed]);
    let read = read(&value).expect("a session");
    assert_eq!((read.streams.len(), &read.left_out[..], read.times), (1, &[LeftOutReason::NoResponse][..], None));
    let turns: Vec<_> =
        read.streams[0].turns.iter().map(|turn| (turn.time.map(|time| time.at_ns), turn.output_tokens, turn.course)).collect();
    let course = TurnCourse { service_ns: Some(500_000_000), ..TurnCourse::default() };
    let first = TurnCourse { calls_tool: true, ..course };
    let course = TurnCourse { is_cut: true, ..course };
    assert_eq!(turns, [(Some(1_250_000_000), Some(5), first), (Some(4_000_000_000), Some(5), course)]);
    // 100 tokens of tools and 20 of instructions are two blocks.
    let messages = vec![BlockMessage(MessageRole::System, 2), BlockMessage(MessageRole::User, 0)];
    let blocks = TokenBlocks { tokens: 130, size: 64, ids: vec![0, 1], scope: Some(read.session), messages };
    assert_eq!(read.streams[0].turns[0].content, RowContent::Blocks(blocks));
}

#[test]
fn blocks_of_two_traces_are_different_ones() {
    let scope = |id| read(&trace(id, &[])).expect("a session").session;
    assert_ne!(scope("a"), scope("b"));
}

#[test]
fn ids_may_cover_less_than_the_input_all_of_it_or_end_in_a_partial_block() {
    let ids = |input, ids: &[u64]| read(&trace("s", &[request(0.0, input, ids, "")])).map(|read| read.streams[0].turns.len());
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
    insta::assert_snapshot!(damaged("type", Value::Null), @"row 3 has request 2 without a text `type`, which is `n`, `s` or `subagent`");
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

/// A subagent with an id. Its own members are those of `more`.
fn subagent(t: f64, agent: &str, more: &Value, requests: &[Value]) -> Value {
    let mut subagent = json!({"t": t, "type": "subagent", "agent_id": agent, "status": "completed", "requests": requests});
    for (name, value) in more.as_object().expect("an object") {
        subagent[name] = value.clone();
    }
    subagent
}

/// Returns the streams of a session: parent, if nothing waits for its end, and the times of its turns in milliseconds.
fn streams(read: &TraceSession) -> Vec<(Option<usize>, bool, Vec<i64>)> {
    let at_ms = |row: &Row| row.time.map_or(-1, |time| time.at_ns / 1_000_000);
    let listed = |stream: &TraceStream| (stream.parent, stream.is_background, stream.turns.iter().map(at_ms).collect());
    read.streams.iter().map(listed).collect()
}

#[test]
fn a_subagent_is_a_stream_whose_times_count_from_the_session_or_from_itself() {
    let session = |times: [f64; 4]| {
        let [first, second, inner, of_inner] = times;
        let within = subagent(inner, "b", &json!({}), &[request(of_inner, 64, &[9], "")]);
        let outer = subagent(2.0, "a", &json!({}), &[request(first, 64, &[7], ""), within, request(second, 64, &[7], "")]);
        read(&trace("s", &[request(1.0, 64, &[0], "tool_use"), outer, request(9.0, 64, &[0], "")])).expect("a session")
    };
    let expected = [(None, false, vec![1_000, 9_000]), (Some(0), false, vec![2_500, 5_000]), (Some(1), false, vec![4_000])];
    let absolute = session([2.5, 5.0, 3.0, 4.0]);
    assert_eq!((streams(&absolute), absolute.times), (expected.to_vec(), Some(SubagentTimes::Session)));
    let relative = session([0.5, 3.0, 1.0, 1.0]);
    assert_eq!((streams(&relative), relative.times), (expected.to_vec(), Some(SubagentTimes::Subagent)));
    assert_eq!(relative.streams[1].turns[0].content, absolute.streams[1].turns[0].content);
}

#[test]
fn the_times_of_a_file_have_one_origin() {
    let mut sessions = Sessions::default();
    let of = |id: &str, t: f64, first: f64| {
        trace(id, &[request(0.0, 64, &[0], ""), subagent(t, "a", &json!({}), &[request(first, 64, &[1], "")])])
    };
    let neutral = session(3, &of("n", 0.0, 0.0), &mut sessions).expect("shows neither");
    assert_eq!(neutral.times, None);
    session(4, &of("a", 2.0, 2.25), &mut sessions).expect("since the start of the session");
    let refused = session(5, &of("r", 2.0, 0.25), &mut sessions).expect_err("both").to_string();
    insta::assert_snapshot!(refused, @"row 5 has request 2 whose own requests have times since the start of the subagent, and those of a subagent of row 4 have times since the start of the session: the times of a file have one origin");
}

#[test]
fn a_subagent_has_an_end_that_is_recorded_or_is_waited_for_by_nothing() {
    let endless = || {
        let mut request = request(3.0, 64, &[1], "");
        request["api_time"] = Value::Null;
        request
    };
    let read = |more: Value, last: Value| {
        let read = read(&trace("s", &[request(1.0, 64, &[0], ""), subagent(2.0, "a", &more, &[last])])).expect("a session");
        (read.streams[1].is_background, read.streams[1].turns[0].course.service_ns)
    };
    assert_eq!(read(json!({}), request(3.0, 64, &[1], "")), (false, Some(500_000_000)));
    assert_eq!(read(json!({"duration_ms": 1_750}), endless()), (false, Some(750_000_000)));
    assert_eq!(read(json!({}), endless()), (true, None));
    assert_eq!(read(json!({"status": "async_launched"}), request(3.0, 64, &[1], "")), (true, Some(500_000_000)));
}

#[test]
fn a_subagent_that_is_there_twice_is_left_out_the_second_time() {
    let agent = |id: &str, input| subagent(2.0, id, &json!({}), &[request(2.0, input, &[1], "")]);
    let anonymous = || {
        let mut subagent = agent("", 64);
        subagent["agent_id"] = Value::Null;
        subagent
    };
    let requests =
        [request(1.0, 64, &[0], ""), agent("a", 64), agent("b", 64), agent("a", 64), agent("a", 60), anonymous(), anonymous()];
    let read = read(&trace("s", &requests)).expect("a session");
    assert_eq!((read.streams.len(), read.duplicates, read.duplicate_requests), (6, 1, 1));
}

#[test]
fn members_that_the_format_does_not_have_are_noted() {
    let with = |of: &str| {
        let (mut first, mut inner) = (request(1.0, 64, &[0], ""), request(2.0, 64, &[1], ""));
        let mut agent = subagent(2.0, "a", &json!({"subagent_type": "find", "models": [], "total_tokens": 5}), &[]);
        let place = match of {
            "request" => &mut first,
            "inner" => &mut inner,
            _ => &mut agent,
        };
        place["misspelt"] = json!(1);
        agent["requests"] = json!([inner]);
        let mut session = trace("s", &[first, agent]);
        session["totals"] = json!({});
        session
    };
    let unread = |value: &Value| read(value).expect("a session").unread;
    let misspelt = Some(vec!["misspelt".to_owned()]);
    assert_eq!(["request", "inner", "subagent"].map(|of| unread(&with(of))), [misspelt.clone(), misspelt.clone(), misspelt]);
    let mut session = trace("s", &[request(1.0, 64, &[0], "")]);
    assert_eq!(unread(&session), None);
    session["Hello, how are you today?"] = json!(1);
    assert_eq!(unread(&session), Some(Vec::new()));
    let mut many = request(2.0, 64, &[0], "");
    for number in 100..1_000 {
        many[format!("other_{number}")] = json!(1);
    }
    session["requests"] = json!([many]);
    assert_eq!(unread(&session).map(|names| names.len()), Some(8));
}

#[test]
fn a_damaged_subagent_says_what_is_wrong() {
    let refused = |name: &str, value: Value| {
        let mut agent = subagent(2.0, "a", &json!({}), &[request(2.0, 64, &[1], "")]);
        agent[name] = value;
        refusal(&trace("s", &[request(1.0, 64, &[0], ""), agent]))
    };
    insta::assert_snapshot!(refused("t", Value::Null), @"row 3 has request 2 that has a `t` that is no time: a number from 0 on");
    insta::assert_snapshot!(refused("requests", json!(1)), @"row 3 has a subagent, request 2, without a list `requests`");
    insta::assert_snapshot!(refused("system_tokens", json!("x")), @"row 3 has request 2 with `system_tokens` that are not a number of tokens");
    insta::assert_snapshot!(refused("duration_ms", json!([])), @"row 3 has request 2 that has a `duration_ms` that is no time: a number from 0 on");
    insta::assert_snapshot!(refused("requests", json!([{"t": 2.0, "type": "x"}])), @"row 3 has request 1 of request 2 of a `type` that is none of `n`, `s` and `subagent`");
    let two = json!([request(3.0, 64, &[1], ""), request(2.5, 64, &[1], "")]);
    insta::assert_snapshot!(refused("requests", two), @"row 3 has request 2 of request 2 that is earlier than the one before");
    let deep = (0..40).fold(request(1.0, 64, &[1], ""), |inner, _| subagent(1.0, "a", &json!({}), &[inner]));
    let found = refusal(&trace("s", &[request(1.0, 64, &[0], ""), deep]));
    assert!(found.ends_with("within more than 16 subagents"), "{found}");
}

#[test]
fn each_stream_has_its_own_system_prompt_and_messages() {
    use MessageRole::{Assistant, System, User};

    let inner = [request(2.0, 128, &[7, 8], ""), request(3.0, 256, &[7, 8, 9, 10], "")];
    let agent = subagent(2.0, "a", &json!({"tool_tokens": 60, "system_tokens": null}), &inner);
    let session = trace("s", &[request(1.0, 192, &[0, 1, 2], "tool_use"), agent, request(9.0, 320, &[0, 1, 2, 3, 4], "")]);
    let read = read(&session).expect("a session");
    let messages = |stream: usize| -> Vec<Vec<BlockMessage>> {
        let of = |row: &Row| match &row.content {
            RowContent::Blocks(blocks) => blocks.messages.clone(),
            other => panic!("blocks: {other:?}"),
        };
        read.streams[stream].turns.iter().map(of).collect()
    };
    let parts =
        |parts: &[(MessageRole, u32)]| parts.iter().map(|(role, blocks)| BlockMessage(*role, *blocks)).collect::<Vec<_>>();
    // A response of 5 tokens is one block.
    assert_eq!(messages(0), [parts(&[(System, 2), (User, 1)]), parts(&[(System, 2), (User, 1), (Assistant, 1), (User, 1)])]);
    assert_eq!(messages(1), [parts(&[(System, 1), (User, 1)]), parts(&[(System, 1), (User, 1), (Assistant, 1), (User, 1)])]);
}
