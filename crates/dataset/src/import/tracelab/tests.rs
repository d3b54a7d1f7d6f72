use serde_json::json;

use super::*;

fn row(session: &str, number: u32, tokens: u32, prefix: u32, seconds: [&str; 2]) -> Value {
    let event = |kind: &str, at: &str| json!({"event_type": kind, "timestamp": format!("2026-08-25T00:00:{at}Z")});
    json!({
        "provider": "p", "session_id": session, "round_index": number, "input_tokens_total": tokens, "prefix_tokens": prefix,
        "newly_append_tokens": tokens - prefix, "output_tokens": 5,
        "timing_events": [event("user_message", seconds[0]), event("text", seconds[1])]
    })
}

fn blocks(row: Result<Row, LeftOut>) -> Vec<u64> {
    let RowContent::Blocks(blocks) = row.expect("a request").content else { panic!("a length") };
    assert_eq!(blocks.ids.len(), blocks.tokens.div_ceil(BLOCK) as usize);
    blocks.ids
}

#[test]
fn a_round_begins_with_the_blocks_that_the_cache_and_the_prompt_before_have() {
    let mut rounds = Rounds::default();
    let mut read = |number, tokens, prefix| {
        let value = row("a", number, tokens, prefix, ["00", "01"]);
        blocks(round(1, &value, &mut rounds).expect("a row"))
    };
    assert_eq!(read(0, 200, 130), [0, 1, 2, 3], "no prompt before it");
    // The prompt before has 200 tokens: 3 whole blocks, of which the cache had all.
    assert_eq!(read(1, 300, 220), [0, 1, 2, 4, 5]);
    // 130 tokens are two whole blocks.
    assert_eq!(read(2, 260, 130), [0, 1, 6, 7, 8]);
    assert_eq!(read(5, 64, 0), [9], "a context that was made anew");
}

#[test]
fn a_round_lasts_from_its_first_event_to_its_last() {
    let mut value = row("a", 0, 10, 0, ["02.5", "04"]);
    let read = |value: &Value| round(1, value, &mut Rounds::default()).expect("a row").expect("a request");
    let first = read(&value);
    assert_eq!(first.time.map(|time| time.at_ns % 60_000_000_000), Some(2_500_000_000));
    assert_eq!(first.course, TurnCourse { service_ns: Some(1_500_000_000), ..TurnCourse::default() });
    value["timing_events"][1]["event_type"] = json!("tool_call");
    assert!(read(&value).course.calls_tool);
    assert_ne!(
        first.time.and_then(|time| time.session),
        read(&row("b", 0, 10, 0, ["00", "01"])).time.and_then(|time| time.session)
    );
}

#[test]
fn members_that_the_format_does_not_have_are_noted() {
    let mut value = row("a", 0, 10, 0, ["00", "01"]);
    let read = |value: &Value| round(1, value, &mut Rounds::default()).expect("a row").expect("a request").unread;
    (value["tools"], value["timing_events"][0]["source"]) = (json!([]), json!("user"));
    assert_eq!(read(&value), None, "members of the format that are not read");
    (value["ouput_tokens"], value["timing_events"][1]["event_typ"]) = (json!(5), json!("tool_call"));
    assert_eq!(read(&value), Some(vec!["event_typ".to_owned(), "ouput_tokens".to_owned()]));
}

#[test]
fn a_damaged_round_says_what_is_wrong() {
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut rounds = Rounds::default();
        round(1, &row("a", 3, 64, 0, ["00", "01"]), &mut rounds).expect("the first").expect("a request");
        let mut second = row("a", 4, 128, 64, ["02", "03"]);
        change(&mut second);
        round(2, &second, &mut rounds).expect_err("refused").to_string()
    };
    insta::assert_snapshot!(refused(&|row| row["round_index"] = json!(3)), @"row 2 has round 3 of its session again, as row 1 shows");
    insta::assert_snapshot!(refused(&|row| row["round_index"] = json!(2)), @"row 2 has round 2 of its session after a later one, as row 1 shows");
    insta::assert_snapshot!(refused(&|row| row["newly_append_tokens"] = json!(65)), @"row 2 has 64 `prefix_tokens` and 65 `newly_append_tokens`, which are not its 128 `input_tokens_total`");
    insta::assert_snapshot!(refused(&|row| row["prefix_tokens"] = json!(-1)), @"row 2 has `prefix_tokens` that are not a number from 0 to 16000000");
    insta::assert_snapshot!(refused(&|row| row["timing_events"][0]["timestamp"] = json!(17)), @"row 2 has an event whose `timestamp` is no time such as `2026-05-10T00:00:00.5Z`");
    insta::assert_snapshot!(refused(&|row| row["timing_events"] = json!([])), @"row 2 has `timing_events` without any event, so that its time is not known");
    insta::assert_snapshot!(refused(&|row| row["timing_events"] = json!("now")), @"row 2 has `timing_events` that are no list");
    insta::assert_snapshot!(refused(&|row| row["session_id"] = Value::Null), @"row 2 lacks `session_id`: a round of TraceLab has `session_id`, `round_index`, `input_tokens_total`, `prefix_tokens`, `newly_append_tokens`, `output_tokens` and `timing_events`");
}
