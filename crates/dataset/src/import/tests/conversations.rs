//! Whole conversations, of the formats that have them.

use assay_manifest::Count;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::{RowWriter, TextTokens, Turn};

fn read(format: DatasetFormat, fields: &Fields, text: &str) -> Result<Numbered<Conversation>, String> {
    let conversation = |row| match row {
        FileRow::Conversation(conversation) => conversation,
        FileRow::Request(_) | FileRow::Session(_) => panic!("not a conversation"),
    };
    read_with(&rules(true), format, fields, text, conversation)
}

/// Returns the turns of a file's conversations, each as `added messages > response`. A conversation that is left out is `None`.
fn turns(format: DatasetFormat, text: &str) -> Vec<(u64, Option<Vec<String>>)> {
    let message = |message: &Value| format!("{}: {}", message["role"].as_str().expect("a role"), message["content"]);
    let turn = |turn: &Turn| {
        let added: Vec<String> = turn.messages.iter().map(message).collect();
        format!("{} > {}", added.join(", "), turn.response.as_ref().map_or_else(|| "none".to_owned(), message))
    };
    let read = read(format, &Fields::default(), text).expect("conversations");
    let list = |conversation: Conversation| conversation.turns().iter().map(turn).collect();
    read.into_iter().map(|(row, conversation)| (row, conversation.ok().map(list))).collect()
}

fn refusal(format: DatasetFormat, text: &str) -> String {
    read(format, &Fields::default(), text).expect_err("refused")
}

#[test]
fn sharegpt_gives_all_turns() {
    let text = r#"[
        {"id": "1", "conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "a"}, {"from": "gpt", "value": "b c"},
            {"from": "human", "value": "d"}, {"from": "bard", "value": "e"}, {"from": "user", "value": "f"}]},
        {"id": "2", "conversations": [{"from": "gpt", "value": "b"}, {"from": "human", "value": "d"}]},
        {"id": "3", "conversations": []},
        {"id": "4", "conversation": [{"role": "system", "content": ""}, {"role": "user", "content": "a"}, {"role": "assistant", "content": ""},
            {"role": "observation", "content": "4 apples"}, {"role": "assistant", "content": "g"}]}
    ]"#;
    insta::assert_debug_snapshot!(turns(DatasetFormat::Sharegpt, text), @r#"
    [
        (
            1,
            Some(
                [
                    "system: \"s\", user: \"a\" > assistant: \"b c\"",
                    "user: \"d\" > assistant: \"e\"",
                    "user: \"f\" > none",
                ],
            ),
        ),
        (
            2,
            None,
        ),
        (
            3,
            None,
        ),
        (
            4,
            Some(
                [
                    "user: \"a\" > assistant: \"\"",
                    "tool: \"4 apples\" > assistant: \"g\"",
                ],
            ),
        ),
    ]
    "#);
}

#[test]
fn json_lines_give_all_turns() {
    let text = concat!(
        r#"{"prompt":"a","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}],"system":"s"}"#,
        "\n\n",
        r#"{"messages":[{"role":"system","content":"s"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}"#,
        "\n",
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":null,"tool_calls":[]},{"role":"tool","content":"4"},{"role":"assistant","content":"d"}]}"#,
    );
    insta::assert_debug_snapshot!(turns(DatasetFormat::Jsonl, text), @r#"
    [
        (
            1,
            Some(
                [
                    "system: \"s\", user: \"a\" > assistant: \"b\"",
                    "user: \"c\" > none",
                ],
            ),
        ),
        (
            3,
            None,
        ),
        (
            4,
            Some(
                [
                    "user: [{\"text\":\"a\",\"type\":\"text\"}] > assistant: null",
                    "tool: \"4\" > assistant: \"d\"",
                ],
            ),
        ),
    ]
    "#);
}

#[test]
fn messages_stay_as_they_are() {
    let user = json!({"role": "user", "content": "a", "name": "Ada", "x": [1]});
    let response = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "1"}]});
    let tool = json!({"role": "tool", "content": "4", "tool_call_id": "1"});
    let text = json!({"messages": [user, response, tool]}).to_string();
    let (_, conversation) = read(DatasetFormat::Jsonl, &Fields::default(), &text).expect("conversations").remove(0);
    let expected = [Turn { messages: vec![user], response: Some(response) }, Turn { messages: vec![tool], response: None }];
    assert_eq!(conversation.expect("a conversation").turns(), expected);
}

#[test]
fn fields_name_the_messages_and_the_last_response() {
    let fields = Fields {
        messages: Some("chat.turns".to_owned()),
        output: Some("answer".to_owned()),
        output_tokens: Some("tokens".to_owned()),
        ..Fields::default()
    };
    let text = r#"{"chat":{"turns":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]},"answer":"d e","tokens":7}"#;
    let (_, conversation) = read(DatasetFormat::Jsonl, &fields, text).expect("conversations").remove(0);
    let conversation = conversation.expect("a conversation");
    assert_eq!(conversation.turns()[1].response_texts(), ["d e"]);
    assert_eq!([0, 1].map(|turn| conversation.output_tokens(turn)), [None, Some(7)]);
    let refused = read(DatasetFormat::Jsonl, &named("chat"), text).expect_err("a prompt");
    insta::assert_snapshot!(refused, @"row 1 is read as a conversation, and `fields` names a `prompt`: name `messages` instead");
}

#[test]
fn what_is_no_conversation_is_refused_by_name() {
    insta::assert_snapshot!(refusal(DatasetFormat::Jsonl, "{\"prompt\":\"a\"}"), @"row 1 has no `messages`; it has `prompt`: with `sessions`, each row is a whole conversation");
    insta::assert_snapshot!(refusal(DatasetFormat::Jsonl, "\"a\""), @"row 1 has no `messages`; it has none: with `sessions`, each row is a whole conversation");
    insta::assert_snapshot!(refusal(DatasetFormat::Jsonl, "{\"messages\":\"a\"}"), @"row 1 has messages that are not a list");
    insta::assert_snapshot!(refusal(DatasetFormat::Jsonl, "{\"messages\":[{\"content\":\"a\"}]}"), @"row 1 has a message without a `role`: its message 1");
    insta::assert_snapshot!(refusal(DatasetFormat::Sharegpt, "{\"conversations\":[{\"from\":\"human\",\"value\":\"a\"},{\"from\":\"gpt\"}]}"), @"row 1 has a message without a role and a text: its message 2");
    for format in DatasetFormat::ALL.iter().filter(|format| !format.has_conversations()) {
        let refused = refusal(*format, "");
        assert!(refused.starts_with(&format!("the format `{format}` has no conversations: ")), "{refused}");
    }
    insta::assert_snapshot!(refusal(DatasetFormat::Csv, "prompt\na\n"), @"the format `csv` has no conversations: with `sessions`, a dataset is `sharegpt`, or `jsonl` with `messages` in each row");
}

#[test]
fn a_conversation_of_too_many_turns_is_left_out_and_counted() {
    let entries: Vec<Value> =
        (0..=2_000_u32).map(|place| json!({"from": if place % 2 == 0 { "human" } else { "gpt" }, "value": "a"})).collect();
    let text =
        |lists: &[&[Value]]| lists.iter().map(|list| json!({"conversations": list}).to_string() + "\n").collect::<String>();
    let imported = |text: &str| {
        let mut writer = RowWriter::new(rules(true), &Bytes, Vec::new(), Vec::new()).expect("a writer");
        import(DatasetFormat::Sharegpt, &Fields::default(), &rules(true), text.as_bytes(), &mut |row, content| {
            writer.write(row, content)
        })
        .expect("the file is read to its end");
        writer.finish().map(|(_, _, summary)| summary)
    };
    // The last person's message makes a turn more than 1,000.
    let summary = imported(&text(&[&entries[..2_000], &entries, &entries[..1], &[]])).expect("rows");
    let counted = (summary.read, summary.rows, summary.sessions, summary.too_many_turns, summary.without_prompt);
    assert_eq!(counted, (Count(4), Count(1_001), Some(Count(2)), Some(Count(1)), Count(1)));
    let refused = imported(&text(&[&entries])).expect_err("no row is left").to_string();
    insta::assert_snapshot!(refused, @"the dataset has no prompt: of 1 rows, 0 have no prompt and 0 are too long, 1 have more than 1000 turns");
}

/// A token is a byte.
struct Bytes;

impl TextTokens for Bytes {
    fn count(&self, text: &str) -> Result<u64, String> {
        Ok(text.len() as u64)
    }

    fn truncate<'a>(&self, text: &'a str, _: u32) -> Result<&'a str, String> {
        Ok(text)
    }
}

/// Returns a message of any kind, sound or not.
fn any_message() -> impl Strategy<Value = Value> {
    let role =
        prop::sample::select(vec![json!("system"), json!("user"), json!("assistant"), json!("tool"), json!("human"), json!(1)]);
    let content =
        prop::sample::select(vec![json!("a b"), json!(" "), json!(null), json!([{"type": "text", "text": "c"}]), json!([1])]);
    (role, content, any::<bool>()).prop_map(|(role, content, is_sharegpt)| {
        let [role_name, content_name] = if is_sharegpt { ["from", "value"] } else { ["role", "content"] };
        json!({role_name: role, content_name: content})
    })
}

proptest! {
    #[test]
    fn no_conversation_breaks_the_writer(
        files in prop::collection::vec(prop::collection::vec(any_message(), 0..12), 1..4),
        format in prop::sample::select(vec![DatasetFormat::Jsonl, DatasetFormat::Sharegpt]),
        max_input in prop::option::of(1..20_u32),
        over in prop::sample::select(OverLongPrompt::ALL.to_vec()),
    ) {
        let lines = files.iter().map(|messages| json!({"messages": messages, "conversations": messages}).to_string() + "\n");
        let rules = ImportRules { max_input, over, ..rules(true) };
        let mut writer = RowWriter::new(rules, &Bytes, Vec::new(), Vec::new()).expect("a writer");
        let text: String = lines.collect();
        let take = &mut |number, row| writer.write(number, row);
        if import(format, &Fields::default(), &rules, text.as_bytes(), take).is_ok() && let Ok((rows, index, summary)) = writer.finish() {
            let index = crate::Index::parse(&index).expect("a written index is read");
            prop_assert_eq!(index.rows().map(|row| u64::from(row.bytes) + 1).sum::<u64>(), rows.len() as u64);
            prop_assert_eq!(Some(index.sessions().count() as u64), summary.sessions.map(|sessions| sessions.0));
            prop_assert!(index.rows().all(|row| row.input_tokens <= max_input.unwrap_or(u32::MAX)));
        }
    }

    #[test]
    fn no_bytes_break_it(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for format in DatasetFormat::ALL {
            let _ = import(*format, &Fields::default(), &rules(true), &bytes[..], &mut |_, _| Ok(()));
        }
    }
}
